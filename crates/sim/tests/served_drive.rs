//! The simulated half of the table "Shares of a served drive" in docs/experiments/fair-queueing.md, on the stack file that is also served.
//!
//! `cargo test -p nandu-sim --test served_drive -- --nocapture` prints it.

use nandu_base::{Precondition, Span};
use nandu_sim::{Pace, RunOptions, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;

/// Reads and writes per second, and thousandths that the reader has: of all requests, and of what the queue chose while both waited.
fn shares(scheduler: &str) -> ([u64; 2], [u64; 2]) {
    let stack = include_str!("../../../stacks/served-drive.toml");
    let line = "scheduler = { kind = \"drr\" }";
    assert!(stack.contains(line));
    let stack = stack.replace(line, &format!("scheduler = {{ {scheduler} }}"));
    let stack = Stack::parse(&stack).unwrap_or_else(|error| panic!("{error}"));
    let workload = |(export, write): (usize, f64)| {
        let params = serde_json::json!({ "requests": 60_000, "space": 8 << 20, "write": write });
        let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, export as u64)).expect("a trace");
        RunWorkload {
            export,
            trace: trace.into(),
            trace_hash: String::new(),
            fit: String::new(),
            warm_up: 0,
            pace: Some(Pace::ClosedFor { outstanding: 64, runtime: Span::from_secs(10) }),
            passes: 4,
        }
    };
    let options = RunOptions {
        workloads: [0.0, 1.0].into_iter().enumerate().map(workload).collect(),
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "served-drive".into(),
    };
    let result = run(&stack, &options, |_| {}).expect("the stack runs");
    let [reader, writer] = ["reader", "writer"].map(|name| {
        result.tenants.iter().find(|tenant| tenant.name == name).expect("a tenant").total.requests
    });
    let queue = result.layers.iter().find(|layer| layer.name == "queue").expect("a queue");
    let [a, b] =
        ["tenant_1_contended_cost_ns", "tenant_2_contended_cost_ns"].map(|name| queue.counters[name]);
    ([reader / 10, writer / 10], [reader * 1000 / (reader + writer), a * 1000 / (a + b)])
}

#[test]
fn simulated_shares_of_the_drive_that_is_served() {
    for (scheduler, by_weight) in
        [("kind = \"drr\"", true), ("kind = \"flashfq\"", true), ("kind = \"noop\"", false)]
    {
        let ([reads, writes], [all, contended]) = shares(scheduler);
        println!(
            "{scheduler}: {reads} reads and {writes} writes per second, {all} and {contended} thousandths"
        );
        assert_eq!((712..=788).contains(&contended), by_weight, "{scheduler}: {contended}");
    }
}
