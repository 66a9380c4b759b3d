//! The ledger of the space manager: what each tenant was given, contributes, has lent and has borrowed, in one group of planes.

/// What a tenant has in units.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// Given to it.
    pub allocated: u32,
    /// Of these, those that it may lend.
    pub contribution: u32,
    /// Lent to others now.
    pub lent: u32,
    /// Borrowed from others now.
    pub borrowed: u32,
}

impl Account {
    /// Units that it may hold now, written and erased.
    pub fn entitled(&self) -> u32 {
        self.allocated + self.borrowed - self.lent
    }
}

/// All accounts, and who owes whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Books {
    accounts: Vec<Account>,
    /// Units that `debts[borrower * tenants + lender]` has to give back.
    debts: Vec<u32>,
}

impl Books {
    /// Accounts of tenants with these units, of which `contribution` says how many may be lent.
    pub fn new(allocated: Vec<u32>, contribution: impl Fn(u32) -> u32) -> Books {
        let tenants = allocated.len();
        let account =
            |allocated| Account { allocated, contribution: contribution(allocated), lent: 0, borrowed: 0 };
        Books { accounts: allocated.into_iter().map(account).collect(), debts: vec![0; tenants * tenants] }
    }

    /// The accounts, by tenant.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    fn debt(&mut self, borrower: usize, lender: usize) -> &mut u32 {
        let tenants = self.accounts.len();
        &mut self.debts[borrower * tenants + lender]
    }

    /// Units that `borrower` owes `lender`.
    pub fn owes(&self, borrower: usize, lender: usize) -> u32 {
        self.debts[borrower * self.accounts.len() + lender]
    }

    /// Says what a tenant contributes from here on: at least what it has lent, at most what it was given.
    pub fn set_contribution(&mut self, tenant: usize, units: u32) {
        let account = &mut self.accounts[tenant];
        account.contribution = units.min(account.allocated).max(account.lent);
    }

    /// A tenant has so many units from here on, and contributes so many, at least what it has lent.
    pub fn set_allocated(&mut self, tenant: usize, allocated: u32, contribution: u32) {
        let account = &mut self.accounts[tenant];
        assert!(allocated + account.borrowed >= account.lent, "I-7: what was lent is not there");
        account.allocated = allocated;
        account.contribution = contribution.max(account.lent);
    }

    /// A unit goes from `lender` to `borrower`.
    pub fn lend(&mut self, lender: usize, borrower: usize) {
        self.accounts[lender].lent += 1;
        self.accounts[borrower].borrowed += 1;
        *self.debt(borrower, lender) += 1;
    }

    /// A unit goes back. It must be owed.
    pub fn give_back(&mut self, borrower: usize, lender: usize) {
        assert!(self.owes(borrower, lender) > 0, "I-7: only what was borrowed is given back");
        self.accounts[lender].lent -= 1;
        self.accounts[borrower].borrowed -= 1;
        *self.debt(borrower, lender) -= 1;
    }

    /// The tenant that owes `lender` the most, the first of equals.
    pub fn largest_debtor(&self, lender: usize) -> Option<usize> {
        let debtors = (0..self.accounts.len()).filter(|&borrower| self.owes(borrower, lender) > 0);
        debtors.max_by_key(|&borrower| (self.owes(borrower, lender), std::cmp::Reverse(borrower)))
    }

    /// The tenant that `borrower` owes the most, the first of equals.
    pub fn largest_creditor(&self, borrower: usize) -> Option<usize> {
        let creditors = (0..self.accounts.len()).filter(|&lender| self.owes(borrower, lender) > 0);
        creditors.max_by_key(|&lender| (self.owes(borrower, lender), std::cmp::Reverse(lender)))
    }

    /// Forgets all loans, before they are settled anew.
    pub fn forgive(&mut self) {
        self.debts.fill(0);
        self.accounts.iter_mut().for_each(|account| (account.lent, account.borrowed) = (0, 0));
    }

    /// Settles loans anew after a power cut: `held` units of each tenant are written. Who holds more than it was given has borrowed the
    /// rest, from those that hold least of theirs. False when nobody can have lent it.
    pub fn settle(&mut self, held: &[u32]) -> bool {
        self.forgive();
        for borrower in 0..held.len() {
            for _ in self.accounts[borrower].allocated..held[borrower] {
                let unused = |tenant: usize| {
                    let account = &self.accounts[tenant];
                    account.allocated.saturating_sub(held[tenant] + account.lent)
                };
                let may = |&lender: &usize| lender != borrower && unused(lender) > 0;
                // A contribution that had grown is not known any more.
                let key = |&lender: &usize| {
                    let account = &self.accounts[lender];
                    (account.lent < account.contribution, unused(lender), std::cmp::Reverse(lender))
                };
                let lender = (0..held.len()).filter(may).max_by_key(key);
                let Some(lender) = lender else { return false };
                self.lend(lender, borrower);
                let account = &mut self.accounts[lender];
                account.contribution = account.contribution.max(account.lent);
            }
        }
        true
    }

    /// I-7: units that were given out are held by somebody, loans add up, and nobody lends more than it contributes. `held` and
    /// `free` have each tenant's written and erased units.
    pub fn check(&self, held: &[u32], free: &[u32]) -> Result<(), String> {
        for (tenant, account) in self.accounts.iter().enumerate() {
            let Account { contribution, lent, borrowed, .. } = *account;
            if held[tenant] + free[tenant] != account.entitled() {
                return Err(format!(
                    "tenant {tenant} holds {} written and {} erased units of {}",
                    held[tenant],
                    free[tenant],
                    account.entitled()
                ));
            }
            let owed: u32 = (0..self.accounts.len()).map(|other| self.owes(other, tenant)).sum();
            let owes: u32 = (0..self.accounts.len()).map(|other| self.owes(tenant, other)).sum();
            if owed != lent || owes != borrowed || lent > contribution || self.owes(tenant, tenant) > 0 {
                return Err(format!(
                    "tenant {tenant} has lent {lent} of {contribution} units ({owed} are owed) and borrowed {borrowed} ({owes} are \
                     owed)"
                ));
            }
        }
        Ok(())
    }
}
