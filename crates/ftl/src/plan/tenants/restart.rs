//! What tenants have after a power cut: whose each unit is, and who owes whom.
//!
//! Nothing of it is stored. A unit's owner follows from its pages, and who holds more written units than it was given has borrowed the rest. So a
//! unit that was borrowed and not yet written counts as given back, without the collection that its debtor may have needed before it could
//! spare one. A pool that can clear nothing without it borrows one anew.
//!
//! Cost: a pass over the units, at a start.

use super::super::{Flash, Planner};
use crate::mapping::Mapping;
use crate::{BlockId, Lpn};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The pool that a scanned unit belongs to, by a logical page whose data or trim it holds. One without any held what a cut
    /// has torn: it goes to the tenant that most likely opened it, one without an open unit and with units to spare.
    pub(in crate::plan) fn owner_after_cut(&self, block: BlockId, lpn: Option<Lpn>, held: &[u32]) -> u32 {
        let tenants = self.tenants.as_deref().expect("only asked for on a drive with tenants");
        let group = self.blocks.layout().plane_of_block(block);
        if tenants.books.is_empty() {
            return group;
        }
        if let Some(lpn) = lpn {
            assert!(tenants.of(lpn) < tenants.len(), "I-7: {block:?} holds {lpn:?}, which is nobody's");
            return tenants.pool(group, tenants.of(lpn));
        }
        let accounts = tenants.books[group as usize].accounts();
        let likely = |&tenant: &usize| {
            let pool = tenants.pool(group, tenant);
            let p = &self.blocks.planes[pool as usize];
            let spare = i64::from(accounts[tenant].allocated) - i64::from(held[pool as usize]);
            (spare > 0, p.moved.is_full(), p.host.is_full(), spare, std::cmp::Reverse(tenant))
        };
        let tenant = (0..tenants.len()).max_by_key(likely).unwrap_or(0);
        tenants.pool(group, tenant)
    }

    /// Settles who owes whom after a power cut; `held` units of each pool are written.
    pub(in crate::plan) fn settle_loans(&mut self, held: &[u32]) {
        if self.tenants.is_none() {
            return;
        }
        if !self.blocks.shares().is_empty() {
            self.retire_at_start(held);
        }
        let tenants = self.tenants.as_deref_mut().expect("just looked");
        let count = tenants.len();
        for (group, books) in tenants.books.iter_mut().enumerate() {
            let held = &held[group * count..(group + 1) * count];
            let is_settled = books.settle(held);
            assert!(is_settled, "I-7: tenants hold {held:?} units of {:?}", books.accounts());
            for (tenant, (account, held)) in books.accounts().iter().zip(held).enumerate() {
                let pool = group * count + tenant;
                tenants.inherited[pool] = account.borrowed;
                let missing = self.paging.area.missing(pool as u32);
                self.blocks.restore_free(pool as u32, account.entitled() - held + missing);
            }
        }
        tenants.debt_starts.fill(0);
        tenants.gives_next.fill(false);
        tenants.is_demanded = false;
        tenants.put_off.fill(0);
        tenants.victims.restart();
    }

    /// Gives a pool an erased unit at a start when it can clear nothing without one: one that is owed to its owner, or a loan. False when nobody
    /// has two, or lends any.
    pub(in crate::plan) fn borrow_for_room(&mut self, pool: u32) -> bool {
        let Some(tenants) = self.tenants.as_deref_mut() else { return false };
        let (count, borrower) = (tenants.len(), tenants.of_pool(pool));
        let group = pool as usize / count;
        let Some(books) = tenants.books.get_mut(group) else { return false };
        let free = |tenant: usize| self.blocks.planes[group * count + tenant].free;
        let may_help = |&tenant: &usize| free(tenant) > 1 && books.accounts()[tenant].contribution > 0;
        let key = |&tenant: &usize| {
            let owes_nothing = books.accounts()[tenant].borrowed == 0;
            (books.owes(tenant, borrower) > 0, owes_nothing, free(tenant), std::cmp::Reverse(tenant))
        };
        let Some(helper) = (0..count).filter(may_help).max_by_key(key) else { return false };
        let from = (group * count + helper) as u32;
        if books.owes(helper, borrower) > 0 {
            self.give(from, pool);
            return true;
        }
        books.lend(helper, borrower);
        // At least what it has lent.
        books.set_contribution(helper, books.accounts()[helper].contribution);
        tenants.inherited[pool as usize] += 1;
        self.blocks.hand_over(from, pool);
        true
    }
}
