//! What the host asks for, with the arbiter `queued`.
//!
//! A request decides at once which pages it takes, what is moved and which block is erased, exactly as with `fcfs`; its
//! flash operations are issued to the queues of their dies (see [`crate::nand::queued`]), and the request ends when the
//! last of them does. Contents follow the operations: a page is fetched when its die senses it and stored when its die
//! programs it, so what waits at a power cut has never happened.

use super::Ssd;
use super::host::Part;
use crate::nand::queued::{Job, NONE, Order, Page};
use nandu_base::{Cx, ErrorKind, Flags, Instant, Op, Overlay, Payload, ReqId, Span, Step, TenantId};
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::trim_journal::TrimJournal;
use nandu_ftl::{Lpn, Ppn};

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// A request came.
    pub(super) fn defer(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (op, cause) = (cx.requests[id].op, cx.requests[id].cause);
        if op == Op::Reset {
            return cx.fail(id, ErrorKind::Unsupported);
        }
        self.serial = self.serial.wrapping_add(1);
        let answer = self.queue.answer(id, cx.now, cause);
        let order = Order { now: cx.now, cause, answer, serial: self.serial };
        match op {
            Op::Read => self.read_later(id, &order, cx),
            Op::Write => self.write_later(id, &order, cx),
            Op::Flush => self.flush_later(&order, cx),
            Op::Trim | Op::WriteZeroes | Op::Reset => self.trim_later(id, &order, cx),
        }
        self.serve(cx);
        Step::Idle
    }

    fn read_later(&mut self, id: ReqId, order: &Order, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        let fetches = !request.payload.is_none();
        let pages = self.host.pages(request.offset, request.len);
        for lpn in pages.first..pages.end {
            match self.map.get(Lpn(lpn)) {
                Some(ppn) => {
                    self.count.host_pages_read += 1;
                    let slc = self.mode_of(ppn, Job::Read);
                    let page = Page { slc, ..Page::read(self.stripes.units.place(ppn), lpn) };
                    self.queue.read(Job::Read, order, page);
                }
                None if fetches => self.fetch(id, &pages, lpn, None, cx),
                None => {}
            }
        }
    }

    fn write_later(&mut self, id: ReqId, order: &Order, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        let payload = request.payload;
        let pages = self.host.pages(request.offset, request.len);
        self.turns.aim(pages.first);
        for lpn in pages.first..pages.end {
            let part = self.host.part(&pages, lpn);
            let data = payload.slice(self.host.before(&pages, lpn));
            self.write_page_later(Lpn(lpn), part, data, order, cx);
        }
    }

    /// Writes one page or part of one, then moves a few pages when the plane runs low.
    pub(super) fn write_page_later(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        order: &Order,
        cx: &mut Cx<'_>,
    ) {
        let ppn = self.next_host_page(lpn, order.cause, cx);
        let before = if part.is_some() { self.map.get(lpn) } else { None };
        let base = before.map(|ppn| self.stripes.units.place(ppn));
        let mut after = NONE;
        if let (Some(before), Some(base), true) = (before, base, self.host.merges) {
            self.count.pages_premerged += 1;
            let page = Page { slc: self.mode_of(before, Job::PreRead), ..Page::read(base, lpn.0) };
            after = self.queue.read(Job::PreRead, &Order { answer: NONE, ..*order }, page);
        }
        let slc = self.mode_of(ppn, Job::Program);
        self.seq += 1;
        self.blocks.programmed(ppn, Content::Data(lpn));
        self.count.host_pages_written += 1;
        let older = self.map.set(lpn, ppn);
        if let Some(older) = older {
            self.supersede(older, Instant::ZERO);
        }
        let Part { first, count } = self.host.sectors(part);
        let overlay = Some(Overlay { first, count, payload: data });
        let units = &self.stripes.units;
        let key = u64::from(lpn.0) | self.mode_mark(ppn);
        let page = Page { key, seq: self.seq, base, overlay, slc, ..Page::read(units.place(ppn), lpn.0) };
        self.queue.program(Job::Program, order, page, after, older.map(|older| units.place(older)));
        self.clear_after_write(self.blocks.pool_of_page(ppn), order.cause, cx);
    }

    fn trim_later(&mut self, id: ReqId, order: &Order, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        let is_durable = request.flags.has(Flags::FUA);
        let pages = self.host.pages(request.offset, request.len);
        for lpn in (pages.first..pages.end).map(Lpn) {
            match self.host.part(&pages, lpn.0) {
                None => self.trim_page(lpn, Instant::ZERO),
                Some(_) if self.map.get(lpn).is_none() => {}
                part => self.write_page_later(lpn, part, Payload::NONE, order, cx),
            }
        }
        if is_durable || self.journal.pending() >= TrimJournal::extents_per_record(1 << self.host.page_bits) {
            self.record_trims(cx, order.cause);
            self.queue.after_records(order.answer);
        }
    }

    fn flush_later(&mut self, order: &Order, cx: &mut Cx<'_>) {
        if !self.planted.trim_not_recorded {
            self.record_trims(cx, order.cause);
            self.queue.after_records(order.answer);
        }
    }

    /// Garbage collection moves a page.
    pub(super) fn move_later(&mut self, from: Ppn, to: Ppn, content: Content, cx: &Cx<'_>) {
        self.seq += 1;
        self.count.pages_moved += 1;
        let slc = self.mode_of(from, Job::MoveRead);
        self.blocks.programmed(to, content);
        self.blocks.invalidate(from, Instant::ZERO);
        let order = Order { now: cx.now, cause: self.queue.gc_cause, answer: NONE, serial: 0 };
        let key = super::recover::key(content);
        let (from, to) = (self.stripes.units.place(from), self.stripes.units.place(to));
        let page = Page { key, seq: self.seq, base: Some(from), ..Page::read(to, 0) };
        if self.lanes.timing().copyback {
            self.queue.copy_back(&order, page, from);
        } else {
            let read = self.queue.read(Job::MoveRead, &order, Page { slc, ..Page::read(from, 0) });
            self.queue.program(Job::MoveProgram, &order, page, read, Some(from));
        }
    }

    /// A record of the trim journal, whose bytes are held until it is programmed.
    pub(super) fn write_record_later(
        &mut self,
        ppn: Ppn,
        content: Content,
        payload: Option<Payload>,
        cause: TenantId,
        now: Instant,
    ) {
        self.seq += 1;
        self.count.journal_pages += 1;
        self.blocks.programmed(ppn, content);
        let order = Order { now, cause, answer: NONE, serial: self.serial };
        let count = self.host.page_sectors;
        let overlay = payload.map(|payload| Overlay { first: 0, count, payload });
        let slc = self.mode_of(ppn, Job::Record);
        let key = super::recover::key(content) | self.mode_mark(ppn);
        let page = Page { key, seq: self.seq, overlay, slc, ..Page::read(self.stripes.units.place(ppn), 0) };
        self.queue.program(Job::Record, &order, page, NONE, None);
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
}
