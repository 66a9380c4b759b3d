//! Each planted fault is found by the stories and the random lives, which all end well without it.

use crate::random::{ALL, Mix, hetero_setup, live, setup};
use crate::world::Setup;
use nandu_array::mirror::{HETERO_PLANTS, PLANTS, STORY_PLANTS};
use nandu_base::Plant;

/// Lives that may pass before a fault must have shown itself.
const PATIENCE: u64 = 400;

fn find(name: &str, make: fn(u64) -> Setup, mix: Mix) -> Option<(u64, String)> {
    (0..PATIENCE).find_map(|seed| live(make(seed).plant(name), mix, 150).err().map(|wrong| (seed, wrong)))
}

/// The verified simulation finds what needs a leg that may rest.
const ELSEWHERE: &str = "hetero-mirror-that-rests";

fn all_found(plants: &'static [Plant], find: impl Fn(&'static str) -> Option<(u64, String)> + Sync) {
    let names = plants.iter().filter(|plant| plant.family != Some(ELSEWHERE)).map(|plant| plant.name);
    crate::harness::all_found(names.collect(), |name| {
        find(name).map(|(seed, wrong)| format!("seed {seed}: {wrong}"))
    });
}

#[test]
fn every_planted_fault_is_found() {
    all_found(PLANTS, |name| {
        let early = crate::grow::finds(name).or_else(|| crate::cuts::finds(name, 1, false));
        let early = early.or_else(|| crate::forks::finds(name));
        early.or_else(|| find(name, setup, ALL)).or_else(|| crate::cuts::finds(name, 2, true))
    });
}

/// Faults that the searches below come to late, looked for first where they show.
fn narrow(name: &str) -> Option<(u64, String)> {
    match name {
        "hetero-mirror.flush-without-l"
        | "mirror.pair-before-l"
        | "mirror.solo-before-drain"
        | "mirror.solo-keeps-generation" => crate::cuts::finds(name, 1, true),
        "hetero-mirror.lost-cleared-before-flush" | "hetero-mirror.answered-before-lost-cleared" => {
            crate::cuts::finds_healing(name, 160)
        }
        "mirror.one-survivor-records" => crate::cuts::finds_of_three(name),
        "mirror.solo-overwritten" | "mirror.unreadable-slot-forgotten" => crate::forks::finds(name),
        _ => None,
    }
}

#[test]
fn every_planted_fault_of_a_hetero_mirror_is_found() {
    all_found(HETERO_PLANTS, |name| {
        narrow(name).or_else(|| find(name, hetero_setup, ALL)).or_else(|| crate::cuts::finds(name, 8, true))
    });
}

#[test]
fn every_planted_fault_that_needs_a_story_is_found() {
    all_found(STORY_PLANTS, |name| {
        let early =
            narrow(name).or_else(|| crate::maintenance::finds(name)).or_else(|| crate::old::finds(name));
        let early = early.or_else(|| crate::forks::finds(name));
        early.or_else(|| crate::cuts::finds(name, 4, true))
    });
}
