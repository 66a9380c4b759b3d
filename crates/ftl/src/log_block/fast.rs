//! FAST, fully-associative sector translation: all logical blocks share the log blocks.
//!
//! Overwrites are appended to the *random* log blocks one after another, whatever they belong to, so log blocks are always
//! full when they are given up. The oldest then is the victim: each logical block that has its newest version of some page
//! there is merged fully, one after another, and the victim is erased. That is up to as many full merges as a block has
//! pages, and nothing else can be written meanwhile: the long freezes of such drives.
//!
//! One *sequential* log block takes writes that start at a block's first page and go on behind it, so that a sequential
//! overwrite ends in a switch merge. A write to its logical block that is not the next page merges it, and goes to the random
//! log; so does the start of another sequential write.
//!
//! Source: S.-W. Lee, D.-J. Park, T.-S. Chung, D.-H. Lee, S. Park, H.-J. Song, "A log buffer-based flash translation layer
//! using fully-associative sector translation", ACM TECS 6(3), 2007. Where we differ: a page that has no place in its data
//! block because flash takes pages in order goes to the log.
//!
//! Knobs: `log_blocks` (random ones), `sequential_log_block`, and `use_free_blocks`, which lets blocks that no data needs serve as log blocks
//! too. Cost: 4 bytes per block and 8 per log page.

use super::merge::Merge;
use super::recover::Found;
use super::region::{NONE, Region};
use super::tag::Role;
use super::{DealtOptions, LogBlockOptions, LogBlocks, LogQuota, Step, Taken, Unmapped};
use nandu_base::{Declared, options};
use std::collections::VecDeque;

/// Options of `fast`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct FastConfig {
    /// Random log blocks of each plane, or of each tenant's part of it.
    #[option(unset = "all blocks that are spare")]
    pub log_blocks: Option<u32>,
    /// Whether there is a log block for sequential writes.
    #[option(default = true)]
    pub sequential_log_block: bool,
    /// Whether blocks that no data needs serve as log blocks too.
    #[option(default)]
    pub use_free_blocks: bool,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all log-block maps
    pub dealt: DealtOptions,
}

impl Declared for FastConfig {
    const NAME: &'static str = "fast";
    const SUMMARY: &'static str =
        "FAST: block map with log blocks that all logical blocks share, and one for sequential writes.";
    const SOURCE: &'static str = "Lee et al., ACM TECS 6(3), 2007";
}

impl LogBlockOptions for FastConfig {
    fn dealt(&self) -> &DealtOptions {
        &self.dealt
    }

    fn lends(&self) -> Result<(), &'static str> {
        Err(
            "a unit that is lent comes back for one merge, and a log block of `fast` takes one for each logical block that has a page in it",
        )
    }

    fn quota(&self) -> LogQuota {
        LogQuota { wanted: self.log_blocks, least: 1, others: u32::from(self.sequential_log_block) }
    }

    fn of_pool(&self, region: Region, logs: u32) -> Box<dyn LogBlocks> {
        Box::new(Fast::new(region, logs, self.sequential_log_block, self.use_free_blocks))
    }
}

/// FAST, for one plane.
#[derive(Clone, Debug)]
pub struct Fast {
    region: Region,
    /// Random log blocks, the oldest first; the last has room, if any has.
    random: VecDeque<u32>,
    /// The sequential log block and its logical block.
    sequential: Option<(u32, u32)>,
    logs_max: u32,
    has_sequential: bool,
    borrow: bool,
    /// Logical blocks with pages in the random log and no data block: each merge of one takes a block and gives none back.
    orphan: Vec<bool>,
    orphans: u32,
    merge: Option<Merge>,
    /// The random log block that is being given up, and how far it has been looked through.
    victim: Option<(u32, u32)>,
}

impl Fast {
    /// With `logs_max` random log blocks, and a sequential one. The region has at least so many blocks and one more than
    /// logical ones.
    pub fn new(region: Region, logs_max: u32, has_sequential: bool, borrow: bool) -> Fast {
        let orphan = vec![false; region.shape().logical as usize];
        Fast {
            region,
            random: VecDeque::new(),
            sequential: None,
            logs_max,
            has_sequential,
            borrow,
            orphan,
            orphans: 0,
            merge: None,
            victim: None,
        }
    }

    /// Whether a block may be opened and leave enough for merges.
    fn has_room(&self) -> bool {
        self.region.free() >= 2 + self.orphans
    }

    /// Begins to give a log block up.
    fn make_room(&mut self) {
        match self.random.pop_front() {
            Some(victim) => {
                self.region.count.logs_closed += 1;
                self.region.count.log_pages_used += u64::from(self.region.written(victim));
                self.victim = Some((victim, 0));
            }
            None => self.merge_sequential(),
        }
    }

    fn merge_sequential(&mut self) {
        let (lbn, block) = self.sequential.take().expect("a plane without log blocks has blocks to open");
        self.begin(lbn, |region| Merge::of(region, lbn, block));
    }

    fn begin(&mut self, lbn: u32, merge: impl FnOnce(&mut Region) -> Merge) {
        self.merge = Some(merge(&mut self.region));
        self.orphans -= u32::from(std::mem::take(&mut self.orphan[lbn as usize]));
    }

    /// The place of a page that continues its data block or a sequential write, or starts one. `Err`: a merge has begun.
    fn in_sequence(&mut self, lbn: u32, offset: u32) -> Result<Option<u32>, ()> {
        let data = self.region.data(lbn);
        let owner = self.sequential.filter(|&(owner, _)| owner == lbn);
        if data != NONE && self.region.written(data) == offset && owner.is_none() {
            return Ok(Some(data));
        }
        if data == NONE && offset == 0 && owner.is_none() {
            if !self.has_room() {
                self.make_room();
                return Err(());
            }
            let block = self.region.open(Role::Direct);
            self.region.set_data(lbn, block);
            self.orphans -= u32::from(std::mem::take(&mut self.orphan[lbn as usize]));
            return Ok(Some(block));
        }
        match owner {
            Some((_, block)) if self.region.written(block) == offset => return Ok(Some(block)),
            None if !(self.has_sequential && offset == 0) => return Ok(None),
            _ => {}
        }
        if self.sequential.is_some() {
            self.merge_sequential();
            return Err(());
        }
        if !self.has_room() {
            self.make_room();
            return Err(());
        }
        let block = self.region.open(Role::Sequential);
        self.sequential = Some((lbn, block));
        Ok(Some(block))
    }

    /// The random log block with room for a page of `lbn`; `None` when a merge has begun.
    fn log_with_room(&mut self, lbn: u32) -> Option<u32> {
        let is_new_orphan = self.region.data(lbn) == NONE && !self.orphan[lbn as usize];
        let open = self.random.back().copied().filter(|&log| !self.region.is_full(log));
        let is_too_many = !self.borrow && self.random.len() as u32 >= self.logs_max;
        let needs = 1 + self.orphans + u32::from(is_new_orphan) + u32::from(open.is_none());
        if self.region.free() < needs || open.is_none() && is_too_many {
            self.make_room();
            return None;
        }
        if is_new_orphan {
            self.orphan[lbn as usize] = true;
            self.orphans += 1;
        }
        Some(open.unwrap_or_else(|| {
            let log = self.region.open(Role::Log);
            self.random.push_back(log);
            log
        }))
    }

    /// Begins the next merge for the victim, or erases it.
    fn step_victim(&mut self) -> Option<Step> {
        let (victim, mut at) = self.victim?;
        let bits = self.region.shape().page_bits();
        while at < self.region.written(victim) {
            if let Some(lbn) = self.region.needed_by(victim << bits | at) {
                let owner = self.sequential.filter(|&(owner, _)| owner == lbn);
                if owner.is_some() {
                    self.sequential = None;
                }
                self.victim = Some((victim, at));
                self.begin(lbn, |region| Merge::full(region, lbn, owner.map_or(NONE, |(_, block)| block)));
                return self.step();
            }
            at += 1;
        }
        self.victim = None;
        self.region.erase(victim);
        Some(Step::Erase(victim))
    }
}

impl LogBlocks for Fast {
    fn region(&self) -> &Region {
        &self.region
    }

    fn region_mut(&mut self) -> &mut Region {
        &mut self.region
    }

    fn take(&mut self, page: u32) -> Option<Taken> {
        let pages = self.region.shape().pages;
        let (lbn, offset) = (page / pages, page % pages);
        let block = match self.in_sequence(lbn, offset) {
            Err(()) => return None,
            Ok(Some(block)) => block,
            Ok(None) => self.log_with_room(lbn)?,
        };
        Some(self.region.put(page, block))
    }

    fn unmap(&mut self, first: u32, end: u32) -> Option<Unmapped> {
        if !self.region.any_mapped(first, end) {
            return Some(Unmapped::Nothing);
        }
        let log = self.log_with_room(first / self.region.shape().pages)?;
        Some(Unmapped::Mark(self.region.put_mark(first, end, log)))
    }

    fn step(&mut self) -> Option<Step> {
        if let Some(merge) = &mut self.merge {
            if let Some(step) = merge.step(&mut self.region) {
                return Some(step);
            }
            self.merge = None;
        }
        self.step_victim()
    }

    fn is_merging(&self) -> bool {
        self.merge.is_some() || self.victim.is_some()
    }

    fn logs(&self) -> u32 {
        (self.random.len() + usize::from(self.sequential.is_some())) as u32
    }

    fn logs_max(&self) -> u32 {
        self.logs_max
    }

    fn room(&self) -> u32 {
        self.logs_max.saturating_sub(self.random.len() as u32)
    }

    /// A random log block that has room left is not worth it.
    fn tidy(&mut self) -> bool {
        if self.random.front().is_some_and(|&log| self.region.is_full(log)) {
            self.make_room();
        }
        self.is_merging()
    }

    fn rewrite(&mut self, lbn: u32) -> bool {
        if self.sequential.is_none_or(|(owner, _)| owner != lbn) {
            self.begin(lbn, |region| Merge::full(region, lbn, NONE));
        }
        self.is_merging()
    }

    fn blocks_needed(&self) -> u32 {
        self.region.shape().logical + 3 + u32::from(self.has_sequential)
    }

    fn free_needed(&self) -> u32 {
        1 + self.orphans
    }

    fn adopt(&mut self, found: &Found) {
        (self.merge, self.victim) = (None, None);
        self.random = found.shared.iter().copied().collect();
        self.sequential = found.dedicated.last().map(|log| (log.lbn, log.block));
        self.orphan.fill(false);
        let bits = self.region.shape().page_bits();
        for &log in &self.random {
            for spot in (log << bits)..(log << bits) + self.region.written(log) {
                // One of which only marks are left takes no block.
                if let Some(lbn) = self.region.needed_by(spot) {
                    self.orphan[lbn as usize] |= self.region.data(lbn) == NONE && self.region.extent(lbn) > 0;
                }
            }
        }
        self.orphans = self.orphan.iter().filter(|&&orphan| orphan).count() as u32;
    }

    fn logs_are_dedicated(&self) -> bool {
        false
    }

    fn change_logs(&mut self, _by: i32) {
        unreachable!("the options refuse to lend log blocks of this map")
    }

    fn spare(&self) -> u32 {
        let free = self.region.free().saturating_sub(self.free_needed());
        free.min(self.region.good().saturating_sub(self.blocks_needed()))
    }

    fn resize(&mut self, logical: u32, logs: u32) {
        self.region.resize(logical);
        self.orphan.resize(logical as usize, false);
        self.logs_max = logs;
    }

    /// A random log block is given up with all that are older; then each logical block is merged for itself.
    fn forget_from(&mut self, page: u32) -> bool {
        let shape = self.region.shape();
        if self.random.iter().any(|&log| self.region.holds_from(log, page)) {
            self.make_room();
            return true;
        }
        for lbn in page / shape.pages..shape.logical {
            let log = self.sequential.filter(|&(owner, _)| owner == lbn).map_or(NONE, |(_, block)| block);
            let blocks = [self.region.data(lbn), log];
            if blocks.into_iter().any(|block| self.region.must_go(block, lbn, page)) {
                match log {
                    NONE => self.begin(lbn, |region| Merge::full(region, lbn, NONE)),
                    _ => self.merge_sequential(),
                }
                break;
            }
            // Its pages were in the random log only, and are unmapped.
            if self.region.data(lbn) == NONE && self.region.extent(lbn) == 0 {
                self.orphans -= u32::from(std::mem::take(&mut self.orphan[lbn as usize]));
            }
        }
        self.is_merging()
    }

    fn give_up_one(&mut self) -> bool {
        if self.logs() > 0 {
            self.make_room();
        }
        self.is_merging()
    }

    fn map_ram(&self) -> u64 {
        let shape = self.region.shape();
        4 * u64::from(shape.logical) + 8 * u64::from(self.logs_max) * u64::from(shape.pages)
    }
}
