//! Ghosts: numbers of lines that went, in the order in which they went, at most so many.
//!
//! A ring of entries linked as a list and a hashed map from the number to the entry, so that a ghost can be taken out of
//! the middle. Cost: 16 bytes for each ghost and 32 in the map. O(1) for each event.

use crate::directory::Line;
use crate::list::{Chain, List};
use crate::map::{Hashed, LineMap};
use nandu_base::Violation;

/// A bounded queue of ghosts.
#[derive(Clone, Debug)]
pub struct GhostQueue {
    chain: Chain,
    queue: List,
    numbers: Vec<u64>,
    free: Vec<u32>,
    map: Hashed,
}

impl GhostQueue {
    /// Room for `most` ghosts; with none, nothing is remembered.
    pub fn new(most: usize) -> GhostQueue {
        GhostQueue {
            chain: Chain::new(most),
            queue: List::default(),
            numbers: vec![0; most],
            free: (0..most as u32).rev().collect(),
            map: Hashed::new(most),
        }
    }

    /// Ghosts.
    pub fn len(&self) -> u32 {
        self.queue.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The entry of `line`, below the most ghosts, while it is one.
    #[inline]
    pub fn entry(&self, line: u64) -> Option<u32> {
        self.map.get(line)
    }

    /// Whether `line` is a ghost.
    #[inline]
    pub fn has(&self, line: u64) -> bool {
        self.entry(line).is_some()
    }

    /// Remembers `line`, which is no ghost; the oldest is forgotten when there is no room.
    #[inline]
    pub fn push(&mut self, line: u64) {
        if self.free.is_empty() {
            self.pop();
        }
        if let Some(entry) = self.free.pop() {
            self.numbers[entry as usize] = line;
            self.queue.push(&mut self.chain, entry);
            self.map.insert(line, entry);
        }
    }

    /// Forgets the oldest.
    #[inline]
    pub fn pop(&mut self) {
        if let Some(entry) = self.queue.pop(&mut self.chain) {
            self.map.remove(self.numbers[entry as usize]);
            self.free.push(entry);
        }
    }

    /// Forgets `line`; whether it was a ghost.
    #[inline]
    pub fn remove(&mut self, line: u64) -> bool {
        let Some(entry) = self.map.get(line) else { return false };
        self.map.remove(line);
        self.queue.remove(&mut self.chain, entry);
        self.free.push(entry);
        true
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.chain.bytes() + self.numbers.len() * 12 + self.map.bytes()
    }

    /// No line that is here is a ghost.
    pub fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        match lines.iter().find(|line| line.blocks > 0 && self.has(line.number)) {
            None => Ok(()),
            Some(line) => Err(Violation {
                invariant: "I-3",
                what: format!("line {} is in memory and among the ghosts", line.number),
            }),
        }
    }
}
