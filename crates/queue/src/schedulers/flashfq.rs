//! `flashfq`: start-time fair queueing for flash, with a bound on how far anybody runs ahead.
//!
//! Each request has a start tag: where its tenant's virtual time stands, which its cost over the tenant's weight then moves
//! on. The waiting request with the lowest start tag goes next, so that many are on their way at once (SFQ(D)). Two rules make
//! it fair on flash:
//!
//! - *Throttled dispatch.* A request waits while its start tag is more than `throttle` ahead of the slowest tenant that is
//!   active. Otherwise one with deep queues fills the device and the others find it full.
//! - *Anticipation for fairness.* A tenant that has nothing outstanding, but usually comes back within `anticipation`, counts as
//!   active for that long: its virtual time is not moved on to that of the others, and they do not run away from it.
//!
//! Source: Shen and Park, "FlashFQ: a fair queueing I/O scheduler for flash-based SSDs", USENIX ATC 2013. The paper gives
//! no value for the bound; ours is a hundred reads. Tags are kept per tenant and not per request: with FIFO inside a
//! tenant that is the same.
//!
//! Cost: O(tenants) for a request. RAM: 40 bytes for a tenant.

use super::think::ThinkTimes;
use super::{Given, Next, Scheduler, SchedulerOptions, Weights, scaled};
use crate::order::{Order, OrderConfig};
use crate::pending::{Class, Entry, PendingRequests};
use crate::set::Set;
use nandu_base::{Declared, Instant, Report, Span, TenantId, options};

/// Options of `flashfq`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashFqConfig {
    /// How far a request may be ahead of the slowest active tenant, in cost at weight 100.
    #[option(default = Span::from_ms(5))]
    pub throttle: Span,
    /// How long a tenant without requests counts as active; 0 for not at all.
    #[option(default = Span::from_us(500))]
    pub anticipation: Span,
}

impl Declared for FlashFqConfig {
    const NAME: &'static str = "flashfq";
    const SUMMARY: &'static str = "Start-time fair queueing with a bound.";
    const SOURCE: &'static str = "Shen and Park, USENIX ATC 2013";
    const DRAWS: &'static [&'static str] = &["throttle = \"500 us\", anticipation = \"100 us\""];
}

impl SchedulerOptions for FlashFqConfig {
    type Scheduler = FlashFq;

    fn takes_order(&self) -> bool {
        true
    }

    fn anticipation(&self) -> Span {
        self.anticipation
    }

    fn build(&self, given: Given) -> FlashFq {
        FlashFq::new(*self, given.weights, given.order)
    }
}

/// Start-time fair queueing.
pub struct FlashFq {
    config: FlashFqConfig,
    weights: Weights,
    /// Virtual time of each tenant: the start tag of its next request.
    tags: Vec<u64>,
    /// The highest start tag sent so far.
    virtual_time: u64,
    /// Tenants of which a request waits.
    waiting: Set,
    /// No active tenant has a lower tag.
    floor: u64,
    /// Tenants whose last request was a read, for which it is worth waiting.
    reader: Vec<bool>,
    think: ThinkTimes,
    order: Order,
    by_address: bool,
    throttled: u64,
}

impl FlashFq {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: FlashFqConfig, weights: Weights, order: OrderConfig) -> FlashFq {
        let tenants = weights.0.len();
        FlashFq {
            config,
            tags: vec![0; tenants],
            virtual_time: 0,
            waiting: Set::new(tenants),
            floor: 0,
            reader: vec![false; tenants],
            think: ThinkTimes::new(tenants),
            order: Order::new(order, tenants),
            by_address: order.by_address(),
            weights,
            throttled: 0,
        }
    }

    /// Until when a tenant without requests counts as active.
    fn awaited(&self, tenant: usize, pending: &PendingRequests, now: Instant) -> Option<Instant> {
        if !self.reader[tenant] {
            return None;
        }
        self.think.worth_waiting(TenantId(tenant as u16), pending, self.config.anticipation, now)
    }
}

impl FlashFq {
    /// The lowest tag of an active tenant, and until when the next one without requests is waited for, and which that is. From here on no active tenant
    /// has a lower one but by a request that comes: tags only grow.
    #[inline(never)]
    fn slowest(&self, pending: &PendingRequests, now: Instant) -> (u64, Option<(Instant, TenantId)>) {
        let (mut slowest, mut wake) = (u64::MAX, None::<(Instant, TenantId)>);
        for (tenant, &tag) in self.tags.iter().enumerate() {
            if pending.held_of(TenantId(tenant as u16)) > 0 {
                slowest = slowest.min(tag);
            } else if let Some(until) = self.awaited(tenant, pending, now) {
                // Only one who has nothing here is waited for.
                slowest = slowest.min(tag);
                let this = (until, TenantId(tenant as u16));
                wake = Some(wake.map_or(this, |wake| wake.min(this)));
            }
        }
        (slowest, wake)
    }
}

impl Scheduler for FlashFq {
    fn by_address(&self) -> bool {
        self.by_address
    }

    fn arrived(&mut self, slot: u32, pending: &PendingRequests, now: Instant) {
        let tenant = pending.get(slot).tenant;
        let place = usize::from(tenant.0);
        // It had nothing outstanding: what it did not ask for is not owed to it, unless it was waited for.
        if pending.held_of(tenant) == 1 {
            self.think.arrived(tenant, pending, now);
            let until = self.think.worth_waiting_until(tenant, self.config.anticipation);
            if !self.reader[place] || until.is_none_or(|until| until < now) {
                self.tags[place] = self.tags[place].max(self.virtual_time);
            }
        }
        self.waiting.put(place, true);
        self.floor = self.floor.min(self.tags[place]);
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        let first = self.waiting.iter().min_by_key(|&tenant| self.tags[tenant]);
        let tenant = first.expect("a request waits");
        let tag = self.tags[tenant];
        if tag - self.floor > self.config.throttle.0 {
            let (slowest, wake) = self.slowest(pending, now);
            self.floor = slowest;
            if tag - slowest > self.config.throttle.0 {
                self.throttled += 1;
                return wake.map_or(Next::Nothing, |(at, tenant)| Next::Until(at, tenant));
            }
        }
        let slot = self.order.pick(pending, tenant).expect("a request of this tenant waits");
        let entry = pending.get(slot);
        self.order.sent(entry, pending);
        self.waiting.put(tenant, pending.waiting_in(tenant) > 1);
        self.virtual_time = self.virtual_time.max(tag);
        let step = scaled(entry.cost.0, 100, self.weights.of(tenant));
        self.tags[tenant] = tag + step.max(1);
        self.reader[tenant] = entry.class == Class::Read;
        Next::Send(slot)
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        self.think.done(entry.tenant, now);
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
    }

    fn report(&mut self, report: &mut Report) {
        report.count("throttled_dispatches", &mut self.throttled);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    fn fair(config: FlashFqConfig, weights: &[u16]) -> Rig<FlashFq> {
        let all = Weights([&[100], weights].concat());
        Rig::new(FlashFq::new(config, all, OrderConfig::Fifo), weights).depth(8)
    }

    #[test]
    fn cost_is_shared_by_weight_with_many_in_flight() {
        let loads = [Load::reads(64), Load::writes(16), Load::reads(16).of(16_384)];
        let shares = fair(FlashFqConfig::default(), &[100, 100, 200]).run(&loads, 100_000);
        assert!(in_proportion(&shares, &[1, 1, 2], 3), "{shares:?}");
    }

    #[test]
    fn patience_keeps_the_share_of_one_who_asks_one_at_a_time() {
        let quick = Load::reads(1).thinking(Span::from_us(50));
        let loads = [quick, Load::writes(64)];
        let tight = FlashFqConfig { throttle: Span::from_us(500), ..FlashFqConfig::default() };
        let with = fair(tight, &[100, 100]).run(&loads, 40_000);
        let without =
            fair(FlashFqConfig { anticipation: Span::ZERO, ..tight }, &[100, 100]).run(&loads, 40_000);
        let share = |s: &[u64]| s[0] as f64 / (s[0] + s[1]) as f64;
        assert!(share(&with) > 3.0 * share(&without), "{with:?} {without:?}");
        assert!(in_proportion(&with, &[1, 1], 10), "{with:?}");
    }
}
