//! Static wear levelling: which block is cleared for its wear and not for the room that it gains. One file per policy, one line in
//! [`POLICIES`]. The type of its options declares it: see [`LevellingOptions`].
//!
//! A policy says when a block may be cleared for its wear, and which. What it costs is bounded by the controller: one block, once clearing has
//! gained as many pages as a block has, and only while erased blocks are left. Where the pages go, the controller says too.

mod options;
mod sw_leveler;
mod threshold;

pub use options::{AnyLevelling, LevellingConfig, LevellingOptions, Levellings, POLICIES, policy};
pub use sw_leveler::{SwLeveler, SwLevelerConfig};
pub use threshold::{Threshold, ThresholdConfig};

use crate::address::BlockId;

/// What can be done with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is bad: its erases say nothing.
    Bad,
    /// It is erased, being written, or not to be moved now.
    Kept,
    /// It holds data that may be moved.
    Movable,
}

/// A block, as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Worn {
    /// Its number.
    pub block: BlockId,
    /// How often it was erased.
    pub erases: u32,
    /// What can be done with it.
    pub standing: Standing,
}

/// What a policy may look at: the blocks of one pool's plane, always the same ones in the same order.
#[derive(Clone, Copy, Debug)]
pub struct WearView<'a> {
    /// The pool whose turn it is, from 0.
    pub pool: u32,
    /// The blocks.
    pub blocks: &'a [Worn],
}

impl WearView<'_> {
    /// The erases of the most worn block that is not bad; zero where all are.
    pub fn most(&self) -> u32 {
        let good = self.blocks.iter().filter(|worn| worn.standing != Standing::Bad);
        good.map(|worn| worn.erases).max().unwrap_or(0)
    }

    /// Whether the block at `place` may be moved.
    pub fn may_move(&self, place: usize) -> bool {
        self.blocks[place].standing == Standing::Movable
    }
}

/// Chooses blocks that are cleared for their wear.
pub trait WearPolicy: Send {
    /// Another block of the pool is cleared for the room that it gains. Whether one may be cleared for its wear now: `is_paid` says whether
    /// clearing has gained as many pages as a block has since the last time. Without that none is.
    fn is_due(&mut self, pool: u32, is_paid: bool) -> bool;

    /// Whether [`victim`](WearPolicy::victim) would name none whatever else is said of the blocks: those that are not bad were erased from
    /// `least` to `most` times. It is asked first, for what can be done with each block costs more to find out.
    fn is_level(&self, _least: u32, _most: u32) -> bool {
        false
    }

    /// The place in the view of the block to clear, which may be moved; `None` when no block has worn too little.
    fn victim(&mut self, view: WearView<'_>) -> Option<usize>;
}

/// Views for the policies' tests.
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks from number 64 on.
    pub fn worn(of: impl IntoIterator<Item = (u32, Standing)>) -> Vec<Worn> {
        (64..)
            .zip(of)
            .map(|(block, (erases, standing))| Worn { block: BlockId(block), erases, standing })
            .collect()
    }

    /// Any plane of up to 40 blocks.
    pub fn blocks() -> impl Strategy<Value = Vec<Worn>> {
        let standing = prop_oneof![Just(Standing::Bad), Just(Standing::Kept), Just(Standing::Movable)];
        prop::collection::vec((0u32..30, standing), 1..40).prop_map(worn)
    }

    proptest! {
        /// Whatever a policy names may be moved, while blocks wear in any way.
        #[test]
        fn every_policy_names_a_block_that_may_be_moved(
            mut blocks in blocks(),
            erased in prop::collection::vec(0usize..40, 1..60),
        ) {
            for declared in POLICIES {
                for draw in declared.draws {
                    let options = format!("{{ {draw} }}").parse::<toml::Value>().expect("an inline table");
                    let options = options.as_table().expect("a table").clone();
                    let config = LevellingConfig::new(declared.name, options).expect("its own options");
                    let mut policy = config.options().expect("it is of this crate").boxed(2, 100);
                    for place in &erased {
                        let count = blocks.len();
                        blocks[place % count].erases += 3;
                        policy.is_due(1, true);
                        let view = WearView { pool: 1, blocks: &blocks };
                        let victim = policy.victim(view);
                        prop_assert!(victim.is_none_or(|place| view.may_move(place)), "{}", declared.name);
                    }
                }
            }
        }
    }
}
