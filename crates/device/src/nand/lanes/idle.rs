//! I-17: no die idles while an operation that may run waits for it.
//!
//! The executor gives an operation its time when nothing stands before it any more, so a die whose timeline only grows never keeps
//! a hole that something could have used. This watches it: a die that is promised to an operation before that operation may run has a
//! hole, and an operation that comes to it before the hole has passed and begins behind it was kept waiting for nothing. That a die waits
//! for its channel is no hole. A scheduler inside a die may leave it idle for a reader that it awaits: until when is what it said before, and no longer
//! than its options let it wait. RAM: 16 bytes for each die, where it is watched.

use super::Lanes;
use nandu_base::{Instant, Violation};

/// What is watched.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    /// The last hole of each die: idle from and to.
    holes: Vec<(Instant, Instant)>,
    /// The first operation that was kept waiting.
    broken: Option<String>,
    /// Nothing else comes in between: the drive stands still.
    is_off: bool,
}

impl Lanes {
    /// From here on it is seen whether dies idle while something waits for them.
    pub fn watch_idleness(&mut self) {
        let holes = vec![(Instant::ZERO, Instant::ZERO); self.dies.len()];
        self.idle = Some(Box::new(Idle { holes, broken: None, is_off: false }));
        self.is_noted = true;
    }

    /// Nothing else comes in between from here on, or may again.
    pub fn stand_still(&mut self, stands: bool) {
        if let Some(idle) = &mut self.idle {
            idle.is_off = stands;
            idle.holes.fill((Instant::ZERO, Instant::ZERO));
        }
    }

    /// An operation that may run from `ready` on came to a die that was free at `free_at`.
    #[cold]
    pub(super) fn note_idleness(&mut self, die: u32, ready: Instant, free_at: Instant) {
        let clock = self.clock;
        let Some(idle) = self.idle.as_deref_mut().filter(|idle| !idle.is_off) else { return };
        let (from, to) = idle.holes[die as usize];
        if ready < to && free_at >= to && idle.broken.is_none() {
            idle.broken = Some(format!(
                "die {die} idles from {from} to {to} while an operation that may run from {ready} on waits for it"
            ));
        }
        let idle_from = free_at.later(clock);
        if idle_from < ready {
            idle.holes[die as usize] = (idle_from, ready);
        }
    }

    /// An operation that could have begun at `ready` begins at `now` on a die that was free at `free_at`.
    pub fn note_late(&mut self, die: u32, ready: Instant, now: Instant) {
        let from = self.free_at(die).later(ready);
        if let Some(idle) = self.idle.as_deref_mut().filter(|idle| !idle.is_off)
            && from < now
            && idle.broken.is_none()
        {
            idle.broken = Some(format!("die {die} idles from {from} to {now} although an operation may run"));
        }
    }

    /// I-17.
    pub fn check_idleness(&self) -> Result<(), Violation> {
        match self.idle.as_ref().and_then(|idle| idle.broken.clone()) {
            Some(what) => Err(Violation { invariant: "I-17", what }),
            None => Ok(()),
        }
    }
}
