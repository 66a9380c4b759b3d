//! Which dirty data goes below next: one file each, one trait, one line in [`POLICIES`].
//!
//! Dirty blocks are grouped in units, which go together. A policy sees slots of units and how many dirty blocks each has. The type of its options declares a
//! policy: see [`DestageOptions`].

mod bplru;
mod config;
mod lb_clock;
mod lru;
mod options;

pub use bplru::{Bplru, BplruConfig};
pub use config::WriteConfig;
pub use lb_clock::{LbClock, LbClockConfig};
pub use lru::{LruDestage, LruDestageConfig};
pub use options::{AnyDestage, DestageConfig, DestageOptions, Destagers, POLICIES, policy};

/// What a write did to a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrote {
    /// The unit had no dirty block before.
    pub new: bool,
    /// The unit is all dirty, and was written from its first to its last block in order.
    pub in_order: bool,
}

/// A destage policy.
pub trait Destage: Send {
    /// A block of unit `slot` was written.
    fn wrote(&mut self, slot: u32, wrote: Wrote);

    /// The unit to destage next: one of those that have dirty blocks which are not on their way (`waiting[slot] > 0`).
    /// [`None`] when the policy finds none within a bounded search.
    fn victim(&mut self, waiting: &[u32]) -> Option<u32>;

    /// Unit `slot` has no dirty block any more.
    fn gone(&mut self, slot: u32);

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model: units that have dirty blocks which wait. A policy names only such, each that was written until it is gone, and nothing
    /// when none waits.
    #[test]
    fn every_policy_names_units_that_wait_until_none_does() {
        for policy in POLICIES {
            let chosen = DestageConfig::named(policy.name);
            let options = chosen.options().expect("one of ours");
            for seed in 0..20 {
                let mut rng = nandu_base::Rng::new(seed);
                let mut destage = options.boxed(16);
                let mut waiting = [0u32; 16];
                for step in 0..400 {
                    let slot = rng.below(16) as u32;
                    let at = slot as usize;
                    if rng.below(3) > 0 {
                        destage.wrote(slot, Wrote { new: waiting[at] == 0, in_order: rng.below(8) == 0 });
                        waiting[at] += 1;
                    } else if let Some(victim) = destage.victim(&waiting) {
                        let left = std::mem::take(&mut waiting[victim as usize]);
                        assert!(
                            left > 0,
                            "{}, seed {seed}, step {step}: {victim} waits for nothing",
                            policy.name
                        );
                        destage.gone(victim);
                    } else {
                        assert_eq!(waiting, [0; 16], "{}, seed {seed}, step {step}", policy.name);
                    }
                }
            }
        }
    }

    const NEW: Wrote = Wrote { new: true, in_order: false };
    const AGAIN: Wrote = Wrote { new: false, in_order: false };

    #[test]
    fn lru_takes_what_was_written_longest_ago() {
        let mut lru = LruDestage::new(8);
        (0..3).for_each(|slot| lru.wrote(slot, NEW));
        lru.wrote(0, AGAIN);
        assert_eq!(lru.victim(&[1, 1, 1]), Some(1));
        assert_eq!(lru.victim(&[1, 0, 1]), Some(2), "what is on its way is passed over");
        lru.gone(1);
        lru.gone(2);
        assert_eq!(lru.victim(&[1, 0, 0]), Some(0));
    }

    #[test]
    fn bplru_takes_what_was_written_in_order_first() {
        let mut bplru = Bplru::new(8);
        (0..3).for_each(|slot| bplru.wrote(slot, NEW));
        bplru.wrote(2, Wrote { new: false, in_order: true });
        assert_eq!(bplru.victim(&[1, 1, 4]), Some(2));
    }

    #[test]
    fn lb_clock_takes_the_largest_that_was_not_written_again() {
        let mut clock = LbClock::new(8);
        (0..4).for_each(|slot| clock.wrote(slot, NEW));
        // The first round takes all marks away.
        assert_eq!(clock.victim(&[1, 2, 7, 3]), Some(2));
        clock.gone(2);
        clock.wrote(3, AGAIN);
        assert_eq!(clock.victim(&[1, 2, 0, 3]), Some(1));
    }
}
