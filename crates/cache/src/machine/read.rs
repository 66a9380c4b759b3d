//! Reads: what is in memory, what is on its way, and what must be read below.

use super::{Cache, Tag};
use crate::directory::Found;
use crate::map::LineMap;
use crate::prefetch::{Look, Range};
use nandu_base::{ByteLen, ByteOffset, Cx, Draft, Flags, IoError, Op, ReqId, SECTOR, Step};

/// A read that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub id: ReqId,
    /// Fills and reads of its own that are under way.
    pub left: u32,
}

impl Cache {
    pub(super) fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (offset, end) = (request.offset.0, request.end().0);
        let asked = self.touched(request.offset, request.len);
        self.sequential = self.follows(asked);
        self.missing.clear();
        let mut wait = None;
        let late = self.tally.late;
        for block in asked.first..asked.end {
            let dirty = self.buffer.as_ref().is_some_and(|b| b.holds(block));
            if !dirty && self.is_changing(block) {
                self.tally.passed_by += 1;
                let wait = self.waiting(&mut wait, id);
                self.direct(wait, Range { first: block, end: block + 1 }, cx);
                continue;
            }
            let found = self.directory.access(block, false);
            if self.copy_out(block, found, id, offset, end, cx) {
                if found == Found::Prefetched {
                    self.tell_use(block, 1, cx);
                }
                continue;
            }
            match self.flying.get(block) {
                Some(fill) => self.join(fill, block, id, &mut wait, cx),
                None => match self.missing.last_mut() {
                    Some(run) if run.end == block => run.end += 1,
                    _ => self.missing.push(Range { first: block, end: block + 1 }),
                },
            }
        }
        self.sweep(cx);
        self.plan(asked, self.tally.late > late);
        if !(self.missing.is_empty() && self.planned.is_empty()) {
            self.bring(id, &mut wait, cx);
        }
        match wait {
            Some(_) => Step::Idle,
            None => self.answer(id, cx),
        }
    }

    /// Puts the data of `block` into the read's payload. False when it is not in memory.
    fn copy_out(
        &mut self,
        block: u64,
        found: Found,
        id: ReqId,
        offset: u64,
        end: u64,
        cx: &mut Cx<'_>,
    ) -> bool {
        let dirty = self.buffer.as_ref().is_some_and(|b| b.holds(block));
        if !dirty && found == Found::Absent {
            return false;
        }
        let to = cx.requests[id].payload;
        if to.is_none() {
            return true;
        }
        let data = self.store.get(block).expect("I-2: a block in memory has its data");
        let (at, from, len) = self.part(block, offset, end);
        cx.pool.copy(data.slice(from), to.slice(at), len);
        true
    }

    /// The number under which the read waits.
    pub(super) fn waiting(&mut self, wait: &mut Option<u32>, id: ReqId) -> u32 {
        *wait.get_or_insert_with(|| self.reads.add(Waiting { id, left: 0 }))
    }

    /// The read waits for `block`, which fill number `fill` is bringing.
    fn join(&mut self, fill: u32, block: u64, id: ReqId, wait: &mut Option<u32>, cx: &mut Cx<'_>) {
        let wait = self.waiting(wait, id);
        let fill = &mut self.fills[fill];
        let is_first = fill.meet(block);
        if fill.wait(wait, block) {
            self.reads[wait].left += 1;
        }
        if is_first {
            self.tally.late += 1;
            self.tell_use(block, 1, cx);
        } else {
            self.tally.joined += 1;
        }
    }

    /// With `use_hints`: the device below hears that blocks are used which it brought with others.
    pub(super) fn tell_use(&self, block: u64, blocks: u64, cx: &mut Cx<'_>) {
        if self.config.use_hints {
            cx.used(0, ByteOffset(block << self.block_bits), ByteLen(blocks << self.block_bits));
        }
    }

    /// Asks the prefetcher what to bring.
    fn plan(&mut self, asked: Range, late: bool) {
        let tally = &self.directory.tally;
        let met = tally.prefetch_hits + self.tally.late;
        let look = Look {
            asked,
            missing: &self.missing,
            used: met,
            retired: met + tally.culled + tally.evicted_unused,
            late,
        };
        self.planned.clear();
        self.prefetch.plan(&look, &mut self.planned);
        self.planned.retain_mut(|range| {
            range.end = range.end.min(self.blocks);
            range.first < range.end
        });
        if self.leaves_holes {
            self.leave_holes();
        }
    }

    /// With holes filled alone: nothing is brought into segments that are partly here.
    fn leave_holes(&mut self) {
        let (directory, span) = (&self.directory, self.span);
        self.pieces.clear();
        for range in self.planned.drain(..) {
            let mut first = range.first;
            while first < range.end {
                let end = (first + span).min(range.end);
                if !(first..end).any(|block| directory.holds(block)) {
                    self.pieces.push(Range { first, end });
                }
                first = end;
            }
        }
        std::mem::swap(&mut self.planned, &mut self.pieces);
    }

    /// Reads `run` straight into the payload of the read, past the cache.
    pub(super) fn direct(&mut self, wait: u32, run: Range, cx: &mut Cx<'_>) {
        let id = self.reads[wait].id;
        let request = &cx.requests[id];
        let (payload, flags) = (request.payload, request.flags);
        let start = (run.first << self.block_bits).max(request.offset.0);
        let end = (run.end << self.block_bits).min(request.end().0);
        let at = ByteLen(start - request.offset.0);
        let draft = Draft {
            op: Op::Read,
            flags,
            offset: ByteOffset(start),
            len: ByteLen(end - start),
            payload: payload.slice(at),
            cookie: Tag::Direct.cookie(wait) | at.sectors() << 32,
        };
        self.reads[wait].left += 1;
        self.tally.fills += 1;
        self.tally.fill_bytes += end - start;
        let child = cx.child(id, draft);
        cx.send(0, child);
    }

    pub(super) fn direct_done(&mut self, child: ReqId, wait: u32, cx: &mut Cx<'_>) -> Step {
        let done = &cx.requests[child];
        let parent = self.reads[wait].id;
        if let Some(error) = done.error {
            let before = (done.cookie >> 32 & 0xFF_FFFF) * SECTOR;
            let error = IoError { at: ByteLen(before + error.at.0), ..error };
            cx.requests[parent].fail_part(error.kind, error.at, error.len);
        }
        self.arrived(wait, child, cx)
    }

    /// One thing that a read waited for has come with `child`.
    pub(super) fn arrived(&mut self, wait: u32, child: ReqId, cx: &mut Cx<'_>) -> Step {
        let read = &mut self.reads[wait];
        read.left -= 1;
        if read.left > 0 {
            return Step::Idle;
        }
        let read = self.reads.take(wait);
        cx.absorb(read.id, child);
        Step::Finish(read.id)
    }

    /// Flags of a read that nobody waits for.
    pub(super) const AHEAD: Flags = Flags::PREFETCH.with(Flags::BACKGROUND);
}
