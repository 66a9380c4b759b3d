//! Single stories with a known end.

use crate::harness::CREATE;
use crate::world::{Setup, World};
use nandu_array::member::InitialSync;
use nandu_array::parity::WriteHole;
use nandu_array::parity::layout::{EPOCHS, KEPT_EPOCHS, OUT, START_EPOCHS, Superblock};
use nandu_base::{ByteLen, ErrorKind, Op, OpenOptions, Span};

pub fn world(change: impl FnOnce(&mut Setup)) -> World {
    let mut setup = Setup::small(7);
    change(&mut setup);
    let mut w = World::new(setup);
    w.open(CREATE).expect("blank legs");
    w
}

pub fn done(w: &mut World, cookie: u64) {
    w.wait(&[cookie]);
    assert!(w.is_ok(cookie), "{:?}", w.answers.get(&cookie));
    assert_eq!(w.wrong, None);
}

pub fn figures(w: &mut World, names: &[&str]) -> Vec<u64> {
    names.iter().map(|n| w.counter(n)).collect()
}

const WAYS: [&str; 3] = ["full_stripe_writes", "read_modify_writes", "reconstruct_writes"];

#[test]
fn a_write_reads_as_little_as_it_can() {
    // Five legs: a row holds 4 chunks of 8 sectors.
    let mut w = world(|s| s.config.legs = ["a", "b", "c", "d", "e"].map(String::from).to_vec());
    let a = w.write(0, 32);
    done(&mut w, a);
    assert_eq!(figures(&mut w, &WAYS), [1, 0, 0], "a whole row");
    let b = w.write(3, 2);
    done(&mut w, b);
    assert_eq!(
        figures(&mut w, &WAYS),
        [1, 1, 0],
        "one chunk: it and the parity are fewer than the three others"
    );
    let c = w.write(8, 24);
    done(&mut w, c);
    assert_eq!(figures(&mut w, &WAYS), [1, 1, 1], "three chunks: the fourth is read");
    let d = w.write(4, 32);
    done(&mut w, d);
    // Row 0: columns 0..4 of three chunks, columns 4..8 of four; row 1: columns 0..4 of one chunk.
    assert_eq!(figures(&mut w, &WAYS), [2, 2, 2]);
    w.run(10_000);
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// Whole rows are discarded on all legs, the parity too: nothing of them goes through the journals but its headers, and what is
/// reconstructed is what is read.
#[test]
fn a_row_that_is_trimmed_is_discarded_on_every_leg() {
    for (op, unsupported) in [(Op::Trim, None), (Op::Trim, Some(4)), (Op::WriteZeroes, None)] {
        // Five legs: a row holds 4 chunks of 8 sectors, and the parity of the first row is on the last leg.
        let mut w = world(|s| s.config.legs = ["a", "b", "c", "d", "e"].map(String::from).to_vec());
        if let Some(leg) = unsupported {
            w.disk(leg).trims_unsupported = true;
        }
        let a = w.write(0, 96);
        done(&mut w, a);
        let before = w.counter("journal_bytes");
        let t = w.change(op, 0, 64, false);
        done(&mut w, t);
        assert_eq!(w.counter("journal_bytes") - before, 2 * 5 * 4096, "headers of two rows");
        assert_eq!(figures(&mut w, &WAYS), [5, 0, 0], "nothing is read");
        // Two chunks of the third row: its parity has data.
        let t = w.change(op, 64, 16, false);
        done(&mut w, t);
        w.run(10_000);
        w.check_parity();
        for leg in 0..5 {
            w.lose(leg);
            w.read_all();
            w.back(leg);
            w.run(20_000);
            w.check_parity();
            assert_eq!(w.wrong, None, "{op:?} without leg {leg}");
        }
    }
}

#[test]
fn a_bad_sector_is_read_from_the_others_and_written_back() {
    let mut w = world(|_| {});
    let a = w.write(0, 8);
    done(&mut w, a);
    w.disk(0).bad.insert(3);
    let r = w.read(0, 8);
    done(&mut w, r);
    assert_eq!(figures(&mut w, &["leg_read_errors", "repairs", "full_legs"]), [1, 1, 3]);
    assert!(w.disk(0).bad.is_empty());
}

#[test]
fn bad_sectors_of_two_legs_cost_nothing_at_different_places() {
    let mut w = world(|_| {});
    let a = w.write(0, 16);
    done(&mut w, a);
    w.disk(0).bad.insert(3);
    w.disk(1).bad.insert(4);
    let r = w.read(0, 16);
    done(&mut w, r);
    w.disk(0).bad.insert(5);
    w.disk(1).bad.insert(5);
    let r = w.read(0, 16);
    w.wait(&[r]);
    let error = w.answers[&r].error.expect("one sector is lost");
    assert_eq!(error.kind, ErrorKind::Unreadable);
    let r = w.read(0, 4);
    done(&mut w, r);
}

#[test]
fn a_failed_repair_is_the_end_of_the_leg() {
    let mut w = world(|_| {});
    let a = w.write(0, 8);
    done(&mut w, a);
    w.disk(0).bad.insert(3);
    w.disk(0).fail_writes = 1;
    let r = w.read(0, 8);
    done(&mut w, r);
    w.run(1000);
    assert_eq!(figures(&mut w, &["full_legs", "legs_missing"]), [2, 1]);
}

#[test]
fn two_lost_legs_are_an_error_and_no_loss() {
    let mut w = world(|_| {});
    let a = w.write(0, 40);
    done(&mut w, a);
    w.lose(0);
    w.lose(2);
    let r = w.read(0, 8);
    w.wait(&[r]);
    assert_eq!(w.answers[&r].error.map(|e| e.kind), Some(ErrorKind::Gone));
    w.back(2);
    w.run(10_000);
    w.read_all();
    assert_eq!(w.wrong, None);
    let r = w.read(0, 8);
    done(&mut w, r);
    w.back(0);
    w.run(20_000);
    w.check_parity();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_blank_leg_is_rebuilt_and_the_mark_survives_a_cut() {
    let mut w = world(|s| {
        s.data = ByteLen::mib(1);
        s.config.rebuild_chunk = ByteLen::kib(4);
    });
    for k in 0..64 {
        let a = w.write(k * 64, 30);
        done(&mut w, a);
    }
    w.lose(1);
    w.disk(1).wipe();
    w.back(1);
    while w.counter("legs_joined") == 0 || w.counter("bytes_to_rebuild") > 600 << 10 {
        assert!(w.step());
    }
    let left = w.counter("bytes_to_rebuild");
    assert!(left > 0, "the rebuild is not over");
    w.cut();
    w.open(OpenOptions::default()).expect("all legs are there");
    // What is between two checkpoints may be done again.
    assert!(w.counter("bytes_to_rebuild") <= left + (64 << 10), "it goes on where it was");
    w.run(100_000);
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_rebuild_keeps_to_its_rate() {
    let mut w = world(|s| s.config.rebuild_rate = ByteLen::kib(128));
    w.lose(1);
    w.back(1);
    let start = w.now;
    w.run(100_000);
    assert!(w.is_full());
    let took = w.now.since(start);
    // 128 KiB at 128 KiB a second; the last 16 KiB need not be waited for.
    assert!(took.0 > 870_000_000 && took.0 < 1_100_000_000, "{took}");
}

#[test]
fn the_parity_of_used_legs_is_computed() {
    for write_hole in [WriteHole::Journal, WriteHole::Resync] {
        let mut w = world(|s| {
            s.soiled = true;
            s.config.initial_sync = InitialSync::Resync;
            s.config.write_hole = write_hole;
        });
        let a = w.write(5, 20);
        done(&mut w, a);
        w.run(100_000);
        w.check_parity();
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn without_a_journal_a_short_and_unclean_array_wants_a_word() {
    let mut w = world(|s| s.config.write_hole = WriteHole::Resync);
    let a = w.write(5, 20);
    done(&mut w, a);
    w.cut();
    w.disk(1).lost = true;
    let error = w.open(OpenOptions::default()).expect_err("unclean and short of a leg");
    assert!(error.to_string().contains("has not ended in order"), "{error}");
    w.cut();
    w.open(OpenOptions { alone: true, ..OpenOptions::default() }).expect("the word was given");
    w.cut();
    w.disk(1).lost = false;
    w.open(OpenOptions { alone: true, ..OpenOptions::default() }).expect("all legs");
}

/// Its superblocks say that all parity is right.
#[test]
fn without_a_journal_a_short_array_that_was_closed_starts() {
    let mut w = world(|s| s.config.write_hole = WriteHole::Resync);
    let a = w.write(5, 20);
    done(&mut w, a);
    w.run(100_000);
    w.close();
    w.cut();
    w.disk(1).lost = true;
    w.open(OpenOptions::default()).expect("it has ended in order");
}

#[test]
fn a_leg_of_another_array_is_refused() {
    let mut w = world(|_| {});
    w.close();
    let mut other = World::new(Setup::small(8));
    other.open(CREATE).expect("blank legs");
    other.close();
    w.cut();
    other.cut();
    w.disks[1] = std::sync::Arc::clone(&other.disks[1]);
    let error = w.open(OpenOptions::default()).expect_err("a foreign leg");
    assert!(error.to_string().contains("different arrays"), "{error}");
    w.disks.swap(1, 2);
    let error = w.open(OpenOptions::default()).expect_err("legs in the wrong order");
    assert!(error.to_string().contains("is leg"), "{error}");
}

/// Every change of the set used to send a write back to the journal, which it never left (verify, seed 22).
#[test]
fn a_leg_that_comes_and_goes_does_not_send_writes_back_to_the_journal() {
    let mut w = world(|s| s.slow = 50);
    // On legs 0 and 2; leg 1 has no part in it.
    let c = w.write(0, 4);
    while !w.answers.contains_key(&c) {
        w.lose(1);
        w.run(2);
        w.back(1);
        w.run(2);
    }
    done(&mut w, c);
    assert_eq!(w.counter("journal_writes"), 2);
    w.run(100_000);
    w.check_parity();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_leg_that_comes_and_goes_does_not_keep_a_start_from_ending() {
    let mut w = world(|_| {});
    let a = w.write(0, 60);
    done(&mut w, a);
    w.cut();
    w.boot(OpenOptions::default());
    for _ in 0..200 {
        if w.opened().is_some() {
            break;
        }
        w.lose(1);
        w.run(3);
        w.back(1);
        w.run(3);
    }
    assert_eq!(w.opened(), Some(Ok(())));
    w.run(100_000);
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// An array that failed starts anew when its legs are back. When their absence was not put on record, for another record was being
/// written, all are called full before the journal is replayed, and what was being written is half there: until the replay is done
/// it must not say that it serves (verify, parity-of-faulty-ssds 312213, parity 302595).
#[test]
fn an_array_that_starts_anew_serves_when_its_journal_is_replayed() {
    let mut halves = 0;
    for events in 1..240 {
        let mut w = world(|s| s.slow = 50);
        for row in 0..12 {
            w.write(row * 16 + 3, 2);
        }
        w.run(events);
        w.lose(0);
        w.lose(1);
        w.back(0);
        w.back(1);
        while w.counter("is_serving") == 0 {
            halves += u32::from(w.is_full() && w.odd().is_some());
            assert!(w.step(), "it starts again");
        }
        w.run(20_000);
        w.check_parity();
        assert_eq!(w.wrong, None, "legs lost after {events} events");
    }
    assert!(halves > 0, "no start has found a write half done");
}

/// A read that waits for its extent may find that its own leg has been rebuilt there, and another leg gone (verify, arrays, seed 30521).
#[test]
fn a_read_that_waited_asks_its_own_leg_once_that_is_rebuilt() {
    let mut waited = 0;
    for writes in 1..24 {
        let mut w = world(|_| {});
        let a = w.write(0, 120);
        done(&mut w, a);
        w.lose(2);
        let b = w.write(480, 32);
        done(&mut w, b);
        w.back(2);
        while w.counter("rebuilt_bytes") < 112 << 10 {
            assert!(w.step());
        }
        // The last extent is being rebuilt: reads of what is on that leg wait for it, and for writes that came before.
        let changes: Vec<u64> = (0..writes).map(|k| w.write(496 + k % 2, 1)).collect();
        let reads: Vec<u64> = (496..504).map(|s| w.read(s, 1)).collect();
        while w.counter("full_legs") < 3 {
            assert!(w.step());
        }
        waited += reads.iter().filter(|r| !w.answers.contains_key(r)).count();
        w.lose(0);
        w.wait(&changes);
        w.wait(&reads);
        assert!(reads.iter().all(|&r| w.is_ok(r)), "{writes} writes");
        assert_eq!(w.wrong, None);
    }
    assert!(waited > 0, "no read has waited");
}

/// A world of three legs in which leg 1 was rebuilt while leg 0 could not read its sector 50. Row 6 has its parity on leg 2; what lies
/// there is sector 98 on leg 0 and sector 106 on leg 1.
pub fn with_a_lost_sector(change: impl FnOnce(&mut Setup)) -> World {
    let mut w = world(change);
    let a = w.write(0, 256);
    done(&mut w, a);
    w.lose(1);
    let b = w.write(104, 4);
    done(&mut w, b);
    w.disk(0).bad.insert(50);
    w.back(1);
    w.run(3000);
    assert_eq!(figures(&mut w, &["full_legs", "lost_sectors", "sectors_lost"]), [3, 1, 1]);
    w
}

fn fails(w: &mut World, sector: u64) {
    let r = w.read(sector, 1);
    w.wait(&[r]);
    let kind = w.answers[&r].error.map(|e| e.kind);
    assert_eq!(kind, Some(ErrorKind::Unreadable), "sector {sector}");
}

#[test]
fn a_rebuild_puts_what_it_cannot_make_on_record_and_goes_on() {
    let mut w = with_a_lost_sector(|_| {});
    for again in [false, true] {
        if again {
            // The record is durable.
            w.cut();
            w.open(OpenOptions::default()).expect("all legs are there");
            assert_eq!(w.counter("lost_sectors"), 1);
        }
        fails(&mut w, 106);
        fails(&mut w, 98);
        let r = w.read(104, 8);
        w.wait(&[r]);
        let error = w.answers[&r].error.expect("one of its sectors is lost");
        assert_eq!((error.kind, error.at, error.len), (ErrorKind::Unreadable, ByteLen(1024), ByteLen(512)));
        for around in [96, 97, 99, 104, 105, 107, 111] {
            let r = w.read(around, 1);
            done(&mut w, r);
        }
        // Its parity would need what is lost.
        let one = w.write(106, 1);
        w.wait(&[one]);
        assert_eq!(w.answers[&one].error.map(|e| e.kind), Some(ErrorKind::Unreadable));
    }
    let row = w.write(96, 16);
    done(&mut w, row);
    assert_eq!(w.counter("lost_sectors"), 0);
    for sector in 96..112 {
        let r = w.read(sector, 1);
        done(&mut w, r);
    }
    w.run(10_000);
    w.check_parity();
    w.cut();
    w.open(OpenOptions::default()).expect("all legs are there");
    w.read_all();
    assert_eq!((w.counter("lost_sectors"), w.wrong.clone()), (0, None));
}

#[test]
fn a_lost_sector_is_made_once_the_other_leg_reads_again() {
    let mut w = with_a_lost_sector(|_| {});
    fails(&mut w, 106);
    w.disk(0).bad.clear();
    w.run(2000);
    assert_eq!(figures(&mut w, &["lost_sectors", "sectors_repaired"]), [0, 1]);
    for sector in [98, 106] {
        let r = w.read(sector, 1);
        done(&mut w, r);
    }
    w.check_parity();
    assert_eq!(w.wrong, None);
}

#[test]
fn a_leg_that_hangs_is_left_out_after_the_timeout_and_comes_back_by_itself() {
    for write_hole in [WriteHole::Journal, WriteHole::Resync] {
        for leg in 0..3 {
            let mut w = world(|s| {
                s.config.write_hole = write_hole;
                s.config.request_timeout = Span::from_ms(2);
            });
            let a = w.write(0, 200);
            done(&mut w, a);
            w.run(100_000);
            w.freeze(leg, Span::from_ms(40));
            let before = w.now;
            let jobs = [w.write(0, 8), w.read(40, 60), w.write(300, 40), w.flush()];
            w.wait(&jobs);
            assert!(jobs.iter().all(|&job| w.is_ok(job)));
            let took = w.now.since(before);
            assert!(took >= Span::from_ms(2) && took <= Span::from_us(2600), "{took}");
            assert_eq!(figures(&mut w, &["legs_timed_out", "legs_missing"]), [1, 1]);
            let before = w.now;
            let jobs = [w.write(8, 40), w.read(0, 200)];
            w.wait(&jobs);
            assert!(jobs.iter().all(|&job| w.is_ok(job)) && w.now.since(before) < Span::from_ms(1));
            // What the leg still answers comes too late for everybody, and then it is rebuilt.
            w.run(400_000);
            assert_eq!(figures(&mut w, &["legs_timed_out", "legs_missing", "bytes_to_rebuild"]), [1, 0, 0]);
            w.check_parity();
            assert_eq!(w.wrong, None);
            w.check_buffers();
        }
    }
}

#[test]
fn a_leg_that_hangs_and_is_needed_is_waited_for() {
    let mut w = world(|s| s.config.request_timeout = Span::from_ms(2));
    let a = w.write(0, 200);
    done(&mut w, a);
    w.lose(2);
    w.freeze(0, Span::from_ms(20));
    let (before, a) = (w.now, w.write(0, 100));
    done(&mut w, a);
    assert!(w.now.since(before) >= Span::from_ms(19));
    assert_eq!(figures(&mut w, &["legs_timed_out", "legs_missing"]), [0, 1]);
}

/// Without a journal, cut while row 27 is written, whose parity is on leg c and whose data are on a and b: a start has to compute all parity, slowly.
fn cut_in_a_row(n: u64, change: impl FnOnce(&mut Setup)) -> World {
    let mut w = world(|s| {
        s.config.write_hole = WriteHole::Resync;
        s.config.rebuild_rate = ByteLen::kib(64);
        change(s);
    });
    let a = w.write(0, 512);
    done(&mut w, a);
    let f = w.flush();
    done(&mut w, f);
    w.fuse = Some(n);
    w.write(440, 8);
    w.run(10_000);
    w.cut();
    w
}

/// The leg was rebuilt from parity that did not fit the data.
#[test]
fn a_leg_that_goes_before_the_parity_is_computed_has_lost_nothing() {
    for n in 1..60 {
        let mut w = cut_in_a_row(n, |_| {});
        w.open(OpenOptions::default()).expect("all legs");
        w.lose(0);
        let r = w.read(300, 1);
        w.wait(&[r]);
        assert_eq!(w.answers[&r].error.map(|e| e.kind), Some(ErrorKind::Gone));
        w.back(0);
        while w.counter("is_serving") == 0 {
            assert!(w.step(), "it starts again");
        }
        w.read_all();
        w.run(200_000);
        w.read_all();
        w.check_parity();
        assert_eq!(w.wrong, None, "cut after {n} events");
        assert_eq!(w.counter("rebuilt_bytes") / (128 << 10), 1, "the parity of all rows, and nothing else");
    }
}

/// What nobody can make is not made up: neither for a blank leg, nor with a word that was said when all legs were there.
#[test]
fn before_the_parity_is_computed_no_leg_can_be_done_without() {
    let mut w = cut_in_a_row(9, |s| s.config.request_timeout = Span::from_ms(2));
    w.open(OpenOptions { alone: true, ..OpenOptions::default() }).expect("all legs");
    w.freeze(0, Span::from_ms(40));
    let r = w.read(0, 8);
    let before = w.now;
    done(&mut w, r);
    assert!(w.now.since(before) > Span::from_ms(30), "it is waited for");
    assert_eq!(figures(&mut w, &["legs_timed_out", "legs_missing"]), [0, 0]);
    assert!((0..3).all(|leg| needs(&w, leg)));
    w.lose(0);
    w.lose(1);
    w.back(1);
    w.run(10_000);
    assert_eq!(w.counter("is_serving"), 0, "leg a is not there");
    let kept = w.disk(0).copy();
    w.disk(0).wipe();
    w.back(0);
    w.run(10_000);
    assert_eq!(w.counter("is_serving"), 0, "leg a is blank");
    w.lose(0);
    w.run(1000);
    *w.disk(0) = kept;
    w.back(0);
    w.run(200_000);
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
    assert!((0..3).all(|leg| !needs(&w, leg)));
}

/// Whether the array could not serve without this leg.
fn needs(w: &World, leg: u8) -> bool {
    w.graph().members(3).is_some_and(|of| of.needs_child(leg))
}

/// The superblock of a leg that lies there now, the newer of two.
pub fn superblock(w: &World, leg: usize) -> Superblock {
    let records = w.layout.superblocks.map(|at| w.disk(leg).record(at));
    let read = records.iter().filter_map(|record| Superblock::read(record)).map(|(sb, _)| sb);
    read.max_by_key(|sb| sb.head.seq).expect("a superblock")
}

/// Puts a superblock into both slots of a leg.
fn put_superblock(w: &World, leg: usize, sb: &Superblock) {
    let mut page = vec![0; 4096];
    sb.encode(&mut page);
    w.layout.superblocks.into_iter().for_each(|at| w.disk(leg).put_record(at, &page));
}

/// The epoch of a leg that was refused was taken over, up to the bound, where the array wrote records that no start could read.
#[test]
fn a_leg_of_another_set_is_refused_and_changes_nothing() {
    let mut other = World::new(Setup::small(8));
    other.open(CREATE).expect("blank legs");
    other.close();
    let mut foreign = superblock(&other, 2);
    foreign.head.generation.epoch = EPOCHS - 1;
    put_superblock(&other, 2, &foreign);
    let mut w = world(|_| {});
    let a = w.write(0, 200);
    done(&mut w, a);
    w.run(10_000);
    w.lose(2);
    w.run(10_000);
    let own = w.disk(2).copy();
    *w.disk(2) = other.disk(2).copy();
    w.back(2);
    w.run(10_000);
    assert_eq!(w.counter("legs_refused"), 1);
    w.lose(2);
    *w.disk(2) = own;
    w.back(2);
    w.run(100_000);
    w.check_parity();
    w.lose(2);
    let b = w.write(0, 200);
    done(&mut w, b);
    w.cut();
    w.disk(2).lost = false;
    w.open(OpenOptions::default()).expect("all legs");
    w.read_all();
    w.run(100_000);
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// An array that has ended in order, and whose records say that `epoch` changes of the set came before.
fn aged(epoch: u64) -> World {
    let mut w = world(|_| {});
    let a = w.write(0, 200);
    done(&mut w, a);
    w.close();
    w.cut();
    for leg in 0..3 {
        let mut sb = superblock(&w, leg);
        sb.head.generation.epoch = epoch;
        put_superblock(&w, leg, &sb);
    }
    w
}

/// What is left of the count is kept for starts.
#[test]
fn near_the_bound_of_the_count_of_changes_no_leg_joins_and_starts_go_on() {
    for (epoch, joins) in [(EPOCHS - KEPT_EPOCHS - 4, true), (EPOCHS - KEPT_EPOCHS - 1, false)] {
        let mut w = aged(epoch);
        w.open(OpenOptions::default()).expect("all legs");
        w.lose(2);
        let a = w.write(0, 100);
        done(&mut w, a);
        w.back(2);
        w.run(100_000);
        assert_eq!(figures(&mut w, &["legs_joined", "legs_refused"]), [u64::from(joins), u64::from(!joins)]);
        w.close();
        w.cut();
        w.open(OpenOptions::default()).expect("the others are current");
        w.run(100_000);
        w.read_all();
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn at_the_bound_of_the_count_of_changes_a_start_is_refused_in_words() {
    let mut w = aged(EPOCHS - START_EPOCHS - 1);
    w.open(OpenOptions::default()).expect("the last start");
    w.close();
    w.cut();
    let error = w.open(OpenOptions::default()).expect_err("nothing can be counted any more").to_string();
    assert!(error.contains("their records can count no more; empty the records of all legs"), "{error}");
    w.cut();
    for leg in 0..3 {
        w.layout.superblocks.into_iter().for_each(|at| w.disk(leg).put_record(at, &[0; 4096]));
    }
    w.open(OpenOptions { salvage: true, ..OpenOptions::default() }).expect("a new set");
    w.read_all();
    w.check_parity();
    assert_eq!(w.wrong, None);
}

/// A late answer went into the buffer of the machine above, which had its record by then.
#[test]
fn a_record_of_a_machine_above_is_read_past_a_leg_that_hangs() {
    let mut w = world(|s| s.config.request_timeout = Span::from_ms(2));
    let a = w.write_record(3, 0xA1);
    done(&mut w, a);
    w.run(10_000);
    w.freeze(0, Span::from_ms(40));
    let before = w.now;
    let (r, buffer) = w.read_record(3);
    done(&mut w, r);
    assert!(w.now.since(before) <= Span::from_us(2600));
    assert_eq!(w.reuse_record(buffer, 0x55), [0xA1]);
    w.run(100_000);
    assert_eq!(w.reuse_record(buffer, 0), [0x55], "the late answer meets nobody");
    w.pool().release(buffer);
    w.check_buffers();
    assert_eq!(w.wrong, None);
}

/// The sectors of both superblocks of a leg.
fn superblock_sectors(w: &World) -> Vec<u64> {
    w.layout.superblocks.into_iter().flat_map(|at| at / 512..at / 512 + 8).collect()
}

#[test]
fn a_leg_that_does_not_take_its_superblock_is_out_and_on_record_so() {
    for closes in [false, true] {
        let mut w = world(|_| {});
        let a = w.write(0, 40);
        done(&mut w, a);
        w.run(10_000);
        let sectors = superblock_sectors(&w);
        w.disk(1).rejects.extend(sectors);
        if closes {
            w.close();
        } else {
            // The journal is half full: a checkpoint is due.
            for row in 0..8 {
                let a = w.write(row * 16, 8);
                done(&mut w, a);
            }
            w.run(10_000);
        }
        assert_eq!(figures(&mut w, &["leg_write_errors", "legs_lost", "legs_missing"]), [1, 1, 1]);
        assert!([0, 2].iter().all(|&leg| superblock(&w, leg).upto[1] == OUT), "the others say so");
        w.cut();
        w.disk(1).rejects.clear();
        w.open(OpenOptions::default()).expect("the others are current");
        w.run(100_000);
        w.read_all();
        w.check_parity();
        assert_eq!(w.wrong, None);
    }
}

#[test]
fn a_start_ends_without_a_leg_whose_superblocks_cannot_be_read() {
    for how in [OpenOptions::default(), CREATE] {
        let mut w = world(|_| {});
        let a = w.write(0, 200);
        done(&mut w, a);
        w.cut();
        let sectors = superblock_sectors(&w);
        w.disk(1).bad.extend(sectors);
        w.open(how).expect("the others are current");
        w.run(100_000);
        // It has failed, so nothing is asked of it any more: it does not pass for a blank one.
        assert_eq!(figures(&mut w, &["legs_missing", "legs_joined", "legs_refused"]), [1, 0, 0]);
        w.read_all();
        assert_eq!(w.wrong, None);
    }
}

/// An entry of which a part was not found was never sent to its place: that of a leg that cannot be read must not pass for that.
#[test]
fn a_start_ends_without_a_leg_whose_journal_cannot_be_read() {
    for n in 1..80 {
        let mut w = world(|_| {});
        let a = w.write(0, 40);
        done(&mut w, a);
        w.fuse = Some(n);
        let jobs = [w.write(2, 4), w.write(20, 9)];
        w.run(10_000);
        let acknowledged = jobs.iter().filter(|job| w.is_ok(**job)).count();
        w.cut();
        w.disk(1).bad.extend((0..8).map(|slot| w.layout.slot(slot).0 / 512).collect::<Vec<_>>());
        w.open(OpenOptions::default()).expect("the others are current");
        assert_eq!(w.counter("legs_missing"), 1);
        w.read_all();
        assert_eq!(w.wrong, None, "cut after {n} events, {acknowledged} acknowledged");
    }
}
