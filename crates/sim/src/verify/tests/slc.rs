//! Drives with a cache in SLC mode, under power cuts, and the faults that are planted in it.

use crate::verify::{Drive, Family, Shape, VerifyOptions, VerifyReport, verify};

fn run(seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::Named(Family::Ssd(Drive::Slc)),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("a drawn stack can be built")
}

#[test]
fn nothing_is_lost_on_its_way_out_of_the_cache() {
    let report = run(400, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.crashes > 0, "no power was cut");
}

#[test]
fn every_fault_of_the_cache_is_found_by_what_it_breaks() {
    for (plant, breaks) in [
        ("ssd.fold-erased-early", "I-20"),
        ("ssd.slc-mode-not-recorded", "block_mode"),
        ("ssd.slc-mode-forgotten", "block_mode"),
    ] {
        let report = run(1000, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(breaks), "{plant}");
    }
}
