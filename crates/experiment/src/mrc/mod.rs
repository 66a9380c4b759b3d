//! Curves of miss ratios, page by page, without a device.
//!
//! LRU takes one pass for all sizes, by stack distance ([`nandu_trace::reuse`]); any other policy of the registry is simulated for each size.
//! Either is done with all blocks, or with a part of them ([`sample`]).

mod sample;

use crate::failure::Failure;
use crate::format::plural;
use crate::parallel;
use nandu_base::units::{parse_ratio, parse_size};
use nandu_base::{BuildError, ByteLen, Op, Ratio, Registry, SECTOR};
use nandu_cache::directory::Tally;
use nandu_cache::page_sim::{Access, Accesses, Lookup, PageCache, PageResult, Take, simulate};
use nandu_cache::replacement::{AnyReplacement, LineOf, ReplacementConfig};
use nandu_trace::fit::Fit;
use nandu_trace::pages::{PageIndex, PageSet, page_range};
use nandu_trace::record::MAX_END_SECTORS;
use nandu_trace::requests::BLOCK as REQUESTS;
use nandu_trace::reuse::StackDistance;
use nandu_trace::{Record, Requests};
use sample::{Estimate, Sample};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Sizes of a curve when none are given.
const SIZES: u32 = 20;
/// Footprints up to this many blocks (2 TiB) have stack distances, also of a sample whose groups are uneven.
const STACK_BLOCKS: u64 = 1 << 29;
/// Devices up to this many blocks (16 TiB) are found by table, larger ones by hash.
const FLAT_BLOCKS: u64 = 1 << 32;
/// Blocks of a segment for the policies that need one.
const SEGMENT_BLOCKS: u64 = 8;
/// Least lines of a sample, some twelve for each group that tells its error.
const LEAST_LINES: u64 = 100;

/// A policy by name, with its defaults.
#[derive(Clone, Debug)]
pub struct Policy(ReplacementConfig);

impl Policy {
    /// The policy `name` of `registry`.
    ///
    /// # Errors
    /// It has none of that name.
    pub fn of(name: &str, registry: &Registry) -> Result<Policy, String> {
        Ok(Policy(ReplacementConfig::of(name, registry).map_err(|error| error.reason)?))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    fn options(&self) -> &dyn AnyReplacement {
        self.0.options().expect("the registry has it")
    }
}

/// A size of the cache: blocks, or bytes with a unit.
#[derive(Clone, Copy, Debug)]
pub struct CacheSize(u64);

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CacheSize, String> {
        let blocks = match text.replace('_', "").parse::<u64>() {
            Ok(blocks) => blocks,
            Err(_) => parse_size(text).map_err(|e| e.to_string())?.0 / BLOCK,
        };
        match blocks {
            0 => Err("a cache has at least one block of 4 KiB".into()),
            blocks if blocks >= u64::from(u32::MAX) => Err("a cache has less than 16 TiB".into()),
            blocks => Ok(CacheSize(blocks)),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who goes when memory is short.
    pub policies: Vec<Policy>,
    /// Sizes of the cache; sizes up to the footprint when there are none.
    pub sizes: Vec<CacheSize>,
    /// The whole segment of a block is brought that is read and not there.
    pub segment: Option<ByteLen>,
    /// The share of the blocks from which the curves are estimated.
    pub sample: Option<Ratio>,
    /// Blocks are found by a hashed table and not by number.
    pub hashed: bool,
    /// How often the trace is gone through.
    pub repeat: u32,
    /// Sizes and policies at the same time.
    pub threads: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Curves {
    /// The trace.
    pub trace: String,
    /// Blocks that it touches.
    pub footprint_blocks: u64,
    /// By size, and for each size in the order of the policies.
    pub points: Vec<Point>,
}

impl Curves {
    /// As JSON with stable field names.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": nandu_sim::result::SCHEMA,
            "trace": self.trace,
            "footprint_blocks": self.footprint_blocks,
            "block_bytes": BLOCK,
            "points": self.points,
        })
    }
}

/// One point of a curve.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// The policy.
    pub policy: String,
    /// Blocks of the cache.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Bytes that are brought at once.
    pub segment_bytes: u64,
    /// Accesses to blocks.
    pub accesses: u64,
    /// Those that found a block that was asked for before.
    pub cache_hits: u64,
    /// Those that found a block for the first time, brought with its segment.
    pub prefetch_hits: u64,
    /// Those that found nothing.
    pub misses: u64,
    /// Their share.
    pub miss_ratio: f64,
    /// Blocks that were brought with others.
    pub prefetched_blocks: u64,
    /// Blocks that were given up for others of their segment.
    pub culled_blocks: u64,
    /// Blocks that went before they were asked for.
    pub evicted_unused_blocks: u64,
    /// Of a cache that was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_operations: Option<u64>,
    /// Memory of its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bytes: Option<usize>,
    /// Of a curve from a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_accesses: Option<u64>,
    /// That of the miss ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
}

/// What one thread does at a time.
enum Case<'a> {
    /// All sizes at once.
    Curve(&'a Policy),
    /// One size.
    One(&'a Policy, u64),
}

/// The curve of each policy over `trace`, which messages call `shown`.
///
/// # Errors
/// The trace has no block, or what is asked for has none of the forms there are.
pub fn curves(trace: Requests, shown: &str, asked: &Asked) -> Result<Curves, Failure> {
    let room = ByteLen(MAX_END_SECTORS * SECTOR);
    let name = trace.meta().source.clone();
    let (trace, _) = trace.fit(room, Fit::Concat).map_err(|e| Failure::input(format!("{}: {e}", shown)))?;
    let (blocks, index) = extent(&trace);
    let footprint = index.len();
    if footprint == 0 {
        return Err(Failure::input(format!("{}: no request touches a page", shown)));
    }
    let twice =
        |at: usize, policy: &Policy| asked.policies[..at].iter().any(|other| other.name() == policy.name());
    if let Some((_, policy)) = asked.policies.iter().enumerate().find(|(at, policy)| twice(*at, policy)) {
        let name = policy.name();
        return Err(Failure::input(format!("policy `{name}` is named twice; name each once")));
    }
    let segment = asked.segment.map_or(Ok(SEGMENT_BLOCKS), segment_blocks)?;
    let sizes = match asked.sizes.is_empty() {
        true => default_sizes(footprint),
        false => asked.sizes.iter().map(|s| s.0).collect::<BTreeSet<u64>>().into_iter().collect(),
    };
    let line = |policy: &Policy| match policy.options().line() == LineOf::Segment || asked.segment.is_some() {
        true => segment,
        false => 1,
    };
    // One pass for all sizes takes about as long as four caches of one size.
    let pays = sizes.len() > 4 || asked.sample.is_some();
    let is_lru = |policy: &Policy| policy.name() == "lru" && asked.segment.is_none();
    let at_once = |policy: &Policy| pays && is_lru(policy) && footprint <= STACK_BLOCKS;
    let cases: Vec<Case<'_>> = asked
        .policies
        .iter()
        .flat_map(|policy| match at_once(policy) {
            true => vec![Case::Curve(policy)],
            false => sizes.iter().map(|&size| Case::One(policy, size)).collect(),
        })
        .collect();
    let lines: BTreeSet<u64> = asked.policies.iter().map(line).collect();
    let mut samples = BTreeMap::new();
    for (rate, line) in asked.sample.iter().flat_map(|rate| lines.iter().map(move |line| (*rate, *line))) {
        let sample = Sample::of(rate, line, accesses(&trace));
        let unwritten = |error| Failure::failed(format!("the sample, in a temporary file: {error}"));
        let sample = sample.map_err(unwritten)?;
        if sample.lines < LEAST_LINES {
            return Err(Failure::input(format!(
                "{shown}: {} take part in a sample of {}/{}, too few to tell a ratio or its error; take a larger share, with at least \
                 {LEAST_LINES}, or the whole trace",
                plural(sample.lines, if line == 1 { "block" } else { "segment" }),
                rate.num,
                rate.den
            )));
        }
        samples.insert(line, sample);
    }
    let lookup = match asked.hashed || blocks > FLAT_BLOCKS {
        true => Lookup::Hashed,
        false => Lookup::Flat(blocks),
    };
    let (trace, repeat) = (&trace, asked.repeat);
    let once = |take: &mut Take<'_>| {
        let (mut accesses, mut block) = (accesses(trace), Vec::with_capacity(REQUESTS));
        loop {
            block.clear();
            block.extend(accesses.by_ref().take(REQUESTS));
            if block.is_empty() {
                break;
            }
            take(&block);
        }
    };
    let done = parallel::map(&cases, asked.threads, |case| match *case {
        Case::Curve(policy) => {
            let at = |i: usize| Point { policy: policy.name().into(), ..Point::of_size(sizes[i], 1) };
            let points: Vec<Point> = match samples.get(&1) {
                Some(sample) => {
                    let estimates = sample.lru(&sizes, repeat).expect("there are not too many blocks");
                    estimates.iter().enumerate().map(|(i, e)| at(i).estimated(e, sample, repeat)).collect()
                }
                None => {
                    let (accesses, misses) = lru_misses(&sizes, trace, &index, repeat);
                    misses
                        .into_iter()
                        .enumerate()
                        .map(|(i, misses)| at(i).missing(misses, accesses))
                        .collect()
                }
            };
            Ok(points)
        }
        Case::One(policy, capacity) => {
            let segment = line(policy);
            let at = Point { policy: policy.name().into(), ..Point::of_size(capacity, segment) };
            let point = match samples.get(&segment) {
                Some(sample) => {
                    let (estimate, tally) = sample.simulate(&policy.0, capacity, repeat)?;
                    at.counted(&tally, |n| sample.whole(n)).estimated(&estimate, sample, repeat)
                }
                None => {
                    let cache = PageCache { replacement: policy.0.clone(), capacity, segment, lookup };
                    at.simulated(&simulate(&cache, Accesses { once: &once, times: repeat })?)
                }
            };
            Ok(vec![point])
        }
    });
    let done: Vec<Vec<Point>> =
        done.into_iter().collect::<Result<_, BuildError>>().map_err(|e| Failure::input(e.to_string()))?;
    let mut points: Vec<Point> = done.into_iter().flatten().collect();
    // By size, and for each size in the order in which policies were named.
    let place = |point: &Point| asked.policies.iter().position(|policy| policy.0.name() == point.policy);
    points.sort_by_key(|point| (point.blocks, place(point)));
    Ok(Curves { trace: name, footprint_blocks: footprint, points })
}

/// A share above 0 and at most 1, for [`Asked::sample`].
///
/// # Errors
/// It is none.
pub fn sample(text: &str) -> Result<Ratio, String> {
    match parse_ratio(text) {
        Ok(ratio) if ratio.num > 0 && ratio.num <= ratio.den => Ok(ratio),
        Ok(_) => Err("a share between 0 and 1 is needed".into()),
        Err(_) => Err("write a share, for example 1/100 or 1%".into()),
    }
}

/// A size, for [`Asked::segment`].
///
/// # Errors
/// It is none.
pub fn segment(text: &str) -> Result<ByteLen, String> {
    parse_size(text).map_err(|e| e.to_string())
}

/// Blocks of the device, and those of them that are met.
fn extent(trace: &Requests) -> (u64, PageIndex) {
    let (mut set, mut end) = (PageSet::new(), 0);
    for record in met(trace) {
        set.add(record);
        end = end.max(page_range(record).1);
    }
    (end, set.index())
}

/// The requests that meet blocks, which trims and flushes do not. Their streams lie in one space.
fn met(trace: &Requests) -> impl Iterator<Item = Record> {
    let meets = |r: &Record| matches!(r.op(), Op::Read | Op::Write) && !r.is_empty();
    trace.iter().filter(meets).map(Record::in_one_stream)
}

/// The blocks that they meet.
fn accesses(trace: &Requests) -> impl Iterator<Item = Access> {
    let mut before = u64::MAX;
    met(trace).map(move |record| {
        let (first, end) = page_range(record);
        let sequential = first == std::mem::replace(&mut before, end);
        Access { first, blocks: (end - first) as u32, write: record.op() == Op::Write, sequential }
    })
}

/// Accesses, and those that miss in LRU caches of `sizes`, which rise.
fn lru_misses(sizes: &[u64], trace: &Requests, index: &PageIndex, repeat: u32) -> (u64, Vec<u64>) {
    let mut stack = StackDistance::new(index.len()).expect("there are not too many blocks");
    let mut accesses = 0;
    for record in (0..repeat).flat_map(|_| met(trace)) {
        let (first, end) = page_range(record);
        accesses += end - first;
        stack.access(index.rank(record), end - first);
    }
    (accesses, stack.hits(sizes).into_iter().map(|hits| accesses - hits).collect())
}

fn segment_blocks(segment: ByteLen) -> Result<u64, Failure> {
    let blocks = segment.0 / BLOCK;
    if !segment.0.is_power_of_two() || !(1..=64).contains(&blocks) {
        let why = format!("--segment {segment}: a power of two from 4 KiB to 256 KiB is needed");
        return Err(Failure::input(why));
    }
    Ok(blocks)
}

/// Sizes from the footprint down, each smaller by the square root of two.
fn default_sizes(footprint: u64) -> Vec<u64> {
    let size = |k: u32| {
        let halved = footprint >> (k / 2);
        if k.is_multiple_of(2) { halved } else { ((u128::from(halved) * 46_341) >> 16) as u64 }
    };
    let mut sizes: Vec<u64> = (0..SIZES).map(size).filter(|&s| s > 0).collect();
    sizes.reverse();
    sizes.dedup();
    sizes
}

impl Point {
    /// Of a cache of so many blocks, which come by `segment`; nothing is known of it.
    fn of_size(blocks: u64, segment: u64) -> Point {
        let (bytes, segment_bytes) = (blocks * BLOCK, segment * BLOCK);
        Point { blocks, bytes, segment_bytes, ..Point::default() }
    }

    /// So many of the accesses miss, and nothing was brought ahead.
    fn missing(self, misses: u64, accesses: u64) -> Point {
        let miss_ratio = misses as f64 / accesses.max(1) as f64;
        Point { accesses, misses, cache_hits: accesses - misses, miss_ratio, ..self }
    }

    /// What was counted, each figure through `whole`.
    fn counted(self, tally: &Tally, whole: impl Fn(u64) -> u64) -> Point {
        Point {
            prefetch_hits: whole(tally.prefetch_hits),
            prefetched_blocks: whole(tally.prefetched),
            culled_blocks: whole(tally.culled),
            evicted_unused_blocks: whole(tally.evicted_unused),
            ..self
        }
    }

    fn simulated(self, result: &PageResult) -> Point {
        let tally = &result.tally;
        Point {
            accesses: result.accesses(),
            cache_hits: tally.cache_hits,
            misses: tally.misses,
            miss_ratio: result.miss_ratio(),
            list_operations: Some(tally.list_operations),
            metadata_bytes: Some(result.metadata_bytes),
            ..self.counted(tally, |n| n)
        }
    }

    /// As a sample has it, which was met `times`.
    fn estimated(self, estimate: &Estimate, sample: &Sample, times: u32) -> Point {
        let accesses = sample.all * u64::from(times);
        let misses = (estimate.ratio * accesses as f64).round() as u64;
        let cache_hits = (accesses - misses).saturating_sub(self.prefetch_hits);
        Point {
            accesses,
            misses,
            cache_hits,
            miss_ratio: estimate.ratio,
            sampled_accesses: Some(sample.accesses * u64::from(times)),
            standard_error: Some(estimate.error),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use nandu_trace::{Meta, Trace};

    const POLICIES: [&str; 6] = ["lru", "arc", "s3-fifo", "sieve", "lirs", "adaptive-culling"];

    /// Requests of up to four blocks of which low numbers are met far more often, in two streams.
    fn trace(seed: u64, requests: u64) -> Requests {
        let mut rng = Rng::new(seed);
        let one = |i: u64| {
            let block = rng.below(1 << 7) * rng.below(1 << 8);
            let op = if rng.below(3) > 0 { Op::Read } else { Op::Write };
            Record::new(i, op, false, block * 8, 8 * (1 + rng.below(4)), (i % 2) as u16).expect("in bounds")
        };
        let names = vec!["a".into(), "b".into()];
        Trace::from_records((0..requests).map(one).collect(), names, Meta::default()).expect("a trace").into()
    }

    fn points(trace: &Requests, sizes: &[&str], sample: Option<Ratio>) -> Vec<Point> {
        let registry = nandu_stack::builtin::builtin();
        let asked = Asked {
            policies: POLICIES.iter().map(|name| Policy::of(name, &registry).expect("a policy")).collect(),
            sizes: sizes.iter().map(|size| size.parse().expect("a size")).collect(),
            segment: None,
            sample,
            hashed: false,
            repeat: 2,
            threads: 2,
        };
        curves(trace.clone(), "t", &asked).expect("curves").points
    }

    #[test]
    fn a_sample_of_everything_is_the_whole() {
        let (trace, sizes) = (trace(1, 3000), ["10", "100", "1000", "20000", "40000"]);
        let exact = points(&trace, &sizes, None);
        for (want, got) in exact.iter().zip(points(&trace, &sizes, Some(Ratio::new(1, 1)))) {
            let figures = |p: &Point| (p.misses, p.accesses, p.cache_hits, p.prefetch_hits, p.culled_blocks);
            assert_eq!(figures(want), figures(&got), "{} of {}", want.policy, want.blocks);
            assert_eq!(got.sampled_accesses, Some(want.accesses));
        }
    }

    #[test]
    fn a_sample_is_as_wrong_as_it_says() {
        let sizes = ["600", "2000", "6000", "16000"];
        let (mut within, mut all, mut errors) = (0, 0, 0.0);
        for seed in 1..=5 {
            let trace = trace(seed, 30_000);
            let exact = points(&trace, &sizes, None);
            for (exact, some) in exact.iter().zip(points(&trace, &sizes, Some(Ratio::new(1, 8)))) {
                let (want, got) = (exact.miss_ratio, some.miss_ratio);
                let error = some.standard_error.expect("an error");
                assert!((want - got).abs() < 0.15, "seed {seed}, {}: {want}, {got} +- {error}", some.policy);
                within += u32::from((want - got).abs() <= 3.0 * error);
                (all, errors) = (all + 1, errors + error);
                let sampled = some.sampled_accesses.expect("a number");
                assert!(sampled < exact.accesses / 4 && sampled > exact.accesses / 16);
            }
        }
        assert!(within * 10 >= all * 9, "{within} of {all} within three standard errors");
        assert!(errors / f64::from(all) < 0.05 && errors > 0.0, "mean error {}", errors / f64::from(all));
    }
}
