//! What points must meet, and what the best of them is best at.

use crate::error::SweepError;
use crate::metric::{Devices, Figure, Metric};

/// On which side of a limit figures must lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// At most.
    AtMost,
    /// At least.
    AtLeast,
}

/// A figure with a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The text, without spaces at its ends.
    pub text: String,
    /// The figure.
    pub metric: Metric,
    /// On which side.
    pub side: Side,
    /// Of what.
    pub limit: u64,
}

impl Bound {
    /// `p99<=20 ms` or `lifetime >= 5 years`.
    pub fn parse(text: &str, devices: &Devices) -> Result<Bound, SweepError> {
        let text = text.trim();
        let place = format!("bound `{text}`");
        let sides = [("<=", Side::AtMost), (">=", Side::AtLeast)];
        let Some(((name, value), side)) =
            sides.iter().find_map(|(sign, side)| Some((text.split_once(sign)?, *side)))
        else {
            let right = "write FIGURE<=LIMIT or FIGURE>=LIMIT, for example lifetime>=5 years";
            return Err(SweepError::bad(place, "there is neither `<=` nor `>=`", right));
        };
        let metric = Metric::resolve(name.trim(), devices, &place)?;
        let limit = metric.kind.read(value).map_err(|why| {
            SweepError::bad(place, why, format!("a limit of `{}` is one of its figures", metric.name))
        })?;
        Ok(Bound { text: text.into(), metric, side, limit })
    }

    /// By how many thousandths of the smaller of figure and limit the figure is on the wrong side; 0 when the bound is met.
    /// A figure that the point does not have is as wrong as can be.
    pub fn missed_by(&self, figure: Option<Figure>) -> u64 {
        let over = |large: u64, small: u64| {
            let part = u128::from(large - small) * 1000;
            part.checked_div(u128::from(small))
                .map_or(u64::MAX, |n| u64::try_from(n).unwrap_or(u64::MAX).max(1))
        };
        match (self.side, figure) {
            (_, None) | (Side::AtMost, Some(Figure::Unworn)) => u64::MAX,
            (Side::AtLeast, Some(Figure::Unworn)) => 0,
            (Side::AtMost, Some(Figure::Value(v))) if v > self.limit => over(v, self.limit),
            (Side::AtLeast, Some(Figure::Value(v))) if v < self.limit => over(self.limit, v),
            _ => 0,
        }
    }
}

/// A bound is missed or met by a factor of 2^6 at most, for a guess.
const FAR: f64 = 6.0;

/// About log2 of a figure: its whole part, and linear between.
fn about_log2(value: u64) -> f64 {
    let value = value.max(1);
    f64::from(value.ilog2()) + value as f64 / (1u64 << value.ilog2()) as f64 - 1.0
}

impl Bound {
    /// On which side of the limit the figure is and how far: about log2 of the factor between them, at most 0 where the bound is met.
    pub fn margin(&self, figure: Option<Figure>) -> f64 {
        match (self.side, figure) {
            (_, None) | (Side::AtMost, Some(Figure::Unworn)) => FAR,
            (Side::AtLeast, Some(Figure::Unworn)) => -FAR,
            (Side::AtMost, Some(Figure::Value(v))) => {
                (about_log2(v) - about_log2(self.limit)).clamp(-FAR, FAR)
            }
            (Side::AtLeast, Some(Figure::Value(v))) => {
                (about_log2(self.limit) - about_log2(v)).clamp(-FAR, FAR)
            }
        }
    }
}

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// Less.
    Minimise,
    /// More.
    Maximise,
}

impl Aim {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Aim::Minimise => "minimise",
            Aim::Maximise => "maximise",
        }
    }
}

/// A figure to be good at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// The figure.
    pub metric: Metric,
    /// Which way.
    pub aim: Aim,
}

impl Goal {
    /// `minimise p99` or `maximise lifetime`.
    pub fn parse(text: &str, devices: &Devices) -> Result<Goal, SweepError> {
        let place = format!("goal `{}`", text.trim());
        let mut words = text.split_whitespace();
        let aim = match words.next() {
            Some("minimise" | "minimize") => Aim::Minimise,
            Some("maximise" | "maximize") => Aim::Maximise,
            _ => {
                return Err(SweepError::bad(
                    place,
                    "it does not say which way",
                    "write minimise FIGURE or maximise FIGURE",
                ));
            }
        };
        match (words.next(), words.next()) {
            (Some(name), None) => Ok(Goal { metric: Metric::resolve(name, devices, &place)?, aim }),
            _ => Err(SweepError::bad(place, "one figure has to follow", "for example minimise p99")),
        }
    }

    /// How good a figure is: less is better. `None` where the point has no such figure.
    pub fn cost(&self, figure: Option<Figure>) -> Option<i128> {
        let value = match figure? {
            Figure::Value(v) => i128::from(v),
            Figure::Unworn => i128::from(u64::MAX) + 1,
        };
        Some(match self.aim {
            Aim::Minimise => value,
            Aim::Maximise => -value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str) -> Result<Bound, String> {
        Bound::parse(text, &Devices::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_bound_says_by_how_much_it_is_missed() {
        let p99 = bound("p99 <= 20 ms").unwrap();
        let ms = |n: u64| Some(Figure::Value(n * 1_000_000));
        assert_eq!(
            [ms(5), ms(20), ms(30), None, Some(Figure::Unworn)].map(|f| p99.missed_by(f)),
            [0, 0, 500, u64::MAX, u64::MAX]
        );
        let life = bound("lifetime>=5 years").unwrap();
        let years = |n| Some(Figure::Value(n));
        assert_eq!(
            [years(5000), years(2500), years(4999), years(0), Some(Figure::Unworn)]
                .map(|f| life.missed_by(f)),
            [0, 1000, 1, u64::MAX, 0]
        );
        let near = |bound: &Bound, figure, log: f64| (bound.margin(figure) - log).abs() < 0.1;
        assert!(near(&p99, ms(10), -1.0) && near(&p99, ms(60), 1.6) && p99.margin(ms(20)) == 0.0);
        assert!(near(&life, years(10_000), -1.0) && near(&life, years(2_500), 1.0));
        assert_eq!([p99.margin(None), life.margin(Some(Figure::Unworn))], [6.0, -6.0]);
        assert_eq!(bound("failed<=0").unwrap().missed_by(Some(Figure::Value(1))), u64::MAX);
    }

    #[test]
    fn what_is_no_bound_or_goal_says_why() {
        assert!(bound("p99").unwrap_err().contains("neither `<=` nor `>=`"));
        assert!(bound("p99<=5").unwrap_err().contains("needs a unit: ns, us"));
        assert!(bound("p98<=5 ms").unwrap_err().contains("unknown metric `p98`"));
        let goal = |text| Goal::parse(text, &Devices::default()).map_err(|e| e.to_string());
        assert!(goal("p99").unwrap_err().contains("which way"));
        assert!(goal("minimise p99 mean").unwrap_err().contains("one figure"));
        let cost = |goal: &Goal, v| goal.cost(Some(Figure::Value(v)));
        let most = goal("maximise lifetime").unwrap();
        assert!(cost(&most, 2) < cost(&most, 1) && most.cost(Some(Figure::Unworn)) < cost(&most, u64::MAX));
    }
}
