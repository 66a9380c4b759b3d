//! What a hybrid disk writes for itself: superblocks on each member, and the headers of groups in the rings.
//!
//! *Superblock.* One page, of which only the first 512 B differ from one to the next: a disk stores these old or new. It names the set, so that
//! members of different sets are never mixed, and the opening, so that older copies are not ([`crate::generation`]). Each opening writes two on each
//! member, each over the older one: the first two pages of a ring's child, the last two of the disk. Where pages are erased before they are
//! programmed again they follow each other through two units, of which the one that does not hold the newest is erased.
//!
//! *Group header.* One page in front of the pages that it describes. A unit (erase block) of a ring is a chain of groups
//! from its first page: the place of the next header follows from the count in this one, so data of a guest is never
//! taken for a header, whatever it holds. Groups of a ring are numbered without gaps. A header is true of its own pages
//! only when a later header, of any group, says `durable` of at least its number: that one was written after the pages
//! were durable. All numbers are little-endian, and a CRC-32C covers the whole page.
//!
//! *A flipped bit* of a header is put right from its checksum ([`nandu_base::seal`]): the newest header of a ring is mentioned by no other record, and
//! would look as if a cut had kept it.

use crate::generation::{Claim, Generation};
use nandu_base::Seal;

const MAGIC: [u8; 8] = *b"NanduHY\x01";
const SUPER: [u8; 8] = *b"NanduHS\x02";
/// Of the version before, which could not tell an older copy of a member.
const SUPER_BEFORE: [u8; 8] = *b"NanduHS\x01";
/// Bytes of a header before its entries.
const FIXED: usize = 72;
/// Bytes of one entry.
const ENTRY: usize = 16;
const SEAL: Seal = Seal::inside(68);

const GONE: u64 = 1 << 62;

/// Entries that a header of `page` bytes has room for.
pub const fn capacity(page: usize) -> usize {
    (page - FIXED) / ENTRY
}

/// What a group says of one page of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number of the page on the disk.
    pub page: u32,
    /// Its place in the order of all versions; the highest one counts.
    pub version: u64,
    /// No data follows: the disk holds the truth from this version on.
    pub gone: bool,
}

/// The header of a group. Entries that are `gone` come first; one page follows for each of the others, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The set.
    pub set: u64,
    /// Number of the unit's use: grows by one each time a unit of the ring is begun.
    pub use_number: u64,
    /// Number of this group.
    pub group: u64,
    /// Number of the first group of this unit.
    pub first: u64,
    /// Groups up to this one are durable.
    pub durable: u64,
    /// Versions from here on were never given out when this was written.
    pub next_version: u64,
    /// Place of the unit in its ring.
    pub unit: u32,
    /// Page of the unit at which this header stands.
    pub at: u32,
    /// What the group holds.
    pub entries: Vec<Entry>,
}

impl Header {
    /// Pages of data behind the header.
    pub fn pages(&self) -> u32 {
        self.entries.iter().filter(|e| !e.gone).count() as u32
    }

    /// Writes the header into a page of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        let numbers = [self.set, self.use_number, self.group, self.first, self.durable, self.next_version];
        out[..8].copy_from_slice(&MAGIC);
        for (chunk, n) in out[8..56].chunks_exact_mut(8).zip(numbers) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        for (chunk, n) in out[56..68].chunks_exact_mut(4).zip([self.unit, self.at, self.entries.len() as u32])
        {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        for (chunk, e) in out[FIXED..].chunks_exact_mut(ENTRY).zip(&self.entries) {
            let flags = if e.gone { GONE } else { 0 };
            chunk[..8].copy_from_slice(&(u64::from(e.page) | flags).to_le_bytes());
            chunk[8..].copy_from_slice(&e.version.to_le_bytes());
        }
        SEAL.put(out);
    }

    /// Reads a header, also one of which a single bit has flipped, and says whether it had; `None` when the page holds none.
    pub fn read(bytes: &[u8]) -> Option<(Header, bool)> {
        SEAL.read(bytes, &MAGIC, Header::decode)
    }

    /// Reads a header as it is; `None` when the page holds none.
    fn decode(bytes: &[u8]) -> Option<Header> {
        if bytes[..8] != MAGIC || !SEAL.holds(bytes) {
            return None;
        }
        let long = |i: usize| u64::from_le_bytes(bytes[8 + i * 8..16 + i * 8].try_into().expect("eight"));
        let short = |i: usize| u32::from_le_bytes(bytes[56 + i * 4..60 + i * 4].try_into().expect("four"));
        let count = short(2) as usize;
        if count > capacity(bytes.len()) {
            return None;
        }
        let entry = |chunk: &[u8]| {
            let word = u64::from_le_bytes(chunk[..8].try_into().expect("eight"));
            let version = u64::from_le_bytes(chunk[8..].try_into().expect("eight"));
            Entry { page: word as u32, version, gone: word & GONE != 0 }
        };
        Some(Header {
            set: long(0),
            use_number: long(1),
            group: long(2),
            first: long(3),
            durable: long(4),
            next_version: long(5),
            unit: short(0),
            at: short(1),
            entries: bytes[FIXED..].chunks_exact(ENTRY).take(count).map(entry).collect(),
        })
    }
}

/// Which member of a set this is, and what the set is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Super {
    /// The set.
    pub set: u64,
    /// Number of the member: rings from the top, then the disk.
    pub member: u32,
    /// Members of the set.
    pub members: u32,
    /// Bytes of a page.
    pub page: u64,
    /// Bytes of a unit of this ring; 0 for the disk.
    pub unit: u64,
    /// Bytes of this member.
    pub size: u64,
    /// Its place in the order of all that were written to this member.
    pub seq: u64,
    /// What the member knows of openings.
    pub claim: Claim,
}

impl Super {
    /// Writes the record into a page of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&SUPER);
        let both = u64::from(self.member) | u64::from(self.members) << 32;
        let Claim { generation, base, is_open } = self.claim;
        let head = [self.set, both, self.page, self.unit, self.size, self.seq];
        let opening = [generation.number, generation.tag, base.number, base.tag, u64::from(is_open)];
        for (chunk, n) in out[8..56].chunks_exact_mut(8).zip(head) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        for (chunk, n) in out[FIXED..FIXED + 40].chunks_exact_mut(8).zip(opening) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        SEAL.put(out);
    }

    /// Reads the record; `None` when the page holds none.
    pub fn decode(bytes: &[u8]) -> Option<Super> {
        if bytes[..8] != SUPER || !SEAL.holds(bytes) {
            return None;
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let (long, opening) = (|i: usize| word(8 + i * 8), |i: usize| word(FIXED + i * 8));
        let both = long(1);
        Some(Super {
            set: long(0),
            member: both as u32,
            members: (both >> 32) as u32,
            page: long(2),
            unit: long(3),
            size: long(4),
            seq: long(5),
            claim: Claim {
                generation: Generation { number: opening(0), tag: opening(1) },
                base: Generation { number: opening(2), tag: opening(3) },
                is_open: opening(4) != 0,
            },
        })
    }

    /// Whether a page holds the record of the version before.
    pub fn is_before(bytes: &[u8]) -> bool {
        bytes[..8] == SUPER_BEFORE && SEAL.holds(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            set: 7,
            use_number: 3,
            group: 12,
            first: 9,
            durable: 11,
            next_version: 400,
            unit: 5,
            at: 17,
            entries: vec![
                Entry { page: 8, version: 398, gone: true },
                Entry { page: u32::MAX - 1, version: 399, gone: false },
            ],
        }
    }

    #[test]
    fn a_header_reads_back_with_any_bit_flipped_and_with_two_it_is_none() {
        let mut page = vec![0; 2048];
        sample().encode(&mut page);
        assert_eq!(Header::read(&page), Some((sample(), false)));
        assert_eq!(sample().pages(), 1);
        for bit in (0..page.len() * 8).step_by(11) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&page), None, "bit {bit}");
            assert_eq!(Header::read(&page), Some((sample(), true)), "bit {bit}");
            let other = (bit + 1 + bit % 4000) % (page.len() * 8);
            page[other / 8] ^= 1 << (other % 8);
            assert_eq!(Header::read(&page), None, "bits {bit} and {other}");
            page[other / 8] ^= 1 << (other % 8);
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_header_that_a_cut_has_torn_is_none() {
        let mut page = vec![0; 2048];
        sample().encode(&mut page);
        for sector in 0..4 {
            let mut torn = page.clone();
            torn[sector * 512..].fill(0xA5);
            assert_eq!(Header::read(&torn), None, "from sector {sector}");
        }
        let mut older = vec![0; 2048];
        Header { group: 11, durable: 10, ..sample() }.encode(&mut older);
        page[60..].copy_from_slice(&older[60..]);
        assert_eq!(Header::read(&page), None, "two headers, mixed");
    }

    #[test]
    fn a_superblock_reads_back_and_is_no_header() {
        let generation = |number| Generation { number, tag: number * 1000 };
        let claim = Claim { generation: generation(9), base: generation(8), is_open: true };
        let record =
            Super { set: 1, member: 2, members: 3, page: 4096, unit: 65_536, size: 1 << 30, seq: 17, claim };
        let mut page = vec![0; 4096];
        record.encode(&mut page);
        assert_eq!(Super::decode(&page), Some(record));
        assert_eq!(Header::read(&page), None);
        for i in 0..page.len() {
            for bit in 0..8 {
                page[i] ^= 1 << bit;
                assert_eq!(Super::decode(&page), None, "byte {i}, bit {bit}");
                page[i] ^= 1 << bit;
            }
        }
        assert!(page[512..].iter().all(|&byte| byte == 0), "what a disk stores as a whole");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_header_or_none(mut bytes in proptest::collection::vec(0u8.., 512..513)) {
            bytes[..8].copy_from_slice(&MAGIC);
            SEAL.put(&mut bytes);
            let _ = Header::read(&bytes);
            bytes[..8].copy_from_slice(&SUPER);
            SEAL.put(&mut bytes);
            let _ = Super::decode(&bytes);
        }
    }
}
