//! `nandu advise`: which drive, spare flash, map, cache and so on meets the bounds on all traces for the least money. What is computed stands in
//! [`nandu_experiment::advise`]; [`text`] is what is said.

mod text;

use crate::UNMET;
use crate::args::AdviseArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::output;
use crate::parallel;
use crate::replay::{Replay, file_of_columns};
use crate::source::generator;
use nandu_experiment::advise::{Advice, Advisor, Asked, winner};
use std::path::{Path, PathBuf};

/// Advises.
pub fn advise(args: &AdviseArgs, console: Console) -> Result<u8, Failure> {
    let outputs = args.best.iter().map(|p| (p.as_path(), Kind::Winner));
    let outputs: Vec<(&Path, Kind)> =
        outputs.chain(args.report.iter().map(|p| (p.as_path(), Kind::Page))).collect();
    let files = args.traces.iter().chain(args.tenant.iter().map(|(_, trace)| trace));
    let columns = args.read.columns.as_ref().and_then(file_of_columns);
    let read = files.chain(&args.stack).map(PathBuf::from).chain(args.cost.clone()).chain(columns);
    let inputs: Vec<PathBuf> = read.collect();
    files::allow(&outputs, &inputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), args.force)?;
    let asked = asked(args);
    let advisor = Advisor::prepare(&asked, crate::registry(), console)?;
    let found = advisor.find()?;
    let advice = Advice::of(&advisor, &found)?;
    advisor.ends();
    match args.json {
        true => output::print_json(&advice)?,
        false => output::print(&text::text(&advice))?,
    }
    advice.cautions().iter().for_each(|caution| caution.say(console));
    let written = |path: &Path, text: &str| {
        files::write_file(path, |out| {
            out.write_all(text.as_bytes()).map_err(|e| Failure::unwritable(path, &e))
        })
    };
    if let Some(path) = &args.best
        && let Some(text) = winner(&advisor, &found, &advice)?
    {
        written(path, &text)?;
        console.note(format!("{} written", path.display()));
    }
    if let Some(path) = &args.report {
        written(path, &text::page(&advice))?;
        console.note(format!("report written to {}", path.display()));
    }
    Ok(if advice.meets { 0 } else { UNMET })
}

fn asked(args: &AdviseArgs) -> Asked {
    Asked {
        traces: args.traces.iter().map(|name| replay(args, name)).collect(),
        tenants: args.tenant.iter().map(|(name, trace)| (name.clone(), replay(args, trace))).collect(),
        p99: args.p99,
        life: args.life,
        bound: args.bound.clone(),
        cost: args.cost.clone(),
        capacity: args.capacity.clone(),
        stack: args.stack.clone(),
        axis: args.axis.clone(),
        budget: args.budget,
        exhaustive: args.exhaustive,
        threads: args.jobs.unwrap_or_else(parallel::cores),
        out: args.out.clone(),
    }
}

/// One trace: a generator has settings, a file a format.
fn replay(args: &AdviseArgs, name: &str) -> Replay {
    let read = &args.read;
    let made = generator(name, crate::registry()).is_some();
    Replay {
        trace: Some(name.into()),
        settings: if made { read.settings.clone() } else { Vec::new() },
        limit: read.limit,
        trace_format: read.trace_format.clone().filter(|_| !made),
        columns: read.columns.clone().filter(|_| !made),
        bad_lines: read.bad_lines.into(),
        fit: args.fit,
        time_scale: args.time_scale,
        closed: args.iodepth,
        extend: args.extend,
        seed: Some(read.seed),
        precondition: args.precondition,
        ..Replay::default()
    }
}
