//! An open block: which page is programmed next.

use crate::address::{BlockId, Layout, Ppn};

/// An open block: the next page to program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    next: u32,
    end: u32,
}

impl Cursor {
    /// No open block.
    pub const CLOSED: Cursor = Cursor { next: u32::MAX, end: u32::MAX };

    /// The pages from `next` to before `end`, all in one block.
    pub fn over(next: u32, end: u32) -> Cursor {
        Cursor { next, end }
    }

    /// Whether the block is full, or there is none.
    #[inline]
    pub fn is_full(self) -> bool {
        self.next == self.end
    }

    /// Pages left.
    #[inline]
    pub fn left(self) -> u32 {
        self.end - self.next
    }

    /// The next page; the cursor must not be full.
    #[inline]
    pub fn take(&mut self) -> Ppn {
        debug_assert!(!self.is_full(), "a full block takes no page");
        let ppn = Ppn(self.next);
        self.next += 1;
        ppn
    }

    /// The next page, without taking it; the cursor must not be full.
    #[inline]
    pub fn peek(self) -> Ppn {
        Ppn(self.next)
    }

    /// Takes `pages` pages at once; returns the first.
    pub fn skip(&mut self, pages: u32) -> Ppn {
        assert!(pages <= self.left(), "a block has as many pages as it has");
        let first = Ppn(self.next);
        self.next += pages;
        first
    }

    /// The open block, for views of the collector.
    #[inline]
    pub fn block(self, layout: &Layout) -> BlockId {
        if self.end == u32::MAX { BlockId(u32::MAX) } else { layout.block(Ppn(self.end - 1)) }
    }
}
