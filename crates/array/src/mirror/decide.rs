//! What to believe at open (hetero-mirror.md section 5), as a pure function of what was found on the legs.

use super::layout::{Gen, Superblock};
use nandu_base::{OpenError, OpenHow};

/// What a leg's superblock slots hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // two of them at a time, at open
pub enum Found {
    /// The leg is not there, or a slot cannot be read: it may hide a newer record, so the leg is not used.
    Absent,
    /// Both slots are all zero.
    Blank,
    /// Something else lives there.
    Foreign,
    /// A record.
    Valid(Superblock),
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
}

/// How much a returning leg lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacks {
    /// The regions that either map names.
    Dirty,
    /// Everything.
    All,
}

fn refused<T>(why: impl Into<String>, remedy: &str) -> Result<T, OpenError> {
    Err(OpenError::Refused { why: why.into(), remedy: remedy.into() })
}

/// How to begin with what was found on the legs called `names`.
pub fn decide(found: &[Found; 2], names: &[String; 2], how: OpenHow) -> Result<Start, OpenError> {
    for (leg, name) in found.iter().zip(names) {
        if *leg == Found::Foreign {
            let why = format!("leg `{name}` holds something that is no leg of a mirror");
            return refused(why, "name another device, or wipe its last 68 KiB when it may be overwritten");
        }
    }
    match (&found[0], &found[1]) {
        (Found::Valid(a), Found::Valid(b)) => both(a, b, names, how),
        (Found::Valid(a), other) => one(0, a, *other, names, how),
        (other, Found::Valid(b)) => one(1, b, *other, names, how),
        (Found::Blank, Found::Blank) if how.create => Ok(Start::Fresh),
        (Found::Blank, Found::Blank) => refused("both legs are blank", "start once with create"),
        (Found::Blank, _) => {
            refused(format!("leg `{}` is blank and the other is missing", names[0]), "add both legs")
        }
        (_, Found::Blank) => {
            refused(format!("leg `{}` is blank and the other is missing", names[1]), "add both legs")
        }
        _ => Err(OpenError::Gone { device: format!("{} and {}", names[0], names[1]) }),
    }
}

/// One leg has a record.
fn one(
    y: usize,
    sb: &Superblock,
    other: Found,
    names: &[String; 2],
    how: OpenHow,
) -> Result<Start, OpenError> {
    if other == Found::Blank && !how.create {
        let why = format!("leg `{}` is blank", names[1 - y]);
        return refused(why, "start once with create to fill it from the other leg, or leave it out");
    }
    if sb.solo {
        return Ok(Start::Solo(y));
    }
    if how.alone {
        return Ok(Start::Alone(y));
    }
    let why = format!("leg `{}` was one of a pair, and the other may hold newer data", names[y]);
    refused(why, "add the other leg, or start with alone to give up what only the other leg holds")
}

fn both(a: &Superblock, b: &Superblock, names: &[String; 2], how: OpenHow) -> Result<Start, OpenError> {
    if a.set != b.set {
        let remedy =
            format!("`{}` is of one, `{}` of another: name the two legs of one mirror", names[0], names[1]);
        return Err(OpenError::Foreign { device: names[1].clone(), remedy });
    }
    if a.leg == b.leg {
        let why = format!("legs `{}` and `{}` do not belong together", names[0], names[1]);
        return refused(why, "name the two legs of one mirror");
    }
    if a.gen == b.gen {
        return match (a.solo, b.solo) {
            (false, false) if a.leader == b.leader => Ok(Start::Pair(usize::from(a.leader != a.leg))),
            (true, false) => Ok(Start::Solo(0)),
            (false, true) => Ok(Start::Solo(1)),
            _ => split(names),
        };
    }
    for (y, newer, older) in [(0, a, b), (1, b, a)] {
        if precedes(older.gen, newer) {
            return match (older.solo, newer.solo) {
                (true, _) => split(names),
                (false, true) => Ok(Start::Solo(y)),
                // The newer leg's true partner is somewhere else.
                (false, false) if how.alone => Ok(Start::Alone(y)),
                (false, false) => {
                    let why =
                        format!("leg `{}` is old; the partner of `{}` is another", names[1 - y], names[y]);
                    refused(why, "add the right leg, or start with alone to go on from the newer one")
                }
            };
        }
    }
    split(names)
}

fn split<T>(names: &[String; 2]) -> Result<T, OpenError> {
    let why = format!("legs `{}` and `{}` each went on without the other (split brain)", names[0], names[1]);
    refused(why, "choose one, wipe the last 68 KiB of the other, and start with create")
}

/// Whether `gen` is an earlier one of the leg with record `newer`.
fn precedes(gen: Gen, newer: &Superblock) -> bool {
    gen != Gen::NONE && (gen == newer.base || newer.history.contains(&gen))
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
        Found::Absent => Err("its records cannot be read"),
        Found::Blank if create => Ok(Lacks::All),
        Found::Blank => Err("it is blank"),
        Found::Foreign => Err("it holds something else"),
        Found::Valid(x) if x.set != y.set || x.leg == y.leg => Err("it belongs to another mirror"),
        Found::Valid(x) if x.solo && !merges => Err("it went on alone (split brain)"),
        Found::Valid(x) if x.gen == y.gen || (y.base != Gen::NONE && x.gen == y.base) => Ok(Lacks::Dirty),
        Found::Valid(x) if precedes(x.gen, y) => Ok(Lacks::All),
        Found::Valid(_) if merges => Ok(Lacks::All),
        Found::Valid(_) => Err("its history is another (split brain)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sb(leg: u8, epoch: u64) -> Superblock {
        Superblock {
            leg,
            set: [1, 2],
            seq: 1,
            gen: Gen { epoch, tag: epoch * 10 },
            base: Gen::NONE,
            history: [Gen::NONE; 8],
            solo: false,
            leader: 0,
            strict: true,
            clean: false,
            leg_bytes: 0,
            region_shift: 20,
            map: 0,
            lost: 0,
            together: 0,
        }
    }

    fn solo(leg: u8, epoch: u64) -> Superblock {
        let old = sb(leg, epoch - 1);
        let mut s = sb(leg, epoch);
        s.history[0] = old.gen;
        Superblock { base: old.gen, solo: true, leader: leg, ..s }
    }

    fn start(a: Found, b: Found, how: OpenHow) -> Result<Start, String> {
        let names = ["a".to_string(), "b".to_string()];
        let here = decide(&[a, b], &names, how);
        let swapped = decide(&[b, a], &names, how);
        let mirrored = |s: &Start| match *s {
            Start::Pair(y) => Start::Pair(1 - y),
            Start::Solo(y) => Start::Solo(1 - y),
            Start::Alone(y) => Start::Alone(1 - y),
            Start::Fresh => Start::Fresh,
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
        use Found::{Absent, Blank, Foreign, Valid};
        let plain = OpenHow::default();
        let alone = OpenHow { alone: true, ..plain };
        let create = OpenHow { create: true, ..plain };
        // both: equal, nobody Solo
        assert_eq!(start(Valid(sb(0, 5)), Valid(sb(1, 5)), plain), Ok(Start::Pair(0)));
        // both: equal, the leader Solo (a cut between steps 3 and 5 of a rejoin)
        assert_eq!(start(Valid(solo(0, 5)), Valid(sb(1, 5)), plain), Ok(Start::Solo(0)));
        // both: gen(x) = base(y)
        assert_eq!(start(Valid(sb(0, 5)), Valid(solo(1, 6)), plain), Ok(Start::Solo(1)));
        // both: gen(x) older in the history
        let mut long = solo(1, 9);
        long.history[3] = sb(0, 5).gen;
        assert_eq!(start(Valid(sb(0, 5)), Valid(long), plain), Ok(Start::Solo(1)));
        let paired_again = Superblock { solo: false, base: Gen::NONE, ..long };
        assert!(start(Valid(sb(0, 5)), Valid(paired_again), plain).is_err());
        assert_eq!(start(Valid(sb(0, 5)), Valid(paired_again), alone), Ok(Start::Alone(1)));
        // both: split brain, also when the older one says Solo
        assert!(start(
            Valid(solo(0, 6)),
            Valid(Superblock { gen: Gen { epoch: 6, tag: 1 }, ..solo(1, 6) }),
            alone
        )
        .is_err_and(|e| e.contains("split brain")));
        let mut after = solo(1, 7);
        after.base = solo(0, 6).gen;
        assert!(start(Valid(solo(0, 6)), Valid(after), alone).is_err_and(|e| e.contains("split brain")));
        assert!(start(Valid(sb(0, 5)), Valid(solo(1, 8)), alone).is_err_and(|e| e.contains("split brain")));
        // one: Solo
        assert_eq!(start(Valid(solo(0, 6)), Absent, plain), Ok(Start::Solo(0)));
        // one: Pair
        assert!(start(Valid(sb(0, 5)), Absent, create).is_err_and(|e| e.contains("alone")));
        assert_eq!(start(Valid(sb(0, 5)), Absent, alone), Ok(Start::Alone(0)));
        assert_eq!(start(Valid(sb(1, 5)), Absent, alone), Ok(Start::Alone(0)));
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
        // none
        assert!(start(Blank, Blank, plain).is_err());
        assert_eq!(start(Blank, Blank, create), Ok(Start::Fresh));
        assert!(start(Blank, Absent, create).is_err());
    }
}
