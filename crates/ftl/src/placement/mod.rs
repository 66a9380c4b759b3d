//! Placement: to which plane the next page goes.

mod round_robin;

pub use round_robin::{Axis, Order, RoundRobin};
