//! The parity array under test: drives with volatile caches, cuts, losses, bad sectors, and an oracle.

mod cuts;
mod damage;
mod grow;
#[path = "../harness/mod.rs"]
mod harness;
mod maintenance;
mod old;
mod plants;
mod random;
mod scenarios;
mod world;
