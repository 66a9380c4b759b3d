//! What the figures of a run mean: which requests count, what is exact, and what bytes are held against what bytes.

use nandu_base::{Precondition, Ratio, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_sim::replay::{CAP_DEFAULT, Length, Progress};
use nandu_sim::run::{RunError, length};
use nandu_sim::tap::{Look, Tap, run_tapped};
use nandu_sim::verify::run_verified;
use nandu_sim::{Extension, Pace, RunOptions, RunResult, RunWorkload};
use nandu_stack::Stack;
use nandu_trace::synth;
use serde_json::{Value, json};

fn workload(export: usize, params: Value, pace: Option<Pace>) -> RunWorkload {
    let trace = synth::by_name("uniform").and_then(|s| s.trace(&params, 1 + export as u64)).expect("a trace");
    RunWorkload {
        export,
        trace: trace.into(),
        trace_hash: String::new(),
        fit: String::new(),
        pace,
        passes: 1,
        warm_up: 0,
    }
}

fn options(workloads: Vec<RunWorkload>) -> RunOptions {
    let (precondition, stack_name) = (Precondition::Empty, "test".into());
    RunOptions { workloads, seed: 1, precondition, warm_up: 0, extension: Extension::NONE, stack_name }
}

fn run(toml: &str, options: &RunOptions) -> RunResult {
    let stack = Stack::parse(toml).unwrap_or_else(|error| panic!("{error}"));
    nandu_sim::run(&stack, options, |_| {}).expect("the stack runs")
}

fn rate(per_second: u64) -> Option<Pace> {
    Some(Pace::Rate { interval: Span(1_000_000_000 / per_second), cap: CAP_DEFAULT })
}

fn small_drive() -> SsdTable {
    ssd("bench-2026").channels(2).blocks(40).pages(64).spare(0.25)
}

/// Two exports on one device that takes 100 us for each request of 4 KiB at 40 MB/s, one at a time.
fn slow(bandwidth: &str) -> String {
    format!(
        "[export.a]\ndevice = \"as\"\n[export.b]\ndevice = \"bs\"\n\
    [device.as]\nkind = \"slice\"\nbelow = \"m\"\nsize = \"4 MiB\"\n\
    [device.bs]\nkind = \"slice\"\nbelow = \"m\"\noffset = \"4 MiB\"\nsize = \"4 MiB\"\n\
    [device.m]\nkind = \"memory\"\nsize = \"8 MiB\"\nbandwidth = {bandwidth:?}\n"
    )
}

fn small(requests: u64) -> Value {
    json!({ "requests": requests, "space": 1 << 20, "write": 1 })
}

#[test]
fn each_workload_has_its_own_warm_up() {
    let mut warm = workload(0, small(600), rate(800));
    warm.warm_up = 300;
    let result = run(&slow("40 MB"), &options(vec![warm.clone(), workload(1, small(300), rate(500))]));
    let measured: Vec<u64> = result.tenants.iter().map(|t| t.total.requests).collect();
    assert_eq!((measured, result.total.requests), (vec![300, 300], 600));
    assert_eq!(result.provenance.warmup_requests, 300);
    assert_eq!(result.layers[0].requests["write"], 899, "the disk counts from the first request that does");
    // All warm up: the disk counts from the first that does, too.
    let mut other = workload(1, small(300), rate(500));
    other.warm_up = 299;
    let result = run(&slow("40 MB"), &options(vec![warm, other]));
    let measured: Vec<u64> = result.tenants.iter().map(|t| t.total.requests).collect();
    assert_eq!(measured, [300, 1]);
    assert!((400..700).contains(&result.layers[0].requests["write"]), "{:?}", result.layers[0].requests);
}

/// Writes of 4 KiB keep a device of 40 MB/s busy for 102.4 us each: of 500 a second that is 5.1 % of the time.
#[test]
fn utilisation_is_busy_time_over_the_measurement() {
    let result = run(&slow("40 MB"), &options(vec![workload(0, small(300), rate(500))]));
    let device = result.layers.iter().find(|layer| layer.name == "m").expect("it is a layer");
    assert_eq!(device.busy_ns["device"], 300 * 102_400);
    // From the first arrival to the end of the last request: 299 times 2 ms, its own time, and the microsecond of latency that memory has.
    assert_eq!(result.duration_ns, 299 * 2_000_000 + 102_400 + 1_000);
    // 30,720 us of 598,103 us.
    assert_eq!(device.util_thousandths["device"], 51);
    let json = serde_json::to_value(device).expect("it is JSON");
    assert_eq!(json["util"]["device"], 0.051);
    // Dies and channels of a drive are told together: 2 channels of 2 chips with a die each.
    let dies = small_drive().dies(1).with("chips_per_channel = 2").stack();
    let result = run(&dies, &options(vec![workload(0, small(2000), rate(1000))]));
    let drive = &result.layers[0];
    for (resource, units) in [("die", 4), ("channel", 2)] {
        let busy = drive.busy_ns[resource];
        assert!(
            busy > 0 && drive.util_thousandths[resource] == busy * 1000 / (result.duration_ns * units),
            "{resource}"
        );
    }
}

#[test]
fn a_warm_up_that_never_ends_is_no_measurement() {
    let pace = Pace::ClosedFor { outstanding: 1, runtime: Span::from_ms(10) };
    let mut options = options(vec![workload(0, small(10_000), Some(pace))]);
    options.warm_up = 5_000;
    let stack = Stack::parse(&slow("40 MB")).expect("a stack");
    let error = nandu_sim::run(&stack, &options, |_| {}).expect_err("nothing counts");
    assert!(matches!(error, RunError::NothingCounts { warm_up: 5_000, issued: 50..=150 }), "{error}");
}

/// Nobody knows how many requests a runtime leaves room for: its progress is that of the time.
#[test]
fn progress_of_a_runtime_is_that_of_its_time() {
    let disk = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"8 MiB\"\nlatency = \"10 us\"\n";
    let stack = Stack::parse(disk).expect("a stack");
    let pace = Pace::ClosedFor { outstanding: 4, runtime: Span::from_ms(1_000) };
    let mut options =
        options(vec![RunWorkload { passes: u32::MAX, ..workload(0, small(5_000), Some(pace)) }]);
    assert_eq!(length(&options), Length::Millis(1_000));
    let told = |options: &RunOptions| {
        let mut told = Vec::new();
        let heard = |progress: Progress| told.push((progress.done, progress.total));
        let result = nandu_sim::run(&stack, options, heard).expect("a run");
        (told, result.total.requests)
    };
    let (once, requests) = told(&options);
    assert!(requests > 4 * 65_536, "{requests}");
    let (end, parts) = once.split_last().expect("it is told");
    assert_eq!((*end, parts.len() as u64), ((1_000, 1_000), requests / 65_536));
    for (part, &(done, total)) in (1..).zip(parts) {
        let even = part * 65_536 * 1_000 / requests;
        assert!(done.abs_diff(even) <= 5 && total == 1_000, "{once:?}");
    }
    // A further turn takes as long again.
    options.extension = Extension { least: 1, most: 1, renew: Vec::new() };
    let (twice, _) = told(&options);
    assert_eq!(twice[..once.len()], once);
    assert!(
        twice[once.len()..].iter().all(|told| (1_001..=2_000).contains(&told.0) && told.1 == 2_000),
        "{twice:?}"
    );
    assert_eq!(twice.last(), Some(&(2_000, 2_000)));
    options.workloads[0].pace = rate(500);
    options.workloads[0].passes = 2;
    assert_eq!(length(&options), Length::Requests(10_000));
}

#[test]
fn saturation_is_seen_beside_a_workload_that_waits() {
    let idle = || workload(1, small(1), Some(Pace::Closed { outstanding: 1 }));
    let result = run(&slow("40 MB"), &options(vec![workload(0, small(2_000), rate(50_000)), idle()]));
    assert!(result.saturated);
    assert!(result.tenants[0].device.backlogged && !result.tenants[1].device.backlogged);
    assert_eq!(result.jain_thousandths, None, "one tenant asks all the time: there is nothing to compare");
    let result = run(&slow("40 MB"), &options(vec![workload(0, small(2_000), rate(5_000)), idle()]));
    assert!(!result.saturated);
    // Many children of few requests are no backlog.
    let stripe = "[export.data]\ndevice = \"s\"\n[device.s]\nkind = \"stripe\"\nlegs = [\"m\", \"n\"]\nchunk = \"4 KiB\"\n\
        [device.m]\nkind = \"memory\"\nsize = \"8 MiB\"\nlatency = \"100 ms\"\n\
        [device.n]\nkind = \"memory\"\nsize = \"8 MiB\"\nlatency = \"100 ms\"\n";
    let large = json!({ "requests": 40, "space": 4 << 20, "write": 1, "size": 1 << 20 });
    let result = run(stripe, &options(vec![workload(0, large, rate(1_000))]));
    assert!(!result.saturated);
}

#[test]
fn least_most_and_deviation_are_exact() {
    let one = run(&small_drive().stack(), &options(vec![workload(0, small(1), None)]));
    let (all, layer) = (&one.total, &one.layers[0]);
    assert_eq!((all.min_ns, all.max_ns, all.stddev_ns), (layer.latency_max_ns, layer.latency_max_ns, 0));
    assert_eq!((all.p50_ns, all.p99_99_ns), (all.max_ns, all.max_ns));
    let many = run(&small_drive().stack(), &options(vec![workload(0, small(100), rate(100))]));
    assert_eq!((many.total.min_ns, many.total.stddev_ns), (many.total.max_ns, 0), "all alike");

    /// Latencies in the order of the ends.
    struct All(Vec<u64>);
    impl Tap for All {
        fn ended(&mut self, request: &nandu_sim::tap::Ended) {
            self.0.push(request.latency().0);
        }
    }
    let stack = Stack::parse(&small_drive().stack()).expect("a stack");
    let mixed = json!({ "requests": 5_000, "space": 1 << 20, "write": 0.5 });
    let options = options(vec![workload(0, mixed, rate(20_000))]);
    let seen = run_tapped(&stack, &options, All(Vec::new()), Look::default(), |_| {}).expect("it runs");
    let (all, times) = (&seen.result.total, seen.tap.0);
    assert_eq!((times.iter().min(), times.iter().max()), (Some(&all.min_ns), Some(&all.max_ns)));
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    let variance = times.iter().map(|&t| (t as f64 - mean).powi(2)).sum::<f64>() / times.len() as f64;
    assert!((variance.sqrt() - all.stddev_ns as f64).abs() < 2.0, "{variance} {}", all.stddev_ns);
}

#[test]
fn latencies_beyond_hours_are_told_apart() {
    let slow = "[export.data]\ndevice = \"queue\"\n[tenant.data]\nmax = { wbps = \"1 B\" }\n\
        [device.queue]\nkind = \"queue\"\nbelow = \"m\"\n\
        [device.m]\nkind = \"memory\"\nsize = \"8 MiB\"\nlatency = \"1 us\"\n";
    let result = run(slow, &options(vec![workload(0, small(40), Some(Pace::Closed { outstanding: 40 }))]));
    let hours = |ns: u64| ns / 3_600_000_000_000;
    let all = &result.total;
    assert!(hours(all.p50_ns) > 15 && hours(all.max_ns) > 40 && all.p99_ns <= all.max_ns, "{all:?}");
}

#[test]
fn write_amplification_is_bytes_over_bytes_of_the_host() {
    let filled =
        |result: &RunResult| (result.waf_thousandths.unwrap(), result.drive_waf_thousandths.unwrap());
    // Whole pages, a drive alone: both are the same.
    let page = json!({ "requests": 20_000, "space": 8 << 20, "write": 1 });
    let mut aged = options(vec![workload(0, page, Some(Pace::Closed { outstanding: 8 }))]);
    aged.precondition = Precondition::Filled;
    let (waf, drive) = filled(&run(&small_drive().stack(), &aged));
    assert!(waf == drive && waf > 1_000, "{waf} {drive}");
    // Sectors: a page is programmed for each.
    let sectors = json!({ "requests": 500, "space": 1 << 20, "write": 1, "size": 512 });
    let (waf, drive) = filled(&run(&small_drive().stack(), &options(vec![workload(0, sectors, rate(100))])));
    let page = 4096 * 1000 / 512;
    assert!(drive < 1_100 && waf.is_multiple_of(page) && waf >= page, "{waf} {drive}");
    // A mirror writes everything twice.
    let mirror = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\n";
    let mirror = format!("{mirror}{}{}", small_drive().device("a"), small_drive().device("b"));
    let (waf, drive) = filled(&run(&mirror, &options(vec![workload(0, small(500), rate(100))])));
    assert!(waf >= 2 * drive && drive < 1_100, "{waf} {drive}");
}

#[test]
fn flash_under_a_hybrid_counts() {
    let hybrid = include_str!("../../../stacks/hybrid.toml");
    let load = json!({ "requests": 3_000, "space": 64 << 20, "write": 1 });
    let result = run(hybrid, &options(vec![workload(0, load, Some(Pace::Closed { outstanding: 4 }))]));
    let figure = |name: &str| result.layers.iter().filter_map(|l| l.counters.get(name)).sum::<u64>();
    let programmed = figure("slc_bytes_written") + figure("mlc_bytes_written");
    assert!(programmed > 4 << 20, "{programmed}");
    // The rings' own count is of pages that were sent, the chips' of pages that were programmed.
    assert!(figure("nand_bytes_written").abs_diff(programmed) < 1 << 20);
    let waf = u128::from(figure("nand_bytes_written")) * 1000 / u128::from(result.write.bytes);
    assert_eq!(result.waf_thousandths, Some(waf as u64));
}

const LEAVES: &str = "[export.data]\ndevice = \"ssd\"\n\
    [change.leave]\nat = \"50 ms\"\ndevice = \"ssd\"\nremove = 1\n\
    [device.ssd]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 320\npages_per_block = 32\n\
    spare_factor = 0.5\nreclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\" }\nmax_tenants = 4\n\
    tenants = [{ name = \"a\", size = \"16 MiB\" }, { name = \"b\", size = \"8 MiB\" }]\n";

#[test]
fn what_failed_was_not_served() {
    let options = options(vec![workload(0, small(100), rate(1_000))]);
    let result = run(LEAVES, &options);
    let all = &result.total;
    assert!(all.failed > 40 && all.requests + all.failed == 100, "{} and {}", all.requests, all.failed);
    assert!(all.min_ns > 1_000 && all.p50_ns > 1_000, "{all:?}");
    assert_eq!(all.bytes, all.requests * 4096);
    assert_eq!(result.lifetime.expect("there is flash").host_bytes_written, all.bytes);
    assert_eq!(all.iops, all.requests * 1_000_000_000 / result.duration_ns);
    // A tenant that leaves is a cause; a verified run takes its failures for what they are.
    let stack = Stack::parse(LEAVES).expect("a stack");
    let verified = run_verified(&stack, &options, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(verified.total.failed, all.failed);
}

/// A burst that takes minutes to serve, long before the end of the trace: the latencies measure the queue.
#[test]
fn saturation_is_seen_long_before_the_end() {
    let burst = |requests: u64| {
        let pace = Pace::Open { time_scale: Ratio::new(1, 1), cap: CAP_DEFAULT };
        let mut load = workload(0, small(requests), Some(pace));
        let trace = load.trace.held_mut();
        let last = trace.records.len() - 1;
        for (at, record) in (0..).zip(&mut trace.records) {
            let time = if at as usize == last { 10_000_000_000_000 } else { at * 1_000 };
            *record = record.at(time).expect("a time");
        }
        run(&slow("40 KB"), &options(vec![load, workload(1, small(1), rate(1))]))
    };
    // One at a time: the last of 300 waits for 30 s, and 64 more for up to 40 s; the load has 10,000 s.
    assert!(!burst(200).saturated);
    let result = burst(400);
    assert!(result.saturated && result.total.max_ns > 30_000_000_000, "{}", result.total.max_ns);
}

#[test]
fn a_burst_that_takes_a_twentieth_of_the_run_saturates_it() {
    // 1,000 requests at once of 10 ms each take 10 s; more than 64 of them wait longer than a twentieth of 100 s.
    let burst = |requests: u64| {
        let pace = Pace::Open { time_scale: Ratio::new(1, 1), cap: CAP_DEFAULT };
        let mut load = workload(0, small(requests + 500), Some(pace));
        let trace = load.trace.held_mut();
        for (at, record) in (0..).zip(&mut trace.records) {
            let time =
                if at < requests { at * 1_000 } else { 50_000_000_000 + (at - requests) * 100_000_000 };
            *record = record.at(time).expect("a time");
        }
        run(&slow("400 KB"), &options(vec![load, workload(1, small(1), rate(1))]))
    };
    let (short, long) = (burst(300), burst(1000));
    assert!(!short.saturated && long.saturated, "{} {}", short.total.max_ns, long.total.max_ns);
    assert!(long.total.max_ns < nandu_sim::replay::GIVEN_UP.0);
}

/// Requests are read in blocks: the gap before the first of a block is kept too.
#[test]
fn recorded_gaps_are_kept_all_through_a_long_trace() {
    const REQUESTS: u64 = 2_000;
    let mut load = workload(0, json!({ "requests": REQUESTS, "space": 1 << 20 }), None);
    let trace = load.trace.held_mut();
    trace.meta.arrival = nandu_trace::Arrival::GapAfterCompletion;
    // Each was issued 900 us after the one before had ended.
    for (n, record) in (0..).zip(&mut trace.records) {
        *record = record.at(n * 1_000_000).expect("a time");
    }
    trace.service = Some(vec![Span(100_000); REQUESTS as usize]);
    const MEMORY: &str = "[export.data]\ndevice = \"ram\"\n[device.ram]\nkind = \"memory\"\nsize = \"1 MiB\"\nlatency = \"10 us\"\n";
    for passes in [1, 2] {
        let result = run(MEMORY, &options(vec![RunWorkload { passes, ..load.clone() }]));
        let gaps = u64::from(passes) * (REQUESTS - 1) * 900_000;
        let busy = u64::from(passes) * REQUESTS * result.total.mean_ns;
        let apart = result.duration_ns.abs_diff(gaps + busy);
        assert!(apart < 900_000, "{} ns, {gaps} of gaps and {busy} of work", result.duration_ns);
    }
}
