//! What a run replays, and how: the options of a load by name, as the command line, sweep files and programs give them.

use crate::failure::Failure;
use crate::numbers::some;
use crate::renamed;
use crate::source::{GenSetting, WarmUp, plain};
use nandu_base::registry::nearest;
use nandu_base::units::parse_ratio;
use nandu_base::{BadLines, Precondition, Ratio, Span};
use nandu_sim::run::precondition_name;
use nandu_trace::fit::Fit;
use nandu_trace::{Columns, Requests};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the requests of a load come from.
#[derive(Debug, Clone)]
pub enum Load {
    /// A trace file, `-` for standard input, or the name of a generator.
    Named(String),
    /// They are at hand.
    Given(Requests),
}

impl Load {
    /// Its name, where it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Load::Named(name) => Some(name),
            Load::Given(_) => None,
        }
    }
}

impl From<String> for Load {
    fn from(name: String) -> Load {
        Load::Named(name)
    }
}

impl From<&str> for Load {
    fn from(name: &str) -> Load {
        Load::Named(name.into())
    }
}

/// What a run replays, and how.
#[derive(Debug, Default, Clone)]
pub struct Replay {
    /// The requests. Without them the stack's own workloads run.
    pub trace: Option<Load>,
    /// Parameters of the generator.
    pub settings: Vec<GenSetting>,
    /// How the trace is laid onto the device.
    pub fit: Option<Fit>,
    /// Factor on the times between arrivals.
    pub time_scale: Option<Ratio>,
    /// Requests that are kept outstanding, whatever the arrival times.
    pub closed: Option<u32>,
    /// Time between two requests, whatever the arrival times.
    pub rate: Option<Span>,
    /// Most requests outstanding.
    pub cap: Option<u32>,
    /// Requests at the start that do not count.
    pub warm_up: Option<WarmUp>,
    /// How often the trace is replayed in a row.
    pub repeat: Option<u32>,
    /// How often the load may begin again while the stack is not steady.
    pub extend: Option<u32>,
    /// Take only the first requests.
    pub limit: Option<u64>,
    /// Format of the trace file; recognised by content without it.
    pub trace_format: Option<String>,
    /// What the columns of a file in no known format are, or of Parquet.
    pub columns: Option<Columns>,
    /// What to do with lines that are wrong.
    pub bad_lines: BadLines,
    /// The export that takes the requests; needed when the stack has several.
    pub export: Option<String>,
    /// Seed of everything that is drawn; 1 where none is given.
    pub seed: Option<u64>,
    /// The state of every drive when the run begins; filled where none is given.
    pub precondition: Option<Precondition>,
    /// What to say of keys that were given by the name of the version before.
    pub notes: Vec<String>,
}

/// Keys of a load: the options of `nandu run` without their dashes.
pub const KEYS: [&str; 17] = [
    "trace",
    "gen",
    "fit",
    "time_scale",
    "iodepth",
    "rate_iops",
    "max_outstanding",
    "warmup",
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

impl Replay {
    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// The state of every drive.
    pub fn precondition(&self) -> Precondition {
        self.precondition.unwrap_or(Precondition::Filled)
    }

    /// The same with `value` for the option `key`. A parameter of a generator is `gen` with `NAME=VALUE`.
    ///
    /// # Errors
    /// There is no such option, the value is none of its, or it goes not with another that is given.
    pub fn with(mut self, key: &str, value: &str) -> Result<Replay, Failure> {
        self.set(key, value).map_err(|why| Failure::input(format!("`{key}`: {why}")))?;
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let new = renamed::key(key);
        self.notes.extend(new.as_ref().map(|new| renamed::note(key, new)));
        let key = new.as_deref().unwrap_or(key);
        match key {
            "trace" => self.trace = Some(value.into()),
            "gen" => self.settings.push(value.parse()?),
            "fit" => self.fit = Some(fit(value)?),
            "time_scale" => self.time_scale = Some(time_scale(value)?),
            "iodepth" => self.closed = Some(within(value, 1, 65_536)?),
            "rate_iops" => self.rate = Some(rate(value)?),
            "max_outstanding" => self.cap = Some(within(value, 1, u32::MAX)?),
            "warmup" => self.warm_up = Some(value.parse()?),
            "repeat" => self.repeat = Some(repeats(value)?),
            "extend" => self.extend = Some(within(value, 0, 1_000_000)?),
            "limit" => self.limit = Some(some(value)?),
            "trace_format" => self.trace_format = Some(value.into()),
            "columns" => self.columns = Some(columns(value)?),
            "bad_lines" => self.bad_lines = bad_lines(value)?,
            "export" => self.export = Some(value.into()),
            "seed" => self.seed = Some(value.parse().map_err(|_| whole(value))?),
            "precondition" => self.precondition = Some(precondition(value)?),
            _ => {
                let hint = nearest(key, KEYS);
                let hint = hint.map_or_else(
                    || format!("known: {}", KEYS.join(", ")),
                    |n| format!("did you mean `{n}`?"),
                );
                return Err(format!("unknown key; {hint}"));
            }
        }
        let paces = [
            ("time_scale", self.time_scale.is_some()),
            ("iodepth", self.closed.is_some()),
            ("rate_iops", self.rate.is_some()),
        ];
        let clash = |other: &str| Err(format!("cannot be used with `{other}`"));
        if let Some((other, _)) = paces.iter().find(|(name, given)| *given && *name != key)
            && paces.iter().any(|(name, _)| *name == key)
        {
            return clash(other);
        }
        match (key, self) {
            ("max_outstanding", Replay { closed: Some(_), .. }) => clash("iodepth"),
            ("iodepth", Replay { cap: Some(_), .. }) => clash("max_outstanding"),
            ("columns", Replay { trace_format: Some(_), .. }) => clash("trace_format"),
            ("trace_format", Replay { columns: Some(_), .. }) => clash("columns"),
            _ => Ok(()),
        }
    }

    /// The `table` of options in a file called `file`.
    ///
    /// # Errors
    /// A key or its value is wrong.
    pub fn of(table: &toml::Table, file: &str) -> Result<Replay, Failure> {
        let wrong = |key: &str, why: String| Failure::input(format!("{file}: [load] `{key}`: {why}"));
        let text = |key: &str, value: &toml::Value| match value {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Integer(n) => Ok(n.to_string()),
            toml::Value::Float(n) => Ok(n.to_string()),
            _ => Err(wrong(key, "a text or a number is expected".into())),
        };
        let mut replay = Replay::default();
        for (key, value) in table {
            match (key.as_str(), value) {
                ("gen", toml::Value::Table(settings)) => {
                    for (name, value) in settings {
                        let setting = format!("{name}={}", text(key, value)?);
                        replay.set(key, &setting).map_err(|why| wrong(key, why))?;
                    }
                }
                ("gen", _) => {
                    let why = "a table is expected, for example gen = { requests = 20000 }";
                    return Err(wrong(key, why.into()));
                }
                _ => {
                    let is_known = KEYS.contains(&key.as_str()) || renamed::key(key).is_some();
                    let value = if is_known { text(key, value)? } else { String::new() };
                    replay.set(key, &value).map_err(|why| wrong(key, why))?;
                }
            }
        }
        Ok(replay)
    }

    /// What this one says over what `file` says. A trace of its own brings its own parameters, a pace its own cap.
    pub fn over(&self, file: Replay) -> Replay {
        let mut all = self.clone();
        if self.trace.is_none() {
            all.trace = file.trace;
            let given: Vec<&str> = self.settings.iter().map(|s| s.key.as_str()).collect();
            all.settings = file.settings.into_iter().filter(|s| !given.contains(&s.key.as_str())).collect();
            all.settings.extend(self.settings.iter().cloned());
            // One way of reading takes the place of the other.
            if all.trace_format.is_none() && all.columns.is_none() {
                (all.trace_format, all.columns) = (file.trace_format, file.columns);
            }
        }
        if (self.time_scale, self.closed, self.rate) == (None, None, None) {
            (all.time_scale, all.closed, all.rate) = (file.time_scale, file.closed, file.rate);
            all.cap = all.cap.or(file.cap);
        }
        all.notes.extend(file.notes);
        Replay {
            fit: all.fit.or(file.fit),
            warm_up: all.warm_up.or(file.warm_up),
            repeat: all.repeat.or(file.repeat),
            extend: all.extend.or(file.extend),
            limit: all.limit.or(file.limit),
            export: all.export.or(file.export),
            bad_lines: if self.bad_lines == BadLines::Stop { file.bad_lines } else { self.bad_lines },
            seed: all.seed.or(file.seed),
            precondition: all.precondition.or(file.precondition),
            ..all
        }
    }

    /// The files that it reads.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let trace = self.trace.as_ref().and_then(Load::name).map(PathBuf::from);
        trace.into_iter().chain(self.columns.as_ref().and_then(file_of_columns))
    }

    /// The options that give the same requests to `nandu run`.
    pub fn options(&self) -> String {
        let mut out = String::new();
        let mut put = |option: &str, value: Option<String>| {
            if let Some(value) = value {
                let bare = |c: char| c.is_ascii_alphanumeric() || "-_./=%:,".contains(c);
                let quote = if value.chars().all(bare) { "" } else { "'" };
                let _ = write!(out, " --{option} {quote}{value}{quote}");
            }
        };
        put("trace", self.trace.as_ref().and_then(Load::name).map(str::to_string));
        for setting in &self.settings {
            put("gen", Some(format!("{}={}", setting.key, plain(&setting.value))));
        }
        let ratio = |r: Ratio| format!("{}/{}", r.num, r.den);
        put("fit", self.fit.map(|f| f.name().into()));
        put("time-scale", self.time_scale.map(ratio));
        put("iodepth", self.closed.map(|n| n.to_string()));
        // The nearest rate has this interval; a lower one may have another.
        put("rate-iops", self.rate.map(|s| ((1_000_000_000 + s.0 / 2) / s.0.max(1)).max(1).to_string()));
        put("max-outstanding", self.cap.map(|n| n.to_string()));
        put(
            "warmup",
            self.warm_up.map(|w| match w {
                WarmUp::Requests(n) => n.to_string(),
                WarmUp::Share(share) => share_in_percent(share),
            }),
        );
        put("repeat", self.repeat.map(|n| n.to_string()));
        put("extend", self.extend.map(|n| n.to_string()));
        put("limit", self.limit.map(|n| n.to_string()));
        put("trace-format", self.trace_format.clone());
        put("columns", self.columns.as_ref().map(ToString::to_string));
        put("bad-lines", Some(self.bad_lines.name().into()).filter(|_| self.bad_lines != BadLines::Stop));
        put("export", self.export.clone());
        put("seed", Some(self.seed().to_string()).filter(|_| self.seed() != 1));
        let state = precondition_name(self.precondition());
        put("precondition", Some(state).filter(|_| self.precondition() != Precondition::Filled));
        out.trim_start().into()
    }
}

/// A share as it can be typed: what was typed is told exactly.
fn share_in_percent(share: Ratio) -> String {
    let (mut num, den) = (u128::from(share.num) * 100, u128::from(share.den.max(1)));
    let mut text = (num / den).to_string();
    num %= den;
    for place in 0..20 {
        if num == 0 {
            break;
        }
        if place == 0 {
            text.push('.');
        }
        text += &(num * 10 / den).to_string();
        num = num * 10 % den;
    }
    text + "%"
}

/// A method of laying a trace onto a device.
fn fit(name: &str) -> Result<Fit, String> {
    let names = Fit::ALL.map(Fit::name);
    let found = Fit::ALL.into_iter().find(|fit| fit.name() == name);
    found.ok_or_else(|| format!("`{name}` is not one of {}", names.join(", ")))
}

fn bad_lines(word: &str) -> Result<BadLines, String> {
    let names = BadLines::ALL.map(BadLines::name);
    let found = BadLines::ALL.into_iter().find(|way| way.name() == word);
    found.ok_or_else(|| format!("`{word}` is not one of {}", names.join(", ")))
}

fn whole(text: &str) -> String {
    format!("`{text}` is not a whole number")
}

fn within(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let n: u64 = text.trim().parse().map_err(|_| whole(text))?;
    let n = u32::try_from(n).ok().filter(|n| (least..=most).contains(n));
    n.ok_or_else(|| format!("{text} is not from {least} to {most}"))
}

/// The state of a drive by its name.
///
/// # Errors
/// There is no such state.
pub fn precondition(text: &str) -> Result<Precondition, String> {
    match text {
        "empty" => Ok(Precondition::Empty),
        "filled" => Ok(Precondition::Filled),
        "aged" => Ok(Precondition::Aged),
        _ => {
            let share = text.strip_prefix("fragmented:").and_then(|share| parse_ratio(share).ok());
            share.filter(|share| share.num <= share.den).map(Precondition::Fragmented).ok_or_else(|| {
                "a drive starts empty, filled, aged, or fragmented:SHARE with a share from 0 to 1, such as fragmented:30%"
                    .into()
            })
        }
    }
}

/// How often a trace is replayed: a whole number from 1 on.
///
/// # Errors
/// It is not, or it is too large.
pub fn repeats(text: &str) -> Result<u32, String> {
    u32::try_from(some(text)?).map_err(|_| format!("`{text}` is more than {}", u32::MAX))
}

/// Columns: a list, or a file in TOML that has one.
///
/// # Errors
/// The list is wrong, or the file cannot be read.
pub fn columns(text: &str) -> Result<Columns, String> {
    if !is_file_of_columns(text) {
        return text.parse();
    }
    let file = std::fs::read_to_string(text).map_err(|e| format!("{text}: {e}"))?;
    let table = toml::from_str(&file).map_err(|e| format!("{text}: {e}"))?;
    Columns::of(table).map_err(|e| format!("{text}: {e}")).map(|columns| columns.called(text))
}

/// Whether what describes columns is a file that does.
pub fn is_file_of_columns(text: &str) -> bool {
    text.ends_with(".toml")
}

/// The file that `columns` were read from.
pub fn file_of_columns(columns: &Columns) -> Option<PathBuf> {
    Some(columns.to_string()).filter(|text| is_file_of_columns(text)).map(PathBuf::from)
}

/// What describes columns in a file of `folder`: a file that it names lies beside that file.
pub fn columns_beside(text: &str, folder: &Path) -> String {
    match is_file_of_columns(text) {
        true => folder.join(text).display().to_string(),
        false => text.into(),
    }
}

/// A factor on times, above 0.
///
/// # Errors
/// It is none.
pub fn time_scale(text: &str) -> Result<Ratio, String> {
    match parse_ratio(text).map_err(|e| e.to_string())? {
        ratio if ratio.num == 0 => Err("all requests would arrive at once: use --iodepth N".into()),
        ratio => Ok(ratio),
    }
}

/// Requests per second, as the time between two.
///
/// # Errors
/// It is no such rate.
pub fn rate(text: &str) -> Result<Span, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    match number.parse::<u64>() {
        Ok(n @ 1..=1_000_000_000) => Ok(Span((1_000_000_000 + n / 2) / n)),
        _ => {
            Err("a rate is a whole number of requests per second from 1 to 1000000000, such as 20000/s"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<String, String> {
        let table: toml::Table = text.parse().expect("TOML");
        Replay::of(&table, "s.toml").map(|replay| replay.options()).map_err(|f| f.message)
    }

    #[test]
    fn the_table_is_the_options_of_run() {
        let text = "trace = \"mixed-zipf\"\ngen = { requests = 500, space = \"1 GiB\" }\nfit = \"wrap\"\niodepth = 4\nwarmup = \"10%\"\nseed = 7";
        let said = "--trace mixed-zipf --gen requests=500 --gen 'space=1 GiB' --fit wrap --iodepth 4 --warmup 10% --seed 7";
        assert_eq!(words(text).as_deref(), Ok(said));
    }

    #[test]
    fn the_old_name_of_a_key_is_the_new_one_with_a_note() {
        let of = |text: &str| Replay::of(&text.parse().expect("TOML"), "s.toml").expect("a load");
        let (old, new) = (of("closed = 4\nwarm_up = 7"), of("iodepth = 4\nwarmup = 7"));
        assert_eq!(old.options(), new.options());
        assert_eq!(old.notes, [renamed::note("closed", "iodepth"), renamed::note("warm_up", "warmup")]);
        assert!(new.notes.is_empty());
        assert_eq!(new.over(old).notes.len(), 2, "a note of the file is not lost");
        let twice = words("closed = 4\nrate_iops = 7").expect_err("two paces");
        assert!(twice.contains("`rate_iops`: cannot be used with `iodepth`"), "{twice}");
    }

    #[test]
    fn the_options_give_the_very_same_load() {
        // Rates whose interval is rounded, up and down, small and large.
        let rates =
            (1..4000).chain([15_000, 29_999, 30_000, 77_777, 300_000, 7_000_000, 333_333_333, 1_000_000_000]);
        for n in rates {
            let one = Replay::default().with("rate_iops", &n.to_string()).unwrap();
            let said = one.options();
            let again = said.strip_prefix("--rate-iops ").and_then(|text| rate(text).ok());
            assert_eq!(again, one.rate, "{n}: {said}");
        }
        for share in ["10%", "12.5%", "0.1%", "33.333%", "99.99%", "7 %"] {
            let one = Replay::default().with("warmup", share).unwrap();
            let again: WarmUp = one.options().strip_prefix("--warmup ").unwrap().parse().unwrap();
            for total in [7, 1_000, 123_457, 1 << 40] {
                assert_eq!(again.requests(total), one.warm_up.unwrap().requests(total), "{share} of {total}");
            }
        }
    }

    #[test]
    fn what_is_wrong_in_the_table_has_its_key() {
        for (text, why) in [
            ("tarce = \"x\"", "s.toml: [load] `tarce`: unknown key; did you mean `trace`?"),
            ("iodepth = [1]", "s.toml: [load] `iodepth`: a text or a number is expected"),
            ("gen = 7", "s.toml: [load] `gen`: a table is expected"),
            ("iodepth = 0", "s.toml: [load] `iodepth`: 0 is not from 1 to 65536"),
            ("iodepth = 1\nrate_iops = 5", "s.toml: [load] `rate_iops`: cannot be used with `iodepth`"),
            (
                "max_outstanding = 3\niodepth = 1",
                "s.toml: [load] `max_outstanding`: cannot be used with `iodepth`",
            ),
            ("fit = \"squeeze\"", "`squeeze` is not one of error, "),
        ] {
            let message = words(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn a_drive_is_fragmented_by_a_share() {
        let share = |num, den| Ok(Precondition::Fragmented(Ratio::new(num, den)));
        assert_eq!(precondition("fragmented:30%"), share(30, 100));
        assert_eq!(precondition("fragmented:1/3"), share(1, 3));
        assert_eq!(precondition("aged"), Ok(Precondition::Aged));
        for wrong in ["fragmented", "fragmented:", "fragmented:110%", "fragmented:x", "old"] {
            assert!(precondition(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_an_interval() {
        assert_eq!(rate("20000/s"), Ok(Span(50_000)));
        assert_eq!(rate("3"), Ok(Span(333_333_333)));
        assert!(rate("0/s").is_err() && rate("fast").is_err());
    }
}
