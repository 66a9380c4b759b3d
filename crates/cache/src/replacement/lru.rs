//! `lru`: the line that was met longest ago goes.
//!
//! One list; a line that comes or is met becomes the newest (Mattson et al., IBM Systems Journal 1970). With lines of one
//! block it is the plain page cache; with lines of a segment it is the frame cache of a driver without the scheme (B0-1):
//! memory is taken by blocks, a line goes as a whole. The first meeting of a prefetched block counts like any other.
//!
//! Cost: 8 bytes for each line, O(1) for each event.

use super::{Arrival, Hit, LineOf, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::list::{Chain, List};
use nandu_base::{BuildError, Declared, Violation, options};

/// Options of `lru`.
#[options]
#[derive(Clone, Debug)]
pub struct LruConfig {
    /// What goes at a time; a segment is that of the prefetcher.
    #[option(default)]
    pub granularity: LineOf,
}

impl Declared for LruConfig {
    const NAME: &'static str = "lru";
    const SUMMARY: &'static str = "The line that was met longest ago goes.";
    const SOURCE: &'static str = "Mattson et al., IBM Systems Journal 1970";
    const DRAWS: &'static [&'static str] = &["", "granularity = \"segment\""];
}

impl ReplacementOptions for LruConfig {
    type Policy = Lru;

    fn line(&self) -> LineOf {
        self.granularity
    }

    fn build(&self, room: Room) -> Result<Lru, BuildError> {
        Ok(Lru::new(room.slots()))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Lru {
    chain: Chain,
    list: List,
}

impl Lru {
    /// For at most `slots` lines.
    pub fn new(slots: usize) -> Lru {
        Lru { chain: Chain::new(slots), list: List::default() }
    }
}

impl Replacement for Lru {
    #[inline(always)]
    fn insert(&mut self, slot: u32, _lines: &[Line], _arrival: Arrival) {
        self.list.push(&mut self.chain, slot);
    }

    #[inline(always)]
    fn refill(&mut self, slot: u32, _lines: &[Line], _arrival: Arrival) {
        self.list.renew(&mut self.chain, slot);
    }

    #[inline(always)]
    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        self.list.renew(&mut self.chain, slot);
    }

    #[inline(always)]
    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        self.list.pop(&mut self.chain).map(Victim::Whole)
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        self.list.remove(&mut self.chain, slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes()
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        each_once(self.list.iter(&self.chain), lines)
    }
}
