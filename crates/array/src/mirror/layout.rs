//! What a leg holds beside the data: two superblock slots, the region map, the lost list.
//!
//! Everything is found from the leg's own size. From the end: superblock slot 1 is the last whole 4 KiB block, slot 0
//! lies 64 KiB before it, then downwards the lost list (one page, two slots) and the region map (two slots for each page).
//! Data begins at offset 0. All numbers are little-endian. The same layout serves `mirror` and `hetero-mirror`.

use nandu_base::{ByteLen, ByteOffset};

/// Bytes in one record: a superblock slot or a page slot.
pub const PAGE: u64 = 4096;
/// Regions described by one page of the map: two bits each in what the header leaves.
pub const REGIONS_PER_PAGE: u32 = 16_256;
/// 64-bit words of bits in one page.
pub const WORDS_PER_PAGE: usize = 508;
/// From superblock slot 0 to slot 1.
const SLOT_DISTANCE: u64 = 64 << 10;
const MAGIC: [u8; 8] = *b"NanduHM\x01";
const MAP_MAGIC: u32 = 0x504D_4D48;
const LOST_MAGIC: u32 = 0x4C4D_4D48;
const VERSION: u16 = 1;
const HEADER: usize = 32;
/// Most extents in the lost list.
pub const LOST_EXTENTS: usize = 250;
/// Where the superblock's checksum stands: it covers everything before.
const CHECKSUM_AT: usize = 508;

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
        let slot1 = end.checked_sub(PAGE)?;
        let slot0 = slot1.checked_sub(SLOT_DISTANCE)?;
        let lost = slot0.checked_sub(2 * PAGE)?;
        let regions = end.div_ceil(1 << region_shift);
        let pages = u32::try_from(regions.div_ceil(u64::from(REGIONS_PER_PAGE))).ok()?;
        let map = lost.checked_sub(u64::from(pages) * 2 * PAGE)?;
        (map >= PAGE).then_some(Layout { leg, data: ByteLen(map), pages, map, lost, slots: [slot0, slot1] })
    }

    /// The smallest leg that holds one block of data.
    pub fn smallest() -> ByteLen {
        ByteLen(PAGE * 6 + SLOT_DISTANCE)
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

/// Names one stretch of time in which the set of legs did not change.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Gen {
    /// Grows by one with every takeover.
    pub epoch: u64,
    /// Random, so that two takeovers of one epoch differ.
    pub tag: u64,
}

impl Gen {
    /// None.
    pub const NONE: Gen = Gen { epoch: 0, tag: 0 };
}

/// One leg's superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Which of the two legs this is.
    pub leg: u8,
    /// The set both legs belong to.
    pub set: [u64; 2],
    /// Number of this update.
    pub seq: u64,
    /// The generation in force.
    pub gen: Gen,
    /// The generation in force when Solo began; none for a pair.
    pub base: Gen,
    /// Earlier generations, newest first.
    pub history: [Gen; 8],
    /// Whether this leg goes on without the other.
    pub solo: bool,
    /// The leg whose content decides.
    pub leader: u8,
    /// Whether a flush covers both legs always.
    pub strict: bool,
    /// Whether the last session ended in order. A hint.
    pub clean: bool,
    /// Size of the leg.
    pub leg_bytes: u64,
    /// Region size as a power of two.
    pub region_shift: u8,
    /// Where the region map begins.
    pub map: u64,
    /// Where the lost list begins.
    pub lost: u64,
    /// When both were members last, by the driver's time; for people.
    pub together: u64,
}

impl Superblock {
    /// Writes the record into a block of zeros.
    pub fn encode(&self, out: &mut [u8]) {
        let mut w = Writer { out, at: 0 };
        w.put(&MAGIC);
        w.put(&VERSION.to_le_bytes());
        w.put(&[self.leg]);
        w.u64(self.set[0]);
        w.u64(self.set[1]);
        w.u64(self.seq);
        w.gen(self.gen);
        w.gen(self.base);
        for gen in self.history {
            w.gen(gen);
        }
        w.put(&[u8::from(self.solo), self.leader, u8::from(self.strict), u8::from(self.clean)]);
        w.u64(self.leg_bytes);
        w.u64(0); // data offset
        w.put(&[self.region_shift, 9]); // blocks are sectors of 512 B
        w.u64(self.map);
        w.u64(self.lost);
        w.u64(self.together);
        let sum = crc32c::crc32c(&out[..CHECKSUM_AT]);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads the record; `None` when it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Superblock> {
        let mut r = Reader { bytes, at: 0 };
        let sum = u32::from_le_bytes(bytes[CHECKSUM_AT..CHECKSUM_AT + 4].try_into().ok()?);
        if r.take(8) != MAGIC || crc32c::crc32c(&bytes[..CHECKSUM_AT]) != sum {
            return None;
        }
        if r.take(2) != VERSION.to_le_bytes() {
            return None;
        }
        let leg = r.u8();
        let set = [r.u64(), r.u64()];
        let seq = r.u64();
        let (gen, base) = (r.gen(), r.gen());
        let history = std::array::from_fn(|_| r.gen());
        let (solo, leader, strict, clean) = (r.u8() != 0, r.u8(), r.u8() != 0, r.u8() != 0);
        let leg_bytes = r.u64();
        let data_offset = r.u64();
        let (region_shift, block_shift) = (r.u8(), r.u8());
        let (map, lost, together) = (r.u64(), r.u64(), r.u64());
        let sane = leg < 2
            && leader < 2
            && data_offset == 0
            && block_shift == 9
            && (16..=26).contains(&region_shift);
        sane.then_some(Superblock {
            leg,
            set,
            seq,
            gen,
            base,
            history,
            solo,
            leader,
            strict,
            clean,
            leg_bytes,
            region_shift,
            map,
            lost,
            together,
        })
    }

    /// Puts the generation in force into the history.
    pub fn remember_gen(&mut self) {
        self.history.copy_within(0..7, 1);
        self.history[0] = self.gen;
    }

    /// The other leg holds `gen`, durably: of the history it is the entry to keep. Without this a leg that is lost again
    /// and again while it rejoins would be pushed out by the generations that it never got.
    pub fn keep_gen(&mut self, gen: Gen) {
        if let Some(at) = self.history.iter().position(|&g| g == gen) {
            self.history[..=at].rotate_right(1);
        }
    }
}

/// Writes a map page: header and two bits for each region.
pub fn encode_page(page: u32, seq: u64, set_tag: u64, words: &[u64], out: &mut [u8]) {
    header(MAP_MAGIC, page, seq, set_tag, out);
    for (chunk, word) in out[HEADER..].chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    seal(out);
}

/// Reads a map page into `words` when it is valid; its seq.
pub fn decode_page(page: u32, set_tag: u64, bytes: &[u8]) -> Option<u64> {
    opened(MAP_MAGIC, page, set_tag, bytes)
}

/// The words of a valid map page.
pub fn page_words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes[HEADER..].chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")))
}

/// Writes a lost list: extents as first byte and one past the last, at most [`LOST_EXTENTS`].
pub fn encode_lost(seq: u64, set_tag: u64, extents: &[(u64, u64)], out: &mut [u8]) {
    header(LOST_MAGIC, 0, seq, set_tag, out);
    for (chunk, (start, end)) in out[HEADER..].chunks_exact_mut(16).zip(extents) {
        chunk[..8].copy_from_slice(&start.to_le_bytes());
        chunk[8..].copy_from_slice(&(end - start).to_le_bytes());
    }
    seal(out);
}

/// Reads a lost list slot: its seq, and the extents.
pub fn decode_lost(set_tag: u64, bytes: &[u8]) -> Option<(u64, Vec<(u64, u64)>)> {
    let seq = opened(LOST_MAGIC, 0, set_tag, bytes)?;
    let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    let extents = bytes[HEADER..].chunks_exact(16).map(|c| (number(&c[..8]), number(&c[8..])));
    let some = extents.take(LOST_EXTENTS).filter(|&(_, len)| len > 0);
    Some((seq, some.map(|(start, len)| (start, start.saturating_add(len))).collect()))
}

fn header(magic: u32, page: u32, seq: u64, set_tag: u64, out: &mut [u8]) {
    let mut w = Writer { out, at: 0 };
    w.put(&magic.to_le_bytes());
    w.put(&page.to_le_bytes());
    w.u64(seq);
    w.u64(set_tag);
}

/// The checksum stands at byte 24 and counts itself as zero.
fn seal(out: &mut [u8]) {
    out[24..28].fill(0);
    let sum = crc32c::crc32c(out);
    out[24..28].copy_from_slice(&sum.to_le_bytes());
}

fn opened(magic: u32, page: u32, set_tag: u64, bytes: &[u8]) -> Option<u64> {
    let mut r = Reader { bytes, at: 0 };
    let same = r.take(4) == magic.to_le_bytes() && r.take(4) == page.to_le_bytes();
    let (seq, tag) = (r.u64(), r.u64());
    let stored = u32::from_le_bytes(r.take(4).try_into().ok()?);
    let sum =
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&bytes[..24]), &[0; 4]), &bytes[28..]);
    (same && tag == set_tag && stored == sum).then_some(seq)
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    fn u64(&mut self, n: u64) {
        self.put(&n.to_le_bytes());
    }
    fn gen(&mut self, gen: Gen) {
        self.u64(gen.epoch);
        self.u64(gen.tag);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        self.at += n;
        &self.bytes[self.at - n..self.at]
    }
    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight bytes"))
    }
    fn gen(&mut self) -> Gen {
        Gen { epoch: self.u64(), tag: self.u64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            leg: 1,
            set: [3, 4],
            seq: 9,
            gen: Gen { epoch: 5, tag: 77 },
            base: Gen { epoch: 4, tag: 66 },
            history: std::array::from_fn(|i| Gen { epoch: i as u64, tag: 1 }),
            solo: true,
            leader: 1,
            strict: true,
            clean: false,
            leg_bytes: 1 << 30,
            region_shift: 20,
            map: 12,
            lost: 13,
            together: 14,
        }
    }

    #[test]
    fn a_superblock_reads_back_and_any_flipped_byte_is_refused() {
        let mut block = vec![0; PAGE as usize];
        sample().encode(&mut block);
        assert_eq!(Superblock::decode(&block), Some(sample()));
        for i in 0..CHECKSUM_AT + 4 {
            block[i] ^= 0x40;
            assert_eq!(Superblock::decode(&block), None, "byte {i}");
            block[i] ^= 0x40;
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(mut bytes in proptest::collection::vec(0u8.., 512..513)) {
            bytes.resize(PAGE as usize, 7);
            bytes[..10].copy_from_slice(b"NanduHM\x01\x01\x00");
            let sum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
            bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
            let _ = Superblock::decode(&bytes);
            let _ = decode_page(0, 0, &bytes);
            let _ = decode_lost(0, &bytes);
        }
    }

    #[test]
    fn a_map_page_reads_back_and_knows_its_place() {
        let mut page = vec![0; PAGE as usize];
        let words: Vec<u64> = (0..WORDS_PER_PAGE as u64).map(|w| w * 0x1234_5678_9ABC).collect();
        encode_page(3, 8, 42, &words, &mut page);
        assert_eq!(decode_page(3, 42, &page), Some(8));
        assert!(page_words(&page).eq(words.iter().copied()));
        assert_eq!(decode_page(2, 42, &page), None);
        assert_eq!(decode_page(3, 43, &page), None);
        page[4000] ^= 1;
        assert_eq!(decode_page(3, 42, &page), None);
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
