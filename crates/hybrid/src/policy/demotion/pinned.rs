//! `pinned`: a page that was read or overwritten `hits` times stays, up to a share of the zone: in a whole turn of the ring that is the
//! share of the ring that is pinned.
//!
//! After Kim and others, "I/O Performance Optimization Techniques for Hybrid Hard Disk-Based Mobile Consumer Devices" (2007): flash in a
//! pinned and an unpinned zone, hot blocks in the first. Of the paper only what Yoo and others say of it was at hand. Uses are halved when a
//! page is written again, so that the hot set may change.

use super::{Demotion, DemotionOptions, LEVELS};
use nandu_base::{BuildError, Declared, Ratio, options};

/// Options of `pinned`.
#[options]
#[derive(Clone, Debug)]
pub struct PinnedConfig {
    /// Uses.
    #[option(range = 1..=255)]
    pub hits: u8,
    /// Share of the pages of the zone.
    #[option(range = ..=Ratio::new(1, 1))]
    pub share: Ratio,
}

impl Declared for PinnedConfig {
    const NAME: &'static str = "pinned";
    const SUMMARY: &'static str = "Those that were read or overwritten so often, up to a share of the zone; uses are \
                                   halved each time a page stays.";
    const SOURCE: &'static str = "after Kim et al., 2007";
    const DRAWS: &'static [&'static str] = &["hits = 2, share = \"50 %\""];
}

impl DemotionOptions for PinnedConfig {
    type Policy = Pinned;

    fn build(&self) -> Result<Pinned, BuildError> {
        let PinnedConfig { hits, share } = *self;
        Ok(Pinned { hits, share })
    }
}

/// The rule.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    hits: u8,
    share: Ratio,
}

impl Demotion for Pinned {
    fn inherited(&self, uses: u8) -> u8 {
        uses / 2
    }

    fn overwritten(&self, uses: u8) -> u8 {
        uses.saturating_add(1)
    }

    fn budget(&self, zone: u32, room: u32) -> u32 {
        room.min(self.share.of(u64::from(zone)) as u32)
    }

    fn least(&self, _counts: &[u32; LEVELS], _budget: u32) -> u8 {
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_share_is_one_of_the_zone() {
        let pinned = Pinned { hits: 3, share: Ratio::new(1, 2) };
        assert_eq!((pinned.budget(100, 80), pinned.budget(100, 20)), (50, 20));
        let least = pinned.least(&[0; LEVELS], 1);
        assert_eq!((least, pinned.inherited(9), pinned.overwritten(255)), (3, 4, 255));
    }
}
