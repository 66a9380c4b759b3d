//! `nandu verify`: the verified simulation, many seeds.

use crate::args::VerifyArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{count, plural, time};
use crate::output;
use crate::table::Table;
use nandu_experiment::verify::{record, shape, where_shown};
use nandu_sim::verify::{self, CASE_TEXT, Case, ShrinkError, VerifyOptions, VerifyReport};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// With a planted fault one seed in this many is run twice and compared.
const REPEAT_PLANTED: u64 = 4;

/// Runs the seeds. Without a planted fault a failing seed fails the command; with one, finding nothing does.
pub fn verify(args: &VerifyArgs, console: Console) -> Result<(), Failure> {
    if let Some(path) = &args.case {
        return replay(path, args);
    }
    if let Some(path) = &args.shrink {
        if args.inject_bug.as_deref() == Some("all") {
            return Err(Failure::input("--shrink makes one case smaller: name one bug with --inject-bug"));
        }
        files::allow(&[(path, Kind::Case)], &[], args.force)?;
    }
    if args.print_requests && args.seeds != 1 {
        return Err(Failure::input("--print-requests goes with one seed: --first-seed N --seeds 1"));
    }
    let around = match args.inject_bug.as_deref() {
        Some("all") => return every_plant(args, console),
        Some(plant) => Some(where_shown(plant, crate::registry())?),
        None => None,
    };
    let shape = shape(args.stack.as_deref(), around, crate::registry())?;
    let (shape, divided_by) = if args.full_size { (shape, None) } else { shape.divided(crate::registry()) };
    if let Some(by) = divided_by {
        console.note(format!(
            "sizes and blocks of the stack are divided, by up to {by}; --full-size leaves them"
        ));
    }
    let options = VerifyOptions {
        shape,
        stack_name: args
            .stack
            .clone()
            .map(|name| if args.full_size { format!("{name} --full-size") } else { name }),
        first_seed: args.first_seed,
        seeds: args.seeds,
        crash: args.crash,
        acknowledged: args.durable_acks,
        plant: args.inject_bug.clone(),
        failures_max: match (&args.inject_bug, args.durable_acks) {
            (Some(_), _) => 1,
            (None, true) => 0,
            (None, false) => 10,
        },
        log: args.print_requests,
        threads: args.jobs.unwrap_or(0),
        registry: crate::registry().clone(),
        ..VerifyOptions::default()
    };
    let options = match args.inject_bug {
        Some(_) => VerifyOptions { repeat_one_in: REPEAT_PLANTED, ..options },
        None => options,
    };
    let bar = console.bar(args.seeds, "seeds");
    let report = verify::verify(&options, |_| bar.add(1));
    bar.clear();
    let report = report?;
    if !args.json {
        output::print(&as_text(args, &report))?;
    }
    let shrunk = args.shrink.as_deref().and_then(|path| {
        let failure = report.failures.first();
        if failure.is_none() {
            console.note("nothing failed, so no case is written");
        }
        failure.map(|failure| shrink(path, &options, failure, args.runs, console))
    });
    if args.json {
        let mut record = record(&options, &report, divided_by);
        if args.shrink.is_some() {
            record["case"] = shrunk.as_ref().and_then(|shrunk| shrunk.as_ref().ok()).map(as_json).into();
        }
        output::print_json(&record)?;
    }
    if let (Some(shrunk), false) = (shrunk.transpose()?, args.json) {
        output::print(&shrunk_as_text(&shrunk))?;
    }
    match (&args.inject_bug, report.failures.len()) {
        (None, 0) => Ok(()),
        (None, n) => Err(Failure::failed(format!("{} of {} failed", n, plural(report.seeds, "seed")))),
        (Some(plant), 0) => Err(Failure::failed(format!("the bug {plant} was not found"))
            .with_help("give more seeds, --crash, or a stack that has such a device")),
        (Some(_), _) => Ok(()),
    }
}

/// A seed that became a case.
struct Written<'a> {
    path: &'a Path,
    seed: u64,
    requests_before: usize,
    shrunk: verify::Shrunk,
}

/// Makes a seed that failed smaller, and writes it as a case.
fn shrink<'a>(
    path: &'a Path,
    options: &VerifyOptions,
    failure: &verify::Failure,
    runs: u64,
    console: Console,
) -> Result<Written<'a>, Failure> {
    let (_, case) = verify::case_of(options, failure.seed);
    let case = case.ok_or_else(|| {
        Failure::failed("the stack breaks something before the first request: its stack file is the case")
    })?;
    let case = Case { breaks: Some(failure.violation.invariant.into()), ..case };
    let bar = console.bar(runs, "runs");
    let shrunk = verify::shrink(&case, crate::registry(), runs, |_, _| bar.add(1));
    bar.clear();
    let shrunk = shrunk.map_err(|error| match error {
        two_runs @ ShrinkError::TwoRuns => Failure::from(two_runs).with_help(format!(
            "`{} --print-requests` prints both runs, one after the other: the first line in which they differ shows where to look",
            failure.command
        )),
        other => other.into(),
    })?;
    files::write_file(path, |out| {
        out.write_all(shrunk.case.to_text().as_bytes()).map_err(|e| Failure::unwritable(path, &e))
    })?;
    Ok(Written { path, seed: failure.seed, requests_before: case.requests(), shrunk })
}

fn shrunk_as_text(written: &Written<'_>) -> String {
    let Written { path, seed, requests_before, shrunk } = written;
    let rest = if shrunk.is_complete { "" } else { "; more may be left out with more --runs" };
    format!(
        "seed {seed}: {} became {} in {}{rest}\n  again: nandu verify --case {}\n",
        plural(*requests_before as u64, "request"),
        count(shrunk.case.requests() as u64),
        plural(shrunk.runs, "run"),
        path.display()
    )
}

fn as_json(written: &Written<'_>) -> Value {
    let Written { path, seed, requests_before, shrunk } = written;
    json!({
        "file": path.display().to_string(),
        "seed": seed,
        "invariant": shrunk.violation.invariant,
        "what": shrunk.violation.what,
        "requests_before": requests_before,
        "requests": shrunk.case.requests(),
        "steps": shrunk.case.steps.len(),
        "runs": shrunk.runs,
        "complete": shrunk.is_complete,
    })
}

/// Runs a case. One that breaks something fails the command.
fn replay(path: &Path, args: &VerifyArgs) -> Result<(), Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(CASE_TEXT as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::unreadable(path, &error))?;
    let at_path = |error| Failure::from(error).at(path.display());
    let case = Case::parse(&text).map_err(at_path)?;
    let report = verify::run_case(&case, crate::registry(), args.print_requests).map_err(at_path)?;
    let failure = report.failure.as_ref();
    if args.json {
        output::print_json(&json!({
            "schema": nandu_sim::result::SCHEMA,
            "steps": case.steps.len(),
            "requests": report.requests,
            "events": report.events,
            "power_cuts": report.crashes,
            "power_cuts_beside": report.peeks,
            "failure": failure.map(|f| json!({
                "invariant": f.violation.invariant, "what": f.violation.what, "event": f.event,
            })),
        }))?;
    } else if failure.is_none() {
        output::print(&format!(
            "{}, {}, {}: nothing wrong was found\n",
            plural(case.steps.len() as u64, "step"),
            plural(report.events, "event"),
            plural(report.crashes, "power cut")
        ))?;
    }
    failure.map_or(Ok(()), |failure| {
        Err(Failure::failed(format!("{}, at event {}", failure.violation, count(failure.event)))
            .at(path.display()))
    })
}

/// Injects each bug in turn and says what found it; one that is not found fails the command.
fn every_plant(args: &VerifyArgs, console: Console) -> Result<(), Failure> {
    let registry = crate::registry();
    let mut table = Table::new(["<bug", "<breaks", "<found by", "at seed"]);
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    let bar = console.bar(registry.plants().count() as u64, "planted faults");
    for kind in registry.kinds() {
        for plant in kind.plants {
            let options = VerifyOptions {
                shape: shape(args.stack.as_deref(), Some(plant.family.unwrap_or(kind.name)), registry)?
                    .divided(registry)
                    .0,
                plant: Some(plant.name.into()),
                first_seed: args.first_seed,
                seeds: args.seeds,
                crash: args.crash,
                failures_max: 1,
                repeat_one_in: REPEAT_PLANTED,
                threads: args.jobs.unwrap_or(0),
                registry: registry.clone(),
                ..VerifyOptions::default()
            };
            let report = verify::verify(&options, |_| ())?;
            bar.add(1);
            let found = report.failures.first();
            let by = found.map_or("nothing", |f| f.violation.invariant);
            let seed = found.map_or_else(String::new, |f| count(f.seed));
            table.row([plant.name.to_string(), plant.breaks.into(), by.into(), seed]);
            rows.push(json!({
                "name": plant.name, "breaks": plant.breaks, "seed": found.map(|f| f.seed),
                "invariant": found.map(|f| f.violation.invariant), "what": found.map(|f| &f.violation.what),
            }));
            if found.is_none() {
                missed.push(plant.name);
            }
        }
    }
    bar.clear();
    if args.json {
        output::print_json(
            &json!({ "schema": nandu_sim::result::SCHEMA, "seeds": args.seeds, "crash": args.crash, "bugs": rows }),
        )?;
    } else {
        output::print(&table.to_string())?;
    }
    match missed.len() {
        0 => Ok(()),
        n => Err(Failure::failed(format!(
            "{} not found within {}: {}",
            plural(n as u64, "bug"),
            plural(args.seeds, "seed"),
            missed.join(", ")
        ))
        .with_help("give more seeds, or --crash")),
    }
}

fn as_text(args: &VerifyArgs, report: &VerifyReport) -> String {
    let mut out = String::new();
    for failure in &report.failures {
        out.push_str(&format!(
            "seed {}: {}, at event {}\n  again: {}\n",
            failure.seed,
            failure.violation,
            count(failure.event),
            failure.command
        ));
    }
    let found = match (&args.inject_bug, report.failures.len()) {
        (Some(plant), n) if n > 0 => format!("the bug {plant} was found"),
        (_, 0) => "nothing wrong was found".into(),
        (_, n) => plural(n as u64, "failure"),
    };
    let from_checkpoint = match report.from_checkpoint + report.fell_back {
        0 => String::new(),
        _ => format!(
            "; {} from a checkpoint, {} where it was not enough",
            count(report.from_checkpoint),
            count(report.fell_back)
        ),
    };
    let beside = match report.peeks {
        0 => String::new(),
        peeks => format!(" and {} beside the run", count(peeks)),
    };
    out.push_str(&format!(
        "{}: {}, {}, {}{beside}, {} (the longest {}{from_checkpoint}), digest {:016x}; {found}\n",
        plural(report.seeds, "seed"),
        plural(report.requests, "request"),
        plural(report.events, "event"),
        plural(report.crashes, "power cut"),
        plural(report.recoveries, "start"),
        time(report.start_longest.0),
        report.digest
    ));
    out
}
