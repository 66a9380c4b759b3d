//! `deadline`: along the addresses, but nobody waits too long.
//!
//! Reads and writes stand by address, and in the order of arrival with a deadline each. A batch of up to `batch` requests of
//! one class goes in ascending order. Then: reads go first, until `writes_starved` batches of reads have passed writes
//! that wait; a batch begins at the oldest request when its deadline has passed, else behind the last one sent.
//!
//! Source: the deadline scheduler of Linux (block/deadline-iosched.c of 2.6 to 4.20, then block/mq-deadline.c), its
//! documentation and defaults: read_expire 500 ms, write_expire 5 s, fifo_batch 16, writes_starved 2. Tenants are not told
//! apart. Where we differ: nothing is merged (front_merges), and there are no priority classes with prio_aging_expire, which
//! mq-deadline has since Linux 5.14.
//!
//! Cost: O(log n) for a request. RAM: none of its own beside the tree.

use super::{Given, Next, Scheduler, SchedulerOptions};
use crate::pending::{Class, PendingRequests};
use nandu_base::{Declared, Instant, Span, TenantId, options};

/// Options of `deadline`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlineConfig {
    /// How long a read may wait before it goes first.
    #[option(default = Span::from_ms(500))]
    pub read_expire: Span,
    /// The same for all else.
    #[option(default = Span::from_secs(5))]
    pub write_expire: Span,
    /// Requests of a batch.
    #[option(default = 16, range = 1..)]
    pub batch: u32,
    /// Batches of reads that may pass writes that wait.
    #[option(default = 2)]
    pub writes_starved: u32,
}

impl Declared for DeadlineConfig {
    const NAME: &'static str = "deadline";
    const SUMMARY: &'static str = "Along the addresses, with deadlines.";
    const SOURCE: &'static str = "block/deadline-iosched.c of Linux";
    const DRAWS: &'static [&'static str] = &["read_expire = \"2 ms\", write_expire = \"9 ms\", batch = 4"];
}

impl SchedulerOptions for DeadlineConfig {
    type Scheduler = Deadline;

    fn for_die(&self) -> Result<DeadlineConfig, &'static str> {
        Err(
            "a die has no addresses to walk along: `deadline` and `anticipatory` are for a `queue` before the drive",
        )
    }

    fn build(&self, _given: Given) -> Deadline {
        Deadline::new(*self)
    }
}

/// The deadline elevator.
pub struct Deadline {
    config: DeadlineConfig,
    class: Class,
    /// Requests sent in this batch; 0 when it is over.
    batched: u32,
    /// Batches of reads that passed waiting writes.
    starved: u32,
    /// Where the last request of each class ended.
    position: [u64; 2],
}

impl Deadline {
    /// The scheduler.
    pub fn new(config: DeadlineConfig) -> Deadline {
        Deadline { config, class: Class::Read, batched: 0, starved: 0, position: [0; 2] }
    }

    /// The class of the next batch.
    fn choose(&mut self, pending: &PendingRequests) -> Class {
        let has = |class| pending.oldest(0, class).is_some();
        match (has(Class::Read), has(Class::Write)) {
            (true, true) if self.starved >= self.config.writes_starved => {
                self.starved = 0;
                Class::Write
            }
            (true, writes) => {
                self.starved += u32::from(writes);
                Class::Read
            }
            (false, _) => {
                self.starved = 0;
                Class::Write
            }
        }
    }

    /// Where a batch of `class` begins.
    fn begin(&self, class: Class, pending: &PendingRequests, now: Instant) -> u32 {
        let oldest = pending.oldest(0, class).expect("the class was chosen because one waits");
        let expire = match class {
            Class::Read => self.config.read_expire,
            Class::Write => self.config.write_expire,
        };
        if pending.get(oldest).arrived + expire <= now {
            return oldest;
        }
        pending.at_or_after(0, class, self.position[class as usize]).unwrap_or(oldest)
    }
}

impl Scheduler for Deadline {
    fn groups(&self, _tenants: usize) -> usize {
        1
    }

    fn group(&self, _tenant: TenantId, _lane: u32) -> u32 {
        0
    }

    fn by_address(&self) -> bool {
        true
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        let goes_on = (self.batched > 0 && self.batched < self.config.batch)
            .then(|| pending.at_or_after(0, self.class, self.position[self.class as usize]))
            .flatten();
        let slot = match goes_on {
            Some(slot) => slot,
            None => {
                self.class = self.choose(pending);
                self.batched = 0;
                self.begin(self.class, pending, now)
            }
        };
        self.batched += 1;
        self.position[self.class as usize] = pending.get(slot).end;
        Next::Send(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig};
    use super::*;

    #[test]
    fn a_batch_goes_up_the_addresses() {
        let mut rig = Rig::new(Deadline::new(DeadlineConfig::default()), &[100]).depth(1);
        rig.run(&[Load::reads(64)], 2000);
        let ups = rig.sent.windows(2).filter(|w| w[0].2 < w[1].2).count();
        assert!(ups > rig.sent.len() * 9 / 10, "{ups} of {}", rig.sent.len());
    }

    #[test]
    fn reads_go_first_but_not_for_ever() {
        let mut rig = Rig::new(Deadline::new(DeadlineConfig::default()), &[100, 100]).depth(1);
        rig.run(&[Load::reads(64), Load::writes(64)], 4000);
        let writes = rig.sent.iter().filter(|s| s.1 == Class::Write).count() as f64;
        // Two batches of reads to one of writes.
        let share = writes / rig.sent.len() as f64;
        assert!((0.28..0.38).contains(&share), "{share}");
    }

    #[test]
    fn the_oldest_goes_once_its_time_is_up() {
        let config = DeadlineConfig { read_expire: Span::from_ms(3), ..DeadlineConfig::default() };
        let mut rig = Rig::new(Deadline::new(config), &[100]).depth(1);
        rig.run(&[Load::reads(64)], 5000);
        // 64 wait at any time, 52 us each: without deadlines the unlucky wait for sweeps.
        assert!(rig.longest[0] < Span::from_ms(12), "{}", rig.longest[0]);
    }
}
