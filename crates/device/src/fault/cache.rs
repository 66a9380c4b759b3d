//! The contents of a volatile write cache: what was acknowledged and is not destaged yet.
//!
//! The cache holds the newest version of each unit (the alignment of the device below). A newer write takes the place of
//! an older one, which then never reaches the device: as if it had been lost. Each unit remembers the oldest
//! acknowledged version that is not destaged, for a flush waits until that version or a newer one is below.
//!
//! RAM: about 100 bytes for each unit.

use nandu_base::{ByteLen, Payload, PayloadPool, Rng, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// One unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    payload: Payload,
    /// The write that brought the newest version.
    write: u64,
    /// The oldest version that is acknowledged and not destaged.
    since: u64,
    /// The first version that came while an older one was being destaged.
    after: Option<u64>,
    in_flight: bool,
    cause: TenantId,
}

/// A row of units of one write, to be written below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub first: u64,
    pub end: u64,
    pub write: u64,
    pub payload: Payload,
    pub cause: TenantId,
}

/// What waits to be destaged.
#[derive(Debug)]
pub(super) struct WriteCache {
    unit: u64,
    units: BTreeMap<u64, Unit>,
    /// Every unit by the age of its oldest version: (since, unit).
    ages: BTreeSet<(u64, u64)>,
}

impl WriteCache {
    pub fn new(unit: u64) -> WriteCache {
        WriteCache { unit, units: BTreeMap::new(), ages: BTreeSet::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub fn bytes(&self) -> ByteLen {
        ByteLen(self.units.len() as u64 * self.unit)
    }

    /// The oldest version that is not destaged.
    pub fn oldest(&self) -> Option<u64> {
        self.ages.first().map(|&(since, _)| since)
    }

    /// Takes units `first..end` of write number `write`.
    pub fn put(
        &mut self,
        first: u64,
        end: u64,
        write: u64,
        payload: Payload,
        cause: TenantId,
        pool: &mut PayloadPool,
    ) {
        for at in first..end {
            let payload = payload.slice(ByteLen((at - first) * self.unit));
            pool.keep(payload);
            match self.units.get_mut(&at) {
                Some(unit) => {
                    pool.release(unit.payload);
                    if unit.in_flight {
                        unit.after.get_or_insert(write);
                    }
                    (unit.payload, unit.write, unit.cause) = (payload, write, cause);
                }
                None => {
                    let unit = Unit { payload, write, since: write, after: None, in_flight: false, cause };
                    self.units.insert(at, unit);
                    self.ages.insert((write, at));
                }
            }
        }
    }

    /// Copies what the cache holds of units `first..end` into `payload`.
    pub fn read(&self, first: u64, end: u64, payload: Payload, pool: &mut PayloadPool) {
        for (&at, unit) in self.units.range(first..end) {
            pool.copy(unit.payload, payload.slice(ByteLen((at - first) * self.unit)), ByteLen(self.unit));
        }
    }

    /// The rows of `first..end` that the cache does not hold, in order.
    pub fn gaps(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut from = first;
        let held = self.units.range(first..end).map(|(&at, _)| at).chain([end]);
        held.filter_map(move |at| {
            let gap = (from, at);
            from = at + 1;
            (gap.0 < gap.1).then_some(gap)
        })
    }

    /// Draws a row to destage: a random unit among those older than `before` that are not on their way, and some units
    /// behind it from the same write, at most `most`. `blocked` tells which units must wait. Looks at each unit at most
    /// once.
    pub fn draw(
        &mut self,
        before: u64,
        most: u64,
        blocked: impl Fn(u64) -> bool,
        rng: &mut Rng,
    ) -> Option<Run> {
        let (&low, &high) = (self.units.first_key_value()?.0, self.units.last_key_value()?.0);
        let middle = rng.between(low, high);
        let good = |(at, unit): &(&u64, &Unit)| !unit.in_flight && unit.since < before && !blocked(**at);
        let mut around = self.units.range(middle..).chain(self.units.range(..middle));
        let (&first, unit) = around.find(good)?;
        let Unit { payload, write, cause, .. } = *unit;
        let wanted = rng.between(1, most.max(1));
        let mut end = first;
        for at in first..first + wanted {
            match self.units.get_mut(&at) {
                Some(unit) if unit.write == write && !unit.in_flight && !blocked(at) => unit.in_flight = true,
                _ => break,
            }
            end = at + 1;
        }
        Some(Run { first, end, write, payload, cause })
    }

    /// A row is below. Units that a newer write took over stay.
    pub fn destaged(&mut self, first: u64, end: u64, write: u64, pool: &mut PayloadPool) {
        for at in first..end {
            let Some(unit) = self.units.get_mut(&at) else { continue };
            if unit.write == write {
                self.remove(at, pool);
                continue;
            }
            unit.in_flight = false;
            if let Some(after) = unit.after.take() {
                self.ages.remove(&(unit.since, at));
                unit.since = after;
                self.ages.insert((after, at));
            }
        }
    }

    /// Forgets units `first..end` as far as they are older than `before`: newer data is below.
    pub fn forget(&mut self, first: u64, end: u64, before: u64, pool: &mut PayloadPool) {
        let mut from = first;
        while let Some((&at, unit)) = self.units.range(from..end).next() {
            if unit.write < before && !unit.in_flight {
                self.remove(at, pool);
            }
            from = at + 1;
        }
    }

    /// Loses each unit that is not on its way with a chance of one half.
    pub fn lose_half(&mut self, rng: &mut Rng, pool: &mut PayloadPool) {
        let mut from = 0;
        while let Some((&at, unit)) = self.units.range(from..).next() {
            if !unit.in_flight && rng.below(2) == 0 {
                self.remove(at, pool);
            }
            from = at + 1;
        }
    }

    fn remove(&mut self, at: u64, pool: &mut PayloadPool) {
        if let Some(unit) = self.units.remove(&at) {
            self.ages.remove(&(unit.since, at));
            pool.release(unit.payload);
        }
    }

    /// Whether both views of the units agree.
    pub fn is_sound(&self) -> bool {
        self.ages.len() == self.units.len()
            && self.units.iter().all(|(&at, u)| self.ages.contains(&(u.since, at)))
    }
}
