//! What the machine does with the buffer: writes that stay, destages, flushes and the end.

use super::super::change::is_whole;
use super::super::{Cache, Tag};
use super::{CLOSE_TRIES, DESTAGE, Destaging, Flush, Next};
use crate::map::LineMap;
use crate::prefetch::Range;
use nandu_base::{
    ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Op, Payload, ReqId, Span, Step, TenantId,
};

impl Cache {
    /// Takes a write into the buffer. [`None`] when it must go through.
    pub(in crate::machine) fn write_back(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Step> {
        let request = &cx.requests[id];
        let (offset, len, payload, cause) = (request.offset.0, request.len, request.payload, request.cause);
        let blocks = self.touched(request.offset, request.len);
        let fua = request.flags.has(Flags::FUA);
        let changing = (blocks.first..blocks.end).any(|block| self.is_changing(block));
        let buffer = self.buffer.as_mut()?;
        let dirty = if fua { 0 } else { buffer.dirty_in(blocks) };
        let new = blocks.end - blocks.first - dirty;
        let fits = buffer.len() as u64 + new <= buffer.room as u64 && buffer.closing.is_none();
        let passes = buffer.bypass > ByteLen::ZERO && len > buffer.bypass && dirty == 0;
        if fua || changing || passes || !fits || !is_whole(offset, len, self.block) {
            buffer.tally.through += 1;
            return None;
        }
        let sequential = self.follows(blocks);
        if let Some(buffer) = &mut self.buffer {
            buffer.seq += 1;
        }
        let share = self.store.begin(blocks.first, blocks.end - blocks.first, payload, cx.pool);
        for block in blocks.first..blocks.end {
            self.spoil(block);
            self.make_room(block, sequential);
            if let Some(buffer) = &mut self.buffer {
                buffer.put(block, cause);
            }
            if let Some(share) = share {
                let at = ByteLen((block - blocks.first) << self.block_bits);
                self.store.put(block, payload.slice(at), share, cx.pool);
            }
        }
        self.sweep(cx);
        self.store.end(share, cx.pool);
        self.destage_more(cx);
        self.set_timer(cx);
        Some(self.answer(id, cx))
    }

    /// Something came from outside, or the device took a destage: what it refused before may be tried again.
    pub(in crate::machine) fn destage_more(&mut self, cx: &mut Cx<'_>) {
        if let Some(buffer) = &mut self.buffer {
            buffer.refused = false;
        }
        self.destage(cx);
    }

    /// Starts destages while there is reason and room for them; only for those who wait while the device refuses, or it would
    /// be asked for ever within one moment.
    pub(super) fn destage(&mut self, cx: &mut Cx<'_>) {
        let heeds = !self.planted.asks_on;
        let awaited = self.next_awaited();
        loop {
            let Some(buffer) = &mut self.buffer else { return };
            if buffer.flights.len() >= buffer.depth as usize {
                return;
            }
            let next = if buffer.refused && heeds {
                buffer.next_awaited_unit(awaited)
            } else {
                buffer.next_unit(awaited)
            };
            let Some(Next { unit, hurried }) = next else { return };
            if buffer.pads && !hurried && self.pad(unit, cx) {
                return;
            }
            let Some(buffer) = &mut self.buffer else { return };
            let Some(row) = buffer.take_row(unit, awaited) else { return };
            let number = row.first >> buffer.unit_bits;
            // Padded once for all its rows: what is below already would become dirty again and again.
            let goes_on = buffer.waiting[unit as usize] > 0;
            buffer.padding = buffer.padding.filter(|p| p.fill.is_some() || p.number != number || goes_on);
            let version = buffer.seq;
            let first = buffer.map.get(row.first).expect("a dirty block");
            let cause = buffer.dirty[first as usize].cause;
            buffer.tally.destages += 1;
            let urgent = awaited.is_some() || !buffer.flushes.is_empty();
            let payload = self.store.join(row.first, row.end - row.first, cx.pool);
            let number = buffer.flights.add(Destaging { blocks: row, version });
            let draft = Draft {
                op: Op::Write,
                flags: if urgent { Flags::NONE } else { Flags::BACKGROUND },
                offset: ByteOffset(row.first << self.block_bits),
                len: ByteLen((row.end - row.first) << self.block_bits),
                payload,
                cookie: Tag::Destage.cookie(number),
            };
            let child = cx.own(cause, draft);
            cx.pool.release(payload);
            cx.send(0, child);
        }
    }

    pub(in crate::machine) fn destaged(&mut self, child: ReqId, number: u32, cx: &mut Cx<'_>) -> Step {
        let failed = cx.requests[child].error.is_some();
        let Some(buffer) = &mut self.buffer else { return Step::Idle };
        let Destaging { blocks, version } = buffer.flights.take(number);
        if failed {
            return self.destage_failed(blocks, cx);
        }
        for block in blocks.first..blocks.end {
            let Some(buffer) = &mut self.buffer else { break };
            buffer.tally.destaged += 1;
            if !buffer.landed(block, version) {
                continue;
            }
            if !self.directory.holds(block) || self.is_changing(block) {
                self.store.drop(block, cx.pool);
                self.forget_block(block);
            }
            self.release_changes(block, cx);
        }
        self.sweep(cx);
        self.flush_on(cx);
        self.destage_more(cx);
        self.close_on(cx);
        Step::Idle
    }

    /// What waited for these blocks fails; they stay dirty.
    fn destage_failed(&mut self, blocks: Range, cx: &mut Cx<'_>) -> Step {
        for block in blocks.first..blocks.end {
            if let Some(buffer) = &mut self.buffer {
                buffer.bounced(block);
            }
            self.fail_changes(block, cx);
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.tally.failed += 1;
            buffer.refused = true;
            buffer.due = 0;
            for flush in std::mem::take(&mut buffer.flushes) {
                cx.requests[flush.id].fail(ErrorKind::WriteFailed);
                cx.finish(flush.id);
            }
            // What is under way together is one try.
            let is_last = buffer.flights.len() == 0;
            if let Some(tries) = buffer.closing.as_mut().filter(|_| is_last) {
                *tries += 1;
                cx.wake_at(DESTAGE, cx.now + Span::from_ms(1 << (*tries).min(CLOSE_TRIES)));
            }
        }
        self.destage(cx);
        self.set_timer(cx);
        self.close_on(cx);
        Step::Idle
    }

    pub(in crate::machine) fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let early = self.planted.early_flush;
        match &mut self.buffer {
            Some(buffer) if buffer.len() > 0 && !early => {
                let left = buffer.len() as u64;
                buffer.flushes.push(Flush { id, upto: buffer.seq, left });
                self.destage_more(cx);
                Step::Idle
            }
            _ => Step::Forward(0, id),
        }
    }

    /// Flushes whose blocks are all below go below themselves.
    fn flush_on(&mut self, cx: &mut Cx<'_>) {
        let Some(buffer) = &mut self.buffer else { return };
        let mut ready = Vec::new();
        buffer.flushes.retain(|flush| {
            if flush.left == 0 {
                ready.push(flush.id);
            }
            flush.left > 0
        });
        for id in ready {
            self.send_flush(id, cx);
        }
    }

    fn send_flush(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let draft = Draft {
            op: Op::Flush,
            flags: Flags::NONE,
            offset: ByteOffset::ZERO,
            len: ByteLen::ZERO,
            payload: Payload::NONE,
            cookie: Tag::Flush.cookie(0),
        };
        let child = match id {
            ReqId::NONE => cx.own(TenantId::SYSTEM, draft),
            id => cx.child(id, draft),
        };
        cx.send(0, child);
    }

    pub(in crate::machine) fn flushed(&mut self, child: ReqId, cx: &mut Cx<'_>) -> Step {
        let parent = cx.requests[child].parent;
        if parent == ReqId::NONE {
            let is_dirty = self.buffer.as_ref().is_some_and(|buffer| buffer.len() > 0);
            if is_dirty || cx.requests[child].error.is_some() {
                // What it has answered is not durable, or is dropped now.
                cx.event(DeviceEvent::Lost);
            }
            self.end_close(cx);
            return Step::Idle;
        }
        cx.absorb(parent, child);
        cx.requests[parent].error = cx.requests[child].error;
        Step::Finish(parent)
    }

    fn set_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(buffer) = &mut self.buffer else { return };
        if buffer.timed.is_none() && buffer.len() > 0 && buffer.closing.is_none() {
            buffer.timed = Some(buffer.seq);
            cx.wake_at(DESTAGE, cx.now + buffer.after);
        }
    }

    /// What was dirty when the timer was set goes below.
    pub(in crate::machine) fn destage_in_time(&mut self, cx: &mut Cx<'_>) -> Step {
        let Some(buffer) = &mut self.buffer else { return Step::Idle };
        if let Some(upto) = buffer.timed.take() {
            buffer.due = buffer.due.max(upto);
        }
        self.destage_more(cx);
        self.set_timer(cx);
        Step::Idle
    }

    pub(in crate::machine) fn close_buffer(&mut self, cx: &mut Cx<'_>) -> Step {
        match &mut self.buffer {
            None => self.end_close(cx),
            Some(buffer) => {
                cx.cancel_wake(DESTAGE);
                buffer.closing = Some(0);
                self.destage_more(cx);
                self.close_on(cx);
            }
        }
        Step::Idle
    }

    /// Everything that can be is below: memory is given back.
    fn end_close(&mut self, cx: &mut Cx<'_>) {
        self.forget_all(cx);
        self.store.clear(cx.pool);
        if let Some(buffer) = &mut self.buffer {
            buffer.clear();
        }
        cx.closed();
    }

    /// Ends a close when nothing is dirty, or when the device keeps refusing.
    pub(in crate::machine) fn close_on(&mut self, cx: &mut Cx<'_>) {
        let Some(buffer) = &mut self.buffer else { return };
        let Some(tries) = buffer.closing else { return };
        if buffer.flights.len() == 0 && (buffer.len() == 0 || tries >= CLOSE_TRIES) {
            buffer.closing = None;
            self.send_flush(ReqId::NONE, cx);
        }
    }
}
