//! A medium in memory: chunks that exist once written.
//!
//! Requests end at once. The content survives a leg that is failed and added again, as that of an unplugged drive does.
//! RAM: what was written, in chunks of 256 KiB, and freed again by trims of whole chunks.

use super::{BlockBackend, BlockIo, Done, Failure, LegError};
use nandu_base::Op;
use std::collections::BTreeMap;
use std::path::Path;

const CHUNK: u64 = 256 << 10;

/// The medium.
#[derive(Debug, Default)]
pub struct Memory {
    node: u32,
    chunks: BTreeMap<u64, Box<[u8]>>,
    given_up: bool,
    /// It is blank when it is opened again.
    replaced: bool,
}

impl Memory {
    /// All zeros, for leaf `node`.
    pub fn new(node: u32) -> Memory {
        Memory { node, ..Memory::default() }
    }

    fn serve(&mut self, io: &BlockIo) {
        let (start, end) = (io.offset.0, io.offset.0 + io.len.0);
        let mut at = start;
        while at < end {
            let (chunk, within) = (at / CHUNK, (at % CHUNK) as usize);
            let count = (CHUNK - at % CHUNK).min(end - at);
            let data = (at - start) as usize..(at - start + count) as usize;
            let place = within..within + count as usize;
            match (io.op, &io.data) {
                (Op::Read, Some(region)) => {
                    // SAFETY: the leaf that serves a read is the one writer of its payload until the request ends.
                    let into = unsafe { &mut region.as_mut_slice()[data] };
                    match self.chunks.get(&chunk) {
                        Some(bytes) => into.copy_from_slice(&bytes[place]),
                        None => into.fill(0),
                    }
                }
                (Op::Write, Some(region)) => {
                    // SAFETY: the payload of a write is complete before it is sent, and does not change on its way.
                    let from = unsafe { &region.as_slice()[data] };
                    let bytes = self.chunks.entry(chunk).or_insert_with(|| vec![0; CHUNK as usize].into());
                    bytes[place].copy_from_slice(from);
                }
                (Op::Read | Op::Flush | Op::Reset, _) => {}
                (Op::Write | Op::Trim | Op::WriteZeroes, _) if count == CHUNK => {
                    self.chunks.remove(&chunk);
                }
                (Op::Write | Op::Trim | Op::WriteZeroes, _) => {
                    if let Some(bytes) = self.chunks.get_mut(&chunk) {
                        bytes[place].fill(0);
                    }
                }
            }
            at += count;
        }
    }
}

impl BlockBackend for Memory {
    fn submit(&mut self, io: BlockIo, done: &mut Vec<Done>) {
        let result = if self.given_up {
            Err(Failure::gone(io.len))
        } else {
            self.serve(&io);
            Ok(())
        };
        done.push(Done { node: self.node, id: io.id, result });
    }

    fn give_up(&mut self) {
        self.given_up = true;
    }

    fn prepare(&mut self, with: Option<&Path>) -> Result<(), LegError> {
        if let Some(path) = with {
            let why = "the leg is in memory and has no file".into();
            let remedy = "replace it without naming one";
            return Err(LegError { path: path.display().to_string(), why, remedy, missing: false });
        }
        self.replaced = true;
        Ok(())
    }

    fn forget_prepared(&mut self) {
        self.replaced = false;
    }

    fn reopen(&mut self) -> Result<(), LegError> {
        if std::mem::take(&mut self.replaced) {
            self.chunks.clear();
        }
        self.given_up = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{ByteLen, ByteOffset, Content, PayloadPool, ReqId};

    fn io(pool: &mut PayloadPool, op: Op, offset: u64, len: u64, fill: u8) -> BlockIo {
        let payload = pool.allocate(ByteLen(len));
        pool.bytes_mut(payload, ByteLen(len)).fill(fill);
        let data = matches!(op, Op::Read | Op::Write).then(|| pool.region(payload, ByteLen(len)));
        BlockIo { id: ReqId(0), op, fua: false, offset: ByteOffset(offset), len: ByteLen(len), data }
    }

    #[test]
    fn what_is_written_is_read_across_chunks_and_trims_read_as_zeros() {
        let mut pool = PayloadPool::new(Content::Bytes);
        let mut memory = Memory::new(0);
        let mut done = Vec::new();
        let write = io(&mut pool, Op::Write, CHUNK - 512, 2 * CHUNK, 7);
        memory.submit(write, &mut done);
        let trim = io(&mut pool, Op::Trim, CHUNK, CHUNK, 0);
        memory.submit(trim, &mut done);
        assert_eq!(memory.chunks.len(), 2, "a whole chunk is freed");
        let read = io(&mut pool, Op::Read, CHUNK - 1024, 2 * CHUNK + 1024, 9);
        let region = read.data.clone().expect("a read has a region");
        memory.submit(read, &mut done);
        // SAFETY: the read has ended.
        let bytes = unsafe { region.as_slice() };
        let expect = |at: usize| match at {
            0..512 => 0,
            512..1024 => 7,
            n if n < 1024 + CHUNK as usize => 0,
            n if n < 512 + 2 * CHUNK as usize => 7,
            _ => 0,
        };
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == expect(at)));
        assert!(done.iter().all(|d| d.result.is_ok()));
    }

    #[test]
    fn a_device_that_was_given_up_fails_until_it_is_opened_again() {
        let mut pool = PayloadPool::new(Content::Bytes);
        let mut memory = Memory::new(3);
        let mut done = Vec::new();
        memory.give_up();
        let write = io(&mut pool, Op::Write, 0, 512, 1);
        memory.submit(write, &mut done);
        assert_eq!(done[0].result, Err(Failure::gone(ByteLen(512))));
        memory.reopen().expect("memory is always there");
        let write = io(&mut pool, Op::Write, 0, 512, 1);
        memory.submit(write, &mut done);
        assert_eq!(done[1].result, Ok(()));
    }
}
