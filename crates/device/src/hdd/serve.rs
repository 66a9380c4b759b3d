//! What a request goes through: reads, what the arm does, and what is read ahead. `write` has writes and flushes.

use super::buffer::ReadAhead;
use super::geometry::{Geometry, Spot};
use super::mechanics::{Access, Piece, Stream, Wanted};
use super::{Ahead, Hdd, refuse};
use nandu_base::{
    ByteLen, Cx, DeviceEvent, Instant, Op, Payload, Phase, ReqId, Resource, SECTOR, Span, Step, TenantId,
    Work,
};

/// Blocks from which on a trim is a sweep: 64 MiB.
const SWEEP: u64 = 1 << 17;

/// A request as the drive sees it.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub id: ReqId,
    pub first: u64,
    pub end: u64,
    /// Where the first block lies, when that is known.
    pub spot: Option<Spot>,
    pub payload: Payload,
    pub cause: TenantId,
}

impl Asked {
    pub fn blocks(&self) -> u64 {
        self.end - self.first
    }

    /// Where the first block lies.
    #[inline(always)]
    pub fn spot(&self, geometry: &Geometry) -> Spot {
        match self.spot {
            Some(spot) => spot,
            None => geometry.locate(self.first),
        }
    }
}

/// What the arm did for a request, for its path.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    pub queue: Span,
    pub spin_up: Span,
    pub seek: Span,
    pub rotation: Span,
    pub transfer: Span,
}

impl Parts {
    /// The arm was to set off at `wanted`, was free at `start` and began at `ready`.
    pub fn of(wanted: Instant, start: Instant, ready: Instant, access: &Access) -> Parts {
        Parts {
            queue: start.since(wanted),
            spin_up: ready.since(start),
            seek: access.seek,
            rotation: access.rotation,
            transfer: access.transfer,
        }
    }

    /// Leaves out what was over before the request came.
    fn without_first(mut self, mut span: Span) -> Parts {
        for part in [&mut self.seek, &mut self.rotation, &mut self.transfer] {
            let cut = Span(part.0.min(span.0));
            (*part, span) = (*part - cut, span - cut);
        }
        self
    }
}

/// When the link has carried the last block of a read.
#[derive(Clone, Copy)]
struct Link {
    /// Blocks that are in the buffer already.
    have: u64,
    blocks: u64,
    /// Earliest end so far.
    end: Instant,
    /// Blocks that are in the buffer before the transfer begins.
    watermark: u64,
    /// Between the watermark and the transfer.
    reconnect: Span,
}

impl Hdd {
    /// Serves a request whose turn it is; where it begins, when that is known.
    #[inline]
    pub(super) fn serve(&mut self, id: ReqId, spot: Option<Spot>, cx: &mut Cx<'_>) -> Step {
        let request = &mut cx.requests[id];
        request.explain_until(cx.now, Phase::Queue);
        let first = request.offset.sector();
        let asked = Asked {
            id,
            first,
            end: first + request.len.sectors(),
            spot,
            payload: request.payload,
            cause: request.cause,
        };
        let (op, flags) = (request.op, request.flags);
        match op {
            Op::Read => self.read(&asked, cx),
            Op::Write if self.is_cached(flags, asked.blocks()) => self.write_to_cache(&asked, cx),
            Op::Write => self.write_through(&asked, cx),
            Op::Flush => self.flush(id, cx),
            Op::Trim | Op::WriteZeroes => self.write_through(&Asked { payload: Payload::NONE, ..asked }, cx),
            Op::Reset => refuse(id, cx),
        }
    }

    /// The request ends at `end`; what the parts do not explain was the controller and its link.
    #[inline]
    pub(super) fn finish(&mut self, id: ReqId, end: Instant, parts: &Parts, cx: &mut Cx<'_>) -> Step {
        let path = &mut cx.requests[id].path;
        let mut rest = end.since(cx.now);
        for (phase, span) in [
            (Phase::Queue, parts.queue),
            (Phase::SpinUp, parts.spin_up),
            (Phase::Seek, parts.seek),
            (Phase::Rotation, parts.rotation),
            (Phase::Transfer, parts.transfer),
        ] {
            path.add(phase, span);
            rest -= span;
        }
        path.add(Phase::Bus, rest);
        Step::FinishAt(id, end)
    }

    /// Lets the arm work from `start` on, on blocks that begin at `spot`. Returns when it began, after a rest, and what it did.
    #[inline]
    pub(super) fn work(
        &mut self,
        start: Instant,
        (spot, wanted): (Spot, &Wanted),
        (cause, charged): (TenantId, bool),
        cx: &mut Cx<'_>,
        each: impl FnMut(&Piece),
    ) -> (Instant, Access) {
        let ready = self.power.wake(start);
        if self.power.announced {
            self.power.announced = false;
            cx.event(DeviceEvent::Standby(false));
        }
        let m = &self.drive.mechanics;
        let access = if wanted.count >= SWEEP {
            m.sweep(self.arm, ready, &spot, wanted)
        } else {
            m.access(self.arm, ready, spot, wanted, each)
        };
        let passing = access.rotation + access.transfer;
        self.power.works(ready, access.seek, passing);
        self.busy += access.seek + passing;
        if charged {
            let work = if wanted.write { Work::Write } else { Work::Read };
            cx.charge(cause, Resource::Head, work, access.seek + passing);
        }
        self.arm = access.arm;
        self.free_at = access.end;
        (ready, access)
    }

    /// Takes the link for `span` from `begin` on, before what it is to carry next when there is time, or after it.
    #[inline]
    pub(super) fn take_link(&mut self, begin: Instant, span: Span) -> Instant {
        if begin + span <= self.link.0 {
            return begin;
        }
        let start = begin.later(self.link.1);
        self.link = (start, start + span);
        start
    }

    #[inline]
    fn read(&mut self, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.count.reads += 1;
        let joins = match self.ahead {
            Some(ahead) if self.drive.buffer.joins_stream && ahead.stream.next < ahead.limit => {
                Some(ahead.segment)
            }
            _ => None,
        };
        let step = match self.buffer.find(asked.first, joins) {
            Some(segment) if self.buffer.segment(segment).end >= asked.end => {
                self.read_from_buffer(segment, asked, cx)
            }
            Some(segment) => self.read_partly_from_buffer(segment, asked, cx),
            None => self.read_from_disk(asked, cx),
        };
        self.last_was_read = true;
        step
    }

    /// Everything is in the buffer.
    fn read_from_buffer(&mut self, segment: usize, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.count.read_hits += 1;
        let c = &self.drive.controller;
        let begin = cx.now + c.read_hit.after(self.last_was_read) + c.prepare_data;
        let carried = c.to_host(asked.blocks());
        let end_of_read = c.read_done;
        let begin_on_link = self.take_link(begin, carried);
        let end = begin_on_link + carried + end_of_read;
        if cx.medium.is_some() {
            self.buffer.read(segment, cx.pool, asked.first, asked.end, asked.payload);
        }
        self.buffer.touch(segment);
        self.read_on_after_hit(segment, asked, cx);
        let parts = Parts { queue: begin_on_link.since(begin), ..Parts::default() };
        self.finish(asked.id, end, &parts, cx)
    }

    fn read_on_after_hit(&mut self, segment: usize, asked: &Asked, cx: &mut Cx<'_>) {
        let held = self.buffer.segment(segment);
        let (start, next) = (held.start, held.end);
        let limit = self.limit(start, asked.end);
        match &mut self.ahead {
            Some(ahead) if ahead.segment == segment && ahead.stream.next < ahead.limit => {
                ahead.limit = ahead.limit.max(limit);
            }
            Some(ahead) if ahead.stream.next < ahead.limit => {}
            _ if self.drive.buffer.resumes_on_hit && limit > next && self.cache.is_empty() => {
                self.stop_ahead(cx.now);
                let miss = self.drive.controller.read_miss.after(self.last_was_read);
                let at = self.free_at.later(cx.now + miss);
                self.ahead =
                    Some(Ahead { segment, stream: Stream { arm: self.arm, next, at, spot: None }, limit });
            }
            _ => {}
        }
        if !self.drive.buffer.keeps_what_was_read {
            self.buffer.drop_before(segment, asked.end);
        }
    }

    /// The first blocks are in the buffer; the arm is about to read the others, or has to go there again.
    fn read_partly_from_buffer(&mut self, segment: usize, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.count.read_hits_partial += 1;
        let next = self.buffer.segment(segment).end;
        let (have, after_read) = (next - asked.first, self.last_was_read);
        if have > 0 && cx.medium.is_some() {
            self.buffer.read(segment, cx.pool, asked.first, next, asked.payload);
        }
        let c = self.drive.controller;
        let wanted = cx.now + c.read_miss.after(after_read);
        let continues = match self.ahead {
            Some(ahead) if ahead.segment == segment && ahead.stream.next < ahead.limit => {
                self.arm = ahead.stream.arm;
                Some(ahead.stream.at)
            }
            _ => None,
        };
        let had_to_destage = self.destage_overlapping(next, asked.end, cx);
        let start = match continues.filter(|_| !had_to_destage) {
            Some(at) => at,
            None => {
                self.stop_ahead(cx.now);
                self.free_at.later(wanted)
            }
        };
        self.ahead = None;
        let begin_on_link = (cx.now + c.read_hit.after(after_read) + c.prepare_data).later(self.link.1);
        let link = Link {
            have,
            blocks: asked.blocks(),
            end: begin_on_link + c.to_host(asked.blocks()),
            watermark: 1,
            reconnect: Span::ZERO,
        };
        let payload = asked.payload.slice(ByteLen(have * SECTOR));
        let rest = Asked { first: next, spot: None, payload, ..*asked };
        let (ready, access, end) = self.read_blocks(segment, &rest, start, link, cx);
        self.buffer.touch(segment);
        let wanted = wanted.min(start);
        let parts = if start < cx.now {
            Parts::of(start, start, ready, &access).without_first(cx.now.since(start))
        } else {
            Parts::of(wanted, start, ready, &access)
        };
        self.finish(asked.id, end, &parts, cx)
    }

    /// Nothing is in the buffer.
    fn read_from_disk(&mut self, asked: &Asked, cx: &mut Cx<'_>) -> Step {
        self.stop_ahead(cx.now);
        self.destage_overlapping(asked.first, asked.end, cx);
        let (c, after_read) = (self.drive.controller, self.last_was_read);
        let wanted = cx.now + c.read_miss.after(after_read);
        let start = self.free_at.later(wanted);
        let away = wanted + c.read_disconnect.after(after_read);
        let reconnect = c.reselect + c.prepare_data;
        let link = Link {
            have: 0,
            blocks: asked.blocks(),
            end: away.later(self.link.1) + reconnect + c.to_host(asked.blocks()),
            watermark: c.watermark(asked.blocks().min(self.drive.buffer.blocks)),
            reconnect,
        };
        let segment = self.buffer.take_for_read(asked.first);
        let (ready, access, end) = self.read_blocks(segment, asked, start, link, cx);
        self.finish(asked.id, end, &Parts::of(wanted, start, ready, &access), cx)
    }

    /// Reads blocks from the disk behind what a segment holds, and prepares to read on. Returns when the arm began, what
    /// it did, and when the host has everything.
    #[inline]
    fn read_blocks(
        &mut self,
        segment: usize,
        asked: &Asked,
        start: Instant,
        mut link: Link,
        cx: &mut Cx<'_>,
    ) -> (Instant, Access, Instant) {
        let c = self.drive.controller;
        let spec = self.drive.buffer;
        let wanted = Wanted {
            first: asked.first,
            count: asked.blocks(),
            write: false,
            any_order: spec.reads_any_order || spec.keeps_what_passes,
        };
        let each = |piece: &Piece| link.follow(piece, &c);
        let spot = asked.spot(&self.drive.mechanics.geometry);
        let (ready, access) = self.work(start, (spot, &wanted), (asked.cause, true), cx, each);
        let carries_from = Instant(link.end.0 - c.to_host(link.blocks).0);
        self.link = (carries_from, link.end);
        self.fill(segment, asked, &access, cx);
        let limit = self.limit(self.buffer.segment(segment).start, asked.end);
        if limit > asked.end {
            let stream = Stream { arm: access.arm, next: asked.end, at: access.end, spot: access.next };
            self.ahead = Some(Ahead { segment, stream, limit });
        }
        if !spec.keeps_what_was_read {
            self.buffer.drop_before(segment, asked.end);
        }
        (ready, access, link.end + c.read_done)
    }

    /// What was read goes into the segment, with what passed before it on a new segment's first track.
    #[inline]
    fn fill(&mut self, segment: usize, asked: &Asked, access: &Access, cx: &mut Cx<'_>) {
        let mut from = asked.first;
        let held = self.buffer.segment(segment);
        if self.drive.buffer.keeps_what_passes && access.passed_before > 0 && held.start == held.end {
            let dirty = self.cache.dirty_before(asked.first).unwrap_or(0);
            from = (asked.first - access.passed_before.min(asked.first)).max(dirty);
            self.buffer.restart(segment, from);
        }
        if let Some(medium) = cx.medium.as_deref_mut() {
            self.buffer.fill(segment, medium, cx.pool, from, asked.end);
            let count = asked.blocks() as u32;
            if !medium.read(cx.pool, asked.first, 0, count, asked.payload) {
                let len = ByteLen(asked.blocks() * SECTOR);
                cx.requests[asked.id].fail_part(nandu_base::ErrorKind::Unreadable, ByteLen::ZERO, len);
            }
        }
        self.buffer.extend(segment, asked.end);
    }

    /// Up to which block the arm reads on after a request that ended at `end`, in a segment that begins at `start`.
    #[inline]
    fn limit(&self, start: u64, end: u64) -> u64 {
        let geometry = &self.drive.mechanics.geometry;
        let limit = match self.drive.buffer.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Blocks { count } => end + u64::from(count),
            ReadAhead::Track => end - 1 + u64::from(geometry.locate(end - 1).left),
            ReadAhead::TrackThenNext => {
                let spot = geometry.locate(end);
                let track_end = end + u64::from(spot.left);
                let earned = start + u64::from(spot.sector) < end;
                track_end + if earned { u64::from(spot.sectors_per_track) } else { 0 }
            }
            ReadAhead::Cylinder => {
                let cylinder = geometry.locate(end - 1).cylinder;
                let mut next = end;
                let most = (end + self.drive.buffer.blocks).min(geometry.blocks());
                while next < most {
                    let spot = geometry.locate(next);
                    if spot.cylinder != cylinder {
                        break;
                    }
                    next += u64::from(spot.left);
                }
                next
            }
        };
        let limit = limit.min(geometry.blocks()).max(end);
        if self.cache.is_empty() {
            return limit;
        }
        self.cache.next_dirty(end).map_or(limit, |dirty| dirty.min(limit))
    }

    /// Brings what is read ahead up to now. True while it goes on.
    #[inline]
    pub(super) fn advance_ahead(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(ahead) = &mut self.ahead else { return false };
        let (from, before) = (ahead.stream.at, ahead.stream.next);
        if before >= ahead.limit {
            return false;
        }
        let (seek, passing) = ahead.stream.advance(&self.drive.mechanics, cx.now, ahead.limit);
        let (segment, next, goes_on) = (ahead.segment, ahead.stream.next, ahead.stream.next < ahead.limit);
        if next > before {
            (self.arm, self.free_at) = (ahead.stream.arm, self.free_at.later(ahead.stream.at));
            self.power.works(from, seek, passing);
            self.count.blocks_read_ahead += next - before;
            if let Some(medium) = cx.medium.as_deref_mut() {
                self.buffer.fill(segment, medium, cx.pool, before, next);
            }
            self.buffer.extend(segment, next);
        }
        goes_on
    }

    /// The arm is wanted elsewhere.
    #[inline]
    pub(super) fn stop_ahead(&mut self, now: Instant) {
        let Some(Ahead { stream, limit, .. }) = self.ahead.take() else { return };
        if stream.next >= limit || stream.at > now {
            (self.arm, self.free_at) = (stream.arm, self.free_at.later(stream.at));
        } else if self.drive.buffer.stops_in_sector {
            self.arm = stream.arm;
        } else {
            let (arm, at) = stream.boundary(&self.drive.mechanics, now);
            (self.arm, self.free_at) = (arm, self.free_at.later(at));
        }
    }
}

impl Link {
    /// A part of the read has passed under the head.
    #[inline]
    fn follow(&mut self, piece: &Piece, c: &super::drive::Controller) {
        let left = self.blocks - self.have - piece.before;
        let first = piece.first_done + self.reconnect + c.to_host(left);
        let last = piece.end + self.reconnect + c.to_host(self.blocks - self.have - piece.last);
        self.end = self.end.later(first).later(last);
        if self.watermark > piece.before && self.watermark <= piece.before + piece.count {
            // Blocks of a track pass at one speed, from the first to the last.
            let into = self.watermark - 1 - piece.before;
            let span = piece.end.0.saturating_sub(piece.first_done.0);
            let there = piece.first_done + Span(span * into / (piece.count - 1).max(1));
            self.end = self.end.later(there + self.reconnect + c.to_host(self.blocks - self.have));
        }
    }
}
