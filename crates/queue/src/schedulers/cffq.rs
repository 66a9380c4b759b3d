//! `cffq`: completely fair FIFO queueing. CFQ's turns with FIFO inside, and nothing else.
//!
//! Each tenant has one queue for all its requests and a slice of `slice` device time, times its weight over 100. In its turn its requests
//! go as they came, as many at a time as the device takes; an empty queue passes its turn on at once.
//!
//! Source: Yi, Lee, Eom, "CFFQ: I/O scheduler for providing fairness and high performance in SSD devices", IMCOM 2017, as
//! described in section II of the isolation paper (B3-4): the fairness of CFQ joined with FIFO, which is the fastest
//! of the schedulers of Linux on flash. What of CFQ else it keeps is not said; we keep nothing.
//!
//! Cost: O(1) for a request, O(tenants) for a change of turn. RAM: 8 bytes for a tenant.

use super::turns::{By, Turns};
use super::{Given, Next, Scheduler, SchedulerOptions, Weights};
use crate::order::{Order, OrderConfig};
use crate::pending::PendingRequests;
use nandu_base::{Declared, Instant, Report, Span, TenantId, options};

/// Options of `cffq`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CffqConfig {
    /// A turn at weight 100.
    #[option(unset = "100 ms, inside a die 1 ms", above = Span::ZERO)]
    pub slice: Option<Span>,
}

impl Declared for CffqConfig {
    const NAME: &'static str = "cffq";
    const SUMMARY: &'static str = "CFQ's turns with FIFO inside.";
    const SOURCE: &'static str = "the paper on isolation of tenants in a shared drive";
    const DRAWS: &'static [&'static str] = &["slice = \"1 ms\""];
}

impl SchedulerOptions for CffqConfig {
    type Scheduler = Cffq;

    fn takes_order(&self) -> bool {
        true
    }

    /// While one tenant has a die for long, what others ask of it piles up there until they ask for nothing anywhere.
    fn for_die(&self) -> Result<CffqConfig, &'static str> {
        Ok(CffqConfig { slice: self.slice.or(Some(Span::from_ms(1))) })
    }

    fn build(&self, given: Given) -> Cffq {
        Cffq::new(*self, given.weights, given.order)
    }
}

/// Turns with FIFO inside.
pub struct Cffq {
    slice: u64,
    weights: Weights,
    turns: Turns,
    order: Order,
    by_address: bool,
}

impl Cffq {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: CffqConfig, weights: Weights, order: OrderConfig) -> Cffq {
        let tenants = weights.0.len();
        let (turns, by_address) = (Turns::new(By::Cost, tenants), order.by_address());
        let slice = config.slice.unwrap_or(Span::from_ms(100)).0;
        Cffq { slice, weights, turns, order: Order::new(order, tenants), by_address }
    }
}

impl Scheduler for Cffq {
    fn by_address(&self) -> bool {
        self.by_address
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        let waits = |tenant: usize| pending.waiting_in(tenant) > 0;
        let tenant = match self.turns.current(now) {
            Some((tenant, _)) if waits(tenant) => tenant,
            _ => {
                self.turns.pass();
                let (weights, slice) = (&self.weights, self.slice);
                self.turns.give(waits, |tenant| Span(weights.share(tenant, slice)))
            }
        };
        let slot = self.order.pick(pending, tenant).expect("a request of this tenant waits");
        self.turns.sent(pending.get(slot).cost);
        self.order.sent(pending.get(slot), pending);
        Next::Send(slot)
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
    }

    fn report(&mut self, report: &mut Report) {
        report.count("turns", &mut self.turns.given);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    #[test]
    fn those_who_always_ask_have_their_shares() {
        let cffq = Cffq::new(CffqConfig::default(), Weights(vec![100, 100, 200]), OrderConfig::Fifo);
        let shares = Rig::new(cffq, &[100, 200]).run(&[Load::reads(64), Load::writes(16)], 100_000);
        assert!(in_proportion(&shares, &[1, 2], 5), "{shares:?}");
    }

    /// The writer's 32 requests of 64 KiB drain for longer than the reader's slice is.
    #[test]
    fn slices_are_not_eaten_by_what_others_sent_before() {
        let config = CffqConfig { slice: Some(Span::from_ms(2)) };
        let cffq = Cffq::new(config, Weights(vec![100, 100, 100]), OrderConfig::Fifo);
        let loads = [Load::reads(512), Load::writes(64).of(65_536)];
        let shares = Rig::new(cffq, &[100, 100]).depth(32).run(&loads, 100_000);
        assert!(in_proportion(&shares, &[1, 1], 5), "{shares:?}");
    }

    #[test]
    fn one_who_asks_one_at_a_time_is_left_at_once() {
        let cffq = Cffq::new(CffqConfig::default(), Weights(vec![100, 100, 100]), OrderConfig::Fifo);
        let shares = Rig::new(cffq, &[100, 100]).depth(1).run(&[Load::reads(1), Load::reads(32)], 40_000);
        assert!(shares[0] * 100 < shares[1], "{shares:?}");
    }
}
