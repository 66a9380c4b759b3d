//! Who stays: which valid pages of a cold zone are written into their own ring again (O4-1).
//!
//! Uses of a slot are counted up to 255. What a copy within the ring inherits is the difference between the rules:
//!
//! * *referenced*: a page stays if it was read since it was written there. A second chance, as CLOCK gives it.
//! * *never*: nobody stays. A ring of buckets that are emptied in turn, as bcache's `fifo`.
//! * *pinned*: a page that was read or overwritten `hits` times stays, up to a share of the zone: in a whole turn of the ring that is the
//!   share of the ring that is pinned. After Kim and others, "I/O Performance Optimization Techniques for Hybrid Hard
//!   Disk-Based Mobile Consumer Devices" (2007): flash in a pinned and an unpinned zone, hot blocks in the first. Of the paper only
//!   what Yoo and others say of it was at hand. Uses are halved when a page is written again, so that the hot set may change.
//! * *levels*: pages are sorted by the logarithm of their uses, and the highest levels stay that fit. In the manner of the
//!   multiqueue of dm-cache (`smq`, Linux documentation of device-mapper cache policies), which keeps its blocks sorted by hits in queues of
//!   even length and takes victims from the lowest. Halved as above.
//!
//! With all of them at most half of the reserve is written again for a zone: more might find no room (S4-9).
//!
//! Cost: one byte for each slot; *levels* looks at the pages of a batch once more.

use crate::config::Rewrite;

/// Levels that *levels* tells apart: up to 1, 3, 7, ... uses.
pub(crate) const LEVELS: usize = 9;

/// The level of a page that was used so often: 0 for never.
pub(crate) fn level(uses: u8) -> usize {
    (u8::BITS - uses.leading_zeros()) as usize
}

impl Rewrite {
    /// Uses that a page begins with in its new slot of the same ring, when it had `uses`.
    pub(crate) fn inherited(self, uses: u8) -> u8 {
        match self {
            Rewrite::Referenced | Rewrite::Never => 0,
            Rewrite::Pinned { .. } | Rewrite::Levels => uses / 2,
        }
    }

    /// Uses that newer data of a page begins with, when the older had `uses`: to overwrite is to use.
    pub(crate) fn overwritten(self, uses: u8) -> u8 {
        match self {
            Rewrite::Referenced | Rewrite::Never => 0,
            Rewrite::Pinned { .. } | Rewrite::Levels => uses.saturating_add(1),
        }
    }

    /// Pages that may stay of a zone of `zone` pages, when `room` are at hand.
    pub(crate) fn budget(self, zone: u32, room: u32) -> u32 {
        match self {
            Rewrite::Never => 0,
            Rewrite::Referenced | Rewrite::Levels => room,
            Rewrite::Pinned { share, .. } => room.min(share.of(u64::from(zone)) as u32),
        }
    }

    /// The fewest uses with which a page stays. `counts` are the valid pages of the batch by level, of which `budget` may stay.
    pub(crate) fn least(self, counts: &[u32; LEVELS], budget: u32) -> u8 {
        match self {
            Rewrite::Never => u8::MAX,
            Rewrite::Referenced => 1,
            Rewrite::Pinned { hits, .. } => hits,
            Rewrite::Levels => {
                let mut sum = 0;
                let fits = |&level: &usize| {
                    sum += counts[level];
                    sum <= budget
                };
                let lowest = (1..LEVELS).rev().take_while(fits).last();
                lowest.map_or(u8::MAX, |level| 1 << (level - 1))
            }
        }
    }

    /// Whether [`Rewrite::least`] wants the counts.
    pub(crate) fn sorts(self) -> bool {
        self == Rewrite::Levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Ratio;

    #[test]
    fn levels_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 255].map(level), [0, 1, 2, 2, 3, 3, 4, 8]);
    }

    #[test]
    fn the_highest_levels_that_fit_stay() {
        let mut counts = [0; LEVELS];
        (counts[0], counts[1], counts[2], counts[5]) = (100, 50, 20, 5);
        let least = |budget| Rewrite::Levels.least(&counts, budget);
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

    #[test]
    fn a_pinned_share_is_one_of_the_zone() {
        let pinned = Rewrite::Pinned { hits: 3, share: Ratio::new(1, 2) };
        assert_eq!((pinned.budget(100, 80), pinned.budget(100, 20)), (50, 20));
        assert_eq!(
            (pinned.least(&[0; LEVELS], 1), pinned.inherited(9), pinned.overwritten(255)),
            (3, 4, 255)
        );
        assert_eq!((Rewrite::Never.budget(100, 80), Rewrite::Referenced.inherited(9)), (0, 0));
    }
}
