//! A drive that was written once from start to end, as arithmetic instead of tables.
//!
//! Consecutive logical pages go to the planes in their turn, and each plane fills its blocks in the order of their numbers.
//! So where a page lies, and what lies on a page, follows from its number: neither the map nor the owners of pages need
//! an entry before a page is written again. A drive of 1 TB is ready at once, and takes memory only where it is touched.
//!
//! It holds while no plane is passed over and no block is left out: planes with equal room and without bad blocks, whose first
//! blocks may be the map's. A block that was erased since is no longer filled; the table of blocks keeps a bit for each.
//!
//! RAM: 8 bytes for each plane, a bit for each logical page, translation page and block, touched when they change. Cost: two
//! divisions.
//!
//! An aged drive begins by arithmetic as well ([`crate::aged`]): maps and tables of blocks know both as [`Initial`].

use crate::address::{BlockId, Layout, Lpn, Ppn};
use crate::blocks::Content;
use crate::mapping::Tp;
use std::fmt::Debug;
use std::sync::Arc;

/// What a drive held when it was made: where every logical page lies, and what lies on every page.
pub trait Initial: Debug + Send + Sync {
    /// The shape of the array.
    fn layout(&self) -> &Layout;

    /// Logical pages, all of which are mapped.
    fn logical(&self) -> u32;

    /// Where a page lies.
    fn place(&self, lpn: Lpn) -> Ppn;

    /// What lies on a page: nothing, the newest version of a logical page, or an older one, which counts as wasted.
    fn content(&self, ppn: Ppn) -> Content;
}

/// Where everything lies on a drive that was written once in order.
#[derive(Clone, Debug)]
pub struct Filled {
    layout: Layout,
    /// Planes in their turn, and the turn of each plane.
    order: Vec<u32>,
    turns: Vec<u32>,
    /// Blocks at the start of each plane that hold none of these pages.
    apart: u32,
    logical: u32,
}

impl Filled {
    /// A drive of `logical` pages whose planes have their turns in this order, and leave their first `apart` blocks out.
    pub fn new(layout: Layout, order: Vec<u32>, apart: u32, logical: u32) -> Filled {
        let mut turns = vec![0; order.len()];
        for (turn, &plane) in (0..).zip(&order) {
            turns[plane as usize] = turn;
        }
        Filled { layout, order, turns, apart, logical }
    }
}

impl Initial for Filled {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn logical(&self) -> u32 {
        self.logical
    }

    fn place(&self, lpn: Lpn) -> Ppn {
        let planes = self.order.len() as u32;
        let (turn, nth) = (lpn.0 % planes, lpn.0 / planes);
        let first = self.layout.first_block(self.order[turn as usize]).0 + self.apart;
        let block = first + nth / self.layout.pages;
        Ppn(self.layout.first_page(BlockId(block)).0 + nth % self.layout.pages)
    }

    fn content(&self, ppn: Ppn) -> Content {
        let (plane, position) = (self.layout.plane(ppn), self.layout.page(ppn));
        if plane >= self.layout.planes || position >= self.layout.pages {
            return Content::Free;
        }
        let block = self.layout.block(ppn).0 - self.layout.first_block(plane).0;
        let Some(block) = block.checked_sub(self.apart) else { return Content::Free };
        let nth = u64::from(block) * u64::from(self.layout.pages) + u64::from(position);
        let lpn = nth * self.order.len() as u64 + u64::from(self.turns[plane as usize]);
        match lpn < u64::from(self.logical) {
            true => Content::Data(Lpn(lpn as u32)),
            false => Content::Free,
        }
    }
}

/// Bits that begin unset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(bits: u32) -> Bits {
        Bits(vec![0; (bits as usize).div_ceil(64)])
    }

    pub fn get(&self, at: u32) -> bool {
        self.0[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    pub fn set(&mut self, at: u32) {
        self.0[(at / 64) as usize] |= 1 << (at % 64);
    }
}

/// What a map that keeps no entry for a page knows about it.
#[derive(Clone, Debug)]
pub(crate) struct FilledMap {
    initial: Arc<dyn Initial>,
    trimmed: Bits,
}

impl FilledMap {
    pub fn new(initial: Arc<dyn Initial>) -> FilledMap {
        let trimmed = Bits::new(initial.logical());
        FilledMap { initial, trimmed }
    }

    #[cold]
    pub fn get(&self, lpn: Lpn) -> Option<Ppn> {
        (!self.trimmed.get(lpn.0)).then(|| self.initial.place(lpn))
    }

    /// The page has no entry from here on because it is not mapped.
    #[cold]
    pub fn trim(&mut self, lpn: Lpn) {
        self.trimmed.set(lpn.0);
    }
}

/// What the translation pages of a drive held when it was made, and which of them have entries of their own since.
#[derive(Clone, Debug)]
pub(crate) struct FilledWords {
    initial: Arc<dyn Initial>,
    entered: Bits,
}

impl FilledWords {
    pub fn new(initial: Arc<dyn Initial>, translation_pages: u32) -> FilledWords {
        FilledWords { initial, entered: Bits::new(translation_pages) }
    }

    pub fn is_entered(&self, tp: Tp) -> bool {
        self.entered.get(tp.0)
    }

    pub fn enter(&mut self, tp: Tp) {
        self.entered.set(tp.0);
    }

    /// The word of a page as it was at the start: its place plus one, or zero beyond the last page.
    pub fn word(&self, lpn: Lpn) -> u32 {
        if lpn.0 < self.initial.logical() { self.initial.place(lpn).0 + 1 } else { 0 }
    }
}

/// What a table of blocks that keeps no owner of a page knows about it.
#[derive(Clone, Debug)]
pub(crate) struct FilledBlocks {
    initial: Arc<dyn Initial>,
    erased: Bits,
}

impl FilledBlocks {
    pub fn new(initial: Arc<dyn Initial>) -> FilledBlocks {
        let erased = Bits::new(initial.layout().block_end());
        FilledBlocks { initial, erased }
    }

    #[cold]
    pub fn content(&self, ppn: Ppn) -> Content {
        let block = self.initial.layout().block(ppn);
        if self.erased.get(block.0) {
            return Content::Free;
        }
        self.initial.content(ppn)
    }

    pub fn erased(&mut self, block: BlockId) {
        self.erased.set(block.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_contents_are_those_of_pages_put_down_one_by_one() {
        for (planes, blocks, pages, apart, logical) in
            [(1, 5, 4, 0, 17), (6, 9, 3, 2, 100), (4, 8, 16, 0, 500), (4, 9, 16, 1, 500)]
        {
            let layout = Layout::new(planes, blocks, pages).unwrap();
            let order: Vec<u32> = (0..planes).map(|turn| (turn * 5 + 2) % planes).collect();
            let filled = Filled::new(layout, order.clone(), apart, logical);
            let mut next: Vec<(u32, u32)> = vec![(apart, 0); planes as usize];
            let mut seen = std::collections::BTreeMap::new();
            for lpn in 0..logical {
                let plane = order[(lpn % planes) as usize];
                let (block, page) = &mut next[plane as usize];
                let ppn = Ppn(layout.first_page(BlockId(layout.first_block(plane).0 + *block)).0 + *page);
                *page += 1;
                if *page == pages {
                    (*block, *page) = (*block + 1, 0);
                }
                assert_eq!(filled.place(Lpn(lpn)), ppn);
                seen.insert(ppn.0, Lpn(lpn));
            }
            for ppn in 0..layout.ppn_end() as u32 {
                let content = seen.get(&ppn).map_or(Content::Free, |&lpn| Content::Data(lpn));
                assert_eq!(filled.content(Ppn(ppn)), content, "{ppn}");
            }
        }
    }
}
