//! Operations that run and may be suspended, with the die scheduler `out-of-order`; see [`crate::nand::queued`] for the rules.

use super::{Executor, Usage};
use crate::nand::queued::{Job, NEVER, NONE, Node, Running};
use nandu_base::{Cx, Instant, Report, Span, TenantId, TimerKey, Work};
use nandu_ftl::BlockId;

impl Executor {
    /// Goes on with what runs on a die: true when nothing does, so that the next operation may begin.
    pub(super) fn has_come_to_an_end(&mut self, die: u32, cx: &mut Cx<'_>) -> bool {
        let Some(&mut Running { time, left, array_from, .. }) = self.queue.running(die) else { return true };
        let at = match left {
            None if time.end <= cx.now => {
                let running = self.queue.end(die).expect("it was there");
                let is_told = self.planted.suspended_is_told && running.suspensions > 0;
                if !is_told {
                    self.ran(running.node, &running.time);
                }
                return true;
            }
            None if !self.queue.might_pass(die, cx.now) => time.end,
            None if array_from > cx.now => array_from.min(time.end),
            None => self.try_to_suspend(die, cx).unwrap_or(time.end),
            Some(_) if self.lanes.free_at(die) > cx.now => self.lanes.free_at(die),
            Some(left) => match self.queue.next_read(die, cx.now) {
                Some(read) => {
                    self.run(read, cx.now, cx);
                    self.lanes.free_at(die)
                }
                None => self.resume(die, left, cx),
            },
        };
        if let Some(at) = self.queue.arm_while_running(die, cx.now, at) {
            cx.wake_at(TimerKey(1 + die), at);
        }
        false
    }

    /// Lets what runs on a die come to its end now that nothing more passes it.
    pub(super) fn end_what_runs(&mut self, die: u32, cx: &mut Cx<'_>) {
        let Some(&mut Running { left, .. }) = self.queue.running(die) else { return };
        if let Some(left) = left {
            self.resume(die, left, cx);
        }
        let running = self.queue.end(die).expect("it was there");
        let is_told = self.planted.suspended_is_told && running.suspensions > 0;
        if !is_told {
            self.ran(running.node, &running.time);
        }
    }

    /// Suspends what runs on a die if that is worth it and allowed; returns when the die can read.
    fn try_to_suspend(&mut self, die: u32, cx: &mut Cx<'_>) -> Option<Instant> {
        let suspending = *self.queue.suspending()?;
        let ignores_bound = self.planted.suspended_too_often;
        let running = *self.queue.running(die)?;
        let left = running.time.end.since(cx.now);
        let may = running.suspensions < suspending.most(running.job) || ignores_bound;
        if !may || left <= suspending.both() {
            return None;
        }
        let reader = self.queue.read_to_pass(die, cx.now)?;
        let running = self.queue.running(die)?;
        running.left = Some(left);
        running.suspensions += 1;
        running.reader = reader;
        let running = *running;
        match running.job {
            Job::Erase => self.queue.suspensions.erases += 1,
            _ => self.queue.suspensions.programs += 1,
        }
        self.prolong(running.node, NEVER, cx);
        self.lanes.suspend(die, cx.now, suspending.suspend);
        self.charge_suspension(reader, suspending.suspend, cx);
        if self.planted.suspended_is_told && running.suspensions == 1 {
            self.queue.served(running.node, &running.time);
        }
        Some(cx.now + suspending.suspend)
    }

    /// Lets what was suspended go on; returns when it is complete.
    fn resume(&mut self, die: u32, left: Span, cx: &mut Cx<'_>) -> Instant {
        let suspending = *self.queue.suspending().expect("only what may be suspended runs");
        let running = self.queue.running(die).expect("it was suspended");
        let what = if running.job == Job::Erase { "erase" } else { "program" };
        let (node, reader) = (running.node, running.reader);
        let end = self.lanes.resume(what, die, cx.now, suspending.resume, left);
        let running = self.queue.running(die).expect("it was suspended");
        (running.left, running.time.end, running.array_from) = (None, end, cx.now + suspending.resume);
        if !self.planted.suspended_is_told {
            self.prolong(node, end, cx);
        }
        self.charge_suspension(reader, suspending.resume, cx);
        end
    }

    /// The tenant that reads pays for what the suspension takes of the die.
    fn charge_suspension(&self, reader: TenantId, span: Span, cx: &mut Cx<'_>) {
        Usage { die: span, ..Usage::default() }.charge(cx, reader, Work::Read);
    }

    /// The pages of an operation, or the block of an erase, change until `end`.
    fn prolong(&self, node: u32, end: Instant, cx: &mut Cx<'_>) {
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let Node { job, block, first_page, .. } = *self.queue.node(node);
        if job == Job::Erase {
            medium.prolong(u64::from(self.stripes.units.chips().first_page(BlockId(block)).0), end);
        }
        let mut next = first_page;
        while next != NONE {
            let page = self.queue.page(next);
            medium.prolong(u64::from(page.ppn.0), end);
            next = page.next;
        }
    }

    pub fn report_suspensions(&mut self, report: &mut Report) {
        if self.queue.suspending().is_none() {
            return;
        }
        let c = &mut self.queue.suspensions;
        report.put("programs_suspended", c.programs);
        report.put("erases_suspended", c.erases);
        report.put("reads_in_suspensions", c.reads);
        report.restart(c);
    }
}
