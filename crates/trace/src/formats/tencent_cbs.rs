//! Tencent CBS: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Unix time in whole seconds, offset and size in sectors of 512 B, type 0 = read, 1 = write. The volume becomes the
//! stream. Five numbers say little, so a file is only recognised when most of its first times lie between 2001 and 2106.
//! Requests of one second have one time: replay them closed loop, or at a rate. Source: README of the Tencent block
//! storage traces in the SNIA IOTTA repository (ATC '20); the lines of the test are its first ones as
//! "Exploring Public Storage Traces" (R. Diaconu, 2024) prints them.

use super::{Format, Kind, Tried, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// Tencent cloud block storage.
pub static FORMAT: Format = Format {
    name: "tencent-cbs",
    summary: "Tencent CBS: timestamp(s),offset(512 B),size(512 B),0(read)|1(write),volume",
    example: "1538323200,12910952,128,0,1063",
    tried: Tried::Lines,
    sniff: reads_most::<TencentCbs>,
    note: |_| {
        Some("times are whole seconds: requests of one second arrive together; --iodepth or --rate-iops spreads them".into())
    },
    kind: Kind::Text { parse: drive::<TencentCbs> },
    writer: None,
};

/// Seconds since 1970 that are taken for a time: 9 September 2001 to 7 February 2106.
const TIMES: std::ops::RangeInclusive<u64> = 1_000_000_000..=4_294_967_295;

#[derive(Default)]
struct TencentCbs;

impl LineParser for TencentCbs {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"Timestamp,Offset") {
            return Ok(());
        }
        let seconds = c.uint("timestamp (s)")?;
        if !TIMES.contains(&seconds) {
            let why = Why::Expected("seconds since 1970, of ten digits");
            return Err(Fault { at: start, field: "timestamp (s)", why });
        }
        c.separator(b',', "offset (512 B)")?;
        let offset_sectors = c.uint("offset (512 B)")?;
        c.separator(b',', "size (512 B)")?;
        let len_sectors = c.uint("size (512 B)")?;
        c.separator(b',', "IO type")?;
        let op = match c.peek() {
            b'0' => Op::Read,
            b'1' => Op::Write,
            _ => return Err(c.fault("IO type", Why::Expected("0 (read) or 1 (write)"))),
        };
        c.seek_by_one();
        c.separator(b',', "volume")?;
        let volume = c.uint("volume")?;
        c.end_of_line()?;
        let stream = out.stream(volume).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = seconds * 1_000_000_000;
        out.push(start, Line { time_ns, op, fua: false, offset_sectors, len_sectors, stream })
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::Op;

    #[test]
    fn reads_published_lines() {
        // A size of 8 is also the operation code of a read in `cloudphysics`, whose columns these could be.
        let text = b"1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n\
            1538323200,1904106400,384,0,1360\n1538323200,342884064,256,0,1360\n1538323200,5331600,4,1,3171\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.span().0, t.streams.len()), ("tencent-cbs", 0, 4));
        assert_eq!(t.meta.start_ns, 1_538_323_200_000_000_000);
        assert_eq!((t.records[1].op(), t.records[1].len().0), (Op::Write, 4096));
        assert_eq!((t.records[2].op(), t.records[2].offset().0), (Op::Read, 1_904_106_400 * 512));
    }
}
