//! `cache`: memory above a device, with prefetching and a choice of replacement.
//!
//! A read is answered from memory where its blocks are, at a stated time. Blocks that are missing are *filled*: a child
//! request reads them together with what the prefetcher wants to have, into memory that was reserved before. A read waits
//! for fills that are under way instead of reading again. A fill that fails caches nothing, and each read that waited for
//! it reads for itself.
//!
//! A *change* (write, trim, write-zeroes) that goes through takes the blocks it concerns out of use while it is under way:
//! fills of them are not kept, reads of them go below. When it has ended well and no other change met it there, the cache
//! holds the new data; else it forgets the blocks. So memory never holds what the device may not have.
//!
//! With write-back, whole blocks that are written are dirty, so many at most, and are acknowledged at once ([`buffer`]). Reads
//! find them whatever the lists hold. Everything else about them is as above when they are destaged.
//!
//! A device that is lost takes back what it had not made durable, so the cache forgets everything clean then.
//!
//! Bounds: memory for blocks is `size`, fills included. The work of a request is O(1) for each block it touches and
//! each line that goes. RAM beside the blocks: reported as `metadata_bytes`.

mod buffer;
mod change;
mod config;
mod fill;
mod read;
mod restraint;
mod slots;
mod store;

pub use config::{CacheConfig, IndexConfig};

use crate::directory::{Directory, LINE_MAX};
use crate::map::{AnyMap, Hashed, LineMap};
use crate::prefetch::{Prefetch, Range};
use crate::replacement::Replacement;
pub(crate) use buffer::{Buffer, Plan};
use change::{Change, Wide};
use fill::{Fill, Waiter};
use nandu_base::{
    Advise, BuildContext, ByteLen, ByteOffset, Content, Cx, DeviceEvent, EnergyPart, ErrorKind, Hints, Kind,
    Limits, Machine, Members, Needs, Op, OpenOptions, Peek, Phase, Place, Plant, RamPower, Report, ReqId,
    Span, Step, TimerKey, Violation,
};
use read::Waiting;
use slots::Slots;
use store::Store;

const STALE_HIT: Plant = Plant::new(
    "cache.stale-hit",
    "I-1",
    "a write that goes through leaves the cached copy of its blocks as it was",
)
.within("cache");
const STALE_FILL: Plant = Plant::new(
    "cache.stale-fill",
    "I-1",
    "what a fill brings is kept although its blocks were written meanwhile",
)
.within("cache");
const EARLY_FLUSH: Plant = Plant::new(
    "cache.early-flush",
    "I-1",
    "a flush goes below before the blocks that were written are there",
)
.within("cache-write-back");
const ASKS_ON: Plant = Plant::new(
    "cache.asks-on",
    "I-18",
    "a device that refuses what is destaged is asked again in the same moment",
)
.within("cache-write-back");
const NO_CULLING: Plant = Plant::new(
    "cache.no-culling",
    "I-2",
    "a segment moves to L2 with the blocks that were prefetched and never met",
)
.within("cache-culling");
const IN_BOTH_LISTS: Plant =
    Plant::new("cache.in-both-lists", "I-3", "a segment that is met in L1 is put into L2 as well")
        .within("cache-culling");

/// The machine kind `cache`.
pub fn kind() -> Kind {
    Kind::of::<CacheConfig>("cache", "memory with prefetching and a choice of replacement, above a device")
        .with_plants(&[STALE_HIT, STALE_FILL, EARLY_FLUSH, ASKS_ON, NO_CULLING, IN_BOTH_LISTS])
}

/// Faults of the machine that are planted.
#[derive(Clone, Copy, Default, Debug)]
struct Planted {
    stale_hit: bool,
    stale_fill: bool,
    early_flush: bool,
    asks_on: bool,
}

impl Planted {
    fn of(cx: &BuildContext<'_>) -> Planted {
        Planted {
            stale_hit: cx.planted(STALE_HIT.name),
            stale_fill: cx.planted(STALE_FILL.name),
            early_flush: cx.planted(EARLY_FLUSH.name),
            asks_on: cx.planted(ASKS_ON.name),
        }
    }
}

/// What a child request is for: the highest byte of its cookie. The low half is its number among its kind; a direct read
/// has its start within its parent between them, in sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    Fill = 1,
    /// A read straight into the payload of a request.
    Direct = 2,
    Change = 3,
    Destage = 4,
    Flush = 5,
}

impl Tag {
    const ALL: [Tag; 5] = [Tag::Fill, Tag::Direct, Tag::Change, Tag::Destage, Tag::Flush];

    fn cookie(self, number: u32) -> u64 {
        (self as u64) << 56 | u64::from(number)
    }

    fn of(cookie: u64) -> (Tag, u32) {
        let tag = Tag::ALL.into_iter().find(|&tag| tag as u64 == cookie >> 56);
        (tag.expect("a cookie of this machine"), cookie as u32)
    }
}

/// What a cache is made of.
struct Setup {
    limits: Limits,
    block: u64,
    /// Blocks that a fill for missing ones spans: those of a segment, or one.
    span: u64,
    /// A missing block of a segment that is partly here comes alone.
    leaves_holes: bool,
    line_shift: u32,
    clean: u64,
    policy: Box<dyn Replacement>,
    map: AnyMap,
    prefetch: Box<dyn Prefetch>,
    buffer: Option<Buffer>,
    config: CacheConfig,
    planted: Planted,
}

/// What the machine counts beside the directory.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    /// Blocks of reads that a fill was bringing already: for another request, and ahead of any.
    joined: u64,
    late: u64,
    /// Blocks of reads whose write was under way.
    passed_by: u64,
    /// Reads ahead, and those that were refused.
    ahead: u64,
    refused: u64,
    refused_blocks: u64,
    /// Reads below, their bytes, and bytes of them that were here already.
    fills: u64,
    fill_bytes: u64,
    fetched_again: u64,
    /// Fills that failed, or whose blocks were written meanwhile.
    failed_fills: u64,
    spoiled_blocks: u64,
    /// Reads that found no memory.
    uncached: u64,
}

/// The machine.
struct Cache {
    limits: Limits,
    block: u64,
    block_bits: u32,
    blocks: u64,
    span: u64,
    leaves_holes: bool,
    config: CacheConfig,
    planted: Planted,
    directory: Directory<Box<dyn Replacement>, AnyMap>,
    prefetch: Box<dyn Prefetch>,
    store: Store,
    buffer: Option<Buffer>,
    /// Blocks on their way, and the fill that brings each.
    flying: Hashed,
    fills: Slots<Fill>,
    ahead_under_way: u32,
    reads: Slots<Waiting>,
    changes: Slots<Change>,
    /// Where the request before ended.
    last_end: u64,
    /// Whether the read at hand begins there.
    sequential: bool,
    /// Blocks of changes under way.
    changing: Hashed,
    wide: Vec<Wide>,
    /// Long changes and losses so far: a change that sees this move does not know what the device holds.
    upheavals: u64,
    /// Longest fill in blocks.
    longest: u64,
    /// Scratch: used within one call.
    missing: Vec<Range>,
    planned: Vec<Range>,
    pieces: Vec<Range>,
    taken: Vec<(u32, u64)>,
    /// Lists of fills that have ended, to be used again.
    spare_waiters: Vec<Vec<Waiter>>,
    tally: Tally,
    list_operations: u64,
}

impl Cache {
    fn new(setup: Setup) -> Cache {
        let Setup { limits, block, span, leaves_holes, line_shift, clean, .. } = setup;
        let Setup { policy, map, prefetch, buffer, config, planted, .. } = setup;
        let longest = config.max_fill_size.unwrap_or(limits.max_io).0.min(limits.max_io.0) / block;
        Cache {
            longest: longest.clamp(1, u64::from(LINE_MAX)),
            block,
            block_bits: block.trailing_zeros(),
            blocks: limits.capacity.0 / block,
            limits,
            span,
            leaves_holes,
            config,
            planted,
            directory: Directory::new(line_shift, clean, policy, map),
            prefetch,
            store: Store::new(block),
            buffer,
            flying: Hashed::new(64),
            fills: Slots::default(),
            ahead_under_way: 0,
            reads: Slots::default(),
            changes: Slots::default(),
            last_end: u64::MAX,
            sequential: false,
            changing: Hashed::new(64),
            wide: Vec::new(),
            upheavals: 0,
            missing: Vec::new(),
            planned: Vec::new(),
            pieces: Vec::new(),
            taken: Vec::new(),
            spare_waiters: Vec::new(),
            tally: Tally::default(),
            list_operations: 0,
        }
    }

    /// The blocks that a request touches.
    #[inline]
    fn touched(&self, offset: ByteOffset, len: ByteLen) -> Range {
        let end = offset.0 + len.0;
        Range { first: offset.0 >> self.block_bits, end: (end + self.block - 1) >> self.block_bits }
    }

    /// The part of `block` that lies in `offset..end`: where it begins in the request and in the block, and its length.
    fn part(&self, block: u64, offset: u64, end: u64) -> (ByteLen, ByteLen, ByteLen) {
        let start = block << self.block_bits;
        let (from, to) = (start.max(offset), (start + self.block).min(end));
        (ByteLen(from - offset), ByteLen(from - start), ByteLen(to - from))
    }

    /// Forgets the data of blocks that have left, and are not dirty.
    fn sweep(&mut self, cx: &mut Cx<'_>) {
        let shift = self.directory.shift();
        let buffer = self.buffer.as_ref();
        let Some(gone) = &mut self.directory.gone else { return };
        for gone in gone.drain(..) {
            let mut left = gone.blocks;
            while left != 0 {
                let block = (gone.line << shift) + u64::from(left.trailing_zeros());
                if !buffer.is_some_and(|b| b.holds(block)) {
                    self.store.drop(block, cx.pool);
                }
                if gone.unmet >> left.trailing_zeros() & 1 == 1 {
                    self.prefetch.wasted(block);
                }
                left &= left - 1;
            }
        }
    }

    /// The step that ends a request from memory, now that it was answered.
    fn answer(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let lists = self.directory.tally.list_operations - self.list_operations;
        self.list_operations = self.directory.tally.list_operations;
        let span = self.config.hit_latency + self.config.list_latency * lists;
        if span == Span::ZERO {
            return Step::Finish(id);
        }
        let request = &mut cx.requests[id];
        request.explain_until(cx.now, Phase::Hold);
        request.path.add(Phase::Device, span);
        Step::FinishAt(id, cx.now + span)
    }

    /// Forgets everything clean, and what is on its way: the device below has been lost.
    fn forget_all(&mut self, cx: &mut Cx<'_>) {
        self.upheavals += 1;
        self.directory.forget_lines(0, u64::MAX);
        self.sweep(cx);
        for (_, fill) in self.fills.iter_mut() {
            fill.spoil_all(&mut self.flying);
        }
    }

    /// The first step is returned, others follow as effects.
    fn first_of(first: &mut Step, step: Step, cx: &mut Cx<'_>) {
        if step == Step::Idle {
            return;
        }
        if *first == Step::Idle {
            *first = step;
        } else {
            cx.effects.push(nandu_base::Effect::Step(step));
        }
    }
}

impl Cache {
    /// What it counts itself, from which its hits and misses follow.
    fn put_counters(&self, report: &mut Report) {
        let (d, t) = (&self.directory.tally, &self.tally);
        let (used, reserved) = self.directory.used();
        let prefetched_here: u32 = self.directory.lines().map(|l| l.unmet).sum();
        let metadata = self.directory.metadata_bytes() + self.prefetch.bytes();
        report.put("cache_hits", d.cache_hits);
        report.put("prefetch_hits", d.prefetch_hits);
        report.put("prefetch_hits_late", t.late);
        report.put("merged_misses", t.joined);
        report.put("misses", d.misses - t.late - t.joined);
        report.put("partial_hits", d.holes);
        report.put("passed_by_writes", t.passed_by);
        report.put("prefetched_blocks", d.prefetched);
        report.put("prefetch_unused_blocks", u64::from(prefetched_here));
        report.put("culled_blocks", d.culled);
        report.put("evicted_unused_blocks", d.evicted_unused);
        report.put("evicted_blocks", d.evicted);
        report.put("prefetch_reads", t.ahead);
        report.put("prefetch_reads_refused", t.refused);
        report.put("prefetch_blocks_refused", t.refused_blocks);
        report.put("device_reads", t.fills);
        report.put("device_read_bytes", t.fill_bytes);
        report.put("device_read_again_bytes", t.fetched_again);
        report.put("failed_fills", t.failed_fills);
        report.put("fills_invalidated", t.spoiled_blocks);
        report.put("uncached_reads", t.uncached);
        report.put("list_operations", d.list_operations);
        report.put("cached_bytes", used * self.block);
        report.put("reserved_bytes", reserved * self.block);
        report.put("metadata_bytes", metadata as u64);
        report.put("data_bytes", self.store.bytes());
        report.put("data_blocks_moved", self.store.moved());
        report.put("metadata_bytes_per_block", metadata as u64 / self.directory.capacity().max(1));
    }

    /// What its RAM drew in that time: blocks that were filled or written came in, blocks that were asked for or destaged went out.
    fn energy(&self, time: Span, out: &mut Vec<EnergyPart>) {
        let (room, written) = self.buffer.as_ref().map_or((0, 0), Buffer::for_energy);
        let d = &self.directory.tally;
        let blocks = d.cache_hits + d.prefetch_hits + d.misses + written;
        let held = (self.directory.capacity() + room) * self.block;
        RamPower::DDR3L.account(held, blocks * self.block + self.tally.fill_bytes, time, out);
    }
}

impl Machine for Cache {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, _how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        if cx.pool.content() != Content::Nothing || self.prefetch.hears_of_waste() {
            self.directory.gone = Some(Vec::new());
        }
        cx.opened_if_children_are();
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.close_buffer(cx)
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        match cx.requests[id].op {
            Op::Read => self.read(id, cx),
            Op::Write => self.write(id, cx),
            Op::Trim | Op::WriteZeroes => self.change(id, cx),
            Op::Flush => self.flush(id, cx),
            Op::Reset => cx.fail(id, ErrorKind::Unsupported),
        }
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (tag, number) = Tag::of(cx.requests[id].cookie);
        match tag {
            Tag::Fill => self.filled(id, number, cx),
            Tag::Direct => self.direct_done(id, number, cx),
            Tag::Change => self.changed(id, number, cx),
            Tag::Destage => self.destaged(id, number, cx),
            Tag::Flush => self.flushed(id, cx),
        }
    }

    fn timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.destage_in_time(cx)
    }

    fn child_event(&mut self, _child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        match event {
            DeviceEvent::Lost => {
                self.forget_all(cx);
                cx.event(event);
            }
            DeviceEvent::Resized(_) | DeviceEvent::Notice(_) => {}
            other => cx.event(other),
        }
        Step::Idle
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn needs(&self) -> Needs {
        Needs { foresight: self.prefetch.foresight(), ..Needs::NOTHING }
    }

    fn report(&mut self, report: &mut Report) {
        if report.wants_counters() {
            self.put_counters(report);
        }
        self.directory.report(report);
        self.prefetch.report(report);
        if let Some(buffer) = &mut self.buffer {
            buffer.report(report);
        }
        report.energy(|from, to, out| self.energy(Span(to.0.saturating_sub(from.0)), out));
        report.restart(&mut self.tally);
        report.restart(&mut self.list_operations);
    }

    fn check(&self) -> Result<(), Violation> {
        self.directory.check()?;
        let fail = |what: String| Err(Violation { invariant: "I-2", what });
        let (used, reserved) = self.directory.used();
        let flying: u64 = self.fills.iter().map(|fill| u64::from(fill.reserved())).sum();
        if flying != reserved {
            return fail(format!("{reserved} blocks are reserved, {flying} are on their way"));
        }
        let most = used + self.buffer.as_ref().map_or(0, |b| b.len() as u64);
        if self.directory.gone.is_some() && self.store.len() as u64 > most {
            return fail(format!("{} blocks have data, {most} are here or dirty", self.store.len()));
        }
        if self.store.bytes() > 2 * most * self.block {
            return fail(format!("{} bytes are kept for {most} blocks", self.store.bytes()));
        }
        self.buffer.as_ref().map_or(Ok(()), Buffer::check)
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }
}

impl Advise for Cache {
    /// What is in memory takes the time of a hit; the rest is up to the device below.
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let touched = self.touched(offset, len);
        if op == Op::Read && (touched.first..touched.end).all(|block| self.has(block)) {
            return self.config.hit_latency;
        }
        peek.expected_latency(0, op, offset, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset, len)
    }
}

impl Hints for Cache {
    fn foresee(&mut self, op: Op, offset: ByteOffset, len: ByteLen) -> Option<(u8, ByteOffset)> {
        if op == Op::Read && self.prefetch.foresight() > 0 {
            self.prefetch.foresee(self.touched(offset, len));
        }
        Some((0, offset))
    }

    fn used(&mut self, _offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        None
    }
}

impl Members for Cache {
    fn left_over(&self, _child: u8, below: &Limits) -> ByteLen {
        ByteLen(below.capacity.0.saturating_sub(self.limits.capacity.0))
    }
}

impl Cache {
    /// Whether `block` can be read from memory.
    fn has(&self, block: u64) -> bool {
        self.buffer.as_ref().is_some_and(|b| b.holds(block))
            || (self.directory.holds(block) && self.changing.get(block).is_none())
    }
}
