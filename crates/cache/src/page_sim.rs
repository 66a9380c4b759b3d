//! The cache alone: accesses in order, no time and no device. For curves of miss ratios and for the speed of policies.
//!
//! Every access is one block; a miss brings it at once. With segments, a miss brings every absent block of its segment
//! (S0-8). What is counted is what the machine counts, so that both can be compared.

use crate::directory::{Directory, Tally};
use crate::map::{Flat, Hashed, LineMap};
use crate::replacement::{Arrival, Cause, Replacement, ReplacementConfig, Room};
use nandu_base::{Ask, BuildError, Counter, Report};

/// Blocks that are met in order. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// First block.
    pub first: u64,
    /// How many.
    pub blocks: u32,
    /// By a write, which prefetches nothing.
    pub write: bool,
    /// The first follows the last block that was met before; the others follow each other.
    pub sequential: bool,
}

/// Takes accesses, some at a time.
pub type Take<'a> = dyn FnMut(&[Access]) + 'a;

/// What the cache meets: the same again and again.
#[derive(Clone, Copy)]
pub struct Accesses<'a> {
    /// Hands over what is met one time, from the first to the last.
    pub once: &'a (dyn Fn(&mut Take<'_>) + Sync),
    /// Times.
    pub times: u32,
}

/// How the cache finds a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// A table indexed by line, for this many blocks.
    Flat(u64),
    /// A hashed table.
    Hashed,
}

/// The cache to simulate.
#[derive(Clone, Debug)]
pub struct PageCache {
    /// Who goes.
    pub replacement: ReplacementConfig,
    /// Blocks that fit.
    pub capacity: u64,
    /// Blocks of a segment, a power of two up to 64; 1 prefetches nothing.
    pub segment: u64,
    /// How lines are found.
    pub lookup: Lookup,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct PageResult {
    /// What was counted.
    pub tally: Tally,
    /// Bytes that the cache takes beside its blocks.
    pub metadata_bytes: usize,
    /// Figures of the policy at the end.
    pub counters: Vec<Counter>,
}

impl PageResult {
    /// Accesses.
    pub fn accesses(&self) -> u64 {
        self.tally.cache_hits + self.tally.prefetch_hits + self.tally.misses
    }

    /// Misses by accesses; 0 without any.
    pub fn miss_ratio(&self) -> f64 {
        self.tally.misses as f64 / self.accesses().max(1) as f64
    }
}

impl PageCache {
    /// What its policy is made for.
    pub fn room(&self) -> Room {
        Room { blocks: self.capacity, line: self.segment.max(1), fault: None }
    }
}

/// Meets every block of `accesses`.
///
/// # Errors
/// Options that do not fit the cache.
pub fn simulate(cache: &PageCache, accesses: Accesses<'_>) -> Result<PageResult, BuildError> {
    cache.replacement.options()?.simulate(cache, accesses)
}

/// The same with a policy of a type of its own: no call of a policy goes through a pointer.
pub fn run_policy<P: Replacement>(cache: &PageCache, policy: P, accesses: Accesses<'_>) -> PageResult {
    let shift = cache.segment.max(1).trailing_zeros();
    match cache.lookup {
        Lookup::Flat(blocks) => {
            let map = Flat::new(blocks.div_ceil(1 << shift));
            run(Directory::new(shift, cache.capacity, policy, map), accesses)
        }
        Lookup::Hashed => {
            let lines = (cache.capacity as usize).min(1 << 22);
            run(Directory::new(shift, cache.capacity, policy, Hashed::new(lines)), accesses)
        }
    }
}

fn run<P: Replacement, M: LineMap>(mut directory: Directory<P, M>, accesses: Accesses<'_>) -> PageResult {
    if directory.shift() == 0 {
        meet_all::<true, P, M>(&mut directory, accesses);
    } else {
        meet_all::<false, P, M>(&mut directory, accesses);
    }
    let mut report = Report::new(Ask::Counters);
    directory.report(&mut report);
    let counters = report.counters;
    PageResult { tally: directory.tally, metadata_bytes: directory.metadata_bytes(), counters }
}

fn meet_all<const ONE: bool, P: Replacement, M: LineMap>(
    directory: &mut Directory<P, M>,
    accesses: Accesses<'_>,
) {
    let mut meet = |block: &[Access]| {
        for access in block {
            let cause = if access.write { Cause::Write } else { Cause::Read };
            let mut sequential = access.sequential;
            for block in access.first..access.first + u64::from(access.blocks) {
                let arrival = Arrival { sequential, ..Arrival::by(cause) };
                if ONE {
                    directory.demand_block(block, arrival);
                } else {
                    directory.demand(block, arrival);
                }
                sequential = true;
            }
        }
    };
    (0..accesses.times).for_each(|_| (accesses.once)(&mut meet));
}
