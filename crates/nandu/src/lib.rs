//! Flash storage that you can simulate, compare and mount, for people who write Rust.
//!
//! A [`Stack`] is read from a short file; an [`Experiment`] replays requests on it; a [`Result`](RunResult) says what it took.
//!
//! ```
//! use nandu::Experiment;
//! use serde_json::json;
//!
//! let stack = r#"
//!     [export.data]
//!     device = "cache"
//!     [device.cache]
//!     kind = "cache"
//!     below = "disk"
//!     size = "1 MiB"
//!     prefetch = { kind = "none" }
//!     replacement = { kind = "arc" }
//!     [device.disk]
//!     kind = "memory"
//!     size = "64 MiB"
//!     latency = "1 ms"
//! "#;
//! let experiment = Experiment::new(stack)?.generate("mixed-zipf", &json!({ "requests": 2000, "space": "64 MiB" }));
//! let arc = experiment.run()?;
//! let lru = experiment.clone().set("device.cache.replacement.kind", "lru")?.run()?;
//! assert_eq!(arc.layers.len(), 2);
//! assert_ne!(arc.provenance.stack_hash, lru.provenance.stack_hash);
//! # Ok::<(), nandu::Failure>(())
//! ```
//!
//! A policy of your own is one file, and one line that puts it into a [`Registry`]: `builtin().with(...)`. See
//! [`replacement`], [`victim`], [`mapping`], [`scheduler`], [`machine`] and [`format`](mod@format), and `docs/tutorial/own-policy.md` for a walk through one of them. `main`
//! gives such a registry the whole program: `run`, `compare`, `sweep`, `verify`, `serve`, `list`.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     nandu::main(nandu::builtin()) // .with(your::policy())
//! }
//! ```
//!
//! What the program does is here as functions that return data: [`open`] finds stacks, [`Replay`] is what a load may say, [`race`]
//! compares, [`sweep`], [`advise`], [`mrc`], [`reproduce`] and [`verify`] do what the commands of these names print.
//!
//! [`sim`], [`stack`] and [`mod@trace`] are the crates below, for who needs more of them.
//!
//! **What is stable.** From the first release on: the items of this crate's root, and the traits and types that the modules of
//! policies name. Whatever else the crates below make public is for each other and may change in any version.

mod experiment;

pub use experiment::Experiment;
pub use nandu_base::{Declaration, Declared, Policy, Precondition, Registry, options};
pub use nandu_experiment::console::{Console, Listener, Work};
pub use nandu_experiment::failure::{Failure, Kind as FaultKind};
pub use nandu_experiment::parallel::cores;
pub use nandu_experiment::replay::{Load, Replay};
pub use nandu_experiment::{advise, mrc, open, plan, race, reproduce, source, sweep, verdict, verify};
pub use nandu_sim::{RunResult, builtin};
pub use nandu_stack::{Stack, StackFile};
pub use nandu_trace::Trace;
pub use nandu_trace::fit::Fit;
pub use {nandu_sim as sim, nandu_stack as stack, nandu_trace as trace};

/// What policies and results measure in.
pub mod units {
    pub use nandu_base::units::{parse_size, parse_span};
    pub use nandu_base::{Ask, BuildError, Counter, Report, Violation};
    pub use nandu_base::{ByteLen, ByteOffset, Instant, Machine, Op, Phase, Ratio, Rng, Span, TenantId};
}

/// Replacement: which line of a cache goes when memory is short.
///
/// The line that came last, in a file and a line:
///
/// ```
/// use nandu::replacement::{
///     Arrival, Chain, Hit, Line, List, Recall, Replacement, ReplacementConfig, ReplacementOptions, Room, Victim, conformance,
///     each_once, policy,
/// };
/// use nandu::units::{BuildError, Violation};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "newest-first";
///     const SUMMARY: &'static str = "The line that came last goes.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl ReplacementOptions for Options {
///     type Policy = NewestFirst;
///     fn build(&self, room: Room) -> Result<NewestFirst, BuildError> {
///         Ok(NewestFirst { chain: Chain::new(room.slots()), list: List::default() })
///     }
/// }
///
/// struct NewestFirst {
///     chain: Chain,
///     list: List,
/// }
///
/// impl Replacement for NewestFirst {
///     fn insert(&mut self, slot: u32, _: &[Line], _: Arrival) {
///         self.list.push(&mut self.chain, slot);
///     }
///     fn refill(&mut self, _: u32, _: &[Line], _: Arrival) {}
///     fn hit(&mut self, _: u32, _: &[Line], _: Hit) {}
///     fn victim(&mut self, _: &[Line], _: Recall) -> Option<Victim> {
///         let slot = (!self.list.is_empty()).then(|| self.list.newest())?;
///         self.list.remove(&mut self.chain, slot);
///         Some(Victim::Whole(slot))
///     }
///     fn remove(&mut self, slot: u32, _: &[Line]) {
///         self.list.remove(&mut self.chain, slot);
///     }
///     fn bytes(&self) -> usize {
///         self.chain.bytes()
///     }
///     fn check(&self, lines: &[Line]) -> Result<(), Violation> {
///         each_once(self.list.iter(&self.chain), lines)
///     }
/// }
///
/// let registry = nandu::builtin().with(policy::<Options>());
/// let config = ReplacementConfig::of("newest-first", &registry)?;
/// conformance::run(config.options()?, 1).expect("it keeps what every policy keeps");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod replacement {
    pub use nandu_cache::directory::Line;
    pub use nandu_cache::ghost::GhostQueue;
    pub use nandu_cache::list::{Chain, List, NONE};
    pub use nandu_cache::map::{Hashed, LineMap};
    pub use nandu_cache::page_sim::{Accesses, PageCache, PageResult, run_policy};
    pub use nandu_cache::replacement::{
        AnyReplacement, Arrival, Cause, Hit, LineOf, Needs, Recall, Replacement, ReplacementConfig,
        ReplacementOptions, Replacements, Room, Victim, conformance, each_once, policy,
    };
}

/// Prefetching: what a cache reads ahead of requests.
///
/// As much as was asked for, once more:
///
/// ```
/// use nandu::prefetch::{Look, Prefetch, PrefetchOptions, Range, Units, policy};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "as-much-again";
///     const SUMMARY: &'static str = "As much as was read, behind it.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl PrefetchOptions for Options {
///     type Policy = AsMuchAgain;
///     fn build(&self, _: &Units) -> Result<AsMuchAgain, nandu::units::BuildError> {
///         Ok(AsMuchAgain)
///     }
/// }
///
/// #[derive(Clone)]
/// struct AsMuchAgain;
///
/// impl Prefetch for AsMuchAgain {
///     fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
///         let Range { first, end } = look.asked;
///         ahead.push(Range { first: end, end: end + (end - first) });
///     }
/// }
///
/// let registry = nandu::builtin().with(policy::<Options>());
/// let stack = r#"
///     [export.data]
///     device = "cache"
///     [device.cache]
///     kind = "cache"
///     below = "disk"
///     size = "1 MiB"
///     replacement = "lru"
///     prefetch = "as-much-again"
///     [device.disk]
///     kind = "memory"
///     size = "64 MiB"
///     latency = "1 ms"
/// "#;
/// let load = serde_json::json!({ "requests": 500, "space": "4 MiB", "sequential": "15/16", "write": "0/1" });
/// let read = |prefetch| {
///     let experiment = nandu::Experiment::with(&registry, stack)?.generate("uniform", &load);
///     experiment.set("device.cache.prefetch", prefetch)?.run()
/// };
/// assert!(read("as-much-again")?.read.mean_ns < read("none")?.read.mean_ns);
/// # Ok::<(), nandu::Failure>(())
/// ```
pub mod prefetch {
    pub use nandu_cache::prefetch::{
        AnyPrefetch, Brings, Holes, Look, Prefetch, PrefetchConfig, PrefetchOptions, Prefetchers, Range,
        Units, conformance, policy,
    };
}

/// Destage: what dirty data of a cache goes below next.
pub mod destage {
    pub use nandu_cache::destage::{Destage, DestageConfig, DestageOptions, Wrote, policy};
}

/// Promotion in a hybrid disk: which pages that are read are copied to the top ring.
pub mod promotion {
    pub use nandu_hybrid::policy::promotion::{Promotion, PromotionConfig, PromotionOptions, policy};
}

/// Demotion in a hybrid disk: which valid pages of a cold zone stay in their ring.
pub mod demotion {
    pub use nandu_hybrid::policy::demotion::{
        Demotion, DemotionConfig, DemotionOptions, LEVELS, level, policy,
    };
}

/// Collection: which block of a drive is cleared next.
///
/// The block that was erased least of those that gain something:
///
/// ```
/// use nandu::victim::{BlockId, GcPolicy, PlaneView, VictimOptions, policy};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "least-erased";
///     const SUMMARY: &'static str = "The block that was erased least, if it gains anything.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl VictimOptions for Options {
///     type Policy = LeastErased;
///     fn build(&self, _blocks: u32, _seed: u64) -> LeastErased {
///         LeastErased
///     }
/// }
///
/// struct LeastErased;
///
/// impl GcPolicy for LeastErased {
///     fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
///         let gains = (0..view.invalid.len()).filter(|&index| view.gain(index) > 0);
///         gains.min_by_key(|&index| (view.erases[index], index)).map(|index| view.block(index))
///     }
/// }
///
/// let registry = nandu::builtin().with(policy::<Options>());
/// let stack = r#"
///     [export.data]
///     device = "ssd"
///     [device.ssd]
///     kind = "ssd"
///     profile = "mlc-2019"
///     capacity = "32 MiB"
///     channels = 1
///     chips_per_channel = 1
///     spare_factor = 0.2
///     gc = { kind = "least-erased" }
/// "#;
/// let experiment = nandu::Experiment::with(&registry, stack)?
///     .generate("uniform", &serde_json::json!({ "requests": 5000, "space": "32 MiB", "write": "1/1" }))
///     .precondition(nandu::Precondition::Filled);
/// let greedy = experiment.clone().set("device.ssd.gc.kind", "greedy")?.run()?;
/// assert!(experiment.run()?.waf_thousandths > greedy.waf_thousandths, "who does not look at what is gained moves more pages");
/// # Ok::<(), nandu::Failure>(())
/// ```
pub mod victim {
    pub use nandu_ftl::BlockId;
    pub use nandu_ftl::gc::{AnyVictim, GcPolicy, PlaneView, VictimConfig, VictimOptions, Victims, policy};
}

/// Wear levelling: which block of an SSD is cleared for its wear.
///
/// The first one that may be moved, whenever that is paid for:
///
/// ```
/// use nandu::levelling::{LevellingOptions, WearPolicy, WearView, policy};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "first";
///     const SUMMARY: &'static str = "The first block that may be moved.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl LevellingOptions for Options {
///     type Policy = First;
///     fn build(&self, _pools: u32, _endurance: u32) -> First {
///         First
///     }
/// }
///
/// struct First;
///
/// impl WearPolicy for First {
///     fn is_due(&mut self, _pool: u32, is_paid: bool) -> bool {
///         is_paid
///     }
///     fn victim(&mut self, view: WearView<'_>) -> Option<usize> {
///         (0..view.blocks.len()).find(|&place| view.may_move(place))
///     }
/// }
///
/// let registry = nandu::builtin().with(policy::<Options>());
/// let stack = r#"
/// [export.data]
/// device = "ssd"
///
/// [device.ssd]
/// kind = "ssd"
/// profile = "mlc-2019"
/// capacity = "32 MiB"
/// channels = 1
/// chips_per_channel = 1
/// spare_factor = 0.2
/// wear = { kind = "first" }
/// "#;
/// let experiment = nandu::Experiment::with(&registry, stack)?
///     .generate("uniform", &serde_json::json!({ "requests": 5000, "space": "32 MiB", "write": "1/1" }))
///     .precondition(nandu::Precondition::Filled);
/// let by_threshold = experiment.clone().set("device.ssd.wear.kind", "threshold")?.run()?;
/// assert!(experiment.run()?.waf_thousandths > by_threshold.waf_thousandths, "who moves a block whenever that is paid for moves more pages");
/// # Ok::<(), nandu::Failure>(())
/// ```
pub mod levelling {
    pub use nandu_ftl::wear::{
        AnyLevelling, LevellingConfig, LevellingOptions, Levellings, Standing, WearPolicy, WearView, Worn,
        policy,
    };
}

/// Isolation: what each tenant of a drive has for itself, and who lends to whom.
///
/// Everybody has as many units as anybody:
///
/// ```
/// use nandu::isolation::{Given, Isolation, IsolationOptions, Space, policy};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "alike";
///     const SUMMARY: &'static str = "As many units for each.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl IsolationOptions for Options {
///     fn build(&self, _: Given) -> Box<dyn Isolation> {
///         Box::new(Alike)
///     }
/// }
///
/// struct Alike;
///
/// impl Isolation for Alike {
///     fn shares(&self, space: &Space) -> Vec<u32> {
///         vec![space.units / space.sizes.len() as u32; space.sizes.len()]
///     }
/// }
///
/// let space = Space { units: 100, pages: 64, groups: 1, logical: 4000, sizes: vec![1000, 3000], weights: vec![1, 1] };
/// assert_eq!(Alike.shares(&space), [50, 50]);
/// let registry = nandu::builtin().with(policy::<Options>()); // isolation = "alike"
/// # let _ = registry;
/// ```
pub mod isolation {
    pub use nandu_ftl::isolation::{
        Account, AnyIsolation, Books, Given, Gives, Isolation, IsolationOptions, Isolations, Space,
        conformance, policy,
    };
}

/// Maps: where each logical page of a drive lies, and what of that is in its RAM.
pub mod mapping {
    pub use nandu_device::ssd::mapping::{Maps, late, policy};
    pub use nandu_ftl::mapping::{
        DataProgram, Directory, EvictionWrite, Gather, Given, MapCounts, MapOp, MapOps, MapOptions, MapShape,
        Mapping, PagedOptions, Store, Tp, conformance,
    };
    pub use nandu_ftl::{Lpn, Ppn};
}

/// Fair queueing: whose request goes next.
///
/// The first tenant that waits, which starves the others:
///
/// ```
/// use nandu::scheduler::{PendingRequests, Given, Next, Scheduler, SchedulerOptions, policy};
/// use nandu::units::{Instant, TenantId};
///
/// /// Its options: none.
/// #[nandu::options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct Options {}
///
/// impl nandu::Declared for Options {
///     const NAME: &'static str = "first-group";
///     const SUMMARY: &'static str = "The first tenant that has something to do.";
///     const SOURCE: &'static str = "";
/// }
///
/// impl SchedulerOptions for Options {
///     type Scheduler = FirstGroup;
///     fn build(&self, _: Given) -> FirstGroup {
///         FirstGroup
///     }
/// }
///
/// struct FirstGroup;
///
/// impl Scheduler for FirstGroup {
///     fn next(&mut self, pending: &PendingRequests, _now: Instant) -> Next {
///         let waiting = (0..pending.groups()).find(|&group| pending.waiting_in(group) > 0);
///         waiting.and_then(|group| pending.first(group)).map_or(Next::Nothing, Next::Send)
///     }
///     fn set_weight(&mut self, _: TenantId, _: u16) {}
/// }
///
/// let registry = nandu::builtin().with(policy::<Options>()); // scheduler = "first-group"
/// # let _ = registry;
/// ```
pub mod scheduler {
    pub use nandu_queue::machine::{Parts, queue};
    pub use nandu_queue::order::{Order, OrderConfig};
    pub use nandu_queue::pending::{Class, Entry, PendingRequests};
    pub use nandu_queue::schedulers::{
        AnyScheduler, Given, Next, Scheduler, SchedulerConfig, SchedulerOptions, Schedulers, Weights, policy,
    };
}

/// Machines: a layer of a stack, or a device at its end.
///
/// A layer that keeps what is written from going on, for a load of which only the reads are to be measured, and counts it:
///
/// ```
/// use nandu::machine::{BuildContext, Cx, DeviceConfig, Kind, Limits, Machine, ReqId, Report, Step};
/// use nandu::options;
/// use nandu::units::{BuildError, Op};
///
/// /// Its options.
/// #[options(crate = nandu)]
/// #[derive(Clone, Debug)]
/// struct ReadsOnly {
///     /// The device that is read.
///     below: String,
/// }
///
/// impl DeviceConfig for ReadsOnly {
///     fn children(&self) -> Vec<String> {
///         vec![self.below.clone()]
///     }
///     fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
///         Ok(Box::new(Filter { limits: cx.only_child().clone(), dropped: 0 }))
///     }
/// }
///
/// struct Filter {
///     limits: Limits,
///     dropped: u64,
/// }
///
/// impl Machine for Filter {
///     fn limits(&self) -> &Limits {
///         &self.limits
///     }
///     fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
///         if cx.requests[id].op == Op::Read {
///             return Step::Forward(0, id);
///         }
///         self.dropped += 1;
///         Step::Finish(id)
///     }
///     fn report(&mut self, report: &mut Report) {
///         report.count("requests_dropped", &mut self.dropped);
///     }
/// }
///
/// let registry = nandu::builtin().with(Kind::of::<ReadsOnly>("reads-only", "passes reads on and drops what changes data"));
/// let stack = r#"
///     [export.data]
///     device = "top"
///     [device.top]
///     kind = "reads-only"
///     below = "disk"
///     [device.disk]
///     kind = "memory"
///     size = "64 MiB"
///     latency = "1 ms"
/// "#;
/// let load = serde_json::json!({ "requests": 500, "space": "64 MiB", "write": "1/2" });
/// let result = nandu::Experiment::with(&registry, stack)?.generate("uniform", &load).run()?;
/// assert_eq!(result.layers[1].counters["requests_dropped"], result.write.requests);
/// assert_eq!(result.layers[0].requests["read"], result.read.requests);
/// # Ok::<(), nandu::Failure>(())
/// ```
///
/// [`Machine`](machine::Machine) has the few methods that a request needs; what a machine can say or do beside serving stands in
/// [`Advise`](machine::Advise), [`Hints`](machine::Hints), [`Members`](machine::Members) and [`Administer`](machine::Administer), all optional.
/// `nandu_stack::testbed` drives machines in tests, `nandu verify` on a stack file checks them with faults and power cuts.
pub mod machine {
    pub use nandu_base::{
        Admin, AdminError, Administer, Advise, Ask, BlockSpec, BuildContext, ByteLen, ByteOffset, Cx,
        DeviceConfig, DeviceEvent, ErrorKind, Figure, Flags, Health, Hints, Kind, Limits, Machine,
        MediumSpec, Members, Needs, OpenError, OpenOptions, Peek, Place, Plant, Redundancy, Report, ReqId,
        Request, Span, Step, TimerKey, Violation,
    };
    pub use nandu_stack::testbed::Testbed;
}

/// Trace formats: how requests are read from a file.
///
/// Lines of `milliseconds R|W offset length`:
///
/// ```
/// use nandu::format::{Builder, Cursor, Fault, Format, Kind, Line, LineParser, Tried, Why, drive, no_note, reads_most};
/// use nandu::units::Op;
///
/// static FORMAT: Format = Format {
///     name: "lab-log",
///     summary: "milliseconds R|W offset length, in bytes",
///     example: "0.250 R 8192 4096",
///     tried: Tried::Lines,
///     sniff: reads_most::<LabLog>,
///     note: no_note,
///     kind: Kind::Text { parse: drive::<LabLog> },
///     writer: None,
/// };
///
/// #[derive(Default)]
/// struct LabLog;
///
/// impl LineParser for LabLog {
///     fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
///         let start = c.pos();
///         let time = c.time(1_000_000, "time (ms)")?;
///         c.gap("operation")?;
///         let at = c.pos();
///         let op = match c.word(b' ', "operation")? {
///             b"R" => Op::Read,
///             b"W" => Op::Write,
///             _ => return Err(Fault { at, field: "operation", why: Why::Expected("R or W") }),
///         };
///         c.gap("offset (B)")?;
///         let offset = c.uint("offset (B)")?;
///         c.gap("length (B)")?;
///         let len = c.uint("length (B)")?;
///         c.end_of_line()?;
///         let line = Line { time_ns: out.nanos(time), op, fua: false, offset_sectors: 0, len_sectors: 0, stream: 0 };
///         out.push_bytes(start, line, offset, len)
///     }
/// }
///
/// let registry = nandu::builtin().with(&FORMAT); // nandu run STACK --trace FILE finds it by what is in the file
/// # let _ = registry;
/// ```
pub mod format {
    pub use nandu_trace::builder::{Builder, Line};
    pub use nandu_trace::cursor::Cursor;
    pub use nandu_trace::error::{Fault, Why};
    pub use nandu_trace::formats::{Format, Kind, Tried, no_note};
    pub use nandu_trace::load::{LineParser, drive, reads_most};
}

/// Generators: requests that are made, by parameters and a seed.
///
/// Reads of one place after the other, in a file and a line:
///
/// ```
/// use nandu::generator::{Generate, Made, Record, Records, policy};
/// use nandu::units::Op;
/// use nandu::{Declared, options};
///
/// /// Its parameters.
/// #[options(crate = nandu)]
/// #[derive(Clone, Debug, serde::Serialize)]
/// struct Walk {
///     /// Requests to make.
///     #[option(default = 1000, range = 1..)]
///     requests: u64,
/// }
///
/// impl Declared for Walk {
///     const NAME: &'static str = "walk";
///     const SUMMARY: &'static str = "reads of 4 KiB, one behind the other, a millisecond apart";
///     const SOURCE: &'static str = "none";
/// }
///
/// impl Generate for Walk {
///     fn records(&self, _seed: u64) -> Made {
///         Ok(Box::new(Steps { of: self.requests, made: 0 }))
///     }
/// }
///
/// #[derive(Clone, Debug)]
/// struct Steps {
///     of: u64,
///     made: u64,
/// }
///
/// impl Iterator for Steps {
///     type Item = Record;
///     fn next(&mut self) -> Option<Record> {
///         let n = (self.made < self.of).then_some(self.made)?;
///         self.made += 1;
///         Record::new(n * 1_000_000, Op::Read, false, n * 8, 8, 0).ok()
///     }
/// }
///
/// impl Records for Steps {
///     fn left(&self) -> u64 {
///         self.of - self.made
///     }
///     fn boxed_clone(&self) -> Box<dyn Records> {
///         Box::new(self.clone())
///     }
/// }
///
/// let registry = nandu::builtin().with(policy::<Walk>()); // nandu run STACK --trace walk --gen requests=20
/// let stack = "[export.data]\ndevice = \"disk\"\n[device.disk]\nkind = \"memory\"\nsize = \"16 MiB\"\n";
/// let load = serde_json::json!({ "requests": 20 });
/// let result = nandu::Experiment::with(&registry, stack)?.generate("walk", &load).run()?;
/// assert_eq!(result.read.requests, 20);
/// # Ok::<(), nandu::Failure>(())
/// ```
pub mod generator {
    pub use nandu_trace::TraceError;
    pub use nandu_trace::record::{MAX_END_SECTORS, MAX_TIME_NS, Record};
    pub use nandu_trace::synth::{Generate, Made, Records, Synth, policy};
}

/// Runs the whole program with the machines, policies, formats and generators of `registry`, on the arguments of this process.
#[cfg(feature = "program")]
pub fn main(registry: Registry) -> std::process::ExitCode {
    main_with(registry, std::env::args_os()).into()
}

/// The same on other arguments, the first of which is the name of the program. Returns the exit code.
#[cfg(feature = "program")]
pub fn main_with(registry: Registry, args: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    nandu_cli::run_with(registry, args)
}
