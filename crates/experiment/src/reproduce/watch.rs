//! Runs in which the time of every single request is kept.
//!
//! Requests arrive at their times, and at most so many are in the system: what comes then waits outside. A request's
//! *response* counts from when it is let in. The first third is warm-up.

use super::runner::{Load, Runner, Setup};
use crate::failure::Failure;
use crate::parallel;
use crate::plan::Plan;
use nandu_base::{Instant, Span};
use nandu_sim::RunResult;
use nandu_sim::samples::Samples;
use nandu_sim::tap::{Ended, Look, Seen, Tap, run_tapped};
use std::collections::BTreeMap;

/// A run of one setup.
pub struct Watched {
    /// Its figures; nothing is left out as warm-up.
    pub result: RunResult,
    /// When each request came and went.
    pub times: Times,
    /// The machines over the run; empty where nobody asked for them.
    pub samples: Samples,
    /// When the replay began, after the stack was open.
    pub start: Instant,
}

impl Watched {
    fn of(seen: Seen<Every>, cap: u32) -> Watched {
        let Seen { result, tap, samples, start, .. } = seen;
        Watched { result, times: Times::of(tap.0, cap as usize), samples, start }
    }
}

/// Runs by the label of their setup.
pub type Runs = BTreeMap<String, Watched>;

/// What is watched on one load.
pub struct Watch<'a> {
    /// Each of them runs on the same requests.
    pub setups: Vec<Setup>,
    /// The requests.
    pub load: Load,
    /// Most requests in the system.
    pub cap: u32,
    /// When each request comes on the machines' clock, and not at its own time. The stacks must be open at once: theirs is the clock of the
    /// replay.
    pub at: Option<&'a [Span]>,
    /// Labels of setups whose machines are read off as the run goes on.
    pub sampled: &'a [&'a str],
}

impl Watch<'_> {
    /// Requests at their own times, and nobody is read off.
    pub fn plain(setups: Vec<Setup>, load: Load, cap: u32) -> Self {
        Watch { setups, load, cap, at: None, sampled: &[] }
    }
}

/// When each request of a run came and went, by its number.
#[derive(Clone, Debug)]
pub struct Times {
    /// When it was let in.
    pub let_in: Vec<Span>,
    /// When it ended.
    pub end: Vec<Span>,
    /// Ends in the order of time.
    ends: Vec<Span>,
    /// Most requests in the system.
    cap: usize,
}

/// Number, arrival and end of every request.
#[derive(Default)]
struct Every(Vec<(u64, Span, Span)>);

impl Tap for Every {
    fn ended(&mut self, request: &Ended) {
        self.0.push((request.number, request.arrival, request.end));
    }
}

impl Times {
    /// Request `n` is let in when it arrives, or when all but `cap - 1` of those before it have ended.
    fn of(mut all: Vec<(u64, Span, Span)>, cap: usize) -> Times {
        all.sort_unstable_by_key(|r| r.0);
        let end: Vec<Span> = all.iter().map(|r| r.2).collect();
        let mut ends = end.clone();
        ends.sort_unstable();
        let let_in = all.iter().enumerate().map(|(n, r)| match n.checked_sub(cap) {
            Some(before) => r.1.longer(ends[before]),
            None => r.1,
        });
        Times { let_in: let_in.collect(), end, ends, cap }
    }

    /// The first request that counts.
    pub fn first(&self) -> usize {
        self.end.len() / 3
    }

    /// From being let in to the end, of the requests that count.
    pub fn responses(&self) -> Vec<Span> {
        (self.first()..self.end.len()).map(|n| self.end[n] - self.let_in[n]).collect()
    }

    /// Mean response in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let responses = self.responses();
        let total: u128 = responses.iter().map(|r| u128::from(r.0)).sum();
        total as f64 / responses.len().max(1) as f64 / 1e6
    }

    /// Requests that end in a second, until no more arrive.
    pub fn per_second(&self) -> f64 {
        let first = self.first();
        let last = self.ends.len().saturating_sub(self.cap + 1).max(first + 1).min(self.ends.len() - 1);
        (last - first) as f64 * 1e9 / (self.ends[last] - self.ends[first]).0.max(1) as f64
    }

    /// Length of the whole run in seconds.
    pub fn seconds(&self) -> f64 {
        self.ends.last().map_or(0.0, |end| end.0 as f64 / 1e9)
    }
}

impl Runner<'_> {
    /// Runs every setup on the same requests, with at most `cap` in the system.
    pub fn watch(&self, setups: &[Setup], load: &Load, cap: u32) -> Result<Runs, Failure> {
        Ok(self.watch_all(&[Watch::plain(setups.into(), load.clone(), cap)])?.remove(0))
    }

    /// The same for several loads, all of whose runs wait in one line for the threads.
    pub fn watch_all(&self, all: &[Watch<'_>]) -> Result<Vec<Runs>, Failure> {
        let mut plans = Vec::new();
        for watch in all {
            plans.extend(self.plan_watch(watch)?.into_iter().map(|plan| (watch, plan)));
        }
        let bar = self.console.runs(plans.iter().map(|(_, plan)| plan.length()));
        let watched = parallel::map(&plans, self.jobs, |(watch, plan)| {
            let label = plan.opened.label.as_str();
            let look = Look { samples: watch.sampled.contains(&label), ..Look::default() };
            let seen = run_tapped(&plan.opened.stack, &plan.options, Every::default(), look, bar.follow());
            match seen {
                Ok(seen) => Ok((label.to_string(), Watched::of(seen, watch.cap))),
                Err(error) => Err(Failure::from(error).at(label)),
            }
        });
        bar.clear();
        let mut watched = watched.into_iter();
        all.iter().map(|watch| watched.by_ref().take(watch.setups.len()).collect()).collect()
    }

    /// One plan for each setup.
    fn plan_watch(&self, watch: &Watch<'_>) -> Result<Vec<Plan>, Failure> {
        let mut plans = self.plan(self.open(&watch.setups)?, &watch.load, Some(watch.cap))?;
        if let Some(plan) = plans.iter().find(|p| p.requests() < LEAST) {
            let (name, requests) = (watch.load.name, plan.requests());
            return Err(Failure::input(format!(
                "{name} has {requests} requests; an experiment needs {LEAST}"
            )));
        }
        let Some(times) = watch.at else { return Ok(plans) };
        for workload in plans.iter_mut().flat_map(|p| &mut p.options.workloads) {
            let trace = workload.trace.held_mut();
            for (record, time) in trace.records.iter_mut().zip(times) {
                *record = record.at(time.0).map_err(|e| Failure::input(e.to_string()))?;
            }
        }
        Ok(plans)
    }
}

/// Requests below which a run is too short to leave a third out.
const LEAST: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_off_where_it_is_asked_for_and_nothing_else_changes() {
        let text = include_str!("../../experiments/01-hetero-mirroring/hdd-1.toml");
        let setup = |label: &str| Setup { label: label.into(), text, set: Vec::new() };
        let load = Load::plain("small-files").with("space", "900 MiB");
        let plain = || Watch::plain(vec![setup("one"), setup("other")], load.clone(), 8);
        let all = [Watch { sampled: &["one"], ..plain() }, plain()];
        let runs = Runner::small(300).watch_all(&all).expect("the stack is well formed");
        let is_sampled = |runs: &Runs, label: &str| !runs[label].samples.times.is_empty();
        let seen = runs.iter().map(|r| ["one", "other"].map(|label| is_sampled(r, label)));
        assert_eq!(seen.collect::<Vec<_>>(), [[true, false], [false, false]]);
        for label in ["one", "other"] {
            assert_eq!(runs[0][label].times.end, runs[1][label].times.end);
        }
    }

    /// A line of one server: who is let in waits for those before, whatever the cap lets in.
    #[test]
    fn a_request_is_let_in_when_one_of_cap_has_ended() {
        for cap in [1, 2, 5] {
            let (mut ends, mut all): (Vec<Span>, Vec<_>) = (Vec::new(), Vec::new());
            for n in 0..40u64 {
                let arrival = Span(n * 7 / 3);
                let from = arrival.longer(ends.last().copied().unwrap_or(Span::ZERO));
                ends.push(from + Span(3 + n % 4));
                all.push((n, arrival, ends[n as usize]));
            }
            all.reverse();
            let times = Times::of(all, cap);
            for n in 0..40 {
                let inside = (0..n).filter(|&m| times.end[m] > times.let_in[n]).count();
                assert!(inside < cap, "cap {cap}: {inside} are in the system when {n} comes");
                let arrival = Span(n as u64 * 7 / 3);
                let waited = times.let_in[n] > arrival;
                let before = (0..n).filter(|&m| times.end[m] >= times.let_in[n]).count();
                assert!(!waited || before >= cap, "cap {cap}: {n} waits for nobody");
            }
        }
    }
}
