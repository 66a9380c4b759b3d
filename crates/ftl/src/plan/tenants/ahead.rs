//! A tenant that owes units begins to clear in time.
//!
//! Who owes d units opens another only while the rule of [`crate::isolation::room`] holds, however many erased ones lie there: most of them may be room for
//! what clears them back. Counted by erased units alone its collection would begin too late, and every unit that it opens would
//! wait for a whole one to be cleared, in front of everybody's requests on these dies. So what counts is how many units it may
//! still *open*. With one left it borrows more, as long as another unit brings more room than must be kept for it; then clearing begins, a few moves after
//! each page of the host's as with everybody else. Its own trigger holds beside that, so a debtor whose victims are nearly empty begins where the paper says.
//!
//! Pages that the host overwrites only make it more, so it is counted anew where a unit is opened, erased, lent or given back, and not in between.
//!
//! Cost: a pass over the units of a group for each of these. RAM: 4 bytes for a pool.

use super::{Flash, Planner, Tenants};
use crate::mapping::Mapping;

/// A debtor that may open no more units than this clears.
const AHEAD: u32 = 1;

impl Tenants {
    /// Erased units at which the owner of a pool begins to clear. A group without owner is never written.
    pub(super) fn start_of(&self, pool: u32) -> u32 {
        self.own_start_of(pool).max(self.debt_starts[pool as usize])
    }

    /// The same as if nothing were owed.
    pub(super) fn own_start_of(&self, pool: u32) -> u32 {
        self.starts.get(self.of_pool(pool)).map_or(0, |&start| start + self.set_aside(pool))
    }

    /// Units of a pool that its owner leaves erased for others.
    fn set_aside(&self, pool: u32) -> u32 {
        match self.reserves {
            true => self.account(pool).map_or(0, |account| account.contribution - account.lent),
            false => 0,
        }
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Counts anew at how many erased units a debtor begins to clear. A log-block map merges for want of a log block, whoever owes what.
    pub(in crate::plan) fn look_ahead(&mut self, pool: u32) {
        if self.map.log_blocks().is_some() {
            return;
        }
        let tenants = self.tenants_mut();
        let start = match tenants.debt(pool) {
            0 => 0,
            _ if tenants.planted.room_not_kept => 0,
            debt => {
                let may_open = self.may_still_open(pool, debt);
                self.blocks.planes[pool as usize].free.saturating_sub(may_open) + AHEAD
            }
        };
        self.tenants_mut().debt_starts[pool as usize] = start;
    }

    /// Whether a debtor is about to clear, and one unit more would put it off.
    pub(super) fn is_helped_by_more(&mut self, pool: u32) -> bool {
        let tenants = self.tenants_mut();
        let debt = tenants.debt(pool);
        if debt == 0 || tenants.planted.room_not_kept || self.may_still_open(pool, debt) > AHEAD {
            return false;
        }
        let more = self.room_needed(pool, debt + 2) - self.room_needed(pool, debt + 1);
        more < u64::from(self.blocks.layout().pages)
    }

    /// Units that a tenant that owes `debt` may open until it must clear one.
    pub(super) fn may_still_open(&mut self, pool: u32, debt: u32) -> u32 {
        let left = self.blocks.room_of(pool).saturating_sub(self.room_needed(pool, debt + 1));
        (left / u64::from(self.blocks.layout().pages)) as u32
    }
}
