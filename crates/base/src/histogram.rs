//! A histogram of latencies: three significant digits, one addition for each value.
//!
//! Values up to 2,047 have a bin each; beyond, every doubling has 1,024 bins of equal width, so that a bin is at most
//! 0.1 % wide. This is the layout of Gil Tene's HdrHistogram at three digits, and its figures agree with that library's
//! (tested), so that results compare with other tools'. The range is fixed when it is made: recording is a shift, an
//! index and an addition, and never allocates.
//!
//! RAM: 8 bytes per bin, 272 KiB for values up to two hours in nanoseconds, touched as it is used.

/// log2 of the bins in a doubling.
const BITS: u32 = 10;
/// Bins in a doubling.
const BINS: u64 = 1 << BITS;

/// Counts of values in bins. See the [module](self).
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
}

/// The bin of a value.
#[inline]
fn bin_of(value: u64) -> usize {
    let doubling = (u64::BITS - 1 - BITS) - (value | (2 * BINS - 1)).leading_zeros();
    ((u64::from(doubling) << BITS) + (value >> doubling)) as usize
}

/// The smallest value of a bin, and how many values it has.
fn bin_start(bin: usize) -> (u64, u64) {
    let doubling = (bin as u64 >> BITS).saturating_sub(1);
    ((bin as u64 - (doubling << BITS)) << doubling, 1 << doubling)
}

/// The largest value of a bin.
fn bin_last(bin: usize) -> u64 {
    let (start, width) = bin_start(bin);
    start + (width - 1)
}

impl Histogram {
    /// An empty histogram of values from 0 to `limit`; larger ones count as `limit`.
    pub fn new(limit: u64) -> Histogram {
        Histogram { counts: vec![0; bin_of(limit) + 1] }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        match self.counts.get_mut(bin_of(value)) {
            Some(count) => *count += 1,
            None => *self.counts.last_mut().expect("a histogram has bins") += 1,
        }
    }

    /// Adds the counts of `other`, which was made with the same limit.
    pub fn add(&mut self, other: &Histogram) {
        assert_eq!(self.counts.len(), other.counts.len(), "histograms of one shape are added");
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Values counted.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }

    /// The smallest value, rounded down to its bin; 0 when there is none.
    pub fn min(&self) -> u64 {
        self.counts.iter().position(|&count| count > 0).map_or(0, |bin| bin_start(bin).0)
    }

    /// The largest value, rounded up within its bin; 0 when there is none.
    pub fn max(&self) -> u64 {
        self.counts.iter().rposition(|&count| count > 0).map_or(0, bin_last)
    }

    /// The value that a share `quantile` (0 to 1) of all values does not exceed, rounded up within its bin; 0 when there
    /// is none.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.clamp(0.0, 1.0) * self.len() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bin, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bin_last(bin);
            }
        }
        0
    }

    /// The bins that hold anything: largest value and count, in order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(bin, &count)| (bin_last(bin), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const LIMIT: u64 = 7_200_000_000_000;

    #[test]
    fn every_value_lies_in_its_bin() {
        for value in (0..5000).chain([1 << 20, (1 << 20) - 1, 123_456_789, LIMIT]) {
            let (start, width) = bin_start(bin_of(value));
            assert!(start <= value && value < start + width, "{value} in {start}+{width}");
            assert!(width == 1 || width * 1000 <= value, "{value} in a bin of {width}");
        }
    }

    #[test]
    fn an_empty_histogram_answers_zero() {
        let h = Histogram::new(LIMIT);
        assert_eq!((h.min(), h.max(), h.value_at_quantile(0.5), h.len()), (0, 0, 0, 0));
    }

    #[test]
    fn too_large_values_count_as_the_limit() {
        let mut h = Histogram::new(1_000_000);
        h.record(u64::MAX);
        assert_eq!((h.len(), h.max()), (1, bin_last(bin_of(1_000_000))));
    }

    /// The library that defined this layout.
    #[test]
    fn agrees_with_hdrhistogram() {
        let seed = 3;
        let mut rng = Rng::new(seed);
        let mut model = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LIMIT, 3).unwrap();
        let mut parts = [Histogram::new(LIMIT), Histogram::new(LIMIT)];
        for i in 0..20_000 {
            let doublings = rng.below(42);
            let value = 1 + rng.below(1 << doublings);
            model.record(value).unwrap();
            parts[i % 2].record(value);
        }
        let [mut mine, other] = parts;
        mine.add(&other);
        assert_eq!(
            (mine.len(), mine.min(), mine.max()),
            (model.len(), model.min(), model.max()),
            "seed {seed}"
        );
        for quantile in [0.001, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let want = model.value_at_quantile(quantile);
            assert_eq!(mine.value_at_quantile(quantile), want, "seed {seed}, quantile {quantile}");
        }
        let want: Vec<(u64, u64)> =
            model.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value())).collect();
        assert_eq!(mine.bins().collect::<Vec<_>>(), want, "seed {seed}");
    }
}
