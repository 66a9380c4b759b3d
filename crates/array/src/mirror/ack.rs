//! The answer to a client before every leg has its write.
//!
//! With `write_ack = "first"` one leg is enough, with `wait-limit` one leg and the time that the other one has, unless
//! that one is delayed and the write waits in its queue, with `leader` the leader as long as the follower lacks fewer than
//! `write_behind` writes. FUA needs it durable on both; with `flush_scope = "leader"` on the leader, where the follower
//! durably says L. Past the bound on the age of exposed data both legs are needed, and past the bound on bytes there is no
//! answer before there is room. Lost data that are written again are answered last of all ([`super::lost`]).
//!
//! From the answer on the extent is free for others. The operation stays, without it, until the other leg has its share too,
//! and so its regions stay marked and busy. The delay queue keeps the payload (R-PAYLOAD) and says which leg is not current.

use super::op::Part;
use super::policy::Ack;
use super::region_map::L;
use super::work::Ready;
use super::{Mirror, each};
use nandu_base::{Cx, Flags, ReqId};

impl Mirror {
    /// Whether the client may have its answer before every leg has answered.
    pub(super) fn may_answer(&self, i: u32) -> bool {
        let op = &self.ops[i as usize];
        if op.upto != op.end || !op.parts.any(Part::Done) || self.exposure.is_late {
            return false;
        }
        if self.lost.touches(op.start, op.end) {
            return false; // lost_clear_after_flush
        }
        if op.flags.has(Flags::FUA) {
            return self.planted.fua_any_leg || self.fua_is_listed(op);
        }
        match self.policy.ack {
            Ack::First => true,
            Ack::WaitLimit => op.waited || op.parts.any(Part::Queued),
            Ack::Both => false,
            Ack::Leader => {
                op.parts.is(self.leader, Part::Done) && self.lag[self.follower()].len() < self.policy.behind
            }
        }
    }

    /// FUA with `flush_scope = "leader"`: durable on the leader, and the follower says that it may lack it.
    fn fua_is_listed(&self, op: &super::op::Operation) -> bool {
        let follower = self.follower();
        let map = &self.legs[follower].map;
        self.policy.fast_flush
            && self.policy.ack == Ack::First
            && self.is_whole()
            && !self.is_held()
            && op.parts.is(self.leader, Part::Done)
            && self.regions_of(op.start, op.end).all(|r| map.is_durable(r, L))
    }

    /// Answers the client while a leg still lacks its share: from now on the leg's queue says so.
    pub(super) fn answer(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        if !self.has_room(i) {
            self.gate(i);
            return;
        }
        self.explain(i, id, cx);
        let op = &self.ops[i as usize];
        assert!(op.parts.any(Part::Done), "ack_has_a_holder: no leg has the data");
        for leg in each(self.ops[i as usize].parts.all(Part::Flying)) {
            let piece = self.ops[i as usize].piece(i, leg);
            self.lag[leg].fly_direct(piece, cx.pool);
            let op = &mut self.ops[i as usize];
            op.parts.set(leg, Part::Queued);
            op.pieces[leg] = 1;
        }
        self.count.early_acks += 1;
        self.expose(i);
        let op = &mut self.ops[i as usize];
        op.acked = true;
        let parent = std::mem::replace(&mut op.parent, ReqId::NONE);
        if parent != ReqId::NONE {
            cx.finish(parent);
        }
        self.locks.leave(i, &mut self.work.granted);
        if self.lag.iter().all(|lag| lag.direct(i).is_none()) {
            self.release_serial(i); // else when the wait limit is over
        }
    }

    pub(super) fn gate(&mut self, i: u32) {
        let op = &mut self.ops[i as usize];
        if !op.gated {
            op.gated = true;
            self.gated.push_back(i);
            self.count.exposure_waits += 1;
            self.work.add(Ready::Drain);
            self.work.add(Ready::Exposure);
        }
    }
}
