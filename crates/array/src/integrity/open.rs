//! The start: the superblock, the marks, and the checksums of what was being written at the last cut.
//!
//! Nothing is changed until the superblock says that this is the device that the options describe. A blank device is taken when it may be
//! initialised: the room of the records is zeroed and flushed, then both copies of the superblock are written. One damaged copy is mended
//! from the other.
//!
//! Each marked region is taken anew: its data are read, its checksums made from them and written. When all are, the device is flushed and
//! the marks are taken away. A cut on the way finds the same marks again. A sector of marks that is damaged marks all of its regions.
//!
//! A request that fails is tried again, 32 times in all; then data that cannot be read are left without checksum (the device below says
//! itself that they are unreadable), and for records the start fails.
//!
//! The same steps are taken when the device has been gone and is back: what it had not flushed it may have lost, and all that was not
//! flushed lies in marked regions. What came back and is not the device is refused, which is said; it is looked at again when the device says
//! once more that it is back. A close meanwhile ends the start where it is.

use super::layout::{self, Copy, MARKS, UNCHECKED};
use super::pages::{decode, encode};
use super::{Integrity, Run, Tag};
use nandu_base::{
    ByteLen, Content, Cx, DeviceEvent, ErrorKind, Flags, Gone, IoError, Notice, Op, OpenError, OpenOptions,
    Payload, ReqId, SECTOR,
};

/// Failed requests of a start that are tried again.
const TRIES: u32 = 32;
/// Longest request of a start.
const LONGEST: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
    #[default]
    Begin,
    /// Copy `.0` of the superblock is read.
    Superblock(usize),
    /// The room of the records is zeroed from byte `.0` on.
    Zero(u64),
    ZeroFlush,
    /// Copy `.0` of a new superblock is written.
    Create(usize),
    /// A damaged copy is written again.
    Mend(usize),
    /// Marks are read from byte `.0` on.
    Marks(u64),
    /// The checksums of region `.0` are read.
    OldTags(u64),
    /// Its data are read from byte `.1` of the region on.
    Data(u64, u64),
    /// Its new checksums are written.
    NewTags(u64),
    Flush,
    /// The marks are taken away.
    Clear,
}

/// A start under way.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) how: OpenOptions,
    /// The device came back: nobody waits for the end of this start.
    again: bool,
    step: Step,
    tries: u32,
    /// The device went meanwhile.
    pub(super) interrupted: bool,
    copies: [Option<Copy>; 2],
    old: Vec<u32>,
    new: Vec<u32>,
    regions: u64,
    differing: u64,
}

impl Integrity {
    /// Whether the device has gone since the machine last opened it.
    pub(super) fn is_lost(&self) -> bool {
        self.below_lost || self.run == Run::Gone || self.opening.interrupted
    }

    /// The device has gone.
    pub(super) fn interrupt(&mut self) {
        self.opening.interrupted = matches!(self.run, Run::Opening | Run::Closing);
    }

    pub(super) fn begin_open(&mut self, again: bool, cx: &mut Cx<'_>) {
        self.run = Run::Opening;
        let how = self.opening.how;
        self.opening = Opening { how, again, tries: TRIES, ..Opening::default() };
        self.pages.clear();
        self.dirty.clear();
        self.marks.clear_all();
        self.round = super::Round::default();
        if !cx.peek.is_open(0) {
            return self.not_opened(OpenError::Child(0), cx);
        }
        self.issue(Step::Superblock(0), cx);
    }

    /// Starts anew when the device went, and ends when the marks are durable.
    pub(super) fn pump_open(&mut self, cx: &mut Cx<'_>) {
        if self.flying > 0 {
            return;
        }
        if self.opening.interrupted {
            if !self.below_lost {
                self.begin_open(self.opening.again, cx);
            } else if self.opening.again {
                self.run = Run::Gone;
            } else {
                self.not_opened(OpenError::Child(0), cx);
            }
            return;
        }
        if self.opening.step == Step::Clear && self.marks.is_idle() {
            if self.opening.regions > 0 {
                let Opening { regions, differing, .. } = self.opening;
                self.tally.retaken_regions += regions;
                self.tally.retaken_blocks += differing;
                cx.event(DeviceEvent::Notice(Notice::Retaken { regions, differing }));
            }
            self.serve(cx);
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        self.run = Run::Running;
        if self.opening.again {
            cx.event(DeviceEvent::Back);
        } else {
            cx.opened(Ok(()));
        }
    }

    /// The first start fails. A device that came back as something else is not taken, and may come back once more.
    fn not_opened(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        if self.opening.again {
            (self.run, self.below_refused) = (Run::Gone, true);
            cx.event(DeviceEvent::Notice(Notice::Refused(0)));
        } else {
            self.run = Run::Closed;
            cx.opened(Err(error));
        }
    }

    /// Bytes of a request that begins at `at` and ends at `end` at the latest.
    fn length(&self, at: u64, end: u64) -> u64 {
        let longest = self.limits.max_io.0.min(LONGEST);
        let unit = self.layout.unit.max(self.layout.block);
        (end - at).min((longest - longest % unit).max(unit))
    }

    fn region_end(&self, region: u64) -> u64 {
        self.layout.region_bytes().min(self.layout.capacity().0 - region * self.layout.region_bytes())
    }

    /// Sends the request of a step.
    fn issue(&mut self, step: Step, cx: &mut Cx<'_>) {
        let l = self.layout;
        self.opening.step = step;
        let (op, flags, at, len) = match step {
            Step::Begin | Step::Clear => return,
            Step::Superblock(copy) => (Op::Read, Flags::NONE, l.superblock + copy as u64 * l.page, l.page),
            Step::Create(copy) | Step::Mend(copy) => {
                (Op::Write, Flags::FUA, l.superblock + copy as u64 * l.page, l.page)
            }
            Step::Zero(at) => (Op::WriteZeroes, Flags::NONE, at, self.length(at, l.superblock)),
            Step::ZeroFlush | Step::Flush => (Op::Flush, Flags::NONE, 0, 0),
            Step::Marks(at) => (Op::Read, Flags::NONE, at, self.length(at, l.superblock)),
            Step::OldTags(region) => (Op::Read, Flags::NONE, l.tags_of(region as u32).0, l.page),
            Step::NewTags(region) => (Op::Write, Flags::NONE, l.tags_of(region as u32).0, l.page),
            Step::Data(region, at) => {
                let len = self.length(at, self.region_end(region));
                (Op::Read, Flags::NONE, region * l.region_bytes() + at, len)
            }
        };
        let payload = match step {
            Step::Data(..) => cx.pool.allocate_unfilled(ByteLen(len)),
            _ if matches!(op, Op::Read | Op::Write) => cx.pool.allocate_metadata(ByteLen(len)),
            _ => Payload::NONE,
        };
        match step {
            Step::Create(_) | Step::Mend(_) => l.encode(cx.pool.bytes_mut(payload, ByteLen(len))),
            Step::NewTags(_) => encode(&self.opening.new, cx.pool.bytes_mut(payload, ByteLen(len))),
            _ => {}
        }
        self.send_own(Tag::Open.cookie(0), op, flags, (at, len), payload, cx);
        cx.pool.release(payload);
    }

    /// The request of a step is back.
    pub(super) fn open_back(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let step = self.opening.step;
        if let Some(error) = cx.requests[id].error {
            if error.kind == ErrorKind::Gone {
                self.opening.interrupted = true;
            }
            if self.opening.interrupted {
                return;
            }
            self.opening.tries = self.opening.tries.saturating_sub(1);
            if self.opening.tries > 0 {
                return self.issue(step, cx);
            }
            return self.step_failed(step, error, cx);
        }
        if self.opening.interrupted {
            return;
        }
        let payload = cx.requests[id].payload;
        let len = cx.requests[id].len;
        let next = match step {
            Step::Begin | Step::Clear => return,
            Step::Superblock(copy) => {
                let found = self.layout.compare(cx.pool.bytes(payload, len));
                return self.superblock_found(copy, found, cx);
            }
            Step::Zero(at) if at + len.0 < self.layout.superblock => Step::Zero(at + len.0),
            Step::Zero(_) => Step::ZeroFlush,
            Step::ZeroFlush => Step::Create(0),
            Step::Create(0) => Step::Create(1),
            Step::Create(_) => return self.serve(cx),
            Step::Mend(copy) => self.after_mend(copy),
            Step::Marks(at) => {
                self.read_marks(at, payload, len, cx);
                if at + len.0 < self.layout.superblock {
                    Step::Marks(at + len.0)
                } else {
                    self.next_region(0)
                }
            }
            Step::OldTags(region) => {
                self.opening.old.resize(self.layout.per_region() as usize, UNCHECKED);
                decode(cx.pool.bytes(payload, len), &mut self.opening.old);
                self.opening.new = self.opening.old.clone();
                Step::Data(region, 0)
            }
            Step::Data(region, at) => {
                self.take_anew(at, payload, len.0, cx);
                self.after_data(region, at + len.0)
            }
            Step::NewTags(region) => self.next_region(region + 1),
            Step::Flush => return self.clear_marks(cx),
        };
        self.issue(next, cx);
    }

    fn superblock_found(&mut self, copy: usize, found: Copy, cx: &mut Cx<'_>) {
        self.opening.copies[copy] = Some(found);
        if copy == 0 {
            return self.issue(Step::Superblock(1), cx);
        }
        let l = self.layout;
        let copies = self.opening.copies.map(|copy| copy.unwrap_or(Copy::Damaged));
        let next = match copies {
            [Copy::Own, Copy::Own] => Step::Marks(l.marks),
            [Copy::Own, Copy::Damaged | Copy::Blank] => Step::Mend(1),
            [Copy::Damaged | Copy::Blank, Copy::Own] => Step::Mend(0),
            [Copy::Blank, Copy::Blank] if self.opening.how.create => match cx.pool.content() {
                // A plain simulation begins with fresh media, and reads nothing back.
                Content::Nothing => Step::Create(0),
                _ => Step::Zero(l.tags),
            },
            [Copy::Damaged | Copy::Blank, Copy::Damaged | Copy::Blank] if self.opening.how.salvage => {
                cx.event(DeviceEvent::Notice(Notice::Gone(0, Gone::Member)));
                Step::Mend(0)
            }
            [Copy::Blank, Copy::Blank] => {
                let why = "the device holds no checksums: it is blank".into();
                return self
                    .not_opened(OpenError::Refused { why, remedy: "start it with `create`".into() }, cx);
            }
            [Copy::Other { version, block, end }, _] | [_, Copy::Other { version, block, end }] => {
                let why = format!(
                    "its checksums are of blocks of {} on a device of {} (format {version}), and the options say {} on {}",
                    ByteLen(block),
                    ByteLen(end),
                    ByteLen(l.block),
                    ByteLen(l.end)
                );
                let remedy = "give the options and the device with which it was made".into();
                return self.not_opened(OpenError::Refused { why, remedy }, cx);
            }
            _ => {
                let why = format!(
                    "both copies of its superblock, at bytes {} and {}, are damaged",
                    l.superblock,
                    l.superblock + l.page
                );
                let remedy =
                    "start with salvage to have it written anew as the stack file says; or read the data unchecked: they begin at byte 0 of the device below".into();
                return self.not_opened(OpenError::Refused { why, remedy }, cx);
            }
        };
        self.issue(next, cx);
    }

    /// What follows when one copy of the superblock is written anew: the other one, where it is not sound either.
    fn after_mend(&self, copy: usize) -> Step {
        match (copy, self.opening.copies[1]) {
            (0, Some(Copy::Damaged | Copy::Blank)) => Step::Mend(1),
            _ => Step::Marks(self.layout.marks),
        }
    }

    fn read_marks(&mut self, at: u64, payload: Payload, len: ByteLen, cx: &mut Cx<'_>) {
        let first = (at - self.layout.marks) / SECTOR;
        for n in 0..len.sectors() {
            let from = (n * SECTOR) as usize;
            let sector = &cx.pool.bytes(payload, len)[from..from + SECTOR as usize];
            if (first + n) * MARKS < self.layout.regions {
                layout::decode_marks(first + n, sector, |region| self.marks.found(region));
            }
        }
    }

    fn next_region(&mut self, from: u64) -> Step {
        if self.planted.retake_left_out {
            return Step::Flush;
        }
        match self.marks.next(from, self.layout.regions) {
            Some(region) => {
                self.opening.regions += 1;
                Step::OldTags(region)
            }
            None => Step::Flush,
        }
    }

    fn after_data(&self, region: u64, at: u64) -> Step {
        if at < self.region_end(region) { Step::Data(region, at) } else { Step::NewTags(region) }
    }

    /// Makes checksums from what is there.
    fn take_anew(&mut self, at: u64, payload: Payload, len: u64, cx: &Cx<'_>) {
        let block = self.layout.block;
        for n in 0..len / block {
            let i = (at / block + n) as usize;
            let found = layout::tag(cx.pool, payload, n * block, block);
            let Opening { old, new, differing, .. } = &mut self.opening;
            if old[i] != UNCHECKED {
                *differing += u64::from(old[i] != found);
            }
            new[i] = found;
        }
    }

    fn clear_marks(&mut self, cx: &mut Cx<'_>) {
        let mut next = self.marks.next(0, self.layout.regions);
        while let Some(region) = next {
            let region = region as u32;
            self.marks.put(region, self.layout.piece_of(region), false);
            next = self.marks.next(u64::from(region) + 1, self.layout.regions);
        }
        self.issue(Step::Clear, cx);
    }

    /// A step has failed too often.
    fn step_failed(&mut self, step: Step, error: IoError, cx: &mut Cx<'_>) {
        match step {
            Step::Superblock(copy) => self.superblock_found(copy, Copy::Damaged, cx),
            Step::Mend(copy) => self.issue(self.after_mend(copy), cx),
            Step::OldTags(region) => {
                let blocks = self.layout.per_region() as usize;
                self.opening.old = vec![UNCHECKED; blocks];
                self.opening.new = vec![UNCHECKED; blocks];
                self.issue(Step::Data(region, 0), cx);
            }
            Step::Data(region, at) => {
                let len = self.length(at, self.region_end(region));
                let blocks = (at / self.layout.block) as usize..((at + len) / self.layout.block) as usize;
                self.opening.new[blocks].fill(UNCHECKED);
                let next = self.after_data(region, at + len);
                self.issue(next, cx);
            }
            _ => self.not_opened(OpenError::Records(error), cx),
        }
    }
}
