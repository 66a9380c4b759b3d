//! Names of pages and blocks, and how a physical page number is put together.
//!
//! A physical page number is `plane << plane_bits | block << page_bits | page`, each field as wide as it needs to be:
//! taking a number apart is a shift and a mask, whatever the geometry. Numbers between the fields' real sizes and the
//! next power of two name nothing and are never touched, so they cost address space and no memory.

use std::fmt;

/// A logical page number: the host's address divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lpn(pub u32);

/// A physical page number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ppn(pub u32);

/// A block, counted over the whole drive: `ppn >> page_bits`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The block so many behind this one.
    #[inline]
    pub fn behind(self, count: u32) -> BlockId {
        BlockId(self.0 + count)
    }
}

/// The shape of the flash array, as the translation layer sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Planes in the drive.
    pub planes: u32,
    /// Blocks in a plane.
    pub blocks: u32,
    /// Pages in a block.
    pub pages: u32,
    page_bits: u32,
    page_mask: u32,
    plane_bits: u32,
}

/// The end of a block lies here at most: maps store a page number plus one, zero means none, and an open block that ends at
/// `u32::MAX` is none.
const PPN_END_MAX: u64 = u32::MAX as u64 - 1;

/// The array does not fit 32-bit page numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// The most blocks that its planes may have.
    pub blocks: u32,
    /// Pages of the array with so many.
    pub pages: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { blocks, pages } = self;
        write!(
            f,
            "the flash array needs page numbers of more than 32 bits: its planes may have {blocks} blocks at most, which makes {pages} \
             pages; use fewer or larger pages"
        )
    }
}

impl Layout {
    /// An array of `planes` planes with `blocks` blocks of `pages` pages.
    pub fn new(planes: u32, blocks: u32, pages: u32) -> Result<Layout, TooLarge> {
        let bits_of = |count: u32| u32::BITS - (count.max(2) - 1).leading_zeros();
        let page_bits = bits_of(pages);
        // Blocks that fit where the number of a plane stands behind so many bits.
        let most = |plane_bits: u32| {
            let last_plane = u64::from(planes.max(1) - 1) << plane_bits;
            let room = PPN_END_MAX.saturating_sub(last_plane + u64::from(pages));
            let fits = last_plane + u64::from(pages) <= PPN_END_MAX;
            let blocks = if fits { 1 + (room >> page_bits) } else { 0 };
            blocks.min(1 << (plane_bits - page_bits)) as u32
        };
        let plane_bits = page_bits + bits_of(blocks);
        if plane_bits < u32::BITS && blocks <= most(plane_bits) {
            Ok(Layout { planes, blocks, pages, page_bits, page_mask: (1 << page_bits) - 1, plane_bits })
        } else {
            let blocks = (page_bits + 1..u32::BITS).map(most).max().unwrap_or(0);
            Err(TooLarge { blocks, pages: u64::from(planes) * u64::from(blocks) * u64::from(pages) })
        }
    }

    /// The block that holds a page.
    #[inline]
    pub fn block(&self, ppn: Ppn) -> BlockId {
        BlockId(ppn.0 >> self.page_bits)
    }

    /// The plane that holds a page.
    #[inline]
    pub fn plane(&self, ppn: Ppn) -> u32 {
        ppn.0 >> self.plane_bits
    }

    /// The plane that holds a block.
    #[inline]
    pub fn plane_of_block(&self, block: BlockId) -> u32 {
        block.0 >> (self.plane_bits - self.page_bits)
    }

    /// The position of a page in its block.
    #[inline]
    pub fn page(&self, ppn: Ppn) -> u32 {
        ppn.0 & self.page_mask
    }

    /// The first page of a block.
    #[inline]
    pub fn first_page(&self, block: BlockId) -> Ppn {
        Ppn(block.0 << self.page_bits)
    }

    /// The first block of a plane.
    #[inline]
    pub fn first_block(&self, plane: u32) -> BlockId {
        BlockId(plane << (self.plane_bits - self.page_bits))
    }

    /// One past the largest number that a page of the last plane could have.
    pub fn ppn_end(&self) -> u64 {
        u64::from(self.planes) << self.plane_bits
    }

    /// One past the largest number that a block of the last plane could have.
    pub fn block_end(&self) -> u32 {
        self.planes << (self.plane_bits - self.page_bits)
    }

    /// Distance between the first pages of two blocks.
    pub fn block_stride(&self) -> u32 {
        1 << self.page_bits
    }

    /// Pages that really exist.
    pub fn real_pages(&self) -> u64 {
        u64::from(self.planes) * u64::from(self.blocks) * u64::from(self.pages)
    }

    /// Every block that exists, in the order of its number.
    pub fn all_blocks(self) -> impl Iterator<Item = BlockId> {
        (0..self.planes).flat_map(move |plane| self.plane_blocks(plane))
    }

    /// Every block of one plane.
    pub fn plane_blocks(self, plane: u32) -> impl Iterator<Item = BlockId> {
        let first = self.first_block(plane).0;
        (first..first + self.blocks).map(BlockId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_number_comes_apart_as_it_was_put_together() {
        let layout = Layout::new(6, 160, 384).unwrap();
        for plane in [0, 5] {
            for block in layout.plane_blocks(plane).step_by(53) {
                for page in [0, 383] {
                    let ppn = Ppn(layout.first_page(block).0 + page);
                    assert_eq!(
                        (layout.plane(ppn), layout.block(ppn), layout.page(ppn)),
                        (plane, block, page)
                    );
                    assert_eq!(layout.plane_of_block(block), plane);
                }
            }
        }
        assert_eq!(layout.all_blocks().count(), 960);
    }

    #[test]
    fn an_array_beyond_32_bits_is_refused() {
        // Each time what is named is the most that fits: all numbers but those of the last block.
        for (planes, pages, blocks) in [
            (64, 512, (1 << 17) - 1),
            (1024, 1024, 4095),
            (3, 100, 1 << 23),
            (1, 2, 1 << 30),
            (2, 4096, (1 << 19) - 1),
        ] {
            let too_large =
                TooLarge { blocks, pages: u64::from(planes) * u64::from(blocks) * u64::from(pages) };
            assert_eq!(Layout::new(planes, u32::MAX, pages), Err(too_large));
            assert_eq!(Layout::new(planes, blocks + 1, pages), Err(too_large));
            let layout = Layout::new(planes, blocks, pages).expect("so many fit");
            let last = layout.all_blocks().last().expect("it has blocks");
            let ppn = Ppn(layout.first_page(last).0 + pages - 1);
            assert_eq!((layout.block(ppn), layout.plane(ppn)), (last, planes - 1));
            assert!(last.0 < layout.block_end() && u64::from(ppn.0) < layout.ppn_end());
        }
        assert_eq!(Layout::new(u32::MAX, 2, 1), Err(TooLarge { blocks: 0, pages: 0 }));
    }
}
