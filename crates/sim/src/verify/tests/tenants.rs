//! Drives that tenants share, under power cuts: whatever one of them does, the others keep what is theirs.

use crate::verify::{Drive, Family, Shape, VerifyOptions, VerifyReport, verify};

fn run(drive: Drive, seeds: u64, plant: Option<&str>) -> VerifyReport {
    run_family(Family::Ssd(drive), seeds, plant)
}

fn run_family(family: Family, seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::Named(family),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("the stack can be built")
}

#[test]
fn tenants_survive_power_cuts() {
    for drive in [Drive::Tenants, Drive::Lending, Drive::Dealing, Drive::PagedTenants] {
        let report = run(drive, 100, None);
        assert!(report.failures.is_empty(), "{drive:?}: {:?}", report.failures);
        assert!(report.crashes > 0, "no power was cut");
        assert!(drive != Drive::Dealing || report.deals > 50, "{} deals were made", report.deals);
    }
}

#[test]
fn tenants_behind_a_queue_survive_power_cuts() {
    let report = run_family(Family::QueueOverTenants, 100, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.crashes > 0, "no power was cut");
}

#[test]
fn faults_of_isolation_are_found_behind_a_queue() {
    for (plant, invariant) in [
        ("ssd.tenant-page-misplaced", "I-7"),
        ("ssd.tenant-collects-others", "I-7"),
        ("ssd.tenant-unit-from-nowhere", "I-7"),
        ("ssd.tenant-keeps-loan", "I-8"),
        ("ssd.tenant-room-not-kept", "I-8"),
        ("ssd.tenant-collects-twice", "I-8"),
        ("ssd.tenant-keeps-while-idle", "I-8"),
    ] {
        let report = run_family(Family::QueueOverTenants, 5000, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(invariant), "{plant}: {:?}", report.failures);
    }
}

/// `cargo test -p nandu-sim many_seeds_of_tenants -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn many_seeds_of_tenants() {
    for drive in [Drive::Tenants, Drive::Lending, Drive::Dealing, Drive::PagedTenants] {
        let report = run(drive, 4000, None);
        assert!(report.failures.is_empty(), "{drive:?}: {:?}", report.failures);
    }
}

#[test]
fn faults_of_isolation_are_found() {
    for (drive, plant, invariant) in [
        (Drive::Tenants, "ssd.tenant-page-misplaced", "I-7"),
        (Drive::Tenants, "ssd.tenant-collects-others", "I-7"),
        (Drive::Lending, "ssd.tenant-unit-from-nowhere", "I-7"),
        (Drive::Lending, "ssd.tenant-keeps-loan", "I-8"),
        (Drive::Lending, "ssd.tenant-room-not-kept", "I-8"),
        (Drive::Lending, "ssd.tenant-makes-others-collect", "I-8"),
        (Drive::Lending, "ssd.tenant-collects-twice", "I-8"),
        (Drive::Lending, "ssd.tenant-keeps-while-idle", "I-8"),
        (Drive::Tenants, "ssd.tenant-end-not-charged", "I-7"),
        (Drive::PagedTenants, "ssd.tenant-map-page-misplaced", "I-7"),
        (Drive::Dealing, "ssd.tenant-leaves-units", "I-7"),
        (Drive::Dealing, "ssd.tenant-table-not-recorded", "I-7"),
    ] {
        let report = run(drive, 3000, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(invariant), "{plant}: {:?}", report.failures);
    }
}
