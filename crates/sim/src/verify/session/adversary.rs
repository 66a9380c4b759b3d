//! A tenant that means harm, on a drive that several share: it sees what the drive counts and asks for what hurts most at that moment (`drawn.rs`).
//!
//! *What it does.* It fills its space, so that it runs out of erased units and borrows. While it owes, it writes pages far apart, so that each of its units is
//! nearly all valid and clearing one for a lender gains as little as can be. When others owe it something it writes in long runs, to demand all
//! of it at once. Now and then it trims single pages, for records that others may have to wait for.
//!
//! *What the others are promised* (I-8), checked at each request that lies in one tenant's space: it demands no more units than that tenant has
//! lent; and what it makes other tenants move is at most one collection, less than a unit's pages, for each unit that it demands.
//! Requests that put trims on record are left out: these records are anybody's. Where a drive levels wear across tenants (`wear.across_tenants`), a unit
//! that is cleared for that is allowed too.
//!
//! Behind a queue what a request does begins when the queue lets it, so that requests cannot be told apart; there the drive's own account of each demand
//! stands for that: at most one collection, and less than a unit's pages.

use super::super::oracle::Asked;
use super::{Broken, Session, broken};
use nandu_base::{Ask, Counter, Op, TenantSpace};

/// What a drive counts of its tenants.
#[derive(Clone, Default, Debug)]
pub(super) struct Standing {
    demanded: u64,
    /// Units of one tenant cleared for the wear of another.
    levelled: u64,
    journal_pages: u64,
    /// By tenant: pages moved, units lent now, units borrowed now.
    pub tenants: Vec<(u64, u64, u64)>,
}

impl Session<'_> {
    /// Whether tenants share the drive that is the whole stack.
    pub(super) fn is_shared_drive(&mut self) -> bool {
        self.ground.harm && !self.spaces_of_drive().is_empty()
    }

    /// The drive that tenants share, wherever it is, and what they have.
    pub(super) fn shared_drive(&mut self) -> Option<(u32, Vec<TenantSpace>)> {
        let nodes = 0..self.engine.graph.len() as u32;
        nodes.filter(|_| self.ground.harm).find_map(|node| {
            let spaces = self.engine.graph.report(node, Ask::Spaces).spaces;
            (!spaces.is_empty()).then_some((node, spaces))
        })
    }

    pub(super) fn standing(&mut self, drive: u32) -> Standing {
        let counters = self.engine.graph.report(drive, Ask::Counters).counters;
        // A drive without loans counts none.
        let of_tenant = |number: usize, what: &str| {
            Counter::find(&counters, &format!("tenant_{number}{what}")).unwrap_or(0)
        };
        let tenant = |number| {
            let lent = of_tenant(number, "_units_lent_now");
            (of_tenant(number, "_gc_pages_moved"), lent, of_tenant(number, "_units_borrowed_now"))
        };
        Standing {
            demanded: Counter::of(&counters, "units_demanded"),
            levelled: Counter::of(&counters, "wl_blocks_relocated_across_tenants"),
            journal_pages: Counter::of(&counters, "journal_pages"),
            tenants: (1..=16).map(tenant).collect(),
        }
    }

    /// What stands before a request whose harm to others is to be measured.
    pub(super) fn before(&mut self) -> Option<Standing> {
        let drive = self.entries[0].node;
        self.is_shared_drive().then(|| self.standing(drive))
    }

    /// I-8: what a request has made others do.
    pub(super) fn check_harm(&mut self, asked: &Asked, before: Option<Standing>) -> Result<(), Broken> {
        let Some(before) = before else { return Ok(()) };
        let (first, end) = (asked.offset.0, asked.offset.0 + asked.len.0);
        let lies_in = |space: &&TenantSpace| first >= space.first.0 && end <= space.first.0 + space.size.0;
        let spaces = self.spaces_of_drive();
        let Some(space) = spaces.iter().find(lies_in).filter(|_| asked.op == Op::Write) else {
            return Ok(());
        };
        let after = self.standing(self.entries[0].node);
        if after.journal_pages != before.journal_pages {
            return Ok(());
        }
        let own = space.number as usize - 1;
        let demanded = after.demanded - before.demanded;
        // What was owed at a power cut may take a second demand.
        let lent = before.tenants[own].1 * (1 + u64::from(self.tally.crashes > 0));
        if demanded > lent {
            let what =
                format!("{asked:?} demands {demanded} units of {lent} that tenant {} has lent", own + 1);
            return Err(broken("I-8", what));
        }
        let moved = |other: usize| after.tenants[other].0 - before.tenants[other].0;
        let moved: u64 = (0..16).filter(|&other| other != own).map(moved).sum();
        let most = demanded * (self.unit_pages - 1) + (after.levelled - before.levelled) * self.unit_pages;
        if moved > most {
            let what = format!(
                "{asked:?} of tenant {} makes others move {moved} pages, at most {most} are promised",
                own + 1
            );
            return Err(broken("I-8", what));
        }
        Ok(())
    }
}
