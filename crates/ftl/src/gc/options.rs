//! The family of victim policies: what a policy declares beside its name, and what a drive makes of it.

use super::GcPolicy;
use nandu_base::options::Options;
use nandu_base::{Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// Which block is cleared next, by name and options.
pub type VictimConfig = Chosen<Victims>;

/// The family.
pub struct Victims;

impl Family for Victims {
    const NAME: &'static str = "victim";
    const SCHEMA: &'static str = "Victim";
    const SUMMARY: &'static str = "Which block is cleared next.";
    type Options = dyn AnyVictim;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The policies of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::greedy::GreedyConfig>(),
    policy::<super::cost_benefit::CostBenefitConfig>(),
    policy::<super::d_choices::DChoicesConfig>(),
    policy::<super::windowed::WindowedConfig>(),
    policy::<super::fifo::FifoConfig>(),
];

/// The policy whose options are `C`, for a registry.
pub const fn policy<C: VictimOptions>() -> Policy {
    let read: &'static ReadOptions<Victims> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Victims, C>(read)
}

/// The options of a victim policy: what its file declares. They stand in the table `gc` beside those of collection itself, so
/// they must be called otherwise.
pub trait VictimOptions: Declared {
    /// The policy.
    type Policy: GcPolicy + 'static;

    /// The policy for planes of `blocks` blocks. What it draws at random comes from `seed`.
    fn build(&self, blocks: u32, seed: u64) -> Self::Policy;
}

/// Options of any victim policy.
pub trait AnyVictim: Options + Debug + Send + Sync {
    /// See [`VictimOptions::build`].
    fn boxed(&self, blocks: u32, seed: u64) -> Box<dyn GcPolicy>;
}

impl<C: VictimOptions> AnyVictim for C {
    fn boxed(&self, blocks: u32, seed: u64) -> Box<dyn GcPolicy> {
        Box::new(self.build(blocks, seed))
    }
}
