//! A drive of 1 TB is ready in the memory of what is touched: one process, one test, so that the peak is its own.

use nandu_base::Precondition;
use nandu_sim::{Pace, RunOptions, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

const DRIVE: &str = "[export.data]\ndevice = \"ssd\"\n\n[device.ssd]\nkind = \"ssd\"\nprofile = \"tlc-2019\"\n\
                     channels = 8\nchips_per_channel = 2\ndies_per_chip = 4\nplanes_per_die = 4\ncapacity = \"1 TB\"\n";

/// The most memory that this process has had, where the system says so.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

#[test]
fn a_filled_terabyte_takes_200_mib() {
    for precondition in [Precondition::Empty, Precondition::Filled] {
        let stack = Stack::parse(DRIVE).expect("the stack is right");
        // 5 GiB of footprint, written about once and read as much.
        let params = serde_json::json!({ "requests": 200_000, "space": 5u64 << 30, "size": 32 << 10 });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, 1)).expect("a trace");
        let workload = RunWorkload {
            export: 0,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            pace: Some(Pace::Closed { outstanding: 16 }),
            passes: 1,
            warm_up: 0,
        };
        let options = RunOptions {
            workloads: vec![workload],
            seed: 1,
            precondition,
            warm_up: 0,
            extension: nandu_sim::Extension::NONE,
            stack_name: "test".into(),
        };
        let result = run(&stack, &options, |_| {}).expect("the stack runs");
        let pages = result.layers[0].counters["host_pages_read"];
        assert!(precondition == Precondition::Empty || pages == result.reads.bytes / 4096, "{pages}");
        let Some(peak) = peak() else {
            println!("skipped: this system does not say how much memory a process takes");
            return;
        };
        assert!(peak < 200 << 20, "{precondition:?}: {} MiB", peak >> 20);
    }
}
