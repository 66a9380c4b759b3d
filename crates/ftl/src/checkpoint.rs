//! Checkpoints of the translation directory, so that a start after a power cut need not read every page's record.
//!
//! A checkpoint is a snapshot with a sequence number: where each translation page lies (flash places, never the slots of
//! a cache), the entries in RAM that differ from their translation pages, and where the trim records lie. Pages with a
//! larger number are newer than it. It is valid once its last page is programmed, and it begins only when everything
//! issued before it is complete; so it never promises what the cut has taken.
//!
//! Checkpoints lie in *anchor blocks*, the first ones of each plane, where a start finds them without a search. The
//! anchors are two halves, each large enough for one checkpoint. Checkpoints are appended to a half until the next one
//! does not fit; then the other half is erased. So the newest valid checkpoint is never in the half that is erased.
//!
//! Own design (O2-13, W2-1).

use crate::address::{BlockId, Layout, Lpn, Ppn};

const MAGIC: u32 = 0x4E43_5031; // "NCP1"
/// Words before the directory: magic, pages, sequence number (2), translation pages, records, entries.
const HEADER: usize = 7;

/// What a checkpoint says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkpoint {
    /// Pages with a larger number are newer.
    pub seq: u64,
    /// Place of each translation page plus one; zero for one that was never written.
    pub directory: Vec<u32>,
    /// Places of the trim records.
    pub records: Vec<Ppn>,
    /// Entries that differ from their translation page, as words of the map.
    pub entries: Vec<(Lpn, u32)>,
}

impl Checkpoint {
    /// Words of a checkpoint of this size.
    pub fn words(translation_pages: u32, records: u32, entries: u32) -> u64 {
        HEADER as u64 + u64::from(translation_pages) + u64::from(records) + 2 * u64::from(entries)
    }

    /// Its words, for pages of `per_page` words.
    pub fn encode(&self, per_page: usize) -> Vec<u32> {
        let len = HEADER + self.directory.len() + self.records.len() + 2 * self.entries.len();
        let mut out = Vec::with_capacity(len);
        out.extend([MAGIC, len.div_ceil(per_page) as u32, self.seq as u32, (self.seq >> 32) as u32]);
        out.extend([self.directory.len(), self.records.len(), self.entries.len()].map(|n| n as u32));
        out.extend(&self.directory);
        out.extend(self.records.iter().map(|ppn| ppn.0));
        out.extend(self.entries.iter().flat_map(|&(lpn, word)| [lpn.0, word]));
        out
    }

    /// Pages of the checkpoint whose first page has these words.
    pub fn pages(first: &[u32]) -> Option<u32> {
        (first.first() == Some(&MAGIC)).then(|| first.get(1).copied()).flatten()
    }

    /// Reads the words back. [`None`] when they are no checkpoint.
    pub fn decode(words: &[u32]) -> Option<Checkpoint> {
        let &[MAGIC, _, low, high, pages, records, entries] = words.get(..HEADER)? else { return None };
        let (pages, records, entries) = (pages as usize, records as usize, entries as usize);
        let rest = &words[HEADER..];
        let directory = rest.get(..pages)?.to_vec();
        let rest = &rest[pages..];
        let places = rest.get(..records)?.iter().map(|&ppn| Ppn(ppn)).collect();
        let pairs = rest.get(records..records + 2 * entries)?;
        let entries = pairs.chunks_exact(2).map(|pair| (Lpn(pair[0]), pair[1])).collect();
        Some(Checkpoint { seq: u64::from(low) | u64::from(high) << 32, directory, records: places, entries })
    }
}

/// The blocks that checkpoints lie in, and what of them is used.
#[derive(Clone, Debug)]
pub struct Anchors {
    layout: Layout,
    /// Blocks of a half.
    half: u32,
    /// Blocks of each plane.
    per_plane: u32,
    /// Pages used in each half.
    used: [u32; 2],
    /// The half with the newest checkpoint.
    current: usize,
}

impl Anchors {
    /// Anchors for checkpoints of up to `words` words.
    pub fn new(layout: Layout, words: u64, per_page: u32) -> Anchors {
        let pages = words.div_ceil(u64::from(per_page));
        let half = pages.div_ceil(u64::from(layout.pages)).clamp(1, 1 << 24) as u32;
        Anchors { layout, half, per_plane: (2 * half).div_ceil(layout.planes), used: [0; 2], current: 0 }
    }

    /// Blocks of each plane that are anchors: its first ones.
    pub fn per_plane(&self) -> u32 {
        self.per_plane
    }

    /// Whether the block is an anchor.
    pub fn owns(&self, block: BlockId) -> bool {
        let first = self.layout.first_block(self.layout.plane_of_block(block)).0;
        block.0 - first < self.per_plane
    }

    /// Pages of a half.
    pub fn pages(&self) -> u32 {
        self.half * self.layout.pages
    }

    fn block(&self, half: usize, index: u32) -> BlockId {
        let n = half as u32 * self.half + index;
        BlockId(self.layout.first_block(n % self.layout.planes).0 + n / self.layout.planes)
    }

    /// A page of a half.
    pub fn page(&self, half: usize, index: u32) -> Ppn {
        let block = self.block(half, index / self.layout.pages);
        Ppn(self.layout.first_page(block).0 + index % self.layout.pages)
    }

    /// Room for a checkpoint of `pages` pages, which must fit a half: its half, its first page there, and the blocks to
    /// erase before.
    pub fn take(&mut self, pages: u32) -> (usize, u32, Vec<BlockId>) {
        let mut stale = Vec::new();
        if self.used[self.current] + pages > self.pages() {
            self.current = 1 - self.current;
            stale = self.empty(self.current);
        }
        let first = self.used[self.current];
        self.used[self.current] += pages;
        (self.current, first, stale)
    }

    /// Gives all checkpoints up; returns the blocks to erase, those of the newest one last.
    pub fn give_up(&mut self) -> Vec<BlockId> {
        let mut stale = self.empty(1 - self.current);
        stale.extend(self.empty(self.current));
        stale
    }

    /// Nothing of a half is used any more; returns its blocks that were.
    fn empty(&mut self, half: usize) -> Vec<BlockId> {
        let blocks = std::mem::take(&mut self.used[half]).div_ceil(self.layout.pages);
        (0..blocks).map(|index| self.block(half, index)).collect()
    }

    /// Takes over what a start has found: the pages used in each half, and the half of the newest valid checkpoint. Without
    /// one, both halves are written anew.
    pub fn restore(&mut self, used: [u32; 2], current: Option<usize>) {
        self.used = used;
        self.current = current.unwrap_or(0);
        if current.is_none() {
            self.used[0] = if used[0] > 0 { self.pages() } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_given_up_the_newest_last() {
        let layout = Layout::new(2, 8, 4).unwrap();
        let mut anchors = Anchors::new(layout, 16, 4);
        let blocks =
            |half: usize| (0..anchors.half).map(|index| anchors.block(half, index)).collect::<Vec<_>>();
        let (old, new) = (blocks(0), blocks(1));
        assert!(anchors.give_up().is_empty());
        let (first, _, _) = anchors.take(4);
        let (second, _, stale) = anchors.take(4);
        assert_eq!((first, second, stale), (0, 1, vec![]));
        assert_eq!(anchors.give_up(), [old, new].concat());
        // Nothing of either is used any more.
        assert!(anchors.give_up().is_empty());
        assert_eq!(anchors.take(4).1, 0);
    }

    #[test]
    fn a_checkpoint_reads_back_as_it_was_written() {
        let checkpoint = Checkpoint {
            seq: 5 << 33,
            directory: vec![0, 7, 9],
            records: vec![Ppn(3)],
            entries: vec![(Lpn(4), 0), (Lpn(5), 8)],
        };
        let words = checkpoint.encode(4);
        assert_eq!(words.len() as u64, Checkpoint::words(3, 1, 2));
        assert_eq!(Checkpoint::pages(&words), Some(4));
        assert_eq!(Checkpoint::decode(&words), Some(checkpoint));
        assert_eq!(Checkpoint::decode(&words[..words.len() - 1]), None);
        assert_eq!(Checkpoint::decode(&[0; 16]), None);
    }

    #[test]
    fn the_half_with_the_newest_checkpoint_is_not_erased() {
        let layout = Layout::new(2, 4, 4).unwrap();
        let mut anchors = Anchors::new(layout, 20, 4);
        assert_eq!((anchors.per_plane(), anchors.pages()), (2, 8));
        assert_eq!(anchors.take(5), (0, 0, vec![]));
        assert_eq!(anchors.take(3), (0, 5, vec![]));
        assert_eq!(anchors.take(4), (1, 0, vec![]));
        let (half, first, stale) = anchors.take(5);
        assert_eq!((half, first, stale.len()), (0, 0, 2));
        assert!(stale.iter().all(|&block| anchors.owns(block)));
        let pages: std::collections::BTreeSet<Ppn> =
            (0..2).flat_map(|half| (0..8).map(move |i| (half, i))).map(|(h, i)| anchors.page(h, i)).collect();
        assert_eq!(pages.len(), 16);
    }
}
