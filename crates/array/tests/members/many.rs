//! Three members: a parity array with its journal, one stripe of which all have a part; and a mirror of three legs
//! by the same records, which starts with all members in force, or without some when it is told to.
//!
//! A member's part is the version of the stripe that it belongs to. What is shown is right when the parts of all
//! members that are used are of one version.

use crate::{Model, Versions, explore};
use nandu_array::member::{Gen, Standing, State, standing};
use nandu_array::parity::decide::{believe, old_legs};
use nandu_array::parity::layout::{OUT, Superblock};
use std::collections::BTreeSet;

const N: usize = 3;
const DATA: u64 = 1;
const ALL: u8 = 0b111;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    /// All but one are enough. Writes are in a journal before they go to their places.
    Parity,
    /// One is enough for the data; without the word of an operator all in force are needed. A mark says that parts
    /// may differ.
    Mirror,
}

/// What is kept of the rules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rules {
    kind: Kind,
    fresh: bool,
    announced: bool,
    ended: bool,
    /// The first phase says of the journal what was said before.
    journal_kept: bool,
}

const fn rules(kind: Kind) -> Rules {
    Rules { kind, fresh: true, announced: true, ended: true, journal_kept: true }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Member {
    sb: Superblock,
    data: u8,
    /// An entry of the journal: the epoch of its session, and the version. For a mirror the mark, with no meaning
    /// of the version.
    entry: Option<(u64, u8)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct World {
    rules: Rules,
    members: Vec<Member>,
    /// The members that serve; none while the set is stopped.
    serving: u8,
    /// Those that served last.
    seen: u8,
    copy: Option<(usize, Member)>,
    put: bool,
    forked: bool,
    allowed: Versions,
    version: u8,
    writes: u8,
    tags: u64,
    openings: u8,
    /// Departures and returns.
    moves: u8,
    /// Whether starts without some of the members are tried.
    short: bool,
}

fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..N).filter(move |l| mask >> l & 1 != 0)
}

impl World {
    fn new(rules: Rules, openings: u8, moves: u8) -> World {
        let member = |leg: usize| {
            let mut sb = Superblock::BLANK;
            sb.head.leg = leg as u8;
            (sb.head.seq, sb.head.members) = (2, N as u8);
            (sb.head.generation, sb.data) = (Gen { epoch: 1, tag: 1 }, DATA);
            sb.upto[..N].fill(DATA);
            Member { sb, data: 0, entry: None }
        };
        World {
            rules,
            members: (0..N).map(member).collect(),
            serving: 0,
            seen: ALL,
            copy: None,
            put: false,
            forked: false,
            allowed: 1,
            version: 0,
            writes: 1,
            tags: 1,
            openings,
            moves,
            short: rules.kind == Kind::Parity || moves > 0,
        }
    }

    fn stopped(&self) -> World {
        World { serving: 0, ..self.clone() }
    }

    /// Does `step` at each of the members `at`; before that at any part of them, and then the power is cut.
    fn durably(&mut self, at: u8, out: &mut Vec<World>, step: impl Fn(&mut Member)) {
        for part in (0..at).filter(|part| part & !at == 0) {
            let mut cut = self.stopped();
            bits(part).for_each(|l| step(&mut cut.members[l]));
            out.push(cut);
        }
        bits(at).for_each(|l| step(&mut self.members[l]));
    }

    /// A change of the set: from the record `sb` to one with a fresh generation, on all members `at`.
    fn change(&mut self, sb: &mut Superblock, state: State, at: u8, out: &mut Vec<World>) {
        self.tags += 1;
        let epoch = self.members.iter().map(|m| m.sb.head.generation.epoch).max().unwrap_or(0) + 1;
        let head = &mut sb.head;
        head.remember(head.generation);
        (head.base, head.state) = (head.generation, state);
        if self.rules.fresh || state == State::Pair {
            head.generation = Gen { epoch, tag: self.tags };
        }
        self.write(*sb, at, out);
    }

    fn write(&mut self, sb: Superblock, at: u8, out: &mut Vec<World>) {
        self.durably(at, out, |member| {
            let leg = member.sb.head.leg;
            member.sb = sb;
            member.sb.head.leg = leg;
        });
    }

    fn starts(&self, out: &mut Vec<World>) -> Result<(), String> {
        for present in (1..=ALL).filter(|&present| self.short || present == ALL) {
            for asked in [false, true] {
                let mut w = World { openings: self.openings - 1, ..self.clone() };
                match w.decide(present, asked) {
                    Some(sb) => w.open(sb, present, asked, out)?,
                    None => {
                        // The members of which all others know that they are out, and those that never left, are
                        // enough.
                        if present == ALL && !asked && !self.put && !self.forked {
                            return Err("all members are refused, and none was put back".into());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The record that is believed.
    fn decide(&self, present: u8, asked: bool) -> Option<Superblock> {
        let mut found: Vec<Option<Superblock>> =
            (0..N).map(|l| (present >> l & 1 != 0).then_some(self.members[l].sb)).collect();
        if self.rules.kind == Kind::Parity {
            if let Some(old) = old_legs(&found) {
                if old.count_ones() > 1 || !asked {
                    return None;
                }
                bits(old as u8).for_each(|l| found[l] = None);
            }
            return believe(&found);
        }
        let order = |sb: &&Superblock| (sb.head.generation.epoch, sb.head.state != State::Opening);
        let sb = *found.iter().flatten().max_by_key(order)?;
        let in_force = |l: usize| sb.upto[l] == DATA;
        let fits = |l: usize| found[l].is_some_and(|o| standing(&o.head, &sb.head).0 <= Standing::Before);
        let (some, all) = ((0..N).any(|l| in_force(l) && fits(l)), (0..N).all(|l| !in_force(l) || fits(l)));
        (all || some && asked).then_some(sb)
    }

    fn open(
        &mut self,
        mut sb: Superblock,
        present: u8,
        asked: bool,
        out: &mut Vec<World>,
    ) -> Result<(), String> {
        let fits = |l: &usize| {
            present >> l & 1 != 0
                && sb.upto[*l] == DATA
                && standing(&self.members[*l].sb.head, &sb.head).0 <= Standing::Before
        };
        let used = (0..N).filter(fits).fold(0u8, |bits, l| bits | 1 << l);
        // A mirror that is told to start with some of its members shows the state of their last moment together.
        let called = (0..N).filter(|&l| sb.upto[l] == DATA).count();
        let forces = self.rules.kind == Kind::Mirror && asked && (used.count_ones() as usize) < called;
        self.forked |= forces;
        if bits(used).any(|l| self.members[l].sb.head.generation != sb.head.generation) {
            self.write(sb, used, out);
        }
        if (used.count_ones() as usize) < called {
            (0..N).filter(|&l| used >> l & 1 == 0).for_each(|l| sb.upto[l] = OUT);
            self.change(&mut sb, State::Pair, used, out);
        }
        self.replay(&sb, used, out);
        let floor = sb.head.generation.epoch + 1;
        if self.rules.announced {
            if !self.rules.journal_kept {
                sb.floor = floor;
            }
            self.change(&mut sb, State::Opening, used, out);
        } else {
            self.change(&mut sb, State::Pair, 0, out);
        }
        sb.floor = sb.head.generation.epoch;
        if self.rules.announced {
            sb.head.end_opening();
        }
        if self.rules.ended {
            self.write(sb, used, out);
        }
        out.push(self.stopped());
        self.serve(used)?;
        out.push(self.clone());
        Ok(())
    }

    /// Writes that were cut end: by the journal, or by what the first member has.
    fn replay(&mut self, sb: &Superblock, used: u8, out: &mut Vec<World>) {
        let entries: BTreeSet<Option<(u64, u8)>> = bits(used).map(|l| self.members[l].entry).collect();
        let version = match self.rules.kind {
            Kind::Parity => entries.iter().flatten().find(|entry| {
                let whole =
                    bits(used).all(|l| self.members[l].entry == Some(**entry) || sb.since[l] > entry.0);
                whole && entry.0 >= sb.floor
            }),
            Kind::Mirror => entries.iter().flatten().next(),
        };
        let first = bits(used).next().map_or(0, |l| self.members[l].data);
        let data = match (version, self.rules.kind) {
            (None, _) => return,
            (Some((_, version)), Kind::Parity) => *version,
            (Some(_), Kind::Mirror) => first,
        };
        self.durably(used, out, |member| member.data = data);
        if self.rules.kind == Kind::Mirror {
            self.durably(used, out, |member| member.entry = None);
        }
    }

    fn serve(&mut self, used: u8) -> Result<(), String> {
        let shown: BTreeSet<u8> = bits(used).map(|l| self.members[l].data).collect();
        let Some(&version) = shown.first().filter(|_| shown.len() == 1) else {
            return Err(format!("the parts that are read are of versions {shown:?}"));
        };
        if self.allowed >> version & 1 == 0 && !self.forked {
            // Nobody can notice when none of those that are there has seen what came after.
            let put = self.copy.as_ref().map_or(0, |(leg, _)| u8::from(self.put) << leg);
            if used & put == 0 || used & !put & self.seen != 0 {
                return Err(format!("version {version} is shown"));
            }
            self.forked = true;
        }
        (self.allowed, self.serving, self.seen) = (1 << version, used, used);
        Ok(())
    }

    fn write_steps(&self, out: &mut Vec<World>) {
        if self.version == self.writes {
            return;
        }
        let (used, version) = (self.serving, self.version + 1);
        let mut w = World { version, ..self.clone() };
        let epoch = bits(used).map(|l| self.members[l].sb.head.generation.epoch).max().unwrap_or(0);
        w.allowed |= 1 << version;
        w.durably(used, out, |member| member.entry = Some((epoch, version)));
        if self.rules.kind == Kind::Parity {
            w.allowed = 1 << version; // it is acknowledged, and durable
        }
        w.durably(used, out, |member| member.data = version);
        w.allowed = 1 << version;
        if self.rules.kind == Kind::Mirror {
            out.push(w.clone());
            bits(used).for_each(|l| w.members[l].entry = None);
        }
        out.push(w);
    }

    fn move_steps(&self, out: &mut Vec<World>) -> Result<(), String> {
        let used = self.serving;
        let sb = bits(used).map(|l| self.members[l].sb).max_by_key(|sb| sb.head.seq).expect("some serve");
        let least = if self.rules.kind == Kind::Parity { N as u32 - 1 } else { 1 };
        for leg in bits(used).filter(|_| used.count_ones() > least) {
            let mut w = World { moves: self.moves - 1, ..self.clone() };
            let (mut sb, rest) = (sb, used & !(1 << leg));
            sb.upto[leg] = OUT;
            w.change(&mut sb, State::Pair, rest, out);
            w.serve(rest)?;
            out.push(w);
        }
        for leg in (0..N).filter(|leg| used >> leg & 1 == 0) {
            let mut w = World { moves: self.moves - 1, ..self.clone() };
            let (mut sb, all) = (sb, used | 1 << leg);
            let data = w.members[bits(used).next().expect("some serve")].data;
            sb.upto[leg] = 0;
            let epoch = w.members.iter().map(|m| m.sb.head.generation.epoch).max().unwrap_or(0);
            sb.since[leg] = epoch + 1;
            w.change(&mut sb, State::Pair, all, out);
            w.members[leg].data = data; // rebuilt, and that is durable
            out.push(w.stopped());
            sb.upto[leg] = DATA;
            w.write(sb, all, out);
            w.serve(all)?;
            out.push(w);
        }
        Ok(())
    }

    fn copies(&self, members: u8, out: &mut Vec<World>) {
        match &self.copy {
            None => out.extend(
                bits(members)
                    .map(|leg| World { copy: Some((leg, self.members[leg].clone())), ..self.clone() }),
            ),
            Some((leg, copy)) if !self.put && members >> leg & 1 != 0 && self.members[*leg] != *copy => {
                let mut w = World { put: true, ..self.clone() };
                w.members[*leg] = copy.clone();
                out.push(w);
            }
            Some(_) => {}
        }
    }
}

impl Model for World {
    fn next(&self, out: &mut Vec<World>) -> Result<(), String> {
        self.copies(ALL & !self.serving, out);
        if self.serving == 0 {
            return if self.openings > 0 { self.starts(out) } else { Ok(()) };
        }
        out.push(self.stopped());
        self.write_steps(out);
        if self.moves > 0 {
            self.move_steps(out)?;
        }
        Ok(())
    }
}

#[test]
fn three_members_never_believe_an_older_copy() {
    for kind in [Kind::Parity, Kind::Mirror] {
        let bounds = [(3, 0), (2, 1)];
        for (openings, moves) in bounds {
            match explore(World::new(rules(kind), openings, moves)) {
                Ok(states) => println!("{kind:?}, {openings} openings, {moves} moves: {states} states"),
                Err(wrong) => panic!("{kind:?}: {wrong}"),
            }
        }
    }
}

#[test]
fn each_rule_of_three_members_is_needed() {
    for kind in [Kind::Parity, Kind::Mirror] {
        let all = rules(kind);
        let broken = [
            ("fresh", Rules { fresh: false, ..all }),
            ("announced", Rules { announced: false, ..all }),
            ("ended", Rules { ended: false, ..all }),
            ("journal kept", Rules { journal_kept: kind == Kind::Mirror, ..all }),
        ];
        for (rule, rules) in broken.into_iter().filter(|(_, rules)| *rules != all) {
            let found = [(2, 0), (3, 0), (2, 2)]
                .into_iter()
                .find_map(|(openings, moves)| explore(World::new(rules, openings, moves)).err());
            let wrong = found.unwrap_or_else(|| panic!("{kind:?}: without `{rule}` nothing goes wrong"));
            println!("{kind:?} without `{rule}`: {}", wrong.lines().next().unwrap_or_default());
        }
    }
}
