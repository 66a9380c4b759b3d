//! Hybrid disks: seeds with power cuts, and every fault that can be planted, found by the invariant that it names.

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

fn run(family: &str, seeds: u64) -> VerifyReport {
    verify(&options(family, seeds), |_| {}).expect("the seeds can be run")
}

#[test]
fn nothing_flushed_is_lost() {
    for family in ["hybrid", "hybrid-of-files", "hybrid-writethrough", "hybrid-loses-rings"] {
        let report = run(family, 150);
        assert!(report.failures.is_empty(), "{family}: {:?}", report.failures);
        assert!(report.recoveries > 100, "{family} started {} times", report.recoveries);
    }
}

#[test]
fn each_planted_fault_is_found_by_the_invariant_that_it_names() {
    let registry = nandu_stack::builtin();
    let plants = ["hybrid", "flash"].map(|name| registry.get(name).expect("a kind that ships").plants);
    assert!(plants.iter().all(|plants| !plants.is_empty()));
    for plant in plants.into_iter().flatten() {
        let mut options = options(plant.family.expect("each names its family"), 600);
        options.plant = Some(plant.name.into());
        // What a fault leaves behind may show in more than one way: the search goes on until it shows as it is said to.
        let mut found = Vec::new();
        while found.last() != Some(&plant.breaks) {
            let report = verify(&options, |_| {}).expect("the seeds can be run");
            let Some(failure) = report.failures.first() else { break };
            let (end, next) = (options.first_seed + options.seeds, failure.seed + 1);
            (options.first_seed, options.seeds) = (next, end - next);
            found.push(failure.violation.invariant);
        }
        assert!(found.contains(&plant.breaks), "{}: {found:?}", plant.name);
    }
}

/// Two rings on devices with volatile caches, of which the upper one is lost now and then.
const LOSSES: &str = r#"
    [export.data]
    device = "hybrid"
    [device.upper]
    kind = "file"
    size = 163840
    latency = "0 us"
    path = "upper.img"
    [device.slc]
    kind = "fault"
    below = "upper"
    cache = { size = 8192, destage_interval = "5000 us" }
    loss = { kind = "random", mean_interval = "30 ms", outage = "20 us" }
    [device.lower]
    kind = "file"
    size = 245760
    latency = "200 us"
    path = "lower.img"
    sector = 2048
    [device.mlc]
    kind = "fault"
    below = "lower"
    write_error_rate = "1/100"
    cache = { size = 4096, destage_interval = "200 us" }
    [device.disk]
    kind = "file"
    size = 172032
    latency = "200 us"
    path = "disk.img"
    [device.hybrid]
    kind = "hybrid"
    slc = "slc"
    mlc = "mlc"
    disk = "disk"
    page_size = 4096
    erase_unit = 16384
    dram_size = 155648
    promote = "always"
    read_bypass = 0
    write_bypass = 16384
    gc_reserve = "1 %"
    slc_cold_share = "23 %"
    mlc_cold_share = "26 %"
    append_threshold = "5 %"
    spin_aware = true
"#;

/// A ring that loses its cache while the stack is being closed, and is back before it is flushed: nothing of it may be
/// proven then.
#[test]
fn a_loss_at_the_end_proves_nothing() {
    let options = VerifyOptions {
        shape: Shape::File(LOSSES.into()),
        first_seed: 401,
        seeds: 300,
        crash: true,
        failures_max: 1,
        ..VerifyOptions::default()
    };
    let report = verify(&options, |_| {}).expect("the seeds can be run");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}
