//! Streams: the host's pages that are likely to be overwritten at about the same time share blocks, and others do not.
//!
//! Each plane has an open block for each stream, and each tenant that is kept apart has one of its own for each. They share its erased blocks and its collection, and moved pages have a block of their
//! own, or without `gc.separate_frontier` that of the first stream. Which stream a page belongs to is said by counters of its writes ([`crate::placement::MultiHash`]), or by
//! the tenant whose range it lies in; a tenant beyond the last stream shares it.
//!
//! A stream takes a block of each plane from what can be spare, so their number is bounded by an option. After a power cut blocks that
//! were open are continued by whatever streams there are: where their pages go is a matter of speed only.
//!
//! RAM: 8 bytes per stream and plane, and the counters.

use super::{Flash, Planner};
use crate::Lpn;
use crate::mapping::Mapping;
use crate::placement::MultiHash;

/// What tells a page's stream.
#[derive(Clone, Debug)]
pub enum Streams {
    /// Cold pages are stream 0, hot ones stream 1.
    HotCold(MultiHash),
    /// One past the last logical page of each stream but the last.
    Ranges(Vec<u32>),
}

impl Streams {
    /// The stream of a page that is written now.
    fn of(&mut self, lpn: Lpn) -> u32 {
        match self {
            Streams::HotCold(counters) => u32::from(counters.write(lpn.0)),
            Streams::Ranges(ends) => ends.partition_point(|&end| end <= lpn.0) as u32,
        }
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The stream of a page that the host writes now.
    #[inline]
    pub(super) fn stream_of(&mut self, lpn: Lpn) -> u32 {
        let Some(streams) = &mut self.streams else { return 0 };
        let stream = streams.of(lpn);
        self.count.stream_pages += u64::from(stream > 0);
        stream
    }
}
