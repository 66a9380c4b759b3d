//! What any isolation must hold, whatever it decides: for the policies here and for those of other crates.
//!
//! Tenants of drawn sizes use up units, erase some, borrow and give back, as a drive would let them. The units that a policy
//! deals out are there, nobody contributes more than it has, and a lender is one that may lend: another tenant with an erased
//! unit, which has borrowed nothing and lent less than it contributes, to one that has lent nothing. Of more units nobody
//! contributes less.

use super::{AnyIsolation, Books, Given, Gives, Isolation, Space};
use nandu_base::Rng;

/// Holds the policy of `options` to the rules, with tenants and steps drawn from `seed`.
///
/// # Panics
/// It breaks one; the message says which, and names the seed.
pub fn run(options: &dyn AnyIsolation, seed: u64) {
    if let Err(error) = options.check() {
        panic!("seed {seed}: {options:?} cannot be: {error}");
    }
    if options.gives() != Gives::Units {
        assert!(
            !options.lends() && !options.may_be_dealt(),
            "{options:?}: only units are lent, and dealt to who comes"
        );
        return;
    }
    let mut rng = Rng::new(seed);
    let tenants = rng.between(1, 6) as usize;
    let (pages, groups) = (1 << rng.between(2, 7), rng.between(1, 8) as u32);
    let row = pages * groups;
    let sizes: Vec<u32> = (0..tenants).map(|_| row * rng.between(2, 60) as u32).collect();
    // Some of the drive belongs to nobody in half of the cases.
    let logical = sizes.iter().sum::<u32>() + row * (rng.below(2) * rng.between(1, 40)) as u32;
    let units = logical / row + rng.between(4, 40) as u32 * tenants as u32;
    let weights = (0..tenants).map(|_| rng.between(1, 5) as u32).collect();
    let space = Space { units, pages, groups, logical, sizes: sizes.clone(), weights };
    let mut policy = options.build(Given { pages, places: tenants, clears_from: rng.between(1, 4) as u32 });
    let shares = policy.shares(&space);
    assert_eq!(shares.len(), tenants, "seed {seed}: {options:?} deals to each tenant");
    let sum: u64 = shares.iter().map(|&units| u64::from(units)).sum();
    assert!(sum <= u64::from(units), "seed {seed}: {options:?} deals {sum} units out of {units}");
    let falls = (1..units).find(|&units| policy.contribution(units) < policy.contribution(units - 1));
    assert!(
        falls.is_none(),
        "seed {seed}: {options:?} contributes less of {falls:?} units than of one fewer"
    );
    let drive = Ledger { books: Books::new(shares.clone(), |units| policy.contribution(units)), seed };
    drive.run(options, &mut *policy, &shares, pages, &mut rng);
}

/// The units of tenants.
struct Ledger {
    books: Books,
    seed: u64,
}

impl Ledger {
    fn run(
        mut self,
        options: &dyn AnyIsolation,
        policy: &mut dyn Isolation,
        shares: &[u32],
        pages: u32,
        rng: &mut Rng,
    ) {
        let seed = self.seed;
        for (account, &units) in self.books.accounts().iter().zip(shares) {
            let most = if options.lends() { units } else { 0 };
            assert!(
                account.contribution <= most,
                "seed {seed}: {options:?} contributes {} of {units} units",
                account.contribution
            );
        }
        let (mut free, mut held) = (shares.to_vec(), vec![0; shares.len()]);
        for _ in 0..400 {
            let tenant = rng.below(shares.len() as u64) as usize;
            match rng.below(4) {
                0 | 1 if free[tenant] > 0 => {
                    free[tenant] -= 1;
                    held[tenant] += 1;
                }
                2 if held[tenant] > 0 => {
                    held[tenant] -= 1;
                    free[tenant] += 1;
                    self.may_give_back(tenant, policy, &mut free, pages, rng);
                }
                _ if policy.admits(rng.below(u64::from(pages) + 1) as u32, pages) => {
                    self.may_borrow(tenant, options, policy, &mut free);
                }
                _ => {}
            }
            if let Err(why) = self.books.check(&held, &free) {
                panic!("seed {seed}: {options:?}: {why}");
            }
        }
    }

    fn may_give_back(
        &mut self,
        tenant: usize,
        policy: &mut dyn Isolation,
        free: &mut [u32],
        pages: u32,
        rng: &mut Rng,
    ) {
        let Some(lender) = self.books.largest_creditor(tenant) else { return };
        if !policy.gives_back_at_erase() && rng.below(2) == 0 {
            return;
        }
        self.books.give_back(tenant, lender);
        free[tenant] -= 1;
        free[lender] += 1;
        let put_off = rng.below(u64::from(pages) + 1) as u32;
        let moved = rng.below(u64::from(pages) + 1) as u32;
        for back in [true, false] {
            let account = self.books.accounts()[lender];
            let changed = match back {
                true => policy.came_back(lender, &account, put_off, moved),
                false => policy.lender_moved(lender, &account, free[lender]),
            };
            let Some(contribution) = changed else { continue };
            self.books.set_contribution(lender, contribution);
        }
    }

    fn may_borrow(
        &mut self,
        tenant: usize,
        options: &dyn AnyIsolation,
        policy: &dyn Isolation,
        free: &mut [u32],
    ) {
        let seed = self.seed;
        let Some(lender) = policy.lender(&self.books, free, tenant) else { return };
        assert!(options.lends(), "seed {seed}: {options:?} lends, and does not say so");
        let accounts = self.books.accounts();
        let (from, to) = (&accounts[lender], &accounts[tenant]);
        let may = lender != tenant && free[lender] > 0 && from.borrowed == 0 && from.lent < from.contribution;
        assert!(may, "seed {seed}: {options:?} lets {lender} lend, which cannot: {from:?}");
        assert!(to.lent == 0, "seed {seed}: {options:?} lends to {tenant}, which has lent itself: {to:?}");
        self.books.lend(lender, tenant);
        free[lender] -= 1;
        free[tenant] += 1;
    }
}
