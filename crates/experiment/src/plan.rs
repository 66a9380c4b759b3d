//! From arguments and stack files to runs: which requests go to which export, fitted, with their pace.

use crate::console::Console;
use crate::failure::Failure;
use crate::format::count;
use crate::open::{Opened, capacity};
use crate::replay::{self, Load, Replay, columns_beside};
use crate::source::{self, GenSetting, Wanted, WarmUp};
use nandu_base::{ByteLen, Precondition, Ratio, Registry, Span};
use nandu_sim::replay::{CAP_DEFAULT, Length, Renew};
use nandu_sim::run::length;
use nandu_sim::{Extension, Pace, RunOptions, RunWorkload};
use nandu_stack::Built;
use nandu_stack::load::WorkloadTable;
use nandu_trace::Requests;
use nandu_trace::fit::{Fit, FitError, FitReport};
use nandu_trace::synth::{self, Synth};
use std::sync::{Arc, Mutex};

/// A run that is ready to go.
pub struct Plan {
    /// The stack.
    pub opened: Opened,
    /// What to replay on it.
    pub options: RunOptions,
}

impl Plan {
    /// Requests of the run, all passes counted.
    pub fn requests(&self) -> u64 {
        self.options.workloads.iter().map(requests_of).sum()
    }

    /// How long one turn of its load is.
    pub fn length(&self) -> Length {
        length(&self.options)
    }
}

/// A workload, and how its requests are made anew; recordings cannot be.
pub struct Made {
    /// The workload, for export 0.
    pub workload: RunWorkload,
    /// Makes the requests of a further turn.
    pub renew: Option<Renew>,
}

/// Turns that a generated load takes at most when nothing is said.
const TURNS: u32 = 8;
/// Requests that they may come to.
const TURNS_REQUESTS: u64 = 20_000_000;

/// How often the load of `options` may begin again: as often as was `asked`, else as a generated load does.
pub fn extended(options: &mut RunOptions, asked: Option<u32>) {
    let requests: u64 = options.workloads.iter().map(requests_of).sum();
    let all = options.workloads.len() == options.extension.renew.len();
    let generated = all && options.extension.renew.iter().all(Option::is_some);
    let most = match u32::try_from(TURNS_REQUESTS / requests.max(1)) {
        _ if !generated => 0,
        Ok(turns) => turns.saturating_sub(1).min(TURNS),
        Err(_) => TURNS,
    };
    options.extension.most = asked.unwrap_or(most);
}

/// Requests of a workload, all passes counted.
pub fn requests_of(workload: &RunWorkload) -> u64 {
    workload.trace.len() * u64::from(workload.passes)
}

/// What all runs of a command share.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    /// The seed.
    pub seed: u64,
    /// The state of every drive.
    pub precondition: Precondition,
    /// What stacks and traces may name.
    pub registry: &'a Registry,
    /// Where remarks go.
    pub console: Console<'a>,
}

/// Plans one run for each stack. All replay the same requests when `load` names a trace: it is read once and fitted once,
/// to the smallest export. Otherwise each stack replays its own workloads.
pub fn plan(stacks: Vec<Opened>, load: &Replay, common: Common) -> Result<Vec<Plan>, Failure> {
    load.notes.iter().for_each(|note| common.console.note(note));
    let plans: Vec<Plan> = match &load.trace {
        Some(trace) => with_trace(stacks, trace, load, common)?,
        None => stacks.into_iter().map(|s| with_own_workloads(s, load, common)).collect::<Result<_, _>>()?,
    };
    for plan in &plans {
        own_warm_ups(plan)?;
        let (warm_up, total) = (plan.options.warm_up, plan.requests());
        if warm_up >= total {
            let message =
                format!("a warm-up of {warm_up} requests leaves nothing to measure: there are {total}");
            return Err(Failure::input(message));
        }
    }
    Ok(plans)
}

/// Each workload must have something left to measure.
fn own_warm_ups(plan: &Plan) -> Result<(), Failure> {
    let names = &plan.opened.stack.workloads;
    for (workload, name) in plan.options.workloads.iter().zip(names) {
        let (warm_up, total) = (workload.warm_up, requests_of(workload));
        if warm_up >= total {
            return Err(Failure::input(format!(
                "[workload.{}]: warmup_ios = {warm_up} leaves nothing to measure: it has {total} requests",
                name.name
            )));
        }
    }
    Ok(())
}

fn with_trace(
    stacks: Vec<Opened>,
    trace: &Load,
    load: &Replay,
    common: Common,
) -> Result<Vec<Plan>, Failure> {
    let made = on_each(&stacks, trace, load, common)?;
    let plan = |(opened, made): (Opened, Made)| {
        let warm_up = warm_up(load, &made.workload)?;
        Ok(Plan { options: options(&opened, vec![made], warm_up, common), opened })
    };
    stacks.into_iter().zip(made).map(plan).collect()
}

/// Requests of `workload`, the only one, that do not count.
///
/// # Errors
/// They are a share of a number that nobody knows before the run.
pub fn warm_up(load: &Replay, workload: &RunWorkload) -> Result<u64, Failure> {
    let Some(warm_up) = load.warm_up else { return Ok(0) };
    match (warm_up, workload.pace) {
        (WarmUp::Share(_), Some(Pace::ClosedFor { runtime, .. })) => Err(Failure::input(format!(
            "--warmup as a share: {} runs for {runtime}, so nobody knows how many requests it will send",
            workload.trace.meta().source
        ))
        .with_help("give a number of requests")),
        _ => Ok(warm_up.requests(requests_of(workload))),
    }
}

/// Plans one run for each stack, of several workloads at once: each of `loads` has its requests and its export. All stacks replay the
/// same requests, and every request counts.
pub fn together(stacks: Vec<Opened>, loads: &[(Load, Replay)], common: Common) -> Result<Vec<Plan>, Failure> {
    let mut workloads: Vec<Vec<Made>> = stacks.iter().map(|_| Vec::new()).collect();
    for (place, (trace, load)) in (0u64..).zip(loads) {
        // With one seed, generators of the same pace would send at the same instants.
        let common = Common { seed: common.seed.wrapping_add(place), ..common };
        let laid = on_each(&stacks, trace, load, common)?;
        workloads.iter_mut().zip(laid).for_each(|(all, one)| all.push(one));
    }
    let plans = stacks.into_iter().zip(workloads);
    Ok(plans.map(|(opened, all)| Plan { options: options(&opened, all, 0, common), opened }).collect())
}

/// The requests of `trace` for each stack: read once, and fitted once, to the smallest export.
fn on_each(stacks: &[Opened], trace: &Load, load: &Replay, common: Common) -> Result<Vec<Made>, Failure> {
    let mut exports = Vec::new();
    let mut smallest: Option<(ByteLen, &str)> = None;
    for stack in stacks {
        let export = stack.export(load.export.as_deref())?;
        let room = capacity(&stack.built(common.seed)?, export);
        exports.push(export);
        if smallest.is_none_or(|(least, _)| room < least) {
            smallest = Some((room, &stack.label));
        }
    }
    let Some((room, smallest)) = smallest else { return Ok(Vec::new()) };
    let smallest = (stacks.len() > 1).then(|| smallest.to_string());
    let Made { workload, renew } = on_room(trace, load, common, room, smallest.as_deref())?;
    let on = |export| Made { workload: RunWorkload { export, ..workload.clone() }, renew: renew.clone() };
    Ok(exports.into_iter().map(on).collect())
}

/// The requests of `from` on `room` bytes, which `smallest` has when there are several stacks: for export 0.
pub fn on_room(
    from: &Load,
    load: &Replay,
    common: Common,
    room: ByteLen,
    smallest: Option<&str>,
) -> Result<Made, Failure> {
    let (trace, wanted) = match from {
        Load::Given(requests) => {
            source::remarks(requests.meta(), common.console);
            (requests.first(load.limit.unwrap_or(u64::MAX)), None)
        }
        Load::Named(name) => {
            let wanted = Wanted {
                name: name.clone(),
                settings: load.settings.clone(),
                limit: load.limit,
                format: load.trace_format.clone(),
                columns: load.columns.clone(),
                bad_lines: load.bad_lines,
                seed: common.seed,
                room: load.fit.is_none().then_some(room),
            };
            (source::requests(&wanted, common.registry, common.console)?, Some(wanted))
        }
    };
    let pace = pace(load, &trace)?;
    let how = load.fit.unwrap_or_default();
    let workload = fitted(trace, room, how, smallest, common.console)?;
    let workload = RunWorkload { pace, ..workload };
    // So many requests and no more, however long the job says it runs.
    let own = || if load.limit.is_some() { 1 } else { own_passes(&workload) };
    let passes = load.repeat.unwrap_or_else(own);
    let workload = RunWorkload { passes, ..workload };
    within_bounds(&workload)?;
    let renew = wanted.and_then(|wanted| renew(wanted, common.registry, room, how, workload.trace.len(), Ok));
    Ok(Made { workload, renew })
}

/// Requests of a turn above which no turn is kept for other runs.
const KEPT: u64 = 1 << 21;

/// Makes the requests of further turns of a generated load, each with a seed of its own; `None` for a file. What `cut` leaves of
/// them counts; `requests` is how many the load itself has.
fn renew(
    wanted: Wanted,
    registry: &Registry,
    room: ByteLen,
    how: Fit,
    requests: u64,
    cut: impl Fn(Requests) -> Result<Requests, Failure> + Send + Sync + 'static,
) -> Option<Renew> {
    let synth = source::generator(&wanted.name, registry)?;
    let kept: Mutex<Vec<(u32, Requests)>> = Mutex::default();
    Some(Arc::new(move |turn| {
        let known = || kept.lock().expect("no holder panics").iter().find(|k| k.0 == turn).cloned();
        if let Some((_, trace)) = known() {
            return Some(trace);
        }
        let seed = wanted.seed.wrapping_add(u64::from(turn) << 32);
        let console = Console::SILENT;
        let trace = source::generated(synth, &Wanted { seed, ..wanted.clone() }, console).ok()?;
        let trace = fitted(cut(trace).ok()?, room, how, None, console).ok()?.trace;
        if trace.is_empty() {
            return None;
        }
        if requests <= KEPT {
            kept.lock().expect("no holder panics").push((turn, trace.clone()));
        }
        Some(trace)
    }))
}

/// How often a trace is replayed that says so itself: until its runtime is over.
fn own_passes(workload: &RunWorkload) -> u32 {
    match workload.pace {
        Some(Pace::ClosedFor { .. }) if workload.trace.meta().asked.is_some_and(|asked| asked.again) => {
            let most = REQUESTS / workload.trace.len().max(1);
            u32::try_from(most).unwrap_or(u32::MAX)
        }
        _ => 1,
    }
}

/// Latest arrival in nanoseconds after the start: 100 years of 365.25 days. Times have 64 bits, and what a run takes is added.
const LATEST: u128 = 3_155_760_000_000_000_000;
/// Most requests of a workload: they are numbered by 48 bits.
const REQUESTS: u64 = 1 << 48;

/// How often the requests of `workload` can be repeated until the last arrives too late to be told; 0 where even one turn does.
fn repeatable(workload: &RunWorkload) -> u64 {
    let most = match workload.pace() {
        Pace::Open { time_scale, .. } => {
            let recorded = u128::from(workload.trace.span().0) + 1;
            LATEST.saturating_mul(u128::from(time_scale.den))
                / recorded.saturating_mul(u128::from(time_scale.num)).max(1)
        }
        Pace::Rate { interval, .. } => {
            LATEST / (u128::from(interval.0) * u128::from(workload.trace.len())).max(1)
        }
        Pace::Closed { .. } | Pace::ClosedFor { .. } => return u64::MAX,
    };
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// Whether the requests of `workload` can be numbered and its arrivals be told in 64 bits.
fn within_bounds(workload: &RunWorkload) -> Result<(), Failure> {
    let (each, passes) = (workload.trace.len(), u64::from(workload.passes));
    if passes > REQUESTS / each.max(1) {
        let most = (REQUESTS / each.max(1)).min(repeatable(workload));
        return Err(Failure::input(format!(
            "--repeat {passes}: {} requests each time are more than a run can number; at most --repeat {}",
            count(each),
            count(most)
        )));
    }
    let years = |ns: u128| count(u64::try_from(ns / (LATEST / 100)).unwrap_or(u64::MAX));
    match workload.pace() {
        Pace::Open { time_scale, .. } => {
            let recorded = (u128::from(workload.trace.span().0) + 1) * u128::from(passes);
            let last = recorded.saturating_mul(u128::from(time_scale.num)) / u128::from(time_scale.den);
            if last <= LATEST {
                return Ok(());
            }
            let why =
                format!("the last request would arrive after {} years, at most 100 can be told", years(last));
            let right = match (LATEST / recorded, repeatable(workload)) {
                (0, 0) => {
                    format!("a factor that is small enough is --time-scale 1/{}", recorded.div_ceil(LATEST))
                }
                (0, most) => format!("at most --repeat {most}"),
                (scale, _) => {
                    format!("the largest factor is --time-scale {scale}, or repeat the trace less often")
                }
            };
            Err(Failure::input(format!("{}: {why}; {right}", workload.trace.meta().source)))
        }
        Pace::Rate { interval, .. } => {
            let last = u128::from(interval.0) * u128::from(each * passes);
            match last <= LATEST {
                true => Ok(()),
                false => Err(Failure::input(format!(
                    "--rate-iops: the last of {} requests would arrive after {} years, at most 100 can be told; \
                     send more per second or repeat the trace less often: at most --repeat {}",
                    count(each * passes),
                    years(last),
                    repeatable(workload)
                ))),
            }
        }
        Pace::Closed { .. } | Pace::ClosedFor { .. } => Ok(()),
    }
}

/// The load does not begin again until [`extended`] says so.
fn options(opened: &Opened, made: Vec<Made>, warm_up: u64, common: Common) -> RunOptions {
    let (workloads, renew) = made.into_iter().map(|made| (made.workload, made.renew)).unzip();
    RunOptions {
        workloads,
        extension: Extension { renew, ..Extension::NONE },
        seed: common.seed,
        precondition: common.precondition,
        warm_up,
        stack_name: opened.source.clone(),
    }
}

/// Lays `trace` onto `room` bytes; `smallest` is the stack whose export that is, when there are several.
fn fitted(
    trace: Requests,
    room: ByteLen,
    how: Fit,
    smallest: Option<&str>,
    console: Console,
) -> Result<RunWorkload, Failure> {
    let (hash, source) = (trace.content_hash().to_string(), trace.meta().source.clone());
    let (trace, report) = trace.fit(room, how).map_err(|e| misfit(&source, &e, smallest))?;
    if report.clipped_requests > 0 {
        let n = crate::format::plural(report.clipped_requests, "request");
        console.note(format!("{source}: {n} cut at the end of the device"));
    }
    let fit = in_words(&report);
    Ok(RunWorkload { export: 0, trace, trace_hash: hash, fit, pace: None, passes: 1, warm_up: 0 })
}

fn in_words(report: &FitReport) -> String {
    match (report.wrapped_requests, report.clipped_requests) {
        (0, 0) => report.method.name().into(),
        (wrapped, 0) => format!("{}, {wrapped} requests wrapped", report.method.name()),
        (wrapped, cut) => format!("{}, {wrapped} requests wrapped, {cut} cut", report.method.name()),
    }
}

fn misfit(source: &str, error: &FitError, smallest: Option<&str>) -> Failure {
    // What to do is said in the words of options.
    let failure = Failure::input(format!("{source}: {}", error.what()));
    let failure = match smallest {
        Some(name) => failure
            .with_help(format!("the smallest export is that of `{name}`; all stacks get the same requests")),
        _ => failure,
    };
    match error {
        FitError::SeveralStreams { .. } => failure
            .with_help(
                "--fit concat lays the streams in a row; --fit compact keeps only touched pages; --fit wrap takes addresses modulo the capacity",
            ),
        FitError::Beyond { method: "compact", .. } | FitError::Bounds { .. } => {
            failure.with_help("--fit wrap takes addresses modulo the capacity")
        }
        FitError::Beyond { .. } => failure.with_help(
            "--fit compact keeps only touched pages; --fit wrap takes addresses modulo the capacity",
        ),
        FitError::NoCapacity { .. } => failure.with_help("give a larger device"),
    }
}

/// The pace that the options ask for; `None` is the trace's own.
fn pace(load: &Replay, trace: &Requests) -> Result<Option<Pace>, Failure> {
    let cap = load.cap.unwrap_or(CAP_DEFAULT);
    if let Some(outstanding) = load.closed {
        return Ok(Some(Pace::Closed { outstanding }));
    }
    if let Some(interval) = load.rate {
        return Ok(Some(Pace::Rate { interval, cap }));
    }
    let timed = trace.is_timed();
    match (load.time_scale, load.cap) {
        (None, None) => Ok(trace.meta().asked.map(|asked| match asked.runtime {
            _ if timed => Pace::Open { time_scale: Ratio::new(1, 1), cap: asked.outstanding },
            None => Pace::Closed { outstanding: asked.outstanding },
            Some(runtime) => Pace::ClosedFor { outstanding: asked.outstanding, runtime },
        })),
        _ if !timed => Err(Failure::input(format!(
            "{}: the trace has no arrival times, so --time-scale and --max-outstanding have nothing to act on; use --iodepth or --rate-iops",
            trace.meta().source
        ))),
        (scale, _) => Ok(Some(Pace::Open { time_scale: scale.unwrap_or(Ratio::new(1, 1)), cap })),
    }
}

/// Whether the workloads of `opened` can be made: one request of each is.
pub fn check_own(opened: &Opened, built: &Built, registry: &Registry) -> Result<(), Failure> {
    let common = Common { seed: 1, precondition: Precondition::Empty, registry, console: Console::SILENT };
    let mut problems = Vec::new();
    for workload in &opened.stack.workloads {
        let table = WorkloadTable { number_ios: Some(1), runtime: None, ..workload.table.clone() };
        let made = opened
            .export(table.export.as_deref())
            .and_then(|export| own_workload(opened, &table, capacity(built, export), common));
        if let Err(failure) = made {
            problems.push(format!("{}: [workload.{}]: {}", opened.source, workload.name, failure.message));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::input(problems.join("\n"))) }
}

/// The workloads that the stack file brings.
fn with_own_workloads(opened: Opened, load: &Replay, common: Common) -> Result<Plan, Failure> {
    if opened.stack.workloads.is_empty() {
        let message =
            format!("{}: no --trace is given and the stack file has no [workload.NAME]", opened.source);
        return Err(Failure::input(message).with_help(
            "for example --trace mixed-zipf; `nandu list generators` shows more, a trace file works too",
        ));
    }
    refuse_trace_options(load)?;
    let built = opened.built(common.seed)?;
    let (mut workloads, mut renew) = (Vec::new(), Vec::new());
    for workload in &opened.stack.workloads {
        let place =
            |f: Failure| Failure { message: format!("[workload.{}]: {}", workload.name, f.message), ..f };
        let export = opened.export(workload.table.export.as_deref())?;
        let made = own_workload(&opened, &workload.table, capacity(&built, export), common).map_err(place)?;
        // What the command line says is of all workloads together, and takes the place of their own.
        let warm_up = if load.warm_up.is_none() { workload.table.warmup_ios } else { 0 };
        let passes = load.repeat.unwrap_or_else(|| own_passes(&made.workload));
        let workload = RunWorkload { export, passes, warm_up, ..made.workload };
        within_bounds(&workload).map_err(place)?;
        workloads.push(workload);
        renew.push(made.renew);
    }
    let warm_up = match load.warm_up {
        Some(share @ WarmUp::Share(_)) => share.requests(countable(&opened, &workloads)?),
        Some(WarmUp::Requests(n)) => n,
        None => 0,
    };
    let made = workloads.into_iter().zip(renew).map(|(workload, renew)| Made { workload, renew });
    Ok(Plan { options: options(&opened, made.collect(), warm_up, common), opened })
}

/// How many requests `workloads` have, where that is known before they run.
fn countable(opened: &Opened, workloads: &[RunWorkload]) -> Result<u64, Failure> {
    let names = opened.stack.workloads.iter().map(|w| &w.name);
    match workloads.iter().zip(names).find(|(w, _)| matches!(w.pace, Some(Pace::ClosedFor { .. }))) {
        None => Ok(workloads.iter().map(requests_of).sum()),
        Some((_, name)) => Err(Failure::input(format!(
            "--warmup as a share: [workload.{name}] runs for a time, so nobody knows how many requests it will send"
        ))
        .with_help("give a number of requests, or the workload `number_ios` in place of `runtime`")),
    }
}

/// Options that say something about a trace that is not there.
fn refuse_trace_options(load: &Replay) -> Result<(), Failure> {
    let given = [
        ("--gen", !load.settings.is_empty()),
        ("--fit", load.fit.is_some()),
        ("--time-scale", load.time_scale.is_some()),
        ("--iodepth", load.closed.is_some()),
        ("--rate-iops", load.rate.is_some()),
        ("--max-outstanding", load.cap.is_some()),
        ("--limit", load.limit.is_some()),
        ("--trace-format", load.trace_format.is_some()),
        ("--columns", load.columns.is_some()),
        ("--export", load.export.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::input(format!(
            "{option} goes with --trace; the stack's own workloads are changed with --set workload.NAME.KEY=VALUE"
        ))),
    }
}

fn own_workload(
    opened: &Opened,
    table: &WorkloadTable,
    room: ByteLen,
    common: Common,
) -> Result<Made, Failure> {
    let name = match (&table.generator, &table.trace) {
        (Some(generator), _) => {
            synth::among(synth::of(common.registry), generator)?;
            generator.clone()
        }
        (None, Some(file)) => opened.folder.join(file).display().to_string(),
        (None, None) => return Err(Failure::input("it has neither `trace` nor `generator`")),
    };
    // A trace file beside the stack may have the name of a generator.
    let name = if table.generator.is_none() && source::generator(&name, common.registry).is_some() {
        format!("./{name}")
    } else {
        name
    };
    let how = table.fit;
    for (key, len) in [("size", table.size), ("bs", table.bs)] {
        if let Some(len) = len.filter(|&len| len > room && (key == "bs" || how == Fit::Error)) {
            return Err(Failure::input(format!("{key} = {len} is more than the export has: {room}")));
        }
    }
    let columns = table.columns.as_ref().map(|text| replay::columns(&columns_beside(text, &opened.folder)));
    let wanted = Wanted {
        name,
        settings: settings(table, common.registry),
        limit: table.number_ios,
        format: table.trace_format.clone(),
        columns: columns.transpose().map_err(|why| Failure::input(format!("columns: {why}")))?,
        bad_lines: table.bad_lines,
        seed: table.seed.unwrap_or(common.seed),
        room: (how == Fit::Error).then_some(room),
    };
    let trace = source::requests(&wanted, common.registry, common.console)?;
    if let (None, Some(file)) = (&table.generator, &table.trace) {
        let many = table.number_ios.filter(|&n| n > trace.len());
        if let Some(n) = many {
            common.console.note(format!("{file} has {} requests, fewer than number_ios = {n}", trace.len()));
        }
    }
    let load = Replay {
        time_scale: table.time_scale,
        closed: table.iodepth,
        rate: table.rate_iops.map(|n| Span((1_000_000_000 / n.max(1)).max(1))),
        ..Replay::default()
    };
    let pace = pace(&load, &trace)?;
    let (whole, within) = (pace, table.runtime);
    let cut = move |trace| match within {
        Some(runtime) if !matches!(whole, Some(Pace::Closed { .. })) => cut(trace, runtime, whole),
        _ => Ok(trace),
    };
    let (trace, pace) = match (table.runtime, pace) {
        (Some(runtime), Some(Pace::Closed { outstanding })) => {
            (trace, Some(Pace::ClosedFor { outstanding, runtime }))
        }
        _ => (cut(trace)?, pace),
    };
    if trace.is_empty() {
        return Err(Failure::input("no request comes within its `runtime`"));
    }
    let workload = RunWorkload { pace, ..fitted(trace, room, how, None, common.console)? };
    within_bounds(&workload)?;
    let renew = renew(wanted, common.registry, room, how, workload.trace.len(), cut);
    Ok(Made { workload, renew })
}

/// The generator's parameters in the words of a workload table.
fn settings(table: &WorkloadTable, registry: &Registry) -> Vec<GenSetting> {
    let mut out = Vec::new();
    let mut put = |key: &str, value: serde_json::Value| out.push(GenSetting { key: key.into(), value });
    let ratio = |num: u64, den: u64| format!("{num}/{den}").into();
    if let Some(reads) = table.read_share {
        put("write", ratio(reads.den.saturating_sub(reads.num), reads.den));
    }
    // A generator is asked for more than it would make by itself; fewer are the first of those.
    let synth = table.generator.as_deref().and_then(|name| source::generator(name, registry));
    let own = synth.map(Synth::defaults);
    let own = own.and_then(|defaults| defaults.get("requests").and_then(serde_json::Value::as_u64));
    let says = table.parameters.contains_key("requests");
    if let Some(n) = table.number_ios.filter(|&n| !says && own.is_some_and(|own| n > own)) {
        put("requests", n.into());
    }
    if let Some(bs) = table.bs {
        put("size", bs.0.into());
    }
    if let Some(size) = table.size {
        put("space", size.0.into());
    }
    if let Some(zipf) = table.zipf {
        put("zipf", ratio(zipf.num, zipf.den));
    }
    table.parameters.iter().for_each(|(key, value)| put(key, value.clone()));
    out
}

/// The requests that arrive within `runtime`.
fn cut(trace: Requests, runtime: Span, pace: Option<Pace>) -> Result<Requests, Failure> {
    let scale = match pace {
        Some(Pace::Rate { interval, .. }) => {
            return Ok(trace.first((runtime.0 / interval.0.max(1)).saturating_add(1)));
        }
        Some(Pace::Open { time_scale, .. }) => time_scale,
        None if trace.is_timed() => Ratio::new(1, 1),
        _ => {
            return Err(Failure::input(
                "`runtime` needs arrival times; give `number_ios` with a closed loop",
            ));
        }
    };
    let within = trace.iter().take_while(|r| scale.of(r.time().0) <= runtime.0).count();
    Ok(trace.first(within as u64))
}
