//! What a drive with a log-block map does beside what the host waits for: blocks that are worn out, levelling, merges while idle.
//!
//! - *Wear out*: a block that has come to its number of erases is opened no more, if its pool has another erased one and can do
//!   without it; if it cannot, the drive is at its end, or the tenant whose pool it is. What a block stands, and what follows for a start, is as with every map.
//! - *Static levelling*: a merge of a pool may be followed by another: the logical block whose data block the policy names
//!   ([`crate::wear`]) is merged into the most worn erased block. What it lay in takes log pages from then on. One with a log block of its own is not cold.
//! - *While idle*: a pool whose log blocks are nearly all in use gives the oldest up, one copy at a time, while its die has nothing
//!   to do. A write that comes waits for the rest of the merge; a read for one copy.
//!
//! Own design. Cost: one pass over the pool's blocks for each merge that may be followed by another, and the policy's own.

use super::{Flash, Planner};
use crate::mapping::Mapping;
use crate::wear::{Standing, Worn};
use crate::{BlockId, FreeOrder};
use nandu_base::{Cx, TenantId, Work};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// A block was erased: it may be worn out, and the erased ones stand in their order.
    pub(super) fn note_erased(&mut self, pool: u32, block: u32) {
        let id = self.log().block(pool, block);
        if self.blocks.is_spent(id) && self.log().moves_blocks() {
            self.retire_log(pool, block);
        } else if self.blocks.is_spent(id) {
            let map = self.log().pool(pool);
            let region = map.region();
            if region.good() <= map.blocks_needed() {
                self.end_of_pool(pool);
                self.attention = true;
            } else if region.free() > map.free_needed() && self.blocks.give_up(id) {
                self.log_mut().pool_mut(pool).region_mut().retire(block);
            }
        }
        if self.blocks.wear_rules().order == FreeOrder::LeastWorn {
            let map = self.map.log_blocks_mut().expect("only asked of a drive with a log-block map");
            let (first, blocks) = (map.block(pool, 0), &self.blocks);
            map.pool_mut(pool).region_mut().sort_free(|block| blocks.erases(first.behind(block)));
        }
    }

    /// A pool can do with no good block less: its tenant takes no more writes, or the drive where it has no tenants.
    fn end_of_pool(&mut self, pool: u32) {
        match self.tenants.as_deref() {
            Some(tenants) => self.blocks.end_owner(tenants.of_pool(pool)),
            None => self.blocks.end(),
        }
    }

    /// After a start: blocks that had come to their number of erases are found again.
    pub(super) fn note_all_erased(&mut self, pool: u32) {
        let erased: Vec<u32> = self.log().pool(pool).region().free_blocks().collect();
        erased.into_iter().for_each(|block| self.note_erased(pool, block));
    }

    /// A pool has merged: moves its coldest logical block if it is the turn of that.
    pub(super) fn level_logged(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let layout = *self.blocks.layout();
        self.leveller.gains(pool, layout.pages);
        let map = self.log().pool(pool);
        let region = map.region();
        if region.free() <= map.free_needed() || !self.leveller.is_due(pool, layout.pages) {
            return;
        }
        let mut seen = self.leveller.memory();
        let region = self.log().pool(pool).region();
        let first = self.log().block(pool, 0);
        let erases = |block: u32| self.blocks.erases(first.behind(block));
        let standing = |block: u32| match self.blocks.is_bad(first.behind(block)) {
            true => Standing::Bad,
            false if region.data_of(block).is_some() => Standing::Movable,
            false => Standing::Kept,
        };
        let worn =
            |block: u32| Worn { block: BlockId(block), erases: erases(block), standing: standing(block) };
        seen.extend((0..region.shape().blocks).map(worn));
        let most_worn = region.free_blocks().max_by_key(|&block| erases(block));
        let cold = self.leveller.victim(pool, seen);
        let cold = cold.and_then(|block| self.log().pool(pool).region().data_of(block.0));
        let (Some(cold), Some(worn)) = (cold, most_worn) else { return };
        let map = self.log_mut().pool_mut(pool);
        map.region_mut().open_next(worn);
        if map.rewrite(cold) {
            self.leveller.levelled();
            self.issue_merge(pool, cause, cx);
        }
    }

    /// Whether a pool has too few log blocks left while the drive is idle, and something to merge; it is chosen then.
    pub fn is_worth_merging(&mut self, pool: u32, target: u32) -> bool {
        let map = self.log_mut().pool_mut(pool);
        map.is_merging() || map.room() < target && map.tidy()
    }

    /// One step of the merge of a pool; false when none is left.
    pub fn merge_step(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        let Some(step) = self.log_mut().pool_mut(pool).step() else { return false };
        self.count.moves_while_idle += 1;
        self.issue_step(pool, step, TenantId::SYSTEM, Work::Gc, cx);
        true
    }
}
