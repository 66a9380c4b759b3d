//! Units of several blocks on the flash: where their pages lie, moving pages between planes, and erasing.
//!
//! The rest of the drive sees units as if they were blocks ([`nandu_ftl::Units`]). What is different on the flash:
//!
//! - *Moves.* A page may move to another plane: it is read where it is, crosses both channels, and is programmed there. Pages that
//!   move at once share an operation where they are at one height of one die, as pages of a request do.
//! - *Erases.* All blocks of a unit are erased together, the planes of a die in one operation; with the arbiter `queued` the blocks of a
//!   die go one after another, when nothing is left to wait for in any of them.
//! - *Opening.* A unit that is opened waits until every erase of its group that was begun before is complete. Its dies would not wait for
//!   each other: a power cut could find the last erased unit used up, and the unit that was to replace it still full.
//!
//! With units of one block all of this is what a die does by itself. RAM: 8 bytes per unit.

use super::Ssd;
use super::host::Usage;
use nandu_base::{Cx, Instant, Span, TenantId, Window, Work};
use nandu_ftl::blocks::Content;
use nandu_ftl::gc::GcPolicy;
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

    /// A unit was opened.
    #[inline]
    pub fn opened(&mut self, unit: BlockId) {
        if self.is_wide() {
            let group = self.units.layout().plane_of_block(unit);
            self.opens_at[unit.0 as usize] = self.erased_at[group as usize];
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
        self.units.forget_orders();
    }
}

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Copies a page within its group of planes; returns when it is programmed.
    #[inline(always)]
    pub(super) fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        content: Content,
        usage: &mut Usage,
        now: Instant,
    ) -> Window {
        let (start, end, die, bus) = if !self.moves_within {
            self.copy_otherwise(from, to, content, now)
        } else {
            self.lanes.move_page(self.blocks.layout().plane(to), now)
        };
        usage.die += die;
        usage.bus += bus;
        Window { start, end }
    }

    /// The same between planes, or out of SLC mode. Returns the window, and the time of dies and channels.
    #[inline(never)]
    fn copy_otherwise(
        &mut self,
        from: Ppn,
        to: Ppn,
        content: Content,
        now: Instant,
    ) -> (Instant, Instant, Span, Span) {
        if self.stripes.is_wide() {
            let earliest = self.stripes.may_begin(to, content, now);
            let (from, to) = (self.stripes.plane_and_page(from), self.stripes.plane_and_page(to));
            return self.lanes.move_between(from, to, (now, earliest), self.serial);
        }
        if self.is_slc(from) {
            return self.fold_page(from, to, now);
        }
        self.lanes.move_page(self.blocks.layout().plane(to), now)
    }

    /// Erases the blocks of a unit, none before `earliest`; returns when the last is erased.
    pub(super) fn erase_blocks(
        &mut self,
        unit: BlockId,
        earliest: Instant,
        cause: TenantId,
        work: Work,
        cx: &mut Cx<'_>,
    ) -> Instant {
        let is_slc = self.slc.is_some() && self.blocks.is_slc(unit);
        let earliest = if is_slc { self.fold_erased(earliest, cx.now) } else { earliest };
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

    /// The same with the arbiter `queued`.
    pub(super) fn erase_later(&mut self, unit: BlockId, cause: TenantId, cx: &Cx<'_>) {
        let slc = self.slc.is_some() && self.blocks.is_slc(unit);
        if slc {
            self.fold_erased(cx.now, cx.now);
        }
        let units = &self.stripes.units;
        let blocks = (0..units.width()).map(|member| units.block(unit, member));
        self.queue.erase_all(blocks, slc, cx.now, cause);
        self.stripes.erased(unit, Instant::ZERO);
    }
}
