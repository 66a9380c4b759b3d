//! `stride`: reads that keep the same distance from one to the next go on like that.
//!
//! When the distance between the starts of two reads was the same so many times running, the next reads at that distance are brought, as long
//! as the one at hand. One entry of the table of Baer and Chen, "An effective on-chip preloading scheme to reduce data access penalty",
//! Supercomputing 1991, which has one for each load instruction; a block device knows of no instructions.
//!
//! Where we differ: one state instead of two (transient, steady): the distance is believed after `sure` times. Reads backwards count too.
//!
//! Cost: 32 bytes; O(ahead) for a read.

use nandu::prefetch::{Look, Prefetch, PrefetchOptions, Range, Units};
use nandu::units::BuildError;
use nandu::{Declared, options};

/// Options of `stride`.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {
    /// How many reads are brought.
    #[option(default = 2, range = 1..=64)]
    pub ahead: u32,
    /// Times running that a distance must be the same.
    #[option(default = 2, range = 1..=100)]
    pub sure: u32,
}

impl Declared for Config {
    const NAME: &'static str = "stride";
    const SUMMARY: &'static str = "The next reads at the distance that the last ones had.";
    const SOURCE: &'static str = "Baer and Chen, Supercomputing 1991";
    const DRAWS: &'static [&'static str] = &["", "ahead = 5, sure = 1"];
}

impl PrefetchOptions for Config {
    type Policy = Stride;

    fn build(&self, _units: &Units) -> Result<Stride, BuildError> {
        Ok(Stride { ahead: self.ahead, sure: self.sure, last: 0, distance: 0, times: 0 })
    }
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct Stride {
    ahead: u32,
    sure: u32,
    /// Where the read before began, in blocks.
    last: u64,
    distance: i64,
    /// How often the distance was the same.
    times: u32,
}

impl Prefetch for Stride {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        let Range { first, end } = look.asked;
        let distance = first as i64 - self.last as i64;
        self.times = if distance == self.distance { self.times.saturating_add(1) } else { 1 };
        (self.last, self.distance) = (first, distance);
        let len = end - first;
        // Reads that would overlap are a sequence, or the same read again: another prefetcher's affair.
        if self.times < self.sure || distance.unsigned_abs() < len {
            return;
        }
        let start = |n: u32| u64::try_from(first as i64 + distance * i64::from(n)).ok();
        ahead.extend((1..=self.ahead).map_while(start).map(|first| Range { first, end: first + len }));
        ahead.sort_unstable_by_key(|range| range.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::prefetch::{PrefetchConfig, conformance};

    fn brought(reads: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let units = Units { block: nandu::units::ByteLen::kib(4), segment: 8 };
        let mut stride = Config::default().build(&units).expect("the defaults are right");
        let mut ahead = Vec::new();
        for &(first, end) in reads {
            ahead.clear();
            let asked = Range { first, end };
            stride.plan(&Look { asked, missing: &[asked], used: 0, retired: 0, late: false }, &mut ahead);
        }
        ahead.iter().map(|range| (range.first, range.end)).collect()
    }

    #[test]
    fn a_distance_that_came_twice_goes_on() {
        assert_eq!(brought(&[(100, 102), (110, 112)]), []);
        assert_eq!(brought(&[(100, 102), (110, 112), (120, 122)]), [(130, 132), (140, 142)]);
        assert_eq!(brought(&[(30, 31), (20, 21), (10, 11)]), [(0, 1)], "nothing lies before block 0");
        assert_eq!(brought(&[(100, 102), (110, 112), (120, 122), (125, 127)]), []);
    }

    #[test]
    fn it_keeps_to_the_contract_of_prefetchers() {
        let registry = crate::registry();
        let config = PrefetchConfig::of("stride", &registry).expect("it is registered");
        for seed in 0..20 {
            conformance::run(config.options().expect("it is known"), seed).expect("the contract holds");
        }
    }
}
