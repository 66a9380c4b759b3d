//! The planner of a drive: which page, which block, what moves, what is on record. It has no clock: it gives operations to whoever carries them out
//! ([`Flash`]), each with what it must come behind, and is told nothing of when they are done.
//!
//! A request is taken apart into pages. A write goes to the next plane in turn; its old page is superseded. So there is one way for reads, one for
//! writes, one for trims and one for pages that move, whatever map, tenants, streams, SLC cache or units a drive has.
//!
//! *Partial pages*: a write of part of a page reads the page first, then programs it whole; `partial_write` can leave the
//! read out of the account.
//!
//! *Garbage collection* is incremental: when a plane runs low on free blocks, each page that the host writes there is
//! followed by a few moves, as many as are needed to finish the block before the plane runs out. Only when that is too
//! late does a write wait for a whole block. The tenant whose write is followed by moves is charged for them.
//!
//! *Power cuts*: no block is erased before the newer versions of its pages are programmed (the executor) and
//! the trims that emptied it are on record. After a cut, a scan of all out-of-band records rebuilds the map: the newest
//! version of each page wins. With `checkpoint_interval`, a map on the flash is rebuilt from its newest checkpoint and the blocks
//! that were written since.
//!
//! *Maps on the flash*: with a demand-paged map, requests also wait for translation pages, and collection has moves to
//! enter; see [`translate`](self) and [`crate::mapping`]. The trim journal, when it is written anew, asks the map which pages
//! are unmapped; that is not counted as reads.
//!
//! Files: `flash` the doors to who carries it out, `tape` one that writes down what is given, `host` reads, writes and trims, `alloc` which page comes next, `pages` what a request
//! concerns of each page, `collect` clearing blocks, `level` wear and the end of life, `journal` trim records, `fill` a drive that was written once, `aged` one that was
//! used for long, `recover` the start after a power cut, `room` what it does where no block is erased, `checkpoint` and `replay` what makes it short, `translate` and `map_state`
//! maps that are partly on the flash, `gather` logical blocks that such a map wants in one flash block, `tenants` who shares the drive, `log_blocks` a map that chooses pages
//! itself and merges blocks, `streams` which pages share blocks, `slc` a cache of blocks in SLC mode.
//!
//! What is public here is for the crate of the drive; it may change with any version.

mod aged;
mod alloc;
pub mod checkpoint;
mod collect;
mod fill;
pub mod flash;
mod gather;
mod host;
mod journal;
pub mod level;
pub mod log_blocks;
mod map_state;
pub mod pages;
pub mod recover;
mod replay;
mod room;
pub mod slc;
pub mod streams;
#[cfg(test)]
mod tape;
pub mod tenants;
pub mod translate;

pub use fill::fragmented;
pub use flash::Flash;
pub use host::Host;

use crate::BlockTable;
use crate::aged::Aged;
use crate::gc::GcPolicy;
use crate::mapping::Mapping;
use crate::placement::RoundRobin;
use crate::trim_journal::TrimJournal;
use collect::{Clearing, Moving};
use level::Leveller;
use nandu_base::{BuildContext, Ratio};
use slc::SlcCache;
use std::sync::Arc;
use streams::Streams;
use tenants::Tenants;
use translate::Paging;

/// Faults that are planted in this planner; all false outside `verify --inject-bug`.
#[derive(Clone, Copy, Default, Debug)]
struct Planted {
    stale_map: bool,
    lost_invalidation: bool,
    program_twice: bool,
    trim_not_recorded: bool,
    trim_record_dropped: bool,
    uncharged_gc: bool,
    wear_falls: bool,
    oldest_wins: bool,
    oob_dropped: bool,
    slot_persisted: bool,
    merge_counts_early: bool,
    lost_mark: bool,
    stripe_left_open: bool,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Pages that the host wrote.
    pub host_pages_written: u64,
    /// Pages that the host read from the flash.
    pub host_pages_read: u64,
    /// Pages read because a part of them was written.
    pub pages_premerged: u64,
    /// Pages that moved.
    pub pages_moved: u64,
    /// Records of trims.
    pub journal_pages: u64,
    /// Units erased, without those of the map.
    pub erases: u64,
    /// Units that a write had to wait for.
    pub clears_forced: u64,
    /// Steps of collection while no request came.
    pub moves_while_idle: u64,
    /// Units cleared.
    pub blocks_cleared: u64,
    /// Pages trimmed.
    pub pages_trimmed: u64,
    /// Pages of the host that went to another stream than the first.
    pub stream_pages: u64,
}

/// What a planner is made of.
pub struct Parts<M, F> {
    /// Fixed figures.
    pub host: Host,
    /// The map.
    pub map: M,
    /// What is kept for a map that is partly on the flash.
    pub paging: Paging,
    /// The blocks.
    pub blocks: BlockTable,
    /// Who carries out what is planned.
    pub exec: F,
    /// The planes in turn.
    pub turns: RoundRobin,
    /// Which block is cleared.
    pub policy: Box<dyn GcPolicy>,
    /// When a block is cleared for its wear.
    pub leveller: Leveller,
    /// Who shares the drive, where they are kept apart.
    pub tenants: Option<Box<Tenants>>,
    /// Which of the host's pages share blocks, where not all do.
    pub streams: Option<Box<Streams>>,
    /// The cache of blocks in SLC mode, if there is one.
    pub slc: Option<Box<SlcCache>>,
}

/// See the module's page.
pub struct Planner<M: ?Sized, F: Flash> {
    /// Fixed figures.
    pub host: Host,
    /// Whether requests of whole pages may take the short way: units of one block, no tenants, no fault that strikes
    /// single pages.
    is_plain: bool,
    /// Whether pages that move stay in their plane, and in one mode of blocks.
    moves_within: bool,
    /// Whether the record of a page may be other than its number and that of its program.
    marks_records: bool,
    /// Whether pages may also move the short way: no tenants, no fault that strikes single pages.
    moves_plainly: bool,
    /// What is kept for a map that is partly on the flash.
    pub paging: Paging,
    /// The blocks.
    pub blocks: BlockTable,
    /// Who carries out what is planned.
    pub exec: F,
    /// The planes in turn.
    pub turns: RoundRobin,
    policy: Box<dyn GcPolicy>,
    clearing: Vec<Clearing>,
    /// What was read of a stripe that moves and is not programmed yet: nothing between two steps.
    stripe: Vec<Moving<F::Given>>,
    leveller: Leveller,
    /// Who shares the drive, where they are kept apart.
    pub tenants: Option<Box<Tenants>>,
    streams: Option<Box<Streams>>,
    slc: Option<Box<SlcCache>>,
    journal: TrimJournal,
    /// Number of the last program.
    seq: u64,
    /// Number of the last data page of the first fill.
    filled_to: u64,
    /// What is where on a drive that starts aged, until it is stored.
    aged: Option<Arc<Aged>>,
    /// How the first fill was out of order, until it is stored.
    fragments: Option<(Ratio, u64)>,
    /// Something is to be seen to before the next request: the drive has ended, [`renew_is_due`](Planner::renew_is_due), or the drive has asked for it.
    pub attention: bool,
    /// Erases have made the journal long: the next request shortens it.
    pub renew_is_due: bool,
    /// What the last start took.
    pub recovery: recover::Figures,
    /// What happened.
    pub count: Counts,
    /// Erases of all blocks since the drive was made; kept apart from the blocks' own counts, for I-16.
    erases_ever: u64,
    planted: Planted,
    /// The map; last, so that a planner of a certain map is one of any map too.
    pub map: M,
}

impl<M: Mapping, F: Flash> Planner<M, F> {
    /// A planner for a drive that was never written.
    pub fn new(parts: Parts<M, F>, cx: &BuildContext<'_>) -> Planner<M, F> {
        let planted = Planted {
            stale_map: cx.planted("ssd.stale-map"),
            lost_invalidation: cx.planted("ssd.lost-invalidation"),
            program_twice: cx.planted("ssd.program-twice"),
            trim_not_recorded: cx.planted("ssd.trim-not-recorded"),
            trim_record_dropped: cx.planted("ssd.trim-record-dropped"),
            uncharged_gc: cx.planted("ssd.uncharged-gc") || cx.planted("ssd.log-uncharged-merge"),
            wear_falls: cx.planted("ssd.wear-falls"),
            oldest_wins: cx.planted("ssd.oldest-wins") || cx.planted("ssd.log-oldest-wins"),
            oob_dropped: cx.planted("ssd.oob-dropped"),
            slot_persisted: cx.planted("ssd.map-slot-persisted"),
            merge_counts_early: cx.planted("ssd.log-unfinished-merge"),
            lost_mark: cx.planted("ssd.log-lost-mark"),
            stripe_left_open: cx.planted("ssd.stripe-left-open"),
        };
        let Parts { host, map, mut paging, mut blocks, exec, turns, policy, leveller, tenants, streams, slc } =
            parts;
        let (planes, is_log) = (blocks.planes.len(), map.log_blocks().is_some());
        let has_map_pages = map.store().is_some();
        let claimed = paging.claim(&mut blocks);
        assert!(claimed, "a geometry that was checked has blocks for the map");
        if let Some(tables) = tenants.as_ref().and_then(|tenants| tenants.tables.as_ref()) {
            let is_apart = blocks.set_apart(tables.per_plane());
            assert!(is_apart, "a geometry that was checked has blocks for the table of tenants");
        }
        Planner {
            paging,
            host,
            is_plain: tenants.is_none()
                && streams.is_none()
                && slc.is_none()
                && !is_log
                && !exec.is_wide()
                && !planted.lost_invalidation
                && !planted.program_twice,
            moves_within: !exec.is_wide() && slc.is_none(),
            marks_records: planted.oob_dropped || slc.is_some(),
            moves_plainly: !has_map_pages
                && tenants.is_none()
                && slc.is_none()
                && !exec.is_wide()
                && !planted.stale_map
                && !planted.lost_invalidation
                && !planted.program_twice,
            blocks,
            exec,
            turns,
            policy,
            clearing: vec![Clearing::IDLE; planes],
            stripe: Vec::with_capacity(if host.stripe > 1 { host.stripe as usize } else { 0 }),
            leveller,
            attention: false,
            journal: TrimJournal::new(
                tenants.as_ref().map_or(1, |tenants| tenants.len()),
                host.trim_records as usize,
            ),
            tenants,
            streams,
            slc,
            seq: 0,
            filled_to: 0,
            aged: None,
            fragments: None,
            renew_is_due: false,
            recovery: recover::Figures::default(),
            count: Counts::default(),
            erases_ever: 0,
            planted,
            map,
        }
    }

    /// The same as a planner of any map. What is asked of it is compiled once and not for each map: starts, checks, figures, deals, and whatever else is
    /// not part of a request or of a step of collection.
    pub fn of_any_map(&self) -> &Planner<dyn Mapping, F> {
        self
    }

    /// The same, to change.
    pub fn of_any_map_mut(&mut self) -> &mut Planner<dyn Mapping, F> {
        self
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Whether a cache of blocks in SLC mode is there.
    pub fn has_slc(&self) -> bool {
        self.slc.is_some()
    }

    /// Whether pages are told apart by streams.
    pub fn has_streams(&self) -> bool {
        self.streams.is_some()
    }
}
