//! Flash operations, with the arbiter `queued`: each runs when its die is free and has chosen it.
//!
//! Times come from the lanes, with the choice of the die in place of the order of issue; an operation that runs is fixed.
//! It is charged to the tenant that caused it, its data is fetched or stored, and what waits for it is told its end.
//! When the last operation of a request has its time, the request's end is known ahead, as with `fcfs`.

use super::Ssd;
use super::host::Usage;
use crate::nand::PageTime;
use crate::nand::queued::{Job, NONE, Node, Page, Running};
use nandu_base::{Cx, Instant, Oob, Op, Phase, Program, Span, Step, TimerKey, Window, Work};
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::{BlockId, Ppn};

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// A die was to be woken now.
    pub(super) fn die_is_free(&mut self, die: u32, cx: &mut Cx<'_>) -> Step {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        self.queue.woken(die);
        self.serve(cx);
        Step::Idle
    }

    /// Issues what was made, lets the dies work that can, and gives the answers that have their time.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>) {
        self.queue.commit();
        let mut at = 0;
        while at < self.queue.touched.len() {
            self.serve_die(self.queue.touched[at], cx);
            at += 1;
        }
        self.queue.touched.clear();
        for at in 0..self.queue.done.len() {
            self.answer(self.queue.done[at], cx);
        }
        self.queue.done.clear();
        if self.buffer.is_some() {
            self.arm_buffer(cx);
        }
        if self.closing && self.queue.outstanding() == 0 {
            self.closing = false;
            cx.closed();
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
            self.run(node, cx);
        }
        if let Some(at) = self.queue.arm(die, self.lanes.free_at(die)) {
            cx.wake_at(TimerKey(1 + die), at);
        }
    }

    /// Runs an operation now.
    pub(super) fn run(&mut self, at: u32, cx: &mut Cx<'_>) {
        let node = *self.queue.node(at);
        let work = match node.job {
            Job::Read => Work::Read,
            Job::PreRead | Job::Program => Work::Write,
            Job::Record => Work::Journal,
            _ => Work::Gc,
        };
        self.lanes.work_for(work);
        let gc = self.queue.gc_since_issue(at);
        let mut usage = Usage::default();
        let mut last = PageTime::done(cx.now);
        if node.slc {
            self.lanes.switch_mode();
        }
        if node.job == Job::Erase {
            last = self.run_erase(&node, &mut usage, cx);
        }
        let mut next = node.first_page;
        while next != NONE {
            let page = *self.queue.page(next);
            let time = PageTime { gc, ..self.run_page(&node, &page, &mut usage, cx) };
            if time.end >= last.end {
                last = time;
            }
            next = page.next;
        }
        if node.slc {
            self.lanes.switch_mode();
        }
        if node.job.is_gc() {
            self.note_fold(&node, usage.die);
        }
        if !(self.planted.uncharged_gc && node.job.is_gc()) {
            usage.charge(cx, node.cause, work);
        }
        if self.queue.may_run(node.die, node.job) {
            let array =
                if node.job == Job::Erase { last.start } else { last.bus + self.lanes.timing().transfer };
            let (job, reader) = (node.job, node.cause);
            let running =
                Running { node: at, job, time: last, array_from: array, left: None, suspensions: 0, reader };
            return self.queue.begin(node.die, running);
        }
        self.queue.served(at, &last);
    }

    /// Runs one page of an operation.
    fn run_page(&mut self, node: &Node, page: &Page, usage: &mut Usage, cx: &mut Cx<'_>) -> PageTime {
        let chips = self.stripes.units.chips();
        let (plane, position) = (chips.plane(page.ppn), chips.page(page.ppn));
        let (now, number) = (cx.now, node.number as u32);
        match node.job {
            Job::Read | Job::PreRead | Job::MoveRead => {
                let (time, occupied) = self.lanes.read(plane, now, number, position);
                usage.die += occupied;
                usage.bus += self.lanes.timing().transfer;
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
            Job::CopyBack => {
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
                self.put(page, Window { start: time.start, end: time.end }, cx);
                if let (Job::Record, Some(overlay)) = (node.job, page.overlay) {
                    cx.pool.release(overlay.payload);
                }
                time
            }
        }
    }

    fn run_erase(&mut self, node: &Node, usage: &mut Usage, cx: &mut Cx<'_>) -> PageTime {
        let (start, end) = self.lanes.erase(node.die, cx.now, cx.now);
        usage.die = end.since(start);
        if let Some(medium) = cx.medium.as_deref_mut() {
            let chips = self.stripes.units.chips();
            let first = chips.first_page(BlockId(node.block));
            medium.erase(u64::from(first.0), u64::from(chips.pages), Window { start, end });
        }
        PageTime { start, end, ..PageTime::done(start) }
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
    fn answer(&mut self, at: u32, cx: &mut Cx<'_>) {
        let node = *self.queue.node(at);
        let Node { job, request, issued, ready, slowest, slowest_job, pre_read, block, .. } = node;
        self.queue.answered(at);
        if job == Job::Destaged {
            return self.slot_leaves(block, ready, cx);
        }
        let is_read = cx.requests[request].op == Op::Read;
        let (timing, path) = (self.timing_in(node.slowest_slc), &mut cx.requests[request].path);
        if ready > issued {
            match slowest_job {
                Job::Read if slowest.end == ready => slowest.read_path(issued, timing, path),
                Job::Program if slowest.end == ready => {
                    let mut data_at: Instant = issued;
                    if let Some(read) = pre_read {
                        read.read_path(issued, self.timing_in(node.pre_read_slc), path);
                        data_at = read.end;
                    }
                    slowest.program_path(data_at, timing, path);
                    // It may have been suspended.
                    let alone = slowest.bus + timing.transfer + timing.program;
                    path.add(Phase::Queue, Span(slowest.end.0.saturating_sub(alone.0)));
                }
                // What the write buffer held crosses the link.
                _ if is_read => path.add(Phase::Bus, ready.since(issued)),
                // A record of the trim journal: one program, and the wait before it.
                _ => {
                    let whole = ready.since(issued);
                    let program = Span(self.shortest_program().0.min(whole.0));
                    path.add(Phase::Program, program);
                    path.add(Phase::Queue, whole - program);
                }
            }
        }
        if self.planted.path_without_queue {
            let queue = path.get(Phase::Queue);
            path.add(Phase::Queue, queue);
        }
        cx.finish_at(request, ready);
    }
}
