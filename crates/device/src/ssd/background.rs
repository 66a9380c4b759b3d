//! Collection while the drive is idle.
//!
//! A request sets a timer when none is set. When it fires and no request has come for `idle_after`, each plane with too few
//! free blocks moves one page, or erases a block, if its die has nothing to do; the timer is set for the first die that is
//! free again. So a request that comes waits for one move or one erase of a die at most, and puts the next one off. When no
//! plane has anything to do that is worth it the timer is not set again: an idle drive comes to rest.
//!
//! It comes to rest because every block that is cleared gains pages, and those are used up by the host only. What it does is
//! charged to nobody's request: to [`TenantId::SYSTEM`].
//!
//! The same timer serves tenants that owe units and are idle while others need not be; see `rests`.
//!
//! Cost: one event per move; nothing per request but noting the time.

use super::Ssd;
use nandu_base::{Cx, Instant, ReqId, Span, TenantId, TimerKey};
use nandu_ftl::mapping::Mapping;

/// What a drive knows of its idleness.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    /// Free blocks that each plane should have.
    pub target: u32,
    /// Pages that a block must gain.
    pub least_gain: u32,
    pub after: Span,
    pub key: TimerKey,
    /// When the last request came.
    last: Instant,
    is_set: bool,
    /// Nothing was left to do when the timer fired last, and nothing has come since.
    pub is_at_rest: bool,
}

impl Idle {
    pub fn new(target: u32, least_gain: u32, after: Span, key: TimerKey) -> Idle {
        Idle { target, least_gain, after, key, last: Instant::ZERO, is_set: false, is_at_rest: false }
    }
}

impl<M: Mapping> Ssd<M> {
    /// A request comes.
    pub(super) fn note_request(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let Some(idle) = &mut self.idle else { return };
        idle.last = cx.now;
        self.watch_idleness(cx);
        self.note_tenants(cx.requests[id].offset, cx.requests[id].len, cx.now);
    }

    /// Something happens: the timer is set when it is not.
    pub(super) fn watch_idleness(&mut self, cx: &mut Cx<'_>) {
        let Some(idle) = &mut self.idle else { return };
        idle.is_at_rest = false;
        if !idle.is_set {
            idle.is_set = true;
            cx.wake_at(idle.key, cx.now + idle.after);
        }
    }

    /// The timer has fired.
    pub(super) fn idle_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(idle) = &mut self.idle else { return };
        idle.is_set = false;
        let (key, quiet_at) = (idle.key, idle.last + idle.after);
        let mut next = if cx.now < quiet_at { Some(quiet_at) } else { self.collect_while_idle(cx) };
        // A page that was moved for its trims may have been a tenant's.
        self.note_writers(cx);
        if let Some(at) = self.return_while_idle(cx) {
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        let Some(idle) = &mut self.idle else { return };
        idle.is_at_rest = next.is_none();
        if let Some(at) = next {
            idle.is_set = true;
            cx.wake_at(key, at);
        }
    }

    /// One step in every plane that needs it; returns when the next one may come, if any.
    fn collect_while_idle(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        if self.plan.blocks.is_worn_out() || self.closing {
            return None;
        }
        if let (Some(idle), Some(log)) = (&self.idle, self.plan.map.log_blocks()) {
            return self.merge_while_idle(log.pools(), idle.target, cx);
        }
        let mut next: Option<Instant> = None;
        for plane in 0..self.plan.blocks.planes.len() as u32 {
            if !self.is_worth_clearing(plane) {
                continue;
            }
            let at = self.idle_step(plane, self.plan.payer_of_idle_step(plane), cx);
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }

    /// One step in a plane if its die has nothing to do; returns when the next one may come.
    pub(super) fn idle_step(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> Instant {
        let dies = self.plan.exec.stripes.dies_of(self.plan.blocks.plane_of_pool(plane));
        let free_at = |ssd: &Self| {
            dies.clone().map(|die| ssd.plan.exec.lanes.free_at(die)).fold(Instant::ZERO, Instant::later)
        };
        let waits = self.plan.exec.queue.has_lines()
            && dies.clone().any(|die| self.plan.exec.queue.waiting(die) != (0, 0));
        let is_free = free_at(self) <= cx.now && !waits;
        if is_free {
            self.plan.count.moves_while_idle += 1;
            self.plan.clear_step(plane, cause, cx);
            if self.plan.exec.queue.holds_back() {
                self.serve(cx);
            }
        }
        // What waits for another die keeps this one: look again later.
        let pause = if is_free { Span(1) } else { self.idle_after() };
        free_at(self).later(cx.now + pause)
    }

    /// One step in every pool of a log-block map that has too few log blocks left; returns when the next one may come, if any.
    fn merge_while_idle(&mut self, pools: u32, target: u32, cx: &mut Cx<'_>) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for pool in 0..pools {
            if !self.plan.is_worth_merging(pool, target) {
                continue;
            }
            let log = self.plan.map.log_blocks().expect("only asked of a drive with a log-block map");
            let die = log.plane_of(pool) >> self.plan.host.plane_bits;
            let exec = &self.plan.exec;
            let waits = exec.queue.has_lines() && exec.queue.waiting(die) != (0, 0);
            let mut pause = self.idle_after();
            if exec.lanes.free_at(die) <= cx.now && !waits && !exec.queue.is_changing(pool, cx.now) {
                pause = Span(1);
                if self.plan.merge_step(pool, cx) {
                    self.serve(cx);
                }
            }
            let at = self.plan.exec.lanes.free_at(die).later(cx.now + pause);
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }

    /// How long nothing comes to a drive that is idle.
    pub(super) fn idle_after(&self) -> Span {
        self.idle.as_ref().map_or(Span(1), |idle| idle.after)
    }

    /// Whether the plane has too few free blocks and one to clear that gains enough, or a cache to fold.
    fn is_worth_clearing(&mut self, plane: u32) -> bool {
        let Some(idle) = &self.idle else { return false };
        let (target, least) = (idle.target, idle.least_gain);
        let p = &self.plan.blocks.planes[plane as usize];
        let is_short = p.free < target && (p.clearing || self.plan.choose_victim_that_gains(plane, least));
        is_short || self.plan.is_worth_folding(plane)
    }
}
