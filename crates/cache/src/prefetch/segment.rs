//! `segment`: a read of a missing block brings the whole segment around it (S0-7 to S0-9).
//!
//! A segment is an aligned run of blocks, as long as what the drive reads at once. The rule knows no history and no
//! streams: blocks before and behind the missing one are brought alike.
//!
//! Cost: none.

use super::{Brings, Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, ByteLen, Declared, options};

/// Options of `segment`.
#[options]
#[derive(Clone, Debug)]
pub struct SegmentConfig {
    /// Bytes of a segment, instead of the cache's `segment_size`.
    #[option(also = "a power of two of blocks, at most 64")]
    pub segment_size: Option<ByteLen>,
    /// What a missing block of a segment that is partly here brings.
    #[option(default)]
    pub holes: Holes,
}

/// What a missing block of a segment that is partly here brings.
#[options]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// All that is missing of the segment.
    #[default]
    Segment,
    /// Itself.
    BlockOnly,
}

impl Declared for SegmentConfig {
    const NAME: &'static str = "segment";
    const SUMMARY: &'static str = "The whole segment of each missing block.";
    const SOURCE: &'static str = "the paper on segment prefetching and adaptive culling";
    const DRAWS: &'static [&'static str] = &["", "holes = \"block-only\""];
}

impl PrefetchOptions for SegmentConfig {
    type Policy = Segment;

    fn brings(&self) -> Brings {
        Brings::Segments(self.holes)
    }

    fn segment(&self) -> Option<ByteLen> {
        self.segment_size
    }

    fn build(&self, units: &Units) -> Result<Segment, BuildError> {
        Ok(Segment::new(units.segment))
    }
}

/// The prefetcher.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    blocks: u64,
}

impl Segment {
    /// Segments of `blocks` blocks.
    pub fn new(blocks: u64) -> Segment {
        Segment { blocks }
    }
}

impl Prefetch for Segment {
    #[inline]
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        for run in look.missing {
            let first = run.first / self.blocks * self.blocks;
            let end = run.end.next_multiple_of(self.blocks);
            match ahead.last_mut() {
                Some(last) if first <= last.end => last.end = last.end.max(end),
                _ => ahead.push(Range { first, end }),
            }
        }
    }
}
