//! The options of the map.

use super::config::LogKind;
use nandu_base::{BuildContext, BuildError, ByteLen, Ratio};
use nandu_ftl::MapArea;
use nandu_ftl::mapping::{
    Cftl, CleanFirst, Dftl, Invalidation, MapShape, Mapping, SwitchSettings, Tpc, TpcSettings, Tpftl,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// How logical pages are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MapConfig {
    /// The whole map in RAM, 4 bytes per page.
    #[default]
    #[serde(alias = "page-map")]
    Page,
    /// DFTL: single entries are cached, 8 bytes each; the map is in translation pages on the flash.
    Dftl {
        /// RAM for cached entries.
        #[serde(default = "default_cmt_size")]
        cmt_size: ByteLen,
        /// Share of the entries that are protected because they were used again; below 1. 0, the default, is plain LRU;
        /// DFTL's own paper has a segmented LRU and does not say how many it protects.
        #[serde(default = "no_share")]
        protected_share: Ratio,
        /// Moves of garbage collection that may wait for their translation page, 8 bytes each; by default as many as a
        /// block has pages.
        gc_batch: Option<u32>,
        /// Whether an entry waits until the entries that made room for it are written.
        #[serde(default)]
        eviction_write: EvictionWrite,
        /// When a whole page of the host's is programmed whose entry is not cached.
        #[serde(default)]
        data_program: DataProgram,
    },
    /// Block map: a page lies at its own position in its block; an overwrite copies the block.
    Block {
        /// Replacement blocks that may be open in each plane.
        #[serde(default = "one")]
        replacement_blocks: u32,
        /// Consecutive pages on one plane before the next has its turn.
        #[serde(default = "one")]
        interleave: u32,
    },
    /// BAST: block map with log blocks, each for the overwrites of one logical block.
    Bast {
        /// Log blocks of each plane, or of each tenant's part of it; by default all blocks that are spare.
        log_blocks: Option<u32>,
        /// Whether blocks that no data needs serve as log blocks too.
        #[serde(default)]
        use_free_blocks: bool,
        /// Consecutive pages on one plane before the next has its turn.
        #[serde(default = "one")]
        interleave: u32,
    },
    /// FAST: block map with log blocks that all logical blocks share, and one for sequential writes.
    Fast {
        /// Random log blocks of each plane, or of each tenant's part of it; by default all blocks that are spare.
        log_blocks: Option<u32>,
        /// Whether there is a log block for sequential writes.
        #[serde(default = "yes")]
        sequential_log_block: bool,
        /// Whether blocks that no data needs serve as log blocks too.
        #[serde(default)]
        use_free_blocks: bool,
        /// Consecutive pages on one plane before the next has its turn.
        #[serde(default = "one")]
        interleave: u32,
    },
    /// CFTL: runs of pages that lie one behind another are cached, 12 bytes each, and whole blocks, 8 bytes each. Blocks that
    /// are read often and seldom written are gathered. On a drive with several planes only those have runs.
    Cftl {
        /// RAM for cached runs and blocks.
        #[serde(default = "default_cmt_size")]
        cmt_size: ByteLen,
        /// Which logical blocks are gathered in flash blocks of their own.
        #[serde(default)]
        switching: SwitchingConfig,
        /// Moves of garbage collection that may wait for their translation page, 8 bytes each; by default as many as a
        /// block has pages.
        gc_batch: Option<u32>,
        /// Whether an entry waits until the entries that made room for it are written.
        #[serde(default)]
        eviction_write: EvictionWrite,
        /// When a whole page of the host's is programmed whose entry is not cached.
        #[serde(default)]
        data_program: DataProgram,
    },
    /// TPFTL: single entries are cached in groups by translation page, 6 bytes each and 8 for a group; requests fetch their
    /// entries together.
    Tpftl {
        /// RAM for cached entries.
        #[serde(default = "default_cmt_size")]
        cmt_size: ByteLen,
        /// Moves of garbage collection that may wait for their translation page, 8 bytes each; by default as many as a
        /// block has pages.
        gc_batch: Option<u32>,
        /// Whether an entry waits until the entries that made room for it are written.
        #[serde(default)]
        eviction_write: EvictionWrite,
        /// When a whole page of the host's is programmed whose entry is not cached.
        #[serde(default)]
        data_program: DataProgram,
    },
    /// TPC-FTL: whole translation pages are cached.
    TpcFtl {
        /// RAM for cached translation pages, a page and 12 bytes each.
        #[serde(default = "default_cmt_size")]
        cmt_size: ByteLen,
        /// Whether a write that misses puts off reading the translation page.
        #[serde(default = "yes")]
        delayed_read: bool,
        /// When a delayed read learns which data pages were superseded.
        #[serde(default)]
        invalidation: InvalidationConfig,
        /// The share of the oldest slots among which an unchanged one is replaced first; 1 is the paper's rule.
        #[serde(default = "default_window")]
        clean_first_window: Ratio,
        /// Moves of garbage collection that may wait for their translation page, 8 bytes each; by default as many as a
        /// block has pages.
        gc_batch: Option<u32>,
        /// Whether a translation page waits until the one that made room for it is written.
        #[serde(default)]
        eviction_write: EvictionWrite,
        /// When a whole page of the host's is programmed whose entry is not cached.
        #[serde(default)]
        data_program: DataProgram,
    },
}

/// Whether a fetch waits for the write of what it replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionWrite {
    /// It does: the papers' account of time.
    #[default]
    Sync,
    /// It does not: one page of RAM more holds what is being written.
    Async,
}

/// When a whole page of the host's is programmed whose entry is not cached. A part of a page waits in any case: the rest of it must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataProgram {
    /// When its entry and those of the pages before it in the request have come: the papers' account of time.
    #[default]
    AfterLookup,
    /// At once, for nothing needs to be known but the new place. The request still ends when the entries have come.
    AtOnce,
}

/// Which logical blocks a map gathers in flash blocks, so that one entry stands for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SwitchingConfig {
    /// None: a block is one entry only where it happens to lie in order.
    Never,
    /// Those that are read often and seldom written. A request counts once for each logical block that it touches; counts are
    /// halved each time that as many were made as there are logical blocks, so that an average block has about 2.
    ByAccess {
        /// Reads counted from which a block is gathered, 1 to 65535.
        #[serde(default = "default_reads")]
        reads: u16,
        /// Most writes counted with which it is, 0 to 65535.
        #[serde(default = "default_writes")]
        writes: u16,
        /// Pages copied after each request, 1 to 4096.
        #[serde(default = "default_pages")]
        pages: u32,
    },
}

impl Default for SwitchingConfig {
    fn default() -> SwitchingConfig {
        SwitchingConfig::ByAccess { reads: default_reads(), writes: default_writes(), pages: default_pages() }
    }
}

fn default_reads() -> u16 {
    16
}

fn default_writes() -> u16 {
    1
}

fn default_pages() -> u32 {
    4
}

/// When a delayed read learns which data pages were superseded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidationConfig {
    /// When garbage collection asks the map about a page: a read is saved when all entries were overwritten.
    #[default]
    AtCollection,
    /// The old translation page is always read before it is replaced.
    AtRead,
}

fn default_cmt_size() -> ByteLen {
    ByteLen(128 << 10)
}

fn no_share() -> Ratio {
    Ratio::ZERO
}

fn default_window() -> Ratio {
    Ratio::new(1, 4)
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl MapConfig {
    /// The log-block map, if it is one, and how pages are dealt out to planes.
    pub(super) fn log_block(&self) -> Option<(LogKind, u32)> {
        match *self {
            MapConfig::Block { replacement_blocks: open, interleave } => {
                Some((LogKind::Block { open }, interleave))
            }
            MapConfig::Bast { log_blocks, use_free_blocks: borrow, interleave } => {
                Some((LogKind::Bast { log_blocks, borrow }, interleave))
            }
            MapConfig::Fast {
                log_blocks,
                sequential_log_block: sequential,
                use_free_blocks: borrow,
                interleave,
            } => Some((LogKind::Fast { log_blocks, sequential, borrow }, interleave)),
            _ => None,
        }
    }

    /// Whether the map is partly on the flash.
    pub(super) fn is_paged(&self) -> bool {
        *self != MapConfig::Page && self.log_block().is_none()
    }

    pub(super) fn waits_for_write(&self) -> bool {
        match *self {
            MapConfig::Page | MapConfig::Block { .. } | MapConfig::Bast { .. } | MapConfig::Fast { .. } => {
                false
            }
            MapConfig::Dftl { eviction_write: write_back, .. }
            | MapConfig::Cftl { eviction_write: write_back, .. }
            | MapConfig::Tpftl { eviction_write: write_back, .. }
            | MapConfig::TpcFtl { eviction_write: write_back, .. } => write_back == EvictionWrite::Sync,
        }
    }

    /// Whether whole pages are programmed before their entries have come.
    pub(super) fn programs_at_once(&self) -> bool {
        match *self {
            MapConfig::Page | MapConfig::Block { .. } | MapConfig::Bast { .. } | MapConfig::Fast { .. } => {
                false
            }
            MapConfig::Dftl { data_program, .. }
            | MapConfig::Cftl { data_program, .. }
            | MapConfig::Tpftl { data_program, .. }
            | MapConfig::TpcFtl { data_program, .. } => data_program == DataProgram::AtOnce,
        }
    }

    /// Whether logical blocks are gathered, which takes one block of each plane.
    pub(super) fn gathers(&self) -> bool {
        matches!(*self, MapConfig::Cftl { switching: SwitchingConfig::ByAccess { .. }, .. })
    }

    /// RAM for the cache.
    pub(super) fn ram(&self) -> u64 {
        match *self {
            MapConfig::Page | MapConfig::Block { .. } | MapConfig::Bast { .. } | MapConfig::Fast { .. } => 0,
            MapConfig::Dftl { cmt_size: ram, .. }
            | MapConfig::Cftl { cmt_size: ram, .. }
            | MapConfig::Tpftl { cmt_size: ram, .. }
            | MapConfig::TpcFtl { cmt_size: ram, .. } => ram.0,
        }
    }

    /// The map's size on a drive of `pages` logical pages.
    pub(super) fn shape(
        &self,
        pages: u32,
        page_bytes: u64,
        block_pages: u32,
    ) -> Result<MapShape, BuildError> {
        let batch = match *self {
            MapConfig::Page | MapConfig::Block { .. } | MapConfig::Bast { .. } | MapConfig::Fast { .. } => {
                None
            }
            MapConfig::Dftl { gc_batch, .. }
            | MapConfig::Cftl { gc_batch, .. }
            | MapConfig::Tpftl { gc_batch, .. }
            | MapConfig::TpcFtl { gc_batch, .. } => gc_batch,
        };
        let moves = batch.unwrap_or(block_pages);
        if !(1..=1 << 20).contains(&moves) {
            return Err(BuildError::at(
                "mapping",
                format!("gc_batch = {moves} is not within 1 to {}", 1 << 20),
            ));
        }
        Ok(MapShape::new(pages, page_bytes.trailing_zeros() - 2, moves))
    }

    /// What it takes of the blocks of a drive with pages of so many bytes, where it is on the flash.
    pub(super) fn needs(&self, page_bytes: u64) -> Option<MapNeeds> {
        let entries = (page_bytes / 4) as u32;
        self.is_paged().then(|| MapNeeds { entries, gathers: u32::from(self.gathers()) })
    }
}

/// What a map on the flash takes of the blocks of whoever's pages it maps.
#[derive(Clone, Copy, Debug)]
pub(in crate::ssd) struct MapNeeds {
    /// Entries of a translation page.
    entries: u32,
    /// Blocks of each pool for logical blocks that are gathered.
    gathers: u32,
}

impl MapNeeds {
    /// Blocks of each pool for the translation pages of so many logical pages, wherever they begin, where a block of each pool has `row` pages together.
    pub fn area(&self, row: u64, pages: u32) -> u32 {
        if pages == 0 { 0 } else { MapArea::quota(row, pages.div_ceil(self.entries) + 1) }
    }

    /// All blocks of each pool.
    pub fn blocks(&self, row: u64, pages: u32) -> u32 {
        self.area(row, pages) + self.gathers
    }
}

/// A cache needs room for at least one piece of what it caches.
fn enough(ram: ByteLen, least: u64) -> Result<u64, BuildError> {
    if ram.0 < least {
        let reason = format!(
            "cmt_size = {ram} is too small for the map's cache: at least {} are needed",
            ByteLen(least)
        );
        return Err(BuildError::at("mapping", reason));
    }
    Ok(ram.0)
}

pub(super) fn dftl(shape: MapShape, ram: ByteLen, protected: Ratio) -> Result<Dftl, BuildError> {
    if protected.num >= protected.den {
        return Err(BuildError::at("mapping", "protected is a share of the entries, below 1"));
    }
    let map = Dftl::new(shape, enough(ram, 16)?);
    let most = protected.of(u64::from(map.cache_slots()));
    Ok(map.with_protected(most as u32))
}

pub(super) fn cftl(
    shape: MapShape,
    ram: ByteLen,
    switching: SwitchingConfig,
    block_pages: u32,
    cx: &BuildContext<'_>,
) -> Result<Cftl, BuildError> {
    let switching = match switching {
        SwitchingConfig::Never => None,
        SwitchingConfig::ByAccess { reads: 0, .. } => {
            return Err(BuildError::at("mapping", "switching.reads = 0 is not within 1 to 65535"));
        }
        SwitchingConfig::ByAccess { reads, writes, pages: pages @ 1..=4096 } => {
            let keeps_overwritten = cx.planted("ssd.gathered-although-written");
            Some(SwitchSettings { reads, writes, pages, keeps_overwritten })
        }
        SwitchingConfig::ByAccess { pages, .. } => {
            let reason = format!("switching.pages = {pages} is not within 1 to 4096");
            return Err(BuildError::at("mapping", reason));
        }
    };
    Ok(Cftl::new(shape, enough(ram, 24)?, block_pages, switching))
}

pub(super) fn tpftl(shape: MapShape, ram: ByteLen) -> Result<Tpftl, BuildError> {
    Ok(Tpftl::new(shape, enough(ram, 14)?))
}

/// `room` is the number of superseded pages that may count as valid at one time.
pub(super) fn tpc(
    config: &MapConfig,
    shape: MapShape,
    room: u32,
    cx: &BuildContext<'_>,
) -> Result<Tpc, BuildError> {
    let MapConfig::TpcFtl { cmt_size: ram, delayed_read, invalidation, clean_first_window, .. } = *config
    else {
        unreachable!("only asked for its own options")
    };
    if clean_first_window.num > clean_first_window.den {
        return Err(BuildError::at("mapping", "clean_first_window is a share of the slots, at most 1"));
    }
    let ram = enough(ram, 4 * shape.entries() as u64 + 12)?;
    let slots = Tpc::slots_in(ram, &shape);
    let window = clean_first_window.of(slots).max(1).min(u64::from(u32::MAX)) as u32;
    let invalidation = match invalidation {
        _ if cx.planted("ssd.map-lost-invalidation") => Invalidation::Lost,
        InvalidationConfig::AtCollection => Invalidation::AtCollection,
        InvalidationConfig::AtRead => Invalidation::AtRead,
    };
    let settings = TpcSettings {
        ram,
        delayed_read,
        invalidation,
        clean_first_window: if clean_first_window.num == clean_first_window.den {
            CleanFirst::All
        } else {
            CleanFirst::Window(window)
        },
        unknown_max: room,
        skip_fill: cx.planted("ssd.map-skipped-fill"),
    };
    Ok(Tpc::new(shape, settings))
}
