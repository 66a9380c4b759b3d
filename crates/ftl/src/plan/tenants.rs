//! Tenants inside the drive: whose page goes where, who lends to whom, and what it costs.
//!
//! The drive's logical space is dealt out to the tenants in order (`deal` has how that changes while it runs, `loans` who asks whom, `going` what is given up, `maps` whose translation pages are, `returns` what comes back from who is idle, `ends` who has fewer units when one wears out), and a page belongs to the tenant whose range it lies in, not to
//! the one that asks: a cache or a mirror above writes on its own behalf, and only the range is known again after a power cut. What a
//! request causes is charged to the one that caused it, as everywhere.
//!
//! Each tenant has a pool of units in each group of planes ([`crate::blocks::Share`]), with open units, erased units and collection of its
//! own; or, with `channel` and `die`, groups of planes that are its own. A trim record names trims of one tenant and lies in its units.
//!
//! *When a unit is opened* and its tenant has few erased ones: what it has lent comes back first, then it borrows, and only then it
//! collects ([`crate::isolation`]). Who has lent asks back too before it moves pages after its writes. A demand is met by an erased unit of the debtor, or by one collection there, which is charged to the one
//! that wrote last to the debtor's range. While a tenant owes, it collects the emptiest unit whatever the policy, moves nothing for wear, and
//! opens a unit only where the bound of [`crate::isolation::room`] allows.
//!
//! A unit changes hands only erased, and its erase is counted for the tenant that filled it.
//!
//! Cost: a look at the range for each page; passes over the units of a group for each unit that is opened or cleared. RAM: what
//! [`crate::isolation`] says.

mod ahead;
mod deal;
mod ends;
mod going;
mod loans;
mod log_deals;
mod log_loans;
mod maps;
mod report;
mod restart;
mod returns;
mod victims;

pub use deal::Dealing;
pub use log_deals::LogDealing;
pub use returns::{Return, Returns};

use super::{Flash, Planner};
use crate::Lpn;
use crate::aged::Aged;
use crate::blocks::Content;
use crate::checkpoint::Anchors;
use crate::isolation::{Account, Books, Isolation, TENANTS_MAX, Table};
use crate::mapping::Mapping;
use crate::placement::RoundRobin;
use crate::trim_journal::Extent;
use nandu_base::TenantId;
use victims::Victims;

/// What happened to a tenant since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Pages of its range that the host wrote.
    pub written: u64,
    /// Pages of its that moved.
    pub moved: u64,
    /// Units of its that were erased.
    pub erases: u64,
    /// Units borrowed, ever.
    pub borrowed: u64,
    /// Units lent, ever.
    pub lent: u64,
    /// Collections forced on it by those it owes.
    pub forced: u64,
    /// Units that it gave back while it was idle.
    pub returned: u64,
}

/// Faults that are planted here.
#[derive(Clone, Copy, Default, Debug)]
pub struct Planted {
    /// A page goes to the next tenant.
    pub mixed: bool,
    /// A tenant clears units of any other.
    pub crosses: bool,
    /// A unit is lent that no tenant was given.
    pub lends_unallocated: bool,
    /// Nothing is given back.
    pub keeps_what_it_owes: bool,
    /// Units are opened without the room to give back.
    pub room_not_kept: bool,
    /// Who owes nothing clears for another.
    pub others_collect: bool,
    /// Who goes leaves units behind.
    pub leaves_units: bool,
    /// The table is not put on record.
    pub forgets_table: bool,
    /// Two units are cleared for a demand.
    pub clears_twice: bool,
    /// An idle tenant keeps what it could give back.
    pub keeps_while_idle: bool,
    /// A translation page goes to the next tenant.
    pub map_misplaced: bool,
    /// A worn unit comes off nobody's account.
    pub end_not_charged: bool,
}

/// The tenants of a drive.
pub struct Tenants {
    /// Whose each logical page is.
    pub table: Table,
    /// What tenants get that come or change while the drive runs, where they may.
    pub dealing: Option<Dealing>,
    /// Where the table lies on a drive with a log-block map, where tenants come and go.
    pub tables: Option<Anchors>,
    /// Whether each leaves what it contributes and has not lent erased for others.
    pub reserves: bool,
    /// The turns of each over the groups of planes where it has units.
    pub turns: Vec<RoundRobin>,
    /// Erased units at which each begins to clear.
    pub starts: Vec<u32>,
    /// Who lends what to whom.
    pub policy: Box<dyn Isolation>,
    /// The ledger of each group; empty where tenants have groups of their own.
    pub books: Vec<Books>,
    /// Who owns each group, where they do.
    pub owners: Vec<u16>,
    /// Who has written last to each tenant's range.
    writers: Vec<TenantId>,
    /// Who has last needed an entry of each tenant's map that was not in RAM.
    askers: Vec<TenantId>,
    counts: Vec<Counts>,
    /// How full the units were that each cleared.
    victims: Victims,
    /// A lender waits for this collection: what it gains goes there.
    is_demanded: bool,
    /// Units owed since a power cut, by pool: the bound does not cover them.
    inherited: Vec<u32>,
    /// Pages that were valid in the emptiest unit of a pool when it borrowed what it owes, together.
    put_off: Vec<u64>,
    /// Erased units at which a debtor begins to clear, by pool; 0 when nothing is owed.
    debt_starts: Vec<u32>,
    /// Whether a debtor gives back the next unit that it erases, by pool: every second one.
    gives_next: Vec<bool>,
    /// Demands that one collection has not met.
    late: u64,
    demands: u64,
    /// The most pages that moved for one unit that was demanded.
    moved_most: u64,
    /// When idle borrowers give back, if they do.
    pub returns: Option<Returns>,
    /// Whose pages were written since the drive looked.
    pub wrote: Vec<bool>,
    /// Units of each group without which a tenant's pages have no room.
    pub floors: Vec<u32>,
    /// What is where in the range of each tenant that begins aged, with its first page, until it is stored.
    pub aged: Vec<(u32, Aged)>,
    /// Faults.
    pub planted: Planted,
    scratch: Vec<u32>,
    invalid: Vec<u16>,
    free: Vec<u32>,
}

impl Tenants {
    /// Tenants of this table.
    pub fn new(
        table: Table,
        turns: Vec<RoundRobin>,
        starts: Vec<u32>,
        policy: Box<dyn Isolation>,
        books: Vec<Books>,
        owners: Vec<u16>,
    ) -> Tenants {
        let tenants = table.parts().len();
        assert!(tenants <= TENANTS_MAX, "options were checked");
        let pools = owners.len().max(books.len() * tenants);
        Tenants {
            inherited: vec![0; books.len() * tenants],
            put_off: vec![0; pools],
            debt_starts: vec![0; pools],
            gives_next: vec![false; pools],
            table,
            dealing: None,
            tables: None,
            reserves: false,
            turns,
            starts,
            policy,
            books,
            owners,
            writers: vec![TenantId::SYSTEM; tenants],
            askers: vec![TenantId::SYSTEM; tenants],
            counts: vec![Counts::default(); tenants],
            victims: Victims::new(pools, tenants),
            is_demanded: false,
            late: 0,
            demands: 0,
            moved_most: 0,
            returns: None,
            wrote: vec![false; tenants],
            floors: Vec::new(),
            aged: Vec::new(),
            planted: Planted::default(),
            scratch: Vec::new(),
            invalid: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Tenants.
    #[allow(clippy::len_without_is_empty)] // a drive without tenants has no such table
    pub fn len(&self) -> usize {
        self.table.parts().len()
    }

    /// The tenant of a logical page; beyond all tenants when it is nobody's.
    #[inline]
    pub fn of(&self, lpn: Lpn) -> usize {
        self.table.of_page(lpn)
    }

    /// The tenant of a pool.
    pub fn of_pool(&self, pool: u32) -> usize {
        match self.books.is_empty() {
            true => usize::from(self.owners[pool as usize]),
            false => pool as usize % self.len(),
        }
    }

    /// Erased units of a pool in steady state.
    pub fn steady_free(&self, pool: u32, least: u32) -> u32 {
        least.max(self.own_start_of(pool))
    }

    /// Whether this group of planes is the tenant's, or a pool of it.
    pub fn has_group(&self, group: u32, tenant: usize) -> bool {
        !self.books.is_empty() || usize::from(self.owners[group as usize]) == tenant
    }

    /// The pool of a tenant in a group of planes.
    pub fn pool(&self, group: u32, tenant: usize) -> u32 {
        match self.books.is_empty() {
            true => group,
            false => group * self.len() as u32 + tenant as u32,
        }
    }

    /// The pool of a tenant whose turn it is.
    pub fn next_pool(&mut self, tenant: usize) -> u32 {
        let group = self.turns[tenant].take();
        self.pool(group, tenant)
    }

    /// Units that the owner of a pool owes.
    fn debt(&self, pool: u32) -> u32 {
        self.account(pool).map_or(0, |account| account.borrowed)
    }

    /// The account of the owner of a pool; nothing where tenants have groups of their own.
    fn account(&self, pool: u32) -> Option<Account> {
        let books = self.books.get(pool as usize / self.len())?;
        Some(books.accounts()[self.of_pool(pool)])
    }

    /// Extents by tenant, those that reach over a boundary in parts, nobody's left out.
    pub fn split(&self, extents: &[Extent]) -> Vec<Vec<Extent>> {
        let mut parts = vec![Vec::new(); self.len()];
        for extent in extents {
            let (mut first, end) = (extent.first.0, extent.first.0 + extent.count);
            while first < end {
                let tenant = self.of(Lpn(first));
                let until = end.min(self.table.run_end(Lpn(first)));
                if let Some(part) = parts.get_mut(tenant) {
                    part.push(Extent { first: Lpn(first), count: until - first, as_of: extent.as_of });
                }
                first = until;
            }
        }
        parts
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    pub(super) fn tenants_mut(&mut self) -> &mut Tenants {
        self.tenants.as_deref_mut().expect("only asked for on a drive with tenants")
    }

    /// Erased blocks of a pool at which clearing begins.
    #[inline]
    pub(super) fn start_of(&self, pool: u32) -> u32 {
        match &self.tenants {
            None => self.host.gc_start,
            Some(tenants) => tenants.start_of(pool),
        }
    }

    /// Who pays for a step in an idle pool: for what folds the cache of a tenant, who wrote last to its range.
    pub fn payer_of_idle_step(&self, pool: u32) -> TenantId {
        match self.tenants.as_deref().filter(|_| self.slc.is_some()) {
            Some(tenants) => tenants.writers[tenants.of_pool(pool)],
            None => TenantId::SYSTEM,
        }
    }

    /// Whether all these logical pages are some tenant's, or the drive has no tenants.
    pub fn is_somebodys(&self, first: u32, end: u32) -> bool {
        self.tenants.as_deref().is_none_or(|tenants| tenants.table.are_live(first, end))
    }

    /// A page is written in the range of `lpn`: notes who does; returns the tenant, whose turn begins.
    pub(super) fn tenant_writes(&mut self, lpn: Lpn, cause: TenantId) -> usize {
        let is_mixed = self.seq % 128 == 127;
        let tenants = self.tenants_mut();
        let mut tenant = tenants.of(lpn);
        tenants.writers[tenant] = cause;
        tenants.wrote[tenant] = true;
        if tenants.planted.mixed && is_mixed {
            tenant = (tenant + 1) % tenants.len();
        }
        self.tenants_mut().turns[tenant].aim(lpn.0);
        tenant
    }

    /// A page of `lpn` is written for the host.
    pub(super) fn count_written(&mut self, lpn: Lpn) {
        let tenants = self.tenants_mut();
        let tenant = tenants.of(lpn);
        tenants.counts[tenant].written += 1;
    }

    /// Something happened to the owner of a pool.
    pub(super) fn count_of_pool(&mut self, pool: u32, count: fn(&mut Counts)) {
        if let Some(tenants) = self.tenants.as_deref_mut() {
            let tenant = tenants.of_pool(pool);
            count(&mut tenants.counts[tenant]);
        }
    }

    /// A page of the owner of `pool` was moved.
    #[inline]
    pub(super) fn tenant_moved(&mut self, pool: u32) {
        let Some(tenants) = self.tenants.as_deref_mut() else { return };
        let (tenant, group) = (tenants.of_pool(pool), pool as usize / tenants.len());
        tenants.counts[tenant].moved += 1;
        tenants.victims.moved(pool);
        let Some(books) = tenants.books.get_mut(group) else { return };
        let account = books.accounts()[tenant];
        if account.lent > 0 {
            let full = self.blocks.planes[pool as usize].valid.div_ceil(self.blocks.layout().pages);
            let spare = (account.allocated - account.lent).saturating_sub(full);
            if let Some(units) = tenants.policy.lender_moved(tenant, &account, spare) {
                books.set_contribution(tenant, units);
            }
        }
    }

    /// Whether units are owed to the owner of `pool`.
    pub(super) fn is_creditor(&self, pool: u32) -> bool {
        let Some(tenants) = self.tenants.as_deref() else { return false };
        let books = tenants.books.get(pool as usize / tenants.len());
        books.is_some_and(|books| books.accounts()[tenants.of_pool(pool)].lent > 0)
    }

    /// Whether the owner of `pool` owes units.
    pub(super) fn is_debtor(&self, pool: u32) -> bool {
        self.tenants.as_deref().is_some_and(|tenants| tenants.debt(pool) > 0)
    }

    /// The invalid pages of a plane's blocks as the owner of `pool` sees them; given back with `keep_invalid`.
    pub(super) fn invalid_of_tenant(&mut self, pool: u32) -> Vec<u16> {
        let tenants = self.tenants.as_deref_mut().expect("only asked for on a drive with tenants");
        let mut invalid = std::mem::take(&mut tenants.invalid);
        if tenants.planted.crosses {
            invalid.clear();
            invalid.extend_from_slice(self.blocks.plane_invalid(pool));
        } else {
            self.blocks.invalid_for(pool, &mut invalid);
        }
        invalid
    }

    pub(super) fn keep_invalid(&mut self, invalid: Vec<u16>) {
        self.tenants_mut().invalid = invalid;
    }

    /// Maps every logical page of a tenant as if the drive had been written once, `order` having the page of each turn.
    pub(super) fn fill_tenants(&mut self, order: impl Fn(u32) -> u32) {
        for lpn in (0..self.host.logical).map(|turn| Lpn(order(turn))) {
            if self.tenants_mut().of(lpn) >= self.tenants_mut().len() {
                continue;
            }
            let tenants = self.tenants_mut();
            let tenant = tenants.of(lpn);
            tenants.turns[tenant].aim(lpn.0);
            let pool = loop {
                let pool = self.tenants_mut().next_pool(tenant);
                if self.blocks.planes[pool as usize].has_room() {
                    break pool;
                }
            };
            if self.blocks.planes[pool as usize].host.is_full() {
                let cursor = self.blocks.open_free(pool, self.seq + 1);
                self.blocks.planes[pool as usize].host = cursor.expect("a tenant's pages fit its units");
            }
            let p = &mut self.blocks.planes[pool as usize];
            p.valid += 1;
            let ppn = p.host.take();
            self.seq += 1;
            self.map.set(lpn, ppn);
            self.blocks.programmed(ppn, Content::Data(lpn));
        }
        self.filled_to = self.seq;
        self.fill_map();
    }
}
