//! Loans of erased units, as a drive makes them: who asks whom when a unit is opened, and how what is owed comes back.
//!
//! The rules are [`crate::isolation`]'s, the proof that a demand takes one collection at most is [`crate::isolation::room`]'s. Here
//! each demand is counted, and what moves for it: I-8 is checked on these figures.
//!
//! Cost: passes over the units of a group for each unit that is opened or cleared while something is owed.

use super::{Flash, Planner};
use crate::BlockId;
use crate::isolation::room;
use crate::mapping::Mapping;
use nandu_base::{Cx, TenantId};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Gets erased units from others, until opening one does not begin a collection; who owes units goes on while another one helps.
    pub(in crate::plan) fn fill_up(&mut self, pool: u32, cx: &mut Cx<'_>) {
        if self.tenants_mut().planted.others_collect {
            self.clear_of_another(pool, cx);
        }
        let least = self.tenants_mut().own_start_of(pool).max(self.host.urgent) + 1;
        while self.blocks.planes[pool as usize].free <= least || self.is_helped_by_more(pool) {
            if !self.get_unit(pool, cx) {
                return;
            }
        }
    }

    /// Has an erased unit back that the owner of `pool` has lent, or borrows one; false when none comes.
    pub(super) fn get_unit(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        let demands = self.tenants_mut().policy.demands_when_low();
        demands && self.demand(pool, cx) || self.borrow(pool)
    }

    /// The owner of `pool` is about to collect, for others have borrowed what it had: it asks back before.
    pub(in crate::plan) fn ask_back_before_clearing(&mut self, pool: u32, cx: &mut Cx<'_>) {
        if !self.is_creditor(pool) || !self.tenants_mut().policy.demands_when_low() {
            return;
        }
        while self.blocks.planes[pool as usize].free <= self.start_of(pool) {
            if !self.demand(pool, cx) {
                return;
            }
        }
    }

    /// Borrows an erased unit; false when nobody lends one.
    fn borrow(&mut self, pool: u32) -> bool {
        let Some(tenants) = self.tenants.as_deref_mut() else { return false };
        let (group, borrower) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let (count, first) = (tenants.len(), group * tenants.len());
        let Some(books) = tenants.books.get_mut(group) else { return false };
        tenants.free.clear();
        match self.map.log_blocks() {
            Some(log) => tenants.free.extend((first..first + count).map(|pool| log.lendable(pool as u32))),
            None => tenants.free.extend(self.blocks.planes[first..first + count].iter().map(|p| p.free)),
        }
        if tenants.planted.lends_unallocated && self.seq.is_multiple_of(2) {
            self.blocks.planes[pool as usize].free += 1;
            return true;
        }
        let lender = tenants.policy.lender(books, &tenants.free, borrower);
        let Some(lender) = lender.filter(|&lender| tenants.free[lender] > 0) else { return false };
        let valid = match self.map.log_blocks() {
            Some(log) => log.pool(pool).give_up_cost(),
            None => self.room_needed(pool, 1).saturating_sub(1) as u32,
        };
        let pages = self.blocks.layout().pages;
        let tenants = self.tenants_mut();
        if !tenants.policy.admits(valid, pages) {
            return false;
        }
        tenants.put_off[pool as usize] += u64::from(valid);
        tenants.books[group].lend(lender, borrower);
        tenants.counts[borrower].borrowed += 1;
        tenants.counts[lender].lent += 1;
        self.move_unit((first + lender) as u32, pool);
        self.look_ahead(pool);
        true
    }

    /// An erased unit goes from one pool to another.
    fn move_unit(&mut self, from: u32, to: u32) {
        match self.map.log_blocks().is_some() {
            true => self.move_log(from, to),
            false => self.blocks.hand_over(from, to),
        }
    }

    /// Demands a unit back that the owner of `pool` has lent: an erased one, or what one collection of the debtor gains. False when
    /// nothing is owed to it.
    pub(in crate::plan) fn demand(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        let Some(tenants) = self.tenants.as_deref_mut() else { return false };
        let (group, lender) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let Some(books) = tenants.books.get(group) else { return false };
        let Some(debtor) = books.largest_debtor(lender) else { return false };
        tenants.demands += 1;
        let keeps = tenants.planted.keeps_what_it_owes && tenants.demands % 2 == 1;
        let (from, cause) = (tenants.pool(group as u32, debtor), tenants.writers[debtor]);
        if self.map.log_blocks().is_some() && !keeps {
            // What was begun while the drive was idle was not for the demand.
            self.issue_merge(from, cause, cx);
        }
        if !self.may_give(from) && !keeps {
            let tenants = self.tenants_mut();
            tenants.is_demanded = true;
            let before = tenants.counts[debtor].moved;
            let turns = if tenants.planted.clears_twice { 2 } else { 1 };
            for _ in 0..turns {
                let has_cleared = match self.map.log_blocks().is_some() {
                    true => self.give_log_up(from, cause, cx),
                    false => self.clear_a_victim(from, cause, cx),
                };
                self.tenants_mut().counts[debtor].forced += u64::from(has_cleared);
            }
            let tenants = self.tenants_mut();
            tenants.is_demanded = false;
            let moved = tenants.counts[debtor].moved - before;
            tenants.moved_most = tenants.moved_most.max(moved);
        }
        let may_give = self.may_give(from) && !keeps;
        let tenants = self.tenants_mut();
        let inherited = &mut tenants.inherited[from as usize];
        if !may_give {
            // What was owed at a power cut may take longer.
            tenants.late += u64::from(*inherited == 0);
            return false;
        }
        *inherited = inherited.saturating_sub(1);
        self.give(from, pool);
        true
    }

    /// Clears a whole unit of a pool; false when it has none that gains anything.
    fn clear_a_victim(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        let has_victim = self.has_victim(pool);
        if has_victim {
            self.clear_whole_block(pool, cause, cx);
        }
        has_victim
    }

    /// Planted: a tenant that owes nothing clears a unit because another one opens one.
    #[cold]
    fn clear_of_another(&mut self, pool: u32, cx: &mut Cx<'_>) {
        let tenants = self.tenants_mut();
        let (group, other) = (pool as usize / tenants.len(), (tenants.of_pool(pool) + 1) % tenants.len());
        let other = tenants.pool(group as u32, other);
        let has_room = self.blocks.planes[other as usize].free > 2 && !self.is_debtor(other);
        if other != pool && has_room && self.has_victim(other) {
            self.clear_whole_block(other, TenantId::SYSTEM, cx);
        }
    }

    /// Whether the owner of `pool` can give an erased unit back and still give back what else it owes.
    pub(in crate::plan) fn may_give(&mut self, pool: u32) -> bool {
        if let Some(log) = self.map.log_blocks() {
            return log.can_spare(pool);
        }
        let debt = self.tenants_mut().debt(pool);
        let pages = u64::from(self.blocks.layout().pages);
        self.blocks.planes[pool as usize].free > 0
            && self.blocks.room_of(pool) >= pages + self.room_needed(pool, debt)
    }

    /// Whether the owner of `pool` may open a unit for its host.
    pub(in crate::plan) fn may_open(&mut self, pool: u32) -> bool {
        let debt = self.tenants_mut().debt(pool);
        debt == 0 || self.tenants_mut().planted.room_not_kept || self.may_still_open(pool, debt) > 0
    }

    /// The room that so many collections of a pool take at most.
    pub(in crate::plan) fn room_needed(&mut self, pool: u32, victims: u32) -> u64 {
        let pages = self.blocks.layout().pages;
        let begun = self.victim_of(pool);
        let left = begun.map(|victim| pages - u32::from(self.blocks.invalid(victim)));
        let full = self.blocks.valid_of_full(pool, begun.unwrap_or(BlockId(u32::MAX)));
        let mut scratch = std::mem::take(
            &mut self.tenants.as_deref_mut().expect("only asked for on a drive with tenants").scratch,
        );
        let needed = room::needed(full, left, victims, pages, &mut scratch);
        self.tenants_mut().scratch = scratch;
        needed
    }

    /// A unit goes back to the pool that it was lent from.
    pub(in crate::plan) fn give(&mut self, from: u32, to: u32) {
        let is_log = self.map.log_blocks().is_some();
        let tenants = self.tenants_mut();
        let (debtor, lender) = (tenants.of_pool(from), tenants.of_pool(to));
        let group = from as usize / tenants.len();
        let put_off = tenants.put_off[from as usize] / u64::from(tenants.debt(from)).max(1);
        tenants.put_off[from as usize] -= put_off;
        tenants.books[group].give_back(debtor, lender);
        let account = tenants.books[group].accounts()[lender];
        // A merge that is put off is done later for as many pages.
        let moved = if is_log { put_off as u32 } else { tenants.victims.last(from) };
        if let Some(units) = tenants.policy.came_back(lender, &account, put_off as u32, moved) {
            tenants.books[group].set_contribution(lender, units);
        }
        self.move_unit(from, to);
        self.look_ahead(from);
    }

    /// The owner of `pool` has erased a unit: it counts for its wear, and may give one back.
    pub(in crate::plan) fn tenant_erased(&mut self, pool: u32) {
        let Some(tenants) = self.tenants.as_deref_mut() else { return };
        let debtor = tenants.of_pool(pool);
        tenants.counts[debtor].erases += 1;
        tenants.victims.erased(pool, debtor, self.blocks.layout().pages);
        if tenants.debt(pool) == 0 {
            return;
        }
        self.look_ahead(pool);
        self.give_one_of_two(pool);
    }

    /// A pool whose owner owes units has gained one. What it gives back it must clear anew, so of each two one is its own: else it would repay all
    /// at once, and its host would wait.
    pub(super) fn give_one_of_two(&mut self, pool: u32) {
        let tenants = self.tenants_mut();
        let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let gives = &mut tenants.gives_next[pool as usize];
        *gives = !*gives;
        if *gives || tenants.is_demanded || !tenants.policy.gives_back_at_erase() {
            return;
        }
        let Some(lender) = tenants.books[group].largest_creditor(debtor) else { return };
        let to = tenants.pool(group as u32, lender);
        let has_more =
            self.map.log_blocks().is_some() || self.blocks.planes[pool as usize].free > self.host.urgent;
        if has_more && self.may_give(pool) {
            let inherited = &mut self.tenants_mut().inherited[pool as usize];
            *inherited = inherited.saturating_sub(1);
            self.give(pool, to);
        }
    }
}
