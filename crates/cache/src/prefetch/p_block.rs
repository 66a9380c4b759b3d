//! `p-block`: a read of a missing block b brings the blocks up to b + p (B0-4).
//!
//! Described in the paper (S0, section 4.1) as what segment prefetching is not: unaligned, and only forwards. Of a read of
//! several blocks the last missing one counts.
//!
//! Cost: none.

use super::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, ByteLen, Declared, options};

/// Options of `p-block`.
#[options]
#[derive(Clone, Debug)]
pub struct PBlockConfig {
    /// How much.
    #[option(default = ByteLen::kib(32), range = ..=Units::MOST, also = "a multiple of the block")]
    pub lookahead: ByteLen,
}

impl Declared for PBlockConfig {
    const NAME: &'static str = "p-block";
    const SUMMARY: &'static str = "So much behind each missing block.";
    const SOURCE: &'static str = "";
}

impl PrefetchOptions for PBlockConfig {
    type Policy = PBlock;

    fn build(&self, units: &Units) -> Result<PBlock, BuildError> {
        Ok(PBlock::new(units.blocks("prefetch.lookahead", self.lookahead)?))
    }
}

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
