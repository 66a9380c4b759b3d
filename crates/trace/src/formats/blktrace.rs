//! blktrace's binary events, as in `sda.blktrace.0`: what `blkparse` reads.
//!
//! An event has 48 bytes and a payload: magic `0x65617400` with version 7, sequence, time in ns, sector of 512 B, bytes, action
//! with category, pid, device, CPU, error (16 bits), length of the payload (16 bits). All have the byte order of the machine that
//! recorded them; the magic tells it. Files of several CPUs may be joined in any order: the trace is sorted by time.
//!
//! *What a request is.* An event Q, queued: what the block layer was asked, before merging. Where the first events have no Q
//! (`blktrace -a issue`), an event D, sent to the driver. Requests of the SCSI pass-through have no sector and are left out. A write
//! that carries a flush ahead of it is a flush and a write. The device becomes the stream. Source: `blktrace_api.h` of Linux,
//! `blkparse(1)`.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{RecordParser, drive_records};
use nandu_base::{Op, SECTOR};

/// blktrace, binary.
pub static FORMAT: Format = Format {
    name: "blktrace",
    summary: "blktrace binary events, as in sda.blktrace.0: queued requests, or issued ones where none were queued",
    example: "magic 0x65617407, time 1000 ns, sector 2048, 4096 bytes, action Q W, device 8,0",
    tried: Tried::Tool,
    sniff: |head| Blktrace::begin(head).is_some(),
    note: no_note,
    kind: Kind::Binary { parse: drive_records::<Blktrace> },
    writer: None,
};

/// Which event a request is taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// Q.
    Queued,
    /// D.
    Issued,
}

/// What an event says of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// `None` when it names no operation.
    pub op: Option<Op>,
    /// The cache is flushed before.
    pub flush_before: bool,
    /// The write is durable when it ends.
    pub fua: bool,
}

impl Asked {
    /// Adds the requests that an event stands for.
    pub(super) fn push(self, at: usize, line: Line, bytes: u64, out: &mut Builder) -> Result<(), Fault> {
        if self.flush_before {
            out.push(at, Line { op: Op::Flush, fua: false, offset_sectors: 0, len_sectors: 0, ..line })?;
        }
        let Some(op) = self.op.filter(|_| bytes > 0) else { return Ok(()) };
        let fua = self.fua && op == Op::Write;
        // The last sector of a request that is no multiple of 512 B is asked for as a whole.
        out.push(at, Line { op, fua, len_sectors: bytes.div_ceil(SECTOR), ..line })
    }
}

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const ACT_QUEUE: u32 = 1;
const ACT_ISSUE: u32 = 7;
/// Set in the action of an event that names the control group that asked (`__BLK_TA_CGROUP`): its payload begins with the group.
const CGROUP: u32 = 1 << 8;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const PASS_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// An event without its payload.
struct Event {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    payload: u16,
}

struct Blktrace {
    big: bool,
    taken: Taken,
}

impl Blktrace {
    fn word<const N: usize>(&self, bytes: &[u8], at: usize) -> u64 {
        let mut word = [0; 8];
        word[..N].copy_from_slice(&bytes[at..at + N]);
        if self.big {
            word[..N].reverse();
        }
        u64::from_le_bytes(word)
    }

    fn event(&self, bytes: &[u8]) -> Option<Event> {
        let magic = self.word::<4>(bytes, 0) as u32;
        (magic == MAGIC | VERSION).then(|| Event {
            time_ns: self.word::<8>(bytes, 8),
            sector: self.word::<8>(bytes, 16),
            bytes: self.word::<4>(bytes, 24) as u32,
            action: self.word::<4>(bytes, 28) as u32,
            device: self.word::<4>(bytes, 36) as u32,
            payload: self.word::<2>(bytes, 46) as u16,
        })
    }
}

impl Event {
    /// Whether a request is taken from it.
    fn is(&self, taken: Taken) -> bool {
        let action = match taken {
            Taken::Queued => ACT_QUEUE,
            Taken::Issued => ACT_ISSUE,
        };
        self.action & (NOTIFY | PASS_THROUGH) == 0 && self.action & 0xFFFF & !CGROUP == action
    }
}

impl RecordParser for Blktrace {
    const HEAD: usize = 48;

    fn begin(head: &[u8]) -> Option<Blktrace> {
        let magic = *head.first_chunk::<4>()?;
        let big = match magic {
            m if u32::from_le_bytes(m) == MAGIC | VERSION => false,
            m if u32::from_be_bytes(m) == MAGIC | VERSION => true,
            _ => return None,
        };
        let mut parser = Blktrace { big, taken: Taken::Queued };
        let (mut at, mut issued) = (0, false);
        while let Some(event) = head.get(at..at + Self::HEAD).and_then(|bytes| parser.event(bytes)) {
            if event.is(Taken::Queued) {
                return Some(parser);
            }
            issued |= event.is(Taken::Issued);
            at += Self::HEAD + usize::from(event.payload);
        }
        if issued {
            parser.taken = Taken::Issued;
        }
        Some(parser)
    }

    fn len(&self, head: &[u8]) -> Result<usize, Fault> {
        match self.event(head) {
            Some(event) => Ok(Self::HEAD + usize::from(event.payload)),
            None => {
                Err(Fault { at: 0, field: "magic", why: Why::Expected("0x65617407, the start of an event") })
            }
        }
    }

    fn record(&mut self, bytes: &[u8], out: &mut Builder) -> Result<(), Fault> {
        let Some(event) = self.event(bytes).filter(|event| event.is(self.taken)) else { return Ok(()) };
        let is = |bit: u32| event.action & bit != 0;
        let op = if is(DISCARD) {
            Op::Trim
        } else if is(WRITE) {
            Op::Write
        } else {
            Op::Read
        };
        let asked = Asked { op: Some(op), flush_before: is(FLUSH), fua: is(FUA) };
        let name = format!("{},{}", event.device >> 20, event.device & 0xF_FFFF);
        let stream = out.stream_named(name.as_bytes()).map_err(|why| Cursor::bounds(0, why))?;
        let line = Line {
            time_ns: event.time_ns,
            op,
            fua: false,
            offset_sectors: event.sector,
            len_sectors: 0,
            stream,
        };
        asked.push(0, line, u64::from(event.bytes), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    /// An event of 48 bytes in either byte order.
    fn event(big: bool, time: u64, bytes: u32, action: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |word: u64, len: usize| {
            let le = word.to_le_bytes();
            let mut part = le[..len].to_vec();
            if big {
                part.reverse();
            }
            out.extend_from_slice(&part);
        };
        put(u64::from(MAGIC | VERSION), 4);
        put(1, 4);
        put(time, 8);
        put(2048, 8);
        put(u64::from(bytes), 4);
        put(u64::from(action), 4);
        put(77, 4);
        put(8 << 20 | 1, 4);
        put(0, 4);
        put(0, 2);
        put(0, 2);
        out
    }

    #[test]
    fn both_byte_orders_and_issued_requests_are_read() {
        for big in [false, true] {
            let all = [
                event(big, 5, 4096, ACT_ISSUE | WRITE),
                event(big, 9, 512, ACT_ISSUE),
                event(big, 12, 0, ACT_ISSUE | PASS_THROUGH),
            ]
            .concat();
            let t = parse_bytes(None, &all, LoadOptions::default()).unwrap();
            assert_eq!((t.meta.format.as_str(), t.records.len(), t.meta.start_ns), ("blktrace", 2, 5));
            assert_eq!((t.records[0].op(), t.records[1].op()), (Op::Write, Op::Read));
            assert_eq!(t.streams[0].name, "8_1");
            // One queued request, and those that were issued are no longer meant.
            let more = [all, event(big, 1, 8192, ACT_QUEUE)].concat();
            let t = parse_bytes(None, &more, LoadOptions::default()).unwrap();
            assert_eq!((t.records.len(), t.records[0].len().0), (1, 8192));
        }
    }

    #[test]
    fn requests_of_control_groups_are_read() {
        let mut queued = event(false, 5, 4096, ACT_QUEUE | CGROUP | WRITE);
        queued[46] = 8;
        let all = [queued, vec![1, 0, 0, 0, 9, 0, 0, 0], event(false, 9, 512, ACT_QUEUE)].concat();
        let t = parse_bytes(None, &all, LoadOptions::default()).unwrap();
        let asked: Vec<(Op, u64)> = t.records.iter().map(|r| (r.op(), r.len().0)).collect();
        assert_eq!(asked, [(Op::Write, 4096), (Op::Read, 512)]);
        // Where only what the driver was sent is recorded, its events are seen with their group too.
        let issued = event(false, 5, 4096, ACT_ISSUE | CGROUP);
        assert_eq!(parse_bytes(None, &issued, LoadOptions::default()).unwrap().records.len(), 1);
    }

    #[test]
    fn a_broken_chain_of_events_is_an_error() {
        let mut bytes = [event(false, 1, 512, ACT_QUEUE), event(false, 2, 512, ACT_QUEUE)].concat();
        assert!(
            parse_bytes(None, &bytes[..90], LoadOptions::default())
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
        bytes[48] = 0;
        let e = parse_bytes(None, &bytes, LoadOptions::default()).unwrap_err().to_string();
        assert!(e.contains("record 1 (byte 48): magic"), "{e}");
    }
}
