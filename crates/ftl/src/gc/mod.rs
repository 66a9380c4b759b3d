//! Garbage collection: which block to clear next. One file per policy.
//!
//! A policy sees a read-only view of one plane and names a block. Moving the pages and erasing is the controller's work.

mod greedy;

pub use greedy::Greedy;

use crate::address::BlockId;

/// What a policy may look at: the blocks of one plane.
#[derive(Clone, Copy, Debug)]
pub struct PlaneView<'a> {
    /// Pages without valid data in each block of the plane, unwritten pages not counted.
    pub invalid: &'a [u16],
    /// The block of `invalid[0]`.
    pub first: BlockId,
    /// Blocks that must not be taken: those being written, and one already being cleared.
    pub busy: [BlockId; 3],
}

impl PlaneView<'_> {
    /// Whether the block at `index` may be taken.
    #[inline]
    pub fn may_take(&self, index: usize) -> bool {
        let block = BlockId(self.first.0 + index as u32);
        !self.busy.contains(&block)
    }
}

/// Chooses the next block to clear.
pub trait GcPolicy: Send {
    /// A block with at least one page to gain, or `None` when there is none.
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId>;
}
