//! `lb-clock`: of the NAND blocks that were not written again, the one with most dirty pages goes below first (B0-15).
//!
//! Dirty pages are grouped by NAND block. The groups stand on a clock; a write sets the mark of its group. The hand takes
//! marks away as it passes, and of the groups it finds without one the largest goes. A group written from its first to
//! its last page in order loses its mark at once. Debnath, Subramanya, Du and Lilja, "Large Block CLOCK (LB-CLOCK): a
//! write caching algorithm for solid state disks", MASCOTS 2009.
//!
//! Where we differ: the hand passes at most 64 groups in one search, where the published one passes the whole clock; if it
//! took only marks away, the largest of these groups goes.
//!
//! Cost: 9 bytes for each group, 64 steps for a search.

use super::{Destage, DestageOptions, Wrote};
use crate::list::{Chain, List, NONE};
use nandu_base::{Declared, options};

/// Units that a search looks at.
const LOOK_AT: usize = 64;

/// Options of `lb-clock`.
#[options]
#[derive(Clone, Debug)]
pub struct LbClockConfig {}

impl Declared for LbClockConfig {
    const NAME: &'static str = "lb-clock";
    const SUMMARY: &'static str = "The NAND block with most dirty pages of those not written again.";
    const SOURCE: &'static str = "Debnath et al., MASCOTS 2009";
}

impl DestageOptions for LbClockConfig {
    type Policy = LbClock;

    fn build(&self, slots: usize) -> LbClock {
        LbClock::new(slots)
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct LbClock {
    chain: Chain,
    clock: List,
    marks: Vec<bool>,
    hand: u32,
}

impl LbClock {
    /// For at most `slots` groups.
    pub fn new(slots: usize) -> LbClock {
        LbClock { chain: Chain::new(slots), clock: List::default(), marks: vec![false; slots], hand: NONE }
    }
}

impl Destage for LbClock {
    fn wrote(&mut self, slot: u32, wrote: Wrote) {
        if wrote.new {
            self.clock.push(&mut self.chain, slot);
        }
        self.marks[slot as usize] = !wrote.in_order;
    }

    fn victim(&mut self, waiting: &[u32]) -> Option<u32> {
        let (mut best, mut marked) = (None::<u32>, None::<u32>);
        let mut at = self.hand;
        for _ in 0..LOOK_AT.min(self.clock.len() as usize) {
            if at == NONE {
                at = self.clock.oldest();
            }
            let count = waiting[at as usize];
            let larger = |than: Option<u32>| than.is_none_or(|slot| waiting[slot as usize] < count);
            let had_mark = std::mem::take(&mut self.marks[at as usize]);
            if count > 0 && had_mark && larger(marked) {
                marked = Some(at);
            } else if count > 0 && !had_mark && larger(best) {
                best = Some(at);
            }
            at = self.chain.newer(at);
        }
        self.hand = at;
        best.or(marked)
    }

    fn gone(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.chain.newer(slot);
        }
        self.clock.remove(&mut self.chain, slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + self.marks.len()
    }
}
