//! How long the arm takes to another cylinder, by distance.
//!
//! Four ways to say it, all turned into one table when the drive is built:
//!
//! - `points`: measured distances, linear between them and beyond the last.
//! - `three-point`: the times of one cylinder, the average and the full stroke. Between them `a sqrt(d-1) + b (d-1) + c`,
//!   of which the root stands for the distances at which the arm still accelerates (Lee and Katz, *An analytic performance
//!   model of disk arrays*, SIGMETRICS 1993).
//! - `hpl`: a root up to a distance, a line from there on, and given times for the first few cylinders (Ruemmler and
//!   Wilkes, *An introduction to disk drive modeling*, IEEE Computer 1994).
//! - `constant`: every seek takes the same time.
//!
//! Roots are integer roots: the table is the same on every machine. RAM: 4 bytes for each cylinder.

use nandu_base::{BuildError, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// A seek curve.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekCurve {
    /// Every seek takes this long.
    Constant {
        /// The time.
        time: Span,
    },
    /// From the three figures of a data sheet.
    ThreePoint {
        /// To the next cylinder.
        single: Span,
        /// The mean over random distances, which is the time of a third of the full stroke.
        average: Span,
        /// From the first cylinder to the last.
        full: Span,
    },
    /// A root, then a line.
    Hpl {
        /// Distance from which on the line holds.
        line_from: u32,
        /// Constant of the root.
        root: Span,
        /// Factor of the root.
        root_factor: Span,
        /// Constant of the line.
        line: Span,
        /// Time for each cylinder of the line.
        line_factor: Span,
        /// Times of the first distances, from 1.
        #[serde(default)]
        first: Vec<Span>,
    },
    /// Measured points, by growing distance.
    Points {
        /// Distances in cylinders, from 1, with their times.
        points: Vec<(u32, Span)>,
    },
}

/// Times by distance.
#[derive(Clone, Debug)]
pub struct SeekTable(Vec<u32>);

impl SeekTable {
    /// The table of a curve for a drive with `cylinders` cylinders.
    pub fn new(curve: &SeekCurve, cylinders: u32) -> Result<SeekTable, BuildError> {
        SeekTable::of_part(curve, cylinders, cylinders)
    }

    /// The same for a drive of which only the first `used` cylinders are in use.
    pub fn of_part(curve: &SeekCurve, cylinders: u32, used: u32) -> Result<SeekTable, BuildError> {
        check(curve)?;
        let time = |distance: u32| match curve {
            _ if distance == 0 => 0,
            SeekCurve::Constant { time } => time.0 as i128,
            SeekCurve::Hpl { line_from, root, root_factor, line, line_factor, first } => {
                match first.get(distance as usize - 1) {
                    Some(time) => time.0 as i128,
                    None if distance < *line_from => {
                        let far = u128::from((u64::from(distance) << 32).isqrt());
                        root.0 as i128 + ((far * u128::from(root_factor.0)) >> 16) as i128
                    }
                    None => (line.0 + line_factor.0 * u64::from(distance)) as i128,
                }
            }
            SeekCurve::ThreePoint { .. } | SeekCurve::Points { .. } => unreachable!("these are counted up"),
        };
        match curve {
            SeekCurve::Points { points } => lines(points, used).map(SeekTable),
            SeekCurve::ThreePoint { single, average, full } => {
                three_points([*single, *average, *full], cylinders, used).map(SeekTable)
            }
            _ => (0..used)
                .map(|distance| fits(distance, time(distance)))
                .collect::<Result<_, _>>()
                .map(SeekTable),
        }
    }

    /// The time over `distance` cylinders.
    #[inline]
    pub fn time(&self, distance: u32) -> u64 {
        u64::from(self.0[distance as usize])
    }

    /// The mean over pairs of cylinders drawn at random.
    pub fn mean(&self) -> Span {
        let n = self.0.len() as u128;
        // Of n^2 pairs, 2 (n - d) have the distance d.
        let sum: u128 = self.0.iter().zip(0..).map(|(&t, d): (_, u128)| u128::from(t) * 2 * (n - d)).sum();
        Span((sum / (n * n)) as u64)
    }
}

/// A quotient whose dividend grows by the same at every step: it is counted up, with what is left over, for a division at every cylinder is
/// most of what a table would cost.
struct CountUp {
    quotient: u64,
    rest: u64,
    each: u64,
    each_rest: u64,
    by: u64,
}

impl CountUp {
    /// 0, and after so many steps as many times `step`, divided by `by`.
    fn new(step: u64, by: u64) -> CountUp {
        CountUp { quotient: 0, rest: 0, each: step / by, each_rest: step % by, by }
    }

    /// The next step.
    #[inline(always)]
    fn step(&mut self) {
        self.quotient += self.each;
        self.rest += self.each_rest;
        if self.rest >= self.by {
            (self.quotient, self.rest) = (self.quotient + 1, self.rest - self.by);
        }
    }
}

/// The times over 0 to `used` cylinders, this one left out: `a sqrt(d-1) + b (d-1) + c` through single, average (at a third of the stroke)
/// and full.
#[inline(never)]
fn three_points(figures: [Span; 3], cylinders: u32, used: u32) -> Result<Vec<u32>, BuildError> {
    // Below 2^32 each. Both factors are three times as large, and the first is of the root of the share of the stroke.
    let [single, average, full] = figures.map(|time| time.0 as i64);
    let a = -10 * single + 15 * average - 5 * full;
    let b = 7 * single - 15 * average + 8 * full;
    let stroke = u64::from(cylinders.max(2));
    let mut far = CountUp::new(b.unsigned_abs(), 3 * stroke);
    let mut table = vec![0; used as usize];
    let mut rest = table.get_mut(1..).unwrap_or_default();
    let mut steps = 0;
    // The root of the share of the stroke, in units of 2^-16, is the same over a run of distances.
    for root in 0u64.. {
        if rest.is_empty() {
            break;
        }
        let until = ((root + 1) * (root + 1)).saturating_mul(stroke).div_ceil(1 << 32);
        let (run, behind) = rest.split_at_mut(rest.len().min((until - steps) as usize));
        let by_root = single + ((a * root as i64) >> 16) / 3;
        for (place, distance) in run.iter_mut().zip(steps + 1..) {
            let by_distance = far.quotient as i64;
            let time = by_root + if b < 0 { -by_distance } else { by_distance };
            *place = match u32::try_from(time) {
                Ok(time) => time,
                Err(_) => fits(distance as u32, i128::from(time))?,
            };
            far.step();
        }
        (steps, rest) = (until, behind);
    }
    Ok(table)
}

/// `value / by`, towards zero: in 64 bits where both fit, for that is ten times as cheap.
fn part(value: i128, by: u64) -> i128 {
    match (i64::try_from(value), i64::try_from(by)) {
        (Ok(value), Ok(by)) => i128::from(value / by),
        _ => value / i128::from(by),
    }
}

/// A time that the table can hold.
#[inline]
fn fits(distance: u32, ns: i128) -> Result<u32, BuildError> {
    u32::try_from(ns)
        .map_err(|_| BuildError::at("seek", format!("a seek over {distance} cylinders would take {ns} ns")))
}

/// The times over 0 to `used` cylinders, this one left out: that of the first point up to it, then along lines between points, and beyond the last along the
/// last line.
fn lines(points: &[(u32, Span)], used: u32) -> Result<Vec<u32>, BuildError> {
    let mut table = Vec::with_capacity(used as usize);
    table.resize(1.min(used as usize), 0);
    for (place, &(d1, t1)) in points.iter().enumerate() {
        let is_last = place + 1 == points.len();
        let (from, end) = (table.len() as u32, if is_last { used } else { used.min(d1.saturating_add(1)) });
        if from >= end {
            continue;
        }
        let Some(&(d0, t0)) = place.checked_sub(1).and_then(|before| points.get(before)) else {
            table.resize(end as usize, fits(from, i128::from(t1.0))?);
            continue;
        };
        // A line is nowhere beyond both of its ends.
        if fits(end - 1, between((d0, t0), (d1, t1), end - 1)).is_err() {
            for distance in from..end {
                fits(distance, between((d0, t0), (d1, t1), distance))?;
            }
        }
        let mut far = CountUp::new(t0.0.abs_diff(t1.0), u64::from(d1 - d0));
        let falls = t1 < t0;
        table.extend((from..end).map(|_| {
            far.step();
            (if falls { t0.0 - far.quotient } else { t0.0 + far.quotient }) as u32
        }));
    }
    Ok(table)
}

/// The time at `distance` on the line through two points.
fn between((d0, t0): (u32, Span), (d1, t1): (u32, Span), distance: u32) -> i128 {
    let step = i128::from(t1.0) - i128::from(t0.0);
    let cylinders = i128::from(distance) - i128::from(d0);
    i128::from(t0.0) + part(step * cylinders, u64::from(d1 - d0))
}

fn check(curve: &SeekCurve) -> Result<(), BuildError> {
    let bad = |why: String| Err(BuildError::at("seek", why));
    match curve {
        SeekCurve::Points { points }
            if points.first().is_none_or(|p| p.0 == 0) || points.windows(2).any(|w| w[0].0 >= w[1].0) =>
        {
            bad("points need growing distances from 1".into())
        }
        SeekCurve::ThreePoint { single, average, full } if !(single <= average && average <= full) => {
            bad(format!("{single}, {average} and {full} are not single <= average <= full"))
        }
        SeekCurve::ThreePoint { full, .. } if full.0 > u64::from(u32::MAX) => {
            bad(format!("{full} for the full stroke; a seek takes at most 4294967295 ns"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(list: &[(u32, u64)]) -> SeekCurve {
        SeekCurve::Points { points: list.iter().map(|&(d, us)| (d, Span::from_us(us))).collect() }
    }

    #[test]
    fn counting_up_gives_what_dividing_gives() {
        for seed in 0..200 {
            let mut rng = nandu_base::Rng::new(seed);
            let (cylinders, mut distance) = (rng.between(2, 5000) as u32, 0);
            let points: Vec<(u32, Span)> = (0..rng.between(1, 6))
                .map(|_| {
                    distance += rng.between(1, 1500) as u32;
                    (distance, Span(rng.between(1_000_000, 30_000_000)))
                })
                .collect();
            let slow = |d: u32| match points.iter().position(|p| p.0 >= d).unwrap_or(points.len() - 1) {
                0 => i128::from(points[0].1.0),
                end => between(points[end - 1], points[end], d),
            };
            match SeekTable::new(&SeekCurve::Points { points: points.clone() }, cylinders) {
                Ok(table) => {
                    assert_eq!((table.0.len(), table.time(0)), (cylinders as usize, 0), "seed {seed}");
                    (1..cylinders).for_each(|d| {
                        assert_eq!(i128::from(table.time(d)), slow(d), "seed {seed}: {d} of {points:?}");
                    });
                }
                Err(_) => assert!((1..cylinders).any(|d| u32::try_from(slow(d)).is_err()), "seed {seed}"),
            }
        }
    }

    #[test]
    fn three_points_counted_up_are_those_of_the_formula() {
        for seed in 0..200 {
            let mut rng = nandu_base::Rng::new(seed);
            let digits = rng.between(1, 32);
            let mut figures = [(); 3].map(|()| rng.below(1 << digits));
            figures.sort_unstable();
            let [single, average, full] = figures.map(|ns| ns as i128);
            let cylinders = rng.between(1, 5000) as u32;
            let used = rng.between(1, u64::from(cylinders)) as u32;
            let slow = |d: u32| {
                let (steps, stroke) = (u64::from(d - 1), u64::from(cylinders.max(2)));
                let root = i128::from(((steps << 32) / stroke).isqrt());
                let by_root = (((-10 * single + 15 * average - 5 * full) * root) >> 16) / 3;
                let by_distance =
                    (7 * single - 15 * average + 8 * full) * i128::from(steps) / i128::from(3 * stroke);
                single + by_root + by_distance
            };
            let [single, average, full] = figures.map(Span);
            match SeekTable::of_part(&SeekCurve::ThreePoint { single, average, full }, cylinders, used) {
                Ok(table) => {
                    assert_eq!((table.0.len(), table.time(0)), (used as usize, 0), "seed {seed}");
                    (1..used).for_each(|d| {
                        assert_eq!(i128::from(table.time(d)), slow(d), "seed {seed}: {d} of {figures:?}");
                    });
                }
                Err(_) => assert!((1..used).any(|d| u32::try_from(slow(d)).is_err()), "seed {seed}"),
            }
        }
    }

    #[test]
    fn points_are_met_and_lines_between_and_beyond_them() {
        let table = SeekTable::new(&points(&[(1, 600), (3, 1000), (10, 800), (20, 1800)]), 31).unwrap();
        let us = |d| table.time(d) / 1000;
        assert_eq!([0, 1, 2, 3, 10, 15, 20, 30].map(us), [0, 600, 800, 1000, 800, 1300, 1800, 2800]);
        assert_eq!(us(4), 1000 - 200 / 7 - 1);
        let error = SeekTable::new(&points(&[(1, 600), (1, 700)]), 31).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("seek"));
    }

    #[test]
    fn three_points_give_the_figures_of_the_data_sheet() {
        let ms = Span::from_ms;
        let curve = SeekCurve::ThreePoint { single: ms(2), average: ms(12), full: ms(22) };
        let table = SeekTable::new(&curve, 60_000).unwrap();
        assert_eq!(table.time(1), 2_000_000);
        assert!(table.time(59_999).abs_diff(22_000_000) < 3_000);
        let long = SeekCurve::ThreePoint { single: ms(2), average: ms(12), full: ms(5000) };
        assert!(SeekTable::new(&long, 60_000).is_err());
        // The mean over all pairs is close to the time of a third of the stroke; Lee makes it exact for large drives.
        assert!(table.mean().0.abs_diff(12_000_000) < 200_000, "{}", table.mean());
    }

    #[test]
    fn a_root_then_a_line() {
        let us = Span::from_us;
        let curve = SeekCurve::Hpl {
            line_from: 300,
            root: us(3810),
            root_factor: us(330),
            line: us(7750),
            line_factor: Span(5900),
            first: vec![us(2890), us(3680)],
        };
        let table = SeekTable::new(&curve, 2051).unwrap();
        assert_eq!([0, 1, 2].map(|d| table.time(d)), [0, 2_890_000, 3_680_000]);
        assert_eq!(table.time(100), 3_810_000 + 3_300_000);
        assert_eq!(table.time(1000), 7_750_000 + 5_900_000);
    }
}
