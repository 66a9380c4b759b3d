//! The way of a client write.
//!
//! A write claims its extent (R-ONE) and then goes on in pieces of a bounded number of regions; all but huge trims are
//! one piece. For each piece: a place among the active regions, D durable on the leader (R-INTENT), the data to every leg
//! that takes writes, directly or through its delay queue ([`super::delay`]), an answer from each.
//!
//! When the client is answered, and what is left to do then: [`super::ack`].
//!
//! **Errors.** A leg that fails a write that the other leg took is out. What fails after the client was answered goes back
//! to the queue. The request keeps the payload until the answer.

use super::leg::Place;
use super::op::{Kind, Operation, Part, Parts};
use super::region_map::{D, L};
use super::work::Ready;
use super::{DELAYED, Legs, MAX_LEGS, Mirror, NONE, Phase, Tag, each};
use crate::locks::Claim;
use crate::member::set::Set;
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, ErrorKind, Flags, Instant, IoError, Op, Payload, ReqId};

impl Mirror {
    /// A client's read, write, trim or write-zeroes.
    pub(super) fn admit(&mut self, id: ReqId, cx: &mut Cx<'_>) -> u32 {
        let r = &cx.requests[id];
        let kind = if r.op == Op::Read { Kind::Read } else { Kind::Write };
        let end = r.offset.0 + r.len.0;
        let mut op = Operation::new(kind, r.op, r.flags, r.payload, r.offset.0, end);
        (op.parent, op.cause) = (id, r.cause);
        if kind == Kind::Read {
            return self.enter(op, Claim::Read);
        }
        self.scrub_gives_way(op.start, op.end, cx);
        if self.maintenance.mark_ahead > 0 && op.op == Op::Write {
            self.declare_ahead(op.start, op.end, cx);
        }
        self.enter(op, Claim::Write)
    }

    /// Puts an operation into the table; it begins when it has its extent.
    pub(super) fn enter(&mut self, op: Operation, claim: Claim) -> u32 {
        let (start, end) = (op.start, op.end);
        let index = self.put(op);
        if self.locks.enter(index, start, end, claim) {
            self.work.granted.push_back(index);
        }
        index
    }

    /// Gives an operation a place in the table.
    pub(super) fn put(&mut self, op: Operation) -> u32 {
        match self.free_ops.pop() {
            Some(index) => {
                self.ops[index as usize] = op;
                index
            }
            None => {
                self.ops.push(op);
                self.ops.len() as u32 - 1
            }
        }
    }

    /// An operation has its extent.
    pub(super) fn begin(&mut self, i: u32, cx: &mut Cx<'_>) {
        match self.ops[i as usize].kind {
            Kind::Read => self.read_begin(i, cx),
            Kind::Write => self.next_piece(i, cx),
            Kind::Copy { .. } => self.copy_begin(i, cx),
            Kind::Scrub => self.scrub_begin(i, cx),
            Kind::Free => unreachable!("an operation that is over has no extent"),
        }
    }

    fn next_piece(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        let bound = ((op.at >> self.shift) + self.piece_regions) << self.shift;
        op.upto = op.end.min(bound);
        op.parts = Parts::NONE;
        op.tries = [0; MAX_LEGS];
        op.issued = false;
        op.sent = Instant::ZERO;
        self.slot_wait.push_back(i);
        self.count.held_writes += u64::from(self.is_held());
        self.feed_slots(cx);
    }

    /// New writes wait while a leg takes Solo.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.phase != Phase::Running && self.phase != Phase::Closing || self.proc.is_solo()
    }

    /// Gives waiting writes a place among the active regions, first come first served.
    pub(super) fn feed_slots(&mut self, cx: &mut Cx<'_>) {
        while let Some(&i) = self.slot_wait.front() {
            if self.is_held() {
                return;
            }
            let op = &self.ops[i as usize];
            let range = self.regions_of(op.at, op.upto);
            let missing = range.clone().filter(|&r| self.regions.find(r).is_none()).count() as u32;
            let kept = u32::from(!self.has_resync_region());
            if missing > self.regions.room().saturating_sub(kept) && missing > 0 {
                self.clear_early(cx);
                return;
            }
            self.slot_wait.pop_front();
            range.for_each(|r| self.regions.enter(r, self.version));
            self.intend(i, cx);
        }
    }

    /// Sends the piece when D is durable on the leader, and asks for D otherwise.
    fn intend(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        let range = self.regions_of(op.at, op.upto);
        let map = &mut self.legs[self.leader].map;
        let durable = range.clone().all(|r| map.is_durable(r, D));
        if !durable && !self.proc.holds_new_regions() {
            for region in range.clone() {
                if map.wanted(region) & D == 0 {
                    map.set(region, D);
                    self.work.add(Ready::Records);
                }
            }
        }
        self.list_on_follower(range);
        if self.is_held() || !durable && !self.planted.data_before_intent {
            self.intent_wait.push(i);
            let op = &mut self.ops[i as usize];
            if op.sent == Instant::ZERO {
                self.count.intent_waits += 1;
                op.sent = cx.now;
                if self.policy.degrade {
                    self.work.add(Ready::Exposure);
                }
            }
        } else {
            self.issue(i, cx);
        }
    }

    /// Mode `leader`: L goes to the follower's map as early as D to the leader's, so that a flush finds it there.
    pub(super) fn list_on_follower(&mut self, range: std::ops::RangeInclusive<u32>) {
        let follower = self.follower();
        let leg = &mut self.legs[follower];
        if self.policy.fast_flush && leg.writes && !self.proc.holds_new_regions() {
            for region in range {
                if leg.map.wanted(region) & L == 0 {
                    leg.map.set(region, D | L);
                    self.work.add(Ready::Records);
                }
            }
        }
    }

    /// D may be durable now for writes that wait.
    pub(super) fn retry_intents(&mut self, cx: &mut Cx<'_>) {
        if self.intent_wait.is_empty() || self.is_held() {
            return;
        }
        let waiting = std::mem::take(&mut self.intent_wait);
        for &i in &waiting {
            self.intend(i, cx);
        }
        if self.intent_wait.is_empty() {
            self.intent_wait = waiting; // keeps its room
            self.intent_wait.clear();
        }
    }

    fn issue(&mut self, i: u32, cx: &mut Cx<'_>) {
        self.version += 1;
        let op = &mut self.ops[i as usize];
        (op.issued, op.waited) = (true, false);
        (op.version, op.sent, op.first) = (self.version, cx.now, Instant::ZERO);
        let (at, upto) = (op.at, op.upto);
        let range = (op.at >> self.shift) as u32..=((op.upto - 1) >> self.shift) as u32;
        let map = &self.legs[self.leader].map;
        assert!(
            self.planted.data_before_intent || range.clone().all(|r| map.is_durable(r, D)),
            "intent_before_data: a write in regions {range:?}"
        );
        self.await_answer(i);
        for leg in 0..self.legs.len() {
            if !self.legs[leg].writes {
                range.clone().for_each(|r| self.stale[leg].set(r));
            }
        }
        self.take_hints(at, upto, cx);
        self.relieve(cx.now);
        let leader = self.leader;
        let late = (0..self.legs.len())
            .fold(0, |late: Legs, leg| late | Legs::from(self.is_delayed(leg, at, upto)) << leg);
        for leg in std::iter::once(leader).chain(self.others(leader)) {
            match self.legs[leg].writes {
                true if late >> leg & 1 != 0 => self.queue_piece(i, leg, cx),
                true => self.send_piece(i, leg, cx),
                false => {}
            }
        }
        self.start_write_hedge(i, cx);
    }

    fn send_piece(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.parts.set(leg, Part::Flying);
        op.flying += 1;
        let zeroes = op.op == Op::Trim && op.legs >> leg & 1 != 0;
        let one_leg = self.planted.flush_one_leg && leg != self.leader;
        let draft = Draft {
            op: if zeroes { Op::WriteZeroes } else { op.op },
            flags: if one_leg { Flags::NONE } else { op.flags },
            offset: ByteOffset(op.at),
            len: ByteLen(op.upto - op.at),
            payload: op.payload.slice(ByteLen(op.at - op.start)),
            cookie: Tag::Data.cookie(leg, i),
        };
        let parent = op.parent;
        self.legs[leg].data_writes += 1;
        self.send(leg, parent, draft, cx);
    }

    /// A child request that carried data is back.
    pub(super) fn data_done(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        let was_read = cx.requests[id].op == Op::Read;
        let l = &mut self.legs[leg];
        let counter = if was_read { &mut l.reads } else { &mut l.data_writes };
        *counter -= 1;
        if *counter == 0 && self.proc.is_any() {
            self.work.add(Ready::Records);
        }
        let op = &mut self.ops[i as usize];
        op.flying -= 1;
        if op.over {
            self.free_if_back(i, cx);
            return;
        }
        match op.kind {
            Kind::Read => self.read_back(id, leg, i, cx),
            Kind::Write => self.write_back(id, leg, i, cx),
            Kind::Copy { .. } => self.copy_back(id, leg, i, cx),
            Kind::Scrub => self.scrub_back(id, leg, i, cx),
            Kind::Free => unreachable!("a child request came back to an operation that is free"),
        }
    }

    fn write_back(&mut self, id: ReqId, leg: usize, i: u32, cx: &mut Cx<'_>) {
        if self.ops[i as usize].acked {
            if let Some(slot) = self.lag[leg].direct(i) {
                self.flight_back(id, leg, slot, cx);
            }
            return;
        }
        if !self.ops[i as usize].parts.is(leg, Part::Flying) {
            return; // the leg has left
        }
        match cx.requests[id].error {
            None => self.written(i, leg, cx),
            Some(error) => self.not_written(i, leg, error, cx),
        }
        self.settle(i, id, cx);
    }

    fn written(&mut self, i: u32, leg: usize, cx: &mut Cx<'_>) {
        self.legs[leg].wrote();
        if self.exposure.is_late {
            self.work.add(Ready::Exposure); // the other one may be late alone
        }
        let op = &mut self.ops[i as usize];
        let (span, is_first) = (cx.now.since(op.sent), !op.parts.any(Part::Done));
        op.parts.set(leg, Part::Done);
        let apart = (!is_first && op.first > Instant::ZERO).then(|| cx.now.since(op.first));
        if is_first {
            op.first = cx.now;
        }
        let others_fly = op.parts.any(Part::Flying);
        self.sample(leg, span, apart);
        if others_fly && self.policy.ack.has_limit() {
            self.start_limit(i, cx);
        }
        let op = &mut self.ops[i as usize];
        let (range, parent) =
            ((op.at >> self.shift) as u32..=((op.upto - 1) >> self.shift) as u32, op.parent);
        let early = self.planted.read_any_leg && op.upto == op.end && parent != ReqId::NONE;
        if early {
            op.parent = ReqId::NONE;
            cx.finish(parent);
        }
        self.needs_flush(leg, range);
    }

    /// What was just written to these regions of a leg is covered by its next flush.
    pub(super) fn needs_flush(&mut self, leg: usize, range: std::ops::RangeInclusive<u32>) {
        let dirty = self.legs[leg].dirty;
        for region in range {
            if let Some(slot) = self.regions.find(region) {
                self.regions.set_need(slot, leg, dirty);
            }
        }
    }

    fn not_written(&mut self, i: u32, leg: usize, error: IoError, cx: &mut Cx<'_>) {
        self.count.write_errors[leg] += 1;
        let op = &mut self.ops[i as usize];
        if error.kind == ErrorKind::Gone {
            self.leave(leg, cx);
        } else if error.kind == ErrorKind::Unsupported && op.op == Op::Trim && op.legs >> leg & 1 == 0 {
            op.legs |= 1 << leg;
            self.send_piece(i, leg, cx);
        } else if op.tries[leg] < self.write_retries && error.kind != ErrorKind::Unsupported {
            op.tries[leg] += 1;
            self.send_piece(i, leg, cx);
        } else {
            op.parts.set(leg, Part::Failed);
            op.error.get_or_insert(IoError { at: ByteLen(error.at.0 + op.at - op.start), ..error });
            // Some of it may be in the leg's cache, and may be read: the next flush covers it too.
            let range = (op.at >> self.shift) as u32..=((op.upto - 1) >> self.shift) as u32;
            self.legs[leg].wrote();
            self.needs_flush(leg, range);
        }
    }

    /// Ends the piece when every leg has answered, and answers the client as early as it may be.
    pub(super) fn settle(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if op.over || !op.issued {
            return;
        }
        if op.parts.open() != 0 {
            if !op.acked && self.may_answer(i) {
                self.answer(i, id, cx);
            } else if !op.acked && self.waits_in_vain(i) {
                self.answer_failed(i, id, cx);
            }
            return;
        }
        let parts = self.ops[i as usize].parts;
        let failed = parts.all(Part::Failed);
        match parts.any(Part::Done) {
            // A leader that alone holds some regions cannot be left out for one write: the client hears of it.
            true if failed >> self.leader & 1 != 0 && !self.is_held_by(parts.all(Part::Done)) => {
                self.write_failed(i, id, cx);
            }
            true => {
                if failed != 0 && !self.leave_failed(i, failed, cx) {
                    return;
                }
                self.piece_done(i, id, cx);
            }
            false if failed != 0 => self.write_failed(i, id, cx),
            // Every leg has left: the mirror has failed, which ends the operation.
            false => {}
        }
    }

    /// Whether one of these legs lacks nothing, so that it may lead.
    fn is_held_by(&self, legs: Legs) -> bool {
        each(legs).any(|leg| self.legs[leg].place != Place::Out && self.stale[leg].count() == 0)
    }

    /// Legs that did not take a write which others took are left out, the leader last; false when the write is over by that.
    fn leave_failed(&mut self, i: u32, failed: Legs, cx: &mut Cx<'_>) -> bool {
        let op = &mut self.ops[i as usize];
        each(failed).for_each(|leg| op.parts.set(leg, Part::None));
        op.error = None;
        op.issued = false; // settled here, not once more while the leg leaves
        let leads = 1 << self.leader;
        for leg in each(failed & !leads).chain(each(failed & leads)) {
            self.leave(leg, cx);
            if self.ops[i as usize].over {
                return false;
            }
        }
        true
    }

    fn piece_done(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        if op.upto == op.end && !op.acked {
            if !self.has_room(i) {
                self.gate(i);
                return;
            }
            self.expose(i);
        }
        self.await_flush(i);
        self.explain(i, id, cx);
        self.exit_regions(i, cx);
        let op = &mut self.ops[i as usize];
        op.issued = false;
        op.at = op.upto;
        let op = *op;
        if op.at < op.end {
            self.next_piece(i, cx);
        } else if op.acked {
            self.end(i, cx);
        } else if self.lost.touches(op.start, op.end) {
            self.start_heal(i, cx);
        } else if op.flags.has(Flags::FUA) && self.is_held() {
            self.solo_wait.push(i); // solo_before_lone_ack
        } else {
            self.end(i, cx);
        }
    }

    /// The leader did not take the write: old or new, until it is written again. A copy makes the legs agree.
    fn write_failed(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        self.explain(i, id, cx);
        let op = &self.ops[i as usize];
        let error = op.error.expect("a part that failed has said why");
        let (range, parent) = (self.regions_of(op.at, op.upto), op.parent);
        if error.kind != ErrorKind::Unsupported {
            for leg in self.others(self.leader).filter(|&leg| self.legs[leg].writes).collect::<Vec<_>>() {
                range.clone().for_each(|r| self.make_stale(leg, r));
                self.stir();
            }
        }
        if parent != ReqId::NONE {
            cx.requests[parent].error = Some(error);
        }
        self.exit_regions(i, cx);
        self.end(i, cx);
    }

    /// The client waited for the child request `id` until now.
    pub(super) fn explain(&self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        let parent = self.ops[i as usize].parent;
        if parent != ReqId::NONE && id != ReqId::NONE {
            cx.absorb(parent, id);
        }
    }

    fn exit_regions(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &self.ops[i as usize];
        for region in self.regions_of(op.at, op.upto) {
            self.exit_region(region, cx);
        }
    }

    /// One write or copy less in a region. A stale one gives up its place at once: its D stays.
    pub(super) fn exit_region(&mut self, region: u32, cx: &mut Cx<'_>) {
        if !self.regions.exit(region, cx.now) {
            return;
        }
        // No mark is cleared while a leg is out, and none keeps a place: that leg is taken to lack the region.
        for leg in 0..self.legs.len() {
            if self.legs[leg].place == Place::Out {
                self.stale[leg].set(region);
            }
        }
        if self.is_stale(region) {
            self.regions.remove(region);
        } else {
            self.arm_clear(cx);
        }
        // A resync that waits for a place has it now, or may have it cleared.
        if self.lacks_some() && !self.has_resync_region() {
            self.work.add(Ready::Copies);
        }
        if !self.slot_wait.is_empty() {
            self.work.add(Ready::Places);
        }
    }

    /// An operation is over: its client hears of it, and its extent is free.
    pub(super) fn end(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        assert!(
            op.pieces == [0; DELAYED],
            "payload_held_until_acked: a share is in a queue when its write ends"
        );
        let parent = std::mem::replace(&mut op.parent, ReqId::NONE);
        (op.over, op.gated) = (true, false);
        if parent != ReqId::NONE {
            cx.finish(parent);
        }
        let is_given_up = matches!(op.kind, Kind::Copy { .. } | Kind::Scrub);
        if !op.acked {
            self.locks.leave(i, &mut self.work.granted);
        }
        if is_given_up {
            // Its place in the table may be another's before it is looked for there.
            self.work.granted.retain(|&granted| granted != i);
        }
        self.release_serial(i);
        if self.proc.is_any() || self.phase != Phase::Running {
            self.work.add(Ready::Records);
        }
        self.free_if_back(i, cx);
    }

    pub(super) fn free_if_back(&mut self, i: u32, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        if op.flying > 0 {
            return;
        }
        if matches!(op.kind, Kind::Copy { .. } | Kind::Scrub) {
            cx.pool.release(op.payload);
            op.payload = Payload::NONE;
        }
        op.kind = Kind::Free;
        self.free_ops.push(i);
        debug_assert!(i != NONE);
    }

    /// Operations under way.
    pub(super) fn ops_alive(&self) -> usize {
        self.ops.len() - self.free_ops.len()
    }

    /// A leg has left: writes no longer wait for it, and what it still returns is not believed.
    pub(super) fn drop_parts(&mut self, leg: usize, cx: &mut Cx<'_>) {
        for i in 0..self.ops.len() as u32 {
            let op = &mut self.ops[i as usize];
            if matches!(op.kind, Kind::Write | Kind::Read) && !op.over {
                op.parts.set(leg, Part::None);
                if op.issued && op.kind == Kind::Write {
                    self.settle(i, ReqId::NONE, cx);
                }
            }
        }
    }

    /// FUA writes that waited for Solo.
    pub(super) fn answer_fua(&mut self, cx: &mut Cx<'_>) {
        for i in std::mem::take(&mut self.solo_wait) {
            self.end(i, cx);
        }
    }

    /// Whether the leg is read and counts for flushes like any other.
    pub(super) fn is_member(&self, leg: usize) -> bool {
        self.legs[leg].place == Place::Member
    }
}
