//! Which logical blocks CFTL maps by block: those that are read often and seldom written.
//!
//! ```text
//! request:  counts once for each logical block that it touches, as a read or as a write
//! ageing:   each count halves the counts of one block more, in turn: an average block stays about 2
//! chosen:   a read finds at least `reads` reads and at most `writes` writes counted
//!           -> the block is gathered: its pages are copied, a few after each request, into one flash block, in order
//! given up: the host writes a page that was copied already, or trims any
//! back:     a write splits the entry of a gathered block at once, at no cost; the block is not chosen again until its
//!           writes have aged
//! ```
//!
//! Source: D. Park, B. Debnath, D. Du, "A Workload-Aware Adaptive Hybrid Flash Translation Layer with an Efficient Caching
//! Strategy", MASCOTS 2011, sections III.A to III.C: read-intensive data is mapped by block, write-intensive data by page; from
//! block to page costs nothing, from page to block the valid pages are collected into one block.
//!
//! Where we differ: the paper tells hot data by a set of Bloom filters over pages; here each logical block has two counters,
//! which is exact and small because the decision is about blocks. The paper switches to block mapping while it collects
//! garbage; collection here clears a block of one plane, whose pages belong to many logical blocks, so gathering
//! is work of its own that counters show (`map_pages_converted`).
//!
//! RAM of the drive: 4 bytes per logical block. Work: O(1) per count.

use crate::address::Lpn;
use nandu_base::options;

/// Which logical blocks a map gathers in flash blocks, so that one entry stands for each.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchingConfig {
    /// None: a block is one entry only where it happens to lie in order.
    Never,
    /// Those that are read often and seldom written. A request counts once for each logical block that it touches; counts are
    /// halved each time that as many were made as there are logical blocks, so that an average block has about 2.
    #[default]
    ByAccess {
        /// Reads counted from which a block is gathered.
        #[option(default = 16, range = 1..=u16::MAX)]
        reads: u16,
        /// Most writes counted with which it is.
        #[option(default = 1, range = ..=u16::MAX)]
        writes: u16,
        /// Pages copied after each request.
        #[option(default = 4, range = 1..=4096)]
        pages: u32,
    },
}

impl SwitchingConfig {
    /// The settings; `None` where nothing is gathered. `keeps_overwritten` is a planted fault.
    pub fn settings(self, keeps_overwritten: bool) -> Option<SwitchSettings> {
        match self {
            SwitchingConfig::Never => None,
            SwitchingConfig::ByAccess { reads, writes, pages } => {
                Some(SwitchSettings { reads, writes, pages, keeps_overwritten })
            }
        }
    }
}

/// When a logical block is mapped by block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchSettings {
    /// Reads counted from which a block is read-intensive, at least 1.
    pub reads: u16,
    /// Writes counted beyond which a block is write-intensive.
    pub writes: u16,
    /// Pages copied after each request, at least 1.
    pub pages: u32,
    /// A fault that `verify --inject-bug` asks for: a block whose copies were overwritten is not given up.
    pub keeps_overwritten: bool,
}

/// What the drive does next for the block that is being gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gather {
    /// Copy this page.
    Page(Lpn),
    /// All pages are copied.
    Done,
    /// A page that was copied has changed: the block is given up.
    Broken,
}

#[derive(Clone, Copy, Default, Debug)]
struct Count {
    reads: u16,
    writes: u16,
}

/// The block that is being gathered.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    block: u32,
    copied: u32,
    broken: bool,
}

/// Follows accesses and chooses.
#[derive(Clone, Debug)]
pub struct Switching {
    settings: SwitchSettings,
    /// Pages of a block.
    block_pages: u32,
    counts: Vec<Count>,
    /// The next block to age.
    hand: u32,
    /// The block that the present request has counted for last.
    counted: u32,
    wanted: Option<u32>,
    under_way: Option<UnderWay>,
}

const NONE: u32 = u32::MAX;

impl Switching {
    /// Nothing was read or written yet. Pages behind the last whole block are never gathered.
    pub fn new(settings: SwitchSettings, pages: u32, block_pages: u32) -> Switching {
        Switching {
            settings,
            block_pages,
            counts: vec![Count::default(); (pages / block_pages) as usize],
            hand: 0,
            counted: NONE,
            wanted: None,
            under_way: None,
        }
    }

    /// Its options.
    pub fn settings(&self) -> SwitchSettings {
        self.settings
    }

    /// A request begins.
    #[inline]
    pub fn begin(&mut self) {
        self.counted = NONE;
    }

    /// A page is read.
    #[inline]
    pub fn read(&mut self, lpn: Lpn) {
        let block = lpn.0 / self.block_pages;
        if let Some(count) = self.count(block) {
            count.reads = count.reads.saturating_add(1);
            let Count { reads, writes } = *count;
            let SwitchSettings { reads: least, writes: most, .. } = self.settings;
            if reads >= least && writes <= most && self.wanted.is_none() {
                // Whatever comes of it, the next choice of this block is so many reads away.
                self.counts[block as usize].reads = 0;
                self.wanted = Some(block);
            }
        }
    }

    /// A page is written, or unmapped.
    #[inline]
    pub fn written(&mut self, lpn: Lpn, unmapped: bool) {
        let block = lpn.0 / self.block_pages;
        if let Some(under_way) = self.under_way.as_mut().filter(|u| u.block == block) {
            let stale = lpn.0 % self.block_pages < under_way.copied;
            under_way.broken |= unmapped || (stale && !self.settings.keeps_overwritten);
        }
        if let Some(count) = self.count(block) {
            count.writes = count.writes.saturating_add(1);
        }
    }

    /// The counts of a block, when this request has not counted for it yet.
    #[inline]
    fn count(&mut self, block: u32) -> Option<&mut Count> {
        if self.counted == block || block as usize >= self.counts.len() {
            return None;
        }
        self.counted = block;
        let old = &mut self.counts[self.hand as usize];
        *old = Count { reads: old.reads / 2, writes: old.writes / 2 };
        self.hand = if self.hand as usize + 1 == self.counts.len() { 0 } else { self.hand + 1 };
        Some(&mut self.counts[block as usize])
    }

    /// The first page of the block that was chosen, when none is being gathered.
    #[inline]
    pub fn wanted(&self) -> Option<Lpn> {
        self.wanted.filter(|_| self.under_way.is_none()).map(|block| Lpn(block * self.block_pages))
    }

    /// The first page of the block that was chosen, which is chosen no more.
    pub fn take_wanted(&mut self) -> Option<Lpn> {
        self.wanted.take().map(|block| Lpn(block * self.block_pages))
    }

    /// The block that begins at `first` is gathered from here on.
    pub fn start(&mut self, first: Lpn) {
        self.under_way = Some(UnderWay { block: first.0 / self.block_pages, copied: 0, broken: false });
    }

    /// What comes next; a page that is answered counts as copied.
    pub fn step(&mut self) -> Gather {
        match &mut self.under_way {
            Some(UnderWay { broken: true, .. }) | None => Gather::Broken,
            Some(UnderWay { copied, .. }) if *copied == self.block_pages => Gather::Done,
            Some(UnderWay { block, copied, .. }) => {
                *copied += 1;
                Gather::Page(Lpn(*block * self.block_pages + *copied - 1))
            }
        }
    }

    /// No block is gathered any more; returns the first page of the one that was.
    pub fn end(&mut self) -> Option<Lpn> {
        self.under_way.take().map(|u| Lpn(u.block * self.block_pages))
    }

    /// Bytes in a drive.
    pub fn ram(&self) -> u64 {
        4 * self.counts.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: SwitchSettings =
        SwitchSettings { reads: 3, writes: 1, pages: 2, keeps_overwritten: false };

    fn request(s: &mut Switching, pages: std::ops::Range<u32>, writes: bool) {
        s.begin();
        for lpn in pages.map(Lpn) {
            if writes {
                s.written(lpn, false);
            } else {
                s.read(lpn);
            }
        }
    }

    #[test]
    fn a_block_that_is_read_and_not_written_is_chosen_once() {
        let mut s = Switching::new(SETTINGS, 400, 4);
        request(&mut s, 208..212, false);
        request(&mut s, 209..210, false);
        assert!(s.wanted().is_none(), "a request counts once");
        request(&mut s, 211..212, false);
        assert_eq!(s.take_wanted(), Some(Lpn(208)));
        request(&mut s, 208..212, false);
        assert!(s.wanted().is_none());
    }

    #[test]
    fn a_block_that_is_written_often_is_not_chosen_until_that_is_long_ago() {
        let mut s = Switching::new(SETTINGS, 400, 4);
        (0..4).for_each(|_| request(&mut s, 8..9, true));
        (0..5).for_each(|_| request(&mut s, 8..9, false));
        assert!(s.wanted().is_none());
        // Two rounds of ageing leave one write of the four.
        (0..200).for_each(|i| request(&mut s, 40 + i % 300..41 + i % 300, true));
        (0..5).for_each(|_| request(&mut s, 8..9, false));
        assert_eq!(s.take_wanted(), Some(Lpn(8)));
    }

    #[test]
    fn a_write_behind_the_copies_is_taken_along_and_one_before_breaks_them() {
        let mut s = Switching::new(SETTINGS, 400, 4);
        s.start(Lpn(8));
        assert_eq!((s.step(), s.step()), (Gather::Page(Lpn(8)), Gather::Page(Lpn(9))));
        s.written(Lpn(10), false);
        assert_eq!(s.step(), Gather::Page(Lpn(10)));
        s.written(Lpn(9), false);
        assert_eq!((s.step(), s.end()), (Gather::Broken, Some(Lpn(8))));
        s.start(Lpn(8));
        s.written(Lpn(11), true);
        assert_eq!(s.step(), Gather::Broken);
        s.start(Lpn(4));
        assert_eq!((0..5).map(|_| s.step()).last(), Some(Gather::Done));
    }

    proptest! {
        /// The obvious model: a list of all requests, each counted with what halvings since have left of it.
        #[test]
        fn counts_agree_with_a_list_of_requests(requests in prop::collection::vec((0u32..6, any::<bool>()), 0..80)) {
            let settings = SwitchSettings { reads: u16::MAX, writes: 0, pages: 1, keeps_overwritten: false };
            let mut s = Switching::new(settings, 24, 4);
            let mut model = vec![(0u32, 0u32); 6];
            for (turn, &(block, writes)) in requests.iter().enumerate() {
                request(&mut s, block * 4..block * 4 + 3, writes);
                let aged = &mut model[turn % 6];
                *aged = (aged.0 / 2, aged.1 / 2);
                let count = &mut model[block as usize];
                if writes { count.1 += 1 } else { count.0 += 1 }
            }
            for (count, model) in s.counts.iter().zip(&model) {
                prop_assert_eq!((u32::from(count.reads), u32::from(count.writes)), *model);
            }
        }
    }
}
