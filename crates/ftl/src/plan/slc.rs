//! An SLC-mode cache: the host's pages go to blocks with one bit per cell first, and are folded into the chip's own mode later.
//!
//! A block that is opened for the host is opened in SLC mode while the cache has room ([`crate::SlcRules`]): it is programmed and
//! read in the times of SLC mode and holds a half, a third or a quarter of the pages. There is no second map: a page is where
//! the map says, and the mode of its block says how it is read. *Folding* is clearing a block that is in SLC mode: its valid pages
//! move to the plane's block for moved pages, which is never in SLC mode, and the block is erased when they are durable. So all that
//! holds of collection holds of folding: pace, charges, power cuts, the write amplification.
//!
//! *Size*, in blocks of each plane. The *static* part is there whatever the drive holds; its blocks are taken from what is spare.
//! The *dynamic* part borrows a share of the blocks that the drive could still fill with data (what a plane may hold less what is
//! valid in it, in whole blocks of the chip's own mode), while that does not make collection begin: it shrinks as the drive fills. With a
//! share of 1 an empty plane of `M` blocks for data and `b` bits per cell takes `n` blocks, the smallest number with
//! `n >= M - n / b` (the last term rounded up), so that what the cache holds could still be folded without erasing a block first. Which blocks are the cache's changes with
//! each erase, so that all wear alike.
//!
//! *When it is full*, the next block is opened in the chip's own mode (`through`: the write cliff of a drive that goes on beside its
//! cache), or the oldest blocks of the cache are folded first (`fold`: each page written is followed by one moved, so the host gets
//! what folding leaves). *While the drive is idle* its planes fold, oldest block first, from one share of the cache in use down to
//! another. *When free blocks run short*, collection takes blocks of the dynamic part like any others, and they gain most; those
//! of the static part are passed over.
//!
//! *Tenants* that are kept apart have a cache each: the static part of a tenant's is the cache's as its units are to all units, one at least; its dynamic
//! part follows from what it may still fill. Who writes into it folds it, and what is folded while the drive is idle is charged to the one that wrote last to the tenant's
//! range. Who owes units opens none in SLC mode, and its static part is collected like any others: so the bound of lending holds as it is.
//!
//! *Power cuts*: the record of each page says that it was programmed in SLC mode ([`Oob::SLC`]), and a start gives every block the mode
//! that its pages have; all of a block must agree. A block of the cache that was open is closed. If no page of a block can be read, it is
//! taken as one of the chip's own mode, in which nothing readable contradicts that.
//!
//! Own design after what makers say of their drives (TurboWrite, dynamic write acceleration); spec W4-6. Not modelled: folding inside the
//! chip without crossing the channel, and that a chip folds whole word lines. Cost: a look at the block's mode for each page; for each block that is
//! folded a pass over the plane's blocks. RAM: 5 bytes per block.

use super::{Flash, Planner};
use crate::mapping::Mapping;
use crate::{BlockId, Cursor, Ppn};
use nandu_base::{BuildContext, Cx, Oob, Ratio, Report, TenantId, Violation};

/// What was settled from the options.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Share of the blocks that could still be filled which it may borrow.
    pub borrows: Ratio,
    /// Whether the host's pages wait for room in it.
    pub folds_when_full: bool,
    /// Whether it is folded while the drive is idle.
    pub folds_idle: bool,
    /// Shares of the cache in use from which on, and down to which, an idle drive folds.
    pub fold_start: Ratio,
    /// Down to which one it folds.
    pub fold_stop: Ratio,
    /// Whether pages move a few at a time.
    pub is_paced: bool,
}

/// Faults to plant.
#[derive(Clone, Copy, Default, Debug)]
struct Planted {
    mode_not_recorded: bool,
    mode_forgotten: bool,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    folds_waited: u64,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct SlcCache {
    plan: Plan,
    /// Blocks of each pool that are the cache's.
    fixed: Vec<u32>,
    /// Whether each pool is being folded because the drive is idle.
    folding: Vec<bool>,
    count: Counts,
    planted: Planted,
}

impl SlcCache {
    /// A cache with so many blocks of each pool for its own.
    pub fn new(plan: Plan, fixed: Vec<u32>, cx: &BuildContext<'_>) -> SlcCache {
        let planted = Planted {
            mode_not_recorded: cx.planted("ssd.slc-mode-not-recorded"),
            mode_forgotten: cx.planted("ssd.slc-mode-forgotten"),
        };
        SlcCache { plan, folding: vec![false; fixed.len()], fixed, count: Counts::default(), planted }
    }

    /// A pool has so many blocks for the cache from here on.
    pub fn set_fixed(&mut self, pool: u32, blocks: u32) {
        self.fixed[pool as usize] = blocks;
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Whether a page lies in a block in SLC mode.
    #[inline]
    pub fn is_slc(&self, ppn: Ppn) -> bool {
        self.slc.is_some() && self.blocks.is_slc(self.blocks.layout().block(ppn))
    }

    /// Blocks of a pool that the cache may have now.
    fn slc_limit(&self, pool: u32) -> u32 {
        let Some(slc) = &self.slc else { return 0 };
        if self.is_debtor(pool) {
            return 0;
        }
        let p = &self.blocks.planes[pool as usize];
        let unused = p.valid_max.saturating_sub(p.valid) / self.blocks.layout().pages;
        slc.fixed[pool as usize] + slc.plan.borrows.of(u64::from(unused)) as u32
    }

    /// Whether the next block of the host is opened in SLC mode.
    fn opens_in_slc(&self, pool: u32) -> bool {
        let Some(slc) = &self.slc else { return false };
        let (count, free) = (self.blocks.slc_blocks(pool), self.blocks.planes[pool as usize].free);
        // One more than when collection begins: this block is about to be taken.
        let borrows = free > self.host.gc_start.max(self.host.urgent) + 1;
        let limit = self.slc_limit(pool);
        count < slc.fixed[pool as usize].min(limit) || count < limit && borrows
    }

    /// Before a block is opened for the host: folds until there is room for another, where the host waits for that.
    pub(super) fn make_slc_room(&mut self, pool: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let waits = self.slc.as_ref().is_some_and(|slc| slc.plan.folds_when_full);
        if !waits {
            return;
        }
        while self.blocks.slc_blocks(pool) >= self.slc_limit(pool) && self.slc_limit(pool) > 0 {
            if !self.blocks.planes[pool as usize].clearing && !self.begin_fold(pool, None) {
                return;
            }
            if let Some(slc) = &mut self.slc {
                slc.count.folds_waited += 1;
            }
            self.clear_whole_block(pool, cause, cx);
        }
    }

    /// Opens an erased block for the host's pages, in the mode that is right.
    pub(super) fn open_for_host(&mut self, pool: u32) -> Option<Cursor> {
        if self.slc.is_none() || !self.opens_in_slc(pool) {
            return self.blocks.open_free(pool, self.seq + 1);
        }
        let cursor = self.blocks.open_free_in_slc(pool, self.seq + 1)?;
        let opened = cursor.block(self.blocks.layout());
        let Some(slc) = &self.slc else { return Some(cursor) };
        let is_last = self.blocks.slc_blocks(pool) >= self.slc_limit(pool);
        if slc.plan.folds_when_full && slc.plan.is_paced && is_last {
            let is_clearing = self.blocks.planes[pool as usize].clearing;
            if !is_clearing && self.begin_fold(pool, Some(opened)) {
                // As many pages move after each page of the host's as fold the block while the new one fills.
                self.pace_fold(pool, self.blocks.slc_rules().map_or(1, |rules| rules.pages));
            }
        }
        Some(cursor)
    }

    /// Begins to fold the oldest block of the cache that is not being written and not `opened`; false when there is none, or no room for its
    /// pages.
    pub(super) fn begin_fold(&mut self, pool: u32, opened: Option<BlockId>) -> bool {
        let layout = *self.blocks.layout();
        let host = Some(self.blocks.planes[pool as usize].host).filter(|host| !host.is_full());
        let host = host.map(|host| host.block(&layout));
        let is_open = |block| {
            let is_stream = || self.blocks.open_streams(pool).any(|open| open == block);
            Some(block) == host || Some(block) == opened || is_stream()
        };
        let Some(oldest) = self.blocks.oldest_slc(pool, is_open) else { return false };
        // Who has given its last erased unit back to its lender keeps room for the emptiest of its units, which need not be this one.
        let valid = layout.pages - u32::from(self.blocks.invalid(oldest));
        if u64::from(valid + 1) > self.blocks.room_of(pool) {
            return false;
        }
        if self.tenants.is_some() {
            // One that is full is open no more, and not to be counted as held when it is erased.
            self.blocks.close(oldest);
        }
        self.begin_clearing(pool, oldest);
        true
    }

    /// The invalid pages of a pool's blocks as collection may see them: none in blocks of the static part.
    pub(super) fn hide_slc(&self, pool: u32, invalid: &mut [u16]) {
        let Some(slc) = &self.slc else { return };
        if self.blocks.slc_blocks(pool) > slc.fixed[pool as usize] || self.is_debtor(pool) {
            return;
        }
        let blocks = self.blocks.layout().plane_blocks(self.blocks.plane_of_pool(pool));
        let slc = invalid.iter_mut().zip(blocks).filter(|(_, block)| self.blocks.is_slc(*block));
        slc.for_each(|(invalid, _)| *invalid = 0);
    }

    /// Whether an idle drive has something to fold in a pool; it is chosen then.
    pub fn is_worth_folding(&mut self, pool: u32) -> bool {
        let (used, limit) = (self.blocks.slc_blocks(pool), self.slc_limit(pool));
        let is_clearing = self.blocks.planes[pool as usize].clearing;
        let Some(slc) = &mut self.slc else { return false };
        if !slc.plan.folds_idle {
            return false;
        }
        let share = |of: Ratio| of.of(u64::from(limit.max(used))) as u32;
        let (from, to) = (share(slc.plan.fold_start), share(slc.plan.fold_stop));
        let folding = &mut slc.folding[pool as usize];
        *folding = if *folding { used > to } else { used > from };
        if !*folding {
            return false;
        }
        // What is being cleared already stands in the way.
        let is_busy = is_clearing || self.begin_fold(pool, None);
        if let Some(slc) = &mut self.slc {
            slc.folding[pool as usize] = is_busy;
        }
        is_busy
    }

    /// The mark of the mode in the record of a page that is programmed.
    pub(super) fn mode_mark(&self, ppn: Ppn) -> u64 {
        let is_forgotten = || {
            self.slc.as_ref().is_some_and(|slc| slc.planted.mode_not_recorded) && self.seq.is_multiple_of(16)
        };
        if self.is_slc(ppn) && !is_forgotten() { Oob::SLC } else { 0 }
    }

    /// Erases since the counters were reset that ended SLC mode.
    pub(super) fn slc_erases_counted(&self) -> u64 {
        self.exec.slc_erases()
    }

    /// The figures of the cache.
    /// Puts in the figures of the cache in SLC mode, or counts them anew.
    pub fn report_slc(&mut self, report: &mut Report) {
        let Some(slc) = &mut self.slc else { return };
        self.exec.report_slc(report);
        report.count("slc_folds_waited_for", &mut slc.count.folds_waited);
        report.restart(&mut slc.count);
        if report.wants_counters() {
            let pools = 0..self.blocks.planes.len() as u32;
            let sum = |of: &dyn Fn(u32) -> u32| pools.clone().map(|pool| u64::from(of(pool))).sum();
            report.put("slc_blocks", sum(&|pool| self.blocks.slc_blocks(pool)));
            report.put("slc_blocks_allowed", sum(&|pool| self.slc_limit(pool)));
        }
    }

    /// After a scan has found pages of a block with these marks of SLC mode and without: gives it its mode.
    pub(super) fn restore_mode(&mut self, block: BlockId, marked: u32, unmarked: u32) {
        let Some(slc) = &self.slc else { return };
        assert!(
            marked == 0 || unmarked == 0,
            "block_mode: {marked} pages of {block:?} say that they are in SLC mode, {unmarked} that they are not"
        );
        if marked > 0 && !slc.planted.mode_forgotten {
            self.blocks.restore_slc(block);
        }
    }

    /// The modes of blocks agree with what is in them.
    pub(super) fn check_modes(&self) -> Result<(), Violation> {
        match self.blocks.broken_modes() {
            Some(what) => Err(Violation { invariant: "block_mode", what }),
            None => Ok(()),
        }
    }
}
