//! What to believe at open (docs/explanation/mirror-protocol.md section 5), as a pure function of what was found on the legs.

use super::layout::{Gen, State, Superblock};
use crate::member::{Standing, standing};
use nandu_base::{OpenError, OpenOptions};

/// What a leg's superblock slots hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // two of them at a time, at open
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

/// How to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// Both legs are members; this one leads.
    Pair(usize),
    /// This leg leads alone already; the other, if it is there, rejoins.
    Solo(usize),
    /// This leg says Pair and is told to go on alone: take Solo first.
    Alone(usize),
    /// Two blank legs become a set.
    Fresh,
    /// Neither leg has records that can be read: the first one becomes a set with the data that it has, and the other is left alone.
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
pub fn decide(found: &[Found; 2], names: &[String; 2], how: OpenOptions) -> Result<Start, OpenError> {
    let unread = |leg: &Found| leg.is_given_up(how);
    if found.iter().any(unread) {
        return match (&found[0], &found[1]) {
            (Found::Valid(a), _) => one(0, a, Found::Absent, names, OpenOptions { alone: true, ..how }),
            (_, Found::Valid(b)) => one(1, b, Found::Absent, names, OpenOptions { alone: true, ..how }),
            _ if found.iter().all(unread) => Ok(Start::Salvaged),
            _ => Err(OpenError::Gone { device: names[usize::from(unread(&found[0]))].clone() }),
        };
    }
    for (leg, name) in found.iter().zip(names) {
        if *leg == Found::Foreign {
            let why = format!("leg `{name}` holds something that is not a leg of a mirror");
            let remedy = "name another device; if its records are damaged, start with --salvage, and the other leg goes on alone";
            let remedy = format!("{remedy}; or {EMPTY_IT}, if nothing in it is needed");
            return Err(OpenError::Unknown { why, remedy });
        }
    }
    match (&found[0], &found[1]) {
        (Found::Valid(a), Found::Valid(b)) => both(a, b, names, how),
        (Found::Valid(a), other) => one(0, a, *other, names, how),
        (other, Found::Valid(b)) => one(1, b, *other, names, how),
        (Found::Blank, Found::Blank) if how.create => Ok(Start::Fresh),
        (Found::Blank, Found::Blank) => refused(
            "both legs are blank",
            "start once with --create if they are new; if they held a mirror and have another length since, `nandu examine` says which they had",
        ),
        (Found::Blank, _) => {
            refused(format!("leg `{}` is blank and the other is missing", names[0]), "add both legs")
        }
        (_, Found::Blank) => {
            refused(format!("leg `{}` is blank and the other is missing", names[1]), "add both legs")
        }
        (Found::Unread, Found::Unread) => refused(
            "the records of both legs cannot be read",
            "start with --salvage to make the first leg a new set",
        ),
        _ => Err(OpenError::Gone { device: format!("{} and {}", names[0], names[1]) }),
    }
}

/// One leg has a record.
fn one(
    y: usize,
    sb: &Superblock,
    other: Found,
    names: &[String; 2],
    how: OpenOptions,
) -> Result<Start, OpenError> {
    if other == Found::Blank && !how.create {
        let why = format!("leg `{}` is blank", names[1 - y]);
        return refused(why, "start once with create to fill it from the other leg, or leave it out");
    }
    if sb.is_solo() {
        return Ok(Start::Solo(y));
    }
    if how.alone {
        return Ok(Start::Alone(y));
    }
    if other == Found::Unread {
        let why = format!(
            "the records of leg `{}` cannot be read, and may be newer than those of leg `{}`",
            names[1 - y],
            names[y]
        );
        return refused(why, "start with --salvage, or with --force-degraded, to go on without it");
    }
    let why = format!("leg `{}` was one of a pair, and the other may hold newer data", names[y]);
    refused(why, "add the other leg, or start with --force-degraded and lose what only the other leg holds")
}

fn both(a: &Superblock, b: &Superblock, names: &[String; 2], how: OpenOptions) -> Result<Start, OpenError> {
    if a.set != b.set {
        let remedy =
            format!("`{}` is of one, `{}` of another: name the two legs of one mirror", names[0], names[1]);
        return Err(OpenError::Foreign { device: names[1].clone(), remedy });
    }
    if a.leg == b.leg {
        let why = format!("legs `{}` and `{}` do not belong together", names[0], names[1]);
        return refused(why, "name the two legs of one mirror");
    }
    if common(a, b).is_some() {
        return match (a.is_solo(), b.is_solo()) {
            (false, false) if a.leader == b.leader => Ok(Start::Pair(usize::from(a.leader != a.leg))),
            (true, false) => Ok(Start::Solo(0)),
            (false, true) => Ok(Start::Solo(1)),
            _ => split(names),
        };
    }
    for (y, newer, older) in [(0, a, b), (1, b, a)] {
        let place = standing(older, newer).0;
        if matches!(place, Standing::Before | Standing::Behind(_)) {
            return match (older.is_solo(), newer.is_solo()) {
                (true, _) => split(names),
                (false, true) => Ok(Start::Solo(y)),
                (false, false) if how.alone => Ok(Start::Alone(y)),
                (false, false) => {
                    let why = format!("leg `{}` is old: {}", names[1 - y], behind(place, &names[y]));
                    let remedy = format!(
                        "put the leg that was used last in its place; or start with --force-degraded to go on from `{}`, and then \
                         `add {}` copies it in full",
                        names[y],
                        names[1 - y]
                    );
                    refused(why, &remedy)
                }
            };
        }
    }
    split(names)
}

/// How far an old leg is behind, in words.
pub fn behind(place: Standing, newer: &str) -> String {
    match place {
        Standing::Behind(1) => format!("`{newer}` was opened, or went on alone, once since"),
        Standing::Behind(n) => format!("`{newer}` was opened, or went on alone, {n} times since"),
        _ => format!("`{newer}` has gone on without it"),
    }
}

fn split<T>(names: &[String; 2]) -> Result<T, OpenError> {
    let why = format!(
        "legs `{}` and `{}` each went on without the other (split brain), or one of them is an old copy",
        names[0], names[1]
    );
    refused(why, &format!("choose one; of the other one {EMPTY_IT}"))
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
        let mut sb = Superblock { leg, set: [1, 2], seq: 1, members: 2, ..Superblock::BLANK };
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
        Superblock { generation, base: old.generation, state: State::Solo, leader: leg, ..s }
    }

    fn start(a: Found, b: Found, how: OpenOptions) -> Result<Start, String> {
        let names = ["a".to_string(), "b".to_string()];
        let here = decide(&[a, b], &names, how);
        let swapped = decide(&[b, a], &names, how);
        let mirrored = |s: &Start| match *s {
            Start::Pair(y) => Start::Pair(1 - y),
            Start::Solo(y) => Start::Solo(1 - y),
            Start::Alone(y) => Start::Alone(1 - y),
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
        assert_eq!(start(Valid(sb(0, 5)), Valid(sb(1, 5)), plain), Ok(Start::Pair(0)));
        // both: an opening was cut, in its first phase and in its second
        assert_eq!(start(Valid(opening(0, 6)), Valid(sb(1, 5)), plain), Ok(Start::Pair(0)));
        assert_eq!(start(Valid(opening(0, 6)), Valid(opening(1, 6)), plain), Ok(Start::Pair(0)));
        assert_eq!(start(Valid(sb(0, 6)), Valid(opening(1, 6)), plain), Ok(Start::Pair(0)));
        // both: two openings were cut, each after one write, from the same
        let other = Superblock { generation: Gen { epoch: 6, tag: 1 }, ..opening(1, 6) };
        assert_eq!(start(Valid(opening(0, 6)), Valid(other), plain), Ok(Start::Pair(0)));
        // both: equal, the leader Solo (a cut between steps 3 and 5 of a rejoin)
        let joining = Superblock { state: State::Pair, leader: 0, leg: 1, ..solo(0, 5) };
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
            assert_eq!(start(Valid(old), Valid(alike), alone), Ok(Start::Alone(1)));
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
        assert_eq!(start(Valid(sb(0, 5)), Absent, alone), Ok(Start::Alone(0)));
        assert_eq!(start(Valid(sb(1, 5)), Absent, alone), Ok(Start::Alone(0)));
        // one: Opening
        assert!(start(Valid(opening(0, 5)), Absent, plain).is_err_and(|e| e.contains("--force-degraded")));
        assert_eq!(start(Valid(opening(1, 5)), Absent, alone), Ok(Start::Alone(0)));
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
        assert_eq!(start(Valid(sb(0, 5)), Unread, alone), Ok(Start::Alone(0)));
        assert_eq!(start(Valid(solo(0, 5)), Unread, plain), Ok(Start::Solo(0)));
        assert!(start(Unread, Unread, plain).is_err_and(|e| e.contains("both legs")));
        for damaged in [Foreign, Unread, Blank] {
            assert_eq!(start(Valid(sb(0, 5)), damaged, salvage), Ok(Start::Alone(0)));
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
}
