//! Whose request arrives next.
//!
//! A workload that waits for a request to end is asked again when one of its own has ended, and no other workload is. The earliest
//! arrival is found in a tournament: each workload plays its neighbour, the winners play each other, and who has a new time plays
//! its way up again. So an arrival among n workloads costs log2 n matches.

use super::{Host, Player};
use crate::engine::Engine;
use nandu_base::Instant;

/// The arrival time of a request that cannot arrive yet.
pub(super) const NEVER: Instant = Instant(u64::MAX);

/// When the next request of a workload arrives.
#[derive(Clone, Copy)]
struct Due {
    at: Instant,
    /// It waits for a request to end.
    waits: bool,
}

/// When the next request of each player arrives.
pub(super) struct Arrivals {
    /// By player, with nobody's behind them up to a power of two.
    due: Vec<Due>,
    /// The winner of each match: that of match `n` plays in match `n / 2`. The last matches are the players themselves.
    winners: Vec<u32>,
    /// The earliest of them, and whose it is. Ties go to the first player.
    first: (usize, Instant),
    players: usize,
    /// Players that wait for a request to end: after each event those are asked again that it concerns.
    waiting: usize,
}

impl Arrivals {
    pub fn new<S: Host>(players: &mut [Player<'_>], sink: &S) -> Arrivals {
        let places = players.len().next_power_of_two();
        let mut winners: Vec<u32> = (0..2 * places as u32).map(|n| n.saturating_sub(places as u32)).collect();
        (1..places).rev().for_each(|n| winners[n] = winners[2 * n]);
        let due = vec![Due { at: NEVER, waits: false }; places];
        let mut arrivals = Arrivals { due, winners, first: (0, NEVER), players: players.len(), waiting: 0 };
        for (who, player) in players.iter_mut().enumerate() {
            arrivals.ask(who, player, sink);
        }
        arrivals
    }

    /// Asks one player.
    #[inline(always)]
    fn ask<S: Host>(&mut self, who: usize, player: &mut Player<'_>, sink: &S) {
        let at = player.due(who, sink);
        self.note(who, at, at == NEVER && !player.is_over());
    }

    /// Notes what a player has answered.
    #[inline(always)]
    fn note(&mut self, who: usize, at: Instant, waits: bool) {
        let before = std::mem::replace(&mut self.due[who], Due { at, waits });
        self.waiting = self.waiting + usize::from(waits) - usize::from(before.waits);
        if self.players == 1 {
            self.first.1 = at;
        } else if before.at != at {
            self.play(who);
        }
    }

    /// Plays the matches of `who`, whose time is another.
    #[inline(always)]
    fn play(&mut self, who: usize) {
        let mut place = (who + self.due.len()) / 2;
        while place > 0 {
            let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
            let is_left = self.due[left as usize].at <= self.due[right as usize].at;
            self.winners[place] = if is_left { left } else { right };
            place /= 2;
        }
        let first = self.winners[1] as usize;
        self.first = (first, self.due[first].at);
    }

    /// Player `who` has sent a request in.
    #[inline(always)]
    pub fn sent<S: Host>(&mut self, who: usize, player: &mut Player<'_>, sink: &S) {
        let at = player.due(who, sink);
        if self.players == 1 && at != NEVER {
            self.first.1 = at;
        } else {
            self.note_answer(who, at, at == NEVER && !player.is_over());
        }
    }

    #[inline(never)]
    fn note_answer(&mut self, who: usize, at: Instant, waits: bool) {
        self.note(who, at, waits);
    }

    /// The earliest arrival, once all events that come before it have passed; `None` when there is none.
    #[inline(always)]
    pub fn next<S: Host>(
        &mut self,
        players: &mut [Player<'_>],
        engine: &mut Engine<S>,
    ) -> Option<(usize, Instant)> {
        while self.waiting > 0 && self.wait(players, engine) {}
        let (who, at) = self.first;
        if at == NEVER {
            return None;
        }
        // No event can bring an arrival forward unless some workload waits for one.
        while engine.is_due(at) {
            engine.step_here();
        }
        Some((who, at))
    }

    /// Lets one event pass that comes before the earliest arrival, and asks the players again of whom a request has ended. False
    /// when none comes before it.
    #[inline(never)]
    fn wait<S: Host>(&mut self, players: &mut [Player<'_>], engine: &mut Engine<S>) -> bool {
        let at = self.first.1;
        if !engine.is_due(at) {
            assert!(at != NEVER, "requests are outstanding but nothing will happen");
            return false;
        }
        engine.step();
        if let [player] = players {
            self.ask(0, player, engine.sink());
            return true;
        }
        let mut touched = engine.sink().touched();
        while touched != 0 {
            let first = touched.trailing_zeros() as usize;
            touched &= touched - 1;
            for who in (first..self.players).step_by(u64::BITS as usize) {
                self.ask(who, &mut players[who], engine.sink());
            }
        }
        true
    }
}
