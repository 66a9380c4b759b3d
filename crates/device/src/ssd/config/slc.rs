//! The option `slc_cache`: blocks in SLC mode in front of the chip's own mode. See `crate::ssd::slc`.

use super::SsdConfig;
use crate::nand::lanes::Timing;
use crate::nand::{Profile, SlcFigures};
use crate::ssd::gc::Pace;
use nandu_base::{BuildContext, BuildError, ByteLen, Ratio, Span, options};
use nandu_ftl::plan::slc::{Plan, SlcCache};
use nandu_ftl::{Layout, SlcRules};

/// Blocks that are programmed with one bit per cell first, and folded into the chip's own mode later.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlcCacheConfig {
    /// Data that always fits, in whole blocks of every plane; they are taken from what is spare.
    #[serde(rename = "static")]
    #[option(default, off = "none")]
    pub fixed: ByteLen,
    /// Share of the blocks that could still be filled with data which the cache may borrow: it shrinks as the drive fills.
    #[option(default = Ratio::new(1, 1), range = ..=Ratio::new(1, 1))]
    pub dynamic: Ratio,
    /// What happens to writes when it is full.
    #[option(default)]
    pub when_full: WhenFull,
    /// Whether it is folded while no request comes, after `gc.idle_after`.
    #[option(default = true)]
    pub fold_idle: bool,
    /// Share of the cache in use from which on an idle drive folds.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
    pub fold_start: Ratio,
    /// Share of the cache in use at which it stops.
    #[option(default = Ratio::ZERO, range = ..=Ratio::new(1, 1), also = "at most `fold_start`")]
    pub fold_stop: Ratio,
    /// tR in SLC mode.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub read_latency: Option<Span>,
    /// tPROG in SLC mode.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub program_latency: Option<Span>,
    /// tBERS in SLC mode.
    #[option(unset = "the profile's", range = ..=Span::from_secs(10))]
    pub erase_latency: Option<Span>,
    /// Cycles that a block stands which is always in SLC mode.
    #[option(unset = "the profile's", range = 1..)]
    pub endurance: Option<u32>,
}

/// What happens to writes when the cache is full.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// They go to blocks in the chip's own mode.
    #[default]
    Bypass,
    /// They wait until older pages are folded.
    Fold,
}

fn refuse<T>(why: String) -> Result<T, BuildError> {
    Err(BuildError::at("slc_cache", why))
}

impl SlcCacheConfig {
    fn check(&self) -> Result<(), BuildError> {
        let is_above = |a: Ratio, b: Ratio| {
            u128::from(a.num) * u128::from(b.den) > u128::from(b.num) * u128::from(a.den)
        };
        if is_above(self.fold_stop, self.fold_start) {
            return refuse("folding stops at `fold_stop`, which is at most `fold_start`".into());
        }
        if !self.fold_idle && (self.fold_start, self.fold_stop) != (Ratio::ZERO, Ratio::ZERO) {
            let why = "`fold_start` and `fold_stop` say when an idle drive folds, and with `fold_idle = false` it does not: leave them out";
            return refuse(why.into());
        }
        if self.fixed == ByteLen::ZERO && self.dynamic.num == 0 {
            return refuse("a cache needs a `static` part, a `dynamic` part, or both".into());
        }
        Ok(())
    }

    /// The chip's figures in SLC mode, with this cache's own over them.
    fn figures(&self, chip: &Profile) -> Result<SlcFigures, BuildError> {
        let missing = |figure: &str| {
            let why = format!("profile `{}` has no figures for SLC mode: give `{figure}`", chip.name);
            BuildError::at(format!("slc_cache.{figure}"), why)
        };
        let own = chip.slc.as_ref();
        Ok(SlcFigures {
            read: self.read_latency.or(own.map(|f| f.read)).ok_or_else(|| missing("read_latency"))?,
            program: self
                .program_latency
                .or(own.map(|f| f.program))
                .ok_or_else(|| missing("program_latency"))?,
            erase: self.erase_latency.or(own.map(|f| f.erase)).ok_or_else(|| missing("erase_latency"))?,
            endurance: self.endurance.or(own.map(|f| f.endurance)).ok_or_else(|| missing("endurance"))?,
        })
    }
}

impl SsdConfig {
    /// Refuses what cannot be with a cache in SLC mode.
    pub(super) fn check_slc(&self) -> Result<(), BuildError> {
        let Some(cache) = &self.slc_cache else { return Ok(()) };
        cache.check()?;
        if self.mapping.log_block().is_some() {
            let why = "with a log-block map a page lies in its data block or in a log block, and nowhere else: the log is its cache";
            return refuse(why.into());
        }
        if !self.gc.separate_frontier {
            return refuse("moved pages never go to SLC mode: `gc.separate_frontier` must be true".into());
        }
        Ok(())
    }

    /// Whether an idle drive folds a cache.
    pub(super) fn folds_while_idle(&self) -> bool {
        self.slc_cache.is_some_and(|cache| cache.fold_idle)
    }

    /// What a block is in SLC mode, and its times; `None` without a cache.
    pub(super) fn slc_mode(
        &self,
        chip: &Profile,
        own: &Timing,
    ) -> Result<Option<(SlcRules, Timing)>, BuildError> {
        let Some(cache) = &self.slc_cache else { return Ok(None) };
        let figures = cache.figures(chip)?;
        let bits = chip.bits_per_cell().unwrap_or(1);
        if bits < 2 {
            return refuse(format!("the cells of `{}` hold one bit in any case", chip.name));
        }
        let pages = chip.pages_per_block / bits;
        if pages == 0 {
            return refuse(format!("a block of {} pages has none in SLC mode", chip.pages_per_block));
        }
        let SlcFigures { read, program, erase, endurance } = figures;
        Ok(Some((SlcRules { pages, endurance }, Timing { read, program, erase, ..*own })))
    }

    /// Units of `width` blocks, of each group of planes, that are the cache's whatever the drive holds.
    pub(super) fn slc_fixed(&self, layout: &Layout, width: u32, chip: &Profile) -> Result<u32, BuildError> {
        let Some(cache) = self.slc_cache.filter(|cache| cache.fixed > ByteLen::ZERO) else { return Ok(0) };
        let pages = chip.pages_per_block / chip.bits_per_cell().unwrap_or(1);
        let row = u64::from(layout.planes) * u64::from(width) * u64::from(pages) * chip.page.0;
        match cache.fixed.0.checked_div(row) {
            None | Some(0) => {
                let row = ByteLen(row);
                refuse(format!(
                    "static = {} is less than a unit of every group of planes, which hold {row}",
                    cache.fixed
                ))
            }
            Some(blocks) => Ok(blocks.min(u64::from(layout.blocks)) as u32),
        }
    }

    /// The cache of a drive with so many blocks of each pool for it.
    pub(super) fn slc_cache(&self, fixed: Vec<u32>, cx: &BuildContext<'_>) -> Option<Box<SlcCache>> {
        let cache = self.slc_cache?;
        let plan = Plan {
            borrows: cache.dynamic,
            folds_when_full: cache.when_full == WhenFull::Fold,
            folds_idle: cache.fold_idle,
            fold_start: cache.fold_start,
            fold_stop: cache.fold_stop,
            is_paced: self.gc.mode == Pace::Incremental,
        };
        Some(Box::new(SlcCache::new(plan, fixed, cx)))
    }
}
