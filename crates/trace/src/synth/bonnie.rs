//! `bonnie`: a stand-in for a block trace of the disk benchmark bonnie++.
//!
//! The trace is not public. What the tool does is (bonnie++ 1.x and its documentation): on one file of twice the memory it writes by
//! character, writes by block, reads and writes back each block, reads by character, reads by block, and then seeks 8,192 times to
//! read 8 KiB, of which every tenth is written back. What a block trace of that looks like is assumed: the file lies in one piece from
//! the start of the space, the page cache makes requests of 128 KiB of what is sequential and leaves seeks as they are, and 1 GiB is twice
//! the memory. Requests come at the rates of a disk of that time rather than one after the other, since a trace has times: 6 ms by
//! block, 10 ms by character, 20 ms for seeks, exponentially distributed. The tests of file creation are not modelled.
//!
//! When all is done it begins again, as repeated runs do.

use super::fixed::exponential;
use super::{Generate, MOST_LEN, MOST_SPACE, Made, Records, check_gaps};
use crate::record::{MAX_TIME_NS, Record};
use nandu_base::{BuildError, ByteLen, Declared, Op, Rng, SECTOR, Span, options};
use serde::Serialize;

const SEEK: u64 = 8 << 10;

/// Parameters of `bonnie`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct Bonnie {
    /// Requests to make.
    #[option(default = 120_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Size of the file.
    #[option(default = ByteLen::gib(1), range = ByteLen(SEEK)..=MOST_SPACE, also = "a multiple of `request`")]
    pub file: ByteLen,
    /// Length of what is read and written in order.
    #[option(default = ByteLen::kib(128), range = ByteLen(SEEK)..=MOST_LEN, multiple_of = ByteLen(SEEK))]
    pub request: ByteLen,
    /// Seeks of a run.
    #[option(default = 8_192, range = ..=1 << 40)]
    pub seeks: u64,
    /// Mean time between requests by block.
    #[option(default = Span::from_ms(6), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// The same by character.
    #[option(default = Span::from_ms(10), also = "all arrivals within 26 days")]
    pub by_character: Span,
    /// The same of seeks.
    #[option(default = Span::from_ms(20), also = "all arrivals within 26 days")]
    pub between_seeks: Span,
}

impl Declared for Bonnie {
    const NAME: &'static str = "bonnie";
    const SUMMARY: &'static str = "stand-in for a block trace of bonnie++: writes, rewrites and reads a file in order, then seeks in it";
    const SOURCE: &'static str = "none: not public; the phases are those of the tool";
}

impl Generate for Bonnie {
    fn records(&self, seed: u64) -> Made {
        if !self.file.0.is_multiple_of(self.request.0) {
            return Err(BuildError::at("file", "a positive multiple of the request, at most 128 TiB"));
        }
        check_gaps(self.requests, self.interarrival.max(self.by_character).max(self.between_seeks))?;
        Ok(Box::new(Runs::new(self.clone(), seed)))
    }
}

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    WriteByCharacter,
    Write,
    /// A block is read, then written back.
    Rewrite,
    ReadByCharacter,
    Read,
    Seek,
}

impl Phase {
    fn next(self) -> Phase {
        match self {
            Phase::WriteByCharacter => Phase::Write,
            Phase::Write => Phase::Rewrite,
            Phase::Rewrite => Phase::ReadByCharacter,
            Phase::ReadByCharacter => Phase::Read,
            Phase::Read => Phase::Seek,
            Phase::Seek => Phase::WriteByCharacter,
        }
    }
}

/// Yields the records of a [`Bonnie`] and a seed.
#[derive(Clone, Debug)]
pub struct Runs {
    p: Bonnie,
    arrivals: Rng,
    places: Rng,
    phase: Phase,
    /// Steps of the phase that are done.
    at: u64,
    /// What was read and is to be written back: first sector and length.
    back: Option<(u64, u64)>,
    made: u64,
    now_ns: u64,
}

impl Runs {
    fn new(p: Bonnie, seed: u64) -> Runs {
        let root = Rng::new(seed);
        Runs {
            arrivals: root.fork(1),
            places: root.fork(2),
            phase: Phase::WriteByCharacter,
            at: 0,
            back: None,
            made: 0,
            now_ns: 0,
            p,
        }
    }

    /// The next step: operation, first sector, length.
    fn step(&mut self) -> (Op, u64, u64) {
        if let Some((first, len)) = self.back.take() {
            return (Op::Write, first, len);
        }
        let steps = if self.phase == Phase::Seek { self.p.seeks } else { self.p.file.0 / self.p.request.0 };
        if self.at == steps {
            (self.phase, self.at) = (self.phase.next(), 0);
            return self.step();
        }
        let at = self.at;
        self.at += 1;
        let len = self.p.request.0 / SECTOR;
        match self.phase {
            Phase::WriteByCharacter | Phase::Write => (Op::Write, at * len, len),
            Phase::ReadByCharacter | Phase::Read => (Op::Read, at * len, len),
            Phase::Rewrite => {
                self.back = Some((at * len, len));
                (Op::Read, at * len, len)
            }
            Phase::Seek => {
                let len = SEEK / SECTOR;
                let first = self.places.below(self.p.file.0 / SEEK) * len;
                if self.places.below(10) == 0 {
                    self.back = Some((first, len));
                }
                (Op::Read, first, len)
            }
        }
    }
}

impl Records for Runs {
    fn left(&self) -> u64 {
        self.p.requests - self.made
    }
    fn boxed_clone(&self) -> Box<dyn Records> {
        Box::new(self.clone())
    }
}

impl Iterator for Runs {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.p.requests {
            return None;
        }
        let (op, first, len) = self.step();
        if self.made > 0 {
            let mean = match self.phase {
                Phase::WriteByCharacter | Phase::ReadByCharacter => self.p.by_character,
                Phase::Write | Phase::Rewrite | Phase::Read => self.p.interarrival,
                Phase::Seek => self.p.between_seeks,
            };
            let gap = exponential(mean.0, self.arrivals.bits());
            // The check on the mean leaves a factor of two; beyond it the clock stands still.
            self.now_ns = self.now_ns.saturating_add(gap).min(MAX_TIME_NS);
        }
        self.made += 1;
        let record = Record::new(self.now_ns, op, false, first, len, 0);
        Some(record.expect("checked parameters keep every request in bounds"))
    }
}
