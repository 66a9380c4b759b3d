//! Units of allocation and collection: how many blocks are opened, collected and erased as one.
//!
//! A unit is one block (`plane`), a block in each plane of a die (`die`), or a block in every plane of the drive
//! (`superblock`, S3-21). Its pages are dealt out to its blocks in turn, so consecutive pages go to different planes: that is the
//! parallelism manager of the shared-space paper (S3-9), whose proposal takes the widest unit: with 2 channels, chips, dies and planes
//! 16 operations run at once (C3-8). Partial stripes are allowed: a unit takes a page at a time, whatever comes (O3-13).
//!
//! *How it is done.* The translation layer sees a drive whose blocks are the units: [`Units::layout`] has as many planes as there are
//! groups of blocks, as many blocks as a group has units, and `width` times the pages. Everything that counts pages and blocks is as it
//! was; only where a page really lies is looked up here ([`Units::place`]), on the way to the flash. With `plane` both are the same.
//!
//! *Bad blocks.* A unit takes the next good block of each plane, so a block that is bad from the factory costs the plane one block and
//! no unit its width; the drive has as many units as its worst plane has good blocks. That table follows from the seed and is not
//! stored. A unit is retired as a whole when its weakest block comes to its end: real drives put a spare block in its place, which
//! needs a table on the flash.
//!
//! *After a power cut* the pages of a unit that was being written end at different heights in its blocks, for the dies work for
//! themselves. No page is given up for that: the unit's pages are numbered anew ([`Units::set_order`]), those that are written first,
//! then those that can still be written, lowest first. The order holds until the unit is erased, and no record names a page
//! by its number in it.
//!
//! RAM: 4 bytes per block where a block is bad, 4 bytes per page of a unit that was open at a cut.

use crate::address::{BlockId, Layout, Ppn, TooLarge};
use std::fmt;

/// How blocks are put together.
#[derive(Clone, Debug)]
pub struct Units {
    /// Blocks of a unit.
    width: u32,
    /// What the translation layer sees.
    layout: Layout,
    /// What is there.
    chips: Layout,
    /// The planes of each group, in the order in which pages go to them.
    planes: Vec<u32>,
    /// The blocks of each member, in the order of its units; empty where all blocks are good.
    blocks: Vec<u32>,
    /// The order of pages in units that were open at a power cut.
    orders: Vec<Option<Box<[u32]>>>,
    /// Units that have an order of their own.
    reordered: u32,
}

/// The most pages that a unit may have: its invalid pages are counted in 16 bits.
pub const UNIT_PAGES_MAX: u64 = u16::MAX as u64;

/// Why blocks cannot be put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitError {
    /// More pages than can be counted.
    Pages(u64),
    /// The page numbers are too few.
    Layout(TooLarge),
    /// A plane has no good block.
    NoBlock,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::Pages(pages) => {
                write!(
                    f,
                    "a unit of {pages} pages is too large: at most {UNIT_PAGES_MAX}; take a narrower one"
                )
            }
            UnitError::Layout(why) => why.fmt(f),
            UnitError::NoBlock => f.write_str("a plane has no good block"),
        }
    }
}

impl Units {
    /// Each block by itself.
    pub fn single(chips: Layout) -> Units {
        let none = Vec::new;
        Units {
            width: 1,
            layout: chips,
            chips,
            planes: none(),
            blocks: none(),
            orders: Vec::new(),
            reordered: 0,
        }
    }

    /// Units over groups of `width` planes of `chips`: those of group `g` are `planes[g * width..]`. Blocks that `is_bad` names are
    /// passed over.
    pub fn new(
        chips: Layout,
        width: u32,
        planes: Vec<u32>,
        is_bad: impl Fn(BlockId) -> bool,
    ) -> Result<Units, UnitError> {
        assert!(width > 0 && planes.len() as u32 == chips.planes, "each plane is in one group");
        if width == 1 {
            return Ok(Units::single(chips));
        }
        let pages = u64::from(width) * u64::from(chips.pages);
        if pages > UNIT_PAGES_MAX {
            return Err(UnitError::Pages(pages));
        }
        let good = |plane: u32| {
            let first = chips.first_block(plane).0;
            chips.plane_blocks(plane).filter(|&b| !is_bad(b)).map(|b| b.0 - first).collect::<Vec<u32>>()
        };
        let members: Vec<Vec<u32>> = planes.iter().map(|&plane| good(plane)).collect();
        let units = members.iter().map(Vec::len).min().unwrap_or(0) as u32;
        if units == 0 {
            return Err(UnitError::NoBlock);
        }
        let layout = Layout::new(chips.planes / width, units, pages as u32).map_err(UnitError::Layout)?;
        let all_good = members.iter().all(|blocks| blocks.len() as u32 == chips.blocks);
        let blocks = match all_good {
            true => Vec::new(),
            false => members.iter().flat_map(|blocks| blocks[..units as usize].to_vec()).collect(),
        };
        let orders = vec![None; layout.block_end() as usize];
        Ok(Units { width, layout, chips, planes, blocks, orders, reordered: 0 })
    }

    /// Blocks of a unit.
    #[inline]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Planes, blocks and pages as the translation layer sees them: groups, units and pages of a unit.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The flash array that is there.
    #[inline]
    pub fn chips(&self) -> &Layout {
        &self.chips
    }

    /// Where a page really lies.
    #[inline]
    pub fn place(&self, ppn: Ppn) -> Ppn {
        if self.width == 1 {
            return ppn;
        }
        self.place_in_unit(ppn)
    }

    fn place_in_unit(&self, ppn: Ppn) -> Ppn {
        let mut at = self.layout.page(ppn);
        if self.reordered > 0
            && let Some(order) = &self.orders[self.layout.block(ppn).0 as usize]
        {
            at = order[at as usize];
        }
        self.slot(self.layout.block(ppn), at)
    }

    /// Where slot `at` of a unit really lies: slots go from plane to plane.
    pub fn slot(&self, unit: BlockId, at: u32) -> Ppn {
        let (row, member) = (at / self.width, at % self.width);
        Ppn(self.chips.first_page(self.block(unit, member)).0 + row)
    }

    /// Block `member` of a unit.
    pub fn block(&self, unit: BlockId, member: u32) -> BlockId {
        if self.width == 1 {
            return unit;
        }
        let group = self.layout.plane_of_block(unit);
        let index = unit.0 - self.layout.first_block(group).0;
        let at = group * self.width + member;
        let block = match self.blocks.is_empty() {
            true => index,
            false => self.blocks[(at * self.layout.blocks + index) as usize],
        };
        BlockId(self.chips.first_block(self.planes[at as usize]).0 + block)
    }

    /// Sets the order of a unit's pages after a power cut: `is_free` says which slots can still be written. Slots that are
    /// taken come first. A unit that is taken up to some slot keeps the plain order.
    pub fn set_order(&mut self, unit: BlockId, is_free: impl Fn(u32) -> bool) {
        self.forget_order(unit);
        let pages = self.layout.pages;
        let taken = (0..pages).filter(|&slot| !is_free(slot));
        let free = (0..pages).filter(|&slot| is_free(slot));
        let order: Vec<u32> = taken.chain(free).collect();
        if order.iter().enumerate().any(|(at, &slot)| at as u32 != slot) {
            self.orders[unit.0 as usize] = Some(order.into());
            self.reordered += 1;
        }
    }

    /// A unit is erased: its pages are in plain order again.
    #[inline]
    pub fn forget_order(&mut self, unit: BlockId) {
        if self.width > 1 && self.orders[unit.0 as usize].take().is_some() {
            self.reordered -= 1;
        }
    }

    /// Forgets all orders, before a start.
    pub fn forget_orders(&mut self) {
        self.orders.fill(None);
        self.reordered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_widest_unit_keeps_sixteen_planes_busy() {
        // C3-8: 2 channels x 2 chips x 2 dies x 2 planes.
        let chips = Layout::new(16, 8, 4).unwrap();
        let units = Units::new(chips, 16, (0..16).collect(), |_| false).unwrap();
        let first = units.layout().first_page(BlockId(3)).0;
        let planes: BTreeSet<u32> = (first..first + 16).map(|p| chips.plane(units.place(Ppn(p)))).collect();
        assert_eq!(planes.len(), 16);
        assert!((first..first + 16).all(|p| chips.page(units.place(Ppn(p))) == 0));
    }

    #[test]
    fn the_superblock_of_the_paper_has_20_mib() {
        // S3-21: 10 channels, 1 chip, 2 dies, 2 planes, 128 pages of 4 KiB.
        let units = Units::new(Layout::new(40, 512, 128).unwrap(), 40, (0..40).collect(), |_| false).unwrap();
        assert_eq!(units.layout().pages * 4096, 20 << 20);
        assert_eq!((units.layout().planes, units.layout().blocks), (1, 512));
    }

    #[test]
    fn a_unit_that_cannot_be_counted_is_refused() {
        let chips = Layout::new(256, 8, 384).unwrap();
        let refused = Units::new(chips, 256, (0..256).collect(), |_| false).err();
        assert_eq!(refused, Some(UnitError::Pages(98_304)));
    }

    #[test]
    fn an_order_names_what_is_taken_first_and_ends_with_the_erase() {
        let chips = Layout::new(2, 3, 4).unwrap();
        let mut units = Units::new(chips, 2, vec![1, 0], |_| false).unwrap();
        let unit = BlockId(1);
        // Plane 1 took two pages, plane 0 none.
        let taken = [0, 2];
        units.set_order(unit, |slot| !taken.contains(&slot));
        let first = units.layout().first_page(unit).0;
        let places: Vec<(u32, u32)> = (first..first + 8)
            .map(|p| units.place(Ppn(p)))
            .map(|at| (chips.plane(at), chips.page(at)))
            .collect();
        assert_eq!(places[..2], [(1, 0), (1, 1)]);
        assert_eq!(places[2..], [(0, 0), (0, 1), (1, 2), (0, 2), (1, 3), (0, 3)]);
        units.forget_order(unit);
        assert_eq!(chips.plane(units.place(Ppn(first + 1))), 0);
    }

    proptest! {
        /// The obvious model: a list of all good pages by plane. Every page of every unit is another one of them, its pages go
        /// upwards in each block, and no bad block is used.
        #[test]
        fn every_page_of_every_unit_lies_elsewhere_on_good_flash(
            width in prop::sample::select(vec![1u32, 2, 3, 6]),
            bad in prop::collection::btree_set((0u32..6, 0u32..9), 0..12),
            taken in prop::collection::btree_set(0u32..24, 0..24),
        ) {
            let chips = Layout::new(6, 9, 4).unwrap();
            let bad: BTreeSet<u32> = bad.iter().map(|&(p, b)| chips.first_block(p).0 + b).collect();
            let made = Units::new(chips, width, vec![5, 3, 1, 0, 2, 4], |b| bad.contains(&b.0));
            let Ok(mut units) = made else { return Ok(()) };
            let worst = (0..6).map(|p| chips.plane_blocks(p).filter(|b| !bad.contains(&b.0)).count()).min();
            if width > 1 {
                prop_assert_eq!(units.layout().blocks as usize, worst.unwrap_or(0));
                let pages = units.layout().pages;
                units.set_order(BlockId(0), |slot| !taken.contains(&slot) && slot < pages);
            }
            let mut seen = BTreeSet::new();
            for unit in units.layout().all_blocks() {
                let first = units.layout().first_page(unit).0;
                for ppn in (first..first + units.layout().pages).map(Ppn) {
                    let at = units.place(ppn);
                    prop_assert!(chips.page(at) < chips.pages && chips.plane(at) < 6);
                    prop_assert!(width == 1 || !bad.contains(&chips.block(at).0));
                    prop_assert!(seen.insert(at.0), "two pages lie at {:?}", at);
                }
            }
        }
    }
}
