//! In steady state the plain simulation allocates nothing for a request: once every table, queue and buffer has its size,
//! hundreds of thousands of requests pass without a call of the allocator. One thing grows with the time that is
//! simulated: the history halves its resolution each time the run has become twice as long, which takes two calls.

use nandu_base::Precondition;
use nandu_sim::{Pace, RunOptions, RunWorkload, run};
use nandu_stack::Stack;
use nandu_trace::synth;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts the calls of each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DRIVE: &str = "kind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nchips_per_channel = 2\nplanes_per_die = 2\nblocks_per_plane = 40\n\
                     pages_per_block = 64\nspare_factor = 0.25\n";

/// Calls of the allocator when the history halves its resolution.
const HISTORY: u64 = 2;

/// Calls of the allocator from one mark of progress (65,536 requests) to the next.
fn calls_by_mark(stack: &str) -> Vec<u64> {
    let stack = Stack::parse(stack).expect("the stack is right");
    let params = serde_json::json!({ "requests": 65_536, "space": 32 << 20 });
    let trace = synth::by_name("mixed-zipf").and_then(|s| s.trace(&params, 1)).expect("a trace");
    let workload = RunWorkload {
        export: 0,
        trace: trace.into(),
        trace_hash: String::new(),
        fit: String::new(),
        pace: Some(Pace::Closed { outstanding: 16 }),
        passes: 12,
        warm_up: 0,
    };
    let options = RunOptions {
        workloads: vec![workload],
        seed: 1,
        precondition: Precondition::Filled,
        warm_up: 0,
        extension: nandu_sim::Extension::NONE,
        stack_name: "test".into(),
    };
    let mut marks = Vec::with_capacity(64);
    let result = run(&stack, &options, |_| marks.push(CALLS.with(Cell::get))).expect("the stack runs");
    assert!(result.waf_thousandths.is_some_and(|waf| waf > 1_100), "collection is at work");
    marks.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn none_in_steady_state(stack: &str) {
    let calls = calls_by_mark(stack);
    let (warm_up, steady) = calls.split_at(calls.len() / 2);
    assert!(steady.len() >= 5, "{calls:?}");
    // The second half of a run makes it twice as long once.
    assert!(
        steady.iter().sum::<u64>() <= HISTORY,
        "allocations for each 65,536 requests: {warm_up:?}, then {steady:?}"
    );
}

#[test]
fn a_drive_at_work_allocates_nothing() {
    none_in_steady_state(&format!("[export.data]\ndevice = \"a\"\n\n[device.a]\n{DRIVE}"));
}

#[test]
fn a_stripe_allocates_nothing() {
    none_in_steady_state(&format!(
        "[export.data]\ndevice = \"s\"\n\n[device.a]\n{DRIVE}\n[device.b]\n{DRIVE}\n\
         [device.s]\nkind = \"stripe\"\nlegs = [\"a\", \"b\"]\nchunk = \"16 KiB\"\n"
    ));
}

#[test]
fn a_mirror_allocates_nothing() {
    none_in_steady_state(&format!(
        "[export.data]\ndevice = \"m\"\n\n[device.a]\n{DRIVE}\n[device.b]\n{DRIVE}\n\
         [device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n"
    ));
}
