//! `segment-prefetch-only`: segment prefetching without culling (S0-28).
//!
//! The paper compares its scheme with the prefetch alone and says no more of how that is replaced. Read here as one list
//! of segments in order of use, of which the oldest goes as a whole; blocks that were prefetched and never met stay as
//! long as their segment (O0-13). This is [`Lru`] over lines of a segment under the paper's name.
//!
//! Cost: as `lru`.

use super::{Arrival, Hit, LineOf, Lru, Needs, Recall, Replacement, ReplacementOptions, Room, Victim};
use crate::directory::Line;
use nandu_base::{BuildError, Declared, Violation, options};

/// Options of `segment-prefetch-only`.
#[options]
#[derive(Clone, Debug)]
pub struct SegmentPrefetchOnlyConfig {}

impl Declared for SegmentPrefetchOnlyConfig {
    const NAME: &'static str = "segment-prefetch-only";
    const SUMMARY: &'static str = "The segment that was met longest ago goes as a whole. By segments.";
    const SOURCE: &'static str = "the comparison of the paper on segment prefetching with culling";
}

impl ReplacementOptions for SegmentPrefetchOnlyConfig {
    type Policy = SegmentPrefetchOnly;

    fn line(&self) -> LineOf {
        LineOf::Segment
    }

    fn needs(&self) -> Needs {
        Needs::Segments
    }

    fn build(&self, room: Room) -> Result<SegmentPrefetchOnly, BuildError> {
        Ok(SegmentPrefetchOnly::new(room.slots()))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct SegmentPrefetchOnly(Lru);

impl SegmentPrefetchOnly {
    /// For at most `slots` segments.
    pub fn new(slots: usize) -> SegmentPrefetchOnly {
        SegmentPrefetchOnly(Lru::new(slots))
    }
}

impl Replacement for SegmentPrefetchOnly {
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.0.insert(slot, lines, arrival);
    }
    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.0.refill(slot, lines, arrival);
    }
    fn hit(&mut self, slot: u32, lines: &[Line], hit: Hit) {
        self.0.hit(slot, lines, hit);
    }
    fn victim(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim> {
        self.0.victim(lines, incoming)
    }
    fn remove(&mut self, slot: u32, lines: &[Line]) {
        self.0.remove(slot, lines);
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        self.0.check(lines)
    }
}
