//! Each bit of one record of each kind is turned over while nothing is served: the start that follows finds what it would have found without.
//!
//! If a damaged record counted for nothing, an older superblock would be believed, or what was acknowledged and is only in the journal would
//! be gone.

use crate::scenarios::with_a_lost_sector;
use crate::world::{Setup, World};
use nandu_array::parity::layout::PAGE;
use nandu_base::{OpenOptions, Span};

/// What was acknowledged last is in the journal, and not yet durable in its place.
fn cut_while_writing() -> World {
    let mut w = World::new(Setup::small(5));
    w.open(OpenOptions { create: true, ..OpenOptions::default() }).expect("blank legs are taken");
    for k in 0..2 {
        let a = w.write(k * 9, 7);
        let b = w.write(64 + k, 2);
        w.wait(&[a, b]);
    }
    // Two entries of one extent: each is about a leg that the other one leaves alone.
    for sector in [128, 136, 130] {
        let a = w.write(sector, 4);
        w.wait(&[a]);
    }
    w.cut();
    w
}

/// What a start is asked for.
const FIGURES: &[&str] =
    &["journal_replays", "full_legs", "legs_missing", "bytes_to_rebuild", "lost_sectors"];

#[test]
fn each_flipped_bit_of_a_superblock_is_put_right() {
    let mut w = cut_while_writing();
    let places = w.layout.superblocks;
    for (leg, at) in (0..3).flat_map(|leg| places.map(|at| (leg, at))) {
        // Of the later legs every third bit: what is said of one leg stands on each.
        let step = if leg == 0 { 1 } else { 3 };
        let bits = (0..512 * 8).step_by(step);
        let all = bits.len() as u64;
        assert_eq!(w.turn_over(leg, at, bits.map(|bit| bit as u64), FIGURES), all, "leg {leg}, slot {at}");
    }
}

#[test]
fn each_flipped_bit_of_a_journal_header_is_put_right() {
    let mut w = cut_while_writing();
    assert!(w.start(FIGURES).1[0] > 2, "some entries are replayed");
    w.cut();
    let mut w = cut_while_writing();
    let (mut mended, slots) = (0, w.setup.config.journal_size.0 / w.layout.slot);
    for (leg, slot) in (0..3).flat_map(|leg| (0..slots as u32).map(move |slot| (leg, slot))) {
        let at = w.layout.slot(slot).0;
        mended += w.turn_over(leg, at, (u64::from(slot % 5)..512 * 8).step_by(5), FIGURES);
    }
    assert!(mended > 4000, "{mended}");
}

/// Each sector of the data in the journal, on any leg: what was acknowledged is found, and the array mends what was lost for a while.
#[test]
fn each_damaged_sector_of_the_data_in_a_journal_is_made_from_the_other_legs() {
    let mut w = cut_while_writing();
    let (kept, whole) = (w.kept(), w.start(&FIGURES[..4]));
    let (mut made, mut lost) = (0, 0);
    let slots = w.setup.config.journal_size.0 / w.layout.slot;
    let sectors = (w.layout.slot - PAGE) / 512;
    for (leg, slot) in (0..3).flat_map(|leg| (0..slots as u32).map(move |slot| (leg, slot))) {
        let first = (w.layout.slot(slot).0 + PAGE) / 512;
        for sector in first..first + sectors {
            w.restore(&kept);
            if !w.disk(leg).touched().contains(&sector) {
                continue;
            }
            w.disk(leg).rot(sector);
            assert_eq!(w.start(&FIGURES[..4]), whole, "leg {leg}, slot {slot}, sector {sector}");
            made += w.counter("records_repaired");
            lost += w.counter("sectors_lost");
            w.read_all();
            w.pass(Span::from_secs(60));
            assert_eq!(w.counter("lost_sectors"), 0, "leg {leg}, slot {slot}, sector {sector}");
            w.check_parity();
            assert_eq!(w.wrong, None, "leg {leg}, slot {slot}, sector {sector}");
        }
    }
    assert!(made > 10 && lost > 20, "{made} parts made, {lost} sectors lost for a while");
}

#[test]
fn each_flipped_bit_of_a_list_of_lost_sectors_is_put_right() {
    let mut w = with_a_lost_sector(|_| {});
    w.cut();
    assert_eq!(w.start(FIGURES).1[4], 1);
    w.cut();
    let mut mended = 0;
    for at in w.layout.superblocks {
        mended += w.turn_over(1, at, 512 * 8..520 * 8, FIGURES);
    }
    assert!(mended >= 64, "{mended}");
}
