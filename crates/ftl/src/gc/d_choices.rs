//! d-choices: draw d blocks at random and clear the one with the most invalid pages.
//!
//! Van Houdt, "A Mean Field Model for a Class of Garbage Collection Algorithms in Flash-based Solid State Drives",
//! SIGMETRICS 2013. With d = 10 nearly as good as greedy for uniform writes, without keeping an order of blocks; with small d
//! cold blocks are cleared now and then too, which levels wear. d = 1 is random collection.
//!
//! We differ in one point: blocks without any invalid page, and those being written, are drawn again. When so many draws fail
//! that there can be few others, the first block that qualifies behind a random one is taken instead of the next draw.
//!
//! Draws are with replacement, from the drive's own generator, so that the seed fixes them; they start over after a power
//! cut. Ties go to the block drawn first. Cost: d draws and, in the worst case, one pass over the plane for each of them.

use super::{GcPolicy, PlaneView, VictimOptions};
use crate::address::BlockId;
use nandu_base::{Declared, Rng, options};

/// Draws that may fail before the blocks are passed through.
const FAILURES_MAX: u32 = 32;

/// Options of `d-choices`.
#[options]
#[derive(Clone, Debug)]
pub struct DChoicesConfig {
    /// Blocks that `d-choices` draws.
    #[option(default = 10, range = 1..=1000)]
    pub choices: u32,
}

impl Declared for DChoicesConfig {
    const NAME: &'static str = "d-choices";
    const SUMMARY: &'static str = "The block with the most invalid pages of some that are drawn at random.";
    const SOURCE: &'static str = "Van Houdt, SIGMETRICS 2013";
    const DRAWS: &'static [&'static str] = &["choices = 1", "choices = 3"];
}

impl VictimOptions for DChoicesConfig {
    type Policy = DChoices;

    fn build(&self, _blocks: u32, seed: u64) -> DChoices {
        DChoices::new(self.choices, seed)
    }
}

/// The policy with its random numbers.
#[derive(Clone, Debug)]
pub struct DChoices {
    draws: u32,
    rng: Rng,
}

impl DChoices {
    /// `draws` blocks are compared, at least one.
    pub fn new(draws: u32, seed: u64) -> DChoices {
        assert!(draws > 0, "at least one block is drawn");
        DChoices { draws, rng: Rng::new(seed) }
    }

    /// A random block with something to gain.
    fn draw(&mut self, view: &PlaneView<'_>) -> Option<usize> {
        let blocks = view.invalid.len();
        let mut index = 0;
        for _ in 0..=FAILURES_MAX {
            index = self.rng.below(blocks as u64) as usize;
            if view.gain(index) > 0 {
                return Some(index);
            }
        }
        (index..blocks).chain(0..index).find(|&index| view.gain(index) > 0)
    }
}

impl GcPolicy for DChoices {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        let mut best = self.draw(&view)?;
        for _ in 1..self.draws {
            let other = self.draw(&view)?;
            if view.invalid[other] > view.invalid[best] {
                best = other;
            }
        }
        Some(view.block(best))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Greedy;
    use super::super::tests::{Blocks, blocks};
    use super::{BlockId, DChoices, GcPolicy};
    use nandu_base::Rng;
    use proptest::{prop_assert_eq, proptest};

    #[test]
    fn one_draw_takes_every_block_equally_often() {
        let mut policy = DChoices::new(1, 7);
        let blocks = Blocks::with(&[3, 0, 20, 1, 9], &[1; 5]);
        let mut taken = [0u32; 5];
        for _ in 0..40_000 {
            let block = policy.victim(blocks.view()).unwrap();
            taken[(block.0 - 64) as usize] += 1;
        }
        assert_eq!(taken[1], 0);
        for place in [0, 2, 3, 4] {
            // Five standard deviations of a binomial of 40,000 at 1/4: 433.
            assert!(taken[place].abs_diff(10_000) < 433, "seed 7: {taken:?}");
        }
    }

    #[test]
    fn very_many_draws_are_greedy() {
        let blocks = Blocks::with(&[3, 0, 17, 1, 9], &[1; 5]);
        assert_eq!(DChoices::new(500, 3).victim(blocks.view()), Greedy::default().victim(blocks.view()));
    }

    #[test]
    fn the_only_block_among_very_many_is_found() {
        let mut blocks = Blocks::with(&[0; 5000], &[1; 5000]);
        blocks.invalid[4321] = 1;
        assert_eq!(DChoices::new(3, 1).victim(blocks.view()), Some(BlockId(64 + 4321)));
    }

    proptest! {
        /// The obvious model: write the draws down, then look for the best of them.
        #[test]
        fn agrees_with_a_list_of_draws(blocks in blocks(), draws in 1u32..8, seed in 0u64..1000) {
            let eligible = blocks.eligible();
            let n = blocks.invalid.len();
            let mut rng = Rng::new(seed);
            let mut places = Vec::new();
            while !eligible.is_empty() && places.len() < draws as usize {
                let mut tries = Vec::new();
                while tries.len() < 33 && !tries.iter().any(|i| eligible.contains(i)) {
                    tries.push(rng.below(n as u64) as usize);
                }
                let last = tries[tries.len() - 1];
                // The first that qualifies from there on, round the plane.
                let mut round = (0..n).map(|step| (last + step) % n);
                places.push(round.find(|i| eligible.contains(i)).unwrap());
            }
            let best = places.into_iter().rev().max_by_key(|&i| blocks.invalid[i]);
            let got = DChoices::new(draws, seed).victim(blocks.view());
            prop_assert_eq!(got, best.map(|i| blocks.view().block(i)));
        }
    }
}
