//! `levels`: pages are sorted by the logarithm of their uses, and the highest levels stay that fit.
//!
//! In the manner of the multiqueue of dm-cache (`smq`, Linux documentation of device-mapper cache policies), which keeps its blocks sorted
//! by hits in queues of even length and takes victims from the lowest. Uses are halved when a page is written again.
//!
//! Cost: the pages of a batch are looked at once more.

use super::{Demotion, DemotionOptions, LEVELS};
use nandu_base::{BuildError, Declared, options};

/// Options of `levels`.
#[options]
#[derive(Clone, Debug)]
pub struct LevelsConfig {}

impl Declared for LevelsConfig {
    const NAME: &'static str = "levels";
    const SUMMARY: &'static str = "Those of the highest levels, as many as half of the reserve holds. A level is the logarithm of the uses, which \
         are halved each time a page stays.";
    const SOURCE: &'static str = "after Linux, dm-cache smq";
}

impl DemotionOptions for LevelsConfig {
    type Policy = SortedLevels;

    fn build(&self) -> Result<SortedLevels, BuildError> {
        Ok(SortedLevels)
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct SortedLevels;

impl Demotion for SortedLevels {
    fn inherited(&self, uses: u8) -> u8 {
        uses / 2
    }

    fn overwritten(&self, uses: u8) -> u8 {
        uses.saturating_add(1)
    }

    fn budget(&self, _zone: u32, room: u32) -> u32 {
        room
    }

    fn least(&self, counts: &[u32; LEVELS], budget: u32) -> u8 {
        let mut sum = 0;
        let fits = |&level: &usize| {
            sum += counts[level];
            sum <= budget
        };
        let lowest = (1..LEVELS).rev().take_while(fits).last();
        lowest.map_or(u8::MAX, |level| 1 << (level - 1))
    }

    fn sorts(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_levels_that_fit_stay() {
        let mut counts = [0; LEVELS];
        (counts[0], counts[1], counts[2], counts[5]) = (100, 50, 20, 5);
        let least = |budget| SortedLevels.least(&counts, budget);
        assert_eq!(
            [4, 5, 24, 25, 74, 75, 1000].map(least),
            [32, 4, 4, 2, 2, 1, 1],
            "never used, never stays"
        );
        // An obvious version: uses of each page; a bound is right if those at or above it fit, and with a lower one they do not.
        for budget in 0..100 {
            let least = least(budget);
            let stay = |least: u8| -> u32 {
                (1..LEVELS).filter(|&l| 1 << (l - 1) >= u32::from(least)).map(|l| counts[l]).sum()
            };
            assert!(least == u8::MAX || stay(least) <= budget, "budget {budget}");
            assert!(least <= 1 || least == u8::MAX || stay(least / 2) > budget, "budget {budget}");
        }
    }
}
