//! Experiments below the command line: everything that `nandu` does with stacks and traces, as functions that return data.
//!
//! [`mod@open`] finds stacks by file or name, [`replay`] is what a load may say, [`source`] reads or makes its requests, [`plan`] lays them
//! onto exports. [`race`] runs several stacks side by side and [`verdict`] says in words how they compare; [`sweep`] makes a sweep ready,
//! [`advise`] looks for the best stack, [`mrc`] draws curves of miss ratios, [`reproduce`] measures the claims of papers, [`verify`] says what the verified
//! simulation found. [`console`] is the way to whoever listens.
//!
//! Whoever asks hears a [`Failure`] where something is not done: what, where, why, and what would be right.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod advise;
pub mod console;
pub mod failure;
pub mod format;
pub mod mrc;
pub mod numbers;
pub mod open;
pub mod parallel;
pub mod plan;
pub mod race;
pub mod renamed;
pub mod replay;
pub mod reproduce;
pub mod room;
pub mod source;
pub mod sweep;
pub mod tenancy;
pub mod verdict;
pub mod verify;

pub use failure::{Failure, Kind};
