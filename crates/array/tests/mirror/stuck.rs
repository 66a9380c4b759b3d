//! A leader of a hetero-mirror that fails one write again and again, while the other leg lacks what only the leader has.

use crate::harness::CREATE;
use crate::scenarios::until_pair;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::HeteroConfig;
use nandu_array::mirror::hetero::{AckMode, FlushMode};
use nandu_base::{ByteLen, ErrorKind, Op, OpenOptions, Span};

/// Leg b answers first, has come back, and is brought up to date for a quarter of a second.
fn resyncing(seed: u64, change: impl FnOnce(&mut HeteroConfig)) -> World {
    let mut setup = Setup::small(seed);
    (setup.slow, setup.slow_leg) = (100, A as u64);
    setup.config.common.resync_rate = ByteLen::mib(1);
    let mut w = World::new(setup.hetero(change));
    w.open(CREATE).expect("two blank legs");
    for first in (0..512).step_by(64) {
        let a = w.write(first, 64);
        w.wait(&[a]);
    }
    w.run(10_000);
    w.lose(B);
    for first in (0..512).step_by(64) {
        let a = w.write(first, 64);
        w.wait(&[a]);
    }
    w.back(B);
    until_pair(&mut w);
    assert_eq!((w.counter("leader_leg"), w.counter("stale_regions")), (A as u64, 4));
    w
}

/// The same, and a write that leg b alone has.
fn stuck(seed: u64, change: impl FnOnce(&mut HeteroConfig)) -> World {
    let mut w = resyncing(seed, change);
    w.disk(A).rejects.extend(440..448);
    let a = w.write(440, 8);
    w.wait(&[a]);
    assert!(w.is_ok(a), "leg b has it");
    w
}

fn error(w: &mut World, request: u64) -> Option<ErrorKind> {
    w.wait(&[request]);
    assert_eq!(w.wrong, None);
    w.answers[&request].error.map(|e| e.kind)
}

fn content(w: &mut World) -> Vec<u64> {
    let r = w.read(440, 8);
    assert_eq!(error(w, r), None);
    w.answers[&r].data.iter().map(|stamp| stamp.0).collect()
}

#[test]
fn nobody_waits_for_ever_and_the_leader_is_left_out_when_the_other_leg_has_everything() {
    for (seed, flush) in (0..20).flat_map(|seed| [(seed, FlushMode::AllLegs), (seed, FlushMode::Leader)]) {
        let mut w = stuck(seed, |h| h.flush_scope = flush);
        let f = w.flush();
        assert_eq!(error(&mut w, f), Some(ErrorKind::WriteFailed), "only leg b has it");
        let fua = w.change(Op::Write, 442, 2, true);
        assert_eq!(error(&mut w, fua), Some(ErrorKind::WriteFailed), "only leg b has it");
        let elsewhere = w.write(100, 8);
        assert_eq!(error(&mut w, elsewhere), None);
        let f = w.flush();
        assert_eq!(error(&mut w, f), Some(ErrorKind::WriteFailed), "still");
        assert!(w.counter("stale_regions") > 0, "the resync is under way");
        let was = content(&mut w);
        w.run(100_000);
        assert_eq!((w.counter("leg_a_is_member"), w.counter("leader_leg")), (0, B as u64));
        let f = w.flush();
        assert_eq!(error(&mut w, f), None, "leg b has everything");
        assert_eq!(content(&mut w), was);
        w.read_all();
        w.disk(A).rejects.clear();
        w.back(A);
        w.run(100_000);
        w.read_all();
        w.check_equal();
        assert_eq!((w.counter("lost_bytes"), w.wrong.clone()), (0, None));
    }
}

#[test]
fn a_leader_that_takes_it_at_last_goes_on() {
    let mut w = stuck(1, |_| ());
    let f = w.flush();
    assert_eq!(error(&mut w, f), Some(ErrorKind::WriteFailed));
    w.disk(A).rejects.clear();
    w.pass(Span::from_ms(20));
    let f = w.flush();
    assert_eq!(error(&mut w, f), None);
    w.run(100_000);
    w.read_all();
    w.check_equal();
    assert!(w.is_whole() && w.wrong.is_none(), "{:?}", w.wrong);
}

#[test]
fn a_close_ends_with_everything_on_the_leg_that_has_it() {
    for seed in 0..20 {
        let mut w = stuck(seed, |_| ());
        let was = content(&mut w);
        if seed % 2 == 0 {
            w.pass(Span::from_ms(seed));
        }
        w.close();
        assert_eq!(w.wrong, None);
        w.cut();
        w.disk(A).rejects.clear();
        w.open(OpenOptions::default()).expect("both legs");
        assert_eq!(w.counter("leader_leg"), B as u64);
        assert_eq!(content(&mut w), was);
        w.read_all();
        w.run(100_000);
        w.check_equal();
        assert_eq!(w.wrong, None);
    }
}

/// Neither leg can do without the other: what the leader does not take is on record as lost, and all else goes on.
#[test]
fn where_the_resync_cannot_end_what_the_leader_does_not_take_is_lost_and_on_record() {
    for closes in [false, true] {
        let mut w = stuck(1, |_| ());
        w.disk(A).bad.insert(20);
        w.may_lose = true;
        if closes {
            w.close();
            w.cut();
            w.open(OpenOptions::default()).expect("both legs");
        } else {
            w.pass(Span::from_ms(400));
            assert_eq!(w.counter("lost_bytes"), 4096);
            let f = w.flush();
            assert_eq!(error(&mut w, f), None, "it is on record");
        }
        let r = w.read(440, 8);
        assert_eq!(error(&mut w, r), Some(ErrorKind::Lost));
        let r = w.read(20, 1);
        assert_eq!(error(&mut w, r), Some(ErrorKind::Unreadable));
        w.disk(A).rejects.clear();
        for (first, count) in [(20, 1), (440, 8)] {
            let a = w.write(first, count);
            assert_eq!(error(&mut w, a), None);
        }
        w.run(100_000);
        w.read_all();
        w.check_equal();
        assert_eq!(w.wrong, None);
    }
}

/// Tries were counted for the leg, and began anew with each write that it took elsewhere.
#[test]
fn one_place_that_a_leg_does_not_take_is_enough_to_leave_it_out() {
    for seed in 0..10 {
        let mut setup = Setup::small(seed);
        setup.slow = 100;
        let ack = |h: &mut HeteroConfig| (h.write_ack, h.write_behind) = (AckMode::Leader, 1000);
        let mut w = World::new(setup.hetero(ack));
        w.open(CREATE).expect("two blank legs");
        for k in 0..2000 {
            if k == 200 {
                w.disk(B).rejects.insert(5);
                w.write(0, 8);
            }
            w.write(64 + 8 * (k % 50), 8);
            w.run(6);
        }
        assert_eq!((w.counter("leg_b_is_member"), w.counter("leg_b_write_errors")), (0, 2), "tried twice");
        let f = w.flush();
        assert_eq!(error(&mut w, f), None);
    }
}

/// The leader cannot return a sector and does not take it back, while the other leg, which has it, lacks other data.
#[test]
fn a_sector_that_cannot_be_repaired_does_not_cost_the_leader_during_a_resync() {
    for seed in 0..10 {
        let mut w = resyncing(seed, |_| ());
        for _ in 0..1000 {
            if w.counter("stale_regions") < 4 {
                break;
            }
            w.pass(Span::from_ms(1));
        }
        assert!((1..4).contains(&w.counter("stale_regions")), "the first region is copied, the last is not");
        w.disk(A).bad.insert(12);
        w.disk(A).rejects.insert(12);
        let errors = w.counter("leg_a_read_errors");
        for _ in 0..3 {
            let r = w.read(8, 8);
            assert_eq!(error(&mut w, r), None, "leg b has it");
            w.pass(Span::from_ms(20));
        }
        assert!(w.counter("leg_a_read_errors") > errors);
        assert!(w.counter("stale_regions") > 0 && w.is_whole());
        // When the other leg has everything, the leader is left out like any leg.
        w.run(100_000);
        let a = w.write(8, 8);
        assert_eq!(error(&mut w, a), None);
        w.run(10_000);
        assert_eq!((w.counter("leg_a_is_member"), w.counter("leader_leg")), (0, B as u64));
        w.read_all();
        assert_eq!(w.wrong, None);
    }
}
