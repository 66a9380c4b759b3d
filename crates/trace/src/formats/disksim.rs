//! DiskSim ASCII: `time device block blocks flags`, blank-separated.
//!
//! Time in ms with a decimal point, block and length in blocks of 512 B, flags in hex with bit 0 set for a read. The
//! device number becomes the stream. Without a decimal point the line is the MQSim form, so the point is required to
//! recognise the format, not to read it. Source: DiskSim 4.0 manual, section 3.4.1, default trace format.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::write::{LineWriter, Row};
use nandu_base::Op;

/// DiskSim ASCII.
pub static FORMAT: Format = Format {
    name: "disksim",
    summary: "DiskSim ASCII: time(ms) device block(512 B) blocks flags(hex, bit 0 = read)",
    example: "5265.313 0 6357144 8 0",
    tried: Tried::Recordings,
    sniff,
    note: no_note,
    kind: Kind::Text { parse: drive::<DiskSim> },
    writer: Some(LineWriter { time_unit_ns: 1, ops: &[Op::Read, Op::Write], write_row, ..LineWriter::PLAIN }),
};

fn sniff(sample: &[u8]) -> bool {
    let first = sample.split(|&b| b == b'\n').find(|l| !l.trim_ascii().is_empty()).unwrap_or_default();
    let time = first.trim_ascii_start().split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
    time.contains(&b'.') && reads_most::<DiskSim>(sample)
}

#[derive(Default)]
struct DiskSim;

/// The read bit of the flags word.
fn read_bit(flags: &[u8]) -> Option<bool> {
    let digits = flags.strip_prefix(b"0x").unwrap_or(flags);
    let last = *digits.last()?;
    if digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    Some((last as char).to_digit(16)? & 1 == 1)
}

impl LineParser for DiskSim {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        c.blanks();
        let time = c.time(1_000_000, "time (ms)")?;
        c.gap("device")?;
        let device = c.short_uint("device")?;
        c.gap("block (512 B)")?;
        let offset_sectors = c.uint("block (512 B)")?;
        c.gap("length (blocks)")?;
        let len_sectors = c.uint("length (blocks)")?;
        c.gap("flags")?;
        let flags_at = c.pos();
        let read = read_bit(c.word(b' ', "flags")?).ok_or(Fault {
            at: flags_at,
            field: "flags",
            why: Why::Expected("a hex number, bit 0 set for a read"),
        })?;
        c.end_of_line()?;
        let stream = out.stream(device).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        let op = if read { Op::Read } else { Op::Write };
        out.push(start, Line { time_ns, op, fua: false, offset_sectors, len_sectors, stream })
    }
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let (r, ns, device) = (row.record, row.time_ns, row.label);
    let read = u8::from(r.op() == Op::Read);
    let (ms, part) = (ns / 1_000_000, ns % 1_000_000);
    row.put(out, format_args!("{ms}.{part:06} {device} {} {} {read}\n", r.offset_sectors(), r.len_sectors()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_the_example() {
        let t = parse_bytes(None, b"5265.313 0 6357144 8 0\n5265.703 0 8 64 b\n", LoadOptions::default())
            .unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.start_ns), ("disksim", 5_265_313_000));
        assert_eq!(t.records[1].time().0, 390_000);
        assert_eq!((t.records[0].op(), t.records[1].op()), (Op::Write, Op::Read));
    }
}
