//! Keeping the map of dirty regions ([`crate::region_map`]) while the rings are in use.
//!
//! *The rule.* Where the map on the disk does not call a region dirty, the disk has the newest version of all its pages. So before the first dirty page of a region is appended, its bit is set
//! and the disk flushed: what a ring has proven, and so what a flush or a change with FUA has acknowledged, is in a region that the disk knows. A change that is only in DRAM needs no bit: it is
//! lost with the power, as in any volatile cache. A long write past the rings to a page that a ring has waits for the bit too: while it is under way ring and disk differ.
//!
//! *Clearing* is lazy. At a commit a region is at rest when no page of it is dirty in a ring and no mark of it is on its way there. One that is at rest at two commits in a row is cleared, with
//! a write and no flush: a bit that is set without need only costs accuracy. A region that is wanted again meanwhile is set again, with a flush.
//!
//! *After a start* a page in a ring is dirty only where its region is: the map says what headers do not.
//!
//! One *round* is under way at a time: the pages of the map that change are written, and the disk is flushed if a bit was set or a lost page is served again.
//!
//! Cost: one write and one flush of the disk for each round that sets bits, which all appends to these regions wait for; at each commit a look at the bits that are set.

use crate::host::Stage as Asked;
use crate::machine::{Hybrid, Tag};
use crate::record::Standing;
use crate::region_map::{Bits, Layout, RegionMap};
use nandu_base::{ByteLen, ByteOffset, Cx, ErrorKind, Op, Payload};
use std::collections::BTreeSet;

/// Attempts before the machine gives up.
const TRIES: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Write,
    Flush,
}

/// Pages of the map that are being written.
#[derive(Debug, Default)]
struct Round {
    stage: Stage,
    pages: BTreeSet<u32>,
    /// Regions that are dirty once it is over.
    sets: Vec<u32>,
    /// Pages that are not lost any more go with it.
    serves: bool,
    left: u32,
    failed: bool,
    tries: u8,
}

/// What is known of dirty regions and lost pages.
#[derive(Debug)]
pub(crate) struct Regions {
    pub layout: Layout,
    /// What the disk says of its rings.
    pub standing: Standing,
    /// What the disk has durably; of regions that are being cleared it may have more.
    pub stored: RegionMap,
    /// Pages that fail.
    pub lost: Bits,
    /// An operator gives the rings up.
    pub leaves: bool,
    /// Regions that are to become dirty.
    wanted: BTreeSet<u32>,
    clears: BTreeSet<u32>,
    /// Regions that are at rest since this commit began, and those that were when the last one ended.
    resting: Vec<u32>,
    rested: BTreeSet<u32>,
    /// Lost pages that were written whole, and those of which the disk was flushed since.
    pub written: Vec<u32>,
    pub ready: Vec<u32>,
    round: Round,
}

impl Regions {
    pub fn new(layout: Layout) -> Regions {
        let stored = RegionMap::new(&layout);
        Regions {
            lost: stored.lost.clone(),
            layout,
            standing: Standing::Needed,
            stored,
            leaves: false,
            wanted: BTreeSet::new(),
            clears: BTreeSet::new(),
            resting: Vec::new(),
            rested: BTreeSet::new(),
            written: Vec::new(),
            ready: Vec::new(),
            round: Round::default(),
        }
    }

    /// Forgets what is under way. What the disk has is read anew.
    pub fn abandon(&mut self) {
        let standing = std::mem::take(&mut self.standing);
        *self = Regions { standing, leaves: self.leaves, ..Regions::new(self.layout) };
    }

    /// Whether a page may become dirty in a ring. If not, its region is wanted.
    pub fn may_be_dirty(&mut self, page: u32) -> bool {
        let region = self.layout.region_of(page);
        self.stored.dirty.has(region) || {
            self.wanted.insert(region);
            false
        }
    }

    /// A page that was lost has been written whole.
    pub fn serve(&mut self, page: u32) {
        self.lost.set(page, false);
        if self.stored.lost.has(page) {
            self.written.push(page);
        }
    }
}

impl Hybrid {
    /// Whether a ring may have something newer of a page than the disk, as the disk says.
    pub(crate) fn is_in_dirty_region(&self, page: u32) -> bool {
        self.regions.as_ref().is_none_or(|r| r.stored.dirty.has(r.layout.region_of(page)))
    }

    /// Whether all regions of pages that a ring has are called dirty; those that are not are wanted.
    pub(crate) fn may_differ(&mut self, first: u64, end: u64) -> bool {
        let Some(regions) =
            self.regions.as_mut().filter(|_| self.through.as_ref().is_some_and(|t| t.is_used))
        else {
            return true;
        };
        let in_ring = (first as u32..end as u32)
            .filter(|&page| matches!(self.map.find(page), crate::map::Where::Slot(_)));
        // All of them are asked: those that are not dirty yet go together.
        in_ring.filter(|&page| !regions.may_be_dirty(page)).count() == 0
    }

    /// Regions in which something is under way that the count of dirty pages does not say.
    fn busy_regions(&self, layout: &Layout) -> BTreeSet<u32> {
        let marks = self.marks.newest.keys().map(|&page| layout.region_of(page));
        let under_way = self.ops.iter().filter(|op| matches!(op.stage, Asked::Bypassing | Asked::BypassWait));
        let changes = under_way
            .filter(|op| op.middle.1 > op.middle.0)
            .flat_map(|op| layout.region_of(op.middle.0 as u32)..=layout.region_of(op.middle.1 as u32 - 1));
        marks.chain(changes).collect()
    }

    fn rests_in_rings(&self, region: u32, busy: &BTreeSet<u32>) -> bool {
        self.planted.clears_early || self.map.dirty_in(region) == 0 && !busy.contains(&region)
    }

    /// Everything that was appended before is about to be proven.
    pub(crate) fn note_resting(&mut self) {
        let Some(regions) = &self.regions else { return };
        if regions.stored.dirty.count() == 0 {
            return;
        }
        let busy = self.busy_regions(&regions.layout);
        let dirty = regions.stored.dirty.runs().into_iter().flat_map(|(from, to)| from..to);
        let resting = dirty.filter(|&region| self.rests_in_rings(region, &busy)).collect();
        if let Some(regions) = &mut self.regions {
            regions.resting = resting;
        }
    }

    /// It is proven: what has rested for two commits is called clean.
    pub(crate) fn settle_resting(&mut self) {
        let Some(regions) = &mut self.regions else { return };
        let resting = std::mem::take(&mut regions.resting);
        let rested = std::mem::take(&mut regions.rested);
        for region in resting {
            match rested.contains(&region) {
                true => regions.clears.insert(region),
                false => regions.rested.insert(region),
            };
        }
    }

    /// Begins a round where something is to be written.
    pub(crate) fn pump_regions(&mut self, cx: &mut Cx<'_>) {
        let is_at_lost = self.commit.is_at_lost();
        let Some(regions) = &self.regions else { return };
        if regions.round.stage != Stage::Idle {
            return;
        }
        if !regions.clears.is_empty() {
            let busy = self.busy_regions(&regions.layout);
            let rests: BTreeSet<u32> =
                regions.clears.iter().copied().filter(|&region| self.rests_in_rings(region, &busy)).collect();
            if let Some(regions) = &mut self.regions {
                regions.clears = rests;
            }
        }
        let Some(regions) = &mut self.regions else { return };
        let layout = regions.layout;
        let mut pages = BTreeSet::new();
        for region in std::mem::take(&mut regions.clears) {
            regions.stored.dirty.set(region, false);
            pages.insert(layout.of_region(region));
            self.count.regions_cleared += 1;
        }
        let sets: Vec<u32> = std::mem::take(&mut regions.wanted).into_iter().collect();
        pages.extend(sets.iter().map(|&region| layout.of_region(region)));
        let serves = is_at_lost && !regions.ready.is_empty();
        if serves {
            for page in std::mem::take(&mut regions.ready) {
                // It may have been lost anew, or be on its way a second time.
                if !regions.lost.has(page) {
                    regions.stored.lost.set(page, false);
                    pages.insert(layout.of_page(page));
                }
            }
        }
        if pages.is_empty() {
            self.made_progress |= serves;
            return;
        }
        self.count.regions_marked += sets.len() as u64;
        regions.round = Round { pages, sets, serves, ..Round::default() };
        self.write_round(cx);
    }

    fn write_round(&mut self, cx: &mut Cx<'_>) {
        let Some(regions) = &mut self.regions else { return };
        let layout = regions.layout;
        let mut map = regions.stored.clone();
        regions.round.sets.iter().for_each(|&region| map.dirty.set(region, true));
        let pages: Vec<u32> = regions.round.pages.iter().copied().collect();
        regions.round.left = pages.len() as u32;
        (regions.round.stage, regions.round.failed) = (Stage::Write, false);
        self.count.region_map_writes += pages.len() as u64;
        for at in pages {
            let page = cx.pool.allocate_metadata(ByteLen(self.page));
            layout.encode(at, &map, cx.pool.bytes_mut(page, ByteLen(self.page)));
            let offset = ByteOffset(layout.at() + u64::from(at) * self.page);
            self.send_own(self.disk, Op::Write, offset, self.page, page, Tag::Region, 0, cx);
            cx.pool.release(page);
        }
    }

    /// A page of the map is written, or the disk is flushed.
    pub(crate) fn round_done(&mut self, failed: bool, cx: &mut Cx<'_>) {
        let Some(regions) = &mut self.regions else { return };
        let round = &mut regions.round;
        if round.stage == Stage::Flush {
            // A flush that failed proves nothing, and neither would another.
            return if failed { self.fail(ErrorKind::WriteFailed, cx) } else { self.end_round() };
        }
        round.left -= 1;
        round.failed |= failed;
        if round.left > 0 {
            return;
        }
        if round.failed {
            round.tries += 1;
            return match round.tries > TRIES {
                true => self.fail(ErrorKind::WriteFailed, cx),
                false => self.write_round(cx),
            };
        }
        if (round.sets.is_empty() && !round.serves) || !self.policy.disk_volatile {
            return self.end_round();
        }
        round.stage = Stage::Flush;
        self.send_own(self.disk, Op::Flush, ByteOffset::ZERO, 0, Payload::NONE, Tag::Region, 0, cx);
    }

    fn end_round(&mut self) {
        let Some(regions) = &mut self.regions else { return };
        let round = std::mem::take(&mut regions.round);
        round.sets.iter().for_each(|&region| regions.stored.dirty.set(region, true));
        self.made_progress = true;
    }

    /// Whether a round is under way that serves pages again that were lost.
    pub(crate) fn serves_lost(&self) -> bool {
        self.regions.as_ref().is_some_and(|r| !r.ready.is_empty() || r.round.serves)
    }
}
