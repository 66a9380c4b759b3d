//! Who is a member: a leg leaves, the other takes Solo. How one rejoins: [`super::join`].
//!
//! A procedure is a row of steps; each waits for a condition that [`Mirror::run_proc`] looks at whenever something
//! changed. One procedure runs at a time. The steps carry the numbers of docs/explanation/mirror-protocol.md section 4.

use super::close::CloseStep;
use super::grow::GrowStep;
use super::layout::{Gen, State};
use super::leg::Place;
use super::op::{Kind, Part};
use super::open::OpenStep;
use super::region_map::{D, L};
use super::{CLEAR, EXPOSE, HEDGE, Mirror, Phase, REST, RESYNC, SCRUB, STALL, WAIT};
use nandu_base::{Content, Cx, DeviceEvent, ErrorKind, OpenError, OpenOptions};

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
    /// What was sent to the survivor comes back.
    Drain,
    /// All of it is flushed there.
    Flush(u64),
    /// D of all dirty regions is durable there.
    Map,
    /// The Solo superblock is.
    Record,
}

/// Rejoin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum JoinStep {
    /// 0: the leg is flushed.
    Flush(u64),
    /// 0: its superblock is read.
    Read,
    /// 0: its map is read.
    Maps(bool),
    /// 1: D on the leader.
    Mark(bool),
    /// 2: D and L on the leg.
    Follow,
    /// 3: its superblock.
    Record,
    /// 5: the leader's superblock. (4, "L covers D", holds by then.)
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
        matches!(self, Proc::Join(step) if step >= JoinStep::Mark(false))
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
                let x = self.follower();
                let leg = &mut self.legs[x];
                let ready = leg.back && !leg.is_in() && leg.in_flight == 0 && cx.peek.is_open(x as u8);
                if ready {
                    leg.back = false;
                    leg.place = Place::Joining;
                    leg.forget();
                    let n = self.flush_anew(x, cx);
                    self.proc = Proc::Join(JoinStep::Flush(n));
                } else if !leg.is_in() && !leg.back && self.opened_after_join {
                    self.not_created(OpenError::Gone { device: self.names[x].clone() }, cx);
                }
                ready
            }
            Phase::Closing if self.close_waits() => false,
            Phase::Closing => {
                self.proc = Proc::Close(CloseStep::Drain);
                true
            }
            Phase::Failed => {
                let back = self.legs.iter().any(|l| l.back);
                let quiet = self.legs.iter().all(|l| l.in_flight == 0) && self.ops_alive() == 0;
                if back && quiet {
                    self.how = OpenOptions::default();
                    self.start_open();
                }
                back && quiet
            }
            Phase::Closed | Phase::Opening | Phase::Growing => false,
        }
    }

    /// Whether a leg holds data that the other one lacks: the leader, while any region is stale.
    #[inline]
    pub(super) fn holds_alone(&self, leg: usize) -> bool {
        leg == self.leader && self.stale.count() > 0
    }

    /// A leg is lost, or failed to write or flush.
    pub(super) fn leave(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.legs[leg].failed = true;
        self.legs[leg].back = false;
        if !self.legs[leg].is_in() {
            return;
        }
        self.made_progress = true;
        self.legs[leg].place = Place::Out;
        self.legs[leg].forget();
        match self.phase {
            Phase::Closed => {}
            Phase::Opening | Phase::Failed => self.start_open(),
            Phase::Growing => self.grow_without(),
            Phase::Running | Phase::Closing => self.go_on_without(leg, cx),
        }
    }

    fn go_on_without(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let s = 1 - leg;
        let lacks = self.holds_alone(leg) && !self.planted.promote_half_joined;
        if self.legs[s].place != Place::Member || lacks {
            self.fail(cx); // no_promotion_while_half_joined
            return;
        }
        if leg == self.leader {
            self.stale.clear();
        }
        self.leader = s;
        self.mark_all_stale();
        self.stop_clear();
        self.stop_copies(cx);
        self.proc = match self.proc {
            // The returning leg had not been written to: the survivor is still Solo.
            Proc::Join(step) if step < JoinStep::Record => Proc::None,
            _ => Proc::Solo(SoloStep::Drain),
        };
        self.map_moved = true;
        self.exposure.reset();
        self.ops.iter_mut().for_each(|op| op.exposed = 0);
        self.forget_lag(leg, cx);
        self.drop_parts(leg, cx);
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

    /// Marks reset (R-RESET): the leg that left lacks, as far as anybody knows, every region in use.
    fn mark_all_stale(&mut self) {
        for active in self.regions.iter() {
            self.stale.set(active.region);
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
        for leg in 0..2 {
            self.forget_lag(leg, cx);
        }
        for i in 0..self.ops.len() as u32 {
            let op = &mut self.ops[i as usize];
            (op.parts, op.pieces) = ([Part::None; 2], [0; 2]);
            let waits_for_data = op.kind == Kind::Read && op.flying > 0;
            if op.kind == Kind::Free || op.over || waits_for_data {
                continue;
            }
            if let Some(parent) = op.client() {
                cx.requests[parent].fail(ErrorKind::Gone);
            }
            self.end(i, cx);
        }
        self.ready.clear();
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
            return self.not_created(OpenError::Gone { device: self.names[self.follower()].clone() }, cx);
        }
        if phase == Phase::Closing {
            self.phase = Phase::Closing;
            self.proc = Proc::Close(CloseStep::Stragglers);
            self.made_progress = true;
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
        self.stale.clear();
        self.repairs.clear();
        self.copy_wait.clear();
        self.gated.clear();
        self.heals.clear();
        self.exposure.reset();
        self.exposure.disarm();
        self.waits.forget();
        self.hedges.forget();
        self.stalls.forget();
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
        match step {
            SoloStep::Drain
                if self.legs[s].sb_is_settled()
                    && (self.planted.solo_before_drain
                        || self.legs[s].data_writes == 0 && self.lag[s].is_empty()) =>
            {
                let n = self.flush_anew(s, cx);
                self.proc = Proc::Solo(SoloStep::Flush(n));
            }
            SoloStep::Flush(n) if self.legs[s].flushed(n) || self.planted.solo_before_drain => {
                self.declare_on_leader(true);
                if !self.lost.is_empty() {
                    self.legs[s].want_lost();
                }
                self.proc = Proc::Solo(SoloStep::Map);
            }
            SoloStep::Map if self.legs[s].map_is_settled() => {
                self.write_solo(s, cx);
                self.proc = Proc::Solo(SoloStep::Record);
            }
            SoloStep::Record if self.legs[s].sb_is_settled() => {
                self.proc = Proc::None;
                self.declare_on_leader(false);
                self.count.solos += 1;
                self.map_moved = true; // writes that wait go on
                self.made_progress = true;
                self.answer_fua(cx);
            }
            _ => return false,
        }
        true
    }

    /// D of the leader is exactly what the other leg lacks. A leg that was the follower keeps its L until its Solo superblock
    /// is durable: a start that is cut must not find neither L nor the list of lost data.
    pub(super) fn declare_on_leader(&mut self, keep_l: bool) {
        let keep = if keep_l { L } else { 0 };
        let map = &mut self.legs[self.leader].map;
        let set: Vec<u32> = map.any().collect();
        for region in set {
            if !self.stale.has(region) {
                map.put(region, 0);
            }
        }
        let mut next = self.stale.next(0);
        while let Some(region) = next {
            map.put(region, D | map.wanted(region) & keep);
            next = self.stale.next(region + 1);
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
