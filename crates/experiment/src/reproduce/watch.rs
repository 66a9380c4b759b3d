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
use nandu_sim::tap::{Ended, Look, Tap, run_tapped};
use std::collections::BTreeMap;

/// A run of one setup.
pub struct Watched {
    /// Its figures; nothing is left out as warm-up.
    pub result: RunResult,
    /// When each request came and went.
    pub times: Times,
    /// The machines over the run.
    pub samples: Samples,
    /// When the replay began, after the stack was open.
    pub start: Instant,
}

/// Runs by the label of their setup.
pub type Runs = BTreeMap<String, Watched>;

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
        self.watch_plans(self.open_plans(setups, load, cap)?, cap)
    }

    /// As [`Runner::watch`], with each request at a given time of the machines' clock and as many in the system as there
    /// are. The stacks must be open at once: theirs is the clock of the replay.
    pub fn watch_at(&self, setups: &[Setup], load: &Load, times: &[Span]) -> Result<Runs, Failure> {
        let all = u32::try_from(times.len()).unwrap_or(u32::MAX);
        let mut plans = self.open_plans(setups, load, all)?;
        for workload in plans.iter_mut().flat_map(|p| &mut p.options.workloads) {
            let trace = workload.trace.held_mut();
            for (record, time) in trace.records.iter_mut().zip(times) {
                *record = record.at(time.0).map_err(|e| Failure::input(e.to_string()))?;
            }
        }
        self.watch_plans(plans, all)
    }

    fn open_plans(&self, setups: &[Setup], load: &Load, cap: u32) -> Result<Vec<Plan>, Failure> {
        let stacks = self.open(setups)?;
        let plans = self.plan(stacks, load, Some(cap))?;
        match plans.iter().find(|p| p.requests() < LEAST) {
            Some(plan) => Err(Failure::input(format!(
                "{} has {} requests; an experiment needs {LEAST}",
                load.name,
                plan.requests()
            ))),
            None => Ok(plans),
        }
    }

    fn watch_plans(&self, plans: Vec<Plan>, cap: u32) -> Result<Runs, Failure> {
        let bar = self.console.runs(plans.iter().map(Plan::length));
        let runs = parallel::map(&plans, self.jobs, |plan| {
            let look = Look { samples: true, ..Look::default() };
            let seen = run_tapped(&plan.opened.stack, &plan.options, Every::default(), look, bar.follow());
            let label = plan.opened.label.clone();
            let seen = seen.map_err(|error| Failure::from(error).at(&label))?;
            let times = Times::of(seen.tap.0, cap as usize);
            Ok((label, Watched { result: seen.result, times, samples: seen.samples, start: seen.start }))
        });
        bar.clear();
        runs.into_iter().collect()
    }
}

/// Requests below which a run is too short to leave a third out.
const LEAST: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

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
