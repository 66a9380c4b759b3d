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
        let page_bits = u32::BITS - (pages.max(2) - 1).leading_zeros();
        let plane_bits = page_bits + (u32::BITS - (blocks.max(2) - 1).leading_zeros());
        // One number is kept back: maps store a page number plus one, and zero means none.
        let fits = plane_bits < 32 && u64::from(planes) << plane_bits < u64::from(u32::MAX);
        if fits {
            Ok(Layout { planes, blocks, pages, page_bits, page_mask: (1 << page_bits) - 1, plane_bits })
        } else {
            let fits = |bits: &u32| u64::from(planes) << bits < u64::from(u32::MAX);
            let bits = (page_bits + 1..u32::BITS).rev().find(fits);
            let blocks = bits.map_or(0, |bits| 1 << (bits - page_bits));
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

    /// One past the largest page number.
    pub fn ppn_end(&self) -> u32 {
        self.planes << self.plane_bits
    }

    /// One past the largest block number.
    pub fn block_end(&self) -> u32 {
        self.ppn_end() >> self.page_bits
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
        let too_large = TooLarge { blocks: 1 << 16, pages: 1 << 31 };
        assert_eq!(Layout::new(64, 1 << 20, 512), Err(too_large));
        // What is named is the most that fits.
        assert!(Layout::new(64, too_large.blocks, 512).is_ok());
        assert_eq!(Layout::new(64, too_large.blocks + 1, 512), Err(too_large));
        assert_eq!(Layout::new(1, 1 << 31, 2), Err(TooLarge { blocks: 1 << 30, pages: 1 << 31 }));
        assert_eq!(Layout::new(u32::MAX, 2, 1), Err(TooLarge { blocks: 0, pages: 0 }));
    }
}
