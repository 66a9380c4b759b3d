//! The regions in use: at most `max_dirty_regions` of them, found by a small chained table, the idle ones in order of use.
//!
//! A region is *busy* while a write or copy inside it is under way, then *idle* until its D bit is cleared. Each keeps,
//! for each leg, the number of the leg flush that will cover its last write. RAM: 48 B for each active region, and 8 B for each of its legs.

use nandu_base::Instant;

const NIL: u32 = u32::MAX;

/// One region in use.
#[derive(Clone, Copy, Debug)]
pub struct Active {
    /// Its number.
    pub region: u32,
    /// Writes and copies under way.
    pub busy: u32,
    /// When it became idle.
    pub used: Instant,
    /// The last write before it got its slot.
    pub entered: u64,
    chain: u32,
    older: u32,
    newer: u32,
}

/// All regions in use.
#[derive(Debug)]
pub struct Regions {
    slots: Vec<Active>,
    /// The leg flush that covers the last write, for each slot and leg.
    needs: Vec<u64>,
    legs: usize,
    free: Vec<u32>,
    heads: Vec<u32>,
    shift: u32,
    oldest: u32,
    newest: u32,
    idle: u32,
}

impl Regions {
    /// Room for `most` regions of `legs` legs.
    pub fn new(most: u32, legs: usize) -> Regions {
        let buckets = (most * 2).next_power_of_two();
        let empty = Active {
            region: 0,
            busy: 0,
            used: Instant::ZERO,
            entered: 0,
            chain: NIL,
            older: NIL,
            newer: NIL,
        };
        Regions {
            slots: vec![empty; most as usize],
            needs: vec![0; most as usize * legs],
            legs,
            free: (0..most).rev().collect(),
            heads: vec![NIL; buckets as usize],
            shift: 32 - buckets.trailing_zeros(),
            oldest: NIL,
            newest: NIL,
            idle: 0,
        }
    }

    #[inline]
    fn bucket(&self, region: u32) -> usize {
        (region.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }

    /// The slot of a region in use.
    #[inline]
    pub fn find(&self, region: u32) -> Option<u32> {
        let mut at = self.heads[self.bucket(region)];
        while at != NIL {
            let slot = &self.slots[at as usize];
            if slot.region == region {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }

    /// The region in `slot`.
    #[inline]
    pub fn get(&self, slot: u32) -> &Active {
        &self.slots[slot as usize]
    }

    /// The flush of this leg that covers the last write in the region in `slot`.
    #[inline]
    pub fn need(&self, slot: u32, leg: usize) -> u64 {
        self.needs[slot as usize * self.legs + leg]
    }

    /// From now on it is this one.
    #[inline]
    pub fn set_need(&mut self, slot: u32, leg: usize, need: u64) {
        self.needs[slot as usize * self.legs + leg] = need;
    }

    /// One more leg, of which nothing waits for a flush.
    pub fn add_leg(&mut self) {
        let old = std::mem::take(&mut self.needs);
        self.needs = old.chunks_exact(self.legs).flat_map(|needs| needs.iter().copied().chain([0])).collect();
        self.legs += 1;
    }

    /// Slots that are free.
    pub fn room(&self) -> u32 {
        self.free.len() as u32
    }

    /// Regions in use.
    pub fn in_use(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Regions in use that nothing happens in.
    pub fn idle(&self) -> u32 {
        self.idle
    }

    /// One more write or copy in `region`, which gets a slot if it has none; `version` writes were issued before. The caller has checked that there is room.
    pub fn enter(&mut self, region: u32, version: u64) {
        let at = match self.find(region) {
            Some(at) => {
                if self.slots[at as usize].busy == 0 {
                    self.unlink(at);
                }
                at
            }
            None => self.insert(region, version),
        };
        self.slots[at as usize].busy += 1;
    }

    fn insert(&mut self, region: u32, version: u64) -> u32 {
        let at = self.free.pop().expect("the caller has checked that there is room");
        let bucket = self.bucket(region);
        self.slots[at as usize] = Active {
            region,
            busy: 0,
            used: Instant::ZERO,
            entered: version,
            chain: self.heads[bucket],
            older: NIL,
            newer: NIL,
        };
        self.heads[bucket] = at;
        let needs = at as usize * self.legs;
        self.needs[needs..needs + self.legs].fill(0);
        at
    }

    /// One write or copy less; true when the region became idle.
    pub fn exit(&mut self, region: u32, now: Instant) -> bool {
        let at = self.find(region).expect("a busy region has a slot");
        let slot = &mut self.slots[at as usize];
        slot.busy -= 1;
        if slot.busy > 0 {
            return false;
        }
        slot.used = now;
        slot.older = self.newest;
        slot.newer = NIL;
        match self.newest {
            NIL => self.oldest = at,
            newest => self.slots[newest as usize].newer = at,
        }
        self.newest = at;
        self.idle += 1;
        true
    }

    fn unlink(&mut self, at: u32) {
        let Active { older, newer, .. } = self.slots[at as usize];
        match older {
            NIL => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        self.idle -= 1;
    }

    /// Gives up the slot of an idle region.
    pub fn remove(&mut self, region: u32) {
        let at = self.find(region).expect("only a region in use is removed");
        assert!(self.slots[at as usize].busy == 0, "a busy region keeps its slot");
        self.unlink(at);
        let bucket = self.bucket(region);
        if self.heads[bucket] == at {
            self.heads[bucket] = self.slots[at as usize].chain;
        } else {
            let mut before = self.heads[bucket];
            while self.slots[before as usize].chain != at {
                before = self.slots[before as usize].chain;
            }
            self.slots[before as usize].chain = self.slots[at as usize].chain;
        }
        self.free.push(at);
    }

    /// The idle region that was used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// The idle region used next after the one in `slot`.
    pub fn after(&self, slot: u32) -> Option<u32> {
        let newer = self.slots[slot as usize].newer;
        (newer != NIL).then_some(newer)
    }

    /// The slots of all regions in use, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|&at| self.find(self.slots[at as usize].region) == Some(at))
    }

    /// Forgets every region.
    pub fn clear(&mut self) {
        *self = Regions::new(self.slots.len() as u32, self.legs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn the_table_agrees_with_a_plain_model() {
        let mut rng = Rng::new(4);
        let mut regions = Regions::new(16, 2);
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let mut idle: Vec<u32> = Vec::new();
        for step in 0..20_000 {
            let region = rng.below(40) as u32;
            match rng.below(3) {
                0 if model.contains_key(&region) || regions.room() > 0 => {
                    regions.enter(region, 0);
                    *model.entry(region).or_default() += 1;
                    idle.retain(|&r| r != region);
                }
                1 if model.get(&region).is_some_and(|&n| n > 0) => {
                    let left = model.get_mut(&region).expect("present");
                    *left -= 1;
                    assert_eq!(regions.exit(region, Instant(step)), *left == 0);
                    if *left == 0 {
                        idle.push(region);
                    }
                }
                2 if idle.contains(&region) => {
                    regions.remove(region);
                    model.remove(&region);
                    idle.retain(|&r| r != region);
                }
                _ => {}
            }
            assert_eq!(regions.in_use() as usize, model.len());
            assert_eq!(regions.idle() as usize, idle.len());
            let mut order = Vec::new();
            let mut at = regions.oldest();
            while let Some(slot) = at {
                order.push(regions.get(slot).region);
                at = regions.after(slot);
            }
            assert_eq!(order, idle);
        }
    }
}
