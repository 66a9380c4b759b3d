//! Log blocks that tenants lend each other ([`crate::isolation`]), with the maps whose log blocks belong to one logical block each.
//!
//! What is lent is an erased block, and with it the right to one log block more. A tenant that would have to merge for want of a log block has one back
//! first that it lent, then it borrows, and only then it merges. A demand is met by a block that the debtor can spare, or by one merge there: that of a log
//! block beside a data block leaves two blocks erased and needs one. So I-8 holds with these maps as with all others, and *fast* cannot lend: a log block of
//! its takes a merge for each logical block that has a page in it.
//!
//! The block that goes over is the one that was erased last, and nothing is programmed in the pool that has it now before all is done that changes the
//! pool it comes from. So a start finds no block in two pools, and never more log blocks than there is room for.
//!
//! *After a power cut* nobody has written down who owes whom. Each pool needs the blocks that it has written and one or more erased ones for its merges; who needs
//! more than it was given has borrowed the rest.
//!
//! Cost: a look at the log of a pool for each page that goes to it; passes over the accounts where one is full.

use super::ends::{Payer, payer};
use super::{Flash, Planner};
use crate::BlockId;
use crate::log_block::map::NOBODY;
use crate::mapping::Mapping;
use nandu_base::{Cx, TenantId};

impl<M: Mapping, F: Flash> Planner<M, F> {
    /// A page of a pool is about to be written for `cause`: where a log block would be given up for it, one comes back or is borrowed.
    pub(in crate::plan) fn find_room_for_log(
        &mut self,
        pool: u32,
        page: u32,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) {
        if !self.log().lends() {
            return;
        }
        let tenants = self.tenants_mut();
        let tenant = tenants.of_pool(pool);
        (tenants.writers[tenant], tenants.wrote[tenant]) = (cause, true);
        if !self.log().pool(pool).wants_log(page) {
            return;
        }
        let demands = self.tenants_mut().policy.demands_when_low();
        if !(demands && self.demand_log(pool, cx)) {
            self.borrow_log(pool);
        }
    }

    /// Borrows a log block where a tenant lends one.
    fn borrow_log(&mut self, pool: u32) {
        let pages = self.blocks.layout().pages;
        let cost = self.log().pool(pool).give_up_cost();
        let tenants = self.tenants.as_deref().expect("only tenants lend");
        let (group, borrower, count) = (pool as usize / tenants.len(), tenants.of_pool(pool), tenants.len());
        let first = group * count;
        // The last log block of a tenant stays its own.
        let free = |pool: usize| {
            let map = self.log().pool(pool as u32);
            if map.is_merging() { 0 } else { map.spare().min(map.room().saturating_sub(1)) }
        };
        let free: Vec<u32> = (first..first + count).map(free).collect();
        let tenants = self.tenants_mut();
        let Some(lender) = tenants.policy.lender(&tenants.books[group], &free, borrower) else { return };
        if free[lender] == 0 || !tenants.policy.admits(cost, pages) {
            return;
        }
        tenants.put_off[pool as usize] += u64::from(cost);
        tenants.books[group].lend(lender, borrower);
        tenants.counts[borrower].borrowed += 1;
        tenants.counts[lender].lent += 1;
        self.hand_log_over((first + lender) as u32, pool);
    }

    /// Demands a log block back that the owner of `pool` has lent; false when nothing is owed to it.
    fn demand_log(&mut self, pool: u32, cx: &mut Cx<'_>) -> bool {
        let tenants = self.tenants_mut();
        let (group, lender) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let Some(debtor) = tenants.books[group].largest_debtor(lender) else { return false };
        tenants.demands += 1;
        let keeps = tenants.planted.keeps_what_it_owes && tenants.demands % 2 == 1;
        let from = tenants.pool(group as u32, debtor);
        let cause = self.tenants_mut().writers[debtor];
        if self.log().pool(from).is_merging() && !keeps {
            // Begun while the drive was idle, and not for the demand.
            self.issue_merge(from, cause, cx);
        }
        if !self.may_give_log(from) && !keeps {
            let before = self.tenants_mut().counts[debtor].moved;
            self.tenants_mut().counts[debtor].forced += 1;
            self.log_mut().pool_mut(from).give_up_one();
            self.issue_merge(from, cause, cx);
            let tenants = self.tenants_mut();
            let moved = tenants.counts[debtor].moved - before;
            tenants.moved_most = tenants.moved_most.max(moved);
        }
        if keeps || !self.may_give_log(from) {
            self.tenants_mut().late += 1;
            return false;
        }
        self.give_log(from, pool);
        true
    }

    pub(super) fn may_give_log(&self, pool: u32) -> bool {
        let map = self.log().pool(pool);
        !map.is_merging() && map.spare() > 0
    }

    /// A log block goes back to the pool that it was lent from.
    pub(super) fn give_log(&mut self, from: u32, to: u32) {
        let tenants = self.tenants_mut();
        let (debtor, lender) = (tenants.of_pool(from), tenants.of_pool(to));
        let group = from as usize / tenants.len();
        let put_off = tenants.put_off[from as usize] / u64::from(tenants.debt(from)).max(1);
        tenants.put_off[from as usize] -= put_off;
        tenants.books[group].give_back(debtor, lender);
        let (account, moved) = (tenants.books[group].accounts()[lender], put_off as u32);
        if let Some(units) = tenants.policy.came_back(lender, &account, put_off as u32, moved) {
            tenants.books[group].set_contribution(lender, units);
        }
        self.hand_log_over(from, to);
    }

    fn hand_log_over(&mut self, from: u32, to: u32) {
        let block = self.log_mut().hand_over(from, to);
        self.log_mut().pool_mut(from).change_logs(-1);
        self.log_mut().pool_mut(to).change_logs(1);
        self.exec.hand_over(block, from, to);
    }

    /// A pool has merged: its owner may give a block back.
    pub(in crate::plan) fn log_was_merged(&mut self, pool: u32) {
        let Some(tenants) =
            self.tenants.as_deref_mut().filter(|_| self.map.log_blocks().is_some_and(|log| log.lends()))
        else {
            return;
        };
        if tenants.debt(pool) == 0 {
            return;
        }
        let gives = &mut tenants.gives_next[pool as usize];
        *gives = !*gives;
        if *gives || !tenants.policy.gives_back_at_erase() || !self.may_give_log(pool) {
            return;
        }
        let tenants = self.tenants_mut();
        let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let lender = tenants.books[group].largest_creditor(debtor).expect("it owes a tenant");
        let to = tenants.pool(group as u32, lender);
        self.give_log(pool, to);
    }

    /// A block that a pool has erased has come to its number of erases. Who has one less is as with other maps ([`ends`](super::ends)); where that is another
    /// tenant, a block of its takes this one's place. When it cannot be paid now the block stays in use, and is looked at again.
    pub(in crate::plan) fn retire_log(&mut self, pool: u32, number: u32) {
        let count = self.tenants_mut().len();
        let group = pool as usize / count;
        let block = self.log().block(pool, number);
        let plane = self.blocks.layout().plane_of_block(block);
        let good =
            self.blocks.layout().plane_blocks(plane).filter(|&block| !self.blocks.is_bad(block)).count()
                as u32;
        let tenants = self.tenants_mut();
        match payer(&tenants.books[group], &tenants.floors, good) {
            Payer::End => {
                self.blocks.end();
                self.attention = true;
                return;
            }
            Payer::Nobody => {
                let of_nobody =
                    |&block: &BlockId| self.log().pool_of(block) == NOBODY && !self.blocks.is_bad(block);
                let other = self.blocks.layout().plane_blocks(plane).find(of_nobody);
                let other = other.expect("what no tenant was given lies somewhere");
                self.log_mut().find_free(other, pool);
                self.exec.hand_over(other, pool, pool);
            }
            Payer::Tenant(tenant) => {
                let payer = self.tenants_mut().pool(group as u32, tenant);
                let account = self.tenants_mut().books[group].accounts()[tenant];
                if !self.may_give_log(payer) || account.allocated <= account.lent + 1 {
                    return;
                }
                let tenants = self.tenants_mut();
                let less = account.allocated - 1;
                let fewer =
                    tenants.policy.contribution(account.allocated) - tenants.policy.contribution(less);
                let contribution = account.contribution.saturating_sub(fewer).min(less);
                tenants.books[group].set_allocated(tenant, less, contribution);
                if payer != pool {
                    let other = self.log_mut().hand_over(payer, pool);
                    self.exec.hand_over(other, payer, pool);
                }
            }
        }
        if self.blocks.give_up(block) {
            self.log_mut().pool_mut(pool).region_mut().retire(number);
            self.log_mut().owned_by(block, NOBODY);
        }
    }

    /// Blocks that a pool was given when the drive was made.
    fn given_logs(&self, pool: u32) -> u32 {
        let is_good = |&number: &u32| !self.blocks.is_bad(self.log().block(pool, number));
        self.log().pool(pool).region().begins_with().filter(is_good).count() as u32
    }

    /// After a start: who has borrowed is who needs more blocks than it was given; the `erased` ones go to those that are entitled to them.
    pub(in crate::plan) fn settle_logs(&mut self, erased: &[BlockId]) {
        let count = self.tenants_mut().len();
        for group in 0..self.blocks.layout().planes as usize {
            // Those that have come to their number of erases come last.
            let of_group = |block: &&BlockId| self.blocks.layout().plane_of_block(**block) as usize == group;
            let mut erased: Vec<BlockId> = erased.iter().filter(of_group).copied().collect();
            erased.sort_by_key(|&block| self.blocks.is_spent(block));
            let mut erased = erased.into_iter();
            let pools: Vec<u32> = (0..count).map(|tenant| (group * count + tenant) as u32).collect();
            let map = |plan: &Self, pool: u32| {
                let map = plan.log().pool(pool);
                (map.region().good(), map.least_held())
            };
            let held: Vec<(u32, u32)> = pools.iter().map(|&pool| map(self, pool)).collect();
            let needed: Vec<u32> = held.iter().map(|&(held, least)| held.max(least)).collect();
            let given: Vec<u32> = pools.iter().map(|&pool| self.given_logs(pool)).collect();
            let books = &mut self.tenants_mut().books[group];
            let before: Vec<i64> =
                books.accounts().iter().map(|a| i64::from(a.borrowed) - i64::from(a.lent)).collect();
            books.forgive();
            for (tenant, &given) in given.iter().enumerate() {
                let contribution = books.accounts()[tenant].contribution;
                books.set_allocated(tenant, given, contribution.min(given));
            }
            let is_settled = books.settle(&needed);
            assert!(is_settled, "I-7: tenants need {needed:?} blocks of {:?}", books.accounts());
            let accounts = books.accounts().to_vec();
            for (tenant, &pool) in pools.iter().enumerate() {
                let account = accounts[tenant];
                let more = i64::from(account.borrowed) - i64::from(account.lent) - before[tenant];
                self.log_mut().pool_mut(pool).change_logs(more as i32);
                for _ in held[tenant].0..account.entitled() {
                    let block = erased.next().expect("I-7: as many blocks as tenants have");
                    self.log_mut().find_free(block, pool);
                }
            }
            // What nobody was given stays out, and is no unit of the group any more where it is worn out.
            for block in erased {
                if self.blocks.is_spent(block) {
                    self.blocks.give_up(block);
                }
            }
        }
        let tenants = self.tenants_mut();
        tenants.gives_next.fill(false);
        tenants.put_off.fill(0);
        self.exec.pools_are(self.map.log_blocks().expect("just looked").pools_of_blocks());
    }
}
