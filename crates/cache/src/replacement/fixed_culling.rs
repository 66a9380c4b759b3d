//! `fixed-culling`: culling with a list L1 of fixed length (S0-27).
//!
//! The lists of [`SegmentLists`]; N1 stays what it was at the start. In the paper that is half of the whole memory, so
//! half as many segments as would fill it; here the share is a knob, which also serves to search for the best length by
//! force (C0-15).
//!
//! Cost: 16 bytes for each segment, O(1) for each event.

use super::{Arrival, Hit, Recall, Replacement, SegmentLists, Victim};
use crate::directory::Line;
use nandu_base::{Counter, Violation};

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
pub(super) fn list_counters(lists: &SegmentLists, out: &mut Vec<Counter>) {
    let (l1, l2) = lists.len();
    out.push(Counter { name: "culling_l1_segments", value: u64::from(l1) });
    out.push(Counter { name: "culling_l2_segments", value: u64::from(l2) });
    out.push(Counter { name: "culling_n1_segments", value: u64::from(lists.limit()) });
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
    fn counters(&self, out: &mut Vec<Counter>) {
        list_counters(&self.0, out);
    }
    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        self.0.check(lines)
    }
}
