//! The simulator: stacks on a virtual clock.
//!
//! [`engine`] drives the machines, [`replay`] says when requests arrive, [`metrics`] measures, [`result`] is what comes
//! out, and [`run()`] puts the four together. [`tap`] looks at single requests,
//! [`samples`] at the run over time.

pub mod block;
pub mod engine;
pub mod fairness;
pub mod metrics;
pub mod queue;
pub mod replay;
pub mod result;
pub mod run;
pub mod samples;
pub mod tap;
pub mod verify;

pub use engine::{Engine, Media, Sink, Submission};
pub use replay::{Pace, Source};
pub use result::RunResult;
pub use run::{run, RunError, RunOptions, RunWorkload};
