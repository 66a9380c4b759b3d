//! The state of every block: what is free, what is being written, how much could be gained by clearing it.
//!
//! Each plane has two open blocks, one for the host's writes and one for pages that garbage collection moves, so that
//! old and new data do not mix. A page's owner is kept by physical page; whether it is still valid is found by asking
//! the map, so an overwrite touches two counters of the old block and nothing else.
//!
//! RAM: 4 bytes per physical page, 27 per block.

mod content;
mod cursor;
mod ends;
mod modes;
mod moves;
mod restore;
mod shares;
mod wear;

pub use content::{Content, JOURNAL_SLOTS_MAX, LOGICAL_PAGES_MAX};
pub use cursor::Cursor;
pub use modes::SlcRules;
pub use shares::Share;
pub use wear::{FreeOrder, WearRules};

use crate::address::{BlockId, Layout, Lpn, Ppn};
use crate::filled::{FilledBlocks, Initial};
use content::{MAP, WASTE};
use std::sync::Arc;
use wear::{Choice, Wear};

/// One plane, in half a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Plane {
    /// The block that the host's pages go to.
    pub host: Cursor,
    /// The block that moved pages go to.
    pub moved: Cursor,
    /// Erased blocks.
    pub free: u32,
    /// Valid pages.
    pub valid: u32,
    /// Valid pages that it may hold, so that clearing a block always gains.
    pub valid_max: u32,
    /// A block of it is being cleared.
    pub clearing: bool,
}

impl Plane {
    /// Whether it may take another valid page.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.valid < self.valid_max
    }
}

/// A plane's erased blocks, in the order of their erase.
#[derive(Clone, Copy, Debug)]
struct FreeList {
    head: u32,
    tail: u32,
}

impl FreeList {
    const EMPTY: FreeList = FreeList { head: NONE, tail: NONE };
}

const NONE: u32 = u32::MAX;

/// All blocks of a drive.
#[derive(Clone, Debug)]
pub struct BlockTable {
    layout: Layout,
    /// What each page holds, as a word.
    owners: Vec<u32>,
    /// What pages without an owner hold on a drive that began with every page mapped.
    filled: Option<FilledBlocks>,
    /// Pages without valid data, by block; unwritten pages of an open block not counted.
    invalid: Vec<u16>,
    /// When the programs that made pages of the block invalid are complete: no erase may begin before.
    /// Erases so far, by block.
    erases: Vec<u32>,
    /// Sequence number of the oldest page, by block; meaningless for free blocks.
    oldest: Vec<u64>,
    next_free: Vec<u32>,
    free: Vec<FreeList>,
    wear: Wear,
    /// The pool of each block: its plane, or the tenant's part of it that opened the block.
    pool_of: Vec<u32>,
    pools_per_plane: u32,
    /// Blocks at the start of each plane that are nobody's.
    apart: u32,
    /// The blocks of each pool, a bit for each of its plane; empty where tenants have no blocks of their own.
    owned: Vec<u64>,
    /// What each tenant has in each plane; empty where tenants have no blocks of their own.
    shares: Vec<Share>,
    /// Open blocks of streams beside the first one, pool after pool.
    streams: Vec<Cursor>,
    /// Which blocks are in SLC mode, where some may be.
    modes: Option<Box<modes::Modes>>,
    /// The planes; where tenants have blocks of their own, a pool for each tenant of each plane.
    pub planes: Vec<Plane>,
}

impl BlockTable {
    /// An erased drive that never wears out, whose planes may hold as much as they have.
    pub fn new(layout: Layout) -> BlockTable {
        let mut table = BlockTable::with_wear(layout, WearRules::default());
        table.set_rooms(0, 0);
        table
    }

    /// An erased drive that wears. Its planes hold nothing until [`set_rooms`](BlockTable::set_rooms) says how much.
    pub fn with_wear(layout: Layout, rules: WearRules) -> BlockTable {
        let blocks = layout.block_end() as usize;
        let (host, moved) = (Cursor::CLOSED, Cursor::CLOSED);
        let empty = Plane { host, moved, free: 0, valid: 0, valid_max: 0, clearing: false };
        let mut table = BlockTable {
            layout,
            owners: vec![0; layout.ppn_end() as usize],
            filled: None,
            invalid: vec![0; blocks],
            erases: vec![0; blocks],
            oldest: vec![0; blocks],
            next_free: vec![0; blocks],
            free: vec![FreeList::EMPTY; layout.planes as usize],
            wear: Wear::new(&layout, rules),
            pool_of: vec![0; blocks],
            pools_per_plane: 1,
            apart: 0,
            owned: Vec::new(),
            shares: Vec::new(),
            streams: Vec::new(),
            modes: None,
            planes: vec![empty; layout.planes as usize],
        };
        for block in layout.all_blocks() {
            table.pool_of[block.0 as usize] = layout.plane_of_block(block);
        }
        for block in layout.all_blocks().filter(|&block| !table.is_bad(block)).collect::<Vec<_>>() {
            table.push_free(block);
        }
        table
    }

    /// Gives each plane so many open blocks for the host beside the first one.
    pub fn set_streams(&mut self, more: u32) {
        self.streams = vec![Cursor::CLOSED; more as usize * self.planes.len()];
    }

    /// The open block of a stream from 1 on.
    #[inline]
    pub fn stream(&mut self, plane: u32, stream: u32) -> &mut Cursor {
        let more = self.streams.len() / self.planes.len();
        &mut self.streams[plane as usize * more + stream as usize - 1]
    }

    /// The open block of a stream for the host's pages, from 0 on.
    #[inline]
    pub fn open_of(&mut self, pool: u32, stream: u32) -> &mut Cursor {
        match stream {
            0 => &mut self.planes[pool as usize].host,
            stream => self.stream(pool, stream),
        }
    }

    /// Whether one of the streams beside the first has this block, full or not.
    fn is_of_stream(&self, pool: u32, block: BlockId) -> bool {
        !self.streams.is_empty() && self.open_streams(pool).any(|open| open == block)
    }

    /// Open blocks of a pool that are full are open no more.
    pub fn close_full(&mut self, pool: u32) {
        let more = self.streams.len() / self.planes.len();
        let p = &mut self.planes[pool as usize];
        let streams = &mut self.streams[pool as usize * more..][..more];
        for open in [&mut p.host, &mut p.moved].into_iter().chain(streams) {
            if open.is_full() {
                *open = Cursor::CLOSED;
            }
        }
    }

    /// Open blocks of streams beside the first one, in a plane.
    pub fn open_streams(&self, plane: u32) -> impl Iterator<Item = BlockId> + '_ {
        let more = self.streams.len() / self.planes.len();
        let own = &self.streams[plane as usize * more..(plane as usize + 1) * more];
        own.iter().filter(|cursor| **cursor != Cursor::CLOSED).map(|cursor| cursor.block(&self.layout))
    }

    /// A stream without an open block in the plane of a block.
    fn closed_stream(&mut self, block: BlockId) -> Option<&mut Cursor> {
        let more = self.streams.len() / self.planes.len();
        let plane = self.pool_of[block.0 as usize] as usize;
        self.streams[plane * more..(plane + 1) * more].iter_mut().find(|cursor| cursor.is_full())
    }

    /// The shape of the array.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What a page holds.
    #[inline]
    pub fn content(&self, ppn: Ppn) -> Content {
        match self.owners[ppn.0 as usize] {
            0 => self.unowned_content(ppn),
            word => Content::from_word(word),
        }
    }

    /// What a page without an owner holds.
    #[inline]
    fn unowned_content(&self, ppn: Ppn) -> Content {
        self.filled.as_ref().map_or(Content::Free, |filled| filled.content(ppn))
    }

    /// The logical page of it, if any.
    #[inline]
    fn unowned(&self, ppn: Ppn) -> Option<Lpn> {
        match self.unowned_content(ppn) {
            Content::Data(lpn) => Some(lpn),
            _ => None,
        }
    }

    /// Whether a page is not erased.
    fn is_written(&self, ppn: Ppn) -> bool {
        self.owners[ppn.0 as usize] != 0 || self.unowned_content(ppn) != Content::Free
    }

    /// Takes the pages of blocks that are open or full as written, without an owner for any of them. I-6 is then not checked
    /// on them.
    pub fn begin_as(&mut self, initial: &Arc<dyn Initial>) {
        self.filled = Some(FilledBlocks::new(Arc::clone(initial)));
    }

    /// Counts pages of a block that begins with old versions.
    pub fn begin_with_invalid(&mut self, block: BlockId, count: u32) {
        self.invalid[block.0 as usize] = count as u16;
    }

    /// Notes what was programmed into a page. Panics when the page was not erased: I-6.
    #[inline]
    pub fn programmed(&mut self, ppn: Ppn, content: Content) {
        let owner = &mut self.owners[ppn.0 as usize];
        assert!(*owner == 0, "I-6: page {ppn:?} is programmed twice without an erase");
        *owner = content.word();
    }

    /// A page lost its data to a newer version, or to a trim; returns its block.
    #[inline]
    pub fn invalidate(&mut self, ppn: Ppn) -> BlockId {
        assert!((ppn.0 as usize) < self.owners.len(), "page {ppn:?} is on no block");
        let block = self.layout.block(ppn).0 as usize;
        debug_assert!(block < self.invalid.len());
        debug_assert!((self.pool_of[block] as usize) < self.planes.len());
        // SAFETY: `pool_of` names only pools that there are: planes, or what `set_shares` has made, which is the only other
        // place where `planes` changes its length. There is a counter for each block number, of which there are as many as page numbers shifted
        // by `page_bits`, and `planes << plane_bits` is a multiple of `1 << page_bits`: `ppn >> page_bits` is below their
        // number. No other table ever changes its length.
        unsafe {
            *self.invalid.get_unchecked_mut(block) += 1;
            let pool = *self.pool_of.get_unchecked(block) as usize;
            self.planes.get_unchecked_mut(pool).valid -= 1;
        }
        BlockId(block as u32)
    }

    /// A page that counts as invalid holds the newest version again: the copy of it is given up.
    pub fn revive(&mut self, ppn: Ppn, content: Content) {
        let block = self.layout.block(ppn).0 as usize;
        self.owners[ppn.0 as usize] = content.word();
        self.invalid[block] -= 1;
        self.planes[self.pool_of[block] as usize].valid += 1;
    }

    /// Gives up what is left of the host's open blocks of a pool, streams included.
    pub fn waste_host(&mut self, pool: u32) {
        let more = self.streams.len() / self.planes.len();
        for at in pool as usize * more..(pool as usize + 1) * more {
            let rest = std::mem::replace(&mut self.streams[at], Cursor::CLOSED);
            self.waste(rest);
        }
        let rest = std::mem::replace(&mut self.planes[pool as usize].host, Cursor::CLOSED);
        self.waste(rest);
    }

    /// The block is written no further, for it is going to be erased.
    pub fn close(&mut self, block: BlockId) {
        let layout = self.layout;
        let open = self.planes.iter_mut().flat_map(|p| [&mut p.host, &mut p.moved]).chain(&mut self.streams);
        open.filter(|cursor| cursor.block(&layout) == block).for_each(|cursor| *cursor = Cursor::CLOSED);
    }

    /// Number of the first program of a block that is not erased.
    pub fn oldest(&self, block: BlockId) -> u64 {
        self.oldest[block.0 as usize]
    }

    /// Notes that what a page holds is not needed any more, for maps that are not asked about each page.
    #[inline]
    pub fn forget(&mut self, ppn: Ppn) {
        self.owners[ppn.0 as usize] = WASTE;
    }

    /// Gives up the pages that are left of an open block, until its next erase.
    pub fn waste(&mut self, mut rest: Cursor) {
        while !rest.is_full() {
            let ppn = rest.take();
            self.waste_page(ppn);
        }
    }

    /// A page cannot be used, or holds an old version, until its next erase.
    pub fn waste_page(&mut self, ppn: Ppn) {
        self.owners[ppn.0 as usize] = WASTE;
        self.invalid[self.layout.block(ppn).0 as usize] += 1;
    }

    /// A page begins with an old version of a logical page.
    pub fn old_page(&mut self, ppn: Ppn, lpn: Lpn) {
        self.programmed(ppn, Content::Data(lpn));
        self.invalid[self.layout.block(ppn).0 as usize] += 1;
    }

    /// Opens an erased block of a plane for the host's pages or the map's; `seq` is the number its first page will get.
    pub fn open_free(&mut self, plane: u32, seq: u64) -> Option<Cursor> {
        self.open(plane, seq, self.wear_rules().order.of_host())
    }

    /// The same for moved pages.
    pub fn open_free_for_moved(&mut self, plane: u32, seq: u64) -> Option<Cursor> {
        self.open(plane, seq, self.wear_rules().order.of_moved())
    }

    /// The same for pages that are moved away from a block that has worn little.
    pub fn open_free_most_worn(&mut self, plane: u32, seq: u64) -> Option<Cursor> {
        self.open(plane, seq, Choice::MostWorn)
    }

    /// Blocks at the start of each plane that are nobody's.
    pub fn apart(&self) -> u32 {
        self.apart
    }

    /// Takes the first blocks of each plane of an erased drive away from whoever has its planes; false when they are too few.
    pub fn set_apart(&mut self, blocks: u32) -> bool {
        self.apart = blocks;
        for plane in 0..self.layout.planes {
            for _ in 0..blocks {
                let list = &mut self.free[plane as usize];
                let block = list.head;
                if block == NONE {
                    return false;
                }
                list.head = self.next_free[block as usize];
                if list.head == NONE {
                    list.tail = NONE;
                }
                self.oldest[block as usize] = u64::MAX;
                self.planes[plane as usize].free -= u32::from(self.shares.is_empty());
            }
        }
        true
    }

    fn open(&mut self, plane: u32, seq: u64, choice: Choice) -> Option<Cursor> {
        let block = self.take_free(plane, choice)?;
        self.restore_owner(BlockId(block), plane);
        self.oldest[block as usize] = seq;
        let first = self.layout.first_page(BlockId(block)).0;
        Some(Cursor::over(first, first + self.layout.pages))
    }

    /// A block that was opened and has no page is an erased one of its pool again.
    pub fn close_unwritten(&mut self, block: BlockId) {
        self.push_free(block);
    }

    fn push_free(&mut self, block: BlockId) {
        self.link_free(block);
        self.planes[self.pool_of[block.0 as usize] as usize].free += 1;
    }

    fn link_free(&mut self, block: BlockId) {
        let plane = self.layout.plane_of_block(block) as usize;
        let list = &mut self.free[plane];
        self.next_free[block.0 as usize] = NONE;
        if list.tail == NONE {
            list.head = block.0;
        } else {
            self.next_free[list.tail as usize] = block.0;
        }
        list.tail = block.0;
    }

    /// Erases a block and adds it to the free ones, or retires it when it is worn out. I-16: its erase count grows.
    pub fn erased(&mut self, block: BlockId) {
        self.erased_keeping(block, 1);
    }

    /// The same for a block whose place another free one takes at once.
    pub fn erased_to_replace(&mut self, block: BlockId) {
        self.erased_keeping(block, 2);
    }

    fn erased_keeping(&mut self, block: BlockId, least_free: u32) {
        let first = self.layout.first_page(block).0 as usize;
        self.owners[first..first + self.layout.pages as usize].fill(0);
        if let Some(filled) = &mut self.filled {
            filled.erased(block);
        }
        self.invalid[block.0 as usize] = 0;
        self.erases[block.0 as usize] += 1;
        if let Some(modes) = &mut self.modes {
            modes.erased(block, self.pool_of[block.0 as usize]);
        }
        if !self.retire(block, least_free) {
            self.push_free(block);
        }
    }

    /// Pages of the block without valid data.
    #[inline]
    pub fn invalid(&self, block: BlockId) -> u16 {
        self.invalid[block.0 as usize]
    }

    /// Valid pages of every block, plane after plane; records of the drive itself count until their block is cleared.
    pub fn valid_pages(&self) -> Vec<u32> {
        let valid = |block: BlockId| {
            let first = self.layout.first_page(block).0;
            let pages = &self.owners[first as usize..(first + self.layout.pages) as usize];
            // Pages are programmed in order.
            let written = match &self.filled {
                _ if self.is_slc(block) => pages.iter().filter(|&&owner| owner != 0).count() as u32,
                None => pages.partition_point(|&owner| owner != 0) as u32,
                Some(_) => self.written_pages(first),
            };
            written - written.min(u32::from(self.invalid(block)))
        };
        self.layout.all_blocks().map(valid).collect()
    }

    /// Written pages of the block whose first page is `first`. Pages are programmed in order.
    fn written_pages(&self, first: u32) -> u32 {
        let (mut least, mut most) = (0, self.layout.pages);
        while least < most {
            let middle = (least + most) / 2;
            if self.is_written(Ppn(first + middle)) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        least
    }

    /// The invalid counters of the plane of a pool, for the collector.
    pub fn plane_invalid(&self, pool: u32) -> &[u16] {
        let first = self.layout.first_block(self.plane_of_pool(pool)).0 as usize;
        &self.invalid[first..first + self.layout.blocks as usize]
    }

    /// The numbers of the programs that the blocks of the plane of a pool were opened with, for the collector.
    pub fn plane_opened(&self, pool: u32) -> &[u64] {
        let first = self.layout.first_block(self.plane_of_pool(pool)).0 as usize;
        &self.oldest[first..first + self.layout.blocks as usize]
    }

    /// The erases of the blocks of the plane of a pool, for the collector.
    pub fn plane_erases(&self, pool: u32) -> &[u32] {
        let first = self.layout.first_block(self.plane_of_pool(pool)).0 as usize;
        &self.erases[first..first + self.layout.blocks as usize]
    }

    /// Erases of one block.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }

    /// Forgets a block's erases. A fault that `verify --inject-bug` asks for; nothing else calls it.
    pub fn forget_wear(&mut self, block: BlockId) {
        self.erases[block.0 as usize] = 0;
    }

    /// Sequence number of the oldest page on the drive that is not erased; `None` when nothing is written.
    pub fn oldest_seq(&self) -> Option<u64> {
        let free: std::collections::BTreeSet<BlockId> = self.free_blocks().collect();
        self.layout.all_blocks().filter(|b| !free.contains(b)).map(|b| self.oldest[b.0 as usize]).min()
    }

    /// The erased blocks, plane by plane, longest erased first.
    pub fn free_blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        (0..self.layout.planes).flat_map(|plane| self.free_in(plane))
    }

    /// The erased blocks of a plane, longest erased first.
    pub fn free_in(&self, plane: u32) -> impl Iterator<Item = BlockId> + '_ {
        let head = self.free[plane as usize].head;
        std::iter::successors((head != NONE).then_some(head), move |&b| {
            let next = self.next_free[b as usize];
            (next != NONE).then_some(next)
        })
        .map(BlockId)
    }

    /// The logical page that a page holds, if it holds one and is on the drive at all.
    #[inline]
    pub fn data_at(&self, ppn: Ppn) -> Option<Lpn> {
        match self.owners.get(ppn.0 as usize)?.wrapping_sub(1) {
            lpn if lpn < MAP - 1 => Some(Lpn(lpn)),
            u32::MAX => self.unowned(ppn),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
