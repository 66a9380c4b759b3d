//! Grow: the legs have become longer, and the array serves more from now on.
//!
//! The journal and the superblocks of a leg lie at its end, so they move, and the new rows need a parity. Both become right before anything
//! says the new size: what is new is zeros on all legs, and so is the xor of it.
//!
//! 1. *New space.* While requests are served at the old size each leg is zeroed from the end of its data to its records, and from their end to the new
//!    end of the leg. What is known to be a hole there is left out, but for the place of the new records.
//! 2. *Quiet.* New requests wait. What is under way ends, and all legs flush: the journal holds nothing that counts any more.
//! 3. *New records.* At the new end of each leg a superblock is written, of the generation in force. It says the old size, and how much is to be
//!    served. As long as none of them says more the old ones count ([`crate::member::moved`]): a leg that is lost, or that does not take its new
//!    record, ends the growth, and the array serves what it did.
//! 4. *Opening.* The array is opened anew, with its records at the new ends. A start that finds less data on record than is to be
//!    served puts a generation on record first, which only the new places know, so that they count. Then it zeroes what is left, the old
//!    records, flushes, and says the new size in the two phases of every opening ([`super::open`]).
//!
//! So a cut leaves the array as it was until step 4 has begun, and grown from then on: the next start ends what is left of step 4. That start does not know where the
//! old records were, and zeroes everything behind the old data.
//!
//! A leg that has room already keeps its records where they are. Cost: the new space is zeroed once, or not at all; requests wait while a
//! superblock is written, the place of the old records is zeroed and the array is opened.

use super::layout::{LegLayout, PAGE};
use super::piece::FLUSH;
use super::{Parity, Run, Tag, bits};
use crate::member::set::{Set, refuse};
use nandu_base::{
    AdminError, ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Health, Notice, Op, Payload,
    ReqId,
};
use std::collections::VecDeque;
use std::ops::Range;

/// Steps of a growth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
enum Step {
    #[default]
    None,
    /// 1: what is new is zeroed.
    Zero,
    /// 2: what is under way ends.
    Drain,
    /// 2: all legs are flushed.
    Flush,
    /// 3: the new records are written.
    Record,
    /// 4: the array is opened with them.
    Open,
}

/// What is still to be zeroed on each leg.
type Blanks = Vec<Vec<Range<u64>>>;

/// One extent.
fn one(start: u64, end: u64) -> Vec<Range<u64>> {
    std::iter::once(start..end).collect()
}

/// A growth, and those who wait for its end.
#[derive(Default)]
pub(super) struct Growing {
    step: Step,
    layouts: Vec<LegLayout>,
    blanks: Blanks,
    /// Where the records lay that have moved; nothing where a start has found a growth.
    old_records: Option<Blanks>,
    /// Requests that are not back.
    left: u32,
    /// A leg did not take what it was sent.
    is_refused: bool,
    /// The opening under way has had new space zeroed.
    ends: bool,
    waits: VecDeque<ReqId>,
}

impl Growing {
    /// Whether new requests wait.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.step > Step::Zero
    }

    /// Whether nothing else may be written.
    pub(super) fn is_quiet(&self) -> bool {
        self.step > Step::Drain
    }

    pub(super) fn is_on(&self) -> bool {
        self.step != Step::None
    }

    /// A request waits.
    pub(super) fn hold(&mut self, id: ReqId) {
        self.waits.push_back(id);
    }
}

impl Parity {
    /// How much is served of so many bytes of data on each leg.
    pub(super) fn capacity_of(&self, data: u64) -> ByteLen {
        ByteLen(data * u64::from(self.geometry.data_legs()))
    }

    /// Whether the data on record are less than what is to be served: a growth is to be ended.
    pub(super) fn is_short(&self) -> bool {
        self.geometry.data < self.room
    }

    /// Where things will lie, and the bytes of each leg that can hold data then.
    fn room_for_more(&self, cx: &Cx<'_>) -> (Vec<LegLayout>, u64) {
        let (slots, chunk) = (u64::from(self.journal.len()), self.geometry.chunk());
        let next = |leg: usize| {
            let layout = self.legs[leg].layout;
            let longer = LegLayout::of(cx.peek.limits(leg as u8).capacity, slots, self.piece, chunk);
            // Neither set of records may lie in the other.
            longer.filter(|longer| longer.journal >= layout.end()).unwrap_or(layout)
        };
        let layouts: Vec<LegLayout> = (0..self.legs.len()).map(next).collect();
        let data = layouts.iter().map(|layout| layout.data).min().unwrap_or(0);
        (layouts, data)
    }

    pub(super) fn ask_grow(&mut self, are_holes: bool, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if self.standing() != Some(Health::Healthy) {
            return refuse("it is not healthy", "wait until it is");
        }
        if self.scrub.course.pass.is_some() {
            return refuse("a scrub is under way", "wait for its end, or say `scrub DEVICE stop`");
        }
        let (layouts, data) = self.room_for_more(cx);
        if data <= self.geometry.data {
            let why = format!(
                "its legs have room for {}, and so much is served",
                self.capacity_of(self.geometry.data)
            );
            return refuse(why, "make all legs longer first, by more than their records take");
        }
        if data.checked_mul(u64::from(self.geometry.data_legs())).is_none_or(|bytes| bytes >= 1 << 63) {
            return refuse("the legs are more than 8 EiB together", "make them shorter");
        }
        self.growing.blanks = self
            .legs
            .iter()
            .zip(&layouts)
            .map(|(leg, next)| self.new_space(&leg.layout, next, data, are_holes))
            .collect();
        (self.growing.layouts, self.growing.step, self.growing.is_refused) = (layouts, Step::Zero, false);
        self.stir();
        Ok(())
    }

    /// What is zeroed on a leg while requests are served.
    fn new_space(&self, was: &LegLayout, next: &LegLayout, data: u64, are_holes: bool) -> Vec<Range<u64>> {
        let behind_data = self.geometry.data..was.journal.min(data);
        let new = match (next == was, are_holes) {
            (true, _) => vec![],
            (_, false) => one(was.end(), next.end()),
            // The rest of the block in which the leg ended was no hole.
            (_, true) => vec![was.end()..was.end() + PAGE, next.journal..next.end()],
        };
        let all = new.into_iter().chain([behind_data]);
        all.filter(|extent| !extent.is_empty()).collect()
    }

    /// Zeroes the next piece of each leg. How many were sent.
    fn zero_next(&mut self, cx: &mut Cx<'_>) -> u32 {
        let mut sent = 0;
        for leg in bits(self.legs_in()) {
            let Some(extent) = self.growing.blanks[leg].last_mut() else { continue };
            let (offset, len) = (extent.start, self.rebuild_chunk.min(extent.end - extent.start));
            extent.start += len;
            if extent.is_empty() {
                self.growing.blanks[leg].pop();
            }
            let (op, flags, payload) = (Op::WriteZeroes, Flags::BACKGROUND, Payload::NONE);
            let (offset, len, cookie) = (ByteOffset(offset), ByteLen(len), Tag::Grow.cookie(leg, 0));
            self.send(leg, ReqId::NONE, Draft { op, flags, offset, len, payload, cookie }, cx);
            sent += 1;
        }
        sent
    }

    /// Takes the next step of a growth before its opening.
    pub(super) fn pump_grow(&mut self, cx: &mut Cx<'_>) {
        let step = self.growing.step;
        if matches!(step, Step::None | Step::Open) || self.growing.left > 0 {
            return;
        }
        let is_whole = self.legs_in() == self.all() && self.members.settled == self.members.version;
        if self.run != Run::Running || !is_whole || self.growing.is_refused {
            return self.stop_growing(cx);
        }
        match step {
            Step::Zero => {
                self.growing.left = self.zero_next(cx);
                if self.growing.left == 0 {
                    self.growing.step = Step::Drain;
                    self.stir();
                }
            }
            Step::Drain if self.is_drained() => {
                self.growing.step = Step::Flush;
                self.lost.flushing();
                for leg in bits(self.all()) {
                    self.growing.left += 1;
                    self.send(leg, ReqId::NONE, Draft { cookie: Tag::Grow.cookie(leg, 0), ..FLUSH }, cx);
                }
            }
            Step::Flush => {
                self.growing.step = Step::Record;
                self.lost.flushed();
                self.write_new_records(cx);
            }
            Step::Record => self.open_larger(),
            Step::Drain | Step::None | Step::Open => {}
        }
    }

    fn is_drained(&self) -> bool {
        let m = &self.members;
        self.is_idle() && m.flying == 0 && m.checkpoint == super::member::Checkpoint::None
    }

    /// All legs say at their new ends what they said at the old ones, and how much is to be served.
    fn write_new_records(&mut self, cx: &mut Cx<'_>) {
        let data = self.data_of_plan();
        let served = self.capacity_of(data);
        let head = &mut self.members.sb.head;
        (head.seq, head.clean) = (head.seq + 1, true);
        self.members.sb.floor = self.journal.floor();
        for leg in bits(self.all()) {
            let next = self.growing.layouts[leg];
            let moves = next != self.legs[leg].layout;
            let slot = if moves { 0 } else { self.legs[leg].slots.turn() };
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let page = cx.pool.bytes_mut(payload, ByteLen(PAGE));
            self.superblock(leg, &next, served).encode(page);
            let (op, flags, offset) = (Op::Write, Flags::FUA, ByteOffset(next.superblocks[slot]));
            let cookie = Tag::Grow.cookie(leg, 0);
            self.growing.left += 1;
            self.send(leg, ReqId::NONE, Draft { op, flags, offset, len: ByteLen(PAGE), payload, cookie }, cx);
            cx.pool.release(payload); // the request holds it
        }
    }

    fn data_of_plan(&self) -> u64 {
        self.growing.layouts.iter().map(|layout| layout.data).min().unwrap_or(self.geometry.data)
    }

    /// All new records are durable: the array is opened with them.
    fn open_larger(&mut self) {
        self.room = self.data_of_plan();
        let mut old_records = Blanks::new();
        for (leg, next) in self.legs.iter_mut().zip(std::mem::take(&mut self.growing.layouts)) {
            let was = std::mem::replace(&mut leg.layout, next);
            old_records.push(if was == next { vec![] } else { one(was.journal, was.end()) });
        }
        self.growing.old_records = Some(old_records);
        (self.growing.step, self.run) = (Step::Open, Run::Growing);
        self.start_open();
    }

    /// A leg has answered what a growth has sent it.
    pub(super) fn grow_done(&mut self, error: Option<ErrorKind>, leg: usize, cx: &mut Cx<'_>) {
        self.stir();
        if self.opening.step == super::open::Step::Zero {
            return self.opening_flushed(leg, error);
        }
        self.growing.left -= 1;
        match error {
            Some(kind) if kind == ErrorKind::Gone || self.growing.step == Step::Flush => {
                self.give_up(leg, kind, cx);
            }
            // It does not take what is new; what it has stands.
            Some(_) => self.growing.is_refused = true,
            None => {}
        }
    }

    /// An opening has found less data on record than is to be served: what is to be zeroed.
    pub(super) fn begin_zeroing(&mut self) {
        let everything = || vec![one(self.geometry.data, self.room); self.legs.len()];
        self.growing.blanks = self.growing.old_records.clone().unwrap_or_else(everything);
        self.growing.ends = true;
        if self.planted.grown_unzeroed {
            self.growing.blanks.iter_mut().for_each(Vec::clear);
        }
    }

    /// Zeroes more in an opening; false when all of it was.
    pub(super) fn zero_on(&mut self, cx: &mut Cx<'_>) -> bool {
        self.opening.left += self.zero_next(cx);
        self.opening.left > 0
    }

    /// Rows have a parity up to here: the next records say so.
    pub(super) fn take_room(&mut self) {
        let was = std::mem::replace(&mut self.geometry.data, self.room);
        for leg in self.legs.iter_mut().filter(|leg| leg.durable == was) {
            (leg.upto, leg.durable) = (self.room, self.room);
        }
    }

    /// The array is open, at its new size if it has grown.
    pub(super) fn grown(&mut self, cx: &mut Cx<'_>) {
        let capacity = self.capacity_of(self.geometry.data);
        if std::mem::replace(&mut self.limits.capacity, capacity) != capacity {
            cx.event(DeviceEvent::Resized(capacity));
        }
        if std::mem::take(&mut self.growing.ends) {
            self.count.growths += 1;
            cx.event(DeviceEvent::Notice(Notice::Grown(capacity)));
        }
        self.growing.old_records = None;
        self.go_on_after_growth(cx);
    }

    /// It is closed, or too few legs are there to open it with its new records. The start that finds enough of them goes on.
    pub(super) fn grown_in_vain(&mut self, cx: &mut Cx<'_>) {
        self.run = Run::Failed;
        self.growing.old_records = None;
        cx.event(DeviceEvent::Notice(Notice::NotGrown));
        self.go_on_after_growth(cx);
    }

    /// Ends a growth whose new records are not in force: the old ones are.
    pub(super) fn stop_growing(&mut self, cx: &mut Cx<'_>) {
        if self.growing.step == Step::Record {
            // The new ones are never to count: the old ones take a generation that they do not know.
            self.members.version += 1;
        }
        cx.event(DeviceEvent::Notice(Notice::NotGrown));
        self.go_on_after_growth(cx);
    }

    fn go_on_after_growth(&mut self, cx: &mut Cx<'_>) {
        self.stir();
        self.growing.step = Step::None;
        for id in std::mem::take(&mut self.growing.waits) {
            self.begin_request(id, cx);
        }
    }
}
