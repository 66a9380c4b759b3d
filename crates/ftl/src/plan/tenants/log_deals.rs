//! Tenants that come, go, grow and shrink on a drive with a log-block map. The order of records and of what is cleared is that of all drives ([`deal`](super::deal)).
//!
//! *Whose a block is* follows from the first record in it, without the table: the pages of each place for a tenant are numbered on record from a number of its own.
//!
//! *The table* lies in blocks of its own, the first ones of each plane, as a checkpoint does ([`Anchors`]): a page in a log block would be merged away.
//!
//! *What goes* is unmapped without a mark, for the table says it. Then whatever holds a version of it is merged or erased, so that the number of a page says nothing old to
//! who grows into it later. A start between the two records finds the pages again, and forgets them.
//!
//! *Log blocks* are as many as the options give a pool with the blocks and pages of the tenant's share. Who shrinks merges until it has no more.
//!
//! Cost: as there; two blocks of the drive for the table.

use super::deal::{Dealing, not_back};
use super::{Flash, Planner};
use crate::isolation::Table;
use crate::log_block::map::NOBODY;
use crate::log_block::{Homes, LogQuota};
use crate::mapping::Mapping;
use crate::plan::flash::{After, Erasing, Job, Pieces, Programming};
use crate::{BlockId, Ppn};
use nandu_base::{Cx, DealError, Oob, TenantId, UnitState, Work};

/// The record of a page with the table.
const TABLE_KEY: u64 = u32::MAX as u64;

/// What the options of a log-block map give a tenant.
#[derive(Clone, Copy, Debug)]
pub struct LogDealing {
    /// Log blocks of a pool.
    pub quota: LogQuota,
    /// Consecutive pages in one pool.
    pub interleave: u32,
}

impl LogDealing {
    /// Logical blocks that each pool of a tenant with so many pages over so many groups has, for blocks of `pages`.
    pub fn logical_blocks(&self, of_tenant: u32, groups: u32, pages: u32) -> u32 {
        let order = (0..groups).collect();
        let homes = Homes { first: 0, logical: of_tenant, unit: self.interleave, order };
        homes.most_in_a_pool().div_ceil(pages)
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Writes the table where a start looks for it; returns what stands for the record.
    pub(super) fn write_table_apart(&mut self, table: &Table, cx: &mut Cx<'_>) -> After {
        let tables = self.tenants_mut().tables.as_mut().expect("a drive with places for tenants");
        let (half, first, stale) = tables.take(1);
        let ppn = tables.page(half, first);
        let before = self.exec.behind_all(cx);
        let outer = self.exec.work_for(Work::Journal);
        for unit in stale {
            let erasing =
                Erasing { unit, after: before, is_slc: false, cause: TenantId::SYSTEM, work: Work::Journal };
            self.exec.erase(erasing, cx);
            self.blocks.wore(unit);
            self.count.erases += 1;
            self.erases_ever += 1;
        }
        let after = self.exec.behind_all(cx);
        let mut pieces = Pieces::of_nobody(cx, TenantId::SYSTEM, Work::Journal);
        self.exec.begin_group();
        self.count.journal_pages += 1;
        self.seq += 1;
        let overlay = self.host.page.own(cx, |page| table.encode(page));
        let oob = Oob { key: TABLE_KEY, seq: self.seq };
        let record = Programming { overlay, ..Programming::of(Job::Anchor, ppn, oob, after) };
        let given = self.exec.program(record, &mut pieces, cx);
        self.exec.work_for(outer);
        pieces.charge(cx);
        self.exec.recorded_behind(given, cx)
    }

    /// The pages where a table may lie, with their numbers; notes which of them are used, and how their blocks are worn.
    pub(super) fn tables_on_flash(&mut self, cx: &Cx<'_>) -> Vec<(Ppn, u64)> {
        let Some(mut tables) = self.tenants_mut().tables.take() else { return Vec::new() };
        let medium = cx.medium.as_deref().expect("recovery reads the medium");
        let (mut found, mut used, mut newest) = (Vec::new(), [0; 2], None);
        for (half, used) in used.iter_mut().enumerate() {
            for index in 0..tables.pages() {
                let ppn = tables.page(half, index);
                match medium.state(self.exec.unit(ppn)) {
                    UnitState::Erased => continue,
                    UnitState::Torn => {}
                    UnitState::Programmed(Oob { seq, .. }) => {
                        found.push((ppn, seq));
                        newest = newest.max(Some((seq, half)));
                    }
                }
                *used = index + 1;
                self.recovery.note(self.exec.die_of(ppn), 1);
            }
        }
        let layout = *self.blocks.layout();
        for block in layout.all_blocks().filter(|&block| tables.owns(block)) {
            let erases = medium.erases(self.exec.unit(layout.first_page(block)));
            self.blocks.restore_wear(block, erases);
            self.erases_ever += u64::from(erases);
        }
        tables.restore(used, newest.map(|(_, half)| half));
        self.seq = found.iter().map(|&(_, seq)| seq).fold(self.seq, u64::max);
        self.tenants_mut().tables = Some(tables);
        found
    }

    /// The table says what each place has: the pools of a drive that holds nothing follow, those of pages that are going too.
    pub(super) fn range_logs(&mut self, dealing: &Dealing) {
        for (tenant, part) in self.tenants_mut().table.parts().to_vec().into_iter().enumerate() {
            self.log_mut().set_range(tenant, part.first, part.held());
            for group in 0..dealing.groups {
                let pool = self.tenants_mut().pool(group, tenant);
                self.fit_logs(pool, part.held(), dealing);
            }
        }
    }

    /// A pool has the logical blocks and log blocks of a tenant with so many pages.
    pub(super) fn fit_logs(&mut self, pool: u32, pages: u32, dealing: &Dealing) {
        let Some(logs) = &dealing.logs else { return };
        let logical = logs.logical_blocks(pages, dealing.groups, dealing.pages);
        let share = dealing.share(pages).blocks;
        let many = if logical == 0 { 0 } else { logs.quota.logs(share, logical).unwrap_or(logs.quota.least) };
        let account = self.account_of(pool);
        let more = i64::from(account.borrowed) - i64::from(account.lent);
        self.log_mut().resize(pool, logical, many, more as i32);
    }

    /// The range of a tenant is another one.
    pub(super) fn range_changed(&mut self, tenant: usize) {
        if self.map.log_blocks().is_some() {
            let part = self.tenants_mut().part(tenant);
            self.log_mut().set_range(tenant, part.first, part.live);
        }
    }

    /// Pages that are going are not mapped.
    pub(in crate::plan) fn forget_going_logged(&mut self) {
        if self.dealing().is_err() {
            return;
        }
        for tenant in 0..self.tenants_mut().len() {
            self.range_changed(tenant);
            self.forget_tail(tenant);
        }
    }

    /// Unmaps what a tenant has beyond its range; returns its pools, with the pages that are left in each.
    fn forget_tail(&mut self, tenant: usize) -> Vec<(u32, u32)> {
        let left: Vec<(u32, u32)> = self.log().pages_in_pools(tenant).collect();
        for &(pool, pages) in &left {
            let region = self.log_mut().pool_mut(pool).region_mut();
            let shape = region.shape();
            region.unmap(pages.min(shape.logical * shape.pages), shape.logical * shape.pages);
        }
        left
    }

    /// Clears what is left of the pages that a tenant gives up, and takes their blocks off its account.
    pub(super) fn finish_going_logged(
        &mut self,
        tenant: usize,
        dealing: &Dealing,
        cx: &mut Cx<'_>,
    ) -> Result<(), DealError> {
        let part = self.tenants_mut().part(tenant);
        let pools: Vec<u32> = self.log().pages_in_pools(tenant).map(|(pool, _)| pool).collect();
        for &pool in &pools {
            self.issue_merge(pool, TenantId::SYSTEM, cx);
            self.recall(pool, cx);
        }
        let leaves_some = self.tenants_mut().planted.leaves_units;
        for (pool, pages) in self.forget_tail(tenant) {
            let from = if leaves_some { pages.next_multiple_of(dealing.pages) } else { pages };
            while self.log_mut().pool_mut(pool).forget_from(from) {
                self.issue_merge(pool, TenantId::SYSTEM, cx);
            }
        }
        let (share, floor) =
            (dealing.share(part.live), dealing.floor_of(part.live, self.tenants_mut().len()));
        for &pool in &pools {
            let group = pool / self.tenants_mut().len() as u32;
            let due = |plan: &mut Self| plan.due_with(group, tenant, share, floor);
            if !self.settle_log_account(pool, part.live, dealing, due, cx) {
                return not_back();
            }
        }
        self.end_going(tenant, part, dealing, cx);
        Ok(())
    }

    /// Whether a pool can do with the blocks that are due to it: what it has lent is back, what it owes is paid, and the rest of its blocks are erased.
    fn settle_log_account(
        &mut self,
        pool: u32,
        pages: u32,
        dealing: &Dealing,
        due: impl Fn(&mut Self) -> u32,
        cx: &mut Cx<'_>,
    ) -> bool {
        if !self.settle_loans_of(pool, cx) {
            return false;
        }
        self.fit_logs(pool, pages, dealing);
        // A block that is erased may come to its end, and the account change with it.
        let is_short = |plan: &mut Self| {
            let (units, allocated) = (due(plan), plan.account_of(pool).allocated);
            let map = plan.log().pool(pool);
            let (free, needed) = (map.region().free(), if units == 0 { 0 } else { map.free_needed() });
            free < allocated.saturating_sub(units) + needed
        };
        for _ in 0..2 * self.blocks.layout().blocks {
            if !is_short(self) || !self.give_log_up(pool, TenantId::SYSTEM, cx) {
                break;
            }
        }
        !is_short(self)
    }

    /// Whether everything is back that the owner of a pool had lent.
    pub(super) fn has_back_what_it_lent(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        self.recall(pool, cx);
        !self.is_creditor(pool)
    }

    /// A pool has so many erased blocks more, which nobody had, or fewer, which nobody has from here on.
    pub(super) fn deal_logs(&mut self, pool: u32, blocks: i64) {
        for _ in blocks..0 {
            self.log_mut().give_away(pool);
        }
        for _ in 0..blocks {
            self.take_nobodys(pool);
        }
    }

    /// A pool has an erased block of its plane that nobody had.
    pub(super) fn take_nobodys(&mut self, pool: u32) {
        let plane = self.log().plane_of(pool);
        let is_nobodys = |&block: &BlockId| self.log().pool_of(block) == NOBODY && !self.blocks.is_bad(block);
        let mut blocks = self.blocks.layout().plane_blocks(plane).skip(self.blocks.apart() as usize);
        let block = blocks.find(is_nobodys).expect("what no tenant was given lies somewhere");
        self.log_mut().find_free(block, pool);
        self.exec.hand_over(block, pool, pool);
    }
}
