//! Operations that wait become ready, get their times, and tell those that wait for them.

use super::Queued;
use super::fair::Coming;
use super::node::{Detail, Job, NONE, Node, Page};
use crate::nand::PageTime;
use nandu_base::{Instant, Span};
use std::cmp::Reverse;

impl Queued {
    /// Everything made since the last commit is issued.
    pub fn commit(&mut self) {
        for at in 0..self.fresh.len() {
            let node = self.fresh[at];
            self.nodes[node].waits -= 1;
            if self.nodes[node].waits == 0 {
                self.may_begin(node);
            }
        }
        self.fresh.clear();
    }

    /// Nothing stands before a node any more, but perhaps its time.
    pub(super) fn may_begin(&mut self, at: u32) {
        let Node { job, ready, number, die, .. } = self.nodes[at];
        match job {
            Job::Answer | Job::Destaged => self.done.push(at),
            Job::Barrier => {
                let mut page = self.nodes[at].first_page;
                while page != NONE {
                    let Page { hold, next, .. } = *self.nodes.page(page);
                    self.let_go(hold, ready);
                    page = next;
                }
                self.tell(at, &PageTime::done(ready));
                self.nodes.remove(at);
            }
            _ => {
                if !self.has_lines() {
                    self.soon.push(Reverse((ready, number, at)));
                    return;
                }
                let goes_first = job == Job::Erase && self.erase_before_reads;
                let number = if goes_first { 0 } else { number };
                let is_read = matches!(job, Job::Read | Job::MapRead) || goes_first;
                if let Some(costs) = self.costs {
                    let Node { slc, cause, .. } = self.nodes[at];
                    let cost = costs.of(job, slc);
                    self.share_out(die, Coming { ready, number, node: at, tenant: cause, is_read, cost });
                } else {
                    self.dies[die as usize].line.push(ready, number, at, is_read);
                }
                self.touched.push(die);
            }
        }
    }

    /// Without lines: the next operation that nothing stands before any more, and when it came to be so.
    pub fn next_soon(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let &Reverse((ready, _, at)) = self.soon.peek()?;
        if ready > now && !self.is_alone && !self.prices_at_issue {
            return None;
        }
        self.soon.pop();
        Some((at, ready))
    }

    /// Without lines: when the executor is to be woken; `None` when it will be, or nothing waits for its time.
    pub fn arm_soon(&mut self) -> Option<Instant> {
        let &Reverse((ready, ..)) = self.soon.peek()?;
        if self.soon_armed.is_some_and(|armed| armed <= ready) {
            return None;
        }
        self.soon_armed = Some(ready);
        Some(ready)
    }

    /// Whether operations have their times before they may begin.
    pub fn gives_times_ahead(&self) -> bool {
        self.is_alone || self.prices_at_issue
    }

    /// Whether other erases wait than the one that has its time now.
    pub fn more_erases_wait(&self) -> bool {
        self.erases > 1
    }

    /// The executor was woken.
    pub fn soon_woken(&mut self) {
        self.soon_armed = None;
    }

    /// Takes the operation that a free die begins now.
    pub fn next(&mut self, die: u32, now: Instant) -> Option<u32> {
        let at = match self.costs {
            None => self.dies[die as usize].line.next(now, self.max_read_bypass)?,
            Some(_) => self.next_by_share(die, now)?,
        };
        let open = &mut self.dies[die as usize].open;
        if open.node == at {
            open.node = NONE;
        }
        Some(at)
    }

    /// When the die, free from `free_at`, is to be woken; `None` when that is known already or it has nothing to do.
    pub fn arm(&mut self, die: u32, free_at: Instant) -> Option<Instant> {
        let die = &mut self.dies[die as usize];
        let earliest = die.fair.as_ref().map_or_else(|| die.line.earliest(), |fair| fair.earliest());
        let mut at = earliest?.later(free_at);
        if self.wakes_late && self.number.is_multiple_of(64) {
            at += Span::from_us(1);
        }
        if die.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        die.armed = Some(at);
        Some(at)
    }

    /// The die was woken.
    pub fn woken(&mut self, die: u32) {
        self.dies[die as usize].armed = None;
        self.touched.push(die);
    }

    /// Garbage collection on the die since the operation was issued.
    pub fn gc_since_issue(&self, at: u32) -> Span {
        let node = &self.nodes[at];
        self.dies[node.die as usize].gc.total - node.gc_before
    }

    /// An operation has its time: whatever waits for it is told, and the node goes.
    pub fn served(&mut self, at: u32, time: &PageTime) {
        let Node { job, die, block, first_page, .. } = self.nodes[at];
        if let Some(fair) = &mut self.dies[die as usize].fair {
            fair.ends(at, time.end);
        }
        if job.is_gc() {
            let gc = &mut self.dies[die as usize].gc;
            gc.total += time.end.since(time.start);
            gc.end = time.end;
        }
        if job == Job::Erase {
            self.erases -= 1;
            self.was_erased(block, at);
        }
        let mut page = first_page;
        while page != NONE {
            let Page { ppn, hold, next, .. } = *self.nodes.page(page);
            page = next;
            if hold != NONE {
                self.let_go(hold, time.end);
            }
            if job.is_read() {
                continue;
            }
            if job == Job::Erase {
                self.was_erased(self.block(ppn), at);
                continue;
            }
            self.passed(self.block(ppn), at);
            let writer = &mut self.writer[ppn.0 as usize];
            if *writer == at {
                *writer = NONE;
            }
        }
        if self.keeps_order() {
            self.served_in_order(at, time.end);
            if !self.leaving.is_empty() {
                self.leaving.retain(|leaving| leaving.last != at);
            }
        }
        if job == Job::Record {
            self.records.retain(|&record| record != at);
            self.recorded_at = self.recorded_at.later(time.end);
        }
        self.tell(at, time);
        self.outstanding -= 1;
        self.is_watchful -= 1;
        self.nodes.remove(at);
    }

    /// What changes a pool that keeps its order no longer waits, and is complete at `end`.
    #[inline(never)]
    fn served_in_order(&mut self, at: u32, end: Instant) {
        let Node { job, block, first_page, .. } = self.nodes[at];
        if job == Job::Erase {
            self.changed(block, at, end);
            self.moves -= 1;
        }
        let mut page = first_page;
        while page != NONE && job.changes_flash() {
            let Page { ppn, next, .. } = *self.nodes.page(page);
            page = next;
            self.changed(self.block(ppn), at, end);
            self.moves -= u32::from(job.is_gc());
        }
    }

    fn changed(&mut self, block: u32, at: u32, end: Instant) {
        let pool = self.pool_of_waiting(block);
        let changes = &mut self.changes[pool];
        changes.until = changes.until.later(end);
        changes.count -= 1;
        if changes.last == at {
            changes.last = NONE;
        }
    }

    /// A block's erase no longer waits.
    fn was_erased(&mut self, block: u32, at: u32) {
        self.passed(block, at);
        let pool = self.pool_of_waiting(block);
        let erase = &mut self.last_erase[pool];
        if *erase == at {
            *erase = NONE;
        }
    }

    /// A block's operation no longer waits.
    fn passed(&mut self, block: u32, at: u32) {
        let tail = &mut self.tail[block as usize];
        if *tail == at {
            *tail = NONE;
        }
    }

    fn tell(&mut self, at: u32, time: &PageTime) {
        let Node { job, slc, mut map_at, .. } = self.nodes[at];
        if job.is_of_map() {
            map_at = time.end;
        }
        while let Some(later) = self.nodes.take_link(at) {
            let node = &mut self.nodes[later];
            node.waits -= 1;
            node.ready = node.ready.later(time.end);
            let waits = node.waits;
            match node.job {
                Job::Answer => self.note_in_answer(later, at, time, map_at),
                Job::Program if job == Job::PreRead => {
                    node.map_at = node.map_at.later(map_at);
                    self.was_read_before(later, *time, slc);
                }
                Job::MoveProgram if job == Job::MoveRead => node.pre_read_slc = slc,
                // Of two pages that are of one operation none waits longer for the map.
                _ if job.is_of_map() || job == Job::Barrier => node.map_at = node.map_at.later(map_at),
                _ => {}
            }
            if waits == 0 {
                self.may_begin(later);
            }
        }
    }

    /// An operation of a request is complete: the one that is so last explains the answer.
    #[inline]
    fn note_in_answer(&mut self, answer: u32, at: u32, time: &PageTime, map_at: Instant) {
        let Node { job, slc, detail, .. } = self.nodes[at];
        let Detail { pre_read, pre_read_slc, .. } = match detail {
            NONE => Detail::EMPTY,
            _ => *self.nodes.detail(at),
        };
        let answer = self.nodes.detail_mut(answer);
        if time.end > answer.slowest.end {
            (answer.slowest, answer.slowest_job, answer.pre_read) = (*time, job, pre_read);
            (answer.slowest_slc, answer.pre_read_slc, answer.slowest_map_at) = (slc, pre_read_slc, map_at);
        }
    }

    /// Gives an answer up that has been given.
    pub fn answered(&mut self, answer: u32) {
        self.nodes.remove(answer);
    }
}
