//! `nandu compare`: several stacks, the same requests, side by side.

use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::format::{count, percent, short_hash, thousandths, time};
use crate::open::{Opened, named, open};
use crate::output::{self, Kind};
use crate::parallel;
use crate::plan::{Common, Plan, plan};
use crate::report;
use crate::table::Table;
use crate::talk::Talk;
use crate::verdict::{self, Row, all_cautions};
use nandu_sim::RunResult;
use nandu_sim::samples::Samples;
use nandu_sim::tap::{Look, run_tapped};
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
    let plans = plan(stacks, &args.load, common)?;
    let rows = race(&plans, args.jobs.unwrap_or_else(parallel::cores), args.out.report.is_some(), talk)?;
    if args.out.json {
        output::print_json(&Race::of(&rows))?;
    } else {
        output::print(&format!("{}\n{}{}", table(&rows), tenants(&rows), load_line(&rows)))?;
    }
    warn(&rows, talk);
    if let Some(path) = &args.out.report {
        report::write(path, "nandu compare", &rows)?;
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
/// over time.
pub fn race(plans: &[Plan], threads: usize, sampled: bool, talk: Talk) -> Result<Vec<Row>, Failure> {
    let bar = talk.bar(plans.iter().map(Plan::requests).sum(), "requests");
    let results = parallel::map(plans, threads, |plan| {
        let (stack, options) = (&plan.opened.stack, &plan.options);
        let result = if sampled {
            let look = Look { samples: true, ..Look::default() };
            run_tapped(stack, options, (), look, bar.follow()).map(|seen| (seen.result, seen.samples))
        } else {
            nandu_sim::run(stack, options, bar.follow()).map(|result| (result, Samples::default()))
        };
        result.map(|r| (plan.opened.label.clone(), r)).map_err(|error| {
            let failure = Failure::from(error);
            Failure { message: format!("{}: {}", plan.opened.label, failure.message), ..failure }
        })
    });
    bar.clear();
    let mut named = Vec::new();
    let mut samples = Vec::new();
    for result in results {
        let (label, (result, sampled)) = result?;
        named.push((label, result));
        samples.push(sampled);
    }
    let mut rows = verdict::rows(named);
    rows.iter_mut().zip(samples).for_each(|(row, samples)| row.samples = samples);
    Ok(rows)
}

/// The aligned table of a race.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "<stack", "requests", "mean", "p50", "p99", "p99.9", "max", "IOPS", "WAF", "erases", "busy",
        "<verdict",
    ]);
    for row in rows {
        let (r, l) = (&row.result, &row.result.all);
        let times = [l.mean_ns, l.p50_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(time);
        let flash = [
            r.waf_thousandths.map_or_else(|| "-".into(), thousandths),
            if verdict::has_flash(r) { count(verdict::erases(r)) } else { "-".into() },
        ];
        let cells = [row.label.clone(), count(l.requests)].into_iter().chain(times);
        let cells = cells.chain([count(r.iops)]).chain(flash);
        table.row(cells.chain([verdict::busy_words(r), row.verdict.clone()]));
    }
    table
}

/// A row for each tenant of each stack that has several, with an empty line behind; nothing where no stack has.
fn tenants(rows: &[Row]) -> String {
    let heads =
        ["<stack", "<tenant", "requests", "mean", "p50", "p99", "p99.9", "max", "its share", "wanted"];
    let mut table = Table::new(heads);
    let several = || rows.iter().filter(|row| row.result.tenants.len() > 1);
    if several().next().is_none() {
        return String::new();
    }
    for row in several() {
        for tenant in &row.result.tenants {
            let (l, device) = (&tenant.all, &tenant.device);
            let times = [l.mean_ns, l.p50_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(time);
            let shares = [device.share_thousandths, device.wanted_thousandths].map(percent);
            let names = [row.label.clone(), tenant.name.clone(), count(l.requests)];
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
    format!("load: {loads}\nprecondition: {states}; seed {seed}\n")
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
            best: r.best,
            result: &r.result,
        });
        Race { schema: 1, baseline: rows.first().map_or("", |r| &r.label), stacks: stacks.collect() }
    }
}
