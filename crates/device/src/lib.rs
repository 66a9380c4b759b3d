//! Devices: the leaves of a stack, the link to a device, and the machine that makes one fail.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod block;
pub mod fault;
pub mod fixture;
pub mod flash;
pub mod hdd;
pub mod link;

pub mod nand;
mod profiles;
pub mod ssd;
pub mod write_buffer;
