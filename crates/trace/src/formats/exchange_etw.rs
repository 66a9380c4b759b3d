//! Microsoft Exchange and other servers, as ETW dumps its events: `DiskRead, TimeStamp, Process Name ( PID), ...`.
//!
//! `DiskRead` and `DiskWrite` have time in us, process, thread, IRP, byte offset and size in hex, elapsed time in us and
//! disk number, then more; `DiskFlush` has no offset and size. Newer dumps have the CPU ahead of the IRP. The events are logged when a request ends, so it arrives the
//! elapsed time before, which is kept as the measured response time. The disk becomes the stream. The header of column
//! names, and all other events, are passed over. Source: the headers of the Microsoft production servers and Exchange
//! traces in the SNIA IOTTA repository (IISWC '08), of which no line behind the header was at hand, and a line of
//! `xperf`, which wrote them, as it stands in a public script that reads its dumps.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use nandu_base::Op;

/// Events of Windows.
pub static FORMAT: Format = Format {
    name: "exchange-etw",
    summary: "Exchange, ETW: DiskRead|DiskWrite|DiskFlush, time(us), process, thread, IRP, offset(hex B), size(hex B), elapsed(us), disk, ...",
    example: "DiskRead, 52132, store.exe (3616), 5536, 0xfffffa8010, 0x0007ac0000, 0x00002000, 7315, 4, 0x060043, 7302, 3",
    tried: Tried::Lines,
    sniff: |sample| reads_most::<ExchangeEtw>(sample) || begins_with_header(sample),
    note: no_note,
    kind: Kind::Text { parse: drive::<ExchangeEtw> },
    writer: None,
};

/// The list of columns can be longer than what is looked at.
fn begins_with_header(sample: &[u8]) -> bool {
    let start = sample.trim_ascii_start();
    start.starts_with(b"BeginHeader") && memchr::memmem::find(start, b"DiskRead,").is_some()
}

#[derive(Default)]
struct ExchangeEtw;

/// A number in hex behind `0x`, or a decimal one.
fn number(c: &mut Cursor<'_>, field: &'static str) -> Result<u64, Fault> {
    let at = c.pos();
    let bad = |why| Fault { at, field, why };
    let word = c.word(b',', field)?.trim_ascii();
    let text = std::str::from_utf8(word).map_err(|_| bad(Why::Expected("a number")))?;
    let (digits, base) = match text.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad(Why::Expected("a number, in hex behind 0x")));
    }
    u64::from_str_radix(digits, base)
        .map_err(|_| bad(if base == 16 { Why::TooLarge } else { Why::Expected("a number") }))
}

fn comma(c: &mut Cursor<'_>, field: &'static str) -> Result<(), Fault> {
    c.blanks();
    c.separator(b',', field)?;
    c.blanks();
    Ok(())
}

impl LineParser for ExchangeEtw {
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        c.blanks();
        let rest = c.rest_of_line();
        let op = match rest {
            _ if rest.starts_with(b"DiskRead,") => Op::Read,
            _ if rest.starts_with(b"DiskWrite,") => Op::Write,
            _ if rest.starts_with(b"DiskFlush,") => Op::Flush,
            _ => {
                c.skip_line();
                return Ok(());
            }
        };
        c.word(b',', "event")?;
        comma(c, "time (us)")?;
        if c.rest_of_line().starts_with(b"TimeStamp") {
            c.skip_line();
            return Ok(());
        }
        let done_ns = c.whole_time(1_000, "time (us)")?;
        for field in ["process", "thread"] {
            comma(c, field)?;
            c.word(b',', field)?;
        }
        comma(c, "IRP")?;
        if !c.rest_of_line().starts_with(b"0x") {
            c.word(b',', "CPU")?;
            comma(c, "IRP")?;
        }
        c.word(b',', "IRP")?;
        let (mut offset, mut bytes) = (0, 0);
        if op != Op::Flush {
            comma(c, "offset (bytes)")?;
            offset = number(c, "offset (bytes)")?;
            comma(c, "size (bytes)")?;
            bytes = number(c, "size (bytes)")?;
        }
        comma(c, "elapsed (us)")?;
        let elapsed_ns = c.whole_time(1_000, "elapsed (us)")?;
        comma(c, "disk")?;
        let disk = c.short_uint("disk")?;
        c.blanks();
        match c.peek() {
            b',' => c.skip_line(),
            _ => c.end_of_line()?,
        }
        let stream = out.stream(disk).map_err(|why| Cursor::bounds(start, why))?;
        let time_ns = done_ns.saturating_sub(elapsed_ns);
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)?;
        out.push_service(elapsed_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::{Op, Span};

    #[test]
    fn reads_disk_events_behind_the_published_header() {
        let text = b"BeginHeader\n\
            \x20           DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName\n\
            \x20       DiskReadInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr\n\
            EndHeader\nOS Version: 6.0.6001, Trace Size: 4096KB\n\
            \x20       DiskReadInit,      44817,        store.exe (3616),       5536, 0xfffffa8010\n\
            \x20           DiskRead,      52132,        store.exe (3616),       5536, 0xfffffa8010, 0x0007ac0000, 0x00002000,        7315,        4, 0x060043,  7302, 3\n\
            \x20           DiskFlush,      60000,        store.exe (3616),       5536, 0xfffffa8010, 100, 4, 0x0, 90, 3\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!(
            (t.meta.format.as_str(), t.records.len(), t.meta.start_ns),
            ("exchange-etw", 2, 44_817_000)
        );
        assert_eq!((t.records[0].offset().0, t.records[0].len().0), (0x7ac_0000, 8192));
        assert_eq!((t.records[1].op(), t.streams[0].name.as_str()), (Op::Flush, "4"));
        assert_eq!(t.service.unwrap()[0], Span(7_315_000));
    }

    #[test]
    fn reads_a_line_of_xperf_with_the_cpu() {
        let text = b"DiskRead,       8612,        xperf.exe (3984),      11844,   1, 0xffffe288b23f1b20, 0x018f0b8000, \
            0x00001000,         283,        0, 0x060043,         283,       3, Original, 0xffffe288272d0d20, \
            \"C:\\$Mft\"\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.start_ns), ("exchange-etw", 8_329_000));
        assert_eq!((t.records[0].offset().0, t.records[0].len().0), (0x1_8f0b_8000, 4096));
        assert_eq!((t.streams[0].name.as_str(), t.service.unwrap()[0]), ("0", Span(283_000)));
    }
}
