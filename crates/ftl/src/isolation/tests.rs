//! The ledger against an obvious model: a list of loans.

use super::*;
use nandu_base::{Chosen, Ratio};
use proptest::prelude::*;

const POLICY: SharedSpace = SharedSpace {
    beta: Ratio::new(1, 4),
    limit: Ratio::new(2, 3),
    keep: 1,
    victim_valid_max: Ratio::new(1, 1),
    return_policy: ReturnPolicy::OnDemand,
};

/// The obvious model.
struct Model {
    allocated: Vec<u32>,
    /// Lender and borrower of each unit that is lent.
    loans: Vec<(usize, usize)>,
}

impl Model {
    fn lent(&self, tenant: usize) -> u32 {
        self.loans.iter().filter(|loan| loan.0 == tenant).count() as u32
    }

    fn borrowed(&self, tenant: usize) -> u32 {
        self.loans.iter().filter(|loan| loan.1 == tenant).count() as u32
    }

    /// Whoever may lend, sorted; the best first.
    fn lender(&self, free: &[u32], borrower: usize) -> Option<usize> {
        let others: u32 = (0..free.len()).filter(|&t| t != borrower).map(|t| self.allocated[t] / 4).sum();
        if self.lent(borrower) > 0 || self.borrowed(borrower) >= others * 2 / 3 {
            return None;
        }
        let mut may: Vec<usize> = (0..free.len())
            .filter(|&t| t != borrower && self.borrowed(t) == 0)
            .filter(|&t| self.lent(t) < self.allocated[t] / 4 && free[t] > 1)
            .collect();
        may.sort_by_key(|&t| (std::cmp::Reverse(free[t]), t));
        may.first().copied()
    }
}

proptest! {
    #[test]
    fn the_ledger_agrees_with_a_list_of_loans(
        allocated in prop::collection::vec(8u32..30, 2..5),
        steps in prop::collection::vec((0usize..5, 0u32..4), 1..120),
    ) {
        let tenants = allocated.len();
        let mut model = Model { allocated: allocated.clone(), loans: Vec::new() };
        let mut books = Books::new(allocated.clone(), |units| POLICY.contribution(units));
        let mut held = vec![0u32; tenants];
        let mut free = allocated.clone();
        for (tenant, what) in steps.into_iter().map(|(t, what)| (t % tenants, what)) {
            match what {
                0 | 1 if free[tenant] > 0 => {
                    free[tenant] -= 1;
                    held[tenant] += 1;
                }
                2 if held[tenant] > 0 => {
                    held[tenant] -= 1;
                    free[tenant] += 1;
                    let creditor = books.largest_creditor(tenant);
                    let want = (0..tenants)
                        .map(|l| (model.loans.iter().filter(|loan| **loan == (l, tenant)).count(), l))
                        .filter(|&(owed, _)| owed > 0)
                        .max_by_key(|&(owed, l)| (owed, std::cmp::Reverse(l)))
                        .map(|(_, l)| l);
                    prop_assert_eq!(creditor, want);
                    if let Some(lender) = creditor {
                        books.give_back(tenant, lender);
                        let at = model.loans.iter().position(|&loan| loan == (lender, tenant)).unwrap();
                        model.loans.swap_remove(at);
                        free[tenant] -= 1;
                        free[lender] += 1;
                    }
                }
                _ => {
                    let lender = POLICY.lender(&books, &free, tenant);
                    prop_assert_eq!(lender, model.lender(&free, tenant));
                    if let Some(lender) = lender {
                        books.lend(lender, tenant);
                        model.loans.push((lender, tenant));
                        free[lender] -= 1;
                        free[tenant] += 1;
                    }
                }
            }
            books.check(&held, &free).map_err(TestCaseError::fail)?;
            for t in 0..tenants {
                let account = books.accounts()[t];
                prop_assert_eq!((account.lent, account.borrowed), (model.lent(t), model.borrowed(t)));
            }
            // After a power cut only what is written counts, and the rest comes out even.
            let mut after = books.clone();
            prop_assert!(after.settle(&held), "{:?} hold {:?}", books.accounts(), held);
            let free: Vec<u32> =
                after.accounts().iter().zip(&held).map(|(account, &held)| account.entitled() - held).collect();
            after.check(&held, &free).map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn every_isolation_conforms() {
    for declared in POLICIES {
        for (draw, seed) in declared.draws.iter().flat_map(|draw| (1..=120).map(move |seed| (draw, seed))) {
            let options = toml::from_str(&draw.replace(", ", "\n")).expect("a drawn policy is TOML");
            let chosen = Chosen::<Isolations>::new(declared.name, options).expect(draw);
            conformance::run(chosen.options().expect("it is of this crate"), seed);
        }
    }
}

#[test]
fn a_unit_from_nowhere_is_noticed() {
    let books = Books::new(vec![8, 8], |units| POLICY.contribution(units));
    assert!(books.check(&[3, 8], &[5, 0]).is_ok());
    assert!(books.check(&[4, 8], &[5, 0]).is_err());
}
