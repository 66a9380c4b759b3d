//! Xor of payloads, for parity: bytes as bytes, stamps as numbers.
//!
//! Where stamps meet records of a machine above, a stamp counts as the bytes that a xorshift generator makes of it. Each
//! step of that is linear, so the bytes of `a ^ b` are the xor of their bytes, and zero gives zeros: the sum of all parts of a
//! row is zero whatever they hold, and any one of them is the sum of the others. No record looks like the bytes of a stamp.

use super::{Kind, Payload, PayloadPool, Sector, Stamp};
use crate::units::{ByteLen, SECTOR};

impl PayloadPool {
    /// `to ^= from`. Nothing happens where one of them has no content.
    pub fn xor(&mut self, from: Payload, to: Payload, len: ByteLen) {
        let is_bytes = |kind| matches!(kind, Kind::Bytes | Kind::Metadata);
        if from.is_none() || to.is_none() {
        } else if is_bytes(from.kind) && is_bytes(to.kind) && from.buffer != to.buffer {
            let (source, target) = self.bytes_of_two(from, to, len);
            target.iter_mut().zip(source).for_each(|(t, s)| *t ^= s);
        } else {
            (0..len.sectors()).for_each(|i| self.xor_sector(from, to, i));
        }
    }

    fn xor_sector(&mut self, from: Payload, to: Payload, i: u64) {
        let (Some(a), Some(b)) = (self.sector(from, i), self.sector(to, i)) else { return };
        if let (Sector::Stamp(a), Sector::Stamp(b)) = (a, b) {
            return self.put_sector(to, i, Sector::Stamp(Stamp(a.0 ^ b.0)));
        }
        let (mut sum, other) = (whole(a), whole(b));
        sum.iter_mut().zip(other).for_each(|(s, o)| *s ^= o);
        match gathered(&sum).filter(|_| to.kind == Kind::Stamps) {
            Some(stamp) => self.put_sector(to, i, Sector::Stamp(stamp)),
            None => self.put_sector(to, i, Sector::Bytes(&sum)),
        }
    }
}

/// The bytes of a sector.
fn whole(sector: Sector<'_>) -> [u8; SECTOR as usize] {
    match sector {
        Sector::Stamp(stamp) => spread(stamp),
        Sector::Bytes(bytes) => bytes.try_into().expect("a sector has 512 bytes"),
    }
}

/// A stamp as the bytes of a sector.
fn spread(stamp: Stamp) -> [u8; SECTOR as usize] {
    let (mut out, mut word) = ([0; SECTOR as usize], stamp.0);
    for place in out.chunks_exact_mut(8) {
        place.copy_from_slice(&word.to_le_bytes());
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
    }
    out
}

/// The stamp whose bytes these are.
fn gathered(bytes: &[u8; SECTOR as usize]) -> Option<Stamp> {
    let (first, _) = bytes.split_first_chunk::<8>()?;
    let stamp = Stamp(u64::from_le_bytes(*first));
    (spread(stamp) == *bytes).then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::*;
    const PAGE: ByteLen = ByteLen(4096);

    #[test]
    fn xor_twice_gives_the_data_back() {
        for content in [Content::Stamps, Content::Bytes] {
            let mut pool = PayloadPool::new(content);
            let (a, b) = (pool.allocate(PAGE), pool.allocate(PAGE));
            if content == Content::Stamps {
                pool.copy(Payload::run(Stamp::new(1, 0)), a, PAGE);
                pool.copy(Payload::run(Stamp::new(2, 0)), b, PAGE);
            } else {
                pool.bytes_mut(a, PAGE).fill(0x5A);
                pool.bytes_mut(b, PAGE).fill(0x3C);
            }
            let parity = pool.allocate(PAGE);
            pool.xor(a, parity, PAGE);
            pool.xor(b, parity, PAGE);
            assert!(!pool.equal(parity, a, PAGE));
            pool.xor(b, parity, PAGE);
            assert!(pool.equal(parity, a, PAGE));
        }
    }

    #[test]
    fn records_and_stamps_of_one_row_come_back_from_the_others() {
        let mut pool = PayloadPool::new(Content::Stamps);
        let record = pool.allocate_metadata(PAGE);
        pool.bytes_mut(record, PAGE)[..700].fill(0xFF);
        let (stamps, other, sum) = (pool.allocate(PAGE), pool.allocate(PAGE), pool.allocate(PAGE));
        pool.fill_run(stamps, 0, 8, Stamp::new(3, 7));
        pool.fill_run(other, 0, 8, Stamp::new(9, 1));
        for part in [record, stamps, other] {
            pool.xor(part, sum, PAGE);
        }
        let back = pool.allocate(PAGE);
        for part in [sum, record, other] {
            pool.xor(part, back, PAGE);
        }
        assert!(pool.equal(back, stamps, PAGE));
        let back = pool.allocate(PAGE);
        for part in [sum, stamps, other] {
            pool.xor(part, back, PAGE);
        }
        let read = pool.allocate_metadata(PAGE);
        pool.copy(back, read, PAGE);
        assert!(pool.equal(read, record, PAGE));
    }
}
