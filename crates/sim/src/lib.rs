//! The simulator: stacks on a virtual clock.
//!
//! [`engine`] drives the machines, [`replay`] says when requests arrive, [`metrics`] measures, [`result`] is what comes
//! out, and [`run()`] puts the four together.

pub mod block;
pub mod engine;
pub mod metrics;
pub mod queue;
pub mod replay;
pub mod result;
pub mod run;
pub mod verify;

pub use engine::{Engine, Media, Sink, Submission};
pub use replay::{Pace, Source};
pub use result::RunResult;
pub use run::{run, RunError, RunOptions, RunWorkload};
