//! What the host asks for: reads, writes, trims and flushes.

use super::Ssd;
use crate::nand::PageTime;
use nandu_base::{
    ByteLen, ByteOffset, CriticalPath, Cx, ErrorKind, Flags, Instant, Oob, Overlay, Payload, Phase, Program,
    ReqId, Resource, Span, Step, TenantId, Window, Work, SECTOR,
};
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::trim_journal::Extent;
use nandu_ftl::{Lpn, Ppn};

/// Fixed figures of the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// log2 of the page size.
    pub page_bits: u32,
    /// log2 of the planes of a die.
    pub plane_bits: u32,
    /// Sectors of a page.
    pub page_sectors: u32,
    /// Logical pages.
    pub logical: u32,
    /// Valid pages that a plane may hold.
    pub valid_max: u32,
    /// Free blocks at which clearing begins.
    pub gc_start: u32,
}

/// The part of a request that lies in one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub lpn: Lpn,
    /// First sector within the page.
    pub first: u32,
    /// Sectors.
    pub count: u32,
    /// Bytes from the start of the request.
    pub at: ByteLen,
}

/// The pages that an extent touches.
#[derive(Clone, Copy, Debug)]
struct Parts {
    next: u64,
    start: u64,
    end: u64,
    page_bits: u32,
}

impl Host {
    #[inline]
    fn parts(&self, offset: ByteOffset, len: ByteLen) -> Parts {
        Parts { next: offset.0, start: offset.0, end: offset.0 + len.0, page_bits: self.page_bits }
    }
}

impl Iterator for Parts {
    type Item = Part;

    #[inline]
    fn next(&mut self) -> Option<Part> {
        if self.next >= self.end {
            return None;
        }
        let from = self.next;
        let page = from >> self.page_bits;
        let to = self.end.min((page + 1) << self.page_bits);
        self.next = to;
        Some(Part {
            lpn: Lpn(page as u32),
            first: ((from - (page << self.page_bits)) / SECTOR) as u32,
            count: ((to - from) / SECTOR) as u32,
            at: ByteLen(from - self.start),
        })
    }
}

/// Time that a request keeps resources occupied.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    pub die: Span,
    pub bus: Span,
}

impl Usage {
    #[inline]
    pub fn charge(self, cx: &mut Cx<'_>, cause: TenantId, work: Work) {
        cx.charge(cause, Resource::Die, work, self.die);
        cx.charge(cause, Resource::Channel, work, self.bus);
    }
}

impl<G: GcPolicy> Ssd<G> {
    /// The die of a page.
    #[inline]
    pub(super) fn die_of(&self, ppn: Ppn) -> u32 {
        self.blocks.layout().plane(ppn) >> self.host.plane_bits
    }

    /// The plane of a page within its die.
    #[inline]
    fn plane_in_die(&self, plane: u32) -> u32 {
        plane & ((1 << self.host.plane_bits) - 1)
    }

    #[inline]
    pub(super) fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause, now) = (request.payload, request.cause, cx.now);
        let parts = self.host.parts(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = PageTime { end: now, ..PageTime::default() };
        let mut usage = Usage::default();
        for part in parts {
            let data = payload.slice(part.at);
            let Some(ppn) = self.map.get(part.lpn) else {
                cx.pool.zero(data, ByteLen(u64::from(part.count) * SECTOR));
                continue;
            };
            let time = self.sense(ppn, now, &mut usage);
            self.count.host_pages_read += 1;
            if time.end > slowest.end {
                slowest = time;
            }
            if let Some(medium) = cx.medium.as_deref_mut() {
                if !medium.read(cx.pool, u64::from(ppn.0), part.first, part.count, data) {
                    let len = ByteLen(u64::from(part.count) * SECTOR);
                    cx.requests[id].fail_part(ErrorKind::Unreadable, part.at, len);
                }
            }
        }
        usage.charge(cx, cause, Work::Read);
        self.finish(id, slowest, cx)
    }

    /// Reads one page on its die.
    #[inline]
    fn sense(&mut self, ppn: Ppn, now: Instant, usage: &mut Usage) -> PageTime {
        let layout = self.blocks.layout();
        let (plane, page) = (layout.plane(ppn), layout.page(ppn));
        let die = plane >> self.host.plane_bits;
        let (time, occupied) = self.lanes.read(die, now, self.serial, page, self.plane_in_die(plane));
        usage.die += occupied;
        usage.bus += time.bus;
        time
    }

    #[inline]
    pub(super) fn write(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (payload, cause) = (request.payload, request.cause);
        let parts = self.host.parts(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = PageTime { end: cx.now, ..PageTime::default() };
        let mut usage = Usage::default();
        for part in parts {
            let time = self.write_part(part, payload.slice(part.at), cause, &mut usage, cx);
            if time.end > slowest.end {
                slowest = time;
            }
        }
        usage.charge(cx, cause, Work::Write);
        self.finish(id, slowest, cx)
    }

    /// Writes one page or part of one, then moves a few pages when the plane runs low.
    #[inline]
    fn write_part(
        &mut self,
        part: Part,
        data: Payload,
        cause: TenantId,
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> PageTime {
        let ppn = self.next_host_page(cause, cx);
        let before = self.map.get(part.lpn);
        let premerge = match before {
            Some(old) if part.count != self.host.page_sectors => Some(self.premerge(old, cx.now, usage)),
            _ => None,
        };
        let ready = premerge.map_or(cx.now, |read| read.end);
        let mut time = self.program(ppn, ready, Content::Data(part.lpn), usage);
        self.count.host_pages_written += 1;
        if let Some(old) = self.map.set(part.lpn, ppn) {
            self.supersede(old, time.end);
        }
        if let Some(medium) = cx.medium.as_deref_mut() {
            let overlay = Some(Overlay { first: part.first, count: part.count, payload: data });
            let base = premerge.and(before).map(|old| u64::from(old.0));
            let oob = Oob { key: u64::from(part.lpn.0), seq: self.seq };
            let window = Window { start: time.start, end: time.end };
            medium.program(cx.pool, &Program { unit: u64::from(ppn.0), base, overlay, oob, window });
        }
        if let Some(read) = premerge {
            time.queue += read.queue;
            time.gc += read.gc;
            time.flash_read += read.flash_read;
            time.bus += read.bus;
        }
        self.clear_after_write(self.blocks.layout().plane(ppn), cause, cx);
        time
    }

    /// Reads a page of which a part will be replaced.
    fn premerge(&mut self, old: Ppn, now: Instant, usage: &mut Usage) -> PageTime {
        self.count.pages_premerged += 1;
        self.sense(old, now, usage)
    }

    /// Programs a page whose data is ready at `ready`, and notes what it holds.
    #[inline]
    pub(super) fn program(
        &mut self,
        ppn: Ppn,
        ready: Instant,
        content: Content,
        usage: &mut Usage,
    ) -> PageTime {
        let layout = self.blocks.layout();
        let (plane, page) = (layout.plane(ppn), layout.page(ppn));
        let die = plane >> self.host.plane_bits;
        let (time, occupied) = self.lanes.program(die, ready, self.serial, page, self.plane_in_die(plane));
        usage.die += occupied;
        usage.bus += time.bus;
        self.seq += 1;
        self.last_change = self.last_change.later(time.end);
        self.blocks.programmed(ppn, content);
        self.blocks.planes[plane as usize].valid += 1;
        time
    }

    /// The page at `old` has a newer version, complete at `when`.
    #[inline]
    pub(super) fn supersede(&mut self, old: Ppn, when: Instant) {
        if self.planted.lost_invalidation && self.seq.is_multiple_of(64) {
            return;
        }
        self.blocks.invalidate(old, when);
    }

    /// The next page for the host's data, on the plane whose turn it is.
    #[inline]
    pub(super) fn next_host_page(&mut self, cause: TenantId, cx: &mut Cx<'_>) -> Ppn {
        let plane = self.next_plane();
        if self.blocks.planes[plane as usize].host.is_full() {
            self.open_host_block(plane, cause, cx);
        }
        let cursor = &mut self.blocks.planes[plane as usize].host;
        if self.planted.program_twice && self.seq % 512 == 511 && cursor.left() > 1 {
            let mut copy = *cursor;
            return copy.take();
        }
        cursor.take()
    }

    #[inline]
    fn next_plane(&mut self) -> u32 {
        for _ in 0..self.blocks.planes.len() {
            let plane = self.turns.take();
            if self.blocks.planes[plane as usize].valid < self.host.valid_max {
                return plane;
            }
        }
        unreachable!("a drive whose geometry was checked has a plane with room");
    }

    #[cold]
    fn open_host_block(&mut self, plane: u32, cause: TenantId, cx: &mut Cx<'_>) {
        // The last free block is for moved pages.
        while self.blocks.planes[plane as usize].free <= 1 {
            self.count.clears_forced += 1;
            self.clear_whole_block(plane, cause, cx);
        }
        let cursor = self.blocks.open_free(plane, self.seq + 1).expect("clearing has freed a block");
        self.blocks.planes[plane as usize].host = cursor;
    }

    pub(super) fn trim(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (cause, flags) = (request.cause, request.flags);
        let parts = self.host.parts(request.offset, request.len);
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = PageTime { end: cx.now, ..PageTime::default() };
        let mut usage = Usage::default();
        for part in parts {
            if self.map.get(part.lpn).is_none() {
                continue;
            }
            if part.count == self.host.page_sectors {
                self.trim_page(part.lpn, cx.now);
            } else {
                let time = self.write_part(part, Payload::NONE, cause, &mut usage, cx);
                if time.end > slowest.end {
                    slowest = time;
                }
            }
        }
        usage.charge(cx, cause, Work::Write);
        let extents = nandu_ftl::trim_journal::TrimJournal::extents_per_record(1 << self.host.page_bits);
        if flags.has(Flags::FUA) || self.journal.pending() >= extents {
            let recorded = self.record_trims(cx, cause);
            if recorded > slowest.end {
                // The record is programmed after the edges; its whole time counts as one program and its wait.
                let program = self.lanes.timing().program;
                let wait = Span(recorded.since(cx.now).0.saturating_sub(program.0));
                let program = recorded.since(cx.now) - wait;
                slowest = PageTime { end: recorded, queue: wait, program, ..PageTime::default() };
            }
        }
        self.finish(id, slowest, cx)
    }

    fn trim_page(&mut self, lpn: Lpn, now: Instant) {
        if let Some(old) = self.map.clear(lpn) {
            self.supersede(old, now);
            self.journal.trimmed(Extent { first: lpn, count: 1, as_of: self.seq });
            self.count.pages_trimmed += 1;
        }
    }

    pub(super) fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let cause = cx.requests[id].cause;
        let end = if self.planted.trim_not_recorded { cx.now } else { self.record_trims(cx, cause) };
        let program = Span(self.lanes.timing().program.0.min(end.since(cx.now).0));
        let path = &mut cx.requests[id].path;
        path.add(Phase::Program, program);
        path.add(Phase::Queue, end.since(cx.now) - program);
        Step::FinishAt(id, end)
    }

    /// Explains the request's time by its slowest page and names its end.
    #[inline]
    fn finish(&mut self, id: ReqId, slowest: PageTime, cx: &mut Cx<'_>) -> Step {
        let path: &mut CriticalPath = &mut cx.requests[id].path;
        path.add(Phase::Queue, slowest.queue);
        path.add(Phase::Gc, slowest.gc);
        path.add(Phase::FlashRead, slowest.flash_read);
        path.add(Phase::Program, slowest.program);
        path.add(Phase::Bus, slowest.bus);
        if self.planted.path_without_queue {
            path.add(Phase::Queue, slowest.queue);
        }
        Step::FinishAt(id, slowest.end)
    }
}
