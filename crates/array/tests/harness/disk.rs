//! A leg for tests: a drive with a volatile cache, random delays, and everything that can go wrong with it.
//!
//! The disk outlives its machine, as a real one does. A write takes effect when it completes; until a flush that was
//! issued later is done it may be lost, sector by sector. A flush makes durable exactly what was complete when it was
//! issued: the least that a drive may do.

use nandu_base::{
    ByteLen, Cx, DeviceEvent, ErrorKind, Flags, Instant, IoError, Limits, Machine, Op, Payload, PayloadPool,
    ReqId, Rng, SECTOR, Sector, Stamp, Step, TimerKey,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What a sector holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    Stamp(Stamp),
    Bytes(Arc<[u8; SECTOR as usize]>),
}

const ZERO: Cell = Cell::Stamp(Stamp::ZERO);

/// A write that did not survive a flush yet: its position in the order of completions, and the data.
type Version = (u64, Cell);

/// Whether a cut may take back some data sector: this one, or none when so many writes were complete.
#[derive(Clone, Copy, Debug)]
enum Unflushed {
    At(u64),
    None { completed: u64 },
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub size: ByteLen,
    durable: BTreeMap<u64, Cell>,
    cache: BTreeMap<u64, Vec<Version>>,
    completed: u64,
    /// What was found last time.
    unflushed: Unflushed,
    pub rng: Rng,
    /// Longest delay of a request.
    pub delay: u64,
    /// Answers nothing before this time.
    pub frozen_until: Instant,
    /// Two changes of one sector were under way at once.
    pub met: bool,
    /// Does not answer.
    pub lost: bool,
    /// Sectors that cannot be read until they are written.
    pub bad: BTreeSet<u64>,
    /// The next so many writes of data fail.
    pub fail_writes: u32,
    /// Sectors that cannot be written.
    pub rejects: BTreeSet<u64>,
    /// The next flush fails.
    pub fail_flush: bool,
    /// The next so many writes of records fail.
    pub fail_records: u32,
    /// First sector behind the data.
    pub data_end: u64,
    /// Requests under way: what they would do.
    pending: BTreeMap<u32, Pending>,
    pub trims_unsupported: bool,
    /// Reads return zeros, as in a simulation that stores nothing.
    pub forgets: bool,
}

#[derive(Clone, Debug)]
struct Pending {
    id: ReqId,
    op: Op,
    fua: bool,
    first: u64,
    cells: Vec<Cell>,
    count: u64,
    /// Completions that a flush covers.
    covers: u64,
}

pub type Shared = Arc<Mutex<Disk>>;

impl Disk {
    pub fn new(size: ByteLen, data_end: ByteLen, seed: u64) -> Disk {
        Disk {
            size,
            durable: BTreeMap::new(),
            cache: BTreeMap::new(),
            completed: 0,
            unflushed: Unflushed::None { completed: 0 },
            rng: Rng::new(seed),
            delay: 1000,
            frozen_until: Instant::ZERO,
            met: false,
            lost: false,
            bad: BTreeSet::new(),
            fail_writes: 0,
            rejects: BTreeSet::new(),
            fail_flush: false,
            fail_records: 0,
            data_end: data_end.sectors(),
            pending: BTreeMap::new(),
            trims_unsupported: false,
            forgets: false,
        }
    }

    /// What the medium holds, as a copy that somebody makes of it while nothing uses it.
    pub fn copy(&self) -> Disk {
        assert!(self.pending.is_empty(), "it is in use");
        self.clone()
    }

    /// What a read would return now.
    pub fn now(&self, sector: u64) -> &Cell {
        match self.cache.get(&sector).and_then(|v| v.last()) {
            Some((_, cell)) => cell,
            None => self.durable.get(&sector).unwrap_or(&ZERO),
        }
    }

    /// Requests under way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Requests for data under way.
    pub fn data_under_way(&self) -> usize {
        let is_data = |p: &&Pending| p.op != Op::Flush && p.first < self.data_end;
        self.pending.values().filter(is_data).count()
    }

    /// A sector changes by itself, and says nothing.
    pub fn rot(&mut self, sector: u64) {
        self.cache.remove(&sector);
        self.durable.insert(sector, Cell::Stamp(Stamp::new(77, sector)));
    }

    /// A data sector that a cut may take back. It is asked after each event: only a write that has reached the cache can make one where
    /// there was none, and one that was found mostly stays.
    pub fn unflushed(&mut self) -> Option<u64> {
        let differs = |(s, versions): (&u64, &Vec<Version>)| {
            let durable = self.durable.get(s).unwrap_or(&ZERO);
            versions.iter().any(|(_, cell)| cell != durable).then_some(*s)
        };
        self.unflushed = match self.unflushed {
            Unflushed::None { completed } if completed == self.completed => return None,
            Unflushed::At(s) if self.cache.get_key_value(&s).and_then(differs).is_some() => return Some(s),
            _ => match self.cache.range(..self.data_end).find_map(differs) {
                Some(s) => Unflushed::At(s),
                None => Unflushed::None { completed: self.completed },
            },
        };
        match self.unflushed {
            Unflushed::At(s) => Some(s),
            Unflushed::None { .. } => None,
        }
    }

    /// Sectors that were ever written.
    pub fn touched(&self) -> BTreeSet<u64> {
        self.durable.keys().chain(self.cache.keys()).copied().collect()
    }

    /// The record at byte `at` as it would be read now.
    pub fn record(&self, at: u64) -> Vec<u8> {
        let mut out = vec![0; 4096];
        for i in 0..8 {
            if let Cell::Bytes(bytes) = self.now(at / SECTOR + i) {
                out[i as usize * 512..][..512].copy_from_slice(&bytes[..]);
            }
        }
        out
    }

    /// Puts a record at byte `at`, durably.
    pub fn put_record(&mut self, at: u64, record: &[u8]) {
        for (sector, bytes) in (at / SECTOR..).zip(record.chunks_exact(SECTOR as usize)) {
            self.cache.remove(&sector);
            self.durable.insert(sector, Cell::Bytes(Arc::new(bytes.try_into().expect("a sector"))));
        }
    }

    pub fn wipe(&mut self) {
        self.durable.clear();
        self.cache.clear();
        self.bad.clear();
    }

    /// Fills every data sector with rubbish, as a used drive has it.
    pub fn soil(&mut self, salt: u32) {
        for s in 0..self.data_end {
            self.durable.insert(s, Cell::Stamp(Stamp::new(salt, s)));
        }
    }

    /// Fills sectors that were never written, as a used drive has them.
    pub fn soil_unwritten(&mut self, sectors: std::ops::Range<u64>, salt: u32) {
        for s in sectors {
            self.durable.entry(s).or_insert_with(|| Cell::Stamp(Stamp::new(salt, s)));
        }
    }

    /// One bit of a record's sector turns over; a sector that was never written is zeros.
    pub fn flip_record(&mut self, sector: u64, bit: u64) {
        let mut bytes = [0; SECTOR as usize];
        if let Cell::Bytes(found) = self.now(sector) {
            bytes = **found;
        }
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        self.cache.remove(&sector);
        self.durable.insert(sector, Cell::Bytes(Arc::new(bytes)));
    }

    /// A sector of a record becomes rubbish.
    pub fn scribble(&mut self, sector: u64) {
        self.durable.insert(sector, Cell::Bytes(Arc::new([0x5A; SECTOR as usize])));
    }

    fn put(&mut self, sector: u64, cell: Cell) {
        self.completed += 1;
        self.bad.remove(&sector);
        self.cache.entry(sector).or_default().push((self.completed, cell));
    }

    fn settle(&mut self, upto: u64) {
        for (sector, versions) in &mut self.cache {
            let n = versions.iter().take_while(|(at, _)| *at <= upto).count();
            if let Some((_, cell)) = versions.drain(..n).next_back() {
                self.durable.insert(*sector, cell);
            }
        }
        self.cache.retain(|_, v| !v.is_empty());
    }

    /// What was under way reached the cache or not, sector by sector.
    fn tear_pending(&mut self) {
        for (_, p) in std::mem::take(&mut self.pending) {
            for (i, cell) in p.cells.into_iter().enumerate() {
                if self.rng.below(2) == 0 {
                    self.put(p.first + i as u64, cell);
                }
            }
        }
    }

    /// What is under way will not reach the medium.
    pub fn hold_back(&mut self) {
        self.pending.values_mut().for_each(|p| p.cells.clear());
    }

    /// The process dies; the drive keeps its power.
    pub fn orphan(&mut self) {
        self.tear_pending();
    }

    /// Power is cut: of every sector any version since the last flush is left. Records may be torn inside a sector.
    pub fn cut(&mut self) {
        self.tear_pending();
        for (sector, versions) in std::mem::take(&mut self.cache) {
            let pick = self.rng.below(versions.len() as u64 + 1) as usize;
            let mut cell = match pick.checked_sub(1) {
                Some(i) => versions[i].1.clone(),
                None => continue,
            };
            // A first superblock that is torn inside its sector is refused as foreign; nothing was promised by then.
            let first = sector >= (self.size.0 - (68 << 10)) / SECTOR && !self.durable.contains_key(&sector);
            if let (Cell::Bytes(_), true) =
                (&cell, sector >= self.data_end && !first && self.rng.below(8) == 0)
            {
                cell = Cell::Bytes(Arc::new([0xA5; SECTOR as usize]));
            }
            self.durable.insert(sector, cell);
        }
    }
}

/// The machine of a [`Disk`].
pub struct Leg {
    pub disk: Shared,
    limits: Limits,
    next: u32,
    free: Vec<u32>,
}

impl Leg {
    pub fn new(disk: Shared) -> Leg {
        let limits = Leg::limits_of(&disk.lock().expect("no panic inside"));
        Leg { disk, limits, next: 0, free: Vec::new() }
    }

    pub fn limits_of(disk: &Disk) -> Limits {
        Limits { volatile_cache: true, max_io: ByteLen::mib(1), ..Limits::plain(disk.size) }
    }
}

fn cells_of(id: ReqId, cx: &Cx<'_>) -> Vec<Cell> {
    let r = &cx.requests[id];
    let count = r.len.sectors();
    match r.op {
        Op::Write => (0..count)
            .map(|i| match cx.pool.sector(r.payload, i) {
                Some(Sector::Stamp(stamp)) => Cell::Stamp(stamp),
                Some(Sector::Bytes(b)) => Cell::Bytes(Arc::new(b.try_into().expect("a sector"))),
                None => ZERO,
            })
            .collect(),
        Op::Trim | Op::WriteZeroes => vec![ZERO; count as usize],
        _ => Vec::new(),
    }
}

impl Machine for Leg {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&mut self, _: nandu_base::OpenOptions, cx: &mut Cx<'_>) -> Step {
        if !self.disk.lock().expect("no panic inside").lost {
            cx.opened(Ok(()));
        } else {
            cx.opened(Err(nandu_base::OpenError::Gone { device: "leg".into() }));
        }
        Step::Idle
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let mut disk = self.disk.lock().expect("no panic inside");
        let r = &cx.requests[id];
        let pending = Pending {
            id,
            op: r.op,
            fua: r.flags.has(Flags::FUA),
            first: r.offset.0 / SECTOR,
            cells: cells_of(id, cx),
            count: r.len.0 / SECTOR,
            covers: disk.completed,
        };
        let change = |p: &Pending| p.op.changes_data();
        let meets =
            |p: &Pending| p.first < pending.first + pending.count && pending.first < p.first + p.count;
        disk.met |= change(&pending) && disk.pending.values().any(|p| change(p) && meets(p));
        disk.pending.insert(slot, pending);
        let delay = 1 + disk.delay;
        let delay = disk.rng.below(delay) + 1;
        cx.wake_at(TimerKey(slot), cx.now + nandu_base::Span(delay));
        Step::Idle
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        let mut disk = self.disk.lock().expect("no panic inside");
        if cx.now < disk.frozen_until && disk.pending.contains_key(&key.0) {
            let after = disk.rng.below(1000);
            cx.wake_at(key, disk.frozen_until + nandu_base::Span(after));
            return Step::Idle;
        }
        let Some(p) = disk.pending.remove(&key.0) else { return Step::Idle };
        self.free.push(key.0);
        let id = p.id;
        cx.requests[id].error = serve(&mut disk, p, cx.requests[id].payload, cx.pool);
        Step::Finish(id)
    }

    fn child_event(&mut self, _: u8, _: DeviceEvent, _: &mut Cx<'_>) -> Step {
        Step::Idle
    }
}

fn serve(disk: &mut Disk, p: Pending, payload: Payload, pool: &mut PayloadPool) -> Option<IoError> {
    let whole = |kind| Some(IoError { kind, at: ByteLen::ZERO, len: ByteLen(p.count * SECTOR) });
    if disk.lost {
        return whole(ErrorKind::Gone);
    }
    match p.op {
        Op::Read => {
            if let Some(bad) = disk.bad.range(p.first..p.first + p.count).next() {
                let at = ByteLen((bad - p.first) * SECTOR);
                return Some(IoError { kind: ErrorKind::Unreadable, at, len: ByteLen(SECTOR) });
            }
            for i in 0..p.count * u64::from(!disk.forgets) {
                match disk.now(p.first + i) {
                    Cell::Stamp(stamp) => pool.put_sector(payload, i, Sector::Stamp(*stamp)),
                    Cell::Bytes(bytes) => pool.put_sector(payload, i, Sector::Bytes(&bytes[..])),
                }
            }
        }
        Op::Flush => {
            if std::mem::take(&mut disk.fail_flush) {
                return whole(ErrorKind::WriteFailed);
            }
            disk.settle(p.covers);
        }
        Op::Trim if disk.trims_unsupported => return whole(ErrorKind::Unsupported),
        Op::Write | Op::Trim | Op::WriteZeroes => {
            let record = p.first >= disk.data_end;
            let left = if record { disk.fail_records } else { disk.fail_writes };
            let is_rejected = disk.rejects.range(p.first..p.first + p.count).next().is_some();
            let fails = left > 0 || is_rejected;
            for (i, cell) in p.cells.into_iter().enumerate() {
                if !fails || disk.rng.below(2) == 0 {
                    disk.put(p.first + i as u64, cell.clone());
                    if p.fua && !fails {
                        disk.cache.remove(&(p.first + i as u64));
                        disk.durable.insert(p.first + i as u64, cell);
                    }
                }
            }
            if fails {
                *(if record { &mut disk.fail_records } else { &mut disk.fail_writes }) =
                    left.saturating_sub(1);
                return whole(ErrorKind::WriteFailed);
            }
        }
        Op::Reset => return whole(ErrorKind::Unsupported),
    }
    None
}

/// The drive goes away: its cache is lost.
pub fn lose(disk: &Shared) {
    let mut disk = disk.lock().expect("no panic inside");
    disk.lost = true;
    let pending: Vec<(u64, Vec<Cell>)> =
        disk.pending.values_mut().map(|p| (p.first, p.cells.clone())).collect();
    for (first, cells) in pending {
        for (i, cell) in cells.into_iter().enumerate() {
            if disk.rng.below(3) == 0 {
                disk.put(first + i as u64, cell);
            }
        }
    }
    let kept = std::mem::take(&mut disk.pending);
    disk.cut();
    disk.pending = kept; // they come back as Gone
}
