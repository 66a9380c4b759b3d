//! The ground every part of Nandu stands on: units, seeded random numbers, requests, payload and the machine contract.

pub mod request;
pub mod rng;
pub mod units;

pub use request::Op;
pub use rng::Rng;
pub use units::{ByteLen, ByteOffset, Instant, Ratio, Span, SECTOR};
