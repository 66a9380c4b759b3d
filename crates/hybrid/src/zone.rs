//! What a collection collects: the cold zone, its batches, and which of their pages go where.

use crate::gc::{Pass, ROW_MAX, Stage};
use crate::machine::Hybrid;
use crate::map::Where;
use crate::policy::demotion::{LEVELS, level};

impl Hybrid {
    /// Whether current has reached end; above a disk that rests, whether it has gone far beyond.
    pub(crate) fn should_collect(&self, r: usize) -> bool {
        let ring = &self.rings[r];
        if ring.used < 2 {
            return false;
        }
        let usable = ring.shape.usable();
        if self.policy.spin_aware && self.is_lowest(r) {
            let late = ring.free() <= 3;
            let early = ring.used >= usable - (ring.shape.units / 16).min(usable / 2);
            return late || (!self.disk_stands && early);
        }
        ring.used >= usable
    }

    pub(crate) fn begin_zone(&mut self, r: usize) {
        let ring = &self.rings[r];
        let c = &mut self.collectors[r];
        c.zone_left = ring.shape.cold.min(ring.used - 1);
        let room = ring.shape.reserve / 2 * ring.shape.unit_pages;
        c.budget = self.demotion.budget(c.zone_left * ring.shape.unit_pages, room);
        self.begin_batch(r);
    }

    pub(crate) fn begin_batch(&mut self, r: usize) {
        let ring = &self.rings[r];
        let mut batch = self.collectors[r].zone_left.min(ring.used - 1);
        if let Some(lower) = self.rings.get(r + 1) {
            batch = batch.min((lower.shape.slots() / 4 / ring.shape.unit_pages).max(1));
            let newest = if lower.used > 0 { lower.units[lower.newest() as usize].use_number } else { 0 };
            self.collectors[r].floor = newest.max(1);
        }
        if r > 0 && self.collectors[r - 1].stage != Stage::Idle {
            let floor = self.collectors[r - 1].floor;
            let is_old = |&n: &u32| {
                let unit = &ring.units[ring.nth(n) as usize];
                unit.use_number < floor
            };
            batch = (0..batch).take_while(is_old).count() as u32;
        }
        let c = &mut self.collectors[r];
        if batch == 0 {
            c.stage = Stage::Idle;
            return;
        }
        (c.stage, c.pass, c.batch, c.at) = (Stage::Gather, Pass::Rewrite, batch, 0);
        let counts = if self.demotion.sorts() { self.levels(r) } else { [0; LEVELS] };
        let c = &mut self.collectors[r];
        c.least = self.demotion.least(&counts, c.budget);
        self.made_progress = true;
    }

    /// The valid pages of the batch by level.
    fn levels(&self, r: usize) -> [u32; LEVELS] {
        let (ring, mut counts) = (&self.rings[r], [0; LEVELS]);
        for n in 0..self.collectors[r].batch {
            let first = ring.shape.slot(ring.nth(n), 0);
            for slot in (first..first + ring.shape.unit_pages).filter(|&slot| self.map.is_live(slot)) {
                counts[level(self.map.uses(slot))] += 1;
            }
        }
        counts
    }

    /// Live slots of the batch from where the last look ended; with `hot` those that stay in the ring.
    pub(crate) fn find_slots(&mut self, r: usize, hot: bool) -> bool {
        let shape = self.rings[r].shape;
        if hot && (self.collectors[r].budget == 0 || self.rings[r].free() <= 2) {
            return false;
        }
        let end = self.collectors[r].batch * shape.unit_pages;
        while self.collectors[r].at < end && (self.collectors[r].slots.len() as u32) < shape.group_max {
            let c = &mut self.collectors[r];
            if hot && c.budget == 0 {
                break;
            }
            let slot = shape.slot(self.rings[r].nth(c.at / shape.unit_pages), c.at % shape.unit_pages);
            c.at += 1;
            if !self.map.is_live(slot)
                || (hot && self.map.uses(slot) < c.least)
                || (!hot && self.is_below(r, slot))
            {
                continue;
            }
            let c = &mut self.collectors[r];
            c.slots.push(slot);
            c.budget -= u32::from(hot);
        }
        !self.collectors[r].slots.is_empty()
    }

    pub(crate) fn find_marks(&mut self, r: usize) -> bool {
        let ring = &self.rings[r];
        let c = &mut self.collectors[r];
        for n in 0..c.batch {
            let unit = ring.nth(n);
            let whole = ring.shape.unit_base + unit;
            let marks = ring.units[unit as usize].marks.iter().map(|&page| (page, whole));
            c.marks.extend(marks.filter(|&(page, unit)| self.map.find(page) == Where::Marked(unit)));
        }
        !c.marks.is_empty()
    }

    /// Dirty pages of the batch, in the order of the disk.
    pub(crate) fn list_dirty(&mut self, r: usize) {
        let ring = &self.rings[r];
        let (shape, c) = (ring.shape, &mut self.collectors[r]);
        c.list.clear();
        c.list_at = 0;
        let drops = self.planted.drops_dirty;
        for n in 0..c.batch {
            let first = shape.slot(ring.nth(n), 0);
            for slot in first..first + shape.unit_pages {
                if self.map.is_live(slot) && self.map.is_dirty(slot) && !drops {
                    c.list.push((self.map.page(slot), slot));
                }
            }
        }
        c.list.sort_unstable();
    }

    /// The next row of the list: pages that follow each other on the disk and are still live.
    pub(crate) fn find_row(&mut self, r: usize) -> bool {
        let most = ROW_MAX.min((self.policy.disk_max / self.page) as usize);
        let c = &mut self.collectors[r];
        while c.list.get(c.list_at).is_some_and(|&(_, slot)| !self.map.is_live(slot)) {
            c.list_at += 1;
        }
        let Some(&(first, _)) = c.list.get(c.list_at) else { return false };
        let row = c.list[c.list_at..].iter().take(most).zip(first..);
        c.slots.extend(
            row.take_while(|((page, slot), want)| page == want && self.map.is_live(*slot))
                .map(|((_, s), _)| *s),
        );
        true
    }
}
