//! What the drive does when operations have their times that have waited (see `executor`): pages leave the write buffer, and the drive starts and ends.

use super::Ssd;
use nandu_base::{Cx, Step, TimerKey};
use nandu_ftl::mapping::Mapping;

/// The wake when a start is complete, or an end.
pub(super) const AT_REST: TimerKey = TimerKey(0);

impl<M: Mapping> Ssd<M> {
    /// A die was to be woken now, or whatever waits for its time.
    pub(super) fn die_is_free(&mut self, die: u32, cx: &mut Cx<'_>) -> Step {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        if self.plan.exec.queue.has_lines() {
            self.plan.exec.queue.woken(die);
        } else {
            self.plan.exec.queue.soon_woken();
        }
        self.serve(cx);
        cx.only_step()
    }

    /// Lets everything have its time that can, and gives the answers that have theirs.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>) {
        self.plan.exec.serve(cx);
        if self.buffer.is_some() {
            for at in 0..self.plan.exec.destaged.len() {
                let (slot, end) = self.plan.exec.destaged[at];
                self.slot_leaves(slot, end, cx);
            }
            self.plan.exec.destaged.clear();
            self.arm_buffer(cx);
        }
        if self.closing && self.plan.exec.queue.outstanding() == 0 {
            self.close_when_complete(cx);
        }
    }

    /// The drive ends when what its dies do is complete: a program that is under way is not on the flash yet.
    fn close_when_complete(&mut self, cx: &mut Cx<'_>) {
        let complete = self.plan.exec.lanes.complete_at();
        self.closing = complete > cx.now && !self.ends_early;
        if self.closing {
            cx.wake_at(AT_REST, complete);
        } else {
            cx.closed();
        }
    }

    /// The drive has started, or ends.
    pub(super) fn is_at_rest(&mut self, cx: &mut Cx<'_>) {
        if self.closing {
            self.close_when_complete(cx);
        } else {
            cx.opened(Ok(()));
        }
    }

    /// From here on nothing comes in between, so that everything has its time when it is issued; or that is over. Lines are
    /// served to their ends first.
    pub(super) fn stand_still(&mut self, stands: bool, cx: &mut Cx<'_>) {
        let is_new = stands && !self.plan.exec.queue.is_alone();
        if stands {
            self.plan.exec.lanes.stand_still(true);
        }
        if is_new {
            self.plan.exec.serve_lines_ahead(cx);
            self.plan.exec.queue.set_alone(true);
        }
        if is_new || !stands {
            self.serve(cx);
        }
        if !stands {
            self.plan.exec.queue.set_alone(false);
            self.plan.exec.lanes.stand_still(false);
        }
    }

    /// The drive ends when everything that waits is done.
    pub(super) fn close_when_done(&mut self, cx: &mut Cx<'_>) {
        self.closing = true;
        self.serve(cx);
    }
}
