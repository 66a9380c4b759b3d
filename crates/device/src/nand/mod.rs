//! NAND flash: timing of its lanes, contents of its pages, and profiles of real chips.

pub mod cells;
mod channel;
pub mod energy;
pub mod lanes;
pub mod profile;
pub(crate) mod queued;

pub use cells::Cells;
pub use energy::FlashPower;
pub use lanes::{Lanes, PageTime};
pub use profile::{Geometry, Profile, SlcFigures};
