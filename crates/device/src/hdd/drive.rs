//! Everything that makes a drive what it is, once its options or its parameter files are read.

use super::buffer::BufferSpec;
use super::mechanics::Mechanics;
use super::power::PowerSpec;
use super::write_cache::WriteCacheSpec;
use nandu_base::Span;

/// A time that depends on what the drive did last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ByLast {
    /// After a read.
    pub read: Span,
    /// After a write.
    pub write: Span,
}

impl ByLast {
    /// The same after both.
    pub fn both(span: Span) -> ByLast {
        ByLast { read: span, write: span }
    }

    /// The time after a read, or after a write.
    #[inline]
    pub fn after(&self, read: bool) -> Span {
        if read { self.read } else { self.write }
    }
}

/// A controller that leaves the bus once before it takes the data of a write which does not continue the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtraDisconnect {
    /// Taking the command.
    pub command: Span,
    /// From there until the arm sets off.
    pub seek_delay: Span,
    /// Leaving the bus and staying away.
    pub away: Span,
    /// Coming back, at the end of the write.
    pub reselect: Span,
}

/// The electronics: what a command costs beside the mechanics, and the link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Controller {
    /// From a read to its first data, when it is in the buffer.
    pub read_hit: ByLast,
    /// From a read until the arm sets off.
    pub read_miss: ByLast,
    /// From a write to its data and until the arm sets off.
    pub write: ByLast,
    /// The same for a write that is acknowledged from the cache.
    pub write_cached: ByLast,
    /// Leaving the bus while the arm moves, for reads.
    pub read_disconnect: ByLast,
    /// Coming back to the bus.
    pub reselect: Span,
    /// Before each transfer of data.
    pub prepare_data: Span,
    /// From the end of a read's data to its completion.
    pub read_done: Span,
    /// The same for a write.
    pub write_done: Span,
    /// One block to the host, in picoseconds.
    pub block_to_host_ps: u64,
    /// One block from the host, in picoseconds.
    pub block_from_host_ps: u64,
    /// Share of a read that is in the buffer before its transfer begins, in millionths; at least a block.
    pub read_watermark_ppm: u64,
    /// Blocks of a write that are in the buffer before its first sector passes: of short writes, and of those from
    /// [`LONG_WRITE`] blocks on. At least one is.
    pub blocks_before_write: (u64, u64),
    /// A seek for a write is not faster than this.
    pub least_write_seek: Span,
    /// Set when the controller does so.
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// From so many blocks on a write is a long one.
pub const LONG_WRITE: u64 = 45;

impl Controller {
    /// Blocks of a write of `blocks` that are in the buffer before its first sector passes.
    #[inline]
    pub fn blocks_before_write(&self, blocks: u64) -> u64 {
        let (short, long) = self.blocks_before_write;
        (if blocks < LONG_WRITE { short } else { long }).clamp(1, blocks)
    }

    /// The link's time for blocks to the host.
    #[inline]
    pub fn to_host(&self, blocks: u64) -> Span {
        Span(blocks * self.block_to_host_ps / 1000)
    }

    /// The link's time for blocks from the host.
    #[inline]
    pub fn from_host(&self, blocks: u64) -> Span {
        Span(blocks * self.block_from_host_ps / 1000)
    }

    /// Blocks of a read that are in the buffer before its transfer begins.
    #[inline]
    pub fn watermark(&self, blocks: u64) -> u64 {
        if self.read_watermark_ppm == 0 { 1 } else { (blocks * self.read_watermark_ppm / 1_000_000).max(1) }
    }
}

/// A drive.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Arm, spindle and geometry.
    pub mechanics: Mechanics,
    /// Electronics and link.
    pub controller: Controller,
    /// The track buffer.
    pub buffer: BufferSpec,
    /// The volatile write cache; `None` when it is off or not there.
    pub write_cache: Option<WriteCacheSpec>,
    /// Power states.
    pub power: PowerSpec,
}
