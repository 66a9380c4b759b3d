//! `cfq`: completely fair queueing. Each tenant in turn has the device for a slice of time.
//!
//! *Classic* (`slices = "classic"`). Each tenant has a queue of reads (sync) and one of the rest (async), with slices of
//! `slice_sync` and `slice_async` by the clock, times its weight over 100. The clock of a slice begins when a request of its queue ends. In its slice a queue may have `quantum` requests on their way.
//! A queue of reads that runs empty keeps its turn for up to `slice_idle`, when its tenant usually comes back in that time.
//!
//! *By service level* (`slices = "slo"`; S3-5 to S3-7). One queue for a tenant. Its slice is its share of the period: period
//! x weight / sum of weights of all tenants, where the period is `slice_sync` for each tenant, of device time (O3-1): what requests are taken to cost, whoever's were sent before them. Requests go in the
//! order of the knob `order`, without `quantum`: a slice is there to use the parallelism of the drive. An empty queue
//! passes its turn on at once (O3-2), unless `slice_idle` is given.
//!
//! Inside a die slices are 1 ms and 400 us unless they are given, and an empty queue keeps its turn for up to 500 us: while one tenant has a die for
//! 100 ms what others ask of it piles up there, until they have nothing to ask of any die.
//!
//! Time beyond the end of a slice is taken off the next one.
//!
//! *Async below sync* (`sync_first`, classic only; off by default). The rest waits until no read is on its way, and a read that comes ends
//! the turn of the rest once it has sent one request. `async_requests` bounds what such a turn sends.
//!
//! Sources: block/cfq-iosched.c of Linux 2.6 and 3.x and Documentation/block/cfq-iosched.txt for the defaults (slice_sync 100 ms,
//! slice_async 40 ms, slice_idle 8 ms, quantum 8); spec S3-6, B3-1. There: cfq_may_dispatch (async waits for sync in flight),
//! cfq_should_preempt with the one request that async may always send, cfq_prio_to_maxrq (slice_async_rq 2, which is 16 requests
//! of a turn at the usual priority). Where we differ: requests of a queue go in the order of arrival and not by sector with
//! fifo_expire, which is for heads; asynchronous requests belong to their tenant and not to everybody; `quantum` is a fixed
//! depth, where Linux lets a lone queue go beyond it; there are no priority classes and no slices shortened to
//! target_latency. A read is what Linux calls sync; synchronous writes are not told apart.
//!
//! Cost: O(1) for a request, O(tenants) for a change of turn. RAM: 48 bytes for a tenant.

use super::think::ThinkTimes;
use super::turns::{By, Turns};
use super::{Given, Next, Scheduler, SchedulerOptions, Weights};
use crate::order::{Order, OrderConfig};
use crate::pending::{Class, Entry, PendingRequests};
use nandu_base::{Declared, Instant, Report, Span, TenantId, options};

/// How long a turn is, and whose.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Slices {
    /// Reads and the rest of each tenant apart, as in Linux.
    #[default]
    Classic,
    /// One for a tenant, by its share.
    Slo,
}

/// Options of `cfq`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CfqConfig {
    /// Whose turns there are.
    #[option(default)]
    pub slices: Slices,
    /// A turn of reads at weight 100; with `slo`, what each tenant adds to the period.
    #[option(unset = "100 ms, inside a die 1 ms", above = Span::ZERO)]
    pub slice_sync: Option<Span>,
    /// A turn of all else at weight 100.
    #[option(unset = "40 ms, inside a die 400 us", above = Span::ZERO)]
    pub slice_async: Option<Span>,
    /// How long an empty queue keeps its turn.
    #[option(unset = "8 ms, with `slo` 0, inside a die 500 us")]
    pub slice_idle: Option<Span>,
    /// Requests of one turn in flight. Not with `slo`.
    #[option(default = 8, range = 1..)]
    pub quantum: u32,
    /// Whether all else waits for reads in flight, and its turns end when a read comes. Not with `slo`.
    #[option(default)]
    pub sync_first: bool,
    /// Requests that a turn of all else may send; 16 in Linux. Not with `slo`.
    #[option(unset = "any number", range = 1..)]
    pub async_requests: Option<u32>,
}

impl Declared for CfqConfig {
    const NAME: &'static str = "cfq";
    const SUMMARY: &'static str = "Slices of time in turn.";
    const SOURCE: &'static str = "block/cfq-iosched.c of Linux 2.6 and 3.x";
    const DRAWS: &'static [&'static str] = &[
        "slice_sync = \"2 ms\", slice_async = \"1 ms\", slice_idle = \"200 us\", quantum = 2",
        "slices = \"slo\", slice_sync = \"1 ms\"",
    ];
}

impl SchedulerOptions for CfqConfig {
    type Scheduler = Cfq;

    fn flaw(&self) -> Option<&'static str> {
        let is_classic = self.sync_first || self.async_requests.is_some();
        (self.slices == Slices::Slo && is_classic).then_some(
            "`sync_first` and `async_requests` are of classic slices: with `slo` a tenant has one queue",
        )
    }

    fn takes_order(&self) -> bool {
        self.slices == Slices::Slo
    }

    fn anticipation(&self) -> Span {
        let default = match self.slices {
            Slices::Classic => Span::from_ms(8),
            Slices::Slo => Span::ZERO,
        };
        self.slice_idle.unwrap_or(default)
    }

    fn for_die(&self) -> Result<CfqConfig, &'static str> {
        Ok(CfqConfig {
            slice_sync: self.slice_sync.or(Some(Span::from_ms(1))),
            slice_async: self.slice_async.or(Some(Span::from_us(400))),
            slice_idle: self.slice_idle.or(Some(Span::from_us(500))),
            ..*self
        })
    }

    fn build(&self, given: Given) -> Cfq {
        Cfq::new(*self, given.weights, given.order)
    }
}

/// Completely fair queueing.
pub struct Cfq {
    config: CfqConfig,
    /// Of reads, and of the rest.
    slices: [Span; 2],
    idle: Span,
    weights: Weights,
    /// Sum of the weights of all tenants but SYSTEM.
    sum: u64,
    turns: Turns,
    think: ThinkTimes,
    order: Order,
    by_address: bool,
    /// Requests sent in this turn.
    sent: u32,
    idled: u64,
    preempted: u64,
}

impl Cfq {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: CfqConfig, weights: Weights, order: OrderConfig) -> Cfq {
        let tenants = weights.0.len();
        let by = match config.slices {
            Slices::Classic => By::Clock,
            Slices::Slo => By::Cost,
        };
        Cfq {
            slices: [
                config.slice_sync.unwrap_or(Span::from_ms(100)),
                config.slice_async.unwrap_or(Span::from_ms(40)),
            ],
            config,
            idle: config.anticipation(),
            sum: weights.sum(),
            turns: Turns::new(by, tenants * 2),
            think: ThinkTimes::new(tenants),
            order: Order::new(order, tenants),
            by_address: order.by_address(),
            weights,
            sent: 0,
            idled: 0,
            preempted: 0,
        }
    }

    /// Players are tenants x classes; by service level only the first of each pair plays.
    fn slice(&self, player: usize) -> Span {
        let tenant = player / 2;
        match self.config.slices {
            Slices::Classic => Span(self.weights.share(tenant, self.slices[player % 2].0)),
            Slices::Slo => {
                let tenants = self.weights.0.len() as u64 - 1;
                let period = u128::from(self.slices[0].0) * u128::from(tenants.max(1));
                Span((period * u128::from(self.weights.of(tenant)) / u128::from(self.sum)).max(1) as u64)
            }
        }
    }

    fn player(&self, entry: &Entry) -> usize {
        let class = match self.config.slices {
            Slices::Classic => entry.class as usize,
            Slices::Slo => 0,
        };
        2 * usize::from(entry.tenant.0) + class
    }

    /// The request of `player` that goes next.
    fn head(&self, player: usize, pending: &PendingRequests) -> Option<u32> {
        let tenant = player / 2;
        match self.config.slices {
            Slices::Classic => pending.oldest(tenant, [Class::Read, Class::Write][player % 2]),
            Slices::Slo if player.is_multiple_of(2) => self.order.pick(pending, tenant),
            Slices::Slo => None,
        }
    }

    fn in_flight(&self, player: usize, pending: &PendingRequests) -> u32 {
        let tenant = TenantId((player / 2) as u16);
        match self.config.slices {
            Slices::Classic => pending.out_of_class(tenant, [Class::Read, Class::Write][player % 2]),
            Slices::Slo => pending.out_of(tenant),
        }
    }

    /// How an empty queue keeps its turn, if it does.
    fn idle(
        &self,
        player: usize,
        end: Option<Instant>,
        pending: &PendingRequests,
        now: Instant,
    ) -> Option<Next> {
        if self.idle == Span::ZERO || (self.config.slices == Slices::Classic && player % 2 == 1) {
            return None;
        }
        let tenant = TenantId((player / 2) as u16);
        if self.in_flight(player, pending) > 0 {
            return Some(until(end, tenant));
        }
        let comes_back = self.think.worth_waiting(tenant, pending, self.idle, now)?;
        Some(Next::Until(end.map_or(comes_back, |end| comes_back.min(end)), tenant))
    }
}

/// Waits for the end of the tenant's turn, or where no clock says it for the end of a request.
fn until(end: Option<Instant>, tenant: TenantId) -> Next {
    end.map_or(Next::Nothing, |end| Next::Until(end, tenant))
}

impl Scheduler for Cfq {
    fn by_address(&self) -> bool {
        self.by_address
    }

    fn arrived(&mut self, slot: u32, pending: &PendingRequests, now: Instant) {
        self.think.arrived(pending.get(slot).tenant, pending, now);
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        if let Some((player, end)) = self.turns.current(now) {
            if self.is_over(player, pending) {
                self.turns.pass();
                return self.next(pending, now);
            }
            match self.head(player, pending) {
                Some(slot) => return self.send(player, slot, end, pending),
                None => match self.idle(player, end, pending, now) {
                    Some(next) => {
                        self.idled += 1;
                        return next;
                    }
                    None => self.turns.pass(),
                },
            }
        }
        let mut turns = std::mem::replace(&mut self.turns, Turns::new(By::Clock, 1));
        let player = turns.give(|p| self.head(p, pending).is_some(), |p| self.slice(p));
        (self.turns, self.sent) = (turns, 0);
        let (_, end) = self.turns.current(now).expect("a turn has just begun");
        let slot = self.head(player, pending).expect("it was chosen for that");
        self.send(player, slot, end, pending)
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        self.turns.done(self.player(entry), now);
        self.think.done(entry.tenant, now);
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        self.weights.set(tenant, weight);
        self.sum = self.weights.sum();
    }

    fn report(&mut self, report: &mut Report) {
        report.count("turns", &mut self.turns.given);
        report.count("idle_waits", &mut self.idled);
        report.count("turns_preempted", &mut self.preempted);
    }
}

impl Cfq {
    fn is_async(&self, player: usize) -> bool {
        self.config.slices == Slices::Classic && player % 2 == 1
    }

    fn any_read(&self, of: impl Fn(TenantId) -> u32) -> bool {
        (0..self.weights.0.len()).any(|tenant| of(TenantId(tenant as u16)) > 0)
    }

    /// Whether a turn of what is not read ends before its time, having sent something.
    fn is_over(&mut self, player: usize, pending: &PendingRequests) -> bool {
        if !self.is_async(player) || self.sent == 0 {
            return false;
        }
        let is_preempted =
            self.config.sync_first && self.any_read(|tenant| pending.waiting_of(tenant, Class::Read));
        self.preempted += u64::from(is_preempted);
        is_preempted || self.config.async_requests.is_some_and(|most| self.sent >= most)
    }

    fn send(&mut self, player: usize, slot: u32, end: Option<Instant>, pending: &PendingRequests) -> Next {
        if self.config.sync_first
            && self.is_async(player)
            && self.any_read(|tenant| pending.out_of_class(tenant, Class::Read))
        {
            return Next::Nothing;
        }
        let full = self.in_flight(player, pending) >= self.config.quantum;
        if full && self.config.slices == Slices::Classic {
            return until(end, TenantId((player / 2) as u16));
        }
        self.turns.sent(pending.get(slot).cost);
        self.order.sent(pending.get(slot), pending);
        self.sent += 1;
        Next::Send(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    fn slo(weights: &[u16]) -> Cfq {
        let weights = Weights([&[100], weights].concat());
        Cfq::new(CfqConfig { slices: Slices::Slo, ..CfqConfig::default() }, weights, OrderConfig::Fifo)
    }

    #[test]
    fn options_of_other_slices_are_flaws() {
        let slo = CfqConfig { slices: Slices::Slo, ..CfqConfig::default() };
        assert_eq!(slo.flaw(), None);
        for config in [CfqConfig { sync_first: true, ..slo }, CfqConfig { async_requests: Some(2), ..slo }] {
            assert!(config.flaw().is_some_and(|flaw| flaw.contains("classic slices")), "{config:?}");
            let classic = CfqConfig { slices: CfqConfig::default().slices, ..config };
            assert_eq!(classic.flaw(), None, "{classic:?}");
        }
    }

    #[test]
    fn time_is_shared_by_weight_whoever_asks_for_more() {
        let shares = Rig::new(slo(&[100, 300]), &[100, 300]).run(&[Load::reads(64), Load::reads(8)], 200_000);
        assert!(in_proportion(&shares, &[1, 3], 5), "{shares:?}");
    }

    /// The writer's 32 requests of 64 KiB drain for longer than the reader's slice is.
    #[test]
    fn slices_are_not_eaten_by_what_others_sent_before() {
        let loads = [Load::reads(512), Load::writes(64).of(65_536)];
        let of = |config: CfqConfig| {
            let config = CfqConfig {
                slice_sync: Some(Span::from_ms(2)),
                slice_async: Some(Span::from_ms(2)),
                ..config
            };
            let cfq = Cfq::new(config, Weights(vec![100, 100, 100]), OrderConfig::Fifo);
            Rig::new(cfq, &[100, 100]).depth(32).run(&loads, 100_000)
        };
        let shares = of(CfqConfig { slices: Slices::Slo, ..CfqConfig::default() });
        assert!(in_proportion(&shares, &[1, 1], 5), "{shares:?}");
    }

    #[test]
    fn inside_a_die_slices_are_short_and_wait_for_who_comes_back() {
        let of = |config: CfqConfig| {
            let die = config.for_die().expect("it is for dies");
            (die.slice_sync, die.slice_async, die.anticipation())
        };
        let (ms, us) = (|n| Some(Span::from_ms(n)), Span::from_us);
        for slices in [Slices::Classic, Slices::Slo] {
            let config = CfqConfig { slices, ..CfqConfig::default() };
            assert_eq!(of(config), (ms(1), Some(us(400)), us(500)));
            let given = CfqConfig { slice_sync: ms(7), slice_idle: Some(us(3)), ..config };
            assert_eq!(of(given), (ms(7), Some(us(400)), us(3)));
        }
    }

    #[test]
    fn a_tenant_alone_has_everything() {
        let shares = Rig::new(slo(&[100, 100]), &[100, 100]).run(&[Load::reads(8), Load::reads(0)], 10_000);
        assert_eq!(shares[1], 0);
        assert!(shares[0] >= 10_000 * 52_000);
    }

    #[test]
    fn classic_slices_favour_reads_by_their_length() {
        let cfq = Cfq::new(CfqConfig::default(), Weights(vec![100, 100, 100]), OrderConfig::Fifo);
        let shares = Rig::new(cfq, &[100, 100]).run(&[Load::reads(16), Load::writes(16)], 200_000);
        assert!(in_proportion(&shares, &[100, 40], 8), "{shares:?}");
    }

    #[test]
    fn async_stands_below_sync_as_in_linux() {
        let of = |config: CfqConfig| {
            let cfq = Cfq::new(config, Weights(vec![100, 100, 100]), OrderConfig::Fifo);
            let mut rig = Rig::new(cfq, &[100, 100]);
            rig.run(&[Load::reads(4), Load::writes(16)], 40_000);
            rig
        };
        let mixed = |rig: &Rig<Cfq>| rig.mixed;
        let plain = of(CfqConfig::default());
        assert!(mixed(&plain) > 0);
        let below = of(CfqConfig { sync_first: true, ..CfqConfig::default() });
        assert_eq!(mixed(&below), 0, "no write goes while a read is on its way");
        // Each turn of the writer sends what is let through before the reader asks again.
        let writes = |rig: &Rig<Cfq>| rig.sent.iter().filter(|sent| sent.1 == Class::Write).count();
        assert!(writes(&below) > 0 && writes(&below) * 4 < writes(&plain), "{}", writes(&below));
        assert!(below.scheduler().preempted > 0);
        let bounded = of(CfqConfig { async_requests: Some(16), ..CfqConfig::default() });
        let runs = bounded.sent.split(|sent| sent.1 == Class::Read).map(<[_]>::len).max();
        assert_eq!(runs, Some(16));
    }

    #[test]
    fn a_turn_is_kept_for_one_who_comes_right_back() {
        let cfq = Cfq::new(CfqConfig::default(), Weights(vec![100, 100, 100]), OrderConfig::Fifo);
        let quick = Load::reads(1).thinking(Span::from_us(200));
        let mut rig = Rig::new(cfq, &[100, 100]).depth(1);
        let shares = rig.run(&[quick, Load::reads(32)], 40_000);
        // The thinker has its 100 ms, of which it uses 52 us in 252.
        assert!(in_proportion(&shares, &[52, 252], 10), "{shares:?}");
        // Without idling it would be left after every read.
        let config = CfqConfig { slice_idle: Some(Span::ZERO), ..CfqConfig::default() };
        let cfq = Cfq::new(config, Weights(vec![100, 100, 100]), OrderConfig::Fifo);
        let shares = Rig::new(cfq, &[100, 100]).depth(1).run(&[quick, Load::reads(32)], 40_000);
        assert!(shares[0] * 100 < shares[1], "{shares:?}");
    }
}
