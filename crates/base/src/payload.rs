//! The data of a request, opaque to machines.
//!
//! A [`Payload`] names a region of a buffer that the driver owns; it is 16 bytes, copied freely, and slicing it is an
//! addition. What a buffer holds depends on the driver: nothing (plain simulation), one version stamp per 512 B sector
//! (verified simulation), or real bytes (server). Machines keep, slice, join, compare, xor, zero and forward payloads
//! and never look inside, except into their own metadata, which holds real bytes in every mode.
//!
//! **Who keeps a buffer alive.** Each buffer counts its holders. A request holds its payload until the driver frees the
//! request. A machine that needs the data longer calls [`PayloadPool::keep`] and later [`PayloadPool::release`].
//!
//! **Stamps.** A sector's stamp is `serial << 32 | sector`, where `serial` numbers the host's writes from 1 and
//! `sector` is the low half of the address it was written to. Stamp 0 reads as zeros. A write from the host needs no
//! buffer: its payload is a *run*, the first stamp, and sector `i` holds `first + i`.

mod xor;

use crate::bytebuf::{ByteBuf, ByteRegion};
use crate::units::{ByteLen, SECTOR};
use std::sync::Arc;

/// What a driver's payloads hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Nothing; costs nothing.
    Nothing,
    /// One stamp per sector.
    Stamps,
    /// Real bytes.
    Bytes,
}

/// One sector's identity in the verified simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// A sector of zeros.
    pub const ZERO: Stamp = Stamp(0);
    /// A sector of metadata; user data never carries it.
    pub const METADATA: Stamp = Stamp(u64::MAX);

    /// The stamp of `sector` in write number `serial`.
    #[inline]
    pub const fn new(serial: u32, sector: u64) -> Stamp {
        Stamp((serial as u64) << 32 | (sector & 0xFFFF_FFFF))
    }
    /// The number of the write.
    #[inline]
    pub const fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The low half of the sector's address.
    #[inline]
    pub const fn sector(self) -> u32 {
        self.0 as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Nothing,
    /// `at` is the first stamp.
    Run,
    /// A buffer of stamps; `at` is the first sector.
    Stamps,
    /// A buffer of bytes; `at` is the first byte.
    Bytes,
    /// A buffer of bytes with a machine's own records.
    Metadata,
}

/// A region of a buffer. Its length is the length of the request that carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    at: u64,
    buffer: u32,
    kind: Kind,
}

impl Payload {
    /// No data.
    pub const NONE: Payload = Payload { at: 0, buffer: 0, kind: Kind::Nothing };

    /// A write's data in the verified simulation: sector `i` holds `first + i`.
    #[inline]
    pub const fn run(first: Stamp) -> Payload {
        Payload { at: first.0, buffer: 0, kind: Kind::Run }
    }

    /// Whether there is anything to store.
    #[inline]
    pub const fn is_none(self) -> bool {
        matches!(self.kind, Kind::Nothing)
    }

    /// Whether this is a machine's own metadata.
    #[inline]
    pub const fn is_metadata(self) -> bool {
        matches!(self.kind, Kind::Metadata)
    }

    #[inline]
    const fn has_buffer(self) -> bool {
        matches!(self.kind, Kind::Stamps | Kind::Bytes | Kind::Metadata)
    }

    /// The part that starts `from` bytes into this one. Stamps are sliced by whole sectors.
    #[inline]
    pub fn slice(self, from: ByteLen) -> Payload {
        let step = match self.kind {
            Kind::Nothing => return self,
            Kind::Run | Kind::Stamps => from.sectors(),
            Kind::Bytes | Kind::Metadata => from.0,
        };
        Payload { at: self.at + step, ..self }
    }
}

/// Stamps of user data. A machine that copies whole extents may come upon records of a machine above it; their sectors
/// are kept beside, and their stamps have the serial number [`RECORD`] and the place in the list.
#[derive(Debug, Default)]
struct StampBuf {
    stamps: Vec<Stamp>,
    records: Vec<[u8; SECTOR as usize]>,
}

/// The serial number of stamps that stand for records.
const RECORD: u32 = u32::MAX;

#[derive(Debug)]
enum Store {
    Stamps(StampBuf),
    Bytes(Arc<ByteBuf>),
}

#[derive(Debug)]
struct Buffer {
    store: Store,
    holders: u32,
}

/// One sector as a medium stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sector<'a> {
    /// A stamp of user data, or zeros.
    Stamp(Stamp),
    /// 512 real bytes: metadata, or user data of a server.
    Bytes(&'a [u8]),
}

/// The driver's buffers.
#[derive(Debug)]
pub struct PayloadPool {
    content: Content,
    buffers: Vec<Buffer>,
    free_stamps: Vec<u32>,
    free_bytes: Vec<u32>,
    /// Bytes in the buffers of `free_bytes`.
    idle: usize,
    living: usize,
}

/// Bytes of unused buffers that are kept for the next request. A server's memory is bounded by this and by what its
/// requests in flight hold.
const IDLE_MAX: usize = 64 << 20;
/// Free buffers that are looked at for one that fits.
const LOOK_AT: usize = 16;

impl PayloadPool {
    /// An empty pool whose user payloads hold `content`.
    pub fn new(content: Content) -> PayloadPool {
        PayloadPool {
            content,
            buffers: Vec::new(),
            free_stamps: Vec::new(),
            free_bytes: Vec::new(),
            idle: 0,
            living: 0,
        }
    }

    /// What user payloads hold.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Buffers in use: zero when a stack is quiet.
    pub fn living(&self) -> usize {
        self.living
    }

    /// A payload for `len` bytes of user data, all zeros, held once. In plain simulation it is [`Payload::NONE`].
    pub fn allocate(&mut self, len: ByteLen) -> Payload {
        match self.content {
            Content::Nothing => Payload::NONE,
            Content::Stamps => self.allocate_stamps(len),
            Content::Bytes => {
                let payload = self.allocate_bytes(len, Kind::Bytes);
                self.bytes_mut(payload, len).fill(0);
                payload
            }
        }
    }

    /// As [`PayloadPool::allocate`], but real bytes are whatever the buffer held before: for data that is written in
    /// full before anybody reads it, as a write from a socket or a read that is answered only when it succeeded.
    pub fn allocate_unfilled(&mut self, len: ByteLen) -> Payload {
        match self.content {
            Content::Bytes => self.allocate_bytes(len, Kind::Bytes),
            Content::Nothing | Content::Stamps => self.allocate(len),
        }
    }

    /// As [`PayloadPool::allocate_unfilled`], in a buffer no longer than `len`: for data that is kept for long.
    pub fn allocate_snug(&mut self, len: ByteLen) -> Payload {
        match self.content {
            Content::Bytes => self.allocate_within(len, len.0 as usize, Kind::Bytes),
            Content::Nothing | Content::Stamps => self.allocate(len),
        }
    }

    /// Bytes of memory that a holder of `payload` keeps alive, whatever part of the buffer it names; 0 without a buffer of
    /// real bytes.
    pub fn held_bytes(&self, payload: Payload) -> u64 {
        match payload.kind {
            Kind::Bytes | Kind::Metadata => self.size(payload.buffer) as u64,
            Kind::Nothing | Kind::Run | Kind::Stamps => 0,
        }
    }

    /// A payload for `len` bytes of a machine's own records, all zeros, held once; real bytes in every mode.
    pub fn allocate_metadata(&mut self, len: ByteLen) -> Payload {
        let payload = self.allocate_bytes(len, Kind::Metadata);
        self.bytes_mut(payload, len).fill(0);
        payload
    }

    fn allocate_stamps(&mut self, len: ByteLen) -> Payload {
        let sectors = len.sectors() as usize;
        self.living += 1;
        let buffer = self.free_stamps.pop().unwrap_or_else(|| self.push(Store::Stamps(StampBuf::default())));
        let slot = &mut self.buffers[buffer as usize];
        slot.holders = 1;
        if let Store::Stamps(buffer) = &mut slot.store {
            buffer.stamps.clear();
            buffer.stamps.resize(sectors, Stamp::ZERO);
            buffer.records.clear();
        }
        Payload { at: 0, buffer, kind: Kind::Stamps }
    }

    fn allocate_bytes(&mut self, len: ByteLen, kind: Kind) -> Payload {
        self.allocate_within(len, (len.0 as usize).max(4096).saturating_mul(4), kind)
    }

    /// In a buffer of `len` to `most` bytes.
    fn allocate_within(&mut self, len: ByteLen, most: usize, kind: Kind) -> Payload {
        self.living += 1;
        let wanted = len.0 as usize;
        let buffer = self.recycle(wanted, most).unwrap_or_else(|| {
            let store = Store::Bytes(Arc::new(ByteBuf::zeroed(wanted)));
            match self.free_bytes.pop() {
                Some(index) => {
                    self.idle -= self.size(index);
                    self.buffers[index as usize].store = store;
                    index
                }
                None => self.push(store),
            }
        });
        self.buffers[buffer as usize].holders = 1;
        Payload { at: 0, buffer, kind }
    }

    /// A free buffer that is large enough, not larger than `most`, and that no worker thread still holds.
    fn recycle(&mut self, wanted: usize, most: usize) -> Option<u32> {
        let start = self.free_bytes.len().saturating_sub(LOOK_AT);
        let fits = |index: u32| match &self.buffers[index as usize].store {
            Store::Bytes(bytes) => (wanted..=most).contains(&bytes.len()) && Arc::strong_count(bytes) == 1,
            Store::Stamps(_) => false,
        };
        let position = start + self.free_bytes[start..].iter().rposition(|&index| fits(index))?;
        let index = self.free_bytes.swap_remove(position);
        self.idle -= self.size(index);
        Some(index)
    }

    fn size(&self, buffer: u32) -> usize {
        match &self.buffers[buffer as usize].store {
            Store::Bytes(bytes) => bytes.len(),
            Store::Stamps(_) => 0,
        }
    }

    fn push(&mut self, store: Store) -> u32 {
        self.buffers.push(Buffer { store, holders: 0 });
        (self.buffers.len() - 1) as u32
    }

    /// Adds a holder.
    #[inline]
    pub fn keep(&mut self, payload: Payload) {
        if payload.has_buffer() {
            self.buffers[payload.buffer as usize].holders += 1;
        }
    }

    /// Takes a holder away; the last one returns the buffer.
    #[inline]
    pub fn release(&mut self, payload: Payload) {
        if payload.has_buffer() {
            self.release_buffer(payload.buffer);
        }
    }

    fn release_buffer(&mut self, index: u32) {
        let buffer = &mut self.buffers[index as usize];
        assert!(buffer.holders > 0, "payload buffer {index} is released twice");
        buffer.holders -= 1;
        if buffer.holders == 0 {
            self.living -= 1;
            match &mut buffer.store {
                Store::Stamps(_) => self.free_stamps.push(index),
                Store::Bytes(bytes) => {
                    if self.idle + bytes.len() > IDLE_MAX {
                        *bytes = Arc::new(ByteBuf::zeroed(0));
                    }
                    self.idle += bytes.len();
                    self.free_bytes.push(index);
                }
            }
        }
    }

    fn stamps(&self, payload: Payload, sectors: u64) -> &[Stamp] {
        match &self.buffers[payload.buffer as usize].store {
            Store::Stamps(buffer) => &buffer.stamps[payload.at as usize..(payload.at + sectors) as usize],
            Store::Bytes(_) => unreachable!("a stamp payload has a stamp buffer"),
        }
    }

    fn stamps_mut(&mut self, payload: Payload, sectors: u64) -> &mut [Stamp] {
        match &mut self.buffers[payload.buffer as usize].store {
            Store::Stamps(buffer) => &mut buffer.stamps[payload.at as usize..(payload.at + sectors) as usize],
            Store::Bytes(_) => unreachable!("a stamp payload has a stamp buffer"),
        }
    }

    fn record(&self, payload: Payload, stamp: Stamp) -> &[u8] {
        match &self.buffers[payload.buffer as usize].store {
            Store::Stamps(buffer) => &buffer.records[stamp.sector() as usize][..],
            Store::Bytes(_) => unreachable!("a stamp payload has a stamp buffer"),
        }
    }

    fn put_record(&mut self, at: Payload, bytes: &[u8]) {
        let Store::Stamps(buffer) = &mut self.buffers[at.buffer as usize].store else {
            unreachable!("a stamp payload has a stamp buffer")
        };
        buffer.stamps[at.at as usize] = Stamp::new(RECORD, buffer.records.len() as u64);
        buffer.records.push(bytes.try_into().expect("a sector has 512 bytes"));
    }

    fn byte_buf(&self, payload: Payload) -> &Arc<ByteBuf> {
        match &self.buffers[payload.buffer as usize].store {
            Store::Bytes(bytes) => bytes,
            Store::Stamps(_) => unreachable!("a byte payload has a byte buffer"),
        }
    }

    /// The bytes of a byte or metadata payload. Panics for others.
    pub fn bytes(&self, payload: Payload, len: ByteLen) -> &[u8] {
        // SAFETY: the machine contract gives a buffer one writer at a time, and none while it is read here.
        unsafe { self.byte_buf(payload).slice(payload.at as usize, len.0 as usize) }
    }

    /// The bytes of a byte or metadata payload, to change. Panics for others.
    pub fn bytes_mut(&mut self, payload: Payload, len: ByteLen) -> &mut [u8] {
        // SAFETY: as for `bytes`; `&mut self` keeps other accesses through the pool out.
        unsafe { self.byte_buf(payload).slice_mut(payload.at as usize, len.0 as usize) }
    }

    /// The region as a handle that a worker thread of the server may use while the request is alive.
    pub fn region(&self, payload: Payload, len: ByteLen) -> ByteRegion {
        ByteRegion::new(Arc::clone(self.byte_buf(payload)), payload.at as usize, len.0 as usize)
    }

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
                let source = Arc::clone(self.byte_buf(from));
                // SAFETY: two different buffers; the contract gives each one writer at a time.
                let source = unsafe { source.slice(from.at as usize, len.0 as usize) };
                self.bytes_mut(to, len).copy_from_slice(source);
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

#[cfg(test)]
mod tests {
    use super::*;
    const PAGE: ByteLen = ByteLen(4096);

    #[test]
    fn a_run_is_copied_sliced_and_recognised() {
        let mut pool = PayloadPool::new(Content::Stamps);
        let write = Payload::run(Stamp::new(7, 100));
        let read = pool.allocate(PAGE);
        pool.copy(write, read, PAGE);
        assert!(pool.equal(write, read, PAGE));
        assert_eq!(pool.as_run(read, 0, 8), Some(Stamp::new(7, 100)));
        assert_eq!(pool.as_run(read.slice(ByteLen(1024)), 0, 2), Some(Stamp::new(7, 102)));
        pool.zero(read.slice(ByteLen(512)), ByteLen(512));
        assert_eq!(pool.as_run(read, 0, 8), None);
        pool.release(read);
        assert_eq!(pool.living(), 0);
    }

    #[test]
    fn records_among_stamps_keep_their_bytes() {
        let mut pool = PayloadPool::new(Content::Stamps);
        let record = pool.allocate_metadata(PAGE);
        pool.bytes_mut(record, PAGE).fill(0xA5);
        let (a, b) = (pool.allocate(PAGE), pool.allocate(PAGE));
        pool.fill_run(a, 0, 8, Stamp::new(1, 0));
        pool.copy(record, a.slice(ByteLen(1024)), ByteLen(1024));
        pool.copy(a, b, PAGE);
        assert!(pool.equal(a, b, PAGE));
        assert_eq!(pool.as_run(b.slice(ByteLen(1024)), 0, 1), None);
        let back = pool.allocate_metadata(PAGE);
        pool.copy(b, back, PAGE);
        assert_eq!(pool.bytes(back, PAGE)[1024..2048], [0xA5; 1024]);
        assert_eq!(pool.bytes(back, PAGE)[..1024], [0; 1024]);
    }

    #[test]
    fn nothing_costs_nothing() {
        let mut pool = PayloadPool::new(Content::Nothing);
        let p = pool.allocate(PAGE);
        assert!(p.is_none());
        pool.keep(p);
        pool.release(p);
        pool.copy(p, p, PAGE);
        assert_eq!(pool.living(), 0);
    }

    #[test]
    fn metadata_holds_bytes_in_every_mode() {
        for content in [Content::Nothing, Content::Stamps, Content::Bytes] {
            let mut pool = PayloadPool::new(content);
            let p = pool.allocate_metadata(PAGE);
            pool.bytes_mut(p, PAGE)[..4].copy_from_slice(b"NAND");
            assert_eq!(&pool.bytes(p, PAGE)[..4], b"NAND");
            pool.keep(p);
            pool.release(p);
            pool.release(p);
            assert_eq!(pool.living(), 0);
            let again = pool.allocate_metadata(PAGE);
            assert_eq!(&pool.bytes(again, PAGE)[..4], &[0; 4]);
        }
    }

    #[test]
    #[should_panic(expected = "released twice")]
    fn releasing_twice_is_caught() {
        let mut pool = PayloadPool::new(Content::Stamps);
        let p = pool.allocate(PAGE);
        pool.release(p);
        pool.release(p);
    }
}
