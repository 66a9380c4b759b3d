//! From the buffer to the dies.
//!
//! Pages are given to the dies as the host's pages are without a buffer: the next plane in turn, collection behind it. The end of a
//! program that waits for nothing is known at once, that of another when it has its time.

use super::super::executor::Pieces;
use super::slots::Slot;
use super::{Buffer, Ssd};
use nandu_base::{Cx, DeviceEvent, Instant, Overlay, ReqId, Work};
use nandu_ftl::mapping::Mapping;
use nandu_ftl::plan::pages::Part;
use nandu_ftl::{Lpn, Ppn};

impl Buffer {
    /// The oldest page of a lane, when it is to be programmed now.
    #[inline(always)]
    fn due(&self, now: Instant) -> Option<u32> {
        self.due_of(0, now).or_else(|| if self.plan.lanes == 1 { None } else { self.due_of_others(now) })
    }

    #[inline(never)]
    fn due_of_others(&self, now: Instant) -> Option<u32> {
        (1..self.plan.lanes).find_map(|lane| self.due_of(lane, now))
    }

    #[inline(always)]
    fn due_of(&self, lane: u32, now: Instant) -> Option<u32> {
        let at = self.slots.oldest(lane)?;
        if self.slots.in_flight(lane) >= self.plan.max_programs {
            return None;
        }
        let oldest = self.slots.slot(at);
        let is_due = self.slots.waiting() > self.plan.keep
            || oldest.came + self.plan.dirty_expire <= now
            || self.is_asked_for(oldest);
        is_due.then_some(at)
    }

    /// When the oldest page of a lane is to be programmed for its age.
    #[inline(always)]
    fn ages_at(&self, lane: u32) -> Option<Instant> {
        let oldest = self.slots.slot(self.slots.oldest(lane)?);
        let due = oldest.came + self.plan.dirty_expire;
        // All that may be programmed at a time are: the first of them comes before the next.
        let is_full = self.slots.in_flight(lane) >= self.plan.max_programs;
        if is_full { self.slots.first_end().map(|end| end.later(due)) } else { Some(due) }
    }

    /// Whether somebody waits for pages to leave.
    #[inline]
    fn is_asked_for(&self, oldest: &Slot) -> bool {
        self.closing
            || !self.held.is_empty()
            || self.barriers.back().is_some_and(|barrier| barrier.ticket >= oldest.ticket)
    }

    /// When the buffer is to be looked at again, if ever.
    fn look_at(&self) -> Option<Instant> {
        let waits = self.closing
            || !self.held.is_empty()
            || !self.barriers.is_empty()
            || !self.durables.is_empty()
            || self.slots.waiting() > self.plan.keep;
        if waits {
            return self.slots.first_end();
        }
        match self.plan.lanes {
            1 => self.ages_at(0),
            lanes => (0..lanes).filter_map(|lane| self.ages_at(lane)).min(),
        }
    }
}

impl<M: Mapping> Ssd<M> {
    /// Programs what is due, lets writes in for which there is room, and sees to it that this goes on.
    pub(super) fn write_out(&mut self, cx: &mut Cx<'_>) {
        self.program_due(cx);
        if !self.buffer().held.is_empty() {
            self.admit_held(cx);
            self.program_due(cx);
        }
        if self.plan.exec.queue.holds_back() {
            self.serve(cx);
        }
        self.arm_buffer(cx);
    }

    #[inline]
    fn program_due(&mut self, cx: &mut Cx<'_>) {
        let Some(mut oldest) = self.buffer().due(cx.now) else { return };
        self.plan.exec.begin_group();
        let Slot { lpn, cause, .. } = loop {
            let slot = *self.buffer().slots.slot(oldest);
            self.program_slot(oldest, cx);
            match self.buffer().due(cx.now) {
                Some(next) => oldest = next,
                None => break slot,
            }
        };
        self.plan.gather_some(Lpn(lpn), cause, cx);
    }

    /// Gives the page of a waiting slot to the dies.
    pub(super) fn program_slot(&mut self, at: u32, cx: &mut Cx<'_>) {
        let outer = self.plan.exec.lanes.work_for(Work::Write);
        let buffer = self.buffer();
        buffer.count.pages_written += 1;
        buffer.slots.issue(at);
        let &Slot { lpn, ref held, cause, .. } = buffer.slots.slot(at);
        let (data, part) = match held.page(buffer.plan.all) {
            Some(data) => (data, None),
            None => {
                let Overlay { first, count, payload } =
                    held.overlay().expect("a slot holds one stretch of sectors");
                (payload, Some(Part { first, count }))
            }
        };
        self.plan.turns.aim(lpn);
        let mut older = None;
        if self.plan.exec.queue.holds_back() {
            older = self.plan.map.get(Lpn(lpn)).map(|older| self.plan.exec.stripes.units.place(older));
        }
        let mut pieces = Pieces::of_slot(at, cx, cause);
        self.plan.write_out_page(Lpn(lpn), part, data, &mut pieces, cx);
        self.note_writers(cx);
        self.wrote_out(at, older, pieces, cx);
        self.plan.exec.lanes.work_for(outer);
    }

    /// The page of a slot was given to the dies; `older` is where it lay.
    #[inline(always)]
    fn wrote_out(&mut self, at: u32, older: Option<Ppn>, mut pieces: Pieces, cx: &mut Cx<'_>) {
        pieces.charge(cx);
        let is_behind = older.is_some_and(|older| self.plan.exec.queue.writer_waits(older));
        if pieces.tally.answer().is_none() && !is_behind {
            return self.slot_leaves(at, pieces.tally.slowest.time.end, cx);
        }
        let answer = self.plan.exec.answer_of(&mut pieces);
        self.plan.exec.queue.not_before(answer, pieces.tally.slowest.time.end);
        // The younger version does not leave before the older one, which a power cut could find alone.
        self.plan.exec.queue.after_program_of(older, answer);
        self.plan.exec.queue.close(answer);
    }

    /// Programs what waits of pages that a tenant gives up, and finds them here no more. False, and nothing is done, while a write to them waits for
    /// room.
    pub(in super::super) fn give_pages_up(&mut self, first: u32, end: u32, cx: &mut Cx<'_>) -> bool {
        let Some(buffer) = self.buffer.as_deref() else { return true };
        let is_late = |write: &super::Late| {
            let pages = self.pages_of(write.id, cx);
            pages.first < end && first < pages.end
        };
        if buffer.held.iter().any(is_late) {
            return false;
        }
        for lpn in first..end {
            if let Some(at) = self.waiting_slot(lpn) {
                self.plan.exec.begin_group();
                self.program_slot(at, cx);
            }
            self.buffer().slots.hide(lpn);
        }
        self.write_out(cx);
        true
    }

    /// It is known when the page of a slot is programmed.
    pub(in super::super) fn slot_leaves(&mut self, at: u32, end: Instant, cx: &mut Cx<'_>) {
        let early = self.buffer().plan.planted.slot_too_early;
        let end = if early { cx.now } else { end };
        let buffer = self.buffer();
        if buffer.is_protected() && buffer.slots.issued_before(at).is_some() {
            // Were it gone, capacitors would save the older version alone.
            buffer.behind.push((at, end));
            return;
        }
        self.let_go(at, end, cx);
        loop {
            let buffer = self.buffer();
            let goes = buffer.behind.iter().position(|&(at, _)| buffer.slots.issued_before(at).is_none());
            let Some(goes) = goes else { return };
            let (at, end) = buffer.behind.swap_remove(goes);
            self.let_go(at, end, cx);
        }
    }

    fn let_go(&mut self, at: u32, end: Instant, cx: &mut Cx<'_>) {
        let end = self.buffer().slots.leaves(at, end);
        self.forget_dump(at, end, cx);
    }

    /// Frees the slots of pages that are programmed, and tells those who waited for them.
    #[inline]
    pub(super) fn empty_slots(&mut self, cx: &mut Cx<'_>) {
        while self.buffer().slots.first_end().is_some_and(|end| end <= cx.now) {
            self.empty_slot(cx);
        }
    }

    fn empty_slot(&mut self, cx: &mut Cx<'_>) {
        let buffer = self.buffer();
        let Some(gone) = buffer.slots.leave(cx.now) else { return };
        cx.pool.release(gone.payload);
        let durable = match gone.waiter {
            ReqId::NONE => None,
            id => buffer.durables.iter().position(|d| d.id == id),
        };
        let covers = |ticket| move |barrier: &&mut super::Barrier| barrier.ticket >= ticket;
        buffer.barriers.iter_mut().filter(covers(gone.ticket)).for_each(|barrier| barrier.left -= 1);
        if let Some(at) = durable {
            self.one_is_durable(at, cx);
        }
        while let Some(&barrier) = self.buffer().barriers.front().filter(|barrier| barrier.left == 0) {
            self.buffer().barriers.pop_front();
            self.pass(&barrier, cx);
        }
        if self.buffer().closing && self.buffer().is_empty() {
            self.buffer().closing = false;
            self.end_session(cx);
        }
    }

    /// Says so when writes wait for room in the buffer while pools merge, and when that is over: half of the buffer is free.
    fn tell_pressure(&mut self, cx: &mut Cx<'_>) {
        let merges = self.plan.exec.queue.any_move_waits();
        if let Some(on) = self.buffer().pressure(merges) {
            cx.event(DeviceEvent::GcPressure(on));
        }
    }

    /// Sets the timer for the next look.
    pub(in super::super) fn arm_buffer(&mut self, cx: &mut Cx<'_>) {
        if self.plan.map.log_blocks().is_some() {
            self.tell_pressure(cx);
        }
        let buffer = self.buffer();
        let Some(at) = buffer.look_at() else { return };
        if buffer.armed.is_none_or(|armed| armed > at) {
            buffer.armed = Some(at);
            cx.wake_at(buffer.plan.key, at);
        }
    }
}
