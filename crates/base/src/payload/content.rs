//! What payloads hold, sector by sector: reading, filling, copying and comparing it.

use super::{Kind, Payload, PayloadPool, RECORD, Sector, Stamp};
use crate::units::{ByteLen, SECTOR};

impl PayloadPool {
    /// Sector `index` of a payload, as a medium stores it. `None` for a payload without content.
    #[inline]
    pub fn sector(&self, payload: Payload, index: u64) -> Option<Sector<'_>> {
        Some(match payload.kind {
            Kind::Nothing => return None,
            Kind::Run => Sector::Stamp(Stamp(payload.at + index)),
            Kind::Stamps => match self.stamps(payload.slice(ByteLen(index * SECTOR)), 1)[0] {
                stamp if stamp.serial() == RECORD => Sector::Bytes(self.record(payload, stamp)),
                stamp => Sector::Stamp(stamp),
            },
            Kind::Bytes | Kind::Metadata => {
                Sector::Bytes(self.bytes(payload.slice(ByteLen(index * SECTOR)), ByteLen(SECTOR)))
            }
        })
    }

    /// The first stamp when sectors `first..first + count` hold consecutive stamps of one write.
    #[inline]
    pub fn as_run(&self, payload: Payload, first: u64, count: u64) -> Option<Stamp> {
        match payload.kind {
            Kind::Run => Some(Stamp(payload.at + first)),
            Kind::Stamps => {
                let stamps = self.stamps(payload.slice(ByteLen(first * SECTOR)), count);
                let start = stamps[0];
                // Parity over two sectors of one write has the serial number 0: it is no run of a write.
                let data = start.serial() != 0 && start.serial() != RECORD;
                let run = data && stamps.iter().zip(start.0..).all(|(s, want)| s.0 == want);
                run.then_some(start)
            }
            _ => None,
        }
    }

    /// Whether sectors `first..first + count` of a stamp payload read as zeros.
    #[inline]
    pub fn is_zeros(&self, payload: Payload, first: u64, count: u64) -> bool {
        let zero = |stamps: &[Stamp]| stamps.iter().all(|&s| s == Stamp::ZERO);
        payload.kind == Kind::Stamps && zero(self.stamps(payload.slice(ByteLen(first * SECTOR)), count))
    }

    /// Puts consecutive stamps from `start` into `count` sectors of a read's payload, from sector `first`.
    #[inline]
    pub fn fill_run(&mut self, payload: Payload, first: u64, count: u64, start: Stamp) {
        match payload.kind {
            Kind::Stamps => {
                let target = self.stamps_mut(payload.slice(ByteLen(first * SECTOR)), count);
                for (slot, stamp) in target.iter_mut().zip(start.0..) {
                    *slot = Stamp(stamp);
                }
            }
            Kind::Metadata | Kind::Bytes => {
                self.zero(payload.slice(ByteLen(first * SECTOR)), ByteLen(count * SECTOR))
            }
            Kind::Nothing => {}
            Kind::Run => unreachable!("a run cannot be read into"),
        }
    }

    /// Puts one stored sector into sector `index` of a read's payload. User data read into a metadata payload becomes
    /// zeros: a fault that the reader sees. Metadata read into a stamp payload stays what it is, for a machine below
    /// copies it with everything else.
    pub fn put_sector(&mut self, payload: Payload, index: u64, sector: Sector<'_>) {
        let at = payload.slice(ByteLen(index * SECTOR));
        match (payload.kind, sector) {
            (Kind::Nothing, _) => {}
            (Kind::Stamps, Sector::Stamp(stamp)) => self.stamps_mut(at, 1)[0] = stamp,
            (Kind::Stamps, Sector::Bytes(bytes)) => self.put_record(at, bytes),
            (Kind::Bytes | Kind::Metadata, Sector::Bytes(bytes)) => {
                self.bytes_mut(at, ByteLen(SECTOR)).copy_from_slice(bytes);
            }
            (Kind::Bytes | Kind::Metadata, Sector::Stamp(_)) => self.bytes_mut(at, ByteLen(SECTOR)).fill(0),
            (Kind::Run, _) => unreachable!("a run cannot be read into"),
        }
    }

    /// Fills `len` bytes with zeros.
    pub fn zero(&mut self, payload: Payload, len: ByteLen) {
        match payload.kind {
            Kind::Nothing => {}
            Kind::Stamps => self.stamps_mut(payload, len.sectors()).fill(Stamp::ZERO),
            Kind::Bytes | Kind::Metadata => self.bytes_mut(payload, len).fill(0),
            Kind::Run => unreachable!("a run cannot be changed"),
        }
    }

    /// Turns bit `bit` of sector `index` over, from 0 to 4095. Of a stamp, some bit of the number of its write; records among
    /// stamps stay as they are.
    pub fn flip(&mut self, payload: Payload, index: u64, bit: u64) {
        let at = payload.slice(ByteLen(index * SECTOR));
        match payload.kind {
            Kind::Nothing => {}
            Kind::Stamps => {
                let stamp = &mut self.stamps_mut(at, 1)[0];
                if stamp.serial() != RECORD {
                    stamp.0 ^= 1 << (32 + bit % 24);
                }
            }
            Kind::Bytes | Kind::Metadata => {
                self.bytes_mut(at, ByteLen(SECTOR))[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Kind::Run => unreachable!("a run cannot be changed"),
        }
    }

    /// Copies `len` bytes from one payload to another: joins parts, or makes a private copy.
    pub fn copy(&mut self, from: Payload, to: Payload, len: ByteLen) {
        match (from.kind, to.kind) {
            (Kind::Nothing, _) | (_, Kind::Nothing) => {}
            (Kind::Run, Kind::Stamps) => self.fill_run(to, 0, len.sectors(), Stamp(from.at)),
            (Kind::Bytes | Kind::Metadata, Kind::Bytes | Kind::Metadata) if from.buffer == to.buffer => {
                let base = Payload { at: 0, ..from };
                let whole = ByteLen(from.at.max(to.at) + len.0);
                let start = from.at as usize;
                self.bytes_mut(base, whole).copy_within(start..start + len.0 as usize, to.at as usize);
            }
            (Kind::Bytes | Kind::Metadata, Kind::Bytes | Kind::Metadata) => {
                let (source, target) = self.bytes_of_two(from, to, len);
                target.copy_from_slice(source);
            }
            _ => {
                for i in 0..len.sectors() {
                    match self.sector(from, i) {
                        None => {}
                        Some(Sector::Stamp(stamp)) => self.put_sector(to, i, Sector::Stamp(stamp)),
                        Some(Sector::Bytes(bytes)) => {
                            let bytes: [u8; SECTOR as usize] =
                                bytes.try_into().expect("a sector has 512 bytes");
                            self.put_sector(to, i, Sector::Bytes(&bytes));
                        }
                    }
                }
            }
        }
    }

    /// Whether two payloads hold the same data. Two payloads without content are equal.
    pub fn equal(&self, a: Payload, b: Payload, len: ByteLen) -> bool {
        if a.is_none() || b.is_none() {
            return a.is_none() == b.is_none();
        }
        (0..len.sectors()).all(|i| match (self.sector(a, i), self.sector(b, i)) {
            (Some(Sector::Stamp(x)), Some(Sector::Stamp(y))) => x == y,
            (Some(Sector::Bytes(x)), Some(Sector::Bytes(y))) => x == y,
            _ => false,
        })
    }
}
