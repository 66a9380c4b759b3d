//! Shared space: tenants lend erased units to one that would have to collect.
//!
//! Kim and Kwak (2019), section IV and equation (1): each tenant contributes a share beta of the units it was given, s = sum of u_n x
//! beta (S3-11), and a tenant that has no erased unit of its own takes one from the shared ones before it collects. So collection
//! comes later, when more pages of its units are invalid (S3-16). Units that no tenant was given are never lent (S3-13).
//!
//! The paper does not say what protects the lender. Ours, each a knob:
//!
//! - *What is lent* (O3-4, O3-7): erased units only, up to the contribution, and only while the lender keeps `keep` erased units, by default so
//!   many that lending never starts its collection. With `reserve_min = 1` it is the paper's reading.
//! - *Whether a pool is set aside* (S3-11, O3-4): equation (1) can be read as the most that may be lent, or as units that are nobody's own any more. By
//!   default it is a claim: a lender uses all of its units, and what it has beyond `keep` can be lent. With `pool = "reserved"` a tenant begins to clear while it
//!   still has the units that it contributes and has not lent, so they lie erased for whoever asks, and it writes with that much less spare space
//!   all the time; it uses them itself only where the host would wait for an erased unit. Who has too few units for that is refused.
//! - *To whom*: one who borrows has lent nothing, and one who lends has borrowed nothing. The tenant with the most erased units
//!   lends, the first of equals.
//! - *At which cost*: a unit that comes back is cleared for it, and clearing one of which a share v is valid yields 1 - v of a unit, so that
//!   giving one back takes 1 / (1 - v) of them. `victim_valid_max` is the largest v of its emptiest unit with which one may borrow; 1, the default, is the
//!   paper, which lends to anybody.
//! - *How much* (O3-4): up to `limit` of what all others contribute, and never beyond what can be given back for one forced
//!   collection each ([`super::room`]).
//! - *When it comes back* (O3-5): on demand, or also of every two units that the borrower erases one: what it gives back it must clear anew, so
//!   paying back each one it would repay all its loans at once, and everybody on its dies would wait. A lender that runs low demands what it has lent
//!   before it borrows or collects. With `Never`, which is what the paper says, it collects instead, and has a unit back only where it
//!   could do nothing without. One that has lent its spare units (`reserve_min = 1`, a contribution near the spare factor) then clears units that gain
//!   a page or two, and the run takes hours. The drive may also let idle borrowers clear units and give them back.
//!
//! Erased units are all alike: the one that comes back is whichever is erased, and it is erased by the borrower, so nobody finds
//! another's data in it, and its wear is counted for the borrower (W3-5, W3-6).
//!
//! Cost: one pass over the tenants for each unit that is opened while erased ones are few.

use super::{Adaptive, Books, Given, Isolation, IsolationOptions, Space, in_proportion};
use nandu_base::{BuildError, Declared, Ratio, Span, options};

/// Options of `shared-space`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedSpaceConfig {
    /// Share of its units that each contributes.
    #[option(default = Ratio::new(1, 10), above = Ratio::ZERO, below = Ratio::new(1, 1))]
    pub contribution: Ratio,
    /// Share of its units that each contributes at most, where its contribution follows what lending is worth; it begins with
    /// `contribution`.
    #[option(unset = "`contribution`, as in the paper", above = Ratio::ZERO, below = Ratio::new(1, 1), also = "at least `contribution`")]
    pub contribution_max: Option<Ratio>,
    /// Share of what the others contribute that one may borrow.
    #[option(default = Ratio::new(1, 1), range = ..=Ratio::new(1, 1))]
    pub borrow_limit: Ratio,
    /// What a contribution is.
    #[option(default)]
    pub pool: Pool,
    /// Erased units that a lender keeps.
    #[option(unset = "so many that lending begins no collection", range = 1..)]
    pub reserve_min: Option<u32>,
    /// Largest share of valid pages in the emptiest unit of one who borrows: it clears such units for each that it gives back.
    #[option(default = Ratio::new(1, 1), note = "anybody, as in the paper", above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub victim_valid_max: Ratio,
    /// When a borrowed unit comes back.
    #[option(default)]
    pub return_policy: ReturnPolicy,
    /// Share of the contributions: when less is left to lend, who owes units and is idle clears some and gives them back.
    #[option(default = Ratio::ZERO, off = "never", range = ..=Ratio::new(1, 1))]
    pub return_pool_below: Ratio,
    /// How long no request must have come for a tenant's range before the tenant counts as idle.
    #[option(default = Span::from_ms(5), above = Span::ZERO)]
    pub return_idle_after: Span,
}

/// When a borrowed unit comes back.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReturnPolicy {
    /// Every second unit that the borrower erases.
    AtErase,
    /// When the lender runs low.
    #[default]
    OnDemand,
    /// When the lender has nothing left to clear, or changes its size: the paper has no way back. A lender without spare units may move
    /// nearly a whole unit for each page that it writes.
    Never,
}

/// What a contribution is.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pool {
    /// A bound on what is lent: a tenant writes to all of its units.
    #[default]
    Claim,
    /// Units that a tenant leaves erased for others, unless its host would wait.
    Reserved,
}

impl Declared for SharedSpaceConfig {
    const NAME: &'static str = "shared-space";
    const SUMMARY: &'static str = "As `vssd`, and erased units are lent to who would have to collect.";
    const SOURCE: &'static str = "Kim and Kwak 2019, section IV";
    const DRAWS: &'static [&'static str] = &[
        "",
        "contribution = \"1/4\", reserve_min = 1, return_policy = \"at-erase\"",
        "contribution = \"1/2\", contribution_max = \"19/20\", victim_valid_max = \"1/2\"",
        "contribution = \"9/10\", reserve_min = 1, return_policy = \"never\"",
        "contribution = \"1/2\", reserve_min = 1, return_pool_below = \"1/2\", return_idle_after = \"1 ms\"",
    ];
}

impl IsolationOptions for SharedSpaceConfig {
    fn may_be_dealt(&self) -> bool {
        true
    }

    fn lends(&self) -> bool {
        true
    }

    fn returns_while_idle(&self) -> Option<(Ratio, Span)> {
        (self.return_pool_below.num > 0).then_some((self.return_pool_below, self.return_idle_after))
    }

    fn reserves(&self) -> Option<Ratio> {
        (self.pool == Pool::Reserved).then(|| self.contribution_max.unwrap_or(self.contribution))
    }

    fn check(&self) -> Result<(), BuildError> {
        let above = |a: Ratio, b: Ratio| {
            u128::from(a.num) * u128::from(b.den) > u128::from(b.num) * u128::from(a.den)
        };
        let is_unused = self.return_idle_after != SharedSpaceConfig::default().return_idle_after;
        if self.returns_while_idle().is_none() && is_unused {
            let why =
                "no unit comes back because a tenant is idle: give `return_pool_below` too, or leave it out";
            return Err(BuildError::at("isolation.return_idle_after", why));
        }
        match self.contribution_max.filter(|most| above(self.contribution, *most)) {
            None => Ok(()),
            Some(most) => {
                let why =
                    format!("{}/{} is less than `contribution`: it is at least that", most.num, most.den);
                Err(BuildError::at("isolation.contribution_max", why))
            }
        }
    }

    fn build(&self, given: Given) -> Box<dyn Isolation> {
        let fixed = SharedSpace {
            beta: self.contribution,
            limit: self.borrow_limit,
            keep: self.reserve_min.unwrap_or(match self.pool {
                Pool::Claim => given.clears_from + 2,
                // What it contributes lies beyond what it begins to clear with.
                Pool::Reserved => 1,
            }),
            victim_valid_max: self.victim_valid_max,
            return_policy: self.return_policy,
        };
        match self.contribution_max {
            None => Box::new(fixed),
            Some(most) => Box::new(Adaptive::new(fixed, most, given.pages, given.places)),
        }
    }
}

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct SharedSpace {
    /// Share of its units that each tenant contributes.
    pub beta: Ratio,
    /// Share of what the others contribute that a tenant may borrow.
    pub limit: Ratio,
    /// Erased units that a lender keeps, at least 1.
    pub keep: u32,
    /// Largest share of valid pages in the emptiest unit of one who borrows.
    pub victim_valid_max: Ratio,
    /// When a borrowed unit comes back.
    pub return_policy: ReturnPolicy,
}

/// Equation (1) of the paper: what all tenants together share.
pub fn shared(allocated: &[u64], beta: Ratio) -> u64 {
    allocated.iter().map(|&units| beta.of(units)).sum()
}

impl Isolation for SharedSpace {
    fn shares(&self, space: &Space) -> Vec<u32> {
        in_proportion(space)
    }

    fn contribution(&self, allocated: u32) -> u32 {
        self.beta.of(u64::from(allocated)) as u32
    }

    fn lender(&self, books: &Books, free: &[u32], borrower: usize) -> Option<usize> {
        let accounts = books.accounts();
        let others: u32 =
            accounts.iter().map(|a| a.contribution).sum::<u32>() - accounts[borrower].contribution;
        let most = self.limit.of(u64::from(others)) as u32;
        if accounts[borrower].lent > 0 || accounts[borrower].borrowed >= most {
            return None;
        }
        let may_lend = |&tenant: &usize| {
            let account = &accounts[tenant];
            tenant != borrower
                && account.borrowed == 0
                && account.lent < account.contribution
                && free[tenant] > self.keep
        };
        (0..accounts.len()).filter(may_lend).max_by_key(|&tenant| (free[tenant], std::cmp::Reverse(tenant)))
    }

    fn admits(&self, valid: u32, pages: u32) -> bool {
        u64::from(valid) * self.victim_valid_max.den <= u64::from(pages) * self.victim_valid_max.num
    }

    fn demands_when_low(&self) -> bool {
        self.return_policy != ReturnPolicy::Never
    }

    fn gives_back_at_erase(&self) -> bool {
        self.return_policy == ReturnPolicy::AtErase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: SharedSpace = SharedSpace {
        beta: Ratio::new(1, 10),
        limit: Ratio::new(1, 1),
        keep: 1,
        victim_valid_max: Ratio::new(1, 1),
        return_policy: ReturnPolicy::AtErase,
    };

    #[test]
    fn who_would_repay_dearly_is_not_admitted() {
        let half = SharedSpace { victim_valid_max: Ratio::new(1, 2), ..POLICY };
        assert!(half.admits(32, 64) && !half.admits(33, 64));
        assert!(POLICY.admits(64, 64), "the paper lends to anybody");
    }

    #[test]
    fn equation_1_gives_the_8_gb_of_the_example() {
        // C3-6: 40, 20 and 20 GB, beta 10 %; the 20 GB that nobody has stay out.
        assert_eq!(shared(&[40, 20, 20], Ratio::new(1, 10)), 8);
        assert_eq!([40, 20, 20].map(|units| POLICY.contribution(units)), [4, 2, 2]);
    }

    #[test]
    fn a_free_block_of_another_defers_the_collection_of_block_0() {
        // C3-5, figure 2: A has no free block, B and C have one each and keep none of theirs back but this one.
        let policy = SharedSpace { keep: 0, beta: Ratio::new(1, 4), ..POLICY };
        let mut books = Books::new(vec![4; 3], |units| policy.contribution(units));
        let mut free = [0, 1, 1];
        let lender = policy.lender(&books, &free, 0).expect("B lends");
        assert_eq!(lender, 1);
        books.lend(lender, 0);
        free[lender] -= 1;
        assert_eq!(policy.lender(&books, &free, 0), Some(2));
        books.lend(2, 0);
        free[2] -= 1;
        assert_eq!(policy.lender(&books, &free, 0), None);
        // Under VSSD there is nobody to ask.
        assert_eq!(super::super::Vssd.lender(&books, &[0, 1, 1], 0), None);
    }

    #[test]
    fn nobody_lends_beyond_its_contribution_its_reserve_or_the_limit() {
        let mut books = Books::new(vec![20, 30], |units| POLICY.contribution(units));
        assert_eq!(POLICY.lender(&books, &[0, 1], 0), None, "the last erased unit stays");
        assert_eq!(POLICY.lender(&books, &[0, 9], 0), Some(1));
        let half = SharedSpace { limit: Ratio::new(1, 2), ..POLICY };
        for _ in 0..3 {
            assert_eq!(half.lender(&books, &[0, 9], 0).is_some(), books.accounts()[0].borrowed < 1);
            books.lend(1, 0);
        }
        assert_eq!(POLICY.lender(&books, &[0, 9], 0), None, "three of 30 are lent");
        assert_eq!(POLICY.lender(&books, &[9, 0], 1), None, "one who has borrowed lends nothing");
    }
}
