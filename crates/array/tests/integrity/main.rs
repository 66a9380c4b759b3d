//! `integrity` over a disk with a volatile cache: cuts at every step, damage to every kind of record, random lives.

#[path = "../harness/mod.rs"]
mod harness;

mod cuts;
mod damage;
mod random;
mod reopen;
mod world;
