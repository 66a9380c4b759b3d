//! `anticipatory`: an elevator that waits a moment for the one who will be back.
//!
//! A process that reads one block after another asks for the next only when it has the last. A scheduler that never waits
//! then leaves it after each read (deceptive idleness), and on a disk the head travels. After a read this one keeps the device
//! for its tenant for up to `antic_expire`, when the tenant has nothing else outstanding and usually comes back in that
//! time. The wait ends when its read comes, when a read waits within `close_distance` of where the head is, or when the time is up.
//! Reads and writes take turns in batches that last for a time; within one the elevator goes up the addresses and a request
//! whose time is up goes first.
//!
//! Sources: Iyer and Druschel, "Anticipatory scheduling", SOSP 2001; block/as-iosched.c of Linux 2.6 for the defaults:
//! antic_expire 6.7 ms, read_expire 125 ms, write_expire 250 ms, read_batch_expire 500 ms, write_batch_expire 125 ms. Where
//! we differ: `close_distance` is a distance; Linux compares with the mean distance of the process, and the paper weighs the time that a
//! seek would cost against the time that it expects to wait. A think time is a mean that forgets; the paper keeps a
//! distribution and waits for its 95th percentile. It is meant for one request at a time (`depth = 1`).
//!
//! Cost: O(log n) for a request. RAM: 24 bytes for a tenant.

use super::think::ThinkTimes;
use super::{Given, Next, Scheduler, SchedulerOptions};
use crate::pending::{Class, Entry, PendingRequests};
use nandu_base::{ByteLen, Declared, Instant, Report, Span, TenantId, options};

/// Options of `anticipatory`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnticipatoryConfig {
    /// Longest wait for the next read of a tenant.
    #[option(default = Span::from_us(6700))]
    pub antic_expire: Span,
    /// How long a read may wait before it goes first.
    #[option(default = Span::from_ms(125))]
    pub read_expire: Span,
    /// The same for all else.
    #[option(default = Span::from_ms(250))]
    pub write_expire: Span,
    /// Length of a batch of reads while writes wait.
    #[option(default = Span::from_ms(500))]
    pub read_batch: Span,
    /// Length of a batch of writes while reads wait.
    #[option(default = Span::from_ms(125))]
    pub write_batch: Span,
    /// A read this close behind the last one is taken without a wait.
    #[option(default = ByteLen::kib(64))]
    pub close_distance: ByteLen,
}

impl Declared for AnticipatoryConfig {
    const NAME: &'static str = "anticipatory";
    const SUMMARY: &'static str = "An elevator that waits for the one who will be back.";
    const SOURCE: &'static str = "Iyer and Druschel, SOSP 2001; block/as-iosched.c of Linux 2.6";
    const DRAWS: &'static [&'static str] =
        &["antic_expire = \"300 us\", read_batch = \"3 ms\", write_batch = \"1 ms\""];
}

impl SchedulerOptions for AnticipatoryConfig {
    type Scheduler = Anticipatory;

    fn one_at_a_time(&self) -> bool {
        true
    }

    fn for_die(&self) -> Result<AnticipatoryConfig, &'static str> {
        Err(
            "a die has no addresses to walk along: `deadline` and `anticipatory` are for a `queue` before the drive",
        )
    }

    fn build(&self, given: Given) -> Anticipatory {
        Anticipatory::new(*self, given.weights.0.len())
    }
}

/// The anticipatory elevator.
pub struct Anticipatory {
    config: AnticipatoryConfig,
    class: Class,
    batch_end: Instant,
    /// Whose read ended last, when nothing was sent since.
    awaited: Option<TenantId>,
    position: [u64; 2],
    think: ThinkTimes,
    waits: u64,
    hits: u64,
    waiting: bool,
    /// The read that was waited for, once it has come.
    met: Option<u32>,
}

impl Anticipatory {
    /// The scheduler for `tenants` tenants, SYSTEM included.
    pub fn new(config: AnticipatoryConfig, tenants: usize) -> Anticipatory {
        Anticipatory {
            config,
            class: Class::Read,
            batch_end: Instant::ZERO,
            awaited: None,
            position: [0; 2],
            think: ThinkTimes::new(tenants),
            waits: 0,
            hits: 0,
            waiting: false,
            met: None,
        }
    }

    /// Until when to wait for the tenant whose read ended last.
    fn wait(&self, pending: &PendingRequests, now: Instant) -> Option<Instant> {
        let until = self.think.worth_waiting(self.awaited?, pending, self.config.antic_expire, now)?;
        let position = self.position[Class::Read as usize];
        let near = pending
            .at_or_after(0, Class::Read, position)
            .is_some_and(|slot| pending.get(slot).start - position <= self.config.close_distance.0);
        (!near).then_some(until)
    }

    fn turn(&mut self, pending: &PendingRequests, now: Instant) {
        let has = |class| pending.oldest(0, class).is_some();
        let stay = has(self.class) && (now < self.batch_end || !has(self.class.other()));
        if stay {
            return;
        }
        if has(self.class.other()) {
            self.class = self.class.other();
        }
        self.batch_end = now
            + match self.class {
                Class::Read => self.config.read_batch,
                Class::Write => self.config.write_batch,
            };
    }
}

impl Scheduler for Anticipatory {
    fn groups(&self, _tenants: usize) -> usize {
        1
    }

    fn group(&self, _tenant: TenantId, _lane: u32) -> u32 {
        0
    }

    fn by_address(&self) -> bool {
        true
    }

    fn arrived(&mut self, slot: u32, pending: &PendingRequests, now: Instant) {
        let Entry { tenant, class, .. } = *pending.get(slot);
        self.think.arrived(tenant, pending, now);
        if self.waiting && self.awaited == Some(tenant) && class == Class::Read {
            self.hits += 1;
            self.met = Some(slot);
        }
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        if let Some(until) = self.wait(pending, now) {
            self.waits += u64::from(!self.waiting);
            self.waiting = true;
            return Next::Until(until, self.awaited.unwrap_or(TenantId::SYSTEM));
        }
        (self.awaited, self.waiting) = (None, false);
        let met = self.met.take();
        self.turn(pending, now);
        let class = self.class;
        let oldest = pending.oldest(0, class).expect("a request of the class waits");
        let expire = match class {
            Class::Read => self.config.read_expire,
            Class::Write => self.config.write_expire,
        };
        let slot = match pending.at_or_after(0, class, self.position[class as usize]) {
            _ if pending.get(oldest).arrived + expire <= now => oldest,
            next => met.filter(|_| class == Class::Read).or(next).unwrap_or(oldest),
        };
        self.position[class as usize] = pending.get(slot).end;
        Next::Send(slot)
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        self.think.done(entry.tenant, now);
        if entry.class == Class::Read && self.class == Class::Read {
            self.awaited = Some(entry.tenant);
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.count("anticipations", &mut self.waits);
        report.count("anticipation_hits", &mut self.hits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig};
    use super::*;

    #[test]
    fn it_waits_for_one_who_comes_right_back() {
        let mut rig = Rig::new(Anticipatory::new(AnticipatoryConfig::default(), 3), &[100, 100]).depth(1);
        let quick = Load::reads(1).thinking(Span::from_us(100));
        rig.run(&[quick, quick], 2000);
        let stays = rig.sent.windows(2).filter(|w| w[0].0 == w[1].0).count();
        assert!(stays > 1900, "{stays} of 2000 stayed with their tenant");
    }

    #[test]
    fn it_does_not_wait_for_one_who_thinks_long() {
        let mut rig = Rig::new(Anticipatory::new(AnticipatoryConfig::default(), 3), &[100, 100]).depth(1);
        let slow = Load::reads(1).thinking(Span::from_ms(50));
        rig.run(&[slow, Load::writes(8)], 4000);
        assert!(rig.scheduler_counters()["anticipations"] < 40, "{:?}", rig.scheduler_counters());
    }
}
