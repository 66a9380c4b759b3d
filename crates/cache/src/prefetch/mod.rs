//! What is read ahead of requests: one file each, one trait, one line in [`POLICIES`].
//!
//! A prefetcher sees which blocks a read asked for and which of them are missing, and names ranges of blocks to bring.
//! Blocks that are here or on their way are left out by the machine. A range that touches missing blocks is read together
//! with them in one command; others are reads of their own that nobody waits for. The type of its options declares a prefetcher: see
//! [`PrefetchOptions`].

mod amp;
pub mod conformance;
mod gated_segment;
mod markov;
mod mithril;
mod none;
mod options;
mod oracle;
mod p_block;
mod segment;
mod sequential;

pub use amp::{Amp, AmpConfig};
pub use gated_segment::{Gate, GatedSegment, GatedSegmentConfig};
pub use markov::{Markov, MarkovConfig};
pub use mithril::{Mithril, MithrilConfig};
pub use none::{NoPrefetch, NoPrefetchConfig};
pub use options::{
    AnyPrefetch, Brings, POLICIES, PrefetchConfig, PrefetchOptions, Prefetchers, Units, policy,
};
pub use oracle::{Oracle, OracleConfig};
pub use p_block::{PBlock, PBlockConfig};
pub use segment::{Holes, Segment, SegmentConfig};
pub use sequential::{Sequential, SequentialConfig};

use nandu_base::Report;

/// Blocks `first..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First block.
    pub first: u64,
    /// One past the last.
    pub end: u64,
}

/// Puts ranges into the order of their blocks, and those that meet into one.
fn join(ranges: &mut Vec<Range>) {
    ranges.sort_unstable_by_key(|range| (range.first, range.end));
    ranges.dedup_by(|next, last| {
        let meets = next.first <= last.end;
        if meets {
            last.end = last.end.max(next.end);
        }
        meets
    });
}

/// What a read found.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The blocks it asked for.
    pub asked: Range,
    /// Runs of them that are neither here nor on their way, in order.
    pub missing: &'a [Range],
    /// Prefetched blocks that were met so far.
    pub used: u64,
    /// Prefetched blocks that were met or have gone so far.
    pub retired: u64,
    /// It waits for a block that is on its way, and was brought before anybody asked for it.
    pub late: bool,
}

/// A prefetcher. See the module's page.
pub trait Prefetch: Send {
    /// Puts ranges to bring into `ahead`, which is empty, in order and without overlap. They may reach beyond the device.
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>);

    /// How many requests ahead it wants to be told what comes.
    fn foresight(&self) -> u32 {
        0
    }

    /// A read will ask for `blocks`.
    fn foresee(&mut self, _blocks: Range) {}

    /// Whether it is told what was brought for nothing.
    fn hears_of_waste(&self) -> bool {
        false
    }

    /// A block that was brought has gone, and nobody had asked for it.
    fn wasted(&mut self, _block: u64) {}

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        0
    }

    /// Puts its figures into the report, or begins to count anew, as the report asks.
    fn report(&mut self, _report: &mut Report) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefetcher_keeps_to_the_contract() {
        for policy in POLICIES {
            for draw in policy.draws {
                let table = draw.replace(", ", "\n").parse().expect("options are a table");
                let chosen = PrefetchConfig::new(policy.name, table).expect("options that are drawn");
                let options = chosen.options().expect("one of ours");
                for seed in 0..20 {
                    conformance::run(options, seed)
                        .unwrap_or_else(|broken| panic!("{} {draw}, seed {seed}: {broken:?}", policy.name));
                }
            }
        }
    }

    /// What a prefetcher brings for reads of these blocks, nothing being here.
    fn ahead(prefetch: &mut dyn Prefetch, first: u64, end: u64) -> Vec<(u64, u64)> {
        look(prefetch, first, end, true)
    }

    fn look(prefetch: &mut dyn Prefetch, first: u64, end: u64, missing: bool) -> Vec<(u64, u64)> {
        let asked = Range { first, end };
        let mut out = Vec::new();
        let runs = if missing { vec![asked] } else { Vec::new() };
        prefetch.plan(&Look { asked, missing: &runs, used: 0, retired: 0, late: false }, &mut out);
        out.iter().map(|r| (r.first, r.end)).collect()
    }

    #[test]
    fn a_segment_is_brought_around_what_is_missing() {
        let mut segment = Segment::new(8);
        assert_eq!(ahead(&mut segment, 13, 14), [(8, 16)]);
        assert_eq!(ahead(&mut segment, 15, 17), [(8, 24)]);
        assert_eq!(look(&mut segment, 13, 14, false), []);
    }

    #[test]
    fn p_blocks_follow_what_is_missing() {
        assert_eq!(ahead(&mut PBlock::new(4), 13, 15), [(15, 19)]);
    }

    #[test]
    fn read_ahead_waits_for_a_sequence_and_doubles() {
        let mut sequential = Sequential::new(4, 32);
        assert_eq!(ahead(&mut sequential, 100, 101), []);
        assert_eq!(ahead(&mut sequential, 101, 102), [(102, 106)]);
        // The first block that came ahead carries the marker: meeting it brings the next window, twice as long.
        assert_eq!(look(&mut sequential, 102, 103, false), [(106, 114)]);
        assert_eq!(look(&mut sequential, 103, 104, false), []);
        assert_eq!(look(&mut sequential, 104, 107, false), [(114, 130)]);
        assert_eq!(look(&mut sequential, 107, 115, false), [(130, 162)]);
        assert_eq!(look(&mut sequential, 115, 131, false), [(162, 194)]);
        assert_eq!(ahead(&mut sequential, 500, 501), []);
    }

    #[test]
    fn markov_brings_the_segment_that_followed_twice() {
        let mut markov = Markov::new(8, 64);
        let mut seen = Vec::new();
        for block in [0, 80, 160, 0, 80, 160, 0] {
            seen = ahead(&mut markov, block, block + 1);
        }
        assert_eq!(seen, [(80, 88)]);
        assert_eq!(ahead(&mut markov, 400, 401), []);
    }

    #[test]
    fn the_oracle_brings_what_it_was_told_in_order_and_once() {
        let mut oracle = Oracle::new(3);
        for (first, end) in [(40, 44), (8, 10), (10, 12), (41, 50)] {
            oracle.foresee(Range { first, end });
        }
        assert_eq!(look(&mut oracle, 0, 1, false), [(8, 12), (40, 50)]);
        assert_eq!(ahead(&mut oracle, 0, 1), []);
    }

    #[test]
    fn the_gate_closes_probes_and_opens_again() {
        let gate = Gate { least: nandu_base::Ratio::new(1, 10), window: 16, probe: 4 };
        let mut gated = GatedSegment::new(8, gate);
        let mut brought = |used: u64, retired: u64, reads: u64| {
            (0..reads)
                .filter(|_| {
                    let asked = Range { first: 0, end: 1 };
                    let mut out = Vec::new();
                    gated.plan(&Look { asked, missing: &[asked], used, retired, late: false }, &mut out);
                    !out.is_empty()
                })
                .count()
        };
        assert_eq!(brought(0, 0, 16), 16);
        assert_eq!(brought(1, 100, 1), 0, "of a hundred blocks that went one was used: it closes");
        assert_eq!(brought(1, 100, 40), 10, "one in four while it is closed");
        assert_eq!(brought(90, 200, 40), 6 + 17, "six more probes fill the window, then it is open");
    }

    /// Where one block in five is used, the drive of the experiment loses by segments of 64 KiB.
    #[test]
    fn the_gate_as_it_comes_closes_where_a_fifth_is_used() {
        let gated: PrefetchConfig = toml::from_str("kind = \"gated-segment\"").unwrap();
        let brought = |used: u64| {
            let units = Units { block: nandu_base::ByteLen::kib(4), segment: 16 };
            let mut prefetch = gated.options().and_then(|options| options.boxed(&units)).unwrap();
            let asked = Range { first: 0, end: 1 };
            let brings = |read: &u64| {
                let look =
                    Look { asked, missing: &[asked], used: read * used, retired: read * 20, late: false };
                let mut out = Vec::new();
                prefetch.plan(&look, &mut out);
                !out.is_empty()
            };
            (0..2048).filter(brings).count()
        };
        assert_eq!(brought(4), 1024 + 1024 / 32, "a window, then one in 32");
        assert_eq!(brought(5), 2048);
    }
}
