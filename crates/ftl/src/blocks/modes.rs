//! Blocks in SLC mode: programmed with one bit in a cell that can hold more.
//!
//! A block has a mode from the time it is opened until it is erased. In SLC mode it holds a half, a third or a quarter of its pages:
//! its first ones. The others count as invalid from the start, so whatever weighs blocks by their invalid pages (the choice of
//! a victim, the pace of clearing, the bounds that make clearing gain) finds what is true: to clear such a block gains
//! more pages than were ever valid in it.
//!
//! *Wear.* A cycle in SLC mode is a part of a cycle: `endurance / endurance in SLC mode`. A block is worn out when its cycles of both
//! kinds, so weighed, come to its number.
//!
//! *After a power cut* the mode is found in the records of the block's pages; one that was open is closed, its unwritten
//! pages given up.
//!
//! RAM: 5 bytes per block, on a drive that has the mode.

use super::{BlockTable, Content, Cursor, WASTE};
use crate::address::{BlockId, Layout, Ppn};

/// What a block is in SLC mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlcRules {
    /// Pages that it holds, at least 1.
    pub pages: u32,
    /// Cycles that it stands when it is always in this mode; above 0.
    pub endurance: u32,
}

/// The modes of all blocks.
#[derive(Clone, Debug)]
pub(super) struct Modes {
    rules: SlcRules,
    is_slc: Vec<bool>,
    /// Blocks in SLC mode, by pool.
    count: Vec<u32>,
    /// Erases that ended SLC mode, by block.
    erases: Vec<u32>,
}

impl Modes {
    fn new(layout: &Layout, rules: SlcRules, pools: usize) -> Modes {
        assert!(
            rules.pages > 0 && rules.endurance > 0,
            "a block in SLC mode holds a page and stands a cycle"
        );
        let blocks = layout.block_end() as usize;
        Modes { rules, is_slc: vec![false; blocks], count: vec![0; pools], erases: vec![0; blocks] }
    }

    fn set(&mut self, block: BlockId, pool: u32) {
        let is_slc = &mut self.is_slc[block.0 as usize];
        self.count[pool as usize] += u32::from(!*is_slc);
        *is_slc = true;
    }

    /// The block, of this pool, is erased.
    pub fn erased(&mut self, block: BlockId, pool: u32) {
        if std::mem::take(&mut self.is_slc[block.0 as usize]) {
            self.count[pool as usize] -= 1;
            self.erases[block.0 as usize] += 1;
        }
    }

    /// The block turns out to belong to another pool.
    pub fn goes(&mut self, block: BlockId, from: u32, to: u32) {
        if self.is_slc[block.0 as usize] {
            self.count[from as usize] -= 1;
            self.count[to as usize] += 1;
        }
    }

    /// The cycles of a block that was erased `erases` times, SLC mode weighed, rounded up. `endurance` is that of the chip's own mode.
    pub fn cycles(&self, block: BlockId, erases: u32, endurance: u32) -> u32 {
        let slc = self.erases[block.0 as usize].min(erases);
        let weighed = u64::from(slc) * u64::from(endurance);
        erases - slc + weighed.div_ceil(u64::from(self.rules.endurance)).min(u64::from(slc)) as u32
    }
}

impl BlockTable {
    /// Blocks may be in SLC mode from now on; none is. Pools are settled before.
    pub fn allow_slc(&mut self, rules: SlcRules) {
        assert!(rules.pages <= self.layout.pages, "a block holds no more pages in SLC mode");
        self.modes = Some(Box::new(Modes::new(&self.layout, rules, self.planes.len())));
    }

    /// The rules of SLC mode, where blocks may be in it.
    pub fn slc_rules(&self) -> Option<SlcRules> {
        self.modes.as_ref().map(|modes| modes.rules)
    }

    /// The same with no block in SLC mode and no erase counted.
    pub(super) fn blank_modes(&self) -> Option<Box<Modes>> {
        let modes = self.modes.as_deref()?;
        Some(Box::new(Modes::new(&self.layout, modes.rules, modes.count.len())))
    }

    /// Whether a block is in SLC mode.
    #[inline]
    pub fn is_slc(&self, block: BlockId) -> bool {
        self.modes.as_ref().is_some_and(|modes| modes.is_slc[block.0 as usize])
    }

    /// Blocks of a pool that are in SLC mode, open ones included.
    pub fn slc_blocks(&self, pool: u32) -> u32 {
        self.modes.as_ref().map_or(0, |modes| modes.count[pool as usize])
    }

    /// Erases of a block that ended SLC mode.
    pub fn slc_erases(&self, block: BlockId) -> u32 {
        self.modes.as_ref().map_or(0, |modes| modes.erases[block.0 as usize])
    }

    /// The same for all blocks.
    pub fn slc_erases_ever(&self) -> u64 {
        self.modes.as_ref().map_or(0, |modes| modes.erases.iter().map(|&n| u64::from(n)).sum())
    }

    /// Opens an erased block of a pool for the host's pages, in SLC mode; as [`open_free`](BlockTable::open_free).
    pub fn open_free_in_slc(&mut self, pool: u32, seq: u64) -> Option<Cursor> {
        let pages = self.slc_rules()?.pages;
        let block = self.open_free(pool, seq)?.block(&self.layout);
        if let Some(modes) = &mut self.modes {
            modes.set(block, pool);
        }
        let first = self.layout.first_page(block).0;
        self.waste(Cursor::over(first + pages, first + self.layout.pages));
        Some(Cursor::over(first, first + pages))
    }

    /// Says, after a scan and before [`restore_block`](BlockTable::restore_block), that a block is in SLC mode: what is not
    /// written of it cannot be used.
    pub fn restore_slc(&mut self, block: BlockId) {
        let pool = self.pool_of_block(block);
        if let Some(modes) = &mut self.modes {
            modes.set(block, pool);
        }
        let first = self.layout.first_page(block).0 as usize;
        let pages = &mut self.owners[first..first + self.layout.pages as usize];
        pages.iter_mut().filter(|owner| **owner == 0).for_each(|owner| *owner = WASTE);
    }

    /// Says, after a scan, how many erases of a block ended SLC mode.
    pub fn restore_slc_erases(&mut self, block: BlockId, erases: u32) {
        if let Some(modes) = &mut self.modes {
            modes.erases[block.0 as usize] = erases;
        }
    }

    /// The block of a pool that has been in SLC mode longest, but for those that `is_open` names.
    pub fn oldest_slc(&self, pool: u32, is_open: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        let modes = self.modes.as_ref()?;
        if modes.count[pool as usize] == 0 {
            return None;
        }
        let own = self.layout.plane_blocks(self.plane_of_pool(pool));
        let own = own.filter(|&block| self.is_slc(block) && self.pool_of_block(block) == pool);
        let full = own.filter(|&block| !is_open(block));
        full.min_by_key(|&block| self.oldest[block.0 as usize])
    }

    /// What is wrong with the modes, if anything: the counters, a free block in SLC mode, or a page beyond those of the mode.
    pub fn broken_modes(&self) -> Option<String> {
        let modes = self.modes.as_ref()?;
        let mut slc = vec![0; modes.count.len()];
        let all = self.layout.all_blocks().filter(|&block| self.is_slc(block));
        all.for_each(|block| slc[self.pool_of_block(block) as usize] += 1);
        if slc != modes.count {
            return Some(format!("pools have {slc:?} blocks in SLC mode but count {:?}", modes.count));
        }
        if let Some(block) = self.free_blocks().find(|&block| self.is_slc(block)) {
            return Some(format!("free block {block:?} is in SLC mode"));
        }
        let slc = self.layout.all_blocks().filter(|&block| self.is_slc(block));
        for block in slc {
            let first = self.layout.first_page(block).0;
            let beyond = (first + modes.rules.pages..first + self.layout.pages).map(Ppn);
            if let Some(page) = beyond.clone().find(|&page| self.content(page) != Content::Waste) {
                return Some(format!("{block:?} is in SLC mode and {page:?} of it is in use"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lpn;
    use crate::blocks::WearRules;

    fn table(endurance: u32) -> BlockTable {
        let rules = WearRules { endurance, ..WearRules::default() };
        let mut table = BlockTable::with_wear(Layout::new(1, 6, 9).unwrap(), rules);
        table.set_rooms(3, 9);
        table.allow_slc(SlcRules { pages: 3, endurance: 100 });
        table
    }

    fn write(table: &mut BlockTable, cursor: &mut Cursor, lpn: u32) -> Ppn {
        let ppn = cursor.take();
        table.programmed(ppn, Content::Data(Lpn(lpn)));
        table.planes[0].valid += 1;
        ppn
    }

    #[test]
    fn a_block_in_slc_mode_holds_its_first_pages_and_counts_the_others_as_invalid() {
        let mut t = table(0);
        let mut open = t.open_free_in_slc(0, 1).unwrap();
        let block = open.block(t.layout());
        assert_eq!((open.left(), t.invalid(block), t.slc_blocks(0)), (3, 6, 1));
        let pages: Vec<Ppn> = (0..3).map(|lpn| write(&mut t, &mut open, lpn)).collect();
        assert!(open.is_full() && t.is_slc(block) && t.broken_modes().is_none());
        assert_eq!(t.valid_pages()[block.0 as usize], 3);
        for page in pages {
            t.invalidate(page);
        }
        assert_eq!(u32::from(t.invalid(block)), t.layout().pages);
        t.erased(block);
        assert_eq!((t.is_slc(block), t.slc_blocks(0), t.slc_erases(block)), (false, 0, 1));
        assert_eq!(t.open_free(0, 9).unwrap().left(), 9);
    }

    #[test]
    fn the_oldest_block_in_slc_mode_is_full_and_not_open() {
        let mut t = table(0);
        let blocks: Vec<BlockId> =
            (0..3).map(|seq| t.open_free_in_slc(0, 10 - seq).unwrap().block(t.layout())).collect();
        assert_eq!(t.oldest_slc(0, |_| false), Some(blocks[2]));
        assert_eq!(t.oldest_slc(0, |block| block == blocks[2]), Some(blocks[1]));
    }

    #[test]
    fn a_cycle_in_slc_mode_is_a_part_of_a_cycle() {
        // Ten cycles of the chip's own mode, a hundred in SLC mode. All blocks take their turn.
        let mut t = table(10);
        let all: Vec<BlockId> = t.layout().all_blocks().collect();
        let cycles = |t: &BlockTable| all.iter().map(|&block| t.cycles(block)).collect::<Vec<_>>();
        for (slc, own, want) in [(1, 0, 1), (9, 0, 1), (1, 0, 2), (0, 1, 3), (19, 0, 4)] {
            for turn in 0..6 * (slc + own) {
                let open = if turn < 6 * slc { t.open_free_in_slc(0, 1) } else { t.open_free(0, 1) };
                let block = open.unwrap().block(t.layout());
                t.erased(block);
            }
            assert_eq!(cycles(&t), [want; 6], "after {slc} more in SLC mode and {own} others");
        }
        assert_eq!((t.slc_erases_ever(), t.erases(all[0])), (6 * 30, 31));
    }

    #[test]
    fn what_is_beyond_the_mode_is_found() {
        let mut t = table(0);
        let block = t.open_free_in_slc(0, 1).unwrap().block(t.layout());
        let beyond = Ppn(t.layout().first_page(block).0 + 5);
        t.owners[beyond.0 as usize] = 0;
        t.programmed(beyond, Content::Data(Lpn(1)));
        assert!(t.broken_modes().is_some_and(|what| what.contains("in use")));
    }
}
