//! Greedy: clear the block with the most invalid pages.
//!
//! Least work per page gained, and optimal for uniformly random writes; no regard for wear or for how soon the remaining
//! pages become invalid. Ties go to the lowest block number. Cost: one pass over the plane's counters (2 bytes each) per
//! victim; measured against bucket lists, which pay on every overwrite, the pass is cheaper up to some hundred blocks.
//! Free blocks count zero invalid pages and are never taken.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::Declared;
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of `greedy`: none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GreedyConfig {}

impl Declared for GreedyConfig {
    const NAME: &'static str = "greedy";
    const SUMMARY: &'static str = "The block with the most invalid pages.";
    const SOURCE: &'static str = "";
}

impl VictimOptions for GreedyConfig {
    type Policy = Greedy;

    fn build(&self, _blocks: u32, _seed: u64) -> Greedy {
        Greedy
    }
}

/// The policy; it has no state.
#[derive(Clone, Copy, Default, Debug)]
pub struct Greedy;

impl GcPolicy for Greedy {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
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
            order.sort_by_key(|&i| (std::cmp::Reverse(blocks.invalid[i]), i));
            let want = order.first().map(|&i| blocks.view().block(i));
            prop_assert_eq!(Greedy.victim(blocks.view()), want);
        }
    }
}
