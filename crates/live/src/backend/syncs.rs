//! Syncs of one file that go on beside each other.
//!
//! The kernel tells an error of writing back once for each open file: of two syncs that wait for the same page one gets the error, and the other one
//! hears that all is well. So a sync that has succeeded waits for those that were under way when it ended, and fails if one of them did.
//!
//! Cost: a lock before and two after each sync; nobody waits for a sync that began later.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Turns {
    next: u64,
    under_way: Vec<u64>,
    /// One has failed: no later one is believed.
    failed: bool,
}

impl Turns {
    fn verdict(&self, last: Turn) -> Option<bool> {
        (!self.under_way.iter().any(|&other| other <= last.0)).then_some(!self.failed)
    }
}

/// A sync, by its place among those of its file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Turn(u64);

/// The syncs of an open file.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    turns: Mutex<Turns>,
    ended: Condvar,
}

impl Syncs {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `sync`; `Ok(false)`: it has succeeded, but one beside it or before it has failed.
    ///
    /// # Errors
    /// The error of `sync`.
    pub fn run<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        let turn = self.begin();
        let result = sync();
        let last = self.end(turn, result.is_err());
        result?;
        let mut turns = self.turns();
        loop {
            match turns.verdict(last) {
                Some(is_durable) => return Ok(is_durable),
                None => turns = self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// A sync begins.
    pub fn begin(&self) -> Turn {
        let mut turns = self.turns();
        turns.next += 1;
        let turn = turns.next;
        turns.under_way.push(turn);
        Turn(turn)
    }

    /// It has ended. One that has succeeded waits for the [`Syncs::verdict`] of those up to what is returned.
    pub fn end(&self, turn: Turn, is_failed: bool) -> Turn {
        let mut turns = self.turns();
        turns.failed |= is_failed;
        turns.under_way.retain(|&other| other != turn.0);
        self.ended.notify_all();
        Turn(turns.next)
    }

    /// Whether a sync that has succeeded is to be believed; `None` as long as one up to `last` is under way.
    pub fn verdict(&self, last: Turn) -> Option<bool> {
        self.turns().verdict(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// The kernel has told the one of the error, and the other one succeeds before the first has come back.
    #[test]
    fn a_sync_beside_one_that_fails_fails_too() {
        let syncs = Syncs::default();
        let (both_began, other_ended) = (Barrier::new(2), Barrier::new(2));
        let (told, other) = std::thread::scope(|scope| {
            let told = scope.spawn(|| {
                syncs.run(|| {
                    both_began.wait();
                    other_ended.wait();
                    Err("an input or output error")
                })
            });
            let other = scope.spawn(|| {
                syncs.run(|| {
                    both_began.wait();
                    other_ended.wait();
                    Ok::<(), &str>(())
                })
            });
            (told.join().expect("no panic"), other.join().expect("no panic"))
        });
        assert_eq!((told, other), (Err("an input or output error"), Ok(false)));
        assert_eq!(syncs.run(|| Ok::<(), &str>(())), Ok(false), "and no later one is believed");
    }
}
