//! Blocks of their own for translation pages.
//!
//! Each plane gives the same number of blocks to the map and keeps the rest for data. Translation pages go to the planes
//! in turn, into one open block per plane; one block per plane stays erased. When the open block is full, the block with
//! the fewest valid translation pages is cleared into the erased one and becomes the erased one itself. That moves
//! pages whose places are in the translation directory, in RAM: it needs no entry of the map and no room for data. So
//! neither a map write nor collection of data ever waits for the other (O2-6, O2-12), however little is over-provisioned
//! and however small the cache: a victim's scattered pages may each cost a rewrite, and those rewrites eat only what
//! clearing map blocks gives back.
//!
//! *Room*: a plane with m blocks takes at most (m - 1) P - 1 valid translation pages of P in a block; then, with the open
//! block full, some block has an invalid page. Blocks are given so that translation pages fill at most half.
//!
//! *Wear*: a cleared block goes back to the plane's erased blocks, and another takes its place, the longest-erased or the least worn, so that the
//! map's many erases go round the whole plane.
//!
//! *Owners*: where logical pages have owners, so have translation pages ([`crate::mapping::MapShape`]), and each owner has blocks for its own, which come off
//! its blocks: in each plane where it has some, its pool gives as many as its own translation pages need. Pages of one owner go round its pools, and clearing moves
//! them within one. So what one owner's map takes is taken from nobody else.
//!
//! Own design; DFTL has translation blocks among its data blocks. RAM: 8 bytes per map block.

use crate::address::{BlockId, Layout, Ppn};
use crate::blocks::{BlockTable, Cursor};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct MapBlock {
    id: BlockId,
    valid: u32,
}

#[derive(Clone, Debug)]
struct MapPool {
    open: Cursor,
    /// Blocks with translation pages, the open one among them, in the order of opening.
    used: Vec<MapBlock>,
    erased: VecDeque<BlockId>,
    valid: u32,
    /// Blocks that it has.
    quota: u32,
}

impl MapPool {
    /// Counts `by` valid pages more in a block of its own; false when it has no such block.
    #[inline]
    fn count(&mut self, block: BlockId, by: i32) -> bool {
        let Some(found) = self.used.iter_mut().rev().find(|b| b.id == block) else { return false };
        found.valid = found.valid.wrapping_add_signed(by);
        self.valid = self.valid.wrapping_add_signed(by);
        true
    }
}

/// The pools of one owner, which take translation pages in turn.
#[derive(Clone, Debug)]
struct Turn {
    pools: Vec<u32>,
    next: usize,
}

/// The blocks of the map.
#[derive(Clone, Debug)]
pub struct MapArea {
    layout: Layout,
    /// Planes, or the owners' parts of them.
    pools: Vec<MapPool>,
    per_plane: usize,
    turns: Vec<Turn>,
}

impl MapArea {
    /// Blocks that each pool of an owner must give for `pages` translation pages, where a block of each has `row` pages together.
    pub fn quota(row: u64, pages: u32) -> u32 {
        (2 + (2 * u64::from(pages)).div_ceil(row)).min(u64::from(u32::MAX)) as u32
    }

    /// An area that owns no block yet: `quotas` has the blocks of each pool, `pools` the pools of each owner.
    pub fn new(layout: Layout, quotas: &[u32], pools: Vec<Vec<u32>>) -> MapArea {
        let pool = |&quota: &u32| MapPool {
            open: Cursor::CLOSED,
            used: Vec::with_capacity(quota as usize),
            erased: VecDeque::with_capacity(quota as usize + 1),
            valid: 0,
            quota,
        };
        let turns = pools.into_iter().map(|pools| Turn { pools, next: 0 }).collect();
        let per_plane = quotas.len() / layout.planes as usize;
        MapArea { layout, pools: quotas.iter().map(pool).collect(), per_plane, turns }
    }

    /// The same without any block.
    pub fn anew(&self) -> MapArea {
        let quotas: Vec<u32> = self.pools.iter().map(|p| p.quota).collect();
        MapArea::new(self.layout, &quotas, self.turns.iter().map(|turn| turn.pools.clone()).collect())
    }

    /// Takes what is missing from the erased blocks of each pool. False when one has too few.
    pub fn claim(&mut self, blocks: &mut BlockTable) -> bool {
        (0..self.pools.len() as u32).all(|pool| self.claim_in(pool, blocks))
    }

    /// The same in one pool.
    pub fn claim_in(&mut self, pool: u32, blocks: &mut BlockTable) -> bool {
        while self.missing(pool) > 0 {
            match blocks.open_free(pool, u64::MAX) {
                Some(cursor) => self.pools[pool as usize].erased.push_back(cursor.block(&self.layout)),
                None => return false,
            }
        }
        true
    }

    /// Blocks that a pool is still to give.
    pub fn missing(&self, pool: u32) -> u32 {
        let p = &self.pools[pool as usize];
        p.quota - (p.used.len() + p.erased.len()).min(p.quota as usize) as u32
    }

    /// Says how many blocks a pool has from here on: at least as many as it has now. Those that are missing are to be claimed.
    pub fn set_quota(&mut self, pool: u32, quota: u32) {
        self.pools[pool as usize].quota = quota;
    }

    /// A pool gives all its blocks up, whatever is in them: the erased ones at once; returns the others, which are to be erased.
    pub fn give_up(&mut self, pool: u32, blocks: &mut BlockTable) -> Vec<BlockId> {
        let p = &mut self.pools[pool as usize];
        p.erased.drain(..).for_each(|block| blocks.close_unwritten(block));
        p.used.iter_mut().for_each(|block| block.valid = 0);
        (p.quota, p.valid) = (0, 0);
        p.used.iter().map(|block| block.id).collect()
    }

    /// The pool for the next translation page of an owner.
    pub fn choose(&mut self, owner: usize) -> u32 {
        let turn = &mut self.turns[owner];
        for _ in 0..turn.pools.len() {
            let pool = turn.pools[turn.next];
            turn.next = if turn.next + 1 == turn.pools.len() { 0 } else { turn.next + 1 };
            let p = &self.pools[pool as usize];
            if p.valid < (p.quota - 1) * self.layout.pages - 1 {
                return pool;
            }
        }
        unreachable!("translation pages fill at most half of their blocks");
    }

    /// The block to clear before the pool takes another page, if one must be.
    pub fn must_clear(&self, pool: u32) -> Option<BlockId> {
        let p = &self.pools[pool as usize];
        if !p.open.is_full() || p.erased.len() > 1 {
            return None;
        }
        p.used.iter().min_by_key(|b| b.valid).map(|b| b.id)
    }

    /// The next page of the pool, valid from here on.
    pub fn take(&mut self, pool: u32) -> Ppn {
        let p = &mut self.pools[pool as usize];
        if p.open.is_full() {
            let id = p.erased.pop_front().expect("a pool keeps an erased block for the map");
            let first = self.layout.first_page(id).0;
            p.open = Cursor::over(first, first + self.layout.pages);
            p.used.push(MapBlock { id, valid: 0 });
        }
        let ppn = p.open.take();
        let counted = p.count(self.layout.block(ppn), 1);
        debug_assert!(counted, "the open block is in use");
        ppn
    }

    /// The pools of the plane of a block.
    fn around(&self, block: BlockId) -> std::ops::Range<usize> {
        let first = self.layout.plane_of_block(block) as usize * self.per_plane;
        first..first + self.per_plane
    }

    fn count(&mut self, ppn: Ppn, by: i32) {
        let block = self.layout.block(ppn);
        let around = self.around(block);
        let counted = self.pools[around].iter_mut().any(|p| p.count(block, by));
        assert!(counted, "a translation page lies in a block of the map");
    }

    /// The translation page at `ppn` has a newer version.
    pub fn superseded(&mut self, ppn: Ppn) {
        self.count(ppn, -1);
    }

    /// Valid pages of a block of the map; [`None`] when it is none.
    pub fn valid_in(&self, block: BlockId) -> Option<u32> {
        let mut used = self.pools[self.around(block)].iter().flat_map(|p| &p.used);
        used.find(|b| b.id == block).map(|b| b.valid)
    }

    /// Whether pages are being written to the block.
    pub fn is_open(&self, block: BlockId) -> bool {
        let mut pools = self.pools[self.around(block)].iter();
        pools.any(|p| !p.open.is_full() && p.open.block(&self.layout) == block)
    }

    /// Whether the block is the map's, written or erased.
    pub fn owns(&self, block: BlockId) -> bool {
        let mut pools = self.pools[self.around(block)].iter();
        pools.any(|p| p.erased.contains(&block) || p.used.iter().any(|b| b.id == block))
    }

    /// A cleared block was erased: the longest-erased block of its pool's plane takes its place.
    pub fn erased(&mut self, block: BlockId, blocks: &mut BlockTable) {
        let pool = blocks.pool_of_block(block);
        let p = &mut self.pools[pool as usize];
        debug_assert!(p.used.iter().any(|b| b.id == block && b.valid == 0), "only cleared blocks are erased");
        p.used.retain(|b| b.id != block);
        if p.open.block(&self.layout) == block {
            p.open = Cursor::CLOSED;
        }
        blocks.erased_to_replace(block);
        let claimed = self.claim_in(pool, blocks);
        debug_assert!(claimed, "the block that was just erased is there");
    }

    /// Puts a scanned block of the map in its place; `written` pages from its start hold something.
    pub fn restore(&mut self, block: BlockId, pool: u32, written: u32) {
        let first = self.layout.first_page(block).0;
        let p = &mut self.pools[pool as usize];
        p.used.push(MapBlock { id: block, valid: 0 });
        if written < self.layout.pages && p.open.is_full() {
            p.open = Cursor::over(first + written, first + self.layout.pages);
        }
    }

    /// Counts a translation page that a scan found to be the newest.
    pub fn restore_valid(&mut self, ppn: Ppn) {
        self.count(ppn, 1);
    }

    /// The blocks of a pool with translation pages when none of its map blocks is erased: a cut has undone the erase of
    /// the one that was cleared last.
    pub fn without_erased(&self, pool: u32) -> Option<impl Iterator<Item = BlockId> + '_> {
        let p = &self.pools[pool as usize];
        (p.erased.is_empty() && p.quota > 0).then(|| p.used.iter().map(|b| b.id))
    }

    /// Blocks of a pool.
    pub fn blocks_of(&self, pool: u32) -> u32 {
        self.pools[pool as usize].quota
    }

    /// Those of them that are erased.
    pub fn erased_of(&self, pool: u32) -> u32 {
        self.pools[pool as usize].erased.len() as u32
    }

    /// Valid translation pages.
    pub fn valid(&self) -> u64 {
        self.pools.iter().map(|p| u64::from(p.valid)).sum()
    }
}

/// What a map on the flash takes of the blocks of whoever's pages it maps.
#[derive(Clone, Copy, Debug)]
pub struct MapNeeds {
    /// Entries of a translation page.
    pub entries: u32,
    /// Blocks of each pool for logical blocks that are gathered.
    pub gathers: u32,
}

impl MapNeeds {
    /// Blocks of each pool for the translation pages of so many logical pages, wherever they begin, where a block of each pool has `row` pages together.
    pub fn area(&self, row: u64, pages: u32) -> u32 {
        if pages == 0 { 0 } else { MapArea::quota(row, pages.div_ceil(self.entries) + 1) }
    }

    /// All blocks of each pool.
    pub fn blocks(&self, row: u64, pages: u32) -> u32 {
        self.area(row, pages) + self.gathers
    }
}
