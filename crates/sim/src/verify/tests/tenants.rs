//! Drives that tenants share, under power cuts: whatever one of them does, the others keep what is theirs.

use crate::verify::{Drive, Family, Shape, VerifyOptions, VerifyReport, verify};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_device::ssd::mapping::POLICIES;
use nandu_stack::{BuildOptions, Stack};

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

fn can_be_built(stack: &str) -> bool {
    Stack::parse(stack).is_ok_and(|stack| stack.build(&BuildOptions::default()).is_ok())
}

/// The tenants of [`shared_drive`], with their weights.
const SHARERS: [(&str, u32); 2] = [("t1", 100), ("t2", 300)];

fn shared_drive() -> SsdTable {
    let drive = ssd("mlc-2019").channels(2).planes(2).blocks(64).page_size(1024).pages(8).spare(0.62);
    drive.tenants(&[256 << 10; 2]).with("isolation = { kind = \"vssd\" }")
}

/// Tenants that lend where a map takes it, with an SLC cache where a map takes one, under two hosts that write to all of it.
fn with_everything(drive: SsdTable, seeds: u64) {
    let lending =
        drive.clone().with("isolation = { kind = \"shared-space\", contribution = 0.4, reserve_min = 1 }");
    let drive = match can_be_built(&lending.stack_for(&SHARERS)) {
        true => lending,
        false => drive,
    };
    let cached = drive.clone().with("slc_cache = { dynamic = 1 }");
    let drive = if drive.has_log_blocks() { drive } else { cached };
    let stack = drive.stack_for(&SHARERS);
    let options = VerifyOptions {
        shape: Shape::File(stack.clone()),
        seeds,
        crash: true,
        failures_max: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).unwrap_or_else(|error| panic!("{error}\n{stack}"));
    assert!(report.failures.is_empty(), "{:?}\n{stack}", report.failures);
    assert!(report.crashes > 0, "no power was cut");
}

/// Every map of this project; one on the flash with the smallest cache, in powers of two, that such a drive takes.
fn maps() -> impl Iterator<Item = SsdTable> {
    POLICIES.iter().map(|map| {
        let drive = shared_drive().map(map.name, "");
        if !drive.has_map_on_flash() {
            return drive;
        }
        let caches = (6..20).map(|log| drive.clone().cache(1 << log));
        let mut fits = caches.filter(|drive| can_be_built(&drive.stack_for(&SHARERS)));
        fits.next().unwrap_or_else(|| panic!("{} takes no cache", map.name))
    })
}

#[test]
fn every_map_goes_with_lending_and_an_slc_cache() {
    maps().for_each(|drive| with_everything(drive, 25));
}

/// `cargo test -p nandu-sim many_seeds_of_every_map -- --ignored`
#[test]
#[ignore = "takes a quarter of an hour"]
fn many_seeds_of_every_map() {
    maps().for_each(|drive| with_everything(drive, 5000));
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
        (Drive::LogBlock, "ssd.log-lent-too-early", "I-6"),
        (Drive::LogBlock, "ssd.tenant-keeps-loan", "I-8"),
        (Drive::LogBlock, "ssd.tenant-keeps-while-idle", "I-8"),
        (Drive::LogBlock, "ssd.tenant-collects-twice", "I-8"),
        (Drive::LogBlock, "ssd.tenant-end-not-charged", "I-7"),
    ] {
        let report = run(drive, 3000, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(invariant), "{plant}: {:?}", report.failures);
    }
}
