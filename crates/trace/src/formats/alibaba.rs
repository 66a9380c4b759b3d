//! Alibaba block traces: `device_id,opcode,offset,length,timestamp`.
//!
//! Opcode R or W, offset and length in bytes, timestamp in us since 1970. The header line of that name is passed over.
//! The device becomes the stream; 1,000 virtual disks have address spaces of their own. Source: README of
//! `alibaba/block-traces` (IISWC '20).

use super::{Format, Kind, Tried, no_note, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// Alibaba cloud disks.
pub static FORMAT: Format = Format {
    name: "alibaba",
    summary: "Alibaba block traces: device,R|W,offset(B),length(B),timestamp(us)",
    example: "0,R,126703644672,4096,1577808000000626",
    tried: Tried::Lines,
    sniff: reads_most::<Alibaba>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Alibaba> },
    writer: None,
};

#[derive(Default)]
struct Alibaba;

impl LineParser for Alibaba {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"device_id,") {
            return Ok(());
        }
        let device = c.uint("device")?;
        c.separator(b',', "opcode")?;
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("opcode", Why::Expected("R or W"))),
        };
        c.seek_by_one();
        c.separator(b',', "offset (bytes)")?;
        let offset = c.uint("offset (bytes)")?;
        c.separator(b',', "length (bytes)")?;
        let bytes = c.uint("length (bytes)")?;
        c.separator(b',', "timestamp (us)")?;
        let time_ns = c.whole_time(1_000, "timestamp (us)")?;
        c.end_of_line()?;
        let stream = out.stream(device).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn reads_published_lines() {
        let text = b"0,R,126703661056,4096,1577808000000046\n1,W,19496058880,77824,1577808000000426\n\
            2,W,9811763200,12288,1577808000000494\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.streams.len(), t.span().0), ("alibaba", 3, 448_000));
        assert_eq!((t.records[1].offset().0, t.records[1].len().0), (19_496_058_880, 77_824));
        let with_header = [&b"device_id,opcode,offset,length,timestamp\n"[..], text].concat();
        assert_eq!(parse_bytes(None, &with_header, LoadOptions::default()).unwrap().records, t.records);
    }
}
