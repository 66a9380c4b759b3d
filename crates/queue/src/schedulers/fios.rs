//! `fios`: slices of cost in epochs, reads before writes, and a moment of anticipation.
//!
//! In each epoch a tenant may use `slice` of cost, times its weight over 100. Requests of any tenants that have some left
//! go at the same time, so that the drive works in parallel; tenants take turns, one request each. Reads go before writes:
//! a write goes only when no read of a tenant with something left waits. When no tenant with something left has a request,
//! a tenant that usually comes back within `anticipation` is waited for; then a new epoch begins. Cost used beyond the slice is
//! taken off the next.
//!
//! Source: Park and Shen, "FIOS: a fair, efficient flash I/O scheduler", FAST 2012: timeslice management with fragmented
//! use, read preference (3.2), linear cost (3.3), I/O anticipation for fairness (3.4). Where we differ: cost is charged when
//! a request is sent, by the model, and not measured at its end. Writes are passed by reads that wait; they do not wait
//! for reads that are on their way.
//!
//! Cost: O(tenants) for a request. RAM: 40 bytes for a tenant.

use super::think::ThinkTimes;
use super::{Given, Next, Scheduler, SchedulerOptions, Weights};
use crate::pending::{Class, Entry, PendingRequests};
use nandu_base::{Declared, Instant, Report, Span, TenantId, options};

/// Options of `fios`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FiosConfig {
    /// What a tenant may use in an epoch at weight 100.
    #[option(default = Span::from_ms(10), range = Span::from_us(10)..)]
    pub slice: Span,
    /// How long a tenant is waited for before an epoch ends; 0 for not at all.
    #[option(default = Span::from_us(500))]
    pub anticipation: Span,
    /// Whether reads go before writes.
    #[option(default = true)]
    pub reads_first: bool,
}

impl Declared for FiosConfig {
    const NAME: &'static str = "fios";
    const SUMMARY: &'static str = "Slices of cost in epochs, reads first.";
    const SOURCE: &'static str = "Park and Shen, FAST 2012";
    const DRAWS: &'static [&'static str] = &["slice = \"1 ms\", anticipation = \"100 us\""];
}

impl SchedulerOptions for FiosConfig {
    type Scheduler = Fios;

    fn anticipation(&self) -> Span {
        self.anticipation
    }

    fn build(&self, given: Given) -> Fios {
        Fios::new(*self, given.weights)
    }
}

/// Slices of cost in epochs.
pub struct Fios {
    config: FiosConfig,
    weights: Weights,
    /// What each tenant has left in this epoch; below zero when its last request went beyond.
    left: Vec<i64>,
    turn: usize,
    think: ThinkTimes,
    epochs: u64,
}

impl Fios {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: FiosConfig, weights: Weights) -> Fios {
        let tenants = weights.0.len();
        Fios { config, left: vec![0; tenants], turn: 0, think: ThinkTimes::new(tenants), weights, epochs: 0 }
    }

    /// The next tenant in turn with something left that has a request of this class.
    fn candidate(&self, class: Option<Class>, pending: &PendingRequests) -> Option<(usize, u32)> {
        let tenants = self.left.len();
        (0..tenants).map(|step| (self.turn + step) % tenants).filter(|&t| self.left[t] > 0).find_map(
            |tenant| {
                let slot = match class {
                    Some(class) => pending.oldest(tenant, class),
                    None => pending.first(tenant),
                };
                slot.map(|slot| (tenant, slot))
            },
        )
    }

    /// Until when the epoch is kept open for a tenant that is likely to use what it has left, and for which.
    fn kept_open(&self, pending: &PendingRequests, now: Instant) -> Option<(Instant, TenantId)> {
        let tenants = (0u16..).map(TenantId).zip(&self.left);
        let awaited = tenants.filter(|&(_, &left)| left > 0).filter_map(|(tenant, _)| {
            Some((self.think.worth_waiting(tenant, pending, self.config.anticipation, now)?, tenant))
        });
        awaited.min()
    }

    fn begin_epoch(&mut self) {
        self.epochs += 1;
        for (tenant, left) in self.left.iter_mut().enumerate() {
            let slice = self.weights.share(tenant, self.config.slice.0) as i64;
            *left = (*left).min(0) + slice;
        }
    }
}

impl Scheduler for Fios {
    fn arrived(&mut self, slot: u32, pending: &PendingRequests, now: Instant) {
        self.think.arrived(pending.get(slot).tenant, pending, now);
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        let reads = self.config.reads_first.then_some(Class::Read);
        let mut patient = true;
        loop {
            let found = match reads {
                Some(class) => self.candidate(Some(class), pending).or_else(|| self.candidate(None, pending)),
                None => self.candidate(None, pending),
            };
            if let Some((tenant, slot)) = found {
                self.turn = (tenant + 1) % self.left.len();
                self.left[tenant] -= pending.get(slot).cost.0 as i64;
                return Next::Send(slot);
            }
            if patient {
                patient = false;
                if let Some((until, tenant)) = self.kept_open(pending, now) {
                    return Next::Until(until, tenant);
                }
                // One with something left may come back once its request has ended.
                let expected =
                    (0..self.left.len()).any(|t| self.left[t] > 0 && pending.out_of(TenantId(t as u16)) > 0);
                if expected && self.config.anticipation > Span::ZERO {
                    return Next::Nothing;
                }
            }
            self.begin_epoch();
        }
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        self.think.done(entry.tenant, now);
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
    }

    fn report(&mut self, report: &mut Report) {
        report.count("epochs", &mut self.epochs);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    fn fios(config: FiosConfig, weights: &[u16]) -> Rig<Fios> {
        Rig::new(Fios::new(config, Weights([&[100], weights].concat())), weights).depth(8)
    }

    #[test]
    fn cost_is_shared_by_weight_among_readers_and_writers() {
        let loads = [Load::reads(32), Load::writes(32)];
        let shares = fios(FiosConfig::default(), &[100, 300]).run(&loads, 100_000);
        assert!(in_proportion(&shares, &[1, 3], 3), "{shares:?}");
    }

    #[test]
    fn reads_wait_less_than_without_preference() {
        let loads = [Load::reads(4), Load::writes(32)];
        let mut with = fios(FiosConfig::default(), &[100, 100]);
        with.run(&loads, 20_000);
        let before: usize =
            with.sent.windows(2).filter(|w| w[0].1 == Class::Write && w[1].1 == Class::Read).count();
        let mut without = fios(FiosConfig { reads_first: false, ..FiosConfig::default() }, &[100, 100]);
        without.run(&loads, 20_000);
        let mixed: usize =
            without.sent.windows(2).filter(|w| w[0].1 == Class::Write && w[1].1 == Class::Read).count();
        assert!(before < mixed, "reads are let through in a row: {before} changes against {mixed}");
    }

    #[test]
    fn patience_keeps_the_share_of_one_who_asks_one_at_a_time() {
        let quick = Load::reads(1).thinking(Span::from_us(50));
        let with = fios(FiosConfig::default(), &[100, 100]).run(&[quick, Load::writes(64)], 20_000);
        assert!(in_proportion(&with, &[1, 1], 10), "{with:?}");
        let impatient = FiosConfig { anticipation: Span::ZERO, ..FiosConfig::default() };
        let without = fios(impatient, &[100, 100]).run(&[quick, Load::writes(64)], 20_000);
        assert!(without[0] * 2 < without[1], "{without:?}");
    }
}
