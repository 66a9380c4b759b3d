//! A contribution that follows what lending is worth: beta by marginal utility (W3-3).
//!
//! The paper fixes beta for all tenants and all time. Here each tenant's contribution grows by a unit while its loans spare others more moves
//! than they cost it, and shrinks by one otherwise. Own design, after the equaliser of the adaptive cache in "Combining Segment
//! Prefetching and Adaptive Cache Culling" (its rule dP = alpha x dC), with pages that collection moves as the common coin:
//!
//! - *Spared*: when a unit is lent, the borrower need not clear its emptiest unit now, of which so many pages are valid; but it has to clear one to give
//!   the unit back. What lending spares is what has become invalid meanwhile, and that is known when the unit comes back: until then
//!   clearing is only put off, and counts for nothing.
//! - *Cost*: a tenant with less spare space collects more, to first order in inverse proportion to the spare units it has; so of each page
//!   that a lender moves, the part lent / (lent + spare) is due to its loans.
//!
//! When the two together come to a unit's pages there is enough to judge by: the contribution changes by one, and both are halved. It stays
//! between one unit and `most`, and never falls below what is lent.
//!
//! Everything else is as in [`super::SharedSpace`]. RAM: 24 bytes per tenant. Cost: a few additions for each unit that comes back and each page
//! that a lender moves.

use super::{Account, Books, Isolation, SharedSpace, Space};
use nandu_base::Ratio;

/// What a tenant's loans were worth lately, in pages.
#[derive(Clone, Copy, Default, Debug)]
struct Worth {
    spared: u64,
    /// In 1/1024 of a page.
    cost: u64,
    contribution: u32,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Adaptive {
    base: SharedSpace,
    /// Share of its units that a tenant contributes at most.
    most: Ratio,
    pages: u32,
    worth: Vec<Worth>,
}

const PARTS: u64 = 1024;

impl Adaptive {
    /// Begins with the contributions of `base` in units of `pages` pages, for so many tenants.
    pub fn new(base: SharedSpace, most: Ratio, pages: u32, tenants: usize) -> Adaptive {
        Adaptive { base, most, pages, worth: vec![Worth::default(); tenants] }
    }

    fn judge(&mut self, tenant: usize, account: &Account) {
        let worth = &mut self.worth[tenant];
        if worth.spared + worth.cost / PARTS < u64::from(self.pages) {
            return;
        }
        let most = (self.most.of(u64::from(account.allocated)) as u32).max(1);
        worth.contribution = match worth.spared * PARTS > worth.cost {
            true => (account.contribution + 1).min(most),
            false => account.contribution.saturating_sub(1).max(1),
        };
        worth.contribution = worth.contribution.max(account.lent);
        worth.spared /= 2;
        worth.cost /= 2;
    }
}

impl Isolation for Adaptive {
    fn shares(&self, space: &Space) -> Vec<u32> {
        self.base.shares(space)
    }

    fn contribution(&self, allocated: u32) -> u32 {
        self.base.contribution(allocated).max(1)
    }

    fn lender(&self, books: &Books, free: &[u32], borrower: usize) -> Option<usize> {
        self.base.lender(books, free, borrower)
    }

    fn admits(&self, valid: u32, pages: u32) -> bool {
        self.base.admits(valid, pages)
    }

    fn demands_when_low(&self) -> bool {
        self.base.demands_when_low()
    }

    fn gives_back_at_erase(&self) -> bool {
        self.base.gives_back_at_erase()
    }

    fn came_back(&mut self, lender: usize, account: &Account, put_off: u32, moved: u32) -> Option<u32> {
        self.worth[lender].contribution = account.contribution;
        self.worth[lender].spared += u64::from(put_off.saturating_sub(moved));
        self.judge(lender, account);
        Some(self.worth[lender].contribution)
    }

    fn lender_moved(&mut self, lender: usize, account: &Account, spare: u32) -> Option<u32> {
        let all = u64::from(account.lent) + u64::from(spare);
        self.worth[lender].contribution = account.contribution;
        self.worth[lender].cost += PARTS * u64::from(account.lent) / all.max(1);
        self.judge(lender, account);
        Some(self.worth[lender].contribution)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReturnPolicy;
    use super::*;

    fn policy() -> Adaptive {
        let base = SharedSpace {
            beta: Ratio::new(1, 10),
            limit: Ratio::new(1, 1),
            keep: 1,
            victim_valid_max: Ratio::new(1, 1),
            return_policy: ReturnPolicy::AtErase,
        };
        Adaptive::new(base, Ratio::new(1, 2), 64, 2)
    }

    #[test]
    fn a_contribution_that_spares_more_than_it_costs_grows_to_its_bound() {
        let (mut policy, mut account) =
            (policy(), Account { allocated: 40, contribution: 4, lent: 1, borrowed: 0 });
        for _ in 0..100 {
            account.contribution = policy.came_back(0, &account, 48, 8).unwrap();
        }
        assert_eq!(account.contribution, 20);
    }

    #[test]
    fn clearing_that_was_only_put_off_counts_for_nothing() {
        let (mut policy, mut account) =
            (policy(), Account { allocated: 40, contribution: 9, lent: 1, borrowed: 0 });
        for _ in 0..10_000 {
            account.contribution = policy.came_back(0, &account, 40, 40).unwrap();
            account.contribution = policy.lender_moved(0, &account, 3).unwrap();
        }
        assert_eq!(account.contribution, 1);
    }

    #[test]
    fn one_that_costs_more_shrinks_to_what_is_lent() {
        let (mut policy, mut account) =
            (policy(), Account { allocated: 40, contribution: 9, lent: 3, borrowed: 0 });
        for _ in 0..10_000 {
            account.contribution = policy.lender_moved(0, &account, 1).unwrap();
        }
        assert_eq!(account.contribution, 3);
        // A loan beside a lot of spare space costs next to nothing.
        let before = policy.worth[0].cost;
        policy.lender_moved(0, &account, 2000);
        assert!(policy.worth[0].cost - before <= 2);
    }
}
