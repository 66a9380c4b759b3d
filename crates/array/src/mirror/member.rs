//! Who is a member: a leg leaves, the others take Solo: they go on without it. How one rejoins: [`super::join`].
//!
//! A procedure is a row of steps; each waits for a condition that [`Mirror::run_proc`] looks at whenever something
//! changed. One procedure runs at a time. The steps carry the numbers of docs/explanation/mirror-protocol.md section 4.

use super::close::CloseStep;
use super::decide::before;
use super::grow::GrowStep;
use super::layout::{Gen, State, Superblock};
use super::leg::{Leg, Place};
use super::op::{Kind, Part, Parts};
use super::open::OpenStep;
use super::region_map::{Bits, D, L};
use super::work::Ready;
use super::{CLEAR, DELAYED, EXPOSE, HEDGE, Legs, Mirror, Phase, REST, RESYNC, SCRUB, STALL, WAIT, each};
use crate::member::set::{Roster, Set};
use crate::scrub::Course;
use nandu_base::{Content, Cx, DeviceEvent, ErrorKind, Health, OpenError, OpenOptions};

/// The procedure under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proc {
    None,
    Open(OpenStep),
    Solo(SoloStep),
    Join(JoinStep),
    Close(CloseStep),
    Grow(GrowStep),
}

/// Take Solo (R-SOLO).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SoloStep {
    /// What was sent to the survivors comes back.
    Drain,
    /// All of it is flushed there.
    Flush,
    /// D of all dirty regions is durable on the one that leads.
    Map,
    /// Several survivors say durably which generation is to be in force.
    Announce,
    /// The superblocks that name the survivors are durable on all of them.
    Record,
}

/// Rejoin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum JoinStep {
    /// 0: the leg is flushed.
    Flush,
    /// 0: its superblock is read.
    Read,
    /// 0b: several legs in force say durably which generation is to be in force.
    Renew,
    /// 0: its map is read.
    Maps,
    /// 1: D on the leader.
    Mark,
    /// 2: D and L on the leg.
    Follow,
    /// 3: its superblock.
    Record,
    /// 5: the superblocks of those that were in force. (4, "L covers D", holds by then.)
    Pair,
}

impl Proc {
    pub(super) fn is_any(self) -> bool {
        self != Proc::None
    }
    /// New writes and all flushes wait.
    pub(super) fn is_solo(self) -> bool {
        matches!(self, Proc::Solo(_))
    }
    /// Writes that need a new D wait, so that L(x) covers D(y) when the pair begins.
    pub(super) fn holds_new_regions(self) -> bool {
        matches!(self, Proc::Join(step) if step >= JoinStep::Mark)
    }
    /// The superblock that makes the joining leg count for flushes was issued.
    pub(super) fn pair_rule(self) -> bool {
        self == Proc::Join(JoinStep::Pair)
    }
}

/// Whether what is written can be read again in this run.
pub(super) fn stores(cx: &Cx<'_>) -> bool {
    cx.pool.content() != Content::Nothing
}

impl Set for Mirror {
    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn roster_mut(&mut self) -> &mut Roster {
        &mut self.roster
    }

    fn course(&mut self) -> (&mut Course, bool) {
        (&mut self.scrub.course, self.maintenance.scrub_mends)
    }

    fn standing(&self) -> Option<Health> {
        match self.phase {
            Phase::Failed => Some(Health::Failed),
            Phase::Running if self.opened_after_join => None,
            Phase::Running if !self.is_whole() || self.lacks_some() => Some(Health::Degraded),
            Phase::Running if self.exposure.is_late => Some(Health::Exposed),
            Phase::Running => Some(Health::Healthy),
            Phase::Closed | Phase::Opening | Phase::Closing | Phase::Growing => None,
        }
    }

    /// A new set begins with all legs: each may take its time to join the first.
    fn may_leave_out(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Closing) && !self.opened_after_join
    }

    #[inline]
    fn is_in(&self, leg: usize) -> bool {
        self.legs[leg].is_in()
    }

    fn serves(&self, leg: usize) -> bool {
        self.is_member(leg)
    }

    fn is_looked_at(&self, leg: usize) -> bool {
        self.legs[leg].is_in() || matches!(self.proc, Proc::Open(_))
    }

    /// One of the others leads, or may do so.
    fn can_do_without(&self, leg: usize) -> bool {
        let can_go_on = |other: usize| match leg == self.leader {
            true => self.may_lead(other, leg),
            false => self.legs[other].place == Place::Member,
        };
        self.others(leg).any(can_go_on)
    }

    fn why_needed(&self, leg: usize) -> Option<(String, &'static str)> {
        let others = if self.legs.len() == 2 { "the other one lacks" } else { "the others lack" };
        let why = || format!("leg `{}` holds data that {others}", self.roster[leg].name);
        (!self.can_do_without(leg)).then(|| (why(), "wait until the other leg is resynced"))
    }

    fn leave(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.roster[leg].goes();
        if !self.legs[leg].is_in() {
            if self.opened_after_join {
                // It was to join: there is no new set without it.
                self.work.add(Ready::Records);
            }
            return;
        }
        self.stir();
        self.legs[leg].place = Place::Out;
        self.legs[leg].forget();
        match self.phase {
            Phase::Closed => {}
            Phase::Opening | Phase::Failed => self.start_open(),
            Phase::Growing => self.grow_without(),
            Phase::Running | Phase::Closing => self.go_on_without(leg, cx),
        }
    }

    /// Writes go on with the other legs, and reads begin anew there; what the late leg still returns ends as a straggler.
    fn leave_late(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let waits = |i: &u32| {
            let op = &self.ops[*i as usize];
            let asked = op.parts.all(Part::Flying) == 1 << leg;
            op.kind == Kind::Read && !op.over && asked
        };
        let reads: Vec<u32> = (0..self.ops.len() as u32).filter(waits).collect();
        self.count.timeouts[leg] += 1;
        self.leave(leg, cx);
        for i in reads {
            if !self.ops[i as usize].over {
                self.read_anew(i, cx);
            }
        }
    }

    fn regained(&mut self, leg: usize) {
        self.paces[leg].pressed = false;
        self.note_standing(leg, false);
    }

    fn stir(&mut self) {
        self.work.add_all();
    }
}

impl Mirror {
    /// Moves the procedure on; whether it moved.
    pub(super) fn run_proc(&mut self, cx: &mut Cx<'_>) -> bool {
        match self.proc {
            Proc::None => self.next_proc(cx),
            Proc::Open(step) => self.run_open(step, cx),
            Proc::Solo(step) => self.run_solo(step, cx),
            Proc::Join(step) => self.run_join(step, cx),
            Proc::Close(step) => self.run_close(step, cx),
            Proc::Grow(step) => self.run_grow(step, cx),
        }
    }

    fn next_proc(&mut self, cx: &mut Cx<'_>) -> bool {
        match self.phase {
            Phase::Running => {
                let ready = self.returning(cx);
                if let Some(x) = ready {
                    self.roster[x].waits_no_more();
                    let leg = &mut self.legs[x];
                    leg.place = Place::Joining;
                    leg.forget();
                    self.flush_anew(x, cx);
                    self.joining.leg = x;
                    self.proc = Proc::Join(JoinStep::Flush);
                } else if self.opened_after_join {
                    let gone = self
                        .others(self.leader)
                        .find(|&x| !self.legs[x].is_in() && !self.roster[x].is_back());
                    if let Some(x) = gone {
                        self.not_created(OpenError::Gone { device: self.roster[x].name.clone() }, cx);
                    }
                }
                ready.is_some()
            }
            Phase::Closing if self.close_waits() => false,
            Phase::Closing => {
                self.proc = Proc::Close(CloseStep::Drain);
                true
            }
            Phase::Failed => {
                let back = self.roster.is_any_back();
                let quiet = self.roster.is_home() && self.ops_alive() == 0;
                if back && quiet {
                    self.how = OpenOptions::default();
                    self.start_open();
                }
                back && quiet
            }
            Phase::Closed | Phase::Opening | Phase::Growing => false,
        }
    }

    /// Whether a leg holds data that every other one lacks: the leader, while some region is stale on each.
    #[inline]
    pub(super) fn holds_alone(&self, leg: usize) -> bool {
        let is_level = |other: usize| self.legs[other].place != Place::Out && self.stale[other].count() == 0;
        leg == self.leader && !self.others(leg).any(is_level)
    }

    /// Whether a leg may lead when `leg` leaves: a full member that lacks nothing.
    pub(super) fn may_lead(&self, heir: usize, leg: usize) -> bool {
        let is_level = self.stale[heir].count() == 0 || self.planted.promote_half_joined;
        heir != leg && self.legs[heir].place == Place::Member && is_level
    }

    pub(super) fn go_on_without(&mut self, leg: usize, cx: &mut Cx<'_>) {
        if !self.can_do_without(leg) {
            self.fail(cx); // no_promotion_while_half_joined
            return;
        }
        if leg == self.leader {
            let wanted = self.swap_to.take().filter(|&heir| self.may_lead(heir, leg));
            let heir = wanted.or_else(|| self.others(leg).find(|&heir| self.may_lead(heir, leg)));
            self.leader = heir.expect("the others can do without it");
            self.stale[self.leader].clear();
        }
        let was_joining = match self.proc {
            Proc::Join(step) => Some((self.joining.leg, step)),
            _ => None,
        };
        // One that was joining while a member leaves does so later.
        let later = was_joining.map(|(x, _)| x).filter(|&x| x != leg);
        if let Some(x) = later {
            self.legs[x].place = Place::Out;
            self.roster[x].comes_back();
            self.legs[x].forget();
        }
        self.mark_all_stale();
        for out in [Some(leg), later].into_iter().flatten() {
            self.lacks_marked(out);
        }
        self.stop_clear();
        // The returning leg had not been written to: the others say already that they go on without it.
        let is_said = was_joining
            .is_some_and(|(x, step)| x == leg && step < JoinStep::Record && step != JoinStep::Renew);
        if !is_said || self.members().count_ones() < 2 {
            self.stop_copies(cx); // what is under way ends before the survivors go on
        }
        self.proc = if is_said { Proc::None } else { Proc::Solo(SoloStep::Drain) };
        self.exposure.reset();
        self.ops.iter_mut().for_each(|op| op.exposed = 0);
        for out in [Some(leg), later].into_iter().flatten() {
            self.forget_lag(out, cx);
            self.drop_parts(out, cx);
        }
        self.stop_growing(cx);
    }

    /// Nothing waits for a leg that is out, and the other one need not keep apart from it.
    fn forget_lag(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let mut gone = Vec::new();
        self.lag[leg].clear(&mut gone, cx.pool);
        gone.iter().for_each(|piece| self.ops[piece.writer as usize].pieces[leg] = 0);
        self.paces.iter_mut().for_each(|p| p.resume(cx.now));
        (self.paces[leg].pressed, self.paces[leg].stuck, self.no_trim[leg]) = (false, false, false);
    }

    /// Where another leg lacks data a region has no place among the active ones, and nobody knows what of it this leg had flushed.
    fn lacks_marked(&mut self, leg: usize) {
        let mut next = self.next_stale(0);
        while let Some(region) = next {
            self.stale[leg].set(region);
            next = self.next_stale(region + 1);
        }
    }

    /// Marks reset (R-RESET): a leg that is out lacks, as far as anybody knows, every region in use.
    pub(super) fn mark_all_stale(&mut self) {
        for slot in self.regions.iter() {
            let region = self.regions.get(slot).region;
            for leg in (0..self.legs.len()).filter(|&leg| self.legs[leg].place != Place::Member) {
                self.stale[leg].set(region);
            }
        }
        while let Some(slot) = self.regions.oldest() {
            let region = self.regions.get(slot).region;
            self.regions.remove(region);
        }
    }

    /// No leg may serve: everything under way fails, until a leg comes back and the records allow a new start.
    pub(super) fn fail(&mut self, cx: &mut Cx<'_>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Failed);
        self.proc = Proc::None;
        self.let_go();
        self.stop_growing(cx);
        for leg in 0..self.legs.len() {
            self.forget_lag(leg, cx);
        }
        for i in 0..self.ops.len() as u32 {
            let op = &mut self.ops[i as usize];
            (op.parts, op.pieces) = (Parts::NONE, [0; DELAYED]);
            let waits_for_data = op.kind == Kind::Read && op.flying > 0;
            if op.kind == Kind::Free || op.over || waits_for_data {
                continue;
            }
            if let Some(parent) = op.client() {
                cx.requests[parent].fail(ErrorKind::Gone);
            }
            self.end(i, cx);
        }
        self.work.granted.clear();
        for id in std::mem::take(&mut self.op_queue) {
            cx.requests[id].fail(ErrorKind::Gone);
            cx.finish(id);
        }
        self.forget_work(cx);
        while let Some(id) = self.take_flush() {
            cx.requests[id].fail(ErrorKind::Gone);
            cx.finish(id);
        }
        if self.opened_after_join {
            let gone = self.others(self.leader).find(|&x| !self.legs[x].is_in()).unwrap_or(self.follower());
            return self.not_created(OpenError::Gone { device: self.roster[gone].name.clone() }, cx);
        }
        if phase == Phase::Closing {
            self.phase = Phase::Closing;
            self.proc = Proc::Close(CloseStep::Stragglers);
            self.stir();
        }
        cx.event(DeviceEvent::Lost);
    }

    /// Uses no leg any more. What is in flight comes back as a straggler.
    pub(super) fn let_go(&mut self) {
        for leg in &mut self.legs {
            leg.place = Place::Out;
            leg.forget();
        }
    }

    /// A new mirror begins with two legs or not at all.
    pub(super) fn not_created(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.opened_after_join = false;
        self.let_go();
        self.proc = Proc::None;
        self.phase = Phase::Closed;
        cx.opened(Err(error));
    }

    /// Forgets everything that was learnt about the legs.
    pub(super) fn forget_work(&mut self, cx: &mut Cx<'_>) {
        self.slot_wait.clear();
        self.intent_wait.clear();
        self.solo_wait.clear();
        self.regions.clear();
        self.stale.iter_mut().for_each(Bits::clear);
        self.repairs.clear();
        self.copy_wait.clear();
        self.gated.clear();
        self.heals.clear();
        self.exposure.reset();
        self.exposure.disarm();
        self.waits.forget();
        self.hedges.forget();
        self.roster.forget_stalls();
        self.scrub.forget();
        self.swap = None;
        self.ahead = super::mark_ahead::MarkAhead::default();
        for key in [WAIT, REST, EXPOSE, HEDGE, SCRUB, STALL] {
            cx.cancel_wake(key);
        }
        self.stop_clear();
        self.forget_resync();
        self.disarm_clear();
        cx.cancel_wake(CLEAR);
        cx.cancel_wake(RESYNC);
    }

    fn run_solo(&mut self, step: SoloStep, cx: &mut Cx<'_>) -> bool {
        let s = self.leader;
        let drains = !self.planted.solo_before_drain;
        let is_drained = |m: &Mirror| {
            m.all_members(|l| l.data_writes == 0) && each(m.members()).all(|leg| m.lag[leg].is_empty())
        };
        let next = match step {
            SoloStep::Drain if self.all_members(Leg::sb_is_settled) && (!drains || is_drained(self)) => {
                each(self.members()).for_each(|leg| self.flush_anew(leg, cx));
                SoloStep::Flush
            }
            SoloStep::Flush if self.all_members(Leg::is_covered) || !drains => {
                self.declare_on_leader(true);
                if !self.lost.is_empty() {
                    self.legs[s].want_lost();
                }
                SoloStep::Map
            }
            SoloStep::Map if self.legs[s].map_is_settled() => self.go_solo(self.members(), cx),
            SoloStep::Announce if self.all_members(Leg::sb_is_settled) => {
                self.record_members(self.members(), cx);
                SoloStep::Record
            }
            SoloStep::Record if self.all_members(Leg::sb_is_settled) => {
                self.proc = Proc::None;
                self.declare_on_leader(false);
                self.count.solos += 1;
                self.stir();
                self.answer_fua(cx);
                return true;
            }
            _ => return false,
        };
        self.proc = Proc::Solo(next);
        true
    }

    /// D of the leader is exactly what some other leg lacks. A leg that was a follower keeps its L until it says durably that it
    /// leads: a start that is cut must not find neither L nor the list of lost data.
    pub(super) fn declare_on_leader(&mut self, keep_l: bool) {
        let keep = if keep_l { L } else { 0 };
        let map = &mut self.legs[self.leader].map;
        let set: Vec<u32> = map.any().collect();
        for region in set {
            if !self.stale.iter().any(|stale| stale.has(region)) {
                map.put(region, 0);
            }
        }
        let mut next = self.next_stale(0);
        while let Some(region) = next {
            let map = &mut self.legs[self.leader].map;
            map.put(region, D | map.wanted(region) & keep);
            next = self.next_stale(region + 1);
        }
    }

    /// The numbers of these legs in the records, one bit each.
    pub(super) fn numbers(&self, legs: Legs) -> u64 {
        each(legs).fold(0, |all, leg| all | 1 << self.legs[leg].sb.leg)
    }

    /// Writes that `legs` go on without the others, under a fresh generation: one leg at once, several in two phases, for
    /// what one of them says must not be taken for an old copy after a cut.
    pub(super) fn go_solo(&mut self, legs: Legs, cx: &mut Cx<'_>) -> SoloStep {
        assert!(
            self.planted.solo_before_drain || each(legs).all(|leg| self.legs[leg].data_writes == 0),
            "solo_after_drain_and_flush"
        );
        self.in_force = self.numbers(legs);
        if legs.count_ones() == 1 {
            self.write_solo(self.leader, cx);
            return SoloStep::Record;
        }
        let sb = &self.legs[self.leader].sb;
        self.parted = if sb.state == State::Opening { sb.base } else { sb.generation };
        self.announce(legs, self.leader, State::Solo, cx);
        SoloStep::Announce
    }

    /// First phase: `legs` say which generation is to be in force, and which one they had. Its history is that of leg `y`.
    pub(super) fn announce(&mut self, legs: Legs, y: usize, state: State, cx: &mut Cx<'_>) {
        let common = before(each(legs).map(|leg| &self.legs[leg].sb));
        let keeps = self.planted.opening_keeps_gen && state == State::Opening;
        let fresh = if keeps { common } else { self.fresh_gen(y, state, cx.now) };
        let (history, leader) = (self.legs[y].sb.history, self.legs[self.leader].sb.leg);
        for leg in each(legs) {
            if self.planted.one_survivor_records && state == State::Solo && leg != self.leader {
                continue;
            }
            let says = |sb: &mut Superblock| {
                sb.begin_opening(fresh, common, history);
                sb.leader = leader;
            };
            self.write_sb(leg, says, cx);
        }
    }

    /// Second phase: `legs` are in force.
    pub(super) fn record_members(&mut self, legs: Legs, cx: &mut Cx<'_>) {
        let parted = self.parted;
        for leg in each(legs) {
            if self.planted.one_survivor_records && leg != self.leader {
                continue;
            }
            let says = |sb: &mut Superblock| {
                sb.end_opening();
                (sb.base, sb.clean) = (parted, false);
            };
            self.write_sb(leg, says, cx);
        }
    }

    /// Writes the superblock of a leg that goes on alone, with a fresh generation.
    pub(super) fn write_solo(&mut self, s: usize, cx: &mut Cx<'_>) {
        assert!(
            self.planted.solo_before_drain || self.legs[s].data_writes == 0 && self.lag[s].is_empty(),
            "solo_after_drain_and_flush"
        );
        let generation = if self.planted.solo_keeps_gen && self.legs[s].sb.generation != Gen::NONE {
            self.legs[s].sb.generation
        } else {
            self.fresh_gen(s, State::Solo, cx.now)
        };
        self.write_sb(
            s,
            |sb| {
                // Nothing was served under an opening: the other leg may still say what was before.
                if sb.state != State::Opening {
                    sb.base = sb.generation;
                }
                sb.remember(sb.generation);
                (sb.generation, sb.state) = (generation, State::Solo);
                sb.leader = sb.leg;
                sb.clean = false;
            },
            cx,
        );
    }
}
