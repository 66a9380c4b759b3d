//! Exposure: what was acknowledged and is not durable on both legs (W1-2).
//!
//! Every acknowledged write counts its bytes until both legs have flushed it. Below the bounds that costs nothing. A
//! write that would pass `max_exposed_bytes` is acknowledged only when there is room: both legs are flushed meanwhile.
//! Data older than half of `max_exposed_time` is flushed on both legs. Past the whole, the queue is drained oldest first
//! and a write is acknowledged by both legs only; with `on_limit = "degrade"` the late leg is left out, which is announced
//! by the figures `leg_a_is_member` and `degrades`, and taken back as soon as it answers again.
//!
//! With `degrade` a leg is also left out when a write has waited as long for it alone, because of FUA or of `write_ack`, and a
//! leader when one has waited as long for its mark.
//!
//! A trim counts at most the bound: it has no data that could be lost. While one leg is out nothing is counted: the whole
//! device has one copy, and says so.
//!
//! RAM: one record of 32 B for each pair of leg flushes that is not complete, with `degrade` 24 B for each write that is not
//! answered or came after one.

use super::op::Part;
use super::work::Ready;
use super::{DELAYED, EXPOSE, Mirror, each};
use crate::member::set::Set;
use nandu_base::{Cx, Instant, Span};
use std::collections::VecDeque;

/// Bytes that wait for a flush of each leg.
#[derive(Clone, Copy, Debug)]
struct Record {
    bytes: u64,
    since: Instant,
    need: [u64; DELAYED],
}

/// What only one leg has durably.
#[derive(Debug, Default)]
pub(super) struct Exposure {
    /// All of it.
    pub(super) bytes: u64,
    records: VecDeque<Record>,
    /// With `degrade`: writes that may not be answered, by when they were issued; their version and operation.
    unanswered: VecDeque<(Instant, u64, u32)>,
    /// Some of it is older than `max_exposed_time`.
    pub(super) is_late: bool,
    armed: Option<Instant>,
    /// The most since the counters were reset.
    pub(super) bytes_max: u64,
    pub(super) age_max: Span,
}

impl Exposure {
    /// Only one leg is left, or none.
    pub(super) fn reset(&mut self) {
        (self.bytes, self.is_late) = (0, false);
        self.records.clear();
        self.unanswered.clear();
    }

    /// Whether the timer comes now.
    pub(super) fn is_looked_at(&self, now: Instant) -> bool {
        self.armed.is_some_and(|at| at <= now)
    }

    /// The timer was cancelled.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }
}

impl Mirror {
    fn is_exposing(&self) -> bool {
        self.policy.lists_lost && self.is_whole()
    }

    fn exposes(&self, i: u32) -> u64 {
        let op = &self.ops[i as usize];
        (op.end - op.start).min(self.policy.exposed_bytes)
    }

    /// Whether the write may be acknowledged within the bound on bytes.
    pub(super) fn has_room(&self, i: u32) -> bool {
        !self.is_exposing()
            || self.planted.no_exposure_bound
            || self.exposure.bytes + self.exposes(i) <= self.policy.exposed_bytes
    }

    /// The write is acknowledged.
    pub(super) fn expose(&mut self, i: u32) {
        if self.is_exposing() {
            let bytes = self.exposes(i);
            self.ops[i as usize].exposed = bytes;
            self.exposure.bytes += bytes;
            self.exposure.bytes_max = self.exposure.bytes_max.max(self.exposure.bytes);
            self.look_from(self.ops[i as usize].sent);
            self.work.add(Ready::Drain); // of a queue that is kept until so much is exposed
        }
    }

    /// Something is on one leg only since then: the bounds are looked at when it is half as old as it may become.
    fn look_from(&mut self, since: Instant) {
        let half = since + Span(self.policy.exposed_time.0 / 2);
        if self.exposure.armed.is_none_or(|armed| half < armed) {
            self.work.add(Ready::Exposure);
        }
    }

    /// The write was sent to the legs.
    pub(super) fn await_answer(&mut self, i: u32) {
        if self.policy.degrade && self.is_exposing() {
            let op = &self.ops[i as usize];
            let since = op.sent;
            self.exposure.unanswered.push_back((since, op.version, i));
            self.look_from(since);
        }
    }

    /// When the oldest write was issued that is not answered and waits for one leg only, and that leg.
    fn unanswered(&mut self) -> Option<(Instant, Option<usize>)> {
        while let Some(&(since, version, i)) = self.exposure.unanswered.front() {
            let op = &self.ops[i as usize];
            if op.version == version && op.issued && !op.over && !op.acked {
                let late = each(op.parts.open()).next();
                if late.is_some() {
                    return Some((since, late.filter(|_| op.parts.any(Part::Done))));
                }
            }
            self.exposure.unanswered.pop_front();
        }
        None
    }

    /// An acknowledged write is complete on both legs; flushes end its exposure.
    pub(super) fn await_flush(&mut self, i: u32) {
        let op = &mut self.ops[i as usize];
        let (bytes, since) = (std::mem::take(&mut op.exposed), op.sent);
        if bytes == 0 {
            return;
        }
        let need = [self.legs[0].dirty, self.legs[1].dirty];
        match self.exposure.records.back_mut() {
            Some(last) if last.need == need => {
                last.bytes += bytes;
                last.since = last.since.min(since);
            }
            _ => self.exposure.records.push_back(Record { bytes, since, need }),
        }
        self.work.add(Ready::Exposure);
    }

    fn exposed_since(&mut self) -> Option<Instant> {
        let unanswered = self.unanswered().map(|(since, _)| since);
        let lags = self.lag.iter().filter_map(|l| l.since());
        let flushes = self.exposure.records.front().map(|r| r.since);
        lags.chain(flushes).chain(unanswered).chain(self.blocked_since()).min()
    }

    /// How long a write has waited for the leader's D, where the leader may be left out for that.
    fn blocked_since(&self) -> Option<Instant> {
        let first = self.intent_wait.first().filter(|_| self.policy.degrade)?;
        Some(self.ops[*first as usize].sent)
    }

    /// Keeps within the bounds.
    pub(super) fn pump_exposure(&mut self, cx: &mut Cx<'_>) {
        let was_late = self.exposure.is_late;
        self.keep_within_bounds(cx);
        if self.exposure.is_late != was_late {
            self.work.add_each(&[Ready::Intents, Ready::Drain, Ready::Swap, Ready::Health]);
        }
    }

    fn keep_within_bounds(&mut self, cx: &mut Cx<'_>) {
        if !self.is_exposing() {
            self.answer_gated(cx);
            return;
        }
        while let Some(&r) = self.exposure.records.front() {
            if (0..DELAYED).any(|leg| !self.legs[leg].flushed(r.need[leg])) {
                break;
            }
            self.exposure.records.pop_front();
            self.exposure.bytes -= r.bytes;
        }
        let most = self.policy.exposed_time;
        let Some(since) = self.exposed_since() else {
            self.exposure.is_late = false;
            self.answer_gated(cx);
            return;
        };
        let age = cx.now.since(since);
        self.exposure.age_max = self.exposure.age_max.longer(age);
        self.exposure.is_late = age >= most && !self.planted.no_exposure_bound;
        let (front, back) = (self.exposure.records.front().copied(), self.exposure.records.back().copied());
        let wanted = if !self.gated.is_empty() { back } else { front.filter(|_| age.0 >= most.0 / 2) };
        if let Some(r) = wanted {
            (0..DELAYED).for_each(|leg| self.want_flush(leg, r.need[leg], cx));
        }
        let half = Span(most.0 / 2);
        let next = if age < half { Some(since + half) } else { (age < most).then(|| since + most) };
        if let Some(at) = next {
            self.look_again(at, cx);
        }
        self.answer_gated(cx);
        if self.exposure.is_late && self.policy.degrade {
            self.degrade(cx);
        }
    }

    /// Looks at the bounds again at `at`, at the latest.
    pub(super) fn look_again(&mut self, at: Instant, cx: &mut Cx<'_>) {
        if self.exposure.armed.is_none_or(|armed| at < armed) {
            self.exposure.armed = Some(at);
            cx.wake_at(EXPOSE, at);
        }
    }

    pub(super) fn exposure_timer(&mut self) {
        self.exposure.armed = None;
        self.work.add(Ready::Drain);
        self.work.add(Ready::Exposure);
    }

    /// Acknowledged writes have made room.
    fn answer_gated(&mut self, cx: &mut Cx<'_>) {
        while let Some(&i) = self.gated.front() {
            if self.ops[i as usize].gated && !self.has_room(i) {
                return;
            }
            self.gated.pop_front();
            if !self.ops[i as usize].gated {
                continue; // it has ended in another way
            }
            self.ops[i as usize].gated = false;
            self.settle(i, nandu_base::ReqId::NONE, cx);
        }
    }

    /// Leaves the late leg out, if the other one has everything.
    fn degrade(&mut self, cx: &mut Cx<'_>) {
        if self.proc.is_any() {
            return;
        }
        let unanswered = self.unanswered();
        let since = [0, 1].map(|leg: usize| self.lag[leg].since().map_or(u64::MAX, |t| t.0));
        let late = match since[0].cmp(&since[1]) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => 1,
            std::cmp::Ordering::Equal => match (self.exposure.records.front(), unanswered) {
                (Some(r), _) => usize::from(self.legs[0].flushed(r.need[0])),
                (None, Some((_, Some(leg)))) => leg,
                (None, Some((_, None))) => return, // neither has answered
                (None, None) => self.leader,       // it does not take its records
            },
        };
        if self.holds_alone(late) {
            return;
        }
        self.count.degrades += 1;
        self.leave(late, cx);
        // It has not failed: it rejoins when all its old requests have ended.
        self.roster[late].comes_back();
    }
}
