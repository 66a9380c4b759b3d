//! `sarc`: one list for sequential data, one for the rest, and a target between them that follows marginal utility.
//!
//! SEQ has lines that came sequentially, ahead of a request or after the line before them; RANDOM has the others. Both are
//! in order of use. Between two hits in the oldest part dL of RANDOM, sequential misses are counted. A line more in SEQ would have saved
//! `2 * misses / L` of them, where L is the length of SEQ, and one in RANDOM `1 / dL`: when `2 * misses * dL` exceeds L, the target of SEQ
//! grows by one, else it falls by one. When memory is short the oldest of SEQ goes if SEQ is longer than its target, else the oldest of RANDOM; a list
//! no longer than dL is spared. Gill and Modha, "SARC: sequential prefetching in adaptive replacement cache", USENIX 2005,
//! section 4, equation (6).
//!
//! Where we differ: the published code compares the ages of the two oldest lines while the lists are short, here the
//! longer list gives. dL is 1/50 of the lines (the paper: 2 %). A line is one block (the paper: a track).
//!
//! Cost: 16 bytes for each line, O(1) for each event.

use super::{Arrival, Cause, Hit, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::regioned::{Name, Places, Regioned};
use nandu_base::{BuildError, Declared, Report, Violation, options};

/// Options of `sarc`.
#[options]
#[derive(Clone, Debug)]
pub struct SarcConfig {}

impl Declared for SarcConfig {
    const NAME: &'static str = "sarc";
    const SUMMARY: &'static str = "A list for sequential and one for other data (SARC). By blocks.";
    const SOURCE: &'static str = "Gill and Modha, USENIX 2005";
}

impl ReplacementOptions for SarcConfig {
    type Policy = Sarc;

    fn build(&self, room: Room) -> Result<Sarc, BuildError> {
        Ok(Sarc::new(room.slots()))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Sarc {
    places: Places,
    seq: Regioned,
    random: Regioned,
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
            places: Places::new(slots),
            seq: Regioned::new(Name::First, bottom),
            random: Regioned::new(Name::Second, bottom),
            capacity: slots as u32,
            bottom,
            target: 0,
            misses: 0,
        }
    }

    fn adapt(&mut self) {
        let misses = std::mem::take(&mut self.misses);
        let grows = 2 * u64::from(misses) * u64::from(self.bottom) > u64::from(self.seq.len().max(1));
        self.target = match grows {
            true => (self.target + 1).min(self.capacity),
            false => self.target.saturating_sub(1),
        };
    }
}

impl Replacement for Sarc {
    fn insert(&mut self, slot: u32, _lines: &[Line], arrival: Arrival) {
        let sequential = arrival.sequential || arrival.cause == Cause::Prefetch;
        self.misses += u32::from(sequential && arrival.cause == Cause::Read);
        let list = if sequential { &mut self.seq } else { &mut self.random };
        list.push(&mut self.places, slot, one);
    }

    fn refill(&mut self, slot: u32, lines: &[Line], _arrival: Arrival) {
        self.hit(slot, lines, Hit { prefetched: false, write: false });
    }

    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        let (in_seq, old) = self.places.find(slot);
        if !in_seq && old {
            self.adapt();
        }
        let list = if in_seq { &mut self.seq } else { &mut self.random };
        list.renew(&mut self.places, slot, one);
    }

    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let (seq, random) = (self.seq.len(), self.random.len());
        let from_seq = match (seq <= self.bottom, random <= self.bottom) {
            (true, true) => seq >= random,
            (true, false) => false,
            (false, true) => true,
            (false, false) => seq > self.target,
        };
        let list = if from_seq { &mut self.seq } else { &mut self.random };
        list.pop(&mut self.places, one).map(Victim::Whole)
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        let list = if self.places.find(slot).0 { &mut self.seq } else { &mut self.random };
        list.remove(&mut self.places, slot, one);
    }

    fn bytes(&self) -> usize {
        self.places.bytes()
    }

    fn report(&mut self, report: &mut Report) {
        report.put("sarc_seq_lines", u64::from(self.seq.len()));
        report.put("sarc_random_lines", u64::from(self.random.len()));
        report.put("sarc_target_lines", u64::from(self.target));
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let all = self.seq.iter(&self.places).chain(self.random.iter(&self.places));
        each_once(all, lines)?;
        match self.seq.is_sound(&self.places, one) && self.random.is_sound(&self.places, one) {
            true => Ok(()),
            false => Err(Violation { invariant: "I-3", what: "the oldest parts are kept wrongly".into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RANDOM is long, SEQ is short: three misses are many for SEQ, and would be few for RANDOM.
    #[test]
    fn what_seq_gains_is_held_against_its_own_length() {
        let mut sarc = Sarc::new(100);
        for slot in 0..90 {
            sarc.insert(slot, &[], Arrival::by(Cause::Read));
        }
        for slot in 90..93 {
            sarc.insert(slot, &[], Arrival { sequential: true, ..Arrival::by(Cause::Read) });
        }
        sarc.hit(0, &[], Hit { prefetched: false, write: false });
        assert_eq!(sarc.target, 1, "2 * 3 * 2 exceeds 3, which SEQ has, and not the 90 of RANDOM");
        sarc.hit(1, &[], Hit { prefetched: false, write: false });
        assert_eq!(sarc.target, 0, "no sequential miss since");
    }
}
