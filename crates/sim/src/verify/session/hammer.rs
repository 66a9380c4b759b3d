//! Short-range patterns: what happens to one block, or to neighbours, while earlier requests for them are under way.
//!
//! Random requests meet so seldom that what goes wrong then is found by one seed in thousands. In half of the seeds three of four
//! requests belong to a pattern: see [`Hammer`]. What they are is drawn from a generator of their own.

use super::Session;
use super::drawn::Drawn;
use crate::verify::oracle::Asked;
use crate::verify::plan::Hammer;
use nandu_base::{ByteLen, ByteOffset, Flags, Op, Rng};

/// How far a pattern has come.
#[derive(Clone, Debug)]
pub(super) struct Hammering {
    rng: Rng,
    at: Option<At>,
    /// Requests until it goes elsewhere.
    left: u64,
}

/// Where a pattern is: a range of an export, and the block in it that is next.
#[derive(Clone, Copy, Debug)]
struct At {
    export: usize,
    base: u64,
    blocks: u64,
    first: u64,
}

impl Hammering {
    pub fn new(seed: u64) -> Hammering {
        Hammering { rng: Rng::new(seed).fork(9).fork(1), at: None, left: 0 }
    }
}

impl Drawn<'_> {
    /// The next request of the pattern, if the plan has one and it is its turn.
    pub(super) fn hammer(&mut self, session: &Session<'_>) -> Option<(usize, Asked)> {
        let hammer = self.plan.hammer?;
        if self.hammering.rng.below(4) == 0 {
            return None;
        }
        let block = |limits: &nandu_base::Limits| {
            let align = u64::from(limits.align);
            u64::from(limits.preferred).max(align).next_multiple_of(align)
        };
        if self.hammering.left == 0 || self.hammering.at.is_none() {
            let mut rng = self.hammering.rng.clone();
            let export = rng.below(session.entries.len() as u64) as usize;
            let limits = &session.entries[export].limits;
            let (unit, max_io) = (block(limits), limits.max_io.0);
            let range =
                self.steady_range(session, limits.capacity.0, &mut rng).filter(|range| range.1 >= 4 * unit);
            let (base, len) = range.filter(|_| max_io >= unit)?;
            let first = rng.below(len / unit - 1);
            (self.hammering.at, self.hammering.left) =
                (Some(At { export, base, blocks: len / unit, first }), rng.between(8, 120));
            self.hammering.rng = rng;
        }
        self.hammering.left -= 1;
        let At { export, base, blocks, first: at } = self.hammering.at?;
        let limits = &session.entries[export].limits;
        let unit = block(limits);
        let most = limits.max_io.0 / unit;
        let two = most >= 2;
        let rng = &mut self.hammering.rng;
        let (op, first, count, next) = match hammer {
            Hammer::OneBlock => match rng.below(8) {
                0..=3 => (Op::Write, at, 1, at),
                4 if two => (Op::Write, at, 2, at),
                5 => (Op::Read, at, 1, at),
                6 => (Op::Write, at + 1, 1, at),
                _ => (Op::Flush, at, 0, at),
            },
            Hammer::AdjacentTrims => match rng.below(8) {
                0..=2 => (Op::Trim, at, 1, (at + 1) % blocks),
                3 | 4 => (Op::Write, at, 1, at),
                5 => (Op::Write, at, 1, (at + 1) % blocks),
                6 => (Op::Read, at.saturating_sub(1), 1, at),
                _ => (Op::Flush, at, 0, at.saturating_sub(3)),
            },
            Hammer::Trail => match rng.below(8) {
                0..=3 => (Op::Write, at, 1, (at + 1) % blocks),
                4 | 5 => {
                    let behind = (at + blocks - rng.below(blocks)) % blocks;
                    (Op::Write, behind, most.min(blocks - behind), at)
                }
                6 => (Op::Read, rng.below(blocks), 1, at),
                _ => (Op::Flush, at, 0, at),
            },
            Hammer::Rewrite => match rng.below(8) {
                0 | 1 => (Op::Trim, at, 1, at),
                2 | 3 => (Op::Write, at, 1, (at + 1) % blocks.min(4)),
                4 => (Op::Write, rng.below(blocks), 1, at),
                5 => (Op::Read, at, 1, at),
                _ => (Op::Flush, at, 0, at),
            },
            Hammer::ManyRecords => match rng.below(8) {
                0..=2 => (Op::Trim, at, 1, (at + 2) % blocks),
                3 => (Op::Write, at, 1, (at + 2) % blocks),
                4 => (Op::Write, at, 1, at),
                5 => (Op::Read, at, 1, at),
                _ => (Op::Flush, at, 0, at),
            },
        };
        self.hammering.at = Some(At { export, base, blocks, first: next });
        if op == Op::Flush {
            return Some((
                export,
                Asked { op, flags: Flags::NONE, offset: ByteOffset::ZERO, len: ByteLen::ZERO },
            ));
        }
        let (offset, len) = (ByteOffset(base + first * unit), ByteLen(count * unit));
        Some((export, Asked { op, flags: Flags::NONE, offset, len }))
    }
}
