//! `cargo xtask fuzz FAMILY --minutes N`: the fuzz targets of a family, for so much processor time together.
//!
//! What was found interesting stays in `fuzz/corpus`, so a run goes on where the one before ended. Processor time and executions add up over
//! runs in [`REPORT`], a file of the repository; it is written every few minutes, so a run that is ended has lost little. When a target changes
//! what it reads, its line is taken out. Needs a nightly compiler and `cargo install cargo-fuzz`.

use crate::figures::{Of, TICKS_PER_SECOND, Ticks, ticks};
use crate::steps::{has, root};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

const REPORT: &str = "fuzz/report.tsv";

/// Seconds after which the report is written.
const SLICE: u64 = 240;

/// What may be fuzzed together, and the targets.
const FAMILIES: &[(&str, &[&str])] = &[
    ("traces", &["trace", "columns", "fio_job"]),
    ("records", &["records", "flash_records", "hybrid_records"]),
    ("stack-file", &["stack_file"]),
    ("nbd", &["nbd"]),
    ("control", &["control"]),
    ("case", &["case"]),
];

/// Runs the targets of a family for so many minutes together.
pub fn run(words: &[&str]) -> Result<ExitCode, String> {
    let (family, minutes) = match words {
        [family] => (family, 60),
        [family, "--minutes", minutes] => {
            (family, minutes.parse::<u64>().map_err(|_| (*minutes).to_string())?)
        }
        _ => return Err(words.join(" ")),
    };
    let Some((_, targets)) = FAMILIES.iter().find(|(name, _)| name == family) else {
        let names: Vec<&str> = FAMILIES.iter().map(|(name, _)| *name).collect();
        return Err(format!("{family}; families are {}", names.join(", ")));
    };
    if !has("cargo-fuzz") {
        eprintln!(
            "cargo xtask fuzz: cargo-fuzz is not there: `cargo install cargo-fuzz`, and a nightly compiler"
        );
        return Ok(ExitCode::FAILURE);
    }
    let each = (minutes * 60 / targets.len() as u64).max(1);
    match targets.iter().try_for_each(|target| spend(target, each)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => {
            eprintln!("cargo xtask fuzz: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Runs a target until it has taken so many seconds of processor time.
fn spend(target: &str, wanted: u64) -> Result<(), String> {
    let mut spent = 0;
    while spent < wanted {
        let (seconds, executions) = slice(target, SLICE.min(wanted - spent))?;
        spent += seconds;
        let (all, times) = note(target, seconds, executions)?;
        println!("{target}: {} minutes of processor time and {times} executions in all", all / 60);
    }
    Ok(())
}

/// Runs a target for so many seconds; the processor time that it took, in seconds, and its executions.
fn slice(target: &str, seconds: u64) -> Result<(u64, u64), String> {
    let io = |error: std::io::Error| format!("cargo: {error}");
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
    let cargo = |task: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args(["+nightly", "fuzz", task, target]).current_dir(root());
        cargo
    };
    // Built before, so that what is counted is fuzzing.
    if !cargo("build").status().map_err(io)?.success() {
        return Err(format!("{target} does not build"));
    }
    let before = children_seconds()?;
    let mut fuzz = cargo("run");
    fuzz.args([&corpus, &format!("fuzz/seeds/{target}"), "--", "-print_final_stats=1"]);
    fuzz.arg(format!("-max_total_time={seconds}")).stderr(Stdio::piped());
    let mut child = fuzz.spawn().map_err(io)?;
    let mut executions = None;
    for line in BufReader::new(child.stderr.take().expect("it is piped")).lines() {
        let line = line.map_err(io)?;
        eprintln!("{line}");
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = number.trim().parse().ok();
        }
    }
    if !child.wait().map_err(io)?.success() {
        return Err(format!("{target} has failed; what it failed on is in fuzz/artifacts/{target}"));
    }
    let executions = executions.ok_or_else(|| format!("{target} did not say how often it ran"))?;
    Ok(((children_seconds()? - before).max(1), executions))
}

/// Processor time of all children that have ended, in seconds.
fn children_seconds() -> Result<u64, String> {
    let Ticks { program, kernel } = ticks("self", Of::Children)?;
    Ok((program + kernel) / TICKS_PER_SECOND)
}

/// Adds to what a target has done; all of it.
fn note(target: &str, seconds: u64, executions: u64) -> Result<(u64, u64), String> {
    let path = root().join(REPORT);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines: std::collections::BTreeMap<&str, (u64, u64)> = old
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some((fields.next()?, (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)))
        })
        .collect();
    let sum = lines.entry(target).or_default();
    *sum = (sum.0 + seconds, sum.1 + executions);
    let sum = *sum;
    let rows = lines.iter().map(|(name, (seconds, times))| format!("{name}\t{seconds}\t{times}\n"));
    let text: String =
        std::iter::once("target\tprocessor seconds\texecutions\n".to_string()).chain(rows).collect();
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(sum)
}
