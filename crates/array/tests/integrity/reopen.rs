//! The device goes and comes back, as it was, as another one, or while the machine is being closed.

use crate::harness::CREATE;
use crate::world::{PAGE, Setup, World};
use nandu_base::{ErrorKind, Notice, OpenOptions, Rng};

fn written(seed: u64) -> World {
    let mut w = World::new(Setup::small(seed));
    w.open(CREATE).expect("a blank disk is taken");
    let count = 4 * w.setup.block();
    let a = w.write(0, count);
    let f = w.flush();
    w.wait(&[a, f]);
    w
}

/// The sectors of both superblocks.
fn superblocks(w: &World) -> Vec<u64> {
    let first = w.layout.superblock / 512;
    (first..first + 2 * PAGE / 512).collect()
}

fn read(w: &mut World) -> Option<ErrorKind> {
    let count = 4 * w.setup.block();
    let r = w.read(0, count);
    w.wait(&[r]);
    assert_eq!(w.wrong, None);
    w.answers[&r].error.map(|e| e.kind)
}

/// Whatever came after one that was refused was not looked at any more.
#[test]
fn a_device_that_comes_back_as_another_one_is_refused_and_the_right_one_is_taken() {
    for (seed, goes_again) in [(0, true), (1, true), (0, false)] {
        let mut w = written(seed);
        w.lose(0);
        let sectors = superblocks(&w);
        w.disk(0).bad.extend(sectors);
        w.back(0);
        w.run(1000);
        assert_eq!(read(&mut w), Some(ErrorKind::Gone));
        assert_eq!(w.notices.iter().filter(|n| **n == Notice::Refused(0)).count(), 1, "it says so, once");
        w.disk(0).bad.clear();
        w.run(1000);
        assert_eq!(read(&mut w), Some(ErrorKind::Gone), "nobody says that it is another one");
        if goes_again {
            w.lose(0);
        }
        w.back(0);
        w.run(1000);
        assert_eq!(read(&mut w), None);
        let a = w.write(0, 8);
        w.wait(&[a]);
        assert!(w.is_ok(a));
        w.close();
        assert_eq!(w.wrong, None);
    }
}

/// Closed at any step of a start after the device came back: as it was, with damaged records, or blank.
#[test]
fn a_close_ends_at_any_step_of_a_start_after_a_loss() {
    for what in ["as it was", "damaged", "blank"] {
        for events in 0..60 {
            let mut w = written(events as u64 % 2);
            w.lose(0);
            let sectors = superblocks(&w);
            match what {
                "damaged" => w.disk(0).bad.extend(sectors),
                "blank" => w.disk(0).wipe(),
                _ => {}
            }
            w.back(0);
            w.run(events);
            w.close();
            assert_eq!(w.wrong, None, "{what}, closed after {events} events");
            if what == "as it was" {
                w.cut();
                w.open(OpenOptions::default()).expect("it is whole");
                w.read_all();
                assert_eq!(w.wrong, None, "closed after {events} events");
            }
        }
    }
}

/// Closed between the return of the device and the last answer of before: what was written may be lost, so its marks stay.
#[test]
fn a_close_after_a_loss_takes_no_mark_away() {
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut w = written(seed);
        let b = w.setup.block();
        for _ in 0..rng.between(1, 6) {
            w.write(rng.below(40) * b, rng.between(1, 4) * b);
            w.write((1024 / b + rng.below(9)) * b, b);
        }
        w.run(rng.below(30) as usize);
        w.lose(0);
        w.back(0);
        w.run(rng.below(3) as usize);
        w.close();
        w.cut();
        w.open(OpenOptions::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        w.read_all();
        assert_eq!(w.wrong, None, "seed {seed}");
    }
}
