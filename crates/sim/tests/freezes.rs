//! Freezes of a nearly full log-block drive under bursts of writes (spec S1-22, D1-4, C1-14): they must come from the
//! drive's own merges, clustered, and almost never concern reads.
//!
//! `cargo test --release -p nandu-sim --test freezes -- --ignored --nocapture` prints the table of docs/experiments/ssd-freezes.md.

use nandu_base::{Content, Instant, Op, Payload, PayloadPool, Precondition, Request, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_sim::metrics::Metrics;
use nandu_sim::replay::Host;
use nandu_sim::run::run_with;
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload, Sink};
use nandu_stack::{StackFile, builtin};
use nandu_trace::{Record, synth};
use serde_json::json;
use std::sync::Arc;

/// Keeps the times of every request.
struct Times {
    metrics: Metrics,
    /// Operation, arrival and end.
    requests: Vec<(Op, Instant, Instant)>,
}

impl Sink for Times {
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        self.requests.push((request.op, request.arrival, now));
        self.metrics.done(request, now, pool);
    }
}

impl Host for Times {
    fn payload(&mut self, record: &Record, cookie: u64, pool: &mut PayloadPool) -> Payload {
        self.metrics.payload(record, cookie, pool)
    }

    fn ended(&self, source: usize) -> u64 {
        self.metrics.ended(source)
    }

    fn last_end(&self, source: usize) -> Instant {
        self.metrics.last_end(source)
    }

    fn begin(&mut self, first: u64, now: Instant) {
        self.requests.clear();
        self.metrics.begin(first, now);
    }

    fn count_from(&mut self, source: usize, first: u64) {
        self.metrics.count_from(source, first);
    }
}

/// What the writes of a run looked like.
#[derive(Debug)]
struct Shape {
    median: Span,
    p99: Span,
    longest: Span,
    /// Freezes over 10, 40 and 200 times the median: how many, and the middle time from one to the next.
    freezes: [(usize, Span); 3],
    /// Of 1000 writes, how many take over 10 times the median.
    slow: usize,
    /// Of 1000 writes that arrive next after a slow one, how many are slow.
    slow_after_slow: usize,
    longest_read: Span,
}

fn middle(mut spans: Vec<Span>) -> Span {
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied().unwrap_or(Span::ZERO)
}

/// Stretches of time in which a write of over `limit` is under way: when each begins.
fn freezes(writes: &[(Instant, Instant)], limit: Span) -> Vec<Instant> {
    let (mut starts, mut until) = (Vec::new(), Instant::ZERO);
    for &(arrival, end) in writes.iter().filter(|(arrival, end)| end.since(*arrival) > limit) {
        if starts.is_empty() || arrival > until {
            starts.push(arrival);
        }
        until = until.later(end);
    }
    starts
}

fn shape(times: &Times) -> Shape {
    let mut writes: Vec<(Instant, Instant)> =
        times.requests.iter().filter(|r| r.0 == Op::Write).map(|r| (r.1, r.2)).collect();
    writes.sort_unstable();
    let latency = |w: &(Instant, Instant)| w.1.since(w.0);
    let mut latencies: Vec<Span> = writes.iter().map(latency).collect();
    latencies.sort_unstable();
    let n = latencies.len();
    let median = latencies[n / 2];
    let of = [10, 40, 200].map(|times| {
        let starts = freezes(&writes, median * times);
        let gaps = starts.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        (starts.len(), middle(gaps))
    });
    let is_slow: Vec<bool> = writes.iter().map(|w| latency(w) > median * 10).collect();
    let slow = is_slow.iter().filter(|&&slow| slow).count();
    let again = is_slow.windows(2).filter(|pair| pair[0] && pair[1]).count();
    let reads = times.requests.iter().filter(|r| r.0 == Op::Read).map(|r| r.2.since(r.1));
    Shape {
        median,
        p99: latencies[n * 99 / 100],
        longest: latencies[n - 1],
        freezes: of,
        slow: slow * 1000 / n,
        slow_after_slow: again * 1000 / slow.max(1),
        longest_read: reads.max().unwrap_or(Span::ZERO),
    }
}

/// One small drive of `stacks/fast.toml` with another map.
fn drive(mapping: &str) -> SsdTable {
    let drive = ssd("slc-2015").channels(4).spare("6 %");
    drive.with(format_args!("chips_per_channel = 4\ncapacity = \"512 MiB\"\nmapping = {mapping}"))
}

/// Writes small files onto `percent` of the drive, 30 % of them again and again, after it was filled so far. One read of
/// 4 KiB for each write comes in between.
fn run(mapping: &str, buffer: &str, percent: u64, per_second: u64) -> (Shape, RunResult) {
    const REQUESTS: u64 = 12_000;
    const WARM_UP: u64 = 5_000;
    let space = (512 << 20) / 100 * percent;
    let gap = 1_000_000_000 / per_second;
    let files = json!({"requests": REQUESTS, "interarrival": format!("{gap} ns"), "overwrite": "30 %",
                       "space": space});
    let reads = json!({"requests": REQUESTS, "interarrival": format!("{gap} ns"), "write": "0", "size": "4 KiB",
                       "space": space / 4096 * 4096});
    let text = drive(mapping).with(buffer).stack();
    let stack = StackFile::parse(&text, "freezes.toml").unwrap().load(&builtin()).unwrap();
    let workload = |name: &str, params: &serde_json::Value| {
        let trace = Arc::new(synth::by_name(name).unwrap().trace(params, 1).unwrap());
        let (trace_hash, fit) = (String::new(), String::new());
        RunWorkload { export: 0, trace: trace.into(), trace_hash, fit, pace: None, passes: 1, warm_up: 0 }
    };
    let options = RunOptions {
        workloads: vec![workload("small-files", &files), workload("uniform", &reads)],
        seed: 1,
        precondition: Precondition::Empty,
        warm_up: 2 * WARM_UP,
        extension: nandu_sim::Extension::NONE,
        stack_name: "freezes".into(),
    };
    let tenants = stack.tenants.len() + 1;
    let host = |start| Times { metrics: Metrics::new(tenants, 2, start), requests: Vec::new() };
    let (result, times) = run_with(&stack, &options, Content::Nothing, host, |t| &t.metrics, |_| {}).unwrap();
    let shape = shape(&times);
    print_row(mapping, percent, per_second, &shape);
    (shape, result)
}

fn print_row(mapping: &str, percent: u64, per_second: u64, s: &Shape) {
    let [ten, forty, many] = s.freezes.map(|(count, gap)| format!("{count} ({gap})"));
    println!(
        "| {mapping} | {percent} % | {per_second}/s | {} | {} | {} | {ten} | {forty} | {many} | {} | {} | {} |",
        s.median, s.p99, s.longest, s.slow, s.slow_after_slow, s.longest_read
    );
}

const BUFFER: &str = "write_buffer = { size = \"8 MiB\" }";

fn heading() {
    println!(
        "| map | full | rate | median | p99 | longest | over 10x (apart) | over 40x | over 200x | slow of 1000 | \
         slow after slow | longest read |"
    );
}

/// Freezes of more than 40 times the median come, go and come again; who waits is likely to wait next time too; and reads
/// do not freeze.
#[test]
fn a_nearly_full_log_block_drive_freezes_again_and_again_under_a_burst() {
    heading();
    let (calm, _) = run("{ kind = \"fast\" }", BUFFER, 90, 30);
    assert_eq!(calm.freezes[0].0, 0, "{calm:?}");
    let (burst, result) = run("{ kind = \"fast\" }", BUFFER, 90, 50);
    assert!(burst.median < Span::from_ms(10), "{burst:?}");
    assert!(burst.longest > burst.median * 40, "{burst:?}");
    assert!((3..1000).contains(&burst.freezes[1].0), "{burst:?}");
    assert!(burst.slow_after_slow > 3 * burst.slow, "{burst:?}");
    assert!(burst.longest_read < Span::from_ms(20), "{burst:?}");
    let figure = |name: &str| {
        let counters = result.layers.iter().flat_map(|layer| &layer.counters);
        counters.filter(|(n, _)| **n == name).map(|(_, value)| *value).sum::<u64>()
    };
    assert!(figure("merges_full") > 1000, "nothing but merges can hold a write up");
    // The buffer decides how much of a burst is seen: four times as much hides it, a quarter makes it the rule.
    let (large, _) = run("{ kind = \"fast\" }", "write_buffer = { size = \"32 MiB\" }", 90, 50);
    assert_eq!(large.freezes[0].0, 0, "{large:?}");
    let (small, _) = run("{ kind = \"fast\" }", "write_buffer = { size = \"2 MiB\" }", 90, 50);
    assert!(small.slow > burst.slow * 3, "{small:?}");
}

/// Where blocks without data serve as log blocks, a fuller drive has fewer of them.
#[test]
fn a_fuller_drive_freezes_where_an_emptier_one_does_not() {
    heading();
    for (mapping, rate) in [
        ("{ kind = \"fast\", use_free_blocks = true }", 70),
        ("{ kind = \"bast\", use_free_blocks = true }", 40),
    ] {
        let (emptier, _) = run(mapping, BUFFER, 60, rate);
        let (fuller, _) = run(mapping, BUFFER, 90, rate);
        assert_eq!(emptier.freezes[0].0, 0, "{emptier:?}");
        assert!(fuller.freezes[0].0 > 0 && fuller.longest > emptier.longest * 20, "{fuller:?}");
    }
}

/// The table of docs/experiments/ssd-freezes.md.
#[test]
#[ignore = "a table for people: `cargo test --release -p nandu-sim --test freezes -- --ignored --nocapture`"]
fn table() {
    heading();
    for rate in [30, 40, 45, 50, 55, 60] {
        run("{ kind = \"fast\" }", BUFFER, 90, rate);
    }
    for buffer in [2, 32] {
        println!("write_buffer = {buffer} MiB:");
        run("{ kind = \"fast\" }", &format!("write_buffer = {{ size = \"{buffer} MiB\" }}"), 90, 50);
    }
    for (mapping, rates) in [
        ("{ kind = \"fast\", use_free_blocks = true }", [60, 70, 80]),
        ("{ kind = \"bast\", use_free_blocks = true }", [30, 40, 50]),
    ] {
        for rate in rates {
            for percent in [60, 90] {
                run(mapping, BUFFER, percent, rate);
            }
        }
    }
    for (mapping, rate) in [("{ kind = \"bast\" }", 30), ("{ kind = \"block\" }", 30)] {
        run(mapping, BUFFER, 90, rate);
    }
    println!("no write buffer:");
    for percent in [60, 90] {
        run("{ kind = \"page\" }", "", percent, 50);
    }
}

/// What random writes of 4 KiB, one after the other, onto a part of a drive without a write buffer come to.
struct Filled {
    /// Mean time of a write in ns.
    mean: u64,
    /// Pages programmed for 1000 of the host's.
    amplified: u64,
    /// Die time for collection, by 1000 of the die time for writes.
    gc_time: u64,
}

/// `percent` of a drive with so much spare is written.
fn fill(mapping: &str, spare: &str, percent: u64) -> Filled {
    let space = (128 << 20) / 100 * percent / 4096 * 4096;
    let text = drive(mapping).with("capacity = \"128 MiB\"").spare(spare).stack();
    let stack = StackFile::parse(&text, "fill.toml").unwrap().load(&builtin()).unwrap();
    let requests = 150_000;
    let params = json!({"requests": requests, "write": "1", "size": "4 KiB", "space": space});
    let trace = Arc::new(synth::by_name("uniform").unwrap().trace(&params, 1).unwrap());
    let pace = Some(Pace::Closed { outstanding: 1 });
    let (trace_hash, fit) = (String::new(), String::new());
    let options = RunOptions {
        workloads: vec![RunWorkload {
            export: 0,
            trace: trace.into(),
            trace_hash,
            fit,
            pace,
            passes: 1,
            warm_up: 0,
        }],
        seed: 1,
        precondition: Precondition::Empty,
        warm_up: 100_000,
        extension: nandu_sim::Extension::NONE,
        stack_name: "fill".into(),
    };
    let tenants = stack.tenants.len() + 1;
    let host = |start| Times { metrics: Metrics::new(tenants, 1, start), requests: Vec::new() };
    let (result, times) = run_with(&stack, &options, Content::Nothing, host, |t| &t.metrics, |_| {}).unwrap();
    let total: u64 = times.requests.iter().map(|r| r.2.since(r.1).0).sum();
    let counters = &result.layers[0].counters;
    let amplified = counters["nand_pages_programmed"] * 1000 / counters["host_pages_written"];
    let die_time = |work: &str| -> u64 {
        let charges = &result.layers[0].charges;
        charges.iter().filter(|c| c.resource == "die" && c.work == work).map(|c| c.busy_ns).sum()
    };
    let gc_time = die_time("gc") * 1000 / die_time("write");
    Filled { mean: total / times.requests.len() as u64, amplified, gc_time }
}

/// Spec C1-13: collection costs 10 % more at 60 % full and 50 % more at 90 %. The paper cites it and names no drive. Greedy
/// collection under uniform writes moves as many pages on a drive of which a third is spare; what is allowed here was
/// written down before the first run: 5 to 15 % and 40 to 60 %, in pages moved for each page written.
#[test]
fn collection_costs_a_tenth_at_60_percent_full_and_half_at_90() {
    for (percent, allowed) in [(60, 1050..=1150), (90, 1400..=1600)] {
        let filled = fill("{ kind = \"page\" }", "33 %", percent);
        println!("{percent} % full: {} programmed for 1000", filled.amplified);
        assert!(allowed.contains(&filled.amplified), "{percent} % full: {}", filled.amplified);
    }
}

/// The second table of docs/experiments/ssd-freezes.md (spec C1-13).
#[test]
#[ignore = "a table for people: `cargo test --release -p nandu-sim --test freezes -- --ignored --nocapture`"]
fn fill_levels() {
    println!(
        "| map | spare | full | mean write | against 10 % full | pages programmed per 1000 | die time for collection per 1000 |"
    );
    for (mapping, spare) in [
        ("{ kind = \"page\" }", "33 %"),
        ("{ kind = \"page\" }", "20 %"),
        ("{ kind = \"page\" }", "12 %"),
        ("{ kind = \"fast\", use_free_blocks = true }", "12 %"),
        ("{ kind = \"bast\", use_free_blocks = true }", "12 %"),
        ("{ kind = \"fast\" }", "12 %"),
        ("{ kind = \"block\" }", "12 %"),
    ] {
        let base = fill(mapping, spare, 10).mean;
        for percent in [10, 60, 90] {
            let Filled { mean, amplified, gc_time } = fill(mapping, spare, percent);
            let more = mean * 100 / base;
            println!(
                "| {mapping} | {spare} | {percent} % | {} | {more} % | {amplified} | {gc_time} |",
                Span(mean)
            );
        }
    }
}
