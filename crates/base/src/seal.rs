//! The checksum of a record, a CRC-32C, and the one flipped bit that it puts right.
//!
//! A record has two slots, and a torn one leaves the other, which is older and right. One that was damaged later leaves the older one too, and that
//! one is then *wrong*: nothing else tells the two cases apart. So a flipped bit is put right. A checksum is linear: what a flipped bit changes in it
//! depends only on how many bits follow, and of all single bits of a record only one leaves the difference that is found. What a cut tears
//! is no such record, or one of which a single bit is missing; with that bit it is what was written, which the cut might have left as well.

/// The polynomial of CRC-32C, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Where the checksum of a kind of record stands, and what it covers.
#[derive(Clone, Copy, Debug)]
pub struct Seal {
    at: usize,
    covers: usize,
}

impl Seal {
    /// A checksum at byte `at` over all of the page, itself counted as zero.
    pub const fn inside(at: usize) -> Seal {
        Seal { at, covers: usize::MAX }
    }

    /// A checksum at byte `at` over all bytes before it.
    pub const fn behind(at: usize) -> Seal {
        Seal { at, covers: at }
    }

    /// Puts the checksum in its place.
    pub fn put(self, bytes: &mut [u8]) {
        let sum = self.sum(bytes);
        bytes[self.at..self.at + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Whether the checksum fits.
    pub fn holds(self, bytes: &[u8]) -> bool {
        self.difference(bytes) == 0
    }

    /// What `decode` makes of a record, and whether one of its bits had to be put right for it. Only what differs from `magic` in one bit at most
    /// is taken for a record.
    pub fn read<T>(
        self,
        bytes: &[u8],
        magic: &[u8],
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<(T, bool)> {
        if let Some(record) = decode(bytes) {
            return Some((record, false));
        }
        let odd: u32 = magic.iter().zip(bytes).map(|(own, found)| (own ^ found).count_ones()).sum();
        if odd > 1 {
            return None;
        }
        let bit = self.flipped(bytes)?;
        let mut right = bytes.to_vec();
        right[bit / 8] ^= 1 << (bit % 8);
        decode(&right).map(|record| (record, true))
    }

    fn covered(self, bytes: &[u8]) -> usize {
        self.covers.min(bytes.len())
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        let end = self.covered(bytes);
        if self.at >= end {
            return crc32c::crc32c(&bytes[..end]);
        }
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..self.at]), &[0; 4]);
        crc32c::crc32c_append(sum, &bytes[self.at + 4..end])
    }

    /// The bits in which the checksum that stands there differs from the right one.
    fn difference(self, bytes: &[u8]) -> u32 {
        let stored = u32::from_le_bytes(bytes[self.at..self.at + 4].try_into().expect("four bytes"));
        self.sum(bytes) ^ stored
    }

    /// The only bit whose flip explains a wrong checksum, from bit 0 of byte 0; `None` when there is none.
    fn flipped(self, bytes: &[u8]) -> Option<usize> {
        let found = self.difference(bytes);
        if found.is_power_of_two() {
            return Some(self.at * 8 + found.trailing_zeros() as usize);
        }
        let bit = flipped_bit(found, self.covered(bytes))?;
        (!(self.at..self.at + 4).contains(&(bit / 8))).then_some(bit)
    }
}

/// The bit, of those of so many bytes, whose flip changes their CRC-32C by `difference`: the change is carried from the last bit to the first, one
/// step of the shift register each.
pub fn flipped_bit(difference: u32, bytes: usize) -> Option<usize> {
    let mut change = 1u32;
    (0..bytes * 8).rev().find(|_| {
        change = change >> 1 ^ if change & 1 == 1 { POLYNOMIAL } else { 0 };
        change == difference
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_single_bit_is_put_right_and_no_two_are() {
        for (seal, len) in [(Seal::inside(68), 1024), (Seal::inside(24), 1536), (Seal::behind(508), 512)] {
            let mut page: Vec<u8> = (0..len).map(|i| (i * 7 + i / 256) as u8).collect();
            page[..8].copy_from_slice(b"a record");
            seal.put(&mut page);
            let whole = page.clone();
            let decode = |bytes: &[u8]| seal.holds(bytes).then(|| bytes.to_vec());
            assert_eq!(seal.read(&page, b"a record", decode), Some((whole.clone(), false)));
            for bit in 0..len * 8 {
                page[bit / 8] ^= 1 << (bit % 8);
                assert!(!seal.holds(&page), "bit {bit} of {len}");
                assert_eq!(seal.read(&page, b"a record", decode), Some((whole.clone(), true)), "bit {bit}");
                let other = (bit + 1 + bit % 4000) % (len * 8);
                page[other / 8] ^= 1 << (other % 8);
                assert_eq!(seal.read(&page, b"a record", decode), None, "bits {bit} and {other} of {len}");
                page[other / 8] ^= 1 << (other % 8);
                page[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(seal.read(&vec![0; len], b"a record", decode), None);
        }
    }
}
