//! What the host asks for: reads, writes, trims and flushes.

use super::Ssd;
use super::pieces::{Pieces, Slowest, Whose};
use super::stripes::Carried;
use crate::nand::PageTime;
use crate::nand::queued::{After, Job, NONE, Order, Page};
use nandu_base::{
    ByteLen, ByteOffset, Cx, ErrorKind, Flags, Instant, Oob, Overlay, Payload, Phase, Program, ReqId,
    Resource, SECTOR, Span, Step, TenantId, Window, Work,
};
use nandu_ftl::blocks::Content;
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
    /// Records of trims when what is still trimmed is written anew.
    pub trim_records: u32,
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

/// A page to read for a request.
pub(super) struct Reading {
    pub id: ReqId,
    pub lpn: u32,
    pub ppn: Ppn,
    /// What the write buffer has over it.
    pub overlay: Option<Overlay>,
}

/// A page of which a part is replaced, as it was read.
#[derive(Clone, Copy)]
struct Premerge {
    time: PageTime,
    slc: bool,
}

/// A page of the host's to program.
struct Programming {
    lpn: Lpn,
    ppn: Ppn,
    /// The part that is written; `None` for all.
    part: Option<Part>,
    data: Payload,
    /// Where the rest of it lies.
    base: Option<Ppn>,
    premerge: Option<Premerge>,
    /// Where the page lay.
    older: Option<Ppn>,
}

/// A page taken for the host's data.
pub(super) struct Taken {
    pub ppn: Ppn,
    pub plane: u32,
    /// Whether the plane is low on free blocks: some pages are moved after the write.
    pub low: bool,
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

impl<M: Mapping> Ssd<M> {
    /// The die of a page.
    #[inline]
    pub(super) fn die_of(&self, ppn: Ppn) -> u32 {
        let units = &self.stripes.units;
        units.chips().plane(units.place(ppn)) >> self.host.plane_bits
    }

    #[inline]
    pub(super) fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause, now) = (request.payload, request.cause, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut pieces = M::PAGED.then(|| Pieces::of_request(id, now, cause, Work::Read));
        let (mut slowest, mut usage) = (PageTime::done(now), Usage::default());
        let (mut sensed, fetches) = (0, !payload.is_none());
        if M::PAGED {
            self.map.begin(Lpn(pages.end));
        } else if let Some(medium) = cx.medium.as_deref().filter(|_| fetches) {
            let mapped = (pages.first..pages.end).filter_map(|lpn| self.map.get(Lpn(lpn)));
            mapped.for_each(|ppn| medium.prefetch(self.stripes.unit(ppn)));
        }
        let mut lpn = pages.first;
        while lpn < pages.end {
            let at = match &mut pieces {
                Some(pieces) if M::PAGED => self.translate(Lpn(lpn), pieces, cx),
                _ => self.map.get(Lpn(lpn)),
            };
            let is_held = || M::PAGED && pieces.as_ref().is_some_and(Pieces::is_held);
            match at {
                Some(ppn) if self.queue.holds_back() || is_held() => {
                    let pieces = pieces.get_or_insert_with(|| Pieces::of_request(id, now, cause, Work::Read));
                    self.read_or_wait(Reading { id, lpn, ppn, overlay: None }, &pages, pieces, cx);
                    sensed += 1;
                }
                Some(ppn) => {
                    let time = self.sense(ppn, now, &mut usage);
                    if time.end > slowest.end {
                        slowest = time;
                    }
                    sensed += 1;
                    if fetches {
                        self.fetch(id, &pages, lpn, at, cx);
                    }
                }
                None if fetches => self.fetch(id, &pages, lpn, None, cx),
                None => {}
            }
            lpn += 1;
        }
        self.count.host_pages_read += sensed;
        self.gather_some(Lpn(pages.first), cause, cx);
        match pieces.filter(|pieces| !M::PAGED || pieces.is_opened()) {
            Some(pieces) => self.finish_all(id, pieces, slowest, usage, cx),
            None => {
                usage.charge(cx, cause, Work::Read);
                if slowest.end > now {
                    slowest.read_path(now, self.lanes.timing(), &mut cx.requests[id].path);
                }
                self.finish(id, slowest.end, cx)
            }
        }
    }

    /// Reads a page of a request when nothing stands before it, or lets it wait.
    #[inline(never)]
    pub(super) fn read_or_wait(
        &mut self,
        reading: Reading,
        pages: &Pages,
        pieces: &mut Pieces,
        cx: &mut Cx<'_>,
    ) {
        let Reading { id, lpn, mut ppn, overlay } = reading;
        let mut waits = self.queue.read_waits(self.stripes.units.place(ppn));
        if waits && self.map.log_blocks().is_some() {
            let source = self.queue.source_of(ppn);
            waits = self.queue.has_lines() || source.after != NONE;
            ppn = if waits { ppn } else { source.ppn };
        }
        let fetches = !cx.requests[id].payload.is_none();
        let (place, after) = (self.stripes.units.place(ppn), pieces.after);
        if !waits && self.comes_in_time(after, ppn, pieces.now) {
            let slc = [self.is_slc(ppn), false];
            let time = self.sense_in_mode(ppn, after.at, &mut pieces.usage);
            pieces.note_as(Slowest { map_at: after.at, premerge: None, time, slc });
            if fetches {
                self.fetch(id, pages, lpn, Some(ppn), cx);
                overlay.iter().for_each(|overlay| self.lay_over(id, lpn, overlay, cx));
            }
            return;
        }
        let overlay = overlay.filter(|_| fetches);
        overlay.iter().for_each(|overlay| cx.pool.keep(overlay.payload));
        let answer = self.answer_of(pieces);
        let slc = self.mode_of(ppn, Job::Read);
        let order = pieces.order(after, answer, self.serial);
        self.queue.read(Job::Read, &order, Page { slc, overlay, ..Page::read(place, lpn) });
    }

    /// Whether an operation on the die of `ppn` need not wait for this: it is over by now, or by the time when the die has done what
    /// it has, so that the die does not stand still for it.
    #[inline]
    pub(super) fn comes_in_time(&self, after: After, ppn: Ppn, now: Instant) -> bool {
        after.node == NONE && (after.at <= now || after.at <= self.lanes.free_at(self.die_of(ppn)))
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
        let request = &cx.requests[id];
        let cause = request.cause;
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        self.turns.aim(pages.first);
        if M::PAGED {
            self.map.begin(Lpn(pages.end));
        }
        let now = cx.now;
        let whose = Whose::Request(id);
        if self.is_plain && self.host.is_whole(&pages) {
            let mut pieces = M::PAGED.then(|| Pieces::of_request(id, now, cause, Work::Write));
            let (slowest, usage) = match cx.medium {
                None => self.write_whole::<false>(id, &pages, (whose, cause), &mut pieces, cx),
                Some(_) => self.write_whole::<true>(id, &pages, (whose, cause), &mut pieces, cx),
            };
            self.gather_some(Lpn(pages.first), cause, cx);
            return match pieces.filter(|pieces| !M::PAGED || pieces.is_opened()) {
                Some(pieces) => self.finish_all(id, pieces, slowest, usage, cx),
                None => {
                    usage.charge(cx, cause, Work::Write);
                    slowest.program_path(now, self.lanes.timing(), &mut cx.requests[id].path);
                    self.finish(id, slowest.end, cx)
                }
            };
        }
        let mut pieces = Pieces::of_request(id, now, cause, Work::Write);
        if !self.write_parts(id, &pages, &mut pieces, cx) {
            // Nobody has these pages.
            return cx.fail(id, ErrorKind::NoSpace);
        }
        self.gather_some(Lpn(pages.first), cause, cx);
        self.finish_pieces(id, pieces, cx)
    }

    /// Writes pages and parts of pages; false when nobody has them.
    #[inline(never)]
    fn write_parts(&mut self, id: ReqId, pages: &Pages, pieces: &mut Pieces, cx: &mut Cx<'_>) -> bool {
        if !self.is_somebodys(pages.first, pages.end) {
            return false;
        }
        let payload = cx.requests[id].payload;
        for lpn in pages.first..pages.end {
            let part = self.host.part(pages, lpn);
            let data = payload.slice(self.host.before(pages, lpn));
            self.write_page(Lpn(lpn), part, data, pieces, cx);
        }
        true
    }

    /// Writes whole pages; returns the one that is complete last of those that did not wait, and what they take. The same as
    /// [`write_page`](Ssd::write_page) for each of them, with nothing per page that can be done once: most requests of most workloads
    /// come this way.
    #[inline(always)]
    fn write_whole<const STORES: bool>(
        &mut self,
        id: ReqId,
        pages: &Pages,
        who: (Whose, TenantId),
        pieces: &mut Option<Pieces>,
        cx: &mut Cx<'_>,
    ) -> (PageTime, Usage) {
        let at = (cx.now, self.serial);
        let mut slowest = PageTime::done(cx.now);
        let (mut usage, mut waiting) = (Usage::default(), 0);
        let mut lpn = pages.first;
        while lpn < pages.end {
            let data = match STORES {
                true => cx.requests[id].payload.slice(self.host.before(pages, lpn)),
                false => Payload::NONE,
            };
            match self.write_whole_page::<STORES>(Lpn(lpn), data, at, who, pieces, &mut usage, cx) {
                Some(time) => {
                    if time.end > slowest.end {
                        slowest = time;
                    }
                }
                None => waiting += 1,
            }
            lpn += 1;
        }
        self.wrote_whole(pages.end - pages.first, waiting, &mut usage);
        self.last_change = self.last_change.later(slowest.end);
        (slowest, usage)
    }

    /// Writes one of them, for the request of this number at this time; returns its time when nothing stands before it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one page of a request, with what the request adds up
    fn write_whole_page<const STORES: bool>(
        &mut self,
        lpn: Lpn,
        data: Payload,
        (now, serial): (Instant, u32),
        (whose, cause): (Whose, TenantId),
        pieces: &mut Option<Pieces>,
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> Option<PageTime> {
        let Taken { ppn, plane, low } = self.take_host_page(cause, cx);
        let older = match pieces {
            Some(pieces) if M::PAGED => self.enter_whole(lpn, ppn, pieces, cx),
            _ => None,
        };
        let waits = M::PAGED && !self.paging.programs_at_once;
        let is_held = || waits && pieces.as_ref().is_some_and(Pieces::is_held);
        let mut done = None;
        if self.queue.holds_back() || is_held() {
            let older = if M::PAGED { older } else { self.map.set(lpn, ppn) };
            let pieces = pieces.get_or_insert_with(|| Pieces::new(whose, now, cause, Work::Write));
            let programming = Programming { lpn, ppn, part: None, data, base: None, premerge: None, older };
            let after = if waits { pieces.after } else { After::at(now) };
            self.program_or_wait(programming, after, pieces, cx);
        } else {
            let page = self.blocks.layout().page(ppn);
            let serial = if waits { self.serial } else { serial };
            let (time, occupied) = self.lanes.program(plane, now, serial, page);
            usage.die += occupied;
            self.seq += 1;
            self.blocks.programmed(ppn, Content::Data(lpn));
            let older = if M::PAGED { older } else { self.map.set(lpn, ppn) };
            if let Some(old) = older {
                self.blocks.invalidate(old, time.end);
                if M::PAGED {
                    self.blocks.forget(old);
                }
            }
            if STORES {
                self.store(lpn, ppn, None, self.host.sectors(None), data, &time, cx);
            }
            done = Some(time);
        }
        if low {
            self.clear_some(plane, cause, cx);
        }
        done
    }

    /// Counts whole pages that the host wrote, and adds up the channels' time of those that did not wait.
    #[inline(always)]
    fn wrote_whole(&mut self, count: u32, waiting: u32, usage: &mut Usage) {
        usage.bus += self.lanes.timing().transfer * u64::from(count - waiting);
        self.count.host_pages_written += u64::from(count);
    }

    /// Writes one page or part of one, then moves a few pages when the plane runs low.
    #[inline(never)]
    pub(super) fn write_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        pieces: &mut Pieces,
        cx: &mut Cx<'_>,
    ) {
        if self.map.log_blocks().is_some() {
            return self.write_logged(lpn, part, data, pieces, cx);
        }
        let ppn = self.next_host_page(lpn, pieces.cause, cx);
        let mut base = None;
        let mut older = None;
        if M::PAGED {
            (base, older) = self.enter_part(lpn, ppn, part.is_some(), pieces, cx);
        } else if part.is_some() {
            base = self.map.get(lpn);
        }
        let read = base.filter(|_| self.host.merges);
        let (premerge, after) = match read {
            Some(old) => self.premerge(lpn, old, pieces),
            None if part.is_none() && self.paging.programs_at_once => (None, After::at(pieces.now)),
            None => (None, pieces.after),
        };
        self.count.host_pages_written += 1;
        if !M::PAGED {
            older = self.map.set(lpn, ppn);
        }
        self.program_or_wait(Programming { lpn, ppn, part, data, base, premerge, older }, after, pieces, cx);
        self.clear_after_write(self.blocks.pool_of_page(ppn), pieces.cause, cx);
    }

    /// Reads a page of which a part will be replaced; returns its time when nothing stands before it, and what the program waits for.
    #[cold]
    fn premerge(&mut self, lpn: Lpn, old: Ppn, pieces: &mut Pieces) -> (Option<Premerge>, After) {
        self.count.pages_premerged += 1;
        let (place, after) = (self.stripes.units.place(old), pieces.after);
        if !self.queue.read_waits(place) && self.comes_in_time(after, old, pieces.now) {
            let slc = self.is_slc(old);
            let time = self.sense_in_mode(old, after.at, &mut pieces.usage);
            return (Some(Premerge { time, slc }), After::at(time.end));
        }
        let slc = self.mode_of(old, Job::PreRead);
        let order = pieces.order(after, NONE, self.serial);
        let node = self.queue.read(Job::PreRead, &order, Page { slc, ..Page::read(place, lpn.0) });
        (None, After::node(node, pieces.now))
    }

    /// Programs a page of the host's when nothing stands before it, or lets it wait.
    #[inline(never)]
    fn program_or_wait(
        &mut self,
        programming: Programming,
        after: After,
        pieces: &mut Pieces,
        cx: &mut Cx<'_>,
    ) {
        let Programming { lpn, ppn, part, data, base, premerge, older } = programming;
        let units = &self.stripes.units;
        let (place, base_place) = (units.place(ppn), base.map(|base| units.place(base)));
        let content = Content::Data(lpn);
        // When the map had told what the program waits for.
        let at_once = part.is_none() && self.paging.programs_at_once;
        let map_at = if at_once { pieces.now } else { pieces.after.at };
        let after = After { at: self.stripes.may_begin(ppn, content, after.at), ..after };
        let has_base = base_place.is_none_or(|base| !self.queue.read_waits(base));
        if has_base && !self.queue.program_waits(place) && self.comes_in_time(after, ppn, pieces.now) {
            let slc = [self.is_slc(ppn), premerge.is_some_and(|read| read.slc)];
            let time = self.program(ppn, after.at, content, &mut pieces.usage);
            if let Some(older) = older {
                self.supersede(older, time.end);
                if M::PAGED {
                    self.blocks.forget(older);
                }
            }
            self.store(lpn, ppn, base, self.host.sectors(part), data, &time, cx);
            let premerge = premerge.map(|read| read.time);
            return pieces.note_as(Slowest { map_at, premerge, time, slc });
        }
        let answer = self.answer_of(pieces);
        let slc = self.mode_of(ppn, Job::Program);
        self.seq += 1;
        self.blocks.programmed(ppn, content);
        let Part { first, count } = self.host.sectors(part);
        let overlay = Some(Overlay { first, count, payload: data });
        let mut oob = Oob { key: u64::from(lpn.0), seq: self.seq };
        if self.marks_records {
            oob = self.marked(oob, ppn);
        }
        let page =
            Page { key: oob.key, seq: oob.seq, base: base_place, overlay, slc, ..Page::read(place, lpn.0) };
        let order = Order { map_at, ..pieces.order(after, answer, self.serial) };
        let older_place = older.map(|older| self.stripes.units.place(older));
        let node = self.queue.program(Job::Program, &order, page, NONE, older_place);
        if let Some(read) = premerge {
            self.queue.was_read_before(node, read.time, read.slc);
        }
        if let Some(older) = older {
            self.supersede(older, Instant::ZERO);
            if M::PAGED {
                self.blocks.forget(older);
            }
        }
    }

    /// Gives the page of a slot of the write buffer to the dies.
    pub(super) fn write_out_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        pieces: &mut Pieces,
        cx: &mut Cx<'_>,
    ) {
        if M::PAGED {
            self.map.begin(Lpn(lpn.0 + 1));
        }
        if self.is_plain && part.is_none() {
            let (at, who) = ((cx.now, self.serial), (pieces.whose, pieces.cause));
            let (mut usage, mut own) = (Usage::default(), Some(*pieces));
            let time = match cx.medium {
                None => self.write_whole_page::<false>(lpn, data, at, who, &mut own, &mut usage, cx),
                Some(_) => self.write_whole_page::<true>(lpn, data, at, who, &mut own, &mut usage, cx),
            };
            own.into_iter().for_each(|own| *pieces = own);
            self.wrote_whole(1, u32::from(time.is_none()), &mut usage);
            pieces.usage.die += usage.die;
            pieces.usage.bus += usage.bus;
            if let Some(time) = time {
                self.last_change = self.last_change.later(time.end);
                pieces.note(time);
            }
            return;
        }
        self.write_page(lpn, part, data, pieces, cx);
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

    /// Writes a page that lies at `from` once more, where the turn of its tenant is. The drive stands still meanwhile.
    pub(super) fn write_again(&mut self, lpn: Lpn, from: Ppn, cx: &mut Cx<'_>) {
        let cause = TenantId::SYSTEM;
        let to = self.take_tenant_page(lpn, 0, cause, cx);
        // Getting a page may have moved it.
        let from = self.map.get(lpn).unwrap_or(from);
        self.serial = self.serial.wrapping_add(1);
        let mut usage = Usage::default();
        let outer = self.lanes.work_for(Work::Gc);
        let carried = Carried {
            from,
            to,
            content: Content::Data(lpn),
            after: After::at(cx.now),
            cause,
            work: Work::Gc,
        };
        let end = self.carry(carried, [Job::PreRead, Job::Gathered], &mut usage, cx);
        self.lanes.work_for(outer);
        usage.charge(cx, cause, Work::Gc);
        self.count.pages_moved += 1;
        self.blocks.invalidate(from, end);
        if M::PAGED {
            self.relocate_paged(lpn, from, to, cause, cx);
        } else {
            self.map.set(lpn, to);
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
            let stream = self.stream_of(lpn);
            return self.take_tenant_page(lpn, stream, cause, cx);
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
        if self.map.log_blocks().is_some() {
            return self.trim_logged(id, cx);
        }
        let request = &cx.requests[id];
        let (cause, flags, now) = (request.cause, request.flags, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        if M::PAGED {
            self.map.begin(Lpn(pages.end));
        }
        let mut pieces = Pieces::of_request(id, now, cause, Work::Write);
        let extents = nandu_ftl::trim_journal::TrimJournal::extents_per_record(1 << self.host.page_bits);
        let mut recorded = None;
        for lpn in (pages.first..pages.end).map(Lpn) {
            if self.journal.pending() >= extents {
                // What waits fits one record always: an erase on the way has a page for one.
                recorded = Some(self.record_trims(cx, cause));
            }
            let at = if M::PAGED { self.translate(lpn, &mut pieces, cx) } else { self.map.get(lpn) };
            match (at, self.host.part(&pages, lpn.0)) {
                (None, _) => {}
                (Some(_), None) if M::PAGED => self.unmap(lpn, &mut pieces, cx),
                (Some(_), None) => self.trim_page(lpn, now),
                (Some(_), part) => self.write_page(lpn, part, Payload::NONE, &mut pieces, cx),
            }
        }
        if flags.has(Flags::FUA) || self.journal.pending() >= extents {
            recorded = Some(self.record_trims(cx, cause));
        }
        if let Some(recorded) = recorded {
            if self.queue.any_record_waits() {
                self.wait_for_records(&mut pieces, recorded);
            } else if recorded >= pieces.slowest.time.end.later(pieces.after.at) && pieces.answer().is_none()
            {
                if !M::PAGED || pieces.after.node == NONE {
                    pieces.usage.charge(cx, cause, Work::Write);
                    self.explain_record(id, recorded, cx);
                    return Step::FinishAt(id, recorded);
                }
                self.wait_for_records(&mut pieces, recorded);
            } else if pieces.answer().is_some() {
                self.wait_for_records(&mut pieces, recorded);
            }
        }
        self.finish_pieces(id, pieces, cx)
    }

    /// A request ends when all trims so far are on record.
    fn wait_for_records(&mut self, pieces: &mut Pieces, recorded: Instant) {
        let answer = self.answer_of(pieces);
        self.queue.not_before(answer, recorded);
        self.queue.after_records(answer);
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
        if self.planted.trim_not_recorded {
            return Step::FinishAt(id, cx.now);
        }
        let end = self.record_trims(cx, cause);
        if self.queue.any_record_waits() {
            let mut pieces = Pieces::of_request(id, cx.now, cause, Work::Journal);
            self.wait_for_records(&mut pieces, end);
            return self.finish_pieces(id, pieces, cx);
        }
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
