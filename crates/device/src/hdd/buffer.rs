//! The track buffer: segments of blocks that were read, read ahead or written.
//!
//! Each segment holds a stretch of consecutive blocks; when it is full its oldest blocks make room. A read that begins in a
//! segment is a hit. A miss takes the segment that was used least recently. A write empties every segment that it
//! touches, for the buffer must never return what is no longer on the disk.
//!
//! In the verified simulation a segment holds the contents that were read, and a hit returns those, so that a segment that
//! should have been emptied is found out.
//!
//! Source: the segmented buffers of Ruemmler and Wilkes (IEEE Computer 1994); read-ahead policies as DiskSim 4.0 names
//! them. Cost: two instructions for each segment and request ([`spans`]). RAM: 72 bytes for each segment.

mod spans;

use nandu_base::{ByteLen, Medium, Payload, PayloadPool, SECTOR, Sector, Stamp};
use schemars::JsonSchema;
use serde::Deserialize;
use spans::{Spans, Turns};
use std::collections::VecDeque;

/// How far a drive reads on after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the track, and of the next one when the segment begins before this track: only sequential reads earn a
    /// second track.
    TrackThenNext,
    /// To the end of the cylinder, as far as the segment holds it.
    Cylinder,
    /// So many blocks beyond the request, as far as the segment holds them.
    Blocks {
        /// How many.
        count: u32,
    },
}

/// What a buffer is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferSpec {
    /// Segments, at least 1.
    pub segments: u32,
    /// Blocks in each.
    pub blocks: u64,
    /// Reading on.
    pub read_ahead: ReadAhead,
    /// Blocks that a read has taken stay in the buffer.
    pub keeps_what_was_read: bool,
    /// Blocks that were written are kept for reads.
    pub hits_on_writes: bool,
    /// Writes use a segment of their own and leave the others alone.
    pub separate_writes: bool,
    /// A hit makes a drive that stands still read on.
    pub resumes_on_hit: bool,
    /// A read that begins with the block that is read next is a hit.
    pub joins_stream: bool,
    /// Everything that passes on the track of a read before its first block is kept.
    pub keeps_what_passes: bool,
    /// Reads take the sectors of a track in any order.
    pub reads_any_order: bool,
    /// Writes as well.
    pub writes_any_order: bool,
    /// Reading on stops within a sector.
    pub stops_in_sector: bool,
}

/// What a sector of the buffer holds.
#[derive(Clone, Debug)]
enum Held {
    Stamp(Stamp),
    Bytes(Box<[u8; SECTOR as usize]>),
}

/// One segment; empty when `start == end`.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// First block.
    pub start: u64,
    /// One past the last block.
    pub end: u64,
    /// In a run with contents, those of each block.
    held: VecDeque<Held>,
}

/// All segments.
#[derive(Clone, Debug)]
pub struct Buffer {
    segments: Vec<Segment>,
    spans: Spans,
    turns: Turns,
    blocks: u64,
    /// Segment that only writes use.
    writes: Option<usize>,
    /// Fault to plant: writes leave segments as they are.
    pub stays_stale: bool,
}

impl Buffer {
    /// An empty buffer. No segment is longer than a TiB, whatever `spec` says.
    pub fn new(spec: &BufferSpec) -> Buffer {
        let count = spec.segments as usize;
        let writes = (spec.separate_writes && count > 1).then_some(0);
        let mut turns = Turns::new(count);
        writes.into_iter().for_each(|at| turns.leave_out(at));
        Buffer {
            segments: vec![Segment::default(); count],
            spans: Spans::new(count),
            turns,
            blocks: spec.blocks.min(spans::LONGEST),
            writes,
            stays_stale: false,
        }
    }

    /// The segment in which `block` lies; with `joins`, also the segment that it would come next in.
    #[inline]
    pub fn find(&self, block: u64, joins: Option<usize>) -> Option<usize> {
        let inside = |s: &Segment| block.wrapping_sub(s.start) < s.end - s.start;
        let found = match self.spans.may_touch(block, 1) {
            true => self.segments.iter().position(inside),
            false => None,
        };
        found.or_else(|| joins.filter(|&s| self.segments[s].end == block && self.segments[s].start < block))
    }

    /// A segment.
    #[inline]
    pub fn segment(&self, at: usize) -> &Segment {
        &self.segments[at]
    }

    /// It is in use.
    #[inline]
    pub fn touch(&mut self, at: usize) {
        if Some(at) != self.writes {
            self.turns.touch(at);
        }
    }

    /// Takes a segment for a read that begins at `start`; the segment is empty then.
    #[inline]
    pub fn take_for_read(&mut self, start: u64) -> usize {
        let at = self.turns.first();
        self.touch(at);
        self.restart(at, start);
        at
    }

    /// Whether so many blocks fit into a segment.
    #[inline]
    pub fn holds(&self, count: u64) -> bool {
        count <= self.blocks
    }

    /// Takes a segment for blocks `start..end` that are written, as many as it holds at most. In a run with contents those are [put](Self::put)
    /// into it next.
    #[inline]
    pub fn take_for_write(&mut self, start: u64, end: u64) -> usize {
        debug_assert!(self.holds(end - start));
        let at = self.writes.unwrap_or_else(|| self.turns.first());
        self.touch(at);
        let held = &mut self.segments[at].held;
        if !held.is_empty() {
            held.clear();
        }
        self.put_at(at, start, end);
        at
    }

    /// An empty segment begins at `start`.
    #[inline(always)]
    pub fn restart(&mut self, at: usize, start: u64) {
        let s = &mut self.segments[at];
        if !s.held.is_empty() {
            s.held.clear();
        }
        self.put_at(at, start, start);
    }

    /// A segment reaches from `start` to `end` from here on.
    #[inline(always)]
    fn put_at(&mut self, at: usize, start: u64, end: u64) {
        let s = &mut self.segments[at];
        (s.start, s.end) = (start, end);
        self.spans.set(at, start, end);
        if Some(at) != self.writes {
            self.turns.set_empty(at, start == end);
        }
    }

    /// The segment now reaches to `end`; its first blocks go when it is full.
    #[inline(always)]
    pub fn extend(&mut self, at: usize, end: u64) {
        let s = &mut self.segments[at];
        s.end = end;
        let start = s.start.max(end.saturating_sub(self.blocks));
        self.drop_before(at, start);
    }

    /// Blocks before `start` leave the segment.
    #[inline(always)]
    pub fn drop_before(&mut self, at: usize, start: u64) {
        let s = &mut self.segments[at];
        if !s.held.is_empty() {
            let gone = (start.min(s.end) - s.start.min(start)).min(s.held.len() as u64);
            s.held.drain(..gone as usize);
        }
        let (start, end) = (s.start.max(start).min(s.end), s.end);
        self.put_at(at, start, end);
    }

    /// These blocks change: no segment may return what it holds of them.
    #[inline]
    pub fn invalidate(&mut self, first: u64, end: u64) {
        if !self.stays_stale && self.spans.may_touch(first, end - first) {
            self.empty_touched(first, end);
        }
    }

    fn empty_touched(&mut self, first: u64, end: u64) {
        for at in 0..self.segments.len() {
            let s = &mut self.segments[at];
            if s.start < end && first < s.end {
                s.held.clear();
                let end = s.end;
                self.put_at(at, end, end);
            }
        }
    }

    /// Stores contents of a medium behind what the segment holds of blocks `first..end`.
    pub fn fill(&mut self, at: usize, medium: &mut dyn Medium, pool: &mut PayloadPool, first: u64, end: u64) {
        let payload = pool.allocate(ByteLen((end - first) * SECTOR));
        medium.read(pool, first, 0, (end - first) as u32, payload);
        self.put(at, pool, payload, end - first);
        pool.release(payload);
    }

    /// Stores `count` sectors of a payload behind what the segment holds.
    pub fn put(&mut self, at: usize, pool: &PayloadPool, payload: Payload, count: u64) {
        let held = &mut self.segments[at].held;
        held.extend((0..count).map(|i| match pool.sector(payload, i) {
            None => Held::Stamp(Stamp::ZERO),
            Some(Sector::Stamp(stamp)) => Held::Stamp(stamp),
            Some(Sector::Bytes(bytes)) => {
                Held::Bytes(Box::new(bytes.try_into().expect("a sector has 512 bytes")))
            }
        }));
    }

    /// Hands blocks `first..end` of the segment to a read.
    pub fn read(&self, at: usize, pool: &mut PayloadPool, first: u64, end: u64, into: Payload) {
        let s = &self.segments[at];
        let skip = (first - s.start) as usize;
        for (i, held) in (0..end - first).zip(s.held.iter().skip(skip)) {
            let sector = match held {
                Held::Stamp(stamp) => Sector::Stamp(*stamp),
                Held::Bytes(bytes) => Sector::Bytes(&bytes[..]),
            };
            pool.put_sector(into, i, sector);
        }
    }

    /// Whether each segment's contents are as long as the segment, in a run that has contents.
    pub fn is_sound(&self) -> bool {
        let fits = |s: &Segment| s.held.is_empty() || s.held.len() as u64 == s.end - s.start;
        self.segments.iter().all(|s| fits(s) && s.end - s.start <= self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(segments: u32, blocks: u64, separate_writes: bool) -> Buffer {
        Buffer::new(&BufferSpec {
            segments,
            blocks,
            read_ahead: ReadAhead::None,
            keeps_what_was_read: true,
            hits_on_writes: true,
            separate_writes,
            resumes_on_hit: false,
            joins_stream: true,
            keeps_what_passes: false,
            reads_any_order: false,
            writes_any_order: false,
            stops_in_sector: false,
        })
    }

    #[test]
    fn a_full_segment_drops_its_oldest_blocks_and_the_oldest_segment_goes_first() {
        let mut b = buffer(2, 10, false);
        let one = b.take_for_read(100);
        b.extend(one, 108);
        assert_eq!((b.find(100, None), b.find(107, None), b.find(108, None)), (Some(one), Some(one), None));
        assert_eq!(b.find(108, Some(one)), Some(one));
        b.extend(one, 115);
        assert_eq!((b.find(104, None), b.find(105, None)), (None, Some(one)));
        let two = b.take_for_read(500);
        b.extend(two, 501);
        b.touch(one);
        assert_eq!(b.take_for_read(900), two);
        assert!(b.is_sound());
    }

    #[test]
    fn a_write_empties_what_it_touches_and_uses_its_own_segment() {
        let mut b = buffer(3, 10, true);
        let read = b.take_for_read(100);
        b.extend(read, 110);
        b.invalidate(109, 120);
        assert_eq!(b.find(100, None), None);
        let write = b.take_for_write(109, 119);
        assert_ne!(write, read);
        for first in [200, 300, 400] {
            let next = b.take_for_read(first);
            b.extend(next, first + 1);
            assert_ne!(next, write);
        }
        assert_eq!(b.find(110, None), Some(write));
    }
}
