//! `fault`: makes the device below fail, from a seed.
//!
//! - *Errors.* A request fails with a chance of its own; a failed read names a random part. A failed write changes nothing, or leaves a random part of
//!   itself in the cache.
//! - *Flips.* A write is stored with one wrong bit, and nobody is told: it stays wrong until it is written again. Records that a
//!   machine above keeps for itself are spared.
//! - *Volatile write cache.* A write is acknowledged when its payload is kept. It is destaged later, in random pieces (of
//!   the alignment below) and in random order. Reads are answered from the cache where it holds the extent and from below
//!   elsewhere. A flush destages, in random order, everything acknowledged before it, and then goes on below. A write
//!   with FUA is acknowledged when it, and all before it, is destaged and flushed. Trims and write-zeroes go below at
//!   once, behind earlier writes of their extent that are on their way. A crash drops this machine with its cache: what
//!   was not destaged is lost, and what was is torn and out of order. No privilege and no second device is needed.
//! - *Delay.* Every request comes so much later, in order, any number of them side by side.
//! - *Freezes.* Requests that come are held, in order, until the freeze ends.
//! - *Losses.* [`DeviceEvent::Lost`]; each unit of the cache is lost or destaged, by a coin; requests fail with
//!   [`ErrorKind::Gone`]. Later [`DeviceEvent::Back`], when what survives is below. This is also a power cut of this one
//!   device.
//!
//! A destage that fails loses its data, and every flush fails from then on until the device has been lost and is back: a
//! retried flush proves nothing.
//!
//! Not covered: latent bad sectors (an error does not stick to its place), writes that go elsewhere or nowhere, and requests that
//! were passed on before a freeze or loss, which end as the device below ends them.
//!
//! Order: one request that must wait (for room, or for writes of its extent that are on their way) holds back all that
//! come after it. Bounds: the work of one event is in the size of the cache and the requests held. RAM: the payload and
//! about 100 bytes for each cached unit.

mod cache;
mod config;
mod destage;
mod outage;

pub use config::{CacheConfig, FaultConfig, FreezeConfig, LossConfig};

use cache::WriteCache;
use destage::{Barrier, DESTAGES, Flight, Waiter};
use nandu_base::{
    Advise, BuildContext, ByteLen, ByteOffset, Cx, DeviceEvent, Draft, Effect, ErrorKind, Flags, Hints,
    Instant, Joins, Kind, Limits, Machine, Needs, Op, OpenOptions, Payload, Peek, Place, Plant, Report,
    ReqId, Request, Rng, SECTOR, Span, Step, TimerKey, Violation,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

const DESTAGE: TimerKey = TimerKey(0);
const FREEZE: TimerKey = TimerKey(1);
const LOSS: TimerKey = TimerKey(2);
const DELAY: TimerKey = TimerKey(3);

const LYING_FLUSH: Plant =
    Plant::new("fault.lying-flush", "I-1", "a flush is acknowledged although the cache is not destaged");

const UNSEEDED: Plant = Plant::new(
    "fault.unseeded",
    "I-14",
    "what happens depends on how often the process has built such a machine, not on the seed alone",
);

/// Builds of machines with [`UNSEEDED`] planted.
static BUILDS: AtomicU64 = AtomicU64::new(0);

/// The machine kind `fault`.
pub fn kind() -> Kind {
    Kind::of::<FaultConfig>("fault", "errors, a volatile write cache, freezes and losses, from a seed")
        .with_plants(&[LYING_FLUSH, UNSEEDED])
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    injected_errors: u64,
    flips: u64,
    cached_writes: u64,
    destages: u64,
    freezes: u64,
    losses: u64,
}

struct Fault {
    config: FaultConfig,
    limits: Limits,
    unit: u64,
    rng: Rng,
    /// The planted fault.
    lies: bool,
    /// Number of the next change.
    seq: u64,
    cache: WriteCache,
    joins: Joins,
    flights: Vec<Flight>,
    /// Flights that are destages.
    destages: u32,
    barriers: VecDeque<Barrier>,
    /// Requests that wait for the end of a freeze, for room, or for one before them.
    held: VecDeque<ReqId>,
    /// Requests that are on their way here, and when they come.
    delayed: VecDeque<(Instant, ReqId)>,
    timer_is_set: bool,
    frozen: bool,
    lost: bool,
    below_lost: bool,
    /// The loss is over as soon as what survives is below.
    back_is_due: bool,
    /// Acknowledged data was lost on its way below.
    broken: bool,
    tally: Tally,
}

impl Fault {
    fn new(config: FaultConfig, limits: Limits, cx: &BuildContext<'_>) -> Fault {
        let unit = u64::from(limits.align);
        let builds = if cx.planted(UNSEEDED.name) { BUILDS.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Fault {
            config,
            limits,
            unit,
            rng: Rng::new(cx.seed.wrapping_add(builds)),
            lies: cx.planted(LYING_FLUSH.name),
            seq: 0,
            cache: WriteCache::new(unit),
            joins: Joins::new(),
            flights: Vec::new(),
            destages: 0,
            barriers: VecDeque::new(),
            held: VecDeque::new(),
            delayed: VecDeque::new(),
            timer_is_set: false,
            frozen: false,
            lost: false,
            below_lost: false,
            back_is_due: false,
            broken: false,
            tally: Tally::default(),
        }
    }

    fn is_gone(&self) -> bool {
        self.lost || self.below_lost
    }

    /// The units of a request.
    fn units(&self, id: ReqId, cx: &Cx<'_>) -> (u64, u64) {
        let request = &cx.requests[id];
        (request.offset.0 / self.unit, request.end().0 / self.unit)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Serves a request. `None` when it must wait.
    fn serve(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Step> {
        if self.is_gone() {
            return Some(cx.fail(id, ErrorKind::Gone));
        }
        let (op, len) = (cx.requests[id].op, cx.requests[id].len);
        match op {
            Op::Write if !self.has_room(len) => return None,
            Op::Trim | Op::WriteZeroes | Op::Reset if self.overlaps(id, cx) => return None,
            _ => {}
        }
        if let Some(step) = self.strike(id, cx) {
            return Some(step);
        }
        let rotten = self.rot(id, cx);
        let payload = rotten.unwrap_or(cx.requests[id].payload);
        let step = match op {
            Op::Read => self.read(id, cx),
            Op::Flush => self.flush(id, cx),
            _ if self.config.cache.is_none() && rotten.is_none() => Step::Forward(0, id),
            Op::Write if self.config.cache.is_some() => self.write(id, payload, cx),
            _ => self.through(id, payload, cx),
        };
        if let Some(payload) = rotten {
            cx.pool.release(payload);
        }
        Some(step)
    }

    /// A copy of a write's data with one wrong bit, when its chance says so.
    fn rot(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Payload> {
        let Request { op, payload, len, .. } = cx.requests[id];
        let can =
            op == Op::Write && self.config.flip_rate.num > 0 && !payload.is_none() && !payload.is_metadata();
        if !can || !self.rng.chance(self.config.flip_rate) {
            return None;
        }
        let rotten = cx.pool.allocate_unfilled(len);
        cx.pool.copy(payload, rotten, len);
        let (sector, bit) = (self.rng.below(len.sectors()), self.rng.below(SECTOR * 8));
        cx.pool.flip(rotten, sector, bit);
        self.tally.flips += 1;
        Some(rotten)
    }

    /// A request is here.
    fn take(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if !self.frozen
            && self.held.is_empty()
            && let Some(step) = self.serve(id, cx)
        {
            return step;
        }
        self.held.push_back(id);
        self.launch(cx);
        Step::Idle
    }

    /// Takes the requests whose delay is over.
    fn take_delayed(&mut self, cx: &mut Cx<'_>) {
        while let Some(&(at, id)) = self.delayed.front() {
            if at > cx.now {
                cx.wake_at(DELAY, at);
                return;
            }
            self.delayed.pop_front();
            match self.take(id, cx) {
                Step::Idle => {}
                step => cx.effects.push(Effect::Step(step)),
            }
        }
    }

    fn has_room(&self, len: ByteLen) -> bool {
        let Some(cache) = &self.config.cache else { return true };
        self.cache.is_empty() || self.cache.bytes() + len <= cache.size
    }

    fn overlaps(&self, id: ReqId, cx: &Cx<'_>) -> bool {
        let (first, end) = self.units(id, cx);
        self.flights.iter().any(|f| f.active && f.first < end && first < f.end)
    }

    /// Lets the request fail when its chance says so.
    fn strike(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Step> {
        let request = &mut cx.requests[id];
        let (chance, kind) = match request.op {
            Op::Read => (self.config.read_error_rate, ErrorKind::Unreadable),
            Op::Flush => (self.config.flush_error_rate, ErrorKind::WriteFailed),
            _ => (self.config.write_error_rate, ErrorKind::WriteFailed),
        };
        if !self.rng.chance(chance) {
            return None;
        }
        self.tally.injected_errors += 1;
        let units = request.len.0 / self.unit;
        let in_part =
            request.op == Op::Read || request.op == Op::Write && self.config.write_error_leaves_part;
        if !in_part || units == 0 {
            request.fail(kind);
            return Some(Step::Finish(id));
        }
        let from = self.rng.below(units);
        let count = self.rng.between(1, units - from);
        let at = ByteLen(from * self.unit);
        if request.op == Op::Read {
            request.fail_part(kind, at, ByteLen(count * self.unit));
        } else {
            request.fail(kind);
            let (payload, cause) = (request.payload.slice(at), request.cause);
            let first = self.units(id, cx).0 + from;
            let write = self.next_seq();
            self.cache.put(first, first + count, write, payload, cause, cx.pool);
            self.arm(cx);
        }
        Some(Step::Finish(id))
    }

    /// What the cache holds is copied now, so that a destage that ends meanwhile does not take it away; the rest is read.
    fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (first, end) = self.units(id, cx);
        if self.cache.is_empty() || self.cache.gaps(first, end).next() == Some((first, end)) {
            return Step::Forward(0, id);
        }
        let request = &cx.requests[id];
        let (payload, flags) = (request.payload, request.flags);
        self.cache.read(first, end, payload, cx.pool);
        let gaps = self.cache.gaps(first, end).count() as u32;
        if gaps == 0 {
            return Step::Finish(id);
        }
        let join = self.joins.begin(id, gaps);
        for (from, to) in self.cache.gaps(first, end) {
            let at = ByteLen((from - first) * self.unit);
            let draft = Draft {
                op: Op::Read,
                flags,
                offset: ByteOffset(from * self.unit),
                len: ByteLen((to - from) * self.unit),
                payload: payload.slice(at),
                cookie: Joins::cookie(join, at),
            };
            let child = cx.child(id, draft);
            cx.send(0, child);
        }
        Step::Idle
    }

    fn write(&mut self, id: ReqId, payload: Payload, cx: &mut Cx<'_>) -> Step {
        let (first, end) = self.units(id, cx);
        let (cause, flags) = (cx.requests[id].cause, cx.requests[id].flags);
        let write = self.next_seq();
        self.cache.put(first, end, write, payload, cause, cx.pool);
        self.tally.cached_writes += 1;
        if flags.has(Flags::FUA) {
            return self.wait_for_destage(Waiter::ForceUnit(id), cx);
        }
        self.arm(cx);
        Step::Finish(id)
    }

    /// Trims and write-zeroes go below at once. The cache keeps what they concern until they are there.
    fn through(&mut self, id: ReqId, payload: Payload, cx: &mut Cx<'_>) -> Step {
        let (first, end) = self.units(id, cx);
        let write = self.next_seq();
        let cookie = self.take_off(first, end, write);
        let request = &cx.requests[id];
        let draft = Draft {
            op: request.op,
            flags: request.flags,
            offset: request.offset,
            len: request.len,
            payload,
            cookie,
        };
        let child = cx.child(id, draft);
        Step::Send(0, child)
    }

    fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.lies {
            return Step::Finish(id);
        }
        if self.broken {
            return cx.fail(id, ErrorKind::WriteFailed);
        }
        if self.cache.is_empty() {
            return Step::Forward(0, id);
        }
        self.wait_for_destage(Waiter::Flush(id), cx)
    }
}

impl Machine for Fault {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs { injects_faults: true, ..Needs::NOTHING }
    }

    fn open(&mut self, _how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        cx.opened_if_children_are();
        self.schedule_loss(cx);
        self.schedule_freeze(cx);
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        cx.cancel_wake(LOSS);
        cx.cancel_wake(FREEZE);
        self.frozen = false;
        self.barriers.push_back(Barrier { before: u64::MAX, waiter: Waiter::Close });
        self.progress(cx);
        Step::Idle
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.config.delay == Span::ZERO {
            return self.take(id, cx);
        }
        let at = cx.now + self.config.delay;
        if self.delayed.is_empty() {
            cx.wake_at(DELAY, at);
        }
        self.delayed.push_back((at, id));
        Step::Idle
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (op, parent, error) = (cx.requests[id].op, cx.requests[id].parent, cx.requests[id].error);
        let parent = match op {
            Op::Read => match self.joins.child_done(id, cx) {
                Some(parent) => parent,
                None => return Step::Idle,
            },
            Op::Write if parent == ReqId::NONE => {
                let flight = self.land(id, cx);
                self.destages -= 1;
                self.broken |= error.is_some();
                self.cache.destaged(flight.first, flight.end, flight.write, cx.pool);
                self.progress(cx);
                return Step::Idle;
            }
            Op::Flush if parent == ReqId::NONE => {
                cx.closed();
                return Step::Idle;
            }
            Op::Flush => {
                cx.absorb(parent, id);
                cx.requests[parent].error = error;
                parent
            }
            Op::Write | Op::Trim | Op::WriteZeroes | Op::Reset => {
                let flight = self.land(id, cx);
                cx.absorb(parent, id);
                cx.requests[parent].error = error;
                if error.is_none() {
                    self.cache.forget(flight.first, flight.end, flight.write, cx.pool);
                }
                self.progress(cx);
                parent
            }
        };
        if self.lost {
            cx.requests[parent].fail(ErrorKind::Gone);
        }
        Step::Finish(parent)
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            DESTAGE => {
                self.timer_is_set = false;
                if !self.frozen && self.destages < DESTAGES {
                    self.destage(u64::MAX, cx);
                }
                self.arm(cx);
            }
            FREEZE => self.freeze_or_thaw(cx),
            DELAY => self.take_delayed(cx),
            LOSS if self.lost => {
                self.back_is_due = true;
                self.progress(cx);
            }
            LOSS => self.lose(cx),
            _ => {}
        }
        Step::Idle
    }

    fn child_event(&mut self, _child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        match event {
            DeviceEvent::Lost | DeviceEvent::Back => {
                let before = self.is_gone();
                self.below_lost = event == DeviceEvent::Lost;
                self.broken &= self.below_lost;
                if before != self.is_gone() {
                    cx.event(event);
                }
                self.progress(cx);
            }
            DeviceEvent::Resized(_) | DeviceEvent::Notice(_) => {}
            other => cx.event(other),
        }
        Step::Idle
    }

    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn report(&mut self, report: &mut Report) {
        let t = &mut self.tally;
        report.count("injected_errors", &mut t.injected_errors);
        report.count("flips", &mut t.flips);
        report.count("cached_writes", &mut t.cached_writes);
        report.count("destages", &mut t.destages);
        report.count("freezes", &mut t.freezes);
        report.count("losses", &mut t.losses);
        report.put("cached_bytes", self.cache.bytes().0);
    }

    fn check(&self) -> Result<(), Violation> {
        if self.cache.is_sound() {
            return Ok(());
        }
        Err(Violation { invariant: "I-1", what: "the cache holds a unit whose age it does not know".into() })
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }
}

impl Advise for Fault {
    /// A cached write takes no time while there is room.
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        if op == Op::Write && self.config.cache.is_some() && self.has_room(len) {
            return self.config.delay;
        }
        self.config.delay + peek.expected_latency(0, op, offset, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.frozen || !self.held.is_empty() || peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset, len)
    }
}

impl Hints for Fault {
    fn foresee(&mut self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn used(&mut self, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }
}
