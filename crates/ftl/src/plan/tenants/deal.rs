//! Tenants that come, go, grow and shrink while the drive runs (`max_tenants`).
//!
//! *To come, to grow*: a gap of the logical space, and units that nobody has. They are erased and were never lent. One record of the new
//! table ([`crate::isolation::Table`]), and the range is the tenant's.
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
//! what all others have, and channels and dies of one's own cannot be cut: there tenants stay as they are. With the die scheduler
//! `out-of-order` the lines of all dies are served to their ends before.
//!
//! Cost: a pass over the units of the tenant, and a pause of all dies of about two programs, more where units are cleared.

use super::log_deals::LogDealing;
use super::{Flash, Planner, Tenants};
use crate::Lpn;
use crate::blocks::Share;
use crate::isolation::{Books, Part, Table, part_of};
use crate::map_area::MapNeeds;
use crate::mapping::Mapping;
use crate::plan::flash::After;
use crate::trim_journal::{Extent, TrimJournal};
use nandu_base::{ByteLen, ByteOffset, Cx, Deal, DealError, Ratio, TenantId, TenantSpace};
use std::ops::Range;

/// What a tenant gets for its space, from the options of the drive.
#[derive(Clone, Debug)]
pub struct Dealing {
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
    /// Share of a tenant's units that it leaves erased for others, where contributions are set aside.
    pub reserves: Option<Ratio>,
    /// Erased units that a drive without tenants keeps.
    pub gc_start: u32,
    /// Open units for the host's pages beside the first one.
    pub streams: u32,
    /// Units of each group that a cache in SLC mode always has.
    pub slc: u32,
    /// What a map on the flash takes of the units of a tenant, where there is one.
    pub map: Option<MapNeeds>,
    /// What a log-block map gives a tenant, where there is one.
    pub logs: Option<LogDealing>,
}

impl Dealing {
    /// Erased units at which a tenant with so many units begins to clear.
    pub fn start_of(&self, units: u32) -> u32 {
        self.trigger.map_or(self.start, |share| self.start.max(share.of(u64::from(units)) as u32))
    }

    /// What a tenant of so many pages with so many units has in each group.
    pub fn share_of(&self, units: u32, pages: u32) -> Share {
        if self.logs.is_some() {
            return Share { blocks: units, reserved: 0 };
        }
        let reserves = self.reserves.map_or(0, |share| (share.of(u64::from(units)) as u32).max(1));
        let own = self.start_of(units).max(self.gc_start) + 3 + self.streams + self.slc_of(units) + reserves;
        let map = self.map.map_or(0, |map| map.blocks(self.row(), pages));
        Share { blocks: units, reserved: own + map }
    }

    /// Of the units in each group those for the translation pages of a tenant of so many pages.
    pub fn map_of(&self, pages: u32) -> u32 {
        self.map.map_or(0, |map| map.area(self.row(), pages))
    }

    /// Pages of a unit of each group together.
    pub fn row(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.pages)
    }

    /// Of so many units those that a cache in SLC mode always has: their part, one at least where there is any.
    pub fn slc_of(&self, units: u32) -> u32 {
        part_of(self.slc, units, self.units).max(self.slc.min(1)).min(units)
    }

    /// Pages of so many bytes.
    fn pages_of(&self, size: ByteLen) -> u32 {
        u32::try_from(size.0.div_ceil(self.page)).unwrap_or(u32::MAX)
    }

    /// What a tenant of so many pages has in each group.
    pub(super) fn share(&self, pages: u32) -> Share {
        self.share_of(part_of(self.units, pages, self.logical), pages)
    }

    /// Valid pages that it may hold.
    pub fn room(&self, share: Share) -> u64 {
        u64::from(share.blocks.saturating_sub(share.reserved)) * self.row()
    }

    /// Units of each group without which the pages of a tenant with this share have no room;
    /// `needed` valid pages are what they may come to.
    pub fn floor(&self, share: Share, needed: u64) -> u32 {
        match share.blocks {
            0 => 0,
            _ => share.reserved + needed.div_ceil(self.row()) as u32,
        }
    }

    /// The same of a tenant of so many pages, of so many tenants.
    pub fn floor_of(&self, pages: u32, tenants: usize) -> u32 {
        match &self.logs {
            Some(_) if pages == 0 => 0,
            Some(logs) => logs.quota.needed(logs.logical_blocks(pages, self.groups, self.pages)),
            None => self.floor(self.share(pages), self.needed(pages, tenants)),
        }
    }

    /// Valid pages that a tenant of so many pages may come to, one of so many: records of trims and two tables with them.
    pub fn needed(&self, pages: u32, tenants: usize) -> u64 {
        u64::from(pages) + TrimJournal::pages_max(u64::from(pages), self.page as usize, tenants) + 2
    }
}

pub(super) fn refused<T>(why: String, remedy: &str) -> Result<T, DealError> {
    Err(DealError::Refused { why, remedy: remedy.into() })
}

/// A deal that is begun and cannot be ended now.
pub(super) fn not_back<T>() -> Result<T, DealError> {
    refused("lent units are still being returned".into(), "retry to finish")
}

impl Tenants {
    pub(super) fn part(&self, tenant: usize) -> Part {
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

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// What is settled for tenants that come and go, where they may.
    pub fn dealing(&self) -> Result<Dealing, DealError> {
        let dealing = self.tenants.as_deref().and_then(|tenants| tenants.dealing.clone());
        dealing.ok_or(DealError::Fixed)
    }

    /// The pages that a tenant gives up by this, if any.
    pub fn gives_up(&self, deal: Deal, dealing: &Dealing) -> Range<u32> {
        let tenants = self.tenants.as_deref();
        let live = |number, pages: u32| {
            let part = tenants.and_then(|tenants| Some(tenants.part(tenants.numbered(number).ok()?)));
            part.map_or(0..0, |part| part.first + pages.min(part.live)..part.first + part.live)
        };
        match deal {
            Deal::Add { .. } => 0..0,
            Deal::Resize { number, size } => live(number, dealing.pages_of(size)),
            Deal::Remove { number } => live(number, 0),
        }
    }

    /// Changes the space of a tenant while the drive stands still; returns the tenant. What one gives up
    /// ([`gives_up`](Planner::gives_up)) is in no write buffer any more.
    pub fn make_deal(&mut self, deal: Deal, dealing: &Dealing, cx: &mut Cx<'_>) -> Result<usize, DealError> {
        if self.blocks.is_worn_out() {
            let why = "the drive is worn out and takes no more writes".into();
            return refused(why, "copy what is on it to another drive");
        }
        for tenant in 0..self.tenants_mut().len() {
            if self.tenants_mut().part(tenant).going > 0 {
                self.finish_going(tenant, dealing, cx)?;
            }
        }
        let pages = |size| dealing.pages_of(size);
        let tenant = match deal {
            Deal::Add { size } => self.add_tenant(pages(size), dealing, cx)?,
            Deal::Resize { number, size } => {
                let tenant = self.tenants_mut().numbered(number)?;
                if pages(size) == 0 {
                    return refused("a tenant has space".into(), "to take it away, remove the tenant");
                }
                match pages(size) > self.tenants_mut().part(tenant).live {
                    true => self.grow_tenant(tenant, pages(size), dealing, cx)?,
                    false => self.shrink_tenant(tenant, pages(size), dealing, cx)?,
                }
                tenant
            }
            Deal::Remove { number } => {
                let tenant = self.tenants_mut().numbered(number)?;
                if self.tenants_mut().home(tenant) == Some(tenant) {
                    return refused("it is the last tenant".into(), "add another one first");
                }
                self.shrink_tenant(tenant, 0, dealing, cx)?;
                tenant
            }
        };
        Ok(tenant)
    }

    /// The space of each tenant.
    pub fn tenant_spaces(&self, out: &mut Vec<TenantSpace>) {
        let Some(tenants) = self.tenants.as_deref() else { return };
        let bytes = |pages: u32| u64::from(pages) << self.host.page.bits;
        for (number, part) in (1..).zip(tenants.table.parts()).filter(|(_, part)| part.live > 0) {
            let (first, size) = (ByteOffset(bytes(part.first)), ByteLen(bytes(part.live)));
            out.push(TenantSpace { number, first, size });
        }
    }

    fn add_tenant(&mut self, pages: u32, dealing: &Dealing, cx: &mut Cx<'_>) -> Result<usize, DealError> {
        let tenants = self.tenants_mut();
        let Some(tenant) = (0..tenants.len()).find(|&tenant| tenants.part(tenant).held() == 0) else {
            let why = format!("all {} places for tenants are taken", tenants.len());
            return refused(why, "remove one, or make the drive with more `max_tenants`");
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
        for group in 0..dealing.groups {
            let pool = self.tenants_mut().pool(group, tenant);
            let has_room = match &dealing.logs {
                Some(_) => self.has_back_what_it_lent(pool, cx),
                None => self.make_room_for_map(pool, pages, dealing, cx),
            };
            if !has_room {
                let why = "its units have no room for more of its map yet".into();
                return refused(why, "try again when it has given back or got back what is lent");
            }
        }
        self.write_table(tenant, Part { live: pages, ..part }, cx);
        self.set_units(tenant, pages, dealing);
        if dealing.logs.is_some() {
            return Ok(());
        }
        for group in 0..dealing.groups {
            let pool = self.tenants_mut().pool(group, tenant);
            self.spread(pool, &Part { live: pages, ..part }, cx);
        }
        Ok(())
    }

    /// Refuses a tenant whose units are not there, or not enough for its pages.
    fn check_units(&mut self, tenant: usize, pages: u32, dealing: &Dealing) -> Result<(), DealError> {
        let share = dealing.share(pages);
        self.check_room(pages, share, dealing)?;
        for group in 0..dealing.groups {
            let accounts = self.tenants_mut().books[group as usize].accounts().iter().enumerate();
            let others = accounts.filter(|(other, _)| *other != tenant);
            let given: u32 = others.map(|(_, account)| account.allocated).sum();
            let good = self.good_in(group);
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

    /// Refuses pages for which the units of their share have no room.
    pub(super) fn check_room(
        &mut self,
        pages: u32,
        share: Share,
        dealing: &Dealing,
    ) -> Result<(), DealError> {
        let remedy = "make the drive with more over-provisioning or smaller units";
        if let Some(logs) = &dealing.logs {
            let logical = logs.logical_blocks(pages, dealing.groups, dealing.pages);
            return match logs.quota.logs(share.blocks, logical) {
                Ok(_) => Ok(()),
                Err(_) => {
                    let why = format!(
                        "{pages} pages need {logical} blocks in each group and {} for merges and logs, and their share is {}",
                        logs.quota.needed(0),
                        share.blocks
                    );
                    refused(why, remedy)
                }
            };
        }
        let needed = dealing.needed(pages, self.tenants_mut().len());
        if needed > dealing.room(share) {
            let why = format!(
                "{pages} pages need room for {needed}, records of trims included, and their {} units in each group have {}",
                share.blocks,
                dealing.room(share)
            );
            return refused(why, remedy);
        }
        Ok(())
    }

    /// Gives a tenant the units for so many pages, or takes those away that it has too many of; they are erased.
    pub(super) fn set_units(&mut self, tenant: usize, pages: u32, dealing: &Dealing) {
        let share = dealing.share(pages);
        let floor = dealing.floor_of(pages, self.tenants_mut().len());
        self.tenants_mut().floors[tenant] = floor;
        self.blocks.change_share(tenant as u32, share);
        for group in 0..dealing.groups {
            let due = self.due_in(group);
            let units = due[tenant];
            let tenants = self.tenants_mut();
            let contribution = tenants.policy.contribution(units);
            let before = tenants.books[group as usize].accounts()[tenant].allocated;
            tenants.books[group as usize].set_allocated(tenant, units, contribution);
            let pool = tenants.pool(group, tenant);
            self.deal_units(pool, i64::from(units) - i64::from(before));
            self.give_what_is_due(group, &due);
            if dealing.logs.is_some() {
                self.fit_logs(pool, pages, dealing);
                continue;
            }
            self.blocks.planes[pool as usize].valid_max -= (share.blocks - units) * dealing.pages;
            self.give_map_units(pool, dealing.map_of(pages));
            self.slc.iter_mut().for_each(|slc| slc.set_fixed(pool, dealing.slc_of(share.blocks)));
        }
        self.tenants_mut().starts[tenant] = dealing.start_of(share.blocks);
    }

    /// A pool has so many erased units more, which nobody had, or fewer, which nobody has from here on.
    pub(super) fn deal_units(&mut self, pool: u32, units: i64) {
        match self.map.log_blocks().is_some() {
            true => self.deal_logs(pool, units),
            false => self.blocks.give_erased(pool, units),
        }
    }

    /// Puts the table on record in which a tenant has this range; it holds from here on. Returns what stands for the record: nothing
    /// begins before it is complete.
    pub(super) fn write_table(&mut self, tenant: usize, part: Part, cx: &mut Cx<'_>) -> After {
        let mut table = self.tenants_mut().table.clone();
        table.set(tenant, part);
        let recorded = match (self.tenants_mut().planted.forgets_table, self.map.log_blocks()) {
            (true, _) => After::now(cx),
            (false, Some(_)) => self.write_table_apart(&table, cx),
            (false, None) => self.write_table_among_records(tenant, &table, cx),
        };
        self.renumber_map(table, cx);
        self.range_changed(tenant);
        self.exec.fence(recorded)
    }

    /// Writes the table as one of the records of trims, in the units of a tenant that stays; the one before is given up.
    fn write_table_among_records(&mut self, tenant: usize, table: &Table, cx: &mut Cx<'_>) -> After {
        let home = self.tenants_mut().home(tenant).expect("there is a tenant with pages of its own");
        let before = self.journal.table();
        let first = Lpn(table.parts()[home].first);
        let ppn = self.take_page(first, 0, TenantId::SYSTEM, cx);
        let extents = vec![Extent { first, count: 0, as_of: self.seq }];
        let recorded = self.write_record(ppn, extents, Some(table), cx, TenantId::SYSTEM);
        if let Some(slot) = before {
            let old = self.journal.drop_record(slot);
            self.exec.say_given_up(old, recorded, cx);
            self.give_up(old, recorded);
        }
        recorded
    }
}

/// Starts: what a scan has to know before anything else.
impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Finds the newest table and takes it over. Where there is none, the drive is as its options say.
    pub(in crate::plan) fn recover_table(&mut self, cx: &mut Cx<'_>) {
        let Some(dealing) = self.tenants.as_deref().and_then(|tenants| tenants.dealing.clone()) else {
            return;
        };
        let is_log = dealing.logs.is_some();
        let records = if is_log { self.tables_on_flash(cx) } else { self.records_on_flash(cx) };
        let mut newest: Option<(u64, Table)> = None;
        for (ppn, seq) in records {
            if newest.as_ref().is_none_or(|(best, _)| seq > *best) {
                newest = self.table_at(ppn, cx).map(|table| (seq, table)).or(newest);
            }
        }
        let Some((_, table)) = newest else { return };
        let tenants = self.tenants_mut();
        let shares: Vec<Share> = table.parts().iter().map(|part| dealing.share(part.held())).collect();
        tenants.starts = shares.iter().map(|share| dealing.start_of(share.blocks)).collect();
        let floor = |part: &Part| dealing.floor_of(part.held(), shares.len());
        tenants.floors = table.parts().iter().map(floor).collect();
        let units = shares.iter().map(|share| share.blocks).collect();
        let books = Books::new(units, |units| tenants.policy.contribution(units));
        tenants.books.fill(books);
        tenants.table = table;
        self.own_map_pages();
        for (tenant, share) in shares.into_iter().enumerate() {
            self.blocks.change_share(tenant as u32, share);
            for group in 0..dealing.groups {
                let pool = self.tenants_mut().pool(group, tenant);
                self.slc.iter_mut().for_each(|slc| slc.set_fixed(pool, dealing.slc_of(share.blocks)));
                let held = self.tenants_mut().part(tenant).held();
                self.paging.area.set_quota(pool, dealing.map_of(held));
            }
        }
        if is_log {
            self.range_logs(&dealing);
        }
    }

    /// Forgets what lies in pages that are going.
    pub(in crate::plan) fn forget_going(&mut self) {
        let Some(tenants) = self.tenants.as_deref() else { return };
        for part in tenants.table.parts() {
            for lpn in part.tail() {
                self.map.clear(Lpn(lpn));
            }
        }
    }
}
