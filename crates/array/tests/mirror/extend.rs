//! One more leg: a mirror takes it while it serves, whatever is cut or lost meanwhile.

use crate::harness::grow::begin;
use crate::harness::{ALONE, CREATE, PLAIN};
use crate::maintenance::rested;
use crate::random::seeds;
use crate::scenarios::written;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::MAX_LEGS;
use nandu_array::mirror::layout::read_superblock;
use nandu_base::{Admin, ByteLen, Rng, Span};

fn setups(seed: u64) -> Vec<(&'static str, Setup)> {
    let mut soiled = Setup::small(seed);
    soiled.soiled = true;
    soiled.config.common.initial_sync = nandu_array::member::InitialSync::Resync;
    vec![("two", Setup::small(seed)), ("three", Setup::small(seed).three()), ("soiled", soiled)]
}

/// Writes, a new leg with requests before, meanwhile and behind it, a flush.
fn story(w: &mut World) {
    let c = begin(w);
    if w.is_over() {
        return;
    }
    let Ok(leg) = w.extend() else { return }; // a leg was lost before
    let d = w.write(135, 6);
    w.back(leg);
    let e = w.write(260, 30);
    let r = w.read(0, 20);
    let f = w.flush();
    w.wait_unless_over(&[c, d, e, r, f]);
    let g = w.write(2, 3);
    let f = w.flush();
    w.wait_unless_over(&[g, f]);
    w.run(20_000);
}

/// The start after it finds what was promised; the new leg is a member, or becomes one when it is replaced by itself. Then it alone is enough.
fn recover(mut w: World, legs: usize) -> Result<(), String> {
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.read_all();
    w.run(20_000);
    let added = w.legs() - 1;
    if w.legs() > legs && !w.is_whole() {
        w.replace(added, "it did not join").map_err(|e| format!("it cannot be filled afterwards: {e}"))?;
        w.run(20_000);
    }
    if !w.is_whole() {
        return Err("it is not whole afterwards".into());
    }
    w.check_equal();
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    (0..added).for_each(|leg| w.disk(leg).lost = true);
    w.may_lose = true;
    w.open(ALONE).map_err(|e| format!("leg {added} alone: {e}"))?;
    w.read_all();
    w.run(20_000);
    w.wrong.take().map_or(Ok(()), Err)
}

/// The power is cut at each step; `twice`: also in the start after it. How often the new leg was known then.
fn cut_everywhere(setup: &Setup, twice: bool) -> Result<u64, String> {
    let legs = setup.config.legs.len();
    let mut known = 0;
    for n in 1.. {
        let told = |e: String| format!("seed {}, cut after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.fuse = Some(n);
        story(&mut w);
        let ended = !w.is_over();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        w.cut();
        (0..w.legs()).for_each(|leg| w.disk(leg).lost = false);
        if twice {
            w.boot(PLAIN);
            w.run(Rng::new(setup.seed ^ n).between(1, 60) as usize);
            w.cut();
        }
        known += u64::from(members(&w, A).is_some_and(|members| usize::from(members) > legs));
        recover(w, legs).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(known)
}

/// Of how many legs the mirror is, by the newest record of one.
fn members(w: &World, leg: usize) -> Option<u8> {
    let slots = w.layout.slots.iter().filter_map(|&at| Some(read_superblock(&w.disk(leg).record(at))?.0));
    slots.max_by_key(|sb| sb.seq).map(|sb| sb.members)
}

#[test]
fn a_leg_is_added_and_filled_while_the_mirror_serves() {
    let mut w = rested(Setup::small(80));
    let leg = w.extend().expect("it is healthy");
    let why = w.extend().expect_err("one is coming").to_string();
    assert!(why.contains("wait until it is healthy"), "{why}");
    w.back(leg);
    written(&mut w, 40, 20);
    w.run(20_000);
    assert_eq!((w.is_whole(), w.legs(), members(&w, B)), (true, 3, Some(3)));
    w.check_equal();
    // Any two of them may go now.
    w.lose(A);
    w.run(2000);
    w.lose(B);
    w.run(2000);
    w.read_all();
    assert_eq!(w.wrong, None);
}

#[test]
fn what_is_not_blank_is_no_new_leg() {
    let mut w = rested(Setup::small(81));
    let leg = w.extend().expect("it is healthy");
    let record = w.layout.slots[1] / 512;
    w.disk(leg).scribble(record);
    w.back(leg);
    w.run(20_000);
    assert_eq!((w.is_whole(), w.counter("rejoins_refused")), (false, 1));
    // The others serve, and a start takes them without it.
    written(&mut w, 40, 20);
    assert_eq!(members(&w, A), Some(2));
}

#[test]
fn a_mirror_that_was_made_of_fewer_legs_starts_without_those_that_were_named_since() {
    let mut w = rested(Setup::small(82));
    written(&mut w, 0, 20);
    let leg = w.extend().expect("it is healthy");
    w.cut();
    w.disk(leg).lost = false;
    w.open(PLAIN).expect("both legs that it has are there");
    w.read_all();
    w.run(20_000);
    assert_eq!((w.is_whole(), members(&w, A)), (false, Some(2)));
    w.cut();
    w.open(CREATE).expect("the new one is filled");
    w.run(20_000);
    assert_eq!((w.is_whole(), members(&w, A), w.wrong.take()), (true, Some(3), None));
    // The leg that was there first is named no more: that is refused.
    w.cut();
    w.setup.config.legs.pop();
    w.disks.pop();
    let why = w.open(PLAIN).expect_err("one of three is not named").to_string();
    assert!(why.contains("belongs to a mirror of 3 legs"), "{why}");
}

#[test]
fn a_leg_that_cannot_be_one_is_refused_and_changes_nothing() {
    let mut w = rested(Setup::small(83));
    let size = w.disk(A).size;
    w.disk(A).size = ByteLen(size.0 - 65536); // what the new one will have
    let why = w.extend().expect_err("it is too small").to_string();
    assert!(why.contains("are needed") && why.contains("as large as the smallest"), "{why}");
    let mut w = rested(Setup::small(84).hetero(|_| ()));
    let why = w.extend().expect_err("it has two legs").to_string();
    assert!(why.contains("exactly two legs"), "{why}");
    let mut w = rested(Setup::small(85));
    w.lose(B);
    let why = w.extend().expect_err("one leg is out").to_string();
    assert!(why.contains("wait until it is healthy"), "{why}");
    written(&mut w, 40, 20);
    assert_eq!((w.legs(), w.wrong), (2, None));
    assert_eq!(MAX_LEGS, 8);
}

#[test]
fn a_cut_at_any_step_leaves_a_mirror_that_starts() {
    for seed in seeds(1) {
        for (name, setup) in setups(seed) {
            for twice in [false, true] {
                let known = cut_everywhere(&setup, twice)
                    .unwrap_or_else(|wrong| panic!("{name}, twice {twice}: {wrong}"));
                assert!(known > 5, "{name}, seed {seed}: {known}");
            }
        }
    }
}

#[test]
fn a_leg_may_be_lost_at_any_step() {
    for seed in seeds(1) {
        for (name, setup) in setups(seed) {
            let legs = setup.config.legs.len();
            for leg in 0..=legs {
                for n in 1.. {
                    let mut w = World::new(setup.clone());
                    w.open(CREATE).expect("blank legs");
                    w.run(20_000);
                    w.ambush = Some((n, leg));
                    story(&mut w);
                    let ended = w.ambush.take().is_some();
                    let told =
                        |e: String| panic!("{name}, seed {seed}, leg {leg} is lost after {n} events: {e}");
                    w.wrong.take().map_or(Ok(()), Err).unwrap_or_else(told);
                    w.cut();
                    (0..w.legs()).for_each(|leg| w.disk(leg).lost = false);
                    recover(w, legs).unwrap_or_else(told);
                    if ended {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn a_scrub_is_ended_first() {
    let mut setup = Setup::small(86);
    setup.config.common.scrub.rate = ByteLen::kib(4);
    let mut w = rested(setup);
    written(&mut w, 0, 20);
    w.admin(Admin::Scrub { mends: None }).expect("it is healthy");
    w.pass(Span::from_ms(5));
    let why = w.extend().expect_err("a scrub is under way").to_string();
    assert!(why.contains("a scrub is under way"), "{why}");
    w.admin(Admin::StopScrub).expect("one is under way");
    let leg = w.extend().expect("it is over");
    w.back(leg);
    w.run(20_000);
    assert!(w.is_whole());
}
