//! Where the data of blocks is, in runs that store any. In plain simulation there is none.
//!
//! Blocks share the buffer with which they came, that of a fill or of a write: nothing is copied when a block comes. Such a
//! buffer is kept whole as long as any of its blocks is. So that memory stays within twice what the blocks take, blocks that fill less
//! than half of the one they share are moved to buffers of their own as soon as all buffers together take more than that; a block is
//! moved once at most. Blocks that leave in the order in which they came are not moved: few buffers are partly used then.
//! What is kept is never changed: others may hold the same buffer. A block of which a part is written gets a new one.
//!
//! Blocks that are dirty are here too ([`super::buffer`]), and count as those that the directory counts.
//!
//! A read is answered by one copy, for its payload is the place where its data goes.

use super::slots::Slots;
use crate::map::{LineMap, Rows};
use nandu_base::{ByteLen, Content, Payload, PayloadPool};
use std::collections::BTreeSet;

/// The data of one block.
#[derive(Clone, Copy, Debug)]
struct Entry {
    data: Payload,
    /// The buffer it shares, or [`OWN`].
    share: u32,
}

/// A buffer of its own.
const OWN: u32 = u32::MAX;

/// A buffer that brought blocks in a row.
#[derive(Clone, Copy, Debug)]
struct Share {
    first: u64,
    blocks: u64,
    /// Blocks that are still in it.
    living: u64,
    /// More may come: it stays, however few live in it.
    open: bool,
    /// Bytes of memory.
    bytes: u64,
}

/// Data by block.
#[derive(Debug)]
pub(super) struct Store {
    block: ByteLen,
    map: Rows,
    entries: Vec<Entry>,
    free: Vec<u32>,
    shares: Slots<Share>,
    /// Shares of which less than half is used.
    sparse: BTreeSet<u32>,
    /// Bytes of all buffers that are shared, and blocks in them.
    shared_bytes: u64,
    shared: u64,
    /// Blocks that were moved to buffers of their own.
    moved: u64,
}

impl Store {
    pub fn new(block: u64) -> Store {
        Store {
            block: ByteLen(block),
            map: Rows::new(0),
            entries: Vec::new(),
            free: Vec::new(),
            shares: Slots::default(),
            sparse: BTreeSet::new(),
            shared_bytes: 0,
            shared: 0,
            moved: 0,
        }
    }

    /// Blocks that have data here.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes of the buffers that are kept.
    pub fn bytes(&self) -> u64 {
        (self.map.len() as u64 - self.shared) * self.block.0 + self.shared_bytes
    }

    /// Blocks that were moved to buffers of their own.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    #[inline]
    pub fn get(&self, block: u64) -> Option<Payload> {
        self.map.get(block).map(|at| self.entries[at as usize].data)
    }

    /// `payload` brings the `blocks` blocks from `first` on, of which some will be [`put`](Store::put). [`None`] when there is
    /// nothing to keep.
    pub fn begin(&mut self, first: u64, blocks: u64, payload: Payload, pool: &PayloadPool) -> Option<u32> {
        if pool.content() == Content::Nothing || payload.is_none() || blocks == 0 {
            return None;
        }
        let bytes = pool.held_bytes(payload).max(blocks * self.block.0);
        Some(self.shares.add(Share { first, blocks, living: 0, open: true, bytes }))
    }

    /// Keeps `data`, a whole block of what `share` brings, in place of what was here.
    pub fn put(&mut self, block: u64, data: Payload, share: u32, pool: &mut PayloadPool) {
        self.drop(block, pool);
        pool.keep(data);
        self.shares[share].living += 1;
        self.shared += 1;
        self.enter(block, Entry { data, share });
    }

    /// Everything that `share` brings and that is to be kept is here.
    pub fn end(&mut self, share: Option<u32>, pool: &mut PayloadPool) {
        if let Some(share) = share {
            self.shares[share].open = false;
            self.shared_bytes += self.shares[share].bytes;
            self.look_at(share);
            self.keep_within_bound(pool);
        }
    }

    fn enter(&mut self, block: u64, entry: Entry) {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                self.map.insert(block, at);
            }
            None => {
                self.entries.push(entry);
                self.map.insert(block, self.entries.len() as u32 - 1);
            }
        }
    }

    /// Gives `share` up when none of it is used, and remembers it when less than half is.
    fn look_at(&mut self, share: u32) {
        let Share { living, open, bytes, .. } = self.shares[share];
        if open {
            return;
        }
        if living == 0 {
            self.give_up(share);
        } else if bytes > 2 * living * self.block.0 {
            self.sparse.insert(share);
        }
    }

    fn give_up(&mut self, share: u32) -> Share {
        let gone = self.shares.take(share);
        self.sparse.remove(&share);
        self.shared_bytes -= gone.bytes;
        self.shared -= gone.living;
        gone
    }

    /// Moves blocks to buffers of their own while all buffers take more than twice what the blocks take.
    fn keep_within_bound(&mut self, pool: &mut PayloadPool) {
        while self.bytes() > 2 * self.map.len() as u64 * self.block.0
            && let Some(&share) = self.sparse.first()
        {
            let Share { first, blocks, .. } = self.give_up(share);
            (first..first + blocks).for_each(|block| self.move_out(block, share, pool));
        }
    }

    /// `block` gets a buffer of its own if it shares `share`.
    fn move_out(&mut self, block: u64, share: u32, pool: &mut PayloadPool) {
        let Some(at) = self.map.get(block) else { return };
        let entry = &mut self.entries[at as usize];
        if entry.share == share {
            let own = pool.allocate_snug(self.block);
            pool.copy(entry.data, own, self.block);
            pool.release(entry.data);
            *entry = Entry { data: own, share: OWN };
            self.moved += 1;
        }
    }

    /// The data of the `blocks` blocks from `first` on as one payload, held once by the caller: the part of a buffer that has them all, or a
    /// copy.
    pub fn join(&self, first: u64, blocks: u64, pool: &mut PayloadPool) -> Payload {
        let Some(data) = self.get(first) else { return Payload::NONE };
        let follows = |at: u64| self.get(first + at) == Some(data.slice(ByteLen(at * self.block.0)));
        if (1..blocks).all(follows) {
            pool.keep(data);
            return data;
        }
        let whole = pool.allocate_unfilled(ByteLen(blocks * self.block.0));
        for at in 0..blocks {
            let data = self.get(first + at).expect("blocks that are joined have data");
            pool.copy(data, whole.slice(ByteLen(at * self.block.0)), self.block);
        }
        whole
    }

    /// Takes over a buffer of a whole block in place of what was here; the caller gives up its hold.
    fn replace(&mut self, block: u64, buffer: Payload, pool: &mut PayloadPool) {
        if !buffer.is_none() {
            self.drop(block, pool);
            self.enter(block, Entry { data: buffer, share: OWN });
        }
    }

    /// Puts part of a block over what is here.
    pub fn patch(&mut self, block: u64, at: ByteLen, from: Payload, len: ByteLen, pool: &mut PayloadPool) {
        if let Some(old) = self.get(block) {
            let new = pool.allocate_snug(self.block);
            pool.copy(old, new, self.block);
            pool.copy(from, new.slice(at), len);
            self.replace(block, new, pool);
        }
    }

    /// Forgets every block.
    pub fn clear(&mut self, pool: &mut PayloadPool) {
        let mut used = vec![true; self.entries.len()];
        self.free.iter().for_each(|&at| used[at as usize] = false);
        for (entry, used) in self.entries.iter().zip(used) {
            if used {
                pool.release(entry.data);
            }
        }
        *self = Store::new(self.block.0);
    }

    /// Forgets a block.
    pub fn drop(&mut self, block: u64, pool: &mut PayloadPool) {
        if let Some(at) = self.map.get(block) {
            let Entry { data, share } = self.entries[at as usize];
            self.map.remove(block);
            pool.release(data);
            self.free.push(at);
            if share != OWN {
                self.shares[share].living -= 1;
                self.shared -= 1;
                self.look_at(share);
            }
            self.keep_within_bound(pool);
        }
    }
}
