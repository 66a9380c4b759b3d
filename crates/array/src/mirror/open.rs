//! Open: flush the legs, read their records, decide by section 5, make the decision durable, and only then serve (R-OPEN).
//!
//! A leg that fails meanwhile is left out and the start begins anew without it. A pair of equal generation is
//! resynced where either map has a bit; the leader's content wins. It is served under a fresh generation, which
//! both legs say in two phases (R-FRESH, [`crate::member`]): so an older copy of either is known for what it is.
//! Two blank legs become a set in the same steps that replace a lost leg: the first takes Solo, the second rejoins
//! blank.

use super::decide::{Found, Members, Start, before, decide};
use super::layout::{Gen, Layout, State, Superblock};
use super::leg::{Leg, Place};
use super::lost::Lost;
use super::member::{Proc, stores};
use super::region_map::{D, L};
use super::{Mirror, Phase, each};
use crate::member::InitialSync;
use crate::member::set::{Seat, Set};
use nandu_base::{ByteLen, Cx, DeviceEvent, Gone, Instant, Notice, OpenError, OpenOptions, Rng};

/// Steps of a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenStep {
    /// Stragglers come back.
    Begin,
    /// All legs flush: after a process died their caches hold what a cut could still remove.
    Flush,
    /// Superblocks are read.
    Superblocks,
    /// Maps are read.
    Maps(Start),
    /// The dirty set is durable.
    Settle(Start),
    /// Several legs say durably which generation is to be in force.
    Announce(Start),
    /// The superblocks under which requests are served are durable.
    Record(Start),
}

impl Mirror {
    pub(super) fn start_open(&mut self) {
        self.proc = Proc::Open(OpenStep::Begin);
        self.stir();
    }

    pub(super) fn run_open(&mut self, step: OpenStep, cx: &mut Cx<'_>) -> bool {
        let next = match step {
            OpenStep::Begin if self.roster.is_home() => self.open_begin(cx),
            OpenStep::Flush if self.all_in(Leg::is_covered) => {
                for leg in 0..self.legs.len() {
                    if self.legs[leg].is_in() {
                        self.load_sb(leg, cx);
                    }
                }
                Ok(OpenStep::Superblocks)
            }
            OpenStep::Superblocks if self.all_in(|l| l.loading == 0) => self.open_decide(cx),
            OpenStep::Maps(start) if self.all_in(|l| l.loading == 0) => self.open_maps(start, cx),
            OpenStep::Settle(start) if self.all_in(Leg::map_is_settled) => match start {
                Start::Pair(members) if !self.planted.opening_in_one_phase => {
                    self.in_force = self.numbers(members.legs);
                    self.announce(members.legs, self.leader, State::Opening, cx);
                    Ok(OpenStep::Announce(start))
                }
                Start::Alone(members) if members.legs.count_ones() > 1 => {
                    self.go_solo(members.legs, cx);
                    Ok(OpenStep::Announce(start))
                }
                _ => Ok(self.open_record(start, cx)),
            },
            OpenStep::Announce(start) if self.all_in(Leg::sb_is_settled) => Ok(self.open_record(start, cx)),
            OpenStep::Record(start) if self.all_in(Leg::sb_is_settled) || self.planted.serve_before_solo => {
                self.open_serve(start, cx);
                return true;
            }
            _ => return false,
        };
        match next {
            Ok(step) => self.proc = Proc::Open(step),
            Err(error) => self.not_opened(error, cx),
        }
        true
    }

    fn open_begin(&mut self, cx: &mut Cx<'_>) -> Result<OpenStep, OpenError> {
        self.forget_work(cx);
        self.locks.clear();
        self.leader = 0;
        for leg in 0..self.legs.len() {
            let right_size = cx.peek.limits(leg as u8).capacity >= self.layouts[leg].leg;
            let l = &mut self.legs[leg];
            l.forget();
            l.place = Place::Out;
            l.awaited = 0;
            self.roster[leg].waits_no_more();
            if cx.peek.is_open(leg as u8) && !self.roster[leg].has_failed() && right_size {
                l.place = Place::Opening;
                if !self.planted.no_flush_at_open {
                    self.flush_anew(leg, cx);
                }
            }
        }
        Ok(OpenStep::Flush)
    }

    fn open_decide(&mut self, cx: &mut Cx<'_>) -> Result<OpenStep, OpenError> {
        let mut found = vec![Found::Absent; self.legs.len()];
        for (leg, found) in found.iter_mut().enumerate() {
            if self.legs[leg].is_in() {
                *found = self.legs[leg].found(stores(cx));
            }
            if let Found::Valid(sb) = found {
                self.check_geometry(leg, sb)?;
            }
        }
        let mut how = self.how;
        how.alone |= self.planted.start_pair_alone;
        let start = decide(&found, &self.roster.names(), how).map_err(|error| self.located(error, &found))?;
        let members = match start {
            Start::Pair(members) | Start::Alone(members) => Some(members),
            Start::Solo(leader) => Some(Members { leader, legs: 1 << leader }),
            Start::Fresh | Start::Salvaged => None,
        };
        if let Some(Members { leader, .. }) = members
            && self.legs[leader].sb.served > self.limits.capacity.0
        {
            let (served, capacity) = (ByteLen(self.legs[leader].sb.served), self.limits.capacity);
            let why = format!("the mirror served {served}, and its legs have room for {capacity} now");
            let remedy = format!("give {} legs their size again", self.all_in_words());
            return Err(OpenError::Refused { why, remedy });
        }
        match start {
            Start::Pair(members) | Start::Alone(members) => self.begin_with(members, start, &found, how, cx),
            Start::Solo(y) => {
                self.in_force = 1 << self.legs[y].sb.leg;
                self.begin_with(Members { leader: y, legs: 1 << y }, start, &found, how, cx);
            }
            Start::Fresh => {
                (1..self.legs.len()).for_each(|leg| self.set_aside(leg, true));
                self.found_set(cx.now);
            }
            Start::Salvaged => {
                (1..self.legs.len()).for_each(|leg| self.set_aside(leg, false));
                self.found_set(cx.now);
                cx.event(DeviceEvent::Notice(Notice::Gone(0, Gone::Set)));
            }
        }
        Ok(OpenStep::Maps(start))
    }

    /// Reads the maps of `members`, which begin; the others rejoin later, if they are there.
    fn begin_with(
        &mut self,
        members: Members,
        start: Start,
        found: &[Found],
        how: OpenOptions,
        cx: &mut Cx<'_>,
    ) {
        self.leader = members.leader;
        // A cut while a leg was added leaves some that do not know of it.
        let most = each(members.legs).map(|leg| self.legs[leg].sb.members).max().unwrap_or(0);
        each(members.legs).for_each(|leg| self.legs[leg].sb.members = most);
        // A leg that has left and says the generation of before returns by marks, over any number of starts without it.
        let sb = self.legs[members.leader].sb;
        let was_joining = |leg: usize| {
            let is_out = members.legs >> leg & 1 == 0;
            matches!(&found[leg], Found::Valid(own) if is_out && own.generation == sb.generation)
        };
        self.parted = match (0..found.len()).any(was_joining) {
            true => sb.generation,
            false if sb.state == State::Opening => Gen::NONE,
            false => sb.base,
        };
        for leg in each(!members.legs).take_while(|&leg| leg < found.len()) {
            // Who is told to start without an old leg leaves it alone until it is added.
            let is_given_up = found[leg].is_given_up(how);
            let left = is_given_up || matches!((start, found[leg]), (Start::Alone(_), Found::Valid(_)));
            if is_given_up {
                cx.event(DeviceEvent::Notice(Notice::Gone(leg as u8, Gone::Leg)));
            }
            let is_there = !matches!(found[leg], Found::Absent | Found::Unread);
            self.set_aside(leg, is_there && !left);
        }
        each(members.legs).for_each(|leg| self.load_maps(leg, cx));
    }

    fn all_in_words(&self) -> &'static str {
        if self.legs.len() == 2 { "both" } else { "all" }
    }

    /// Says where the records of a leg are that holds something else, or cannot be read.
    fn located(&self, error: OpenError, found: &[Found]) -> OpenError {
        let strange = found.iter().position(|found| matches!(found, Found::Foreign | Found::Unread));
        let place = |why: String, leg: usize| {
            let [first, second] = self.layouts[leg].slots;
            format!("{why}: its records are looked for at bytes {first} and {second}")
        };
        match (error, strange) {
            (OpenError::Refused { why, remedy }, Some(leg)) => {
                OpenError::Refused { why: place(why, leg), remedy }
            }
            (OpenError::Unknown { why, remedy }, Some(leg)) => {
                OpenError::Unknown { why: place(why, leg), remedy }
            }
            (error, _) => error,
        }
    }

    /// A leg rejoins later, if it is there.
    fn set_aside(&mut self, x: usize, there: bool) {
        self.legs[x].place = Place::Out;
        self.legs[x].forget();
        self.roster[x].waits_if(there);
    }

    /// Gives the first leg the records of a new set. Its id depends on the driver's seed, and on everything else that tells
    /// this set from others: the names of the machine and of its legs, their sizes, the regions, and the time. A server
    /// gives every start a seed of its own, so two sets that are stated in the same words differ.
    fn found_set(&mut self, now: Instant) {
        let own = self.legs[0].sb;
        let mut rng = Rng::new(self.seed).fork(self.stated()).fork(now.0);
        let set = [rng.bits(), rng.bits()];
        let history = [Gen::NONE; 8];
        let generation = Gen::NONE;
        self.legs[0].begin_anew(Superblock {
            leg: 0,
            set,
            seq: 0,
            generation,
            base: generation,
            history,
            state: State::Pair,
            ..own
        });
        self.legs[0].lost_to_write = true;
        self.legs[0].map.touch_all();
    }

    /// What the stack file says of the set.
    fn stated(&self) -> u64 {
        let legs = self.roster.iter().zip(&self.layouts);
        let sum = |seed, (seat, layout): (&Seat, &Layout)| {
            let size = layout.leg.0.to_le_bytes();
            crc32c::crc32c_append(crc32c::crc32c_append(seed, seat.name.as_bytes()), &size)
        };
        u64::from(legs.fold(0, sum)) << 8 | u64::from(self.shift)
    }

    fn open_maps(&mut self, start: Start, cx: &mut Cx<'_>) -> Result<OpenStep, OpenError> {
        let (y, stored) = (self.leader, stores(cx));
        if let Start::Fresh | Start::Salvaged = start {
            self.opened_after_join = start == Start::Fresh;
            let is_clean = self.initial_sync == InitialSync::AssumeClean || self.how.assume_clean;
            self.equal_so_far = is_clean && start == Start::Fresh;
            if !self.equal_so_far {
                self.others(y).for_each(|leg| self.lacks_all(leg));
            }
            self.declare_on_leader(true);
            return Ok(OpenStep::Settle(start));
        }
        self.open_lost(cx)?;
        let unknown = |bits| if stored { bits } else { 0 };
        let says_so = |m: &Mirror, leg: usize| m.legs[leg].sb.leader == m.legs[leg].sb.leg;
        for leg in 0..self.legs.len() {
            if self.legs[leg].is_in() {
                let otherwise = if leg == y && says_so(self, leg) { D } else { D | L };
                self.legs[leg].map.loaded(unknown(otherwise));
            }
        }
        let was_leader = says_so(self, y);
        if matches!(start, Start::Alone(_)) && !was_leader && self.policy.lists_lost {
            self.give_up_listed(y);
        } else if matches!(start, Start::Alone(_)) && !was_leader {
            self.leader = self.heir_of_a_start()?;
        }
        let y = self.leader;
        for leg in 0..self.legs.len() {
            let believed = !(self.planted.dirty_from_one_map && leg == y && matches!(start, Start::Pair(_)));
            if self.legs[leg].is_in() && believed {
                let named: Vec<u32> = self.legs[leg].map.any().collect();
                let others = self.others(y);
                others.for_each(|other| named.iter().for_each(|&region| self.stale[other].set(region)));
            }
        }
        if !was_leader && self.legs.len() > 2 {
            // Only the map of the leader that is missing knew where other legs differ. Of two legs the other one is that leader.
            self.others(y).for_each(|leg| self.lacks_all(leg));
        }
        self.declare_on_leader(true);
        for leg in self.others(y) {
            if self.legs[leg].is_in() && !self.planted.union_on_leader_only {
                let map = &mut self.legs[leg].map;
                let mut next = self.stale[leg].next(0);
                while let Some(region) = next {
                    map.put(region, D | L);
                    next = self.stale[leg].next(region + 1);
                }
            }
        }
        Ok(OpenStep::Settle(start))
    }

    /// A leg lacks everything, as far as anybody knows.
    pub(super) fn lacks_all(&mut self, leg: usize) {
        (0..self.region_count).for_each(|region| self.stale[leg].set(region));
    }

    /// Of legs that are told to go on without the one that led, the one that leads: it must have been resynced.
    fn heir_of_a_start(&self) -> Result<usize, OpenError> {
        let mut used = (0..self.legs.len()).filter(|&leg| self.legs[leg].is_in());
        used.find(|&leg| !self.legs[leg].map.any_l()).ok_or_else(|| {
            let why =
                format!("leg `{}` was not resynced when it was last used", self.roster[self.leader].name);
            OpenError::Refused { why, remedy: "add the other leg, which holds the data".into() }
        })
    }

    /// What was lost before is lost still, whichever leg says so.
    fn open_lost(&mut self, cx: &mut Cx<'_>) -> Result<(), OpenError> {
        self.lost = Lost::default();
        for leg in 0..self.legs.len() {
            if !self.legs[leg].is_in() || !self.legs[leg].names_lost() {
                continue;
            }
            let refuse = |why: String, remedy: &str| Err(OpenError::Refused { why, remedy: remedy.into() });
            if self.legs[leg].hides_lost() && self.how.salvage {
                cx.event(DeviceEvent::Notice(Notice::Gone(leg as u8, Gone::List)));
            } else if self.legs[leg].hides_lost() {
                let [first, second] = [0, 1].map(|slot| self.layouts[leg].lost_slot(slot).0);
                let why = format!(
                    "the list of lost data on leg `{}`, at bytes {first} and {second}, cannot be read",
                    self.roster[leg].name
                );
                return refuse(why, "leave that leg out, or start with salvage to go on without the list");
            } else if !self.policy.lists_lost {
                let why = format!("leg `{}` has a list of lost data", self.roster[leg].name);
                return refuse(why, "open it as a hetero-mirror");
            }
            for &(start, end) in &self.legs[leg].lost_found {
                self.lost.add(start, end);
            }
        }
        if !self.lost.is_empty() {
            self.legs.iter_mut().filter(|l| l.is_in()).for_each(|l| l.want_lost());
        }
        Ok(())
    }

    /// A former follower goes on without the leader: what it may lack of promised data is lost.
    fn give_up_listed(&mut self, y: usize) {
        let map = &self.legs[y].map;
        let listed: Vec<u32> = map.any().filter(|&r| map.wanted(r) & L != 0).collect();
        for region in listed {
            let start = u64::from(region) << self.shift;
            let end = (start + (1 << self.shift)).min(self.limits.capacity.0);
            self.lost.add(start, end);
            self.count.lost_bytes += end - start;
            self.legs[y].want_lost();
        }
    }

    /// What each leg says from now on; for a pair the second phase.
    fn open_record(&mut self, start: Start, cx: &mut Cx<'_>) -> OpenStep {
        let strict = !self.policy.fast_flush;
        match start {
            Start::Pair(_) if self.planted.served_while_opening => {}
            Start::Pair(members) => {
                if self.planted.opening_in_one_phase {
                    self.in_force = self.numbers(members.legs);
                }
                let now = cx.now;
                let common = before(each(members.legs).map(|leg| &self.legs[leg].sb));
                let fresh = self.planted.opening_in_one_phase.then(|| {
                    let history = self.legs[self.leader].sb.history;
                    (self.fresh_gen(self.leader, State::Opening, now), common, history)
                });
                let (parted, is_whole) = (self.parted, members.legs.count_ones() as usize == self.legs.len());
                for leg in each(members.legs) {
                    let says = |sb: &mut Superblock| {
                        if let Some((fresh, common, history)) = fresh {
                            sb.begin_opening(fresh, common, history);
                        }
                        sb.end_opening();
                        (sb.clean, sb.strict) = (false, strict);
                        if is_whole {
                            sb.together = now.0;
                        } else {
                            sb.base = parted;
                        }
                    };
                    self.write_sb(leg, says, cx);
                }
            }
            Start::Alone(members) if members.legs.count_ones() > 1 => self.record_members(members.legs, cx),
            Start::Alone(members) => drop(self.go_solo(members.legs, cx)),
            Start::Solo(y) => {
                let sb = &self.legs[y].sb;
                if sb.clean || sb.strict != strict {
                    self.write_sb(y, |sb| (sb.clean, sb.strict) = (false, strict), cx);
                }
            }
            Start::Fresh | Start::Salvaged => drop(self.go_solo(1, cx)),
        }
        OpenStep::Record(start)
    }

    fn open_serve(&mut self, start: Start, cx: &mut Cx<'_>) {
        for leg in &mut self.legs {
            if leg.is_in() {
                assert!(
                    leg.sb_is_settled(),
                    "open_durable_before_serve: a leg serves before its superblock is durable"
                );
                leg.place = Place::Member;
                leg.writes = true;
            }
        }
        self.declare_on_leader(false);
        self.count.solos += u64::from(matches!(start, Start::Alone(_)));
        self.proc = Proc::None;
        let was = std::mem::replace(&mut self.phase, Phase::Running);
        self.stir();
        if was == Phase::Growing {
            self.grown(cx);
        } else if was == Phase::Failed {
            cx.event(DeviceEvent::Back);
        } else if !self.opened_after_join {
            cx.opened(Ok(()));
        }
    }

    fn not_opened(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.proc = Proc::None;
        self.opened_after_join = false;
        for (leg, seat) in self.legs.iter_mut().zip(self.roster.iter_mut()) {
            // One that has come back since the start began makes another start worth while.
            if leg.is_in() {
                seat.waits_no_more();
            }
            leg.place = Place::Out;
            leg.forget();
        }
        match self.phase {
            Phase::Opening => {
                self.phase = Phase::Closed;
                cx.opened(Err(error));
            }
            Phase::Growing => self.grown_in_vain(cx),
            _ => {}
        }
    }
}
