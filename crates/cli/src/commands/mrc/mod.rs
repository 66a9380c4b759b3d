//! `nandu trace mrc`: curves of miss ratios, page by page, without a device.
//!
//! LRU takes one pass for all sizes ([`lru`]); any other policy of the registry is simulated for each size.

mod lru;

use crate::args::MrcArgs;
use crate::failure::Failure;
use crate::format::{count, size};
use crate::output;
use crate::parallel;
use crate::source::{self, Wanted};
use crate::table::Table;
use crate::talk::Talk;
use nandu_base::units::parse_size;
use nandu_base::{ByteLen, Op, Ratio, SECTOR};
use nandu_cache::page_sim::{Access, Accesses, Lookup, PageCache, PageResult, simulate};
use nandu_cache::replacement::{AnyReplacement, LineOf, ReplacementConfig};
use nandu_trace::fit::{Fit, fit};
use nandu_trace::pages::{PageIndex, PageSet, page_range};
use nandu_trace::record::MAX_END_SECTORS;
use nandu_trace::{Record, Trace};
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
    fn options(&self) -> &dyn AnyReplacement {
        self.0.options().expect("the registry has it")
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Policy, String> {
        Ok(Policy(ReplacementConfig::of(name, crate::registry()).map_err(|error| error.reason)?))
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

/// One point of a curve.
#[derive(Serialize)]
struct Point {
    policy: String,
    blocks: u64,
    bytes: u64,
    segment_bytes: u64,
    accesses: u64,
    cache_hits: u64,
    prefetch_hits: u64,
    misses: u64,
    miss_ratio: f64,
    prefetched_blocks: u64,
    culled_blocks: u64,
    evicted_unused_blocks: u64,
    /// Of a cache that was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_operations: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<usize>,
    /// Of a curve from a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled_accesses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_error: Option<f64>,
}

/// What one thread does at a time.
enum Case<'a> {
    /// All sizes at once.
    Curve(&'a Policy),
    /// One size.
    One(&'a Policy, u64),
}

/// Prints the curve of each policy.
pub fn mrc(args: &MrcArgs, talk: Talk) -> Result<(), Failure> {
    let wanted = Wanted {
        name: args.trace.clone(),
        settings: args.read.settings.clone(),
        limit: args.read.limit,
        format: args.read.trace_format.clone(),
        columns: args.read.columns.clone(),
        bad_lines: args.read.bad_lines,
        seed: args.read.seed,
        room: None,
    };
    let trace = source::read(&wanted, talk)?;
    let room = ByteLen(MAX_END_SECTORS * SECTOR);
    let name = trace.meta.source.clone();
    let (trace, _) =
        fit(trace, room, Fit::Concat).map_err(|e| Failure::input(format!("{}: {e}", args.trace)))?;
    let (blocks, index) = extent(&trace);
    let footprint = index.len();
    if footprint == 0 {
        return Err(Failure::input(format!("{}: no request touches a page", args.trace)));
    }
    let segment = args.segment.map_or(Ok(SEGMENT_BLOCKS), segment_blocks)?;
    let sizes = match args.sizes.is_empty() {
        true => default_sizes(footprint),
        false => args.sizes.iter().map(|s| s.0).collect::<BTreeSet<u64>>().into_iter().collect(),
    };
    let is_lru = |policy: &Policy| policy.0.name() == "lru";
    // One pass for all sizes takes about as long as four caches of one size.
    let pays = sizes.len() > 4 || args.sample.is_some();
    let at_once =
        |policy: &Policy| pays && is_lru(policy) && args.segment.is_none() && footprint <= STACK_BLOCKS;
    if args.sample.is_some() && !args.policy.iter().any(at_once) {
        return Err(Failure::input(
            "--sample: only LRU is sampled, and not by segments; name it with --policy lru",
        ));
    }
    let cases: Vec<Case<'_>> = args
        .policy
        .iter()
        .flat_map(|policy| match at_once(policy) {
            true => vec![Case::Curve(policy)],
            false => sizes.iter().map(|&size| Case::One(policy, size)).collect(),
        })
        .collect();
    let lookup = match args.hashed || blocks > FLAT_BLOCKS {
        true => Lookup::Hashed,
        false => Lookup::Flat(blocks),
    };
    let records = &trace.records;
    let repeat = args.repeat;
    let runs = || {
        let met = records.iter().filter(|r| matches!(r.op(), Op::Read | Op::Write) && !r.is_empty());
        let run = |&r: &Record| {
            let ((first, end), rank) = (page_range(r), index.rank(r));
            (rank, rank + (end - first))
        };
        (0..repeat).flat_map(move |_| met.clone().map(run))
    };
    let is_simulated = cases.iter().any(|case| matches!(case, Case::One(..)));
    let met: Vec<Access> = match is_simulated {
        true => records.iter().copied().filter_map(access).collect(),
        false => Vec::new(),
    };
    let done = parallel::map(&cases, args.jobs.unwrap_or_else(parallel::cores), |case| match *case {
        Case::Curve(policy) => {
            let curve = match args.sample {
                Some(rate) => lru::sampled(&sizes, footprint, rate, runs()),
                None => lru::exact(&sizes, footprint, runs()),
            };
            let curve = curve.expect("there are not too many blocks");
            Ok((0..sizes.len()).map(|i| of_curve(policy, &curve, sizes[i], i, args.sample)).collect())
        }
        Case::One(policy, capacity) => {
            let by_segment = policy.options().line() == LineOf::Segment;
            let segment = if by_segment || args.segment.is_some() { segment } else { 1 };
            let cache = PageCache { replacement: policy.0.clone(), capacity, segment, lookup };
            simulate(&cache, Accesses { once: &met, times: repeat })
                .map(|result| vec![point(policy, &cache, &result)])
        }
    });
    let done: Vec<Vec<Point>> =
        done.into_iter().collect::<Result<_, _>>().map_err(|e| Failure::input(e.to_string()))?;
    let mut points: Vec<Point> = done.into_iter().flatten().collect();
    // By size, and for each size in the order in which policies were named.
    let place = |point: &Point| args.policy.iter().position(|policy| policy.0.name() == point.policy);
    points.sort_by_key(|point| (point.blocks, place(point)));
    if args.json {
        return output::print_json(&serde_json::json!({
            "schema": 1,
            "trace": name,
            "footprint_blocks": footprint,
            "block_bytes": BLOCK,
            "points": points,
        }));
    }
    output::print(&text(args, &sizes, &points))
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
fn extent(trace: &Trace) -> (u64, PageIndex) {
    let mut set = PageSet::new();
    let met = || trace.records.iter().filter(|r| matches!(r.op(), Op::Read | Op::Write));
    met().for_each(|&r| set.add(r));
    (met().map(|&r| page_range(r).1).max().unwrap_or(0), set.index())
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

/// One row for each size, one column for each policy.
fn text(args: &MrcArgs, sizes: &[u64], points: &[Point]) -> String {
    let names = args.policy.iter().map(|p| p.0.name());
    let mut table = Table::new(["blocks", "memory"].into_iter().chain(names));
    for (row, &blocks) in sizes.iter().enumerate() {
        let start = row * args.policy.len();
        let ratios = points[start..start + args.policy.len()].iter().map(|p| match p.standard_error {
            Some(error) => format!("{:.4} +- {error:.4}", p.miss_ratio),
            None => format!("{:.4}", p.miss_ratio),
        });
        table.row([count(blocks), size(blocks * BLOCK)].into_iter().chain(ratios));
    }
    let accesses = points.first().map_or(0, |p| p.accesses);
    let sample = points.iter().find_map(|p| Some((p.sampled_accesses?, &p.policy)));
    let sample = sample.map_or_else(String::new, |(sampled, policy)| {
        format!("; {policy} from a sample of {} accesses, +- is the standard error", count(sampled))
    });
    format!(
        "{table}\nmiss ratios of {} accesses to blocks of 4 KiB, reads and writes alike{sample}\n",
        count(accesses)
    )
}
