//! The fair queue: tenants that share a device, and who goes next.
//!
//! A request passes three stages. [`throttle`] holds it while its tenant is above a limit of its own. The
//! [`pending`] is where admitted requests wait, and the [scheduler](schedulers) says which of them is sent next while the
//! device below has room. [`machine`] is the device kind `queue`, which does this between a parent and one child.
//!
//! To add a scheduler: one file in `schedulers/` and one line in its `options.rs`, or a file of another crate and one line where a program
//! makes its registry. A scheduler sees slots, tenants, extents and times, never data.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod config;
pub mod cost;
pub mod machine;
pub mod order;
pub mod pending;
pub mod schedulers;
pub mod set;
pub mod sorted;
pub mod tally;
pub mod throttle;
