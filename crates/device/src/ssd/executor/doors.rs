//! The executor's doors, as a planner knows them: what each does stands with the file that does it.

use super::run::Placed;
use super::{Executor, Given, Pieces, Run, Tally};
use nandu_base::{Cx, Instant, Oob, Overlay, Report, ReqId, Resource, Step, TenantId, Work};
use nandu_ftl::mapping::Tp;
use nandu_ftl::plan::Flash;
use nandu_ftl::plan::flash::{After, Awaited, Copying, Erasing, Job, Programming, Reading};
use nandu_ftl::plan::pages::Pages;
use nandu_ftl::{BlockId, Cursor, Ppn, Units};

impl Flash for Executor {
    type Tally = Tally;
    type Given = Given;
    type Run = Run;
    type Placed = Placed;

    #[inline(always)]
    fn tally(cx: &Cx<'_>) -> Tally {
        Tally::new(cx.now)
    }

    #[inline(always)]
    fn charge(tally: &mut Tally, cause: TenantId, work: Work, cx: &mut Cx<'_>) {
        std::mem::take(&mut tally.usage).charge(cx, cause, work)
    }

    #[inline(always)]
    fn units(&self) -> &Units {
        &self.stripes.units
    }

    #[inline(always)]
    fn units_mut(&mut self) -> &mut Units {
        &mut self.stripes.units
    }

    #[inline(always)]
    fn unit(&self, ppn: Ppn) -> u64 {
        self.stripes.unit(ppn)
    }

    #[inline(always)]
    fn die_of(&self, ppn: Ppn) -> u32 {
        Executor::die_of(self, ppn)
    }

    #[inline(always)]
    fn is_wide(&self) -> bool {
        self.stripes.is_wide()
    }

    #[inline(always)]
    fn work_for(&mut self, work: Work) -> Work {
        self.lanes.work_for(work)
    }

    #[inline(always)]
    fn begin_group(&mut self) {
        Executor::begin_group(self)
    }

    #[inline(always)]
    fn group(&self) -> u32 {
        Executor::group(self)
    }

    #[inline(always)]
    fn holds_back(&self) -> bool {
        self.queue.holds_back()
    }

    #[inline(always)]
    fn read(&mut self, reading: Reading, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        Executor::read(self, reading, pieces, cx)
    }

    #[inline(always)]
    fn program(&mut self, programming: Programming<Given>, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        Executor::program(self, programming, pieces, cx)
    }

    #[inline(always)]
    fn copy(&mut self, copying: Copying, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        Executor::copy(self, copying, pieces, cx)
    }

    #[inline(always)]
    fn move_now(&mut self, copying: Copying, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        Executor::move_now(self, copying, pieces, cx)
    }

    #[inline(always)]
    fn carry(&mut self, copying: Copying, jobs: [Job; 2], pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        Executor::carry(self, copying, jobs, pieces, cx)
    }

    #[inline(always)]
    fn erase(&mut self, erasing: Erasing, cx: &mut Cx<'_>) {
        Executor::erase(self, erasing, cx)
    }

    #[inline(always)]
    fn run(cx: &Cx<'_>) -> Run {
        Run::new(cx)
    }

    #[inline(always)]
    fn read_at_once(&mut self, ppn: Ppn, run: &mut Run) {
        Executor::read_at_once(self, ppn, run)
    }

    #[inline(always)]
    fn program_at_once(&mut self, ppn: Ppn, plane: u32, group: u32, run: &mut Run) -> Placed {
        Executor::program_at_once(self, ppn, plane, group, run)
    }

    #[inline(always)]
    fn move_at_once(&mut self, _: Ppn, _: Ppn, plane: u32, run: &mut Run) -> Placed {
        Executor::move_at_once(self, plane, run)
    }

    #[inline(always)]
    fn keep_behind(&mut self, unit: BlockId, placed: Placed) {
        Executor::keep_behind(self, unit, placed)
    }

    #[inline(always)]
    fn store(
        &self,
        ppn: Ppn,
        base: Option<Ppn>,
        overlay: Option<Overlay>,
        oob: Oob,
        placed: Placed,
        cx: &mut Cx<'_>,
    ) {
        Executor::store(self, ppn, base, overlay, oob, placed, cx)
    }

    #[inline(always)]
    fn programmed(&mut self, pages: u32, run: &mut Run) {
        Executor::programmed(self, pages, run)
    }

    #[inline(always)]
    fn moved_away(&mut self, unit: BlockId, run: &Run, cause: TenantId, cx: &mut Cx<'_>) {
        Executor::moved_away(self, unit, run, cause, cx)
    }

    #[inline(always)]
    fn join(&mut self, run: &Run, pieces: &mut Pieces) {
        Executor::join(self, run, pieces)
    }

    #[inline(always)]
    fn fetch(&self, id: ReqId, pages: &Pages, lpn: u32, at: Option<u64>, cx: &mut Cx<'_>) {
        Executor::fetch(self, id, pages, lpn, at, cx)
    }

    #[inline(always)]
    fn finish_run(&mut self, id: ReqId, run: &Run, cause: TenantId, work: Work, cx: &mut Cx<'_>) -> Step {
        Executor::finish_run(self, id, run, cause, work, cx)
    }

    #[inline(always)]
    fn finish_pieces(&mut self, id: ReqId, pieces: Pieces, cx: &mut Cx<'_>) -> Step {
        Executor::finish_pieces(self, id, pieces, cx)
    }

    #[inline(always)]
    fn finish_all(&mut self, id: ReqId, pieces: Pieces, run: Run, cx: &mut Cx<'_>) -> Step {
        Executor::finish_all(self, id, pieces, run, cx)
    }

    #[inline(always)]
    fn finish_recorded(&mut self, id: ReqId, pieces: Pieces, recorded: After, cx: &mut Cx<'_>) -> Step {
        Executor::finish_recorded(self, id, pieces, recorded, cx)
    }

    #[inline(always)]
    fn finish_flush(&mut self, id: ReqId, recorded: After, cause: TenantId, cx: &mut Cx<'_>) -> Step {
        Executor::finish_flush(self, id, recorded, cause, cx)
    }

    fn hand_over(&mut self, block: BlockId, from: u32, to: u32) {
        self.queue.hand_over(block.0, from, to);
    }

    fn pools_are(&mut self, pools: &[u32]) {
        self.queue.pools_are(pools);
    }

    #[inline(always)]
    fn wait_for_pool(&mut self, pool: u32, pieces: &mut Pieces) {
        Executor::wait_for_pool(self, pool, pieces)
    }

    #[inline(always)]
    fn behind(&self, given: Given, pieces: &Pieces) -> After {
        Executor::behind(self, given, pieces)
    }

    #[inline(always)]
    fn recorded(&self, cx: &Cx<'_>) -> After {
        Executor::recorded(self, cx)
    }

    #[inline(always)]
    fn recorded_behind(&self, given: Given, cx: &Cx<'_>) -> After {
        Executor::recorded_behind(self, given, cx)
    }

    #[inline(always)]
    fn all_given(&self) -> After {
        Executor::all_given(self)
    }

    #[inline(always)]
    fn all_changes(&mut self, cx: &Cx<'_>) -> After {
        Executor::all_changes(self, cx)
    }

    #[inline(always)]
    fn behind_all(&mut self, cx: &Cx<'_>) -> After {
        Executor::behind_all(self, cx)
    }

    #[inline(always)]
    fn behind_anchors(&self, after: After) -> After {
        Executor::behind_anchors(self, after)
    }

    #[inline(always)]
    fn behind_opened(&self, after: After) -> After {
        Executor::behind_opened(self, after)
    }

    #[inline(always)]
    fn fence(&mut self, after: After) -> After {
        Executor::fence(self, after)
    }

    #[inline(always)]
    fn opened(&mut self, cursor: Cursor) {
        Executor::opened(self, cursor)
    }

    #[inline(always)]
    fn entries_are_there(&self, after: After) -> bool {
        Executor::entries_are_there(self, after)
    }

    #[inline(always)]
    fn entry_comes(&mut self, tp: Tp, after: After) -> After {
        Executor::entry_comes(self, tp, after)
    }

    #[inline(always)]
    fn await_later(&self, after: After) -> Awaited {
        Executor::await_later(self, after)
    }

    #[inline(always)]
    fn still_awaited(&self, awaited: &Awaited, cx: &Cx<'_>) -> After {
        Executor::still_awaited(self, awaited, cx)
    }

    #[inline(always)]
    fn keep_until(&mut self, unit: BlockId, after: After) {
        Executor::keep_until(self, unit, after)
    }

    #[inline(always)]
    fn keep_until_all_is_done(&mut self, ppn: Ppn, cx: &Cx<'_>) {
        Executor::keep_until_all_is_done(self, ppn, cx)
    }

    #[inline(always)]
    fn keep_until_changes(&mut self, ppn: Ppn, changes: &mut Option<After>, cx: &Cx<'_>) {
        Executor::keep_until_changes(self, ppn, changes, cx)
    }

    #[inline(always)]
    fn say_given_up(&self, record: Ppn, until: After, cx: &mut Cx<'_>) {
        Executor::say_given_up(self, record, until, cx)
    }

    #[inline(always)]
    fn writer_waits(&self, ppn: Ppn) -> bool {
        self.queue.writer_waits(self.stripes.units.place(ppn))
    }

    #[inline(always)]
    fn serve(&mut self, cx: &mut Cx<'_>) {
        Executor::serve(self, cx)
    }

    #[inline(always)]
    fn scan(&mut self, die: u32, pages: u64, cx: &mut Cx<'_>) -> After {
        let (end, span) = self.lanes.scan(die, cx.now, pages);
        cx.charge(TenantId::SYSTEM, Resource::Die, Work::Recovery, span);
        After::at(end)
    }

    #[inline(always)]
    fn restart_units(&mut self) {
        self.stripes.restart()
    }

    #[inline(always)]
    fn restart_entries(&mut self) {
        self.fetched.restart();
        self.anchored_at = Instant::ZERO;
    }

    #[inline(always)]
    fn slc_erases(&self) -> u64 {
        Executor::slc_erases(self)
    }

    #[inline(always)]
    fn report_slc(&mut self, report: &mut Report) {
        Executor::report_slc(self, report)
    }
}
