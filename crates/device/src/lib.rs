//! Devices: the leaves of a stack, and the machine that makes a device fail.

pub mod block;
pub mod fault;
pub mod flash;
pub mod hdd;

mod log_ssd;
pub mod nand;
pub mod ssd;
pub mod write_buffer;
