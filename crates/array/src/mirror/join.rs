//! A leg rejoins: the steps 0 to 5 of docs/explanation/mirror-protocol.md section 4.

use super::Mirror;
use super::decide::{Found, Lacks, is_foreign, returns};
use super::layout::{Gen, State, Superblock};
use super::leg::Place;
use super::member::{JoinStep, Proc, stores};
use super::region_map::{D, L};
use crate::member::{Standing, standing};
use nandu_base::{Cx, DeviceEvent, Notice, OpenError};

impl Mirror {
    pub(super) fn run_join(&mut self, step: JoinStep, cx: &mut Cx<'_>) -> bool {
        let (x, y) = (self.follower(), self.leader);
        match step {
            JoinStep::Flush(n) if self.legs[x].flushed(n) => {
                self.load_sb(x, cx);
                self.proc = Proc::Join(JoinStep::Read);
            }
            JoinStep::Read if self.legs[x].loading == 0 && self.legs[y].sb_is_settled() => {
                self.join_read(x, cx);
            }
            JoinStep::Maps(all) if self.legs[x].loading == 0 && self.legs[y].sb_is_settled() => {
                self.join_maps(x, all, cx);
            }
            JoinStep::Mark(blank) if self.legs[y].map_is_settled() => {
                self.follow_map(x, blank);
                self.proc = Proc::Join(JoinStep::Follow);
            }
            JoinStep::Follow if self.legs[x].map_is_settled() || self.planted.pair_before_l => {
                let from = self.legs[y].sb;
                let paired = |sb: &mut Superblock| {
                    (sb.set, sb.generation, sb.history) = (from.set, from.generation, from.history);
                    (sb.base, sb.state, sb.leader, sb.clean) = (Gen::NONE, State::Pair, from.leg, false);
                    sb.strict = from.strict;
                };
                self.write_sb(x, paired, cx);
                self.proc = Proc::Join(JoinStep::Record);
            }
            JoinStep::Record if self.legs[x].sb_is_settled() => self.begin_pair(x, cx),
            JoinStep::Pair if self.legs[y].sb_is_settled() => self.joined(x, cx),
            _ => return false,
        }
        true
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
        let (replaced, believed) = (self.legs[x].replaced, self.planted.replaced_believed);
        let create = self.how.create || replaced;
        let returned = match returns(&found, &y, create, self.planted.solo_overwritten) {
            Ok(_) if replaced && found != Found::Blank && !believed => Err("it is not blank"),
            Ok(Lacks::All) if believed && found != Found::Blank => Ok(Lacks::Dirty),
            other => other,
        };
        match returned {
            Err(_) if is_foreign(&found, &y) => {
                let (device, remedy) = (self.names[x].clone(), "replace it by the right leg".into());
                self.refuse(x, OpenError::Foreign { device, remedy }, cx);
            }
            Err(why) => {
                let why = format!("leg `{}` cannot rejoin: {why}", self.names[x]);
                self.refuse(x, OpenError::Refused { why, remedy: "replace it by the right leg".into() }, cx);
            }
            Ok(lacks) => {
                self.renew(&found, cx);
                if found == Found::Blank {
                    let own = self.legs[x].sb;
                    let sb = Superblock {
                        leg: 1 - y.leg,
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
                self.proc = Proc::Join(JoinStep::Maps(lacks == Lacks::All));
            }
        }
    }

    /// Step 0b: what the leader holds from now on is under a fresh generation. A copy of the leader from before is
    /// then known for one, also when the leg that returns has got all the rest.
    fn renew(&mut self, found: &Found, cx: &mut Cx<'_>) {
        let y = self.leader;
        let (place, counts) = match found {
            Found::Valid(sb) => standing(sb, &self.legs[y].sb),
            _ => (Standing::Unrelated, Gen::NONE),
        };
        if self.planted.rejoin_keeps_gen {
            self.legs[y].sb.keep(counts);
            return;
        }
        let fresh = self.fresh_gen(y, State::Pair, cx.now);
        let renewed = |sb: &mut Superblock| {
            if place == Standing::Current {
                sb.remember(counts);
            }
            sb.keep(counts);
            sb.base = if place <= Standing::Before { counts } else { Gen::NONE };
            sb.generation = fresh;
        };
        self.write_sb(y, renewed, cx);
    }

    /// The leg stays out; nothing was written to it.
    fn refuse(&mut self, x: usize, error: OpenError, cx: &mut Cx<'_>) {
        self.legs[x].place = Place::Out;
        self.legs[x].forget();
        self.legs[x].replaced = false;
        self.proc = Proc::None;
        self.count.refused += 1;
        cx.event(DeviceEvent::Notice(Notice::Refused(x as u8)));
        if self.opened_after_join {
            self.not_created(error, cx);
        }
    }

    fn join_maps(&mut self, x: usize, all: bool, cx: &mut Cx<'_>) {
        let blank = self.legs[x].sb.seq == 0;
        if self.legs[x].names_lost() && !blank && !self.policy.lists_lost {
            let why = format!("leg `{}` has a list of lost data", self.names[x]);
            self.refuse(x, OpenError::Refused { why, remedy: "open it as a hetero-mirror".into() }, cx);
            return;
        }
        self.legs[x].map.loaded(if blank || !stores(cx) { 0 } else { D | L });
        if all && !self.equal_so_far {
            (0..self.region_count).for_each(|r| self.stale.set(r));
        } else {
            self.legs[x].map.any().for_each(|r| self.stale.set(r));
        }
        let map = &mut self.legs[self.leader].map;
        let mut next = self.stale.next(0);
        while let Some(region) = next {
            map.set(region, D);
            next = self.stale.next(region + 1);
        }
        self.proc = Proc::Join(JoinStep::Mark(blank));
    }

    /// The returning leg's map becomes D and L wherever the leader has D.
    fn follow_map(&mut self, x: usize, blank: bool) {
        let [a, b] = &mut self.legs;
        let (own, leader) = if x == 0 { (&mut a.map, &b.map) } else { (&mut b.map, &a.map) };
        let set: Vec<u32> = own.any().collect();
        set.into_iter().for_each(|r| own.put(r, 0));
        leader.any().for_each(|r| own.put(r, D | L));
        if blank {
            own.touch_all();
        }
        if blank || !self.lost.is_empty() || self.legs[x].names_lost() {
            self.legs[x].want_lost();
        }
    }

    /// Step 5: from its issue on the other leg counts.
    fn begin_pair(&mut self, x: usize, cx: &mut Cx<'_>) {
        let y = self.leader;
        let [a, b] = &self.legs;
        let (own, leader) = if x == 0 { (&a.map, &b.map) } else { (&b.map, &a.map) };
        let covered = leader.any().all(|r| own.is_durable(r, D | L));
        assert!(
            covered || self.planted.pair_before_l,
            "pair_again_l_covers_d: the leader has D where the returning leg has no L"
        );
        self.legs[x].writes = true;
        let now = cx.now.0;
        self.write_sb(y, |sb| (sb.state, sb.base, sb.together) = (State::Pair, Gen::NONE, now), cx);
        self.proc = Proc::Join(JoinStep::Pair);
        self.flushes_need(x, cx);
    }

    fn joined(&mut self, x: usize, cx: &mut Cx<'_>) {
        self.legs[x].place = Place::Member;
        self.legs[x].replaced = false;
        self.proc = Proc::None;
        self.count.rejoins += 1;
        self.equal_so_far = false;
        self.map_moved = true; // writes that wait for a new D go on
        self.made_progress = true;
        self.arm_clear(cx);
        if std::mem::take(&mut self.opened_after_join) {
            cx.opened(Ok(()));
        }
    }
}
