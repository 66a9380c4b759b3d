//! The options of replacement, and how they become a policy.

use super::{
    AdaptiveCulling, Arc, Feedback, FixedCulling, Lru, Replacement, S3Fifo, Sarc, SegmentLists,
    SegmentPrefetchOnly, Sieve, Trigger,
};
use crate::replacement::Fault;
use nandu_base::{BuildError, Ratio};
use schemars::JsonSchema;
use serde::Deserialize;

/// Which line goes when memory is short.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReplacementConfig {
    /// The line that was met longest ago goes.
    Lru {
        /// What goes at a time: `block`, or `segment`, the segment of the prefetcher. Default `block`.
        #[serde(default)]
        line: LineOf,
    },
    /// Two lists that share memory by what was let go too early (ARC). By blocks.
    Arc {},
    /// A list for sequential and one for other data (SARC). By blocks.
    Sarc {},
    /// A small and a main queue (S3-FIFO). By blocks.
    S3Fifo {},
    /// A queue and a hand (SIEVE).
    Sieve {
        /// What goes at a time: `block` or `segment`. Default `block`.
        #[serde(default)]
        line: LineOf,
    },
    /// Prefetched blocks go from segments that were not met for long; the length of L1 is fixed. By segments.
    FixedCulling {
        /// L1, as a share of the segments that fill memory. Default 1/2, above 0, at most 1.
        #[serde(default = "half")]
        l1: Ratio,
    },
    /// The same, and the length of L1 follows the hits. By segments.
    AdaptiveCulling(AdaptiveConfig),
    /// The segment that was met longest ago goes as a whole. By segments.
    SegmentPrefetchOnly {},
}

/// Options of adaptive culling.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveConfig {
    /// What makes the length of L1 be adapted: `b1` for hits in the oldest part of L1 as in the paper, `b1+b2` for hits in
    /// the oldest parts of L1 and L2, `reads` for blocks read. Default `b1+b2`.
    pub trigger: TriggerOn,
    /// How many of them. Default 3, from 1 to 1,000,000.
    pub every: u32,
    /// S: segments by which L1 grows for each hit. Default 1, above 0, at most 64.
    pub speed: Ratio,
    /// The oldest part of L1 and of L2, as a share of the segments that fill memory. Default 5 %, above 0, at most 1/2.
    pub region: Ratio,
    /// L1 at the start, as a share of the segments that fill memory. Default 1/2, above 0, at most 1.
    pub l1: Ratio,
    /// L1 at most, as a share of the segments that fill memory. Default: all but `region`, so that L2 has blocks to be met.
    /// From `region` to 1; with 1 a list L1 that takes all memory is never made shorter.
    pub l1_most: Option<Ratio>,
    /// Most segments by which L1 falls in one request. Default 4, from 1 to 1024.
    pub culls: u32,
    /// Remember culled blocks of segments in L2: a read of one counts as a gain of a longer L1. Default false.
    pub ghost: bool,
}

impl Default for AdaptiveConfig {
    fn default() -> AdaptiveConfig {
        AdaptiveConfig {
            trigger: TriggerOn::BothRegions,
            every: 3,
            speed: Ratio::new(1, 1),
            region: Ratio::new(1, 20),
            l1: half(),
            l1_most: None,
            culls: 4,
            ghost: false,
        }
    }
}

/// What is counted until the length of L1 is adapted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TriggerOn {
    /// Hits in the oldest part of L1, as in the paper.
    #[serde(rename = "b1")]
    FirstRegion,
    /// Hits in the oldest parts of L1 and L2.
    #[serde(rename = "b1+b2")]
    BothRegions,
    /// Blocks read.
    #[serde(rename = "reads")]
    Reads,
}

/// The unit of replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LineOf {
    /// One block.
    #[default]
    Block,
    /// One segment.
    Segment,
}

fn half() -> Ratio {
    Ratio::new(1, 2)
}

/// What a policy is made for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Blocks that fit, which is also the most lines.
    pub blocks: u64,
    /// Blocks of a line.
    pub line: u64,
    /// A planted fault of the culling lists.
    pub fault: Option<Fault>,
}

impl ReplacementConfig {
    /// The name, as a stack file writes it.
    pub fn name(&self) -> &'static str {
        match self {
            ReplacementConfig::Lru { .. } => "lru",
            ReplacementConfig::Arc {} => "arc",
            ReplacementConfig::Sarc {} => "sarc",
            ReplacementConfig::S3Fifo {} => "s3-fifo",
            ReplacementConfig::Sieve { .. } => "sieve",
            ReplacementConfig::FixedCulling { .. } => "fixed-culling",
            ReplacementConfig::AdaptiveCulling(_) => "adaptive-culling",
            ReplacementConfig::SegmentPrefetchOnly {} => "segment-prefetch-only",
        }
    }

    /// What goes at a time.
    pub fn line(&self) -> LineOf {
        match self {
            ReplacementConfig::Lru { line } | ReplacementConfig::Sieve { line } => *line,
            ReplacementConfig::Arc {} | ReplacementConfig::Sarc {} | ReplacementConfig::S3Fifo {} => {
                LineOf::Block
            }
            ReplacementConfig::FixedCulling { .. }
            | ReplacementConfig::AdaptiveCulling(_)
            | ReplacementConfig::SegmentPrefetchOnly {} => LineOf::Segment,
        }
    }

    /// Culling with a list L1 of this share.
    pub(crate) fn fixed(l1: Ratio, room: Room) -> Result<FixedCulling, BuildError> {
        share("replacement.l1", l1, Ratio::new(1, 1))?;
        let limit = l1.of(segments(room)).max(1) as u32;
        let lists = SegmentLists::new(room.blocks as usize, limit, 1);
        Ok(FixedCulling::new(lists.with_fault(room.fault)))
    }

    /// The policy for a cache of this size.
    pub fn build(&self, room: Room) -> Result<Box<dyn Replacement>, BuildError> {
        let slots = room.blocks as usize;
        Ok(match self {
            ReplacementConfig::Lru { .. } => Box::new(Lru::new(slots)),
            ReplacementConfig::Arc {} => Box::new(Arc::new(slots)),
            ReplacementConfig::Sarc {} => Box::new(Sarc::new(slots)),
            ReplacementConfig::S3Fifo {} => Box::new(S3Fifo::new(slots)),
            ReplacementConfig::Sieve { .. } => Box::new(Sieve::new(slots)),
            ReplacementConfig::SegmentPrefetchOnly {} => Box::new(SegmentPrefetchOnly::new(slots)),
            ReplacementConfig::FixedCulling { l1 } => Box::new(Self::fixed(*l1, room)?),
            ReplacementConfig::AdaptiveCulling(config) => Box::new(config.build(room)?),
        })
    }
}

fn share(key: &'static str, share: Ratio, most: Ratio) -> Result<(), BuildError> {
    if share.num == 0 || share.num * most.den > most.num * share.den {
        let why = format!("{}/{} is not above 0 and at most {}/{}", share.num, share.den, most.num, most.den);
        return Err(BuildError::at(key, why));
    }
    Ok(())
}

/// Segments that fill the memory, at least one.
fn segments(room: Room) -> u64 {
    (room.blocks / room.line).max(1)
}

impl AdaptiveConfig {
    /// The policy for a cache of this size.
    pub fn build(&self, room: Room) -> Result<AdaptiveCulling, BuildError> {
        share("replacement.l1", self.l1, Ratio::new(1, 1))?;
        share("replacement.region", self.region, half())?;
        share("replacement.speed", self.speed, Ratio::new(64, 1))?;
        if !(1..=1_000_000).contains(&self.every) {
            let why = format!("{} lies outside 1 to 1,000,000", self.every);
            return Err(BuildError::at("replacement.every", why));
        }
        if !(1..=1024).contains(&self.culls) {
            let why = format!("{} lies outside 1 to 1024", self.culls);
            return Err(BuildError::at("replacement.culls", why));
        }
        let most = segments(room) as u32;
        let region = (self.region.of(u64::from(most)) as u32).max(1);
        let longest = match self.l1_most {
            None => most - region,
            Some(longest) => {
                share("replacement.l1_most", longest, Ratio::new(1, 1))?;
                longest.of(u64::from(most)) as u32
            }
        };
        let longest = longest.clamp(region, most);
        let start = (self.l1.of(u64::from(most)) as u32).clamp(region, longest);
        let trigger = match self.trigger {
            TriggerOn::FirstRegion => Trigger::FirstRegion(self.every),
            TriggerOn::BothRegions => Trigger::BothRegions(self.every),
            TriggerOn::Reads => Trigger::Reads(self.every),
        };
        let lists = SegmentLists::new(room.blocks as usize, start, region).with_fault(room.fault);
        let bounds = (region, longest);
        let how = Feedback { trigger, speed: self.speed, bounds, culls: self.culls, ghost: self.ghost };
        Ok(AdaptiveCulling::new(lists, room.blocks as usize, how))
    }
}
