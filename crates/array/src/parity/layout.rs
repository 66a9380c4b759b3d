//! Where everything lies: the rows of data and parity, and the records at the end of each leg.
//!
//! **Rows.** The address space is cut into chunks. Row `r` is chunk `r` of every leg: one of them holds the xor of the
//! others. A byte of the parity depends only on the bytes at the same offset of the other legs, so an extent of *leg
//! offsets* is all that a lock, a rebuild or a journal entry needs to name.
//!
//! **Rotations** (level 5; the names are those of Linux md). *Left*: the parity of row 0 is on the last leg and moves
//! down; *right*: it starts on the first and moves up. *Symmetric*: data begins on the leg behind the parity and wraps,
//! so that consecutive chunks always lie on consecutive legs; *asymmetric*: data fills the other legs from the first.
//!
//! **Records.** From the end of a leg: superblock slot 1 is the last whole 4 KiB block, slot 0 lies 64 KiB before
//! it, the journal lies below, and data begins at offset 0. All numbers are little-endian. What the superblock
//! says of the set is common to all arrays ([`crate::member::record`]).

use crate::member;
use crate::member::record::{Reader, SEAL, Writer};
use nandu_base::{ByteLen, ByteOffset, options};

/// Bytes in one record.
pub const PAGE: u64 = 4096;
const MAGIC: [u8; 8] = *b"NanduPA\x02";
const MAGIC_1: [u8; 8] = *b"NanduPA\x01";
/// Bound on epochs: they are the upper part of the numbers of journal entries.
pub const EPOCHS: u64 = 1 << 23;
/// So many before the bound are kept for starts: no leg joins any more.
pub const KEPT_EPOCHS: u64 = 4096;
/// A start takes fewer.
pub const START_EPOCHS: u64 = 8;
const ENTRY_MAGIC: [u8; 8] = *b"NanduPJ\x01";
/// Most legs that a superblock describes.
pub const MOST: usize = 16;
/// The place of a leg that is out.
pub const OUT: u64 = u64::MAX;

/// How parity moves from row to row.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Rotation {
    /// Parity moves down; data begins behind it.
    #[default]
    LeftSymmetric,
    /// Parity moves down; data begins on the first leg.
    LeftAsymmetric,
    /// Parity moves up; data begins behind it.
    RightSymmetric,
    /// Parity moves up; data begins on the first leg.
    RightAsymmetric,
}

/// Where each byte lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of legs.
    pub legs: u8,
    /// Whether the last leg holds all parity.
    pub fixed: bool,
    /// How parity moves otherwise.
    pub rotation: Rotation,
    /// Chunk size as a power of two.
    pub chunk_bits: u32,
    /// Bytes of each leg that hold data or parity: whole chunks.
    pub data: u64,
}

impl Geometry {
    /// Chunks of data in a row.
    #[inline]
    pub fn data_legs(&self) -> u8 {
        self.legs - 1
    }

    /// Bytes in a chunk.
    #[inline]
    pub fn chunk(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// The row of a leg offset.
    #[inline]
    pub fn row(&self, below: u64) -> u64 {
        below >> self.chunk_bits
    }

    /// The leg that holds the parity of a row.
    #[inline]
    pub fn parity(&self, row: u64) -> usize {
        let turn = (row % u64::from(self.legs)) as usize;
        match self.rotation {
            _ if self.fixed => usize::from(self.legs) - 1,
            Rotation::LeftSymmetric | Rotation::LeftAsymmetric => usize::from(self.legs) - 1 - turn,
            Rotation::RightSymmetric | Rotation::RightAsymmetric => turn,
        }
    }

    /// The leg that holds chunk `index` of a row.
    #[inline]
    pub fn leg(&self, row: u64, index: u8) -> usize {
        let (parity, index, legs) = (self.parity(row), usize::from(index), usize::from(self.legs));
        match self.rotation {
            Rotation::LeftSymmetric | Rotation::RightSymmetric if !self.fixed => (parity + 1 + index) % legs,
            _ => index + usize::from(index >= parity),
        }
    }

    /// The chunk of a row that a leg holds; `None` for its parity.
    pub fn index(&self, row: u64, leg: usize) -> Option<u8> {
        (0..self.data_legs()).find(|&i| self.leg(row, i) == leg)
    }

    /// Row, chunk in the row and leg offset of an address.
    #[inline]
    pub fn place(&self, at: u64) -> (u64, u8, u64) {
        let number = at >> self.chunk_bits;
        let (row, index) = (number / u64::from(self.data_legs()), number % u64::from(self.data_legs()));
        (row, index as u8, row << self.chunk_bits | at & (self.chunk() - 1))
    }

    /// The address of leg offset `below` in chunk `index` of its row.
    #[inline]
    pub fn above(&self, below: u64, index: u8) -> u64 {
        let chunk = self.row(below) * u64::from(self.data_legs()) + u64::from(index);
        chunk << self.chunk_bits | below & (self.chunk() - 1)
    }
}

/// Where things lie on one leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LegLayout {
    /// Size of the leg.
    pub leg: ByteLen,
    /// Bytes that can hold data: whole chunks.
    pub data: u64,
    /// First byte of the journal.
    pub journal: u64,
    /// Bytes in one slot of the journal: a header and one piece.
    pub slot: u64,
    /// The superblock slots.
    pub superblocks: [u64; 2],
}

impl LegLayout {
    /// The layout of a leg of `leg` bytes with `slots` journal entries of `piece` bytes; `None` when it is too small.
    pub fn of(leg: ByteLen, slots: u64, piece: u64, chunk: u64) -> Option<LegLayout> {
        let superblocks = member::record::slots(leg.0)?;
        let slot = PAGE + piece;
        let journal = superblocks[0].checked_sub(slots * slot)?;
        let data = journal / chunk * chunk;
        (data > 0).then_some(LegLayout { leg, data, journal, slot, superblocks })
    }

    /// The smallest leg that holds one chunk.
    pub fn smallest(slots: u64, piece: u64, chunk: u64) -> ByteLen {
        ByteLen(chunk + slots * (PAGE + piece) + member::record::SLOTS)
    }

    /// Where the records end.
    pub fn end(&self) -> u64 {
        self.superblocks[1] + PAGE
    }

    /// Where a slot of the journal begins.
    pub fn slot(&self, slot: u32) -> ByteOffset {
        ByteOffset(self.journal + u64::from(slot) * self.slot)
    }
}

/// What every current leg says of the array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Superblock {
    /// What members of all kinds of sets say. Of a change while the array runs the base is the generation before
    /// it: a leg that a cut kept from it is one behind.
    pub head: member::Superblock,
    /// Geometry, to be recognised: legs, level, rotation, chunk size as a power of two, whether there is a journal.
    pub shape: [u8; 5],
    /// Journal entries below this number are done with.
    pub floor: u64,
    /// Bytes of data on each leg.
    pub data: u64,
    /// Number and checksum of the entries on the list of lost sectors behind this record; 0 for none.
    pub lost: u64,
    /// How far each leg is current and durable: [`OUT`], or a leg offset; `data` for a full member.
    pub upto: [u64; MOST],
    /// The epoch in which each leg was taken in: it has no parts of earlier journal entries.
    pub since: [u64; MOST],
}

impl Superblock {
    /// A record of an array that does not exist yet.
    pub const BLANK: Superblock = Superblock {
        head: member::Superblock::BLANK,
        shape: [0; 5],
        floor: 0,
        data: 0,
        lost: 0,
        upto: [OUT; MOST],
        since: [0; MOST],
    };

    /// Writes the record into a block of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        let rest = |w: &mut Writer<'_>| {
            w.put(&self.shape);
            [self.floor, self.data, self.lost].into_iter().for_each(|value| w.u64(value));
            self.upto.iter().for_each(|&upto| w.u64(upto));
            self.since.iter().for_each(|&epoch| w.put(&(epoch as u32).to_le_bytes()));
        };
        self.head.encode(MAGIC, rest, out);
    }

    /// Reads a record of this version or the one before, also one of which a single bit has flipped, and says whether it had; `None` when it
    /// is not one.
    pub fn read(bytes: &[u8]) -> Option<(Superblock, bool)> {
        SEAL.read(bytes, &MAGIC, Superblock::decode)
    }

    fn decode(bytes: &[u8]) -> Option<Superblock> {
        let Some((head, mut r)) = member::Superblock::decode(MAGIC, bytes) else {
            return Superblock::decode_version_1(bytes);
        };
        let shape = r.take();
        let (floor, data, lost) = (r.u64(), r.u64(), r.u64());
        let upto = std::array::from_fn(|_| r.u64());
        let since = std::array::from_fn(|_| u64::from(u32::from_le_bytes(r.take())));
        let sane = usize::from(head.members) <= MOST && head.generation.epoch < EPOCHS;
        sane.then_some(Superblock { head, shape, floor, data, lost, upto, since })
    }

    /// A superblock of version 1: an opening had one phase, so a leg that was one opening behind counted as
    /// current.
    fn decode_version_1(bytes: &[u8]) -> Option<Superblock> {
        let mut r = Reader::sealed(bytes, MAGIC_1)?;
        let [leg, clean] = r.take();
        let shape: [u8; 5] = r.take();
        let set = [r.u64(), r.u64()];
        let seq = r.u64();
        let (generation, base) = (r.generation(), r.generation());
        let (floor, data) = (r.u64(), r.u64());
        let upto: [u64; MOST] = std::array::from_fn(|_| r.u64());
        let since = std::array::from_fn(|_| r.u64());
        let lost = r.u64();
        let in_force = (0..MOST).filter(|&l| upto[l] != OUT).fold(0, |bits, l| bits | 1 << l);
        let (clean, members) = (clean != 0, shape[0]);
        let mut head = member::Superblock {
            leg,
            set,
            seq,
            generation,
            base,
            clean,
            members,
            in_force,
            ..member::Superblock::BLANK
        };
        head.remember(base);
        let sane = leg < members && usize::from(members) <= MOST && generation.epoch < EPOCHS;
        sane.then_some(Superblock { head, shape, floor, data, lost, upto, since })
    }
}

/// The header of a journal entry on one leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The set it belongs to.
    pub set: [u64; 2],
    /// Its number; the epoch of its session is the upper part.
    pub seq: u64,
    /// The leg offsets that it is about.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The legs that have a part in it, one bit each.
    pub legs: u16,
    /// Whether this leg's part is zeros, which are not stored.
    pub zeros: bool,
    /// Checksum of this leg's part.
    pub sum: u32,
}

impl Entry {
    /// Bytes that it is about, on each of its legs.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.end - self.start)
    }

    /// Writes the header into a sector of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        let mut w = Writer::new(out);
        w.put(&ENTRY_MAGIC);
        for value in [self.set[0], self.set[1], self.seq, self.start, self.end] {
            w.u64(value);
        }
        w.put(&self.legs.to_le_bytes());
        w.put(&[u8::from(self.zeros), 0]);
        w.put(&self.sum.to_le_bytes());
        SEAL.put(out);
    }

    /// Reads the header, also one of which a single bit has flipped, and says whether it had; `None` when it is not one.
    pub fn read(bytes: &[u8]) -> Option<(Entry, bool)> {
        SEAL.read(bytes, &ENTRY_MAGIC, Entry::decode)
    }

    fn decode(bytes: &[u8]) -> Option<Entry> {
        let mut r = Reader::sealed(bytes, ENTRY_MAGIC)?;
        let set = [r.u64(), r.u64()];
        let (seq, start, end) = (r.u64(), r.u64(), r.u64());
        let legs = u16::from_le_bytes(r.take());
        let [zeros, _] = r.take();
        let sum = u32::from_le_bytes(r.take());
        (start < end).then_some(Entry { set, seq, start, end, legs, zeros: zeros != 0, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Gen;
    use crate::member::record::RECORD;
    use std::collections::BTreeSet;

    const ROTATIONS: [Rotation; 4] = [
        Rotation::LeftSymmetric,
        Rotation::LeftAsymmetric,
        Rotation::RightSymmetric,
        Rotation::RightAsymmetric,
    ];

    #[test]
    fn every_byte_has_one_place_and_every_row_one_parity() {
        for legs in 3..7 {
            for (rotation, fixed) in ROTATIONS.map(|r| (r, false)).into_iter().chain([(ROTATIONS[0], true)]) {
                let g = Geometry { legs, fixed, rotation, chunk_bits: 2, data: 400 };
                let mut seen: BTreeSet<(usize, u64)> =
                    (0..100).flat_map(|row| (0..4).map(move |b| (g.parity(row), row * 4 + b))).collect();
                for at in 0..400 * u64::from(legs - 1) {
                    let (row, index, below) = g.place(at);
                    assert!(seen.insert((g.leg(row, index), below)), "{rotation:?} of {legs}: byte {at}");
                    assert_eq!(g.above(below, index), at);
                    assert_eq!(g.index(row, g.leg(row, index)), Some(index));
                }
                assert_eq!(seen.len() as u64, 400 * u64::from(legs));
            }
        }
    }

    #[test]
    fn rotations_are_those_of_md() {
        let rows = |rotation| {
            let g = Geometry { legs: 3, fixed: false, rotation, chunk_bits: 2, data: 400 };
            [0, 1, 2].map(|row| (g.parity(row), g.leg(row, 0), g.leg(row, 1)))
        };
        assert_eq!(rows(Rotation::LeftSymmetric), [(2, 0, 1), (1, 2, 0), (0, 1, 2)]);
        assert_eq!(rows(Rotation::LeftAsymmetric), [(2, 0, 1), (1, 0, 2), (0, 1, 2)]);
        assert_eq!(rows(Rotation::RightSymmetric), [(0, 1, 2), (1, 2, 0), (2, 0, 1)]);
        assert_eq!(rows(Rotation::RightAsymmetric), [(0, 1, 2), (1, 0, 2), (2, 0, 1)]);
    }

    fn sample() -> Superblock {
        let generation = Gen { epoch: 4, tag: 99 };
        let head = member::Superblock {
            leg: 2,
            set: [7, 8],
            seq: 11,
            generation,
            base: Gen { epoch: 3, tag: 98 },
            clean: true,
            members: 3,
            in_force: 0b111,
            ..member::Superblock::BLANK
        };
        Superblock {
            head,
            shape: [3, 5, 0, 16, 1],
            floor: 5 << 40,
            data: 1 << 20,
            lost: 9 << 32 | 2,
            upto: std::array::from_fn(|i| if i < 3 { i as u64 } else { OUT }),
            since: std::array::from_fn(|i| 30 + i as u64),
        }
    }

    #[test]
    fn a_superblock_of_the_version_before_is_read() {
        let sb = sample();
        let mut page = vec![0; PAGE as usize];
        let mut w = Writer::new(&mut page);
        w.put(&MAGIC_1);
        w.put(&[2, 1, 3, 5, 0, 16, 1]);
        [7, 8, 11, 4, 99, 3, 98, 5 << 40, 1 << 20].into_iter().for_each(|n| w.u64(n));
        sb.upto.iter().chain(&sb.since).for_each(|&n| w.u64(n));
        w.u64(sb.lost);
        SEAL.put(&mut page);
        let mut same = sb;
        same.head.history[0] = sb.head.base;
        assert_eq!(Superblock::decode(&page), Some(same));
    }

    #[test]
    fn records_read_back_and_any_flipped_byte_is_refused() {
        let sb = sample();
        let entry = Entry { set: [7, 8], seq: 12, start: 4096, end: 8192, legs: 5, zeros: true, sum: 77 };
        let (mut a, mut b) = (vec![0; RECORD], vec![0; RECORD]);
        sb.encode(&mut a);
        entry.encode(&mut b);
        assert_eq!((Superblock::decode(&a), Entry::decode(&b)), (Some(sb), Some(entry)));
        for i in 0..RECORD {
            a[i] ^= 0x10;
            b[i] ^= 0x10;
            assert_eq!((Superblock::decode(&a), Entry::decode(&b)), (None, None), "byte {i}");
            a[i] ^= 0x10;
            b[i] ^= 0x10;
        }
    }

    #[test]
    fn records_lie_behind_the_data_and_apart() {
        for size in [LegLayout::smallest(8, 4096, 4096), ByteLen::mib(3), ByteLen(1_000_204_886_016)] {
            let l = LegLayout::of(size, 8, 4096, 4096).expect("large enough");
            assert!(l.data > 0 && l.data <= l.journal && l.slot(8).0 == l.superblocks[0]);
            assert!(l.superblocks[1] + PAGE <= size.0);
        }
        let short = ByteLen(LegLayout::smallest(8, 4096, 4096).0 - 1);
        assert_eq!(LegLayout::of(short, 8, 4096, 4096), None);
    }
}
