//! What a tenant gives up: its pages are unmapped, its units with versions of them are cleared, its account is settled. See [`deal`](super::deal).
//!
//! Cost: a pass over the units of the tenant for each of its pools, and the clearing of those that hold versions.

use super::deal::{Dealing, not_back, refused};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::isolation::{Account, Part};
use crate::mapping::Mapping;
use crate::plan::flash::After;
use crate::{BlockId, Lpn, Ppn};
use nandu_base::{Cx, DealError, TenantId};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    pub(super) fn shrink_tenant(
        &mut self,
        tenant: usize,
        pages: u32,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> Result<(), DealError> {
        let part = self.tenants_mut().part(tenant);
        if pages > 0 && self.check_room(pages, dealing.share(pages), dealing).is_err() {
            let why = format!("the units for {pages} pages would have no room to be cleared");
            return refused(why, "keep more, or remove the tenant");
        }
        self.record_trims(cx, TenantId::SYSTEM);
        let going = part.held() - pages;
        if going == 0 {
            return Ok(());
        }
        let recorded = self.write_table(tenant, Part { live: pages, going, ..part }, cx);
        for lpn in (part.first + pages..part.end()).map(Lpn).filter(|_| dealing.logs.is_none()) {
            if let Some(old) = self.map.clear(lpn) {
                self.give_up(old, recorded);
                self.forget_old(old);
                self.count.pages_trimmed += 1;
            }
        }
        self.finish_going(tenant, dealing, cx)
    }

    /// Clears what is left of the pages that a tenant gives up, and takes their units off its account.
    pub(super) fn finish_going(
        &mut self,
        tenant: usize,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> Result<(), DealError> {
        if dealing.logs.is_some() {
            return self.finish_going_logged(tenant, dealing, cx);
        }
        let part = self.tenants_mut().part(tenant);
        let pools: Vec<u32> =
            (0..dealing.groups).map(|group| self.tenants_mut().pool(group, tenant)).collect();
        self.write_map_anew(tenant, &pools, dealing.map_of(part.live), cx);
        self.renew_journal(cx, TenantId::SYSTEM);
        if !self.tenants_mut().planted.leaves_units {
            for &pool in &pools {
                if !self.clear_tail(pool, &part, cx) {
                    return not_back();
                }
            }
        }
        let share = dealing.share(part.live);
        let floor = dealing.floor_of(part.live, self.tenants_mut().len());
        for (group, &pool) in (0..dealing.groups).zip(&pools) {
            let units = self.due_with(group, tenant, share, floor);
            self.blocks.planes[pool as usize].valid_max =
                units.saturating_sub(share.reserved) * dealing.pages;
        }
        for &pool in &pools {
            self.spread(pool, &part, cx);
        }
        for (group, &pool) in (0..dealing.groups).zip(&pools) {
            let due = |plan: &mut Self| plan.due_with(group, tenant, share, floor);
            if !self.settle_account(pool, due, cx) {
                return not_back();
            }
        }
        self.end_going(tenant, part, dealing, cx);
        Ok(())
    }

    /// Nothing is left of what a tenant gives up: its units are settled, and the table says that the pages are nobody's.
    pub(super) fn end_going(&mut self, tenant: usize, part: Part, dealing: &Dealing, cx: &mut Cx<'_>) {
        // Before a page is taken for the record: who needs a unit for it could borrow one of these.
        self.set_units(tenant, part.live, dealing);
        let given = self.exec.all_given().later(After::now(cx));
        self.exec.fence(given);
        self.write_table(tenant, Part { going: 0, ..part }, cx);
    }

    /// Clears every unit of a pool with a version of a page that is going; units that are open are closed before. False when there is no
    /// erased unit for pages that move, because others still have it.
    fn clear_tail(&mut self, pool: u32, part: &Part, cx: &mut Cx<'_>) -> bool {
        self.end_clearing(pool, cx);
        self.recall(pool, cx);
        let moved = self.blocks.planes[pool as usize].moved.block(self.blocks.layout());
        let open = self.open_units(pool);
        let holds = |unit: &BlockId| self.holds_version(*unit, pool, part);
        let (hosts, moved) = (open.iter().any(|unit| *unit != moved && holds(unit)), holds(&moved));
        if hosts {
            self.blocks.waste_host(pool);
        }
        while self.blocks.planes[pool as usize].free == 0 && self.has_victim(pool) {
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
        if self.blocks.planes[pool as usize].free == 0 && part.live > 0 {
            return false;
        }
        if moved {
            self.blocks.close_moved(pool);
        }
        for unit in self.units_with(pool, part) {
            // Another one's clearing may have erased it, and paid a debt with it.
            if self.holds_version(unit, pool, part) {
                self.begin_clearing(pool, unit);
                self.end_clearing(pool, cx);
            }
        }
        true
    }

    /// The units of a pool that are open for the host's pages, of any stream, and for those that move.
    fn open_units(&self, pool: u32) -> Vec<BlockId> {
        let (p, layout) = (&self.blocks.planes[pool as usize], self.blocks.layout());
        [p.host.block(layout), p.moved.block(layout)]
            .into_iter()
            .chain(self.blocks.open_streams(pool))
            .collect()
    }

    /// Demands what a pool has lent, as far as it comes back.
    pub(super) fn recall(&mut self, pool: u32, cx: &mut Cx<'_>) {
        for _ in 0..2 * self.blocks.layout().blocks {
            if !self.is_creditor(pool) {
                return;
            }
            self.demand(pool, cx);
        }
    }

    /// Clears the unit of a pool to the end that is being cleared.
    fn end_clearing(&mut self, pool: u32, cx: &mut Cx<'_>) {
        if self.victim_of(pool).is_some() {
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
    }

    /// The written units of a pool with versions of pages that are going; all of them when all pages are.
    fn units_with(&self, pool: u32, part: &Part) -> Vec<BlockId> {
        let units = self.blocks.layout().plane_blocks(self.blocks.plane_of_pool(pool));
        units.filter(|&unit| self.holds_version(unit, pool, part)).collect()
    }

    /// Whether a unit of the data of a pool holds a version of a page that is going. A map on the flash keeps no names of pages that are superseded: any of
    /// them may be one.
    fn holds_version(&self, unit: BlockId, pool: u32, part: &Part) -> bool {
        let layout = self.blocks.layout();
        if unit.0 >= layout.block_end() || self.paging.area.owns(unit) {
            // None is open, or it is the map's.
            return false;
        }
        let first = layout.first_page(unit).0;
        let is_open = || self.open_units(pool).contains(&unit);
        if self.blocks.pool_of_block(unit) != pool
            || self.blocks.content(Ppn(first)) == Content::Free && !is_open()
        {
            return false;
        }
        part.live == 0
            || (first..first + layout.pages).any(|ppn| match self.blocks.content(Ppn(ppn)) {
                Content::Data(lpn) => part.tail().contains(&lpn.0),
                // An old record may name such pages.
                Content::Journal(slot) => {
                    self.journal.record(slot).is_none_or(|record| record.ppn != Ppn(ppn))
                }
                Content::Waste => self.has_map_pages(),
                _ => false,
            })
    }

    /// Writes pages to other groups until the pool holds no more than it may.
    pub(super) fn spread(&mut self, pool: u32, part: &Part, cx: &mut Cx<'_>) {
        for lpn in (part.first..part.first + part.live).map(Lpn) {
            if self.blocks.planes[pool as usize].valid <= self.blocks.planes[pool as usize].valid_max {
                return;
            }
            let Some(from) = self.map.get(lpn).filter(|&ppn| self.blocks.pool_of_page(ppn) == pool) else {
                continue;
            };
            self.write_again(lpn, from, cx);
        }
    }

    /// Has back what a pool has lent and pays what it owes; false when that is not possible now.
    pub(super) fn settle_loans_of(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        self.recall(pool, cx);
        for _ in 0..2 * self.blocks.layout().blocks {
            if !self.is_debtor(pool) {
                break;
            }
            self.pay(pool, cx);
        }
        let account = self.account_of(pool);
        account.lent == 0 && account.borrowed == 0
    }

    /// The account of the owner of a pool.
    pub(super) fn account_of(&mut self, pool: u32) -> Account {
        self.tenants_mut().account(pool).expect("only asked for where tenants have units")
    }

    /// Whether a pool can do with the units that are due to it: what it has lent is back, what it owes is paid, and the rest of its units are erased.
    fn settle_account(&mut self, pool: u32, due: impl Fn(&mut Self) -> u32, cx: &mut Cx<'_>) -> bool {
        if !self.settle_loans_of(pool, cx) {
            return false;
        }
        let turns = 2 * self.blocks.layout().blocks;
        // A unit that is erased may come to its end, and the account change with it.
        let too_many = |plan: &mut Self| {
            let units = due(plan);
            let account = plan.account_of(pool);
            let keep = if units == 0 { 0 } else { plan.host.urgent + 1 };
            (account.allocated.saturating_sub(units), keep)
        };
        for _ in 0..turns {
            let (less, keep) = too_many(self);
            if self.blocks.planes[pool as usize].free >= less + keep || !self.has_victim(pool) {
                break;
            }
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
        let (less, _) = too_many(self);
        self.blocks.planes[pool as usize].free >= less
    }

    /// Pays a unit that the owner of `pool` owes, or clears one so that it can.
    pub(super) fn pay(&mut self, pool: u32, cx: &mut Cx<'_>) {
        if self.may_give(pool) {
            let tenants = self.tenants_mut();
            let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
            let lender = tenants.books[group].largest_creditor(debtor).expect("it owes a tenant");
            let to = tenants.pool(group as u32, lender);
            tenants.inherited[pool as usize] = tenants.inherited[pool as usize].saturating_sub(1);
            self.give(pool, to);
        } else if self.map.log_blocks().is_some() {
            self.give_log_up(pool, TenantId::SYSTEM, cx);
        } else if self.has_victim(pool) {
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
    }
}
