//! S-FTL: whole translation pages are cached, each as short as its runs allow; scattered changes wait in a buffer.
//!
//! ```text
//! page:   a run is a stretch of pages in a row that lie in a row on the flash; a cached translation page has the place where
//!           each run begins and a bit for each entry that says whether one begins there; as a plain list where that is shorter
//! miss:   read the translation page, cache all of it, with the changes of it that wait in the buffer
//! room:   the least recently used page goes; its changes,
//!           when they are few, go to the buffer, entry by entry; for room there, the page whose changes came first is
//!           written with one read and one write
//!           when they are many, are written with one write, without a read: the page is known as a whole
//! ```
//!
//! Source: S. Jiang, L. Zhang, X. Yuan, H. Hu, Y. Chen, "S-FTL: An Efficient Address Translation for Flash Memory by
//! Exploiting Spatial Locality", MSST 2011: its three patterns are sequential writes (runs), clustered accesses (whole pages) and
//! sparse writes (the buffer). Checked against its abstract and the description in the TPFTL paper (EuroSys 2015, section 2.2). A modern
//! comparator for the TPC-FTL paper (B2-9).
//!
//! Where we differ: how many changes are few, how large the buffer is and which of it goes first are not in what was checked, so
//! they are ours: one entry in 32 of the page, an eighth of the RAM (`dirty_buffer_share`), and the page that came first. Moves of
//! collection wait in a table ([`super::moves`]). Room is made for a page in its plain size before it is read, so that no page
//! of RAM stands by; it is shortened when it has come.
//!
//! *Striping hides runs*, as with [CFTL](super::Cftl): on a drive with several planes pages in a row lie on different planes, and
//! a cached page is a plain list.
//!
//! RAM of the drive: 8 bytes per cached page; 4 per run and a bit per entry, or 4 per entry; 8 per change in the buffer; 4 per
//! translation page, 8 per waiting move. Time: O(1) for an entry in RAM, O(entries of a page) for a page that comes or is
//! written. The simulator adds 8 bytes and a bit per logical page (content of the translation pages, of the cache, changes).

use super::lru::Lru;
use super::split::MapShape;
use super::store::{Directory, Store};
use super::{Given, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Tp, page_of, word_of};
use crate::address::{Lpn, Ppn};
use crate::filled::Initial;
use nandu_base::{BuildError, Declared, Ratio};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;

/// Options of `sftl`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub struct SftlConfig {
    #[serde(flatten)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
    /// Share of `cmt_size` for single changes of translation pages that have left the cache; below 1. With 0 every changed page is
    /// written when it leaves.
    #[serde(default = "default_buffer")]
    pub dirty_buffer_share: Ratio,
}

fn default_buffer() -> Ratio {
    Ratio::new(1, 8)
}

impl Declared for SftlConfig {
    const NAME: &'static str = "sftl";
    const SUMMARY: &'static str = "S-FTL: whole translation pages are cached, shortened to the runs in them; a few changes of a page that leaves wait in a \
                                   buffer. On a drive with several planes pages have no runs.";
    const SOURCE: &'static str = "Jiang, Zhang, Yuan, Hu, Chen, MSST 2011";
    const DRAWS: &'static [&'static str] =
        &["", "dirty_buffer_share = \"1/2\"", "dirty_buffer_share = \"0\""];
}

impl MapOptions for SftlConfig {
    type Map = Sftl;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Sftl, BuildError> {
        let share = self.dirty_buffer_share;
        if share.num >= share.den {
            let why = format!(
                "dirty_buffer_share = {}/{} leaves no room for translation pages: it is a share of cmt_size, below 1",
                share.num, share.den
            );
            return Err(BuildError::at("mapping", why));
        }
        let least = plain(given.shape.entries() as u64);
        let ram = self.paged.ram(least)?;
        let settings = SftlSettings {
            ram,
            buffer: share.of(ram).min(ram - least) / CHANGE,
            forgets_buffer: (given.planted)("ssd.map-buffer-forgotten"),
        };
        Ok(Sftl::new(given.shape, settings))
    }
}

/// What the map does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SftlSettings {
    /// Bytes of RAM, with the buffer; besides it at least one plain translation page fits.
    pub ram: u64,
    /// Changes that the buffer holds.
    pub buffer: u64,
    /// Plants a fault: a page that is read again does not get the changes that wait for it.
    pub forgets_buffer: bool,
}

/// Bytes of a cached page beside its entries.
const HEADER: u64 = 8;
/// Bytes of an entry, or of the begin of a run.
const ENTRY: u64 = 4;
/// Bytes of a change in the buffer.
const CHANGE: u64 = 8;
/// A page has few changes when no more than one in so many of its entries is changed.
const SPARSE: u32 = 32;
/// Bytes by which one change can lengthen a page: a run falls into three.
const GROWTH: u64 = 2 * ENTRY;

/// Bytes of a cached page of so many entries as a plain list.
const fn plain(entries: u64) -> u64 {
    HEADER + ENTRY * entries
}

/// Bytes of a cached page of so many entries with so many runs.
fn cost(entries: u64, runs: u32) -> u64 {
    plain(entries).min(HEADER + entries.div_ceil(8) + ENTRY * u64::from(runs))
}

/// Whether an entry continues the run of the one before it. Unmapped pages in a row are a run too.
fn continues(before: u32, word: u32) -> bool {
    if before == 0 { word == 0 } else { word == before + 1 }
}

/// A translation page as the RAM has it.
#[derive(Clone, Copy, Default, Debug)]
struct Page {
    is_cached: bool,
    /// Runs of a cached page.
    runs: u32,
    /// Changed entries: of the cached page, or in the buffer where it is not cached.
    changes: u32,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Sftl {
    store: Store,
    directory: Directory,
    settings: SftlSettings,
    /// The word of each entry in RAM; of no meaning for others.
    words: Vec<u32>,
    /// A bit for each logical page: its entry is changed, and in RAM.
    changed: Vec<u64>,
    pages: Vec<Page>,
    /// Cached pages by their last use.
    order: Lru,
    cached: u64,
    /// Bytes of the cached pages.
    used: u64,
    /// Pages with changes in the buffer, in the order in which they came.
    waiting: Lru,
    /// Changes in the buffer.
    buffered: u64,
}

impl Sftl {
    /// A map with an empty cache.
    pub fn new(shape: MapShape, settings: SftlSettings) -> Sftl {
        let (pages, words) = (shape.translation_pages(), shape.words());
        Sftl {
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

    fn page(&self, tp: Tp) -> &Page {
        &self.pages[tp.0 as usize]
    }

    fn page_mut(&mut self, tp: Tp) -> &mut Page {
        &mut self.pages[tp.0 as usize]
    }

    /// Bytes of a page that is cached.
    fn cost_of(&self, tp: Tp) -> u64 {
        cost(self.store.shape.span(tp).len() as u64, self.page(tp).runs)
    }

    #[inline]
    fn is_changed(&self, lpn: Lpn) -> bool {
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
        self.make_room(plain(span.len() as u64), ops);
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
        let runs = self.runs_in(span);
        *self.page_mut(tp) = Page { is_cached: true, runs, ..*self.page(tp) };
        self.order.add(tp.0);
        self.cached += 1;
        self.used += self.cost_of(tp);
    }

    /// Runs of a page that is cached.
    fn runs_in(&self, span: Range<u32>) -> u32 {
        let words = &self.words[span.start as usize..span.end as usize];
        u32::from(!words.is_empty())
            + words.windows(2).filter(|pair| !continues(pair[0], pair[1])).count() as u32
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
        // Runs begin at this entry and at the next one, or not.
        let around = lpn.0.saturating_sub(1).max(span.start)..(lpn.0 + 2).min(span.end);
        let (cost, before) = (self.cost_of(tp), self.runs_in(around.clone()));
        let old = std::mem::replace(&mut self.words[lpn.0 as usize], word);
        let after = self.runs_in(around);
        let page = self.page_mut(tp);
        page.runs = page.runs + after - before;
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
        *self.page_mut(tp) = Page { is_cached: false, runs: 0, ..*self.page(tp) };
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

impl Mapping for Sftl {
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
        *self = Sftl::new(self.store.shape.clone(), self.settings);
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
        if !self.has(lpn) || self.used + GROWTH > self.room() {
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
                let runs = self.runs_in(span.clone());
                if runs != page.runs {
                    return Err(format!("{tp:?} counts {} runs, there are {runs}", page.runs));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A filled map of 192 pages in order, in three translation pages of 64 entries.
    fn filled(pages: u64, buffer: u64) -> (Sftl, MapOps) {
        let ram = plain(64) * pages + CHANGE * buffer;
        let settings = SftlSettings { ram, buffer, forgets_buffer: false };
        let mut map = Sftl::new(MapShape::new(192, 6, 2), settings);
        for lpn in 0..192 {
            map.set(Lpn(lpn), Ppn(lpn));
        }
        (0..3).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(200 + tp)), None));
        (map, MapOps::default())
    }

    #[test]
    fn a_page_in_order_is_one_run_and_a_write_makes_three() {
        let (mut map, mut ops) = filled(1, 0);
        assert_eq!(map.lookup(Lpn(5), &mut ops), Some(Ppn(5)));
        assert_eq!((map.used, map.counts().loads), (HEADER + 8 + ENTRY, 1));
        assert_eq!(map.update_cached(Lpn(9), Ppn(150)), Some(Some(Ppn(9))));
        assert_eq!(map.used, HEADER + 8 + 3 * ENTRY);
        // The page behind it continues the new run.
        map.update(Lpn(10), Some(Ppn(151)), &mut ops);
        assert_eq!(map.used, HEADER + 8 + 3 * ENTRY);
        map.check().unwrap();
    }

    #[test]
    fn a_page_without_runs_is_a_plain_list() {
        let (mut map, mut ops) = filled(1, 0);
        (0..64).rev().for_each(|lpn| {
            map.update(Lpn(lpn), Some(Ppn(300 - lpn)), &mut ops);
        });
        assert_eq!((map.page(Tp(0)).runs, map.used), (64, plain(64)));
        assert_eq!(map.update_cached(Lpn(0), Ppn(400)), None, "it might need room");
        map.check().unwrap();
    }

    #[test]
    fn short_pages_share_the_room_of_one() {
        let (mut map, mut ops) = filled(1, 0);
        map.lookup(Lpn(0), &mut ops);
        // Room is made for a page in its plain size.
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(map.cached, 1);
        let (mut map, mut ops) = filled(2, 0);
        map.lookup(Lpn(0), &mut ops);
        map.lookup(Lpn(64), &mut ops);
        assert_eq!((map.cached, map.used), (2, 2 * (HEADER + 8 + ENTRY)));
    }

    #[test]
    fn few_changes_wait_in_the_buffer_and_many_are_written_without_a_read() {
        let (mut map, mut ops) = filled(1, 3);
        (0..2).for_each(|lpn| {
            map.update(Lpn(lpn), Some(Ppn(150 + lpn)), &mut ops);
        });
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Read(Tp(1))], "no write");
        assert_eq!((map.buffered, map.lookup_cached(Lpn(1))), (2, Some(Some(Ppn(151)))));
        map.check().unwrap();
        ops.clear();
        // Loaded again, with its changes; three are too many for the buffer.
        map.update(Lpn(2), Some(Ppn(152)), &mut ops);
        assert_eq!((map.buffered, map.page(Tp(0)).changes), (0, 3));
        map.lookup(Lpn(64), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Write(Tp(0)), MapOp::Read(Tp(1))]);
        assert_eq!(map.stored(Tp(0))[..4], [151, 152, 153, 4]);
        map.check().unwrap();
    }

    #[test]
    fn the_changes_that_came_first_leave_a_full_buffer() {
        let (mut map, mut ops) = filled(1, 1);
        map.update(Lpn(0), Some(Ppn(150)), &mut ops);
        map.update(Lpn(64), Some(Ppn(151)), &mut ops);
        assert_eq!((ops.list(), map.buffered), (&[MapOp::Read(Tp(0)), MapOp::Read(Tp(1))][..], 1));
        map.relocate(Lpn(0), Ppn(152), &mut ops);
        assert_eq!(map.get(Lpn(0)), Some(Ppn(152)), "a change in the buffer follows collection");
        ops.clear();
        map.lookup(Lpn(128), &mut ops);
        assert_eq!(ops.list(), [MapOp::Read(Tp(0)), MapOp::Write(Tp(0)), MapOp::Read(Tp(2))]);
        assert_eq!((map.stored(Tp(0))[0], map.buffered, map.is_changed(Lpn(64))), (153, 1, true));
        map.check().unwrap();
    }

    proptest! {
        /// The obvious model: the runs of a page, counted anew after each change.
        #[test]
        fn runs_are_counted_as_in_a_list(changes in prop::collection::vec((0u32..64, 0u32..40), 1..60)) {
            let (mut map, mut ops) = filled(2, 4);
            let mut list: Vec<u32> = (1..=64).collect();
            for (lpn, place) in changes {
                let to = place.checked_sub(1).map(Ppn);
                map.update(Lpn(lpn), to, &mut ops);
                list[lpn as usize] = place;
                let is_new = |at: usize| at == 0 || match list[at - 1] {
                    0 => list[at] != 0,
                    before => list[at] != before + 1,
                };
                let runs = (0..64).filter(|&at| is_new(at)).count() as u64;
                prop_assert_eq!(map.used, (HEADER + 8 + 4 * runs).min(HEADER + 4 * 64));
                prop_assert!(map.check().is_ok());
            }
        }
    }
}
