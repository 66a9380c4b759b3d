//! `nandu trace mrc`: curves of miss ratios, page by page, without a device.

use crate::args::MrcArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::format::{count, size};
use crate::output;
use crate::parallel;
use crate::source;
use crate::table::Table;
use nandu_experiment::mrc::{Asked, Point, Policy, curves};

/// Prints the curve of each policy.
pub fn mrc(args: &MrcArgs, console: Console) -> Result<(), Failure> {
    let trace = source::requests(&args.read.wanted(&args.trace), crate::registry(), console)?;
    let asked = Asked {
        policies: args.policy.clone(),
        sizes: args.sizes.clone(),
        segment: args.segment,
        sample: args.sample,
        hashed: args.hashed,
        repeat: args.repeat,
        threads: args.jobs.unwrap_or_else(parallel::cores),
    };
    let waiting = console.waiting("finding the curves");
    let curves = curves(trace, &args.trace, &asked)?;
    drop(waiting);
    match args.json {
        true => output::print_json(&curves.to_json()),
        false => output::print(&text(args, &curves.points)),
    }
}

/// One row for each size, one column for each policy.
fn text(args: &MrcArgs, points: &[Point]) -> String {
    let names = args.policy.iter().map(Policy::name);
    let mut table = Table::new(["blocks", "memory"].into_iter().chain(names));
    for row in points.chunks(args.policy.len()) {
        let ratios = row.iter().map(|p| match p.standard_error {
            Some(error) => format!("{:.4} +- {error:.4}", p.miss_ratio),
            None => format!("{:.4}", p.miss_ratio),
        });
        table.row([count(row[0].blocks), size(row[0].bytes)].into_iter().chain(ratios));
    }
    let accesses = points.first().map_or(0, |p| p.accesses);
    let sample = points.iter().find_map(|p| p.sampled_accesses).map_or_else(String::new, |sampled| {
        format!("; from a sample of {} of them, +- is the standard error", count(sampled))
    });
    format!(
        "{table}\nmiss ratios of {} accesses to blocks of 4 KiB, reads and writes alike{sample}\n",
        count(accesses)
    )
}
