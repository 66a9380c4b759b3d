//! Single requests explained: the slowest of a run with where their time went, a log of all, and a picture of what the
//! lanes of the devices did around one of them.
//!
//! [`log`] writes the log, [`timeline`] the picture. All of it is the run itself, looked at more closely: the figures are
//! those of a run without.

pub mod log;
pub mod timeline;

use crate::args::ExplainArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{count, size, time, words};
use crate::plan::Plan;
use crate::table::Table;
use crate::verdict::{self, Row};
use log::Log;
use nandu_base::{Phase, Span};
use nandu_sim::RunResult;
use nandu_sim::samples::Samples;
use nandu_sim::tap::{DeviceLanes, Ended, Look, Seen, Slowest, Tap, run_tapped};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use timeline::Picture;

/// Least time that is shown before and after the slowest request.
const MARGIN_MIN: Span = Span(100_000);

/// What a closer look found.
pub struct Explained {
    /// The run as others have it.
    pub rows: Vec<Row>,
    /// The slowest requests, the slowest first.
    pub slowest: Vec<Ended>,
}

/// A run with its slowest requests as JSON.
#[derive(Serialize)]
pub struct WithSlowest<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    slowest: Vec<SlowRequest>,
}

/// A request as JSON.
#[derive(Serialize)]
struct SlowRequest {
    request: u64,
    op: &'static str,
    offset: u64,
    bytes: u64,
    arrival_ns: u64,
    latency_ns: u64,
    failed: bool,
    path_ns: BTreeMap<&'static str, u64>,
}

impl<'a> WithSlowest<'a> {
    /// The record of `result` and `slowest`.
    pub fn of(result: &'a RunResult, slowest: &[Ended]) -> WithSlowest<'a> {
        let slow = slowest.iter().map(|r| SlowRequest {
            request: r.number,
            op: r.op.name(),
            offset: r.offset.0,
            bytes: r.len.0,
            arrival_ns: r.arrival.0,
            latency_ns: r.latency().0,
            failed: r.failed,
            path_ns: Phase::ALL
                .into_iter()
                .map(|p| (p.name(), r.path.get(p).0))
                .filter(|&(_, ns)| ns > 0)
                .collect(),
        });
        WithSlowest { result, slowest: slow.collect() }
    }
}

/// The taps of one run.
struct Taps<'a> {
    slowest: Slowest,
    log: Option<Log<'a>>,
    picture: Option<Picture>,
}

impl Tap for Taps<'_> {
    fn ended(&mut self, request: &Ended) {
        self.slowest.ended(request);
        if let Some(log) = &mut self.log {
            log.write(request);
        }
        if let Some(picture) = &mut self.picture {
            picture.ended(request);
        }
    }
}

/// Whether `args` ask for a closer look.
pub fn is_wanted(args: &ExplainArgs) -> bool {
    args.slowest.is_some() || args.request_log.is_some() || args.timeline.is_some()
}

/// The files that `args` ask for.
pub fn outputs(args: &ExplainArgs) -> Vec<(&Path, Kind)> {
    let log = args.request_log.iter().map(|path| (path.as_path(), Kind::RequestLog));
    log.chain(args.timeline.iter().map(|path| (path.as_path(), Kind::Timeline))).collect()
}

/// Runs `plan` and looks closely; `sampled` says that a report will show the run over time.
pub fn explain(
    plan: &mut Plan,
    args: &ExplainArgs,
    sampled: bool,
    console: Console,
) -> Result<Explained, Failure> {
    if plan.options.extension.most > 0 {
        let turns = turns(plan, console)?;
        (plan.options.extension.least, plan.options.extension.most) = (turns, turns);
    }
    let (plan, turn) = (&*plan, plan.options.extension.most);
    let window = match (&args.timeline, args.window) {
        (Some(_), None) => Some(around_the_slowest(plan, turn, console)?),
        (Some(_), given) => given,
        (None, _) => None,
    };
    let done = match &args.request_log {
        Some(path) => {
            files::write_file(path, |out| run(plan, args, (window, turn), Some(out), sampled, console))?
        }
        None => run(plan, args, (window, turn), None, sampled, console)?,
    };
    if let Some(path) = &args.request_log {
        console.note(format!("requests written to {}", path.display()));
    }
    if let (Some(path), Some(picture)) = (&args.timeline, &done.picture) {
        files::write_file(path, |out| {
            picture.write(&done.devices, out).map_err(|e| Failure::unwritable(path, &e))
        })?;
        tell(picture, &done.devices, path, console);
    }
    let mut rows = verdict::rows(vec![(plan.opened.label.clone(), done.result)]);
    rows[0].samples = done.samples;
    Ok(Explained { rows, slowest: done.slowest.into_sorted() })
}

/// How many further turns of the load of `plan` it takes to be steady: requests of the last one are looked at.
fn turns(plan: &Plan, console: Console) -> Result<u32, Failure> {
    let bar = console
        .bar(plan.length().amount(), &format!("{}, to find when the stack is steady", plan.length().unit()));
    let result = nandu_sim::run(&plan.opened.stack, &plan.options, bar.follow());
    bar.clear();
    Ok(result?.extended)
}

/// The window in which the slowest request was under way, with a quarter of its latency before and after.
fn around_the_slowest(plan: &Plan, turn: u32, console: Console) -> Result<(Span, Span), Failure> {
    let bar = console.bar(plan.length().amount(), &format!("{}, to find the slowest", plan.length().unit()));
    let (stack, options) = (&plan.opened.stack, &plan.options);
    let done = run_tapped(stack, options, Slowest::new(1), Look { turn, ..Look::default() }, bar.follow());
    bar.clear();
    let slowest = done?.tap.into_sorted();
    let request =
        slowest.first().ok_or_else(|| Failure::input("no request counts: the warm-up takes all"))?;
    let margin = Span(request.latency().0 / 4).longer(MARGIN_MIN);
    Ok((Span(request.arrival.0.saturating_sub(margin.0)), request.end + margin))
}

/// A run that was looked at.
struct Done {
    result: RunResult,
    slowest: Slowest,
    picture: Option<Picture>,
    devices: Vec<DeviceLanes>,
    samples: Samples,
}

fn run(
    plan: &Plan,
    args: &ExplainArgs,
    (window, turn): (Option<(Span, Span)>, u32),
    out: Option<&mut (dyn Write + Send)>,
    sampled: bool,
    console: Console,
) -> Result<Done, Failure> {
    let exports = plan.options.workloads.iter().map(|w| plan.opened.stack.exports[w.export].name.clone());
    let taps = Taps {
        slowest: Slowest::new(args.slowest.unwrap_or(0) as usize),
        log: out.map(|out| Log::new(out, exports.collect())),
        picture: window.map(|(from, to)| Picture::new(from, to)),
    };
    let bar = console.runs([plan.length()]);
    let look = Look { lanes: window, samples: sampled, turn };
    let done = run_tapped(&plan.opened.stack, &plan.options, taps, look, bar.follow());
    bar.clear();
    let Seen { result, tap, lanes, samples, .. } = done?;
    if let Some(picture) = &tap.picture
        && picture.window().0 > picture.last_end()
    {
        let ((from, to), end) = (picture.window(), picture.last_end());
        return Err(Failure::input(format!(
            "--window {from}..{to}: nothing is there, the last request ends at {end}"
        )));
    }
    if let (Some(log), Some(path)) = (tap.log, &args.request_log) {
        log.end().map_err(|e| Failure::unwritable(path, &e))?;
    }
    Ok(Done { result, slowest: tap.slowest, picture: tap.picture, devices: lanes, samples })
}

fn tell(picture: &Picture, devices: &[DeviceLanes], path: &Path, console: Console) {
    let (from, to) = picture.window();
    let spans: usize = devices.iter().map(|d| d.spans.len()).sum();
    console.note(format!(
        "lanes from {} to {} written to {} ({} spans, {} requests); ui.perfetto.dev and chrome://tracing open it",
        time(from.0),
        time(to.0),
        path.display(),
        count(spans as u64),
        count(picture.requests() as u64)
    ));
    let lost: u64 = devices.iter().map(|d| d.lost).sum::<u64>() + picture.lost();
    if lost > 0 {
        console.warning(format!("{} more did not fit: choose a shorter --window", count(lost)));
    }
}

/// The slowest requests as a table: one column for each phase that occurs.
pub fn table(slowest: &[Ended]) -> Table {
    let occurs = |phase: &Phase| slowest.iter().any(|r| r.path.get(*phase).0 > 0);
    let phases: Vec<Phase> = Phase::ALL.into_iter().filter(occurs).collect();
    let names: Vec<String> = phases.iter().map(|p| words(p.name())).collect();
    let heads = ["<slowest", "request", "arrived", "offset", "size", "latency"];
    let mut table = Table::new(heads.into_iter().chain(names.iter().map(String::as_str)));
    for r in slowest {
        let op = if r.failed { format!("{}, FAILED", r.op.name()) } else { r.op.name().into() };
        let facts = [op, count(r.number), time(r.arrival.0), r.offset.0.to_string(), size(r.len.0)];
        let path = phases.iter().map(|&p| match r.path.get(p).0 {
            0 => "-".into(),
            ns => time(ns),
        });
        table.row(facts.into_iter().chain([time(r.latency().0)]).chain(path));
    }
    table
}
