//! Who belongs to the array: superblocks, checkpoints, legs that go and come, and the end.
//!
//! **A leg goes** when it says so, answers `Gone`, or fails a write twice. From then on nothing is acknowledged and no new
//! piece begins until every other leg durably names a new generation without it. So a leg that was out can never be
//! taken for current: all that was acknowledged without it came after that record.
//!
//! **A leg comes** when it says so and its old requests are back. It starts from nothing, in a new generation that every
//! leg names, and is rebuilt. Generations are counted, and the count has a bound ([`EPOCHS`]): near it no leg comes any more.
//!
//! **Quorum.** All legs but one are needed, and any two such sets share a leg for three legs and more. So two halves
//! cannot go on apart, and one missing leg needs no word from the operator. While the parity is not computed all legs are needed
//! ([decision 191](../../../../docs/decisions/0191-stop-without-a-leg-while-parity-is-not-computed.md)): nothing is put on record without
//! one, so all of them are current when it is back.

use super::layout::{EPOCHS, KEPT_EPOCHS, LegLayout, MOST, OUT, PAGE, Superblock};
use super::piece::{Answer, FLUSH, Kind};
use super::{Parity, Run, Tag, bits};
use crate::member::set::{Roster, Set};
use crate::member::slots::{Record, Slot};
use crate::member::{self, Gen, State};
use crate::scrub::Course;
use crate::stall::under_way;
use nandu_base::{
    ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Health, Instant, Notice, Op, ReqId, Rng,
};

/// What the superblocks say, and what they do not say yet.
#[derive(Debug)]
pub(super) struct Members {
    /// Grows when a leg leaves or joins.
    pub(super) version: u32,
    /// The version that all superblocks name.
    pub(super) settled: u32,
    /// The version that is being written.
    writing: u32,
    /// Superblock writes that are not back.
    pub(super) flying: u32,
    /// What is written; the leg and how far legs are current are put in for each.
    pub(super) sb: Superblock,
    /// Highest epoch ever seen.
    pub(super) epoch: u64,
    pub(super) checkpoint: Checkpoint,
    /// The last checkpoint before the end is under way, or done.
    last: bool,
    ended: bool,
    /// A leg has come back since the array failed.
    pub(super) reopen: bool,
    /// Legs that an unclean start could do without by the operator's word. One that goes later is not among them.
    pub(super) excused: u16,
    joining: Option<Joining>,
}

/// A leg whose superblock is looked at before it joins.
#[derive(Clone, Copy, Debug)]
struct Joining {
    leg: usize,
    /// Reads that are not back.
    left: u8,
}

/// A checkpoint under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checkpoint {
    None,
    /// So many flushes are not back; then superblocks say this floor.
    Flushing {
        left: u32,
        floor: u64,
        version: u32,
    },
    /// They are being written.
    Recording {
        floor: u64,
    },
    /// They are written: room below this floor is free.
    Recorded {
        floor: u64,
    },
}

impl Default for Members {
    fn default() -> Members {
        Members {
            version: 0,
            settled: 0,
            writing: 0,
            flying: 0,
            sb: Superblock::BLANK,
            epoch: 0,
            checkpoint: Checkpoint::None,
            last: false,
            ended: false,
            reopen: false,
            excused: 0,
            joining: None,
        }
    }
}

impl Members {
    /// Whether the superblock of a leg is looked at before it joins.
    pub(super) fn is_joining(&self, leg: usize) -> bool {
        self.joining.is_some_and(|joining| joining.leg == leg)
    }
}

impl Set for Parity {
    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn roster_mut(&mut self) -> &mut Roster {
        &mut self.roster
    }

    fn course(&mut self) -> (&mut Course, bool) {
        (&mut self.scrub.course, self.maintenance.mends)
    }

    fn standing(&self) -> Option<Health> {
        let data = self.geometry.data;
        let full = |l: usize| self.legs[l].durable == data && self.legs[l].recorded == data;
        match self.run {
            Run::Failed => Some(Health::Failed),
            Run::Running if !bits(self.all()).all(full) || self.rebuilds() => Some(Health::Degraded),
            Run::Running if self.lost.count() > 0 => Some(Health::Degraded),
            Run::Running => Some(Health::Healthy),
            Run::Closed | Run::Opening | Run::Growing | Run::Closing => None,
        }
    }

    fn may_leave_out(&self) -> bool {
        matches!(self.run, Run::Running | Run::Closing)
    }

    #[inline]
    fn is_in(&self, leg: usize) -> bool {
        self.legs[leg].is_in()
    }

    fn serves(&self, leg: usize) -> bool {
        self.run == Run::Running && self.legs[leg].is_in()
    }

    fn is_looked_at(&self, leg: usize) -> bool {
        matches!(self.run, Run::Opening | Run::Growing) || self.members.is_joining(leg)
    }

    /// All the others are rebuilt, and the parity is computed.
    fn can_do_without(&self, leg: usize) -> bool {
        let full = |l: usize| l == leg || self.legs[l].durable == self.geometry.data;
        (0..self.legs.len()).all(full) && self.parity_is_right(self.geometry.data)
    }

    fn why_needed(&self, leg: usize) -> Option<(String, &'static str)> {
        let data = self.geometry.data;
        let name = |leg: usize| &self.roster[leg].name;
        if let Some(other) = (0..self.legs.len()).find(|&l| l != leg && self.legs[l].durable != data)
            && !self.planted.needed_leg_replaced
        {
            let why =
                format!("leg `{}` is needed, for `{}` is missing or not rebuilt", name(leg), name(other));
            return Some((why, "add or rebuild that one first"));
        }
        if self.rebuild.parity_upto < data {
            let why = format!("leg `{}` is needed, for the parity is not computed yet", name(leg));
            return Some((why, "wait until `bytes_to_rebuild` is 0"));
        }
        let other = self.lost_beside(leg)?;
        let why = format!("leg `{}` is needed, for sectors of `{}` are lost", name(leg), name(other));
        Some((why, "write over them first, or give the leg up with `fail` and lose its sectors there too"))
    }

    fn leave(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.roster[leg].goes();
        self.opening.interrupt(leg);
        if !self.legs[leg].is_in() {
            return;
        }
        if self.legs[leg].durable == self.geometry.data {
            self.members.excused &= !(1 << leg);
        }
        self.legs[leg].upto = OUT;
        self.legs[leg].durable = OUT;
        self.lost.drop_leg(leg);
        for p in self.pieces.iter_mut().filter(|p| p.kind != Kind::Free) {
            p.legs &= !(1 << leg);
            p.again |= p.reads >> leg & 1 != 0;
        }
        self.members.version += 1;
        self.count.legs_lost += 1;
        self.stir();
        if self.lacking() > 1 && matches!(self.run, Run::Running | Run::Closing) {
            self.run = Run::Failed;
            cx.event(DeviceEvent::Lost);
        }
    }

    /// Everything under way on it counts as answered with `Gone`, so that pieces, checkpoints and superblocks go on as if it had
    /// been unplugged.
    fn leave_late(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let ids = under_way(leg, cx);
        self.count.timeouts += 1;
        self.leave(leg, cx);
        for id in ids {
            let (tag, _, index) = Tag::of(cx.requests[id].cookie);
            match tag {
                Tag::Part => self.part_done(Answer::LOST, leg, index, cx),
                Tag::Flush => self.flush_part_done(Answer::LOST, leg, index, cx),
                Tag::Checkpoint => self.checkpoint_flushed(Answer::LOST.error, leg, cx),
                Tag::SbWrite => self.superblock_written(Answer::LOST.error, leg, cx),
                Tag::Grow => self.grow_done(Answer::LOST.error, leg, cx),
                Tag::Settle | Tag::SbRead | Tag::Header | Tag::Replay | Tag::Redo | Tag::Straggler => {
                    continue;
                }
            }
            cx.requests[id].cookie = Tag::Straggler.cookie(leg, 0);
        }
    }

    fn regained(&mut self, _leg: usize) {
        self.members.reopen = true;
    }

    fn stir(&mut self) {
        self.work.add_all();
    }
}

impl Parity {
    /// Whether new pieces and answers wait: the superblocks do not name the legs as they are.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        let m = &self.members;
        !matches!(self.run, Run::Running | Run::Closing)
            || m.settled != m.version && !self.planted.answered_before_out
    }

    /// A generation that was never in force. Two sessions with the same seed may follow the same one with the same
    /// epoch, when the later has not found what the earlier wrote, or a leg was put back from an older copy. The
    /// time, the state, and the legs that are in tell them apart.
    pub(super) fn next_generation(&mut self, state: State, now: Instant) {
        let head = &self.members.sb.head;
        let before = head.generation;
        let epoch = self.members.epoch + 1;
        assert!(epoch < EPOCHS, "records_are_read: a generation that no start would read");
        let root = Rng::new(self.seed).fork(before.tag).fork(head.seq).fork(now.0 << 2 | state as u64);
        let mut rng = root.fork(u64::from(self.legs_in())).fork(epoch);
        self.members.epoch = epoch;
        let head = &mut self.members.sb.head;
        head.remember(before);
        (head.base, head.state) = (before, state);
        head.generation = Gen { epoch, tag: rng.bits() };
        self.journal.next = self.journal.next.max(epoch << 40);
    }

    /// Writes the superblocks of all legs that are in.
    pub(super) fn write_superblocks(&mut self, cx: &mut Cx<'_>) {
        let full = self.not_full() == 0;
        let head = &mut self.members.sb.head;
        head.seq += 1;
        head.together = if full { cx.now.0 } else { head.together };
        self.members.writing = self.members.version;
        self.legs.iter_mut().for_each(|leg| leg.naming = leg.durable);
        let upto = self.durable();
        let served = self.capacity_of(self.room);
        for leg in bits(self.legs_in()) {
            let l = &mut self.legs[leg];
            let (layout, offset) = (l.layout, ByteOffset(l.layout.superblocks[l.slots.turn()]));
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let page = cx.pool.bytes_mut(payload, ByteLen(PAGE));
            // Only a full member carries the list: so the first record on a blank leg is one sector, and never torn.
            let lost = if upto[leg] == self.geometry.data { self.lost.encode(page) } else { 0 };
            Superblock { lost, ..self.superblock(leg, &layout, served) }.encode(page);
            let (flags, cookie) = (Flags::FUA, Tag::SbWrite.cookie(leg, 0));
            self.members.flying += 1;
            self.count.superblock_writes += 1;
            let draft = Draft { op: Op::Write, flags, offset, len: ByteLen(PAGE), payload, cookie };
            self.send(leg, ReqId::NONE, draft, cx);
            cx.pool.release(payload);
        }
    }

    /// How far each leg is durably current.
    fn durable(&self) -> [u64; MOST] {
        std::array::from_fn(|leg| self.legs.get(leg).map_or(OUT, |leg| leg.durable))
    }

    /// What a leg of this layout says of the array; its list of lost sectors is put in by who has it.
    pub(super) fn superblock(&self, leg: usize, layout: &LegLayout, served: ByteLen) -> Superblock {
        let head = member::Superblock {
            leg: leg as u8,
            leg_bytes: layout.leg.0,
            served: served.0,
            members: self.geometry.legs,
            in_force: u64::from(self.legs_in()),
            map: if self.journaled { layout.journal } else { 0 },
            lost: if self.journaled { layout.slot } else { 0 },
            ..self.members.sb.head
        };
        let (shape, data, upto) = (self.shape, self.geometry.data, self.durable());
        Superblock { head, shape, data, lost: 0, upto, ..self.members.sb }
    }

    pub(super) fn superblock_written(&mut self, error: Option<ErrorKind>, leg: usize, cx: &mut Cx<'_>) {
        self.members.flying -= 1;
        self.stir();
        if let Some(kind) = error {
            self.give_up(leg, kind, cx);
        }
        if self.members.flying == 0 {
            self.legs.iter_mut().for_each(|l| l.recorded = l.naming);
        }
    }

    /// A leg has failed something that it may not fail.
    pub(super) fn give_up(&mut self, leg: usize, kind: ErrorKind, cx: &mut Cx<'_>) {
        if self.legs[leg].is_in() {
            self.count.write_errors += u64::from(kind != ErrorKind::Gone);
            self.leave(leg, cx);
        }
    }

    /// Names the legs as they are, and lets go on what waited for it.
    pub(super) fn pump_superblocks(&mut self, cx: &mut Cx<'_>) {
        if self.members.flying > 0 || !matches!(self.run, Run::Running | Run::Closing) {
            return;
        }
        let m = &mut self.members;
        if let Checkpoint::Recording { floor } = m.checkpoint {
            m.checkpoint =
                if m.writing == m.version { Checkpoint::Recorded { floor } } else { Checkpoint::None };
        }
        if m.settled != m.version && m.writing == m.version {
            m.settled = m.version;
            self.stir();
            for j in std::mem::take(&mut self.held_jobs) {
                self.finish(j, cx);
            }
            for i in std::mem::take(&mut self.held) {
                self.work.granted.push_back(i);
            }
        } else if m.settled != m.version {
            self.next_generation(State::Pair, cx.now);
            self.write_superblocks(cx);
        }
    }

    /// Flush all legs, then let the superblocks say what is durable now.
    pub(super) fn pump_checkpoint(&mut self, cx: &mut Cx<'_>) {
        if let Checkpoint::Recorded { floor } = self.members.checkpoint {
            self.members.checkpoint = Checkpoint::None;
            self.journal.release(floor);
            self.stir();
        }
        let wanted = self.journal.wants_checkpoint() || self.rebuild_wants_checkpoint();
        let wanted = wanted && !self.growing.is_quiet();
        let idle = self.members.checkpoint == Checkpoint::None && self.members.flying == 0;
        let settled = self.members.settled == self.members.version;
        if wanted && idle && settled && self.run == Run::Running {
            self.start_checkpoint(cx);
        }
    }

    fn start_checkpoint(&mut self, cx: &mut Cx<'_>) {
        let floor = self.journal.floor();
        if self.planted.journal_reused_early {
            self.journal.release(floor);
        }
        let legs = self.legs_in();
        let (left, version) = (legs.count_ones(), self.members.version);
        self.members.checkpoint = Checkpoint::Flushing { left, floor, version };
        self.members.last = self.run == Run::Closing;
        self.rebuild.unsaved = 0;
        self.lost.flushing();
        self.count.checkpoints += 1;
        for leg in bits(legs) {
            self.legs[leg].covered = self.legs[leg].upto;
            self.send(leg, ReqId::NONE, Draft { cookie: Tag::Checkpoint.cookie(leg, 0), ..FLUSH }, cx);
        }
    }

    pub(super) fn checkpoint_flushed(&mut self, error: Option<ErrorKind>, leg: usize, cx: &mut Cx<'_>) {
        self.stir();
        if self.opening.is_flushing() {
            return self.opening_flushed(leg, error);
        }
        if let Some(kind) = error {
            self.give_up(leg, kind, cx);
        }
        let Checkpoint::Flushing { left, floor, version } = self.members.checkpoint else { return };
        if version == self.members.version {
            self.legs[leg].durable = self.legs[leg].covered;
        }
        if left > 1 {
            self.members.checkpoint = Checkpoint::Flushing { left: left - 1, floor, version };
        } else if version != self.members.version || self.run == Run::Failed {
            self.members.checkpoint = Checkpoint::None;
        } else {
            self.members.sb.floor = floor;
            self.lost.flushed();
            self.members.ended = self.members.last;
            self.members.sb.head.clean = self.members.last && self.rebuild.parity_upto >= self.geometry.data;
            self.members.checkpoint = Checkpoint::Recording { floor };
            self.write_superblocks(cx);
        }
    }

    /// Takes in a leg that has come back: what does its superblock say?
    pub(super) fn pump_join(&mut self, cx: &mut Cx<'_>) {
        let m = &self.members;
        let quiet = m.joining.is_none() && m.flying == 0 && m.checkpoint == Checkpoint::None;
        if self.run == Run::Failed {
            if !self.closing && self.is_quiet() && self.enough_are_back(cx) {
                self.members.reopen = false;
                self.start_open();
            }
            return;
        }
        if self.run != Run::Running || !quiet || m.settled != m.version {
            return;
        }
        let Some(leg) = self.returning(cx) else { return };
        self.roster[leg].waits_no_more();
        if cx.peek.limits(leg as u8).capacity < self.legs[leg].layout.leg {
            return;
        }
        self.members.joining = Some(Joining { leg, left: 2 });
        self.legs[leg].slots.forget();
        self.send(leg, ReqId::NONE, Draft { cookie: Tag::Settle.cookie(leg, 0), ..FLUSH }, cx);
    }

    /// What a leg that waits to join has in its cache is durable: what its slots show now a cut shows too.
    pub(super) fn join_settled(&mut self, error: Option<ErrorKind>, leg: usize, cx: &mut Cx<'_>) {
        self.stir();
        let Some(joining) = self.members.joining.as_mut().filter(|joining| joining.leg == leg) else {
            return;
        };
        if error.is_none() {
            return self.load_superblocks(leg, cx);
        }
        joining.left = 1;
        self.join_seen(leg, cx);
    }

    fn enough_are_back(&self, cx: &Cx<'_>) -> bool {
        let there = |l: &usize| cx.peek.is_open(*l as u8) && !self.roster[*l].has_failed();
        self.members.reopen && (0..self.legs.len()).filter(there).count() + 1 >= self.legs.len()
    }

    /// Nothing is under way, stragglers included.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_idle() && self.roster.is_home()
    }

    /// A leg that waits to join has shown one slot, or nothing. It may be stale or blank; one of another set is not touched.
    pub(super) fn join_seen(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.stir();
        let Some(joining) = self.members.joining.as_mut().filter(|joining| joining.leg == leg) else {
            return;
        };
        joining.left -= 1;
        if joining.left > 0 {
            return;
        }
        let set = self.members.sb.head.set;
        let is_ours = |head: &member::Superblock| head.set == set && usize::from(head.leg) == leg;
        let seen = self.legs[leg].slots.seen();
        let is_blank = *seen == [Slot::Blank, Slot::Blank];
        let records = seen.iter().filter_map(|slot| match slot {
            Slot::Valid(written) => Some(&written.sb.head),
            _ => None,
        });
        let of_another = records.clone().any(|head| !is_ours(head)) || seen.contains(&Slot::Unreadable);
        let epochs = records.clone().filter(|head| is_ours(head)).map(|head| head.generation.epoch);
        self.members.epoch = self.members.epoch.max(epochs.max().unwrap_or(0));
        let has_record = records.count() > 0;
        let replaced = std::mem::take(&mut self.roster[leg].replaced) && !self.planted.replaced_believed;
        let may_count = self.members.epoch + KEPT_EPOCHS < EPOCHS;
        let fits = may_count && !of_another && (is_blank || has_record && !replaced);
        self.members.joining = None;
        if !fits {
            self.count.legs_refused += 1;
            cx.event(DeviceEvent::Notice(Notice::Refused(leg as u8)));
        } else if self.run == Run::Running && !self.roster[leg].has_failed() {
            let slots = &mut self.legs[leg].slots;
            if let Some((slot, seq)) = slots.newer().map(|(slot, written)| (slot, written.number())) {
                // What is written there from now on is newer, whatever was counted before.
                let head = &mut self.members.sb.head;
                head.seq = head.seq.max(seq);
                slots.written(slot);
            }
            self.legs[leg].upto = 0;
            self.legs[leg].durable = 0;
            self.members.sb.since[leg] = self.members.epoch + 1;
            self.members.version += 1;
            self.count.legs_taken_in += 1;
            self.rebuild.len = u64::MAX;
        }
    }

    pub(super) fn start_close(&mut self, cx: &mut Cx<'_>) {
        self.stir();
        match self.run {
            Run::Closed => cx.closed(),
            Run::Growing => {
                self.grown_in_vain(cx);
                self.closing = true;
            }
            Run::Running => {
                if self.growing.is_on() {
                    self.stop_growing(cx);
                }
                (self.run, self.closing) = (Run::Closing, true);
            }
            _ => (self.run, self.closing) = (Run::Failed, true),
        }
        self.members.ended = false;
    }

    /// The end: nothing is under way, everything is flushed, and the superblocks say so.
    pub(super) fn pump_close(&mut self, cx: &mut Cx<'_>) {
        if !self.closing {
            return;
        }
        let m = &self.members;
        let quiet = m.flying == 0 && m.checkpoint == Checkpoint::None && m.joining.is_none();
        if self.run == Run::Closing && quiet && m.settled == m.version && self.is_idle() && !m.ended {
            return self.start_checkpoint(cx);
        }
        let over = self.run == Run::Failed || quiet && m.ended && m.settled == m.version;
        if over && self.is_quiet() {
            self.drop_opening(cx);
            (self.run, self.closing) = (Run::Closed, false);
            cx.closed();
        }
    }
}
