//! DFTL: entries of the map are cached one by one.
//!
//! ```text
//! read or write of a page:
//!   its entry is cached              -> use it, make it the most recently used
//!   else, no entry is free           -> the least recently used one goes;
//!                                       if it was changed: read its translation page, enter *all* changed cached
//!                                       entries and waiting moves of that page, write it (batch update)
//!        read the page's translation page, cache the entry
//! ```
//!
//! Source: A. Gupta, Y. Kim, B. Urgaonkar, "DFTL: a Flash Translation Layer Employing Demand-based Selective Caching of
//! Page-level Address Mappings", ASPLOS 2009, sections 3.1 to 3.4; baseline B2-2 of the TPC-FTL paper (section II).
//! The old page of a write is known at once, because a write that misses reads its translation page like a read does.
//!
//! The order of use is plain LRU, or segmented as DFTL's paper has it (O2-11): an entry that is used again while it is
//! cached is *protected*, and of those that are not the least recently used one goes first; when too many are protected, the
//! least recently used of them is the newest of the others again. That paper does not say how many are.
//!
//! Where we differ: moves of collection wait in a table ([`super::moves`]) instead of being grouped per victim block (O2-5). An entry is found by an index and the entries of
//! a translation page by a list, so nothing is searched; `scan_visits` counts what the search that the TPC-FTL paper
//! assumes would visit (S2-18: all entries, for a lookup, for the choice of a victim and for a batch update).
//!
//! RAM of the drive: 8 bytes per entry (page number and place, as the paper counts), 4 per translation page, 8 per
//! waiting move. The simulator adds 8 bytes per logical page (content of the translation pages, index).

use super::split::MapShape;
use super::store::{Directory, Store};
use super::{Given, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use nandu_base::{BuildError, Declared, Ratio, options};
use std::sync::Arc;

/// Options of `dftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct DftlConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
    /// Share of the entries that are protected because they were used again. DFTL's own paper has a segmented LRU and does not say
    /// how many it protects.
    #[option(default = Ratio::ZERO, note = "plain LRU", below = Ratio::new(1, 1))]
    pub protected_share: Ratio,
}

impl Declared for DftlConfig {
    const NAME: &'static str = "dftl";
    const SUMMARY: &'static str =
        "DFTL: single entries are cached, 8 bytes each; the map is in translation pages on the flash.";
    const SOURCE: &'static str = "Gupta, Kim, Urgaonkar, ASPLOS 2009";
    const DRAWS: &'static [&'static str] = &["", "protected_share = \"1/4\"", "protected_share = \"9/10\""];
}

impl MapOptions for DftlConfig {
    type Map = Dftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Dftl, BuildError> {
        let protected = self.protected_share;
        let map = Dftl::new(given.shape, self.paged.ram(2 * ENTRY)?);
        let most = protected.of(u64::from(map.cache_slots()));
        Ok(map.with_protected(most as u32))
    }
}

/// Bytes of one cached entry.
const ENTRY: u64 = 8;
/// The slot that holds no entry: where the order of use begins and ends, and the end of every other list.
const NONE: u32 = 0;

#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Entry {
    lpn: Lpn,
    /// Page number plus one; zero when unmapped.
    word: u32,
    dirty: bool,
    /// It was used again while it was cached, and counts as such.
    protected: bool,
    /// Neighbours in the order of use, a ring through [`NONE`]; those that are protected behind all others.
    older: u32,
    newer: u32,
    /// Neighbours among the cached entries of the same translation page.
    before: u32,
    after: u32,
}

const EMPTY: Entry = Entry {
    lpn: Lpn(0),
    word: 0,
    dirty: false,
    protected: false,
    older: NONE,
    newer: NONE,
    before: NONE,
    after: NONE,
};

/// The entries that are protected.
#[derive(Clone, Copy, Debug, Default)]
struct Protected {
    /// Most of them; 0 is plain LRU.
    most: u32,
    count: u32,
    /// The least recently used one; [`NONE`] when there is none.
    oldest: u32,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Dftl {
    store: Store,
    directory: Directory,
    /// The cached entries, behind one that is none.
    entries: Vec<Entry>,
    capacity: u32,
    protected: Protected,
    /// Slot of each logical page; zero when it is not cached.
    index: Vec<u32>,
    /// Slot of the first cached entry of each translation page.
    heads: Vec<u32>,
}

impl Dftl {
    /// A map whose cache has `ram` bytes.
    pub fn new(shape: MapShape, ram: u64) -> Dftl {
        let pages = shape.translation_pages();
        let capacity = (ram / ENTRY).clamp(2, u64::from(shape.pages.max(2))) as u32;
        Dftl {
            directory: Directory::new(pages),
            entries: vec![EMPTY],
            capacity,
            protected: Protected::default(),
            index: vec![0; shape.pages as usize],
            heads: vec![0; pages as usize],
            store: Store::new(shape),
        }
    }

    /// The same map with a segmented order of use: at most `most` entries are protected, 0 for plain LRU. At least one is
    /// not.
    pub fn with_protected(mut self, most: u32) -> Dftl {
        self.protected.most = most.min(self.capacity - 1);
        self
    }

    /// Entries in the cache.
    #[inline]
    fn len(&self) -> u64 {
        self.entries.len() as u64 - 1
    }

    /// Makes an entry the most recently used.
    #[inline(always)]
    fn touch(&mut self, slot: u32) {
        if self.protected.most > 0 {
            return self.protect(slot);
        }
        let Entry { older, newer, .. } = self.entries[slot as usize];
        if newer != NONE {
            self.entries[older as usize].newer = newer;
            self.entries[newer as usize].older = older;
            self.make_newest(slot);
        }
    }

    /// An entry is used again, and is protected from here on.
    #[inline(never)]
    fn protect(&mut self, slot: u32) {
        self.take_out(slot);
        self.make_newest(slot);
        self.entries[slot as usize].protected = true;
        self.protected.count += 1;
        if self.protected.oldest == NONE {
            self.protected.oldest = slot;
        }
        if self.protected.count > self.protected.most {
            let oldest = &mut self.entries[self.protected.oldest as usize];
            oldest.protected = false;
            self.protected.oldest = oldest.newer;
            self.protected.count -= 1;
        }
    }

    /// Takes an entry out of the order of use.
    fn take_out(&mut self, slot: u32) {
        let Entry { older, newer, protected, .. } = self.entries[slot as usize];
        self.entries[older as usize].newer = newer;
        self.entries[newer as usize].older = older;
        if protected {
            self.entries[slot as usize].protected = false;
            self.protected.count -= 1;
            if self.protected.oldest == slot {
                self.protected.oldest = newer;
            }
        }
    }

    /// Puts an entry that is not in the order of use before all that are protected.
    fn insert(&mut self, slot: u32) {
        let newer = self.protected.oldest;
        let older = std::mem::replace(&mut self.entries[newer as usize].older, slot);
        self.entries[older as usize].newer = slot;
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (older, newer);
    }

    /// Puts an entry that is not in the order of use at its end.
    #[inline(always)]
    fn make_newest(&mut self, slot: u32) {
        let last = std::mem::replace(&mut self.entries[0].older, slot);
        self.entries[last as usize].newer = slot;
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (last, NONE);
    }

    /// The slots from the least recently used on.
    fn order(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |&slot: &u32| Some(self.entries[slot as usize].newer);
        std::iter::successors(next(&NONE), next).take_while(|&slot| slot != NONE)
    }

    /// The slot of an entry that is cached; it is the most recently used from here on.
    #[inline(always)]
    fn cached(&mut self, lpn: Lpn) -> Option<usize> {
        let slot = self.index[lpn.0 as usize];
        if slot == NONE {
            return None;
        }
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.len();
        self.store.count.hits += 1;
        self.touch(slot);
        Some(slot as usize)
    }

    /// The slot that holds the entry of `lpn`, loaded if need be; it is the most recently used from here on.
    #[inline]
    fn slot_for(&mut self, lpn: Lpn, ops: &mut MapOps) -> usize {
        match self.cached(lpn) {
            Some(slot) => slot,
            None => self.load(lpn, ops),
        }
    }

    #[inline]
    fn load(&mut self, lpn: Lpn, ops: &mut MapOps) -> usize {
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.len();
        self.store.count.misses += 1;
        let slot = if self.len() < u64::from(self.capacity) { self.add() } else { self.evict(ops) };
        let tp = self.store.shape.tp(lpn);
        let (word, dirty) = match self.store.take_move(lpn) {
            Some(ppn) => (ppn.0 + 1, true),
            None => {
                self.store.count.loads += u64::from(self.directory.read(tp, ops));
                (self.store.word(lpn), false)
            }
        };
        let after = std::mem::replace(&mut self.heads[tp.0 as usize], slot);
        self.entries[after as usize].before = slot;
        self.index[lpn.0 as usize] = slot;
        let entry = &mut self.entries[slot as usize];
        *entry = Entry { lpn, word, dirty, before: NONE, after, ..*entry };
        slot as usize
    }

    /// A slot that was never used; it is the most recently used from here on.
    #[inline(never)]
    fn add(&mut self) -> u32 {
        let slot = self.entries.len() as u32;
        self.entries.push(EMPTY);
        self.insert(slot);
        slot
    }

    /// Lets the least recently used entry go; its slot is the most recently used from here on.
    #[inline(always)]
    fn evict(&mut self, ops: &mut MapOps) -> u32 {
        let victim = self.entries[0].newer;
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.len();
        let Entry { lpn, dirty, .. } = self.entries[victim as usize];
        let tp = self.store.shape.tp(lpn);
        if dirty {
            self.store.count.write_backs += 1;
            self.write_back(tp, ops);
        }
        let Entry { before, after, .. } = self.entries[victim as usize];
        match before {
            NONE => self.heads[tp.0 as usize] = after,
            before => self.entries[before as usize].after = after,
        }
        self.entries[after as usize].before = before;
        self.index[lpn.0 as usize] = NONE;
        if self.protected.most > 0 {
            self.take_out(victim);
            self.insert(victim);
        } else {
            self.touch(victim);
        }
        victim
    }

    /// Reads the translation page, enters every changed entry and waiting move of it, and writes it.
    #[inline(never)]
    fn write_back(&mut self, tp: Tp, ops: &mut MapOps) {
        self.directory.read(tp, ops);
        self.store.count.scan_visits += self.len();
        let mut at = self.heads[tp.0 as usize];
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            self.store.count.visits += 1;
            if entry.dirty {
                entry.dirty = false;
                self.store.set_word(entry.lpn, entry.word);
            }
            at = entry.after;
        }
        self.store.count.moves_batched += self.store.enter_moves(tp);
        ops.push(MapOp::Write(tp));
    }
}

impl Mapping for Dftl {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.index[lpn.0 as usize] {
            0 => self.store.uncached(lpn),
            at => page_of(self.entries[at as usize].word),
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
        let most = self.protected.most;
        *self = Dftl::new(self.store.shape.clone(), u64::from(self.capacity) * ENTRY).with_protected(most);
        self.store.count = count;
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.index, lpn.0 as usize);
    }

    #[inline]
    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        let slot = self.slot_for(lpn, ops);
        page_of(self.entries[slot].word)
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        let slot = self.cached(lpn)?;
        Some(page_of(self.entries[slot].word))
    }

    #[inline(always)]
    fn update_cached(&mut self, lpn: Lpn, to: Ppn) -> Option<Option<Ppn>> {
        let slot = self.cached(lpn)?;
        let entry = &mut self.entries[slot];
        entry.dirty = true;
        Some(page_of(std::mem::replace(&mut entry.word, to.0 + 1)))
    }

    #[inline(always)]
    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        let slot = self.slot_for(lpn, ops);
        let entry = &mut self.entries[slot];
        entry.dirty = true;
        page_of(std::mem::replace(&mut entry.word, word_of(to)))
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
                let entry = &mut self.entries[at as usize];
                entry.word = to.0 + 1;
                entry.dirty = true;
            }
        }
    }

    /// The old page of every update was known at once.
    fn is_live(&mut self, _lpn: Lpn, _ppn: Ppn, _ops: &mut MapOps) -> bool {
        true
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            let mut at = self.heads[tp.0 as usize];
            let mut dirty = self.store.has_moves(tp);
            while at != NONE && !dirty {
                dirty = self.entries[at as usize].dirty;
                at = self.entries[at as usize].after;
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

    fn cache_slots(&self) -> u32 {
        self.capacity
    }

    fn ram(&self) -> u64 {
        u64::from(self.capacity) * ENTRY + self.directory.ram() + self.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        if self.len() > u64::from(self.capacity) {
            return Err(format!("{} entries in a cache for {}", self.len(), self.capacity));
        }
        let cached = self.index.iter().filter(|&&at| at != 0).count();
        if cached != self.order().count() {
            return Err(format!("{cached} entries are found but the order has others"));
        }
        let protected: Vec<bool> = self.order().map(|slot| self.entries[slot as usize].protected).collect();
        let count = protected.iter().filter(|&&p| p).count();
        if !protected.is_sorted()
            || count as u32 != self.protected.count
            || count as u32 > self.protected.most
        {
            return Err(format!("{count} entries are protected, at most {:?}", self.protected));
        }
        for slot in self.order() {
            let Entry { lpn, word, dirty, .. } = self.entries[slot as usize];
            if self.index[lpn.0 as usize] != slot {
                return Err(format!("the entry of {lpn:?} is not the one that is found"));
            }
            if self.store.moved_to(lpn).is_some() {
                return Err(format!("{lpn:?} is cached and has a move waiting"));
            }
            if !dirty && word != self.store.word(lpn) {
                return Err(format!("the unchanged entry of {lpn:?} differs from its translation page"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 logical pages, translation pages of 4 entries, 3 cached entries.
    fn map() -> (Dftl, MapOps) {
        (Dftl::new(MapShape::new(16, 2, 2), 24), MapOps::default())
    }

    fn steps(ops: &mut MapOps, map: &mut Dftl) -> Vec<MapOp> {
        let list = ops.list().to_vec();
        ops.clear();
        for op in &list {
            if let MapOp::Write(tp) = op {
                map.place(*tp, Ppn(1000 + tp.0));
            }
        }
        list
    }

    #[test]
    fn a_changed_victim_takes_its_whole_translation_page_along() {
        let (mut map, mut ops) = map();
        for lpn in [0, 1, 4] {
            assert_eq!(map.update(Lpn(lpn), Some(Ppn(lpn)), &mut ops), None);
        }
        assert_eq!(steps(&mut ops, &mut map), [], "nothing is on the flash yet");
        map.lookup(Lpn(8), &mut ops);
        // Entries 0 and 1 are written together; 1 stays cached, unchanged from here on.
        assert_eq!(steps(&mut ops, &mut map), [MapOp::Write(Tp(0))]);
        assert_eq!(*map.stored(Tp(0)), [1, 2, 0, 0]);
        map.lookup(Lpn(9), &mut ops);
        assert_eq!(steps(&mut ops, &mut map), []);
        assert_eq!(map.lookup(Lpn(0), &mut ops), Some(Ppn(0)));
        assert_eq!(steps(&mut ops, &mut map), [MapOp::Write(Tp(1)), MapOp::Read(Tp(0))]);
        map.check().unwrap();
    }

    #[test]
    fn moves_wait_until_the_table_is_full_and_go_together() {
        let (mut map, mut ops) = map();
        for lpn in 0..16 {
            map.set(Lpn(lpn), Ppn(lpn));
        }
        (0..4).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(100 + tp)), None));
        map.relocate(Lpn(0), Ppn(50), &mut ops);
        map.relocate(Lpn(1), Ppn(51), &mut ops);
        assert_eq!(steps(&mut ops, &mut map), []);
        assert_eq!(map.get(Lpn(1)), Some(Ppn(51)));
        map.relocate(Lpn(4), Ppn(52), &mut ops);
        assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(0)), MapOp::Write(Tp(0))]);
        assert_eq!(*map.stored(Tp(0)), [51, 52, 3, 4]);
        // A waiting move answers without a read.
        assert_eq!(map.lookup(Lpn(4), &mut ops), Some(Ppn(52)));
        assert_eq!(steps(&mut ops, &mut map), []);
        map.check().unwrap();
    }

    /// The obvious segmented LRU: two lists of pages, the oldest first.
    #[test]
    fn a_segmented_order_agrees_with_two_lists() {
        for (seed, most) in [(1, 1), (2, 3), (3, 5), (4, 7), (5, 200)] {
            let shape = MapShape::new(64, 3, 2);
            let mut map = Dftl::new(shape, 8 * ENTRY).with_protected(most);
            let most = most.min(7) as usize;
            let mut ops = MapOps::default();
            let (mut others, mut again): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            let mut rng = nandu_base::Rng::new(seed);
            for turn in 0..4000 {
                let most_lpn = if rng.below(3) == 0 { 64 } else { 10 };
                let lpn = rng.below(most_lpn) as u32;
                let is_hit = map.lookup_cached(Lpn(lpn)).is_some();
                assert_eq!(is_hit, others.contains(&lpn) || again.contains(&lpn), "seed {seed}, turn {turn}");
                if is_hit {
                    others.retain(|&l| l != lpn);
                    again.retain(|&l| l != lpn);
                    again.push(lpn);
                    if again.len() > most {
                        others.push(again.remove(0));
                    }
                } else {
                    map.lookup(Lpn(lpn), &mut ops);
                    ops.clear();
                    if others.len() + again.len() == 8 {
                        others.remove(0);
                    }
                    others.push(lpn);
                }
                let order: Vec<u32> = map.order().map(|slot| map.entries[slot as usize].lpn.0).collect();
                assert_eq!(order, [&others[..], &again].concat(), "seed {seed}, turn {turn}");
                map.check().unwrap();
            }
        }
    }
}
