//! `lirs`: lines that come again soon hold memory; all others pass through a hundredth of it.
//!
//! The measure of a line is the number of other lines met between its last two meetings. Those with the smallest have the
//! status LIR and nearly all of memory; the others, HIR, share one line in a hundred. The stack S has the lines in the order of their last
//! meeting, as far down as the oldest LIR line: LIR lines, HIR lines, and HIR lines that went. A HIR line that is met while it is in S has
//! come again sooner than the oldest LIR line: it becomes LIR, and the oldest LIR line becomes HIR. A HIR line that is met outside S
//! stays HIR and comes into S. The queue Q has the HIR lines that are here; when memory is short its oldest goes, and stays in S without
//! memory. Whenever the lowest line of S is not LIR it leaves S (pruning). Until the LIR lines are all there, what comes is LIR. Jiang and
//! Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve buffer cache performance", SIGMETRICS 2002,
//! section 3; the bound below was looked up in `lirs.py` of the authors of Cacheus (github.com/sylab/cacheus).
//!
//! Where we differ: S has at most twice as many lines as memory, and of those that went the one that did so first leaves it (the paper bounds
//! S in section 4 only to measure that it hardly matters). A block that was prefetched waits in Q as HIR, and does not move in S: its
//! first meeting is the request for which it would have come. HIR lines have one line of memory at least. A line of the cache holds one block.
//!
//! Cost: 21 bytes for each line, 28 for each of up to three entries of S for it, and 32 for each that went in a hashed table. O(1) for each event; what
//! pruning takes out was once put in.

use super::{Arrival, Cause, Hit, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::list::{Chain, List, NONE};
use crate::map::{Hashed, LineMap};
use nandu_base::{BuildError, Declared, Report, Violation, options};

/// One line of memory in so many is for HIR lines.
const HIR_PART: usize = 100;

/// Options of `lirs`.
#[options]
#[derive(Clone, Debug)]
pub struct LirsConfig {}

impl Declared for LirsConfig {
    const NAME: &'static str = "lirs";
    const SUMMARY: &'static str =
        "Lines that come again soon stay, by their last two meetings (LIRS). By blocks.";
    const SOURCE: &'static str = "Jiang and Zhang, SIGMETRICS 2002";
}

impl ReplacementOptions for LirsConfig {
    type Policy = Lirs;

    fn build(&self, room: Room) -> Result<Lirs, BuildError> {
        Ok(Lirs::new(room.slots()))
    }
}

/// One place of S: a line that is here, or the number of one that went.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its slot; [`NONE`] when it went.
    slot: u32,
    number: u64,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Lirs {
    capacity: u32,
    /// Most LIR lines.
    lirs_most: u32,
    lirs: u32,
    is_lir: Vec<bool>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The entry of a slot, or [`NONE`] when its line is not in S.
    entry_of: Vec<u32>,
    s_chain: Chain,
    s: List,
    q_chain: Chain,
    q: List,
    /// Entries of S without memory, in the order in which they went.
    gone_chain: Chain,
    gone: List,
    numbers: Hashed,
}

impl Lirs {
    /// For `slots` lines of one block.
    pub fn new(slots: usize) -> Lirs {
        let entries = 3 * slots;
        Lirs {
            capacity: slots as u32,
            lirs_most: (slots - (slots / HIR_PART).max(1)).max(1) as u32,
            lirs: 0,
            is_lir: vec![false; slots],
            entries: vec![Entry { slot: NONE, number: 0 }; entries],
            free: (0..entries as u32).rev().collect(),
            entry_of: vec![NONE; slots],
            s_chain: Chain::new(entries),
            s: List::default(),
            q_chain: Chain::new(slots),
            q: List::default(),
            gone_chain: Chain::new(entries),
            gone: List::default(),
            numbers: Hashed::new(slots),
        }
    }

    /// The line in `slot` is on top of S.
    fn raise(&mut self, slot: u32) {
        let entry = self.entry_of[slot as usize];
        if entry != NONE {
            return self.s.renew(&mut self.s_chain, entry);
        }
        let entry =
            self.free.pop().expect("S has at most as many entries as there are lines, and twice that");
        self.entries[entry as usize].slot = slot;
        self.entry_of[slot as usize] = entry;
        self.s.push(&mut self.s_chain, entry);
    }

    /// The line in `slot` leaves S.
    fn leave(&mut self, slot: u32) {
        let entry = std::mem::replace(&mut self.entry_of[slot as usize], NONE);
        self.s.remove(&mut self.s_chain, entry);
        self.free.push(entry);
    }

    /// A line that went leaves S.
    fn forget(&mut self, entry: u32) {
        self.recall(entry);
        self.s.remove(&mut self.s_chain, entry);
        self.free.push(entry);
    }

    /// `entry` is no longer one of a line that went.
    fn recall(&mut self, entry: u32) {
        self.numbers.remove(self.entries[entry as usize].number);
        self.gone.remove(&mut self.gone_chain, entry);
    }

    /// The lowest of S is LIR, or S is empty.
    fn prune(&mut self) {
        while self.s.oldest() != NONE {
            let lowest = self.s.oldest();
            match self.entries[lowest as usize].slot {
                NONE => self.forget(lowest),
                slot if self.is_lir[slot as usize] => break,
                slot => self.leave(slot),
            }
        }
    }

    /// The lowest line of S, which is LIR, leaves it and is HIR.
    fn demote(&mut self) -> u32 {
        let slot = self.entries[self.s.oldest() as usize].slot;
        self.leave(slot);
        self.is_lir[slot as usize] = false;
        self.lirs -= 1;
        self.prune();
        slot
    }

    /// The line in `slot`, which is in no list but S, is LIR from now on.
    fn promote(&mut self, slot: u32) {
        self.raise(slot);
        self.is_lir[slot as usize] = true;
        self.lirs += 1;
        if self.lirs > self.lirs_most {
            let lowest = self.demote();
            self.q.push(&mut self.q_chain, lowest);
        }
    }

    fn bound(&mut self) {
        while self.s.len() > 2 * self.capacity && !self.gone.is_empty() {
            self.forget(self.gone.oldest());
        }
    }
}

impl Replacement for Lirs {
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        let was_in_s = self.numbers.get(lines[slot as usize].number);
        self.is_lir[slot as usize] = false;
        if arrival.cause == Cause::Prefetch {
            if let Some(entry) = was_in_s {
                self.recall(entry);
                self.entries[entry as usize].slot = slot;
                self.entry_of[slot as usize] = entry;
            }
            return self.q.push(&mut self.q_chain, slot);
        }
        if let Some(entry) = was_in_s {
            self.forget(entry);
        }
        if was_in_s.is_some() || self.lirs < self.lirs_most {
            self.promote(slot);
        } else {
            self.raise(slot);
            self.q.push(&mut self.q_chain, slot);
        }
        self.bound();
    }

    fn refill(&mut self, slot: u32, lines: &[Line], _arrival: Arrival) {
        self.hit(slot, lines, Hit { prefetched: false, write: false });
    }

    fn hit(&mut self, slot: u32, _lines: &[Line], _hit: Hit) {
        let entry = self.entry_of[slot as usize];
        if self.is_lir[slot as usize] {
            self.s.renew(&mut self.s_chain, entry);
            self.prune();
        } else if entry != NONE || self.lirs < self.lirs_most {
            self.q.remove(&mut self.q_chain, slot);
            self.promote(slot);
        } else {
            self.raise(slot);
            self.q.renew(&mut self.q_chain, slot);
        }
        self.bound();
    }

    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        let Some(slot) = self.q.pop(&mut self.q_chain) else {
            return (!self.s.is_empty()).then(|| Victim::Whole(self.demote()));
        };
        let entry = std::mem::replace(&mut self.entry_of[slot as usize], NONE);
        if entry != NONE {
            let number = lines[slot as usize].number;
            self.entries[entry as usize] = Entry { slot: NONE, number };
            self.numbers.insert(number, entry);
            self.gone.push(&mut self.gone_chain, entry);
        }
        Some(Victim::Whole(slot))
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        if self.entry_of[slot as usize] != NONE {
            self.leave(slot);
        }
        if std::mem::take(&mut self.is_lir[slot as usize]) {
            self.lirs -= 1;
            self.prune();
        } else {
            self.q.remove(&mut self.q_chain, slot);
        }
    }

    fn bytes(&self) -> usize {
        self.is_lir.len()
            + (self.entry_of.len() + self.free.capacity()) * size_of::<u32>()
            + self.entries.len() * size_of::<Entry>()
            + self.s_chain.bytes()
            + self.q_chain.bytes()
            + self.gone_chain.bytes()
            + self.numbers.bytes()
    }

    fn report(&mut self, report: &mut Report) {
        report.put("lirs_lir_lines", u64::from(self.lirs));
        report.put("lirs_hir_lines", u64::from(self.q.len()));
        report.put("lirs_lines_gone_in_stack", u64::from(self.gone.len()));
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let fail = |what: String| Err(Violation { invariant: "I-3", what });
        let slot = |entry: u32| self.entries[entry as usize].slot;
        let in_s: Vec<u32> = self.s.iter(&self.s_chain).map(slot).filter(|&slot| slot != NONE).collect();
        let lir = in_s.iter().copied().filter(|&slot| self.is_lir[slot as usize]);
        if lir.clone().count() != self.lirs as usize || self.lirs > self.lirs_most {
            return fail(format!("{} lines are LIR, at most {} may be", self.lirs, self.lirs_most));
        }
        if in_s.first().is_some_and(|&slot| !self.is_lir[slot as usize]) {
            return fail("the lowest line of S is not LIR".into());
        }
        if let Some(line) = lines.iter().find(|l| l.blocks > 0 && self.numbers.get(l.number).is_some()) {
            return fail(format!("line {} is in memory and among those that went", line.number));
        }
        each_once(lir.chain(self.q.iter(&self.q_chain)), lines)
    }
}
