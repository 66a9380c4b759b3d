//! Moves that wait for their translation page: what garbage collection has moved while its entry was not in RAM.
//!
//! DFTL (Gupta et al., ASPLOS'09, section 3.4) groups the moved pages of one victim block by translation page and updates
//! each with one read and one write. Here the group may grow over several blocks: moves wait in a table of fixed size,
//! and when it is full, all waiting moves of one translation page are entered at once, the page chosen by a hand that
//! goes round the table. Collection that is incremental has no end of a block to wait for, and the table is RAM that a
//! drive can name: 8 bytes for each move, which is what `ram` counts.
//!
//! An entry is in this table or in a cache, never in both: whoever loads it takes it out.

use super::Tp;
use crate::address::{Lpn, Ppn};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    lpn: u32,
    ppn: u32,
    /// The next waiting move of the same translation page, or the next free node.
    next: u32,
    used: bool,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Moves {
    nodes: Vec<Node>,
    /// First node of each translation page, plus one; zero for none.
    heads: Vec<u32>,
    free: u32,
    waiting: u32,
    hand: u32,
}

impl Moves {
    /// Room for `capacity` moves, at least one, of a map of `pages` translation pages.
    pub fn new(capacity: u32, pages: u32) -> Moves {
        let capacity = capacity.max(1);
        let node =
            |i| Node { lpn: 0, ppn: 0, next: if i + 1 < capacity { i + 1 } else { NONE }, used: false };
        Moves {
            nodes: (0..capacity).map(node).collect(),
            heads: vec![0; pages as usize],
            free: 0,
            waiting: 0,
            hand: 0,
        }
    }

    /// Bytes in a drive.
    pub fn ram(&self) -> u64 {
        8 * self.nodes.len() as u64
    }

    /// Whether no further move fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// Moves that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether a move of this translation page waits.
    #[inline]
    pub fn any(&self, tp: Tp) -> bool {
        self.heads[tp.0 as usize] != 0
    }

    /// Where a page of this translation page was moved to, if that waits.
    #[inline]
    pub fn get(&self, tp: Tp, lpn: Lpn) -> Option<Ppn> {
        self.find(tp, lpn).map(|at| Ppn(self.nodes[at].ppn))
    }

    #[inline]
    fn find(&self, tp: Tp, lpn: Lpn) -> Option<usize> {
        let mut at = self.heads[tp.0 as usize].wrapping_sub(1);
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.lpn == lpn.0 {
                return Some(at as usize);
            }
            at = node.next;
        }
        None
    }

    /// Notes a move; replaces an earlier one of the same page. There must be room for a new one.
    pub fn put(&mut self, tp: Tp, lpn: Lpn, ppn: Ppn) {
        if let Some(at) = self.find(tp, lpn) {
            self.nodes[at].ppn = ppn.0;
            return;
        }
        assert!(!self.is_full(), "a move of {lpn:?} finds no room to wait");
        let at = self.free;
        let head = &mut self.heads[tp.0 as usize];
        let node = &mut self.nodes[at as usize];
        self.free = node.next;
        *node = Node { lpn: lpn.0, ppn: ppn.0, next: head.wrapping_sub(1), used: true };
        *head = at + 1;
        self.waiting += 1;
    }

    /// Takes the move of one page of this translation page out.
    #[inline(never)]
    pub fn take(&mut self, tp: Tp, lpn: Lpn) -> Option<Ppn> {
        let head = tp.0 as usize;
        let (mut before, mut at) = (NONE, self.heads[head].wrapping_sub(1));
        while at != NONE {
            let Node { lpn: found, ppn, next, .. } = self.nodes[at as usize];
            if found == lpn.0 {
                match before {
                    NONE => self.heads[head] = next.wrapping_add(1),
                    before => self.nodes[before as usize].next = next,
                }
                self.give_back(at);
                return Some(Ppn(ppn));
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Takes some move of the translation page out; [`None`] when none waits.
    pub fn take_any(&mut self, tp: Tp) -> Option<(Lpn, Ppn)> {
        let at = self.heads[tp.0 as usize].checked_sub(1)?;
        let Node { lpn, ppn, next, .. } = self.nodes[at as usize];
        self.heads[tp.0 as usize] = next.wrapping_add(1);
        self.give_back(at);
        Some((Lpn(lpn), Ppn(ppn)))
    }

    fn give_back(&mut self, at: u32) {
        self.nodes[at as usize].used = false;
        self.nodes[at as usize].next = self.free;
        self.free = at;
        self.waiting -= 1;
    }

    /// A page of the translation page whose moves should be entered next; [`None`] when none waits.
    pub fn due(&mut self) -> Option<Lpn> {
        for _ in 0..self.nodes.len() {
            let node = self.nodes[self.hand as usize];
            self.hand = if self.hand as usize + 1 == self.nodes.len() { 0 } else { self.hand + 1 };
            if node.used {
                return Some(Lpn(node.lpn));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The obvious model: a sorted map.
        #[test]
        fn agrees_with_a_sorted_map(turns in prop::collection::vec((0u32..4, 0u32..32, 0u32..99), 0..120)) {
            let mut moves = Moves::new(6, 8);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (what, lpn, ppn) in turns {
                let tp = Tp(lpn >> 2);
                match what {
                    0 | 1 if !moves.is_full() => {
                        moves.put(tp, Lpn(lpn), Ppn(ppn));
                        model.insert(lpn, ppn);
                    }
                    2 => prop_assert_eq!(moves.take(tp, Lpn(lpn)), model.remove(&lpn).map(Ppn)),
                    _ => {
                        if let Some(tp) = moves.due().map(|lpn| Tp(lpn.0 >> 2)) {
                            prop_assert!(model.keys().any(|l| l >> 2 == tp.0));
                            while let Some((l, p)) = moves.take_any(tp) {
                                prop_assert_eq!(model.remove(&l.0), Some(p.0));
                            }
                            prop_assert!(!model.keys().any(|l| l >> 2 == tp.0));
                        }
                    }
                }
                prop_assert_eq!(moves.waiting() as usize, model.len());
                prop_assert_eq!(moves.is_full(), model.len() == 6);
                for lpn in 0..32 {
                    prop_assert_eq!(moves.get(Tp(lpn >> 2), Lpn(lpn)), model.get(&lpn).map(|&p| Ppn(p)));
                }
            }
        }
    }
}
