//! The write buffer: pages that are acknowledged and not programmed.
//!
//! The pages stand in the lines of their planes; the buffer knows which page stands where, so that a newer write takes the
//! place of an older one without a program, and how many there are. Pages that are being programmed still count.

use super::line::{Entry, Job, Line, NOBODY};
use super::pages::Part;
use super::{Barrier, LogSsd};
use crate::write_buffer::{Held, Link, ones};
use nandu_base::{Cx, Flags, Instant, Payload, Phase, ReqId, Resource, Span, Step, Violation, Work};
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
    pub link: Link,
    /// The drive has said that merges hold it up.
    is_pressed: bool,
}

impl Buffer {
    pub fn new(capacity: u32, logical: u32, link: Link) -> Buffer {
        let (index, waiting) = (vec![0; logical as usize], VecDeque::new());
        Buffer { capacity, used: 0, index, waiting, link, is_pressed: false }
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

    /// Pages it can hold.
    pub fn capacity(&self) -> u32 {
        self.capacity
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
            self.ticket += 1;
            let mut entry = Entry {
                job: Job::Write { lpn: part.lpn, local },
                held: Held::keep(cx.pool, data, part.first, part.count),
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
                entry.held.spread_out(cx.pool, self.pages.sectors);
                entry.held.mask = ones(self.pages.sectors);
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
        let sectors = self.pages.sectors;
        let held = &mut self.lines[plane as usize].entry_mut(number).held;
        held.lay_over(cx.pool, sectors, part.first, part.count, data);
    }

    /// A write is in the buffer as a whole: it ends when it has crossed the link, or with FUA when it is programmed.
    fn acknowledge(&mut self, waiting: &Waiting, cx: &mut Cx<'_>) {
        let Waiting { id, came, merged_then, .. } = *waiting;
        let request = &cx.requests[id];
        let (len, cause, is_durable) = (request.len, request.cause, request.flags.has(Flags::FUA));
        self.note_hold(cx.now.since(came));
        let (start, transfer) = self.buffer().link.take(cx.now, len);
        let end = start + transfer;
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
        let mut buffer = Buffer::new(4, 8, Link::new(1));
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
