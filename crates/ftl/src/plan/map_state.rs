//! Translation pages where no request waits for them: the fill of a drive, its start after a power cut, and checks.
//!
//! After a cut, the scan of out-of-band records or a checkpoint has told which version of each data page is the newest, and
//! the map was set to that. A translation page on the flash is used again when its words agree; the others are written
//! anew before the drive opens. A cut during that changes nothing but the number of old translation pages.

use super::flash::{Erasing, Pieces};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::mapping::{MapOp, Mapping, Tp};
use crate::plan::flash::{After, NONE};
use crate::{BlockId, Ppn};
use nandu_base::{ByteLen, Cx, TenantId, Violation, Window, Work};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Writes every translation page that is used, as part of a fill that is computed.
    pub(super) fn fill_map(&mut self) {
        for tp in (0..self.map.translation_pages()).map(Tp) {
            if !self.map.span(tp).any(|lpn| lpn < self.host.logical && self.is_somebodys(lpn, lpn + 1)) {
                continue;
            }
            let pool = self.pool_for_map_page(tp);
            let ppn = self.paging.area.take(pool);
            self.seq += 1;
            self.blocks.programmed(ppn, Content::Map(tp));
            self.map.place(tp, ppn);
        }
    }

    /// Puts the translation pages of the fill on the medium.
    pub(super) fn store_map_fill(&mut self, cx: &mut Cx<'_>) {
        let window = Window::PAST;
        let tps = (0..self.map.translation_pages()).map(Tp);
        let placed: Vec<(Tp, Ppn)> =
            tps.filter_map(|tp| Some((tp, self.map.translation_page(tp)?))).collect();
        for ((tp, ppn), seq) in placed.into_iter().zip(self.filled_to + 1..) {
            self.store_map_page(tp, ppn, seq, window, cx);
        }
    }

    /// Takes over the translation pages that a scan found, by translation page: a page whose words agree with the data
    /// pages is in use again, the others are written anew. Returns when all are complete.
    pub(super) fn recover_map(&mut self, found: &[(u64, Ppn)], cx: &mut Cx<'_>) -> After {
        let agrees = |tp: Tp, ssd: &Self, cx: &mut Cx<'_>| match found[tp.0 as usize] {
            (0, _) => ssd.map.stored(tp).iter().all(|&word| word == 0),
            (_, ppn) => ssd.map_page_agrees(tp, ppn, cx),
        };
        let pages = self.map.translation_pages();
        let anew: Vec<Tp> = (0..pages).map(Tp).filter(|&tp| !agrees(tp, self, cx)).collect();
        for (tp, &(seq, ppn)) in (0..).map(Tp).zip(found) {
            if seq > 0 && anew.binary_search(&tp).is_err() {
                self.map.place(tp, ppn);
                self.paging.area.restore_valid(ppn);
            }
        }
        let mut pieces = Pieces::of_nobody(cx, TenantId::SYSTEM, Work::Map);
        // Erases of this recovery count too.
        let mut end = self.exec.all_given().later(After::now(cx));
        for tp in anew {
            let after = After::now(cx);
            let written = self.write_map_page(tp, after, &mut pieces, cx);
            end = end.later(After { node: NONE, ..written });
        }
        // Nothing waits: the drive is alone with it.
        end = end.later(self.exec.all_given());
        pieces.charge_as(Work::Recovery, cx);
        end
    }

    /// Erases blocks, during recovery, of which nothing can be read: nobody knows whether they were the map's, or whose.
    pub(super) fn erase_torn_blocks(&mut self, torn: Vec<BlockId>, cx: &mut Cx<'_>) {
        for block in torn {
            self.erase_in_recovery(block, cx);
            self.blocks.erased(block);
        }
    }

    /// Makes sure, during recovery, that the pool has an erased block for the map. The cut may have undone the erase of
    /// the block that was cleared last: the block with the fewest newest translation pages goes, and those are written
    /// anew. They can be: everything in them is known from the data pages.
    pub(super) fn erase_least_map_block(&mut self, pool: u32, found: &mut [(u64, Ppn)], cx: &mut Cx<'_>) {
        let layout = *self.blocks.layout();
        let newest_in = |block: BlockId, found: &[(u64, Ppn)]| {
            found.iter().filter(|&&(seq, ppn)| seq > 0 && layout.block(ppn) == block).count()
        };
        let least = match self.paging.area.without_erased(pool) {
            Some(used) => used.min_by_key(|&block| newest_in(block, found)).expect("the map has blocks"),
            None => return,
        };
        for page in found.iter_mut().filter(|(_, ppn)| layout.block(*ppn) == least) {
            page.0 = 0;
        }
        self.erase_in_recovery(least, cx);
        self.paging.area.erased(least, &mut self.blocks);
    }

    fn erase_in_recovery(&mut self, block: BlockId, cx: &mut Cx<'_>) {
        let (after, cause) = (After::now(cx), TenantId::SYSTEM);
        let is_slc = self.blocks.is_slc(block);
        self.exec.erase(Erasing { unit: block, after, is_slc, cause, work: Work::Recovery }, cx);
        self.count.erases += 1;
        self.erases_ever += 1;
    }

    /// The part of I-5 about a block of the map: its valid pages are counted.
    pub(super) fn check_map_block(&self, block: BlockId) -> Result<(), Violation> {
        let first = self.blocks.layout().first_page(block).0;
        let valid = (first..first + self.blocks.layout().pages).map(Ppn).filter(|&ppn| {
            matches!(self.blocks.content(ppn), Content::Map(tp) if self.map.translation_page(tp) == Some(ppn))
        });
        let (valid, counted) = (valid.count() as u32, self.paging.area.valid_in(block).unwrap_or(0));
        if valid != counted {
            let what = format!("{block:?} has {valid} valid translation pages but counts {counted}");
            return Err(Violation { invariant: "I-5", what });
        }
        Ok(())
    }

    /// The map's own structure, and that every translation page in use is counted.
    pub(super) fn check_map(&self) -> Result<(), Violation> {
        self.map.check().map_err(|what| Violation { invariant: "I-4", what })?;
        let placed =
            (0..self.map.translation_pages()).filter(|&tp| self.map.translation_page(Tp(tp)).is_some());
        let (placed, counted) = (placed.count() as u64, self.paging.area.valid());
        if placed != counted {
            let what = format!("{placed} translation pages are in use, {counted} are counted");
            return Err(Violation { invariant: "I-5", what });
        }
        Ok(())
    }

    /// I-4, where contents are verified: what the drive goes on with is what it has just read from the flash.
    pub(super) fn check_map_pages_read(&self, cx: &mut Cx<'_>) {
        if cx.pool.content() != nandu_base::Content::Stamps || cx.medium.is_none() {
            return;
        }
        for op in self.paging.ops.list() {
            if let MapOp::Read(tp) = *op
                && let Some(ppn) = self.map.translation_page(tp)
                // What was not programmed yet is still in RAM.
                && !self.exec.writer_waits(ppn)
            {
                assert!(
                    self.map_page_agrees(tp, ppn, cx),
                    "I-4: {tp:?} is not on the flash as the drive has read it"
                );
            }
        }
    }

    /// Whether the translation page at `ppn` has the words that the map has for it.
    fn map_page_agrees(&self, tp: Tp, ppn: Ppn, cx: &mut Cx<'_>) -> bool {
        let page = ByteLen(1 << self.host.page.bits);
        let payload = cx.pool.allocate_metadata(page);
        let medium = cx.medium.as_deref_mut().expect("recovery reads the medium");
        let readable = medium.read(cx.pool, self.exec.unit(ppn), 0, self.host.page.sectors, payload);
        let words = cx.pool.bytes(payload, page).chunks_exact(4);
        let same = words.zip(&*self.map.stored(tp)).all(|(bytes, word)| bytes == word.to_le_bytes());
        cx.pool.release(payload);
        readable && same
    }
}
