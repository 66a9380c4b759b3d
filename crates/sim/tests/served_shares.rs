//! The simulated half of the table of docs/experiments/fair-queueing.md: shares on the stack file that is also served.
//!
//! `cargo test -p nandu-sim --test served_shares -- --nocapture` prints it.

use nandu_base::{Precondition, Span};
use nandu_sim::{Pace, RunOptions, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

/// Thousandths that the reader has: of all requests, and of what the queue chose while both waited.
fn shares(scheduler: &str) -> [u64; 2] {
    let stack = include_str!("../../../stacks/served-tenants.toml");
    let line = "scheduler = { kind = \"drr\" }";
    assert!(stack.contains(line));
    let stack = stack.replace(line, &format!("scheduler = {{ {scheduler} }}"));
    let stack = Stack::parse(&stack).unwrap_or_else(|error| panic!("{error}"));
    let workload = |(export, write): (usize, f64)| {
        let params = serde_json::json!({ "requests": 60_000, "space": 32 << 20, "write": write });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, export as u64)).expect("a trace");
        RunWorkload {
            export,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            pace: Some(Pace::ClosedFor { outstanding: 64, runtime: Span::from_secs(10) }),
            passes: 1,
            warm_up: 0,
        }
    };
    let options = RunOptions {
        workloads: [0.0, 1.0].into_iter().enumerate().map(workload).collect(),
        seed: 1,
        precondition: Precondition::Empty,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "served-tenants".into(),
    };
    let result = run(&stack, &options, |_| {}).expect("the stack runs");
    let [reader, writer] = ["reader", "writer"].map(|name| {
        result.tenants.iter().find(|tenant| tenant.name == name).expect("a tenant").total.requests
    });
    let queue = result.layers.iter().find(|layer| layer.name == "queue").expect("a queue");
    let [a, b] =
        ["tenant_1_contended_cost_ns", "tenant_2_contended_cost_ns"].map(|name| queue.counters[name]);
    [reader * 1000 / (reader + writer), a * 1000 / (a + b)]
}

#[test]
fn simulated_shares_of_the_stack_that_is_served() {
    let mut missed = Vec::new();
    for (scheduler, shares_by_weight) in [
        ("kind = \"drr\"", true),
        ("kind = \"flashfq\"", true),
        ("kind = \"fios\"", true),
        ("kind = \"vssd\", channels = 2, channel_depth = 2", true),
        ("kind = \"cffq\"", true),
        ("kind = \"cfq\", slices = \"slo\"", true),
        ("kind = \"cfq\"", false),
        ("kind = \"deadline\"", false),
        ("kind = \"noop\"", false),
    ] {
        let [all, contended] = shares(scheduler);
        println!("{scheduler}: {}.{} % {}.{} %", all / 10, all % 10, contended / 10, contended % 10);
        // Within 5 % of 750.
        if shares_by_weight && contended.abs_diff(750) > 37 {
            missed.push((scheduler, contended));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
