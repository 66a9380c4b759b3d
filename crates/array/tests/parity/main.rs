//! The parity array under test: drives with volatile caches, cuts, losses, bad sectors, and an oracle.

mod cuts;
#[path = "../mirror/disk.rs"]
#[allow(dead_code)] // the mirror's tests use more of it
mod disk;
mod plants;
mod random;
mod scenarios;
mod world;
