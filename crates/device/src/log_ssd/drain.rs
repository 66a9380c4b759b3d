//! What a plane does: programs from its line, and the steps of merges.

use super::line::{Entry, Job};
use super::{Done, Life, LogSsd};
use crate::write_buffer::ones;
use nandu_base::{
    ByteLen, Cx, Instant, Oob, Overlay, Phase, Program, Resource, Span, TenantId, TimerKey, Window, Work,
};
use nandu_ftl::log_block::{LogBlocks, Step, Tag, Taken, Unmapped};

/// Operations of a merge that one event issues.
const STEPS: u32 = 8;

/// The first word of a mark.
const MARK_MAGIC: u32 = 0x4E4C_4D31; // "NLM1"

/// What became of the first entry of a line.
enum Fate {
    Issued(Done),
    /// It waits for a merge that has begun.
    Waits,
    /// It is done when the merge that has begun is.
    Merges,
}

/// The bytes of a mark: pages `first..end` of the plane were unmapped.
pub(super) fn encode_mark(first: u32, end: u32, page: &mut [u8]) {
    for (bytes, word) in page.chunks_exact_mut(4).zip([MARK_MAGIC, first, end]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Reads the bytes of a mark. `None` when they are none.
pub(super) fn decode_mark(page: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    (word(0)? == MARK_MAGIC).then_some((word(4)?, word(8)?))
}

impl<F: LogBlocks> LogSsd<F> {
    /// Goes on with what the plane has to do, as far as it can now.
    pub(super) fn pump(&mut self, plane: u32, cx: &mut Cx<'_>) {
        let mut budget = STEPS;
        loop {
            let line = &mut self.lines[plane as usize];
            if let Some(until) = line.flying {
                if until > cx.now {
                    cx.wake_at(TimerKey(plane + 1), until);
                    return;
                }
                line.flying = None;
                self.buffer.as_mut().expect("only a buffer's pages fly").give_back();
            }
            let line = &self.lines[plane as usize];
            let is_needed = !line.queue.is_empty() || self.life == Life::Running;
            if line.map.is_merging() && !(is_needed && self.merge(plane, &mut budget, cx)) {
                return;
            }
            let line = &mut self.lines[plane as usize];
            let Some(&entry) = line.queue.front() else { return };
            match self.try_issue(plane, &entry, cx) {
                Fate::Waits => self.begin_merge(plane, entry.cause, cx.now),
                Fate::Merges => {
                    self.begin_merge(plane, entry.cause, cx.now);
                    self.lines[plane as usize].queue.front_mut().expect("it was there").has_begun = true;
                }
                Fate::Issued(done) => self.leave_line(plane, done, cx),
            }
        }
    }

    fn begin_merge(&mut self, plane: u32, cause: TenantId, now: Instant) {
        let line = &mut self.lines[plane as usize];
        line.cause = cause;
        if !line.is_merging {
            line.is_merging = true;
            self.merges.begin(now);
        }
    }

    /// The first entry of a line was issued.
    fn leave_line(&mut self, plane: u32, done: Done, cx: &mut Cx<'_>) {
        let line = &mut self.lines[plane as usize];
        let (number, entry) = line.pop();
        cx.pool.release(entry.held.payload);
        self.last_change = self.last_change.later(done.time.end);
        self.durable_at = self.durable_at.later(done.time.end);
        if let (Job::Write { lpn, .. }, Some(buffer)) = (entry.job, &mut self.buffer) {
            buffer.left_line(lpn, number);
        }
        if entry.is_buffered {
            line.flying = Some(done.time.end);
        }
        self.issued(entry.pending, done, cx);
    }

    /// Does some steps of the plane's merge. True when it is complete.
    fn merge(&mut self, plane: u32, budget: &mut u32, cx: &mut Cx<'_>) -> bool {
        let at = plane as usize;
        // What was issued before is under way: the next steps follow when it is complete.
        let is_due = self.lines[at].merge_until <= cx.now;
        while is_due && *budget > 0 {
            *budget -= 1;
            match self.lines[at].map.step() {
                Some(step) => self.do_step(plane, step, cx),
                None => {
                    let line = &mut self.lines[at];
                    if std::mem::take(&mut line.is_merging) {
                        self.merges.end(cx.now);
                    }
                    return true;
                }
            }
        }
        cx.wake_at(TimerKey(plane + 1), self.lines[at].merge_until);
        false
    }

    fn do_step(&mut self, plane: u32, step: Step, cx: &mut Cx<'_>) {
        self.lanes.work_for(Work::Gc);
        let (end, die, bus) = match step {
            Step::Copy { from, to } => self.copy(plane, from, to, cx),
            Step::Filler(to) => self.fill_gap(plane, to, cx),
            Step::Erase(block) => {
                let (end, die) = self.erase(plane, block, cx);
                (end, die, Span::ZERO)
            }
        };
        let line = &mut self.lines[plane as usize];
        line.merge_until = line.merge_until.later(end);
        let cause = line.cause;
        self.last_change = self.last_change.later(end);
        if !self.planted.uncharged_merge {
            cx.charges.charge_both(cause, Work::Gc, (Resource::Die, die), (Resource::Channel, bus));
        }
    }

    fn copy(&mut self, plane: u32, from: u32, to: Taken, cx: &mut Cx<'_>) -> (Instant, Span, Span) {
        let (start, end, occupied, bus) = self.lanes.move_page(plane, cx.now);
        let mut tag = to.tag;
        if self.planted.early_last && self.lines[plane as usize].map.region().position(to.spot) == 0 {
            tag.is_last = true;
        }
        let base = Some(self.unit(plane, from));
        self.store(plane, to.spot, tag, base, None, Window { start, end }, cx);
        (end, occupied, bus)
    }

    fn fill_gap(&mut self, plane: u32, to: Taken, cx: &mut Cx<'_>) -> (Instant, Span, Span) {
        self.serial = self.serial.wrapping_add(1);
        let position = self.lines[plane as usize].map.region().position(to.spot);
        let (time, occupied) = self.lanes.program(plane, cx.now, self.serial, position);
        self.store(plane, to.spot, to.tag, None, None, Window { start: time.start, end: time.end }, cx);
        (time.end, occupied, self.lanes.timing().transfer)
    }

    /// Erases a block; returns the end and the time that the die is occupied.
    pub(super) fn erase(&mut self, plane: u32, block: u32, cx: &mut Cx<'_>) -> (Instant, Span) {
        let (start, end) = self.lanes.erase(self.die(plane), cx.now, cx.now);
        self.count.erases += 1;
        if self.planted.wear_falls && self.count.erases.is_multiple_of(4) {
            self.lines[plane as usize].map.region_mut().forget_erase(block);
        }
        let first = self.unit(plane, block * self.layout.block_stride());
        if let Some(medium) = cx.medium.as_deref_mut() {
            let early = Window { start: cx.now, end: cx.now };
            let window = if self.planted.erase_too_early { early } else { Window { start, end } };
            medium.erase(first, u64::from(self.layout.pages), window);
        }
        (end, end.since(start))
    }

    /// Issues the first entry of a line, if its page is there.
    fn try_issue(&mut self, plane: u32, entry: &Entry, cx: &mut Cx<'_>) -> Fate {
        if entry.has_begun {
            let line = &mut self.lines[plane as usize];
            line.unmapped_until = line.unmapped_until.later(line.merge_until);
            return Fate::Issued(Done::waiting(cx.now, line.merge_until, Phase::Gc));
        }
        match entry.job {
            Job::Write { local, .. } => match self.lines[plane as usize].map.take(local) {
                Some(taken) => Fate::Issued(self.write_page(plane, taken, entry, cx)),
                None => Fate::Waits,
            },
            Job::Unmap { first, end } => match self.lines[plane as usize].map.unmap(first, end) {
                None => Fate::Waits,
                Some(Unmapped::Nothing) => {
                    let until = self.lines[plane as usize].unmapped_until;
                    Fate::Issued(Done::waiting(cx.now, until, Phase::Hold))
                }
                Some(Unmapped::Merge) => Fate::Merges,
                Some(Unmapped::Mark(taken)) => {
                    Fate::Issued(self.write_mark(plane, taken, entry, first, end, cx))
                }
            },
        }
    }

    /// Programs a page of the host; a part of one after the version before was read.
    fn write_page(&mut self, plane: u32, taken: Taken, entry: &Entry, cx: &mut Cx<'_>) -> Done {
        self.lanes.work_for(Work::Write);
        let region = self.lines[plane as usize].map.region();
        let position = region.position(taken.spot);
        let is_whole = entry.held.mask == ones(self.pages.sectors);
        let old = taken.old.filter(|_| !is_whole);
        let old_position = old.map(|spot| region.position(spot));
        let (mut die, mut bus) = (Span::ZERO, self.lanes.timing().transfer);
        let premerge = old_position.map(|position| {
            let (time, occupied) = self.lanes.read(plane, cx.now, entry.serial, position);
            die += occupied;
            bus += self.lanes.timing().transfer;
            self.count.pages_premerged += 1;
            time
        });
        let ready = premerge.map_or(cx.now, |read| read.end);
        let (time, occupied) = self.lanes.program(plane, ready, entry.serial, position);
        die += occupied;
        self.count.host_pages_written += 1;
        cx.charges.charge_both(entry.cause, Work::Write, (Resource::Die, die), (Resource::Channel, bus));
        let base = old.map(|spot| self.unit(plane, spot));
        let window = Window { start: time.start, end: time.end };
        self.store_entry(plane, taken, entry, base, window, cx);
        Done { issued: cx.now, premerge, time, waits_for: None }
    }

    /// Puts the sectors of an entry over those of the version before.
    fn store_entry(
        &mut self,
        plane: u32,
        taken: Taken,
        entry: &Entry,
        base: Option<u64>,
        window: Window,
        cx: &mut Cx<'_>,
    ) {
        if cx.medium.is_none() {
            return;
        }
        if let Some(overlay) = entry.held.overlay() {
            self.store(plane, taken.spot, taken.tag, base, Some(overlay), window, cx);
            return;
        }
        // Parts of a page with a gap between: the gap is read first.
        let page = ByteLen(1 << self.pages.bits);
        let whole = cx.pool.allocate(page);
        if let (Some(from), Some(medium)) = (base, cx.medium.as_deref_mut())
            && !medium.read(cx.pool, from, 0, self.pages.sectors, whole)
        {
            // What lies between is lost: the page reads as an error until all of it is written.
            cx.pool.release(whole);
            return self.store(plane, taken.spot, taken.tag, base, None, window, cx);
        }
        entry.held.copy_out(cx.pool, 0, self.pages.sectors, whole);
        let overlay = Some(Overlay { first: 0, count: self.pages.sectors, payload: whole });
        self.store(plane, taken.spot, taken.tag, None, overlay, window, cx);
        cx.pool.release(whole);
    }

    /// Programs the mark of a trim.
    fn write_mark(
        &mut self,
        plane: u32,
        taken: Taken,
        entry: &Entry,
        first: u32,
        end: u32,
        cx: &mut Cx<'_>,
    ) -> Done {
        self.lanes.work_for(Work::Journal);
        let position = self.lines[plane as usize].map.region().position(taken.spot);
        let (time, die) = self.lanes.program(plane, cx.now, entry.serial, position);
        let bus = self.lanes.timing().transfer;
        let line = &mut self.lines[plane as usize];
        line.unmapped_until = line.unmapped_until.later(time.end);
        cx.charges.charge_both(entry.cause, Work::Journal, (Resource::Die, die), (Resource::Channel, bus));
        if cx.medium.is_some() {
            let page = ByteLen(1 << self.pages.bits);
            let payload = cx.pool.allocate_metadata(page);
            encode_mark(first, end, cx.pool.bytes_mut(payload, page));
            let overlay = Some(Overlay { first: 0, count: self.pages.sectors, payload });
            let lost = self.planted.lost_mark;
            let tag = Tag { is_filler: lost, is_mark: !lost, ..taken.tag };
            let window = Window { start: time.start, end: time.end };
            self.store(plane, taken.spot, tag, None, overlay, window, cx);
            cx.pool.release(payload);
        }
        Done { issued: cx.now, premerge: None, time, waits_for: None }
    }

    #[allow(clippy::too_many_arguments)] // one program of the medium
    fn store(
        &mut self,
        plane: u32,
        spot: u32,
        tag: Tag,
        base: Option<u64>,
        overlay: Option<Overlay>,
        window: Window,
        cx: &mut Cx<'_>,
    ) {
        self.seq += 1;
        let unit = self.unit(plane, spot);
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let oob = Oob { key: tag.word(), seq: self.seq };
        medium.program(cx.pool, &Program { unit, base, overlay, oob, window });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_as_it_was_written() {
        let mut page = vec![0; 512];
        encode_mark(70_000, 70_031, &mut page);
        assert_eq!(decode_mark(&page), Some((70_000, 70_031)));
        assert_eq!(decode_mark(&[0; 512]), None);
    }
}
