//! TPC-FTL: the map is cached by whole translation pages.
//!
//! ```text
//! read or write of a page:
//!   the directory names a slot          -> use it                                     (no search, S2-5)
//!   else choose a slot: an empty one; else the oldest unchanged one; else the oldest (S2-10)
//!        a changed one is written to a new flash page first; the directory gets its place back (S2-6, S2-11)
//!        read the translation page into the slot, the directory names the slot
//! delayed read (S2-12, S2-13): a write that misses does not read; the slot's entries are "not loaded". The translation
//!   page is read when an entry that is not loaded is asked for, or when the slot is written with some entry missing.
//! ```
//!
//! Source: H.-P. Choi, Y.-S. Kim, "An Efficient Cache Management Scheme of Flash Translation Layer for Large Size Flash
//! Memory Drives", 2015, sections III.1 (algorithms 1 and 2) and III.2.
//!
//! Where we differ:
//! - *The hole of the delayed read* (O2-2). The old place of a written page is not known, so the paper's drive never
//!   counts that page as invalid; when all entries were overwritten it never will. [`Invalidation::AtRead`] reads the old
//!   translation page in any case before the slot is written, and loses the saving. [`Invalidation::AtCollection`] keeps
//!   the saving: it remembers how many pages of each translation page were superseded unknown, and collection asks the
//!   map about pages of such a translation page, which costs reads then. Their number is bounded (`unknown_max`): beyond,
//!   slots are completed early. [`Invalidation::Lost`] is the paper's text as it stands: collection moves superseded
//!   pages and points the map back at them. It loses data and is a planted fault, not an option.
//! - *Unchanged first* (O2-4). With nearly all slots changed, the one unchanged slot is replaced at each miss and recency
//!   counts for nothing. [`CleanFirst::Window`] looks for an unchanged slot only among the oldest.
//! - "Not loaded" and "never mapped" are told apart (O2-1): by a mark here, by two values of an entry in a drive. A collected page whose slot is incomplete completes it first
//!   (O2-17). A translation page with waiting moves is read at once. Moves do not change recency (O2-5).
//!
//! RAM of the drive: page + 12 bytes per slot (S2-4), 4 bytes per translation page for the directory and, with
//! `AtCollection`, 4 for its count; 8 per waiting move. The simulator adds 8 bytes per logical page.

mod settings;

pub use settings::{CleanFirst, Invalidation, InvalidationConfig, TpcConfig, TpcSettings};

use super::lru::Lru;
use super::split::MapShape;
use super::store::Store;
use super::{MapOp, MapOps, Mapping, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use std::sync::Arc;

/// Bytes of a slot beside its entries: directory index, place, time, flag (S2-4).
const SLOT_EXTRA: u64 = 12;

/// An entry of the translation directory: the place of the translation page or the slot that holds it, never both (I-4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Td {
    /// Page number plus one; zero when it was never written.
    Tpn(u32),
    Tci(u32),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tdi: Tp,
    /// Where the translation page lies, plus one (S2-6).
    tpn: u32,
    dirty: bool,
    /// The translation page was not read yet: only entries that were overwritten since are known.
    partial: bool,
    /// Entries that were overwritten before they were loaded; none once the translation page was read.
    overwritten: u32,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Tpc {
    store: Store,
    settings: TpcSettings,
    directory: Vec<Td>,
    slots: Vec<Slot>,
    capacity: u32,
    /// The entry of each logical page: what its slot holds, or, when it has none, what its translation page does. So
    /// loading a slot copies nothing.
    images: Vec<u32>,
    /// One bit for each of them: overwritten before it was loaded.
    marks: Vec<u64>,
    lru: Lru,
    /// Slots that are dirty.
    dirty: u32,
    /// Superseded pages of each translation page that count as valid because its old version was never read.
    lost_of: Vec<u32>,
    lost: u64,
    /// Entries overwritten in slots that are not complete.
    open: u64,
    /// The translation page that collection has asked about last, while nothing changed since.
    asked: Option<Tp>,
}

impl Tpc {
    /// Slots that fit `ram` bytes.
    pub fn slots_in(ram: u64, shape: &MapShape) -> u64 {
        ram / (4 * shape.entries() as u64 + SLOT_EXTRA)
    }

    /// A map with these options.
    pub fn new(shape: MapShape, settings: TpcSettings) -> Tpc {
        let pages = shape.translation_pages();
        let capacity = Tpc::slots_in(settings.ram, &shape).clamp(1, u64::from(pages)) as u32;
        Tpc {
            settings,
            directory: vec![Td::Tpn(0); pages as usize],
            slots: Vec::new(),
            capacity,
            images: vec![0; shape.words()],
            marks: vec![0; shape.words().div_ceil(64)],
            lru: Lru::default(),
            dirty: 0,
            lost_of: vec![0; pages as usize],
            lost: 0,
            open: 0,
            asked: None,
            store: Store::new(shape),
        }
    }

    /// The entries of a translation page.
    #[inline]
    fn image(&self, tp: Tp) -> std::ops::Range<usize> {
        let span = self.store.shape.span(tp);
        span.start as usize..span.end as usize
    }

    /// Enters the words of a translation page that are known by rule so far.
    #[inline]
    fn enter(&mut self, tp: Tp) {
        if !self.store.is_entered(tp) {
            self.store.enter(tp);
            let image = self.image(tp);
            self.images[image].copy_from_slice(self.store.entered(tp));
        }
    }

    /// The slot that holds the translation page; it is the most recently used from here on.
    #[inline]
    fn slot_for(&mut self, tp: Tp, writes: bool, ops: &mut MapOps) -> u32 {
        self.store.count.visits += 1;
        match self.directory[tp.0 as usize] {
            Td::Tci(slot) => {
                self.store.count.hits += 1;
                self.lru.touch(slot);
                slot
            }
            Td::Tpn(tpn) => self.load(tp, tpn, writes, ops),
        }
    }

    /// The slot and place of an entry that is loaded.
    #[inline(always)]
    fn cached(&self, lpn: Lpn) -> Option<(u32, usize)> {
        match self.directory[self.store.shape.tp(lpn).0 as usize] {
            Td::Tci(slot) => {
                let at = lpn.0 as usize;
                (!self.is_unloaded(slot, at)).then_some((slot, at))
            }
            Td::Tpn(_) => None,
        }
    }

    /// Counts a hit of a slot, which is the most recently used from here on.
    #[inline(always)]
    fn used(&mut self, slot: u32) {
        self.store.count.visits += 1;
        self.store.count.hits += 1;
        self.lru.touch(slot);
    }

    fn load(&mut self, tp: Tp, tpn: u32, writes: bool, ops: &mut MapOps) -> u32 {
        self.store.count.misses += 1;
        self.enter(tp);
        let slot = self.room(ops);
        let delayed = writes && self.settings.delayed_read && tpn != 0 && !self.store.has_moves(tp);
        if tpn != 0 && !delayed {
            self.store.count.loads += 1;
            ops.push(MapOp::Read(tp));
        }
        // Words of a slot that is partial are there already, and not used before the read.
        self.slots[slot as usize] = Slot { tdi: tp, tpn, dirty: false, partial: delayed, overwritten: 0 };
        self.directory[tp.0 as usize] = Td::Tci(slot);
        self.lru.add(slot);
        while let Some((lpn, ppn)) = self.store.take_any_move(tp) {
            self.images[lpn.0 as usize] = ppn.0 + 1;
            self.make_dirty(slot);
        }
        slot
    }

    /// A slot without a translation page.
    fn room(&mut self, ops: &mut MapOps) -> u32 {
        if (self.slots.len() as u32) < self.capacity {
            self.slots.push(Slot { tdi: Tp(0), tpn: 0, dirty: false, partial: false, overwritten: 0 });
            return self.slots.len() as u32 - 1;
        }
        let victim = self.victim();
        if self.slots[victim as usize].dirty {
            self.store.count.write_backs += 1;
            self.write_back(victim, ops);
        }
        let Slot { tdi, tpn, overwritten, .. } = self.slots[victim as usize];
        debug_assert!(overwritten == 0, "a slot leaves with updates that were not written");
        self.directory[tdi.0 as usize] = Td::Tpn(tpn);
        self.lru.remove(victim);
        victim
    }

    /// Algorithm 2: the oldest unchanged slot that may go before changed ones, else the oldest.
    fn victim(&mut self) -> u32 {
        let oldest = self.lru.oldest().expect("a full cache has an oldest slot");
        self.store.count.scan_visits += self.slots.len() as u64;
        if self.dirty as usize == self.slots.len() {
            self.store.count.visits += 1;
            return oldest;
        }
        let window = match self.settings.clean_first_window {
            CleanFirst::All => usize::MAX,
            CleanFirst::Window(window) => window.max(1) as usize,
        };
        let (mut slot, mut rank) = (oldest, 1);
        while self.slots[slot as usize].dirty {
            match self.lru.newer(slot).filter(|_| rank < window) {
                Some(newer) => (slot, rank) = (newer, rank + 1),
                None => {
                    slot = oldest;
                    break;
                }
            }
        }
        self.store.count.visits += rank as u64;
        slot
    }

    #[inline]
    fn make_dirty(&mut self, slot: u32) {
        let dirty = &mut self.slots[slot as usize].dirty;
        self.dirty += u32::from(!*dirty);
        *dirty = true;
    }

    /// Writes a changed slot's translation page.
    fn write_back(&mut self, slot: u32, ops: &mut MapOps) {
        let Slot { tdi, partial, overwritten, .. } = self.slots[slot as usize];
        if partial {
            let whole = overwritten as usize == self.image(tdi).len();
            if whole && self.may_save_read(tdi) {
                self.save_read(slot);
            } else {
                self.fill(slot, ops);
            }
        }
        let image = self.image(tdi);
        self.store.page_mut(tdi).copy_from_slice(&self.images[image]);
        ops.push(MapOp::Write(tdi));
        self.slots[slot as usize].dirty = false;
        self.dirty -= 1;
        self.asked = None;
    }

    /// Whether the old version of a translation page that was overwritten as a whole may stay unread.
    fn may_save_read(&self, tp: Tp) -> bool {
        match self.settings.invalidation {
            Invalidation::Lost => true,
            Invalidation::AtRead => false,
            // A drive keeps the number of mapped entries with the directory; half of the bound is for open slots.
            Invalidation::AtCollection => {
                let mapped = self.store.entered(tp).iter().filter(|&&word| word != 0).count() as u64;
                self.lost + mapped <= u64::from(self.settings.unknown_max) / 2
            }
        }
    }

    /// Every entry was overwritten: the old version is never read, and what it named stays counted as valid.
    fn save_read(&mut self, slot: u32) {
        let tdi = self.slots[slot as usize].tdi;
        let mapped = self.store.entered(tdi).iter().filter(|&&word| word != 0).count() as u32;
        self.store.count.reads_saved += 1;
        for at in self.image(tdi) {
            self.marks[at / 64] &= !(1 << (at % 64));
        }
        self.complete(slot);
        if self.settings.invalidation != Invalidation::Lost {
            self.lost_of[tdi.0 as usize] += mapped;
            self.lost += u64::from(mapped);
        }
    }

    /// Reads the old version of a slot's translation page: loads what is missing and tells what was superseded.
    fn fill(&mut self, slot: u32, ops: &mut MapOps) {
        let Slot { tdi, overwritten, .. } = self.slots[slot as usize];
        self.store.count.fills += 1;
        ops.push(MapOp::Read(tdi));
        if self.settings.skip_fill {
            let lost = self.image(tdi).filter(|&at| !self.is_marked(at)).collect::<Vec<_>>();
            lost.into_iter().for_each(|at| self.images[at] = 0);
        }
        let image = self.image(tdi);
        let (mut word, mut left) = (image.start / 64, overwritten);
        // A translation page with fewer entries than a word of marks shares it with others.
        let mut marks = self.marks[word] & (u64::MAX << (image.start % 64));
        while left > 0 {
            if marks == 0 {
                word += 1;
                marks = self.marks[word];
                continue;
            }
            left -= 1;
            let at = word * 64 + marks.trailing_zeros() as usize;
            self.marks[word] &= !(marks & marks.wrapping_neg());
            marks &= marks - 1;
            if let Some(ppn) = page_of(self.store.entered(tdi)[at - image.start]) {
                ops.push(MapOp::Stale(ppn));
            }
        }
        self.complete(slot);
    }

    #[inline]
    fn is_marked(&self, at: usize) -> bool {
        self.marks[at / 64] >> (at % 64) & 1 == 1
    }

    /// Whether an entry was not loaded yet.
    #[inline]
    fn is_unloaded(&self, slot: u32, at: usize) -> bool {
        self.slots[slot as usize].partial && !self.is_marked(at)
    }

    /// Enters the waiting moves of a translation page without a slot, which is about to be written.
    fn enter_moves(&mut self, tp: Tp) {
        self.enter(tp);
        while let Some((lpn, ppn)) = self.store.take_any_move(tp) {
            self.images[lpn.0 as usize] = ppn.0 + 1;
            self.store.set_word(lpn, ppn.0 + 1);
            self.store.count.moves_batched += 1;
        }
    }

    /// Notes that nothing of the slot is unknown any more.
    fn complete(&mut self, slot: u32) {
        let slot = &mut self.slots[slot as usize];
        self.open -= u64::from(slot.overwritten);
        (slot.partial, slot.overwritten) = (false, 0);
    }

    /// Notes that collection has found a superseded page.
    fn found_lost(&mut self, tp: Tp, ppn: Ppn, ops: &mut MapOps) -> bool {
        let lost = &mut self.lost_of[tp.0 as usize];
        if *lost > 0 {
            *lost -= 1;
            self.lost -= 1;
        }
        ops.push(MapOp::Stale(ppn));
        false
    }
}

impl Mapping for Tpc {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.directory[self.store.shape.tp(lpn).0 as usize] {
            Td::Tci(_) => page_of(self.images[lpn.0 as usize]),
            Td::Tpn(_) => self.store.uncached(lpn),
        }
    }

    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        self.enter(self.store.shape.tp(lpn));
        self.images[lpn.0 as usize] = ppn.0 + 1;
        self.store.set_stored(lpn, Some(ppn))
    }

    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        self.enter(self.store.shape.tp(lpn));
        self.images[lpn.0 as usize] = 0;
        self.store.set_stored(lpn, None)
    }

    fn begin_as(&mut self, initial: &Arc<dyn Initial>) -> bool {
        self.store.begin_as(initial);
        true
    }

    fn reset(&mut self) {
        let count = self.store.count;
        *self = Tpc::new(self.store.shape.clone(), self.settings);
        self.store.count = count;
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.directory, self.store.shape.tp(lpn).0 as usize);
    }

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        let slot = self.slot_for(self.store.shape.tp(lpn), false, ops);
        let at = lpn.0 as usize;
        if self.is_unloaded(slot, at) {
            self.fill(slot, ops);
        }
        page_of(self.images[at])
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        let (slot, at) = self.cached(lpn)?;
        self.used(slot);
        Some(page_of(self.images[at]))
    }

    #[inline(always)]
    fn update_cached(&mut self, lpn: Lpn, to: Ppn) -> Option<Option<Ppn>> {
        let (slot, at) = self.cached(lpn)?;
        self.used(slot);
        self.make_dirty(slot);
        Some(page_of(std::mem::replace(&mut self.images[at], to.0 + 1)))
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        // A trim must know whether there is something to trim.
        let slot = self.slot_for(self.store.shape.tp(lpn), to.is_some(), ops);
        let at = lpn.0 as usize;
        let mut known = true;
        if self.is_unloaded(slot, at) {
            let bounded = self.settings.invalidation != Invalidation::Lost;
            let full = bounded && self.open + self.lost >= u64::from(self.settings.unknown_max);
            if to.is_none() || full {
                self.fill(slot, ops);
            } else {
                known = false;
                self.marks[at / 64] |= 1 << (at % 64);
                self.slots[slot as usize].overwritten += 1;
                self.open += 1;
            }
        }
        self.make_dirty(slot);
        let old = std::mem::replace(&mut self.images[at], word_of(to));
        page_of(old).filter(|_| known)
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        match self.directory[self.store.shape.tp(lpn).0 as usize] {
            Td::Tci(slot) => {
                if self.slots[slot as usize].partial {
                    self.fill(slot, ops);
                }
                self.images[lpn.0 as usize] = to.0 + 1;
                self.make_dirty(slot);
            }
            Td::Tpn(_) => {
                if let Some(tp) = self.store.batch_due() {
                    ops.push(MapOp::Read(tp));
                    self.enter_moves(tp);
                    ops.push(MapOp::Write(tp));
                }
                self.store.put_move(lpn, to);
            }
        }
    }

    fn is_live(&mut self, lpn: Lpn, ppn: Ppn, ops: &mut MapOps) -> bool {
        let tp = self.store.shape.tp(lpn);
        match self.directory[tp.0 as usize] {
            Td::Tci(slot) => {
                let fills = self.slots[slot as usize].partial;
                if fills {
                    self.fill(slot, ops);
                }
                let word = self.images[lpn.0 as usize];
                // What the fill has just told is told once.
                let told = fills && self.store.word(lpn) == ppn.0 + 1;
                word == ppn.0 + 1 || (!told && self.found_lost(tp, ppn, ops))
            }
            Td::Tpn(_) if self.lost_of[tp.0 as usize] == 0 => true,
            Td::Tpn(_) => {
                if self.asked != Some(tp) {
                    self.store.count.liveness_reads += 1;
                    ops.push(MapOp::Read(tp));
                    self.asked = Some(tp);
                }
                self.store.uncached(lpn) == Some(ppn) || self.found_lost(tp, ppn, ops)
            }
        }
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].dirty {
                self.write_back(slot, ops);
            }
        }
        debug_assert_eq!(self.dirty, 0, "changed slots are counted");
        while let Some(tp) = self.store.due() {
            ops.push(MapOp::Read(tp));
            self.enter_moves(tp);
            ops.push(MapOp::Write(tp));
        }
    }

    fn unsettled(&self) -> u64 {
        let open = |slot: u32| {
            let Slot { tdi, .. } = self.slots[slot as usize];
            let pairs = self.image(tdi).zip(self.store.entered(tdi));
            pairs.filter(|&(at, &old)| self.is_marked(at) && old != 0).count() as u64
        };
        let partial = self.lru.iter().filter(|&s| self.slots[s as usize].partial);
        self.lost + partial.map(open).sum::<u64>()
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.store)
    }

    fn translation_page(&self, tp: Tp) -> Option<Ppn> {
        match self.directory[tp.0 as usize] {
            Td::Tpn(tpn) => page_of(tpn),
            Td::Tci(slot) => page_of(self.slots[slot as usize].tpn),
        }
    }

    fn place(&mut self, tp: Tp, ppn: Ppn) -> Option<Ppn> {
        let tpn = match &mut self.directory[tp.0 as usize] {
            Td::Tpn(tpn) => tpn,
            Td::Tci(slot) => &mut self.slots[*slot as usize].tpn,
        };
        page_of(std::mem::replace(tpn, ppn.0 + 1))
    }

    fn directory_ram(&self) -> u64 {
        4 * self.directory.len() as u64
    }

    fn cache_slots(&self) -> u32 {
        self.capacity
    }

    fn ram(&self) -> u64 {
        let slot = 4 * self.store.shape.entries() as u64 + SLOT_EXTRA;
        let counts = self.settings.delayed_read && self.settings.invalidation == Invalidation::AtCollection;
        let per_page = if counts { 8 } else { 4 };
        u64::from(self.capacity) * slot + per_page * self.directory.len() as u64 + self.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        for (tp, td) in (0..).map(Tp).zip(&self.directory) {
            match *td {
                Td::Tci(slot) if self.slots.get(slot as usize).is_none_or(|s| s.tdi != tp) => {
                    return Err(format!("I-4: {tp:?} names slot {slot}, which does not name it back"));
                }
                Td::Tpn(_)
                    if self.store.is_entered(tp)
                        && self.images[self.image(tp)] != *self.store.entered(tp) =>
                {
                    return Err(format!("the entries of {tp:?}, which has no slot, differ from it"));
                }
                Td::Tci(_) if self.store.has_moves(tp) => {
                    return Err(format!("{tp:?} is cached and has moves waiting"));
                }
                _ => {}
            }
        }
        let mut open = 0;
        for slot in self.lru.iter() {
            let Slot { tdi, dirty, partial, overwritten, .. } = self.slots[slot as usize];
            if self.directory[tdi.0 as usize] != Td::Tci(slot) {
                return Err(format!("I-4: slot {slot} names {tdi:?}, which does not name it back"));
            }
            let marked = self.image(tdi).filter(|&at| self.is_marked(at)).count();
            if marked != overwritten as usize || (marked > 0 && !partial) {
                return Err(format!(
                    "slot {slot} counts {overwritten} overwritten entries, there are {marked}"
                ));
            }
            if !dirty && self.images[self.image(tdi)] != *self.store.entered(tdi) {
                return Err(format!("the unchanged slot {slot} differs from its translation page"));
            }
            open += u64::from(overwritten);
        }
        if open != self.open || self.slots.len() > self.capacity as usize {
            return Err(format!("{open} open entries counted as {}", self.open));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
