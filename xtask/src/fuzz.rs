//! `cargo xtask fuzz FAMILY --minutes N`: the fuzz targets of a family, for a time that adds up over runs.
//!
//! What was found interesting stays in `fuzz/corpus`, so a run goes on where the one before ended; `target/fuzz.tsv` keeps how long each target
//! has run. Needs a nightly compiler and `cargo install cargo-fuzz`.

use crate::steps::{has, root, target_dir};
use std::process::{Command, ExitCode};

/// What may be fuzzed together, and the targets.
const FAMILIES: &[(&str, &[&str])] = &[
    ("traces", &["trace", "columns", "fio_job"]),
    ("records", &["records", "flash_records", "hybrid_records"]),
    ("stack-file", &["stack_file"]),
    ("nbd", &["nbd"]),
    ("control", &["control"]),
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
    for target in *targets {
        let seconds = (minutes * 60 / targets.len() as u64).max(1);
        let corpus = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
        let mut fuzz = Command::new("cargo");
        fuzz.args(["+nightly", "fuzz", "run", target, &corpus, &format!("fuzz/seeds/{target}"), "--"]);
        fuzz.arg(format!("-max_total_time={seconds}")).current_dir(root());
        let status = fuzz.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            eprintln!(
                "cargo xtask fuzz: {target} has failed; what it failed on is in fuzz/artifacts/{target}"
            );
            return Ok(ExitCode::FAILURE);
        }
        println!("{target}: {} minutes in all", note(target, seconds)? / 60);
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds to the time that a target has run; all of it.
fn note(target: &str, seconds: u64) -> Result<u64, String> {
    let path = target_dir().join("fuzz.tsv");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let known = old.lines().filter_map(|line| line.split_once('\t')).filter(|(name, _)| *name == target);
    let sum = known.filter_map(|(_, value)| value.parse::<u64>().ok()).sum::<u64>() + seconds;
    let others = old.lines().filter(|line| !line.starts_with(&format!("{target}\t")));
    let text: String = others.map(|line| format!("{line}\n")).chain([format!("{target}\t{sum}\n")]).collect();
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(sum)
}
