//! `fault` against the set of values that each sector may hold.

use nandu_base::{ErrorKind, Flags, Instant, Op, Rng, SECTOR, Span, Stamp};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

fn bed(options: &str, seed: u64, planted: &[&str]) -> Testbed {
    let text = format!(
        "[export.data]\ndevice = \"bad\"\n[device.bad]\nkind = \"fault\"\nbelow = \"disk\"\n{options}\n\
         [device.disk]\nkind = \"memory\"\nsize = \"32 KiB\"\nlatency = \"100 us\"\n"
    );
    let planted = planted.iter().map(|p| p.to_string()).collect();
    Testbed::new(&text, &builtin(), BuildOptions { seed, planted, ..BuildOptions::default() }).unwrap()
}

const CACHE: &str = "cache = { size = \"8 KiB\", destage_interval = \"300 us\" }";

/// What each sector may hold: versions from the last one flushed to the newest.
struct Model {
    sectors: Vec<Vec<Stamp>>,
}

impl Model {
    fn new(sectors: u64) -> Model {
        Model { sectors: vec![vec![Stamp::ZERO]; sectors as usize] }
    }

    /// A change was acknowledged.
    fn change(&mut self, at: u64, len: u64, durable: bool, stamp: impl Fn(u64) -> Stamp) {
        for s in at..at + len {
            let versions = &mut self.sectors[s as usize];
            if durable {
                versions.clear();
            }
            versions.push(stamp(s));
        }
    }

    fn flushed(&mut self) {
        self.sectors.iter_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
    }

    /// After a crash: every sector holds one of its versions, and from then on only that.
    fn settle(&mut self, data: &[Stamp]) -> Result<(), String> {
        for (at, (versions, found)) in self.sectors.iter_mut().zip(data).enumerate() {
            if !versions.contains(found) {
                return Err(format!("sector {at} holds {found:?}, allowed are {versions:?}"));
            }
            *versions = vec![*found];
        }
        Ok(())
    }

    fn newest(&self) -> Vec<Stamp> {
        self.sectors.iter().map(|versions| *versions.last().unwrap()).collect()
    }
}

/// Random requests one after the other, with several crashes in between. The first value that is not allowed.
fn race(bed: &mut Testbed, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let sectors = bed.capacity(0) / SECTOR;
    let mut model = Model::new(sectors);
    for crash in 0..12 {
        for _ in 0..rng.below(40) {
            let len = rng.between(1, 20);
            let at = rng.below(sectors - len + 1);
            let op =
                *rng.pick(&[Op::Read, Op::Write, Op::Write, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush]);
            let durable = op == Op::Write && rng.below(6) == 0;
            let flags = if durable { Flags::FUA } else { Flags::NONE };
            let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (at * SECTOR, len * SECTOR) };
            let serial = bed.submit(0, op, flags, offset, bytes);
            bed.settle();
            let done = bed.take_done().pop().expect("one request is done");
            assert_eq!((done.serial, done.error), (serial, None));
            match op {
                Op::Read if done.data != model.newest()[at as usize..(at + len) as usize] => {
                    return Err(format!("read of {at} for {len} before crash {crash}: {:?}", done.data));
                }
                Op::Write => model.change(at, len, durable, |s| Stamp::new(serial, s)),
                Op::Trim | Op::WriteZeroes => model.change(at, len, false, |_| Stamp::ZERO),
                Op::Flush => model.flushed(),
                _ => {}
            }
            let pause = Span(rng.below(200_000));
            bed.pass(pause);
        }
        bed.crash(seed + crash);
        model.settle(&bed.go(Op::Read, 0, sectors * SECTOR).data)?;
        if bed.go(Op::Read, 0, sectors * SECTOR).data != model.newest() {
            return Err("a second read differs from the first".into());
        }
    }
    Ok(())
}

#[test]
fn a_crash_leaves_an_allowed_value() {
    for seed in 0..40 {
        race(&mut bed(CACHE, seed, &[]), seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_lying_flush_is_seen() {
    let caught =
        (0..10).filter(|&seed| race(&mut bed(CACHE, seed, &["fault.lying-flush"]), seed).is_err()).count();
    assert!(caught >= 5, "only {caught} of 10 seeds show it");
}

#[test]
fn unflushed_writes_are_torn_and_reordered() {
    // In some run a sector of a later write survives while one of an earlier write does not, and a write is torn.
    let (mut reordered, mut torn) = (false, false);
    for seed in 0..30 {
        let mut bed = bed(CACHE, seed, &[]);
        let first = bed.go(Op::Write, 0, 4096).serial;
        let second = bed.go(Op::Write, 8192, 4096).serial;
        bed.pass(Span::from_us(900));
        let left = |serial, from: u64| {
            (0..8)
                .filter(|i| bed.stored("disk", from + i * SECTOR) == Stamp::new(serial, from / SECTOR + i))
                .count()
        };
        let (a, b) = (left(first, 0), left(second, 8192));
        reordered |= a < 8 && b > 0;
        torn |= (1..8).contains(&a);
    }
    assert!(reordered && torn);
}

#[test]
fn many_at_once_end_and_leave_nothing_behind() {
    for seed in 0..20 {
        let mut bed = bed(
            &format!(
                "{CACHE}\nfreeze = {{ kind = \"random\", mean_interval = \"2 ms\", duration = \"1 ms\" }}"
            ),
            seed,
            &[],
        );
        let mut rng = Rng::new(seed);
        for _ in 0..300 {
            let len = rng.between(1, 16);
            let at = rng.below(64 - len);
            let op = *rng.pick(&[Op::Read, Op::Write, Op::Write, Op::Trim, Op::Flush]);
            let flags = if rng.below(8) == 0 { Flags::FUA } else { Flags::NONE };
            let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (at * SECTOR, len * SECTOR) };
            bed.submit(0, op, flags, offset, bytes);
            bed.pass(Span(rng.below(60_000)));
        }
        bed.settle();
        assert_eq!(bed.take_done().len(), 300);
        bed.close();
        assert_eq!(bed.graph().requests.alive(), 0);
        assert_eq!(bed.graph().pool.living(), 0);
    }
}

#[test]
fn a_loss_fails_requests_and_keeps_what_was_flushed() {
    let loss = format!("{CACHE}\nloss = {{ kind = \"at\", at = \"50 ms\", outage = \"10 ms\" }}");
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..20 {
        let mut bed = bed(&loss, seed, &[]);
        let flushed = bed.go(Op::Write, 0, 4096).serial;
        bed.go(Op::Flush, 0, 0);
        bed.run_until(Instant::ZERO + Span(49_990_000));
        let unflushed = bed.go(Op::Write, 8192, 4096).serial;
        bed.run_until(Instant::ZERO + Span::from_ms(51));
        let gone = bed.go(Op::Read, 0, 4096).error.expect("the device is gone");
        assert_eq!(gone.kind, ErrorKind::Gone);
        bed.run_until(Instant::ZERO + Span::from_ms(70));
        let data = bed.go(Op::Read, 0, 16384).data;
        assert_eq!(data[0], Stamp::new(flushed, 0));
        for i in 0..8 {
            let found = data[16 + i as usize];
            assert!(found == Stamp::ZERO || found == Stamp::new(unflushed, 16 + i));
            *(if found == Stamp::ZERO { &mut lost } else { &mut kept }) += 1;
        }
        assert_eq!(bed.go(Op::Read, 0, 16384).data, data);
    }
    assert!(kept > 20 && lost > 20, "{kept} sectors survive, {lost} do not");
}

#[test]
fn a_lost_destage_fails_every_later_flush() {
    let mut bed = bed(CACHE, 3, &[]);
    bed.spoil("disk", 0, 512, ErrorKind::WriteFailed);
    assert_eq!(bed.go(Op::Write, 0, 4096).error, None);
    for _ in 0..2 {
        assert_eq!(bed.go(Op::Flush, 0, 0).error.map(|e| e.kind), Some(ErrorKind::WriteFailed));
    }
}

#[test]
fn errors_come_with_their_chance() {
    let mut bed = bed("read_error_rate = \"1/4\"\nwrite_error_rate = 1", 5, &[]);
    let failed = (0..400).filter(|_| bed.go(Op::Read, 0, 4096).error.is_some()).count();
    assert!((60..140).contains(&failed), "{failed} of 400 reads fail");
    assert!(bed.go(Op::Write, 0, 512).error.is_some());
    assert_eq!(bed.go(Op::Flush, 0, 0).error, None);
    assert_eq!(bed.stored("disk", 0), Stamp::ZERO);
}

#[test]
fn a_failed_write_may_leave_a_part_that_a_flush_makes_durable() {
    let options =
        "write_error_rate = 1\nwrite_error_leaves_part = true\ncache = { destage_interval = \"1 h\" }";
    let mut parts = Vec::new();
    for seed in 1..20 {
        let mut bed = bed(options, seed, &[]);
        let write = bed.go(Op::Write, 0, 4096);
        assert!(write.error.is_some());
        let left = |bed: &Testbed| {
            (0..8).filter(|&at| bed.stored("disk", at * SECTOR) == Stamp::new(write.serial, at)).count()
        };
        assert_eq!(left(&bed), 0, "seed {seed}: it is in the cache");
        assert_eq!(bed.go(Op::Flush, 0, 0).error, None);
        parts.push(left(&bed));
    }
    assert!(
        parts.iter().all(|part| (1..=8).contains(part)) && parts.iter().any(|&part| part > 3),
        "{parts:?}"
    );
}

#[test]
fn a_freeze_holds_requests() {
    let mut bed = bed("freeze = { kind = \"at\", at = \"1 ms\", duration = \"7 ms\" }", 1, &[]);
    bed.run_until(Instant::ZERO + Span::from_ms(2));
    assert_eq!(bed.go(Op::Flush, 0, 0).at, Instant::ZERO + Span(8_100_000));
}

#[test]
fn a_delay_passes_side_by_side_and_keeps_the_order() {
    let mut bed = bed("delay = \"7 ms\"", 1, &[]);
    let first = bed.submit(0, Op::Flush, Flags::NONE, 0, 0);
    let second = bed.submit(0, Op::Write, Flags::NONE, 0, 512);
    bed.settle();
    let done = bed.take_done();
    assert_eq!([done[0].serial, done[1].serial], [first, second]);
    assert_eq!(done[0].at, Instant::ZERO + Span(7_100_000));
    assert!(done[1].at < Instant::ZERO + Span::from_ms(8), "the second one waits at the same time");
}

#[test]
fn a_flip_changes_one_sector_of_a_write_and_nothing_else() {
    let mut bed = bed("flip_rate = 1", 7, &[]);
    for round in 1..=20 {
        let serial = bed.go(Op::Write, 4096, 4096).serial;
        let wrong = (8..16).filter(|&at| bed.stored("disk", at * SECTOR) != Stamp::new(serial, at)).count();
        assert_eq!(wrong, 1, "round {round}");
        assert_eq!(figure(&mut bed, "bad", "flips"), round);
    }
}

#[test]
fn what_is_expected_of_a_write_depends_on_room_in_the_cache() {
    let mut bed = bed(CACHE, 1, &[]);
    let expected = |bed: &Testbed, op| {
        let (at, len) = (nandu_base::ByteOffset(16384), nandu_base::ByteLen(4096));
        bed.graph().expected_latency(bed.node("bad"), op, at, len, bed.now())
    };
    let from_disk = expected(&bed, Op::Read);
    assert!(from_disk >= Span::from_us(100));
    assert_eq!(expected(&bed, Op::Write), Span::ZERO);
    bed.go(Op::Write, 0, 8192);
    assert_eq!(expected(&bed, Op::Write), from_disk, "the cache is full");
}

/// A figure of a device.
fn figure(bed: &mut Testbed, device: &str, name: &str) -> u64 {
    bed.counter(device, name)
}

/// A device is gone while it, or the one below it, is lost: that is told once, and that it is back when both are.
#[test]
fn a_loss_below_a_loss_is_one_loss() {
    let leg = |at: u32, outage: u32| {
        format!("kind = \"fault\"\nloss = {{ kind = \"at\", at = \"{at} ms\", outage = \"{outage} ms\" }}\n")
    };
    for ((upper, lower), back) in [(((5, 100), (20, 300)), 320), (((20, 300), (5, 100)), 320)] {
        let text = format!(
            "[export.data]\ndevice = \"top\"\n[device.top]\nkind = \"mirror\"\nlegs = [\"upper\", \"single\"]\n\
             [device.upper]\nbelow = \"lower\"\n{}[device.lower]\nbelow = \"disk\"\n{}\
             [device.disk]\nkind = \"memory\"\nsize = \"512 KiB\"\n[device.single]\nkind = \"memory\"\nsize = \"512 KiB\"\n",
            leg(upper.0, upper.1),
            leg(lower.0, lower.1),
        );
        let mut bed =
            Testbed::new(&text, &builtin(), BuildOptions { seed: 1, ..BuildOptions::default() }).unwrap();
        bed.run_until(Instant::ZERO + Span::from_ms(4));
        let before = figure(&mut bed, "top", "rejoins");
        for (ms, is_member) in [(4, 1), (6, 0), (110, 0), (back - 5, 0), (back + 2000, 1)] {
            bed.run_until(Instant::ZERO + Span::from_ms(ms));
            assert_eq!(figure(&mut bed, "top", "leg_a_is_member"), is_member, "after {ms} ms");
        }
        assert_eq!(figure(&mut bed, "top", "rejoins"), before + 1);
    }
}
