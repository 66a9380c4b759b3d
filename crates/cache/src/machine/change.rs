//! Changes that go through: writes, trims and write-zeroes.
//!
//! While a change is under way nobody knows what the device holds there. Its blocks stay in the policy's lists, but reads
//! of them go below and fills of them are not kept. At a good end the cache holds the new data, unless another change met
//! this one: then the order in which the device took them is not known, and the blocks are forgotten. A change of more
//! than 1024 blocks is kept as a range and leaves nothing in the cache.
//!
//! Dirty blocks that a change concerns are destaged first, so that the device has what was acknowledged should it fail.

use super::{Cache, Tag};
use crate::directory::Found;
use crate::map::LineMap;
use crate::prefetch::Range;
use crate::replacement::{Arrival, Cause};
use nandu_base::{ByteLen, Cx, Draft, ErrorKind, Op, Payload, ReqId, Step};

/// Blocks beyond which a change is kept as a range.
const WIDE: u64 = 1024;

/// A change under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    id: ReqId,
    blocks: Range,
    upheavals: u64,
    /// Dirty blocks that must be below first.
    dirty: u64,
    sequential: bool,
    sent: bool,
}

/// The range of a long change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide {
    number: u32,
    blocks: Range,
}

/// Changes of one block, as the map keeps them: how many, and whether any two met.
const ONE: u32 = 2;
const MET: u32 = 1;

impl Cache {
    /// Whether a change of `block` is under way.
    #[inline]
    pub(super) fn is_changing(&self, block: u64) -> bool {
        (!self.changing.is_empty() && self.changing.get(block).is_some())
            || self.wide.iter().any(|w| w.blocks.first <= block && block < w.blocks.end)
    }

    pub(super) fn write(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if let Some(step) = self.write_back(id, cx) {
            return step;
        }
        self.change(id, cx)
    }

    /// A change goes through.
    pub(super) fn change(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let blocks = self.touched(request.offset, request.len);
        let write = request.op == Op::Write;
        let sequential = self.follows(blocks);
        let wide = blocks.end - blocks.first > WIDE;
        self.upheavals += u64::from(wide);
        // Beside a long change nobody knows what the device holds in the end.
        let beside = self.wide.iter().any(|w| w.blocks.first < blocks.end && blocks.first < w.blocks.end);
        let upheavals = if beside { u64::MAX } else { self.upheavals };
        let change = Change { id, blocks, upheavals, dirty: 0, sequential, sent: false };
        let number = self.changes.add(change);
        if wide {
            self.wide.push(Wide { number, blocks });
            self.forget_range(blocks);
        } else {
            for block in blocks.first..blocks.end {
                let others = self.changing.get(block).unwrap_or(0);
                let met = if others > 0 { MET } else { 0 };
                self.changing.insert(block, (others + ONE) | met);
                self.spoil(block);
                if write && self.directory.holds(block) {
                    self.directory.access(block, true);
                }
            }
        }
        self.sweep(cx);
        let dirty = self.buffer.as_mut().map_or(0, |buffer| buffer.dirty_in(blocks));
        self.changes[number].dirty = dirty;
        if dirty > 0 {
            self.destage_more(cx);
            return Step::Idle;
        }
        self.send_change(number, cx)
    }

    /// Whether `blocks` begin where the request before ended; remembers their end.
    pub(super) fn follows(&mut self, blocks: Range) -> bool {
        std::mem::replace(&mut self.last_end, blocks.end) == blocks.first
    }

    fn send_change(&mut self, number: u32, cx: &mut Cx<'_>) -> Step {
        let change = &mut self.changes[number];
        change.sent = true;
        let request = &cx.requests[change.id];
        let payload = if request.op == Op::Write { request.payload } else { Payload::NONE };
        let draft = Draft {
            op: request.op,
            flags: request.flags,
            offset: request.offset,
            len: request.len,
            payload,
            cookie: Tag::Change.cookie(number),
        };
        let child = cx.child(change.id, draft);
        Step::Send(0, child)
    }

    /// What is on its way for `block` must not be kept, and nobody may wait for it.
    pub(super) fn spoil(&mut self, block: u64) {
        if let Some(fill) = self.flying.get(block) {
            self.flying.remove(block);
            self.fills[fill].spoil(block);
        }
    }

    /// Nothing of `blocks` stays, or is kept when it comes.
    fn forget_range(&mut self, blocks: Range) {
        let shift = self.directory.shift();
        let (first, last) = (blocks.first >> shift, (blocks.end - 1) >> shift);
        self.directory.forget_lines(first, last);
        let flying = &mut self.flying;
        self.fills.iter_mut().filter(|(_, fill)| fill.meets(blocks)).for_each(|(_, f)| f.spoil_all(flying));
    }

    /// A change has ended.
    pub(super) fn changed(&mut self, child: ReqId, number: u32, cx: &mut Cx<'_>) -> Step {
        let id = self.changes[number].id;
        cx.absorb(id, child);
        cx.requests[id].error = cx.requests[child].error;
        self.end_change(number, cx)
    }

    fn end_change(&mut self, number: u32, cx: &mut Cx<'_>) -> Step {
        let change = self.changes.take(number);
        if let Some(at) = self.wide.iter().position(|w| w.number == number) {
            self.wide.remove(at);
            return Step::Finish(change.id);
        }
        let request = &cx.requests[change.id];
        let calm = change.upheavals == self.upheavals;
        let good = request.error.is_none() && request.op == Op::Write && calm;
        let (offset, end, payload) = (request.offset.0, request.end().0, request.payload);
        let start = change.blocks.first.max(offset.div_ceil(self.block));
        let share = match good {
            true => {
                let at = ByteLen((start << self.block_bits) - offset);
                self.store.begin(start, change.blocks.end - start, payload.slice(at), cx.pool)
            }
            false => None,
        };
        for block in change.blocks.first..change.blocks.end {
            let left = self.changing.get(block).unwrap_or(ONE) - ONE;
            if left < ONE {
                self.changing.remove(block);
            } else {
                self.changing.insert(block, left);
            }
            if good && left == 0 {
                self.install(block, &change, (offset, end), (payload, share), cx);
            } else {
                self.forget_block(block);
            }
        }
        self.sweep(cx);
        self.store.end(share, cx.pool);
        Step::Finish(change.id)
    }

    pub(super) fn forget_block(&mut self, block: u64) {
        let shift = self.directory.shift();
        self.directory.forget(block >> shift, 1 << (block & ((1 << shift) - 1)));
    }

    /// The device has the new data of `block`, and so has the cache from now on.
    fn install(
        &mut self,
        block: u64,
        change: &Change,
        (offset, end): (u64, u64),
        (from, share): (Payload, Option<u32>),
        cx: &mut Cx<'_>,
    ) {
        let (at, within, len) = self.part(block, offset, end);
        let whole = len.0 == self.block;
        let here = self.directory.holds(block);
        if self.planted.stale_hit && here {
            return;
        }
        if whole && (here || self.make_room(block, change.sequential)) {
            self.sweep(cx);
            if let Some(share) = share {
                self.store.put(block, from.slice(at), share, cx.pool);
            }
        } else if here {
            self.store.patch(block, within, from.slice(at), len, cx.pool);
        }
    }

    /// A block that is written comes into the directory. False when no memory is left.
    pub(super) fn make_room(&mut self, block: u64, sequential: bool) -> bool {
        let shift = self.directory.shift();
        let (line, bit) = (block >> shift, 1 << (block & ((1 << shift) - 1)));
        if self.directory.access(block, true) != Found::Absent {
            return true;
        }
        let recall = match self.directory.is_new(line) {
            true => self.directory.announce(line, Cause::Write),
            false => Default::default(),
        };
        if !self.directory.reserve(1, recall) {
            return false;
        }
        self.directory.admit(line, bit, 0, Arrival { cause: Cause::Write, recall, sequential });
        true
    }

    /// `block` is no longer dirty: changes that waited for it go below when it was the last.
    pub(super) fn release_changes(&mut self, block: u64, cx: &mut Cx<'_>) {
        for number in self.waiting_for(block) {
            self.changes[number].dirty -= 1;
            if self.changes[number].dirty == 0 {
                let step = self.send_change(number, cx);
                cx.effects.push(nandu_base::Effect::Step(step));
            }
        }
    }

    fn waiting_for(&mut self, block: u64) -> Vec<u32> {
        let waits = |c: &Change| !c.sent && c.blocks.first <= block && block < c.blocks.end;
        self.changes.iter_mut().filter(|(_, c)| waits(c)).map(|(number, _)| number).collect()
    }

    /// `block` could not be destaged: changes that waited for it fail, and the device has not seen them.
    pub(super) fn fail_changes(&mut self, block: u64, cx: &mut Cx<'_>) {
        for number in self.waiting_for(block) {
            let id = self.changes[number].id;
            cx.requests[id].fail(ErrorKind::WriteFailed);
            let step = self.end_change(number, cx);
            cx.effects.push(nandu_base::Effect::Step(step));
        }
    }

    /// The ranges that changes wait for.
    pub(super) fn next_awaited(&self) -> Option<Range> {
        self.changes.iter().find(|c| !c.sent).map(|c| c.blocks)
    }
}

/// Bytes of a block that a request covers in full are what write-back keeps.
pub(super) fn is_whole(offset: u64, len: ByteLen, block: u64) -> bool {
    offset.is_multiple_of(block) && len.0.is_multiple_of(block)
}
