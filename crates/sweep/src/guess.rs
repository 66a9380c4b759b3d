//! What is to be expected of points that did not run, from those that did.
//!
//! A Gaussian process over the steps of the axes: a figure is thought to be the sum of what each axis does by itself and of what they do
//! together, and to change less from one step to the next than from one end of an axis to the other. How much of the requests ran is an axis more, so
//! that many short runs say something of the long ones. For each point there is a mean and a spread; the share of it below zero is the chance
//! that the point meets a bound.
//!
//! Sources: Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), section 2.2; Duvenaud, Nickisch and Rasmussen, "Additive Gaussian
//! processes" (NIPS 2011), for the sum; Swersky, Snoek and Adams, "Multi-task Bayesian optimization" (NIPS 2013), for short runs. Where we
//! differ: nothing is fitted, the constants below were chosen on recordings (`cargo xtask advise-check`); what is seen enters one by one, as a row of the
//! Cholesky factor each; the normal distribution is replaced by a curve of roots. There is nothing but the four operations and roots, so the steps of a search are the
//! same on every machine.
//!
//! Cost: time and 8 B of memory for each point that is asked for times what was seen.

use std::collections::BTreeMap;

/// How alike the two ends of an axis are.
const ENDS: f64 = 0.6;
/// How alike are runs of a part of the requests and of four times as many.
const PART: f64 = 0.5;
/// Share of what axes do by themselves.
const ALONE: f64 = 0.5;
/// What is seen is this uncertain, by the spread of the figure over all points.
const NOISE: f64 = 0.02;
/// Least spread of a figure.
const LEAST: f64 = 0.05;

/// A run that is or could be: the steps of a point, and the place of its part.
#[derive(Clone, Debug)]
struct Place {
    steps: Vec<usize>,
    part: usize,
}

/// What is thought of a place.
#[derive(Clone, Debug)]
struct Row {
    place: Place,
    /// Its row of the Cholesky factor.
    factors: Vec<f64>,
    /// Variance that is left, of 1.
    variance: f64,
    /// For each figure the mean, in units of its spread.
    means: Vec<f64>,
}

/// A run that was seen.
#[derive(Clone, Debug)]
struct Seen {
    row: Row,
    pivot: f64,
    /// For each figure what was new.
    news: Vec<f64>,
}

/// What is thought of all points.
#[derive(Clone, Debug)]
pub struct Guess {
    /// Steps of each axis.
    axes: Vec<usize>,
    /// For each figure its mean and its spread over the first points.
    figures: Vec<(f64, f64)>,
    seen: Vec<Seen>,
    rows: BTreeMap<(usize, usize), Row>,
}

impl Guess {
    /// Over axes of so many steps; `first` has the figures of some points, from which means and spreads are taken.
    pub fn new(axes: Vec<usize>, first: &[Vec<f64>]) -> Guess {
        let n = first.len().max(1) as f64;
        let of = |figure: usize| {
            let mean = first.iter().map(|all| all[figure]).sum::<f64>() / n;
            let squares: f64 = first.iter().map(|all| (all[figure] - mean) * (all[figure] - mean)).sum();
            (mean, (squares / n).max(LEAST).sqrt())
        };
        let figures = (0..first.first().map_or(0, Vec::len)).map(of).collect();
        Guess { axes, figures, seen: Vec::new(), rows: BTreeMap::new() }
    }

    /// How alike two places are, up to 1.
    fn alike(&self, a: &Place, b: &Place) -> f64 {
        let (mut sum, mut product) = (0.0, 1.0);
        for ((&a, &b), &steps) in a.steps.iter().zip(&b.steps).zip(&self.axes) {
            let apart = a.abs_diff(b) as f64 / steps.saturating_sub(1).max(1) as f64;
            let alike = 1.0 - (1.0 - ENDS) * apart;
            sum += alike;
            product *= alike;
        }
        let parts = (0..a.part.abs_diff(b.part)).map(|_| PART).product::<f64>();
        (ALONE * sum / self.axes.len().max(1) as f64 + (1.0 - ALONE) * product) * parts
    }

    /// Takes what was seen into a row.
    fn enter(&self, row: &mut Row, seen: &Seen) {
        let known: f64 = row.factors.iter().zip(&seen.row.factors).map(|(a, b)| a * b).sum();
        let factor = (self.alike(&row.place, &seen.row.place) - known) / seen.pivot;
        row.factors.push(factor);
        row.variance = (row.variance - factor * factor).max(1e-9);
        row.means.iter_mut().zip(&seen.news).for_each(|(mean, new)| *mean += factor * new);
    }

    /// The row of a place, made when it is asked for.
    fn row(&mut self, point: usize, steps: &[usize], part: usize) -> &mut Row {
        if !self.rows.contains_key(&(point, part)) {
            let place = Place { steps: steps.to_vec(), part };
            let means = vec![0.0; self.figures.len()];
            let mut row = Row { place, factors: Vec::new(), variance: 1.0, means };
            self.seen.iter().for_each(|seen| self.enter(&mut row, seen));
            self.rows.insert((point, part), row);
        }
        self.rows.get_mut(&(point, part)).expect("it was made")
    }

    /// A part of the requests ran on a point, with these figures.
    pub fn see(&mut self, point: usize, steps: &[usize], part: usize, figures: &[f64]) {
        let row = self.row(point, steps, part).clone();
        let pivot = (row.variance + NOISE).sqrt();
        let scaled = figures.iter().zip(&self.figures).map(|(value, (mean, spread))| (value - mean) / spread);
        let news = scaled.zip(&row.means).map(|(value, mean)| (value - mean) / pivot).collect();
        let seen = Seen { row, pivot, news };
        let mut rows = std::mem::take(&mut self.rows);
        rows.values_mut().for_each(|row| self.enter(row, &seen));
        self.rows = rows;
        self.seen.push(seen);
    }

    /// The chance that all figures of a run of this part are at most 0.
    pub fn chance(&mut self, point: usize, steps: &[usize], part: usize) -> f64 {
        let figures = self.figures.clone();
        let row = self.row(point, steps, part);
        let below = |(&mean, (centre, spread)): (&f64, (f64, f64))| {
            let far = -(centre + spread * mean) / (spread * row.variance.sqrt());
            0.5 * (1.0 + far / (1.0 + far * far).sqrt())
        };
        row.means.iter().zip(figures).map(below).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure of a point of an 8 by 8 grid: each axis by itself, and a little together.
    fn figure(steps: &[usize]) -> f64 {
        let (x, y) = (steps[0] as f64, steps[1] as f64);
        1.6 - 0.3 * x - 0.2 * y + 0.01 * x * y
    }

    fn all() -> impl Iterator<Item = (usize, [usize; 2])> {
        (0..64).map(|point| (point, [point / 8, point % 8]))
    }

    #[test]
    fn a_few_points_tell_which_of_the_others_meet_a_bound() {
        let some: Vec<(usize, [usize; 2])> = all().filter(|(point, _)| point % 5 == 0).collect();
        let first: Vec<Vec<f64>> = some.iter().map(|(_, steps)| vec![figure(steps)]).collect();
        let mut guess = Guess::new(vec![8, 8], &first);
        for ((point, steps), figures) in some.iter().zip(&first) {
            guess.see(*point, steps, 2, figures);
        }
        let right = |(point, steps): &(usize, [usize; 2])| {
            (guess.clone().chance(*point, steps, 2) > 0.5) == (figure(steps) <= 0.0)
        };
        assert!(all().filter(right).count() >= 60);
        // What was seen is nearly certain, and what was not is less so.
        let clear = all().filter(|(_, steps)| figure(steps) < -0.5).collect::<Vec<_>>();
        let (seen, other): (Vec<_>, Vec<_>) = clear.into_iter().partition(|(point, _)| point % 5 == 0);
        let mut mean = |of: &[(usize, [usize; 2])]| {
            of.iter().map(|(point, steps)| guess.chance(*point, steps, 2)).sum::<f64>() / of.len() as f64
        };
        let (seen, other) = (mean(&seen), mean(&other));
        assert!(seen > other && other > 0.7, "{seen} {other}");
    }

    #[test]
    fn rows_are_the_same_whenever_they_are_asked_for() {
        let first = [vec![1.0, -0.5], vec![0.25, 0.5]];
        let (mut early, mut late) = (Guess::new(vec![8, 8], &first), Guess::new(vec![8, 8], &first));
        early.chance(9, &[1, 1], 2);
        for guess in [&mut early, &mut late] {
            guess.see(3, &[0, 3], 0, &first[0]);
            guess.see(62, &[7, 6], 1, &first[1]);
        }
        assert_eq!(early.chance(9, &[1, 1], 2), late.chance(9, &[1, 1], 2));
    }
}
