//! The result of a run, with stable field names: what tables, JSON and reports are made of.
//!
//! Every figure is in the unit its name ends with. Names are those of fio where fio has one: requests by direction, `lat_ns` with
//! percentiles, `iops` and `bw_bytes`. Ratios are decimals with three places in JSON; they are kept as whole thousandths. The same run
//! gives the same bytes on every machine; how long the simulation itself took is not part of it.

use crate::decimals;
use crate::energy::{self, EnergyResult, EnergyState, LifetimeResult};
use crate::engine::ChangeOutcome;
use crate::fairness::{self, DeviceTime};
use crate::metrics::{Class, FLUSH, History, Metrics, READ, TRIM, WRITE};
use crate::over_time::OverTime;
use crate::replay::Outcome;
use crate::spare;
use crate::steady::{self, State, SteadyState};
use nandu_base::{
    Ask, CriticalPath, Histogram, Instant, Op, Phase, Resource, Span, TenantId, TenantStats, Work,
};
use nandu_stack::{Change, Graph, Stack};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

pub use nandu_base::JSON_SCHEMA as SCHEMA;

/// Where a result comes from: enough to get it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// Version of Nandu.
    pub version: String,
    /// Path or name of the stack file.
    pub stack: String,
    /// SHA-256 of the stack with its overrides.
    pub stack_hash: String,
    /// The workloads.
    pub workloads: Vec<WorkloadProvenance>,
    /// `empty`, `filled`, `fragmented:SHARE` or `aged`.
    pub precondition: String,
    /// The seed.
    pub seed: u64,
    /// Requests that did not count.
    pub warmup_requests: u64,
    /// Whether every read was checked.
    pub verified: bool,
    /// Reads that were checked, warm-up included.
    pub reads_checked: u64,
}

/// Where a workload comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkloadProvenance {
    /// The export it goes to.
    pub export: String,
    /// File, or generator with its seed.
    pub source: String,
    /// Format or generator.
    pub format: String,
    /// `real` or `synthetic`.
    pub origin: String,
    /// SHA-256 of the decoded requests, before fitting.
    pub trace_hash: String,
    /// How it was fitted.
    pub fit: String,
    /// How requests arrive, in words.
    pub arrival: String,
    /// How often it was replayed; where a runtime ended it, the last time perhaps in part.
    pub passes: u32,
    /// The runtime that ends it, where one does; [`arrival`](Self::arrival) says it in words.
    #[serde(skip)]
    pub runtime_ns: Option<u64>,
    /// What reading it guessed, changed or left out, a sentence each; absent where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Requests of one direction, or of all, and their latency in nanoseconds: arrival to completion, fio's `lat`. As JSON it is the object that fio
/// has for a direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Requests that were served.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed: they are in none of the other figures.
    pub failed: u64,
    /// Requests per simulated second.
    pub iops: u64,
    /// Bytes per simulated second.
    pub bytes_per_second: u64,
    /// Shortest, exact.
    pub min_ns: u64,
    /// Mean, exact.
    pub mean_ns: u64,
    /// Standard deviation, exact.
    pub stddev_ns: u64,
    /// Half are not longer. Percentiles are rounded up by at most 0.1 %, and never beyond the longest.
    pub p50_ns: u64,
    /// Nine in ten are not longer.
    pub p90_ns: u64,
    /// 95 in 100 are not longer.
    pub p95_ns: u64,
    /// 99 in 100 are not longer.
    pub p99_ns: u64,
    /// 999 in 1,000 are not longer.
    pub p99_9_ns: u64,
    /// 9,999 in 10,000 are not longer.
    pub p99_99_ns: u64,
    /// Longest, exact.
    pub max_ns: u64,
    /// Mean time by phase of the critical path; the phases add up to the mean latency, up to rounding.
    pub latency_breakdown_ns: BTreeMap<&'static str, u64>,
    /// Total time by phase, exact: adds up to the sum of latencies.
    pub latency_breakdown_total_ns: BTreeMap<&'static str, u64>,
}

/// Percentiles by the keys that fio gives them.
#[derive(Serialize)]
struct Percentiles {
    #[serde(rename = "50.000000")]
    p50: u64,
    #[serde(rename = "90.000000")]
    p90: u64,
    #[serde(rename = "95.000000")]
    p95: u64,
    #[serde(rename = "99.000000")]
    p99: u64,
    #[serde(rename = "99.900000")]
    p99_9: u64,
    #[serde(rename = "99.990000")]
    p99_99: u64,
}

/// Latencies as fio has them.
#[derive(Serialize)]
struct LatNs {
    min: u64,
    max: u64,
    mean: u64,
    stddev: u64,
    #[serde(rename = "N")]
    n: u64,
    percentile: Percentiles,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let percentile = Percentiles {
            p50: self.p50_ns,
            p90: self.p90_ns,
            p95: self.p95_ns,
            p99: self.p99_ns,
            p99_9: self.p99_9_ns,
            p99_99: self.p99_99_ns,
        };
        let lat_ns = LatNs {
            min: self.min_ns,
            max: self.max_ns,
            mean: self.mean_ns,
            stddev: self.stddev_ns,
            n: self.requests,
            percentile,
        };
        let mut out = serializer.serialize_struct("Latency", 8)?;
        out.serialize_field("total_ios", &self.requests)?;
        out.serialize_field("failed_ios", &self.failed)?;
        out.serialize_field("io_bytes", &self.bytes)?;
        out.serialize_field("iops", &self.iops)?;
        out.serialize_field("bw_bytes", &self.bytes_per_second)?;
        out.serialize_field("lat_ns", &lat_ns)?;
        out.serialize_field("latency_breakdown_ns", &self.latency_breakdown_ns)?;
        out.serialize_field("latency_breakdown_total_ns", &self.latency_breakdown_total_ns)?;
        out.end()
    }
}

/// One tenant's share of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TenantResult {
    /// Its name.
    pub name: String,
    /// All its requests.
    pub total: Latency,
    /// Its reads.
    pub read: Latency,
    /// Its writes.
    pub write: Latency,
    /// Its trims.
    pub trim: Latency,
    /// Its flushes.
    pub flush: Latency,
    /// What it used of the devices.
    pub device: DeviceTime,
    /// The mean latency of its workloads when each runs alone; only where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_mean_ns: Option<u64>,
    /// Length of an interval.
    pub interval_ns: u64,
    /// Its requests over time; empty where it is the only tenant.
    pub intervals: Vec<IntervalResult>,
}

impl TenantResult {
    /// How much longer its requests take than alone, in thousandths.
    pub fn slowdown_thousandths(&self) -> Option<u64> {
        let alone = self.alone_mean_ns.filter(|&ns| ns > 0)?;
        Some((u128::from(self.total.mean_ns) * 1000 / u128::from(alone)) as u64)
    }
}

/// One layer's share of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LayerResult {
    /// The device.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Requests that reached it, by operation.
    pub requests: BTreeMap<&'static str, u64>,
    /// Bytes of them, by operation.
    pub bytes: BTreeMap<&'static str, u64>,
    /// Requests it passed on whole.
    pub forwarded: u64,
    /// Requests it finished.
    pub finished: u64,
    /// Requests that failed here.
    pub failed: u64,
    /// Mean time from reaching the layer to the end.
    pub latency_mean_ns: u64,
    /// The longest.
    pub latency_max_ns: u64,
    /// Total time by phase of the critical paths.
    pub latency_breakdown_total_ns: BTreeMap<&'static str, u64>,
    /// The machine's own figures.
    pub counters: BTreeMap<&'static str, u64>,
    /// What was charged: tenant, resource and work to nanoseconds.
    pub charges: Vec<Charge>,
    /// Busy time of each resource; the charges add up to it.
    pub busy_ns: BTreeMap<&'static str, u64>,
    /// The same over the time of the measurement and the number of such resources, in thousandths: 1000 is all of them all the time. What was begun
    /// counts whole, so work that goes on after the last request has ended may bring it above that. Absent where the measurement took no time.
    #[serde(rename = "util", serialize_with = "decimals::map")]
    pub util_thousandths: BTreeMap<&'static str, u64>,
    /// What it drew, by state; empty where that is not known.
    pub energy: Vec<EnergyState>,
    /// By tenant, where there are several: what each caused here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<LayerTenant>,
}

/// What one tenant caused in one layer, also when a machine above did it later on its behalf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LayerTenant {
    /// Its name; `system` for what nobody caused.
    pub tenant: String,
    /// Requests that reached the layer.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Mean time from reaching the layer to the end, of those that the layer finished.
    pub latency_mean_ns: u64,
    /// The longest.
    pub latency_max_ns: u64,
    /// Time that dies, heads and the device itself were busy for it.
    pub device_ns: u64,
    /// That part of it that was garbage collection.
    pub gc_ns: u64,
}

/// Time that a tenant kept a resource busy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Charge {
    /// Who caused it; `system` when nobody did.
    pub tenant: String,
    /// What was busy.
    pub resource: &'static str,
    /// With what.
    pub work: &'static str,
    /// For how long.
    pub busy_ns: u64,
}

/// One stretch of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IntervalResult {
    /// From the start of the measurement.
    pub start_ns: u64,
    /// Requests that ended in it.
    pub requests: u64,
    /// Bytes read or written by them.
    pub bytes: u64,
    /// Their mean latency.
    pub latency_mean_ns: u64,
    /// The longest.
    pub latency_max_ns: u64,
}

/// A change of tenants while a run went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeResult {
    /// Its name in the stack file.
    pub name: String,
    /// When it was to happen, from the start of the replay.
    pub at_ns: u64,
    /// From when on it holds, power cuts included; absent when it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_at_ns: Option<u64>,
    /// Why it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What came of a change; the replay began at `start`.
pub fn change_result(change: &Change, outcome: &Option<ChangeOutcome>, start: Instant) -> ChangeResult {
    let (holds_at_ns, refused) = match outcome {
        Some(ChangeOutcome::Done) => (Some(change.at.0), None),
        Some(ChangeOutcome::Dealt(dealt)) => (Some(dealt.holds_at.since(start).0), None),
        Some(ChangeOutcome::Refused(error)) => (None, Some(error.to_string())),
        None => (None, Some("the run was over before".into())),
    };
    ChangeResult { name: change.name.clone(), at_ns: change.at.0, holds_at_ns, refused }
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// Version of this record's fields: [`SCHEMA`].
    pub schema: u32,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Simulated time of the measurement.
    pub duration_ns: u64,
    /// All requests.
    pub total: Latency,
    /// Reads.
    pub read: Latency,
    /// Writes.
    pub write: Latency,
    /// Trims, and what else says that data is gone.
    pub trim: Latency,
    /// Flushes.
    pub flush: Latency,
    /// Write amplification: bytes that flash programmed for each byte that hosts wrote to the exports, in thousandths, all flash of
    /// the stack together. Absent when nothing was written or there is no flash.
    #[serde(rename = "waf", serialize_with = "decimals::option")]
    pub waf_thousandths: Option<u64>,
    /// What the drives make of what reaches them: pages programmed for each page written to a drive, in thousandths. It leaves out what
    /// layers above write more or less than the host did, and that a request may fill a page in part.
    #[serde(rename = "drive_waf", serialize_with = "decimals::option")]
    pub drive_waf_thousandths: Option<u64>,
    /// Whether requests of some workload that does not wait for the stack came faster than they could be served, so that its latencies
    /// measure the queue and not the stack: a cap held arrivals back; or when the last arrived more than 64 were outstanding, and it
    /// took more than 5 % of the replayed time to serve them; or more than 64, anywhere in the run, took longer than that time, or 1 s where
    /// that is less, or 30 s where it is more.
    pub saturated: bool,
    /// Whether it was in steady state: `steady`, `not steady`, `load varies` or `too short`.
    pub state: State,
    /// By what figures; absent when the run was too short to say.
    pub steady_state: Option<SteadyState>,
    /// Turns of the load before the one that was measured, because the stack was not steady.
    pub extended: u32,
    /// What the devices drew; absent where that is not known of any.
    pub energy: Option<EnergyResult>,
    /// How long the flash lasts; absent where there is none.
    pub lifetime: Option<LifetimeResult>,
    /// Most requests alive at once, those of the layers included.
    pub qdepth_max: u64,
    /// By tenant.
    pub tenants: Vec<TenantResult>,
    /// Jain's index of device time over weight, in thousandths, over the tenants that were backlogged; absent for fewer than two.
    #[serde(rename = "jain", serialize_with = "decimals::option")]
    pub jain_thousandths: Option<u64>,
    /// The tenants over time, where the run was sampled and there are several, or a drive tells them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// What changed about tenants meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeResult>,
    /// By layer, children first.
    pub layers: Vec<LayerResult>,
    /// Length of an interval.
    pub interval_ns: u64,
    /// The run over time.
    pub intervals: Vec<IntervalResult>,
    /// Latency distribution of reads and writes: upper bound of a bin in nanoseconds and requests in it.
    pub histogram: Vec<(u64, u64)>,
}

fn path_map(path: &CriticalPath) -> BTreeMap<&'static str, u64> {
    Phase::ALL.iter().map(|&p| (p.name(), path.get(p).0)).filter(|&(_, ns)| ns > 0).collect()
}

/// Standard deviation of `n` values with these sums, in whole numbers: the same on every machine.
fn deviation(n: u128, total: u128, squares: u128) -> u64 {
    // The sum of (x - mean)^2 with the mean rounded down: no product is larger than the sum of squares.
    let (mean, rest) = (total / n, total % n);
    ((squares - mean * (total + rest)) / n).isqrt() as u64
}

/// The figures of several classes together, in a measurement of so long.
fn latency(classes: &[&Class], duration_ns: u64) -> Latency {
    let (mut total, mut squares, mut bytes, mut failed) = (0u128, 0u128, 0, 0);
    let mut path = CriticalPath::EMPTY;
    for class in classes {
        total += class.latency_total;
        squares += class.latency_squares;
        bytes += class.bytes;
        failed += class.failed;
        path.accumulate(&class.path);
    }
    let histogram = together(classes);
    let Some(min) = histogram.least() else {
        return Latency { failed, ..Latency::default() };
    };
    let (n, max) = (u128::from(histogram.len()), histogram.greatest());
    let mean = total / n;
    let shares = histogram.values_at_quantiles([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]);
    let [p50_ns, p90_ns, p95_ns, p99_ns, p99_9_ns, p99_99_ns] = shares.map(|value| value.min(max));
    let latency_breakdown_total_ns = path_map(&path);
    let per_second =
        |n: u64| (u128::from(n) * 1_000_000_000).checked_div(u128::from(duration_ns)).unwrap_or(0) as u64;
    Latency {
        requests: n as u64,
        bytes,
        failed,
        iops: per_second(n as u64),
        bytes_per_second: per_second(bytes),
        min_ns: min,
        mean_ns: mean as u64,
        stddev_ns: deviation(n, total, squares),
        p50_ns,
        p90_ns,
        p95_ns,
        p99_ns,
        p99_9_ns,
        p99_99_ns,
        max_ns: max,
        latency_breakdown_ns: latency_breakdown_total_ns
            .iter()
            .map(|(&k, &v)| (k, (u128::from(v) / n) as u64))
            .collect(),
        latency_breakdown_total_ns,
    }
}

fn layer(graph: &mut Graph, node: u32, stack: &Stack, (from, to): (Instant, Instant)) -> LayerResult {
    let counters = graph.report(node, Ask::Counters).counters;
    let busy = graph.report(node, Ask::Busy).busy;
    let stats = graph.stats(node);
    let by_op = |values: &[u64]| {
        Op::ALL.iter().zip(values).filter(|&(_, &n)| n > 0).map(|(op, &n)| (op.name(), n)).collect()
    };
    LayerResult {
        name: graph.name(node).into(),
        kind: stack.devices[node as usize].kind.name,
        requests: by_op(&stats.requests),
        bytes: by_op(&stats.bytes),
        forwarded: stats.forwarded,
        finished: stats.finished,
        failed: stats.failed,
        latency_mean_ns: stats.latency_total.0.checked_div(stats.finished).unwrap_or(0),
        latency_max_ns: stats.latency_max.0,
        latency_breakdown_total_ns: path_map(&stats.path),
        counters: counters.iter().map(|c| (c.name, c.value)).collect(),
        tenants: layer_tenants(graph, node, stack),
        charges: charges(graph, node, stack),
        busy_ns: busy.iter().map(|&(resource, span, _)| (resource.name(), span.0)).collect(),
        util_thousandths: busy
            .iter()
            .filter_map(|&(resource, span, units)| {
                Some((resource.name(), util(span, units, to.since(from))?))
            })
            .collect(),
        energy: energy::states(graph, node, from, to),
    }
}

/// How much of the time `units` of a resource, which were busy for `busy` together, were at work, in thousandths.
fn util(busy: Span, units: u32, time: Span) -> Option<u64> {
    let all = u128::from(time.0) * u128::from(units);
    (u128::from(busy.0) * 1000).checked_div(all).map(|part| part as u64)
}

fn charges(graph: &Graph, node: u32, stack: &Stack) -> Vec<Charge> {
    let table = graph.charges(node);
    let mut out = Vec::new();
    for tenant in table.tenants() {
        for resource in Resource::ALL {
            for work in Work::ALL {
                let busy_ns = table.get(tenant, resource, work).0;
                if busy_ns > 0 {
                    let tenant = tenant_name(stack, tenant);
                    out.push(Charge { tenant, resource: resource.name(), work: work.name(), busy_ns });
                }
            }
        }
    }
    out
}

/// The tenants that did anything in a layer.
fn layer_tenants(graph: &Graph, node: u32, stack: &Stack) -> Vec<LayerTenant> {
    let charged = graph.charges(node);
    let row = |(place, stats): (usize, &TenantStats)| {
        let tenant = TenantId(place as u16);
        let (device, gc) = fairness::device_time(charged, tenant);
        LayerTenant {
            tenant: tenant_name(stack, tenant),
            requests: stats.requests,
            bytes: stats.bytes,
            latency_mean_ns: stats.latency_total.0.checked_div(stats.finished).unwrap_or(0),
            latency_max_ns: stats.latency_max.0,
            device_ns: device.0,
            gc_ns: gc.0,
        }
    };
    let rows = graph.tenant_stats(node).iter().enumerate().map(row);
    rows.filter(|row| row.requests > 0 || row.device_ns > 0).collect()
}

fn tenant_name(stack: &Stack, tenant: TenantId) -> String {
    match usize::from(tenant.0).checked_sub(1) {
        Some(place) => stack.tenants[place].name.clone(),
        None => "system".into(),
    }
}

/// Puts a result together; `owners` has the tenant of each workload.
pub fn result(
    graph: &mut Graph,
    stack: &Stack,
    metrics: &Metrics,
    outcome: &Outcome,
    provenance: Provenance,
    owners: &[usize],
) -> RunResult {
    let classes = |which: &[usize]| -> Vec<&Class> {
        (0..metrics.tenants()).flat_map(|t| which.iter().map(move |&w| &metrics.classes(t)[w])).collect()
    };
    let last = metrics.last_done.later(metrics.start);
    let duration_ns = last.since(metrics.start).0;
    let of = |which: &[usize]| latency(&classes(which), duration_ns);
    let total = of(&[READ, WRITE, TRIM, FLUSH]);
    let (measured, nodes) = ((metrics.start, last), graph.len() as u32);
    let layers: Vec<LayerResult> = (0..nodes).map(|node| layer(graph, node, stack, measured)).collect();
    let uses_up_spare = spare::turns_left(graph).is_some();
    let verdict = metrics.steady(outcome.open_loop);
    let verdict = verdict.map(|v| v.with_saturation(outcome.saturated).with_spare(uses_up_spare));
    let weights: Vec<(&str, u16)> = stack.tenants.iter().map(|t| (t.name.as_str(), t.table.weight)).collect();
    let mut device = fairness::device_times(&weights, &layers);
    for (&owner, &backlogged) in owners.iter().zip(&outcome.backlogged) {
        device[owner - 1].backlogged |= backlogged;
    }
    let written = metrics.bytes_written();
    RunResult {
        schema: SCHEMA,
        provenance,
        duration_ns,
        read: of(&[READ]),
        write: of(&[WRITE]),
        trim: of(&[TRIM]),
        flush: of(&[FLUSH]),
        waf_thousandths: ratio(&layers, "nand_bytes_written", Some(written)),
        drive_waf_thousandths: ratio(&layers, "nand_pages_programmed", sum_of(&layers, "host_pages_written")),
        saturated: outcome.saturated,
        state: steady::state(verdict.as_ref()),
        steady_state: verdict,
        extended: outcome.extended,
        energy: energy::energy(layers.iter().map(|l| &l.energy[..]), total.requests, written, duration_ns),
        lifetime: energy::lifetime(graph, stack, written, duration_ns),
        qdepth_max: outcome.outstanding_max as u64,
        jain_thousandths: fairness::jain(&device),
        over_time: None,
        changes: Vec::new(),
        tenants: tenants(metrics, stack, device, duration_ns),
        interval_ns: metrics.history.window().0,
        intervals: intervals(&metrics.history),
        histogram: bins(&classes(&[READ, WRITE])),
        total,
        layers,
    }
}

fn tenants(metrics: &Metrics, stack: &Stack, device: Vec<DeviceTime>, duration_ns: u64) -> Vec<TenantResult> {
    let named = (1..).zip(device).take(metrics.tenants() - 1);
    named
        .map(|(t, device)| {
            let classes = metrics.classes(t);
            TenantResult {
                name: tenant_name(stack, TenantId(t as u16)),
                total: latency(&classes.iter().collect::<Vec<_>>(), duration_ns),
                read: latency(&[&classes[READ]], duration_ns),
                write: latency(&[&classes[WRITE]], duration_ns),
                trim: latency(&[&classes[TRIM]], duration_ns),
                flush: latency(&[&classes[FLUSH]], duration_ns),
                device,
                alone_mean_ns: None,
                interval_ns: metrics.tenant_histories.get(t).map_or(0, |h| h.window().0),
                intervals: metrics.tenant_histories.get(t).map_or_else(Vec::new, intervals),
            }
        })
        .collect()
}

/// A counter of all layers together; `None` where no layer has it.
fn sum_of(layers: &[LayerResult], name: &str) -> Option<u64> {
    let mut found = layers.iter().filter_map(|l| l.counters.get(name)).peekable();
    found.peek()?;
    Some(found.sum())
}

/// A counter of all layers for each of `over`, in thousandths.
fn ratio(layers: &[LayerResult], name: &str, over: Option<u64>) -> Option<u64> {
    let programmed = sum_of(layers, name)?;
    (u128::from(programmed) * 1000).checked_div(u128::from(over?)).map(|w| w as u64)
}

fn intervals(history: &History) -> Vec<IntervalResult> {
    let length = history.window().0;
    let windows = history.windows.iter().enumerate();
    windows
        .map(|(i, w)| IntervalResult {
            start_ns: i as u64 * length,
            requests: w.requests,
            bytes: w.bytes,
            latency_mean_ns: w.latency_total.checked_div(w.requests).unwrap_or(0),
            latency_max_ns: w.latency_max,
        })
        .collect()
}

/// The latencies of several classes.
fn together<'a>(classes: &[&'a Class]) -> Cow<'a, Histogram> {
    let all = classes.iter().map(|class| &class.latency);
    let filled: Vec<&Histogram> = all.filter(|latency| !latency.is_empty()).collect();
    match filled[..] {
        [] => Cow::Borrowed(&classes[0].latency),
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(Histogram::sum(&filled)),
    }
}

fn bins(classes: &[&Class]) -> Vec<(u64, u64)> {
    // Eight bins to a doubling are enough to draw.
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (v, count) in together(classes).bins() {
        let step = (v.max(8).ilog2() - 3).min(60);
        let bound = ((v >> step) + 1) << step;
        match out.last_mut() {
            Some(last) if last.0 == bound => last.1 += count,
            _ => out.push((bound, count)),
        }
    }
    out
}
