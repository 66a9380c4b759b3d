//! The options of TPC-FTL; the page of [`super`] says what they are for.

use super::{SLOT_EXTRA, Tpc};
use crate::mapping::{Given, MapOptions, PagedOptions};
use nandu_base::{BuildError, Declared, Ratio, options};

/// Options of `tpc-ftl`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct TpcConfig {
    #[option(flatten, default)]
    #[allow(missing_docs)] // they are those of all maps on the flash
    pub paged: PagedOptions,
    /// Whether a write that misses puts off reading the translation page.
    #[option(default = true)]
    pub delayed_read: bool,
    /// When a delayed read learns which data pages were superseded.
    #[option(default)]
    pub invalidation: InvalidationConfig,
    /// The share of the oldest slots among which an unchanged one is replaced first; 1 is the paper's rule.
    #[option(default = Ratio::new(1, 4), range = ..=Ratio::new(1, 1))]
    pub clean_first_window: Ratio,
}

/// When a delayed read learns which data pages were superseded.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InvalidationConfig {
    /// When garbage collection asks the map about a page: a read is saved when all entries were overwritten.
    #[default]
    AtCollection,
    /// The old translation page is always read before it is replaced.
    AtRead,
}

impl Declared for TpcConfig {
    const NAME: &'static str = "tpc-ftl";
    const SUMMARY: &'static str = "TPC-FTL: whole translation pages are cached, a page and 12 bytes each.";
    const SOURCE: &'static str = "Choi, Kim, 2015";
    const DRAWS: &'static [&'static str] =
        &["", "delayed_read = false", "invalidation = \"at-read\"", "clean_first_window = \"1\""];
}

impl MapOptions for TpcConfig {
    type Map = Tpc;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Tpc, BuildError> {
        if !self.delayed_read && self.invalidation != InvalidationConfig::default() {
            let why = "with `delayed_read = false` a write reads what it supersedes at once: take `delayed_read = true`, or leave it out";
            return Err(BuildError::at("mapping.invalidation", why));
        }
        let window = self.clean_first_window;
        let ram = self.paged.ram(4 * given.shape.entries() as u64 + SLOT_EXTRA)?;
        let slots = window.of(Tpc::slots_in(ram, &given.shape)).max(1).min(u64::from(u32::MAX));
        let settings = TpcSettings {
            ram,
            delayed_read: self.delayed_read,
            invalidation: match self.invalidation {
                _ if (given.planted)("ssd.map-lost-invalidation") => Invalidation::Lost,
                InvalidationConfig::AtCollection => Invalidation::AtCollection,
                InvalidationConfig::AtRead => Invalidation::AtRead,
            },
            clean_first_window: match window.num == window.den {
                true => CleanFirst::All,
                false => CleanFirst::Window(slots as u32),
            },
            unknown_max: given.unsettled_max,
            skip_fill: (given.planted)("ssd.map-skipped-fill"),
        };
        Ok(Tpc::new(given.shape, settings))
    }
}

/// Which unchanged slots are replaced before changed ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleanFirst {
    /// Any: the paper's algorithm 2.
    All,
    /// Only those among this many oldest slots.
    Window(u32),
}

/// How a delayed read learns which pages were superseded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidation {
    /// When collection asks about a page.
    AtCollection,
    /// The old translation page is always read before the new one is written.
    AtRead,
    /// Never, when all entries were overwritten: the paper's text, and a fault.
    Lost,
}

/// The options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TpcSettings {
    /// Bytes for slots.
    pub ram: u64,
    /// Whether a write that misses puts off the read.
    pub delayed_read: bool,
    /// See [`Invalidation`].
    pub invalidation: Invalidation,
    /// See [`CleanFirst`].
    pub clean_first_window: CleanFirst,
    /// Superseded pages that may count as valid at one time.
    pub unknown_max: u32,
    /// A fault for tests: completing a slot forgets the entries that were not loaded.
    pub skip_fill: bool,
}
