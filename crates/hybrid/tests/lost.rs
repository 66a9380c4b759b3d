//! Rings that hold what the disk does not have are lost for good: what is lost fails until it is written anew, everything else is served, and nothing old is ever read as if it were new.

use nandu_base::{
    Admin, ByteLen, ByteOffset, DeviceEvent, ErrorKind, Flags, Instant, Op, OpenOptions, Rng, SECTOR, Stamp,
};
use nandu_stack::testbed::{Done, Testbed};
use nandu_stack::{BuildOptions, builtin};

const PAGE: u64 = 4096;
const REGION: u64 = 16 << 10;
const PLAIN: OpenOptions = OpenOptions { create: false, alone: false, assume_clean: false, salvage: false };
const ALONE: OpenOptions = OpenOptions { alone: true, ..PLAIN };

fn stack(rings: &[&str], options: &str) -> String {
    let ring = |name: &&str| {
        let below =
            format!("[device.{name}-flash]\nkind = \"memory\"\nsize = \"352 KiB\"\nlatency = \"50 us\"\n");
        format!("[device.{name}]\nkind = \"fault\"\nbelow = \"{name}-flash\"\n{below}")
    };
    let named: String = rings.iter().map(|name| format!("{name} = \"{name}\"\n")).collect();
    format!(
        "[export.data]\ndevice = \"hybrid\"\n[device.hybrid]\nkind = \"hybrid\"\ndisk = \"disk\"\nerase_unit = \"32 KiB\"\n\
         dram_size = \"64 KiB\"\n{named}{options}\n\
         [device.disk]\nkind = \"fault\"\nbelow = \"platter\"\ncache = {{ size = \"64 KiB\", destage_interval = \"3 ms\" }}\n\
         [device.platter]\nkind = \"memory\"\nsize = \"2 MiB\"\nlatency = \"300 us\"\n{}",
        rings.iter().map(ring).collect::<String>()
    )
}

const MAPPED: &str = "dirty_region_size = \"16 KiB\"\nappend_idle = \"100 us\"";

fn bed(rings: &[&str], options: &str) -> Testbed {
    let built = Testbed::new(&stack(rings, options), &builtin(), BuildOptions::default());
    built.unwrap_or_else(|error| panic!("{error}"))
}

fn figure(bed: &mut Testbed, name: &str) -> u64 {
    bed.counter("hybrid", name)
}

fn lost(bed: &Testbed) -> Vec<(ByteOffset, ByteLen)> {
    let mut ranges = Vec::new();
    bed.graph().members(bed.node("hybrid")).expect("it has members").lost(&mut ranges);
    ranges
}

fn rest(bed: &mut Testbed, ms: u64) {
    let later = Instant(bed.now().0 + ms * 1_000_000);
    bed.run_until(later);
}

fn fails(done: &Done) -> bool {
    match done.error {
        None => false,
        Some(error) => {
            assert_eq!(error.kind, ErrorKind::Lost);
            true
        }
    }
}

/// The ring is missing at the next start, and is given up.
fn give_up(bed: &mut Testbed, seed: u64) {
    bed.miss(&["slc", "slc-flash"]);
    bed.reopen(ALONE, seed).expect("it goes on alone");
}

#[test]
fn what_only_the_ring_had_is_named_and_fails_and_all_else_is_served() {
    let mut bed = bed(&["slc"], MAPPED);
    bed.go(Op::Write, 0, REGION);
    bed.go(Op::Write, 5 * REGION + PAGE, PAGE);
    bed.go(Op::Flush, 0, 0);
    assert_eq!((figure(&mut bed, "dirty_regions"), figure(&mut bed, "dirty_region_bytes")), (2, 2 * REGION));
    bed.miss(&["slc", "slc-flash"]);
    let why = bed.reopen(PLAIN, 2).expect_err("it may hold something newer").to_string();
    assert!(why.contains("ring 0 is not there") && why.contains("2 regions of 16 KiB"), "{why}");
    assert!(why.contains("--force-degraded"), "{why}");
    bed.reopen(ALONE, 3).expect("an operator says so");
    let named = [(ByteOffset(0), ByteLen(REGION)), (ByteOffset(5 * REGION), ByteLen(REGION))];
    for start in 0..3 {
        assert_eq!(lost(&bed), named, "start {start}");
        assert_eq!((figure(&mut bed, "lost_bytes"), figure(&mut bed, "rings_given_up")), (2 * REGION, 1));
        assert!(fails(&bed.go(Op::Read, 0, PAGE)) && fails(&bed.go(Op::Read, 6 * REGION - PAGE, 2 * PAGE)));
        assert!(fails(&bed.go(Op::Write, PAGE, 512)), "a part of a lost page");
        assert!(!fails(&bed.go(Op::Read, REGION, 4 * REGION)));
        let serial = bed.go(Op::Write, 2 * REGION, PAGE).serial;
        assert_eq!(bed.go(Op::Read, 2 * REGION, PAGE).data[0], Stamp::new(serial, 64));
        bed.close();
        // Without a word: the operator has given it once.
        bed.reopen(PLAIN, 10 + start).expect("it needs no ring any more");
    }
}

#[test]
fn a_lost_page_is_served_again_once_it_is_written_whole_and_its_neighbours_are_not() {
    let mut bed = bed(&["slc"], MAPPED);
    bed.go(Op::Write, 0, 2 * REGION);
    bed.go(Op::Flush, 0, 0);
    give_up(&mut bed, 2);
    let serial = bed.go(Op::Write, PAGE, 2 * PAGE).serial;
    assert!(!fails(&bed.go(Op::Trim, 4 * PAGE, PAGE)), "a trim of a whole page");
    bed.go(Op::Flush, 0, 0);
    for start in 0..2 {
        let whole = bed.go(Op::Read, PAGE, 2 * PAGE);
        assert_eq!((whole.error, whole.data[15]), (None, Stamp::new(serial, 23)), "start {start}");
        for page in [0, 3, 4, 7] {
            assert!(fails(&bed.go(Op::Read, page * PAGE, PAGE)), "page {page}");
        }
        assert_eq!(lost(&bed)[0], (ByteOffset(0), ByteLen(PAGE)));
        bed.crash(3 + start);
    }
    bed.admin("hybrid", Admin::AcceptLost).expect("an operator takes what the disk has");
    rest(&mut bed, 100);
    for start in 0..2 {
        assert_eq!((lost(&bed).len(), bed.go(Op::Read, 0, PAGE).data[0]), (0, Stamp::ZERO), "start {start}");
        bed.crash(6 + start);
    }
}

#[test]
fn a_ring_is_given_up_and_another_one_taken_while_it_serves() {
    let mut bed = bed(&["slc"], MAPPED);
    let serial = bed.go(Op::Write, 0, PAGE).serial;
    bed.go(Op::Flush, 0, 0);
    let in_dram = bed.go(Op::Write, 0, PAGE).serial;
    let why = bed.admin("hybrid", Admin::Replace(0)).expect_err("it works").to_string();
    assert!(why.contains("give it up first"), "{why}");
    bed.device_event("slc", DeviceEvent::Lost);
    assert_eq!(bed.go(Op::Read, 0, PAGE).error.map(|e| e.kind), Some(ErrorKind::Gone), "no word was given");
    bed.admin("hybrid", Admin::Replace(0)).expect("it is given up");
    rest(&mut bed, 50);
    let done = bed.go(Op::Read, 0, PAGE);
    assert_eq!((done.error, done.data[0]), (None, Stamp::new(in_dram, 0)), "DRAM had it whole, not {serial}");
    assert!(fails(&bed.go(Op::Read, PAGE, PAGE)), "of the same region");
    bed.wipe("slc-flash");
    bed.device_event("slc", DeviceEvent::Back);
    rest(&mut bed, 50);
    assert_eq!((figure(&mut bed, "rings_given_up"), figure(&mut bed, "dirty_regions")), (0, 0));
    let next = bed.go(Op::Write, 40 * PAGE, PAGE).serial;
    let over = bed.go(Op::Write, PAGE, PAGE).serial;
    bed.go(Op::Flush, 0, 0);
    assert!(figure(&mut bed, "slc_bytes_written") > 0);
    bed.crash(5);
    for (page, serial) in [(0, in_dram), (40, next), (1, over)] {
        assert_eq!(bed.go(Op::Read, page * PAGE, PAGE).data[0], Stamp::new(serial, page * 8), "page {page}");
    }
    assert!(fails(&bed.go(Op::Read, 2 * PAGE, PAGE)), "still lost");
    // The second ring is lost as well.
    give_up(&mut bed, 6);
    assert!(fails(&bed.go(Op::Read, 40 * PAGE, PAGE)) && fails(&bed.go(Op::Read, 2 * PAGE, PAGE)));
    assert_eq!(bed.go(Op::Read, PAGE, PAGE).data[0], Stamp::new(over, 8), "it was written past the ring");
}

#[test]
fn the_old_ring_is_never_believed_again() {
    let mut bed = bed(&["slc"], MAPPED);
    bed.go(Op::Write, 0, PAGE);
    bed.go(Op::Flush, 0, 0);
    bed.close();
    let old = bed.media();
    give_up(&mut bed, 2);
    let serial = bed.go(Op::Write, 0, PAGE).serial;
    bed.close();
    bed.miss(&[]);
    bed.restore_one(&old, "slc-flash");
    bed.reopen(PLAIN, 3).expect("it starts without");
    assert_eq!(figure(&mut bed, "rings_given_up"), 1);
    assert_eq!(bed.go(Op::Read, 0, PAGE).data[0], Stamp::new(serial, 0));
}

/// A map can be had only where the disk was made with it, and with the same regions.
#[test]
fn a_disk_keeps_the_map_with_which_it_was_made() {
    let sizes = ["", "dirty_region_size = \"16 KiB\"", "dirty_region_size = \"32 KiB\""];
    for (made, options) in sizes.iter().enumerate() {
        let mut first = bed(&["slc"], options);
        let serial = first.go(Op::Write, 0, PAGE).serial;
        first.close();
        for (other, options) in sizes.iter().enumerate() {
            let mut next = bed(&["slc"], options);
            next.restore(&first.media());
            match next.reopen(PLAIN, 2) {
                Ok(()) => {
                    assert_eq!(made, other);
                    assert_eq!(next.go(Op::Read, 0, PAGE).data[0], Stamp::new(serial, 0));
                }
                Err(error) => {
                    let why = error.to_string();
                    assert!(made != other && why.contains("the disk was made with"), "{why}");
                }
            }
        }
    }
}

/// What each sector may read: the versions since the last one that is durable.
struct Model {
    may: Vec<Vec<Stamp>>,
    lost_reads: u64,
}

impl Model {
    fn of(bed: &Testbed) -> Model {
        Model { may: vec![vec![Stamp::ZERO]; (bed.capacity(0) / SECTOR) as usize], lost_reads: 0 }
    }

    fn written(&mut self, first: u64, count: u64, serial: u32) {
        for at in first..first + count {
            self.may[at as usize].push(Stamp::new(serial, at));
        }
    }

    /// Everything before is durable.
    fn flushed(&mut self) {
        self.may.iter_mut().for_each(|may| drop(may.drain(..may.len() - 1)));
    }

    /// Reads everything, a page at a time: what is there may be what it is, or it is lost.
    fn check(&mut self, bed: &mut Testbed, what: &str) {
        for page in 0..self.may.len() as u64 / 8 {
            let done = bed.go(Op::Read, page * PAGE, PAGE);
            if fails(&done) {
                self.lost_reads += 1;
                continue;
            }
            for (at, found) in (page * 8..).zip(done.data) {
                let may = &mut self.may[at as usize];
                assert!(may.contains(&found), "{what}: sector {at} reads {found:?}, not one of {may:?}");
                *may = vec![found];
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The power is cut, and the ring is gone at the next start.
    CutAndGone,
    /// The ring is gone, and is given up while it serves.
    GoneAndReplaced,
    /// The ring is gone and given up, and the power is cut a moment later.
    ReplacedAndCut,
}

/// Tells a story, with something happening at step `at`; how many steps it has.
fn story(at: u64, fate: Fate) -> (u64, u64) {
    let options =
        format!("{MAPPED}\nwrite_bypass = \"24 KiB\"\npromote = \"always\"\ndirty_max = \"128 KiB\"");
    let mut bed = bed(&["slc"], &options);
    let mut model = Model::of(&bed);
    let what = format!("{fate:?} at step {at}");
    let mut steps = 0;
    let (mut turn, mut happened) = (0, false);
    let mut rng = Rng::new(7);
    while turn < 90 && !happened {
        let page = rng.below(40);
        let (op, pages) = match turn % 9 {
            8 => (Op::Flush, 0),
            4 => (Op::Read, 3),
            5 if turn % 2 == 0 => (Op::Write, 8),
            _ => (Op::Write, 1 + rng.below(2)),
        };
        turn += 1;
        let offset = if op == Op::Flush { 0 } else { page * PAGE };
        let serial = bed.submit(0, op, Flags::NONE, offset, pages * PAGE);
        if op == Op::Write {
            model.written(page * 8, pages * 8, serial);
        }
        loop {
            if let Some(done) = bed.take_done().into_iter().find(|done| done.serial == serial) {
                assert_eq!(done.error, None, "{what}");
                if op == Op::Flush {
                    model.flushed();
                }
                break;
            }
            if steps == at {
                happened = true;
                break;
            }
            steps += 1;
            assert!(bed.step(), "{what}: a request is never finished");
        }
    }
    match fate {
        Fate::CutAndGone => {
            bed.miss(&["slc", "slc-flash"]);
            bed.reopen(ALONE, at + 1).expect("it goes on alone");
        }
        Fate::GoneAndReplaced | Fate::ReplacedAndCut => {
            bed.device_event("slc", DeviceEvent::Lost);
            bed.admin("hybrid", Admin::Replace(0)).unwrap_or_else(|error| panic!("{what}: {error}"));
            if matches!(fate, Fate::ReplacedAndCut) {
                (0..at % 23).for_each(|_| {
                    bed.step();
                });
                bed.miss(&["slc", "slc-flash"]);
                bed.reopen(ALONE, at + 1).expect("it goes on alone");
            } else {
                rest(&mut bed, 200);
            }
        }
    }
    assert_eq!(figure(&mut bed, "rings_given_up"), 1, "{what}");
    model.check(&mut bed, &what);
    // What is written now stays, whole or not.
    for page in (0..40).step_by(3) {
        let done = bed.go(Op::Write, page * PAGE, PAGE);
        assert_eq!(done.error, None, "{what}: page {page}");
        model.written(page * 8, 8, done.serial);
    }
    bed.go(Op::Flush, 0, 0);
    model.flushed();
    bed.crash(at + 2);
    model.check(&mut bed, &what);
    // Another ring.
    bed.miss(&[]);
    bed.wipe("slc-flash");
    bed.reopen(OpenOptions { create: true, ..PLAIN }, at + 3).expect("it starts with another ring");
    assert_eq!(figure(&mut bed, "rings_given_up"), 0, "{what}");
    model.check(&mut bed, &what);
    bed.close();
    assert_eq!(bed.graph().pool.living(), 0, "{what}: buffers are held after the end");
    (steps, model.lost_reads)
}

/// Appends, destaging, collections, long writes and flushes, and at each of their steps the loss of the ring.
#[test]
fn a_loss_at_every_step_reads_nothing_old() {
    let (steps, _) = story(1 << 40, Fate::CutAndGone);
    assert!(steps > 250, "{steps}");
    for fate in [Fate::CutAndGone, Fate::GoneAndReplaced, Fate::ReplacedAndCut] {
        let lost: u64 = (0..steps).map(|at| story(at, fate).1).sum();
        println!("{fate:?}: {steps} steps, {lost} lost pages read");
        assert!(lost > 0, "{fate:?}: something was lost");
    }
}

/// Regions are cleared once the disk has everything.
#[test]
fn a_region_at_rest_is_cleared() {
    let mut bed = bed(&["slc"], &format!("{MAPPED}\ndirty_max = \"64 KiB\""));
    for turn in 0..6 {
        for page in 0..24 {
            bed.go(Op::Write, (turn * 24 + page) * PAGE, PAGE);
        }
        bed.go(Op::Flush, 0, 0);
        rest(&mut bed, 50);
    }
    bed.go(Op::Flush, 0, 0);
    rest(&mut bed, 50);
    assert!(figure(&mut bed, "regions_cleared") > 0);
    assert!(figure(&mut bed, "dirty_regions") < 6 * 24 / 4, "{}", figure(&mut bed, "dirty_regions"));
    let dirty = figure(&mut bed, "dirty_region_bytes");
    give_up(&mut bed, 2);
    assert_eq!(figure(&mut bed, "lost_bytes"), dirty, "what was dirty is lost, and nothing else");
}
