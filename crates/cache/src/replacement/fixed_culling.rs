//! `fixed-culling`: culling with a list L1 of fixed length (S0-27).
//!
//! The lists of [`SegmentLists`]; N1 stays what it was at the start. In the paper that is half of the whole memory, so
//! half as many segments as would fill it; here the share is a knob, which also serves to search for the best length by
//! force (C0-15).
//!
//! Cost: 16 bytes for each segment, O(1) for each event.

use super::{
    Arrival, Hit, LineOf, Needs, Recall, Replacement, ReplacementOptions, Room, SegmentLists, Victim,
};
use crate::directory::Line;
use nandu_base::{BuildError, Declared, Ratio, Report, Violation, options};

/// Options of `fixed-culling`.
#[options]
#[derive(Clone, Debug)]
pub struct FixedCullingConfig {
    /// L1, as a share of the segments that fill memory.
    #[option(default = Ratio::new(1, 2), above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub l1: Ratio,
}

impl Declared for FixedCullingConfig {
    const NAME: &'static str = "fixed-culling";
    const SUMMARY: &'static str = "Prefetched blocks go from segments that were not met for long; the length of L1 is fixed. By segments.";
    const SOURCE: &'static str = "the paper on segment prefetching with culling";
    const DRAWS: &'static [&'static str] = &["l1 = \"1/3\""];
}

impl ReplacementOptions for FixedCullingConfig {
    type Policy = FixedCulling;

    fn line(&self) -> LineOf {
        LineOf::Segment
    }

    fn needs(&self) -> Needs {
        Needs::Prefetch
    }

    fn build(&self, room: Room) -> Result<FixedCulling, BuildError> {
        let limit = self.l1.of(room.segments()).max(1) as u32;
        let lists = SegmentLists::new(room.slots(), limit, 1);
        Ok(FixedCulling::new(lists.with_fault(room.fault)))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct FixedCulling(SegmentLists);

impl FixedCulling {
    /// Over these lists, whose limit stays.
    pub fn new(lists: SegmentLists) -> FixedCulling {
        FixedCulling(lists)
    }
}

/// The figures that both kinds of culling report.
pub(super) fn report_lists(lists: &SegmentLists, report: &mut Report) {
    let (l1, l2) = lists.len();
    report.put("culling_l1_segments", u64::from(l1));
    report.put("culling_l2_segments", u64::from(l2));
    report.put("culling_n1_segments", u64::from(lists.limit()));
}

impl Replacement for FixedCulling {
    #[inline(always)]
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.0.insert(slot, lines, arrival);
    }
    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.0.refill(slot, lines, arrival);
    }
    #[inline(always)]
    fn hit(&mut self, slot: u32, lines: &[Line], _hit: Hit) {
        self.0.touch(slot, lines);
    }
    #[inline(always)]
    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        self.0.victim(lines)
    }
    #[inline(always)]
    fn surplus(&mut self, lines: &[Line]) -> Option<Victim> {
        self.0.surplus(lines)
    }
    fn remove(&mut self, slot: u32, lines: &[Line]) {
        self.0.remove(slot, lines);
    }
    fn shrunk(&mut self, slot: u32, lines: &[Line]) {
        self.0.shrunk(slot, lines);
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn report(&mut self, report: &mut Report) {
        report_lists(&self.0, report);
    }
    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        self.0.check(lines)
    }
}
