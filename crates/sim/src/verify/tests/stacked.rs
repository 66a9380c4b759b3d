//! Machines that were made for each other: areas of one chip, a leg that may rest, a durable queue, and use that is told below.

use crate::verify::{Shape, VerifyOptions, VerifyReport, verify};

fn options(family: &str, seeds: u64) -> VerifyOptions {
    VerifyOptions {
        shape: Shape::named(family).expect("a family of this name"),
        seeds,
        crash: true,
        failures_max: 1,
        ..VerifyOptions::default()
    }
}

fn run(options: &VerifyOptions) -> VerifyReport {
    verify(options, |_| {}).expect("the seeds can be run")
}

#[test]
fn seeds_of_each_family_hold() {
    for family in
        ["hybrid-on-one-chip", "culling-over-hybrid", "hetero-mirror-that-rests", "hetero-mirror-of-hybrid"]
    {
        let report = run(&options(family, 120));
        assert!(report.failures.is_empty(), "{family}: {:?}", report.failures);
        assert!(report.recoveries > 80, "{family} started {} times", report.recoveries);
    }
}

#[test]
fn checksums_are_readable_after_cuts_and_mend_what_rots() {
    for family in ["integrity", "mirror-that-rots", "parity-that-rots"] {
        let report = run(&options(family, 100));
        assert!(report.failures.is_empty(), "{family}: {:?}", report.failures);
    }
}

#[test]
fn each_planted_fault_of_chips_and_resting_legs_is_found() {
    let registry = nandu_stack::builtin();
    let plants = registry.kinds().iter().flat_map(|kind| kind.plants);
    let families = ["hybrid-on-one-chip", "hetero-mirror-that-rests"];
    let mut found = 0;
    for plant in plants.filter(|p| p.family.is_some_and(|f| families.contains(&f))) {
        let seeds = options(plant.family.expect("it was chosen by it"), 600);
        let report = run(&VerifyOptions { plant: Some(plant.name.into()), ..seeds });
        let by = report.failures.first().map(|f| f.violation.invariant);
        assert_eq!(by, Some(plant.breaks), "{}", plant.name);
        found += 1;
    }
    assert!(found >= 5, "only {found} faults show in these families");
}

/// A hetero-mirror whose slow leg acknowledges from DRAM, or from its ring.
fn durable_queue(ack: &str) -> Shape {
    Shape::File(format!(
        r#"
        [export.data]
        device = "mirror"
        [device.mirror]
        kind = "hetero-mirror"
        legs = ["quick", "slow"]
        write_ack = "both"
        region_size = "64 KiB"
        bitmap_delay = "20 ms"
        max_dirty_regions = 32
        initial_sync = "assume-clean"
        [device.quick]
        kind = "memory"
        size = "256 KiB"
        latency = "100 us"
        [device.slow]
        kind = "hybrid"
        slc = "ring"
        disk = "disk"
        write_ack = "{ack}"
        dram_size = "64 KiB"
        [device.ring]
        kind = "flash"
        profile = "slc-2019"
        blocks_per_die = 16
        pages_per_block = 8
        [device.disk]
        kind = "memory"
        size = "320 KiB"
        latency = "300 us"
        "#
    ))
}

/// K10: what was acknowledged survives a cut and the loss of a leg with it, although nobody flushed; with the DRAM of the
/// paper (W4-1) it does not.
#[test]
fn a_ring_keeps_what_was_acknowledged() {
    let failures = |ack: &str| {
        let shape = durable_queue(ack);
        let options = VerifyOptions {
            shape,
            seeds: 150,
            crash: true,
            acknowledged: true,
            failures_max: 0,
            ..VerifyOptions::default()
        };
        run(&options).failures
    };
    let kept = failures("ring");
    assert!(kept.is_empty(), "{kept:?}");
    assert!(failures("dram").len() > 5, "the test cannot fail");
}
