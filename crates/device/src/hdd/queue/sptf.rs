//! Shortest positioning time first: the request whose first sector is under a head soonest, movement and rotation
//! together; the older of two that are equal (Seltzer, Chen and Ousterhout, *Disk scheduling revisited*, USENIX Winter 1990;
//! Jacobson and Wilkes, *Disk scheduling algorithms based on rotational position*, HPL-CSP-91-7, 1991).
//!
//! A request whose seek alone takes longer than the best so far is passed over without a look at its rotation. Cost: 20 to
//! 50 instructions for each candidate.

use super::{View, Waiting};

/// The request with the shortest way of arm and platter.
pub fn choose(seen: &[Waiting], view: &View<'_>) -> usize {
    let mut best = (u64::MAX, 0);
    for (at, request) in seen.iter().enumerate() {
        let spot = &request.spot;
        let seek = view.mechanics.movement(view.arm, spot.cylinder, spot.head, request.write);
        if seek.0 >= best.0 || request.behind > 0 {
            continue;
        }
        let time = seek + view.mechanics.wait(spot.angle, view.now + seek);
        if time.0 < best.0 {
            best = (time.0, at);
        }
    }
    best.1
}
