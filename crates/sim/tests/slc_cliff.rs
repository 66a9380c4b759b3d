//! The write cliff of a long sequential write to a drive with a cache in SLC mode (`stacks/slc-cache.toml`): where the size of
//! the cache puts it, and at which rates.
//!
//! `cargo test --release -p nandu-sim --test slc_cliff -- --nocapture` prints the table of docs/explanation/ssd-controller.md.

use nandu_base::{Content, Instant, Payload, PayloadPool, Precondition, Request};
use nandu_sim::metrics::Metrics;
use nandu_sim::replay::Host;
use nandu_sim::run::run_with;
use nandu_sim::{Pace, RunOptions, RunResult, RunWorkload, Sink};
use nandu_stack::{StackFile, builtin};
use nandu_trace::{Record, synth};
use serde_json::json;
use std::sync::Arc;

/// Keeps when each request ended.
struct Ends {
    metrics: Metrics,
    ends: Vec<Instant>,
}

impl Sink for Ends {
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        self.ends.push(now);
        self.metrics.done(request, now, pool);
    }
}

impl Host for Ends {
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
        self.metrics.begin(first, now);
    }

    fn count_from(&mut self, source: usize, first: u64) {
        self.metrics.count_from(source, first);
    }
}

/// Bytes of a request: a page on every plane.
const REQUEST: u64 = 16 * PAGE;
const PAGE: u64 = 16 << 10;
const REQUESTS: u64 = (12 << 30) / REQUEST;

/// Writes 12 GiB from the start of the drive, eight requests at a time. Returns when each ended.
fn write(cache: &str) -> (Vec<Instant>, RunResult) {
    let file = std::fs::read_to_string("../../stacks/slc-cache.toml").expect("the stack file is there");
    let kept: Vec<&str> = file.lines().filter(|line| !line.starts_with("slc_cache")).collect();
    let text = format!("{}\n{cache}\n", kept.join("\n"));
    let stack = StackFile::parse(&text, "slc-cache.toml").unwrap().load(&builtin()).unwrap();
    let params =
        json!({"requests": REQUESTS, "write": "1", "size": REQUEST, "space": 12u64 << 30, "sequential": "1"});
    let trace = Arc::new(synth::by_name("uniform").unwrap().trace(&params, 1).unwrap());
    let pace = Some(Pace::Closed { outstanding: 8 });
    let workload = RunWorkload {
        export: 0,
        trace: trace.into(),
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
        extension: nandu_sim::Extension::NONE,
        stack_name: "slc-cache".into(),
    };
    let tenants = stack.tenants.len() + 1;
    let host = |start| Ends { metrics: Metrics::new(tenants, 1, start), ends: Vec::new() };
    let (result, host) = run_with(&stack, &options, Content::Nothing, host, |t| &t.metrics, |_| {}).unwrap();
    (host.ends, result)
}

/// Bytes per second over some of the requests.
fn rate(ends: &[Instant]) -> u64 {
    let time = ends[ends.len() - 1].since(ends[0]).0;
    ((ends.len() as u128 - 1) * u128::from(REQUEST) * 1_000_000_000 / u128::from(time)) as u64
}

/// The first of 32 requests in a row that are written at less than half the rate of the first 256.
fn cliff(ends: &[Instant]) -> usize {
    let quick = rate(&ends[..256]);
    (0..ends.len() - 32).find(|&at| rate(&ends[at..at + 32]) * 2 < quick).unwrap_or(ends.len())
}

/// Blocks of a plane that a dynamic cache with this share takes on the empty drive; four of them make one of the chip's own mode. A plane has
/// 143 blocks of 16 MiB, of which six hold no data.
fn borrowed(share: (u64, u64)) -> u64 {
    let unused = |n: u64| 137 - n.div_ceil(4);
    (0..).find(|&n| n >= unused(n) * share.0 / share.1).expect("the right side falls")
}

/// The two pages of a die are programmed in one operation. A channel serves two dies, whose pages cross it by turns: the second page of a
/// die is the third to cross.
fn rate_of(program_ns: u64) -> u64 {
    let transfer = PAGE * 1_000_000_000 / 1_200_000_000;
    16 * PAGE * 1_000_000_000 / (3 * transfer + program_ns)
}

#[test]
fn the_cliff_is_where_the_size_of_the_cache_puts_it() {
    println!("| cache | size by arithmetic | cliff after | at | MB/s before | MB/s after | WAF |");
    for (name, cache, share) in [
        ("none", "", None),
        ("dynamic = 1", "slc_cache = { dynamic = 1, fold_idle = false }", Some((1, 1))),
        ("dynamic = 1/2", "slc_cache = { dynamic = 0.5, fold_idle = false }", Some((1, 2))),
        ("dynamic = 1/4", "slc_cache = { dynamic = 0.25, fold_idle = false }", Some((1, 4))),
        (
            "dynamic = 1/4, fold",
            "slc_cache = { dynamic = 0.25, fold_idle = false, when_full = \"fold\" }",
            Some((1, 4)),
        ),
    ] {
        let (ends, result) = write(cache);
        let figure = |name: &str| {
            let counters = result.layers.iter().flat_map(|layer| &layer.counters);
            counters.filter(|(n, _)| **n == name).map(|(_, value)| *value).sum::<u64>()
        };
        let at = cliff(&ends);
        let size = share.map_or(0, |share| borrowed(share) * 256 * REQUEST);
        let (before, after) = (rate(&ends[..at.min(4096)]), rate(&ends[ends.len() - 4096..]));
        let waf = figure("nand_pages_programmed") * 100 / figure("host_pages_written");
        let reached = at as u64 * REQUEST;
        println!(
            "| {name} | {} MiB | {} MiB | {} ms | {} | {} | {}.{:02} |",
            size >> 20,
            reached >> 20,
            ends[at.min(ends.len() - 1)].0 / 1_000_000,
            before / 1_000_000,
            after / 1_000_000,
            waf / 100,
            waf % 100
        );
        // Within one in fifty.
        let near = |value: u64, want: u64| value.abs_diff(want) * 50 < want;
        let (slc, own) = (rate_of(200_000), rate_of(2_000_000));
        if share.is_none() {
            assert!(
                at == ends.len() && near(before, own),
                "{before} B/s without a cache, {own} by its programs"
            );
            continue;
        }
        assert!(near(before, slc), "{name}: {before} B/s, {slc} by its programs");
        let is_folding = name.ends_with("fold");
        // Where a full cache folds, that begins with its last block.
        let early = if is_folding { 256 * REQUEST } else { 0 };
        assert!(near(reached + early, size), "{name}: the cliff is at {reached} B, the cache has {size} B");
        let time = ends[at].0 as u128 * u128::from(slc) / 1_000_000_000;
        assert!(near(time as u64 + early, size), "{name}: the cliff comes after {} ns", ends[at].0);
        if is_folding {
            assert!(after < own, "{name}: folding leaves {after} B/s, less than {own}");
        } else {
            assert!(near(after, own), "{name}: {after} B/s behind the cliff, {own} by its programs");
            assert_eq!(
                figure("nand_pages_programmed"),
                figure("host_pages_written"),
                "{name}: nothing was folded"
            );
        }
    }
}
