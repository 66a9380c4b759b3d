//! Units that come back while their borrower is idle (O3-5), so that the next burst finds the shared space full again.
//!
//! When less than a share `below` of what all contribute is left to lend, a tenant that owes units and for whose range no request has come for `after`
//! clears its emptiest unit, a step at a time, on dies that have nothing to do; once it has more erased units than those at which it
//! would collect, and the rule of [`crate::isolation::room`] lets it, one goes back to the tenant that it owes the most. Others may be
//! busy: only the dies must not be. A unit must gain as many pages as for any idle collection (`gc.idle_min_invalid`), else it stays until it is demanded.
//!
//! The paper has no way back; this is our reading of it. What it costs is charged to the one who wrote last to the borrower's range, like a
//! collection that a lender forces.
//!
//! It comes to rest: each step moves a page towards an erase, an erase gains pages, and these are used up by hosts only. I-8: at rest no unit is owed that
//! could come back without work.
//!
//! Cost: a timer, and a pass over the accounts when it fires. RAM: 8 bytes for a tenant.

use super::{Flash, Planner, Tenants};
use crate::BlockId;
use crate::isolation::{Books, room};
use crate::mapping::Mapping;
use nandu_base::{Ratio, TenantId, Violation};

/// When idle borrowers give back.
#[derive(Clone, Copy, Debug)]
pub struct Returns {
    /// When less than this share of the contributions is left to lend.
    pub below: Ratio,
}

impl Returns {
    /// Whether too little is left to lend.
    fn is_low(&self, books: &Books) -> bool {
        let sum = |of: fn(&crate::isolation::Account) -> u32| books.accounts().iter().map(of).sum::<u32>();
        let (all, lent) = (u64::from(sum(|a| a.contribution)), u64::from(sum(|a| a.lent)));
        let left = all.saturating_sub(lent);
        u128::from(left) * u128::from(self.below.den) < u128::from(all) * u128::from(self.below.num)
    }
}

impl Tenants {
    /// The pools of a group whose owners owe units while too little is left to lend, with their owners.
    fn owing(&self, group: usize) -> impl Iterator<Item = (u32, usize)> + '_ {
        let is_low = self.returns.as_ref().is_some_and(|returns| returns.is_low(&self.books[group]));
        let owes = move |tenant: &usize| is_low && self.books[group].accounts()[*tenant].borrowed > 0;
        (0..self.len()).filter(owes).map(move |tenant| (self.pool(group as u32, tenant), tenant))
    }
}

/// What an idle borrower can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// Nothing.
    Nothing,
    /// A unit went back.
    Done,
    /// A little may be cleared, which this one pays.
    Clear(TenantId),
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The pools of a group whose owners owe units that should come back while they are idle, with their owners.
    pub fn next_owing(&self, group: usize, tenant: usize) -> Option<u32> {
        let tenants = self.tenants.as_deref()?;
        tenants.owing(group).find(|&(_, owing)| owing == tenant).map(|(pool, _)| pool)
    }

    /// Gives a unit back that a pool can spare, or says whether a little may be cleared of a unit that gains `least` pages.
    pub fn return_unit(&mut self, pool: u32, least: u32) -> Return {
        let tenants = self.tenants_mut();
        let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let Some(lender) = tenants.books[group].largest_creditor(debtor) else { return Return::Nothing };
        let (to, cause) = (tenants.pool(group as u32, lender), tenants.writers[debtor]);
        if self.can_spare(pool) {
            let tenants = self.tenants_mut();
            if tenants.planted.keeps_while_idle {
                return Return::Nothing;
            }
            tenants.counts[debtor].returned += 1;
            let inherited = &mut tenants.inherited[pool as usize];
            *inherited = inherited.saturating_sub(1);
            self.give(pool, to);
            return Return::Done;
        }
        if self.map.log_blocks().is_some() {
            // Merges while the drive is idle make room by themselves.
            return Return::Nothing;
        }
        let is_clearing = self.blocks.planes[pool as usize].clearing;
        match is_clearing || self.choose_victim_that_gains(pool, least) {
            true => Return::Clear(cause),
            false => Return::Nothing,
        }
    }

    /// Whether a pool that owes can give a unit back and still begin no collection.
    fn can_spare(&self, pool: u32) -> bool {
        let Some(tenants) = self.tenants.as_deref() else { return false };
        if let Some(log) = self.map.log_blocks() {
            return log.can_spare(pool) && log.pool(pool).room() > 0;
        }
        let (p, pages) = (&self.blocks.planes[pool as usize], self.blocks.layout().pages);
        if p.free <= tenants.own_start_of(pool).max(self.host.urgent) {
            return false;
        }
        let begun = self.victim_of(pool);
        let left = begun.map(|victim| pages - u32::from(self.blocks.invalid(victim)));
        let full = self.blocks.valid_of_full(pool, begun.unwrap_or(BlockId(u32::MAX)));
        let needed = room::needed(full, left, tenants.debt(pool), pages, &mut Vec::new());
        self.blocks.room_of(pool) >= u64::from(pages) + needed
    }

    /// I-8: a drive at rest owes nothing that could come back without work.
    pub fn check_returns(&self) -> Result<(), Violation> {
        let Some(tenants) = self.tenants.as_deref().filter(|_| !self.blocks.is_worn_out()) else {
            return Ok(());
        };
        for group in 0..tenants.books.len() {
            if let Some((pool, tenant)) = tenants.owing(group).find(|&(pool, _)| self.can_spare(pool)) {
                let what = format!(
                    "tenant {tenant} rests and keeps a unit that it owes in group {group} (pool {pool})"
                );
                return Err(Violation { invariant: "I-8", what });
            }
        }
        Ok(())
    }
}
