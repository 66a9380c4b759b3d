//! One request of a trace in 16 bytes.
//!
//! Two 64-bit words, from the high bits down:
//!
//! | word | bits  | field                                          | bound                |
//! |------|-------|------------------------------------------------|----------------------|
//! | 0    | 63-12 | arrival time in ns since the first arrival     | 2^52-1 ns, 52.1 days |
//! | 0    | 11-0  | stream                                         | 4096 streams         |
//! | 1    | 63-26 | offset in sectors of 512 B                     | 128 TiB              |
//! | 1    | 25-4  | length in sectors of 512 B                     | 2 GiB - 512 B        |
//! | 1    | 3-1   | operation, the number of [`Op`]                | 6 of 8               |
//! | 1    | 0     | FUA                                            |                      |
//!
//! A million requests are 16 MB, and sorting by word 0 sorts by time. Anything out of bounds is a [`RecordError`],
//! never a wrapped number.

use nandu_base::{ByteLen, ByteOffset, Instant, Op, SECTOR};

const TIME_SHIFT: u32 = 12;
const STREAM_MASK: u64 = (1 << TIME_SHIFT) - 1;
const OFFSET_SHIFT: u32 = 26;
const LEN_SHIFT: u32 = 4;
const LEN_BITS: u32 = OFFSET_SHIFT - LEN_SHIFT;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;

/// Latest arrival a record holds, in ns after the first: 2^52-1, 52.1 days.
pub const MAX_TIME_NS: u64 = (1 << (64 - TIME_SHIFT)) - 1;
/// One past the last sector a request may touch: 2^38 sectors, 128 TiB.
pub const MAX_END_SECTORS: u64 = 1 << (64 - OFFSET_SHIFT);
/// Longest request in sectors: 2^22-1, one sector short of 2 GiB.
pub const MAX_LEN_SECTORS: u64 = LEN_MASK;
/// Most streams in one trace.
pub const MAX_STREAMS: u64 = STREAM_MASK + 1;

/// One request: when, what, where. 16 bytes; see the [module](self) for layout and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Record {
    time_stream: u64,
    extent_op: u64,
}

/// Why a request does not fit a [`Record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// The arrival lies too far behind the first.
    #[error("{ns} ns after the first arrival; a trace spans at most 4503599627370495 ns (52.1 days): cut it")]
    Time {
        /// Nanoseconds after the first arrival.
        ns: u64,
    },
    /// The arrival lies before all those that were put aside already.
    #[error(
        "it arrives before the first request, and so many stand between that the trace is not sorted in memory: sort the file by time"
    )]
    Early,
    /// The extent ends beyond 128 TiB.
    #[error("the request ends beyond sector 274877906944 (128 TiB), the end of what a trace addresses")]
    Offset,
    /// The request is too long.
    #[error("{sectors} sectors are too long; a request has at most 4194303 sectors of 512 B (2 GiB - 512 B)")]
    Len {
        /// Length in sectors.
        sectors: u64,
    },
    /// A read, write, trim, write-zeroes or reset without length, or a flush with one.
    #[error("a {} of {sectors} sectors; {}", .op.name(), if *.op == Op::Flush { "a flush has no extent" } else { "it needs at least one" })]
    Extent {
        /// The operation.
        op: Op,
        /// Length in sectors.
        sectors: u64,
    },
    /// More streams than a record can tell apart.
    #[error("stream {stream} is one too many; a trace has at most 4096 streams")]
    Stream {
        /// Its number.
        stream: u64,
    },
}

/// Operations by the three bits that name them; the last two are never packed.
const OPS: [Op; 8] =
    [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Reset, Op::Reset, Op::Reset];

impl Record {
    /// A request of whole sectors. `time_ns` counts from the first arrival; a flush has offset and length 0.
    ///
    /// # Errors
    /// A [`RecordError`] when a value is out of the bounds of the [module](self).
    #[inline]
    pub fn new(
        time_ns: u64,
        op: Op,
        fua: bool,
        offset_sectors: u64,
        len_sectors: u64,
        stream: u16,
    ) -> Result<Record, RecordError> {
        if time_ns > MAX_TIME_NS {
            return Err(RecordError::Time { ns: time_ns });
        }
        if len_sectors > MAX_LEN_SECTORS {
            return Err(RecordError::Len { sectors: len_sectors });
        }
        if offset_sectors > MAX_END_SECTORS - len_sectors {
            return Err(RecordError::Offset);
        }
        if (op == Op::Flush) != (len_sectors == 0) || (op == Op::Flush && offset_sectors != 0) {
            return Err(RecordError::Extent { op, sectors: len_sectors });
        }
        if u64::from(stream) >= MAX_STREAMS {
            return Err(RecordError::Stream { stream: u64::from(stream) });
        }
        Ok(Record::packed(time_ns, op, fua, offset_sectors, len_sectors, stream))
    }

    /// Packs values that are known to be in bounds.
    #[inline(always)]
    fn packed(time_ns: u64, op: Op, fua: bool, offset_sectors: u64, len_sectors: u64, stream: u16) -> Record {
        Record {
            time_stream: time_ns << TIME_SHIFT | u64::from(stream),
            extent_op: offset_sectors << OFFSET_SHIFT
                | len_sectors << LEN_SHIFT
                | (op as u64) << 1
                | u64::from(fua),
        }
    }

    /// A plain read or write well inside all bounds, by three comparisons; `None` sends the caller to [`Record::new`],
    /// which accepts what lies nearer to the bounds and names what lies beyond.
    #[inline(always)]
    pub(crate) fn usual(
        time_ns: u64,
        op: Op,
        offset_sectors: u64,
        len_sectors: u64,
        stream: u16,
    ) -> Option<Record> {
        let inside = time_ns <= MAX_TIME_NS
            && len_sectors.wrapping_sub(1) < MAX_LEN_SECTORS
            && offset_sectors < MAX_END_SECTORS - MAX_LEN_SECTORS;
        inside.then(|| Record::packed(time_ns, op, false, offset_sectors, len_sectors, stream))
    }

    /// Arrival, counted from the first arrival of the trace.
    #[inline]
    pub const fn time(self) -> Instant {
        Instant(self.time_stream >> TIME_SHIFT)
    }

    /// What is asked.
    #[inline]
    pub const fn op(self) -> Op {
        OPS[(self.extent_op >> 1) as usize & (OPS.len() - 1)]
    }

    /// True when the request must reach stable storage before it completes.
    #[inline]
    pub const fn fua(self) -> bool {
        self.extent_op & 1 != 0
    }

    /// First byte, a multiple of 512; 0 for a flush.
    #[inline]
    pub const fn offset(self) -> ByteOffset {
        ByteOffset((self.extent_op >> OFFSET_SHIFT) * SECTOR)
    }

    /// Bytes, a multiple of 512; 0 for a flush only.
    #[inline]
    pub const fn len(self) -> ByteLen {
        ByteLen(((self.extent_op >> LEN_SHIFT) & LEN_MASK) * SECTOR)
    }

    /// True for a flush: the one request without an extent.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len().0 == 0
    }

    /// One past the last byte.
    #[inline]
    pub const fn end(self) -> ByteOffset {
        ByteOffset(self.offset().0 + self.len().0)
    }

    /// Index into [`crate::Trace::streams`].
    #[inline]
    pub const fn stream(self) -> u16 {
        (self.time_stream & STREAM_MASK) as u16
    }

    /// First sector of 512 B.
    #[inline]
    pub const fn offset_sectors(self) -> u64 {
        self.extent_op >> OFFSET_SHIFT
    }

    /// Sectors of 512 B.
    #[inline]
    pub const fn len_sectors(self) -> u64 {
        (self.extent_op >> LEN_SHIFT) & LEN_MASK
    }

    /// The same request at another time.
    ///
    /// # Errors
    /// [`RecordError::Time`] beyond [`MAX_TIME_NS`].
    #[inline]
    pub fn at(self, time_ns: u64) -> Result<Record, RecordError> {
        if time_ns > MAX_TIME_NS {
            return Err(RecordError::Time { ns: time_ns });
        }
        Ok(Record { time_stream: time_ns << TIME_SHIFT | u64::from(self.stream()), ..self })
    }

    /// The same request at another place and in another stream.
    ///
    /// # Errors
    /// As [`Record::new`].
    pub fn moved(self, offset_sectors: u64, len_sectors: u64, stream: u16) -> Result<Record, RecordError> {
        Record::new(self.time().0, self.op(), self.fua(), offset_sectors, len_sectors, stream)
    }

    /// The same request in the first stream.
    #[inline]
    pub const fn in_one_stream(self) -> Record {
        Record { time_stream: self.time_stream & !STREAM_MASK, ..self }
    }

    /// The same request in another stream, which is one of a trace.
    #[inline]
    pub(crate) const fn in_stream(self, stream: u16) -> Record {
        Record { time_stream: self.time_stream & !STREAM_MASK | stream as u64 & STREAM_MASK, ..self }
    }

    /// The 16 bytes in the order the content hash reads them: both words, little-endian.
    #[inline]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.time_stream.to_le_bytes());
        out[8..].copy_from_slice(&self.extent_op.to_le_bytes());
        out
    }

    /// The record of these bytes.
    #[inline]
    pub(crate) fn from_bytes(bytes: &[u8; 16]) -> Record {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Record { time_stream: word(0), extent_op: word(8) }
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fua = if self.fua() { " fua" } else { "" };
        write!(
            f,
            "{} ns: {}{fua} {}+{} stream {}",
            self.time().0,
            self.op().name(),
            self.offset().0,
            self.len().0,
            self.stream()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_16_bytes() {
        assert_eq!(size_of::<Record>(), 16);
    }

    #[test]
    fn the_corners_survive_packing() {
        let r = Record::new(
            MAX_TIME_NS,
            Op::Reset,
            true,
            MAX_END_SECTORS - MAX_LEN_SECTORS,
            MAX_LEN_SECTORS,
            4095,
        );
        let r = r.unwrap();
        assert_eq!(r.time(), Instant(MAX_TIME_NS));
        assert_eq!((r.op(), r.fua(), r.stream()), (Op::Reset, true, 4095));
        assert_eq!(r.offset_sectors(), MAX_END_SECTORS - MAX_LEN_SECTORS);
        assert_eq!(r.len_sectors(), MAX_LEN_SECTORS);
        assert_eq!(r.end(), ByteOffset(1 << 47));
    }

    #[test]
    fn beyond_the_corners_is_an_error() {
        let new = Record::new;
        assert!(matches!(new(MAX_TIME_NS + 1, Op::Read, false, 0, 1, 0), Err(RecordError::Time { .. })));
        assert!(matches!(new(0, Op::Read, false, MAX_END_SECTORS, 1, 0), Err(RecordError::Offset)));
        assert!(matches!(new(0, Op::Read, false, u64::MAX, 1, 0), Err(RecordError::Offset)));
        assert!(matches!(new(0, Op::Read, false, 0, MAX_LEN_SECTORS + 1, 0), Err(RecordError::Len { .. })));
        assert!(matches!(new(0, Op::Read, false, 0, 0, 0), Err(RecordError::Extent { .. })));
        assert!(matches!(new(0, Op::Flush, false, 0, 1, 0), Err(RecordError::Extent { .. })));
        assert!(matches!(new(0, Op::Read, false, 0, 1, 4096), Err(RecordError::Stream { .. })));
    }

    proptest::proptest! {
        #[test]
        fn every_record_reads_back(time in 0..=MAX_TIME_NS, op in 0usize..6, fua: bool,
                                   offset in 0..MAX_END_SECTORS / 2, len in 1..=MAX_LEN_SECTORS, stream in 0u16..4096) {
            let op = Op::ALL[op];
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            let r = Record::new(time, op, fua, offset, len, stream).unwrap();
            assert_eq!((r.time().0, r.op(), r.fua(), r.stream()), (time, op, fua, stream));
            assert_eq!((r.offset_sectors(), r.len_sectors()), (offset, len));
        }
    }
}
