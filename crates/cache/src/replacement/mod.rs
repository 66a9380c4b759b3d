//! Which line goes when memory is short: one file each, one trait, one line in [`POLICIES`].
//!
//! A policy sees slots, never data, time or machines. The directory tells it what happens to lines; it keeps its own
//! order and names victims. A policy that remembers lines which have gone (ghosts) does so by their numbers. The type of its
//! options declares it: see [`ReplacementOptions`].

mod adaptive_culling;
mod arc;
pub mod conformance;
mod fixed_culling;
mod lecar;
mod lirs;
mod lru;
mod options;
mod s3_fifo;
mod sarc;
mod segment_lists;
mod segment_prefetch_only;
mod sieve;

pub use adaptive_culling::{AdaptiveConfig, AdaptiveCulling, Feedback, Trigger, TriggerOn};
pub use arc::{Arc, ArcConfig};
pub use fixed_culling::{FixedCulling, FixedCullingConfig};
pub use lecar::{Lecar, LecarConfig};
pub use lirs::{Lirs, LirsConfig};
pub use lru::{Lru, LruConfig};
pub use options::{
    AnyReplacement, LineOf, Needs, POLICIES, ReplacementConfig, ReplacementOptions, Replacements, Room,
    policy,
};
pub use s3_fifo::{Fill, S3Fifo, S3FifoConfig};
pub use sarc::{Sarc, SarcConfig};
pub use segment_lists::{Fault, SegmentLists};
pub use segment_prefetch_only::{SegmentPrefetchOnly, SegmentPrefetchOnlyConfig};
pub use sieve::{Sieve, SieveConfig};

use crate::directory::Line;
use nandu_base::{Report, Violation};

/// How a line was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// The block was prefetched and is met for the first time.
    pub prefetched: bool,
    /// By a write.
    pub write: bool,
}

/// Why a line comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A read asked for one of its blocks.
    Read,
    /// A write.
    Write,
    /// Nobody asked for any of it yet.
    Prefetch,
}

/// What a policy remembers of a line that comes: which of its ghosts it was.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recall {
    /// Nothing.
    #[default]
    Nothing,
    /// It was met once and went.
    Once,
    /// It was met several times and went.
    Often,
}

/// How a line comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Why.
    pub cause: Cause,
    /// What [`Replacement::miss`] said of it.
    pub recall: Recall,
    /// The request follows the one before it.
    pub sequential: bool,
}

impl Arrival {
    /// A line that `cause` brings.
    pub const fn by(cause: Cause) -> Arrival {
        Arrival { cause, recall: Recall::Nothing, sequential: false }
    }
}

/// What is to go. The policy has changed its own order already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// All of this line.
    Whole(u32),
    /// The prefetched blocks of this line: it is culled. With no cached block it goes as a whole, and the policy has
    /// forgotten it.
    Prefetched(u32),
}

/// A replacement policy. See the module's page.
pub trait Replacement: Send {
    /// A line of which nothing is here is about to come.
    #[inline(always)]
    fn miss(&mut self, _line: u64, _cause: Cause) -> Recall {
        Recall::Nothing
    }

    /// A new line is here.
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival);

    /// More blocks of a line are here.
    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival);

    /// A block of the line is met.
    fn hit(&mut self, slot: u32, lines: &[Line], hit: Hit);

    /// A read asked for block `bit` of the line, which is not here. Of a write no policy hears this: it brings its block along.
    #[inline(always)]
    fn hole(&mut self, _slot: u32, _bit: u64) {}

    /// Names what goes, for the line that `incoming` says something of. [`None`] when there is no line.
    fn victim(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim>;

    /// Names what goes although memory is not short.
    #[inline(always)]
    fn surplus(&mut self, _lines: &[Line]) -> Option<Victim> {
        None
    }

    /// The line goes for a reason of others. Its number still stands in `lines`.
    fn remove(&mut self, slot: u32, lines: &[Line]);

    /// Some blocks of the line went for a reason of others.
    #[inline(always)]
    fn shrunk(&mut self, _slot: u32, _lines: &[Line]) {}

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// Puts its figures into the report, or begins to count anew, as the report asks.
    fn report(&mut self, _report: &mut Report) {}

    /// Its invariants, looking at every line.
    fn check(&self, lines: &[Line]) -> Result<(), Violation>;
}

impl Replacement for Box<dyn Replacement> {
    fn miss(&mut self, line: u64, cause: Cause) -> Recall {
        (**self).miss(line, cause)
    }
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        (**self).insert(slot, lines, arrival);
    }
    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        (**self).refill(slot, lines, arrival);
    }
    fn hit(&mut self, slot: u32, lines: &[Line], hit: Hit) {
        (**self).hit(slot, lines, hit);
    }
    fn hole(&mut self, slot: u32, bit: u64) {
        (**self).hole(slot, bit);
    }
    fn victim(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim> {
        (**self).victim(lines, incoming)
    }
    fn surplus(&mut self, lines: &[Line]) -> Option<Victim> {
        (**self).surplus(lines)
    }
    fn remove(&mut self, slot: u32, lines: &[Line]) {
        (**self).remove(slot, lines);
    }
    fn shrunk(&mut self, slot: u32, lines: &[Line]) {
        (**self).shrunk(slot, lines);
    }
    fn bytes(&self) -> usize {
        (**self).bytes()
    }
    fn report(&mut self, report: &mut Report) {
        (**self).report(report);
    }
    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        (**self).check(lines)
    }
}

/// Every slot that holds a line is in exactly one of the lists `listed` (I-3): what most policies check.
pub fn each_once(listed: impl Iterator<Item = u32>, lines: &[Line]) -> Result<(), Violation> {
    let mut seen = vec![0u32; lines.len()];
    for slot in listed {
        seen[slot as usize] += 1;
    }
    let wrong = |(slot, line): &(usize, &Line)| seen[*slot] != u32::from(line.blocks > 0);
    match lines.iter().enumerate().find(wrong) {
        None => Ok(()),
        Some((slot, line)) => Err(Violation {
            invariant: "I-3",
            what: format!("line {} is in {} lists of the policy", line.number, seen[slot]),
        }),
    }
}

#[cfg(test)]
mod tests;
