//! Cuts at every step: each story is told again and again, and the power is cut one event later every time.

use crate::random::seeds;
use crate::world::{Setup, World, A, B};
use nandu_base::{Op, OpenHow, Rng};

type Story = fn(&mut World);

fn wait(w: &mut World, cookies: &[u64]) {
    if !w.is_over() {
        w.wait(cookies);
    }
}

/// Runs until nothing is left to do, marks included.
fn rest(w: &mut World) {
    w.run(20_000);
}

/// Creation, writes, a flush, clearing, close, a second session.
fn plain(w: &mut World) {
    let a = w.write(0, 20);
    let b = w.write(120, 20);
    let c = w.write(10, 4);
    wait(w, &[a, b, c]);
    let f = w.flush();
    let d = w.change(Op::Trim, 2, 3, false);
    wait(w, &[f, d]);
    let e = w.change(Op::Write, 130, 2, true);
    let g = w.write(300, 8);
    wait(w, &[e, g]);
    rest(w);
    let h = w.write(1, 2);
    wait(w, &[h]);
    if !w.is_over() {
        w.close();
    }
}

/// One write that nobody flushes, until its mark is cleared.
fn idle(w: &mut World) {
    let a = w.write(0, 20);
    wait(w, &[a]);
    rest(w);
}

fn parted(w: &mut World, leg: usize) {
    let a = w.write(0, 20);
    wait(w, &[a]);
    let f = w.flush();
    let b = w.write(15, 10);
    wait(w, &[f]);
    w.lose(leg);
    let c = w.write(200, 6);
    let f = w.flush();
    wait(w, &[b, c, f]);
    let d = w.change(Op::Write, 3, 4, true);
    wait(w, &[d]);
    if w.is_over() || w.opened() != Some(Ok(())) {
        return;
    }
    w.back(leg);
    let e = w.write(4, 10);
    let g = w.write(400, 3);
    let f = w.flush();
    wait(w, &[e, g, f]);
    rest(w);
}

/// The leader leaves and returns.
fn leader_leaves(w: &mut World) {
    parted(w, A);
}

/// The follower leaves and returns.
fn follower_leaves(w: &mut World) {
    parted(w, B);
}

/// A leg is replaced by a blank one.
fn replaced(w: &mut World) {
    let a = w.write(0, 20);
    wait(w, &[a]);
    let f = w.flush();
    wait(w, &[f]);
    w.lose(A);
    let b = w.write(130, 6);
    wait(w, &[b]);
    rest(w);
    if w.is_over() || w.disk(B).lost {
        return; // nobody wipes the only leg
    }
    w.disk(A).wipe();
    w.back(A);
    let c = w.write(131, 3);
    wait(w, &[c]);
    rest(w);
}

/// Every cut of one story. `twice`: the start after the cut is cut as well.
fn cut_everywhere(story: Story, setup: &Setup, twice: bool) -> Result<(), String> {
    for n in 1.. {
        let mut w = World::new(setup.clone());
        w.fuse = Some(n);
        let create = OpenHow { create: true, ..OpenHow::default() };
        let made = w.open(create);
        if !w.is_over() {
            made.map_err(|e| format!("creation: {e}"))?;
            story(&mut w);
        }
        let ended = !w.is_over();
        if let Some(wrong) = w.wrong.take() {
            return Err(wrong);
        }
        let lost = [A, B].into_iter().find(|&leg| w.disk(leg).lost);
        w.cut();
        let mut rng = Rng::new(setup.seed ^ n);
        if twice {
            w.boot(create);
            let m = rng.between(1, 60) as usize;
            w.run(m);
            w.cut();
        }
        recover(&mut w, lost, create, &mut rng)
            .map_err(|e| format!("seed {}, cut after {n} events: {e}", setup.seed))?;
        if ended {
            return Ok(());
        }
    }
    Ok(())
}

/// Both legs must start; the survivor alone may.
fn recover(w: &mut World, lost: Option<usize>, how: OpenHow, rng: &mut Rng) -> Result<(), String> {
    if let Some(leg) = lost {
        if rng.below(2) == 0 && w.open(how).is_ok() {
            w.read_all();
            let a = w.write(7, 3);
            w.wait(&[a]);
            w.back(leg);
        } else {
            w.cut();
            w.disk(leg).lost = false;
            w.open(how).map_err(|e| e.to_string())?;
        }
    } else {
        w.open(how).map_err(|e| e.to_string())?;
    }
    w.read_all();
    w.run(20_000);
    w.read_all();
    w.run(20_000);
    if w.wrong.is_none() {
        w.check_equal();
    }
    // What was read must be there after one more cut.
    w.cut();
    w.open(how).map_err(|e| e.to_string())?;
    w.read_all();
    w.wrong.take().map_or(Ok(()), Err)
}

const STORIES: [(&str, Story); 5] = [
    ("idle", idle),
    ("plain", plain),
    ("leader leaves", leader_leaves),
    ("follower leaves", follower_leaves),
    ("replaced", replaced),
];

#[test]
fn a_cut_at_any_step_loses_nothing_promised() {
    for seed in seeds(1) {
        for (name, story) in STORIES {
            for twice in [false, true] {
                if let Err(wrong) = cut_everywhere(story, &Setup::small(seed), twice) {
                    panic!("story `{name}`, twice {twice}: {wrong}");
                }
            }
        }
    }
}

/// A leg goes away at any step of a story, the start and the end included, and comes back after it.
fn lose_everywhere(story: Story, leg: usize, setup: &Setup) -> Result<(), String> {
    let create = OpenHow { create: true, ..OpenHow::default() };
    for n in 1.. {
        let told = |e: String| format!("seed {}, leg {leg} is lost after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.ambush = Some((n, leg));
        if w.open(create).is_ok() {
            story(&mut w);
        }
        if w.wrong.is_none() && w.graph().is_open(2) {
            w.close();
        }
        let ended = w.ambush.take().is_some();
        for leg in [A, B] {
            w.disk(leg).lost = false;
        }
        let wrong = w.wrong.take();
        w.cut();
        wrong.map_or(Ok(()), Err).map_err(told)?;
        w.open(create).map_err(|e| told(e.to_string()))?;
        w.read_all();
        w.run(20_000);
        w.read_all();
        w.run(20_000);
        if w.wrong.is_none() {
            w.check_equal();
        }
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_leg_may_leave_at_any_step() {
    for seed in seeds(1) {
        for (name, story) in STORIES {
            for leg in [A, B] {
                if let Err(wrong) = lose_everywhere(story, leg, &Setup::small(seed)) {
                    panic!("story `{name}`: {wrong}");
                }
            }
        }
    }
}

/// Faults with a narrow window are found by cutting everywhere.
pub fn finds(plant: &str, patience: u64) -> Option<(u64, String)> {
    STORIES.iter().find_map(|(_, story)| {
        (0..patience).find_map(|seed| {
            let setup = Setup::small(seed).plant(plant);
            cut_everywhere(*story, &setup, false).err().map(|wrong| (seed, wrong))
        })
    })
}
