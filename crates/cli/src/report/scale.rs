//! From figures to places on a page, and the round figures that axes show.

/// How an axis maps figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scale {
    /// Evenly from 0 or a low to a high.
    Linear {
        /// At the start of the axis.
        lo: f64,
        /// At its end.
        hi: f64,
    },
    /// Each power of ten as long as the next.
    Log {
        /// At the start of the axis; above 0.
        lo: f64,
        /// At its end.
        hi: f64,
    },
}

impl Scale {
    /// From 0 to a little above `max`.
    pub fn from_zero(max: f64) -> Scale {
        Scale::Linear { lo: 0.0, hi: if max > 0.0 { max * 1.05 } else { 1.0 } }
    }

    /// Holds `min` to `max`, at least a factor of ten, ends a little outside.
    pub fn log(min: f64, max: f64) -> Scale {
        let lo = min.max(1.0) * 0.9;
        Scale::Log { lo, hi: (max * 1.1).max(lo * 10.0) }
    }

    /// Where `value` lies: 0 at the start, 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Scale::Linear { lo, hi } => (value - lo) / (hi - lo),
            Scale::Log { lo, hi } => (value.max(lo) / lo).ln() / (hi / lo).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// About six round figures.
    pub fn ticks(&self) -> Vec<f64> {
        match *self {
            Scale::Linear { lo, hi } => linear_ticks(lo, hi),
            Scale::Log { lo, hi } => log_ticks(lo, hi),
        }
    }
}

fn linear_ticks(lo: f64, hi: f64) -> Vec<f64> {
    let rough = (hi - lo) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (lo / step).ceil() as i64;
    let last = (hi / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Powers of ten; with 2 and 5 in between when there are few.
fn log_ticks(lo: f64, hi: f64) -> Vec<f64> {
    let decades = (hi / lo).log10();
    let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut ticks = Vec::new();
    for power in lo.log10().floor() as i32..=hi.log10().ceil() as i32 {
        ticks.extend(steps.iter().map(|s| s * 10f64.powi(power)).filter(|t| (lo..=hi).contains(t)));
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::Linear { lo: 0.0, hi: 523.0 }.ticks(), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(
            Scale::Log { lo: 40.0, hi: 9_000.0 }.ticks(),
            [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]
        );
        assert_eq!(Scale::log(100.0, 1e9).ticks().len(), 8);
    }

    #[test]
    fn places_run_from_zero_to_one() {
        let scale = Scale::Log { lo: 10.0, hi: 1000.0 };
        assert_eq!((scale.place(10.0), scale.place(1.0), scale.place(1000.0)), (0.0, 0.0, 1.0));
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
    }
}
