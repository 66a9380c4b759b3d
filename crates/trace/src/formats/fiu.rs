//! FIU (SRCMap, I/O deduplication): `ts pid process lba size W|R major minor md5`, blank-separated.
//!
//! Time in ns, LBA and size in blocks of 512 B. The device, `major minor`, becomes the stream; process and digest are
//! not kept. Source: README of the FIU traces in the SNIA IOTTA repository; lines of theirs are in `tests/samples`.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// Florida International University.
pub static FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU: time(ns) pid process LBA(512 B) size(512 B) W|R major minor MD5",
    example: "0 4892 syslogd 904265560 8 W 6 0 531e779e",
    tried: Tried::Lines,
    sniff: reads_most::<Fiu>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Fiu> },
    writer: None,
};

#[derive(Default)]
struct Fiu;

impl LineParser for Fiu {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let time_ns = c.uint("time (ns)")?;
        c.gap("pid")?;
        c.uint("pid")?;
        c.gap("process")?;
        c.word(b' ', "process")?;
        c.gap("LBA (512 B)")?;
        let offset_sectors = c.uint("LBA (512 B)")?;
        c.gap("size (512 B)")?;
        let len_sectors = c.uint("size (512 B)")?;
        c.gap("op")?;
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("op", Why::Expected("W or R"))),
        };
        c.seek_by_one();
        c.gap("major")?;
        let device_from = c.pos();
        c.uint("major")?;
        c.gap("minor")?;
        c.uint("minor")?;
        let device = c.since(device_from);
        match c.peek() {
            b' ' | b'\t' => c.skip_line(),
            _ => c.end_of_line()?,
        }
        let stream = out.stream_named(device).map_err(|why| Cursor::bounds(start, why))?;
        out.push(start, Line { time_ns, op, fua: false, offset_sectors, len_sectors, stream })
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn each_device_is_a_stream() {
        let published = "0 4892 syslogd 904265560 8 W 6 0 531e779e\n";
        let text = [published, "89966483133 4892 syslogd 904265568 8 R 6 1 00\n"].concat();
        let t = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.span().0), ("fiu", 89_966_483_133));
        assert_eq!((t.records[0].offset_sectors(), t.streams[1].name.as_str()), (904_265_560, "6_1"));
    }
}
