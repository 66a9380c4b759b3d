//! `bplru`: the NAND block that was written longest ago goes below first (B0-14).
//!
//! Dirty pages are grouped by NAND block; a write makes its group the newest; the oldest group goes as a whole. A group
//! that was written from its first to its last page in order becomes the oldest at once, for it will hardly be written
//! again (LRU compensation). Kim and Ahn, "BPLRU: a buffer management scheme for improving random writes in flash
//! storage", FAST 2008, sections 3.1 and 3.3.
//!
//! Page padding, which is `write.pad` of the cache: BPLRU reads the pages that are missing of a group and writes the whole
//! NAND block, so that a drive that maps by blocks can switch it in. By default it is off, for drives that map by pages
//! gain nothing from it.
//!
//! Cost: 8 bytes for each group. A search passes over groups that are on their way, at most 64.

use super::{Destage, DestageOptions, LruDestage, Wrote};
use nandu_base::{Declared, options};

/// Options of `bplru`.
#[options]
#[derive(Clone, Debug)]
pub struct BplruConfig {}

impl Declared for BplruConfig {
    const NAME: &'static str = "bplru";
    const SUMMARY: &'static str = "The NAND block written longest ago, or one that was written in order.";
    const SOURCE: &'static str = "Kim and Ahn, FAST 2008";
}

impl DestageOptions for BplruConfig {
    type Policy = Bplru;

    fn may_pad(&self) -> bool {
        true
    }

    fn build(&self, slots: usize) -> Bplru {
        Bplru::new(slots)
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Bplru(LruDestage);

impl Bplru {
    /// For at most `slots` groups.
    pub fn new(slots: usize) -> Bplru {
        Bplru(LruDestage::new(slots))
    }
}

impl Destage for Bplru {
    fn wrote(&mut self, slot: u32, wrote: Wrote) {
        self.0.wrote(slot, wrote);
        if wrote.in_order {
            self.0.list.remove(&mut self.0.chain, slot);
            self.0.list.push_oldest(&mut self.0.chain, slot);
        }
    }

    fn victim(&mut self, waiting: &[u32]) -> Option<u32> {
        self.0.victim(waiting)
    }

    fn gone(&mut self, slot: u32) {
        self.0.gone(slot);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
