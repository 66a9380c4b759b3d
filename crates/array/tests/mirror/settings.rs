//! Options beside maintenance: regions declared ahead, requests under way on a leg, who leads.

use crate::maintenance::{made, rested};
use crate::scenarios::{quiet, written};
use crate::world::{A, B, Setup};
use nandu_array::mirror::Failback;
use nandu_array::mirror::hetero::FlushMode;
use nandu_base::{ByteLen, Span};

/// Writes that waited for a record in a sequential stream over 48 regions, in steps of half a region.
fn waits_of_stream(mark_ahead: u32) -> u64 {
    let mut setup = Setup::small(71);
    setup.data = ByteLen::mib(3);
    setup.config.common.mark_ahead = mark_ahead;
    setup.config.common.max_dirty_regions = 64;
    let mut w = made(setup);
    let before = w.counter("intent_waits");
    for k in 0..96 {
        let a = w.write(k * 64, 64);
        w.wait(&[a]);
    }
    let waits = w.counter("intent_waits") - before;
    quiet(&mut w);
    waits
}

#[test]
fn regions_ahead_of_a_stream_are_declared() {
    assert_eq!(waits_of_stream(0), 48, "each first touch of a region waits");
    assert!(waits_of_stream(8) <= 2, "the stream begins, and no later write waits");
}

#[test]
fn a_leg_gets_as_many_requests_as_it_may() {
    let mut setup = Setup::small(72).hetero(|_| ());
    setup.config.common.leg_queue_depth = vec![3, 1];
    let mut w = rested(setup);
    let mut most = [0; 2];
    for round in 0..4 {
        let mut all: Vec<u64> = (0..12).map(|k| w.write(k * 40, 8)).collect();
        all.extend((0..12).map(|k| w.read(k * 40 + 20, 8)));
        if round == 2 {
            w.lose(B);
        }
        // What waits for a leg that is lost goes there at once, to end.
        for _ in 0..if round == 2 { 0 } else { 40 } {
            for leg in [A, B] {
                most[leg] = most[leg].max(w.disk(leg).data_under_way());
            }
            w.step();
        }
        w.wait(&all);
        if round == 2 {
            w.back(B);
            w.run(10_000);
        }
    }
    assert_eq!(most[A], 3);
    assert_eq!(most[B], 1);
    assert!(w.counter("leg_a_depth_waits") > 0 && w.counter("leg_b_depth_waits") > 0);
    quiet(&mut w);
}

#[test]
fn wrong_options_of_maintenance_are_named() {
    let wrong = |change: &dyn Fn(&mut nandu_array::mirror::MirrorConfig)| {
        let mut setup = Setup::small(74);
        change(&mut setup.config);
        crate::options::refused_options(&setup.config)
    };
    assert!(wrong(&|c| c.common.scrub.interval = Span(1)).starts_with("scrub.interval: "));
    assert!(wrong(&|c| c.common.scrub.rate = ByteLen(512)).starts_with("scrub.rate: 512 B is out of bounds"));
    assert!(wrong(&|c| c.common.mark_ahead = 65).starts_with("mark_ahead"));
    assert!(wrong(&|c| c.common.leg_queue_depth = vec![1, 70_000]).starts_with("leg_queue_depth"));
}

/// Mean time of a write of 32 KiB in a sequential stream over 48 regions, by `mark_ahead`; leg b takes 20 times as long.
fn stream_mean(mark_ahead: u32) -> u64 {
    let mut setup = Setup::small(80).hetero(|h| h.flush_scope = FlushMode::Leader);
    setup.slow = 20;
    setup.data = ByteLen::mib(3);
    setup.config.common.mark_ahead = mark_ahead;
    setup.config.common.max_dirty_regions = 64;
    let mut w = made(setup);
    let mut sum = 0;
    for k in 0..96 {
        let before = w.now;
        let a = w.write(k * 64, 64);
        w.wait(&[a]);
        sum += w.now.since(before).0;
    }
    assert_eq!(w.wrong, None);
    sum / 96
}

/// Mean time of a write and a flush in marked regions after the fast leg was away, by `failback`; leg b takes 100 times as long.
fn durable_mean(failback: Failback) -> u64 {
    let mut setup = Setup::small(81).hetero(|h| h.flush_scope = FlushMode::Leader);
    setup.slow = 100;
    setup.config.common.failback = failback;
    setup.config.common.bitmap_delay = Span::from_secs(60);
    let mut w = made(setup);
    w.lose(A);
    written(&mut w, 0, 50);
    w.back(A);
    w.pass(Span::from_ms(100));
    assert!(w.is_whole() && w.counter("stale_regions") == 0);
    written(&mut w, 0, 8);
    let before = w.now;
    for k in 0..50 {
        written(&mut w, k, 8);
    }
    assert_eq!(w.wrong, None);
    w.now.since(before).0 / 50
}

/// The most requests for data that leg b had at once, and the time until 200 writes were on both legs, by its depth.
fn burst(depth: u32) -> (usize, u64) {
    let mut setup = Setup::small(82);
    setup.config.common.leg_queue_depth = vec![0, depth];
    let mut w = rested(setup);
    let before = w.now;
    let mut most = 0;
    for round in 0..20 {
        let all: Vec<u64> = (0..10).map(|k| w.write(k * 50 + round, 4)).collect();
        while all.iter().any(|id| !w.answers.contains_key(id)) {
            most = most.max(w.disk(B).data_under_way());
            assert!(w.step());
        }
    }
    assert_eq!(w.wrong, None);
    (most, w.now.since(before).0)
}

/// What docs/experiments/served-mirror.md says of the knobs.
#[test]
fn each_knob_changes_what_it_says() {
    let streams = [0, 1, 8].map(stream_mean);
    println!("mark_ahead 0, 1, 8: {streams:?} ns for a sequential write");
    assert!(streams[0] > streams[1] && streams[1] >= streams[2]);
    let durable = [Failback::Manual, Failback::Immediate].map(durable_mean);
    println!("failback manual, immediate: {durable:?} ns for a write and a flush");
    assert!(durable[0] > 10 * durable[1], "with the slow leg in the lead every flush waits for it");
    let bursts = [0, 4, 1].map(burst);
    println!("leg_queue_depth 0, 4, 1: {bursts:?} requests at once at leg b, ns for 200 writes");
    assert_eq!(bursts.map(|b| b.0)[1..], [4, 1]);
    assert!(bursts[0].0 > 4 && bursts[0].1 < bursts[2].1);
}
