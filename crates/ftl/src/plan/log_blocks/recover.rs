//! The start of a drive with a log-block map after a power cut.
//!
//! A start reads the out-of-band record of every programmed page, all dies at once, finds what each block is (see
//! [`crate::log_block::recover`]) and erases what a merge had left behind. A cut during the start finds the same again:
//! only blocks are erased that nothing depends on, in an order that keeps it so. Where tenants come and go, the table of who has what is read first.

use super::super::recover::Figures;
use super::{Flash, Planner, decode_mark};
use crate::log_block::map::NOBODY;
use crate::log_block::recover::{Block, Mark, Page, rebuild};
use crate::log_block::{Step, Tag};
use crate::mapping::Mapping;
use crate::plan::flash::After;
use crate::{BlockId, Ppn};
use nandu_base::{ByteLen, Cx, Oob, TenantId, UnitState, Work};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Rebuilds everything from the medium; returns when the start is complete.
    pub(in super::super) fn recover_logged(&mut self, cx: &mut Cx<'_>) -> After {
        self.recovery = Figures::default();
        self.map.reset();
        self.blocks = self.blocks.for_recovery();
        (self.seq, self.erases_ever) = (0, 0);
        self.recover_table(cx);
        let mut doomed = Vec::new();
        let erased = if self.log().moves_blocks() { self.find_owners(cx) } else { Vec::new() };
        for pool in 0..self.log().pools() {
            let (blocks, marks) = self.scan_pool(pool, &erased, cx);
            let pages = blocks.iter().map(|block| block.pages.len() as u64).sum();
            self.recovery.note(self.die_of_pool(pool), pages);
            let oldest_wins = self.planted.oldest_wins;
            let map = self.log_mut().pool_mut(pool);
            let dedicated = map.logs_are_dedicated();
            let found = rebuild(map.region_mut(), &blocks, &marks, dedicated, oldest_wins);
            map.adopt(&found);
            found.doomed.iter().for_each(|&block| map.region_mut().erase(block));
            self.seq = self.seq.max(found.seq);
            doomed.extend(found.doomed.iter().map(|&block| (pool, block)));
        }
        self.forget_going_logged();
        if self.log().moves_blocks() {
            self.settle_logs(&erased);
        }
        let scanned = self.scanned(cx);
        for (pool, block) in doomed {
            self.issue_step(pool, Step::Erase(block), TenantId::SYSTEM, Work::Recovery, cx);
        }
        (0..self.log().pools()).for_each(|pool| self.note_all_erased(pool));
        self.exec.serve(cx);
        scanned.later(self.exec.all_given())
    }

    /// Where blocks change hands: finds whose each written block is, by the first record in it; returns those that are erased, in order. What a cut has
    /// torn, before its first record, is erased again: it goes with the pool that has written least of what it was given.
    fn find_owners(&mut self, cx: &mut Cx<'_>) -> Vec<BlockId> {
        let layout = *self.blocks.layout();
        let mut erased = Vec::new();
        for plane in 0..layout.planes {
            let pools = self.log().pools_of_plane(plane);
            let mut spare: Vec<i64> = pools.clone().map(|pool| i64::from(self.made_with(pool))).collect();
            let mut torn = Vec::new();
            for block in layout.plane_blocks(plane).skip(self.blocks.apart() as usize) {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                let erases = medium.erases(self.exec.unit(layout.first_page(block)));
                self.blocks.restore_wear(block, erases);
                if self.blocks.is_bad(block) {
                    self.erases_ever += u64::from(erases);
                    self.log_mut().owned_by(block, NOBODY);
                    continue;
                }
                let first = layout.first_page(block).0;
                let states = (first..first + layout.pages).map(|ppn| medium.state(self.exec.unit(Ppn(ppn))));
                let mut states = states.take_while(|state| *state != UnitState::Erased).peekable();
                if states.peek().is_none() {
                    self.erases_ever += u64::from(erases);
                    self.log_mut().owned_by(block, NOBODY);
                    erased.push(block);
                    continue;
                }
                let record = states.find_map(|state| match state {
                    UnitState::Programmed(Oob { key, .. }) => Some(Tag::from_word(key).page),
                    _ => None,
                });
                match record {
                    None => torn.push(block),
                    Some(page) => {
                        let pool = self.log().pool_of_record(plane, page);
                        spare[(pool - pools.start) as usize] -= 1;
                        self.log_mut().owned_by(block, pool);
                    }
                }
            }
            for block in torn {
                let most = (0..spare.len()).max_by_key(|&at| (spare[at], std::cmp::Reverse(at)));
                let most = most.expect("a plane has pools");
                spare[most] -= 1;
                self.log_mut().owned_by(block, pools.start + most as u32);
            }
        }
        erased
    }

    /// Blocks that a pool was made with, bad ones included: by its tenant's share where tenants come and go.
    fn made_with(&self, pool: u32) -> u32 {
        match self.tenants.as_deref().filter(|tenants| tenants.dealing.is_some()) {
            Some(tenants) => self.blocks.shares()[tenants.of_pool(pool)].blocks,
            None => self.log().pool(pool).region().begins_with().len() as u32,
        }
    }

    /// Reads the records of a pool, and the marks among its pages; notes how its blocks are worn. Those that are `erased` and nobody's yet are left out.
    fn scan_pool(&mut self, pool: u32, erased: &[BlockId], cx: &mut Cx<'_>) -> (Vec<Block>, Vec<Mark>) {
        let layout = *self.blocks.layout();
        let (mut blocks, mut marks) = (Vec::new(), Vec::new());
        let base = self.log().pool(pool).region().base();
        for number in 0..self.log().pool(pool).region().shape().blocks {
            let block = self.log().block(pool, number);
            if self.log().moves_blocks()
                && (self.log().pool_of(block) != pool || erased.binary_search(&block).is_ok())
            {
                continue;
            }
            let first = number * layout.block_stride();
            let medium = cx.medium.as_deref().expect("recovery reads the medium");
            let erases = medium.erases(self.exec.unit(layout.first_page(block)));
            self.blocks.restore_wear(block, erases);
            self.erases_ever += u64::from(erases);
            if self.blocks.is_bad(block) {
                continue;
            }
            let mut pages = Vec::new();
            for spot in first..first + layout.pages {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                match medium.state(self.exec.unit(self.log().ppn(pool, spot))) {
                    UnitState::Erased => break,
                    UnitState::Torn => pages.push(Page::Torn),
                    UnitState::Programmed(Oob { key, seq }) => {
                        let mut tag = Tag::from_word(key);
                        tag.page -= base;
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
