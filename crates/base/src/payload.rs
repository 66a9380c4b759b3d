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

mod content;
#[cfg(test)]
mod tests;
mod xor;

use crate::bytebuf::{ALIGN, ByteBuf, ByteRegion};
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
    /// Free buffers of bytes, by classes of size: who looks for a long one does not pass all the short ones.
    free_bytes: [Vec<u32>; CLASSES],
    /// Numbers of buffers without memory.
    vacant: Vec<u32>,
    /// Bytes in the buffers of `free_bytes`.
    idle: usize,
    living: usize,
}

/// Classes of size: buffers from [`ALIGN`] bytes on, from twice as many on, and so forth.
const CLASSES: usize = 20;

/// Free buffers of a class that are looked at for one that fits.
const LOOK_AT: usize = 16;

/// The class of a buffer of `bytes` bytes.
fn class_of(bytes: usize) -> usize {
    ((bytes / ALIGN).max(1).ilog2() as usize).min(CLASSES - 1)
}

impl PayloadPool {
    /// Bytes of unused buffers that are kept for the next request. A server's memory is bounded by this and by what its
    /// requests in flight hold.
    pub const IDLE_MAX: usize = 64 << 20;

    /// An empty pool whose user payloads hold `content`.
    pub fn new(content: Content) -> PayloadPool {
        PayloadPool {
            content,
            buffers: Vec::new(),
            free_stamps: Vec::new(),
            free_bytes: Default::default(),
            vacant: Vec::new(),
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

    /// As [`PayloadPool::allocate_unfilled`], in a buffer no longer than it must be: for data that is kept for long.
    pub fn allocate_snug(&mut self, len: ByteLen) -> Payload {
        match self.content {
            Content::Bytes => {
                self.allocate_within(len, (len.0 as usize).next_multiple_of(ALIGN), Kind::Bytes)
            }
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
            self.make_room(wanted);
            let store = Store::Bytes(Arc::new(ByteBuf::zeroed(wanted)));
            match self.vacant.pop() {
                Some(index) => {
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
        let fits = |index: u32| match &self.buffers[index as usize].store {
            Store::Bytes(bytes) => (wanted..=most).contains(&bytes.len()) && Arc::strong_count(bytes) == 1,
            Store::Stamps(_) => false,
        };
        for free in &mut self.free_bytes[class_of(wanted)..=class_of(most)] {
            let start = free.len().saturating_sub(LOOK_AT);
            if let Some(position) = free[start..].iter().rposition(|&index| fits(index)) {
                let index = free.swap_remove(start + position);
                self.idle -= self.size(index);
                return Some(index);
            }
        }
        None
    }

    /// Gives free buffers back until one of `wanted` bytes may be free too, those of the class first that has most of the memory.
    fn make_room(&mut self, wanted: usize) {
        while self.idle > 0 && self.idle + wanted > PayloadPool::IDLE_MAX {
            let most = (0..CLASSES).max_by_key(|&class| self.free_bytes[class].len() << class);
            let Some(index) = most.and_then(|class| self.free_bytes[class].pop()) else { return };
            self.idle -= self.size(index);
            self.vacate(index);
        }
    }

    /// Buffer `index`, which nobody holds, gives its memory back.
    fn vacate(&mut self, index: u32) {
        self.buffers[index as usize].store = Store::Stamps(StampBuf::default());
        self.vacant.push(index);
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
            match &buffer.store {
                Store::Stamps(_) => self.free_stamps.push(index),
                Store::Bytes(bytes) if self.idle + bytes.len() > PayloadPool::IDLE_MAX => self.vacate(index),
                Store::Bytes(bytes) => {
                    self.idle += bytes.len();
                    self.free_bytes[class_of(bytes.len())].push(index);
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

    /// The bytes of two byte or metadata payloads in different buffers, the second to change. Panics for others.
    fn bytes_of_two(&mut self, from: Payload, to: Payload, len: ByteLen) -> (&[u8], &mut [u8]) {
        assert_ne!(from.buffer, to.buffer, "two buffers");
        let len = len.0 as usize;
        // SAFETY: as for `bytes` and `bytes_mut`, which these are of two buffers.
        unsafe {
            let source = self.byte_buf(from).slice(from.at as usize, len);
            (source, self.byte_buf(to).slice_mut(to.at as usize, len))
        }
    }

    /// The region as a handle that a worker thread of the server may use while the request is alive.
    pub fn region(&self, payload: Payload, len: ByteLen) -> ByteRegion {
        ByteRegion::new(Arc::clone(self.byte_buf(payload)), payload.at as usize, len.0 as usize)
    }
}
