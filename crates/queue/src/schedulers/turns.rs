//! Turns: one after another has the device for a slice of time. What CFQ, its slices by service level and CFFQ share.
//!
//! A turn ends when its time is up, or when the one whose turn it is has nothing to ask for. Time used beyond the end is
//! taken off the next turn, down to a quarter of it.

use nandu_base::{Instant, Span};

/// Whose turn it is.
#[derive(Clone, Debug)]
pub struct Turns {
    active: Option<usize>,
    end: Instant,
    slice: Span,
    last: usize,
    /// Time each used beyond the end of its last turn.
    over: Vec<u64>,
    /// Turns that were given.
    pub given: u64,
}

impl Turns {
    /// Nobody's turn among `players`.
    pub fn new(players: usize) -> Turns {
        Turns {
            active: None,
            end: Instant::ZERO,
            slice: Span::ZERO,
            last: players - 1,
            over: vec![0; players],
            given: 0,
        }
    }

    /// Whose turn it is, and until when. Ends the turn when its time is up.
    pub fn current(&mut self, now: Instant) -> Option<(usize, Instant)> {
        let player = self.active?;
        if now < self.end {
            return Some((player, self.end));
        }
        self.over[player] = now.since(self.end).0.min(self.slice.0 * 3 / 4);
        self.active = None;
        None
    }

    /// The one whose turn it is has nothing more to ask for.
    pub fn pass(&mut self) {
        self.active = None;
    }

    /// Gives the next turn to the first player behind the last one for whom `wants` holds; its slice is that of `slice`.
    pub fn give(
        &mut self,
        now: Instant,
        wants: impl Fn(usize) -> bool,
        slice: impl Fn(usize) -> Span,
    ) -> usize {
        let players = self.over.len();
        let next = (1..=players)
            .map(|step| (self.last + step) % players)
            .find(|&player| wants(player))
            .expect("somebody waits");
        self.slice = slice(next);
        self.end = now + Span((self.slice.0 - self.over[next].min(self.slice.0 * 3 / 4)).max(1));
        (self.over[next], self.active, self.last) = (0, Some(next), next);
        self.given += 1;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_beyond_the_end_is_taken_off_the_next_turn() {
        let mut turns = Turns::new(2);
        let slice = |_| Span(100);
        assert_eq!(turns.give(Instant(0), |_| true, slice), 0);
        assert_eq!(turns.current(Instant(99)), Some((0, Instant(100))));
        assert_eq!(turns.current(Instant(130)), None);
        assert_eq!(turns.give(Instant(130), |_| true, slice), 1);
        turns.pass();
        assert_eq!(turns.give(Instant(140), |_| true, slice), 0);
        assert_eq!(turns.current(Instant(140)), Some((0, Instant(210))));
        assert_eq!(turns.current(Instant(9000)), None);
        // Only 0 wants: it may go on, with a quarter of a slice.
        assert_eq!(turns.give(Instant(9000), |p| p == 0, slice), 0);
        assert_eq!(turns.current(Instant(9024)), Some((0, Instant(9025))));
    }
}
