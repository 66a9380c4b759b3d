//! A request as it is given to the dies, page by page.
//!
//! What a request's pages add up to is kept here: the page that is complete last and what it waited for, and the time that dies and
//! channels are occupied. An operation that nothing stands before has its time at once. The first one that waits opens an *answer*
//! ([`crate::nand::queued`]): the request then ends when the last of its operations has its time.

use super::{Executor, Run};
use crate::nand::PageTime;
use crate::nand::queued::{After, Job, NONE, Order};
use nandu_base::{Cx, Instant, Op, Phase, ReqId, Resource, Span, Step, TenantId, Work};
use nandu_ftl::plan::flash::Whose;

/// Time that dies and channels are occupied.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub die: Span,
    pub bus: Span,
}

impl std::ops::AddAssign for Usage {
    #[inline(always)]
    fn add_assign(&mut self, more: Usage) {
        self.die += more.die;
        self.bus += more.bus;
    }
}

impl Usage {
    #[inline]
    pub fn charge(self, cx: &mut Cx<'_>, cause: TenantId, work: Work) {
        cx.charges.charge_both(cause, work, (Resource::Die, self.die), (Resource::Channel, self.bus));
    }
}

/// The page of a request that is complete last, of those that have their time.
#[derive(Clone, Copy)]
pub(crate) struct Slowest {
    /// When the map had told where it is.
    pub map_at: Instant,
    /// The read before it, when only part of the page was written.
    pub premerge: Option<PageTime>,
    pub time: PageTime,
    /// Whether the page and the one that was read were in blocks in SLC mode: they may have been erased since.
    pub slc: [bool; 2],
}

/// The pages of one request.
pub(in crate::ssd) type Pieces = nandu_ftl::plan::flash::Pieces<Executor>;

/// What is added up of them.
#[derive(Clone, Copy)]
pub(crate) struct Tally {
    pub now: Instant,
    answer: u32,
    pub usage: Usage,
    pub slowest: Slowest,
}

impl Tally {
    #[inline(always)]
    pub fn new(now: Instant) -> Tally {
        let slowest = Slowest { map_at: now, premerge: None, time: PageTime::done(now), slc: [false; 2] };
        Tally { now, answer: NONE, usage: Usage::default(), slowest }
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<u32> {
        Some(self.answer).filter(|&answer| answer != NONE)
    }

    /// A page has its time, and is complete last so far.
    #[inline(always)]
    pub fn note(&mut self, time: PageTime) {
        if time.end > self.slowest.time.end {
            self.slowest = Slowest { map_at: self.now, premerge: None, time, slc: [false; 2] };
        }
    }

    /// The same with what it waited for.
    pub fn note_as(&mut self, slowest: Slowest) {
        if slowest.time.end > self.slowest.time.end {
            self.slowest = slowest;
        }
    }
}

/// What an operation waits for that waits for `after`, and what it is for; with an answer, that waits for it.
pub(super) fn order_of(pieces: &Pieces, after: After, answer: u32, serial: u32) -> Order {
    let Pieces { cause, work, after: map, tally, .. } = *pieces;
    Order { now: tally.now, after, map_at: map.at, work, cause, answer, serial }
}

impl Executor {
    /// The answer to a request; it is opened when the first of its operations waits.
    pub fn answer_of(&mut self, pieces: &mut Pieces) -> u32 {
        if pieces.tally.answer == NONE {
            pieces.tally.answer = match pieces.whose {
                Whose::Request(id) => self.queue.answer(id, pieces.tally.now, pieces.cause),
                Whose::Slot(slot) => self.queue.destaged(slot, pieces.tally.now, pieces.cause),
                Whose::Nobody => NONE,
            };
        }
        pieces.tally.answer
    }

    /// The same as [`finish_pieces`](Executor::finish_pieces) with pages that did not wait beside them.
    #[inline(never)]
    pub fn finish_all(&mut self, id: ReqId, mut pieces: Pieces, run: Run, cx: &mut Cx<'_>) -> Step {
        self.join(&run, &mut pieces);
        self.finish_pieces(id, pieces, cx)
    }

    /// A request does not end before everything that changes a pool is done.
    pub fn wait_for_pool(&mut self, pool: u32, pieces: &mut Pieces) {
        if self.queue.is_changing(pool, pieces.tally.now) {
            let answer = self.answer_of(pieces);
            self.queue.after_changes(pool, answer);
        }
    }

    /// All pages of a request were given to the dies. It ends at a moment that is known now, or when its answer has it.
    #[inline(always)]
    pub fn finish_pieces(&mut self, id: ReqId, mut pieces: Pieces, cx: &mut Cx<'_>) -> Step {
        pieces.tally.usage.charge(cx, pieces.cause, pieces.work);
        self.end_after_map(&mut pieces);
        if pieces.tally.answer != NONE {
            self.close_answer(&pieces);
            return Step::Idle;
        }
        if pieces.tally.slowest.time.end > pieces.tally.now {
            self.explain(id, &pieces, cx);
        }
        self.finish(id, pieces.tally.slowest.time.end, cx)
    }

    /// A request does not end before the map has told what it was asked for.
    #[inline(always)]
    fn end_after_map(&mut self, pieces: &mut Pieces) {
        let After { at, node } = pieces.after;
        if node != NONE {
            let answer = self.answer_of(pieces);
            self.queue.answer_after(answer, pieces.after);
        } else if at > pieces.tally.slowest.time.end {
            pieces.tally.slowest.map_at = at;
            (pieces.tally.slowest.premerge, pieces.tally.slowest.time) = (None, PageTime::done(at));
        }
    }

    /// What has its time already counts for the answer.
    pub fn close_answer(&mut self, pieces: &Pieces) {
        let is_read = pieces.work == Work::Read;
        let Slowest { map_at, premerge, time, slc } = pieces.tally.slowest;
        let detail = self.queue.detail_mut(pieces.tally.answer);
        if time.end > detail.slowest.end {
            (detail.slowest, detail.pre_read, detail.slowest_map_at) = (time, premerge, map_at);
            detail.slowest_job = match is_read {
                _ if time.end == map_at => Job::MapRead,
                true => Job::Read,
                false => Job::Program,
            };
            [detail.slowest_slc, detail.pre_read_slc] = slc;
        }
        self.queue.not_before(pieces.tally.answer, time.end);
        self.queue.close(pieces.tally.answer);
    }

    /// Explains a request by its slowest page.
    #[inline(always)]
    fn explain(&self, id: ReqId, pieces: &Pieces, cx: &mut Cx<'_>) {
        let path = &mut cx.requests[id].path;
        let Slowest { map_at, premerge, time, slc } = &pieces.tally.slowest;
        if *map_at > pieces.tally.now {
            path.add(Phase::Map, map_at.since(pieces.tally.now));
            if time.end == *map_at {
                return;
            }
        }
        let timing = if self.modes.is_some() { self.timing_in(slc[0]) } else { self.lanes.timing() };
        if pieces.work == Work::Read {
            return time.read_path(*map_at, timing, path);
        }
        let mut data_at = *map_at;
        if let Some(read) = premerge {
            read.read_path(data_at, self.timing_in(slc[1]), path);
            data_at = read.end;
        }
        time.program_path(data_at, timing, path);
    }

    /// Explains an answer that has its time.
    pub fn explain_answer(&self, at: u32, id: ReqId, cx: &mut Cx<'_>) {
        let detail = *self.queue.detail(at);
        let (issued, ready, slowest) = (detail.issued, self.queue.node(at).ready, detail.slowest);
        if ready <= issued {
            return;
        }
        let is_read = cx.requests[id].op == Op::Read;
        let (timing, path) = (self.timing_in(detail.slowest_slc), &mut cx.requests[id].path);
        let map_at = detail.slowest_map_at.later(issued);
        match detail.slowest_job {
            Job::Read if slowest.end == ready => {
                path.add(Phase::Map, map_at.since(issued));
                slowest.read_path(map_at, timing, path);
            }
            Job::Program | Job::Mark if slowest.end == ready => {
                path.add(Phase::Map, map_at.since(issued));
                let mut data_at = map_at;
                if let Some(read) = detail.pre_read {
                    read.read_path(data_at, self.timing_in(detail.pre_read_slc), path);
                    data_at = read.end;
                }
                slowest.program_path(data_at, timing, path);
                // It may have been suspended.
                let alone = slowest.bus + timing.transfer + timing.program;
                path.add(Phase::Queue, Span(slowest.end.0.saturating_sub(alone.0)));
            }
            // Where pools keep their order a barrier stands for what changes one; elsewhere for translation pages.
            Job::MapRead | Job::MapProgram | Job::Barrier
                if slowest.end == ready && !self.queue.keeps_order() =>
            {
                path.add(Phase::Map, ready.since(issued));
            }
            // What the write buffer held crosses the link.
            _ if is_read => path.add(Phase::Bus, ready.since(issued)),
            // A record of the trim journal: one program, and the wait before it.
            _ => {
                let whole = ready.since(issued);
                let program = Span(self.shortest_program().0.min(whole.0));
                path.add(Phase::Program, program);
                path.add(Phase::Queue, whole - program);
            }
        }
    }

    /// A request ends at `end`.
    #[inline(always)]
    pub fn finish(&self, id: ReqId, end: Instant, cx: &mut Cx<'_>) -> Step {
        self.miscount(id, cx);
        Step::FinishAt(id, end)
    }

    /// Planted: the path of a request counts its wait twice.
    #[inline(always)]
    pub(super) fn miscount(&self, id: ReqId, cx: &mut Cx<'_>) {
        if self.planted.path_without_queue {
            let path = &mut cx.requests[id].path;
            let queue = path.get(Phase::Queue);
            path.add(Phase::Queue, queue);
        }
    }
}
