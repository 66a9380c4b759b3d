//! Requests of the host: reads, writes that end in DRAM, and waiting until something is durable.
//!
//! A read is divided into pages that DRAM has, pages that are on their way there, and runs that are read at once; pages for
//! which there is no frame are read past DRAM. A write takes a frame for each page, in order, and waits where there is
//! none. A flush notes which frames wait, lets them be appended, and then asks for a commit; a change with FUA does the
//! same after it.

use crate::dram::{NO_FRAME, copy_sectors, mask};
use crate::machine::{Hybrid, Tag};
use nandu_base::{ByteLen, ByteOffset, Cx, ErrorKind, Flags, Op, Payload, ReqId, SECTOR};

/// Longest trim or write-zeroes that is kept as zeros in DRAM, in pages.
const ZEROS_MAX: u64 = 16;

/// Where a request of the host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The slot is free.
    Over,
    /// Pages are read.
    Reading,
    /// Pages find their frames.
    Absorbing,
    /// The part that goes to the disk waits for others of its extent.
    BypassWait,
    /// It is on its way.
    Bypassing,
    /// Frames are appended.
    Draining,
    /// A commit is under way.
    Committing,
}

/// A request of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostOp {
    pub id: ReqId,
    pub op: Op,
    pub stage: Stage,
    pub fua: bool,
    /// A read of more than was asked for.
    pub speculative: bool,
    /// Nothing of it is kept in DRAM.
    pub passes: bool,
    /// All of it goes to the disk, parts of pages too.
    pub is_direct: bool,
    pub payload: Payload,
    /// In sectors.
    pub first: u64,
    pub end: u64,
    /// The next page to absorb.
    pub at: u64,
    /// Pages that go to the disk at once.
    pub middle: (u64, u64),
    /// Parts that are not done.
    pub left: u32,
    /// Frames that began to wait before this count must be appended.
    pub mark: u64,
    /// The commit that it waits for.
    pub ticket: u64,
    pub error: Option<ErrorKind>,
}

impl HostOp {
    pub fn is_alive(&self) -> bool {
        self.stage != Stage::Over
    }

    /// The sectors of page `page` that the request concerns, as bits, and where they lie in its payload.
    fn part(&self, page: u64, sectors: u64) -> (u64, u64) {
        let start = page * sectors;
        let (a, b) = (self.first.max(start), self.end.min(start + sectors));
        (mask(a - start, b - start), a - self.first)
    }
}

impl Hybrid {
    pub(crate) fn sectors(&self) -> u64 {
        self.page / SECTOR
    }

    /// A request came.
    pub(crate) fn admit(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let request = &cx.requests[id];
        let (op, fua) = (request.op, request.flags.has(Flags::FUA));
        let speculative = request.flags.has(Flags::SPECULATIVE);
        let first = request.offset.sector();
        let end = first + request.len.sectors();
        let sectors = self.sectors();
        let host = HostOp {
            id,
            op,
            stage: Stage::Absorbing,
            fua: (fua || self.policy.ack_durable) && op != Op::Read,
            speculative,
            passes: false,
            is_direct: false,
            payload: request.payload,
            first,
            end,
            at: first / sectors,
            middle: (0, 0),
            left: 0,
            mark: 0,
            ticket: 0,
            error: None,
        };
        let i = self.free_ops.pop().unwrap_or_else(|| {
            self.ops.push(host);
            (self.ops.len() - 1) as u32
        });
        self.ops[i as usize] = host;
        let passes = matches!(op, Op::Read | Op::Write) && self.streams.pass(first, end);
        match op {
            Op::Flush => self.make_durable(i, cx),
            _ if end == first => self.finish_op(i, None, cx),
            _ if self.meets_lost(op, first, end) => {
                self.ops[i as usize].error = Some(ErrorKind::Lost);
                self.finish_op(i, None, cx);
            }
            Op::Read => self.read(i, passes, cx),
            _ => {
                self.ops[i as usize].passes = passes;
                self.count.host_written += end.div_ceil(sectors) - first / sectors;
                self.change(i, cx);
            }
        }
    }

    /// Sends a change where it goes: to the disk where that must have it at once, else to DRAM.
    pub(crate) fn change(&mut self, i: u32, cx: &mut Cx<'_>) {
        let HostOp { op, first, end, passes, .. } = self.ops[i as usize];
        let sectors = self.sectors();
        let bytes = (end - first) * SECTOR;
        let is_direct = self.is_through() || !self.has_rings();
        self.ops[i as usize].is_direct = is_direct;
        if is_direct {
            let is_long = self.policy.write_bypass > 0 && bytes > self.policy.write_bypass;
            let op = &mut self.ops[i as usize];
            (op.passes, op.middle) = (passes || is_long, (first / sectors, end.div_ceil(sectors)));
            return self.begin_bypass(i, cx);
        }
        let most = if op == Op::Write { self.policy.write_bypass } else { ZEROS_MAX * self.page };
        let (a, b) = (first.div_ceil(sectors), end / sectors);
        // What was lost is served again when the disk has it.
        let goes_by = passes || (most > 0 && bytes > most) || a < b && self.has_lost(a, b);
        self.ops[i as usize].middle = if goes_by && a < b { (a, b) } else { (0, 0) };
        self.absorb(i, cx);
    }

    /// Pages that are looked for nowhere but where they are, when the read `passes` by or is long.
    fn read(&mut self, i: u32, passes: bool, cx: &mut Cx<'_>) {
        let op = self.ops[i as usize];
        let sectors = self.sectors();
        let passes =
            passes || self.policy.read_bypass > 0 && (op.end - op.first) * SECTOR > self.policy.read_bypass;
        let (mut page, end) = (op.first / sectors, op.end.div_ceil(sectors));
        self.count.host_read += end - page;
        self.ops[i as usize].stage = Stage::Reading;
        self.ops[i as usize].left = 1;
        while page < end {
            let Some(at) = self.dram.find(page as u32) else {
                page += u64::from(self.read_run(i, page as u32, (end - page) as u32, passes, cx));
                continue;
            };
            let (wanted, _) = op.part(page, sectors);
            if self.dram.frames[at as usize].valid & wanted == wanted {
                self.count.dram_hits += 1;
                self.give(i, page, self.dram.frames[at as usize].data, cx);
            } else {
                self.dram.frames[at as usize].waiters.push(i);
                self.ops[i as usize].left += 1;
                self.complete_frame(at, i, cx);
            }
            self.dram.settle(at);
            page += 1;
        }
        self.part_done(i, None, cx);
    }

    /// Reads a run of pages that have no frame, at most `most` from `page`; returns how many.
    fn read_run(&mut self, i: u32, page: u32, most: u32, passes: bool, cx: &mut Cx<'_>) -> u32 {
        let count = self.run_length(page, most);
        let load = self.new_load(page, count, i);
        for k in 0..count {
            let frame = if passes { None } else { self.dram.take(page + k) };
            if let Some(at) = frame {
                let f = &mut self.dram.frames[at as usize];
                f.loading = true;
                f.speculative = self.ops[i as usize].speculative;
                f.waiters.push(i);
            }
            self.loads[load as usize].frames.push(frame.unwrap_or(NO_FRAME));
        }
        self.ops[i as usize].left += count;
        self.send_load(load, cx);
        count
    }

    /// Copies what a read wants of a page.
    pub(crate) fn give(&mut self, i: u32, page: u64, data: Payload, cx: &mut Cx<'_>) {
        let sectors = self.sectors();
        let op = &self.ops[i as usize];
        let (wanted, at) = op.part(page, sectors);
        let first = u64::from(wanted.trailing_zeros());
        let len = ByteLen(u64::from(wanted.count_ones()) * SECTOR);
        cx.pool.copy(data.slice(ByteLen(first * SECTOR)), op.payload.slice(ByteLen(at * SECTOR)), len);
    }

    /// A part of a read is done, by the end of `child` if there is one.
    pub(crate) fn part_done(&mut self, i: u32, child: Option<ReqId>, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.left -= 1;
        if op.left == 0 {
            self.finish_op(i, child, cx);
        }
    }

    /// Puts the pages of a change into frames, until there is none.
    pub(crate) fn absorb(&mut self, i: u32, cx: &mut Cx<'_>) {
        let sectors = self.sectors();
        loop {
            let op = self.ops[i as usize];
            if op.at * sectors >= op.end {
                break;
            }
            if op.at == op.middle.0 && op.middle.1 > op.at {
                self.ops[i as usize].at = op.middle.1;
                continue;
            }
            let found = self.dram.find(op.at as u32).or_else(|| self.dram.take(op.at as u32));
            let Some(at) = found else {
                self.wait_frames.push_back(i);
                return;
            };
            let (wanted, from) = op.part(op.at, sectors);
            let data = self.dram.frames[at as usize].data;
            if op.op == Op::Write {
                let shift = u64::from(wanted.trailing_zeros());
                let len = ByteLen(u64::from(wanted.count_ones()) * SECTOR);
                let source = op.payload.slice(ByteLen(from * SECTOR));
                cx.pool.copy(source, data.slice(ByteLen(shift * SECTOR)), len);
            } else {
                let shift = u64::from(wanted.trailing_zeros());
                let len = ByteLen(u64::from(wanted.count_ones()) * SECTOR);
                cx.pool.zero(data.slice(ByteLen(shift * SECTOR)), len);
            }
            let f = &mut self.dram.frames[at as usize];
            f.valid |= wanted;
            f.dirty |= wanted;
            f.passed &= !wanted;
            self.dram.settle(at);
            self.ops[i as usize].at += 1;
        }
        if self.ops[i as usize].middle.1 > 0 {
            self.begin_bypass(i, cx);
        } else {
            self.changed(i, cx);
        }
    }

    /// Requests that wait for frames go on, in order.
    pub(crate) fn retry_frames(&mut self, cx: &mut Cx<'_>) {
        while self.dram.has_room() {
            let Some(i) = self.wait_frames.pop_front() else { return };
            self.absorb(i, cx);
            if self.wait_frames.back() == Some(&i) {
                self.wait_frames.rotate_right(1);
                return;
            }
        }
    }

    /// A change has had its effect.
    pub(crate) fn changed(&mut self, i: u32, cx: &mut Cx<'_>) {
        if self.ops[i as usize].fua {
            self.make_durable(i, cx);
        } else {
            self.finish_op(i, None, cx);
        }
    }

    /// The request ends when everything that came before is durable.
    pub(crate) fn make_durable(&mut self, i: u32, cx: &mut Cx<'_>) {
        if self.is_through() {
            return self.flush_disk(i, cx);
        }
        let op = &mut self.ops[i as usize];
        op.stage = Stage::Draining;
        op.mark = self.dram.next_since;
        self.wait_durable.push(i);
        self.made_progress = true;
    }

    /// The request ends when the disk is flushed: nothing else has anything that the disk does not have.
    fn flush_disk(&mut self, i: u32, cx: &mut Cx<'_>) {
        self.ops[i as usize].stage = Stage::Committing;
        if !self.policy.disk_volatile {
            return self.finish_op(i, None, cx);
        }
        let id = self.ops[i as usize].id;
        self.send_for(id, self.disk, Op::Flush, ByteOffset::ZERO, 0, Payload::NONE, Tag::Flush, i, cx);
    }

    /// The disk is flushed for the sake of a request. A flush that failed proves nothing, and neither would another: service ends.
    pub(crate) fn disk_flushed(&mut self, i: u32, id: ReqId, cx: &mut Cx<'_>) {
        match cx.requests[id].error {
            None => self.finish_op(i, Some(id), cx),
            Some(_) => self.fail(ErrorKind::WriteFailed, cx),
        }
    }

    /// Whether a request waits until frames are appended.
    pub(crate) fn has_drainers(&self) -> bool {
        self.wait_durable.iter().any(|&i| self.ops[i as usize].stage == Stage::Draining)
    }

    /// Whether every frame that began to wait before `mark` is appended.
    pub(crate) fn is_drained(&mut self, mark: u64) -> bool {
        if self.planted.flush_from_dram || self.is_through() {
            return true;
        }
        let waiting = self.dram.oldest_since().is_some_and(|since| since < mark);
        !waiting && self.writers[0].oldest_since().is_none_or(|since| since >= mark)
    }

    /// Answers those whose frames are appended or whose commit is over.
    pub(crate) fn answer_durable(&mut self, cx: &mut Cx<'_>) {
        let mut at = 0;
        while at < self.wait_durable.len() {
            let i = self.wait_durable[at];
            let op = self.ops[i as usize];
            if op.stage == Stage::Draining && self.is_drained(op.mark) {
                let ticket = self.ask_for_commit();
                let op = &mut self.ops[i as usize];
                (op.stage, op.ticket) = (Stage::Committing, ticket);
            }
            let op = &self.ops[i as usize];
            if op.stage == Stage::Committing && op.ticket <= self.commit.done {
                self.wait_durable.swap_remove(at);
                self.finish_op(i, None, cx);
                self.made_progress = true;
            } else {
                at += 1;
            }
        }
    }

    /// Answers a request.
    pub(crate) fn finish_op(&mut self, i: u32, child: Option<ReqId>, cx: &mut Cx<'_>) {
        let op = &mut self.ops[i as usize];
        op.stage = Stage::Over;
        let (id, error) = (op.id, op.error);
        self.free_ops.push(i);
        if let Some(kind) = error {
            cx.requests[id].fail(kind);
        }
        if let Some(child) = child {
            cx.absorb(id, child);
        }
        cx.finish(id);
    }

    /// What is left of a page that is partly in memory is read.
    pub(crate) fn complete_frame(&mut self, at: u32, i: u32, cx: &mut Cx<'_>) {
        let f = &mut self.dram.frames[at as usize];
        if f.loading {
            return;
        }
        f.loading = true;
        let page = f.page;
        let load = self.new_load(page, 1, i);
        self.loads[load as usize].frames.push(at);
        self.send_load(load, cx);
    }

    /// Fills what a frame lacks of a page from a copy of the whole page.
    pub(crate) fn fill_frame(&mut self, at: u32, data: Payload, cx: &mut Cx<'_>) {
        let full = self.dram.full;
        let f = &mut self.dram.frames[at as usize];
        copy_sectors(cx.pool, data, f.data, full & !f.valid);
        f.valid = full;
    }
}
