//! `nandu compare`: several stacks, the same requests, side by side.

use crate::args::{CompareArgs, LoadArgs};
use crate::failure::Failure;
use crate::format::{count, percent, short_hash, thousandths, time};
use crate::open::{Opened, named, open};
use crate::output::{self, Kind};
use crate::parallel;
use crate::plan::{Common, Plan, extended, plan};
use crate::report;
use crate::table::Table;
use crate::talk::Talk;
use crate::verdict::{self, Row, all_cautions};
use nandu_sim::result::Latency;
use nandu_sim::samples::Samples;
use nandu_sim::steady::RULE;
use nandu_sim::tap::{Look, run_tapped};
use nandu_sim::{Extension, RunOptions, RunResult};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Races stacks.
pub fn compare(args: &CompareArgs, talk: Talk) -> Result<(), Failure> {
    apart(&args.stacks)?;
    let mut stacks: Vec<Opened> =
        args.stacks.iter().map(|name| open(name, &args.stack.set)).collect::<Result<_, _>>()?;
    tell_apart(&mut stacks);
    let outputs: Vec<(&Path, Kind)> =
        args.out.report.iter().map(|path| (path.as_path(), Kind::Page)).collect();
    let inputs: Vec<PathBuf> = stacks.iter().flat_map(|stack| stack.inputs(&args.load)).collect();
    output::allow(&outputs, &inputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), args.out.force)?;
    for stack in &stacks {
        stack.remarks().iter().for_each(|line| talk.note(format!("{}: {line}", stack.label)));
    }
    let common = Common { seed: args.stack.seed, precondition: args.stack.precondition, talk };
    let threads = args.jobs.unwrap_or_else(parallel::cores);
    let mut shown: Vec<Row> = Vec::new();
    let mut races: Vec<Vec<Row>> = Vec::new();
    // Each trace by itself, on stacks that are as they were.
    let loads = std::iter::once(args.load.clone())
        .chain(args.also.iter().map(|trace| LoadArgs { trace: Some(trace.clone()), ..args.load.clone() }));
    for (i, load) in loads.enumerate() {
        let opened = match i {
            0 => std::mem::take(&mut stacks),
            _ => {
                let mut again: Vec<Opened> =
                    args.stacks.iter().map(|name| open(name, &args.stack.set)).collect::<Result<_, _>>()?;
                tell_apart(&mut again);
                again
            }
        };
        let mut plans = plan(opened, &load, common)?;
        plans.iter_mut().for_each(|plan| extended(&mut plan.options, load.extend));
        let rows = race(&plans, threads, args.out.report.is_some(), talk)?;
        warn(&rows, talk);
        if !args.out.json {
            let gap = if i > 0 { "\n" } else { "" };
            let text =
                format!("{}\n{}\n{}{}", table(&rows), verdicts(&rows), tenants(&rows), load_line(&rows));
            output::print(&format!("{gap}{text}"))?;
        }
        let name = load.trace.unwrap_or_default();
        let on = |row: &Row| match args.also.is_empty() {
            true => row.clone(),
            false => Row { label: format!("{} on {name}", row.label), ..row.clone() },
        };
        shown.extend(rows.iter().filter(|_| args.out.report.is_some()).map(on));
        races.push(rows);
    }
    match (args.out.json, &races[..]) {
        (true, [one]) => output::print_json(&Race::of(one))?,
        (true, all) => {
            let all: Vec<Race<'_>> = all.iter().map(|rows| Race::of(rows)).collect();
            output::print_json(&serde_json::json!({ "schema": 1, "races": all }))?;
        }
        (false, _) => {}
    }
    if let Some(path) = &args.out.report {
        report::write(path, "nandu compare", &shown)?;
        talk.note(format!("report written to {}", path.display()));
    }
    Ok(())
}

/// No two stacks are given one name.
fn apart(stacks: &[String]) -> Result<(), Failure> {
    let names: Vec<&str> = stacks.iter().filter_map(|stack| named(stack).0).collect();
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Failure::input(format!("{name}=: two stacks have this name; give each a name of its own")))
        }
    }
}

/// Two rows of one name are told apart by the path, then by their place.
fn tell_apart(stacks: &mut [Opened]) {
    for i in 0..stacks.len() {
        let same = |label: &str| stacks.iter().filter(|s| s.label == label).count() > 1;
        if same(&stacks[i].label) && !stacks.iter().any(|s| s.label == stacks[i].source) {
            stacks[i].label = stacks[i].source.clone();
        }
    }
    for i in 1..stacks.len() {
        if stacks[..i].iter().any(|s| s.label == stacks[i].label) {
            stacks[i].label = format!("{} #{}", stacks[i].label, i + 1);
        }
    }
}

/// Runs all plans, several at a time, and gives each result its verdict. `sampled` says that a report will show the runs
/// over time. Where the load of one begins again because it is not steady, that of the others does as often: all rows are measured on
/// the same requests.
pub fn race(plans: &[Plan], threads: usize, sampled: bool, talk: Talk) -> Result<Vec<Row>, Failure> {
    let bar = talk.bar(plans.iter().map(Plan::requests).sum(), "requests");
    let run = |plan: &Plan, least: u32| {
        let stack = &plan.opened.stack;
        let extension = Extension { least, ..plan.options.extension.clone() };
        let options = &RunOptions { extension, ..plan.options.clone() };
        let result = if sampled {
            let look = Look { samples: true, ..Look::default() };
            run_tapped(stack, options, (), look, bar.follow()).map(|seen| (seen.result, seen.samples))
        } else {
            nandu_sim::run(stack, options, bar.follow()).map(|result| (result, Samples::default()))
        };
        result.map_err(|error| {
            let failure = Failure::from(error);
            Failure { message: format!("{}: {}", plan.opened.label, failure.message), ..failure }
        })
    };
    let first = parallel::map(plans, threads, |plan| run(plan, 0));
    let mut results: Vec<(RunResult, Samples)> = first.into_iter().collect::<Result<_, _>>()?;
    loop {
        let turns = results.iter().map(|(result, _)| result.extended).max().unwrap_or(0);
        let can = |plan: &Plan| plan.options.extension.most >= turns && plan.opened.stack.changes.is_empty();
        let fewer = |i: &usize| results[*i].0.extended < turns && can(&plans[*i]);
        let again: Vec<usize> = (0..plans.len()).filter(fewer).collect();
        if again.is_empty() {
            break;
        }
        for (i, result) in again.iter().zip(parallel::map(&again, threads, |&i| run(&plans[i], turns))) {
            results[*i] = result?;
        }
    }
    bar.clear();
    let mut named = Vec::new();
    let mut samples = Vec::new();
    for (plan, (result, sampled)) in plans.iter().zip(results) {
        named.push((plan.opened.label.clone(), result));
        samples.push(sampled);
    }
    let mut rows = verdict::rows(named);
    rows.iter_mut().zip(samples).for_each(|(row, samples)| row.samples = samples);
    Ok(rows)
}

/// The aligned table of a race.
pub fn table(rows: &[Row]) -> Table {
    let heads = ["<stack", "mean", "p99", "p99.9", "max", "read p99", "write p99", "IOPS", "WAF", "<state"];
    let mut table = Table::new(heads);
    for row in rows {
        let (r, l) = (&row.result, &row.result.all);
        let times = [l.mean_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(time);
        let of = |l: &Latency| if l.requests > 0 { time(l.p99_ns) } else { "-".into() };
        let waf = r.waf_thousandths.map_or_else(|| "-".into(), thousandths);
        let cells = [row.label.clone()].into_iter().chain(times).chain([of(&r.reads), of(&r.writes)]);
        table.row(cells.chain([count(r.iops), waf, r.state.name().into()]));
    }
    table
}

/// What each row says beside the others, one line each.
pub fn verdicts(rows: &[Row]) -> Table {
    let mut table = Table::new(["<stack", "<busy", "<verdict"]);
    for row in rows {
        table.row([row.label.clone(), verdict::busy_words(&row.result), row.verdict.clone()]);
    }
    table
}

/// A row for each tenant of each stack that has several, with an empty line behind; nothing where no stack has.
fn tenants(rows: &[Row]) -> String {
    let heads = ["<stack", "<tenant", "mean", "p99", "max", "read p99", "write p99", "its share", "wanted"];
    let mut table = Table::new(heads);
    let several = || rows.iter().filter(|row| row.result.tenants.len() > 1);
    if several().next().is_none() {
        return String::new();
    }
    for row in several() {
        for tenant in &row.result.tenants {
            let (l, device) = (&tenant.all, &tenant.device);
            let of = |l: &Latency| if l.requests > 0 { time(l.p99_ns) } else { "-".into() };
            let times =
                [time(l.mean_ns), time(l.p99_ns), time(l.max_ns), of(&tenant.reads), of(&tenant.writes)];
            let shares = [device.share_thousandths, device.wanted_thousandths].map(percent);
            let names = [row.label.clone(), tenant.name.clone()];
            table.row(names.into_iter().chain(times).chain(shares));
        }
    }
    format!("{table}\n")
}

/// What all rows share, once; what differs, with the rows it is about.
pub fn load_line(rows: &[Row]) -> String {
    let loads = grouped(rows, |row| {
        let loads = row.result.provenance.workloads.iter().map(|w| {
            let hash = short_hash(&w.trace_hash);
            format!("{} ({}, {hash}), {}, fit {}", w.source, w.origin, w.pace, w.fit)
        });
        loads.collect::<Vec<_>>().join("; ")
    });
    let states = grouped(rows, |row| row.result.provenance.precondition.clone());
    let seed = rows.first().map_or(0, |r| r.result.provenance.seed);
    let turns = grouped(rows, |row| turns(row.result.extended));
    let turns = if turns.is_empty() { turns } else { format!("; {turns}") };
    format!("load: {loads}{turns}\nprecondition: {states}; seed {seed}\n{RULE}\n")
}

/// How often a load began again before what counts; nothing where it did not.
pub fn turns(extended: u32) -> String {
    match extended {
        0 => String::new(),
        1 => "measured the second time, the first was not steady".into(),
        n => format!("begun again {n} times, measured the last time"),
    }
}

/// The figure of all rows, or each figure with its rows.
fn grouped(rows: &[Row], of: impl Fn(&Row) -> String) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let figure = of(row);
        match groups.iter_mut().find(|g| g.0 == figure) {
            Some(group) => group.1.push(&row.label),
            None => groups.push((figure, vec![&row.label])),
        }
    }
    if groups.len() == 1 {
        return groups.remove(0).0;
    }
    groups
        .iter()
        .map(|(figure, labels)| format!("{figure} ({})", labels.join("; ")))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Says what a reader must know before believing the rows.
pub fn warn(rows: &[Row], talk: Talk) {
    for caution in all_cautions(rows) {
        if caution.serious {
            talk.warning(caution.text);
        } else {
            talk.note(caution.text);
        }
    }
}

/// A race as JSON.
#[derive(Serialize)]
pub struct Race<'a> {
    /// Version of this record's fields.
    pub schema: u32,
    /// The row that the others are compared to.
    pub baseline: &'a str,
    /// The rows.
    pub stacks: Vec<RaceRow<'a>>,
}

/// A row of a race as JSON.
#[derive(Serialize)]
pub struct RaceRow<'a> {
    /// What tables call it.
    pub label: &'a str,
    /// How it compares to the baseline.
    pub verdict: &'a str,
    /// Whether it was in steady state.
    pub state: &'static str,
    /// Whether it is the best.
    pub best: bool,
    /// What was measured.
    pub result: &'a RunResult,
}

impl<'a> Race<'a> {
    /// The record of `rows`.
    pub fn of(rows: &'a [Row]) -> Race<'a> {
        let stacks = rows.iter().map(|r| RaceRow {
            label: &r.label,
            verdict: &r.verdict,
            state: r.result.state.name(),
            best: r.best,
            result: &r.result,
        });
        Race { schema: 1, baseline: rows.first().map_or("", |r| &r.label), stacks: stacks.collect() }
    }
}
