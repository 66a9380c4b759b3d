//! `noop`: one queue for all, in the order in which requests come (or as the knob `order` says). What B3 compares with:
//! no fairness at all.
//!
//! Cost: O(1) for a request. RAM: none of its own.

use super::{Given, Next, Scheduler, SchedulerOptions};
use crate::order::{Order, OrderConfig};
use crate::pending::PendingRequests;
use nandu_base::{Declared, Instant, TenantId, options};

/// Options of `noop`: none.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoopConfig {}

impl Declared for NoopConfig {
    const NAME: &'static str = "noop";
    const SUMMARY: &'static str = "One queue for all.";
    const SOURCE: &'static str = "";
}

impl SchedulerOptions for NoopConfig {
    type Scheduler = Noop;

    fn takes_order(&self) -> bool {
        true
    }

    fn build(&self, given: Given) -> Noop {
        Noop::new(given.order)
    }
}

/// Everybody in one queue.
pub struct Noop {
    order: Order,
    by_address: bool,
}

impl Noop {
    /// The scheduler.
    pub fn new(order: OrderConfig) -> Noop {
        Noop { order: Order::new(order, 1), by_address: order.by_address() }
    }
}

impl Scheduler for Noop {
    fn groups(&self, _tenants: usize) -> usize {
        1
    }

    fn group(&self, _tenant: TenantId, _lane: u32) -> u32 {
        0
    }

    fn by_address(&self) -> bool {
        self.by_address
    }

    fn next(&mut self, pending: &PendingRequests, _now: Instant) -> Next {
        let slot = self.order.pick(pending, 0).expect("a request waits");
        self.order.sent(pending.get(slot), pending);
        Next::Send(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig};
    use super::*;

    #[test]
    fn the_one_who_asks_for_more_gets_more() {
        let loads = [Load::reads(1), Load::reads(31)];
        let shares = Rig::new(Noop::new(OrderConfig::Fifo), &[100, 100]).depth(8).run(&loads, 32_000);
        assert!(shares[1] > 20 * shares[0], "{shares:?}");
    }
}
