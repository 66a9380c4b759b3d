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

/// Replays `few` and then `many` requests, and holds the peak of the second to that of the first.
fn keeps_its_memory(few: u64, many: u64) {
    assert_eq!(replay(few), few);
    let less = peak();
    assert_eq!(replay(many), many);
    if let (Some(less), Some(more)) = (less, peak()) {
        println!("{less} KiB for {few} requests, {more} KiB for {many}");
        assert!(more <= less + less / 20, "{less} KiB for {few} requests, {more} KiB for {many}");
        assert!(more < 256 << 10);
    }
}

/// Five per cent of what the first takes are less than a bit of each request that the second has more.
#[test]
fn five_times_the_requests_take_no_more_memory() {
    keeps_its_memory(4_000_000, 20_000_000);
}

/// Over a minute: `cargo test -p nandu-sim --test streamed -- --ignored --nocapture`.
#[test]
#[ignore = "over a minute"]
fn a_hundred_million_requests_take_the_memory_of_ten_million() {
    keeps_its_memory(10_000_000, 100_000_000);
}
