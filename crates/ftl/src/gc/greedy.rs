//! Greedy: clear the block with the most invalid pages.
//!
//! Least work per page gained, and optimal for uniformly random writes; no regard for wear or for how soon the remaining
//! pages become invalid. Ties go to the lowest block number, or with `ties = "least-erased"` to the block that was erased least often, the lowest
//! of these: dynamic wear levelling that costs no move. Cost: one pass over the plane's counters (2 bytes each) per
//! victim; measured against bucket lists, which pay on every overwrite, the pass is cheaper up to some hundred blocks.
//! Free blocks count zero invalid pages and are never taken.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::{Declared, options};
use std::cmp::Reverse;

/// Options of `greedy`.
#[options]
#[derive(Clone, Debug)]
pub struct GreedyConfig {
    /// Which of blocks with equally many invalid pages goes.
    #[option(default)]
    pub ties: Ties,
}

/// Which of blocks with equally many invalid pages goes.
#[options]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one with the lowest number.
    #[default]
    Lowest,
    /// The one that was erased least often.
    LeastErased,
}

impl Declared for GreedyConfig {
    const NAME: &'static str = "greedy";
    const SUMMARY: &'static str = "The block with the most invalid pages.";
    const SOURCE: &'static str = "";
    const DRAWS: &'static [&'static str] = &["", "ties = \"least-erased\""];
}

impl VictimOptions for GreedyConfig {
    type Policy = Greedy;

    fn build(&self, _blocks: u32, _seed: u64) -> Greedy {
        Greedy(self.ties)
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct Greedy(pub Ties);

impl GcPolicy for Greedy {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        if self.0 == Ties::LeastErased {
            let gains = (0..view.invalid.len()).filter(|&index| view.gain(index) > 0);
            let best = gains.min_by_key(|&index| (Reverse(view.invalid[index]), view.erases[index]));
            return best.map(|index| view.block(index));
        }
        let mut best = 0;
        let mut victim = None;
        for (index, &invalid) in view.invalid.iter().enumerate() {
            if invalid > best && view.may_take(index) {
                best = invalid;
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
        /// The obvious model: sort by (most invalid, lowest number) and take the first.
        #[test]
        fn agrees_with_sorting(blocks in blocks()) {
            let mut order = blocks.eligible();
            order.sort_by_key(|&i| (Reverse(blocks.invalid[i]), i));
            let want = order.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(Greedy::default().victim(blocks.view()), want);
        }

        #[test]
        fn ties_go_to_the_least_erased(mut blocks in blocks()) {
            // So few values that there are ties, of both kinds.
            blocks.invalid.iter_mut().for_each(|invalid| *invalid = (*invalid).min(3));
            blocks.erases = blocks.opened.iter().map(|&opened| (opened / 20 % 3) as u32).collect();
            let mut order = blocks.eligible();
            order.sort_by_key(|&i| (Reverse(blocks.invalid[i]), blocks.erases[i], i));
            let want = order.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(Greedy(Ties::LeastErased).victim(blocks.view()), want);
        }
    }
}
