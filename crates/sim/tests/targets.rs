//! `target_latency`: who misses its target has the others make room.

use nandu_base::{Precondition, Span};
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

/// A reader that asks for two pages at a time beside a writer that asks for 64.
fn result(target: &str) -> RunResult {
    let stack = format!(
        "[export.a]\ndevice = \"as\"\ntenant = \"reader\"\n[export.b]\ndevice = \"bs\"\ntenant = \"writer\"\n\
         [tenant.reader]\n{target}[tenant.writer]\nweight = 100\n\
         [device.as]\nkind = \"slice\"\nbelow = \"queue\"\nsize = \"4 MiB\"\n\
         [device.bs]\nkind = \"slice\"\nbelow = \"queue\"\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n\
         [device.queue]\nkind = \"queue\"\nbelow = \"ssd\"\ndepth = 64\nlatency_window = \"5 ms\"\n\
         scheduler = {{ kind = \"noop\" }}\n\
         [device.ssd]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 40\npages_per_block = 64\n\
         spare_factor = 0.25\n"
    );
    let stack = Stack::parse(&stack).unwrap_or_else(|error| panic!("{error}"));
    let workload = |(export, write, outstanding): (usize, f64, u32)| {
        let params = serde_json::json!({ "requests": 40_000, "space": 4 << 20, "write": write });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, export as u64)).expect("a trace");
        RunWorkload {
            export,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            warm_up: 0,
            pace: Some(Pace::ClosedFor { outstanding, runtime: Span::from_ms(500) }),
            passes: 1,
        }
    };
    let options = RunOptions {
        workloads: [(0, 0.0, 2), (1, 1.0, 64)].into_iter().map(workload).collect(),
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    run(&stack, &options, |_| {}).expect("the stack runs")
}

fn missed(result: &RunResult) -> u64 {
    let queue = result.layers.iter().find(|layer| layer.name == "queue").expect("a queue");
    queue.counters["target_missed_windows"]
}

#[test]
fn a_tenant_that_misses_its_target_throttles_the_others() {
    let (without, with) = (result(""), result("target_latency = \"1500 us\"\n"));
    let mean = |result: &RunResult, tenant: usize| result.tenants[tenant].total.mean_ns;
    let done = |result: &RunResult, tenant: usize| result.tenants[tenant].total.requests;
    assert_eq!(missed(&without), 0, "nobody has a target");
    assert!(mean(&without, 0) > 3_000_000, "64 writes stand before each read: {}", mean(&without, 0));
    assert!(missed(&with) > 0);
    // The window in which the target is missed is part of the mean.
    assert!(mean(&with, 0) < 2_500_000, "{}", mean(&with, 0));
    assert!(done(&with, 0) > done(&without, 0) * 3 / 2);
    assert!(done(&with, 1) > done(&without, 1) / 10, "the writer is held back, not shut out");
    // A target that is never missed changes nothing.
    let loose = result("target_latency = \"1 s\"\n");
    assert_eq!((missed(&loose), done(&loose, 1)), (0, done(&without, 1)));
}
