//! What to believe at open (docs/explanation/mirror-protocol.md section 5), as a pure function of what was found on the legs.

use super::Legs;
use super::layout::{Gen, State, Superblock};
use crate::member::record::HISTORY;
use crate::member::{Standing, standing};
use nandu_base::{OpenError, OpenOptions};
use std::cmp::Reverse;

/// What a leg's superblock slots hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // one for each leg, at open
pub enum Found {
    /// The leg is not there.
    Absent,
    /// A slot cannot be read: it may hide a newer record, so the leg is not used.
    Unread,
    /// Both slots are all zero.
    Blank,
    /// Something else lives there.
    Foreign,
    /// A record.
    Valid(Superblock),
}

impl Found {
    /// Whether a salvage goes on without the records of this leg. Blank ones may be what is to be made.
    pub fn is_given_up(&self, how: OpenOptions) -> bool {
        how.salvage
            && (matches!(self, Found::Foreign | Found::Unread) || *self == Found::Blank && !how.create)
    }
}

/// The legs of a start, by their places in the stack file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Members {
    /// The one that leads: the recorded leader if it is among them.
    pub leader: usize,
    /// All of them, one bit each.
    pub legs: Legs,
}

/// How to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// All legs in force are there: they are members.
    Pair(Members),
    /// This leg is alone in force; the others, if they are there, rejoin.
    Solo(usize),
    /// These legs are told to go on without others that are in force: take Solo first.
    Alone(Members),
    /// Blank legs become a set.
    Fresh,
    /// No leg has records that can be read: the first one becomes a set with the data that it has, and the others are left alone.
    Salvaged,
}

/// How much a returning leg lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacks {
    /// The regions that either map names.
    Dirty,
    /// Everything.
    All,
}

/// What makes a leg that cannot be used one that is filled from the other. The other may say that it was one of a pair.
const EMPTY_IT: &str = "empty the file (`truncate -s 0 FILE`, of a block device `blkdiscard -z FILE`) and start once with \
                        create and alone";

fn refused<T>(why: impl Into<String>, remedy: &str) -> Result<T, OpenError> {
    Err(OpenError::Refused { why: why.into(), remedy: remedy.into() })
}

/// How to begin with what was found on the legs called `names`.
pub fn decide(found: &[Found], names: &[String], how: OpenOptions) -> Result<Start, OpenError> {
    let unread = |leg: &Found| leg.is_given_up(how);
    if found.iter().any(unread) {
        let rest: Vec<Found> =
            found.iter().map(|leg| if unread(leg) { Found::Absent } else { *leg }).collect();
        return match rest.iter().position(|leg| *leg != Found::Absent) {
            _ if rest.iter().any(|leg| matches!(leg, Found::Valid(_))) => {
                some(&rest, names, OpenOptions { alone: true, ..how })
            }
            _ if found.iter().all(unread) => Ok(Start::Salvaged),
            _ => {
                let kept = found.iter().position(|leg| !unread(leg)).expect("not all are given up");
                Err(OpenError::Gone { device: names[kept].clone() })
            }
        };
    }
    for (leg, name) in found.iter().zip(names) {
        if *leg == Found::Foreign {
            let why = format!("leg `{name}` holds something that is not a leg of a mirror");
            let remedy = "name another device; if its records are damaged, start with --salvage, and the other legs go on without it";
            let remedy = format!("{remedy}; or {EMPTY_IT}, if nothing in it is needed");
            return Err(OpenError::Unknown { why, remedy });
        }
    }
    let is = |what: Found| found.iter().filter(|&&leg| leg == what).count();
    if found.iter().any(|leg| matches!(leg, Found::Valid(_))) {
        some(found, names, how)
    } else if is(Found::Blank) == found.len() {
        if how.create {
            return Ok(Start::Fresh);
        }
        refused(
            format!("{} legs are blank", both(names)),
            "start once with --create if they are new; if they held a mirror and have another length since, `nandu examine` says which they had",
        )
    } else if let Some(blank) = found.iter().position(|leg| *leg == Found::Blank) {
        let others = if names.len() == 2 { "the other is" } else { "others are" };
        refused(
            format!("leg `{}` is blank and {others} missing", names[blank]),
            &format!("add {} legs", both(names)),
        )
    } else if is(Found::Unread) == found.len() {
        refused(
            format!("the records of {} legs cannot be read", both(names)),
            "start with --salvage to make the first leg a new set",
        )
    } else {
        Err(OpenError::Gone { device: names.join(" and ") })
    }
}

fn both(names: &[String]) -> &'static str {
    if names.len() == 2 { "both" } else { "all" }
}

/// Some leg has a record.
fn some(found: &[Found], names: &[String], how: OpenOptions) -> Result<Start, OpenError> {
    let record = |leg: usize| match &found[leg] {
        Found::Valid(sb) => Some(sb),
        _ => None,
    };
    let valid: Vec<usize> = (0..found.len()).filter(|&leg| record(leg).is_some()).collect();
    let records: Vec<&Superblock> = valid.iter().filter_map(|&leg| record(leg)).collect();
    belong(&valid, &records, names)?;
    let set = believe(&records);
    let is_member =
        |set: &Set, at: usize| set.peers >> at & 1 != 0 && set.in_force >> records[at].leg & 1 != 0;
    let used = |set: &Set| {
        (0..records.len()).filter(|&at| is_member(set, at)).fold(0, |legs: Legs, at| legs | 1 << valid[at])
    };
    let are_all = |set: &Set| used(set).count_ones() == set.in_force.count_ones();
    // One that was added has no records before it joins: the others start without it.
    let blank = found.iter().position(|leg| *leg == Found::Blank && !how.create);
    if let Some(blank) = blank.filter(|_| names.len() == 2 || !set.as_ref().is_some_and(are_all)) {
        let why = format!("leg `{}` is blank", names[blank]);
        return refused(why, "start once with create to fill it from another leg, or leave it out");
    }
    let Some(set) = set else { return split(&valid, names) };
    let at = |number: u8| records.iter().position(|sb| sb.leg == number);
    let legs = used(&set);
    if legs == 0 {
        return split(&valid, names);
    }
    let leader = at(set.leader).filter(|&at| is_member(&set, at)).map(|at| valid[at]);
    let members = Members { leader: leader.unwrap_or(legs.trailing_zeros() as usize), legs };
    if are_all(&set) {
        return match legs.count_ones() {
            1 => Ok(Start::Solo(members.leader)),
            _ if leader.is_none() => split(&valid, names),
            _ => Ok(Start::Pair(members)),
        };
    }
    if how.alone {
        return Ok(Start::Alone(members));
    }
    let is_old = |at: &usize| set.peers >> at & 1 == 0 && set.in_force >> records[*at].leg & 1 != 0;
    if let Some(old) = (0..records.len()).find(is_old) {
        let (name, newer) = (&names[valid[old]], &names[valid[set.newest]]);
        let place = standing(records[old], records[set.newest]).0;
        let remedy = format!(
            "put the leg that was used last in its place; or start with --force-degraded to go on from `{newer}`, and then \
             `add {name}` copies it in full"
        );
        return refused(format!("leg `{name}` is old: {}", behind(place, newer)), &remedy);
    }
    let there = &names[members.leader];
    if let Some(unread) = found.iter().position(|leg| *leg == Found::Unread) {
        let unread = &names[unread];
        let why = format!(
            "the records of leg `{unread}` cannot be read, and may be newer than those of leg `{there}`"
        );
        return refused(why, "start with --salvage, or with --force-degraded, to go on without it");
    }
    if names.len() == 2 {
        let why = format!("leg `{there}` was one of a pair, and the other may hold newer data");
        return refused(
            why,
            "add the other leg, or start with --force-degraded and lose what only the other leg holds",
        );
    }
    let here = legs.count_ones();
    let why = format!(
        "{here} of {} legs in force are there, and the others may hold newer data",
        set.in_force.count_ones()
    );
    refused(why, "add the other legs, or start with --force-degraded and lose what only they hold")
}

/// Whether these records can be those of the legs of one mirror.
fn belong(valid: &[usize], records: &[&Superblock], names: &[String]) -> Result<(), OpenError> {
    let all = if names.len() == 2 { "two legs" } else { "legs" };
    for (at, sb) in records.iter().enumerate() {
        let (first, name) = (&names[valid[0]], &names[valid[at]]);
        if sb.set != records[0].set {
            let remedy = format!("`{first}` is of one, `{name}` of another: name the {all} of one mirror");
            return Err(OpenError::Foreign { device: name.clone(), remedy });
        }
        if usize::from(sb.members) > names.len() {
            let why = format!("leg `{name}` belongs to a mirror of {} legs", sb.members);
            return refused(why, "name all of them");
        }
        if let Some(same) = records[..at].iter().position(|other| other.leg == sb.leg) {
            let why = format!("legs `{}` and `{name}` do not belong together", names[valid[same]]);
            return refused(why, &format!("name the {all} of one mirror"));
        }
    }
    Ok(())
}

/// What records say of the set, together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set {
    /// Which of them is the newest.
    pub newest: usize,
    /// Those that have a generation in common with it, one bit each.
    pub peers: u64,
    /// The numbers of the legs in force, one bit each.
    pub in_force: u64,
    /// The number of the leader.
    pub leader: u8,
}

/// What the records of one set say together; `None` when some have gone on apart from others.
///
/// All others are earlier states of the newest one, or have a [generation in common](common) with it. Of these the ones
/// that say it without saying Opening decide who is in force: while a leg joins, those that were so before. Where all say Opening, nothing was
/// served since the one that they have in common; the last of them decide, for a leg may have left while others announced that they go on.
pub fn believe(records: &[&Superblock]) -> Option<Set> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&at| (Reverse(records[at].generation.epoch), records[at].state == State::Opening));
    let follows = |x: &Superblock, y: &Superblock| {
        common(x, y).is_some() || standing(x, y).0 != Standing::Unrelated || is_out_of_sight(x, y)
    };
    let newest = order.into_iter().find(|&y| records.iter().all(|x| follows(x, records[y])))?;
    let is_peer = |at: &usize| *at == newest || common(records[*at], records[newest]).is_some();
    let peers: Vec<usize> = (0..records.len()).filter(is_peer).collect();
    let generation = before(peers.iter().map(|&at| records[at]));
    let says = |at: &usize| records[*at].state != State::Opening && records[*at].generation == generation;
    let is_said = peers.iter().any(says);
    let last = peers.iter().map(|&at| records[at].generation.epoch).max()?;
    let decides = |at: &&usize| match is_said {
        true => says(at),
        false => records[**at].generation.epoch == last,
    };
    let deciders = peers.iter().filter(decides).map(|&at| records[at]);
    let leader = deciders.clone().next()?.leader;
    let in_force = deciders.clone().fold(u64::MAX, |legs, sb| legs & sb.in_force);
    // What one of them did alone is no earlier state, whatever the newest one says of it.
    let is_apart = |at: usize| !is_peer(&at) && records[at].is_solo();
    let is_sound =
        in_force != 0 && deciders.clone().all(|sb| sb.leader == leader) && !(0..records.len()).any(is_apart);
    let peers = peers.iter().fold(0, |peers, at| peers | 1 << at);
    is_sound.then_some(Set { newest, peers, in_force, leader })
}

/// Whether a leg that is not in force is older than the history of `y` goes. Others start without it; it is not believed, and not copied over
/// unasked. Of two legs that is not asked: the one that is left keeps the generation of the other in its history.
fn is_out_of_sight(x: &Superblock, y: &Superblock) -> bool {
    let newer = y.history.iter().filter(|g| g.epoch > x.generation.epoch).count();
    // Each other leg that is out may have one entry for good.
    let is_older = newer + usize::from(y.members) > HISTORY;
    y.members > 2 && y.in_force >> x.leg & 1 == 0 && is_older
}

/// The generation that was in force on legs that have one in common: the one that is said by any of them that does not say Opening.
pub fn before<'a>(records: impl Iterator<Item = &'a Superblock> + Clone) -> Gen {
    if let Some(sb) = records.clone().find(|sb| sb.state != State::Opening) {
        return sb.generation;
    }
    let mut all = records;
    let first = all.next().expect("there is one");
    if all.all(|sb| sb.generation == first.generation) { first.generation } else { first.base }
}

/// How far an old leg is behind, in words.
pub fn behind(place: Standing, newer: &str) -> String {
    match place {
        Standing::Behind(1) => format!("`{newer}` was opened, or went on alone, once since"),
        Standing::Behind(n) => format!("`{newer}` was opened, or went on alone, {n} times since"),
        _ => format!("`{newer}` has gone on without it"),
    }
}

fn split<T>(valid: &[usize], names: &[String]) -> Result<T, OpenError> {
    let legs: Vec<String> = valid.iter().map(|&leg| format!("`{}`", names[leg])).collect();
    let others = if legs.len() == 2 { "the other" } else { "others" };
    let why = format!(
        "legs {} each went on without {others} (split brain), or one of them is an old copy",
        legs.join(" and ")
    );
    let one = if legs.len() == 2 { "choose one; of the other one" } else { "choose one; of the others" };
    refused(why, &format!("{one} {EMPTY_IT}"))
}

/// The generation that two legs have in common, when neither has gone on without the other. A cut while a pair was
/// being opened leaves the one that was being opened on either leg, and nothing was served under that.
pub fn common(a: &Superblock, b: &Superblock) -> Option<Gen> {
    for (of, to) in [(a, b), (b, a)] {
        match standing(of, to) {
            (Standing::Current, generation) => return Some(generation),
            (Standing::Before, generation) if to.state == State::Opening => return Some(generation),
            _ => {}
        }
    }
    None
}

/// Whether the records are sound, and of another set than those of `y`.
pub fn is_foreign(x: &Found, y: &Superblock) -> bool {
    matches!(x, Found::Valid(x) if x.set != y.set)
}

/// What a leg that comes back to leader `y` lacks, or why it cannot.
///
/// `merges` is a planted fault: a leg that went on alone is overwritten.
pub fn returns(x: &Found, y: &Superblock, create: bool, merges: bool) -> Result<Lacks, &'static str> {
    match x {
        Found::Absent | Found::Unread => Err("its records cannot be read"),
        Found::Blank if create => Ok(Lacks::All),
        Found::Blank => Err("it is blank"),
        Found::Foreign => Err("it holds something else"),
        Found::Valid(x) if x.set != y.set || x.leg == y.leg => Err("it belongs to another mirror"),
        Found::Valid(x) if x.is_solo() && !merges => Err("it went on alone (split brain)"),
        Found::Valid(x) => match standing(x, y).0 {
            Standing::Current | Standing::Before => Ok(Lacks::Dirty),
            Standing::Behind(_) => Ok(Lacks::All),
            Standing::Unrelated if merges => Ok(Lacks::All),
            Standing::Unrelated => Err("its history is another (split brain)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leg of a pair that was opened so often.
    fn sb(leg: u8, epoch: u64) -> Superblock {
        let mut sb = Superblock { leg, set: [1, 2], seq: 1, members: 2, in_force: 0b11, ..Superblock::BLANK };
        sb.generation = Gen { epoch: 1, tag: 10 };
        for epoch in 2..=epoch {
            sb.begin_opening(Gen { epoch, tag: epoch * 10 }, sb.generation, sb.history);
            sb.end_opening();
        }
        sb
    }

    fn opening(leg: u8, epoch: u64) -> Superblock {
        let mut sb = sb(leg, epoch - 1);
        sb.begin_opening(Gen { epoch, tag: epoch * 10 }, sb.generation, sb.history);
        sb
    }

    fn solo(leg: u8, epoch: u64) -> Superblock {
        let old = sb(leg, epoch - 1);
        let mut s = old;
        s.remember(old.generation);
        let generation = Gen { epoch, tag: epoch * 10 + 1 };
        Superblock {
            generation,
            base: old.generation,
            state: State::Solo,
            leader: leg,
            in_force: 1 << leg,
            ..s
        }
    }

    fn pair(leader: usize) -> Start {
        Start::Pair(Members { leader, legs: 0b11 })
    }

    fn lone(leader: usize) -> Start {
        Start::Alone(Members { leader, legs: 1 << leader })
    }

    fn start(a: Found, b: Found, how: OpenOptions) -> Result<Start, String> {
        let names = ["a".to_string(), "b".to_string()];
        let here = decide(&[a, b], &names, how);
        let swapped = decide(&[b, a], &names, how);
        let mirrored = |s: &Start| match *s {
            Start::Pair(m) => pair(1 - m.leader),
            Start::Solo(y) => Start::Solo(1 - y),
            Start::Alone(m) => lone(1 - m.leader),
            Start::Fresh | Start::Salvaged => *s,
        };
        match (&here, &swapped) {
            (Ok(x), Ok(y)) => assert_eq!(mirrored(x), *y, "the order of the legs decides nothing"),
            (Err(_), Err(_)) => {}
            other => panic!("the order of the legs decides: {other:?}"),
        }
        here.map_err(|e| e.to_string())
    }

    #[test]
    fn every_row_of_the_table() {
        use Found::{Absent, Blank, Foreign, Unread, Valid};
        let plain = OpenOptions::default();
        let alone = OpenOptions { alone: true, ..plain };
        let create = OpenOptions { create: true, ..plain };
        // both: equal, nobody Solo
        assert_eq!(start(Valid(sb(0, 5)), Valid(sb(1, 5)), plain), Ok(pair(0)));
        // both: an opening was cut, in its first phase and in its second
        assert_eq!(start(Valid(opening(0, 6)), Valid(sb(1, 5)), plain), Ok(pair(0)));
        assert_eq!(start(Valid(opening(0, 6)), Valid(opening(1, 6)), plain), Ok(pair(0)));
        assert_eq!(start(Valid(sb(0, 6)), Valid(opening(1, 6)), plain), Ok(pair(0)));
        // both: two openings were cut, each after one write, from the same
        let other = Superblock { generation: Gen { epoch: 6, tag: 1 }, ..opening(1, 6) };
        assert_eq!(start(Valid(opening(0, 6)), Valid(other), plain), Ok(pair(0)));
        // both: equal, the leader Solo (a cut between steps 3 and 5 of a rejoin)
        let joining = Superblock { state: State::Pair, leader: 0, leg: 1, in_force: 0b11, ..solo(0, 5) };
        assert_eq!(start(Valid(solo(0, 5)), Valid(joining), plain), Ok(Start::Solo(0)));
        // both: gen(x) = base(y)
        assert_eq!(start(Valid(sb(0, 5)), Valid(solo(1, 6)), plain), Ok(Start::Solo(1)));
        assert_eq!(start(Valid(opening(0, 6)), Valid(solo(1, 6)), plain), Ok(Start::Solo(1)));
        // both: gen(x) older in the history of a leg that is Solo: it is an earlier state of that one, and copied
        // in full
        assert_eq!(start(Valid(sb(0, 3)), Valid(solo(1, 6)), plain), Ok(Start::Solo(1)));
        for (x, lacks) in [(sb(0, 3), Lacks::All), (sb(0, 5), Lacks::Dirty), (opening(0, 6), Lacks::Dirty)] {
            assert_eq!(returns(&Valid(x), &solo(1, 6), false, false), Ok(lacks));
        }
        // both: an old copy beside one of a pair, or beside an opening that the copy knows nothing of
        for (old, times) in [(sb(0, 4), "once"), (sb(0, 2), "3 times"), (opening(0, 5), "once")] {
            let alike = Superblock { generation: Gen { epoch: 5, tag: 9 }, ..sb(1, 5) };
            let why = start(Valid(old), Valid(alike), plain).expect_err("an old copy");
            assert!(
                why.contains("leg `a` is old") && why.contains(times) || why.contains("`b` is old"),
                "{why}"
            );
            assert_eq!(start(Valid(old), Valid(alike), alone), Ok(lone(1)));
        }
        let why = start(Valid(sb(0, 4)), Valid(opening(1, 6)), plain).expect_err("an old copy");
        assert!(why.contains("is old"), "{why}");
        // both: older than the history goes
        assert!(start(Valid(sb(0, 2)), Valid(sb(1, 12)), alone).is_err_and(|e| e.contains("old copy")));
        // both: split brain, also when the older one says Solo
        assert!(
            start(
                Valid(solo(0, 6)),
                Valid(Superblock { generation: Gen { epoch: 6, tag: 1 }, ..solo(1, 6) }),
                alone
            )
            .is_err_and(|e| e.contains("split brain"))
        );
        let mut after = solo(1, 7);
        after.base = solo(0, 6).generation;
        assert!(start(Valid(solo(0, 6)), Valid(after), alone).is_err_and(|e| e.contains("split brain")));
        let strange = Superblock { generation: Gen { epoch: 5, tag: 1 }, ..sb(0, 5) };
        assert!(start(Valid(strange), Valid(solo(1, 8)), alone).is_err_and(|e| e.contains("split brain")));
        // one: Solo
        assert_eq!(start(Valid(solo(0, 6)), Absent, plain), Ok(Start::Solo(0)));
        // one: Pair
        assert!(start(Valid(sb(0, 5)), Absent, create).is_err_and(|e| e.contains("--force-degraded")));
        assert_eq!(start(Valid(sb(0, 5)), Absent, alone), Ok(lone(0)));
        assert_eq!(start(Valid(sb(1, 5)), Absent, alone), Ok(lone(0)));
        // one: Opening
        assert!(start(Valid(opening(0, 5)), Absent, plain).is_err_and(|e| e.contains("--force-degraded")));
        assert_eq!(start(Valid(opening(1, 5)), Absent, alone), Ok(lone(0)));
        // one valid, other blank
        assert!(start(Valid(solo(0, 5)), Blank, plain).is_err_and(|e| e.contains("blank")));
        assert_eq!(start(Valid(solo(0, 5)), Blank, create), Ok(Start::Solo(0)));
        assert!(start(Valid(sb(0, 5)), Blank, create).is_err());
        // other foreign
        for how in [plain, alone, create] {
            assert!(start(Valid(solo(0, 5)), Foreign, how).is_err());
            let other_set = Superblock { set: [9, 9], ..sb(1, 5) };
            assert!(start(Valid(solo(0, 5)), Valid(other_set), how).is_err());
            assert!(start(Valid(sb(0, 5)), Valid(sb(0, 5)), how).is_err(), "one leg twice");
            assert!(start(Absent, Absent, how).is_err());
        }
        // damaged records, and a salvage
        let salvage = OpenOptions { salvage: true, ..plain };
        let why = start(Valid(sb(0, 5)), Unread, plain).expect_err("it may hide a newer record");
        assert!(
            why.contains("the records of leg `b` cannot be read, and may be newer than those of leg `a`"),
            "{why}"
        );
        assert_eq!(start(Valid(sb(0, 5)), Unread, alone), Ok(lone(0)));
        assert_eq!(start(Valid(solo(0, 5)), Unread, plain), Ok(Start::Solo(0)));
        assert!(start(Unread, Unread, plain).is_err_and(|e| e.contains("both legs")));
        for damaged in [Foreign, Unread, Blank] {
            assert_eq!(start(Valid(sb(0, 5)), damaged, salvage), Ok(lone(0)));
            assert_eq!(start(Valid(solo(0, 5)), damaged, salvage), Ok(Start::Solo(0)));
            assert_eq!(start(Foreign, damaged, salvage), Ok(Start::Salvaged));
            assert!(start(Absent, damaged, salvage).is_err(), "the missing one may lead");
        }
        assert!(
            start(Valid(sb(0, 5)), Absent, salvage).is_err_and(|e| e.contains("--force-degraded")),
            "nothing is damaged"
        );
        assert_eq!(start(Blank, Blank, OpenOptions { create: true, ..salvage }), Ok(Start::Fresh));
        // none
        assert!(start(Blank, Blank, plain).is_err());
        assert_eq!(start(Blank, Blank, create), Ok(Start::Fresh));
        assert!(start(Blank, Absent, create).is_err());
    }

    /// Of four legs one left, and while the others announced that they go on, another one.
    #[test]
    fn legs_that_leave_one_after_the_other_do_not_part_the_rest() {
        use Found::{Absent, Valid};
        let gens = [10, 11, 12].map(|epoch| Gen { epoch, tag: epoch * 7 });
        let leg = |leg: u8| {
            let mut sb =
                Superblock { leg, set: [1, 2], seq: 1, members: 4, in_force: 0b1111, ..Superblock::BLANK };
            sb.generation = gens[0];
            sb
        };
        let goes_on = |mut sb: Superblock, nth: usize, legs: u64, leader: u8| {
            sb.begin_opening(gens[nth], sb.generation, sb.history);
            (sb.in_force, sb.leader) = (legs, leader);
            sb
        };
        let first = |l: u8| goes_on(leg(l), 1, 0b1101, 0);
        let second = |l: u8| goes_on(first(l), 2, 0b1100, 2);
        let names = ["a", "b", "c", "d"].map(String::from);
        let all = [Valid(first(0)), Valid(leg(1)), Valid(second(2)), Valid(second(3))];
        let rest = Start::Pair(Members { leader: 2, legs: 0b1100 });
        assert_eq!(decide(&all, &names, OpenOptions::default()), Ok(rest));
        // Only one of them had said it. All that was served is on each.
        let cut = [Valid(first(0)), Valid(leg(1)), Valid(first(2)), Valid(second(3))];
        assert!(decide(&cut, &names, OpenOptions::default()).is_ok());
        let without = [Absent, Absent, Valid(second(2)), Valid(second(3))];
        assert_eq!(decide(&without, &names, OpenOptions::default()), Ok(rest));
    }

    /// A leg that was added and has no records keeps nobody from starting; one that is needed does.
    #[test]
    fn of_more_than_two_legs_only_those_in_force_are_needed() {
        use Found::{Blank, Valid};
        let names = ["a", "b", "c"].map(String::from);
        let pair = |l| Valid(sb(l, 5));
        let plain = OpenOptions::default();
        assert_eq!(decide(&[pair(0), pair(1), Blank], &names, plain), Ok(pair_of(0b011)));
        assert_eq!(
            decide(&[Blank, pair(0), pair(1)], &names, plain),
            Ok(Start::Pair(Members { leader: 1, legs: 0b110 }))
        );
        let why =
            decide(&[pair(0), Blank, Blank], &names, plain).expect_err("one of two is missing").to_string();
        assert!(why.contains("leg `b` is blank"), "{why}");
        let why = decide(&[pair(0), pair(1)], &names[..1], plain).map_err(|e| e.to_string());
        assert!(why.is_err_and(|why| why.contains("belongs to a mirror of 2 legs")));
    }

    fn pair_of(legs: Legs) -> Start {
        Start::Pair(Members { leader: 0, legs })
    }
}
