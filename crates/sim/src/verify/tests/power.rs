//! Power cuts of drives with a log-block map, and of drives whose map is on the flash, under collection all the time, with checkpoints and without; and the
//! faults that only such a start can show.
//!
//! `nandu verify crates/sim/src/verify/tests/power/FILE --crash --seeds 5000` does the same for longer.

use crate::verify::{Shape, VerifyOptions, VerifyReport, verify};

const STACKS: [(&str, &str); 8] = [
    ("dftl", include_str!("power/dftl.toml")),
    ("cftl", include_str!("power/cftl.toml")),
    ("tpftl", include_str!("power/tpftl.toml")),
    ("sftl", include_str!("power/sftl.toml")),
    ("leaftl", include_str!("power/leaftl.toml")),
    ("tpc, at collection", include_str!("power/tpc-at-collection.toml")),
    ("tpc, at read", include_str!("power/tpc-at-read.toml")),
    ("tpc without delay", include_str!("power/tpc-no-delay.toml")),
];

fn run(stack: &str, seeds: u64, plant: Option<&str>) -> VerifyReport {
    let options = VerifyOptions {
        shape: Shape::File(stack.into()),
        seeds,
        crash: true,
        plant: plant.map(String::from),
        failures_max: 1,
        ..VerifyOptions::default()
    };
    verify(&options, |_| {}).expect("the stack can be built")
}

const LOG_STACKS: [(&str, &str); 3] = [
    ("block map", include_str!("power/block.toml")),
    ("bast", include_str!("power/bast.toml")),
    ("fast", include_str!("power/fast.toml")),
];

#[test]
fn every_log_block_map_survives_power_cuts() {
    for (name, stack) in LOG_STACKS {
        for stack in [stack.to_string(), stack.replace("write_buffer = { size = \"8 KiB\" }\n", "")] {
            let report = run(&stack, 25, None);
            assert!(report.failures.is_empty(), "{name}: {:?}", report.failures);
            assert!(report.crashes > 0, "{name}: no power was cut");
        }
    }
}

#[test]
fn faults_of_merges_and_buffers_are_found_with_every_log_block_map() {
    for (name, stack) in LOG_STACKS {
        for plant in ["ssd.log-erase-too-early", "ssd.log-oldest-wins", "ssd.buffer-forgotten-by-flush"] {
            let report = run(stack, 300, Some(plant));
            assert!(!report.failures.is_empty(), "{plant} is never found with {name}");
        }
    }
}

#[test]
fn every_map_survives_power_cuts() {
    for (name, stack) in STACKS {
        for stack in [stack.to_string(), stack.replace("checkpoint_interval = 4\n", "")] {
            let report = run(&stack, 25, None);
            assert!(report.failures.is_empty(), "{name}: {:?}", report.failures);
            assert!(report.crashes > 0, "{name}: no power was cut");
        }
    }
}

#[test]
fn faults_of_a_start_are_found_with_every_map() {
    for (name, stack) in STACKS {
        for (plant, invariant) in [("ssd.map-slot-persisted", "I-4"), ("ssd.oob-dropped", "I-1")] {
            let report = run(stack, 200, Some(plant));
            let found = report.failures.first().map(|f| f.violation.invariant);
            assert!(found.is_some(), "{plant} is never found with {name}");
            assert!(
                plant != "ssd.map-slot-persisted" || found == Some(invariant),
                "{name}: {plant}: {found:?}"
            );
        }
    }
}

#[test]
fn a_skipped_fill_is_found() {
    for (name, stack) in STACKS.iter().filter(|(name, _)| name.starts_with("tpc, at")) {
        let report = run(stack, 200, Some("ssd.map-skipped-fill"));
        assert!(!report.failures.is_empty(), "a skipped fill is never found with {name}");
    }
}
