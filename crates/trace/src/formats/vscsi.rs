//! VMware's vscsi traces, binary, version 1 and 2: commands of one virtual disk.
//!
//! Little endian. Version 1 in 32 bytes: number, length in bytes, parts, SCSI operation code (16 bits), version (16 bits), LBN in blocks of
//! 512 B (64 bits), time in us (64 bits). Version 2 in 40 bytes: code, version, number, length, parts, LBN, time, response time in us, which is
//! kept. The high byte of the version field is the version. Codes as in [`super::cloudphysics`]; others than reads, writes,
//! flushes and trims carry no data and are left out. Source: `vscsi.h` of libCacheSim; the vscsiStats traces of CloudPhysics (USENIX ATC '15).

use super::cloudphysics::scsi_op;
use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::{Fault, Why};
use crate::load::{RecordParser, drive_records};
use crate::record::RecordError;
use nandu_base::{Op, SECTOR};

/// vscsi, binary.
pub static FORMAT: Format = Format {
    name: "vscsi",
    summary: "VMware vscsi binary, version 1 and 2: SCSI operation, bytes, LBN(512 B), time(us)",
    example: "version 1, code 2a, 512 bytes, LBN 42932745, 5633898368802 us",
    tried: Tried::Recordings,
    sniff: |head| Vscsi::begin(head).is_some(),
    note: no_note,
    kind: Kind::Binary { parse: drive_records::<Vscsi> },
    writer: None,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Vscsi {
    One,
    Two,
}

/// `N` bytes at `at` as a number.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(word)
}

impl Vscsi {
    const fn size(self) -> usize {
        match self {
            Vscsi::One => 32,
            Vscsi::Two => 40,
        }
    }

    /// Whether these bytes are a record: the version and a code that is known.
    fn has(self, bytes: &[u8]) -> bool {
        let (code, version, wanted) = match self {
            Vscsi::One => (number::<2>(bytes, 12), number::<2>(bytes, 14), 1),
            Vscsi::Two => (number::<2>(bytes, 0), number::<2>(bytes, 2), 2),
        };
        version >> 8 == wanted && code <= 0xFF
    }
}

impl RecordParser for Vscsi {
    /// Both versions tell themselves by then.
    const HEAD: usize = 16;

    fn begin(head: &[u8]) -> Option<Vscsi> {
        // As libCacheSim: two records in a row, or all of a shorter file.
        [Vscsi::Two, Vscsi::One].into_iter().find(|v| {
            let mut records = head.chunks_exact(v.size()).take(2).peekable();
            records.peek().is_some() && records.all(|bytes| v.has(bytes))
        })
    }

    fn len(&self, head: &[u8]) -> Result<usize, Fault> {
        match self.has(head) {
            true => Ok(self.size()),
            false => Err(Fault { at: 0, field: "version", why: Why::Expected("that of the first record") }),
        }
    }

    fn record(&mut self, bytes: &[u8], out: &mut Builder) -> Result<(), Fault> {
        let (code, len, lbn, time_us) = match self {
            Vscsi::One => (bytes[12], number::<4>(bytes, 4), number::<8>(bytes, 16), number::<8>(bytes, 24)),
            Vscsi::Two => (bytes[0], number::<4>(bytes, 8), number::<8>(bytes, 16), number::<8>(bytes, 24)),
        };
        let Some(op) = scsi_op(format!("{code:02x}").as_bytes()) else { return Ok(()) };
        let too_late = || Fault { at: 0, field: "time (us)", why: Why::TimeTooLarge };
        let time_ns = time_us.checked_mul(1_000).ok_or_else(too_late)?;
        let (lbn, len) = if op == Op::Flush { (0, 0) } else { (lbn, len) };
        let offset = lbn.checked_mul(SECTOR).ok_or_else(|| Cursor::bounds(0, RecordError::Offset))?;
        let stream = out.stream(0).map_err(|why| Cursor::bounds(0, why))?;
        let line = Line { time_ns, op, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(0, line, offset, len)?;
        if *self == Vscsi::Two {
            out.push_service(number::<8>(bytes, 32).checked_mul(1_000).ok_or_else(too_late)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};
    use nandu_base::{Op, Span};

    /// The first two records of the sample that libCacheSim comes with, as numbers.
    const FIRST: [(u32, u32, u64, u64); 2] = [
        (2_147_483_892, 512, 42_932_745, 5_633_898_368_802),
        (2_147_483_745, 512, 42_932_746, 5_633_898_611_441),
    ];

    #[test]
    fn both_versions_are_read() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for (number, len, lbn, time) in FIRST {
            let parts = [number.to_le_bytes(), len.to_le_bytes(), 1u32.to_le_bytes()].concat();
            one.extend([&parts[..], &[0x2A, 0, 0, 1], &lbn.to_le_bytes(), &time.to_le_bytes()].concat());
            let response = 250u64.to_le_bytes();
            two.extend(
                [&[0x28, 0, 0, 2], &parts[..], &lbn.to_le_bytes(), &time.to_le_bytes(), &response].concat(),
            );
        }
        let t = parse_bytes(None, &one, LoadOptions::default()).unwrap();
        assert_eq!(
            (t.meta.format.as_str(), t.records[0].op(), t.span().0),
            ("vscsi", Op::Write, 242_639_000)
        );
        assert_eq!((t.records[1].offset_sectors(), t.records[1].len().0), (42_932_746, 512));
        let t = parse_bytes(None, &two, LoadOptions::default()).unwrap();
        assert_eq!((t.records[1].op(), t.service.unwrap()[0]), (Op::Read, Span(250_000)));
        assert!(
            parse_bytes(None, &one[..40], LoadOptions::default())
                .unwrap_err()
                .to_string()
                .contains("cut short")
        );
    }
}
