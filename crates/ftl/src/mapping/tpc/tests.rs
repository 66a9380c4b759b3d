//! The algorithms of the paper on a map of four translation pages.

use super::*;

const PAPER: TpcSettings = TpcSettings {
    ram: 2 * (16 + SLOT_EXTRA),
    delayed_read: false,
    invalidation: Invalidation::Lost,
    clean_first_window: CleanFirst::All,
    unknown_max: 100,
    skip_fill: false,
};

/// A filled map of 16 pages, translation pages of 4 entries, two slots.
fn filled(settings: TpcSettings) -> (Tpc, MapOps) {
    let mut map = Tpc::new(MapShape::new(16, 2, 2), settings);
    for lpn in 0..16 {
        map.set(Lpn(lpn), Ppn(lpn));
    }
    (0..4).for_each(|tp| assert_eq!(map.place(Tp(tp), Ppn(100 + tp)), None));
    (map, MapOps::default())
}

fn steps(ops: &mut MapOps, map: &mut Tpc) -> Vec<MapOp> {
    let list = ops.list().to_vec();
    ops.clear();
    for op in &list {
        if let MapOp::Write(tp) = op {
            map.place(*tp, Ppn(1000 + tp.0));
        }
    }
    map.check().unwrap();
    list
}

#[test]
fn slots_as_the_paper_counts_them() {
    // S2-4: 2 KiB pages, 256 KiB: "about 128" slots, exactly 127; 128 KiB: 63.
    let shape = MapShape::new(1 << 20, 9, 64);
    assert_eq!(Tpc::slots_in(256 << 10, &shape), 127);
    assert_eq!(Tpc::slots_in(128 << 10, &shape), 63);
    // S2-7, C2-9: the directory is 1/512 of the whole map.
    assert_eq!(shape.translation_pages(), (1 << 20) / 512);
}

#[test]
fn the_oldest_unchanged_slot_goes_first_and_a_changed_one_is_written() {
    let (mut map, mut ops) = filled(PAPER);
    assert_eq!(map.update(Lpn(0), Some(Ppn(50)), &mut ops), Some(Ppn(0)));
    map.lookup(Lpn(4), &mut ops);
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(0)), MapOp::Read(Tp(1))]);
    // Slot 0 is older but changed: slot 1 goes.
    map.lookup(Lpn(8), &mut ops);
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(2))]);
    map.update(Lpn(8), Some(Ppn(51)), &mut ops);
    map.lookup(Lpn(12), &mut ops);
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Write(Tp(0)), MapOp::Read(Tp(3))]);
    assert_eq!(*map.stored(Tp(0)), [51, 2, 3, 4]);
    assert_eq!(map.translation_page(Tp(0)), Some(Ppn(1000)));
}

#[test]
fn unchanged_first_starves_and_a_window_does_not() {
    // O2-4: one unchanged slot among changed ones is replaced again and again, recency or not.
    let reads = |clean_first_window| {
        let ram = 3 * (16 + SLOT_EXTRA);
        let (mut map, mut ops) = filled(TpcSettings { ram, clean_first_window, ..PAPER });
        map.update(Lpn(0), Some(Ppn(50)), &mut ops);
        map.update(Lpn(4), Some(Ppn(51)), &mut ops);
        for _ in 0..10 {
            map.lookup(Lpn(8), &mut ops);
            map.lookup(Lpn(12), &mut ops);
        }
        map.counts().loads
    };
    assert_eq!(reads(CleanFirst::All), 22);
    assert_eq!(reads(CleanFirst::Window(1)), 4);
}

#[test]
fn a_delayed_read_is_saved_when_every_entry_is_overwritten() {
    for invalidation in [Invalidation::Lost, Invalidation::AtCollection, Invalidation::AtRead] {
        let settings = TpcSettings { delayed_read: true, invalidation, ..PAPER };
        let (mut map, mut ops) = filled(settings);
        for lpn in 0..4 {
            assert_eq!(map.update(Lpn(lpn), Some(Ppn(50 + lpn)), &mut ops), None);
        }
        assert_eq!(steps(&mut ops, &mut map), []);
        assert_eq!(map.unsettled(), 4);
        map.update(Lpn(4), Some(Ppn(60)), &mut ops);
        map.lookup(Lpn(8), &mut ops);
        let list = steps(&mut ops, &mut map);
        if invalidation == Invalidation::AtRead {
            let stale = (0..4).map(|p| MapOp::Stale(Ppn(p)));
            let want: Vec<MapOp> = [MapOp::Read(Tp(0))].into_iter().chain(stale).collect();
            assert_eq!(list[..5], want);
            assert_eq!(map.unsettled(), 1);
        } else {
            assert_eq!(list, [MapOp::Write(Tp(0)), MapOp::Read(Tp(2))]);
            assert_eq!(map.counts().reads_saved, 1);
            let lost = if invalidation == Invalidation::Lost { 0 } else { 4 };
            assert_eq!(map.unsettled(), lost + 1, "the paper's drive does not even count them");
        }
    }
}

#[test]
fn collection_finds_what_a_saved_read_has_lost() {
    let invalidation = Invalidation::AtCollection;
    let (mut map, mut ops) = filled(TpcSettings { delayed_read: true, invalidation, ..PAPER });
    for lpn in 0..4 {
        map.update(Lpn(lpn), Some(Ppn(50 + lpn)), &mut ops);
    }
    map.lookup(Lpn(8), &mut ops);
    map.lookup(Lpn(12), &mut ops); // slot of tp 0 stays: it is changed
    map.update(Lpn(8), Some(Ppn(70)), &mut ops);
    map.update(Lpn(12), Some(Ppn(71)), &mut ops); // now it goes
    steps(&mut ops, &mut map);
    assert!(!map.is_live(Lpn(2), Ppn(2), &mut ops));
    assert!(map.is_live(Lpn(2), Ppn(52), &mut ops));
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(0)), MapOp::Stale(Ppn(2))]);
    assert_eq!(map.unsettled(), 5);
    // Of other translation pages nothing is in doubt.
    assert!(map.is_live(Lpn(4), Ppn(4), &mut ops));
    assert_eq!(steps(&mut ops, &mut map), []);
}

#[test]
fn a_slot_is_completed_before_an_entry_that_is_not_loaded_is_used() {
    let invalidation = Invalidation::AtCollection;
    let (mut map, mut ops) = filled(TpcSettings { delayed_read: true, invalidation, ..PAPER });
    map.update(Lpn(0), Some(Ppn(50)), &mut ops);
    assert_eq!(map.lookup(Lpn(1), &mut ops), Some(Ppn(1))); // O2-3
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(0)), MapOp::Stale(Ppn(0))]);
    map.update(Lpn(4), Some(Ppn(51)), &mut ops);
    map.relocate(Lpn(5), Ppn(52), &mut ops); // O2-17
    assert_eq!(steps(&mut ops, &mut map), [MapOp::Read(Tp(1)), MapOp::Stale(Ppn(4))]);
    assert_eq!(
        (map.get(Lpn(4)), map.get(Lpn(5)), map.get(Lpn(6))),
        (Some(Ppn(51)), Some(Ppn(52)), Some(Ppn(6)))
    );
}

#[test]
fn what_is_unknown_stays_bounded() {
    let invalidation = Invalidation::AtCollection;
    let settings = TpcSettings { delayed_read: true, invalidation, unknown_max: 3, ..PAPER };
    let (mut map, mut ops) = filled(settings);
    for lpn in 0..16 {
        map.update(Lpn(lpn), Some(Ppn(50 + lpn)), &mut ops);
        assert!(map.unsettled() <= 3);
    }
}
