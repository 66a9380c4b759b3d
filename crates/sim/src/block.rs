//! The block medium of the simulator: what stands behind a `file` or `memory` leaf.
//!
//! A request takes the leaf's latency, then its data moves at the leaf's bandwidth; data of different requests take turns.
//! A write reaches the medium when it is complete. A power cut tears what was under way: each sector of an unfinished
//! write is old or new, and one that holds real bytes may be torn inside.
//!
//! In the verified simulation a medium may be *cached*, as a file is by the page cache: what was written since the last
//! flush survives the death of the process, and a power cut brings back any of it.
//!
//! RAM: stamps are kept in chunks of 1 MiB of the device (16 KiB each) that exist once written; metadata takes its bytes.

use nandu_base::{
    BlockSpec, ByteLen, ErrorKind, Flags, Instant, Op, PayloadPool, Phase, ReqId, Request, RequestTable, Rng,
    SECTOR, Sector, Stamp,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

const CHUNK_SECTORS: u64 = 2048;

/// Contents and timeline of one block leaf.
#[derive(Clone)]
pub struct BlockMedium {
    spec: BlockSpec,
    free_at: Instant,
    stamps: Vec<Option<Box<[Stamp]>>>,
    /// Sectors that hold real bytes: metadata.
    bytes: BTreeMap<u64, Box<[u8; SECTOR as usize]>>,
    /// Requests being served, in the order in which they will be complete.
    under_way: VecDeque<ReqId>,
    cache: Option<Cache>,
}

/// What a power cut may bring back.
#[derive(Clone, Default)]
struct Cache {
    /// Writes that have ended.
    ends: u64,
    /// By sector: what it held when it was last flushed, and the end of its newest write.
    before: BTreeMap<u64, (Held, u64)>,
    /// Flushes under way, with `ends` as they came.
    flushes: Vec<(ReqId, u64)>,
}

/// Chunks of a medium.
fn chunks(capacity: ByteLen) -> usize {
    capacity.0.div_ceil(CHUNK_SECTORS * SECTOR) as usize
}

/// What a sector holds.
#[derive(Clone)]
enum Held {
    Stamp(Stamp),
    Bytes(Box<[u8; SECTOR as usize]>),
}

impl BlockMedium {
    /// Becomes a medium on which nothing was ever written. Nothing may be under way.
    pub fn blank(&mut self) {
        assert!(self.under_way.is_empty(), "a medium is replaced while requests are under way");
        self.stamps.fill(None);
        self.bytes.clear();
        self.cache = self.cache.take().map(|_| Cache::default());
    }

    /// Whether something is being cleared: by a trim, or by a write of bytes that are all zeros, as over the header of a unit.
    pub fn is_clearing(&self, requests: &RequestTable, pool: &PayloadPool) -> bool {
        self.under_way.iter().map(|&id| &requests[id]).any(|request| match request.op {
            Op::Trim | Op::WriteZeroes => true,
            Op::Write => match pool.sector(request.payload, 0) {
                Some(Sector::Bytes(bytes)) => bytes.iter().all(|&byte| byte == 0),
                _ => false,
            },
            _ => false,
        })
    }

    /// Becomes longer, by what was never written.
    pub fn lengthen(&mut self, capacity: ByteLen) {
        self.spec.capacity = self.spec.capacity.max(capacity);
        self.stamps.resize(chunks(self.spec.capacity), None);
    }

    /// Durably becomes zeros here. Nothing may be under way.
    pub fn zero(&mut self, bytes: Range<u64>) {
        assert!(self.under_way.is_empty(), "a medium is zeroed while requests are under way");
        for sector in bytes.start / SECTOR..bytes.end / SECTOR {
            self.put(sector, Stamp::ZERO);
            self.cache.iter_mut().for_each(|cache| drop(cache.before.remove(&sector)));
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// An empty medium.
    pub fn new(spec: &BlockSpec) -> BlockMedium {
        BlockMedium {
            spec: spec.clone(),
            free_at: Instant::ZERO,
            stamps: vec![None; chunks(spec.capacity)],
            bytes: BTreeMap::new(),
            under_way: VecDeque::new(),
            cache: None,
        }
    }

    /// From here on what is written may come undone until it is flushed.
    pub fn cached(&mut self) {
        self.cache = Some(Cache::default());
    }

    /// Takes a request; returns when it will be complete.
    pub fn begin(&mut self, id: ReqId, now: Instant, requests: &mut RequestTable) -> Instant {
        let request = &mut requests[id];
        let transfer = self.spec.transfer(request.op, request.len);
        let end = (now + self.spec.latency).later(self.free_at) + transfer;
        self.free_at = end;
        request.path.add(Phase::Device, end.since(now));
        self.under_way.push_back(id);
        if let (Some(cache), Op::Flush) = (&mut self.cache, request.op) {
            cache.flushes.push((id, cache.ends));
        }
        end
    }

    /// The request is complete: moves its data.
    pub fn end(&mut self, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool) {
        // The first, unless a driver holds back the end of one.
        let at = self.under_way.iter().position(|&other| other == id).expect("it is under way");
        self.under_way.remove(at);
        let request = &mut requests[id];
        if request.end().0 > self.spec.capacity.0 {
            request.fail(ErrorKind::BadExtent);
            return;
        }
        match request.op {
            Op::Read => self.read(request, pool),
            Op::Write | Op::Trim | Op::WriteZeroes => {
                let stores = request.op == Op::Write && !request.payload.is_none();
                if stores || self.cache.is_some() {
                    self.change(request, pool, |_| true);
                } else {
                    self.clear(request);
                }
                self.force(request);
            }
            Op::Flush => self.flushed(id),
            Op::Reset => request.fail(ErrorKind::Unsupported),
        }
    }

    /// Stores nothing in all sectors of a request: what the plain simulation writes, and what is trimmed.
    fn clear(&mut self, request: &Request) {
        let (mut at, end) = (request.offset.sector(), request.end().0.div_ceil(SECTOR));
        while let Some((&sector, _)) = self.bytes.range(at..end).next() {
            self.bytes.remove(&sector);
        }
        while at < end {
            let (chunk, from) = (at / CHUNK_SECTORS, at % CHUNK_SECTORS);
            let to = (from + end - at).min(CHUNK_SECTORS);
            if let Some(stamps) = &mut self.stamps[chunk as usize] {
                stamps[from as usize..to as usize].fill(Stamp::ZERO);
            }
            at += to - from;
        }
    }

    fn read(&self, request: &Request, pool: &mut PayloadPool) {
        if request.payload.is_none() {
            return;
        }
        let first = request.offset.sector();
        for i in 0..request.len.sectors() {
            match self.bytes.get(&(first + i)) {
                Some(bytes) => pool.put_sector(request.payload, i, Sector::Bytes(&bytes[..])),
                None => pool.put_sector(request.payload, i, Sector::Stamp(self.stamp(first + i))),
            }
        }
    }

    fn stamp(&self, sector: u64) -> Stamp {
        let chunk = self.stamps[(sector / CHUNK_SECTORS) as usize].as_ref();
        chunk.map_or(Stamp::ZERO, |c| c[(sector % CHUNK_SECTORS) as usize])
    }

    /// Stores the sectors of a write or trim for which `reaches` holds.
    fn change(&mut self, request: &Request, pool: &PayloadPool, mut reaches: impl FnMut(u64) -> bool) {
        let first = request.offset.sector();
        let stores = request.op == Op::Write;
        if let Some(cache) = &mut self.cache {
            cache.ends += 1;
        }
        for i in (0..request.len.sectors()).filter(|&i| reaches(i)) {
            let sector = first + i;
            self.remember(sector);
            match pool.sector(request.payload, i).filter(|_| stores) {
                Some(Sector::Bytes(bytes)) => {
                    self.bytes.insert(sector, Box::new(bytes.try_into().expect("a sector has 512 bytes")));
                }
                Some(Sector::Stamp(stamp)) => self.put(sector, stamp),
                None => self.put(sector, Stamp::ZERO),
            }
        }
    }

    /// A write with FUA is durable.
    fn force(&mut self, request: &Request) {
        if let (Some(cache), true) = (&mut self.cache, request.flags.has(Flags::FUA)) {
            let first = request.offset.sector();
            (first..first + request.len.sectors()).for_each(|sector| drop(cache.before.remove(&sector)));
        }
    }

    /// What had ended when the flush came is durable. So is, of a sector that was written since, the newest: what it held
    /// in between is not kept.
    fn flushed(&mut self, id: ReqId) {
        let Some(cache) = &mut self.cache else { return };
        let at = cache.flushes.iter().position(|&(flush, _)| flush == id).expect("the flush came");
        let (_, ends) = cache.flushes.swap_remove(at);
        cache.before.retain(|_, (_, first)| *first > ends);
    }

    fn remember(&mut self, sector: u64) {
        let Some(cache) = &mut self.cache else { return };
        let held = match self.bytes.get(&sector) {
            Some(bytes) => Held::Bytes(bytes.clone()),
            None => {
                let chunk = self.stamps[(sector / CHUNK_SECTORS) as usize].as_ref();
                Held::Stamp(chunk.map_or(Stamp::ZERO, |c| c[(sector % CHUNK_SECTORS) as usize]))
            }
        };
        cache.before.entry(sector).or_insert((held, cache.ends));
    }

    fn put(&mut self, sector: u64, stamp: Stamp) {
        self.bytes.remove(&sector);
        let chunk = &mut self.stamps[(sector / CHUNK_SECTORS) as usize];
        if chunk.is_none() && stamp == Stamp::ZERO {
            return;
        }
        let chunk = chunk.get_or_insert_with(|| vec![Stamp::ZERO; CHUNK_SECTORS as usize].into());
        chunk[(sector % CHUNK_SECTORS) as usize] = stamp;
    }

    /// Power is cut: of every write under way each sector reaches the medium or does not, and one of real bytes may be
    /// torn inside.
    pub fn crash(&mut self, requests: &RequestTable, pool: &PayloadPool, rng: &mut Rng) {
        let under_way = self.under_way.clone();
        self.die(requests, pool, rng);
        for (sector, (held, _)) in
            self.cache.as_mut().map(|c| std::mem::take(&mut c.before)).into_iter().flatten()
        {
            if rng.below(2) == 0 {
                match held {
                    Held::Stamp(stamp) => self.put(sector, stamp),
                    Held::Bytes(bytes) => drop(self.bytes.insert(sector, bytes)),
                }
            }
        }
        for request in under_way.into_iter().map(|id| &requests[id]) {
            if request.op == Op::Write && request.end().0 <= self.spec.capacity.0 {
                self.tear(request, pool, rng);
            }
        }
    }

    /// The process dies: of every write under way each sector reaches the medium or does not. A cache stays.
    pub fn die(&mut self, requests: &RequestTable, pool: &PayloadPool, rng: &mut Rng) {
        for id in std::mem::take(&mut self.under_way) {
            let request = &requests[id];
            if request.op.changes_data() && request.end().0 <= self.spec.capacity.0 {
                self.change(request, pool, |_| rng.below(2) == 0);
            }
        }
        if let Some(cache) = &mut self.cache {
            cache.flushes.clear();
        }
        self.free_at = Instant::ZERO;
    }

    /// One sector of real bytes ends with what it held before, or with zeros.
    fn tear(&mut self, request: &Request, pool: &PayloadPool, rng: &mut Rng) {
        let at = rng.below(request.len.sectors() * 2);
        if at < request.len.sectors() {
            let (sector, keep) = (request.offset.sector() + at, rng.below(SECTOR) as usize);
            if let Some(Sector::Bytes(bytes)) = pool.sector(request.payload, at) {
                let old = self.bytes.entry(sector).or_insert_with(|| Box::new([0; SECTOR as usize]));
                old[..keep].copy_from_slice(&bytes[..keep]);
            }
        }
    }

    /// So many bytes at `at` as a machine's metadata: sectors that hold something else read as zeros. `None` beyond the end.
    pub fn metadata(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let blank = [0; SECTOR as usize];
        let sectors = at / SECTOR..(at + len) / SECTOR;
        let sector = |sector| self.bytes.get(&sector).map_or(&blank[..], |bytes| &bytes[..]);
        (at + len <= self.spec.capacity.0).then(|| sectors.flat_map(|at| sector(at).to_vec()).collect())
    }

    /// What a sector holds, for checks that compare media: its stamp, or [`Stamp::METADATA`].
    pub fn look(&self, sector: u64) -> Stamp {
        if self.bytes.contains_key(&sector) { Stamp::METADATA } else { self.stamp(sector) }
    }
}
