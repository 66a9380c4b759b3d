//! Who goes next: one file for each scheduler, one line in [`POLICIES`]. The type of its options declares it: see
//! [`SchedulerOptions`].

mod anticipatory;
mod cffq;
mod cfq;
mod deadline;
mod drr;
mod fios;
mod flashfq;
#[cfg(test)]
mod models;
mod noop;
mod options;
#[cfg(test)]
pub(crate) mod rig;
#[cfg(test)]
mod tests;
mod think;
mod turns;
mod vssd;

pub use anticipatory::{Anticipatory, AnticipatoryConfig};
pub use cffq::{Cffq, CffqConfig};
pub use cfq::{Cfq, CfqConfig, Slices};
pub use deadline::{Deadline, DeadlineConfig};
pub use drr::{Drr, DrrConfig};
pub use fios::{Fios, FiosConfig};
pub use flashfq::{FlashFq, FlashFqConfig};
pub use noop::{Noop, NoopConfig};
pub use options::{AnyScheduler, Given, POLICIES, SchedulerConfig, SchedulerOptions, Schedulers, policy};
pub use vssd::{Vssd, VssdConfig};

use crate::pending::{Entry, PendingRequests};
use nandu_base::{Instant, Report, TenantId};

/// What a scheduler answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Send the request in this slot.
    Send(u32),
    /// Nothing until then, unless a request comes or ends before: one of this tenant is awaited, or with SYSTEM nobody's in particular. Later than now. As
    /// long as nothing else is on its way the device stands idle meanwhile, which is counted for the tenant.
    Until(Instant, TenantId),
    /// Nothing until a request comes or ends. Only when one is on its way.
    Nothing,
}

/// Who goes next. The device has room for one more when [`next`](Scheduler::next) is called, and at least one request
/// waits; the answer is carried out.
pub trait Scheduler: Send + 'static {
    /// How many groups of pending requests there are for `tenants` tenants, SYSTEM included.
    fn groups(&self, tenants: usize) -> usize {
        tenants
    }

    /// The group of a request.
    fn group(&self, tenant: TenantId, _lane: u32) -> u32 {
        u32::from(tenant.0)
    }

    /// Whether it walks along addresses.
    fn by_address(&self) -> bool {
        false
    }

    /// A request has come; it is pending.
    fn arrived(&mut self, _slot: u32, _pending: &PendingRequests, _now: Instant) {}

    /// Who goes next.
    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next;

    /// A request that was sent has ended; it is no longer counted.
    fn done(&mut self, _entry: &Entry, _pending: &PendingRequests, _now: Instant) {}

    /// The weight of a tenant is another from here on; at least 1. Nothing to do for who knows no weights.
    fn set_weight(&mut self, _tenant: TenantId, _weight: u16) {}

    /// Puts its figures into the report, or begins to count anew, as the report asks.
    fn report(&mut self, _report: &mut Report) {}
}

/// Weights of the tenants, SYSTEM first. At least 1 each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights(pub Vec<u16>);

impl Weights {
    /// Gives a tenant another weight, at least 1.
    pub fn set(&mut self, tenant: TenantId, weight: u16) {
        self.0[usize::from(tenant.0)] = weight.max(1);
    }

    /// The weight of a tenant.
    pub fn of(&self, tenant: usize) -> u64 {
        u64::from(self.0[tenant])
    }

    /// The weights of all tenants but SYSTEM together, at least 1.
    pub fn sum(&self) -> u64 {
        (1..self.0.len()).map(|tenant| self.of(tenant)).sum::<u64>().max(1)
    }

    /// `amount`, times the tenant's weight over 100.
    pub fn share(&self, tenant: usize, amount: u64) -> u64 {
        scaled(amount, self.of(tenant), 100).max(1)
    }
}

/// `amount` times `by`, over `over`. Divisions of 128 bits cost a hundred instructions; nearly always 64 are enough.
#[inline]
fn scaled(amount: u64, by: u64, over: u64) -> u64 {
    match amount.checked_mul(by) {
        Some(product) => product / over,
        None => (u128::from(amount) * u128::from(by) / u128::from(over)) as u64,
    }
}
