//! What the collector asks ahead, and enters for a whole run of pages at once.

use super::{BlockTable, MAP};
use crate::address::{BlockId, Lpn, Ppn};

impl BlockTable {
    /// The logical page that a page holds by an owner's word of its own; for those who look ahead, where a rule costs too much.
    #[inline]
    pub fn data_entered_at(&self, ppn: Ppn) -> Option<Lpn> {
        let lpn = self.owners.get(ppn.0 as usize)?.wrapping_sub(1);
        (lpn < MAP - 1).then_some(Lpn(lpn))
    }

    /// `count` pages of `block` moved to other blocks of its pool, where they count as valid.
    #[inline]
    pub fn moved_away(&mut self, block: BlockId, count: u32) {
        self.invalid[block.0 as usize] += count as u16;
    }
}
