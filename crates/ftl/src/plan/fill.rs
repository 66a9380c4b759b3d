//! A drive that was written once: [`Precondition::Filled`] and [`Precondition::Fragmented`].
//!
//! *Filled*: every logical page in order. A large drive is filled by rule ([`crate::filled`]): no page has an entry before it
//! is written again, or, in a map on the flash, one of its translation page is needed; so a drive of 1 TB is ready at once and takes
//! memory for what is touched.
//!
//! *Fragmented by F*: every logical page once, but not in order, so that of the logical neighbours (page `n` and page `n + 1`) the
//! share F does not lie next to each other in the order of programs: then they are on planes and blocks that have
//! nothing to do with each other, and a read that spans them finds what a random read finds. Pages drawn at random, a
//! share `d` of all, change places among themselves; a neighbour pair stays whole when neither was drawn, so
//! `1 - F = (1 - d)^2`. F = 0 is a filled drive, F = 1 one that was written once in random order. This is what a file
//! system leaves behind whose free space is in pieces. It is the state that writing the pages in that order leaves, exactly;
//! no page is invalid. A drive that was *overwritten* at random is `aged`: there collection has moved pages as well.
//!
//! The measure is the one that matters to prefetching on flash (spec W0-1): the share of segments whose pages can no longer be
//! read together.
//!
//! Cost: one pass over the logical pages, for F above 0 four bytes each; by rule, one step for each block.
//!
//! [`Precondition::Filled`]: nandu_base::Precondition::Filled
//! [`Precondition::Fragmented`]: nandu_base::Precondition::Fragmented

use super::{Flash, Planner};
use crate::Lpn;
use crate::blocks::Content;
use crate::filled::{Filled, Initial};
use crate::mapping::Mapping;
use nandu_base::{Cx, Oob, Program, Ratio, Rng, Window};
use std::sync::Arc;

/// The order in which a drive fragmented by `share` was written: logical pages by their turn.
pub fn fragmented(logical: u32, share: Ratio, seed: u64) -> Vec<u32> {
    let drawn = pages_drawn(logical, share);
    let mut order: Vec<u32> = (0..logical).collect();
    let mut rng = Rng::new(seed);
    // The places of the drawn pages, in order: each page is taken with the share that is still wanted.
    let mut places = Vec::with_capacity(drawn as usize);
    for place in 0..logical {
        let left = u64::from(drawn) - places.len() as u64;
        if rng.below(u64::from(logical - place)) < left {
            places.push(place);
        }
    }
    for at in (1..places.len()).rev() {
        let other = rng.below(at as u64 + 1) as usize;
        order.swap(places[at] as usize, places[other] as usize);
    }
    order
}

/// How many pages change places: `logical (1 - sqrt(1 - share))`, rounded to the nearest.
fn pages_drawn(logical: u32, share: Ratio) -> u32 {
    // Few enough bits to be shifted by 64.
    let den = u128::from(share.den) << 32 >> (64 - share.den.leading_zeros());
    let whole = (den * u128::from(share.num) / u128::from(share.den)).min(den);
    // In 2^-32: sqrt(x 2^64) is sqrt(x) 2^32.
    let stay = (((den - whole) << 64) / den).isqrt();
    let drawn = u128::from(logical) * ((1u128 << 32) - stay.min(1 << 32));
    ((drawn + (1 << 31)) >> 32) as u32
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Maps every logical page, as if the drive had been written once from start to end.
    pub fn fill(&mut self) {
        if self.map.log_blocks().is_some() {
            return self.fill_logged();
        }
        if self.tenants.is_some() {
            return self.fill_tenants(|turn| turn);
        }
        if self.host.logical < self.host.by_rule_from || !self.fill_by_rule() {
            self.fill_in(|turn| turn);
        }
    }

    /// The same in an order of its own.
    pub fn fragment(&mut self, share: Ratio, seed: u64) {
        self.fragments = Some((share, seed));
        let order = self.fragmented_order(share, seed);
        match self.tenants {
            None => self.fill_in(|turn| order[turn as usize]),
            Some(_) => self.fill_tenants(|turn| order[turn as usize]),
        }
    }

    /// The order in which it was written; of each tenant's range by itself.
    fn fragmented_order(&self, share: Ratio, seed: u64) -> Vec<u32> {
        let Some(tenants) = self.tenants.as_deref() else {
            return fragmented(self.host.logical, share, seed);
        };
        let mut order: Vec<u32> = (0..self.host.logical).collect();
        for (tenant, part) in (0u64..).zip(tenants.table.parts()) {
            let own = fragmented(part.live, share, seed.wrapping_add(tenant));
            (part.first..).zip(own).for_each(|(turn, page)| order[turn as usize] = part.first + page);
        }
        order
    }

    fn fill_in(&mut self, order: impl Fn(u32) -> u32) {
        let mut turn = 0;
        for number in 0..self.host.logical {
            let lpn = order(number);
            while !self.blocks.planes[self.turns.nth(turn) as usize].has_room() {
                turn += 1;
            }
            let plane = self.turns.nth(turn);
            turn += 1;
            if self.blocks.planes[plane as usize].host.is_full() {
                let cursor = self.blocks.open_free(plane, self.seq + 1);
                self.blocks.planes[plane as usize].host = cursor.expect("the host's pages fit the drive");
            }
            let ppn = self.blocks.planes[plane as usize].host.take();
            self.seq += 1;
            self.map.set(Lpn(lpn), ppn);
            self.blocks.programmed(ppn, Content::Data(Lpn(lpn)));
            self.blocks.planes[plane as usize].valid += 1;
        }
        self.turns.skip_to(turn);
        self.filled_to = self.seq;
        self.fill_map();
    }

    /// Fills the drive without an entry for any page; false, and nothing has changed, where the rule does not hold.
    fn fill_by_rule(&mut self) -> bool {
        let (layout, logical) = (*self.blocks.layout(), self.host.logical);
        let planes = layout.planes;
        // The blocks of the map were taken from the start of each plane.
        let apart = layout.blocks - self.blocks.planes[0].free;
        let is_even = |plane: u32| {
            let first = layout.first_block(plane).behind(apart);
            self.blocks.planes[plane as usize].valid_max >= logical.div_ceil(planes)
                && self.blocks.free_in(plane).zip(first.0..).all(|(free, number)| free.0 == number)
                && self.blocks.planes[plane as usize].free == layout.blocks - apart
        };
        if !(0..planes).all(is_even) {
            return false;
        }
        let order: Vec<u32> = (0..u64::from(planes)).map(|turn| self.turns.nth(turn)).collect();
        let filled: Arc<dyn Initial> = Arc::new(Filled::new(layout, order.clone(), apart, logical));
        if !self.map.begin_as(&filled) {
            return false;
        }
        for (turn, plane) in (0..).zip(order) {
            let pages = (logical - turn.min(logical)).div_ceil(planes);
            for first in (0..pages).step_by(layout.pages as usize) {
                let lpn = first * planes + turn;
                let mut cursor =
                    self.blocks.open_free(plane, u64::from(lpn) + 1).expect("the host's pages fit the drive");
                let at = cursor.skip(layout.pages.min(pages - first));
                assert_eq!(
                    at,
                    filled.place(Lpn(lpn)),
                    "a new drive opens its blocks in the order of their numbers"
                );
                self.blocks.planes[plane as usize].host = cursor;
            }
            self.blocks.planes[plane as usize].valid = pages;
        }
        self.blocks.begin_as(&filled);
        self.seq = u64::from(logical);
        self.turns.skip_to(self.seq);
        self.filled_to = self.seq;
        self.fill_map();
        true
    }

    /// Puts the pages of the first fill on the medium: zeros.
    pub fn store_fill(&mut self, cx: &mut Cx<'_>) {
        if let Some(aged) = self.aged.take() {
            self.store_aged(0, 0, &aged, cx);
            return self.store_map_fill(cx);
        }
        if self.store_aged_tenants(cx) {
            return self.store_map_fill(cx);
        }
        let fragments = self.fragments.take();
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let window = Window::PAST;
        let order = fragments.map(|(share, seed)| self.fragmented_order(share, seed));
        for number in 0..self.host.logical {
            let lpn = order.as_ref().map_or(number, |order| order[number as usize]);
            if let Some(ppn) = self.map.get(Lpn(lpn)) {
                let key = self.map.log_blocks().and_then(|log| log.record(Lpn(lpn)));
                let oob = Oob { key: key.unwrap_or(u64::from(lpn)), seq: u64::from(number) + 1 };
                let program = Program { unit: self.exec.unit(ppn), base: None, overlay: None, oob, window };
                medium.program(cx.pool, &program);
            }
        }
        self.store_map_fill(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1000 neighbour pairs, those that are not next to each other in the order of programs.
    fn broken(order: &[u32]) -> u64 {
        let mut turn = vec![0; order.len()];
        (0..).zip(order).for_each(|(at, &lpn)| turn[lpn as usize] = at);
        let apart = turn.windows(2).filter(|pair: &&[i64]| pair[1] - pair[0] != 1).count() as u64;
        apart * 1000 / (order.len() as u64 - 1)
    }

    #[test]
    fn a_drive_is_as_fragmented_as_it_is_asked_to_be() {
        for (percent, least, most) in
            [(0, 0, 0), (10, 90, 110), (50, 485, 515), (90, 885, 915), (100, 999, 1000)]
        {
            let order = fragmented(100_000, Ratio::new(percent, 100), 7);
            let share = broken(&order);
            assert!((least..=most).contains(&share), "{percent} %: {share} of 1000");
            let mut pages = order;
            pages.sort_unstable();
            assert!((0..).zip(&pages).all(|(n, &lpn)| n == lpn), "every page once");
        }
    }

    #[test]
    fn the_share_of_pages_is_the_root_of_the_share_of_pairs() {
        assert_eq!(pages_drawn(1000, Ratio::new(0, 1)), 0);
        assert_eq!(pages_drawn(1000, Ratio::new(75, 100)), 500);
        assert_eq!(pages_drawn(1000, Ratio::new(19, 100)), 100);
        assert_eq!(pages_drawn(1000, Ratio::new(1, 1)), 1000);
    }
}
