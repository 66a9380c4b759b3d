//! DiskSim validation traces: `R|W label LBN blocks service gap`, blank-separated.
//!
//! Service and gap in us with decimals: the measured service time of this request, and the time from its completion
//! to the issue of the next. One request is outstanding at a time: [`Arrival::GapAfterCompletion`]. The issue times
//! are the running sum of service and gap; a gap is read back with [`crate::Trace::gap_after`]. Digits below a
//! nanosecond are rounded and counted. The label (Hit, Miss, Doub, Trip: what the drive's buffer did) is not kept.
//! Source: DiskSim's validation folder, replayed by its synchronous validation mode.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{LineParser, drive, reads_most};
use crate::trace::Arrival;
use nandu_base::Op;

/// DiskSim validation.
pub static FORMAT: Format = Format {
    name: "disksim-valid",
    summary: "DiskSim validation, closed loop: R|W label LBN(512 B) blocks service(us) gap(us)",
    example: "W Hit 4583176 4 663.00000 45422.00000",
    tried: Tried::Recordings,
    sniff: reads_most::<DiskSimValid>,
    note: no_note,
    kind: Kind::Text { parse: drive::<DiskSimValid> },
    writer: None,
};

#[derive(Default)]
struct DiskSimValid {
    /// Issue time of the next request.
    now_ns: u64,
}

impl LineParser for DiskSimValid {
    const ARRIVAL: Arrival = Arrival::GapAfterCompletion;

    #[inline(always)]
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let op = match c.peek() {
            b'R' => Op::Read,
            b'W' => Op::Write,
            _ => return Err(c.fault("op", Why::Expected("R or W"))),
        };
        c.seek_by_one();
        c.gap("label")?;
        c.word(b' ', "label")?;
        c.gap("LBN (512 B)")?;
        let offset_sectors = c.uint("LBN (512 B)")?;
        c.gap("length (blocks)")?;
        let len_sectors = c.uint("length (blocks)")?;
        c.gap("service (us)")?;
        let service = c.time(1_000, "service (us)")?;
        c.gap("gap (us)")?;
        let gap = c.time(1_000, "gap (us)")?;
        let next_ns = self.now_ns.checked_add(service.ns).and_then(|t| t.checked_add(gap.ns));
        let next_ns = next_ns.ok_or_else(|| c.fault("gap (us)", Why::TimeTooLarge))?;
        c.end_of_line()?;
        let stream = out.stream(0).map_err(|why| Cursor::bounds(start, why))?;
        out.push(start, Line { time_ns: self.now_ns, op, fua: false, offset_sectors, len_sectors, stream })?;
        out.nanos(gap);
        let service_ns = out.nanos(service);
        out.push_service(service_ns);
        self.now_ns = next_ns;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::Span;

    #[test]
    fn reads_gaps_and_measured_times() {
        let text = b"W Hit    4583176   4    663.00000  45422.00000\nR Miss 7 2 14095.370 13876.270\nR Hit 9 2 1 2\n";
        let t = parse_bytes(None, text, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.meta.arrival), ("disksim-valid", Arrival::GapAfterCompletion));
        assert_eq!(t.records[1].time().0, 663_000 + 45_422_000);
        assert_eq!(t.gap_after(0), Some(Span(45_422_000)));
        assert_eq!(t.gap_after(1), Some(Span(13_876_270)));
        assert_eq!(t.gap_after(2), None);
        assert_eq!(t.service.unwrap()[1], Span(14_095_370));
    }
}
