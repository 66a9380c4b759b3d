//! `nandu sweep`: many variants of one stack, the same requests, and the best that meets the bounds.
//!
//! [`nandu_experiment::sweep`] makes it ready, [`nandu_sweep`] is the engine, and [`text`] what is said.

use crate::args::SweepArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{count, plural, size};
use crate::output;
use crate::parallel;
use crate::replay::{Load, Replay};
use crate::report::front;
use crate::source;
use crate::sweep_text as text;
use crate::table::Table;
use nandu_base::{ByteLen, Span};
use nandu_experiment::sweep::{Asked, Prepared, Question, damaged, program};
use nandu_sim::{Extension, RunOptions, RunWorkload};
use nandu_sweep::measure::Bench;
use nandu_sweep::survey::with_settings;
use nandu_sweep::{Journal, Outcome, best, id, table};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Sweeps.
pub fn sweep(args: &SweepArgs, console: Console) -> Result<u8, Failure> {
    let prepared = prepare(args, console)?;
    let mut bench = prepared.bench();
    let journal = take_up(args, &mut bench, console)?;
    if args.dry_run {
        return dry_run(&prepared, &bench, console).map(|()| 0);
    }
    prepared.measure(&mut bench, journal, console)?;
    let outcome = prepared.outcome(&bench);
    say(args, &prepared, &outcome, console)?;
    let failed = prepared.shard.is_whole() && outcome.meeting() == 0;
    Ok(if failed { crate::UNMET } else { 0 })
}

/// The files of a folder of results, beside its journal.
const WITHIN: [(&str, Kind); 4] = [
    ("report.html", Kind::Page),
    ("points.parquet", Kind::PointsTable),
    ("points.json", Kind::Points),
    ("best.toml", Kind::Winner),
];

/// The files that a sweep writes, beside its journal.
fn outputs(args: &SweepArgs) -> Vec<(PathBuf, Kind)> {
    let named = [(&args.report, Kind::Page), (&args.parquet, Kind::PointsTable), (&args.best, Kind::Winner)];
    let named = named.into_iter().filter_map(|(path, kind)| Some((path.clone()?, kind)));
    // A folder that is not there yet is made with the journal.
    let folder = args.out.iter().filter(|folder| folder.is_dir());
    let within = folder.flat_map(|folder| WITHIN.map(|(name, kind)| (folder.join(name), kind)));
    named.chain(within).collect()
}

fn prepare(args: &SweepArgs, console: Console) -> Result<Prepared, Failure> {
    let asked = Asked {
        stack: None,
        what: args.what.clone(),
        axis: args.axis.clone(),
        bound: args.bound.clone(),
        minimise: args.minimise.clone(),
        maximise: args.maximise.clone(),
        metric: args.metric.clone(),
        search: args.search.clone(),
        skip_invalid: args.skip_invalid,
        allow_saturated: args.allow_saturated,
        allow_unsteady: args.allow_unsteady,
        set: args.set.clone(),
        replay: Replay { seed: args.seed, precondition: args.precondition, ..args.load.replay() },
        shard: args.shard,
        threads: args.jobs.unwrap_or_else(parallel::cores),
    };
    let question = Question::read(asked, crate::registry())?;
    let outputs = outputs(args);
    let outputs: Vec<(&Path, Kind)> = outputs.iter().map(|(path, kind)| (path.as_path(), *kind)).collect();
    let inputs = question.inputs();
    files::allow(&outputs, &inputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), args.force)?;
    question.prepare(crate::registry(), console)
}

/// Takes up what is known: of this sweep's folder, and of others.
fn take_up(args: &SweepArgs, bench: &mut Bench<'_>, console: Console) -> Result<Option<Journal>, Failure> {
    if args.out.is_none() && args.from.is_empty() {
        return Ok(None);
    }
    let program = program()?;
    let mut journal = None;
    if let Some(folder) = &args.out {
        // A dry run makes nothing.
        if args.dry_run && folder.join(nandu_sweep::journal::NAME).is_file() {
            damaged(folder, bench.take_from(folder, &program, None)?, console);
        } else if !args.dry_run {
            let (own, lines) = bench.resume(folder, &program)?;
            damaged(folder, lines, console);
            files::remove_parts(folder, &WITHIN.map(|(name, _)| name))?;
            journal = Some(own);
        }
    }
    for folder in &args.from {
        damaged(folder, bench.take_from(folder, &program, journal.as_mut())?, console);
    }
    Ok(journal)
}

/// Requests of the two short runs that an estimate is made of.
const SHORT: [usize; 2] = [1000, 20_000];

/// Shows the points, and says about how long they take.
fn dry_run(prepared: &Prepared, bench: &Bench<'_>, console: Console) -> Result<(), Failure> {
    let (space, ids) = (&prepared.sweep.space, bench.ids());
    let heads: Vec<String> = space.axes().iter().map(|a| format!("<{}", a.name)).collect();
    let heads = ["point", "<id"].into_iter().chain(heads.iter().map(String::as_str));
    let mut table = Table::new(heads.chain(["<state"]));
    let mine = |id: &id::Id| prepared.shard.has(id);
    for (point, (id, known)) in ids.iter().zip(bench.known()).enumerate() {
        let (name, state) = match id {
            None => ("-".into(), "cannot be built"),
            Some(id) if !mine(id) => (id.short(), "of another shard"),
            Some(id) if known.is_some() => (id.short(), "known"),
            Some(id) => (id.short(), "to run"),
        };
        let cells = [point.to_string(), name].into_iter();
        table.row(cells.chain(space.names(point).into_iter().map(str::to_string)).chain([state.into()]));
    }
    let (all, known) = bench.progress(prepared.shard);
    let left = (all - known) as u64;
    let in_all = match prepared.runtime() {
        Some(runtime) => format!("{} of simulated time", Span(runtime.0.saturating_mul(left))),
        None => count(prepared.each().saturating_mul(left)),
    };
    let sum = format!("{} to run, {}, {in_all} in all\n", plural(left, "point"), prepared.each_in_words());
    output::print(&format!("{table}\n{sum}"))?;
    let next = (0..space.len()).find(|&p| ids[p].is_some_and(|id| mine(&id)) && bench.known()[p].is_none());
    if let Some(point) = next {
        let (one, requests) = estimate(prepared, point)?;
        let seconds = one * left as f64 / prepared.threads.min(left as usize) as f64;
        console.note(format!(
            "about {} on {}, going by the first {} requests of point {point}",
            crate::format::time((seconds * 1e9) as u64),
            plural(prepared.threads as u64, "core"),
            count(requests)
        ));
    }
    Ok(())
}

/// Seconds that one point takes, from two short runs of it, and how many requests the longer one had.
fn estimate(prepared: &Prepared, point: usize) -> Result<(f64, u64), Failure> {
    let stack = with_settings(&prepared.file, &prepared.sweep.space, point)?.load(&prepared.registry)?;
    let export = prepared.survey.seen[point].as_ref().map_or(0, |seen| seen.export);
    let mut took = Vec::new();
    for requests in SHORT {
        let short = |w: &RunWorkload| RunWorkload {
            export,
            trace: w.trace.first(requests as u64),
            passes: u32::try_from(requests as u64 / w.trace.len().max(1))
                .map_or(w.passes, |n| n.clamp(1, w.passes.max(1))),
            ..w.clone()
        };
        let workloads = prepared.options.workloads.iter().map(short).collect();
        let extension = Extension::NONE;
        let options = RunOptions { workloads, warm_up: 0, extension, ..prepared.options.clone() };
        let start = Instant::now();
        let result = nandu_sim::run(&stack, &options, |_| ())?;
        let requests = result.total.requests + result.total.failed;
        // A runtime ends a load after so much simulated time, however many requests that are.
        let far = if prepared.runtime().is_some() { result.duration_ns } else { requests };
        took.push((start.elapsed().as_secs_f64(), far, requests));
    }
    let [(first, less, _), (second, more, requests)] = took[..] else { unreachable!("there are two") };
    // A sweep that is shorter than the short runs is what they take.
    let all = prepared.runtime().map_or(prepared.each(), |runtime| runtime.0);
    let rate = (second - first).max(0.0) / more.saturating_sub(less).max(1) as f64;
    Ok((first + rate * all.saturating_sub(less) as f64, requests))
}

/// Prints what came out, and writes the files that were asked for.
fn say(args: &SweepArgs, prepared: &Prepared, outcome: &Outcome, console: Console) -> Result<(), Failure> {
    let json = prepared.record(outcome);
    match args.json {
        true => output::print_json(&json)?,
        false => {
            let mut lines = match prepared.shard.is_whole() {
                true => text::sentences(&prepared.sweep, outcome),
                false => vec![format!("shard {}: --from joins it with the others", prepared.shard)],
            };
            lines.push(format!("load: {}", json.load));
            output::print(&format!("{}\n{}\n", text::table(&prepared.sweep, outcome), lines.join("\n")))?;
        }
    }
    let cautions = prepared.cautions(outcome);
    cautions.iter().for_each(|caution| caution.say(console));
    let within = |name: &str| args.out.as_ref().map(|folder| folder.join(name));
    let page = || {
        front::page(
            &format!("nandu sweep {}", prepared.name),
            &json.load,
            &prepared.sweep,
            outcome,
            &cautions,
        )
    };
    for path in [args.report.clone(), within("report.html")].into_iter().flatten() {
        write(&path, page().as_bytes(), console)?;
    }
    for path in [args.parquet.clone(), within("points.parquet")].into_iter().flatten() {
        files::write_file(&path, |out| {
            table::write(outcome, out).map_err(|e| Failure::unwritable(&path, &e))
        })?;
        console.note(format!("points written to {}", path.display()));
    }
    if let Some(path) = within("points.json") {
        let text = serde_json::to_string_pretty(&json).map_err(|e| Failure::failed(format!("JSON: {e}")))?;
        write(&path, format!("{text}\n").as_bytes(), console)?;
    }
    let winner = [args.best.clone(), within("best.toml")].into_iter().flatten();
    match winning_stack(prepared, outcome)? {
        Some(text) => winner.into_iter().try_for_each(|path| write(&path, text.as_bytes(), console)),
        // What an earlier sweep left in the folder is not the winner of this one.
        None => within("best.toml").map_or(Ok(()), |path| match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Failure::unwritable(&path, &e)),
            _ => Ok(()),
        }),
    }
}

fn write(path: &Path, bytes: &[u8], console: Console) -> Result<(), Failure> {
    files::write_file(path, |out| out.write_all(bytes).map_err(|e| Failure::unwritable(path, &e)))?;
    console.note(format!("{} written", path.display()));
    Ok(())
}

/// The winning stack, with where it comes from.
fn winning_stack(prepared: &Prepared, outcome: &Outcome) -> Result<Option<String>, Failure> {
    let Some(row) = outcome.best.and_then(|point| outcome.row(point)) else { return Ok(None) };
    let (sweep, point) = (&prepared.sweep, row.point);
    let mut file = with_settings(&prepared.file, &sweep.space, point)?;
    let described = format!("{}: the best of the sweep {}", sweep.space.label(point), prepared.name);
    file = file.with_set("description", &toml::Value::String(described).to_string())?;
    let stack = file.load(&prepared.registry)?;
    let folder = Path::new(&prepared.options.stack_name).parent().unwrap_or(Path::new(""));
    for workload in &stack.workloads {
        // The traces of the stack file are relative to it, and this one may lie elsewhere.
        if let Some(path) = workload.table.trace.as_ref().and_then(|t| folder.join(t).canonicalize().ok()) {
            let value = toml::Value::String(path.display().to_string()).to_string();
            file = file.with_set(&format!("workload.{}.trace", workload.name), &value)?;
        }
    }
    let room = prepared.survey.smallest().map_or(0, |(room, _)| room.0);
    // The winner may be larger than the point that the requests were laid onto.
    let mut replay = prepared.replay.clone();
    if let (Some(name), None) = (replay.trace.as_ref().and_then(Load::name), replay.fit) {
        let kept = source::kept_within(name, &replay.settings, ByteLen(room), crate::registry());
        replay.settings.extend(kept);
    }
    let comment = format!(
        "{}, the best of {} of the sweep {} of {}.\n\nWanted: {}.\nMeasured: {}.\nRequests: {}; laid onto {}.\n\n  nandu run THIS {}",
        capital(&text::named(sweep, point)),
        plural(outcome.rows.len() as u64, "point"),
        prepared.name,
        prepared.options.stack_name,
        text::wanted(sweep),
        text::figures(sweep, row, |_| true),
        prepared.load_line(),
        size(room),
        replay.options()
    );
    Ok(Some(best::text(&comment, &file)))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
