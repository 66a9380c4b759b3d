//! Reads: from the leg that has the data, or as the xor of all others.
//!
//! A read of one leg takes no lock: beside a write of its extent it finds old or new data of each sector, and both are
//! right. A reconstruction locks its extent against writes, for between two writes of a row its xor is rubbish. What a leg
//! could not return is written back to it under the same lock, so the read is answered after that.

use super::piece::{Phase, Piece};
use super::{Parity, Run, Tag, bits};
use crate::locks::Claim;
use crate::stall::own_buffer;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Op, Payload, ReqId};

impl Parity {
    fn home(&self, i: u32) -> usize {
        let p = &self.pieces[i as usize];
        self.geometry.leg(self.geometry.row(p.start), p.first)
    }

    /// Whether the leg that has the data of a read may be asked for it.
    fn is_direct(&self, p: &Piece) -> bool {
        let leg = self.geometry.leg(self.geometry.row(p.start), p.first);
        (self.readable(p.upto) & !p.bad & !self.lost.legs(p.at, p.upto)) >> leg & 1 != 0
    }

    pub(super) fn read_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        let leg = self.home(i);
        let p = self.pieces[i as usize];
        if self.run != Run::Failed && self.is_direct(&p) {
            let to = self.data(&p, p.first);
            let payload = match self.has_buffers() {
                true => own_buffer(to, p.len(), cx.pool),
                false => to,
            };
            let job = &self.jobs[p.job as usize];
            let (parent, flags) = (job.id, job.flags);
            let (offset, len, cookie) = (ByteOffset(p.at), p.len(), Tag::Part.cookie(leg, i));
            let draft = Draft { op: Op::Read, flags, offset, len, payload, cookie };
            let p = &mut self.pieces[i as usize];
            (p.phase, p.flying, p.again, p.reads) = (Phase::Direct, 1, false, 1 << leg);
            self.send(leg, parent, draft, cx);
            if self.has_buffers() {
                cx.pool.release(payload); // the request holds it
            }
        } else if p.claims {
            self.work.granted.push_back(i);
        } else {
            self.claim(i, Claim::Read, cx);
        }
    }

    /// Whether direct reads have buffers of their own: some may come back when nobody waits for them any more.
    #[inline]
    fn has_buffers(&self) -> bool {
        self.roster.expects_late()
    }

    /// A direct read is back.
    pub(super) fn take_buffer(&self, p: &Piece, id: ReqId, cx: &mut Cx<'_>) {
        if self.has_buffers() {
            let from = cx.requests[id].payload;
            cx.pool.copy(from, self.data(p, p.first), p.len());
        }
    }

    pub(super) fn direct_done(&mut self, i: u32, cx: &mut Cx<'_>) {
        if self.pieces[i as usize].again {
            // It failed, or the leg has left and may have answered from what was left of it.
            self.read_begin(i, cx);
        } else {
            self.next_block(i, cx);
        }
    }

    /// The piece has its extent: read all other legs. While it waited its own leg may have been rebuilt, and another may
    /// have gone since: then the data is where it should be, and nowhere else.
    pub(super) fn reconstruct(&mut self, i: u32, cx: &mut Cx<'_>) {
        let leg = self.home(i);
        let p = self.pieces[i as usize];
        if self.is_direct(&p) {
            return self.read_begin(i, cx);
        }
        let others = self.all() & !(1 << leg);
        let sound = self.readable(p.end) & !p.bad & !self.lost.legs(p.at, p.upto);
        if sound & others != others || !self.parity_is_right(p.end) {
            return self.unreadable(i, cx);
        }
        self.count.degraded_reads += 1;
        let sum = cx.pool.allocate(p.len());
        let p = &mut self.pieces[i as usize];
        p.sum = sum;
        self.read_legs(i, others, cx);
    }

    pub(super) fn reconstructed(&mut self, i: u32, cx: &mut Cx<'_>) {
        let leg = self.home(i);
        let p = self.pieces[i as usize];
        if p.again {
            self.drop_sum(i, cx);
            return match p.bad & !(1 << leg) {
                0 => self.read_begin(i, cx),
                _ => self.unreadable(i, cx),
            };
        }
        let target = self.data(&p, p.first);
        cx.pool.copy(p.sum, target, p.len());
        let lacks = p.bad | self.lost.legs(p.at, p.upto);
        if lacks >> leg & 1 == 0 || !self.legs[leg].is_in() {
            self.drop_sum(i, cx);
            return self.next_block(i, cx);
        }
        let cookie = Tag::Part.cookie(leg, i);
        let (offset, len, payload) = (ByteOffset(p.at), p.len(), p.sum);
        let p = &mut self.pieces[i as usize];
        (p.phase, p.flying) = (Phase::Place, 1);
        let parent = self.parent(i);
        self.send(leg, parent, Draft { op: Op::Write, flags: Flags::NONE, offset, len, payload, cookie }, cx);
    }

    /// What could not be read was written back; when that failed the leg has been given up.
    pub(super) fn repaired(&mut self, i: u32, cx: &mut Cx<'_>) {
        let leg = self.home(i);
        if self.legs[leg].is_in() {
            let p = self.pieces[i as usize];
            self.count.repairs += 1;
            self.count.sectors_mended += self.lost.mend(leg, p.at, p.upto);
        }
        self.drop_sum(i, cx);
        self.next_block(i, cx);
    }

    pub(super) fn drop_sum(&mut self, i: u32, cx: &mut Cx<'_>) {
        let sum = std::mem::replace(&mut self.pieces[i as usize].sum, Payload::NONE);
        cx.pool.release(sum);
    }

    /// Two legs fail the extent. A long one is tried once more in the smallest blocks.
    fn unreadable(&mut self, i: u32, cx: &mut Cx<'_>) {
        let align = u64::from(self.limits.align);
        let p = &mut self.pieces[i as usize];
        let lacks = p.bad | self.lost.legs(p.start, p.end);
        if p.at == p.start && p.upto == p.end && p.end - p.start > align && lacks != 0 {
            (p.upto, p.bad) = (p.at + align, 0);
            self.read_begin(i, cx);
        } else {
            self.end(i, Some(ErrorKind::Unreadable), cx);
        }
    }

    fn next_block(&mut self, i: u32, cx: &mut Cx<'_>) {
        let align = u64::from(self.limits.align);
        let p = &mut self.pieces[i as usize];
        if p.upto == p.end {
            return self.end(i, None, cx);
        }
        (p.at, p.upto, p.bad) = (p.upto, p.end.min(p.upto + align), 0);
        self.read_begin(i, cx);
    }

    /// When too many legs are missing, pieces that wait for nothing of a leg end at once; others when it is back.
    pub(super) fn pump_failed(&mut self, cx: &mut Cx<'_>) {
        if self.run != Run::Failed {
            return;
        }
        for i in std::mem::take(&mut self.held) {
            self.end(i, Some(ErrorKind::Gone), cx);
        }
        while let Some(i) = self.journal.waiting.pop_front() {
            self.end(i, Some(ErrorKind::Gone), cx);
        }
        for j in std::mem::take(&mut self.held_jobs) {
            let id = self.jobs[j as usize].id;
            cx.requests[id].fail(ErrorKind::Gone);
            self.finish(j, cx);
        }
    }

    /// Whether the parity below leg offset `end` can be relied on: always with a journal.
    #[inline]
    pub(super) fn parity_is_right(&self, end: u64) -> bool {
        end <= self.rebuild.parity_upto
    }

    /// Bytes of legs that are present and not rebuilt, and of parity that is not computed.
    pub(super) fn bytes_to_rebuild(&self) -> u64 {
        let data = self.geometry.data;
        let legs = bits(self.legs_in()).map(|l| data - self.legs[l].durable.min(data));
        legs.sum::<u64>() + (data - self.rebuild.parity_upto.min(data))
    }

    /// How much of an extent one request of a rebuild covers.
    pub(super) fn rebuild_len(&self) -> ByteLen {
        ByteLen(self.rebuild.len.clamp(self.lost.unit(), self.rebuild_chunk))
    }
}
