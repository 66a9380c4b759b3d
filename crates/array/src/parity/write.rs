//! Jobs and pieces, and the way of a write.
//!
//! A *job* is a client's request. It is cut into *pieces* as room in its window allows. A piece of a write is a rectangle:
//! an extent of leg offsets within a row, and consecutive chunks of the row, all of which change there. A request that
//! begins or ends inside a chunk makes up to three rectangles of a row; they do not overlap and go at the same time.
//!
//! **When legs come and go.** A piece holds its extent from the plan to the end, and names the legs that it writes. A leg that
//! goes is struck off, and does not get back on when it comes again: it is rebuilt then, and the rebuild waits for the
//! extent. So a change of the set ends no step, it only delays the next one ([`Parity::go_on`]):
//!
//! 1. *Read.* Begins anew only when a leg goes that has not answered yet, or cannot read. What has been read stays right, for
//!    nobody else changes the extent.
//! 2. *Journal.* Begins when the superblocks name the legs as they are. An entry that leaves out a leg before that record is
//!    there would change the parity beside data that counts as current.
//! 3. *Place.* Begins when the entry is in the journals of all its legs, or of those that are left and the superblocks say so:
//!    a start asks no part of a leg that is out, or that came in later. From the first part of an entry on the piece
//!    cannot fail any more, unless the array does: a start may find the entry whole.
//! 4. *Answer.* When all legs have answered and the superblocks name those that did not take it.

use super::{bits, Parity, Run, Tag, NONE};
use crate::mirror::locks::Claim;
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

/// How the parity of a piece is found, and the legs that are read for it.
enum Way {
    Full,
    NoParity,
    Modify(u16),
    Reconstruct(u16),
    Impossible,
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
                self.cut_write(j);
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

    fn cut_write(&mut self, j: u32) {
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
            self.claim(i, Claim::Write);
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

    pub(super) fn claim(&mut self, i: u32, claim: Claim) {
        let p = &mut self.pieces[i as usize];
        p.claims = true;
        p.phase = Phase::Waiting;
        if self.locks.enter(i, p.start, p.end, claim) {
            self.ready.push_back(i);
        }
    }

    /// A piece has its extent.
    pub(super) fn begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        match self.pieces[i as usize].kind {
            _ if self.run == Run::Failed => self.end(i, Some(ErrorKind::Gone), cx),
            Kind::Read => self.reconstruct(i, cx),
            Kind::Write => self.go_on(i, cx),
            Kind::Rebuild(_) => self.rebuild_begin(i, cx),
            Kind::Free => unreachable!("a piece that is over has no extent"),
        }
    }

    fn way(&self, p: &Piece) -> Way {
        let row = self.geometry.row(p.start);
        let parity = 1u16 << self.geometry.parity(row);
        let changed = (p.first..p.first + p.count).fold(0, |m, i| m | 1 << self.geometry.leg(row, i));
        let others = self.all() & !parity & !changed;
        let mut readable = self.readable(p.end) & !p.bad & !self.lost.legs(p.start, p.end);
        if !self.parity_is_right(p.end) {
            readable &= !parity;
        }
        if self.legs_in() & parity == 0 {
            return Way::NoParity;
        }
        if others == 0 {
            return Way::Full;
        }
        let modify = (changed | parity) & !readable == 0;
        let reconstruct = others & !readable == 0;
        match (modify, reconstruct) {
            (true, true) if others.count_ones() <= changed.count_ones() + 1 => Way::Reconstruct(others),
            (true, _) => Way::Modify(changed | parity),
            (_, true) => Way::Reconstruct(others),
            _ => Way::Impossible,
        }
    }

    /// A write takes its next step, as soon as the superblocks name the legs as they are.
    pub(super) fn go_on(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let early =
            self.planted.journaled_before_out && p.phase == Phase::Reading && self.run == Run::Running;
        if self.is_held() && !early {
            return self.held.push(i);
        }
        match p.phase {
            Phase::Reading if p.again => {
                self.drop_sum(i, cx);
                self.plan(i, cx);
            }
            Phase::Reading if self.journaled && !self.planted.journal_skipped => self.enter_journal(i, cx),
            Phase::Reading | Phase::Journal => self.place(i, cx),
            Phase::Waiting | Phase::Direct | Phase::Place => self.plan(i, cx),
        }
    }

    /// Decides which legs are read and written, and reads.
    fn plan(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let row = self.geometry.row(p.start);
        let way = self.way(&p);
        let reads = match way {
            Way::Impossible => return self.end(i, Some(ErrorKind::Unreadable), cx),
            Way::Modify(legs) | Way::Reconstruct(legs) => legs,
            Way::Full | Way::NoParity => 0,
        };
        match way {
            Way::Full => self.count.full_stripe_writes += 1,
            Way::NoParity => self.count.parityless_writes += 1,
            Way::Modify(_) => self.count.read_modify_writes += 1,
            _ => self.count.reconstruct_writes += 1,
        }
        let mut legs = (p.first..p.first + p.count).fold(0, |m, x| m | 1 << self.geometry.leg(row, x));
        if !(self.planted.parity_kept && matches!(way, Way::Modify(_) | Way::Reconstruct(_))) {
            legs |= 1 << self.geometry.parity(row);
        }
        let sum = match way {
            Way::NoParity => Payload::NONE,
            _ => cx.pool.allocate(p.len()),
        };
        let legs = legs & self.legs_in();
        let p = &mut self.pieces[i as usize];
        (p.legs, p.sum, p.tried) = (legs, sum, 0);
        self.read_legs(i, reads, cx);
        if reads == 0 {
            self.parity_known(i, cx);
        }
    }

    /// Reads the piece's extent from these legs; each is xored into the sum when it is back.
    pub(super) fn read_legs(&mut self, i: u32, legs: u16, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        (p.phase, p.reads, p.again) = (Phase::Reading, legs, false);
        p.flying = legs.count_ones() as u16;
        let (at, len) = (p.at, p.len());
        let parent = self.parent(i);
        for leg in bits(legs) {
            let payload = cx.pool.allocate_unfilled(len);
            let draft = Draft {
                op: Op::Read,
                flags: Flags::NONE,
                offset: ByteOffset(at),
                len,
                payload,
                cookie: Tag::Part.cookie(leg, i),
            };
            self.send(leg, parent, draft, cx);
            cx.pool.release(payload);
        }
    }

    pub(super) fn parent(&self, i: u32) -> ReqId {
        match self.pieces[i as usize].job {
            NONE => ReqId::NONE,
            job => self.jobs[job as usize].id,
        }
    }

    /// The client's data of chunk `index` in a piece.
    pub(super) fn data(&self, p: &Piece, index: u8) -> Payload {
        let job = &self.jobs[p.job as usize];
        job.payload.slice(ByteLen(self.geometry.above(p.at, index) - job.start))
    }

    /// What was read is in the sum: add the new data.
    fn parity_known(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let stores = self.jobs[p.job as usize].op == Op::Write;
        for index in (p.first..p.first + p.count).filter(|_| stores && !p.sum.is_none()) {
            cx.pool.xor(self.data(&p, index), p.sum, p.len());
        }
        self.go_on(i, cx);
    }

    /// Writes data and parity.
    pub(super) fn place(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        p.phase = Phase::Place;
        p.tried = 0;
        let legs = p.legs;
        p.flying = legs.count_ones() as u16;
        if self.planted.lock_left_early && std::mem::take(&mut p.claims) {
            self.locks.leave(i, &mut self.ready);
        }
        for leg in bits(legs) {
            self.place_part(i, leg, cx);
        }
        if legs == 0 {
            self.end(i, Some(ErrorKind::Gone), cx);
        }
    }

    fn place_part(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let job = self.jobs[p.job as usize];
        let index = self.geometry.index(self.geometry.row(p.start), leg);
        let (op, payload) = match (index, job.op) {
            (None, _) => (Op::Write, p.sum),
            (Some(index), Op::Write) => (Op::Write, self.data(&p, index)),
            (Some(_), Op::Trim) if p.zeroing >> leg & 1 == 0 => (Op::Trim, Payload::NONE),
            (Some(_), _) => (Op::WriteZeroes, Payload::NONE),
        };
        let flags = if self.journaled { Flags::NONE } else { job.flags };
        let cookie = Tag::Part.cookie(leg, i);
        let draft = Draft { op, flags, offset: ByteOffset(p.at), len: p.len(), payload, cookie };
        self.send(leg, job.id, draft, cx);
    }

    /// A child request of a piece is back.
    pub(super) fn part_done(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let error = cx.requests[id].error.map(|e| e.kind);
        match (p.phase, error) {
            (Phase::Reading, None) => {
                let payload = cx.requests[id].payload;
                cx.pool.xor(payload, p.sum, p.len());
                self.pieces[i as usize].reads &= !(1 << leg);
            }
            (_, None) => {}
            (_, Some(ErrorKind::Gone)) => self.give_up(leg, ErrorKind::Gone, cx),
            (Phase::Direct | Phase::Reading, Some(_)) => {
                self.count.read_errors += 1;
                self.pieces[i as usize].bad |= 1 << leg;
                self.pieces[i as usize].again = true;
            }
            (Phase::Place, Some(ErrorKind::Unsupported)) if p.zeroing >> leg & 1 == 0 => {
                self.pieces[i as usize].zeroing |= 1 << leg;
                return self.place_part(i, leg, cx);
            }
            (_, Some(_)) => {
                let may = self.retries && p.tried >> leg & 1 == 0 && p.kind == Kind::Write;
                if may && p.legs >> leg & 1 != 0 {
                    self.pieces[i as usize].tried |= 1 << leg;
                    return match p.phase {
                        Phase::Journal => self.journal_part(i, leg, cx),
                        _ => self.place_part(i, leg, cx),
                    };
                }
                self.give_up(leg, ErrorKind::WriteFailed, cx);
            }
        }
        let parent = self.parent(i);
        let p = &mut self.pieces[i as usize];
        p.flying -= 1;
        if p.flying == 0 {
            if parent != ReqId::NONE {
                cx.absorb(parent, id);
            }
            self.phase_done(i, cx);
        }
    }

    /// All parts of a piece's phase are back.
    fn phase_done(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        if self.run == Run::Failed {
            return self.end(i, Some(ErrorKind::Gone), cx);
        }
        match (p.kind, p.phase) {
            (Kind::Read, Phase::Direct) => self.direct_done(i, cx),
            (Kind::Read, Phase::Reading) => self.reconstructed(i, cx),
            (Kind::Read, _) => self.repaired(i, cx),
            (Kind::Rebuild(_), phase) => self.rebuild_part_done(i, phase, cx),
            (Kind::Write, Phase::Reading) if !p.again => self.parity_known(i, cx),
            (Kind::Write, Phase::Reading | Phase::Journal) => self.go_on(i, cx),
            (Kind::Write, _) => {
                bits(p.legs).for_each(|leg| self.count.sectors_mended += self.lost.mend(leg, p.at, p.upto));
                self.end(i, None, cx);
            }
            (Kind::Free, _) => unreachable!("a piece that is over has no parts"),
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
            self.locks.leave(i, &mut self.ready);
        }
        self.pieces[i as usize].kind = Kind::Free;
        self.free_pieces.push(i);
        self.stir = true;
        if p.job == NONE {
            self.rebuild.piece = NONE;
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
        } else {
            self.finish(j, cx);
        }
    }

    pub(super) fn finish(&mut self, j: u32, cx: &mut Cx<'_>) {
        let id = std::mem::replace(&mut self.jobs[j as usize].id, ReqId::NONE);
        self.free_jobs.push(j);
        cx.finish(id);
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

    pub(super) fn flush_part_done(&mut self, id: ReqId, leg: usize, j: u32, cx: &mut Cx<'_>) {
        if let Some(error) = cx.requests[id].error {
            self.give_up(leg, error.kind, cx);
        }
        let job = &mut self.jobs[j as usize];
        job.flying -= 1;
        let parent = job.id;
        if job.flying == 0 {
            cx.absorb(parent, id);
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
