//! Shortest seek time first: the request with the fewest cylinders to go, the older of two with as many. Rotation is not
//! looked at, as in drives and drivers that do not know it (Denning, *Effects of scheduling on file memory operations*,
//! 1967). Cost: about ten instructions for each candidate.

use super::{View, Waiting};

/// The request with the shortest way of the arm.
pub fn choose(seen: &[Waiting], view: &View<'_>) -> usize {
    let mut best = (u32::MAX, 0);
    for (at, request) in seen.iter().enumerate() {
        let way = request.spot.cylinder.abs_diff(view.arm.cylinder);
        if way < best.0 && request.behind == 0 {
            best = (way, at);
        }
    }
    best.1
}
