//! `cargo xtask soak [--minutes N] [--cuts N]`: served stacks live with kills, cuts, faults, flipped bits and old copies for so long; guests are cut so
//! often for each kind of stack.
//!
//! What was done adds up over runs in [`REPORT`], a file of the repository, and the next run goes on with seeds that were not lived
//! through. When the rules of a life change, the report begins anew.

use crate::steps::root;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

const REPORT: &str = "crates/live/tests/soak/report.tsv";

pub fn run(words: &[&str]) -> Result<ExitCode, String> {
    let (mut minutes, mut cuts) = (None, None);
    let mut rest = words;
    while let [word, tail @ ..] = rest {
        let (option, [number, tail @ ..]) = (*word, tail) else { return Err((*word).to_string()) };
        let number = number.parse::<u64>().map_err(|_| (*number).to_string())?;
        match option {
            "--minutes" => minutes = Some(number),
            "--cuts" => cuts = Some(number),
            _ => return Err(option.to_string()),
        }
        rest = tail;
    }
    if minutes.is_none() && cuts.is_none() {
        minutes = Some(30);
    }
    let report = root().join(REPORT);
    let lives = minutes.map(|minutes| ("nothing_that_was_flushed", "NANDU_SOAK_MINUTES", minutes));
    let guests = cuts.map(|cuts| ("a_guest_that_is_cut", "NANDU_SOAK_CUTS", cuts));
    for (test, name, number) in lives.into_iter().chain(guests) {
        let mut soak = Command::new("cargo");
        soak.args([
            "test",
            "-p",
            "nandu-live",
            "--test",
            "soak",
            "--",
            test,
            "--include-ignored",
            "--nocapture",
        ]);
        soak.env(name, number.to_string()).env("NANDU_SOAK_REPORT", &report).current_dir(root());
        soak.env("NANDU_SOAK_SEED", next_seed(&report).to_string());
        let status = soak.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            eprintln!(
                "cargo xtask soak: something was lost, or served and wrong; what was done until then is in {REPORT}"
            );
            return Ok(ExitCode::FAILURE);
        }
    }
    print(&report);
    Ok(ExitCode::SUCCESS)
}

/// Lines `kind TAB what TAB count`.
fn lines(report: &Path) -> Vec<(String, String, u64)> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let fields = text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?.to_string(), fields.next()?.to_string(), fields.next()?.parse().ok()?))
    });
    fields.collect()
}

fn next_seed(report: &Path) -> u64 {
    lines(report).iter().find(|(kind, ..)| kind == "next").map_or(1, |(.., seed)| *seed)
}

/// What was done to all kinds together.
fn print(report: &Path) {
    let mut sums = BTreeMap::new();
    for (_, what, many) in lines(report).into_iter().filter(|(kind, ..)| kind != "next") {
        *sums.entry(what).or_insert(0) += many;
    }
    println!("\nso far, over all runs ({REPORT}):");
    for (what, many) in sums {
        println!("{many:>12}  {what}");
    }
}
