//! An SSD: a controller with its translation layer over lanes of NAND.
//!
//! Two halves. The planner ([`nandu_ftl::plan`]) says which page, which block, what moves and what is on record; it has no clock. The executor (`executor`) gives what is
//! planned its time. A flash operation that nothing stands before gets its place on the timeline of its die and channel at once; when all of a request's are such, its end
//! is known when it comes and it costs one event. Others get their place when what they wait for ends ([`crate::nand::queued`]). A write is acknowledged when its last page is
//! programmed, so what is acknowledged is durable, except trims, which a flush puts on record (see [`nandu_ftl::trim_journal`]). With a `write_buffer` it is acknowledged
//! before that; see `buffer`.
//!
//! Here is what stands between the two and the stack, and what goes by the clock: requests and timers, what is done while no request comes, the write buffer, and the
//! start and end of a session.
//!
//! *The way of a write*: [`request`](Machine::request) here, `write` in `nandu_ftl::plan::host`, `program` in `executor`, the die in [`crate::nand::lanes`].
//!
//! Files: `config` the options, `gc` those of collection and wear, `mapping` the family of maps, `executor` who gives operations their times, `background` collection while
//! idle, `rests` units that idle tenants give back, `buffer` the write buffer, `serve` what follows when operations that waited have their times.

mod background;
mod buffer;
mod config;
mod executor;
mod gc;
pub mod mapping;
mod rests;
mod serve;

pub use config::{PartialWrite, SsdConfig, kind};
pub use gc::{Beside, GcConfig, Keys, Levelling, OrderConfig, Pace, Victim, WearConfig};
pub use mapping::MapConfig;

use background::Idle;
use buffer::Buffer;
use executor::Executor;
use nandu_base::{
    Administer, Advise, BuildContext, ByteLen, ByteOffset, Cx, Deal, DealError, Dealt, EnergyPart, ErrorKind,
    FlashMap, Instant, Limits, Machine, MediumSpec, Needs, Op, OpenOptions, Peek, Place, RamPower, Report,
    ReqId, Span, Step, TenantId, TenantShare, TimerKey, Violation, Work,
};
use nandu_ftl::Lpn;
use nandu_ftl::log_block::LogMap;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::plan::flash::After;
use nandu_ftl::plan::tenants::Dealing;
use nandu_ftl::plan::{Parts, Planner};
use rests::Rests;

/// What each operation of the host is done for, by its number: a look at a table is half of what a choice among three costs.
const WORK_OF: [Work; Op::ALL.len()] =
    [Work::Read, Work::Write, Work::Journal, Work::Write, Work::Write, Work::Write];

/// The drive.
pub struct Ssd<M> {
    limits: Limits,
    plan: Planner<M, Executor>,
    /// What is done while no request comes, if anything.
    idle: Option<Idle>,
    /// When tenants were last busy, where idle ones give units back.
    rests: Option<Rests>,
    /// Nothing waited for its die when the counters were reset, so that what began since is what was counted since.
    counts_all: bool,
    /// The drive ends when nothing waits any more.
    closing: bool,
    /// Planted: the drive ends while its dies are busy.
    ends_early: bool,
    /// The write buffer, if there is one.
    buffer: Option<Box<Buffer>>,
}

impl<M: Mapping> Ssd<M> {
    fn new(
        limits: Limits,
        parts: Parts<M, Executor>,
        idle: Option<Idle>,
        rests: Option<Rests>,
        buffer: Option<Box<Buffer>>,
        cx: &BuildContext<'_>,
    ) -> Ssd<M> {
        let mut plan = Planner::new(parts, cx);
        plan.exec.plant(cx);
        if plan.has_slc() {
            plan.exec.queue.watch_each();
        }
        let ends_early = cx.planted("ssd.ends-early");
        let mut ssd = Ssd { limits, plan, idle, rests, counts_all: true, closing: false, ends_early, buffer };
        ssd.plan.attention = ssd.attends();
        ssd
    }

    /// Whether something is to be seen to before every request.
    fn attends(&self) -> bool {
        self.idle.is_some() || self.buffer.is_some() || self.plan.paging.keeper.is_some()
    }
}

impl<M: Mapping> Ssd<M> {
    /// The die of the next page of the host.
    fn next_die(&self) -> u32 {
        let group = self.plan.turns.peek();
        let open = self.plan.blocks.planes[(group * self.plan.blocks.pools_per_plane()) as usize].host;
        match self.plan.exec.stripes.is_wide() {
            true if !open.is_full() => self.plan.exec.die_of(open.peek()),
            true => self.plan.exec.stripes.dies_of(group).start,
            false => group >> self.plan.host.plane_bits,
        }
    }

    /// Sees to what must be seen to before a request, a checkpoint among it; returns its answer when a worn out drive refuses it, or a write
    /// buffer deals with it.
    #[inline(never)]
    fn attend(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<Step> {
        if self.plan.renew_is_due {
            self.plan.of_any_map_mut().shorten_journal(id, cx);
        }
        self.note_request(id, cx);
        let has_ended = self.plan.blocks.has_ended();
        self.plan.attention = has_ended || self.attends();
        if has_ended && self.plan.of_any_map().is_past_its_end(id, cx.requests) {
            return Some(cx.fail(id, ErrorKind::ReadOnly));
        }
        if self.plan.checkpoint_is_due() {
            self.plan.of_any_map_mut().take_checkpoint(cx.requests[id].cause, cx);
        }
        self.buffer.as_ref()?;
        Some(self.request_buffered(id, cx))
    }

    /// Operations that were issued may have their time, or will be waited for.
    #[inline(always)]
    fn serve_what_waits(&mut self, cx: &mut Cx<'_>) {
        if self.plan.exec.queue.holds_back() {
            self.serve(cx);
        }
    }

    /// A trim, or a write of zeros.
    fn trim(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let step = self.plan.trim(id, cx);
        if self.plan.map.log_blocks().is_some() {
            // It may wait for nothing but a moment, and then nobody else serves it.
            self.serve(cx);
        }
        step
    }

    /// Changes the space of a tenant while the drive stands still.
    fn deal_alone(&mut self, deal: Deal, dealing: &Dealing, cx: &mut Cx<'_>) -> Result<usize, DealError> {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        let gone = self.plan.of_any_map().gives_up(deal, dealing);
        if !self.give_pages_up(gone.start, gone.end, cx) {
            let why = "writes to what it gives up wait for room in the write buffer".into();
            return Err(DealError::Refused { why, remedy: "try again".into() });
        }
        self.plan.of_any_map_mut().make_deal(deal, dealing, cx)
    }

    /// How long a write waits for what its pool of a log-block map has to do, about.
    fn logged_before(&self, log: &LogMap, offset: ByteOffset, now: Instant) -> Span {
        let Some((pool, _)) = log.find((offset.0 >> self.plan.host.page.bits) as u32) else {
            return Span::ZERO;
        };
        let exec = &self.plan.exec;
        let free_at = exec.lanes.free_at(log.plane_of(pool) >> self.plan.host.plane_bits);
        let timing = exec.lanes.timing();
        free_at.since(now.min(free_at))
            + (timing.read + timing.program) * u64::from(exec.queue.changes_of(pool))
    }

    /// Nothing is in a write buffer any more: puts the rest on record and ends the session.
    fn end_session(&mut self, cx: &mut Cx<'_>) {
        if let Some(buffer) = &self.buffer {
            cx.cancel_wake(buffer.key());
        }
        self.plan.record_trims(cx, TenantId::SYSTEM);
        self.plan.of_any_map_mut().write_map_back(cx);
        if self.plan.paging.keeper.is_some() {
            self.plan.of_any_map_mut().take_checkpoint(TenantId::SYSTEM, cx);
        }
        self.close_when_done(cx);
    }
}

impl<M: Mapping> Ssd<M> {
    /// What the host, collection and the flash did.
    fn put_counters(&self, report: &mut Report) {
        let c = &self.plan.count;
        let page = u64::from(self.limits.preferred);
        let programmed = self.plan.programmed();
        let log = self.plan.map.log_blocks();
        let merged = log.map_or_else(Default::default, |log| log.merged());
        let mut put = |name, value| report.put(name, value);
        put("host_pages_written", c.host_pages_written);
        put("host_pages_read", c.host_pages_read);
        put("rmw_page_reads", c.pages_premerged);
        put("gc_pages_moved", c.pages_moved);
        put("gc_blocks_collected", c.blocks_cleared + merged.switches + merged.partials + merged.fulls);
        put("gc_foreground_collections", c.clears_forced);
        if self.idle.is_some() {
            put("gc_idle_steps", c.moves_while_idle);
        }
        if self.plan.exec.lanes.timing().copyback {
            put("gc_pages_moved_in_die", self.plan.exec.lanes.moves());
        }
        if self.plan.exec.stripes.is_wide() {
            let [reads, programs] = self.plan.exec.lanes.moves_joined();
            put("gc_reads_joined", reads);
            put("gc_programs_joined", programs);
        }
        put("journal_pages", c.journal_pages);
        put("pages_trimmed", c.pages_trimmed + merged.unmapped);
        put(
            "erase_count",
            (c.erases + self.plan.paging.erased()) * u64::from(self.plan.exec.stripes.units.width()),
        );
        put("nand_bytes_written", programmed * page);
        put("nand_pages_programmed", programmed);
        let (free, valid) = match log {
            Some(log) => {
                log.regions().fold((0, 0), |sum, r| (sum.0 + u64::from(r.free()), sum.1 + r.mapped()))
            }
            None => self
                .plan
                .blocks
                .planes
                .iter()
                .fold((0, 0), |sum, p| (sum.0 + u64::from(p.free), sum.1 + u64::from(p.valid))),
        };
        put("free_blocks", free);
        put("valid_pages", valid);
    }

    /// What the flash and its RAM drew.
    fn energy(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        self.plan.exec.lanes.energy(from, to, out);
        let buffer = self.buffer.as_ref().map_or(0, |buffer| buffer.bytes(u64::from(self.limits.preferred)));
        RamPower::DDR3L.account(self.plan.map.ram() + buffer, 0, Span(to.0.saturating_sub(from.0)), out);
    }

    /// Its blocks as they are now.
    fn flash_map(&self) -> FlashMap {
        let layout = self.plan.blocks.layout();
        FlashMap {
            blocks_per_plane: layout.blocks,
            pages_per_block: layout.pages,
            valid: match self.plan.map.log_blocks() {
                None => self.plan.blocks.valid_pages(),
                Some(log) => log.valid_pages(),
            },
            erases: layout.all_blocks().map(|block| self.plan.blocks.erases(block)).collect(),
        }
    }
}

impl<M: Mapping> Machine for Ssd<M> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        let chips = self.plan.exec.stripes.units.chips();
        Needs::medium(MediumSpec::Flash {
            units: chips.ppn_end() + self.buffer.as_ref().map_or(0, |buffer| buffer.dump_units()),
            unit_sectors: self.plan.host.page.sectors,
            units_per_block: chips.block_stride(),
            own: self.plan.of_any_map().own_keys(),
        })
    }

    fn open(&mut self, how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        if cx.medium.is_some() {
            self.plan.exec.lanes.watch_idleness();
        }
        if cx.medium.as_deref().is_none_or(|medium| how.create && medium.is_blank()) {
            self.plan.of_any_map_mut().store_fill(cx);
            cx.opened(Ok(()));
        } else {
            self.stand_still(true, cx);
            let end = self.plan.of_any_map_mut().recover(cx).at;
            self.plan.recovery.took(end.since(cx.now).0);
            self.restore_buffer(cx);
            self.stand_still(false, cx);
            self.note_writers(cx);
            cx.wake_at(serve::AT_REST, end);
        }
        Step::Idle
    }

    /// The scan after a power cut is complete, or the drive may be idle, or a die may have something to do.
    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.plan.exec.lanes.tick(cx.now);
        if self.idle.as_ref().is_some_and(|idle| idle.key == key) {
            self.idle_timer(cx);
            self.serve_what_waits(cx);
            return Step::Idle;
        }
        if self.buffer.as_ref().is_some_and(|buffer| buffer.key() == key) {
            self.buffer_timer(cx);
            self.note_writers(cx);
            return Step::Idle;
        }
        if key.0 > 0 {
            return self.die_is_free(key.0 - 1, cx);
        }
        self.is_at_rest(cx);
        Step::Idle
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        if let Some(idle) = &mut self.idle {
            idle.is_at_rest = false;
            cx.cancel_wake(idle.key);
        }
        if self.is_empty_at_end(cx) {
            self.end_session(cx);
        }
        Step::Idle
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.plan.exec.lanes.tick(cx.now);
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        self.plan.exec.lanes.work_for(WORK_OF[cx.requests[id].op as usize]);
        if self.plan.attention
            && let Some(step) = self.attend(id, cx)
        {
            self.serve_what_waits(cx);
            self.note_writers(cx);
            return step;
        }
        let step = match cx.requests[id].op {
            Op::Read => self.plan.read(id, cx),
            Op::Write => self.plan.write(id, cx),
            Op::Flush => self.plan.flush(id, cx),
            Op::Trim | Op::WriteZeroes => self.trim(id, cx),
            Op::Reset => return cx.fail(id, ErrorKind::Unsupported),
        };
        self.serve_what_waits(cx);
        if self.plan.attention {
            self.note_writers(cx);
        }
        step
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        self.plan.map.prefetch(Lpn((offset.0 >> self.plan.host.page.bits) as u32));
        None
    }

    fn report(&mut self, report: &mut Report) {
        if report.wants_counters() {
            self.put_counters(report);
        }
        self.plan.of_any_map_mut().report_map(report);
        self.plan.exec.lanes.report(report);
        if let Some(buffer) = &mut self.buffer {
            buffer.report(report);
        }
        self.plan.of_any_map_mut().report_log_blocks(report);
        self.plan.of_any_map_mut().report_slc(report);
        self.plan.exec.report_suspensions(report);
        self.plan.exec.queue.report_shares(report);
        self.plan.of_any_map_mut().report_wear(report);
        self.plan.of_any_map_mut().report_tenants(report);
        if self.plan.has_streams() {
            report.put("pages_written_to_other_streams", self.plan.count.stream_pages);
        }
        self.plan.recovery.report(report);
        report.energy(|from, to, out| self.energy(from, to, out));
        report.wear(|| {
            std::iter::once(self.plan.of_any_map().wear_region()).chain(self.plan.of_any_map().slc_region())
        });
        report.spaces(|out| self.plan.of_any_map().tenant_spaces(out));
        report.flash_map(|| self.flash_map());
        report.restart(&mut self.plan.count);
        if report.begins_anew() {
            self.counts_all = self.plan.exec.queue.outstanding() == 0;
        }
    }

    fn check(&self) -> Result<(), Violation> {
        if !self.plan.exec.queue.is_clean() {
            let what = "operations or answers are left over although nothing waits".into();
            return Err(Violation { invariant: "queue", what });
        }
        let all_began = self.counts_all && self.plan.exec.queue.outstanding() == 0;
        self.plan.exec.lanes.check(all_began.then(|| self.plan.of_any_map().counted()))?;
        self.check_rest()?;
        self.plan.exec.lanes.check_idleness()?;
        self.plan.exec.queue.check_suspensions()?;
        self.plan.exec.queue.check_shares()?;
        if let Some(buffer) = &self.buffer {
            buffer.check()?;
        }
        if self.plan.map.log_blocks().is_some() {
            return self.plan.of_any_map().check_logged();
        }
        self.plan.of_any_map().check_blocks()
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn administer(&mut self) -> Option<&mut dyn Administer> {
        Some(self)
    }
}

impl<M: Mapping> Advise for Ssd<M> {
    fn expected_latency(&self, op: Op, offset: ByteOffset, _len: ByteLen, peek: &Peek<'_>) -> Span {
        let free = |die| Span(self.plan.exec.lanes.free_at(die).0.saturating_sub(peek.now.0));
        let wait = |die| match self.plan.exec.queue.has_lines() {
            true => free(die) + self.plan.exec.queued_before(op, die),
            false => free(die),
        };
        match op {
            Op::Read => match self.plan.map.get(Lpn((offset.0 >> self.plan.host.page.bits) as u32)) {
                Some(ppn) => {
                    let timing = self.plan.exec.timing_in(self.plan.is_slc(ppn));
                    wait(self.plan.exec.die_of(ppn)) + timing.read + timing.transfer
                }
                None => Span::ZERO,
            },
            Op::Write if self.buffer.as_ref().is_some_and(|buffer| buffer.has_room()) => Span::ZERO,
            Op::Write if self.plan.map.log_blocks().is_some() => {
                let (timing, log) = (self.plan.exec.lanes.timing(), self.plan.map.log_blocks());
                let before = log.map_or(Span::ZERO, |log| self.logged_before(log, offset, peek.now));
                before + timing.transfer + timing.program
            }
            Op::Write => {
                let open = self.plan.blocks.planes
                    [(self.plan.turns.peek() * self.plan.blocks.pools_per_plane()) as usize]
                    .host;
                let timing = self.plan.exec.timing_in(!open.is_full() && self.plan.is_slc(open.peek()));
                wait(self.next_die()) + timing.transfer + timing.program
            }
            _ => Span::ZERO,
        }
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        if let Some(buffer) = &self.buffer {
            return !buffer.has_room();
        }
        if self.plan.map.log_blocks().is_some() {
            return self.plan.exec.queue.any_move_waits();
        }
        let die = self.next_die();
        self.plan.exec.lanes.free_at(die) > peek.now
            || self.plan.exec.queue.has_lines() && self.plan.exec.queue.waiting(die) != (0, 0)
    }

    fn locate(&self, offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        let ppn = self.plan.map.get(Lpn((offset.0 >> self.plan.host.page.bits) as u32))?;
        Some(Place { lane: self.plan.exec.die_of(ppn), unit: self.plan.exec.stripes.unit(ppn) })
    }
}

impl<M: Mapping> Administer for Ssd<M> {
    fn share_changed(&mut self, tenant: TenantId, share: &TenantShare, _cx: &mut Cx<'_>) -> Step {
        self.plan.exec.queue.set_weight(tenant, share.weight);
        Step::Idle
    }

    fn deal(&mut self, deal: Deal, cx: &mut Cx<'_>) -> Result<Dealt, DealError> {
        let dealing = self.plan.of_any_map().dealing()?;
        self.plan.exec.lanes.tick(cx.now);
        self.watch_idleness(cx);
        self.stand_still(true, cx);
        let dealt = self.deal_alone(deal, &dealing, cx);
        self.stand_still(false, cx);
        self.note_writers(cx);
        let number = dealt? as u32 + 1;
        Ok(Dealt { number, holds_at: self.plan.exec.fence(After::now(cx)).at })
    }
}

#[cfg(test)]
mod tests;
