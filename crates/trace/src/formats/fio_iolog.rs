//! fio's iolog, version 2 and 3: what `write_iolog` writes and `read_iolog` replays.
//!
//! The first line is `fio version N iolog`. Then, in version 3, `time file action [offset length]` with a time in us; in version 2
//! the same without a time, and `file wait us` for a pause after the one before. Actions are read, write, trim, sync and datasync
//! (both a flush), and add, open and close, which are no requests. Offset and length in bytes. Each file becomes a stream.
//! Requests of version 2 between two pauses have one time; a file without a pause has no times, only an order. Source: `fio(1)`,
//! "Trace file format"; fio 3.33 writes version 3, its documentation calls the unit ms but the figures are us.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive};
use crate::trace::Arrival;
use nandu_base::Op;

/// fio's iolog.
pub static FORMAT: Format = Format {
    name: "fio-iolog",
    summary: "fio iolog version 2 and 3 (write_iolog): [time(us)] file action offset(B) length(B)",
    example: "20324 /tmp/data write 774144 4096",
    tried: Tried::Tool,
    sniff: |sample| version(sample).is_some(),
    note: no_note,
    kind: Kind::Text { parse: drive::<FioIolog> },
    writer: None,
};

/// The version that the first line names.
fn version(line: &[u8]) -> Option<u8> {
    let rest = line.strip_prefix(b"fio version ")?;
    let (&number, rest) = rest.split_first()?;
    (rest.starts_with(b" iolog") && number.is_ascii_digit()).then(|| number - b'0')
}

#[derive(Default)]
struct FioIolog {
    /// From the latest header; version 3 where there was none.
    version: Option<u8>,
    /// Sum of the pauses of version 2.
    now_ns: u64,
    paused: bool,
}

impl LineParser for FioIolog {
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if let Some(version) = version(c.rest_of_line()) {
            if !matches!(version, 2 | 3) {
                return Err(c.fault("version", Why::Expected("version 2 or 3 of the iolog")));
            }
            self.version = Some(version);
            if version == 2 && !self.paused {
                // Until a pause says when.
                out.set_arrival(Arrival::OrderOnly);
            }
            c.skip_line();
            return Ok(());
        }
        let timed = self.version != Some(2);
        let mut time_ns = self.now_ns;
        if timed {
            time_ns = c.whole_time(1_000, "time (us)")?;
            c.gap("file")?;
        }
        let file = c.word(b' ', "file")?;
        c.gap("action")?;
        let action_at = c.pos();
        let op = match c.word(b' ', "action")? {
            b"add" | b"open" | b"close" => {
                c.skip_line();
                return Ok(());
            }
            b"wait" if !timed => {
                c.gap("wait (us)")?;
                let pause = c.whole_time(1_000, "wait (us)")?;
                c.skip_line();
                self.paused = true;
                out.set_arrival(Arrival::Timestamps);
                self.now_ns =
                    self.now_ns.checked_add(pause).ok_or_else(|| c.fault("wait (us)", Why::TimeTooLarge))?;
                return Ok(());
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            _ => {
                let why = Why::Expected(
                    "add, open, close, read, write, trim, sync, datasync, or wait in version 2",
                );
                return Err(Fault { at: action_at, field: "action", why });
            }
        };
        let (mut offset, mut bytes) = (0, 0);
        if op == Op::Flush {
            c.skip_line();
        } else {
            c.gap("offset (bytes)")?;
            offset = c.uint("offset (bytes)")?;
            c.gap("length (bytes)")?;
            bytes = c.uint("length (bytes)")?;
            c.end_of_line()?;
        }
        let stream = out.stream_named(file).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};
    use crate::trace::Arrival;
    use nandu_base::Op;

    #[test]
    fn version_2_has_pauses_or_only_an_order() {
        let text = b"fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 4096 8192\n/dev/x wait 1500\n\
            /dev/x write 0 512\n/dev/x datasync\n/dev/x close\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.arrival), ("fio-iolog", Arrival::Timestamps));
        assert_eq!(t.records.iter().map(|r| r.time().0).collect::<Vec<_>>(), [0, 1_500_000, 1_500_000]);
        assert_eq!((t.records[2].op(), t.streams[0].name.as_str()), (Op::Flush, "/dev/x"));
        let t =
            parse_bytes(None, b"fio version 2 iolog\nf read 0 512\nf read 512 512\n", LoadOptions::default());
        assert_eq!(t.unwrap().meta.arrival, Arrival::OrderOnly);
        // Its first requests are no other trace.
        let first = LoadOptions { limit: Some(1), ..LoadOptions::default() };
        let t = parse_bytes(None, b"fio version 2 iolog\nf read 0 512\nf read 512 512\n", first);
        assert_eq!(t.unwrap().meta.arrival, Arrival::OrderOnly);
    }

    #[test]
    fn other_versions_and_actions_are_named() {
        for (text, word) in [
            ("fio version 4 iolog\nf x\n", "version 2 or 3"),
            ("fio version 3 iolog\n1 f jump 0 1\n", "datasync"),
        ] {
            let e = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap_err().to_string();
            assert!(e.contains(word), "{e}");
        }
    }
}
