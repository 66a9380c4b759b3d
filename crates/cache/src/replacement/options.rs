//! The family of replacement policies: what a policy declares beside its name, and what a cache makes of it.

use super::{Fault, Replacement};
use crate::page_sim::{Accesses, PageCache, PageResult, run_policy};
use nandu_base::options::Options;
use nandu_base::{BuildError, Chosen, Declared, Family, Policy, ReadOptions, options};
use std::fmt::Debug;

/// Which line goes when memory is short, by name and options.
pub type ReplacementConfig = Chosen<Replacements>;

/// The family.
pub struct Replacements;

impl Family for Replacements {
    const NAME: &'static str = "replacement";
    const SCHEMA: &'static str = "ReplacementConfig";
    const SUMMARY: &'static str = "Which line goes when memory is short.";
    type Options = dyn AnyReplacement;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The policies of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::lru::LruConfig>(),
    policy::<super::arc::ArcConfig>(),
    policy::<super::sarc::SarcConfig>(),
    policy::<super::s3_fifo::S3FifoConfig>(),
    policy::<super::sieve::SieveConfig>(),
    policy::<super::lirs::LirsConfig>(),
    policy::<super::lecar::LecarConfig>(),
    policy::<super::fixed_culling::FixedCullingConfig>(),
    policy::<super::adaptive_culling::AdaptiveConfig>(),
    policy::<super::segment_prefetch_only::SegmentPrefetchOnlyConfig>(),
];

/// The policy whose options are `C`, for a registry.
pub const fn policy<C: ReplacementOptions>() -> Policy {
    let read: &'static ReadOptions<Replacements> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Replacements, C>(read)
}

/// The options of a replacement policy: what its file declares.
pub trait ReplacementOptions: Declared {
    /// The policy.
    type Policy: Replacement + 'static;

    /// What goes at a time.
    fn line(&self) -> LineOf {
        LineOf::Block
    }

    /// What must come ahead of requests for it to make sense.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// The policy for a cache of this size.
    ///
    /// # Errors
    /// Options that do not suit this cache or each other, as `replacement.KEY`.
    fn build(&self, room: Room) -> Result<Self::Policy, BuildError>;
}

/// Options of any replacement policy. What is made from them has the policy's own type inside.
pub trait AnyReplacement: Options + Debug + Send + Sync {
    /// See [`ReplacementOptions::line`].
    fn line(&self) -> LineOf;
    /// See [`ReplacementOptions::needs`].
    fn needs(&self) -> Needs;
    /// The policy for the machine `cache`.
    fn boxed(&self, room: Room) -> Result<Box<dyn Replacement>, BuildError>;
    /// Runs the policy without time: see [`simulate`](crate::page_sim::simulate).
    fn simulate(&self, cache: &PageCache, accesses: Accesses<'_>) -> Result<PageResult, BuildError>;
}

impl<C: ReplacementOptions> AnyReplacement for C {
    fn line(&self) -> LineOf {
        C::line(self)
    }
    fn needs(&self) -> Needs {
        C::needs(self)
    }
    fn boxed(&self, room: Room) -> Result<Box<dyn Replacement>, BuildError> {
        Ok(Box::new(self.build(room)?))
    }
    fn simulate(&self, cache: &PageCache, accesses: Accesses<'_>) -> Result<PageResult, BuildError> {
        Ok(run_policy(cache, self.build(cache.room())?, accesses))
    }
}

/// What a policy needs of the prefetcher beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Any prefetcher: it culls what was prefetched.
    Prefetch,
    /// One that brings segments.
    Segments,
}

/// The unit of replacement.
#[options]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineOf {
    /// One block.
    #[default]
    Block,
    /// One segment.
    Segment,
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

impl Room {
    /// The most lines.
    pub fn slots(&self) -> usize {
        self.blocks as usize
    }

    /// Segments that fill the memory, at least one.
    pub fn segments(&self) -> u64 {
        (self.blocks / self.line).max(1)
    }
}
