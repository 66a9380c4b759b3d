//! `nandu demo`: a race of built-in stacks on a built-in load, in a few seconds.
//!
//! The load is the same for all: 100,000 requests of `mixed-zipf`, 70 % writes, 500 per second. It turns the drive over
//! about four times. What it shows: a drive that is full is several times slower than the same drive new, because
//! garbage collection moves pages; spare flash buys that back; too little of it and the drive does not keep up; a map
//! that is kept on the flash, with 128 KiB of it in RAM, costs a good part of what the spare flash gained, with single
//! entries in RAM (DFTL) or whole translation pages (TPC-FTL); two drives in a stripe share the load, two drives in a
//! mirror share the reads only.

use crate::args::DemoArgs;
use crate::commands::compare::{load_line, table, verdicts};
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::open::{Opened, open};
use crate::output;
use crate::parallel;
use crate::plan::{Common, Plan, extended, plan};
use crate::race::{Race, race, warn};
use crate::replay::Replay;
use crate::report;
use crate::verdict::Row;
use nandu_base::{Precondition, Ratio};

/// One row: its name, the built-in stack, the options that differ, and the state of the drives.
type Entry = (&'static str, &'static str, &'static [(&'static str, &'static str)], Precondition);

const SPARE_7: &[(&str, &str)] = &[("device.ssd.spare_factor", "0.07")];
const DFTL: &[(&str, &str)] =
    &[("device.ssd.mapping.kind", "dftl"), ("device.ssd.mapping.cmt_size", "128 KiB")];
const TPC: &[(&str, &str)] =
    &[("device.ssd.mapping.kind", "tpc-ftl"), ("device.ssd.mapping.cmt_size", "128 KiB")];

const ROWS: [Entry; 8] = [
    ("ssd", "small-ssd", &[], Precondition::Filled),
    ("ssd, new", "small-ssd", &[], Precondition::Empty),
    ("ssd, 7 % spare", "small-ssd", SPARE_7, Precondition::Filled),
    ("ssd, 28 % spare", "small-ssd-spare", &[], Precondition::Filled),
    ("28 %, DFTL", "small-ssd-spare", DFTL, Precondition::Filled),
    ("28 %, TPC-FTL", "small-ssd-spare", TPC, Precondition::Filled),
    ("stripe of two", "ssd-stripe", &[], Precondition::Filled),
    ("mirror of two", "ssd-mirror", &[], Precondition::Filled),
];

/// Requests of the load.
const REQUESTS: u64 = 100_000;

/// Races the built-in examples and writes a page with plots.
pub fn demo(args: &DemoArgs, console: Console) -> Result<(), Failure> {
    files::allow(&[(&args.report, Kind::Page)], &[], args.force)?;
    let plans = plans(args.seed)?;
    let rows = race(&plans, parallel::cores(), true, console)?;
    report::write(&args.report, "nandu demo", &rows)?;
    if args.json {
        output::print_json(&Race::of(&rows))?;
    } else {
        output::print(&text(args, &rows))?;
    }
    warn(&rows, console);
    Ok(())
}

fn text(args: &DemoArgs, rows: &[Row]) -> String {
    format!(
        "Eight ways to serve the same requests. Drives are full of data, except the new one.\n\n{}\n{}\n{}\nplots: {}\n",
        table(rows),
        verdicts(rows),
        load_line(rows),
        args.report.display()
    )
}

fn plans(seed: u64) -> Result<Vec<Plan>, Failure> {
    let stacks: Vec<Opened> = ROWS
        .iter()
        .map(|&(label, name, set, _)| {
            let set: Vec<(String, String)> = set.iter().map(|s| (s.0.into(), s.1.into())).collect();
            Ok(Opened { label: label.into(), ..open(name, &set, crate::registry())? })
        })
        .collect::<Result<_, Failure>>()?;
    let load = Replay {
        trace: Some("mixed-zipf".into()),
        settings: vec!["space=1000MiB".parse().map_err(Failure::failed)?],
        limit: Some(REQUESTS),
        time_scale: Some(Ratio::new(2, 1)),
        ..Replay::default()
    };
    let common = Common {
        seed,
        precondition: Precondition::Filled,
        registry: crate::registry(),
        console: Console::SILENT,
    };
    let mut plans = plan(stacks, &load, common)?;
    for (plan, row) in plans.iter_mut().zip(&ROWS) {
        plan.options.precondition = row.3;
        extended(&mut plan.options, None);
    }
    Ok(plans)
}
