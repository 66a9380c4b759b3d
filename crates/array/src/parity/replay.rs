//! The journal at a start: which entries count, and writing them to their places.
//!
//! Every slot of the journal is read. An entry counts when its number is not below the floor and each of its legs
//! that is present and was a leg already when it was written has its part whole. Those entries are written to their places in
//! order. A cut on the way changes nothing: the same is found again, by the same legs.
//!
//! **One part without its checksum** was torn by the cut, or was damaged later, and then what it holds may be acknowledged and nowhere else. Nothing
//! tells which. So it is made: it is the xor of the other parts and of the places of the legs that have none, which hold what they held when the
//! entry was written unless a later entry is about them too. It has its checksum then. It is written into the journal before any part goes to its
//! place: a start that is cut short may find a leg less. Where it cannot be made:
//!
//! - A later entry of the same extent says that this one was whole, for pieces of an extent take turns. So it is damaged: the other parts go to
//!   their places, and its own place is lost until it is written, or made from the others when all entries are in their places
//!   ([`super::lost`]).
//! - Otherwise it is taken for torn, as is an entry with two such parts.

use super::journal::sum_of;
use super::layout::{Entry, PAGE};
use super::open::Step;
use super::{Parity, Tag, bits};
use crate::member::set::Set;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, Flags, Op, Payload, PayloadPool, ReqId};

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

impl Part {
    /// Whether the data that were read have their checksum.
    fn is_whole(&self, pool: &PayloadPool) -> bool {
        self.entry.zeros || sum_of(pool, self.payload, self.entry.len()) == self.entry.sum
    }
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

    /// A header, a part of an entry or what one is made from was read, or a part was written.
    pub(super) fn open_part_done(&mut self, id: ReqId, tag: Tag, leg: usize, index: u32, cx: &mut Cx<'_>) {
        self.stir();
        if let Some(error) = cx.requests[id].error {
            // What a part is made from is not tried again: without it the part lacks its checksum.
            if self.opening.step != Step::Make && self.once_more(id, leg, error.kind, cx) {
                return;
            }
        } else if self.opening.step == Step::Make {
            let Part { entry, payload, .. } = self.opening.current[index as usize];
            cx.pool.xor(cx.requests[id].payload, payload, entry.len());
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

    /// Every header is there: newest last, so that the oldest is taken from the end. What a leg holds of a time in which it was no leg of
    /// this history says nothing: its numbers may be those of other entries.
    pub(super) fn order_entries(&mut self, cx: &mut Cx<'_>) -> Step {
        let since = &self.members.sb.since;
        self.opening.parts.retain(|p| since[p.leg] <= p.entry.seq >> 40);
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
            let len = part.entry.len();
            let payload = cx.pool.allocate_unfilled(len);
            self.opening.current[k].payload = payload;
            self.opening.left += 1;
            let (offset, cookie) = (self.part_at(&part), Tag::Replay.cookie(part.leg, k as u32));
            let draft = Draft { op: Op::Read, flags: Flags::NONE, offset, len, payload, cookie };
            self.send(part.leg, ReqId::NONE, draft, cx);
        }
    }

    /// Writes the current entry to its place when all of its parts are whole; what is to be done otherwise.
    pub(super) fn redo(&mut self, cx: &mut Cx<'_>) -> Step {
        let parts = &self.opening.current;
        let mut bad = (0..parts.len()).filter(|&k| !parts[k].is_whole(cx.pool));
        match (bad.next(), bad.next()) {
            (None, _) => self.write_places(cx),
            (Some(k), None) => self.make_part(k, cx),
            _ => self.next_entry(cx),
        }
    }

    /// Reads what part `k` of the current entry is made from.
    fn make_part(&mut self, k: usize, cx: &mut Cx<'_>) -> Step {
        let Part { leg, entry, payload, .. } = self.opening.current[k];
        let others = self.all() & !(1 << leg);
        let sound = self.readable(entry.end) & !self.lost.legs(entry.start, entry.end);
        self.opening.made = k;
        if sound & others != others {
            return self.not_made(cx);
        }
        let len = entry.len();
        cx.pool.zero(payload, len);
        for other in self.opening.current.iter().filter(|p| p.leg != leg && !p.entry.zeros) {
            cx.pool.xor(other.payload, payload, len);
        }
        let have = self.opening.current.iter().fold(0u16, |m, p| m | 1 << p.leg);
        for leg in bits(others & !have) {
            self.opening.left += 1;
            let (payload, cookie) = (cx.pool.allocate_unfilled(len), Tag::Redo.cookie(leg, k as u32));
            let (offset, flags) = (ByteOffset(entry.start), Flags::NONE);
            self.send(leg, ReqId::NONE, Draft { op: Op::Read, flags, offset, len, payload, cookie }, cx);
            cx.pool.release(payload);
        }
        Step::Make
    }

    /// All that a part is made from is there: with its checksum it goes into the journal.
    pub(super) fn keep_made(&mut self, cx: &mut Cx<'_>) -> Step {
        let part = self.opening.current[self.opening.made];
        if !part.is_whole(cx.pool) {
            return self.not_made(cx);
        }
        self.count.records_mended += 1;
        if self.planted.made_not_kept {
            return self.write_places(cx);
        }
        let (offset, cookie) = (self.part_at(&part), Tag::Replay.cookie(part.leg, self.opening.made as u32));
        let (len, payload) = (part.entry.len(), part.payload);
        self.opening.left += 1;
        self.send(
            part.leg,
            ReqId::NONE,
            Draft { op: Op::Write, flags: Flags::FUA, offset, len, payload, cookie },
            cx,
        );
        Step::Keep
    }

    /// The part that should be made cannot be.
    fn not_made(&mut self, cx: &mut Cx<'_>) -> Step {
        let Part { leg, entry, payload, .. } = self.opening.current[self.opening.made];
        let later = |p: &Part| p.entry.start < entry.end && entry.start < p.entry.end;
        if !self.opening.parts.iter().any(later) {
            return self.next_entry(cx);
        }
        cx.pool.release(payload);
        self.opening.current.remove(self.opening.made);
        for at in (entry.start..entry.end).step_by(self.lost.unit() as usize) {
            if !self.lost.add(leg, at) {
                // More is damaged than the list can say: the start begins anew without this leg.
                self.roster[leg].fails();
                self.opening.again = true;
                return Step::Redo;
            }
            self.count.sectors_lost += 1;
        }
        self.write_places(cx)
    }

    /// Writes the parts of the current entry to their places.
    pub(super) fn write_places(&mut self, cx: &mut Cx<'_>) -> Step {
        self.count.replays += 1;
        for k in 0..self.opening.current.len() {
            let Part { leg, entry, payload, .. } = self.opening.current[k];
            let op = if entry.zeros { Op::WriteZeroes } else { Op::Write };
            let (offset, len) = (ByteOffset(entry.start), entry.len());
            let cookie = Tag::Redo.cookie(leg, k as u32);
            self.opening.left += 1;
            self.lost.mend(leg, entry.start, entry.end);
            self.send(leg, ReqId::NONE, Draft { op, flags: Flags::NONE, offset, len, payload, cookie }, cx);
        }
        Step::Redo
    }

    /// Where the data of a part lie in the journal of its leg.
    pub(super) fn part_at(&self, part: &Part) -> ByteOffset {
        ByteOffset(self.legs[part.leg].layout.slot(part.slot).0 + PAGE)
    }
}

/// Whether two parts are of one entry.
fn same(a: &Entry, b: &Entry) -> bool {
    (a.start, a.end, a.legs) == (b.start, b.end, b.legs)
}
