//! The family of destage policies: what a policy declares beside its name, and what a cache makes of it.

use super::Destage;
use nandu_base::options::Options;
use nandu_base::{Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// What dirty data goes below next, by name and options.
pub type DestageConfig = Chosen<Destagers>;

/// The family.
pub struct Destagers;

impl Family for Destagers {
    const NAME: &'static str = "destage";
    const SCHEMA: &'static str = "DestageConfig";
    const SUMMARY: &'static str = "What dirty data goes below next.";
    type Options = dyn AnyDestage;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The policies of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::lru::LruDestageConfig>(),
    policy::<super::bplru::BplruConfig>(),
    policy::<super::lb_clock::LbClockConfig>(),
];

/// The policy whose options are `C`, for a registry.
pub const fn policy<C: DestageOptions>() -> Policy {
    let read: &'static ReadOptions<Destagers> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Destagers, C>(read)
}

/// The options of a destage policy: what its file declares.
pub trait DestageOptions: Declared {
    /// The policy.
    type Policy: Destage + 'static;

    /// Whether the dirty blocks of a NAND block (`write.erase_unit`) go together, and not each for itself.
    fn by_unit(&self) -> bool {
        true
    }

    /// Whether the other pages of a NAND block may be read and written with it (`write.pad`).
    fn may_pad(&self) -> bool {
        false
    }

    /// The policy for at most `slots` units.
    fn build(&self, slots: usize) -> Self::Policy;
}

/// Options of any destage policy.
pub trait AnyDestage: Options + Debug + Send + Sync {
    /// See [`DestageOptions::by_unit`].
    fn by_unit(&self) -> bool;
    /// See [`DestageOptions::may_pad`].
    fn may_pad(&self) -> bool;
    /// See [`DestageOptions::build`].
    fn boxed(&self, slots: usize) -> Box<dyn Destage>;
}

impl<C: DestageOptions> AnyDestage for C {
    fn by_unit(&self) -> bool {
        C::by_unit(self)
    }
    fn may_pad(&self) -> bool {
        C::may_pad(self)
    }
    fn boxed(&self, slots: usize) -> Box<dyn Destage> {
        Box::new(self.build(slots))
    }
}
