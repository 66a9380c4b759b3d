//! SPC, the form of the UMass Trace Repository: `ASU,LBA,bytes,r|w,seconds`.
//!
//! LBA in blocks of 512 B, counted per application storage unit (ASU); size in bytes; op in either case; time in
//! seconds with up to nine decimals. Further optional fields are ignored, as the specification allows. The ASU becomes
//! the stream. Source: SPC Trace File Format Specification, revision 1.0.1.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::record::RecordError;
use crate::write::{LineWriter, Row};
use nandu_base::{Op, SECTOR};

/// SPC / UMass.
pub static FORMAT: Format = Format {
    name: "spc",
    summary: "SPC/UMass (Financial, WebSearch): ASU,LBA(512 B),bytes,r|w,seconds",
    example: "0,303567,3584,w,0.000000",
    tried: Tried::Recordings,
    sniff: reads_most::<Spc>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Spc> },
    writer: Some(LineWriter { time_unit_ns: 1, ops: &[Op::Read, Op::Write], write_row, ..LineWriter::PLAIN }),
};

#[derive(Default)]
struct Spc;

impl LineParser for Spc {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let asu = c.short_uint("ASU")?;
        c.separator(b',', "LBA (512 B)")?;
        let lba = c.uint("LBA (512 B)")?;
        c.separator(b',', "size (bytes)")?;
        let bytes = c.uint("size (bytes)")?;
        c.separator(b',', "op")?;
        let op = match c.peek() {
            b'r' | b'R' => Op::Read,
            b'w' | b'W' => Op::Write,
            _ => return Err(c.fault("op", Why::Expected("r or w"))),
        };
        c.seek_by_one();
        c.separator(b',', "time (s)")?;
        let time = c.time(1_000_000_000, "time (s)")?;
        if c.peek() == b',' {
            c.skip_line();
        } else {
            c.end_of_line()?;
        }
        let offset = lba.checked_mul(SECTOR).ok_or_else(|| Cursor::bounds(start, RecordError::Offset))?;
        let stream = out.stream(asu).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    let op = if r.op() == Op::Read { 'r' } else { 'w' };
    let asu = row.label;
    row.put(out, format_args!("{asu},{},{},{op},{}\n", r.offset_sectors(), r.len().0, row.seconds()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_the_example() {
        let text = b"0,303567,3584,w,0.000000\n1,55590,3000,R,0.026214,extra\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(t.meta.format, "spc");
        assert_eq!((t.records[0].offset_sectors(), t.records[0].len().0), (303_567, 3584));
        assert_eq!((t.records[1].time().0, t.records[1].op()), (26_214_000, Op::Read));
        assert_eq!((t.records[1].len().0, t.meta.rounded_requests), (3072, 1));
    }
}
