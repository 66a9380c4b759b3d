//! Each bit of one record of each kind is turned over while nothing is served: the start that follows finds what it would have found without.
//!
//! An update of a record leaves the one before it in the other slot. If a damaged record counted for nothing, that older one would be
//! believed: regions that may differ would not be copied, a leg that was left behind would be current, lost data would be shown as they are.

use crate::harness::CREATE;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::layout::PAGE;
use nandu_base::Span;

/// A mirror that has served, and that both legs have served.
fn made(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("blank legs are taken");
    let a = w.write(0, 8);
    w.wait(&[a]);
    let f = w.flush();
    w.wait(&[f]);
    w.pass(Span::from_ms(5));
    w
}

/// Both legs are current, and the last mark is in the newest record only.
fn cut_while_marked() -> World {
    let mut w = made(Setup::small(3));
    for first in [130, 260] {
        let a = w.write(first, 8);
        w.wait(&[a]);
    }
    w.cut();
    w
}

/// Leg a has gone on alone, and b is there again.
fn went_on_alone() -> World {
    let mut w = made(Setup::small(4));
    w.lose(B);
    let a = w.write(0, 16);
    w.wait(&[a]);
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    w.disk(B).lost = false;
    w
}

/// Leg b has gone on alone, and a part of the data is lost: it is listed in two steps.
fn with_lost_data() -> World {
    let mut w = made(Setup::small(9).hetero(|h| h.delay_depth = Some(3)));
    w.freeze(B, Span::from_us(300));
    for i in 0..10 {
        let a = w.write(i * 12, 8);
        w.wait(&[a]);
        w.pass(Span::from_us(3));
    }
    w.may_lose = true;
    w.disk(B).rejects.extend([13, 61]);
    w.lose(A);
    let all: Vec<u64> = (0..10).map(|i| w.write(i * 12 + 2, 3)).collect();
    w.wait(&all);
    w.pass(Span::from_ms(1));
    w.disk(B).rejects.clear();
    let f = w.flush();
    w.wait(&[f]);
    w.cut();
    w
}

/// What a start is asked for. A plain mirror loses nothing.
fn figures(w: &World) -> &'static [&'static str] {
    let all = &["leg_a_is_member", "leg_b_is_member", "stale_regions", "dirty_regions", "lost_bytes"];
    if w.setup.hetero.is_some() { all } else { &all[..4] }
}

/// Turns over some bits of a record or all, unless there is none. How many were put right.
fn turn_over(w: &mut World, leg: usize, at: u64, bits: impl Iterator<Item = u64>) -> u64 {
    if w.disk(leg).record(at).iter().all(|&byte| byte == 0) {
        return 0;
    }
    w.turn_over(leg, at, bits, figures(w))
}

/// All bits of the header and of the first words, and some of the others.
fn some_bits() -> impl Iterator<Item = u64> {
    (0..48 * 8).chain((48 * 8..PAGE * 8).step_by(509))
}

#[test]
fn each_flipped_bit_of_a_superblock_is_put_right() {
    let mut records = 0;
    for mut w in [cut_while_marked(), went_on_alone()] {
        let places = w.layout.slots;
        for (leg, at) in [A, B].into_iter().flat_map(|leg| places.map(|at| (leg, at))) {
            let mended = turn_over(&mut w, leg, at, 0..512 * 8);
            assert!([0, 512 * 8].contains(&mended), "leg {leg}, slot {at}: {mended}");
            records += mended / (512 * 8);
        }
    }
    assert!(records >= 6, "only {records} slots were ever written");
}

#[test]
fn each_flipped_bit_of_a_map_page_is_put_right() {
    let mut w = cut_while_marked();
    let mut mended = 0;
    for (leg, slot) in [(A, 0), (A, 1), (B, 0), (B, 1)] {
        let at = w.layout.page(0, slot).0;
        mended += turn_over(&mut w, leg, at, some_bits());
    }
    assert!(mended > 1000, "{mended}");
}

#[test]
fn each_flipped_bit_of_a_list_of_lost_data_is_put_right() {
    let mut w = with_lost_data();
    assert_eq!(w.start(&[]).0, Ok(()));
    assert!(w.counter("lost_bytes") > 0, "something is lost");
    w.cut();
    let mut mended = 0;
    for slot in 0..2 {
        let at = w.layout.lost_slot(slot).0;
        mended += turn_over(&mut w, B, at, some_bits());
    }
    assert!(mended > 400, "{mended}");
}

#[test]
fn a_mended_map_page_is_written_anew() {
    let mut w = cut_while_marked();
    let (kept, figures) = (w.kept(), figures(&w));
    let whole = w.start(figures);
    for slot in 0..2 {
        w.restore(&kept);
        let sector = w.layout.page(0, slot).0 / 512;
        // With both flips in it the page could not be put right.
        for bit in [33 * 8, 34 * 8] {
            w.disk(A).flip_record(sector, bit);
            assert_eq!(w.start(figures), whole, "slot {slot}, bit {bit}");
            w.die();
        }
    }
    assert_eq!(w.wrong, None);
}
