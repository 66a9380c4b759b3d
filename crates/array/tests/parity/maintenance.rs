//! How a parity array is looked after: scrub, replacement, and what it says of itself.

use crate::harness::PLAIN;
use crate::scenarios::{done, figures, with_a_lost_sector, world};
use crate::world::{Setup, World};
use nandu_array::parity::WriteHole;
use nandu_array::scrub::OnMismatch;
use nandu_base::{Admin, AdminError, ByteLen, Health, Notice, OpenOptions, Span};

const SCRUB: Admin = Admin::Scrub { mends: Some(true) };

/// Three legs of 128 KiB, written, and nothing under way.
fn rested(change: impl FnOnce(&mut Setup)) -> World {
    let mut w = world(change);
    for first in [0, 100, 200, 300, 400] {
        let a = w.write(first, 90);
        done(&mut w, a);
    }
    w.run(100_000);
    w.check_parity();
    w
}

/// Begins a pass and waits for its end.
fn scrub(w: &mut World) -> Result<(), String> {
    let passes = w.counter("scrub_passes");
    w.admin(SCRUB).map_err(|e| e.to_string())?;
    w.run(200_000);
    if w.counter("scrub_passes") != passes + 1 {
        return Err("a pass does not end".into());
    }
    w.wrong.take().map_or(Ok(()), Err)
}

fn scrubbed(w: &mut World) {
    scrub(w).unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn why(result: Result<(), AdminError>) -> String {
    result.expect_err("refused").to_string()
}

fn healths(w: &World) -> Vec<Health> {
    let health = |n: &Notice| match n {
        Notice::Health(health) => Some(*health),
        _ => None,
    };
    w.notices.iter().filter_map(health).collect()
}

#[test]
fn a_scrub_of_even_legs_finds_nothing_and_keeps_its_rate() {
    for write_hole in [WriteHole::Journal, WriteHole::Resync] {
        let mut w = rested(|s| {
            s.config.write_hole = write_hole;
            s.config.scrub.rate = ByteLen::mib(1);
        });
        let before = w.now;
        scrubbed(&mut w);
        let took = w.now.since(before);
        assert!(took >= Span::from_ms(115) && took <= Span::from_ms(130), "128 KiB at 1 MiB/s took {took}");
        let names = ["scrubbed_bytes", "scrub_differing_blocks", "scrub_skipped_bytes"];
        assert_eq!(figures(&mut w, &names), [128 << 10, 0, 0]);
        assert!(w.notices.contains(&Notice::Scrubbed { differing: 0, unreadable: 0 }));
        w.check_parity();
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn a_scrub_comes_by_itself_and_can_be_stopped() {
    let mut w = rested(|s| s.config.scrub.interval = Span::from_ms(20));
    let before = w.counter("scrub_passes");
    w.pass(Span::from_ms(100));
    let passes = w.counter("scrub_passes") - before;
    assert!((4..=6).contains(&passes), "{passes} in 100 ms");
    let mut w = rested(|_| {});
    assert!(why(w.admin(Admin::StopScrub)).contains("no scrub"));
    assert!(why(w.admin(Admin::Lead(1))).contains("no such command"));
    w.admin(SCRUB).expect("begins");
    w.run(3);
    w.admin(Admin::StopScrub).expect("is under way");
    w.run(100_000);
    assert_eq!(figures(&mut w, &["scrub_is_active", "scrub_passes"]), [0, 0]);
    assert_eq!(w.wrong, None);
}

/// What a scrub leaves of a leg that has changed by itself: data stay, and the parity fits them.
fn data_stay(mut w: World) -> Result<(), String> {
    // Row 1 has its parity on leg b, row 2 on leg a.
    for (leg, first) in [(0, 9), (1, 10), (2, 12), (0, 17)] {
        w.corrupt(leg, first, 2);
    }
    let data = |w: &World| [(0, 9), (2, 12)].map(|(leg, at)| w.disk(leg).now(at).clone());
    let before = data(&w);
    scrub(&mut w)?;
    if data(&w) != before {
        return Err("scrub_mends_parity: a scrub has changed data".into());
    }
    assert_eq!(w.counter("scrub_differing_blocks"), 2, "two rows of one block each");
    assert!(w.counter("scrub_repaired_bytes") > 0);
    let differ = w.notices.iter().find(|n| matches!(n, Notice::Differ { .. }));
    assert!(differ.is_some_and(|n| format!("{n:?}").contains("mends: true")), "{differ:?}");
    w.check_parity();
    scrub(&mut w)?;
    assert_eq!(w.counter("scrub_differing_blocks"), 2, "nothing more");
    w.wrong.take().map_or(Ok(()), Err)
}

#[test]
fn a_silent_difference_is_reported_counted_and_the_data_win() {
    data_stay(rested(|_| {})).expect("data stay");
}

#[test]
fn with_report_nothing_is_written() {
    let mut w = rested(|s| {
        s.config.scrub.on_mismatch = OnMismatch::Check;
        s.config.scrub.interval = Span::from_ms(10);
    });
    w.corrupt(1, 30, 20);
    let odd = w.odd();
    w.pass(Span::from_ms(15));
    assert!(w.counter("scrub_differing_blocks") >= 3 && w.counter("scrub_repaired_bytes") == 0);
    assert!(odd.is_some() && w.odd() == odd);
    assert_eq!(w.wrong, None);
}

#[test]
fn what_one_leg_cannot_return_is_found_and_repaired_by_a_scrub() {
    let mut w = rested(|_| {});
    w.disk(0).bad.extend([12, 40]);
    w.disk(1).bad.extend([13, 80, 83]); // 12 and 13 lie in one block
    w.disk(2).bad.insert(83); // nobody can make it
    scrubbed(&mut w);
    w.run(100_000);
    assert_eq!(
        figures(&mut w, &["scrub_unreadable_blocks", "scrub_differing_blocks", "full_legs"]),
        [1, 0, 3]
    );
    let bad = |leg: usize| w.disk(leg).bad.iter().copied().collect::<Vec<_>>();
    assert_eq!((bad(0), bad(1), bad(2)), (vec![], vec![83], vec![83]));
    assert!(w.notices.contains(&Notice::Scrubbed { differing: 0, unreadable: 1 }));
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// Leg a stands still while the scrub reads it. A write of another chunk of the row needs that chunk and the parity only.
#[test]
fn a_write_does_not_wait_for_a_scrub_of_a_frozen_leg() {
    let mut w = rested(|s| s.config.legs = ["a", "b", "c", "d", "e"].map(String::from).to_vec());
    w.freeze(0, Span::from_ms(500));
    w.admin(SCRUB).expect("all legs are there");
    w.pass(Span::from_us(50));
    let before = w.now;
    let a = w.write(8, 8);
    w.wait(&[a]);
    assert!(w.now.since(before) < Span::from_us(100), "two legs are enough");
    w.run(200_000);
    assert_eq!(figures(&mut w, &["scrub_passes", "scrub_differing_blocks"]), [1, 0]);
    w.check_parity();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_scrub_waits_for_a_rebuild_and_goes_on_after_it() {
    let mut w = rested(|s| s.config.rebuild_rate = ByteLen::mib(1));
    w.admin(SCRUB).expect("begins");
    w.run(5);
    w.lose(1);
    let a = w.write(0, 500);
    done(&mut w, a);
    assert_eq!(w.counter("scrub_is_active"), 1);
    w.back(1);
    w.run(300_000);
    assert_eq!(figures(&mut w, &["scrub_passes", "scrub_differing_blocks"]), [1, 0]);
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// What is lost does not xor to zero, and is not compared; nor is the other leg, which reads again, mended from it.
fn lost_is_left_out(mut w: World) -> Result<(), String> {
    w.disk(0).bad.clear();
    w.admin(SCRUB).map_err(|e| e.to_string())?;
    // It is tried each second: the pass is over by then.
    w.pass(Span::from_ms(100));
    w.wrong.take().map_or(Ok(()), Err)?;
    assert_eq!(
        figures(&mut w, &["scrub_passes", "scrub_skipped_bytes", "scrubbed_bytes"]),
        [1, 4096, 124 << 10]
    );
    w.run(2000);
    w.read_all();
    w.check_parity();
    w.wrong.take().map_or(Ok(()), Err)
}

#[test]
fn lost_sectors_are_left_out() {
    let w = with_a_lost_sector(|_| {});
    assert_eq!(w.graph().members(3).and_then(|of| of.health()), Some(Health::Degraded));
    lost_is_left_out(w).expect("nothing differs");
}

/// The power is cut at any step of a mend: each sector is as it was, or right.
#[test]
fn a_cut_mend_leaves_every_sector_as_it_was_or_right() {
    for n in 1.. {
        let mut w = rested(|_| {});
        w.corrupt(0, 8, 8); // data of row 1, whose parity is on leg b
        let was: Vec<_> = (8..16).map(|s| w.disk(1).now(s).clone()).collect();
        w.fuse = Some(n);
        w.admin(SCRUB).expect("all legs are there");
        w.run(20_000);
        let ended = !w.is_over();
        w.cut();
        w.open(PLAIN).expect("all legs are there");
        w.run(20_000);
        let mut whole = rested(|_| {});
        whole.corrupt(0, 8, 8);
        scrubbed(&mut whole);
        for (s, was) in (8..16).zip(&was) {
            let is_right = w.disk(1).now(s) == whole.disk(1).now(s);
            assert!(is_right || w.disk(1).now(s) == was, "sector {s}, cut after {n} events");
        }
        if ended {
            break;
        }
    }
}

#[test]
fn a_replaced_leg_is_rebuilt_at_its_rate_and_the_old_one_is_refused() {
    let mut w = rested(|s| s.config.rebuild_rate = ByteLen::kib(512));
    w.replace(1, "a blank one").expect("all legs are full");
    let before = w.now;
    w.run(100_000);
    let took = w.now.since(before);
    assert!(took >= Span::from_ms(200) && took <= Span::from_ms(280), "128 KiB at 512 KiB/s took {took}");
    assert_eq!(healths(&w), [Health::Degraded, Health::Healthy]);
    w.check_parity();
    let a = w.write(5, 60);
    done(&mut w, a);
    w.cut();
    // The stack file still names the old file.
    w.disks[1] = w.removed.take().expect("it was replaced");
    w.disk(1).orphan();
    let error = w.open(PLAIN).expect_err("an old leg");
    assert!(error.to_string().contains("`b` is old"), "{error}");
    w.cut();
    w.disk(1).lost = true;
    w.open(PLAIN).expect("the others are current");
    w.read_all();
    // Once it was left out it is rebuilt like any other.
    w.back(1);
    w.run(100_000);
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// A leg that is needed is not replaced.
fn needed_stays(mut w: World) -> Result<(), String> {
    w.lose(0);
    w.run(10_000);
    if w.admin(Admin::Replace(1)).is_ok() {
        return Err("no_replacement_of_what_is_needed: leg b is replaced while leg a is missing".into());
    }
    assert!(why(w.admin(Admin::Replace(1))).contains("`a` is missing or not rebuilt"));
    w.admin(Admin::Replace(0)).expect("the others are full");
    w.wrong.take().map_or(Ok(()), Err)
}

#[test]
fn a_leg_that_is_needed_is_not_replaced() {
    needed_stays(rested(|_| {})).expect("refused");
    let mut w = with_a_lost_sector(|_| {});
    assert!(why(w.admin(Admin::Replace(0))).contains("sectors of `b` are lost"));
    w.admin(Admin::Replace(1)).expect("what it has lost it cannot lose again");
    let mut w = rested(|_| {});
    w.lose(0);
    w.lose(1);
    assert!(why(w.admin(SCRUB)).contains("too few legs"));
    assert_eq!(healths(&w), [Health::Degraded, Health::Failed]);
}

/// What comes in place of a replaced leg must be blank.
fn blank_or_refused(mut w: World) -> Result<(), String> {
    w.admin(Admin::Replace(1)).expect("all legs are full");
    w.run(10_000);
    w.back(1);
    w.run(100_000);
    if w.counter("full_legs") != 2 {
        return Err("replaced_leg_is_blank: one with records is taken".into());
    }
    assert_eq!(w.counter("legs_refused"), 1);
    assert!(w.notices.contains(&Notice::Refused(1)));
    // Named again without that word it is rebuilt like any other.
    w.lose(1);
    w.back(1);
    w.run(100_000);
    w.check_parity();
    w.wrong.take().map_or(Ok(()), Err)
}

#[test]
fn a_leg_with_records_is_refused_where_a_blank_one_was_announced() {
    blank_or_refused(rested(|_| {})).expect("refused");
}

/// The power is cut at any step of a replacement, and whichever leg is there afterwards, nothing is lost.
#[test]
fn a_cut_replacement_loses_nothing() {
    for n in 1.. {
        let mut w = rested(|_| {});
        w.fuse = Some(n);
        w.replace(2, "a blank one").expect("all legs are full");
        let a = w.write(7, 40);
        w.run(20_000);
        let ended = !w.is_over();
        assert!(!ended || w.is_ok(a));
        w.cut();
        w.open(OpenOptions { create: true, ..PLAIN }).unwrap_or_else(|e| panic!("cut after {n} events: {e}"));
        w.run(100_000);
        w.read_all();
        w.run(100_000);
        w.check_parity();
        assert_eq!(w.wrong, None, "cut after {n} events");
        if ended {
            break;
        }
    }
}

/// What the story of a planted fault shows.
pub fn finds(plant: &str) -> Option<String> {
    let planted = |s: &mut Setup| *s = s.clone().plant(plant);
    let rested = || rested(planted);
    let mut stories =
        [data_stay as fn(World) -> Result<(), String>, needed_stays, blank_or_refused].into_iter();
    stories
        .find_map(|story| story(rested()).err())
        .or_else(|| lost_is_left_out(with_a_lost_sector(planted)).err())
}
