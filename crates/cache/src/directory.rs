//! What is in the cache: lines of blocks, their slots, and the memory they take.
//!
//! A *line* is the unit of replacement: one block, or a segment of up to 64 blocks (S0-7). Memory is counted in blocks
//! (S0-13), and a line holds any of its blocks. Each is *cached* (a request brought it or has met it), *prefetched*
//! (brought ahead, never asked for) or absent (S0-11). The [`Directory`] keeps this, asks the policy for victims when
//! memory is short, and says what is gone. Where the data is, and what is on its way, is the machine's affair: memory for
//! it is *reserved* first and turned into blocks when it has come.
//!
//! RAM for each slot: 32 bytes here, the map's 4 or 32, and what the policy has. Work: O(1) for a block that is met; for
//! blocks that come, O(1) for each line that must go.

mod demand;

use crate::map::LineMap;
use crate::replacement::{Arrival, Cause, Hit, Recall, Replacement, Victim};
use nandu_base::{Report, Violation};

/// Most blocks in a line.
pub const LINE_MAX: u32 = 64;

/// One line in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// Its number: its first block divided by the blocks of a line.
    pub number: u64,
    /// Blocks that a request brought or met.
    pub cached: u64,
    /// Blocks that were brought ahead and not met.
    pub prefetched: u64,
    /// Bits in both.
    pub blocks: u32,
    /// Bits of `prefetched`.
    pub unmet: u32,
}

impl Line {
    /// Cached blocks.
    #[inline(always)]
    pub fn cached_blocks(&self) -> u32 {
        self.blocks - self.unmet
    }

    /// Blocks that are here.
    #[inline(always)]
    pub fn present(&self) -> u64 {
        self.cached | self.prefetched
    }
}

/// How a block was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Cached.
    Cached,
    /// Prefetched; it is cached from now on.
    Prefetched,
    /// Not here.
    Absent,
}

/// Blocks that left memory, for those who keep their data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone {
    /// Number of the line.
    pub line: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Those of them that were brought ahead and never met.
    pub unmet: u64,
}

/// What was counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Requests for cached blocks.
    pub cache_hits: u64,
    /// Requests for prefetched blocks.
    pub prefetch_hits: u64,
    /// Requests for blocks that are absent.
    pub misses: u64,
    /// Of these, blocks of lines that are here: holes.
    pub holes: u64,
    /// Blocks that were brought ahead.
    pub prefetched: u64,
    /// Prefetched blocks that were culled.
    pub culled: u64,
    /// Prefetched blocks that left in another way, never met.
    pub evicted_unused: u64,
    /// Cached blocks that left.
    pub evicted: u64,
    /// Changes of a policy's lists: insertions, moves and removals of lines.
    pub list_operations: u64,
}

/// Lines, memory and policy of one cache.
#[derive(Clone, Debug)]
pub struct Directory<P, M> {
    shift: u32,
    /// The bits of a block's number that say where in its line it is.
    within: u64,
    capacity: u64,
    used: u64,
    reserved: u64,
    map: M,
    lines: Vec<Line>,
    free: Vec<u32>,
    policy: P,
    /// What was counted.
    pub tally: Tally,
    /// What has left since the reader emptied it; [`None`] when nobody reads it.
    pub gone: Option<Vec<Gone>>,
}

impl<P: Replacement, M: LineMap> Directory<P, M> {
    /// An empty cache of `capacity` blocks in lines of `2^shift`.
    pub fn new(shift: u32, capacity: u64, policy: P, map: M) -> Directory<P, M> {
        debug_assert!(1 << shift <= LINE_MAX);
        Directory {
            shift,
            within: (1 << shift) - 1,
            capacity,
            used: 0,
            reserved: 0,
            map,
            lines: Vec::new(),
            free: Vec::new(),
            policy,
            tally: Tally::default(),
            gone: None,
        }
    }

    /// Blocks that fit.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Blocks in memory, and blocks that memory is reserved for.
    pub fn used(&self) -> (u64, u64) {
        (self.used, self.reserved)
    }

    /// Blocks of a line, as a power of two.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The figures of its policy; what it counts itself begins anew with them, and is its owner's to tell.
    pub fn report(&mut self, report: &mut Report) {
        self.policy.report(report);
        report.restart(&mut self.tally);
    }

    /// Bytes that the cache takes beside the blocks.
    pub fn metadata_bytes(&self) -> usize {
        self.map.bytes() + self.lines.capacity() * size_of::<Line>() + self.policy.bytes()
    }

    #[inline(always)]
    fn split(&self, block: u64) -> (u64, u64) {
        (block >> self.shift, 1 << (block & self.within))
    }

    /// Which blocks of `line` are here.
    #[inline]
    pub fn present(&self, line: u64) -> u64 {
        self.map.get(line).map_or(0, |slot| self.lines[slot as usize].present())
    }

    /// Whether `block` is here.
    #[inline]
    pub fn holds(&self, block: u64) -> bool {
        let (line, bit) = self.split(block);
        self.present(line) & bit != 0
    }

    /// A request meets `block`: counts it and tells the policy.
    #[inline(always)]
    pub fn access(&mut self, block: u64, write: bool) -> Found {
        let (number, bit) = self.split(block);
        let Some(slot) = self.map.get(number) else {
            self.tally.misses += 1;
            return Found::Absent;
        };
        self.meet(slot, bit, write)
    }

    /// A request meets block `bit` of the line in `slot`.
    #[inline(always)]
    fn meet(&mut self, slot: u32, bit: u64, write: bool) -> Found {
        let line = &mut self.lines[slot as usize];
        let found = if line.cached & bit != 0 {
            self.tally.cache_hits += 1;
            Found::Cached
        } else if line.prefetched & bit != 0 {
            line.prefetched ^= bit;
            line.cached |= bit;
            line.unmet -= 1;
            self.tally.prefetch_hits += 1;
            Found::Prefetched
        } else {
            self.tally.misses += 1;
            self.tally.holes += 1;
            if !write {
                self.policy.hole(slot, bit);
            }
            self.settle();
            return Found::Absent;
        };
        self.tally.list_operations += 1;
        self.policy.hit(slot, &self.lines, Hit { prefetched: found == Found::Prefetched, write });
        self.settle();
        found
    }

    /// Lets the policy take the lines that its own rules let go: culling.
    #[inline(always)]
    fn settle(&mut self) {
        while let Some(victim) = self.policy.surplus(&self.lines) {
            self.let_go(victim);
        }
    }

    /// Carries out what the policy decided about a line.
    #[inline(always)]
    fn let_go(&mut self, victim: Victim) {
        self.tally.list_operations += 1;
        let (slot, cull) = match victim {
            Victim::Whole(slot) => (slot, false),
            Victim::Prefetched(slot) => (slot, true),
        };
        if cull && self.lines[slot as usize].prefetched == 0 {
            return;
        }
        self.drop_blocks(slot, cull);
    }

    /// All blocks of the line in `slot` leave memory; with `cull` those that were prefetched.
    fn drop_blocks(&mut self, slot: u32, cull: bool) {
        let line = &mut self.lines[slot as usize];
        let Line { number, cached, prefetched, blocks, unmet } = *line;
        let (gone, left) = if cull {
            self.tally.culled += u64::from(unmet);
            *line = Line { number, cached, prefetched: 0, blocks: blocks - unmet, unmet: 0 };
            (prefetched, unmet)
        } else {
            self.tally.evicted_unused += u64::from(unmet);
            self.tally.evicted += u64::from(blocks - unmet);
            *line = Line { number, ..Line::default() };
            (cached | prefetched, blocks)
        };
        self.used -= u64::from(left);
        if left == blocks {
            self.map.remove(number);
            self.free.push(slot);
        }
        if let Some(list) = &mut self.gone {
            list.push(Gone { line: number, blocks: gone, unmet: prefetched });
        }
    }

    /// Says that `line` is about to come. To be called before
    /// [`reserve`](Directory::reserve) for lines of which nothing is here.
    #[inline]
    pub fn announce(&mut self, line: u64, cause: Cause) -> Recall {
        let recall = self.policy.miss(line, cause);
        self.settle();
        recall
    }

    /// Whether nothing of `line` is here.
    #[inline]
    pub fn is_new(&self, line: u64) -> bool {
        self.map.get(line).is_none()
    }

    /// Reserves memory for `blocks`; lines go until it is there. False when everything is reserved.
    #[inline]
    pub fn reserve(&mut self, blocks: u64, recall: Recall) -> bool {
        while self.used + self.reserved + blocks > self.capacity {
            let Some(victim) = self.policy.victim(&self.lines, recall) else { return false };
            self.let_go(victim);
        }
        self.reserved += blocks;
        true
    }

    /// A slot without a line.
    #[inline(always)]
    fn fresh_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.lines.push(Line::default());
            self.lines.len() as u32 - 1
        })
    }

    /// Gives reserved memory back.
    pub fn release(&mut self, blocks: u64) {
        self.reserved -= blocks;
    }

    /// Blocks of `line` for which memory was reserved are here. Those that are here already give their memory back.
    /// Returns the blocks that are new.
    #[inline(always)]
    pub fn admit(&mut self, number: u64, cached: u64, prefetched: u64, arrival: Arrival) -> u64 {
        let asked = (cached | prefetched).count_ones();
        self.reserved -= u64::from(asked);
        let here = self.map.get(number);
        let present = here.map_or(0, |slot| self.lines[slot as usize].present());
        let (cached, prefetched) = (cached & !present, prefetched & !present);
        let new = cached | prefetched;
        let blocks = if present == 0 { asked } else { new.count_ones() };
        let unmet = if prefetched == 0 { 0 } else { prefetched.count_ones() };
        self.tally.prefetched += u64::from(unmet);
        self.used += u64::from(blocks);
        self.tally.list_operations += 1;
        match here {
            Some(slot) => {
                let line = &mut self.lines[slot as usize];
                line.cached |= cached;
                line.prefetched |= prefetched;
                line.blocks += blocks;
                line.unmet += unmet;
                self.policy.refill(slot, &self.lines, arrival);
            }
            None if new == 0 => return 0,
            None => {
                let line = Line { number, cached, prefetched, blocks, unmet };
                let slot = self.fresh_slot();
                self.lines[slot as usize] = line;
                self.map.insert(number, slot);
                self.policy.insert(slot, &self.lines, arrival);
            }
        }
        self.settle();
        new
    }

    /// `blocks` of `line` are no longer good: they go without a word of the policy.
    pub fn forget(&mut self, number: u64, blocks: u64) {
        let Some(slot) = self.map.get(number) else { return };
        let line = &mut self.lines[slot as usize];
        let going = line.present() & blocks;
        if going == 0 {
            return;
        }
        let wasted = line.prefetched & blocks;
        let unmet = wasted.count_ones();
        self.tally.evicted_unused += u64::from(unmet);
        self.tally.evicted += u64::from((line.cached & blocks).count_ones());
        let left = going.count_ones();
        self.used -= u64::from(left);
        line.cached &= !blocks;
        line.prefetched &= !blocks;
        line.blocks -= left;
        line.unmet -= unmet;
        if line.blocks == 0 {
            self.policy.remove(slot, &self.lines);
            self.map.remove(number);
            self.free.push(slot);
        } else {
            self.policy.shrunk(slot, &self.lines);
        }
        if let Some(gone) = &mut self.gone {
            gone.push(Gone { line: number, blocks: going, unmet: wasted });
        }
    }

    /// All of the lines `first..=last` goes without a word of the policy.
    pub fn forget_lines(&mut self, first: u64, last: u64) {
        if last - first < self.lines.len() as u64 {
            (first..=last).for_each(|line| self.forget(line, u64::MAX));
            return;
        }
        for slot in 0..self.lines.len() {
            let Line { number, blocks, .. } = self.lines[slot];
            if blocks > 0 && (first..=last).contains(&number) {
                self.forget(number, u64::MAX);
            }
        }
    }

    /// Lines that are here, in the order of their slots.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.blocks > 0)
    }

    /// I-2 and I-3, looking at every line.
    pub fn check(&self) -> Result<(), Violation> {
        let fail = |invariant, what: String| Err(Violation { invariant, what });
        let (mut used, mut lines) = (0, 0);
        for (slot, line) in self.lines.iter().enumerate().filter(|(_, line)| line.blocks > 0) {
            used += u64::from(line.blocks);
            lines += 1;
            let counts = (line.cached.count_ones(), line.prefetched.count_ones());
            let sound = counts == (line.cached_blocks(), line.unmet) && line.cached & line.prefetched == 0;
            if !sound || self.map.get(line.number) != Some(slot as u32) {
                return fail("I-3", format!("line {} is kept wrongly: {line:?}", line.number));
            }
        }
        if used != self.used || lines + self.free.len() != self.lines.len() {
            return fail("I-2", format!("{used} blocks are here, {} are counted", self.used));
        }
        if self.used + self.reserved > self.capacity {
            let what = format!(
                "{} blocks and {} reserved in a memory of {}",
                self.used, self.reserved, self.capacity
            );
            return fail("I-2", what);
        }
        self.policy.check(&self.lines)
    }
}
