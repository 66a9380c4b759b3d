//! `lab-log`: what the disks of a laboratory write down, `milliseconds R|W offset length`, blank-separated, in bytes.
//!
//! ```text
//! 0.250 R 8192 4096
//! 0.900 W 0 512
//! ```
//!
//! Our own, for the example; a line that begins with `#` says something and asks for nothing.

use nandu::format::{
    Builder, Cursor, Fault, Format, Kind, Line, LineParser, Tried, Why, drive, no_note, reads_most,
};
use nandu::units::Op;

/// The format.
pub static FORMAT: Format = Format {
    name: "lab-log",
    summary: "milliseconds R|W offset length, in bytes",
    example: "0.250 R 8192 4096",
    tried: Tried::Lines,
    sniff: reads_most::<LabLog>,
    note: no_note,
    kind: Kind::Text { parse: drive::<LabLog> },
    writer: None,
};

/// The parser has no state.
#[derive(Default)]
pub struct LabLog;

impl LineParser for LabLog {
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        if c.peek() == b'#' {
            c.skip_line();
            return Ok(());
        }
        let time = c.time(1_000_000, "time (ms)")?;
        c.gap("operation")?;
        let at = c.pos();
        let op = match c.word(b' ', "operation")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Fault { at, field: "operation", why: Why::Expected("R or W") }),
        };
        c.gap("offset (B)")?;
        let offset = c.uint("offset (B)")?;
        c.gap("length (B)")?;
        let len = c.uint("length (B)")?;
        c.end_of_line()?;
        let time_ns = out.nanos(time);
        // There is one stream, 0.
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream: 0 };
        out.push_bytes(start, line, offset, len)
    }
}
