//! Where the data of blocks is: one buffer for each block, in runs that store any. In plain simulation there is none.
//!
//! A block's buffer is its own and as long as the block, so that memory is what the directory counts, whatever requests
//! the data came with. The price is one copy when a block comes and one when it is read.

use crate::map::{Hashed, LineMap};
use nandu_base::{ByteLen, Content, Payload, PayloadPool};

/// Data by block.
#[derive(Debug)]
pub(super) struct Store {
    block: ByteLen,
    map: Hashed,
    buffers: Vec<Payload>,
    free: Vec<u32>,
}

impl Store {
    pub fn new(block: u64) -> Store {
        Store { block: ByteLen(block), map: Hashed::new(0), buffers: Vec::new(), free: Vec::new() }
    }

    /// Blocks that have data here.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    #[inline]
    pub fn get(&self, block: u64) -> Option<Payload> {
        self.map.get(block).map(|at| self.buffers[at as usize])
    }

    /// Keeps a copy of `from`, which is a whole block.
    pub fn put(&mut self, block: u64, from: Payload, pool: &mut PayloadPool) {
        if pool.content() == Content::Nothing || from.is_none() {
            return;
        }
        let to = match self.get(block) {
            Some(to) => to,
            None => {
                let to = pool.allocate_unfilled(self.block);
                self.adopt(block, to);
                to
            }
        };
        pool.copy(from, to, self.block);
    }

    /// Takes over a buffer of a whole block; the caller gives up its hold.
    fn adopt(&mut self, block: u64, buffer: Payload) {
        match self.free.pop() {
            Some(at) => {
                self.buffers[at as usize] = buffer;
                self.map.insert(block, at);
            }
            None => {
                self.buffers.push(buffer);
                self.map.insert(block, self.buffers.len() as u32 - 1);
            }
        }
    }

    /// Takes over a buffer of a whole block in place of what was here; the caller gives up its hold.
    pub fn replace(&mut self, block: u64, buffer: Payload, pool: &mut PayloadPool) {
        if !buffer.is_none() {
            self.drop(block, pool);
            self.adopt(block, buffer);
        }
    }

    /// Puts part of a block over what is here.
    pub fn patch(&mut self, block: u64, at: ByteLen, from: Payload, len: ByteLen, pool: &mut PayloadPool) {
        if let Some(to) = self.get(block) {
            pool.copy(from, to.slice(at), len);
        }
    }

    /// Forgets every block.
    pub fn clear(&mut self, pool: &mut PayloadPool) {
        let mut used = vec![true; self.buffers.len()];
        self.free.iter().for_each(|&at| used[at as usize] = false);
        for (&buffer, used) in self.buffers.iter().zip(used) {
            if used {
                pool.release(buffer);
            }
        }
        *self = Store::new(self.block.0);
    }

    /// Forgets a block.
    pub fn drop(&mut self, block: u64, pool: &mut PayloadPool) {
        if let Some(at) = self.map.get(block) {
            self.map.remove(block);
            pool.release(self.buffers[at as usize]);
            self.free.push(at);
        }
    }
}
