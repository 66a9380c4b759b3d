//! `none`: nothing comes ahead (B0-2). Cost: none.

use super::{Brings, Look, Prefetch, PrefetchOptions, Range, Units};
use nandu_base::{BuildError, Declared, options};

/// Options of `none`.
#[options]
#[derive(Clone, Debug)]
pub struct NoPrefetchConfig {}

impl Declared for NoPrefetchConfig {
    const NAME: &'static str = "none";
    const SUMMARY: &'static str = "Nothing.";
    const SOURCE: &'static str = "";
}

impl PrefetchOptions for NoPrefetchConfig {
    type Policy = NoPrefetch;

    fn brings(&self) -> Brings {
        Brings::Nothing
    }

    fn build(&self, _units: &Units) -> Result<NoPrefetch, BuildError> {
        Ok(NoPrefetch)
    }
}

/// The prefetcher.
#[derive(Clone, Copy, Debug)]
pub struct NoPrefetch;

impl Prefetch for NoPrefetch {
    fn plan(&mut self, _look: &Look<'_>, _ahead: &mut Vec<Range>) {}
}
