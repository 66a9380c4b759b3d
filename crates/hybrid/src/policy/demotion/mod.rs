//! Who goes down: which valid pages of a cold zone are written into their own ring again, and which leave it. One file each, one trait,
//! one line in [`POLICIES`]. The type of its options declares a rule: see [`DemotionOptions`].
//!
//! Uses of a slot are counted up to 255. What a copy within the ring inherits is the difference between the rules. With all of them at most
//! half of the reserve is written again for a zone: more might find no room.
//!
//! Cost: one byte for each slot.

mod levels;
mod never;
mod pinned;
mod referenced;

pub use levels::{LevelsConfig, SortedLevels};
pub use never::{NeverConfig, NeverStays};
pub use pinned::{Pinned, PinnedConfig};
pub use referenced::{Referenced, ReferencedConfig};

use nandu_base::options::Options;
use nandu_base::{BuildError, Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// Levels that are told apart: up to 1, 3, 7, ... uses.
pub const LEVELS: usize = 9;

/// The level of a page that was used so often: 0 for never.
pub fn level(uses: u8) -> usize {
    (u8::BITS - uses.leading_zeros()) as usize
}

/// A rule of demotion.
pub trait Demotion: Send {
    /// Uses that a page begins with in its new slot of the same ring, when it had `uses`.
    fn inherited(&self, _uses: u8) -> u8 {
        0
    }

    /// Uses that newer data of a page begins with, when the older had `uses`.
    fn overwritten(&self, _uses: u8) -> u8 {
        0
    }

    /// Pages that may stay of a zone of `zone` pages, when there is room for `room`.
    fn budget(&self, zone: u32, room: u32) -> u32;

    /// The fewest uses with which a page stays. `counts` are the valid pages of the batch by [`level`], of which `budget` may stay; all 0
    /// unless the rule [sorts](Demotion::sorts).
    fn least(&self, counts: &[u32; LEVELS], budget: u32) -> u8;

    /// Whether [`Demotion::least`] wants the counts, for which the pages of a batch are looked at once more.
    fn sorts(&self) -> bool {
        false
    }
}

/// Which valid pages of a cold zone stay in their ring, by name and options.
pub type DemotionConfig = Chosen<Demotions>;

/// The family.
pub struct Demotions;

impl Family for Demotions {
    const NAME: &'static str = "demotion";
    const SCHEMA: &'static str = "Rewrite";
    const SUMMARY: &'static str = "Which valid pages of a cold zone are written into their own ring again.";
    type Options = dyn AnyDemotion;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The rules of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<ReferencedConfig>(),
    policy::<NeverConfig>(),
    policy::<PinnedConfig>(),
    policy::<LevelsConfig>(),
];

/// The rule whose options are `C`, for a registry.
pub const fn policy<C: DemotionOptions>() -> Policy {
    let read: &'static ReadOptions<Demotions> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Demotions, C>(read)
}

/// The options of a rule of demotion: what its file declares.
pub trait DemotionOptions: Declared {
    /// The rule.
    type Policy: Demotion + 'static;

    /// The rule.
    ///
    /// # Errors
    /// Options that do not suit each other, as `rewrite.KEY`.
    fn build(&self) -> Result<Self::Policy, BuildError>;
}

/// Options of any rule of demotion.
pub trait AnyDemotion: Options + Debug + Send + Sync {
    /// See [`DemotionOptions::build`].
    fn boxed(&self) -> Result<Box<dyn Demotion>, BuildError>;
}

impl<C: DemotionOptions> AnyDemotion for C {
    fn boxed(&self) -> Result<Box<dyn Demotion>, BuildError> {
        Ok(Box::new(self.build()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 255].map(level), [0, 1, 2, 2, 3, 3, 4, 8]);
    }

    /// The rule of collection is that what stays fits; each rule keeps to it, and says with how many uses.
    #[test]
    fn no_rule_lets_more_stay_than_there_is_room_for() {
        for policy in POLICIES {
            for draw in policy.draws {
                let table = draw.replace(", ", "\n").parse().expect("options are a table");
                let chosen = DemotionConfig::new(policy.name, table).expect("options that are drawn");
                let rule = chosen.options().and_then(|options| options.boxed()).expect("one of ours");
                for (zone, room) in [(0, 0), (100, 0), (100, 7), (100, 100), (7, 100)] {
                    assert!(rule.budget(zone, room) <= room, "{} {draw}: {zone}, {room}", policy.name);
                }
                assert!(rule.least(&[0; LEVELS], 10) > 0, "{} {draw}: a page never used goes", policy.name);
            }
        }
    }
}
