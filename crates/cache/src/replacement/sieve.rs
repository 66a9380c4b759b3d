//! `sieve`: a queue and a hand that passes over what was met.
//!
//! Lines stand in the order in which they came. A line that is met gets a mark and stays where it is. A hand goes from
//! the oldest line to the newest and again; it takes marks away and stops at a line without one, which goes. Zhang et al.,
//! "SIEVE is Simpler than LRU", NSDI 2024, figure 1.
//!
//! Where we differ: the first meeting of a prefetched block sets no mark, for it is the request for which the block
//! would have come. Lines of a segment get their mark by any block.
//!
//! Cost: 9 bytes for each line. O(1) for each event, a step of the hand over a marked line being paid by the meeting
//! that set the mark.

use super::{Arrival, Hit, LineOf, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::list::{Chain, List, NONE};
use nandu_base::{BuildError, Declared, Violation, options};

/// Options of `sieve`.
#[options]
#[derive(Clone, Debug)]
pub struct SieveConfig {
    /// What goes at a time.
    #[option(default)]
    pub granularity: LineOf,
}

impl Declared for SieveConfig {
    const NAME: &'static str = "sieve";
    const SUMMARY: &'static str = "A queue and a hand (SIEVE).";
    const SOURCE: &'static str = "Zhang et al., NSDI 2024";
    const DRAWS: &'static [&'static str] = &["", "granularity = \"segment\""];
}

impl ReplacementOptions for SieveConfig {
    type Policy = Sieve;

    fn line(&self) -> LineOf {
        self.granularity
    }

    fn build(&self, room: Room) -> Result<Sieve, BuildError> {
        Ok(Sieve::new(room.slots()))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Sieve {
    chain: Chain,
    queue: List,
    marks: Vec<bool>,
    /// Where the hand starts; [`NONE`] for the oldest line.
    hand: u32,
}

impl Sieve {
    /// For at most `slots` lines.
    pub fn new(slots: usize) -> Sieve {
        Sieve { chain: Chain::new(slots), queue: List::default(), marks: vec![false; slots], hand: NONE }
    }

    fn take(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.chain.newer(slot);
        }
        self.queue.remove(&mut self.chain, slot);
    }
}

impl Replacement for Sieve {
    #[inline]
    fn insert(&mut self, slot: u32, _lines: &[Line], _arrival: Arrival) {
        self.queue.push(&mut self.chain, slot);
        self.marks[slot as usize] = false;
    }

    #[inline]
    fn refill(&mut self, slot: u32, _lines: &[Line], arrival: Arrival) {
        self.marks[slot as usize] |= arrival.cause != super::Cause::Prefetch;
    }

    #[inline]
    fn hit(&mut self, slot: u32, _lines: &[Line], hit: Hit) {
        self.marks[slot as usize] |= !hit.prefetched;
    }

    #[inline]
    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let oldest = self.queue.oldest();
        if oldest == NONE {
            return None;
        }
        let mut at = if self.hand == NONE { oldest } else { self.hand };
        while std::mem::take(&mut self.marks[at as usize]) {
            at = self.chain.newer(at);
            if at == NONE {
                at = oldest;
            }
        }
        self.hand = self.chain.newer(at);
        self.queue.remove(&mut self.chain, at);
        Some(Victim::Whole(at))
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        self.take(slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + self.marks.len()
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        each_once(self.queue.iter(&self.chain), lines)
    }
}
