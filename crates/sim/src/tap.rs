//! Looking at single requests: a tap hears of every request that counts, beside the figures of the run.
//!
//! A run with a tap is the same run: requests, times and figures are those of [`run`](crate::run()). Times count from the
//! start of the replay.

use crate::RunResult;
use crate::engine::Sink;
use crate::metrics::Metrics;
use crate::over_time::OverTime;
use crate::replay::{Go, Host, Progress, number_of, source_of};
use crate::run::{RunError, RunOptions, run_with};
use crate::samples::Samples;
use crate::steady::State;
use nandu_base::{
    Ask, ByteLen, ByteOffset, Content, CriticalPath, Instant, LaneSpan, Op, Payload, PayloadPool, Request,
    Span, TenantId,
};
use nandu_stack::{Graph, Stack};
use nandu_trace::Record;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its number in the order of arrival, from 0, all workloads and the warm-up counted.
    pub number: u64,
    /// The workload it belongs to.
    pub source: usize,
    /// Whose it was.
    pub tenant: TenantId,
    /// What was asked.
    pub op: Op,
    /// Where on the export.
    pub offset: ByteOffset,
    /// How much.
    pub len: ByteLen,
    /// From here...
    pub arrival: Span,
    /// ...to here.
    pub end: Span,
    /// Where the time went; adds up to the latency.
    pub path: CriticalPath,
    /// It failed.
    pub failed: bool,
}

impl Ended {
    /// Arrival to completion.
    pub fn latency(&self) -> Span {
        self.end - self.arrival
    }
}

/// Hears of requests.
pub trait Tap {
    /// A request has ended.
    fn ended(&mut self, request: &Ended);
}

/// The slowest requests of a run. Among equals the first to arrive are kept.
#[derive(Clone, Debug)]
pub struct Slowest {
    most: usize,
    /// The fastest of them on top.
    heap: BinaryHeap<Reverse<Ranked>>,
}

/// A request in the order of slowness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ranked(Ended);

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        let key = |r: &Ranked| (r.0.latency(), Reverse(r.0.number));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Slowest {
    /// Keeps the slowest `most`.
    pub fn new(most: usize) -> Slowest {
        Slowest { most, heap: BinaryHeap::with_capacity(most + 1) }
    }

    /// The slowest first.
    pub fn into_sorted(self) -> Vec<Ended> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(Ranked(request))| request).collect()
    }
}

impl Tap for Slowest {
    fn ended(&mut self, request: &Ended) {
        let ranked = Ranked(*request);
        if self.heap.len() == self.most && self.heap.peek().is_none_or(|Reverse(least)| *least > ranked) {
            return;
        }
        self.heap.push(Reverse(ranked));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }
}

/// What the lanes of a device did.
#[derive(Clone, Debug)]
pub struct DeviceLanes {
    /// Name of the device.
    pub device: String,
    /// When the replay began: spans have the clock of the machines.
    pub start: Instant,
    /// What its lanes did in the window.
    pub spans: Vec<LaneSpan>,
    /// Spans for which there was no room.
    pub lost: u64,
}

/// What is looked at besides requests.
#[derive(Clone, Copy, Default, Debug)]
pub struct Look {
    /// The window of the replay in which the lanes of all devices are watched.
    pub lanes: Option<(Span, Span)>,
    /// Whether the machines are read off as the run goes on.
    pub samples: bool,
    /// The turn of an extended load ([`crate::replay::Extension`]) of which the tap hears; 0 for the load itself.
    pub turn: u32,
}

/// A run that was looked at.
pub struct Seen<T> {
    /// Its figures.
    pub result: RunResult,
    /// The tap.
    pub tap: T,
    /// What the lanes did.
    pub lanes: Vec<DeviceLanes>,
    /// The run over time; empty when it was not asked for.
    pub samples: Samples,
    /// When the replay began on the clock of the machines: after the stack was open.
    pub start: Instant,
}

/// Hears of nothing.
impl Tap for () {
    fn ended(&mut self, _request: &Ended) {}
}

/// Runs `stack` without content, with a tap.
///
/// # Errors
/// As [`run`](crate::run()).
pub fn run_tapped<T: Tap, R: Into<Go>>(
    stack: &Stack,
    options: &RunOptions,
    tap: T,
    look: Look,
    progress: impl FnMut(Progress) -> R,
) -> Result<Seen<T>, RunError> {
    let (tenants, workloads) = (stack.tenants.len() + 1, options.workloads.len());
    let host = |start| Tapped {
        metrics: Metrics::new(tenants, workloads, start),
        tap,
        look,
        lanes: Vec::new(),
        samples: Samples::default(),
        start,
        offsets: BTreeMap::new(),
        turn: 0,
    };
    let (mut result, host) =
        run_with(stack, options, Content::Nothing, host, |h: &Tapped<T>| &h.metrics, progress)?;
    let names: Vec<&str> = stack.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    result.over_time = OverTime::of(&host.samples, &names);
    Ok(Seen { result, tap: host.tap, lanes: host.lanes, samples: host.samples, start: host.start })
}

/// The figures of a run, and a tap beside them.
struct Tapped<T> {
    metrics: Metrics,
    tap: T,
    look: Look,
    lanes: Vec<DeviceLanes>,
    samples: Samples,
    /// When the replay began.
    start: Instant,
    /// Where on its export each request under way begins: layers that pass a request on move it.
    offsets: BTreeMap<u64, ByteOffset>,
    /// The turn of the load.
    turn: u32,
}

impl<T: Tap> Sink for Tapped<T> {
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        self.metrics.done(request, now, pool);
        let offset = self.offsets.remove(&request.cookie).unwrap_or(request.offset);
        if self.turn == self.look.turn && self.metrics.counts(request.cookie) {
            self.tap.ended(&Ended {
                number: number_of(request.cookie),
                source: source_of(request.cookie),
                tenant: request.tenant,
                op: request.op,
                offset,
                len: request.len,
                arrival: request.arrival.since(self.start),
                end: now.since(self.start),
                path: request.path,
                failed: request.error.is_some(),
            });
        }
    }
}

impl<T: Tap> Host for Tapped<T> {
    fn payload(&mut self, record: &Record, cookie: u64, pool: &mut PayloadPool) -> Payload {
        self.offsets.insert(cookie, record.offset());
        self.metrics.payload(record, cookie, pool)
    }

    fn ended(&self, source: usize) -> u64 {
        self.metrics.ended(source)
    }

    fn last_end(&self, source: usize) -> Instant {
        self.metrics.last_end(source)
    }

    fn slower(&self, tenant: TenantId, span: Span) -> u64 {
        self.metrics.slower(tenant, span)
    }

    fn touched(&mut self) -> u64 {
        self.metrics.touched()
    }

    fn begin(&mut self, first: u64, now: Instant) {
        if first == 0 {
            self.start = now;
        }
        self.metrics.begin(first, now);
    }

    fn count_from(&mut self, source: usize, first: u64) {
        self.metrics.count_from(source, first);
    }

    fn state(&self, open_loop: bool) -> Option<State> {
        self.metrics.state(open_loop)
    }

    fn extends(&mut self, turn: u32) {
        self.turn = turn;
        // Counters begin again.
        self.samples = Samples::default();
    }

    fn watch(&self) -> Option<(Span, Span)> {
        self.look.lanes
    }

    fn sample_every(&self, total: u64) -> u64 {
        if self.look.samples { Samples::every(total) } else { 0 }
    }

    fn sample(&mut self, graph: &mut Graph, now: Instant) -> bool {
        self.samples.take(graph, self.start, now)
    }

    fn watched(&mut self, graph: &mut Graph) {
        if self.look.samples {
            self.samples.end(graph, self.start, self.metrics.last_done);
        }
        let (start, nodes) = (self.start, graph.len() as u32);
        let lanes = |node| {
            let lanes = graph.report(node, Ask::Lanes).lanes?;
            let (spans, lost) = (lanes.spans().to_vec(), lanes.lost());
            Some(DeviceLanes { device: graph.name(node).into(), start, spans, lost })
        };
        self.lanes = (0..nodes).filter_map(lanes).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(number: u64, latency: u64) -> Ended {
        Ended {
            number,
            source: 0,
            tenant: TenantId(1),
            op: Op::Read,
            offset: ByteOffset(0),
            len: ByteLen(4096),
            arrival: Span(1000),
            end: Span(1000 + latency),
            path: CriticalPath::EMPTY,
            failed: false,
        }
    }

    #[test]
    fn the_slowest_are_those_of_a_sorted_list() {
        let seed = 3;
        let mut rng = nandu_base::Rng::new(seed);
        for most in [1, 2, 7, 200] {
            let requests: Vec<Ended> = (0..150).map(|n| ended(n, rng.below(40))).collect();
            let mut slowest = Slowest::new(most);
            requests.iter().for_each(|r| slowest.ended(r));
            let mut sorted = requests.clone();
            sorted.sort_by_key(|r| (Reverse(r.latency()), r.number));
            sorted.truncate(most);
            assert_eq!(slowest.into_sorted(), sorted, "seed {seed}, {most} of 150");
        }
    }
}
