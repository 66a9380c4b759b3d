//! Client flushes, and the lazy clearing of D.
//!
//! **Flush.** On each leg that counts, a flush waits until nothing older than itself is in the leg's delay queue, then for
//! the leg flush that covers everything complete by then. It never counts a mixture of blocks here and blocks there. In
//! mode `leader` the follower counts by its map instead: every region in use since before the flush says L there,
//! durably, or is flushed there (`flush_alone_needs_l_or_solo`). While a leg takes Solo nothing is answered
//! (`solo_before_lone_ack`), and nothing before the list of lost data is durable. What covers something that a leader does not take fails
//! ([`super::stuck`]).
//!
//! **Clear (R-CLEAR).** A cycle looks at regions idle for `bitmap_delay`, oldest first: both legs flush until their last
//! writes are covered on both, then D is cleared where nothing has begun meanwhile. When the active regions run out, a
//! cycle begins early and takes every idle region.

use super::region_map::L;
use super::work::Ready;
use super::{CLEAR, MAX_LEGS, Mirror, Phase, at_least};
use nandu_base::{Cx, Instant, ReqId};

/// A client's flush that is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) id: ReqId,
    /// Every write up to this version is covered.
    pub(super) version: u64,
    /// The number that each leg must have flushed; zero when the leg does not count, [`LATER`] as long as its queue holds
    /// older writes.
    pub(super) need: [u64; MAX_LEGS],
}

/// Not known before the delay queue holds nothing older.
pub(super) const LATER: u64 = u64::MAX;

/// The clearing cycle.
#[derive(Debug, Default)]
pub(super) struct Clearing {
    /// A timer is set.
    armed: bool,
    /// A cycle is under way: each leg must have flushed this number, and regions used later are left alone.
    cycle: Option<([u64; MAX_LEGS], Instant)>,
}

impl Mirror {
    /// Whether a flush has to cover the leg.
    fn counts(&self, leg: usize) -> bool {
        self.is_member(leg) || leg == self.leader || self.proc.pair_rule() && self.joining.leg == leg
    }

    /// The flush of this leg that covers everything complete so far.
    fn cover(&self, leg: usize) -> u64 {
        let l = &self.legs[leg];
        if self.planted.flush_joins_running {
            return if l.is_flushing() { l.issued } else { l.dirty };
        }
        l.dirty
    }

    pub(super) fn client_flush(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let mut w = Waiting { id, version: self.version, need: [0; MAX_LEGS] };
        for leg in 0..self.legs.len() {
            let skipped = self.planted.flush_one_leg && leg != self.leader;
            if self.counts(leg) && !skipped {
                w.need[leg] = LATER;
                self.cover_leg(&mut w, leg, cx);
            }
        }
        self.flushes.push_back(w);
        self.work.add(Ready::Drain); // of a queue that was kept
        self.answer_flushes(ReqId::NONE, cx);
    }

    /// Asks for the leg flush, once the leg's queue holds nothing that the flush covers.
    fn cover_leg(&mut self, w: &mut Waiting, leg: usize, cx: &mut Cx<'_>) {
        let by_map = self.policy.fast_flush && leg != self.leader;
        let drained = self.lag[leg].floor() > w.version || self.planted.flush_past_queue;
        if w.need[leg] == LATER && !by_map && drained {
            w.need[leg] = self.cover(leg);
            self.want_flush(leg, w.need[leg], cx);
        }
    }

    /// Whether the follower says L, durably, wherever it may lack what the flush covers.
    fn is_listed(&self, version: u64) -> bool {
        let follower = &self.legs[self.follower()];
        if follower.map.is_settled() || self.planted.flush_without_l {
            return true; // every region in use has its L wanted since its first write
        }
        self.regions.iter().all(|slot| {
            let r = self.regions.get(slot);
            let flushed = r.busy == 0 && follower.flushed(self.regions.need(slot, self.follower()));
            r.entered > version || flushed || follower.map.is_durable(r.region, L)
        })
    }

    fn covers(&self, w: &Waiting, leg: usize) -> bool {
        match self.policy.fast_flush && leg != self.leader {
            true => self.is_listed(w.version),
            false => self.legs[leg].flushed(w.need[leg]),
        }
    }

    /// Whether a flush waits until the leg's queue is drained.
    pub(super) fn has_flush_for(&self, leg: usize) -> bool {
        self.flushes.iter().any(|w| w.need[leg] == LATER) && self.waits_for_queue(leg)
    }

    /// Whether flushes wait for the queue of the leg at all.
    pub(super) fn waits_for_queue(&self, leg: usize) -> bool {
        !(self.policy.fast_flush && leg != self.leader)
    }

    /// From the issue of the Pair superblock on, waiting flushes need the other leg too.
    pub(super) fn flushes_need(&mut self, leg: usize, cx: &mut Cx<'_>) {
        if self.flushes.is_empty() || self.policy.fast_flush {
            return; // or its L, which covers all of D by now
        }
        let n = self.legs[leg].dirty;
        self.flushes.iter_mut().for_each(|w| w.need[leg] = n);
        self.want_flush(leg, n, cx);
    }

    /// Answers flushes whose cover is complete. `id` is the leg flush that is just back, if it is one.
    pub(super) fn answer_flushes(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        if !self.lag.iter().all(|l| l.is_empty()) || self.flushes.iter().any(|w| w.need.contains(&LATER)) {
            for at in 0..self.flushes.len() {
                let mut w = self.flushes[at];
                for leg in 0..self.legs.len() {
                    if self.counts(leg) {
                        self.cover_leg(&mut w, leg, cx);
                    }
                }
                self.flushes[at] = w;
            }
        }
        self.fail_flushes(cx);
        while let Some(&w) = self.flushes.front() {
            let held = self.is_held() && !self.planted.lone_flush_before_solo || !self.lost_is_durable();
            let covered = (0..self.legs.len()).all(|leg| !self.counts(leg) || self.covers(&w, leg));
            if held || !covered {
                return;
            }
            assert!(
                w.need[self.leader] != LATER,
                "flush_covers_leader: the leader lacks what the flush covers"
            );
            self.flushes.pop_front();
            if self.proc.is_any() {
                self.work.add(Ready::Records); // a growth waits for the last one
            }
            if id != ReqId::NONE {
                cx.absorb(w.id, id);
            }
            cx.finish(w.id);
        }
    }

    /// Sets the timer for the next cycle.
    pub(super) fn arm_clear(&mut self, cx: &mut Cx<'_>) {
        if self.clearing.armed || !matches!(self.phase, Phase::Running) {
            return;
        }
        let oldest = self.regions.oldest().map(|slot| self.regions.get(slot).used + self.bitmap_delay);
        if let Some(at) = oldest {
            self.clearing.armed = true;
            cx.wake_at(CLEAR, at_least(Some(at), cx.now));
        }
    }

    pub(super) fn clear_timer(&mut self, cx: &mut Cx<'_>) {
        self.clearing.armed = false;
        let cutoff = Instant(cx.now.0.saturating_sub(self.bitmap_delay.0));
        self.start_clear(cutoff, cx);
        if self.is_whole() && !self.is_clearing() {
            self.arm_clear(cx);
        }
    }

    /// The active regions have run out: every idle one may go.
    pub(super) fn clear_early(&mut self, cx: &mut Cx<'_>) {
        self.start_clear(cx.now, cx);
    }

    pub(super) fn start_clear(&mut self, cutoff: Instant, cx: &mut Cx<'_>) {
        if self.clearing.cycle.is_some() || !self.is_whole() {
            return;
        }
        let mut need = [0; MAX_LEGS];
        let mut at = self.regions.oldest();
        let mut any = false;
        while let Some(slot) = at {
            let region = self.regions.get(slot);
            if region.used > cutoff {
                break;
            }
            any = true;
            for (leg, n) in need.iter_mut().enumerate().take(self.legs.len()) {
                *n = (*n).max(self.regions.need(slot, leg));
            }
            at = self.regions.after(slot);
        }
        if !any {
            return;
        }
        for (leg, &n) in need.iter().enumerate().take(self.legs.len()) {
            if self.must_flush_to_clear(leg) {
                self.want_flush(leg, n, cx);
            }
        }
        self.clearing.cycle = Some((need, cutoff));
        self.work.add(Ready::Clear);
    }

    /// All legs; one of them does not when a fault is planted.
    fn must_flush_to_clear(&self, leg: usize) -> bool {
        !(self.planted.clear_after_leader_flush && leg != self.leader
            || self.planted.clear_after_follower_flush && leg == self.leader)
    }

    /// A leg has left: the cycle is void.
    pub(super) fn stop_clear(&mut self) {
        self.clearing.cycle = None;
    }

    /// The timer was cancelled.
    pub(super) fn disarm_clear(&mut self) {
        self.clearing.armed = false;
    }

    /// The flush that waits longest.
    pub(super) fn take_flush(&mut self) -> Option<ReqId> {
        self.flushes.pop_front().map(|w| w.id)
    }

    /// Whether a cycle is under way.
    pub(super) fn is_clearing(&self) -> bool {
        self.clearing.cycle.is_some()
    }

    /// Ends the cycle when both legs have flushed.
    pub(super) fn pump_clear(&mut self, cx: &mut Cx<'_>) {
        let Some((need, cutoff)) = self.clearing.cycle else { return };
        if (0..self.legs.len()).any(|leg| self.must_flush_to_clear(leg) && !self.legs[leg].flushed(need[leg]))
        {
            return;
        }
        self.clearing.cycle = None;
        let mut at = self.regions.oldest();
        while let Some(slot) = at {
            at = self.regions.after(slot);
            let active = *self.regions.get(slot);
            if active.used > cutoff {
                break;
            }
            let flushed = |leg: usize| {
                !self.must_flush_to_clear(leg) || self.legs[leg].flushed(self.regions.need(slot, leg))
            };
            if (0..self.legs.len()).all(flushed) {
                self.clear_region(active.region);
            }
        }
        self.arm_clear(cx);
        self.work.add_each(&[Ready::Records, Ready::Places, Ready::Copies, Ready::Swap]);
    }

    fn clear_region(&mut self, region: u32) {
        assert!(
            self.is_whole() && !self.is_stale(region),
            "clear_needs_both_flushed: region {region} is not equal on all legs"
        );
        for leg in &mut self.legs {
            leg.map.unset(region);
        }
        self.regions.remove(region);
        self.count.clears += 1;
    }
}
