//! Block devices of the kernel (ublk) as clients of the reactor: a second door beside NBD, to the same exports.
//!
//! A request becomes one of the engine as an NBD request does, with the tag as its cookie, and is answered once. A device holds memory like a
//! connection: a request for which none is left waits in the list of those that have come, and the kernel sends at most as many as the device is deep.
//!
//! *The end.* A device is stopped while it is served: file systems on it write what they hold, and these requests are answered like all others.
//! Nothing is refused.
//!
//! *Taking over.* A server that dies leaves its device to the next one ([`crate::ublk`]), and whoever uses it notices nothing. So a stack that may have
//! forgotten what it had answered has to say so: the first flush fails, as after a loss ([`super::unsure`]). One of files alone has forgotten nothing.

use super::clients::errno_of;
use super::memory::Memory;
use super::ops::{Asker, Fit, HostOp, Target};
use super::{News, Reactor};
use crate::nbd::{Command, Cookie, Errno, Request};
use crate::ublk::abi::{Descriptor, op, request_flag};
use crate::ublk::{Port, Said, UblkError};
use nandu_base::{ByteLen, ByteOffset, Instant, Op, Payload};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

/// Bytes of a sector, in which the kernel counts.
const SECTOR: u64 = 512;
/// Data that a device may have moved in one turn before others have their turn.
const BYTES_PER_TURN: u64 = 4 << 20;

/// How a device stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Starting,
    Live,
    /// The kernel was asked to take it away.
    Stopping,
    /// It is taken away.
    Stopped,
}

/// A block device that is to be served.
pub(crate) struct BlockOffer {
    /// Place of its export among the exports.
    pub export: usize,
    pub port: Box<dyn Port>,
    /// Where it is.
    pub path: String,
    /// Requests that may be under way.
    pub depth: u16,
    /// A server before this one has served it, and died.
    pub is_taken_over: bool,
}

/// A block device.
pub(crate) struct Block {
    port: Box<dyn Port>,
    /// Where it is.
    path: String,
    /// Place of its export among the targets.
    export: usize,
    size: u64,
    read_only: bool,
    state: State,
    /// Tags for which a request may come, or has come.
    tags: usize,
    /// Losses of its export that it has heard of.
    pub(super) heard: u32,
    /// The server before may have answered what the stack has forgotten, and no flush has said so yet.
    pub(super) doubts: bool,
    /// Requests that have come and have not begun.
    ready: VecDeque<(u16, Descriptor)>,
    /// Requests that are under way, and the bytes that they hold.
    requests: usize,
    bytes: u64,
    memory: Rc<Memory>,
    /// The first of those that are ready finds no room; it waits for an answer, or for others to hold less.
    is_full: bool,
    starves: bool,
    /// Why it could not start.
    failure: Option<io::Error>,
}

impl Block {
    /// Whether a request that holds `weight` may begin.
    fn has_room(&mut self, weight: u64, most: u64) -> bool {
        self.is_full = self.bytes > 0 && self.bytes + weight > most;
        self.starves = !self.is_full && !self.memory.is_left(self.bytes, weight);
        self.memory.someone_waits(self.starves);
        !self.is_full && !self.starves
    }

    fn hold(&mut self, bytes: u64) {
        self.memory.change(self.bytes, self.bytes + bytes);
        self.bytes += bytes;
        self.requests += 1;
    }

    fn release(&mut self, bytes: u64) {
        self.memory.change(self.bytes, self.bytes - bytes);
        self.bytes -= bytes;
        self.requests -= 1;
        self.is_full = false;
    }

    /// Nothing is under way, and nothing comes any more.
    fn is_over(&self) -> bool {
        self.state == State::Stopped && self.tags == 0 && self.requests == 0
    }
}

/// What the kernel asks for, or why not.
fn request_of(tag: u16, asked: &Descriptor, size: u64, read_only: bool) -> Result<Request, Errno> {
    let zeroes = Command::WriteZeroes { no_hole: asked.flags & request_flag::NO_UNMAP != 0, fast: false };
    let command = match asked.op {
        op::READ => Command::Read { unfragmented: true },
        op::WRITE => Command::Write,
        op::FLUSH => Command::Flush,
        op::DISCARD => Command::Trim,
        op::WRITE_ZEROES => zeroes,
        _ => return Err(Errno::NotSup),
    };
    if command == Command::Flush {
        let (offset, length) = (ByteOffset(0), ByteLen::ZERO);
        return Ok(Request { cookie: Cookie(tag.into()), command, fua: false, offset, length });
    }
    let (start, length) = (asked.start.checked_mul(SECTOR), u64::from(asked.sectors) * SECTOR);
    let offset = start.filter(|start| start.checked_add(length).is_some_and(|end| end <= size));
    let offset = ByteOffset(offset.filter(|_| length > 0).ok_or(Errno::Inval)?);
    if read_only && !matches!(command, Command::Read { .. }) {
        return Err(Errno::Perm);
    }
    let fua = asked.flags & request_flag::FUA != 0;
    Ok(Request { cookie: Cookie(tag.into()), command, fua, offset, length: ByteLen(length) })
}

/// What the kernel is told of a failure.
fn refusal(errno: Errno) -> i32 {
    -(errno.number() as i32)
}

impl Reactor {
    /// Offers exports as block devices. These exports are offered already, and the devices are there when [`Reactor::blocks_are_live`].
    pub(crate) fn offer_blocks(&mut self, devices: Vec<BlockOffer>) {
        self.hear_losses();
        for BlockOffer { export, mut port, path, depth, is_taken_over } in devices {
            let doubts = is_taken_over && !self.keeps_answers(self.targets[export].node);
            port.start();
            self.blocks_stay_staged = true;
            let offered = &self.exports.all()[export];
            self.blocks.push(Block {
                port,
                path,
                export,
                size: offered.size.0,
                read_only: offered.read_only,
                state: State::Starting,
                tags: usize::from(depth),
                heard: self.unsure[self.targets[export].export as usize].losses(),
                doubts,
                ready: VecDeque::new(),
                requests: 0,
                bytes: 0,
                memory: Rc::clone(&self.memory),
                is_full: false,
                starves: false,
                failure: None,
            });
        }
    }

    /// Whether a device has what it has answered in files, whatever becomes of the process.
    fn keeps_answers(&self, node: u32) -> bool {
        match &self.host.legs[node as usize] {
            Some(leg) => leg.backend.path().is_some(),
            None => {
                self.graph.machine(node).needs().answers_from_below
                    && self.children[node as usize].iter().all(|&part| self.keeps_answers(part))
            }
        }
    }

    /// Whether every block device is there.
    ///
    /// # Errors
    /// One is not: what the kernel says.
    pub(crate) fn blocks_are_live(&mut self) -> Result<bool, UblkError> {
        for block in &mut self.blocks {
            if let Some(error) = block.failure.take() {
                let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                return Err(UblkError::Refused { what: format!("{}: starting it", block.path), errno });
            }
        }
        Ok(self.blocks.iter().all(|block| block.state != State::Starting))
    }

    /// Where the block devices are.
    pub fn block_paths(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().map(|block| block.path.as_str())
    }

    /// Whether something is to be done for a device that nobody will wake the reactor for.
    pub(super) fn blocks_have_work(&self) -> bool {
        let can_begin = |block: &Block| {
            let waits = block.is_full || block.starves || self.target_waits_for_deal(block.export);
            !block.ready.is_empty() && !waits
        };
        self.blocks_stay_staged || self.blocks.iter().any(can_begin)
    }

    /// Takes what has come from the kernel and begins what there is room for.
    pub(super) fn serve_blocks(&mut self, now: Instant) {
        for number in 0..self.blocks.len() {
            self.hear_of_block(number);
            if !self.target_waits_for_deal(self.blocks[number].export) {
                self.begin_of_block(number, now);
            }
        }
    }

    fn hear_of_block(&mut self, number: usize) {
        let block = &mut self.blocks[number];
        while let Some(said) = block.port.take() {
            match said {
                Said::Request(tag, asked) => block.ready.push_back((tag, asked)),
                Said::Left => {
                    block.tags -= 1;
                    if block.tags == 0 && block.state == State::Live {
                        // Another program has taken it away.
                        block.state = State::Stopped;
                        self.news.push(News::BlockGone(block.path.clone()));
                    }
                }
                Said::Started(Ok(())) => block.state = State::Live,
                Said::Started(Err(errno)) => block.failure = Some(errno.into()),
                Said::Stopped => block.state = State::Stopped,
            }
        }
    }

    fn begin_of_block(&mut self, number: usize, now: Instant) {
        let mut budget = BYTES_PER_TURN;
        while budget > 0 {
            let block = &mut self.blocks[number];
            let Some(&(tag, asked)) = block.ready.front() else { return };
            let target = self.targets[block.export];
            let request = match request_of(tag, &asked, block.size, block.read_only) {
                Ok(request) => request,
                Err(errno) => {
                    block.ready.pop_front();
                    block.port.answer(tag, refusal(errno));
                    continue;
                }
            };
            let weight = Fit::buffer(&request, target.align);
            if !block.has_room(weight, self.caps.bytes.0) {
                return;
            }
            block.ready.pop_front();
            budget = budget.saturating_sub(weight.max(1));
            self.begin_request_of_block(number, tag, &request, target, now);
        }
    }

    fn begin_request_of_block(
        &mut self,
        number: usize,
        tag: u16,
        request: &Request,
        target: Target,
        now: Instant,
    ) {
        let block = &mut self.blocks[number];
        let pool = &mut self.graph.pool;
        let payload = match Fit::buffer(request, target.align) {
            0 => Payload::NONE,
            bytes => pool.allocate_unfilled(ByteLen(bytes)),
        };
        if request.command == Command::Write {
            let data = payload.slice(ByteLen(request.offset.0 & (target.align - 1)));
            if block.port.data_of(tag, pool.bytes_mut(data, request.length)).is_err() {
                pool.release(payload);
                return block.port.answer(tag, refusal(Errno::Io));
            }
        }
        block.hold(pool.held_bytes(payload));
        self.begin(Asker::Block(number as u32), target, request, payload, now);
    }

    /// A request of a device has ended.
    pub(super) fn answer_block(&mut self, number: u32, ended: &HostOp) {
        let block = &mut self.blocks[number as usize];
        let pool = &mut self.graph.pool;
        let tag = ended.cookie.0 as u16;
        let result = match (ended.error, ended.op) {
            (Some(error), _) => refusal(errno_of(error.kind)),
            (None, Op::Read) => {
                let data = ended.payload.slice(ended.front());
                match block.port.give(tag, pool.bytes(data, ended.len)) {
                    Ok(()) => ended.len.0 as i32,
                    Err(_) => refusal(Errno::Io),
                }
            }
            // What moves no data ends with the bytes of its extent too, as far as they fit.
            (None, _) => i32::try_from(ended.len.0).unwrap_or(0),
        };
        let bytes = pool.held_bytes(ended.payload);
        pool.release(ended.payload);
        block.release(bytes);
        block.port.answer(tag, result);
    }

    /// Hands the answers of this turn to the kernel. `wakes`: memory has come back.
    pub(super) fn submit_blocks(&mut self, wakes: bool) {
        self.blocks_stay_staged = false;
        for block in &mut self.blocks {
            block.starves &= !wakes;
            self.blocks_stay_staged |= !block.port.submit();
        }
    }

    /// Has every device taken away, which goes on being served meanwhile.
    pub(super) fn stop_blocks(&mut self) {
        for block in self.blocks.iter_mut().filter(|block| block.state != State::Stopped) {
            block.state = State::Stopping;
            block.port.stop();
            self.blocks_stay_staged = true;
        }
    }

    /// Whether every device is taken away and what it asked for is answered.
    pub(super) fn blocks_are_over(&self) -> bool {
        self.blocks.iter().all(Block::is_over)
    }

    /// Forgets the devices, which are over, and so does the kernel.
    ///
    /// # Errors
    /// What the kernel says of the first that it does not forget.
    pub(crate) fn delete_blocks(&mut self) -> Result<(), UblkError> {
        let blocks = std::mem::take(&mut self.blocks);
        blocks.into_iter().map(|block| block.port.delete()).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests;
