//! Cost-benefit: weigh what a block gains against what it costs, and wait longer for blocks that are still losing pages.
//!
//! Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", ACM TOCS 10(1), 1992, section
//! 3.5, and Kawaguchi, Nishioka, Motoda, "A Flash-Memory Based File System", USENIX 1995, section 2.2: clear the block with the
//! largest (1 - u) / 2u x age, where u is the share of valid pages. Twice u, for they are read and written; a log-structured
//! file system reads the whole segment and divides by 1 + u.
//!
//! *Age*: both papers take the time since the block last changed. Ours is the number of pages that the drive has programmed
//! since the block was opened: it costs the request path nothing, and a night without requests makes no block older than
//! it was. So a block that holds moved, cold pages counts as young when it is made, as in the file system.
//!
//! A block without valid pages costs nothing and is taken at once, the oldest first. Everything is in whole numbers: two
//! blocks are compared by cross-multiplication. Ties go to the lowest block number. Cost: one pass over the plane, 10 bytes
//! a block.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::{Declared, options};
use std::cmp::Ordering;

/// Options of `cost-benefit`: none.
#[options]
#[derive(Clone, Debug)]
pub struct CostBenefitConfig {}

impl Declared for CostBenefitConfig {
    const NAME: &'static str = "cost-benefit";
    const SUMMARY: &'static str =
        "The block with the largest (1 - u) / 2u x age, u being the share of its valid pages.";
    const SOURCE: &'static str = "Rosenblum and Ousterhout, ACM TOCS 1992; Kawaguchi et al., USENIX 1995";
}

impl VictimOptions for CostBenefitConfig {
    type Policy = CostBenefit;

    fn build(&self, _blocks: u32, _seed: u64) -> CostBenefit {
        CostBenefit
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct CostBenefit;

/// Benefit over cost of one block: (invalid x age) / (2 x valid), kept as a ratio.
#[derive(Clone, Copy, Debug)]
struct Score {
    benefit: u128,
    cost: u128,
}

impl Score {
    /// Of a block with something to gain.
    fn of(view: &PlaneView<'_>, index: usize) -> Score {
        let invalid = view.invalid[index];
        let age = view.now.saturating_sub(view.opened[index]) + 1;
        let valid = u128::from(view.pages - invalid.min(view.pages));
        Score { benefit: u128::from(invalid) * u128::from(age), cost: 2 * valid }
    }

    fn compare(&self, other: &Score) -> Ordering {
        match (self.cost, other.cost) {
            (0, 0) => self.benefit.cmp(&other.benefit),
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            _ => (self.benefit * other.cost).cmp(&(other.benefit * self.cost)),
        }
    }
}

impl GcPolicy for CostBenefit {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        let mut best: Option<(Score, usize)> = None;
        for index in 0..view.invalid.len() {
            if view.gain(index) == 0 {
                continue;
            }
            let score = Score::of(&view, index);
            if best.is_none_or(|(most, _)| score.compare(&most) == Ordering::Greater) {
                best = Some((score, index));
            }
        }
        best.map(|(_, index)| view.block(index))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Blocks, PAGES, blocks};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_old_block_goes_before_a_young_one_that_gains_more() {
        // Invalid 5 of 20, age 1000: 5/30 x 1000 = 166. Invalid 10 of 20, age 100: 10/20 x 100 = 50.
        assert_eq!(CostBenefit.victim(Blocks::with(&[5, 10], &[1, 901]).view()), Some(BlockId(64)));
        // Of the same age the emptier one.
        assert_eq!(CostBenefit.victim(Blocks::with(&[5, 10], &[901, 901]).view()), Some(BlockId(65)));
    }

    #[test]
    fn a_block_that_costs_nothing_goes_first() {
        assert_eq!(CostBenefit.victim(Blocks::with(&[19, 20], &[1, 999]).view()), Some(BlockId(65)));
        assert_eq!(CostBenefit.victim(Blocks::with(&[20, 20], &[500, 1]).view()), Some(BlockId(65)));
    }

    proptest! {
        /// The obvious model: a table of exact fractions over a common denominator.
        #[test]
        fn agrees_with_fractions_over_a_common_denominator(blocks in blocks()) {
            // Every number of valid pages divides 20!; none at all counts as a ten-millionth of a page.
            let common: u128 = (1..=u128::from(PAGES)).product();
            let score = |i: usize| {
                let (invalid, age) = (u128::from(blocks.invalid[i]), u128::from(1001 - blocks.opened[i]));
                match u128::from(PAGES) - invalid {
                    0 => invalid * age * common * 10_000_000,
                    valid => invalid * age * (common / valid),
                }
            };
            let mut order = blocks.eligible();
            order.sort_by_key(|&i| (std::cmp::Reverse(score(i)), i));
            let want = order.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(CostBenefit.victim(blocks.view()), want);
        }
    }
}
