//! One run from start to end: build, open, replay, measure.

use crate::charges::check_charges;
use crate::engine::{Engine, build};
use crate::metrics::Metrics;
use crate::replay::{CAP_DEFAULT, Extension, Go, Host, Length, Pace, Progress, Source, replay};
use crate::result::{Provenance, RunResult, WorkloadProvenance, change_result, result};
use nandu_base::{Content, Instant, OpenError, OpenOptions, Precondition, Ratio};
use nandu_stack::{BuildOptions, Stack, StackError};
use nandu_trace::{Arrival, Requests};

/// A workload for one export of the stack.
#[derive(Clone)]
pub struct RunWorkload {
    /// Place of the export in [`Stack::exports`].
    pub export: usize,
    /// The requests, fitted to the export.
    pub trace: Requests,
    /// SHA-256 of the trace before it was fitted.
    pub trace_hash: String,
    /// How it was fitted, in words.
    pub fit: String,
    /// When requests arrive; `None` takes the recorded times, or one request at a time where the trace has none.
    pub pace: Option<Pace>,
    /// How often it is replayed, at least once.
    pub passes: u32,
    /// Requests of it at the start that do not count. What the devices do counts from the first request of any workload that does.
    pub warm_up: u64,
}

/// What to run.
#[derive(Clone)]
pub struct RunOptions {
    /// The workloads.
    pub workloads: Vec<RunWorkload>,
    /// The seed.
    pub seed: u64,
    /// The state of every drive when the run begins.
    pub precondition: Precondition,
    /// Requests at the start that do not count, of all workloads together; none of them need be a workload's own warm-up.
    pub warm_up: u64,
    /// How often the load begins again where the stack was not steady. A stack whose tenants change meanwhile is not extended.
    pub extension: Extension,
    /// Path or name of the stack, for the result.
    pub stack_name: String,
}

/// Why a run did not take place.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The stack cannot be built.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The stack cannot start.
    #[error("device `{device}` cannot start: {error}")]
    Open {
        /// The device.
        device: String,
        /// Why.
        error: OpenError,
    },
    /// A workload ends by time, and before that the warm-up had not.
    #[error("a warm-up of {warm_up} requests leaves nothing to measure: the run was over after {issued}")]
    NothingCounts {
        /// Requests that were not to count.
        warm_up: u64,
        /// Requests that there were.
        issued: u64,
    },
    /// Whoever started it has called it off.
    #[error("the run was called off")]
    Stopped,
}

impl RunWorkload {
    /// The pace this workload is replayed at.
    pub fn pace(&self) -> Pace {
        let recorded = match self.trace.meta().arrival {
            Arrival::Timestamps => Pace::Open { time_scale: Ratio::new(1, 1), cap: CAP_DEFAULT },
            Arrival::GapAfterCompletion | Arrival::OrderOnly => Pace::Closed { outstanding: 1 },
        };
        self.pace.unwrap_or(recorded)
    }

    /// How requests arrive, as results say it.
    pub fn pace_in_words(&self) -> String {
        match self.pace() {
            Pace::Open { time_scale, .. } if time_scale.num == time_scale.den => {
                "open loop, recorded times".into()
            }
            Pace::Open { time_scale: Ratio { num, den: 1 }, .. } => format!("open loop, times x {num}"),
            Pace::Open { time_scale: Ratio { num, den }, .. } => {
                let common = (1..=num.min(den).min(1 << 16))
                    .rev()
                    .find(|&n| num.is_multiple_of(n) && den.is_multiple_of(n));
                let by = common.unwrap_or(1);
                format!("open loop, times x {}/{}", num / by, den / by)
            }
            Pace::Closed { outstanding } => format!("closed loop, {outstanding} outstanding"),
            Pace::ClosedFor { outstanding, runtime } => {
                format!("closed loop, {outstanding} outstanding, for {runtime}")
            }
            Pace::Rate { interval, .. } => format!("one request every {interval}"),
        }
    }

    /// `passes` is how often its requests were sent in.
    fn provenance(&self, stack: &Stack, passes: u32) -> WorkloadProvenance {
        let meta = self.trace.meta();
        WorkloadProvenance {
            export: stack.exports[self.export].name.clone(),
            source: meta.source.clone(),
            format: meta.format.clone(),
            origin: meta.origin.name().into(),
            trace_hash: self.trace_hash.clone(),
            fit: self.fit.clone(),
            arrival: self.pace_in_words(),
            passes,
            runtime_ns: match self.pace() {
                Pace::ClosedFor { runtime, .. } => Some(runtime.0),
                _ => None,
            },
            notes: meta.remarks().into_iter().map(|(text, _)| text).collect(),
        }
    }
}

/// The name of a precondition in results.
pub fn precondition_name(precondition: Precondition) -> String {
    match precondition {
        Precondition::Empty => "empty".into(),
        Precondition::Filled => "filled".into(),
        Precondition::Fragmented(Ratio { num, den }) => format!("fragmented:{num}/{den}"),
        Precondition::Aged => "aged".into(),
    }
}

/// How long one turn of the load of `options` is.
pub fn length(options: &RunOptions) -> Length {
    Length::of(options.workloads.iter().map(|w| (w.trace.len() * u64::from(w.passes), w.pace())))
}

/// Runs `stack` without content: the plain simulation.
pub fn run<R: Into<Go>>(
    stack: &Stack,
    options: &RunOptions,
    progress: impl FnMut(Progress) -> R,
) -> Result<RunResult, RunError> {
    let tenants = stack.tenants.len() + 1;
    let workloads = options.workloads.len();
    run_with(
        stack,
        options,
        Content::Nothing,
        |start| Metrics::new(tenants, workloads, start),
        |m| m,
        progress,
    )
    .map(|(result, _)| result)
}

/// Runs `stack` with a host of the caller's making; `metrics` finds the figures in it. Returns the host too.
pub fn run_with<H: Host, R: Into<Go>>(
    stack: &Stack,
    options: &RunOptions,
    content: Content,
    host: impl FnOnce(Instant) -> H,
    metrics: impl Fn(&H) -> &Metrics,
    progress: impl FnMut(Progress) -> R,
) -> Result<(RunResult, H), RunError> {
    let build_options =
        BuildOptions { seed: options.seed, precondition: options.precondition, ..BuildOptions::default() };
    let (built, media) = build(stack, &build_options, content)?;
    let mut engine = Engine::new(built, media, content, host(Instant::ZERO), Instant::ZERO);
    let roots: Vec<u32> = stack.exports.iter().map(|e| e.node).collect();
    let how = OpenOptions { create: true, alone: false, assume_clean: true, salvage: false };
    engine.open(how, &roots).map_err(|(node, error)| RunError::Open {
        device: stack.devices[node as usize].name.clone(),
        error,
    })?;
    let start = engine.now();
    engine.graph.reset_counters();
    engine.sink().begin(0, start);
    if let Some((from, to)) = engine.sink().watch() {
        engine.graph.watch_lanes(start + from, start + to);
    }
    let sources: Vec<Source> = options
        .workloads
        .iter()
        .map(|w| Source {
            trace: w.trace.clone(),
            passes: w.passes,
            pace: w.pace(),
            warm_up: w.warm_up,
            node: stack.exports[w.export].node,
            tenant: stack.exports[w.export].tenant,
        })
        .collect();
    engine.plan_changes(&stack.changes);
    let extension = if stack.changes.is_empty() { &options.extension } else { &Extension::NONE };
    let outcome = replay(&mut engine, &sources, options.warm_up, extension, progress);
    if outcome.stopped {
        return Err(RunError::Stopped);
    }
    let warm_up = options.warm_up + options.workloads.iter().map(|w| w.warm_up).sum::<u64>();
    if !outcome.begun && outcome.issued > 0 {
        return Err(RunError::NothingCounts { warm_up, issued: outcome.issued });
    }
    if content == Content::Stamps {
        let checked = engine.graph.check().and_then(|()| check_charges(&mut engine.graph));
        engine.sink().checked(checked);
    }
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").into(),
        stack: options.stack_name.clone(),
        stack_hash: stack.hash_long().into(),
        workloads: options
            .workloads
            .iter()
            .zip(&outcome.passes)
            .map(|(w, &n)| w.provenance(stack, n))
            .collect(),
        precondition: precondition_name(options.precondition),
        seed: options.seed,
        warmup_requests: warm_up,
        verified: content == Content::Stamps,
        reads_checked: 0,
    };
    let changes =
        engine.changes().iter().map(|(change, outcome)| change_result(change, outcome, start)).collect();
    let owners: Vec<usize> =
        options.workloads.iter().map(|w| usize::from(stack.exports[w.export].tenant.0)).collect();
    let (graph, sink) = engine.graph_and_sink();
    let result = RunResult { changes, ..result(graph, stack, metrics(sink), &outcome, provenance, &owners) };
    sink.watched(graph);
    let (_, host) = engine.into_parts();
    Ok((result, host))
}
