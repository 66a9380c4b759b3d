//! Each planted fault is found by the random lives, which all end well without it.

use crate::random::{live, setup, Mix, ALL};
use nandu_array::mirror::PLANTS;

/// Lives that may pass before a fault must have shown itself.
const PATIENCE: u64 = 120;

fn find(name: &str, mix: Mix) -> Option<(u64, String)> {
    (0..PATIENCE).find_map(|seed| live(setup(seed).plant(name), mix, 150).err().map(|wrong| (seed, wrong)))
}

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    for plant in PLANTS {
        let found = crate::cuts::finds(plant.name, 4).or_else(|| find(plant.name, ALL));
        match found {
            Some((seed, wrong)) => println!("{}: seed {seed}: {wrong}", plant.name),
            None => missed.push(plant.name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
