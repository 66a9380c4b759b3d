//! Two legs of a mirror in mode `strict`, one region with one block.

use crate::{Model, Versions, explore};
use nandu_array::member::{Gen, Standing, State, Superblock, standing};
use nandu_array::mirror::decide::{Found, Lacks, Start, common, decide, returns};
use nandu_base::OpenOptions;

/// What is kept of the rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rules {
    /// A pair is opened under a fresh generation.
    fresh: bool,
    /// The first phase of an opening.
    announced: bool,
    /// The second one.
    ended: bool,
    /// A leg rejoins under a fresh generation.
    renewed: bool,
    /// An old leg is copied in full.
    in_full: bool,
}

const ALL: Rules = Rules { fresh: true, announced: true, ended: true, renewed: true, in_full: true };

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Leg {
    sb: Superblock,
    data: u8,
    /// Durable marks: "the legs may differ", and "I may lack something".
    d: bool,
    l: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Stopped,
    /// Both serve; this one leads.
    Pair(usize),
    /// This one alone.
    Solo(usize),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct World {
    rules: Rules,
    legs: [Leg; 2],
    phase: Phase,
    /// A leg that was copied, and the copy.
    copy: Option<(usize, Leg)>,
    /// The copy is in the leg's place.
    put: bool,
    /// The other leg has joined a pair since the copy was made.
    joined: bool,
    /// This leg was left behind by the other one.
    stale: [bool; 2],
    /// Somebody has begun anew from a state that was not the last: by force, or as nobody could notice.
    forked: bool,
    allowed: Versions,
    version: u8,
    writes: u8,
    tags: u64,
    openings: u8,
    deaths: u8,
}

impl World {
    fn new(rules: Rules, openings: u8, deaths: u8) -> World {
        let leg = |leg: u8| {
            let generation = Gen { epoch: 1, tag: 1 };
            let sb = Superblock { leg, members: 2, in_force: 3, generation, ..Superblock::BLANK };
            Leg { sb, data: 0, d: false, l: false }
        };
        World {
            rules,
            legs: [leg(0), leg(1)],
            phase: Phase::Stopped,
            copy: None,
            put: false,
            joined: false,
            stale: [false; 2],
            forked: false,
            allowed: 1,
            version: 0,
            writes: 2,
            tags: 1,
            openings,
            deaths,
        }
    }

    fn fresh(&mut self) -> Gen {
        self.tags += 1;
        let epoch = self.legs[0].sb.generation.epoch.max(self.legs[1].sb.generation.epoch) + 1;
        Gen { epoch, tag: self.tags }
    }

    fn stopped(&self) -> World {
        World { phase: Phase::Stopped, ..self.clone() }
    }

    fn is_put(&self, leg: usize) -> bool {
        self.put && self.copy.as_ref().is_some_and(|(copied, _)| *copied == leg)
    }

    /// Requests are served: what the leader shows stays.
    fn serve(&mut self, phase: Phase) -> Result<(), String> {
        let leader = match phase {
            Phase::Pair(y) | Phase::Solo(y) => y,
            Phase::Stopped => return Ok(()),
        };
        let shown = 1 << self.legs[leader].data;
        if self.allowed & shown == 0 {
            // Nobody can notice that the only member is an older copy of itself, before the other one has joined.
            let alone = matches!(phase, Phase::Solo(_)) && self.is_put(leader);
            let only = (0..2).any(|l| self.is_put(l) && self.stale[1 - l]);
            // After a fork each side alone shows what it has; together they are refused.
            let fork = self.forked && matches!(phase, Phase::Solo(_));
            let unnoticed = fork || (alone || only) && !self.joined;
            if !unnoticed {
                return Err(format!("version {} is shown", self.legs[leader].data));
            }
            self.forked = true;
        }
        let [a, b] = &self.legs;
        if matches!(phase, Phase::Pair(_)) && a.data != b.data && !self.legs[leader].d {
            return Err("the legs differ and no mark says so".into());
        }
        (self.allowed, self.phase) = (shown, phase);
        Ok(())
    }

    fn starts(&self, out: &mut Vec<World>) -> Result<(), String> {
        for present in [0b11, 0b01, 0b10] {
            for alone in [false, true] {
                let found = [0, 1].map(|l| match present >> l & 1 {
                    1 => Found::Valid(self.legs[l].sb),
                    _ => Found::Absent,
                });
                let names = ["a".to_string(), "b".to_string()];
                let mut w = World { openings: self.openings - 1, ..self.clone() };
                match decide(&found, &names, OpenOptions { alone, ..OpenOptions::default() }) {
                    Err(_) if present == 0b11 && !alone && !self.put && !self.forked => {
                        return Err("both legs are refused, and none was put back".into());
                    }
                    Err(_) => {}
                    Ok(Start::Pair(members)) => w.open_pair(members.leader, out)?,
                    Ok(Start::Solo(y)) => {
                        if present != 0b11 && self.is_put(y) {
                            // A single leg: there is nobody to say that it is an older copy of itself.
                            (w.allowed, w.forked) = (1 << w.legs[y].data, true);
                        }
                        w.serve(Phase::Solo(y))?;
                        out.push(w);
                    }
                    Ok(Start::Alone(members)) => w.open_alone(members.leader, out)?,
                    Ok(Start::Fresh | Start::Salvaged) => unreachable!("no leg is blank or damaged"),
                }
            }
        }
        Ok(())
    }

    fn open_pair(mut self, y: usize, out: &mut Vec<World>) -> Result<(), String> {
        let before = common(&self.legs[0].sb, &self.legs[1].sb).expect("a pair");
        if self.legs.iter().any(|leg| leg.d || leg.l) {
            self.legs[y].d = true;
            (self.legs[1 - y].d, self.legs[1 - y].l) = (true, true);
        }
        let fresh = if self.rules.fresh { self.fresh() } else { before };
        let history = self.legs[y].sb.history;
        let announce = |w: &mut World, l: usize| w.legs[l].sb.begin_opening(fresh, before, history);
        let end = |w: &mut World, l: usize| {
            if !w.rules.announced {
                w.legs[l].sb.begin_opening(fresh, before, history);
            }
            w.legs[l].sb.end_opening();
        };
        type Step<'a> = &'a dyn Fn(&mut World, usize);
        let steps: [(bool, Step<'_>); 2] = [(self.rules.announced, &announce), (self.rules.ended, &end)];
        for (_, step) in steps.iter().filter(|(kept, _)| *kept) {
            out.push(self.stopped());
            for one in 0..2 {
                let mut cut = self.stopped();
                step(&mut cut, one);
                out.push(cut);
            }
            (0..2).for_each(|l| step(&mut self, l));
        }
        out.push(self.stopped());
        self.serve(Phase::Pair(y))?;
        out.push(self);
        Ok(())
    }

    fn take_solo(&mut self, y: usize) {
        let fresh = self.fresh();
        let leg = &mut self.legs[y];
        if leg.sb.state != State::Opening {
            leg.sb.base = leg.sb.generation;
        }
        leg.sb.remember(leg.sb.generation);
        (leg.sb.generation, leg.sb.state, leg.sb.leader) = (fresh, State::Solo, leg.sb.leg);
        leg.sb.in_force = 1 << leg.sb.leg;
        leg.l = false;
        self.stale[1 - y] = true;
    }

    fn open_alone(mut self, y: usize, out: &mut Vec<World>) -> Result<(), String> {
        if self.legs[y].l && self.legs[y].sb.leader != self.legs[y].sb.leg {
            return Ok(()); // it may lack data, and says so
        }
        out.push(self.stopped());
        let wrong = self.stale[y] || self.is_put(y) || self.forked;
        if wrong {
            (self.allowed, self.forked) = (1 << self.legs[y].data, true);
        }
        self.take_solo(y);
        self.stale[y] = false;
        self.serve(Phase::Solo(y))?;
        out.push(self);
        Ok(())
    }

    fn pair_steps(&self, y: usize, out: &mut Vec<World>) -> Result<(), String> {
        out.push(self.stopped());
        let x = 1 - y;
        if self.version < self.writes {
            let version = self.version + 1;
            let marked = |data: [bool; 2]| {
                let mut w = World { version, ..self.clone() };
                w.legs[y].d = true;
                for (leg, new) in w.legs.iter_mut().zip(data) {
                    leg.data = if new { version } else { leg.data };
                }
                w
            };
            for data in [[false, false], [true, false], [false, true]] {
                let mut cut = marked(data).stopped();
                cut.allowed |= 1 << version;
                out.push(cut);
            }
            // Acknowledged and flushed. What one leg lacked is copied before; then the mark goes, or it stays.
            let mut done = marked([true, true]);
            done.allowed = 1 << version;
            out.push(done.clone());
            (done.legs[0].d, done.legs[1].d, done.legs[0].l, done.legs[1].l) = (false, false, false, false);
            out.push(done);
        }
        if self.legs.iter().any(|leg| leg.d || leg.l) {
            let mut same = self.clone();
            same.legs[x].data = same.legs[y].data;
            same.legs.iter_mut().for_each(|leg| (leg.d, leg.l) = (false, false));
            out.push(same);
        }
        for dies in 0..2 * usize::from(self.deaths > 0) {
            let survivor = 1 - dies;
            let mut w = World { deaths: self.deaths - 1, ..self.clone() };
            if dies == y && self.legs[x].l {
                out.push(w.stopped()); // the follower lacks data: nobody serves
                continue;
            }
            w.legs[survivor].d |= w.legs[y].d;
            out.push(w.stopped());
            w.take_solo(survivor);
            w.serve(Phase::Solo(survivor))?;
            out.push(w);
        }
        Ok(())
    }

    fn solo_steps(&self, y: usize, out: &mut Vec<World>) -> Result<(), String> {
        out.push(self.stopped());
        let x = 1 - y;
        out.extend(self.written_alone(y));
        // A leg that is out can be copied, and be replaced by a copy.
        self.copies(&[x], out);
        let lacks = match returns(&Found::Valid(self.legs[x].sb), &self.legs[y].sb, false, false) {
            Ok(Lacks::All) if !self.rules.in_full => Lacks::Dirty,
            Ok(lacks) => lacks,
            Err(_) if self.put || self.forked => return Ok(()),
            Err(why) => return Err(format!("a leg that was out cannot rejoin: {why}")),
        };
        let mut w = self.clone();
        if self.rules.renewed {
            let (place, counts) = standing(&w.legs[x].sb, &w.legs[y].sb);
            let fresh = w.fresh();
            let sb = &mut w.legs[y].sb;
            if place == Standing::Current {
                sb.remember(counts);
            }
            sb.keep(counts);
            sb.base = if place <= Standing::Before { counts } else { Gen::NONE };
            sb.generation = fresh;
            out.push(w.stopped());
        }
        for mut w in std::iter::once(w.clone()).chain(w.written_alone(y)) {
            w.legs[y].d |= lacks == Lacks::All || w.legs[x].d || w.legs[x].l;
            out.push(w.stopped());
            (w.legs[x].d, w.legs[x].l) = (w.legs[y].d, w.legs[y].d);
            out.push(w.stopped());
            let from = w.legs[y].sb;
            let sb = &mut w.legs[x].sb;
            (sb.generation, sb.history, sb.base) = (from.generation, from.history, Gen::NONE);
            (sb.state, sb.leader, sb.in_force) = (State::Pair, from.leg, 0b11);
            w.joined |= w.copy.is_some();
            out.push(w.stopped());
            (w.legs[y].sb.state, w.legs[y].sb.base) = (State::Pair, Gen::NONE);
            w.legs[y].sb.in_force = 0b11;
            w.stale[x] = false;
            w.serve(Phase::Pair(y))?;
            out.push(w);
        }
        Ok(())
    }

    fn written_alone(&self, y: usize) -> Option<World> {
        let version = self.version + 1;
        let mut w = World { version, allowed: 1 << version, ..self.clone() };
        (w.legs[y].d, w.legs[y].data) = (true, version);
        (version <= self.writes).then_some(w)
    }

    fn copies(&self, legs: &[usize], out: &mut Vec<World>) {
        match &self.copy {
            None => out.extend(
                legs.iter().map(|&leg| World { copy: Some((leg, self.legs[leg].clone())), ..self.clone() }),
            ),
            Some((leg, copy)) if !self.put && legs.contains(leg) && self.legs[*leg] != *copy => {
                let mut w = World { put: true, ..self.clone() };
                w.legs[*leg] = copy.clone();
                out.push(w);
            }
            Some(_) => {}
        }
    }
}

impl Model for World {
    fn next(&self, out: &mut Vec<World>) -> Result<(), String> {
        match self.phase {
            Phase::Stopped => {
                self.copies(&[0, 1], out);
                if self.openings > 0 {
                    self.starts(out)?;
                }
                Ok(())
            }
            Phase::Pair(y) => self.pair_steps(y, out),
            Phase::Solo(y) => self.solo_steps(y, out),
        }
    }
}

#[test]
fn two_legs_never_believe_an_older_copy() {
    for (openings, deaths) in [(3, 0), (2, 1)] {
        match explore(World::new(ALL, openings, deaths)) {
            Ok(states) => println!("{openings} openings, {deaths} departures: {states} states"),
            Err(wrong) => panic!("{wrong}"),
        }
    }
}

#[test]
fn each_rule_of_two_legs_is_needed() {
    let broken = [
        ("fresh", Rules { fresh: false, ..ALL }),
        ("announced", Rules { announced: false, ..ALL }),
        ("ended", Rules { ended: false, ..ALL }),
        ("renewed", Rules { renewed: false, ..ALL }),
        ("in full", Rules { in_full: false, ..ALL }),
    ];
    for (rule, rules) in broken {
        let found = [(3, 0), (2, 1), (3, 1)]
            .into_iter()
            .find_map(|(openings, deaths)| explore(World::new(rules, openings, deaths)).err());
        let wrong = found.unwrap_or_else(|| panic!("without `{rule}` nothing goes wrong"));
        println!("without `{rule}`: {}", wrong.lines().next().unwrap_or_default());
    }
}
