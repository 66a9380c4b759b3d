//! What flash pages hold: the computed medium of an SSD.
//!
//! Data lies where the flash stores it, by physical page, with its out-of-band record. A page written by one host write
//! is one word (its first stamp); a page put together from several writes, or with metadata or real bytes, has its
//! sectors in a side table. Operations are applied when they are issued; until their window has passed, the medium
//! remembers how to undo them, so that a power cut at any instant finds the true state.
//!
//! RAM: 24 bytes per physical page, touched as it is used, 8 where there is one session only; 8 bytes per sector of a mixed page, in slots that are used
//! again, and the bytes of records.

use nandu_base::{
    ByteLen, Instant, Medium, Oob, Overlay, Payload, PayloadPool, Program, Rng, SECTOR, Sector, Stamp,
    UnitState, Window,
};
use std::collections::{BTreeMap, VecDeque};

/// Words of `data`: values below the first stamp (serial 1) have meanings of their own.
const ERASED: u64 = 0;
const ZEROS: u64 = 1;
const TORN: u64 = 2;
const MIXED: u64 = 3;

const NO_OOB: Oob = Oob { key: 0, seq: 0 };

/// The serial number of words that stand for real bytes, by their place in the table of records.
const RECORD: u32 = u32::MAX;

type Bytes = Box<[u8; SECTOR as usize]>;

#[derive(Clone, Debug)]
enum Done {
    /// The unit, and the one that it was built on.
    Program(u64, Option<u64>),
    /// The first unit and what the units held.
    Erase(u64, Vec<(u64, Oob)>),
}

/// The contents of a flash array.
#[derive(Clone, Debug)]
pub struct Cells {
    unit_sectors: u32,
    data: Vec<u64>,
    /// Empty when there is one session only.
    oobs: Vec<Oob>,
    one_session: bool,
    /// Something was programmed or erased.
    used: bool,
    wear: Vec<u32>,
    /// The erases of blocks in SLC mode, by block; empty until there is one.
    slc_wear: Vec<u32>,
    block_units: u64,
    /// Slots of mixed pages: a word for each sector, the stamp or the name of a record.
    mixed: Vec<u64>,
    mixed_free: Vec<u32>,
    /// Sectors with real bytes.
    records: Vec<Bytes>,
    records_free: Vec<u32>,
    /// Operations that may not be complete yet, in the order in which they were issued.
    unsettled: VecDeque<(Window, Done)>,
    /// Units that other ones take the place of, and when those are complete.
    given_up: BTreeMap<u64, Instant>,
}

impl Cells {
    /// An erased array of `units` pages of `unit_sectors` sectors, `block_units` page numbers to a block.
    pub fn new(units: u64, unit_sectors: u32, block_units: u32) -> Cells {
        let n = units as usize;
        Cells {
            unit_sectors,
            data: vec![ERASED; n],
            oobs: vec![NO_OOB; n],
            one_session: false,
            used: false,
            wear: vec![0; n.div_ceil(block_units as usize)],
            slc_wear: Vec::new(),
            block_units: u64::from(block_units),
            mixed: Vec::new(),
            mixed_free: Vec::new(),
            records: Vec::new(),
            records_free: Vec::new(),
            unsettled: VecDeque::new(),
            given_up: BTreeMap::new(),
        }
    }

    /// The same for a run whose power is never cut and that never starts again: neither out-of-band areas nor how to undo
    /// what is under way are kept, which is two thirds of the memory.
    pub fn for_one_session(units: u64, unit_sectors: u32, block_units: u32) -> Cells {
        let none = Cells::new(0, unit_sectors, block_units);
        let blocks = units.div_ceil(u64::from(block_units)) as usize;
        Cells { data: vec![ERASED; units as usize], wear: vec![0; blocks], one_session: true, ..none }
    }

    /// I-20: no erase takes a page before what was built on it or takes its place is complete, a copy or a newer version: a power cut
    /// would leave neither.
    fn assert_built(&mut self, block: &std::ops::Range<u64>, start: Instant) {
        while let Some((&unit, &until)) = self.given_up.range(block.clone()).next() {
            assert!(until <= start, "I-20: page {unit} is erased before what takes its place is programmed");
            self.given_up.remove(&unit);
        }
        for (window, done) in &self.unsettled {
            if let Done::Program(unit, Some(base)) = done
                && block.contains(base)
                && window.end > start
            {
                panic!("I-20: page {base} is erased before page {unit}, which is built on it, is programmed");
            }
        }
    }

    /// The data word of a page that one payload fills, when it needs no side table.
    fn whole(&self, pool: &PayloadPool, payload: Payload) -> Option<u64> {
        if payload.is_none() {
            return Some(ZEROS);
        }
        pool.as_run(payload, 0, u64::from(self.unit_sectors)).map(|stamp| stamp.0)
    }

    fn compose(&mut self, pool: &PayloadPool, program: &Program) -> u64 {
        let overlay = program.overlay;
        if let Some(o) = overlay.filter(|o| o.first == 0 && o.count == self.unit_sectors)
            && let Some(word) = self.whole(pool, o.payload)
        {
            return word;
        }
        if overlay.is_none() {
            let word = program.base.map_or(ZEROS, |base| self.data[base as usize]);
            if word == ZEROS || word >= Stamp::new(1, 0).0 {
                return word;
            }
        }
        let slot = self.take_slot();
        self.fill_from_base(slot, program.base);
        if let Some(o) = overlay {
            self.lay_over(slot, pool, &o);
        }
        self.shorten(slot)
    }

    /// Where the words of a slot begin.
    fn words(&self, slot: u32) -> std::ops::Range<usize> {
        let n = self.unit_sectors as usize;
        slot as usize * n..(slot as usize + 1) * n
    }

    /// The slot of a mixed page.
    fn slot(word: u64) -> u32 {
        (word - MIXED) as u32
    }

    fn take_slot(&mut self) -> u32 {
        self.mixed_free.pop().unwrap_or_else(|| {
            let slot = self.mixed.len() / self.unit_sectors as usize;
            self.mixed.resize(self.mixed.len() + self.unit_sectors as usize, 0);
            slot as u32
        })
    }

    fn keep_record(&mut self, bytes: &[u8; SECTOR as usize]) -> u64 {
        let place = match self.records_free.pop() {
            Some(place) => {
                self.records[place as usize].copy_from_slice(bytes);
                place
            }
            None => {
                self.records.push(Box::new(*bytes));
                (self.records.len() - 1) as u32
            }
        };
        Stamp::new(RECORD, u64::from(place)).0
    }

    fn fill_from_base(&mut self, slot: u32, base: Option<u64>) {
        let range = self.words(slot);
        match base.map_or(ZEROS, |unit| self.data[unit as usize]) {
            ERASED | TORN => unreachable!("page {base:?} holds nothing to build on"),
            ZEROS => self.mixed[range].fill(Stamp::ZERO.0),
            run if run >= Stamp::new(1, 0).0 => {
                self.mixed[range].iter_mut().zip(run..).for_each(|(word, stamp)| *word = stamp);
            }
            mixed => {
                let source = self.words(Cells::slot(mixed));
                self.mixed.copy_within(source, range.start);
                for at in range {
                    let stamp = Stamp(self.mixed[at]);
                    if stamp.serial() == RECORD {
                        let copy = *self.records[stamp.sector() as usize];
                        self.mixed[at] = self.keep_record(&copy);
                    }
                }
            }
        }
    }

    fn lay_over(&mut self, slot: u32, pool: &PayloadPool, overlay: &Overlay) {
        let first = self.words(slot).start + overlay.first as usize;
        for i in 0..overlay.count {
            let at = first + i as usize;
            self.forget_record(self.mixed[at]);
            self.mixed[at] = match pool.sector(overlay.payload, u64::from(i)) {
                None => Stamp::ZERO.0,
                Some(Sector::Stamp(stamp)) => stamp.0,
                Some(Sector::Bytes(bytes)) => {
                    self.keep_record(bytes.try_into().expect("a sector has 512 bytes"))
                }
            };
        }
    }

    /// The data word of the page in a slot; the slot is given back when a word says it all.
    fn shorten(&mut self, slot: u32) -> u64 {
        let words = &self.mixed[self.words(slot)];
        let first = words[0];
        let short = if words.iter().all(|&word| word == Stamp::ZERO.0) {
            ZEROS
        } else if !matches!(Stamp(first).serial(), 0 | RECORD)
            && words.iter().zip(first..).all(|(&w, want)| w == want)
        {
            first
        } else {
            return MIXED + u64::from(slot);
        };
        self.mixed_free.push(slot);
        short
    }

    fn forget_record(&mut self, word: u64) {
        if Stamp(word).serial() == RECORD {
            self.records_free.push(Stamp(word).sector());
        }
    }

    /// Gives a mixed page's slot back.
    fn forget(&mut self, word: u64) {
        if (MIXED..Stamp::new(1, 0).0).contains(&word) {
            let slot = Cells::slot(word);
            for at in self.words(slot) {
                self.forget_record(self.mixed[at]);
            }
            self.mixed_free.push(slot);
        }
    }

    fn drop_record(&mut self, done: Done) {
        if let Done::Erase(_, saved) = done {
            saved.into_iter().for_each(|(word, _)| self.forget(word));
        }
    }

    fn set(&mut self, unit: u64, (word, oob): (u64, Oob)) {
        self.data[unit as usize] = word;
        self.oobs[unit as usize] = oob;
    }

    /// Blocks are programmed and cleared in order: what comes next is fetched while there is time.
    #[inline]
    fn look_ahead(&self, program: &Program) {
        let unit = program.unit as usize;
        nandu_ftl::prefetch(&self.data, unit + 8);
        nandu_ftl::prefetch(&self.oobs, unit + 4);
        if let Some(base) = program.base {
            nandu_ftl::prefetch(&self.data, base as usize + 8);
        }
    }
}

impl Medium for Cells {
    fn program(&mut self, pool: &PayloadPool, program: &Program) {
        self.look_ahead(program);
        assert!(self.data[program.unit as usize] == ERASED, "I-6: page {} is programmed twice", program.unit);
        let is_first = program.unit.is_multiple_of(self.block_units);
        let in_order = is_first || self.data[program.unit as usize - 1] != ERASED;
        assert!(in_order, "I-6: page {} is programmed before the one below it", program.unit);
        let word = self.compose(pool, program);
        self.used = true;
        if self.one_session {
            self.data[program.unit as usize] = word;
            return;
        }
        self.set(program.unit, (word, program.oob));
        if program.window.end > program.window.start {
            self.unsettled.push_back((program.window, Done::Program(program.unit, program.base)));
        }
    }

    #[inline]
    fn prefetch(&self, unit: u64) {
        nandu_ftl::prefetch(&self.data, unit as usize);
    }

    fn read(&mut self, pool: &mut PayloadPool, unit: u64, first: u32, count: u32, into: Payload) -> bool {
        match self.data[unit as usize] {
            ERASED | TORN => return false,
            ZEROS => pool.zero(into, ByteLen(u64::from(count) * SECTOR)),
            run if run >= Stamp::new(1, 0).0 => {
                pool.fill_run(into, 0, u64::from(count), Stamp(run + u64::from(first)));
            }
            mixed => {
                let start = self.words(Cells::slot(mixed)).start + first as usize;
                for (index, &word) in (0..).zip(&self.mixed[start..start + count as usize]) {
                    let sector = match Stamp(word) {
                        stamp if stamp.serial() == RECORD => {
                            Sector::Bytes(&self.records[stamp.sector() as usize][..])
                        }
                        stamp => Sector::Stamp(stamp),
                    };
                    pool.put_sector(into, index, sector);
                }
            }
        }
        true
    }

    fn erase(&mut self, first: u64, units: u64, window: Window) {
        self.used = true;
        self.wear[(first / self.block_units) as usize] += 1;
        if self.one_session {
            for unit in first..first + units {
                let word = std::mem::replace(&mut self.data[unit as usize], ERASED);
                self.forget(word);
            }
            return;
        }
        self.assert_built(&(first..first + units), window.start);
        let saved: Vec<_> =
            (first..first + units).map(|u| (self.data[u as usize], self.oobs[u as usize])).collect();
        if saved.iter().any(|(_, oob)| oob.key & Oob::SLC != 0) {
            self.slc_wear.resize(self.wear.len(), 0);
            self.slc_wear[(first / self.block_units) as usize] += 1;
        }
        (first..first + units).for_each(|u| self.set(u, (ERASED, NO_OOB)));
        self.unsettled.push_back((window, Done::Erase(first, saved)));
    }

    fn prolong(&mut self, unit: u64, end: Instant) {
        let names = |done: &Done| matches!(done, Done::Program(u, _) | Done::Erase(u, _) if *u == unit);
        if let Some((window, _)) = self.unsettled.iter_mut().rev().find(|(_, done)| names(done)) {
            window.end = end;
        }
    }

    fn given_up(&mut self, unit: u64, until: Instant) {
        if !self.one_session {
            self.given_up.insert(unit, until);
        }
    }

    fn state(&self, unit: u64) -> UnitState {
        assert!(!self.one_session, "nothing starts from cells that are for one session");
        match self.data[unit as usize] {
            ERASED => UnitState::Erased,
            TORN => UnitState::Torn,
            _ => UnitState::Programmed(self.oobs[unit as usize]),
        }
    }

    fn erases(&self, unit: u64) -> u32 {
        self.wear[(unit / self.block_units) as usize]
    }

    fn slc_erases(&self, unit: u64) -> u32 {
        self.slc_wear.get((unit / self.block_units) as usize).copied().unwrap_or(0)
    }

    fn is_blank(&self) -> bool {
        !self.used
    }

    fn erasing(&self, from: Instant, to: Instant) -> Option<Window> {
        let erases = self.unsettled.iter().filter(|(_, done)| matches!(done, Done::Erase(..)));
        let mut parts = erases.map(|(w, _)| Window { start: w.start.later(from), end: w.end.min(to) });
        parts.find(|part| part.start < part.end)
    }

    fn complete_at(&self) -> Instant {
        self.unsettled.iter().map(|(window, _)| window.end).fold(Instant::ZERO, Instant::later)
    }

    fn settle(&mut self, now: Instant) {
        while self.unsettled.front().is_some_and(|(window, _)| window.end <= now) {
            if let Some((_, done)) = self.unsettled.pop_front() {
                self.drop_record(done);
            }
        }
    }

    fn copy(&self) -> Option<Box<dyn Medium>> {
        Some(Box::new(self.clone()))
    }

    fn crash(&mut self, at: Instant, rng: &mut Rng) {
        assert!(!self.one_session, "the power of cells that are for one session is never cut");
        self.given_up.clear();
        while let Some((window, done)) = self.unsettled.pop_back() {
            let begun = window.start < at;
            // What was under way is complete or torn; the odds are even.
            let complete = window.end <= at || (begun && rng.below(2) == 0);
            match done {
                _ if complete => self.drop_record(done),
                Done::Program(unit, _) => {
                    self.forget(self.data[unit as usize]);
                    self.set(unit, (if begun { TORN } else { ERASED }, NO_OOB));
                }
                Done::Erase(first, saved) => {
                    for (unit, old) in (first..).zip(saved) {
                        if begun {
                            self.forget(old.0);
                        }
                        self.set(unit, if begun { (TORN, NO_OOB) } else { old });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Content;

    const LATER: Window = Window { start: Instant(100), end: Instant(200) };

    fn write(cells: &mut Cells, pool: &PayloadPool, unit: u64, serial: u32, window: Window) {
        let payload = Payload::run(Stamp::new(serial, 0));
        let overlay = Some(Overlay { first: 0, count: 8, payload });
        let oob = Oob { key: 5, seq: u64::from(serial) };
        cells.program(pool, &Program { unit, base: None, overlay, oob, window });
    }

    #[test]
    fn an_erase_of_a_block_in_slc_mode_counts_for_both() {
        let pool = PayloadPool::new(Content::Stamps);
        let mut cells = Cells::new(8, 8, 4);
        let done = Window { start: Instant::ZERO, end: Instant::ZERO };
        for (key, counted) in [(Oob::SLC | 5, 1), (5, 1), (Oob::SLC, 2)] {
            let oob = Oob { key, seq: 1 };
            cells.program(&pool, &Program { unit: 4, base: None, overlay: None, oob, window: done });
            cells.erase(4, 4, done);
            assert_eq!(cells.slc_erases(6), counted);
        }
        assert_eq!((cells.erases(4), cells.slc_erases(0)), (3, 0));
    }

    #[test]
    fn a_cut_before_the_window_undoes_and_within_it_tears_or_completes() {
        let pool = PayloadPool::new(Content::Stamps);
        let seed = 3;
        let mut rng = Rng::new(seed);
        let mut seen = [false; 2];
        for _ in 0..20 {
            let mut cells = Cells::new(8, 8, 4);
            write(&mut cells, &pool, 0, 1, LATER);
            cells.crash(Instant(150), &mut rng);
            match cells.state(0) {
                UnitState::Torn => seen[0] = true,
                UnitState::Programmed(oob) => seen[1] = oob.seq == 1,
                UnitState::Erased => panic!("seed {seed}: a page under way is not erased"),
            }
        }
        assert_eq!(seen, [true; 2], "seed {seed}");
        let mut cells = Cells::new(8, 8, 4);
        write(&mut cells, &pool, 0, 1, LATER);
        cells.crash(Instant(50), &mut rng);
        assert_eq!(cells.state(0), UnitState::Erased);
    }

    #[test]
    #[should_panic(expected = "I-20")]
    fn a_page_is_not_erased_before_what_takes_its_place_is_programmed() {
        let pool = PayloadPool::new(Content::Stamps);
        let mut cells = Cells::new(8, 8, 4);
        write(&mut cells, &pool, 0, 1, Window { start: Instant(0), end: Instant(1) });
        cells.given_up(0, LATER.end);
        cells.erase(4, 4, LATER);
        cells.erase(0, 4, Window { start: Instant(199), end: Instant(300) });
    }

    #[test]
    #[should_panic(expected = "I-20")]
    fn a_page_is_not_erased_before_its_copy_is_programmed() {
        let pool = PayloadPool::new(Content::Stamps);
        let mut cells = Cells::new(8, 8, 4);
        write(&mut cells, &pool, 0, 1, Window { start: Instant(0), end: Instant(1) });
        let oob = Oob { key: 5, seq: 2 };
        cells.program(&pool, &Program { unit: 4, base: Some(0), overlay: None, oob, window: LATER });
        // It begins while the copy is being programmed.
        cells.erase(0, 4, Window { start: Instant(199), end: Instant(300) });
    }

    #[test]
    fn an_erase_under_way_is_told_as_far_as_it_is_asked_for() {
        let mut cells = Cells::new(8, 8, 4);
        cells.erase(0, 4, LATER);
        let part = |from, to| cells.erasing(Instant(from), Instant(to)).map(|w| (w.start.0, w.end.0));
        assert_eq!(part(0, 100), None);
        assert_eq!(part(0, 150), Some((100, 150)));
        assert_eq!(part(150, 900), Some((150, 200)));
        assert_eq!(part(200, 900), None);
    }

    #[test]
    fn an_erase_that_had_not_begun_gives_everything_back() {
        let mut pool = PayloadPool::new(Content::Stamps);
        let mut cells = Cells::new(8, 8, 4);
        let now = Window { start: Instant(0), end: Instant(1) };
        write(&mut cells, &pool, 0, 1, now);
        // A mixed page: sectors of two writes.
        let overlay = Some(Overlay { first: 2, count: 3, payload: Payload::run(Stamp::new(2, 2)) });
        let oob = Oob { key: 6, seq: 2 };
        cells.program(&pool, &Program { unit: 1, base: Some(0), overlay, oob, window: now });
        cells.erase(0, 4, LATER);
        write(&mut cells, &pool, 0, 3, Window { start: Instant(200), end: Instant(300) });
        cells.crash(Instant(60), &mut Rng::new(1));
        let into = pool.allocate(ByteLen(4096));
        assert!(cells.read(&mut pool, 1, 0, 8, into));
        let serials: Vec<u32> = (0..8)
            .map(|i| match pool.sector(into, i) {
                Some(Sector::Stamp(stamp)) => stamp.serial(),
                _ => panic!("stamps expected"),
            })
            .collect();
        assert_eq!(serials, [1, 1, 2, 2, 2, 1, 1, 1]);
        assert_eq!(cells.state(0), UnitState::Programmed(Oob { key: 5, seq: 1 }));
    }

    #[test]
    #[should_panic(expected = "I-6")]
    fn programming_twice_is_caught() {
        let pool = PayloadPool::new(Content::Stamps);
        let mut cells = Cells::new(8, 8, 4);
        write(&mut cells, &pool, 0, 1, LATER);
        write(&mut cells, &pool, 0, 2, LATER);
    }
}
