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
struct MapPlane {
    open: Cursor,
    /// Blocks with translation pages, the open one among them, in the order of opening.
    used: Vec<MapBlock>,
    erased: VecDeque<BlockId>,
    valid: u32,
}

/// The blocks of the map.
#[derive(Clone, Debug)]
pub struct MapArea {
    layout: Layout,
    planes: Vec<MapPlane>,
    /// Blocks of each plane.
    quota: u32,
    next: usize,
}

impl MapArea {
    /// Blocks that each plane must give for `pages` translation pages.
    pub fn quota(layout: &Layout, pages: u32) -> u32 {
        let row = u64::from(layout.planes) * u64::from(layout.pages);
        (2 + (2 * u64::from(pages)).div_ceil(row)).min(u64::from(u32::MAX)) as u32
    }

    /// An area that owns no block yet.
    pub fn new(layout: Layout, quota: u32) -> MapArea {
        let plane = MapPlane {
            open: Cursor::CLOSED,
            used: Vec::with_capacity(quota as usize),
            erased: VecDeque::with_capacity(quota as usize + 1),
            valid: 0,
        };
        MapArea { layout, planes: vec![plane; layout.planes as usize], quota, next: 0 }
    }

    /// Takes what is missing from the erased blocks of each plane. False when a plane has too few.
    pub fn claim(&mut self, blocks: &mut BlockTable) -> bool {
        (0..self.layout.planes).all(|plane| self.claim_in(plane, blocks))
    }

    /// The same in one plane.
    pub fn claim_in(&mut self, plane: u32, blocks: &mut BlockTable) -> bool {
        let p = &mut self.planes[plane as usize];
        while p.used.len() + p.erased.len() < self.quota as usize {
            match blocks.open_free(plane, u64::MAX) {
                Some(cursor) => p.erased.push_back(cursor.block(&self.layout)),
                None => return false,
            }
        }
        true
    }

    /// The plane for the next translation page.
    pub fn choose(&mut self) -> u32 {
        let most = (self.quota - 1) * self.layout.pages - 1;
        for _ in 0..self.planes.len() {
            let plane = self.next;
            self.next = if plane + 1 == self.planes.len() { 0 } else { plane + 1 };
            if self.planes[plane].valid < most {
                return plane as u32;
            }
        }
        unreachable!("translation pages fill at most half of their blocks");
    }

    /// The block to clear before the plane takes another page, if one must be.
    pub fn must_clear(&self, plane: u32) -> Option<BlockId> {
        let p = &self.planes[plane as usize];
        if !p.open.is_full() || p.erased.len() > 1 {
            return None;
        }
        p.used.iter().min_by_key(|b| b.valid).map(|b| b.id)
    }

    /// The next page of the plane, valid from here on; `seq` is the number that it will get.
    pub fn take(&mut self, plane: u32) -> Ppn {
        let p = &mut self.planes[plane as usize];
        if p.open.is_full() {
            let id = p.erased.pop_front().expect("a plane keeps an erased block for the map");
            let first = self.layout.first_page(id).0;
            p.open = Cursor::over(first, first + self.layout.pages);
            p.used.push(MapBlock { id, valid: 0 });
        }
        let ppn = p.open.take();
        self.count(ppn, 1);
        ppn
    }

    fn count(&mut self, ppn: Ppn, by: i32) {
        let block = self.layout.block(ppn);
        let p = &mut self.planes[self.layout.plane(ppn) as usize];
        let found = p.used.iter_mut().rev().find(|b| b.id == block);
        let found = found.expect("a translation page lies in a block of the map");
        found.valid = found.valid.wrapping_add_signed(by);
        p.valid = p.valid.wrapping_add_signed(by);
    }

    /// The translation page at `ppn` has a newer version.
    pub fn superseded(&mut self, ppn: Ppn) {
        self.count(ppn, -1);
    }

    /// Valid pages of a block of the map; [`None`] when it is none.
    pub fn valid_in(&self, block: BlockId) -> Option<u32> {
        let p = &self.planes[self.layout.plane_of_block(block) as usize];
        p.used.iter().find(|b| b.id == block).map(|b| b.valid)
    }

    /// Whether pages are being written to the block.
    pub fn is_open(&self, block: BlockId) -> bool {
        let p = &self.planes[self.layout.plane_of_block(block) as usize];
        !p.open.is_full() && p.open.block(&self.layout) == block
    }

    /// Whether the block is the map's, written or erased.
    pub fn owns(&self, block: BlockId) -> bool {
        let p = &self.planes[self.layout.plane_of_block(block) as usize];
        p.erased.contains(&block) || p.used.iter().any(|b| b.id == block)
    }

    /// A cleared block was erased: the plane's longest-erased block takes its place.
    pub fn erased(&mut self, block: BlockId, blocks: &mut BlockTable) {
        let plane = self.layout.plane_of_block(block);
        let p = &mut self.planes[plane as usize];
        debug_assert!(p.used.iter().any(|b| b.id == block && b.valid == 0), "only cleared blocks are erased");
        p.used.retain(|b| b.id != block);
        if p.open.block(&self.layout) == block {
            p.open = Cursor::CLOSED;
        }
        blocks.erased_to_replace(block);
        let claimed = self.claim_in(plane, blocks);
        debug_assert!(claimed, "the block that was just erased is there");
    }

    /// Puts a scanned block of the map in its place; `written` pages from its start hold something.
    pub fn restore(&mut self, block: BlockId, written: u32) {
        let first = self.layout.first_page(block).0;
        let p = &mut self.planes[self.layout.plane_of_block(block) as usize];
        p.used.push(MapBlock { id: block, valid: 0 });
        if written < self.layout.pages && p.open.is_full() {
            p.open = Cursor::over(first + written, first + self.layout.pages);
        }
    }

    /// Counts a translation page that a scan found to be the newest.
    pub fn restore_valid(&mut self, ppn: Ppn) {
        self.count(ppn, 1);
    }

    /// The blocks of a plane with translation pages when none of its map blocks is erased: a cut has undone the erase of
    /// the one that was cleared last.
    pub fn without_erased(&self, plane: u32) -> Option<impl Iterator<Item = BlockId> + '_> {
        let p = &self.planes[plane as usize];
        p.erased.is_empty().then(|| p.used.iter().map(|b| b.id))
    }

    /// Blocks of each plane.
    pub fn blocks_per_plane(&self) -> u32 {
        self.quota
    }

    /// Valid translation pages.
    pub fn valid(&self) -> u64 {
        self.planes.iter().map(|p| u64::from(p.valid)).sum()
    }
}
