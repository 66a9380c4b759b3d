//! The verified simulation: random stacks, options, loads, faults and power cuts from one seed, and checks that bite.
//!
//! [`verify`] runs seeds on all cores. Each seed draws a [`Plan`]: a stack file, what the host does, and when the power is
//! cut. The run checks
//!
//! - I-1: every read returns a value that it may return, over power cuts too ([`oracle`]);
//! - I-17: no die idles while an operation that may run waits for it;
//! - I-5, I-16 and the rest that machines check themselves, and their assertions (I-6 among them), as panics;
//! - I-13: paths add up to latencies, charges to busy time;
//! - I-14: every few seeds are run twice and must do the same;
//! - mirrors at rest have equal legs; requests and buffers are gone after the end; failures have a cause; no stall.
//!
//! What a seed does is a list of steps ([`mod@case`]); one that fails can be made smaller ([`shrink()`]).
//!
//! A long trace is replayed verified by [`run_verified`].

pub mod case;
mod case_text;
mod digest;
mod divide;
mod draw;
mod history;
pub mod host;
mod judge;
mod ledger;
pub mod oracle;
mod panics;
pub mod plan;
mod run;
mod session;
mod shrink;
mod watch;
mod window;

pub use case::Case;
pub use case_text::{CaseError, TEXT as CASE_TEXT};
pub use digest::Digest;
pub use draw::{Drive, Family, Legs, Shape};
pub use host::{Verified, VerifiedError, run_verified};
pub use plan::{Draws, Plan};

pub use divide::divide;

pub use shrink::{ShrinkError, Shrunk, shrink};

pub use run::{Failure, SeedReport, VerifyError, VerifyOptions, VerifyReport, case_of, run_case, verify};

#[cfg(test)]
mod tests;
