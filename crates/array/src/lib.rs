//! Arrays: machines that make one device out of several, or of a part.

pub mod concat;
mod legs;
pub mod mirror;
pub mod parity;
pub mod slice;
pub mod stripe;
