//! How long each tenant takes from the end of its last request to its next: what anticipation rests on.
//!
//! A mean that forgets: each new time counts one eighth, as in the anticipatory scheduler of Linux 2.6. A tenant is worth
//! waiting for when it has nothing outstanding and its mean is below the wait.

use crate::pending::PendingRequests;
use nandu_base::{Instant, Span, TenantId};

#[derive(Clone, Copy, Debug)]
struct Habit {
    last_end: Instant,
    /// Nothing was known before the first request ended.
    seen: bool,
    mean: u64,
}

/// The habits of all tenants.
#[derive(Clone, Debug)]
pub struct ThinkTimes(Vec<Habit>);

impl ThinkTimes {
    /// Nothing known of `tenants` tenants: each is thought of as quick until it shows otherwise.
    pub fn new(tenants: usize) -> ThinkTimes {
        ThinkTimes(vec![Habit { last_end: Instant::ZERO, seen: false, mean: 0 }; tenants])
    }

    /// A request of `tenant` has come. Call it once it is pending.
    pub fn arrived(&mut self, tenant: TenantId, pending: &PendingRequests, now: Instant) {
        let habit = &mut self.0[usize::from(tenant.0)];
        // Only the first one after a silence tells how long the tenant thinks.
        if habit.seen && pending.held_of(tenant) == 1 {
            habit.mean = (habit.mean * 7 + now.since(habit.last_end).0) / 8;
        }
    }

    /// A request of `tenant` has ended.
    pub fn done(&mut self, tenant: TenantId, now: Instant) {
        let habit = &mut self.0[usize::from(tenant.0)];
        (habit.last_end, habit.seen) = (now, true);
    }

    /// Until when it is worth waiting up to `anticipation` for the next request of `tenant`; `None` when it is not, or when one
    /// waits or is on its way.
    pub fn worth_waiting(
        &self,
        tenant: TenantId,
        pending: &PendingRequests,
        anticipation: Span,
        now: Instant,
    ) -> Option<Instant> {
        let until = self.worth_waiting_until(tenant, anticipation)?;
        (pending.held_of(tenant) == 0 && until > now).then_some(until)
    }

    /// Until when `tenant` is worth waiting for, whatever it has outstanding now.
    pub fn worth_waiting_until(&self, tenant: TenantId, anticipation: Span) -> Option<Instant> {
        let habit = self.0[usize::from(tenant.0)];
        (habit.seen && habit.mean <= anticipation.0).then_some(habit.last_end + anticipation)
    }
}
