//! `lottery`: each request that may go is drawn among the tenants that wait, by weight.
//!
//! A tenant that waits holds as many tickets as it has weight; a ticket is drawn, and its tenant's oldest request goes. Shares are
//! right on average, and no tenant starves. Waldspurger and Weihl, "Lottery scheduling: flexible proportional-share resource
//! management", OSDI 1994, section 2.
//!
//! Where we differ: a ticket is good for one request, whatever it costs; the paper's compensation tickets are left out. Tickets
//! come from one generator with a fixed seed, so that a run repeats itself.
//!
//! Cost: O(tenants) for a request. RAM: 2 bytes for a tenant.

use nandu::scheduler::{Given, Next, PendingRequests, Scheduler, SchedulerOptions, Weights};
use nandu::units::{Instant, Rng, TenantId};
use nandu::{Declared, options};

/// Options of `lottery`.
#[options(crate = nandu)]
#[derive(Clone, Debug)]
pub struct Config {
    /// Which tickets are drawn.
    #[option(default)]
    pub draw: u64,
}

impl Declared for Config {
    const NAME: &'static str = "lottery";
    const SUMMARY: &'static str = "A ticket is drawn among the tenants that wait, by weight.";
    const SOURCE: &'static str = "Waldspurger and Weihl, OSDI 1994";
    const DRAWS: &'static [&'static str] = &["", "draw = 7"];
}

impl SchedulerOptions for Config {
    type Scheduler = Lottery;

    fn build(&self, given: Given) -> Lottery {
        Lottery { weights: given.weights, rng: Rng::new(self.draw) }
    }
}

/// The scheduler.
pub struct Lottery {
    weights: Weights,
    rng: Rng,
}

impl Scheduler for Lottery {
    fn next(&mut self, pending: &PendingRequests, _now: Instant) -> Next {
        let waiting = || (0..pending.groups()).filter(|&group| pending.waiting_in(group) > 0);
        let tickets: u64 = waiting().map(|group| self.weights.of(group)).sum();
        let mut ticket = self.rng.below(tickets);
        let drawn = waiting().find(|&group| {
            let own = self.weights.of(group);
            let is_drawn = ticket < own;
            ticket = ticket.saturating_sub(own);
            is_drawn
        });
        let oldest = drawn.and_then(|group| pending.first(group));
        oldest.map_or(Next::Nothing, Next::Send)
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
    }
}
