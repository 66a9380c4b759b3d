//! Which page lies on which plane, and which sectors of it a request concerns.

use nandu_base::{ByteLen, ByteOffset, SECTOR};
use std::ops::Range;

/// How logical pages are dealt out to planes: pieces of `unit` pages, to one plane after another.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// log2 of the page size.
    pub bits: u32,
    /// Sectors of a page.
    pub sectors: u32,
    /// Logical pages of the drive.
    pub logical: u32,
    /// Consecutive pages on one plane.
    pub unit: u32,
    /// Planes in their turn.
    pub order: Vec<u32>,
}

/// The sectors of one page that a request concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub lpn: u32,
    pub first: u32,
    pub count: u32,
    /// Bytes of the request before this page.
    pub before: ByteLen,
}

impl Pages {
    /// The page that holds a byte.
    pub fn of(&self, offset: ByteOffset) -> u32 {
        (offset.0 >> self.bits) as u32
    }

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

    /// What pages `first..end` are on each plane: one range of its own numbers.
    pub fn on_planes(&self, pages: Range<u32>) -> impl Iterator<Item = (u32, Range<u32>)> + '_ {
        (0..)
            .zip(&self.order)
            .map(move |(turn, &plane)| (plane, self.below(turn, pages.start)..self.below(turn, pages.end)))
    }

    /// The most pages that a plane has.
    pub fn most_on_a_plane(&self) -> u32 {
        self.below(0, self.logical)
    }

    /// Takes an extent apart into pages.
    pub fn parts(&self, offset: ByteOffset, len: ByteLen) -> impl Iterator<Item = Part> + use<> {
        let (first, end) = (offset.sector(), offset.sector() + len.sectors());
        let shift = self.bits - SECTOR.trailing_zeros();
        (first >> shift..=(end - 1) >> shift).map(move |lpn| {
            let start = (lpn << shift).max(first);
            let stop = ((lpn + 1) << shift).min(end);
            Part {
                lpn: lpn as u32,
                first: (start - (lpn << shift)) as u32,
                count: (stop - start) as u32,
                before: ByteLen((start - first) * SECTOR),
            }
        })
    }

    /// Whether a part is the whole page.
    #[inline]
    pub fn is_whole(&self, part: &Part) -> bool {
        part.count == self.sectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_on_planes_are_the_pages_one_by_one() {
        for unit in [1, 3, 4] {
            let pages = Pages { bits: 12, sectors: 8, logical: 60, unit, order: vec![2, 0, 1] };
            for first in 0..20 {
                for end in first..40 {
                    for (plane, range) in pages.on_planes(first..end) {
                        let mine: Vec<u32> = (first..end)
                            .map(|lpn| pages.home(lpn))
                            .filter(|home| home.0 == plane)
                            .map(|home| home.1)
                            .collect();
                        assert_eq!(mine, range.collect::<Vec<u32>>(), "unit {unit}, {first}..{end}");
                    }
                }
            }
            assert_eq!(pages.most_on_a_plane(), (0..60).map(|lpn| pages.home(lpn).1).max().unwrap() + 1);
        }
    }

    #[test]
    fn an_extent_comes_apart_into_parts_of_pages() {
        let pages = Pages { bits: 12, sectors: 8, logical: 60, unit: 1, order: vec![0] };
        let parts: Vec<_> = pages.parts(ByteOffset(6 * 512), ByteLen(12 * 512)).collect();
        let seen: Vec<_> = parts.iter().map(|p| (p.lpn, p.first, p.count, p.before.0)).collect();
        assert_eq!(seen, [(0, 6, 2, 0), (1, 0, 8, 1024), (2, 0, 2, 5120)]);
    }
}
