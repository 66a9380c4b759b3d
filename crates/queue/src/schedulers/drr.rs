//! `drr`: deficit round robin by the cost of requests.
//!
//! Tenants have turns. At the start of a turn a tenant is given `quantum`, times its weight over 100, and sends while what it
//! was given covers the cost of its next request; what is left it keeps for its next turn, unless it has nothing more
//! to send. Shares are by cost and not by time, so that a slow answer is nobody's fault (W3-4).
//!
//! Source: Shreedhar and Varghese, "Efficient fair queuing using deficit round-robin", SIGCOMM 1995, with the cost of a
//! request where they have the length of a packet.
//!
//! Cost: O(1) for a request while `quantum` covers any request, else a round for each `quantum` of it. RAM: 8 bytes for a
//! tenant.

use super::{Given, Next, Scheduler, SchedulerOptions, Weights};
use crate::order::{Order, OrderConfig};
use crate::pending::PendingRequests;
use nandu_base::{Declared, Instant, Span, TenantId, options};

/// Options of `drr`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrrConfig {
    /// What a turn adds at weight 100, in cost: enough that one with few requests outstanding does not run empty within a turn.
    #[option(default = Span::from_us(100), range = Span::from_us(10)..)]
    pub quantum: Span,
}

impl Declared for DrrConfig {
    const NAME: &'static str = "drr";
    const SUMMARY: &'static str = "Deficit round robin by cost.";
    const SOURCE: &'static str = "Shreedhar and Varghese, SIGCOMM 1995";
    const DRAWS: &'static [&'static str] = &["quantum = \"500 us\""];
}

impl SchedulerOptions for DrrConfig {
    type Scheduler = Drr;

    fn takes_order(&self) -> bool {
        true
    }

    fn build(&self, given: Given) -> Drr {
        Drr::new(*self, given.weights, given.order)
    }
}

/// Deficit round robin.
pub struct Drr {
    config: DrrConfig,
    weights: Weights,
    deficit: Vec<u64>,
    turn: usize,
    order: Order,
    by_address: bool,
}

impl Drr {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: DrrConfig, weights: Weights, order: OrderConfig) -> Drr {
        let tenants = weights.0.len();
        let by_address = order.by_address();
        Drr {
            config,
            weights,
            deficit: vec![0; tenants],
            turn: 0,
            order: Order::new(order, tenants),
            by_address,
        }
    }
}

impl Scheduler for Drr {
    fn by_address(&self) -> bool {
        self.by_address
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
    }

    fn next(&mut self, pending: &PendingRequests, _now: Instant) -> Next {
        loop {
            let tenant = self.turn;
            match self.order.pick(pending, tenant) {
                Some(slot) if self.deficit[tenant] >= pending.get(slot).cost.0 => {
                    self.deficit[tenant] -= pending.get(slot).cost.0;
                    self.order.sent(pending.get(slot), pending);
                    return Next::Send(slot);
                }
                Some(_) => {}
                None => self.deficit[tenant] = 0,
            }
            self.turn = (self.turn + 1) % self.deficit.len();
            self.deficit[self.turn] += self.weights.share(self.turn, self.config.quantum.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    fn rig(weights: &[u16]) -> Rig<Drr> {
        let all = Weights([&[100], weights].concat());
        Rig::new(Drr::new(DrrConfig::default(), all, OrderConfig::Fifo), weights)
    }

    #[test]
    fn cost_is_shared_by_weight_whatever_the_requests_are_like() {
        let loads = [Load::reads(32), Load::writes(32), Load::reads(32).of(65_536)];
        let shares = rig(&[100, 100, 200]).run(&loads, 100_000);
        assert!(in_proportion(&shares, &[1, 1, 2], 2), "{shares:?}");
    }

    #[test]
    fn what_was_saved_up_is_lost_by_one_who_has_nothing_to_send() {
        let mut rig = rig(&[100, 100]);
        rig.run(&[Load::reads(8), Load::reads(0)], 1000);
        // The second tenant was never owed anything, however many turns it had.
        rig.run(&[Load::reads(0), Load::reads(0)], 0);
        assert!(rig.scheduler().deficit[2] <= DrrConfig::default().quantum.0);
    }
}
