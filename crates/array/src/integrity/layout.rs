//! Where `integrity` keeps its records, and what they look like.
//!
//! ```text
//! 0                    data of the host, unchanged
//! tags                 one page for each region: 4 bytes for each of its blocks
//! marks                one bit for each region, in sectors with a checksum of their own
//! superblock           two copies
//! end of the device
//! ```
//!
//! All numbers are little-endian. A *region* is what one page of tags covers. A tag is [`UNCHECKED`], [`DAMAGED`], or the
//! CRC-32C of its block, moved up by two where it would be one of these. A sector of marks that is all zeros says that no region is
//! marked: so a fresh area needs only to be zeroed.

use nandu_base::{BuildError, ByteLen, ByteOffset, Payload, PayloadPool, SECTOR, Sector, Stamp};

/// A block of which no checksum is known: what it holds is taken as it is.
pub(super) const UNCHECKED: u32 = 0;
/// A block whose checksum could not be read: it is unreadable until it is written again.
pub(super) const DAMAGED: u32 = 1;

/// Bits in one sector of marks.
pub(super) const MARKS: u64 = (SECTOR - HEAD) * 8;
/// Bytes before the bits: CRC-32C of all that follows, and the number of the sector.
const HEAD: u64 = 8;
const MAGIC: &[u8; 8] = b"NANDUtag";
const VERSION: u32 = 1;
/// Bytes of a superblock that its checksum covers.
const CHECKED: usize = 60;

/// Where everything lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Bytes of a block.
    pub(super) block: u64,
    /// Bytes of a page of tags.
    pub(super) page: u64,
    /// Bytes that are written at once at least.
    pub(super) unit: u64,
    /// Blocks that the host has.
    pub(super) blocks: u64,
    /// Regions, the last one perhaps shorter.
    pub(super) regions: u64,
    /// First byte of the tags.
    pub(super) tags: u64,
    /// First byte of the marks.
    pub(super) marks: u64,
    /// First byte of the two superblocks.
    pub(super) superblock: u64,
    /// Bytes of the device below that are used.
    pub(super) end: u64,
}

impl Layout {
    /// The layout on a device of `capacity` bytes that takes requests of a multiple of `align` bytes.
    ///
    /// # Errors
    /// There is no room for a single block.
    pub(super) fn new(capacity: ByteLen, align: u32, block: u64) -> Result<Layout, BuildError> {
        let unit = u64::from(align).max(SECTOR);
        let page = unit.max(4096);
        let end = capacity.0 - capacity.0 % unit;
        let records = |blocks: u64| {
            let regions = blocks.div_ceil(page / 4);
            let marks = regions.div_ceil(MARKS) * SECTOR;
            (regions, marks.next_multiple_of(unit))
        };
        let need = |blocks: u64| {
            let (regions, marks) = records(blocks);
            blocks * block + regions * page + marks + 2 * page
        };
        // The room for records grows by a page at a time: the estimate is at most a region too large.
        let mut blocks = end / block;
        while blocks > 0 && need(blocks) > end {
            blocks -= (need(blocks) - end).div_ceil(block + page).min(blocks);
        }
        if blocks == 0 {
            let least = need(1);
            return Err(BuildError::too_small("below", capacity, ByteLen(least)));
        }
        let (regions, mark_bytes) = records(blocks);
        let superblock = end - 2 * page;
        let marks = superblock - mark_bytes;
        let tags = marks - regions * page;
        Ok(Layout { block, page, unit, blocks, regions, tags, marks, superblock, end })
    }

    /// Bytes that the host has.
    pub(super) fn capacity(&self) -> ByteLen {
        ByteLen(self.blocks * self.block)
    }

    /// Blocks that one page of tags covers.
    pub(super) fn per_region(&self) -> u64 {
        self.page / 4
    }

    /// Bytes of data in a region.
    pub(super) fn region_bytes(&self) -> u64 {
        self.per_region() * self.block
    }

    /// Where the tags of a region lie.
    pub(super) fn tags_of(&self, region: u32) -> ByteOffset {
        ByteOffset(self.tags + u64::from(region) * self.page)
    }

    /// Sectors of marks that are written together.
    pub(super) fn sectors_together(&self) -> u64 {
        self.unit / SECTOR
    }

    /// Pieces of the marks, each written as one.
    pub(super) fn mark_pieces(&self) -> u64 {
        (self.superblock - self.marks) / self.unit
    }

    /// The piece of the marks in which a region has its bit.
    pub(super) fn piece_of(&self, region: u32) -> usize {
        (u64::from(region) / MARKS / self.sectors_together()) as usize
    }

    /// The superblock.
    pub(super) fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [self.block, self.page, self.unit, self.blocks, self.tags, self.end];
        for (n, number) in numbers.iter().enumerate() {
            out[12 + 8 * n..20 + 8 * n].copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32c::crc32c(&out[..CHECKED]);
        out[CHECKED..CHECKED + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// What a copy of the superblock says of this layout.
    pub(super) fn compare(&self, found: &[u8]) -> Copy {
        let found = &found[..SECTOR as usize];
        if found.iter().all(|&byte| byte == 0) {
            return Copy::Blank;
        }
        let sum = u32::from_le_bytes(found[CHECKED..CHECKED + 4].try_into().expect("four bytes"));
        if sum != crc32c::crc32c(&found[..CHECKED]) || &found[..8] != MAGIC {
            return Copy::Damaged;
        }
        let mut own = [0; SECTOR as usize];
        self.encode(&mut own);
        if own[..CHECKED] == found[..CHECKED] {
            return Copy::Own;
        }
        let number =
            |n: usize| u64::from_le_bytes(found[12 + 8 * n..20 + 8 * n].try_into().expect("eight bytes"));
        Copy::Other {
            version: u32::from_le_bytes(found[8..12].try_into().expect("four bytes")),
            block: number(0),
            end: number(5),
        }
    }
}

/// What the first sector of a superblock says, where it is one: the bytes of a block, and those that the host has.
pub fn recognise(found: &[u8]) -> Option<(ByteLen, ByteLen)> {
    let sum = u32::from_le_bytes(found.get(CHECKED..CHECKED + 4)?.try_into().ok()?);
    if &found[..8] != MAGIC || sum != crc32c::crc32c(&found[..CHECKED]) {
        return None;
    }
    let number =
        |n: usize| u64::from_le_bytes(found[12 + 8 * n..20 + 8 * n].try_into().expect("eight bytes"));
    Some((ByteLen(number(0)), ByteLen(number(0).checked_mul(number(3))?)))
}

/// Where the superblock begins on a device of `bytes` that takes requests of 4 KiB or less.
pub fn superblock_at(bytes: ByteLen) -> Option<u64> {
    (bytes.0 - bytes.0 % SECTOR).checked_sub(2 * 4096)
}

/// One copy of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copy {
    /// It says what the options say.
    Own,
    /// Nothing was ever written.
    Blank,
    /// It is whole and says something else.
    Other {
        /// Of the format.
        version: u32,
        /// Bytes of a block.
        block: u64,
        /// Bytes that were used.
        end: u64,
    },
    /// Its checksum is wrong.
    Damaged,
}

/// Puts the marks of one sector into its bytes.
pub(super) fn encode_marks(number: u64, bits: impl Fn(u64) -> bool, out: &mut [u8]) {
    out[..SECTOR as usize].fill(0);
    let mut any = false;
    for bit in (0..MARKS).filter(|&bit| bits(number * MARKS + bit)) {
        out[(HEAD + bit / 8) as usize] |= 1 << (bit % 8);
        any = true;
    }
    if any {
        out[4..8].copy_from_slice(&(number as u32).to_le_bytes());
        let sum = crc32c::crc32c(&out[4..SECTOR as usize]);
        out[..4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Calls `marked` for each region that a sector of marks names; for all of its regions, and false, where it is damaged.
pub(super) fn decode_marks(number: u64, found: &[u8], mut marked: impl FnMut(u64)) -> bool {
    let found = &found[..SECTOR as usize];
    let sum = u32::from_le_bytes(found[..4].try_into().expect("four bytes"));
    let own = u32::from_le_bytes(found[4..8].try_into().expect("four bytes")) == number as u32;
    let blank = found.iter().all(|&byte| byte == 0);
    let whole = blank || own && sum == crc32c::crc32c(&found[4..]);
    for bit in 0..MARKS {
        if !whole || found[(HEAD + bit / 8) as usize] >> (bit % 8) & 1 != 0 {
            marked(number * MARKS + bit);
        }
    }
    whole
}

/// The tag of the block that begins `from` bytes into a payload; [`UNCHECKED`] where a run stores no content.
pub(super) fn tag(pool: &PayloadPool, payload: Payload, from: u64, block: u64) -> u32 {
    let mut sum = 0;
    for index in from / SECTOR..(from + block) / SECTOR {
        sum = match pool.sector(payload, index) {
            None => return UNCHECKED,
            Some(Sector::Bytes(bytes)) => crc32c::crc32c_append(sum, bytes),
            Some(Sector::Stamp(Stamp::ZERO)) => crc32c::crc32c_append(sum, &ZEROS),
            Some(Sector::Stamp(stamp)) => crc32c::crc32c_append(sum, &stamp.0.to_le_bytes()),
        };
    }
    stored(sum)
}

/// The tag of a block of zeros.
pub(super) fn zeros(block: u64) -> u32 {
    stored((0..block / SECTOR).fold(0, |sum, _| crc32c::crc32c_append(sum, &ZEROS)))
}

fn stored(sum: u32) -> u32 {
    if sum <= DAMAGED { sum + 2 } else { sum }
}

const ZEROS: [u8; SECTOR as usize] = [0; SECTOR as usize];

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Content;

    #[test]
    fn the_rooms_do_not_overlap_and_nothing_more_would_fit() {
        for align in [512, 4096, 16384] {
            for block in [512u64, 4096, 65536] {
                for kib in [100u64, 256, 1000, 4096, 77_777, 1 << 20] {
                    let block = block.max(u64::from(align));
                    let capacity = ByteLen::kib(kib);
                    let Ok(l) = Layout::new(capacity, align, block) else {
                        assert!(capacity.0 < 3 * block.max(16384) + 3 * 16384, "{kib} KiB, {align}, {block}");
                        continue;
                    };
                    assert!(l.capacity().0 <= l.tags && l.tags + l.regions * l.page == l.marks);
                    assert!(l.regions <= l.mark_pieces() * l.sectors_together() * MARKS);
                    assert!(l.marks < l.superblock && l.superblock + 2 * l.page == l.end);
                    assert!(l.end <= capacity.0 && capacity.0 - l.end < l.unit);
                    assert!(l.tags % l.unit == 0 && l.marks % l.unit == 0);
                    assert!(l.regions * l.per_region() >= l.blocks);
                    assert!(l.tags - l.capacity().0 < 2 * (l.page + block), "{l:?} wastes room");
                }
            }
        }
        assert!(Layout::new(ByteLen::kib(8), 512, 512).is_err());
    }

    #[test]
    fn each_flipped_bit_of_a_record_is_noticed() {
        let layout = Layout::new(ByteLen::mib(64), 512, 512).expect("it has room");
        let mut sector = [0; 512];
        layout.encode(&mut sector);
        assert_eq!(layout.compare(&sector), Copy::Own);
        for bit in 0..(CHECKED + 4) * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(layout.compare(&sector), Copy::Damaged, "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
        let marked = |region| region == 4031 || region == 7;
        encode_marks(0, marked, &mut sector);
        for bit in 0..4096 {
            sector[bit / 8] ^= 1 << (bit % 8);
            let mut named = 0;
            assert!(!decode_marks(0, &sector, |_| named += 1), "bit {bit}");
            assert_eq!(named, MARKS, "a damaged sector marks all of its regions");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
        let mut named = Vec::new();
        assert!(decode_marks(0, &sector, |region| named.push(region)));
        assert_eq!(named, [7, 4031]);
        assert!(!decode_marks(1, &sector, |_| {}), "a sector in another's place");
    }

    #[test]
    fn other_options_are_told_from_damage() {
        let small = Layout::new(ByteLen::mib(64), 512, 512).expect("it has room");
        let large = Layout::new(ByteLen::mib(64), 512, 4096).expect("it has room");
        let mut sector = [0; 512];
        assert_eq!(small.compare(&sector), Copy::Blank);
        small.encode(&mut sector);
        assert_eq!(large.compare(&sector), Copy::Other { version: 1, block: 512, end: 64 << 20 });
    }

    #[test]
    fn zeros_have_one_tag_whatever_stands_for_them() {
        let mut stamps = PayloadPool::new(Content::Stamps);
        let payload = stamps.allocate(ByteLen(4096));
        let records = stamps.allocate_metadata(ByteLen(4096));
        assert_eq!(tag(&stamps, payload, 0, 4096), zeros(4096));
        assert_eq!(tag(&stamps, records, 0, 4096), zeros(4096));
        let run = Payload::run(Stamp::new(7, 3));
        assert_ne!(tag(&stamps, run, 0, 512), tag(&stamps, run, 512, 512));
        assert_eq!(tag(&PayloadPool::new(Content::Nothing), Payload::NONE, 0, 512), UNCHECKED);
    }
}
