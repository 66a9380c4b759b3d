//! Maps on the flash that tenants share: whose each translation page is, and who pays for it.
//!
//! A translation page has entries of one tenant's ([`nandu_ftl::mapping::MapShape`]) and lies in that tenant's blocks
//! ([`nandu_ftl::map_area`]). It is read and written when an entry of it is needed, but also when its entries have to leave the RAM for those of
//! another tenant, or when waiting moves of collection are entered. All of it is charged to the one that last needed an entry of the page's tenant and found it
//! not in RAM: who fills the RAM with entries that change pays for writing them, whenever that is.
//!
//! *Rejected*: whoever's request sets it off pays. Then a tenant that only reads pays for the writes of its neighbour.
//!
//! Cost: a look at the range for each translation page that is read or written. RAM: 4 bytes for a tenant.

use super::Ssd;
use nandu_base::TenantId;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::{Mapping, Tp};
use nandu_ftl::{BlockId, Lpn};

impl<M: Mapping, G: GcPolicy> Ssd<M, G> {
    /// Whose a translation page is: of all, on a drive without tenants.
    pub(in crate::ssd) fn owner_of_map_page(&self, tp: Tp) -> usize {
        self.tenants.as_deref().map_or(0, |tenants| tenants.of(Lpn(self.map.span(tp).start)))
    }

    /// The pool whose blocks take a translation page next.
    pub(in crate::ssd) fn pool_for_map_page(&mut self, tp: Tp) -> u32 {
        let mut owner = self.owner_of_map_page(tp);
        if let Some(tenants) =
            self.tenants.as_deref().filter(|t| t.planted.map_misplaced && self.seq % 64 == 63)
        {
            owner = (owner + 1) % tenants.len();
        }
        self.paging.area.choose(owner)
    }

    /// An entry of `lpn` is needed and may not be in RAM.
    #[inline(always)]
    pub(in crate::ssd) fn note_asker(&mut self, lpn: Lpn, cause: TenantId) {
        if let Some(tenants) = self.tenants.as_deref_mut() {
            let tenant = tenants.of(lpn);
            tenants.askers.get_mut(tenant).into_iter().for_each(|asker| *asker = cause);
        }
    }

    /// Who pays for an operation on a translation page that is done on behalf of `cause`: what the drive does for itself it pays.
    pub(in crate::ssd) fn payer_of(&self, tp: Tp, cause: TenantId) -> TenantId {
        let Some(tenants) = self.tenants.as_deref() else { return cause };
        let asker = tenants.askers.get(self.owner_of_map_page(tp)).copied();
        asker.filter(|&asker| cause != TenantId::SYSTEM && asker != TenantId::SYSTEM).unwrap_or(cause)
    }

    /// The pool in a group of planes for pages of `lpn`; none where its tenant has none.
    pub(in crate::ssd) fn pool_for(&self, lpn: Lpn, group: u32) -> Option<u32> {
        let Some(tenants) = self.tenants.as_deref() else { return Some(group) };
        let tenant = tenants.of(lpn);
        tenants.has_group(group, tenant).then(|| tenants.pool(group, tenant))
    }

    /// A block of the map was erased and another has taken its place: it counts for its tenant's wear, and may have come to its end.
    pub(in crate::ssd) fn tenants_map_block_erased(&mut self, block: BlockId) {
        let Some(tenants) = self.tenants.as_deref_mut() else { return };
        let tenant = tenants.of_pool(self.blocks.pool_of_block(block));
        tenants.counts[tenant].erases += 1;
        if !self.paging.area.owns(block) {
            self.retire_tenants_unit(block);
        }
    }
}
