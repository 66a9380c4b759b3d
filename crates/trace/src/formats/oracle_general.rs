//! libCacheSim's oracleGeneral, binary: requests for objects, each with the place of the next to the same object.
//!
//! 24 bytes, little endian, no gaps: time in s (32 bits), object (64), its size in bytes (32), index of the next request for it (64, -1 or
//! the largest number when there is none). There is no operation: every request is a read. Block traces in this form have the LBN in blocks of 512 B
//! as the object, so an object lies at its number times 512 B; traces of web and key-value caches name objects by hashes
//! that lie beyond what a device addresses, and are refused there.
//!
//! *Recognised* by what no other file has: times that do not fall, and indices that lead forward to the same object.
//! Source: `oracleGeneralBin.h` of libCacheSim.

use super::{Format, Kind, Tried};
use crate::builder::{Builder, Line};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::load::{RecordParser, drive_records};
use crate::record::RecordError;
use nandu_base::{Op, SECTOR};

/// oracleGeneral, binary.
pub static FORMAT: Format = Format {
    name: "oracle-general",
    summary: "libCacheSim oracleGeneral binary: time(s), object (LBN of 512 B), size(B), next request of it; all reads",
    example: "5633898 s, object 42932745, 512 bytes, next -1",
    tried: Tried::Recordings,
    sniff: |head| OracleGeneral::begin(head).is_some(),
    note: |_| {
        Some(
            "objects are taken for blocks of 512 B and every request for a read: the format has no operations, and times in \
             whole seconds"
                .into(),
        )
    },
    kind: Kind::Binary { parse: drive_records::<OracleGeneral> },
    writer: None,
};

struct OracleGeneral;

const LEN: usize = 24;

/// Time, object, size, next.
fn fields(bytes: &[u8]) -> (u32, u64, u32, i64) {
    let four = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let eight = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    (four(0), eight(4), four(12), eight(16) as i64)
}

impl RecordParser for OracleGeneral {
    const HEAD: usize = LEN;

    fn begin(head: &[u8]) -> Option<OracleGeneral> {
        let records: Vec<_> = head.chunks_exact(LEN).map(fields).collect();
        let mut before = 0;
        for (at, &(time, object, size, next)) in records.iter().enumerate() {
            // Indices count from 0 or from 1.
            let later = usize::try_from(next).ok().filter(|&n| next != i64::MAX && n > at);
            let leads = match later {
                None => next == -1 || next == i64::MAX,
                Some(next) => {
                    let is_it = |n: usize| records.get(n).is_none_or(|&(_, other, _, _)| other == object);
                    is_it(next) || next - 1 > at && is_it(next - 1)
                }
            };
            if time < before || size == 0 && object == 0 || !leads {
                return None;
            }
            before = time;
        }
        (!records.is_empty()).then_some(OracleGeneral)
    }

    fn len(&self, _head: &[u8]) -> Result<usize, Fault> {
        Ok(LEN)
    }

    fn record(&mut self, bytes: &[u8], out: &mut Builder) -> Result<(), Fault> {
        let (seconds, object, size, _) = fields(bytes);
        let offset = object.checked_mul(SECTOR).ok_or_else(|| Cursor::bounds(0, RecordError::Offset))?;
        let stream = out.stream(0).map_err(|why| Cursor::bounds(0, why))?;
        let time_ns = u64::from(seconds) * 1_000_000_000;
        let line = Line { time_ns, op: Op::Read, fua: false, offset_sectors: 0, len_sectors: 0, stream };
        out.push_bytes(0, line, offset, u64::from(size))
    }
}

#[cfg(test)]
mod tests {
    use crate::load::{LoadOptions, parse_bytes};

    fn file(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
        let record = |&(time, object, size, next): &(u32, u64, u32, i64)| {
            [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()]
                .concat()
        };
        records.iter().flat_map(record).collect()
    }

    #[test]
    fn objects_are_blocks_and_links_are_checked() {
        let bytes = file(&[
            (5_633_898, 42_932_745, 512, 2),
            (5_633_898, 7, 4096, -1),
            (5_633_900, 42_932_745, 512, -1),
        ]);
        let t = parse_bytes(None, &bytes, LoadOptions::default()).unwrap();
        assert_eq!((t.meta.format.as_str(), t.span().0), ("oracle-general", 2_000_000_000));
        assert_eq!((t.records[0].offset_sectors(), t.records[1].len().0), (42_932_745, 4096));
        assert_eq!(t.meta.notes.len(), 1);
        // The link leads to another object, and a time falls: of no format.
        for wrong in [[(1, 5, 512, 1), (1, 6, 512, -1)], [(2, 5, 512, -1), (1, 6, 512, -1)]] {
            let e = parse_bytes(None, &file(&wrong), LoadOptions::default()).unwrap_err().to_string();
            assert!(e.contains("no trace format fits"), "{e}");
        }
    }
}
