//! The way of a write, from its plan to its answer.
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

use super::piece::{Answer, Kind, Phase, Piece};
use super::work::Ready;
use super::{NONE, Parity, Run, Tag, bits};
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Op, Payload, ReqId};

/// How the parity of a piece is found, and the legs that are read for it.
enum Way {
    Full,
    NoParity,
    Modify(u16),
    Reconstruct(u16),
    Impossible,
}

impl Parity {
    /// A piece has its extent.
    pub(super) fn begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        match self.pieces[i as usize].kind {
            _ if self.run == Run::Failed => self.end(i, Some(ErrorKind::Gone), cx),
            Kind::Read => self.reconstruct(i, cx),
            Kind::Write => self.go_on(i, cx),
            Kind::Rebuild(_) => self.rebuild_begin(i, cx),
            Kind::Scrub => self.scrub_begin(i, cx),
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
            self.work.add(Ready::Failed); // where the array is that
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
            _ if self.zeroes_row(&p) => Payload::NONE,
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

    /// Whether a piece leaves zeros in all chunks of its row: then the parity is zeros too, and goes the way of the data.
    pub(super) fn zeroes_row(&self, p: &Piece) -> bool {
        p.job != NONE
            && self.jobs[p.job as usize].op != Op::Write
            && u64::from(p.count) == u64::from(self.geometry.data_legs())
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
            self.locks.leave(i, &mut self.work.granted);
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
            (None, _) if !self.zeroes_row(&p) => (Op::Write, p.sum),
            (Some(index), Op::Write) => (Op::Write, self.data(&p, index)),
            (_, Op::Trim) if p.zeroing >> leg & 1 == 0 => (Op::Trim, Payload::NONE),
            _ => (Op::WriteZeroes, Payload::NONE),
        };
        let flags = if self.journaled { Flags::NONE } else { job.flags };
        let cookie = Tag::Part.cookie(leg, i);
        let draft = Draft { op, flags, offset: ByteOffset(p.at), len: p.len(), payload, cookie };
        self.send(leg, job.id, draft, cx);
    }

    /// A child request of a piece is back.
    pub(super) fn part_done(&mut self, answer: Answer, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        match (p.phase, answer.error) {
            (Phase::Direct, None) => self.take_buffer(&p, answer.id, cx),
            (Phase::Reading, None) => {
                let payload = cx.requests[answer.id].payload;
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
            answer.explain(parent, cx);
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
            (Kind::Scrub, phase) => self.scrub_part_done(i, phase, cx),
            (Kind::Write, Phase::Reading) if !p.again => self.parity_known(i, cx),
            (Kind::Write, Phase::Reading | Phase::Journal) => self.go_on(i, cx),
            (Kind::Write, _) => {
                bits(p.legs).for_each(|leg| self.count.sectors_mended += self.lost.mend(leg, p.at, p.upto));
                self.end(i, None, cx);
            }
            (Kind::Free, _) => unreachable!("a piece that is over has no parts"),
        }
    }
}
