//! The write buffer: pages that are acknowledged and not programmed.
//!
//! The pages stand in the lines of their planes; the buffer knows which page stands where, so that a newer write takes the
//! place of an older one without a program, and how many there are. Pages that are being programmed still count.

use super::line::{Entry, Job, Line, NOBODY};
use super::pages::{ones, Part};
use super::{Barrier, LogSsd};
use nandu_base::{
    ByteLen, Cx, Flags, Instant, Payload, Phase, ReqId, Resource, Span, Step, Violation, Work, SECTOR,
};
use nandu_ftl::log_block::LogBlocks;
use std::collections::VecDeque;

/// A write that waits for room.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    id: ReqId,
    came: Instant,
    merged_then: Span,
    serial: u32,
    /// The first page that has no room yet.
    next: u32,
}

/// The write buffer.
pub(super) struct Buffer {
    /// Pages that fit.
    capacity: u32,
    used: u32,
    /// The entry of each logical page in its line, by its number plus one; 0 for none.
    index: Vec<u64>,
    waiting: VecDeque<Waiting>,
    bytes_per_second: u64,
    link_free_at: Instant,
    pub link_busy: Span,
    /// The drive has said that merges hold it up.
    is_pressed: bool,
}

impl Buffer {
    pub fn new(capacity: u32, logical: u32, bytes_per_second: u64) -> Buffer {
        Buffer {
            capacity,
            used: 0,
            index: vec![0; logical as usize],
            waiting: VecDeque::new(),
            bytes_per_second,
            link_free_at: Instant::ZERO,
            link_busy: Span::ZERO,
            is_pressed: false,
        }
    }

    /// What the drive has to say of itself now: under pressure from when a write waits for room while planes merge until
    /// half of the buffer is free.
    pub fn pressure(&mut self, merges: bool) -> Option<bool> {
        let pressed = match self.is_pressed {
            true => self.used > self.capacity / 2,
            false => merges && !self.waiting.is_empty(),
        };
        (std::mem::replace(&mut self.is_pressed, pressed) != pressed).then_some(pressed)
    }

    pub fn has_room(&self) -> bool {
        self.used < self.capacity && self.waiting.is_empty()
    }

    pub fn used(&self) -> u32 {
        self.used
    }

    /// The number of the entry that holds the newest version of a page.
    pub fn entry_of(&self, lpn: u32) -> Option<u64> {
        self.index[lpn as usize].checked_sub(1)
    }

    /// An entry has left its line.
    pub fn left_line(&mut self, lpn: u32, number: u64) {
        if self.index[lpn as usize] == number + 1 {
            self.index[lpn as usize] = 0;
        }
    }

    /// The program of a page is complete.
    pub fn give_back(&mut self) {
        self.used -= 1;
    }

    /// Time that `len` bytes take on the link, rounded up.
    pub fn transfer(&self, len: ByteLen) -> Span {
        let ns = u128::from(len.0) * 1_000_000_000;
        Span(ns.div_ceil(u128::from(self.bytes_per_second)) as u64)
    }

    /// Whether index, lines and number of pages agree.
    pub fn check<F>(&self, lines: &[Line<F>]) -> Result<(), Violation> {
        let entries = lines.iter().flat_map(|line| &line.queue).filter(|e| e.is_buffered).count();
        let flying = lines.iter().filter(|line| line.flying.is_some()).count();
        let named = self.index.iter().filter(|&&number| number != 0).count();
        if entries + flying != self.used as usize || named > entries {
            let what = format!(
                "the write buffer counts {} pages; {entries} wait and {flying} are programmed, {named} are named",
                self.used
            );
            return Err(Violation { invariant: "I-5", what });
        }
        Ok(())
    }
}

impl<F: LogBlocks> LogSsd<F> {
    fn buffer(&mut self) -> &mut Buffer {
        self.buffer.as_mut().expect("only asked of a drive with a write buffer")
    }

    pub(super) fn write_buffered(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.serial = self.serial.wrapping_add(1);
        let waiting = Waiting {
            id,
            came: cx.now,
            merged_then: self.merges.until(cx.now),
            serial: self.serial,
            next: self.pages.of(cx.requests[id].offset),
        };
        self.buffer().waiting.push_back(waiting);
        Step::Idle
    }

    /// Lets writes in, in the order in which they came, as far as there is room.
    pub(super) fn admit_waiting(&mut self, cx: &mut Cx<'_>) {
        while let Some(mut waiting) = self.buffer().waiting.front().copied() {
            if !self.admit(&mut waiting, cx) {
                *self.buffer().waiting.front_mut().expect("it was there") = waiting;
                return;
            }
            self.buffer().waiting.pop_front();
            self.acknowledge(&waiting, cx);
        }
    }

    /// Puts the pages of a write into the buffer; false when it is full before all are in.
    fn admit(&mut self, waiting: &mut Waiting, cx: &mut Cx<'_>) -> bool {
        let request = &cx.requests[waiting.id];
        let (offset, len, payload, cause) = (request.offset, request.len, request.payload, request.cause);
        let next = waiting.next;
        for part in self.pages.parts(offset, len).skip_while(|part| part.lpn < next) {
            waiting.next = part.lpn;
            let (plane, local) = self.pages.home(part.lpn);
            let data = payload.slice(part.before);
            let number = self.buffer().entry_of(part.lpn);
            let sealed = number.map(|number| self.lines[plane as usize].entry(number).is_sealed);
            if let (Some(number), Some(false)) = (number, sealed) {
                self.replace(plane, number, &part, data, cx);
                continue;
            }
            if self.buffer().used >= self.buffer().capacity {
                return false;
            }
            cx.pool.keep(data);
            let (payload, from, mask) = (data, part.first, part.mask());
            self.ticket += 1;
            let mut entry = Entry {
                job: Job::Write { lpn: part.lpn, local },
                payload,
                from,
                mask,
                pending: NOBODY,
                serial: waiting.serial,
                ticket: self.ticket,
                cause,
                is_buffered: true,
                is_sealed: false,
                has_begun: false,
            };
            if sealed.is_some() && !self.pages.is_whole(&part) {
                // A trim of the whole page is on its way before this write: the rest of the page is zeros.
                self.spread_out(&mut entry, cx);
                entry.mask = ones(self.pages.sectors);
            }
            let number = self.lines[plane as usize].push(entry);
            let buffer = self.buffer();
            buffer.index[part.lpn as usize] = number + 1;
            buffer.used += 1;
            self.pump(plane, cx);
        }
        true
    }

    /// A newer version takes the place of one that was not programmed.
    fn replace(&mut self, plane: u32, number: u64, part: &Part, data: Payload, cx: &mut Cx<'_>) {
        self.count.buffer_pages_replaced += 1;
        let mut entry = *self.lines[plane as usize].entry(number);
        if self.pages.is_whole(part) {
            cx.pool.keep(data);
            cx.pool.release(entry.payload);
            (entry.payload, entry.from) = (data, 0);
        } else {
            self.spread_out(&mut entry, cx);
            let to = entry.payload.slice(ByteLen(u64::from(part.first) * SECTOR));
            cx.pool.copy(data, to, ByteLen(u64::from(part.count) * SECTOR));
        }
        entry.mask |= part.mask();
        *self.lines[plane as usize].entry_mut(number) = entry;
    }

    /// Gives an entry a buffer of a whole page of its own.
    fn spread_out(&self, entry: &mut Entry, cx: &mut Cx<'_>) {
        let whole = cx.pool.allocate(ByteLen(1 << self.pages.bits));
        for sector in (0..self.pages.sectors).filter(|s| entry.mask >> s & 1 == 1) {
            let from = entry.payload.slice(ByteLen(u64::from(sector - entry.from) * SECTOR));
            cx.pool.copy(from, whole.slice(ByteLen(u64::from(sector) * SECTOR)), ByteLen(SECTOR));
        }
        cx.pool.release(entry.payload);
        (entry.payload, entry.from) = (whole, 0);
    }

    /// A write is in the buffer as a whole: it ends when it has crossed the link, or with FUA when it is programmed.
    fn acknowledge(&mut self, waiting: &Waiting, cx: &mut Cx<'_>) {
        let Waiting { id, came, merged_then, .. } = *waiting;
        let request = &cx.requests[id];
        let (len, cause, is_durable) = (request.len, request.cause, request.flags.has(Flags::FUA));
        self.note_hold(cx.now.since(came));
        let buffer = self.buffer();
        let transfer = buffer.transfer(len);
        let start = buffer.link_free_at.later(cx.now);
        let end = start + transfer;
        buffer.link_free_at = end;
        buffer.link_busy += transfer;
        cx.charge(cause, Resource::Device, Work::Write, transfer);
        if is_durable {
            let ticket = self.ticket;
            self.barriers.push_back(Barrier { id, ticket, came, merged_then, not_before: end });
            return;
        }
        self.explain_wait(id, came, merged_then, cx);
        let path = &mut cx.requests[id].path;
        path.add(Phase::Queue, start.since(cx.now));
        path.add(Phase::Bus, transfer);
        cx.finish_at(id, end);
    }

    /// Explains the time from `came` until now: merges as far as there were any, and waiting.
    pub(super) fn explain_wait(&self, id: ReqId, came: Instant, merged_then: Span, cx: &mut Cx<'_>) {
        let wait = cx.now.since(came);
        let merged = Span((self.merges.until(cx.now) - merged_then).0.min(wait.0));
        let path = &mut cx.requests[id].path;
        path.add(Phase::Gc, merged);
        path.add(Phase::Queue, wait - merged);
    }

    pub(super) fn note_hold(&mut self, hold: Span) {
        if hold > Span::ZERO {
            self.count.writes_held += 1;
            self.count.longest_hold = self.count.longest_hold.longer(hold);
        }
    }

    /// `id` ends when everything in the lines is programmed.
    pub(super) fn wait_for_programs(&mut self, id: ReqId, came: Instant, cx: &Cx<'_>) {
        let (ticket, merged_then) = (self.ticket, self.merges.until(cx.now));
        self.barriers.push_back(Barrier { id, ticket, came, merged_then, not_before: came });
    }

    /// Ends those whose pages have left the lines.
    pub(super) fn pass_barriers(&mut self, cx: &mut Cx<'_>) {
        if self.barriers.is_empty() {
            return;
        }
        let firsts = self.lines.iter().filter_map(|line| line.queue.front()).map(|entry| entry.ticket);
        let oldest = firsts.min().unwrap_or(u64::MAX);
        while let Some(barrier) = self.barriers.front().copied().filter(|b| b.ticket < oldest) {
            self.barriers.pop_front();
            if barrier.id == ReqId::NONE {
                self.end_session(cx);
                continue;
            }
            let end = self.durable_at.later(cx.now).later(barrier.not_before);
            self.explain_wait(barrier.id, barrier.came, barrier.merged_then, cx);
            cx.requests[barrier.id].path.add(Phase::Program, end.since(cx.now));
            cx.finish_at(barrier.id, end);
        }
    }

    /// A trim of whole pages has come: what is written to them from now on stands behind it.
    pub(super) fn seal(&mut self, pages: std::ops::Range<u32>) {
        let Some(buffer) = &self.buffer else { return };
        for lpn in pages {
            if let Some(number) = buffer.entry_of(lpn) {
                let (plane, _) = self.pages.home(lpn);
                self.lines[plane as usize].entry_mut(number).is_sealed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_begins_when_a_write_waits_for_merges_and_ends_half_empty() {
        let mut buffer = Buffer::new(4, 8, 1);
        let waiting =
            Waiting { id: ReqId::NONE, came: Instant::ZERO, merged_then: Span::ZERO, serial: 0, next: 0 };
        buffer.used = 4;
        assert_eq!(buffer.pressure(true), None, "full, and nobody waits");
        buffer.waiting.push_back(waiting);
        assert_eq!(buffer.pressure(false), None, "a busy drive is not one that merges");
        assert_eq!(buffer.pressure(true), Some(true));
        assert_eq!(buffer.pressure(true), None, "said once");
        buffer.waiting.clear();
        buffer.used = 3;
        assert_eq!(buffer.pressure(false), None);
        buffer.used = 2;
        assert_eq!(buffer.pressure(true), Some(false));
        assert_eq!(buffer.pressure(true), None);
    }
}
