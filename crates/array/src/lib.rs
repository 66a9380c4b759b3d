//! Arrays: machines that make one device out of several, or of a part.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod concat;
pub mod found;
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
