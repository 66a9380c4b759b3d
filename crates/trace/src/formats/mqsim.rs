//! MQSim ASCII: `time device LBA sectors op`, blank-separated.
//!
//! Time in ns, LBA and length in sectors of 512 B, op 1 = read, 0 = write. The same form is SSDSim's. Source: MQSim
//! (FAST '18), `src/exec/params/workload`, trace file definition in its README. The device number becomes the stream.
//! The [`super::msps`] files have the same columns with a time in us; its file states how the two are told apart.

use super::{no_note, Format, Kind};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
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
