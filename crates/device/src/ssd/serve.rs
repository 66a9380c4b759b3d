//! Flash operations that wait: each gets its time when nothing stands before it any more.
//!
//! With the die scheduler `fcfs` that is all: it takes its die then, behind what the die has. With `out-of-order` it goes to the line of its die, and
//! has its time when the die is free and has chosen it. An operation that has its time is fixed. It is charged to the tenant that
//! caused it, its data is fetched or stored, and what waits for it is told its end. When the last operation of a request has its
//! time, the request's end is known ahead.

use super::Ssd;
use super::host::Usage;
use crate::nand::PageTime;
use crate::nand::queued::{Job, NONE, Node, Page, Running};
use nandu_base::{Cx, Instant, Oob, Op, Phase, Program, Span, Step, TimerKey, Window};
use nandu_ftl::mapping::{Mapping, Tp};
use nandu_ftl::{BlockId, Ppn};

/// The wake when a start is complete, or an end.
pub(super) const AT_REST: TimerKey = TimerKey(0);
/// Added to the position of a page that waited: it shares no operation with one that did not.
const WAITED: u32 = 1 << 27;

impl<M: Mapping> Ssd<M> {
    /// A die was to be woken now, or whatever waits for its time.
    pub(super) fn die_is_free(&mut self, die: u32, cx: &mut Cx<'_>) -> Step {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        if self.queue.has_lines() {
            self.queue.woken(die);
        } else {
            self.queue.soon_woken();
        }
        self.serve(cx);
        cx.only_step()
    }

    /// Issues what was made, lets everything have its time that can, and gives the answers that have theirs.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>) {
        self.queue.commit();
        if self.queue.has_lines() {
            let mut at = 0;
            while at < self.queue.touched.len() {
                self.serve_die(self.queue.touched[at], cx);
                at += 1;
            }
            self.queue.touched.clear();
        } else {
            while let Some((node, ready)) = self.queue.next_soon(cx.now) {
                self.run(node, ready, cx);
            }
            if let Some(at) = self.queue.arm_soon() {
                cx.wake_at(TimerKey(1), at);
            }
        }
        for at in 0..self.queue.done.len() {
            self.give_answer(self.queue.done[at], cx);
        }
        self.queue.done.clear();
        if self.buffer.is_some() {
            self.arm_buffer(cx);
        }
        if self.closing && self.queue.outstanding() == 0 {
            self.close_when_complete(cx);
        }
    }

    /// The drive ends when what its dies do is complete: a program that is under way is not on the flash yet.
    fn close_when_complete(&mut self, cx: &mut Cx<'_>) {
        let complete = self.lanes.complete_at();
        self.closing = complete > cx.now && !self.planted.ends_early;
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

    /// Whether the drive stands still; then everything that waits has its time now.
    pub(super) fn settle_if_alone(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.queue.is_alone() {
            self.serve(cx);
        }
        self.queue.is_alone()
    }

    /// From here on nothing comes in between, so that everything has its time when it is issued; or that is over. Lines are
    /// served to their ends first.
    pub(super) fn stand_still(&mut self, stands: bool, cx: &mut Cx<'_>) {
        let is_new = stands && !self.queue.is_alone();
        if stands {
            self.lanes.stand_still(true);
        }
        if is_new {
            self.serve_lines_ahead(cx);
            self.queue.set_alone(true);
        }
        if is_new || !stands {
            self.serve(cx);
        }
        if !stands {
            self.queue.set_alone(false);
            self.lanes.stand_still(false);
        }
    }

    /// Serves what waits in lines, now that nothing more comes: each die chooses as it would have.
    fn serve_lines_ahead(&mut self, cx: &mut Cx<'_>) {
        if !self.queue.has_lines() {
            return;
        }
        for die in 0..self.stripes.units.chips().planes >> self.host.plane_bits {
            self.end_what_runs(die, cx);
        }
        loop {
            self.queue.commit();
            let free_at = |die| self.lanes.free_at(die).later(cx.now);
            let Some((at, die)) = self.queue.first_die(free_at) else { break };
            if let Some(node) = self.queue.next(die, at) {
                self.run(node, at, cx);
                self.end_what_runs(die, cx);
            }
        }
    }

    /// The drive ends when everything that waits is done.
    pub(super) fn close_when_done(&mut self, cx: &mut Cx<'_>) {
        self.closing = true;
        self.serve(cx);
    }

    /// About how long the queue of a die keeps an operation that comes now.
    pub(super) fn queued_before(&self, op: Op, die: u32) -> Span {
        let timing = self.lanes.timing();
        let (reads, others) = self.queue.waiting(die);
        let reads = (timing.read + timing.transfer) * reads as u64;
        match op {
            Op::Read => reads,
            _ => reads + (timing.transfer + timing.program) * others as u64,
        }
    }

    fn serve_die(&mut self, die: u32, cx: &mut Cx<'_>) {
        loop {
            if !self.has_come_to_an_end(die, cx) {
                return;
            }
            if self.lanes.free_at(die) > cx.now {
                break;
            }
            let Some(node) = self.queue.next(die, cx.now) else { break };
            let now = cx.now;
            self.run(node, now, cx);
        }
        if let Some(at) = self.queue.arm(die, self.lanes.free_at(die)) {
            cx.wake_at(TimerKey(1 + die), at);
        }
    }

    /// Gives an operation its time: it may begin at `at`.
    pub(super) fn run(&mut self, node_at: u32, at: Instant, cx: &mut Cx<'_>) {
        let node = *self.queue.node(node_at);
        let work = node.work;
        let outer = self.lanes.work_for(work);
        let has_lines = self.queue.has_lines();
        let at = if self.queue.gives_times_ahead() { at } else { at.later(cx.now) };
        if has_lines {
            self.lanes.note_late(node.die, node.ready.later(self.queue.excused(node.die)), at);
        } else {
            self.lanes.note_late(node.die, node.ready, at);
        }
        let mut usage = Usage::default();
        let mut last = PageTime::done(at);
        if node.slc {
            self.lanes.switch_mode();
        }
        if node.job == Job::Erase {
            last = self.run_erase(&node, at, &mut usage, cx);
        } else {
            let mut next = node.first_page;
            while next != NONE {
                let page = *self.queue.page(next);
                let time = self.run_page(&node, &page, at, &mut usage, cx);
                if time.end >= last.end {
                    last = time;
                }
                next = page.next;
            }
        }
        if node.slc {
            self.lanes.switch_mode();
        }
        if has_lines || self.queue.keeps_order() {
            last.gc = self.queue.gc_since_issue(node_at);
        }
        if node.job.is_gc() {
            self.note_fold(&node, usage.die);
        }
        if !(self.planted.uncharged_gc && node.job.is_gc()) {
            usage.charge(cx, node.cause, work);
        }
        self.lanes.work_for(outer);
        if has_lines && self.queue.may_run(node.die, node.job) {
            let array =
                if node.job == Job::Erase { last.start } else { last.bus + self.lanes.timing().transfer };
            let (job, reader) = (node.job, node.cause);
            let running = Running {
                node: node_at,
                job,
                time: last,
                array_from: array,
                left: None,
                suspensions: 0,
                reader,
            };
            return self.queue.begin(node.die, running);
        }
        self.ran(node_at, &last);
    }

    /// The end of an operation is fixed: what the drive keeps of ends, and what waits for it.
    pub(super) fn ran(&mut self, at: u32, last: &PageTime) {
        let (node, end) = (*self.queue.node(at), last.end);
        if node.job.changes_flash() {
            self.last_change = self.last_change.later(end);
        }
        match node.job {
            Job::Record => self.recorded_at = self.recorded_at.later(end),
            Job::MapRead => self.paging.comes(Tp(self.queue.page(node.first_page).key as u32), at, end),
            Job::Anchor => {
                self.paging.keeper.iter_mut().for_each(|keeper| keeper.last_end = keeper.last_end.later(end));
            }
            Job::Erase => {
                self.paging.opened_from = self.paging.opened_from.later(end);
                if self.stripes.is_wide() {
                    let width = self.stripes.units.width();
                    let group = self.stripes.units.chips().plane_of_block(BlockId(node.block)) / width;
                    self.stripes.erased_late(group, end, self.queue.more_erases_wait());
                }
            }
            _ => {}
        }
        self.queue.served(at, last);
    }

    /// Runs one page of an operation.
    fn run_page(
        &mut self,
        node: &Node,
        page: &Page,
        now: Instant,
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> PageTime {
        let chips = self.stripes.units.chips();
        let (plane, position) = (chips.plane(page.ppn), chips.page(page.ppn) + WAITED);
        let number = node.number as u32;
        match node.job {
            Job::Read | Job::PreRead | Job::MoveRead | Job::MapRead => {
                if node.job == Job::MapRead {
                    self.check_map_page_read(Tp(page.key as u32), page.ppn, cx);
                }
                let (time, occupied) = self.lanes.read(plane, now, number, position);
                usage.die += occupied;
                usage.bus += self.lanes.timing().transfer;
                if node.job == Job::MoveRead && !self.queue.has_lines() {
                    self.lanes.was_gc(plane, occupied);
                }
                if node.job == Job::Read && !cx.requests[node.request].payload.is_none() {
                    let request = &cx.requests[node.request];
                    let pages = self.host.pages(request.offset, request.len);
                    self.fetch_unit(node.request, &pages, page.key as u32, Some(u64::from(page.ppn.0)), cx);
                    if let Some(overlay) = page.overlay {
                        self.lay_over(node.request, page.key as u32, &overlay, cx);
                        cx.pool.release(overlay.payload);
                    }
                }
                time
            }
            Job::MoveWithin => {
                let (start, end, occupied, bus) = self.lanes.move_page(plane, now);
                usage.die += occupied;
                usage.bus += bus;
                self.put(page, Window { start, end }, cx);
                PageTime { start: now, end, ..PageTime::done(start) }
            }
            _ => {
                let (time, occupied) = self.lanes.program(plane, now, number, position);
                usage.die += occupied;
                usage.bus += self.lanes.timing().transfer;
                if node.job == Job::MoveProgram && !self.queue.has_lines() {
                    self.lanes.was_gc(plane, occupied);
                }
                self.put(page, Window { start: time.start, end: time.end }, cx);
                let is_own = matches!(node.job, Job::Record | Job::Mark | Job::MapProgram | Job::Anchor);
                if let Some(overlay) = page.overlay.filter(|_| is_own) {
                    cx.pool.release(overlay.payload);
                }
                time
            }
        }
    }

    fn run_erase(&mut self, node: &Node, now: Instant, usage: &mut Usage, cx: &mut Cx<'_>) -> PageTime {
        let (start, end) = self.lanes.erase(node.die, now, now);
        usage.die = end.since(start);
        let window = Window { start, end };
        self.erase_block(BlockId(node.block), window, cx);
        let mut next = node.first_page;
        while next != NONE {
            let page = *self.queue.page(next);
            self.lanes.erase_along();
            self.erase_block(self.stripes.units.chips().block(page.ppn), window, cx);
            next = page.next;
        }
        PageTime { start, end, ..PageTime::done(start) }
    }

    fn erase_block(&self, block: BlockId, window: Window, cx: &mut Cx<'_>) {
        if let Some(medium) = cx.medium.as_deref_mut() {
            let chips = self.stripes.units.chips();
            medium.erase(u64::from(chips.first_page(block).0), u64::from(chips.pages), window);
        }
    }

    /// Stores a page that is programmed.
    fn put(&self, page: &Page, window: Window, cx: &mut Cx<'_>) {
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let unit = |ppn: Ppn| u64::from(ppn.0);
        let oob = Oob { key: page.key, seq: page.seq };
        let program =
            Program { unit: unit(page.ppn), base: page.base.map(unit), overlay: page.overlay, oob, window };
        medium.program(cx.pool, &program);
    }

    /// Gives an answer that has its time, explained by the operation that is complete last.
    fn give_answer(&mut self, at: u32, cx: &mut Cx<'_>) {
        let Node { job, request, ready, block, .. } = *self.queue.node(at);
        if job == Job::Destaged {
            self.queue.answered(at);
            return self.slot_leaves(block, ready, cx);
        }
        self.explain_answer(at, request, cx);
        self.queue.answered(at);
        if self.planted.path_without_queue {
            let path = &mut cx.requests[request].path;
            let queue = path.get(Phase::Queue);
            path.add(Phase::Queue, queue);
        }
        cx.finish_at(request, ready);
    }
}
