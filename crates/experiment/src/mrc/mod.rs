//! Curves of miss ratios, page by page, without a device.
//!
//! LRU takes one pass for all sizes ([`lru`]); any other policy of the registry is simulated for each size.

mod lru;

use crate::failure::Failure;
use crate::parallel;
use nandu_base::units::{parse_ratio, parse_size};
use nandu_base::{ByteLen, Op, Ratio, Registry, SECTOR};
use nandu_cache::page_sim::{Access, Accesses, Lookup, PageCache, PageResult, Take, simulate};
use nandu_cache::replacement::{AnyReplacement, LineOf, ReplacementConfig};
use nandu_trace::fit::Fit;
use nandu_trace::pages::{PageIndex, PageSet, page_range};
use nandu_trace::record::MAX_END_SECTORS;
use nandu_trace::requests::BLOCK as REQUESTS;
use nandu_trace::{Record, Requests};
use serde::Serialize;
use std::collections::BTreeSet;
use std::str::FromStr;

/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Sizes of a curve when none are given.
const SIZES: u32 = 20;
/// Footprints up to this many blocks (4 TiB) have stack distances.
const STACK_BLOCKS: u64 = 1 << 30;
/// Devices up to this many blocks (16 TiB) are found by table, larger ones by hash.
const FLAT_BLOCKS: u64 = 1 << 32;
/// Blocks of a segment for the policies that need one.
const SEGMENT_BLOCKS: u64 = 8;

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
    /// The share of the blocks from which the curve of LRU is estimated.
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
            "schema": 1,
            "trace": self.trace,
            "footprint_blocks": self.footprint_blocks,
            "block_bytes": BLOCK,
            "points": self.points,
        })
    }
}

/// One point of a curve.
#[derive(Clone, Debug, Serialize)]
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
    let segment = asked.segment.map_or(Ok(SEGMENT_BLOCKS), segment_blocks)?;
    let sizes = match asked.sizes.is_empty() {
        true => default_sizes(footprint),
        false => asked.sizes.iter().map(|s| s.0).collect::<BTreeSet<u64>>().into_iter().collect(),
    };
    let is_lru = |policy: &Policy| policy.0.name() == "lru";
    // One pass for all sizes takes about as long as four caches of one size.
    let pays = sizes.len() > 4 || asked.sample.is_some();
    let at_once =
        |policy: &Policy| pays && is_lru(policy) && asked.segment.is_none() && footprint <= STACK_BLOCKS;
    if asked.sample.is_some() && !asked.policies.iter().any(at_once) {
        return Err(Failure::input(
            "--sample: only LRU is sampled, and not by segments; name it with --policy lru",
        ));
    }
    let cases: Vec<Case<'_>> = asked
        .policies
        .iter()
        .flat_map(|policy| match at_once(policy) {
            true => vec![Case::Curve(policy)],
            false => sizes.iter().map(|&size| Case::One(policy, size)).collect(),
        })
        .collect();
    let lookup = match asked.hashed || blocks > FLAT_BLOCKS {
        true => Lookup::Hashed,
        false => Lookup::Flat(blocks),
    };
    let (trace, repeat) = (&trace, asked.repeat);
    let runs = || {
        let run = |r: Record| {
            let ((first, end), rank) = (page_range(r), index.rank(r));
            (rank, rank + (end - first))
        };
        (0..repeat).flat_map(move |_| met(trace).map(run))
    };
    let once = |take: &mut Take<'_>| {
        let (mut reader, mut block, mut accesses) = (trace.reader(), Vec::new(), Vec::new());
        loop {
            block.clear();
            accesses.clear();
            reader.fill(&mut block, REQUESTS);
            if block.is_empty() {
                break;
            }
            accesses.extend(block.iter().copied().filter_map(access));
            take(&accesses);
        }
    };
    let done = parallel::map(&cases, asked.threads, |case| match *case {
        Case::Curve(policy) => {
            let curve = match asked.sample {
                Some(rate) => lru::sampled(&sizes, footprint, rate, runs()),
                None => lru::exact(&sizes, footprint, runs()),
            };
            let curve = curve.expect("there are not too many blocks");
            Ok((0..sizes.len()).map(|i| of_curve(policy, &curve, sizes[i], i, asked.sample)).collect())
        }
        Case::One(policy, capacity) => {
            let by_segment = policy.options().line() == LineOf::Segment;
            let segment = if by_segment || asked.segment.is_some() { segment } else { 1 };
            let cache = PageCache { replacement: policy.0.clone(), capacity, segment, lookup };
            simulate(&cache, Accesses { once: &once, times: repeat })
                .map(|result| vec![point(policy, &cache, &result)])
        }
    });
    let done: Vec<Vec<Point>> =
        done.into_iter().collect::<Result<_, _>>().map_err(|e| Failure::input(e.to_string()))?;
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

/// Blocks that a request meets; trims and flushes meet none.
fn access(record: Record) -> Option<Access> {
    let write = match record.op() {
        Op::Read => false,
        Op::Write => true,
        _ => return None,
    };
    let (first, end) = page_range(record);
    Some(Access { first, blocks: (end - first) as u32, write })
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

/// The requests that meet blocks.
fn met(trace: &Requests) -> impl Iterator<Item = Record> {
    trace.iter().filter(|r| matches!(r.op(), Op::Read | Op::Write) && !r.is_empty())
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

fn point(policy: &Policy, cache: &PageCache, result: &PageResult) -> Point {
    let tally = &result.tally;
    Point {
        policy: policy.0.name().into(),
        blocks: cache.capacity,
        bytes: cache.capacity * BLOCK,
        segment_bytes: cache.segment * BLOCK,
        accesses: result.accesses(),
        cache_hits: tally.cache_hits,
        prefetch_hits: tally.prefetch_hits,
        misses: tally.misses,
        miss_ratio: result.miss_ratio(),
        prefetched_blocks: tally.prefetched,
        culled_blocks: tally.culled,
        evicted_unused_blocks: tally.evicted_unused,
        list_operations: Some(tally.list_operations),
        metadata_bytes: Some(result.metadata_bytes),
        sampled_accesses: None,
        standard_error: None,
    }
}

/// The point of a curve at the size numbered `i`.
fn of_curve(policy: &Policy, curve: &lru::Curve, blocks: u64, i: usize, sample: Option<Ratio>) -> Point {
    let (ratio, error) = curve.ratios[i];
    Point {
        policy: policy.0.name().into(),
        blocks,
        bytes: blocks * BLOCK,
        segment_bytes: BLOCK,
        accesses: curve.accesses,
        cache_hits: curve.accesses - curve.misses[i],
        prefetch_hits: 0,
        misses: curve.misses[i],
        miss_ratio: ratio,
        prefetched_blocks: 0,
        culled_blocks: 0,
        evicted_unused_blocks: 0,
        list_operations: None,
        metadata_bytes: None,
        sampled_accesses: sample.map(|_| curve.sampled),
        standard_error: sample.map(|_| error),
    }
}
