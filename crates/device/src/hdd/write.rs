//! Writes: into the cache, from the cache to the disk, and through it; flushes.

use super::Hdd;
use super::mechanics::{Access, Wanted};
use super::serve::{Asked, Parts};
use super::write_cache::Dirty;
use nandu_base::{Cx, Instant, Op, Phase, ReqId, Span, Step, Window};

impl Hdd {
    /// New data takes the place of what the buffer and the cache hold.
    #[inline]
    fn replace(&mut self, asked: &Asked, cx: &mut Cx<'_>) {
        self.stop_ahead(cx.now);
        self.buffer.invalidate(asked.first, asked.end);
        self.last_was_read = false;
        self.last_write_end = asked.end;
    }

    /// Keeps what is written for reads.
    #[inline]
    fn keep_written(&mut self, asked: &Asked, cx: &mut Cx<'_>) {
        if self.drive.buffer.hits_on_writes && self.buffer.holds(asked.blocks()) {
            let segment = self.buffer.take_for_write(asked.first, asked.end);
            if cx.medium.is_some() {
                self.buffer.put(segment, cx.pool, asked.payload, asked.blocks());
            }
        }
    }

    /// A write that is acknowledged when the cache has its data.
    pub(super) fn write_to_cache(&mut self, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.count.writes += 1;
        self.count.writes_cached += 1;
        let (c, after_read) = (self.drive.controller, self.last_was_read);
        self.replace(asked, cx);
        let mut wanted = cx.now + c.write_cached.after(after_read);
        let begin = wanted + c.prepare_data;
        let mut there_is_room = begin;
        while let Some(spec) = self.drive.write_cache.filter(|s| !self.cache.has_room(s, asked.blocks())) {
            debug_assert!(!self.cache.is_empty(), "{spec:?} has room for one write");
            self.destage(self.cache.next_from(self.sweep), cx);
            there_is_room = there_is_room.later(self.free_at);
            wanted = wanted.later(self.free_at);
        }
        let carried = c.from_host(asked.blocks());
        let link_begins = self.take_link(there_is_room, carried);
        let link_ends = link_begins + carried;
        self.cache.put(
            Dirty {
                first: asked.first,
                end: asked.end,
                payload: asked.payload,
                ready: wanted,
                data: (link_begins, link_ends),
                cause: asked.cause,
            },
            cx.pool,
        );
        self.keep_written(asked, cx);
        let parts = Parts { queue: link_begins.since(begin), ..Parts::default() };
        self.finish(asked.id, link_ends + c.write_done, &parts, cx)
    }

    /// A write that is acknowledged when it is on the disk.
    pub(super) fn write_through(&mut self, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.count.writes += 1;
        let (c, after_read) = (self.drive.controller, self.last_was_read);
        let extra = c.extra_disconnect.filter(|_| !after_read && asked.first != self.last_write_end);
        self.replace(asked, cx);
        self.cache.discard(asked.first, asked.end, cx.pool);
        let (command, data) = match extra {
            Some(e) => (e.command + e.seek_delay, e.command + e.away + c.reselect + c.prepare_data),
            None => (c.write.after(after_read), c.write.after(after_read) + c.prepare_data),
        };
        let has_data = cx.requests[asked.id].op == Op::Write;
        let carried = if has_data { c.from_host(asked.blocks()) } else { Span::ZERO };
        let link_begins = self.take_link(cx.now + data, carried);
        let data_end = link_begins + carried;
        let wanted = cx.now + command;
        let start = self.free_at.later(wanted);
        let (rested, access) = self.write_blocks(asked, start, (link_begins, data_end), true, cx);
        self.keep_written(asked, cx);
        let reselect = extra.map_or(c.reselect, |e| e.reselect);
        let end = access.end.later(data_end);
        self.finish(
            asked.id,
            end + reselect + c.write_done,
            &Parts::of(wanted, start, start + rested, &access),
            cx,
        )
    }

    /// Writes blocks whose data comes over the link from the first of `data` to the last. No sector passes before its data
    /// is there: where the link is slower than the platter, the first one must wait until the last will not be late, and
    /// perhaps come round once more. Returns how long the drive took to wake, and what the arm did.
    fn write_blocks(
        &mut self,
        asked: &Asked,
        start: Instant,
        data: (Instant, Instant),
        charged: bool,
        cx: &mut Cx<'_>,
    ) -> (Span, Access) {
        let wanted = Wanted {
            first: asked.first,
            count: asked.blocks(),
            write: true,
            any_order: self.drive.buffer.writes_any_order,
        };
        let m = &self.drive.mechanics;
        let spot = asked.spot(&m.geometry);
        let seek = m.movement(self.arm, spot.cylinder, spot.head, true);
        let passes = m.pass(asked.blocks() - 1, spot.sectors_per_track);
        let c = &self.drive.controller;
        let first_part = c.from_host(c.blocks_before_write(asked.blocks()));
        let in_time = (data.0 + first_part).later(Instant(data.1.0.saturating_sub(passes.0)));
        let arrives = (start + seek.longer(c.least_write_seek)).later(in_time);
        let later_by = arrives.since(start + seek);
        let (ready, access) =
            self.work(start + later_by, (spot, &wanted), (asked.cause, charged), cx, |_| {});
        let rested = ready.since(start + later_by);
        self.written_at = self.written_at.later(access.end);
        if let Some(medium) = cx.medium.as_deref_mut() {
            let window = Window { start: access.begin, end: access.end };
            medium.write(cx.pool, asked.first, asked.blocks(), asked.payload, window);
        }
        (rested, access)
    }

    /// Brings a cached write to the disk.
    fn destage(&mut self, at: usize, cx: &mut Cx<'_>) {
        let dirty = self.cache.take(at);
        self.ahead = None;
        self.count.destages += 1;
        let asked = Asked {
            id: ReqId::NONE,
            first: dirty.first,
            end: dirty.end,
            spot: None,
            payload: dirty.payload,
            cause: dirty.cause,
        };
        let start = self.free_at.later(dirty.ready);
        self.write_blocks(&asked, start, dirty.data, !self.planted.uncharged_destage, cx);
        self.sweep = dirty.end;
        cx.pool.release(dirty.payload);
    }

    /// Brings those of these blocks to the disk that wait. True when there were any.
    #[inline]
    pub(super) fn destage_overlapping(&mut self, first: u64, end: u64, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        while let Some(at) = self.cache.overlapping(first, end) {
            self.stop_ahead(cx.now);
            self.destage(at, cx);
            any = true;
        }
        any
    }

    /// Brings to the disk what the arm had time for until now.
    pub(super) fn destage_until_now(&mut self, cx: &mut Cx<'_>) {
        while !self.cache.is_empty() && self.ahead.is_none_or(|a| a.stream.next >= a.limit) {
            let at = self.cache.next_from(self.sweep);
            if self.free_at.later(self.cache.ready(at)) >= cx.now {
                break;
            }
            self.destage(at, cx);
        }
    }

    /// Brings everything to the disk.
    pub(super) fn destage_all(&mut self, cx: &mut Cx<'_>) {
        if !self.cache.is_empty() {
            self.stop_ahead(cx.now);
        }
        while !self.cache.is_empty() {
            self.destage(self.cache.next_from(self.sweep), cx);
        }
    }

    pub(super) fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.count.flushes += 1;
        let c = &self.drive.controller;
        let end = cx.now + c.write.after(self.last_was_read) + c.write_done;
        if !self.planted.flush_lies {
            self.destage_all(cx);
        }
        let durable = if self.planted.flush_lies { end } else { end.later(self.written_at) };
        let path = &mut cx.requests[id].path;
        path.add(Phase::Bus, end.since(cx.now));
        path.add(Phase::Hold, durable.since(end));
        Step::FinishAt(id, durable)
    }
}
