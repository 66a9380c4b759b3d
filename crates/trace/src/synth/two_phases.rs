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
use super::{Records, Synth, defaults, read, schema};
use crate::error::TraceError;
use crate::record::{MAX_END_SECTORS, MAX_TIME_NS, Record};
use nandu_base::{ByteLen, Op, Rng, SECTOR, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A load that changes.
pub static SYNTH: Synth = Synth {
    name: NAME,
    summary: "reads of neighbourhoods, then of single pages again and again, in turns",
    published: "none: its parameters are exact",
    defaults: defaults::<TwoPhases>,
    schema: schema::<TwoPhases>,
    make,
};

const NAME: &str = "two-phases";
const PAGE: u64 = 4096;

/// Parameters of `two-phases`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TwoPhases {
    /// Requests to make.
    pub requests: u64,
    /// Requests of a phase.
    pub phase: u64,
    /// Mean time between arrivals, exponentially distributed.
    pub interarrival: Span,
    /// Address space, a multiple of the neighbourhood.
    pub space: ByteLen,
    /// Bytes that are read from their start to their end, a multiple of 4 KiB.
    pub neighbourhood: ByteLen,
    /// Neighbourhoods that are read at the same time.
    pub open: u64,
    /// Pages that are read again and again, at most one for each neighbourhood of the space.
    pub again: u64,
}

impl Default for TwoPhases {
    fn default() -> TwoPhases {
        TwoPhases {
            requests: 200_000,
            phase: 50_000,
            interarrival: Span::from_ms(1),
            space: ByteLen::gib(3),
            neighbourhood: ByteLen::kib(32),
            open: 2_000,
            again: 24_000,
        }
    }
}

fn make(params: &Value, seed: u64) -> Result<Box<dyn Records>, TraceError> {
    let p = read::<TwoPhases>(NAME, params)?;
    check(&p).map_err(|(parameter, why)| TraceError::Parameter {
        generator: NAME,
        parameter: parameter.into(),
        why,
    })?;
    Ok(Box::new(Phases::new(p, seed)))
}

/// The first setting out of bounds: its name and what would be right.
fn check(p: &TwoPhases) -> Result<(), (&'static str, String)> {
    let fail = |name, why: String| Err((name, why));
    if p.neighbourhood.0 == 0 || !p.neighbourhood.0.is_multiple_of(PAGE) {
        return fail("neighbourhood", "a positive multiple of 4 KiB".into());
    }
    let places = p.space.0 / p.neighbourhood.0;
    if places == 0 || !p.space.0.is_multiple_of(p.neighbourhood.0) || p.space.0 / SECTOR > MAX_END_SECTORS {
        return fail("space", "a multiple of the neighbourhood, at most 128 TiB".into());
    }
    for (name, value, most) in
        [("open", p.open, places.min(1 << 24)), ("again", p.again, places), ("phase", p.phase, u64::MAX)]
    {
        if value == 0 || value > most {
            return fail(name, format!("{value} is not from 1 to {most}"));
        }
    }
    if u128::from(p.requests.max(100)) * u128::from(p.interarrival.0) > u128::from(MAX_TIME_NS / 2) {
        return fail("requests", "requests times interarrival is at most 26 days; lower one of them".into());
    }
    Ok(())
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
