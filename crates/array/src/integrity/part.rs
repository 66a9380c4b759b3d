//! Requests of the host, cut into the parts that lie in one region each.

use super::layout::{self, DAMAGED, UNCHECKED};
use super::pages::{NONE, State};
use super::{CLEAN, Integrity, Run, Tag};
use crate::locks::Claim;
use nandu_base::{
    ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, IoError, Notice, Op, Payload, ReqId,
};

/// How far the data of a part are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    /// Not asked for.
    No,
    Flying,
    /// They are in the payload.
    Here,
}

/// A request of the host, and how many of its parts are not done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    id: ReqId,
    left: u32,
}

/// A part of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    whole: u32,
    op: Op,
    flags: Flags,
    payload: Payload,
    /// Its blocks.
    start: u64,
    end: u64,
    /// Bytes of the request before it.
    at: u64,
    /// The page it uses.
    page: u32,
    data: Data,
    /// A change that its region waits for before its checksums are written.
    admitted: bool,
    alive: bool,
}

impl Part {
    /// The page of a change that is under way below.
    pub(super) fn changes(&self) -> Option<u32> {
        (self.alive && self.data == Data::Flying && self.op != Op::Read).then_some(self.page)
    }

    /// Nothing of it is under way below.
    pub(super) fn is_waiting(&self) -> bool {
        self.alive && self.data != Data::Flying
    }

    fn claim(&self) -> Claim {
        if self.op == Op::Read { Claim::Read } else { Claim::Write }
    }
}

fn put<T>(slots: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    match free.pop() {
        Some(slot) => {
            slots[slot as usize] = value;
            slot
        }
        None => {
            slots.push(value);
            (slots.len() - 1) as u32
        }
    }
}

impl Integrity {
    /// Cuts a request at the borders of regions.
    pub(super) fn split(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let r = &cx.requests[id];
        let (op, flags, payload) = (r.op, r.flags, r.payload);
        let (first, end) = (r.offset.0 / self.layout.block, r.end().0 / self.layout.block);
        if first == end {
            cx.finish(id);
            return;
        }
        let per_region = self.layout.per_region();
        let regions = (end - 1) / per_region - first / per_region + 1;
        let whole = put(&mut self.wholes, &mut self.free_wholes, Whole { id, left: regions as u32 });
        let mut start = first;
        while start < end {
            let upto = end.min((start / per_region + 1) * per_region);
            let at = (start - first) * self.layout.block;
            let part = Part {
                whole,
                op,
                flags,
                payload: payload.slice(ByteLen(at)),
                start,
                end: upto,
                at,
                page: NONE,
                data: Data::No,
                admitted: false,
                alive: true,
            };
            let i = put(&mut self.parts, &mut self.free_parts, part);
            if self.locks.enter(i, start, upto, part.claim()) {
                self.granted.push_back(i);
            }
            start = upto;
        }
    }

    /// Parts that have just got their extent begin.
    pub(super) fn take_granted(&mut self, cx: &mut Cx<'_>) {
        while let Some(i) = self.granted.pop_front() {
            if !self.parts[i as usize].alive {
                continue;
            }
            if self.parts[i as usize].op == Op::Read {
                self.send_data(i, cx);
            }
            if !self.go_on(i, cx) {
                self.waiting.push_back(i);
            }
        }
    }

    /// Those that wait try again, in order of arrival.
    pub(super) fn try_waiting(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..self.waiting.len() {
            let Some(i) = self.waiting.pop_front() else { break };
            if self.parts[i as usize].alive && !self.go_on(i, cx) {
                self.waiting.push_back(i);
            }
        }
    }

    /// Moves a part on; false when it must wait here, true when it is done or its data are under way.
    fn go_on(&mut self, i: u32, cx: &mut Cx<'_>) -> bool {
        if !self.has_page(i, cx) {
            return false;
        }
        match (self.parts[i as usize].op, self.parts[i as usize].data) {
            (_, Data::Flying) => true, // goes on when they are back
            (Op::Read, _) => {
                self.compare(i, cx);
                true
            }
            _ => self.begin_write(i, cx),
        }
    }

    /// Whether the checksums of a part are in memory; asks for them.
    fn has_page(&mut self, i: u32, cx: &mut Cx<'_>) -> bool {
        let part = self.parts[i as usize];
        let slot = if part.page != NONE {
            part.page
        } else {
            let region = (part.start / self.layout.per_region()) as u32;
            let slot = match self.pages.find(region) {
                Some(slot) => slot,
                None => match self.pages.take(region) {
                    Some(slot) => {
                        self.load(slot, region, cx);
                        slot
                    }
                    None => {
                        self.make_room();
                        return false;
                    }
                },
            };
            self.pages[slot].pins += 1;
            self.parts[i as usize].page = slot;
            slot
        };
        self.pages[slot].state == State::Ready
    }

    fn load(&mut self, slot: u32, region: u32, cx: &mut Cx<'_>) {
        let page = self.layout.page;
        let payload = cx.pool.allocate_metadata(ByteLen(page));
        let at = self.layout.tags_of(region).0;
        self.tally.page_reads += 1;
        self.send_own(Tag::Load.cookie(slot), Op::Read, Flags::NONE, (at, page), payload, cx);
        cx.pool.release(payload);
    }

    /// A change begins once a durable mark says that the checksums of its region are out of date.
    fn begin_write(&mut self, i: u32, cx: &mut Cx<'_>) -> bool {
        let slot = self.parts[i as usize].page;
        let region = self.pages[slot].region;
        let piece = self.layout.piece_of(region);
        if !self.parts[i as usize].admitted {
            if self.pages[slot].held || !self.pages[slot].dirty && !self.mark(slot, cx) {
                return false;
            }
            // Who is admitted is waited for: a round would take the mark away again before it is used.
            self.pages[slot].writing += 1;
            self.parts[i as usize].admitted = true;
        }
        if !self.marks.is_durable(piece, self.pages[slot].mark) && !self.planted.data_before_mark {
            self.marks.ask(piece);
            return false;
        }
        self.send_data(i, cx);
        true
    }

    /// Marks a region, unless as many are marked as may be.
    fn mark(&mut self, slot: u32, cx: &mut Cx<'_>) -> bool {
        if self.dirty.len() >= self.dirty_most {
            self.make_room();
            return false;
        }
        self.dirty.push(slot);
        let region = self.pages[slot].region;
        let mark = self.marks.put(region, self.layout.piece_of(region), true);
        let page = &mut self.pages[slot];
        (page.dirty, page.mark, page.written) = (true, mark, cx.now);
        if !std::mem::replace(&mut self.timer_is_set, true) {
            cx.wake_at(CLEAN, cx.now + self.bitmap_delay);
        }
        true
    }

    fn send_data(&mut self, i: u32, cx: &mut Cx<'_>) {
        let part = &mut self.parts[i as usize];
        part.data = Data::Flying;
        let draft = Draft {
            op: part.op,
            flags: part.flags,
            offset: ByteOffset(part.start * self.layout.block),
            len: ByteLen((part.end - part.start) * self.layout.block),
            payload: part.payload,
            cookie: Tag::Data.cookie(i),
        };
        let child = cx.child(self.wholes[part.whole as usize].id, draft);
        self.flying += 1;
        cx.send(0, child);
    }

    pub(super) fn data_back(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        let error = cx.requests[id].error;
        let part = self.parts[i as usize];
        cx.absorb(self.wholes[part.whole as usize].id, id);
        self.parts[i as usize].data = Data::Here;
        if part.op != Op::Read {
            self.written(i, error.is_none(), cx);
        }
        if let Some(error) = error {
            self.end(i, Some(error), cx);
        } else if part.op != Op::Read {
            self.end(i, None, cx);
        } else if self.run != Run::Running && self.run != Run::Closing {
            self.fail(i, ErrorKind::Gone, cx);
        } else if part.page == NONE || self.pages[part.page].state != State::Ready {
            self.made_progress = true; // it is among those that wait
        } else {
            self.compare(i, cx);
        }
    }

    /// A change is below, or has failed: then old and new data are both right.
    fn written(&mut self, i: u32, well: bool, cx: &Cx<'_>) {
        let part = self.parts[i as usize];
        let page = &mut self.pages[part.page];
        page.written = cx.now;
        let block = self.layout.block;
        let first = (part.start % self.layout.per_region()) as usize;
        let count = (part.end - part.start) as usize;
        let zeros = self.zeros;
        for (n, tag) in self.pages.tags_mut(part.page)[first..first + count].iter_mut().enumerate() {
            *tag = match part.op {
                _ if !well => UNCHECKED,
                Op::Write => layout::tag(cx.pool, part.payload, n as u64 * block, block),
                _ => zeros,
            };
        }
        self.made_progress = true;
    }

    /// What was read has its checksums, or is unreadable from the first block on that has not.
    fn compare(&mut self, i: u32, cx: &mut Cx<'_>) {
        let part = self.parts[i as usize];
        let block = self.layout.block;
        let first = (part.start % self.layout.per_region()) as usize;
        let count = (part.end - part.start) as usize;
        let (mut unchecked, mut bad) = (0, None);
        let tags = &self.pages.tags(part.page)[first..first + count];
        for (n, &tag) in tags.iter().enumerate() {
            let n = n as u64;
            let is_good = match tag {
                UNCHECKED => {
                    unchecked += 1;
                    true
                }
                DAMAGED => false,
                tag => {
                    let found = layout::tag(cx.pool, part.payload, n * block, block);
                    found == tag || found == UNCHECKED
                }
            };
            if !is_good && !self.planted.never_compares {
                let (from, len) = bad.unwrap_or((n, 0));
                if from + len == n {
                    bad = Some((from, len + 1));
                }
                self.tally.unreadable_blocks += 1;
            }
        }
        self.tally.unchecked_blocks += unchecked;
        self.tally.checked_blocks += count as u64 - unchecked;
        let Some((from, len)) = bad else {
            return self.end(i, None, cx);
        };
        let (at, len) = (ByteLen(from * block), ByteLen(len * block));
        let offset = ByteOffset(part.start * block + at.0);
        cx.event(DeviceEvent::Notice(Notice::Mismatch { at: offset, len }));
        self.end(i, Some(IoError { kind: ErrorKind::Unreadable, at, len }), cx);
    }

    /// The writes that wait for this piece of the marks fail: it cannot be written.
    pub(super) fn fail_unmarked(&mut self, piece: u32, cx: &mut Cx<'_>) {
        for i in self.waiting.clone() {
            let part = self.parts[i as usize];
            if !part.alive || part.op == Op::Read || part.page == NONE {
                continue;
            }
            let page = self.pages[part.page];
            let own = self.layout.piece_of(page.region);
            if page.dirty && own == piece as usize && !self.marks.is_durable(own, page.mark) {
                self.fail(i, ErrorKind::WriteFailed, cx);
            }
        }
    }

    /// The writes fail that wait until another region is clean.
    pub(super) fn fail_crowded(&mut self, cx: &mut Cx<'_>) {
        for i in self.waiting.clone() {
            let part = self.parts[i as usize];
            if part.alive && part.op != Op::Read && (part.page == NONE || !self.pages[part.page].dirty) {
                self.fail(i, ErrorKind::WriteFailed, cx);
            }
        }
    }

    pub(super) fn fail(&mut self, i: u32, kind: ErrorKind, cx: &mut Cx<'_>) {
        let part = &self.parts[i as usize];
        let len = ByteLen((part.end - part.start) * self.layout.block);
        self.end(i, Some(IoError { kind, at: ByteLen::ZERO, len }), cx);
    }

    fn end(&mut self, i: u32, error: Option<IoError>, cx: &mut Cx<'_>) {
        let part = self.parts[i as usize];
        self.parts[i as usize].alive = false;
        self.free_parts.push(i);
        self.waiting.retain(|&waits| waits != i);
        self.granted.retain(|&granted| granted != i);
        if part.page != NONE {
            let page = &mut self.pages[part.page];
            page.pins -= 1;
            page.writing -= u32::from(part.admitted);
        }
        self.locks.leave(i, &mut self.granted);
        self.made_progress = true;
        let whole = &mut self.wholes[part.whole as usize];
        if let Some(error) = error {
            cx.requests[whole.id].fail_part(error.kind, ByteLen(part.at + error.at.0), error.len);
        }
        whole.left -= 1;
        if whole.left == 0 {
            let id = whole.id;
            self.free_wholes.push(part.whole);
            cx.finish(id);
        }
    }
}
