//! A follower that may rest: its delay queue is kept and goes in batches.
//!
//! Spec 6.3, K4: the delay queue as a store of energy. Writes of a leg that is *spared* join its delay queue, as those of a leg
//! that is late, and nothing is drained. With `write_batching = "standby"` the follower is spared while it says that it stands still to
//! save power ([`DeviceEvent::Standby`](nandu_base::DeviceEvent)); with `write_batching = "always"` always, so that it has a rest long
//! enough to stop in. What has gathered goes as a whole, with one start of the leg, as soon as
//!
//! - its oldest write, or the bytes that are exposed, have reached half of what may be exposed;
//! - a flush, or a write with FUA, needs the leg (mode `all-legs`), or a write over lost data does;
//! - writes wait for room, or for a place among the active regions;
//! - the mirror is being closed, or the other leg leaves.
//!
//! A batch ends when the leg has everything that was written before it began; what came since waits for the next one. The
//! leader is never spared: reads and marks go there. The other half of the bound is the time that the leg has to start and
//! to catch up: where that is too short the bound is passed, and writes wait for both legs as they always do then.
//!
//! Cost: a few comparisons each time the queues are looked at. RAM: none beside the queue, which holds up to half of
//! `max_exposed_bytes`.

use super::op::Operation;
use super::work::Ready;
use super::{MAX_LEGS, Mirror, Phase, Proc};
use nandu_base::{Cx, Flags, Span};

/// When the delay queue of the follower is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spare {
    /// Never.
    Never,
    /// While it says that it stands still.
    Standing,
    /// Between batches.
    Batches,
}

/// Who stands still, and what is made of it.
#[derive(Debug, Default)]
pub(super) struct Hold {
    stands: [bool; MAX_LEGS],
    /// The newest version in the queue of each leg for which a client waits.
    urgent: [u64; MAX_LEGS],
    /// A batch is under way: the newest version of it.
    batch: Option<u64>,
    /// The queue was kept when it was looked at last.
    is_on: bool,
    /// A queue was kept until the bound was passed.
    was_late: bool,
    /// Batches since the counters were reset.
    pub(super) batches: u64,
}

impl Mirror {
    /// A leg says that it stands still, or runs, or has come back.
    pub(super) fn note_standing(&mut self, leg: usize, stands: bool) {
        self.hold.stands[leg] = stands;
        self.work.add(Ready::Drain);
    }

    /// Whether writes of the leg are for its delay queue, although it is not late.
    #[inline]
    pub(super) fn is_spared(&self, leg: usize) -> bool {
        let may_rest = match self.policy.spare {
            Spare::Never => return false,
            Spare::Standing => self.hold.stands[leg],
            Spare::Batches => true,
        };
        may_rest
            && leg == self.follower()
            && self.phase == Phase::Running
            && self.proc == Proc::None
            && self.is_whole()
    }

    /// A share of this operation joins the queue of the leg: whether its client waits for it.
    pub(super) fn note_queued(&mut self, leg: usize, op: &Operation) {
        let is_needed = op.flags.has(Flags::FUA) && !self.policy.fast_flush;
        if is_needed || self.lost.touches(op.start, op.end) {
            self.hold.urgent[leg] = op.version;
        }
    }

    /// Whether clients wait until the queue of the leg is drained.
    pub(super) fn is_awaited(&self, leg: usize) -> bool {
        self.lag[leg].floor() <= self.hold.urgent[leg]
            || self.has_flush_for(leg)
            || !self.gated.is_empty()
            || !self.slot_wait.is_empty()
    }

    /// How old a write may become in the queue.
    fn oldest(&self) -> Span {
        let most = self.policy.exposed_time;
        if self.planted.holds_too_long { most } else { Span(most.0 / 2) }
    }

    fn is_due(&self, leg: usize, age: Span) -> bool {
        let is_due = age >= self.oldest()
            || self.exposure.bytes >= self.policy.exposed_bytes / 2
            || self.lag[leg].bytes() >= self.policy.exposed_bytes / 2;
        self.is_awaited(leg) || !self.copy_wait.is_empty() || is_due
    }

    /// Whether the queue of the leg, which is not empty, is kept for now.
    pub(super) fn is_kept(&mut self, leg: usize, cx: &mut Cx<'_>) -> bool {
        if !self.is_spared(leg) {
            if leg == self.follower() {
                (self.hold.batch, self.hold.is_on) = (None, false);
            }
            return false;
        }
        if self.hold.batch.is_some_and(|upto| self.lag[leg].floor() > upto) {
            self.hold.batch = None;
        }
        let since = self.lag[leg].since().unwrap_or(cx.now);
        let age = cx.now.since(since);
        if self.hold.batch.is_none() && self.is_due(leg, age) {
            self.hold.batch = Some(self.version);
            self.hold.batches += 1;
            self.hold.was_late |= self.hold.is_on && age >= self.policy.exposed_time;
        }
        self.hold.is_on = self.hold.batch.is_none();
        if self.hold.is_on {
            self.look_again(since + self.oldest(), cx);
        }
        self.hold.is_on
    }

    /// The queue of the leg is empty.
    pub(super) fn end_batch(&mut self, leg: usize) {
        if leg == self.follower() {
            (self.hold.batch, self.hold.is_on) = (None, false);
        }
    }

    /// Whether a queue was kept past the bound on exposure.
    pub(super) fn held_too_long(&self) -> bool {
        self.hold.was_late
    }
}
