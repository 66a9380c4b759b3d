//! Block map: a logical page lies at its own position in its block's data block, always.
//!
//! An overwrite opens a *replacement block*: the pages below are copied, the new version is programmed, and further writes
//! to the same logical block go on behind it as long as they go upwards. A write that goes back, or to another logical block
//! that needs the replacement block, ends it: the rest is copied and the old data block erased. So one small overwrite costs
//! a whole block (B2-4), a sequential one nothing extra.
//!
//! Source: A. Ban's flash file system patents (US 5,404,485 and 5,937,425) and the block-level map of every FTL survey;
//! the replacement block is in place here because flash takes the pages of a block in order. A trim copies the block
//! without the trimmed pages.
//!
//! Knob: `replacement_blocks` that may be open at once. Cost: 4 bytes per block; a write that goes back costs up to
//! two blocks of copies.

use super::merge::Merge;
use super::recover::Found;
use super::region::{NONE, Region};
use super::tag::Role;
use super::{DealtOptions, LogBlockOptions, LogBlocks, LogQuota, Step, Taken, Unmapped};
use nandu_base::{Declared, options};
use std::collections::VecDeque;

/// Options of `block`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct BlockMapConfig {
    /// Replacement blocks that may be open in each plane.
    #[option(default = 1)]
    pub replacement_blocks: u32,
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all log-block maps
    pub dealt: DealtOptions,
}

impl Declared for BlockMapConfig {
    const NAME: &'static str = "block";
    const SUMMARY: &'static str =
        "Block map: a page lies at its own position in its block; an overwrite copies the block.";
    const SOURCE: &'static str = "Ban, US 5,404,485 and US 5,937,425";
}

impl LogBlockOptions for BlockMapConfig {
    fn dealt(&self) -> &DealtOptions {
        &self.dealt
    }

    fn quota(&self) -> LogQuota {
        LogQuota { wanted: Some(self.replacement_blocks), least: self.replacement_blocks, others: 0 }
    }

    fn of_pool(&self, region: Region, logs: u32) -> Box<dyn LogBlocks> {
        Box::new(BlockMap::new(region, logs))
    }
}

/// Block map with replacement blocks, for one plane.
#[derive(Clone, Debug)]
pub struct BlockMap {
    region: Region,
    /// Open replacement blocks with their logical blocks, the oldest first.
    replacements: VecDeque<(u32, u32)>,
    open_max: u32,
    merge: Option<Merge>,
}

impl BlockMap {
    /// With at most `open_max` replacement blocks. The region has at least so many blocks and one more than logical ones.
    pub fn new(region: Region, open_max: u32) -> BlockMap {
        BlockMap { region, replacements: VecDeque::new(), open_max, merge: None }
    }

    fn replacement(&self, lbn: u32) -> Option<usize> {
        self.replacements.iter().position(|&(owner, _)| owner == lbn)
    }

    fn end_replacement(&mut self, at: usize) {
        let (lbn, block) = self.replacements.remove(at).expect("a replacement block that is named is open");
        self.merge = Some(Merge::of(&mut self.region, lbn, block));
    }
}

impl LogBlocks for BlockMap {
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
        if let Some(at) = self.replacement(lbn) {
            let block = self.replacements[at].1;
            let written = self.region.written(block);
            if offset == written {
                return Some(self.region.put(page, block));
            }
            if offset > written {
                self.merge = Some(Merge::advance(lbn, block, offset));
            } else {
                self.end_replacement(at);
            }
            return None;
        }
        if data != NONE && self.region.written(data) == offset {
            return Some(self.region.put(page, data));
        }
        if data != NONE && self.replacements.len() as u32 >= self.open_max {
            self.end_replacement(0);
            return None;
        }
        let role = if data == NONE { Role::Direct } else { Role::Sequential };
        let block = self.region.open(role);
        if data == NONE {
            self.region.set_data(lbn, block);
        } else {
            self.replacements.push_back((lbn, block));
        }
        if offset > 0 {
            self.merge = Some(Merge::advance(lbn, block, offset));
            return None;
        }
        Some(self.region.put(page, block))
    }

    fn unmap(&mut self, first: u32, end: u32) -> Option<Unmapped> {
        if !self.region.any_mapped(first, end) {
            return Some(Unmapped::Nothing);
        }
        let lbn = first / self.region.shape().pages;
        self.region.unmap(first, end);
        let at = self.replacement(lbn);
        let log = at.and_then(|at| self.replacements.remove(at)).map_or(NONE, |(_, block)| block);
        self.merge = Some(Merge::full(&mut self.region, lbn, log));
        Some(Unmapped::Merge)
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
        self.replacements.len() as u32
    }

    fn logs_max(&self) -> u32 {
        self.open_max
    }

    fn room(&self) -> u32 {
        self.open_max.saturating_sub(self.logs())
    }

    fn tidy(&mut self) -> bool {
        if !self.replacements.is_empty() {
            self.end_replacement(0);
        }
        self.is_merging()
    }

    fn rewrite(&mut self, lbn: u32) -> bool {
        if self.replacement(lbn).is_none() {
            self.merge = Some(Merge::full(&mut self.region, lbn, NONE));
        }
        self.is_merging()
    }

    fn blocks_needed(&self) -> u32 {
        self.region.shape().logical + self.open_max + 2
    }

    fn free_needed(&self) -> u32 {
        self.region.shape().logical - self.region.datas() + self.room() + 1
    }

    fn adopt(&mut self, found: &Found) {
        self.merge = None;
        self.replacements = found.dedicated.iter().map(|log| (log.lbn, log.block)).collect();
    }

    fn logs_are_dedicated(&self) -> bool {
        true
    }

    fn wants_log(&self, page: u32) -> bool {
        let pages = self.region.shape().pages;
        let (lbn, offset) = (page / pages, page % pages);
        let data = self.region.data(lbn);
        let goes_on = data == NONE || self.region.written(data) == offset;
        self.replacement(lbn).is_none() && !goes_on && self.logs() >= self.open_max
    }

    fn change_logs(&mut self, by: i32) {
        self.open_max = self.open_max.checked_add_signed(by).expect("only a log block that is there is lent");
    }

    fn spare(&self) -> u32 {
        let least = self.region.shape().logical - self.region.datas() + 1;
        self.room().min(self.region.free().saturating_sub(least))
    }

    fn resize(&mut self, logical: u32, logs: u32) {
        self.region.resize(logical);
        self.open_max = logs;
    }

    fn forget_from(&mut self, page: u32) -> bool {
        let shape = self.region.shape();
        for lbn in page / shape.pages..shape.logical {
            let at = self.replacement(lbn);
            let blocks = [self.region.data(lbn), at.map_or(NONE, |at| self.replacements[at].1)];
            if blocks.into_iter().any(|block| self.region.must_go(block, lbn, page)) {
                match at {
                    Some(at) => self.end_replacement(at),
                    None => self.merge = Some(Merge::full(&mut self.region, lbn, NONE)),
                }
                break;
            }
        }
        self.is_merging()
    }

    fn least_held(&self) -> u32 {
        let written = self.region.good() - self.region.free();
        written + self.region.shape().logical - self.region.datas() + 1
    }

    fn give_up_one(&mut self) -> bool {
        self.tidy()
    }

    fn give_up_cost(&self) -> u32 {
        self.replacements.front().map_or(0, |&(lbn, _)| self.region.extent(lbn))
    }

    fn map_ram(&self) -> u64 {
        4 * u64::from(self.region.shape().logical) + 8 * u64::from(self.open_max)
    }
}
