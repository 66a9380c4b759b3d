//! Round robin over all planes, in an order given by the axes of the geometry.
//!
//! The first axis changes fastest: `channel, chip, die, plane` sends consecutive pages to different channels, which is
//! what spreads a small write best (the "CWDP" order of the MQSim paper, FAST'18); `plane` first makes pairs that one
//! multi-plane command can program. Pages go where the turn is, not where the logical page was before. A plane that holds
//! as many valid pages as it may is passed over, so that every plane can always clear a block.
//!
//! *Static* allocation ([`RoundRobin::aim`]) gives each logical page a plane of its own instead, that of its number in the same
//! order, as simulators with static mapping from addresses to planes do: two writes of one page then wait for each other's
//! die, while a page that goes where the turn is seldom does. A plane without room is passed over all the same.
//!
//! RAM: 4 bytes per plane.

use nandu_base::options;

/// One axis of the geometry.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// Channels of the drive.
    Channel,
    /// Chips on a channel.
    Chip,
    /// Dies in a chip.
    Die,
    /// Planes of a die.
    Plane,
}

/// The axes from the fastest to the slowest; each exactly once.
pub type Order = [Axis; 4];

/// Whose turn it is.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    planes: Vec<u32>,
    next: usize,
    /// Pages have planes of their own.
    fixed: bool,
}

impl RoundRobin {
    /// The turns for a geometry of `sizes` (channels, chips per channel, dies per chip, planes per die), where the plane
    /// at coordinates (c, w, d, p) has the number that `number` gives.
    pub fn new(order: Order, sizes: [u32; 4], number: impl Fn([u32; 4]) -> u32) -> RoundRobin {
        let size = |axis: Axis| sizes[axis as usize];
        let mut planes = Vec::with_capacity(sizes.iter().product::<u32>() as usize);
        for i3 in 0..size(order[3]) {
            for i2 in 0..size(order[2]) {
                for i1 in 0..size(order[1]) {
                    for i0 in 0..size(order[0]) {
                        let mut at = [0; 4];
                        for (axis, index) in order.into_iter().zip([i0, i1, i2, i3]) {
                            at[axis as usize] = index;
                        }
                        planes.push(number(at));
                    }
                }
            }
        }
        RoundRobin { planes, next: 0, fixed: false }
    }

    /// The same with a plane of its own for each logical page.
    pub fn fixed(self) -> RoundRobin {
        RoundRobin { fixed: true, ..self }
    }

    /// The next page to be placed is `page`, and those behind it follow. Does nothing but with planes of their own.
    #[inline]
    pub fn aim(&mut self, page: u32) {
        if self.fixed {
            self.next = page as usize % self.planes.len();
        }
    }

    /// The same turns over some of the planes only.
    pub fn only(&self, takes_part: impl Fn(u32) -> bool) -> RoundRobin {
        RoundRobin {
            planes: self.planes.iter().copied().filter(|&plane| takes_part(plane)).collect(),
            next: 0,
            fixed: self.fixed,
        }
    }

    /// The plane whose turn it is.
    #[inline]
    pub fn take(&mut self) -> u32 {
        let plane = self.planes[self.next];
        let next = self.next + 1;
        self.next = if next == self.planes.len() { 0 } else { next };
        plane
    }

    /// The plane whose turn is next, without taking it.
    #[inline]
    pub fn peek(&self) -> u32 {
        self.planes[self.next]
    }

    /// The plane of the `turn`-th page when pages are placed from the start without passing over any plane.
    pub fn nth(&self, turn: u64) -> u32 {
        self.planes[(turn % self.planes.len() as u64) as usize]
    }

    /// Continues as if `turns` pages had been placed.
    pub fn skip_to(&mut self, turns: u64) {
        self.next = (turns % self.planes.len() as u64) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_axis_changes_fastest() {
        let number = |[c, w, d, p]: [u32; 4]| c * 1000 + w * 100 + d * 10 + p;
        let order = [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane];
        let mut turns = RoundRobin::new(order, [2, 2, 1, 2], number);
        let first: Vec<u32> = (0..9).map(|_| turns.take()).collect();
        assert_eq!(first, [0, 1000, 100, 1100, 1, 1001, 101, 1101, 0]);
        let order = [Axis::Plane, Axis::Channel, Axis::Chip, Axis::Die];
        let mut turns = RoundRobin::new(order, [2, 2, 1, 2], number);
        assert_eq!([turns.take(), turns.take(), turns.take()], [0, 1, 1000]);
    }

    #[test]
    fn a_page_has_its_plane_when_planes_are_fixed() {
        let number = |[c, w, d, p]: [u32; 4]| c * 1000 + w * 100 + d * 10 + p;
        let order = [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane];
        let mut turns = RoundRobin::new(order, [2, 2, 1, 2], number).fixed();
        turns.aim(9);
        assert_eq!([turns.take(), turns.take()], [1000, 100]);
        turns.aim(1);
        assert_eq!(turns.take(), 1000);
        let mut dynamic = RoundRobin::new(order, [2, 2, 1, 2], number);
        dynamic.aim(9);
        assert_eq!(dynamic.take(), 0);
    }
}
