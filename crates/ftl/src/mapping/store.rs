//! What the translation pages on the flash hold, where they lie, and the figures that every demand-paged scheme keeps.
//!
//! The content is one word for each logical page: the word that the last written version of its translation page has.
//! It is the simulator's picture of the flash and no RAM of the drive; a scheme may look at it only when it asks for the
//! read. When a scheme asks for a write, it has put the new words here before.

use super::moves::Moves;
use super::split::MapShape;
use super::{MapOp, MapOps, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::{FilledWords, Initial};
use std::borrow::Cow;
use std::sync::Arc;

/// Figures of a scheme. Flash operations are counted by the controller.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MapCounts {
    /// Lookups and updates whose entry was in RAM.
    pub hits: u64,
    /// Lookups and updates that had to make room for their entry.
    pub misses: u64,
    /// Translation pages read for a lookup or update.
    pub loads: u64,
    /// Translation pages read later than the write that missed, to complete an entry or to learn what it replaced.
    pub fills: u64,
    /// Translation-page reads that a delayed read made unnecessary.
    pub reads_saved: u64,
    /// Translation pages written because their entries had to leave the RAM.
    pub write_backs: u64,
    /// Translation pages read and written for waiting moves of collection.
    pub move_batches: u64,
    /// Moves entered by those.
    pub moves_batched: u64,
    /// Translation pages read to tell whether a page is live.
    pub liveness_reads: u64,
    /// Cache entries visited to find, choose or write back: the processor's work.
    pub visits: u64,
    /// Entries that searching the cache from end to end would have visited (the paper's count for DFTL, S2-18).
    pub scan_visits: u64,
}

/// The translation pages.
#[derive(Clone, Debug)]
pub struct Store {
    /// The size.
    pub shape: MapShape,
    /// A word for each logical page; zero for all of a translation page that is as it was when the drive was made.
    words: Vec<u32>,
    /// What those hold, on a drive that began with every page mapped.
    began: Option<FilledWords>,
    /// Waiting moves.
    moves: Moves,
    /// Figures.
    pub count: MapCounts,
}

impl Store {
    /// A map without a mapped page and without a written translation page.
    pub fn new(shape: MapShape) -> Store {
        Store {
            words: vec![0; shape.words()],
            began: None,
            moves: Moves::new(shape.moves, shape.translation_pages()),
            shape,
            count: MapCounts::default(),
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Store { count: self.count, ..Store::new(self.shape.clone()) };
    }

    /// Takes every page as mapped by rule, as if each had been [set](Store::set_stored); nothing is mapped yet.
    pub fn begin_as(&mut self, initial: &Arc<dyn Initial>) {
        self.began = Some(FilledWords::new(Arc::clone(initial), self.shape.translation_pages()));
    }

    /// The word of a page as its translation page holds it.
    #[inline]
    pub fn word(&self, lpn: Lpn) -> u32 {
        match (self.words[lpn.0 as usize], &self.began) {
            (0, Some(began)) => self.word_at_start(lpn, began),
            (word, _) => word,
        }
    }

    #[inline(never)]
    fn word_at_start(&self, lpn: Lpn, began: &FilledWords) -> u32 {
        if began.is_entered(self.shape.tp(lpn)) { 0 } else { began.word(lpn) }
    }

    /// Whether the words of a translation page are in the table, and not only known by rule.
    #[inline]
    pub fn is_entered(&self, tp: Tp) -> bool {
        self.began.as_ref().is_none_or(|began| began.is_entered(tp))
    }

    /// Enters the words of a translation page that are known by rule so far.
    #[inline]
    pub fn enter(&mut self, tp: Tp) {
        if !self.is_entered(tp) {
            self.enter_from_start(tp);
        }
    }

    #[cold]
    fn enter_from_start(&mut self, tp: Tp) {
        let Some(began) = &mut self.began else { return };
        began.enter(tp);
        for lpn in self.shape.span(tp) {
            self.words[lpn as usize] = began.word(Lpn(lpn));
        }
    }

    /// Changes a word, to be written with its translation page.
    #[inline]
    pub fn set_word(&mut self, lpn: Lpn, word: u32) {
        *self.word_mut(lpn) = word;
    }

    /// A word that changes: the others of its translation page are in the table too from here on.
    #[inline]
    fn word_mut(&mut self, lpn: Lpn) -> &mut u32 {
        if self.began.is_some() {
            self.enter(self.shape.tp(lpn));
        }
        &mut self.words[lpn.0 as usize]
    }

    /// All words of a translation page.
    pub fn page(&self, tp: Tp) -> Cow<'_, [u32]> {
        match &self.began {
            Some(began) if !began.is_entered(tp) => {
                self.shape.span(tp).map(|lpn| began.word(Lpn(lpn))).collect()
            }
            _ => Cow::Borrowed(self.entered(tp)),
        }
    }

    /// All words of a translation page that was [entered](Store::enter).
    #[inline]
    pub fn entered(&self, tp: Tp) -> &[u32] {
        debug_assert!(self.is_entered(tp), "{tp:?} is known by rule only");
        let span = self.shape.span(tp);
        &self.words[span.start as usize..span.end as usize]
    }

    /// All words of a translation page, to be written.
    #[inline]
    pub fn page_mut(&mut self, tp: Tp) -> &mut [u32] {
        self.enter(tp);
        let span = self.shape.span(tp);
        &mut self.words[span.start as usize..span.end as usize]
    }

    /// Where a page lies when no cache has its entry.
    #[inline]
    pub fn uncached(&self, lpn: Lpn) -> Option<Ppn> {
        self.moved_to(lpn).or_else(|| page_of(self.word(lpn)))
    }

    /// Puts a page at `ppn` as if its translation page said so already; returns where it lay.
    pub fn set_stored(&mut self, lpn: Lpn, ppn: Option<Ppn>) -> Option<Ppn> {
        page_of(std::mem::replace(self.word_mut(lpn), word_of(ppn)))
    }

    /// Where a page was moved to, if that waits.
    #[inline]
    pub fn moved_to(&self, lpn: Lpn) -> Option<Ppn> {
        self.moves.get(self.shape.tp(lpn), lpn)
    }

    /// Lets a move wait; replaces an earlier one of the same page. There must be room for a new one.
    pub fn put_move(&mut self, lpn: Lpn, ppn: Ppn) {
        self.moves.put(self.shape.tp(lpn), lpn, ppn);
    }

    /// Takes the waiting move of a page out.
    #[inline(always)]
    pub fn take_move(&mut self, lpn: Lpn) -> Option<Ppn> {
        match self.moves.waiting() {
            0 => None,
            _ => self.moves.take(self.shape.tp(lpn), lpn),
        }
    }

    /// Takes some waiting move of the translation page out.
    pub fn take_any_move(&mut self, tp: Tp) -> Option<(Lpn, Ppn)> {
        self.moves.take_any(tp)
    }

    /// Whether a move of this translation page waits.
    #[inline]
    pub fn has_moves(&self, tp: Tp) -> bool {
        self.moves.any(tp)
    }

    /// The translation page whose waiting moves should be entered next.
    pub fn due(&mut self) -> Option<Tp> {
        self.moves.due().map(|lpn| self.shape.tp(lpn))
    }

    /// Bytes of the waiting moves in a drive.
    pub fn moves_ram(&self) -> u64 {
        self.moves.ram()
    }

    /// The translation page whose waiting moves must be entered before one more can wait; counts it.
    pub fn batch_due(&mut self) -> Option<Tp> {
        if !self.moves.is_full() {
            return None;
        }
        let tp = self.due()?;
        self.count.move_batches += 1;
        Some(tp)
    }

    /// Enters the waiting moves of a translation page that is about to be written.
    pub fn enter_moves(&mut self, tp: Tp) -> u64 {
        let mut entered = 0;
        while let Some((lpn, ppn)) = self.moves.take_any(tp) {
            self.set_word(lpn, ppn.0 + 1);
            entered += 1;
        }
        entered
    }
}

/// The translation directory of a scheme that caches entries: where each translation page lies.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Page number plus one; zero for a translation page that was never written.
    at: Vec<u32>,
}

impl Directory {
    /// No translation page is written.
    pub fn new(pages: u32) -> Directory {
        Directory { at: vec![0; pages as usize] }
    }

    /// Where the translation page lies.
    #[inline]
    pub fn get(&self, tp: Tp) -> Option<Ppn> {
        page_of(self.at[tp.0 as usize])
    }

    /// It now lies at `ppn`; returns where it lay.
    pub fn place(&mut self, tp: Tp, ppn: Ppn) -> Option<Ppn> {
        page_of(std::mem::replace(&mut self.at[tp.0 as usize], ppn.0 + 1))
    }

    /// Asks for a read of the translation page, if there is something to read; returns whether there is.
    #[inline]
    pub fn read(&self, tp: Tp, ops: &mut MapOps) -> bool {
        let written = self.at[tp.0 as usize] != 0;
        if written {
            ops.push(MapOp::Read(tp));
        }
        written
    }

    /// Bytes in a drive.
    pub fn ram(&self) -> u64 {
        4 * self.at.len() as u64
    }
}
