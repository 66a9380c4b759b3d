//! A cache of whole translation pages, each in a form that is shorter than its list of entries, with a buffer for scattered changes.
//!
//! ```text
//! miss:   read the translation page, cache all of it, with the changes of it that wait in the buffer
//! room:   the least recently used page goes; its changes,
//!           when they are few, go to the buffer, entry by entry; for room there, the page whose changes came first is
//!           written with one read and one write
//!           when they are many, are written with one write, without a read: the page is known as a whole
//! ```
//!
//! What maps of this kind share: [S-FTL](super::Sftl) and [LeaFTL](super::Leaftl) each have a [`Form`] for it. The simulator keeps a
//! word for each logical page, which counts when the page of it is cached or its entry is changed; what a form would take is worked
//! out from the words, so that nothing is stored twice. Room is made for a page at its longest before it is read, so that no page of
//! RAM stands by; it is shortened when it has come.
//!
//! RAM of the drive: what the form takes, 8 bytes per change in the buffer, 4 per translation page, 8 per waiting move. Time: O(1) for
//! an entry in RAM beside what the form does, O(entries of a page) for a page that comes or is written. The simulator adds 8 bytes and
//! a bit per logical page (content of the translation pages, of the cache, changes).

use super::lru::Lru;
use super::split::MapShape;
use super::store::{Directory, Store};
use super::{MapOp, MapOps, Mapping, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use std::fmt::Debug;
use std::sync::Arc;

/// How a cached translation page is kept. It is given the words of the page: the page number plus one of each entry, or zero.
pub trait Form: Copy + Default + PartialEq + Debug + Send + 'static {
    /// Bytes by which one change can lengthen a page.
    const GROWTH: u64;

    /// The form of a page that was read.
    fn new(words: &[u32]) -> Self;

    /// Puts `word` at the entry `at`; returns what was there.
    fn change(&mut self, words: &mut [u32], at: usize, word: u32) -> u32;

    /// Bytes of a page of so many entries.
    fn bytes(&self, entries: u64) -> u64;

    /// Bytes of a page of so many entries at most.
    fn most(entries: u64) -> u64;

    /// Whether it can be the form of these words.
    fn fits(&self, words: &[u32]) -> bool;
}

/// The RAM of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WholeSettings {
    /// Bytes of RAM, with the buffer; besides it at least one translation page fits at its longest.
    pub ram: u64,
    /// Changes that the buffer holds.
    pub buffer: u64,
    /// Plants a fault: a page that is read again does not get the changes that wait for it.
    pub forgets_buffer: bool,
}

/// Bytes of a change in the buffer.
pub(super) const CHANGE: u64 = 8;
/// A page has few changes when no more than one in so many of its entries is changed.
const SPARSE: u32 = 32;

/// A translation page as the RAM has it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Page<F> {
    is_cached: bool,
    /// Of a cached page.
    pub(super) form: F,
    /// Changed entries: of the cached page, or in the buffer where it is not cached.
    pub(super) changes: u32,
}

/// The map.
#[derive(Clone, Debug)]
pub struct WholePages<F> {
    store: Store,
    directory: Directory,
    settings: WholeSettings,
    /// The word of each entry in RAM; of no meaning for others.
    words: Vec<u32>,
    /// A bit for each logical page: its entry is changed, and in RAM.
    changed: Vec<u64>,
    pages: Vec<Page<F>>,
    /// Cached pages by their last use.
    order: Lru,
    pub(super) cached: u64,
    /// Bytes of the cached pages.
    pub(super) used: u64,
    /// Pages with changes in the buffer, in the order in which they came.
    waiting: Lru,
    /// Changes in the buffer.
    pub(super) buffered: u64,
}

impl<F: Form> WholePages<F> {
    /// A map with an empty cache.
    pub fn new(shape: MapShape, settings: WholeSettings) -> WholePages<F> {
        let (pages, words) = (shape.translation_pages(), shape.words());
        WholePages {
            directory: Directory::new(pages),
            settings,
            words: vec![0; words],
            changed: vec![0; words.div_ceil(64)],
            pages: vec![Page::default(); pages as usize],
            order: Lru::default(),
            cached: 0,
            used: 0,
            waiting: Lru::default(),
            buffered: 0,
            store: Store::new(shape),
        }
    }

    /// Bytes for cached pages.
    fn room(&self) -> u64 {
        self.settings.ram - CHANGE * self.settings.buffer
    }

    pub(super) fn page(&self, tp: Tp) -> &Page<F> {
        &self.pages[tp.0 as usize]
    }

    fn page_mut(&mut self, tp: Tp) -> &mut Page<F> {
        &mut self.pages[tp.0 as usize]
    }

    /// Bytes of a page that is cached.
    fn cost_of(&self, tp: Tp) -> u64 {
        self.page(tp).form.bytes(self.store.shape.span(tp).len() as u64)
    }

    #[inline]
    pub(super) fn is_changed(&self, lpn: Lpn) -> bool {
        self.changed[lpn.0 as usize / 64] >> (lpn.0 % 64) & 1 != 0
    }

    /// Whether the entry is in RAM.
    #[inline]
    fn has(&self, lpn: Lpn) -> bool {
        self.page(self.store.shape.tp(lpn)).is_cached || self.is_changed(lpn)
    }

    /// Counts an access to an entry that is in RAM; its page is the most recently used from here on.
    #[inline]
    fn hit(&mut self, lpn: Lpn) {
        self.visit();
        self.store.count.hits += 1;
        let tp = self.store.shape.tp(lpn);
        if self.page(tp).is_cached {
            self.order.touch(tp.0);
        }
    }

    fn visit(&mut self) {
        self.store.count.visits += 1;
        self.store.count.scan_visits += self.cached + self.buffered;
    }

    /// Brings the entry into RAM if it is not there.
    fn access(&mut self, lpn: Lpn, ops: &mut MapOps) {
        if self.has(lpn) {
            return self.hit(lpn);
        }
        self.visit();
        self.load(self.store.shape.tp(lpn), ops);
    }

    /// Reads a translation page, with the changes and moves of it that wait.
    fn load(&mut self, tp: Tp, ops: &mut MapOps) {
        self.store.count.misses += 1;
        let span = self.store.shape.span(tp);
        // Its changes leave the buffer first: room for others is not made by writing them.
        if self.page(tp).changes > 0 {
            self.leave_buffer(tp);
        }
        self.make_room(F::most(span.len() as u64), ops);
        self.store.count.loads += u64::from(self.directory.read(tp, ops));
        if self.settings.forgets_buffer {
            span.clone().for_each(|page| self.unmark(tp, Lpn(page)));
        }
        let held = self.store.page(tp);
        for (page, &word) in span.clone().zip(held.iter()) {
            if self.changed[page as usize / 64] >> (page % 64) & 1 == 0 {
                self.words[page as usize] = word;
            }
        }
        while let Some((lpn, ppn)) = self.store.take_any_move(tp) {
            self.words[lpn.0 as usize] = ppn.0 + 1;
            self.mark(tp, lpn);
        }
        let form = F::new(&self.words[span.start as usize..span.end as usize]);
        *self.page_mut(tp) = Page { is_cached: true, form, ..*self.page(tp) };
        self.order.add(tp.0);
        self.cached += 1;
        self.used += self.cost_of(tp);
    }

    /// Marks an entry as changed.
    fn mark(&mut self, tp: Tp, lpn: Lpn) {
        let is_new = !self.is_changed(lpn);
        self.changed[lpn.0 as usize / 64] |= 1 << (lpn.0 % 64);
        self.page_mut(tp).changes += u32::from(is_new);
    }

    /// Marks an entry as unchanged.
    fn unmark(&mut self, tp: Tp, lpn: Lpn) {
        let was_changed = self.is_changed(lpn);
        self.changed[lpn.0 as usize / 64] &= !(1 << (lpn.0 % 64));
        self.page_mut(tp).changes -= u32::from(was_changed);
    }

    /// Changes an entry that is in RAM; returns what it was. The cache may need more room from here on.
    fn change(&mut self, lpn: Lpn, word: u32) -> u32 {
        let tp = self.store.shape.tp(lpn);
        if !self.page(tp).is_cached {
            return std::mem::replace(&mut self.words[lpn.0 as usize], word);
        }
        let span = self.store.shape.span(tp);
        let cost = self.cost_of(tp);
        let words = &mut self.words[span.start as usize..span.end as usize];
        let old = self.pages[tp.0 as usize].form.change(words, (lpn.0 - span.start) as usize, word);
        self.used = self.used + self.cost_of(tp) - cost;
        self.mark(tp, lpn);
        old
    }

    /// Lets the oldest pages go until `bytes` more fit.
    fn make_room(&mut self, bytes: u64, ops: &mut MapOps) {
        while self.used + bytes > self.room() {
            let Some(tp) = self.order.oldest() else { return };
            self.evict(Tp(tp), ops);
        }
    }

    /// Lets a page go. Its changes are written, or go to the buffer.
    fn evict(&mut self, tp: Tp, ops: &mut MapOps) {
        self.visit();
        let changes = self.page(tp).changes;
        let few = (self.store.shape.span(tp).len() as u32 / SPARSE).max(1);
        let is_sparse = changes <= few && u64::from(changes) <= self.settings.buffer;
        if changes > 0 && !is_sparse {
            self.store.count.write_backs += 1;
            self.write(tp, ops);
        }
        self.used -= self.cost_of(tp);
        self.cached -= 1;
        self.order.remove(tp.0);
        *self.page_mut(tp) = Page { is_cached: false, form: F::default(), ..*self.page(tp) };
        if changes > 0 && is_sparse {
            self.enter_buffer(tp, ops);
        }
    }

    /// Puts the changes of a page that has left the cache into the buffer.
    fn enter_buffer(&mut self, tp: Tp, ops: &mut MapOps) {
        let changes = u64::from(self.page(tp).changes);
        while self.buffered + changes > self.settings.buffer {
            let Some(oldest) = self.waiting.oldest() else { break };
            self.store.count.write_backs += 1;
            self.write(Tp(oldest), ops);
        }
        self.buffered += changes;
        self.waiting.add(tp.0);
    }

    fn leave_buffer(&mut self, tp: Tp) {
        self.buffered -= u64::from(self.page(tp).changes);
        self.waiting.remove(tp.0);
    }

    /// Writes a translation page with every change and waiting move of it. It is read first, unless it is cached.
    fn write(&mut self, tp: Tp, ops: &mut MapOps) {
        let page = *self.page(tp);
        if !page.is_cached {
            self.directory.read(tp, ops);
            if page.changes > 0 {
                self.leave_buffer(tp);
            }
        }
        self.store.count.visits += u64::from(page.changes);
        self.store.count.scan_visits += self.cached + self.buffered;
        if page.changes > 0 {
            for lpn in self.store.shape.span(tp).map(Lpn) {
                if self.is_changed(lpn) {
                    self.store.set_word(lpn, self.words[lpn.0 as usize]);
                    self.unmark(tp, lpn);
                }
            }
        }
        self.store.count.moves_batched += self.store.enter_moves(tp);
        ops.push(MapOp::Write(tp));
    }
}

impl<F: Form> Mapping for WholePages<F> {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        match self.has(lpn) {
            true => page_of(self.words[lpn.0 as usize]),
            false => self.store.uncached(lpn),
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
        *self = WholePages::new(self.store.shape.clone(), self.settings);
        self.store.count = count;
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn) {
        crate::prefetch(&self.words, lpn.0 as usize);
    }

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        self.access(lpn, ops);
        page_of(self.words[lpn.0 as usize])
    }

    #[inline(always)]
    fn lookup_cached(&mut self, lpn: Lpn) -> Option<Option<Ppn>> {
        if !self.has(lpn) {
            return None;
        }
        self.hit(lpn);
        Some(page_of(self.words[lpn.0 as usize]))
    }

    #[inline(always)]
    fn update_cached(&mut self, lpn: Lpn, to: Ppn) -> Option<Option<Ppn>> {
        if !self.has(lpn) || self.used + F::GROWTH > self.room() {
            return None;
        }
        self.hit(lpn);
        Some(page_of(self.change(lpn, to.0 + 1)))
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        self.access(lpn, ops);
        let old = self.change(lpn, word_of(to));
        self.make_room(0, ops);
        page_of(old)
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        if self.has(lpn) {
            self.change(lpn, to.0 + 1);
            return self.make_room(0, ops);
        }
        if let Some(tp) = self.store.batch_due() {
            self.write(tp, ops);
        }
        self.store.put_move(lpn, to);
    }

    /// The old page of every update was known at once.
    fn is_live(&mut self, _lpn: Lpn, _ppn: Ppn, _ops: &mut MapOps) -> bool {
        true
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            if self.page(tp).changes > 0 || self.store.has_moves(tp) {
                self.write(tp, ops);
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
        self.settings.ram + self.directory.ram() + self.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        let (mut used, mut buffered) = (0, 0);
        for (tp, page) in (0..).map(Tp).zip(&self.pages) {
            let span = self.store.shape.span(tp);
            let changes = span.clone().filter(|&lpn| self.is_changed(Lpn(lpn))).count() as u32;
            if changes != page.changes {
                return Err(format!("{tp:?} counts {} changed entries, there are {changes}", page.changes));
            }
            if !page.is_cached {
                buffered += u64::from(changes);
            } else {
                used += self.cost_of(tp);
                if !page.form.fits(&self.words[span.start as usize..span.end as usize]) {
                    return Err(format!("{tp:?} is not what {:?} says of it", page.form));
                }
            }
            for lpn in span.map(Lpn) {
                let is_changed = self.is_changed(lpn);
                if (page.is_cached || is_changed) && self.store.moved_to(lpn).is_some() {
                    return Err(format!("{lpn:?} is in RAM and has a move waiting"));
                }
                if page.is_cached && !is_changed && self.words[lpn.0 as usize] != self.store.word(lpn) {
                    return Err(format!("the unchanged entry of {lpn:?} differs from its translation page"));
                }
            }
        }
        if used != self.used || used > self.room() || self.order.iter().count() as u64 != self.cached {
            return Err(format!("{used} bytes used, {} counted, {} there are", self.used, self.room()));
        }
        if buffered != self.buffered || buffered > self.settings.buffer {
            let (counted, most) = (self.buffered, self.settings.buffer);
            return Err(format!("{buffered} changes in the buffer, {counted} counted, room for {most}"));
        }
        Ok(())
    }
}
