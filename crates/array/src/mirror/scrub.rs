//! Scrub: both legs are read and compared, and what differs is mended.
//!
//! A pass goes over the device once, chunk by chunk, at most `scrub.rate` bytes a second, one chunk at a time. It begins by
//! command, or `scrub.interval` after the last one began. It waits while a leg is out or a resync is under way: there the legs
//! differ by right, the leader wins (it has the newer generation or the mark), and the resync writes what it has.
//!
//! A chunk claims its extent as a copy does, so no write of it is under way, and it waits until no leg lacks data there.
//! Then both legs must hold the same, marked region or not. It is not compared where data are lost. When a leg joins that the chunk has not
//! read, the chunk is read anew, once that leg lacks nothing.
//!
//! **Which side wins.**
//! - One leg returns an error: the other one's data are written to it ([`super::copy`]). Both do: the blocks are tried one
//!   by one; a block that no leg returns is counted as unreadable and left alone.
//! - Both return, and differ: nobody can say which one is right, for the legs keep no checksums of data. The blocks are
//!   counted and reported. With `on_mismatch = "leader"` the follower gets the leader's data: after a crash the leader
//!   would win too, so no read that has shown them comes undone. With `"report"` nothing is written. Before anything is
//!   written D of the region is durable on the leader (R-INTENT): a cut in between leaves a mark, and a copy.
//!
//! **Clients go first.** A write that meets a chunk that is being read does not wait for it: the chunk is given up and read
//! again later, so a frozen leg holds no write back. A chunk that was given up [`PATIENCE`] times is skipped, and counted.
//! The place of a pass is not kept over a restart.
//!
//! Cost: two buffers of one chunk, one comparison of them; one test for each write.

use super::copy::Repair;
use super::layout::PAGE;
use super::op::{Kind, Operation, Part};
use super::region_map::D;
use super::work::Ready;
use super::{Legs, Mirror, Phase, SCRUB, Tag, each};
use crate::locks::Claim;
use crate::member::set::Set;
use crate::scrub::{Course, PATIENCE, Pass};
use nandu_base::{ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Instant, Notice, Op, ReqId};

/// The scrub of a mirror.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    pub(super) course: Course,
    /// The chunk under way.
    chunk: Option<u32>,
    /// The chunk is being mended and no longer gives way; whether its region has its place among the active ones.
    mending: bool,
    entered: bool,
}

impl Scrub {
    /// The mirror begins anew; its timer was cancelled.
    pub(super) fn forget(&mut self) {
        let mut course = std::mem::take(&mut self.course);
        course.forget();
        *self = Scrub { course, ..Scrub::default() };
    }
}

impl Mirror {
    /// Moves the pass on.
    pub(super) fn pump_scrub(&mut self, cx: &mut Cx<'_>) {
        if self.scrub.mending {
            self.pump_mend(cx);
        }
        if self.phase != Phase::Running || self.scrub.chunk.is_some() {
            return;
        }
        if self.scrub.course.pass.is_none() && !self.scrub_is_due(cx) {
            return;
        }
        if self.proc.is_any() || self.members().count_ones() < 2 || self.lacking().next().is_some() {
            return; // comes again when the resync is over
        }
        while let Some(pass) = self.scrub.course.pass.filter(|_| self.scrub.chunk.is_none()) {
            if pass.at >= self.limits.capacity.0 {
                self.pass_over(pass, cx);
            } else if let Some(at) = self.scrub.course.rests_until(cx.now) {
                self.arm_scrub(at, cx);
                return;
            } else {
                self.next_chunk(pass, cx);
            }
        }
    }

    /// Begins a pass whose time has come.
    fn scrub_is_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(due) = self.scrub.course.due(self.maintenance.scrub_every, cx.now) else { return false };
        if cx.now < due {
            self.arm_scrub(due, cx);
            return false;
        }
        self.scrub.course.begin(self.maintenance.scrub_mends, cx.now);
        true
    }

    fn arm_scrub(&mut self, at: Instant, cx: &mut Cx<'_>) {
        if self.scrub.course.arms(at) {
            cx.wake_at(SCRUB, at);
        }
    }

    pub(super) fn scrub_timer(&mut self) {
        self.scrub.course.woke();
        self.work.add(Ready::Scrub);
    }

    fn pass_over(&mut self, pass: Pass, cx: &mut Cx<'_>) {
        self.scrub.course.pass = None;
        self.count.scrub.passes += 1;
        let Pass { differing, unreadable, .. } = pass;
        cx.event(DeviceEvent::Notice(Notice::Scrubbed { differing, unreadable }));
        self.scrub_is_due(cx);
    }

    fn next_chunk(&mut self, pass: Pass, cx: &mut Cx<'_>) {
        let start = pass.at;
        let region_end = ((start >> self.shift) + 1) << self.shift;
        let end = region_end.min(start + self.chunk).min(self.limits.capacity.0);
        self.scrub.course.pay(end - start, self.maintenance.scrub_rate, cx.now);
        if self.lost.touches(start, end) || pass.given_up >= PATIENCE {
            self.count.scrub.skipped_bytes += end - start;
            self.scrub.course.passed(end);
            return;
        }
        let payload = cx.pool.allocate_unfilled(ByteLen(self.legs.len() as u64 * (end - start)));
        let mut op = Operation::new(Kind::Scrub, Op::Read, Flags::BACKGROUND, payload, start, end);
        op.waited = pass.mends;
        let i = self.put(op);
        self.scrub.chunk = Some(i);
        if self.locks.enter(i, start, end, Claim::Copy) {
            self.work.granted.push_back(i);
        }
    }

    /// A write comes: a chunk that is only being read does not stand in its way.
    #[inline]
    pub(super) fn scrub_gives_way(&mut self, start: u64, end: u64, cx: &mut Cx<'_>) {
        if let Some(i) = self.scrub.chunk.filter(|_| !self.scrub.mending) {
            let op = &self.ops[i as usize];
            if op.start < end && start < op.end {
                self.give_up_chunk(i, cx);
            }
        }
    }

    fn give_up_chunk(&mut self, i: u32, cx: &mut Cx<'_>) {
        self.scrub.chunk = None;
        self.scrub.course.gave_up();
        self.copy_wait.retain(|&waits| waits != i);
        self.end(i, cx);
        self.work.add(Ready::Scrub);
    }

    /// The chunk is ours.
    pub(super) fn scrub_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if self.lacking().next().is_some() {
            self.give_up_chunk(i, cx); // a write has failed on both legs: the resync comes first
            return;
        }
        if self.lag.iter().any(|lag| lag.lacks(op.start, op.end)) && !self.planted.scrub_lagging {
            self.copy_wait.push(i);
            return;
        }
        self.read_all(i, cx);
    }

    fn read_all(&mut self, i: u32, cx: &mut Cx<'_>) {
        for leg in each(self.members()) {
            self.send_scrub(i, leg, Op::Read, leg, cx);
        }
    }

    /// Sends the part under way to a leg: a read into its part of the buffer, or a write from the part of leg `half`.
    fn send_scrub(&mut self, i: u32, leg: usize, what: Op, half: usize, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::Flying);
        op.flying += 1;
        let place = half as u64 * (op.end - op.start) + op.at - op.start;
        let draft = Draft {
            op: what,
            flags: op.flags,
            offset: ByteOffset(op.at),
            len: ByteLen(op.upto - op.at),
            payload: op.payload.slice(ByteLen(place)),
            cookie: Tag::Data.cookie(leg, i),
        };
        let l = &mut self.legs[leg];
        *(if what == Op::Read { &mut l.reads } else { &mut l.data_writes }) += 1;
        self.send(leg, ReqId::NONE, draft, cx);
    }

    pub(super) fn scrub_back(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let error = cx.requests[id].error;
        if error.is_some_and(|e| e.kind == ErrorKind::Gone) {
            self.leave(leg, cx); // which ends the chunk
            return;
        }
        if self.scrub.mending {
            self.mended(i, leg, error.is_some(), cx);
            return;
        }
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::None);
        if error.is_some() {
            op.legs |= 1 << leg;
            self.count.read_errors[leg] += 1;
        }
        let op = &self.ops[i as usize];
        let (at, upto) = (op.at, op.upto);
        if op.flying > 0 {
            return; // another leg has not answered
        }
        let (failed, members) = (op.legs, self.members());
        let good = members & !failed;
        match good.count_ones() {
            _ if failed == 0 => self.compare(i, good, cx),
            0 if upto - at > PAGE => self.part(i, at, at + PAGE, cx),
            0 => {
                self.count.scrub.unreadable += 1;
                self.scrub.course.found(0, 1);
                self.next_part(i, cx);
            }
            count => {
                for leg in each(failed) {
                    self.repairs.push_back(Repair { leg, at, upto });
                    self.work.add(Ready::Copies);
                }
                // Without the leader nobody says which of the others is right: they are compared in the next pass.
                match count > 1 && good >> self.leader & 1 != 0 {
                    true => self.compare(i, good, cx),
                    false => self.next_part(i, cx),
                }
            }
        }
    }

    fn part(&mut self, i: u32, at: u64, upto: u64, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        (op.at, op.upto, op.legs) = (at, upto, 0);
        self.read_all(i, cx);
    }

    /// Goes on behind the part under way: block by block where both legs had returned an error.
    fn next_part(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if op.upto < op.end {
            if self.lacking().next().is_some() {
                self.give_up_chunk(i, cx); // a leg has joined while some of the chunk was mended
            } else {
                self.part(i, op.upto, op.end.min(op.upto + PAGE), cx);
            }
            return;
        }
        let (start, end) = (op.start, op.end);
        self.scrub.chunk = None;
        self.count.scrub.bytes += end - start;
        self.scrub.course.passed(end);
        self.end(i, cx);
        self.work.add(Ready::Scrub);
    }

    /// Compares what `legs` have returned with what the leader has.
    fn compare(&mut self, i: u32, legs: Legs, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let of = |leg: usize| op.payload.slice(ByteLen(leg as u64 * (op.end - op.start)));
        let mut at = op.at;
        let (mut blocks, mut first, mut others) = (0, None, 0);
        while at < op.upto {
            let len = PAGE.min(op.upto - at);
            let from = ByteLen(at - op.start);
            let leads = of(self.leader).slice(from);
            let differs = |leg: &usize| {
                *leg != self.leader && !cx.pool.equal(leads, of(*leg).slice(from), ByteLen(len))
            };
            let apart = each(legs).filter(differs).fold(0, |apart: Legs, leg| apart | 1 << leg);
            if apart != 0 {
                blocks += 1;
                others |= apart;
                first = first.or(Some(at));
            }
            at += len;
        }
        let Some(first) = first else {
            self.next_part(i, cx);
            return;
        };
        let mends = op.waited;
        self.count.scrub.differing += blocks;
        self.scrub.course.found(blocks, 0);
        let (at, len) = (ByteOffset(first), ByteLen(blocks * PAGE));
        cx.event(DeviceEvent::Notice(Notice::Differ { at, len, mends }));
        if !mends {
            self.next_part(i, cx);
            return;
        }
        self.ops[i as usize].legs = others;
        (self.scrub.mending, self.scrub.entered) = (true, false);
        self.work.add(Ready::Scrub);
    }

    /// Writes the leader's data to the legs that differ, once the region is marked.
    fn pump_mend(&mut self, cx: &mut Cx<'_>) {
        let Some(i) = self.scrub.chunk else { return };
        let op = &self.ops[i as usize];
        if op.flying > 0 || self.is_held() {
            return;
        }
        let region = (op.start >> self.shift) as u32;
        if !self.scrub.entered {
            if self.proc.holds_new_regions() {
                return; // the leg that joins would not say L there
            }
            if self.regions.find(region).is_none() && self.regions.room() == 0 {
                self.clear_early(cx);
                return;
            }
            self.scrub.entered = true;
            self.regions.enter(region, self.version);
            self.legs[self.leader].map.set(region, D);
            self.work.add(Ready::Records);
            self.list_on_follower(region..=region);
            self.work.add(Ready::Scrub);
        }
        let durable = self.legs[self.leader].map.is_durable(region, D);
        if durable || self.planted.mend_before_intent {
            let legs = self.ops[i as usize].legs;
            for leg in each(legs) {
                let (from, to) =
                    if self.planted.follower_wins { (leg, self.leader) } else { (self.leader, leg) };
                self.send_scrub(i, to, Op::Write, from, cx);
            }
        }
    }

    fn mended(&mut self, i: u32, leg: usize, failed: bool, cx: &mut Cx<'_>) {
        self.legs[leg].wrote();
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::None);
        if failed {
            self.count.write_errors[leg] += 1;
            let op = &mut self.ops[i as usize];
            op.tries[leg] += 1;
            if op.tries[leg] > self.write_retries {
                self.leave(leg, cx);
            } else {
                self.work.add(Ready::Scrub); // sent once more
            }
            return;
        }
        op.legs &= if self.planted.follower_wins { 0 } else { !(1 << leg) };
        let (legs, at, upto) = (op.legs, op.at, op.upto);
        let region = (op.start >> self.shift) as u32;
        self.count.scrub.mended_bytes += upto - at;
        self.needs_flush(leg, region..=region);
        if legs != 0 {
            self.work.add(Ready::Scrub); // another leg has not answered, or is written once more
            return;
        }
        (self.scrub.mending, self.scrub.entered) = (false, false);
        self.exit_region(region, cx);
        self.next_part(i, cx);
    }

    /// A leg has joined, of which the chunk under way has read nothing: it is compared again with that one. What is being mended goes on.
    pub(super) fn scrub_anew(&mut self, cx: &mut Cx<'_>) {
        if !self.scrub.mending {
            self.stop_chunk(cx);
        }
    }

    /// A leg has left: the chunk under way is compared again when it is back.
    pub(super) fn stop_chunk(&mut self, cx: &mut Cx<'_>) {
        let Some(i) = self.scrub.chunk.take() else { return };
        self.copy_wait.retain(|&waits| waits != i);
        if std::mem::take(&mut self.scrub.entered) {
            let region = (self.ops[i as usize].start >> self.shift) as u32;
            self.exit_region(region, cx);
        }
        self.scrub.mending = false;
        if !self.ops[i as usize].over {
            self.end(i, cx);
        }
    }
}
