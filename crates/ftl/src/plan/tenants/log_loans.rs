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

use super::ends::Payer;
use super::{Flash, Planner, Tenants};
use crate::BlockId;
use crate::log_block::LogMap;
use crate::log_block::map::NOBODY;
use crate::mapping::Mapping;
use nandu_base::{Cx, TenantId};

impl Tenants {
    /// The pools of a drive that was made have so many good blocks: what is bad from the factory is nobody's.
    pub fn take_what_is_good(&mut self, map: &LogMap) {
        self.floors = vec![0; self.len()];
        for pool in 0..map.pools() as usize {
            let (group, tenant) = (pool / self.len(), pool % self.len());
            let map = map.pool(pool as u32);
            let good = map.region().good();
            self.books[group].set_allocated(tenant, good, self.policy.contribution(good));
            self.floors[tenant] = map.blocks_needed().max(self.floors[tenant]);
        }
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// A page of a pool is about to be written for `cause`: where a log block would be given up for it, one comes back or is borrowed.
    pub(in crate::plan) fn find_room_for_log(
        &mut self,
        pool: u32,
        page: u32,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) {
        if !self.log().moves_blocks() {
            return;
        }
        let tenants = self.tenants_mut();
        let tenant = tenants.of_pool(pool);
        (tenants.writers[tenant], tenants.wrote[tenant]) = (cause, true);
        if !self.log().pool(pool).wants_log(page) {
            return;
        }
        self.get_unit(pool, cx);
    }

    /// Merges what gives a block up at the least cost; false when the pool has nothing to merge.
    pub(super) fn give_log_up(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) -> bool {
        let has_begun = self.log_mut().pool_mut(pool).give_up_one();
        self.issue_merge(pool, cause, cx);
        has_begun
    }

    /// An erased block goes from one pool to another, and with it a log block.
    pub(super) fn move_log(&mut self, from: u32, to: u32) {
        let block = self.log_mut().hand_over(from, to);
        self.log_mut().pool_mut(from).change_logs(-1);
        self.log_mut().pool_mut(to).change_logs(1);
        self.exec.hand_over(block, from, to);
    }

    /// A pool has merged: its owner may give a block back.
    pub(in crate::plan) fn log_was_merged(&mut self, pool: u32) {
        if self.log().moves_blocks() && self.tenants_mut().debt(pool) > 0 {
            self.give_one_of_two(pool);
        }
    }

    /// A block that a pool has erased has come to its number of erases. Who has one less is as with other maps ([`ends`](super::ends)); where that is another
    /// tenant, a block of its takes this one's place. When it cannot be paid now the block stays in use, and is looked at again.
    pub(in crate::plan) fn retire_log(&mut self, pool: u32, number: u32) {
        let group = (pool as usize / self.tenants_mut().len()) as u32;
        let block = self.log().block(pool, number);
        match self.payer_in(group) {
            Payer::End => {
                self.blocks.end();
                self.attention = true;
                return;
            }
            Payer::Nobody => self.take_nobodys(pool),
            Payer::Tenant(tenant) => {
                let tenants = self.tenants_mut();
                let payer = tenants.pool(group, tenant);
                let account = tenants.books[group as usize].accounts()[tenant];
                if !self.may_give(payer) || account.allocated <= account.lent + 1 {
                    return;
                }
                self.take_unit(group, tenant);
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

    /// Blocks that a pool was given when the drive was made, or that are due to it where tenants come and go.
    fn given_logs(&self, pool: u32) -> u32 {
        let tenants = self.tenants.as_deref().expect("only asked for on a drive with tenants");
        if tenants.dealing.is_some() {
            return self.due_in(pool / tenants.len() as u32)[tenants.of_pool(pool)];
        }
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
                // A place without a tenant needs none.
                let least = if map.region().shape().logical > 0 { map.least_held() } else { 0 };
                (map.region().good(), least)
            };
            let held: Vec<(u32, u32)> = pools.iter().map(|&pool| map(self, pool)).collect();
            let given: Vec<u32> = pools.iter().map(|&pool| self.given_logs(pool)).collect();
            // A lender has kept its last log block.
            let kept = |(&pool, &given): (&u32, &u32)| {
                given.saturating_sub(self.log().own_logs(pool).saturating_sub(1))
            };
            let kept = pools.iter().zip(&given).map(kept);
            let needed: Vec<u32> =
                held.iter().zip(kept).map(|(&(held, least), kept)| held.max(least).max(kept)).collect();
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
                if more != 0 {
                    self.log_mut().pool_mut(pool).change_logs(more as i32);
                }
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
