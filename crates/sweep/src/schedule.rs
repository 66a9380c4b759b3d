//! Which point a free thread takes: the longest first, as far as that is known.
//!
//! All points replay the same requests, but not at the same cost. What a point will take is guessed from those that are done: for each axis
//! the mean time of its step over the mean of all, multiplied. Near the end the guess decides how long one thread waits for the
//! other; before that any order is good, so points are taken in theirs until few are left. Results do not depend on it.

use crate::space::Space;

/// Points among which the longest is looked for.
const NEAR_THE_END: usize = 512;

/// Points that wait, and what is known of the time they take.
pub(crate) struct Schedule<'a> {
    space: &'a Space,
    /// The next at the end.
    waiting: Vec<usize>,
    /// For each axis and step: time and number of points done.
    steps: Vec<Vec<(f64, f64)>>,
    all: (f64, f64),
}

impl<'a> Schedule<'a> {
    pub fn new(space: &'a Space, mut points: Vec<usize>) -> Schedule<'a> {
        points.reverse();
        let steps = space.axes().iter().map(|a| vec![(0.0, 0.0); a.steps.len()]).collect();
        Schedule { space, waiting: points, steps, all: (0.0, 0.0) }
    }

    /// The point to run next.
    pub fn take(&mut self) -> Option<usize> {
        let near = self.waiting.len().saturating_sub(NEAR_THE_END) == 0 && self.all.1 > 0.0;
        if !near {
            return self.waiting.pop();
        }
        let guesses = self.waiting.iter().map(|&p| self.guess(p));
        // Of equal guesses the last, which is the first in order.
        let longest =
            guesses.enumerate().fold((0, f64::MIN), |best, (i, g)| if g >= best.1 { (i, g) } else { best });
        (!self.waiting.is_empty()).then(|| self.waiting.remove(longest.0))
    }

    /// A point took so many seconds.
    pub fn took(&mut self, point: usize, seconds: f64) {
        for (axis, step) in self.steps.iter_mut().zip(self.space.steps(point)) {
            axis[step].0 += seconds;
            axis[step].1 += 1.0;
        }
        self.all = (self.all.0 + seconds, self.all.1 + 1.0);
    }

    /// Seconds that a point takes, perhaps.
    fn guess(&self, point: usize) -> f64 {
        let mean = (self.all.0 / self.all.1).max(1e-9);
        let factor = |(axis, step): (&Vec<(f64, f64)>, usize)| match axis[step] {
            (_, 0.0) => 1.0,
            (time, n) => time / n / mean,
        };
        mean * self.steps.iter().zip(self.space.steps(point)).map(factor).product::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;

    #[test]
    fn every_point_is_taken_once_and_the_longest_first() {
        let axes = ["a.size=1..8+1", "a.mode=p,q"].map(|t| Axis::parse(t).unwrap()).to_vec();
        let space = Space::new(axes, &[]).unwrap();
        // Of each size one mode is done, and took as long as it is large.
        let (p, q): (Vec<usize>, Vec<usize>) =
            (0..space.len()).partition(|&point| space.steps(point)[1] == 0);
        let mut schedule = Schedule::new(&space, q.clone());
        p.iter().for_each(|&point| schedule.took(point, (space.steps(point)[0] + 1) as f64));
        let taken: Vec<usize> = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(taken, q.iter().rev().copied().collect::<Vec<_>>());
    }

    #[test]
    fn what_nothing_is_known_of_is_taken_in_order() {
        let space = Space::new(vec![Axis::parse("a.n=1..600+1").unwrap()], &[]).unwrap();
        let mut schedule = Schedule::new(&space, (0..space.len()).collect());
        let taken: Vec<usize> = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(taken, (0..600).collect::<Vec<_>>());
    }
}
