//! What a hybrid disk writes for itself: superblocks on each member, and the headers of groups in the rings.
//!
//! *Superblock.* One page, of which only the first 512 B differ from one to the next: a disk stores these old or new. It names the set, so that
//! members of different sets are never mixed, and the opening, so that older copies are not ([`crate::generation`]). Each opening writes two on each
//! member, and a clean end one more on each ring, with the groups that it holds; each over the older one: the first two pages of a ring's child, the last two of the disk. Where pages are erased before they are
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

/// Gaps among the groups of a ring that a salvage went on without, each from its first group to its last.
///
/// There is room for [`Gaps::MOST`]; of more the last ones are taken together, with what lies between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gaps {
    count: u8,
    gaps: [(u64, u64); Gaps::MOST],
}

impl Gaps {
    /// How many are told apart.
    pub const MOST: usize = 20;
    /// Bytes of the record.
    const LEN: usize = 8 + 16 * Gaps::MOST;

    /// These gaps, in the order of their groups.
    pub fn of(all: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps { count: all.len().min(Gaps::MOST) as u8, ..Gaps::default() };
        for (at, &gap) in all.iter().enumerate() {
            let place = &mut gaps.gaps[at.min(Gaps::MOST - 1)];
            *place = if at < Gaps::MOST { gap } else { (place.0, gap.1) };
        }
        gaps
    }

    /// Whether all groups of a gap are known to be missing.
    pub fn cover(&self, (first, last): (u64, u64)) -> bool {
        self.gaps[..usize::from(self.count)].iter().any(|&(from, to)| from <= first && last <= to)
    }

    fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&u64::from(self.count).to_le_bytes());
        let all = self.gaps.iter().flat_map(|&(from, to)| [from, to]);
        for (chunk, n) in out[8..Gaps::LEN].chunks_exact_mut(8).zip(all) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Option<Gaps> {
        let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().expect("eight"));
        let count = u8::try_from(word(0)).ok().filter(|&count| usize::from(count) <= Gaps::MOST)?;
        Some(Gaps { count, gaps: std::array::from_fn(|i| (word(1 + 2 * i), word(2 + 2 * i))) })
    }
}

/// Units of a ring without their first header that a salvage went on with, by the numbers of their uses; 0 where there is none.
pub type Headless = [u64; 6];

/// What a ring holds after a clean end: nothing of it may be missing at the next start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sealed {
    /// Its first group; 0 where there was no clean end, or the version before wrote the record.
    pub first: u64,
    /// Its last group with content, or the last that is proven; less than the first where it has none.
    pub last: u64,
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
    /// Bytes of a unit of this ring; of the disk those of a region of its map of dirty regions, 0 where it has none.
    pub unit: u64,
    /// Bytes of this member.
    pub size: u64,
    /// Its place in the order of all that were written to this member.
    pub seq: u64,
    /// What the member knows of openings.
    pub claim: Claim,
    /// Of a ring: what a salvage went on without.
    pub gaps: Gaps,
    /// Of a ring: what it holds.
    pub sealed: Sealed,
    /// Of a ring: whose later headers count all the same.
    pub headless: Headless,
    /// Not zero where rings hold copies only: of a ring what its headers say beside the set, of the disk 1.
    pub through: u64,
    /// Of a disk with a map of dirty regions: whether it needs its rings.
    pub rings: Standing,
}

/// What a disk with a map of dirty regions says of its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Standing {
    /// They may have what the disk does not have.
    #[default]
    Needed,
    /// They are being given up: which pages are lost is not on record yet.
    Leaving,
    /// They were given up: nothing that they hold counts.
    GivenUp,
}

impl Standing {
    fn number(self) -> u64 {
        match self {
            Standing::Needed => 0,
            Standing::Leaving => 1,
            Standing::GivenUp => 2,
        }
    }

    fn of(number: u64) -> Option<Standing> {
        [Standing::Needed, Standing::Leaving, Standing::GivenUp].into_iter().find(|s| s.number() == number)
    }
}

impl Super {
    /// Writes the record into a page of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&SUPER);
        let both = u64::from(self.member) | u64::from(self.members) << 32;
        let Claim { generation, base, is_open } = self.claim;
        let rings = self.rings.number();
        let head = [self.set, both, self.page, self.unit, self.size, self.seq, rings];
        let opening = [generation.number, generation.tag, base.number, base.tag, u64::from(is_open)];
        for (chunk, n) in out[8..64].chunks_exact_mut(8).zip(head) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        for (chunk, n) in out[FIXED..FIXED + 40].chunks_exact_mut(8).zip(opening) {
            chunk.copy_from_slice(&n.to_le_bytes());
        }
        let (gaps, sealed) = out[FIXED + 40..512].split_at_mut(Gaps::LEN);
        self.gaps.encode(gaps);
        sealed[..8].copy_from_slice(&self.sealed.first.to_le_bytes());
        sealed[8..16].copy_from_slice(&self.sealed.last.to_le_bytes());
        for (chunk, n) in
            sealed[16..].chunks_exact_mut(8).zip(self.headless.into_iter().chain([self.through]))
        {
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
            gaps: Gaps::decode(&bytes[FIXED + 40..512])?,
            sealed: Sealed { first: word(FIXED + 40 + Gaps::LEN), last: word(FIXED + 48 + Gaps::LEN) },
            headless: std::array::from_fn(|i| word(FIXED + 56 + Gaps::LEN + i * 8)),
            through: word(FIXED + 56 + Gaps::LEN + size_of::<Headless>()),
            rings: Standing::of(long(6))?,
        })
    }

    /// Whether the member is the one that `want` describes, of this set and of this size.
    pub fn is_shaped(&self, want: &Super) -> bool {
        let shape = |s: &Super| (s.set, s.member, s.members, s.page, s.unit, s.size);
        shape(self) == shape(want)
    }

    /// Of a ring that holds copies: whether it is as a clean end has left it, together with the disk that says `disk`.
    pub fn is_as_left_with(&self, disk: &Super) -> bool {
        self.through != 0
            && self.sealed != Sealed::default()
            && self.claim == disk.claim
            && disk.claim.is_open
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
        let (gaps, sealed) = (Gaps::of(&[(4, 5), (9, 9)]), Sealed { first: 3, last: 40 });
        let record = Super {
            set: 1,
            member: 2,
            members: 3,
            page: 4096,
            unit: 65_536,
            size: 1 << 30,
            seq: 17,
            claim,
            gaps,
            sealed,
            headless: [5, 9, 0, 0, 0, 1],
            through: 77,
            rings: Standing::GivenUp,
        };
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

    #[test]
    fn a_ring_of_copies_is_as_it_was_left_only_beside_its_disk_and_after_a_clean_end() {
        let generation = |number| Generation { number, tag: 1 };
        let claim = |number, is_open| Claim { generation: generation(number), is_open, ..Claim::default() };
        let disk = Super { claim: claim(4, true), through: 1, ..Super::default() };
        let ring = Super { sealed: Sealed { first: 1, last: 0 }, through: 99, ..disk };
        assert!(ring.is_as_left_with(&disk), "it may hold nothing");
        for other in [
            Super { sealed: Sealed::default(), ..ring },
            Super { through: 0, ..ring },
            Super { claim: claim(3, true), ..ring },
            Super { claim: claim(4, false), ..ring },
        ] {
            assert!(!other.is_as_left_with(&disk), "{other:?}");
        }
        let begun = Super { claim: claim(4, false), ..disk };
        assert!(!Super { claim: begun.claim, ..ring }.is_as_left_with(&begun));
    }

    #[test]
    fn gaps_beyond_those_that_there_is_room_for_are_taken_together() {
        let all: Vec<(u64, u64)> = (1..=30).map(|n| (n * 10, n * 10 + 1)).collect();
        let gaps = Gaps::of(&all);
        assert!(all.iter().all(|&gap| gaps.cover(gap)));
        assert!(
            !gaps.cover((9, 10)) && !gaps.cover((11, 12)) && !gaps.cover((10, 20)),
            "those that are told apart"
        );
        assert!(gaps.cover((200, 301)) && !gaps.cover((200, 302)));
        assert!(!Gaps::default().cover((0, 0)));
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
