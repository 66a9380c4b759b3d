//! Greedy: clear the block with the most invalid pages.
//!
//! Least work per page gained, and optimal for uniformly random writes; no regard for wear or for how soon the remaining
//! pages become invalid. Ties go to the lowest block number. Cost: one pass over the plane's counters (2 bytes each) per
//! victim; measured against bucket lists, which pay on every overwrite, the pass is cheaper up to some hundred blocks.
//! Free blocks count zero invalid pages and are never taken.

use super::{GcPolicy, PlaneView};
use crate::address::BlockId;

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
                victim = Some(BlockId(view.first.0 + index as u32));
            }
        }
        victim
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOBODY: [BlockId; 3] = [BlockId(u32::MAX); 3];

    #[test]
    fn nothing_to_gain_means_no_victim() {
        let view = PlaneView { invalid: &[0, 0], first: BlockId(4), busy: NOBODY };
        assert_eq!(Greedy.victim(view), None);
        let view =
            PlaneView { invalid: &[0, 3], first: BlockId(4), busy: [BlockId(5), NOBODY[0], NOBODY[0]] };
        assert_eq!(Greedy.victim(view), None);
    }

    proptest! {
        /// The obvious model: sort by (most invalid, lowest number) and take the first that is not busy.
        #[test]
        fn agrees_with_sorting(invalid in prop::collection::vec(0u16..20, 1..40), busy in prop::array::uniform3(0u32..40)) {
            let busy = busy.map(BlockId);
            let mut order: Vec<usize> = (0..invalid.len()).collect();
            order.sort_by_key(|&i| (std::cmp::Reverse(invalid[i]), i));
            let want = order.into_iter().find(|&i| invalid[i] > 0 && !busy.contains(&BlockId(i as u32)));
            let view = PlaneView { invalid: &invalid, first: BlockId(0), busy };
            prop_assert_eq!(Greedy.victim(view), want.map(|i| BlockId(i as u32)));
        }
    }
}
