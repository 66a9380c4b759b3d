//! Turns: one after another has the device for a slice. What CFQ, its slices by service level and CFFQ share.
//!
//! A slice is an amount of *device time*, by what the requests sent in it are taken to cost, or of *time by the clock*. The clock begins when a
//! request of the one whose turn it is has ended, as in Linux (`cfq_completed_request`, where a new slice is given its
//! end): until then the device works off what others sent. A turn ends when its slice is used up, or when the one whose turn it is has nothing to
//! ask for. Time beyond the end is taken off the next turn, down to a quarter of it; device time all of it, and whoever owes a whole slice is
//! passed over once for it.

use nandu_base::{Instant, Span};

/// What a slice is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The time from the first end of a request of one's own.
    Clock,
    /// Device time.
    Cost,
}

/// Whose turn it is.
#[derive(Clone, Debug)]
pub struct Turns {
    by: By,
    active: Option<usize>,
    /// What is left of the slice; by the clock, while that has not begun.
    left: u64,
    /// By the clock, once that has begun.
    end: Option<Instant>,
    slice: Span,
    last: usize,
    /// What each used beyond the end of its last turn.
    over: Vec<u64>,
    /// Turns that were given.
    pub given: u64,
}

impl Turns {
    /// Nobody's turn among `players`.
    pub fn new(by: By, players: usize) -> Turns {
        Turns {
            by,
            active: None,
            left: 0,
            end: None,
            slice: Span::ZERO,
            last: players - 1,
            over: vec![0; players],
            given: 0,
        }
    }

    /// Whose turn it is, and until when if a clock says it. Ends the turn when its slice is used up.
    pub fn current(&mut self, now: Instant) -> Option<(usize, Option<Instant>)> {
        let player = self.active?;
        match self.end {
            None if self.left > 0 => return Some((player, None)),
            Some(end) if now < end => return Some((player, Some(end))),
            Some(end) => self.over[player] = now.since(end).0.min(self.slice.0 * 3 / 4),
            None => {}
        }
        self.active = None;
        None
    }

    /// A request of the one whose turn it is was sent, which takes the device so long.
    pub fn sent(&mut self, cost: Span) {
        if let (By::Cost, Some(player)) = (self.by, self.active) {
            self.over[player] = cost.0.saturating_sub(self.left);
            self.left = self.left.saturating_sub(cost.0);
        }
    }

    /// A request of `player` has ended.
    pub fn done(&mut self, player: usize, now: Instant) {
        if self.by == By::Clock && self.active == Some(player) && self.end.is_none() {
            self.end = Some(now + Span(self.left));
        }
    }

    /// The one whose turn it is has nothing more to ask for.
    pub fn pass(&mut self) {
        self.active = None;
    }

    /// Gives the next turn to the first player behind the last one for whom `wants` holds; its slice is that of `slice`.
    pub fn give(&mut self, wants: impl Fn(usize) -> bool, slice: impl Fn(usize) -> Span) -> usize {
        let players = self.over.len();
        loop {
            let next = (1..=players)
                .map(|step| (self.last + step) % players)
                .find(|&player| wants(player))
                .expect("a tenant waits");
            (self.slice, self.last) = (slice(next), next);
            let over = std::mem::take(&mut self.over[next]);
            if self.by == By::Cost && over >= self.slice.0 {
                self.over[next] = over - self.slice.0.max(1);
                continue;
            }
            let over = if self.by == By::Clock { over.min(self.slice.0 * 3 / 4) } else { over };
            self.left = (self.slice.0 - over).max(1);
            (self.active, self.end) = (Some(next), None);
            self.given += 1;
            return next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: fn(usize) -> Span = |_| Span(100);

    #[test]
    fn time_beyond_the_end_is_taken_off_the_next_turn() {
        let mut turns = Turns::new(By::Clock, 2);
        assert_eq!(turns.give(|_| true, SLICE), 0);
        turns.done(0, Instant(0));
        assert_eq!(turns.current(Instant(99)), Some((0, Some(Instant(100)))));
        assert_eq!(turns.current(Instant(130)), None);
        assert_eq!(turns.give(|_| true, SLICE), 1);
        turns.pass();
        assert_eq!(turns.give(|_| true, SLICE), 0);
        turns.done(0, Instant(140));
        assert_eq!(turns.current(Instant(140)), Some((0, Some(Instant(210)))));
        assert_eq!(turns.current(Instant(9000)), None);
        // Only 0 wants: it may go on, with a quarter of a slice.
        assert_eq!(turns.give(|p| p == 0, SLICE), 0);
        turns.done(0, Instant(9000));
        assert_eq!(turns.current(Instant(9024)), Some((0, Some(Instant(9025)))));
    }

    #[test]
    fn the_clock_begins_with_the_first_end_of_ones_own() {
        let mut turns = Turns::new(By::Clock, 2);
        assert_eq!(turns.give(|_| true, SLICE), 0);
        turns.done(1, Instant(500));
        assert_eq!(turns.current(Instant(5000)), Some((0, None)), "the other one's requests drain");
        turns.done(0, Instant(5000));
        turns.done(0, Instant(5050));
        assert_eq!(turns.current(Instant(5099)), Some((0, Some(Instant(5100)))));
        assert_eq!(turns.current(Instant(5100)), None);
    }

    #[test]
    fn a_slice_of_device_time_lasts_as_long_as_what_is_sent_in_it() {
        let mut turns = Turns::new(By::Cost, 2);
        assert_eq!(turns.give(|_| true, SLICE), 0);
        turns.sent(Span(60));
        assert_eq!(turns.current(Instant(9000)), Some((0, None)));
        turns.sent(Span(60));
        assert_eq!(turns.current(Instant(9000)), None);
        assert_eq!(turns.give(|_| true, SLICE), 1);
        turns.pass();
        assert_eq!(turns.give(|_| true, SLICE), 0);
        turns.sent(Span(80));
        assert_eq!(turns.current(Instant(9000)), None, "20 were used before");
        assert_eq!(turns.give(|_| true, SLICE), 1);
        turns.sent(Span(350));
        let next: Vec<usize> = (0..6).map(|_| turns.give(|_| true, SLICE)).collect();
        assert_eq!(next, [0, 0, 0, 1, 0, 1], "two slices of 1 are paid, and half of the third");
    }
}
