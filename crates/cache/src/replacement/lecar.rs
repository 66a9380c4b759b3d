//! `lecar`: what LRU and LFU would let go, by weights that regret changes.
//!
//! When memory is short a number is drawn: with the weight of LRU the line goes that was not met for the longest time, else the one
//! that was met least often. What goes is remembered by the expert that chose it, each at most as many as half of memory, unless both
//! would have chosen it. When a remembered line comes back after t requests, its expert is blamed: its weight is multiplied by
//! `exp(-rate * d^t)`, where d^N = 0.005 for a memory of N lines, so that early returns count most; then both weights are divided by
//! their sum and kept within 0.01 and 0.99. The line goes on with the count it had. Vietri et al., "Driving cache replacement with ML-based LeCaR",
//! HotStorage 2018; the size of the memories, the bounds and the count that is kept were looked up in the authors' code
//! (`code/algs/lecar.py` of github.com/sylab/cacheus): rate 0.45.
//!
//! Where we differ: of lines met equally often the one whose count stands for the longest time goes first (the code: the smallest block
//! number). Powers are summed as series of multiplications and additions, which are the same on every machine, and the draw comes from a
//! generator of the policy's own. A prefetched block has a count of 0 until it is met. A line of the cache holds one block.
//!
//! Cost: 48 bytes for each line, and 56 for each that is remembered. O(log lines) for each event.

use super::{Arrival, Cause, Hit, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::ghost::GhostQueue;
use crate::list::{Chain, List, NONE};
use nandu_base::{BuildError, Declared, Report, Rng, Violation, options};

/// How much of the blame reaches the weight.
const RATE: f64 = 0.45;
/// Logarithm of what is left of the blame after as many requests as there are lines: ln 0.005.
const FADE: f64 = -5.298_317_366_548_036;
/// Most of the weight that an expert has.
const MOST: f64 = 0.99;

/// Options of `lecar`.
#[options]
#[derive(Clone, Debug)]
pub struct LecarConfig {}

impl Declared for LecarConfig {
    const NAME: &'static str = "lecar";
    const SUMMARY: &'static str = "LRU or LFU, by weights learned from what came back (LeCaR). By blocks.";
    const SOURCE: &'static str = "Vietri et al., HotStorage 2018";
}

impl ReplacementOptions for LecarConfig {
    type Policy = Lecar;

    fn build(&self, room: Room) -> Result<Lecar, BuildError> {
        Ok(Lecar::new(room.slots()))
    }
}

/// e to the power of `x`, for `x` of at most 1.
fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    // Halved until the series is short: e^x = (e^(x / 2^10))^(2^10).
    let small = x / 1024.0;
    let series = (1..=8).rev().fold(1.0, |sum, n| 1.0 + sum * small / f64::from(n));
    (0..10).fold(series, |power, _| power * power)
}

/// What an expert let go: when, and how often it had been met.
#[derive(Clone, Debug)]
struct History {
    lines: GhostQueue,
    /// By entry of `lines`.
    notes: Vec<(u64, u32)>,
}

impl History {
    fn new(most: usize) -> History {
        History { lines: GhostQueue::new(most), notes: vec![(0, 0); most] }
    }

    fn push(&mut self, line: u64, note: (u64, u32)) {
        self.lines.push(line);
        if let Some(entry) = self.lines.entry(line) {
            self.notes[entry as usize] = note;
        }
    }

    fn take(&mut self, line: u64) -> Option<(u64, u32)> {
        let note = self.notes[self.lines.entry(line)? as usize];
        self.lines.remove(line);
        Some(note)
    }
}

/// Slots as a heap, the one with the least (count, time of it) on top.
#[derive(Clone, Debug)]
struct Least {
    heap: Vec<u32>,
    place: Vec<u32>,
    key: Vec<(u32, u64)>,
}

impl Least {
    fn new(slots: usize) -> Least {
        Least { heap: Vec::with_capacity(slots), place: vec![NONE; slots], key: vec![(0, 0); slots] }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        self.key[self.heap[a] as usize] < self.key[self.heap[b] as usize]
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }

    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.less(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let least = [2 * at + 1, 2 * at + 2].into_iter().fold(at, |least, child| {
                match child < self.heap.len() && self.less(child, least) {
                    true => child,
                    false => least,
                }
            });
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn push(&mut self, slot: u32, key: (u32, u64)) {
        self.key[slot as usize] = key;
        self.place[slot as usize] = self.heap.len() as u32;
        self.heap.push(slot);
        self.settle(self.heap.len() - 1);
    }

    fn remove(&mut self, slot: u32) {
        let at = self.place[slot as usize] as usize;
        let last = self.heap.len() - 1;
        self.swap(at, last);
        self.heap.pop();
        if at < last {
            self.settle(at);
        }
    }

    fn set(&mut self, slot: u32, key: (u32, u64)) {
        self.key[slot as usize] = key;
        self.settle(self.place[slot as usize] as usize);
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Lecar {
    slots: f64,
    chain: Chain,
    by_use: List,
    by_count: Least,
    /// The weight of LRU; LFU has the rest.
    lru: f64,
    histories: [History; 2],
    rng: Rng,
    now: u64,
    /// The count with which the line comes that was announced.
    coming: u32,
    returned: [u64; 2],
}

impl Lecar {
    /// For `slots` lines of one block.
    pub fn new(slots: usize) -> Lecar {
        Lecar {
            slots: slots as f64,
            chain: Chain::new(slots),
            by_use: List::default(),
            by_count: Least::new(slots),
            lru: 0.5,
            histories: [History::new(slots / 2), History::new(slots / 2)],
            rng: Rng::new(0),
            now: 0,
            coming: 1,
            returned: [0; 2],
        }
    }

    /// A line that `expert` let go has come back after so many requests.
    fn blame(&mut self, expert: usize, after: u64) {
        self.returned[expert] += 1;
        let loss = exp(-RATE * exp(FADE * after as f64 / self.slots));
        let (mut lru, mut lfu) = (self.lru, 1.0 - self.lru);
        *[&mut lru, &mut lfu][expert] *= loss;
        self.lru = (lru / (lru + lfu)).clamp(1.0 - MOST, MOST);
    }
}

impl Replacement for Lecar {
    fn miss(&mut self, line: u64, cause: Cause) -> Recall {
        let expert = self.histories.iter().position(|history| history.lines.has(line));
        let note = expert.and_then(|expert| self.histories[expert].take(line));
        if cause == Cause::Prefetch {
            self.coming = note.map_or(0, |(_, count)| count);
            return Recall::Nothing;
        }
        self.now += 1;
        self.coming = note.map_or(0, |(_, count)| count) + 1;
        if let (Some(expert), Some((since, _))) = (expert, note) {
            self.blame(expert, self.now - since);
        }
        Recall::Nothing
    }

    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        // It may have gone since it was announced, when it was written meanwhile.
        for history in &mut self.histories {
            history.take(lines[slot as usize].number);
        }
        let met = u32::from(arrival.cause != Cause::Prefetch);
        let count = std::mem::replace(&mut self.coming, met).max(met);
        self.by_use.push(&mut self.chain, slot);
        self.by_count.push(slot, (count, self.now));
    }

    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        if arrival.cause != Cause::Prefetch {
            self.hit(slot, lines, Hit { prefetched: false, write: false });
        }
    }

    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        self.now += 1;
        self.by_use.renew(&mut self.chain, slot);
        let (count, _) = self.by_count.key[slot as usize];
        self.by_count.set(slot, (count.saturating_add(1), self.now));
    }

    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let (oldest, least) = (self.by_use.oldest(), *self.by_count.heap.first()?);
        let drawn = (self.rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let expert = usize::from(drawn >= self.lru);
        let slot = [oldest, least][expert];
        if oldest != least {
            let (count, _) = self.by_count.key[slot as usize];
            self.histories[expert].push(lines[slot as usize].number, (self.now, count));
        }
        self.remove(slot, lines);
        Some(Victim::Whole(slot))
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        self.by_use.remove(&mut self.chain, slot);
        self.by_count.remove(slot);
    }

    fn bytes(&self) -> usize {
        let history = |h: &History| h.lines.bytes() + h.notes.len() * size_of::<(u64, u32)>();
        self.chain.bytes()
            + self.by_count.key.len() * (2 * size_of::<u32>() + size_of::<(u32, u64)>())
            + self.histories.iter().map(history).sum::<usize>()
    }

    fn report(&mut self, report: &mut Report) {
        report.put("lecar_lru_weight_percent", (self.lru * 100.0) as u64);
        report.count("lecar_returns_of_lru", &mut self.returned[0]);
        report.count("lecar_returns_of_lfu", &mut self.returned[1]);
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        each_once(self.by_use.iter(&self.chain), lines)?;
        each_once(self.by_count.heap.iter().copied(), lines)?;
        let wrong = (1..self.by_count.heap.len()).find(|&at| self.by_count.less(at, (at - 1) / 2));
        if let Some(at) = wrong {
            return Err(Violation {
                invariant: "I-3",
                what: format!("place {at} of the heap is above a larger one"),
            });
        }
        self.histories.iter().try_for_each(|history| history.lines.check(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_right_to_twelve_digits() {
        for (x, power) in
            [(0.0, 1.0), (1.0, std::f64::consts::E), (-0.45, 0.637_628_151_621_773_3), (FADE, 0.005)]
        {
            assert!((exp(x) / power - 1.0).abs() < 1e-12, "{x}: {} and not {power}", exp(x));
        }
        assert_eq!(exp(-1e9), 0.0);
    }

    #[test]
    fn the_expert_whose_line_comes_back_is_drawn_less_and_early_returns_count_most() {
        let after = |expert, after| {
            let mut lecar = Lecar::new(100);
            lecar.blame(expert, after);
            lecar.lru
        };
        assert!(after(0, 1) < after(0, 100) && after(0, 100) < 0.5 && 0.5 < after(1, 100));
        let mut lecar = Lecar::new(100);
        (0..1000).for_each(|_| lecar.blame(0, 1));
        assert!((lecar.lru - 0.01).abs() < 1e-9, "{}", lecar.lru);
    }
}
