//! A leader that does not take some writes and may not be left out, for it alone holds other data.
//!
//! What such a leg has failed more than `write_retries` times rests for `bitmap_delay` and is tried again; all else goes on. Meanwhile
//! the leg is *stuck*. The other leg has what it lacks, and gets what it lacks itself: a resync goes around it
//! ([`super::copy`]). As soon as no region is stale any more the next failure has the leader left out, like any leg.
//!
//! Until then nobody waits for it: a flush that covers what the leader lacks fails, again each time, and so does a write that is answered only when
//! both legs have it. What failed so is kept like any acknowledged write, and may be found later.
//!
//! A close goes on with the resync, without a limit of its rate, and ends with the other leg alone.
//!
//! When a pass of the resync gets nowhere, because the leader cannot return what it alone holds, neither leg can do without the other. Then
//! what the leader does not take is lost, and on record ([`super::lost`]).
//!
//! Cost: nothing as long as no leg is stuck; then a look at its queue for each request that comes back.

use super::flush::LATER;
use super::op::{Kind, Part};
use super::{Mirror, Phase, REST};
use nandu_base::{ByteLen, Cx, ErrorKind, IoError, ReqId};

impl Mirror {
    /// A leader that may not be left out has failed something too often.
    pub(super) fn rest(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let pace = &mut self.paces[leg];
        (pace.rests_until, pace.stuck) = (cx.now + self.bitmap_delay, true);
        cx.wake_at(REST, pace.rests_until);
        let writers: Vec<u32> = self.lag[leg].failed(self.write_retries).map(|p| p.writer).collect();
        for i in writers {
            self.settle(i, ReqId::NONE, cx);
        }
    }

    /// What the leg did not take it may have taken since, or it is not wanted any more.
    pub(super) fn look_whether_stuck(&mut self, leg: usize) {
        let pace = &mut self.paces[leg];
        pace.stuck = pace.stuck && self.lag[leg].failed(self.write_retries).next().is_some();
    }

    /// Whether a leg is stuck.
    #[inline]
    pub(super) fn is_stuck(&self) -> bool {
        self.paces.iter().any(|pace| pace.stuck)
    }

    /// Whether a write waits only for a leg that does not take it.
    pub(super) fn waits_in_vain(&self, i: u32) -> bool {
        let op = &self.ops[i as usize];
        let is_failed = |leg: usize| self.lag[leg].failed(self.write_retries).any(|p| p.writer == i);
        let is_last = |leg: usize| {
            op.parts.any(Part::Done) && op.parts.open() == 1 << leg && op.parts.is(leg, Part::Queued)
        };
        (0..self.legs.len()).any(|leg| self.paces[leg].stuck && is_last(leg) && is_failed(leg))
    }

    /// Answers a write with an error that one leg has and the other does not take. Its share stays in the queue of that leg.
    pub(super) fn answer_failed(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        self.explain(i, id, cx);
        let op = &mut self.ops[i as usize];
        debug_assert_eq!(op.kind, Kind::Write);
        let (at, len) = (ByteLen(op.at - op.start), ByteLen(op.upto - op.at));
        (op.acked, op.gated, op.end) = (true, false, op.upto); // the rest of it is not begun
        let parent = std::mem::replace(&mut op.parent, ReqId::NONE);
        if parent != ReqId::NONE {
            cx.requests[parent].error = Some(IoError { kind: ErrorKind::WriteFailed, at, len });
            cx.finish(parent);
        }
        self.locks.leave(i, &mut self.work.granted);
        self.release_serial(i);
    }

    /// Flushes that cover what a leg does not take fail.
    pub(super) fn fail_flushes(&mut self, cx: &mut Cx<'_>) {
        for leg in (0..self.legs.len()).filter(|&leg| self.paces[leg].stuck).collect::<Vec<_>>() {
            let oldest = self.lag[leg].failed(self.write_retries).map(|p| p.oldest).min();
            let Some(oldest) = oldest.filter(|_| self.waits_for_queue(leg)) else { continue };
            let mut waiting = std::mem::take(&mut self.flushes);
            waiting.retain(|w| {
                let fails = w.need[leg] == LATER && oldest <= w.version;
                if fails {
                    cx.requests[w.id].fail(ErrorKind::WriteFailed);
                    cx.finish(w.id);
                }
                !fails
            });
            self.flushes = waiting;
        }
    }

    /// Whether the close waits until the other leg has everything.
    pub(super) fn close_waits(&self) -> bool {
        self.phase == Phase::Closing && self.is_stuck()
    }
}
