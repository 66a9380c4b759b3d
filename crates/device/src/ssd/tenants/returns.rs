//! Units that come back while their borrower is idle (O3-5), so that the next burst finds the shared space full again.
//!
//! When less than a share `below` of what all contribute is left to lend, a tenant that owes units and for whose range no request has come for `after`
//! clears its emptiest unit, a step at a time, on dies that have nothing to do; once it has more erased units than those at which it
//! would collect, and the rule of [`nandu_ftl::isolation::room`] lets it, one goes back to the tenant that it owes the most. Others may be
//! busy: only the dies must not be. A unit must gain as many pages as for any idle collection (`gc.idle_min_invalid`), else it stays until it is demanded.
//!
//! The paper has no way back; this is our reading of it. What it costs is charged to the one who wrote last to the borrower's range, like a
//! collection that a lender forces.
//!
//! It comes to rest: each step moves a page towards an erase, an erase gains pages, and these are used up by hosts only. I-8: at rest no unit is owed that
//! could come back without work.
//!
//! Cost: a timer, and a pass over the accounts when it fires. RAM: 8 bytes for a tenant.

use super::{Ssd, Tenants};
use nandu_base::{ByteOffset, Cx, Instant, Ratio, Span, Violation};
use nandu_ftl::isolation::{Books, room};
use nandu_ftl::mapping::Mapping;
use nandu_ftl::{BlockId, Lpn};

/// When idle borrowers give back.
#[derive(Clone, Debug)]
pub(in crate::ssd) struct Returns {
    below: Ratio,
    after: Span,
    /// When a request for each tenant's range came last.
    last: Vec<Instant>,
}

impl Returns {
    /// When less than `below` of the contributions is left, after `after` without a request.
    pub fn new(below: Ratio, after: Span, tenants: usize) -> Returns {
        Returns { below, after, last: vec![Instant::ZERO; tenants] }
    }

    /// Something is asked for in a tenant's range.
    pub fn note(&mut self, tenant: usize, now: Instant) {
        if let Some(last) = self.last.get_mut(tenant) {
            *last = now;
        }
    }

    /// Whether too little is left to lend.
    fn is_low(&self, books: &Books) -> bool {
        let sum =
            |of: fn(&nandu_ftl::isolation::Account) -> u32| books.accounts().iter().map(of).sum::<u32>();
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

impl<M: Mapping> Ssd<M> {
    /// A request for this place comes.
    pub(in crate::ssd) fn note_tenant(&mut self, at: ByteOffset, now: Instant) {
        let lpn = Lpn((at.0 >> self.host.page.bits) as u32);
        let tenants = self.tenants_mut();
        let tenant = tenants.of(lpn);
        if let Some(returns) = &mut tenants.returns {
            returns.note(tenant, now);
        }
    }

    /// A step of every idle tenant that owes units; returns when the next one may come, if any.
    pub(in crate::ssd) fn return_while_idle(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        let tenants = self.tenants.as_deref()?;
        let returns = tenants.returns.as_ref()?;
        if self.blocks.is_worn_out() || self.closing {
            return None;
        }
        let (after, groups) = (returns.after, tenants.books.len());
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        let mut next: Option<Instant> = None;
        for group in 0..groups {
            for tenant in 0..self.tenants_mut().len() {
                let tenants = self.tenants_mut();
                let Some((pool, _)) = tenants.owing(group).find(|&(_, owing)| owing == tenant) else {
                    continue;
                };
                let idle_at =
                    tenants.returns.as_ref().map_or(Instant::ZERO, |returns| returns.last[tenant] + after);
                let at = if cx.now < idle_at { Some(idle_at) } else { self.return_step(pool, cx) };
                next = at.map(|at| next.map_or(at, |next| next.min(at))).or(next);
            }
        }
        next
    }

    /// Gives a unit back that a pool can spare, or clears a little; returns when the next step may come, `None` when there is nothing to do.
    fn return_step(&mut self, pool: u32, cx: &mut Cx<'_>) -> Option<Instant> {
        let tenants = self.tenants_mut();
        let (group, debtor) = (pool as usize / tenants.len(), tenants.of_pool(pool));
        let lender = tenants.books[group].largest_creditor(debtor)?;
        let (to, cause) = (tenants.pool(group as u32, lender), tenants.writers[debtor]);
        if self.can_spare(pool) {
            let tenants = self.tenants_mut();
            if tenants.planted.keeps_while_idle {
                return None;
            }
            tenants.counts[debtor].returned += 1;
            let inherited = &mut tenants.inherited[pool as usize];
            *inherited = inherited.saturating_sub(1);
            self.give(pool, to);
            return Some(cx.now + Span(1));
        }
        let least = self.idle.as_ref().map_or(1, |idle| idle.least_gain);
        let is_clearing = self.blocks.planes[pool as usize].clearing;
        (is_clearing || self.choose_victim_that_gains(pool, least)).then(|| self.idle_step(pool, cause, cx))
    }

    /// Whether a pool that owes can give a unit back and still begin no collection.
    fn can_spare(&self, pool: u32) -> bool {
        let Some(tenants) = self.tenants.as_deref() else { return false };
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
    pub(super) fn check_returns(&self) -> Result<(), Violation> {
        let Some(tenants) = self.tenants.as_deref() else { return Ok(()) };
        if !self.idle.as_ref().is_some_and(|idle| idle.is_at_rest) || self.blocks.is_worn_out() {
            return Ok(());
        }
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
