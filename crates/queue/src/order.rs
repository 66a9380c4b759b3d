//! In which order the requests of one tenant go.
//!
//! - `fifo`: as they came.
//! - `reads-first`: reads as they came, then the rest; at most `max_read_bypass` reads in a row pass an older request of another kind.
//! - `irbw-fifo`: individual reads, bundled writes. A write takes along those that wait in the same unit (a flash block),
//!   lowest address first; a bundle that has begun is not broken by reads. With `reads_first` a read goes before a bundle
//!   that has not begun. (Kim, Oh, Kim, Choi, Lee, Noh, "Disk schedulers for solid state drives", EMSOFT 2009.)
//! - `bp`: block-preferential. A write in the unit of the last write goes before everything else, up to `bundle_max` in a row; else
//!   as they came. (Dunn and Reddy, "A new I/O scheduler for solid state devices", Texas A&M, TAMU-ECE-2009-02.)
//!
//! Where we differ: a bundle and a preferred run end after `bundle_max` writes, so that nobody waits for ever behind one unit that
//! is written again and again; the sources leave this open.
//!
//! Cost: O(1) for `fifo` and `reads-first`, O(log n) for the others. RAM: 24 bytes for a group.

use crate::pending::{Class, Entry, PendingRequests};
use nandu_base::{ByteLen, SECTOR, options};

/// In which order the requests of one tenant go.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderConfig {
    /// As they came.
    #[default]
    Fifo,
    /// Reads as they came, then the rest.
    ReadsFirst {
        /// Reads that may pass the oldest of the rest.
        #[option(default = u32::MAX, unset = "no bound")]
        max_read_bypass: u32,
    },
    /// Individual reads, bundled writes.
    IrbwFifo {
        /// What a bundle lies in: a block of the flash, or a superblock.
        #[option(default = ByteLen::mib(1), range = ByteLen(SECTOR)..)]
        erase_unit: ByteLen,
        /// Longest bundle.
        #[option(default = 64, range = 1..)]
        bundle_max: u32,
        /// Whether reads go before a bundle that has not begun.
        #[option(default)]
        reads_first: bool,
    },
    /// Writes of the unit that was written last go first.
    Bp {
        /// The unit: a block of the flash, or a superblock.
        #[option(default = ByteLen::mib(1), range = ByteLen(SECTOR)..)]
        erase_unit: ByteLen,
        /// Most writes in a row that are preferred.
        #[option(default = 64, range = 1..)]
        bundle_max: u32,
    },
}

impl OrderConfig {
    /// Whether pending requests must be known by address.
    pub fn by_address(&self) -> bool {
        matches!(self, OrderConfig::IrbwFifo { .. } | OrderConfig::Bp { .. })
    }
}

/// The last write of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    unit: u64,
    /// Writes in a row in this unit; 0 when nothing is preferred. With reads first, the reads that have passed.
    run: u32,
}

/// Which request of a group goes next.
#[derive(Clone, Debug)]
pub struct Order {
    config: OrderConfig,
    last: Vec<Last>,
}

impl Order {
    /// The order for `groups` groups.
    pub fn new(config: OrderConfig, groups: usize) -> Order {
        Order { config, last: vec![Last::default(); groups] }
    }

    /// The request of `group` that goes next; `None` when none waits.
    pub fn pick(&self, pending: &PendingRequests, group: usize) -> Option<u32> {
        let read = pending.oldest(group, Class::Read);
        match self.config {
            OrderConfig::Fifo => pending.first(group),
            OrderConfig::ReadsFirst { max_read_bypass: ahead } => {
                let may_pass = self.last[group].run < ahead;
                read.filter(|_| may_pass).or(pending.first(group))
            }
            OrderConfig::Bp { erase_unit: unit, bundle_max: run } => {
                self.of_last_unit(pending, group, unit.0, run).or(pending.first(group))
            }
            OrderConfig::IrbwFifo { erase_unit: unit, bundle_max: run, reads_first } => {
                let begun = self.of_last_unit(pending, group, unit.0, run);
                begun.or(read.filter(|_| reads_first)).or(pending.first(group))
            }
        }
    }

    /// A write that waits in the unit of the last one, while the run may go on.
    fn of_last_unit(&self, pending: &PendingRequests, group: usize, unit: u64, run: u32) -> Option<u32> {
        let last = self.last[group];
        if last.run == 0 || last.run >= run {
            return None;
        }
        let slot = pending.at_or_after(group, Class::Write, last.unit * unit)?;
        (pending.get(slot).start / unit == last.unit).then_some(slot)
    }

    /// `entry` is sent; it is pending for the last time.
    pub fn sent(&mut self, entry: &Entry, pending: &PendingRequests) {
        if let OrderConfig::ReadsFirst { .. } = self.config {
            let passed = &mut self.last[entry.group as usize].run;
            let is_older = |slot: u32| pending.get(slot).number < entry.number;
            match entry.class {
                Class::Write => *passed = 0,
                Class::Read => {
                    let passes = pending.oldest(entry.group as usize, Class::Write).is_some_and(is_older);
                    *passed = passed.saturating_add(u32::from(passes));
                }
            }
        }
        let (OrderConfig::IrbwFifo { erase_unit: unit, bundle_max: run, .. }
        | OrderConfig::Bp { erase_unit: unit, bundle_max: run }) = self.config
        else {
            return;
        };
        let last = &mut self.last[entry.group as usize];
        match entry.class {
            Class::Read => last.run = 0,
            Class::Write => {
                let here = entry.start / unit.0;
                let goes_on = last.run > 0 && last.run < run && last.unit == here;
                *last = Last { unit: here, run: if goes_on { last.run + 1 } else { 1 } };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Instant, ReqId, Span, TenantId};

    /// Sends everything; the first bytes in the order in which they went.
    fn order(config: OrderConfig, requests: &[(Class, u64)]) -> Vec<u64> {
        let mut pending = PendingRequests::new(1, 1, config.by_address());
        for &(class, start) in requests {
            pending.add(Entry {
                id: ReqId(0),
                tenant: TenantId(0),
                class,
                start,
                end: start + 512,
                arrived: Instant::ZERO,
                cost: Span(1),
                lane: 0,
                number: 0,
                group: 0,
            });
        }
        let mut order = Order::new(config, 1);
        let mut out = Vec::new();
        while let Some(slot) = order.pick(&pending, 0) {
            order.sent(pending.get(slot), &pending);
            out.push(pending.take(slot).start);
        }
        out
    }

    const R: Class = Class::Read;
    const W: Class = Class::Write;
    const UNIT: u64 = 1 << 20;

    #[test]
    fn fifo_keeps_the_order_and_reads_first_takes_reads_out() {
        let requests = [(W, 1), (R, 2), (W, 3), (R, 4)];
        assert_eq!(order(OrderConfig::Fifo, &requests), [1, 2, 3, 4]);
        assert_eq!(order(OrderConfig::ReadsFirst { max_read_bypass: u32::MAX }, &requests), [2, 4, 1, 3]);
        assert_eq!(order(OrderConfig::ReadsFirst { max_read_bypass: 1 }, &requests), [2, 1, 4, 3]);
        assert_eq!(order(OrderConfig::ReadsFirst { max_read_bypass: 0 }, &requests), [1, 2, 3, 4]);
    }

    #[test]
    fn a_bundle_takes_its_unit_along_and_reads_stay_single() {
        let requests = [(W, UNIT + 9), (R, 5), (W, 3 * UNIT), (W, UNIT + 1), (W, UNIT + 4)];
        let (unit, run) = (ByteLen(UNIT), 64);
        let plain = OrderConfig::IrbwFifo { erase_unit: unit, bundle_max: run, reads_first: false };
        assert_eq!(order(plain, &requests), [UNIT + 9, UNIT + 1, UNIT + 4, 5, 3 * UNIT]);
        let reads = OrderConfig::IrbwFifo { erase_unit: unit, bundle_max: run, reads_first: true };
        assert_eq!(order(reads, &requests), [5, UNIT + 9, UNIT + 1, UNIT + 4, 3 * UNIT]);
    }

    #[test]
    fn a_run_ends_at_its_bound() {
        let requests = [(W, 0), (R, 7 * UNIT), (W, 1), (W, 2), (W, 3)];
        let config = OrderConfig::Bp { erase_unit: ByteLen(UNIT), bundle_max: 2 };
        // After two writes of unit 0 the oldest goes, which is the read; then the rest, two at a time.
        assert_eq!(order(config, &requests), [0, 1, 7 * UNIT, 2, 3]);
    }
}
