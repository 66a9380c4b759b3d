//! Which logical page belongs to which pool: to a plane, or to the part of a plane that its tenant has.

use std::ops::Range;

/// How a range of logical pages is dealt out to pools: pieces of `unit` pages, to one pool after another.
#[derive(Clone, Debug)]
pub struct Homes {
    /// The first page of the range.
    pub first: u32,
    /// Its pages.
    pub logical: u32,
    /// Consecutive pages in one pool.
    pub unit: u32,
    /// Pools in their turn.
    pub order: Vec<u32>,
}

impl Homes {
    /// The pool of a page of the range, and its number there.
    #[inline]
    pub fn home(&self, lpn: u32) -> (u32, u32) {
        let page = lpn - self.first;
        let (piece, within) = (page / self.unit, page % self.unit);
        let pools = self.order.len() as u32;
        (self.order[(piece % pools) as usize], piece / pools * self.unit + within)
    }

    /// Pages of the range below `lpn` that lie in the pool of turn `turn`.
    pub(super) fn below(&self, turn: u32, lpn: u32) -> u32 {
        let page = lpn.clamp(self.first, self.end()) - self.first;
        let (piece, within) = (page / self.unit, page % self.unit);
        let pools = self.order.len() as u32;
        let (round, at) = (piece / pools, piece % pools);
        round * self.unit
            + match turn.cmp(&at) {
                std::cmp::Ordering::Less => self.unit,
                std::cmp::Ordering::Equal => within,
                std::cmp::Ordering::Greater => 0,
            }
    }

    /// The pool of turn `turn`, and what pages `first..end` are there, as far as they are of the range: one range of its own numbers.
    pub fn in_pool(&self, turn: u32, first: u32, end: u32) -> (u32, Range<u32>) {
        (self.order[turn as usize], self.below(turn, first)..self.below(turn, end))
    }

    /// One past the last page of the range.
    pub fn end(&self) -> u32 {
        self.first + self.logical
    }

    /// The most pages that a pool has.
    pub fn most_in_a_pool(&self) -> u32 {
        self.below(0, self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_pools_are_the_pages_one_by_one() {
        for unit in [1, 3, 4] {
            let homes = Homes { first: 7, logical: 60, unit, order: vec![2, 0, 1] };
            for first in 0..27 {
                for end in first..72 {
                    for turn in 0..3 {
                        let (pool, range) = homes.in_pool(turn, first, end);
                        let mine: Vec<u32> = (first.max(7)..end.min(67))
                            .map(|lpn| homes.home(lpn))
                            .filter(|home| home.0 == pool)
                            .map(|home| home.1)
                            .collect();
                        assert_eq!(mine, range.collect::<Vec<u32>>(), "unit {unit}, {first}..{end}");
                    }
                }
            }
            assert_eq!(homes.most_in_a_pool(), (7..67).map(|lpn| homes.home(lpn).1).max().unwrap() + 1);
        }
    }
}
