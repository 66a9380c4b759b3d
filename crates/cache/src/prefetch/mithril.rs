//! `mithril`: what was read shortly after this before, although it is not next to it.
//!
//! A read of which something is missing is *recorded* with its time, counted in reads. What was recorded `support` times goes into the *mining
//! table*, and out of it again once it was recorded more than 8 times: that is for a cache. When the mining table is full it is mined, and emptied.
//! Its rows are taken in the order of their first times; another row that begins at most `lookahead` reads later is *associated* with one when
//! their times, the first with the first and so on, lie at most `lookahead` apart, with one exception at most, and so do their numbers; and when it is
//! the next row, or some pair of times is one read apart. The *prefetch table* keeps the last two rows that are associated with each; a read of the one brings
//! both. Yang, Karimi, Saemundsson, Wildani and Vigfusson, "MITHRIL: mining sporadic associations for cache prefetching", SoCC 2017; rules and numbers
//! were looked up in the code of its authors' simulator (`prefetch/Mithril.c` of libCacheSim: lookahead 20, support 2 to 8, lists of 2, confidence 1,
//! 5120 / 2 rows), the paper itself was not at hand.
//!
//! Where we differ: a read is named by its first block and brought with the length it had. All pairs of times are held against each other (the code leaves the last
//! out). What is recorded once waits in a ring of four times the mining table (the code: a part of the cache). Sequences are left to a cache's other layer: there is no read-ahead
//! inside.
//!
//! Cost: O(1) for a read; mining sorts its rows and looks at the pairs within `lookahead`. RAM: 120 bytes for a row, of which there are five times `rows`, and 88
//! for an entry of the prefetch table.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use crate::map::{Hashed, LineMap};
use nandu_base::{BuildError, Declared, Report, options};

/// Most times of a row.
const TIMES: usize = 8;
/// What is brought with one read.
const LIST: usize = 2;
/// Pairs of times, and times of one row more than of the other, that may be too far apart.
const CONFIDENCE: usize = 1;
/// Rows of the recording ring for each of the mining table.
const RING: usize = 4;

/// Options of `mithril`.
#[options]
#[derive(Clone, Debug)]
pub struct MithrilConfig {
    /// Reads within which another one counts as being shortly after.
    #[option(default = 20, range = 1..=1000)]
    pub lookahead: u32,
    /// How often a read was missing before it is mined.
    #[option(default = 2, range = 1..=8)]
    pub support: u32,
    /// Rows that are mined together, 600 bytes each with what is recorded before.
    #[option(default = 2560, range = 2..=65_536)]
    pub rows: u32,
    /// Entries of the table, 88 bytes each.
    #[option(default = 65_536, range = 16..=1 << 24)]
    pub entries: u32,
}

impl Declared for MithrilConfig {
    const NAME: &'static str = "mithril";
    const SUMMARY: &'static str =
        "What was read shortly after this before, mined from reads that were missing a few times (MITHRIL).";
    const SOURCE: &'static str = "Yang et al., SoCC 2017";
    const DRAWS: &'static [&'static str] = &["rows = 8, entries = 64"];
}

impl PrefetchOptions for MithrilConfig {
    type Policy = Mithril;

    fn build(&self, _units: &Units) -> Result<Mithril, BuildError> {
        let MithrilConfig { lookahead, support, rows, entries } = *self;
        Ok(Mithril::new(lookahead, support, rows as usize, entries as usize))
    }
}

/// A read and when something of it was missing.
#[derive(Clone, Copy, Default, Debug)]
struct Row {
    first: u64,
    blocks: u32,
    count: u32,
    times: [u64; TIMES],
}

impl Row {
    fn times(&self) -> &[u64] {
        &self.times[..self.count as usize]
    }

    fn note(&mut self, now: u64, blocks: u32) {
        self.times[self.count as usize] = now;
        self.count += 1;
        self.blocks = blocks;
    }
}

/// What is brought with reads that begin at `first`.
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    first: u64,
    len: u32,
    ahead: [(u64, u32); LIST],
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Mithril {
    lookahead: u64,
    support: u32,
    now: u64,
    ring: Vec<Row>,
    at: usize,
    in_ring: Hashed,
    mined: Vec<Row>,
    rows: usize,
    in_mined: Hashed,
    table: Vec<Entry>,
    next: usize,
    in_table: Hashed,
    minings: u64,
    predictions: u64,
}

impl Mithril {
    /// Mines `rows` rows that were recorded `support` times, for reads at most `lookahead` apart; `entries` in its table.
    pub fn new(lookahead: u32, support: u32, rows: usize, entries: usize) -> Mithril {
        Mithril {
            lookahead: u64::from(lookahead),
            support: support.clamp(1, TIMES as u32),
            now: 0,
            ring: vec![Row::default(); RING * rows.max(1)],
            at: 0,
            in_ring: Hashed::new(RING * rows),
            mined: Vec::with_capacity(rows),
            rows: rows.max(1),
            in_mined: Hashed::new(rows),
            table: vec![Entry::default(); entries.max(1)],
            next: 0,
            in_table: Hashed::new(entries),
            minings: 0,
            predictions: 0,
        }
    }

    /// Something of a read was missing.
    fn record(&mut self, first: u64, blocks: u32) {
        if let Some(at) = self.in_mined.get(first) {
            let row = &mut self.mined[at as usize];
            if (row.count as usize) < TIMES {
                return row.note(self.now, blocks);
            }
            self.in_mined.remove(first);
            self.mined.swap_remove(at as usize);
            if let Some(moved) = self.mined.get(at as usize) {
                self.in_mined.remove(moved.first);
                self.in_mined.insert(moved.first, at);
            }
            return;
        }
        let at = self.in_ring.get(first).unwrap_or_else(|| {
            let at = self.at;
            self.at = (at + 1) % self.ring.len();
            let old = std::mem::replace(&mut self.ring[at], Row { first, ..Row::default() });
            if old.count > 0 {
                self.in_ring.remove(old.first);
            }
            self.in_ring.insert(first, at as u32);
            at as u32
        });
        self.ring[at as usize].note(self.now, blocks);
        if self.ring[at as usize].count < self.support {
            return;
        }
        let row = std::mem::take(&mut self.ring[at as usize]);
        self.in_ring.remove(first);
        self.in_mined.insert(first, self.mined.len() as u32);
        self.mined.push(row);
        if self.mined.len() == self.rows {
            self.mine();
        }
    }

    fn mine(&mut self) {
        self.minings += 1;
        let mut rows = std::mem::take(&mut self.mined);
        rows.iter().for_each(|row| self.in_mined.remove(row.first));
        rows.sort_unstable_by_key(|row| (row.times[0], row.first));
        for (at, row) in rows.iter().enumerate() {
            for (nth, other) in rows[at + 1..].iter().enumerate() {
                if other.times[0] - row.times[0] > self.lookahead {
                    break;
                }
                if self.are_associated(row, other, nth == 0) {
                    self.associate(row.first, (other.first, other.blocks));
                }
            }
        }
        rows.clear();
        self.mined = rows;
    }

    fn are_associated(&self, row: &Row, other: &Row, is_next: bool) -> bool {
        let pairs = || row.times().iter().zip(other.times()).map(|(a, b)| a.abs_diff(*b));
        let is_near = row.times().len().abs_diff(other.times().len()) <= CONFIDENCE
            && pairs().filter(|&apart| apart > self.lookahead).count() <= CONFIDENCE;
        is_near && (is_next || pairs().any(|apart| apart == 1))
    }

    fn associate(&mut self, first: u64, what: (u64, u32)) {
        let at = self.in_table.get(first).unwrap_or_else(|| {
            let at = self.next;
            self.next = (at + 1) % self.table.len();
            let old = std::mem::replace(&mut self.table[at], Entry { first, ..Entry::default() });
            if old.len > 0 {
                self.in_table.remove(old.first);
            }
            self.in_table.insert(first, at as u32);
            at as u32
        });
        let entry = &mut self.table[at as usize];
        if let Some(known) = entry.ahead[..entry.len as usize].iter_mut().find(|known| known.0 == what.0) {
            return *known = what;
        }
        if entry.len as usize == LIST {
            entry.ahead.rotate_left(1);
            entry.len -= 1;
        }
        entry.ahead[entry.len as usize] = what;
        entry.len += 1;
    }
}

impl Prefetch for Mithril {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        self.now += 1;
        let Range { first, end } = look.asked;
        if !look.missing.is_empty() {
            self.record(first, (end - first) as u32);
        }
        let Some(at) = self.in_table.get(first) else { return };
        let entry = &self.table[at as usize];
        self.predictions += 1;
        let ranges = entry.ahead[..entry.len as usize].iter();
        ahead.extend(ranges.map(|&(first, blocks)| Range { first, end: first + u64::from(blocks) }));
        super::join(ahead);
    }

    fn bytes(&self) -> usize {
        (self.ring.len() + self.mined.capacity()) * size_of::<Row>()
            + self.table.len() * size_of::<Entry>()
            + self.in_ring.bytes()
            + self.in_mined.bytes()
            + self.in_table.bytes()
    }

    fn report(&mut self, report: &mut Report) {
        report.count("mithril_minings", &mut self.minings);
        report.count("mithril_predictions", &mut self.predictions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    fn read(mithril: &mut Mithril, first: u64, end: u64, missing: bool) -> Vec<(u64, u64)> {
        let asked = Range { first, end };
        let missing: &[Range] = if missing { &[asked] } else { &[] };
        let mut out = Vec::new();
        mithril.plan(&Look { asked, missing, used: 0, retired: 0, late: false }, &mut out);
        out.iter().map(|r| (r.first, r.end)).collect()
    }

    #[test]
    fn what_follows_now_and_then_is_brought_with_its_length() {
        let mut mithril = Mithril::new(3, 2, 6, 16);
        for turn in 0..2 {
            for (first, end) in [(10, 11), (700, 704), (90, 91)] {
                read(&mut mithril, first, end, true);
            }
            for other in 0..3 {
                read(&mut mithril, 1000 * (other + 1) + turn * 50, 1000 * (other + 1) + turn * 50 + 1, true);
            }
        }
        for first in [4000, 5000, 6000, 4000, 5000, 6000] {
            read(&mut mithril, first, first + 1, true);
        }
        assert_eq!(read(&mut mithril, 10, 11, false), [(700, 704)]);
        assert_eq!(read(&mut mithril, 700, 704, false), [(90, 91)]);
        assert_eq!(read(&mut mithril, 90, 91, false), []);
    }

    #[test]
    fn what_is_met_all_the_time_is_not_mined() {
        let mut mithril = Mithril::new(20, 2, 2, 16);
        for _ in 0..9 {
            read(&mut mithril, 1, 2, true);
        }
        assert!(mithril.mined.is_empty());
        read(&mut mithril, 1, 2, true);
        assert_eq!(mithril.ring.iter().filter(|row| row.count > 0).count(), 1);
    }

    /// The rules in lists that are searched from end to end.
    struct Slow {
        lookahead: u64,
        now: u64,
        ring: Vec<Option<(u64, u64, Vec<u64>)>>,
        at: usize,
        mined: Vec<(u64, u64, Vec<u64>)>,
        rows: usize,
        table: Vec<(u64, Vec<(u64, u64)>)>,
        entries: usize,
        oldest: usize,
    }

    impl Slow {
        fn read(&mut self, first: u64, len: u64, missing: bool) -> Vec<u64> {
            self.now += 1;
            if missing {
                self.record(first, len);
            }
            let entry = self.table.iter().find(|e| e.0 == first);
            let mut blocks: Vec<u64> =
                entry.iter().flat_map(|e| &e.1).flat_map(|&(first, len)| first..first + len).collect();
            blocks.sort_unstable();
            blocks.dedup();
            blocks
        }

        fn record(&mut self, first: u64, len: u64) {
            if let Some(at) = self.mined.iter().position(|r| r.0 == first) {
                let row = &mut self.mined[at];
                if row.2.len() == 8 {
                    self.mined.remove(at);
                } else {
                    row.1 = len;
                    row.2.push(self.now);
                }
                return;
            }
            let known = self.ring.iter_mut().flatten().find(|r| r.0 == first);
            match known {
                Some(row) => {
                    row.2.push(self.now);
                    let row = (first, len, row.2.clone());
                    self.ring
                        .iter_mut()
                        .filter(|r| r.as_ref().is_some_and(|r| r.0 == first))
                        .for_each(|r| *r = None);
                    self.mined.push(row);
                    if self.mined.len() == self.rows {
                        self.mine();
                    }
                }
                None => {
                    self.ring[self.at] = Some((first, len, vec![self.now]));
                    self.at = (self.at + 1) % self.ring.len();
                }
            }
        }

        fn mine(&mut self) {
            let mut rows = std::mem::take(&mut self.mined);
            rows.sort_by_key(|r| (r.2[0], r.0));
            for a in 0..rows.len() {
                for b in a + 1..rows.len() {
                    let ((x, _, s), (y, len, t)) = (&rows[a], &rows[b]);
                    let apart: Vec<u64> = s.iter().zip(t).map(|(s, t)| s.abs_diff(*t)).collect();
                    let far = apart.iter().filter(|&&apart| apart > self.lookahead).count();
                    let is_near = t[0] - s[0] <= self.lookahead && far <= 1 && s.len().abs_diff(t.len()) <= 1;
                    if is_near && (b == a + 1 || apart.contains(&1)) {
                        self.associate(*x, *y, *len);
                    }
                }
            }
        }

        fn associate(&mut self, first: u64, what: u64, len: u64) {
            let at = match self.table.iter().position(|e| e.0 == first) {
                Some(at) => at,
                None if self.table.len() < self.entries => {
                    self.table.push((first, Vec::new()));
                    self.table.len() - 1
                }
                None => {
                    let at = self.oldest;
                    self.oldest = (at + 1) % self.entries;
                    self.table[at] = (first, Vec::new());
                    at
                }
            };
            let list = &mut self.table[at].1;
            match list.iter_mut().find(|w| w.0 == what) {
                Some(known) => known.1 = len,
                None => {
                    list.push((what, len));
                    if list.len() > 2 {
                        list.remove(0);
                    }
                }
            }
        }
    }

    #[test]
    fn it_brings_what_searched_lists_bring() {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let (lookahead, rows, entries) = (rng.between(1, 12), rng.between(2, 12), rng.between(1, 30));
            let mut quick = Mithril::new(lookahead as u32, 2, rows as usize, entries as usize);
            let mut slow = Slow {
                lookahead,
                now: 0,
                ring: vec![None; 4 * rows as usize],
                at: 0,
                mined: Vec::new(),
                rows: rows as usize,
                table: Vec::new(),
                entries: entries as usize,
                oldest: 0,
            };
            let mut brought = 0;
            for step in 0..3000 {
                let first = rng.below(40) * 10;
                let (len, missing) = (rng.between(1, 4), rng.below(4) > 0);
                let ranges = read(&mut quick, first, first + len, missing);
                let blocks: Vec<u64> = ranges.iter().flat_map(|&(first, end)| first..end).collect();
                assert_eq!(blocks, slow.read(first, len, missing), "seed {seed}, read {step}");
                brought += blocks.len();
            }
            assert!(brought > 0, "seed {seed}");
        }
    }
}
