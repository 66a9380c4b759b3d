//! `hot`: a page is copied up at its n-th read from below, as far as a table remembers ([`Touches`]); then it begins anew.
//!
//! With more than two reads it is in the manner of dm-cache's `smq` (Linux documentation of device-mapper cache policies), which promotes
//! what has climbed in a queue of hot spots.
//!
//! Cost: 5 bytes for each page of the rings.

use super::{Promotion, PromotionOptions, Touches};
use nandu_base::{BuildError, Declared, options};

/// Options of `hot`.
#[options]
#[derive(Clone, Debug)]
pub struct HotConfig {
    /// Reads.
    #[option(range = 1..=255)]
    pub hits: u8,
}

impl Declared for HotConfig {
    const NAME: &'static str = "hot";
    const SUMMARY: &'static str = "One that was read from there so often, as far as such a table remembers.";
    const SOURCE: &'static str = "Linux, dm-cache smq";
    const DRAWS: &'static [&'static str] = &["hits = 3"];
}

impl PromotionOptions for HotConfig {
    type Policy = Hot;

    fn build(&self, slots: usize) -> Result<Hot, BuildError> {
        Ok(Hot { hits: self.hits, touches: Touches::new(slots) })
    }
}

/// The rule and its table.
#[derive(Clone, Debug)]
pub struct Hot {
    hits: u8,
    touches: Touches,
}

impl Promotion for Hot {
    fn admits(&mut self, page: u32) -> bool {
        self.touches.is_hot(page, self.hits)
    }

    fn touched(&mut self, page: u32) {
        self.touches.touch(page);
    }
}
