//! The requests of a sweep: the `[load]` table of its file, in the words of `nandu run`, with the options of the command line over it.

use crate::args::{LoadArgs, SweepArgs, precondition};
use crate::failure::Failure;
use crate::source::{WarmUp, generator, plain};
use clap::Parser;
use nandu_base::registry::nearest;
use nandu_base::{Precondition, Ratio};
use nandu_sim::run::precondition_name;
use std::fmt::Write;
use std::path::Path;

/// Keys of the table: options of `nandu run` without their dashes.
const KEYS: [&str; 17] = [
    "trace",
    "gen",
    "fit",
    "time_scale",
    "closed",
    "rate",
    "cap",
    "warm_up",
    "repeat",
    "extend",
    "limit",
    "trace_format",
    "columns",
    "bad_lines",
    "export",
    "seed",
    "precondition",
];

/// The table read as options.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
    #[arg(long, value_parser = precondition)]
    precondition: Option<Precondition>,
    #[arg(long)]
    seed: Option<u64>,
}

/// What all points of a sweep replay, and on drives in which state.
pub struct Load {
    /// The requests.
    pub args: LoadArgs,
    /// The seed.
    pub seed: u64,
    /// The state of every drive.
    pub precondition: Precondition,
}

impl Load {
    /// The `table` of the sweep file called `file`, which lies in `folder`, with `args` over it.
    pub fn of(table: &toml::Table, file: &str, folder: &Path, args: &SweepArgs) -> Result<Load, Failure> {
        let line = read(table, file)?;
        let mut load = line.load;
        if let Some(trace) = &mut load.trace {
            let beside = folder.join(trace.as_str());
            if generator(trace).is_none() && beside.is_file() {
                *trace = beside.display().to_string();
            }
        }
        Ok(Load {
            args: over(load, &args.load),
            seed: args.seed.or(line.seed).unwrap_or(1),
            precondition: args.precondition.or(line.precondition).unwrap_or(Precondition::Filled),
        })
    }

    /// The options that give the same requests to `nandu run`.
    pub fn options(&self) -> String {
        let mut out = String::new();
        let a = &self.args;
        let mut put = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                let bare = |c: char| c.is_ascii_alphanumeric() || "-_./=%:,".contains(c);
                let quote = if value.chars().all(bare) { "" } else { "'" };
                let _ = write!(out, " --{option} {quote}{value}{quote}");
            }
        };
        put("trace", a.trace.clone());
        for setting in &a.settings {
            put("gen", Some(format!("{}={}", setting.key, plain(&setting.value))));
        }
        let ratio = |r: Ratio| format!("{}/{}", r.num, r.den);
        put("fit", a.fit.map(|f| f.name().into()));
        put("time-scale", a.time_scale.map(ratio));
        put("closed", a.closed.map(|n| n.to_string()));
        put("rate", a.rate.map(|s| (1_000_000_000 / s.0.max(1)).max(1).to_string()));
        put("cap", a.cap.map(|n| n.to_string()));
        put(
            "warm-up",
            a.warm_up.map(|w| match w {
                WarmUp::Requests(n) => n.to_string(),
                WarmUp::Share(share) => format!("{}%", share.of(100)),
            }),
        );
        put("repeat", a.repeat.map(|n| n.to_string()));
        put("extend", a.extend.map(|n| n.to_string()));
        put("limit", a.limit.map(|n| n.to_string()));
        put("trace-format", a.trace_format.clone());
        put("columns", a.columns.as_ref().map(ToString::to_string));
        put("export", a.export.clone());
        put("seed", Some(self.seed.to_string()).filter(|_| self.seed != 1));
        let state = precondition_name(self.precondition);
        put("precondition", Some(state).filter(|_| self.precondition != Precondition::Filled));
        out.trim_start().into()
    }
}

fn read(table: &toml::Table, file: &str) -> Result<Line, Failure> {
    let wrong = |key: &str, why: String| Failure::input(format!("{file}: [load] `{key}`: {why}"));
    let mut words: Vec<String> = Vec::new();
    for (key, value) in table {
        if !KEYS.contains(&key.as_str()) {
            let hint = nearest(key, KEYS)
                .map_or_else(|| format!("known: {}", KEYS.join(", ")), |n| format!("did you mean `{n}`?"));
            return Err(wrong(key, format!("there is no such key; {hint}")));
        }
        let text = |value: &toml::Value| match value {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Integer(n) => Ok(n.to_string()),
            toml::Value::Float(n) => Ok(n.to_string()),
            _ => Err(wrong(key, "a text or a number is expected".into())),
        };
        match (key.as_str(), value) {
            ("gen", toml::Value::Table(settings)) => {
                for (name, value) in settings {
                    words.push(format!("--gen={name}={}", text(value)?));
                }
            }
            ("gen", _) => {
                return Err(wrong(key, "a table is expected, for example gen = { requests = 20000 }".into()));
            }
            _ => words.push(format!("--{}={}", key.replace('_', "-"), text(value)?)),
        }
    }
    Line::try_parse_from(&words).map_err(|error| {
        let text = error.to_string();
        let lines = text.lines().take_while(|l| !l.starts_with("Usage") && !l.starts_with("For more"));
        let lines: Vec<&str> = lines.filter(|l| !l.trim().is_empty()).collect();
        let (first, rest) = lines.split_first().map_or(("", &[][..]), |(f, r)| (*f, r));
        let rest: String = rest.iter().map(|l| format!("\n  {}", l.trim())).collect();
        Failure::input(format!("{file}: [load]: {}{rest}", first.trim_start_matches("error: ")))
    })
}

/// What the command line says over what the file says. A trace of its own brings its own parameters, a pace its own cap.
fn over(file: LoadArgs, own: &LoadArgs) -> LoadArgs {
    let mut all = own.clone();
    if own.trace.is_none() {
        all.trace = file.trace;
        let given: Vec<String> = own.settings.iter().map(|s| s.key.clone()).collect();
        all.settings = file.settings.into_iter().filter(|s| !given.contains(&s.key)).collect();
        all.settings.extend(own.settings.iter().cloned());
        all.trace_format = all.trace_format.or(file.trace_format);
        all.columns = all.columns.or(file.columns);
    }
    if (own.time_scale, own.closed, own.rate) == (None, None, None) {
        (all.time_scale, all.closed, all.rate) = (file.time_scale, file.closed, file.rate);
        all.cap = all.cap.or(file.cap);
    }
    LoadArgs {
        fit: all.fit.or(file.fit),
        warm_up: all.warm_up.or(file.warm_up),
        repeat: all.repeat.or(file.repeat),
        extend: all.extend.or(file.extend),
        limit: all.limit.or(file.limit),
        export: all.export.or(file.export),
        bad_lines: if own.bad_lines == Default::default() { file.bad_lines } else { own.bad_lines },
        ..all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<String, String> {
        let table: toml::Table = text.parse().expect("TOML");
        let line = read(&table, "s.toml").map_err(|f| f.message)?;
        let load = Load {
            args: line.load,
            seed: line.seed.unwrap_or(1),
            precondition: line.precondition.unwrap_or_default(),
        };
        Ok(load.options())
    }

    #[test]
    fn the_table_is_the_options_of_run() {
        let text = "trace = \"mixed-zipf\"\ngen = { requests = 500, space = \"1 GiB\" }\nfit = \"wrap\"\nclosed = 4\nwarm_up = \"10%\"\nseed = 7";
        let said = "--trace mixed-zipf --gen requests=500 --gen 'space=1 GiB' --fit wrap --closed 4 --warm-up 10% --seed 7";
        assert!(words(text).unwrap().starts_with(said), "{:?}", words(text));
    }

    #[test]
    fn what_is_wrong_in_the_table_has_its_key() {
        for (text, why) in [
            ("tarce = \"x\"", "s.toml: [load] `tarce`: there is no such key; did you mean `trace`?"),
            ("closed = [1]", "s.toml: [load] `closed`: a text or a number is expected"),
            ("gen = 7", "s.toml: [load] `gen`: a table is expected"),
            ("closed = 0", "s.toml: [load]: invalid value '0' for '--closed <N>'"),
            ("closed = 1\nrate = 5", "cannot be used with"),
            ("fit = \"squeeze\"", "invalid value 'squeeze' for '--fit <HOW>'"),
        ] {
            let message = words(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
