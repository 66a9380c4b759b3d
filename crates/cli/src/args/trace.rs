//! `nandu trace`: what can be typed.

use super::values::{BadLinesArg, columns, format_parser, jobs, policy, sample, some};
use crate::source::{GenSetting, Wanted};
use clap::{Args, Subcommand};
use nandu_base::units::parse_size;
use nandu_base::{ByteLen, Ratio};
use nandu_experiment::mrc::{CacheSize, Policy};
use nandu_trace::Columns;
use std::path::PathBuf;

/// `nandu trace`.
#[derive(Subcommand, Debug)]
pub enum TraceCommand {
    /// Measure traces as papers do: counts, sizes, arrivals, footprint, reuse
    #[command(
        after_help = "Examples:\n  nandu trace info mixed-zipf --gen requests=10000\n  nandu trace info Financial1.spc.zst --streams"
    )]
    Info(InfoArgs),
    /// Convert a trace to another format
    #[command(
        after_help = "Examples:\n  nandu trace convert Financial1.spc.bz2 financial1.parquet\n  nandu trace convert hm_0.csv hm_0.txt.zst --to mqsim --fit compact"
    )]
    Convert(ConvertArgs),
    /// Write the requests of a generator to a file
    #[command(
        after_help = "Examples:\n  nandu trace generate mixed-zipf mixed.parquet --gen requests=10000\n  nandu trace generate financial1 f1.spc.zst --limit 20000 --seed 7"
    )]
    Generate(GenerateArgs),
    /// Miss ratios of caches by size, page by page and without a device
    #[command(
        after_help = "Examples:\n  nandu trace mrc mixed-zipf --gen requests=20000\n  nandu trace mrc mixed-zipf --gen requests=20000 --policy lru,arc,s3-fifo,sieve --sizes 1000,64MiB"
    )]
    Mrc(MrcArgs),
}

/// `nandu trace mrc`.
#[derive(Args, Debug)]
pub struct MrcArgs {
    /// Trace file, or name of a generator
    #[arg(value_name = "FILE|NAME")]
    pub trace: String,
    /// Who goes when memory is short
    #[arg(long, value_name = "POLICY,..", value_delimiter = ',', default_value = "lru,arc,s3-fifo,sieve", value_parser = policy)]
    pub policy: Vec<Policy>,
    /// Sizes of the cache: blocks of 4 KiB, or bytes with a unit. Without it 20 sizes up to the footprint
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',')]
    pub sizes: Vec<CacheSize>,
    /// Bring the whole segment of a block that is read and not there. Policies by segment take 32 KiB without it
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub segment: Option<ByteLen>,
    /// Estimate the curves from this share of the blocks, with their standard error: 1/100, 1%
    #[arg(long, value_name = "SHARE", value_parser = sample)]
    pub sample: Option<Ratio>,
    /// Find blocks by a hashed table and not by number
    #[arg(long)]
    pub hashed: bool,
    /// Go through the trace N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Sizes and policies at the same time; all cores without it
    #[arg(long, value_name = "N", value_parser = jobs())]
    pub jobs: Option<usize>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub read: ReadArgs,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// How a trace is read.
#[derive(Args, Debug, Clone)]
pub struct ReadArgs {
    /// Take only the first N requests
    #[arg(long, value_name = "N", value_parser = some)]
    pub limit: Option<u64>,
    /// Format of the trace file; recognised by content without it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub trace_format: Option<String>,
    /// What the columns of a file in no known format are, or of Parquet: time:us,op,offset:sectors,size, or a file in TOML
    #[arg(long, value_name = "LIST|FILE.toml", value_parser = columns, conflicts_with = "trace_format")]
    pub columns: Option<Columns>,
    /// What to do with lines that are wrong
    #[arg(long, value_name = "HOW", default_value = "stop")]
    pub bad_lines: BadLinesArg,
    /// Set a parameter of a generator
    #[arg(long = "gen", value_name = "KEY=VALUE")]
    pub settings: Vec<GenSetting>,
    /// Seed of a generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl ReadArgs {
    /// The trace `name`, read like this.
    pub fn wanted(&self, name: &str) -> Wanted {
        Wanted {
            name: name.into(),
            settings: self.settings.clone(),
            limit: self.limit,
            format: self.trace_format.clone(),
            columns: self.columns.clone(),
            bad_lines: self.bad_lines.into(),
            seed: self.seed,
            room: None,
        }
    }
}

/// `nandu trace info`.
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// Trace files, or names of generators
    #[arg(required = true, num_args = 1.., value_name = "FILE|NAME")]
    pub traces: Vec<String>,
    /// One row for each stream (volume, ASU, disk)
    #[arg(long)]
    pub streams: bool,
    /// Leave out how often pages come back, which takes most of the time
    #[arg(long)]
    pub no_reuse: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub read: ReadArgs,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// How a trace is written.
#[derive(Args, Debug, Clone)]
pub struct WriteArgs {
    /// Format of the output; by the extension without it (.parquet, .spc, .msr, ...; .zst behind it compresses)
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub to: Option<String>,
    /// Leave out what the format has no word for, and count it
    #[arg(long)]
    pub drop: bool,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
}

/// `nandu trace convert`.
#[derive(Args, Debug)]
pub struct ConvertArgs {
    /// Trace file, or name of a generator
    pub input: String,
    /// The file to write
    pub output: PathBuf,
    /// Lay all streams into one address space first
    #[arg(long, value_name = "HOW", value_parser = clap::builder::PossibleValuesParser::new(["concat", "compact"]))]
    pub fit: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub write: WriteArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub read: ReadArgs,
}

/// `nandu trace generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// The generator
    pub name: String,
    /// The file to write
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub write: WriteArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub read: ReadArgs,
}
