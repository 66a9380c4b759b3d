//! Damage to data and to each kind of record: refused, mended, or unreadable; never wrong.

use crate::harness::CREATE;
use crate::world::{PAGE, Setup, World};
use nandu_base::{ErrorKind, Notice, OpenError, OpenOptions};

fn world(seed: u64) -> World {
    let mut setup = Setup::small(seed);
    setup.is_damaged = true;
    let mut w = World::new(setup);
    w.open(CREATE).expect("a blank disk is taken");
    w
}

/// Whether a read of one block finds it unreadable.
fn is_unreadable(w: &mut World, sector: u64) -> bool {
    let b = w.setup.block();
    let read = w.read(sector, b);
    w.wait(&[read]);
    let error = w.answers[&read].error;
    assert!(error.is_none_or(|e| e.kind == ErrorKind::Unreadable), "{error:?}");
    error.is_some()
}

#[test]
fn a_changed_sector_is_unreadable_until_it_is_written() {
    for seed in 0..2 {
        for after in ["at once", "after a close", "after a round"] {
            let mut w = world(seed);
            let b = w.setup.block();
            let a = w.write(0, 4 * b);
            w.wait(&[a]);
            let flush = w.flush();
            w.wait(&[flush]);
            match after {
                "after a close" => {
                    w.close();
                    w.corrupt(0, 2 * b, 1);
                    w.cut();
                    w.open(OpenOptions::default()).expect("it is whole");
                }
                "after a round" => {
                    w.run(1000);
                    assert_eq!(w.counter("marked_regions"), 0);
                    w.corrupt(0, 2 * b, 1);
                }
                _ => w.corrupt(0, 2 * b, 1),
            }
            let read = w.read(0, 4 * b);
            w.wait(&[read]);
            let error = w.answers[&read].error.expect("it is unreadable");
            assert_eq!(
                (error.kind, error.at.0, error.len.0),
                (ErrorKind::Unreadable, 1024 * b, 512 * b),
                "{after}"
            );
            assert!(w.notices.iter().any(|n| matches!(n, Notice::Mismatch { .. })));
            assert!(!is_unreadable(&mut w, b) && !is_unreadable(&mut w, 3 * b));
            let again = w.write(2 * b, b);
            w.wait(&[again]);
            assert!(!is_unreadable(&mut w, 2 * b));
            assert_eq!(w.wrong, None);
        }
    }
}

#[test]
fn a_planted_fault_that_never_compares_hands_out_wrong_data() {
    let mut setup = Setup::small(0).plant("integrity.never-compares");
    setup.is_damaged = true;
    let mut w = World::new(setup);
    w.open(CREATE).expect("a blank disk is taken");
    let a = w.write(0, 4);
    w.wait(&[a]);
    w.corrupt(0, 2, 1);
    assert!(!is_unreadable(&mut w, 2));
    assert!(w.wrong.is_some(), "the oracle sees it");
}

/// The state of a disk that was written and closed.
fn written(seed: u64) -> World {
    let mut w = world(seed);
    let b = w.setup.block();
    let a = w.write(0, 3 * b);
    w.wait(&[a]);
    w.close();
    w.cut();
    w
}

#[test]
fn each_flipped_bit_of_a_tag_makes_its_block_unreadable_or_right() {
    for bit in 0..3 * 32 {
        let mut w = written(0);
        let sector = w.layout.tags / 512;
        w.disk(0).flip_record(sector, bit);
        w.open(OpenOptions::default()).expect("tags are read later");
        for block in 0..3 {
            assert_eq!(is_unreadable(&mut w, block), block == bit / 32, "bit {bit}, block {block}");
        }
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn each_flipped_bit_of_a_superblock_is_mended_from_the_other_copy() {
    for copy in 0..2 {
        for bit in 0..64 * 8 {
            let mut w = written(0);
            let sector = (w.layout.superblock + copy * PAGE) / 512;
            let before = w.disk(0).record(sector * 512);
            w.disk(0).flip_record(sector, bit);
            w.open(OpenOptions::default()).expect("one copy is whole");
            assert_eq!(w.disk(0).record(sector * 512), before, "bit {bit} is mended");
            assert!(!is_unreadable(&mut w, 0));
        }
    }
}

#[test]
fn two_damaged_superblocks_are_refused_and_nothing_changes() {
    let mut w = written(0);
    for copy in 0..2 {
        let sector = (w.layout.superblock + copy * PAGE) / 512;
        w.disk(0).flip_record(sector, 100);
    }
    let before = w.disk(0).copy();
    for how in [OpenOptions::default(), CREATE] {
        let error = w.open(how).expect_err("nobody knows what it is");
        let OpenError::Refused { why, .. } = &error else { panic!("{error:?}") };
        assert!(why.contains(&w.layout.superblock.to_string()), "{why}");
        w.die();
        assert!(before.touched() == w.disk(0).touched());
    }
}

#[test]
fn each_flipped_bit_of_the_marks_takes_the_data_as_they_are() {
    for bit in 0..512 * 8 {
        let mut w = written(0);
        let sector = w.layout.marks / 512;
        w.disk(0).flip_record(sector, bit);
        w.open(OpenOptions::default()).expect("damaged marks mark everything");
        assert_eq!(w.counter("retaken_regions"), 3, "bit {bit}");
        assert!(w.notices.contains(&Notice::Retaken { regions: 3, differing: 0 }));
        assert!(!is_unreadable(&mut w, 0) && !is_unreadable(&mut w, 2));
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn what_is_not_this_device_is_refused() {
    let mut w = World::new(Setup::small(0));
    let error = w.open(OpenOptions::default()).expect_err("blank");
    assert_eq!(error.to_string(), "the device holds no checksums: it is blank; start it with `create`");
    let mut w = written(0);
    w.setup.config.block_size = Some(nandu_base::ByteLen(1024));
    let error = w.open(CREATE).expect_err("made with other options").to_string();
    assert!(error.contains("blocks of 512") && error.contains("1 KiB"), "{error}");
}

#[test]
fn a_page_of_tags_that_cannot_be_read_makes_its_blocks_unreadable_until_they_are_written() {
    let mut w = written(0);
    let sector = w.layout.tags / 512;
    w.disk(0).bad.insert(sector);
    w.open(OpenOptions::default()).expect("tags are read later");
    assert!(is_unreadable(&mut w, 0) && is_unreadable(&mut w, 2));
    let a = w.write(0, 1);
    w.wait(&[a]);
    assert!(!is_unreadable(&mut w, 0) && is_unreadable(&mut w, 2));
    w.close();
    w.cut();
    w.open(OpenOptions::default()).expect("it is whole");
    assert!(!is_unreadable(&mut w, 0) && is_unreadable(&mut w, 2), "that is remembered");
}
