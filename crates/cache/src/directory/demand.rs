//! Blocks that come when they are asked for: the directory of a cache without time.

use super::{Directory, Found, Line};
use crate::map::LineMap;
use crate::replacement::{Arrival, Cause, Hit, Recall, Replacement, Victim};

impl<P: Replacement, M: LineMap> Directory<P, M> {
    /// A request meets `block`. If it is absent it is here from now on, and with a read all that is absent of its line; if
    /// there is no memory even so, nothing comes. For a directory that is used in no other way, so that nothing is reserved
    /// and nobody reads what is gone.
    ///
    /// This is [`access`](Directory::access), [`announce`](Directory::announce), [`reserve`](Directory::reserve) and
    /// [`admit`](Directory::admit) in a row, with one look into the map where the line is new.
    #[inline(always)]
    pub fn demand(&mut self, block: u64, arrival: Arrival) -> Found {
        let (number, bit) = self.split(block);
        let Some(slot) = self.map.get(number) else {
            self.tally.misses += 1;
            self.bring_line(number, bit, arrival);
            return Found::Absent;
        };
        let found = self.meet(slot, bit, arrival.cause == Cause::Write);
        if found == Found::Absent {
            self.bring_rest(slot, number, bit, arrival);
        }
        found
    }

    /// The same where a line is one block. There nothing is prefetched: what is here is cached.
    #[inline(always)]
    pub fn demand_block(&mut self, block: u64, arrival: Arrival) -> Found {
        debug_assert!(self.shift == 0 && self.reserved == 0 && self.gone.is_none());
        let Some(slot) = self.map.get(block) else {
            self.tally.misses += 1;
            self.bring_block(block, arrival);
            return Found::Absent;
        };
        self.tally.cache_hits += 1;
        self.tally.list_operations += 1;
        let hit = Hit { prefetched: false, write: arrival.cause == Cause::Write };
        self.policy.hit(slot, &self.lines, hit);
        self.settle();
        Found::Cached
    }

    /// A line of one block comes. In a full memory it takes the slot of the one that goes.
    #[inline(always)]
    fn bring_block(&mut self, number: u64, arrival: Arrival) {
        let recall = self.policy.miss(number, arrival.cause);
        self.settle();
        let slot = if self.used < self.capacity {
            self.used += 1;
            let slot = self.fresh_slot();
            self.lines[slot as usize] = Line { number, cached: 1, blocks: 1, ..Line::default() };
            slot
        } else {
            match self.policy.victim(&self.lines, recall) {
                Some(Victim::Whole(slot)) => {
                    let line = &mut self.lines[slot as usize];
                    self.map.remove(line.number);
                    line.number = number;
                    self.tally.evicted += 1;
                    self.tally.list_operations += 1;
                    slot
                }
                other => return self.bring_after(other, number, Arrival { recall, ..arrival }),
            }
        };
        self.tally.list_operations += 1;
        self.map.insert(number, slot);
        self.policy.insert(slot, &self.lines, Arrival { recall, ..arrival });
        self.settle();
    }

    /// The policy culled a line, which frees nothing here, or let nothing go.
    #[cold]
    fn bring_after(&mut self, victim: Option<Victim>, number: u64, arrival: Arrival) {
        if let Some(victim) = victim {
            self.let_go(victim);
        }
        if self.reserve(1, arrival.recall) {
            self.admit(number, 1, 0, arrival);
        }
    }

    /// A line comes of which nothing is here: with a write the block, with a read all of it.
    #[inline(always)]
    fn bring_line(&mut self, number: u64, bit: u64, arrival: Arrival) {
        let recall = self.policy.miss(number, arrival.cause);
        self.settle();
        let (prefetched, blocks) = match arrival.cause {
            Cause::Write => (0, 1),
            _ => (self.whole() & !bit, 1 << self.shift),
        };
        if !self.reserve(blocks, recall) {
            return;
        }
        self.reserved -= blocks;
        self.used += blocks;
        self.tally.prefetched += blocks - 1;
        self.tally.list_operations += 1;
        let slot = self.fresh_slot();
        let (blocks, unmet) = (blocks as u32, blocks as u32 - 1);
        self.lines[slot as usize] = Line { number, cached: bit, prefetched, blocks, unmet };
        self.map.insert(number, slot);
        self.policy.insert(slot, &self.lines, Arrival { recall, ..arrival });
        self.settle();
    }

    /// More comes of the line in `slot`: with a write the block, with a read all that is absent.
    #[inline(never)]
    fn bring_rest(&mut self, slot: u32, number: u64, bit: u64, arrival: Arrival) {
        let write = arrival.cause == Cause::Write;
        let wanted = if write { bit } else { self.whole() & !self.lines[slot as usize].present() };
        let blocks = if wanted == bit { 1 } else { wanted.count_ones() };
        if !self.reserve(u64::from(blocks), Recall::Nothing) {
            return;
        }
        let line = &mut self.lines[slot as usize];
        if line.blocks == 0 {
            // It went to make room for itself.
            self.admit(number, bit, wanted & !bit, arrival);
            return;
        }
        line.cached |= bit;
        line.prefetched |= wanted & !bit;
        line.blocks += blocks;
        line.unmet += blocks - 1;
        self.reserved -= u64::from(blocks);
        self.used += u64::from(blocks);
        self.tally.prefetched += u64::from(blocks - 1);
        self.tally.list_operations += 1;
        self.policy.refill(slot, &self.lines, arrival);
        self.settle();
    }

    /// Every block of a line.
    #[inline(always)]
    fn whole(&self) -> u64 {
        u64::MAX >> (64 - (1 << self.shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Hashed;
    use crate::replacement::{AdaptiveConfig, Lru, ReplacementOptions, Room, Sarc};
    use nandu_base::Rng;

    /// What [`Directory::demand`] says it does in a row.
    fn one_by_one<P: Replacement>(d: &mut Directory<P, Hashed>, block: u64, arrival: Arrival) -> Found {
        let write = arrival.cause == Cause::Write;
        let found = d.access(block, write);
        if found == Found::Absent {
            let (line, bit) = d.split(block);
            let wanted = if write { bit } else { d.whole() & !d.present(line) };
            let recall = if d.is_new(line) { d.announce(line, arrival.cause) } else { Recall::Nothing };
            if d.reserve(u64::from(wanted.count_ones()), recall) {
                d.admit(line, bit, wanted & !bit, Arrival { recall, ..arrival });
            }
        }
        found
    }

    fn agree<P: Replacement>(shift: u32, make: impl Fn(u64) -> P) {
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let room = rng.between(4, 24) << shift;
            let directory = || Directory::new(shift, room, make(room), Hashed::new(0));
            let (mut fast, mut slow) = (directory(), directory());
            for step in 0..1500 {
                let block = rng.below(3 * room).min(rng.below(3 * room));
                let cause = if rng.below(4) == 0 { Cause::Write } else { Cause::Read };
                let arrival = Arrival { sequential: rng.below(3) == 0, ..Arrival::by(cause) };
                let found = match shift {
                    0 => fast.demand_block(block, arrival),
                    _ => fast.demand(block, arrival),
                };
                assert_eq!(found, one_by_one(&mut slow, block, arrival), "seed {seed}, step {step}");
                let tallies = (format!("{:?}", fast.tally), format!("{:?}", slow.tally));
                assert_eq!(tallies.0, tallies.1, "seed {seed}, step {step}");
            }
            fast.check().unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        }
    }

    #[test]
    fn what_comes_at_once_comes_as_step_by_step() {
        let culling = |shift: u32| {
            move |blocks: u64| {
                let room = Room { blocks, line: 1 << shift, fault: None };
                let options = AdaptiveConfig { ghost: true, ..AdaptiveConfig::default() };
                options.build(room).expect("the options fit")
            }
        };
        agree(0, |room| Lru::new(room as usize));
        agree(0, |room| Sarc::new(room as usize));
        agree(3, |room| Lru::new(room as usize));
        agree(0, culling(0));
        agree(3, culling(3));
    }
}
