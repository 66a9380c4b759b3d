//! Reading pages from where they are: into frames, or past DRAM to the request that wants them.
//!
//! One load is one request to one child, of pages that lie there one after the other. A unit of a ring is not erased while
//! a load of it is under way (`pins`). When newer data has gone past DRAM to the disk meanwhile, a frame that was being
//! loaded is read again.

use crate::dram::NO_FRAME;
use crate::machine::{Hybrid, Tag};
use crate::map::Where;
use nandu_base::{ByteLen, ByteOffset, Cx, ErrorKind, Op, Payload, ReqId};

/// The request of nobody.
pub(crate) const NO_OP: u32 = u32::MAX;
/// Failed reads in a row for the sake of an append, after which the machine gives up.
const FILL_TRIES: u8 = 8;

/// A read from a child.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The request of the host that began it.
    op: u32,
    page: u32,
    count: u32,
    pub data: Payload,
    /// For each page its frame, or none: then the data goes to the request.
    pub frames: Vec<u32>,
    source: Where,
}

impl Load {
    /// Whether it reads from a ring.
    pub fn is_of_ring(&self) -> bool {
        matches!(self.source, Where::Slot(_))
    }

    /// It reads from the disk, whatever a ring has.
    pub fn reads_disk(&mut self) {
        self.source = Where::Disk;
    }
}

impl Hybrid {
    /// Where a page is read from.
    pub(crate) fn source(&self, page: u32) -> (u8, ByteOffset) {
        self.place_of(page, self.map.find(page))
    }

    fn place_of(&self, page: u32, at: Where) -> (u8, ByteOffset) {
        match at {
            Where::Slot(slot) => {
                let shape = &self.rings[self.ring_of_slot(slot)].shape;
                (shape.child, shape.offset_of(slot))
            }
            _ => (self.disk, ByteOffset(u64::from(page) * self.page)),
        }
    }

    /// Pages from `page` on, at most `most`, that have no frame and lie one after the other in one place.
    pub(crate) fn run_length(&self, page: u32, most: u32) -> u32 {
        let (limit, slot) = match self.map.find(page) {
            Where::Slot(slot) => {
                let shape = &self.rings[self.ring_of_slot(slot)].shape;
                let unit_end = shape.slot(shape.unit_of(slot) + 1, 0);
                ((unit_end - slot).min(shape.group_max.max(1)), Some(slot))
            }
            _ => ((self.policy.disk_max / self.page) as u32, None),
        };
        let goes_on = |k: u32| {
            let at = self.map.find(page + k);
            let follows = match slot {
                Some(slot) => at == Where::Slot(slot + k),
                None => !matches!(at, Where::Slot(_)),
            };
            follows && self.dram.find(page + k).is_none()
        };
        (1..most.min(limit)).find(|&k| !goes_on(k)).unwrap_or(most.min(limit))
    }

    /// A load of `count` pages on behalf of request `op`. The caller says which frames it is for.
    pub(crate) fn new_load(&mut self, page: u32, count: u32, op: u32) -> u32 {
        let source = self.map.find(page);
        let at = self.free_loads.pop().unwrap_or_else(|| {
            let (data, frames) = (Payload::NONE, Vec::new());
            self.loads.push(Load { op, page, count, data, frames, source });
            (self.loads.len() - 1) as u32
        });
        let load = &mut self.loads[at as usize];
        load.frames.clear();
        (load.op, load.page, load.count, load.source) = (op, page, count, source);
        at
    }

    /// Ends a load without an answer: the request that began it, its first page, its memory and its frames.
    pub(crate) fn take_load(&mut self, at: u32) -> (u32, u32, Payload, Vec<u32>) {
        self.free_loads.push(at);
        let load = &mut self.loads[at as usize];
        let data = std::mem::replace(&mut load.data, Payload::NONE);
        (load.op, load.page, data, std::mem::take(&mut load.frames))
    }

    /// Sends a load whose frames are known.
    pub(crate) fn send_load(&mut self, at: u32, cx: &mut Cx<'_>) {
        let Load { op, page, count, source, .. } = self.loads[at as usize];
        let len = u64::from(count) * self.page;
        let data = cx.pool.allocate(ByteLen(len));
        self.loads[at as usize].data = data;
        match source {
            Where::Slot(slot) => {
                let ring = self.ring_of_slot(slot);
                self.count.ring_hits[ring] += u64::from(count);
                let unit = self.rings[ring].shape.unit_of(slot);
                self.rings[ring].units[unit as usize].pins += 1;
                (slot..slot + count).for_each(|s| self.map.touch(s));
            }
            _ => self.count.disk_reads += u64::from(count),
        }
        let (child, offset) = self.place_of(page, source);
        if op == NO_OP {
            self.count.fills += 1;
            self.send_own(child, Op::Read, offset, len, data, Tag::Load, at, cx);
        } else {
            let parent = self.ops[op as usize].id;
            self.send_for(parent, child, Op::Read, offset, len, data, Tag::Load, at, cx);
        }
    }

    /// A load is over.
    pub(crate) fn load_done(&mut self, at: u32, id: ReqId, cx: &mut Cx<'_>) {
        if let Where::Slot(slot) = self.loads[at as usize].source {
            let ring = self.ring_of_slot(slot);
            let unit = self.rings[ring].shape.unit_of(slot);
            self.rings[ring].units[unit as usize].pins -= 1;
        }
        let error = cx.requests[id].error.map(|e| e.kind);
        if let (Some(_), Where::Slot(slot)) = (error, self.loads[at as usize].source)
            && self.is_through()
            && !self.planted.fails_with_ring
        {
            let Load { page, count, .. } = self.loads[at as usize];
            self.void_unread(page, count, slot);
            return self.load_from_disk(at, cx);
        }
        let data = std::mem::replace(&mut self.loads[at as usize].data, Payload::NONE);
        let frames = std::mem::take(&mut self.loads[at as usize].frames);
        let failures = self.count.failures;
        for (k, &frame) in (0..).zip(&frames) {
            let data = data.slice(ByteLen(u64::from(k) * self.page));
            match (frame, error) {
                (NO_FRAME, None) => self.give_past_dram(at, k, data, id, cx),
                (NO_FRAME, Some(kind)) => self.fail_part(self.loads[at as usize].op, kind, id, cx),
                (frame, None) => self.frame_loaded(at, k, frame, data, id, cx),
                (frame, Some(kind)) => self.frame_failed(frame, kind, id, cx),
            }
            if self.count.failures > failures {
                break; // the machine has given up, and all loads are gone
            }
        }
        if let (Some(load), true) = (self.loads.get_mut(at as usize), self.count.failures == failures) {
            load.frames = frames;
            self.free_loads.push(at);
        }
        cx.pool.release(data);
    }

    fn give_past_dram(&mut self, at: u32, k: u32, data: Payload, id: ReqId, cx: &mut Cx<'_>) {
        let (op, page) = (self.loads[at as usize].op, self.loads[at as usize].page + k);
        self.give(op, u64::from(page), data, cx);
        self.part_done(op, Some(id), cx);
    }

    fn fail_part(&mut self, op: u32, kind: ErrorKind, id: ReqId, cx: &mut Cx<'_>) {
        self.ops[op as usize].error = Some(kind);
        self.part_done(op, Some(id), cx);
    }

    fn frame_loaded(&mut self, at: u32, k: u32, frame: u32, data: Payload, id: ReqId, cx: &mut Cx<'_>) {
        let f = &mut self.dram.frames[frame as usize];
        f.loading = false;
        f.failures = 0;
        if std::mem::take(&mut f.stale_load) && !self.planted.stale_load {
            // Newer data is on the disk. Who waits may have come after it.
            if let Some(&op) = f.waiters.first() {
                self.complete_frame(frame, op, cx);
            }
            self.dram.settle(frame);
            return;
        }
        self.fill_frame(frame, data, cx);
        self.decide_to_promote(at, k, frame);
        let page = u64::from(self.dram.frames[frame as usize].page);
        let waiters = std::mem::take(&mut self.dram.frames[frame as usize].waiters);
        for &op in &waiters {
            self.give(op, page, self.dram.frames[frame as usize].data, cx);
            self.part_done(op, Some(id), cx);
        }
        self.put_back(frame, waiters);
    }

    fn frame_failed(&mut self, frame: u32, kind: ErrorKind, id: ReqId, cx: &mut Cx<'_>) {
        let f = &mut self.dram.frames[frame as usize];
        (f.loading, f.stale_load) = (false, false);
        f.failures += 1;
        let failures = f.failures;
        let waiters = std::mem::take(&mut f.waiters);
        for &op in &waiters {
            self.fail_part(op, kind, id, cx);
        }
        self.put_back(frame, waiters);
        if failures >= FILL_TRIES {
            self.dram.frames[frame as usize].failures = 0;
            self.fail(kind, cx);
        }
    }

    /// Gives a frame its list of waiters back, empty, so that it need not grow again.
    fn put_back(&mut self, frame: u32, mut waiters: Vec<u32>) {
        waiters.clear();
        self.dram.frames[frame as usize].waiters = waiters;
        self.dram.settle(frame);
    }

    /// S4-5: what was found below the top ring is copied there, as far as it is admitted (W4-2).
    fn decide_to_promote(&mut self, at: u32, k: u32, frame: u32) {
        let load = &self.loads[at as usize];
        let is_below = match load.source {
            Where::Slot(slot) => self.ring_of_slot(slot) > 0,
            _ => true,
        };
        let is_dirty = match load.source {
            Where::Slot(slot) => self.map.is_dirty(slot + k),
            _ => false,
        };
        self.promote(frame, is_below, is_dirty);
    }
}
