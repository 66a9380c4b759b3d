//! Finding the cheapest point of a large space that meets what is asked, with few runs.
//!
//! What a point costs is known without a run; whether it meets the bounds is not. So nothing that costs as much as the best so far is looked at.
//!
//! 1. *Draw*: points that have every step of every axis about equally often (a Latin hypercube) run the first sixteenth of the requests.
//! 2. *Guess*: what ran says of every other point how likely it meets the bounds ([`crate::guess`]).
//! 3. *Look* at the points that promise most: the chance of each times what it saves beside the best so far; where none has met the bounds, the chance
//!    by the cost. A few at a time run a quarter of the requests and, when they still promise most, all of them.
//! 4. At the end all points that differ from the best in one axis run a quarter, and it is looked on from there. Where nothing meets the bounds the
//!    point that misses them least stands for the best: those around it that miss them by less run all requests, and so on from the nearest of
//!    these. The search ends when no point promises anything any more, or when the budget is spent.
//!
//! Sources: Gardner, Kusner, Xu, Weinberger and Cunningham, "Bayesian optimization with inequality constraints" (ICML 2014), for 2 and 3; Jamieson and
//! Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization" (AISTATS 2016), for short runs before long ones.
//!
//! Of a space of more than [`POOL`] points a draw of so many is looked at, with the points around the best.
//!
//! A run of a part costs that part. What was measured is never measured again. The same space, seed and scores take the same steps.

use crate::guess::Guess;
use crate::space::Space;
use nandu_base::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Runs of a part of the requests: one in so many of them. The last is the whole.
pub const PARTS: [u64; 3] = [16, 4, 1];
/// The longest of the short runs.
const MIDDLE: usize = 1;
/// The whole.
const WHOLE: usize = 2;
/// Points that run between two guesses.
const AT_ONCE: usize = 3;
/// Most points of a space that are looked at.
pub const POOL: usize = 512;
/// A point promises nothing when what it saves, by the chance that it does, is less than so many thousandths of the best.
const NOTHING: f64 = 2.0;

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

/// What a run showed.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// How good it is.
    pub score: Score,
    /// For each bound how far it is missed, or met: at most 0; see [`crate::bound::Bound::margin`].
    pub margins: Vec<f64>,
}

/// Measures points.
pub trait Measure {
    /// Why it cannot go on.
    type Error;

    /// What these points cost, in their order; `None` for those that cannot be built.
    fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Self::Error>;

    /// What these points show, in their order, each with a part of the requests by its place in [`PARTS`]; `None` for those that cannot be built.
    fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Self::Error>;
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
    /// Whether it ended because no point promised anything any more, and not because the budget was spent.
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
    space: &'a Space,
    measure: &'a mut M,
    /// Sixteenths of a run that may be spent.
    budget: u64,
    /// What the points that are looked at cost; `None` for those that cannot be built.
    costs: BTreeMap<usize, Option<u64>>,
}

impl<M: Measure> Racing<'_, M> {
    /// Looks at these points too.
    fn pool(&mut self, points: &[usize]) -> Result<(), M::Error> {
        let new: Vec<usize> = points.iter().copied().filter(|p| !self.costs.contains_key(p)).collect();
        let costs = self.measure.costs(&new)?;
        self.costs.extend(new.into_iter().zip(costs));
        Ok(())
    }

    /// Sixteenths that may be spent on short runs: one of all requests is kept until there was one.
    fn left(&self) -> u64 {
        let kept = if self.found.scores[WHOLE].is_empty() { PARTS[0] } else { 0 };
        self.budget.saturating_sub(self.found.sixteenths + kept)
    }

    /// Runs those of `asked` that were not run so far, can be built and fit the budget. What they showed.
    fn run(&mut self, asked: &[(usize, usize)]) -> Result<Vec<(usize, usize, Seen)>, M::Error> {
        let mut todo = Vec::new();
        let mut price = 0;
        for &(point, part) in asked {
            let each = PARTS[0] / PARTS[part];
            let most = if part == WHOLE { self.budget - self.found.sixteenths } else { self.left() };
            let is_there = self.costs.get(&point).is_some_and(Option::is_some);
            if is_there && !self.found.scores[part].contains_key(&point) && price + each <= most {
                todo.push((point, part));
                price += each;
            }
        }
        let shown = self.measure.measure(&todo)?;
        self.found.sixteenths += price;
        let mut out = Vec::new();
        for ((point, part), seen) in todo.into_iter().zip(shown) {
            self.found.scores[part].insert(point, seen.as_ref().map(|seen| seen.score));
            match seen {
                Some(seen) => out.push((point, part, seen)),
                None => drop(self.costs.insert(point, None)),
            }
        }
        Ok(out)
    }

    /// The same, and what it says of others.
    fn learn(&mut self, asked: &[(usize, usize)], guess: &mut Guess) -> Result<bool, M::Error> {
        let seen = self.run(asked)?;
        for (point, part, seen) in &seen {
            guess.see(*point, &self.space.steps(*point), *part, &seen.margins);
        }
        Ok(!seen.is_empty())
    }

    /// The best point that ran all requests, when it meets everything.
    fn best(&self) -> Option<(usize, Score)> {
        let best = *self.found.ranked().first()?;
        self.found.whole(best).filter(|score| score.missed == 0).map(|score| (best, score))
    }

    /// The points that promise something, the most first.
    fn promising(&self, guess: &mut Guess) -> Vec<usize> {
        let best = self.best().map(|(_, score)| score.cost);
        let mut all: Vec<(f64, usize)> = Vec::new();
        for (&point, &cost) in &self.costs {
            let Some(cost) = cost.filter(|&cost| best.is_none_or(|best| cost < best)) else { continue };
            if self.found.scores[WHOLE].contains_key(&point) {
                continue;
            }
            let chance = guess.chance(point, &self.space.steps(point), WHOLE);
            let worth = match best {
                Some(best) => chance * (best - cost) as f64,
                None => chance * chance / cost.max(1) as f64,
            };
            if best.is_none_or(|best| worth * 1000.0 >= NOTHING * best as f64) {
                all.push((worth, point));
            }
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.into_iter().map(|(_, point)| point).collect()
    }

    /// Runs all requests of those of `near` that miss the bounds by less than `best` in short runs, until one does with all requests. Whether one
    /// does.
    fn nearer(&mut self, best: usize, near: &[usize], guess: &mut Guess) -> Result<bool, M::Error> {
        let Some(own) = self.found.short(best) else { return Ok(false) };
        let short = near.iter().filter_map(|&point| Some((self.found.short(point)?, point)));
        let mut less: Vec<(Score, usize)> = short.filter(|(score, _)| score.missed < own.missed).collect();
        less.sort_unstable();
        for (_, point) in less {
            if self.learn(&[(point, WHOLE)], guess)? && self.found.ranked().first() != Some(&best) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks at what promises most until nothing does, or less than `keep` sixteenths are left. Whether nothing does.
    fn look(&mut self, places: &Places, guess: &mut Guess, keep: u64) -> Result<bool, M::Error> {
        loop {
            if let Some((best, _)) = self.best() {
                self.pool(&places.around(self.space, best))?;
            }
            let promising = self.promising(guess);
            if promising.is_empty() {
                return Ok(true);
            }
            let short = PARTS[0] / PARTS[MIDDLE];
            let part = |&point: &usize| match self.found.scores[MIDDLE].contains_key(&point)
                || self.left() < short
            {
                true => (point, WHOLE),
                false => (point, MIDDLE),
            };
            let asked: Vec<(usize, usize)> = promising.iter().take(AT_ONCE).map(part).collect();
            let price: u64 = asked.iter().map(|&(_, part)| PARTS[0] / PARTS[part]).sum();
            // What is kept for looking around is kept too where nothing meets the bounds so far, but then no more than a quarter of the budget: most
            // of it is for finding what does.
            let keep = if self.best().is_some() { keep } else { keep.min(self.budget / 4) };
            let has_run = !self.found.scores[WHOLE].is_empty();
            if self.left() < keep + price && has_run || !self.learn(&asked, guess)? {
                return Ok(false);
            }
        }
    }
}

/// Searches `space` with the work of about `budget` runs of all requests, two at least: one of them is of all requests.
///
/// # Errors
/// Those of `measure`.
pub fn race<M: Measure>(space: &Space, seed: u64, budget: u64, measure: &mut M) -> Result<Found, M::Error> {
    let places = Places::of(space);
    let (mut rng, budget) = (Rng::new(seed), budget.max(2) * PARTS[0]);
    let mut race = Racing { found: Found::default(), space, measure, budget, costs: BTreeMap::new() };
    // The draw takes a fifth of the budget.
    let n = usize::try_from(budget / 5).unwrap_or(usize::MAX).clamp(8, space.len().max(8));
    let drawn = places.drawn(n, &mut rng);
    race.pool(&places.drawn(POOL, &mut rng))?;
    race.pool(&drawn)?;
    let first = race.run(&drawn.iter().map(|&point| (point, 0)).collect::<Vec<_>>())?;
    let figures: Vec<Vec<f64>> = first.iter().map(|(_, _, seen)| seen.margins.clone()).collect();
    let mut guess = Guess::new(places.steps.clone(), &figures);
    first
        .iter()
        .for_each(|(point, part, seen)| guess.see(*point, &space.steps(*point), *part, &seen.margins));
    // What is around the best is looked at in any case: it says what the next step would bring.
    let around: usize = places.steps.iter().map(|steps| steps - 1).sum();
    race.look(&places, &mut guess, around as u64 * PARTS[0] / PARTS[MIDDLE])?;
    while let Some(best) = race.found.ranked().first().copied() {
        let near = places.around(space, best);
        race.pool(&near)?;
        race.learn(
            &near.iter().chain([&best]).map(|&point| (point, MIDDLE)).collect::<Vec<_>>(),
            &mut guess,
        )?;
        // The chance of meeting the bounds says nothing where nothing comes near them: there the nearest shows the way.
        if race.best().is_some() || !race.nearer(best, &near, &mut guess)? {
            break;
        }
    }
    let ran = !race.found.scores[WHOLE].is_empty();
    race.found.settled = race.look(&places, &mut guess, 0)? && ran;
    race.found.best = race.found.ranked().first().copied();
    Ok(race.found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use std::convert::Infallible;

    /// Longest tail that is allowed.
    const LIMIT: u64 = 9_000;

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
            let cost =
                40 + 9 * spare as u64 + 13 * cache as u64 + 25 * dies as u64 + if map == 0 { 30 } else { 0 };
            Score { missed: (tail * 1000 / LIMIT).saturating_sub(1000), cost, then: tail }
        }
    }

    impl Measure for Drive<'_> {
        type Error = Infallible;

        fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Infallible> {
            Ok(points.iter().map(|&point| Some(self.score(point, WHOLE).cost)).collect())
        }

        fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Infallible> {
            points.iter().for_each(|&asked| assert!(self.asked.insert(asked), "{asked:?} twice"));
            let seen = |&(point, part): &(usize, usize)| {
                let score = self.score(point, part);
                Some(Seen { score, margins: vec![score.then as f64 / LIMIT as f64 - 1.0] })
            };
            Ok(points.iter().map(seen).collect())
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
            same += usize::from(got.cost * 1000 <= best.cost * 1020);
        }
        assert!(same >= 19, "within 2 % with {same} of 20 seeds");
    }

    #[test]
    fn where_nothing_meets_the_bounds_the_nearest_is_looked_around() {
        /// Less than any drive of the textbooks has.
        const NEVER: u64 = 100;
        struct Hard<'a>(Drive<'a>);
        impl Measure for Hard<'_> {
            type Error = Infallible;
            fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Infallible> {
                self.0.costs(points)
            }
            fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Infallible> {
                let harder = |seen: Seen| {
                    let tail = seen.score.then;
                    let missed = (tail * 1000 / NEVER).saturating_sub(1000);
                    Seen {
                        score: Score { missed, ..seen.score },
                        margins: vec![tail as f64 / NEVER as f64 - 1.0],
                    }
                };
                Ok(self.0.measure(points)?.into_iter().map(|seen| seen.map(harder)).collect())
            }
        }
        let space = space();
        let places = Places::of(&space);
        let mut near = 0;
        for seed in 1..=20 {
            let mut drive = Hard(Drive { space: &space, seed, asked: BTreeSet::new() });
            let found = race(&space, seed, 51, &mut drive).unwrap();
            assert!(found.sixteenths <= 51 * 16, "seed {seed}: {}", found.sixteenths);
            let nearest = found.best.expect("one ran");
            let got = found.whole(nearest).expect("it ran");
            assert!(got.missed > 0);
            let around = places.around(&space, nearest);
            let seen = around.iter().filter(|&&point| found.short(point).is_some()).count();
            let least = (0..space.len()).map(|p| drive.0.score(p, WHOLE).then).min().expect("points");
            near += usize::from(got.then * 1000 <= least * 1100 && seen * 2 > around.len());
        }
        assert!(near >= 18, "within 10 % of the least, and looked around, with {near} of 20 seeds");
    }

    #[test]
    fn the_same_seed_takes_the_same_steps_and_what_cannot_be_built_is_passed_by() {
        struct Half<'a>(Drive<'a>);
        impl Measure for Half<'_> {
            type Error = Infallible;
            fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Infallible> {
                self.0.costs(points)
            }
            fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Infallible> {
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
            fn costs(&mut self, points: &[usize]) -> Result<Vec<Option<u64>>, Infallible> {
                Ok(points.iter().map(|&point| Some(9 - point as u64)).collect())
            }
            fn measure(&mut self, points: &[(usize, usize)]) -> Result<Vec<Option<Seen>>, Infallible> {
                let score =
                    |&(point, _): &(usize, usize)| Score { missed: 0, cost: 9 - point as u64, then: 0 };
                Ok(points.iter().map(|p| Some(Seen { score: score(p), margins: vec![-1.0] })).collect())
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
