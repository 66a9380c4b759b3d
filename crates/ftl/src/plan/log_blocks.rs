//! A drive with a log-block map: the pages that its map takes, the merges before them, and trims as marks.
//!
//! The map ([`crate::log_block`]) says where a page goes. When there is no place for it, a merge comes first: its copies and erases
//! are issued together with the page, each behind the one before in its pool (the executor keeps their order). So the
//! page waits for the whole merge, and so does what is written to its pool after it; reads, and other pools, go on: a copy that
//! waits for another holds no die, a read that comes meanwhile finds its die free after one copy at most, and a page that has not
//! moved yet is read where it lies. That is where the
//! freezes of such drives come from: nothing here is drawn or scripted.
//!
//! *Bound.* One page sets off the merges of one log block: at most as many copies as a block has pages, times the logical blocks that
//! have pages in it, which are as many as it has pages (FAST) or one. An operation that waits takes 170 bytes.
//!
//! *Tenants* that are kept apart have log blocks and merges of their own, in planes or parts of planes that are their own; what a tenant's writes merge is its own pages.
//!
//! *Trims* are marks in the log: a page that names unmapped pages of one logical block. A trim ends when its marks are programmed, so
//! it is durable, and there is no journal.
//!
//! *Power cuts*: what changes a pool is done in the order of issue, so a cut finds a pool as the map left it some operations ago; see
//! [`crate::log_block::recover`] and `recover` here.
//!
//! Wear, and merges while the drive is idle, are in `upkeep`. What counts erases is the table of blocks, as with every map; which blocks are free and what they hold is the map's.

mod recover;
mod upkeep;

use super::flash::{After, Copying, Erasing, Job, Pieces, Programming, Reading};
use super::pages::{Part, put_words};
use super::{Flash, Planner};
use crate::log_block::{LogMap, Step, Tag, Taken, Unmapped};
use crate::mapping::Mapping;
use crate::{Lpn, Ppn};
use nandu_base::{Cx, Oob, Overlay, Payload, Report, ReqId, Step as Answer, TenantId, Violation, Work};

/// The first word of a mark.
const MARK_MAGIC: u32 = 0x4E4C_4D31; // "NLM1"

/// The bytes of a mark: pages `first..end` of the pool were unmapped.
fn encode_mark(first: u32, end: u32, page: &mut [u8]) {
    put_words(&[MARK_MAGIC, first, end], page);
}

/// Reads the bytes of a mark. `None` when they are none.
fn decode_mark(page: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    (word(0)? == MARK_MAGIC).then_some((word(4)?, word(8)?))
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    #[inline(always)]
    pub(super) fn log(&self) -> &LogMap {
        self.map.log_blocks().expect("only asked of a drive with a log-block map")
    }

    #[inline(always)]
    pub(super) fn log_mut(&mut self) -> &mut LogMap {
        self.map.log_blocks_mut().expect("only asked of a drive with a log-block map")
    }

    /// The die that a pool lies in.
    fn die_of_pool(&self, pool: u32) -> u32 {
        self.log().plane_of(pool) >> self.host.plane_bits
    }

    /// Writes one page or part of one, behind the merges that it needs.
    pub(super) fn write_logged(
        &mut self,
        lpn: Lpn,
        part: Option<Part>,
        data: Payload,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        let (pool, local) = self.log().home(lpn.0);
        self.find_room_for_log(pool, local, pieces.cause, cx);
        let taken = loop {
            self.merge(pool, pieces.cause, cx);
            if let Some(taken) = self.log_mut().pool_mut(pool).take(local) {
                break taken;
            }
        };
        let older = taken.old.map(|old| self.log().ppn(pool, old));
        let base = older.filter(|_| part.is_some());
        let mut after = pieces.after;
        if let Some(old) = base.filter(|_| self.host.merges) {
            self.count.pages_premerged += 1;
            let read = self.exec.read(Reading::of(Job::PreRead, old, lpn.0, after), pieces, cx);
            after = self.exec.behind(read, pieces);
        }
        self.count.host_pages_written += 1;
        if self.tenants.is_some() {
            self.count_written(lpn);
        }
        let Part { first, count } = self.host.page.sectors_of(part);
        let overlay = Some(Overlay { first, count, payload: data });
        let taken = self.programming(pool, &taken, Job::Program, after);
        self.exec.program(Programming { base, overlay, older, ..taken }, pieces, cx);
    }

    /// The program of a page that the map has taken; it has the next number.
    fn programming(&mut self, pool: u32, taken: &Taken, job: Job, after: After) -> Programming<F::Given> {
        let (ppn, oob) = self.next_of(pool, taken);
        Programming::of(job, ppn, oob, after)
    }

    /// Where a page lies that the map has taken, and what is on record with it.
    fn next_of(&mut self, pool: u32, taken: &Taken) -> (Ppn, Oob) {
        self.seq += 1;
        (self.log().ppn(pool, taken.spot), Oob { key: taken.tag.word(), seq: self.seq })
    }

    /// Issues the merge that has begun in a pool, if one has, and what follows it.
    fn merge(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) {
        if self.log().pool(pool).is_merging() {
            self.issue_merge(pool, cause, cx);
            self.log_was_merged(pool);
            self.level_logged(pool, cause, cx);
        }
    }

    pub(super) fn issue_merge(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) {
        while let Some(step) = self.log_mut().pool_mut(pool).step() {
            self.issue_step(pool, step, cause, Work::Gc, cx);
        }
    }

    fn issue_step(&mut self, pool: u32, step: Step, cause: TenantId, work: Work, cx: &mut Cx<'_>) {
        let mut pieces = Pieces::of_nobody(cx, cause, work);
        let after = After::now(cx);
        match step {
            Step::Copy { from, mut to } => {
                to.tag.is_last |=
                    self.planted.merge_counts_early && self.log().pool(pool).region().position(to.spot) == 0;
                let from = self.log().ppn(pool, from);
                let (to, oob) = self.next_of(pool, &to);
                self.count.pages_moved += 1;
                self.count_of_pool(pool, |count| count.moved += 1);
                let (from_slc, to_slc, is_map) = (false, false, false);
                let copying = Copying { from, to, oob, from_slc, to_slc, after, is_map };
                self.exec.copy(copying, &mut pieces, cx);
            }
            Step::Filler(to) => {
                let filler = self.programming(pool, &to, Job::MoveProgram, after);
                self.exec.program(filler, &mut pieces, cx);
            }
            Step::Erase(number) => {
                let block = self.log().block(pool, number);
                self.count.erases += 1;
                self.erases_ever += 1;
                self.count_of_pool(pool, |count| count.erases += 1);
                if !(self.planted.wear_falls && self.count.erases.is_multiple_of(4)) {
                    self.blocks.wore(block);
                }
                self.exec.erase(Erasing { unit: block, after, is_slc: false, cause, work }, cx);
                self.note_erased(pool, number);
            }
        }
    }

    /// Unmaps whole pages; parts of pages become zeros.
    pub(super) fn trim_logged(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Answer {
        let request = &cx.requests[id];
        let cause = request.cause;
        let pages = self.host.page.pages(request.offset, request.len);
        self.exec.begin_group();
        let mut pieces = Pieces::of_request(id, cx, cause, Work::Write);
        let (mut first, mut end) = (pages.first, pages.end);
        for lpn in [pages.first, pages.end - 1] {
            let part = self.host.page.part(&pages, lpn);
            if part.is_none() || lpn < first || lpn >= end {
                continue;
            }
            (first, end) = if lpn == pages.first { (lpn + 1, end) } else { (first, lpn) };
            if self.map.get(Lpn(lpn)).is_some() {
                self.write_logged(Lpn(lpn), part, Payload::NONE, &mut pieces, cx);
            } else {
                self.wait_for_pool(self.log().home(lpn).0, &mut pieces);
            }
        }
        for turn in 0..self.log().turns() {
            let (pool, range) = self.log().in_pool(turn, first, first.max(end));
            let pages = self.blocks.layout().pages;
            let mut first = range.start;
            while first < range.end {
                let end = range.end.min((first / pages + 1) * pages);
                self.unmap_pages(pool, first, end, &mut pieces, cx);
                first = end;
            }
        }
        self.exec.finish_pieces(id, pieces, cx)
    }

    /// Unmaps pages of one logical block of a pool.
    fn unmap_pages(&mut self, pool: u32, first: u32, end: u32, pieces: &mut Pieces<F>, cx: &mut Cx<'_>) {
        self.find_room_for_log(pool, first, pieces.cause, cx);
        loop {
            self.merge(pool, pieces.cause, cx);
            match self.log_mut().pool_mut(pool).unmap(first, end) {
                None => {}
                Some(Unmapped::Nothing) => return self.wait_for_pool(pool, pieces),
                Some(Unmapped::Merge) => {
                    self.merge(pool, pieces.cause, cx);
                    return self.wait_for_pool(pool, pieces);
                }
                Some(Unmapped::Mark(taken)) => return self.mark(pool, &taken, first, end, pieces, cx),
            }
        }
    }

    /// A trim of what is not mapped, or is merged away, ends when what has unmapped it is complete: at the latest with all that
    /// changes the pool.
    fn wait_for_pool(&mut self, pool: u32, pieces: &mut Pieces<F>) {
        self.exec.wait_for_pool(pool, pieces);
    }

    /// Programs the mark of a trim.
    fn mark(
        &mut self,
        pool: u32,
        taken: &Taken,
        first: u32,
        end: u32,
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        let lost = self.planted.lost_mark;
        let taken = Taken { tag: Tag { is_filler: lost, is_mark: !lost, ..taken.tag }, ..*taken };
        let overlay = self.host.page.own(cx, |page| encode_mark(first, end, page));
        let mark = self.programming(pool, &taken, Job::Mark, pieces.after);
        self.exec.program(Programming { overlay, ..mark }, pieces, cx);
    }

    /// Maps every logical page, as if the drive had been written once from start to end; a large drive by rule.
    pub(super) fn fill_logged(&mut self) {
        let logical = self.host.logical;
        self.seq = u64::from(logical);
        if logical >= self.host.by_rule_from && self.fill_logged_by_rule() {
            return;
        }
        for lpn in 0..logical {
            let Some((pool, local)) = self.log().find(lpn) else { continue };
            let taken = self.log_mut().pool_mut(pool).take(local);
            assert!(taken.is_some(), "an empty drive takes its pages in order without a merge");
        }
    }

    /// The same without an entry for any page; false, and nothing has changed, where the rule does not hold.
    fn fill_logged_by_rule(&mut self) -> bool {
        let (turns, logical) = (self.log().turns(), self.host.logical);
        let in_pool = |ssd: &Self, turn| {
            let (pool, pages) = ssd.log().in_pool(turn, 0, logical);
            (pool, pages.end)
        };
        let holds = |(pool, pages)| self.log().pool(pool).region().opens_in_order(pages);
        if !(0..turns).map(|turn| in_pool(self, turn)).all(holds) {
            return false;
        }
        for turn in 0..turns {
            let (pool, pages) = in_pool(self, turn);
            self.log_mut().pool_mut(pool).region_mut().begin(pages);
        }
        true
    }

    /// Pages that were programmed beside the host's and those that moved: marks of trims and fillers.
    pub(super) fn programmed_by_map(&self) -> u64 {
        self.map.log_blocks().map_or(0, |map| map.regions().map(|r| r.count.fillers + r.count.marks).sum())
    }

    /// The figures of merges.
    pub fn report_log_blocks(&self, report: &mut Report) {
        let Some(map) = self.map.log_blocks() else { return };
        let count = map.merged();
        let pages = u64::from(self.blocks.layout().pages);
        let mut put = |name, value| report.put(name, value);
        put("merges_switch", count.switches);
        put("merges_partial", count.partials);
        put("merges_full", count.fulls);
        put("filler_pages", count.fillers);
        put("trim_mark_pages", count.marks);
        put("log_blocks_open", map.logs());
        put("log_blocks_closed", count.logs_closed);
        put("log_pages_used", count.log_pages_used);
        put("log_pages_closed", count.logs_closed * pages);
    }

    /// I-5 and I-16 of a drive whose blocks its map looks after.
    pub fn check_logged(&self) -> Result<(), Violation> {
        self.map.check().map_err(|what| Violation { invariant: "I-5", what })?;
        let map = self.log();
        for (pool, region) in (0..).zip(map.regions()) {
            let is_used = |&block: &u32| {
                let id = map.block(pool, block);
                map.pool_of(id) == pool && self.blocks.is_bad(id) && region.written(block) > 0
            };
            if let Some(block) = (0..region.shape().blocks).find(is_used) {
                let what = format!("block {block} of pool {pool} is bad and holds pages");
                return Err(Violation { invariant: "I-16", what });
            }
        }
        self.check_logged_tenants()?;
        let wear: u64 = self.blocks.layout().all_blocks().map(|b| u64::from(self.blocks.erases(b))).sum();
        if wear != self.erases_ever {
            let what = format!("the blocks count {wear} erases, {} were done", self.erases_ever);
            return Err(Violation { invariant: "I-16", what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_it_was_written() {
        let mut page = vec![0; 512];
        encode_mark(70_000, 70_031, &mut page);
        assert_eq!(decode_mark(&page), Some((70_000, 70_031)));
        assert_eq!(decode_mark(&[0; 512]), None);
    }
}
