//! `nandu advise`: what can be typed.

use super::ReadArgs;
use super::values::{fit_parser, jobs, precondition, time_scale};
use clap::Args;
use nandu_base::units::{parse_size, parse_span};
use nandu_base::{ByteLen, Precondition, Ratio, Span};
use nandu_trace::fit::Fit;
use std::path::PathBuf;

pub(super) const ADVISE_EXAMPLES: &str = "\
Examples:
  nandu advise mixed-zipf --limit 20000 --gen space=128MiB --p99 20ms --life 0.001y --budget 3
  nandu advise Financial1.spc.zst hm_0.csv.zst --p99 2ms --life 5y --cost prices.toml --out advice
  nandu advise --tenant web=WebSearch1.spc.zst --tenant db=Financial1.spc.zst --p99 2ms --life 5y
  nandu advise uniform --limit 4000 --p99 1s --stack small-ssd --axis device.ssd.planes_per_die=1,2

Without --stack it chooses among drives, spare flash, map, cache, segments, SLC mode, scheduler and mirror; docs/how-to/choose-a-drive.md says
which. With --tenant, bounds on latency hold for each tenant. A search that was killed goes on where it was when it is started again with the same --out.

Exit codes: 0 done, 1 a run failed, 2 the input was wrong, 3 nothing that was tried meets the bounds.";

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|e| e.to_string())
}

fn size(text: &str) -> Result<ByteLen, String> {
    parse_size(text).map_err(|e| e.to_string())
}

/// A tenant's name, and its trace.
fn tenant(text: &str) -> Result<(String, String), String> {
    let right = "write NAME=TRACE, for example web=WebSearch1.spc";
    let (name, trace) = text.split_once('=').ok_or(right)?;
    nandu_experiment::advise::tenant_name(name).map_err(|why| format!("{why}; {right}"))?;
    if trace.is_empty() {
        return Err(format!("there is no trace; {right}"));
    }
    Ok((name.into(), trace.into()))
}

/// `nandu advise`.
#[derive(Args, Debug)]
pub struct AdviseArgs {
    /// Trace files, or names of generators; what is advised has to serve each of them
    #[arg(required_unless_present = "tenant", conflicts_with = "tenant", num_args = 1.., value_name = "FILE|NAME")]
    pub traces: Vec<String>,
    /// A tenant and its trace, more than once: the traces of all tenants run at the same time on one stack
    #[arg(long, value_name = "TENANT=FILE|NAME", value_parser = tenant)]
    pub tenant: Vec<(String, String)>,
    /// Longest 99th percentile of latency, for example 2ms
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub p99: Option<Span>,
    /// Least lifetime of the flash, by its most worn block: 5y
    #[arg(long, value_name = "YEARS", value_parser = nandu_experiment::advise::life)]
    pub life: Option<u64>,
    /// A further bound, for example 'read_p99<=1 ms'; `nandu list metrics` shows the metrics
    #[arg(long, value_name = "METRIC<=LIMIT|METRIC>=LIMIT")]
    pub bound: Vec<String>,
    /// Prices (TOML) in place of the rough ones that are built in
    #[arg(long, value_name = "FILE.toml")]
    pub cost: Option<PathBuf>,
    /// Size of the drives, or several among which it chooses: 64GiB,128GiB [default: what the traces touch, and a tenth]
    #[arg(long, value_name = "SIZE,...", value_parser = size, value_delimiter = ',', conflicts_with = "stack")]
    pub capacity: Vec<ByteLen>,
    /// Vary this stack by --axis, instead of the built-in choice
    #[arg(long, value_name = "STACK", requires = "axis")]
    pub stack: Option<String>,
    /// With --stack: what varies, as for `nandu sweep`
    #[arg(long, value_name = "PATH=VALUES", requires = "stack")]
    pub axis: Vec<String>,
    /// Work of the search in runs of all requests [default: a tenth of the variants, 24 to 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub budget: Option<u64>,
    /// Measure every variant; for at most 512 of them
    #[arg(long, conflicts_with = "budget")]
    pub exhaustive: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub read: ReadArgs,
    /// How traces are laid onto the drives [default: compact]
    #[arg(long, value_name = "HOW", value_parser = fit_parser())]
    pub fit: Option<Fit>,
    /// Factor on the times between arrivals: 0.5 sends twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = time_scale, conflicts_with = "iodepth")]
    pub time_scale: Option<Ratio>,
    /// Keep N requests outstanding, whatever the arrival times (closed loop)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: Option<u32>,
    /// Have the load begin again up to N times while the stack is not steady, as for `nandu run`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub extend: Option<u32>,
    /// State of every drive when a run begins, as for `nandu run` [default: aged]
    #[arg(long, value_name = "STATE", value_parser = precondition)]
    pub precondition: Option<Precondition>,
    /// Print JSON with stable field names
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Folder of the journal: what is in it is not run again
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write the winning stack file
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    pub best: Option<PathBuf>,
    /// Write a self-contained page
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Replace files that are there, also inputs and what Nandu did not write
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Runs at the same time [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs(), help_heading = "Output")]
    pub jobs: Option<usize>,
}
