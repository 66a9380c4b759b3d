//! Sweeps: many variants of one stack under the same requests, and the best of them.
//!
//! A [`Space`] is the product of [`axis::Axis`]es: each step of an axis sets or leaves out parameters of the stack file. [`mod@survey`]
//! builds every point once, so that what cannot be built is known before the first run. [`mod@measure`] runs
//! points on all cores and appends each to a [`Journal`], which another start takes up. [`outcome`] holds the figures
//! against [`bound`]s, finds the [`pareto`] front and the best point; [`table`] writes all points as Parquet, [`best`]
//! the winning stack file.
//!
//! **A point's name** ([`id`]) is a hash of everything that its figures depend on: stack, requests, pace, seed, program. So a
//! journal is a store of measured points and not the log of one sweep: a sweep with one more step reuses what is there,
//! and shards are joined by reading several journals.
//!
//! **Determinism.** Points have an order, and all output is made in it from whole numbers. Which thread ran what, when, and in
//! how many sittings leaves no trace.
//!
//! **Memory.** As many simulations as threads, one copy of the requests, and for each point the figures that are shown (16 B each)
//! and its name (32 B). A sweep has at most [`space::POINTS`] points. What else a run measured is in the journal only.
//!
//! This crate knows no command line. A way of searching is a file in [`search`] and a line in its table.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod axis;
pub mod best;
pub mod bound;
pub mod error;
pub mod file;
pub mod guess;
pub mod id;
pub mod journal;
pub mod measure;
pub mod metric;
pub mod outcome;
pub mod pareto;
pub mod quantity;
pub mod racing;
mod schedule;
pub mod search;
pub mod space;
pub mod survey;
pub mod table;

pub use error::SweepError;
pub use file::{Sweep, SweepFile};
pub use id::{Id, Shard};
pub use journal::Journal;
pub use metric::{Figure, Figures, Metric};
pub use outcome::Outcome;
pub use space::Space;
