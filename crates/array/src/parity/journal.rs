//! The journal: what closes the write hole.
//!
//! Each leg has the same number of slots behind its data. An entry takes the slot of one number on every leg that its
//! piece writes, and each of them keeps its own part: a header and the data or parity that goes to its place, written
//! with force unit access in one request. The checksum in the header finds a torn part. Numbers grow, and pieces of one
//! extent take turns, so writing entries again in order ends with what was last.
//!
//! A slot is used again after a *checkpoint*: all legs have flushed, and then their superblocks say which number is the
//! oldest that still counts (the *floor*). A superblock is on every leg, so no lost leg takes the floor away.

use super::layout::{Entry, PAGE};
use super::piece::Phase;
use super::work::Ready;
use super::{Parity, Tag, bits};
use nandu_base::{ByteLen, Content, Cx, Draft, Flags, Op, Payload, PayloadPool, Sector};
use std::collections::VecDeque;

/// One slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of its entry; 0 when it may be used.
    seq: u64,
    /// The legs that have a part of it. All parts say the same, also one that is tried again after a leg went: that leg may be
    /// back before its absence is on record, and then it has the row as it was.
    legs: u16,
    /// Whether the entry's piece is over.
    applied: bool,
}

/// The journal's slots in memory.
#[derive(Debug)]
pub(super) struct Journal {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The number of the next entry.
    pub(super) next: u64,
    /// Pieces that wait for a slot, in order.
    pub(super) waiting: VecDeque<u32>,
}

impl Journal {
    pub(super) fn new(slots: u32) -> Journal {
        let slot = Slot { seq: 0, legs: 0, applied: false };
        let free = (0..slots).rev().collect();
        Journal { slots: vec![slot; slots as usize], free, next: 1, waiting: VecDeque::new() }
    }

    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Everything is in its place and durable: numbers go on from `next`.
    pub(super) fn restart(&mut self, next: u64) {
        *self = Journal::new(self.len());
        self.next = next;
    }

    /// The piece of this slot's entry is over.
    pub(super) fn applied(&mut self, slot: u32) {
        self.slots[slot as usize].applied = true;
    }

    /// The oldest number whose piece is not over.
    pub(super) fn floor(&self) -> u64 {
        let open = self.slots.iter().filter(|s| s.seq > 0 && !s.applied);
        open.map(|s| s.seq).min().unwrap_or(self.next)
    }

    /// Slots of entries below `floor` may be used again.
    pub(super) fn release(&mut self, floor: u64) {
        for (k, slot) in (0u32..).zip(&mut self.slots) {
            if slot.seq > 0 && slot.applied && slot.seq < floor {
                slot.seq = 0;
                self.free.push(k);
            }
        }
    }

    /// Whether so few slots are left that a checkpoint is due, and would free some.
    pub(super) fn wants_checkpoint(&self) -> bool {
        (!self.waiting.is_empty() || self.free.len() * 2 < self.slots.len())
            && self.slots.iter().any(|s| s.seq > 0 && s.applied)
    }
}

/// A checksum over a part. No CRC: over data that ends with its own CRC, as records of file systems and of arrays do, a CRC is
/// always the same, and old data behind a new header went for new (verify, arrays, seed 1009). A multiplication for each word
/// has no such fixed point. Plain simulation has nothing to sum up. In the verified one a sector of zeros is the same whether
/// a machine above wrote it as a record or not, for a machine below may give it back either way.
pub(super) fn sum_of(pool: &PayloadPool, payload: Payload, len: ByteLen) -> u32 {
    let stamps = pool.content() == Content::Stamps;
    let mut sum = 0x9E37_79B9_7F4A_7C15u64;
    let mut add = |word: u64| sum = (sum.rotate_left(23) ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    for i in 0..len.sectors() {
        match pool.sector(payload, i) {
            None => return 0,
            Some(Sector::Bytes(bytes)) if stamps && bytes.iter().all(|&b| b == 0) => add(0),
            Some(Sector::Stamp(stamp)) => add(stamp.0),
            Some(Sector::Bytes(bytes)) => {
                let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                bytes.chunks_exact(8).for_each(|bytes| add(word(bytes)));
            }
        }
    }
    (sum >> 32) as u32
}

impl Parity {
    /// Puts a piece into the journal of each leg that it writes, as soon as there is room.
    pub(super) fn enter_journal(&mut self, i: u32, cx: &mut Cx<'_>) {
        let Some(slot) = self.journal.free.pop() else {
            self.count.journal_waits += 1;
            self.journal.waiting.push_back(i);
            self.work.add_each(&[Ready::Failed, Ready::Checkpoint]);
            return;
        };
        let legs = self.pieces[i as usize].legs;
        self.journal.slots[slot as usize] = Slot { seq: self.journal.next, legs, applied: false };
        self.journal.next += 1;
        let p = &mut self.pieces[i as usize];
        (p.slot, p.phase, p.tried) = (slot, Phase::Journal, 0);
        p.flying = legs.count_ones() as u16;
        for leg in bits(legs) {
            self.journal_part(i, leg, cx);
        }
        if self.journal.wants_checkpoint() {
            self.work.add(Ready::Checkpoint);
        }
    }

    /// Gives room in the journal to pieces that wait for it.
    pub(super) fn pump_slots(&mut self, cx: &mut Cx<'_>) {
        while !self.journal.free.is_empty() && !self.is_held() {
            let Some(i) = self.journal.waiting.pop_front() else { return };
            self.enter_journal(i, cx);
        }
    }

    /// Writes one leg's part: header and content as one request.
    pub(super) fn journal_part(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let job = self.jobs[p.job as usize];
        let index = self.geometry.index(self.geometry.row(p.start), leg);
        let zeros = index.is_some() && job.op != Op::Write || self.zeroes_row(&p);
        let content = match index {
            _ if zeros => Payload::NONE,
            None => p.sum,
            Some(index) => self.data(&p, index),
        };
        let len = if zeros { ByteLen::ZERO } else { p.len() };
        let slot = self.journal.slots[p.slot as usize];
        let entry = Entry {
            set: self.members.sb.head.set,
            seq: slot.seq,
            start: p.at,
            end: p.upto,
            legs: slot.legs,
            zeros,
            sum: sum_of(cx.pool, content, len),
        };
        let mut header = [0; 512];
        entry.encode(&mut header);
        let whole = ByteLen(PAGE + len.0);
        let payload = cx.pool.allocate(whole);
        cx.pool.put_sector(payload, 0, Sector::Bytes(&header));
        cx.pool.copy(content, payload.slice(ByteLen(PAGE)), len);
        let draft = Draft {
            op: Op::Write,
            flags: Flags::FUA,
            offset: self.legs[leg].layout.slot(p.slot),
            len: whole,
            payload,
            cookie: Tag::Part.cookie(leg, i),
        };
        self.count.journal_writes += 1;
        self.count.journal_bytes += whole.0;
        self.send(leg, job.id, draft, cx);
        cx.pool.release(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_ends_with_its_own_crc_has_sums_of_its_own() {
        let mut pool = PayloadPool::new(Content::Bytes);
        let sums = [1u8, 2].map(|fill| {
            let payload = pool.allocate(ByteLen(512));
            let bytes = pool.bytes_mut(payload, ByteLen(512));
            bytes[..508].fill(fill);
            let crc = crc32c::crc32c(&bytes[..508]);
            bytes[508..].copy_from_slice(&crc.to_le_bytes());
            (crc32c::crc32c(bytes), sum_of(&pool, payload, ByteLen(512)))
        });
        assert_eq!(sums[0].0, sums[1].0, "why it is not a CRC");
        assert_ne!(sums[0].1, sums[1].1);
    }
}
