//! `s3-fifo`: a small queue for what is new, a main queue for what was met, and a memory of what went.
//!
//! A line comes into the small queue, or into the main one if it is among the ghosts. Meetings are counted up to 3. When
//! memory is short and the main queue has no more than its share, the oldest lines of the small queue leave it: those met
//! at least twice go to the main queue, with a count of 0; the first that was not goes away and becomes a ghost. Otherwise
//! the oldest of the main queue goes if it was not met, or goes round with its count less one. Yang et al., "FIFO queues
//! are all you need for cache eviction", SOSP 2023, section 4.
//!
//! *While memory fills* (`fill`). In the paper all of it may be the small queue's at first. libCacheSim of 2024-12 and later
//! (`S3FIFO.c` there, and the Python package 0.3.5) puts what finds the small queue full into the main one until something had to go:
//! `fill = "main"`.
//!
//! Sizes as in libCacheSim, whose miss ratios are reproduced: small queue 1/10 of the lines, main queue the rest, ghosts
//! 9/10 of the lines; two meetings to be promoted (the paper: more than one). Where we differ: the first meeting of a
//! prefetched block is not counted, for it is the request for which the block would have come. A line of the cache holds
//! one block.
//!
//! Cost: 9 bytes for each line, and 24 to 40 for each ghost in a hashed table. O(1) for each event; a step that moves a
//! line without letting one go is paid by the meetings that it uses up.

use super::{Arrival, Cause, Hit, Recall, Replacement, ReplacementOptions, Room, Victim, each_once};
use crate::directory::Line;
use crate::ghost::GhostQueue;
use crate::list::{Chain, List};
use nandu_base::{BuildError, Declared, Report, Violation, options};

/// Meetings that let a line into the main queue.
const PROMOTED_AT: u8 = 2;
/// Meetings that are counted.
const COUNTED: u8 = 3;

/// Options of `s3-fifo`.
#[options]
#[derive(Clone, Debug)]
pub struct S3FifoConfig {
    /// Where lines go while memory fills and the small queue has its share: `small` as in the paper, `main` as in libCacheSim since 2024-12.
    #[option(default)]
    pub fill: Fill,
}

/// Where lines go while memory fills and the small queue has its share.
#[options]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Into the small queue all the same.
    #[default]
    Small,
    /// Into the main queue.
    Main,
}

impl Declared for S3FifoConfig {
    const NAME: &'static str = "s3-fifo";
    const SUMMARY: &'static str = "A small and a main queue (S3-FIFO). By blocks.";
    const SOURCE: &'static str = "Yang et al., SOSP 2023";
    const DRAWS: &'static [&'static str] = &["", "fill = \"main\""];
}

impl ReplacementOptions for S3FifoConfig {
    type Policy = S3Fifo;

    fn build(&self, room: Room) -> Result<S3Fifo, BuildError> {
        Ok(S3Fifo::new(room.slots(), self.fill))
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    chain: Chain,
    small: List,
    main: List,
    met: Vec<u8>,
    /// Lines beyond which the main queue must shed.
    main_share: u32,
    ghosts: GhostQueue,
    in_main: Vec<bool>,
    /// Memory was never short: the small queue takes no more than its share.
    fills_main: bool,
}

impl S3Fifo {
    /// For `slots` lines of one block.
    pub fn new(slots: usize, fill: Fill) -> S3Fifo {
        S3Fifo {
            chain: Chain::new(slots),
            small: List::default(),
            main: List::default(),
            met: vec![0; slots],
            main_share: (slots - slots / 10) as u32,
            ghosts: GhostQueue::new(slots * 9 / 10),
            in_main: vec![false; slots],
            fills_main: fill == Fill::Main,
        }
    }

    fn shed_small(&mut self, lines: &[Line]) -> Option<Victim> {
        while let Some(slot) = self.small.pop(&mut self.chain) {
            if self.met[slot as usize] < PROMOTED_AT {
                self.ghosts.push(lines[slot as usize].number);
                return Some(Victim::Whole(slot));
            }
            self.met[slot as usize] = 0;
            self.in_main[slot as usize] = true;
            self.main.push(&mut self.chain, slot);
        }
        None
    }

    fn shed_main(&mut self) -> Option<Victim> {
        while let Some(slot) = self.main.pop(&mut self.chain) {
            let met = &mut self.met[slot as usize];
            if *met == 0 {
                return Some(Victim::Whole(slot));
            }
            *met -= 1;
            self.main.push(&mut self.chain, slot);
        }
        None
    }
}

impl Replacement for S3Fifo {
    #[inline]
    fn miss(&mut self, line: u64, cause: Cause) -> Recall {
        match self.ghosts.remove(line) && cause != Cause::Prefetch {
            true => Recall::Once,
            false => Recall::Nothing,
        }
    }

    #[inline]
    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.met[slot as usize] = 0;
        let small_is_full = self.small.len() >= self.met.len() as u32 - self.main_share;
        self.in_main[slot as usize] = arrival.recall == Recall::Once || self.fills_main && small_is_full;
        // It may have gone and become a ghost since it was announced, when it was written meanwhile.
        self.ghosts.remove(lines[slot as usize].number);
        match self.in_main[slot as usize] {
            true => self.main.push(&mut self.chain, slot),
            false => self.small.push(&mut self.chain, slot),
        }
    }

    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.hit(slot, lines, Hit { prefetched: arrival.cause == Cause::Prefetch, write: false });
    }

    #[inline]
    fn hit(&mut self, slot: u32, _lines: &[Line], hit: Hit) {
        let met = &mut self.met[slot as usize];
        *met = (*met + u8::from(!hit.prefetched)).min(COUNTED);
    }

    #[inline]
    fn victim(&mut self, lines: &[Line], _incoming: Recall) -> Option<Victim> {
        self.fills_main = false;
        if self.main.len() > self.main_share || self.small.is_empty() {
            return self.shed_main();
        }
        self.shed_small(lines).or_else(|| self.shed_main())
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        match self.in_main[slot as usize] {
            true => self.main.remove(&mut self.chain, slot),
            false => self.small.remove(&mut self.chain, slot),
        }
    }

    fn bytes(&self) -> usize {
        self.chain.bytes() + 2 * self.met.len() + self.ghosts.bytes()
    }

    fn report(&mut self, report: &mut Report) {
        report.put("s3_fifo_small_lines", u64::from(self.small.len()));
        report.put("s3_fifo_main_lines", u64::from(self.main.len()));
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let all = self.small.iter(&self.chain).chain(self.main.iter(&self.chain));
        each_once(all, lines)?;
        self.ghosts.check(lines)
    }
}
