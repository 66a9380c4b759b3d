//! The two lists of segments that fixed and adaptive culling share (S0-14 to S0-20, Fig 5).
//!
//! L1 has segments with cached and prefetched blocks, L2 has segments with cached blocks only. A segment that is read from
//! the device becomes the newest of L1; one that is met becomes the newest of its list. When L1 is longer than its limit,
//! its oldest segment is *culled*: its prefetched blocks go, and it becomes the newest of L2, or is forgotten when nothing
//! of it was cached. When memory is short, the oldest segment of L2 goes as a whole; with L2 empty the oldest of L1 is
//! culled first (O0-8). A write that brings a segment puts it into L2: it has no prefetched block (O0-2).
//!
//! The region B1 is the oldest segments of L1, and B2 the same number of L2, both kept by O(1) changes (O0-7).
//!
//! Cost: 16 bytes for each segment, O(1) for each event.

use super::{Arrival, Cause, Victim, each_once};
use crate::directory::Line;
use crate::regioned::{Name, Places, Regioned};
use nandu_base::Violation;

/// Faults that can be planted in the lists, to show that the invariants are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A segment moves to L2 with its prefetched blocks (I-2).
    NoCulling,
    /// A segment that is met in L1 is put into L2 as well (I-3).
    InBothLists,
}

/// In which list and where a segment was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// In L1; else in L2.
    pub first: bool,
    /// In the region of the oldest segments of that list.
    pub old: bool,
}

/// L1 and L2.
#[derive(Clone, Debug)]
pub struct SegmentLists {
    places: Places,
    l1: Regioned,
    l2: Regioned,
    /// Most segments of L1.
    limit: u32,
    fault: Option<Fault>,
}

/// Blocks of a segment in B1: all of them.
#[inline(always)]
fn all(lines: &[Line]) -> impl Fn(u32) -> u32 + '_ {
    |slot| lines[slot as usize].blocks
}

/// Blocks of a segment in B2: the cached ones, and there are no others.
#[inline(always)]
fn cached(lines: &[Line]) -> impl Fn(u32) -> u32 + '_ {
    |slot| lines[slot as usize].cached_blocks()
}

impl SegmentLists {
    /// For at most `slots` segments, with `limit` segments in L1 at most and `region` in B1 and in B2.
    pub fn new(slots: usize, limit: u32, region: u32) -> SegmentLists {
        SegmentLists {
            places: Places::new(slots),
            l1: Regioned::new(Name::First, region),
            l2: Regioned::new(Name::Second, region),
            limit,
            fault: None,
        }
    }

    /// The same with a fault.
    pub fn with_fault(self, fault: Option<Fault>) -> SegmentLists {
        SegmentLists { fault, ..self }
    }

    /// Segments of L1 and of L2.
    #[inline(always)]
    pub fn len(&self) -> (u32, u32) {
        (self.l1.len(), self.l2.len())
    }

    /// Whether there is no segment.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// All blocks of B1, and the cached blocks of B2.
    pub fn region_blocks(&self) -> (u64, u64) {
        (self.l1.weight(), self.l2.weight())
    }

    /// Most segments of L1.
    #[inline(always)]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Sets the most segments of L1; [`surplus`](SegmentLists::surplus) carries it out.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// A new segment.
    #[inline(always)]
    pub fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        if arrival.cause == Cause::Write {
            self.l2.push(&mut self.places, slot, cached(lines));
        } else {
            self.l1.push(&mut self.places, slot, all(lines));
        }
    }

    /// More blocks of a segment: read from the device, it becomes the newest of L1; written, the newest where it is.
    pub fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        let (first, _) = self.places.find(slot);
        if !first && arrival.cause != Cause::Write {
            self.l2.remove(&mut self.places, slot, cached(lines));
            self.l1.push(&mut self.places, slot, all(lines));
            return;
        }
        let list = if first { &mut self.l1 } else { &mut self.l2 };
        list.renew(&mut self.places, slot, all(lines));
        list.weigh_again(&mut self.places, slot, lines[slot as usize].blocks);
    }

    /// A segment is met: where, before it becomes the newest of its list.
    #[inline(always)]
    pub fn touch(&mut self, slot: u32, lines: &[Line]) -> Met {
        let (first, old) = self.places.find(slot);
        if !first {
            self.l2.renew(&mut self.places, slot, cached(lines));
        } else if self.fault == Some(Fault::InBothLists) && old {
            self.l2.push(&mut self.places, slot, cached(lines));
        } else {
            self.l1.renew(&mut self.places, slot, all(lines));
        }
        Met { first, old }
    }

    /// The segment goes from its list.
    pub fn remove(&mut self, slot: u32, lines: &[Line]) {
        if self.places.find(slot).0 {
            self.l1.remove(&mut self.places, slot, all(lines));
        } else {
            self.l2.remove(&mut self.places, slot, cached(lines));
        }
    }

    /// The segment has more or fewer blocks than before.
    pub fn shrunk(&mut self, slot: u32, lines: &[Line]) {
        let list = if self.places.find(slot).0 { &mut self.l1 } else { &mut self.l2 };
        list.weigh_again(&mut self.places, slot, lines[slot as usize].blocks);
    }

    /// The oldest segment of L1 moves to L2, its prefetched blocks go.
    #[inline(always)]
    fn cull(&mut self, lines: &[Line]) -> Option<Victim> {
        let slot = self.l1.pop(&mut self.places, all(lines))?;
        if lines[slot as usize].cached != 0 || self.fault == Some(Fault::NoCulling) {
            self.l2.push(&mut self.places, slot, cached(lines));
        }
        Some(Victim::Prefetched(slot))
    }

    /// What goes while L1 is longer than its limit.
    #[inline(always)]
    pub fn surplus(&mut self, lines: &[Line]) -> Option<Victim> {
        if self.l1.len() <= self.limit {
            return None;
        }
        if self.fault == Some(Fault::NoCulling) {
            while self.l1.len() > self.limit {
                self.cull(lines);
            }
            return None;
        }
        self.cull(lines)
    }

    /// What goes when memory is short.
    #[inline(always)]
    pub fn victim(&mut self, lines: &[Line]) -> Option<Victim> {
        match self.l2.pop(&mut self.places, cached(lines)) {
            Some(slot) => Some(Victim::Whole(slot)),
            None => self.cull(lines),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.places.bytes()
    }

    /// I-2 and I-3, looking at every segment.
    pub fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let listed = self.l1.len() as usize + self.l2.len() as usize;
        let first = self.l1.iter(&self.places).take(listed);
        let second = self.l2.iter(&self.places).take(listed);
        each_once(first.chain(second), lines)?;
        let mut second = self.l2.iter(&self.places);
        if let Some(slot) = second.find(|&slot| lines[slot as usize].prefetched != 0) {
            let what = format!("segment {} of L2 has prefetched blocks", lines[slot as usize].number);
            return Err(Violation { invariant: "I-2", what });
        }
        if self.l1.len() > self.limit {
            let what = format!("L1 has {} segments, its limit is {}", self.l1.len(), self.limit);
            return Err(Violation { invariant: "I-2", what });
        }
        let (l1, l2) = (&self.l1, &self.l2);
        let sound = l1.is_sound(&self.places, all(lines)) && l2.is_sound(&self.places, cached(lines));
        if !sound {
            return Err(Violation {
                invariant: "I-3",
                what: "the regions B1 and B2 are kept wrongly".into(),
            });
        }
        Ok(())
    }
}
