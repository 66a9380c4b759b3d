//! Tenants that come, go, grow and shrink while the drive runs (`tenant_slots`).
//!
//! *To come, to grow*: a gap of the logical space, and units that nobody has. They are erased and were never lent. One record of the new
//! table ([`nandu_ftl::isolation::Table`]), and the range is the tenant's.
//!
//! *To shrink, to go*: the pages are unmapped, and a record says that they are going: whatever a start finds of them is dead from then on. Then
//! every unit of the tenant is cleared that holds a version of such a page or a record that names one. What the tenant has lent is demanded
//! back and what it owes is paid, pages move where one of its pools would hold more than it may, and units come off its account,
//! erased. A second record says that the pages are nobody's. So no page of the range is left anywhere when another tenant gets it, and
//! the owner of a unit still follows from its pages.
//!
//! *Power cuts.* Before the first record: nothing has happened. Between the two: the pages are going, which a start finds; the next deal ends
//! it first. The drive stands still (no die begins anything) until a record is complete, so that nothing is acknowledged that another table would
//! not know. A record is not erased before the one that replaces it is complete.
//!
//! *A write buffer* programs what it holds of the pages first, for they are not found in it any more.
//!
//! *Units go by space*, with `vssd` and `shared-space`; `ops` deals the spare ones out among those that are there, so that each deal would change
//! what all others have, and channels and dies of one's own cannot be cut: there tenants stay as they are. Nor with the arbiter
//! `queued`, which does not know when a record will be complete.
//!
//! Cost: a pass over the units of the tenant, and a pause of all dies of about two programs, more where units are cleared.

use super::{Ssd, Tenants};
use nandu_base::{ByteLen, ByteOffset, Cx, Deal, DealError, Dealt, Instant, Ratio, TenantId, TenantSpace};
use nandu_ftl::blocks::{Content, Share};
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::isolation::{part_of, Books, Part, Table};
use nandu_ftl::mapping::Mapping;
use nandu_ftl::trim_journal::{Extent, TrimJournal};
use nandu_ftl::{BlockId, Lpn, Ppn};

/// What a tenant gets for its space, from the options of the drive.
#[derive(Clone, Debug)]
pub(in crate::ssd) struct Dealing {
    /// Bytes of a page.
    pub page: u64,
    /// Logical pages of the drive.
    pub logical: u32,
    /// Units of a group.
    pub units: u32,
    /// Pages of a unit.
    pub pages: u32,
    /// Groups of planes.
    pub groups: u32,
    /// Erased units at which clearing begins, at least.
    pub start: u32,
    /// Share of a tenant's units at which it begins, where that is more.
    pub trigger: Option<Ratio>,
    /// Erased units that a drive without tenants keeps.
    pub gc_start: u32,
}

impl Dealing {
    /// Erased units at which a tenant with so many units begins to clear.
    pub fn start_of(&self, units: u32) -> u32 {
        self.trigger.map_or(self.start, |share| self.start.max(share.of(u64::from(units)) as u32))
    }

    /// What a tenant with so many units has in each group.
    pub fn share_of_units(&self, units: u32) -> Share {
        Share { blocks: units, reserved: self.start_of(units).max(self.gc_start) + 3 }
    }

    /// What a tenant of so many pages has in each group.
    fn share(&self, pages: u32) -> Share {
        self.share_of_units(part_of(self.units, pages, self.logical))
    }

    /// Valid pages that it may hold.
    pub fn room(&self, share: Share) -> u64 {
        let units = u64::from(share.blocks.saturating_sub(share.reserved));
        units * u64::from(self.groups) * u64::from(self.pages)
    }

    /// Valid pages that a tenant of so many pages may come to, one of so many: records of trims and two tables with them.
    pub fn needed(&self, pages: u32, tenants: usize) -> u64 {
        u64::from(pages) + TrimJournal::pages_max(u64::from(pages), self.page as usize, tenants) + 2
    }
}

fn refused<T>(why: String, remedy: &str) -> Result<T, DealError> {
    Err(DealError::Refused { why, remedy: remedy.into() })
}

/// A deal that is begun and cannot be ended now.
fn not_back<T>() -> Result<T, DealError> {
    refused("units that were lent are not back yet".into(), "try again: the rest of it is done then")
}

impl Tenants {
    fn part(&self, tenant: usize) -> Part {
        self.table.parts()[tenant]
    }

    /// The first tenant with pages of its own, `but` only when there is no other.
    fn home(&self, but: usize) -> Option<usize> {
        let has_pages = |tenant: &usize| self.part(*tenant).live > 0;
        (0..self.len()).filter(has_pages).min_by_key(|&tenant| tenant == but)
    }

    /// The tenant with this number.
    fn numbered(&self, number: u32) -> Result<usize, DealError> {
        let is_there = |tenant: &usize| self.part(*tenant).held() > 0;
        let found =
            (number as usize).checked_sub(1).filter(|tenant| *tenant < self.len() && is_there(tenant));
        found.ok_or_else(|| {
            let known: Vec<String> =
                (0..self.len()).filter(is_there).map(|tenant| (tenant + 1).to_string()).collect();
            DealError::Unknown { number, known: known.join(", ") }
        })
    }
}

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Changes the space of a tenant.
    pub(in crate::ssd) fn make_deal(&mut self, deal: Deal, cx: &mut Cx<'_>) -> Result<Dealt, DealError> {
        let Some(dealing) = self.tenants.as_deref().and_then(|tenants| tenants.dealing.clone()) else {
            return Err(DealError::Fixed);
        };
        self.lanes.tick(cx.now);
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        for tenant in 0..self.tenants_mut().len() {
            if self.tenants_mut().part(tenant).going > 0 {
                self.finish_going(tenant, &dealing, cx)?;
            }
        }
        let pages = |size: ByteLen| u32::try_from(size.0.div_ceil(dealing.page)).unwrap_or(u32::MAX);
        let tenant = match deal {
            Deal::Add { size } => self.add_tenant(pages(size), &dealing, cx)?,
            Deal::Resize { number, size } => {
                let tenant = self.tenants_mut().numbered(number)?;
                if pages(size) == 0 {
                    return refused("a tenant has space".into(), "to take it away, remove the tenant");
                }
                match pages(size) > self.tenants_mut().part(tenant).live {
                    true => self.grow_tenant(tenant, pages(size), &dealing, cx)?,
                    false => self.shrink_tenant(tenant, pages(size), &dealing, cx)?,
                }
                tenant
            }
            Deal::Remove { number } => {
                let tenant = self.tenants_mut().numbered(number)?;
                if self.tenants_mut().home(tenant) == Some(tenant) {
                    return refused("it is the last tenant".into(), "add another one first");
                }
                self.shrink_tenant(tenant, 0, &dealing, cx)?;
                tenant
            }
        };
        Ok(Dealt { number: tenant as u32 + 1, holds_at: self.lanes.fence(cx.now) })
    }

    /// The space of each tenant.
    pub(in crate::ssd) fn tenant_spaces(&self, out: &mut Vec<TenantSpace>) {
        let Some(tenants) = self.tenants.as_deref() else { return };
        let bytes = |pages: u32| u64::from(pages) << self.host.page_bits;
        for (number, part) in (1..).zip(tenants.table.parts()).filter(|(_, part)| part.live > 0) {
            let (first, size) = (ByteOffset(bytes(part.first)), ByteLen(bytes(part.live)));
            out.push(TenantSpace { number, first, size });
        }
    }

    fn add_tenant(&mut self, pages: u32, dealing: &Dealing, cx: &mut Cx<'_>) -> Result<usize, DealError> {
        let tenants = self.tenants_mut();
        let Some(tenant) = (0..tenants.len()).find(|&tenant| tenants.part(tenant).held() == 0) else {
            let why = format!("all {} places for tenants are taken", tenants.len());
            return refused(why, "remove one, or make the drive with more `tenant_slots`");
        };
        let Some(first) = tenants.table.gap(pages, dealing.logical).filter(|_| pages > 0) else {
            let most = u64::from(tenants.table.longest_gap(dealing.logical)) * dealing.page;
            let why = format!("no run of {pages} logical pages is free");
            return refused(why, &format!("at most {} fits, and something must", ByteLen(most)));
        };
        self.check_units(tenant, pages, dealing)?;
        self.write_table(tenant, Part { first, live: pages, going: 0 }, cx);
        self.tenants_mut().counts[tenant] = Default::default();
        self.set_units(tenant, pages, dealing);
        Ok(tenant)
    }

    fn grow_tenant(
        &mut self,
        tenant: usize,
        pages: u32,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> Result<(), DealError> {
        let part = self.tenants_mut().part(tenant);
        let behind = self.tenants_mut().table.gap_behind(tenant, dealing.logical);
        if pages - part.live > behind {
            let why = format!("of the logical pages behind it only {behind} are free");
            return refused(why, "take no more than these, or add another tenant");
        }
        self.check_units(tenant, pages, dealing)?;
        self.write_table(tenant, Part { live: pages, ..part }, cx);
        self.set_units(tenant, pages, dealing);
        Ok(())
    }

    /// Refuses a tenant whose units are not there, or not enough for its pages.
    fn check_units(&mut self, tenant: usize, pages: u32, dealing: &Dealing) -> Result<(), DealError> {
        let share = dealing.share(pages);
        let needed = dealing.needed(pages, self.tenants_mut().len());
        if needed > dealing.room(share) {
            let why = format!(
                "{pages} pages need room for {needed}, records of trims included, and their {} units in each group have {}",
                share.blocks,
                dealing.room(share)
            );
            return refused(why, "make the drive with more over-provisioning or smaller units");
        }
        let pools = self.tenants_mut().len() as u32;
        for group in 0..dealing.groups {
            let given: u32 = {
                let accounts = self.tenants_mut().books[group as usize].accounts();
                accounts
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != tenant)
                    .map(|(_, a)| a.allocated)
                    .sum()
            };
            let good = self.blocks.good_blocks(group * pools);
            if given + share.blocks > good {
                let why = format!(
                    "{} units are needed where {} are nobody's",
                    share.blocks,
                    good - given.min(good)
                );
                return refused(why, "remove or shrink another tenant first");
            }
        }
        Ok(())
    }

    /// Gives a tenant the units for so many pages, or takes those away that it has too many of; they are erased.
    fn set_units(&mut self, tenant: usize, pages: u32, dealing: &Dealing) {
        let share = dealing.share(pages);
        for group in 0..dealing.groups {
            let tenants = self.tenants_mut();
            let contribution = tenants.policy.contribution(share.blocks);
            let before = tenants.books[group as usize].accounts()[tenant].allocated;
            tenants.books[group as usize].set_allocated(tenant, share.blocks, contribution);
            let pool = tenants.pool(group, tenant);
            self.blocks.give_erased(pool, i64::from(share.blocks) - i64::from(before));
        }
        self.tenants_mut().starts[tenant] = dealing.start_of(share.blocks);
        self.blocks.change_share(tenant as u32, share);
    }

    fn shrink_tenant(
        &mut self,
        tenant: usize,
        pages: u32,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> Result<(), DealError> {
        let part = self.tenants_mut().part(tenant);
        if pages > 0 && dealing.needed(pages, self.tenants_mut().len()) > dealing.room(dealing.share(pages)) {
            let why = format!("the units for {pages} pages would have no room to be cleared");
            return refused(why, "keep more, or remove the tenant");
        }
        if !self.give_pages_up(part.first + pages, part.first + part.live, cx) {
            return refused(
                "writes to what it gives up wait for room in the write buffer".into(),
                "try again",
            );
        }
        self.record_trims(cx, TenantId::SYSTEM);
        let going = part.held() - pages;
        if going == 0 {
            return Ok(());
        }
        let recorded = self.write_table(tenant, Part { live: pages, going, ..part }, cx);
        for lpn in (part.first + pages..part.end()).map(Lpn) {
            if let Some(old) = self.map.clear(lpn) {
                self.blocks.invalidate(old, recorded);
                self.count.pages_trimmed += 1;
            }
        }
        self.finish_going(tenant, dealing, cx)
    }

    /// Clears what is left of the pages that a tenant gives up, and takes their units off its account.
    fn finish_going(&mut self, tenant: usize, dealing: &Dealing, cx: &mut Cx<'_>) -> Result<(), DealError> {
        let part = self.tenants_mut().part(tenant);
        self.renew_journal(cx, TenantId::SYSTEM);
        let pools: Vec<u32> =
            (0..dealing.groups).map(|group| self.tenants_mut().pool(group, tenant)).collect();
        if !self.tenants_mut().planted.leaves_units {
            for &pool in &pools {
                if !self.clear_tail(pool, &part, cx) {
                    return not_back();
                }
            }
        }
        let units = dealing.share(part.live).blocks;
        let valid_max = dealing.share(part.live);
        let valid_max = valid_max.blocks.saturating_sub(valid_max.reserved) * dealing.pages;
        pools.iter().for_each(|&pool| self.blocks.planes[pool as usize].valid_max = valid_max);
        for &pool in &pools {
            self.spread(pool, &part, cx);
        }
        for &pool in &pools {
            if !self.settle_account(pool, units, cx) {
                return not_back();
            }
        }
        // Before a page is taken for the record: who needs a unit for it could borrow one of these.
        self.set_units(tenant, part.live, dealing);
        self.lanes.fence(self.last_change.later(cx.now));
        self.write_table(tenant, Part { going: 0, ..part }, cx);
        Ok(())
    }

    /// Clears every unit of a pool with a version of a page that is going; units that are open are closed before. False when there is no
    /// erased unit for pages that move, because others still have it.
    fn clear_tail(&mut self, pool: u32, part: &Part, cx: &mut Cx<'_>) -> bool {
        self.end_clearing(pool, cx);
        self.recall(pool, cx);
        let [host, moved] = self.open_units(pool).map(|unit| self.holds_version(unit, pool, part));
        if host {
            self.blocks.close_host(pool);
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

    /// The units of a pool that are open for the host's pages and for those that move.
    fn open_units(&self, pool: u32) -> [BlockId; 2] {
        let (p, layout) = (&self.blocks.planes[pool as usize], self.blocks.layout());
        [p.host.block(layout), p.moved.block(layout)]
    }

    /// Demands what a pool has lent, as far as it comes back.
    fn recall(&mut self, pool: u32, cx: &mut Cx<'_>) {
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

    fn holds_version(&self, unit: BlockId, pool: u32, part: &Part) -> bool {
        let layout = self.blocks.layout();
        if unit.0 >= layout.block_end() {
            // None is open.
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
                _ => false,
            })
    }

    /// Writes pages to other groups until the pool holds no more than it may.
    fn spread(&mut self, pool: u32, part: &Part, cx: &mut Cx<'_>) {
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

    /// Whether a pool can do with so many units: what it has lent is back, what it owes is paid, and the rest of its units are erased.
    fn settle_account(&mut self, pool: u32, units: u32, cx: &mut Cx<'_>) -> bool {
        let turns = 2 * self.blocks.layout().blocks;
        self.recall(pool, cx);
        for _ in 0..turns {
            if !self.is_debtor(pool) {
                break;
            }
            self.pay(pool, cx);
        }
        let account = {
            let tenants = self.tenants_mut();
            tenants.books[pool as usize / tenants.len()].accounts()[tenants.of_pool(pool)]
        };
        if account.lent > 0 || account.borrowed > 0 {
            return false;
        }
        let keep = if units == 0 { 0 } else { self.host.urgent + 1 };
        let least = account.allocated - units + keep;
        for _ in 0..turns {
            if self.blocks.planes[pool as usize].free >= least || !self.has_victim(pool) {
                break;
            }
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
        self.blocks.planes[pool as usize].free >= account.allocated - units
    }

    /// Pays a unit that the owner of `pool` owes, or clears one so that it can.
    fn pay(&mut self, pool: u32, cx: &mut Cx<'_>) {
        if self.may_give(pool) {
            let tenants = self.tenants_mut();
            let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
            let lender = tenants.books[group].largest_creditor(debtor).expect("it owes somebody");
            let to = tenants.pool(group as u32, lender);
            tenants.inherited[pool as usize] = tenants.inherited[pool as usize].saturating_sub(1);
            self.give(pool, to);
        } else if self.has_victim(pool) {
            self.clear_whole_block(pool, TenantId::SYSTEM, cx);
        }
    }

    /// Puts the table on record in which a tenant has this range; it holds from here on. Returns when the record is complete: nothing
    /// begins before.
    fn write_table(&mut self, tenant: usize, part: Part, cx: &mut Cx<'_>) -> Instant {
        let mut table = self.tenants_mut().table.clone();
        table.set(tenant, part);
        let home = self.tenants_mut().home(tenant).expect("there is a tenant with pages of its own");
        let before = self.journal.table();
        let mut recorded = cx.now;
        if !self.tenants_mut().planted.forgets_table {
            let first = Lpn(table.parts()[home].first);
            let ppn = self.take_tenant_page(first, TenantId::SYSTEM, cx);
            let extents = vec![Extent { first, count: 0, as_of: self.seq }];
            recorded = self.write_record(ppn, extents, Some(&table), cx, TenantId::SYSTEM);
            if let Some(slot) = before {
                let old = self.journal.drop_record(slot);
                self.blocks.invalidate(old, recorded);
            }
        }
        self.tenants_mut().table = table;
        self.lanes.fence(recorded)
    }
}

/// Starts: what a scan has to know before anything else.
impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Finds the newest table and takes it over. Where there is none, the drive is as its options say.
    pub(in crate::ssd) fn recover_table(&mut self, cx: &mut Cx<'_>) {
        let Some(dealing) = self.tenants.as_deref().and_then(|tenants| tenants.dealing.clone()) else {
            return;
        };
        let mut newest: Option<(u64, Table)> = None;
        for (ppn, seq) in self.records_on_flash(cx) {
            if newest.as_ref().is_none_or(|(best, _)| seq > *best) {
                newest = self.table_at(ppn, cx).map(|table| (seq, table)).or(newest);
            }
        }
        let Some((_, table)) = newest else { return };
        let tenants = self.tenants_mut();
        let shares: Vec<Share> = table.parts().iter().map(|part| dealing.share(part.held())).collect();
        tenants.starts = shares.iter().map(|share| dealing.start_of(share.blocks)).collect();
        let units = shares.iter().map(|share| share.blocks).collect();
        let books = Books::new(units, |units| tenants.policy.contribution(units));
        tenants.books.fill(books);
        tenants.table = table;
        (0..).zip(shares).for_each(|(tenant, share)| self.blocks.change_share(tenant, share));
    }

    /// Forgets what lies in pages that are going.
    pub(in crate::ssd) fn forget_going(&mut self) {
        let Some(tenants) = self.tenants.as_deref() else { return };
        for part in tenants.table.parts() {
            for lpn in part.tail() {
                self.map.clear(Lpn(lpn));
            }
        }
    }
}
