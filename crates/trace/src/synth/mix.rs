//! The mixture all generators are settings of: arrivals, operations, sizes and places drawn independently.
//!
//! Per request, in this order: the gap (exponential, with a share of short gaps for bursts, on a clock that a [cycle](super::cycle)
//! may bend), the operation, the length, and the place. A place is sequential (where the request before ended), near there, or a grain drawn by Zipf rank (or
//! evenly) and scattered over the space in pieces, with the start inside the grain aligned or on any sector. Where several streams are mixed, the request before is
//! that of the same stream, drawn evenly. Each kind of draw has a random stream of its own, so changing the write share does not move the addresses.

use super::cycle::{Cycle, CycleParams};
use super::fixed::exponential;
use super::zipf::{MAX_RANKS, Scatter, Zipf};
use super::{MOST_LEN, MOST_SPACE, Made, Records, check_gaps};
use crate::record::{MAX_TIME_NS, Record};
use nandu_base::{BuildError, ByteLen, Op, Ratio, Rng, SECTOR, Span};

/// Requests in which ranks move by the drift.
const DRIFT_REQUESTS: u128 = 1_000;

/// Streams at most.
pub const MOST_STREAMS: u64 = 1 << 16;

/// How far a request that starts near the one before starts from its end, at most.
pub const NEAR: ByteLen = ByteLen::mib(1);

/// Settings of a [`Mix`]. Shares are at most 1, the Zipf exponent at most [`MOST_ZIPF`](super::MOST_ZIPF).
#[derive(Clone, Debug)]
pub struct MixParams {
    /// Requests to make.
    pub requests: u64,
    /// Mean time between arrivals.
    pub interarrival: Span,
    /// Share of gaps with the short mean below; the others are longer, so that the overall mean holds.
    pub burst: Ratio,
    /// Mean of the short gaps.
    pub burst_interarrival: Span,
    /// Busy and quiet phases of arrivals.
    pub cycle: CycleParams,
    /// Share of writes; what is left after write, flush and trim is read.
    pub write: Ratio,
    /// Share of flushes.
    pub flush: Ratio,
    /// Share of trims.
    pub trim: Ratio,
    /// Share of writes with FUA.
    pub fua: Ratio,
    /// Lengths with their weights; multiples of 512 B.
    pub sizes: Vec<(ByteLen, u64)>,
    /// Addresses lie in `0..space`.
    pub space: ByteLen,
    /// Writes and trims lie evenly in this much behind `space`; 0 for in the same.
    pub write_space: ByteLen,
    /// Bytes that are ever started at, from rank 1 down; at most `space`.
    pub hot: ByteLen,
    /// Starts are drawn in units of this.
    pub grain: ByteLen,
    /// Ranks are scattered over the space in pieces of this many bytes, a multiple of the grain.
    pub piece: ByteLen,
    /// Zipf exponent; `None` draws evenly.
    pub zipf: Option<Ratio>,
    /// How far ranks move over the hot part in 1,000 requests: grains that were never asked for come in at rank 1 and
    /// grow cold; 0 for ranks that stay where they are.
    pub drift: ByteLen,
    /// Streams that take turns at random, each with places of its own where a request before ended; at least 1, at most [`MOST_STREAMS`].
    pub streams: u64,
    /// Share of requests that start where the one before of their stream ended.
    pub sequential: Ratio,
    /// Share of the others that start at an even place less than [`NEAR`] away from there.
    pub near: Ratio,
    /// Share of the others that start at a grain; the rest start at any sector of it.
    pub aligned: Ratio,
}

impl MixParams {
    /// Reads and a share of writes at even places of `space`, in whole units of 4 KiB: what a generator says of itself comes
    /// on top. Lengths are still to be given.
    pub fn plain(requests: u64, interarrival: Span, write: Ratio, space: ByteLen) -> MixParams {
        MixParams {
            requests,
            interarrival,
            burst: Ratio::ZERO,
            burst_interarrival: Span::ZERO,
            cycle: CycleParams::default(),
            write,
            flush: Ratio::ZERO,
            trim: Ratio::ZERO,
            fua: Ratio::ZERO,
            sizes: Vec::new(),
            space,
            write_space: ByteLen::ZERO,
            hot: space,
            grain: ByteLen::kib(4),
            piece: ByteLen::kib(4),
            zipf: None,
            drift: ByteLen::ZERO,
            streams: 1,
            sequential: Ratio::ZERO,
            near: Ratio::ZERO,
            aligned: Ratio::new(1, 1),
        }
    }
}

/// Yields the records of a [`MixParams`] and a seed.
#[derive(Clone, Debug)]
pub struct Mix {
    p: MixParams,
    arrivals: Rng,
    ops: Rng,
    lengths: Rng,
    places: Rng,
    ranks: Option<Zipf>,
    cycle: Option<Cycle>,
    scatter: Scatter,
    long_gap_ns: u64,
    size_weights: u64,
    made: u64,
    now_ns: u64,
    /// Where the last request of the stream that is on ended.
    last_end_sectors: u64,
    /// The same of the other streams.
    ends_sectors: Box<[u64]>,
    /// The stream that is on.
    stream: usize,
}

impl Mix {
    /// The records of the mixture `p`.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub fn records(p: MixParams, seed: u64) -> Made {
        Ok(Box::new(Mix::new(p, seed)?))
    }

    fn new(p: MixParams, seed: u64) -> Result<Mix, BuildError> {
        check(&p)?;
        let root = Rng::new(seed);
        // Overall mean = burst * short + (1 - burst) * long.
        let (num, den) = (u128::from(p.burst.num), u128::from(p.burst.den));
        let total = u128::from(p.interarrival.0) * den - u128::from(p.burst_interarrival.0) * num;
        Ok(Mix {
            arrivals: root.fork(1),
            ops: root.fork(2),
            lengths: root.fork(3),
            places: root.fork(4),
            cycle: Cycle::new(p.cycle),
            ranks: p.zipf.map(|theta| Zipf::new(p.hot.0 / p.grain.0, theta)),
            scatter: Scatter::new(p.space.0 / p.piece.0, &mut root.fork(5)),
            long_gap_ns: (total / (den - num)) as u64,
            size_weights: p.sizes.iter().map(|&(_, w)| w).sum(),
            made: 0,
            now_ns: 0,
            last_end_sectors: 0,
            ends_sectors: vec![0; p.streams as usize].into(),
            stream: 0,
            p,
        })
    }

    fn gap(&mut self) -> u64 {
        let short = self.arrivals.chance(self.p.burst);
        let mean = if short { self.p.burst_interarrival.0 } else { self.long_gap_ns };
        exponential(mean, self.arrivals.bits())
    }

    fn op(&mut self) -> (Op, bool) {
        let op = if self.ops.chance(self.p.flush) {
            Op::Flush
        } else if self.ops.chance(self.p.trim) {
            Op::Trim
        } else if self.ops.chance(self.p.write) {
            Op::Write
        } else {
            Op::Read
        };
        (op, op == Op::Write && self.ops.chance(self.p.fua))
    }

    fn len_sectors(&mut self) -> u64 {
        let mut at = self.lengths.below(self.size_weights);
        for &(len, weight) in &self.p.sizes {
            if at < weight {
                return len.0 / SECTOR;
            }
            at -= weight;
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }

    /// The rank that a drawn one had at the start: whoever is at rank 1 was not yet hot then.
    fn drifted(&self, rank: u64, grains: u64) -> u64 {
        let bytes = u128::from(self.made) * u128::from(self.p.drift.0) / DRIFT_REQUESTS;
        let moved = (bytes / u128::from(self.p.grain.0) % u128::from(grains)) as u64;
        if rank < moved { rank + grains - moved } else { rank - moved }
    }

    fn start_sectors(&mut self, op: Op, len: u64) -> u64 {
        let end = self.p.space.0 / SECTOR;
        let write_grains = self.p.write_space.0 / self.p.grain.0;
        if write_grains > 0 && op != Op::Read {
            let start = self.places.below(write_grains) * self.p.grain.0 / SECTOR;
            return end + start.min(self.p.write_space.0 / SECTOR - len);
        }
        if self.p.streams > 1 {
            self.next_stream();
        }
        if self.places.chance(self.p.sequential) && self.last_end_sectors + len <= end {
            return self.last_end_sectors;
        }
        if self.p.near.num > 0 && self.places.chance(self.p.near) {
            return self.near(self.last_end_sectors).min(end - len);
        }
        let grains = self.p.hot.0 / self.p.grain.0;
        let rank = match &self.ranks {
            Some(zipf) => zipf.draw(&mut self.places),
            None => self.places.below(grains),
        };
        let rank = if self.p.drift.0 == 0 { rank } else { self.drifted(rank, grains) };
        let per_piece = self.p.piece.0 / self.p.grain.0;
        let grain = self.scatter.place(rank / per_piece) * per_piece + rank % per_piece;
        // At the end of the space a request moves back as a whole.
        self.within(grain).min(end - len)
    }

    /// Another stream comes on, or the same.
    #[inline(never)]
    fn next_stream(&mut self) {
        self.ends_sectors[self.stream] = self.last_end_sectors;
        self.stream = self.places.below(self.p.streams) as usize;
        self.last_end_sectors = self.ends_sectors[self.stream];
    }

    /// A place less than [`NEAR`] away from a sector, and not before the first one.
    #[inline(never)]
    fn near(&mut self, sector: u64) -> u64 {
        let reach = NEAR.0 / self.p.grain.0;
        let from = (sector / (self.p.grain.0 / SECTOR)).saturating_sub(reach);
        let grain = from + self.places.below(2 * reach);
        self.within(grain)
    }

    /// The first sector of a grain, or any of its.
    #[inline(always)]
    fn within(&mut self, grain: u64) -> u64 {
        let sectors = self.p.grain.0 / SECTOR;
        let within = if self.places.chance(self.p.aligned) { 0 } else { self.places.below(sectors) };
        grain * sectors + within
    }
}

impl Records for Mix {
    fn left(&self) -> u64 {
        self.p.requests - self.made
    }
    fn boxed_clone(&self) -> Box<dyn Records> {
        Box::new(self.clone())
    }
}

impl Iterator for Mix {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.p.requests {
            return None;
        }
        if self.made > 0 {
            // The check on the mean leaves a factor of two; beyond it the clock stands still.
            self.now_ns = self.now_ns.saturating_add(self.gap()).min(MAX_TIME_NS);
        }
        self.made += 1;
        let at = self.cycle.map_or(self.now_ns, |cycle| cycle.bend(self.now_ns).min(MAX_TIME_NS));
        let (op, fua) = self.op();
        let record = if op == Op::Flush {
            Record::new(at, op, false, 0, 0, 0)
        } else {
            let len = self.len_sectors();
            let start = self.start_sectors(op, len);
            self.last_end_sectors = start + len;
            Record::new(at, op, fua, start, len, 0)
        };
        Some(record.expect("checked parameters keep every request in bounds"))
    }
}

/// Whether the settings go together.
fn check(p: &MixParams) -> Result<(), BuildError> {
    let fail = |name: &'static str, why: String| Err(BuildError::at(name, why));
    check_times(p)?;
    let longest = p.sizes.iter().map(|&(len, _)| len.0).max().unwrap_or(0);
    let bad = |&(len, _): &(ByteLen, u64)| len.0 == 0 || !len.0.is_multiple_of(SECTOR);
    if p.write_space.0 > 0 && longest > p.write_space.0 {
        return fail("write_space", "every request fits it".into());
    }
    if p.sizes.iter().any(bad) || longest > MOST_LEN.0 || longest > p.space.0 {
        return fail(
            "size",
            "a request is 512 B to 2 GiB - 512 B, a multiple of 512 B, and fits the space".into(),
        );
    }
    check_places(p)?;
    let weights = p.sizes.iter().try_fold(0u64, |sum, &(_, w)| sum.checked_add(w));
    if weights.is_none_or(|w| w == 0) {
        return fail("size", "at least one length needs a weight above 0".into());
    }
    match p.zipf {
        Some(_) if p.hot.0 / p.grain.0 > MAX_RANKS => {
            fail("hot", format!("Zipf ranks are at most {MAX_RANKS}, {} bytes here", MAX_RANKS * p.grain.0))
        }
        _ => Ok(()),
    }
}

fn check_times(p: &MixParams) -> Result<(), BuildError> {
    let shortest = u128::from(p.burst_interarrival.0) * u128::from(p.burst.num);
    if p.burst.num == p.burst.den || shortest > u128::from(p.interarrival.0) * u128::from(p.burst.den) {
        let why = "bursts alone must stay below the mean: lower the share or the mean of short gaps";
        return Err(BuildError::at("burst", why));
    }
    check_gaps(p.requests, p.interarrival)
}

fn check_places(p: &MixParams) -> Result<(), BuildError> {
    if !(1..=MOST_STREAMS).contains(&p.streams) {
        return Err(BuildError::at("streams", format!("1 to {MOST_STREAMS}")));
    }
    if p.near.num > 0 && p.grain.0 > NEAR.0 {
        return Err(BuildError::at("near", format!("no unit of places is larger than {} bytes", NEAR.0)));
    }
    let whole = |n: u64, of: u64| of != 0 && n != 0 && n.is_multiple_of(of);
    if !whole(p.grain.0, SECTOR) || !whole(p.piece.0, p.grain.0) || !whole(p.space.0, p.piece.0) {
        let unit = p.piece.0.max(p.grain.0).max(SECTOR);
        let why = format!(
            "a positive multiple of {unit} bytes, the unit of places: a `size` that divides the space fits"
        );
        return Err(BuildError::at("space", why));
    }
    if !whole(p.hot.0, p.piece.0) || p.hot.0 > p.space.0 {
        return Err(BuildError::at(
            "hot",
            format!("a positive multiple of {} bytes, at most the space", p.piece.0),
        ));
    }
    if p.space.0.saturating_add(p.write_space.0) > MOST_SPACE.0 {
        return Err(BuildError::at("space", "at most 128 TiB"));
    }
    if !p.write_space.0.is_multiple_of(p.grain.0) {
        return Err(BuildError::at("write_space", format!("a multiple of {} bytes, or 0", p.grain.0)));
    }
    Ok(())
}
