//! A ring of erase units on one child: where its four points are, and which units are in use.
//!
//! The paper's points, counted in units: *start* is the oldest unit in use, *current* the page that is written next, *end*
//! lies so that the reserve stays free behind it, and *hot* divides start to end into the cold zone (which is collected
//! next) and the hot one. Units are taken and given back in the order of the ring, so the units in use are one row.
//!
//! Unit 0 of the child holds the superblocks, and unit 1 too where units are erased; unit `i` of the ring lies behind.

use crate::record::Sealed;
use nandu_base::{ByteOffset, Ratio};

/// One unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// Number of its use; 0 when it was never begun.
    pub use_number: u64,
    /// Number of its first group.
    pub first: u64,
    /// Pages used, counted from its start.
    pub filled: u32,
    /// Reads under way.
    pub pins: u32,
    /// Known to be erased.
    pub erased: bool,
    /// Pages whose marks are here. Some may be out of date.
    pub marks: Vec<u32>,
}

/// What a ring is like; never changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub child: u8,
    pub page: u64,
    pub unit_pages: u32,
    pub units: u32,
    /// Units before the ring, for superblocks.
    pub lead: u32,
    /// The first slot and the first unit, in the numbers of all rings.
    pub slot_base: u32,
    pub unit_base: u32,
    /// Units are erased by `reset`.
    pub resets: bool,
    /// Pages of a unit are programmed in order.
    pub ordered: bool,
    /// What was written may be lost without a flush.
    pub volatile: bool,
    /// Units behind the end.
    pub reserve: u32,
    /// Units from start to hot.
    pub cold: u32,
    /// Most pages in a group.
    pub group_max: u32,
}

impl Shape {
    /// Units from start to end.
    pub fn usable(&self) -> u32 {
        self.units - self.reserve
    }

    pub fn slots(&self) -> u32 {
        self.units * self.unit_pages
    }

    pub fn slot(&self, unit: u32, page: u32) -> u32 {
        self.slot_base + unit * self.unit_pages + page
    }

    pub fn unit_of(&self, slot: u32) -> u32 {
        (slot - self.slot_base) / self.unit_pages
    }

    /// Where a page of a unit is on the child.
    pub fn offset(&self, unit: u32, page: u32) -> ByteOffset {
        ByteOffset((u64::from(unit + self.lead) * u64::from(self.unit_pages) + u64::from(page)) * self.page)
    }

    pub fn offset_of(&self, slot: u32) -> ByteOffset {
        let at = slot - self.slot_base;
        self.offset(at / self.unit_pages, at % self.unit_pages)
    }

    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_pages) * self.page
    }
}

/// Units of the reserve for a share: at least the three without which a collection could come to a standstill.
pub(crate) fn reserve_units(units: u32, share: Ratio) -> u32 {
    let exact = (u64::from(units) * share.num).div_ceil(share.den);
    (exact as u32).clamp(3, units / 2)
}

/// Units of the cold zone.
pub(crate) fn cold_units(usable: u32, share: Ratio) -> u32 {
    (share.of(u64::from(usable)) as u32).clamp(1, usable - 1)
}

/// The row of units.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub shape: Shape,
    pub units: Vec<Unit>,
    /// The oldest unit in use.
    pub start: u32,
    /// Units in use.
    pub used: u32,
    /// The newest unit takes more pages.
    pub is_open: bool,
    pub next_use: u64,
    pub next_group: u64,
    /// Groups up to this one are durable.
    pub durable: u64,
    /// The newest group that says more than that others are durable.
    pub last_content: u64,
    /// Groups up to this one are durable, and so is a header that says so.
    pub proven: u64,
    /// Headers that say so of the newest group with content.
    pub witnesses: u32,
}

impl Ring {
    pub fn new(shape: Shape) -> Ring {
        Ring {
            units: vec![Unit::default(); shape.units as usize],
            start: 0,
            used: 0,
            is_open: false,
            next_use: 1,
            next_group: 1,
            durable: 0,
            last_content: 0,
            proven: 0,
            witnesses: 0,
            shape,
        }
    }

    /// The unit `n` places behind the start.
    pub fn nth(&self, n: u32) -> u32 {
        (self.start + n) % self.shape.units
    }

    /// The newest unit in use.
    pub fn newest(&self) -> u32 {
        self.nth(self.used - 1)
    }

    pub fn free(&self) -> u32 {
        self.shape.units - self.used
    }

    pub fn is_used(&self, unit: u32) -> bool {
        (unit + self.shape.units - self.start) % self.shape.units < self.used
    }

    /// Pages that the open unit takes yet.
    pub fn room(&self) -> u32 {
        if self.is_open { self.shape.unit_pages - self.units[self.newest() as usize].filled } else { 0 }
    }

    /// The unit that is begun next.
    pub fn next_unit(&self) -> u32 {
        self.nth(self.used)
    }

    /// Begins the next unit, which is erased.
    pub fn begin(&mut self) {
        let at = self.next_unit() as usize;
        assert!(self.used < self.shape.units && self.units[at].erased, "I-12: the ring runs into its start");
        let first = self.next_group;
        self.units[at] = Unit { use_number: self.next_use, first, ..Unit::default() };
        self.next_use += 1;
        self.used += 1;
        self.is_open = true;
    }

    /// The oldest unit is erased.
    pub fn retire(&mut self) {
        let at = self.start as usize;
        self.units[at] = Unit { erased: true, ..Unit::default() };
        self.start = self.nth(1);
        self.used -= 1;
    }

    /// Whether everything written is durable and known to be.
    pub fn is_proven(&self) -> bool {
        self.last_content <= self.proven
    }

    /// What it holds after a clean end: of what a collection had begun to move copies may stand behind what is proven.
    pub fn sealed(&self) -> Sealed {
        // A unit without a header, as a salvage leaves it, holds nothing.
        let units = (0..self.used).map(|n| &self.units[self.nth(n) as usize]);
        let first = units.filter(|unit| unit.use_number > 0).map(|unit| unit.first).min();
        Sealed { first: first.unwrap_or(self.next_group), last: self.last_content.min(self.proven) }
    }

    /// Whether two headers say so.
    pub fn is_sealed(&self) -> bool {
        self.last_content == 0 || self.witnesses > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn shape(units: u32) -> Shape {
        let reserve = reserve_units(units, Ratio::new(1, 10));
        Shape {
            child: 0,
            page: 4096,
            unit_pages: 16,
            units,
            lead: 1,
            slot_base: 0,
            unit_base: 0,
            resets: false,
            ordered: false,
            volatile: false,
            reserve,
            cold: cold_units(units - reserve, Ratio::new(3, 10)),
            group_max: 8,
        }
    }

    #[test]
    fn the_points_of_the_paper() {
        let s = shape(100);
        assert_eq!((s.usable(), s.cold), (90, 27), "a tenth is free, and start..end is divided 3:7");
        assert_eq!(cold_units(90, Ratio::new(4, 10)), 36);
        assert_eq!(s.offset(0, 0), ByteOffset(16 * 4096), "unit 0 of the child is the superblock's");
    }

    #[test]
    fn units_come_and_go_in_the_order_of_the_ring() {
        let mut ring = Ring::new(shape(8));
        for unit in &mut ring.units {
            unit.erased = true;
        }
        for turn in 0..30 {
            let at = ring.next_unit();
            assert_eq!(at, turn % 8);
            ring.begin();
            if ring.used == 5 {
                assert!(ring.is_used(ring.start) && ring.is_used(ring.newest()));
                ring.retire();
            }
        }
        assert_eq!((ring.used, ring.free()), (4, 4));
    }

    /// A salvage leaves units whose headers are gone: what stands in the others is on record all the same at a clean end.
    #[test]
    fn a_unit_without_a_header_does_not_hide_what_the_others_hold() {
        let mut ring = Ring::new(shape(8));
        (ring.start, ring.used) = (1, 3);
        ring.units[1] = Unit { use_number: 4, first: 9, ..Unit::default() };
        ring.units[3] = Unit { use_number: 6, first: 17, ..Unit::default() };
        (ring.last_content, ring.proven, ring.next_group) = (20, 20, 21);
        let Sealed { first, last } = ring.sealed();
        assert_eq!((first, last), (9, 20));
    }
}
