//! Static wear levelling, the end of a drive's life, and the figures of wear.
//!
//! Data that never changes keeps its blocks from wearing while the others wear out. So of the blocks that
//! a plane clears, some are cleared for their wear; when one may be, and which, says a policy ([`crate::wear`]). The pages of
//! such a block move to the most worn erased block, and nothing else does: among hot pages they would keep their blocks from ever being empty, which on a
//! small drive doubled the moves. The freed block takes hot data from then on. A block of the map is cleared for its wear like any
//! other; the blocks of checkpoints are not.
//!
//! This gains no room, so it happens only while the plane has two free blocks and has gained as many pages as a block has since
//! the last time, and is paced like collection: four moves after each page of the host. Without the second condition a write
//! that waits for room would wait until all blocks are level, however little each of them differs.
//!
//! *Tenants* with units of their own level their own data when they clear. All erased units of a group lie in one list, so that units that are
//! written often go round among all tenants; but one that only keeps data keeps its units from it. With `across_tenants` the turn goes to a unit
//! of another tenant, which the policy names, where there is none of one's own: pages of one tenant move because another has written, which S3-15
//! rules out, and that is paid for as often as a unit of one's own. Cold is then what was opened before as many programs as the drive has pages: units that come from others are little worn
//! and hot. It is charged to the one who wrote.
//!
//! *Lifetime*: the host's bytes until the endurance is used up, from the bytes and erases since the counters were reset: once
//! as if all blocks wore alike, and once at the measured spread, the most worn block being the first to go. A short run knows
//! little about the spread.
//!
//! Own design. Cost: one pass over the plane's blocks for each block that may be cleared for its wear, and the policy's own.

use super::{Flash, Planner};
use crate::BlockId;
use crate::mapping::Mapping;
use crate::wear::{Standing, WearPolicy, WearView, Worn};
use nandu_base::{Cx, Report, TenantId, WearRegion};

/// When static levelling acts, and the policy that says which block is cleared.
pub struct Leveller {
    policy: Box<dyn WearPolicy>,
    /// Pages that clearing has gained in each plane since one was cleared for its wear.
    gained: Vec<u64>,
    /// Blocks cleared for their wear since the counters were reset.
    count: u64,
    /// Whether one of another tenant may be cleared.
    is_across: bool,
    /// Of `count`, those of another tenant.
    pub others: u64,
    /// Memory for the blocks that the policy is shown.
    seen: Vec<Worn>,
}

impl Leveller {
    /// By this policy, in so many planes.
    pub fn new(policy: Box<dyn WearPolicy>, planes: u32) -> Leveller {
        Leveller {
            policy,
            gained: vec![0; planes as usize],
            count: 0,
            is_across: false,
            others: 0,
            seen: Vec::new(),
        }
    }

    /// The same that also clears blocks of tenants that write little, for the wear of those that write much.
    pub fn across(self, is_across: bool) -> Leveller {
        Leveller { is_across, ..self }
    }

    /// Clearing a block of the plane gains so many pages.
    pub fn gains(&mut self, plane: u32, pages: u32) {
        self.gained[plane as usize] += u64::from(pages);
    }

    /// Clearing the block that was begun last in the plane gains none.
    pub fn gains_nothing(&mut self, plane: u32) {
        self.gained[plane as usize] = 0;
    }

    /// A block was cleared for its wear.
    pub fn levelled(&mut self) {
        self.count += 1;
    }

    /// Tells the policy of a block of `pages` pages that is to be cleared; whether one may be cleared for its wear, which is paid for then.
    pub fn is_due(&mut self, plane: u32, pages: u32) -> bool {
        let is_paid = self.gained[plane as usize] >= u64::from(pages);
        let is_due = self.policy.is_due(plane, is_paid) && is_paid;
        if is_due {
            self.gained[plane as usize] = 0;
        }
        is_due
    }

    /// Whether blocks that were erased so often have worn so much alike that none is cleared for its wear.
    pub(super) fn is_level(&self, erases: impl Iterator<Item = u32>) -> bool {
        let (least, most) = erases.fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        least <= most && self.policy.is_level(least, most)
    }

    /// Memory for the blocks that [`victim`](Leveller::victim) is shown.
    pub(super) fn memory(&mut self) -> Vec<Worn> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        seen
    }

    /// The block that is cleared for its wear. The memory of `seen` is kept.
    ///
    /// # Panics
    ///
    /// When the policy names one that must not be moved.
    pub(super) fn victim(&mut self, pool: u32, seen: Vec<Worn>) -> Option<BlockId> {
        self.seen = seen;
        let place = self.policy.victim(WearView { pool, blocks: &self.seen })?;
        let victim = self.seen.get(place).filter(|worn| worn.standing == Standing::Movable);
        let Some(victim) = victim else {
            panic!("the policy of wear levelling names block {place} of pool {pool}, which must not be moved")
        };
        Some(victim.block)
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The block of the plane to clear for its wear, now that one is to be cleared. One of the map is cleared at once.
    pub(super) fn cold_victim(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) -> Option<BlockId> {
        let p = self.blocks.planes[plane as usize];
        let layout = *self.blocks.layout();
        if p.free < 2 || self.is_debtor(plane) || !self.leveller.is_due(plane, layout.pages) {
            return None;
        }
        if self.leveller.is_level(self.blocks.erases_of_plane(plane)) {
            return None;
        }
        let mut seen = self.leveller.memory();
        let gathered = self.paging.gatherer.open_in(plane, &layout).unwrap_or(BlockId(u32::MAX));
        let open = [p.host.block(&layout), p.moved.block(&layout), gathered];
        let paging = &self.paging;
        let is_open = |block: BlockId| {
            let is_stream = || self.blocks.open_streams(plane).any(|open| open == block);
            open.contains(&block) || paging.is_anchor(block) || paging.area.is_open(block) || is_stream()
        };
        // Across tenants units that nobody has worn come to those that write: little worn does not mean cold there.
        let is_hot = |block: BlockId| self.leveller.is_across && self.is_young(block);
        let may =
            |block: BlockId| self.blocks.pool_of_block(block) == plane && !is_open(block) && !is_hot(block);
        seen.extend(self.blocks.wear_of_plane(plane, may));
        let own = self.leveller.victim(plane, seen);
        if own.is_none() && self.leveller.is_across {
            self.level_another(plane, cause, cx);
        }
        let block = own?;
        self.leveller.levelled();
        if self.paging.area.owns(block) {
            self.clear_map_block(block, cause, cx);
            return None;
        }
        Some(block)
    }

    /// Whether less was programmed since a block was opened than the drive has.
    fn is_young(&self, block: BlockId) -> bool {
        self.seq.saturating_sub(self.blocks.oldest(block)) < self.blocks.layout().real_pages()
    }

    /// Clears a unit of another tenant of the same planes for its wear, at once, so that it takes part in the wear. It must have two erased
    /// units, owe nothing and not be clearing anything.
    fn level_another(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let layout = *self.blocks.layout();
        let mut seen = self.leveller.memory();
        let is_open = |block: BlockId| {
            let pool = self.blocks.pool_of_block(block);
            let p = &self.blocks.planes[pool as usize];
            [p.host, p.moved].iter().any(|open| !open.is_full() && open.block(&layout) == block)
                || self.blocks.open_streams(pool).any(|open| open == block)
                || self.paging.gatherer.open_in(pool, &layout) == Some(block)
                || self.paging.area.is_open(block)
        };
        let may_not = |block: BlockId| is_open(block) || self.is_young(block);
        let may = |other: u32| {
            let p = &self.blocks.planes[other as usize];
            p.free >= 2 && !p.clearing && !self.is_debtor(other)
        };
        let is_anothers = |block: BlockId| {
            let owner = self.blocks.pool_of_block(block);
            owner != pool && !may_not(block) && may(owner)
        };
        seen.extend(self.blocks.wear_of_plane(pool, is_anothers));
        let Some(block) = self.leveller.victim(pool, seen) else { return };
        let other = self.blocks.pool_of_block(block);
        // One that is full is open no more.
        self.blocks.close_full(other);
        self.leveller.levelled();
        self.leveller.others += 1;
        if self.paging.area.owns(block) {
            return self.clear_map_block(block, cause, cx);
        }
        self.begin_clearing(other, block);
        let to = self.blocks.open_free_most_worn(other, self.seq + 1);
        let to = to.expect("a block is cleared for its wear while two are free");
        self.exec.opened(to);
        self.clearing[other as usize].to = to;
        self.clear_whole_block(other, cause, cx);
    }

    /// Pages programmed since the counters were reset.
    pub fn programmed(&self) -> u64 {
        let c = &self.count;
        let beside = c.journal_pages + self.programmed_by_map();
        c.host_pages_written + c.pages_moved + beside + self.paging.programmed()
    }

    /// Pages programmed and blocks erased since the counters were reset.
    pub fn counted(&self) -> (u64, u64) {
        let units = self.count.erases + self.paging.erased();
        (self.programmed(), units * u64::from(self.exec.units().width()))
    }

    /// All blocks: those of the map change places with those of data, so that they wear together.
    pub fn wear_region(&self) -> WearRegion {
        let layout = self.blocks.layout();
        let good = || layout.all_blocks().filter(|&block| !self.blocks.is_bad(block));
        let erases = |block| self.blocks.cycles(block);
        let blocks = good().count() as u64;
        let bits = (blocks * u64::from(layout.pages)) << (self.host.page.bits + 3);
        WearRegion {
            region: "flash",
            bits_per_cell: self.host.bits_per_cell,
            cells: bits / u64::from(self.host.bits_per_cell),
            blocks,
            endurance: self.blocks.wear_rules().endurance,
            erases: self.cycles_spent(),
            erases_ever: match self.slc {
                None => self.erases_ever,
                Some(_) => layout.all_blocks().map(|block| u64::from(erases(block))).sum(),
            },
            erases_most: good().map(erases).max().unwrap_or(0),
        }
    }

    /// The same blocks as far as SLC mode wears them. Their cells are counted where they belong.
    pub fn slc_region(&self) -> Option<WearRegion> {
        let rules = self.blocks.slc_rules()?;
        let layout = self.blocks.layout();
        let good = || layout.all_blocks().filter(|&block| !self.blocks.is_bad(block));
        Some(WearRegion {
            region: "flash in SLC mode",
            bits_per_cell: 1,
            cells: 0,
            blocks: good().count() as u64,
            endurance: rules.endurance,
            erases: self.slc_erases_counted(),
            erases_ever: self.blocks.slc_erases_ever(),
            erases_most: good().map(|block| self.blocks.slc_erases(block)).max().unwrap_or(0),
        })
    }

    /// Cycles of blocks since the counters were reset: erases, those that ended SLC mode weighed.
    fn cycles_spent(&self) -> u64 {
        let erases = self.count.erases + self.paging.erased();
        let Some(rules) = self.blocks.slc_rules() else { return erases };
        let (slc, own) = (self.slc_erases_counted(), self.blocks.wear_rules().endurance);
        let weighed = (u128::from(slc) * u128::from(own)).div_ceil(u128::from(rules.endurance));
        erases - slc + weighed.min(u128::from(slc)) as u64
    }

    /// Puts in how its blocks wear and how long they last, or counts anew.
    pub fn report_wear(&mut self, report: &mut Report) {
        if report.wants_counters() {
            self.put_wear_counters(report);
        }
        report.restart(&mut self.leveller.count);
        report.restart(&mut self.leveller.others);
    }

    fn put_wear_counters(&self, report: &mut Report) {
        let layout = self.blocks.layout();
        let good = || layout.all_blocks().filter(|&block| !self.blocks.is_bad(block));
        let most = good().map(|block| self.blocks.erases(block)).max().unwrap_or(0);
        let least = good().map(|block| self.blocks.erases(block)).min().unwrap_or(0);
        report.put("erase_count_max", u64::from(most));
        report.put("erase_count_min", u64::from(least));
        report.put("wl_blocks_relocated", self.leveller.count);
        if self.tenants.is_some() {
            report.put("wl_blocks_relocated_across_tenants", self.leveller.others);
        }
        let bad = (0..layout.planes).map(|plane| u64::from(self.blocks.bad_in(plane))).sum();
        report.put("bad_blocks", bad);
        report.put("is_worn_out", u64::from(self.blocks.has_ended()));
        let endurance = u128::from(self.blocks.wear_rules().endurance);
        let erases = u128::from(self.cycles_spent());
        let host = u128::from(self.count.host_pages_written) << self.host.page.bits;
        let blocks = good().count() as u128;
        if endurance > 0 && erases > 0 {
            let clip = |bytes: u128| bytes.min(u128::from(u64::MAX)) as u64;
            report.put("lifetime_host_bytes", clip(host * endurance * blocks / erases));
            // All blocks end when the most worn one does: the drive gets the mean over the most of its endurance.
            let (ever, most) = (u128::from(self.erases_ever), u128::from(most.max(1)));
            report.put("lifetime_host_bytes_at_spread", clip(host * endurance / erases * ever / most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Always due, and always the block at this place.
    struct Always(usize);

    impl WearPolicy for Always {
        fn is_due(&mut self, _pool: u32, _is_paid: bool) -> bool {
            true
        }

        fn victim(&mut self, _view: WearView<'_>) -> Option<usize> {
            Some(self.0)
        }
    }

    #[test]
    fn a_block_is_due_once_clearing_has_gained_as_much() {
        let mut leveller = Leveller::new(Box::new(Always(0)), 2);
        leveller.gains(1, 7);
        assert!(!leveller.is_due(1, 8), "seven pages of eight");
        leveller.gains(1, 1);
        assert!(!leveller.is_due(0, 8), "another plane has gained them");
        assert!(leveller.is_due(1, 8));
        assert!(!leveller.is_due(1, 8), "they are spent");
    }

    #[test]
    fn a_policy_that_names_what_must_stay_is_stopped() {
        let standings = [Standing::Movable, Standing::Kept, Standing::Bad];
        let blocks: Vec<Worn> = (64..)
            .zip(standings)
            .map(|(block, standing)| Worn { block: BlockId(block), erases: 0, standing })
            .collect();
        let named = |place| Leveller::new(Box::new(Always(place)), 1).victim(0, blocks.clone());
        assert_eq!(named(0), Some(BlockId(64)));
        for place in [1, 2, 3, usize::MAX] {
            assert!(catch_unwind(AssertUnwindSafe(|| named(place))).is_err(), "place {place}");
        }
    }
}
