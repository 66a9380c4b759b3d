//! Units of several blocks on the flash: where their pages lie, moving pages between planes, and erasing.
//!
//! The rest of the drive sees units as if they were blocks ([`nandu_ftl::Units`]). What is different on the flash:
//!
//! - *Moves.* A page may move to another plane: it is read where it is, crosses both channels, and is programmed there. Pages that
//!   move at once share an operation where they are at one height of one die, as pages of a request do.
//! - *Erases.* All blocks of a unit are erased together, when nothing is left to wait for in any of them: the planes of a die in one
//!   operation, with the die scheduler `out-of-order` one after another.
//! - *Opening.* A unit that is opened waits until every erase of its group that was begun before is complete. Its dies would not wait for
//!   each other: a power cut could find the last erased unit used up, and the unit that was to replace it still full.
//!
//! With units of one block all of this is what a die does by itself. RAM: 8 bytes per unit.

use super::Ssd;
use super::host::Usage;
use crate::nand::PageTime;
use crate::nand::queued::{After, Job, NONE, Order, Page};
use nandu_base::{Cx, Instant, Span, TenantId, Window, Work};
use nandu_ftl::blocks::Content;
use nandu_ftl::mapping::Mapping;
use nandu_ftl::{BlockId, Ppn, Units};
use std::ops::Range;

/// Where the blocks of units are, and since when they may be written.
#[derive(Clone, Debug)]
pub(super) struct Stripes {
    pub units: Units,
    /// log2 of the planes of a die.
    plane_bits: u32,
    /// Members of a unit, those of one die next to each other, and the die of each, group after group.
    by_die: Vec<(u32, u32)>,
    /// When an open unit may be programmed.
    opens_at: Vec<Instant>,
    /// When all erases of a group so far are complete.
    erased_at: Vec<Instant>,
    /// Units that were opened while an erase of their group waits.
    early: Vec<BlockId>,
}

/// A page that is written once more, elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Carried {
    pub from: Ppn,
    pub to: Ppn,
    pub content: Content,
    /// What the read of it waits for.
    pub after: After,
    pub cause: TenantId,
    pub work: Work,
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
        let (blocks, groups) = if width > 1 { (layout.block_end(), layout.planes) } else { (0, 0) };
        Stripes {
            units,
            plane_bits,
            by_die,
            opens_at: vec![Instant::ZERO; blocks as usize],
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
    pub fn may_begin(&self, ppn: Ppn, content: Content, ready: Instant) -> Instant {
        if !self.is_wide() {
            return ready;
        }
        let layout = self.units.layout();
        match content {
            Content::Map(_) => ready.later(self.erased_at[layout.plane(ppn) as usize]),
            _ => ready.later(self.opens_at[layout.block(ppn).0 as usize]),
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
        self.erased_at.fill(Instant::ZERO);
        self.early.clear();
        self.units.forget_orders();
    }
}

impl<M: Mapping> Ssd<M> {
    /// Copies a page within its group of planes; returns when it is programmed, if that is known.
    #[inline(always)]
    pub(super) fn copy(&mut self, carried: Carried, usage: &mut Usage, cx: &mut Cx<'_>) -> Instant {
        if !self.moves_within || self.queue.holds_back() {
            return self.copy_otherwise(carried, usage, cx);
        }
        let Carried { from, to, content, .. } = carried;
        let moved = self.lanes.move_page(self.blocks.layout().plane(to), cx.now);
        self.copied((from, to), content, moved, usage, cx)
    }

    /// Notes a copy that has its time.
    #[inline(always)]
    fn copied(
        &mut self,
        (from, to): (Ppn, Ppn),
        content: Content,
        (start, end, die, bus): (Instant, Instant, Span, Span),
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> Instant {
        usage.die += die;
        usage.bus += bus;
        self.seq += 1;
        self.last_change = self.last_change.later(end);
        self.blocks.programmed(to, content);
        self.store_moved(from, to, content, Window { start, end }, cx);
        end
    }

    /// The same between planes, out of SLC mode, or behind operations that wait. A page that stays in its plane and its mode moves in
    /// one operation, where its die does that by itself; one of a unit of several blocks shares operations where it cannot.
    #[inline(never)]
    fn copy_otherwise(&mut self, mut carried: Carried, usage: &mut Usage, cx: &mut Cx<'_>) -> Instant {
        let Carried { from, to, content, after, .. } = carried;
        let (is_wide, is_fold) = (self.stripes.is_wide(), self.is_slc(from));
        let units = &self.stripes.units;
        let (a, b) = (units.place(from), units.place(to));
        let plane = units.chips().plane(b);
        let may_be_one = match self.lanes.timing().copyback {
            true => units.chips().plane(a) == plane,
            false => !self.queue.has_lines() && !is_wide,
        };
        let mut waits = self.queue.read_waits(a) || self.queue.program_waits(b);
        if !may_be_one || is_fold {
            if is_fold && !is_wide && !waits {
                let moved = self.fold_page(from, to, cx.now);
                return self.copied((from, to), content, moved, usage, cx);
            }
            return self.carry(carried, [Job::MoveRead, Job::MoveProgram], usage, cx);
        }
        carried.after = After { at: self.stripes.may_begin(to, content, after.at), ..after };
        waits |= is_wide && !self.comes_in_time(carried.after, to, cx.now);
        if waits {
            return self.move_later(carried, cx);
        }
        let moved = self.lanes.move_page(plane, carried.after.at);
        self.copied((from, to), content, moved, usage, cx)
    }

    fn order_of(&self, carried: &Carried, after: After, cx: &Cx<'_>) -> Order {
        let Carried { cause, work, .. } = *carried;
        // In lines, pages that move share no operation.
        let serial = if self.queue.has_lines() { 0 } else { self.serial };
        Order { now: cx.now, after, map_at: cx.now, work, cause, answer: NONE, serial }
    }

    /// The page that a copy programs.
    fn copy_of(&mut self, carried: &Carried) -> Page {
        let Carried { from, to, content, .. } = *carried;
        self.seq += 1;
        self.blocks.programmed(to, content);
        // Where a tenant writes its pages anew they come into its cache, as the host's do.
        let slc = self.mode_of(to, Job::Gathered);
        let key = super::recover::key(content) | self.mode_mark(to);
        let units = &self.stripes.units;
        Page { key, seq: self.seq, base: Some(units.place(from)), slc, ..Page::read(units.place(to), 0) }
    }

    /// A page moves inside its die when nothing stands before it any more.
    fn move_later(&mut self, carried: Carried, cx: &mut Cx<'_>) -> Instant {
        let page = self.copy_of(&carried);
        let order = self.order_of(&carried, carried.after, cx);
        let from = self.stripes.units.place(carried.from);
        self.queue.move_within(&order, page, from);
        self.settle_if_alone(cx);
        Instant::ZERO
    }

    /// Reads a page and programs it elsewhere, each when nothing stands before it; returns when that is complete, if it is known.
    pub(super) fn carry(
        &mut self,
        carried: Carried,
        [reads, programs]: [Job; 2],
        usage: &mut Usage,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let Carried { from, to, content, after, .. } = carried;
        let (a, b) = (self.stripes.units.place(from), self.stripes.units.place(to));
        let ready = if !self.queue.read_waits(a) && self.comes_in_time(after, from, cx.now) {
            let mut reading = Usage::default();
            let time = self.sense_in_mode(from, after.at, &mut reading);
            if reads.is_gc() {
                self.lanes.was_gc(self.stripes.plane_and_page(from).0, reading.die);
                self.note_folded_read(from, reading.die);
            }
            usage.die += reading.die;
            usage.bus += reading.bus;
            After::at(time.end)
        } else {
            let slc = self.mode_of(from, reads);
            let order = self.order_of(&carried, after, cx);
            After::node(self.queue.read(reads, &order, Page { slc, ..Page::read(a, 0) }), cx.now)
        };
        let ready = After { at: self.stripes.may_begin(to, content, ready.at), ..ready };
        if !self.queue.program_waits(b) && self.comes_in_time(ready, to, cx.now) {
            let (plane, page) = self.stripes.plane_and_page(to);
            let (PageTime { start, end, .. }, die) = match self.is_slc(to) {
                true => self.program_in_slc(to, ready.at),
                false => self.lanes.program(plane, ready.at, self.serial, page),
            };
            if programs.is_gc() {
                self.lanes.was_gc(plane, die);
                self.note_folded(from, die);
            }
            let bus = self.lanes.timing().transfer;
            return self.copied((from, to), content, (start, end, die, bus), usage, cx);
        }
        let page = self.copy_of(&carried);
        let order = self.order_of(&carried, ready, cx);
        self.queue.program(programs, &order, page, NONE, Some(a));
        self.settle_if_alone(cx);
        Instant::ZERO
    }

    /// Erases the blocks of a unit behind `after` when nothing stands before it; returns when the last is erased, or now if it
    /// waits.
    pub(super) fn erase_blocks(
        &mut self,
        unit: BlockId,
        after: After,
        cause: TenantId,
        work: Work,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let is_slc = self.slc.is_some() && self.blocks.is_slc(unit);
        let mut after = after;
        if is_slc {
            after.at = self.fold_erased(after.at, cx.now);
        }
        if !(self.planted.erase_too_early || is_slc && self.erases_folded_early()) {
            let chips = self.stripes.members(unit);
            after.at = chips.fold(after.at, |at, (block, _)| at.later(self.queue.safe_at(block)));
        }
        if self.queue.holds_back() || after.at > cx.now || after.node != NONE {
            let comes = |die| after.at <= cx.now || after.at <= self.lanes.free_at(die);
            let waits = |(block, die)| self.queue.erase_waits(block) || !comes(die);
            if after.node != NONE || self.stripes.members(unit).any(waits) {
                self.erase_later(unit, after, is_slc, (cause, work), cx);
                return cx.now;
            }
            self.stripes.members(unit).for_each(|(block, _)| self.queue.forget_safe_at(block));
        }
        self.erase_now(unit, after.at, is_slc, (cause, work), cx)
    }

    fn erase_now(
        &mut self,
        unit: BlockId,
        earliest: Instant,
        is_slc: bool,
        (cause, work): (TenantId, Work),
        cx: &mut Cx<'_>,
    ) -> Instant {
        let width = self.stripes.units.width();
        let pages = u64::from(self.stripes.units.chips().pages);
        let group = self.blocks.layout().plane_of_block(unit);
        let mut last: Option<(u32, Window)> = None;
        let (mut end, mut die_time) = (cx.now, Span::ZERO);
        for index in 0..width {
            let (member, die) = match width {
                1 => (0, group >> self.host.plane_bits),
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
                    let (start, end) = self.lanes.erase(die, cx.now, earliest);
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

    fn erase_later(
        &mut self,
        unit: BlockId,
        after: After,
        slc: bool,
        (cause, work): (TenantId, Work),
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now;
        let order = Order { now, after, map_at: now, work, cause, answer: NONE, serial: 0 };
        let units = &self.stripes.units;
        if self.queue.has_lines() {
            let blocks = (0..units.width()).map(|member| units.block(unit, member));
            self.queue.erase_all(blocks, slc, &order);
        } else {
            let members = self.stripes.members(unit).map(|(block, _)| block);
            self.queue.erase_all(members, slc, &order);
        }
        self.stripes.erased(unit, Instant::ZERO);
        self.settle_if_alone(cx);
    }
}
