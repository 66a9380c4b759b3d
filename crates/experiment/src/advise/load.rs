//! What runs on every variant: a trace by itself, or the traces of several tenants at the same time; whole, and in parts of it.

use crate::plan::{Common, Made, extended, requests_of};
use nandu_base::Span;
use nandu_sim::replay::{Length, Renew};
use nandu_sim::run::length;
use nandu_sim::{Extension, Pace, RunOptions, RunWorkload};
use nandu_sweep::id::Shared;
use nandu_sweep::racing::PARTS;
use nandu_trace::Requests;

/// What runs at the same time.
pub struct Load {
    /// In words.
    pub name: String,
    /// By place in [`PARTS`]: what runs, and what names its runs.
    pub parts: Vec<(RunOptions, Shared)>,
}

impl Load {
    /// The workloads of `made`, each of which names its export; several are as long as [`lengths`] has them.
    pub fn of(made: Vec<Made>, common: Common, extend: Option<u32>) -> Load {
        let name = |m: &Made| m.workload.trace.meta().source.clone();
        let name = made.iter().map(name).collect::<Vec<_>>().join(" + ");
        let (workloads, renew): (Vec<RunWorkload>, Vec<Option<Renew>>) =
            made.into_iter().map(|made| (made.workload, made.renew)).unzip();
        let part = |&one_in: &u64| {
            let mut options = RunOptions {
                workloads: first(&workloads, one_in),
                seed: common.seed,
                precondition: common.precondition,
                warm_up: 0,
                extension: Extension { renew: renew.clone(), ..Extension::NONE },
                stack_name: "advice".into(),
            };
            if one_in == 1 {
                extended(&mut options, extend);
            }
            let shared = Shared::of(&options);
            (options, shared)
        };
        Load { name, parts: PARTS.iter().map(part).collect() }
    }

    /// All of it.
    pub fn whole(&self) -> &RunOptions {
        &self.parts[PARTS.len() - 1].0
    }

    /// How long all of it is.
    pub fn length(&self) -> Length {
        length(self.whole())
    }

    /// Requests of all of it.
    pub fn requests(&self) -> u64 {
        self.whole().workloads.iter().map(requests_of).sum()
    }

    /// Its first half; its second half after the first; and all of it with another seed. Where a runtime ends it, `sent` counts how many
    /// requests a run of it sends: half of them are the first half.
    pub fn ways<E>(&self, sent: impl FnOnce(&RunOptions) -> Result<u64, E>) -> Result<[RunOptions; 3], E> {
        let options = self.whole();
        let first = first(&options.workloads, 2);
        let plain = RunOptions { extension: Extension::NONE, ..options.clone() };
        let half = match options.workloads.iter().any(|w| runtime(w).is_some()) {
            true => sent(&plain)? / 2,
            false => first.iter().map(requests_of).sum(),
        };
        Ok([
            RunOptions { workloads: first, ..plain.clone() },
            RunOptions { warm_up: half, ..plain },
            RunOptions { seed: options.seed.wrapping_add(1), ..options.clone() },
        ])
    }

    /// Requests in the busiest of a hundred equal stretches over the mean, in thousandths; 0 where the stack sets the pace.
    pub fn burstiness(&self) -> u64 {
        let workloads = &self.whole().workloads;
        let span = workloads.iter().map(|w| w.trace.span().0).max().unwrap_or(0);
        if span == 0 || workloads.iter().any(|w| w.pace().is_closed()) {
            return 0;
        }
        let mut stretches = [0u64; 100];
        for record in workloads.iter().flat_map(|w| w.trace.iter()) {
            let place = u128::from(record.time().0) * 100 / (u128::from(span) + 1);
            stretches[(place as usize).min(99)] += 1;
        }
        stretches.into_iter().max().unwrap_or(0) * 100_000 / self.requests().max(1)
    }
}

/// Requests of each of several workloads that begin together, until the first of them ends. What has no arrival times is not cut.
pub fn lengths(workloads: &[&RunWorkload]) -> Vec<u64> {
    let timed = workloads.iter().filter(|w| !w.pace().is_closed());
    let ends = timed.map(|w| w.trace.span().0).min().unwrap_or(0);
    workloads
        .iter()
        .map(|w| if w.pace().is_closed() { w.trace.len() } else { until(&w.trace, ends) })
        .collect()
}

/// What ends a workload, where it is a time and not a number of requests.
fn runtime(workload: &RunWorkload) -> Option<(u32, Span)> {
    match workload.pace() {
        Pace::ClosedFor { outstanding, runtime } => Some((outstanding, runtime)),
        _ => None,
    }
}

/// One in `one_in`: of the time of several workloads, so that they stay together, and of the requests of one alone, or of one without times.
/// One that a runtime ends has that part of its runtime: fewer of its requests would be sent all the more often.
fn first(workloads: &[RunWorkload], one_in: u64) -> Vec<RunWorkload> {
    let span =
        workloads.iter().filter(|w| !w.pace().is_closed()).map(|w| w.trace.span().0).max().unwrap_or(0);
    let part = |workload: &RunWorkload| {
        if let Some((outstanding, runtime)) = runtime(workload) {
            let pace = Some(Pace::ClosedFor { outstanding, runtime: Span((runtime.0 / one_in).max(1)) });
            return RunWorkload { pace, ..workload.clone() };
        }
        let some = match one_in > 1 && workloads.len() > 1 && !workload.pace().is_closed() {
            true => until(&workload.trace, span / one_in),
            false => workload.trace.len() / one_in,
        };
        RunWorkload { trace: workload.trace.first(some.max(1)), ..workload.clone() }
    };
    workloads.iter().map(part).collect()
}

/// Requests that arrive by `ends`.
fn until(trace: &Requests, ends: u64) -> u64 {
    match trace.span().0 <= ends {
        true => trace.len(),
        false => trace.iter().take_while(|record| record.time().0 <= ends).count() as u64,
    }
}
