//! Each planted fault is found by the random lives or by cutting everywhere, which all end well without it. NANDU_PARITY_PLANT
//! names the only one to look for.

use crate::random::{ALL, LOOKED_AFTER, Mix, live, setup};
use nandu_array::parity::{PLANTS, STORY_PLANTS};

/// Lives that may pass before a fault must have shown itself.
const PATIENCE: u64 = 40;

#[test]
fn every_planted_fault_is_found() {
    let only = std::env::var("NANDU_PARITY_PLANT").ok();
    let mut missed = Vec::new();
    for plant in PLANTS.iter().filter(|p| only.as_ref().is_none_or(|name| p.name == name)) {
        let life = |seed, mix: Mix| live(setup(seed).plant(plant.name), mix, 150).err().map(|w| (seed, w));
        let lives = |mix: Mix| (0..PATIENCE).find_map(|seed| life(seed, mix));
        let found = lives(ALL).or_else(|| crate::cuts::finds(plant.name, 60));
        match found.or_else(|| lives(LOOKED_AFTER)) {
            Some((seed, wrong)) => println!("{}: seed {seed}: {wrong}", plant.name),
            None => missed.push(plant.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_planted_fault_that_needs_a_story_is_found() {
    let missed = STORY_PLANTS.iter().map(|p| p.name).filter(|name| {
        match crate::upkeep::finds(name).or_else(|| crate::old::finds(name)) {
            Some(wrong) => {
                println!("{name}: {wrong}");
                false
            }
            None => true,
        }
    });
    let missed: Vec<&str> = missed.collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
