//! A leg rejoins: the steps 0 to 5 of docs/explanation/mirror-protocol.md section 4.

use super::decide::{Found, Lacks, is_foreign, returns};
use super::layout::{Gen, State, Superblock};
use super::leg::{Leg, Place};
use super::member::{JoinStep, Proc, stores};
use super::region_map::{D, L};
use super::{Mirror, each};
use crate::member::set::Set;
use crate::member::{Standing, standing};
use nandu_base::{Cx, DeviceEvent, Notice, OpenError};

/// A leg that joins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    /// Which one.
    pub(super) leg: usize,
    /// Whether it lacks everything, and whether it had no records.
    all: bool,
    blank: bool,
    /// Whether it is one more than the others know of.
    is_new: bool,
    /// How its record stands to that of the leader, and for which generation it counts.
    place: Standing,
    counts: Gen,
}

impl Default for Joining {
    fn default() -> Joining {
        Joining {
            leg: 0,
            all: true,
            blank: false,
            is_new: false,
            place: Standing::Unrelated,
            counts: Gen::NONE,
        }
    }
}

impl Mirror {
    pub(super) fn run_join(&mut self, step: JoinStep, cx: &mut Cx<'_>) -> bool {
        let (x, y) = (self.joining.leg, self.leader);
        match step {
            JoinStep::Flush if self.legs[x].is_covered() => {
                self.load_sb(x, cx);
                self.proc = Proc::Join(JoinStep::Read);
            }
            JoinStep::Read if self.legs[x].loading == 0 && self.all_members(Leg::sb_is_settled) => {
                self.join_read(x, cx);
            }
            JoinStep::Renew if self.all_members(Leg::sb_is_settled) => self.renewed(x, cx),
            JoinStep::Maps if self.legs[x].loading == 0 && self.all_members(Leg::sb_is_settled) => {
                self.join_maps(x, cx);
            }
            JoinStep::Mark if self.legs[y].map_is_settled() => {
                self.follow_map(x);
                self.proc = Proc::Join(JoinStep::Follow);
            }
            JoinStep::Follow if self.legs[x].map_is_settled() || self.planted.pair_before_l => {
                let from = self.legs[y].sb;
                self.in_force |= 1 << self.legs[x].sb.leg;
                let paired = |sb: &mut Superblock| {
                    (sb.set, sb.generation, sb.history) = (from.set, from.generation, from.history);
                    (sb.base, sb.state, sb.leader, sb.clean) = (Gen::NONE, State::Pair, from.leg, false);
                    (sb.strict, sb.members) = (from.strict, from.members);
                };
                self.roster[x].given = self.roster[x].replaced;
                self.write_sb(x, paired, cx);
                self.proc = Proc::Join(JoinStep::Record);
            }
            JoinStep::Record if self.legs[x].sb_is_settled() => self.begin_pair(x, cx),
            JoinStep::Pair if self.all_members(Leg::sb_is_settled) => self.joined(x, cx),
            _ => return false,
        }
        true
    }

    /// Whether the record of a leg that comes back names the number of another one.
    fn is_taken(&self, x: usize, found: &Found) -> bool {
        let Found::Valid(own) = found else { return false };
        self.others(x).any(|other| self.legs[other].is_in() && self.legs[other].sb.leg == own.leg)
    }

    /// The number of a leg that had no records: that of its place, unless another one has it.
    fn free_number(&self, x: usize) -> u8 {
        let is_free = |number: &u8| {
            self.others(x).all(|other| self.legs[other].sb.seq == 0 || self.legs[other].sb.leg != *number)
        };
        let own = Some(x as u8).filter(is_free);
        own.or_else(|| (0..self.legs.len() as u8).find(is_free)).unwrap_or(x as u8)
    }

    fn join_read(&mut self, x: usize, cx: &mut Cx<'_>) {
        let found = self.legs[x].found(stores(cx));
        if let Found::Valid(sb) = &found
            && let Err(error) = self.check_geometry(x, sb)
        {
            self.refuse(x, error, cx);
            return;
        }
        let y = self.legs[self.leader].sb;
        let (replaced, believed) = (self.roster[x].replaced, self.planted.replaced_believed);
        let (create, given) = (self.how.create || replaced, self.roster[x].given);
        let returned = match returns(&found, &y, create, self.planted.solo_overwritten) {
            // One that has left again since it was given its records lacks what is marked. What it replaces says no generation so young.
            Ok(lacks)
                if replaced && found != Found::Blank && !believed && !(given && lacks == Lacks::Dirty) =>
            {
                Err("it is not blank")
            }
            Ok(_) if self.is_taken(x, &found) => Err("it belongs to another mirror"),
            Ok(Lacks::All) if believed && found != Found::Blank => Ok(Lacks::Dirty),
            other => other,
        };
        match returned {
            Err(_) if is_foreign(&found, &y) => {
                let (device, remedy) = (self.roster[x].name.clone(), "replace it by the right leg".into());
                self.refuse(x, OpenError::Foreign { device, remedy }, cx);
            }
            Err(why) => {
                let why = format!("leg `{}` cannot rejoin: {why}", self.roster[x].name);
                self.refuse(x, OpenError::Refused { why, remedy: "replace it by the right leg".into() }, cx);
            }
            Ok(lacks) => {
                let (place, counts) = match &found {
                    Found::Valid(sb) => standing(sb, &y),
                    _ => (Standing::Unrelated, Gen::NONE),
                };
                let blank = found == Found::Blank;
                let is_new = blank && usize::from(y.members) < self.legs.len();
                self.joining = Joining { leg: x, all: lacks == Lacks::All, blank, is_new, place, counts };
                self.proc = Proc::Join(JoinStep::Renew);
                let members = self.members();
                for leg in each(members) {
                    self.legs[leg].sb.members += u8::from(is_new);
                }
                match members.count_ones() {
                    _ if self.planted.rejoin_keeps_gen => self.legs[self.leader].sb.keep(counts),
                    1 => self.renew_alone(cx),
                    _ => return self.announce(members, self.leader, State::Pair, cx),
                }
                self.read_on(x, cx);
            }
        }
    }

    /// Step 0b: what the leader holds from now on is under a fresh generation. A copy of the leader from before is
    /// then known for one, also when the leg that returns has got all the rest.
    fn renew_alone(&mut self, cx: &mut Cx<'_>) {
        let y = self.leader;
        let Joining { place, counts, .. } = self.joining;
        let fresh = self.fresh_gen(y, State::Pair, cx.now);
        // Of three legs one that is not there may have begun to join under it.
        let is_known = place == Standing::Current || self.legs.len() > 2;
        let renewed = |sb: &mut Superblock| {
            if is_known {
                sb.remember(sb.generation);
            }
            sb.keep(counts);
            sb.base = if place <= Standing::Before { counts } else { Gen::NONE };
            sb.generation = fresh;
        };
        self.write_sb(y, renewed, cx);
    }

    /// Step 0b of several legs in force: all of them have said which generation is to be it.
    fn renewed(&mut self, x: usize, cx: &mut Cx<'_>) {
        let Joining { place, counts, .. } = self.joining;
        self.parted = if place <= Standing::Before { counts } else { Gen::NONE };
        for leg in each(self.members()) {
            self.legs[leg].sb.keep(counts);
        }
        self.record_members(self.members(), cx);
        self.read_on(x, cx);
    }

    /// Step 0: the maps of the leg are read.
    fn read_on(&mut self, x: usize, cx: &mut Cx<'_>) {
        if self.joining.blank {
            let (y, own) = (self.legs[self.leader].sb, self.legs[x].sb);
            // The numbers of the others are below what their number was.
            let number = if self.joining.is_new { y.members - 1 } else { self.free_number(x) };
            let sb = Superblock {
                leg: number,
                set: y.set,
                seq: 0,
                together: 0,
                strict: y.strict,
                members: y.members,
                ..own
            };
            self.legs[x].begin_anew(sb);
        }
        self.load_maps(x, cx);
        self.proc = Proc::Join(JoinStep::Maps);
    }

    /// The leg stays out; nothing was written to it.
    fn refuse(&mut self, x: usize, error: OpenError, cx: &mut Cx<'_>) {
        self.legs[x].place = Place::Out;
        self.legs[x].forget();
        self.roster[x].replaced = false;
        self.proc = Proc::None;
        self.count.refused += 1;
        cx.event(DeviceEvent::Notice(Notice::Refused(x as u8)));
        if self.opened_after_join {
            self.not_created(error, cx);
        }
    }

    fn join_maps(&mut self, x: usize, cx: &mut Cx<'_>) {
        let blank = self.legs[x].sb.seq == 0;
        if self.legs[x].names_lost() && !blank && !self.policy.lists_lost {
            let why = format!("leg `{}` has a list of lost data", self.roster[x].name);
            self.refuse(x, OpenError::Refused { why, remedy: "open it as a hetero-mirror".into() }, cx);
            return;
        }
        self.legs[x].map.loaded(if blank || !stores(cx) { 0 } else { D | L });
        if self.joining.all && !self.equal_so_far {
            self.lacks_all(x);
        } else {
            self.legs[x].map.any().for_each(|r| self.stale[x].set(r));
        }
        self.give_up_stale_places();
        let map = &mut self.legs[self.leader].map;
        let mut next = self.stale[x].next(0);
        while let Some(region) = next {
            map.set(region, D);
            next = self.stale[x].next(region + 1);
        }
        self.proc = Proc::Join(JoinStep::Mark);
    }

    /// Regions that are idle and stale have no place among the active ones: their D stays. Others may have been resynced while the leg was out.
    fn give_up_stale_places(&mut self) {
        let mut at = self.regions.oldest();
        while let Some(slot) = at {
            at = self.regions.after(slot);
            let region = self.regions.get(slot).region;
            if self.is_stale(region) {
                self.regions.remove(region);
            }
        }
    }

    /// The returning leg's map becomes D and L wherever the leader has D.
    fn follow_map(&mut self, x: usize) {
        let blank = self.legs[x].sb.seq == 0;
        let set: Vec<u32> = self.legs[x].map.any().collect();
        set.into_iter().for_each(|r| self.legs[x].map.put(r, 0));
        let marked: Vec<u32> = self.legs[self.leader].map.any().collect();
        marked.into_iter().for_each(|r| self.legs[x].map.put(r, D | L));
        if blank {
            self.legs[x].map.touch_all();
        }
        if blank || !self.lost.is_empty() || self.legs[x].names_lost() {
            self.legs[x].want_lost();
        }
    }

    /// Step 5: from its issue on the other leg counts.
    fn begin_pair(&mut self, x: usize, cx: &mut Cx<'_>) {
        let (own, leader) = (&self.legs[x].map, &self.legs[self.leader].map);
        let covered = leader.any().all(|r| own.is_durable(r, D | L));
        assert!(
            covered || self.planted.pair_before_l,
            "pair_again_l_covers_d: the leader has D where the returning leg has no L"
        );
        self.legs[x].writes = true;
        let now = cx.now.0;
        for y in each(self.members()) {
            self.write_sb(y, |sb| (sb.state, sb.base, sb.together) = (State::Pair, Gen::NONE, now), cx);
        }
        self.proc = Proc::Join(JoinStep::Pair);
        self.flushes_need(x, cx);
    }

    fn joined(&mut self, x: usize, cx: &mut Cx<'_>) {
        self.legs[x].place = Place::Member;
        (self.roster[x].replaced, self.roster[x].given) = (false, false);
        self.proc = Proc::None;
        self.count.rejoins += 1;
        self.scrub_anew(cx);
        self.stir();
        self.arm_clear(cx);
        if self.opened_after_join && !self.is_whole() {
            return; // the next one joins
        }
        self.equal_so_far = false;
        if std::mem::take(&mut self.opened_after_join) {
            cx.opened(Ok(()));
        }
    }
}
