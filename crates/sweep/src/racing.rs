//! Finding a good point of a large space with few runs: successive halving, then steps along the axes.
//!
//! 1. *Draw*: points that have every step of every axis about equally often (a Latin hypercube).
//! 2. *Halving*: all of them run the first sixteenth of the requests, the best quarter runs a quarter, the best quarter of those all of them.
//!    Source: Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization" (AISTATS 2016), with a
//!    factor of four.
//! 3. *Steps*: from the best point, and from the best of another place, all points that differ in one axis run a quarter; those that seem
//!    better there run all requests, a few at a time. Where none is better, points follow that take steps up in one axis and down in another. The
//!    search moves while one is better, and ends when none is or the budget is spent.
//!
//! A run of a part costs that part. What was measured is never measured again. The same space, seed and scores take the same steps.

use crate::space::Space;
use nandu_base::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Runs of a part of the requests: one in so many of them. The last is the whole.
pub const PARTS: [u64; 3] = [16, 4, 1];
/// The longest of the short runs.
const MIDDLE: usize = 1;
/// The whole.
const WHOLE: usize = 2;
/// What is kept from one part to the next: one in so many.
const KEEP: usize = 4;
/// Points that run all requests between two looks at the best.
const AT_ONCE: usize = 3;
/// Places that steps are taken from.
const STARTS: usize = 2;

/// How good a point is: less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// By how much it misses what it must meet; 0 when it meets all.
    pub missed: u64,
    /// What it costs.
    pub cost: u64,
    /// What decides among equals.
    pub then: u64,
}

/// Measures points, each with a part of the requests by its place in [`PARTS`]; `None` for those that cannot be built.
pub trait Measure {
    /// Why it cannot go on.
    type Error;

    /// The scores of these points, in their order.
    fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Score>>, Self::Error>;
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Scores of the points that ran, by part.
    pub scores: [BTreeMap<usize, Option<Score>>; PARTS.len()],
    /// The best of those that ran all requests.
    pub best: Option<usize>,
    /// What the runs cost, in sixteenths of a run of all requests.
    pub sixteenths: u64,
    /// Whether it ended because no point one step away is better, and not because the budget was spent.
    pub settled: bool,
}

impl Found {
    /// The score of a point that ran all requests.
    pub fn whole(&self, point: usize) -> Option<Score> {
        self.scores[WHOLE].get(&point).copied().flatten()
    }

    /// The score of a point in its longest short run.
    pub fn short(&self, point: usize) -> Option<Score> {
        self.scores[MIDDLE].get(&point).copied().flatten()
    }

    /// The points that ran all requests, the best first.
    pub fn ranked(&self) -> Vec<usize> {
        ranked(&self.scores[WHOLE])
    }
}

/// Points with a score, the best first; of equals the first in order.
fn ranked(scores: &BTreeMap<usize, Option<Score>>) -> Vec<usize> {
    let mut all: Vec<(Score, usize)> =
        scores.iter().filter_map(|(&point, score)| Some(((*score)?, point))).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, point)| point).collect()
}

/// The points by their steps, and steps by axis.
struct Places {
    by_steps: BTreeMap<Vec<usize>, usize>,
    steps: Vec<usize>,
}

impl Places {
    fn of(space: &Space) -> Places {
        let by_steps = (0..space.len()).map(|point| (space.steps(point), point)).collect();
        Places { by_steps, steps: space.axes().iter().map(|axis| axis.steps.len()).collect() }
    }

    /// The points that differ from `point` in one axis.
    fn around(&self, space: &Space, point: usize) -> Vec<usize> {
        let own = space.steps(point);
        let mut out = Vec::new();
        for (axis, &steps) in self.steps.iter().enumerate() {
            for step in (0..steps).filter(|&step| step != own[axis]) {
                let mut other = own.clone();
                other[axis] = step;
                out.extend(self.by_steps.get(&other));
            }
        }
        out
    }

    /// The points that differ from `point` in two axes, one or two steps up in one and down in another: what meets a bound
    /// exactly gets cheaper only so.
    fn exchanged(&self, space: &Space, point: usize) -> Vec<usize> {
        let own = space.steps(point);
        let mut out = Vec::new();
        for (up, &steps) in self.steps.iter().enumerate() {
            for down in (0..own.len()).filter(|&down| down != up) {
                for (more, less) in [(1, 1), (1, 2), (2, 1)] {
                    if own[up] + more < steps && own[down] >= less {
                        let mut other = own.clone();
                        other[up] += more;
                        other[down] -= less;
                        out.extend(self.by_steps.get(&other));
                    }
                }
            }
        }
        out
    }

    /// Up to `n` points, each step of each axis about equally often.
    fn drawn(&self, n: usize, rng: &mut Rng) -> Vec<usize> {
        if n >= self.by_steps.len() {
            return self.by_steps.values().copied().collect();
        }
        let mut columns: Vec<Vec<usize>> = Vec::new();
        for &steps in &self.steps {
            let mut column: Vec<usize> = (0..n).map(|i| i % steps).collect();
            for i in (1..n).rev() {
                column.swap(i, rng.below(i as u64 + 1) as usize);
            }
            columns.push(column);
        }
        let row = |i: usize| columns.iter().map(|column| column[i]).collect::<Vec<usize>>();
        // What is skipped is not there, and two rows may be alike.
        let drawn: BTreeSet<usize> = (0..n).filter_map(|i| self.by_steps.get(&row(i)).copied()).collect();
        if drawn.is_empty() {
            self.by_steps.values().take(n).copied().collect()
        } else {
            drawn.into_iter().collect()
        }
    }
}

/// A search under way.
struct Racing<'a, M> {
    found: Found,
    measure: &'a mut M,
    /// Sixteenths of a run that may be spent.
    budget: u64,
}

impl<M: Measure> Racing<'_, M> {
    fn left(&self) -> u64 {
        self.budget.saturating_sub(self.found.sixteenths)
    }

    /// Runs a part for the first of `points` that were not run so far and fit the budget, of which a run of all requests is kept until there was
    /// one. False when some did not.
    fn run(&mut self, points: &[usize], part: usize) -> Result<bool, M::Error> {
        let price = PARTS[0] / PARTS[part];
        let mut todo: Vec<usize> = points.to_vec();
        todo.retain(|point| !self.found.scores[part].contains_key(point));
        let kept = if part != WHOLE && self.found.scores[WHOLE].is_empty() { PARTS[0] } else { 0 };
        let fits = usize::try_from(self.left().saturating_sub(kept) / price).unwrap_or(usize::MAX);
        let all = todo.len() <= fits;
        todo.truncate(fits);
        let asked: Vec<(usize, usize)> = todo.iter().map(|&point| (point, part)).collect();
        let scores = self.measure.measure(&asked)?;
        self.found.sixteenths += price * asked.len() as u64;
        self.found.scores[part].extend(todo.into_iter().zip(scores));
        Ok(all)
    }

    /// The best of `points` in a part, one in [`KEEP`] of them and at least `least`.
    fn kept(&self, points: &[usize], part: usize, least: usize) -> Vec<usize> {
        let among: BTreeSet<usize> = points.iter().copied().collect();
        let mut best = ranked(&self.found.scores[part]);
        best.retain(|point| among.contains(point));
        best.truncate((points.len() / KEEP).max(least));
        best
    }

    /// Moves from `start` while some point is better that differs in one axis, or else one that exchanges steps of two. False when the budget is spent.
    fn walk(&mut self, space: &Space, places: &Places, start: usize) -> Result<bool, M::Error> {
        let (mut here, mut exchanges) = (start, false);
        loop {
            let around = if exchanges { places.exchanged(space, here) } else { places.around(space, here) };
            if !self.run(&[&[here], &around[..]].concat(), MIDDLE)? {
                return Ok(false);
            }
            let own = self.found.short(here);
            let mut better = self.kept(&around, MIDDLE, around.len());
            // What is worse in the short run by its cost alone cannot be better in the whole.
            better.retain(|&point| self.found.short(point) < own || own.is_none());
            let mut moved = false;
            for some in better.chunks(AT_ONCE) {
                if !self.run(some, WHOLE)? {
                    return Ok(false);
                }
                let best = some.iter().filter_map(|&p| Some((self.found.whole(p)?, p))).min();
                if let Some((score, point)) = best
                    && self.found.whole(here).is_none_or(|own| score < own)
                {
                    (here, moved) = (point, true);
                    break;
                }
            }
            if !moved && exchanges {
                return Ok(true);
            }
            exchanges = !moved;
        }
    }
}

/// Searches `space` with the work of about `budget` runs of all requests, two at least: one of them is of all requests.
///
/// # Errors
/// Those of `measure`.
pub fn race<M: Measure>(space: &Space, seed: u64, budget: u64, measure: &mut M) -> Result<Found, M::Error> {
    let places = Places::of(space);
    let mut race = Racing { found: Found::default(), measure, budget: budget.max(2) * PARTS[0] };
    // The draw takes about a third of the budget: n / 16, n / 4 / 4 and n / 16 runs.
    let n = usize::try_from(budget * 16 / 9).unwrap_or(usize::MAX).clamp(8, space.len().max(8));
    let drawn = places.drawn(n, &mut Rng::new(seed));
    race.run(&drawn, 0)?;
    let some = race.kept(&drawn, 0, 4);
    race.run(&some, MIDDLE)?;
    let few = race.kept(&some, MIDDLE, STARTS);
    race.run(&few, WHOLE)?;
    let starts: Vec<usize> = race.found.ranked().into_iter().take(STARTS).collect();
    let mut settled = !starts.is_empty();
    for start in starts {
        settled = race.walk(space, &places, start)? && settled;
    }
    race.found.settled = settled;
    race.found.best = race.found.ranked().first().copied();
    Ok(race.found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use std::convert::Infallible;

    fn space() -> Space {
        let axes = ["a.spare=1..8+1", "a.cache=1..8+1", "a.dies=1..4+1", "a.map=p,q"];
        Space::new(axes.map(|text| Axis::parse(text).unwrap()).to_vec(), &[]).unwrap()
    }

    /// A drive of the textbooks: more spare and cache make it faster and dearer. A part of the requests shows it with some noise.
    struct Drive<'a> {
        space: &'a Space,
        seed: u64,
        asked: BTreeSet<(usize, usize)>,
    }

    impl Drive<'_> {
        fn score(&self, point: usize, part: usize) -> Score {
            let [spare, cache, dies, map] = self.space.steps(point)[..] else { panic!("four axes") };
            let noise = Rng::new(self.seed + (point * 3 + part) as u64).below(1 + 30 * (PARTS[part] - 1));
            let tail = 12_000 / (1 + spare as u64)
                + 9_000 / (2 + cache as u64)
                + 8_000 / (1 + dies as u64)
                + 700 * map as u64
                + noise;
            let limit = 9_000;
            let cost =
                40 + 9 * spare as u64 + 13 * cache as u64 + 25 * dies as u64 + if map == 0 { 30 } else { 0 };
            Score { missed: (tail * 1000 / limit).saturating_sub(1000), cost, then: tail }
        }
    }

    impl Measure for Drive<'_> {
        type Error = Infallible;

        fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Score>>, Infallible> {
            points.iter().for_each(|&asked| assert!(self.asked.insert(asked), "{asked:?} twice"));
            Ok(points.iter().map(|&(point, part)| Some(self.score(point, part))).collect())
        }
    }

    #[test]
    fn a_tenth_of_the_runs_finds_nearly_what_all_of_them_find() {
        let space = space();
        assert_eq!(space.len(), 512);
        let mut same = 0;
        for seed in 1..=20 {
            let mut drive = Drive { space: &space, seed, asked: BTreeSet::new() };
            let found = race(&space, seed, 51, &mut drive).unwrap();
            assert!(found.sixteenths <= 51 * 16, "seed {seed}: {}", found.sixteenths);
            let best = (0..space.len()).map(|p| drive.score(p, WHOLE)).min().expect("points");
            let got = found.whole(found.best.expect("a best")).expect("it ran");
            assert_eq!(got.missed, 0, "seed {seed}");
            same += usize::from(got.cost * 1000 <= best.cost * 1025);
        }
        assert!(same >= 18, "within 2.5 % with {same} of 20 seeds");
    }

    #[test]
    fn the_same_seed_takes_the_same_steps_and_what_cannot_be_built_is_passed_by() {
        struct Half<'a>(Drive<'a>);
        impl Measure for Half<'_> {
            type Error = Infallible;
            fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Score>>, Infallible> {
                let scores = self.0.measure(points)?;
                Ok(points.iter().zip(scores).map(|(p, s)| s.filter(|_| p.0 % 2 == 0)).collect())
            }
        }
        let space = space();
        let once = || {
            let drive = Drive { space: &space, seed: 7, asked: BTreeSet::new() };
            race(&space, 3, 40, &mut Half(drive)).unwrap()
        };
        let (a, b) = (once(), once());
        assert_eq!((a.best, a.sixteenths, a.ranked()), (b.best, b.sixteenths, b.ranked()));
        assert!(a.ranked().iter().all(|point| point % 2 == 0) && a.best.is_some());
    }

    #[test]
    fn a_budget_is_kept_and_a_small_space_is_seen_whole() {
        let one =
            Space::new(vec![Axis::parse("a.n=1,2,3").unwrap(), Axis::parse("a.m=1").unwrap()], &[]).unwrap();
        struct Cheap;
        impl Measure for Cheap {
            type Error = Infallible;
            fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Score>>, Infallible> {
                let score =
                    |&(point, _): &(usize, usize)| Score { missed: 0, cost: 9 - point as u64, then: 0 };
                Ok(points.iter().map(|p| Some(score(p))).collect())
            }
        }
        let found = race(&one, 1, 30, &mut Cheap).unwrap();
        assert_eq!((found.best, found.settled), (Some(2), true));
        let space = space();
        for (seed, budget) in (1..=20).flat_map(|seed| [(seed, 1), (seed, 2), (seed, 3)]) {
            let mut drive = Drive { space: &space, seed, asked: BTreeSet::new() };
            let found = race(&space, seed, budget, &mut drive).unwrap();
            assert!(found.sixteenths <= budget.max(2) * 16 && !found.settled);
            assert!(found.best.is_some(), "seed {seed}, budget {budget}: nothing ran all requests");
        }
    }
}
