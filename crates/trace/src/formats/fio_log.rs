//! fio's `write_bw_log`, `write_lat_log` and `write_iops_log`: `time, value, direction, block size, offset, priority`, from fio 3.38
//! on with the issue time behind them (`log_issue_time=1`).
//!
//! Time in ms at which the request ended, the value (KiB/s, ns or 1) is not kept, direction 0 = read, 1 = write, 2 = trim, block
//! size and offset in bytes, priority 0 or 1, or hex behind `0x`, issue time in ns, 0 where fio does not know it. The issue time is
//! the arrival where there is one, else the end. Without `log_offset=1` there is no offset, with `log_avg_msec` there is no request: both are
//! refused. Such a log has the requests of one job only, in ms: an iolog has more. Source: `fio(1)`, "Log file formats".

use super::{Format, Kind, Tried};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive};
use nandu_base::Op;

/// fio's logs of single requests.
pub static FORMAT: Format = Format {
    name: "fio-log",
    summary: "fio write_lat_log|write_bw_log|write_iops_log with log_offset=1: time(ms), value, 0|1|2, size(B), offset(B), priority[, issue time(ns)]",
    example: "8, 22371, 1, 4096, 192512, 0",
    tried: Tried::Tool,
    sniff,
    note: |sample| {
        let first = sample.split(|&b| b == b'\n').next().unwrap_or_default();
        let issue_times =
            memchr::memchr_iter(b',', first).count() == 6 && !first.trim_ascii_end().ends_with(b", 0");
        (!issue_times).then(|| {
            "times of the log are those at which requests ended, in whole milliseconds; log_issue_time=1 of fio 3.38 adds those \
             at which they began"
                .into()
        })
    },
    kind: Kind::Text { parse: drive::<FioLog> },
    writer: None,
};

/// The first line is numbers apart by a comma and a blank: also where the log has no offsets, so that the reason is told.
fn sniff(sample: &[u8]) -> bool {
    let line = sample.split(|&b| b == b'\n').next().unwrap_or_default();
    let fields = line.trim_ascii_end().split(|&b| b == b',').enumerate().map(|(at, field)| {
        let field = if at == 0 { Some(field) } else { field.strip_prefix(b" ") };
        field.is_some_and(|f| !f.is_empty() && f.iter().all(|b| b.is_ascii_hexdigit() || *b == b'x'))
    });
    let kinds: Vec<bool> = fields.collect();
    (4..=7).contains(&kinds.len()) && kinds.iter().all(|&number| number)
}

const WITHOUT_OFFSET: &str = "an offset: let fio write it with log_offset=1";

#[derive(Default)]
struct FioLog;

fn comma(c: &mut Cursor<'_>, field: &'static str) -> Result<(), Fault> {
    c.separator(b',', field)?;
    c.blanks();
    Ok(())
}

impl LineParser for FioLog {
    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let ended_ns = c.whole_time(1_000_000, "time (ms)")?;
        comma(c, "value")?;
        c.uint("value")?;
        comma(c, "direction")?;
        let op = match c.peek() {
            b'0' => Op::Read,
            b'1' => Op::Write,
            b'2' => Op::Trim,
            _ => return Err(c.fault("direction", Why::Expected("0 (read), 1 (write) or 2 (trim)"))),
        };
        c.seek_by_one();
        comma(c, "block size (bytes)")?;
        let size_at = c.pos();
        let bytes = c.uint("block size (bytes)")?;
        if bytes == 0 {
            let why = Why::Expected(
                "a request of its own on each line: let fio write the log without log_avg_msec",
            );
            return Err(Fault { at: size_at, field: "block size (bytes)", why });
        }
        if c.peek() != b',' {
            return Err(c.fault("offset (bytes)", Why::Expected(WITHOUT_OFFSET)));
        }
        comma(c, "offset (bytes)")?;
        let offset_at = c.pos();
        let offset = c.uint("offset (bytes)")?;
        let without = || Fault { at: offset_at, field: "offset (bytes)", why: Why::Expected(WITHOUT_OFFSET) };
        if c.peek() != b',' {
            return Err(without());
        }
        comma(c, "priority")?;
        // What is no priority is an issue time, and the column before it was the priority.
        let priority = c.word(b',', "priority")?;
        if !(matches!(priority, b"0" | b"1") || priority.starts_with(b"0x")) {
            return Err(without());
        }
        let mut issued_ns = 0;
        if c.peek() == b',' {
            comma(c, "issue time (ns)")?;
            issued_ns = c.uint("issue time (ns)")?;
        }
        c.end_of_line()?;
        let time_ns = if issued_ns == 0 { ended_ns } else { issued_ns };
        let stream = out.stream(0).map_err(|why| Cursor::bounds(start, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(start, line, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    #[test]
    fn logs_without_requests_are_refused_with_the_way_out() {
        // The first lines as fio 3.33 writes them: without log_offset, and with log_avg_msec.
        // The third is that of a log with issue times and no offsets.
        for (text, word) in [
            ("1, 1651353, 0, 4096, 0\n", "log_offset=1"),
            ("11, 251541, 0, 0, 0\n", "log_avg_msec"),
            ("1, 1651353, 0, 4096, 0, 1651500\n", "log_offset=1"),
        ] {
            let e = parse_bytes(None, text.as_bytes(), LoadOptions::default()).unwrap_err().to_string();
            assert!(e.contains(word), "{e}");
        }
    }
}
