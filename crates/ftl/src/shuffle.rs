//! A random order by arithmetic: which number stands at a place, and at which place a number stands.
//!
//! A table of a random order takes 4 bytes for each number and a random access for each step. This takes nothing: a network
//! of six rounds over the bits of a number (Luby and Rackoff, *How to construct pseudorandom permutations from pseudorandom
//! functions*, SIAM J. Comput. 1988), in each of which one half is changed by a hash of the other, is a permutation of all numbers of
//! so many bits; where the result lies beyond the last number it is taken again, until it does not (Black and Rogaway, *Ciphers
//! with arbitrary finite domains*, CT-RSA 2002). At most half of the numbers of so many bits lie beyond, so that one takes
//! less than two turns on average.
//!
//! The halves have different lengths where the number of bits is odd. The hash is for even spread and not for secrecy. Cost: some
//! sixty instructions. RAM: none.

/// Rounds: three for each half.
const ROUNDS: u32 = 6;

/// A permutation of `0..count`.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    key: u64,
    count: u32,
    low_bits: u32,
    low_mask: u32,
    high_mask: u32,
}

impl Shuffle {
    /// A permutation of the numbers below `count`, another one for each key.
    pub fn new(count: u32, key: u64) -> Shuffle {
        let bits = (u32::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let mask = |bits: u32| (1u32 << bits) - 1;
        Shuffle { key, count, low_bits, low_mask: mask(low_bits), high_mask: mask(bits - low_bits) }
    }

    /// The number at `place`, which is below the count.
    #[inline]
    pub fn at(&self, place: u32) -> u32 {
        self.walk(place, |low, high| {
            let (mut low, mut high) = (low, high);
            for round in (0..ROUNDS).step_by(2) {
                low ^= self.hash(high, round) & self.low_mask;
                high ^= self.hash(low, round + 1) & self.high_mask;
            }
            (low, high)
        })
    }

    /// The place at which `number` stands, which is below the count.
    #[inline]
    pub fn place(&self, number: u32) -> u32 {
        self.walk(number, |low, high| {
            let (mut low, mut high) = (low, high);
            for round in (0..ROUNDS).step_by(2).rev() {
                high ^= self.hash(low, round + 1) & self.high_mask;
                low ^= self.hash(high, round) & self.low_mask;
            }
            (low, high)
        })
    }

    #[inline(always)]
    fn walk(&self, mut number: u32, network: impl Fn(u32, u32) -> (u32, u32)) -> u32 {
        debug_assert!(number < self.count);
        loop {
            let (low, high) = network(number & self.low_mask, number >> self.low_bits);
            number = high << self.low_bits | low;
            if number < self.count {
                return number;
            }
        }
    }

    #[inline(always)]
    fn hash(&self, half: u32, round: u32) -> u32 {
        let mixed = (u64::from(half) ^ self.key)
            .wrapping_add(u64::from(round) << 32)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_stands_at_one_place() {
        for count in (1..70).chain([255, 256, 257, 5000, 70_001]) {
            let shuffle = Shuffle::new(count, u64::from(count) * 77);
            let mut seen = vec![false; count as usize];
            for place in 0..count {
                let number = shuffle.at(place);
                assert!(
                    !std::mem::replace(&mut seen[number as usize], true),
                    "{number} of {count} comes twice"
                );
                assert_eq!(shuffle.place(number), place, "{count}");
            }
        }
        let large = Shuffle::new(u32::MAX - 7, 1);
        assert!((0..1000).all(|n| large.place(large.at(n * 4_000_000)) == n * 4_000_000));
    }

    /// Chi-squared over where the numbers of one stretch go, and over the distance of neighbours.
    #[test]
    fn places_are_spread_evenly() {
        const BINS: usize = 64;
        for key in 0..20 {
            let shuffle = Shuffle::new(100_000, key);
            let (mut places, mut steps) = ([0f64; BINS], [0f64; BINS]);
            let bin = |n: u32| (u64::from(n) * BINS as u64 / 100_000) as usize;
            for place in 0..6400 {
                let (here, next) = (shuffle.at(place), shuffle.at(place + 1));
                places[bin(here)] += 1.0;
                steps[bin((next + 100_000 - here) % 100_000)] += 1.0;
            }
            for counts in [places, steps] {
                let chi: f64 = counts.iter().map(|n| (n - 100.0) * (n - 100.0) / 100.0).sum();
                // 63 degrees of freedom: beyond 120 once in some 10^5.
                assert!(chi < 120.0, "key {key}: {chi}");
            }
        }
    }
}
