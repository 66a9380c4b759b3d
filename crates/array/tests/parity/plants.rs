//! Each planted fault is found by the random lives or by cutting everywhere, which all end well without it. NANDU_PARITY_PLANT
//! names the only one to look for.

use crate::random::{live, setup, ALL};
use nandu_array::parity::PLANTS;

/// Lives that may pass before a fault must have shown itself.
const PATIENCE: u64 = 40;

#[test]
fn every_planted_fault_is_found() {
    let only = std::env::var("NANDU_PARITY_PLANT").ok();
    let mut missed = Vec::new();
    for plant in PLANTS.iter().filter(|p| only.as_ref().is_none_or(|name| p.name == name)) {
        let lives = || {
            (0..PATIENCE)
                .find_map(|seed| live(setup(seed).plant(plant.name), ALL, 150).err().map(|w| (seed, w)))
        };
        match lives().or_else(|| crate::cuts::finds(plant.name, 60)) {
            Some((seed, wrong)) => println!("{}: seed {seed}: {wrong}", plant.name),
            None => missed.push(plant.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
