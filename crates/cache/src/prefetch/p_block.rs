//! `p-block`: a read of a missing block b brings the blocks up to b + p (B0-4).
//!
//! Described in the paper (S0, section 4.1) as what segment prefetching is not: unaligned, and only forwards. Of a read of
//! several blocks the last missing one counts.
//!
//! Cost: none.

use super::{Look, Prefetch, Range};

/// The prefetcher.
#[derive(Clone, Copy, Debug)]
pub struct PBlock {
    p: u64,
}

impl PBlock {
    /// Brings `p` blocks.
    pub fn new(p: u64) -> PBlock {
        PBlock { p }
    }
}

impl Prefetch for PBlock {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        if let Some(last) = look.missing.last() {
            ahead.push(Range { first: last.end, end: last.end + self.p });
        }
    }
}
