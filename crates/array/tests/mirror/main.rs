//! The mirror under test: two drives with volatile caches, cuts, losses, bad sectors, and an oracle.

mod disk;
mod cuts;
mod plants;
mod random;
mod scenarios;
mod world;
