//! Jobs and pieces: what a request is cut into, and how each of them ends.
//!
//! A *job* is a client's request. It is cut into *pieces* as room in its window allows. A piece of a write is a rectangle:
//! an extent of leg offsets within a row, and consecutive chunks of the row, all of which change there. A request that
//! begins or ends inside a chunk makes up to three rectangles of a row; they do not overlap and go at the same time. A rebuild and
//! a scrub have pieces of no job.

use super::work::Ready;
use super::{NONE, Parity, Run, Tag, bits};
use crate::locks::Claim;
use crate::member::set::Set;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Op, Payload, ReqId};

/// A client's request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The request; none when the place is free.
    pub(super) id: ReqId,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) payload: Payload,
    pub(super) start: u64,
    pub(super) end: u64,
    /// What is not cut yet: an address for reads, a leg offset for writes.
    pub(super) cursor: u64,
    /// Where that ends.
    pub(super) upto: u64,
    /// Pieces, or parts of a flush, under way.
    pub(super) flying: u32,
}

/// What a piece does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Free,
    Read,
    /// Write, trim or write-zeroes.
    Write,
    /// The chunk of leg `.0` is made from the others.
    Rebuild(u8),
    /// All legs are compared.
    Scrub,
}

/// Where a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Waits for its extent, for room in the journal, or for the superblocks.
    Waiting,
    /// The data is read from its own leg.
    Direct,
    /// Other legs are read.
    Reading,
    /// The journals are written.
    Journal,
    /// Data and parity are written.
    Place,
}

/// How a child request ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// The request; none when it hangs and was given up.
    pub(super) id: ReqId,
    pub(super) error: Option<ErrorKind>,
}

impl Answer {
    /// Of a request that nobody waits for any more.
    pub(super) const LOST: Answer = Answer { id: ReqId::NONE, error: Some(ErrorKind::Gone) };

    /// Of a request that is back.
    pub(super) fn of(id: ReqId, cx: &Cx<'_>) -> Answer {
        Answer { id, error: cx.requests[id].error.map(|error| error.kind) }
    }

    /// `parent` waited for it until now.
    pub(super) fn explain(self, parent: ReqId, cx: &mut Cx<'_>) {
        if self.id != ReqId::NONE && parent != ReqId::NONE {
            cx.absorb(parent, self.id);
        }
    }
}

/// A piece under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) phase: Phase,
    pub(super) job: u32,
    /// The extent of leg offsets that it claims.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The part of it that a read is about now.
    pub(super) at: u64,
    pub(super) upto: u64,
    /// The chunks of the row.
    pub(super) first: u8,
    pub(super) count: u8,
    /// Child requests that are not back.
    pub(super) flying: u16,
    /// Legs that could not read, that have not answered a read, that are to be written and have not gone since, that
    /// failed a write once, that take a trim as write-zeroes.
    pub(super) bad: u16,
    pub(super) reads: u16,
    pub(super) legs: u16,
    pub(super) tried: u16,
    pub(super) zeroing: u16,
    /// Whether a read failed or was of a leg that went: it is repeated when all are back.
    pub(super) again: bool,
    /// Whether it claims its extent.
    pub(super) claims: bool,
    /// The new parity, or what is reconstructed; of the piece's own.
    pub(super) sum: Payload,
    pub(super) slot: u32,
}

impl Piece {
    #[inline]
    pub(super) fn len(&self) -> ByteLen {
        ByteLen(self.upto - self.at)
    }
}

impl Parity {
    /// A client's read, write, trim or write-zeroes.
    pub(super) fn admit(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let r = &cx.requests[id];
        let (start, end) = (r.offset.0, r.offset.0 + r.len.0);
        let g = &self.geometry;
        let (cursor, upto) = match r.op {
            Op::Read => (start, end),
            _ if g.place(start).0 == g.place(end - 1).0 => {
                let (first, last) = (g.place(start), g.place(end - 1));
                if first.1 == last.1 {
                    (first.2, last.2 + 1)
                } else {
                    (first.0 << g.chunk_bits, (first.0 + 1) << g.chunk_bits)
                }
            }
            _ => (g.place(start).0 << g.chunk_bits, (g.place(end - 1).0 + 1) << g.chunk_bits),
        };
        let (op, flags, payload) = (r.op, r.flags, r.payload);
        let job = Job { id, op, flags, payload, start, end, cursor, upto, flying: 0 };
        let j = self.new_job(job);
        if self.serial {
            self.line.push_back(j);
            if self.line.len() > 1 {
                return;
            }
        }
        self.feed(j, cx);
    }

    /// A request of a client begins.
    pub(super) fn begin_request(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        let refused = match request.op {
            _ if self.run != Run::Running => Some(ErrorKind::Gone),
            Op::Reset => Some(ErrorKind::Unsupported),
            _ => None,
        };
        match request.op {
            _ if let Some(kind) = refused => {
                cx.requests[id].fail(kind);
                cx.finish(id);
            }
            Op::Flush => self.admit_flush(id, cx),
            _ if request.len == ByteLen::ZERO => cx.finish(id),
            _ => self.admit(id, cx),
        }
    }

    pub(super) fn new_job(&mut self, job: Job) -> u32 {
        match self.free_jobs.pop() {
            Some(j) => {
                self.jobs[j as usize] = job;
                j
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        }
    }

    /// Cuts pieces from a job until its window is full.
    pub(super) fn feed(&mut self, j: u32, cx: &mut Cx<'_>) {
        while self.jobs[j as usize].flying < super::WINDOW {
            let job = self.jobs[j as usize];
            if job.cursor >= job.upto {
                break;
            }
            if job.op == Op::Read {
                self.cut_read(j, cx);
            } else {
                self.cut_write(j, cx);
            }
        }
    }

    fn cut_read(&mut self, j: u32, cx: &mut Cx<'_>) {
        let job = &mut self.jobs[j as usize];
        let (_, index, below) = self.geometry.place(job.cursor);
        let chunk = self.geometry.chunk();
        let len = (chunk - (below & (chunk - 1))).min(job.upto - job.cursor);
        job.cursor += len;
        job.flying += 1;
        let i = self.new_piece(Kind::Read, j, below, below + len, index, 1);
        self.read_begin(i, cx);
    }

    fn cut_write(&mut self, j: u32, cx: &mut Cx<'_>) {
        let (job, g) = (&mut self.jobs[j as usize], &self.geometry);
        let (row, chunk) = (g.row(job.cursor), g.chunk());
        let base = row * chunk * u64::from(g.data_legs());
        let width = chunk * u64::from(g.data_legs());
        let (from, to) = (job.start.saturating_sub(base), (job.end - base).min(width));
        let (first, last) = (from >> g.chunk_bits, (to - 1) >> g.chunk_bits);
        let (x, y) = (from & (chunk - 1), ((to - 1) & (chunk - 1)) + 1);
        let column = job.cursor & (chunk - 1);
        let (low, high) = (first + u64::from(column < x), last + 1 - u64::from(column >= y));
        let mut next = ((column / self.piece) + 1) * self.piece;
        next = next.min(job.upto - (row << g.chunk_bits));
        for edge in [x, y] {
            if edge > column {
                next = next.min(edge);
            }
        }
        let start = job.cursor;
        let end = (row << g.chunk_bits) + next;
        job.cursor = end;
        if low < high {
            job.flying += 1;
            let i = self.new_piece(Kind::Write, j, start, end, low as u8, (high - low) as u8);
            self.claim(i, Claim::Write, cx);
        }
    }

    pub(super) fn new_piece(
        &mut self,
        kind: Kind,
        job: u32,
        start: u64,
        end: u64,
        first: u8,
        count: u8,
    ) -> u32 {
        let piece = Piece {
            kind,
            phase: Phase::Waiting,
            job,
            start,
            end,
            at: start,
            upto: end,
            first,
            count,
            flying: 0,
            bad: 0,
            reads: 0,
            legs: 0,
            tried: 0,
            zeroing: 0,
            again: false,
            claims: false,
            sum: Payload::NONE,
            slot: NONE,
        };
        match self.free_pieces.pop() {
            Some(i) => {
                self.pieces[i as usize] = piece;
                i
            }
            None => {
                self.pieces.push(piece);
                self.pieces.len() as u32 - 1
            }
        }
    }

    pub(super) fn claim(&mut self, i: u32, claim: Claim, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        p.claims = true;
        p.phase = Phase::Waiting;
        let (start, end) = (p.start, p.end);
        if p.job != NONE {
            self.scrub_gives_way(start, end, cx);
        }
        if self.locks.enter(i, start, end, claim) {
            self.work.granted.push_back(i);
        }
    }

    /// A piece is over.
    pub(super) fn end(&mut self, i: u32, error: Option<ErrorKind>, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        debug_assert_eq!(p.flying, 0, "a piece ends when its children are back");
        cx.pool.release(p.sum);
        if p.slot != NONE {
            self.journal.applied(p.slot);
        }
        if p.claims {
            self.locks.leave(i, &mut self.work.granted);
        }
        self.pieces[i as usize].kind = Kind::Free;
        self.free_pieces.push(i);
        if p.job == NONE || self.run != Run::Running || !self.lost.is_empty() {
            self.stir();
        } else if self.journal.wants_checkpoint() {
            self.work.add(Ready::Checkpoint);
        }
        if p.job == NONE {
            match p.kind {
                Kind::Scrub => self.scrub.piece = NONE,
                _ => self.rebuild.piece = NONE,
            }
            return;
        }
        let job = &mut self.jobs[p.job as usize];
        job.flying -= 1;
        if let Some(kind) = error {
            let at = self.geometry.above(p.at, p.first) - job.start;
            let end = self.geometry.above(p.upto - 1, p.first + p.count - 1) + 1 - job.start;
            cx.requests[job.id].fail_part(kind, ByteLen(at), ByteLen(end - at));
            if self.run == Run::Failed {
                job.cursor = job.upto;
            }
        }
        self.feed(p.job, cx);
        self.try_finish(p.job, cx);
    }

    /// Answers a job when nothing of it is left.
    pub(super) fn try_finish(&mut self, j: u32, cx: &mut Cx<'_>) {
        let job = self.jobs[j as usize];
        if job.id == ReqId::NONE || job.flying > 0 || job.cursor < job.upto {
            return;
        }
        if self.is_held() && job.op != Op::Read {
            self.held_jobs.push(j);
            self.work.add(Ready::Failed); // where the array is that
        } else {
            self.finish(j, cx);
        }
    }

    pub(super) fn finish(&mut self, j: u32, cx: &mut Cx<'_>) {
        let id = std::mem::replace(&mut self.jobs[j as usize].id, ReqId::NONE);
        self.free_jobs.push(j);
        cx.finish(id);
        if self.growing.is_on() {
            self.work.add(Ready::Grow);
        }
        if self.serial && self.line.front() == Some(&j) {
            self.line.pop_front();
            if let Some(&next) = self.line.front() {
                self.feed(next, cx);
            }
        }
    }

    /// A client's flush. With a journal everything acknowledged is durable already.
    pub(super) fn admit_flush(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let legs = if self.journaled { 0 } else { self.legs_in() };
        let flying = legs.count_ones();
        let (flags, payload) = (Flags::NONE, Payload::NONE);
        let job = Job { id, op: Op::Flush, flags, payload, start: 0, end: 0, cursor: 0, upto: 0, flying };
        let j = self.new_job(job);
        for leg in bits(legs) {
            self.send(leg, id, Draft { cookie: Tag::Flush.cookie(leg, j), ..FLUSH }, cx);
        }
        self.try_finish(j, cx);
    }

    pub(super) fn flush_part_done(&mut self, answer: Answer, leg: usize, j: u32, cx: &mut Cx<'_>) {
        if let Some(kind) = answer.error {
            self.give_up(leg, kind, cx);
        }
        let job = &mut self.jobs[j as usize];
        job.flying -= 1;
        let parent = job.id;
        if job.flying == 0 {
            answer.explain(parent, cx);
            if self.run == Run::Failed {
                cx.requests[parent].fail(ErrorKind::Gone);
            }
        }
        self.try_finish(j, cx);
    }
}

/// A flush of a leg, all but its note.
pub(super) const FLUSH: Draft = Draft {
    op: Op::Flush,
    flags: Flags::NONE,
    offset: ByteOffset::ZERO,
    len: ByteLen::ZERO,
    payload: Payload::NONE,
    cookie: 0,
};
