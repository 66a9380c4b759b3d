//! An SSD: a controller with its translation layer over lanes of NAND.
//!
//! A request is taken apart into pages. A flash operation that nothing stands before gets its place on the timeline of its die and
//! channel at once; when all of a request's are such, its end is known when it comes and it costs one event. Others get their place
//! when what they wait for ends ([`crate::nand::queued`]). A write goes to the next plane in turn and
//! is acknowledged when its last page is programmed, so what is acknowledged is durable, except trims, which a flush puts on
//! record (see [`nandu_ftl::trim_journal`]). With a `write_buffer` it is acknowledged before that; see `buffer`.
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
//! enter; see `translate` and [`nandu_ftl::mapping`]. The trim journal, when it is written anew, asks the map which pages
//! are unmapped; that is not counted as reads.
//!
//! Two halves: the files here plan (which page, which block, what moves, what is on record), and `executor` gives what is planned its time.
//!
//! Files: `config` the options, `gc` those of collection and wear, `host` reads, writes and trims, `alloc` which page comes next, `pages` what a request concerns of each page, `collect` clearing
//! blocks, `background` the same while idle, `buffer` the write buffer, `level` wear and the end of life, `journal` trim records, `fill` a drive that was written once,
//! `aged` one that was used for long, `recover` the start after a power cut, `room` what it does where no block is erased, `checkpoint` and `replay` what makes it short,
//! `mapping` the family of maps, `translate` and `map_state` maps that are partly on the flash, `gather` logical blocks that such a map wants in one flash block,
//! `tenants` who shares the drive, `log_blocks` a map that chooses pages itself and merges blocks, `streams` which pages share blocks, `slc` a cache of blocks in SLC
//! mode, `serve` what follows when operations that waited have their times.

mod aged;
mod alloc;
mod background;
mod buffer;
mod checkpoint;
mod collect;
mod config;
mod executor;
mod fill;
mod gather;
mod gc;
mod host;
mod journal;
mod level;
mod log_blocks;
mod map_state;
pub mod mapping;
mod pages;
mod recover;
mod replay;
mod room;
mod serve;
mod slc;
mod streams;
mod tenants;
mod translate;

pub use config::{PartialWrite, SsdConfig, kind};
pub use gc::{GcConfig, OrderConfig, Pace, Victim, WearConfig};
pub use mapping::MapConfig;

use background::Idle;
use buffer::Buffer;
use collect::Clearing;
use executor::Executor;
use host::Host;
use level::Leveller;
use nandu_base::{
    BuildContext, ByteLen, ByteOffset, Counter, Cx, Deal, DealError, Dealt, EnergyPart, ErrorKind, FlashMap,
    Instant, LaneTape, Limits, Machine, MediumSpec, Op, OpenHow, Peek, Place, RamPower, Ratio, ReqId,
    Resource, Span, Step, TenantId, TenantShare, TenantSpace, TimerKey, Violation, WearRegion, Work,
};
use nandu_ftl::aged::Aged;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::placement::RoundRobin;
use nandu_ftl::trim_journal::TrimJournal;
use nandu_ftl::{BlockTable, Lpn};
use slc::SlcCache;
use std::sync::Arc;
use streams::Streams;
use tenants::Tenants;
use translate::Paging;

/// Faults that are planted in this drive; all false outside `verify --inject-bug`.
#[derive(Clone, Copy, Default)]
struct Planted {
    stale_map: bool,
    lost_invalidation: bool,
    program_twice: bool,
    trim_not_recorded: bool,
    trim_record_dropped: bool,
    ends_early: bool,
    uncharged_gc: bool,
    wear_falls: bool,
    oldest_wins: bool,
    oob_dropped: bool,
    slot_persisted: bool,
    merge_counts_early: bool,
    lost_mark: bool,
}

/// What each operation of the host is done for, by its number: a look at a table is half of what a choice among three costs.
const WORK_OF: [Work; Op::ALL.len()] =
    [Work::Read, Work::Write, Work::Journal, Work::Write, Work::Write, Work::Write];

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default)]
struct Counts {
    host_pages_written: u64,
    host_pages_read: u64,
    pages_premerged: u64,
    pages_moved: u64,
    journal_pages: u64,
    erases: u64,
    clears_forced: u64,
    moves_while_idle: u64,
    blocks_cleared: u64,
    pages_trimmed: u64,
    /// Pages of the host that went to another stream than the first.
    stream_pages: u64,
}

/// The drive.
pub struct Ssd<M> {
    host: Host,
    limits: Limits,
    /// Whether requests of whole pages may take the short way: units of one block, no tenants, no fault that strikes
    /// single pages.
    is_plain: bool,
    /// Whether pages that move stay in their plane, and in one mode of blocks.
    moves_within: bool,
    /// Whether the record of a page may be other than its number and that of its program.
    marks_records: bool,
    /// Whether pages may also move the short way: no tenants, no fault that strikes single pages.
    moves_plainly: bool,
    map: M,
    paging: Paging,
    blocks: BlockTable,
    /// Who gives flash operations their times.
    exec: Executor,
    turns: RoundRobin,
    policy: Box<dyn GcPolicy>,
    clearing: Vec<Clearing>,
    leveller: Leveller,
    /// Who shares the drive, where they are kept apart.
    tenants: Option<Box<Tenants>>,
    /// Which of the host's pages share blocks, where not all do.
    streams: Option<Box<Streams>>,
    /// The cache of blocks in SLC mode, if there is one.
    slc: Option<Box<SlcCache>>,
    /// What is done while no request comes, if anything.
    idle: Option<Idle>,
    journal: TrimJournal,
    /// Number of the last program.
    seq: u64,
    /// Number of the last data page of the first fill.
    filled_to: u64,
    /// What is where on a drive that starts aged, until it is stored.
    aged: Option<Arc<Aged>>,
    /// How the first fill was out of order, until it is stored.
    fragments: Option<(Ratio, u64)>,
    /// Something is to be seen to before the next request.
    attention: bool,
    /// Erases have made the journal long: the next request shortens it.
    renew_is_due: bool,
    /// What the last start took.
    recovery: recover::Figures,
    count: Counts,
    /// Nothing waited for its die when the counters were reset, so that what began since is what was counted since.
    counts_all: bool,
    /// Erases of all blocks since the drive was made; kept apart from the blocks' own counts, for I-16.
    erases_ever: u64,
    planted: Planted,
    /// The drive ends when nothing waits any more.
    closing: bool,
    /// The write buffer, if there is one.
    buffer: Option<Box<Buffer>>,
}

impl<M: Mapping> Ssd<M> {
    #[allow(clippy::too_many_arguments)] // the parts of a drive
    fn new(
        host: Host,
        limits: Limits,
        map: M,
        mut paging: Paging,
        mut blocks: BlockTable,
        mut exec: Executor,
        turns: RoundRobin,
        policy: Box<dyn GcPolicy>,
        leveller: Leveller,
        tenants: Option<Box<Tenants>>,
        streams: Option<Box<Streams>>,
        slc: Option<Box<SlcCache>>,
        idle: Option<Idle>,
        buffer: Option<Box<Buffer>>,
        cx: &BuildContext<'_>,
    ) -> Ssd<M> {
        let planted = Planted {
            stale_map: cx.planted("ssd.stale-map"),
            lost_invalidation: cx.planted("ssd.lost-invalidation"),
            program_twice: cx.planted("ssd.program-twice"),
            trim_not_recorded: cx.planted("ssd.trim-not-recorded"),
            trim_record_dropped: cx.planted("ssd.trim-record-dropped"),
            ends_early: cx.planted("ssd.ends-early"),
            uncharged_gc: cx.planted("ssd.uncharged-gc") || cx.planted("ssd.log-uncharged-merge"),
            wear_falls: cx.planted("ssd.wear-falls"),
            oldest_wins: cx.planted("ssd.oldest-wins") || cx.planted("ssd.log-oldest-wins"),
            oob_dropped: cx.planted("ssd.oob-dropped"),
            slot_persisted: cx.planted("ssd.map-slot-persisted"),
            merge_counts_early: cx.planted("ssd.log-unfinished-merge"),
            lost_mark: cx.planted("ssd.log-lost-mark"),
        };
        exec.plant(cx);
        if slc.is_some() {
            exec.queue.watch_each();
        }
        let (planes, is_log) = (blocks.planes.len(), map.log_blocks().is_some());
        let has_map_pages = map.translation_pages() > 0;
        let (claimed, has_keeper) = (paging.claim(&mut blocks), paging.keeper.is_some());
        assert!(claimed, "a geometry that was checked has blocks for the map");
        Ssd {
            map,
            paging,
            host,
            limits,
            is_plain: tenants.is_none()
                && streams.is_none()
                && slc.is_none()
                && !is_log
                && !exec.stripes.is_wide()
                && !planted.lost_invalidation
                && !planted.program_twice,
            moves_within: !exec.stripes.is_wide() && slc.is_none(),
            marks_records: planted.oob_dropped || slc.is_some(),
            moves_plainly: !has_map_pages
                && tenants.is_none()
                && slc.is_none()
                && !exec.stripes.is_wide()
                && !planted.stale_map
                && !planted.lost_invalidation
                && !planted.program_twice,
            blocks,
            exec,
            turns,
            policy,
            clearing: vec![Clearing::IDLE; planes],
            leveller,
            attention: idle.is_some() || buffer.is_some() || has_keeper,
            journal: TrimJournal::new(
                tenants.as_ref().map_or(1, |tenants| tenants.len()),
                host.trim_records as usize,
            ),
            tenants,
            streams,
            slc,
            idle,
            seq: 0,
            filled_to: 0,
            aged: None,
            fragments: None,
            renew_is_due: false,
            recovery: recover::Figures::default(),
            count: Counts::default(),
            counts_all: true,
            erases_ever: 0,
            planted,
            closing: false,
            buffer,
        }
    }
}

impl<M: Mapping> Ssd<M> {
    /// The die of the next page of the host.
    fn next_die(&self) -> u32 {
        let group = self.turns.peek();
        let open = self.blocks.planes[(group * self.blocks.pools_per_plane()) as usize].host;
        match self.exec.stripes.is_wide() {
            true if !open.is_full() => self.exec.die_of(open.peek()),
            true => self.exec.stripes.dies_of(group).start,
            false => group >> self.host.plane_bits,
        }
    }

    /// Sees to what must be seen to before a request, a checkpoint among it; returns its answer when a worn out drive refuses it, or a write
    /// buffer deals with it.
    #[inline(never)]
    fn attend(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Step> {
        if self.renew_is_due {
            self.shorten_journal(id, cx);
        }
        self.note_request(id, cx);
        let has_ended = self.blocks.has_ended();
        self.attention =
            has_ended || self.idle.is_some() || self.buffer.is_some() || self.paging.keeper.is_some();
        if has_ended && self.is_past_its_end(id, cx.requests) {
            return Some(cx.fail(id, ErrorKind::ReadOnly));
        }
        if self.checkpoint_is_due() {
            self.take_checkpoint(cx.requests[id].cause, cx);
        }
        self.buffer.as_ref()?;
        Some(self.request_buffered(id, cx))
    }

    /// Operations that were issued may have their time, or will be waited for.
    #[inline(always)]
    fn serve_what_waits(&mut self, cx: &mut Cx<'_>) {
        if self.exec.queue.holds_back() {
            self.serve(cx);
        }
    }

    /// Nothing is in a write buffer any more: puts the rest on record and ends the session.
    fn end_session(&mut self, cx: &mut Cx<'_>) {
        if let Some(buffer) = &self.buffer {
            cx.cancel_wake(buffer.key());
        }
        self.record_trims(cx, TenantId::SYSTEM);
        self.write_map_back(cx);
        if self.paging.keeper.is_some() {
            self.take_checkpoint(TenantId::SYSTEM, cx);
        }
        self.close_when_done(cx);
    }
}

impl<M: Mapping> Machine for Ssd<M> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn medium(&self) -> MediumSpec {
        let chips = self.exec.stripes.units.chips();
        MediumSpec::Flash {
            units: chips.ppn_end() + self.buffer.as_ref().map_or(0, |buffer| buffer.dump_units()),
            unit_sectors: self.host.page.sectors,
            units_per_block: chips.block_stride(),
        }
    }

    fn open(&mut self, how: OpenHow, cx: &mut Cx<'_>) -> Step {
        if cx.medium.is_some() {
            self.exec.lanes.watch_idleness();
        }
        if cx.medium.as_deref().is_none_or(|medium| how.create && medium.is_blank()) {
            self.store_fill(cx);
            cx.opened(Ok(()));
        } else {
            self.stand_still(true, cx);
            let end = self.recover(cx);
            self.restore_buffer(cx);
            self.stand_still(false, cx);
            cx.wake_at(serve::AT_REST, end);
        }
        Step::Idle
    }

    /// The scan after a power cut is complete, or the drive may be idle, or a die may have something to do.
    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.exec.lanes.tick(cx.now);
        if self.idle.as_ref().is_some_and(|idle| idle.key == key) {
            self.idle_timer(cx);
            self.serve_what_waits(cx);
            return Step::Idle;
        }
        if self.buffer.as_ref().is_some_and(|buffer| buffer.key() == key) {
            self.buffer_timer(cx);
            return Step::Idle;
        }
        if key.0 > 0 {
            return self.die_is_free(key.0 - 1, cx);
        }
        self.is_at_rest(cx);
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        if let Some(idle) = &mut self.idle {
            idle.is_at_rest = false;
            cx.cancel_wake(idle.key);
        }
        if self.is_empty_at_end(cx) {
            self.end_session(cx);
        }
        Step::Idle
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.exec.lanes.tick(cx.now);
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        self.exec.lanes.work_for(WORK_OF[cx.requests[id].op as usize]);
        if self.attention
            && let Some(step) = self.attend(id, cx)
        {
            self.serve_what_waits(cx);
            return step;
        }
        let step = match cx.requests[id].op {
            Op::Read => self.read(id, cx),
            Op::Write => self.write(id, cx),
            Op::Flush => self.flush(id, cx),
            Op::Trim | Op::WriteZeroes => self.trim(id, cx),
            Op::Reset => return cx.fail(id, ErrorKind::Unsupported),
        };
        self.serve_what_waits(cx);
        step
    }

    fn share_changed(&mut self, tenant: TenantId, share: &TenantShare, _cx: &mut Cx<'_>) -> Step {
        self.exec.queue.set_weight(tenant, share.weight);
        Step::Idle
    }

    fn deal(&mut self, deal: Deal, cx: &mut Cx<'_>) -> Result<Dealt, DealError> {
        self.make_deal(deal, cx)
    }

    fn spaces(&self, out: &mut Vec<TenantSpace>) {
        self.tenant_spaces(out);
    }

    fn expected_latency(&self, op: Op, offset: ByteOffset, _len: ByteLen, peek: &Peek<'_>) -> Span {
        let free = |die| Span(self.exec.lanes.free_at(die).0.saturating_sub(peek.now.0));
        let wait = |die| match self.exec.queue.has_lines() {
            true => free(die) + self.exec.queued_before(op, die),
            false => free(die),
        };
        match op {
            Op::Read => match self.map.get(Lpn((offset.0 >> self.host.page.bits) as u32)) {
                Some(ppn) => {
                    let timing = self.exec.timing_in(self.is_slc(ppn));
                    wait(self.exec.die_of(ppn)) + timing.read + timing.transfer
                }
                None => Span::ZERO,
            },
            Op::Write if self.buffer.as_ref().is_some_and(|buffer| buffer.has_room()) => Span::ZERO,
            Op::Write if self.map.log_blocks().is_some() => {
                let timing = self.exec.lanes.timing();
                self.logged_before(offset, peek.now) + timing.transfer + timing.program
            }
            Op::Write => {
                let open =
                    self.blocks.planes[(self.turns.peek() * self.blocks.pools_per_plane()) as usize].host;
                let timing = self.exec.timing_in(!open.is_full() && self.is_slc(open.peek()));
                wait(self.next_die()) + timing.transfer + timing.program
            }
            _ => Span::ZERO,
        }
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        if let Some(buffer) = &self.buffer {
            return !buffer.has_room();
        }
        if self.map.log_blocks().is_some() {
            return self.exec.queue.any_move_waits();
        }
        let die = self.next_die();
        self.exec.lanes.free_at(die) > peek.now
            || self.exec.queue.has_lines() && self.exec.queue.waiting(die) != (0, 0)
    }

    fn locate(&self, offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        let ppn = self.map.get(Lpn((offset.0 >> self.host.page.bits) as u32))?;
        Some(Place { lane: self.exec.die_of(ppn), unit: self.exec.stripes.unit(ppn) })
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        self.map.prefetch(Lpn((offset.0 >> self.host.page.bits) as u32));
        None
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        let c = &self.count;
        let page = u64::from(self.limits.preferred);
        let programmed = self.programmed();
        let log = self.map.log_blocks();
        let merged = log.map_or_else(Default::default, |log| log.merged());
        let mut put = |name, value| out.push(Counter { name, value });
        put("host_pages_written", c.host_pages_written);
        put("host_pages_read", c.host_pages_read);
        put("rmw_page_reads", c.pages_premerged);
        put("gc_pages_moved", c.pages_moved);
        put("gc_blocks_collected", c.blocks_cleared + merged.switches + merged.partials + merged.fulls);
        put("gc_foreground_collections", c.clears_forced);
        if self.idle.is_some() {
            put("gc_idle_steps", c.moves_while_idle);
        }
        if self.exec.lanes.timing().copyback {
            put("gc_pages_moved_in_die", self.exec.lanes.moves());
        }
        put("journal_pages", c.journal_pages);
        put("pages_trimmed", c.pages_trimmed + merged.unmapped);
        put("erase_count", (c.erases + self.paging.erased()) * u64::from(self.exec.stripes.units.width()));
        put("nand_bytes_written", programmed * page);
        put("nand_pages_programmed", programmed);
        let (free, valid) = match log {
            Some(log) => {
                log.regions().fold((0, 0), |sum, r| (sum.0 + u64::from(r.free()), sum.1 + r.mapped()))
            }
            None => self
                .blocks
                .planes
                .iter()
                .fold((0, 0), |sum, p| (sum.0 + u64::from(p.free), sum.1 + u64::from(p.valid))),
        };
        put("free_blocks", free);
        put("valid_pages", valid);
        if self.has_map_pages() {
            self.map_counters(out);
        }
        out.push(Counter { name: "map_ram_bytes", value: self.map.ram() });
        if let Some(buffer) = &self.buffer {
            buffer.counters(out);
        }
        self.log_counters(out);
        self.slc_counters(out);
        self.exec.suspension_counters(out);
        self.exec.queue.share_counters(out);
        self.wear_counters(out);
        self.tenant_counters(out);
        if self.streams.is_some() {
            out.push(Counter { name: "pages_written_to_other_streams", value: self.count.stream_pages });
        }
        self.recovery.counters(out);
    }

    fn busy(&self, out: &mut Vec<(Resource, Span)>) {
        out.push((Resource::Die, self.exec.lanes.dies_busy()));
        out.push((Resource::Channel, self.exec.lanes.channels_busy()));
        if let Some(buffer) = &self.buffer {
            out.push((Resource::Device, buffer.link_busy()));
        }
    }

    fn energy(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        self.exec.lanes.energy(from, to, out);
        let buffer = self.buffer.as_ref().map_or(0, |buffer| buffer.bytes(u64::from(self.limits.preferred)));
        RamPower::DDR3L.account(self.map.ram() + buffer, 0, Span(to.0.saturating_sub(from.0)), out);
    }

    fn wear(&self, out: &mut Vec<WearRegion>) {
        out.push(self.wear_region());
        out.extend(self.slc_region());
    }

    fn watch_lanes(&mut self, from: Instant, to: Instant) {
        self.exec.lanes.watch(from, to);
    }

    fn lanes(&self) -> Option<&LaneTape> {
        self.exec.lanes.tape()
    }

    fn flash_map(&self) -> Option<FlashMap> {
        let layout = self.blocks.layout();
        Some(FlashMap {
            blocks_per_plane: layout.blocks,
            pages_per_block: layout.pages,
            valid: match self.map.log_blocks() {
                None => self.blocks.valid_pages(),
                Some(log) => log.valid_pages(),
            },
            erases: layout.all_blocks().map(|block| self.blocks.erases(block)).collect(),
        })
    }

    fn reset_counters(&mut self) {
        self.count = Counts::default();
        self.counts_all = self.exec.queue.outstanding() == 0;
        self.exec.lanes.reset_busy();
        self.exec.queue.suspensions = Default::default();
        self.exec.queue.reset_share_counters();
        self.map.reset_counts();
        self.paging.reset_counters();
        self.leveller.reset_counters();
        if let Some(buffer) = &mut self.buffer {
            buffer.reset_counters();
        }
        self.tenants.iter_mut().for_each(|tenants| tenants.reset_counters());
        self.slc.iter_mut().for_each(|slc| slc.reset_counters());
        self.exec.modes.iter_mut().for_each(|modes| *modes = Default::default());
    }

    fn check(&self) -> Result<(), Violation> {
        if !self.exec.queue.is_clean() {
            let what = "operations or answers are left over although nothing waits".into();
            return Err(Violation { invariant: "queue", what });
        }
        self.check_operations()?;
        self.exec.lanes.check_idleness()?;
        self.exec.queue.check_suspensions()?;
        self.exec.queue.check_shares()?;
        if let Some(buffer) = &self.buffer {
            buffer.check()?;
        }
        if self.map.log_blocks().is_some() {
            return self.check_logged();
        }
        self.check_blocks()
    }
}

#[cfg(test)]
mod tests;
