//! `adaptive-culling`: culling with a list L1 whose length follows what a longer L1 and a longer L2 would gain.
//!
//! The paper's scheme (S0, section 4.2) over the lists of [`SegmentLists`]. B1 is the oldest segments of L1, about 5 % of
//! memory, B2 as many of L2. A prefetch hit in B1 is what a longer L1 gains (dP), a cache hit in B2 what a longer L2 gains
//! (dC). A segment less in L1 is alpha segments more in L2, alpha = blocks of B1 / cached blocks of B2. From time to time
//!
//! ```text
//! N1 <- N1 + S * (dP - alpha * dC)
//! ```
//!
//! so that the sum of both hit rates is as large as it can be when both gains are equal.
//!
//! What the paper leaves open, and how it is read here:
//! - *When* (O0-6). The paper's driver does it at every third hit of either kind in B1 ([`Trigger::FirstRegion`]). Then N1
//!   never shrinks while B1 has no hits, however many B2 has: the loop is dead. By default hits in both regions count
//!   ([`Trigger::BothRegions`]); [`Trigger::Reads`] is a fixed number of reads.
//! - *Units* (O0-5). dP and dC are counts since the last time. S is in segments for each hit. N1 is kept in 2^-16 of a
//!   segment and rounded down when applied; all arithmetic is in whole numbers.
//! - *Bounds* (O0-4). N1 stays between the segments of B1 and those of the whole memory without B2, and starts at half of
//!   the memory. The paper names none. An L1 that takes all memory leaves no block in L2 that could be met: dC is 0 then,
//!   and N1 stays there whatever comes. `l1_max` allows it all the same.
//! - *alpha without cached blocks in B2* (O0-3). No hit can have come from there: alpha * dC = 0.
//! - *A lower N1* (O0-16) is carried out at once, but at most by so many segments for each block that is read; until then the limit
//!   that L1 keeps is the one reached.
//! - *Writes* (O0-2) move segments and count for neither gain.
//! - *A ghost of culled blocks* (W0-4, by default off): L2 remembers which blocks of a segment were culled, and a read of
//!   one of them, which a longer L1 would have met, counts for dP.
//!
//! Cost: 16 bytes for each segment, 8 more with the ghost. O(1) for each event.

use super::fixed_culling::report_lists;
use super::{
    Arrival, Cause, Hit, LineOf, Needs, Recall, Replacement, ReplacementOptions, Room, SegmentLists, Victim,
};
use crate::directory::Line;
use nandu_base::{BuildError, Declared, Ratio, Report, Violation, options};

/// Options of adaptive culling.
#[options]
#[derive(Clone, Debug)]
pub struct AdaptiveConfig {
    /// What makes the length of L1 be adapted: `b1` for hits in the oldest part of L1 as in the paper, `b1+b2` for hits in
    /// the oldest parts of L1 and L2, `reads` for blocks read.
    #[option(default = TriggerOn::BothRegions)]
    pub trigger: TriggerOn,
    /// How many of them.
    #[option(default = 3, range = 1..=1_000_000)]
    pub adapt_interval: u32,
    /// S: segments by which L1 grows for each hit.
    #[option(default = Ratio::new(1, 1), above = Ratio::ZERO, range = ..=Ratio::new(64, 1))]
    pub step_up: Ratio,
    /// The oldest part of L1 and of L2, as a share of the segments that fill memory.
    #[option(default = Ratio::new(1, 20), above = Ratio::ZERO, range = ..=Ratio::new(1, 2))]
    pub tail_share: Ratio,
    /// L1 at the start, as a share of the segments that fill memory.
    #[option(default = Ratio::new(1, 2), above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub l1: Ratio,
    /// L1 at most, as a share of the segments that fill memory; by default L2 has blocks to be met. With 1 a list L1 that takes all memory is never
    /// made shorter, and less than `tail_share` counts as that.
    #[option(unset = "all but `tail_share`", above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub l1_max: Option<Ratio>,
    /// Most segments by which L1 falls with each block that is read.
    #[option(default = 4, range = 1..=1024)]
    pub step_down_max: u32,
    /// Remember culled blocks of segments in L2: a read of one counts as a gain of a longer L1.
    #[option(default)]
    pub ghost: bool,
}

/// What is counted until the length of L1 is adapted.
#[options]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerOn {
    /// Hits in the oldest part of L1, as in the paper.
    #[serde(rename = "b1")]
    FirstRegion,
    /// Hits in the oldest parts of L1 and L2.
    #[serde(rename = "b1+b2")]
    BothRegions,
    /// Blocks read.
    #[serde(rename = "reads")]
    Reads,
}

impl Declared for AdaptiveConfig {
    const NAME: &'static str = "adaptive-culling";
    const SUMMARY: &'static str = "The same, and the length of L1 follows the hits. By segments.";
    const SOURCE: &'static str = "the paper on segment prefetching with culling, section 4.2";
    const DRAWS: &'static [&'static str] = &[
        "trigger = \"b1\", ghost = true, step_down_max = 2, tail_share = \"1/4\"",
        "step_down_max = 2, tail_share = \"1/4\"",
    ];
}

impl ReplacementOptions for AdaptiveConfig {
    type Policy = AdaptiveCulling;

    fn line(&self) -> LineOf {
        LineOf::Segment
    }

    fn needs(&self) -> Needs {
        Needs::Prefetch
    }

    fn build(&self, room: Room) -> Result<AdaptiveCulling, BuildError> {
        let most = room.segments() as u32;
        let region = (self.tail_share.of(u64::from(most)) as u32).max(1);
        let longest = match self.l1_max {
            None => most - region,
            Some(longest) => longest.of(u64::from(most)) as u32,
        };
        let longest = longest.clamp(region, most);
        let start = (self.l1.of(u64::from(most)) as u32).clamp(region, longest);
        let trigger = match self.trigger {
            TriggerOn::FirstRegion => Trigger::FirstRegion(self.adapt_interval),
            TriggerOn::BothRegions => Trigger::BothRegions(self.adapt_interval),
            TriggerOn::Reads => Trigger::Reads(self.adapt_interval),
        };
        let lists = SegmentLists::new(room.slots(), start, region).with_fault(room.fault);
        let bounds = (region, longest);
        let how =
            Feedback { trigger, speed: self.step_up, bounds, culls: self.step_down_max, ghost: self.ghost };
        Ok(AdaptiveCulling::new(lists, room.slots(), how))
    }
}

/// When N1 is adapted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// After so many hits in B1, as in the paper.
    FirstRegion(u32),
    /// After so many hits in B1 and B2 together.
    BothRegions(u32),
    /// After so many blocks read.
    Reads(u32),
}

/// How N1 is adapted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// When.
    pub trigger: Trigger,
    /// S: segments for each hit.
    pub speed: Ratio,
    /// Least and most segments of L1.
    pub bounds: (u32, u32),
    /// Most segments by which the limit of L1 falls with each block that is read.
    pub culls: u32,
    /// Whether culled blocks are remembered.
    pub ghost: bool,
}

/// Bits of N1 behind the point.
const POINT: u32 = 16;

/// The policy.
#[derive(Clone, Debug)]
pub struct AdaptiveCulling {
    lists: SegmentLists,
    how: Feedback,
    /// N1 in 2^-16 of a segment.
    n1: i64,
    /// What one read, one hit in B1 and one in B2 count for the trigger, and the count at which it comes.
    weigh: (u32, u32, u32),
    every: u32,
    /// Since the last time: what the trigger counts, prefetch hits in B1, cache hits in B2.
    events: u32,
    gain_l1: u32,
    gain_l2: u32,
    /// Culled blocks of each segment in L2.
    culled: Vec<u64>,
    tally: Tally,
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    prefetch_hits_b1: u64,
    cache_hits_b2: u64,
    ghost_hits: u64,
    adaptations: u64,
    grown: u64,
    shrunk: u64,
}

impl AdaptiveCulling {
    /// Over these lists, whose limit is where N1 starts.
    pub fn new(lists: SegmentLists, slots: usize, how: Feedback) -> AdaptiveCulling {
        let (weigh, every) = match how.trigger {
            Trigger::FirstRegion(n) => ((0, 1, 0), n),
            Trigger::BothRegions(n) => ((0, 1, 1), n),
            Trigger::Reads(n) => ((1, 0, 0), n),
        };
        AdaptiveCulling {
            weigh,
            every,
            n1: i64::from(lists.limit()) << POINT,
            lists,
            how,
            events: 0,
            gain_l1: 0,
            gain_l2: 0,
            culled: if how.ghost { vec![0; slots] } else { Vec::new() },
            tally: Tally::default(),
        }
    }

    /// N1, rounded down to whole segments.
    pub fn n1(&self) -> u32 {
        (self.n1 >> POINT) as u32
    }

    /// A hit of either kind in B1, or a block of the ghost.
    #[inline(always)]
    fn hit_in_b1(&mut self, prefetched: bool) {
        self.gain_l1 += u32::from(prefetched);
        self.events += self.weigh.1;
    }

    /// A cache hit in B2.
    #[inline(always)]
    fn hit_in_b2(&mut self) {
        self.gain_l2 += 1;
        self.tally.cache_hits_b2 += 1;
        self.events += self.weigh.2;
    }

    /// N1 <- N1 + S * (dP - alpha * dC).
    #[inline(never)]
    fn adapt(&mut self) {
        let (b1, b2) = self.lists.region_blocks();
        let (gain_l1, gain_l2) = (i128::from(self.gain_l1), i128::from(self.gain_l2));
        let (num, den) = (i128::from(self.how.speed.num), i128::from(self.how.speed.den));
        let difference = match b2 {
            0 => gain_l1 << POINT,
            b2 => ((gain_l1 * i128::from(b2) - gain_l2 * i128::from(b1)) << POINT) / i128::from(b2),
        };
        let before = self.n1;
        let (least, most) = self.how.bounds;
        let change = (difference * num / den).clamp(-(1 << 60), 1 << 60) as i64;
        self.n1 = (self.n1 + change).clamp(i64::from(least) << POINT, i64::from(most) << POINT);
        self.tally.adaptations += 1;
        self.tally.grown += u64::from(self.n1 > before);
        self.tally.shrunk += u64::from(self.n1 < before);
        (self.events, self.gain_l1, self.gain_l2) = (0, 0, 0);
    }

    /// Brings the limit of L1 nearer to N1, by so many segments at most when that culls.
    #[inline(always)]
    fn follow(&mut self) {
        let (target, limit) = (self.n1(), self.lists.limit());
        if limit != target {
            let length = self.lists.len().0;
            self.lists.set_limit(target.max(length.min(limit).saturating_sub(self.how.culls)));
        }
    }

    /// A block is asked for by a read.
    #[inline(always)]
    fn read(&mut self) {
        self.events += self.weigh.0;
        if self.events >= self.every {
            self.adapt();
        }
        self.follow();
    }
}

impl Replacement for AdaptiveCulling {
    #[inline(always)]
    fn miss(&mut self, _line: u64, cause: Cause) -> Recall {
        if cause == Cause::Read {
            self.read();
        }
        Recall::Nothing
    }

    #[inline(always)]
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        if let Some(culled) = self.culled.get_mut(slot as usize) {
            *culled = 0;
        }
        self.lists.insert(slot, lines, arrival);
    }

    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        if let Some(culled) = self.culled.get_mut(slot as usize) {
            *culled &= !lines[slot as usize].present();
        }
        self.lists.refill(slot, lines, arrival);
    }

    #[inline(always)]
    fn hit(&mut self, slot: u32, lines: &[Line], hit: Hit) {
        let met = self.lists.touch(slot, lines);
        if hit.write {
            return;
        }
        if met.old {
            if met.first {
                self.hit_in_b1(hit.prefetched);
                self.tally.prefetch_hits_b1 += u64::from(hit.prefetched);
            } else {
                self.hit_in_b2();
            }
        }
        self.read();
    }

    fn hole(&mut self, slot: u32, bit: u64) {
        if self.culled.get(slot as usize).is_some_and(|culled| culled & bit != 0) {
            self.culled[slot as usize] &= !bit;
            self.hit_in_b1(true);
            self.tally.ghost_hits += 1;
        }
        self.read();
    }

    #[inline(always)]
    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let victim = self.lists.victim(lines);
        self.remember(victim, lines)
    }

    #[inline(always)]
    fn surplus(&mut self, lines: &[Line]) -> Option<Victim> {
        let victim = self.lists.surplus(lines);
        self.remember(victim, lines)
    }

    fn remove(&mut self, slot: u32, lines: &[Line]) {
        self.lists.remove(slot, lines);
    }

    fn shrunk(&mut self, slot: u32, lines: &[Line]) {
        self.lists.shrunk(slot, lines);
    }

    fn bytes(&self) -> usize {
        self.lists.bytes() + 8 * self.culled.len()
    }

    fn report(&mut self, report: &mut Report) {
        report_lists(&self.lists, report);
        let (b1, b2) = self.lists.region_blocks();
        report.put("culling_b1_blocks", b1);
        report.put("culling_b2_cached_blocks", b2);
        let t = &mut self.tally;
        report.count("culling_prefetch_hits_b1", &mut t.prefetch_hits_b1);
        report.count("culling_cache_hits_b2", &mut t.cache_hits_b2);
        report.count("culling_ghost_hits", &mut t.ghost_hits);
        report.count("culling_adaptations", &mut t.adaptations);
        report.count("culling_n1_grew", &mut t.grown);
        report.count("culling_n1_fell", &mut t.shrunk);
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        self.lists.check(lines)
    }
}

impl AdaptiveCulling {
    /// Notes which blocks a culled segment loses.
    #[inline(always)]
    fn remember(&mut self, victim: Option<Victim>, lines: &[Line]) -> Option<Victim> {
        if let Some(Victim::Prefetched(slot)) = victim
            && let Some(culled) = self.culled.get_mut(slot as usize)
        {
            *culled |= lines[slot as usize].prefetched;
        }
        victim
    }
}
