//! Which logical page belongs to which plane.

use std::ops::Range;

/// How logical pages are dealt out to planes: pieces of `unit` pages, to one plane after another.
#[derive(Clone, Debug)]
pub struct Homes {
    /// Logical pages of the drive.
    pub logical: u32,
    /// Consecutive pages on one plane.
    pub unit: u32,
    /// Planes in their turn.
    pub order: Vec<u32>,
}

impl Homes {
    /// The plane of a page, and its number there.
    #[inline]
    pub fn home(&self, lpn: u32) -> (u32, u32) {
        let (piece, within) = (lpn / self.unit, lpn % self.unit);
        let planes = self.order.len() as u32;
        (self.order[(piece % planes) as usize], piece / planes * self.unit + within)
    }

    /// Pages below `lpn` that lie on the plane of turn `turn`.
    fn below(&self, turn: u32, lpn: u32) -> u32 {
        let (piece, within) = (lpn / self.unit, lpn % self.unit);
        let planes = self.order.len() as u32;
        let (round, at) = (piece / planes, piece % planes);
        round * self.unit
            + match turn.cmp(&at) {
                std::cmp::Ordering::Less => self.unit,
                std::cmp::Ordering::Equal => within,
                std::cmp::Ordering::Greater => 0,
            }
    }

    /// The plane of turn `turn`, and what pages `first..end` are there: one range of its own numbers.
    pub fn on_plane(&self, turn: u32, first: u32, end: u32) -> (u32, Range<u32>) {
        (self.order[turn as usize], self.below(turn, first)..self.below(turn, end))
    }

    /// The most pages that a plane has.
    pub fn most_on_a_plane(&self) -> u32 {
        self.below(0, self.logical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_on_planes_are_the_pages_one_by_one() {
        for unit in [1, 3, 4] {
            let homes = Homes { logical: 60, unit, order: vec![2, 0, 1] };
            for first in 0..20 {
                for end in first..40 {
                    for turn in 0..3 {
                        let (plane, range) = homes.on_plane(turn, first, end);
                        let mine: Vec<u32> = (first..end)
                            .map(|lpn| homes.home(lpn))
                            .filter(|home| home.0 == plane)
                            .map(|home| home.1)
                            .collect();
                        assert_eq!(mine, range.collect::<Vec<u32>>(), "unit {unit}, {first}..{end}");
                    }
                }
            }
            assert_eq!(homes.most_on_a_plane(), (0..60).map(|lpn| homes.home(lpn).1).max().unwrap() + 1);
        }
    }
}
