//! `oracle`: brings what reads will ask for, told in advance (B0-9).
//!
//! Stands for prefetching by hints of the application: the simulator knows the trace and tells the blocks of each read
//! `lookahead` requests before it comes ([`Machine::foresee`](nandu_base::Machine::foresee)). With the next read they are
//! brought, those that were told first before others. It is the most that a prefetcher with this look-ahead can know, and
//! says how much of the distance to memory is left to guess. In a server nobody tells, and nothing is brought.
//!
//! Cost: 16 bytes for each request of the look-ahead; a read brings at most 64 ranges.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, Declared, Report, options};
use std::collections::VecDeque;

/// Options of `oracle`.
#[options]
#[derive(Clone, Debug)]
pub struct OracleConfig {
    /// How many requests before it comes a read is told.
    #[option(default = 32, range = 1..=1024)]
    pub lookahead: u32,
}

impl Declared for OracleConfig {
    const NAME: &'static str = "oracle";
    const SUMMARY: &'static str = "What reads will ask for, told in advance: the most that hints of the application can do. In a \
                                   simulation only.";
    const SOURCE: &'static str = "";
}

impl PrefetchOptions for OracleConfig {
    type Policy = Oracle;

    fn build(&self, _units: &Units) -> Result<Oracle, BuildError> {
        Ok(Oracle::new(self.lookahead))
    }
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Oracle {
    ahead: u32,
    coming: VecDeque<Range>,
    told: u64,
}

/// Most ranges that one read brings.
const AT_ONCE: usize = 64;

impl Oracle {
    /// Told `lookahead` requests before they come.
    pub fn new(ahead: u32) -> Oracle {
        Oracle { ahead, coming: VecDeque::with_capacity(ahead as usize + 1), told: 0 }
    }
}

impl Prefetch for Oracle {
    fn plan(&mut self, _look: &Look<'_>, ahead: &mut Vec<Range>) {
        let count = self.coming.len().min(AT_ONCE);
        ahead.extend(self.coming.drain(..count));
        super::join(ahead);
    }

    fn foresight(&self) -> u32 {
        self.ahead
    }

    fn foresee(&mut self, blocks: Range) {
        self.told += 1;
        if self.coming.len() > self.ahead as usize {
            // Nothing was read for so long that it has come.
            self.coming.pop_front();
        }
        self.coming.push_back(blocks);
    }

    fn bytes(&self) -> usize {
        self.coming.capacity() * size_of::<Range>()
    }

    fn report(&mut self, report: &mut Report) {
        report.count("oracle_reads_told", &mut self.told);
    }
}
