//! The start of a drive with a log-block map after a power cut.
//!
//! A start reads the out-of-band record of every programmed page, all dies at once, finds what each block is (see
//! [`crate::log_block::recover`]) and erases what a merge had left behind. A cut during the start finds the same again:
//! only blocks are erased that nothing depends on, in an order that keeps it so.

use super::super::recover::Figures;
use super::{Flash, Planner, decode_mark};
use crate::log_block::recover::{Block, Mark, Page, rebuild};
use crate::log_block::{Step, Tag};
use crate::mapping::Mapping;
use crate::plan::flash::After;
use nandu_base::{ByteLen, Cx, Oob, TenantId, UnitState, Work};

impl<M: Mapping, F: Flash> Planner<M, F> {
    /// Rebuilds everything from the medium; returns when the start is complete.
    pub(in super::super) fn recover_logged(&mut self, cx: &mut Cx<'_>) -> After {
        self.recovery = Figures::default();
        self.map.reset();
        self.blocks = self.blocks.for_recovery();
        (self.seq, self.erases_ever) = (0, 0);
        let mut doomed = Vec::new();
        for pool in 0..self.log().pools() {
            let (blocks, marks) = self.scan_pool(pool, cx);
            let pages = blocks.iter().map(|block| block.pages.len() as u64).sum();
            self.recovery.note(self.die_of_pool(pool), pages);
            let oldest_wins = self.planted.oldest_wins;
            let map = self.log_mut().pool_mut(pool);
            let dedicated = map.logs_are_dedicated();
            let found = rebuild(map.region_mut(), &blocks, &marks, dedicated, oldest_wins);
            map.adopt(&found);
            self.seq = self.seq.max(found.seq);
            doomed.extend(found.doomed.iter().map(|&block| (pool, block)));
        }
        let scanned = self.scanned(cx);
        for (pool, block) in doomed {
            self.log_mut().pool_mut(pool).region_mut().erase(block);
            self.issue_step(pool, Step::Erase(block), TenantId::SYSTEM, Work::Recovery, cx);
        }
        (0..self.log().pools()).for_each(|pool| self.note_all_erased(pool));
        self.exec.serve(cx);
        scanned.later(self.exec.all_given())
    }

    /// Reads the records of a pool, and the marks among its pages; notes how its blocks are worn.
    fn scan_pool(&mut self, pool: u32, cx: &mut Cx<'_>) -> (Vec<Block>, Vec<Mark>) {
        let layout = *self.blocks.layout();
        let (mut blocks, mut marks) = (Vec::new(), Vec::new());
        for number in 0..self.log().pool(pool).region().shape().blocks {
            let block = self.log().block(pool, number);
            let first = number * layout.block_stride();
            let medium = cx.medium.as_deref().expect("recovery reads the medium");
            let erases = medium.erases(self.exec.unit(layout.first_page(block)));
            self.blocks.restore_wear(block, erases);
            self.erases_ever += u64::from(erases);
            if self.blocks.is_bad(block) {
                self.log_mut().pool_mut(pool).region_mut().retire(number);
                continue;
            }
            let mut pages = Vec::new();
            for spot in first..first + layout.pages {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                match medium.state(self.exec.unit(self.log().ppn(pool, spot))) {
                    UnitState::Erased => break,
                    UnitState::Torn => pages.push(Page::Torn),
                    UnitState::Programmed(Oob { key, seq }) => {
                        let tag = Tag::from_word(key);
                        if tag.is_mark {
                            marks.push(self.read_mark(pool, spot, seq, cx));
                        }
                        pages.push(Page::Tagged(tag, seq));
                    }
                }
            }
            blocks.push(Block { block: number, pages });
        }
        (blocks, marks)
    }

    fn read_mark(&self, pool: u32, spot: u32, seq: u64, cx: &mut Cx<'_>) -> Mark {
        let page = ByteLen(1 << self.host.page.bits);
        let payload = cx.pool.allocate_metadata(page);
        let unit = self.exec.unit(self.log().ppn(pool, spot));
        let medium = cx.medium.as_deref_mut().expect("recovery reads the medium");
        let readable = medium.read(cx.pool, unit, 0, self.host.page.sectors, payload);
        let range = decode_mark(cx.pool.bytes(payload, page)).filter(|_| readable);
        cx.pool.release(payload);
        let (first, end) = range.expect("a page with the tag of a mark holds a mark");
        Mark { block: spot / self.blocks.layout().block_stride(), seq, pages: (first..end).collect() }
    }
}
