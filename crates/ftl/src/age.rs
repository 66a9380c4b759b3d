//! How full the blocks of a drive are after it was overwritten at random for long: the steady state of its own policy.
//!
//! For greedy and FIFO there are formulas, for other policies there are none. So one plane is simulated, small and without
//! time: blocks, a map, two frontiers and the policy itself. It is filled once and overwritten at random until nothing more
//! changes. What comes out is the number of valid pages of each written block, in the order of opening; a drive of any size
//! takes its blocks' numbers from the same place in that order. A small plane stands for a large one when its blocks hold the same
//! share: pages of the host over blocks for them, those kept free and half of the open ones left out.
//!
//! Own design. Cost: some 50 ns for each of at most ten times 2^19 pages, about a second, whatever the size of the drive;
//! RAM: 12 bytes a page meanwhile.

use crate::address::BlockId;
use crate::gc::{GcPolicy, PlaneView};
use nandu_base::Rng;
use std::collections::VecDeque;

/// Pages of the plane that is simulated, at most; more only when that were too few blocks.
const PAGES_MAX: u32 = 1 << 19;
/// Blocks of it, at least, if the plane has as many.
const BLOCKS_MIN: u32 = 256;
/// How often the host's pages are overwritten.
const PASSES: u64 = 6;

const NONE: u32 = u32::MAX;

/// A plane that is to be aged.
#[derive(Clone, Copy, Debug)]
pub struct Ageing {
    /// Blocks for data.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Valid pages.
    pub valid: u32,
    /// Erased blocks in steady state.
    pub free: u32,
    /// Whether moved pages go to blocks of their own.
    pub separate: bool,
}

/// The steady state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steady {
    /// Valid pages of each full block, oldest first.
    pub valid: Vec<u16>,
}

impl Ageing {
    /// Simulates until the plane is in steady state. `None` when there is no room to collect in.
    pub fn steady(&self, policy: &mut dyn GcPolicy, seed: u64) -> Option<Steady> {
        let blocks = self.blocks.min((PAGES_MAX / self.pages).max(BLOCKS_MIN));
        // Erased blocks, and half of each open one.
        let kept = 2 * self.free + if self.separate { 2 } else { 1 };
        let share = |of: u32| 2 * u64::from(of) - u64::from(kept.min(2 * of));
        let valid = u64::from(self.valid) * share(blocks) / share(self.blocks).max(1);
        let room = u64::from(blocks.saturating_sub(self.free + 3)) * u64::from(self.pages);
        if valid == 0 || valid > room {
            return None;
        }
        let mut plane = Small::new(self, blocks, valid as u32);
        let mut rng = Rng::new(seed);
        for lpn in 0..valid as u32 {
            plane.write(lpn, policy);
        }
        for _ in 0..PASSES * valid {
            plane.write(rng.below(valid) as u32, policy);
        }
        Some(plane.state())
    }
}

/// The plane that is simulated.
struct Small {
    pages: u32,
    keep: u32,
    separate: bool,
    /// Where each page of the host lies.
    map: Vec<u32>,
    /// The page of the host that each page holds, or held.
    owner: Vec<u32>,
    invalid: Vec<u16>,
    opened: Vec<u64>,
    erases: Vec<u32>,
    free: VecDeque<u32>,
    /// The next page of the open block and its end: the host's, and the one for moved pages.
    open: [(u32, u32); 2],
    seq: u64,
}

impl Small {
    fn new(ageing: &Ageing, blocks: u32, valid: u32) -> Small {
        Small {
            pages: ageing.pages,
            keep: ageing.free,
            separate: ageing.separate,
            map: vec![NONE; valid as usize],
            owner: vec![NONE; (blocks * ageing.pages) as usize],
            invalid: vec![0; blocks as usize],
            opened: vec![0; blocks as usize],
            erases: vec![0; blocks as usize],
            free: (0..blocks).collect(),
            open: [(0, 0); 2],
            seq: 0,
        }
    }

    fn block(&self, frontier: usize) -> BlockId {
        match self.open[frontier] {
            (_, 0) => BlockId(NONE),
            (_, end) => BlockId((end - 1) / self.pages),
        }
    }

    fn write(&mut self, lpn: u32, policy: &mut dyn GcPolicy) {
        while self.open[0].0 == self.open[0].1 && self.free.len() as u32 <= self.keep {
            if !self.collect(policy) {
                break;
            }
        }
        let old = self.map[lpn as usize];
        if old != NONE {
            self.invalid[(old / self.pages) as usize] += 1;
        }
        self.put(lpn, 0);
    }

    /// Puts a page behind the others of a frontier.
    fn put(&mut self, lpn: u32, frontier: usize) {
        if self.open[frontier].0 == self.open[frontier].1 {
            let block = self.free.pop_front().expect("clearing keeps a block erased");
            self.open[frontier] = (block * self.pages, (block + 1) * self.pages);
            self.opened[block as usize] = self.seq + 1;
        }
        self.seq += 1;
        let at = self.open[frontier].0;
        self.open[frontier].0 += 1;
        self.owner[at as usize] = lpn;
        self.map[lpn as usize] = at;
    }

    /// Clears one block; false when none has anything to gain.
    fn collect(&mut self, policy: &mut dyn GcPolicy) -> bool {
        let view = PlaneView {
            invalid: &self.invalid,
            opened: &self.opened,
            erases: &self.erases,
            now: self.seq,
            pages: self.pages as u16,
            first: BlockId(0),
            busy: [self.block(0), self.block(1), BlockId(NONE)],
        };
        let Some(BlockId(victim)) = policy.victim(view) else { return false };
        for at in victim * self.pages..(victim + 1) * self.pages {
            let lpn = self.owner[at as usize];
            if self.map[lpn as usize] == at {
                self.put(lpn, usize::from(self.separate));
            }
        }
        self.invalid[victim as usize] = 0;
        self.erases[victim as usize] += 1;
        self.free.push_back(victim);
        true
    }

    fn state(&self) -> Steady {
        let open = [self.block(0).0, self.block(1).0];
        let is_full = |&b: &u32| !open.contains(&b) && !self.free.contains(&b);
        let mut full: Vec<u32> = (0..self.invalid.len() as u32).filter(is_full).collect();
        full.sort_by_key(|&b| self.opened[b as usize]);
        Steady { valid: full.iter().map(|&b| self.pages as u16 - self.invalid[b as usize]).collect() }
    }
}

impl Steady {
    /// The same for `blocks` full blocks with `valid` valid pages in all, in blocks of `pages`; `None` when they do not fit.
    pub fn scaled(&self, blocks: u32, valid: u32, pages: u32) -> Option<Vec<u16>> {
        let n = self.valid.len() as u64;
        if u64::from(valid) > u64::from(blocks) * u64::from(pages) || n == 0 || blocks == 0 {
            return None;
        }
        let place = |block: u32| (u64::from(block) * n / u64::from(blocks)) as usize;
        let mut out: Vec<u16> = (0..blocks).map(|block| self.valid[place(block)]).collect();
        // What rounding has left over goes to all blocks alike.
        let mut sum: u64 = out.iter().map(|&v| u64::from(v)).sum();
        let mut at = 0;
        while sum != u64::from(valid) {
            let v = &mut out[at];
            if sum < u64::from(valid) && u32::from(*v) < pages {
                *v += 1;
                sum += 1;
            } else if sum > u64::from(valid) && *v > 0 {
                *v -= 1;
                sum -= 1;
            }
            at = if at + 1 == out.len() { 0 } else { at + 1 };
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::{Fifo, Greedy};

    const PLANE: Ageing = Ageing { blocks: 512, pages: 32, valid: 13_000, free: 3, separate: false };

    #[test]
    fn greedy_leaves_blocks_above_a_threshold() {
        // Bux and Iliadis 2010: in a large system the victim's valid pages take one of two successive values, so every block
        // that is left has at least as many.
        let steady = PLANE.steady(&mut Greedy::default(), 1).unwrap();
        let least = *steady.valid.iter().min().unwrap();
        let few = steady.valid.iter().filter(|&&v| v == least).count();
        assert!(least > 16 && few < 60, "{few} blocks have {least}");
        // The youngest block is nearly full, the oldest nearly ready.
        assert!(steady.valid[steady.valid.len() - 2] >= 31);
        assert!(steady.valid[0] <= least + 2);
    }

    #[test]
    fn fifo_thins_blocks_with_age() {
        let steady = PLANE.steady(&mut Fifo, 1).unwrap();
        let mean = |part: &[u16]| part.iter().map(|&v| f64::from(v)).sum::<f64>() / part.len() as f64;
        let quarters: Vec<f64> = steady.valid.chunks(steady.valid.len() / 4).map(mean).collect();
        assert!(quarters.windows(2).take(3).all(|pair| pair[0] < pair[1]), "{quarters:?}");
    }

    #[test]
    fn scaling_keeps_the_sum_and_the_order() {
        let steady = Steady { valid: vec![1, 4, 8] };
        let large = steady.scaled(9, 40, 8).unwrap();
        assert_eq!((large.len(), large.iter().sum::<u16>()), (9, 40));
        assert!(large[..3].iter().all(|&v| v <= 2) && large[6..].iter().all(|&v| v >= 7), "{large:?}");
        assert_eq!(steady.scaled(2, 17, 8), None);
        assert_eq!(steady.scaled(3, 13, 8).unwrap(), steady.valid);
    }

    #[test]
    fn a_plane_without_room_cannot_be_aged() {
        assert_eq!(Ageing { valid: 512 * 32, ..PLANE }.steady(&mut Greedy::default(), 1), None);
    }
}
