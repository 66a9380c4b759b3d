//! What a die does next.
//!
//! Operations that may begin wait in two lines, reads of the host and everything else, each in the order of their
//! numbers; those that may begin later lie apart, by that time. A free die takes the oldest read, unless the oldest
//! other operation is older than it, or was overtaken by `max_read_bypass` reads already. The count starts anew with each
//! operation that is no read, so none is overtaken by more than `max_read_bypass` reads while it is the oldest.
//!
//! Cost: a heap operation per operation. RAM: 16 bytes per waiting operation, 24 while it waits for its time.

use nandu_base::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation that waits: its number in the order of issue, and its node.
type Waiting = Reverse<(u64, u32)>;

/// The queue of one die.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    reads: BinaryHeap<Waiting>,
    others: BinaryHeap<Waiting>,
    /// By the time at which they may begin; the last word says whether it is a read.
    later: BinaryHeap<Reverse<(Instant, u64, u32, bool)>>,
    /// Reads that have overtaken since the last operation that is no read.
    overtaken: u32,
    /// Reads that have overtaken since the counters were reset.
    pub bypasses: u64,
}

impl Line {
    /// Adds an operation that may begin at `ready`.
    pub fn push(&mut self, ready: Instant, number: u64, node: u32, is_read: bool) {
        self.later.push(Reverse((ready, number, node, is_read)));
    }

    /// Puts what may begin at `now` in line.
    pub fn settle(&mut self, now: Instant) {
        while let Some(&Reverse((ready, number, node, is_read))) = self.later.peek() {
            if ready > now {
                break;
            }
            self.later.pop();
            let line = if is_read { &mut self.reads } else { &mut self.others };
            line.push(Reverse((number, node)));
        }
    }

    /// The read that may pass an operation that runs, if any.
    pub fn next_read(&mut self, now: Instant, max_read_bypass: u32) -> Option<u32> {
        self.settle(now);
        let Reverse((_, node)) = self.reads.peek().filter(|_| self.overtaken < max_read_bypass)?;
        Some(*node)
    }

    /// Takes that read.
    pub fn take_read(&mut self) -> Option<u32> {
        self.overtaken += 1;
        self.bypasses += 1;
        self.reads.pop().map(|Reverse((_, node))| node)
    }

    /// When the next operation may begin of those that may not yet.
    pub fn next_ready(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse((ready, ..))| *ready)
    }

    /// Takes the operation that begins at `now`, if any may.
    pub fn next(&mut self, now: Instant, max_read_bypass: u32) -> Option<u32> {
        self.settle(now);
        let overtakes = match (self.reads.peek(), self.others.peek()) {
            (_, None) => return self.reads.pop().map(|Reverse((_, node))| node),
            (None, _) => None,
            (Some(Reverse((read, _))), Some(Reverse((other, _)))) => Some(read > other),
        };
        match overtakes {
            Some(false) => self.reads.pop(),
            Some(true) if self.overtaken < max_read_bypass => {
                self.overtaken += 1;
                self.bypasses += 1;
                self.reads.pop()
            }
            _ => {
                self.overtaken = 0;
                self.others.pop()
            }
        }
        .map(|Reverse((_, node))| node)
    }

    /// When the first of them may begin.
    pub fn earliest(&self) -> Option<Instant> {
        if self.reads.is_empty() && self.others.is_empty() {
            return self.later.peek().map(|Reverse((ready, ..))| *ready);
        }
        Some(Instant::ZERO)
    }

    /// Reads and other operations that wait.
    pub fn waiting(&self) -> (usize, usize) {
        (self.reads.len(), self.others.len() + self.later.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;

    /// The rule, plainly: a list that is searched every time.
    #[derive(Default)]
    struct Slow {
        waiting: Vec<(Instant, u64, bool)>,
        overtaken: u32,
    }

    impl Slow {
        fn next(&mut self, now: Instant, max_read_bypass: u32) -> Option<u64> {
            let oldest =
                |read: bool| self.waiting.iter().filter(|w| w.0 <= now && w.2 == read).map(|w| w.1).min();
            let (read, other) = (oldest(true), oldest(false));
            let number = match (read, other) {
                (None, None) => return None,
                (Some(read), None) => read,
                (Some(read), Some(other)) if read < other => read,
                (Some(read), Some(_)) if self.overtaken < max_read_bypass => {
                    self.overtaken += 1;
                    read
                }
                (_, Some(other)) => {
                    self.overtaken = 0;
                    other
                }
            };
            self.waiting.retain(|w| w.1 != number);
            Some(number)
        }
    }

    #[test]
    fn the_choice_agrees_with_a_list_that_is_searched() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let max_read_bypass = rng.below(4) as u32;
            let (mut line, mut slow) = (Line::default(), Slow::default());
            let (mut now, mut number) = (Instant::ZERO, 0);
            for turn in 0..300 {
                now.0 += rng.below(5);
                if rng.below(2) == 0 {
                    number += 1;
                    let (ready, read) = (Instant(now.0 + rng.below(2) * rng.below(20)), rng.below(2) == 0);
                    line.push(ready, number, number as u32, read);
                    slow.waiting.push((ready, number, read));
                }
                if rng.below(2) == 0 {
                    let (got, want) = (line.next(now, max_read_bypass), slow.next(now, max_read_bypass));
                    assert_eq!(got.map(u64::from), want, "seed {seed}, turn {turn}");
                }
                let can = slow.waiting.iter().map(|w| w.0).min();
                assert_eq!(line.earliest().is_some(), can.is_some(), "seed {seed}, turn {turn}");
            }
        }
    }

    #[test]
    fn no_more_than_reads_ahead_reads_overtake_a_write() {
        for max_read_bypass in 0..5u32 {
            let mut line = Line::default();
            line.push(Instant(0), 1, 1, false);
            // Reads never run out.
            for number in 2..40 {
                line.push(Instant(0), number, number as u32, true);
            }
            let turn = (0..).find(|_| line.next(Instant(0), max_read_bypass) == Some(1)).unwrap();
            assert_eq!(turn, max_read_bypass);
        }
    }
}
