//! What a cut and a start make of a drive: trims whose record is on its way, and checkpoints.

use super::*;

/// Trims whose records are still on their way, on a die with a long queue, while other dies clear blocks: a cut must not
/// bring back what lay there before the trimmed version.
pub(super) fn trims_in_flight(seed: u64, plant: Option<&str>) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    // So full that blocks without any valid page are taken at once.
    let tight = tiny().spare(0.57);
    let mut bench = Bench::new(&tight, plant, Precondition::Empty);
    let page = 1u64 << bench.page_bits();
    let (sectors, pages) = (page / SECTOR, bench.limits().capacity.0 / page);
    let hot = 64;
    let mut serial = 0;
    let mut write = |bench: &mut Bench, at: u64| {
        serial += 1;
        let stamp = Stamp::new(serial, at * sectors);
        let end = bench.issue(Op::Write, at * sectors, sectors, Payload::run(stamp), Flags::NONE);
        (stamp, end)
    };
    for round in 0..12 {
        // The older version lies among cold data, the newer one in blocks of its own.
        let mut last = bench.now();
        for at in 0..hot {
            let cold = rng.between(hot, pages - 1);
            last = last.later(write(&mut bench, at).1).later(write(&mut bench, cold).1);
        }
        bench.run_until(last);
        let newer: Vec<(Stamp, Instant)> = (0..hot).map(|at| write(&mut bench, at)).collect();
        let last = newer.iter().fold(bench.now(), |last, w| last.later(w.1));
        bench.run_until(last);
        // One die has a long queue.
        let busy = rng.below(pages);
        for _ in 0..rng.below(60) {
            bench.stamps(busy * sectors, sectors);
        }
        let end = bench.issue(Op::Trim, 0, hot * sectors, Payload::NONE, Flags::NONE);
        bench.run_until(end);
        let flushed = bench.issue(Op::Flush, 0, 0, Payload::NONE, Flags::NONE);
        for _ in 0..rng.below(200) {
            let cold = rng.between(hot, pages - 1);
            write(&mut bench, cold);
        }
        let left = flushed.0.saturating_sub(bench.now().0);
        bench.pass(Span(rng.below(left.max(1))));
        bench.cut(&mut rng);
        for (at, (newer, _)) in (0..).zip(&newer) {
            let found = bench.stamps(at * sectors, 1)[0];
            if found != *newer && found != Stamp::ZERO {
                return Err(format!(
                    "I-1: seed {seed}, round {round}: page {at} holds {found:?}, an older version than {newer:?}, which was trimmed"
                ));
            }
        }
    }
    Ok(())
}

/// Trims of page after page, each put on record by a flush: how many pages of records are written with so many records at most.
fn pages_of_records(most: u32) -> u64 {
    let drive = tiny().with(format_args!("trim_records = {most}\n"));
    let mut bench = Bench::new(&drive, None, Precondition::Filled);
    bench.forget_media();
    for page in 0..24 {
        bench.pass(Span(5_000_000));
        bench.issue(Op::Trim, page * 8, 4, Payload::NONE, Flags::NONE);
        bench.issue(Op::Flush, 0, 0, Payload::NONE, Flags::NONE);
    }
    bench.check().unwrap();
    bench.counter("journal_pages")
}

#[test]
fn few_records_of_trims_are_written_anew_often() {
    let (few, many) = (pages_of_records(1), pages_of_records(16));
    assert!(few > many && many >= 24, "{few} pages with one record at most, {many} with 16");
}

#[test]
fn an_erase_waits_for_trim_records_in_flight() {
    for seed in 0..100 {
        trims_in_flight(seed, None).unwrap();
    }
    let found = (0..100).find_map(|seed| trims_in_flight(seed, Some("ssd.erase-before-record")).err());
    assert!(found.is_some(), "an erase that does not wait is never found");
}

/// What a start after a cut takes on a drive of 256 MiB raw, with checkpoints and without; printed with `--nocapture`.
#[test]
fn a_start_from_a_checkpoint_reads_a_fraction() {
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(512).pages(64).spare(0.2);
    let maps = Maps::builtin().iter().map(|map| (map.name, drive.clone().map(map.name, "")));
    for (map, drive) in maps.filter(|(_, drive)| drive.has_map_on_flash()) {
        let start = |options: &str| {
            let mut bench =
                Bench::new(&drive.clone().cache(16 << 10).with(options), None, Precondition::Filled);
            let sectors = bench.limits().capacity.sectors();
            let mut rng = Rng::new(1);
            for _ in 0..20_000 {
                bench.pass(Span(2_000_000));
                let sector = rng.below(sectors / 4) * 4;
                let stamp = Payload::run(Stamp::new(1, sector));
                bench.issue(Op::Write, sector, 4, stamp, Flags::NONE);
            }
            bench.pass(Span(50_000_000));
            bench.cut(&mut rng);
            bench.check().unwrap();
            let mut get = |name| bench.counter(name);
            (get("recovery_pages_read"), get("recovery_ns"), get("recovery_from_checkpoint"))
        };
        let (all, long, _) = start("");
        let (some, short, bounded) = start("checkpoint_interval = 64\n");
        println!(
            "{map}: {all} pages, {} ms; with checkpoints {some}, {} ms",
            long / 1_000_000,
            short / 1_000_000
        );
        assert_eq!(bounded, 1, "{map}: the checkpoint was not enough");
        assert!(some * 4 < all && short < long, "{map}: {some} of {all} pages, {short} of {long} ns");
    }
}

/// One trim of a page here and a page there, over all of a drive that has few erased blocks left: it needs many records, and each of them a page.
#[test]
fn a_long_trim_of_many_runs_goes_on_record_where_blocks_are_scarce() {
    let drive = ssd("slc-2015").blocks(800).pages(4).page_size(512).spare(0.4);
    let mut bench = Bench::new(&drive, None, Precondition::Empty);
    let pages = bench.limits().capacity.sectors();
    let mut rng = Rng::new(1);
    for page in (0..pages).step_by(2) {
        bench.pass(Span(1_000_000));
        bench.put(1, page, 1);
    }
    for serial in 2..6000 {
        bench.pass(Span(1_000_000));
        bench.put(serial, rng.below(pages / 2) * 2, 1);
    }
    bench.issue(Op::Trim, 0, pages, Payload::NONE, Flags::NONE);
    let end = bench.issue(Op::Flush, 0, 0, Payload::NONE, Flags::NONE);
    bench.run_until(end);
    bench.check().expect("every invariant holds");
    bench.cut(&mut rng);
    assert!((0..pages).all(|at| bench.stamps(at, 1) == [Stamp::ZERO]));
}
