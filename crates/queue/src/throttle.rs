//! Limits of a tenant, in front of the scheduler.
//!
//! *Rates* (`max` of the tenant, in the words of cgroup's io.max: rbps, wbps, riops, wiops). A tenant may be `burst` ahead of
//! each of its rates. Each rate keeps the time up to which it is used up (the generic cell rate algorithm, ITU-T I.371): a request
//! is admitted when that time is not more than `burst` ahead of now, and moves it on by its length over the rate. Whole
//! numbers, so that a rate holds exactly however long a run is.
//!
//! *Latency targets* (`target_latency`, in the words of cgroup's io.latency). In each `latency_window` the mean latency of each tenant with
//! a target is compared with it. When it is missed, every tenant with a longer target or none may have half as many
//! requests at a time as before, at least one; in a window in which nobody with a shorter target misses, a sixteenth of the
//! depth more. (Linux block/blk-iolatency.c: the same rule with its own steps.) Latency is counted from where a request was
//! admitted to its end.
//!
//! What is not admitted waits in the order of arrival.
//!
//! Cost: O(1) for a request, O(tenants) at the end of a window and for the next alarm. RAM: 120 bytes for a tenant.

use crate::pending::{Class, Entry};
use nandu_base::{Instant, Span, TenantId, TenantShare};
use std::collections::VecDeque;

/// A rate and how far it is used up.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: u64,
    used_up_to: u64,
}

impl Rate {
    fn span_of(&self, amount: u64) -> u64 {
        (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(self.per_second)) as u64
    }
}

#[derive(Debug)]
struct Tenant {
    /// Bytes read, bytes written, reads, writes.
    rates: [Option<Rate>; 4],
    target: Option<Span>,
    /// Requests it may have beyond this stage.
    allowed: u32,
    admitted: u32,
    held: VecDeque<Entry>,
    /// Latencies of this window: sum and count.
    seen: (u64, u64),
}

/// Limits of all tenants.
#[derive(Debug)]
pub struct Throttle {
    tenants: Vec<Tenant>,
    burst: Span,
    window: Span,
    window_end: Instant,
    depth: u32,
    /// Whether anybody has a target.
    targets: bool,
    held: u32,
    /// Requests that had to wait here.
    pub held_total: u64,
    /// Windows in which a target was missed.
    pub missed_windows: u64,
}

/// A tenant without limits may have this many.
const UNBOUNDED: u32 = u32::MAX;

impl Throttle {
    /// The limits of `tenants`, SYSTEM first, in front of a device that takes `depth` requests.
    pub fn new(tenants: &[TenantShare], burst: Span, window: Span, depth: u32) -> Throttle {
        let rate = |per_second: Option<u64>| per_second.map(|per_second| Rate { per_second, used_up_to: 0 });
        Throttle {
            tenants: tenants
                .iter()
                .map(|t| Tenant {
                    rates: [rate(t.rbps), rate(t.wbps), rate(t.riops), rate(t.wiops)],
                    target: t.target_latency,
                    allowed: UNBOUNDED,
                    admitted: 0,
                    held: VecDeque::new(),
                    seen: (0, 0),
                })
                .collect(),
            burst,
            window,
            window_end: Instant::ZERO,
            depth,
            targets: tenants.iter().any(|t| t.target_latency.is_some()),
            held: 0,
            held_total: 0,
            missed_windows: 0,
        }
    }

    /// From here on `tenant` has the limits of `share`. A rate that stays keeps what is used up of it, at most a burst.
    pub fn set(&mut self, tenant: TenantId, share: &TenantShare, now: Instant) {
        let most = now.0.saturating_add(self.burst.0);
        let own = &mut self.tenants[usize::from(tenant.0)];
        let rates = [share.rbps, share.wbps, share.riops, share.wiops];
        for (rate, per_second) in own.rates.iter_mut().zip(rates) {
            let used_up_to = rate.map_or(0, |rate| rate.used_up_to.min(most));
            *rate = per_second.map(|per_second| Rate { per_second, used_up_to });
        }
        own.target = share.target_latency;
        self.targets = self.tenants.iter().any(|t| t.target.is_some());
        if !self.targets {
            self.tenants.iter_mut().for_each(|t| t.allowed = UNBOUNDED);
        }
    }

    /// Requests that wait here.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// A request has come: `None` when it must wait, else it goes on.
    pub fn admit(&mut self, entry: Entry, now: Instant) -> Option<Entry> {
        let tenant = &mut self.tenants[usize::from(entry.tenant.0)];
        if tenant.held.is_empty() && tenant.may_pass(&entry, self.burst, now).is_ok() {
            tenant.pass(&entry, now);
            return Some(entry);
        }
        tenant.held.push_back(entry);
        self.held += 1;
        self.held_total += 1;
        None
    }

    /// The next request that may go on now.
    pub fn release(&mut self, now: Instant) -> Option<Entry> {
        if self.held == 0 {
            return None;
        }
        for tenant in &mut self.tenants {
            let Some(entry) = tenant.held.front().copied() else { continue };
            if tenant.may_pass(&entry, self.burst, now).is_ok() {
                tenant.held.pop_front();
                tenant.pass(&entry, now);
                self.held -= 1;
                return Some(entry);
            }
        }
        None
    }

    /// When a request that waits here may go on, if time alone decides; later than now once nothing is left to
    /// [`release`](Throttle::release).
    pub fn next_release(&self, now: Instant) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        let due = |t: &Tenant| t.may_pass(t.held.front()?, self.burst, now).err().flatten();
        self.tenants.iter().filter_map(due).min()
    }

    /// A request that was admitted at `admitted` has ended.
    pub fn done(&mut self, entry: &Entry, admitted: Instant, now: Instant) {
        let tenant = &mut self.tenants[usize::from(entry.tenant.0)];
        tenant.admitted -= 1;
        if !self.targets {
            return;
        }
        tenant.seen.0 += now.since(admitted).0;
        tenant.seen.1 += 1;
        if now >= self.window_end {
            self.end_window();
            self.window_end = now + self.window;
        }
    }

    fn end_window(&mut self) {
        // The shortest target that was missed rules.
        let missed = self
            .tenants
            .iter()
            .filter(|t| t.target.is_some_and(|target| t.seen.0 > target.0.saturating_mul(t.seen.1)))
            .filter_map(|t| t.target)
            .min();
        self.missed_windows += u64::from(missed.is_some());
        for tenant in &mut self.tenants {
            let looser = |than: Span| tenant.target.is_none_or(|own| own > than);
            if missed.is_some_and(looser) {
                tenant.allowed = (tenant.allowed.min(self.depth) / 2).max(1);
            } else if tenant.allowed != UNBOUNDED {
                tenant.allowed += (self.depth / 16).max(1);
                if tenant.allowed > self.depth {
                    tenant.allowed = UNBOUNDED;
                }
            }
            tenant.seen = (0, 0);
        }
    }
}

impl Tenant {
    /// Whether `entry` may go on. Else when it may, if time alone decides.
    fn may_pass(&self, entry: &Entry, burst: Span, now: Instant) -> Result<(), Option<Instant>> {
        if self.admitted >= self.allowed {
            return Err(None);
        }
        let (bytes, ops) = of(entry.class);
        let used = [bytes, ops].map(|i| self.rates[i].map_or(0, |rate| rate.used_up_to));
        let free_at = used[0].max(used[1]).saturating_sub(burst.0);
        if free_at > now.0 {
            return Err(Some(Instant(free_at)));
        }
        Ok(())
    }

    fn pass(&mut self, entry: &Entry, now: Instant) {
        self.admitted += 1;
        let (bytes, ops) = of(entry.class);
        for (rate, amount) in [(bytes, entry.end - entry.start), (ops, 1)] {
            if let Some(rate) = &mut self.rates[rate] {
                rate.used_up_to = rate.used_up_to.max(now.0) + rate.span_of(amount);
            }
        }
    }
}

/// Places of the rates that a class counts for.
fn of(class: Class) -> (usize, usize) {
    match class {
        Class::Read => (0, 2),
        Class::Write => (1, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::ReqId;

    fn entry(class: Class, bytes: u64) -> Entry {
        Entry {
            id: ReqId(0),
            tenant: TenantId(1),
            class,
            start: 0,
            end: bytes,
            arrived: Instant::ZERO,
            cost: Span(1),
            lane: 0,
            number: 0,
            group: 1,
        }
    }

    fn share() -> TenantShare {
        TenantShare::named("a")
    }

    #[test]
    fn a_rate_holds_exactly() {
        let limited = TenantShare { riops: Some(300), ..share() };
        let mut throttle = Throttle::new(&[share(), limited], Span::ZERO, Span::from_ms(100), 8);
        for _ in 0..1000 {
            let _ = throttle.admit(entry(Class::Read, 512), Instant::ZERO);
        }
        assert_eq!(throttle.held(), 999);
        let mut passed = 1;
        let mut now = Instant::ZERO;
        while let Some(at) = throttle.next_release(now) {
            assert!(at > now);
            now = at;
            while throttle.release(now).is_some() {
                passed += 1;
            }
        }
        assert_eq!(passed, 1000);
        // 999 gaps of 1/300 s, each rounded up to a nanosecond.
        assert_eq!(now, Instant(999 * 3_333_334));
        // Writes are not limited.
        assert!(throttle.admit(entry(Class::Write, 512), now).is_some());
    }

    #[test]
    fn bytes_count_by_length_and_a_burst_goes_at_once() {
        let limited = TenantShare { wbps: Some(1_000_000), ..share() };
        let mut throttle = Throttle::new(&[share(), limited], Span::from_ms(10), Span::from_ms(100), 8);
        let mut at_once = 0;
        while throttle.admit(entry(Class::Write, 1000), Instant::ZERO).is_some() {
            at_once += 1;
        }
        // 10 ms ahead are ten requests of 1 ms, and the one that is then under way.
        assert_eq!(at_once, 11);
        assert_eq!(throttle.next_release(Instant::ZERO), Some(Instant(1_000_000)));
    }

    #[test]
    fn limits_that_change_hold_from_there_on() {
        let slow = TenantShare { riops: Some(1), ..share() };
        let mut throttle = Throttle::new(&[share(), slow], Span::ZERO, Span::from_ms(100), 8);
        for _ in 0..10 {
            let _ = throttle.admit(entry(Class::Read, 512), Instant::ZERO);
        }
        assert_eq!(throttle.held(), 9);
        // A second is used up ahead; of the new rate it is no more than a burst, which is nothing here.
        throttle.set(TenantId(1), &TenantShare { riops: Some(1000), ..share() }, Instant(5));
        let mut now = Instant(5);
        for passed in 0..9_u64 {
            assert!(throttle.release(now).is_some(), "{passed}");
            now = throttle.next_release(now).unwrap_or(now);
        }
        assert_eq!(now, Instant(5 + 8 * 1_000_000));
        throttle.set(TenantId(1), &share(), now);
        assert!((0..10).all(|_| throttle.admit(entry(Class::Read, 512), now).is_some()));
        // Who was held back for a target is free once nobody has one.
        throttle.set(TenantId(0), &TenantShare { target_latency: Some(Span(1)), ..share() }, now);
        throttle.done(&Entry { tenant: TenantId(1), ..entry(Class::Read, 512) }, now, now);
        throttle.tenants[1].allowed = 1;
        throttle.set(TenantId(0), &share(), now);
        assert_eq!(throttle.tenants[1].allowed, UNBOUNDED);
    }

    #[test]
    fn those_with_looser_targets_make_room() {
        let tight = TenantShare { target_latency: Some(Span::from_us(100)), ..share() };
        let mut throttle = Throttle::new(&[share(), share(), tight], Span::ZERO, Span::from_ms(1), 64);
        let of = |tenant: u16| Entry { tenant: TenantId(tenant), ..entry(Class::Read, 512) };
        let mut now = Instant::ZERO;
        let mut end = |throttle: &mut Throttle, latency: u64| {
            for _ in 0..10 {
                now += Span::from_us(200);
                assert!(throttle.admit(of(2), now).is_some());
                throttle.done(&of(2), Instant(now.0 - latency.min(now.0)), now);
            }
        };
        end(&mut throttle, 150_000);
        assert!(throttle.missed_windows >= 1);
        let after_miss = throttle.tenants[1].allowed;
        assert!(after_miss <= 32, "{after_miss}");
        assert_eq!(throttle.tenants[2].allowed, UNBOUNDED, "who has the shortest target is not held back");
        for _ in 0..40 {
            end(&mut throttle, 50_000);
        }
        assert_eq!(throttle.tenants[1].allowed, UNBOUNDED);
    }
}
