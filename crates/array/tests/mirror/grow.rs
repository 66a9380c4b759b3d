//! Longer legs: a mirror grows on command and not before, whatever is cut or lost meanwhile.

use crate::harness::{ALONE, CREATE, PLAIN};
use crate::maintenance::rested;
use crate::random::seeds;
use crate::scenarios::written;
use crate::world::{A, B, Setup, World};
use nandu_array::member::moved::have_moved;
use nandu_array::mirror::layout::{Layout, read_superblock};
use nandu_base::{Admin, ByteLen, Notice, Op, OpenOptions, Rng, SECTOR, Span};

const GROW: Admin = Admin::Grow { is_equal: false };
/// Bytes by which each leg becomes longer.
const MORE: u64 = 256 << 10;
/// A sector that only the larger mirror has.
const BEYOND: u64 = (256 << 10) / SECTOR + 300;

fn layout_of(w: &World, bytes: ByteLen) -> Layout {
    Layout::of(bytes, w.setup.config.common.region_size.0.trailing_zeros() as u8).expect("large enough")
}

/// From here on the legs have this size, as far as anybody but the growth knows.
fn take(w: &mut World, layouts: &[Layout]) {
    let least = layouts.iter().min_by_key(|layout| layout.data).expect("a mirror has legs");
    w.setup.data = least.data;
    w.layout = layouts[A];
    for (leg, layout) in layouts.iter().enumerate() {
        let mut disk = w.disk(leg);
        (disk.size, disk.data_end) = (layout.leg, layout.data.sectors());
    }
}

fn records(w: &World, leg: usize, layout: &Layout) -> Vec<nandu_array::mirror::layout::Superblock> {
    let slots = layout.slots.iter().map(|&at| w.disk(leg).record(at));
    slots.filter_map(|record| Some(read_superblock(&record)?.0)).collect()
}

/// What whoever starts a mirror does whose legs are longer than they were: looks where the records are that count.
fn settle(w: &mut World, before: &[Layout], after: &[Layout]) -> bool {
    let there = |leg: &usize| !w.disk(*leg).lost;
    let places = |leg: usize| (records(w, leg, &before[leg]), records(w, leg, &after[leg]));
    let places: Vec<_> = (0..w.legs()).filter(there).map(places).collect();
    let moved = have_moved(places.iter().map(|(before, now)| (&before[..], &now[..])));
    take(w, if moved { after } else { before });
    moved
}

fn layouts(w: &World) -> (Vec<Layout>, Vec<Layout>) {
    let before = vec![w.layout; w.legs()];
    let after = longer(w, &before);
    (before, after)
}

fn longer(w: &World, layouts: &[Layout]) -> Vec<Layout> {
    layouts.iter().map(|layout| layout_of(w, ByteLen(layout.leg.0 + MORE))).collect()
}

fn lengthen(w: &mut World, after: &[Layout]) {
    for (leg, layout) in after.iter().enumerate() {
        if w.setup.soiled {
            let new = w.disk(leg).size.sectors()..layout.data.sectors();
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

fn setups(seed: u64) -> Vec<(&'static str, Setup)> {
    let mut soiled = Setup::small(seed);
    soiled.soiled = true;
    soiled.config.common.initial_sync = nandu_array::member::InitialSync::Resync;
    let mut slow = Setup::small(seed);
    slow.slow = 30;
    let slow = slow.hetero(|h| h.max_exposed_time = Span::from_ms(1));
    vec![
        ("mirror", Setup::small(seed)),
        ("three legs", Setup::small(seed).three()),
        ("soiled", soiled),
        ("hetero-mirror", slow),
    ]
}

/// Writes, a flush, and one write more, which is under way.
pub fn begin(w: &mut World) -> u64 {
    let a = w.write(0, 20);
    let b = w.write(130, 20);
    w.wait_unless_over(&[a, b]);
    let f = w.flush();
    let c = w.write(4, 9);
    w.wait_unless_over(&[f]);
    c
}

/// Writes, a growth with requests before and behind it, writes into what is new, a flush.
fn story(w: &mut World, after: &[Layout]) {
    let c = begin(w);
    lengthen(w, after);
    if w.is_over() || w.admin(GROW).is_err() {
        return; // a leg was lost before
    }
    let d = w.write(135, 6);
    let r = w.read(0, 20);
    let f = w.flush();
    w.wait_unless_over(&[c, d, r, f]);
    let told = |w: &World| w.notices.iter().any(|n| matches!(n, Notice::Grown(_) | Notice::NotGrown));
    while !w.is_over() && !told(w) && w.step() {}
    if w.is_over() {
        return;
    }
    let end = match grown(w) {
        Some(size) => {
            assert_eq!(size, after[A].data, "all of it is served");
            take(w, after);
            BEYOND
        }
        None => 300,
    };
    let e = w.write(end, 12);
    let g = w.change(Op::Write, 2, 3, true);
    let f = w.flush();
    w.wait_unless_over(&[e, g, f]);
    let r = w.read(end, 12);
    w.wait_unless_over(&[r]);
    w.run(20_000);
}

/// The start after it, and all that was promised is there; then, if it has not grown, it can.
fn recover(w: &mut World, before: &[Layout], after: &[Layout], how: OpenOptions) -> Result<(), String> {
    let had_grown = settle(w, before, after);
    w.open(how).map_err(|e| e.to_string())?;
    w.read_all();
    w.run(20_000);
    if w.wrong.is_none() && w.is_whole() {
        w.check_equal();
    }
    if !had_grown && w.wrong.is_none() {
        w.notices.clear();
        lengthen(w, after);
        w.admin(GROW).map_err(|e| format!("it does not grow afterwards: {e}"))?;
        w.run(20_000);
        if grown(w) != Some(after[A].data) {
            return Err("it has not grown afterwards".into());
        }
        take(w, after);
        let a = w.write(BEYOND, 4);
        w.wait(&[a]);
        w.run(20_000);
    }
    // What was read must be there after one more cut.
    w.cut();
    settle(w, before, after);
    w.open(how).map_err(|e| e.to_string())?;
    w.read_all();
    w.run(20_000);
    if w.wrong.is_none() {
        w.check_equal();
    }
    w.wrong.take().map_or(Ok(()), Err)
}

/// The power is cut at each step; `twice`: also in the start after it.
fn cut_everywhere(setup: &Setup, twice: bool) -> Result<[u64; 2], String> {
    let mut outcomes = [0; 2];
    for n in 1.. {
        let mut w = World::new(setup.clone());
        let (before, after) = layouts(&w);
        w.open(CREATE).map_err(|e| e.to_string())?;
        w.run(20_000);
        w.fuse = Some(n);
        story(&mut w, &after);
        let ended = !w.is_over();
        let told = |e: String| format!("seed {}, cut after {n} events: {e}", setup.seed);
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        w.cut();
        if twice {
            settle(&mut w, &before, &after);
            w.boot(PLAIN);
            w.run(Rng::new(setup.seed ^ n).between(1, 60) as usize);
            w.cut();
        }
        outcomes[usize::from(settle(&mut w, &before, &after))] += 1;
        recover(&mut w, &before, &after, PLAIN).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(outcomes)
}

/// A leg is lost at each step, and comes back with the next start, or after a cut that the other one has not survived.
fn lose_everywhere(setup: &Setup, leg: usize, dies: bool) -> Result<(), String> {
    for n in 1.. {
        let told = |e: String| format!("seed {}, leg {leg} is lost after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        let (before, after) = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.ambush = Some((n, leg));
        story(&mut w, &after);
        let ended = w.ambush.take().is_some();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        w.cut();
        if dies && !ended {
            // It goes on without it: it has taken Solo if it has served anything alone.
            settle(&mut w, &before, &after);
            if w.open(PLAIN).is_ok() {
                w.read_all();
                w.run(20_000);
            }
            w.cut();
        }
        (0..w.legs()).for_each(|leg| w.disk(leg).lost = false);
        recover(&mut w, &before, &after, PLAIN).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(())
}

#[test]
fn nothing_changes_before_the_command_and_all_of_it_is_served_after_it() {
    let mut w = rested(Setup::small(70));
    let (before, after) = layouts(&w);
    let why = w.admin(GROW).expect_err("nothing is longer").to_string();
    assert!(why.contains("its legs have room for 256 KiB"), "{why}");
    w.lengthen(A, after[A].leg);
    let why = w.admin(GROW).expect_err("one leg is not").to_string();
    assert!(why.contains("its legs have room for 256 KiB"), "{why}");
    // A start before the command finds what was there.
    w.cut();
    assert!(!settle(&mut w, &before, &after));
    w.open(PLAIN).expect("the records are where they were");
    w.read_all();
    lengthen(&mut w, &after);
    w.run(20_000);
    assert_eq!(grown(&w), None);
    w.admin(GROW).expect("both are longer");
    let why = w.admin(GROW).expect_err("it is under way").to_string();
    assert!(why.contains("it is growing"), "{why}");
    w.run(20_000);
    assert_eq!(grown(&w), Some(ByteLen(512 << 10)));
    take(&mut w, &after);
    written(&mut w, BEYOND, 20);
    w.read_all();
    w.run(20_000);
    w.check_equal();
    assert_eq!((w.counter("growths"), w.wrong.take()), (1, None));
    w.close();
    w.cut();
    assert!(settle(&mut w, &before, &after));
    w.open(PLAIN).expect("it keeps its size");
    w.read_all();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_mirror_that_is_not_whole_does_not_grow() {
    let mut w = rested(Setup::small(71));
    let (_, after) = layouts(&w);
    w.lose(B);
    let a = w.write(0, 4);
    w.wait(&[a]);
    lengthen(&mut w, &after);
    let why = w.admin(GROW).expect_err("one leg is out").to_string();
    assert!(why.contains("wait until it is healthy"), "{why}");
}

#[test]
fn a_leg_that_does_not_take_its_new_records_ends_the_growth() {
    for leg in [A, B] {
        let mut w = rested(Setup::small(72));
        let (_, after) = layouts(&w);
        lengthen(&mut w, &after);
        let end = after[leg].slots[0] / SECTOR;
        w.disk(leg).rejects.insert(end);
        w.admin(GROW).expect("both are longer");
        let a = w.write(0, 4);
        w.wait(&[a]);
        w.run(20_000);
        assert!(w.notices.contains(&Notice::NotGrown) && w.is_ok(a) && w.is_whole());
        w.disk(leg).rejects.clear();
        w.admin(GROW).expect("both are longer");
        w.run(20_000);
        assert_eq!((grown(&w), w.wrong), (Some(after[A].data), None));
    }
}

#[test]
fn only_the_shorter_leg_need_become_longer() {
    let mut w = rested(Setup::small(73));
    let (before, after) = layouts(&w);
    lengthen(&mut w, &after);
    w.admin(GROW).expect("both are longer");
    w.run(20_000);
    take(&mut w, &after);
    // One of them grows on alone, in vain, then the other one.
    let further = longer(&w, &after);
    w.lengthen(A, further[A].leg);
    assert!(w.admin(GROW).is_err());
    w.lengthen(B, further[B].leg);
    w.notices.clear();
    w.admin(GROW).expect("both are longer");
    w.run(20_000);
    assert_eq!(grown(&w), Some(further[A].data));
    assert!(records(&w, A, &before[A]).is_empty() && records(&w, A, &after[A]).is_empty());
    assert_eq!(w.wrong, None);
}

#[test]
fn a_cut_at_any_step_of_a_growth_leaves_it_as_it_was_or_grown() {
    for seed in seeds(1) {
        for (name, setup) in setups(seed) {
            for twice in [false, true] {
                let outcomes = cut_everywhere(&setup, twice)
                    .unwrap_or_else(|wrong| panic!("{name}, twice {twice}: {wrong}"));
                assert!(outcomes.iter().all(|&n| n > 5), "seed {seed}: {outcomes:?}");
            }
        }
    }
}

/// The power is cut at each step, and a leg is lost with it. The other one goes on by the operator's word; then the leg is back.
fn go_on_alone_everywhere(setup: &Setup, leg: usize) -> Result<u64, String> {
    let mut went_on = 0;
    for n in 1.. {
        let told =
            |e: String| format!("seed {}, leg {leg} is lost with a cut after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        let (before, after) = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.fuse = Some(n);
        story(&mut w, &after);
        let ended = !w.is_over();
        w.cut();
        w.disk(leg).lost = true;
        settle(&mut w, &before, &after);
        w.may_lose = true; // what only the lost leg had
        if w.open(ALONE).is_ok() {
            w.read_all();
            let a = w.write(40, 20);
            w.wait(&[a]);
            let f = w.flush();
            w.wait(&[f]);
            w.cut();
            w.disk(leg).lost = false;
            settle(&mut w, &before, &after);
            // Its records at the place that counts may be gone: it is filled as a blank one.
            if w.open(PLAIN).is_err() {
                w.cut();
                w.open(CREATE).map_err(|e| told(e.to_string()))?;
            }
            let r = w.read(40, 20);
            w.wait(&[r]);
            went_on += u64::from(w.is_ok(r));
        }
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(went_on)
}

#[test]
fn what_a_leg_has_done_alone_since_a_growth_was_cut_off_counts() {
    for seed in seeds(2) {
        for leg in [A, B] {
            let went_on =
                go_on_alone_everywhere(&Setup::small(seed), leg).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert!(went_on > 20, "seed {seed}, leg {leg}: {went_on}");
        }
    }
}

#[test]
fn a_leg_may_be_lost_at_any_step_of_a_growth() {
    for seed in seeds(1) {
        for (name, setup) in setups(seed) {
            for (leg, dies) in (0..setup.config.legs.len()).flat_map(|leg| [(leg, false), (leg, true)]) {
                if let Err(wrong) = lose_everywhere(&setup, leg, dies) {
                    panic!("{name}, dies {dies}: {wrong}");
                }
            }
        }
    }
}

/// Faults of a growth, which cuts at each of its steps find.
pub fn finds(plant: &str) -> Option<(u64, String)> {
    let is_its_own = plant == "mirror.old-records-first";
    (0..8).filter(|_| is_its_own).find_map(|seed| {
        let setup = Setup::small(seed).plant(plant);
        Some((seed, cut_everywhere(&setup, false).err()?))
    })
}
