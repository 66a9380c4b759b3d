//! What the host asks for: reads, writes without a buffer, trims and flushes.

use super::line::{Entry, Job, NOBODY};
use super::pages::Part;
use super::{Done, LogSsd, Pending};
use crate::nand::PageTime;
use crate::write_buffer::Held;
use nandu_base::{
    ByteLen, Counter, Cx, EnergyPart, ErrorKind, Instant, Payload, Phase, RamPower, ReqId, Resource, SECTOR,
    Span, Step, TenantId, WearRegion, Work,
};
use nandu_ftl::log_block::{Counts, LogBlocks};

impl<F: LogBlocks> LogSsd<F> {
    /// Reads from the flash, with what the buffer holds over it.
    pub(super) fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (offset, len, cause, now) = (request.offset, request.len, request.cause, cx.now);
        let fetches = !request.payload.is_none();
        self.serial = self.serial.wrapping_add(1);
        let mut slowest = PageTime::done(now);
        self.lanes.work_for(Work::Read);
        let (mut die, mut bus, mut linked) = (Span::ZERO, Span::ZERO, ByteLen::ZERO);
        for part in self.pages.parts(offset, len) {
            let (plane, spot) = self.find(part.lpn);
            let number = self.buffer.as_ref().and_then(|buffer| buffer.entry_of(part.lpn));
            let held = number.map(|number| self.lines[plane as usize].entry(number).held);
            let is_hit = held.is_some_and(|held| held.covers(part.first, part.count));
            if is_hit {
                self.count.buffer_pages_read += 1;
                linked = ByteLen(linked.0 + u64::from(part.count) * SECTOR);
            } else if let Some(spot) = spot {
                self.count.host_pages_read += 1;
                let position = self.lines[plane as usize].map.region().position(spot);
                let (time, occupied) = self.lanes.read(plane, now, self.serial, position);
                die += occupied;
                bus += self.lanes.timing().transfer;
                if time.end > slowest.end {
                    slowest = time;
                }
            }
            if fetches {
                self.fetch(id, &part, plane, spot.filter(|_| !is_hit), number, cx);
            }
        }
        cx.charges.charge_both(cause, Work::Read, (Resource::Die, die), (Resource::Channel, bus));
        let link = self.buffer.as_ref().map_or(Span::ZERO, |buffer| buffer.link.transfer(linked));
        let end = slowest.end.later(now + link);
        if slowest.end == end && end > now {
            slowest.read_path(now, self.lanes.timing(), &mut cx.requests[id].path);
        } else {
            cx.requests[id].path.add(Phase::Bus, link);
        }
        Step::FinishAt(id, end)
    }

    /// Puts the data of one page into a read's payload.
    fn fetch(
        &self,
        id: ReqId,
        part: &Part,
        plane: u32,
        spot: Option<u32>,
        number: Option<u64>,
        cx: &mut Cx<'_>,
    ) {
        let data = cx.requests[id].payload.slice(part.before);
        let len = ByteLen(u64::from(part.count) * SECTOR);
        match (spot, cx.medium.as_deref_mut()) {
            (Some(spot), Some(medium)) => {
                if !medium.read(cx.pool, self.unit(plane, spot), part.first, part.count, data) {
                    cx.requests[id].fail_part(ErrorKind::Unreadable, part.before, len);
                }
            }
            _ => cx.pool.zero(data, len),
        }
        let Some(number) = number else { return };
        let held = &self.lines[plane as usize].entry(number).held;
        held.copy_out(cx.pool, part.first, part.count, data);
    }

    /// A write without a buffer: it ends when its last page is programmed.
    pub(super) fn write_through(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (offset, len, payload, cause) = (request.offset, request.len, request.payload, request.cause);
        let pending = self.begin(id, false, cx.now);
        for part in self.pages.parts(offset, len) {
            let data = payload.slice(part.before);
            self.submit_write(&part, data, pending, cause, cx);
        }
        self.taken_apart(pending, cx)
    }

    /// Puts part of a page into its line on behalf of a request that waits for it.
    fn submit_write(&mut self, part: &Part, data: Payload, pending: u32, cause: TenantId, cx: &mut Cx<'_>) {
        let (plane, local) = self.pages.home(part.lpn);
        let held = Held::keep(cx.pool, data, part.first, part.count);
        self.submit(plane, Job::Write { lpn: part.lpn, local }, held, pending, cause, cx);
    }

    fn submit(&mut self, plane: u32, job: Job, held: Held, pending: u32, cause: TenantId, cx: &mut Cx<'_>) {
        self.ticket += 1;
        self.pendings[pending as usize].left += 1;
        let (serial, ticket) = (self.serial, self.ticket);
        let entry = Entry {
            job,
            held,
            pending,
            serial,
            ticket,
            cause,
            is_buffered: false,
            is_sealed: false,
            has_begun: false,
        };
        self.lines[plane as usize].push(entry);
        self.pump(plane, cx);
    }

    /// A request begins that waits for pages.
    fn begin(&mut self, id: ReqId, is_trim: bool, now: Instant) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let pending = Pending { id, came: now, left: 1, slowest: Done::at(now), is_trim };
        match self.pendings_free.pop() {
            Some(slot) => {
                self.pendings[slot as usize] = pending;
                slot
            }
            None => {
                self.pendings.push(pending);
                self.pendings.len() as u32 - 1
            }
        }
    }

    /// All pages of a request are in their lines.
    fn taken_apart(&mut self, pending: u32, cx: &mut Cx<'_>) -> Step {
        match self.one_less(pending, cx) {
            Some((id, end)) => Step::FinishAt(id, end),
            None => Step::Idle,
        }
    }

    /// An operation for request `pending` was issued.
    pub(super) fn issued(&mut self, pending: u32, done: Done, cx: &mut Cx<'_>) {
        if pending == NOBODY {
            return;
        }
        let request = &mut self.pendings[pending as usize];
        if done.time.end >= request.slowest.time.end {
            request.slowest = done;
        }
        if let Some((id, end)) = self.one_less(pending, cx) {
            cx.finish_at(id, end);
        }
    }

    /// The end of the request, when nothing of it is left.
    fn one_less(&mut self, pending: u32, cx: &mut Cx<'_>) -> Option<(ReqId, Instant)> {
        let request = &mut self.pendings[pending as usize];
        request.left -= 1;
        if request.left > 0 {
            return None;
        }
        let Pending { id, came, slowest, is_trim, .. } = *request;
        self.pendings_free.push(pending);
        if !is_trim {
            self.note_hold(slowest.issued.since(came));
        }
        let (timing, path) = (self.lanes.timing(), &mut cx.requests[id].path);
        // A page waits in its line for merges only: nothing else holds a line up.
        path.add(Phase::Gc, slowest.issued.since(came));
        let mut ready = slowest.issued;
        if let Some(read) = &slowest.premerge {
            read.read_path(ready, timing, path);
            ready = read.end;
        }
        match slowest.waits_for {
            None => slowest.time.program_path(ready, timing, path),
            Some(phase) => path.add(phase, slowest.time.end.since(ready)),
        }
        // What ended before the last page was issued is over already.
        let end = slowest.time.end.later(cx.now);
        path.add(Phase::Gc, end.since(slowest.time.end));
        Some((id, end))
    }

    /// Unmaps whole pages; parts of pages become zeros.
    pub(super) fn trim(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (offset, len, cause) = (request.offset, request.len, request.cause);
        let pending = self.begin(id, true, cx.now);
        let mut whole: Option<std::ops::Range<u32>> = None;
        for part in self.pages.parts(offset, len) {
            if self.pages.is_whole(&part) {
                let first = whole.map_or(part.lpn, |pages| pages.start);
                whole = Some(first..part.lpn + 1);
            } else if self.may_be_mapped(part.lpn) {
                self.submit_write(&part, Payload::NONE, pending, cause, cx);
            } else {
                let (plane, _) = self.pages.home(part.lpn);
                self.skip(plane, pending, cx.now);
            }
        }
        if let Some(pages) = whole {
            self.seal(pages.clone());
            let ranges: Vec<_> = self.pages.on_planes(pages).collect();
            for (plane, range) in ranges {
                self.unmap(plane, range, pending, cause, cx);
            }
        }
        self.taken_apart(pending, cx)
    }

    /// Puts pages to unmap into the line of their plane, one logical block at a time.
    fn unmap(
        &mut self,
        plane: u32,
        range: std::ops::Range<u32>,
        pending: u32,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) {
        let pages = self.layout.pages;
        let mut first = range.start;
        while first < range.end {
            let end = range.end.min((first / pages + 1) * pages);
            let line = &self.lines[plane as usize];
            if !line.queue.is_empty() || line.map.region().any_mapped(first, end) {
                self.submit(plane, Job::Unmap { first, end }, Held::NOTHING, pending, cause, cx);
            } else {
                self.skip(plane, pending, cx.now);
            }
            first = end;
        }
    }

    /// There is nothing to unmap: the trim still waits for what has unmapped it.
    fn skip(&mut self, plane: u32, pending: u32, now: Instant) {
        let done = Done::waiting(now, self.lines[plane as usize].unmapped_until, Phase::Hold);
        let slowest = &mut self.pendings[pending as usize].slowest;
        if done.time.end > slowest.time.end {
            *slowest = done;
        }
    }

    fn may_be_mapped(&self, lpn: u32) -> bool {
        let (plane, spot) = self.find(lpn);
        spot.is_some() || !self.lines[plane as usize].queue.is_empty()
    }

    pub(super) fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if self.buffer.is_none() || self.planted.flush_ignores_buffer {
            return Step::FinishAt(id, cx.now);
        }
        self.wait_for_programs(id, cx.now, cx);
        Step::Idle
    }

    pub(super) fn put_counters(&self, out: &mut Vec<Counter>) {
        let c = &self.count;
        let mut m = Counts::default();
        let (mut free, mut valid, mut logs, mut ram, mut worn) = (0, 0, 0, 0, 0);
        for line in &self.lines {
            let (map, region) = (&line.map, line.map.region());
            let k = &region.count;
            m.switches += k.switches;
            m.partials += k.partials;
            m.fulls += k.fulls;
            m.copies += k.copies;
            m.fillers += k.fillers;
            m.marks += k.marks;
            m.unmapped += k.unmapped;
            m.logs_closed += k.logs_closed;
            m.log_pages_used += k.log_pages_used;
            free += u64::from(region.free());
            valid += region.mapped();
            logs += u64::from(map.logs());
            ram += map.map_ram();
            worn = worn.max(u64::from(region.erases().iter().copied().max().unwrap_or(0)));
        }
        let programmed = self.programmed();
        let mut put = |name, value| out.push(Counter { name, value });
        put("host_pages_written", c.host_pages_written);
        put("host_pages_read", c.host_pages_read);
        put("pages_read_before_write", c.pages_premerged);
        put("merges_switch", m.switches);
        put("merges_partial", m.partials);
        put("merges_full", m.fulls);
        put("gc_pages_moved", m.copies);
        put("filler_pages", m.fillers);
        put("trim_mark_pages", m.marks);
        put("pages_trimmed", m.unmapped);
        put("erase_count", c.erases);
        put("erases_of_a_block_max", worn);
        put("nand_bytes_written", programmed << self.pages.bits);
        put("nand_pages_programmed", programmed);
        put("free_blocks", free);
        put("valid_pages", valid);
        put("log_blocks_open", logs);
        put("log_blocks_closed", m.logs_closed);
        put("log_pages_used", m.log_pages_used);
        put("log_pages_closed", m.logs_closed * u64::from(self.layout.pages));
        put("writes_held", c.writes_held);
        put("write_held_longest_ns", c.longest_hold.0);
        if let Some(buffer) = &self.buffer {
            put("buffer_pages", u64::from(buffer.used()));
            put("buffer_pages_read", c.buffer_pages_read);
            put("buffer_pages_replaced", c.buffer_pages_replaced);
        }
        put("map_ram_bytes", ram);
        self.recovery.counters(out);
    }
    /// Pages programmed since the counters were reset.
    pub(super) fn programmed(&self) -> u64 {
        let moved = |line: &super::Line<F>| {
            let k = &line.map.region().count;
            k.copies + k.fillers + k.marks
        };
        self.count.host_pages_written + self.lines.iter().map(moved).sum::<u64>()
    }

    /// What the RAM of the map and of the write buffer draws. A page that passes the buffer is written to it and read from
    /// it.
    pub(super) fn ram_energy(&self, time: Span, out: &mut Vec<EnergyPart>) {
        let map: u64 = self.lines.iter().map(|line| line.map.map_ram()).sum();
        let (held, pages) = match &self.buffer {
            Some(buffer) => {
                let c = &self.count;
                let drained = c.host_pages_written;
                (u64::from(buffer.capacity()), 2 * drained + c.buffer_pages_replaced + c.buffer_pages_read)
            }
            None => (0, 0),
        };
        RamPower::DDR3L.account(map + (held << self.pages.bits), pages << self.pages.bits, time, out);
    }

    /// All blocks wear together.
    pub(super) fn wear_region(&self) -> WearRegion {
        let blocks = u64::from(self.layout.planes) * u64::from(self.layout.blocks);
        let bits = (blocks * u64::from(self.layout.pages)) << (self.pages.bits + 3);
        let erases = || self.lines.iter().flat_map(|line| line.map.region().erases());
        WearRegion {
            region: "flash",
            bits_per_cell: self.bits_per_cell,
            cells: bits / u64::from(self.bits_per_cell),
            blocks,
            endurance: self.endurance,
            erases: self.count.erases,
            erases_ever: erases().map(|&n| u64::from(n)).sum(),
            erases_most: erases().copied().max().unwrap_or(0),
        }
    }
}
