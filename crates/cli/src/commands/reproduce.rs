//! `nandu reproduce`: the claims of a paper, measured.

use super::give_json;
use crate::args::ReproduceArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::three;
use crate::output;
use crate::parallel;
use crate::reproduce::expected::ClaimKind;
use crate::reproduce::record::{Counts, Form, Record};
use crate::reproduce::runner::{self, Runner};
use crate::reproduce::{self, Outcome, PAPERS, Paper, Reproduction, Sheet};
use crate::table::Table;
use nandu_base::registry::nearest;
use nandu_trace::synth;
use std::path::Path;

/// Measures the claims of one paper, or of all.
pub fn reproduce(args: &ReproduceArgs, console: Console) -> Result<(), Failure> {
    let recorded: Vec<&Path> = args.trace.iter().map(|(_, file)| Path::new(file)).collect();
    let outputs: Vec<(&Path, Kind)> = args.out.files().collect();
    files::allow(&outputs, &recorded, args.out.force)?;
    let papers: Vec<&Paper> = match &args.paper {
        Some(name) => vec![reproduce::paper(name)?],
        None => PAPERS.iter().collect(),
    };
    recorded_exist(&args.trace)?;
    are_claimed(&args.only, &papers)?;
    let form = Form::of(args.requests, args.quick);
    let runner = |paper: &Paper| Runner {
        seed: args.seed,
        requests: args.requests.unwrap_or(if args.quick { paper.quick } else { paper.requests }),
        recorded: args.trace.iter().cloned().collect(),
        registry: crate::registry().clone(),
        jobs: args.jobs.unwrap_or_else(parallel::cores),
        only: args.only.clone(),
        quick: form == Form::Quick,
        instead: args.instead.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        console,
    };
    let done: Vec<Reproduction> = papers.iter().map(|p| p.reproduce(&runner(p))).collect::<Result<_, _>>()?;
    if !args.out.json {
        for r in &done {
            output::print(&text(r))?;
        }
    }
    give_json(&args.out, &done.iter().map(|r| Record::of(r, form)).collect::<Vec<_>>(), console)?;
    if let Some(path) = &args.out.report {
        crate::report::reproduction::write(path, &done)?;
        console.note(format!("report written to {}", path.display()));
    }
    Ok(())
}

/// Loads that some paper has and no generator stands for.
const RECORDED_ONLY: [&str; 2] = ["websearch2", "websearch3"];

/// Each recorded trace must stand for a load that there is, and be there.
fn recorded_exist(recorded: &[(String, String)]) -> Result<(), Failure> {
    let known = || synth::all().map(|s| s.name).chain(RECORDED_ONLY);
    for (name, file) in recorded {
        if !known().any(|k| k == name) {
            let hint = nearest(name, known()).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            return Err(Failure::input(format!("--trace {name}={file}: no load is called `{name}`{hint}"))
                .with_help("`nandu list generators` shows those that a recorded trace can stand for"));
        }
        if !Path::new(file).is_file() {
            return Err(Failure::input(format!("--trace {name}={file}: no such file `{file}`")));
        }
    }
    Ok(())
}

/// Each claim that is asked for must be one of these papers', and so must its case.
fn are_claimed(only: &[String], papers: &[&Paper]) -> Result<(), Failure> {
    let expected: Vec<_> = papers.iter().map(|paper| paper.expected()).collect();
    let claims = || expected.iter().flat_map(|e| &e.claims);
    for asked in only {
        let (id, case) = runner::asked(asked);
        let mut cases = claims().filter(|claim| claim.id == id).map(|claim| claim.case.as_str()).peekable();
        if cases.peek().is_none() {
            // Some of a claim's cases may be ours; then its number comes twice.
            let mut ids: Vec<&str> = Vec::new();
            for claim in claims() {
                if !ids.contains(&claim.id.as_str()) {
                    ids.push(&claim.id);
                }
            }
            let known = ids.join(", ");
            return Err(Failure::input(format!(
                "--only {asked}: no claim is called `{id}`; there is {known}"
            )));
        }
        if let Some(case) = case.filter(|case| cases.clone().all(|known| known != *case)) {
            let known = cases.map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
            return Err(Failure::input(format!("--only {asked}: {id} has no case `{case}`; it has {known}")));
        }
    }
    Ok(())
}

fn text(r: &Reproduction) -> String {
    let kinds = ClaimKind::ALL.into_iter().filter(|kind| r.outcomes.iter().any(|o| o.kind == *kind));
    let tables = kinds.clone().map(|kind| format!("{}\n{}\n", kind.words(), table(&r.outcomes, kind)));
    let counts = kinds.map(|kind| Counts::of(&r.outcomes, kind).words());
    format!(
        "{}\n{}\n\n{}{}\n{}{}{} requests for each load, seed {}\n",
        r.expected.title,
        r.expected.question,
        tables.collect::<String>(),
        reasons(&r.outcomes),
        r.tables.iter().map(sheet).collect::<String>(),
        counts.collect::<String>(),
        crate::format::count(r.requests),
        r.seed
    )
}

/// The claims of a kind, one a row.
fn table(outcomes: &[Outcome], kind: ClaimKind) -> Table {
    let heads = ["<claim", "<case", "claimed", "measured", "<unit", "<verdict", "<load"];
    let mut table = Table::new(heads);
    for o in outcomes.iter().filter(|o| o.kind == kind) {
        table.row([
            o.claim.id.clone(),
            o.claim.case.clone(),
            o.claim.claimed.clone(),
            o.measured.map_or_else(|| "-".into(), figure),
            o.claim.unit.clone(),
            o.verdict.words().into(),
            o.origin.clone(),
        ]);
    }
    table
}

/// A table without verdicts, under its title.
fn sheet(sheet: &Sheet) -> String {
    let mut table = Table::new(sheet.heads.iter().copied());
    sheet.rows.iter().for_each(|row| table.row(row.iter().cloned()));
    format!("{}\n{table}\n", sheet.title)
}

/// What each claim says, and what explains the figure.
fn reasons(outcomes: &[Outcome]) -> String {
    let line = |o: &Outcome| {
        let reason = if o.reason.is_empty() { String::new() } else { format!(": {}", o.reason) };
        format!("{} {}: {}{reason}\n", o.claim.id, o.claim.case, o.claim.says)
    };
    outcomes.iter().map(line).collect()
}

/// A measured figure with three digits; differences may be below zero.
fn figure(value: f64) -> String {
    if value < 0.0 { format!("-{}", three(-value)) } else { three(value) }
}
