//! MQSim ASCII: `time device LBA sectors op`, blank-separated.
//!
//! Time in ns, LBA and length in sectors of 512 B, op 1 = read, 0 = write. The same form is SSDSim's. Source: MQSim
//! (FAST '18), `src/exec/params/workload`, trace file definition in its README. The device number becomes the stream.
//! The [`super::msps`] files have the same columns with a time in us; its file states how the two are told apart.

use super::{no_note, Format, Kind};
use crate::builder::{Builder, Line};
use crate::cursor::{digits, Cursor, TEN_POWERS};
use crate::error::{Fault, Why};
use crate::load::{drive, reads_most, LineParser};
use crate::write::{device_number, LineWriter, Row};
use nandu_base::Op;

/// MQSim and SSDSim ASCII.
pub static FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim/SSDSim ASCII: time(ns) device LBA(512 B) sectors op(1=read)",
    example: "106134 0 1937368 8 0",
    sniff: reads_most::<FiveColumns<1>>,
    note: no_note,
    kind: Kind::Text { parse: drive::<FiveColumns<1>> },
    writer: Some(LineWriter { time_unit_ns: 1, ops: &[Op::Read, Op::Write], write_row, ..LineWriter::PLAIN }),
};

/// The five columns with a time in units of `UNIT_NS` ns.
#[derive(Default)]
pub struct FiveColumns<const UNIT_NS: u64>;

impl<const UNIT_NS: u64> LineParser for FiveColumns<UNIT_NS> {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if let Some(used) = c.window().and_then(|window| usual_line(window, UNIT_NS, out)) {
            c.advance(used);
            return Ok(());
        }
        c.blanks();
        let time_ns = c.whole_time(UNIT_NS, if UNIT_NS == 1 { "time (ns)" } else { "time (us)" })?;
        c.gap("device")?;
        let device = c.short_uint("device")?;
        c.gap("LBA (512 B)")?;
        let offset_sectors = c.uint("LBA (512 B)")?;
        c.gap("length (sectors)")?;
        let len_sectors = c.uint("length (sectors)")?;
        c.gap("op")?;
        let op = match c.peek() {
            b'0' => Op::Write,
            b'1' => Op::Read,
            _ => return Err(c.fault("op", Why::Expected("0 (write) or 1 (read)"))),
        };
        c.seek_by_one();
        c.end_of_line()?;
        let stream = out.stream(device).map_err(|why| Cursor::bounds(start, why))?;
        out.push(start, Line { time_ns, op, fua: false, offset_sectors, len_sectors, stream })
    }
}

/// Bytes that hold the usual line.
const WINDOW: usize = 64;
/// Bytes a usual line has at most, so that eight more can be loaded anywhere in it.
const USUAL: usize = WINDOW - 8;

/// The 1 to 16 digits at `line[*at..]` and the blank behind them.
#[inline(always)]
fn number(line: &[u8; WINDOW], at: &mut usize) -> Option<u64> {
    let load = |at: usize| Some(u64::from_le_bytes(*line.get(at..)?.first_chunk::<8>()?));
    let (mut value, mut count) = digits(load(*at)?);
    if count == 0 {
        return None;
    }
    *at += count as usize;
    if count == 8 {
        let second;
        (second, count) = digits(load(*at)?);
        value = value * TEN_POWERS[count as usize & 15] + second;
        *at += count as usize;
    }
    // Behind 16 digits a further digit is no blank either.
    *at += 1;
    (*line.get(*at - 1)? == b' ').then_some(value)
}

/// As `number`, for one to seven digits, mostly one to three.
#[inline(always)]
fn short_number(line: &[u8; WINDOW], at: &mut usize) -> Option<u64> {
    let (from, mut value) = (*at, 0u64);
    loop {
        let byte = *line.get(*at)?;
        *at += 1;
        if byte == b' ' {
            return (*at - from > 1 && *at - from < 9).then_some(value);
        }
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || *at >= USUAL {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
}

/// Reads a line of single blanks, numbers up to 16 digits, one digit of device and nothing else, and adds it: nearly
/// all lines are so. Returns its length; `None` adds nothing and sends the line down the careful path.
#[inline(always)]
fn usual_line(line: &[u8; WINDOW], unit_ns: u64, out: &mut Builder) -> Option<usize> {
    let mut at = 0;
    let time_ns = number(line, &mut at)?.checked_mul(unit_ns)?;
    let &[device @ b'0'..=b'9', b' '] = line.get(at..)?.first_chunk::<2>()? else { return None };
    at += 2;
    let offset_sectors = number(line, &mut at)?;
    let len_sectors = short_number(line, &mut at)?;
    let &[op @ b'0'..=b'1', b'\n'] = line.get(at..)?.first_chunk::<2>()? else { return None };
    let op = if op == b'1' { Op::Read } else { Op::Write };
    out.push_usual(time_ns, u64::from(device - b'0'), op, offset_sectors, len_sectors).then_some(at + 2)
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    row.put(
        out,
        format_args!(
            "{} {} {} {} {}\n",
            row.time_ns,
            device_number(row),
            r.offset_sectors(),
            r.len_sectors(),
            u8::from(r.op() == Op::Read)
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{parse_bytes, LoadOptions};

    #[test]
    fn reads_the_example() {
        let t =
            parse_bytes(None, b"106134 0 1937368 8 0\n2801658 2 4575864 16 1\r\n", LoadOptions::default())
                .unwrap();
        assert_eq!(t.meta.format, "mqsim");
        assert_eq!(t.meta.start_ns, 106_134);
        assert_eq!(t.records[1].time().0, 2_801_658 - 106_134);
        assert_eq!((t.records[1].op(), t.records[1].len().0), (Op::Read, 8192));
        assert_eq!(t.streams[1].name, "2");
    }
}
