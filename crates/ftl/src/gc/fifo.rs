//! FIFO: clear the block that was opened longest ago.
//!
//! The circular log of Rosenblum and Ousterhout's "threading" alternative, and what Desnoyers calls LRU cleaning
//! ("Analytic Models of SSD Write Performance", ACM TOS 10(2), 2014): every block has the same time to lose its pages.
//! Levels wear by itself, and collects blocks that another week would have emptied.
//!
//! We differ in one point: a block without any invalid page is passed over. Clearing it would gain nothing, and data that
//! never changes would go round for ever; static wear levelling moves it when it must be moved.
//!
//! Ties cannot happen, for blocks are opened one after another. Cost: one pass over the plane, 10 bytes a block.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::{Declared, options};

/// Options of `fifo`: none.
#[options]
#[derive(Clone, Debug)]
pub struct FifoConfig {}

impl Declared for FifoConfig {
    const NAME: &'static str = "fifo";
    const SUMMARY: &'static str = "The block that was opened longest ago.";
    const SOURCE: &'static str = "Desnoyers, ACM TOS 2014";
}

impl VictimOptions for FifoConfig {
    type Policy = Fifo;

    fn build(&self, _blocks: u32, _seed: u64) -> Fifo {
        Fifo
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fifo;

impl GcPolicy for Fifo {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        let mut oldest = u64::MAX;
        let mut victim = None;
        for (index, &opened) in view.opened.iter().enumerate() {
            if opened < oldest && view.gain(index) > 0 {
                oldest = opened;
                victim = Some(view.block(index));
            }
        }
        victim
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::blocks;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The obvious model: a queue in the order of opening.
        #[test]
        fn agrees_with_a_queue(blocks in blocks()) {
            let mut queue = blocks.eligible();
            queue.sort_by_key(|&i| blocks.opened[i]);
            let want = queue.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(Fifo.victim(blocks.view()), want);
        }
    }
}
