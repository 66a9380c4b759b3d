use super::super::geometry::{Geometry, Layout, Zone};
use super::super::seek::{SeekCurve, SeekTable};
use super::*;
use nandu_base::Rng;

fn drive() -> Mechanics {
    let zone = Zone {
        first_cylinder: 0,
        cylinders: 1000,
        sectors_per_track: 100,
        first_angle: 0,
        track_skew: 0,
        cylinder_skew: 0,
        runs: vec![(0, 200_000)],
    };
    let points = vec![(1, Span::from_ms(1)), (999, Span::from_ms(15))];
    Mechanics {
        geometry: Geometry::new(2, Layout::Cylinder, vec![zone], None).unwrap(),
        seek: SeekTable::new(&SeekCurve::Points { points }, 1000).unwrap(),
        head_switch: Span::from_us(500),
        write_settle: 200_000,
        revolution: Span::from_ms(8),
    }
}

fn waiting(drive: &Mechanics, number: u32, first: u64, count: u64, write: bool, came: Instant) -> Waiting {
    let spot = drive.geometry.locate(first);
    Waiting { id: ReqId(number), first, end: first + count, spot, write, came, behind: 0 }
}

/// The rules plainly: the way of each candidate from its definition.
fn slow(rule: Rule, waiting: &[Waiting], view: &View<'_>, depth: usize, patience: Span) -> usize {
    if view.now >= waiting[0].came + patience {
        return 0;
    }
    let cost = |w: &Waiting| {
        let way = view.mechanics.position(view.arm, &w.spot, view.now, w.write);
        match rule {
            Rule::Fcfs => w.came.0,
            Rule::Sstf => u64::from(w.spot.cylinder.abs_diff(view.arm.cylinder)),
            Rule::Sptf => way.seek.0 + way.rotation.0,
        }
    };
    (0..waiting.len().min(depth))
        .filter(|&at| !waiting[..at].iter().any(|older| waiting[at].must_follow(older)))
        .min_by_key(|&at| cost(&waiting[at]))
        .expect("the oldest may go")
}

#[test]
fn the_choice_is_that_of_the_plain_rule() {
    let drive = drive();
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let rule = *rng.pick(&[Rule::Fcfs, Rule::Sstf, Rule::Sptf]);
        let (depth, patience) = (rng.between(1, 12) as u32, Span(rng.below(100_000_000)));
        let mut queue = Queue::new(rule, depth, patience);
        let mut plain: Vec<Waiting> = Vec::new();
        let mut now = Instant::ZERO;
        let mut arm = Arm::default();
        for number in 0..200 {
            now.0 += 1 + rng.below(3_000_000);
            if rng.below(2) == 0 {
                // Few blocks, so that requests overlap.
                let first = rng.below(20) * 9000 + rng.below(20);
                let w = waiting(&drive, number, first, rng.between(1, 20), rng.below(3) == 0, now);
                queue.push(w);
                plain.push(w);
            } else {
                let view = View { mechanics: &drive, arm, now };
                let got = queue.next(&view).map(|w| w.id);
                if plain.is_empty() {
                    assert_eq!(got, None);
                    continue;
                }
                let want = plain.remove(slow(rule, &plain, &view, depth as usize, patience));
                assert_eq!(got, Some(want.id), "seed {seed}, turn {number}, {rule:?}");
                arm = Arm::at(&want.spot);
            }
            assert_eq!(queue.len(), plain.len(), "seed {seed}");
        }
    }
}
