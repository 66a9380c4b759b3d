//! A set of 4 KiB pages kept as runs: the footprint of a trace in memory that grows with its fragments, not its size.
//!
//! Pages of different streams never touch. Additions collect in a buffer as large as the set, which is then sorted and
//! merged, so n additions cost O(n log n). Where pages lie close together the set then has a bit for each page between the first and the last,
//! and what falls among them is entered at once.

use crate::record::{MAX_END_SECTORS, Record};

/// Bytes in a page.
pub const PAGE: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE / nandu_base::SECTOR;
/// Page numbers of one stream; twice what an offset can reach, so that streams never touch.
const STREAM_PAGES: u64 = 2 * MAX_END_SECTORS / PAGE_SECTORS;
const BATCH: usize = 1 << 14;

/// First page and one past the last page of a request, numbered across streams.
#[inline]
pub fn page_range(r: Record) -> (u64, u64) {
    let base = u64::from(r.stream()) * STREAM_PAGES;
    let end = (r.offset_sectors() + r.len_sectors()).div_ceil(PAGE_SECTORS);
    (base + r.offset_sectors() / PAGE_SECTORS, base + end)
}

/// Pages as sorted, disjoint, non-adjacent runs.
#[derive(Default, Debug)]
pub struct PageSet {
    runs: Vec<(u64, u64)>,
    pending: Vec<(u64, u64)>,
    /// The pages of `runs`, and more that came since.
    bits: Option<Bits>,
}

impl PageSet {
    /// An empty set.
    pub fn new() -> PageSet {
        PageSet::default()
    }

    /// Adds the pages of a request; a flush has none.
    #[inline]
    pub fn add(&mut self, r: Record) {
        if r.is_empty() {
            return;
        }
        let (start, end) = page_range(r);
        if let Some(bits) = self.bits.as_mut().filter(|bits| bits.reach(start, end)) {
            bits.set(start, end);
            return;
        }
        match self.pending.last_mut() {
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            _ => self.pending.push((start, end)),
        }
        if self.pending.len() >= BATCH.max(self.runs.len()) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some(bits) = self.bits.take() {
            self.runs = bits.runs();
        }
        self.runs.append(&mut self.pending);
        self.runs.sort_unstable();
        let mut kept = 0;
        for i in 1..self.runs.len() {
            let (start, end) = self.runs[i];
            if start <= self.runs[kept].1 {
                self.runs[kept].1 = self.runs[kept].1.max(end);
            } else {
                kept += 1;
                self.runs[kept] = (start, end);
            }
        }
        self.runs.truncate(kept + 1);
        self.bits = Bits::of(&self.runs);
    }

    /// Numbers the pages 0, 1, ... in order of stream and address.
    pub fn index(mut self) -> PageIndex {
        self.settle();
        self.bits = None;
        let mut before = 0;
        let ranks = self.runs.iter().map(|&(start, end)| {
            let rank = before;
            before += end - start;
            rank
        });
        let ranks = ranks.collect();
        let table = Table::of(&self.runs, before);
        PageIndex { runs: self.runs, ranks, pages: before, table }
    }
}

/// Where pages lie close together: a bit for each between the first and the last.
#[derive(Debug)]
struct Bits {
    /// Of which bit 0 is, a multiple of 64.
    first: u64,
    words: Vec<u64>,
}

impl Bits {
    /// Pages between the first and the last for each that is in the set, at most: half of what a run of one page takes.
    const SPARSE: u64 = 64;

    /// For sorted runs; `None` where they would take more than runs do.
    fn of(runs: &[(u64, u64)]) -> Option<Bits> {
        let (first, end) = (runs.first()?.0 / 64 * 64, runs.last()?.1);
        let pages: u64 = runs.iter().map(|(start, end)| end - start).sum();
        if (end - first) / Bits::SPARSE > pages {
            return None;
        }
        let mut bits = Bits { first, words: vec![0; usize::try_from((end - first).div_ceil(64)).ok()?] };
        runs.iter().for_each(|&(start, end)| bits.set(start, end));
        Some(bits)
    }

    /// Whether these pages have bits.
    #[inline]
    fn reach(&self, start: u64, end: u64) -> bool {
        start >= self.first && (end - self.first).div_ceil(64) <= self.words.len() as u64
    }

    #[inline]
    fn set(&mut self, start: u64, end: u64) {
        let (mut at, end) = (start - self.first, end - self.first);
        while at < end {
            let to = end.min((at / 64 + 1) * 64);
            self.words[(at / 64) as usize] |= (u64::MAX >> (64 - (to - at))) << (at % 64);
            at = to;
        }
    }

    fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (place, &word) in (0u64..).zip(&self.words) {
            let (mut left, base) = (word, self.first + place * 64);
            while left != 0 {
                let start = left.trailing_zeros();
                let count = (left >> start).trailing_ones();
                left &= !((u64::MAX >> (64 - count)) << start);
                let (start, end) = (base + u64::from(start), base + u64::from(start + count));
                match runs.last_mut().filter(|last| last.1 == start) {
                    Some(last) => last.1 = end,
                    None => runs.push((start, end)),
                }
            }
        }
        runs
    }
}

/// Where pages lie close together: a bit for each between the first and the last, and how many are before each word.
#[derive(Debug)]
struct Table {
    /// Of which bit 0 is.
    first: u64,
    words: Vec<(u64, u64)>,
}

impl Table {
    /// Pages between the first and the last for each that is in the set, at most.
    const SPARSE: u64 = 16;

    /// For sorted runs of `pages` pages; `None` where most of it would be empty.
    fn of(runs: &[(u64, u64)], pages: u64) -> Option<Table> {
        let (first, end) = (runs.first()?.0, runs.last()?.1);
        if (end - first) / Table::SPARSE > pages {
            return None;
        }
        let mut words = vec![(0u64, 0u64); usize::try_from((end - first).div_ceil(64)).ok()?];
        for &(start, end) in runs {
            let (mut at, end) = (start - first, end - first);
            while at < end {
                let to = end.min((at / 64 + 1) * 64);
                words[(at / 64) as usize].0 |= (u64::MAX >> (64 - (to - at))) << (at % 64);
                at = to;
            }
        }
        let mut before = 0;
        for (bits, rank) in &mut words {
            *rank = before;
            before += u64::from(bits.count_ones());
        }
        Some(Table { first, words })
    }

    #[inline]
    fn rank(&self, page: u64) -> u64 {
        let at = page - self.first;
        let (bits, rank) = self.words[(at / 64) as usize];
        debug_assert!(bits >> (at % 64) & 1 == 1, "a page that was never added");
        rank + u64::from((bits & ((1 << (at % 64)) - 1)).count_ones())
    }
}

/// The pages of a [`PageSet`], numbered densely.
#[derive(Debug)]
pub struct PageIndex {
    runs: Vec<(u64, u64)>,
    ranks: Vec<u64>,
    pages: u64,
    table: Option<Table>,
}

impl PageIndex {
    /// Pages in the set.
    pub fn len(&self) -> u64 {
        self.pages
    }

    /// True for the empty set.
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Pages of each of `streams` streams.
    pub fn pages_by_stream(&self, streams: usize) -> Vec<u64> {
        let mut pages = vec![0; streams];
        for &(start, end) in &self.runs {
            if let Some(n) = pages.get_mut((start / STREAM_PAGES) as usize) {
                *n += end - start;
            }
        }
        pages
    }

    /// Number of the first page of a request that was added; its other pages follow without a gap.
    pub fn rank(&self, r: Record) -> u64 {
        let (start, _) = page_range(r);
        if let Some(table) = &self.table {
            return table.rank(start);
        }
        let run = self.runs.partition_point(|&(_, end)| end <= start);
        debug_assert!(self.runs[run].0 <= start, "a page that was never added");
        self.ranks[run] + (start - self.runs[run].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Op;
    use std::collections::BTreeSet;

    #[test]
    fn what_falls_among_pages_that_lie_close_together_is_in_the_set() {
        for (seed, space) in [(1, 40_000u64), (2, 2_000_000), (3, 1 << 33)] {
            let mut rng = nandu_base::Rng::new(seed);
            let (mut set, mut plain) = (PageSet::new(), BTreeSet::new());
            for i in 0..3 * BATCH as u64 {
                // The space grows, so that some fall beyond the bits.
                let start = rng.below(space / 8 + space * i / (4 * BATCH as u64)) + space;
                let sectors = 1 + rng.below(9 * PAGE_SECTORS);
                let record = Record::new(i, Op::Read, false, start * 3, sectors, 0).expect("in bounds");
                set.add(record);
                let (from, to) = page_range(record);
                plain.extend(from..to);
            }
            let (dense, pages) = (set.bits.is_some(), plain.len() as u64);
            let index = set.index();
            assert_eq!((index.len(), dense), (pages, seed < 3), "seed {seed}");
            assert!(index.runs.iter().flat_map(|&(from, to)| from..to).eq(plain), "seed {seed}");
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_set(extents in proptest::collection::vec((0u64..3000, 1u64..100, 0u16..3), 0..300), streams in 1u16..4) {
            let (mut set, mut plain) = (PageSet::new(), BTreeSet::new());
            let records: Vec<Record> = extents.iter()
                .map(|&(at, len, s)| Record::new(0, Op::Read, false, at, len, s % streams).unwrap()).collect();
            for (i, &r) in records.iter().enumerate() {
                set.add(r);
                if i % 50 == 0 {
                    set.settle();
                }
                let (from, to) = page_range(r);
                plain.extend(from..to);
            }
            let index = set.index();
            assert_eq!(index.len(), plain.len() as u64);
            assert_eq!(index.pages_by_stream(3).iter().sum::<u64>(), index.len());
            let order: Vec<u64> = plain.into_iter().collect();
            // The same by the table, where there is one, and by the runs.
            let agrees = |index: &PageIndex| records.iter().all(|&r| order[index.rank(r) as usize] == page_range(r).0);
            assert!(agrees(&index) && agrees(&PageIndex { table: None, ..index }));
        }
    }
}
