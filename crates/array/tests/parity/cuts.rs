//! Cuts at every step: each story is told again and again, and the power is cut one event later every time. With the cut,
//! or with the start after it, any one leg is lost as well.

use crate::harness::CREATE;
use crate::random::seeds;
use crate::world::{Setup, World};
use nandu_base::{Op, OpenOptions, Rng};

type Story = fn(&mut World);

fn wait(w: &mut World, cookies: &[u64]) {
    if !w.is_over() {
        w.wait(cookies);
    }
}

/// Writes of every kind over each other, more than the journal holds.
fn plain(w: &mut World) {
    let a = w.write(0, 16);
    let b = w.write(20, 3);
    wait(w, &[a, b]);
    let c = w.write(1, 4);
    let d = w.write(2, 1);
    let e = w.change(Op::Trim, 18, 6, false);
    wait(w, &[c, d, e]);
    for k in 0..5 {
        let f = w.write(k * 5, 7);
        let g = w.write(40 + k, 2);
        wait(w, &[f, g]);
    }
    if !w.is_over() {
        w.run(2000);
        let h = w.write(3, 2);
        wait(w, &[h]);
    }
    if !w.is_over() {
        w.close();
    }
}

/// A leg goes, and comes back.
fn parted(w: &mut World) {
    let leg = (w.setup.seed % 3) as usize;
    let a = w.write(0, 20);
    wait(w, &[a]);
    let b = w.write(15, 10);
    w.lose(leg);
    let c = w.write(3, 4);
    // A whole row: nothing is read before it is written.
    let row = w.write(32, 16);
    wait(w, &[b, c, row]);
    let d = w.write(9, 2);
    wait(w, &[d]);
    if w.is_over() {
        return;
    }
    w.back(leg);
    let e = w.write(4, 10);
    let f = w.write(100, 3);
    wait(w, &[e, f]);
    if !w.is_over() {
        w.run(3000);
    }
}

/// Every cut of one story.
fn cut_everywhere(story: Story, setup: &Setup) -> Result<(), String> {
    for n in 1.. {
        let told = |e: String| format!("seed {}, cut after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.fuse = Some(n);
        let made = w.open(CREATE);
        if !w.is_over() {
            made.map_err(|e| told(e.to_string()))?;
            story(&mut w);
        }
        let ended = !w.is_over();
        if let Some(wrong) = w.wrong.take() {
            return Err(told(wrong));
        }
        let mut rng = Rng::new(setup.seed ^ n << 8);
        if rng.below(2) == 0 {
            // Only the process dies, and the power goes in the start that follows.
            w.die();
            w.boot(CREATE);
            let m = rng.between(1, 150) as usize;
            w.run(m);
        }
        w.cut();
        recover(&mut w, &mut rng).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(())
}

fn recover(w: &mut World, rng: &mut Rng) -> Result<(), String> {
    let gone = (0..w.legs()).find(|&l| w.disk(l).lost);
    let leg = gone.unwrap_or(rng.below(w.legs() as u64) as usize);
    // A set that was never finished needs all its legs. A leg that was lost may be back at once.
    w.disk(leg).lost = gone.is_none() || rng.below(2) == 0;
    let started = w.open(CREATE);
    if started.is_ok() {
        w.read_all();
        let a = w.write(7, 3);
        w.wait(&[a]);
        if w.disk(leg).lost {
            w.back(leg);
        }
    } else {
        w.cut();
        w.disk(leg).lost = false;
        w.open(CREATE).map_err(|e| format!("with all legs: {e}"))?;
    }
    w.read_all();
    w.run(20_000);
    if w.wrong.is_none() {
        w.check_parity();
    }
    if let Some(wrong) = w.wrong.take() {
        return Err(wrong);
    }
    w.cut();
    let other = (leg + 1 + rng.below(w.legs() as u64 - 1) as usize) % w.legs();
    w.disk(other).lost = true;
    w.open(CREATE).map_err(|e| format!("without another leg: {e}"))?;
    w.read_all();
    w.wrong.take().map_or(Ok(()), Err)
}

const STORIES: [(&str, Story); 2] = [("plain", plain), ("parted", parted)];

#[test]
fn a_cut_at_any_step_with_a_lost_leg_loses_nothing_acknowledged() {
    for seed in seeds(3) {
        for (name, story) in STORIES {
            if let Err(wrong) = cut_everywhere(story, &Setup::small(seed)) {
                panic!("story `{name}`: {wrong}");
            }
        }
    }
}

/// A leg that is being rebuilt goes at any step and comes back at once, while a write holds what would be rebuilt next.
fn gone_again_everywhere(setup: &Setup) -> Result<(), String> {
    for n in 0..60 {
        let told = |e: String| format!("seed {}, gone again after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.lose(1);
        let a = w.write(0, 120);
        w.wait(&[a]);
        w.back(1);
        w.run(n);
        let b = w.write(64, 120);
        w.lose(1);
        let c = w.write(0, 20);
        w.run(1);
        w.back(1);
        w.wait(&[b, c]);
        w.run(50_000);
        w.check_parity();
        w.read_all();
        w.wrong.take().map_or(Ok(()), |e| Err(told(e)))?;
    }
    Ok(())
}

#[test]
fn a_leg_that_goes_again_at_any_step_is_rebuilt_from_the_front() {
    for seed in seeds(6) {
        if let Err(wrong) = gone_again_everywhere(&Setup { slow: 20, ..Setup::small(seed) }) {
            panic!("{wrong}");
        }
    }
}

/// Power goes while rows are written; the start after it lacks a leg and is cut short at any step; then the leg is back.
fn short_starts(setup: &Setup) -> Result<(), String> {
    for n in 1..60 {
        let told = |e: String| format!("seed {}, cut after {n} events: {e}", setup.seed);
        let mut w = World::new(setup.clone());
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.write(0, 40);
        w.write(64, 7);
        w.run(n);
        w.cut();
        let mut rng = Rng::new(setup.seed ^ (n as u64) << 8);
        let leg = rng.below(w.legs() as u64) as usize;
        w.disk(leg).lost = true;
        w.boot(OpenOptions::default());
        w.run(rng.between(1, 120) as usize);
        w.cut();
        w.disk(leg).lost = false;
        w.open(OpenOptions::default()).map_err(|e| told(e.to_string()))?;
        w.read_all();
        w.run(50_000);
        w.check_parity();
        w.wrong.take().map_or(Ok(()), |e| Err(told(e)))?;
    }
    Ok(())
}

#[test]
fn a_start_without_a_leg_may_be_cut_short_and_the_leg_come_back() {
    for seed in seeds(20) {
        if let Err(wrong) = short_starts(&Setup::small(seed)) {
            panic!("{wrong}");
        }
    }
}

/// Faults with a narrow window are found by cutting everywhere.
pub fn finds(plant: &str, seed: u64) -> Option<String> {
    let setup = || Setup::small(seed).plant(plant);
    let again = || gone_again_everywhere(&Setup { slow: 20, ..setup() });
    let stories = || STORIES.iter().rev().try_for_each(|(_, story)| cut_everywhere(*story, &setup()));
    let again = if seed < 6 { again() } else { Ok(()) };
    again.and_then(|()| short_starts(&setup())).and_then(|()| stories()).err()
}
