//! Flash operations that wait: each gets its time when nothing stands before it any more.
//!
//! With the die scheduler `fcfs` that is all: it takes its die then, behind what the die has. With `out-of-order` it goes to the line of its die, and
//! has its time when the die is free and has chosen it. An operation that has its time is fixed. It is charged to the tenant that
//! caused it, its data is fetched or stored, and what waits for it is told its end. When the last operation of a request has its
//! time, the request's end is known ahead.

use super::{Executor, Usage};
use crate::nand::PageTime;
use crate::nand::queued::{Job, NONE, Node, Page, Running};
use nandu_base::{ByteLen, Cx, Instant, Oob, Op, Program, Span, TimerKey, Window};
use nandu_ftl::mapping::Tp;
use nandu_ftl::{BlockId, Ppn};

/// Added to the position of a page that waited: it shares no operation with one that did not.
const WAITED: u32 = 1 << 27;

impl Executor {
    /// Issues what was made, lets everything have its time that can, and gives the answers that have theirs.
    pub fn serve(&mut self, cx: &mut Cx<'_>) {
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
    }

    /// Whether the drive stands still; then everything that waits has its time now.
    pub fn settle(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.queue.is_alone() {
            self.serve(cx);
        }
        self.queue.is_alone()
    }

    /// Serves what waits in lines, now that nothing more comes: each die chooses as it would have.
    pub fn serve_lines_ahead(&mut self, cx: &mut Cx<'_>) {
        if !self.queue.has_lines() {
            return;
        }
        for die in 0..self.stripes.units.chips().planes >> self.stripes.plane_bits {
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

    /// About how long the queue of a die keeps an operation that comes now.
    pub fn queued_before(&self, op: Op, die: u32) -> Span {
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
    pub fn run(&mut self, node_at: u32, at: Instant, cx: &mut Cx<'_>) {
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
                passed: 0,
                reader,
            };
            return self.queue.begin(node.die, running);
        }
        self.ran(node_at, &last);
    }

    /// The end of an operation is fixed: what the drive keeps of ends, and what waits for it.
    pub fn ran(&mut self, at: u32, last: &PageTime) {
        let (node, end) = (*self.queue.node(at), last.end);
        if node.job.changes_flash() {
            self.last_change = self.last_change.later(end);
        }
        match node.job {
            Job::Record => self.recorded_at = self.recorded_at.later(end),
            Job::MapRead => self.fetched.comes(Tp(self.queue.page(node.first_page).key as u32), at, end),
            Job::Anchor => self.anchored_at = self.anchored_at.later(end),
            Job::Erase => {
                self.fetched.opened_from = self.fetched.opened_from.later(end);
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
                if node.job == Job::Read {
                    self.bring(node.request, page.key as u32, Some(u64::from(page.ppn.0)), page.overlay, cx);
                    page.overlay.iter().for_each(|overlay| cx.pool.release(overlay.payload));
                }
                time
            }
            Job::MoveWithin => {
                let (start, end, occupied, bus) = self.lanes.move_page(plane, now);
                usage.die += occupied;
                usage.bus += bus;
                self.put_page(page, Window { start, end }, cx);
                PageTime { start: now, end, ..PageTime::done(start) }
            }
            _ => {
                let (time, occupied) = self.lanes.program(plane, now, number, position);
                usage.die += occupied;
                usage.bus += self.lanes.timing().transfer;
                if node.job == Job::MoveProgram && !self.queue.has_lines() {
                    self.lanes.was_gc(plane, occupied);
                }
                self.put_page(page, Window { start: time.start, end: time.end }, cx);
                self.let_own_go(node.job, page.overlay, cx);
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

    /// A page that waited is programmed.
    fn put_page(&self, page: &Page, window: Window, cx: &mut Cx<'_>) {
        let unit = |ppn: Ppn| u64::from(ppn.0);
        let oob = Oob { key: page.key, seq: page.seq };
        let (unit, base) = (unit(page.ppn), page.base.map(unit));
        self.put(&Program { unit, base, overlay: page.overlay, oob, window }, cx);
    }

    /// Gives an answer that has its time, explained by the operation that is complete last.
    fn give_answer(&mut self, at: u32, cx: &mut Cx<'_>) {
        let Node { job, request, ready, block, .. } = *self.queue.node(at);
        if job == Job::Destaged {
            self.queue.answered(at);
            return self.destaged.push((block, ready));
        }
        self.explain_answer(at, request, cx);
        self.queue.answered(at);
        self.miscount(request, cx);
        cx.finish_at(request, ready);
    }

    /// I-4, where contents are verified: a translation page that is read when it has waited must still be there.
    fn check_map_page_read(&self, tp: Tp, place: Ppn, cx: &mut Cx<'_>) {
        if cx.pool.content() != nandu_base::Content::Stamps || cx.medium.is_none() {
            return;
        }
        let payload = cx.pool.allocate_metadata(ByteLen(1 << self.page.bits));
        let medium = cx.medium.as_deref_mut().expect("just looked");
        let readable = medium.read(cx.pool, u64::from(place.0), 0, self.page.sectors, payload);
        cx.pool.release(payload);
        assert!(readable, "I-4: {tp:?} is not on the flash when the drive reads it");
    }
}
