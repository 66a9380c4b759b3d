//! Each bit of one record of each kind is turned over while nothing is served: the start that follows finds what it would have found without.
//!
//! If a damaged record counted for nothing, an older superblock would be believed, or what was acknowledged and is only in the journal would
//! be gone.

use crate::harness::disk::Disk;
use crate::scenarios::with_a_lost_sector;
use crate::world::{Setup, World};
use nandu_base::OpenHow;

/// What was acknowledged last is in the journal, and not yet durable in its place.
fn cut_while_writing() -> World {
    let mut w = World::new(Setup::small(5));
    w.open(OpenHow { create: true, ..OpenHow::default() }).expect("blank legs are taken");
    for k in 0..4 {
        let a = w.write(k * 9, 7);
        let b = w.write(64 + k, 2);
        w.wait(&[a, b]);
    }
    w.cut();
    w
}

/// What a start finds, before anything is mended.
fn start(w: &mut World) -> (Result<(), String>, Vec<u64>) {
    let opened = w.open(OpenHow::default()).map_err(|why| why.to_string());
    let figures = ["journal_replays", "full_legs", "legs_missing", "bytes_to_rebuild", "lost_sectors"];
    (opened, figures.iter().map(|name| w.counter(name)).collect())
}

/// Turns over the bits of the record of `leg` that lies at byte `at`, one after the other. How many were put right.
fn turn_over(w: &mut World, leg: usize, at: u64, bits: impl Iterator<Item = u64>) -> u64 {
    let kept: Vec<Disk> = (0..w.legs()).map(|leg| w.disk(leg).copy()).collect();
    let restore = |w: &mut World| {
        w.cut();
        kept.iter().enumerate().for_each(|(leg, disk)| *w.disk(leg) = disk.clone());
    };
    let whole = start(w);
    let mut mended = 0;
    for bit in bits {
        restore(w);
        w.disk(leg).flip_record(at / 512 + bit / 4096, bit % 4096);
        assert_eq!(start(w), whole, "leg {leg}, the record at {at}, bit {bit}");
        mended += w.counter("records_mended");
        if bit % 64 == 0 {
            w.read_all();
        }
        assert_eq!(w.wrong, None, "leg {leg}, the record at {at}, bit {bit}");
    }
    restore(w);
    mended
}

#[test]
fn each_flipped_bit_of_a_superblock_is_put_right() {
    let mut w = cut_while_writing();
    let places = w.layout.superblocks;
    for (leg, at) in (0..3).flat_map(|leg| places.map(|at| (leg, at))) {
        // Of the later legs every third bit: what is said of one leg stands on each.
        let step = if leg == 0 { 1 } else { 3 };
        let bits = (0..512 * 8).step_by(step);
        let all = bits.len() as u64;
        assert_eq!(turn_over(&mut w, leg, at, bits.map(|bit| bit as u64)), all, "leg {leg}, slot {at}");
    }
}

#[test]
fn each_flipped_bit_of_a_journal_header_is_put_right() {
    let mut w = cut_while_writing();
    assert!(start(&mut w).1[0] > 2, "some entries are replayed");
    w.cut();
    let mut w = cut_while_writing();
    let (mut mended, slots) = (0, w.setup.config.journal_size.0 / w.layout.slot);
    for (leg, slot) in (0..3).flat_map(|leg| (0..slots as u32).map(move |slot| (leg, slot))) {
        let at = w.layout.slot(slot).0;
        mended += turn_over(&mut w, leg, at, (u64::from(slot % 5)..512 * 8).step_by(5));
    }
    assert!(mended > 4000, "{mended}");
}

#[test]
fn each_flipped_bit_of_a_list_of_lost_sectors_is_put_right() {
    let mut w = with_a_lost_sector(|_| {});
    w.cut();
    assert_eq!(start(&mut w).1[4], 1);
    w.cut();
    let mut mended = 0;
    for at in w.layout.superblocks {
        mended += turn_over(&mut w, 1, at, 512 * 8..520 * 8);
    }
    assert!(mended >= 64, "{mended}");
}
