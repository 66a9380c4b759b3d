//! A set of 4 KiB pages kept as runs: the footprint of a trace in memory that grows with its fragments, not its size.
//!
//! Pages of different streams never touch. Additions collect in a buffer as large as the set, which is then sorted and
//! merged, so n additions cost O(n log n).

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
        match self.pending.last_mut() {
            Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
            _ => self.pending.push((start, end)),
        }
        if self.pending.len() >= BATCH.max(self.runs.len()) {
            self.settle();
        }
    }

    fn settle(&mut self) {
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
    }

    /// Numbers the pages 0, 1, ... in order of stream and address.
    pub fn index(mut self) -> PageIndex {
        self.settle();
        let mut before = 0;
        let ranks = self.runs.iter().map(|&(start, end)| {
            let rank = before;
            before += end - start;
            rank
        });
        let ranks = ranks.collect();
        PageIndex { runs: self.runs, ranks, pages: before }
    }
}

/// The pages of a [`PageSet`], numbered densely.
#[derive(Debug)]
pub struct PageIndex {
    runs: Vec<(u64, u64)>,
    ranks: Vec<u64>,
    pages: u64,
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

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_set(extents in proptest::collection::vec((0u64..3000, 1u64..100, 0u16..3), 0..300)) {
            let (mut set, mut plain) = (PageSet::new(), BTreeSet::new());
            let records: Vec<Record> = extents.iter()
                .map(|&(at, len, s)| Record::new(0, Op::Read, false, at, len, s).unwrap()).collect();
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
            for r in records {
                assert_eq!(order[index.rank(r) as usize], page_range(r).0);
            }
        }
    }
}
