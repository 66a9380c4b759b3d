//! `mirror` and `hetero-mirror`: legs with the same data, two to eight of a `mirror` and two of a `hetero-mirror`.
//!
//! **The algorithm** (docs/explanation/mirror-protocol.md sections 1 to 5). One leg leads: its content decides after a crash. Before
//! data of a region goes to any leg, the leader durably says D "the legs may differ here" (R-INTENT); writes that wait
//! share one map write and flush. A write goes to both members at once. Overlapping writes keep the order of their arrival
//! on both legs (R-ONE). D is cleared lazily, when nothing is under way in the region and both legs have flushed what they
//! hold (R-CLEAR). A leg that is lost, or fails to write or flush, is left out: the survivor drains, flushes, and writes a
//! Solo superblock with a fresh generation, while new writes and flushes wait (R-SOLO). A leg that returns gets the
//! survivor's map as D and L, becomes a member, and is resynced region by region (R-LOCK); until then it is neither read
//! there nor may it lead (R-HALF). At open both legs are flushed and the table of section 5 decides (R-OPEN).
//!
//! **`mirror`**: a write is acknowledged when both have it, and a flush covers both. L is written for a region that is
//! resynced, and a leg with L does not start alone: it would have to report lost regions.
//!
//! **`hetero-mirror`** (paper S1: S. Byun, "A Hetero-Mirroring Scheme", 2010, section 3.3; spec S1-1 to S1-25): a write may be
//! acknowledged when either leg has it. The other leg's share is then in its delay queue, which keeps the bytes and says
//! where that leg is not current: for reads, copies, flushes and takeovers. The first leg of a new set leads; roles swap
//! only when the leader leaves. Where the paper would lose or mix data this differs: it reads the SSD although it may lag, and
//! says nothing of flushes, crashes, and legs that fail while the queue is not empty.
//!
//! **Where both differ from the protocol.** A flush does not wait for a resync: a region under resync has its only promised
//! copy on the leader, which L on the follower says durably. When the leader goes while the follower is not resynced, the
//! mirror fails all requests until the leader is back, instead of reporting those regions lost. Bytes of delayed writes are
//! never dropped. A read error with no other current leg is answered as such and not put on the lost list: the leg says it
//! again. A write that fails on both legs makes its regions copied from the leader. Client writes that need a new D wait
//! during steps 1 to 5 of a rejoin, so that L covers D without a race.
//!
//! **Not done.** Rewriting the other slot when idle.
//!
//! **Modules.** [`layout`] on-disk records; [`decide`] what to believe at open; [`region_map`] D and L in memory;
//! [`regions`] the regions in use; [`crate::locks`] order of overlaps; [`leg`] flushes and records of one leg; [`write`], [`ack`], [`read`], [`flush`] what clients ask for; [`lag`] and [`delay`] the leg that is late, [`expose`]
//! how far it may be, [`hold`] one that may rest, [`hedge`] reads past it, one that hangs ([`crate::stall`]), [`stuck`] one that does not take a write and is needed, [`lost`] data without a holder; [`copy`] resync and repair, [`scrub`] comparison; [`mark_ahead`] regions of
//! sequential writers, [`grow`] longer legs, [`extend`] more of them, [`outbox`] the depth of a leg, [`admin`] what operators ask; [`op`] operations, [`policy`] options,
//! [`quantile`] an estimator, [`machine`] what the driver calls, [`work`] what is done after each event; [`open`],
//! [`member`], [`join`], [`close`] the procedures.
//!
//! **Bounds.** Work per event: the operations under way when a leg leaves, the set bits of the map at open and rejoin,
//! otherwise a few. RAM: 0.9 B a region and leg (1.8 MiB for 1 TiB in regions of 1 MiB), 64 B for each active region,
//! 250 B for each request under way or share that a leg lacks, the bytes of these shares (`max_exposed_bytes`, and those of
//! requests that are not answered), and `resync_depth` chunks.

mod ack;
mod admin;
mod close;
pub mod config;
mod copy;
pub mod decide;
pub mod delay;
mod expose;
mod extend;
mod figures;
mod flush;
mod grow;
mod hedge;
pub mod hetero;
pub mod hold;
mod join;
pub mod lag;
pub mod layout;
pub mod leg;
pub mod lost;
mod machine;
mod mark_ahead;
mod member;
mod op;
mod open;
mod outbox;
mod policy;
mod quantile;
mod ratio;
mod read;
pub mod region_map;
pub mod regions;
mod scrub;
mod stuck;
mod work;
mod write;

pub use config::{
    CommonConfig, Failback, HETERO_PLANTS, MirrorConfig, PLANTS, ReadPolicy, STORY_PLANTS, kind,
};
pub use hetero::{HeteroConfig, hetero_kind};

use crate::locks::{Locks, Pass};
use crate::member::InitialSync;
use crate::member::set::Roster;
use crate::member::work::Work;
use config::Planted;
use delay::{Pace, Waits};
use expose::Exposure;
use figures::Counts;
use lag::Lag;
use layout::{Gen, Layout, State, Superblock};
use leg::{Leg, Place as Standing};
use lost::Lost;
use member::Proc;
use nandu_base::{
    BuildContext, ByteLen, Cx, Flags, Instant, Limits, OpenOptions, ReqId, Rng, Span, TimerKey,
};
use op::Operation;
use policy::{Maintenance, Policy};
use region_map::Bits;
use regions::Regions;
use std::collections::VecDeque;
use work::Ready;

/// Most legs of a mirror.
pub const MAX_LEGS: usize = 8;
/// Legs whose writes may be delayed: those of a `hetero-mirror`, which has two.
const DELAYED: usize = 2;

/// Legs, one bit each, by their places in the stack file.
pub type Legs = u8;

/// The numbers of the legs in `legs`, in order.
#[inline]
fn each(legs: Legs) -> impl Iterator<Item = usize> + Clone {
    (0..MAX_LEGS).filter(move |leg| legs >> leg & 1 != 0)
}

/// Marks no operation.
const NONE: u32 = u32::MAX;
/// The timer that clears D.
const CLEAR: TimerKey = TimerKey(0);
/// The timer that goes on with a resync.
const RESYNC: TimerKey = TimerKey(1);
/// The timer of wait limits.
const WAIT: TimerKey = TimerKey(2);
/// The timer of a leg that rests after errors.
const REST: TimerKey = TimerKey(3);
/// The timer of exposure.
const EXPOSE: TimerKey = TimerKey(4);
/// The timer of reads that are late.
const HEDGE: TimerKey = TimerKey(5);
/// The timer of scrubs.
const SCRUB: TimerKey = TimerKey(6);
/// The timer of legs that hang.
const STALL: TimerKey = TimerKey(7);

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
    Drain,
    Grow,
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
            5 => Tag::SbRead,
            6 => Tag::Drain,
            _ => Tag::Grow,
        };
        (tag, (cookie >> 40 & 0xFF) as usize, cookie as u32)
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
    /// The old records go and the mirror is opened anew, larger: requests wait.
    Growing,
    /// Being closed.
    Closing,
}

/// The machine.
pub struct Mirror {
    limits: Limits,
    policy: Policy,
    maintenance: Maintenance,
    layouts: Vec<Layout>,
    planted: Planted,
    seed: u64,
    /// Region size as a power of two.
    shift: u8,
    region_count: u32,
    /// Regions that one piece of a write may touch.
    piece_regions: u64,
    bitmap_delay: Span,
    chunk: u64,
    depth: u32,
    rate: u64,
    read_policy: ReadPolicy,
    /// The leg that was read last.
    last_read: usize,
    write_retries: u8,
    initial_sync: InitialSync,

    phase: Phase,
    proc: Proc,
    how: OpenOptions,
    /// A start tells the driver only once the other legs have joined.
    opened_after_join: bool,
    /// Blank legs that are equal become a set.
    equal_so_far: bool,
    roster: Roster,
    legs: Vec<Leg>,
    leader: usize,
    /// The numbers of the legs in force, by the records that were written last.
    in_force: u64,
    /// What a leg may say that is out and returns by marks, over an opening of the others.
    parted: Gen,
    /// The leg that joins.
    joining: join::Joining,
    /// Regions where each leg lacks data that the leader has: a follower under resync, or a leg that is out.
    stale: Vec<Bits>,
    regions: Regions,
    locks: Locks,
    ops: Vec<Operation>,
    free_ops: Vec<u32>,
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
    /// Copies that wait for delayed writes of their extent.
    copy_wait: Vec<u32>,
    /// Number of the newest write.
    version: u64,
    /// What each leg lacks, and how it fares as a writer.
    lag: Vec<Lag>,
    paces: Vec<Pace>,
    waits: Waits,
    hedges: hedge::Hedges,
    /// Legs that do not know trims.
    no_trim: [bool; MAX_LEGS],
    /// Room that is used again: changes of pieces, and operations without any.
    changes: lag::Changes,
    complete: Vec<u32>,
    exposure: Exposure,
    /// The leg that may rest.
    hold: hold::Hold,
    /// Writes that wait for room within the exposure bound, in order.
    gated: VecDeque<u32>,
    scrub: scrub::Scrub,
    ahead: mark_ahead::MarkAhead,
    outbox: Vec<outbox::Outbox>,
    /// A planned swap of the roles, and the leg that is to lead.
    swap: Option<admin::Swap>,
    swap_to: Option<usize>,
    growing: grow::Growing,
    lost: Lost,
    heals: Vec<lost::Heal>,
    /// Requests that wait for the one that a serial manager is busy with.
    op_queue: VecDeque<ReqId>,
    serial: Option<u32>,
    /// What events have made possible.
    work: Work<Ready>,
    count: Counts,
}

impl Mirror {
    fn new(
        config: &MirrorConfig,
        policy: Policy,
        cx: &BuildContext<'_>,
        layouts: Vec<Layout>,
        planted: Planted,
    ) -> Mirror {
        let shift = config.common.region_size.0.trailing_zeros() as u8;
        let count = layouts.len();
        let below = &cx.children[..count];
        let most = |of: fn(&Limits) -> u32| below.iter().map(of).max().unwrap_or(0);
        let capacity = least(&layouts);
        let max_io = ByteLen(below.iter().map(|l| l.max_io.0).min().unwrap_or(0));
        let region_count = capacity.0.div_ceil(1 << shift) as u32;
        let name_hash = crc32c::crc32c(cx.name.as_bytes());
        let blank = |leg: usize| Superblock {
            leg: leg as u8,
            strict: !policy.fast_flush,
            served: capacity.0,
            members: count as u8,
            ..layouts[leg].blank_record(shift)
        };
        Mirror {
            limits: Limits {
                capacity,
                align: most(|l| l.align),
                preferred: most(|l| l.preferred),
                max_io,
                dma_align: most(|l| l.dma_align),
                depth: below.iter().map(|l| l.depth).min().unwrap_or(0),
                erase_unit: None,
                program_order: false,
                // What one leg alone has acknowledged may be lost: the leader decides after a cut.
                volatile_cache: below.iter().any(|l| l.volatile_cache) || policy.ack != policy::Ack::Both,
                areas: Vec::new(),
            },
            roster: Roster::new(&config.legs, config.request_timeout, STALL),
            legs: (0..count).map(|leg| Leg::new(&layouts[leg], region_count, blank(leg))).collect(),
            layouts,
            planted,
            seed: cx.seed ^ u64::from(name_hash) << 32,
            shift,
            region_count,
            piece_regions: u64::from(config.common.max_dirty_regions / 4),
            bitmap_delay: config.common.bitmap_delay,
            chunk: config.common.resync_chunk.0.min(max_io.0 / layout::PAGE * layout::PAGE),
            depth: config.common.resync_depth,
            rate: config.common.resync_rate.0,
            read_policy: config.read_policy,
            last_read: count - 1,
            write_retries: config.common.write_retries,
            initial_sync: config.common.initial_sync,
            phase: Phase::Closed,
            proc: Proc::None,
            how: OpenOptions::default(),
            opened_after_join: false,
            equal_so_far: false,
            leader: 0,
            in_force: 0,
            parted: Gen::NONE,
            joining: join::Joining::default(),
            stale: (0..count).map(|_| Bits::new(region_count)).collect(),
            regions: Regions::new(config.common.max_dirty_regions + 1, count),
            locks: Locks::new(Pass {
                writes: planted.two_writes_in_flight,
                copies: planted.copy_without_lock,
                reads: planted.read_any_leg,
            }),
            ops: Vec::new(),
            free_ops: Vec::new(),
            slot_wait: VecDeque::new(),
            intent_wait: Vec::new(),
            solo_wait: Vec::new(),
            flushes: VecDeque::new(),
            clearing: flush::Clearing::default(),
            resync: copy::Resync::default(),
            repairs: VecDeque::new(),
            copy_wait: Vec::new(),
            version: 0,
            lag: (0..count).map(|_| Lag::default()).collect(),
            paces: vec![Pace::new(); count],
            waits: Waits::new(policy.quantile),
            hedges: hedge::Hedges::default(),
            no_trim: [false; MAX_LEGS],
            changes: Vec::new(),
            complete: Vec::new(),
            exposure: Exposure::default(),
            hold: hold::Hold::default(),
            gated: VecDeque::new(),
            scrub: scrub::Scrub::default(),
            ahead: mark_ahead::MarkAhead::default(),
            outbox: (0..count).map(|_| outbox::Outbox::default()).collect(),
            swap: None,
            swap_to: None,
            growing: grow::Growing::default(),
            maintenance: config.maintenance(),
            lost: Lost::default(),
            heals: Vec::new(),
            op_queue: VecDeque::new(),
            serial: None,
            policy,
            work: Work::none(),
            count: Counts::default(),
        }
    }

    /// The first leg that does not lead: of two, the other one.
    #[inline]
    fn follower(&self) -> usize {
        usize::from(self.leader == 0)
    }

    /// All legs but this one.
    #[inline]
    fn others(&self, leg: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.legs.len()).filter(move |&other| other != leg)
    }

    /// The legs that are full members, one bit each.
    #[inline]
    fn members(&self) -> Legs {
        self.legs
            .iter()
            .enumerate()
            .fold(0, |legs, (leg, l)| legs | Legs::from(l.place == Standing::Member) << leg)
    }

    /// Whether all legs are full members.
    #[inline]
    fn is_whole(&self) -> bool {
        self.legs.iter().all(|l| l.place == Standing::Member)
    }

    /// Whether some leg lacks data of the region.
    #[inline]
    fn is_stale(&self, region: u32) -> bool {
        self.stale.iter().any(|stale| stale.count() > 0 && stale.has(region))
    }

    /// Whether some leg lacks data, out or not.
    #[inline]
    fn lacks_some(&self) -> bool {
        self.stale.iter().any(|stale| stale.count() > 0)
    }

    /// The members that lack data.
    #[inline]
    fn lacking(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.legs.len())
            .filter(|&leg| self.stale[leg].count() > 0 && self.legs[leg].place == Standing::Member)
    }

    /// The first region from `from` on where some leg lacks data.
    fn next_stale(&self, from: u32) -> Option<u32> {
        self.stale.iter().filter_map(|stale| stale.next(from)).min()
    }

    /// First and last region of an extent that is not empty.
    #[inline]
    fn regions_of(&self, start: u64, end: u64) -> std::ops::RangeInclusive<u32> {
        (start >> self.shift) as u32..=((end - 1) >> self.shift) as u32
    }

    /// A generation that was never in force: the epoch grows, and the tag depends on everything that tells this
    /// change of the set from one of the other leg, of another session with the same seed, or of the same session
    /// told again from an older copy: the time, what the leg said before, and what it is about to say.
    fn fresh_gen(&self, leg: usize, state: State, now: Instant) -> Gen {
        let sb = &self.legs[leg].sb;
        let epoch = self.legs.iter().map(|l| l.sb.generation.epoch).max().unwrap_or(0) + 1;
        let mut rng = Rng::new(self.seed)
            .fork(sb.generation.tag ^ sb.seq << 1 ^ u64::from(sb.leg))
            .fork(epoch)
            .fork(now.0 << 2 | state as u64);
        let generation = Gen { epoch, tag: rng.bits() };
        assert!(
            generation != sb.generation && !sb.history.contains(&generation),
            "fresh_gen_on_both_before_serve: {generation:?} was in force already"
        );
        generation
    }

    /// The serial manager of the paper (S1-8): one request at a time, a write until its wait limit is over.
    fn next_serial(&mut self, cx: &mut Cx<'_>) {
        if self.serial.is_none()
            && let Some(id) = self.op_queue.pop_front()
        {
            self.serial = Some(self.admit(id, cx));
        }
    }

    /// The manager is done with operation `i`.
    fn release_serial(&mut self, i: u32) {
        if self.serial == Some(i) {
            self.serial = None;
            self.work.add(Ready::Serial);
        }
    }

    /// FUA writes of mode `leader` that may have waited for L.
    fn retry_fua(&mut self, cx: &mut Cx<'_>) {
        if !self.policy.fast_flush {
            return;
        }
        for i in 0..self.ops.len() as u32 {
            let op = &self.ops[i as usize];
            if op.kind == op::Kind::Write && !op.over && !op.acked && !op.gated && op.flags.has(Flags::FUA) {
                self.settle(i, ReqId::NONE, cx);
            }
        }
    }
}

/// What the smallest of legs has room for.
fn least(layouts: &[Layout]) -> ByteLen {
    layouts.iter().map(|layout| layout.data).min().unwrap_or(ByteLen::ZERO)
}

/// The later of a time that may be unset and `now`.
fn at_least(time: Option<Instant>, now: Instant) -> Instant {
    time.map_or(now, |t| t.later(now))
}
