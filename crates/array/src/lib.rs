//! Arrays: machines that make one device out of several, or of a part.

pub mod concat;
pub mod integrity;
mod legs;
mod locks;
pub mod member;
pub mod mirror;
pub mod parity;
pub mod scrub;
pub mod slice;
mod stall;
pub mod stripe;
