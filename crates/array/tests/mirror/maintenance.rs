//! How a mirror is looked after: scrub, replacement, planned swaps, what it says of itself, and the knobs beside them.

use crate::harness::{CREATE, PLAIN};
use crate::scenarios::written;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::Failback;
use nandu_array::mirror::hetero::FlushMode;
use nandu_array::scrub::OnMismatch;
use nandu_base::{Admin, AdminError, ByteLen, Health, Notice, Op, OpenError, OpenOptions, Span};

const SCRUB: Admin = Admin::Scrub { mends: Some(true) };

pub(super) fn made(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("two blank legs become a mirror");
    w
}

/// A mirror of 256 KiB, written, with nothing marked.
pub(super) fn rested(setup: Setup) -> World {
    let mut w = made(setup);
    for first in [0, 100, 200, 300, 400] {
        written(&mut w, first, 90);
    }
    w.run(100_000);
    w.check_equal();
    w
}

fn scrubbed(w: &mut World) {
    let passes = w.counter("scrub_passes");
    w.admin(SCRUB).expect("a whole mirror is scrubbed");
    w.run(200_000);
    assert_eq!(w.counter("scrub_passes"), passes + 1);
}

fn healths(w: &World) -> Vec<Health> {
    let health = |n: &Notice| match n {
        Notice::Health(health) => Some(*health),
        _ => None,
    };
    w.notices.iter().filter_map(health).collect()
}

fn why(result: Result<(), AdminError>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn a_scrub_of_equal_legs_finds_nothing_and_keeps_its_rate() {
    let mut setup = Setup::small(50);
    setup.config.common.scrub.rate = ByteLen::mib(1);
    let mut w = rested(setup);
    let before = w.now;
    scrubbed(&mut w);
    let took = w.now.since(before);
    assert!(took >= Span::from_ms(230) && took <= Span::from_ms(260), "256 KiB at 1 MiB/s took {took}");
    assert_eq!(w.counter("scrubbed_bytes"), 256 << 10);
    assert_eq!(w.counter("scrub_differing_blocks"), 0);
    assert!(w.notices.contains(&Notice::Scrubbed { differing: 0, unreadable: 0 }));
    w.check_equal();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_scrub_comes_by_itself_and_can_be_stopped() {
    let mut setup = Setup::small(51);
    setup.config.common.scrub.interval = Span::from_ms(20);
    let mut w = rested(setup);
    let before = w.counter("scrub_passes");
    w.pass(Span::from_ms(100));
    let passes = w.counter("scrub_passes") - before;
    assert!((4..=6).contains(&passes), "{passes} in 100 ms");
    let mut w = rested(Setup::small(51));
    assert!(why(w.admin(Admin::StopScrub)).contains("no scrub"));
    w.admin(SCRUB).expect("begins");
    w.run(3);
    w.admin(Admin::StopScrub).expect("is under way");
    w.run(100_000);
    assert_eq!((w.counter("scrub_is_active"), w.counter("scrub_passes")), (0, 0));
    assert_eq!(w.wrong, None);
}

#[test]
fn a_silent_difference_is_reported_counted_and_the_leader_wins() {
    for hetero in [false, true] {
        for leg in [A, B] {
            let mut setup = Setup::small(52);
            if hetero {
                setup = setup.hetero(|h| h.flush_scope = FlushMode::Leader);
            }
            let mut w = rested(setup);
            w.corrupt(leg, 130, 5);
            let right = w.disk(A).now(131).clone();
            scrubbed(&mut w);
            let (blocks, mended) = (w.counter("scrub_differing_blocks"), w.counter("scrub_repaired_bytes"));
            assert_eq!(blocks, 1, "sectors 130 to 134 lie in one block of 4 KiB");
            assert!(mended > 0);
            assert_eq!(*w.disk(B).now(131), right, "the leader's data, whichever leg was damaged");
            let differ = w.notices.iter().find(|n| matches!(n, Notice::Differ { .. }));
            assert!(differ.is_some_and(|n| format!("{n:?}").contains("mends: true")), "{differ:?}");
            w.run(100_000);
            w.check_equal();
            scrubbed(&mut w);
            assert_eq!(w.counter("scrub_differing_blocks"), 1, "nothing more");
            assert_eq!(w.wrong, None);
        }
    }
}

#[test]
fn with_report_nothing_is_written() {
    let mut setup = Setup::small(53);
    setup.config.common.scrub.on_mismatch = OnMismatch::Check;
    setup.config.common.scrub.interval = Span::from_ms(10);
    let mut w = rested(setup);
    w.corrupt(B, 200, 20);
    let wrong = w.disk(B).now(203).clone();
    w.pass(Span::from_ms(15));
    assert!(w.counter("scrub_differing_blocks") >= 3 && w.counter("scrub_repaired_bytes") == 0);
    assert_eq!(*w.disk(B).now(203), wrong);
    assert_eq!(w.counter("dirty_regions"), 0);
    assert_eq!(w.wrong, None);
}

#[test]
fn what_one_leg_cannot_return_is_found_and_repaired_by_a_scrub() {
    let mut w = rested(Setup::small(54));
    w.disk(A).bad.insert(12);
    w.disk(B).bad.insert(20); // in the same chunk, in another block
    w.disk(A).bad.insert(300);
    w.disk(B).bad.insert(303); // in the same block: nobody has it
    scrubbed(&mut w);
    w.run(100_000);
    assert_eq!(w.counter("scrub_unreadable_blocks"), 1);
    assert_eq!(w.disk(A).bad.iter().copied().collect::<Vec<_>>(), [300]);
    assert_eq!(w.disk(B).bad.iter().copied().collect::<Vec<_>>(), [303]);
    assert!(w.notices.contains(&Notice::Scrubbed { differing: 0, unreadable: 1 }));
    assert_eq!(w.wrong, None);
}

/// The chunk is read from a leg that stands still. A write of the chunk does not wait for that.
#[test]
fn a_write_does_not_wait_for_a_scrub_of_a_frozen_leg() {
    let mut w = rested(Setup::small(55).hetero(|_| ()));
    written(&mut w, 0, 4); // marked
    w.freeze(B, Span::from_ms(500));
    w.admin(SCRUB).expect("both are members");
    w.pass(Span::from_us(50));
    let before = w.now;
    let a = w.write(2, 8);
    w.wait(&[a]);
    assert!(w.now.since(before) < Span::from_us(100), "one leg is enough");
    w.run(200_000);
    assert_eq!((w.counter("scrub_passes"), w.counter("scrub_differing_blocks")), (1, 0));
    w.run(100_000);
    w.check_equal();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_scrub_waits_for_a_resync_and_goes_on_after_it() {
    let mut setup = Setup::small(56);
    setup.config.common.resync_rate = ByteLen::mib(1);
    let mut w = rested(setup);
    w.admin(SCRUB).expect("a whole mirror");
    w.run(5);
    w.lose(B);
    written(&mut w, 0, 500);
    w.back(B);
    w.run(300_000);
    assert_eq!((w.counter("scrub_passes"), w.counter("scrub_differing_blocks")), (1, 0));
    w.check_equal();
    assert_eq!(w.wrong, None);
}

/// The power is cut at any step of a mend: the extent is as it was, or the legs are equal.
fn mend_cut_everywhere(setup: &Setup) -> Result<(), String> {
    for n in 1.. {
        let mut w = rested(setup.clone());
        w.corrupt(B, 128, 16);
        let wrong: Vec<_> = (128..144).map(|s| w.disk(B).now(s).clone()).collect();
        w.fuse = Some(n);
        w.admin(SCRUB).map_err(|e| e.to_string())?;
        w.run(20_000);
        let ended = !w.is_over();
        w.cut();
        w.open(PLAIN).map_err(|e| e.to_string())?;
        w.run(20_000);
        let (a, b) = (w.disk(A), w.disk(B));
        let equal = (128..144).all(|s| a.now(s) == b.now(s));
        let as_before = (128..144).zip(&wrong).all(|(s, was)| b.now(s) == was);
        drop((a, b));
        let untouched = as_before && !ended;
        if !(equal || untouched) {
            return Err(format!("seed {}, cut after {n} events: half mended, and not marked", setup.seed));
        }
        w.wrong.take().map_or(Ok(()), Err)?;
        if ended {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_cut_mend_is_marked() {
    for seed in 0..4 {
        mend_cut_everywhere(&Setup::small(seed)).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// The leader's data win; the other way round a read that has shown them comes undone.
fn leader_wins(setup: Setup) -> Result<(), String> {
    let mut w = rested(setup);
    w.corrupt(B, 130, 5);
    let right = w.disk(A).now(131).clone();
    scrubbed(&mut w);
    w.run(20_000);
    let holds = [A, B].map(|leg| *w.disk(leg).now(131) == right);
    if holds == [true; 2] {
        Ok(())
    } else {
        Err(format!("the follower was damaged, and the leader's data are on legs {holds:?}"))
    }
}

/// A is replaced; later the leg in its place dies and the old one is named again.
fn old_leg_again(setup: Setup) -> Result<(), String> {
    let mut w = rested(setup);
    w.replace(A, "a blank leg").map_err(|e| e.to_string())?;
    let old = w.removed.take().expect("it was replaced");
    w.run(100_000);
    if !w.is_whole() {
        return Err("the new leg does not join".into());
    }
    written(&mut w, 100, 60);
    w.run(100_000);
    w.lose(A);
    written(&mut w, 300, 8);
    w.run(10_000);
    // The old leg is put back. It may be copied in full, and not be read before.
    old.lock().expect("no panic inside").lost = false;
    w.cut();
    w.disks[A] = old;
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.run(100_000);
    w.read_all();
    if w.wrong.is_none() {
        w.check_equal();
    }
    w.wrong.take().map_or(Ok(()), Err)
}

#[test]
fn a_replaced_leg_is_never_believed_again() {
    for seed in 0..4 {
        for hetero in [false, true] {
            let setup = Setup::small(60 + seed);
            let setup = if hetero { setup.hetero(|_| ()) } else { setup };
            old_leg_again(setup).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        }
    }
    // Both at a start, the new one being away: the old leg cannot stand in for it.
    let mut w = rested(Setup::small(64));
    w.replace(A, "a blank leg").expect("the other leg has everything");
    let old = w.removed.take().expect("it was replaced");
    w.run(100_000);
    w.close();
    w.cut();
    old.lock().expect("no panic inside").lost = false;
    w.disks[A] = old;
    match w.open(PLAIN) {
        Err(OpenError::Refused { why, .. }) => assert!(why.contains("is old"), "{why}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_leg_is_replaced_while_it_serves() {
    let mut w = rested(Setup::small(65));
    let busy = w.write(50, 30);
    w.replace(A, "the leader").expect("the other leg has everything");
    written(&mut w, 260, 30);
    w.wait(&[busy]);
    w.run(100_000);
    assert!(w.is_whole());
    assert_eq!(w.counter("resync_bytes"), 256 << 10, "all of it is copied");
    assert_eq!(w.counter("leader_leg"), 1);
    assert_eq!(healths(&w).last(), Some(&Health::Healthy));
    w.read_all();
    w.run(100_000);
    w.check_equal();
    // What comes in place of a leg must be blank, and a blank leg comes only in place of a replaced one.
    w.close();
    w.cut();
    w.open(PLAIN).expect("both legs");
    w.lose(A);
    w.run(1000);
    w.disk(A).wipe();
    w.back(A);
    w.run(10_000);
    assert_eq!((w.counter("rejoins_refused"), w.counter("leg_a_is_member")), (1, 0));
    assert!(w.notices.contains(&Notice::Refused(0)));
    assert!(why(w.admin(Admin::Replace(1))).contains("holds data"), "B is alone");
    w.replace(A, "still blank").expect("B has everything");
    w.run(100_000);
    assert!(w.is_whole());
    w.admin(Admin::Replace(0)).expect("B has everything");
    w.run(10_000);
    w.back(A); // the same leg, which is not blank
    w.run(10_000);
    assert_eq!((w.counter("rejoins_refused"), w.counter("leg_a_is_member")), (2, 0));
    assert_eq!(w.wrong, None);
}

#[test]
fn the_leader_of_a_leg_under_resync_is_not_replaced() {
    let mut setup = Setup::small(66);
    setup.config.common.resync_rate = ByteLen::mib(1);
    let mut w = rested(setup);
    w.lose(B);
    written(&mut w, 0, 500);
    w.back(B);
    while !w.is_whole() {
        assert!(w.step());
    }
    assert!(why(w.admin(Admin::Replace(0))).contains("lacks"));
    assert!(why(w.admin(Admin::Lead(1))).contains("not equal"));
    w.run(100_000);
    w.check_equal();
    assert_eq!(w.wrong, None);
}

#[test]
fn the_roles_are_swapped_by_command_under_load() {
    for hetero in [false, true] {
        let mut setup = Setup::small(67);
        setup.slow = 10;
        if hetero {
            setup = setup.hetero(|h| h.flush_scope = FlushMode::Leader);
        }
        let mut w = rested(setup);
        for (round, leg) in [B, A, B].into_iter().enumerate() {
            let all: Vec<u64> = (0..8).map(|k| w.write(k * 50, 8)).collect();
            w.admin(Admin::Lead(leg as u8)).expect("the legs are equal");
            let f = w.flush();
            w.wait(&all);
            w.wait(&[f]);
            w.run(100_000);
            assert_eq!(
                (w.counter("leader_leg"), w.counter("leader_changes")),
                (leg as u64, round as u64 + 1)
            );
            assert!(w.is_whole() && w.is_ok(f));
            w.read_all();
            w.run(100_000);
            w.check_equal();
        }
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn the_first_leg_leads_again_if_the_stack_says_so() {
    for failback in [Failback::Manual, Failback::Immediate] {
        let mut setup = Setup::small(68);
        setup.config.common.failback = failback;
        let mut w = rested(setup);
        w.lose(A);
        written(&mut w, 0, 50);
        w.back(A);
        w.run(100_000);
        assert!(w.is_whole());
        assert_eq!(w.counter("leader_leg"), u64::from(failback == Failback::Manual));
        w.read_all();
        w.run(100_000);
        w.check_equal();
        assert_eq!(w.wrong, None);
    }
    let mut setup = Setup::small(68);
    setup.config.common.failback = Failback::Immediate;
    let mut w = rested(setup);
    assert!(why(w.admin(Admin::Lead(1))).contains("stack file"));
}

#[test]
fn a_mirror_says_when_it_is_degraded_exposed_and_whole() {
    use Health::{Degraded, Exposed, Failed, Healthy};
    let mut w = rested(Setup::small(69));
    assert!(healths(&w).is_empty(), "it was whole from the start");
    w.lose(B);
    written(&mut w, 0, 20);
    assert_eq!(healths(&w), [Degraded]);
    w.back(B);
    w.run(100_000);
    assert_eq!(healths(&w), [Degraded, Healthy]);
    w.lose(B);
    w.run(100);
    w.lose(A);
    w.run(1000);
    w.back(A);
    w.back(B);
    w.run(100_000);
    assert_eq!(healths(&w)[2..], [Degraded, Failed, Degraded, Healthy]);
    assert_eq!(w.wrong, None);

    let mut w = rested(Setup::small(70).hetero(|h| h.max_exposed_time = Span::from_ms(2)));
    w.freeze(B, Span::from_ms(10));
    let a = w.write(0, 4);
    w.run(100_000);
    assert!(w.is_ok(a));
    assert_eq!(healths(&w), [Exposed, Healthy]);
    assert_eq!(w.wrong, None);
}

/// Two sets made of the same words with the same seed, at other times: their legs are not taken for each other's.
#[test]
fn legs_of_two_sets_stated_alike_are_told_apart() {
    let mut one = made(Setup::small(73));
    one.close();
    let mut two = World::new(Setup::small(73));
    two.pass(Span(1));
    two.open(CREATE).expect("two blank legs");
    two.close();
    one.cut();
    two.cut();
    one.disks[B] = two.disks[B].clone();
    match one.open(PLAIN) {
        Err(OpenError::Foreign { device, .. }) => assert_eq!(device, "b"),
        other => panic!("not refused: {other:?}"),
    }
    // While the other leg serves alone it is refused as well, and nothing is written to it.
    one.cut();
    one.disk(B).lost = true;
    one.open(OpenOptions { alone: true, ..PLAIN }).expect("told to");
    one.run(1000);
    let before = two.disk(B).touched().len();
    one.back(B);
    one.run(1000);
    assert!(one.notices.contains(&Notice::Refused(1)));
    assert_eq!(two.disk(B).touched().len(), before);
}

/// Whether a planted fault shows.
pub fn finds(plant: &str) -> Option<(u64, String)> {
    (0..20).find_map(|seed| {
        let setup = || Setup::small(seed).plant(plant);
        let wrong = leader_wins(setup())
            .and_then(|()| old_leg_again(setup()))
            .and_then(|()| mend_cut_everywhere(&setup()));
        wrong.err().map(|wrong| (seed, wrong))
    })
}

#[test]
fn stories_of_maintenance_end_well() {
    for seed in 0..20 {
        leader_wins(Setup::small(seed)).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    let mut w = rested(Setup::small(75));
    let a = w.change(Op::Trim, 0, 400, false);
    w.wait(&[a]);
    scrubbed(&mut w);
    assert_eq!((w.counter("scrub_differing_blocks"), w.wrong), (0, None));
}
