//! Policies that are no part of Nandu: one file each, and one line in [`registry`].

pub mod bursts;
pub mod cat;
pub mod clock;
pub mod even;
pub mod lab_log;
pub mod lottery;
pub mod newest;
pub mod rotate;
pub mod stride;
pub mod two_q;

use nandu::Registry;

/// What Nandu ships, and the policies of this package.
pub fn registry() -> Registry {
    nandu::builtin()
        .with(nandu::replacement::policy::<two_q::Config>())
        .with(nandu::replacement::policy::<newest::Config>())
        .with(nandu::prefetch::policy::<stride::Config>())
        .with(nandu::victim::policy::<cat::Config>())
        .with(nandu::levelling::policy::<rotate::Config>())
        .with(nandu::isolation::policy::<even::Config>())
        .with(nandu::mapping::policy::<clock::Config>())
        .with(nandu::scheduler::policy::<lottery::Config>())
        .with(&lab_log::FORMAT)
        .with(nandu::generator::policy::<bursts::Parameters>())
}
