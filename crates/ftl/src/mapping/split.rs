//! Translation pages of a map whose logical pages have several owners: each has one.
//!
//! Translation pages are cut where the range of an owner begins: what lies before stays in the page that it was in, and what lies behind goes to a
//! translation page of that owner's, whose entries are numbered from its first one. So a page at a boundary exists once for each owner of entries
//! there, and a drive can put it into that owner's blocks. Entries that nobody owns stay with the owner before them.
//!
//! ```text
//! entries   0 ....... 255 | 256 ......... 511 |     of two translation pages of 256
//! owners    A A A A A A A   A A A B B B C C C       B begins at 300, C at 340
//! pages     0               1     3     4           2 would be A's, which begins with a page of its own
//! ```
//!
//! A number for each owner comes after those of the whole pages, used or not, so that a page keeps its number whatever others do.
//!
//! Own design. RAM: 8 bytes for an owner, and 4 in the translation directory. Cost: a comparison for a map without owners, else a binary search.

use super::Tp;
use crate::address::Lpn;
use std::ops::Range;

/// Where translation pages are cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Splits {
    /// The first page of the first range that begins within a translation page.
    from: u32,
    /// Ranges that do, in their order: the first page, and the number of the translation page that begins there.
    starts: Vec<(u32, Tp)>,
    /// Owners.
    owners: u32,
}

/// The size of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapShape {
    /// Logical pages.
    pub pages: u32,
    /// log2 of the entries of a translation page: page size / 4 bytes (S2-2).
    pub bits: u32,
    /// Moves of collection that may wait for their translation page ([`super::moves`]).
    pub moves: u32,
    splits: Splits,
}

impl MapShape {
    /// A map whose pages are all one owner's.
    pub const fn new(pages: u32, bits: u32, moves: u32) -> MapShape {
        let splits = Splits { from: u32::MAX, starts: Vec::new(), owners: 0 };
        MapShape { pages, bits, moves, splits }
    }

    /// The same with owners: the first page of each, or `None` for one that has no pages.
    pub fn owned(self, firsts: impl Iterator<Item = Option<u32>>) -> MapShape {
        let whole = self.whole_pages();
        let mut splits = Splits { from: u32::MAX, starts: Vec::new(), owners: 0 };
        for first in firsts {
            let tp = Tp(whole + splits.owners);
            splits
                .starts
                .extend(first.filter(|first| first % (1 << self.bits) != 0).map(|first| (first, tp)));
            splits.owners += 1;
        }
        splits.starts.sort_unstable();
        splits.from = splits.starts.first().map_or(u32::MAX, |&(first, _)| first);
        MapShape { splits, ..self }
    }

    /// Entries of a translation page.
    pub fn entries(&self) -> usize {
        1 << self.bits
    }

    /// Owners of its pages; none where all are one's.
    pub fn owners(&self) -> u32 {
        self.splits.owners
    }

    /// Translation pages if none were cut.
    pub(super) fn whole_pages(&self) -> u32 {
        (u64::from(self.pages).div_ceil(1 << self.bits)) as u32
    }

    /// Translation pages, used or not.
    pub fn translation_pages(&self) -> u32 {
        self.whole_pages() + self.splits.owners
    }

    /// The translation page of a logical page.
    #[inline(always)]
    pub fn tp(&self, lpn: Lpn) -> Tp {
        match lpn.0 < self.splits.from {
            true => Tp(lpn.0 >> self.bits),
            false => self.tp_behind_split(lpn),
        }
    }

    #[inline(never)]
    fn tp_behind_split(&self, lpn: Lpn) -> Tp {
        let at = self.splits.starts.partition_point(|&(first, _)| first <= lpn.0);
        match at.checked_sub(1).map(|at| self.splits.starts[at]) {
            Some((first, tp)) if first >> self.bits == lpn.0 >> self.bits => tp,
            _ => Tp(lpn.0 >> self.bits),
        }
    }

    /// The logical pages whose entries a translation page has, beyond the last page of the map perhaps; none for one that is not used.
    #[inline(always)]
    pub fn span(&self, tp: Tp) -> Range<u32> {
        match self.splits.owners == 0 {
            true => tp.0 << self.bits..(tp.0 + 1) << self.bits,
            false => self.span_between_splits(tp),
        }
    }

    #[inline(never)]
    fn span_between_splits(&self, tp: Tp) -> Range<u32> {
        let first = match tp.0 < self.whole_pages() {
            true => Some(tp.0 << self.bits),
            false => self.splits.starts.iter().find(|(_, own)| *own == tp).map(|&(first, _)| first),
        };
        let Some(first) = first else { return 0..0 };
        let end = ((first >> self.bits) + 1) << self.bits;
        let next = self.splits.starts.partition_point(|&(start, _)| start <= first);
        first..self.splits.starts.get(next).map_or(end, |&(start, _)| start.min(end))
    }

    /// Words that all translation pages hold.
    pub(super) fn words(&self) -> usize {
        (self.whole_pages() as usize) << self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_example_of_the_head_of_this_file_holds() {
        let shape = MapShape::new(512, 8, 1).owned([Some(0), Some(300), Some(340)].into_iter());
        let tps = [0, 255, 256, 299, 300, 339, 340, 511].map(|lpn| shape.tp(Lpn(lpn)).0);
        assert_eq!(tps, [0, 0, 1, 1, 3, 3, 4, 4]);
        let spans = [0, 1, 2, 3, 4].map(|tp| shape.span(Tp(tp)));
        assert_eq!(spans, [0..256, 256..300, 0..0, 300..340, 340..512]);
        assert_eq!(shape.translation_pages(), 5);
    }

    proptest! {
        /// The obvious model: who owns each page, and a name for each run of one owner in a whole page.
        #[test]
        fn pages_of_two_owners_share_no_translation_page(
            sizes in prop::collection::vec((0u32..20, 0u32..3), 1..8),
        ) {
            let (mut owners, mut firsts) = (Vec::new(), Vec::new());
            for (tenant, &(size, gap)) in sizes.iter().enumerate() {
                firsts.push((size > 0).then_some(owners.len() as u32));
                owners.extend((0..size).map(|_| tenant));
                // Nobody's pages lie with those before.
                owners.extend((0..gap).map(|_| tenant));
            }
            let shape = MapShape::new(owners.len() as u32, 3, 1).owned(firsts.iter().copied());
            let mut used = BTreeSet::new();
            for (lpn, owner) in owners.iter().enumerate() {
                let (tp, next) = (shape.tp(Lpn(lpn as u32)), owners.get(lpn + 1));
                used.insert(tp);
                prop_assert!(tp.0 < shape.translation_pages() && shape.span(tp).contains(&(lpn as u32)));
                let is_same = next.is_some() && shape.tp(Lpn(lpn as u32 + 1)) == tp;
                let owned = |tenant: usize| firsts[tenant].is_some();
                if next.is_some_and(|next| next == owner && owned(*owner)) {
                    prop_assert_eq!(is_same, (lpn + 1) % 8 != 0);
                } else if next.is_some_and(|&next| owned(next)) {
                    prop_assert!(!is_same, "{:?} is of two owners", tp);
                }
            }
            for tp in (0..shape.translation_pages()).map(Tp) {
                let span = shape.span(tp);
                prop_assert!(used.contains(&tp) || span.is_empty() || span.start >= shape.pages
                    || owners[span.start as usize] != owners[span.start.saturating_sub(1) as usize]);
                prop_assert!(span.clone().take_while(|&lpn| lpn < shape.pages).all(|lpn| shape.tp(Lpn(lpn)) == tp));
            }
        }
    }
}
