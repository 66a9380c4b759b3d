//! TPFTL: cached entries are grouped by translation page; fetches follow requests, write-backs follow groups.
//!
//! ```text
//! groups are in the order of their last use, entries of a group too
//! miss:   read the translation page; cache the entry, and with it
//!           those of the following pages of the same request (request-level prefetch), and
//!           when accesses look sequential, as many as pages before it are cached already (selective prefetch)
//! room:   from the oldest group the oldest unchanged entry goes; when all are changed, the whole group is written
//!           with one read and one write, stays cached unchanged, and only its oldest entry goes
//! sequential: each group that comes counts +1, each that goes -1; below -3 prefetch is on, above +3 it is off
//! ```
//!
//! Source: Y. Zhou, F. Wu, P. Huang, X. He, C. Xie, J. Zhou, "An Efficient Page-level FTL to Optimize Address Translation in
//! Flash Memory" (TPFTL), EuroSys 2015, section 4. A modern comparator for the TPC-FTL paper (B2-9).
//!
//! Where we differ: groups are ordered by last use instead of the mean hotness of their entries; a prefetch takes the room
//! of unchanged entries of one group and never causes a write; moves of collection wait in a table ([`super::moves`]).
//!
//! RAM of the drive: 6 bytes per entry (offset and place), 8 per group, 4 per translation page, 8 per waiting move. The
//! simulator adds 8 bytes per logical page (content of the translation pages, index).

use super::lru::{Ends, Links, Lru};
use super::split::MapShape;
use super::store::{Directory, Store};
use super::{Given, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use nandu_base::{BuildError, Declared, options};
use std::sync::Arc;

/// Options of `tpftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct TpftlConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
}

impl Declared for TpftlConfig {
    const NAME: &'static str = "tpftl";
    const SUMMARY: &'static str = "TPFTL: single entries are cached in groups by translation page, 6 bytes each and 8 for a group; \
                                   requests fetch their entries together.";
    const SOURCE: &'static str = "Zhou et al., EuroSys 2015";
}

impl MapOptions for TpftlConfig {
    type Map = Tpftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Tpftl, BuildError> {
        Ok(Tpftl::new(given.shape, self.paged.ram(ENTRY + GROUP)?))
    }
}

/// Bytes of an entry.
const ENTRY: u64 = 6;
/// Bytes of a group.
const GROUP: u64 = 8;
/// Groups that come or go before prefetch changes.
const TREND: i32 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: Lpn,
    /// Page number plus one; zero when unmapped.
    word: u32,
    dirty: bool,
}

/// The cached entries of one translation page.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// By their last use.
    entries: Ends,
    dirty: u32,
}

const EMPTY: Group = Group { entries: Ends::EMPTY, dirty: 0 };

/// The map.
#[derive(Clone, Debug)]
pub struct Tpftl {
    store: Store,
    directory: Directory,
    entries: Vec<Entry>,
    /// Lists the entries of each group.
    links: Links,
    unused: Vec<u32>,
    groups: Vec<Group>,
    /// Groups with entries, by their last use.
    order: Lru,
    ram: u64,
    used: u64,
    /// Entry of each logical page, plus one; zero when it is not cached.
    index: Vec<u32>,
    /// One past the last page of the present request.
    request_end: u32,
    trend: i32,
    sequential: bool,
}

impl Tpftl {
    /// A map whose cache has `ram` bytes.
    pub fn new(shape: MapShape, ram: u64) -> Tpftl {
        let pages = shape.translation_pages();
        Tpftl {
            directory: Directory::new(pages),
            entries: Vec::new(),
            links: Links::default(),
            unused: Vec::new(),
            groups: vec![EMPTY; pages as usize],
            order: Lru::default(),
            ram: ram.max(ENTRY + GROUP),
            used: 0,
            index: vec![0; shape.pages as usize],
            request_end: 0,
            trend: 0,
            sequential: false,
            store: Store::new(shape),
        }
    }

    fn cached(&self) -> u64 {
        (self.entries.len() - self.unused.len()) as u64
    }

    /// The slot that holds the entry of `lpn`, loaded if need be; it is the most recently used from here on.
    fn slot_for(&mut self, lpn: Lpn, ops: &mut MapOps) -> usize {
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.cached();
        match self.index[lpn.0 as usize] {
            0 => self.load(lpn, ops),
            at => {
                self.store.count.hits += 1;
                self.use_again(lpn, at - 1);
                at as usize - 1
            }
        }
    }

    /// The slot of an entry that is cached; it is the most recently used from here on.
    #[inline]
    fn cached_slot(&mut self, lpn: Lpn) -> Option<usize> {
        let slot = self.index[lpn.0 as usize].checked_sub(1)?;
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.cached();
        self.store.count.hits += 1;
        self.use_again(lpn, slot);
        Some(slot as usize)
    }

    /// Makes an entry and its group the most recently used.
    #[inline]
    fn use_again(&mut self, lpn: Lpn, slot: u32) {
        let tp = self.store.shape.tp(lpn);
        self.links.touch(&mut self.groups[tp.0 as usize].entries, slot);
        self.order.touch(tp.0);
    }

    fn load(&mut self, lpn: Lpn, ops: &mut MapOps) -> usize {
        self.store.count.misses += 1;
        // Room for a group too: the entry's own may be the one that goes.
        while self.used + ENTRY + GROUP > self.ram {
            let Some(tp) = self.order.oldest() else { break };
            self.evict(Tp(tp), ops);
        }
        let tp = self.store.shape.tp(lpn);
        match self.store.take_move(lpn) {
            Some(ppn) => self.insert(lpn, ppn.0 + 1, true) as usize,
            None => {
                let read = self.directory.read(tp, ops);
                self.store.count.loads += u64::from(read);
                if read {
                    self.prefetch_behind(lpn);
                }
                self.insert(lpn, self.store.word(lpn), false) as usize
            }
        }
    }

    /// Caches entries behind `lpn` from the translation page that is being read. Leaves room for the entry itself.
    fn prefetch_behind(&mut self, lpn: Lpn) {
        let tp = self.store.shape.tp(lpn);
        let std::ops::Range { start: begin, end } = self.store.shape.span(tp);
        let end = end.min(self.store.shape.pages);
        let mut wanted = self.request_end.clamp(lpn.0 + 1, end);
        if self.sequential {
            let before =
                (begin..lpn.0).rev().take_while(|&page| self.index[page as usize] != 0).count() as u32;
            wanted = wanted.max((lpn.0 + 1 + before).min(end));
        }
        let from = self.order.oldest().map(Tp).filter(|&group| group != tp);
        for page in (lpn.0 + 1..wanted).map(Lpn) {
            if self.index[page.0 as usize] != 0 || self.store.moved_to(page).is_some() {
                continue;
            }
            let group = u64::from(self.groups[tp.0 as usize].entries.is_empty()) * GROUP;
            while self.used + 2 * ENTRY + group > self.ram {
                if !from.is_some_and(|from| self.evict_unchanged(from)) {
                    return;
                }
            }
            self.insert(page, self.store.word(page), false);
        }
    }

    /// Lets one entry of the group go; when all are changed, the group is written first.
    fn evict(&mut self, tp: Tp, ops: &mut MapOps) {
        self.store.count.scan_visits += self.cached();
        if self.evict_unchanged(tp) {
            return;
        }
        self.store.count.write_backs += 1;
        self.write_back(tp, ops);
        self.remove(self.groups[tp.0 as usize].entries.oldest().expect("a group in the order has entries"));
    }

    /// Lets the oldest unchanged entry of the group go, if there is one.
    fn evict_unchanged(&mut self, tp: Tp) -> bool {
        let mut next = self.groups[tp.0 as usize].entries.oldest();
        while let Some(at) = next {
            self.store.count.visits += 1;
            if !self.entries[at as usize].dirty {
                self.remove(at);
                return true;
            }
            next = self.links.newer(at);
        }
        false
    }

    /// Reads the translation page, enters every changed entry and waiting move of it, and writes it.
    fn write_back(&mut self, tp: Tp, ops: &mut MapOps) {
        self.directory.read(tp, ops);
        self.store.count.scan_visits += self.cached();
        let mut next = self.groups[tp.0 as usize].entries.oldest();
        while let Some(at) = next {
            let entry = &mut self.entries[at as usize];
            self.store.count.visits += 1;
            if entry.dirty {
                entry.dirty = false;
                self.store.set_word(entry.lpn, entry.word);
            }
            next = self.links.newer(at);
        }
        self.groups[tp.0 as usize].dirty = 0;
        self.store.count.moves_batched += self.store.enter_moves(tp);
        ops.push(MapOp::Write(tp));
    }

    fn insert(&mut self, lpn: Lpn, word: u32, dirty: bool) -> u32 {
        let entry = Entry { lpn, word, dirty };
        let slot = self.unused.pop().unwrap_or(self.entries.len() as u32);
        if slot as usize == self.entries.len() {
            self.entries.push(entry);
        }
        self.entries[slot as usize] = entry;
        self.index[lpn.0 as usize] = slot + 1;
        self.used += ENTRY;
        let tp = self.store.shape.tp(lpn);
        if self.groups[tp.0 as usize].entries.is_empty() {
            self.used += GROUP;
            self.order.add(tp.0);
            self.follow(1);
        } else {
            self.order.touch(tp.0);
        }
        self.groups[tp.0 as usize].dirty += u32::from(dirty);
        self.links.add(&mut self.groups[tp.0 as usize].entries, slot);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let Entry { lpn, dirty, .. } = self.entries[slot as usize];
        let tp = self.store.shape.tp(lpn);
        self.links.remove(&mut self.groups[tp.0 as usize].entries, slot);
        self.index[lpn.0 as usize] = 0;
        self.unused.push(slot);
        self.used -= ENTRY;
        self.groups[tp.0 as usize].dirty -= u32::from(dirty);
        if self.groups[tp.0 as usize].entries.is_empty() {
            self.used -= GROUP;
            self.order.remove(tp.0);
            self.follow(-1);
        }
    }

    /// A group came or went: fewer groups with the same entries mean that accesses are sequential.
    fn follow(&mut self, by: i32) {
        self.trend += by;
        if self.trend.abs() > TREND {
            self.sequential = self.trend < 0;
            self.trend = 0;
        }
    }

    fn change(&mut self, slot: usize, word: u32) -> u32 {
        let entry = &mut self.entries[slot];
        if !entry.dirty {
            entry.dirty = true;
            self.groups[self.store.shape.tp(entry.lpn).0 as usize].dirty += 1;
        }
        std::mem::replace(&mut entry.word, word)
    }
}

impl Mapping for Tpftl {
    fn begin(&mut self, end: Lpn) {
        self.request_end = end.0;
    }

    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.index[lpn.0 as usize] {
            0 => self.store.uncached(lpn),
            at => page_of(self.entries[at as usize - 1].word),
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
        *self = Tpftl::new(self.store.shape.clone(), self.ram);
        self.store.count = count;
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.index, lpn.0 as usize);
    }

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        let slot = self.slot_for(lpn, ops);
        page_of(self.entries[slot].word)
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        let slot = self.cached_slot(lpn)?;
        Some(page_of(self.entries[slot].word))
    }

    #[inline(always)]
    fn update_cached(&mut self, lpn: Lpn, to: Ppn) -> Option<Option<Ppn>> {
        let slot = self.cached_slot(lpn)?;
        Some(page_of(self.change(slot, to.0 + 1)))
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        let slot = self.slot_for(lpn, ops);
        page_of(self.change(slot, word_of(to)))
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        match self.index[lpn.0 as usize] {
            0 => {
                if let Some(tp) = self.store.batch_due() {
                    self.write_back(tp, ops);
                }
                self.store.put_move(lpn, to);
            }
            at => {
                self.change(at as usize - 1, to.0 + 1);
            }
        }
    }

    /// The old page of every update was known at once.
    fn is_live(&mut self, _lpn: Lpn, _ppn: Ppn, _ops: &mut MapOps) -> bool {
        true
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            if self.groups[tp.0 as usize].dirty > 0 || self.store.has_moves(tp) {
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
        self.ram + self.directory.ram() + self.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        let (mut cached, mut groups) = (0, 0);
        for tp in self.order.iter().map(Tp) {
            let group = self.groups[tp.0 as usize];
            let mut dirty = 0;
            groups += 1;
            for at in self.links.iter(group.entries) {
                let entry = self.entries[at as usize];
                cached += 1;
                dirty += u32::from(entry.dirty);
                if self.index[entry.lpn.0 as usize] != at + 1 || self.store.moved_to(entry.lpn).is_some() {
                    return Err(format!("the entry of {:?} is not the only one", entry.lpn));
                }
                if !entry.dirty && entry.word != self.store.word(entry.lpn) {
                    return Err(format!("the unchanged entry of {:?} differs from its page", entry.lpn));
                }
            }
            if dirty != group.dirty {
                return Err(format!("{tp:?} counts {} changed entries, there are {dirty}", group.dirty));
            }
        }
        if cached != self.cached() || self.used != cached * ENTRY + groups * GROUP || self.used > self.ram {
            return Err(format!("{cached} entries in {groups} groups: {} of {} bytes", self.used, self.ram));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filled map of 32 pages in two translation pages.
    fn filled(ram: u64) -> (Tpftl, MapOps) {
        let mut map = Tpftl::new(MapShape::new(32, 4, 2), ram);
        for lpn in 0..32 {
            map.set(Lpn(lpn), Ppn(lpn));
        }
        (0..2).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(100 + tp)), None));
        (map, MapOps::default())
    }

    #[test]
    fn a_request_reads_its_translation_page_once() {
        let (mut map, mut ops) = filled(100);
        map.begin(Lpn(8));
        for lpn in 3..8 {
            assert_eq!(map.lookup(Lpn(lpn), &mut ops), Some(Ppn(lpn)));
        }
        assert_eq!(ops.list(), [MapOp::Read(Tp(0))]);
        assert_eq!((map.counts().misses, map.counts().hits), (1, 4));
        map.check().unwrap();
    }

    #[test]
    fn a_written_group_stays_and_only_its_oldest_goes() {
        let (mut map, mut ops) = filled(2 * ENTRY + 2 * GROUP);
        map.update(Lpn(0), Some(Ppn(50)), &mut ops);
        map.update(Lpn(1), Some(Ppn(51)), &mut ops);
        map.lookup(Lpn(16), &mut ops);
        let want = [MapOp::Read(Tp(0)), MapOp::Read(Tp(0)), MapOp::Read(Tp(0)), MapOp::Write(Tp(0))];
        assert_eq!(ops.list()[..4], want);
        assert_eq!(map.stored(Tp(0))[..2], [51, 52]);
        assert!(map.index[0] == 0 && map.index[1] != 0);
        map.check().unwrap();
    }
}
