//! The event queue: what happens next.
//!
//! Events of one instant come out in the order in which they went in. A binary heap on (time, number): with the dozen
//! events that are usually pending nothing measured was faster, and its cost stays logarithmic when a drive is saturated.

use nandu_base::{Instant, ReqId, TimerKey};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A request is complete, as its leaf computed.
    Complete(ReqId),
    /// A block medium has served a request.
    Served(ReqId),
    /// A timer of machine `node` fires.
    Timer {
        /// The machine.
        node: u32,
        /// Its timer.
        key: TimerKey,
        /// When the timer was set, by count.
        generation: u64,
    },
}

/// An entry is 24 bytes: the event is a word, timers are in a table of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    number: u64,
    word: u64,
}

const SERVED: u64 = 1 << 32;
const TIMER: u64 = 1 << 33;

/// Pending events.
#[derive(Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    number: u64,
    timers: Vec<(u32, TimerKey, u64)>,
    timers_free: Vec<u32>,
}

impl EventQueue {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at: Instant, event: Event) {
        let word = match event {
            Event::Complete(id) => u64::from(id.0),
            Event::Served(id) => SERVED | u64::from(id.0),
            Event::Timer { node, key, generation } => TIMER | u64::from(self.keep_timer(node, key, generation)),
        };
        self.number += 1;
        self.heap.push(Reverse(Entry { at: at.0, number: self.number, word }));
    }

    fn keep_timer(&mut self, node: u32, key: TimerKey, generation: u64) -> u32 {
        match self.timers_free.pop() {
            Some(slot) => {
                self.timers[slot as usize] = (node, key, generation);
                slot
            }
            None => {
                self.timers.push((node, key, generation));
                (self.timers.len() - 1) as u32
            }
        }
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| Instant(entry.0.at))
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, Event)> {
        let Reverse(entry) = self.heap.pop()?;
        let low = entry.word as u32;
        let event = if entry.word & TIMER != 0 {
            self.timers_free.push(low);
            let (node, key, generation) = self.timers[low as usize];
            Event::Timer { node, key, generation }
        } else if entry.word & SERVED != 0 {
            Event::Served(ReqId(low))
        } else {
            Event::Complete(ReqId(low))
        };
        Some((Instant(entry.at), event))
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_keep_their_order() {
        let mut queue = EventQueue::default();
        let timer = Event::Timer { node: 3, key: TimerKey(1), generation: 9 };
        queue.push(Instant(5), Event::Complete(ReqId(1)));
        queue.push(Instant(4), timer);
        queue.push(Instant(5), Event::Served(ReqId(0)));
        assert_eq!(queue.next_at(), Some(Instant(4)));
        assert_eq!(queue.pop(), Some((Instant(4), timer)));
        assert_eq!(queue.pop(), Some((Instant(5), Event::Complete(ReqId(1)))));
        assert_eq!(queue.pop(), Some((Instant(5), Event::Served(ReqId(0)))));
        assert_eq!(queue.pop(), None);
    }
}
