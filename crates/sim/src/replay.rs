//! Replaying workloads: when each request arrives.
//!
//! - *Open loop*: at its recorded time, stretched or squeezed by a time scale, whether the stack keeps up or not.
//! - *Closed loop*: so many requests outstanding; the next arrives when one ends, after the recorded gap where the trace
//!   has gaps.
//!   With a run time no request begins once it is over: what tenants got while all of them were at work.
//! - *Rate*: at a fixed interval.
//!
//! Open loop and rate have a cap on outstanding requests. An arrival beyond it waits in front of the stack, its wait
//! counts as latency, and the result says that the stack was saturated. So it does where a burst anywhere in the run made many
//! requests wait for long ([`patience`]).
//!
//! A replay may be *extended* ([`Extension`]): when all requests have ended and the stack was not steady ([`crate::steady`]), the load
//! begins again and only its latest turn counts.

mod arrivals;
mod warming;

use crate::engine::{Engine, Sink, Submission};
use crate::spare;
use crate::steady::State;
use arrivals::{Arrivals, NEVER};
use nandu_base::{Flags, Instant, Op, Payload, PayloadPool, Ratio, Span, TenantId, Violation};
use nandu_stack::Graph;
use nandu_trace::requests::{BLOCK, Reader};
use nandu_trace::{Arrival, Record, Requests};
use std::sync::Arc;
use warming::Warming;

/// How a workload's requests arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// At the recorded times, multiplied by `time_scale`.
    Open {
        /// Above 1 slower, below 1 faster.
        time_scale: Ratio,
        /// Most requests outstanding.
        cap: u32,
    },
    /// `outstanding` requests at any time.
    Closed {
        /// Requests outstanding, at least 1.
        outstanding: u32,
    },
    /// `outstanding` requests at any time, and none that would begin `runtime` after the start or later.
    ClosedFor {
        /// Requests outstanding, at least 1.
        outstanding: u32,
        /// How long.
        runtime: Span,
    },
    /// One request every `interval`.
    Rate {
        /// Time between arrivals.
        interval: Span,
        /// Most requests outstanding.
        cap: u32,
    },
}

impl Pace {
    /// Whether the next request waits for another to end.
    pub fn is_closed(&self) -> bool {
        matches!(self, Pace::Closed { .. } | Pace::ClosedFor { .. })
    }
}

/// Cap on outstanding requests where none is given.
pub const CAP_DEFAULT: u32 = 65_536;

/// One workload on one export.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its requests, fitted to the export.
    pub trace: Requests,
    /// How often it is replayed.
    pub passes: u32,
    /// When requests arrive.
    pub pace: Pace,
    /// Requests of it at the start that do not count.
    pub warm_up: u64,
    /// The machine of the export.
    pub node: u32,
    /// Whose requests they are.
    pub tenant: TenantId,
}

/// Makes the requests of a workload for a further turn, from 1; `None` has it take those it had.
pub type Renew = Arc<dyn Fn(u32) -> Option<Requests> + Send + Sync>;

/// How often a load begins again so that what counts was measured in steady state.
///
/// The first turn is the load itself. While the latest turn was [`State::NotSteady`], and not saturated, a further one follows; where it was so only
/// because a drive uses up erased blocks, as long as they come to an end within these turns: all that was before
/// becomes warm-up. So the state of the drives goes on, what counts is always one turn long, and the same options take
/// the same number of turns. A generated load is renewed, so that drives do not see the same addresses in the same order again, which would
/// sort their blocks; a recording is replayed again.
#[derive(Clone, Default)]
pub struct Extension {
    /// Further turns that are taken whatever the state.
    pub least: u32,
    /// Most further turns.
    pub most: u32,
    /// By workload; none for those beyond the end.
    pub renew: Vec<Option<Renew>>,
}

impl Extension {
    /// The load itself and no more.
    pub const NONE: Extension = Extension { least: 0, most: 0, renew: Vec::new() };
}

/// A sink that also gives writes their data.
pub trait Host: Sink {
    /// The payload of a request that is about to be sent in.
    fn payload(&mut self, record: &Record, cookie: u64, pool: &mut PayloadPool) -> Payload;

    /// Requests of workload `source` that have ended.
    fn ended(&self, source: usize) -> u64;

    /// When a request of workload `source` ended last.
    fn last_end(&self, source: usize) -> Instant;

    /// Requests of a tenant that count and took longer than `span`.
    fn slower(&self, _tenant: TenantId, _span: Span) -> u64 {
        0
    }

    /// The workloads of which a request has ended since this was asked last: for workload `n` bit `n` modulo 64. May name too many.
    fn touched(&mut self) -> u64 {
        u64::MAX
    }

    /// The measurement begins: requests numbered from `first` on count.
    fn begin(&mut self, first: u64, now: Instant);

    /// Of workload `source` requests numbered from `first` on count.
    fn count_from(&mut self, source: usize, first: u64);

    /// Whether what was measured since [`Host::begin`] was steady; `None` where nobody follows it.
    fn state(&self, _open_loop: bool) -> Option<State> {
        None
    }

    /// The load begins again, for the time numbered `turn`; the measurement has just begun again.
    fn extends(&mut self, _turn: u32) {}

    /// The window of the replay in which the lanes of all devices are watched.
    fn watch(&self) -> Option<(Span, Span)> {
        None
    }

    /// Requests from one sample of the machines to the next, in a replay of `total`, or of nobody knows how many when that is 0;
    /// 0 for no samples.
    fn sample_every(&self, _total: u64) -> u64 {
        0
    }

    /// Reads the machines off; true when from here on it should be half as often.
    fn sample(&mut self, _graph: &mut Graph, _now: Instant) -> bool {
        false
    }

    /// The run has ended; the lanes can be read.
    fn watched(&mut self, _graph: &mut Graph) {}

    /// The machines' own invariants at the end of a run that stores content.
    fn checked(&mut self, _result: Result<(), Violation>) {}
}

/// The workload a request belongs to, from its cookie.
#[inline]
pub fn source_of(cookie: u64) -> usize {
    (cookie >> 48) as usize
}

/// The number of a request in the order of arrival, from its cookie.
#[inline]
pub fn number_of(cookie: u64) -> u64 {
    cookie & ((1 << 48) - 1)
}

/// How far ahead the machines are told what comes.
const LOOK_AHEAD: usize = 8;

/// A source in progress.
struct Player<'a> {
    source: &'a Source,
    reader: Reader<'a>,
    /// The requests that come next in the present pass, and some that came before.
    coming: Vec<Record>,
    /// Requests of the pass before the first of them.
    past: u64,
    /// The place in `coming` at which more are read, or the next pass begins.
    turn: usize,
    /// Requests of the pass that are not read yet.
    unread: u64,
    /// Requests sent in, those of earlier turns included.
    issued: u64,
    /// Those of earlier turns.
    before: u64,
    /// Place of the next one in `coming`.
    next: usize,
    pass: u32,
    /// Time from the start of one pass to the start of the next, as recorded.
    period: u64,
    /// Start of the replay.
    start: Instant,
    /// When the pace has the next request arrive, whatever the stack does.
    planned: Instant,
    /// Most requests outstanding.
    cap: u64,
    /// The stack held arrivals back.
    capped: bool,
    /// Requests outstanding once the last was sent in.
    backlog: u64,
    gaps: bool,
    /// How far ahead the stack is told what comes, in requests; 0 when no machine asks.
    foresight: usize,
}

impl<'a> Player<'a> {
    fn new(source: &'a Source, before: u64, start: Instant, foresight: usize) -> Player<'a> {
        let n = source.trace.len();
        let span = source.trace.span().0;
        // One mean interval lies between the last request of a pass and the first of the next.
        let period = if n > 1 { span + span / (n - 1) } else { span + 1 };
        let gaps = source.trace.meta().arrival == Arrival::GapAfterCompletion;
        let cap = match source.pace {
            Pace::Open { cap, .. } | Pace::Rate { cap, .. } => cap,
            Pace::Closed { outstanding } | Pace::ClosedFor { outstanding, .. } => outstanding,
        };
        let mut player = Player {
            source,
            reader: source.trace.reader(),
            coming: Vec::with_capacity(2 * BLOCK + foresight.max(LOOK_AHEAD)),
            past: 0,
            turn: 0,
            unread: n,
            issued: before,
            before,
            next: 0,
            pass: 0,
            period,
            start,
            planned: start,
            cap: u64::from(cap),
            capped: false,
            backlog: 0,
            gaps,
            foresight,
        };
        player.read_on();
        player.planned = player.plan(player.coming[0]);
        player
    }

    /// Reads the next block of the pass behind those that are still to come.
    #[cold]
    fn read_on(&mut self) {
        self.coming.drain(..self.next);
        self.past += self.next as u64;
        self.next = 0;
        let reach = self.foresight.max(LOOK_AHEAD);
        let before = self.coming.len();
        self.reader.fill(&mut self.coming, BLOCK + reach - before);
        self.unread -= (self.coming.len() - before) as u64;
        // Machines are told what comes: so much stays in sight until the end of the pass.
        self.turn = if self.unread > 0 { self.coming.len() - reach } else { self.coming.len() };
    }

    /// Whether every request has been sent in.
    #[inline(always)]
    fn is_over(&self) -> bool {
        self.pass == self.source.passes
    }

    /// When the pace has `record`, the next one, arrive.
    #[inline(always)]
    fn plan(&self, record: Record) -> Instant {
        match self.source.pace {
            Pace::Open { time_scale, .. } => {
                let recorded = record.time().0 + u64::from(self.pass) * self.period;
                let at = if time_scale.num == time_scale.den { recorded } else { time_scale.of(recorded) };
                self.start + Span(at)
            }
            Pace::Rate { interval, .. } => self.start + interval * (self.issued - self.before),
            Pace::Closed { .. } | Pace::ClosedFor { .. } => self.start,
        }
    }

    /// When the next request arrives: [`NEVER`] while it waits for another to end, or when there is none. Until a
    /// request is sent in or, where it waits, an event has passed, the answer stands.
    #[inline(always)]
    fn due<S: Host>(&mut self, who: usize, sink: &S) -> Instant {
        if self.is_over() {
            self.over(sink.ended(who));
            return NEVER;
        }
        if self.issued - sink.ended(who) >= self.cap {
            self.capped |= !self.source.pace.is_closed();
            return NEVER;
        }
        match self.source.pace {
            Pace::Closed { .. } => sink.last_end(who).later(self.start) + self.gap(),
            Pace::ClosedFor { runtime, .. } => {
                let at = sink.last_end(who).later(self.start) + self.gap();
                if at >= self.start + runtime {
                    self.pass = self.source.passes;
                    return NEVER;
                }
                at
            }
            _ => self.planned,
        }
    }

    /// The last request has been sent in, and `ended` have ended: they only become more.
    #[cold]
    fn over(&mut self, ended: u64) {
        self.backlog = self.backlog.max(self.issued - ended);
    }

    /// When the pace has the last request of this turn arrive; `None` where the stack sets the pace, or no request came.
    fn last_planned(&self) -> Option<Instant> {
        let sent = self.issued - self.before;
        match self.source.pace {
            Pace::Rate { interval, .. } if sent > 0 => Some(self.start + interval * (sent - 1)),
            Pace::Open { time_scale, .. } if sent > 0 => {
                let recorded = self.source.trace.span().0 + u64::from(self.source.passes - 1) * self.period;
                Some(self.start + Span(time_scale.of(recorded)))
            }
            _ => None,
        }
    }

    /// Whether requests came faster than the stack could serve them, anywhere in a measurement from `begun` on. `last_end` is when the
    /// last one ended, `slower` says how many took longer than a time.
    fn is_saturated(&self, begun: Instant, last_end: Instant, slower: impl Fn(Span) -> u64) -> bool {
        let Some(last) = self.last_planned() else { return false };
        let (late, replayed) = (last_end.0.saturating_sub(last.0), last.0.saturating_sub(begun.0));
        let at_the_end = self.backlog > BACKLOG_LEAST && late > replayed / 20;
        self.capped || at_the_end || slower(patience(Span(replayed))) > BACKLOG_LEAST
    }

    /// The recorded gap before the next request.
    fn gap(&self) -> Span {
        match (self.past + self.next as u64).checked_sub(1) {
            Some(before) if self.gaps => self.source.trace.gap_after(before).unwrap_or(Span::ZERO),
            _ => Span::ZERO,
        }
    }

    /// The record that is sent in now.
    #[inline(always)]
    fn take(&mut self) -> Record {
        let record = self.coming[self.next];
        self.next += 1;
        self.issued += 1;
        if self.next >= self.turn {
            self.turn();
        }
        self.planned = self.plan(self.coming[self.next]);
        record
    }

    #[cold]
    fn turn(&mut self) {
        if self.unread == 0 {
            self.pass += 1;
            self.reader = self.source.trace.reader();
            (self.next, self.past, self.unread) = (0, 0, self.source.trace.len());
            self.coming.clear();
        }
        self.read_on();
    }
}

/// Fewer requests outstanding at the end of a load, or late in it, are no sign that the stack did not keep up.
const BACKLOG_LEAST: u64 = 64;

/// How long requests may take in a load of this length before they are a sign that the stack does not keep up: a twentieth of it, as
/// long as what is outstanding at its end may take, but at least a second and at most [`GIVEN_UP`].
pub fn patience(load: Span) -> Span {
    Span(load.0 / 20).clamp(Span::from_secs(1), GIVEN_UP)
}

/// What takes longer than this a host would have given up: Linux waits 30 s for a command of a disk, NVMe or SCSI.
pub const GIVEN_UP: Span = Span::from_secs(30);

/// How a replay went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests sent in.
    pub issued: u64,
    /// Whether the measurement began: whether any request counts.
    pub begun: bool,
    /// Whether some workload's requests came faster than the stack could serve them.
    pub saturated: bool,
    /// By workload: whether it had requests waiting all the time, so that what it got is what the stack gave it. One that does not
    /// wait for the stack had if it was saturated; one that does if it did not end early.
    pub backlogged: Vec<bool>,
    /// By workload: how often its requests were sent in, the last time perhaps in part; of the last turn.
    pub passes: Vec<u32>,
    /// Whether every pace has times that do not depend on the stack.
    pub open_loop: bool,
    /// Most requests outstanding.
    pub outstanding_max: usize,
    /// Further turns that the load took.
    pub extended: u32,
    /// Whether the caller called it off.
    pub stopped: bool,
}

/// What the caller hears while a replay goes on, in the unit of the load's [`Length`].
pub struct Progress {
    /// What is done of it.
    pub done: u64,
    /// All of it, as far as is known.
    pub total: u64,
}

/// How long one turn of a load is: nobody knows how many requests it sends where a runtime ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So many requests, all passes counted.
    Requests(u64),
    /// So many milliseconds, of the time that is simulated.
    Millis(u64),
}

impl Length {
    /// That of workloads that run at the same time: the requests of each, all passes counted, and its pace.
    pub fn of(workloads: impl IntoIterator<Item = (u64, Pace)>) -> Length {
        let (mut requests, mut longest) = (0u64, None);
        for (n, pace) in workloads {
            requests = requests.saturating_add(n);
            if let Pace::ClosedFor { runtime, .. } = pace {
                longest = longest.max(Some(runtime));
            }
        }
        match longest {
            Some(runtime) => Length::Millis((runtime.0 / MILLI).max(1)),
            None => Length::Requests(requests),
        }
    }

    /// The number.
    pub fn amount(self) -> u64 {
        match self {
            Length::Requests(n) | Length::Millis(n) => n,
        }
    }

    /// What it counts.
    pub fn unit(self) -> &'static str {
        match self {
            Length::Requests(_) => "requests",
            Length::Millis(_) => "ms of simulated time",
        }
    }

    /// What is done of it after this time, with these requests sent in.
    fn done(self, issued: u64, elapsed: Span) -> u64 {
        match self {
            Length::Requests(_) => issued,
            Length::Millis(all) => (elapsed.0 / MILLI).min(all),
        }
    }
}

const MILLI: u64 = 1_000_000;

/// What the caller says to it: a caller with nothing to say lets it go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// It goes on.
    On,
    /// It ends here, without a result.
    Stop,
}

impl From<()> for Go {
    fn from((): ()) -> Go {
        Go::On
    }
}

/// Requests that `sources` hold, all passes counted.
pub fn total_requests(sources: &[Source]) -> u64 {
    sources.iter().map(|s| s.trace.len() * u64::from(s.passes)).sum()
}

/// Replays `sources` to the end and lets the stack finish what it was asked. The first `warm_up` requests do not count, nor does the
/// warm-up of each workload: the measurement begins with the first request that counts, and so do the counters of the machines.
/// `extension` says how often the load begins again. `progress` is called every 65,536 requests and at the end of a turn, and may call it off.
pub fn replay<S: Host, R: Into<Go>>(
    engine: &mut Engine<S>,
    sources: &[Source],
    warm_up: u64,
    extension: &Extension,
    mut progress: impl FnMut(Progress) -> R,
) -> Outcome {
    let mut progress = |told| progress(told).into();
    let mut before = vec![0; sources.len()];
    let mut warming = Warming::new(sources, warm_up);
    let mut outcome = turn(engine, sources, &mut before, &mut warming, (0, 0), &mut progress);
    // A workload that still warms up would never count.
    let may_go_on = outcome.begun && !warming.is_on && !outcome.stopped;
    let mut sources = sources.to_vec();
    for number in (1..=extension.most).take_while(|_| may_go_on) {
        let state = engine.sink().state(outcome.open_loop);
        // Blocks that are used up by the last turn or before it make the figures those of collection.
        let may_become = match spare::turns_left(&mut engine.graph) {
            Some(turns) if state == Some(State::Steady) => turns <= u64::from(extension.most - number),
            _ => state == Some(State::NotSteady),
        };
        // What is saturated only falls further behind.
        if number > extension.least && (!may_become || outcome.saturated) {
            break;
        }
        for (source, renew) in sources.iter_mut().zip(&extension.renew) {
            if let Some(trace) = renew.as_ref().and_then(|renew| renew(number)) {
                source.trace = trace;
            }
        }
        let now = engine.now();
        engine.graph.reset_counters();
        engine.sink().begin(outcome.issued, now);
        engine.sink().extends(number);
        let mut warm = Warming::over(now);
        outcome = turn(engine, &sources, &mut before, &mut warm, (number, outcome.issued), &mut progress);
        outcome.extended = number;
        if outcome.stopped {
            break;
        }
    }
    outcome
}

/// One turn of a load, by its number, before which `issued` requests are over, `before` of them by workload: adds to both.
fn turn<S: Host>(
    engine: &mut Engine<S>,
    sources: &[Source],
    before: &mut [u64],
    warming: &mut Warming,
    (number, issued): (u32, u64),
    progress: &mut impl FnMut(Progress) -> Go,
) -> Outcome {
    let requests = total_requests(sources);
    let length = Length::of(sources.iter().map(|s| (s.trace.len() * u64::from(s.passes), s.pace)));
    // The same load made anew is as long as it was.
    let done_before = if let Length::Millis(each) = length { u64::from(number) * each } else { issued };
    let total = done_before + length.amount();
    let start = engine.now();
    let open_loop = sources.iter().all(|s| !s.pace.is_closed());
    let mut outcome = Outcome { issued, open_loop, ..Outcome::default() };
    let asks = |s: &Source| s.passes > 0 && !s.trace.is_empty();
    assert!(sources.iter().all(asks), "a workload has requests");
    let foresight = engine.graph.foresight() as usize;
    let pairs = sources.iter().zip(&*before);
    let mut players: Vec<Player<'_>> = pairs.map(|(s, &n)| Player::new(s, n, start, foresight)).collect();
    for player in &players {
        let coming = player.coming.iter().take(player.foresight);
        coming.for_each(|r| engine.graph.foresee(player.source.node, r.op(), r.offset(), r.len()));
    }
    let mut arrivals = Arrivals::new(&mut players, engine.sink());
    // A runtime ends a run long before its trace.
    let is_known = matches!(length, Length::Requests(_));
    let mut every = engine.sink().sample_every(if is_known { requests } else { 0 });
    let samples_at_once = !warming.is_on && every > 0;
    let mut next_sample = if samples_at_once { issued } else { u64::MAX };
    while let Some((who, at)) = arrivals.next(&mut players, engine) {
        if warming.is_on && warming.ends(engine, who, players[who].issued, outcome.issued) {
            next_sample = if every > 0 { outcome.issued } else { u64::MAX };
        }
        engine.advance(at.later(engine.now()));
        let player = &mut players[who];
        submit(engine, player, who, outcome.issued, at);
        arrivals.sent(who, player, engine.sink());
        outcome.issued += 1;
        if outcome.issued > next_sample {
            next_sample += every;
            let now = engine.now();
            let (graph, sink) = engine.graph_and_sink();
            if sink.sample(graph, now) {
                next_sample += every;
                every *= 2;
            }
        }
        if outcome.issued.is_multiple_of(65_536) {
            let done = done_before + length.done(outcome.issued - issued, engine.now().since(start));
            if progress(Progress { done, total }) == Go::Stop {
                return Outcome { stopped: true, ..outcome };
            }
        }
    }
    progress(Progress { done: done_before + length.done(outcome.issued - issued, Span(u64::MAX)), total });
    drain(engine, &players.iter().map(|p| p.issued).collect::<Vec<_>>());
    outcome.begun = warming.begun.is_some();
    settle(&mut outcome, &players, warming.begun.unwrap_or(start), engine.sink());
    outcome.outstanding_max = engine.graph.requests.peak();
    before.iter_mut().zip(&players).for_each(|(n, player)| *n = player.issued);
    outcome
}

/// Which workloads the stack held back, in a measurement from `begun` on.
fn settle<S: Host>(outcome: &mut Outcome, players: &[Player<'_>], begun: Instant, sink: &S) {
    let ends: Vec<Instant> = (0..players.len()).map(|who| sink.last_end(who)).collect();
    let end = ends.iter().copied().max().unwrap_or(begun);
    for (player, &last) in players.iter().zip(&ends) {
        let saturated =
            player.is_saturated(begun, last, |patience| sink.slower(player.source.tenant, patience));
        outcome.saturated |= saturated;
        // What a runtime has ended asks for nothing more, however long others take to finish.
        let until = match player.source.pace {
            Pace::ClosedFor { runtime, .. } => end.min(player.start + runtime),
            _ => end,
        };
        let to_the_end = until.0.saturating_sub(last.0) <= end.0.saturating_sub(begun.0) / 20;
        let sent = player.issued - player.before;
        let passes = sent.div_ceil(player.source.trace.len().max(1));
        outcome.passes.push(u32::try_from(passes).unwrap_or(u32::MAX));
        outcome.backlogged.push((saturated || player.source.pace.is_closed()) && to_the_end);
    }
}

#[inline(always)]
fn submit<S: Host>(
    engine: &mut Engine<S>,
    player: &mut Player<'_>,
    who: usize,
    number: u64,
    arrival: Instant,
) {
    let node = player.source.node;
    if let Some(ahead) = player.coming.get(player.next + LOOK_AHEAD) {
        engine.graph.prepare(node, ahead.op(), ahead.offset(), ahead.len());
    }
    if player.foresight > 0
        && let Some(coming) = player.coming.get(player.next + player.foresight)
    {
        engine.graph.foresee(node, coming.op(), coming.offset(), coming.len());
    }
    let record = player.take();
    let cookie = (who as u64) << 48 | number;
    let (sink, pool) = engine.sink_and_pool();
    let payload = sink.payload(&record, cookie, pool);
    engine.submit(Submission {
        node,
        op: record.op(),
        flags: if record.fua() { Flags::FUA } else { Flags::NONE },
        offset: record.offset(),
        len: record.len(),
        payload,
        tenant: player.source.tenant,
        cookie,
        arrival,
    });
}

/// Lets every request of the workloads finish. What machines do for themselves may go on.
fn drain<S: Host>(engine: &mut Engine<S>, issued: &[u64]) {
    while issued.iter().enumerate().any(|(who, &n)| engine.sink().ended(who) < n) {
        assert!(engine.step(), "requests are outstanding but nothing will happen");
    }
}

/// Whether a record carries data that must be provided or filled.
#[inline]
pub fn carries_data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}
