//! The mirror under test: two drives with volatile caches, cuts, losses, bad sectors, and an oracle.

mod cuts;
mod damage;
mod extend;
mod faults;
mod forks;
mod grow;
#[path = "../harness/mod.rs"]
mod harness;
mod hetero;
mod maintenance;
mod old;
mod options;
mod plants;
mod random;
mod scenarios;
mod settings;
mod stuck;
mod world;
