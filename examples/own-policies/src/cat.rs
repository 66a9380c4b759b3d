//! `cat`: cost, age, times. Clear the block that costs least for what it gains, is old, and was erased seldom.
//!
//! The block with the smallest  u / (1 - u) x erases / age  goes, where u is the share of its valid pages. Chiang and Chang,
//! "Cleaning policies in mobile computers using flash memory", Journal of Systems and Software 48 (1999), section 3.1.
//!
//! Where we differ: age is the number of pages programmed since the block was opened, as in `cost-benefit` of Nandu; the paper
//! groups times of day into steps by a heuristic. A block that was never erased counts one erase. Everything is in whole numbers:
//! fractions are compared by cross-multiplication. Ties go to the lowest block number.
//!
//! Cost: one pass over the plane for each victim, 14 bytes of it for each block. No RAM.

use nandu::victim::{BlockId, GcPolicy, PlaneView, VictimOptions};
use nandu::{Declared, options};

/// Options of `cat`: none.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {}

impl Declared for Config {
    const NAME: &'static str = "cat";
    const SUMMARY: &'static str =
        "The block with the smallest u / (1 - u) x erases / age (cost, age, times).";
    const SOURCE: &'static str = "Chiang and Chang, Journal of Systems and Software 1999";
}

impl VictimOptions for Config {
    type Policy = Cat;

    fn build(&self, _blocks: u32, _seed: u64) -> Cat {
        Cat
    }
}

/// The policy; it has no state.
pub struct Cat;

impl GcPolicy for Cat {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        let mut best: Option<(u128, u128, usize)> = None;
        for index in 0..view.invalid.len() {
            let gain = view.gain(index);
            if gain == 0 {
                continue;
            }
            let valid = u128::from(view.pages.saturating_sub(gain));
            let age = u128::from(view.now.saturating_sub(view.opened[index]) + 1);
            let cost = valid * u128::from(view.erases[index].max(1));
            let worth = u128::from(gain) * age;
            if best.is_none_or(|(least, its_worth, _)| cost * its_worth < least * worth) {
                best = Some((cost, worth, index));
            }
        }
        best.map(|(_, _, index)| view.block(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_decides_between_blocks_that_gain_alike() {
        let (invalid, opened) = ([5, 5, 0], [1, 1, 1]);
        let nobody = BlockId(u32::MAX);
        let choose = |erases: [u32; 3], busy: BlockId| {
            let (first, busy) = (BlockId(64), [busy, nobody, nobody]);
            Cat.victim(PlaneView {
                invalid: &invalid,
                opened: &opened,
                erases: &erases,
                now: 100,
                pages: 20,
                first,
                busy,
            })
        };
        assert_eq!(choose([9, 3, 0], nobody), Some(BlockId(65)));
        assert_eq!(choose([3, 9, 0], nobody), Some(BlockId(64)));
        assert_eq!(choose([3, 9, 0], BlockId(64)), Some(BlockId(65)), "a block that is written is not taken");
    }
}
