//! What the host asks for: reads, writes, trims and flushes.

use super::alloc::Taken;
use super::flash::{After, Job, Pieces, Programming, Reading, Whose};
use super::pages::{PageShape, Pages, Part};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::mapping::Mapping;
use crate::trim_journal::Extent;
use crate::{Lpn, Ppn};
use nandu_base::{Cx, ErrorKind, Flags, Oob, Overlay, Payload, ReqId, Step, TenantId, Work};

/// Fixed figures of the drive.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The size of a page.
    pub page: PageShape,
    /// log2 of the planes of a die.
    pub plane_bits: u32,
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
    /// Pages of a stripe where a step of collection ends with one, 1 where it may end with any page.
    pub stripe: u32,
    /// Bits that a cell of the chip stores.
    pub bits_per_cell: u32,
    /// Records of trims when what is still trimmed is written anew.
    pub trim_records: u32,
    /// Logical pages from which on a drive is filled by rule; below, tables are faster than arithmetic.
    pub by_rule_from: u32,
}

/// A page of the host's to program.
struct HostPage<G> {
    /// The page of which a part is replaced, as it was read, and whether it lay in a block in SLC mode.
    read: Option<(G, bool)>,
    lpn: Lpn,
    ppn: Ppn,
    /// The part that is written; `None` for all.
    part: Option<Part>,
    data: Payload,
    /// Where the rest of it lies.
    base: Option<Ppn>,
    /// Where the page lay.
    older: Option<Ppn>,
}

/// What a request's whole pages have come to so far: what the next one waits for, and those that something stood before.
type SoFar<'a, F> = (&'a mut After, &'a mut Option<Pieces<F>>);

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Reads what a request asks for.
    #[inline]
    pub fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause) = (request.payload, request.cause);
        let pages = self.host.page.pages(request.offset, request.len);
        self.exec.begin_group();
        let start = After::now(cx);
        let (mut after, mut pieces, mut run) = (start, None, F::run(cx));
        let (mut sensed, fetches) = (0, !payload.is_none());
        self.map.begin(Lpn(pages.end));
        if let Some(medium) = cx.medium.as_deref().filter(|_| fetches) {
            let mapped = (pages.first..pages.end).filter_map(|lpn| self.map.get(Lpn(lpn)));
            mapped.for_each(|ppn| medium.prefetch(self.exec.unit(ppn)));
        }
        let mut lpn = pages.first;
        while lpn < pages.end {
            match self.translate(Lpn(lpn), &mut after, cause, cx) {
                Some(ppn) if self.exec.holds_back() || after != start => {
                    let pieces = pieces.get_or_insert_with(|| Pieces::of_request(id, cx, cause, Work::Read));
                    pieces.after = after;
                    self.read_page(lpn, ppn, None, pieces, cx);
                    sensed += 1;
                }
                Some(ppn) => {
                    self.exec.read_at_once(ppn, &mut run);
                    sensed += 1;
                    if fetches {
                        self.exec.fetch(id, &pages, lpn, Some(self.exec.unit(ppn)), cx);
                    }
                }
                None if fetches => self.exec.fetch(id, &pages, lpn, None, cx),
                None => {}
            }
            lpn += 1;
        }
        self.count.host_pages_read += sensed;
        self.gather_some(Lpn(pages.first), cause, cx);
        if pieces.is_none() && after == start {
            return self.exec.finish_run(id, &run, cause, Work::Read, cx);
        }
        let mut pieces = pieces.unwrap_or_else(|| Pieces::of_request(id, cx, cause, Work::Read));
        pieces.after = after;
        self.exec.finish_all(id, pieces, run, cx)
    }

    /// Reads a page of a request, over which the write buffer may have something.
    #[inline(never)]
    pub fn read_page(
        &mut self,
        lpn: u32,
        ppn: Ppn,
        overlay: Option<Overlay>,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        let (is_slc, after) = (self.is_slc(ppn), pieces.after);
        let reading = Reading { is_slc, overlay, ..Reading::of(Job::Read, ppn, lpn, after) };
        self.exec.read(reading, pieces, cx);
    }

    /// Writes what a request brings.
    #[inline]
    pub fn write(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let cause = request.cause;
        let pages = self.host.page.pages(request.offset, request.len);
        self.exec.begin_group();
        self.turns.aim(pages.first);
        self.map.begin(Lpn(pages.end));
        let whose = Whose::Request(id);
        if self.is_plain && self.host.page.is_whole(&pages) {
            let (mut after, mut pieces) = (After::now(cx), None);
            let so_far = (&mut after, &mut pieces);
            let run = match cx.medium {
                None => self.write_whole::<false>(id, &pages, (whose, cause), so_far, cx),
                Some(_) => self.write_whole::<true>(id, &pages, (whose, cause), so_far, cx),
            };
            self.gather_some(Lpn(pages.first), cause, cx);
            if pieces.is_none() && after == After::now(cx) {
                return self.exec.finish_run(id, &run, cause, Work::Write, cx);
            }
            let mut pieces = pieces.unwrap_or_else(|| Pieces::of_request(id, cx, cause, Work::Write));
            pieces.after = after;
            return self.exec.finish_all(id, pieces, run, cx);
        }
        let mut pieces = Pieces::of_request(id, cx, cause, Work::Write);
        if !self.write_parts(id, &pages, &mut pieces, cx) {
            // Nobody has these pages.
            return cx.fail(id, ErrorKind::NoSpace);
        }
        self.gather_some(Lpn(pages.first), cause, cx);
        self.exec.finish_pieces(id, pieces, cx)
    }

    /// Writes pages and parts of pages; false when nobody has them.
    #[inline(never)]
    fn write_parts(&mut self, id: ReqId, pages: &Pages, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) -> bool {
        if !self.is_somebodys(pages.first, pages.end) {
            return false;
        }
        let payload = cx.requests[id].payload;
        for lpn in pages.first..pages.end {
            let part = self.host.page.part(pages, lpn);
            let data = payload.slice(self.host.page.before(pages, lpn));
            self.write_page(Lpn(lpn), part, data, pieces, cx);
        }
        true
    }

    /// Writes whole pages; returns those that nothing stood before. The same as [`write_page`](Planner::write_page) for each of them, with nothing per
    /// page that can be done once: most requests of most workloads come this way.
    #[inline(always)]
    fn write_whole<const STORES: bool>(
        &mut self,
        id: ReqId,
        pages: &Pages,
        who: (Whose, TenantId),
        (after, pieces): SoFar<'_, F>,
        cx: &mut Cx<'_>,
    ) -> F::Run {
        let (group, mut run, mut waiting) = (self.exec.group(), F::run(cx), 0);
        let mut lpn = pages.first;
        while lpn < pages.end {
            let data = match STORES {
                true => cx.requests[id].payload.slice(self.host.page.before(pages, lpn)),
                false => Payload::NONE,
            };
            let so_far = (&mut *after, &mut *pieces);
            if !self.write_whole_page::<STORES>(Lpn(lpn), data, group, who, so_far, &mut run, cx) {
                waiting += 1;
            }
            lpn += 1;
        }
        let count = pages.end - pages.first;
        self.count.host_pages_written += u64::from(count);
        self.exec.programmed(count - waiting, &mut run);
        run
    }

    /// Writes one of them; returns whether it is one of the `run`: nothing stands before it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one page of a request, with what the request adds up
    fn write_whole_page<const STORES: bool>(
        &mut self,
        lpn: Lpn,
        data: Payload,
        group: u32,
        (whose, cause): (Whose, TenantId),
        (after, pieces): SoFar<'_, F>,
        run: &mut F::Run,
        cx: &mut Cx<'_>,
    ) -> bool {
        let Taken { ppn, plane, low } = self.take_host_page(cause, cx);
        let older = self.enter_whole(lpn, ppn, after, cause, cx);
        let waits = self.waits_for_entries();
        let mut is_placed = false;
        if self.exec.holds_back() || waits && *after != After::now(cx) {
            let pieces = pieces.get_or_insert_with(|| Pieces::new(whose, cx, cause, Work::Write));
            pieces.after = *after;
            let after = if waits { *after } else { After::now(cx) };
            let page = HostPage { lpn, ppn, part: None, data, base: None, read: None, older };
            self.program_page(page, after, pieces, cx);
        } else {
            let group = if waits { self.exec.group() } else { group };
            let placed = self.exec.program_at_once(ppn, plane, group, run);
            self.seq += 1;
            self.blocks.programmed(ppn, Content::Data(lpn));
            if let Some(old) = older {
                let unit = self.blocks.invalidate(old);
                self.exec.keep_behind(unit, placed);
                self.forget_old(old);
            }
            if STORES {
                let Part { first, count } = self.host.page.sectors_of(None);
                let overlay = Some(Overlay { first, count, payload: data });
                self.exec.store(ppn, None, overlay, self.oob_of(lpn, ppn), placed, cx);
            }
            is_placed = true;
        }
        if low {
            self.clear_some(plane, cause, cx);
        }
        is_placed
    }

    /// Writes one page or part of one, then moves a few pages when the plane runs low.
    #[inline(never)]
    pub(super) fn write_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        if self.map.log_blocks().is_some() {
            return self.write_logged(lpn, part, data, pieces, cx);
        }
        let ppn = self.next_host_page(lpn, pieces.cause, cx);
        let (base, older) = self.enter_part(lpn, ppn, part.is_some(), pieces, cx);
        let merged = base.filter(|_| self.host.merges);
        let (read, after) = match merged {
            Some(old) => self.premerge(lpn, old, pieces, cx),
            None if part.is_none() && !self.waits_for_entries() => (None, After::now(cx)),
            None => (None, pieces.after),
        };
        self.count.host_pages_written += 1;
        self.program_page(HostPage { lpn, ppn, part, data, base, read, older }, after, pieces, cx);
        self.clear_after_write(self.blocks.pool_of_page(ppn), pieces.cause, cx);
    }

    /// Reads a page of which a part will be replaced; returns what is known of it, and what the program waits for.
    #[cold]
    fn premerge(
        &mut self,
        lpn: Lpn,
        old: Ppn,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) -> (Option<(F::Given, bool)>, After) {
        self.count.pages_premerged += 1;
        let (is_slc, after) = (self.is_slc(old), pieces.after);
        let reading = Reading { is_slc, ..Reading::of(Job::PreRead, old, lpn.0, after) };
        let given = self.exec.read(reading, pieces, cx);
        (Some((given, is_slc)), self.exec.behind(given, pieces))
    }

    /// Programs a page of the host's.
    #[inline(never)]
    fn program_page(
        &mut self,
        page: HostPage<F::Given>,
        after: After,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        let HostPage { lpn, ppn, part, data, base, read, older } = page;
        self.seq += 1;
        self.blocks.programmed(ppn, Content::Data(lpn));
        let Part { first, count } = self.host.page.sectors_of(part);
        let at_once = part.is_none() && !self.waits_for_entries();
        let (oob, overlay) = (self.oob_of(lpn, ppn), Some(Overlay { first, count, payload: data }));
        let (is_slc, entry) = (self.is_slc(ppn), if at_once { After::now(cx) } else { pieces.after });
        let programming = Programming::of(Job::Program, ppn, oob, after);
        let programming = Programming { base, overlay, is_slc, older, entry, read, ..programming };
        self.exec.program(programming, pieces, cx);
        if let Some(older) = older {
            self.supersede(older);
            self.forget_old(older);
        }
    }

    /// Gives the page of a slot of the write buffer to the dies.
    pub fn write_out_page(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        self.map.begin(Lpn(lpn.0 + 1));
        if self.is_plain && part.is_none() {
            let (group, who, mut run) = (self.exec.group(), (pieces.whose, pieces.cause), F::run(cx));
            let (mut after, mut own) = (pieces.after, Some(*pieces));
            let so_far = (&mut after, &mut own);
            let is_placed = match cx.medium {
                None => self.write_whole_page::<false>(lpn, data, group, who, so_far, &mut run, cx),
                Some(_) => self.write_whole_page::<true>(lpn, data, group, who, so_far, &mut run, cx),
            };
            own.into_iter().for_each(|own| *pieces = own);
            pieces.after = after;
            self.count.host_pages_written += 1;
            self.exec.programmed(u32::from(is_placed), &mut run);
            return self.exec.join(&run, pieces);
        }
        self.write_page(lpn, part, data, pieces, cx);
    }

    /// What is on record with a page of the host's that is programmed.
    fn oob_of(&self, lpn: Lpn, ppn: Ppn) -> Oob {
        let oob = Oob { key: u64::from(lpn.0), seq: self.seq };
        if self.marks_records { self.marked(oob, ppn) } else { oob }
    }

    /// The record of a page where it is not the plain one.
    #[cold]
    fn marked(&self, oob: Oob, ppn: Ppn) -> Oob {
        if self.planted.oob_dropped && self.seq.is_multiple_of(64) {
            return Oob { key: 0, seq: 0 };
        }
        Oob { key: oob.key | self.mode_mark(ppn), ..oob }
    }

    /// Writes a page that lies at `from` once more, where the turn of its tenant is. The drive stands still meanwhile.
    pub(super) fn write_again(&mut self, lpn: Lpn, from: Ppn, cx: &mut Cx<'_>) {
        let cause = TenantId::SYSTEM;
        let to = self.take_page(lpn, 0, cause, cx);
        // Getting a page may have moved it.
        let from = self.map.get(lpn).unwrap_or(from);
        self.exec.begin_group();
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Gc);
        let outer = self.exec.work_for(Work::Gc);
        let copying = self.copying(from, to, Content::Data(lpn), After::now(cx));
        self.exec.carry(copying, [Job::PreRead, Job::Gathered], &mut pieces, cx);
        self.exec.work_for(outer);
        pieces.charge(cx);
        self.count.pages_moved += 1;
        self.blocks.invalidate(from);
        self.relocate(lpn, from, to, cause, cx);
    }

    /// The page at `old` has a newer version, or none.
    #[inline]
    pub(super) fn supersede(&mut self, old: Ppn) {
        if self.planted.lost_invalidation && self.seq.is_multiple_of(64) {
            return;
        }
        self.blocks.invalidate(old);
    }

    /// The page at `old` is needed no more once `after` is over, which no door of the executor knows.
    pub fn give_up(&mut self, old: Ppn, after: After) {
        let unit = self.blocks.invalidate(old);
        self.exec.keep_until(unit, after);
    }

    /// Unmaps the pages of a request; parts of pages become zeros.
    pub fn trim(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.map.log_blocks().is_some() {
            return self.trim_logged(id, cx);
        }
        let request = &cx.requests[id];
        let (cause, flags) = (request.cause, request.flags);
        let pages = self.host.page.pages(request.offset, request.len);
        self.exec.begin_group();
        self.map.begin(Lpn(pages.end));
        let mut pieces = Pieces::of_request(id, cx, cause, Work::Write);
        let extents = crate::trim_journal::TrimJournal::extents_per_record(1 << self.host.page.bits);
        let mut recorded = None;
        for lpn in (pages.first..pages.end).map(Lpn) {
            if self.journal.pending() >= extents {
                // What waits fits one record always: an erase on the way has a page for one.
                recorded = Some(self.record_trims(cx, cause));
            }
            let at = self.translate(lpn, &mut pieces.after, cause, cx);
            match (at, self.host.page.part(&pages, lpn.0)) {
                (None, _) => {}
                (Some(_), None) => self.unmap(lpn, &mut pieces, cx),
                (Some(_), part) => self.write_page(lpn, part, Payload::NONE, &mut pieces, cx),
            }
        }
        if flags.has(Flags::FUA) || self.journal.pending() >= extents {
            recorded = Some(self.record_trims(cx, cause));
        }
        match recorded {
            Some(recorded) => self.exec.finish_recorded(id, pieces, recorded, cx),
            None => self.exec.finish_pieces(id, pieces, cx),
        }
    }

    /// Notes that a page was unmapped which lay at `old`, if it was mapped.
    pub(super) fn trimmed(&mut self, lpn: Lpn, old: Option<Ppn>) {
        if let Some(old) = old {
            self.supersede(old);
            self.journal.trimmed(Extent { first: lpn, count: 1, as_of: self.seq });
            self.count.pages_trimmed += 1;
        }
    }

    /// Puts trims on record: a flush ends when they are.
    pub fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let cause = cx.requests[id].cause;
        if self.planted.trim_not_recorded {
            return self.exec.finish_run(id, &F::run(cx), cause, Work::Read, cx);
        }
        let recorded = self.record_trims(cx, cause);
        self.exec.finish_flush(id, recorded, cause, cx)
    }
}
