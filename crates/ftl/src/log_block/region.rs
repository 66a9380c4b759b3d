//! The blocks of one pool: which logical page lies where, what each block holds, and what is erased.
//!
//! A pool has a plane, or a part of one. Where blocks change hands between the pools of a plane each of them numbers all blocks of the plane, and has
//! those that it was given; the record of a page then says whose it is, for the pages of each pool begin at a number of their own ([`Part`]).
//!
//! Physical pages are numbered `block << page_bits | page` within the plane, logical pages `logical block x pages + offset`.
//! Erased blocks are used in the order of their erase, so that wear goes round.
//!
//! What a large drive holds that was written once in order is known by rule: page `n` lies at its offset in block `n / pages`. The pages of a
//! logical block, and of its first data block, are entered when one of them changes.

use super::tag::{Role, Tag};
use super::{Counts, Planted, Taken};
use crate::filled::Bits;
use std::collections::VecDeque;
use std::ops::Range;

/// No page, no block.
pub const NONE: u32 = u32::MAX;

/// What a physical page holds.
const FREE: u32 = 0;
const WASTE: u32 = u32::MAX;
const FILLER: u32 = u32::MAX - 1;
/// From here on: the mark of a logical block.
const MARK: u32 = 0x8000_0000;

/// The size of a plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Pages of a block, at most 4096.
    pub pages: u32,
    /// Physical blocks.
    pub blocks: u32,
    /// Logical blocks.
    pub logical: u32,
}

impl Shape {
    /// log2 of the distance between the first pages of two blocks.
    pub fn page_bits(&self) -> u32 {
        u32::BITS - (self.pages.max(2) - 1).leading_zeros()
    }
}

/// What a pool has of the blocks that it numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The blocks that it begins with.
    pub blocks: Range<u32>,
    /// The number that its first logical page has on record.
    pub base: u32,
}

/// The blocks of a pool.
#[derive(Clone, Debug)]
pub struct Region {
    shape: Shape,
    part: Part,
    page_bits: u32,
    /// The newest version of each logical page, plus one; zero where there is none, or where it is known by rule.
    at: Vec<u32>,
    /// Logical pages that lie in order in the first blocks, by rule, while their logical block is not entered.
    began: u32,
    /// Logical blocks whose pages, and whose first data block's, are in the tables.
    entered: Bits,
    /// The data block of each logical block.
    data: Vec<u32>,
    /// Whether a mark of the logical block may still count.
    marked: Vec<bool>,
    /// What each physical page holds: a logical page plus one, or one of the words above.
    owner: Vec<u32>,
    written: Vec<u16>,
    valid: Vec<u16>,
    role: Vec<Role>,
    birth: Vec<u32>,
    free: VecDeque<u32>,
    births: u32,
    datas: u32,
    /// Blocks that are not bad.
    good: u32,
    /// What happened.
    pub count: Counts,
    /// Faults.
    pub planted: Planted,
}

impl Region {
    /// An erased plane, all of which the pool has.
    pub fn new(shape: Shape) -> Region {
        Region::part(shape, Part { blocks: 0..shape.blocks, base: 0 })
    }

    /// An erased plane, of which the pool has a part.
    pub fn part(shape: Shape, part: Part) -> Region {
        let (bits, blocks) = (shape.page_bits(), shape.blocks as usize);
        let logical = shape.logical as usize;
        assert!(
            u64::from(shape.logical) * u64::from(shape.pages) < u64::from(MARK),
            "page numbers fit 31 bits"
        );
        Region {
            shape,
            page_bits: bits,
            at: vec![0; logical * shape.pages as usize],
            began: 0,
            entered: Bits::default(),
            data: vec![NONE; logical],
            marked: vec![false; logical],
            owner: vec![FREE; blocks << bits],
            written: vec![0; blocks],
            valid: vec![0; blocks],
            role: vec![Role::Direct; blocks],
            birth: vec![0; blocks],
            free: part.blocks.clone().collect(),
            births: 0,
            datas: 0,
            good: part.blocks.len() as u32,
            count: Counts::default(),
            planted: Planted::default(),
            part,
        }
    }

    /// The size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The blocks that it began with.
    pub fn begins_with(&self) -> Range<u32> {
        self.part.blocks.clone()
    }

    /// The number that its first logical page has on record.
    pub fn base(&self) -> u32 {
        self.part.base
    }

    /// Where the newest version of a logical page lies.
    #[inline]
    pub fn at(&self, page: u32) -> Option<u32> {
        match self.at[page as usize] {
            0 if page < self.began => self.at_start(page),
            word => word.checked_sub(1),
        }
    }

    /// Where a page of the first fill lies, if its logical block is as it was.
    #[inline(never)]
    fn at_start(&self, page: u32) -> Option<u32> {
        let lbn = page / self.shape.pages;
        (!self.entered.get(lbn)).then(|| self.spot(lbn, page % self.shape.pages))
    }

    /// What a physical page holds, as a word.
    #[inline]
    fn owner(&self, spot: u32) -> u32 {
        match self.owner[spot as usize] {
            FREE if self.began > 0 => self.owner_at_start(spot),
            word => word,
        }
    }

    #[inline(never)]
    fn owner_at_start(&self, spot: u32) -> u32 {
        let (block, position) = (self.block_of(spot), self.position(spot));
        let page = u64::from(block) * u64::from(self.shape.pages) + u64::from(position);
        let is_filled =
            position < self.shape.pages && page < u64::from(self.began) && !self.entered.get(block);
        if is_filled { page as u32 + 1 } else { FREE }
    }

    /// A logical block changes: what is known of it by rule is entered.
    #[inline]
    fn enter(&mut self, lbn: u32) {
        if self.began > 0
            && u64::from(lbn) * u64::from(self.shape.pages) < u64::from(self.began)
            && !self.entered.get(lbn)
        {
            self.enter_from_start(lbn);
        }
    }

    #[cold]
    fn enter_from_start(&mut self, lbn: u32) {
        self.entered.set(lbn);
        let first = lbn * self.shape.pages;
        for page in first..self.began.min(first + self.shape.pages) {
            let spot = self.spot(lbn, page - first);
            (self.at[page as usize], self.owner[spot as usize]) = (spot + 1, page + 1);
        }
    }

    /// Whether an erased plane opens so many blocks as it needs for `pages` pages in the order of their numbers.
    pub fn opens_in_order(&self, pages: u32) -> bool {
        let blocks = pages.div_ceil(self.shape.pages);
        blocks <= self.free() && self.free.iter().zip(0..blocks).all(|(&free, number)| free == number)
    }

    /// Fills an erased plane that [opens its blocks in order](Region::opens_in_order) with pages `0..pages`, as if each had been
    /// [put](Region::put) into the data block of its logical block, without an entry for any.
    pub fn begin(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.shape.pages);
        for lbn in 0..blocks {
            let block = self.open(Role::Direct);
            self.set_data(lbn, block);
            let written = self.shape.pages.min(pages - lbn * self.shape.pages) as u16;
            (self.written[block as usize], self.valid[block as usize]) = (written, written);
        }
        self.began = pages;
        self.entered = Bits::new(blocks);
    }

    /// The data block of a logical block, or [`NONE`].
    #[inline]
    pub fn data(&self, lbn: u32) -> u32 {
        self.data[lbn as usize]
    }

    /// Logical blocks with a data block.
    pub fn datas(&self) -> u32 {
        self.datas
    }

    /// Pages of a block that are programmed.
    #[inline]
    pub fn written(&self, block: u32) -> u32 {
        u32::from(self.written[block as usize])
    }

    /// Whether a block has no erased page left.
    #[inline]
    pub fn is_full(&self, block: u32) -> bool {
        self.written(block) == self.shape.pages
    }

    /// Erased blocks.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Blocks that are not bad.
    pub fn good(&self) -> u32 {
        self.good
    }

    /// A block is bad: it is opened no more. It is erased, or was not [restored](Region::restore).
    pub fn retire(&mut self, block: u32) {
        self.free.retain(|&free| free != block);
        self.good -= 1;
    }

    /// Takes in an erased block that another pool had, or that a start has found; it is opened last.
    pub fn take_in(&mut self, block: u32) {
        self.free.push_back(block);
        self.good += 1;
    }

    /// Gives out the block that was erased last; there is one.
    pub fn give_out(&mut self) -> u32 {
        self.good -= 1;
        self.free.pop_back().expect("only an erased block is given out")
    }

    /// Erased blocks, the one that is opened next first.
    pub fn free_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.free.iter().copied()
    }

    /// Erased blocks are opened in the order of this, those of equal ones as before.
    pub fn sort_free(&mut self, by: impl Fn(u32) -> u32) {
        self.free.make_contiguous().sort_by_key(|&block| by(block));
    }

    /// This erased block is opened next.
    pub fn open_next(&mut self, block: u32) {
        self.free.retain(|&free| free != block);
        self.free.push_front(block);
    }

    /// The logical block of a data block.
    pub fn data_of(&self, block: u32) -> Option<u32> {
        let page = self.owner(self.spot(block, 0));
        let lbn = (FREE < page && page < MARK).then(|| (page - 1) / self.shape.pages)?;
        (self.data(lbn) == block).then_some(lbn)
    }

    /// Logical pages that are mapped.
    pub fn mapped(&self) -> u64 {
        self.valid.iter().map(|&v| u64::from(v)).sum()
    }

    /// Valid pages of a block.
    pub fn valid(&self, block: u32) -> u32 {
        u32::from(self.valid[block as usize])
    }

    /// The block of a physical page.
    #[inline]
    pub fn block_of(&self, spot: u32) -> u32 {
        spot >> self.page_bits
    }

    /// The position of a physical page in its block.
    #[inline]
    pub fn position(&self, spot: u32) -> u32 {
        spot & ((1 << self.page_bits) - 1)
    }

    #[inline]
    fn spot(&self, block: u32, position: u32) -> u32 {
        block << self.page_bits | position
    }

    /// Opens an erased block. The caller has seen that there is one.
    pub fn open(&mut self, role: Role) -> u32 {
        let block = self.free.pop_front().expect("blocks are counted before one is opened");
        self.births += 1;
        (self.role[block as usize], self.birth[block as usize]) = (role, self.births);
        block
    }

    /// The tag of a page that holds a version of `page`.
    pub fn tag(&self, page: u32, spot: u32) -> Tag {
        let block = self.block_of(spot) as usize;
        let (role, birth) = (self.role[block], self.birth[block]);
        Tag { page: self.part.base + page, role, birth, is_filler: false, is_mark: false, is_last: false }
    }

    /// Takes the next page of `block` for `owner`.
    fn program(&mut self, block: u32, owner: u32, page: u32) -> Taken {
        let position = self.written(block);
        assert!(position < self.shape.pages, "a full block takes no page");
        self.written[block as usize] += 1;
        let spot = self.spot(block, position);
        self.owner[spot as usize] = owner;
        Taken { spot, old: None, tag: self.tag(page, spot) }
    }

    /// Takes the next page of `block` for a new version of `page`.
    #[inline]
    pub fn put(&mut self, page: u32, block: u32) -> Taken {
        self.enter(page / self.shape.pages);
        let old = self.forget(page);
        let taken = self.program(block, page + 1, page);
        self.at[page as usize] = taken.spot + 1;
        self.valid[block as usize] += 1;
        Taken { old, ..taken }
    }

    /// Takes the next page of `block` for no data: logical page `page` is not mapped.
    pub fn put_filler(&mut self, page: u32, block: u32) -> Taken {
        self.count.fillers += 1;
        self.enter(page / self.shape.pages);
        let taken = self.program(block, FILLER, page);
        Taken { tag: Tag { is_filler: true, ..taken.tag }, ..taken }
    }

    /// Takes the next page of `block` for a mark that pages `first..end` of a logical block are unmapped.
    pub fn put_mark(&mut self, first: u32, end: u32, block: u32) -> Taken {
        let lbn = first / self.shape.pages;
        self.marked[lbn as usize] = true;
        self.count.marks += 1;
        self.unmap(first, end);
        let taken = self.program(block, MARK | lbn, lbn * self.shape.pages);
        Taken { tag: Tag { is_mark: true, ..taken.tag }, ..taken }
    }

    /// Unmaps pages `first..end`.
    pub fn unmap(&mut self, first: u32, end: u32) {
        for page in first..end {
            self.enter(page / self.shape.pages);
            if self.forget(page).is_some() {
                self.at[page as usize] = 0;
                self.count.unmapped += 1;
            }
        }
    }

    /// Whether any of pages `first..end` is mapped.
    pub fn any_mapped(&self, first: u32, end: u32) -> bool {
        (first..end).any(|page| self.at(page).is_some())
    }

    #[inline]
    fn forget(&mut self, page: u32) -> Option<u32> {
        let old = self.at(page)?;
        let block = self.block_of(old) as usize;
        self.valid[block] -= 1;
        Some(old)
    }

    /// Makes `block` the data block of a logical block; returns the one before.
    pub fn set_data(&mut self, lbn: u32, block: u32) -> u32 {
        let old = std::mem::replace(&mut self.data[lbn as usize], block);
        self.datas += u32::from(block != NONE);
        self.datas -= u32::from(old != NONE);
        old
    }

    /// A mark of the logical block no longer counts: nothing that it hides is left but in older log blocks.
    pub fn clear_mark(&mut self, lbn: u32) {
        self.marked[lbn as usize] = false;
    }

    /// Gives an erased block back. None of its pages may be valid.
    pub fn erase(&mut self, block: u32) {
        let b = block as usize;
        assert!(self.valid[b] == 0, "block {block} is erased with {} valid pages", self.valid[b]);
        let first = self.spot(block, 0) as usize;
        self.owner[first..first + self.shape.pages as usize].fill(FREE);
        self.written[b] = 0;
        self.free.push_back(block);
    }

    /// The logical block that must be merged before a page of a log block may go: the page holds the newest version of
    /// one of its pages, or a mark that may count.
    pub fn needed_by(&self, spot: u32) -> Option<u32> {
        match self.owner(spot) {
            FREE | WASTE | FILLER => None,
            mark if mark >= MARK => Some(mark - MARK).filter(|&lbn| self.marked[lbn as usize]),
            page => (self.at(page - 1) == Some(spot)).then_some((page - 1) / self.shape.pages),
        }
    }

    /// Whether page `i` of the block holds the newest version of page `i` of the logical block, as far as it is written; a
    /// filler stands for a page that is not mapped.
    pub fn is_in_place(&self, block: u32, lbn: u32) -> bool {
        let first = lbn * self.shape.pages;
        (0..self.written(block)).all(|i| {
            let (newest, spot) = (self.at(first + i), self.spot(block, i));
            newest == Some(spot) || newest.is_none() && self.owner(spot) == FILLER
        })
    }

    /// Pages of a logical block up to the last that is mapped.
    pub fn extent(&self, lbn: u32) -> u32 {
        let first = lbn * self.shape.pages;
        let last = (0..self.shape.pages).rfind(|position| self.at(first + position).is_some());
        last.map_or(0, |last| last + 1)
    }

    /// A version of `page` in the data block that is not the newest, for a planted fault.
    pub fn stale_version(&self, page: u32) -> Option<u32> {
        let data = self.data(page / self.shape.pages);
        let spot = (data != NONE).then(|| self.spot(data, page % self.shape.pages))?;
        (self.owner(spot) == page + 1).then_some(spot)
    }

    /// Forgets everything but wear, as a loss of power does. All blocks count as erased until [`Region::restore`].
    pub fn reset(&mut self) {
        let planted = self.planted;
        *self = Region { planted, ..Region::part(self.shape, self.part.clone()) };
        self.free.clear();
        self.good = 0;
    }

    /// A block as it was found: how much of it is written with what.
    pub fn restore(&mut self, block: u32, role: Role, birth: u32, owners: &[Owner]) {
        let b = block as usize;
        self.good += 1;
        (self.role[b], self.birth[b]) = (role, birth);
        self.births = self.births.max(birth);
        self.written[b] = owners.len() as u16;
        for (position, owner) in (0..).zip(owners) {
            let spot = self.spot(block, position) as usize;
            self.owner[spot] = match *owner {
                Owner::Data(page) => page + 1,
                Owner::Filler => FILLER,
                Owner::Mark(lbn) => {
                    self.marked[lbn as usize] = true;
                    MARK | lbn
                }
                Owner::Waste => WASTE,
            };
        }
        if owners.is_empty() {
            self.free.push_back(block);
        }
    }

    /// The newest version of `page` was found at `spot`.
    pub fn restore_page(&mut self, page: u32, spot: u32) {
        self.at[page as usize] = spot + 1;
        let block = self.block_of(spot) as usize;
        self.valid[block] += 1;
    }

    /// Checks that maps and counters agree.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        let mut valid = vec![0u16; self.valid.len()];
        let mapped = |page| Some((page, self.at(page)?));
        for (page, spot) in (0..self.at.len() as u32).filter_map(mapped) {
            if self.owner(spot) != page + 1 {
                return Err(format!("page {page} is mapped to {spot}, which holds something else"));
            }
            valid[self.block_of(spot) as usize] += 1;
        }
        if valid != self.valid {
            return Err("the valid pages of a block are miscounted".into());
        }
        if let Some(&block) = self.free.iter().find(|&&b| self.written[b as usize] != 0) {
            return Err(format!("block {block} is free and holds {} pages", self.written(block)));
        }
        let datas = self.data.iter().filter(|&&b| b != NONE).count() as u32;
        if datas != self.datas {
            return Err(format!("{datas} logical blocks have a data block, {} are counted", self.datas));
        }
        Ok(())
    }
}

/// What a page holds that was found after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A version of a logical page.
    Data(u32),
    /// Nothing.
    Filler,
    /// A mark of a logical block.
    Mark(u32),
    /// Torn.
    Waste,
}
