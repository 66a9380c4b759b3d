//! Maps on the flash that tenants share: whose each translation page is, and who pays for it.
//!
//! A translation page has entries of one tenant's ([`crate::mapping::MapShape`]) and lies in that tenant's blocks
//! ([`crate::map_area`]). It is read and written when an entry of it is needed, but also when its entries have to leave the RAM for those of
//! another tenant, or when waiting moves of collection are entered. All of it is charged to the one that last needed an entry of the page's tenant and found it
//! not in RAM: who fills the RAM with entries that change pays for writing them, whenever that is.
//!
//! *Tenants that come and go.* With another table of ranges translation pages are cut elsewhere. Before it holds all changed entries are written,
//! and the RAM is empty after it; a page that lay before a cut and now lies behind it was never written, for what nobody had is unmapped. Who gives pages up
//! has all blocks of its map erased and the rest of its translation pages written anew, so that none is left that names them.
//!
//! *Rejected*: whoever's request sets it off pays. Then a tenant that only reads pays for the writes of its neighbour.
//!
//! Cost: a look at the range for each translation page that is read or written. RAM: 4 bytes for a tenant.

use super::deal::Dealing;
use super::{Flash, Planner};
use crate::isolation::Table;
use crate::mapping::{Mapping, Tp};
use crate::plan::flash::After;
use crate::plan::flash::Pieces;
use crate::{BlockId, Lpn, Ppn};
use nandu_base::{Cx, TenantId, Work};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Whose a translation page is: of all, on a drive without tenants.
    pub(in crate::plan) fn owner_of_map_page(&self, tp: Tp) -> usize {
        self.tenants.as_deref().map_or(0, |tenants| tenants.of(Lpn(self.map.span(tp).start)))
    }

    /// The pool whose blocks take a translation page next.
    pub(in crate::plan) fn pool_for_map_page(&mut self, tp: Tp) -> u32 {
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
    pub(in crate::plan) fn note_asker(&mut self, lpn: Lpn, cause: TenantId) {
        if let Some(tenants) = self.tenants.as_deref_mut() {
            let tenant = tenants.of(lpn);
            tenants.askers.get_mut(tenant).into_iter().for_each(|asker| *asker = cause);
        }
    }

    /// Who pays for an operation on a translation page that is done on behalf of `cause`: what the drive does for itself it pays.
    pub(in crate::plan) fn payer_of(&self, tp: Tp, cause: TenantId) -> TenantId {
        let Some(tenants) = self.tenants.as_deref() else { return cause };
        let asker = tenants.askers.get(self.owner_of_map_page(tp)).copied();
        asker.filter(|&asker| cause != TenantId::SYSTEM && asker != TenantId::SYSTEM).unwrap_or(cause)
    }

    /// The pool in a group of planes for pages of `lpn`; none where its tenant has none, or it is nobody's.
    pub(in crate::plan) fn pool_for(&self, lpn: Lpn, group: u32) -> Option<u32> {
        let Some(tenants) = self.tenants.as_deref() else { return Some(group) };
        let tenant = tenants.of(lpn);
        (tenant < tenants.len() && tenants.has_group(group, tenant)).then(|| tenants.pool(group, tenant))
    }

    /// A block of the map was erased and another has taken its place: it counts for its tenant's wear, and may have come to its end.
    pub(in crate::plan) fn tenants_map_block_erased(&mut self, block: BlockId) {
        let Some(tenants) = self.tenants.as_deref_mut() else { return };
        let tenant = tenants.of_pool(self.blocks.pool_of_block(block));
        tenants.counts[tenant].erases += 1;
        if !self.paging.area.owns(block) {
            self.retire_tenants_unit(block);
        }
    }

    /// Another table of tenants holds from here on: what the map keeps in RAM is numbered by it. So all of that goes to the flash first, and
    /// is forgotten.
    pub(super) fn renumber_map(&mut self, table: Table, cx: &mut Cx<'_>) {
        if !self.has_map_pages() {
            self.tenants_mut().table = table;
            return;
        }
        self.give_gathering_up(TenantId::SYSTEM, cx);
        self.write_map_back(cx);
        self.forget_superseded();
        let placed = self.placed_map_pages();
        self.tenants_mut().table = table;
        self.reload_map(&placed);
    }

    /// Where each translation page lies that was ever written.
    fn placed_map_pages(&self) -> Vec<(Tp, Ppn)> {
        let tps = (0..self.map.translation_pages()).map(Tp);
        tps.filter_map(|tp| Some((tp, self.map.translation_page(tp)?))).collect()
    }

    /// Pages count as invalid of which only a map that is about to be forgotten would have found out.
    fn forget_superseded(&mut self) {
        let layout = *self.blocks.layout();
        for first in layout.all_blocks().map(|block| layout.first_page(block).0) {
            for ppn in (first..first + layout.pages).map(Ppn) {
                if self.blocks.data_at(ppn).is_some_and(|lpn| self.map.get(lpn) != Some(ppn)) {
                    self.give_up(ppn, self.exec.all_given());
                    self.blocks.forget(ppn);
                }
            }
        }
    }

    /// Says whose the translation pages are; the map forgets everything.
    pub(super) fn own_map_pages(&mut self) {
        let parts = self.tenants_mut().table.parts();
        let firsts: Vec<Option<u32>> =
            parts.iter().map(|part| (part.held() > 0).then_some(part.first)).collect();
        self.map.set_owners(&firsts);
    }

    /// The map knows nothing but what these translation pages say.
    fn reload_map(&mut self, placed: &[(Tp, Ppn)]) {
        let pages: Vec<Option<Ppn>> = (0..self.host.logical).map(|lpn| self.map.get(Lpn(lpn))).collect();
        self.own_map_pages();
        for (lpn, ppn) in (0..).map(Lpn).zip(pages) {
            ppn.into_iter().for_each(|ppn| {
                self.map.set(lpn, ppn);
            });
        }
        for &(tp, ppn) in placed {
            self.map.place(tp, ppn);
        }
    }

    /// Erases all blocks of the map of a tenant and writes its translation pages to `units` units of each of its pools: so nothing of them
    /// names pages that are going.
    pub(super) fn write_map_anew(&mut self, tenant: usize, pools: &[u32], units: u32, cx: &mut Cx<'_>) {
        if !self.has_map_pages() {
            return;
        }
        self.give_gathering_up(TenantId::SYSTEM, cx);
        self.write_map_back(cx);
        self.forget_superseded();
        let mut placed = self.placed_map_pages();
        placed.retain(|&(tp, _)| self.owner_of_map_page(tp) != tenant);
        self.reload_map(&placed);
        for &pool in pools {
            for block in self.paging.area.give_up(pool, &mut self.blocks) {
                self.erase_map_block(block, TenantId::SYSTEM, cx);
            }
            self.give_map_units(pool, units);
        }
        let mut pieces = Pieces::of_nobody(cx, TenantId::SYSTEM, Work::Map);
        let outer = self.exec.work_for(Work::Map);
        for tp in (0..self.map.translation_pages()).map(Tp) {
            if self.owner_of_map_page(tp) == tenant && self.map.stored(tp).iter().any(|&word| word > 0) {
                self.write_map_page(tp, After::now(cx), &mut pieces, cx);
            }
        }
        pieces.charge(cx);
        self.exec.work_for(outer);
    }

    /// Gives the map so many units of a pool, at least as many as it has.
    pub(super) fn give_map_units(&mut self, pool: u32, units: u32) {
        self.paging.area.set_quota(pool, units);
        let claimed = self.paging.area.claim_in(pool, &mut self.blocks);
        assert!(claimed, "I-5: a pool has no erased unit for its map");
    }

    /// Clears units of a pool until it can give its map what a tenant of so many pages needs; false when it cannot now.
    pub(super) fn make_room_for_map(
        &mut self,
        pool: u32,
        pages: u32,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> bool {
        let tenant = self.tenants_mut().of_pool(pool);
        let gains = dealing.share(pages).blocks - self.blocks.shares()[tenant].blocks;
        let more = dealing.map_of(pages).saturating_sub(self.paging.area.blocks_of(pool));
        if more == 0 {
            return true;
        }
        let least = self.host.urgent + 1 + more;
        for _ in 0..2 * self.blocks.layout().blocks {
            if self.blocks.planes[pool as usize].free + gains >= least || !self.has_victim(pool) {
                break;
            }
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
        self.blocks.planes[pool as usize].free + gains >= least
    }
}
