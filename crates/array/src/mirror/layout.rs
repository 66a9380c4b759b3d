//! What a leg holds beside the data: two superblock slots, the region map, the lost list.
//!
//! Everything is found from the leg's own size. From the end: superblock slot 1 is the last whole 4 KiB block,
//! slot 0 lies 64 KiB before it, then downwards the lost list (one page, two slots) and the region map (two slots
//! for each page). Data begins at offset 0. All numbers are little-endian. The same layout serves `mirror` and
//! `hetero-mirror`. The superblock is that of all arrays ([`crate::member::record`]).

use crate::member;
use crate::member::record::{Reader, Writer};
use crate::member::slots::Record;
use nandu_base::{ByteLen, ByteOffset, Seal};

pub use crate::member::{Gen, State, Superblock};

/// Bytes in one record: a superblock slot or a page slot.
pub const PAGE: u64 = 4096;
/// Regions described by one page of the map: two bits each in what the header leaves.
pub const REGIONS_PER_PAGE: u32 = 16_256;
/// 64-bit words of bits in one page.
pub const WORDS_PER_PAGE: usize = 508;
const MAGIC: [u8; 8] = *b"NanduHM\x01";
const MAP_MAGIC: u32 = 0x504D_4D48;
const LOST_MAGIC: u32 = 0x4C4D_4D48;
const HEADER: usize = 32;
/// The checksum of map pages and lost lists.
const SEAL: Seal = Seal::inside(24);
/// Most extents in the lost list.
pub const LOST_EXTENTS: usize = 250;

/// Where things lie on one leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Size of the leg.
    pub leg: ByteLen,
    /// Bytes before the metadata.
    pub data: ByteLen,
    /// Pages in the region map.
    pub pages: u32,
    /// First byte of the region map.
    pub map: u64,
    /// First byte of the lost list.
    pub lost: u64,
    /// The superblock slots.
    pub slots: [u64; 2],
}

impl Layout {
    /// The layout of a leg of `leg` bytes with regions of `1 << region_shift` bytes; `None` when the leg is too small.
    pub fn of(leg: ByteLen, region_shift: u8) -> Option<Layout> {
        let end = leg.0 / PAGE * PAGE;
        let slots = member::record::slots(leg.0)?;
        let lost = slots[0].checked_sub(2 * PAGE)?;
        let regions = end.div_ceil(1 << region_shift);
        let pages = u32::try_from(regions.div_ceil(u64::from(REGIONS_PER_PAGE))).ok()?;
        let map = lost.checked_sub(u64::from(pages) * 2 * PAGE)?;
        (map >= PAGE).then_some(Layout { leg, data: ByteLen(map), pages, map, lost, slots })
    }

    /// A record of a leg that belongs to no set: where things lie on it.
    pub fn blank_record(&self, region_shift: u8) -> Superblock {
        let (leg_bytes, map, lost) = (self.leg.0, self.map, self.lost);
        Superblock { leg_bytes, region_shift, map, lost, ..Superblock::BLANK }
    }

    /// The smallest leg that holds one block of data.
    pub fn smallest() -> ByteLen {
        ByteLen(PAGE * 5 + member::record::SLOTS)
    }

    /// A slot of a map page.
    pub fn page(&self, page: u32, slot: u8) -> ByteOffset {
        ByteOffset(self.map + (u64::from(page) * 2 + u64::from(slot)) * PAGE)
    }

    /// A slot of the lost list.
    pub fn lost_slot(&self, slot: u8) -> ByteOffset {
        ByteOffset(self.lost + u64::from(slot) * PAGE)
    }
}

/// Writes a superblock into a block of zeros.
pub fn encode_superblock(sb: &Superblock, out: &mut [u8]) {
    sb.encode(MAGIC, |_| (), out);
}

/// Reads a superblock of this version or the one before, also one of which a single bit has flipped, and says whether it had; `None` when it
/// is not one.
pub fn read_superblock(bytes: &[u8]) -> Option<(Superblock, bool)> {
    member::record::SEAL.read(bytes, &MAGIC, decode_superblock)
}

impl Record for Superblock {
    fn number(&self) -> u64 {
        self.seq
    }

    fn read(bytes: &[u8]) -> Option<(Superblock, bool)> {
        read_superblock(bytes)
    }
}

fn decode_superblock(bytes: &[u8]) -> Option<Superblock> {
    let sb = match Superblock::decode(MAGIC, bytes) {
        Some((sb, _)) => sb,
        None => decode_version_1(bytes)?,
    };
    let legs = 2..=super::MAX_LEGS as u8;
    (legs.contains(&sb.members) && (16..=26).contains(&sb.region_shift)).then_some(sb)
}

/// A superblock of version 1: a generation lasted until the next takeover, and nothing was said of an opening.
fn decode_version_1(bytes: &[u8]) -> Option<Superblock> {
    let mut r = Reader::sealed(bytes, MAGIC)?;
    if u16::from_le_bytes(r.take()) != 1 {
        return None;
    }
    let leg = r.u8();
    let set = [r.u64(), r.u64()];
    let seq = r.u64();
    let (generation, base) = (r.generation(), r.generation());
    let history = std::array::from_fn(|_| r.generation());
    let (solo, leader, strict, clean) = (r.u8() != 0, r.u8(), r.u8() != 0, r.u8() != 0);
    let leg_bytes = r.u64();
    let data_offset = r.u64();
    let (region_shift, block_shift) = (r.u8(), r.u8());
    let (map, lost, together) = (r.u64(), r.u64(), r.u64());
    let state = if solo { State::Solo } else { State::Pair };
    let in_force = if solo { 1 << (leg & 1) } else { 0b11 };
    let sane = leg < 2 && leader < 2 && data_offset == 0 && block_shift == 9;
    sane.then_some(Superblock {
        leg,
        set,
        seq,
        generation,
        base,
        history,
        state,
        leader,
        strict,
        clean,
        leg_bytes,
        served: 0,
        members: 2,
        in_force,
        region_shift,
        map,
        lost,
        together,
    })
}

/// Writes a map page: header and two bits for each region.
pub fn encode_page(page: u32, seq: u64, set_tag: u64, words: &[u64], out: &mut [u8]) {
    header(MAP_MAGIC, page, seq, set_tag, out);
    for (chunk, word) in out[HEADER..].chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    SEAL.put(out);
}

/// Reads a map page, also one of which a single bit has flipped: its seq and its words, and whether a bit had flipped.
pub fn read_page(page: u32, set_tag: u64, bytes: &[u8]) -> Option<((u64, Vec<u64>), bool)> {
    SEAL.read(bytes, &MAP_MAGIC.to_le_bytes(), |bytes| {
        let seq = opened(MAP_MAGIC, page, set_tag, bytes)?;
        let word = |c: &[u8]| u64::from_le_bytes(c.try_into().expect("eight bytes"));
        Some((seq, bytes[HEADER..].chunks_exact(8).map(word).collect()))
    })
}

/// Writes a lost list: extents as first byte and one past the last, at most [`LOST_EXTENTS`].
pub fn encode_lost(seq: u64, set_tag: u64, extents: &[(u64, u64)], out: &mut [u8]) {
    header(LOST_MAGIC, 0, seq, set_tag, out);
    for (chunk, (start, end)) in out[HEADER..].chunks_exact_mut(16).zip(extents) {
        chunk[..8].copy_from_slice(&start.to_le_bytes());
        chunk[8..].copy_from_slice(&(end - start).to_le_bytes());
    }
    SEAL.put(out);
}

/// A lost list: its seq, and the extents as first byte and one past the last.
pub type LostList = (u64, Vec<(u64, u64)>);

/// Reads a lost list slot, also one of which a single bit has flipped, and says whether it had.
pub fn read_lost(set_tag: u64, bytes: &[u8]) -> Option<(LostList, bool)> {
    SEAL.read(bytes, &LOST_MAGIC.to_le_bytes(), |bytes| decode_lost(set_tag, bytes))
}

fn decode_lost(set_tag: u64, bytes: &[u8]) -> Option<LostList> {
    let seq = opened(LOST_MAGIC, 0, set_tag, bytes)?;
    let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    let extents = bytes[HEADER..].chunks_exact(16).map(|c| (number(&c[..8]), number(&c[8..])));
    let some = extents.take(LOST_EXTENTS).filter(|&(_, len)| len > 0);
    Some((seq, some.map(|(start, len)| (start, start.saturating_add(len))).collect()))
}

fn header(magic: u32, page: u32, seq: u64, set_tag: u64, out: &mut [u8]) {
    let mut w = Writer::new(out);
    w.put(&magic.to_le_bytes());
    w.put(&page.to_le_bytes());
    w.u64(seq);
    w.u64(set_tag);
}

fn opened(magic: u32, page: u32, set_tag: u64, bytes: &[u8]) -> Option<u64> {
    let mut r = Reader::new(bytes);
    let same = r.take() == magic.to_le_bytes() && r.take() == page.to_le_bytes();
    let (seq, tag) = (r.u64(), r.u64());
    (same && tag == set_tag && SEAL.holds(bytes)).then_some(seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A superblock as the version before wrote it.
    fn version_1(leg: u8, solo: bool) -> Vec<u8> {
        let mut block = vec![0; PAGE as usize];
        let mut w = Writer::new(&mut block);
        w.put(&MAGIC);
        w.put(&[1, 0, leg]);
        // set, seq, generation, base
        [3, 4, 9, 5, 77, 4, 66].into_iter().for_each(|n| w.u64(n));
        (0..16).for_each(|n| w.u64(n));
        w.put(&[u8::from(solo), leg, 1, 1]);
        w.u64(1 << 30);
        w.u64(0);
        w.put(&[20, 9]);
        [12, 13, 14].into_iter().for_each(|n| w.u64(n));
        member::record::SEAL.put(&mut block);
        block
    }

    #[test]
    fn a_superblock_of_the_version_before_is_read() {
        for (leg, solo, in_force) in [(0, false, 0b11), (1, true, 0b10)] {
            let sb = decode_superblock(&version_1(leg, solo)).expect("a record");
            assert_eq!((sb.leg, sb.is_solo(), sb.members, sb.in_force), (leg, solo, 2, in_force));
            assert_eq!((sb.generation, sb.base), (Gen { epoch: 5, tag: 77 }, Gen { epoch: 4, tag: 66 }));
            assert_eq!((sb.history[1], sb.together), (Gen { epoch: 2, tag: 3 }, 14));
            let mut again = vec![0; PAGE as usize];
            encode_superblock(&sb, &mut again);
            assert_eq!(decode_superblock(&again), Some(sb), "written in this version it says the same");
            assert_ne!(again, version_1(leg, solo));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(mut bytes in proptest::collection::vec(0u8.., 512..513)) {
            bytes.resize(PAGE as usize, 7);
            for version in [b"NanduHM\x01\x01\x00", b"NanduHM\x01\x02\x00"] {
                bytes[..10].copy_from_slice(version);
                member::record::SEAL.put(&mut bytes);
                let _ = decode_superblock(&bytes);
            }
            let _ = read_page(0, 0, &bytes);
            let _ = read_lost(0, &bytes);
        }
    }

    #[test]
    fn a_map_page_reads_back_and_knows_its_place() {
        let mut page = vec![0; PAGE as usize];
        let words: Vec<u64> = (0..WORDS_PER_PAGE as u64).map(|w| w * 0x1234_5678_9ABC).collect();
        encode_page(3, 8, 42, &words, &mut page);
        assert_eq!(read_page(3, 42, &page), Some(((8, words.clone()), false)));
        assert_eq!(read_page(2, 42, &page), None);
        assert_eq!(read_page(3, 43, &page), None);
        page[4000] ^= 1;
        assert_eq!(read_page(3, 42, &page), Some(((8, words), true)));
        page[4001] ^= 1;
        assert_eq!(read_page(3, 42, &page), None);
    }

    #[test]
    fn records_lie_behind_the_data_and_apart() {
        for size in [Layout::smallest(), ByteLen::mib(3), ByteLen(1_000_204_886_016)] {
            let l = Layout::of(size, 20).expect("large enough");
            assert!(l.data.0 <= l.map && l.map < l.lost && l.lost + 2 * PAGE <= l.slots[0]);
            assert_eq!(l.slots[1] - l.slots[0], 64 << 10);
            assert!(l.slots[1] + PAGE <= size.0);
            assert!((u64::from(l.pages) * u64::from(REGIONS_PER_PAGE)) << 20 >= l.data.0);
        }
        assert_eq!(Layout::of(ByteLen(Layout::smallest().0 - 1), 20), None);
        assert_eq!(Layout::of(ByteLen(1_000_204_886_016), 20).map(|l| l.pages), Some(59));
    }
}
