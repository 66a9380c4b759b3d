//! What the sectors of a disk hold in the server: the computed medium of `hdd` leaves, with real bytes.
//!
//! In a file it is the image of the disk: sector `i` at byte `512 i`, so that the disk of a server that has ended can be used without Nandu. A
//! write counts for whoever reads as soon as it is issued; it goes to the file when its window has ended, by the first
//! [`Medium::settle`] behind that. So the death of the process loses what had not passed under the head, as a power cut of the disk does.
//! What a power cut of the host takes of what was not flushed it takes in any order.
//!
//! *What is not noticed.* An image has no checksums: a sector of it that is changed from outside is served as it is. A file that is shorter or longer
//! is refused, one that cannot be read is the end of the drive. Checksums are the affair of a layer above.
//!
//! RAM: in memory what was written, in chunks of 256 KiB; in a file the data of writes that have not ended.

use super::file::Shared;
use nandu_base::{
    ByteLen, Instant, Medium, Oob, Payload, PayloadPool, Program, Rng, SECTOR, UnitState, Window,
};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CHUNK: u64 = 256 << 10;
/// Bytes that wait for a sync from which on one is asked for although nobody flushes.
const BYTES_WAIT: u64 = 64 << 20;

/// A write that has not ended, as far as is known.
#[derive(Debug)]
struct Pending {
    end: Instant,
    /// First byte.
    at: u64,
    len: u64,
    /// `None` for zeros.
    data: Option<Box<[u8]>>,
}

#[derive(Debug)]
enum Home {
    Memory(Vec<Option<Box<[u8]>>>),
    File { shared: Arc<Shared>, pending: Vec<Pending>, soonest: Instant, unsynced: u64 },
}

/// The contents of a disk.
#[derive(Debug)]
pub struct Disk {
    home: Home,
    used: bool,
}

impl Disk {
    /// A disk of zeros in memory.
    pub fn in_memory(sectors: u64) -> Disk {
        let chunks = (sectors * SECTOR).div_ceil(CHUNK) as usize;
        Disk { home: Home::Memory(vec![None; chunks]), used: false }
    }

    /// A disk in a file.
    pub fn in_file(shared: Arc<Shared>, is_new: bool) -> Disk {
        let home = Home::File { shared, pending: Vec::new(), soonest: Instant(u64::MAX), unsynced: 0 };
        Disk { home, used: !is_new }
    }
}

/// Calls `each` with every chunk of a range: its number, where in it the range begins, and which part of the range that is.
fn in_chunks(at: u64, len: u64, mut each: impl FnMut(usize, usize, std::ops::Range<usize>)) {
    let mut from = at;
    while from < at + len {
        let count = (CHUNK - from % CHUNK).min(at + len - from);
        let done = (from - at) as usize;
        each((from / CHUNK) as usize, (from % CHUNK) as usize, done..done + count as usize);
        from += count;
    }
}

fn write_through(shared: &Shared, pending: &Pending) -> io::Result<()> {
    match &pending.data {
        Some(data) => shared.file.write_all_at(data, pending.at),
        None => shared.clear(pending.at, pending.len),
    }
}

impl Medium for Disk {
    fn write(&mut self, pool: &PayloadPool, first: u64, count: u64, payload: Payload, window: Window) {
        self.used = true;
        let (at, len) = (first * SECTOR, count * SECTOR);
        let data = (!payload.is_none()).then(|| pool.bytes(payload, ByteLen(len)));
        match &mut self.home {
            Home::Memory(chunks) => in_chunks(at, len, |chunk, within, part| match data {
                Some(data) => {
                    let bytes = chunks[chunk].get_or_insert_with(|| vec![0; CHUNK as usize].into());
                    bytes[within..within + part.len()].copy_from_slice(&data[part]);
                }
                None if part.len() as u64 == CHUNK => chunks[chunk] = None,
                None => {
                    if let Some(bytes) = &mut chunks[chunk] {
                        bytes[within..within + part.len()].fill(0);
                    }
                }
            }),
            Home::File { pending, soonest, .. } => {
                *soonest = (*soonest).min(window.end);
                pending.push(Pending { end: window.end, at, len, data: data.map(Into::into) });
            }
        }
    }

    fn read(&mut self, pool: &mut PayloadPool, unit: u64, first: u32, count: u32, into: Payload) -> bool {
        if into.is_none() {
            return true;
        }
        let (at, len) = ((unit + u64::from(first)) * SECTOR, u64::from(count) * SECTOR);
        let into = pool.bytes_mut(into, ByteLen(len));
        match &self.home {
            Home::Memory(chunks) => {
                in_chunks(at, len, |chunk, within, part| match &chunks[chunk] {
                    Some(bytes) => into[part.clone()].copy_from_slice(&bytes[within..within + part.len()]),
                    None => into[part].fill(0),
                });
                true
            }
            Home::File { shared, pending, .. } => {
                if let Err(error) = shared.file.read_exact_at(into, at) {
                    // What the model has in its buffer would be wrong from here on.
                    shared.fail(&error);
                    return false;
                }
                for write in pending {
                    let (from, to) = (write.at.max(at), (write.at + write.len).min(at + len));
                    if from >= to {
                        continue;
                    }
                    let place = &mut into[(from - at) as usize..(to - at) as usize];
                    match &write.data {
                        Some(data) => {
                            place
                                .copy_from_slice(&data[(from - write.at) as usize..(to - write.at) as usize]);
                        }
                        None => place.fill(0),
                    }
                }
                true
            }
        }
    }

    fn is_blank(&self) -> bool {
        !self.used
    }

    fn settle(&mut self, now: Instant) {
        let Home::File { shared, pending, soonest, unsynced } = &mut self.home else { return };
        if *soonest > now {
            return;
        }
        // What overlaps ends in the order in which it was issued: the arm does one thing after the other.
        for write in pending.extract_if(.., |write| write.end <= now) {
            if let Err(error) = write_through(shared, &write) {
                shared.fail(&error);
            }
            *unsynced += write.len;
        }
        *soonest = pending.iter().map(|write| write.end).min().unwrap_or(Instant(u64::MAX));
        if *unsynced > BYTES_WAIT {
            *unsynced = 0;
            shared.wants_sync.store(true, Ordering::Release);
        }
    }

    fn crash(&mut self, at: Instant, _rng: &mut Rng) {
        unreachable!("the power of a served disk is cut by the end of its process, not at {at:?}")
    }

    fn program(&mut self, _pool: &PayloadPool, program: &Program) {
        unreachable!("a disk is written over, not programmed, at {}", program.unit)
    }

    fn erase(&mut self, first: u64, _units: u64, _window: Window) {
        unreachable!("a disk is not erased, at {first}")
    }

    fn state(&self, _unit: u64) -> UnitState {
        UnitState::Programmed(Oob { key: 0, seq: 0 })
    }

    fn erases(&self, _unit: u64) -> u32 {
        0
    }
}
