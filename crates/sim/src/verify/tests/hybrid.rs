//! Hybrid disks: seeds with power cuts, and every fault that can be planted, found by the invariant that it names.

use crate::verify::{verify, Shape, VerifyOptions, VerifyReport};

fn run(family: &str, seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::named(family).expect("a family of this name"),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("the seeds can be run")
}

#[test]
fn nothing_flushed_is_lost() {
    for family in ["hybrid", "hybrid-of-files"] {
        let report = run(family, 150, None);
        assert!(report.failures.is_empty(), "{family}: {:?}", report.failures);
        assert!(report.recoveries > 100, "{family} started {} times", report.recoveries);
    }
}

#[test]
fn each_planted_fault_is_found_by_the_invariant_that_it_names() {
    let registry = nandu_stack::builtin();
    let kind = registry.get("hybrid").expect("a kind that ships");
    assert!(!kind.plants.is_empty());
    for plant in kind.plants {
        let report = run(plant.family.expect("each names its family"), 600, Some(plant.name));
        let found = report.failures.first().map(|f| f.violation.invariant);
        assert_eq!(found, Some(plant.breaks), "{}", plant.name);
    }
}
