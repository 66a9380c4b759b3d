//! Where the bytes of pages lie: slots of one page each, in memory or in a file.
//!
//! A page that is moved unchanged shares the slot of the old one, so a copy moves no bytes; a slot counts the pages that it holds.
//! A slot is written before anything says that it is used, and never again while anything durable may say so.
//!
//! In a file each read of a page compares its checksum: what is not what was written is unreadable, for good, and so is what is made of it.
//!
//! RAM: 8 bytes for each slot that was ever used at once, and in memory the pages themselves.

use super::file::Shared;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A page of nothing: it was never written.
pub const ERASED: u32 = 0;
/// A page of zeros.
pub const ZEROS: u32 = 1;
/// A page whose bytes are lost.
pub const LOST: u32 = u32::MAX;
/// A page of which nothing is known; it is not programmed before it is erased.
pub const TORN: u32 = u32::MAX - 1;
const FIRST: u32 = 2;

/// Where slots are.
#[derive(Debug)]
pub enum Home {
    /// The pages that were written.
    Memory(Vec<Box<[u8]>>),
    /// From this byte of the file on.
    File(Arc<Shared>, u64),
}

#[derive(Clone, Copy, Default, Debug)]
struct Use {
    /// Pages that it holds.
    pages: u32,
    /// The checksum of its bytes.
    sum: u32,
}

/// The slots of a drive.
#[derive(Debug)]
pub struct Slots {
    home: Home,
    page: usize,
    uses: Vec<Use>,
    free: Vec<u32>,
    /// A page of the file.
    scratch: Vec<u8>,
}

impl Slots {
    /// No slot is used.
    pub fn new(home: Home, page: usize) -> Slots {
        Slots { home, page, uses: Vec::new(), free: Vec::new(), scratch: Vec::new() }
    }

    fn index(slot: u32) -> usize {
        (slot - FIRST) as usize
    }

    /// Whether there are bytes to hold.
    pub fn is_real(slot: u32) -> bool {
        (FIRST..TORN).contains(&slot)
    }

    /// Slots in use.
    pub fn used(&self) -> u64 {
        (self.uses.len() - self.free.len()) as u64
    }

    /// The checksum of the bytes of a slot; 0 where there are none.
    pub fn sum(&self, slot: u32) -> u32 {
        if Slots::is_real(slot) { self.uses[Slots::index(slot)].sum } else { 0 }
    }

    /// Stores a page, held once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<u32> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(ZEROS);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.uses.push(Use::default());
            self.uses.len() as u32 - 1 + FIRST
        });
        let index = Slots::index(slot);
        let sum = match &mut self.home {
            Home::Memory(pages) => {
                match pages.get_mut(index) {
                    Some(page) if page.len() == bytes.len() => page.copy_from_slice(bytes),
                    Some(page) => *page = bytes.into(),
                    None => pages.push(bytes.into()),
                }
                0
            }
            Home::File(shared, start) => {
                shared.file.write_all_at(bytes, *start + index as u64 * self.page as u64)?;
                crc32c::crc32c(bytes)
            }
        };
        self.uses[index] = Use { pages: 1, sum };
        Ok(slot)
    }

    /// One more page is in the slot.
    pub fn share(&mut self, slot: u32) {
        if Slots::is_real(slot) {
            self.uses[Slots::index(slot)].pages += 1;
        }
    }

    /// One page less is in the slot. True when it was the last: the slot may be given back.
    pub fn leave(&mut self, slot: u32) -> bool {
        if !Slots::is_real(slot) {
            return false;
        }
        let used = &mut self.uses[Slots::index(slot)];
        used.pages -= 1;
        used.pages == 0
    }

    /// The slot may be written again.
    pub fn give_back(&mut self, slot: u32) {
        if let Home::Memory(pages) = &mut self.home {
            pages[Slots::index(slot)] = Box::default();
        }
        self.free.push(slot);
    }

    /// Where in the file a slot lies; none in memory or where there are no bytes.
    pub fn place(&self, slot: u32) -> Option<u64> {
        match &self.home {
            Home::File(_, start) if Slots::is_real(slot) => {
                Some(*start + (Slots::index(slot) * self.page) as u64)
            }
            _ => None,
        }
    }

    /// Reads a part of a slot. False when it cannot be read, or is not what was written.
    pub fn get(&mut self, slot: u32, first: usize, into: &mut [u8]) -> bool {
        if slot >= TORN {
            return false;
        }
        if !Slots::is_real(slot) {
            into.fill(0);
            return true;
        }
        let index = Slots::index(slot);
        match &self.home {
            Home::Memory(pages) => {
                into.copy_from_slice(&pages[index][first..first + into.len()]);
                true
            }
            Home::File(shared, start) => {
                let at = *start + (index * self.page) as u64;
                let sum = self.uses[index].sum;
                if into.len() == self.page {
                    return shared.file.read_exact_at(into, at).is_ok() && crc32c::crc32c(into) == sum;
                }
                self.scratch.resize(self.page, 0);
                let is_whole = shared.file.read_exact_at(&mut self.scratch, at).is_ok()
                    && crc32c::crc32c(&self.scratch) == sum;
                into.copy_from_slice(&self.scratch[first..first + into.len()]);
                is_whole
            }
        }
    }

    /// A start found a record of this slot.
    pub fn note(&mut self, slot: u32, sum: u32) {
        if Slots::is_real(slot) {
            let index = Slots::index(slot);
            if self.uses.len() <= index {
                self.uses.resize(index + 1, Use::default());
            }
            self.uses[index].sum = sum;
        }
    }

    /// A start has found everything: what is not used is free.
    pub fn all_found(&mut self) {
        let unused = (0..).zip(&self.uses).filter(|(_, used)| used.pages == 0);
        self.free = unused.map(|(index, _): (u32, _)| index + FIRST).collect();
        self.free.reverse();
    }

    /// Whether the bytes of a slot are those that were written.
    ///
    /// Of a slot in memory that is not asked: only a start asks.
    pub fn is_whole(&self, slot: u32, sum: u32, scratch: &mut [u8]) -> bool {
        let (Home::File(shared, _), Some(at)) = (&self.home, self.place(slot)) else { return true };
        shared.file.read_exact_at(scratch, at).is_ok() && crc32c::crc32c(scratch) == sum
    }
}
