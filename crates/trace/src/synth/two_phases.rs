//! `two-phases`: a load that changes, between reads of neighbourhoods and reads of single pages again and again.
//!
//! Every request reads one page of 4 KiB. In the first phase, and in every second one after it, `open` neighbourhoods are
//! read at a time: a request takes one of them evenly and reads its next page; one that was read to its end is followed by
//! another place of the space. No page is met twice soon, but what lies beside it will be: prefetching gains, and needs
//! memory for all that are open. In the phases between, pages are drawn evenly from `again` pages that lie one to a
//! neighbourhood: what was read will be met, what lies beside it never. So the best division of a cache is another one in
//! each phase, and a cache that adapts can be held against both.
//!
//! Not a stand-in for any published trace. Cost: 16 bytes for each open neighbourhood.

use super::fixed::exponential;
use super::{Generate, MOST_SPACE, Made, Records, check_gaps};
use crate::record::{MAX_TIME_NS, Record};
use nandu_base::{BuildError, ByteLen, Declared, Op, Rng, SECTOR, Span, options};
use serde::Serialize;

const PAGE: u64 = 4096;

/// Parameters of `two-phases`.
#[options]
#[derive(Clone, Debug, Serialize)]
pub struct TwoPhases {
    /// Requests to make.
    #[option(default = 200_000, also = "all arrivals within 26 days")]
    pub requests: u64,
    /// Requests of a phase.
    #[option(default = 50_000, range = 1..)]
    pub phase: u64,
    /// Mean time between arrivals, exponentially distributed.
    #[option(default = Span::from_ms(1), also = "all arrivals within 26 days")]
    pub interarrival: Span,
    /// Address space.
    #[option(default = ByteLen::gib(3), range = ByteLen(PAGE)..=MOST_SPACE, also = "a multiple of `neighbourhood`")]
    pub space: ByteLen,
    /// Bytes that are read from their start to their end.
    #[option(default = ByteLen::kib(32), range = ByteLen(PAGE).., multiple_of = ByteLen(PAGE))]
    pub neighbourhood: ByteLen,
    /// Neighbourhoods that are read at the same time.
    #[option(default = 2_000, range = 1..=1 << 24, also = "no more than `space` has")]
    pub open: u64,
    /// Pages that are read again and again.
    #[option(default = 24_000, range = 1.., also = "at most one for each neighbourhood of the space")]
    pub again: u64,
}

impl Declared for TwoPhases {
    const NAME: &'static str = "two-phases";
    const SUMMARY: &'static str = "reads of neighbourhoods, then of single pages again and again, in turns";
    const SOURCE: &'static str = "none: its parameters are exact";
}

impl Generate for TwoPhases {
    fn records(&self, seed: u64) -> Made {
        self.check()?;
        Ok(Box::new(Phases::new(self.clone(), seed)))
    }
}

impl TwoPhases {
    fn check(&self) -> Result<(), BuildError> {
        let places = self.space.0 / self.neighbourhood.0;
        if places == 0 || !self.space.0.is_multiple_of(self.neighbourhood.0) {
            return Err(BuildError::at("space", "a multiple of the neighbourhood, at most 128 TiB"));
        }
        for (name, value) in [("open", self.open), ("again", self.again)] {
            if value > places {
                return Err(BuildError::at(name, format!("{value} is not from 1 to {places}")));
            }
        }
        check_gaps(self.requests, self.interarrival)
    }
}

/// A neighbourhood that is being read.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: u64,
    read: u64,
}

/// Yields the records of a [`TwoPhases`] and a seed.
#[derive(Clone, Debug)]
pub struct Phases {
    p: TwoPhases,
    arrivals: Rng,
    places: Rng,
    /// Neighbourhoods of the space, and pages of one.
    neighbourhoods: u64,
    pages: u64,
    open: Vec<Open>,
    made: u64,
    now_ns: u64,
}

impl Phases {
    fn new(p: TwoPhases, seed: u64) -> Phases {
        let root = Rng::new(seed);
        let (neighbourhoods, pages) = (p.space.0 / p.neighbourhood.0, p.neighbourhood.0 / PAGE);
        let mut places = root.fork(2);
        // They are met half read on average, as later on.
        let open = (0..p.open)
            .map(|_| Open { first: places.below(neighbourhoods) * pages, read: places.below(pages) });
        Phases {
            open: open.collect(),
            arrivals: root.fork(1),
            places,
            neighbourhoods,
            pages,
            made: 0,
            now_ns: 0,
            p,
        }
    }

    /// The next page of one of the open neighbourhoods.
    fn near(&mut self) -> u64 {
        let at = self.places.below(self.p.open) as usize;
        let next = self.places.below(self.neighbourhoods) * self.pages;
        let open = &mut self.open[at];
        let page = open.first + open.read;
        open.read += 1;
        if open.read == self.pages {
            *open = Open { first: next, read: 0 };
        }
        page
    }

    /// One of the pages that are read again: they lie evenly over the space, at any place of their neighbourhood.
    fn again(&mut self) -> u64 {
        let rank = self.places.below(self.p.again);
        let neighbourhood =
            (u128::from(rank) * u128::from(self.neighbourhoods) / u128::from(self.p.again)) as u64;
        neighbourhood * self.pages + rank % self.pages
    }
}

impl Records for Phases {
    fn left(&self) -> u64 {
        self.p.requests - self.made
    }
    fn boxed_clone(&self) -> Box<dyn Records> {
        Box::new(self.clone())
    }
}

impl Iterator for Phases {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.p.requests {
            return None;
        }
        if self.made > 0 {
            let gap = exponential(self.p.interarrival.0, self.arrivals.bits());
            // The check on the mean leaves a factor of two; beyond it the clock stands still.
            self.now_ns = self.now_ns.saturating_add(gap).min(MAX_TIME_NS);
        }
        let near = (self.made / self.p.phase).is_multiple_of(2);
        self.made += 1;
        let page = if near { self.near() } else { self.again() };
        let sectors = PAGE / SECTOR;
        let record = Record::new(self.now_ns, Op::Read, false, page * sectors, sectors, 0);
        Some(record.expect("checked parameters keep every request in bounds"))
    }
}
