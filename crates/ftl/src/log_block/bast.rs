//! BAST, block-associative sector translation: a log block takes the overwrites of one logical block.
//!
//! The first overwrite of a logical block opens its log block; its pages come in any order and are found by a page table
//! kept for log blocks only. When the log block is full, or the oldest log block must make room for another, it is merged:
//! switched when it is full and in order, partially when it is in order so far, else fully.
//!
//! Source: J. Kim, J. M. Kim, S. H. Noh, S. L. Min, Y. Cho, "A space-efficient flash translation layer for CompactFlash
//! systems", IEEE Trans. Consumer Electronics 48(2), 2002. Where we differ: victims are taken in the order of opening; a
//! page that has no place in its data block because flash takes pages in order goes to the log.
//!
//! Knobs: `log_blocks`; `use_free_blocks`, which lets blocks that no data needs serve as log blocks too. Cost: 4 bytes per block and
//! 2 per log page; a write costs at most one merge before it.

use super::merge::Merge;
use super::recover::Found;
use super::region::{NONE, Region};
use super::tag::Role;
use super::{DealtOptions, LogBlockOptions, LogBlocks, LogQuota, Step, Taken, Unmapped};
use nandu_base::{Declared, options};
use std::collections::VecDeque;

/// Options of `bast`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct BastConfig {
    /// Log blocks of each plane, or of each tenant's part of it.
    #[option(unset = "all blocks that are spare")]
    pub log_blocks: Option<u32>,
    /// Whether blocks that no data needs serve as log blocks too.
    #[option(default)]
    pub use_free_blocks: bool,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all log-block maps
    pub dealt: DealtOptions,
}

impl Declared for BastConfig {
    const NAME: &'static str = "bast";
    const SUMMARY: &'static str =
        "BAST: block map with log blocks, each for the overwrites of one logical block.";
    const SOURCE: &'static str = "Kim et al., IEEE TCE 48(2), 2002";
}

impl LogBlockOptions for BastConfig {
    fn dealt(&self) -> &DealtOptions {
        &self.dealt
    }

    fn lends(&self) -> Result<(), &'static str> {
        match self.use_free_blocks {
            true => Err(
                "with `use_free_blocks` every block that no data needs is a log block already: none is left to lend",
            ),
            false => Ok(()),
        }
    }

    fn quota(&self) -> LogQuota {
        LogQuota { wanted: self.log_blocks, least: 1, others: 0 }
    }

    fn of_pool(&self, region: Region, logs: u32) -> Box<dyn LogBlocks> {
        Box::new(Bast::new(region, logs, self.use_free_blocks))
    }
}

/// BAST, for one plane.
#[derive(Clone, Debug)]
pub struct Bast {
    region: Region,
    /// The log block of each logical block.
    log: Vec<u32>,
    /// Logical blocks with a log block, in the order of opening.
    order: VecDeque<u32>,
    logs_max: u32,
    borrow: bool,
    merge: Option<Merge>,
}

impl Bast {
    /// With `logs_max` log blocks. The region has at least so many blocks and one more than logical ones.
    pub fn new(region: Region, logs_max: u32, borrow: bool) -> Bast {
        let log = vec![NONE; region.shape().logical as usize];
        Bast { region, log, order: VecDeque::new(), logs_max, borrow, merge: None }
    }

    /// The oldest log block beside a data block: its merge gains a block. One without becomes a data block and gains none.
    fn cheapest(&self) -> Option<u32> {
        let has_data = |lbn: &&u32| self.region.data(**lbn) != NONE;
        self.order.iter().find(has_data).or(self.order.front()).copied()
    }

    /// Blocks that it cannot do without, whatever is written: those of the data, one log block, and one for a merge.
    fn least(&self) -> u32 {
        self.region.shape().logical + 2
    }

    fn begin_merge(&mut self, lbn: u32) {
        let log = std::mem::replace(&mut self.log[lbn as usize], NONE);
        self.order.retain(|&other| other != lbn);
        self.merge = Some(Merge::of(&mut self.region, lbn, log));
    }

    /// Whether a block may be opened; if not, the oldest log block is being merged. One block is always left for a merge.
    fn may_open(&mut self, is_log: bool) -> bool {
        let is_too_many = is_log && !self.borrow && self.order.len() as u32 >= self.logs_max;
        if !is_too_many && self.region.free() >= 2 {
            return true;
        }
        let oldest = *self.order.front().expect("a plane without log blocks has blocks to open");
        self.begin_merge(oldest);
        false
    }

    /// The log block of `lbn` with room for a page; `None` when a merge has begun.
    fn log_with_room(&mut self, lbn: u32) -> Option<u32> {
        let log = self.log[lbn as usize];
        if log != NONE {
            if self.region.is_full(log) {
                self.begin_merge(lbn);
                return None;
            }
            return Some(log);
        }
        if !self.may_open(true) {
            return None;
        }
        let log = self.region.open(Role::Log);
        self.log[lbn as usize] = log;
        self.order.push_back(lbn);
        Some(log)
    }
}

impl LogBlocks for Bast {
    fn region(&self) -> &Region {
        &self.region
    }

    fn region_mut(&mut self) -> &mut Region {
        &mut self.region
    }

    fn take(&mut self, page: u32) -> Option<Taken> {
        let pages = self.region.shape().pages;
        let (lbn, offset) = (page / pages, page % pages);
        let data = self.region.data(lbn);
        if self.log[lbn as usize] == NONE {
            if data != NONE && self.region.written(data) == offset {
                return Some(self.region.put(page, data));
            }
            if data == NONE && offset == 0 {
                if !self.may_open(false) {
                    return None;
                }
                let data = self.region.open(Role::Direct);
                self.region.set_data(lbn, data);
                return Some(self.region.put(page, data));
            }
        }
        let log = self.log_with_room(lbn)?;
        Some(self.region.put(page, log))
    }

    fn unmap(&mut self, first: u32, end: u32) -> Option<Unmapped> {
        if !self.region.any_mapped(first, end) {
            return Some(Unmapped::Nothing);
        }
        let log = self.log_with_room(first / self.region.shape().pages)?;
        Some(Unmapped::Mark(self.region.put_mark(first, end, log)))
    }

    fn step(&mut self) -> Option<Step> {
        let step = self.merge.as_mut()?.step(&mut self.region);
        if step.is_none() {
            self.merge = None;
        }
        step
    }

    fn is_merging(&self) -> bool {
        self.merge.is_some()
    }

    fn logs(&self) -> u32 {
        self.order.len() as u32
    }

    fn logs_max(&self) -> u32 {
        self.logs_max
    }

    fn room(&self) -> u32 {
        self.logs_max.saturating_sub(self.logs())
    }

    fn tidy(&mut self) -> bool {
        if let Some(&oldest) = self.order.front() {
            self.begin_merge(oldest);
        }
        self.is_merging()
    }

    fn rewrite(&mut self, lbn: u32) -> bool {
        if self.log[lbn as usize] == NONE {
            self.merge = Some(Merge::full(&mut self.region, lbn, NONE));
        }
        self.is_merging()
    }

    fn blocks_needed(&self) -> u32 {
        self.region.shape().logical + 3
    }

    fn free_needed(&self) -> u32 {
        1
    }

    fn adopt(&mut self, found: &Found) {
        self.merge = None;
        self.log.fill(NONE);
        self.order = found.dedicated.iter().map(|log| log.lbn).collect();
        for log in &found.dedicated {
            self.log[log.lbn as usize] = log.block;
        }
    }

    fn logs_are_dedicated(&self) -> bool {
        true
    }

    fn wants_log(&self, page: u32) -> bool {
        let pages = self.region.shape().pages;
        let (lbn, offset) = (page / pages, page % pages);
        let data = self.region.data(lbn);
        let goes_on = data != NONE && self.region.written(data) == offset || data == NONE && offset == 0;
        self.log[lbn as usize] == NONE && !goes_on && self.logs() >= self.logs_max
    }

    fn change_logs(&mut self, by: i32) {
        self.logs_max = self.logs_max.checked_add_signed(by).expect("only a log block that is there is lent");
    }

    fn spare(&self) -> u32 {
        let free = self.region.free().saturating_sub(self.free_needed());
        free.min(self.region.good().saturating_sub(self.least()))
    }

    fn resize(&mut self, logical: u32, logs: u32) {
        self.region.resize(logical);
        self.log.resize(logical as usize, NONE);
        self.logs_max = logs;
    }

    fn forget_from(&mut self, page: u32) -> bool {
        let shape = self.region.shape();
        let holds = |&lbn: &u32| {
            let blocks = [self.region.data(lbn), self.log[lbn as usize]];
            blocks.into_iter().any(|block| self.region.must_go(block, lbn, page))
        };
        if let Some(lbn) = (page / shape.pages..shape.logical).find(holds) {
            self.begin_merge(lbn);
        }
        self.is_merging()
    }

    fn least_held(&self) -> u32 {
        (self.region.good() - self.region.free() + self.free_needed()).max(self.least())
    }

    fn give_up_one(&mut self) -> bool {
        if let Some(lbn) = self.cheapest() {
            self.begin_merge(lbn);
        }
        self.is_merging()
    }

    fn give_up_cost(&self) -> u32 {
        self.cheapest().map_or(0, |lbn| self.region.extent(lbn))
    }

    fn map_ram(&self) -> u64 {
        let Self { region, logs_max, .. } = self;
        4 * u64::from(region.shape().logical)
            + u64::from(*logs_max) * (8 + 2 * u64::from(region.shape().pages))
    }
}
