//! Whether the copy below stays when a page is copied up (O4-2).
//!
//! *Exclusive*, the default: the page is in the top ring alone, and goes down as a new copy. *Inclusive*: its slot in the lower
//! ring is remembered. When the page goes down unchanged and the slot still holds it, that slot is the page's again, and
//! nothing is written. After a start no slot is remembered.
//!
//! The older copy may be erased only after the newer one above it (the rule of `gc`: a page and its older copies never
//! part). So from then on the lower ring keeps the unit until the batch above is erased. That must leave it room for what
//! else comes down: a slot is taken up again only where the units older than its own, once erased, hold the whole batch in the worst case, a
//! header for every page.
//!
//! Cost: 4 bytes for each slot of the top ring.

use crate::append::KEPT;
use crate::gc::Stage;
use crate::machine::Hybrid;
use crate::map::Where;

const NONE: u32 = u32::MAX;

/// For each slot of the top ring the slot below that holds the same data.
#[derive(Debug, Default)]
pub(crate) struct Below {
    slot: Vec<u32>,
    /// Planted: a slot is remembered though the page was changed.
    forgets_changes: bool,
}

impl Below {
    /// For a top ring of `slots`, or none where tiers are exclusive.
    pub fn new(slots: usize, forgets_changes: bool) -> Below {
        Below { slot: vec![NONE; slots], forgets_changes }
    }

    fn put(&mut self, above: u32, below: u32) {
        self.slot[above as usize] = below;
    }
}

impl Hybrid {
    fn is_inclusive(&self) -> bool {
        !self.below.slot.is_empty()
    }

    /// A page gets the slot `to` in the top ring; it was at `at`, and `is_same` says whether its data is what is there.
    pub(crate) fn remember_below(&mut self, to: u32, at: Where, is_same: bool) {
        if !self.is_inclusive() || self.ring_of_slot(to) != 0 {
            return;
        }
        let below = match at {
            Where::Slot(slot) if self.ring_of_slot(slot) > 0 && (is_same || self.below.forgets_changes) => {
                slot
            }
            _ => NONE,
        };
        self.below.put(to, below);
    }

    /// A page moves within the top ring, from slot `old` to slot `new`.
    pub(crate) fn carry_below(&mut self, old: u32, new: u32) {
        if self.is_inclusive() && self.ring_of_slot(new) == 0 && self.ring_of_slot(old) == 0 {
            let below = self.below.slot[old as usize];
            self.below.put(new, below);
        }
    }

    /// The page of `slot`, which is to go down: whether it is below already, and is looked for there from now on.
    pub(crate) fn is_below(&mut self, r: usize, slot: u32) -> bool {
        if r > 0 || !self.is_inclusive() {
            return false;
        }
        let below = self.below.slot[slot as usize];
        if below == NONE || self.map.page(below) != self.map.page(slot) || !self.may_keep(below) {
            return false;
        }
        if self.map.is_dirty(slot) {
            self.map.soil(below);
        }
        self.map.put(self.map.page(slot), Where::Slot(below));
        let unit = self.rings[1].shape.unit_of(below) as usize;
        let floor = self.rings[1].units[unit].use_number;
        self.collectors[0].lower_floor(floor);
        self.count.kept_below += 1;
        true
    }

    /// Whether the lower ring can keep the unit of a slot until the batch above is erased.
    fn may_keep(&self, below: u32) -> bool {
        let lower = &self.rings[1];
        let unit = lower.shape.unit_of(below);
        if !lower.is_used(unit) {
            return false;
        }
        let older = (unit + lower.shape.units - lower.start) % lower.shape.units;
        let collector = &self.collectors[1];
        if collector.stage != Stage::Idle && older < collector.batch {
            return false;
        }
        let pages = self.collectors[0].batch * self.rings[0].shape.unit_pages;
        let worst = pages.div_ceil((lower.shape.unit_pages / 2).max(1));
        lower.free() + older > worst + KEPT + 1
    }
}
