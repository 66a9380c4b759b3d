//! Pages of one request, or of one step of collection, that nothing stands before: each has its time when it is given, and what they come to is added
//! up here. Most pages of most workloads come this way; the others are given with [`Pieces`].

use super::{Executor, Pieces, Usage};
use crate::nand::PageTime;
use nandu_base::{Cx, Instant, Oob, Overlay, Program, ReqId, Span, Step, TenantId, Window, Work};
use nandu_ftl::{BlockId, Ppn};

/// See the module's page.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    now: Instant,
    /// The page that is complete last.
    slowest: PageTime,
    die: Span,
    /// Time of channels of pages that moved; that of the others follows from their number.
    bus: Span,
    crossed: u32,
}

/// A page of a run as it was given.
#[derive(Clone, Copy)]
pub(crate) struct Placed(Window);

impl Run {
    /// No page yet.
    #[inline(always)]
    pub fn new(cx: &Cx<'_>) -> Run {
        Run { now: cx.now, slowest: PageTime::done(cx.now), die: Span::ZERO, bus: Span::ZERO, crossed: 0 }
    }

    #[inline(always)]
    fn add(&mut self, time: PageTime, die: Span) {
        self.die += die;
        if time.end > self.slowest.end {
            self.slowest = time;
        }
    }

    #[inline(always)]
    fn usage(&self, transfer: Span) -> Usage {
        Usage { die: self.die, bus: self.bus + transfer * u64::from(self.crossed) }
    }
}

impl Executor {
    /// Reads one page.
    #[inline(always)]
    pub fn read_at_once(&mut self, ppn: Ppn, run: &mut Run) {
        let (time, die) = self.sense(ppn, run.now);
        run.add(time, die);
        run.crossed += 1;
    }

    /// Programs a page of a block of one plane that shares array operations with its `group`.
    #[inline(always)]
    pub fn program_at_once(&mut self, ppn: Ppn, plane: u32, group: u32, run: &mut Run) -> Placed {
        let page = self.stripes.units.chips().page(ppn);
        let (time, die) = self.lanes.program(plane, run.now, group, page);
        run.add(time, die);
        Placed(Window { start: time.start, end: time.end })
    }

    /// Moves a page within a plane.
    #[inline(always)]
    pub fn move_at_once(&mut self, plane: u32, run: &mut Run) -> Placed {
        let (start, end, die, bus) = self.lanes.move_page(plane, run.now);
        run.die += die;
        run.bus += bus;
        run.slowest.end = end;
        Placed(Window { start, end })
    }

    /// The unit whose page a placed one supersedes is not erased before that is complete.
    #[inline(always)]
    pub fn keep_behind(&mut self, unit: BlockId, placed: Placed) {
        self.stripes.keep_unit_until(unit, placed.0.end);
    }

    /// Stores a page that was placed: what is over its `base`.
    #[inline(always)]
    pub fn store(
        &self,
        ppn: Ppn,
        base: Option<Ppn>,
        overlay: Option<Overlay>,
        oob: Oob,
        placed: Placed,
        cx: &mut Cx<'_>,
    ) {
        let (unit, base) = (self.stripes.unit(ppn), base.map(|base| self.stripes.unit(base)));
        self.put(&Program { unit, base, overlay, oob, window: placed.0 }, cx);
    }

    /// All pages of a request that are programmed and that nothing stood before were placed: so many.
    #[inline(always)]
    pub fn programmed(&mut self, pages: u32, run: &mut Run) {
        run.crossed = pages;
        self.last_change = self.last_change.later(run.slowest.end);
    }

    /// All pages of a request were placed: it is charged and explained, and ends when the last is complete.
    #[inline(always)]
    pub fn finish_run(&mut self, id: ReqId, run: &Run, cause: TenantId, work: Work, cx: &mut Cx<'_>) -> Step {
        run.usage(self.lanes.timing().transfer).charge(cx, cause, work);
        let path = &mut cx.requests[id].path;
        if work == Work::Write {
            run.slowest.program_path(run.now, self.lanes.timing(), path);
        } else if run.slowest.end > run.now {
            run.slowest.read_path(run.now, self.lanes.timing(), path);
        }
        self.finish(id, run.slowest.end, cx)
    }

    /// Pages that were placed belong to others that something stood before.
    #[inline(always)]
    pub fn join(&mut self, run: &Run, pieces: &mut Pieces) {
        pieces.tally.usage += run.usage(self.lanes.timing().transfer);
        pieces.tally.note(run.slowest);
    }

    /// All pages of a step of collection have moved away from a unit: it is not erased before that is complete. They are charged.
    #[inline(always)]
    pub fn moved_away(&mut self, unit: BlockId, run: &Run, cause: TenantId, cx: &mut Cx<'_>) {
        self.last_change = self.last_change.later(run.slowest.end);
        self.stripes.keep_unit_until(unit, run.slowest.end);
        if !self.planted.uncharged_gc {
            run.usage(Span::ZERO).charge(cx, cause, Work::Gc);
        }
    }
}
