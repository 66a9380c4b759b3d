//! Stacks: the typed stack file, the registry of all machines Nandu ships, and the graph that runs them.

pub mod graph;

pub use graph::{Driver, Graph, LayerStats, Part};
