//! A load of any length takes the memory of a short one.

use nandu_base::{Precondition, Ratio, Span};
use nandu_sim::replay::CAP_DEFAULT;
use nandu_sim::{Extension, Pace, RunOptions, RunWorkload, run};
use nandu_stack::{StackFile, builtin};
use nandu_trace::requests::{Remade, Streamed};
use nandu_trace::{Requests, synth};
use serde_json::json;
use std::sync::Arc;

const STACK: &str = "[export.data]\ndevice = \"ram\"\n[device.ram]\nkind = \"memory\"\nsize = \"64 MiB\"\n";

/// Most memory this process has had, in KiB; `None` where the system does not say.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Replays so many generated requests, streamed, and returns how many were measured.
fn replay(requests: u64) -> u64 {
    let params = json!({ "requests": requests, "space": 64 << 20, "interarrival": "20 us" });
    let generator = synth::by_name("uniform").unwrap().generator(&params, 1).unwrap();
    let (meta, names) = (generator.meta(), vec!["uniform".to_string()]);
    let streamed = Streamed::survey(Arc::new(Remade(generator)), u64::MAX, names, meta, |_| ());
    let pace = Some(Pace::Open { time_scale: Ratio::new(1, 1), cap: CAP_DEFAULT });
    let workload = RunWorkload {
        export: 0,
        trace: Requests::Streamed(Arc::new(streamed)),
        trace_hash: String::new(),
        fit: String::new(),
        pace,
        passes: 1,
        warm_up: 0,
    };
    let options = RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition: Precondition::Empty,
        warm_up: 0,
        extension: Extension::NONE,
        stack_name: String::new(),
    };
    let stack = StackFile::parse(STACK, "ram.toml").unwrap().load(&builtin()).unwrap();
    let result = run(&stack, &options, |_| ()).unwrap();
    assert!(result.total.max_ns < Span::from_ms(100).0);
    result.total.requests
}

#[test]
fn a_hundred_million_requests_take_the_memory_of_ten_million() {
    assert_eq!(replay(10_000_000), 10_000_000);
    let few = peak();
    assert_eq!(replay(100_000_000), 100_000_000);
    if let (Some(few), Some(many)) = (few, peak()) {
        println!("{few} KiB for 10^7 requests, {many} KiB for 10^8");
        assert!(many <= few + few / 20, "{few} KiB for 10^7 requests, {many} KiB for 10^8");
        assert!(many < 256 << 10);
    }
}
