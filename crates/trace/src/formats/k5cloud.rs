//! K5cloud: `ID,Timestamp,Type,Offset,Length`.
//!
//! The id of a virtual storage, seconds since the first request of all with decimals, R or W, offset and length in
//! bytes. The id becomes the stream. Source: README of the Fujitsu K5 cloud traces in the SNIA IOTTA repository
//! (parallel traces); the lines of the test are theirs as "Exploring Public Storage Traces" (R. Diaconu, 2024) prints
//! them.

use super::{Format, Kind, Tried, no_note, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// Fujitsu K5 cloud.
pub static FORMAT: Format = Format {
    name: "k5cloud",
    summary: "Fujitsu K5 cloud: volume,timestamp(s),R|W,offset(B),length(B)",
    example: "1157,3.828359000,W,7155568640,4096",
    tried: Tried::Lines,
    sniff: reads_most::<K5Cloud>,
    note: no_note,
    kind: Kind::Text { parse: drive::<K5Cloud> },
    writer: None,
};

#[derive(Default)]
struct K5Cloud;

impl LineParser for K5Cloud {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"ID,") {
            return Ok(());
        }
        let volume = c.uint("volume")?;
        c.separator(b',', "timestamp (s)")?;
        let time = c.time(1_000_000_000, "timestamp (s)")?;
        c.separator(b',', "type")?;
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("type", Why::Expected("R or W"))),
        };
        c.seek_by_one();
        c.separator(b',', "offset (bytes)")?;
        let offset = c.uint("offset (bytes)")?;
        c.separator(b',', "length (bytes)")?;
        let bytes = c.uint("length (bytes)")?;
        c.end_of_line()?;
        let stream = out.stream(volume).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_published_lines() {
        let text = b"1157,3.828359000,W,7155568640,4096\n1157,3.833921000,W,7132311552,8192\n\
            1157,3.841602000,W,15264690176,28672\n1157,9.752752000,W,7155568640,4096\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(
            (t.meta.format.as_str(), t.span().0, t.streams[0].name.as_str()),
            ("k5cloud", 5_924_393_000, "1157")
        );
        assert_eq!((t.records[2].offset().0, t.records[2].len().0), (15_264_690_176, 28_672));
    }
}
