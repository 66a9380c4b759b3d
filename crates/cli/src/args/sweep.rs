//! `nandu sweep`: what can be typed.

use super::LoadArgs;
use super::values::{precondition, set};
use clap::Args;
use nandu_base::Precondition;
use nandu_sweep::Shard;
use std::path::PathBuf;

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  nandu sweep small-ssd --trace mixed-zipf --limit 3000 --axis device.ssd.spare_factor=0.1,0.2 --minimise p99
  nandu sweep hybrid.toml --trace Financial1.spc.zst --fit wrap --axis 'device.disk.spin_down=2 s,5 s,10 s' \\
    --bound 'lifetime>=5 years' --minimise p99 --minimise energy --out results
  nandu sweep stacks/sweeps/hybrid-ratio.toml --dry-run

The first goal decides which point of the front is the best. A sweep that was killed goes on where it was when it is
started again with the same --out. `nandu list metrics` shows what bounds and goals can speak of.

Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 no point meets the bounds.";

/// `nandu sweep`.
#[derive(Args, Debug)]
pub struct SweepArgs {
    /// Sweep file, or the stack that is varied: a file, or the name of a built-in stack
    #[arg(value_name = "SWEEP|STACK")]
    pub what: String,
    /// What varies: values, or FROM..TO+STEP or FROM..TO*FACTOR; parameters that change together are parted by `;`
    #[arg(long, value_name = "PATH=VALUES")]
    pub axis: Vec<String>,
    /// What a point must meet, for example 'p99<=20 ms'
    #[arg(long, value_name = "METRIC<=LIMIT|METRIC>=LIMIT")]
    pub bound: Vec<String>,
    /// A metric to have little of; the first goal decides
    #[arg(long, visible_alias = "minimize", value_name = "METRIC")]
    pub minimise: Vec<String>,
    /// A metric to have much of; these goals come after those of --minimise
    #[arg(long, visible_alias = "maximize", value_name = "METRIC")]
    pub maximise: Vec<String>,
    /// A further metric to show
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// How points are chosen
    #[arg(long, value_name = "NAME")]
    pub search: Option<String>,
    /// Leave points out that cannot be built, instead of refusing the sweep
    #[arg(long)]
    pub skip_invalid: bool,
    /// Let points count where requests came faster than they were served
    #[arg(long)]
    pub allow_saturated: bool,
    /// Let points count that were not in steady state
    #[arg(long)]
    pub allow_unsteady: bool,
    /// Set an option of the stack in all points, for example device.ssd.gc.kind=greedy; without a VALUE it is left out
    #[arg(long, value_name = "PATH=[VALUE]", value_parser = set)]
    pub set: Vec<(String, String)>,
    /// State of every drive when a run begins, as for `nandu run` [default: filled]
    #[arg(long, value_name = "STATE", value_parser = precondition)]
    pub precondition: Option<Precondition>,
    /// Random seed, the same in all points [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub load: LoadArgs,
    /// Folder of results: journal, points.json, points.parquet, report.html, best.toml. What is in its journal is not run again
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Folder of another sweep, for example of a shard, whose points need not be run again
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub from: Vec<PathBuf>,
    /// Measure only part I of N, from 0/N to N-1/N; --from joins them
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = "Output")]
    pub shard: Option<Shard>,
    /// Show the points and how long they take, and run none of them
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Print JSON with stable field names
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write a self-contained page with the front
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Write all points as Parquet
    #[arg(long, value_name = "FILE.parquet", help_heading = "Output")]
    pub parquet: Option<PathBuf>,
    /// Write the winning stack file
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    pub best: Option<PathBuf>,
    /// Replace files that are there, also inputs and what Nandu did not write
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Runs at the same time [default: one for each core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
}
