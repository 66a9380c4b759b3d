//! Garbage collection: which block to clear next. One file per policy, one line in [`POLICIES`]. The type of its options
//! declares it: see [`VictimOptions`].
//!
//! A policy sees a read-only view of one plane and names a block. Moving the pages and erasing is the controller's work.
//! A victim is chosen once per erase, so a policy may look at every block of the plane, and the controller holds it
//! behind a pointer: the code of the request path is the same for all of them.

mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod options;
mod windowed;

pub use cost_benefit::{CostBenefit, CostBenefitConfig};
pub use d_choices::{DChoices, DChoicesConfig};
pub use fifo::{Fifo, FifoConfig};
pub use greedy::{Greedy, GreedyConfig};
pub use options::{AnyVictim, POLICIES, VictimConfig, VictimOptions, Victims, policy};
pub use windowed::{Windowed, WindowedConfig};

use crate::address::BlockId;

/// What a policy may look at: the blocks of one plane.
#[derive(Clone, Copy, Debug)]
pub struct PlaneView<'a> {
    /// Pages without valid data in each block of the plane, unwritten pages not counted. Zero for erased blocks, for those
    /// of a map on the flash and for bad ones.
    pub invalid: &'a [u16],
    /// Number of the program that each block was opened with; meaningless where `invalid` is zero.
    pub opened: &'a [u64],
    /// How often each block was erased.
    pub erases: &'a [u32],
    /// Number of the drive's last program.
    pub now: u64,
    /// Pages of a block.
    pub pages: u16,
    /// The block of `invalid[0]`.
    pub first: BlockId,
    /// Blocks that must not be taken: those being written, and one already being cleared.
    pub busy: [BlockId; 3],
}

impl PlaneView<'_> {
    /// Whether the block at `index` may be taken.
    #[inline]
    pub fn may_take(&self, index: usize) -> bool {
        !self.busy.contains(&self.block(index))
    }

    /// The block at `index`.
    #[inline]
    pub fn block(&self, index: usize) -> BlockId {
        BlockId(self.first.0 + index as u32)
    }

    /// Pages gained by clearing the block at `index`; zero when it must not be taken.
    #[inline]
    pub fn gain(&self, index: usize) -> u16 {
        match self.invalid[index] {
            0 => 0,
            gain if self.may_take(index) => gain,
            _ => 0,
        }
    }

    /// What a policy answers, held against its contract: collection would go on for ever with a block that gains nothing.
    ///
    /// # Panics
    ///
    /// When the block is not of this plane, must not be taken or has nothing to gain.
    pub fn held(&self, victim: Option<BlockId>) -> Option<BlockId> {
        let index = victim.map(|block| block.0.wrapping_sub(self.first.0) as usize);
        let gains = index.is_none_or(|index| index < self.invalid.len() && self.gain(index) > 0);
        assert!(
            gains,
            "the victim policy names {victim:?}, by which nothing is gained in the plane from {:?} on",
            self.first
        );
        victim
    }
}

/// Chooses the next block to clear.
pub trait GcPolicy: Send {
    /// A block with at least one page to gain, or `None` when there is none.
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId>;
}

/// Views for the policies' tests.
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks of 20 pages.
    pub const PAGES: u16 = 20;
    const NOBODY: BlockId = BlockId(u32::MAX);

    /// A plane of its own.
    #[derive(Clone, Debug)]
    pub struct Blocks {
        pub invalid: Vec<u16>,
        pub opened: Vec<u64>,
        pub erases: Vec<u32>,
        pub busy: [BlockId; 3],
    }

    impl Blocks {
        pub fn view(&self) -> PlaneView<'_> {
            let (invalid, opened) = (&self.invalid[..], &self.opened[..]);
            let (erases, first) = (&self.erases[..], BlockId(64));
            PlaneView { invalid, opened, erases, now: 1000, pages: PAGES, first, busy: self.busy }
        }

        pub fn with(invalid: &[u16], opened: &[u64]) -> Blocks {
            let erases = vec![0; invalid.len()];
            Blocks { invalid: invalid.into(), opened: opened.into(), erases, busy: [NOBODY; 3] }
        }

        /// Places of the blocks that may be taken, in order.
        pub fn eligible(&self) -> Vec<usize> {
            let free = |&i: &usize| self.invalid[i] > 0 && !self.busy.contains(&BlockId(64 + i as u32));
            (0..self.invalid.len()).filter(free).collect()
        }
    }

    /// Any plane of up to 40 blocks, three of them busy.
    pub fn blocks() -> impl Strategy<Value = Blocks> {
        (1usize..40).prop_flat_map(|n| {
            let busy = prop::array::uniform3(0u32..40);
            let opened = Just((0..n as u64).map(|i| i * 20 + 1).collect::<Vec<_>>()).prop_shuffle();
            (prop::collection::vec(0..=PAGES, n), opened, busy).prop_map(move |(invalid, opened, busy)| {
                Blocks { invalid, opened, erases: vec![0; n], busy: busy.map(|b| BlockId(64 + b)) }
            })
        })
    }

    #[test]
    fn nothing_to_gain_means_no_victim() {
        for declared in POLICIES {
            let config = VictimConfig::named(declared.name);
            let mut policy = config.options().expect("it is of this crate").boxed(2, 1);
            assert_eq!(policy.victim(Blocks::with(&[0, 0], &[1, 21]).view()), None);
            let mut one_is_open = Blocks::with(&[0, 3], &[1, 21]);
            one_is_open.busy[0] = BlockId(65);
            assert_eq!(policy.victim(one_is_open.view()), None);
            let taken = policy.victim(Blocks::with(&[0, 3], &[1, 21]).view());
            assert_eq!(taken, Some(BlockId(65)));
        }
    }

    #[test]
    fn a_policy_that_gains_nothing_is_stopped() {
        let mut blocks = Blocks::with(&[0, 3, 4], &[1, 21, 41]);
        blocks.busy[0] = BlockId(66);
        assert_eq!(blocks.view().held(Some(BlockId(65))), Some(BlockId(65)));
        assert_eq!(blocks.view().held(None), None);
        for other in [63, 64, 66, 67, u32::MAX] {
            let held = std::panic::catch_unwind(|| blocks.view().held(Some(BlockId(other))));
            assert!(held.is_err(), "block {other}");
        }
    }
}
