//! Windowed greedy: of the blocks that were opened longest ago, clear the one with the most invalid pages.
//!
//! Hu, Eleftheriou, Haas, Iliadis, Pletka: "Write Amplification Analysis in Flash-Based Solid State Drives", SYSTOR 2009,
//! section 3. A window of one is FIFO, a window of all blocks is greedy; in between, blocks that were written lately are left
//! alone, however empty they are for the moment, because they are still becoming emptier.
//!
//! We differ as FIFO does: blocks without any invalid page take no place in the window, or data that never changes would
//! fill it. Ties go to the block opened first. Cost: one pass over the plane and a partial sort, 16 bytes of RAM per block.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::{Declared, options};

/// Options of `windowed`.
#[options]
#[derive(Clone, Debug)]
pub struct WindowedConfig {
    /// Blocks in the window of `windowed`.
    #[option(unset = "a quarter of a plane's", range = 1..)]
    pub window_blocks: Option<u32>,
}

impl Declared for WindowedConfig {
    const NAME: &'static str = "windowed";
    const SUMMARY: &'static str =
        "The block with the most invalid pages among those that were opened longest ago.";
    const SOURCE: &'static str = "Hu et al., SYSTOR 2009";
    const DRAWS: &'static [&'static str] = &["window_blocks = 1", "window_blocks = 5"];
}

impl VictimOptions for WindowedConfig {
    type Policy = Windowed;

    fn build(&self, blocks: u32, _seed: u64) -> Windowed {
        Windowed::new(self.window_blocks.unwrap_or((blocks / 4).max(1)))
    }
}

/// The policy, with its working space.
#[derive(Clone, Debug)]
pub struct Windowed {
    window: usize,
    /// Number of opening and place of each block that may be taken.
    queue: Vec<(u64, u32)>,
}

impl Windowed {
    /// A window of so many blocks, at least one.
    pub fn new(window: u32) -> Windowed {
        assert!(window > 0, "a window has at least one block");
        Windowed { window: window as usize, queue: Vec::new() }
    }
}

impl GcPolicy for Windowed {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        self.queue.clear();
        for (index, &opened) in view.opened.iter().enumerate() {
            if view.gain(index) > 0 {
                self.queue.push((opened, index as u32));
            }
        }
        if self.queue.len() > self.window {
            self.queue.select_nth_unstable(self.window - 1);
            self.queue.truncate(self.window);
        }
        let best = |&&(opened, index): &&(u64, u32)| {
            (view.invalid[index as usize], std::cmp::Reverse((opened, index)))
        };
        self.queue.iter().max_by_key(best).map(|&(_, index)| view.block(index as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Blocks, blocks};
    use super::super::{Fifo, Greedy};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_emptiest_block_outside_the_window_is_left_alone() {
        let blocks = Blocks::with(&[2, 5, 19], &[1, 21, 41]);
        assert_eq!(Windowed::new(2).victim(blocks.view()), Some(BlockId(65)));
        assert_eq!(Windowed::new(3).victim(blocks.view()), Some(BlockId(66)));
    }

    proptest! {
        /// The obvious model: sort by opening, cut, sort by invalid pages.
        #[test]
        fn agrees_with_sorting_twice(blocks in blocks(), window in 1u32..20) {
            let mut order = blocks.eligible();
            order.sort_by_key(|&i| blocks.opened[i]);
            order.truncate(window as usize);
            order.sort_by_key(|&i| (std::cmp::Reverse(blocks.invalid[i]), blocks.opened[i]));
            let want = order.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(Windowed::new(window).victim(blocks.view()), want);
        }

        #[test]
        fn a_window_of_one_is_fifo_and_of_all_gains_what_greedy_gains(blocks in blocks()) {
            let view = blocks.view();
            prop_assert_eq!(Windowed::new(1).victim(view), Fifo.victim(view));
            let gain = |victim: Option<BlockId>| victim.map(|b| blocks.invalid[(b.0 - 64) as usize]);
            prop_assert_eq!(gain(Windowed::new(40).victim(view)), gain(Greedy::default().victim(view)));
        }
    }
}
