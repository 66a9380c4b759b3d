//! NBD integrity test CSV: `seq,op,fua,offset,length`.
//!
//! Offset and length in bytes, op R, W, FLUSH or TRIM, fua 0 or 1. There are no times and one request is outstanding
//! at a time: the trace is [`Arrival::OrderOnly`], replayed closed loop. Uneven extents are widened to whole sectors.
//! The header line is passed over. Source: the NBD reference implementation's integrity test, decoded.

use super::{Format, Kind, Tried, no_note, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::trace::Arrival;
use crate::write::{LineWriter, Row};
use nandu_base::Op;

/// NBD integrity test.
pub static FORMAT: Format = Format {
    name: "nbd-integrity",
    summary: "NBD integrity test CSV, order only: seq,R|W|FLUSH|TRIM,fua,offset(B),length(B)",
    example: "1,W,0,0,130048",
    tried: Tried::Recordings,
    sniff: reads_most::<NbdIntegrity>,
    note: no_note,
    kind: Kind::Text { parse: drive::<NbdIntegrity> },
    writer: Some(LineWriter {
        time_unit_ns: 0,
        ops: &[Op::Read, Op::Write, Op::Flush, Op::Trim],
        fua: true,
        streams: false,
        header: "seq,op,fua,offset,length\n",
        write_row,
        ..LineWriter::PLAIN
    }),
};

#[derive(Default)]
struct NbdIntegrity;

impl LineParser for NbdIntegrity {
    const ARRIVAL: Arrival = Arrival::OrderOnly;

    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"seq,") {
            return Ok(());
        }
        c.uint("seq")?;
        c.separator(b',', "op")?;
        let op_at = c.pos();
        let op = match c.word(b',', "op")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            b"FLUSH" => Op::Flush,
            b"TRIM" => Op::Trim,
            _ => return Err(Fault { at: op_at, field: "op", why: Why::Expected("R, W, FLUSH or TRIM") }),
        };
        c.separator(b',', "fua")?;
        let fua = match c.short_uint("fua")? {
            0 => false,
            1 => true,
            _ => return Err(c.fault("fua", Why::Expected("0 or 1"))),
        };
        c.separator(b',', "offset (bytes)")?;
        let offset = c.uint("offset (bytes)")?;
        c.separator(b',', "length (bytes)")?;
        let bytes = c.uint("length (bytes)")?;
        c.end_of_line()?;
        let stream = out.stream(0).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns: 0, op, fua, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    let op = match r.op() {
        Op::Read => "R",
        Op::Flush => "FLUSH",
        Op::Trim => "TRIM",
        _ => "W",
    };
    row.put(out, format_args!("{},{op},{},{},{}\n", row.index, u8::from(r.fua()), r.offset().0, r.len().0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_flush_and_fua_without_times() {
        let text = b"seq,op,fua,offset,length\n0,R,0,0,1024\n1,W,1,1024,1024\n2,FLUSH,0,0,0\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(t.meta.format, "nbd-integrity");
        assert!(!t.has_times());
        assert!(t.records[1].fua());
        assert_eq!((t.records[2].op(), t.records[2].len().0), (Op::Flush, 0));
    }
}
