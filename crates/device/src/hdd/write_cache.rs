//! The volatile write cache: writes that were acknowledged and are not on the disk yet.
//!
//! Extents wait in the order of their blocks and do not overlap: a newer write takes over what it covers of an older one.
//! They go to the disk in the order of an elevator that always goes inwards and starts again at the outermost (C-LOOK),
//! so that neighbours follow each other without a movement of the arm.
//!
//! Cost: a binary search and a move of up to `commands` entries for each write. RAM: 56 bytes for each command.

use nandu_base::{ByteLen, Instant, Payload, PayloadPool, SECTOR, TenantId};

/// What a write cache is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteCacheSpec {
    /// Blocks that it holds.
    pub blocks: u64,
    /// Writes that it holds.
    pub commands: u32,
}

/// An extent that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirty {
    /// First block.
    pub first: u64,
    /// One past the last.
    pub end: u64,
    /// Its data; the cache is one of its holders.
    pub payload: Payload,
    /// The arm may set off from here on.
    pub ready: Instant,
    /// When its data begins to come, and when all of it is there.
    pub data: (Instant, Instant),
    /// Whose write it was.
    pub cause: TenantId,
}

/// The extents.
#[derive(Clone, Debug, Default)]
pub struct WriteCache {
    extents: Vec<Dirty>,
    blocks: u64,
}

impl WriteCache {
    /// An empty cache with room for the entries of `spec` and one that is split.
    pub fn new(spec: Option<&WriteCacheSpec>) -> WriteCache {
        let commands = spec.map_or(0, |s| s.commands as usize + 1);
        WriteCache { extents: Vec::with_capacity(commands), blocks: 0 }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Extents that wait.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Blocks that wait.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Whether a write of `blocks` fits beside what waits.
    pub fn has_room(&self, spec: &WriteCacheSpec, blocks: u64) -> bool {
        self.extents.len() < spec.commands as usize && self.blocks + blocks <= spec.blocks
    }

    /// The first extent that ends after `block`.
    fn after(&self, block: u64) -> usize {
        self.extents.partition_point(|e| e.end <= block)
    }

    /// An extent that overlaps `first..end`.
    #[inline]
    pub fn overlapping(&self, first: u64, end: u64) -> Option<usize> {
        let at = self.after(first);
        self.extents.get(at).filter(|e| e.first < end).map(|_| at)
    }

    /// The first block at or after `block` that waits.
    #[inline]
    pub fn next_dirty(&self, block: u64) -> Option<u64> {
        self.extents.get(self.after(block)).map(|e| e.first.max(block))
    }

    /// The end of the last extent that lies before `block`.
    #[inline]
    pub fn dirty_before(&self, block: u64) -> Option<u64> {
        self.after(block).checked_sub(1).map(|at| self.extents[at].end)
    }

    /// Adds an extent over what waited there.
    pub fn put(&mut self, extent: Dirty, pool: &mut PayloadPool) {
        self.discard(extent.first, extent.end, pool);
        pool.keep(extent.payload);
        let at = self.after(extent.first);
        self.blocks += extent.end - extent.first;
        self.extents.insert(at, extent);
    }

    /// What waits of `first..end` is given up: something newer takes its place.
    pub fn discard(&mut self, first: u64, end: u64, pool: &mut PayloadPool) {
        while let Some(at) = self.overlapping(first, end) {
            let old = self.extents.remove(at);
            self.blocks -= old.end - old.first;
            let mut keep = |from: u64, to: u64, at: usize| {
                let payload = old.payload.slice(ByteLen((from - old.first) * SECTOR));
                pool.keep(payload);
                self.blocks += to - from;
                self.extents.insert(at, Dirty { first: from, end: to, payload, ..old });
            };
            if old.end > end {
                keep(end, old.end, at);
            }
            if old.first < first {
                keep(old.first, first, at);
            }
            pool.release(old.payload);
        }
    }

    /// The place of the extent that the elevator comes to next from `block`.
    #[inline]
    pub fn next_from(&self, block: u64) -> usize {
        let at = self.extents.partition_point(|e| e.first < block);
        if at == self.extents.len() { 0 } else { at }
    }

    /// Takes an extent out. The caller releases its payload.
    #[inline]
    pub fn take(&mut self, at: usize) -> Dirty {
        let extent = self.extents.remove(at);
        self.blocks -= extent.end - extent.first;
        extent
    }

    /// When the arm may set off for the extent at `at`.
    #[inline]
    pub fn ready(&self, at: usize) -> Instant {
        self.extents[at].ready
    }

    /// Whether the extents are in order and counted.
    pub fn is_sound(&self) -> bool {
        let sum: u64 = self.extents.iter().map(|e| e.end - e.first).sum();
        sum == self.blocks
            && self.extents.iter().all(|e| e.first < e.end)
            && self.extents.windows(2).all(|w| w[0].end <= w[1].first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Content, Rng, Stamp};

    fn extent(first: u64, count: u64, serial: u32) -> Dirty {
        Dirty {
            first,
            end: first + count,
            payload: Payload::run(Stamp::new(serial, first)),
            ready: Instant::ZERO,
            data: (Instant::ZERO, Instant::ZERO),
            cause: TenantId::SYSTEM,
        }
    }

    #[test]
    fn the_newest_write_of_each_block_waits() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let mut pool = PayloadPool::new(Content::Stamps);
            let (mut cache, mut plain) = (WriteCache::default(), vec![0u32; 60]);
            for serial in 1..60 {
                let (first, count) = (rng.below(50), rng.between(1, 10));
                let blocks = first as usize..(first + count) as usize;
                if rng.below(5) == 0 {
                    cache.discard(first, first + count, &mut pool);
                    plain[blocks].fill(0);
                } else {
                    cache.put(extent(first, count, serial), &mut pool);
                    plain[blocks].fill(serial);
                }
                assert!(cache.is_sound(), "seed {seed}");
                let waits = plain.iter().filter(|&&s| s > 0).count() as u64;
                assert_eq!(cache.blocks(), waits, "seed {seed}");
                let probe = rng.below(60);
                let next = (probe..60).find(|&b| plain[b as usize] > 0);
                assert_eq!(cache.next_dirty(probe), next, "seed {seed}, from {probe}");
            }
            let mut found = vec![0u32; 60];
            while !cache.is_empty() {
                let e = cache.take(cache.next_from(rng.below(60)));
                for block in e.first..e.end {
                    let Some(nandu_base::Sector::Stamp(stamp)) = pool.sector(e.payload, block - e.first)
                    else {
                        panic!("stamps")
                    };
                    assert_eq!(u64::from(stamp.sector()), block, "seed {seed}");
                    found[block as usize] = stamp.serial();
                }
            }
            assert_eq!(found, plain, "seed {seed}");
        }
    }

    #[test]
    fn the_elevator_goes_inwards_and_starts_again() {
        let mut pool = PayloadPool::new(Content::Nothing);
        let mut cache = WriteCache::default();
        for first in [500, 100, 900, 300] {
            cache.put(extent(first, 8, 1), &mut pool);
        }
        let mut at = 350;
        let mut order = Vec::new();
        while !cache.is_empty() {
            let e = cache.take(cache.next_from(at));
            order.push(e.first);
            at = e.end;
        }
        assert_eq!(order, [500, 900, 100, 300]);
    }
}
