//! The family of schedulers: what a scheduler declares beside its name, and what a queue or a die makes of it.

use super::{Scheduler, Weights};
use crate::machine::{Parts, queue};
use crate::order::OrderConfig;
use nandu_base::options::Options;
use nandu_base::{Chosen, Declared, Family, Machine, Policy, ReadOptions, Span};
use std::fmt::Debug;

/// Who goes next, by name and options.
pub type SchedulerConfig = Chosen<Schedulers>;

/// The family.
pub struct Schedulers;

impl Family for Schedulers {
    const NAME: &'static str = "scheduler";
    const SCHEMA: &'static str = "SchedulerConfig";
    const SUMMARY: &'static str = "Who goes next.";
    type Options = dyn AnyScheduler;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The schedulers of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<super::noop::NoopConfig>(),
    policy::<super::deadline::DeadlineConfig>(),
    policy::<super::anticipatory::AnticipatoryConfig>(),
    policy::<super::cfq::CfqConfig>(),
    policy::<super::cffq::CffqConfig>(),
    policy::<super::fios::FiosConfig>(),
    policy::<super::flashfq::FlashFqConfig>(),
    policy::<super::vssd::VssdConfig>(),
    policy::<super::drr::DrrConfig>(),
];

/// The scheduler whose options are `C`, for a registry.
pub const fn policy<C: SchedulerOptions>() -> Policy {
    let read: &'static ReadOptions<Schedulers> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Schedulers, C>(read)
}

/// What a scheduler is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// Weights of the tenants, SYSTEM first.
    pub weights: Weights,
    /// The order of one tenant's requests, for a scheduler that [takes](SchedulerOptions::takes_order) it.
    pub order: OrderConfig,
}

/// The options of a scheduler: what its file declares.
pub trait SchedulerOptions: Declared + Clone {
    /// The scheduler.
    type Scheduler: Scheduler;

    /// What is wrong with these options together, if anything is.
    fn flaw(&self) -> Option<&'static str> {
        None
    }

    /// Whether requests of one tenant go in the order of the knob `order`.
    fn takes_order(&self) -> bool {
        false
    }

    /// Whether one request at a time is on its way unless `depth` says otherwise.
    fn one_at_a_time(&self) -> bool {
        false
    }

    /// Whether it tells lanes of the device apart.
    fn by_lane(&self) -> bool {
        false
    }

    /// How long it leaves a device idle at most, after anything happened there, for a request that it awaits. What it answers is held against
    /// this where dies are watched (I-17).
    fn anticipation(&self) -> Span {
        Span::ZERO
    }

    /// The same for a die of a drive, which has no addresses and does one operation at a time.
    ///
    /// # Errors
    /// Why it is not for dies.
    fn for_die(&self) -> Result<Self, &'static str> {
        Ok(self.clone())
    }

    /// The scheduler.
    fn build(&self, given: Given) -> Self::Scheduler;
}

/// Options of any scheduler. What is made from them has the scheduler's own type inside.
pub trait AnyScheduler: Options + Debug + Send + Sync {
    /// See [`SchedulerOptions::flaw`].
    fn flaw(&self) -> Option<&'static str>;
    /// See [`SchedulerOptions::takes_order`].
    fn takes_order(&self) -> bool;
    /// See [`SchedulerOptions::one_at_a_time`].
    fn one_at_a_time(&self) -> bool;
    /// See [`SchedulerOptions::anticipation`].
    fn anticipation(&self) -> Span;
    /// The machine `queue`.
    fn queue(&self, given: Given, parts: Parts<'_>) -> Box<dyn Machine>;
    /// The scheduler of a die.
    ///
    /// # Errors
    /// Why it is not for dies.
    fn of_die(&self, given: Given) -> Result<Box<dyn Scheduler>, &'static str>;
}

impl<C: SchedulerOptions> AnyScheduler for C {
    fn flaw(&self) -> Option<&'static str> {
        C::flaw(self)
    }
    fn takes_order(&self) -> bool {
        C::takes_order(self)
    }
    fn one_at_a_time(&self) -> bool {
        C::one_at_a_time(self)
    }
    fn anticipation(&self) -> Span {
        C::anticipation(self)
    }
    fn queue(&self, given: Given, parts: Parts<'_>) -> Box<dyn Machine> {
        queue(self.build(given), self.by_lane(), parts)
    }
    fn of_die(&self, given: Given) -> Result<Box<dyn Scheduler>, &'static str> {
        Ok(Box::new(self.for_die()?.build(given)))
    }
}
