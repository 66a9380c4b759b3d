//! Drives whose units of allocation go over several planes, under power cuts.

use crate::verify::{Drive, Family, Shape, VerifyOptions, VerifyReport, verify};

fn run(seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::Named(Family::Ssd(Drive::Units)),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("the stack can be built")
}

#[test]
fn wide_units_survive_power_cuts() {
    let report = run(120, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.crashes > 0, "no power was cut");
}

/// `cargo test -p nandu-sim many_seeds_of_wide_units -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn many_seeds_of_wide_units() {
    let report = run(4000, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

#[test]
fn an_early_erase_is_found_with_wide_units() {
    let report = run(3000, Some("ssd.erase-too-early"));
    assert!(!report.failures.is_empty(), "it is never found");
}

#[test]
fn a_stripe_that_is_left_open_is_found() {
    let report = run(300, Some("ssd.stripe-left-open"));
    let found: Vec<_> = report.failures.iter().map(|failure| failure.violation.invariant).collect();
    assert_eq!(found, ["whole_stripes"]);
}
