//! Several stacks, the same requests: runs side by side, and how each compares to the first.

use crate::console::Console;
use crate::failure::Failure;
use crate::open::{Opened, named, open};
use crate::parallel;
use crate::plan::{Common, Plan, extended, plan};
use crate::replay::Replay;
use crate::verdict::{self, Row, all_cautions};
use nandu_base::Registry;
use nandu_sim::samples::Samples;
use nandu_sim::tap::{Look, run_tapped};
use nandu_sim::{Extension, RunOptions, RunResult};
use serde::Serialize;

/// Opens the stacks that are to run side by side, `sets` put over each; names tell them apart.
///
/// # Errors
/// One cannot be opened, or two are given one name.
pub fn open_all(
    names: &[String],
    sets: &[(String, String)],
    registry: &Registry,
) -> Result<Vec<Opened>, Failure> {
    apart(names)?;
    let mut stacks: Vec<Opened> =
        names.iter().map(|name| open(name, sets, registry)).collect::<Result<_, _>>()?;
    tell_apart(&mut stacks);
    Ok(stacks)
}

/// Runs one stack: its load begins again while it is not steady, as `replay` and its kind allow.
///
/// # Errors
/// The load cannot be had, or the run does not take place.
pub fn run(stack: Opened, replay: &Replay, registry: &Registry, console: Console) -> Result<Row, Failure> {
    let mut rows = compare(vec![stack], replay, (1, false), registry, console)?;
    Ok(rows.remove(0))
}

/// Runs all `stacks` on the same requests, so many at a time, and says how each compares to the first. `sampled` keeps the runs over time.
///
/// # Errors
/// The load cannot be had, or a run does not take place.
pub fn compare(
    stacks: Vec<Opened>,
    replay: &Replay,
    (threads, sampled): (usize, bool),
    registry: &Registry,
    console: Console,
) -> Result<Vec<Row>, Failure> {
    race(&planned(stacks, replay, registry, console)?, threads, sampled, console)
}

/// What runs in a race of all `stacks` on the same requests: its load is read.
///
/// # Errors
/// The load cannot be had.
pub fn planned(
    stacks: Vec<Opened>,
    replay: &Replay,
    registry: &Registry,
    console: Console,
) -> Result<Vec<Plan>, Failure> {
    let common = Common { seed: replay.seed(), precondition: replay.precondition(), registry, console };
    let mut plans = plan(stacks, replay, common)?;
    plans.iter_mut().for_each(|plan| extended(&mut plan.options, replay.extend));
    Ok(plans)
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
pub fn tell_apart(stacks: &mut [Opened]) {
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
pub fn race(plans: &[Plan], threads: usize, sampled: bool, console: Console) -> Result<Vec<Row>, Failure> {
    let bar = console.runs(plans.iter().map(Plan::length));
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
        result.map_err(|error| Failure::from(error).at(&plan.opened.label))
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

/// How often a load began again before what counts; nothing where it did not.
pub fn turns(extended: u32) -> String {
    match extended {
        0 => String::new(),
        1 => "measured the second time, the first was not steady".into(),
        n => format!("begun again {n} times, measured the last time"),
    }
}

/// Says what a reader must know before believing the rows.
pub fn warn(rows: &[Row], console: Console) {
    all_cautions(rows).iter().for_each(|caution| caution.say(console));
}

/// The same of races on several loads, which have names: what is true of all of them is said once and without a name.
pub fn warn_all(races: &[(&str, &[Row])], console: Console) {
    let mut told: Vec<(verdict::Caution, Vec<&str>)> = Vec::new();
    for (name, rows) in races {
        for caution in all_cautions(rows) {
            match told.iter_mut().find(|told| told.0 == caution) {
                Some(told) => told.1.push(name),
                None => told.push((caution, vec![name])),
            }
        }
    }
    told.sort_by_key(|told| !told.0.serious);
    for (caution, names) in told {
        let text = match names.len() == races.len() {
            true => caution.text,
            false => format!("on {}: {}", names.join(", "), caution.text),
        };
        verdict::Caution { text, ..caution }.say(console);
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
        Race {
            schema: nandu_sim::result::SCHEMA,
            baseline: rows.first().map_or("", |r| &r.label),
            stacks: stacks.collect(),
        }
    }
}
