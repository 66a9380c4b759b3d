//! What the sectors of a disk hold: its computed medium.
//!
//! Writes are applied when they are issued; until their window has passed, the medium remembers what they replaced. A power
//! cut undoes what had not begun. Of a write that was under way each sector is old or new, by a coin: a track may be
//! written in any order, and one sector is never torn, for its check code tells a half-written one, which the drive
//! finishes from what it holds or leaves.
//!
//! RAM: stamps are kept in chunks of 1 MiB of the disk (16 KiB each) that exist once written; metadata takes its bytes.

use nandu_base::{
    Instant, Medium, Oob, Payload, PayloadPool, Program, Rng, SECTOR, Sector, Stamp, UnitState, Window,
};
use std::collections::{BTreeMap, VecDeque};

const CHUNK_SECTORS: u64 = 2048;

/// What one sector holds.
#[derive(Clone, Debug)]
enum Held {
    Stamp(Stamp),
    Bytes(Box<[u8; SECTOR as usize]>),
}

/// A write that may not be complete.
#[derive(Clone, Debug)]
struct Unsettled {
    window: Window,
    first: u64,
    before: Vec<Held>,
}

/// The contents of a disk.
#[derive(Clone, Debug)]
pub struct Platter {
    stamps: Vec<Option<Box<[Stamp]>>>,
    /// Sectors that hold real bytes.
    bytes: BTreeMap<u64, Box<[u8; SECTOR as usize]>>,
    unsettled: VecDeque<Unsettled>,
}

impl Platter {
    /// A disk of `sectors` sectors of zeros.
    pub fn new(sectors: u64) -> Platter {
        let chunks = sectors.div_ceil(CHUNK_SECTORS) as usize;
        Platter { stamps: vec![None; chunks], bytes: BTreeMap::new(), unsettled: VecDeque::new() }
    }

    fn stamp(&self, sector: u64) -> Stamp {
        let chunk = self.stamps[(sector / CHUNK_SECTORS) as usize].as_ref();
        chunk.map_or(Stamp::ZERO, |c| c[(sector % CHUNK_SECTORS) as usize])
    }

    fn held(&self, sector: u64) -> Held {
        match self.bytes.get(&sector) {
            Some(bytes) => Held::Bytes(bytes.clone()),
            None => Held::Stamp(self.stamp(sector)),
        }
    }

    fn put(&mut self, sector: u64, held: Held) {
        let stamp = match held {
            Held::Bytes(bytes) => {
                self.bytes.insert(sector, bytes);
                return;
            }
            Held::Stamp(stamp) => stamp,
        };
        if !self.bytes.is_empty() {
            self.bytes.remove(&sector);
        }
        let chunk = &mut self.stamps[(sector / CHUNK_SECTORS) as usize];
        if chunk.is_some() || stamp != Stamp::ZERO {
            let chunk = chunk.get_or_insert_with(|| vec![Stamp::ZERO; CHUNK_SECTORS as usize].into());
            chunk[(sector % CHUNK_SECTORS) as usize] = stamp;
        }
    }
}

impl Medium for Platter {
    fn write(&mut self, pool: &PayloadPool, first: u64, count: u64, payload: Payload, window: Window) {
        if window.end > window.start {
            let before = (first..first + count).map(|sector| self.held(sector)).collect();
            self.unsettled.push_back(Unsettled { window, first, before });
        }
        for i in 0..count {
            let held = match pool.sector(payload, i) {
                None => Held::Stamp(Stamp::ZERO),
                Some(Sector::Stamp(stamp)) => Held::Stamp(stamp),
                Some(Sector::Bytes(bytes)) => {
                    Held::Bytes(Box::new(bytes.try_into().expect("a sector has 512 bytes")))
                }
            };
            self.put(first + i, held);
        }
    }

    fn read(&mut self, pool: &mut PayloadPool, unit: u64, first: u32, count: u32, into: Payload) -> bool {
        let start = unit + u64::from(first);
        for i in 0..u64::from(count) {
            match self.bytes.get(&(start + i)) {
                Some(bytes) => pool.put_sector(into, i, Sector::Bytes(&bytes[..])),
                None => pool.put_sector(into, i, Sector::Stamp(self.stamp(start + i))),
            }
        }
        true
    }

    fn is_blank(&self) -> bool {
        self.bytes.is_empty() && self.stamps.iter().all(Option::is_none)
    }

    fn settle(&mut self, now: Instant) {
        while self.unsettled.front().is_some_and(|u| u.window.end <= now) {
            self.unsettled.pop_front();
        }
    }

    fn copy(&self) -> Option<Box<dyn Medium>> {
        Some(Box::new(self.clone()))
    }

    fn crash(&mut self, at: Instant, rng: &mut Rng) {
        while let Some(Unsettled { window, first, before }) = self.unsettled.pop_back() {
            for (sector, old) in (first..).zip(before) {
                let reached = window.end <= at || (window.start < at && rng.below(2) == 0);
                if !reached {
                    self.put(sector, old);
                }
            }
        }
    }

    fn program(&mut self, _pool: &PayloadPool, program: &Program) {
        unreachable!("a disk is written over, not programmed, at {}", program.unit)
    }

    fn erase(&mut self, first: u64, _units: u64, _window: Window) {
        unreachable!("a disk is not erased, at {first}")
    }

    fn state(&self, _unit: u64) -> UnitState {
        UnitState::Programmed(Oob { key: 0, seq: 0 })
    }

    fn erases(&self, _unit: u64) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{ByteLen, Content};

    fn window(start: u64, end: u64) -> Window {
        Window { start: Instant(start), end: Instant(end) }
    }

    fn serials(disk: &mut Platter, pool: &mut PayloadPool, first: u64, count: u64) -> Vec<u32> {
        let into = pool.allocate(ByteLen(count * SECTOR));
        assert!(disk.read(pool, first, 0, count as u32, into));
        let serial = |i| match pool.sector(into, i) {
            Some(Sector::Stamp(stamp)) => stamp.serial(),
            _ => panic!("stamps"),
        };
        let found = (0..count).map(serial).collect();
        pool.release(into);
        found
    }

    #[test]
    fn a_cut_undoes_what_had_not_begun_and_tears_what_was_under_way() {
        let mut torn = [false; 3];
        for seed in 0..40 {
            let mut pool = PayloadPool::new(Content::Stamps);
            let mut disk = Platter::new(10_000);
            let run = |serial, at| Payload::run(Stamp::new(serial, at));
            disk.write(&pool, 4090, 12, run(1, 4090), window(0, 10));
            disk.write(&pool, 4092, 2, run(2, 4092), window(10, 20));
            disk.write(&pool, 4094, 2, run(3, 4094), window(20, 30));
            assert_eq!(serials(&mut disk, &mut pool, 4090, 7), [1, 1, 2, 2, 3, 3, 1]);
            disk.crash(Instant(15), &mut Rng::new(seed));
            let found = serials(&mut disk, &mut pool, 4090, 7);
            assert_eq!([found[0], found[4], found[5], found[6]], [1, 1, 1, 1], "seed {seed}");
            torn[(found[2] + found[3] - 2) as usize] = true;
        }
        assert_eq!(torn, [true; 3]);
    }
}
