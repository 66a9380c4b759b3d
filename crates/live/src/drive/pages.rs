//! What flash pages hold in the server: the computed medium of `ssd` and `flash` leaves, with real bytes.
//!
//! *Now and for good.* An operation counts for whoever reads as soon as it is issued, as in the simulation; the machine sees to it that
//! nothing is read too early. In the store it counts when its window has ended: its page has been written to a slot that nothing refers to before
//! (`slots`), and the record that refers to it is put into the log (`log`) by the first [`Medium::settle`] behind the end of the window,
//! which the reactor calls before it answers anybody. So the death of the process undoes exactly what had not ended.
//!
//! *Order.* Records are in the order of the ends of their windows. Operations on one page end in the order in which they were issued: one that
//! overtakes (a slot of a write buffer that is saved anew while its old content is being given up) takes those before it along.
//!
//! *Failures.* When the store cannot be written nothing is written to it any more, and nobody is told that anything has ended well: the next
//! start finds what the store said before.
//!
//! RAM: 24 bytes for each page of a block that was ever programmed, in chunks of 1024 pages that exist once touched; 8 bytes for each block
//! of the drive; what `slots` says; and, while operations have not ended, about 100 bytes for each, 24 for each page of an erase.

use super::file::Shared;
use super::log::{Areas, Found, Heard, Log, Record, Unfit};
use super::slots::{ERASED, Home, LOST, Slots, TORN, ZEROS};
use nandu_base::{
    ByteLen, Instant, Medium, Oob, Overlay, OwnKeys, Payload, PayloadPool, Program, Rng, SECTOR, UnitState,
    Window,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CHUNK: u64 = 1024;
/// Most records of one batch of the log.
const BATCH: usize = 1 << 16;
/// Slots that wait for a sync, and bytes that do, from which on one is asked for although nobody flushes.
const SLOTS_WAIT: usize = 4096;
const BYTES_WAIT: u64 = 64 << 20;

/// A page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page {
    slot: u32,
    oob: Oob,
}

const NOTHING: Page = Page { slot: ERASED, oob: Oob { key: 0, seq: 0 } };

/// Every page, in chunks that exist once one was programmed.
#[derive(Debug)]
struct Table {
    chunks: Vec<Option<Box<[Page]>>>,
}

impl Table {
    fn new(units: u64) -> Table {
        Table { chunks: vec![None; units.div_ceil(CHUNK) as usize] }
    }

    fn get(&self, unit: u64) -> Page {
        self.chunks[(unit / CHUNK) as usize].as_ref().map_or(NOTHING, |chunk| chunk[(unit % CHUNK) as usize])
    }

    fn set(&mut self, unit: u64, page: Page) {
        let chunk = &mut self.chunks[(unit / CHUNK) as usize];
        if chunk.is_some() || page != NOTHING {
            let chunk = chunk.get_or_insert_with(|| vec![NOTHING; CHUNK as usize].into());
            chunk[(unit % CHUNK) as usize] = page;
        }
    }

    /// Pages that hold something, in order.
    fn programmed(&self) -> impl Iterator<Item = (u64, Page)> + '_ {
        let there = (0..).zip(&self.chunks).filter_map(|(at, chunk)| Some((at * CHUNK, chunk.as_ref()?)));
        let pages = there.flat_map(|(first, chunk)| (first..).zip(chunk.iter().copied()));
        pages.filter(|(_, page)| page.slot != ERASED)
    }
}

#[derive(Debug)]
enum Done {
    Program(Page),
    /// What the pages held.
    Erase {
        units: u32,
        erases: u32,
        slc: u32,
        held: Vec<(u64, Page)>,
    },
}

/// An operation whose window has not ended, as far as is known.
#[derive(Debug)]
struct Pending {
    end: Instant,
    /// Its place in the order of issue.
    serial: u64,
    unit: u64,
    done: Done,
}

impl Pending {
    fn touches(&self, first: u64, units: u64) -> bool {
        let mine = match &self.done {
            Done::Program(_) => 1,
            Done::Erase { units, .. } => u64::from(*units),
        };
        self.unit < first + units && first < self.unit + mine
    }
}

/// The store, when there is one.
#[derive(Debug)]
struct Kept {
    shared: Arc<Shared>,
    log: Log,
    /// Slots that are free when this batch is proven.
    waiting: std::collections::VecDeque<(u64, u32)>,
    /// Bytes since a sync was asked for.
    unsynced: u64,
}

/// The contents of a flash array.
#[derive(Debug)]
pub struct Pages {
    block_units: u64,
    own: OwnKeys,
    table: Table,
    /// Erases of each block.
    wear: Vec<u32>,
    slc_wear: Vec<u32>,
    slots: Slots,
    /// In the order of issue.
    pending: Vec<Pending>,
    /// No operation ends before.
    soonest: Instant,
    erases_pending: usize,
    serial: u64,
    kept: Option<Kept>,
    used: bool,
    page: Vec<u8>,
}

/// What a drive in memory or in a file is made of.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Pages.
    pub units: u64,
    /// Sectors of a page.
    pub sectors: u32,
    /// Page numbers from one block to the next.
    pub block_units: u32,
    /// Which of them the drive programs for itself.
    pub own: OwnKeys,
}

impl Form {
    /// Records of a state, at most.
    pub fn records(&self) -> u64 {
        self.units + self.units.div_ceil(u64::from(self.block_units))
    }

    /// Bytes of a page.
    pub fn page(&self) -> usize {
        self.sectors as usize * SECTOR as usize
    }
}

/// Where the bytes of pages begin in a store.
fn data_at(form: Form, areas: &Areas) -> u64 {
    areas.end().next_multiple_of(form.page() as u64).next_multiple_of(4096)
}

impl Pages {
    /// An erased array in memory.
    pub fn in_memory(form: Form) -> Pages {
        Pages::new(form, Slots::new(Home::Memory(Vec::new()), form.page()), None)
    }

    fn new(form: Form, slots: Slots, kept: Option<Kept>) -> Pages {
        let blocks = form.units.div_ceil(u64::from(form.block_units)) as usize;
        Pages {
            block_units: u64::from(form.block_units),
            own: form.own,
            table: Table::new(form.units),
            wear: vec![0; blocks],
            slc_wear: vec![0; blocks],
            slots,
            pending: Vec::new(),
            soonest: Instant(u64::MAX),
            erases_pending: 0,
            serial: 0,
            kept,
            used: false,
            page: vec![0; form.page()],
        }
    }

    /// An erased array in a store that is new.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn make(form: Form, shared: Arc<Shared>, areas: Areas) -> io::Result<Pages> {
        let slots = Slots::new(Home::File(Arc::clone(&shared), data_at(form, &areas)), form.page());
        let mut pages = Pages::new(form, slots, None);
        shared.keep_marks(areas.marks);
        let log = Log::make(Arc::clone(&shared), areas)?;
        pages.kept = Some(Kept { shared, log, waiting: Default::default(), unsynced: 0 });
        Ok(pages)
    }

    /// An array in a store, as the log says. With `salvage` what is damaged is given up; what that is is said in words.
    ///
    /// # Errors
    /// The file cannot be read or written; or it is damaged, and nothing was changed.
    pub fn open(
        form: Form,
        shared: Arc<Shared>,
        areas: Areas,
        salvage: bool,
    ) -> Result<(Pages, Vec<String>), Unfit> {
        let data = data_at(form, &areas);
        let new_slots = || Slots::new(Home::File(Arc::clone(&shared), data), form.page());
        let mut pages = Pages::new(form, new_slots(), None);
        let mut found = Found::look(&shared, areas, salvage)?;
        let probe = new_slots();
        let mut scratch = vec![0; form.page()];
        let is_whole = |slot: u32, sum: u32| probe.is_whole(slot, sum, &mut scratch);
        found.replay(is_whole, |heard| match heard {
            Heard::Record(record) => pages.take(record, form.units),
            Heard::Unknown(range) => {
                pages.used = true;
                let range = range.start..range.end.min(form.units);
                range.for_each(|unit| pages.table.set(unit, Page { slot: TORN, ..NOTHING }));
                true
            }
        })?;
        pages.find_slots();
        let mut records = pages.check_records(salvage)?;
        let is_hurt = found.is_hurt() || !records.is_empty();
        let mut gone = std::mem::take(&mut found.gone);
        gone.append(&mut records);
        let log = found.go_on()?;
        let is_full = log.is_full_for(1);
        pages.kept = Some(Kept { shared, log, waiting: Default::default(), unsynced: 0 });
        if is_full || is_hurt {
            pages.turn()?;
        }
        if let (true, Some(kept)) = (is_hurt, &mut pages.kept) {
            kept.log.prove()?;
        }
        Ok((pages, gone))
    }

    /// What a drive keeps for itself is looked at before it is believed; a page of the host is when it is read.
    fn check_records(&mut self, salvage: bool) -> Result<Vec<String>, Unfit> {
        let own = self.own;
        let is_record = |page: &Page| own.has(page.oob.key) && Slots::is_real(page.slot);
        let records: Vec<(u64, Page)> = self.table.programmed().filter(|(_, page)| is_record(page)).collect();
        let mut gone = Vec::new();
        for (unit, page) in records {
            let sum = self.slots.sum(page.slot);
            if self.slots.is_whole(page.slot, sum, &mut self.page) {
                continue;
            }
            let at = self.slots.place(page.slot).unwrap_or(0);
            let what =
                format!("page {unit}, a record of the drive's own (key {:#x}), is damaged", page.oob.key);
            if !salvage {
                return Err(Unfit::Damaged(super::log::Damage { at, what }));
            }
            gone.push(format!("from byte {at} on: {what}"));
            self.slots.leave(page.slot);
            self.table.set(unit, Page { slot: TORN, ..NOTHING });
        }
        Ok(gone)
    }

    /// Makes of a record what it says; false when there is no such page.
    fn take(&mut self, record: Record, units: u64) -> bool {
        self.used = true;
        match record {
            Record::Program { unit, slot, sum, key, seq } if unit < units && slot != ERASED => {
                self.table.set(unit, Page { slot, oob: Oob { key, seq } });
                self.slots.note(slot, sum);
            }
            Record::Erase { first, units: count, erases, slc } if first + u64::from(count) <= units => {
                (first..first + u64::from(count)).for_each(|unit| self.table.set(unit, NOTHING));
                self.set_wear(first, erases, slc);
            }
            Record::Wear { first, erases, slc } if first < units => self.set_wear(first, erases, slc),
            _ => return false,
        }
        true
    }

    fn set_wear(&mut self, unit: u64, erases: u32, slc: u32) {
        let block = (unit / self.block_units) as usize;
        (self.wear[block], self.slc_wear[block]) = (erases, slc);
    }

    fn find_slots(&mut self) {
        for (_, page) in self.table.programmed() {
            self.slots.share(page.slot);
        }
        self.slots.all_found();
    }

    /// Bytes of memory or file that pages take.
    pub fn stored(&self) -> ByteLen {
        ByteLen(self.slots.used() * self.page.len() as u64)
    }

    /// The slot for what a program leaves in its page.
    fn compose(
        &mut self,
        pool: &PayloadPool,
        base: Option<u64>,
        overlay: Option<Overlay>,
    ) -> io::Result<u32> {
        let base = base.map_or(ZEROS, |unit| self.table.get(unit).slot);
        assert!(base != ERASED, "there is a page to build on");
        if base >= TORN || self.has_failed() {
            return Ok(LOST);
        }
        let Some(Overlay { first, count, payload }) = overlay else {
            self.slots.share(base);
            return Ok(base);
        };
        let range = (u64::from(first) * SECTOR) as usize..(u64::from(first + count) * SECTOR) as usize;
        let len = ByteLen(range.len() as u64);
        if range.len() == self.page.len() && !payload.is_none() {
            return self.slots.put(pool.bytes(payload, len));
        }
        let mut page = std::mem::take(&mut self.page);
        let read = self.slots.get(base, 0, &mut page);
        match payload {
            Payload::NONE => page[range].fill(0),
            payload => page[range].copy_from_slice(pool.bytes(payload, len)),
        }
        let put = match read {
            true => self.slots.put(&page),
            // What the rest of the page was nobody knows.
            false => Ok(LOST),
        };
        self.page = page;
        put
    }

    fn push(&mut self, unit: u64, units: u64, window: Window, done: Done) {
        if self.erases_pending > 0 {
            let earlier = self.pending.iter_mut().filter(|p| p.end > window.end && p.touches(unit, units));
            earlier.for_each(|p| p.end = window.end);
        }
        self.erases_pending += usize::from(matches!(done, Done::Erase { .. }));
        self.serial += 1;
        self.soonest = self.soonest.min(window.end);
        self.pending.push(Pending { end: window.end, serial: self.serial, unit, done });
    }

    /// Writes down what has ended by `now`.
    fn write_down(&mut self, now: Instant) -> io::Result<()> {
        let mut ended: Vec<Pending> = Vec::new();
        while !self.take_ended(now, &mut ended)? {}
        Ok(())
    }

    /// One batch of it; true when that was all.
    fn take_ended(&mut self, now: Instant, ended: &mut Vec<Pending>) -> io::Result<bool> {
        let mut ripe: Vec<(Instant, u64)> =
            self.pending.iter().filter(|p| p.end <= now).map(|p| (p.end, p.serial)).collect();
        ripe.sort_unstable();
        let is_all = ripe.len() <= BATCH;
        ripe.truncate(BATCH);
        let Some(&last) = ripe.last() else {
            self.soonest = self.pending.iter().map(|p| p.end).min().unwrap_or(Instant(u64::MAX));
            return Ok(true);
        };
        if self.kept.as_ref().is_some_and(|kept| kept.log.is_full_for(ripe.len() as u64)) {
            self.turn()?;
        }
        let mut left = Vec::with_capacity(self.pending.len() - ripe.len());
        for pending in self.pending.drain(..) {
            if (pending.end, pending.serial) <= last { &mut *ended } else { &mut left }.push(pending);
        }
        self.pending = left;
        ended.sort_unstable_by_key(|p| (p.end, p.serial));
        self.note(ended)?;
        self.soonest = self.pending.iter().map(|p| p.end).min().unwrap_or(Instant(u64::MAX));
        Ok(is_all)
    }

    /// Puts what has ended into the log, and gives up the slots that are not needed any more.
    fn note(&mut self, ended: &mut Vec<Pending>) -> io::Result<()> {
        let mut batch = 0;
        if let Some(kept) = &mut self.kept {
            let slots = &self.slots;
            let records: Vec<Record> = ended.iter().map(|pending| record(pending, slots)).collect();
            batch = kept.log.append(&records)?;
            kept.unsynced += records.len() as u64 * self.page.len() as u64;
        }
        for Pending { done, .. } in ended.drain(..) {
            let Done::Erase { held, .. } = done else { continue };
            self.erases_pending -= 1;
            for (_, page) in held {
                if !self.slots.leave(page.slot) {
                    continue;
                }
                match &mut self.kept {
                    Some(kept) => kept.waiting.push_back((batch, page.slot)),
                    None => self.slots.give_back(page.slot),
                }
            }
        }
        self.give_back_proven();
        Ok(())
    }

    fn give_back_proven(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        let proven = kept.log.proven();
        while let Some(&(_, slot)) = kept.waiting.front().filter(|(batch, _)| *batch <= proven) {
            self.slots.give_back(slot);
            kept.waiting.pop_front();
        }
        if kept.waiting.len() > SLOTS_WAIT || kept.unsynced > BYTES_WAIT {
            kept.unsynced = 0;
            kept.shared.wants_sync.store(true, Ordering::Release);
        }
    }

    /// Goes on in the other area of the log, which begins with everything that has ended.
    fn turn(&mut self) -> io::Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        // What has not ended is undone, the newest first.
        let (mut pages, mut wear) = (BTreeMap::new(), BTreeMap::new());
        for Pending { unit, done, .. } in self.pending.iter().rev() {
            match done {
                Done::Program(_) => pages.extend([(*unit, NOTHING)]),
                Done::Erase { units, erases, slc, held } => {
                    pages.extend((*unit..unit + u64::from(*units)).map(|unit| (unit, NOTHING)));
                    pages.extend(held.iter().copied());
                    let was_slc = held.iter().any(|(_, page)| page.oob.key & Oob::SLC != 0);
                    wear.insert((unit / self.block_units) as usize, (erases - 1, slc - u32::from(was_slc)));
                }
            }
        }
        let slots = &self.slots;
        let now = self.table.programmed().filter(|(unit, _)| !pages.contains_key(unit));
        let undone = pages.iter().map(|(&unit, &page)| (unit, page)).filter(|(_, page)| page.slot != ERASED);
        let program = |(unit, page): (u64, Page)| Record::Program {
            unit,
            slot: page.slot,
            sum: slots.sum(page.slot),
            key: page.oob.key,
            seq: page.oob.seq,
        };
        let worn = self.wear.iter().zip(&self.slc_wear).enumerate().filter_map(|(block, (&erases, &slc))| {
            let (erases, slc) = wear.get(&block).copied().unwrap_or((erases, slc));
            let first = block as u64 * self.block_units;
            (erases > 0).then_some(Record::Wear { first, erases, slc })
        });
        kept.log.turn(&mut now.chain(undone).map(program).chain(worn))
    }

    /// Whether the store has failed. It stays as it is then: what came before the failure is a state that the drive was in, and what would be
    /// written behind it may lack a part.
    fn has_failed(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.shared.failure().is_some())
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        (self.erases_pending, self.soonest) = (0, Instant(u64::MAX));
    }

    /// What cannot be written down is lost: the store as a whole has failed.
    fn check(&self, result: io::Result<()>) {
        if let (Err(error), Some(kept)) = (result, &self.kept) {
            kept.shared.fail(&error);
        }
    }
}

fn record(pending: &Pending, slots: &Slots) -> Record {
    match &pending.done {
        Done::Program(page) => Record::Program {
            unit: pending.unit,
            slot: page.slot,
            sum: slots.sum(page.slot),
            key: page.oob.key,
            seq: page.oob.seq,
        },
        &Done::Erase { units, erases, slc, .. } => Record::Erase { first: pending.unit, units, erases, slc },
    }
}

impl Medium for Pages {
    fn program(&mut self, pool: &PayloadPool, program: &Program) {
        let Program { unit, base, overlay, oob, window } = *program;
        assert!(self.table.get(unit).slot == ERASED, "I-6: page {unit} is programmed twice");
        self.used = true;
        let slot = self.compose(pool, base, overlay).unwrap_or_else(|error| {
            self.check(Err(error));
            LOST
        });
        let page = Page { slot, oob };
        self.table.set(unit, page);
        self.push(unit, 1, window, Done::Program(page));
    }

    fn read(&mut self, pool: &mut PayloadPool, unit: u64, first: u32, count: u32, into: Payload) -> bool {
        let slot = self.table.get(unit).slot;
        if slot == ERASED || slot >= TORN || into.is_none() {
            return slot != ERASED && slot < TORN;
        }
        let len = ByteLen(u64::from(count) * SECTOR);
        self.slots.get(slot, first as usize * SECTOR as usize, pool.bytes_mut(into, len))
    }

    fn erase(&mut self, first: u64, units: u64, window: Window) {
        self.used = true;
        let held: Vec<(u64, Page)> = (first..first + units)
            .map(|unit| (unit, self.table.get(unit)))
            .filter(|(_, page)| page.slot != ERASED)
            .collect();
        held.iter().for_each(|&(unit, _)| self.table.set(unit, NOTHING));
        let block = (first / self.block_units) as usize;
        self.wear[block] += 1;
        self.slc_wear[block] += u32::from(held.iter().any(|(_, page)| page.oob.key & Oob::SLC != 0));
        let (erases, slc) = (self.wear[block], self.slc_wear[block]);
        self.push(first, units, window, Done::Erase { units: units as u32, erases, slc, held });
    }

    fn prolong(&mut self, unit: u64, end: Instant) {
        if let Some(pending) = self.pending.iter_mut().rev().find(|p| p.unit == unit) {
            pending.end = end;
        }
    }

    fn state(&self, unit: u64) -> UnitState {
        match self.table.get(unit) {
            Page { slot: ERASED, .. } => UnitState::Erased,
            Page { slot: TORN, .. } => UnitState::Torn,
            Page { oob, .. } => UnitState::Programmed(oob),
        }
    }

    fn erases(&self, unit: u64) -> u32 {
        self.wear[(unit / self.block_units) as usize]
    }

    fn slc_erases(&self, unit: u64) -> u32 {
        self.slc_wear[(unit / self.block_units) as usize]
    }

    fn is_blank(&self) -> bool {
        !self.used
    }

    #[inline]
    fn settle(&mut self, now: Instant) {
        if self.soonest <= now {
            if self.has_failed() {
                return self.forget_pending();
            }
            let written = self.write_down(now);
            self.check(written);
        }
    }

    fn crash(&mut self, at: Instant, _rng: &mut Rng) {
        unreachable!("the power of a served drive is cut by the end of its process, not at {at:?}")
    }
}

#[cfg(test)]
mod tests;
