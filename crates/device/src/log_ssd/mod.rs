//! An SSD with a log-block map: block map, BAST or FAST instead of a page map.
//!
//! Every plane is translated for itself (see [`nandu_ftl::log_block`]); logical pages are dealt out to the planes in pieces
//! of `interleave` pages. What the host writes waits in a line for each plane. While the plane merges, its line stands still,
//! and so do the requests in it; reads, and the lines of other planes, go on. That is where the freezes of such drives come
//! from: nothing here is drawn or scripted.
//!
//! *Merges* run a few operations at a time, each on the die's timeline when it is issued, so that the work of an event is
//! bounded and a read waits for a few copies at most, not for the merge.
//!
//! *Write buffer* (`write_buffer`): a write is acknowledged when it has crossed the link into RAM. Each plane takes pages
//! from its line as fast as it programs them; when the buffer is full, writes wait for room. The buffer is volatile: a flush
//! or FUA waits until what was acknowledged before is programmed. Without a buffer a write ends when it is programmed. While
//! writes wait for room because planes merge, the drive tells those above (`GcPressure`).
//!
//! *Power cuts*: see [`nandu_ftl::log_block::recover`]. A trim ends when its marks are programmed, so it is durable.
//!
//! Files: `config` what the options mean, `pages` which page lies where, `line` what waits for a plane, `host` requests,
//! `buffer` the write buffer, `drain` programs and merges, `recover` the start.
//!
//! Cost: 4 bytes per logical and physical page, 8 more per logical page with a buffer.

mod buffer;
mod config;
mod drain;
mod host;
mod line;
mod pages;
mod recover;

pub(crate) use config::{LogMap, PLANTS, Parts, assemble};

use crate::nand::{Lanes, PageTime};
use buffer::Buffer;
use line::Line;
use nandu_base::{
    ByteLen, ByteOffset, Counter, Cx, DeviceEvent, EnergyPart, ErrorKind, FlashMap, Instant, LaneTape,
    Limits, Machine, MediumSpec, Op, OpenHow, Peek, Phase, Place, ReqId, Resource, Span, Step, TimerKey,
    Violation, WearRegion,
};
use nandu_ftl::Layout;
use nandu_ftl::log_block::LogBlocks;
use pages::Pages;
use std::collections::VecDeque;

/// Faults that are planted in this drive; all false outside `verify --plant`.
#[derive(Clone, Copy, Default)]
struct Planted {
    erase_too_early: bool,
    lost_mark: bool,
    early_last: bool,
    flush_ignores_buffer: bool,
    uncharged_merge: bool,
    oldest_wins: bool,
    wear_falls: bool,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default)]
struct Counts {
    host_pages_written: u64,
    host_pages_read: u64,
    buffer_pages_read: u64,
    buffer_pages_replaced: u64,
    pages_premerged: u64,
    /// Writes that waited for a merge or for room in the buffer.
    writes_held: u64,
    longest_hold: Span,
    erases: u64,
}

/// A request whose pages are not all programmed.
#[derive(Clone, Copy)]
struct Pending {
    id: ReqId,
    came: Instant,
    /// Pages that wait, and one while the request is being taken apart.
    left: u32,
    /// The page that is complete last.
    slowest: Done,
    is_trim: bool,
}

/// An operation of a request that was issued.
#[derive(Clone, Copy)]
struct Done {
    /// When it was issued.
    issued: Instant,
    /// The read of the page of which a part is written.
    premerge: Option<PageTime>,
    time: PageTime,
    /// What the request waits for until the end of `time`; `None` for a program, which explains itself.
    waits_for: Option<Phase>,
}

impl Done {
    fn at(now: Instant) -> Done {
        Done::waiting(now, now, Phase::Hold)
    }

    /// What was issued before and is complete at `end`.
    fn waiting(now: Instant, end: Instant, phase: Phase) -> Done {
        Done { issued: now, premerge: None, time: PageTime::done(end.later(now)), waits_for: Some(phase) }
    }
}

/// Somebody who waits until everything up to a ticket is programmed.
#[derive(Clone, Copy)]
struct Barrier {
    /// [`ReqId::NONE`] for the end of the session.
    id: ReqId,
    ticket: u64,
    came: Instant,
    merged_then: Span,
    /// When the data of a write with FUA has crossed the link.
    not_before: Instant,
}

/// How long planes have been merging, to tell waits for merges from others.
#[derive(Clone, Copy, Default)]
struct MergeClock {
    merging: u32,
    since: Instant,
    total: Span,
}

impl MergeClock {
    fn begin(&mut self, now: Instant) {
        if self.merging == 0 {
            self.since = now;
        }
        self.merging += 1;
    }

    fn end(&mut self, now: Instant) {
        self.merging -= 1;
        if self.merging == 0 {
            self.total += now.since(self.since);
        }
    }

    /// Time until now in which at least one plane was merging.
    fn until(&self, now: Instant) -> Span {
        if self.merging == 0 { self.total } else { self.total + now.since(self.since) }
    }
}

/// Where the drive is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Opening,
    Running,
    /// Asked to end; writes what the buffer holds.
    Draining,
    /// Waits for the last operation.
    Ending,
}

/// The drive.
pub(crate) struct LogSsd<F> {
    limits: Limits,
    pages: Pages,
    layout: Layout,
    plane_bits: u32,
    lines: Vec<Line<F>>,
    lanes: Lanes,
    pendings: Vec<Pending>,
    pendings_free: Vec<u32>,
    buffer: Option<Buffer>,
    barriers: VecDeque<Barrier>,
    merges: MergeClock,
    /// Number of the last program of a new version or mark.
    seq: u64,
    /// Number of the last request, for multi-plane groups.
    serial: u32,
    /// Number of the last page that came into a line.
    ticket: u64,
    /// When everything of the host's that was issued is programmed.
    durable_at: Instant,
    /// When everything issued is complete.
    last_change: Instant,
    life: Life,
    recovery: recover::Figures,
    count: Counts,
    planted: Planted,
    /// Whether the drive was filled before the session.
    is_filled: bool,
    bits_per_cell: u32,
    /// Program and erase cycles a block is made for. Nothing fails here when they are used up.
    endurance: u32,
}

impl<F: LogBlocks> LogSsd<F> {
    /// The die of a plane.
    fn die(&self, plane: u32) -> u32 {
        plane >> self.plane_bits
    }

    /// The medium's number of a page of a plane.
    fn unit(&self, plane: u32, spot: u32) -> u64 {
        u64::from(self.layout.first_page(self.layout.first_block(plane)).0 + spot)
    }

    fn settle(&mut self, cx: &mut Cx<'_>) {
        self.lanes.tick(cx.now);
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
    }

    /// Where a logical page lies.
    fn find(&self, lpn: u32) -> (u32, Option<u32>) {
        let (plane, local) = self.pages.home(lpn);
        (plane, self.lines[plane as usize].map.region().at(local))
    }

    /// After each event: lets waiting writes into the buffer, and ends what has waited for it.
    fn progress(&mut self, cx: &mut Cx<'_>) {
        if self.buffer.is_some() {
            self.admit_waiting(cx);
            self.pass_barriers(cx);
            let merges = self.merges.merging > 0;
            if let Some(on) = self.buffer.as_mut().and_then(|buffer| buffer.pressure(merges)) {
                cx.event(DeviceEvent::GcPressure(on));
            }
        }
    }

    fn end_session(&mut self, cx: &mut Cx<'_>) {
        self.life = Life::Ending;
        cx.wake_at(TimerKey(0), self.last_change);
    }
}

impl<F: LogBlocks> Machine for LogSsd<F> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn medium(&self) -> MediumSpec {
        MediumSpec::Flash {
            units: u64::from(self.layout.ppn_end()),
            unit_sectors: self.pages.sectors,
            units_per_block: self.layout.block_stride(),
        }
    }

    fn open(&mut self, how: OpenHow, cx: &mut Cx<'_>) -> Step {
        if cx.medium.as_deref().is_none_or(|medium| how.create && medium.is_blank()) {
            self.store_fill(cx);
            self.life = Life::Running;
            cx.opened(Ok(()));
        } else {
            let end = self.recover(cx);
            self.life = Life::Opening;
            cx.wake_at(TimerKey(0), end);
        }
        Step::Idle
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.settle(cx);
        match (key.0, self.life) {
            (0, Life::Opening) => {
                self.life = Life::Running;
                cx.opened(Ok(()));
            }
            (0, Life::Ending) if self.last_change > cx.now => cx.wake_at(key, self.last_change),
            (0, Life::Ending) => cx.closed(),
            (0, _) => {}
            (plane, _) => {
                self.pump(plane - 1, cx);
                self.progress(cx);
            }
        }
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.life = Life::Draining;
        if self.buffer.is_none() {
            self.end_session(cx);
        } else {
            self.wait_for_programs(ReqId::NONE, cx.now, cx);
            self.progress(cx);
        }
        Step::Idle
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.settle(cx);
        let step = match cx.requests[id].op {
            Op::Read => self.read(id, cx),
            Op::Write if self.buffer.is_some() => self.write_buffered(id, cx),
            Op::Write => self.write_through(id, cx),
            Op::Flush => self.flush(id, cx),
            Op::Trim | Op::WriteZeroes => self.trim(id, cx),
            Op::Reset => return cx.fail(id, ErrorKind::Unsupported),
        };
        self.progress(cx);
        step
    }

    fn expected_latency(&self, op: Op, offset: ByteOffset, _len: ByteLen, peek: &Peek<'_>) -> Span {
        let lpn = self.pages.of(offset);
        let (plane, spot) = self.find(lpn);
        let line = &self.lines[plane as usize];
        let timing = self.lanes.timing();
        let wait = Span(self.lanes.free_at(self.die(plane)).0.saturating_sub(peek.now.0));
        match op {
            Op::Read if spot.is_some() => wait + timing.read + timing.transfer,
            Op::Write if self.buffer.as_ref().is_some_and(Buffer::has_room) => Span::ZERO,
            Op::Write => {
                let page = timing.transfer + timing.program;
                // Of a merge one knows that it copies about a block.
                let copies = if line.map.is_merging() { u64::from(self.layout.pages) } else { 0 };
                wait + page * (line.queue.len() as u64 + 1) + (timing.read + page) * copies
            }
            _ => Span::ZERO,
        }
    }

    fn is_busy(&self, _peek: &Peek<'_>) -> bool {
        match &self.buffer {
            Some(buffer) => !buffer.has_room(),
            None => self.merges.merging > 0,
        }
    }

    fn locate(&self, offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        let (plane, spot) = self.find(self.pages.of(offset));
        Some(Place { lane: self.die(plane), unit: self.unit(plane, spot?) })
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        self.put_counters(out);
    }

    fn busy(&self, out: &mut Vec<(Resource, Span)>) {
        out.push((Resource::Die, self.lanes.dies_busy()));
        out.push((Resource::Channel, self.lanes.channels_busy()));
        if let Some(buffer) = &self.buffer {
            out.push((Resource::Device, buffer.link.busy));
        }
    }

    fn energy(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        self.lanes.energy(from, to, out);
        self.ram_energy(Span(to.0.saturating_sub(from.0)), out);
    }

    fn wear(&self, out: &mut Vec<WearRegion>) {
        out.push(self.wear_region());
    }

    fn watch_lanes(&mut self, from: Instant, to: Instant) {
        self.lanes.watch(from, to);
    }

    fn lanes(&self) -> Option<&LaneTape> {
        self.lanes.tape()
    }

    fn flash_map(&self) -> Option<FlashMap> {
        let regions = || self.lines.iter().map(|line| line.map.region());
        Some(FlashMap {
            blocks_per_plane: self.layout.blocks,
            pages_per_block: self.layout.pages,
            valid: regions().flat_map(|r| (0..self.layout.blocks).map(|block| r.valid(block))).collect(),
            erases: regions().flat_map(|r| r.erases().iter().copied()).collect(),
        })
    }

    fn reset_counters(&mut self) {
        self.count = Counts::default();
        self.lanes.reset_busy();
        for line in &mut self.lines {
            line.map.region_mut().count = nandu_ftl::log_block::Counts::default();
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.link.busy = Span::ZERO;
        }
    }

    fn check(&self) -> Result<(), Violation> {
        self.lanes.check(Some((self.programmed(), self.count.erases)))?;
        for (plane, line) in self.lines.iter().enumerate() {
            let region = line.map.region();
            let broken = |what| Violation { invariant: "I-5", what: format!("plane {plane}: {what}") };
            region.check().map_err(broken)?;
            let (now, ever) = region.wear();
            if now != ever {
                let what = format!("plane {plane}: the blocks count {now} erases, {ever} were done");
                return Err(Violation { invariant: "I-16", what });
            }
        }
        match &self.buffer {
            Some(buffer) => buffer.check(&self.lines),
            None => Ok(()),
        }
    }
}
