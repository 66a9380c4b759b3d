//! What a run measures, kept while it runs.
//!
//! Latency counts from arrival to completion, in nanoseconds. Count, sum, sum of squares, least and most are exact; percentiles
//! are those of histograms of three significant digits (error below 0.1 %). A request that failed is counted as such, and is in
//! no latency and no sum of bytes: it was not served. The history of a run is a list of windows of equal length; when there are too many, neighbours are joined, so
//! that memory stays bounded however long the run is.

use crate::engine::Sink;
use crate::replay::{Host, number_of, source_of};
use crate::steady::{self, State, SteadyState};
use nandu_base::{CriticalPath, Histogram, Instant, Op, Payload, PayloadPool, Request, Span, TenantId};
use nandu_trace::Record;

/// Most windows of a history.
const WINDOWS_MAX: usize = 512;
/// Length of the first windows in nanoseconds; doubled as needed.
const WINDOW_START: u64 = 1_000_000;
/// Longest latency that percentiles tell apart: a year of 365.25 days. Longer ones count as this.
const LATENCY_MAX: u64 = 31_557_600_000_000_000;

/// One stretch of a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Window {
    /// Requests that ended in it.
    pub requests: u64,
    /// Bytes read or written by them.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency_total: u64,
    /// The longest.
    pub latency_max: u64,
}

impl Window {
    fn join(&mut self, other: &Window) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_total += other.latency_total;
        self.latency_max = self.latency_max.max(other.latency_max);
    }
}

/// Windows of equal length over a run.
#[derive(Clone, Debug)]
pub struct History {
    /// The windows, from the start of the measurement.
    pub windows: Vec<Window>,
    /// log2 of how many first windows make one of the present length.
    doublings: u32,
    start: Instant,
    /// End of the last window.
    end: Instant,
}

impl History {
    fn new(start: Instant) -> History {
        History { windows: Vec::with_capacity(WINDOWS_MAX), doublings: 0, start, end: start }
    }

    /// Length of a window.
    pub fn window(&self) -> Span {
        Span(WINDOW_START << self.doublings)
    }

    /// Requests end in the order of time, so that the last window takes all but the first of the next.
    #[inline(always)]
    fn add(&mut self, at: Instant, bytes: u64, latency: u64) {
        match self.windows.last_mut() {
            Some(window) if at < self.end => {
                window.requests += 1;
                window.bytes += bytes;
                window.latency_total += latency;
                window.latency_max = window.latency_max.max(latency);
            }
            _ => self.grow(at, bytes, latency),
        }
    }

    #[cold]
    fn grow(&mut self, at: Instant, bytes: u64, latency: u64) {
        let index = |doublings: u32| (at.since(self.start).0 / WINDOW_START) >> doublings;
        let mut doublings = self.doublings;
        while index(doublings) >= WINDOWS_MAX as u64 {
            doublings += 1;
        }
        for _ in self.doublings..doublings {
            self.windows = self
                .windows
                .chunks(2)
                .map(|pair| {
                    let mut joined = pair[0];
                    pair[1..].iter().for_each(|w| joined.join(w));
                    joined
                })
                .collect();
        }
        self.windows.resize((index(doublings) + 1) as usize, Window::default());
        self.doublings = doublings;
        self.end = self.start + self.window() * self.windows.len() as u64;
        self.add(at, bytes, latency);
    }
}

/// Counts and latencies of one tenant and kind of request: of those that did not fail, unless said otherwise.
#[derive(Clone)]
pub struct Class {
    /// Arrival to completion.
    pub latency: Histogram,
    /// Sum of latencies, exact.
    pub latency_total: u128,
    /// Sum of their squares, exact.
    pub latency_squares: u128,
    /// Bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Sum of critical paths.
    pub path: CriticalPath,
}

impl Class {
    fn new() -> Class {
        Class {
            latency: Histogram::new(LATENCY_MAX),
            latency_total: 0,
            latency_squares: 0,
            bytes: 0,
            failed: 0,
            path: CriticalPath::EMPTY,
        }
    }

    #[inline(always)]
    fn add(&mut self, latency: u64, bytes: u64, path: &CriticalPath) {
        self.latency.record(latency);
        self.latency_total += u128::from(latency);
        self.latency_squares += u128::from(latency) * u128::from(latency);
        self.bytes += bytes;
        self.path.accumulate(path);
    }
}

/// The sink of a plain run.
pub struct Metrics {
    /// By direction, for each tenant in turn.
    classes: Vec<[Class; DIRECTIONS]>,
    /// The run over time.
    pub history: History,
    /// The same of each tenant, SYSTEM included; empty where one tenant is all there is.
    pub tenant_histories: Vec<History>,
    /// By workload: requests done and when the last one was, warm-up included; and the number of the first that counts.
    ended: Vec<(u64, Instant, u64)>,
    /// Workloads of which one has ended lately; see [`Host::touched`].
    touched: u64,
    /// Number of the request with which the measurement began.
    first: u64,
    /// Bytes written since then by requests that do not count: one workload may warm up while another counts.
    written_uncounted: u64,
    /// When the measurement began.
    pub start: Instant,
    /// When the last request ended.
    pub last_done: Instant,
}

/// Directions: the classes of requests that are told apart.
pub const READ: usize = Op::Read as usize;
/// Writes.
pub const WRITE: usize = Op::Write as usize;
/// Flushes.
pub const FLUSH: usize = Op::Flush as usize;
/// Trims, and what else says that data is gone.
pub const TRIM: usize = Op::Trim as usize;
/// How many there are.
const DIRECTIONS: usize = 4;

/// Which direction an operation is of: the first four are their own, what writes zeros or resets is a trim.
#[inline]
fn class_of(op: Op) -> usize {
    (op as usize).min(TRIM)
}

impl Metrics {
    /// Nothing measured yet, for `tenants` tenants with SYSTEM and `workloads` workloads.
    pub fn new(tenants: usize, workloads: usize, start: Instant) -> Metrics {
        Metrics {
            classes: (0..tenants).map(|_| std::array::from_fn(|_| Class::new())).collect(),
            history: History::new(start),
            tenant_histories: if tenants > 2 { vec![History::new(start); tenants] } else { Vec::new() },
            ended: vec![(0, start, 0); workloads],
            touched: u64::MAX,
            first: 0,
            written_uncounted: 0,
            start,
            last_done: start,
        }
    }

    /// The requests of one tenant by direction: [`READ`], [`WRITE`], [`FLUSH`], [`TRIM`].
    pub fn classes(&self, tenant: usize) -> &[Class; DIRECTIONS] {
        &self.classes[tenant]
    }

    /// Bytes that hosts wrote since the measurement began, warm-ups that went on meanwhile included.
    pub fn bytes_written(&self) -> u64 {
        self.classes.iter().map(|classes| classes[WRITE].bytes).sum::<u64>() + self.written_uncounted
    }

    /// Whether the request with this cookie counts.
    pub fn counts(&self, cookie: u64) -> bool {
        number_of(cookie) >= self.ended[source_of(cookie)].2
    }

    /// Whether the measurement was steady; `None` when it was too short to say.
    pub fn steady(&self, open_loop: bool) -> Option<SteadyState> {
        let span = self.last_done.later(self.start).since(self.start);
        steady::of_history(&self.history.windows, self.history.window().0, span.0, open_loop)
    }

    /// Tenants, SYSTEM included.
    pub fn tenants(&self) -> usize {
        self.classes.len()
    }
}

impl Metrics {
    #[cold]
    fn warms_up(&mut self, request: &Request) {
        let came_after = number_of(request.cookie) >= self.first;
        if came_after && request.op == Op::Write && request.error.is_none() {
            self.written_uncounted += request.len.0;
        }
    }
}

impl Sink for Metrics {
    #[inline(always)]
    fn done(&mut self, request: &Request, now: Instant, _pool: &mut PayloadPool) {
        let source = source_of(request.cookie);
        let ended = &mut self.ended[source];
        *ended = (ended.0 + 1, now, ended.2);
        self.touched |= 1u64.wrapping_shl(source as u32);
        if number_of(request.cookie) < ended.2 {
            self.warms_up(request);
            return;
        }
        self.last_done = now;
        let latency = now.since(request.arrival).0;
        let bytes = if matches!(request.op, Op::Read | Op::Write) { request.len.0 } else { 0 };
        let class = &mut self.classes[usize::from(request.tenant.0)][class_of(request.op)];
        if request.error.is_some() {
            class.failed += 1;
            return;
        }
        class.add(latency, bytes, &request.path);
        self.history.add(now, bytes, latency);
        if let Some(history) = self.tenant_histories.get_mut(usize::from(request.tenant.0)) {
            history.add(now, bytes, latency);
        }
    }
}

impl Host for Metrics {
    #[inline]
    fn payload(&mut self, _record: &Record, _cookie: u64, _pool: &mut PayloadPool) -> Payload {
        Payload::NONE
    }

    #[inline]
    fn ended(&self, source: usize) -> u64 {
        self.ended[source].0
    }

    #[inline]
    fn last_end(&self, source: usize) -> Instant {
        self.ended[source].1
    }

    fn slower(&self, tenant: TenantId, span: Span) -> u64 {
        let classes = &self.classes[usize::from(tenant.0)];
        let slower =
            |class: &Class| class.latency.bins().filter(|bin| bin.0 > span.0).map(|bin| bin.1).sum::<u64>();
        classes.iter().map(slower).sum()
    }

    #[inline]
    fn touched(&mut self) -> u64 {
        std::mem::take(&mut self.touched)
    }

    fn begin(&mut self, first: u64, now: Instant) {
        let ended = std::mem::take(&mut self.ended);
        *self = Metrics::new(self.classes.len(), ended.len(), now);
        (self.first, self.ended) = (first, ended);
        self.ended.iter_mut().for_each(|source| source.2 = first);
    }

    fn count_from(&mut self, source: usize, first: u64) {
        self.ended[source].2 = first;
    }

    fn state(&self, open_loop: bool) -> Option<State> {
        Some(steady::state(self.steady(open_loop).as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_stays_short_and_loses_nothing() {
        let mut history = History::new(Instant::ZERO);
        for i in 0..100_000u64 {
            history.add(Instant(i * 700_000), 1, i);
        }
        assert!(history.windows.len() <= WINDOWS_MAX);
        assert_eq!(history.windows.iter().map(|w| w.requests).sum::<u64>(), 100_000);
        assert_eq!(history.windows.iter().map(|w| w.latency_max).max(), Some(99_999));
        assert!(history.window().0 * history.windows.len() as u64 >= 70_000_000_000);
    }
}
