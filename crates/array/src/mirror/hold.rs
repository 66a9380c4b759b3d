//! A follower that stands still: its delay queue is kept until it runs, or must.
//!
//! Spec 6.3, K4: the delay queue as a store of energy. With `hold_standing` a leg that says that it stands still to save power
//! ([`DeviceEvent::Standby`](nandu_base::DeviceEvent)) is not woken by writes. They join its delay queue, as those of a leg
//! that is late, and nothing is drained. The queue goes as a whole, with one start of the leg, as soon as
//!
//! - its oldest write, or the bytes that are exposed, have reached half of what may be exposed;
//! - a flush, or a write with FUA, needs the leg (mode `strict`), or a write over lost data does;
//! - writes wait for room, or for a place among the active regions;
//! - the leg runs again, for whatever reason; the mirror is being closed; or the other leg leaves.
//!
//! The leader is never spared: reads and marks go there. The other half of the bound is the time that the leg has to start
//! and to catch up, so a bound below twice its start is passed, and writes then wait for both legs as they always do.
//!
//! Cost: a few comparisons each time the queues are looked at. RAM: none.

use super::write::Operation;
use super::{Mirror, Phase, Proc};
use nandu_base::{Flags, Instant};

/// Who stands still, and what is made of it.
#[derive(Debug, Default)]
pub(super) struct Hold {
    stands: [bool; 2],
    /// Somebody waits for what is in the queue.
    urgent: bool,
    /// The queue was kept when it was looked at last.
    is_on: bool,
    /// It was kept past the bound.
    was_late: bool,
    /// Times that a queue which was kept had to go.
    pub(super) releases: u64,
}

impl Mirror {
    /// A leg says that it stands still, or runs, or has come back.
    pub(super) fn note_standing(&mut self, leg: usize, stands: bool) {
        self.hold.stands[leg] = stands;
        self.stir = true;
    }

    /// Whether writes of the leg are for its delay queue because it stands still.
    #[inline]
    pub(super) fn is_spared(&self, leg: usize) -> bool {
        self.policy.hold
            && self.hold.stands[leg]
            && leg == self.follower()
            && self.phase == Phase::Running
            && self.proc == Proc::None
            && self.is_pair()
    }

    /// A share of this operation joins the queue of the leg: whether somebody waits for it.
    pub(super) fn note_queued(&mut self, op: &Operation, leg: usize) {
        if self.lag[leg].is_empty() {
            (self.hold.is_on, self.hold.urgent) = (false, false);
        }
        let is_needed = op.flags.has(Flags::FUA) && !self.policy.fast_flush;
        self.hold.urgent |= is_needed || self.lost.touches(op.start, op.end);
    }

    fn is_needed(&self, leg: usize, now: Instant) -> bool {
        let age = self.lag[leg].since().map_or(0, |since| now.since(since).0);
        let is_due = age >= self.policy.exposed_time.0 / 2
            || self.exposure.bytes >= self.policy.exposed_bytes / 2
            || self.lag[leg].bytes() >= self.policy.exposed_bytes / 2;
        let is_awaited = self.hold.urgent
            || self.has_flush_for(leg)
            || !self.gated.is_empty()
            || !self.slot_wait.is_empty()
            || !self.copy_wait.is_empty();
        is_awaited || is_due && !self.planted.holds_too_long
    }

    /// Whether the queue of the leg is kept for now.
    pub(super) fn is_kept(&mut self, leg: usize, now: Instant) -> bool {
        if !self.is_spared(leg) {
            if leg == self.follower() {
                (self.hold.is_on, self.hold.urgent) = (false, false);
            }
            return false;
        }
        let is_kept = !self.is_needed(leg, now);
        self.hold.releases += u64::from(self.hold.is_on && !is_kept);
        self.hold.is_on = is_kept;
        self.hold.was_late |= is_kept && self.exposure.is_late;
        is_kept
    }

    /// Whether a queue was kept past the bound on exposure.
    pub(super) fn held_too_long(&self) -> bool {
        self.hold.was_late
    }
}
