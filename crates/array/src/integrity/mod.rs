//! `integrity`: a checksum for each block of the device below, so that damaged data is *unreadable* and not wrong.
//!
//! A drive can return other data than it was given: a flipped bit, a write that went elsewhere or nowhere. Who stands above
//! cannot see it, and a mirror cannot tell which of two copies is right. This machine keeps a CRC-32C for each block beside
//! the data, compares every block that is read, and answers a difference with [`ErrorKind::Unreadable`]: mirror, parity and
//! their scrubs then mend the block from the other legs. The data stay where they are, from offset 0 on; the records lie at the end
//! ([`layout`]).
//!
//! **Order of a write.** Data and checksum cannot change in one step, and a cut between the two must not make a block unreadable. The
//! checksums of 1024 blocks are a *region*. Before the first write of a region a mark is durable that says that its checksums may be out
//! of date; the new ones are kept in memory. When the region has not been written for `bitmap_delay`, or too many are marked, they are
//! written, the device is flushed, and only then is the mark taken away ([`round`]). After a cut the data of marked regions are
//! read once and their checksums made anew ([`open`]): a block that was in flight holds old or new data and is readable. The dm-integrity
//! target of Linux knows this as its bitmap mode; the marks are those of a mirror's region map (R-INTENT).
//!
//! **What it does not see.** Damage that falls into a marked region while nobody serves the device: its checksums are made from what is there
//! (`max_dirty_regions` bounds how much that is, and how many blocks differed from their old checksum is counted and said). A block that was never written here.
//! A write that the device below acknowledged and dropped together with that of its checksum, that is, a whole device that was put back: members
//! of a set know that by their generation. A checksum is no signature: who writes both can forge both.
//!
//! **Overlaps.** A read waits for earlier writes of its blocks, a write for earlier reads and writes ([`crate::locks`]), so that what is read
//! has one checksum. A failed write leaves its blocks without one: old or new data are right there.
//!
//! Cost: one more child request for a read or write whose region is not in memory; a small forced write for each region that becomes
//! marked; a page of checksums for it later, and a flush for a round of them. RAM: [`pages`], 1 bit a region, 90 bytes a request.
//!
//! Source: the rule of the marks is that of section 3 of the mirror's protocol; checksums of sectors beside the data as in dm-integrity
//! (Broz, Patočka, Matyáš, "Practical Cryptographic Data Integrity Protection with Full Disk Encryption", IFIP SEC 2018, section 4), without
//! its journal.

mod config;
mod layout;
mod marks;
mod open;
mod pages;
mod part;
mod round;

pub use config::{IntegrityConfig, kind};
pub use layout::{recognise, superblock_at};

use crate::locks::{Locks, Pass};
use config::Planted;
use layout::Layout;
use marks::Marks;
use nandu_base::{
    Advise, ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Hints, Limits, Machine, Members,
    Needs, Op, OpenOptions, Payload, Peek, Place, Report, ReqId, Span, Step, TenantId, TimerKey, Violation,
};
use open::Opening;
use pages::Pages;
use part::{Part, Whole};
use round::Round;
use std::collections::VecDeque;

const CLEAN: TimerKey = TimerKey(0);

/// What a request of one's own is for: the upper byte of its cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    /// Data of part `.0`.
    Data,
    /// The page in slot `.0` is read.
    Load,
    /// Piece `.0` of the marks is written.
    Mark,
    /// The page in slot `.0` is written.
    Tags,
    /// The flush of a round.
    Flush,
    /// A step of the start.
    Open,
}

impl Tag {
    const ALL: [Tag; 6] = [Tag::Data, Tag::Load, Tag::Mark, Tag::Tags, Tag::Flush, Tag::Open];

    fn cookie(self, index: u32) -> u64 {
        (self as u64) << 32 | u64::from(index)
    }

    fn of(cookie: u64) -> (Tag, u32) {
        (Tag::ALL[(cookie >> 32) as usize], cookie as u32)
    }
}

/// Where the machine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Run {
    /// It was not opened, or could not be.
    Closed,
    /// It starts, for the first time or because the device came back.
    Opening,
    Running,
    /// The device below is gone.
    Gone,
    Closing,
}

/// What it has done.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    checked_blocks: u64,
    unreadable_blocks: u64,
    unchecked_blocks: u64,
    page_reads: u64,
    page_writes: u64,
    mark_writes: u64,
    rounds: u64,
    retaken_regions: u64,
    retaken_blocks: u64,
}

struct Integrity {
    limits: Limits,
    layout: Layout,
    dirty_most: usize,
    bitmap_delay: Span,
    /// The tag of a block of zeros.
    zeros: u32,
    planted: Planted,
    run: Run,
    /// The device below has said that it is gone.
    below_lost: bool,
    /// It came back as something that is not taken, and is not looked at again before it says once more that it is back.
    below_refused: bool,
    /// Child requests that are not back.
    flying: u32,
    locks: Locks,
    parts: Vec<Part>,
    free_parts: Vec<u32>,
    wholes: Vec<Whole>,
    free_wholes: Vec<u32>,
    /// Parts that have their extent and wait for a page, for a mark, or for a round; in order of arrival.
    waiting: VecDeque<u32>,
    /// Parts that have just got their extent.
    granted: VecDeque<u32>,
    /// Something has changed for those that wait.
    made_progress: bool,
    pages: Pages,
    /// Slots of pages that are dirty.
    dirty: Vec<u32>,
    marks: Marks,
    round: Round,
    timer_is_set: bool,
    opening: Opening,
    tally: Tally,
}

impl Integrity {
    fn new(
        limits: Limits,
        layout: Layout,
        pages: usize,
        config: &IntegrityConfig,
        planted: Planted,
    ) -> Integrity {
        let pass = Pass { reads: planted.read_beside_write, ..Pass::default() };
        Integrity {
            limits,
            layout,
            dirty_most: config.max_dirty_regions as usize,
            bitmap_delay: config.bitmap_delay,
            zeros: layout::zeros(layout.block),
            planted,
            run: Run::Closed,
            below_lost: false,
            below_refused: false,
            flying: 0,
            locks: Locks::new(pass),
            parts: Vec::new(),
            free_parts: Vec::new(),
            wholes: Vec::new(),
            free_wholes: Vec::new(),
            waiting: VecDeque::new(),
            granted: VecDeque::new(),
            made_progress: false,
            pages: Pages::new(&layout, pages),
            dirty: Vec::new(),
            marks: Marks::new(&layout),
            round: Round::default(),
            timer_is_set: false,
            opening: Opening::default(),
            tally: Tally::default(),
        }
    }

    /// Sends a request of the machine's own for an extent: its first byte, and how many. The caller still holds `payload`.
    fn send_own(
        &mut self,
        cookie: u64,
        op: Op,
        flags: Flags,
        (at, len): (u64, u64),
        payload: Payload,
        cx: &mut Cx<'_>,
    ) {
        let draft = Draft { op, flags, offset: ByteOffset(at), len: ByteLen(len), payload, cookie };
        let id = cx.own(TenantId::SYSTEM, draft);
        self.flying += 1;
        cx.send(0, id);
    }

    /// Moves everything on that can move.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        if self.run == Run::Closing {
            self.clean_all();
        }
        loop {
            self.take_granted(cx);
            if std::mem::take(&mut self.made_progress) {
                self.try_waiting(cx);
            }
            if !self.is_lost() {
                self.pump_round(cx);
                self.write_marks(cx);
            }
            if !self.made_progress && self.granted.is_empty() {
                break;
            }
        }
        match self.run {
            Run::Opening => self.pump_open(cx),
            Run::Closing => self.pump_close(cx),
            Run::Gone if !self.below_lost && !self.below_refused && self.flying == 0 => {
                self.begin_open(true, cx)
            }
            _ => {}
        }
    }

    fn write_marks(&mut self, cx: &mut Cx<'_>) {
        while let Some(piece) = self.marks.next_write() {
            let unit = self.layout.unit;
            let payload = cx.pool.allocate_metadata(ByteLen(unit));
            self.encode_marks(piece, payload, cx);
            let at = self.layout.marks + u64::from(piece) * unit;
            self.tally.mark_writes += 1;
            self.send_own(Tag::Mark.cookie(piece), Op::Write, Flags::FUA, (at, unit), payload, cx);
            cx.pool.release(payload);
        }
    }

    fn encode_marks(&self, piece: u32, payload: Payload, cx: &mut Cx<'_>) {
        let bytes = cx.pool.bytes_mut(payload, ByteLen(self.layout.unit));
        let first = u64::from(piece) * self.layout.sectors_together();
        for (n, sector) in bytes.chunks_exact_mut(nandu_base::SECTOR as usize).enumerate() {
            layout::encode_marks(first + n as u64, |region| self.marks.has(region), sector);
        }
    }

    /// The device below is gone: what waits fails, and what is under way comes back by itself.
    fn lose(&mut self, cx: &mut Cx<'_>) {
        for i in 0..self.parts.len() as u32 {
            if self.parts[i as usize].is_waiting() {
                self.fail(i, ErrorKind::Gone, cx);
            }
        }
    }

    /// Before the end every region is clean, unless a round fails.
    fn clean_all(&mut self) {
        if !self.is_lost() && self.round.is_idle() && !self.dirty.is_empty() && !self.round.failed {
            self.begin_round(self.dirty.clone());
        }
    }

    fn pump_close(&mut self, cx: &mut Cx<'_>) {
        let gone = self.is_lost(); // the marks stay, and the next start takes the regions anew
        let quiet =
            self.round.is_idle() && (self.dirty.is_empty() || self.round.failed) && self.marks.is_idle();
        if self.flying == 0 && (gone || quiet) {
            self.run = Run::Closed;
            cx.cancel_wake(CLEAN);
            cx.closed();
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_>) -> Step {
        self.pump(cx);
        cx.only_step()
    }
}

impl Machine for Integrity {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::PASSING
    }

    fn open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        self.opening.how = how;
        (self.below_lost, self.below_refused) = (false, false);
        self.begin_open(false, cx);
        self.settle(cx)
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        self.round.failed = false;
        // What was written before the device went may be lost, be it back or not; and a start is not ended.
        self.opening.interrupted |= matches!(self.run, Run::Gone | Run::Opening);
        self.run = Run::Closing;
        self.settle(cx)
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.run != Run::Running {
            return cx.fail(id, ErrorKind::Gone);
        }
        let request = &cx.requests[id];
        match request.op {
            Op::Flush => Step::Forward(0, id),
            Op::Reset => cx.fail(id, ErrorKind::Unsupported),
            _ => {
                self.split(id, cx);
                self.settle(cx)
            }
        }
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let (tag, index) = Tag::of(cx.requests[id].cookie);
        let error = cx.requests[id].error;
        self.flying -= 1;
        match tag {
            Tag::Data => self.data_back(index, id, cx),
            Tag::Load => {
                let payload = cx.requests[id].payload;
                let bytes = cx.pool.bytes(payload, ByteLen(self.layout.page));
                self.pages.loaded(index, error.is_none().then_some(bytes));
                self.made_progress = true;
            }
            Tag::Mark => {
                self.marks.written(index, error.is_none());
                if error.is_some() {
                    self.fail_unmarked(index, cx);
                }
                self.made_progress = true;
            }
            Tag::Tags | Tag::Flush => self.round_back(tag, error.is_some(), cx),
            Tag::Open => self.open_back(id, cx),
        }
        self.settle(cx)
    }

    fn timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.timer_is_set = false;
        self.clean_old(cx);
        self.settle(cx)
    }

    fn child_event(&mut self, _child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        match event {
            DeviceEvent::Lost => {
                self.below_lost = true;
                self.interrupt();
                if self.run == Run::Running {
                    self.run = Run::Gone;
                    self.lose(cx);
                    cx.event(DeviceEvent::Lost);
                }
            }
            DeviceEvent::Back => (self.below_lost, self.below_refused) = (false, false),
            DeviceEvent::Resized(_) | DeviceEvent::Notice(_) => {}
            other => cx.event(other),
        }
        self.settle(cx)
    }

    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn report(&mut self, report: &mut Report) {
        let t = &mut self.tally;
        report.count("checked_blocks", &mut t.checked_blocks);
        report.count("mismatched_blocks", &mut t.unreadable_blocks);
        report.count("unchecked_blocks", &mut t.unchecked_blocks);
        report.count("checksum_page_reads", &mut t.page_reads);
        report.count("checksum_page_writes", &mut t.page_writes);
        report.count("mark_writes", &mut t.mark_writes);
        report.count("clean_rounds", &mut t.rounds);
        report.put("marked_regions", self.dirty.len() as u64);
        report.count("retaken_regions", &mut t.retaken_regions);
        report.count("retaken_blocks", &mut t.retaken_blocks);
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |what: String| Err(Violation { invariant: "integrity", what });
        for slot in self.parts.iter().filter_map(Part::changes) {
            let page = &self.pages[slot];
            let piece = self.layout.piece_of(page.region);
            if !page.dirty || !self.marks.is_durable(piece, page.mark) {
                return broken(format!("region {} is written and its mark is not durable", page.region));
            }
        }
        let dirty = self.pages.all().filter(|page| page.dirty).count();
        if dirty != self.dirty.len() || dirty > self.dirty_most {
            return broken(format!("{dirty} pages are dirty, {} are listed", self.dirty.len()));
        }
        Ok(())
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

impl Advise for Integrity {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        peek.expected_latency(0, op, offset, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset, len)
    }
}

impl Hints for Integrity {
    fn foresee(&mut self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn used(&mut self, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }
}

impl Members for Integrity {
    fn left_over(&self, _child: u8, below: &Limits) -> ByteLen {
        let tail = below.capacity.0.saturating_sub(self.layout.end);
        ByteLen(tail + self.layout.tags - self.layout.capacity().0)
    }
}
