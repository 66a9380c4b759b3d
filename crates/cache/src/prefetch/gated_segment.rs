//! `gated-segment`: segment prefetching that stops while it is of no use (S0-32, O0-18).
//!
//! The paper suggests to stop where few prefetched blocks are used, and names no threshold. Here a gate looks back after
//! every window of segment reads: of the prefetched blocks that were met or have gone since, at least `min_accuracy` must have
//! been met, else it closes. While closed, one in `probe_interval` reads of missing blocks brings its segment all the same; probes
//! fill the next window, after which the gate may open again. A window in which too few blocks went to judge by leaves
//! the gate as it is. A quarter by default: on the drive of the experiment segments of 64 KiB lose time where a fifth of what they bring
//! is used, and gain some where a quarter is.
//!
//! Cost: 48 bytes.

use super::{Brings, Holes, Look, Prefetch, PrefetchOptions, Range, Segment, Units};
use nandu_base::{BuildError, ByteLen, Declared, Ratio, Report, options};

/// Options of `gated-segment`.
#[options]
#[derive(Clone, Debug)]
pub struct GatedSegmentConfig {
    /// Bytes of a segment, instead of the cache's `segment_size`.
    #[option(also = "a power of two of blocks, at most 64")]
    pub segment_size: Option<ByteLen>,
    /// What a missing block of a segment that is partly here brings.
    #[option(default)]
    pub holes: Holes,
    /// Least share of prefetched blocks that is used, or the gate closes.
    #[option(default = Ratio::new(1, 4), above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub min_accuracy: Ratio,
    /// Segment reads after which the gate is judged.
    #[option(default = 1024, range = 16..=1_000_000)]
    pub window: u32,
    /// While the gate is closed, one read of missing blocks in this many brings its segment.
    #[option(default = 32, range = 2..=65_536)]
    pub probe_interval: u32,
}

impl Declared for GatedSegmentConfig {
    const NAME: &'static str = "gated-segment";
    const SUMMARY: &'static str = "The same, while it is of use.";
    const SOURCE: &'static str = "the paper suggests it without a rule; the rule is ours";
    const DRAWS: &'static [&'static str] = &["window = 16, probe_interval = 3"];
}

impl PrefetchOptions for GatedSegmentConfig {
    type Policy = GatedSegment;

    fn brings(&self) -> Brings {
        Brings::Segments(self.holes)
    }

    fn segment(&self) -> Option<ByteLen> {
        self.segment_size
    }

    fn build(&self, units: &Units) -> Result<GatedSegment, BuildError> {
        let GatedSegmentConfig { min_accuracy: least, window, probe_interval: probe, .. } = *self;
        Ok(GatedSegment::new(units.segment, Gate { least, window, probe }))
    }
}

/// When the gate closes and opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Least share of prefetched blocks that is used.
    pub least: Ratio,
    /// Segment reads in a window.
    pub window: u32,
    /// While closed, one read of missing blocks in this many brings its segment.
    pub probe: u32,
}

/// The prefetcher.
#[derive(Clone, Debug)]
pub struct GatedSegment {
    segment: Segment,
    gate: Gate,
    closed: bool,
    /// Segment reads since the window began, and blocks used and retired then.
    reads: u32,
    used: u64,
    retired: u64,
    /// Reads that brought nothing since the last probe.
    passed: u32,
    closings: u64,
    held_back: u64,
}

/// Blocks that must have retired in a window to judge by.
const ENOUGH: u64 = 16;

impl GatedSegment {
    /// Segments of `blocks` blocks behind this gate, which is open.
    pub fn new(blocks: u64, gate: Gate) -> GatedSegment {
        GatedSegment {
            segment: Segment::new(blocks),
            gate,
            closed: false,
            reads: 0,
            used: 0,
            retired: 0,
            passed: 0,
            closings: 0,
            held_back: 0,
        }
    }

    fn judge(&mut self, look: &Look<'_>) {
        let used = look.used.saturating_sub(self.used);
        let retired = look.retired.saturating_sub(self.retired);
        if retired >= ENOUGH {
            let least = self.gate.least;
            let closed =
                u128::from(used) * u128::from(least.den) < u128::from(retired) * u128::from(least.num);
            self.closings += u64::from(closed && !self.closed);
            self.closed = closed;
            (self.used, self.retired) = (look.used, look.retired);
        }
        self.reads = 0;
    }
}

impl Prefetch for GatedSegment {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        if look.missing.is_empty() {
            return;
        }
        if self.reads >= self.gate.window {
            self.judge(look);
        }
        self.passed += 1;
        if self.closed && self.passed < self.gate.probe {
            self.held_back += 1;
            return;
        }
        self.passed = 0;
        self.reads += 1;
        self.segment.plan(look, ahead);
    }

    fn report(&mut self, report: &mut Report) {
        report.put("gate_is_closed", u64::from(self.closed));
        report.count("gate_closings", &mut self.closings);
        report.count("gate_held_back", &mut self.held_back);
        // What the machine counts starts at zero too.
        report.restart(&mut self.used);
        report.restart(&mut self.retired);
    }
}
