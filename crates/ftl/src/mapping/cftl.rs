//! CFTL: an entry of the cache stands for a run of pages that lie one behind another.
//!
//! ```text
//! entries:  <page, place, k>       k logical pages from `page` lie in the k flash pages from `place`
//!           <block, flash block>   a whole logical block lies in one flash block, in order
//! miss:     read the translation page; cache the run around the page, or the whole block
//! write:    the page leaves its run, which is split; a page behind the end of a changed run extends it
//! room:     the least recently used entry goes; a changed one takes all changes of its translation page along
//! switch:   a block that is read often and seldom written is gathered in one flash block ([`super::switching`]) and becomes
//!           one entry; the next write to it splits that entry
//! ```
//!
//! Source: D. Park, B. Debnath, D. Du, "CFTL: An Adaptive Hybrid Flash Translation Layer with Efficient Caching
//! Strategies", 2011, as the TPC-FTL paper describes it (S2, section II; baseline B2-3); the switching after the same authors'
//! MASCOTS 2011 paper.
//!
//! Where we differ: runs and blocks share one order of use and one budget of bytes instead of two caches; a run does not
//! cross a translation page, and a logical block that does is not gathered. Moves of collection wait in a table
//! ([`super::moves`]); one that hits a cached run makes an entry that is new and so counts as used. So collection
//! takes a gathered block apart again; where it is still read, it is gathered anew.
//!
//! *Striping hides runs*: consecutive pages of a drive with several planes go to different planes, so that their flash
//! pages are not consecutive. There every run has one page until its block is gathered. A gathered block lies on one die: what
//! it saves in translation pages, a long read of it pays with dies that do not work at the same time.
//!
//! RAM of the drive: 12 bytes per run, 8 per block, 4 per translation page, 8 per waiting move; with switching 4 per logical
//! block and one page, which holds the entries of the block being gathered. The simulator adds 8 bytes per logical page
//! (content of the translation pages, index).

use super::lru::Lru;
use super::split::MapShape;
use super::store::{Directory, Store};
use super::switching::{Gather, SwitchSettings, Switching, SwitchingConfig};
use super::{Given, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use nandu_base::{BuildError, Declared, options};
use std::sync::Arc;

/// Options of `cftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct CftlConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
    /// Which logical blocks are gathered in flash blocks of their own.
    #[option(default, table)]
    pub switching: SwitchingConfig,
}

impl Declared for CftlConfig {
    const NAME: &'static str = "cftl";
    const SUMMARY: &'static str = "CFTL: runs of pages that lie one behind another are cached, 12 bytes each, and whole blocks, 8 bytes each. Blocks that \
                                   are read often and seldom written are gathered. On a drive with several planes only those have runs.";
    const SOURCE: &'static str = "Park, Debnath, Du, 2011 (MASCOTS)";
    const DRAWS: &'static [&'static str] = &["", "switching = { kind = \"never\" }"];
}

impl MapOptions for CftlConfig {
    type Map = Cftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn gathers(&self) -> bool {
        self.switching != SwitchingConfig::Never
    }

    fn build(&self, given: Given<'_>) -> Result<Cftl, BuildError> {
        let switching = self.switching.settings((given.planted)("ssd.gathered-although-written"));
        Ok(Cftl::new(given.shape, self.paged.ram(2 * RUN)?, given.block_pages, switching))
    }
}

/// Bytes of a run.
const RUN: u64 = 12;
/// Bytes of a block.
const BLOCK: u64 = 8;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Run {
    /// First logical page.
    first: u32,
    /// Its place plus one; zero for one unmapped page.
    word: u32,
    /// Pages.
    k: u32,
    dirty: bool,
    /// Neighbours among the entries of the same translation page.
    before: u32,
    after: u32,
}

impl Run {
    fn new(first: u32, word: u32, k: u32, dirty: bool) -> Run {
        Run { first, word, k, dirty, before: NONE, after: NONE }
    }

    /// The word of one of its pages.
    fn word_at(&self, lpn: Lpn) -> u32 {
        if self.word == 0 { 0 } else { self.word + (lpn.0 - self.first) }
    }
}

/// The map.
#[derive(Clone, Debug)]
pub struct Cftl {
    store: Store,
    directory: Directory,
    runs: Vec<Run>,
    unused: Vec<u32>,
    ram: u64,
    used: u64,
    lru: Lru,
    /// Entry of each logical page, plus one; zero when it is not cached.
    index: Vec<u32>,
    /// First entry of each translation page, plus one.
    heads: Vec<u32>,
    /// Pages of a block.
    block_pages: u32,
    switching: Option<Switching>,
}

impl Cftl {
    /// A map whose cache has `ram` bytes, on flash with `block_pages` pages in a block. Without `switching`, blocks are found
    /// where they happen to lie in order, and none is made.
    pub fn new(shape: MapShape, ram: u64, block_pages: u32, switching: Option<SwitchSettings>) -> Cftl {
        let pages = shape.translation_pages();
        Cftl {
            directory: Directory::new(pages),
            runs: Vec::new(),
            unused: Vec::new(),
            ram: ram.max(2 * RUN),
            used: 0,
            lru: Lru::default(),
            index: vec![0; shape.pages as usize],
            heads: vec![0; pages as usize],
            block_pages,
            switching: switching.map(|settings| Switching::new(settings, shape.pages, block_pages)),
            store: Store::new(shape),
        }
    }

    /// Bytes of an entry.
    fn cost(&self, run: &Run) -> u64 {
        let stride = self.block_pages.next_power_of_two();
        let whole = run.k == self.block_pages
            && run.first.is_multiple_of(self.block_pages)
            && run.word > 0
            && (run.word - 1).is_multiple_of(stride);
        if whole { BLOCK } else { RUN }
    }

    fn slot_for(&mut self, lpn: Lpn, ops: &mut MapOps) -> u32 {
        self.store.count.visits += 1;
        self.store.count.scan_visits += (self.runs.len() - self.unused.len()) as u64;
        match self.index[lpn.0 as usize] {
            0 => self.load(lpn, ops),
            at => {
                self.store.count.hits += 1;
                self.lru.touch(at - 1);
                at - 1
            }
        }
    }

    fn load(&mut self, lpn: Lpn, ops: &mut MapOps) -> u32 {
        self.store.count.misses += 1;
        self.make_room(RUN, ops);
        let run = match self.store.take_move(lpn) {
            Some(ppn) => Run::new(lpn.0, ppn.0 + 1, 1, true),
            None => {
                self.store.count.loads += u64::from(self.directory.read(self.store.shape.tp(lpn), ops));
                self.run_around(lpn)
            }
        };
        self.insert(run)
    }

    /// The longest run around a page that its translation page shows and the cache does not hold; the whole block when
    /// that is all of it.
    fn run_around(&self, lpn: Lpn) -> Run {
        let word = self.store.word(lpn);
        if word == 0 {
            return Run::new(lpn.0, 0, 1, false);
        }
        let tp = self.store.shape.tp(lpn);
        let std::ops::Range { start: begin, end } = self.store.shape.span(tp);
        let end = end.min(self.store.shape.pages);
        let has_moves = self.store.has_moves(tp);
        let joins = |page: u32, want: u32| {
            want > 0
                && self.store.word(Lpn(page)) == want
                && self.index[page as usize] == 0
                && !(has_moves && self.store.moved_to(Lpn(page)).is_some())
        };
        let (mut first, mut last) = (lpn.0, lpn.0);
        while first > begin && joins(first - 1, word - (lpn.0 - first) - 1) {
            first -= 1;
        }
        while last + 1 < end && joins(last + 1, word + (last + 1 - lpn.0)) {
            last += 1;
        }
        let block = lpn.0 - lpn.0 % self.block_pages;
        let whole = Run::new(block, (word + block).wrapping_sub(lpn.0), self.block_pages, false);
        if first <= block && block + self.block_pages - 1 <= last && self.cost(&whole) == BLOCK {
            return whole;
        }
        Run::new(first, word - (lpn.0 - first), last + 1 - first, false)
    }

    /// Lets the oldest entries go until `bytes` more fit.
    fn make_room(&mut self, bytes: u64, ops: &mut MapOps) {
        while self.used + bytes > self.ram {
            let Some(victim) = self.lru.oldest() else { return };
            self.store.count.visits += 1;
            self.store.count.scan_visits += (self.runs.len() - self.unused.len()) as u64;
            let Run { first, dirty, .. } = self.runs[victim as usize];
            if dirty {
                self.store.count.write_backs += 1;
                self.write_back(self.store.shape.tp(Lpn(first)), ops);
            }
            self.remove(victim);
        }
    }

    /// Reads the translation page, enters every changed entry and waiting move of it, and writes it.
    fn write_back(&mut self, tp: Tp, ops: &mut MapOps) {
        self.directory.read(tp, ops);
        self.store.count.scan_visits += (self.runs.len() - self.unused.len()) as u64;
        let mut at = self.heads[tp.0 as usize].wrapping_sub(1);
        while at != NONE {
            let run = &mut self.runs[at as usize];
            self.store.count.visits += 1;
            if run.dirty {
                run.dirty = false;
                let run = *run;
                (run.first..run.first + run.k)
                    .for_each(|page| self.store.set_word(Lpn(page), run.word_at(Lpn(page))));
            }
            at = run_after(&self.runs, at);
        }
        self.store.count.moves_batched += self.store.enter_moves(tp);
        ops.push(MapOp::Write(tp));
    }

    fn insert(&mut self, run: Run) -> u32 {
        let slot = self.unused.pop().unwrap_or(self.runs.len() as u32);
        if slot as usize == self.runs.len() {
            self.runs.push(run);
        }
        self.used += self.cost(&run);
        let head = &mut self.heads[self.store.shape.tp(Lpn(run.first)).0 as usize];
        let after = head.wrapping_sub(1);
        *head = slot + 1;
        if after != NONE {
            self.runs[after as usize].before = slot;
        }
        self.runs[slot as usize] = Run { before: NONE, after, ..run };
        self.index[run.first as usize..(run.first + run.k) as usize].fill(slot + 1);
        self.lru.add(slot);
        slot
    }

    fn remove(&mut self, slot: u32) -> Run {
        let run = self.runs[slot as usize];
        match run.before {
            NONE => self.heads[self.store.shape.tp(Lpn(run.first)).0 as usize] = run.after.wrapping_add(1),
            before => self.runs[before as usize].after = run.after,
        }
        if run.after != NONE {
            self.runs[run.after as usize].before = run.before;
        }
        self.index[run.first as usize..(run.first + run.k) as usize].fill(0);
        self.used -= self.cost(&run);
        self.lru.remove(slot);
        self.unused.push(slot);
        run
    }

    /// Takes one page out of its run and puts it at `word`. The parts of the run stay as entries of their own.
    fn put(&mut self, slot: u32, lpn: Lpn, word: u32, ops: &mut MapOps) {
        let run = self.remove(slot);
        let (left, right) = (lpn.0 - run.first, run.first + run.k - lpn.0 - 1);
        if left > 0 {
            self.insert(Run::new(run.first, run.word, left, run.dirty));
        }
        if right > 0 {
            self.insert(Run::new(lpn.0 + 1, run.word_at(Lpn(lpn.0 + 1)), right, run.dirty));
        }
        let before = match self.store.shape.span(self.store.shape.tp(lpn)).start {
            first if first == lpn.0 => 0,
            _ => self.index[lpn.0 as usize - 1],
        };
        match before.checked_sub(1).map(|slot| (slot, self.runs[slot as usize])) {
            Some((slot, r)) if r.dirty && word > 0 && r.word > 0 && r.word + r.k == word => {
                let r = self.remove(slot);
                self.insert(Run { k: r.k + 1, ..r });
            }
            _ => {
                self.insert(Run::new(lpn.0, word, 1, true));
            }
        }
        self.make_room(0, ops);
    }

    /// Whether the block that begins at `first` is one entry of the cache.
    fn is_block(&self, first: Lpn) -> bool {
        let run = self.index[first.0 as usize].checked_sub(1).map(|slot| self.runs[slot as usize]);
        run.is_some_and(|run| run.first == first.0 && self.cost(&run) == BLOCK)
    }

    /// Makes one entry of a block whose pages lie in order from `at`.
    fn enter_block(&mut self, first: Lpn, at: Ppn) {
        let end = first.0 + self.block_pages;
        let mut page = first.0;
        while page < end {
            let Some(slot) = self.index[page as usize].checked_sub(1) else {
                self.store.take_move(Lpn(page));
                page += 1;
                continue;
            };
            let run = self.remove(slot);
            page = run.first + run.k;
            if run.first < first.0 {
                self.insert(Run::new(run.first, run.word, first.0 - run.first, run.dirty));
            }
            if page > end {
                self.insert(Run::new(end, run.word_at(Lpn(end)), page - end, run.dirty));
            }
        }
        let block = Run::new(first.0, at.0 + 1, self.block_pages, false);
        let dirty = (first.0..end).map(Lpn).any(|lpn| self.store.word(lpn) != block.word_at(lpn));
        self.insert(Run { dirty, ..block });
    }
}

fn run_after(runs: &[Run], at: u32) -> u32 {
    runs[at as usize].after
}

impl Mapping for Cftl {
    #[inline(always)]
    fn gathers(&self) -> bool {
        true
    }

    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.index[lpn.0 as usize] {
            0 => self.store.uncached(lpn),
            at => page_of(self.runs[at as usize - 1].word_at(lpn)),
        }
    }

    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        self.store.set_stored(lpn, Some(ppn))
    }

    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        self.store.set_stored(lpn, None)
    }

    fn begin_as(&mut self, initial: &Arc<dyn Initial>) -> bool {
        self.store.begin_as(initial);
        true
    }

    fn reset(&mut self) {
        let count = self.store.count;
        let switching = self.switching.as_ref().map(Switching::settings);
        *self = Cftl::new(self.store.shape.clone(), self.ram, self.block_pages, switching);
        self.store.count = count;
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.index, lpn.0 as usize);
    }

    #[inline]
    fn begin(&mut self, _end: Lpn) {
        self.switching.iter_mut().for_each(Switching::begin);
    }

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        self.switching.iter_mut().for_each(|s| s.read(lpn));
        let slot = self.slot_for(lpn, ops);
        let at = page_of(self.runs[slot as usize].word_at(lpn));
        self.make_room(0, ops);
        at
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        let slot = self.index[lpn.0 as usize].checked_sub(1)?;
        self.switching.iter_mut().for_each(|s| s.read(lpn));
        self.store.count.visits += 1;
        self.store.count.scan_visits += (self.runs.len() - self.unused.len()) as u64;
        self.store.count.hits += 1;
        self.lru.touch(slot);
        Some(page_of(self.runs[slot as usize].word_at(lpn)))
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        self.switching.iter_mut().for_each(|s| s.written(lpn, to.is_none()));
        let slot = self.slot_for(lpn, ops);
        let old = page_of(self.runs[slot as usize].word_at(lpn));
        self.put(slot, lpn, word_of(to), ops);
        old
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        match self.index[lpn.0 as usize] {
            0 => {
                if let Some(tp) = self.store.batch_due() {
                    self.write_back(tp, ops);
                }
                self.store.put_move(lpn, to);
            }
            at => self.put(at - 1, lpn, to.0 + 1, ops),
        }
    }

    /// The old page of every update was known at once.
    fn is_live(&mut self, _lpn: Lpn, _ppn: Ppn, _ops: &mut MapOps) -> bool {
        true
    }

    #[inline]
    fn wants_gathered(&self) -> Option<Lpn> {
        self.switching.as_ref().and_then(Switching::wanted)
    }

    /// A block is gathered when it lies within one translation page, every page of it is mapped, and they are not in order
    /// in one flash block yet.
    fn start_gathering(&mut self, ops: &mut MapOps) -> bool {
        let Some(switching) = &mut self.switching else { return false };
        let Some(first) = switching.take_wanted() else { return false };
        let last = Lpn(first.0 + self.block_pages - 1);
        let tp = self.store.shape.tp(first);
        if tp != self.store.shape.tp(last) || self.is_block(first) {
            return false;
        }
        self.directory.read(tp, ops);
        let at = self.get(first);
        let mut places = (first.0..=last.0).map(|page| self.get(Lpn(page)));
        let in_order = at.is_some_and(|at| {
            (at.0..).zip(places.clone()).all(|(want, is)| is == Some(Ppn(want)))
                && at.0.is_multiple_of(self.block_pages.next_power_of_two())
        });
        let starts = places.all(|at| at.is_some()) && !in_order;
        if starts {
            self.switching.iter_mut().for_each(|s| s.start(first));
        }
        starts
    }

    fn gather(&mut self) -> Gather {
        self.switching.as_mut().map_or(Gather::Broken, Switching::step)
    }

    fn gathered_at_once(&self) -> u32 {
        self.switching.as_ref().map_or(0, |s| s.settings().pages)
    }

    fn end_gathering(&mut self, at: Option<Ppn>, ops: &mut MapOps) {
        let first = self.switching.as_mut().and_then(Switching::end);
        if let (Some(first), Some(at)) = (first, at) {
            self.enter_block(first, at);
            self.make_room(0, ops);
        }
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            let mut at = self.heads[tp.0 as usize].wrapping_sub(1);
            let mut dirty = self.store.has_moves(tp);
            while at != NONE && !dirty {
                dirty = self.runs[at as usize].dirty;
                at = run_after(&self.runs, at);
            }
            if dirty {
                self.write_back(tp, ops);
            }
        }
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn directory(&self) -> Option<&Directory> {
        Some(&self.directory)
    }

    fn directory_mut(&mut self) -> Option<&mut Directory> {
        Some(&mut self.directory)
    }

    fn ram(&self) -> u64 {
        let page = 4 * self.store.shape.entries() as u64;
        let switching = self.switching.as_ref().map_or(0, |s| s.ram() + page);
        self.ram + self.directory.ram() + self.store.moves_ram() + switching
    }

    fn check(&self) -> Result<(), String> {
        let (mut used, mut pages) = (0, 0);
        for slot in self.lru.iter() {
            let run = self.runs[slot as usize];
            used += self.cost(&run);
            pages += run.k as usize;
            for lpn in (run.first..run.first + run.k).map(Lpn) {
                if self.index[lpn.0 as usize] != slot + 1 {
                    return Err(format!("{lpn:?} is not found by the run that holds it"));
                }
                if self.store.moved_to(lpn).is_some() {
                    return Err(format!("{lpn:?} is cached and has a move waiting"));
                }
                if !run.dirty && run.word_at(lpn) != self.store.word(lpn) {
                    return Err(format!("the unchanged entry of {lpn:?} differs from its translation page"));
                }
            }
        }
        if used != self.used || used > self.ram {
            return Err(format!("{used} bytes used, {} counted, {} there are", self.used, self.ram));
        }
        if pages != self.index.iter().filter(|&&at| at != 0).count() {
            return Err("pages are found that no run holds".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filled map of 16 pages in order, translation pages of 8 entries, blocks of 4 pages.
    fn filled(ram: u64) -> (Cftl, MapOps) {
        let mut map = Cftl::new(MapShape::new(16, 3, 2), ram, 4, None);
        for lpn in 0..16 {
            map.set(Lpn(lpn), Ppn(lpn));
        }
        (0..2).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(100 + tp)), None));
        (map, MapOps::default())
    }

    #[test]
    fn a_block_in_order_is_one_entry_and_a_write_splits_it() {
        let (mut map, mut ops) = filled(60);
        for lpn in 0..4 {
            assert_eq!(map.lookup(Lpn(lpn), &mut ops), Some(Ppn(lpn)));
        }
        assert_eq!((ops.list(), map.used), (&[MapOp::Read(Tp(0))][..], BLOCK));
        assert_eq!(map.update(Lpn(2), Some(Ppn(50)), &mut ops), Some(Ppn(2)));
        assert_eq!((map.used, map.get(Lpn(3))), (3 * RUN, Some(Ppn(3))));
        // The page behind it continues the new run.
        map.update(Lpn(3), Some(Ppn(51)), &mut ops);
        assert_eq!(map.used, 2 * RUN);
        map.check().unwrap();
    }

    #[test]
    fn a_gathered_block_becomes_one_entry_and_a_write_splits_it() {
        let (mut map, mut ops) = filled(100);
        let settings = SwitchSettings { reads: 2, writes: 9, pages: 4, keeps_overwritten: false };
        map.switching = Some(Switching::new(settings, 16, 4));
        // Pages 8 to 11 lie apart; a run goes over both ends of the block.
        for (lpn, ppn) in (7..).zip([39, 40, 51, 52, 53, 54]) {
            map.set(Lpn(lpn), Ppn(ppn));
        }
        for lpn in [9, 12, 9, 9] {
            map.begin(Lpn(13));
            map.lookup(Lpn(lpn), &mut ops);
        }
        ops.clear();
        assert!(map.wants_gathered().is_some() && map.start_gathering(&mut ops));
        assert_eq!(ops.list(), [MapOp::Read(Tp(1))]);
        for (lpn, to) in (8..12).zip(60..) {
            assert_eq!(map.gather(), Gather::Page(Lpn(lpn)));
            map.relocate(Lpn(lpn), Ppn(to), &mut ops);
            map.check().unwrap();
        }
        assert_eq!(map.gather(), Gather::Done);
        map.end_gathering(Some(Ppn(60)), &mut ops);
        map.check().unwrap();
        assert!(map.is_block(Lpn(8)));
        assert_eq!(
            (map.get(Lpn(7)), map.get(Lpn(11)), map.get(Lpn(12))),
            (Some(Ppn(39)), Some(Ppn(63)), Some(Ppn(54)))
        );
        // In order already: nothing is gathered.
        (0..5).for_each(|_| {
            map.begin(Lpn(9));
            map.lookup(Lpn(8), &mut ops);
        });
        assert!(map.wants_gathered().is_some() && !map.start_gathering(&mut ops));
        map.update(Lpn(9), Some(Ppn(70)), &mut ops);
        assert!(!map.is_block(Lpn(8)));
        map.check().unwrap();
    }

    #[test]
    fn a_run_that_is_no_block_is_cached_as_a_run() {
        let (mut map, mut ops) = filled(60);
        for (lpn, ppn) in (8..).zip([40, 41, 42, 7]) {
            map.set(Lpn(lpn), Ppn(ppn));
        }
        assert_eq!(map.lookup(Lpn(9), &mut ops), Some(Ppn(41)));
        assert_eq!(map.lookup(Lpn(10), &mut ops), Some(Ppn(42)));
        assert_eq!((map.counts().misses, map.used), (1, RUN));
        assert_eq!(map.lookup(Lpn(11), &mut ops), Some(Ppn(7)));
        assert_eq!(map.counts().misses, 2);
        map.check().unwrap();
    }
}
