//! The family of isolations: what a policy declares beside its name, and what a drive makes of it.

use super::Isolation;
use nandu_base::options::Options;
use nandu_base::{BuildError, Declared, Family, Policy, Ratio, ReadOptions, Span};
use std::fmt::Debug;
use std::sync::Arc;

/// The family.
pub struct Isolations;

impl Family for Isolations {
    const NAME: &'static str = "isolation";
    const SCHEMA: &'static str = "Isolation";
    const SUMMARY: &'static str = "How tenants are kept apart inside a drive.";
    type Options = dyn AnyIsolation;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The policies of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::apart::NoneConfig>(),
    policy::<super::ops::OpsConfig>(),
    policy::<super::vssd::VssdConfig>(),
    policy::<super::shared_space::SharedSpaceConfig>(),
    policy::<super::apart::ChannelConfig>(),
    policy::<super::apart::DieConfig>(),
];

/// The policy whose options are `C`, for a registry.
pub const fn policy<C: IsolationOptions>() -> Policy {
    let read: &'static ReadOptions<Isolations> = &const { &|table| Ok(Arc::new(C::deserialize(table)?)) };
    Policy::new::<Isolations, C>(read)
}

/// What each tenant of a drive has for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// Nothing: all share one pool of blocks.
    Nothing,
    /// Units of every group of planes: as many as [`Isolation::shares`] says.
    Units,
    /// Whole channels, in proportion to its space.
    Channels,
    /// Whole dies, in proportion to its space.
    Dies,
}

/// What a drive says of itself when a policy is made.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Pages of a unit.
    pub pages: u32,
    /// Tenants that the drive may have.
    pub places: usize,
    /// Erased units with which a tenant begins to clear at the latest: no lender should have fewer left.
    pub clears_from: u32,
}

/// The options of an isolation: what its file declares.
pub trait IsolationOptions: Declared {
    /// What each tenant has for itself.
    fn gives(&self) -> Gives {
        Gives::Units
    }

    /// Whether tenants may come, go and change their size. Needs [`Gives::Units`], and [`Isolation::shares`] in proportion to
    /// the tenants' space: the drive deals no unit anew that others keep.
    fn may_be_dealt(&self) -> bool {
        false
    }

    /// Whether tenants lend each other units.
    fn lends(&self) -> bool {
        false
    }

    /// Whether [`Isolation::shares`] goes by the tenants' weights; where it does not, a drive refuses them.
    fn weighs(&self) -> bool {
        false
    }

    /// When idle borrowers give back, if they do: the share of the contributions that is left to lend, and the time without a request.
    fn returns_while_idle(&self) -> Option<(Ratio, Span)> {
        None
    }

    /// The share of its units that a tenant leaves erased for others, where contributions are set aside; no contribution exceeds it, or one unit.
    fn reserves(&self) -> Option<Ratio> {
        None
    }

    /// Refuses options that cannot be together.
    ///
    /// # Errors
    /// Names the option and what would be right.
    fn check(&self) -> Result<(), BuildError> {
        Ok(())
    }

    /// The policy, once [`check`](IsolationOptions::check) has passed. Asked for nothing where tenants do not have units.
    fn build(&self, given: Given) -> Box<dyn Isolation>;
}

/// Options of any isolation.
pub trait AnyIsolation: Options + Debug + Send + Sync {
    /// See [`IsolationOptions::gives`].
    fn gives(&self) -> Gives;
    /// See [`IsolationOptions::may_be_dealt`].
    fn may_be_dealt(&self) -> bool;
    /// See [`IsolationOptions::lends`].
    fn lends(&self) -> bool;
    /// See [`IsolationOptions::weighs`].
    fn weighs(&self) -> bool;
    /// See [`IsolationOptions::returns_while_idle`].
    fn returns_while_idle(&self) -> Option<(Ratio, Span)>;
    /// See [`IsolationOptions::reserves`].
    fn reserves(&self) -> Option<Ratio>;
    /// See [`IsolationOptions::check`].
    ///
    /// # Errors
    /// As there.
    fn check(&self) -> Result<(), BuildError>;
    /// See [`IsolationOptions::build`].
    fn build(&self, given: Given) -> Box<dyn Isolation>;
}

impl<C: IsolationOptions> AnyIsolation for C {
    fn gives(&self) -> Gives {
        IsolationOptions::gives(self)
    }
    fn may_be_dealt(&self) -> bool {
        IsolationOptions::may_be_dealt(self)
    }
    fn lends(&self) -> bool {
        IsolationOptions::lends(self)
    }
    fn weighs(&self) -> bool {
        IsolationOptions::weighs(self)
    }
    fn returns_while_idle(&self) -> Option<(Ratio, Span)> {
        IsolationOptions::returns_while_idle(self)
    }
    fn reserves(&self) -> Option<Ratio> {
        IsolationOptions::reserves(self)
    }
    fn check(&self) -> Result<(), BuildError> {
        IsolationOptions::check(self)
    }
    fn build(&self, given: Given) -> Box<dyn Isolation> {
        IsolationOptions::build(self, given)
    }
}
