//! Zipf ranks and a scattering permutation, by integer arithmetic.
//!
//! Rank k (from 1) is drawn in proportion to k^-theta, by binary search in a table of running sums of fixed-point
//! weights: 8 B per rank. A second table says for each of up to 2^20 equal parts of the sum at which rank it begins, so that the
//! search is among few: at most 4 MiB. Ranks are scattered over the space by a four-round Feistel network with cycle walking, a
//! permutation that takes no memory. Sources: Zipf by inverse distribution as in libCacheSim's generator; Black and
//! Rogaway, "Ciphers with arbitrary finite domains" (CT-RSA 2002).

use super::fixed::{exp2_negative, exp2_negative_cut, log2};
use nandu_base::{Ratio, Rng};

/// Most ranks: 2^24, a table of 128 MiB.
pub const MAX_RANKS: u64 = 1 << 24;
/// Fraction bits of a weight; 2^24 weights of 1 sum to 2^62.
const WEIGHT_BITS: u32 = 38;

/// Draws ranks `0..n`, the first most often.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Sum of the weights up to and with each rank.
    sums: Vec<u64>,
    /// The first rank whose sum lies beyond `part << shift`, for each part, and the number of ranks behind the last.
    begins: Vec<u32>,
    shift: u32,
}

/// Most parts of the sum.
const PARTS: u64 = 1 << 20;

impl Zipf {
    /// `n` ranks, 1 to [`MAX_RANKS`], with exponent `theta` up to 8; 0 is uniform.
    pub fn new(n: u64, theta: Ratio) -> Zipf {
        assert!((1..=MAX_RANKS).contains(&n), "{n} Zipf ranks");
        let (mut sum, mut sums) = (0u64, Vec::with_capacity(n as usize));
        weights(n, theta, |weight| {
            sum += weight;
            sums.push(sum);
        });
        let parts = n.next_power_of_two().min(PARTS);
        let shift = (u64::BITS - sum.leading_zeros()).saturating_sub(parts.ilog2());
        let mut begins = Vec::with_capacity((sum >> shift) as usize + 2);
        let mut rank = 0u32;
        for part in 0..=(sum - 1) >> shift {
            while sums[rank as usize] <= part << shift {
                rank += 1;
            }
            begins.push(rank);
        }
        begins.push(n as u32);
        Zipf { sums, begins, shift }
    }

    /// The next rank, from 0.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.rank_of(rng.below(self.sums[self.sums.len() - 1]))
    }

    /// The first rank whose sum lies beyond `at`, which lies below the last.
    #[inline]
    fn rank_of(&self, at: u64) -> u64 {
        let part = (at >> self.shift) as usize;
        // The rank that begins the next part may still be the one.
        let (low, high) = (self.begins[part] as usize, self.begins[part + 1] as usize);
        let among = &self.sums[low..(high + 1).min(self.sums.len())];
        (low + among.partition_point(|&sum| sum <= at)) as u64
    }
}

/// The weight of rank `k`. It is never zero, so that every rank can occur.
fn weight(k: u64, theta: Ratio) -> u64 {
    exp2_negative_cut(theta.of(log2(k)), 63 - WEIGHT_BITS).max(1)
}

/// Half the ranks between which weights are found from three of them: 64.
const HALF: u32 = 6;
/// The least rank of these.
const SMOOTH_FROM: u64 = 1 << 16;
/// Fraction bits of their weights.
const FINE_BITS: u32 = 24;

/// Tells the weights of ranks 1 to `n` in order.
///
/// From [`SMOOTH_FROM`] on neighbours differ so little that the parabola through the weights of `k`, `k + 64` and `k + 128` is nearer to those between
/// than `unsure`, which bounds what the parabola leaves out, 3/8 W (64 / k)^3 for exponents up to 1 and 1.6 W (64 / k)^3 up to 2, and what logarithm and power cut
/// off, (theta + 1) ln 2 / 2^32 of W, at three places and at the rank itself. Where a step of the weight lies within that, it is
/// computed. The parabola goes on by sums alone, which are exact: it is held 2 * 64^2 times as large.
fn weights(n: u64, theta: Ratio, mut tell: impl FnMut(u64)) {
    const ALL: u32 = FINE_BITS + 2 * HALF + 1;
    const BLOCK: u64 = 2 << HALF;
    let flat = theta.num <= theta.den.saturating_mul(2);
    let fine = |k: u64| (exp2_negative(theta.of(log2(k))) >> (63 - WEIGHT_BITS - FINE_BITS)) as i64;
    let mut k = 1;
    while k <= n {
        let first = weight(k, theta);
        if !flat || k < SMOOTH_FROM || k + BLOCK > n || first >= 1 << FINE_BITS {
            tell(first);
            k += 1;
            continue;
        }
        let [a, b, c] = [k, k + BLOCK / 2, k + BLOCK].map(fine);
        let bend = c - 2 * b + a;
        let (mut at, mut step) = (a << (2 * HALF + 1), ((b - a) << (HALF + 1)) + (1 - (1 << HALF)) * bend);
        let cubed = u128::from(first) << (3 * HALF + ALL + 1);
        let left_out = (cubed / u128::from(k).pow(3)) as u64;
        let unsure = left_out + (first << (ALL - 28)) + (1 << (2 * HALF + 3));
        for k in k..k + BLOCK {
            let below = at as u64 & ((1 << ALL) - 1);
            tell(match below.wrapping_sub(unsure) < (1u64 << ALL).saturating_sub(2 * unsure) {
                true => (at as u64 >> ALL).max(1),
                false => weight(k, theta),
            });
            at += step;
            step += 2 * bend;
        }
        k += BLOCK;
    }
}

/// A permutation of `0..n`.
#[derive(Clone, Debug)]
pub struct Scatter {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Scatter {
    /// The permutation of `0..n` that `rng` picks; `n` from 1 to 2^62.
    pub fn new(n: u64, rng: &mut Rng) -> Scatter {
        assert!((1..=1 << 62).contains(&n), "a permutation of {n}");
        let bits = u64::BITS - (n - 1).leading_zeros();
        Scatter { n, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| rng.bits()) }
    }

    /// Where `i`, below n, goes.
    #[inline]
    pub fn place(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        loop {
            x = self.rounds(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn rounds(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The finishing step of SplitMix64: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_occur_in_proportion() {
        let (n, draws, theta) = (1000u64, 400_000u64, Ratio::new(99, 100));
        let zipf = Zipf::new(n, theta);
        let mut rng = Rng::new(21);
        let mut counts = vec![0u64; n as usize];
        for _ in 0..draws {
            counts[zipf.draw(&mut rng) as usize] += 1;
        }
        let total: f64 = (1..=n).map(|k| (k as f64).powf(-0.99)).sum();
        for k in [1u64, 2, 3, 10, 100] {
            let expected = draws as f64 * (k as f64).powf(-0.99) / total;
            let got = counts[k as usize - 1] as f64;
            assert!(
                (got - expected).abs() < 5.0 * expected.sqrt(),
                "seed 21: rank {k}: {got}, expected {expected}"
            );
        }
    }

    #[test]
    fn weights_between_others_are_those_of_their_ranks() {
        for (n, num) in [
            (2_100_000, 99),
            (300_000, 100),
            (300_000, 70),
            (200_000, 120),
            (140_000, 150),
            (90_000, 200),
            (70_000, 0),
        ] {
            let theta = Ratio::new(num, 100);
            let (mut k, mut computed) = (0, Vec::new());
            weights(n, theta, |w| {
                k += 1;
                assert_eq!(w, weight(k, theta), "rank {k}, exponent {num}/100");
                computed.push(w);
            });
            assert_eq!(computed.len() as u64, n);
        }
    }

    #[test]
    fn the_search_among_few_finds_what_the_search_among_all_finds() {
        for (n, theta) in [
            (1, Ratio::ZERO),
            (2, Ratio::new(3, 1)),
            (1000, Ratio::new(99, 100)),
            (70_001, Ratio::new(12, 10)),
            (4096, Ratio::new(8, 1)),
        ] {
            let zipf = Zipf::new(n, theta);
            let last = zipf.sums[zipf.sums.len() - 1];
            let mut rng = Rng::new(23);
            let edges = zipf.sums.iter().flat_map(|&s| [s - 1, s]).filter(|&at| at < last);
            for at in (0..20_000).map(|_| rng.below(last)).chain(edges).chain([0]) {
                let all = zipf.sums.partition_point(|&sum| sum <= at) as u64;
                assert_eq!(zipf.rank_of(at), all, "seed 23: {n} ranks, {theta:?}, at {at}");
            }
        }
    }

    #[test]
    fn theta_zero_is_uniform_and_one_rank_is_always_drawn() {
        let zipf = Zipf::new(7, Ratio::ZERO);
        let mut rng = Rng::new(22);
        let mut counts = [0u32; 7];
        (0..7000).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        assert!(counts.iter().all(|&c| (850..1150).contains(&c)), "seed 22: {counts:?}");
        assert_eq!(Zipf::new(1, Ratio::new(1, 1)).draw(&mut rng), 0);
    }

    proptest::proptest! {
        #[test]
        fn scattering_is_a_permutation(n in 1u64..3000, seed: u64) {
            let scatter = Scatter::new(n, &mut Rng::new(seed));
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                assert!(!std::mem::replace(&mut seen[scatter.place(i) as usize], true), "seed {seed}: {i}");
            }
        }
    }
}
