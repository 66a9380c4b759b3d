//! A drive that was overwritten at random for long, as arithmetic instead of tables.
//!
//! The blocks are given in the order in which they were opened, each with its written and its valid pages. Logical pages have a random
//! order ([`Shuffle`]); a block takes the next ones for its valid pages, which lie among its written pages at places that an
//! order of its own says. Every other written page holds an old version of a logical page whose newest version comes in
//! a later block. So where a page lies and what lies on a page follow from their numbers, and a drive of 1 TB is ready when its
//! blocks are counted ([`Initial`]).
//!
//! RAM: 12 bytes for each block. Cost: two shuffles, and for a place a search among the blocks.

use crate::address::{BlockId, Layout, Lpn, Ppn};
use crate::blocks::Content;
use crate::filled::Initial;
use crate::shuffle::Shuffle;

const NONE: u32 = u32::MAX;

/// A block, as it was laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Laid {
    /// Which.
    pub block: BlockId,
    /// Written pages, from the first on.
    pub written: u32,
    /// Those that hold the newest version of a logical page.
    pub valid: u32,
}

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The newest version.
    Newest(Lpn),
    /// One that is superseded.
    Old(Lpn),
}

/// What is where on an aged drive.
#[derive(Clone, Debug)]
pub struct Aged {
    layout: Layout,
    order: Shuffle,
    logical: u32,
    seed: u64,
    /// The blocks, oldest first.
    laid: Vec<(BlockId, u16)>,
    /// Valid pages of all blocks before each, and of all.
    before: Vec<u32>,
    /// The place of each block in `laid`.
    turns: Vec<u32>,
}

impl Aged {
    /// Lays `logical` pages out on these blocks, oldest first, whose valid pages add up to that. `None` when the block that is
    /// written last has old versions alone: of what could they be?
    pub fn new(layout: Layout, blocks: &[Laid], logical: u32, seed: u64) -> Option<Aged> {
        if blocks.iter().rev().find(|block| block.written > 0).is_none_or(|last| last.valid == 0) {
            return None;
        }
        let mut turns = vec![NONE; layout.block_end() as usize];
        let mut before = vec![0];
        for (turn, block) in (0..).zip(blocks) {
            turns[block.block.0 as usize] = turn;
            before.push(before[turn as usize] + block.valid);
        }
        assert_eq!(before.last(), Some(&logical), "every logical page has one newest version");
        let laid = blocks.iter().map(|block| (block.block, block.written as u16)).collect();
        Some(Aged { layout, order: Shuffle::new(logical, seed), logical, seed, laid, before, turns })
    }

    /// The order of the written pages of a block, its valid ones first.
    fn positions(&self, turn: u32) -> Shuffle {
        let key = (self.seed ^ u64::from(turn)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Shuffle::new(u32::from(self.laid[turn as usize].1), key)
    }

    /// Old pages of a block with which the newest versions of the drive end. They come before its valid ones, for they are
    /// old versions of these.
    fn old_in_last(&self, turn: u32) -> Option<u32> {
        let (first, later) = (self.before[turn as usize], self.before[turn as usize + 1]);
        (later == self.logical).then(|| u32::from(self.laid[turn as usize].1) - (later - first))
    }

    /// What a position of the block laid out at `turn` holds; `None` beyond its written pages.
    fn version(&self, turn: u32, position: u32) -> Option<Version> {
        if position >= u32::from(self.laid[turn as usize].1) {
            return None;
        }
        let (first, later) = (self.before[turn as usize], self.before[turn as usize + 1]);
        let nth = match self.old_in_last(turn) {
            Some(old) if position < old => position + later - first,
            Some(old) => position - old,
            None => self.positions(turn).place(position),
        };
        if nth < later - first {
            return Some(Version::Newest(Lpn(self.order.at(first + nth))));
        }
        let from = if later < self.logical { later } else { first };
        let draw = (u64::from(turn) << 32 | u64::from(nth)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let at = from + ((draw * u64::from(self.logical - from)) >> 32) as u32;
        Some(Version::Old(Lpn(self.order.at(at))))
    }

    /// Calls `visit` for every written page, in the order of programs.
    pub fn pages(&self, mut visit: impl FnMut(Ppn, Version)) {
        for (turn, &(block, written)) in (0..).zip(&self.laid) {
            let first = self.layout.first_page(block).0;
            for position in 0..u32::from(written) {
                if let Some(version) = self.version(turn, position) {
                    visit(Ppn(first + position), version);
                }
            }
        }
    }
}

impl Initial for Aged {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn logical(&self) -> u32 {
        self.logical
    }

    fn place(&self, lpn: Lpn) -> Ppn {
        let nth = self.order.place(lpn.0);
        let turn = self.before.partition_point(|&before| before <= nth) - 1;
        let nth = nth - self.before[turn];
        let position = match self.old_in_last(turn as u32) {
            Some(old) => old + nth,
            None => self.positions(turn as u32).at(nth),
        };
        Ppn(self.layout.first_page(self.laid[turn].0).0 + position)
    }

    fn content(&self, ppn: Ppn) -> Content {
        let block = self.layout.block(ppn).0 as usize;
        match self.turns.get(block).filter(|&&turn| turn != NONE) {
            None => Content::Free,
            Some(&turn) => match self.version(turn, self.layout.page(ppn)) {
                None => Content::Free,
                Some(Version::Newest(lpn)) => Content::Data(lpn),
                Some(Version::Old(_)) => Content::Waste,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn every_logical_page_has_one_newest_version_and_old_ones_before_it() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let pages = rng.between(2, 40) as u32;
            let layout = Layout::new(3, 20, pages).unwrap();
            let mut blocks: Vec<Laid> = layout
                .all_blocks()
                .map(|block| {
                    let written = rng.below(u64::from(pages) + 1) as u32;
                    Laid { block, written, valid: rng.below(u64::from(written) + 1) as u32 }
                })
                .collect();
            for at in (1..blocks.len()).rev() {
                blocks.swap(at, rng.below(at as u64 + 1) as usize);
            }
            let logical = blocks.iter().map(|b| b.valid).sum();
            let Some(aged) = Aged::new(layout, &blocks, logical, seed) else { continue };
            let (mut newest, mut valid) = (BTreeSet::new(), vec![0; layout.block_end() as usize]);
            let mut all = Vec::new();
            aged.pages(|ppn, version| all.push((ppn, version)));
            assert_eq!(all.len() as u32, blocks.iter().map(|b| b.written).sum::<u32>(), "seed {seed}");
            for (ppn, version) in all {
                match version {
                    Version::Newest(lpn) => {
                        assert!(newest.insert(lpn), "seed {seed}: {lpn:?} is newest twice");
                        assert_eq!((aged.place(lpn), aged.content(ppn)), (ppn, Content::Data(lpn)));
                        valid[layout.block(ppn).0 as usize] += 1;
                    }
                    Version::Old(_) => assert_eq!(aged.content(ppn), Content::Waste, "seed {seed}"),
                }
            }
            assert_eq!(newest.len() as u32, logical, "seed {seed}");
            for laid in &blocks {
                assert_eq!(valid[laid.block.0 as usize], laid.valid, "seed {seed}");
                let first = layout.first_page(laid.block).0;
                let unwritten = (laid.written..pages).map(|page| aged.content(Ppn(first + page)));
                assert!(unwritten.into_iter().all(|content| content == Content::Free), "seed {seed}");
            }
        }
    }

    #[test]
    fn an_old_version_lies_before_the_newest() {
        let layout = Layout::new(1, 50, 32).unwrap();
        let block = |(turn, block): (u32, BlockId)| Laid { block, written: 32, valid: 8 + turn % 20 };
        let blocks: Vec<Laid> = (0..).zip(layout.all_blocks()).map(block).collect();
        let aged = Aged::new(layout, &blocks, blocks.iter().map(|b| b.valid).sum(), 3).unwrap();
        aged.pages(|ppn, version| {
            if let Version::Old(lpn) = version {
                assert!(aged.place(lpn) > ppn, "{ppn:?} {lpn:?}");
            }
        });
        let none = [Laid { valid: 0, ..blocks[0] }];
        assert!(Aged::new(layout, &none, 0, 3).is_none());
    }
}
