//! Older copies of a leg: at any stop one is made, the array goes on, and the copy is put in the leg's place. It
//! is refused, or counts as missing when the operator says so; what was acknowledged is shown, or the start says
//! no; and without a copy it never says no.

use crate::harness::{ALONE, CREATE, PLAIN};
use crate::random::seeds;
use crate::scenarios::superblock;
use crate::world::{Setup, World};
use nandu_array::member::{Gen, State};
use nandu_array::parity::decide::{believe, old_legs};
use nandu_array::parity::layout::{OUT, Superblock};
use nandu_base::{OpenError, Rng};

fn some_writes(w: &mut World, rng: &mut Rng) {
    for _ in 0..rng.between(1, 3) {
        let a = w.write(rng.below(60), 9);
        let b = w.write(rng.between(100, 200), 20);
        w.wait(&[a, b]);
    }
    let f = w.flush();
    w.wait(&[f]);
}

fn stop(w: &mut World, rng: &mut Rng) {
    if rng.below(2) == 0 {
        w.close();
        return;
    }
    // A cut with writes under way leaves something in the journal.
    w.write(rng.below(60), 9);
    w.write(rng.below(60), 20);
    w.run(rng.below(60) as usize);
    w.cut();
}

fn finish(mut w: World) -> Result<(), String> {
    w.read_all();
    w.run(50_000);
    w.check_parity();
    w.read_all();
    w.wrong.take().map_or(Ok(()), Err)
}

/// One leg is copied at a stop, the array goes on for some openings, the last of them cut short, and the copy is
/// put back.
fn put_back(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0x01D);
    let mut w = World::new(setup);
    w.open(CREATE).map_err(|e| e.to_string())?;
    some_writes(&mut w, &mut rng);
    stop(&mut w, &mut rng);
    if rng.below(3) == 0 {
        w.boot(PLAIN);
        w.run(rng.between(1, 80) as usize);
        w.cut();
    }
    let leg = rng.below(w.legs() as u64) as usize;
    let copy = w.disk(leg).copy();
    let openings = rng.below(3);
    for _ in 0..openings {
        w.open(PLAIN).map_err(|e| format!("refused without any copy: {e}"))?;
        some_writes(&mut w, &mut rng);
        stop(&mut w, &mut rng);
    }
    w.boot(PLAIN);
    w.run(rng.below(150) as usize);
    w.cut();
    *w.disk(leg) = copy;
    match (w.open(PLAIN), openings) {
        (Ok(()), 0) => finish(w),
        (Ok(()), n) => Err(format!("a copy of leg {leg} from {n} openings before is believed")),
        (Err(OpenError::Refused { why, .. }), _) if why.contains("is old") => {
            // The others go on when they are told to; the copy is left alone until it is added, and then rebuilt.
            let before = w.disk(leg).copy();
            w.open(ALONE).map_err(|e| format!("the others are refused: {e}"))?;
            w.read_all();
            w.run(2000);
            if w.is_full() || before.touched() != w.disk(leg).touched() {
                return Err("an old copy is rebuilt and nobody asked for it".into());
            }
            w.back(leg);
            finish(w)
        }
        (Err(why), _) => Err(format!("refused in other words: {why}")),
    }
}

/// A leg leaves and is copied, comes back and is rebuilt; the copy is put in its place, or a copy of another leg
/// from then in that one's.
fn while_out(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0x0FF);
    let mut w = World::new(setup);
    w.open(CREATE).map_err(|e| e.to_string())?;
    some_writes(&mut w, &mut rng);
    let leg = rng.below(w.legs() as u64) as usize;
    w.lose(leg);
    some_writes(&mut w, &mut rng);
    stop(&mut w, &mut rng);
    let copied = rng.below(w.legs() as u64) as usize;
    w.disk(leg).lost = false;
    let copy = w.disk(copied).copy();
    w.open(PLAIN).map_err(|e| format!("refused without any copy: {e}"))?;
    some_writes(&mut w, &mut rng);
    let rebuilt = rng.below(2) == 0;
    if rebuilt {
        w.run(50_000);
    }
    stop(&mut w, &mut rng);
    *w.disk(copied) = copy;
    match w.open(PLAIN) {
        // A leg that is not rebuilt is nobody's loss.
        Ok(()) if !rebuilt && copied == leg => finish(w),
        Ok(()) => Err(format!("a copy of leg {copied} from an opening before is believed")),
        Err(_) => Ok(()),
    }
}

type Story = fn(Setup) -> Result<(), String>;

const STORIES: [(&str, Story); 2] = [("put back", put_back), ("while out", while_out)];

#[test]
fn an_older_copy_of_a_leg_is_never_believed() {
    for seed in seeds(400) {
        for (name, story) in STORIES {
            let setup = Setup::small(seed);
            story(setup).unwrap_or_else(|wrong| panic!("`{name}`, seed {seed}: {wrong}"));
        }
    }
}

/// Whether a planted fault shows.
pub fn finds(plant: &str) -> Option<String> {
    (0..300).find_map(|seed| {
        STORIES.iter().find_map(|(_, story)| {
            let wrong = story(Setup::small(seed).plant(plant)).err()?;
            Some(format!("seed {seed}: {wrong}"))
        })
    })
}

/// What a start says of one old leg and of two. Legs that were all put back to one stop are an array as it was
/// then.
#[test]
fn a_start_says_which_legs_are_old() {
    let mut rng = Rng::new(1);
    let mut w = World::new(Setup::small(3));
    w.open(CREATE).expect("blank legs");
    some_writes(&mut w, &mut rng);
    w.close();
    let copies: Vec<_> = (0..3).map(|leg| w.disk(leg).copy()).collect();
    for _ in 0..2 {
        w.open(PLAIN).expect("all legs");
        some_writes(&mut w, &mut rng);
        w.close();
    }
    *w.disk(1) = copies[1].clone();
    let why = w.open(PLAIN).expect_err("an old leg").to_string();
    assert!(why.contains("leg `b` is old: `c` has seen 2 changes of the set since"), "{why}");
    *w.disk(0) = copies[0].clone();
    for how in [PLAIN, ALONE] {
        let why = w.open(how).expect_err("two old legs").to_string();
        assert!(why.contains("leg `a` is old: `c` has seen 2") && why.contains("leg `b` is old"), "{why}");
    }
    *w.disk(2) = copies[2].clone();
    w.open(PLAIN).expect("nobody can notice that all are of one stop");
    assert!(w.is_full());
}

fn few(w: &mut World, first: u64, count: u64) {
    for k in 0..3 {
        let a = w.write(first + 20 * k, count);
        w.wait(&[a]);
    }
}

/// Two worlds of one seed that are the same up to a stop: the first goes on with all legs, the second without leg c, for some openings, the last of
/// which is under way. Then leg c of the first comes into the second: its records have higher numbers, and its journal entries of those numbers.
fn from_another_history(seed: u64, openings: u64, writes: u64) -> World {
    let begun = || {
        let mut w = World::new(Setup::small(seed));
        w.open(CREATE).expect("blank legs");
        let a = w.write(0, 200);
        w.wait(&[a]);
        w.close();
        w
    };
    let mut other = begun();
    for opening in 1..=openings {
        other.open(PLAIN).expect("all legs");
        if opening == openings {
            few(&mut other, 64, 5);
        }
        other.close();
    }
    let mut w = begun();
    w.disk(2).lost = true;
    w.open(PLAIN).expect("two legs are enough");
    for k in 0..writes {
        let a = w.write(5 * k, 5);
        w.wait(&[a]);
    }
    w.close();
    w.open(PLAIN).expect("two legs are enough");
    few(&mut w, 0, 4);
    *w.disk(2) = other.disk(2).copy();
    w.back(2);
    w
}

fn leg_is_on_record(w: &mut World) {
    while w.counter("legs_joined") == 0 || w.counter("legs_on_record") == 0 {
        assert!(w.step(), "leg c joins");
    }
}

/// The power goes. The start that follows takes all legs, and shows what was acknowledged before and after the rebuild.
fn is_whole_after_a_cut(w: &mut World, seed: u64) {
    w.cut();
    w.open(PLAIN).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    w.read_all();
    w.run(50_000);
    w.check_parity();
    w.read_all();
    assert_eq!(w.wrong, None, "seed {seed}");
}

/// The power goes as soon as the leg is on record. Entries that the others wrote before were passed over, for the new one had
/// something else under their numbers.
#[test]
fn entries_of_a_leg_from_another_history_do_not_hide_those_of_the_others() {
    for seed in 0..20 {
        let mut w = from_another_history(seed, 3, 40);
        leg_is_on_record(&mut w);
        is_whole_after_a_cut(&mut w, seed);
    }
}

/// The newer record of a leg that joins had the higher number, so it was found instead of what was written to the other slot.
#[test]
fn the_records_of_a_leg_that_joins_are_older_than_what_is_written_there() {
    for seed in 0..20 {
        let mut w = from_another_history(seed, 3, 0);
        leg_is_on_record(&mut w);
        w.cut();
        w.open(PLAIN).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        w.run(50_000);
        w.read_all();
        w.check_parity();
        assert_eq!(w.wrong, None, "seed {seed}");
    }
}

/// A leg comes from a history that is longer: what is counted here goes on behind what it has counted, or its entries would have the numbers of later ones.
#[test]
fn what_a_leg_that_joins_has_counted_is_not_counted_again() {
    for seed in 0..80 {
        let mut w = from_another_history(seed, 4, 20);
        leg_is_on_record(&mut w);
        few(&mut w, 5, 4);
        is_whole_after_a_cut(&mut w, seed);
    }
}

/// Of a start that was cut between its last records one leg says that it is over, and one that it is under way. A leg that was told of neither is old.
#[test]
fn a_leg_that_was_not_told_of_an_opening_is_old_beside_one_that_says_that_it_is_over() {
    let [before, fresh] = [4, 5].map(|epoch| Gen { epoch, tag: 90 + epoch });
    let leg = |leg: u8, generation: Gen, base: Gen, state: State| {
        let mut upto = [OUT; 16];
        upto[..3].fill(1 << 20);
        let blank = Superblock { data: 1 << 20, upto, ..Superblock::BLANK };
        let mut sb = blank;
        (sb.head.leg, sb.head.members, sb.head.set, sb.head.seq) = (leg, 3, [7, 8], 10 + generation.epoch);
        (sb.head.generation, sb.head.base, sb.head.state) = (generation, base, state);
        if generation == fresh {
            sb.head.remember(before);
        }
        Some(sb)
    };
    let over = |l| leg(l, fresh, Gen::NONE, State::Pair);
    let opening = |l| leg(l, fresh, before, State::Opening);
    let untold = |l| leg(l, before, Gen::NONE, State::Pair);
    assert_eq!(old_legs(&[over(0), opening(1), untold(2)]), Some(0b100));
    assert_eq!(old_legs(&[untold(0), opening(1), over(2)]), Some(0b001));
    // As long as nobody says that it is over a cut explains all of it.
    assert_eq!(old_legs(&[opening(0), opening(1), untold(2)]), None);
    assert_eq!(old_legs(&[over(0), opening(1), opening(2)]), None);
    assert!(believe(&[over(0), opening(1), None]).is_some());
}

/// The same as it comes about: a start is cut short between its last records, and a copy of leg c from before it is put in its place.
#[test]
fn a_copy_from_before_a_start_that_one_leg_calls_over_is_refused() {
    let mut parted = 0;
    for seed in 0..60 {
        let mut w = World::new(Setup::small(seed));
        w.open(CREATE).expect("blank legs");
        let a = w.write(0, 200);
        w.wait(&[a]);
        // What was acknowledged last lies in the journals.
        let b = w.write(3, 20);
        w.wait(&[b]);
        w.cut();
        let copy = w.disk(2).copy();
        w.boot(PLAIN);
        let heads = |w: &World| [0, 1].map(|leg| superblock(w, leg).head);
        let is_parted = |w: &World| {
            let [a, b] = heads(w);
            a.generation == b.generation && a.state != b.state
        };
        while !is_parted(&w) && w.opened().is_none() {
            assert!(w.step(), "the start does not end");
        }
        w.cut();
        *w.disk(2) = copy;
        let is_over = heads(&w).iter().all(|head| head.state == State::Pair);
        parted += u32::from(is_parted(&w));
        if is_parted(&w) || is_over {
            let why = w.open(PLAIN).expect_err("an old leg").to_string();
            assert!(why.contains("leg `c` is old"), "seed {seed}: {why}");
            w.open(ALONE).expect("the others are current");
            w.read_all();
            assert_eq!(w.wrong, None, "seed {seed}");
        }
    }
    assert!(parted > 3, "{parted}");
}
