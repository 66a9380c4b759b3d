//! `clock`: whole translation pages are cached, and the hand of a clock chooses which of them goes.
//!
//! ```text
//! read or write of a page:
//!   its translation page is cached -> use it, set its mark
//!   else: the hand goes round; a slot with a mark loses it and is passed, the first without one is taken
//!         if it was changed, write its translation page; read the one that is wanted, enter moves that wait for it
//! ```
//!
//! Own design, for the example: the second-chance rule of page replacement (Corbató, "A paging experiment with the Multics system", 1968)
//! over the slots of TPC-FTL (Choi and Kim, 2015). Where we differ from TPC-FTL: no read is delayed, and unchanged slots are not preferred.
//!
//! RAM of the drive: a translation page and 5 bytes for each slot, 4 bytes for each translation page, 8 for each move that waits. Cost: O(1) for a page
//! that is cached; a miss passes each slot once at most, and copies a translation page twice.

use nandu::mapping::{
    Directory, Given, Lpn, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Ppn, Store, Tp,
};
use nandu::units::BuildError;
use nandu::{Declared, options};

/// Bytes of a slot beside its entries: whose they are, and two marks.
const SLOT_EXTRA: u64 = 5;

/// Options of `clock`: those of all maps on the flash.
#[options(crate = nandu)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
}

impl Declared for Config {
    const NAME: &'static str = "clock";
    const SUMMARY: &'static str =
        "Whole translation pages are cached, a page and 5 bytes each; a clock chooses which goes.";
    const SOURCE: &'static str = "";
    // Room for a few translation pages of the small drives that `verify` draws.
    const DRAWS: &'static [&'static str] = &["cmt_size = \"6 KiB\"", "cmt_size = \"16500 B\""];
}

impl MapOptions for Config {
    type Map = Clock;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Clock, BuildError> {
        let slot = 4 * given.shape.entries() as u64 + SLOT_EXTRA;
        let slots = (self.paged.ram(slot)? / slot).min(u64::from(given.shape.translation_pages()));
        let directory = Directory::new(given.shape.translation_pages());
        let index = vec![None; given.shape.translation_pages() as usize];
        Ok(Clock {
            store: Store::new(given.shape),
            directory,
            slots: Vec::new(),
            room: slots as usize,
            hand: 0,
            index,
        })
    }
}

/// A translation page in RAM.
#[derive(Clone, Debug)]
struct Slot {
    tp: Tp,
    /// The first logical page of its entries.
    first: u32,
    /// The entries: page number plus one; zero where nothing is mapped.
    words: Vec<u32>,
    used: bool,
    changed: bool,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Clock {
    /// What lies on the flash, and the moves that wait.
    store: Store,
    /// Where each translation page lies.
    directory: Directory,
    slots: Vec<Slot>,
    room: usize,
    hand: usize,
    /// The slot of each translation page.
    index: Vec<Option<u32>>,
}

impl Clock {
    /// The slot of the page's entry, if that is cached.
    fn cached(&self, lpn: Lpn) -> Option<usize> {
        self.index[self.store.shape.tp(lpn).0 as usize].map(|at| at as usize)
    }

    /// The slot of the page's entry, and which of its words it is.
    fn entry(&mut self, lpn: Lpn, ops: &mut MapOps) -> (usize, usize) {
        let slot = match self.cached(lpn) {
            Some(slot) => {
                self.store.count.hits += 1;
                slot
            }
            None => self.load(self.store.shape.tp(lpn), ops),
        };
        self.slots[slot].used = true;
        (slot, (lpn.0 - self.slots[slot].first) as usize)
    }

    /// Brings a translation page into a slot.
    fn load(&mut self, tp: Tp, ops: &mut MapOps) -> usize {
        self.store.count.misses += 1;
        let slot = self.empty(ops);
        self.store.count.loads += u64::from(self.directory.read(tp, ops));
        let first = self.store.shape.span(tp).start;
        let mut words = std::mem::take(&mut self.slots[slot].words);
        words.clear();
        words.extend_from_slice(&self.store.page(tp));
        let mut changed = false;
        while let Some((lpn, ppn)) = self.store.take_any_move(tp) {
            words[(lpn.0 - first) as usize] = ppn.0 + 1;
            changed = true;
        }
        self.slots[slot] = Slot { tp, first, words, used: true, changed };
        self.index[tp.0 as usize] = Some(slot as u32);
        slot
    }

    /// A slot that holds nothing.
    fn empty(&mut self, ops: &mut MapOps) -> usize {
        if self.slots.len() < self.room {
            self.slots.push(Slot { tp: Tp(0), first: 0, words: Vec::new(), used: false, changed: false });
            return self.slots.len() - 1;
        }
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.room;
        }
        let slot = self.hand;
        self.hand = (self.hand + 1) % self.room;
        if self.slots[slot].changed {
            self.store.count.write_backs += 1;
            self.write(slot, ops);
        }
        self.index[self.slots[slot].tp.0 as usize] = None;
        slot
    }

    /// Writes the translation page of a slot.
    fn write(&mut self, slot: usize, ops: &mut MapOps) {
        let Slot { tp, ref words, ref mut changed, .. } = self.slots[slot];
        *changed = false;
        self.store.page_mut(tp).copy_from_slice(words);
        ops.push(MapOp::Write(tp));
    }

    /// Enters the moves that wait for a translation page that is not cached.
    fn enter_moves(&mut self, tp: Tp, ops: &mut MapOps) {
        self.directory.read(tp, ops);
        self.store.count.moves_batched += self.store.enter_moves(tp);
        ops.push(MapOp::Write(tp));
    }
}

fn page_of(word: u32) -> Option<Ppn> {
    word.checked_sub(1).map(Ppn)
}

impl Mapping for Clock {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.cached(lpn) {
            Some(slot) => page_of(self.slots[slot].words[(lpn.0 - self.slots[slot].first) as usize]),
            None => self.store.uncached(lpn),
        }
    }

    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        self.store.set_stored(lpn, Some(ppn))
    }

    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        self.store.set_stored(lpn, None)
    }

    fn reset(&mut self) {
        self.store.reset();
        self.directory = Directory::new(self.store.shape.translation_pages());
        self.index = vec![None; self.store.shape.translation_pages() as usize];
        self.slots.clear();
        self.hand = 0;
    }

    fn prefetch(&self, _lpn: Lpn) {}

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        let (slot, at) = self.entry(lpn, ops);
        page_of(self.slots[slot].words[at])
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        let (slot, at) = self.entry(lpn, ops);
        let slot = &mut self.slots[slot];
        slot.changed = true;
        page_of(std::mem::replace(&mut slot.words[at], to.map_or(0, |ppn| ppn.0 + 1)))
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        match self.cached(lpn) {
            Some(slot) => {
                let slot = &mut self.slots[slot];
                slot.words[(lpn.0 - slot.first) as usize] = to.0 + 1;
                slot.changed = true;
            }
            None => {
                if let Some(tp) = self.store.batch_due() {
                    self.enter_moves(tp, ops);
                }
                self.store.put_move(lpn, to);
            }
        }
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            match self.index[tp.0 as usize] {
                Some(slot) if self.slots[slot as usize].changed => self.write(slot as usize, ops),
                None if self.store.has_moves(tp) => self.enter_moves(tp, ops),
                _ => {}
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
        self.room as u32
    }

    fn ram(&self) -> u64 {
        let slot = 4 * self.store.shape.entries() as u64 + SLOT_EXTRA;
        self.room as u64 * slot + self.directory.ram() + self.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        if self.slots.len() > self.room {
            return Err(format!("{} slots of {} are in use", self.slots.len(), self.room));
        }
        for (at, slot) in (0..).zip(&self.slots) {
            if self.index[slot.tp.0 as usize] != Some(at) {
                return Err(format!("{:?} is not found in its slot", slot.tp));
            }
            if self.store.has_moves(slot.tp) {
                return Err(format!("{:?} is cached and has a move waiting", slot.tp));
            }
            if !slot.changed && *slot.words != *self.store.page(slot.tp) {
                return Err(format!("{:?} was not changed and differs from what is on the flash", slot.tp));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::mapping::{MapShape, conformance};

    /// Translation pages of 4 entries, 2 of them in RAM.
    fn small() -> Clock {
        let paged = PagedOptions { cmt_size: nandu::units::ByteLen(42), ..PagedOptions::default() };
        let shape = MapShape::new(16, 2, 2);
        let given = Given { shape, block_pages: 4, unsettled_max: 9, seed: 1, planted: &|_| false };
        Config { paged }.build(given).expect("two slots fit")
    }

    #[test]
    fn a_page_that_was_used_again_is_passed_once() {
        let (mut map, mut ops) = (small(), MapOps::default());
        for lpn in [0, 4] {
            assert_eq!(map.update(Lpn(lpn), Some(Ppn(lpn)), &mut ops), None);
        }
        // Both have their mark: the hand takes both marks, and then the first.
        map.lookup(Lpn(8), &mut ops);
        assert_eq!(ops.list(), [MapOp::Write(Tp(0))]);
        assert_eq!(*map.stored(Tp(0)), [1, 0, 0, 0]);
        // Translation page 1 has lost its mark and goes; 2, which came after it, has one and stays.
        ops.clear();
        map.lookup(Lpn(12), &mut ops);
        assert_eq!((ops.list(), map.cached(Lpn(8)).is_some()), (&[MapOp::Write(Tp(1))][..], true));
        // Used again, 2 is passed once more: 3 goes before it, unchanged and so without a step.
        ops.clear();
        map.lookup(Lpn(9), &mut ops);
        let last = map.cached(Lpn(12)).expect("it came last");
        map.slots[last].used = false;
        map.lookup(Lpn(4), &mut ops);
        assert_eq!((ops.list(), map.cached(Lpn(8)).is_some()), (&[][..], true));
    }

    #[test]
    fn it_says_what_an_array_says() {
        for seed in 0..40 {
            for slots in 1..5 {
                let paged =
                    PagedOptions { cmt_size: nandu::units::ByteLen(slots * 37), ..PagedOptions::default() };
                conformance::run(&Config { paged }, seed);
            }
        }
    }
}
