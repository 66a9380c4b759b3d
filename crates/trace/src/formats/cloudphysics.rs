//! CloudPhysics CSV: `version,time,op,bytes,LBN`, the form of PyMimircache's sample.
//!
//! Time in us, or in s as libCacheSim distributes the same recording, size in bytes, LBN in blocks of 512 B, op the SCSI operation code in hex: READ 08 28 a8 88,
//! WRITE 0a 2a aa 8a, WRITE AND VERIFY 2e ae 8e (as writes), SYNCHRONIZE CACHE 35 91 (flush), UNMAP 42 (trim),
//! WRITE SAME 41 93 (write-zeroes). The header line `version,time,op,size,lbn` is passed over. One virtual disk, one
//! stream.
//!
//! *Unit of time.* A time with a decimal point is in s. So are whole numbers when the first lines, 16 at least, have a
//! mean gap below 20: as us that would be more than 50,000 requests a second, which no virtual disk of that time served.
//! The choice is stated in [`crate::Meta::notes`]. Source: the header of `trace.csv` in PyMimircache; SCSI codes: T10 SBC-4.

use super::{Format, Kind, Tried, mean_gap, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::record::RecordError;
use crate::write::{LineWriter, Row};
use nandu_base::{Op, SECTOR};

/// CloudPhysics.
pub static FORMAT: Format = Format {
    name: "cloudphysics",
    summary: "CloudPhysics CSV: version,time(us),SCSI op(hex),bytes,LBN(512 B)",
    example: "1,5633898368802,2a,512,42932745",
    tried: Tried::Recordings,
    sniff: reads_most::<CloudPhysics>,
    note,
    kind: Kind::Text { parse: drive::<CloudPhysics> },
    writer: Some(LineWriter {
        time_unit_ns: 1_000,
        ops: &[Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes],
        streams: false,
        header: "version,time,op,size,lbn\n",
        write_row,
        ..LineWriter::PLAIN
    }),
};

struct CloudPhysics {
    /// What one unit of time is; 10^9 when a time may have decimals.
    unit_ns: u64,
}

impl Default for CloudPhysics {
    fn default() -> CloudPhysics {
        CloudPhysics { unit_ns: 1_000 }
    }
}

/// Mean gap between whole times, in thousandths, below which they are seconds.
const MEAN_GAP: u64 = 20_000;
/// Fewest lines that decide.
const LINES: u64 = 16;

fn in_seconds(sample: &[u8]) -> bool {
    let (lines, gap, fraction) = mean_gap(sample, |c| {
        c.short_uint("version").ok()?;
        c.separator(b',', "time").ok()?;
        let time = c.uint("time").ok()?;
        Some((time, c.peek() == b'.'))
    });
    fraction || lines >= LINES && gap < MEAN_GAP
}

fn note(sample: &[u8]) -> Option<String> {
    in_seconds(sample).then(|| {
        "times are taken as seconds: as microseconds the first lines would bring more than 50,000 requests a second; \
         --columns -,time:us,op:scsi,size,offset:sectors reads them as microseconds"
            .into()
    })
}

pub(crate) fn scsi_op(code: &[u8]) -> Option<Op> {
    Some(match code.to_ascii_lowercase().as_slice() {
        b"8" | b"08" | b"28" | b"a8" | b"88" => Op::Read,
        b"a" | b"0a" | b"2a" | b"aa" | b"8a" | b"2e" | b"ae" | b"8e" => Op::Write,
        b"35" | b"91" => Op::Flush,
        b"42" => Op::Trim,
        b"41" | b"93" => Op::WriteZeroes,
        _ => return None,
    })
}

impl LineParser for CloudPhysics {
    fn begin(sample: &[u8]) -> CloudPhysics {
        CloudPhysics { unit_ns: if in_seconds(sample) { 1_000_000_000 } else { 1_000 } }
    }

    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"version,") {
            return Ok(());
        }
        let version_at = c.pos();
        if c.short_uint("version")? > 9 {
            return Err(Fault {
                at: version_at,
                field: "version",
                why: Why::Expected("a number of one digit"),
            });
        }
        let field = if self.unit_ns == 1_000 { "time (us)" } else { "time (s)" };
        c.separator(b',', field)?;
        let time_ns = match self.unit_ns {
            1_000 => c.whole_time(1_000, field)?,
            unit => {
                let time = c.time(unit, field)?;
                out.nanos(time)
            }
        };
        c.separator(b',', "op")?;
        let op_at = c.pos();
        let op = match c.word(b',', "op")? {
            b"2a" => Op::Write,
            b"28" => Op::Read,
            code => scsi_op(code).ok_or(Fault {
                at: op_at,
                field: "op",
                why: Why::Expected(
                    "a SCSI operation code in hex: 28 (read), 2a (write), 35 (flush), 42 (unmap)",
                ),
            })?,
        };
        c.separator(b',', "size (bytes)")?;
        let bytes = c.uint("size (bytes)")?;
        c.separator(b',', "LBN (512 B)")?;
        let lbn = c.uint("LBN (512 B)")?;
        c.end_of_line()?;
        let (lbn, bytes) = if op == Op::Flush { (0, 0) } else { (lbn, bytes) };
        let offset = lbn.checked_mul(SECTOR).ok_or_else(|| Cursor::bounds(start, RecordError::Offset))?;
        let stream = out.stream(0).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    let code = match r.op() {
        Op::Read => "28",
        Op::Flush => "35",
        Op::Trim => "42",
        Op::WriteZeroes => "93",
        _ => "2a",
    };
    row.put(out, format_args!("1,{},{code},{},{}\n", row.time_ns / 1_000, r.len().0, r.offset_sectors()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_the_example() {
        let text = b"version,time,op,size,lbn\n1,5633898368802,2a,512,42932745\n1,5633898611441,35,0,9\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(t.meta.format, "cloudphysics");
        assert!(t.meta.notes.is_empty());
        assert_eq!((t.records[0].offset_sectors(), t.records[0].len().0), (42_932_745, 512));
        assert_eq!((t.records[1].op(), t.records[1].time().0), (Op::Flush, 242_639_000));
    }

    /// Two requests in each unit of time: as us half a million a second.
    fn dense(scale: u64) -> String {
        (0..40u64).map(|n| format!("1,{},2a,512,{n}\n", 5_633_898 + n * scale / 2)).collect()
    }

    #[test]
    fn seconds_are_told_from_microseconds() {
        let t = parse_bytes(None, dense(1).as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!(
            (t.meta.format.as_str(), t.span().0, t.meta.notes.len()),
            ("cloudphysics", 19_000_000_000, 1)
        );
        let t = parse_bytes(None, dense(200).as_bytes(), LoadOptions::default()).unwrap();
        assert_eq!((t.span().0, t.meta.notes.len()), (3_900_000, 0));
        let decimals = b"1,7.5,28,512,0\nversion,time,op,size,lbn\n1,8.000001,2a,512,9\n";
        let t = parse_bytes(None, decimals, LoadOptions::default()).unwrap();
        assert_eq!((t.span().0, t.meta.start_ns), (500_001_000, 7_500_000_000));
    }
}
