//! `segment`: a read of a missing block brings the whole segment around it (S0-7 to S0-9).
//!
//! A segment is an aligned run of blocks, as long as what the drive reads at once. The rule knows no history and no
//! streams: blocks before and behind the missing one are brought alike.
//!
//! Cost: none.

use super::{Look, Prefetch, Range};

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
