//! `none`: nothing comes ahead (B0-2). Cost: none.

use super::{Look, Prefetch, Range};

/// The prefetcher.
#[derive(Clone, Copy, Debug)]
pub struct NoPrefetch;

impl Prefetch for NoPrefetch {
    fn plan(&mut self, _look: &Look<'_>, _ahead: &mut Vec<Range>) {}
}
