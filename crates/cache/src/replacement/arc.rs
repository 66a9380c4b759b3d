//! `arc`: two lists whose sizes follow what was let go too early.
//!
//! T1 has lines met once, T2 lines met again; B1 and B2 remember numbers of lines that went from them. A request for a
//! ghost of B1 says that T1 was too small and raises its target p by max(1, |B2|/|B1|); one for a ghost of B2 lowers it by
//! max(1, |B1|/|B2|). The line that comes goes to T2 if it was a ghost, else to T1. When memory is short, the oldest of T1
//! goes if T1 exceeds p (or equals it while a ghost of B2 comes), else the oldest of T2; T1 and B1 together have at most c
//! lines, all four lists 2c. Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4.
//!
//! Where we differ: a block that was prefetched enters T1 and its first meeting leaves it there, as the newest: it is the
//! request for which the block would have come. p is kept in double precision, of which only sums, quotients and
//! comparisons are taken; they are the same on every machine. A line of the cache holds one block.
//!
//! Cost: 9 bytes for each line, and 24 to 40 for each of up to 2c ghosts. O(1) for each event.

use super::{Arrival, Cause, Hit, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::ghost::GhostQueue;
use crate::list::{Chain, List};
use nandu_base::{BuildError, Declared, Report, Violation, options};

/// Options of `arc`.
#[options]
#[derive(Clone, Debug)]
pub struct ArcConfig {}

impl Declared for ArcConfig {
    const NAME: &'static str = "arc";
    const SUMMARY: &'static str =
        "Two lists that share memory by what was let go too early (ARC). By blocks.";
    const SOURCE: &'static str = "Megiddo and Modha, FAST 2003";
}

impl ReplacementOptions for ArcConfig {
    type Policy = Arc;

    fn build(&self, room: Room) -> Result<Arc, BuildError> {
        Ok(Arc::new(room.slots()))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Arc {
    capacity: u32,
    chain: Chain,
    t1: List,
    t2: List,
    b1: GhostQueue,
    b2: GhostQueue,
    in_t2: Vec<bool>,
    /// Target size of T1.
    p: f64,
}

impl Arc {
    /// For `slots` lines of one block.
    pub fn new(slots: usize) -> Arc {
        Arc {
            capacity: slots as u32,
            chain: Chain::new(slots),
            t1: List::default(),
            t2: List::default(),
            b1: GhostQueue::new(slots),
            b2: GhostQueue::new(2 * slots),
            in_t2: vec![false; slots],
            p: 0.0,
        }
    }

    /// The oldest line of T1 or T2 goes and is remembered.
    fn replace(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim> {
        let t1 = f64::from(self.t1.len());
        let over = t1 > self.p || (t1 == self.p && incoming == Recall::Often);
        let from_t1 = (over && !self.t1.is_empty()) || self.t2.is_empty();
        let (list, ghosts) =
            if from_t1 { (&mut self.t1, &mut self.b1) } else { (&mut self.t2, &mut self.b2) };
        let slot = list.pop(&mut self.chain)?;
        ghosts.push(lines[slot as usize].number);
        Some(Victim::Whole(slot))
    }
}

impl Replacement for Arc {
    fn miss(&mut self, line: u64, cause: Cause) -> Recall {
        let (b1, b2) = (f64::from(self.b1.len()), f64::from(self.b2.len()));
        if self.b1.remove(line) {
            if cause == Cause::Prefetch {
                return Recall::Nothing;
            }
            self.p = (self.p + (b2 / b1).max(1.0)).min(f64::from(self.capacity));
            return Recall::Once;
        }
        if self.b2.remove(line) && cause != Cause::Prefetch {
            self.p = (self.p - (b1 / b2).max(1.0)).max(0.0);
            return Recall::Often;
        }
        Recall::Nothing
    }

    #[inline]
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        let number = lines[slot as usize].number;
        // It may have gone and become a ghost since it was announced, when it was written meanwhile.
        let _ = self.b1.remove(number) || self.b2.remove(number);
        let often = arrival.recall != Recall::Nothing;
        self.in_t2[slot as usize] = often;
        if often {
            self.t2.push(&mut self.chain, slot);
        } else {
            self.t1.push(&mut self.chain, slot);
        }
    }

    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.hit(slot, lines, Hit { prefetched: arrival.cause == Cause::Prefetch, write: false });
    }

    #[inline]
    fn hit(&mut self, slot: u32, _lines: &[Line], hit: Hit) {
        if self.in_t2[slot as usize] {
            return self.t2.renew(&mut self.chain, slot);
        }
        if hit.prefetched {
            return self.t1.renew(&mut self.chain, slot);
        }
        self.t1.remove(&mut self.chain, slot);
        self.t2.push(&mut self.chain, slot);
        self.in_t2[slot as usize] = true;
    }

    fn victim(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim> {
        if incoming != Recall::Nothing {
            return self.replace(lines, incoming);
        }
        let first = self.t1.len() + self.b1.len();
        if first >= self.capacity {
            if self.b1.is_empty() {
                return self.t1.pop(&mut self.chain).map(Victim::Whole);
            }
            self.b1.pop();
        } else if first + self.t2.len() + self.b2.len() >= 2 * self.capacity {
            self.b2.pop();
        }
        self.replace(lines, incoming)
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        match self.in_t2[slot as usize] {
            true => self.t2.remove(&mut self.chain, slot),
            false => self.t1.remove(&mut self.chain, slot),
        }
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + self.in_t2.len() + self.b1.bytes() + self.b2.bytes()
    }

    fn report(&mut self, report: &mut Report) {
        report.put("arc_t1_lines", u64::from(self.t1.len()));
        report.put("arc_t2_lines", u64::from(self.t2.len()));
        report.put("arc_target_lines", self.p as u64);
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        each_once(self.t1.iter(&self.chain).chain(self.t2.iter(&self.chain)), lines)?;
        self.b1.check(lines)?;
        self.b2.check(lines)
    }
}
