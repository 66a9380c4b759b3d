//! Units that wear out on a drive with tenants: who has one less.
//!
//! Erased units are all alike, so a unit that has come to its number of erases is nobody's in particular: whichever it is, one unit less is there. It
//! comes off, in this order: those that no tenant was given; then the tenant that has most beyond what its pages need, the first of equals. When nobody has any
//! beyond that the drive takes no more writes: the *end is everybody's*, for all have worn the same units. So the order says only whose spare
//! units go first, and how many units each still has follows from the tenants there are and the number of bad ones alone ([`due`]): nothing of it is stored, and
//! a start finds the same.
//!
//! *Where tenants come and go* a deal brings each to what is due to it then: units that nobody has any more first go to those that had to do with fewer. A new tenant gets
//! what is nobody's, and nothing that others are short of. The end stays the end: a drive that has come to it deals no more.
//!
//! *When it cannot be paid now* (the tenant whose turn it is has no erased unit to spare, holds too much in this group, or owes so much that it could not give
//! back any more what it owes) the unit stays in use past its number and is looked at again when it is erased next.
//!
//! *Rejected*: the tenant that wore it out pays. Who that was is not known after a power cut without a record for each unit, and a unit that was worn by one
//! for long may end with another. What each has worn is counted ([`Counts::erases`](super::Counts)), and what its own share would last if only it wrote, is in
//! `tenant_N_lifetime_host_bytes`.
//!
//! Tenants with channels or dies of their own wear these alone: there each has *an end of its own*, after which it only reads while the others go on.
//!
//! Cost: a pass over the accounts for each unit that wears out.

use super::{Flash, Planner};
use crate::blocks::Share;
use crate::isolation::Books;
use crate::mapping::Mapping;
use crate::{BlockId, Lpn};
use nandu_base::{Op, ReqId, RequestTable};

/// Off whose units one comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Payer {
    /// Those that no tenant was given.
    Nobody,
    Tenant(usize),
    /// There are none to spare.
    End,
}

/// Whose turn it is in a group with so many good units.
fn payer(books: &Books, floors: &[u32], good: u32) -> Payer {
    let accounts = books.accounts();
    if accounts.iter().map(|account| account.allocated).sum::<u32>() < good {
        return Payer::Nobody;
    }
    let spare = |tenant: usize| accounts[tenant].allocated.saturating_sub(floors[tenant]);
    let most = (0..accounts.len()).max_by_key(|&tenant| (spare(tenant), std::cmp::Reverse(tenant)));
    most.filter(|&tenant| spare(tenant) > 0).map_or(Payer::End, Payer::Tenant)
}

/// What each tenant has in a group with so many good units: what it was made with, less what wear has taken.
fn due(shares: &[Share], floors: &[u32], good: u32) -> Vec<u32> {
    let mut books = Books::new(shares.iter().map(|share| share.blocks).collect(), |_| 0);
    let all = |books: &Books| books.accounts().iter().map(|account| account.allocated).sum::<u32>();
    while all(&books) > good {
        let Payer::Tenant(tenant) = payer(&books, floors, good) else { break };
        let less = books.accounts()[tenant].allocated - 1;
        books.set_allocated(tenant, less, 0);
    }
    books.accounts().iter().map(|account| account.allocated).collect()
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Good units of a group.
    pub(super) fn good_in(&self, group: u32) -> u32 {
        self.blocks.good_blocks(group * self.blocks.pools_per_plane())
    }

    /// Units of a group that are due to each tenant.
    pub(super) fn due_in(&self, group: u32) -> Vec<u32> {
        let tenants = self.tenants.as_deref().expect("only asked for on a drive with tenants");
        due(self.blocks.shares(), &tenants.floors, self.good_in(group))
    }

    /// Units of a group that are due to a tenant once it has this share.
    pub(super) fn due_with(&mut self, group: u32, tenant: usize, share: Share, floor: u32) -> u32 {
        let (mut shares, mut floors) = (self.blocks.shares().to_vec(), self.tenants_mut().floors.clone());
        (shares[tenant], floors[tenant]) = (share, floor);
        due(&shares, &floors, self.good_in(group))[tenant]
    }

    /// A deal has changed what is `due` to each: those that had fewer units than they were made with get what is nobody's now.
    pub(super) fn give_what_is_due(&mut self, group: u32, due: &[u32]) {
        for (tenant, &units) in due.iter().enumerate() {
            let tenants = self.tenants_mut();
            let pool = tenants.pool(group, tenant);
            let before = tenants.books[group as usize].accounts()[tenant].allocated;
            assert!(units >= before, "I-7: a deal takes from nobody else");
            self.change_units(group, tenant, units);
            self.deal_units(pool, i64::from(units - before));
        }
    }

    /// A tenant has so many units of a group from here on: what it contributes, and what it may hold, follow.
    fn change_units(&mut self, group: u32, tenant: usize, units: u32) {
        let pages = self.blocks.layout().pages;
        let tenants = self.tenants_mut();
        let pool = tenants.pool(group, tenant);
        let account = tenants.books[group as usize].accounts()[tenant];
        let contribution = (account.contribution + tenants.policy.contribution(units))
            .saturating_sub(tenants.policy.contribution(account.allocated))
            .min(units);
        tenants.books[group as usize].set_allocated(tenant, units, contribution);
        if self.map.log_blocks().is_none() {
            let p = &mut self.blocks.planes[pool as usize];
            p.valid_max = p.valid_max + units * pages - account.allocated * pages;
        }
    }

    /// A unit was erased: takes it out of use when it has come to its number of erases and somebody can do without.
    pub(in crate::plan) fn retire_tenants_unit(&mut self, unit: BlockId) {
        if self.blocks.shares().is_empty() || self.blocks.is_worn_out() || !self.blocks.is_at_its_end(unit) {
            return;
        }
        let group = self.blocks.layout().plane_of_block(unit);
        match self.payer_in(group) {
            Payer::Nobody => self.blocks.retire_erased(unit),
            Payer::End => self.blocks.end(),
            Payer::Tenant(tenant) => {
                let pool = self.tenants_mut().pool(group, tenant);
                if self.can_pay(pool) {
                    self.blocks.retire_erased(unit);
                    self.take_unit(group, tenant);
                    self.blocks.give_erased(pool, -1);
                }
            }
        }
    }

    pub(super) fn payer_in(&mut self, group: u32) -> Payer {
        let good = self.good_in(group);
        let tenants = self.tenants_mut();
        payer(&tenants.books[group as usize], &tenants.floors, good)
    }

    /// Whether a pool can do with an erased unit less for good.
    fn can_pay(&mut self, pool: u32) -> bool {
        let (p, pages) = (self.blocks.planes[pool as usize], self.blocks.layout().pages);
        let account = self.account_of(pool);
        let has_one = p.free > self.host.urgent.max(1) && p.valid + pages <= p.valid_max;
        if !has_one || account.entitled() <= 1 || account.lent >= account.allocated {
            return false;
        }
        let debt = account.borrowed;
        debt == 0 || !self.tenants_mut().is_demanded && self.may_still_open(pool, debt) > 0
    }

    /// A tenant has a unit of a group less from here on.
    pub(super) fn take_unit(&mut self, group: u32, tenant: usize) {
        let tenants = self.tenants_mut();
        if !tenants.planted.end_not_charged {
            let units = tenants.books[group as usize].accounts()[tenant].allocated;
            self.change_units(group, tenant, units - 1);
        }
    }

    /// At a start, before loans are settled: takes the erased units out of use that have come to their number, as far as what the tenants hold
    /// allows it; `held` units of each pool are written.
    pub(super) fn retire_at_start(&mut self, held: &[u32]) {
        if self.blocks.wear_rules().endurance == 0 {
            return;
        }
        let shares = self.blocks.shares().to_vec();
        let pages = self.blocks.layout().pages;
        self.tenants_mut().put_off.fill(0);
        for group in 0..self.blocks.layout().planes {
            for (tenant, share) in shares.iter().enumerate() {
                let tenants = self.tenants_mut();
                let contribution = tenants.policy.contribution(share.blocks);
                tenants.books[group as usize].forgive();
                tenants.books[group as usize].set_allocated(tenant, share.blocks, contribution);
            }
            let erased: Vec<BlockId> = self
                .blocks
                .free_blocks()
                .filter(|&unit| self.blocks.layout().plane_of_block(unit) == group)
                .collect();
            for unit in erased.into_iter().filter(|&unit| self.blocks.is_at_its_end(unit)).collect::<Vec<_>>()
            {
                match self.payer_in(group) {
                    Payer::Nobody => self.blocks.retire_erased(unit),
                    Payer::End => break,
                    Payer::Tenant(tenant) => {
                        let tenants = self.tenants_mut();
                        let pool = tenants.pool(group, tenant);
                        let allocated = tenants.books[group as usize].accounts()[tenant].allocated;
                        let p = &self.blocks.planes[pool as usize];
                        if allocated < held[pool as usize] + 3 || p.valid + pages > p.valid_max {
                            break;
                        }
                        self.blocks.retire_erased(unit);
                        self.take_unit(group, tenant);
                    }
                }
            }
        }
    }

    /// Whether a request changes what a worn out drive, or a tenant with worn out channels or dies of its own, keeps as it is.
    pub fn is_past_its_end(&self, id: ReqId, requests: &RequestTable) -> bool {
        let request = &requests[id];
        if !matches!(request.op, Op::Write | Op::Trim | Op::WriteZeroes) {
            return false;
        }
        let Some(tenants) = self.tenants.as_deref().filter(|_| !self.blocks.is_worn_out()) else {
            return self.blocks.is_worn_out();
        };
        let pages = self.host.page.pages(request.offset, request.len);
        let mut first = pages.first;
        while first < pages.end {
            let owner = tenants.of(Lpn(first));
            if self.blocks.has_owner_ended(owner) {
                return true;
            }
            first = tenants.table.run_end(Lpn(first));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn nobodys_units_go_first_then_those_of_who_has_most_to_spare() {
        let mut books = Books::new(vec![10, 14], |_| 0);
        let floors = [8, 9];
        let mut paid = Vec::new();
        for good in (0..=26).rev() {
            match payer(&books, &floors, good) {
                Payer::Nobody => paid.push(9),
                Payer::Tenant(tenant) => {
                    let account = books.accounts()[tenant];
                    books.set_allocated(tenant, account.allocated - 1, 0);
                    paid.push(tenant);
                }
                Payer::End => break,
            }
        }
        // Two are nobody's; then 2 and 5 to spare.
        assert_eq!(paid, [9, 9, 1, 1, 1, 0, 1, 0, 1]);
    }

    /// What is due follows from shares and good units; who goes or shrinks takes nothing from the others.
    #[test]
    fn a_deal_takes_no_units_from_the_others() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let tenants = 2 + rng.below(4) as usize;
            let mut draw = |most: u64| rng.below(most) as u32;
            let reserved = 3 + draw(3);
            let share = |blocks| Share { blocks, reserved };
            let shares: Vec<Share> = (0..tenants).map(|_| share(reserved + 1 + draw(20))).collect();
            let floors: Vec<u32> =
                shares.iter().map(|s| s.blocks - draw(u64::from(s.blocks - reserved))).collect();
            let (most, least) =
                (shares.iter().map(|s| s.blocks).sum::<u32>() + 3, floors.iter().sum::<u32>());
            let mut books = Books::new(shares.iter().map(|s| s.blocks).collect(), |_| 0);
            for good in (least..=most).rev() {
                let before = due(&shares, &floors, good);
                let given: Vec<u32> = books.accounts().iter().map(|account| account.allocated).collect();
                assert_eq!(before, given, "seed {seed}");
                assert!(before.iter().zip(&floors).all(|(due, floor)| due >= floor), "seed {seed}");
                // One keeps a part of its pages, or none: its floor falls by no more than its share.
                let (tenant, mut fewer, mut lower) =
                    (draw(tenants as u64) as usize, shares.clone(), floors.clone());
                let less = draw(u64::from(shares[tenant].blocks) + 1);
                fewer[tenant].blocks -= less;
                lower[tenant] -= (less - draw(u64::from(less) + 1)).min(lower[tenant]);
                lower[tenant] = lower[tenant].min(fewer[tenant].blocks);
                let after = due(&fewer, &lower, good);
                let kept = (0..tenants).all(|other| other == tenant || after[other] >= before[other]);
                assert!(kept, "seed {seed}: {before:?} with {shares:?}, then {after:?} with {fewer:?}");
                if let Payer::Tenant(tenant) = payer(&books, &floors, good) {
                    books.set_allocated(tenant, given[tenant] - 1, 0);
                }
            }
        }
    }
}
