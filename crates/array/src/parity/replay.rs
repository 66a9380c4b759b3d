//! The journal at a start: which entries count, and writing them to their places.
//!
//! Every slot of the journal is read. An entry counts when its number is not below the floor and each of its legs
//! that is present and was a leg already when it was written has its part whole. Those entries are written to their places in
//! order. A cut on the way changes nothing: the same is found again, by the same legs.

use super::journal::sum_of;
use super::layout::{Entry, PAGE};
use super::open::Step;
use super::{Parity, Tag, bits};
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, Flags, Op, Payload, ReqId};

/// Headers read at once on a leg.
const AHEAD: u32 = 8;

/// A part of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) leg: usize,
    pub(super) slot: u32,
    pub(super) entry: Entry,
    pub(super) payload: Payload,
}

impl Parity {
    pub(super) fn read_journal(&mut self, cx: &mut Cx<'_>) -> Step {
        if !self.journaled {
            return self.open_flush(cx);
        }
        for leg in bits(self.legs_in()) {
            for _ in 0..AHEAD {
                self.read_header(leg, cx);
            }
        }
        Step::Headers
    }

    fn read_header(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let slot = self.opening.next[leg];
        if slot >= self.journal.len() {
            return;
        }
        self.opening.next[leg] += 1;
        self.opening.left += 1;
        let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
        let (offset, cookie) = (self.legs[leg].layout.slot(slot), Tag::Header.cookie(leg, slot));
        let draft = Draft { op: Op::Read, flags: Flags::NONE, offset, len: ByteLen(PAGE), payload, cookie };
        self.send(leg, ReqId::NONE, draft, cx);
        cx.pool.release(payload);
    }

    /// A header or a part of an entry was read, or a part was written to its place.
    pub(super) fn open_part_done(&mut self, id: ReqId, tag: Tag, leg: usize, index: u32, cx: &mut Cx<'_>) {
        self.stir = true;
        if let Some(error) = cx.requests[id].error {
            if self.once_more(id, leg, error.kind, cx) {
                return;
            }
        } else if tag == Tag::Header {
            let bytes = cx.pool.bytes(cx.requests[id].payload, ByteLen(PAGE));
            let sb = &self.members.sb;
            let found = Entry::read(bytes).filter(|(e, _)| e.set == sb.head.set && e.seq >= sb.floor);
            if let Some((entry, is_mended)) = found {
                self.count.records_mended += u64::from(is_mended);
                self.opening.parts.push(Part { leg, slot: index, entry, payload: Payload::NONE });
            }
            if !self.opening.again {
                self.read_header(leg, cx);
            }
        }
        self.opening.left -= 1;
    }

    /// Every header is there: newest last, so that the oldest is taken from the end.
    pub(super) fn order_entries(&mut self, cx: &mut Cx<'_>) -> Step {
        self.opening.parts.sort_by_key(|p| std::cmp::Reverse((p.entry.seq, p.leg)));
        self.next_entry(cx)
    }

    /// Takes the oldest entry whose parts are all there; when there is none, all legs are flushed.
    pub(super) fn next_entry(&mut self, cx: &mut Cx<'_>) -> Step {
        for part in self.opening.current.drain(..) {
            cx.pool.release(part.payload);
        }
        while let Some(&Part { entry, .. }) = self.opening.parts.last() {
            let parts = &self.opening.parts;
            let from = parts.iter().rposition(|p| p.entry.seq != entry.seq).map_or(0, |at| at + 1);
            let current: Vec<Part> = self.opening.parts.drain(from..).collect();
            let there = current.iter().fold(0u16, |m, p| m | 1 << p.leg);
            let bounds = entry.end <= self.geometry.data && entry.end - entry.start <= self.piece;
            let due = entry.legs & self.legs_since(entry.seq);
            if bounds && there & due == due && current.iter().all(|p| same(&p.entry, &entry)) {
                self.opening.current = current;
                self.opening.current.retain(|p| due >> p.leg & 1 != 0);
                self.load_parts(cx);
                return Step::Load;
            }
        }
        self.open_flush(cx)
    }

    /// The legs that are in and were so when entry `seq` was written. One that came later may have come blank.
    fn legs_since(&self, seq: u64) -> u16 {
        let since = &self.members.sb.since;
        bits(self.legs_in()).filter(|&l| since[l] <= seq >> 40).fold(0, |m, l| m | 1 << l)
    }

    fn load_parts(&mut self, cx: &mut Cx<'_>) {
        for k in 0..self.opening.current.len() {
            let part = self.opening.current[k];
            if part.entry.zeros {
                continue;
            }
            let len = ByteLen(part.entry.end - part.entry.start);
            let payload = cx.pool.allocate_unfilled(len);
            self.opening.current[k].payload = payload;
            self.opening.left += 1;
            let offset = ByteOffset(self.legs[part.leg].layout.slot(part.slot).0 + PAGE);
            let cookie = Tag::Replay.cookie(part.leg, k as u32);
            let draft = Draft { op: Op::Read, flags: Flags::NONE, offset, len, payload, cookie };
            self.send(part.leg, ReqId::NONE, draft, cx);
        }
    }

    /// Writes the current entry to its place, unless a part of it is torn.
    pub(super) fn redo(&mut self, cx: &mut Cx<'_>) -> Step {
        let whole = |p: &Part| {
            p.entry.zeros || sum_of(cx.pool, p.payload, ByteLen(p.entry.end - p.entry.start)) == p.entry.sum
        };
        if !self.opening.current.iter().all(whole) {
            return self.next_entry(cx);
        }
        self.count.replays += 1;
        for k in 0..self.opening.current.len() {
            let Part { leg, entry, payload, .. } = self.opening.current[k];
            let op = if entry.zeros { Op::WriteZeroes } else { Op::Write };
            let (offset, len) = (ByteOffset(entry.start), ByteLen(entry.end - entry.start));
            let cookie = Tag::Redo.cookie(leg, k as u32);
            self.opening.left += 1;
            self.lost.mend(leg, entry.start, entry.end);
            self.send(leg, ReqId::NONE, Draft { op, flags: Flags::NONE, offset, len, payload, cookie }, cx);
        }
        Step::Redo
    }
}

/// Whether two parts are of one entry.
fn same(a: &Entry, b: &Entry) -> bool {
    (a.start, a.end, a.legs) == (b.start, b.end, b.legs)
}
