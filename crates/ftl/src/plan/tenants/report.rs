//! What is checked about tenants, and their figures.

use super::{Counts, Flash, Planner, Tenants};
use crate::blocks::Content;
use crate::isolation::{Books, TENANTS_MAX};
use crate::mapping::Mapping;
use crate::{BlockId, Lpn, Ppn};
use nandu_base::{Report, Violation};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// I-7: a unit has one owner and holds nobody else's pages, the ledger adds up, and what nobody was given is erased. I-8: every demand
    /// so far was met by at most one collection.
    pub(in crate::plan) fn check_tenants(&self) -> Result<(), Violation> {
        let Some(tenants) = self.tenants.as_deref() else { return Ok(()) };
        let broken = |what: String| Err(Violation { invariant: "I-7", what });
        let layout = self.blocks.layout();
        let free: std::collections::BTreeSet<BlockId> = self.blocks.free_blocks().collect();
        for block in layout.all_blocks().filter(|block| !free.contains(block)) {
            let owner = tenants.of_pool(self.blocks.pool_of_block(block));
            let first = layout.first_page(block).0;
            for ppn in (first..first + layout.pages).map(Ppn) {
                let other = match self.blocks.content(ppn) {
                    Content::Data(lpn) => tenants.of(lpn) != owner,
                    Content::Journal(slot) => self.journal.record(slot).is_some_and(|record| {
                        record.ppn == ppn && record.extents.iter().any(|e| tenants.of(e.first) != owner)
                    }),
                    Content::Map(tp) => {
                        self.map.translation_page(tp) == Some(ppn) && self.owner_of_map_page(tp) != owner
                    }
                    Content::Free | Content::Waste => false,
                };
                if other {
                    return broken(format!(
                        "{block:?} of tenant {owner} holds {:?}",
                        self.blocks.content(ppn)
                    ));
                }
            }
        }
        for (group, books) in tenants.books.iter().enumerate() {
            let pools = (0..tenants.len()).map(|tenant| tenants.pool(group as u32, tenant));
            let held: Vec<u32> = pools.clone().map(|pool| self.held_by(pool)).collect();
            let erased: Vec<u32> = pools.map(|pool| self.blocks.planes[pool as usize].free).collect();
            books.check(&held, &erased).map_err(|what| Violation { invariant: "I-7", what })?;
            self.check_erased(group as u32, books, &erased, &free)?;
        }
        self.check_demands()
    }

    /// I-8: every demand so far was met by at most one collection.
    fn check_demands(&self) -> Result<(), Violation> {
        let Some(tenants) = self.tenants.as_deref() else { return Ok(()) };
        let pages = self.blocks.layout().pages;
        let forced: u64 = tenants.counts.iter().map(|count| count.forced).sum();
        if forced > tenants.demands {
            let what = format!("{forced} collections were forced by {} demands", tenants.demands);
            return Err(Violation { invariant: "I-8", what });
        }
        if tenants.moved_most >= u64::from(pages) + u64::from(self.map.log_blocks().is_some()) {
            let what = format!(
                "{} pages moved for one unit that was demanded, and a unit has {}",
                tenants.moved_most, pages
            );
            return Err(Violation { invariant: "I-8", what });
        }
        if tenants.late > 0 {
            let what = format!("{} units were not back after one collection", tenants.late);
            return Err(Violation { invariant: "I-8", what });
        }
        Ok(())
    }

    /// I-7 of a drive whose map has blocks for each tenant: a tenant's pages lie in its own.
    pub(in crate::plan) fn check_logged_tenants(&self) -> Result<(), Violation> {
        let (Some(tenants), Some(map)) = (self.tenants.as_deref(), self.map.log_blocks()) else {
            return Ok(());
        };
        let pools = map.pools_of_blocks();
        for lpn in (0..self.host.logical).map(Lpn) {
            let Some(at) = self.map.get(lpn) else { continue };
            let owner = tenants.of_pool(pools[self.blocks.layout().block(at).0 as usize]);
            if owner != tenants.of(lpn) {
                let what = format!("{at:?} of tenant {owner} holds {lpn:?} of tenant {}", tenants.of(lpn));
                return Err(Violation { invariant: "I-7", what });
            }
        }
        if !map.moves_blocks() {
            return Ok(());
        }
        self.check_dealt_logs()?;
        for (group, books) in tenants.books.iter().enumerate() {
            let regions =
                (0..tenants.len()).map(|tenant| map.pool(tenants.pool(group as u32, tenant)).region());
            let erased: Vec<u32> = regions.clone().map(|region| region.free()).collect();
            let held: Vec<u32> = regions.map(|region| region.good() - region.free()).collect();
            books.check(&held, &erased).map_err(|what| Violation { invariant: "I-7", what })?;
            let owned = |pool: u32| {
                let is_its = |&block: &BlockId| pools[block.0 as usize] == pool && !self.blocks.is_bad(block);
                self.blocks.layout().plane_blocks(group as u32).filter(is_its).count() as u32
            };
            for tenant in 0..tenants.len() {
                let pool = tenants.pool(group as u32, tenant);
                let (owned, good) = (owned(pool), map.pool(pool).region().good());
                if owned != good {
                    let what =
                        format!("tenant {tenant} has {owned} blocks in group {group} and counts {good}");
                    return Err(Violation { invariant: "I-7", what });
                }
                let account = books.accounts()[tenant];
                let (has, may_have) = map.rights(pool, account.borrowed, account.lent);
                if has != may_have {
                    let what = format!(
                        "tenant {tenant} may open {has} log blocks in group {group}, and has borrowed and lent to {may_have}"
                    );
                    return Err(Violation { invariant: "I-7", what });
                }
            }
        }
        self.check_demands()
    }

    /// I-7 where tenants come and go: nothing is left of what a tenant has given up, and each has what is due to it.
    fn check_dealt_logs(&self) -> Result<(), Violation> {
        let Some(tenants) = self.tenants.as_deref().filter(|tenants| tenants.dealing.is_some()) else {
            return Ok(());
        };
        let map = self.log();
        for (tenant, part) in tenants.table.parts().iter().enumerate().filter(|(_, part)| part.going == 0) {
            for (pool, pages) in map.pages_in_pools(tenant) {
                let region = map.pool(pool).region();
                if let Some(block) = (0..region.shape().blocks).find(|&block| region.holds_from(block, pages))
                {
                    let what = format!(
                        "block {block} of pool {pool} holds a version of a page from {pages} on, and tenant {tenant} has {} there",
                        part.live
                    );
                    return Err(Violation { invariant: "I-7", what });
                }
            }
        }
        (0..).zip(&tenants.books).try_for_each(|(group, books)| self.check_due(group, books))
    }

    /// The part of I-7 about accounts: each tenant has what is due to it.
    fn check_due(&self, group: u32, books: &Books) -> Result<(), Violation> {
        let each: Vec<u32> = books.accounts().iter().map(|account| account.allocated).collect();
        let due = self.due_in(group);
        if each != due {
            let what = format!("in group {group} tenants have {each:?} units, and {due:?} are due to them");
            return Err(Violation { invariant: "I-7", what });
        }
        Ok(())
    }

    /// The part of I-7 about erased units: all of a group's are some tenant's, or nobody's, and each tenant has what is due to it.
    fn check_erased(
        &self,
        group: u32,
        books: &Books,
        erased: &[u32],
        free: &std::collections::BTreeSet<BlockId>,
    ) -> Result<(), Violation> {
        let there =
            self.blocks.layout().plane_blocks(group).filter(|block| free.contains(block)).count() as u32;
        let good = self.blocks.good_blocks(group * self.blocks.pools_per_plane());
        self.check_due(group, books)?;
        let given: u32 = books.accounts().iter().map(|account| account.allocated).sum();
        let owned: u32 = erased.iter().sum();
        if given > good || owned + (good - given) != there {
            let what = format!(
                "group {group} has {there} erased units, of which tenants have {owned}; {given} of {good} were given to them"
            );
            return Err(Violation { invariant: "I-7", what });
        }
        Ok(())
    }

    /// Units of all groups that a tenant was given.
    fn units_of(&self, tenant: usize) -> u64 {
        let Some(tenants) = self.tenants.as_deref() else { return 0 };
        if tenants.books.is_empty() {
            let layout = self.blocks.layout();
            let own = (0..layout.planes).filter(|&group| tenants.has_group(group, tenant));
            return own.map(|group| u64::from(layout.blocks - self.blocks.bad_in(group))).sum();
        }
        tenants.books.iter().map(|books| u64::from(books.accounts()[tenant].allocated)).sum()
    }

    /// Puts in the figures of tenants, or counts them anew.
    pub fn report_tenants(&mut self, report: &mut Report) {
        match self.tenants.as_deref() {
            Some(tenants) if report.wants_counters() => self.put_tenant_counters(tenants, report),
            _ => {}
        }
        if report.begins_anew()
            && let Some(tenants) = self.tenants.as_deref_mut()
        {
            tenants.counts.fill(Counts::default());
            tenants.victims.reset();
            (tenants.demands, tenants.moved_most) = (0, 0);
        }
    }

    fn put_tenant_counters(&self, tenants: &Tenants, report: &mut Report) {
        let mut put = |name, value| report.put(name, value);
        let sum = |of: fn(&Counts) -> u64| tenants.counts.iter().map(of).sum::<u64>();
        put("units_lent", sum(|c| c.lent));
        put("units_demanded", tenants.demands);
        put("collections_forced_by_lenders", sum(|c| c.forced));
        put("demand_pages_moved_max", tenants.moved_most);
        put("units_returned_while_idle", sum(|c| c.returned));
        let pages = 1 << self.host.page.bits;
        let endurance = u128::from(self.blocks.wear_rules().endurance);
        for (tenant, (names, count)) in NAMES.iter().zip(&tenants.counts).enumerate() {
            let accounts = || tenants.books.iter().map(|books| books.accounts()[tenant]);
            put(names[0], count.written * pages);
            put(names[1], count.moved);
            put(names[2], count.erases * u64::from(self.exec.units().width()));
            if endurance > 0 && count.erases > 0 {
                // Until the cycles of what it was given are used up, lent or not.
                let cycles = endurance * u128::from(self.units_of(tenant));
                let bytes = u128::from(count.written * pages) * cycles / u128::from(count.erases);
                put(names[9], bytes.min(u128::from(u64::MAX)) as u64);
            }
            if !tenants.books.is_empty() {
                put(names[3], accounts().map(|a| u64::from(a.allocated)).sum());
                put(names[4], accounts().map(|a| u64::from(a.lent)).sum());
                put(names[5], accounts().map(|a| u64::from(a.borrowed)).sum());
                put(names[6], count.borrowed);
                put(names[7], count.forced);
                put(names[8], accounts().map(|a| u64::from(a.contribution)).sum());
            }
        }
        (0..tenants.len()).for_each(|tenant| tenants.victims.put(tenant, report));
    }
}

macro_rules! names {
    ($($n:literal)*) => {
        [$([
            concat!("tenant_", $n, "_host_bytes_written"),
            concat!("tenant_", $n, "_gc_pages_moved"),
            concat!("tenant_", $n, "_block_erases"),
            concat!("tenant_", $n, "_units_allocated"),
            concat!("tenant_", $n, "_units_lent_now"),
            concat!("tenant_", $n, "_units_borrowed_now"),
            concat!("tenant_", $n, "_units_borrowed"),
            concat!("tenant_", $n, "_collections_forced"),
            concat!("tenant_", $n, "_units_contributed"),
            concat!("tenant_", $n, "_lifetime_host_bytes"),
        ]),*]
    };
}

/// Names of each tenant's counters.
const NAMES: [[&str; 10]; TENANTS_MAX] = names!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
