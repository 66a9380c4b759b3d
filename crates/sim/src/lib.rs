//! The simulator: stacks on a virtual clock.
//!
//! [`engine`] drives the machines, [`replay`] says when requests arrive, [`metrics`] measures, [`result`] is what comes
//! out, and [`run()`] puts the four together. [`tap`] looks at single requests,
//! [`samples`] at the run over time, [`over_time`] at its tenants, [`energy`] at what it drew and wore, [`steady`] says whether it was in steady state.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod block;
pub mod builtin;
mod charges;
pub mod decimals;
pub mod energy;
pub mod engine;
pub mod fairness;
pub mod metrics;
pub mod over_time;
pub mod queue;
pub mod renamed;
pub mod replay;
pub mod result;
pub mod run;
pub mod samples;
mod spare;
pub mod steady;
pub mod tap;
pub mod threads;
pub mod verify;
pub mod victims;

pub use builtin::builtin;
pub use engine::{Engine, Media, Sink, Submission};
pub use replay::{Extension, Pace, Source};
pub use result::RunResult;
pub use run::{RunError, RunOptions, RunWorkload, run};
