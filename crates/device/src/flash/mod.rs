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
//! *Modes.* Cells may hold fewer bits than they could (`bits`): then a block has that share of its pages. With one bit a
//! chip of any kind has the times and the endurance of SLC, as far as nothing else is given. A chip whose blocks have
//! different modes is two such leaves; they do not share their dies' time.
//!
//! *Energy.* A read, a program and an erase draw the profile's power for their time, a transfer for its own; a die that does none of
//! them stands by. In a mode of fewer bits the times are shorter and the power is the same.
//!
//! *Wear.* Erases are counted for each unit. They are told (`erases_max`) and end nothing, unless `wears_out` is given.
//!
//! Cost: 8 bytes for each unit; one step for each page of a request.

mod account;
mod config;
#[cfg(test)]
mod tests;

pub use config::{kind, FlashConfig};

use crate::nand::FlashPower;
use nandu_base::{
    ByteLen, ByteOffset, Counter, Cx, EnergyPart, ErrorKind, Instant, Limits, Machine, MediumSpec, Oob, Op,
    OpenHow, Overlay, Peek, Place, Program, ReqId, Resource, Span, Step, UnitState, Violation, WearRegion,
    Window, Work, SECTOR,
};

/// Times of the chip, and how long it lasts.
#[derive(Clone, Copy, Debug)]
struct Chip {
    page: u64,
    unit_pages: u32,
    units: u32,
    dies: u32,
    read: Span,
    program: Span,
    erase: Span,
    transfer: Span,
    endurance: u32,
    wears_out: bool,
    /// Bits that a cell holds.
    bits: u32,
    power: FlashPower,
}

/// What happened since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    reads: u64,
    programs: u64,
    erases: u64,
    refused: u64,
}

/// The leaf.
struct Flash {
    chip: Chip,
    limits: Limits,
    /// Of each unit the page that is programmed next.
    next: Vec<u32>,
    wear: Vec<u32>,
    free_at: Vec<Instant>,
    channel_at: Instant,
    /// Programs so far: the place of each in their order.
    seq: u64,
    die_busy: Span,
    channel_busy: Span,
    count: Counts,
    /// Planted: erases are not counted.
    forgets_erases: bool,
}

impl Flash {
    fn new(chip: Chip, limits: Limits, forgets_erases: bool) -> Flash {
        Flash {
            next: vec![0; chip.units as usize],
            wear: vec![0; chip.units as usize],
            free_at: vec![Instant::ZERO; chip.dies as usize],
            channel_at: Instant::ZERO,
            seq: 0,
            die_busy: Span::ZERO,
            channel_busy: Span::ZERO,
            count: Counts::default(),
            forgets_erases,
            chip,
            limits,
        }
    }

    /// Unit, page of the unit, and die of a page.
    fn place(&self, page: u64) -> (usize, u32, usize) {
        let unit_pages = u64::from(self.chip.unit_pages);
        let at = (page % unit_pages) as u32;
        ((page / unit_pages) as usize, at, (at % self.chip.dies) as usize)
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
        self.free_at[die] = start + span;
        self.die_busy += span;
        cx.charge(cx.requests[id].cause, Resource::Die, work, span);
        start
    }

    fn read(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let mut end = cx.now;
        let first = self.pages(id, cx).start;
        let sectors = (self.chip.page / SECTOR) as u32;
        for page in self.pages(id, cx) {
            let (unit, at, die) = self.place(page);
            let start = self.hold(die, cx.now, self.chip.read, Work::Read, id, cx);
            end = end.later(self.transfer(start + self.chip.read, Work::Read, id, cx));
            self.count.reads += 1;
            let from = ByteLen((page - first) * self.chip.page);
            let payload = cx.requests[id].payload.slice(from);
            if at >= self.next[unit] {
                cx.pool.zero(payload, ByteLen(self.chip.page));
            } else if let Some(medium) = cx.medium.as_deref_mut() {
                if !medium.read(cx.pool, page, 0, sectors, payload) {
                    let len = ByteLen(self.chip.page);
                    cx.requests[id].fail_part(ErrorKind::Unreadable, from, len);
                }
            }
        }
        Step::FinishAt(id, end)
    }

    /// Why the pages of a write cannot be programmed.
    fn refusal(&self, pages: std::ops::Range<u64>) -> Option<ErrorKind> {
        let first = pages.start;
        pages.into_iter().find_map(|page| {
            let (unit, at, _) = self.place(page);
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
            self.count.refused += 1;
            return cx.fail(id, kind);
        }
        let mut end = cx.now;
        let sectors = (self.chip.page / SECTOR) as u32;
        for page in pages.clone() {
            let (unit, _, die) = self.place(page);
            let sent = self.transfer(cx.now, Work::Write, id, cx);
            let start = self.hold(die, sent, self.chip.program, Work::Write, id, cx);
            let window = Window { start, end: start + self.chip.program };
            end = end.later(window.end);
            self.next[unit] += 1;
            self.count.programs += 1;
            self.seq += 1;
            if let Some(medium) = cx.medium.as_deref_mut() {
                let payload = cx.requests[id].payload.slice(ByteLen((page - pages.start) * self.chip.page));
                let overlay = Some(Overlay { first: 0, count: sectors, payload });
                let oob = Oob { key: page, seq: self.seq };
                medium.program(cx.pool, &Program { unit: page, base: None, overlay, oob, window });
            }
        }
        Step::FinishAt(id, end)
    }

    fn reset(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let pages = self.pages(id, cx);
        let unit_pages = u64::from(self.chip.unit_pages);
        if !pages.start.is_multiple_of(unit_pages) || !pages.end.is_multiple_of(unit_pages) {
            return cx.fail(id, ErrorKind::BadExtent);
        }
        let units = (pages.start / unit_pages) as usize..(pages.end / unit_pages) as usize;
        if self.chip.wears_out && units.clone().any(|unit| self.wear[unit] >= self.chip.endurance) {
            self.count.refused += 1;
            return cx.fail(id, ErrorKind::ReadOnly);
        }
        let mut end = cx.now;
        for unit in units {
            // The dies begin together, so that a cut finds all blocks of the unit erased, torn or as they were.
            let ready = self.free_at.iter().fold(cx.now, |at, &free| at.later(free));
            for die in 0..self.chip.dies as usize {
                self.hold(die, ready, self.chip.erase, Work::Gc, id, cx);
            }
            let window = Window { start: ready, end: ready + self.chip.erase };
            end = end.later(window.end);
            self.next[unit] = 0;
            self.wear[unit] += 1;
            self.count.erases += u64::from(!self.forgets_erases);
            if let Some(medium) = cx.medium.as_deref_mut() {
                medium.erase(unit as u64 * unit_pages, unit_pages, window);
            }
        }
        Step::FinishAt(id, end)
    }

    /// What the cells say after a start: in each unit the page behind the last one that is not erased is next.
    fn look(&mut self, cx: &Cx<'_>) {
        let Some(medium) = cx.medium.as_deref() else { return };
        let unit_pages = self.chip.unit_pages;
        for unit in 0..self.chip.units as usize {
            let first = unit as u64 * u64::from(unit_pages);
            let is_used = |&at: &u32| medium.state(first + u64::from(at)) != UnitState::Erased;
            self.next[unit] = (0..unit_pages).rev().find(is_used).map_or(0, |at| at + 1);
            self.wear[unit] = medium.erases(first);
        }
    }
}

impl Machine for Flash {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn medium(&self) -> MediumSpec {
        MediumSpec::Flash {
            units: u64::from(self.chip.units) * u64::from(self.chip.unit_pages),
            unit_sectors: (self.chip.page / SECTOR) as u32,
            units_per_block: self.chip.unit_pages,
        }
    }

    fn open(&mut self, how: OpenHow, cx: &mut Cx<'_>) -> Step {
        self.free_at.fill(cx.now);
        self.channel_at = cx.now;
        if !how.create {
            self.look(cx);
        }
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

    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let pages = len.0.div_ceil(self.chip.page).max(1);
        let (_, _, die) = self.place(offset.0 / self.chip.page);
        let wait = self.free_at[die].later(peek.now).since(peek.now);
        let own = match op {
            Op::Read => self.chip.read + self.chip.transfer * pages,
            Op::Write => self.chip.program * pages.div_ceil(u64::from(self.chip.dies)) + self.chip.transfer,
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
        Some(Place { lane: self.place(page).2 as u32, unit: page })
    }

    fn counters(&self, out: &mut Vec<Counter>) {
        let mut put = |name, value| out.push(Counter { name, value });
        put("page_reads", self.count.reads);
        put("page_programs", self.count.programs);
        put("unit_erases", self.count.erases);
        put("refused", self.count.refused);
        put("erases_max", u64::from(self.wear.iter().copied().max().unwrap_or(0)));
        put("erases_total", self.wear.iter().map(|&n| u64::from(n)).sum());
        put("erase_units", u64::from(self.chip.units));
        put("endurance", u64::from(self.chip.endurance));
        put("operations_energy_uj", self.operations_energy_uj());
        let is_worn = |&&n: &&u32| self.chip.wears_out && n >= self.chip.endurance;
        put("is_worn_out", u64::from(self.wear.iter().any(|n| is_worn(&n))));
    }

    fn energy(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        self.account(from, to, out);
    }

    fn wear(&self, out: &mut Vec<WearRegion>) {
        out.push(self.wear_region());
    }

    fn busy(&self, out: &mut Vec<(Resource, Span)>) {
        out.push((Resource::Die, self.die_busy));
        out.push((Resource::Channel, self.channel_busy));
    }

    fn reset_counters(&mut self) {
        self.count = Counts::default();
        (self.die_busy, self.channel_busy) = (Span::ZERO, Span::ZERO);
    }

    fn check(&self) -> Result<(), Violation> {
        self.check_account()?;
        match self.next.iter().position(|&next| next > self.chip.unit_pages) {
            None => Ok(()),
            Some(unit) => {
                let what = format!("unit {unit} has more pages programmed than it has");
                Err(Violation { invariant: "I-6", what })
            }
        }
    }
}
