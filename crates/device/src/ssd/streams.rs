//! Streams: the host's pages that are likely to be overwritten at about the same time share blocks, and others do not.
//!
//! Each plane has an open block for each stream, and each tenant that is kept apart has one of its own for each. They share its erased blocks and its collection, and moved pages have a block of their
//! own, or without `gc.separate_frontier` that of the first stream. Which stream a page belongs to is said by counters of its writes ([`nandu_ftl::placement::MultiHash`]), or by
//! the tenant whose range it lies in; a tenant beyond the last stream shares it.
//!
//! A stream takes a block of each plane from what can be spare, so their number is bounded by an option. After a power cut blocks that
//! were open are continued by whatever streams there are: where their pages go is a matter of speed only.
//!
//! RAM: 8 bytes per stream and plane, and the counters.

use super::Ssd;
use nandu_base::{Cx, TenantId};
use nandu_ftl::mapping::Mapping;
use nandu_ftl::placement::MultiHash;
use nandu_ftl::{Lpn, Ppn};

/// What tells a page's stream.
#[derive(Clone, Debug)]
pub(super) enum Streams {
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

impl<M: Mapping> Ssd<M> {
    /// The stream of a page that the host writes now.
    #[inline]
    pub(super) fn stream_of(&mut self, lpn: Lpn) -> u32 {
        let Some(streams) = &mut self.streams else { return 0 };
        let stream = streams.of(lpn);
        self.count.stream_pages += u64::from(stream > 0);
        stream
    }

    /// Takes the next page for the data of `lpn` in the open block of its stream; it counts as valid from here on.
    pub(super) fn take_stream_page(&mut self, lpn: Lpn, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        let stream = self.stream_of(lpn);
        if stream == 0 {
            return self.take_host_page(cause, cx).ppn;
        }
        let plane = self.next_plane_with_room();
        if self.blocks.stream(plane, stream).is_full() {
            self.make_slc_room(plane, cause, cx);
            while self.blocks.planes[plane as usize].free <= self.host.urgent {
                self.count.clears_forced += 1;
                self.clear_whole_block(plane, cause, cx);
            }
            let cursor = self.open_for_host(plane).expect("clearing has freed a block");
            self.note_opened(cursor);
            *self.blocks.stream(plane, stream) = cursor;
        }
        self.blocks.planes[plane as usize].valid += 1;
        self.blocks.stream(plane, stream).take()
    }
}
