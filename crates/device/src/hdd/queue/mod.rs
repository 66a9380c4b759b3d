//! Requests that wait for the arm, and who is next.
//!
//! One file for each rule: [`fcfs`], [`sstf`], [`sptf`]. A drive sees at most `queue_depth` of its requests; the others wait
//! outside in the order in which they came, as with tagged queueing. Of requests for the same blocks, if one of them
//! writes, the older goes first. A request that has waited for `max_wait` goes before all others, which keeps a rule that
//! looks for short ways from forgetting one.
//!
//! Cost: a comparison with each request in the queue when one comes and when one goes; the rule's own cost for each
//! candidate when the arm is free. RAM: 64 bytes for each request.

pub mod fcfs;
pub mod sptf;
pub mod sstf;

use super::geometry::Spot;
use super::mechanics::{Arm, Mechanics};
use nandu_base::{Instant, ReqId, Span, options};
use std::collections::VecDeque;

/// Which request is next.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// The one that came first.
    #[default]
    Fcfs,
    /// The one with the shortest way of the arm.
    Sstf,
    /// The one whose first sector is under the head soonest.
    Sptf,
}

impl Rule {
    /// The name that stack files use.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Fcfs => "fcfs",
            Rule::Sstf => "sstf",
            Rule::Sptf => "sptf",
        }
    }
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The request.
    pub id: ReqId,
    /// Its blocks.
    pub first: u64,
    /// One past the last.
    pub end: u64,
    /// Where it begins.
    pub spot: Spot,
    /// Whether it writes.
    pub write: bool,
    /// When it came.
    pub came: Instant,
    /// Older ones in the queue that must go before it.
    pub behind: u32,
}

impl Waiting {
    fn must_follow(&self, older: &Waiting) -> bool {
        (self.write || older.write) && self.first < older.end && older.first < self.end
    }
}

/// What a rule may look at.
pub struct View<'a> {
    /// The drive.
    pub mechanics: &'a Mechanics,
    /// Where the heads are.
    pub arm: Arm,
    /// When the arm sets off.
    pub now: Instant,
}

/// The queue of a drive. Those that the drive sees are in the order in which they came.
#[derive(Clone, Debug)]
pub struct Queue {
    rule: Rule,
    depth: usize,
    patience: Span,
    seen: Vec<Waiting>,
    outside: VecDeque<Waiting>,
}

impl Queue {
    /// An empty queue.
    pub fn new(rule: Rule, depth: u32, patience: Span) -> Queue {
        let depth = depth as usize;
        Queue { rule, depth, patience, seen: Vec::with_capacity(depth), outside: VecDeque::new() }
    }

    /// Whether requests wait at all: first come, first served has its times at once.
    #[inline]
    pub fn chooses(&self) -> bool {
        self.rule != Rule::Fcfs
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.seen.len() + self.outside.len()
    }

    /// Whether something waits that a request for these blocks must not overtake.
    pub fn holds(&self, first: u64, end: u64, write: bool) -> bool {
        let touches = |w: &Waiting| (write || w.write) && w.first < end && first < w.end;
        self.seen.iter().any(touches) || self.outside.iter().any(touches)
    }

    /// Adds a request.
    pub fn push(&mut self, request: Waiting) {
        if self.seen.len() == self.depth {
            self.outside.push_back(request);
        } else {
            self.see(request);
        }
    }

    fn see(&mut self, mut request: Waiting) {
        request.behind = self.seen.iter().filter(|older| request.must_follow(older)).count() as u32;
        self.seen.push(request);
    }

    /// Takes the request that is next.
    pub fn next(&mut self, view: &View<'_>) -> Option<Waiting> {
        let oldest = self.seen.first()?;
        // The oldest is never behind another.
        let at = if view.now >= oldest.came + self.patience {
            0
        } else {
            match self.rule {
                Rule::Fcfs => fcfs::choose(&self.seen),
                Rule::Sstf => sstf::choose(&self.seen, view),
                Rule::Sptf => sptf::choose(&self.seen, view),
            }
        };
        let chosen = self.seen.remove(at);
        for later in &mut self.seen[at..] {
            later.behind -= u32::from(later.must_follow(&chosen));
        }
        if let Some(request) = self.outside.pop_front() {
            self.see(request);
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests;
