//! Maps that are partly on the flash: their translation pages' time, place and content.
//!
//! A request's pages are translated one after another (O2-9): a data page begins when the translation pages that it
//! needed have come, and so does every later page of the request. An entry that another request is still fetching is
//! there when that fetch ends. Translation pages are placed over the planes in turn, in blocks of their own
//! ([`crate::map_area`]). What they take is charged as [`Work::Map`] to the tenant that caused it, and is
//! [`Phase::Map`](nandu_base::Phase::Map) on the path of a request that waited for it.
//!
//! *Tenants* that are kept apart have translation pages of their own ([`crate::mapping::MapShape`]), in blocks that come off their units. What is read,
//! written and collected for one is charged to the one that last needed an entry of that tenant's which was not in RAM: so a write-back that another one's
//! miss sets off is its own. The RAM for entries they share.
//!
//! With `data_program = "at-once"` a whole page does not wait: its place is known, and the entry is needed only to say which page is
//! superseded. The request ends when both are there.
//!
//! *A map in RAM* takes the same way: it answers at once, asks for no translation page, and so nothing waits for it. What is left to ask is
//! whether it has translation pages (`has_map_pages`), which the compiler knows one in RAM not to have.
//!
//! A data page that waits for a translation page holds no die meanwhile: it gets its place there when the translation page has come.

use super::checkpoint::Keeper;
use super::flash::{After, Erasing, Job, Pieces, Programming, Reading};
use super::gather::Gatherer;
use super::pages::put_words;
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::mapping::{MapOp, MapOps, Mapping, Tp};
use crate::{BlockId, BlockTable, Lpn, MapArea, Ppn};
use nandu_base::{Cx, Oob, Overlay, Program, Report, TenantId, Window, Work};

/// What a drive keeps for a map that is partly on the flash.
pub struct Paging {
    /// What the map asks for.
    pub ops: MapOps,
    /// The blocks of translation pages.
    pub area: MapArea,
    /// Whether an entry waits until what made room for it is written.
    waits_for_write: bool,
    /// Whether whole pages of the host's are programmed before their entries have come.
    pub programs_at_once: bool,
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
}

impl Paging {
    /// Of a map whose blocks are these.
    pub fn new(
        area: MapArea,
        waits_for_write: bool,
        programs_at_once: bool,
        keeper: Option<Keeper>,
    ) -> Paging {
        Paging {
            ops: MapOps::default(),
            area,
            waits_for_write,
            programs_at_once,
            keeper,
            gatherer: Gatherer::default(),
            count: Counts::default(),
        }
    }

    /// Takes the blocks of the map from an erased drive; false when they are too few.
    pub fn claim(&mut self, blocks: &mut BlockTable) -> bool {
        let anchors = self.keeper.as_ref().map_or(0, |keeper| keeper.anchors.per_plane());
        blocks.set_apart(anchors) && self.area.claim(blocks)
    }

    /// Whether the block holds checkpoints.
    pub fn is_anchor(&self, block: BlockId) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.anchors.owns(block))
    }

    /// Forgets everything that a loss of power takes.
    pub fn restart(&mut self) {
        self.area = self.area.anew();
        self.ops.clear();
        self.gatherer.restart();
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

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Carries out what the map has asked for, behind `after`; returns the last of it that must be waited for.
    #[inline(always)]
    pub(super) fn run_map_ops(&mut self, after: After, cause: TenantId, cx: &mut Cx<'_>) -> After {
        if self.paging.ops.list().is_empty() {
            return after;
        }
        self.run_some_map_ops(after, cause, cx)
    }

    #[inline(never)]
    fn run_some_map_ops(&mut self, after: After, cause: TenantId, cx: &mut Cx<'_>) -> After {
        let outer = self.exec.work_for(Work::Map);
        let mut done = after;
        let mut next = 0;
        // What is done for one payer.
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Map);
        // Everything that waits now, once that is asked for.
        let mut changes = None;
        let is_shared = self.tenants.is_some();
        // None of them asks for another.
        while let Some(&op) = self.paging.ops.list().get(next) {
            next += 1;
            if is_shared && let MapOp::Read(tp) | MapOp::Write(tp) = op {
                pieces.charge(cx);
                pieces.cause = self.payer_of(tp, cause);
            }
            match op {
                MapOp::Read(tp) => done = self.read_map_page(tp, done, &mut pieces, cx),
                MapOp::Write(tp) => {
                    let end = self.write_map_page(tp, done, &mut pieces, cx);
                    if self.paging.waits_for_write {
                        done = end;
                    }
                }
                MapOp::Stale(ppn) => {
                    // The newer version is one of those issued so far.
                    self.give_up(ppn, self.exec.all_given());
                    self.blocks.forget(ppn);
                    self.exec.keep_until_changes(ppn, &mut changes, cx);
                }
            }
        }
        pieces.charge(cx);
        self.exec.work_for(outer);
        self.check_map_pages_read(cx);
        self.paging.ops.clear();
        // What comes after them begins at another time and shares no array operation with them.
        self.exec.begin_group();
        done
    }

    #[inline(always)]
    fn read_map_page(&mut self, tp: Tp, after: After, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) -> After {
        let ppn =
            self.map.translation_page(tp).expect("a map asks only for translation pages that were written");
        self.exec.begin_group();
        self.paging.count.pages_read += 1;
        let given = self.exec.read(Reading::of(Job::MapRead, ppn, tp.0, after), pieces, cx);
        self.exec.behind(given, pieces)
    }

    /// Writes a translation page to the next place for one; returns when it is complete.
    #[inline(never)]
    pub(super) fn write_map_page(
        &mut self,
        tp: Tp,
        after: After,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) -> After {
        let pool = self.pool_for_map_page(tp);
        if let Some(block) = self.paging.area.must_clear(pool) {
            self.clear_map_block(block, pieces.cause, cx);
        }
        let ppn = self.paging.area.take(pool);
        self.exec.begin_group();
        let content = Content::Map(tp);
        self.paging.count.pages_written += 1;
        let older = self.map.place(tp, ppn);
        self.seq += 1;
        self.blocks.programmed(ppn, content);
        let oob = Oob { key: super::recover::key(content), seq: self.seq };
        let after = self.exec.behind_opened(after);
        let (overlay, is_map) = (self.map_page_bytes(tp, cx), true);
        let page = Programming::of(Job::MapProgram, ppn, oob, after);
        let programming = Programming { overlay, older, is_map, ..page };
        let given = self.exec.program(programming, pieces, cx);
        if let Some(older) = older {
            self.paging.area.superseded(older);
        }
        self.exec.behind(given, pieces)
    }

    /// The words of a translation page in little endian, held until they are let go.
    fn map_page_bytes(&self, tp: Tp, cx: &mut Cx<'_>) -> Option<Overlay> {
        self.host.page.own(cx, |page| put_words(&self.map.stored(tp), page))
    }

    /// Puts the words of a translation page on the medium, in little endian.
    pub(super) fn store_map_page(&self, tp: Tp, ppn: Ppn, seq: u64, window: Window, cx: &mut Cx<'_>) {
        let Some(overlay) = self.map_page_bytes(tp, cx) else { return };
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let oob = Oob { key: super::recover::key(Content::Map(tp)), seq };
        let unit = self.exec.unit(ppn);
        medium.program(cx.pool, &Program { unit, base: None, overlay: Some(overlay), oob, window });
        cx.pool.release(overlay.payload);
    }

    /// Moves the valid translation pages of a block into the erased block of the map that its pool has, and erases it.
    pub(super) fn clear_map_block(&mut self, block: BlockId, cause: TenantId, cx: &mut Cx<'_>) {
        let pool = self.blocks.pool_of_block(block);
        let first = self.blocks.layout().first_page(block).0;
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Map);
        let outer = self.exec.work_for(Work::Map);
        for from in (first..first + self.blocks.layout().pages).map(Ppn) {
            match self.blocks.content(from) {
                Content::Map(tp) if self.map.translation_page(tp) == Some(from) => {
                    self.move_map_page(tp, from, pool, &mut pieces, cx);
                }
                _ => {}
            }
        }
        pieces.charge(cx);
        self.exec.work_for(outer);
        self.erase_map_block(block, cause, cx);
    }

    /// Erases a block of the map without valid pages.
    pub(super) fn erase_map_block(&mut self, block: BlockId, cause: TenantId, cx: &mut Cx<'_>) {
        let outer = self.exec.work_for(Work::Map);
        let after = After::now(cx);
        self.exec.erase(Erasing { unit: block, after, is_slc: false, cause, work: Work::Map }, cx);
        self.exec.work_for(outer);
        self.paging.area.erased(block, &mut self.blocks);
        self.tenants_map_block_erased(block);
        self.attention |= self.blocks.has_ended();
        self.paging.count.blocks_cleared += 1;
        self.erases_ever += 1;
    }

    fn move_map_page(&mut self, tp: Tp, from: Ppn, pool: u32, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        let to = self.paging.area.take(pool);
        self.copy(from, to, Content::Map(tp), pieces, cx);
        self.paging.count.pages_moved += 1;
        self.map.place(tp, to);
        self.paging.area.superseded(from);
    }

    /// The entry of a page changes in RAM.
    #[inline(always)]
    fn entry_changes(&mut self, lpn: Lpn) {
        if self.has_map_pages()
            && let Some(keeper) = &mut self.paging.keeper
        {
            keeper.touched.push(lpn.0);
        }
    }

    /// When the entry of `lpn` is in RAM, which is not before `after`.
    #[inline(always)]
    fn entry_comes(&mut self, lpn: Lpn, after: After) -> After {
        if !self.has_map_pages() || self.exec.entries_are_there(after) {
            return after;
        }
        self.exec.entry_comes(self.map.tp(lpn), after)
    }

    /// Looks a page up; returns where it lies and when that is known.
    #[inline(never)]
    fn look_up(&mut self, lpn: Lpn, after: After, cause: TenantId, cx: &mut Cx<'_>) -> (Option<Ppn>, After) {
        self.note_asker(lpn, cause);
        let at = self.map.lookup(lpn, &mut self.paging.ops);
        let after = self.run_map_ops(after, cause, cx);
        (at, self.entry_comes(lpn, after))
    }

    /// Where a page lies; `after` is when that is known, for whatever the request asks for next.
    #[inline(always)]
    pub fn translate(
        &mut self,
        lpn: Lpn,
        after: &mut After,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> Option<Ppn> {
        let (at, known) = match self.map.lookup_cached(lpn) {
            Some(at) => (at, self.entry_comes(lpn, *after)),
            None => self.look_up(lpn, *after, cause, cx),
        };
        self.goes_on_after(known, after);
        at
    }

    /// Pages that begin at different times share no array operation.
    #[inline(always)]
    fn goes_on_after(&mut self, known: After, after: &mut After) {
        if known != *after {
            self.exec.begin_group();
            *after = known;
        }
    }

    /// Whether pages that are programmed wait for their entries.
    #[inline(always)]
    pub(super) fn waits_for_entries(&self) -> bool {
        self.has_map_pages() && !self.paging.programs_at_once
    }

    /// The page at `old` is known to be superseded: a map that is partly on the flash is not asked about it again. One in RAM tells for less than a mark
    /// of a page far away would cost.
    #[inline(always)]
    pub(super) fn forget_old(&mut self, old: Ppn) {
        if self.has_map_pages() {
            self.blocks.forget(old);
        }
    }

    /// Enters that a whole page lies at `ppn` now; returns where it lay, as far as that is known. `after` is when it is.
    #[inline(always)]
    pub(super) fn enter_whole(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        after: &mut After,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> Option<Ppn> {
        self.entry_changes(lpn);
        let (old, known) = match self.map.update_cached(lpn, ppn) {
            Some(old) => (old, *after),
            None => self.enter_uncached(lpn, ppn, *after, cause, cx),
        };
        let known = self.entry_comes(lpn, known);
        self.goes_on_after(known, after);
        old
    }

    #[inline(never)]
    fn enter_uncached(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        after: After,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) -> (Option<Ppn>, After) {
        self.note_asker(lpn, cause);
        let old = self.map.update(lpn, Some(ppn), &mut self.paging.ops);
        (old, self.run_map_ops(after, cause, cx))
    }

    /// Enters that a page, or a part of one, lies at `ppn` now; returns where the rest of it lies, and where it lay as far as that is known.
    pub(super) fn enter_part(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        is_part: bool,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) -> (Option<Ppn>, Option<Ppn>) {
        let (mut after, issued) = (pieces.after, self.exec.group());
        self.note_asker(lpn, pieces.cause);
        let mut base = None;
        if is_part && self.host.merges {
            (base, after) = self.look_up(lpn, after, pieces.cause, cx);
        } else if is_part {
            base = self.map.get(lpn);
        }
        self.entry_changes(lpn);
        let old = self.map.update(lpn, Some(ppn), &mut self.paging.ops);
        let after = self.run_map_ops(after, pieces.cause, cx);
        let after = self.entry_comes(lpn, after);
        if self.exec.group() != issued || after != pieces.after {
            // Pages that begin at different times share no array operation, nor does one share it with a translation page
            // that was read for collection before.
            self.exec.begin_group();
        }
        pieces.after = after;
        (base, old)
    }

    /// Unmaps a page.
    pub(super) fn unmap(&mut self, lpn: Lpn, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        self.note_asker(lpn, pieces.cause);
        self.entry_changes(lpn);
        let old = self.map.update(lpn, None, &mut self.paging.ops);
        pieces.after = self.run_map_ops(pieces.after, pieces.cause, cx);
        self.trimmed(lpn, old);
        old.into_iter().for_each(|old| self.forget_old(old));
    }

    /// Whether a page that counts as valid is, for collection.
    #[inline(never)]
    pub(super) fn is_live(&mut self, lpn: Lpn, ppn: Ppn, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        let live = self.map.is_live(lpn, ppn, &mut self.paging.ops);
        self.run_map_ops(After::now(cx), cause, cx);
        live
    }

    /// Tells the map that a page has moved.
    #[inline(never)]
    pub(super) fn relocate(&mut self, lpn: Lpn, from: Ppn, to: Ppn, cause: TenantId, cx: &mut Cx<'_>) {
        self.forget_old(from);
        self.entry_changes(lpn);
        self.map.relocate(lpn, to, &mut self.paging.ops);
        self.run_map_ops(After::now(cx), cause, cx);
    }

    /// Whether the map has translation pages on the flash. The compiler knows that one in RAM has none.
    #[inline(always)]
    pub fn has_map_pages(&self) -> bool {
        self.map.store().is_some()
    }

    /// Writes all changed entries, at a clean end.
    pub fn write_map_back(&mut self, cx: &mut Cx<'_>) {
        self.map.write_back_all(&mut self.paging.ops);
        self.run_map_ops(After::now(cx), TenantId::SYSTEM, cx);
    }

    /// Puts in the figures of the map and its RAM, or counts them anew.
    pub fn report_map(&mut self, report: &mut Report) {
        if report.wants_counters() && self.has_map_pages() {
            self.put_map_counters(report);
        }
        report.put("map_ram_bytes", self.map.ram());
        if report.begins_anew() {
            self.map.reset_counts();
        }
        let Paging { count, gatherer, keeper, .. } = &mut self.paging;
        report.restart(count);
        report.restart(&mut gatherer.count);
        keeper.iter_mut().for_each(|keeper| report.restart(&mut keeper.count));
    }

    fn put_map_counters(&self, report: &mut Report) {
        let (m, c) = (self.map.counts(), &self.paging.count);
        let mut put = |name, value| report.put(name, value);
        put("cmt_hits", m.hits);
        put("cmt_misses", m.misses);
        put("map_pages_read", c.pages_read);
        put("map_reads_for_misses", m.loads);
        put("map_reads_delayed", m.fills);
        put("map_reads_saved", m.reads_saved);
        put("map_reads_for_liveness", m.liveness_reads);
        put("map_pages_written", c.pages_written);
        put("cmt_evictions_written", m.write_backs);
        put("map_gc_batches", m.move_batches);
        put("map_gc_moves_batched", m.moves_batched);
        put("map_gc_pages_moved", c.pages_moved);
        put("map_gc_blocks_collected", c.blocks_cleared);
        put("map_entries_visited", m.visits);
        put("map_entries_per_scan", m.scan_visits);
        put("map_invalidations_unknown", self.map.unsettled());
        put("map_directory_bytes", self.map.directory_ram());
        put("cmt_slots", u64::from(self.map.cache_slots()));
        if self.map.gathers() {
            let gathered = &self.paging.gatherer.count;
            put("map_blocks_converted", gathered.blocks);
            put("map_pages_converted", gathered.pages);
            put("map_conversions_given_up", gathered.given_up);
            put("map_conversions_without_room", gathered.no_room);
        }
        if let Some(keeper) = &self.paging.keeper {
            put("map_checkpoints", keeper.count.taken);
            put("map_checkpoint_pages", keeper.count.pages);
        }
    }
}
