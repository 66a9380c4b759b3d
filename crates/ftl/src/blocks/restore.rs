//! The state of every block after a power cut: an empty table, and what a scan has found put into it block by block.

use super::{BlockTable, Cursor, FreeList};
use crate::address::BlockId;

impl BlockTable {
    /// The same drive with nothing known: every block neither free nor open. For recovery, which then calls
    /// [`restore_block`](BlockTable::restore_block) for each block.
    pub fn for_recovery(&self) -> BlockTable {
        let mut table = BlockTable::with_wear(self.layout, self.wear.rules);
        table.wear.owners_as(&self.wear);
        table.apart = self.apart;
        if !self.shares.is_empty() {
            table.set_shares(self.shares.clone());
        }
        table.streams = vec![Cursor::CLOSED; self.streams.len()];
        table.modes = self.blank_modes();
        table.planes.iter_mut().for_each(|plane| plane.free = 0);
        table.free.fill(FreeList::EMPTY);
        table
    }

    /// Counts an erase of a block that is neither free nor open, before or after.
    pub fn wore(&mut self, block: BlockId) {
        self.erases[block.0 as usize] += 1;
    }

    /// Notes the erases of a block that others have put in its place.
    pub fn restore_wear(&mut self, block: BlockId, erases: u32) {
        self.erases[block.0 as usize] = erases;
        self.oldest[block.0 as usize] = u64::MAX;
    }

    /// Puts a scanned block in its place: free, or closed, or open for more pages. `written` pages from the start are
    /// programmed or torn, `valid` of them hold current data; `oldest` is the smallest sequence number found.
    pub fn restore_block(&mut self, block: BlockId, written: u32, valid: u32, oldest: u64, erases: u32) {
        self.erases[block.0 as usize] = erases;
        if written == 0 {
            if !self.is_bad(block) {
                self.push_free(block);
            }
            return;
        }
        self.oldest[block.0 as usize] = oldest;
        self.invalid[block.0 as usize] = (written - valid) as u16;
        let first = self.layout.first_page(block).0;
        let plane = &mut self.planes[self.pool_of[block.0 as usize] as usize];
        plane.valid += valid;
        if written < self.layout.pages {
            let cursor = Cursor::over(first + written, first + self.layout.pages);
            if plane.moved.is_full() {
                plane.moved = cursor;
            } else if plane.host.is_full() {
                plane.host = cursor;
            } else if let Some(open) = self.closed_stream(block) {
                *open = cursor;
            } else {
                // More open blocks in a plane than there should be.
                self.waste(cursor);
            }
        }
    }

    /// After the last [`restore_block`](BlockTable::restore_block): of a plane's open blocks the one with the most room takes the
    /// pages that move. At a cut it may have been the last erased one, and what is left in the others need not be enough to
    /// clear a block.
    pub fn settle_open(&mut self) {
        let more = self.streams.len() / self.planes.len();
        for (pool, p) in self.planes.iter_mut().enumerate() {
            for other in self.streams[pool * more..][..more].iter_mut().chain([&mut p.host]) {
                if other.left() > p.moved.left() {
                    std::mem::swap(other, &mut p.moved);
                }
            }
        }
    }
}
