//! A soak: lives of served stacks, one after the other, each with kills, power cuts of its legs, faults under load, flipped bits and older copies
//! of its legs. What was flushed is found again, what cannot be served is refused, and nothing is silent.
//!
//! A life alternates two sessions. A *calm* one has no faults: everything is read and held against what is known, a set becomes whole, and
//! what was read once stays. A *rough* one has a fault of one leg and ends by `kill -9`, with volatile caches above the legs in half of the
//! lives, which is a power cut of them. Between a calm session that was closed and the next one a leg may get flipped bits or be
//! exchanged for an older copy.
//!
//! As an ordinary test each kind lives once, shortly. `cargo xtask soak` lets it run for a time, and adds up what was done over runs.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod guest;
mod kinds;
mod life;
mod tally;

use common::process::be_a_server;
use kinds::Kind;
use nandu_base::Rng;
use std::time::{Duration, Instant};
use tally::Tally;

/// Not a test of its own: what a `Process` runs.
#[test]
fn the_server_process() {
    be_a_server();
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// The kinds with `NANDU_SOAK_ONLY` in their name, with their numbers.
fn kinds() -> impl Iterator<Item = (usize, &'static Kind)> {
    let word = std::env::var("NANDU_SOAK_ONLY").unwrap_or_default();
    kinds::KINDS.iter().enumerate().filter(move |(_, kind)| kind.name.contains(&word))
}

/// Lives of one seed are not alike.
fn rng_of(seed: u64, kind: usize) -> Rng {
    Rng::new(seed * kinds::KINDS.len() as u64 + kind as u64)
}

/// Without `NANDU_SOAK_MINUTES` two rounds of each kind. `NANDU_SOAK_SEED` says where seeds begin, and a failure names its own.
#[test]
fn nothing_that_was_flushed_is_lost_and_nothing_is_silent() {
    let minutes = number("NANDU_SOAK_MINUTES");
    let report = std::env::var_os("NANDU_SOAK_REPORT");
    let mut seed = number("NANDU_SOAK_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(0));
    loop {
        for (at, kind) in kinds() {
            let mut tally = Tally::new(kind.name);
            let rounds = if minutes.is_some() { 8 } else { 2 };
            life::live(kind, &mut rng_of(seed, at), rounds, &mut tally)
                .unwrap_or_else(|wrong| panic!("{}, NANDU_SOAK_SEED={seed}: {wrong}", kind.name));
            match &report {
                Some(path) => tally.add_to(path.as_ref(), seed),
                None => assert!(tally.has_looked(), "{} looked at nothing", kind.name),
            }
        }
        seed += 1;
        if Instant::now() >= end {
            return;
        }
    }
}

/// Not a test of its own: what a guest runs.
#[test]
#[ignore = "a guest runs it"]
fn the_guest() {
    guest::be_a_guest(kinds::KINDS);
}

/// `NANDU_SOAK_CUTS` of each kind, on the same images.
#[test]
#[ignore = "needs user-mode Linux and minutes: cargo xtask soak --cuts N"]
fn a_guest_that_is_cut_loses_nothing_that_was_flushed() {
    if !guest::is_possible() {
        return;
    }
    let cuts = number("NANDU_SOAK_CUTS").unwrap_or(1);
    let seed = number("NANDU_SOAK_SEED").unwrap_or(1);
    for (at, kind) in kinds() {
        let mut tally = Tally::new(kind.name);
        guest::live(kind, at, cuts, &mut rng_of(seed, at), &mut tally)
            .unwrap_or_else(|wrong| panic!("{}, NANDU_SOAK_SEED={seed}: {wrong}", kind.name));
        if let Some(path) = std::env::var_os("NANDU_SOAK_REPORT") {
            tally.add_to(path.as_ref(), seed);
        }
    }
}
