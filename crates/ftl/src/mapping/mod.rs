//! Address translation: where each logical page lies. One file per scheme.
//!
//! A scheme is bookkeeping over page numbers. The page map answers from RAM. The *demand-paged* schemes keep the map in
//! translation pages on the flash and only a part of it in RAM: a call of theirs puts the translation-page operations
//! that it takes into a [`MapOps`], in order, and the controller carries them out, gives them their time, and tells the
//! scheme where a translation page was written ([`Mapping::place`]). What a translation page holds is what was written
//! into it ([`store`]): a scheme that loses an update reads the old entry back.
//!
//! *Collection.* A scheme hears of every page that is moved. When it does not hold the page's entry it keeps the move
//! waiting ([`moves`]) and enters all waiting moves of one translation page with one read and one write. Translation pages
//! have blocks of their own ([`crate::map_area`]), whose clearing touches no map entry: so a map write never asks for
//! room for data, and collection cannot wait for itself (O2-12).

mod cftl;
pub mod conformance;
mod dftl;
mod leaftl;
pub mod lru;
pub mod moves;
mod options;
mod page_map;
mod sftl;
mod split;
pub mod store;
pub mod switching;
mod tpc;
mod tpftl;
pub mod whole;

pub use cftl::{Cftl, CftlConfig};
pub use dftl::{Dftl, DftlConfig};
pub use leaftl::{Leaftl, LeaftlConfig};
pub use options::{DataProgram, EvictionWrite, Given, MapOptions, PagedOptions};
pub use page_map::{PageMap, PageMapConfig};
pub use sftl::{Sftl, SftlConfig};
pub use split::MapShape;
pub use store::{Directory, MapCounts, Store};
pub use switching::{Gather, SwitchSettings, SwitchingConfig};
pub use tpc::{CleanFirst, Invalidation, InvalidationConfig, Tpc, TpcConfig, TpcSettings};
pub use tpftl::{Tpftl, TpftlConfig};
pub use whole::WholeSettings;

use crate::address::{Lpn, Ppn};
use crate::log_block::LogMap;

/// A translation page, by the position of its entries in the map: entries of logical pages `tp << bits` and on; or one of an owner's that begins
/// elsewhere ([`MapShape::tp`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tp(pub u32);

/// One step that a scheme asks the controller for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapOp {
    /// Read the translation page.
    Read(Tp),
    /// Write the translation page as the scheme now has it on record ([`Mapping::stored`]) to a new flash page.
    Write(Tp),
    /// This data page is superseded, which the scheme could not tell when it was.
    Stale(Ppn),
}

/// Steps in their order; used again for every call, so that none allocates.
#[derive(Clone, Default, Debug)]
pub struct MapOps {
    list: Vec<MapOp>,
}

impl MapOps {
    /// Adds a step.
    #[inline]
    pub fn push(&mut self, op: MapOp) {
        self.list.push(op);
    }

    /// The steps, in order.
    #[inline]
    pub fn list(&self) -> &[MapOp] {
        &self.list
    }

    /// Forgets the steps.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

/// A scheme of translation. The defaults are those of a map that is in RAM as a whole.
///
/// It is compiled into the planner of a drive; what is rare there is compiled once, for a `dyn Mapping`
/// ([`crate::plan::Planner::of_any_map`]).
pub trait Mapping: Send + 'static {
    /// Whether it may ask for logical blocks to be gathered ([`switching`]).
    #[inline(always)]
    fn gathers(&self) -> bool {
        false
    }

    /// Where the page lies, at no cost: for checks, hints, and maps in RAM.
    fn get(&self, lpn: Lpn) -> Option<Ppn>;

    /// Whether a page lies at `ppn`.
    #[inline]
    fn is_at(&self, lpn: Lpn, ppn: Ppn) -> bool {
        self.get(lpn) == Some(ppn)
    }

    /// Puts the page at `ppn`; returns where it lay before. A demand-paged scheme takes it as what its translation pages
    /// say, which is how a fill and a recovery begin.
    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn>;

    /// Forgets the page, in the way of [`set`](Mapping::set); returns where it lay.
    fn clear(&mut self, lpn: Lpn) -> Option<Ppn>;

    /// Takes every page as mapped by rule, without an entry for any, where the map can do that; returns whether it did.
    fn begin_as(&mut self, _initial: &std::sync::Arc<dyn crate::filled::Initial>) -> bool {
        false
    }

    /// Forgets everything, as a loss of power does.
    fn reset(&mut self);

    /// Asks the processor to fetch the entry.
    fn prefetch(&self, lpn: Lpn);

    /// A request begins whose pages end before `end`.
    #[inline]
    fn begin(&mut self, _end: Lpn) {}

    /// Where the page lies.
    #[inline]
    fn lookup(&mut self, lpn: Lpn, _ops: &mut MapOps) -> Option<Ppn> {
        self.get(lpn)
    }

    /// The same as [`lookup`](Mapping::lookup) for an entry that is in RAM, without any step; `None`, and nothing has
    /// changed, when there may be more to do.
    #[inline(always)]
    fn lookup_cached(&mut self, _lpn: Lpn) -> Option<Option<Ppn>> {
        None
    }

    /// The same as [`update`](Mapping::update) for an entry that is in RAM, without any step; `None`, and nothing has
    /// changed, when there may be more to do.
    #[inline(always)]
    fn update_cached(&mut self, _lpn: Lpn, _to: Ppn) -> Option<Option<Ppn>> {
        None
    }

    /// Puts the page at `to`, or unmaps it. Returns where it lay when that is known now; otherwise a later
    /// [`MapOp::Stale`] will tell.
    #[inline]
    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, _ops: &mut MapOps) -> Option<Ppn> {
        match to {
            Some(ppn) => self.set(lpn, ppn),
            None => self.clear(lpn),
        }
    }

    /// Collection has moved the page to `to`. Is no access: it changes no order of eviction.
    #[inline]
    fn relocate(&mut self, lpn: Lpn, to: Ppn, _ops: &mut MapOps) {
        self.set(lpn, to);
    }

    /// Whether the data page `ppn`, which counts as valid, holds the newest version of `lpn`. When it does not, the
    /// answer comes with a [`MapOp::Stale`] for it.
    #[inline]
    fn is_live(&mut self, lpn: Lpn, ppn: Ppn, _ops: &mut MapOps) -> bool {
        self.get(lpn) == Some(ppn)
    }

    /// The first page of a logical block whose pages the map wants in one flash block, in order.
    #[inline]
    fn wants_gathered(&self) -> Option<Lpn> {
        None
    }

    /// Chooses a logical block to gather; false when the one that was wanted needs no gathering or cannot have it.
    fn start_gathering(&mut self, _ops: &mut MapOps) -> bool {
        false
    }

    /// The next page of the block that is being gathered. What it answers is copied at once.
    fn gather(&mut self) -> Gather {
        Gather::Broken
    }

    /// Pages that may be copied after each request.
    fn gathered_at_once(&self) -> u32 {
        0
    }

    /// The block is gathered in the flash block that begins at `at`, or was given up.
    fn end_gathering(&mut self, _at: Option<Ppn>, _ops: &mut MapOps) {}

    /// Writes every changed entry back.
    fn write_back_all(&mut self, _ops: &mut MapOps) {}

    /// Data pages that count as valid although a newer version exists: invalidations that are not known yet.
    fn unsettled(&self) -> u64 {
        0
    }

    /// Logical pages have these owners from here on, the first page of each or `None` where it has none; forgets everything.
    fn set_owners(&mut self, firsts: &[Option<u32>]) {
        if let Some(store) = self.store_mut() {
            store.shape = store.shape.clone().owned(firsts.iter().copied());
        }
        self.reset();
    }

    /// The translation pages of a demand-paged scheme, and its figures. A map that has none is in RAM as a whole.
    fn store(&self) -> Option<&Store> {
        None
    }

    /// The same, to change.
    fn store_mut(&mut self) -> Option<&mut Store> {
        None
    }

    /// The translation directory of a scheme that keeps it apart from its cache.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// The same, to change.
    fn directory_mut(&mut self) -> Option<&mut Directory> {
        None
    }

    /// The translation page of a logical page.
    #[inline]
    fn tp(&self, lpn: Lpn) -> Tp {
        self.store().map_or(Tp(0), |store| store.shape.tp(lpn))
    }

    /// The logical pages whose entries a translation page has.
    fn span(&self, tp: Tp) -> std::ops::Range<u32> {
        self.store().map_or(0..0, |store| store.shape.span(tp))
    }

    /// Translation pages of the map, used or not.
    fn translation_pages(&self) -> u32 {
        self.store().map_or(0, |store| store.shape.translation_pages())
    }

    /// Where the translation page lies, if it was ever written.
    fn translation_page(&self, tp: Tp) -> Option<Ppn> {
        self.directory()?.get(tp)
    }

    /// The translation page now lies at `ppn`; returns where it lay.
    fn place(&mut self, tp: Tp, ppn: Ppn) -> Option<Ppn> {
        self.directory_mut()?.place(tp, ppn)
    }

    /// What the translation page holds as last written: a word for each entry, the page number plus one, or zero.
    fn stored(&self, tp: Tp) -> std::borrow::Cow<'_, [u32]> {
        self.store().map_or_else(Default::default, |store| store.page(tp))
    }

    /// Figures since the last reset.
    fn counts(&self) -> MapCounts {
        self.store().map_or_else(MapCounts::default, |store| store.count)
    }

    /// Starts counting anew.
    fn reset_counts(&mut self) {
        if let Some(store) = self.store_mut() {
            store.count = MapCounts::default();
        }
    }

    /// The blocks of a map that chooses the page for each new version itself; `None` where the controller does.
    #[inline(always)]
    fn log_blocks(&self) -> Option<&LogMap> {
        None
    }

    /// The same, to change.
    #[inline(always)]
    fn log_blocks_mut(&mut self) -> Option<&mut LogMap> {
        None
    }

    /// RAM that a drive would spend on this scheme, in bytes.
    fn ram(&self) -> u64;

    /// The part of it that says where each translation page lies.
    fn directory_ram(&self) -> u64 {
        self.directory().map_or(0, Directory::ram)
    }

    /// Entries or slots that its cache holds at most; 0 where that depends on what they hold.
    fn cache_slots(&self) -> u32 {
        0
    }

    /// Checks the scheme's own structure (I-4 and its like). Slow.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A page number from a word of the map.
#[inline]
pub(crate) fn page_of(word: u32) -> Option<Ppn> {
    match word {
        0 => None,
        word => Some(Ppn(word - 1)),
    }
}

/// The word of the map for a page number.
#[inline]
pub(crate) fn word_of(ppn: Option<Ppn>) -> u32 {
    ppn.map_or(0, |ppn| ppn.0 + 1)
}
