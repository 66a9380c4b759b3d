//! blkreplay `.load`: `seconds ; sector ; sectors ; R|W ; replay delay ; replay duration`.
//!
//! Sectors of 512 B, seconds with up to nine decimals, blanks around the semicolons. Free text stands before the line
//! `start ; sector; length ; op ; ...`; everything up to it is passed over, also in the middle, where files were joined:
//! there a line that begins with no digit begins such a text, and it is an error when no `start` line ends it. RA is a read ahead, read as a read. The
//! last two fields are a replay's own results and are ignored. One device, one stream. Source: the header of the
//! files published with blkreplay (Thomas Schoebel-Theuer).

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::write::{LineWriter, Row};
use nandu_base::Op;

/// blkreplay.
pub static FORMAT: Format = Format {
    name: "blkreplay",
    summary: "blkreplay .load: seconds ; sector(512 B) ; sectors ; R|W ; delay ; duration",
    example: "0.449518165 ; 37766917 ; 14 ; W ; 0.0 ; 0.0",
    tried: Tried::Recordings,
    sniff: reads_most::<BlkReplay>,
    note: no_note,
    kind: Kind::Text { parse: drive::<BlkReplay> },
    writer: Some(LineWriter {
        time_unit_ns: 1,
        ops: &[Op::Read, Op::Write],
        streams: false,
        header: "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n",
        write_row,
        ..LineWriter::PLAIN
    }),
};

const START_LINE: &str = "a line `start ; sector; length ; op` behind it, as at the start of a file";

#[derive(Default)]
struct BlkReplay {
    header_seen: bool,
    /// Text in the middle, after requests, that no `start` line has ended yet.
    within: bool,
}

/// Takes `;` with blanks on both sides.
#[inline(always)]
fn semicolon(c: &mut Cursor<'_>, field: &'static str) -> Result<(), Fault> {
    c.blanks();
    c.separator(b';', field)?;
    c.blanks();
    Ok(())
}

impl LineParser for BlkReplay {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        c.blanks();
        if self.header_seen && !c.peek().is_ascii_digit() && !matches!(c.peek(), b'\n' | b'\r') {
            (self.header_seen, self.within) = (false, true);
        }
        if !self.header_seen {
            let line = c.rest_of_line().trim_ascii();
            self.header_seen = line.strip_prefix(b"start").is_some_and(|l| l.trim_ascii().starts_with(b";"));
            self.within &= !self.header_seen;
            c.skip_line();
            return Ok(());
        }
        let time = c.time(1_000_000_000, "start (s)")?;
        semicolon(c, "sector (512 B)")?;
        let offset_sectors = c.uint("sector (512 B)")?;
        semicolon(c, "length (sectors)")?;
        let len_sectors = c.uint("length (sectors)")?;
        semicolon(c, "op")?;
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("op", Why::Expected("R, RA or W"))),
        };
        c.seek_by_one();
        if op == Op::Read && c.peek() == b'A' {
            c.seek_by_one();
        }
        c.blanks();
        match c.peek() {
            b';' => c.skip_line(),
            _ => c.end_of_line()?,
        }
        let stream = out.stream(0).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        out.push(start, Line { time_ns, op, fua: false, offset_sectors, len_sectors, stream })
    }

    fn end(&mut self, _out: &mut Builder) -> Result<(), Fault> {
        match self.within {
            true => Err(Fault { at: 0, field: "text among requests", why: Why::Expected(START_LINE) }),
            false => Ok(()),
        }
    }
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    let op = if r.op() == Op::Read { 'R' } else { 'W' };
    let (seconds, sector, sectors) = (row.seconds(), r.offset_sectors(), r.len_sectors());
    row.put(out, format_args!("{seconds:>17} ; {sector:>12} ; {sectors:>4} ; {op} ; 0.0 ; 0.0\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_behind_the_preamble() {
        let text = b"Copyright\n\n2012 was a year\nstart ; sector; length ; op ;  replay_delay=0\n\
            \x20     0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0\n      0.449518165 ; 7 ; 14 ; RA ; 0.0 ; 0.0\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(t.meta.format, "blkreplay");
        assert_eq!((t.records[0].offset_sectors(), t.records[0].op()), (37_766_853, Op::Write));
        assert_eq!((t.records[1].time().0, t.records[1].op()), (449_518_165, Op::Read));
    }

    #[test]
    fn a_header_in_the_middle_passes() {
        let head = "made by\n2012\nstart ; sector; length ; op ;\n";
        let text = format!("{head}0.0 ; 8 ; 8 ; W ; 0.0 ; 0.0\n{head}1.0 ; 16 ; 8 ; R ; 0.0 ; 0.0\n");
        let t = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!((t.records.len(), t.span().0), (2, 1_000_000_000));
        let e =
            parse_bytes(None, format!("{text}oops\n3.0 ; 1 ; 1 ; W\n").as_bytes(), LoadOptions::default());
        let e = e.unwrap_err().to_string();
        assert!(e.contains(":10:") && e.contains("start ; sector"), "{e}");
    }
}
