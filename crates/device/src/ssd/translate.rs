//! Maps that are partly on the flash: their translation pages' time, place and content.
//!
//! A request's pages are translated one after another (O2-9): a data page begins when the translation pages that it
//! needed have come, and so does every later page of the request. An entry that another request is still fetching is
//! there when that fetch ends. Translation pages are placed over the planes in turn, in blocks of their own
//! ([`nandu_ftl::map_area`]). What they take is charged as [`Work::Map`] to the tenant that caused it, and is
//! [`Phase::Map`](nandu_base::Phase::Map) on the path of a request that waited for it.
//!
//! The lanes give every operation its place when it is issued. So a data page that waits for a translation page keeps its
//! die from the operations that are issued after it, even when the die would be idle until then. The counter
//! `map_die_kept_idle_ns` says for how long: it bounds what others lose by it.

use super::Ssd;
use super::checkpoint::Keeper;
use super::gather::Gatherer;
use super::host::{Pages, Taken, Usage};
use super::waits::{Slowest, Waits};
use nandu_base::{
    ByteLen, Counter, Cx, Flags, Instant, Oob, Overlay, Payload, Program, ReqId, Span, Step, TenantId,
    Window, Work,
};
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::{MapOp, MapOps, Mapping, Tp};
use nandu_ftl::{BlockId, BlockTable, Layout, Lpn, MapArea, Ppn};

/// What a drive keeps for a map that is partly on the flash.
pub(super) struct Paging {
    pub ops: MapOps,
    pub area: MapArea,
    /// When each translation page's last fetch ends.
    comes_at: Vec<Instant>,
    /// The latest of them: from then on no fetch is under way.
    last_comes_at: Instant,
    /// When the erases of all blocks that were opened so far are complete. A translation page that is complete must not name
    /// a page of a block whose erase a power cut may still undo: a start would take the block's old page for the one that is
    /// named.
    pub opened_from: Instant,
    /// Whether an entry waits until what made room for it is written.
    waits_for_write: bool,
    /// Takes checkpoints, if they are asked for.
    pub keeper: Option<Keeper>,
    /// Copies logical blocks into flash blocks of their own, for a map that asks for it.
    pub gatherer: Gatherer,
    count: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    pages_read: u64,
    pages_written: u64,
    pages_moved: u64,
    blocks_cleared: u64,
    /// Time that dies were idle and promised to data pages that waited for their entries.
    kept_idle: Span,
}

impl Paging {
    pub fn new<M: Mapping>(layout: Layout, map: &M, waits_for_write: bool, keeper: Option<Keeper>) -> Paging {
        let pages = map.translation_pages();
        let quota = if M::PAGED { MapArea::quota(&layout, pages) } else { 0 };
        Paging {
            ops: MapOps::default(),
            area: MapArea::new(layout, quota),
            comes_at: vec![Instant::ZERO; pages as usize],
            last_comes_at: Instant::ZERO,
            opened_from: Instant::ZERO,
            waits_for_write,
            keeper,
            gatherer: Gatherer::default(),
            count: Counts::default(),
        }
    }

    /// Takes the blocks of the map from an erased drive; false when they are too few.
    pub fn claim(&mut self, blocks: &mut BlockTable) -> bool {
        let anchors = self.keeper.as_ref().map_or(0, |keeper| keeper.anchors.per_plane());
        let planes = blocks.layout().planes;
        let mut rows = (0..anchors).flat_map(|_| 0..planes);
        rows.all(|plane| blocks.open_free(plane, u64::MAX).is_some()) && self.area.claim(blocks)
    }

    /// Whether the block holds checkpoints.
    pub fn is_anchor(&self, block: BlockId) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.anchors.owns(block))
    }

    /// The entry of a page changes in RAM.
    #[inline]
    fn touched(&mut self, lpn: Lpn) {
        if let Some(keeper) = &mut self.keeper {
            keeper.touched.push(lpn.0);
        }
    }

    /// Forgets everything that a loss of power takes.
    pub fn restart(&mut self, layout: Layout) {
        self.area = MapArea::new(layout, self.area.blocks_per_plane());
        self.comes_at.fill(Instant::ZERO);
        self.last_comes_at = Instant::ZERO;
        self.opened_from = Instant::ZERO;
        self.ops.clear();
        self.gatherer.restart();
    }

    pub fn reset_counters(&mut self) {
        self.count = Counts::default();
        self.gatherer.count = Default::default();
        self.keeper.iter_mut().for_each(|keeper| keeper.count = Default::default());
    }

    /// Pages programmed for the map.
    pub fn programmed(&self) -> u64 {
        let checkpoints = self.keeper.as_ref().map_or(0, |k| k.count.pages);
        self.count.pages_written + self.count.pages_moved + self.gatherer.count.pages + checkpoints
    }

    /// Blocks of the map that were cleared and erased.
    pub fn erased(&self) -> u64 {
        self.count.blocks_cleared + self.keeper.as_ref().map_or(0, |k| k.count.erases)
    }
}

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Carries out what the map has asked for, from `ready` on; returns when the last of it that must be waited for ends.
    #[inline(always)]
    pub(super) fn run_map_ops(&mut self, ready: Instant, cause: TenantId, cx: &mut Cx<'_>) -> Instant {
        if self.paging.ops.list().is_empty() {
            return ready;
        }
        self.run_some_map_ops(ready, cause, cx)
    }

    #[inline(never)]
    fn run_some_map_ops(&mut self, ready: Instant, cause: TenantId, cx: &mut Cx<'_>) -> Instant {
        let mut usage = Usage::default();
        let outer = self.lanes.work_for(Work::Map);
        let mut done = ready;
        let mut next = 0;
        // None of them asks for another.
        while let Some(&op) = self.paging.ops.list().get(next) {
            next += 1;
            match op {
                MapOp::Read(tp) => done = self.read_map_page(tp, done, &mut usage),
                MapOp::Write(tp) => {
                    let end = self.write_map_page(tp, done, cause, &mut usage, cx);
                    if self.paging.waits_for_write {
                        done = end;
                    }
                }
                MapOp::Stale(ppn) => {
                    // The newer version is one of those issued so far.
                    self.blocks.invalidate(ppn, self.last_change);
                    self.blocks.forget(ppn);
                }
            }
        }
        usage.charge(cx, cause, Work::Map);
        self.lanes.work_for(outer);
        self.check_map_pages_read(cx);
        self.paging.ops.clear();
        // What comes after them begins at another time and shares no array operation with them.
        self.serial = self.serial.wrapping_add(1);
        done
    }

    #[inline(always)]
    fn read_map_page(&mut self, tp: Tp, ready: Instant, usage: &mut Usage) -> Instant {
        let ppn =
            self.map.translation_page(tp).expect("a map asks only for translation pages that were written");
        self.serial = self.serial.wrapping_add(1);
        let end = self.sense(ppn, ready, usage).end;
        self.paging.count.pages_read += 1;
        self.paging.comes_at[tp.0 as usize] = end;
        self.paging.last_comes_at = self.paging.last_comes_at.later(end);
        end
    }

    /// Writes a translation page to the next place for one; returns when it is complete.
    #[inline(never)]
    pub(super) fn write_map_page(
        &mut self,
        tp: Tp,
        ready: Instant,
        cause: TenantId,
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let plane = self.paging.area.choose();
        if let Some(block) = self.paging.area.must_clear(plane) {
            self.clear_map_block(block, plane, cause, cx);
        }
        let ppn = self.paging.area.take(plane);
        self.serial = self.serial.wrapping_add(1);
        let ready = ready.later(self.paging.opened_from);
        let time = self.program(ppn, ready, Content::Map(tp), usage);
        self.paging.count.pages_written += 1;
        if let Some(old) = self.map.place(tp, ppn) {
            self.paging.area.superseded(old);
            self.blocks.keep_until(old, time.end);
        }
        self.store_map_page(tp, ppn, self.seq, Window { start: time.start, end: time.end }, cx);
        time.end
    }

    /// Puts the words of a translation page on the medium, in little endian.
    pub(super) fn store_map_page(&self, tp: Tp, ppn: Ppn, seq: u64, window: Window, cx: &mut Cx<'_>) {
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let page = ByteLen(1 << self.host.page_bits);
        let payload = cx.pool.allocate_metadata(page);
        let bytes = cx.pool.bytes_mut(payload, page);
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(self.map.stored(tp)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let overlay = Some(Overlay { first: 0, count: self.host.page_sectors, payload });
        let oob = Oob { key: super::recover::key(Content::Map(tp)), seq };
        medium.program(cx.pool, &Program { unit: self.stripes.unit(ppn), base: None, overlay, oob, window });
        cx.pool.release(payload);
    }

    /// Moves the valid translation pages of a block into the plane's erased block of the map, and erases it.
    pub(super) fn clear_map_block(&mut self, block: BlockId, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let first = self.blocks.layout().first_page(block).0;
        let mut usage = Usage::default();
        let outer = self.lanes.work_for(Work::Map);
        for from in (first..first + self.blocks.layout().pages).map(Ppn) {
            match self.blocks.content(from) {
                Content::Map(tp) if self.map.translation_page(tp) == Some(from) => {
                    self.move_map_page(tp, from, plane, &mut usage, cx);
                }
                _ => {}
            }
        }
        usage.charge(cx, cause, Work::Map);
        let earliest = self.blocks.safe_at(block);
        let end = self.erase_blocks(block, earliest, cause, Work::Map, cx);
        self.lanes.work_for(outer);
        self.paging.area.erased(block, &mut self.blocks);
        self.blocks.keep_until(Ppn(first), end);
        self.attention |= self.blocks.is_worn_out();
        self.paging.count.blocks_cleared += 1;
        self.erases_ever += 1;
    }

    fn move_map_page(&mut self, tp: Tp, from: Ppn, plane: u32, usage: &mut Usage, cx: &mut Cx<'_>) {
        let to = self.paging.area.take(plane);
        let Window { start, end } = self.copy(from, to, Content::Map(tp), usage, cx.now);
        self.seq += 1;
        self.last_change = self.last_change.later(end);
        self.paging.count.pages_moved += 1;
        self.blocks.programmed(to, Content::Map(tp));
        self.blocks.keep_until(from, end);
        self.map.place(tp, to);
        self.paging.area.superseded(from);
        if let Some(medium) = cx.medium.as_deref_mut() {
            let oob = Oob { key: super::recover::key(Content::Map(tp)), seq: self.seq };
            let (unit, base) = (self.stripes.unit(to), Some(self.stripes.unit(from)));
            medium
                .program(cx.pool, &Program { unit, base, overlay: None, oob, window: Window { start, end } });
        }
    }

    /// When the entry of `lpn` is in RAM, which is not before `ready`.
    #[inline(always)]
    fn entry_comes(&self, lpn: Lpn, ready: Instant) -> Instant {
        if self.paging.last_comes_at <= ready {
            return ready;
        }
        let tp = (u64::from(lpn.0) * 4) >> self.host.page_bits;
        ready.later(self.paging.comes_at[tp as usize])
    }

    /// Looks a page up; returns where it lies and when that is known.
    #[inline(never)]
    fn look_up(
        &mut self,
        lpn: Lpn,
        ready: Instant,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> (Option<Ppn>, Instant) {
        let at = self.map.lookup(lpn, &mut self.paging.ops);
        let ready = self.run_map_ops(ready, cause, cx);
        (at, self.entry_comes(lpn, ready))
    }

    /// Where a page lies, and when that is known.
    pub(super) fn where_is(
        &mut self,
        lpn: Lpn,
        ready: Instant,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> (Option<Ppn>, Instant) {
        match self.map.lookup_cached(lpn) {
            Some(at) => (at, self.entry_comes(lpn, ready)),
            None => self.look_up(lpn, ready, cause, cx),
        }
    }

    /// A data page gets its place on a die although it cannot begin before `ready`.
    #[inline(always)]
    fn note_kept_idle(&mut self, ppn: Ppn, ready: Instant, now: Instant) {
        if ready > now {
            let idle_from = self.lanes.free_at(self.die_of(ppn)).later(now);
            self.paging.count.kept_idle += Span(ready.0.saturating_sub(idle_from.0));
        }
    }

    #[inline]
    pub(super) fn read_paged(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause, now) = (request.payload, request.cause, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        self.map.begin(Lpn(pages.end));
        let mut slowest = Slowest::none(now);
        let (mut ready, mut usage, mut sensed) = (now, Usage::default(), 0);
        let mut lpn = pages.first;
        while lpn < pages.end {
            let (at, known) = match self.map.lookup_cached(Lpn(lpn)) {
                Some(at) => (at, self.entry_comes(Lpn(lpn), ready)),
                None => self.look_up(Lpn(lpn), ready, cause, cx),
            };
            if known != ready {
                // Pages that begin at different times share no array operation.
                self.serial = self.serial.wrapping_add(1);
                ready = known;
                slowest.map_only(ready);
            }
            if let Some(ppn) = at {
                self.note_kept_idle(ppn, ready, now);
                let time = self.sense(ppn, ready, &mut usage);
                slowest.note(ready, time);
                sensed += 1;
            }
            if !payload.is_none() {
                self.fetch(id, &pages, lpn, at, cx);
            }
            lpn += 1;
        }
        self.count.host_pages_read += sensed;
        usage.charge(cx, cause, Work::Read);
        slowest.explain_read(now, self.lanes.timing(), &mut cx.requests[id].path);
        self.gather_some(cause, cx);
        self.finish(id, slowest.end(), cx)
    }

    #[inline]
    pub(super) fn write_paged(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause, now) = (request.payload, request.cause, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        self.map.begin(Lpn(pages.end));
        self.turns.aim(pages.first);
        if self.is_plain && self.host.is_whole(&pages) {
            let slowest = match cx.medium {
                None => self.write_whole_paged::<false>(id, &pages, cause, cx),
                Some(_) => self.write_whole_paged::<true>(id, &pages, cause, cx),
            };
            slowest.explain_write(now, self.lanes.timing(), &mut cx.requests[id].path);
            self.gather_some(cause, cx);
            return self.finish(id, slowest.end(), cx);
        }
        let mut slowest = Waits::none(now);
        let mut usage = Usage::default();
        let mut ready = now;
        for lpn in pages.first..pages.end {
            let part = self.host.part(&pages, lpn);
            let data = payload.slice(self.host.before(&pages, lpn));
            ready = self.write_page_paged(Lpn(lpn), part, data, ready, &mut usage, &mut slowest, (cause, cx));
        }
        usage.charge(cx, cause, Work::Write);
        slowest.explain_write(now, self.lanes.timing(), &mut cx.requests[id].path);
        self.gather_some(cause, cx);
        self.finish(id, slowest.end(), cx)
    }

    /// Writes whole pages. The same as [`write_page_paged`](Ssd::write_page_paged) for each of them, with nothing per page
    /// that can be done once, and with a short way for entries that are in RAM.
    #[inline(always)]
    fn write_whole_paged<const STORES: bool>(
        &mut self,
        id: ReqId,
        pages: &Pages,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> Slowest {
        let mut slowest = Slowest::none(cx.now);
        let (mut ready, mut usage) = (cx.now, Usage::default());
        let mut lpn = pages.first;
        while lpn < pages.end {
            let Taken { ppn, plane, low } = self.take_host_page(cause, cx);
            self.paging.touched(Lpn(lpn));
            let old = match self.map.update_cached(Lpn(lpn), ppn) {
                Some(old) => old,
                None => {
                    let (old, known) = self.update_uncached(Lpn(lpn), ppn, ready, cause, cx);
                    ready = known;
                    old
                }
            };
            ready = self.entry_comes(Lpn(lpn), ready);
            self.note_kept_idle(ppn, ready, cx.now);
            let page = self.blocks.layout().page(ppn);
            let (time, occupied) = self.lanes.program(plane, ready, self.serial, page);
            usage.die += occupied;
            self.seq += 1;
            self.last_change = self.last_change.later(time.end);
            self.blocks.programmed(ppn, Content::Data(Lpn(lpn)));
            if let Some(old) = old {
                self.blocks.invalidate(old, time.end);
                self.blocks.forget(old);
            }
            if STORES {
                let data = cx.requests[id].payload.slice(self.host.before(pages, lpn));
                self.store(Lpn(lpn), ppn, None, self.host.sectors(None), data, &time, cx);
            }
            slowest.note(ready, time);
            if low {
                self.clear_some(plane, cause, cx);
            }
            lpn += 1;
        }
        self.wrote_whole(pages.end - pages.first, usage, cause, cx);
        slowest
    }

    /// Puts a page at `ppn` whose entry may have to be fetched; returns where it lay and when that is known.
    #[inline(never)]
    fn update_uncached(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        ready: Instant,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> (Option<Ppn>, Instant) {
        let old = self.map.update(lpn, Some(ppn), &mut self.paging.ops);
        (old, self.run_map_ops(ready, cause, cx))
    }

    /// Writes one page or part of one; returns when its entry was at hand.
    #[allow(clippy::too_many_arguments)] // one page of a request, with what the request adds up
    fn write_page_paged(
        &mut self,
        lpn: Lpn,
        part: Option<super::host::Part>,
        data: Payload,
        mut ready: Instant,
        usage: &mut Usage,
        slowest: &mut Waits,
        (cause, cx): (TenantId, &mut Cx<'_>),
    ) -> Instant {
        let ppn = self.next_host_page(lpn, cause, cx);
        let (came, issued) = (ready, self.serial);
        let mut before = None;
        if part.is_some() && self.host.merges {
            (before, ready) = self.look_up(lpn, ready, cause, cx);
        }
        let read = before;
        if part.is_some() && !self.host.merges {
            before = self.map.get(lpn);
        }
        self.paging.touched(lpn);
        let old = self.map.update(lpn, Some(ppn), &mut self.paging.ops);
        let known = self.run_map_ops(ready, cause, cx);
        ready = self.entry_comes(lpn, known);
        if part.is_some() || self.serial != issued || ready != came {
            // Pages that begin at different times share no array operation, nor does one share it with a translation page
            // that was read for collection before.
            self.serial = self.serial.wrapping_add(1);
        }
        let premerge = read.map(|old| self.premerge(old, ready, usage));
        let time = self.program(ppn, premerge.map_or(ready, |read| read.end), Content::Data(lpn), usage);
        self.count.host_pages_written += 1;
        if let Some(old) = old {
            self.supersede(old, time.end);
            self.blocks.forget(old);
        }
        self.store(lpn, ppn, before, self.host.sectors(part), data, &time, cx);
        slowest.note(ready, premerge, time);
        self.clear_after_write(self.blocks.layout().plane(ppn), cause, cx);
        ready
    }

    /// Writes one page or part of one from the write buffer; returns when it is complete.
    pub(super) fn write_out_page_paged(
        &mut self,
        lpn: Lpn,
        part: Option<super::host::Part>,
        data: Payload,
        usage: &mut Usage,
        (cause, cx): (TenantId, &mut Cx<'_>),
    ) -> Instant {
        self.map.begin(Lpn(lpn.0 + 1));
        let (now, mut slowest) = (cx.now, Waits::none(cx.now));
        self.write_page_paged(lpn, part, data, now, usage, &mut slowest, (cause, cx));
        slowest.end()
    }

    pub(super) fn trim_paged(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (cause, flags, now) = (request.cause, request.flags, cx.now);
        let pages = self.host.pages(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        self.map.begin(Lpn(pages.end));
        let mut slowest = Waits::none(now);
        let mut usage = Usage::default();
        let mut ready = now;
        for lpn in (pages.first..pages.end).map(Lpn) {
            let (at, known) = self.look_up(lpn, ready, cause, cx);
            if known != ready {
                self.serial = self.serial.wrapping_add(1);
            }
            ready = known;
            slowest.map_only(ready);
            match (at, self.host.part(&pages, lpn.0)) {
                (None, _) => {}
                (Some(_), None) => {
                    self.paging.touched(lpn);
                    let old = self.map.update(lpn, None, &mut self.paging.ops);
                    ready = self.run_map_ops(ready, cause, cx);
                    self.trimmed(lpn, old, now);
                    old.into_iter().for_each(|old| self.blocks.forget(old));
                }
                (Some(_), part) => {
                    let to = (cause, &mut *cx);
                    ready =
                        self.write_page_paged(lpn, part, Payload::NONE, ready, &mut usage, &mut slowest, to);
                }
            }
        }
        usage.charge(cx, cause, Work::Write);
        let extents = nandu_ftl::trim_journal::TrimJournal::extents_per_record(1 << self.host.page_bits);
        if flags.has(Flags::FUA) || self.journal.pending() >= extents {
            let recorded = self.record_trims(cx, cause);
            if recorded >= slowest.end() {
                self.explain_record(id, recorded, cx);
                return Step::FinishAt(id, recorded);
            }
        }
        slowest.explain_write(now, self.lanes.timing(), &mut cx.requests[id].path);
        self.finish(id, slowest.end(), cx)
    }

    /// Whether a page that counts as valid is, for collection.
    #[inline(never)]
    pub(super) fn is_live_paged(&mut self, lpn: Lpn, ppn: Ppn, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        let live = self.map.is_live(lpn, ppn, &mut self.paging.ops);
        self.run_map_ops(cx.now, cause, cx);
        live
    }

    /// Tells the map that collection has moved a page.
    #[inline(never)]
    pub(super) fn relocate_paged(&mut self, lpn: Lpn, from: Ppn, to: Ppn, cause: TenantId, cx: &mut Cx<'_>) {
        self.blocks.forget(from);
        self.paging.touched(lpn);
        self.map.relocate(lpn, to, &mut self.paging.ops);
        self.run_map_ops(cx.now, cause, cx);
    }

    /// Writes all changed entries, at a clean end.
    pub(super) fn write_map_back(&mut self, cx: &mut Cx<'_>) {
        self.map.write_back_all(&mut self.paging.ops);
        self.run_map_ops(cx.now, TenantId::SYSTEM, cx);
    }

    /// The figures of the map.
    pub(super) fn map_counters(&self, out: &mut Vec<Counter>) {
        let (m, c) = (self.map.counts(), &self.paging.count);
        let mut put = |name, value| out.push(Counter { name, value });
        put("map_hits", m.hits);
        put("map_misses", m.misses);
        put("map_pages_read", c.pages_read);
        put("map_reads_for_misses", m.loads);
        put("map_reads_delayed", m.fills);
        put("map_reads_saved", m.reads_saved);
        put("map_reads_for_liveness", m.liveness_reads);
        put("map_pages_written", c.pages_written);
        put("map_evictions_written", m.write_backs);
        put("map_gc_batches", m.move_batches);
        put("map_gc_moves_batched", m.moves_batched);
        put("map_gc_pages_moved", c.pages_moved);
        put("map_gc_blocks_cleared", c.blocks_cleared);
        put("map_die_kept_idle_ns", c.kept_idle.0);
        put("map_entries_visited", m.visits);
        put("map_entries_a_scan_visits", m.scan_visits);
        put("map_invalidations_unknown", self.map.unsettled());
        put("map_directory_bytes", self.map.directory_ram());
        put("map_cache_slots", u64::from(self.map.cache_slots()));
        if M::GATHERS {
            let gathered = &self.paging.gatherer.count;
            put("map_blocks_gathered", gathered.blocks);
            put("map_pages_gathered", gathered.pages);
            put("map_gatherings_given_up", gathered.given_up);
            put("map_gatherings_without_room", gathered.no_room);
        }
        if let Some(keeper) = &self.paging.keeper {
            put("map_checkpoints", keeper.count.taken);
            put("map_checkpoint_pages", keeper.count.pages);
        }
    }
}
