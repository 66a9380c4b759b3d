//! `cargo xtask mutants`: bugs that are planted in the sources, to see which of them the tests and the verified simulation find.
//!
//! All bugs of a run are built into one program, each behind a switch that an environment variable turns on ([`tree`]): so four
//! hundred of them cost one build. `--planted` runs the bugs of the folder `mutants`, which have a story each ([`planted`]); without
//! it bugs are drawn by seed over the sources of all machines ([`drawn`]).
//!
//! State lies under `target/mutants`, and for those that are drawn in `mutants/drawn.tsv`: a run that is stopped goes on where it was.

mod asked;
mod drawn;
mod journal;
mod planted;
mod scan;
mod tree;

use crate::steps::target_dir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The environment variable that turns a mutant on by its number; 0 turns none on.
pub const SWITCH: &str = "NANDU_MUTANT";
/// The environment variable that names a file: with none on, a mutant that would change something is noted there.
const REACHED: &str = "NANDU_MUTANT_REACHED";

/// How to run.
pub struct Options {
    planted: bool,
    /// Numbers to run; all where it is empty.
    only: Vec<u32>,
    seeds: u64,
    seed: u64,
    count: usize,
    /// Minutes after which nothing new is begun.
    minutes: u64,
}

impl Options {
    /// Reads the words after `mutants`; an unknown one is the error.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options =
            Options { planted: false, only: Vec::new(), seeds: 0, seed: 1, count: 400, minutes: u64::MAX };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let value = words.next().ok_or_else(|| format!("{word} takes a number"))?;
                value.parse().map_err(|_| format!("{word} {value}"))
            };
            match word {
                "--planted" => options.planted = true,
                "--only" => options.only.push(number()? as u32),
                "--seeds" => options.seeds = number()?,
                "--seed" => options.seed = number()?,
                "--count" => options.count = number()? as usize,
                "--minutes" => options.minutes = number()?,
                other => return Err(other.into()),
            }
        }
        if options.seeds == 0 {
            options.seeds = if options.planted { 5000 } else { 500 };
        }
        Ok(options)
    }

    fn wants(&self, number: u32) -> bool {
        self.only.is_empty() || self.only.contains(&number)
    }
}

/// Runs the mutants of `options`.
pub fn run(options: &Options) -> ExitCode {
    let ran = if options.planted { planted::run(options) } else { drawn::run(options) };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cargo xtask mutants: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Where state is kept.
fn folder() -> PathBuf {
    target_dir().join("mutants")
}

/// Lines of a file by the number that they begin with; the last line of a number counts.
fn lines_of(path: &Path) -> BTreeMap<u32, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        Some((number.parse().ok()?, rest.to_string()))
    };
    text.lines().filter_map(line).collect()
}
