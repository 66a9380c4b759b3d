//! The queue beside a plain model of it.

use super::*;
use nandu_base::{Content, Rng, SECTOR, Sector, Stamp};
use std::collections::BTreeMap;

const SECTORS: u64 = 48;

/// The obvious model: for each sector the newest version that the leg lacks, waiting and under way.
struct Model {
    waiting: [Option<u32>; SECTORS as usize],
    flying: [Option<u32>; SECTORS as usize],
    pieces: BTreeMap<u32, i32>,
}

fn nothing() -> Model {
    Model { waiting: [None; SECTORS as usize], flying: [None; SECTORS as usize], pieces: BTreeMap::new() }
}

fn piece(first: u64, count: u64, version: u32) -> Piece {
    Piece {
        start: first * SECTOR,
        end: (first + count) * SECTOR,
        oldest: u64::from(version),
        since: Instant(u64::from(version)),
        tries: 0,
        op: Op::Write,
        fua: false,
        payload: Payload::run(Stamp::new(version, first)),
        writer: version,
        cause: TenantId(1),
    }
}

fn stamps(payload: Payload, count: u64, pool: &PayloadPool) -> Vec<u32> {
    (0..count)
        .map(|i| match pool.sector(payload, i) {
            Some(Sector::Stamp(stamp)) => stamp.serial(),
            other => panic!("no stamp: {other:?}"),
        })
        .collect()
}

impl Model {
    fn count(&mut self, changes: &mut Changes) {
        for (writer, n) in changes.drain(..) {
            let count = self.pieces.entry(writer).or_default();
            *count += n;
            assert!(*count >= 0);
        }
    }

    fn agree(&self, lag: &Lag, pool: &PayloadPool) {
        for s in 0..SECTORS {
            let (start, end) = (s * SECTOR, (s + 1) * SECTOR);
            let newest = self.waiting[s as usize].or(self.flying[s as usize]);
            assert_eq!(lag.lacks(start, end), newest.is_some(), "sector {s}");
            let held = lag.holder(start, end).map(|p| stamps(p.expect("a write"), 1, pool)[0]);
            assert_eq!(held, newest, "sector {s}");
        }
        let waiting = self.waiting.iter().flatten().count() as u64;
        assert_eq!(lag.bytes(), waiting * SECTOR);
        let oldest = self.waiting.iter().chain(&self.flying).flatten().min();
        assert!(lag.floor() <= oldest.map_or(u64::MAX, |&v| u64::from(v)));
        assert_eq!(lag.is_empty(), oldest.is_none());
    }
}

#[test]
fn the_queue_agrees_with_a_plain_model() {
    for order in [Order::Oldest, Order::Sweep(16 * SECTOR)] {
        let (mut rng, mut pool) = (Rng::new(8), PayloadPool::new(Content::Stamps));
        let (mut lag, mut model, mut changes) = (Lag::default(), nothing(), Vec::new());
        let mut flying: Vec<u32> = Vec::new();
        for version in 1..6000 {
            match rng.below(4) {
                0 | 1 => {
                    let first = rng.below(SECTORS);
                    let count = rng.between(1, 6).min(SECTORS - first);
                    lag.push(piece(first, count, version), &mut changes, &mut pool);
                    (first..first + count).for_each(|s| model.waiting[s as usize] = Some(version));
                }
                2 if flying.len() < 3 => {
                    let took = lag.take(order, u8::MAX, 20 * SECTOR, Instant(0), &mut changes, &mut pool);
                    let Some(slot) = took else { continue };
                    let f = lag.flight(slot).expect("it flies");
                    let sectors = f.start / SECTOR..f.end / SECTOR;
                    let data = stamps(f.payload, sectors.end - sectors.start, &pool);
                    for (s, serial) in sectors.zip(data) {
                        assert_eq!(model.flying[s as usize], None, "one write of a block is under way");
                        assert_eq!(model.waiting[s as usize], Some(serial));
                        model.flying[s as usize] = model.waiting[s as usize].take();
                    }
                    flying.push(slot);
                }
                _ => {
                    if flying.is_empty() {
                        continue;
                    }
                    let slot = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                    let f = lag.flight(slot).expect("it flies");
                    let fails = rng.below(3) == 0;
                    for s in f.start / SECTOR..f.end / SECTOR {
                        let was = model.flying[s as usize].take();
                        if fails && model.waiting[s as usize].is_none() {
                            model.waiting[s as usize] = was;
                        }
                    }
                    if fails {
                        lag.put_back(slot, 1, &mut changes, &mut pool);
                    } else {
                        lag.land(slot, &mut changes, &mut pool);
                    }
                }
            }
            model.count(&mut changes);
            model.agree(&lag, &pool);
        }
        let mut gone = Vec::new();
        lag.clear(&mut gone, &mut pool);
        for piece in &gone {
            changes.push((piece.writer, -1));
        }
        model.count(&mut changes);
        assert!(model.pieces.values().all(|&n| n == 0), "every piece is accounted for");
        assert_eq!((pool.living(), lag.is_empty(), lag.floor()), (0, true, u64::MAX));
    }
}

#[test]
fn a_newer_write_takes_the_place_and_the_age_of_an_older_one() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let (mut lag, mut changes) = (Lag::default(), Vec::new());
    lag.push(piece(0, 8, 1), &mut changes, &mut pool);
    lag.push(piece(20, 4, 2), &mut changes, &mut pool);
    lag.push(piece(0, 8, 3), &mut changes, &mut pool);
    assert_eq!((lag.floor(), lag.since(), lag.waiting()), (1, Some(Instant(1)), 2));
    let slot = lag.take(Order::Oldest, 0, 1 << 20, Instant(9), &mut changes, &mut pool).expect("waits");
    assert_eq!(lag.flight(slot).map(|f| f.start), Some(0), "it kept its place in the queue");
    assert_eq!(lag.border(0), 8 * SECTOR);
    lag.land(slot, &mut changes, &mut pool);
    assert_eq!(lag.floor(), 2);
}

#[test]
fn a_sweep_joins_what_touches_and_goes_round() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let (mut lag, mut changes) = (Lag::default(), Vec::new());
    for (version, first) in [(1, 30), (2, 4), (3, 8), (4, 12)] {
        lag.push(piece(first, 4, version), &mut changes, &mut pool);
    }
    let sweep = Order::Sweep(8 * SECTOR);
    let mut taken = Vec::new();
    while let Some(slot) = lag.take(sweep, 0, 1 << 20, Instant(0), &mut changes, &mut pool) {
        let f = lag.flight(slot).expect("it flies");
        taken.push((f.start / SECTOR, f.end / SECTOR));
        lag.land(slot, &mut changes, &mut pool);
    }
    assert_eq!(taken, [(4, 12), (12, 16), (30, 34)], "in batches of eight sectors at most");
}

#[test]
fn what_has_failed_goes_alone_and_may_be_left_waiting() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let (mut lag, mut changes) = (Lag::default(), Vec::new());
    for (version, first) in [(1, 0), (2, 4), (3, 8)] {
        lag.push(piece(first, 4, version), &mut changes, &mut pool);
    }
    let sweep = Order::Sweep(64 * SECTOR);
    let mut take = |lag: &mut Lag, tries: u8, pool: &mut PayloadPool| {
        let slot = lag.take(sweep, tries, 1 << 20, Instant(0), &mut changes, pool)?;
        let f = lag.flight(slot).expect("it flies");
        Some((slot, f.start / SECTOR, f.end / SECTOR))
    };
    assert_eq!(take(&mut lag, u8::MAX, &mut pool), Some((0, 0, 12)));
    // A newer write of the middle comes meanwhile: it stands for what has failed.
    lag.push(piece(5, 2, 4), &mut Vec::new(), &mut pool);
    assert_eq!(lag.put_back(0, 1, &mut Vec::new(), &mut pool), 1);
    assert_eq!((lag.failed(0).count(), lag.failed(1).count(), lag.waiting()), (5, 0, 5));
    lag.push(piece(20, 4, 5), &mut Vec::new(), &mut pool);
    let (slot, first, end) = take(&mut lag, 0, &mut pool).expect("one has not failed");
    assert_eq!((first, end), (20, 24));
    assert_eq!(take(&mut lag, 0, &mut pool), None);
    lag.land(slot, &mut Vec::new(), &mut pool);
    for expected in [(0, 4), (4, 5), (5, 7)] {
        let (slot, first, end) = take(&mut lag, 1, &mut pool).expect("they wait");
        assert_eq!((first, end), expected);
        lag.land(slot, &mut Vec::new(), &mut pool);
    }
    let mut gone = Vec::new();
    lag.drop_failed(0, &mut gone, &mut pool);
    assert_eq!(
        (gone.len(), lag.is_empty(), lag.floor(), lag.bytes(), pool.living()),
        (2, true, u64::MAX, 0, 0)
    );
}
