//! What can be typed: commands, options, and the examples that each help ends with (the tests run them).

mod advise;
pub(crate) mod renamed;
mod sweep;
mod trace;
mod values;

pub use advise::AdviseArgs;
pub use sweep::SweepArgs;
pub use trace::{ConvertArgs, GenerateArgs, InfoArgs, MrcArgs, ReadArgs, TraceCommand, WriteArgs};
pub use values::BadLinesArg;

use crate::files::Kind;
use crate::replay::{Load, Replay};
use crate::source::{GenSetting, WarmUp};
use advise::ADVISE_EXAMPLES;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use nandu_base::{ByteLen, Precondition, Ratio, Span};
use nandu_trace::Columns;
use nandu_trace::fit::Fit;
use std::path::{Path, PathBuf};
use sweep::SWEEP_EXAMPLES;
use values::{
    columns, connections, fit_parser, format_parser, jobs, parse_span, poll_time, precondition, rate,
    repeats, set, size, some, time_or_zero, time_scale, window,
};

/// Flash storage you can simulate, compare and mount.
///
/// A stack file describes storage: drives, arrays, and what stands on them. `run` replays a trace on it, `compare` races
/// several, `check` says what is in it. STACK is a file, or the name of a stack that comes with Nandu
/// (`nandu list stacks`); a trace is a file, or the name of a generator (`nandu list generators`).
#[derive(Parser, Debug)]
#[command(
    name = "nandu",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = false,
    after_help = "Example:\n  nandu demo\n\nExit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 no point of a sweep meets the bounds."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print only errors.
    // Its place in a help is not to move with the number of commands.
    #[arg(long, short, global = true, display_order = 15)]
    pub quiet: bool,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Race built-in stacks on a built-in load and write a page with plots
    #[command(after_help = "Example:\n  nandu demo --report nandu-demo.html")]
    Demo(DemoArgs),
    /// Replay a trace on one stack and say where the time went
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Replay the same trace on several stacks, side by side
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Compare two results
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// Vary a stack, run all variants on all cores, and find the best that meets the bounds
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(SweepArgs),
    /// Choose drive, spare flash, map, cache and more for traces, by bounds on latency and lifetime
    #[command(after_help = ADVISE_EXAMPLES)]
    Advise(AdviseArgs),
    /// Measure the claims of a paper, one by one, with a verdict for each
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Check every read of random loads on random stacks, with power cuts, from seeds
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Measure how read time depends on size and depth: of a stack, or of a real file or device, which is only read
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
    /// Serve a stack as a real block device to NBD clients
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Ask a running server, and tell it what to do
    #[command(after_help = CTL_EXAMPLES)]
    Ctl(CtlArgs),
    /// Say what lies on files and devices: which set, which member, how it stands, and what a start would do
    #[command(
        after_help = "Examples:\n  nandu examine a.img b.img\n  nandu examine /dev/sdb /dev/sdc --json\n\nFiles and devices are only read. What is said of a start is without --create and --force-degraded. Members are called by their files here; `nandu ctl` knows them by the names of the stack file."
    )]
    Examine(ExamineArgs),
    /// Make a set of blank files or devices, and the stack file that serves it
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Write the stack file of a set whose members are found by what lies on them
    #[command(after_help = ASSEMBLE_EXAMPLES)]
    Assemble(AssembleArgs),
    /// End a running server cleanly and wait for that
    #[command(after_help = "Example:\n  nandu stop /run/nandu.ctl")]
    Stop(StopArgs),
    /// List devices with their options, policies, profiles, generators, formats, metrics, bugs to inject, stacks
    #[command(
        after_help = "Examples:\n  nandu list\n  nandu list devices\n  nandu list ssd\n  nandu list generators --json"
    )]
    List(ListArgs),
    /// Say what an option of stack files is: unit, range, default, and which devices have it
    #[command(
        after_help = "Examples:\n  nandu explain spare_factor\n  nandu explain device.ssd.gc.threshold\n  nandu explain chunk --json"
    )]
    Explain(KeyArgs),
    /// Check stack files and show their devices with capacities and limits
    #[command(
        after_help = "Examples:\n  nandu check page-map\n  nandu check stacks/stripe.toml --set device.stripe.chunk=128KiB\n  nandu check page-map --print"
    )]
    Check(CheckArgs),
    /// Print the JSON schema of stack files, for editors
    #[command(after_help = "Example:\n  nandu schema > nandu.schema.json")]
    Schema,
    /// Measure, convert and make traces
    #[command(
        subcommand,
        after_help = "Example:\n  nandu trace generate mixed-zipf load.parquet --gen requests=10000"
    )]
    Trace(TraceCommand),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  nandu completions bash > ~/.local/share/bash-completion/completions/nandu"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print pages of the manual, or write all of them into a folder
    #[command(after_help = "Examples:\n  nandu man serve | man -l -\n  nandu man --into man1")]
    Man(ManArgs),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  nandu create mirror a.img b.img --size 16GiB -o disk.toml
  nandu create hetero-mirror /dev/nvme0n1p4 /dev/sdb --integrity -o disk.toml
  nandu create parity /dev/sdb /dev/sdc /dev/sdd --set chunk=128KiB -o array.toml
  nandu create hybrid slc=/dev/nvme0n1p4 disk=/dev/sdb -o tier.toml

Members must be blank: what holds something is refused. Sizes come from the files and devices; a file that is missing or
empty is made with --size. The stack file must not be there yet. `nandu list mirror` shows the options of a
mirror.";

const ASSEMBLE_EXAMPLES: &str = "\
Examples:
  nandu assemble /dev/sdb /dev/sdc -o disk.toml
  nandu assemble /dev/sd? --stack disk.toml -o now.toml
  nandu assemble a.img b.img --hetero

The devices and what a start would do are said on standard error, the stack file goes to standard output without -o. With
--stack all options stay as they stand in that file, and each member that was found is placed in it; without it options
that do not lie on the members have their defaults. Nothing on the members is changed.";

const RUN_EXAMPLES: &str = "\
Examples:
  nandu run page-map --trace mixed-zipf --gen requests=100000
  nandu run stacks/stripe.toml --trace uniform --gen requests=20000 --iodepth 16
  nandu run small-ssd --trace mixed-zipf --gen requests=50000 --fit wrap --verify
  nandu run small-ssd --trace mixed-zipf --limit 50000 --slowest 5 --timeline timeline.json
  nandu run my.toml --trace WebSearch1.spc.zst --fit compact --report result.html";

const COMPARE_EXAMPLES: &str = "\
Examples:
  nandu compare page-map stripe --trace mixed-zipf --gen requests=50000 --gen space=512MiB
  nandu compare memory=stacks/memory.toml stacks/stripe.toml --trace uniform --gen requests=20000
  nandu compare a.toml b.toml --trace Financial1.spc.zst --fit compact --report race.html

The first stack is the baseline. All replay the same requests: the trace is fitted once, to the smallest export.
NAME=STACK gives a row a name of its own.";

const DIFF_EXAMPLES: &str = "\
Examples:
  nandu diff a.json b.json
  nandu diff a.json b.json --above 5 --all --report diff.html

Results are what run, compare, sweep and advise print with --json.";

/// A change in percent, from 0 up.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("a number from 0 up is needed, for example 5 or 0.5".into()),
    }
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  nandu reproduce tpc-ftl --quick
  nandu reproduce segment-prefetch --quick
  nandu reproduce tpc-ftl --quick --report tpc-ftl.html
  nandu reproduce tpc-ftl --trace financial1=Financial1.spc.zst

What counts as reproduced was set before the measurement: experiments/*/expected.json.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  nandu verify --seeds 20
  nandu verify faulty --seeds 10 --crash
  nandu verify ssd --seeds 50 --crash --inject-bug ssd.stale-map

With --inject-bug, exit code 0 says that the bug was found.";

const PROBE_EXAMPLES: &str = "\
Examples:
  nandu probe page-map
  nandu probe page-map --set device.ssd.planes_per_die=4 --json
  nandu probe /dev/nvme0n1

A file or device is opened for reading only, past the page cache; it is never written.";

const CTL_EXAMPLES: &str = "\
Examples:
  nandu ctl /run/nandu.ctl status
  nandu ctl /run/nandu.ctl add leg-b
  nandu ctl /run/nandu.ctl replace leg-b with /srv/new.img
  nandu ctl /run/nandu.ctl scrub mirror check";

const SERVE_EXAMPLES: &str = "\
Examples:
  nandu serve memory -U /tmp/nandu.sock
  nandu serve mirror.toml -p 10809 --create
  nandu serve memory --run 'qemu-img info \"$uri\"'

The address to connect to is printed on stdout. SIGTERM or SIGINT ends it cleanly.";

/// What a run replays, and how.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Trace file, `-` for standard input, or name of a generator. Without it the stack's own workloads run
    #[arg(long, short, value_name = "FILE|NAME")]
    pub trace: Option<String>,
    /// Set a parameter of the generator; `nandu list generators` shows them
    #[arg(long = "gen", value_name = "KEY=VALUE")]
    pub settings: Vec<GenSetting>,
    /// How the trace is laid onto the device
    #[arg(long, value_name = "HOW", value_parser = fit_parser())]
    pub fit: Option<Fit>,
    /// Factor on the times between arrivals: 0.5 sends twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = time_scale, conflicts_with_all = ["iodepth", "rate_iops"])]
    pub time_scale: Option<Ratio>,
    /// Keep N requests outstanding, whatever the arrival times (closed loop)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), conflicts_with = "rate_iops")]
    pub iodepth: Option<u32>,
    /// Send N requests per second, whatever the arrival times
    #[arg(long, value_name = "N/s", value_parser = rate)]
    pub rate_iops: Option<Span>,
    /// Maximum number of outstanding requests; later arrivals wait in front of the stack [default: 65536]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "iodepth")]
    pub max_outstanding: Option<u32>,
    /// Requests at the start that do not count: a number, or a share such as 10%
    #[arg(long, value_name = "N|%")]
    pub warmup: Option<WarmUp>,
    /// Replay the trace N times in a row
    #[arg(long, value_name = "N", value_parser = repeats)]
    pub repeat: Option<u32>,
    /// Have the load begin again up to N times while the stack is not steady, and count only the last time; 0 turns it off
    ///
    /// Without it generated loads begin again up to 8 times, as long as that makes no more than 20 million requests; recordings
    /// are replayed as they are.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub extend: Option<u32>,
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
    /// The export that takes the requests; needed when the stack has several
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
}

impl LoadArgs {
    /// The same as the library takes it, with the seed and the state of drives that the program's defaults give.
    pub fn replay(&self) -> Replay {
        Replay {
            trace: self.trace.clone().map(Load::Named),
            settings: self.settings.clone(),
            fit: self.fit,
            time_scale: self.time_scale,
            closed: self.iodepth,
            rate: self.rate_iops,
            cap: self.max_outstanding,
            warm_up: self.warmup,
            repeat: self.repeat,
            extend: self.extend,
            limit: self.limit,
            trace_format: self.trace_format.clone(),
            columns: self.columns.clone(),
            bad_lines: self.bad_lines.into(),
            export: self.export.clone(),
            seed: None,
            precondition: None,
            notes: Vec::new(),
        }
    }
}

/// How stacks are changed and prepared.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Stack")]
pub struct StackArgs {
    /// Set an option of the stack, for example device.ssd.gc.kind=greedy; without a VALUE it is left out
    #[arg(long, value_name = "PATH=[VALUE]", value_parser = set)]
    pub set: Vec<(String, String)>,
    /// State of every drive when the run begins: empty, filled, fragmented:SHARE, aged
    ///
    /// `empty`: nothing was ever written, and reads of such pages cost nothing. `filled`: every logical page was written once, in
    /// order. `fragmented:30%`: every page was written once, and of the logical neighbours 30 % are apart. `aged`:
    /// overwritten at random until write amplification no longer changes.
    #[arg(long, value_name = "STATE", default_value = "filled", value_parser = precondition)]
    pub precondition: Precondition,
    /// Random seed; equal seeds give byte-identical output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// How results are shown.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct OutArgs {
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
    /// Write the same JSON to a file, whatever is printed
    #[arg(long, value_name = "FILE.json")]
    pub export_json: Option<PathBuf>,
    /// Write a self-contained page with plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Replace files that are there, also inputs and what Nandu did not write
    #[arg(long)]
    pub force: bool,
}

impl OutArgs {
    /// The files that are written.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Kind)> {
        let (page, json) = (self.report.as_deref(), self.export_json.as_deref());
        page.map(|path| (path, Kind::Page)).into_iter().chain(json.map(|path| (path, Kind::Json)))
    }

    /// Whether the JSON is wanted anywhere.
    pub fn wants_json(&self) -> bool {
        self.json || self.export_json.is_some()
    }
}

/// `nandu demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
    /// Where the page with plots goes
    #[arg(long, value_name = "FILE.html", default_value = "nandu-demo.html")]
    pub report: PathBuf,
    /// Replace the file of --report, also one that Nandu did not write
    #[arg(long)]
    pub force: bool,
    /// Random seed; equal seeds give byte-identical output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// A closer look at single requests.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Single requests")]
pub struct ExplainArgs {
    /// Show the N slowest requests, and where the time of each went
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub slowest: Option<u32>,
    /// Write every request with its critical path, as comma-separated values
    #[arg(long, value_name = "FILE.csv")]
    pub request_log: Option<PathBuf>,
    /// Write what every die, channel and head did and when, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    pub timeline: Option<PathBuf>,
    /// The time that the timeline shows, from the start of the replay, such as 10ms..12ms [default: around the slowest request]
    #[arg(long, value_name = "FROM..TO", value_parser = window, requires = "timeline")]
    pub window: Option<(Span, Span)>,
}

/// `nandu run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Stack file, or name of a built-in stack
    pub stack: String,
    /// Check every read of the run against what was written, and the machines' own invariants
    #[arg(long, conflicts_with_all = ["slowest", "request_log", "timeline"])]
    pub verify: bool,
    /// Also run each workload alone, to say by how much its tenant is slowed down
    #[arg(long, conflicts_with_all = ["verify", "slowest", "request_log", "timeline"])]
    pub slowdown: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub load: LoadArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub stacks: StackArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: OutArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub explain: ExplainArgs,
}

/// `nandu compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Stack files or names of built-in stacks, the baseline first
    #[arg(required = true, num_args = 1.., value_name = "[NAME=]STACK")]
    pub stacks: Vec<String>,
    /// A further trace, with the same options; may be given several times. The stacks are raced on each by itself
    #[arg(long, value_name = "FILE|NAME", requires = "trace")]
    pub also: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub load: LoadArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub stack: StackArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: OutArgs,
    /// Runs at the same time [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs())]
    pub jobs: Option<usize>,
}

/// `nandu diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The first result: JSON of run, compare, sweep or advise
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// The second
    #[arg(value_name = "AFTER.json")]
    pub after: PathBuf,
    /// Leave out what changed by less, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub above: f64,
    /// Show every figure that differs
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: OutArgs,
}

/// `nandu reproduce`.
#[derive(Args, Debug)]
pub struct ReproduceArgs {
    /// The paper; all of them without it
    pub paper: Option<String>,
    /// Fewer requests: seconds instead of minutes, and no verdict that the full form does not give
    #[arg(long)]
    pub quick: bool,
    /// Requests of each load, instead of the experiment's own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..), conflicts_with = "quick")]
    pub requests: Option<u64>,
    /// Replay a recorded trace in place of the generator of that name; may be given several times
    #[arg(long, value_name = "NAME=FILE", value_parser = set)]
    pub trace: Vec<(String, String)>,
    /// Only the claims of this number, or with a case behind it only that; for the variants that must not pass
    #[arg(long, value_name = "CLAIM", hide = true)]
    pub only: Vec<String>,
    /// Put text in place of other text in the experiment's stack files and options; for the variants that must not pass
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"], hide = true)]
    pub instead: Vec<String>,
    /// Random seed; equal seeds give byte-identical output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs at the same time [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs())]
    pub jobs: Option<usize>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: OutArgs,
}

/// `nandu verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Stack file, name of a built-in stack, or a family of random stacks; without it any stack is drawn
    pub stack: Option<String>,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed; a failure says which to give
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub first_seed: u64,
    /// Cut the power at random moments
    #[arg(long)]
    pub crash: bool,
    /// Demand more than stacks promise: what was acknowledged survives, flushed or not. Counts every seed that fails
    #[arg(long)]
    pub durable_acks: bool,
    /// Put a bug into a device, to show that it is found; `nandu list bugs` shows them, `all` takes each in turn. Without a
    /// stack, stacks around such a device are drawn
    #[arg(long, value_name = "BUG")]
    pub inject_bug: Option<String>,
    /// Leave the sizes of a large stack as they are; else they are divided until a seed takes a moment
    #[arg(long)]
    pub full_size: bool,
    /// Print every request and answer; with one seed only
    #[arg(long, conflicts_with = "json")]
    pub print_requests: bool,
    /// Make the first seed that fails smaller, and write it to this file as a case: stack, requests and power cuts, without what
    /// does not matter
    #[arg(long, value_name = "FILE", conflicts_with = "print_requests")]
    pub shrink: Option<PathBuf>,
    /// Most runs that --shrink takes
    #[arg(long, value_name = "N", default_value_t = 2000, requires = "shrink", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// Let --shrink replace a file that is not a case
    #[arg(long, requires = "shrink")]
    pub force: bool,
    /// Run the case in this file; exit code 1 while it breaks something
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stack", "seeds", "first_seed", "crash", "durable_acks", "inject_bug", "full_size", "jobs", "shrink"])]
    pub case: Option<PathBuf>,
    /// Seeds run at the same time [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = jobs())]
    pub jobs: Option<usize>,
    /// Print JSON with stable field names
    #[arg(long, conflicts_with = "print_requests")]
    pub json: bool,
}

/// `nandu probe`.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    /// Name of a built-in stack or a stack file (*.toml), which is simulated; or any other file, or a block device
    pub target: String,
    /// The target is a file to measure, whatever its name
    #[arg(long)]
    pub device: bool,
    /// Set an option of the stack, for example device.ssd.channels=4
    #[arg(long, value_name = "PATH=VALUE", value_parser = set, conflicts_with = "device")]
    pub set: Vec<(String, String)>,
    /// The export that is read; needed when the stack has several
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    pub export: Option<String>,
    /// Seed of the offsets of small reads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// `nandu examine`.
#[derive(Args, Debug)]
pub struct ExamineArgs {
    /// Files or block devices that stacks use: of one set all that are there
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// What is made of several files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SetKind {
    /// Two to eight with the same data
    Mirror,
    /// A fast one and a slow one with the same data
    HeteroMirror,
    /// Three to sixteen, of which any one may be lost
    Parity,
    /// Chunks in turn on each; the loss of one is the loss of all
    Stripe,
    /// One behind the other
    Concat,
    /// Rings on flash (`slc=FILE`, `mlc=FILE` or both) before a disk (`disk=FILE`)
    Hybrid,
}

impl SetKind {
    /// As a stack file names it.
    pub fn word(self) -> &'static str {
        match self {
            SetKind::Mirror => "mirror",
            SetKind::HeteroMirror => "hetero-mirror",
            SetKind::Parity => "parity",
            SetKind::Stripe => "stripe",
            SetKind::Concat => "concat",
            SetKind::Hybrid => "hybrid",
        }
    }
}

/// `nandu create`.
#[derive(Args, Debug)]
pub struct CreateArgs {
    /// What is made of them
    pub kind: SetKind,
    /// The files or block devices, in order; NAME=FILE to name them yourself
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Write the stack file here
    #[arg(long, short, value_name = "STACK")]
    pub output: PathBuf,
    /// Bytes of each member; needed for files that are missing or empty
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub size: Option<ByteLen>,
    /// Put checksums over each member: flipped bits are seen, and repaired from the others
    #[arg(long)]
    pub integrity: bool,
    /// Name of the export that clients ask for
    #[arg(long, value_name = "NAME", default_value = "data")]
    pub export: String,
    /// Set an option of the set, for example chunk=128KiB
    #[arg(long, value_name = "OPTION=VALUE", value_parser = set)]
    pub set: Vec<(String, String)>,
    /// All members read as zeros: nothing is copied or computed at first
    #[arg(long)]
    pub assume_clean: bool,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// `nandu assemble`.
#[derive(Args, Debug)]
pub struct AssembleArgs {
    /// Files or block devices, among them the members
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The stack file of the set: its options stay, and the members are placed in it
    #[arg(long, value_name = "STACK", conflicts_with = "hetero")]
    pub stack: Option<PathBuf>,
    /// The mirror is a hetero-mirror, which its members do not say
    #[arg(long)]
    pub hetero: bool,
    /// The set, where members of several were named: the first digits of its name, as `nandu examine` shows it
    #[arg(long, value_name = "DIGITS")]
    pub set: Option<String>,
    /// Write the stack file here, where nothing may be yet
    #[arg(long, short, value_name = "STACK")]
    pub output: Option<PathBuf>,
}

/// `nandu serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Stack file, or name of a built-in stack
    pub stack: String,
    /// Listen at a Unix socket; may be given several times
    #[arg(long, short = 'U', value_name = "SOCK")]
    pub unix: Vec<PathBuf>,
    /// Listen at a TCP port; 0 takes a free one
    #[arg(long, short, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address of the port. NBD has no password: anything but localhost is open to whoever reaches it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "port")]
    pub bind: std::net::IpAddr,
    /// Offer the exports as block devices of the kernel too (/dev/ublkbID for the first, the next numbers for the others; without ID free ones);
    /// a device whose server died is taken over
    #[arg(long, value_name = "ID", num_args = 0..=1, value_parser = clap::value_parser!(u32).range(..1 << 20))]
    pub ublk: Option<Option<u32>>,
    /// Serve metrics for Prometheus at a port, an address, or the path of a socket
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<nandu_live::MetricsAt>,
    /// Run a command when a leg leaves or comes back, a device's health changes or data differ; it finds $NANDU_EVENT,
    /// $NANDU_DEVICE, $NANDU_LEG, $NANDU_MESSAGE and $NANDU_TIME
    #[arg(long, value_name = "CMD")]
    pub on_change: Option<String>,
    /// A blank file or device that takes the place of a leg that fails; may be given several times
    #[arg(long, value_name = "FILE")]
    pub spare: Vec<PathBuf>,
    /// Append the log to a file instead of standard error; SIGHUP opens it anew
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Run a command while the stack is served and end with it; it finds $uri, $uris, $unixsocket, $port and $ublk
    #[arg(long, value_name = "CMD")]
    pub run: Option<String>,
    /// Offer only this export; may be given several times
    #[arg(long, short, value_name = "NAME")]
    pub export: Vec<String>,
    /// Refuse all changes by clients
    #[arg(long, short)]
    pub read_only: bool,
    /// Make files that are missing, and initialise blank members
    #[arg(long)]
    pub create: bool,
    /// Start a redundant device on what is there, although the rest may hold newer data
    #[arg(long)]
    pub force_degraded: bool,
    /// Go on without what is damaged, in stores of emulated drives and in records of arrays and hybrid disks, and say what
    /// is gone
    #[arg(long)]
    pub salvage: bool,
    /// Blank members hold the same data everywhere, for example zeros: nothing is copied at the start
    #[arg(long, requires = "create")]
    pub assume_clean: bool,
    /// Listen for control commands at a Unix socket
    #[arg(long, value_name = "SOCK")]
    pub control: Option<PathBuf>,
    /// Maximum memory held for clients: data of requests, replies that are not read, buffers
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size)]
    pub memory: ByteLen,
    /// Maximum number of connections; further ones are told so and disconnected
    #[arg(long, value_name = "N", default_value = "64", value_parser = connections)]
    pub max_connections: u64,
    /// Maximum number of control connections
    #[arg(long, value_name = "N", default_value = "16", value_parser = connections)]
    pub max_control: u64,
    /// Encrypt connections, with server-cert.pem and server-key.pem of this folder
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Clients must use TLS (`require`), or may (`on`)
    #[arg(
        long,
        value_name = "HOW",
        default_value = "require",
        hide_possible_values = true,
        requires = "tls_certificates"
    )]
    pub tls: TlsMode,
    /// Clients must show a certificate that an authority in ca-cert.pem of that folder has signed
    #[arg(long, requires = "tls_certificates")]
    pub tls_verify_peer: bool,
    /// Who does operations of files that may sleep: the kernel through io_uring (`uring`), `threads` of the server, or `auto`: threads
    /// write where there are several processors, and io_uring does the rest where the kernel has it
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub io: FileIo,
    /// Poll for requests this long before sleeping, where that has paid: quicker for a client with one request at a time; 0 for never
    #[arg(long, value_name = "TIME", default_value = "50 us", value_parser = poll_time)]
    pub poll_max: Span,
    /// Disconnect clients that are silent for this long while no reply is due to them; 0 for never
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time_or_zero)]
    pub idle_timeout: Span,
    /// Report on stderr when one event has blocked the server, or a device has not started or stopped, for this long; 0 for never
    #[arg(long, value_name = "TIME", default_value = "5 s", value_parser = time_or_zero)]
    pub watchdog: Span,
    /// What the log on stderr has: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true)]
    pub log_level: LogLevel,
    /// Write the number of the process to a file
    #[arg(long, short = 'P', value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
    /// Set an option of the stack, for example device.mirror.read_policy=leader
    #[arg(long, value_name = "PATH=VALUE", value_parser = set)]
    pub set: Vec<(String, String)>,
    /// Seed of the machines' random choices; without it each start has its own
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Whether clients must use TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// They must.
    Require,
    /// They may.
    On,
}

/// Who does operations of files that may sleep.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileIo {
    /// Threads write where there are several processors, and io_uring does the rest where the kernel has it.
    Auto,
    /// The kernel, through io_uring.
    Uring,
    /// Threads of the server.
    Threads,
}

/// How much the log of a server has.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// What an operator has to act on now.
    Error,
    /// And what is not as it should be.
    Warn,
    /// And what one wants to find later.
    Info,
    /// And what helps to find a fault.
    Debug,
}

/// `nandu ctl`.
#[derive(Args, Debug)]
pub struct CtlArgs {
    /// The control socket of the server, as given to `nandu serve --control`
    pub socket: PathBuf,
    /// What to do
    #[command(subcommand)]
    pub verb: CtlVerb,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What a running server is asked.
#[derive(Subcommand, Debug)]
pub enum CtlVerb {
    /// Show devices, legs and work in progress
    Status,
    /// Show all metrics, in the text format of Prometheus
    Metrics,
    /// Show the status repeatedly
    Watch {
        /// Time between two
        #[arg(long, value_name = "TIME", default_value = "2 s", value_parser = parse_span)]
        every: Span,
        /// End after so many; without it on Ctrl-C, or with the server
        #[arg(long, value_name = "N")]
        times: Option<u64>,
    },
    /// Fail a leg, as if it had been unplugged
    Fail {
        /// The leg
        leg: String,
        /// Also one without which a device cannot serve
        #[arg(long)]
        force: bool,
    },
    /// Add a leg again, or one more to a mirror
    #[command(alias = "re-add")]
    Add {
        /// The leg; of one more, the name that it gets
        leg: String,
        /// `to DEVICE with FILE`: one more leg of this mirror, in a file or device that is blank or made
        #[arg(num_args = 4, value_names = ["to", "DEVICE", "with", "FILE"])]
        to: Vec<String>,
    },
    /// Replace a leg by a blank file or device, which is filled; the old one leaves for good
    Replace {
        /// The leg
        leg: String,
        /// `with FILE`: another file; without it what is now at the leg's path
        #[arg(num_args = 2, value_names = ["with", "FILE"])]
        with: Vec<String>,
    },
    /// Serve more of files or devices that have become longer
    Grow {
        /// The device; without it the only one that can
        device: Option<String>,
    },
    /// Make a leg the leader of its mirror
    SetLeader {
        /// The leg
        leg: String,
    },
    /// Compare the legs of a mirror or a parity array
    Scrub {
        /// The device
        device: String,
        /// Rewrite what differs or not, or end; without it as the stack file says
        what: Option<ScrubWord>,
    },
    /// Let what the disk has of lost data count, old as it may be
    AcceptLoss {
        /// The hybrid disk
        device: String,
    },
    /// Change weight and limits of a tenant
    Set {
        /// The tenant
        tenant: String,
        /// For example weight=300 rbps=max
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Change the space of tenants in a drive
    Tenant {
        /// add DEVICE size=SIZE, resize DEVICE NUMBER size=SIZE, or remove DEVICE NUMBER
        #[arg(required = true, num_args = 2..=4, value_name = "WORD")]
        words: Vec<String>,
    },
    /// End the server cleanly and wait for that
    Stop,
}

/// What a scrub does.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubWord {
    /// What differs is rewritten.
    Repair,
    /// Nothing is rewritten.
    Check,
    /// The running one ends.
    Stop,
}

/// `nandu stop`.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// The control socket of the server, as given to `nandu serve --control`
    pub socket: PathBuf,
}

/// `nandu list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// devices, policies, profiles, traces, generators, formats, bugs, metrics or stacks; or a name that stands in one of them: the
    /// options of a device or policy, what there is to say of any other. Without it all lists; the text leaves out bugs
    #[arg(value_name = "WHAT|NAME")]
    pub what: Option<String>,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// `nandu explain`.
#[derive(Args, Debug)]
pub struct KeyArgs {
    /// The option: its last word, its path below a device, or its path in a stack file
    #[arg(value_name = "KEY")]
    pub key: String,
    /// Print JSON with stable field names
    #[arg(long)]
    pub json: bool,
}

/// What `list` knows.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listed {
    /// Kinds of devices.
    Devices,
    /// What the options of devices choose among.
    Policies,
    /// NAND profiles.
    Profiles,
    /// What `--trace` takes: generators, and formats of files.
    Traces,
    /// Load generators.
    Generators,
    /// Trace formats.
    Formats,
    /// Bugs to inject.
    Bugs,
    /// Metrics of a run that a sweep can bound, minimise or show.
    Metrics,
    /// Built-in stacks.
    Stacks,
}

/// `nandu man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The command; without it the page of the program
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
    /// Write all pages into this folder: nandu.1, nandu-serve.1 and so on
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub into: Option<PathBuf>,
}

/// `nandu check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Stack files, or names of built-in stacks
    #[arg(required = true, num_args = 1.., value_name = "STACK")]
    pub stacks: Vec<String>,
    /// Set an option of the stack, for example device.ssd.gc.kind=greedy
    #[arg(long, value_name = "PATH=VALUE", value_parser = set)]
    pub set: Vec<(String, String)>,
    /// Print JSON with stable field names
    #[arg(long, conflicts_with = "print")]
    pub json: bool,
    /// Print the text of the stack file, to copy it
    #[arg(long)]
    pub print: bool,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        super::Cli::command().debug_assert();
    }
}
