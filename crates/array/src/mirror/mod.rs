//! `mirror`: two legs with the same data, equal in rights.
//!
//! **The algorithm** (hetero-mirror.md sections 1 to 5, mode `strict`). One leg leads: its content decides after a crash.
//! Before data of a region goes to any leg, the leader durably says D "the legs may differ here" (R-INTENT); writes that
//! wait share one map write and flush. A write goes to both members at once and is acknowledged when both have it.
//! Overlapping writes keep the order of their arrival on both legs (R-ONE). A flush covers both members. D is cleared
//! lazily, when nothing is under way in the region and both legs have flushed what they hold (R-CLEAR). A leg that is
//! lost, or fails to write or flush, is left out: the survivor drains, flushes, and writes a Solo superblock with a fresh
//! generation, while new writes and flushes wait (R-SOLO). A leg that returns gets the survivor's map as D and L, becomes
//! a member, and is resynced region by region (R-LOCK); until then it is neither read there nor may it lead (R-HALF).
//! At open both legs are flushed and the table of section 5 decides (R-OPEN).
//!
//! **Where it differs from that page.** Acknowledged by both, always: no L for flushes, no exposure, no delay queue. L is
//! written for a region that is resynced, and a leg with L does not start alone: it would report lost regions, and the
//! lost list is laid out but not used. A flush does not wait for a resync: a region under resync has its only promised
//! copy on the leader, which L on the follower says durably. When the leader goes while the follower is not resynced, the
//! mirror fails all requests until the leader is back. A write that fails on both legs makes its regions copied from the
//! leader. Client writes that need a new D wait during steps 1 to 5 of a rejoin, so that L covers D without a race.
//! Not done: declaring the next regions of a sequential stream early, rewriting the other slot when idle.
//!
//! **Modules.** [`layout`] on-disk records; [`decide`] what to believe at open; [`region_map`] D and L in memory;
//! [`regions`] the regions in use; [`locks`] order of overlaps; [`leg`] flushes and records of one leg; [`write`],
//! [`read`], [`flush`] what clients ask for; [`copy`] resync and repair; [`open`], [`member`] the procedures.
//!
//! **Bounds.** Work per event: the operations under way when a leg leaves, the set bits of the map at open and rejoin,
//! otherwise a few. RAM: 0.9 B a region and leg (1.8 MiB for 1 TiB in regions of 1 MiB), 56 B for each active region,
//! 200 B for each request under way, and `resync_depth` chunks.

pub mod config;
mod copy;
pub mod decide;
mod flush;
pub mod layout;
pub mod leg;
pub mod locks;
mod member;
mod open;
mod read;
pub mod region_map;
pub mod regions;
mod write;

pub use config::{kind, Fresh, MirrorConfig, ReadPolicy, PLANTS};

use config::Planted;
use layout::{Gen, Layout, Superblock};
use leg::{Leg, Place as Standing};
use locks::{Locks, Pass};
use member::Proc;
use nandu_base::{
    BuildContext, ByteLen, ByteOffset, Counter, Cx, DeviceEvent, Effect, ErrorKind, Instant, Limits, Machine,
    Op, OpenHow, Peek, Place, ReqId, Rng, Span, Step, TimerKey, Violation,
};
use region_map::{Bits, D};
use regions::Regions;
use std::collections::VecDeque;
use write::Operation;

/// Marks no operation.
const NONE: u32 = u32::MAX;
/// The timer that clears D.
const CLEAR: TimerKey = TimerKey(0);
/// The timer that goes on with a resync.
const RESYNC: TimerKey = TimerKey(1);

/// What a child request of the mirror is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    Data = 0,
    Flush,
    MapWrite,
    SbWrite,
    MapRead,
    SbRead,
}

impl Tag {
    fn cookie(self, leg: usize, index: u32) -> u64 {
        (self as u64) << 48 | (leg as u64) << 40 | u64::from(index)
    }
    fn of(cookie: u64) -> (Tag, usize, u32) {
        let tag = match cookie >> 48 {
            0 => Tag::Data,
            1 => Tag::Flush,
            2 => Tag::MapWrite,
            3 => Tag::SbWrite,
            4 => Tag::MapRead,
            _ => Tag::SbRead,
        };
        (tag, (cookie >> 40 & 1) as usize, cookie as u32)
    }
}

/// Whether requests are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Not open.
    Closed,
    /// The first start is under way.
    Opening,
    /// Requests are served.
    Running,
    /// No leg may serve: requests fail until one is back.
    Failed,
    /// Being closed.
    Closing,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    leg_flushes: [u64; 2],
    map_writes: u64,
    superblock_writes: u64,
    intent_waits: u64,
    clears: u64,
    resync_bytes: u64,
    resync_regions: u64,
    resync_unreadable: u64,
    read_errors: [u64; 2],
    write_errors: [u64; 2],
    repairs: u64,
    solos: u64,
    rejoins: u64,
    refused: u64,
    reads: [u64; 2],
    held_writes: u64,
}

/// The machine.
pub struct Mirror {
    limits: Limits,
    names: [String; 2],
    layouts: [Layout; 2],
    planted: Planted,
    seed: u64,
    /// Region size as a power of two.
    shift: u8,
    region_count: u32,
    /// Regions that one piece of a write may touch.
    piece_regions: u64,
    clear_after: Span,
    chunk: u64,
    depth: u32,
    rate: u64,
    read_policy: ReadPolicy,
    /// The leg that was read last.
    last_read: usize,
    write_retries: u8,
    fresh: Fresh,

    phase: Phase,
    proc: Proc,
    how: OpenHow,
    /// A start tells the driver only once the other leg has joined.
    opened_after_join: bool,
    /// Two blank legs that are equal become a set.
    equal_so_far: bool,
    legs: [Leg; 2],
    leader: usize,
    /// Regions where the other leg lacks data: the follower under resync, or the leg that is out.
    stale: Bits,
    regions: Regions,
    locks: Locks,
    ops: Vec<Operation>,
    free_ops: Vec<u32>,
    /// Operations whose extent was granted.
    ready: VecDeque<u32>,
    /// Writes that wait for a place among the active regions, in order.
    slot_wait: VecDeque<u32>,
    /// Writes that wait for D, in order.
    intent_wait: Vec<u32>,
    /// FUA writes that wait for Solo.
    solo_wait: Vec<u32>,
    flushes: VecDeque<flush::Waiting>,
    clearing: flush::Clearing,
    resync: copy::Resync,
    repairs: VecDeque<copy::Repair>,
    /// Something changed that procedures or waiters look at.
    stir: bool,
    /// A batch of some map became durable.
    map_moved: bool,
    count: Counts,
}

impl Mirror {
    fn new(config: &MirrorConfig, cx: &BuildContext<'_>, layouts: [Layout; 2], planted: Planted) -> Mirror {
        let shift = config.region.0.trailing_zeros() as u8;
        let (a, b) = (&cx.children[0], &cx.children[1]);
        let capacity = ByteLen(layouts[0].data.0.min(layouts[1].data.0));
        let max_io = ByteLen(a.max_io.0.min(b.max_io.0));
        let region_count = capacity.0.div_ceil(1 << shift) as u32;
        let name_hash = crc32c::crc32c(cx.name.as_bytes());
        let blank = |leg: usize| Superblock {
            leg: leg as u8,
            set: [0; 2],
            seq: 0,
            gen: Gen::NONE,
            base: Gen::NONE,
            history: [Gen::NONE; 8],
            solo: false,
            leader: 0,
            strict: true,
            clean: false,
            leg_bytes: layouts[leg].leg.0,
            region_shift: shift,
            map: layouts[leg].map,
            lost: layouts[leg].lost,
            together: 0,
        };
        Mirror {
            limits: Limits {
                capacity,
                align: a.align.max(b.align),
                preferred: a.preferred.max(b.preferred),
                max_io,
                dma_align: a.dma_align.max(b.dma_align),
                depth: a.depth.min(b.depth),
                erase_unit: None,
                program_order: false,
                volatile_cache: a.volatile_cache || b.volatile_cache,
            },
            names: [config.legs[0].clone(), config.legs[1].clone()],
            legs: [
                Leg::new(&layouts[0], region_count, blank(0)),
                Leg::new(&layouts[1], region_count, blank(1)),
            ],
            layouts,
            planted,
            seed: cx.seed ^ u64::from(name_hash) << 32,
            shift,
            region_count,
            piece_regions: u64::from(config.active_regions / 4),
            clear_after: config.clear_after,
            chunk: config.resync_chunk.0.min(max_io.0 / layout::PAGE * layout::PAGE),
            depth: config.resync_depth,
            rate: config.resync_rate.0,
            read_policy: config.read,
            last_read: 1,
            write_retries: config.write_retries,
            fresh: config.fresh,
            phase: Phase::Closed,
            proc: Proc::None,
            how: OpenHow::default(),
            opened_after_join: false,
            equal_so_far: false,
            leader: 0,
            stale: Bits::new(region_count),
            regions: Regions::new(config.active_regions + 1),
            locks: Locks::new(Pass {
                writes: planted.two_writes_in_flight,
                copies: planted.copy_without_lock,
                reads: planted.read_any_leg,
            }),
            ops: Vec::new(),
            free_ops: Vec::new(),
            ready: VecDeque::new(),
            slot_wait: VecDeque::new(),
            intent_wait: Vec::new(),
            solo_wait: Vec::new(),
            flushes: VecDeque::new(),
            clearing: flush::Clearing::default(),
            resync: copy::Resync::default(),
            repairs: VecDeque::new(),
            stir: false,
            map_moved: false,
            count: Counts::default(),
        }
    }

    #[inline]
    fn follower(&self) -> usize {
        1 - self.leader
    }

    /// Whether both legs are full members.
    #[inline]
    fn is_pair(&self) -> bool {
        self.legs[0].place == Standing::Member && self.legs[1].place == Standing::Member
    }

    /// First and last region of an extent that is not empty.
    #[inline]
    fn regions_of(&self, start: u64, end: u64) -> std::ops::RangeInclusive<u32> {
        (start >> self.shift) as u32..=((end - 1) >> self.shift) as u32
    }

    /// A generation that was never in force: the epoch grows, and the tag depends on everything that tells this takeover
    /// from one of the other leg or of another session with the same seed.
    fn fresh_gen(&self, leg: usize) -> Gen {
        let sb = &self.legs[leg].sb;
        let epoch = self.legs[0].sb.gen.epoch.max(self.legs[1].sb.gen.epoch) + 1;
        let mut rng = Rng::new(self.seed).fork(sb.gen.tag ^ sb.seq << 1 ^ u64::from(sb.leg)).fork(epoch);
        let gen = Gen { epoch, tag: rng.bits() };
        assert!(gen != sb.gen && !sb.history.contains(&gen), "solo_gen_is_fresh: {gen:?}");
        gen
    }

    /// Does what events have made possible, until nothing more is.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        while self.stir || !self.ready.is_empty() {
            while let Some(op) = self.ready.pop_front() {
                self.begin(op, cx);
            }
            if std::mem::take(&mut self.stir) {
                let mut moved = true;
                while moved {
                    moved = false;
                    for leg in 0..2 {
                        moved |= self.pump_map(leg, cx);
                        moved |= self.pump_sb(leg, cx);
                    }
                    moved |= self.run_proc(cx);
                }
                if std::mem::take(&mut self.map_moved) {
                    self.retry_intents(cx);
                }
                self.answer_flushes(ReqId::NONE, cx);
                self.pump_clear(cx);
                self.feed_slots(cx);
                self.pump_copies(cx);
            }
        }
    }
}

impl Machine for Mirror {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn keeps_records(&self) -> bool {
        true
    }

    fn open(&mut self, how: OpenHow, cx: &mut Cx<'_>) -> Step {
        self.how = how;
        self.phase = Phase::Opening;
        self.legs.iter_mut().for_each(|l| (l.failed, l.back) = (false, false));
        self.start_open();
        self.advance(cx);
        only_step(cx)
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.start_close(cx);
        self.advance(cx);
        only_step(cx)
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.phase != Phase::Running {
            return cx.fail(id, ErrorKind::Gone);
        }
        let request = &cx.requests[id];
        match request.op {
            Op::Reset => return cx.fail(id, ErrorKind::Unsupported),
            Op::Flush => self.client_flush(id, cx),
            _ if request.len == ByteLen::ZERO => return Step::Finish(id),
            _ => self.admit(id, cx),
        }
        self.advance(cx);
        only_step(cx)
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (tag, leg, index) = Tag::of(request.cookie);
        let failed = request.error.is_some();
        self.legs[leg].in_flight -= 1;
        match tag {
            Tag::Data => self.data_done(id, leg, index, cx),
            Tag::Flush => {
                self.flush_done(leg, failed, cx);
                self.answer_flushes(id, cx);
            }
            Tag::MapWrite | Tag::SbWrite => self.record_written(id, leg, tag == Tag::SbWrite, index, cx),
            Tag::MapRead | Tag::SbRead => self.record_read(id, leg, tag == Tag::SbRead, index, cx),
        }
        if self.legs[leg].in_flight == 0 && !self.legs[leg].is_in() {
            self.stir = true; // the last straggler
        }
        self.advance(cx);
        only_step(cx)
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            CLEAR => self.clear_timer(cx),
            _ => self.resync_timer(),
        }
        self.advance(cx);
        only_step(cx)
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        let leg = usize::from(child);
        match event {
            DeviceEvent::Lost => self.leave(leg, cx),
            DeviceEvent::Back => {
                // What it held in volatile memory is gone, whether or not it said so.
                self.leave(leg, cx);
                self.legs[leg].failed = false;
                self.legs[leg].back = true;
                self.stir = true;
            }
            DeviceEvent::GcPressure(_) | DeviceEvent::Standby(_) | DeviceEvent::Resized(_) => {}
        }
        self.advance(cx);
        only_step(cx)
    }

    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let legs = (0..2u8).filter(|&l| self.legs[usize::from(l)].is_in());
        let spans = legs.map(|l| peek.expected_latency(l, op, offset, len));
        let span = if op == Op::Read { spans.min() } else { spans.max() };
        span.unwrap_or(Span::ZERO)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.is_held() || (0..2u8).filter(|&l| self.legs[usize::from(l)].is_in()).all(|l| peek.is_busy(l))
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(self.leader as u8, offset, len)
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((self.leader as u8, offset))
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        let c = &self.count;
        let member = |leg: usize| u64::from(self.legs[leg].place == Standing::Member);
        for (name, value) in [
            ("leg_a_is_member", member(0)),
            ("leg_b_is_member", member(1)),
            ("leader_leg", self.leader as u64),
            ("active_regions", u64::from(self.regions.in_use())),
            ("stale_regions", self.stale.count()),
            ("dirty_regions", self.legs[self.leader].map.count_d()),
            ("intent_waits", c.intent_waits),
            ("held_writes", c.held_writes),
            ("map_page_writes", c.map_writes),
            ("superblock_writes", c.superblock_writes),
            ("regions_cleared", c.clears),
            ("leg_a_flushes", c.leg_flushes[0]),
            ("leg_b_flushes", c.leg_flushes[1]),
            ("leg_a_reads", c.reads[0]),
            ("leg_b_reads", c.reads[1]),
            ("leg_a_read_errors", c.read_errors[0]),
            ("leg_b_read_errors", c.read_errors[1]),
            ("leg_a_write_errors", c.write_errors[0]),
            ("leg_b_write_errors", c.write_errors[1]),
            ("repairs", c.repairs),
            ("resync_bytes", c.resync_bytes),
            ("resync_regions", c.resync_regions),
            ("resync_unreadable_chunks", c.resync_unreadable),
            ("solos", c.solos),
            ("rejoins", c.rejoins),
            ("rejoins_refused", c.refused),
        ] {
            out.push(Counter { name, value });
        }
    }

    fn reset_counters(&mut self) {
        self.count = Counts::default();
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |invariant, what: String| Err(Violation { invariant, what });
        if self.phase != Phase::Running || self.proc != Proc::None {
            return Ok(());
        }
        let map = &self.legs[self.leader].map;
        for region in 0..self.region_count {
            let (active, stale) = (self.regions.find(region).is_some(), self.stale.has(region));
            let marked = map.wanted(region) & D != 0;
            if stale && !marked {
                return broken("intent_before_data", format!("region {region} is stale without D"));
            }
            if marked && !active && !stale {
                return broken("quiet_means_equal_and_clean", format!("region {region} has D for no reason"));
            }
        }
        let flying: u32 = self.ops.iter().map(|op| u32::from(op.flying)).sum();
        let data: u32 = self.legs.iter().map(|l| l.reads + l.data_writes).sum();
        if flying != data {
            return broken(
                "one_in_flight_per_block_and_leg",
                format!("{flying} parts are under way, {data} requests"),
            );
        }
        Ok(())
    }
}

/// A single effect is better returned: the driver follows it without its queue.
#[inline]
fn only_step(cx: &mut Cx<'_>) -> Step {
    match cx.effects[..] {
        [Effect::Step(step)] => {
            cx.effects.clear();
            step
        }
        _ => Step::Idle,
    }
}

/// The later of a time that may be unset and `now`.
fn at_least(time: Option<Instant>, now: Instant) -> Instant {
    time.map_or(now, |t| t.later(now))
}
