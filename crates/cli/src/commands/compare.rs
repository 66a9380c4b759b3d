//! `nandu compare`: several stacks, the same requests, side by side.

use super::give_json;
use crate::args::CompareArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{per_second, percent, short_hash, thousandths, time};
use crate::output;
use crate::parallel;
use crate::plan::Plan;
use crate::race::{self, Race, open_all, turns, warn_all};
use crate::replay::{Load, Replay};
use crate::report;
use crate::table::Table;
use crate::verdict::{self, Row};
use nandu_sim::result::{Latency, SCHEMA};
use nandu_sim::steady::RULE;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Races stacks.
pub fn compare(args: &CompareArgs, console: Console) -> Result<(), Failure> {
    let registry = crate::registry();
    let replay = Replay {
        seed: Some(args.stack.seed),
        precondition: Some(args.stack.precondition),
        ..args.load.replay()
    };
    let mut stacks = open_all(&args.stacks, &args.stack.set, registry)?;
    let outputs: Vec<(&Path, Kind)> = args.out.files().collect();
    let inputs: Vec<PathBuf> = stacks.iter().flat_map(|stack| stack.inputs(&replay)).collect();
    files::allow(&outputs, &inputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), args.out.force)?;
    for stack in &stacks {
        stack.remarks().iter().for_each(|line| console.note(format!("{}: {line}", stack.label)));
    }
    let threads = args.jobs.unwrap_or_else(parallel::cores);
    // Each trace by itself, on stacks that are as they were. All of them are read before the first runs.
    let also = args.also.iter().map(|trace| Replay { trace: Some(trace.as_str().into()), ..replay.clone() });
    let mut plans: Vec<(String, Vec<Plan>)> = Vec::new();
    for load in std::iter::once(replay.clone()).chain(also) {
        let opened = match plans.is_empty() {
            true => std::mem::take(&mut stacks),
            false => open_all(&args.stacks, &args.stack.set, registry)?,
        };
        let name = load.trace.as_ref().and_then(Load::name).unwrap_or_default().to_string();
        plans.push((name, race::planned(opened, &load, registry, console)?));
    }
    let several = plans.len() > 1;
    let mut shown: Vec<Row> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut races: Vec<Vec<Row>> = Vec::new();
    for (name, plans) in plans {
        let rows = race::race(&plans, threads, args.out.report.is_some(), console)?;
        if !args.out.json {
            let gap = if races.is_empty() { "" } else { "\n" };
            let title = if several { format!("on {name}:\n\n") } else { String::new() };
            let text =
                format!("{}\n{}\n{}{}", table(&rows), verdicts(&rows), tenants(&rows), load_line(&rows));
            output::print(&format!("{gap}{title}{text}"))?;
        }
        let on = |row: &Row| match several {
            false => row.clone(),
            true => Row { label: format!("{} on {name}", row.label), ..row.clone() },
        };
        shown.extend(rows.iter().filter(|_| args.out.report.is_some()).map(on));
        names.push(name);
        races.push(rows);
    }
    let named: Vec<(&str, &[Row])> =
        names.iter().map(String::as_str).zip(races.iter().map(Vec::as_slice)).collect();
    warn_all(&named, console);
    match &races[..] {
        [one] => give_json(&args.out, &Race::of(one), console)?,
        all => {
            let races = all.iter().map(|rows| Race::of(rows)).collect();
            give_json(&args.out, &Races { schema: SCHEMA, races }, console)?;
        }
    }
    if let Some(path) = &args.out.report {
        report::write(path, "nandu compare", &shown)?;
        console.note(format!("report written to {}", path.display()));
    }
    Ok(())
}

/// Races on several traces.
#[derive(Serialize)]
struct Races<'a> {
    schema: u32,
    races: Vec<Race<'a>>,
}

/// The aligned table of a race.
pub fn table(rows: &[Row]) -> Table {
    let heads = ["<stack", "mean", "p99", "p99.9", "max", "read p99", "write p99", "IOPS", "WAF", "<state"];
    let mut table = Table::new(heads);
    for row in rows {
        let (r, l) = (&row.result, &row.result.total);
        let times = [l.mean_ns, l.p99_ns, l.p99_9_ns, l.max_ns].map(time);
        let of = |l: &Latency| if l.requests > 0 { time(l.p99_ns) } else { "-".into() };
        let waf = r.waf_thousandths.map_or_else(|| "-".into(), thousandths);
        let cells = [row.label.clone()].into_iter().chain(times).chain([of(&r.read), of(&r.write)]);
        table.row(cells.chain([per_second(r.total.requests, r.duration_ns), waf, r.state.name().into()]));
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
            let (l, device) = (&tenant.total, &tenant.device);
            let of = |l: &Latency| if l.requests > 0 { time(l.p99_ns) } else { "-".into() };
            let times =
                [time(l.mean_ns), time(l.p99_ns), time(l.max_ns), of(&tenant.read), of(&tenant.write)];
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
            format!("{} ({}, {hash}), {}, fit {}", w.source, w.origin, w.arrival, w.fit)
        });
        loads.collect::<Vec<_>>().join("; ")
    });
    let states = grouped(rows, |row| row.result.provenance.precondition.clone());
    let seed = rows.first().map_or(0, |r| r.result.provenance.seed);
    let turns = grouped(rows, |row| turns(row.result.extended));
    let turns = if turns.is_empty() { turns } else { format!("; {turns}") };
    format!("load: {loads}{turns}\nprecondition: {states}; seed {seed}\n{RULE}\n")
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
