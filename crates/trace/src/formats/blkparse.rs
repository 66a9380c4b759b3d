//! blkparse's text: `maj,min cpu seq seconds pid action RWBS sector + sectors [process]`.
//!
//! The default form of `blkparse(1)`; the YCSB and RocksDB traces of the SNIA IOTTA repository have it. Seconds have nine decimals,
//! sectors 512 B. RWBS: F for a flush ahead, then R, W or D (trim), then F for FUA, A, S, M. A request is an event Q, or D where
//! the first lines have no Q, as [`super::blktrace`] has it, with the same streams. Other events and messages are passed over, and so
//! is all that follows a line `CPU0 (...)` or `Total (...)`: the summary.

use super::blktrace::{Asked, Taken};
use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::{Op, SECTOR};

/// blkparse's text.
pub static FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse text (also YCSB on RocksDB): maj,min cpu seq time(s) pid Q|D RWBS sector + sectors [process]",
    example: "  8,0    0        3     0.000000000  1234  Q  WS 2048 + 8 [dd]",
    tried: Tried::Tool,
    sniff: reads_most::<Blkparse>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Blkparse> },
    writer: None,
};

struct Blkparse {
    taken: u8,
    summary: bool,
}

impl Default for Blkparse {
    fn default() -> Blkparse {
        Blkparse { taken: letter(Taken::Queued), summary: false }
    }
}

const fn letter(taken: Taken) -> u8 {
    match taken {
        Taken::Queued => b'Q',
        Taken::Issued => b'D',
    }
}

/// What RWBS says: `None` when it begins with no letter that is known.
fn asked(rwbs: &[u8]) -> Option<Asked> {
    let (flush_before, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, rwbs),
    };
    let (op, rest) = match rest {
        [b'R', rest @ ..] => (Some(Op::Read), rest),
        [b'W', rest @ ..] => (Some(Op::Write), rest),
        [b'D', rest @ ..] => (Some(Op::Trim), rest),
        // A flush alone is F, FF or FN.
        [b'N' | b'F', rest @ ..] => (None, rest),
        [] if flush_before => (None, rest),
        _ => return None,
    };
    let known = rest.iter().all(|b| matches!(b, b'F' | b'A' | b'S' | b'M' | b'E' | b'V'));
    known.then_some(Asked { op, flush_before, fua: rest.contains(&b'F') })
}

impl Blkparse {
    /// Reads up to the action: device, time in ns, action.
    #[inline(always)]
    fn event<'a>(c: &mut Cursor<'a>) -> Result<(&'a [u8], crate::cursor::Nanos, &'a [u8]), Fault> {
        c.blanks();
        let device_from = c.pos();
        c.uint("device")?;
        c.separator(b',', "device")?;
        c.uint("device")?;
        let device = c.since(device_from);
        c.gap("cpu")?;
        c.uint("cpu")?;
        c.gap("sequence")?;
        c.uint("sequence")?;
        c.gap("time (s)")?;
        let time = c.time(1_000_000_000, "time (s)")?;
        c.gap("pid")?;
        c.uint("pid")?;
        c.gap("action")?;
        Ok((device, time, c.word(b' ', "action")?))
    }
}

impl LineParser for Blkparse {
    fn begin(sample: &[u8]) -> Blkparse {
        let actions = |letter| {
            sample.split(|&b| b == b'\n').any(|line| {
                Blkparse::event(&mut Cursor::new(line)).is_ok_and(|(_, _, action)| action == [letter])
            })
        };
        let issued = !actions(letter(Taken::Queued)) && actions(letter(Taken::Issued));
        Blkparse { taken: letter(if issued { Taken::Issued } else { Taken::Queued }), summary: false }
    }

    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let rest = c.rest_of_line();
        if self.summary
            || rest.starts_with(b"CPU")
            || rest.starts_with(b"Total (")
            || rest.starts_with(b"Input file")
        {
            self.summary |= !rest.starts_with(b"Input file");
            // Outputs that were joined go on with an event.
            self.summary &= !rest.trim_ascii_start().first().is_some_and(u8::is_ascii_digit);
            if self.summary || rest.starts_with(b"Input file") {
                c.skip_line();
                return Ok(());
            }
        }
        let (device, time, action) = Blkparse::event(c)?;
        if action != [self.taken] {
            c.skip_line();
            return Ok(());
        }
        c.gap("RWBS")?;
        let rwbs_at = c.pos();
        let rwbs = c.word(b' ', "RWBS")?;
        let asked = asked(rwbs).ok_or(Fault {
            at: rwbs_at,
            field: "RWBS",
            why: Why::Expected("R, W, D or N, with F before it for a flush, and F, A, S, M behind it"),
        })?;
        c.blanks();
        let (mut offset_sectors, mut sectors) = (0, 0);
        if c.peek().is_ascii_digit() {
            offset_sectors = c.uint("sector (512 B)")?;
            c.gap("length (sectors)")?;
            if c.peek() != b'+' {
                return Err(c.fault("length (sectors)", Why::Expected("+ and a number of sectors")));
            }
            c.seek_by_one();
            c.gap("length (sectors)")?;
            sectors = c.uint("length (sectors)")?;
        }
        c.skip_line();
        let stream = out.stream_named(device).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        let line = Line { time_ns, op: Op::Read, fua: false, offset_sectors, len_sectors: 0, stream };
        let bytes =
            sectors.checked_mul(SECTOR).ok_or_else(|| Cursor::bounds(start, crate::RecordError::Offset))?;
        asked.push(start, line, bytes, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn issued_requests_are_taken_where_none_are_queued() {
        let text =
            b"259,2 1 7 0.000000100 321 D WS 64 + 8 [a b]\n259,2 1 8 0.000000200 321 C WS 64 + 8 [0]\n\
            259,2 1 9 1.000000100 321 D RM 0 + 1 [kworker/0:1]\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.records.len(), t.span().0), ("blkparse", 2, 1_000_000_000));
        assert_eq!(t.streams[0].name, "259_2");
    }

    #[test]
    fn letters_say_what_is_asked() {
        let read = |rwbs: &str| asked(rwbs.as_bytes()).map(|a| (a.op, a.flush_before, a.fua));
        assert_eq!(read("FWFS"), Some((Some(Op::Write), true, true)));
        assert_eq!(read("WFSM"), Some((Some(Op::Write), false, true)));
        assert_eq!(read("FWS"), Some((Some(Op::Write), true, false)));
        assert_eq!((read("FN"), read("F")), (Some((None, true, false)), Some((None, true, false))));
        assert_eq!(
            (read("DS"), read("RA")),
            (Some((Some(Op::Trim), false, false)), Some((Some(Op::Read), false, false)))
        );
        assert_eq!((read("X"), read("")), (None, None));
        let e = parse_bytes(Some(&FORMAT), b"8,0 0 1 0.5 1 Q R 5 - 8 [x]\n", LoadOptions::default());
        assert!(e.unwrap_err().to_string().contains("expected + and a number"));
    }
}
