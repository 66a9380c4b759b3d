//! Copies from leg to legs: the resync of stale regions, and the repair of what one leg could not return.
//!
//! A copy claims its extent before it reads and keeps it until it is written (R-LOCK). It goes around what the leader lacks. A resync takes one region after
//! the other in the order of their numbers, in chunks, `resync_depth` at once and `resync_rate` bytes a second at most.
//! The region is an active one meanwhile; when all of it is copied it is stale no longer, and its D and L are cleared
//! like any other's, after both legs have flushed. What the leader cannot return stays stale and is tried again after
//! `bitmap_delay`. A repair copies the extent that a read found bad, flushes that leg, and counts only then. A leg that does not take it leaves; a leader
//! that alone holds other data stays, and a later read tries again.

use super::op::{Kind, Operation, Part};
use super::region_map::D;
use super::work::Ready;
use super::{Legs, Mirror, Phase, RESYNC, Tag, each};
use crate::locks::Claim;
use crate::member::set::Set;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Instant, Op, ReqId};

/// Most repairs that wait.
const REPAIRS: usize = 64;

/// An extent that a leg could not return, while the other could.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    pub(super) leg: usize,
    pub(super) at: u64,
    pub(super) upto: u64,
}

/// The resync under way.
#[derive(Debug, Default)]
pub(super) struct Resync {
    /// The region being copied; its next byte and its end.
    region: Option<(u32, u64, u64)>,
    /// The legs that it is copied to.
    to: Legs,
    /// Copies of it under way.
    flying: u32,
    /// Some of it could not be read.
    failed: bool,
    /// Where to look for the next stale region.
    cursor: u32,
    /// Whether this pass made some region current, and whether the leader could not return something.
    progress: bool,
    unreadable: bool,
    /// Not before this.
    not_before: Instant,
    /// The timer is set.
    armed: bool,
    /// Repairs under way.
    repairing: u32,
}

impl Mirror {
    /// Starts copies as far as the bounds allow.
    pub(super) fn pump_copies(&mut self, cx: &mut Cx<'_>) {
        let goes_on = self.phase == Phase::Running || self.close_waits();
        if !goes_on || self.proc.is_any() || self.members().count_ones() < 2 {
            return;
        }
        self.pump_repairs(cx);
        self.pump_lists();
        while self.lacking().next().is_some() {
            if self.resync.region.is_none() && !self.next_region(cx) {
                return;
            }
            if !self.copy_region(cx) {
                return;
            }
        }
    }

    /// Takes the next stale region; false when none can be taken now.
    fn next_region(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.resync_rests(cx.now) {
            self.arm_resync(cx);
            return false;
        }
        let next = self.lacking().filter_map(|leg| self.stale[leg].next(self.resync.cursor)).min();
        let Some(region) = next else {
            self.resync.cursor = 0;
            let unreadable = std::mem::take(&mut self.resync.unreadable);
            if !std::mem::take(&mut self.resync.progress) {
                // Nothing but what the leader cannot return: later.
                self.resync.not_before = cx.now + self.bitmap_delay;
                if unreadable && self.paces[self.leader].stuck {
                    self.lose_failed(self.leader, cx);
                }
            }
            return self.next_region(cx);
        };
        if self.regions.find(region).is_none() && self.regions.room() == 0 {
            self.clear_early(cx);
            return false;
        }
        self.regions.enter(region, self.version);
        let start = u64::from(region) << self.shift;
        let end = (start + (1 << self.shift)).min(self.limits.capacity.0);
        self.resync.region = Some((region, start, end));
        self.resync.to =
            self.lacking().filter(|&leg| self.stale[leg].has(region)).fold(0, |to, leg| to | 1 << leg);
        self.resync.failed = false;
        self.resync.cursor = region + 1;
        true
    }

    /// Starts copies of the region; true when it is complete and there may be a next one.
    fn copy_region(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some((region, mut next, end)) = self.resync.region else { return false };
        while next < end && self.resync.flying < self.depth {
            if self.resync_rests(cx.now) {
                self.arm_resync(cx);
                return false;
            }
            let upto = end.min(next + self.chunk);
            if self.rate > 0 && self.phase == Phase::Running {
                let span = (u128::from(upto - next) * 1_000_000_000).div_ceil(u128::from(self.rate));
                self.resync.not_before = Instant(cx.now.0 + span as u64);
            }
            self.resync.flying += 1;
            self.start_copy(self.leader, self.resync.to, next, upto, false, cx);
            next = upto;
            self.resync.region = Some((region, next, end));
        }
        if next < end || self.resync.flying > 0 {
            return false;
        }
        self.region_copied(region, cx);
        true
    }

    fn region_copied(&mut self, region: u32, cx: &mut Cx<'_>) {
        self.resync.region = None;
        if !self.resync.failed {
            let to = self.resync.to;
            each(to).for_each(|leg| self.stale[leg].unset(region));
            self.work.add_each(&[Ready::Scrub, Ready::Swap, Ready::Health]);
            self.resync.progress = true;
            // Clients wrote there as well, and a stale region keeps no marks: unknown is not flushed.
            for leg in 0..self.legs.len() {
                if !(self.planted.marks_kept && leg != self.leader) {
                    self.needs_flush(leg, region..=region);
                }
            }
            self.count.resync_regions += 1;
            if !self.is_whole() {
                each(to).for_each(|leg| self.copied_all(leg, cx));
            }
        }
        self.exit_region(region, cx);
    }

    /// A leg may be current while another one is out, for which marks must stay. It says L no longer when all of it is flushed.
    fn copied_all(&mut self, leg: usize, cx: &mut Cx<'_>) {
        if self.stale[leg].count() == 0 {
            let n = self.legs[leg].dirty;
            self.legs[leg].unlist = Some(n);
            self.want_flush(leg, n, cx);
            if self.legs[leg].flushed(n) {
                // It was flushed while the copy went on to another leg.
                self.work.add(Ready::Copies);
            }
        }
    }

    /// Clears L where nothing is lacked any more.
    fn pump_lists(&mut self) {
        for leg in 0..self.legs.len() {
            if !self.legs[leg].unlist.is_some_and(|n| self.legs[leg].flushed(n)) {
                continue;
            }
            self.legs[leg].unlist = None;
            if leg != self.leader && self.stale[leg].count() == 0 {
                let listed: Vec<u32> = self.legs[leg].map.any().collect();
                listed.into_iter().for_each(|region| self.legs[leg].map.put(region, 0));
                self.work.add(Ready::Records);
            }
        }
    }

    /// It does so until its timer says that it is over.
    fn resync_rests(&self, now: Instant) -> bool {
        now < self.resync.not_before || self.resync.armed
    }

    fn arm_resync(&mut self, cx: &mut Cx<'_>) {
        if !self.resync.armed {
            self.resync.armed = true;
            cx.wake_at(RESYNC, self.resync.not_before);
        }
    }

    /// The timer was cancelled; what is left goes on without a rest.
    pub(super) fn hurry_resync(&mut self) {
        (self.resync.armed, self.resync.not_before) = (false, Instant::ZERO);
    }

    pub(super) fn resync_timer(&mut self) {
        self.resync.armed = false;
        self.work.add(Ready::Copies);
    }

    fn pump_repairs(&mut self, cx: &mut Cx<'_>) {
        self.repairs.truncate(REPAIRS);
        while self.resync.repairing < self.depth {
            let Some(repair) = self.repairs.pop_front() else { return };
            let upto = repair.upto.min(repair.at + self.chunk);
            if upto < repair.upto {
                self.repairs.push_front(Repair { at: upto, ..repair });
            }
            self.resync.repairing += 1;
            let Some(from) = self.source_of(repair) else {
                self.resync.repairing -= 1;
                continue;
            };
            self.start_copy(from, 1 << repair.leg, repair.at, upto, true, cx);
        }
    }

    /// The leg that a repair reads: the leader, or the first member that lacks nothing there.
    fn source_of(&self, repair: Repair) -> Option<usize> {
        if repair.leg != self.leader {
            return Some(self.leader);
        }
        let current = |leg: &usize| self.is_current(*leg, repair.at, repair.upto);
        let member = |leg: &usize| self.is_member(*leg);
        self.others(repair.leg).find(current).or_else(|| self.others(repair.leg).find(member))
    }

    fn start_copy(&mut self, from: usize, to: Legs, start: u64, end: u64, repair: bool, cx: &mut Cx<'_>) {
        let payload = cx.pool.allocate(ByteLen(end - start));
        let kind = Kind::Copy { from: from as u8, to, repair };
        let op = Operation::new(kind, Op::Write, Flags::BACKGROUND, payload, start, end);
        self.enter(op, Claim::Copy);
    }

    /// The extent is ours: read it.
    pub(super) fn copy_begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let Kind::Copy { from, to, repair } = op.kind else { unreachable!("a copy") };
        let from = usize::from(from);
        let is_stale = |leg: usize| self.regions_of(op.start, op.end).any(|r| self.stale[leg].has(r));
        if repair && (is_stale(from) || each(to).any(is_stale)) {
            self.copy_over(i, false, cx); // the resync rewrites it, or the source lacks it
            return;
        }
        // No write of the same block under way at the target, and nothing from a source that lacks it. What the leader lacks the
        // other leg has: a resync goes around it.
        let source = &self.lag[from];
        let is_behind = each(to).any(|leg| self.lag[leg].lacks(op.at, op.end));
        if is_behind || repair && source.lacks(op.at, op.end) {
            self.copy_wait.push(i);
            return;
        }
        let (mut at, end) = (op.at, op.end);
        let mut upto = at;
        while at < end {
            upto = end.min(source.border(at));
            if !source.lacks(at, upto) {
                break;
            }
            at = upto;
        }
        let op = &mut self.ops[i as usize];
        (op.at, op.upto) = (at, upto);
        if at == end {
            self.copy_over(i, true, cx);
        } else {
            self.send_copy(i, from, Op::Read, cx);
        }
    }

    /// Copies that waited for delayed writes of their extent.
    pub(super) fn retry_copies(&mut self, cx: &mut Cx<'_>) {
        for i in std::mem::take(&mut self.copy_wait) {
            if !self.ops[i as usize].over {
                self.begin(i, cx);
            }
        }
    }

    fn send_copy(&mut self, i: u32, leg: usize, what: Op, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::Flying);
        op.flying += 1;
        let draft = Draft {
            op: what,
            flags: op.flags,
            offset: ByteOffset(op.at),
            len: ByteLen(op.upto - op.at),
            payload: op.payload.slice(ByteLen(op.at - op.start)),
            cookie: Tag::Data.cookie(leg, i),
        };
        let l = &mut self.legs[leg];
        *(if what == Op::Read { &mut l.reads } else { &mut l.data_writes }) += 1;
        self.send(leg, ReqId::NONE, draft, cx);
    }

    pub(super) fn copy_back(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let Kind::Copy { from, to, repair } = self.ops[i as usize].kind else { unreachable!("a copy") };
        let error = cx.requests[id].error;
        if error.is_some_and(|e| e.kind == ErrorKind::Gone) {
            self.leave(leg, cx); // which ends every copy
            return;
        }
        self.ops[i as usize].parts.set(leg, Part::None);
        match (leg == usize::from(from), error) {
            (true, None) => {
                assert!(
                    self.planted.copy_without_lock || self.locks.holds(i),
                    "copy_holds_slot: a copy writes what it does not hold"
                );
                let region = (self.ops[i as usize].start >> self.shift) as u32;
                assert!(
                    repair || self.legs[self.leader].map.is_durable(region, D),
                    "intent_before_data: region {region} is copied without D"
                );
                each(to).for_each(|leg| self.send_copy(i, leg, Op::Write, cx));
            }
            (true, Some(_)) => {
                self.count.read_errors[leg] += 1;
                self.count.resync_unreadable += u64::from(!repair);
                self.resync.unreadable |= !repair;
                self.copy_over(i, false, cx);
            }
            (false, None) => self.copied(i, leg, repair, cx),
            (false, Some(_)) => {
                self.count.write_errors[leg] += 1;
                let op = &mut self.ops[i as usize];
                if op.tries[leg] < self.write_retries {
                    op.tries[leg] += 1;
                    self.send_copy(i, leg, Op::Write, cx);
                } else if self.holds_alone(leg) {
                    // It alone holds other data. What it cannot return the other legs have.
                    self.copy_over(i, false, cx);
                } else {
                    self.leave(leg, cx);
                }
            }
        }
    }

    fn copied(&mut self, i: u32, leg: usize, repair: bool, cx: &mut Cx<'_>) {
        self.legs[leg].wrote();
        let op = &self.ops[i as usize];
        if repair {
            let n = self.legs[leg].dirty;
            self.want_flush(leg, n, cx);
            self.count.repairs += 1;
        } else {
            self.count.resync_bytes += op.upto - op.at;
        }
        let op = &mut self.ops[i as usize];
        if op.parts.any(Part::Flying) {
            return; // another leg has not answered
        }
        op.at = op.upto;
        if op.at < op.end {
            self.copy_begin(i, cx);
        } else {
            self.copy_over(i, true, cx);
        }
    }

    fn copy_over(&mut self, i: u32, good: bool, cx: &mut Cx<'_>) {
        let Kind::Copy { repair, .. } = self.ops[i as usize].kind else { unreachable!("a copy") };
        if repair {
            self.resync.repairing -= 1;
        } else {
            self.resync.flying -= 1;
            self.resync.failed |= !good;
        }
        self.end(i, cx);
        self.work.add(Ready::Copies);
        self.work.add(Ready::Scrub);
    }

    /// A leg has left: nothing is copied any more. What is in flight ends as a straggler.
    pub(super) fn stop_copies(&mut self, cx: &mut Cx<'_>) {
        self.stop_chunk(cx);
        for i in 0..self.ops.len() as u32 {
            let op = &self.ops[i as usize];
            if matches!(op.kind, Kind::Copy { .. }) && !op.over {
                self.end(i, cx);
            }
        }
        if let Some((region, ..)) = self.resync.region.take() {
            self.exit_region(region, cx);
        }
        self.repairs.clear();
        self.copy_wait.clear();
        let armed = self.resync.armed;
        self.resync = Resync { armed, ..Resync::default() };
    }

    /// The legs may differ in a region: it is copied, or copied again when that is under way and may be past the place.
    pub(super) fn make_stale(&mut self, leg: usize, region: u32) {
        self.stale[leg].set(region);
        self.work.add_each(&[Ready::Copies, Ready::Swap, Ready::Health]);
        self.resync.failed |= self.resync.region.is_some_and(|(r, ..)| r == region);
    }

    /// Whether the resync has its place among the active regions; one place is kept for it otherwise.
    pub(super) fn has_resync_region(&self) -> bool {
        self.resync.region.is_some()
    }

    /// Forgets the resync; its timer was cancelled.
    pub(super) fn forget_resync(&mut self) {
        self.resync = Resync::default();
    }
}
