//! Units that wear out on a drive with tenants: who has one less.
//!
//! Erased units are all alike, so a unit that has come to its number of erases is nobody's in particular: whichever it is, one unit less is there. It
//! comes off, in this order: those that no tenant was given; then the tenant that has most beyond what its pages need, the first of equals. When nobody has any
//! beyond that the drive takes no more writes: the *end is everybody's*, for all have worn the same units. So the order says only whose spare
//! units go first, and how many units each still has follows from the number of bad ones alone: nothing of it is stored, and a start finds the same.
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
use crate::isolation::Books;
use crate::mapping::Mapping;
use crate::{BlockId, Lpn};
use nandu_base::{Op, ReqId, RequestTable};

/// Off whose units one comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Payer {
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

impl<M: Mapping, F: Flash> Planner<M, F> {
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

    fn payer_in(&mut self, group: u32) -> Payer {
        let good = self.blocks.good_blocks(group * self.blocks.pools_per_plane());
        let tenants = self.tenants_mut();
        payer(&tenants.books[group as usize], &tenants.floors, good)
    }

    /// Whether a pool can do with an erased unit less for good.
    fn can_pay(&mut self, pool: u32) -> bool {
        let (p, pages) = (self.blocks.planes[pool as usize], self.blocks.layout().pages);
        let tenants = self.tenants_mut();
        let account = tenants.books[pool as usize / tenants.len()].accounts()[tenants.of_pool(pool)];
        let has_one = p.free > self.host.urgent.max(1) && p.valid + pages <= p.valid_max;
        if !has_one || account.entitled() <= 1 || account.lent >= account.allocated {
            return false;
        }
        let debt = account.borrowed;
        debt == 0 || !self.tenants_mut().is_demanded && self.may_still_open(pool, debt) > 0
    }

    /// A tenant has a unit of a group less from here on.
    fn take_unit(&mut self, group: u32, tenant: usize) {
        let pages = self.blocks.layout().pages;
        let tenants = self.tenants_mut();
        let pool = tenants.pool(group, tenant);
        if tenants.planted.end_not_charged {
            return;
        }
        let account = tenants.books[group as usize].accounts()[tenant];
        let less = account.allocated - 1;
        let fewer = tenants.policy.contribution(account.allocated) - tenants.policy.contribution(less);
        let contribution = account.contribution.saturating_sub(fewer).min(less);
        tenants.books[group as usize].set_allocated(tenant, less, contribution);
        self.blocks.planes[pool as usize].valid_max -= pages;
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
}
