//! Bringing the pages of one logical block together, one page at a time.
//!
//! A merge fills its target from where it stands up to the last mapped page of the logical block, each with the newest
//! version, or with a filler where there is none. The target is then the data block, and only then are the old ones erased:
//! the data block first, because the log block may hold marks that hide versions in it.

use super::Step;
use super::region::{NONE, Region};
use super::tag::{Role, Tag};

/// A merge under way.
#[derive(Clone, Copy, Debug)]
pub struct Merge {
    lbn: u32,
    /// The block that becomes the data block; [`NONE`] when nothing is mapped.
    target: u32,
    /// Pages that it will have.
    end: u32,
    kind: Kind,
    /// Blocks to erase, in order.
    doomed: [u32; 2],
    is_filled: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Switch,
    Partial,
    Full,
    /// Fills a replacement block up to a page that is about to be written; nothing is given up.
    Advance,
}

impl Merge {
    /// Merges logical block `lbn`, whose log block is `log` (or [`NONE`]), in the cheapest way that its order allows. A full
    /// merge opens a block.
    pub fn of(region: &mut Region, lbn: u32, log: u32) -> Merge {
        let end = region.extent(lbn);
        if log != NONE {
            region.count.logs_closed += 1;
            region.count.log_pages_used += u64::from(region.written(log));
            let wrong = region.planted.wrong_switch && region.count.logs_closed.is_multiple_of(8);
            if end > 0 && (region.is_in_place(log, lbn) || wrong && region.is_full(log)) {
                let kind = if region.written(log) < end { Kind::Partial } else { Kind::Switch };
                return Merge { lbn, target: log, end, kind, doomed: [NONE; 2], is_filled: false };
            }
        }
        Merge::full(region, lbn, log)
    }

    /// Merges into a free block. `log`, if there is one, is erased afterwards.
    pub fn full(region: &mut Region, lbn: u32, log: u32) -> Merge {
        let end = region.extent(lbn);
        let target = if end > 0 { region.open(Role::Merged) } else { NONE };
        Merge { lbn, target, end, kind: Kind::Full, doomed: [NONE, log], is_filled: false }
    }

    /// Fills the replacement block `target` up to before position `end`.
    pub fn advance(lbn: u32, target: u32, end: u32) -> Merge {
        Merge { lbn, target, end, kind: Kind::Advance, doomed: [NONE; 2], is_filled: false }
    }

    /// The next operation; `None` when the merge is complete.
    pub fn step(&mut self, region: &mut Region) -> Option<Step> {
        if self.target != NONE && region.written(self.target) < self.end {
            return Some(self.fill(region));
        }
        if matches!(self.kind, Kind::Advance) {
            return None;
        }
        if !self.is_filled {
            self.is_filled = true;
            self.doomed[0] = region.set_data(self.lbn, self.target);
            region.clear_mark(self.lbn);
            match self.kind {
                Kind::Switch => region.count.switches += 1,
                Kind::Partial => region.count.partials += 1,
                Kind::Full | Kind::Advance => region.count.fulls += 1,
            }
        }
        let next = self.doomed.iter_mut().find(|block| **block != NONE)?;
        let block = std::mem::replace(next, NONE);
        region.erase(block);
        Some(Step::Erase(block))
    }

    fn fill(&mut self, region: &mut Region) -> Step {
        let position = region.written(self.target);
        let page = self.lbn * region.shape().pages + position;
        let Some(newest) = region.at(page) else {
            return Step::Filler(region.put_filler(page, self.target));
        };
        let stale = region.planted.stale_page_wins && region.count.copies.is_multiple_of(16);
        let from = stale.then(|| region.stale_version(page)).flatten().unwrap_or(newest);
        region.count.copies += 1;
        let is_last = position + 1 == self.end && !matches!(self.kind, Kind::Advance);
        let to = region.put(page, self.target);
        Step::Copy { from, to: super::Taken { tag: Tag { is_last, ..to.tag }, ..to } }
    }
}
