//! `flash`: bare NAND without a translation layer.
//!
//! A leaf for machines that manage flash themselves. The pages of an erase unit are programmed in order, each once, and the
//! unit is erased as a whole by `reset`; an erase unit is one block of each die, and its pages lie on the dies in turn.
//! What breaks the rules is refused: [`ErrorKind::NotErased`], [`ErrorKind::OutOfOrder`]. Trims are not known. Erased
//! pages read as zeros; one whose program or erase a power cut has torn is unreadable.
//!
//! *Time.* Each die serves first come, first served; the pages of all dies take turns on one channel. A program holds its
//! die after its transfer, a read before it. A write is durable when it ends: there is no cache, and a flush takes no time.
//!
//! *Modes.* Cells may hold fewer bits than they could (`bits_per_cell`): then a block has that share of its pages. With one bit a
//! chip of any kind has the times and the endurance of SLC, as far as nothing else is given. A chip whose blocks have
//! different modes has `areas` ([`area`]), each under a [`flash_area`] of its own; they wait for each other's dies and
//! transfers.
//!
//! *Wear.* Erases are counted for each unit. They are told (`erases_max`) and end nothing, unless `wears_out` is given.
//!
//! *Energy.* Operations times their time times the profile's power. A mode of fewer bits draws the power of the chip for its
//! own, shorter times; public data sheets of such modes have no figures of their own. A die that does nothing stands by.
//!
//! Cost: 8 bytes for each unit; one step for each page of a request.

mod area;
mod config;
pub mod flash_area;
#[cfg(test)]
mod tests;

pub use config::{AreaConfig, FlashConfig, kind};

use crate::nand::FlashPower;
use area::{FlashArea, Spot, place};

use nandu_base::{
    Advise, ByteLen, ByteOffset, Cx, EnergyPart, ErrorKind, Instant, Limits, Machine, MediumSpec, MicroWatts,
    Needs, Oob, Op, OpenOptions, Overlay, OwnKeys, Peek, Place, Program, Report, ReqId, Resource, SECTOR,
    Span, Step, UnitState, Violation, Window, Work,
};

/// What all areas of the chip have in common.
#[derive(Clone, Copy, Debug)]
struct Chip {
    page: u64,
    /// Bits that a cell can hold.
    bits: u32,
    /// Pages of a unit with all bits in use.
    stride: u32,
    units: u32,
    dies: u32,
    erase: Span,
    transfer: Span,
    wears_out: bool,
    power: FlashPower,
    planted: config::Planted,
}

/// The leaf.
struct Flash {
    chip: Chip,
    areas: Vec<FlashArea>,
    limits: Limits,
    /// Of each unit the page that is programmed next.
    next: Vec<u32>,
    wear: Vec<u32>,
    free_at: Vec<Instant>,
    /// When the last operation of each die ends.
    works_until: Vec<Instant>,
    /// A die that was given an operation while it had another.
    overlap: Option<usize>,
    channel_at: Instant,
    /// Programs so far: the place of each in their order.
    seq: u64,
    die_busy: Span,
    channel_busy: Span,
    refused: u64,
}

impl Flash {
    fn new(chip: Chip, areas: Vec<FlashArea>, limits: Limits) -> Flash {
        Flash {
            next: vec![0; chip.units as usize],
            wear: vec![0; chip.units as usize],
            free_at: vec![Instant::ZERO; chip.dies as usize],
            works_until: vec![Instant::ZERO; chip.dies as usize],
            overlap: None,
            channel_at: Instant::ZERO,
            seq: 0,
            die_busy: Span::ZERO,
            channel_busy: Span::ZERO,
            refused: 0,
            chip,
            areas,
            limits,
        }
    }

    /// Energy of operations so far, without standby, in uJ.
    fn operations_energy_nj(&self) -> u64 {
        let mut parts = Vec::new();
        self.areas.iter().for_each(|a| a.account(&self.chip, true, &mut parts));
        parts.iter().map(|part| part.energy.0).sum()
    }

    #[inline]
    fn place(&self, page: u64) -> Spot {
        place(&self.areas, &self.chip, page)
    }

    /// Pages of a request.
    fn pages(&self, id: ReqId, cx: &Cx<'_>) -> std::ops::Range<u64> {
        let request = &cx.requests[id];
        request.offset.0 / self.chip.page..request.end().0 / self.chip.page
    }

    /// The transfer of one page that is wanted from `at` on; its end.
    fn transfer(&mut self, at: Instant, work: Work, id: ReqId, cx: &mut Cx<'_>) -> Instant {
        let span = self.chip.transfer;
        self.channel_at = self.channel_at.later(at) + span;
        self.channel_busy += span;
        cx.charge(cx.requests[id].cause, Resource::Channel, work, span);
        self.channel_at
    }

    /// What a die does for `span` from `at` on or when it is free; when it begins.
    fn hold(
        &mut self,
        die: usize,
        at: Instant,
        span: Span,
        work: Work,
        id: ReqId,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let start = self.free_at[die].later(at);
        if start < self.works_until[die] {
            self.overlap = Some(die);
        }
        self.free_at[die] = start + span;
        self.works_until[die] = start + span;
        self.die_busy += span;
        cx.charge(cx.requests[id].cause, Resource::Die, work, span);
        start
    }

    fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let mut end = cx.now;
        let first = self.pages(id, cx).start;
        let sectors = (self.chip.page / SECTOR) as u32;
        for page in self.pages(id, cx) {
            let Spot { area, unit, at, die, cell } = self.place(page);
            let span = self.areas[area].read;
            self.forget_others(area, die);
            let start = self.hold(die, cx.now, span, Work::Read, id, cx);
            end = end.later(self.transfer(start + span, Work::Read, id, cx));
            self.areas[area].count.reads += 1;
            let from = ByteLen((page - first) * self.chip.page);
            let payload = cx.requests[id].payload.slice(from);
            if at >= self.next[unit] {
                cx.pool.zero(payload, ByteLen(self.chip.page));
            } else if let Some(medium) = cx.medium.as_deref_mut()
                && !medium.read(cx.pool, cell, 0, sectors, payload)
            {
                let len = ByteLen(self.chip.page);
                cx.requests[id].fail_part(ErrorKind::Unreadable, from, len);
            }
        }
        Step::FinishAt(id, end)
    }

    /// Why the pages of a write cannot be programmed.
    fn refusal(&self, pages: std::ops::Range<u64>) -> Option<ErrorKind> {
        let first = pages.start;
        pages.into_iter().find_map(|page| {
            let Spot { unit, at, .. } = self.place(page);
            let before = (page - first).min(u64::from(at)) as u32;
            let next = self.next[unit] + before;
            match at {
                at if at < next => Some(ErrorKind::NotErased),
                at if at > next => Some(ErrorKind::OutOfOrder),
                _ => None,
            }
        })
    }

    fn write(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages(id, cx);
        if let Some(kind) = self.refusal(pages.clone()) {
            self.refused += 1;
            return cx.fail(id, kind);
        }
        let mut end = cx.now;
        let sectors = (self.chip.page / SECTOR) as u32;
        for page in pages.clone() {
            let Spot { area, unit, die, cell, .. } = self.place(page);
            let span = self.areas[area].program;
            let sent = self.transfer(cx.now, Work::Write, id, cx);
            let start = self.hold(die, sent, span, Work::Write, id, cx);
            let window = Window { start, end: start + span };
            end = end.later(window.end);
            self.next[unit] += 1;
            self.areas[area].count.programs += 1;
            self.seq += 1;
            if let Some(medium) = cx.medium.as_deref_mut() {
                let payload = cx.requests[id].payload.slice(ByteLen((page - pages.start) * self.chip.page));
                let overlay = Some(Overlay { first: 0, count: sectors, payload });
                let oob = Oob { key: cell, seq: self.seq };
                medium.program(cx.pool, &Program { unit: cell, base: None, overlay, oob, window });
            }
        }
        Step::FinishAt(id, end)
    }

    /// The units of a reset: whole ones, of any area. `None` when it has part of one.
    fn whole_units(&self, pages: std::ops::Range<u64>) -> Option<std::ops::Range<usize>> {
        if pages.is_empty() {
            return Some(0..0);
        }
        let (first, last) = (self.place(pages.start), self.place(pages.end - 1));
        let is_whole = first.at == 0 && last.at + 1 == self.areas[last.area].unit_pages;
        is_whole.then_some(first.unit..last.unit + 1)
    }

    /// The area of a unit.
    fn area_of(&self, unit: usize) -> usize {
        self.areas.partition_point(|a| (a.first_unit + a.units) as usize <= unit)
    }

    fn is_worn(&self, unit: usize) -> bool {
        self.chip.wears_out && self.wear[unit] >= self.areas[self.area_of(unit)].endurance
    }

    fn reset(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let Some(units) = self.whole_units(self.pages(id, cx)) else {
            return cx.fail(id, ErrorKind::BadExtent);
        };
        if self.chip.wears_out && units.clone().any(|unit| self.is_worn(unit)) {
            self.refused += 1;
            return cx.fail(id, ErrorKind::ReadOnly);
        }
        let mut end = cx.now;
        for unit in units {
            let area = self.area_of(unit);
            // The dies begin together, so that a cut finds all blocks of the unit erased, torn or as they were.
            let ready = self.free_at.iter().fold(cx.now, |at, &free| at.later(free));
            for die in 0..self.chip.dies as usize {
                self.hold(die, ready, self.chip.erase, Work::Gc, id, cx);
            }
            let window = Window { start: ready, end: ready + self.chip.erase };
            end = end.later(window.end);
            self.next[unit] = 0;
            self.wear[unit] += 1;
            self.areas[area].count.erases += u64::from(!self.chip.planted.forgets_erases);
            let (first, pages) = (unit as u64 * u64::from(self.chip.stride), self.areas[area].unit_pages);
            if let Some(medium) = cx.medium.as_deref_mut() {
                medium.erase(first, u64::from(pages), window);
            }
        }
        Step::FinishAt(id, end)
    }

    /// Planted: a read in an area behind the first one does not wait for what the others have under way.
    fn forget_others(&mut self, area: usize, die: usize) {
        if self.chip.planted.areas_apart && area > 0 {
            self.free_at[die] = Instant::ZERO;
        }
    }

    /// What the cells say after a start: in each unit the page behind the last one that is not erased is next.
    fn look(&mut self, cx: &Cx<'_>) {
        let Some(medium) = cx.medium.as_deref().filter(|medium| !medium.is_blank()) else { return };
        for unit in 0..self.chip.units as usize {
            let first = unit as u64 * u64::from(self.chip.stride);
            let pages = self.areas[self.area_of(unit)].unit_pages;
            let is_used = |&at: &u32| medium.state(first + u64::from(at)) != UnitState::Erased;
            self.next[unit] = (0..pages).rev().find(is_used).map_or(0, |at| at + 1);
            self.wear[unit] = medium.erases(first);
        }
    }

    /// What breaks the account of time, if anything does: the parts of an area are not what its dies and channel did.
    fn miscounted(&self) -> Option<String> {
        let work = self.areas.iter().map(|a| a.work(&self.chip));
        let (array, pages) = work.fold((0, 0), |(time, pages), (t, p)| (time + t, pages + p));
        let transfers = u128::from(pages) * u128::from(self.chip.transfer.0);
        let (dies, channel) = (u128::from(self.die_busy.0), u128::from(self.channel_busy.0));
        (array != dies || transfers != channel).then(|| {
            format!("operations take {array} ns and transfers {transfers} ns; the dies had {dies} ns, the channel {channel} ns")
        })
    }
}

impl Flash {
    fn put_counters(&self, report: &mut Report) {
        let mut put = |name, value| report.put(name, value);
        let sum = |of: fn(&area::Counts) -> u64| self.areas.iter().map(|a| of(&a.count)).sum();
        put("page_reads", sum(|c| c.reads));
        put("page_programs", sum(|c| c.programs));
        put("unit_erases", sum(|c| c.erases));
        let programmed = sum(|c| c.programs);
        put("nand_bytes_written", programmed * self.chip.page);
        put("nand_pages_programmed", programmed);
        put("refused", self.refused);
        put("erases_max", u64::from(self.wear.iter().copied().max().unwrap_or(0)));
        put("erases_total", self.wear.iter().map(|&n| u64::from(n)).sum());
        put("erase_units", u64::from(self.chip.units));
        put("operations_energy_nj", self.operations_energy_nj());
        put("endurance", self.areas.iter().map(|a| u64::from(a.endurance)).min().unwrap_or(0));
        put("is_worn_out", u64::from((0..self.wear.len()).any(|unit| self.is_worn(unit))));
    }
}

impl Machine for Flash {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::medium(MediumSpec::Flash {
            units: u64::from(self.chip.units) * u64::from(self.chip.stride),
            unit_sectors: (self.chip.page / SECTOR) as u32,
            units_per_block: self.chip.stride,
            own: OwnKeys::None,
        })
    }

    fn open(&mut self, _how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        self.free_at.fill(cx.now);
        self.works_until.fill(cx.now);
        self.channel_at = cx.now;
        self.look(cx);
        cx.opened(Ok(()));
        Step::Idle
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        if let Some(medium) = cx.medium.as_deref_mut() {
            medium.settle(cx.now);
        }
        match cx.requests[id].op {
            Op::Read => self.read(id, cx),
            Op::Write => self.write(id, cx),
            Op::Reset => self.reset(id, cx),
            Op::Flush => Step::Finish(id),
            Op::Trim | Op::WriteZeroes => cx.fail(id, ErrorKind::Unsupported),
        }
    }

    fn report(&mut self, report: &mut Report) {
        if report.wants_counters() {
            self.put_counters(report);
        }
        report.energy(|from, to, out| {
            self.areas.iter().for_each(|a| a.account(&self.chip, self.areas.len() == 1, out));
            let all = u128::from(to.since(from).0) * u128::from(self.chip.dies);
            let rest = all.saturating_sub(u128::from(self.die_busy.0));
            out.push(EnergyPart::state("standby", rest, MicroWatts(self.chip.power.standby_uw)));
        });
        report.wear(|| self.areas.iter().map(|a| a.wear(&self.chip, &self.wear)));
        report.busy(Resource::Die, &mut self.die_busy, self.free_at.len() as u32);
        report.busy(Resource::Channel, &mut self.channel_busy, 1);
        self.areas.iter_mut().for_each(|a| report.restart(&mut a.count));
        report.restart(&mut self.refused);
    }

    fn check(&self) -> Result<(), Violation> {
        let broken = |invariant, what| Err(Violation { invariant, what });
        for area in &self.areas {
            let units = area.first_unit as usize..(area.first_unit + area.units) as usize;
            if let Some(unit) = units.clone().find(|&unit| self.next[unit] > area.unit_pages) {
                return broken("I-6", format!("unit {unit} has more pages programmed than it has"));
            }
        }
        if let Some(die) = self.overlap {
            return broken("I-13", format!("die {die} does two things at a time"));
        }
        self.miscounted().map_or(Ok(()), |what| broken("I-13", what))
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }
}

impl Advise for Flash {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let pages = len.0.div_ceil(self.chip.page).max(1);
        let Spot { area, die, .. } = self.place(offset.0 / self.chip.page);
        let area = &self.areas[area];
        let wait = self.free_at[die].later(peek.now).since(peek.now);
        let own = match op {
            Op::Read => area.read + self.chip.transfer * pages,
            Op::Write => area.program * pages.div_ceil(u64::from(self.chip.dies)) + self.chip.transfer,
            Op::Reset => self.chip.erase,
            _ => return Span::ZERO,
        };
        wait + own
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.free_at.iter().all(|&at| at > peek.now)
    }

    fn locate(&self, offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        let page = offset.0 / self.chip.page;
        let spot = self.place(page);
        Some(Place { lane: spot.die as u32, unit: spot.cell })
    }
}
