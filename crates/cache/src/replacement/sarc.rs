//! `sarc`: one list for sequential data, one for the rest, and a target between them that follows marginal utility.
//!
//! SEQ has lines that came sequentially, ahead of a request or after the line before them; RANDOM has the others. Both are
//! in order of use. Between two hits in the oldest part dL of RANDOM, sequential misses are counted: when `2 * misses * dL`
//! exceeds the length of RANDOM, SEQ would gain more from a line than RANDOM, and its target grows by one, else it falls by
//! one. When memory is short the oldest of SEQ goes if SEQ is longer than its target, else the oldest of RANDOM; a list
//! no longer than dL is spared. Gill and Modha, "SARC: sequential prefetching in adaptive replacement cache", USENIX 2005,
//! section 4.
//!
//! Where we differ: the published code compares the ages of the two oldest lines while the lists are short, here the
//! longer list gives. dL is 1/50 of the lines (the paper: 2 %). A line is one block (the paper: a track).
//!
//! Cost: 13 bytes for each line, O(1) for each event.

use super::{each_once, Arrival, Cause, Hit, Recall, Replacement, Victim};
use crate::directory::Line;
use crate::list::{Chain, Regioned, Weights, NONE};
use nandu_base::{Counter, Violation};

/// The policy.
#[derive(Clone, Debug)]
pub struct Sarc {
    chain: Chain,
    weights: Weights,
    seq: Regioned,
    random: Regioned,
    in_seq: Vec<bool>,
    capacity: u32,
    /// dL: lines of the oldest part.
    bottom: u32,
    /// Target length of SEQ.
    target: u32,
    /// Sequential misses since the last hit in the bottom of RANDOM.
    misses: u32,
}

fn one(_slot: u32) -> u32 {
    1
}

impl Sarc {
    /// For `slots` lines of one block.
    pub fn new(slots: usize) -> Sarc {
        let bottom = (slots as u32 / 50).max(1);
        Sarc {
            chain: Chain::new(slots),
            weights: Weights::new(slots),
            seq: Regioned::new(bottom),
            random: Regioned::new(bottom),
            in_seq: vec![false; slots],
            capacity: slots as u32,
            bottom,
            target: 0,
            misses: 0,
        }
    }

    fn adapt(&mut self) {
        let misses = std::mem::take(&mut self.misses);
        let grows = 2 * u64::from(misses) * u64::from(self.bottom) > u64::from(self.random.len().max(1));
        self.target = match grows {
            true => (self.target + 1).min(self.capacity),
            false => self.target.saturating_sub(1),
        };
    }

    fn list(&mut self, slot: u32) -> &mut Regioned {
        match self.in_seq[slot as usize] {
            true => &mut self.seq,
            false => &mut self.random,
        }
    }
}

impl Replacement for Sarc {
    fn insert(&mut self, slot: u32, _lines: &[Line], arrival: Arrival) {
        let sequential = arrival.sequential || arrival.cause == Cause::Prefetch;
        self.in_seq[slot as usize] = sequential;
        self.misses += u32::from(sequential && arrival.cause == Cause::Read);
        let list = if sequential { &mut self.seq } else { &mut self.random };
        list.push(&mut self.chain, &mut self.weights, slot, one);
    }

    fn refill(&mut self, slot: u32, lines: &[Line], _arrival: Arrival) {
        self.hit(slot, lines, Hit { prefetched: false, write: false });
    }

    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        if !self.in_seq[slot as usize] && self.weights.is_inside(slot) {
            self.adapt();
        }
        let list = if self.in_seq[slot as usize] { &mut self.seq } else { &mut self.random };
        list.renew(&mut self.chain, &mut self.weights, slot, one);
    }

    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let (seq, random) = (self.seq.len(), self.random.len());
        let from_seq = match (seq <= self.bottom, random <= self.bottom) {
            (true, true) => seq >= random,
            (true, false) => false,
            (false, true) => true,
            (false, false) => seq > self.target,
        };
        let slot = if from_seq { self.seq.oldest() } else { self.random.oldest() };
        if slot == NONE {
            return None;
        }
        let list = if from_seq { &mut self.seq } else { &mut self.random };
        list.remove(&mut self.chain, &mut self.weights, slot, one);
        Some(Victim::Whole(slot))
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        let mut list = *self.list(slot);
        list.remove(&mut self.chain, &mut self.weights, slot, one);
        *self.list(slot) = list;
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + self.weights.bytes() + self.in_seq.len()
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        out.push(Counter { name: "sarc_seq_lines", value: u64::from(self.seq.len()) });
        out.push(Counter { name: "sarc_random_lines", value: u64::from(self.random.len()) });
        out.push(Counter { name: "sarc_target_lines", value: u64::from(self.target) });
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let all = self.seq.list().iter(&self.chain).chain(self.random.list().iter(&self.chain));
        each_once(all, lines)?;
        match self.seq.is_sound(&self.chain, &self.weights, one)
            && self.random.is_sound(&self.chain, &self.weights, one)
        {
            true => Ok(()),
            false => Err(Violation { invariant: "I-3", what: "the oldest parts are kept wrongly".into() }),
        }
    }
}
