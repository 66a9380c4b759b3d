//! What the host asks for: reads, writes, trims and flushes.

use super::Ssd;
use crate::nand::PageTime;
use nandu_base::{
    ByteLen, ByteOffset, Cx, ErrorKind, Flags, Instant, Oob, Overlay, Payload, Phase, Program, ReqId,
    Resource, SECTOR, Span, Step, TenantId, Window, Work,
};
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::trim_journal::Extent;
use nandu_ftl::{Lpn, Ppn};

/// Fixed figures of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// log2 of the page size.
    pub page_bits: u32,
    /// log2 of the planes of a die.
    pub plane_bits: u32,
    /// Sectors of a page.
    pub page_sectors: u32,
    /// Logical pages.
    pub logical: u32,
    /// Blocks of a plane that hold no data of the host's: room to clear blocks, and those of the map.
    pub reserved: u32,
    /// Valid pages that the drive must be able to hold: the host's, and records of trims.
    pub needed: u64,
    /// Free blocks at which pages begin to move after a write.
    pub gc_start: u32,
    /// Whether a page of which a part is written is read first.
    pub merges: bool,
    /// Free blocks at which a write waits for whole blocks to be cleared.
    pub urgent: u32,
    /// Whether moved pages go to blocks of their own.
    pub separate: bool,
    /// Bits that a cell of the chip stores.
    pub bits_per_cell: u32,
}

/// The sectors of one page that a request concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// First sector within the page.
    pub first: u32,
    /// Sectors.
    pub count: u32,
}

/// A request taken apart: perhaps a part of a page, then whole pages, then perhaps a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    /// First page concerned.
    pub first: u32,
    /// One past the last.
    pub end: u32,
    /// Sectors of the first page that come before the request.
    skip: u32,
    /// Sectors of the last page that the request reaches; all of them when it ends on a page boundary.
    reach: u32,
}

impl Host {
    #[inline(always)]
    pub fn pages(&self, offset: ByteOffset, len: ByteLen) -> Pages {
        let mask = (1 << self.page_bits) - 1;
        let last = offset.0 + len.0 - 1;
        Pages {
            first: (offset.0 >> self.page_bits) as u32,
            end: (last >> self.page_bits) as u32 + 1,
            skip: ((offset.0 & mask) / SECTOR) as u32,
            reach: ((last & mask) / SECTOR) as u32 + 1,
        }
    }

    /// The sectors of page `lpn`; `None` for all.
    #[inline(always)]
    pub fn part(&self, pages: &Pages, lpn: u32) -> Option<Part> {
        let first = if lpn == pages.first { pages.skip } else { 0 };
        let end = if lpn + 1 == pages.end { pages.reach } else { self.page_sectors };
        (end - first != self.page_sectors).then_some(Part { first, count: end - first })
    }

    /// The whole of a page, or the part of it.
    #[inline(always)]
    pub fn sectors(&self, part: Option<Part>) -> Part {
        part.unwrap_or(Part { first: 0, count: self.page_sectors })
    }

    /// Whether the request consists of whole pages.
    #[inline(always)]
    pub fn is_whole(&self, pages: &Pages) -> bool {
        pages.skip == 0 && pages.reach == self.page_sectors
    }

    /// Bytes of the request before page `lpn`.
    #[inline(always)]
    pub fn before(&self, pages: &Pages, lpn: u32) -> ByteLen {
        let start = u64::from(lpn - pages.first) << self.page_bits;
        ByteLen(start.saturating_sub(u64::from(pages.skip) * SECTOR))
    }
}

/// A page taken for the host's data.
pub(super) struct Taken {
    pub ppn: Ppn,
    pub plane: u32,
    /// Whether the plane is low on free blocks: some pages are moved after the write.
    pub low: bool,
}

/// The page of a request that is complete last.
#[derive(Clone, Copy)]
struct Slowest {
    time: PageTime,
    /// The read before it, when only part of the page was written.
    premerge: Option<PageTime>,
    /// Whether the page and the one that was read were in blocks in SLC mode: they may have been erased since.
    slc: [bool; 2],
}

impl Slowest {
    fn none(now: Instant) -> Slowest {
        Slowest { time: PageTime::done(now), premerge: None, slc: [false; 2] }
    }
}

/// Time that a request keeps resources occupied.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    pub die: Span,
    pub bus: Span,
}

impl Usage {
    #[inline]
    pub fn charge(self, cx: &mut Cx<'_>, cause: TenantId, work: Work) {
        cx.charges.charge_both(cause, work, (Resource::Die, self.die), (Resource::Channel, self.bus));
    }
}

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// The die of a page.
    #[inline]
    pub(super) fn die_of(&self, ppn: Ppn) -> u32 {
        let units = &self.stripes.units;
        units.chips().plane(units.place(ppn)) >> self.host.plane_bits
    }

    #[inline]
    pub(super) fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if M::PAGED {
            return self.read_paged(id, cx);
        }
        let request = &cx.requests[id];
        let (payload, cause, now) = (request.payload, request.cause, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = PageTime::done(now);
        let mut usage = Usage::default();
        let (mut sensed, fetches) = (0, !payload.is_none());
        if let Some(medium) = cx.medium.as_deref().filter(|_| fetches) {
            let mapped = (pages.first..pages.end).filter_map(|lpn| self.map.get(Lpn(lpn)));
            mapped.for_each(|ppn| medium.prefetch(self.stripes.unit(ppn)));
        }
        let mut lpn = pages.first;
        while lpn < pages.end {
            let at = self.map.get(Lpn(lpn));
            if let Some(ppn) = at {
                let time = self.sense(ppn, now, &mut usage);
                sensed += 1;
                if time.end > slowest.end {
                    slowest = time;
                }
            }
            if fetches {
                self.fetch(id, &pages, lpn, at, cx);
            }
            lpn += 1;
        }
        self.count.host_pages_read += sensed;
        usage.charge(cx, cause, Work::Read);
        if slowest.end > now {
            slowest.read_path(now, self.lanes.timing(), &mut cx.requests[id].path);
        }
        self.finish(id, slowest.end, cx)
    }

    /// Puts the data of one page into a read's payload.
    #[inline]
    pub(super) fn fetch(&self, id: ReqId, pages: &Pages, lpn: u32, at: Option<Ppn>, cx: &mut Cx<'_>) {
        self.fetch_unit(id, pages, lpn, at.map(|ppn| self.stripes.unit(ppn)), cx);
    }

    /// The same from a page of the medium.
    pub(super) fn fetch_unit(&self, id: ReqId, pages: &Pages, lpn: u32, at: Option<u64>, cx: &mut Cx<'_>) {
        let Part { first, count } = self.host.sectors(self.host.part(pages, lpn));
        let before = self.host.before(pages, lpn);
        let data = cx.requests[id].payload.slice(before);
        let len = ByteLen(u64::from(count) * SECTOR);
        match (at, cx.medium.as_deref_mut()) {
            (Some(unit), Some(medium)) => {
                if !medium.read(cx.pool, unit, first, count, data) {
                    cx.requests[id].fail_part(ErrorKind::Unreadable, before, len);
                }
            }
            _ => cx.pool.zero(data, len),
        }
    }

    /// Reads one page on its die.
    #[inline(always)]
    pub(super) fn sense(&mut self, ppn: Ppn, now: Instant, usage: &mut Usage) -> PageTime {
        let (plane, page) = self.stripes.plane_and_page(ppn);
        let (time, occupied) = self.lanes.read(plane, now, self.serial, page);
        usage.die += occupied;
        usage.bus += self.lanes.timing().transfer;
        time
    }

    #[inline]
    pub(super) fn write(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if M::PAGED {
            return self.write_paged(id, cx);
        }
        let request = &cx.requests[id];
        let cause = request.cause;
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        self.turns.aim(pages.first);
        if self.is_plain && self.host.is_whole(&pages) {
            let slowest = match cx.medium {
                None => self.write_whole::<false>(id, &pages, cause, cx),
                Some(_) => self.write_whole::<true>(id, &pages, cause, cx),
            };
            slowest.program_path(cx.now, self.lanes.timing(), &mut cx.requests[id].path);
            return self.finish(id, slowest.end, cx);
        }
        let payload = request.payload;
        if !self.is_somebodys(pages.first, pages.end) {
            // Nobody has these pages.
            return cx.fail(id, ErrorKind::NoSpace);
        }
        let mut slowest = Slowest::none(cx.now);
        let mut usage = Usage::default();
        for lpn in pages.first..pages.end {
            let part = self.host.part(&pages, lpn);
            let data = payload.slice(self.host.before(&pages, lpn));
            self.write_page(Lpn(lpn), part, data, cause, &mut usage, &mut slowest, cx);
        }
        usage.charge(cx, cause, Work::Write);
        self.explain_write(id, &slowest, cx);
        self.finish(id, slowest.time.end, cx)
    }

    /// Writes whole pages; returns the one that is complete last. The same as [`write_page`](Ssd::write_page) for each of
    /// them, with nothing per page that can be done once: most requests of most workloads come this way.
    #[inline(always)]
    fn write_whole<const STORES: bool>(
        &mut self,
        id: ReqId,
        pages: &Pages,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> PageTime {
        let at = (cx.now, self.serial);
        let mut slowest = PageTime::done(cx.now);
        let mut usage = Usage::default();
        let mut lpn = pages.first;
        while lpn < pages.end {
            let data = match STORES {
                true => cx.requests[id].payload.slice(self.host.before(pages, lpn)),
                false => Payload::NONE,
            };
            let time = self.write_whole_page::<STORES>(Lpn(lpn), data, at, cause, &mut usage, cx);
            if time.end > slowest.end {
                slowest = time;
            }
            lpn += 1;
        }
        self.wrote_whole(pages.end - pages.first, usage, cause, cx);
        self.last_change = self.last_change.later(slowest.end);
        slowest
    }

    /// Writes one of them, for the request of this number at this time.
    #[inline(always)]
    fn write_whole_page<const STORES: bool>(
        &mut self,
        lpn: Lpn,
        data: Payload,
        (now, serial): (Instant, u32),
        cause: TenantId,
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> PageTime {
        let Taken { ppn, plane, low } = self.take_host_page(cause, cx);
        let page = self.blocks.layout().page(ppn);
        let (time, occupied) = self.lanes.program(plane, now, serial, page);
        usage.die += occupied;
        self.seq += 1;
        self.blocks.programmed(ppn, Content::Data(lpn));
        if let Some(old) = self.map.set(lpn, ppn) {
            self.blocks.invalidate(old, time.end);
        }
        if STORES {
            self.store(lpn, ppn, None, self.host.sectors(None), data, &time, cx);
        }
        if low {
            self.clear_some(plane, cause, cx);
        }
        time
    }

    /// Counts and charges whole pages that the host wrote.
    #[inline(always)]
    pub(super) fn wrote_whole(&mut self, count: u32, usage: Usage, cause: TenantId, cx: &mut Cx<'_>) {
        let bus = self.lanes.timing().transfer * u64::from(count);
        Usage { bus, ..usage }.charge(cx, cause, Work::Write);
        self.count.host_pages_written += u64::from(count);
    }

    /// Explains a write by its slowest page.
    #[inline]
    fn explain_write(&self, id: ReqId, slowest: &Slowest, cx: &mut Cx<'_>) {
        if slowest.time.end == cx.now {
            return;
        }
        let path = &mut cx.requests[id].path;
        let ready = match &slowest.premerge {
            Some(read) => {
                read.read_path(cx.now, self.timing_in(slowest.slc[1]), path);
                read.end
            }
            None => cx.now,
        };
        slowest.time.program_path(ready, self.timing_in(slowest.slc[0]), path);
    }

    /// Writes one page or part of one, then moves a few pages when the plane runs low.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)] // one page of a request, with what the request adds up
    fn write_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        cause: TenantId,
        usage: &mut Usage,
        slowest: &mut Slowest,
        cx: &mut Cx<'_>,
    ) {
        let ppn = self.next_host_page(lpn, cause, cx);
        let before = if part.is_some() { self.map.get(lpn) } else { None };
        let read = before.filter(|_| self.host.merges);
        let premerge = read.map(|old| self.premerge(old, cx.now, usage));
        let ready = premerge.map_or(cx.now, |read| read.end);
        let slc = [self.is_slc(ppn), read.is_some_and(|old| self.is_slc(old))];
        let time = self.program(ppn, ready, Content::Data(lpn), usage);
        self.count.host_pages_written += 1;
        if let Some(old) = self.map.set(lpn, ppn) {
            self.supersede(old, time.end);
        }
        if cx.medium.is_some() {
            self.store(lpn, ppn, before, self.host.sectors(part), data, &time, cx);
        }
        if time.end > slowest.time.end {
            *slowest = Slowest { time, premerge, slc };
        }
        self.clear_after_write(self.blocks.pool_of_page(ppn), cause, cx);
    }

    /// Writes one page or part of one from the write buffer; returns when it is complete.
    pub(super) fn write_out_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let mut usage = Usage::default();
        if !M::PAGED && self.is_plain && part.is_none() {
            let at = (cx.now, self.serial);
            let time = match cx.medium {
                None => self.write_whole_page::<false>(lpn, data, at, cause, &mut usage, cx),
                Some(_) => self.write_whole_page::<true>(lpn, data, at, cause, &mut usage, cx),
            };
            self.wrote_whole(1, usage, cause, cx);
            self.last_change = self.last_change.later(time.end);
            return time.end;
        }
        let end = if M::PAGED {
            self.write_out_page_paged(lpn, part, data, &mut usage, (cause, cx))
        } else {
            let mut slowest = Slowest::none(cx.now);
            self.write_page(lpn, part, data, cause, &mut usage, &mut slowest, cx);
            slowest.time.end
        };
        usage.charge(cx, cause, Work::Write);
        end
    }

    #[allow(clippy::too_many_arguments)] // one program of the medium
    pub(super) fn store(
        &self,
        lpn: Lpn,
        ppn: Ppn,
        before: Option<Ppn>,
        part: Part,
        data: Payload,
        time: &PageTime,
        cx: &mut Cx<'_>,
    ) {
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let overlay = Some(Overlay { first: part.first, count: part.count, payload: data });
        let base = before.map(|old| self.stripes.unit(old));
        let mut oob = Oob { key: u64::from(lpn.0), seq: self.seq };
        if self.marks_records {
            oob = self.marked(oob, ppn);
        }
        let window = Window { start: time.start, end: time.end };
        medium.program(cx.pool, &Program { unit: self.stripes.unit(ppn), base, overlay, oob, window });
    }

    /// The record of a page where it is not the plain one.
    #[cold]
    fn marked(&self, oob: Oob, ppn: Ppn) -> Oob {
        if self.planted.oob_dropped && self.seq.is_multiple_of(64) {
            return Oob { key: 0, seq: 0 };
        }
        Oob { key: oob.key | self.mode_mark(ppn), ..oob }
    }

    /// Reads a page of which a part will be replaced.
    #[cold]
    pub(super) fn premerge(&mut self, old: Ppn, now: Instant, usage: &mut Usage) -> PageTime {
        self.count.pages_premerged += 1;
        self.sense_in_mode(old, now, usage)
    }

    /// Programs a page whose data is ready at `ready`, and notes what it holds.
    #[inline(always)]
    pub(super) fn program(
        &mut self,
        ppn: Ppn,
        ready: Instant,
        content: Content,
        usage: &mut Usage,
    ) -> PageTime {
        let ready = self.stripes.may_begin(ppn, content, ready);
        let (time, occupied) = if self.is_slc(ppn) {
            self.program_in_slc(ppn, ready)
        } else {
            let (plane, page) = self.stripes.plane_and_page(ppn);
            self.lanes.program(plane, ready, self.serial, page)
        };
        usage.die += occupied;
        usage.bus += self.lanes.timing().transfer;
        self.seq += 1;
        self.last_change = self.last_change.later(time.end);
        self.blocks.programmed(ppn, content);
        time
    }

    /// Writes a page that lies at `from` once more, where the turn of its tenant is.
    pub(super) fn write_again(&mut self, lpn: Lpn, from: Ppn, cx: &mut Cx<'_>) {
        let cause = TenantId::SYSTEM;
        let to = self.take_tenant_page(lpn, cause, cx);
        // Getting a page may have moved it.
        let from = self.map.get(lpn).unwrap_or(from);
        self.serial = self.serial.wrapping_add(1);
        let mut usage = Usage::default();
        let outer = self.lanes.work_for(Work::Gc);
        let ready = self.sense(from, cx.now, &mut usage).end;
        let time = self.program(to, ready, Content::Data(lpn), &mut usage);
        self.lanes.work_for(outer);
        usage.charge(cx, cause, Work::Gc);
        self.count.pages_moved += 1;
        self.map.set(lpn, to);
        self.blocks.invalidate(from, time.end);
        if let Some(medium) = cx.medium.as_deref_mut() {
            let (unit, base) = (self.stripes.unit(to), Some(self.stripes.unit(from)));
            let oob = Oob { key: u64::from(lpn.0), seq: self.seq };
            let window = Window { start: time.start, end: time.end };
            medium.program(cx.pool, &Program { unit, base, overlay: None, oob, window });
        }
    }

    /// The page at `old` has a newer version, complete at `when`.
    #[inline]
    pub(super) fn supersede(&mut self, old: Ppn, when: Instant) {
        if self.planted.lost_invalidation && self.seq.is_multiple_of(64) {
            return;
        }
        self.blocks.invalidate(old, when);
    }

    /// The next page for the host's data of `lpn`.
    pub(super) fn next_host_page(&mut self, lpn: Lpn, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        if self.tenants.is_some() {
            self.count_written(lpn);
            return self.take_tenant_page(lpn, cause, cx);
        }
        let page = match self.streams {
            Some(_) => self.take_stream_page(lpn, cause, cx),
            None => self.take_host_page(cause, cx).ppn,
        };
        if self.planted.program_twice && self.seq % 512 == 511 {
            return Ppn(page.0 ^ 1);
        }
        page
    }

    /// Takes the next page for the host's data on the plane whose turn it is; it counts as valid from here on.
    #[inline(always)]
    pub(super) fn take_host_page(&mut self, cause: TenantId, cx: &mut Cx<'_>) -> Taken {
        let plane = self.turns.take();
        let p = &mut self.blocks.planes[plane as usize];
        if p.valid >= p.valid_max || p.host.is_full() {
            return self.take_host_page_of_new_block(plane, cause, cx);
        }
        p.valid += 1;
        Taken { ppn: p.host.take(), plane, low: p.free <= self.host.gc_start || p.clearing }
    }

    /// The same when `plane` holds as much as it may, or has no block open.
    #[inline(never)]
    fn take_host_page_of_new_block(&mut self, mut plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> Taken {
        if !self.blocks.planes[plane as usize].has_room() {
            plane = self.next_plane_with_room();
        }
        if self.blocks.planes[plane as usize].host.is_full() {
            self.open_host_block(plane, cause, cx);
        }
        let p = &mut self.blocks.planes[plane as usize];
        p.valid += 1;
        Taken { ppn: p.host.take(), plane, low: p.free <= self.host.gc_start || p.clearing }
    }

    #[cold]
    pub(super) fn next_plane_with_room(&mut self) -> u32 {
        for _ in 0..self.blocks.planes.len() {
            let plane = self.turns.take();
            if self.blocks.planes[plane as usize].has_room() {
                return plane;
            }
        }
        panic!("I-5: no plane of a drive whose geometry was checked has room for another valid page");
    }

    #[cold]
    fn open_host_block(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        self.make_slc_room(plane, cause, cx);
        // At least the last free block is for moved pages. They may have left room in the block that they opened.
        loop {
            let p = &self.blocks.planes[plane as usize];
            if !p.host.is_full() {
                return;
            }
            if p.free > self.host.urgent {
                break;
            }
            self.count.clears_forced += 1;
            self.clear_whole_block(plane, cause, cx);
        }
        let cursor = self.open_for_host(plane).expect("clearing has freed a block");
        self.note_opened(cursor);
        self.blocks.planes[plane as usize].host = cursor;
    }

    pub(super) fn trim(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if M::PAGED {
            return self.trim_paged(id, cx);
        }
        let request = &cx.requests[id];
        let (cause, flags) = (request.cause, request.flags);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = Slowest::none(cx.now);
        let mut usage = Usage::default();
        for lpn in (pages.first..pages.end).map(Lpn) {
            match self.host.part(&pages, lpn.0) {
                None => self.trim_page(lpn, cx.now),
                Some(_) if self.map.get(lpn).is_none() => {}
                part => self.write_page(lpn, part, Payload::NONE, cause, &mut usage, &mut slowest, cx),
            }
        }
        usage.charge(cx, cause, Work::Write);
        let extents = nandu_ftl::trim_journal::TrimJournal::extents_per_record(1 << self.host.page_bits);
        if flags.has(Flags::FUA) || self.journal.pending() >= extents {
            let recorded = self.record_trims(cx, cause);
            if recorded >= slowest.time.end {
                self.explain_record(id, recorded, cx);
                return Step::FinishAt(id, recorded);
            }
        }
        self.explain_write(id, &slowest, cx);
        self.finish(id, slowest.time.end, cx)
    }

    /// Explains the wait for a record of the trim journal: one program, and the wait before it.
    pub(super) fn explain_record(&self, id: ReqId, recorded: Instant, cx: &mut Cx<'_>) {
        let whole = recorded.since(cx.now);
        let program = Span(self.shortest_program().0.min(whole.0));
        let path = &mut cx.requests[id].path;
        path.add(Phase::Program, program);
        path.add(Phase::Queue, whole - program);
    }

    pub(super) fn trim_page(&mut self, lpn: Lpn, now: Instant) {
        let old = self.map.clear(lpn);
        self.trimmed(lpn, old, now);
    }

    /// Notes that a page was unmapped which lay at `old`, if it was mapped.
    pub(super) fn trimmed(&mut self, lpn: Lpn, old: Option<Ppn>, now: Instant) {
        if let Some(old) = old {
            self.supersede(old, now);
            self.journal.trimmed(Extent { first: lpn, count: 1, as_of: self.seq });
            self.count.pages_trimmed += 1;
        }
    }

    pub(super) fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let cause = cx.requests[id].cause;
        let end = if self.planted.trim_not_recorded { cx.now } else { self.record_trims(cx, cause) };
        self.explain_record(id, end, cx);
        Step::FinishAt(id, end)
    }

    #[inline(always)]
    pub(super) fn finish(&self, id: ReqId, end: Instant, cx: &mut Cx<'_>) -> Step {
        if self.planted.path_without_queue {
            let queue = cx.requests[id].path.get(Phase::Queue);
            cx.requests[id].path.add(Phase::Queue, queue);
        }
        Step::FinishAt(id, end)
    }
}
