//! Each planted fault is found by the random lives or by cutting everywhere, which all end well without it. NANDU_PARITY_PLANT
//! names the only one to look for.

use crate::harness::all_found;
use crate::random::{ALL, LOOKED_AFTER, live, setup};
use nandu_array::parity::{PLANTS, STORY_PLANTS};

/// Seeds that may pass before a fault must have shown itself.
const PATIENCE: u64 = 60;

/// The seed to begin with, where the first does not show it; all others follow it.
const BEGIN: &[(&str, u64)] = &[
    ("parity.degraded-read-unlocked", 33),
    ("parity.no-flush-at-open", 38),
    ("parity.answered-before-out", 4),
    ("parity.replayed-before-out", 7),
    ("parity.journaled-before-out", 22),
    ("parity.lost-sectors-forgotten", 1),
    ("parity.rebuild-goes-on", 2),
    ("parity.made-part-not-kept", 10),
    ("parity.scrub-without-lock", 1),
];

#[test]
fn every_planted_fault_is_found() {
    let only = std::env::var("NANDU_PARITY_PLANT").ok();
    let names = PLANTS.iter().map(|plant| plant.name).filter(|name| only.as_ref().is_none_or(|o| o == name));
    all_found(names.collect(), |name| {
        if let Some(wrong) = crate::grow::finds(name) {
            return Some(wrong);
        }
        let begin = BEGIN.iter().find(|(late, _)| *late == name).map_or(0, |(_, seed)| *seed);
        (begin..PATIENCE).chain(0..begin).find_map(|seed| {
            let life = |mix| live(setup(seed).plant(name), mix, 150).err();
            let wrong =
                life(ALL).or_else(|| life(LOOKED_AFTER)).or_else(|| crate::cuts::finds(name, seed))?;
            Some(format!("seed {seed}: {wrong}"))
        })
    });
}

#[test]
fn every_planted_fault_that_needs_a_story_is_found() {
    all_found(STORY_PLANTS.iter().map(|plant| plant.name).collect(), |name| {
        crate::maintenance::finds(name).or_else(|| crate::old::finds(name))
    });
}
