//! Losses and freezes.

use super::destage::{Barrier, Waiter};
use super::{FREEZE, Fault, LOSS};
use nandu_base::{Cx, DeviceEvent, ErrorKind};

impl Fault {
    pub(super) fn lose(&mut self, cx: &mut Cx<'_>) {
        if !self.is_gone() {
            cx.event(DeviceEvent::Lost);
        }
        self.lost = true;
        self.frozen = false;
        self.back_is_due = false;
        self.tally.losses += 1;
        cx.cancel_wake(FREEZE);
        let gone = |waiter: Barrier| match waiter.waiter {
            Waiter::Flush(id) | Waiter::ForceUnit(id) => Some(id),
            Waiter::Close => None,
        };
        for id in self.held.drain(..).chain(self.barriers.drain(..).filter_map(gone)) {
            cx.requests[id].fail(ErrorKind::Gone);
            cx.finish(id);
        }
        self.cache.lose_half(&mut self.rng, cx.pool);
        if let Some(length) = self.config.loss.as_ref().and_then(|loss| loss.length(&mut self.rng)) {
            cx.wake_at(LOSS, cx.now + length);
        }
        self.launch(cx);
    }

    pub(super) fn come_back(&mut self, cx: &mut Cx<'_>) {
        self.lost = false;
        self.broken = false;
        if !self.is_gone() {
            cx.event(DeviceEvent::Back);
        }
        self.schedule_loss(cx);
        self.schedule_freeze(cx);
    }

    pub(super) fn schedule_loss(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.config.loss.as_ref().and_then(|loss| loss.next(cx.now, &mut self.rng)) {
            cx.wake_at(LOSS, at);
        }
    }

    pub(super) fn schedule_freeze(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.config.freeze.as_ref().and_then(|freeze| freeze.next(cx.now, &mut self.rng)) {
            cx.wake_at(FREEZE, at);
        }
    }

    pub(super) fn freeze_or_thaw(&mut self, cx: &mut Cx<'_>) {
        let Some(freeze) = &self.config.freeze else { return };
        if self.frozen {
            self.frozen = false;
            self.schedule_freeze(cx);
            self.progress(cx);
        } else if !self.lost {
            self.frozen = true;
            self.tally.freezes += 1;
            cx.wake_at(FREEZE, cx.now + freeze.span());
        }
    }
}
