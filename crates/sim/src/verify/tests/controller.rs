//! What a controller does beside translating: write buffers and suspended operations. Power cuts, and the faults that are planted
//! in both.

use crate::verify::{Drive, Family, Shape, VerifyOptions, VerifyReport, verify};

fn run(drive: Drive, seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::Named(Family::Ssd(drive)),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("a drawn stack can be built")
}

#[test]
fn nothing_flushed_is_lost_with_a_write_buffer() {
    let report = run(Drive::Buffered, 300, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

#[test]
fn nothing_acknowledged_is_lost_with_power_loss_protection() {
    let report = run(Drive::Protected, 300, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

#[test]
fn nothing_is_lost_when_operations_are_suspended() {
    let report = run(Drive::Queued, 300, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

fn fair_dies(seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::Named(Family::FairDies),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("a drawn stack can be built")
}

#[test]
fn nothing_is_lost_where_dies_serve_tenants_by_share() {
    let report = fair_dies(300, None);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}

#[test]
fn an_operation_that_a_die_forgets_is_missed() {
    let report = fair_dies(500, Some("ssd.die-forgets"));
    let found = report.failures.first().map(|failure| failure.violation.invariant);
    assert_eq!(found, Some("progress"));
}

#[test]
fn every_fault_of_a_suspension_is_found_by_what_it_breaks() {
    for (plant, breaks) in [("ssd.suspended-is-told", "I-1"), ("ssd.suspended-too-often", "suspension")] {
        let report = run(Drive::Queued, 500, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(breaks), "{plant}");
    }
}

#[test]
fn every_fault_of_a_buffer_is_found_by_what_it_breaks() {
    for (plant, drive, breaks) in [
        ("ssd.buffer-forgotten-by-flush", Drive::Buffered, "I-1"),
        ("ssd.buffer-forgotten-by-fua", Drive::Buffered, "I-1"),
        ("ssd.buffer-forgotten-by-read", Drive::Buffered, "I-1"),
        ("ssd.buffer-forgotten-by-trim", Drive::Buffered, "I-1"),
        ("ssd.buffer-left-early", Drive::Buffered, "I-1"),
        ("ssd.buffer-slot-lost", Drive::Buffered, "buffer"),
        ("ssd.buffer-not-saved", Drive::Protected, "I-1"),
    ] {
        let report = run(drive, 500, Some(plant));
        let found = report.failures.first().map(|failure| failure.violation.invariant);
        assert_eq!(found, Some(breaks), "{plant}");
    }
}
