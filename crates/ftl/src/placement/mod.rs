//! Placement: to which plane the next page goes, and with which others.

mod multi_hash;
mod round_robin;

pub use multi_hash::MultiHash;
pub use round_robin::{Axis, Order, RoundRobin};
