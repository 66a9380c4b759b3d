//! `lru`: the block that was written longest ago goes below first, with dirty blocks beside it (`max_destage_size`). Units are single blocks.
//!
//! Cost: 8 bytes for each unit. A search passes over units that are on their way, at most 2048.

use super::{Destage, DestageOptions, Wrote};
use crate::list::{Chain, List};
use nandu_base::{Declared, options};

/// Units that a search looks at.
const LOOK_AT: usize = 2048;

/// Options of `lru`.
#[options]
#[derive(Clone, Debug)]
pub struct LruDestageConfig {}

impl Declared for LruDestageConfig {
    const NAME: &'static str = "lru";
    const SUMMARY: &'static str = "The block written longest ago.";
    const SOURCE: &'static str = "";
}

impl DestageOptions for LruDestageConfig {
    type Policy = LruDestage;

    fn by_unit(&self) -> bool {
        false
    }

    fn build(&self, slots: usize) -> LruDestage {
        LruDestage::new(slots)
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct LruDestage {
    pub(super) chain: Chain,
    pub(super) list: List,
}

impl LruDestage {
    /// For at most `slots` units.
    pub fn new(slots: usize) -> LruDestage {
        LruDestage { chain: Chain::new(slots), list: List::default() }
    }
}

impl Destage for LruDestage {
    fn wrote(&mut self, slot: u32, wrote: Wrote) {
        if wrote.new {
            self.list.push(&mut self.chain, slot);
        } else {
            self.list.renew(&mut self.chain, slot);
        }
    }

    fn victim(&mut self, waiting: &[u32]) -> Option<u32> {
        let mut oldest = self.list.iter(&self.chain).take(LOOK_AT);
        oldest.find(|&slot| waiting[slot as usize] > 0)
    }

    fn gone(&mut self, slot: u32) {
        self.list.remove(&mut self.chain, slot);
    }

    fn bytes(&self) -> usize {
        self.chain.bytes()
    }
}
