//! A share of the blocks, each with all of its accesses.
//!
//! A line takes part when a hash of its number is below a threshold, so that a share R of the lines does. A cache of R times the size
//! does to them what the whole cache does to all; so a size stands for R times the size, and misses are divided by R times the accesses there
//! are, whatever number the sample happens to have. Sources: Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC construction with SHARDS"
//! (FAST 2015), with their adjustment, for LRU; Waldspurger, Saemundsson, Ahmad and Park, "Cache modeling and optimization using miniature
//! simulations" (ATC 2017) for policies that are simulated.
//!
//! *Its error*: the lines fall into eight groups by another part of the hash. Each group is a sample of its own; the standard deviation of
//! the eight figures over the root of eight is the standard error of their mean, and about that of the figure. It does not show what every
//! group has alike: a cache of which R times the size is a few lines is not that cache made smaller.
//!
//! *Where we differ*: the rate is fixed and not lowered as lines come. Cost: memory for each line that takes part; its accesses lie in a file
//! without a name, 16 B each, and are read from there for each size.

use nandu_base::{BuildError, Op, Ratio, SECTOR};
use nandu_cache::directory::Tally;
use nandu_cache::map::{Hashed, LineMap};
use nandu_cache::page_sim::{Access, Accesses, Lookup, PageCache, Take, simulate};
use nandu_cache::replacement::ReplacementConfig;
use nandu_trace::Record;
use nandu_trace::requests::{Again, BLOCK};
use nandu_trace::reuse::StackDistance;
use nandu_trace::spool::Spool;
use std::io;

/// Groups that the error is taken from.
const GROUPS: u64 = 8;
/// Sectors of a block.
const SECTORS: u64 = super::BLOCK / SECTOR;

/// The finaliser of SplitMix64: neighbours get unlike numbers.
fn hash(line: u64) -> u64 {
    let mut x = line.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// What takes part.
pub struct Sample {
    /// Share of the lines.
    rate: f64,
    /// Accesses to blocks, with those that do not take part.
    pub all: u64,
    /// Those that take part.
    pub accesses: u64,
    /// Lines that take part.
    pub lines: u64,
    /// Blocks of a line.
    line: u64,
    /// Lines of the largest group.
    places: u64,
    /// The accesses. Lines are numbered as they come, each in its group: a number is [`GROUPS`] times that and the group.
    kept: Spool,
}

/// A figure of a sample.
pub struct Estimate {
    /// Share of accesses that miss.
    pub ratio: f64,
    /// Its standard error.
    pub error: f64,
}

impl Sample {
    /// The share `rate` of the lines of `line` blocks that `accesses` meet.
    ///
    /// # Errors
    /// No file can be made or written in the folder for temporary files.
    pub fn of(rate: Ratio, line: u64, accesses: impl Iterator<Item = Access>) -> io::Result<Sample> {
        let threshold = (u128::from(u64::MAX) * u128::from(rate.num) / u128::from(rate.den)) as u64;
        let (mut numbers, mut known) = (Hashed::new(0), [0; GROUPS as usize]);
        let mut number = |line: u64| {
            numbers.get(line).unwrap_or_else(|| {
                let group = hash(!line) % GROUPS;
                let next = &mut known[group as usize];
                let number = *next * GROUPS as u32 + group as u32;
                *next += 1;
                numbers.insert(line, number);
                number
            })
        };
        let (mut kept, mut block) = (Spool::new()?, Vec::with_capacity(BLOCK));
        let (mut all, mut sampled) = (0, 0);
        for access in accesses {
            let (mut at, end) = (access.first, access.first + u64::from(access.blocks));
            all += end - at;
            while at < end {
                let to = end.min((at / line + 1) * line);
                if hash(at / line) <= threshold {
                    let first = u64::from(number(at / line)) * line + at % line;
                    let op = if access.write { Op::Write } else { Op::Read };
                    let sequential = access.sequential || at > access.first;
                    let record = Record::new(0, op, sequential, first * SECTORS, (to - at) * SECTORS, 0);
                    block.push(record.expect("memory has fewer lines than a record has sectors"));
                    sampled += to - at;
                }
                at = to;
            }
            if block.len() >= BLOCK {
                kept.put(&block)?;
                block.clear();
            }
        }
        kept.put(&block)?;
        let lines = known.iter().map(|&lines| u64::from(lines)).sum();
        let places = u64::from(known.into_iter().max().unwrap_or(0));
        let rate = rate.num as f64 / rate.den as f64;
        Ok(Sample { rate, all, accesses: sampled, lines, line, places, kept })
    }

    /// Hands over what takes part, or of it a group, whose lines are numbered without a gap.
    fn once(&self, group: Option<u64>, take: &mut Take<'_>) {
        let (mut feed, mut records, mut accesses) = (self.kept.feed(), Vec::new(), Vec::new());
        let access = |record: &Record| {
            let (first, blocks) = (record.offset_sectors() / SECTORS, record.len_sectors() / SECTORS);
            let number = first / self.line;
            let number = match group {
                None => number,
                Some(group) if number % GROUPS == group => number / GROUPS,
                Some(_) => return None,
            };
            let first = number * self.line + first % self.line;
            let (write, sequential) = (record.op() == Op::Write, record.fua());
            Some(Access { first, blocks: blocks as u32, write, sequential })
        };
        loop {
            records.clear();
            accesses.clear();
            feed.fill(&mut records, BLOCK);
            if records.is_empty() {
                return;
            }
            accesses.extend(records.iter().filter_map(access));
            take(&accesses);
        }
    }

    /// The share of the lines, and how many numbers they have: of all that take part, or of a group.
    fn part(&self, group: Option<u64>) -> (f64, u64) {
        match group {
            None => (self.rate, self.places * GROUPS),
            Some(_) => (self.rate / GROUPS as f64, self.places),
        }
    }

    /// What stands for a cache of `size` blocks, at least a line.
    fn scaled(&self, size: u64, group: Option<u64>) -> u64 {
        ((size as f64 * self.part(group).0).round() as u64).max(self.line)
    }

    /// The share of all accesses, which are met `times`, that `misses` stand for.
    fn ratio(&self, misses: u64, times: u32, group: Option<u64>) -> f64 {
        let stands_for = self.all as f64 * f64::from(times) * self.part(group).0;
        (misses as f64 / stands_for.max(1.0)).min(1.0)
    }

    /// All that takes part, and then each group.
    fn parts() -> impl Iterator<Item = Option<u64>> {
        std::iter::once(None).chain((0..GROUPS).map(Some))
    }

    /// The ratio of the first of [`Sample::parts`], and the error by the others.
    fn estimate(mut ratios: impl Iterator<Item = f64>) -> Estimate {
        let ratio = ratios.next().unwrap_or(0.0);
        let groups: Vec<f64> = ratios.collect();
        let n = groups.len() as f64;
        let mean = groups.iter().sum::<f64>() / n;
        let squares: f64 = groups.iter().map(|group| (group - mean) * (group - mean)).sum();
        Estimate { ratio, error: (squares / (n * (n - 1.0))).sqrt() }
    }

    /// The curve of LRU at `sizes` in rising order, by stack distance. `None` for more than 2^30 lines.
    pub fn lru(&self, sizes: &[u64], times: u32) -> Option<Vec<Estimate>> {
        let ratios = |group: Option<u64>| {
            let mut stack = StackDistance::new(self.part(group).1)?;
            let mut accesses = 0;
            for _ in 0..times {
                self.once(group, &mut |block| {
                    for access in block {
                        accesses += u64::from(access.blocks);
                        stack.access(access.first, u64::from(access.blocks));
                    }
                });
            }
            let scaled: Vec<u64> = sizes.iter().map(|&size| self.scaled(size, group)).collect();
            let hits = stack.hits(&scaled).into_iter();
            Some(hits.map(|hits| self.ratio(accesses - hits, times, group)).collect::<Vec<f64>>())
        };
        let parts: Vec<Vec<f64>> = Sample::parts().map(ratios).collect::<Option<_>>()?;
        let at = |size: usize| Sample::estimate(parts.iter().map(|part| part[size]));
        Some((0..sizes.len()).map(at).collect())
    }

    /// A cache of `size` blocks, and what it counts, which is of the sample.
    ///
    /// # Errors
    /// Options that do not fit the cache.
    pub fn simulate(
        &self,
        replacement: &ReplacementConfig,
        size: u64,
        times: u32,
    ) -> Result<(Estimate, Tally), BuildError> {
        let tallies = Sample::parts().map(|group| {
            let cache = PageCache {
                replacement: replacement.clone(),
                capacity: self.scaled(size, group),
                segment: self.line,
                lookup: Lookup::Flat(self.part(group).1 * self.line),
            };
            let once = |take: &mut Take<'_>| self.once(group, take);
            Ok((group, simulate(&cache, Accesses { once: &once, times })?.tally))
        });
        let tallies: Vec<(Option<u64>, Tally)> = tallies.collect::<Result<_, BuildError>>()?;
        let ratios = tallies.iter().map(|(group, tally)| self.ratio(tally.misses, times, *group));
        Ok((Sample::estimate(ratios), tallies[0].1))
    }

    /// What `counted` accesses or blocks of the sample stand for.
    pub fn whole(&self, counted: u64) -> u64 {
        (counted as f64 / self.rate).round() as u64
    }
}
