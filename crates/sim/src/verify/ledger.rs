//! The oracle of a long replay: no power cuts, no allocation for each request, 8 bytes for each page that is touched.
//!
//! The rules are those of `history`. A page of 4 KiB whose sectors come from one change, with nothing in doubt, is one
//! entry: the number of the change and its end. A page of several changes has a slot with an entry for each sector; a
//! sector that concurrent or failed changes leave in doubt has a history, until a read or a later change decides.
//! Changes are entered when they end. What a read may still return because it came before is in a short list of
//! overwritten entries, which holds no more than was overwritten since the oldest open request came.
//!
//! RAM: 8 bytes per page in chunks of 16 MiB of the device that exist once touched, 64 bytes per page of several changes.

use super::history::{Fate, History, Horizon, Version};
use super::oracle::{Asked, describe};
use super::window::{Flight, Window};
use nandu_base::{ByteLen, IoError, Op, Payload, PayloadPool, SECTOR, Sector, Stamp, Violation};
use std::collections::VecDeque;

/// log2 of the sectors of a page.
const PAGE_BITS: u32 = 3;
const PAGE: usize = 1 << PAGE_BITS;
/// log2 of the pages of a chunk.
const CHUNK_BITS: u32 = 12;
/// Marks an entry that points elsewhere: a page's to a slot, a sector's to a history.
const ELSEWHERE: u32 = u32::MAX;

/// The newest change of a page or sector, 0 for zeros, and its end by count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    serial: u32,
    end: u32,
}

impl Entry {
    const BLANK: Entry = Entry { serial: 0, end: 0 };

    fn stamp(self, sector: u64) -> Stamp {
        if self.serial == 0 { Stamp::ZERO } else { Stamp::new(self.serial, sector) }
    }

    fn is_elsewhere(self) -> bool {
        self.serial == ELSEWHERE
    }
}

/// What sectors held before a change that ended as number `until`.
#[derive(Clone, Copy, Debug)]
struct Old {
    first: u64,
    count: u32,
    serial: u32,
    until: u32,
}

/// The part of an extent that lies in one page.
#[derive(Clone, Copy, Debug)]
struct Part {
    page: u64,
    first: usize,
    count: usize,
    /// Sectors from the start of the extent.
    at: u64,
}

/// A change that has ended.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Its number.
    number: u32,
    /// The number that its stamps carry; 0 for zeros.
    serial: u32,
    came: u32,
    end: u32,
    failed: bool,
}

/// What every sector of an address space may hold.
pub(super) struct Ledger {
    chunks: Vec<Option<Box<[Entry]>>>,
    slots: Vec<[Entry; PAGE]>,
    slots_free: Vec<u32>,
    doubts: Vec<History>,
    doubts_free: Vec<u32>,
    old: VecDeque<Old>,
    window: Window,
    /// Changes that have ended, and one.
    ends: u32,
}

fn parts(first: u64, count: u64) -> impl Iterator<Item = Part> {
    let (mut next, end) = (first, first + count);
    std::iter::from_fn(move || {
        let at = next - first;
        let page = next >> PAGE_BITS;
        let from = (next % PAGE as u64) as usize;
        let to = end.min((page + 1) << PAGE_BITS);
        let part = Part { page, first: from, count: (to - next.min(to)) as usize, at };
        next = to;
        (part.count > 0).then_some(part)
    })
}

impl Ledger {
    /// A space of `capacity` that was never written.
    pub fn new(capacity: ByteLen) -> Ledger {
        let pages = capacity.0.div_ceil(SECTOR << PAGE_BITS);
        Ledger {
            chunks: (0..pages.div_ceil(1 << CHUNK_BITS)).map(|_| None).collect(),
            slots: Vec::new(),
            slots_free: Vec::new(),
            doubts: Vec::new(),
            doubts_free: Vec::new(),
            old: VecDeque::new(),
            window: Window::from(1),
            ends: 1,
        }
    }

    #[inline]
    fn page(&self, page: u64) -> Entry {
        match &self.chunks[(page >> CHUNK_BITS) as usize] {
            Some(chunk) => chunk[(page & ((1 << CHUNK_BITS) - 1)) as usize],
            None => Entry::BLANK,
        }
    }

    #[inline]
    fn page_mut(&mut self, page: u64) -> &mut Entry {
        let chunk = &mut self.chunks[(page >> CHUNK_BITS) as usize];
        let chunk = chunk.get_or_insert_with(|| vec![Entry::BLANK; 1 << CHUNK_BITS].into());
        &mut chunk[(page & ((1 << CHUNK_BITS) - 1)) as usize]
    }

    /// The entry is needed when the request ends: by then it is in the processor's cache.
    #[inline]
    fn prefetch(&self, page: u64) {
        if let Some(Some(chunk)) = self.chunks.get((page >> CHUNK_BITS) as usize) {
            nandu_ftl::prefetch(chunk, (page & ((1 << CHUNK_BITS) - 1)) as usize);
        }
    }

    /// A request comes; returns its number.
    #[inline]
    pub fn comes(&mut self, asked: Asked) -> u32 {
        self.prefetch(asked.offset.sector() >> PAGE_BITS);
        self.window.push(Flight { asked, came: self.ends })
    }

    /// Request `number` has ended. `payload` holds what a read has found.
    #[inline]
    pub fn ended(
        &mut self,
        number: u32,
        error: Option<IoError>,
        payload: Payload,
        pool: &PayloadPool,
    ) -> Result<(), Violation> {
        let Flight { asked, came } = self.window.close(number);
        let (first, count) = asked.sectors();
        let mut result = Ok(());
        if asked.op == Op::Read {
            if error.is_none() {
                result =
                    parts(first, count).try_for_each(|part| self.check(number, part, came, payload, pool));
            }
        } else if asked.op.changes_data() {
            self.ends += 1;
            let serial = if asked.op == Op::Write { number } else { 0 };
            let change = Change { number, serial, came, end: self.ends, failed: error.is_some() };
            parts(first, count).for_each(|part| self.enter(part, change));
        }
        self.forget_old();
        result
    }

    fn oldest(&self) -> u32 {
        self.window.oldest_came().unwrap_or(self.ends)
    }

    #[inline]
    fn forget_old(&mut self) {
        if !self.old.is_empty() {
            let oldest = self.oldest();
            while self.old.front().is_some_and(|old| old.until <= oldest) {
                self.old.pop_front();
            }
        }
    }

    #[inline]
    fn overwritten(&mut self, first: u64, count: u32, serial: u32, until: u32) {
        if self.window.open() == 0 {
            return;
        }
        match self.old.back_mut() {
            Some(last)
                if (last.serial, last.until, last.first + u64::from(last.count))
                    == (serial, until, first) =>
            {
                last.count += count;
            }
            _ => self.old.push_back(Old { first, count, serial, until }),
        }
    }

    #[inline]
    fn enter(&mut self, part: Part, change: Change) {
        let entry = self.page_mut(part.page);
        let plain = part.count == PAGE && !entry.is_elsewhere() && entry.end <= change.came && !change.failed;
        if plain {
            let before = std::mem::replace(entry, Entry { serial: change.serial, end: change.end });
            self.overwritten(part.page << PAGE_BITS, PAGE as u32, before.serial, change.end);
            return;
        }
        self.enter_sectors(part, change);
    }

    fn enter_sectors(&mut self, part: Part, change: Change) {
        let slot = self.slot_of(part.page);
        let horizon = Horizon { oldest: self.oldest(), flushed: None };
        for at in part.first..part.first + part.count {
            let entry = self.slots[slot][at];
            if !entry.is_elsewhere() && entry.end <= change.came && !change.failed {
                let sector = (part.page << PAGE_BITS) + at as u64;
                self.overwritten(sector, 1, entry.serial, change.end);
                self.slots[slot][at] = Entry { serial: change.serial, end: change.end };
                continue;
            }
            let doubt = self.doubt_of(slot, at);
            let history = &mut self.doubts[doubt];
            history.push(Version::new(change.number, change.serial == 0, change.came));
            let fate = if change.failed { Fate::Failed } else { Fate::Done };
            history.end(change.number, change.end, fate, false);
            history.forget(horizon);
            self.decide(slot, at);
        }
        self.unite(part.page, slot);
    }

    /// The slot of a page; one entry becomes eight.
    fn slot_of(&mut self, page: u64) -> usize {
        let entry = self.page(page);
        if entry.is_elsewhere() {
            return entry.end as usize;
        }
        let slot = self.slots_free.pop().unwrap_or_else(|| {
            self.slots.push([Entry::BLANK; PAGE]);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = [entry; PAGE];
        *self.page_mut(page) = Entry { serial: ELSEWHERE, end: slot };
        slot as usize
    }

    /// The history of a sector; its entry becomes the first version.
    fn doubt_of(&mut self, slot: usize, at: usize) -> usize {
        let entry = self.slots[slot][at];
        if entry.is_elsewhere() {
            return entry.end as usize;
        }
        let doubt = self.doubts_free.pop().unwrap_or_else(|| {
            self.doubts.push(History::default());
            (self.doubts.len() - 1) as u32
        });
        let Entry { serial, end } = entry;
        self.doubts[doubt as usize].restart(Version {
            serial,
            end,
            known: end,
            zeros: serial == 0,
            ..Version::BLANK
        });
        self.slots[slot][at] = Entry { serial: ELSEWHERE, end: doubt };
        doubt as usize
    }

    /// Gives the history of a sector up when one version is left.
    fn decide(&mut self, slot: usize, at: usize) {
        let entry = self.slots[slot][at];
        if let [only] = self.doubts[entry.end as usize].versions() {
            let serial = if only.zeros { 0 } else { only.serial };
            self.slots[slot][at] = Entry { serial, end: only.end };
            self.doubts_free.push(entry.end);
        }
    }

    /// Gives the slot of a page up when all its sectors come from one change.
    fn unite(&mut self, page: u64, slot: usize) {
        let [first, rest @ ..] = self.slots[slot];
        if !first.is_elsewhere() && rest.iter().all(|e| e.serial == first.serial) {
            let end = rest.iter().fold(first.end, |end, e| end.max(e.end));
            *self.page_mut(page) = Entry { serial: first.serial, end };
            self.slots_free.push(slot as u32);
        }
    }

    #[inline]
    fn check(
        &mut self,
        number: u32,
        part: Part,
        came: u32,
        payload: Payload,
        pool: &PayloadPool,
    ) -> Result<(), Violation> {
        let entry = self.page(part.page);
        let first = (part.page << PAGE_BITS) + part.first as u64;
        let plain = match entry.serial {
            ELSEWHERE => false,
            0 => pool.is_zeros(payload, part.at, part.count as u64),
            serial => pool.as_run(payload, part.at, part.count as u64) == Some(Stamp::new(serial, first)),
        };
        if plain {
            return Ok(());
        }
        self.check_sectors(number, part, came, payload, pool)
    }

    #[cold]
    fn check_sectors(
        &mut self,
        number: u32,
        part: Part,
        came: u32,
        payload: Payload,
        pool: &PayloadPool,
    ) -> Result<(), Violation> {
        for i in 0..part.count {
            let sector = (part.page << PAGE_BITS) + (part.first + i) as u64;
            let value = match pool.sector(payload, part.at + i as u64) {
                Some(Sector::Stamp(stamp)) => stamp,
                Some(Sector::Bytes(_)) => Stamp::METADATA,
                None => Stamp::ZERO,
            };
            if !self.allows(part.page, part.first + i, sector, value, came) {
                let entry = self.page(part.page);
                let newest = match entry.serial {
                    ELSEWHERE => self.slots[entry.end as usize][part.first + i],
                    _ => entry,
                };
                let newest = match newest.serial {
                    ELSEWHERE => self.doubts[newest.end as usize].describe(came),
                    _ => describe(newest.stamp(sector)),
                };
                let what = format!(
                    "read {number} of sector {sector} found {}, the newest is {newest}",
                    describe(value)
                );
                return Err(Violation { invariant: "I-1", what });
            }
        }
        Ok(())
    }

    /// Whether a read that came when `came` changes had ended may find `value`.
    fn allows(&mut self, page: u64, at: usize, sector: u64, value: Stamp, came: u32) -> bool {
        let entry = self.page(page);
        let slot = entry.is_elsewhere().then_some(entry.end as usize);
        let entry = slot.map_or(entry, |slot| self.slots[slot][at]);
        if value == Stamp::ZERO && self.is_under_way(sector, value) {
            return true; // zeros of which change, nobody knows: nothing is settled
        }
        if let (true, Some(slot)) = (entry.is_elsewhere(), slot) {
            let horizon = Horizon { oldest: self.oldest(), flushed: None };
            let history = &mut self.doubts[entry.end as usize];
            if history.observe(value, sector, came, self.ends) {
                history.forget(horizon);
                self.decide(slot, at);
                self.unite(page, slot);
                return true;
            }
        } else if value == entry.stamp(sector) {
            return true;
        }
        self.is_under_way(sector, value) || self.was_overwritten(sector, value, came)
    }

    fn is_under_way(&self, sector: u64, value: Stamp) -> bool {
        let covers = |flight: &Flight| {
            let (first, count) = flight.asked.sectors();
            flight.asked.op.changes_data() && (first..first + count).contains(&sector)
        };
        if value == Stamp::ZERO {
            return self.window.iter().any(|f| f.asked.op != Op::Write && covers(f));
        }
        let flight = self.window.get(value.serial());
        value == Stamp::new(value.serial(), sector)
            && flight.is_some_and(|f| f.asked.op == Op::Write && covers(f))
    }

    fn was_overwritten(&self, sector: u64, value: Stamp, came: u32) -> bool {
        self.old.iter().rev().any(|old| {
            let entry = Entry { serial: old.serial, end: 0 };
            let covers = (old.first..old.first + u64::from(old.count)).contains(&sector);
            covers && old.until > came && value == entry.stamp(sector)
        })
    }
}
