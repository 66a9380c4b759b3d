//! What the store of a flash drive says of its pages: a log, found again up to a point and not beyond it.
//!
//! *Batches.* What has come to its end since the last look is written by one call as one batch: a head with a checksum over everything, a
//! number, one more than that of the batch before, and the *mark*, the last batch that was known to be durable, then a record of 40 bytes for each program and
//! erase. A start reads batches until one is not whole or out of number: it finds a state that was, and nothing of what came
//! after it. The death of the process cuts behind the last batch that was written; a power cut of the host somewhere behind the last sync.
//! Behind the mark the bytes of pages may be missing although their record is there: a start compares their checksums, and the first that does
//! not fit ends the log. So data and records need no order among each other on their way to the disk.
//!
//! *Two areas.* When an area is full the state is written to the other one, as batches of their own, and the log goes on behind. The old
//! area is needed until a mark says, durably, that the state in the new one is durable; a start that finds no such mark reads the old area
//! and goes on in the new one behind the state. The area is full at three times the state it began with and 64 MiB, so
//! that a record costs at most half another one later.
//!
//! *Slots that are given up* are written again when a mark that is durable covers the record that gave them up: no start that is still
//! possible needs them then.

use super::file::Shared;
use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Bytes of a head and of a record.
pub const RECORD: u64 = 40;
const MAGIC: u32 = u32::from_le_bytes(*b"NBAT");
/// Kept free at the end of an area, for batches without records that carry a mark.
const SLACK: u64 = 4096;
/// Records of the state in one batch.
const STATE_BATCH: usize = 8192;

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
#[repr(u32)]
enum Sort {
    /// What has happened.
    News = 0,
    /// A part of the state.
    State = 1,
    /// The last part of it.
    StateEnd = 2,
}

/// A batch that was found whole.
#[derive(Clone, Copy, Debug)]
struct Batch {
    at: u64,
    number: u64,
    mark: u64,
    count: u64,
    sort: Sort,
}

impl Batch {
    fn end(&self) -> u64 {
        self.at + RECORD * (1 + self.count)
    }
}

/// Where the two areas lie.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// The first byte of the first.
    pub at: u64,
    /// Bytes of each.
    pub len: u64,
    /// Room for news in an area, beside three times the state it begins with.
    pub news: u64,
}

impl Areas {
    /// The areas of a drive whose state has at most so many records.
    pub fn new(at: u64, records: u64, news: u64) -> Areas {
        let state = (records + records / STATE_BATCH as u64 + 2) * RECORD;
        Areas { at, len: (3 * state + news + SLACK).next_multiple_of(4096), news }
    }

    /// The first byte behind both.
    pub fn end(&self) -> u64 {
        self.at + 2 * self.len
    }

    fn start(&self, area: usize) -> u64 {
        self.at + area as u64 * self.len
    }

    /// Where an area whose state takes so many bytes is full.
    fn limit(&self, area: usize, state: u64) -> u64 {
        self.start(area) + (3 * state + self.news).min(self.len - SLACK)
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
    /// Batches that were the first to carry a mark, and that mark.
    carriers: VecDeque<(u64, u64)>,
    /// The newest mark that is durable: what a start is sure to find.
    proven: u64,
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
        Log {
            shared,
            areas,
            area: 0,
            at: areas.start(0),
            limit: 0,
            number: 0,
            carriers: VecDeque::new(),
            proven: 0,
            other_until: None,
            bytes: Vec::new(),
        }
    }

    /// Bytes of this area that are written.
    fn used(&self) -> u64 {
        self.at - self.areas.start(self.area)
    }

    /// The batch up to which a start is sure to find everything.
    pub fn proven(&self) -> u64 {
        self.proven
    }

    /// Whether so many records need another area.
    pub fn is_full_for(&self, records: u64) -> bool {
        self.at + RECORD * (1 + records) > self.limit
    }

    /// Notes what has become durable.
    pub fn look(&mut self) -> io::Result<()> {
        let synced = self.shared.synced.load(Ordering::Acquire);
        while let Some(&(carrier, mark)) = self.carriers.front().filter(|(carrier, _)| *carrier <= synced) {
            let _ = carrier;
            self.proven = mark;
            self.carriers.pop_front();
        }
        if self.other_until.is_some_and(|until| until <= self.proven) {
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
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&mark.to_le_bytes());
        bytes.extend_from_slice(&(records.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(sort as u64).to_le_bytes());
        records.iter().for_each(|record| record.write(&mut bytes));
        let sum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        let wrote = self.shared.file.write_all_at(&bytes, self.at);
        let len = bytes.len() as u64;
        self.bytes = bytes;
        wrote?;
        self.at += len;
        self.number = number;
        self.shared.written.store(number, Ordering::Release);
        if mark > self.carriers.back().map_or(self.proven, |&(_, mark)| mark) {
            self.carriers.push_back((number, mark));
        }
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

    /// Makes everything durable, and the mark that says so, and waits for that.
    ///
    /// # Errors
    /// The file cannot be written or synced.
    pub fn prove(&mut self) -> io::Result<()> {
        let refused = io::Error::from_raw_os_error;
        self.shared.sync().map_err(refused)?;
        self.write(Sort::News, &[])?;
        self.shared.sync().map_err(refused)?;
        self.look()
    }

    /// Reads the log of a store. `take` hears of every record that counts, in order; `is_whole` says whether the bytes of a page are those that
    /// its record names. The log goes on behind what was found.
    ///
    /// # Errors
    /// The file cannot be read or written, or its log has no beginning.
    pub fn replay(
        shared: Arc<Shared>,
        areas: Areas,
        mut is_whole: impl FnMut(u32, u32) -> bool,
        mut take: impl FnMut(Record) -> bool,
    ) -> io::Result<Log> {
        let mut log = Log::at(Arc::clone(&shared), areas);
        let chain = log.find_chain()?;
        let last_mark = chain.iter().map(|batch| batch.mark).max().unwrap_or(0);
        let (mut end, mut records, mut turned) = (None::<Batch>, Vec::new(), false);
        for batch in &chain {
            log.read_records(batch, &mut records)?;
            let is_sound = |record: &Record| match *record {
                Record::Program { slot, sum, .. } => is_whole(slot, sum),
                _ => true,
            };
            if batch.number > last_mark && batch.sort == Sort::News && !records.iter().all(is_sound) {
                break;
            }
            // The state of an area that was turned to is known from the one before.
            let is_known = turned && batch.sort != Sort::News;
            if !is_known && !records.iter().all(|&record| take(record)) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a record names what the drive does not have",
                ));
            }
            turned |= batch.sort == Sort::News || batch.sort == Sort::StateEnd;
            end = Some(*batch);
        }
        let Some(end) = end else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its log has no beginning"));
        };
        log.go_on_behind(&end, &chain)?;
        Ok(log)
    }

    /// Sets the log behind its last batch, and makes durable what was found.
    fn go_on_behind(&mut self, end: &Batch, chain: &[Batch]) -> io::Result<()> {
        self.area = usize::from(end.at >= self.areas.start(1));
        self.at = end.end();
        self.number = end.number;
        let here = self.areas.start(self.area)..self.areas.start(self.area) + self.areas.len;
        let state = chain.iter().filter(|b| here.contains(&b.at) && b.sort != Sort::News);
        let state: u64 = state.map(|b| b.end() - b.at).sum();
        self.limit = self.areas.limit(self.area, state);
        // What an earlier life left behind may not be taken for the next batch.
        self.shared.clear(self.at, here.end - self.at)?;
        self.shared.written.store(self.number, Ordering::Release);
        if end.sort == Sort::State {
            // The state in this area is not whole; the log before it is.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its log ends within a state"));
        }
        self.prove()?;
        self.shared.clear(self.areas.start(1 - self.area), self.areas.len)
    }

    /// The batches that count, in order.
    fn find_chain(&self) -> io::Result<Vec<Batch>> {
        let [a, b] = [self.find_batches(0)?, self.find_batches(1)?];
        let first = |batches: &[Batch]| batches.first().map_or(0, |batch| batch.number);
        let (old, new) = if first(&a) < first(&b) { (a, b) } else { (b, a) };
        let Some(state_end) = new.iter().find(|batch| batch.sort == Sort::StateEnd) else {
            return Ok(old); // the turn was cut off
        };
        let is_proven = new.iter().any(|batch| batch.mark >= state_end.number);
        if is_proven || old.is_empty() {
            return Ok(new);
        }
        let follows = old.last().is_some_and(|last| last.number + 1 == first(&new));
        Ok(if follows { [old, new].concat() } else { old })
    }

    /// The batches of an area up to the first that is not whole or out of number. It begins with a state.
    fn find_batches(&self, area: usize) -> io::Result<Vec<Batch>> {
        let end = self.areas.start(area) + self.areas.len;
        let mut batches: Vec<Batch> = Vec::new();
        let mut at = self.areas.start(area);
        while let Some(batch) = self.batch_at(at, end)? {
            let fits = match batches.last() {
                Some(last) => {
                    let in_state = last.sort == Sort::State;
                    batch.number == last.number + 1 && in_state == (batch.sort != Sort::News)
                }
                None => batch.sort != Sort::News,
            };
            if !fits {
                break;
            }
            at = batch.end();
            batches.push(batch);
        }
        Ok(batches)
    }

    fn batch_at(&self, at: u64, end: u64) -> io::Result<Option<Batch>> {
        let mut head = [0; RECORD as usize];
        if at + RECORD > end || !read(&self.shared, &mut head, at)? {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let sort = match word(32) {
            0 => Sort::News,
            1 => Sort::State,
            2 => Sort::StateEnd,
            _ => return Ok(None),
        };
        let batch = Batch { at, number: word(8), mark: word(16), count: word(24), sort };
        if head[..4] != MAGIC.to_le_bytes() || batch.count > (end - at) / RECORD - 1 {
            return Ok(None);
        }
        let mut sum = crc32c::crc32c(&head[8..]);
        let mut part = vec![0; (1 << 20).min((batch.count * RECORD) as usize)];
        let mut from = at + RECORD;
        while from < batch.end() {
            let count = (batch.end() - from).min(part.len() as u64) as usize;
            if !read(&self.shared, &mut part[..count], from)? {
                return Ok(None);
            }
            sum = crc32c::crc32c_append(sum, &part[..count]);
            from += count as u64;
        }
        Ok((head[4..8] == sum.to_le_bytes()).then_some(batch))
    }

    fn read_records(&self, batch: &Batch, records: &mut Vec<Record>) -> io::Result<()> {
        let mut bytes = vec![0; (batch.count * RECORD) as usize];
        self.shared.file.read_exact_at(&mut bytes, batch.at + RECORD)?;
        records.clear();
        for bytes in bytes.chunks_exact(RECORD as usize) {
            let unknown = || io::Error::new(io::ErrorKind::InvalidData, "a record of no known kind");
            records.push(Record::read(bytes).ok_or_else(unknown)?);
        }
        Ok(())
    }
}

/// Reads all of `into`; false where the file ends before.
fn read(shared: &Shared, into: &mut [u8], at: u64) -> io::Result<bool> {
    match shared.file.read_exact_at(into, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
