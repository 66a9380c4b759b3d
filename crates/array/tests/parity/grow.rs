//! Longer legs: a parity array grows on command and not before, whatever is cut or lost meanwhile.

use crate::harness::{CREATE, PLAIN};
use crate::random::seeds;
use crate::world::{Setup, World};
use nandu_array::member;
use nandu_array::member::moved::have_moved;
use nandu_array::parity::WriteHole;
use nandu_array::parity::layout::{LegLayout, Superblock};
use nandu_base::{Admin, ByteLen, Notice, Op, Rng, SECTOR};

/// Bytes by which each leg becomes longer.
const MORE: u64 = 256 << 10;
/// Sectors of the small array: the first that only the larger one has.
const BEYOND: u64 = (256 << 10) / SECTOR;

fn grow(has_holes: bool) -> Admin {
    Admin::Grow { is_equal: has_holes }
}

fn of(w: &World, bytes: ByteLen) -> LegLayout {
    let chunk = w.setup.config.chunk().0;
    LegLayout::of(bytes, w.setup.slots(), chunk, chunk).expect("large enough")
}

fn layouts(w: &World) -> (Vec<LegLayout>, Vec<LegLayout>) {
    let before = vec![w.layout; w.legs()];
    let after = longer(w, &before);
    (before, after)
}

fn longer(w: &World, layouts: &[LegLayout]) -> Vec<LegLayout> {
    layouts.iter().map(|layout| of(w, ByteLen(layout.leg.0 + MORE))).collect()
}

/// From here on the legs have this size, as far as anybody but the growth knows.
fn take(w: &mut World, layouts: &[LegLayout]) {
    w.setup.data = ByteLen(layouts.iter().map(|layout| layout.data).min().expect("there are legs"));
    for (leg, layout) in layouts.iter().enumerate() {
        let mut disk = w.disk(leg);
        (disk.size, disk.data_end) = (layout.leg, layout.data / SECTOR);
    }
}

fn records(w: &World, leg: usize, layout: &LegLayout) -> Vec<member::Superblock> {
    let slots = layout.superblocks.iter().map(|&at| w.disk(leg).record(at));
    slots.filter_map(|record| Some(Superblock::read(&record)?.0.head)).collect()
}

/// What whoever starts an array does whose legs are longer than they were: looks where the records are that count.
fn settle(w: &mut World, before: &[LegLayout], after: &[LegLayout]) -> bool {
    let there = |leg: &usize| !w.disk(*leg).lost;
    let places = |leg: usize| (records(w, leg, &before[leg]), records(w, leg, &after[leg]));
    let places: Vec<_> = (0..w.legs()).filter(there).map(places).collect();
    let moved = have_moved(places.iter().map(|(before, now)| (&before[..], &now[..])));
    take(w, if moved { after } else { before });
    moved
}

fn lengthen(w: &mut World, after: &[LegLayout], is_soiled: bool) {
    for (leg, layout) in after.iter().enumerate() {
        if is_soiled {
            let new = w.disk(leg).size.0 / SECTOR..layout.leg.0 / SECTOR;
            w.disk(leg).soil_unwritten(new, 900 + leg as u32);
        }
        w.lengthen(leg, layout.leg);
    }
}

fn grown(w: &World) -> Option<ByteLen> {
    w.notices.iter().rev().find_map(|notice| match notice {
        Notice::Grown(size) => Some(*size),
        _ => None,
    })
}

fn served_of(w: &World, layouts: &[LegLayout]) -> ByteLen {
    ByteLen(layouts[0].data * (w.legs() as u64 - 1))
}

/// What is tried, and whether the new space holds rubbish.
fn setups(seed: u64) -> Vec<(&'static str, Setup, bool)> {
    let mut resync = Setup::small(seed);
    resync.config.write_hole = WriteHole::Resync;
    let slow = Setup { slow: 20, ..Setup::small(seed) };
    vec![("holes", Setup::small(seed), false), ("soiled", slow, true), ("no journal", resync, true)]
}

/// Writes, a growth with requests before, beside and behind it, and writes into what is new.
fn story(w: &mut World, after: &[LegLayout], is_soiled: bool) {
    let a = w.write(0, 20);
    let b = w.write(130, 20);
    w.wait_unless_over(&[a, b]);
    let f = w.flush();
    w.wait_unless_over(&[f]);
    let c = w.write(4, 9);
    lengthen(w, after, is_soiled);
    if w.is_over() || w.admin(grow(!is_soiled)).is_err() {
        return; // a leg was lost before
    }
    let d = w.write(135, 6);
    let r = w.read(0, 20);
    let f = w.flush();
    w.wait_unless_over(&[c, d, r, f]);
    let told = |w: &World| w.notices.iter().any(|n| matches!(n, Notice::Grown(_) | Notice::NotGrown));
    let mut more = 0;
    while !w.is_over() && !told(w) && w.step() {
        more += 1;
        if more % 16 == 1 {
            w.write(200 + more % 40, 5);
        }
    }
    if w.is_over() {
        return;
    }
    let end = match grown(w) {
        Some(size) => {
            assert_eq!(size, served_of(w, after), "all of it is served");
            take(w, after);
            BEYOND + 300
        }
        None => 300,
    };
    let e = w.write(end, 12);
    let g = w.change(Op::Write, 2, 3, true);
    let f = w.flush();
    w.wait_unless_over(&[e, g, f]);
    let r = w.read(end, 12);
    w.wait_unless_over(&[r]);
    if !w.is_over() {
        w.run(20_000);
    }
}

/// All that was promised is there, and what is new reads as zeros; then, if it has not grown, it can.
fn recover(w: &mut World, before: &[LegLayout], after: &[LegLayout], is_soiled: bool) -> Result<(), String> {
    let had_grown = settle(w, before, after);
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.read_all();
    w.run(50_000);
    if w.wrong.is_none() {
        w.check_parity();
    }
    if !had_grown && w.wrong.is_none() {
        w.notices.clear();
        lengthen(w, after, is_soiled);
        // The growth that was cut off has left something there.
        w.admin(grow(false)).map_err(|e| format!("it does not grow afterwards: {e}"))?;
        w.run(50_000);
        if grown(w) != Some(served_of(w, after)) {
            return Err("it has not grown afterwards".into());
        }
        take(w, after);
        let a = w.write(BEYOND + 300, 4);
        w.wait(&[a]);
        w.run(20_000);
        w.check_parity();
    }
    let new = w.read(BEYOND, 300);
    w.wait(&[new]);
    // What was read must be there after one more cut, without any leg.
    w.cut();
    settle(w, before, after);
    let leg = (w.setup.seed % w.legs() as u64) as usize;
    w.disk(leg).lost = w.setup.config.write_hole == WriteHole::Journal;
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.read_all();
    let new = w.read(BEYOND, 300);
    w.wait(&[new]);
    w.wrong.take().map_or(Ok(()), Err)
}

/// What comes with the cut, or behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// Nothing.
    Start,
    /// The start is cut short as well.
    Twice,
    /// A leg is lost, the others go on, and are cut again; then it is back.
    Without,
}

/// Steps of a story between two at which something is tried with one seed; with so many seeds it is tried at each.
const STRIDE: u64 = 8;

fn steps(setup: &Setup) -> impl Iterator<Item = u64> {
    (1 + setup.seed % STRIDE..).step_by(STRIDE as usize)
}

/// The power is cut at many steps.
fn cut_everywhere(setup: &Setup, is_soiled: bool, then: Then) -> Result<[u64; 2], String> {
    let mut outcomes = [0; 2];
    for n in steps(setup) {
        let told = |e: String| format!("seed {}, cut after {n} events, {then:?}: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        let (before, after) = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.fuse = Some(n);
        story(&mut w, &after, is_soiled);
        let ended = !w.is_over();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        w.cut();
        let mut rng = Rng::new(setup.seed ^ n << 8);
        match then {
            Then::Start => {}
            Then::Twice => {
                settle(&mut w, &before, &after);
                w.boot(PLAIN);
                w.run(rng.between(1, 150) as usize);
                w.cut();
            }
            Then::Without => {
                let leg = rng.below(w.legs() as u64) as usize;
                w.disk(leg).lost = true;
                settle(&mut w, &before, &after);
                w.open(PLAIN).map_err(|e| told(format!("without leg {leg}: {e}")))?;
                w.read_all();
                let a = w.write(7, 3);
                w.wait(&[a]);
                w.cut();
                w.disk(leg).lost = false;
            }
        }
        outcomes[usize::from(settle(&mut w, &before, &after))] += 1;
        recover(&mut w, &before, &after, is_soiled).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(outcomes)
}

/// A leg is lost at many steps, and is back later or with the next start.
fn lose_everywhere(setup: &Setup, is_soiled: bool, leg: usize) -> Result<(), String> {
    for n in steps(setup) {
        let told = |e: String| format!("seed {}, leg {leg} is lost after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        let (before, after) = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.ambush = Some((n, leg));
        story(&mut w, &after, is_soiled);
        let ended = w.ambush.take().is_some();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        // Without a journal the array does not promise to bear a loss together with a cut.
        if !ended && (n % 2 == 0 || setup.config.write_hole == WriteHole::Resync) {
            w.back(leg);
            w.run(50_000);
            w.check_parity();
            w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        }
        w.cut();
        w.disk(leg).lost = false;
        recover(&mut w, &before, &after, is_soiled).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(())
}

fn rested(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("a new array");
    w.run(20_000);
    w
}

#[test]
fn nothing_changes_before_the_command_and_all_of_it_is_served_after_it() {
    let mut w = rested(Setup::small(70));
    let (before, after) = layouts(&w);
    let why = w.admin(grow(true)).expect_err("nothing is longer").to_string();
    assert!(why.contains("its legs have room for 256 KiB"), "{why}");
    w.lengthen(0, after[0].leg);
    w.lengthen(1, after[1].leg);
    let why = w.admin(grow(true)).expect_err("one leg is not").to_string();
    assert!(why.contains("its legs have room for 256 KiB"), "{why}");
    // A leg that is longer than it says goes and comes back.
    w.lose(0);
    w.back(0);
    w.run(50_000);
    assert!(w.is_full());
    // A start before the command finds what was there.
    w.cut();
    assert!(!settle(&mut w, &before, &after));
    w.open(PLAIN).expect("the records are where they were");
    lengthen(&mut w, &after, false);
    w.run(20_000);
    assert_eq!(grown(&w), None);
    w.admin(grow(true)).expect("all are longer");
    let why = w.admin(grow(true)).expect_err("it is under way").to_string();
    assert!(why.contains("it is growing"), "{why}");
    w.run(20_000);
    assert_eq!(grown(&w), Some(ByteLen::kib(768)));
    take(&mut w, &after);
    let a = w.write(BEYOND + 300, 20);
    w.wait(&[a]);
    w.read_all();
    w.run(20_000);
    w.check_parity();
    assert_eq!((w.counter("growths"), w.wrong.take()), (1, None));
    w.close();
    w.cut();
    assert!(settle(&mut w, &before, &after));
    w.open(PLAIN).expect("it keeps its size");
    w.read_all();
    assert_eq!(w.wrong, None);
}

#[test]
fn an_array_that_is_not_healthy_does_not_grow() {
    let mut w = rested(Setup::small(71));
    let (_, after) = layouts(&w);
    w.lose(1);
    let a = w.write(0, 4);
    w.wait(&[a]);
    lengthen(&mut w, &after, false);
    let why = w.admin(grow(true)).expect_err("one leg is out").to_string();
    assert!(why.contains("it is not healthy"), "{why}");
}

#[test]
fn a_leg_that_does_not_take_its_new_record_ends_the_growth() {
    for leg in 0..3 {
        let mut w = rested(Setup::small(72));
        let (_, after) = layouts(&w);
        lengthen(&mut w, &after, false);
        w.disk(leg).rejects.insert(after[leg].superblocks[0] / SECTOR);
        w.admin(grow(true)).expect("all are longer");
        let a = w.write(0, 4);
        w.wait(&[a]);
        w.run(20_000);
        assert!(w.notices.contains(&Notice::NotGrown) && w.is_ok(a) && w.is_full());
        w.disk(leg).rejects.clear();
        w.admin(grow(true)).expect("all are longer");
        w.run(20_000);
        assert_eq!((grown(&w), w.wrong), (Some(served_of(&World::new(Setup::small(72)), &after)), None));
    }
}

#[test]
fn only_the_shorter_legs_need_become_longer() {
    let mut w = rested(Setup::small(73));
    let (before, after) = layouts(&w);
    let further = longer(&w, &after);
    // One leg is longer than the others; then it has room already.
    let uneven = [further[0], after[1], after[2]];
    lengthen(&mut w, &uneven, true);
    w.admin(grow(false)).expect("all are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(served_of(&w, &after)));
    take(&mut w, &uneven);
    let a = w.write(BEYOND + 300, 20);
    w.wait(&[a]);
    lengthen(&mut w, &[further[0], further[1], after[2]], true);
    assert!(w.admin(grow(false)).is_err());
    lengthen(&mut w, &further, true);
    w.notices.clear();
    w.admin(grow(false)).expect("all are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(served_of(&w, &further)));
    assert!(records(&w, 1, &before[1]).is_empty() && records(&w, 1, &after[1]).is_empty());
    take(&mut w, &further);
    let whole = w.read(BEYOND, w.sectors() - BEYOND);
    w.wait(&[whole]);
    w.run(20_000);
    w.check_parity();
    w.cut();
    w.open(PLAIN).expect("it keeps its size");
    w.read_all();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_cut_at_many_steps_of_a_growth_leaves_it_as_it_was_or_grown() {
    for seed in seeds(2) {
        for (name, setup, is_soiled) in setups(seed) {
            for then in [Then::Start, Then::Twice, Then::Without] {
                if then == Then::Without && setup.config.write_hole == WriteHole::Resync {
                    continue;
                }
                let outcomes =
                    cut_everywhere(&setup, is_soiled, then).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
                assert!(outcomes.iter().all(|&n| n > 5), "seed {seed}: {outcomes:?}");
            }
        }
    }
}

#[test]
fn a_leg_may_be_lost_at_many_steps_of_a_growth() {
    for seed in seeds(2) {
        for (name, setup, is_soiled) in setups(seed) {
            for leg in 0..setup.config.legs.len() {
                if let Err(wrong) = lose_everywhere(&setup, is_soiled, leg) {
                    panic!("{name}: {wrong}");
                }
            }
        }
    }
}

/// Faults of a growth, which cuts at each of its steps find.
pub fn finds(plant: &str) -> Option<String> {
    let is_its_own = plant.starts_with("parity.grown-");
    (0..8).filter(|_| is_its_own).find_map(|seed| {
        let setup = Setup::small(seed).plant(plant);
        cut_everywhere(&setup, true, Then::Start).err()
    })
}
