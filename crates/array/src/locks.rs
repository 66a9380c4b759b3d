//! Order of overlapping extents (R-ONE, R-LOCK): who came first goes first, on both legs.
//!
//! A write has its extent alone. Reads share theirs with reads and copies: a copy leaves the data as it is, and no read
//! goes to the leg that is copied to. Two copies of one extent take turns. An extent waits for every earlier one it
//! collides with; the order of arrival is the order of the table.
//!
//! One pass over the table at arrival and one at the end, both bounded by the extents in it; 32 B each. Queues are a few
//! hundred long at most, and a pass over them stays in the first cache.

/// What happens to an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Its data is read.
    Read,
    /// Its data changes.
    Write,
    /// Its data moves from one leg to the other.
    Copy,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    op: u32,
    waits: u32,
    claim: Claim,
}

impl Entry {
    #[inline]
    fn collides(&self, other: &Entry, pass: Pass) -> bool {
        self.start < other.end
            && other.start < self.end
            && match (self.claim, other.claim) {
                (Claim::Write, Claim::Write) => !pass.writes,
                (Claim::Write, Claim::Copy) | (Claim::Copy, Claim::Write) => !pass.copies,
                (Claim::Write, Claim::Read) | (Claim::Read, Claim::Write) => !pass.reads,
                (Claim::Copy, Claim::Copy) => true,
                _ => false,
            }
    }
}

/// Planted faults: who passes a write without waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Other writes.
    pub writes: bool,
    /// Copies.
    pub copies: bool,
    /// Reads.
    pub reads: bool,
}

/// Every extent in use, in order of arrival.
#[derive(Debug, Default)]
pub struct Locks {
    entries: Vec<Entry>,
    /// Nothing, unless planted.
    pass: Pass,
}

impl Locks {
    /// An empty table.
    pub fn new(pass: Pass) -> Locks {
        Locks { entries: Vec::new(), pass }
    }

    /// Claims `start..end` for operation `op`; true when it may go at once.
    pub fn enter(&mut self, op: u32, start: u64, end: u64, claim: Claim) -> bool {
        let mut entry = Entry { start, end, op, waits: 0, claim };
        let pass = self.pass;
        entry.waits = self.entries.iter().filter(|e| e.collides(&entry, pass)).count() as u32;
        self.entries.push(entry);
        entry.waits == 0
    }

    /// Operation `op` is done, or gives up waiting; those that may go now are added to `granted`, in order of arrival.
    pub fn leave(&mut self, op: u32, granted: &mut std::collections::VecDeque<u32>) {
        let at =
            self.entries.iter().position(|e| e.op == op).expect("an operation leaves the extent it claimed");
        let gone = self.entries.remove(at);
        let pass = self.pass;
        for entry in self.entries[at..].iter_mut().filter(|e| e.collides(&gone, pass)) {
            entry.waits -= 1;
            if entry.waits == 0 {
                granted.push_back(entry.op);
            }
        }
    }

    /// Operation `to` goes on in place of `op`.
    pub fn hand_over(&mut self, op: u32, to: u32) {
        let entry = self.entries.iter_mut().find(|e| e.op == op);
        entry.expect("an operation hands over the extent it claimed").op = to;
    }

    /// Whether `op` has its extent.
    pub fn holds(&self, op: u32) -> bool {
        self.entries.iter().any(|e| e.op == op && e.waits == 0)
    }

    /// Forgets every extent.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn overlaps_keep_the_order_of_arrival() {
        let mut locks = Locks::default();
        let mut granted = VecDeque::new();
        assert!(locks.enter(1, 0, 10, Claim::Write));
        assert!(!locks.enter(2, 5, 15, Claim::Write));
        assert!(!locks.enter(3, 0, 20, Claim::Read));
        assert!(!locks.enter(4, 12, 13, Claim::Copy));
        assert!(locks.enter(5, 15, 16, Claim::Copy));
        assert!(!locks.enter(6, 0, 1, Claim::Write));
        locks.leave(1, &mut granted);
        assert_eq!(granted, [2]);
        locks.leave(2, &mut granted);
        assert_eq!(granted, [2, 3, 4]);
        locks.leave(3, &mut granted);
        assert_eq!(granted, [2, 3, 4, 6]);
    }

    #[test]
    fn two_copies_of_an_extent_take_turns_and_reads_do_not() {
        let mut locks = Locks::default();
        assert!(locks.enter(1, 0, 10, Claim::Copy));
        assert!(!locks.enter(2, 9, 12, Claim::Copy));
        assert!(locks.enter(3, 20, 30, Claim::Read));
        assert!(locks.enter(4, 20, 30, Claim::Read));
        locks.clear();
        assert!(!locks.holds(1) && !locks.holds(3));
        assert!(locks.enter(5, 0, 30, Claim::Write), "nothing is claimed any more");
    }
}
