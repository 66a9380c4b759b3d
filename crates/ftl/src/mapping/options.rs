//! What a map declares beside its name, and what a drive tells it when it is made.

use super::{MapShape, Mapping};
use nandu_base::options::Options;
use nandu_base::{BuildError, ByteLen, options};
use std::fmt::Debug;

/// The options of a map, declared in its file. A registry takes them where they are [`nandu_base::Declared`] too.
pub trait MapOptions: Options + Debug + Send + Sync + 'static {
    /// The map.
    type Map: Mapping + 'static;

    /// Its options as a map on the flash; `None` for one that is in RAM as a whole. So the map has a
    /// [`Mapping::store`] of translation pages, or none.
    fn paged(&self) -> Option<&PagedOptions> {
        None
    }

    /// Whether it gathers logical blocks ([`super::switching`]), which takes one block of each plane.
    fn gathers(&self) -> bool {
        false
    }

    /// The map for a drive.
    ///
    /// # Errors
    /// An option does not fit this drive, or another one; `key` is `mapping`, or one in it.
    fn build(&self, given: Given<'_>) -> Result<Self::Map, BuildError>;
}

/// What a drive tells the map that is made for it.
pub struct Given<'a> {
    /// The size of the map: logical pages, entries of a translation page, moves that may wait.
    pub shape: MapShape,
    /// Pages of a block.
    pub block_pages: u32,
    /// Superseded data pages that may count as valid at one time ([`Mapping::unsettled`]).
    pub unsettled_max: u32,
    /// What the map draws at random comes from here.
    pub seed: u64,
    /// Whether the fault of this name is planted.
    pub planted: &'a dyn Fn(&str) -> bool,
}

/// The options that all maps on the flash have. They stand in the table `mapping` beside a map's own.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagedOptions {
    /// RAM for what is cached of the map: entries, runs of them, or whole translation pages, as the map has it.
    #[option(default = ByteLen::kib(128))]
    pub cmt_size: ByteLen,
    /// Moves of garbage collection that may wait for their translation page, 8 bytes each.
    #[option(unset = "as many as a block has pages", range = 1..=1 << 20)]
    pub gc_batch: Option<u32>,
    /// Whether an entry waits until the entries that made room for it are written.
    #[option(default)]
    pub eviction_write: EvictionWrite,
    /// When a whole page of the host's is programmed whose entry is not cached.
    #[option(default)]
    pub data_program: DataProgram,
}

impl PagedOptions {
    /// RAM of the cache in bytes, of which a map needs at least `least`: room for one piece of what it caches.
    ///
    /// # Errors
    /// It is too small.
    pub fn ram(&self, least: u64) -> Result<u64, BuildError> {
        let ram = self.cmt_size;
        if ram.0 < least {
            let least = ByteLen(least);
            let why = format!("{ram} is too small for the map's cache: at least {least} are needed");
            return Err(BuildError::at("mapping.cmt_size", why));
        }
        Ok(ram.0)
    }
}

/// Whether a fetch waits for the write of what it replaces.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EvictionWrite {
    /// It does: the papers' account of time.
    #[default]
    Sync,
    /// It does not: one page of RAM more holds what is being written.
    Async,
}

/// When a whole page of the host's is programmed whose entry is not cached. A part of a page waits in any case: the rest of it must be found.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DataProgram {
    /// When its entry and those of the pages before it in the request have come: the papers' account of time.
    #[default]
    AfterLookup,
    /// At once, for nothing needs to be known but the new place. The request still ends when the entries have come.
    AtOnce,
}
