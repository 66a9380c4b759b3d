//! The block medium of the simulator: what stands behind a `file` or `memory` leaf.
//!
//! A request takes the leaf's latency, then its data moves at the leaf's bandwidth; data of different requests take turns.
//! A write reaches the medium when it is complete. A power cut tears what was under way: each sector of an unfinished
//! write is old or new.
//!
//! RAM: stamps are kept in chunks of 1 MiB of the device (16 KiB each) that exist once written; metadata takes its bytes.

use nandu_base::{
    BlockSpec, ByteLen, ErrorKind, Instant, Op, PayloadPool, Phase, ReqId, Request, RequestTable, Rng,
    Sector, Span, Stamp, SECTOR,
};
use std::collections::BTreeMap;

const CHUNK_SECTORS: u64 = 2048;

/// Contents and timeline of one block leaf.
pub struct BlockMedium {
    latency: Span,
    bytes_per_second: u64,
    free_at: Instant,
    capacity: ByteLen,
    stamps: Vec<Option<Box<[Stamp]>>>,
    /// Sectors that hold real bytes: metadata.
    bytes: BTreeMap<u64, Box<[u8; SECTOR as usize]>>,
    /// Requests being served, in the order in which they will be complete.
    under_way: Vec<ReqId>,
}

impl BlockMedium {
    /// An empty medium.
    pub fn new(spec: &BlockSpec) -> BlockMedium {
        let chunks = spec.capacity.0.div_ceil(CHUNK_SECTORS * SECTOR) as usize;
        BlockMedium {
            latency: spec.latency,
            bytes_per_second: spec.bytes_per_second.max(1),
            free_at: Instant::ZERO,
            capacity: spec.capacity,
            stamps: vec![None; chunks],
            bytes: BTreeMap::new(),
            under_way: Vec::new(),
        }
    }

    /// Takes a request; returns when it will be complete.
    pub fn begin(&mut self, id: ReqId, now: Instant, requests: &mut RequestTable) -> Instant {
        let request = &mut requests[id];
        let moved = match request.op {
            Op::Read | Op::Write => request.len.0,
            _ => 0,
        };
        let transfer = u128::from(moved) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let end = (now + self.latency).later(self.free_at) + Span(transfer as u64);
        self.free_at = end;
        request.path.add(Phase::Device, end.since(now));
        self.under_way.push(id);
        end
    }

    /// The request is complete: moves its data.
    pub fn end(&mut self, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool) {
        self.under_way.retain(|&other| other != id);
        let request = &mut requests[id];
        if request.end().0 > self.capacity.0 {
            request.fail(ErrorKind::BadExtent);
            return;
        }
        match request.op {
            Op::Read => self.read(request, pool),
            Op::Write | Op::Trim | Op::WriteZeroes => self.change(request, pool, |_| true),
            Op::Flush => {}
            Op::Reset => request.fail(ErrorKind::Unsupported),
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
        for i in (0..request.len.sectors()).filter(|&i| reaches(i)) {
            let sector = first + i;
            match pool.sector(request.payload, i).filter(|_| stores) {
                Some(Sector::Bytes(bytes)) => {
                    self.bytes.insert(sector, Box::new(bytes.try_into().expect("a sector has 512 bytes")));
                }
                Some(Sector::Stamp(stamp)) => self.put(sector, stamp),
                None => self.put(sector, Stamp::ZERO),
            }
        }
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

    /// Power is cut: of every write under way each sector reaches the medium or does not.
    pub fn crash(&mut self, requests: &RequestTable, pool: &PayloadPool, rng: &mut Rng) {
        for id in std::mem::take(&mut self.under_way) {
            let request = &requests[id];
            if request.op.changes_data() && request.end().0 <= self.capacity.0 {
                self.change(request, pool, |_| rng.below(2) == 0);
            }
        }
        self.free_at = Instant::ZERO;
    }

    /// What a sector holds, for checks that compare media: its stamp, or [`Stamp::METADATA`].
    pub fn look(&self, sector: u64) -> Stamp {
        if self.bytes.contains_key(&sector) {
            Stamp::METADATA
        } else {
            self.stamp(sector)
        }
    }
}
