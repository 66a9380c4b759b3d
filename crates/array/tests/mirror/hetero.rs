//! Single stories of a hetero-mirror: who lags, who freezes, what is exposed.

use crate::harness::CREATE;
use crate::scenarios::quiet;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::HeteroConfig;
use nandu_array::mirror::hetero::{
    AckMode, DelayOrder, FlushMode, HoldMode, Manager, OnLimit, WaitBasis, WaitLimit,
};
use nandu_base::{ByteLen, Op, Ratio, Span, Stamp};

fn made(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("two blank legs become a mirror");
    w
}

/// Leg b is 100 times slower.
fn slow(change: impl FnOnce(&mut HeteroConfig)) -> Setup {
    let mut setup = Setup::small(1);
    setup.slow = 100;
    setup.config.common.bitmap_delay = Span::from_secs(5);
    setup.hetero(change)
}

/// Has the region of `first` marked, so that a write there waits for no record.
fn marked(w: &mut World, first: u64) {
    let a = w.write(first, 1);
    w.wait(&[a]);
    w.pass(Span::from_us(500));
}

fn took(w: &mut World, request: u64) -> u64 {
    let before = w.now.0;
    w.wait(&[request]);
    w.now.0 - before
}

#[test]
fn a_write_is_answered_by_the_faster_leg_and_read_where_it_is() {
    let mut w = made(slow(|_| ()));
    marked(&mut w, 0);
    let a = w.write(0, 8);
    assert!(took(&mut w, a) <= 1001, "leg a takes 1 us at most, leg b 100 us");
    let r = w.read(0, 8);
    w.wait(&[r]);
    assert_eq!(w.answers[&r].data[3].sector(), 3);
    assert_eq!(w.counter("leg_b_reads"), 0);
    quiet(&mut w);
}

#[test]
fn with_ack_both_nothing_is_delayed() {
    let mut w = made(slow(|h| h.write_ack = AckMode::Both));
    for first in [0, 3, 6] {
        let a = w.write(first, 8);
        w.wait(&[a]);
    }
    assert_eq!((w.counter("early_acks"), w.counter("delayed_bytes"), w.counter("leg_b_delays")), (0, 0, 0));
    quiet(&mut w);
}

#[test]
fn behind_the_leader_is_at_most_write_behind() {
    let mut w = made(slow(|h| (h.write_ack, h.write_behind) = (AckMode::Leader, 2)));
    marked(&mut w, 0);
    w.freeze(B, Span::from_ms(1));
    for first in [0, 8] {
        let a = w.write(first, 8);
        assert!(took(&mut w, a) <= 1001, "the leader has it");
    }
    let a = w.write(16, 8);
    assert!(took(&mut w, a) > 100_000, "two are behind already: both legs are waited for");
    assert_eq!((w.counter("leg_b_delays"), w.counter("writes_over_wait_limit")), (0, 0));
    quiet(&mut w);
    // A leader that is frozen is waited for: this is no mirror that takes whoever is faster.
    w.freeze(A, Span::from_us(500));
    let a = w.write(0, 8);
    assert!(took(&mut w, a) > 400_000);
    quiet(&mut w);
}

/// Leg b freezes for a while and is delayed, with writes waiting for it.
fn delay_b(w: &mut World) {
    marked(w, 0);
    w.freeze(B, Span::from_us(500));
    for n in 0..28 {
        let a = w.write(16 * n, 8);
        w.wait(&[a]);
        w.pass(Span::from_us(3));
    }
    assert_eq!(w.counter("leg_b_is_delayed"), 1);
}

/// The most writes of data that leg b has under way at once until its queue is empty.
fn widest(w: &mut World) -> usize {
    let mut most = w.disk(B).data_under_way();
    while w.counter("leg_b_queue_bytes") > 0 {
        assert!(w.step(), "nothing drains the queue");
        most = most.max(w.disk(B).data_under_way());
    }
    most
}

#[test]
fn a_queue_goes_as_wide_as_the_leg_takes_while_somebody_waits_for_it() {
    let mut w = made(slow(|_| ()));
    delay_b(&mut w);
    assert!(widest(&mut w) <= 5, "`delay_depth` in the background, and the write that is late");

    let mut w = made(slow(|_| ()));
    delay_b(&mut w);
    let f = w.flush();
    assert!(widest(&mut w) > 8, "a flush waits");
    w.wait(&[f]);
    quiet(&mut w);

    let mut w = made(slow(|_| ()));
    delay_b(&mut w);
    let a = w.change(Op::Write, 4, 4, true);
    assert!(widest(&mut w) > 8, "a write that is to be durable waits");
    w.wait(&[a]);
    quiet(&mut w);

    let mut w = made(slow(|_| ()));
    delay_b(&mut w);
    w.begin_close();
    assert!(widest(&mut w) > 8, "a stop waits");

    let mut w = made(slow(|h| h.max_exposed_time = Span::from_ms(1)));
    delay_b(&mut w);
    assert!(widest(&mut w) > 8, "half of the bound on the age is over");
    quiet(&mut w);

    let mut setup = slow(|h| h.delay_order = DelayOrder::Elevator);
    setup.config.common.leg_queue_depth = vec![0, 6];
    let mut w = made(setup);
    delay_b(&mut w);
    w.flush();
    assert_eq!(widest(&mut w), 6, "what the stack file gives the leg is all that it takes");
    quiet(&mut w);

    let mut w = made(slow(|h| h.delay_order = DelayOrder::Fifo));
    delay_b(&mut w);
    w.flush();
    assert!(widest(&mut w) <= 2, "the order of the paper is one by one");
    quiet(&mut w);
}

#[test]
fn a_write_that_a_frozen_leg_holds_overtakes_the_queue_of_the_other() {
    let span = |write_hedge| {
        let mut w = made(slow(|h| {
            (h.write_hedge, h.delay_order, h.delay_depth) = (write_hedge, DelayOrder::Fifo, Some(1))
        }));
        delay_b(&mut w);
        w.freeze(A, Span::from_ms(50));
        let a = w.write(8, 4);
        let span = took(&mut w, a);
        let hedges = w.counter("writes_hedged");
        quiet(&mut w);
        (span, hedges)
    };
    let ((late, none), (early, one)) = (span(false), span(true));
    assert_eq!((none, one), (0, 1));
    assert!(early * 4 < late, "{early} ns with, {late} ns without");
}

#[test]
fn the_ratio_of_the_legs_is_counted_where_both_had_a_write_at_once() {
    let mut w = made(slow(|h| h.write_ack = AckMode::Both));
    marked(&mut w, 0);
    let before = w.counter("leg_b_slower");
    for first in [0, 8, 16] {
        let a = w.write(first, 8);
        w.wait(&[a]);
    }
    let [all, many] = ["leg_b_slower", "leg_b_slower_32x"].map(|name| w.counter(name));
    assert_eq!(all - before, 3);
    assert!(many >= 3, "leg a takes 1 us at most, leg b 100 us at least");
    assert_eq!(w.counter("leg_a_slower_2x"), 0);
    assert!(w.counter("leg_b_slower_most_thousandths") >= 32_000);
    quiet(&mut w);
}

#[test]
fn past_the_wait_limit_a_leg_is_delayed_and_later_in_step_again() {
    for wait_limit in [WaitLimit::Ratio, WaitLimit::Quantile] {
        let mut w = made(slow(|h| h.wait_limit = wait_limit));
        marked(&mut w, 0);
        w.freeze(B, Span::from_us(500));
        for _ in 0..80 {
            let a = w.write(2, 4);
            w.wait(&[a]);
            w.pass(Span::from_us(3));
        }
        assert_eq!(w.counter("leg_b_is_delayed"), 1);
        assert!(w.counter("delayed_bytes") > 0);
        quiet(&mut w);
        assert_eq!(w.counter("leg_b_is_delayed"), 0);
        assert!(w.counter("leg_b_delayed_ns") > 100_000);
    }
}

/// How long a write takes while leg b is frozen, and how many were over the limit.
fn answered(change: impl FnOnce(&mut HeteroConfig)) -> (u64, u64) {
    let mut w = made(slow(change));
    marked(&mut w, 0);
    w.freeze(B, Span::from_ms(1));
    let before = w.counter("writes_over_wait_limit");
    let a = w.write(0, 8);
    let answer = (took(&mut w, a), w.counter("writes_over_wait_limit") - before);
    quiet(&mut w);
    answer
}

/// S1-14, O1-2 and O1-16: to the nanosecond. Leg a takes the same time in each of these worlds.
#[test]
fn the_limit_of_ack_wait_limit_is_kept() {
    let limit = |change: fn(&mut HeteroConfig)| {
        answered(|h| {
            h.write_ack = AckMode::WaitLimit;
            change(h);
        })
    };
    let (first, _) = answered(|h| h.write_ack = AckMode::First);
    assert!((200..=1001).contains(&first), "{first} ns");
    assert_eq!(limit(|_| ()), (first + first * 13 / 10, 1), "1.3 times more");
    assert_eq!(limit(|h| h.wait_ratio = Ratio::new(3, 1)), (4 * first, 1));
    assert_eq!(limit(|h| h.wait_ratio_basis = WaitBasis::Total), (first * 13 / 10, 1), "1.3 times in all");
    assert_eq!(limit(|h| h.wait_min = Span::from_us(5)), (first + 5000, 1), "a floor above 1.3 times");
    assert_eq!(limit(|h| h.wait_min = Span(10)), (first + first * 13 / 10, 1), "a floor below it");
}

/// O1-16: a leg that says that it collects is delayed before it is late, and directly written when it says so no more.
#[test]
fn with_gc_hint_a_leg_under_pressure_is_delayed_before_it_is_late() {
    for (wait_limit, hears) in [(WaitLimit::GcHint, true), (WaitLimit::Ratio, false)] {
        // Legs alike, and time enough for both: no write is over the limit.
        let mut w =
            made(Setup::small(1).hetero(|h| (h.wait_limit, h.wait_min) = (wait_limit, Span::from_ms(10))));
        marked(&mut w, 0);
        w.press(B, true);
        for first in [0, 8, 16] {
            let a = w.write(first, 8);
            w.wait(&[a]);
        }
        let delays = [A, B].map(|leg| w.counter(["leg_a_delays", "leg_b_delays"][leg]) > 0);
        assert_eq!((delays, w.counter("delayed_bytes") > 0), ([false, hears], hears), "{wait_limit:?}");
        w.press(B, false);
        quiet(&mut w);
        assert_eq!((w.counter("leg_b_is_delayed"), w.counter("writes_over_wait_limit")), (0, 0));
        let before = w.counter("delayed_bytes");
        let a = w.write(0, 8);
        w.wait(&[a]);
        assert_eq!(w.counter("delayed_bytes"), before, "{wait_limit:?}: it is written directly again");
        quiet(&mut w);
    }
}

/// O1-8: what waits for leg b when it is written directly again.
#[test]
fn a_leg_is_in_step_again_below_resume_below() {
    let left = |resume_below: u64| {
        let mut w =
            made(slow(|h| (h.resume_below, h.delay_depth) = (Some(ByteLen::kib(resume_below)), Some(1))));
        delay_b(&mut w);
        while w.counter("leg_b_is_delayed") == 1 {
            assert!(w.step(), "it is never in step again");
        }
        let left = w.counter("leg_b_queue_bytes");
        quiet(&mut w);
        left >> 10
    };
    assert_eq!(left(0), 0, "when the queue is empty");
    let (some, more) = (left(24), left(80));
    assert!((1..24).contains(&some) && (24..80).contains(&more), "{some} and {more} KiB");
}

#[test]
fn with_wait_limit_a_write_to_a_delayed_leg_is_answered_by_the_direct_one() {
    let mut w = made(slow(|h| {
        (h.write_ack, h.delay_order, h.delay_depth) = (AckMode::WaitLimit, DelayOrder::Fifo, Some(1))
    }));
    marked(&mut w, 0);
    w.freeze(B, Span::from_ms(1));
    let a = w.write(0, 8);
    w.wait(&[a]);
    assert_eq!(w.counter("leg_b_is_delayed"), 1);
    // Leg b still lacks what was acknowledged: the write waits in its queue, which is no reason to wait.
    let early = w.counter("early_acks");
    let a = w.write(16, 8);
    assert!(took(&mut w, a) <= 1001, "leg a takes 1 us at most, leg b is frozen");
    assert_eq!(w.counter("early_acks"), early + 1);
    quiet(&mut w);
}

#[test]
fn a_leg_with_a_critical_backlog_changes_places_with_the_delayed_one() {
    let span = |critical_backlog| {
        let mut w = made(slow(|h| {
            (h.critical_backlog, h.delay_order, h.delay_depth) = (critical_backlog, DelayOrder::Fifo, Some(1))
        }));
        delay_b(&mut w);
        w.pass(Span::from_us(600));
        w.freeze(A, Span::from_ms(50));
        let writes: Vec<u64> = (0..6).map(|n| w.write(16 * n + 8, 4)).collect();
        let span = took(&mut w, writes[5]);
        let reliefs = w.counter("backlog_reliefs");
        quiet(&mut w);
        (span, reliefs)
    };
    let ((late, none), (early, one)) = (span(0), span(4));
    assert_eq!((none, one), (0, 1));
    assert!(early * 4 < late, "{early} ns with, {late} ns without");
}

#[test]
fn an_elevator_joins_what_a_fifo_writes_one_by_one() {
    let drained = |delay_order| {
        let mut w = made(slow(|h| (h.delay_order, h.delay_depth) = (delay_order, Some(1))));
        marked(&mut w, 0);
        w.freeze(B, Span::from_us(900));
        for first in [40, 8, 32, 16, 24, 8, 40] {
            let a = w.write(first, 8);
            w.wait(&[a]);
            w.pass(Span::from_us(2));
        }
        quiet(&mut w);
        (w.counter("drained_writes"), w.counter("drained_pieces"))
    };
    let (fifo, sweep) = (drained(DelayOrder::Fifo), drained(DelayOrder::Elevator));
    assert_eq!(fifo.0, fifo.1);
    assert!(sweep.0 < sweep.1 && sweep.0 < fifo.0, "fifo {fifo:?}, elevator {sweep:?}");
}

#[test]
fn a_flush_in_fast_leg_mode_does_not_wait_for_the_slow_leg() {
    let flush = |flush| {
        let mut w = made(slow(|h| h.flush_scope = flush));
        marked(&mut w, 0);
        w.pass(Span::from_us(100));
        w.freeze(B, Span::from_ms(2));
        let a = w.write(0, 8);
        w.wait(&[a]);
        let f = w.flush();
        let span = took(&mut w, f);
        quiet(&mut w);
        span
    };
    let fast = flush(FlushMode::Leader);
    assert!(fast <= 1001, "{fast} ns");
    assert!(flush(FlushMode::AllLegs) > 1_900_000, "a strict flush is what both legs have");
}

#[test]
fn a_frozen_leader_stops_neither_writes_nor_reads() {
    let mut w = made(slow(|h| h.hedge_after = Span::from_us(50)));
    marked(&mut w, 0);
    let old = w.write(60, 4);
    w.wait(&[old]);
    w.pass(Span::from_ms(1));
    marked(&mut w, 0);
    w.freeze(A, Span::from_ms(20));
    let a = w.write(0, 8); // by the follower
    let span = took(&mut w, a);
    assert!(span < 200_000, "the write takes {span} ns");
    let r = w.read(60, 4); // sent to the leader, then to the follower
    let span = took(&mut w, r);
    assert!(span < 300_000, "the read takes {span} ns");
    let r = w.read(2, 4); // the leader lacks it
    let span = took(&mut w, r);
    assert!(span < 300_000, "the read takes {span} ns");
    assert!(w.counter("reads_hedged") >= 1);
    w.freeze(A, Span(0));
    quiet(&mut w);
}

#[test]
fn with_degrade_a_single_write_waits_for_a_frozen_leg_no_longer_than_the_bound() {
    for (leg, fua, flush) in [A, B].into_iter().flat_map(|leg| {
        [false, true].into_iter().flat_map(move |fua| {
            [FlushMode::AllLegs, FlushMode::Leader].into_iter().map(move |flush| (leg, fua, flush))
        })
    }) {
        let mut w = made(slow(|h| {
            (h.flush_scope, h.on_limit) = (flush, OnLimit::Degrade);
            h.max_exposed_time = Span::from_ms(1);
        }));
        marked(&mut w, 0);
        w.pass(Span::from_ms(9));
        w.freeze(leg, Span::from_ms(200));
        let before = w.now.0;
        let a = w.change(Op::Write, 0, 4, fua);
        w.wait(&[a]);
        if !fua {
            let f = w.flush();
            w.wait(&[f]);
        }
        let span = w.now.0 - before;
        assert!(span < 5_000_000, "leg {leg}, fua {fua}: {span} ns");
        w.pass(Span::from_ms(5));
        assert_eq!(w.counter("degrades"), 1, "leg {leg}, fua {fua}");
        quiet(&mut w);
        assert!(w.is_whole());
    }
}

#[test]
fn a_read_past_a_frozen_leader_is_put_together_from_the_other_leg_and_its_queue() {
    let mut w = made(slow(|h| h.hedge_after = Span::from_us(200)));
    let a = w.write(0, 16);
    w.wait(&[a]);
    w.pass(Span::from_ms(1));
    w.freeze(B, Span::from_ms(3));
    let a = w.write(4, 4); // the leader has it, the other leg's share is in its queue
    w.wait(&[a]);
    w.freeze(A, Span::from_ms(50));
    let r = w.read(0, 16);
    let span = took(&mut w, r);
    assert!(span < 5_000_000, "the read takes {span} ns");
    let before = w.counter("reads_hedged");
    for first in [0, 2, 6, 12] {
        let r = w.read(first, 4);
        let span = took(&mut w, r);
        assert!(span < 1_000_000, "the read at {first} takes {span} ns");
    }
    assert_eq!(w.counter("reads_hedged"), before, "a silent leg is not asked first");
    w.freeze(A, Span(0));
    quiet(&mut w);
}

#[test]
fn a_leg_that_is_late_for_too_long_is_left_out_and_taken_back() {
    for leg in [A, B] {
        let mut w = made(slow(|h| {
            h.max_exposed_time = Span::from_ms(1);
            h.on_limit = OnLimit::Degrade;
        }));
        marked(&mut w, 0);
        w.freeze(leg, Span::from_ms(10));
        let a = w.write(0, 8);
        w.wait(&[a]);
        let f = w.flush();
        let span = took(&mut w, f);
        assert!(span < 3_000_000, "leg {leg} is frozen for 10 ms, the flush takes {span} ns");
        assert_eq!((w.counter("degrades"), w.counter("degraded_transitions")), (1, 1));
        assert_eq!(w.counter("leader_leg"), 1 - leg as u64);
        quiet(&mut w);
        assert!(w.is_whole(), "it rejoins by itself when its requests have ended");
    }
}

#[test]
fn writes_wait_when_too_much_is_exposed() {
    let mut setup = slow(|h| {
        h.max_exposed_bytes = ByteLen::kib(64);
        h.max_exposed_time = Span::from_secs(3600);
    });
    setup.data = ByteLen::mib(1);
    let mut w = made(setup);
    (0..16).for_each(|region| marked(&mut w, region * 128));
    w.freeze(B, Span::from_ms(5));
    let all: Vec<u64> = (0..40).map(|i| w.write(i * 40, 16)).collect();
    let end = w.now.0 + 4_000_000;
    while w.now.0 < end && w.step() {
        assert!(w.counter("exposed_bytes") <= 64 << 10);
    }
    let answered = all.iter().filter(|a| w.answers.contains_key(a)).count();
    assert!((4..=8).contains(&answered), "{answered} of 8 KiB each are answered");
    w.wait(&all);
    assert!(w.counter("exposure_waits") > 0);
    quiet(&mut w);
    assert_eq!(w.counter("exposed_bytes"), 0);
}

#[test]
fn what_is_old_is_flushed_on_both_legs_although_nobody_asks() {
    let setup = slow(|h| h.max_exposed_time = Span::from_ms(2));
    let mut w = made(setup);
    let a = w.write(0, 8);
    w.wait(&[a]);
    while w.counter("exposed_bytes") > 0 {
        assert!(w.step(), "nothing flushes");
    }
    assert!(w.now.0 < 2_000_000, "{}", w.now);
    assert!([A, B].iter().all(|&leg| w.disk(leg).unflushed().is_none()));
}

#[test]
fn a_read_over_what_each_leg_lacks_is_split() {
    let mut w = made(slow(|h| h.delay_depth = Some(1)));
    marked(&mut w, 0);
    w.freeze(B, Span::from_us(300));
    let a = w.write(0, 4);
    w.wait(&[a]);
    w.freeze(A, Span::from_ms(1));
    w.pass(Span::from_us(320)); // leg b is back
    let b = w.write(8, 4);
    w.wait(&[b]);
    w.freeze(B, Span::from_ms(1));
    let c = w.write(4, 2);
    let r = w.read(0, 16);
    w.wait(&[c, r]);
    assert!(w.is_ok(r));
    quiet(&mut w);
}

#[test]
fn trims_are_delayed_like_writes_also_where_a_leg_does_not_know_them() {
    let mut w = made(slow(|_| ()));
    w.disk(B).trims_unsupported = true;
    let a = w.write(0, 64);
    w.wait(&[a]);
    w.freeze(B, Span::from_us(500));
    for first in [4, 20, 36] {
        let t = w.change(Op::Trim, first, 8, false);
        w.wait(&[t]);
        w.pass(Span::from_us(3));
    }
    let r = w.read(0, 64);
    w.wait(&[r]);
    assert_eq!(w.answers[&r].data[21], Stamp::ZERO);
    quiet(&mut w);
    assert!(w.is_whole());
}

#[test]
fn a_leader_that_does_not_take_its_records_is_left_out() {
    let mut w = made(slow(|h| {
        h.max_exposed_time = Span::from_ms(1);
        h.on_limit = OnLimit::Degrade;
    }));
    w.freeze(A, Span::from_ms(10));
    let a = w.write(0, 8); // the region has no mark yet
    let span = took(&mut w, a);
    assert!(span < 3_000_000, "the write takes {span} ns");
    assert_eq!((w.counter("degrades"), w.counter("leader_leg")), (1, 1));
    quiet(&mut w);
    assert!(w.is_whole());
}

#[test]
fn a_serial_manager_takes_the_next_request_when_the_wait_limit_is_over() {
    let mut w = made(slow(|h| h.dispatch = Manager::Serial));
    marked(&mut w, 0);
    w.freeze(B, Span::from_ms(1));
    let (a, b) = (w.write(0, 4), w.write(20, 4));
    let first = took(&mut w, a);
    assert!(!w.answers.contains_key(&b));
    let second = took(&mut w, b);
    assert!(second > first, "the second write waits for the limit of the first: {first} and {second} ns");
    assert_eq!(w.disk(A).pending(), 0);
    quiet(&mut w);
}

/// What was in flight was forgotten together with the queue: a new write was sent to its place at once.
#[test]
fn what_the_last_leg_cannot_store_is_an_error_until_it_is_written_again() {
    let mut any = 0;
    for seed in 0..20 {
        let mut setup = slow(|h| h.delay_depth = Some(3));
        setup.seed = seed;
        let mut w = made(setup);
        marked(&mut w, 0);
        w.freeze(B, Span::from_us(300));
        for i in 0..10 {
            let a = w.write(i * 12, 8);
            w.wait(&[a]);
            w.pass(Span::from_us(3));
        }
        w.may_lose = true;
        w.disk(B).rejects.extend([13, 38, 61]);
        w.lose(A);
        let all: Vec<u64> = (0..10).map(|i| w.write(i * 12 + 2, 3)).collect();
        w.wait(&all);
        w.pass(Span::from_ms(1));
        w.disk(B).rejects.clear();
        let lost = w.counter("lost_bytes");
        any += lost;
        let f = w.flush();
        let r = w.read(0, 120);
        w.wait(&[f, r]);
        assert_eq!(w.is_ok(r), lost == 0);
        let all: Vec<u64> = (0..10).map(|i| w.write(i * 12, 12)).collect();
        w.wait(&all);
        assert_eq!(w.counter("lost_bytes"), 0);
        w.back(A);
        quiet(&mut w);
    }
    assert!(any > 0, "no seed has lost anything");
}

#[test]
fn writes_of_a_leg_that_may_rest_go_in_batches() {
    let mut w =
        made(slow(|h| (h.write_batching, h.max_exposed_time) = (HoldMode::Always, Span::from_ms(20))));
    marked(&mut w, 0);
    let before = (w.counter("drained_writes"), w.counter("held_batches"));
    for n in 0..4 {
        let a = w.write(8 * (3 - n), 8);
        assert!(took(&mut w, a) <= 1001, "leg a alone answers");
        w.pass(Span::from_ms(1));
    }
    assert_eq!((w.counter("drained_writes"), w.counter("held_batches")), before, "nothing is due");
    w.pass(Span::from_ms(8));
    assert_eq!(w.counter("drained_writes"), before.0 + 1, "four writes that touch, in one");
    assert_eq!(w.counter("held_batches"), before.1 + 1);
    w.pass(Span::from_ms(20));
    assert_eq!(w.counter("exposed_bytes"), 0, "half of the bound is over: all of it is flushed");
    // A flush does not wait for the bound.
    let a = w.write(0, 8);
    w.wait(&[a]);
    let f = w.flush();
    assert!(took(&mut w, f) < 2_000_000, "a drain and a flush of each leg");
    assert!(w.is_ok(f));
    quiet(&mut w);
}
