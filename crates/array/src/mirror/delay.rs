//! The leg that lags: when to stop waiting for it, its delay queue, and when it is written directly again.
//!
//! **Wait limit** (S1-13 to S1-16, O1-2, O1-16). The first leg completes a write after `wt`; the other one has so much
//! time more: `wait_ratio` times `wt` (the paper's 1.3), or a quantile of the time by which legs were apart so far, and
//! at least `wait_min`. Past that its mode is *delayed*: what it has is left in flight (O1-3), new writes go to its
//! delay queue ([`super::lag`]). With `gc-hint` a leg that reports pressure, or expects to take longer than that beside
//! the other, is delayed before it is late. So is, with `critical_backlog`, a leg that has that many writes under way while the other has
//! at most half as many: section 3.3 of the paper, whose critical point has no figure there. If the other one was delayed the two change
//! places, for the paper's step 5 treats the legs alike, and what a delayed leg still lacks goes on being drained. A write that meets one that the leg still lacks joins the queue in any mode
//! (W1-5). When both legs are late, both are written directly: one is enough (O1-9). With `write_hedge` a write that its only
//! direct leg has not taken after its median and the wait limit goes to the delayed leg too, ahead of the queue.
//!
//! **Drain** (S1-17 to S1-19). At most `delay_depth` requests at once while there are pieces; with `delay_order = "elevator"` as many as
//! the leg takes while somebody waits for the queue: a client ([`super::hold`]), a close or a takeover, or the bound on the age of what
//! is exposed, of which half is over. The leg is *in step* again
//! when its queue is empty, or is below `resume_below` and the last drained request took less than twice the median
//! (O1-8).
//!
//! **Errors** (O1-18). What fails waits again. What has failed more than `write_retries` times has the leg left out. Of a leader that alone
//! holds some regions it rests ([`super::stuck`]). When no other leg has the data they are lost, and reported.
//!
//! **Estimators** are integers: a quantile moves up or down by a sixteenth of itself, in the ratio of the quantile.

use super::lag::Changes;
use super::op::Part;
use super::policy::{Ack, Limit};
use super::quantile::Quantile;
use super::work::Ready;
use super::{Mirror, Phase, Tag, WAIT, each};
use crate::member::set::Set;
use nandu_base::{
    ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Instant, IoError, Op, Ratio, ReqId, Span,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// In place of tries: some of a write that nobody was told of is lost in the queue.
const LOST: u8 = u8::MAX;

/// A leg as a writer.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// New writes go to the delay queue.
    pub(super) delayed: bool,
    delayed_at: Instant,
    median: Quantile,
    last: Span,
    /// It says that garbage collection is in its way.
    pub(super) pressed: bool,
    /// What it has failed too often is not tried before.
    pub(super) rests_until: Instant,
    /// It may not be left out although it has failed something too often.
    pub(super) stuck: bool,
    /// Times it became delayed, and the time it was so.
    pub(super) delays: u64,
    pub(super) delayed_for: Span,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            delayed: false,
            delayed_at: Instant::ZERO,
            median: Quantile::new(Ratio { num: 1, den: 2 }),
            last: Span::ZERO,
            pressed: false,
            rests_until: Instant::ZERO,
            stuck: false,
            delays: 0,
            delayed_for: Span::ZERO,
        }
    }

    /// In step again, or out.
    pub(super) fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.delayed) {
            self.delayed_for += now.since(self.delayed_at);
        }
    }
}

/// The wait limits that are not over.
#[derive(Debug)]
pub(super) struct Waits {
    /// When, version and number of the operation, and whether it is a hedge that is due and not the other leg.
    due: BinaryHeap<Reverse<(Instant, u64, u32, bool)>>,
    armed: Option<Instant>,
    apart: Quantile,
}

impl Waits {
    pub(super) fn new(part: Ratio) -> Waits {
        Waits { due: BinaryHeap::new(), armed: None, apart: Quantile::new(part) }
    }

    /// The timer was cancelled.
    pub(super) fn forget(&mut self) {
        self.due.clear();
        self.armed = None;
    }
}

impl Mirror {
    /// Whether a write of this extent has to join the delay queue of the leg.
    #[inline]
    pub(super) fn is_delayed(&self, leg: usize, at: u64, upto: u64) -> bool {
        let goes_on =
            |other: usize| !self.paces[other].delayed && self.legs[other].writes && !self.is_spared(other);
        let late = self.is_spared(leg) || self.paces[leg].delayed && self.others(leg).any(goes_on);
        late || self.lag[leg].lacks(at, upto) && !self.planted.write_past_queue
    }

    /// What the legs say of themselves delays them before they are late.
    pub(super) fn take_hints(&mut self, at: u64, upto: u64, cx: &mut Cx<'_>) {
        if self.policy.limit != Limit::GcHint || !self.policy.ack.has_limit() || !self.is_whole() {
            return;
        }
        let expects =
            [0u8, 1].map(|leg| cx.peek.expected_latency(leg, Op::Write, ByteOffset(at), ByteLen(upto - at)));
        for leg in 0..2 {
            let limit = self.limit_after(expects[1 - leg]);
            if self.paces[leg].pressed || expects[leg] > expects[1 - leg] + limit {
                self.delay(leg, cx.now);
            }
        }
    }

    /// A leg with too many writes under way beside the other one is relieved by it.
    pub(super) fn relieve(&mut self, now: Instant) {
        let critical = self.policy.critical_backlog;
        if critical == 0 || !self.policy.ack.has_limit() || !self.is_whole() {
            return;
        }
        let backlog = [0, 1].map(|leg| self.legs[leg].data_writes);
        for leg in 0..2 {
            if backlog[leg] >= critical && 2 * backlog[1 - leg] <= backlog[leg] && !self.paces[leg].delayed {
                self.paces[1 - leg].resume(now);
                self.delay(leg, now);
                self.count.relieved += 1;
            }
        }
    }

    fn delay(&mut self, leg: usize, now: Instant) {
        let pace = &mut self.paces[leg];
        if !pace.delayed {
            (pace.delayed, pace.delayed_at) = (true, now);
            pace.delays += 1;
        }
    }

    /// How long the other leg has from the first completion, which came after `wt`.
    fn limit_after(&self, wt: Span) -> Span {
        let p = &self.policy;
        let span = match p.limit {
            Limit::Quantile => self.waits.apart.value(),
            Limit::Ratio | Limit::GcHint => {
                let times =
                    Span((u128::from(wt.0) * u128::from(p.ratio.num) / u128::from(p.ratio.den)) as u64);
                if p.total { Span(times.0.saturating_sub(wt.0)) } else { times }
            }
        };
        span.longer(p.floor)
    }

    /// One leg has completed a write that the other one has under way.
    pub(super) fn start_limit(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let due = cx.now + self.limit_after(cx.now.since(op.sent));
        self.waits.due.push(Reverse((due, op.version, i, false)));
        self.arm_limit(cx);
    }

    /// A write was sent to one leg and waits for the other in its queue: the one it was sent to has its usual time, and
    /// the wait limit (O1-9).
    pub(super) fn start_write_hedge(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if !self.policy.write_hedge || !op.parts.any(Part::Queued) {
            return;
        }
        let Some(direct) = each(op.parts.all(Part::Flying)).next() else { return };
        let usual = self.paces[direct].median.value();
        if !self.policy.ack.has_limit() || usual == Span::ZERO {
            return;
        }
        self.waits.due.push(Reverse((cx.now + usual + self.limit_after(usual), op.version, i, true)));
        self.arm_limit(cx);
    }

    /// No leg has the write yet, and the one that it was sent to is late.
    fn hedge_write(&mut self, i: u32) {
        let op = &self.ops[i as usize];
        let waits = each(op.parts.all(Part::Queued)).next();
        if let Some(leg) = waits.filter(|_| !op.parts.any(Part::Done)) {
            self.lag[leg].hurry(op.at);
            self.count.write_hedges += 1;
            self.work.add(Ready::Drain);
        }
    }

    fn arm_limit(&mut self, cx: &mut Cx<'_>) {
        let Some(&Reverse((due, ..))) = self.waits.due.peek() else { return };
        if self.waits.armed.is_none_or(|at| due < at) {
            self.waits.armed = Some(due);
            cx.wake_at(WAIT, due);
        }
    }

    /// Some wait limit is over.
    pub(super) fn limit_timer(&mut self, cx: &mut Cx<'_>) {
        self.waits.armed = None;
        while let Some(&Reverse((due, version, i, is_hedge))) = self.waits.due.peek() {
            if due > cx.now {
                break;
            }
            self.waits.due.pop();
            let op = &mut self.ops[i as usize];
            if op.version != version || op.over || !op.issued {
                continue;
            }
            if is_hedge {
                self.hedge_write(i);
                continue;
            }
            op.waited = true;
            self.release_serial(i);
            let op = &self.ops[i as usize];
            if let Some(leg) = each(op.parts.open()).next() {
                self.count.over_limit += 1;
                self.delay(leg, cx.now);
            }
            self.settle(i, ReqId::NONE, cx);
        }
        self.arm_limit(cx);
    }

    /// A leg has completed a write `span` after it was sent; `apart` after the other leg had.
    pub(super) fn sample(&mut self, leg: usize, span: Span, apart: Option<Span>) {
        if let Some(apart) = apart.filter(|_| self.policy.lists_lost) {
            self.count.ratios.add(leg, span, Span(span.0 - apart.0));
        }
        if self.policy.ack == Ack::Both {
            return;
        }
        let pace = &mut self.paces[leg];
        pace.last = span;
        pace.median.add(span);
        if let Some(apart) = apart {
            self.waits.apart.add(apart);
        }
    }

    /// The leg's share of a write waits in its delay queue.
    pub(super) fn queue_piece(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::Queued);
        let op = *op;
        self.note_queued(leg, &op);
        let mut piece = op.piece(i, leg);
        if self.planted.payload_dropped {
            piece.payload = nandu_base::Payload::NONE;
        }
        self.count.queued_bytes += piece.end - piece.start;
        let mut changes = std::mem::take(&mut self.changes);
        self.lag[leg].push(piece, &mut changes, cx.pool);
        self.count.queue_bytes_max[leg] = self.count.queue_bytes_max[leg].max(self.lag[leg].bytes());
        self.count.queue_max[leg] = self.count.queue_max[leg].max(self.lag[leg].waiting() as u64);
        self.work.add(Ready::Drain);
        self.work.add(Ready::Exposure);
        self.apply(leg, changes, ReqId::NONE, cx);
    }

    /// Counts the pieces of operations anew; those that have none left are settled.
    fn apply(&mut self, leg: usize, mut changes: Changes, id: ReqId, cx: &mut Cx<'_>) {
        let mut complete = std::mem::take(&mut self.complete);
        for (writer, n) in changes.drain(..) {
            let op = &mut self.ops[writer as usize];
            op.pieces[leg] = op.pieces[leg].checked_add_signed(n).expect("pieces are counted");
            if op.pieces[leg] == 0 && op.parts.is(leg, Part::Queued) {
                complete.push(writer);
            }
        }
        self.changes = changes;
        // A piece may be replaced by several parts: only now is it known which operations have none.
        for i in complete.drain(..) {
            let op = &mut self.ops[i as usize];
            if op.pieces[leg] == 0 && op.parts.is(leg, Part::Queued) {
                op.parts.set(leg, if op.tries[leg] == LOST { Part::Failed } else { Part::Done });
                self.settle(i, id, cx);
            }
        }
        self.complete = complete;
    }

    /// Drains as far as the depth allows.
    pub(super) fn pump_drain(&mut self, leg: usize, cx: &mut Cx<'_>) {
        if self.lag[leg].is_empty() {
            self.paces[leg].resume(cx.now);
            self.end_batch(leg);
            return;
        }
        if !self.legs[leg].writes || self.lag[leg].waiting() == 0 {
            return;
        }
        if self.is_kept(leg, cx) {
            return;
        }
        let tries = if cx.now < self.paces[leg].rests_until { self.write_retries } else { u8::MAX };
        let order = match self.policy.sweep && !self.exposure.is_late {
            true => super::lag::Order::Sweep(self.policy.batch),
            false => super::lag::Order::Oldest,
        };
        while self.lag[leg].draining() < self.policy.depth || self.hurries(leg, cx) {
            let mut changes = std::mem::take(&mut self.changes);
            let took = self.lag[leg].take(order, tries, self.limits.max_io.0, cx.now, &mut changes, cx.pool);
            self.apply(leg, changes, ReqId::NONE, cx);
            let Some(slot) = took else { return };
            self.send_flight(leg, slot, cx);
        }
    }

    /// Whether somebody waits for the queue of the leg, which takes more than it has under way.
    fn hurries(&self, leg: usize, cx: &Cx<'_>) -> bool {
        let own = self.maintenance.leg_queue_depth[leg];
        let takes = cx.peek.limits(leg as u8).depth.min(if own > 0 { own } else { u32::MAX });
        if !self.policy.sweep || self.lag[leg].draining() >= takes {
            return false;
        }
        let goes_on = self.phase == Phase::Running && !self.proc.is_solo();
        let is_old = |since: Instant| cx.now.since(since).0 >= self.policy.exposed_time.0 / 2;
        !goes_on || self.is_awaited(leg) || self.lag[leg].since().is_some_and(is_old)
    }

    fn send_flight(&mut self, leg: usize, slot: u32, cx: &mut Cx<'_>) {
        let flight = self.lag[leg].flight(slot).expect("it was just taken");
        let background = Flags::BACKGROUND;
        let zeroes = flight.op == Op::Trim && self.no_trim[leg];
        let draft = Draft {
            op: if zeroes { Op::WriteZeroes } else { flight.op },
            flags: if flight.fua { background.with(Flags::FUA) } else { background },
            offset: ByteOffset(flight.start),
            len: ByteLen(flight.end - flight.start),
            payload: flight.payload,
            cookie: Tag::Drain.cookie(leg, slot),
        };
        let cause = flight.pieces[0].cause;
        self.count.drained += 1;
        self.count.drained_pieces += flight.pieces.len() as u64;
        self.count.drained_bytes += flight.end - flight.start;
        self.legs[leg].data_writes += 1;
        self.legs[leg].drains += 1;
        let id = cx.own(cause, draft);
        self.roster.sends(leg, cx);
        self.dispatch(leg, Tag::Drain, id, cx);
    }

    /// A drained request is back.
    pub(super) fn drain_done(&mut self, id: ReqId, leg: usize, slot: u32, cx: &mut Cx<'_>) {
        self.legs[leg].data_writes -= 1;
        self.legs[leg].drains -= 1;
        self.lag_shrinks();
        if self.legs[leg].is_in() && self.lag[leg].flight(slot).is_some() {
            self.flight_back(id, leg, slot, cx);
        }
    }

    /// What waits until a leg lacks less may be ready.
    fn lag_shrinks(&mut self) {
        let waits = [Ready::Records, Ready::Drain, Ready::Exposure, Ready::Flushes, Ready::Copies];
        self.work.add_each(&waits);
    }

    /// A flight is back, drained or direct.
    pub(super) fn flight_back(&mut self, id: ReqId, leg: usize, slot: u32, cx: &mut Cx<'_>) {
        let flight = self.lag[leg].flight(slot).expect("the caller has checked");
        let (start, end, sent) = (flight.start, flight.end, flight.sent);
        self.lag_shrinks();
        self.legs[leg].wrote();
        self.needs_flush(leg, self.regions_of(start, end));
        let mut changes = std::mem::take(&mut self.changes);
        match cx.requests[id].error {
            None => {
                let apart = self.apart_of(leg, slot, cx.now);
                self.sample(leg, cx.now.since(sent), apart);
                self.lag[leg].land(slot, &mut changes, cx.pool);
                self.apply(leg, changes, id, cx);
                self.look_whether_stuck(leg);
                self.may_resume(leg, cx.now);
            }
            Some(error) => {
                self.count.write_errors[leg] += 1;
                let learns = error.kind == ErrorKind::Unsupported && !self.no_trim[leg];
                let tries = self.lag[leg].put_back(slot, u8::from(!learns), &mut changes, cx.pool);
                self.apply(leg, changes, ReqId::NONE, cx);
                self.flight_failed(leg, error.kind, tries, cx);
            }
        }
    }

    fn apart_of(&self, leg: usize, slot: u32, now: Instant) -> Option<Span> {
        let flight = self.lag[leg].flight(slot).filter(|f| f.direct)?;
        let op = &self.ops[flight.pieces[0].writer as usize];
        (op.first > Instant::ZERO).then(|| now.since(op.first))
    }

    fn may_resume(&mut self, leg: usize, now: Instant) {
        let (pace, lag) = (&mut self.paces[leg], &self.lag[leg]);
        let quick = pace.last.0 < 2 * pace.median.value().0;
        let pressed = pace.pressed && self.policy.limit == Limit::GcHint;
        if pace.delayed && !pressed && lag.bytes() < self.policy.resume && quick {
            pace.resume(now);
        }
    }

    fn flight_failed(&mut self, leg: usize, kind: ErrorKind, tries: u8, cx: &mut Cx<'_>) {
        if kind == ErrorKind::Gone {
            self.leave(leg, cx);
            return;
        }
        if kind == ErrorKind::Unsupported && !self.no_trim[leg] {
            self.no_trim[leg] = true; // trims are sent as write-zeroes from now on
            return;
        }
        if tries <= self.write_retries {
            return;
        }
        if !self.others(leg).any(|other| self.is_member(other)) {
            self.lose_failed(leg, cx);
        } else if self.holds_alone(leg) {
            self.rest(leg, cx);
        } else {
            self.leave(leg, cx);
        }
    }

    /// The only leg that may lead does not take what was acknowledged: what has failed too often is lost, and on record before any flush
    /// says otherwise. What is under way goes on: until it is back nothing else may be sent to its place.
    pub(super) fn lose_failed(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let mut gone = Vec::new();
        self.lag[leg].drop_failed(self.write_retries, &mut gone, cx.pool);
        self.lag_shrinks();
        let mut changes = std::mem::take(&mut self.changes);
        for piece in &gone {
            self.lost.add(piece.start, piece.end);
            self.count.lost_bytes += piece.end - piece.start;
            if self.is_whole() {
                let follower = self.follower();
                self.regions_of(piece.start, piece.end).for_each(|r| self.make_stale(follower, r));
            }
            let op = &mut self.ops[piece.writer as usize];
            if !op.acked {
                op.tries[leg] = LOST;
                op.error = Some(IoError {
                    kind: ErrorKind::WriteFailed,
                    at: ByteLen::ZERO,
                    len: ByteLen(op.end - op.start),
                });
            }
            changes.push((piece.writer, -1));
        }
        self.legs.iter_mut().filter(|l| l.is_in() && l.writes).for_each(|l| l.want_lost());
        self.work.add(Ready::Records);
        self.apply(leg, changes, ReqId::NONE, cx);
        self.look_whether_stuck(leg);
    }
}
