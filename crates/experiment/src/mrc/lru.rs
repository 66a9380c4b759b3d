//! The curve of LRU: all sizes in one pass over the accesses, by stack distance; or in one pass over a sample of the blocks.
//!
//! *Sampled*: a block takes part when a hash of its number is below a threshold, so that a share R of the blocks does, each with all
//! of its accesses. A distance among them is R times the distance among all, so a size is looked up at R times the size, and
//! misses are divided by R times the accesses there are, whatever number the sample happens to have. Source: Waldspurger, Park,
//! Garthwaite and Ahmad, "Efficient MRC construction with SHARDS" (FAST 2015), with their adjustment.
//!
//! *Its error*: the sampled blocks fall into eight groups by another part of the hash. Each group is a sample of its own; the standard
//! deviation of the eight curves over the root of eight is the standard error of their mean, and about that of the curve.

use nandu_base::Ratio;
use nandu_trace::reuse::StackDistance;

/// Groups that the error is taken from.
const GROUPS: usize = 8;

/// The curve of LRU.
pub struct Curve {
    /// Accesses to blocks.
    pub accesses: u64,
    /// Those that were looked at.
    pub sampled: u64,
    /// For each size the share of accesses that miss, and the standard error of that.
    pub ratios: Vec<(f64, f64)>,
    /// For each size the accesses that miss, exact where all blocks take part.
    pub misses: Vec<u64>,
}

/// The exact curve at `sizes` in rising order; `runs` are the accesses as runs of block numbers below `blocks`. `None` for more than 2^30 blocks.
pub fn exact(sizes: &[u64], blocks: u64, runs: impl Iterator<Item = (u64, u64)>) -> Option<Curve> {
    let mut stack = StackDistance::new(blocks)?;
    let mut accesses = 0;
    runs.for_each(|(first, end)| {
        accesses += end - first;
        (first..end).for_each(|block| {
            stack.access(block);
        });
    });
    let misses: Vec<u64> = stack.hits(sizes).into_iter().map(|hits| accesses - hits).collect();
    let ratios = misses.iter().map(|&m| (m as f64 / accesses.max(1) as f64, 0.0)).collect();
    Some(Curve { accesses, sampled: accesses, ratios, misses })
}

/// The finaliser of SplitMix64: neighbours get unlike numbers.
fn hash(block: u64) -> u64 {
    let mut x = block.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// One sample: the distances of its blocks, and its accesses.
struct Sample {
    stack: StackDistance,
    accesses: u64,
}

impl Sample {
    fn new(blocks: u64) -> Option<Sample> {
        Some(Sample { stack: StackDistance::new(blocks)?, accesses: 0 })
    }

    fn access(&mut self, block: u64) {
        self.stack.access(block);
        self.accesses += 1;
    }

    /// Shares of `all` accesses that miss, when this is a share `rate` of the blocks.
    fn ratios(&self, sizes: &[u64], rate: f64, all: u64) -> Vec<f64> {
        let scaled: Vec<u64> =
            sizes.iter().map(|&size| ((size as f64 * rate).round() as u64).max(1)).collect();
        let hits = self.stack.hits(&scaled);
        let miss = |hits: u64| (self.accesses - hits) as f64 / (all as f64 * rate).max(1.0);
        hits.into_iter().map(|hits| miss(hits).min(1.0)).collect()
    }
}

/// The curve from the share `rate` of the blocks.
pub fn sampled(
    sizes: &[u64],
    blocks: u64,
    rate: Ratio,
    runs: impl Iterator<Item = (u64, u64)>,
) -> Option<Curve> {
    let threshold = (u128::from(u64::MAX) * u128::from(rate.num) / u128::from(rate.den)) as u64;
    // Blocks of the sample are numbered as they come: in all of it, and in their group.
    let mut numbers: Vec<u32> = vec![u32::MAX; usize::try_from(blocks).ok()?];
    let (mut known, mut known_in) = (0u32, [0u32; GROUPS]);
    let chosen = (0..blocks).filter(|&block| hash(block) <= threshold);
    let mut places: Vec<u32> = Vec::new();
    for block in chosen {
        let group = hash(!block) as usize % GROUPS;
        numbers[block as usize] = known;
        places.push(known_in[group] * GROUPS as u32 + group as u32);
        known += 1;
        known_in[group] += 1;
    }
    let mut all = Sample::new(u64::from(known))?;
    let mut groups: Vec<Sample> =
        known_in.iter().map(|&n| Sample::new(u64::from(n))).collect::<Option<_>>()?;
    let mut accesses = 0;
    runs.for_each(|(first, end)| {
        accesses += end - first;
        for block in first..end {
            let number = numbers[block as usize];
            if number != u32::MAX {
                all.access(u64::from(number));
                let place = places[number as usize] as usize;
                groups[place % GROUPS].access((place / GROUPS) as u64);
            }
        }
    });
    let rate = rate.num as f64 / rate.den as f64;
    let curve = all.ratios(sizes, rate, accesses);
    let parts: Vec<Vec<f64>> =
        groups.iter().map(|group| group.ratios(sizes, rate / GROUPS as f64, accesses)).collect();
    let error = |size: usize| {
        let mean = parts.iter().map(|part| part[size]).sum::<f64>() / GROUPS as f64;
        let squares: f64 = parts.iter().map(|part| (part[size] - mean) * (part[size] - mean)).sum();
        (squares / ((GROUPS - 1) * GROUPS) as f64).sqrt()
    };
    let misses = curve.iter().map(|ratio| (ratio * accesses as f64).round() as u64).collect();
    let ratios = curve.iter().enumerate().map(|(size, &ratio)| (ratio, error(size))).collect();
    Some(Curve { accesses, sampled: all.accesses, ratios, misses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    /// Blocks of which low numbers are met far more often.
    fn accesses(seed: u64, n: usize) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(seed);
        let one = |_| {
            let block = rng.below(1 << 7) * rng.below(1 << 8);
            (block, (block + 1 + rng.below(4)).min(1 << 15))
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn a_sample_of_everything_is_the_exact_curve() {
        let (runs, sizes) = (accesses(1, 5000), [1, 10, 100, 1000, 20_000]);
        let exact = exact(&sizes, 1 << 15, runs.iter().copied()).expect("a curve");
        let all = sampled(&sizes, 1 << 15, Ratio::new(1, 1), runs.into_iter()).expect("a curve");
        assert_eq!((exact.misses, exact.accesses), (all.misses, all.sampled));
    }

    #[test]
    fn a_sample_is_as_wrong_as_it_says() {
        let sizes = [200, 1000, 3000, 8000];
        let (mut within, mut errors) = (0, 0.0);
        for seed in 1..=10 {
            let runs = accesses(seed, 60_000);
            let exact = exact(&sizes, 1 << 15, runs.iter().copied()).expect("a curve");
            let some = sampled(&sizes, 1 << 15, Ratio::new(1, 8), runs.into_iter()).expect("a curve");
            for ((want, _), (got, error)) in exact.ratios.iter().zip(&some.ratios) {
                assert!((want - got).abs() < 0.15, "seed {seed}: {want} and {got} +- {error}");
                within += usize::from((want - got).abs() <= 3.0 * error);
                errors += error;
            }
            assert!(some.sampled < exact.accesses / 4 && some.sampled > exact.accesses / 16);
        }
        assert!(within >= 36, "{within} of 40 within three standard errors");
        assert!(errors / 40.0 < 0.05 && errors > 0.0, "mean error {}", errors / 40.0);
    }
}
