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
//!     memory = "1 MiB"
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
//! [`replacement`], [`victim`], [`mapping`], [`scheduler`] and [`format`](mod@format), and `docs/tutorial/own-policy.md` for a walk through one of them. `main`
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
pub use nandu_base::{Declaration, Declared, Policy, Precondition, Registry};
pub use nandu_experiment::failure::{Failure, Kind as FaultKind};
pub use nandu_experiment::parallel::cores;
pub use nandu_experiment::replay::{Load, Replay};
pub use nandu_experiment::talk::{Listener, Talk, Work};
pub use nandu_experiment::{advise, mrc, open, plan, race, reproduce, source, sweep, verdict, verify};
pub use nandu_sim::{RunResult, builtin};
pub use nandu_stack::{Stack, StackFile};
pub use nandu_trace::Trace;
pub use nandu_trace::fit::Fit;
pub use {nandu_sim as sim, nandu_stack as stack, nandu_trace as trace};

/// What policies and results measure in.
pub mod units {
    pub use nandu_base::units::{parse_size, parse_span};
    pub use nandu_base::{BuildError, Counter, Violation};
    pub use nandu_base::{ByteLen, ByteOffset, Instant, Machine, Op, Phase, Ratio, Rng, Span, TenantId};
}

/// Replacement: which line of a cache goes when memory is short.
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
pub mod victim {
    pub use nandu_ftl::BlockId;
    pub use nandu_ftl::gc::{AnyVictim, GcPolicy, PlaneView, VictimConfig, VictimOptions, Victims, policy};
}

/// Isolation: what each tenant of a drive has for itself, and who lends to whom.
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
pub mod scheduler {
    pub use nandu_queue::board::{Board, Class, Entry};
    pub use nandu_queue::machine::{Parts, queue};
    pub use nandu_queue::order::{Order, OrderConfig};
    pub use nandu_queue::schedulers::{
        AnyScheduler, Given, Next, Scheduler, SchedulerConfig, SchedulerOptions, Schedulers, Weights, policy,
    };
}

/// Trace formats: how requests are read from a file.
pub mod format {
    pub use nandu_trace::builder::{Builder, Line};
    pub use nandu_trace::cursor::Cursor;
    pub use nandu_trace::error::{Fault, Why};
    pub use nandu_trace::formats::{Format, Kind, Tried, no_note};
    pub use nandu_trace::load::{LineParser, drive, reads_most};
}

/// Runs the whole program with the machines, policies and formats of `registry`, on the arguments of this process.
#[cfg(feature = "program")]
pub fn main(registry: Registry) -> std::process::ExitCode {
    main_with(registry, std::env::args_os()).into()
}

/// The same on other arguments, the first of which is the name of the program. Returns the exit code.
#[cfg(feature = "program")]
pub fn main_with(registry: Registry, args: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    nandu_cli::run_with(registry, args)
}
