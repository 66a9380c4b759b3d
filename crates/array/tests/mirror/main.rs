//! The mirror under test: two drives with volatile caches, cuts, losses, bad sectors, and an oracle.

mod disk;
mod random;
mod scenarios;
mod world;
