//! The family of prefetchers: what a prefetcher declares beside its name, and what a cache makes of it.

use super::{Holes, Prefetch};
use nandu_base::options::Options;
use nandu_base::{BuildError, ByteLen, Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// What is read ahead of requests, by name and options.
pub type PrefetchConfig = Chosen<Prefetchers>;

/// The family.
pub struct Prefetchers;

impl Family for Prefetchers {
    const NAME: &'static str = "prefetcher";
    const SCHEMA: &'static str = "PrefetchConfig";
    const SUMMARY: &'static str = "What is read ahead of requests.";
    type Options = dyn AnyPrefetch;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The prefetchers of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::none::NoPrefetchConfig>(),
    policy::<super::sequential::SequentialConfig>(),
    policy::<super::amp::AmpConfig>(),
    policy::<super::p_block::PBlockConfig>(),
    policy::<super::segment::SegmentConfig>(),
    policy::<super::gated_segment::GatedSegmentConfig>(),
    policy::<super::markov::MarkovConfig>(),
    policy::<super::mithril::MithrilConfig>(),
    policy::<super::oracle::OracleConfig>(),
];

/// The prefetcher whose options are `C`, for a registry.
pub const fn policy<C: PrefetchOptions>() -> Policy {
    let read: &'static ReadOptions<Prefetchers> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Prefetchers, C>(read)
}

/// The options of a prefetcher: what its file declares.
pub trait PrefetchOptions: Declared {
    /// The prefetcher.
    type Policy: Prefetch + 'static;

    /// What comes ahead of requests.
    fn brings(&self) -> Brings {
        Brings::Ranges
    }

    /// Bytes of a segment, where it is named here and not by the cache.
    fn segment(&self) -> Option<ByteLen> {
        None
    }

    /// The prefetcher for a cache of these units.
    ///
    /// # Errors
    /// Options that do not suit these units or each other, as `prefetch.KEY`.
    fn build(&self, units: &Units) -> Result<Self::Policy, BuildError>;
}

/// Options of any prefetcher.
pub trait AnyPrefetch: Options + Debug + Send + Sync {
    /// See [`PrefetchOptions::brings`].
    fn brings(&self) -> Brings;
    /// See [`PrefetchOptions::segment`].
    fn segment(&self) -> Option<ByteLen>;
    /// See [`PrefetchOptions::build`].
    fn boxed(&self, units: &Units) -> Result<Box<dyn Prefetch>, BuildError>;
}

impl<C: PrefetchOptions> AnyPrefetch for C {
    fn brings(&self) -> Brings {
        C::brings(self)
    }
    fn segment(&self) -> Option<ByteLen> {
        C::segment(self)
    }
    fn boxed(&self, units: &Units) -> Result<Box<dyn Prefetch>, BuildError> {
        Ok(Box::new(self.build(units)?))
    }
}

/// What comes ahead of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brings {
    /// Nothing.
    Nothing,
    /// Ranges of blocks.
    Ranges,
    /// Whole segments: a read of missing blocks spans its segments.
    Segments(Holes),
}

/// What a prefetcher is made for.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Bytes of a block.
    pub block: ByteLen,
    /// Blocks of a segment, at least one.
    pub segment: u64,
}

impl Units {
    /// Longest window.
    pub const MOST: ByteLen = ByteLen::mib(16);

    /// Blocks of `len` bytes, the value of option `key`.
    ///
    /// # Errors
    /// It is no multiple of the block, none, or longer than 16 MiB.
    pub fn blocks(&self, key: &'static str, len: ByteLen) -> Result<u64, BuildError> {
        let Units { block, .. } = *self;
        if len < block || len > Units::MOST || !len.0.is_multiple_of(block.0) {
            let why = format!("{len} is not a multiple of the block of {block} up to {}", Units::MOST);
            return Err(BuildError::at(key, why));
        }
        Ok(len.0 / block.0)
    }
}
