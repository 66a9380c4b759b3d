//! Timelines against calendars and sums.

use super::*;
use nandu_base::{CriticalPath, Phase};

fn lanes(dies: u32, channels: u32) -> Lanes {
    let timing = Timing {
        read: Span::from_us(40),
        program: Span::from_us(400),
        erase: Span::from_ms(3),
        transfer: Span::from_us(10),
        copyback: false,
    };
    Lanes::new(dies, 4, channels, timing)
}

fn us(n: u64) -> Instant {
    Instant(n * 1000)
}

#[test]
fn k_planes_take_one_sense_and_k_transfers() {
    // S0-4: T(k) = tR + k tX for pages at one position in different planes of a die.
    for k in 1..=4u32 {
        let mut l = lanes(1, 1);
        let end = (0..k).map(|plane| l.read(plane, us(0), 1, 7).0.end).max().unwrap();
        assert_eq!(end, us(40 + 10 * u64::from(k)));
        assert_eq!(l.dies_busy(), Span::from_us(40 + 10 * u64::from(k)));
    }
}

#[test]
fn a_different_position_splits_the_operation() {
    // S0-3: planes at different page offsets cannot be driven together.
    let mut l = lanes(1, 1);
    l.read(0, us(0), 1, 7);
    assert_eq!(l.read(1, us(0), 1, 8).0.end, us(100));
}

#[test]
fn two_planes_program_at_once() {
    let mut l = lanes(1, 1);
    assert_eq!(l.program(0, us(0), 1, 0).0.end, us(410));
    assert_eq!(l.program(1, us(0), 1, 0).0.end, us(420));
    assert_eq!(l.dies_busy(), Span::from_us(420));
    // Another request does not join.
    assert_eq!(l.program(1, us(0), 2, 0).0.end, us(830));
}

#[test]
fn a_queue_on_one_die_leaves_the_channel_to_the_other() {
    let mut l = lanes(2, 1);
    for _ in 0..10 {
        l.erase(0, us(0), us(0));
    }
    assert_eq!(l.read(0, us(0), 1, 0).0.end, us(30_050));
    assert_eq!(l.read(4, us(0), 2, 0).0.end, us(50));
}

#[test]
fn transfers_of_two_dies_take_turns() {
    let mut l = lanes(2, 1);
    assert_eq!(l.read(0, us(0), 1, 0).0.end, us(50));
    let (second, _) = l.read(4, us(0), 2, 0);
    let mut path = CriticalPath::EMPTY;
    second.read_path(us(0), &l.timing, &mut path);
    assert_eq!((second.end, path.get(Phase::Queue)), (us(60), Span::from_us(10)));
}

#[test]
fn what_begins_later_leaves_the_channel_as_it_is_until_then() {
    let mut l = lanes(3, 1);
    assert_eq!(l.read(0, us(0), 1, 0).0.end, us(50));
    // Data that will be there long after that transfer has ended.
    assert_eq!(l.program(8, us(900), 2, 0).0.bus, us(900));
    assert_eq!(l.read(4, us(0), 3, 0).0.end, us(60), "the first transfer still takes its time");
}

#[test]
fn an_erase_waits_for_what_made_its_pages_invalid() {
    let mut l = lanes(1, 1);
    assert_eq!(l.erase(0, us(0), us(500)), (us(500), us(3500)));
}

#[test]
fn gc_ahead_on_the_die_is_named() {
    let mut l = lanes(1, 1);
    l.move_page(0, us(0)); // 40 + 20 + 400
    let (time, _) = l.read(0, us(100), 1, 0);
    let mut path = CriticalPath::EMPTY;
    time.read_path(us(100), &l.timing, &mut path);
    assert_eq!((path.get(Phase::Gc), path.get(Phase::Queue)), (Span::from_us(360), Span::ZERO));
}

/// The obvious channel: one flag per microsecond.
#[test]
fn parts_add_up_to_the_whole() {
    let seed = 5;
    let mut rng = nandu_base::Rng::new(seed);
    let mut l = lanes(4, 2);
    let mut now = Instant::ZERO;
    let mut occupied = Span::ZERO;
    for request in 0..2000 {
        now += Span(rng.below(300_000));
        l.tick(now);
        for _ in 0..rng.below(4) {
            let (die, page, plane) = (rng.below(4) as u32, rng.below(2) as u32, rng.below(4) as u32);
            let mut path = CriticalPath::EMPTY;
            let (time, busy) = match rng.below(3) {
                0 => {
                    let (time, busy) = l.read(die * 4 + plane, now, request, page);
                    time.read_path(now, &l.timing, &mut path);
                    (time, busy)
                }
                1 => {
                    let (time, busy) = l.program(die * 4 + plane, now, request, page);
                    time.program_path(now, &l.timing, &mut path);
                    (time, busy)
                }
                _ => {
                    occupied += l.move_page(die * 4, now).2;
                    continue;
                }
            };
            occupied += busy;
            assert_eq!(path.total(), time.end.since(now), "seed {seed}, request {request}: {time:?}");
        }
    }
    assert_eq!(l.dies_busy(), occupied, "seed {seed}");
    l.check(None).expect("operations add up to busy times");
    // Every die's time is in one state.
    let mut parts = Vec::new();
    l.energy(Instant::ZERO, now, &mut parts);
    let time = |state: &str| parts.iter().filter(|p| p.state == state).map(|p| p.time_ns).sum::<u128>();
    let all: u128 = l.dies.iter().map(|d| u128::from(d.free_at.later(now).0)).sum();
    let idle = time("standby") + u128::from(l.dies_busy().0);
    assert_eq!(all, idle, "seed {seed}");
    assert!(time("wait") > 0 && time("transfer") == u128::from(l.channels_busy().0), "seed {seed}");
}

#[test]
fn pages_of_one_operation_each_draw_and_take_the_die_once() {
    let power = FlashPower { read_uw: 60_000, transfer_uw: 100_000, ..FlashPower::default() };
    let mut l = lanes(1, 1).drawing(power);
    l.work_for(Work::Read);
    l.read(0, us(0), 1, 7);
    l.read(1, us(0), 1, 7);
    let mut parts = Vec::new();
    l.energy(us(0), us(100), &mut parts);
    let of = |state| parts.iter().find(|p| p.state == state).map(|p| (p.operations, p.energy.0));
    // Two planes for 40 us at 60 mW, two transfers of 10 us at 100 mW.
    assert_eq!((of("read"), of("transfer")), (Some((2, 4800)), Some((2, 2000))));
    let time = |state| parts.iter().find(|p| p.state == state).map(|p| p.time_ns);
    assert_eq!((time("wait"), time("standby")), (Some(0), Some(40_000)));
    // What was under way when the counters were reset is not counted again.
    l.reset_busy();
    parts.clear();
    l.energy(us(50), us(100), &mut parts);
    assert_eq!(
        parts.iter().map(|p| (p.state, p.time_ns)).collect::<Vec<_>>(),
        [("wait", 0), ("standby", 40_000)]
    );
    l.check(Some((0, 0))).expect("nothing was done");
}

#[test]
fn operations_of_two_modes_take_their_own_times_and_share_nothing() {
    let slc = Timing { read: Span::from_us(10), program: Span::from_us(50), ..*lanes(1, 1).timing() };
    let mut l = lanes(1, 1).with_slc(slc);
    l.work_for(Work::Write);
    let (own, _) = l.program(0, us(0), 1, 7);
    l.switch_mode();
    // The other plane, the same request and height: one operation if the modes were alike.
    let (other, _) = l.program(1, us(0), 1, 7 + SLC_POSITION);
    l.switch_mode();
    assert!(other.bus >= own.end, "{other:?} began beside {own:?}");
    let transfer = l.timing().transfer;
    assert_eq!(other.end.since(other.bus), transfer + slc.program);
    let mut parts = Vec::new();
    l.energy(us(0), other.end, &mut parts);
    let operations = |state| parts.iter().filter(|p| p.state == state).map(|p| p.operations).sum::<u64>();
    assert_eq!((operations("program"), operations("slc_program"), operations("transfer")), (1, 1, 2));
    l.check(Some((2, 0))).expect("both are counted");
}
