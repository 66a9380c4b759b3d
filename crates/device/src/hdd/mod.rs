//! A hard disk: arm, spindle, track buffer, write cache, queue and power states.
//!
//! With `fcfs` a request gets its place on the timeline of the arm when it comes, so its end is known at once and it costs
//! one event. With `sstf` and `sptf` requests wait, and the drive wakes once for each that it serves.
//!
//! *Reads* end when the link has carried their last block; the link carries blocks while others still pass under the
//! head. After a read the arm reads on into a segment of the buffer until it is wanted elsewhere; how far it came is
//! computed when that happens. A read that begins in a segment is a hit and needs no arm, or waits for what is being
//! read.
//!
//! *Writes* with the cache on end when the cache has their data. They go to the disk while the arm is not wanted, in the
//! order of an elevator, at the latest when a new write needs the room, a read wants what has not gone, or a flush
//! comes. As nobody sees when they go, it is computed when the next request comes. A power cut loses
//! what had not gone (also what would have gone since the last request: the drive may lose that too). Without the cache,
//! and with FUA, they end when the last sector has passed.
//!
//! *Trims* and write-zeroes write zeros, as WRITE SAME does: the drive has no map in which to drop a block. Their time over
//! many tracks is that of a sweep without a lost revolution.
//!
//! What does not happen here: bad sectors found in use, thermal recalibration, vibration, shingled tracks.
//!
//! Files: `geometry`, `seek`, `mechanics` the moving parts; `buffer` and `write_cache` the memory; `queue` who is next;
//! `power` states and energy; `drive` what a drive is made of, `config` and `profile` its options; `serve` reads
//! and the arm, `write` writes and flushes; `platter` contents; `disksim` parameter files of DiskSim.

pub mod buffer;
mod config;
pub mod disksim;
pub mod drive;
pub mod geometry;
pub mod mechanics;
mod platter;
pub mod power;
mod profile;
pub mod queue;
pub mod seek;
mod serve;
mod write;
pub mod write_cache;

pub use config::{HddConfig, kind};
pub use drive::Drive;
pub use platter::Platter;
pub use profile::HddProfile;

use buffer::Buffer;
use mechanics::{Arm, Stream};
use nandu_base::{
    Advise, BuildContext, ByteLen, ByteOffset, Cx, DeviceEvent, ErrorKind, Flags, Instant, Limits, Machine,
    MediumSpec, Needs, Op, OpenOptions, Peek, Place, Report, ReqId, Resource, SECTOR, Span, Step, TimerKey,
    Violation,
};
use power::Power;
use queue::{Queue, View, Waiting};
use write_cache::WriteCache;

const ARM_IS_FREE: TimerKey = TimerKey(0);
const REST: TimerKey = TimerKey(1);
const CLOSE: TimerKey = TimerKey(2);

/// Reading on after a read.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    segment: usize,
    stream: Stream,
    limit: u64,
}

/// Faults that are planted in this drive; all false outside `verify --inject-bug`.
#[derive(Clone, Copy, Default, Debug)]
struct Planted {
    flush_lies: bool,
    fua_is_cached: bool,
    uncharged_destage: bool,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    reads: u64,
    read_hits: u64,
    read_hits_partial: u64,
    writes: u64,
    writes_cached: u64,
    destages: u64,
    blocks_read_ahead: u64,
    flushes: u64,
}

/// The drive.
struct Hdd {
    drive: Drive,
    limits: Limits,
    /// Where the heads are once nothing is under way, without what is read ahead.
    arm: Arm,
    /// When the arm is free of what is settled so far.
    free_at: Instant,
    /// When the link carries data next, or last did.
    link: (Instant, Instant),
    /// When every write on the timeline is on the disk.
    written_at: Instant,
    ahead: Option<Ahead>,
    buffer: Buffer,
    cache: WriteCache,
    /// Where the elevator of the write cache is.
    sweep: u64,
    queue: Queue,
    /// The timer for the next choice is set.
    arm_timer: bool,
    power: Power,
    rest_timer: bool,
    last_was_read: bool,
    /// One past the last block of the last write.
    last_write_end: u64,
    busy: Span,
    count: Counts,
    planted: Planted,
}

impl Hdd {
    fn new(drive: Drive, queue: Queue, power: Power, limits: Limits, cx: &BuildContext<'_>) -> Hdd {
        let mut buffer = Buffer::new(&drive.buffer);
        buffer.stays_stale = cx.planted("hdd.stale-track-buffer");
        Hdd {
            cache: WriteCache::new(drive.write_cache.as_ref()),
            buffer,
            limits,
            arm: Arm::default(),
            free_at: Instant::ZERO,
            link: (Instant::ZERO, Instant::ZERO),
            written_at: Instant::ZERO,
            ahead: None,
            sweep: 0,
            queue,
            arm_timer: false,
            power,
            rest_timer: false,
            last_was_read: true,
            last_write_end: u64::MAX,
            busy: Span::ZERO,
            count: Counts::default(),
            planted: Planted {
                flush_lies: cx.planted("hdd.flush-lies"),
                fua_is_cached: cx.planted("hdd.fua-is-cached"),
                uncharged_destage: cx.planted("hdd.uncharged-destage"),
            },
            drive,
        }
    }

    /// Brings everything that happens without a request up to now.
    #[inline]
    fn settle(&mut self, cx: &mut Cx<'_>) {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        let reads_on = self.advance_ahead(cx);
        if !self.cache.is_empty() && !reads_on {
            self.destage_until_now(cx);
        }
        if !reads_on {
            self.power.command(cx.now);
        }
    }

    /// Whether the arm is wanted for this request.
    fn needs_arm(&self, id: ReqId, cx: &Cx<'_>) -> bool {
        let request = &cx.requests[id];
        let (first, blocks) = (request.offset.sector(), request.len.sectors());
        match request.op {
            Op::Flush | Op::Reset => false,
            Op::Read => {
                let whole = |s: usize| self.buffer.segment(s).end >= first + blocks;
                !self.buffer.find(first, None).is_some_and(whole)
                    || self.queue.holds(first, first + blocks, false)
            }
            Op::Write => !self.is_cached(request.flags, blocks),
            Op::Trim | Op::WriteZeroes => true,
        }
    }

    /// Whether a write is acknowledged from the cache.
    #[inline]
    fn is_cached(&self, flags: Flags, blocks: u64) -> bool {
        let Some(spec) = &self.drive.write_cache else { return false };
        blocks <= spec.blocks && (!flags.has(Flags::FUA) || self.planted.fua_is_cached)
    }

    /// Lets a request wait for the arm, unless it is free.
    fn enqueue(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.queue.is_empty() && self.free_at <= cx.now {
            return self.serve(id, None, cx);
        }
        let request = &cx.requests[id];
        let first = request.offset.sector();
        self.queue.push(Waiting {
            id,
            first,
            end: first + request.len.sectors(),
            spot: self.drive.mechanics.geometry.locate(first),
            write: request.op.changes_data(),
            came: cx.now,
            behind: 0,
        });
        self.arm_for_choice(cx);
        Step::Idle
    }

    fn arm_for_choice(&mut self, cx: &mut Cx<'_>) {
        if !self.arm_timer && !self.queue.is_empty() {
            self.arm_timer = true;
            cx.wake_at(ARM_IS_FREE, self.free_at);
        }
    }

    /// The arm may be free: serves the request that is next.
    fn arm_is_free(&mut self, cx: &mut Cx<'_>) -> Step {
        self.arm_timer = false;
        let mut step = Step::Idle;
        if self.free_at <= cx.now {
            let arm = self.ahead.map_or(self.arm, |ahead| ahead.stream.arm);
            let view = View { mechanics: &self.drive.mechanics, arm, now: cx.now };
            if let Some(next) = self.queue.next(&view) {
                step = self.serve(next.id, Some(next.spot), cx);
            }
        }
        self.arm_for_choice(cx);
        step
    }

    /// A pause may have reached the next level of rest.
    fn rest(&mut self, cx: &mut Cx<'_>) {
        self.rest_timer = false;
        self.settle_rest(cx);
        self.arm_for_rest(cx);
    }

    fn settle_rest(&mut self, cx: &mut Cx<'_>) {
        let reads_on = self.advance_ahead(cx);
        self.destage_until_now(cx);
        let now = cx.now + Span(1);
        if !reads_on && self.power.stands(now) && !self.power.announced {
            self.power.announced = true;
            cx.event(DeviceEvent::Standby(true));
        }
    }

    #[inline]
    fn arm_for_rest(&mut self, cx: &mut Cx<'_>) {
        if self.power.rests()
            && !self.rest_timer
            && let Some(at) = self.power.next_level(cx.now + Span(1))
        {
            self.rest_timer = true;
            cx.wake_at(REST, at);
        }
    }
}

impl Machine for Hdd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::medium(MediumSpec::Platter { sectors: self.limits.capacity.sectors() })
    }

    fn open(&mut self, _how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        (self.free_at, self.link, self.written_at) = (cx.now, (cx.now, cx.now), cx.now);
        self.power.begin(cx.now);
        cx.opened(Ok(()));
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.settle(cx);
        self.destage_all(cx);
        cx.cancel_wake(REST);
        cx.wake_at(CLOSE, self.written_at);
        Step::Idle
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.settle(cx);
        let step = if self.queue.chooses() && self.needs_arm(id, cx) {
            self.enqueue(id, cx)
        } else {
            self.serve(id, None, cx)
        };
        self.arm_for_rest(cx);
        step
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        match key {
            ARM_IS_FREE => {
                self.settle(cx);
                let step = self.arm_is_free(cx);
                self.arm_for_rest(cx);
                return step;
            }
            REST => self.rest(cx),
            _ => cx.closed(),
        }
        Step::Idle
    }

    fn report(&mut self, report: &mut Report) {
        let c = &mut self.count;
        report.count("host_reads", &mut c.reads);
        report.count("read_hits", &mut c.read_hits);
        report.count("read_hits_partial", &mut c.read_hits_partial);
        report.put("read_ahead_bytes", c.blocks_read_ahead * SECTOR);
        report.restart(&mut c.blocks_read_ahead);
        report.count("host_writes", &mut c.writes);
        report.count("writes_cached", &mut c.writes_cached);
        report.count("destages", &mut c.destages);
        report.count("flushes", &mut c.flushes);
        report.put("cached_bytes", self.cache.blocks() * SECTOR);
        self.power.report(report);
        report.busy(Resource::Head, &mut self.busy, 1);
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |invariant, what: &str| Err(Violation { invariant, what: what.into() });
        if !self.cache.is_sound() {
            return broken("I-1", "the extents of the write cache overlap or are not counted");
        }
        if !self.buffer.is_sound() {
            return broken("I-1", "a segment of the track buffer is not as long as its contents");
        }
        if !self.power.is_sound() {
            return broken("I-13", "the times of the power states do not add up to the time that has passed");
        }
        Ok(())
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }
}

impl Advise for Hdd {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let (first, blocks) = (offset.sector(), len.sectors());
        let c = &self.drive.controller;
        let whole = |s: usize| self.buffer.segment(s).end >= first + blocks;
        match op {
            Op::Read if self.buffer.find(first, None).is_some_and(whole) => {
                return c.read_hit.after(self.last_was_read) + c.to_host(blocks);
            }
            Op::Write if self.is_cached(Flags::NONE, blocks) => {
                let has_room = |spec| self.cache.has_room(spec, blocks);
                if self.drive.write_cache.as_ref().is_some_and(has_room) {
                    return c.write_cached.after(self.last_was_read) + c.from_host(blocks);
                }
            }
            Op::Read | Op::Write => {}
            Op::Flush if self.cache.is_empty() => return Span(self.written_at.0.saturating_sub(peek.now.0)),
            _ => return Span::ZERO,
        }
        let m = &self.drive.mechanics;
        let start = self.free_at.later(peek.now) + self.power.time_to_wake(peek.now);
        let arm = self.ahead.map_or(self.arm, |ahead| ahead.stream.arm);
        let spot = m.geometry.locate(first);
        let way = m.position(arm, &spot, start, op == Op::Write);
        start.since(peek.now) + way.seek + way.rotation + m.pass(blocks, spot.sectors_per_track)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.free_at > peek.now || !self.queue.is_empty()
    }

    fn locate(&self, offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        let geometry = &self.drive.mechanics.geometry;
        let spot = geometry.locate(offset.sector());
        let track = u64::from(spot.cylinder) * u64::from(geometry.heads()) + u64::from(spot.head);
        Some(Place { lane: spot.head, unit: track })
    }
}

/// The limits of a drive of this size.
fn limits(blocks: u64, sector: u32, depth: u32, volatile_cache: bool) -> Limits {
    Limits {
        align: sector,
        preferred: 4096,
        depth,
        volatile_cache,
        ..Limits::plain(ByteLen(blocks * SECTOR))
    }
}

/// The step that refuses what a disk cannot do.
fn refuse(id: ReqId, cx: &mut Cx<'_>) -> Step {
    cx.fail(id, ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests;
