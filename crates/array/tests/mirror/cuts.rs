//! Cuts at every step: each story is told again and again, and the power is cut one event later every time.

use crate::random::seeds;
use crate::scenarios::newest as superblock;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::decide::common;
use nandu_array::mirror::hetero::{AckMode, DelayOrder, FlushMode};
use nandu_base::{Op, OpenOptions, Rng, Span};

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
        let create = OpenOptions { create: true, ..OpenOptions::default() };
        let made = w.open(create);
        if !w.is_over() {
            made.map_err(|e| format!("creation: {e}"))?;
            story(&mut w);
        }
        let ended = !w.is_over();
        if let Some(wrong) = w.wrong.take() {
            return Err(wrong);
        }
        let lost = (0..w.legs()).find(|&leg| w.disk(leg).lost);
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
fn recover(w: &mut World, lost: Option<usize>, how: OpenOptions, rng: &mut Rng) -> Result<(), String> {
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

/// Writes and flushes while one leg is far behind, then it is left alone.
fn behind(w: &mut World) {
    for round in 0..3 {
        let a = w.write(round * 3, 12);
        let b = w.write(130 + round, 2);
        wait(w, &[a, b]);
        let f = w.flush();
        wait(w, &[f]);
        let c = w.write(2, 3);
        let r = w.read(0, 20);
        wait(w, &[c, r]);
    }
    w.lose(A);
    let d = w.write(1, 2);
    let f = w.flush();
    wait(w, &[d, f]);
    rest(w);
}

/// The setups that every story is told in: a mirror, and a hetero-mirror whose follower or leader lags.
fn setups(seed: u64) -> Vec<(&'static str, Setup)> {
    let lagging = |leg, flush, ack, queue| {
        let mut setup = Setup::small(seed);
        (setup.slow, setup.slow_leg) = (30, leg);
        setup.hetero(|h| {
            (h.flush_scope, h.write_ack, h.delay_order) = (flush, ack, queue);
            h.max_exposed_time = Span::from_ms(1);
        })
    };
    use {AckMode::*, DelayOrder::*, FlushMode::AllLegs};
    vec![
        ("mirror", Setup::small(seed)),
        ("all legs, the follower lags", lagging(1, AllLegs, First, Elevator)),
        ("all legs, the leader lags", lagging(0, AllLegs, WaitLimit, Fifo)),
        ("leader, the follower lags", lagging(1, FlushMode::Leader, First, Elevator)),
        ("leader, the leader lags", lagging(0, FlushMode::Leader, First, Fifo)),
        ("written behind", lagging(1, AllLegs, Leader, Fifo)),
        ("three legs", Setup::small(seed).three()),
    ]
}

const STORIES: [(&str, Story); 6] = [
    ("idle", idle),
    ("plain", plain),
    ("leader leaves", leader_leaves),
    ("follower leaves", follower_leaves),
    ("replaced", replaced),
    ("behind", behind),
];

#[test]
fn a_cut_at_any_step_loses_nothing_promised() {
    for seed in seeds(1) {
        for (name, story) in STORIES {
            for (options, setup) in setups(seed) {
                for twice in [false, true] {
                    if let Err(wrong) = cut_everywhere(story, &setup, twice) {
                        panic!("{options}, story `{name}`, twice {twice}: {wrong}");
                    }
                }
            }
        }
    }
}

/// A leg goes away at any step of a story, the start and the end included, and comes back after it.
fn lose_everywhere(story: Story, leg: usize, setup: &Setup) -> Result<(), String> {
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    for n in 1.. {
        let told = |e: String| format!("seed {}, leg {leg} is lost after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.ambush = Some((n, leg));
        if w.open(create).is_ok() {
            story(&mut w);
        }
        if w.wrong.is_none() && w.graph().is_open(w.top()) {
            w.close();
        }
        let ended = w.ambush.take().is_some();
        for leg in 0..w.legs() {
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
            for (options, setup) in setups(seed) {
                for leg in 0..setup.config.legs.len() {
                    if let Err(wrong) = lose_everywhere(story, leg, &setup) {
                        panic!("{options}, story `{name}`: {wrong}");
                    }
                }
            }
        }
    }
}

/// Every cut of a story in which one leg dies with the power, and the other is told to start alone. When both were of one
/// generation it knows what it may lack, and shows nothing older than what was flushed.
fn die_everywhere(story: Story, leg: usize, setup: &Setup) -> Result<(), String> {
    let create = OpenOptions { create: true, ..OpenOptions::default() };
    for n in 1.. {
        let mut w = World::new(setup.clone());
        w.fuse = Some(n);
        if w.open(create).is_ok() && !w.is_over() {
            story(&mut w);
        }
        let ended = !w.is_over();
        w.cut();
        let records: Vec<_> = (0..w.legs()).filter_map(|l| superblock(&w, l)).collect();
        if records.len() == w.legs() && records[1..].iter().all(|other| common(&records[0], other).is_some())
        {
            (0..w.legs()).for_each(|l| w.disk(l).lost = l == leg);
            w.may_lose = true;
            let alone = OpenOptions { alone: true, ..OpenOptions::default() };
            let mut rng = Rng::new(setup.seed ^ n);
            if rng.below(2) == 0 {
                w.boot(alone);
                w.run(rng.between(1, 40) as usize);
                w.cut();
            }
            if w.open(alone).is_ok() {
                w.read_all();
            }
            let told = |e| format!("seed {}, leg {leg} dies after {n} events: {e}", setup.seed);
            w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        }
        if ended {
            break;
        }
    }
    Ok(())
}

/// Data that died with the leader is written again, and the power is cut at every step of that.
fn heal_everywhere(setup: &Setup) -> Result<(), String> {
    let how = OpenOptions { create: true, ..OpenOptions::default() };
    for n in 1.. {
        let mut w = World::new(setup.clone());
        w.open(how).map_err(|e| e.to_string())?;
        let a = w.write(0, 20);
        let b = w.write(130, 20);
        w.wait(&[a, b]);
        rest(&mut w);
        let a = w.write(0, 20);
        w.wait(&[a]);
        let f = w.flush();
        w.wait(&[f]);
        w.disk(B).hold_back();
        w.cut();
        w.disk(A).lost = true;
        w.may_lose = true;
        w.open(OpenOptions { alone: true, ..OpenOptions::default() }).map_err(|e| e.to_string())?;
        if w.counter("lost_bytes") == 0 {
            return Err("nothing is lost when the leader dies".into());
        }
        w.fuse = Some(n);
        let c = w.change(Op::Write, 4, 6, true);
        wait(&mut w, &[c]);
        let d = w.write(8, 8);
        wait(&mut w, &[d]);
        let f = w.flush();
        wait(&mut w, &[f]);
        let healed = [w.is_ok(c), w.is_ok(d) && w.is_ok(f)];
        let ended = !w.is_over();
        let wrong = w.wrong.take();
        w.cut();
        let told = |e| format!("seed {}, cut after {n} events: {e}", setup.seed);
        wrong.map_or(Ok(()), Err).map_err(told)?;
        w.open(OpenOptions::default()).map_err(|e| told(e.to_string()))?;
        for (healed, first, count) in [(healed[0], 4, 4), (healed[1], 8, 8)] {
            let r = w.read(first, count);
            w.wait(&[r]);
            if healed && !w.is_ok(r) {
                return Err(told(format!("sectors {first}+{count} were flushed and are lost again")));
            }
        }
        w.read_all();
        // The leader is back, and must not bring its own data along.
        w.back(A);
        rest(&mut w);
        w.read_all();
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

fn healing(seed: u64) -> Setup {
    let mut setup = Setup::small(seed);
    setup.slow = 30;
    setup.hetero(|h| h.flush_scope = FlushMode::Leader)
}

#[test]
fn a_leg_that_goes_on_alone_shows_nothing_older_than_flushed() {
    for seed in seeds(1) {
        for (name, story) in STORIES {
            for (options, setup) in setups(seed) {
                for leg in 0..setup.config.legs.len() {
                    if let Err(wrong) = die_everywhere(story, leg, &setup) {
                        panic!("{options}, story `{name}`: {wrong}");
                    }
                }
            }
        }
    }
}

#[test]
fn lost_data_written_again_stays_written() {
    for seed in seeds(4) {
        heal_everywhere(&healing(seed)).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Faults with a narrow window are found by cutting everywhere: in every story of a mirror, or of a hetero-mirror too.
pub fn finds(plant: &str, patience: u64, hetero: bool) -> Option<(u64, String)> {
    let told = |seed: u64, result: Result<(), String>| result.err().map(|wrong| (seed, wrong));
    let kinds = if hetero { 5 } else { 1 };
    let in_story = |name: &str, story: Story, seed: u64| {
        let mut setups = setups(seed).into_iter().take(kinds).map(|(_, setup)| setup.plant(plant));
        let by_cut = |setup: &Setup| {
            cut_everywhere(story, setup, false).and_then(|()| match name {
                "behind" | "follower leaves" => die_everywhere(story, A, setup),
                _ => Ok(()),
            })
        };
        setups.find_map(|setup| told(seed, by_cut(&setup)))
    };
    let stories = |seed| STORIES.iter().find_map(|(name, story)| in_story(name, *story, seed));
    (0..patience).find_map(stories).or_else(|| finds_healing(plant, if hetero { 20 * patience } else { 0 }))
}

/// Faults that only several survivors show.
pub fn finds_of_three(plant: &str) -> Option<(u64, String)> {
    let setup = Setup::small(0).three().plant(plant);
    STORIES.iter().find_map(|(_, story)| Some((0, cut_everywhere(*story, &setup, false).err()?)))
}

/// Faults in how lost data are written again.
pub fn finds_healing(plant: &str, patience: u64) -> Option<(u64, String)> {
    (0..patience).find_map(|seed| Some((seed, heal_everywhere(&healing(seed).plant(plant)).err()?)))
}
