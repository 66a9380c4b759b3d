//! Numbers in a random order, without a table: a permutation that is computed.
//!
//! A number is multiplied by an odd number and xored with its own upper half, both of which can be undone within so many bits, four
//! times with multipliers drawn from the seed; what falls outside the range goes round again (Black and Rogaway, *Ciphers
//! with arbitrary finite domains*, 2002: "cycle walking"). It is as good as shuffled for laying data out, not for secrets.
//!
//! Cost: some ten nanoseconds, whatever the size; a shuffled table of a large drive costs a miss of every cache and gigabytes.

use nandu_base::Rng;

const ROUNDS: usize = 4;

/// The numbers below `count` in a random order.
#[derive(Clone, Debug)]
pub struct Scatter {
    count: u32,
    mask: u32,
    shift: u32,
    /// An odd multiplier and a summand for each round.
    rounds: [(u32, u32); ROUNDS],
}

impl Scatter {
    /// An order of the numbers below `count`, which is at least 1.
    pub fn new(count: u32, seed: u64) -> Scatter {
        let bits = (u32::BITS - (count.max(2) - 1).leading_zeros()).max(2);
        let mut rng = Rng::new(seed);
        let mut round = || {
            let bits = rng.bits();
            (bits as u32 | 1, (bits >> 32) as u32)
        };
        Scatter {
            count,
            mask: u32::MAX >> (u32::BITS - bits),
            shift: bits.div_ceil(2),
            rounds: [round(), round(), round(), round()],
        }
    }

    /// The number at place `place`, which is below the count.
    #[inline]
    pub fn at(&self, place: u32) -> u32 {
        debug_assert!(place < self.count);
        let mut x = place;
        loop {
            for (factor, summand) in self.rounds {
                x = x.wrapping_mul(factor).wrapping_add(summand) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            for seed in 0..8 {
                let scatter = Scatter::new(count, seed);
                let mut numbers: Vec<u32> = (0..count).map(|place| scatter.at(place)).collect();
                numbers.sort_unstable();
                assert!(numbers.iter().copied().eq(0..count), "{count} numbers, seed {seed}");
            }
        }
    }

    #[test]
    fn neighbours_end_up_anywhere() {
        let count = 100_000u32;
        for seed in 0..8 {
            let scatter = Scatter::new(count, seed);
            let order: Vec<u32> = (0..count).map(|place| scatter.at(place)).collect();
            // Two random numbers are a third of the range apart on the mean.
            let apart: u64 = order.windows(2).map(|pair| u64::from(pair[0].abs_diff(pair[1]))).sum();
            let mean = apart / u64::from(count - 1);
            assert!((32_000..35_000).contains(&mean), "seed {seed}: {mean}");
            // Any stretch of a hundredth holds about a hundredth of any stretch of a hundredth of the numbers.
            let hits = order[..1000].iter().filter(|&&n| n < 1000).count();
            assert!(hits < 40, "seed {seed}: {hits}");
            // Both halves of any tenth are found alike among odd and even places.
            let even = order.iter().step_by(2).filter(|&&n| n < count / 10).count();
            assert!((4600..5400).contains(&even), "seed {seed}: {even}");
        }
    }
}
