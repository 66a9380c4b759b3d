//! An integer estimator of a quantile: it moves up or down by a sixteenth of itself, in the ratio of the quantile.

use nandu_base::{Ratio, Span};

/// An integer estimate of a quantile, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Quantile {
    at: u64,
    part: Ratio,
}

impl Quantile {
    /// Of `part`, for example 4/5, from nothing known.
    pub fn new(part: Ratio) -> Quantile {
        Quantile { at: 0, part }
    }

    /// A sample.
    pub fn add(&mut self, sample: Span) {
        if self.at == 0 {
            self.at = sample.0;
            return;
        }
        let step = self.at / 16 + 1;
        let Ratio { num, den } = self.part;
        if sample.0 > self.at {
            self.at += (step * num).div_ceil(den);
        } else {
            self.at = self.at.saturating_sub((step * (den - num)).div_ceil(den));
        }
    }

    /// The estimate; zero when nothing is known.
    pub fn value(&self) -> Span {
        Span(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    #[test]
    fn the_quantile_comes_near_the_true_one() {
        for (part, low, high) in [(Ratio { num: 4, den: 5 }, 700, 900), (Ratio { num: 1, den: 2 }, 400, 600)]
        {
            let (mut rng, mut q) = (Rng::new(3), Quantile::new(part));
            let mut sum = 0;
            for n in 0..20_000 {
                q.add(Span(1 + rng.below(1000)));
                sum += if n >= 10_000 { q.value().0 } else { 0 };
            }
            let mean = sum / 10_000;
            assert!((low..=high).contains(&mean), "{part:?}: {mean}");
        }
    }
}
