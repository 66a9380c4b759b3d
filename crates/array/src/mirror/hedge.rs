//! Hedged reads: past a leg that is frozen.
//!
//! A read that has not come back after `hedge_after` is sent to the other leg too, or answered from the memory of a delay
//! queue, if one of them is current by then; otherwise it is looked at again as long afterwards. The first good answer
//! counts. When neither has all of it the read begins anew in parts, once, if its first part is somewhere else. What
//! comes back later finds its own buffer and nobody who waits: with hedging on, every read of a leg goes into a buffer of
//! its own and is copied on its way up, so that a straggler never writes into memory that the client has back.
//!
//! The late leg is *silent* until it answers anything. Reads that begin meanwhile do not try it first: a frozen leg costs
//! `hedge_after` once and not once for each read.
//!
//! A read that goes block by block after an error is not hedged. Cost: one buffer and one copy for each read, and a timer
//! entry of 24 B until it is due.

use super::op::{Kind, Operation, Part, Parts};
use super::{HEDGE, Mirror, each};
use crate::stall::own_buffer;
use nandu_base::{ByteLen, Cx, Instant, Payload, ReqId, Span};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Reads that may be hedged, by when.
#[derive(Debug, Default)]
pub(super) struct Hedges {
    due: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    armed: Option<Instant>,
}

impl Hedges {
    /// The timer was cancelled.
    pub(super) fn forget(&mut self) {
        self.due.clear();
        self.armed = None;
    }
}

impl Mirror {
    /// Whether late reads are sent to the other leg too.
    #[inline]
    pub(super) fn hedges(&self) -> bool {
        self.policy.hedge > Span::ZERO
    }

    /// Whether reads of a leg have buffers of their own: some may come back when nobody waits for them any more.
    #[inline]
    fn has_stragglers(&self) -> bool {
        self.hedges() || self.roster.expects_late()
    }

    /// The buffer for a read of a leg; the request that gets it is its only holder after [`Mirror::sent_buffer`].
    pub(super) fn read_buffer(&self, to: Payload, len: u64, cx: &mut Cx<'_>) -> Payload {
        match self.has_stragglers() {
            true => own_buffer(to, ByteLen(len), cx.pool),
            false => to,
        }
    }

    pub(super) fn sent_buffer(&self, buffer: Payload, cx: &mut Cx<'_>) {
        if self.has_stragglers() {
            cx.pool.release(buffer);
        }
    }

    /// A read from a buffer of its own is good.
    pub(super) fn take_buffer(&self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        if self.has_stragglers() {
            let op = &self.ops[i as usize];
            let (from, to) = (cx.requests[id].payload, op.payload.slice(ByteLen(op.at - op.start)));
            cx.pool.copy(from, to, ByteLen(op.upto - op.at));
        }
    }

    /// A read was sent to a leg.
    pub(super) fn start_hedge(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if !self.hedges() || op.error.is_some() {
            return;
        }
        self.version += 1;
        self.ops[i as usize].version = self.version;
        self.hedges.due.push(Reverse((cx.now + self.policy.hedge, self.version, i)));
        self.arm_hedge(cx);
    }

    fn arm_hedge(&mut self, cx: &mut Cx<'_>) {
        let Some(&Reverse((due, ..))) = self.hedges.due.peek() else { return };
        if self.hedges.armed.is_none_or(|at| due < at) {
            self.hedges.armed = Some(due);
            cx.wake_at(HEDGE, due);
        }
    }

    /// Some reads are late.
    pub(super) fn hedge_timer(&mut self, cx: &mut Cx<'_>) {
        self.hedges.armed = None;
        while let Some(&Reverse((due, version, i))) = self.hedges.due.peek() {
            if due > cx.now {
                break;
            }
            self.hedges.due.pop();
            let op = &self.ops[i as usize];
            if op.kind == Kind::Read && op.version == version && !op.over && op.error.is_none() {
                self.hedge(i, cx);
            }
        }
        self.arm_hedge(cx);
    }

    fn hedge(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let free = |leg: &usize| !op.parts.is(*leg, Part::Flying) && op.legs >> leg & 1 == 0;
        let (at, upto, version, last) = (op.at, op.upto, op.version, op.upto == op.end);
        let asked = op.parts.all(Part::Flying);
        if usize::from(op.flying) == self.legs.len() {
            return; // all are asked
        }
        let other = (0..self.legs.len()).filter(free).find(|&leg| self.is_current(leg, at, upto));
        each(asked).for_each(|leg| self.legs[leg].silent = true);
        self.count.hedges += 1;
        match other {
            Some(leg) if last => self.read_from(i, leg, cx),
            None if last && self.read_queue(i, cx) => {}
            _ if !self.ops[i as usize].anew && self.is_elsewhere(i) => self.read_anew(i, cx),
            _ => {
                self.count.hedges -= 1;
                self.hedges.due.push(Reverse((cx.now + self.policy.hedge, version, i)));
            }
        }
    }

    /// Whether the first part of the read can be had without the leg that was asked.
    fn is_elsewhere(&self, i: u32) -> bool {
        let upto = self.alike(i);
        let op = &self.ops[i as usize];
        let current = |leg: usize| !op.parts.is(leg, Part::Flying) && self.is_current(leg, op.at, upto);
        (0..self.legs.len()).any(current) || self.lag.iter().any(|lag| lag.holder(op.at, upto).is_some())
    }

    /// The read goes on as another operation; what was asked ends as a straggler of this one.
    pub(super) fn read_anew(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = self.ops[i as usize];
        let anew = self.put(Operation { parts: Parts::NONE, flying: 0, legs: 0, anew: true, ..op });
        let old = &mut self.ops[i as usize];
        (old.over, old.parent) = (true, ReqId::NONE);
        self.locks.hand_over(i, anew);
        if self.serial == Some(i) {
            self.serial = Some(anew);
        }
        self.read_begin(anew, cx);
    }
}
