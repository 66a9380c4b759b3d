//! MSR Cambridge CSV: `timestamp,host,disk,Read|Write,offset,size,response time`.
//!
//! Timestamp and response time in units of 100 ns (Windows filetime, since 1601); offset and size in bytes. Host and
//! disk together become the stream, `hm_0`; the response time becomes the measured service time. A header line is
//! passed over. Source: SNIA IOTTA, MSR Cambridge traces, "Write Off-Loading" (FAST '08).

use super::{Format, Kind, Tried, no_note, passes_header};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::trace::Stream;
use crate::write::{LineWriter, Row, distinct};
use nandu_base::Op;

/// MSR Cambridge.
pub static FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV: filetime(100 ns),host,disk,Read|Write,offset(B),size(B),response(100 ns)",
    example: "128166386783630075,hm,0,Write,3164164096,40960,2896",
    tried: Tried::Recordings,
    sniff: reads_most::<Msr>,
    note: no_note,
    kind: Kind::Text { parse: drive::<Msr> },
    writer: Some(LineWriter {
        time_unit_ns: 100,
        ops: &[Op::Read, Op::Write],
        response_times: true,
        labels: volumes,
        write_row,
        ..LineWriter::PLAIN
    }),
};

const UNIT_NS: u64 = 100;

#[derive(Default)]
struct Msr;

impl LineParser for Msr {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if passes_header(c, b"Timestamp,Hostname") {
            return Ok(());
        }
        let time_ns = c.whole_time(UNIT_NS, "timestamp (100 ns)")?;
        c.separator(b',', "host")?;
        let name_from = c.pos();
        c.word(b',', "host")?;
        c.separator(b',', "disk")?;
        c.word(b',', "disk")?;
        let name = c.since(name_from);
        c.separator(b',', "type")?;
        let op_at = c.pos();
        let op = match c.word(b',', "type")? {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            _ => return Err(Fault { at: op_at, field: "type", why: Why::Expected("Read or Write") }),
        };
        c.separator(b',', "offset (bytes)")?;
        let offset = c.uint("offset (bytes)")?;
        c.separator(b',', "size (bytes)")?;
        let bytes = c.uint("size (bytes)")?;
        c.separator(b',', "response time (100 ns)")?;
        let service = c.whole_time(UNIT_NS, "response time (100 ns)")?;
        c.end_of_line()?;
        let stream = out.stream_named(name).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)?;
        out.push_service(service);
        Ok(())
    }
}

/// `host,disk` of each stream: what stands before and behind the last underscore where a number is behind it.
fn volumes(streams: &[Stream]) -> Vec<String> {
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let word = |name: &str| name.replace(|c: char| c == ',' || c.is_whitespace() || c.is_control(), "_");
    let own = |stream: &Stream| {
        let name = word(&stream.name);
        match name.rsplit_once('_') {
            Some((host, disk)) if !host.is_empty() && is_number(disk) => Some(format!("{host},{disk}")),
            _ => None,
        }
    };
    let other = |stream: &Stream, n: u64| match word(&stream.name) {
        name if is_number(&name) && n == 0 => format!("volume,{name}"),
        name if name.is_empty() || is_number(&name) => format!("volume_{name},{n}"),
        name => format!("{name},{n}"),
    };
    distinct(streams, own, other)
}

fn write_row(row: &Row<'_>, out: &mut Vec<u8>) {
    let r = row.record;
    let op = if r.op() == Op::Read { "Read" } else { "Write" };
    let (time, service) = (row.time_ns / UNIT_NS, row.service.0 / UNIT_NS);
    row.put(out, format_args!("{time},{},{op},{},{},{service}\n", row.label, r.offset().0, r.len().0));
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::Span;

    #[test]
    fn reads_the_example() {
        let text =
            b"128166386783630075,hm,0,Write,3164164096,40960,2896\n128166386783630309,hm,1,Read,512,512,1\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.start_ns), ("msr", 12_816_638_678_363_007_500));
        assert_eq!((t.streams[0].name.as_str(), t.streams[1].name.as_str()), ("hm_0", "hm_1"));
        assert_eq!(t.records[1].time().0, 23_400);
        assert_eq!(t.service.unwrap(), [Span(289_600), Span(100)]);
    }
}
