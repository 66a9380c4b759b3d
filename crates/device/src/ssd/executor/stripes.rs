//! Units of several blocks on the flash: where their pages lie, moving pages between planes, and erasing.
//!
//! The rest of the drive sees units as if they were blocks ([`nandu_ftl::Units`]). What is different on the flash:
//!
//! - *Moves.* A page may move to another plane: it is read where it is, crosses both channels, and is programmed there. Pages that
//!   move at once share an operation where they are at one height of one die, as pages of a request do. With `gc.whole_stripes` those of a
//!   stripe do: all of them are read before any is programmed.
//! - *Erases.* All blocks of a unit are erased together, when nothing is left to wait for in any of them: the planes of a die in one
//!   operation, with the die scheduler `out-of-order` one after another.
//! - *Opening.* A unit that is opened waits until every erase of its group that was begun before is complete. Its dies would not wait for
//!   each other: a power cut could find the last erased unit used up, and the unit that was to replace it still full.
//!
//! With units of one block all of this is what a die does by itself. RAM: 16 bytes per unit.

use super::pieces::order_of;
use super::{Copying, Erasing, Executor, Given, Pieces, Programming, Reading, Usage};
use crate::nand::PageTime;
use crate::nand::lanes::SLC_POSITION;
use crate::nand::queued::{After, Job, NONE, Order, Page};
use nandu_base::{Cx, Instant, Program, Span, Window, Work};
use nandu_ftl::{BlockId, Ppn, Units};
use std::ops::Range;

/// Where the blocks of units are, and since when they may be written and erased.
#[derive(Clone, Debug)]
pub(in crate::ssd) struct Stripes {
    pub units: Units,
    /// log2 of the planes of a die.
    pub(super) plane_bits: u32,
    /// Members of a unit, those of one die next to each other, and the die of each, group after group.
    by_die: Vec<(u32, u32)>,
    /// When an open unit may be programmed.
    opens_at: Vec<Instant>,
    /// When a unit may be erased: the newer versions of its pages are complete. Of an erased one, when it was.
    safe_at: Vec<Instant>,
    /// When all erases of a group so far are complete.
    erased_at: Vec<Instant>,
    /// Units that were opened while an erase of their group waits.
    early: Vec<BlockId>,
}

impl Stripes {
    pub fn new(units: Units, plane_bits: u32) -> Stripes {
        let (layout, chips, width) = (*units.layout(), *units.chips(), units.width());
        let mut by_die = Vec::new();
        if width > 1 {
            for group in 0..layout.planes {
                let unit = layout.first_block(group);
                let die = |member| chips.plane_of_block(units.block(unit, member)) >> plane_bits;
                let mut members: Vec<(u32, u32)> = (0..width).map(|member| (die(member), member)).collect();
                members.sort_unstable();
                by_die.extend(members.into_iter().map(|(die, member)| (member, die)));
            }
        }
        let safe_at = vec![Instant::ZERO; layout.block_end() as usize];
        let (blocks, groups) = if width > 1 { (layout.block_end(), layout.planes) } else { (0, 0) };
        Stripes {
            units,
            plane_bits,
            by_die,
            opens_at: vec![Instant::ZERO; blocks as usize],
            safe_at,
            erased_at: vec![Instant::ZERO; groups as usize],
            early: Vec::new(),
        }
    }

    /// Whether a unit has more than one block.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.units.width() > 1
    }

    /// The page of the medium.
    #[inline]
    pub fn unit(&self, ppn: Ppn) -> u64 {
        u64::from(self.units.place(ppn).0)
    }

    /// The plane of a page, and its position in its block.
    #[inline]
    pub fn plane_and_page(&self, ppn: Ppn) -> (u32, u32) {
        let at = self.units.place(ppn);
        (self.units.chips().plane(at), self.units.chips().page(at))
    }

    /// The blocks of a unit with their dies, those of one die next to each other.
    fn members(&self, unit: BlockId) -> impl Iterator<Item = (BlockId, u32)> + Clone + '_ {
        let (width, group) = (self.units.width(), self.units.layout().plane_of_block(unit));
        (0..width).map(move |index| match width {
            1 => (unit, group >> self.plane_bits),
            _ => {
                let (member, die) = self.by_die[(group * width + index) as usize];
                (self.units.block(unit, member), die)
            }
        })
    }

    /// The dies of a group of planes.
    pub fn dies_of(&self, group: u32) -> Range<u32> {
        if !self.is_wide() {
            let die = group >> self.plane_bits;
            return die..die + 1;
        }
        let dies = self.units.width() >> self.plane_bits;
        group * dies..(group + 1) * dies
    }

    /// When the program of a page whose data is there at `ready` may begin. Translation pages are written to units that
    /// were opened at any time.
    #[inline]
    pub fn may_begin(&self, ppn: Ppn, is_map: bool, ready: Instant) -> Instant {
        if !self.is_wide() {
            return ready;
        }
        let layout = self.units.layout();
        match is_map {
            true => ready.later(self.erased_at[layout.plane(ppn) as usize]),
            false => ready.later(self.opens_at[layout.block(ppn).0 as usize]),
        }
    }

    /// A unit was opened, perhaps while erases wait.
    #[inline]
    pub fn opened(&mut self, unit: BlockId, erases_wait: bool) {
        if self.is_wide() {
            let group = self.units.layout().plane_of_block(unit);
            self.opens_at[unit.0 as usize] = self.erased_at[group as usize];
            if erases_wait {
                self.early.push(unit);
            }
        }
    }

    /// The unit of a page is not erased before `when`: a power cut would bring the page back until then.
    #[inline(always)]
    pub fn keep_until(&mut self, ppn: Ppn, when: Instant) {
        self.keep_unit_until(self.units.layout().block(ppn), when);
    }

    /// The same of a unit.
    #[inline(always)]
    pub fn keep_unit_until(&mut self, unit: BlockId, when: Instant) {
        let safe_at = &mut self.safe_at[unit.0 as usize];
        *safe_at = safe_at.later(when);
    }

    /// When an erased unit was erased, if that did not wait.
    pub fn was_erased_at(&self, unit: BlockId) -> Instant {
        self.safe_at[unit.0 as usize]
    }

    /// A block of a chip that had to wait for it is erased at `end`; whether other erases still wait.
    pub fn erased_late(&mut self, group: u32, end: Instant, others: bool) {
        let at = &mut self.erased_at[group as usize];
        *at = at.later(end);
        for unit in self.early.iter().filter(|unit| self.units.layout().plane_of_block(**unit) == group) {
            let opens = &mut self.opens_at[unit.0 as usize];
            *opens = opens.later(end);
        }
        if !others {
            self.early.clear();
        }
    }

    /// The erase of a unit is complete at `end`.
    fn erased(&mut self, unit: BlockId, end: Instant) {
        if self.is_wide() {
            let at = &mut self.erased_at[self.units.layout().plane_of_block(unit) as usize];
            *at = at.later(end);
            self.units.forget_order(unit);
        }
    }

    /// Forgets what a loss of power takes.
    pub fn restart(&mut self) {
        self.opens_at.fill(Instant::ZERO);
        self.safe_at.fill(Instant::ZERO);
        self.erased_at.fill(Instant::ZERO);
        self.early.clear();
        self.units.forget_orders();
    }
}

impl Executor {
    /// Copies a page within its group of planes. A page that stays in its plane and its mode moves in one operation, where its die does
    /// that by itself; one of a unit of several blocks shares operations where it cannot.
    #[inline(never)]
    pub fn copy(&mut self, copying: Copying, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        let Copying { from, to, after, from_slc, is_map, .. } = copying;
        if self.queue.keeps_order() {
            return self.move_later(copying, after, pieces, cx);
        }
        let is_wide = self.stripes.is_wide();
        let units = &self.stripes.units;
        let (a, b) = (units.place(from), units.place(to));
        let plane = units.chips().plane(b);
        let may_be_one = match self.lanes.timing().copyback {
            true => units.chips().plane(a) == plane,
            false => !self.queue.has_lines() && !is_wide,
        };
        let mut waits = self.queue.read_waits(a) || self.queue.program_waits(b);
        if from_slc && !is_wide && !waits {
            return self.fold_page(copying, pieces, cx);
        }
        if !may_be_one || from_slc {
            return self.carry(copying, [Job::MoveRead, Job::MoveProgram], pieces, cx);
        }
        let after = After { at: self.stripes.may_begin(to, is_map, after.at), ..after };
        waits |= is_wide && !self.comes_in_time(after, to, pieces.tally.now);
        if waits {
            return self.move_later(copying, after, pieces, cx);
        }
        self.move_now(Copying { after, ..copying }, pieces, cx)
    }

    /// Moves a page inside its die, which nothing stands before.
    #[inline(always)]
    pub fn move_now(&mut self, copying: Copying, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        let Copying { from, to, oob, after, .. } = copying;
        let (plane, _) = self.stripes.plane_and_page(to);
        let (start, end, die, bus) = self.lanes.move_page(plane, after.at);
        pieces.tally.usage.die += die;
        pieces.tally.usage.bus += bus;
        self.last_change = self.last_change.later(end);
        let (unit, base) = (self.stripes.unit(to), Some(self.stripes.unit(from)));
        self.put(&Program { unit, base, overlay: None, oob, window: Window { start, end } }, cx);
        self.stripes.keep_until(from, end);
        Given::Time(PageTime { end, ..PageTime::done(start) })
    }

    /// A page moves inside its die when nothing stands before it any more.
    fn move_later(&mut self, copying: Copying, after: After, pieces: &Pieces, cx: &mut Cx<'_>) -> Given {
        let Copying { from, to, oob, to_slc, .. } = copying;
        let units = &self.stripes.units;
        let (from, to) = (units.place(from), units.place(to));
        self.count_mode(Job::MoveWithin, to_slc);
        let page = Page { key: oob.key, seq: oob.seq, base: Some(from), slc: to_slc, ..Page::read(to, 0) };
        let order = Order {
            map_at: pieces.tally.now,
            ..order_of(pieces, after, NONE, self.serial_of(Job::MoveProgram))
        };
        let node = self.queue.move_within(&order, page, from);
        if self.settle(cx) { Given::Settled } else { Given::Waits(node) }
    }

    /// Moves a page out of SLC mode, which nothing stands before: read in the one mode, programmed in the other.
    fn fold_page(&mut self, copying: Copying, pieces: &mut Pieces, cx: &mut Cx<'_>) -> Given {
        let Copying { from, to, oob, .. } = copying;
        let (read, reads) = self.sense_in(true, from, pieces.tally.now);
        self.count_mode(Job::MoveRead, true);
        let (plane, page) = self.stripes.plane_and_page(to);
        self.lanes.was_gc(self.stripes.plane_and_page(from).0, reads);
        // No page of the host's is at this position.
        let (time, programs) = self.lanes.program(plane, read.end, self.serial, page + 2 * SLC_POSITION);
        self.lanes.was_gc(plane, programs);
        self.folded(true, reads + programs);
        pieces.tally.usage.die += reads + programs;
        pieces.tally.usage.bus += self.lanes.timing().transfer * 2;
        self.last_change = self.last_change.later(time.end);
        let (unit, base) = (self.stripes.unit(to), Some(self.stripes.unit(from)));
        let window = Window { start: time.start, end: time.end };
        self.put(&Program { unit, base, overlay: None, oob, window }, cx);
        self.stripes.keep_until(from, time.end);
        Given::Time(time)
    }

    /// Reads a page and programs it elsewhere, each when nothing stands before it.
    pub fn carry(
        &mut self,
        copying: Copying,
        [reads, programs]: [Job; 2],
        pieces: &mut Pieces,
        cx: &mut Cx<'_>,
    ) -> Given {
        let Copying { from, from_slc, after, .. } = copying;
        let read = self.read(Reading::of_moved(reads, from, from_slc, after), pieces, cx);
        let after = self.behind(read, pieces);
        let programming = Programming::of_moved(programs, &copying, read, after, After::at(pieces.tally.now));
        self.program(programming, pieces, cx)
    }

    /// Erases the blocks of a unit when nothing stands before it: the newer versions of its pages are complete, and for one with data also the
    /// records of trims.
    pub fn erase(&mut self, erasing: Erasing, cx: &mut Cx<'_>) {
        let erased = self.give_erase(erasing, cx);
        self.stripes.safe_at[erasing.unit.0 as usize] = erased;
    }

    /// The same; returns when the last is erased, or now if it waits.
    fn give_erase(&mut self, erasing: Erasing, cx: &mut Cx<'_>) -> Instant {
        let Erasing { unit, mut after, is_slc, work, .. } = erasing;
        let mut is_early = self.planted.erase_too_early;
        if is_slc {
            self.modes.iter_mut().for_each(|modes| modes.blocks_folded += 1);
            if self.planted.fold_erased_early {
                (after.at, is_early) = (cx.now, true);
            }
        }
        if is_early {
            after.at = cx.now;
        } else {
            let safe = after.at.later(self.stripes.safe_at[unit.0 as usize]);
            let chips = self.stripes.members(unit);
            after.at = chips.fold(safe, |at, (block, _)| at.later(self.queue.safe_at(block)));
            // A record of a flush may still be on its way on another die: until it is complete, an erase could leave an
            // older version of a trimmed page as the newest.
            if work == Work::Gc && !self.queue.erase_before_record {
                after.at = after.at.later(self.recorded_at);
            }
        }
        let keeps_order = self.queue.keeps_order();
        if self.queue.holds_back() || after.at > cx.now || after.node != NONE || keeps_order {
            let comes = |die| after.at <= cx.now || after.at <= self.lanes.free_at(die);
            let waits = |(block, die)| self.queue.erase_waits(block) || !comes(die);
            if after.node != NONE || keeps_order || self.stripes.members(unit).any(waits) {
                self.erase_later(Erasing { after, ..erasing }, cx);
                return cx.now;
            }
            self.stripes.members(unit).for_each(|(block, _)| self.queue.forget_safe_at(block));
        }
        self.erase_now(Erasing { after, ..erasing }, cx)
    }

    fn erase_now(&mut self, erasing: Erasing, cx: &mut Cx<'_>) -> Instant {
        let Erasing { unit, after, is_slc, cause, work } = erasing;
        let width = self.stripes.units.width();
        let pages = u64::from(self.stripes.units.chips().pages);
        let group = self.stripes.units.layout().plane_of_block(unit);
        let mut last: Option<(u32, Window)> = None;
        let (mut end, mut die_time) = (cx.now, Span::ZERO);
        for index in 0..width {
            let (member, die) = match width {
                1 => (0, group >> self.stripes.plane_bits),
                _ => self.stripes.by_die[(group * width + index) as usize],
            };
            let window = match last {
                Some((same, window)) if same == die => {
                    self.lanes.erase_along();
                    window
                }
                _ => {
                    if is_slc {
                        self.lanes.switch_mode();
                    }
                    let (start, end) = self.lanes.erase(die, cx.now, after.at);
                    if is_slc {
                        self.lanes.switch_mode();
                    }
                    die_time += end.since(start);
                    Window { start, end }
                }
            };
            last = Some((die, window));
            end = end.later(window.end);
            if let Some(medium) = cx.medium.as_deref_mut() {
                let units = &self.stripes.units;
                let first = units.chips().first_page(units.block(unit, member));
                medium.erase(u64::from(first.0), pages, window);
            }
        }
        self.last_change = self.last_change.later(end);
        Usage { die: die_time, ..Usage::default() }.charge(cx, cause, work);
        self.stripes.erased(unit, end);
        end
    }

    fn erase_later(&mut self, erasing: Erasing, cx: &mut Cx<'_>) {
        let Erasing { unit, after, is_slc, cause, work } = erasing;
        let now = cx.now;
        let order = Order { now, after, map_at: now, work, cause, answer: NONE, serial: 0 };
        let units = &self.stripes.units;
        if self.queue.has_lines() {
            let blocks = (0..units.width()).map(|member| units.block(unit, member));
            self.queue.erase_all(blocks, is_slc, &order);
        } else {
            let members = self.stripes.members(unit).map(|(block, _)| block);
            self.queue.erase_all(members, is_slc, &order);
        }
        self.stripes.erased(unit, Instant::ZERO);
        self.settle(cx);
    }
}
