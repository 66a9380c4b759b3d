//! Stacks: the typed stack file, the registry of all machines Nandu ships, and the [graph] that runs them.
//!
//! [`StackFile`] reads and checks a file, [`Stack`] is the result and builds the machines, [`Graph`] runs them.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod builtin;
pub mod load;
pub mod stack;
pub mod testbed;

pub use builtin::builtin;
pub use load::{At, Problem, Reason, StackError, StackFile, schema};
pub use nandu_base::LayerStats;
pub use nandu_graph::{self as graph, Driver, Graph, Part};
pub use stack::{BuildOptions, Built, BuiltPart, Change, Changed, Device, Export, Stack, Tenant, Workload};
