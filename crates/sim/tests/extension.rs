//! A load that begins again until its stack is steady: what counts is one turn of it, the drives go on, and it ends.

use nandu_base::{Precondition, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_sim::replay::{CAP_DEFAULT, Renew};
use nandu_sim::steady::State;
use nandu_sim::tap::{Ended, Look, Tap, run_tapped};
use nandu_sim::verify::run_verified;
use nandu_sim::{Extension, Pace, RunOptions, RunResult, RunWorkload};
use nandu_stack::Stack;
use nandu_trace::{Trace, synth};
use serde_json::json;
use std::sync::Arc;

const REQUESTS: u64 = 6000;

/// 15 MiB with spare blocks for 1,280 pages: the first fifth of a load uses them up, from then on collection has to.
fn drive() -> SsdTable {
    ssd("bench-2026").channels(2).blocks(40).pages(64).spare(0.25)
}

fn requests(turn: u32) -> Arc<Trace> {
    let params = json!({ "requests": REQUESTS, "space": 14 << 20, "write": 1 });
    let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, 1 + u64::from(turn)));
    Arc::new(trace.expect("a trace"))
}

fn options(most: u32, pace: Pace) -> RunOptions {
    let workload = RunWorkload {
        export: 0,
        trace: requests(0).into(),
        trace_hash: String::new(),
        fit: String::new(),
        pace: Some(pace),
        passes: 1,
        warm_up: 0,
    };
    let renew: Renew = Arc::new(|turn| Some(requests(turn).into()));
    RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: Extension { least: 0, most, renew: vec![Some(renew)] },
        stack_name: "test".into(),
    }
}

const CLOSED: Pace = Pace::Closed { outstanding: 4 };

fn run(options: &RunOptions) -> RunResult {
    nandu_sim::run(&Stack::parse(&drive().stack()).expect("a stack"), options, |_| {})
        .expect("the stack runs")
}

#[test]
fn a_load_begins_again_until_the_drive_is_steady_and_its_last_turn_counts() {
    let (once, again) = (run(&options(0, CLOSED)), run(&options(20, CLOSED)));
    assert_eq!((once.state, once.extended), (State::NotSteady, 0), "{:?}", once.steady_state);
    assert_eq!(again.state, State::Steady, "{:?}", again.steady_state);
    assert!((1..20).contains(&again.extended), "{}", again.extended);
    // One turn counts, in latencies and in what the drive counts, and it is the dearer one.
    assert_eq!((once.total.requests, again.total.requests), (REQUESTS, REQUESTS));
    let host = |r: &RunResult| r.layers[0].counters["host_pages_written"];
    assert_eq!((host(&once), host(&again)), (REQUESTS, REQUESTS));
    assert!(again.waf_thousandths > once.waf_thousandths && again.total.mean_ns > once.total.mean_ns);
    assert_eq!(again, run(&options(20, CLOSED)), "the same options, the same bytes");
    // As many turns whatever the state.
    let mut fixed = options(again.extended, CLOSED);
    fixed.extension.least = again.extended;
    assert_eq!(run(&fixed), again);
    fixed.extension = Extension { least: 1, most: 1, ..fixed.extension };
    assert_eq!(run(&fixed).extended, 1);
}

#[test]
fn it_ends_where_it_may_go_on_no_further() {
    let result = run(&options(1, CLOSED));
    assert!(result.extended == 1 && result.total.requests == REQUESTS, "{}", result.extended);
    // What is not extended is what it was.
    let plain = RunOptions { extension: Extension::NONE, ..options(0, CLOSED) };
    assert_eq!(run(&plain), run(&options(0, CLOSED)));
}

#[test]
fn checked_reads_and_taps_see_the_turn_that_counts() {
    struct Count(Vec<u64>);
    impl Tap for Count {
        fn ended(&mut self, request: &Ended) {
            self.0.push(request.number);
        }
    }
    let mut fixed = options(2, CLOSED);
    fixed.extension.least = 2;
    let stack = Stack::parse(&drive().stack()).expect("a stack");
    let plain = run(&fixed);
    let verified = run_verified(&stack, &fixed, |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&verified.total, verified.extended), (&plain.total, 2));
    let look = Look { samples: true, turn: 2, ..Look::default() };
    let seen = run_tapped(&stack, &fixed, Count(Vec::new()), look, |_| {}).expect("the stack runs");
    let mut numbers = seen.tap.0;
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(2 * REQUESTS..3 * REQUESTS));
    assert_eq!(seen.result.total, plain.total);
    let written = seen.samples.devices[0].counter("host_pages_written").expect("a counter");
    assert!(written.first() < Some(&10) && written.last() == Some(&REQUESTS), "{written:?}");
}

#[test]
fn a_rate_goes_on_at_its_pace() {
    let interval = Span(2_000_000);
    let mut fixed = options(3, Pace::Rate { interval, cap: CAP_DEFAULT });
    fixed.extension.least = 3;
    let result = run(&fixed);
    let paced = interval.0 * (REQUESTS - 1);
    assert!((paced..paced + paced / 10).contains(&result.duration_ns), "{}", result.duration_ns);
    assert!(!result.saturated && result.extended == 3);
}

/// Spare blocks for four times the load: its five rounds are level, and collection does not begin.
#[test]
fn a_drive_that_uses_up_its_spare_blocks_is_not_steady() {
    let stack = Stack::parse(&drive().blocks(320).spare(0.3).stack()).expect("a stack");
    let run = |most| nandu_sim::run(&stack, &options(most, CLOSED), |_| {}).expect("the stack runs");
    let once = run(0);
    let steady = once.steady_state.clone().expect("long enough");
    assert!(steady.excursion_thousandths <= 200 && steady.slope_thousandths <= 100, "{steady:?}");
    assert!(steady.uses_up_spare && !steady.is_steady && once.state == State::NotSteady, "{steady:?}");
    assert_eq!(once.waf_thousandths, Some(1000));
    // No further turn is taken where it would not be enough of them.
    assert_eq!(run(1), once);
    let again = run(20);
    let steady = again.steady_state.expect("long enough");
    assert!(again.state == State::Steady && !steady.uses_up_spare, "{steady:?}");
    assert!(
        (2..20).contains(&again.extended) && again.waf_thousandths > once.waf_thousandths,
        "{}",
        again.extended
    );
}
