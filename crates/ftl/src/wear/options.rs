//! The family of wear levelling: what a policy declares beside its name, and what a drive makes of it.

use super::WearPolicy;
use nandu_base::options::Options;
use nandu_base::{BuildError, Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// Which block is cleared for its wear, by name and options.
pub type LevellingConfig = Chosen<Levellings>;

/// The family.
pub struct Levellings;

impl Family for Levellings {
    const NAME: &'static str = "levelling";
    const SCHEMA: &'static str = "Levelling";
    const SUMMARY: &'static str = "Which block is cleared for its wear.";
    type Options = dyn AnyLevelling;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The policies of this crate.
pub static POLICIES: &[Policy] =
    &[policy::<super::threshold::ThresholdConfig>(), policy::<super::sw_leveler::SwLevelerConfig>()];

/// The policy whose options are `C`, for a registry.
pub const fn policy<C: LevellingOptions>() -> Policy {
    let read: &'static ReadOptions<Levellings> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Levellings, C>(read)
}

/// The options of a policy: what its file declares. They stand in the table `wear` beside those of wear itself, so they must
/// be called otherwise.
pub trait LevellingOptions: Declared {
    /// The policy.
    type Policy: WearPolicy + 'static;

    /// Refuses options that cannot be together.
    ///
    /// # Errors
    /// Names the option and what would be right.
    fn check(&self) -> Result<(), BuildError> {
        Ok(())
    }

    /// The policy for so many pools of blocks that are made for `endurance` erases, 0 for any number.
    fn build(&self, pools: u32, endurance: u32) -> Self::Policy;
}

/// Options of any policy.
pub trait AnyLevelling: Options + Debug + Send + Sync {
    /// See [`LevellingOptions::check`].
    ///
    /// # Errors
    /// As there.
    fn check(&self) -> Result<(), BuildError>;
    /// See [`LevellingOptions::build`].
    fn boxed(&self, pools: u32, endurance: u32) -> Box<dyn WearPolicy>;
}

impl<C: LevellingOptions> AnyLevelling for C {
    fn check(&self) -> Result<(), BuildError> {
        LevellingOptions::check(self)
    }

    fn boxed(&self, pools: u32, endurance: u32) -> Box<dyn WearPolicy> {
        Box::new(self.build(pools, endurance))
    }
}
