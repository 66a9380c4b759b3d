//! MQSim ASCII: `time device LBA sectors op`, blank-separated.
//!
//! Time in ns, LBA and length in sectors of 512 B, op 1 = read, 0 = write. The same form is SSDSim's. Source: MQSim
//! (FAST '18), `src/exec/params/workload`, trace file definition in its README. The device number becomes the stream.
//! The [`super::msps`] files have the same columns with a time in us; its file states how the two are told apart.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::{Cursor, TEN_POWERS, leading_value, no_digits};
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::write::{LineWriter, Row};
use nandu_base::Op;

/// MQSim and SSDSim ASCII.
pub static FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim/SSDSim ASCII: time(ns) device LBA(512 B) sectors op(1=read)",
    example: "106134 0 1937368 8 0",
    tried: Tried::Recordings,
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

/// `N` bytes at `at`.
#[inline(always)]
fn bytes<const N: usize>(line: &[u8; WINDOW], at: usize) -> Option<[u8; N]> {
    line.get(at..)?.first_chunk::<N>().copied()
}

/// The 1 to 15 digits at `line[*at..]` and the blank behind them.
#[inline(always)]
fn number(line: &[u8; WINDOW], at: &mut usize) -> Option<u64> {
    let word = u64::from_le_bytes(bytes(line, *at)?);
    let stop = no_digits(word);
    let mut value = leading_value(word, 8);
    if stop != 0 {
        let count = stop.trailing_zeros() / 8;
        if count == 0 {
            return None;
        }
        *at += count as usize;
        value = leading_value(word, count);
    } else {
        *at += 8;
        if *line.get(*at)? != b' ' {
            let word = u64::from_le_bytes(bytes(line, *at)?);
            let count = no_digits(word).trailing_zeros() / 8;
            if count == 0 || count == 8 {
                return None;
            }
            *at += count as usize;
            value = value * TEN_POWERS[count as usize & 7] + leading_value(word, count);
        }
    }
    *at += 1;
    (*line.get(*at - 1)? == b' ').then_some(value)
}

/// As `number`, for one to seven digits, mostly one to three.
#[inline(always)]
fn short_number(line: &[u8; WINDOW], at: &mut usize) -> Option<u64> {
    let mut word = u64::from_le_bytes(bytes(line, *at)?);
    let (mut value, mut digit) = (0, word as u8 ^ b'0');
    if digit > 9 {
        return None;
    }
    // Zeros move in from above and are no digits: at most eight rounds.
    while digit <= 9 {
        value = value * 10 + u64::from(digit);
        *at += 1;
        word >>= 8;
        digit = word as u8 ^ b'0';
    }
    *at += 1;
    (digit == b' ' ^ b'0').then_some(value)
}

/// Reads a line of single blanks, numbers up to 15 digits, one digit of device and nothing else, and adds it: nearly
/// all lines are so. Returns its length; `None` adds nothing and sends the line down the careful path.
#[inline(always)]
fn usual_line(line: &[u8; WINDOW], unit_ns: u64, out: &mut Builder) -> Option<usize> {
    const ZERO_BLANK: u16 = u16::from_le_bytes(*b"0 ");
    const ZERO_NEWLINE: u16 = u16::from_le_bytes(*b"0\n");
    let mut at = 0;
    let time_ns = number(line, &mut at)?.checked_mul(unit_ns)?;
    let device = u16::from_le_bytes(bytes(line, at)?).wrapping_sub(ZERO_BLANK);
    at += 2;
    let offset_sectors = number(line, &mut at)?;
    let len_sectors = short_number(line, &mut at)?;
    let op = u16::from_le_bytes(bytes(line, at)?).wrapping_sub(ZERO_NEWLINE);
    if device > 9 || op > 1 {
        return None;
    }
    let op = if op == 1 { Op::Read } else { Op::Write };
    out.push_usual(time_ns, u64::from(device), op, offset_sectors, len_sectors).then_some(at + 2)
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    row.put(
        out,
        format_args!(
            "{} {} {} {} {}\n",
            row.time_ns,
            row.label,
            r.offset_sectors(),
            r.len_sectors(),
            u8::from(r.op() == Op::Read)
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

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

    proptest::proptest! {
        #[test]
        fn the_short_path_reads_what_the_careful_path_reads(
            time in 0u64..1 << 60, shift in 0u32..60, device in 5u64..12, lba in 0u64..1 << 39, narrow in 0u32..39,
            sectors in 0u64..1 << 23, few in 0u32..23, op in 0u8..3, damage in 0usize..60, byte in 9u8..128,
        ) {
            let (time, lba, sectors) = (time >> shift, lba >> narrow, sectors >> few);
            let mut line = format!("{time} {device} {lba} {sectors} {op}\n").into_bytes();
            let before_newline = line.len() - 1;
            if let Some(b) = line[..before_newline].get_mut(damage) {
                *b = byte;
            }
            let read = |line: &[u8]| {
                // A line before sets the device and the start; a tail leaves room for the window.
                let text = [&b"0 7 0 1 1\n"[..], line, &b"0 7 0 1 1\n".repeat(8)].concat();
                let t = parse_bytes(Some(&FORMAT), &text, LoadOptions { limit: Some(2), ..LoadOptions::default() });
                t.map(|t| (t.records, t.streams)).map_err(|e| matches!(e, crate::TraceError::Line(_)))
            };
            // A blank in front sends the same line down the careful path.
            let careful = [&b" "[..], &line].concat();
            assert_eq!(read(&line), read(&careful), "{}", line.escape_ascii());
        }
    }
}
