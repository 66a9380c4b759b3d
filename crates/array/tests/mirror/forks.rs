//! What an operator can do to a set: legs that went on alone, in turns, and met again.

use crate::world::{A, B, Setup, World};
use nandu_base::{OpenOptions, Rng, Span};

/// One leg goes on alone, perhaps the other one too, and both meet: at a start, or while one of them serves. A fork must
/// be refused, anything else must join; a leg alone may only show what it may hold.
fn meet(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0xF08C);
    let mut w = World::new(setup);
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    w.open(create).map_err(|e| format!("creation: {e}"))?;
    for first in [0, 100, 300] {
        let a = w.write(first + rng.below(8), 8);
        w.wait(&[a]);
    }
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    let mut alone = [false; 2];
    let last = rng.below(2) as usize;
    for leg in [1 - last, last] {
        if leg != last && rng.below(2) == 0 {
            continue;
        }
        (w.disk(leg).lost, w.disk(1 - leg).lost) = (false, true);
        w.may_lose = true;
        // Whatever the first read shows must stay, even when the power is cut in the middle of the start.
        let how = OpenOptions { alone: true, ..OpenOptions::default() };
        w.boot(how);
        while w.opened().is_none() && w.step() {}
        if w.opened() != Some(Ok(())) {
            w.cut();
            continue;
        }
        alone[leg] = true;
        if leg == last && rng.below(2) == 0 {
            break;
        }
        w.cut();
    }
    let fork = alone == [true; 2];
    for leg in [A, B] {
        let serves = w.opened() == Some(Ok(())) && leg == last;
        if !serves {
            w.disk(leg).lost = false;
        }
    }
    let joined = if w.opened() == Some(Ok(())) {
        w.back(1 - last);
        w.run(20_000);
        w.is_whole()
    } else {
        w.open(OpenOptions::default()).is_ok()
    };
    match (fork, joined) {
        (true, true) => Err("two legs that both went on alone are joined".into()),
        (false, false) => Err("a leg that did not go on alone is refused".into()),
        _ => Ok(()),
    }
}

/// A start is cut soon after it has served a read, both legs together or the follower alone: what was read must stay.
fn read_at_once(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0x0EAD);
    let mut w = World::new(setup);
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    w.open(create).map_err(|e| format!("creation: {e}"))?;
    for _ in 0..3 {
        let a = w.write(rng.below(40), 8);
        w.wait(&[a]);
        w.run(rng.below(6) as usize);
    }
    w.cut();
    let leader = w.setup.seed.is_multiple_of(2);
    for turn in 0..4 {
        let leg = if leader { A } else { B };
        let alone = turn == 1;
        w.disk(1 - leg).lost = alone;
        w.may_lose |= alone;
        let how = OpenOptions { alone, ..OpenOptions::default() };
        if w.open(how).is_err() {
            w.cut();
            continue;
        }
        w.disk(1 - leg).frozen_until = w.now + Span::from_us(rng.below(3));
        w.read_all();
        if let Some(wrong) = w.wrong.take() {
            return Err(format!("start {turn}: {wrong}"));
        }
        w.cut();
    }
    Ok(())
}

/// A leg leaves, is replaced, and comes back when its substitute is gone: it must be copied in full.
fn replaced_and_back(setup: Setup) -> Result<(), String> {
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    let mut w = World::new(setup.clone());
    w.open(create).map_err(|e| format!("creation: {e}"))?;
    let a = w.write(10, 20);
    w.wait(&[a]);
    w.run(20_000);
    w.lose(A);
    w.run(1000);
    w.cut();
    let old = w.disks[A].clone();
    w.disks[A] = World::new(Setup { seed: setup.seed + 1000, ..setup }).disks[A].clone();
    w.open(create).map_err(|e| format!("a blank leg: {e}"))?;
    let a = w.write(12, 10);
    w.wait(&[a]);
    w.run(20_000);
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    old.lock().expect("no panic inside").lost = false;
    w.disks[A] = old;
    // The leg that stayed has no way to know whether its substitute went on; then it may be told to start.
    if w.open(OpenOptions::default()).is_ok() {
        w.run(20_000);
        w.read_all();
        if w.wrong.is_none() {
            w.check_equal();
        }
    }
    w.wrong.take().map_or(Ok(()), Err)
}

/// A start cannot read its map, and writes it anew; the next start can read what lay there before. Regions written in
/// between are marked all the same.
fn unreadable_once(setup: Setup) -> Result<(), String> {
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    let leg = (setup.seed % 2) as usize;
    let mut w = World::new(setup);
    w.open(create).map_err(|e| format!("creation: {e}"))?;
    w.lose(1 - leg);
    w.run(1000);
    for first in [0, 130, 270] {
        let a = w.write(first, 8);
        w.wait(&[a]);
    }
    w.cut();
    let slots = [0, 1].map(|slot| w.layout.page(0, slot).sector());
    w.disk(leg).bad.extend(slots);
    w.open(OpenOptions::default()).map_err(|e| format!("a map that cannot be read: {e}"))?;
    let a = w.write(390, 8);
    w.wait(&[a]);
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    w.disk(leg).bad.clear();
    w.disk(1 - leg).lost = false;
    w.open(OpenOptions::default()).map_err(|e| format!("both legs: {e}"))?;
    w.run(20_000);
    w.read_all();
    if w.wrong.is_none() {
        w.check_equal();
    }
    w.wrong.take().map_or(Ok(()), Err)
}

/// Whether a planted fault shows.
pub fn finds(plant: &str) -> Option<(u64, String)> {
    (0..60).find_map(|seed| {
        let setup = || Setup::small(seed).plant(plant);
        let stories = [meet, read_at_once, replaced_and_back, unreadable_once];
        let wrong = stories.iter().try_for_each(|story| story(setup()));
        wrong.err().map(|wrong| (seed, wrong))
    })
}

#[test]
fn forks_are_refused_and_everything_else_joins() {
    for seed in 0..200 {
        for hetero in [false, true] {
            let setup = || match hetero {
                true => Setup::small(seed).hetero(|_| ()),
                false => Setup::small(seed),
            };
            for story in [meet, read_at_once, replaced_and_back, unreadable_once] {
                story(setup()).unwrap_or_else(|wrong| panic!("seed {seed}, hetero {hetero}: {wrong}"));
            }
        }
    }
}
