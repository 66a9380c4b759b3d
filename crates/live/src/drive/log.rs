//! What the store of a flash drive says of its pages: a log, found again up to a point and not beyond it.
//!
//! *Batches.* What has come to its end since the last look is written by one call as one batch. A batch is a row of sectors of 512 B, each with a
//! checksum, the number of the batch, its place in it, and the *mark*: the last batch that was known to be durable. The rest of a sector is up to
//! twelve records of 40 bytes, one for each program and erase. A start reads batches until one is not whole or out of number: it finds a
//! state that was, and nothing of what came after it. The death of the process cuts behind the last batch that was written; a power cut of the
//! host somewhere behind the last sync. Behind the mark the bytes of pages may be missing although their record is there: a start compares
//! their checksums, and the first that does not fit ends the log. So data and records need no order among each other on their way to the disk.
//!
//! *Torn or damaged.* A disk stores a sector as a whole, and a place of the log is cleared before it is used again. So what a power cut leaves at
//! a place is zeros, the sector that was to be there, or a whole one with another number: the log ends there. Anything else was damaged later. So
//! was what is missing although a mark says that it was durable; marks stand in later sectors and in two places of their own
//! ([`Shared`]), which are written after each sync and, both, at a clean end. A damaged log is refused ([`Damage`]) before anything is changed.
//! To go on all the same (*salvage*) is to go back to the last batch before the damage; of a damaged state the rest counts.
//!
//! *Two areas.* When an area is full the state is written to the other one, as batches of their own, and the log goes on behind. The old
//! area is needed until a mark says, durably, that the state in the new one is durable; a start that finds no such mark reads the old area
//! and goes on in the new one behind the state. The area is full at three times the state it began with and 64 MiB, so
//! that a record costs at most half another one later.
//!
//! *Slots that are given up* are written again when marks that are durable cover the record that gave them up: no start that is still
//! possible needs them then.

use super::file::{MARKS, Shared};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a sector of the log, of its head and of a record.
pub const SECTOR: u64 = 512;
const HEAD: usize = 32;
const RECORD: usize = 40;
/// Records of a sector.
const RECORDS: u64 = 12;
const MAGIC: u32 = u32::from_le_bytes(*b"NLOG");
/// Kept free at the end of an area.
const SLACK: u64 = 4096;
/// Records of the state in one batch: whole sectors.
const STATE_BATCH: usize = 682 * RECORDS as usize;

/// Something that has happened to the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A page was programmed.
    Program {
        /// The page.
        unit: u64,
        /// Where its bytes are.
        slot: u32,
        /// Their checksum.
        sum: u32,
        /// Out-of-band key.
        key: u64,
        /// Out-of-band number.
        seq: u64,
    },
    /// Pages were erased.
    Erase {
        /// The first.
        first: u64,
        /// How many.
        units: u32,
        /// Erases of their block, this one included.
        erases: u32,
        /// Those in SLC mode.
        slc: u32,
    },
    /// A block was erased so often; part of the state.
    Wear {
        /// A page of the block.
        first: u64,
        /// Erases.
        erases: u32,
        /// Those in SLC mode.
        slc: u32,
    },
}

impl Record {
    fn write(self, out: &mut Vec<u8>) {
        let (kind, sum, words) = match self {
            Record::Program { unit, slot, sum, key, seq } => (1, sum, [unit, u64::from(slot), key, seq]),
            Record::Erase { first, units, erases, slc } => {
                (2, 0, [first, u64::from(units), u64::from(erases), u64::from(slc)])
            }
            Record::Wear { first, erases, slc } => (3, 0, [first, 0, u64::from(erases), u64::from(slc)]),
        };
        out.extend_from_slice(&u32::to_le_bytes(kind));
        out.extend_from_slice(&u32::to_le_bytes(sum));
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn read(bytes: &[u8]) -> Option<Record> {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let small = |at: usize| u32::try_from(word(at)).ok();
        Some(match half(0) {
            1 => Record::Program {
                unit: word(8),
                slot: small(16)?,
                sum: half(4),
                key: word(24),
                seq: word(32),
            },
            2 => Record::Erase { first: word(8), units: small(16)?, erases: small(24)?, slc: small(32)? },
            3 => Record::Wear { first: word(8), erases: small(24)?, slc: small(32)? },
            _ => return None,
        })
    }
}

/// What a batch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Sort {
    /// What has happened.
    News = 0,
    /// A part of the state.
    State = 1,
    /// The last part of it.
    StateEnd = 2,
}

/// Sectors of a batch of so many records; one without records has one.
fn sectors_of(records: u64) -> u64 {
    records.div_ceil(RECORDS).max(1)
}

/// What a sector of the log says of itself.
#[derive(Clone, Copy, Debug)]
struct Sector {
    number: u64,
    mark: u64,
    /// Its place in the batch.
    index: u32,
    sort: Sort,
    is_last: bool,
    records: usize,
}

/// What is found at the place of a sector.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Nothing was written.
    Nothing,
    Whole(Sector),
    /// Neither nothing nor what a drive writes.
    Damaged,
}

impl Sector {
    fn write(self, records: &[Record], out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.mark.to_le_bytes());
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&[self.sort as u8, u8::from(self.is_last), self.records as u8, 0]);
        records.iter().for_each(|record| record.write(out));
        out.resize(from + SECTOR as usize, 0);
        let sum = crc32c::crc32c(&out[from + 8..]);
        out[from + 4..from + 8].copy_from_slice(&sum.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Seen {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let sort = match bytes[28] {
            0 => Sort::News,
            1 => Sort::State,
            2 => Sort::StateEnd,
            _ => return Seen::Damaged,
        };
        let is_ours =
            bytes[..4] == MAGIC.to_le_bytes() && bytes[4..8] == crc32c::crc32c(&bytes[8..]).to_le_bytes();
        if !is_ours {
            return if bytes.iter().all(|&byte| byte == 0) { Seen::Nothing } else { Seen::Damaged };
        }
        Seen::Whole(Sector {
            number: word(8),
            mark: word(16),
            index: u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes")),
            sort,
            is_last: bytes[29] != 0,
            records: usize::from(bytes[30]).min(RECORDS as usize),
        })
    }
}

/// A batch that was found.
#[derive(Clone, Debug)]
struct Batch {
    at: u64,
    number: u64,
    sectors: u64,
    sort: Sort,
    /// Its first damaged sector, where a salvage goes on past it.
    hurt: Option<u64>,
}

impl Batch {
    fn end(&self) -> u64 {
        self.at + self.sectors * SECTOR
    }
}

/// Where an area stops to make sense, and whether that is damage.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: u64,
    is_damage: bool,
}

/// The log is not what the drive wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The first byte of the file that is not.
    pub at: u64,
    /// What is wrong there.
    pub what: String,
}

/// Why a log is not replayed.
#[derive(Debug)]
pub enum Unfit {
    /// The file cannot be read or written.
    Io(io::Error),
    /// What is in it is damaged; nothing was changed.
    Damaged(Damage),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Unfit {
        Unfit::Io(error)
    }
}

impl Unfit {
    fn damaged<T>(at: u64, what: impl Into<String>) -> Result<T, Unfit> {
        Err(Unfit::Damaged(Damage { at, what: what.into() }))
    }
}

/// Where the two areas lie.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// Where the marks are, and the first area behind them.
    pub marks: u64,
    /// Bytes of each.
    pub len: u64,
    /// Room for news in an area, beside three times the state it begins with.
    pub news: u64,
}

impl Areas {
    /// Marks and areas from byte `at` on, of a drive whose state has at most so many records.
    pub fn new(at: u64, records: u64, news: u64) -> Areas {
        let state = (sectors_of(records) + 1) * SECTOR;
        Areas { marks: at, len: (3 * state + news + SLACK).next_multiple_of(4096), news }
    }

    /// The first byte behind both.
    pub fn end(&self) -> u64 {
        self.start(2)
    }

    /// The first byte of an area.
    pub fn start(&self, area: usize) -> u64 {
        self.marks + MARKS + area as u64 * self.len
    }

    /// Where an area whose state takes so many bytes is full.
    fn limit(&self, area: usize, state: u64) -> u64 {
        self.start(area) + (3 * state + self.news).min(self.len - SLACK)
    }

    fn area_of(&self, at: u64) -> usize {
        usize::from(at >= self.start(1))
    }
}

/// The log of a store.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    areas: Areas,
    area: usize,
    at: u64,
    limit: u64,
    /// Of the last batch.
    number: u64,
    /// The other area is needed until a durable mark has reached this batch.
    other_until: Option<u64>,
    bytes: Vec<u8>,
}

impl Log {
    /// The log of a store that is new.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn make(shared: Arc<Shared>, areas: Areas) -> io::Result<Log> {
        let mut log = Log::at(shared, areas);
        log.write_state(0, &mut std::iter::empty())?;
        log.prove()?;
        Ok(log)
    }

    fn at(shared: Arc<Shared>, areas: Areas) -> Log {
        let at = areas.start(0);
        Log { shared, areas, area: 0, at, limit: 0, number: 0, other_until: None, bytes: Vec::new() }
    }

    /// Bytes of this area that are written.
    fn used(&self) -> u64 {
        self.at - self.areas.start(self.area)
    }

    /// The batch up to which a start is sure to find everything.
    pub fn proven(&self) -> u64 {
        self.shared.proven()
    }

    /// Whether so many records need another area.
    pub fn is_full_for(&self, records: u64) -> bool {
        self.at + SECTOR * sectors_of(records) > self.limit
    }

    /// Gives up the other area once it is not needed.
    fn look(&mut self) -> io::Result<()> {
        if self.other_until.is_some_and(|until| until <= self.proven()) {
            self.other_until = None;
            self.shared.clear(self.areas.start(1 - self.area), self.areas.len)?;
        }
        Ok(())
    }

    /// Appends what has happened; returns the number of the batch. There is room ([`Log::is_full_for`]).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, records: &[Record]) -> io::Result<u64> {
        self.look()?;
        self.write(Sort::News, records)?;
        Ok(self.number)
    }

    fn write(&mut self, sort: Sort, records: &[Record]) -> io::Result<()> {
        let mark = self.shared.synced.load(Ordering::Acquire);
        let number = self.number + 1;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let last = sectors_of(records.len() as u64) as u32 - 1;
        let mut parts = records.chunks(RECORDS as usize);
        for index in 0..=last {
            let part = parts.next().unwrap_or(&[]);
            let head = Sector { number, mark, index, sort, is_last: index == last, records: part.len() };
            head.write(part, &mut bytes);
        }
        let wrote = self.shared.file.write_all_at(&bytes, self.at);
        let len = bytes.len() as u64;
        self.bytes = bytes;
        wrote?;
        self.at += len;
        self.number = number;
        self.shared.written.store(number, Ordering::Release);
        Ok(())
    }

    /// Goes on in the other area, which begins with this state. Waits for the disk when the other area is still needed.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn turn(&mut self, state: &mut dyn Iterator<Item = Record>) -> io::Result<()> {
        self.look()?;
        if self.other_until.is_some() {
            self.prove()?;
        }
        self.write_state(1 - self.area, state)?;
        self.other_until = Some(self.number);
        self.shared.wants_sync.store(true, Ordering::Release);
        Ok(())
    }

    fn write_state(&mut self, area: usize, state: &mut dyn Iterator<Item = Record>) -> io::Result<()> {
        self.area = area;
        self.at = self.areas.start(area);
        let mut part = Vec::with_capacity(STATE_BATCH);
        loop {
            part.clear();
            part.extend(state.take(STATE_BATCH));
            let is_last = part.len() < STATE_BATCH;
            self.write(if is_last { Sort::StateEnd } else { Sort::State }, &part)?;
            if is_last {
                break;
            }
        }
        self.limit = self.areas.limit(area, self.used());
        Ok(())
    }

    /// Makes everything durable, and the marks that say so, and waits for that.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn prove(&mut self) -> io::Result<()> {
        self.shared.prove().map_err(io::Error::from_raw_os_error)?;
        self.look()
    }
}

/// What a log says to a start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// This has happened.
    Record(Record),
    /// What these pages hold is not known: a salvage goes on past damage in a state.
    Unknown(Range<u64>),
}

/// The log of a store as a start finds it. Nothing is written before [`Found::go_on`].
#[derive(Debug)]
pub struct Found {
    shared: Arc<Shared>,
    areas: Areas,
    /// The batches that count, in order.
    chain: Vec<Batch>,
    /// The last batch that was durable for sure.
    mark: u64,
    /// The last batch that counted.
    end: Option<Batch>,
    salvages: bool,
    /// What a salvage gives up.
    pub gone: Vec<String>,
}

impl Found {
    /// Looks for the batches of a log. With `salvage` damage is no reason to stop.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn look(shared: &Arc<Shared>, areas: Areas, salvage: bool) -> Result<Found, Unfit> {
        let mut found = Found {
            shared: Arc::clone(shared),
            areas,
            chain: Vec::new(),
            mark: shared.marked(areas.marks)?,
            end: None,
            salvages: false,
            gone: Vec::new(),
        };
        match found.find_chain() {
            Err(Unfit::Damaged(damage)) if salvage => {
                found.gone.push(format!("from byte {} on: {}", damage.at, damage.what));
                found.salvages = true;
                found.find_chain()?;
                found.list_gone()?;
            }
            result => result?,
        }
        Ok(found)
    }

    /// Finds the batches that count, in order.
    fn find_chain(&mut self) -> Result<(), Unfit> {
        let [(a, stop_a), (b, stop_b)] = [self.batches(0)?, self.batches(1)?];
        let first = |batches: &[Batch]| batches.first().map_or(0, |batch| batch.number);
        for (batches, stop) in [(&a, stop_a), (&b, stop_b)] {
            if batches.is_empty() && stop.is_damage && !self.salvages {
                return Unfit::damaged(stop.at, "the state at the start of an area of its log is damaged");
            }
        }
        let (old, new, old_stop, new_stop) =
            if first(&a) < first(&b) { (a, b, stop_a, stop_b) } else { (b, a, stop_b, stop_a) };
        let turned = new.iter().find(|batch| batch.sort == Sort::StateEnd).map(|batch| batch.number);
        let follows = old.last().is_some_and(|last| last.number + 1 == first(&new));
        let stop;
        (self.chain, stop) = match turned {
            // The turn was cut off.
            None if !old.is_empty() => {
                if new_stop.is_damage && !self.salvages {
                    return Unfit::damaged(new_stop.at, "a sector of the state in its log is damaged");
                }
                (old, old_stop)
            }
            Some(end) if self.mark < end && !old.is_empty() => match follows {
                true => ([old, new].concat(), new_stop),
                false => (old, old_stop),
            },
            _ => (new, new_stop),
        };
        let Some(last) = self.chain.last() else {
            return Unfit::damaged(self.areas.start(0), "its log has no beginning");
        };
        if self.salvages {
            return Ok(());
        }
        if stop.is_damage {
            let what = format!("a sector of its log is damaged, behind batch {}", last.number);
            return Unfit::damaged(stop.at, what);
        }
        if last.number < self.mark {
            let what =
                format!("batches {} to {} of its log were durable and are gone", last.number + 1, self.mark);
            return Unfit::damaged(stop.at, what);
        }
        Ok(())
    }

    /// The batches of an area up to the first that is not whole or out of number, and where that is. It begins with a state. The marks of all
    /// its sectors count, also of those behind.
    fn batches(&mut self, area: usize) -> Result<(Vec<Batch>, Stop), Unfit> {
        let (start, end) = (self.areas.start(area), self.areas.start(area) + self.areas.len);
        let mut batches: Vec<Batch> = Vec::new();
        let mut under_way: Option<Batch> = None;
        let mut stop = None;
        let (mut bytes, mut at) = (vec![0; 1 << 20], start);
        while at < end {
            // Behind the end of what makes sense only what the file system calls data is looked at.
            if stop.is_some() {
                match self.shared.next_data(at)? {
                    Some(next) if next < end => at = at.max(next / SECTOR * SECTOR),
                    _ => break,
                }
            }
            let len = (end - at).min(bytes.len() as u64) as usize;
            let got = read_some(&self.shared, &mut bytes[..len], at)?;
            bytes[got..len].fill(0);
            for (sector, at) in
                bytes[..len].chunks_exact(SECTOR as usize).zip((at..).step_by(SECTOR as usize))
            {
                let seen = Sector::read(sector);
                if let Seen::Whole(sector) = seen {
                    self.mark = self.mark.max(sector.mark);
                }
                if stop.is_none() && !take_sector(&mut batches, &mut under_way, seen, at, self.salvages) {
                    // Of a batch that has begun the first bad sector counts, not its start.
                    stop = Some(Stop { at, is_damage: matches!(seen, Seen::Damaged) });
                }
            }
            at += len as u64;
        }
        Ok((batches, stop.unwrap_or(Stop { at: end, is_damage: false })))
    }

    /// Tells `take` of everything that counts, in order; it says whether the drive has such a page. `is_whole` says whether the bytes of a page are
    /// those that its record names.
    ///
    /// # Errors
    /// The file cannot be read, or a record is not one of this drive.
    pub fn replay(
        &mut self,
        mut is_whole: impl FnMut(u32, u32) -> bool,
        mut take: impl FnMut(Heard) -> bool,
    ) -> Result<(), Unfit> {
        let (mut records, mut turned) = (Vec::new(), false);
        let mut last_unit = 0;
        for batch in &self.chain {
            let holes = self.records(batch, &mut records)?;
            let is_sound = |record: &Record| match *record {
                Record::Program { slot, sum, .. } => is_whole(slot, sum),
                _ => true,
            };
            if batch.number > self.mark && batch.sort == Sort::News && !records.iter().all(is_sound) {
                break;
            }
            // The state of an area that was turned to is known from the one before.
            let is_known = turned && batch.sort != Sort::News;
            if !is_known {
                for (at, &record) in records.iter().enumerate() {
                    let unit = if let Record::Program { unit, .. } = record { Some(unit) } else { None };
                    if holes.contains(&at) {
                        take(Heard::Unknown(last_unit..unit.unwrap_or(last_unit + RECORDS)));
                    }
                    last_unit = unit.map_or(last_unit, |unit| unit + 1);
                    if !take(Heard::Record(record)) {
                        return Unfit::damaged(
                            batch.at,
                            "a record of its log names what the drive does not have",
                        );
                    }
                }
                if holes.contains(&records.len()) {
                    take(Heard::Unknown(last_unit..last_unit + RECORDS));
                }
            }
            turned |= batch.sort == Sort::News || batch.sort == Sort::StateEnd;
            self.end = Some(batch.clone());
        }
        Ok(())
    }

    /// Reads the records of a batch; returns before which of them sectors are missing.
    fn records(&self, batch: &Batch, records: &mut Vec<Record>) -> Result<Vec<usize>, Unfit> {
        let mut bytes = vec![0; (batch.sectors * SECTOR) as usize];
        self.shared.file.read_exact_at(&mut bytes, batch.at)?;
        records.clear();
        let mut holes = Vec::new();
        for (sector, at) in bytes.chunks_exact(SECTOR as usize).zip((batch.at..).step_by(SECTOR as usize)) {
            let Seen::Whole(head) = Sector::read(sector) else {
                holes.push(records.len());
                continue;
            };
            for bytes in sector[HEAD..].chunks_exact(RECORD).take(head.records) {
                match Record::read(bytes) {
                    Some(record) => records.push(record),
                    None => return Unfit::damaged(at, "a record of its log is of no known kind"),
                }
            }
        }
        Ok(holes)
    }

    /// What a salvage gives up: whole sectors of the log that do not count.
    fn list_gone(&mut self) -> Result<(), Unfit> {
        let last = self.chain.last().map_or(0, |batch| batch.number);
        for batch in &self.chain {
            if let Some(at) = batch.hurt {
                self.gone
                    .push(format!("records of the state at byte {at}: the pages they name are unreadable"));
            }
        }
        let (mut keys, mut erases) = (std::collections::BTreeSet::new(), 0);
        let mut bytes = vec![0; SECTOR as usize];
        for area in 0..2 {
            let (mut at, end) = (self.areas.start(area), self.areas.start(area) + self.areas.len);
            while let Some(next) = self.shared.next_data(at)?.filter(|&next| next < end) {
                at = at.max(next / SECTOR * SECTOR);
                let got = read_some(&self.shared, &mut bytes, at)?;
                bytes[got..].fill(0);
                at += SECTOR;
                let Seen::Whole(head) = Sector::read(&bytes) else { continue };
                if head.number <= last || head.sort != Sort::News {
                    continue;
                }
                for record in bytes[HEAD..].chunks_exact(RECORD).take(head.records).filter_map(Record::read) {
                    match record {
                        Record::Program { key, .. } => drop(keys.insert(key & !nandu_base::Oob::SLC)),
                        Record::Erase { .. } => erases += 1,
                        Record::Wear { .. } => {}
                    }
                }
            }
        }
        if last < self.mark || !keys.is_empty() {
            self.gone.push(format!(
                "the drive goes back to batch {last}; batches up to {} were durable; {} programs of pages and {erases} erases behind it can be read and do not count",
                self.mark,
                keys.len()
            ));
            self.gone.extend(rows(&keys).map(|row| format!("written after that: logical {row}")));
        }
        Ok(())
    }

    /// Goes on behind what counts, and makes durable what was found. The other area is free.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn go_on(self) -> io::Result<Log> {
        let end = self.end.expect("a log that is found has a beginning");
        let mut log = Log::at(Arc::clone(&self.shared), self.areas);
        log.area = self.areas.area_of(end.at);
        (log.at, log.number) = (end.end(), end.number);
        let here = self.areas.start(log.area)..self.areas.start(log.area) + self.areas.len;
        let state = self.chain.iter().filter(|b| here.contains(&b.at) && b.sort != Sort::News);
        log.limit = self.areas.limit(log.area, state.map(|b| b.end() - b.at).sum());
        // What an earlier life left behind may not be taken for the next batch.
        self.shared.clear(log.at, here.end - log.at)?;
        self.shared.written.store(log.number, Ordering::Release);
        if self.salvages {
            self.shared.mark_anew(log.number)?;
        }
        log.prove()?;
        self.shared.clear(self.areas.start(1 - log.area), self.areas.len)?;
        Ok(log)
    }

    /// Whether the log has damage in what counts, so that its area is to be left.
    pub fn is_hurt(&self) -> bool {
        self.chain.iter().any(|batch| batch.hurt.is_some())
    }
}

/// Rows of numbers that follow each other, at most twenty, in words.
fn rows(keys: &std::collections::BTreeSet<u64>) -> impl Iterator<Item = String> {
    let mut rows: Vec<(u64, u64)> = Vec::new();
    for &key in keys {
        match rows.last_mut() {
            Some((_, last)) if *last + 1 == key => *last = key,
            _ => rows.push((key, key)),
        }
    }
    let more = rows.len().saturating_sub(20);
    let word = |(first, last): (u64, u64)| match first == last {
        true => format!("page {first}"),
        false => format!("pages {first} to {last}"),
    };
    let rest = (more > 0).then(|| format!("pages in {more} more places"));
    rows.into_iter().take(20).map(word).chain(rest)
}

/// Adds a sector to the batches of an area; false where it does not go on. A salvage goes on past damage within a state.
fn take_sector(
    batches: &mut Vec<Batch>,
    under_way: &mut Option<Batch>,
    seen: Seen,
    at: u64,
    salvages: bool,
) -> bool {
    let sector = match seen {
        Seen::Whole(sector) => sector,
        Seen::Damaged | Seen::Nothing => {
            let in_state = batches.last().is_none_or(|last| last.sort == Sort::State);
            if !salvages || under_way.as_ref().map_or(!in_state, |batch| batch.sort == Sort::News) {
                return false;
            }
            let unknown = Batch { at, number: 0, sectors: 0, sort: Sort::State, hurt: None };
            let batch = under_way.get_or_insert(unknown);
            batch.hurt.get_or_insert(at);
            batch.sectors += 1;
            return true;
        }
    };
    if let Some(batch) = under_way.as_mut().filter(|batch| batch.hurt.is_some()) {
        // What a salvage has not read it infers from what follows.
        if sector.index == 0 {
            let sort = if sector.sort == Sort::News { Sort::StateEnd } else { Sort::State };
            batches.push(Batch { number: sector.number.saturating_sub(1), sort, ..batch.clone() });
            *under_way = None;
        } else if batch.number == 0 {
            (batch.number, batch.sort) = (sector.number, sector.sort);
        }
    }
    let batch = match under_way {
        Some(batch) => {
            let goes_on = batch.number == sector.number && u64::from(sector.index) == batch.sectors;
            if !goes_on || batch.sort != sector.sort {
                return false;
            }
            batch.sectors += 1;
            batch
        }
        None => {
            let fits = sector.index == 0
                && match batches.last() {
                    Some(last) => {
                        let in_state = last.sort == Sort::State;
                        sector.number == last.number + 1 && in_state == (sector.sort != Sort::News)
                    }
                    None => sector.sort != Sort::News,
                };
            if !fits {
                return false;
            }
            under_way.insert(Batch { at, number: sector.number, sectors: 1, sort: sector.sort, hurt: None })
        }
    };
    if sector.is_last {
        batches.push(batch.clone());
        *under_way = None;
    }
    true
}

/// Reads what the file has of `into`.
fn read_some(shared: &Shared, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match shared.file.read_at(&mut into[got..], at + got as u64) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
