//! `markov`: brings the segment that followed this one before (B0-10).
//!
//! A first-order Markov table over segments, as the representative of prefetching from history: for each segment the one
//! that was read after it, and how often in a row. When a segment is read whose successor came at least twice running, the
//! successor is brought. After Joseph and Grunwald, "Prefetching using Markov predictors", IEEE Trans. Computers 48 (1999),
//! with one prediction for each state.
//!
//! Where we differ: the table is direct-mapped with a fixed number of entries, so that memory is bounded; segments that
//! share an entry displace each other.
//!
//! Cost: 24 bytes for each entry, O(1) for each read.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, ByteLen, Declared, Report, options};

/// Options of `markov`.
#[options]
#[derive(Clone, Debug)]
pub struct MarkovConfig {
    /// Bytes of a segment, instead of the cache's `segment_size`.
    #[option(also = "a power of two of blocks, at most 64")]
    pub segment_size: Option<ByteLen>,
    /// Entries of the table, 24 bytes each.
    #[option(default = 65_536, range = 16..=1 << 24)]
    pub entries: u32,
}

impl Declared for MarkovConfig {
    const NAME: &'static str = "markov";
    const SUMMARY: &'static str = "The segment that followed this one before.";
    const SOURCE: &'static str = "Joseph and Grunwald, IEEE Trans. Computers 1999";
    const DRAWS: &'static [&'static str] = &["entries = 64"];
}

impl PrefetchOptions for MarkovConfig {
    type Policy = Markov;

    fn segment(&self) -> Option<ByteLen> {
        self.segment_size
    }

    fn build(&self, units: &Units) -> Result<Markov, BuildError> {
        Ok(Markov::new(units.segment, self.entries as usize))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    segment: u64,
    next: u64,
    times: u32,
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Markov {
    blocks: u64,
    table: Vec<Entry>,
    last: Option<u64>,
    predictions: u64,
}

/// Times in a row that make a prediction.
const SURE: u32 = 2;

impl Markov {
    /// Segments of `blocks` blocks, a table of `entries`.
    pub fn new(blocks: u64, entries: usize) -> Markov {
        let empty = Entry { segment: u64::MAX, next: 0, times: 0 };
        Markov { blocks, table: vec![empty; entries.max(1)], last: None, predictions: 0 }
    }

    fn entry(&mut self, segment: u64) -> &mut Entry {
        let at = segment % self.table.len() as u64;
        &mut self.table[at as usize]
    }

    fn learn(&mut self, from: u64, to: u64) {
        let entry = self.entry(from);
        if (entry.segment, entry.next) == (from, to) {
            entry.times += 1;
        } else {
            *entry = Entry { segment: from, next: to, times: 1 };
        }
    }
}

impl Prefetch for Markov {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        let segment = look.asked.first / self.blocks;
        if self.last == Some(segment) {
            return;
        }
        if let Some(last) = self.last.replace((look.asked.end - 1) / self.blocks) {
            self.learn(last, segment);
        }
        let entry = *self.entry(segment);
        if entry.segment == segment && entry.times >= SURE {
            self.predictions += 1;
            let first = entry.next * self.blocks;
            ahead.push(Range { first, end: first + self.blocks });
        }
    }

    fn bytes(&self) -> usize {
        self.table.len() * size_of::<Entry>()
    }

    fn report(&mut self, report: &mut Report) {
        report.count("markov_predictions", &mut self.predictions);
    }
}
