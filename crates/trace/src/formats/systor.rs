//! SYSTOR '17 CSV: `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Timestamp and response time in seconds with up to nine decimals, offset and size in bytes, type R or W. Lines stand
//! in order of completion, so time steps back; the trace is sorted stably. The LUN becomes the stream, the response
//! time the measured service time; a line without one counts as 0. Source: SNIA IOTTA, "Understanding storage traffic
//! characteristics on enterprise virtual desktop infrastructure" (SYSTOR '17).

use super::{Format, Kind, Tried, no_note, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::{Cursor, Nanos};
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// SYSTOR '17.
pub static FORMAT: Format = Format {
    name: "systor",
    summary: "SYSTOR '17 CSV: timestamp(s),response(s),R|W,LUN,offset(B),size(B)",
    example: "1455591804.310701000,0.006475000,R,0,203468398592,32768",
    tried: Tried::Recordings,
    sniff: reads_most::<Systor>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Systor> },
    writer: None,
};

const UNIT_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Systor;

impl LineParser for Systor {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"Timestamp,Response") {
            return Ok(());
        }
        let time = c.time(UNIT_NS, "timestamp (s)")?;
        c.separator(b',', "response (s)")?;
        let service = match c.peek() {
            b',' => Nanos { ns: 0, rounded: false },
            _ => c.time(UNIT_NS, "response (s)")?,
        };
        c.separator(b',', "IO type")?;
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("IO type", Why::Expected("R or W"))),
        };
        c.seek_by_one();
        c.separator(b',', "LUN")?;
        let lun = c.short_uint("LUN")?;
        c.separator(b',', "offset (bytes)")?;
        let offset = c.uint("offset (bytes)")?;
        c.separator(b',', "size (bytes)")?;
        let bytes = c.uint("size (bytes)")?;
        c.end_of_line()?;
        let stream = out.stream(lun).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = out.nanos(time);
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)?;
        let service_ns = out.nanos(service);
        out.push_service(service_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::Span;

    #[test]
    fn reads_the_example_and_sorts() {
        let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
            1455591804.310701000,0.006475000,R,0,203468398592,32768\n\
            1455591804.310700000,,W,1,4096,4096\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.sorted_requests), ("systor", 1));
        assert_eq!(t.records[0].op(), Op::Write);
        assert_eq!(t.records[1].time().0, 1_000);
        assert_eq!(t.service.unwrap(), [Span(0), Span(6_475_000)]);
    }
}
