//! How the machine ends and begins again: it fails, waits for its children, starts anew, closes.

use crate::bypass::Marks;
use crate::commit::Commit;
use crate::machine::{Hybrid, IDLE, Phase, REOPEN, whole};
use nandu_base::{Cx, DeviceEvent, ErrorKind, Health, Notice, OpenError, OpenOptions, Payload, Span};

impl Hybrid {
    /// Stops serving: every request of the host fails, what is under way is no longer heard of, dirty DRAM stays. When a
    /// child was lost, the machine starts again as soon as it is back. After a failure of another kind it does not: it
    /// would begin from what is proven, and silently lose what was acknowledged since.
    pub(crate) fn fail(&mut self, kind: ErrorKind, cx: &mut Cx<'_>) {
        if self.phase == Phase::Opening {
            self.open_failed(OpenError::Records(whole(kind)), cx);
            return;
        }
        if !matches!(self.phase, Phase::Running | Phase::Closing) {
            return;
        }
        self.count.failures += 1;
        self.gave_up = kind != ErrorKind::Gone && !self.heard_gone;
        let was_closing = self.phase == Phase::Closing;
        self.phase = if was_closing { Phase::Closing } else { Phase::Failed };
        self.drop_work(kind, cx);
        if was_closing {
            self.opening.close_is_due = true;
            return;
        }
        cx.event(DeviceEvent::Notice(Notice::Health(Health::Failed)));
        cx.event(DeviceEvent::Lost);
    }

    fn arm_reopen(&mut self, cx: &mut Cx<'_>) {
        self.reopen_after = (self.reopen_after * 2).longer(Span::from_ms(10));
        if self.reopen_after > Span::from_secs(1) {
            self.reopen_after = Span::from_secs(1);
        }
        cx.wake_at(REOPEN, cx.now + self.reopen_after);
    }

    /// Forgets what is under way, and answers the host.
    fn drop_work(&mut self, kind: ErrorKind, cx: &mut Cx<'_>) {
        self.begin_epoch();
        for i in 0..self.ops.len() as u32 {
            if self.ops[i as usize].is_alive() {
                self.ops[i as usize].error = Some(kind);
                self.finish_op(i, None, cx);
            }
        }
        self.wait_frames.clear();
        self.wait_bypass.clear();
        self.wait_durable.clear();
        for load in &mut self.loads {
            cx.pool.release(std::mem::replace(&mut load.data, Payload::NONE));
        }
        self.loads.clear();
        self.free_loads.clear();
        for writer in &mut self.writers {
            writer.abandon(cx.pool);
        }
        for collector in &mut self.collectors {
            collector.abandon(cx.pool);
        }
        self.destage.abandon(cx.pool);
        self.opening.abandon(cx.pool);
        if let Some(through) = &mut self.through {
            (through.joins, through.waits_to_join) = (false, false);
        }
        if let Some(regions) = &mut self.regions {
            regions.abandon();
        }
        self.commit = Commit::default();
        self.marks = Marks::default();
        self.dram.keep_dirty();
        self.flushing = false;
    }

    /// Starts again where nothing stands in the way.
    pub(crate) fn try_reopen(&mut self, cx: &mut Cx<'_>) {
        let is_gone = (0u8..).zip(&self.gone).any(|(child, &gone)| gone && !self.is_spare(child));
        let leaves = self.regions.as_ref().is_some_and(|regions| regions.leaves);
        let may_return = (leaves || self.was_lost && !self.gave_up) && !is_gone;
        if self.phase == Phase::Failed && may_return && self.in_flight == 0 {
            self.phase = Phase::Opening;
            self.opening.is_first = false;
            self.start_open(OpenOptions::default(), cx);
        }
    }

    /// The start has failed.
    pub(crate) fn open_failed(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.phase = Phase::Failed;
        self.begin_epoch();
        self.opening.abandon(cx.pool);
        if self.opening.is_first {
            cx.opened(Err(error));
        } else {
            self.arm_reopen(cx);
        }
    }

    /// Everything is read: serves from now on.
    pub(crate) fn opened(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::Running;
        if let Some(regions) = &mut self.regions {
            regions.leaves = false;
        }
        self.dram.open(cx.pool);
        self.count.recoveries += 1;
        self.destage.ceiling = self.map.dirty();
        (self.disk_unflushed, self.demoted_unflushed) = (false, false);
        self.reopen_after = Span::ZERO;
        (self.was_lost, self.heard_gone, self.gave_up) = (false, false, false);
        self.made_progress = true;
        let is_first = std::mem::take(&mut self.opening.is_first);
        if is_first {
            cx.opened(Ok(()));
        }
        let health = if self.has_rings() { Health::Healthy } else { Health::Degraded };
        if !is_first || health != Health::Healthy {
            cx.event(DeviceEvent::Notice(Notice::Health(health)));
        }
        if !is_first {
            cx.event(DeviceEvent::Back);
        }
    }

    /// The end: DRAM is appended and proven, collections have stopped, and the last answers have come.
    pub(crate) fn close_at_last(&mut self, cx: &mut Cx<'_>) {
        let is_over = self.opening.close_is_due || self.is_parked();
        if self.phase != Phase::Closing || self.in_flight > 0 || !is_over {
            return;
        }
        if !self.opening.close_is_due && !self.tell_of_end(cx) {
            return;
        }
        self.drop_work(ErrorKind::Gone, cx);
        self.opening.close_is_due = false;
        self.dram.close(cx.pool);
        cx.cancel_wake(IDLE);
        cx.cancel_wake(REOPEN);
        self.phase = Phase::Closed;
        cx.closed();
    }
}
