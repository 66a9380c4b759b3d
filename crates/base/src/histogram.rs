//! A histogram of latencies: three significant digits, one addition for each value.
//!
//! Values up to 2,047 have a bin each; beyond, every doubling has 1,024 bins of equal width, so that a bin is at most
//! 0.1 % wide. This is the layout of Gil Tene's HdrHistogram at three digits, and its figures agree with that library's
//! (tested), so that results compare with other tools'. The range is fixed when it is made: recording is a shift, an
//! index, an addition and two comparisons. Bins are made from the doubling of the least value to that of the greatest: a value outside allocates, at
//! most 53 times.
//!
//! Reading looks at the bins from the least to the greatest value only: what few values cost does not grow with the range.
//!
//! RAM: 8 KiB for each doubling between the least value and the greatest: none for an empty histogram, 56 KiB for values from 1 ms to 100 ms in nanoseconds,
//! 272 KiB from 0 up to two hours.

use std::ops::Range;

/// log2 of the bins in a doubling.
const BITS: u32 = 10;
/// Bins in a doubling.
const BINS: u64 = 1 << BITS;

/// Counts of values in bins. See the [module](self).
#[derive(Clone, Debug)]
pub struct Histogram {
    /// By bin from `base` on, as far as there are values.
    counts: Vec<u64>,
    /// The bin of the first count.
    base: usize,
    /// The bin of the largest value that is told apart.
    last: usize,
    /// The least value; the largest number there is where there is none.
    least: u64,
    /// The greatest value.
    greatest: u64,
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
        Histogram { counts: Vec::new(), base: 0, last: bin_of(limit), least: u64::MAX, greatest: 0 }
    }

    /// All values of `parts`, which were made with the same limit and are at least one.
    pub fn sum(parts: &[&Histogram]) -> Histogram {
        let mut all = Histogram { counts: Vec::new(), base: 0, least: u64::MAX, greatest: 0, ..*parts[0] };
        parts.iter().for_each(|part| all.add(part));
        all
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        match self.counts.get_mut(bin_of(value).wrapping_sub(self.base)) {
            Some(count) => *count += 1,
            None => self.count_beyond(value),
        }
        if value < self.least {
            self.least = value;
        }
        if value > self.greatest {
            self.greatest = value;
        }
    }

    /// Counts a value outside the bins that there are.
    #[cold]
    fn count_beyond(&mut self, value: u64) {
        let bin = self.bin(value);
        self.cover(bin..bin + 1);
        self.counts[bin - self.base] += 1;
    }

    /// Has counts for these bins, and for the rest of their doublings.
    fn cover(&mut self, bins: Range<usize>) {
        let from = bins.start - bins.start % BINS as usize;
        let to = bins.end.next_multiple_of(BINS as usize).min(self.last + 1);
        if self.counts.is_empty() {
            (self.base, self.counts) = (from, vec![0; to - from]);
            return;
        }
        let end = self.base + self.counts.len();
        if from < self.base {
            let mut counts = vec![0; end.max(to) - from];
            counts[self.base - from..end - from].copy_from_slice(&self.counts);
            (self.base, self.counts) = (from, counts);
        } else if end < to {
            self.counts.reserve_exact(to - end);
            self.counts.resize(to - self.base, 0);
        }
    }

    /// Adds the counts of `other`, which was made with the same limit.
    pub fn add(&mut self, other: &Histogram) {
        assert_eq!(self.last, other.last, "histograms of one shape are added");
        if other.is_empty() {
            return;
        }
        self.cover(other.used());
        (self.least, self.greatest) = (self.least.min(other.least), self.greatest.max(other.greatest));
        let from = other.used().start - self.base;
        self.counts[from..].iter_mut().zip(other.used_counts()).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The bins between the least value and the greatest.
    fn used(&self) -> Range<usize> {
        match self.is_empty() {
            true => 0..0,
            false => self.bin(self.least)..self.bin(self.greatest) + 1,
        }
    }

    /// Their counts.
    fn used_counts(&self) -> &[u64] {
        let used = self.used();
        &self.counts[used.start.saturating_sub(self.base)..used.end.saturating_sub(self.base)]
    }

    /// The bin that counts a value.
    fn bin(&self, value: u64) -> usize {
        bin_of(value).min(self.last)
    }

    /// Values counted.
    pub fn len(&self) -> u64 {
        self.used_counts().iter().sum()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.least > self.greatest
    }

    /// The least value; `None` when there is none.
    pub fn least(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.least)
    }

    /// The greatest value; 0 when there is none.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The value that a share `quantile` (0 to 1) of all values does not exceed, rounded up within its bin; 0 when there
    /// is none.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        self.values_at_quantiles([quantile])[0]
    }

    /// The same for several shares, which grow.
    pub fn values_at_quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let all = self.len() as f64;
        let mut counts = self.used_counts().iter();
        let first = self.used().start;
        let (mut seen, mut bins) = (0, 0);
        quantiles.map(|quantile| {
            let wanted = ((quantile.clamp(0.0, 1.0) * all).ceil() as u64).max(1);
            while seen < wanted {
                let Some(count) = counts.next() else { break };
                seen += count;
                bins += 1;
            }
            if bins == 0 { 0 } else { bin_last(first + bins - 1) }
        })
    }

    /// The bins that hold anything: largest value and count, in order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bins = self.used().zip(self.used_counts());
        bins.filter(|&(_, &count)| count > 0).map(|(bin, &count)| (bin_last(bin), count))
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
        assert_eq!((h.least(), h.greatest(), h.value_at_quantile(0.5), h.len()), (None, 0, 0, 0));
        assert_eq!((h.bins().count(), h.is_empty()), (0, true));
    }

    #[test]
    fn bins_are_made_on_both_sides_of_what_came_first() {
        let mut h = Histogram::new(LIMIT);
        let values = [5_000_000, 4_000_000, 90_000_000, 3, 5_000_001, 7_000];
        let mut sorted = Vec::new();
        for value in values {
            h.record(value);
            sorted.push(value);
            sorted.sort_unstable();
            let bins: Vec<u64> = h.bins().flat_map(|(last, count)| vec![last; count as usize]).collect();
            assert_eq!(bins, sorted.iter().map(|&v| bin_last(bin_of(v))).collect::<Vec<_>>());
        }
        let mut high = Histogram::new(LIMIT);
        high.record(70_000_000_000);
        for (a, b) in [(&h, &high), (&high, &h)] {
            let both = Histogram::sum(&[a, b]);
            assert_eq!((both.len(), both.greatest(), both.least()), (7, 70_000_000_000, Some(3)));
        }
        let empty = Histogram::new(LIMIT);
        assert_eq!(
            Histogram::sum(&[&empty, &h, &empty]).bins().collect::<Vec<_>>(),
            h.bins().collect::<Vec<_>>()
        );
    }

    #[test]
    fn too_large_values_count_as_the_limit() {
        let mut h = Histogram::new(1_000_000);
        h.record(u64::MAX);
        assert_eq!((h.len(), h.greatest()), (1, u64::MAX));
        assert_eq!(h.bins().collect::<Vec<_>>(), [(bin_last(bin_of(1_000_000)), 1)]);
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
        let mine = Histogram::sum(&[&parts[0], &parts[1]]);
        let ends = |value| bin_of(value);
        assert_eq!(mine.len(), model.len(), "seed {seed}");
        assert_eq!(mine.least().map(ends), Some(ends(model.min())), "seed {seed}");
        assert_eq!(ends(mine.greatest()), ends(model.max()), "seed {seed}");
        for quantile in [0.001, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let want = model.value_at_quantile(quantile);
            assert_eq!(mine.value_at_quantile(quantile), want, "seed {seed}, quantile {quantile}");
        }
        let several = [0.1, 0.5, 0.5, 0.99, 1.0];
        assert_eq!(
            mine.values_at_quantiles(several),
            several.map(|q| mine.value_at_quantile(q)),
            "seed {seed}"
        );
        let want: Vec<(u64, u64)> =
            model.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value())).collect();
        assert_eq!(mine.bins().collect::<Vec<_>>(), want, "seed {seed}");
    }
}
