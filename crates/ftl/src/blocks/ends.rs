//! Where a drive has several ends: planes with owners, and blocks that tenants share.
//!
//! Planes may have owners, each of which ends when its own planes have no room left for what it needs. Where tenants have blocks of their own in each
//! plane, which tenant has one less is not known here: the controller takes a worn out block out of use and says so.
//!
//! RAM: 2 bytes for a plane and 16 for an owner. Cost: a pass over the erased blocks of a plane for each that is taken out.

use super::wear::Wear;
use super::{BlockTable, FreeList};
use crate::address::BlockId;

impl Wear {
    /// Takes over who owns planes, none of whom has ended.
    pub fn owners_as(&mut self, other: &Wear) {
        self.owners = other.owners.clone();
        self.ends = other.ends.iter().map(|&(needed, _)| (needed, false)).collect();
    }
}

impl BlockTable {
    /// Gives planes owners, each of which needs room for so many valid pages and ends alone.
    pub fn set_owners(&mut self, owners: Vec<u16>, needed: &[u64]) {
        self.wear.owners = owners;
        self.wear.ends = needed.iter().map(|&needed| (needed, false)).collect();
    }

    /// Whether an owner of planes has too few blocks left to take more writes.
    pub fn has_owner_ended(&self, owner: usize) -> bool {
        self.wear.ends.get(owner).is_some_and(|&(_, has_ended)| has_ended)
    }

    /// Whether the drive, or an owner of planes, has too few blocks left to take more writes.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.wear.worn_out || self.wear.ends.iter().any(|&(_, has_ended)| has_ended)
    }

    /// The drive takes no more writes.
    pub fn end(&mut self) {
        self.wear.worn_out = true;
    }

    /// An owner takes no more writes.
    pub fn end_owner(&mut self, owner: usize) {
        self.wear.ends.get_mut(owner).into_iter().for_each(|end| end.1 = true);
    }

    /// Whether a block that is not bad has come to its number of erases.
    pub fn is_at_its_end(&self, block: BlockId) -> bool {
        self.wear.rules.endurance > 0
            && !self.is_bad(block)
            && self.cycles(block) >= self.wear.rules.limit(block)
    }

    /// Takes an erased block out of use, where tenants have blocks of their own. Who has one less is the caller's to say.
    pub fn retire_erased(&mut self, block: BlockId) {
        let plane = self.layout.plane_of_block(block) as usize;
        self.wear.bad[block.0 as usize] = true;
        self.wear.bad_in[plane] += 1;
        self.wear.retired += 1;
        self.oldest[block.0 as usize] = u64::MAX;
        if self.wear.rules.keeps_worn {
            return;
        }
        let kept: Vec<BlockId> = self.free_in(plane as u32).filter(|&free| free != block).collect();
        self.free[plane] = FreeList::EMPTY;
        for free in kept {
            self.link_free(free);
        }
    }

    /// Valid pages that the planes of an owner may hold.
    pub(super) fn room_of_owner(&self, owner: usize) -> u64 {
        let owned = self.planes.iter().zip(&self.wear.owners).filter(|(_, of)| usize::from(**of) == owner);
        owned.map(|(p, _)| u64::from(p.valid_max)).sum()
    }
}
