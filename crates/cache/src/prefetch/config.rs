//! The options of prefetching, and how they become a prefetcher.

use super::{Gate, GatedSegment, Markov, Mithril, NoPrefetch, Oracle, PBlock, Prefetch, Segment, Sequential};
use nandu_base::{BuildError, ByteLen, Ratio};
use schemars::JsonSchema;
use serde::Deserialize;

/// What is read ahead of requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PrefetchConfig {
    /// Nothing.
    None {},
    /// Behind sequential reads, in windows that double (Linux read-ahead).
    Sequential {
        /// First window. Default 16 KiB; at least a block.
        #[serde(default = "initial")]
        initial: ByteLen,
        /// Longest window. Default 128 KiB, at most 16 MiB.
        #[serde(default = "most")]
        most: ByteLen,
    },
    /// So much behind each missing block.
    PBlock {
        /// How much. Default 32 KiB; from a block to 16 MiB.
        #[serde(default = "p")]
        ahead: ByteLen,
    },
    /// The whole segment of each missing block.
    Segment {
        /// Bytes of a segment: a power of two of blocks, at most 64 blocks. Default: the cache's `segment`.
        segment: Option<ByteLen>,
        /// What a missing block of a segment that is partly here brings: all that is missing (`segment`), or itself
        /// (`block-only`). Default `segment`.
        #[serde(default)]
        holes: Holes,
    },
    /// The same, while it is of use.
    GatedSegment {
        /// Bytes of a segment, as above.
        segment: Option<ByteLen>,
        /// What a missing block of a segment that is partly here brings, as above.
        #[serde(default)]
        holes: Holes,
        /// Least share of prefetched blocks that is used, or the gate closes. Default 25 %, above 0, at most 1.
        #[serde(default = "least")]
        least: Ratio,
        /// Segment reads after which the gate is judged. Default 1024, from 16 to 1,000,000.
        #[serde(default = "window")]
        window: u32,
        /// While the gate is closed, one read of missing blocks in this many brings its segment. Default 32, from 2 to
        /// 65,536.
        #[serde(default = "probe")]
        probe: u32,
    },
    /// The segment that followed this one before.
    Markov {
        /// Bytes of a segment, as above.
        segment: Option<ByteLen>,
        /// Entries of the table, 24 bytes each. Default 65,536, from 16 to 16,777,216.
        #[serde(default = "entries")]
        entries: u32,
    },
    /// What was read shortly after this before, mined from reads that were missing a few times (MITHRIL).
    Mithril {
        /// Reads within which another one counts as being shortly after. Default 20, from 1 to 1000.
        #[serde(default = "lookahead")]
        lookahead: u32,
        /// How often a read was missing before it is mined. Default 2, from 1 to 8.
        #[serde(default = "support")]
        support: u32,
        /// Rows that are mined together, 600 bytes each with what is recorded before. Default 2560, from 2 to 65,536.
        #[serde(default = "rows")]
        rows: u32,
        /// Entries of the table, 88 bytes each. Default 65,536, from 16 to 16,777,216.
        #[serde(default = "entries")]
        entries: u32,
    },
    /// What reads will ask for, told in advance: the most that hints of the application can do. In a simulation only.
    Oracle {
        /// How many requests before it comes a read is told. Default 32, from 1 to 1024.
        #[serde(default = "look_ahead")]
        ahead: u32,
    },
}

/// What a missing block of a segment that is partly here brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Holes {
    /// All that is missing of the segment.
    #[default]
    Segment,
    /// Itself.
    BlockOnly,
}

fn initial() -> ByteLen {
    ByteLen::kib(16)
}
fn most() -> ByteLen {
    ByteLen::kib(128)
}
fn p() -> ByteLen {
    ByteLen::kib(32)
}
fn least() -> Ratio {
    Ratio::new(1, 4)
}
fn window() -> u32 {
    1024
}
fn probe() -> u32 {
    32
}
fn entries() -> u32 {
    65_536
}
fn lookahead() -> u32 {
    20
}
fn support() -> u32 {
    2
}
fn rows() -> u32 {
    2560
}
fn look_ahead() -> u32 {
    32
}

/// Longest window.
const MOST: ByteLen = ByteLen::mib(16);

fn within(key: &'static str, value: u32, least: u32, most: u32) -> Result<(), BuildError> {
    if !(least..=most).contains(&value) {
        return Err(BuildError::at(key, format!("{value} lies outside {least} to {most}")));
    }
    Ok(())
}

impl PrefetchConfig {
    /// Whether nothing comes ahead.
    pub fn is_none(&self) -> bool {
        *self == PrefetchConfig::None {}
    }

    /// The segment that is named here.
    pub fn segment(&self) -> Option<ByteLen> {
        match self {
            PrefetchConfig::Segment { segment, .. }
            | PrefetchConfig::GatedSegment { segment, .. }
            | PrefetchConfig::Markov { segment, .. } => *segment,
            _ => None,
        }
    }

    /// What holes bring.
    pub fn holes(&self) -> Holes {
        match self {
            PrefetchConfig::Segment { holes, .. } | PrefetchConfig::GatedSegment { holes, .. } => *holes,
            _ => Holes::Segment,
        }
    }

    /// Whether reads of missing blocks span a segment.
    pub fn by_segment(&self) -> bool {
        matches!(self, PrefetchConfig::Segment { .. } | PrefetchConfig::GatedSegment { .. })
    }

    /// The prefetcher for blocks of `block` bytes and segments of `segment` blocks.
    pub fn build(&self, block: u64, segment: u64) -> Result<Box<dyn Prefetch>, BuildError> {
        let blocks = |key, len: ByteLen| {
            if len.0 < block || len > MOST || !len.0.is_multiple_of(block) {
                let why = format!("{len} is no multiple of the block of {} up to {MOST}", ByteLen(block));
                return Err(BuildError::at(key, why));
            }
            Ok(len.0 / block)
        };
        Ok(match *self {
            PrefetchConfig::None {} => Box::new(NoPrefetch),
            PrefetchConfig::Sequential { initial, most } => {
                let initial = blocks("prefetch.initial", initial)?;
                Box::new(Sequential::new(initial, blocks("prefetch.most", most)?))
            }
            PrefetchConfig::PBlock { ahead } => Box::new(PBlock::new(blocks("prefetch.ahead", ahead)?)),
            PrefetchConfig::Segment { .. } => Box::new(Segment::new(segment)),
            PrefetchConfig::GatedSegment { least, window, probe, .. } => {
                if least.num == 0 || least.num > least.den {
                    return Err(BuildError::at("prefetch.least", "a share above 0, at most 1"));
                }
                within("prefetch.window", window, 16, 1_000_000)?;
                within("prefetch.probe", probe, 2, 65_536)?;
                Box::new(GatedSegment::new(segment, Gate { least, window, probe }))
            }
            PrefetchConfig::Markov { entries, .. } => {
                within("prefetch.entries", entries, 16, 1 << 24)?;
                Box::new(Markov::new(segment, entries as usize))
            }
            PrefetchConfig::Mithril { lookahead, support, rows, entries } => {
                within("prefetch.lookahead", lookahead, 1, 1000)?;
                within("prefetch.support", support, 1, 8)?;
                within("prefetch.rows", rows, 2, 65_536)?;
                within("prefetch.entries", entries, 16, 1 << 24)?;
                Box::new(Mithril::new(lookahead, support, rows as usize, entries as usize))
            }
            PrefetchConfig::Oracle { ahead } => {
                within("prefetch.ahead", ahead, 1, 1024)?;
                Box::new(Oracle::new(ahead))
            }
        })
    }
}
