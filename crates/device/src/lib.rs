//! Devices: the leaves of a stack, the link to a device, and the machine that makes one fail.

pub mod block;
pub mod fault;
pub mod flash;
pub mod hdd;
pub mod link;

pub mod nand;
pub mod ssd;
pub mod write_buffer;
