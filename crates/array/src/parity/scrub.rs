//! Scrub: all legs are read, and where they do not xor to zero the parity is written anew.
//!
//! A pass goes over the legs once, in pieces of `rebuild_chunk` within one row, at most `scrub.rate` bytes of each leg a second
//! ([`crate::scrub`]). It waits while a leg is missing or not rebuilt, or the parity is not computed: there the xor is wrong by
//! right. What is on the list of lost sectors is left out, and counted.
//!
//! A piece claims its extent as a write does, so no row is half written there.
//!
//! **Which side wins.**
//! - One leg returns an error: what it lacks is the xor of the others, and is written back, as a read does it. Where several fail,
//!   the blocks are tried one by one, then the sectors; a block of which two legs lack the same sector is counted as unreadable.
//! - All return, and do not xor to zero: nobody can say which of them is wrong, for the legs keep no checksums of data. The
//!   blocks are counted and reported. With `on_mismatch = "repair"` the parity is made from the data: reads have shown the
//!   data, so none comes undone, and with all legs there nothing that a client sees changes. With `"check"` nothing is written.
//!
//! A mend needs no journal. It writes one leg, which becomes the xor of legs that nobody changes meanwhile; a cut leaves each of its
//! sectors as it was or right. An entry that is still in the journal may put older parity back at a start, together with the
//! data that it belongs to.
//!
//! **Clients go first.** A piece that is being read does not stand in a client's way: it gives its extent up and is read again
//! later. The place of a pass is not kept over a restart.
//!
//! Cost: one buffer of a piece and one for each leg while they are read; one test for each extent that a client claims.

use super::layout::PAGE;
use super::piece::{Kind, Phase};
use super::{NONE, Parity, Run, SCRUB, Tag, bits};
use crate::locks::Claim;
use crate::scrub::{Course, PATIENCE, Pass};
use nandu_base::{
    ByteLen, ByteOffset, Cx, DeviceEvent, Draft, Flags, Instant, Notice, Op, PayloadPool, ReqId, Sector,
    Stamp,
};

/// What is done with the part of a piece that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Work {
    /// All legs are read and compared.
    #[default]
    Compare,
    /// This leg is made from the others.
    Make(usize),
}

/// The scrub of a parity array.
#[derive(Debug)]
pub(super) struct Scrub {
    pub(super) course: Course,
    /// The piece under way.
    pub(super) piece: u32,
    mends: bool,
    /// It has given its extent up.
    gave_way: bool,
    work: Work,
    /// Length of a part: shorter where something cannot be read.
    unit: u64,
    /// The blocks that were counted last, as differing and as unreadable.
    counted: [u64; 2],
}

impl Default for Scrub {
    fn default() -> Scrub {
        let (course, work) = (Course::default(), Work::default());
        Scrub {
            course,
            piece: NONE,
            mends: false,
            gave_way: false,
            work,
            unit: u64::MAX,
            counted: [u64::MAX; 2],
        }
    }
}

impl Scrub {
    /// The array is opened; its timer was cancelled.
    pub(super) fn forget(&mut self) {
        self.course.forget();
    }
}

impl Parity {
    /// Whether every leg has what it should have, so that all xor to zero.
    fn is_even(&self) -> bool {
        self.legs_in() == self.all() && !self.rebuilds()
    }

    /// Moves the pass on.
    pub(super) fn pump_scrub(&mut self, cx: &mut Cx<'_>) {
        if self.run != Run::Running || self.scrub.piece != NONE {
            return;
        }
        if self.scrub.course.pass.is_none() && !self.scrub_is_due(cx) {
            return;
        }
        if self.is_held() || self.growing.holds() || !self.is_even() {
            return; // comes again when the rebuild is over
        }
        while let Some(pass) = self.scrub.course.pass.filter(|_| self.scrub.piece == NONE) {
            if pass.at >= self.geometry.data {
                self.pass_over(pass, cx);
            } else if let Some(at) = self.scrub.course.rests_until(cx.now) {
                return self.arm_scrub(at, cx);
            } else {
                self.scrub_next(pass, cx);
            }
        }
    }

    /// Begins a pass whose time has come.
    fn scrub_is_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(due) = self.scrub.course.due(self.maintenance.every, cx.now) else { return false };
        if cx.now < due {
            self.arm_scrub(due, cx);
            return false;
        }
        self.scrub.course.begin(self.maintenance.mends, cx.now);
        true
    }

    fn arm_scrub(&mut self, at: Instant, cx: &mut Cx<'_>) {
        if self.scrub.course.arms(at) {
            cx.wake_at(SCRUB, at);
        }
    }

    fn pass_over(&mut self, pass: Pass, cx: &mut Cx<'_>) {
        self.scrub.course.pass = None;
        self.count.scrub.passes += 1;
        let Pass { differing, unreadable, .. } = pass;
        cx.event(DeviceEvent::Notice(Notice::Scrubbed { differing, unreadable }));
        self.scrub_is_due(cx);
    }

    fn scrub_next(&mut self, pass: Pass, cx: &mut Cx<'_>) {
        let start = pass.at;
        let row_end = (self.geometry.row(start) + 1) << self.geometry.chunk_bits;
        let mut end = row_end.min(start + self.rebuild_chunk);
        let lost = |end: u64| self.lost.legs(start, end) != 0 && !self.planted.lost_compared;
        if lost(end) {
            end = start + PAGE;
        }
        let skips = lost(end) || pass.given_up >= PATIENCE;
        self.scrub.course.pay(end - start, self.maintenance.rate, cx.now);
        if skips {
            self.count.scrub.skipped_bytes += end - start;
            return self.scrub.course.passed(end);
        }
        let i = self.new_piece(Kind::Scrub, NONE, start, end, 0, 0);
        let s = &mut self.scrub;
        (s.piece, s.mends, s.gave_way) = (i, pass.mends, false);
        (s.work, s.unit) = (Work::Compare, u64::MAX);
        if self.planted.scrub_unlocked {
            self.work.granted.push_back(i);
        } else {
            self.claim(i, Claim::Write, cx);
        }
    }

    /// A client's piece comes: a piece that is only read does not stand in its way.
    #[inline]
    pub(super) fn scrub_gives_way(&mut self, start: u64, end: u64, cx: &mut Cx<'_>) {
        let i = self.scrub.piece;
        if i != NONE {
            let p = &self.pieces[i as usize];
            let meets = p.claims && p.start < end && start < p.end;
            if meets && self.scrub.work == Work::Compare {
                self.give_way(i, cx);
            }
        }
    }

    fn give_way(&mut self, i: u32, cx: &mut Cx<'_>) {
        let has_begun = self.locks.holds(i);
        self.locks.leave(i, &mut self.work.granted);
        self.pieces[i as usize].claims = false;
        self.scrub.gave_way = true;
        self.scrub.course.gave_up();
        if !has_begun {
            self.end(i, None, cx);
        }
    }

    /// The piece is ours.
    pub(super) fn scrub_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let lost = self.lost.legs(p.start, p.end) != 0 && !self.planted.lost_compared;
        if self.scrub.gave_way || self.is_held() || lost || !self.is_even() {
            return self.end(i, None, cx);
        }
        self.read_part(i, cx);
    }

    /// Reads the legs that the work on the part under way needs.
    fn read_part(&mut self, i: u32, cx: &mut Cx<'_>) {
        self.drop_sum(i, cx);
        let sum = cx.pool.allocate(self.pieces[i as usize].len());
        let p = &mut self.pieces[i as usize];
        (p.sum, p.bad) = (sum, 0);
        let legs = match self.scrub.work {
            Work::Compare => self.all(),
            Work::Make(leg) => self.all() & !(1 << leg),
        };
        self.read_legs(i, legs, cx);
    }

    pub(super) fn scrub_part_done(&mut self, i: u32, phase: Phase, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        if self.scrub.gave_way || !self.is_even() || p.again && p.bad == 0 {
            return self.end(i, None, cx); // it is compared again
        }
        match (phase, self.scrub.work) {
            (Phase::Place, _) => {
                self.count.scrub.mended_bytes += p.len().0;
                self.next_part(i, cx);
            }
            (_, Work::Compare) if p.bad != 0 => self.part_unreadable(i, cx),
            (_, Work::Compare) => self.compare(i, cx),
            (_, Work::Make(_)) if p.bad != 0 => {
                self.scrub.course.gave_up();
                self.end(i, None, cx);
            }
            (_, Work::Make(leg)) => self.write_made(i, leg, cx),
        }
    }

    /// Writes to a leg what the sum of the others says.
    fn write_made(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        (p.phase, p.flying, p.legs) = (Phase::Place, 1, 1 << leg);
        let (offset, len, payload) = (ByteOffset(p.at), p.len(), p.sum);
        let cookie = Tag::Part.cookie(leg, i);
        let draft = Draft { op: Op::Write, flags: Flags::BACKGROUND, offset, len, payload, cookie };
        self.send(leg, ReqId::NONE, draft, cx);
    }

    /// Some leg could not read the part: what one leg lacks is made, as near to it as possible.
    fn part_unreadable(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        let (len, sector) = (p.len().0, self.lost.unit());
        if p.bad.count_ones() == 1 && len <= PAGE.max(sector) {
            // Its part was not added to the sum.
            let leg = p.bad.trailing_zeros() as usize;
            self.count.repairs += 1;
            self.scrub.work = Work::Make(leg);
            self.write_made(i, leg, cx);
        } else if len <= sector {
            let at = p.at;
            let new = self.new_block(1, at);
            self.count.scrub.unreadable += new;
            self.scrub.course.found(0, new);
            self.next_part(i, cx);
        } else {
            self.scrub.unit = if len > PAGE { PAGE } else { sector };
            p.upto = p.at + self.scrub.unit;
            self.read_part(i, cx);
        }
    }

    /// 1 when the block at leg offset `at` was not counted yet as differing (0) or unreadable (1).
    fn new_block(&mut self, what: usize, at: u64) -> u64 {
        u64::from(std::mem::replace(&mut self.scrub.counted[what], at / PAGE) != at / PAGE)
    }

    fn compare(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = self.pieces[i as usize];
        let (mut blocks, mut first) = (0, None);
        let odd: Vec<u64> = (0..p.len().sectors()).filter(|&k| !is_zero(cx.pool, p.sum, k)).collect();
        for sector in odd {
            let at = p.at + sector * nandu_base::SECTOR;
            blocks += self.new_block(0, at);
            first = first.or(Some(at / PAGE * PAGE));
        }
        let Some(first) = first else { return self.next_part(i, cx) };
        self.count.scrub.differing += blocks;
        self.scrub.course.found(blocks, 0);
        let (at, len) = (ByteOffset(self.geometry.above(first, 0)), ByteLen(blocks * PAGE));
        let mends = self.scrub.mends;
        cx.event(DeviceEvent::Notice(Notice::Differ { at, len, mends }));
        if !mends {
            return self.next_part(i, cx);
        }
        let row = self.geometry.row(p.start);
        let leg =
            if self.planted.scrub_mends_data { self.geometry.leg(row, 0) } else { self.geometry.parity(row) };
        self.scrub.work = Work::Make(leg);
        self.read_part(i, cx);
    }

    /// Goes on behind the part under way.
    fn next_part(&mut self, i: u32, cx: &mut Cx<'_>) {
        let p = &mut self.pieces[i as usize];
        self.scrub.work = Work::Compare;
        if p.upto == p.end {
            self.count.scrub.bytes += p.end - p.start;
            self.scrub.course.passed(p.end);
            return self.end(i, None, cx);
        }
        if self.scrub.unit < PAGE && p.upto.is_multiple_of(PAGE) {
            self.scrub.unit = PAGE;
        }
        (p.at, p.upto) = (p.upto, p.end.min(p.upto + self.scrub.unit));
        self.read_part(i, cx);
    }

    /// The legs other than `leg` that have lost sectors.
    pub(super) fn lost_beside(&self, leg: usize) -> Option<usize> {
        bits(self.lost.legs(0, self.geometry.data)).find(|&other| other != leg)
    }
}

/// Whether a sector holds zeros, or nothing.
fn is_zero(pool: &PayloadPool, payload: nandu_base::Payload, sector: u64) -> bool {
    match pool.sector(payload, sector) {
        None => true,
        Some(Sector::Stamp(stamp)) => stamp == Stamp::ZERO,
        Some(Sector::Bytes(bytes)) => bytes.iter().all(|&byte| byte == 0),
    }
}
