//! Cuts at every step: each story is told again and again, and the power is cut one event later every time.

use crate::harness::CREATE;
use crate::world::{Setup, World};
use nandu_base::{Op, Rng};

/// Writes of several regions over each other, with trims, flushes, FUA and a rest that is long enough for a round.
fn story(w: &mut World) {
    let b = w.setup.block();
    let region = 1024;
    let wait = |w: &mut World, cookies: &[u64]| {
        if !w.is_over() {
            w.wait(cookies);
        }
    };
    let a = w.write(0, 2 * b);
    let c = w.write(b, b);
    let d = w.read(0, 2 * b);
    wait(w, &[a, c, d]);
    let e = w.write(region - b, 2 * b);
    let f = w.change(Op::Write, 8 * b, b, true);
    wait(w, &[e, f]);
    let g = w.flush();
    let h = w.change(Op::Trim, 0, b, false);
    wait(w, &[g, h]);
    let i = w.write(2 * region / b * b, b);
    let j = w.change(Op::WriteZeroes, 8 * b, 3 * b, false);
    let k = w.read(region - b, 2 * b);
    wait(w, &[i, j, k]);
    if !w.is_over() {
        w.run(40);
        let l = w.write(b, b);
        wait(w, &[l]);
    }
    if !w.is_over() {
        w.close();
    }
}

/// The first thing that goes wrong in any cut of the story.
fn cut_everywhere(setup: &Setup) -> Result<u64, String> {
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
            w.run(rng.between(1, 40) as usize);
        }
        w.cut();
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.read_all();
        let b = w.setup.block();
        let a = w.write(8 * b, 3 * b);
        w.wait(&[a]);
        w.close();
        w.cut();
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.read_all();
        w.check_quiet();
        if let Some(wrong) = w.wrong.take() {
            return Err(told(wrong));
        }
        if ended {
            return Ok(n);
        }
    }
    unreachable!("a story ends")
}

#[test]
fn a_cut_at_any_step_leaves_old_or_new_data_and_never_unreadable_ones() {
    for seed in 0..8 {
        let mut setup = Setup::small(seed);
        setup.soiled = seed >= 4;
        let cuts = cut_everywhere(&setup).unwrap_or_else(|e| panic!("{e}"));
        assert!(cuts > 30, "seed {seed}: the story has only {cuts} steps");
    }
}

/// The fault of reads that overlap writes shows on drives only, which take their data at other times than they answer: it is
/// found by the verified simulation.
#[test]
fn each_planted_fault_is_found_by_a_cut() {
    let plants = [
        ("integrity.data-before-mark", "is written and its mark is not durable"),
        ("integrity.clear-before-flush", "unreadable"),
        ("integrity.retake-left-out", "unreadable"),
    ];
    for (plant, says) in plants {
        let found = (0..40).find_map(|seed| cut_everywhere(&Setup::small(seed).plant(plant)).err());
        let told = found.unwrap_or_else(|| panic!("{plant} is not found"));
        assert!(told.contains(says), "{plant}: {told}");
    }
}
