//! How the cache reaches the device below, and who waits for that.

use super::cache::Run;
use super::{DESTAGE, Fault};
use nandu_base::{
    ByteLen, ByteOffset, Cx, Draft, Effect, ErrorKind, Flags, Op, Payload, ReqId, Span, Step, TenantId,
};

/// Destages that run at once when somebody waits for them.
pub(super) const DESTAGES: u32 = 4;

/// Who waits until everything older than `before` is destaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub before: u64,
    pub waiter: Waiter,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    Flush(ReqId),
    ForceUnit(ReqId),
    Close,
}

/// A change of units `first..end` that is on its way below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub first: u64,
    pub end: u64,
    pub write: u64,
    pub active: bool,
}

impl Fault {
    pub(super) fn wait_for_destage(&mut self, waiter: Waiter, cx: &mut Cx<'_>) -> Step {
        let before = self.next_seq();
        self.barriers.push_back(Barrier { before, waiter });
        self.launch(cx);
        Step::Idle
    }

    /// Notes a change on its way below. The number of its flight is its cookie.
    pub(super) fn take_off(&mut self, first: u64, end: u64, write: u64) -> u64 {
        let flight = Flight { first, end, write, active: true };
        match self.flights.iter().position(|f| !f.active) {
            Some(slot) => {
                self.flights[slot] = flight;
                slot as u64
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u64 - 1
            }
        }
    }

    pub(super) fn land(&mut self, id: ReqId, cx: &Cx<'_>) -> Flight {
        let flight = &mut self.flights[cx.requests[id].cookie as usize];
        flight.active = false;
        *flight
    }

    /// Destages one random row that is older than `before`. False when there is none.
    pub(super) fn destage(&mut self, before: u64, cx: &mut Cx<'_>) -> bool {
        let most = (self.limits.max_io.0 / self.unit).min(256);
        let flights = &self.flights;
        let blocked = |at| flights.iter().any(|f| f.active && (f.first..f.end).contains(&at));
        let Some(run) = self.cache.draw(before, most, blocked, &mut self.rng) else { return false };
        let Run { first, end, write, payload, cause } = run;
        let cookie = self.take_off(first, end, write);
        let draft = Draft {
            op: Op::Write,
            flags: Flags::NONE,
            offset: ByteOffset(first * self.unit),
            len: ByteLen((end - first) * self.unit),
            payload,
            cookie,
        };
        let child = cx.own(cause, draft);
        cx.send(0, child);
        self.destages += 1;
        self.tally.destages += 1;
        true
    }

    /// Destages as much at once as allowed, as far as somebody waits for it.
    pub(super) fn launch(&mut self, cx: &mut Cx<'_>) {
        let before = if self.lost || (!self.held.is_empty() && !self.frozen) {
            u64::MAX
        } else {
            self.barriers.back().map_or(0, |b| b.before)
        };
        while self.destages < DESTAGES && self.destage(before, cx) {}
        self.arm(cx);
    }

    pub(super) fn arm(&mut self, cx: &mut Cx<'_>) {
        if let (Some(cache), false, false) = (&self.config.cache, self.timer_is_set, self.cache.is_empty()) {
            let span = Span(self.rng.between(1, 2 * cache.destage_interval.0));
            cx.wake_at(DESTAGE, cx.now + span);
            self.timer_is_set = true;
        }
    }

    /// Something changed: ends what can end, serves what can be served, and destages what is waited for.
    pub(super) fn progress(&mut self, cx: &mut Cx<'_>) {
        while let Some(&Barrier { before, waiter }) = self.barriers.front() {
            if self.cache.oldest().is_some_and(|oldest| oldest < before) {
                break;
            }
            self.barriers.pop_front();
            self.pass(waiter, cx);
        }
        while let (Some(&id), false) = (self.held.front(), self.frozen) {
            let Some(step) = self.serve(id, cx) else { break };
            self.held.pop_front();
            cx.effects.push(Effect::Step(step));
        }
        if self.lost && self.back_is_due && self.cache.is_empty() && self.destages == 0 {
            self.come_back(cx);
        }
        self.launch(cx);
    }

    /// What `waiter` waited for is destaged: now it must be flushed below.
    pub(super) fn pass(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let flush = Draft {
            op: Op::Flush,
            flags: Flags::NONE,
            offset: ByteOffset::ZERO,
            len: ByteLen::ZERO,
            payload: Payload::NONE,
            cookie: 0,
        };
        match waiter {
            Waiter::Flush(id) | Waiter::ForceUnit(id) if self.broken => {
                cx.requests[id].fail(ErrorKind::WriteFailed);
                cx.finish(id);
            }
            Waiter::Flush(id) => cx.forward(0, id),
            Waiter::ForceUnit(id) => {
                let child = cx.child(id, flush);
                cx.send(0, child);
            }
            Waiter::Close if self.is_gone() => cx.closed(),
            Waiter::Close => {
                let own = cx.own(TenantId::SYSTEM, flush);
                cx.send(0, own);
            }
        }
    }
}
