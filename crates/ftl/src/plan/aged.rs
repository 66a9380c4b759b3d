//! The state of a drive that was overwritten at random for long, computed: [`Precondition::Aged`].
//!
//! The steady state of the drive's own policy says how many valid pages each block has, in the order of opening
//! ([`crate::age`]). The blocks of all planes are laid out in that order, oldest first, and which logical page lies where follows
//! by rule ([`crate::aged`]). So every page carries the number of its program, versions grow younger with it, and a start
//! after a power cut finds what it would find on a drive that was really used. Each plane keeps the erased blocks of the
//! steady state and one block open for the host, half full.
//!
//! *Tenants* that are kept apart are aged one by one, each in the units that it was given. Nothing is lent, and units that nobody was given are erased.
//!
//! A large drive with a map in RAM keeps the rule: no page has an entry before it is written again, so that a drive of 1 TB is ready
//! when the steady state is known and takes memory for what is touched. Elsewhere map and owners are entered page by page.
//!
//! The seed of the run fixes everything. Blocks count no erases: ageing is not wear. Cost: the steady state of a small plane, a step for
//! each block, and for tables some hundred instructions for each page.
//!
//! [`Precondition::Aged`]: nandu_base::Precondition::Aged

use super::{Flash, Planner};
use crate::Lpn;
use crate::age::{Ageing, Steady};
use crate::aged::{Aged, Laid, Version};
use crate::blocks::Content;
use crate::filled::Initial;
use crate::gc::GcPolicy;
use crate::mapping::Mapping;
use nandu_base::{BuildError, Cx, Oob, Program, Window};
use std::sync::Arc;

/// Logical pages that are aged by themselves: all, or a tenant's.
struct Region {
    /// Where they lie.
    pools: Vec<u32>,
    logical: u32,
    /// Erased blocks of each pool in steady state.
    free: u32,
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Lays an aged drive out. `policy` is one like the drive's own.
    pub fn age(&mut self, policy: &mut dyn GcPolicy, free: u32, seed: u64) -> Result<(), BuildError> {
        if self.tenants.is_some() {
            self.age_tenants(policy, free, seed)?;
        } else {
            let planes = (0..self.blocks.planes.len() as u32).collect();
            let (blocks, aged) =
                self.age_pools(&Region { pools: planes, logical: self.host.logical, free }, policy, seed)?;
            let aged = Arc::new(aged);
            let initial: Arc<dyn Initial> = Arc::clone(&aged) as _;
            if self.host.logical >= self.host.by_rule_from && self.map.begin_as(&initial) {
                self.begin_as(&initial, &blocks);
            } else {
                self.enter(0, &aged);
            }
            self.aged = Some(aged);
        }
        self.filled_to = self.seq;
        self.fill_map();
        Ok(())
    }

    /// The same of each tenant's range by itself, in the pools that are its own. Nothing is lent.
    fn age_tenants(&mut self, policy: &mut dyn GcPolicy, free: u32, seed: u64) -> Result<(), BuildError> {
        let tenants = self.tenants.as_deref().expect("only asked for on a drive with tenants");
        let groups = self.blocks.layout().planes;
        let region = |tenant: usize| {
            let own = (0..groups).filter(|&group| tenants.has_group(group, tenant));
            let pools: Vec<u32> = own.map(|group| tenants.pool(group, tenant)).collect();
            let part = tenants.table.parts()[tenant];
            let free = pools.first().map_or(free, |&pool| tenants.steady_free(pool, free));
            (part.first, Region { pools, logical: part.live, free })
        };
        let regions: Vec<(u32, Region)> = (0..tenants.len()).map(region).collect();
        for (tenant, (first, region)) in (0u64..).zip(regions).filter(|(_, (_, region))| region.logical > 0) {
            let (_, aged) = self.age_pools(&region, policy, seed.wrapping_add(tenant))?;
            self.enter(first, &aged);
            self.tenants.as_deref_mut().expect("just looked").aged.push((first, aged));
        }
        Ok(())
    }

    /// Lays a region out in its pools, each of which gets the blocks of its steady state.
    fn age_pools(
        &mut self,
        region: &Region,
        policy: &mut dyn GcPolicy,
        seed: u64,
    ) -> Result<(Vec<Laid>, Aged), BuildError> {
        let refuse = || BuildError::at("spare_factor", "too little is spare for a drive that is aged");
        let (shares, free) = (self.valid_by_pool(region), region.free);
        let pages = self.blocks.layout().pages;
        let mut counts: Vec<Vec<u16>> = Vec::new();
        let mut known: Option<(Ageing, Steady)> = None;
        for (&pool, &valid) in region.pools.iter().zip(&shares) {
            let pool = &self.blocks.planes[pool as usize];
            let ageing = Ageing { blocks: pool.free, pages, valid, free, separate: self.host.separate };
            // Planes that differ by a page or a bad block are in one state.
            let is_like = |(other, _): &&(Ageing, Steady)| {
                other.blocks.abs_diff(ageing.blocks) * 50 <= ageing.blocks
                    && other.valid.abs_diff(valid) * 50 <= valid
            };
            if known.as_ref().filter(is_like).is_none() {
                known = Some((ageing, ageing.steady(policy, seed).ok_or_else(refuse)?));
            }
            let (_, steady) = known.as_ref().ok_or_else(refuse)?;
            let full = pool.free.checked_sub(free + 1).ok_or_else(refuse)?;
            counts.push(steady.scaled(full, valid.saturating_sub(pages / 2), pages).ok_or_else(refuse)?);
        }
        let blocks = self.lay_out(region, &counts, &shares);
        let aged = Aged::new(*self.blocks.layout(), &blocks, region.logical, seed).ok_or_else(refuse)?;
        Ok((blocks, aged))
    }

    /// The host's pages over the pools, by what they may hold.
    fn valid_by_pool(&self, region: &Region) -> Vec<u32> {
        let pools =
            || region.pools.iter().map(|&pool| u64::from(self.blocks.planes[pool as usize].valid_max));
        let (logical, room) = (u64::from(region.logical), pools().sum::<u64>().max(1));
        let mut before = 0;
        let share = |most: u64| {
            let from = before * logical / room;
            before += most;
            (before * logical / room - from) as u32
        };
        pools().map(share).collect()
    }

    /// Opens the blocks in order: full ones of all pools in turn, then those that stay open.
    fn lay_out(&mut self, region: &Region, counts: &[Vec<u16>], shares: &[u32]) -> Vec<Laid> {
        let layout = *self.blocks.layout();
        let pages = layout.pages;
        let mut blocks = Vec::new();
        let mut seq = self.seq;
        let in_full: Vec<u32> =
            counts.iter().map(|counts| counts.iter().map(|&v| u32::from(v)).sum()).collect();
        let rows = counts.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..=rows {
            for (at, (counts, &pool)) in counts.iter().zip(&region.pools).enumerate() {
                let (written, valid) = match counts.get(row) {
                    Some(&valid) => (pages, u32::from(valid)),
                    // All pages of the open block are valid.
                    None if row == rows => {
                        let rest = shares[at] - in_full[at];
                        (rest, rest)
                    }
                    None => continue,
                };
                let Some(mut cursor) = self.blocks.open_free(pool, seq + 1) else { continue };
                let block = cursor.block(&layout);
                cursor.skip(written);
                seq += u64::from(written);
                blocks.push(Laid { block, written, valid });
                if row == rows {
                    self.blocks.planes[pool as usize].host = cursor;
                }
            }
        }
        blocks
    }

    /// Takes the counters of the blocks that were laid out; what lies on their pages is known by rule.
    fn begin_as(&mut self, initial: &Arc<dyn Initial>, blocks: &[Laid]) {
        self.blocks.begin_as(initial);
        for &Laid { block, written, valid } in blocks {
            self.seq += u64::from(written);
            self.blocks.begin_with_invalid(block, written - valid);
            let plane = self.blocks.layout().plane_of_block(block) as usize;
            self.blocks.planes[plane].valid += valid;
        }
    }

    /// Puts map and counters into the state that was laid out, of the pages from `first` on.
    fn enter(&mut self, first: u32, aged: &Aged) {
        aged.pages(|ppn, version| {
            self.seq += 1;
            match version {
                Version::Newest(lpn) => {
                    let lpn = Lpn(first + lpn.0);
                    self.map.set(lpn, ppn);
                    self.blocks.programmed(ppn, Content::Data(lpn));
                    let pool = self.blocks.pool_of_page(ppn) as usize;
                    self.blocks.planes[pool].valid += 1;
                }
                // Of a tenant's range that may go it must be known where versions of its pages lie.
                Version::Old(lpn) if self.tenants.is_some() && !self.has_map_pages() => {
                    self.blocks.old_page(ppn, Lpn(first + lpn.0));
                }
                Version::Old(_) => self.blocks.waste_page(ppn),
            }
        });
    }

    /// Puts the pages that were laid out on the medium, those of the logical pages from `first` on: zeros. Returns the number of the last
    /// one, `seq` being that of the one before.
    pub(super) fn store_aged(&self, first: u32, mut seq: u64, aged: &Aged, cx: &mut Cx<'_>) -> u64 {
        let Some(medium) = cx.medium.as_deref_mut() else { return seq };
        let window = Window::PAST;
        aged.pages(|ppn, version| {
            seq += 1;
            let (Version::Newest(lpn) | Version::Old(lpn)) = version;
            let oob = Oob { key: u64::from(first + lpn.0), seq };
            let unit = self.exec.unit(ppn);
            medium.program(cx.pool, &Program { unit, base: None, overlay: None, oob, window });
        });
        seq
    }

    /// The same of tenants that begin aged; false when none does.
    pub(super) fn store_aged_tenants(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(tenants) = self.tenants.as_deref_mut() else { return false };
        let aged = std::mem::take(&mut tenants.aged);
        aged.iter().fold(0, |seq, (first, aged)| self.store_aged(*first, seq, aged, cx));
        !aged.is_empty()
    }
}
