//! Drives that were written once: by rule, and out of order.

use super::*;
use crate::ssd::config::BY_RULE_HERE;
use nandu_base::{Ask, Counter, Ratio};
use nandu_ftl::plan::fragmented;

fn counters(bench: &mut Bench) -> Vec<Counter> {
    bench.report("ssd", Ask::Counters).counters
}

fn flash_map(bench: &mut Bench) -> Option<FlashMap> {
    bench.report("ssd", Ask::FlashMap).flash_map
}

fn places(bench: &Bench) -> Vec<Option<Place>> {
    let limits = bench.limits();
    let page = u64::from(limits.preferred);
    let peek = Peek::new(&[], &[], &[], bench.now());
    (0..limits.capacity.0 / page)
        .map(|n| bench.graph().machine(0).advise()?.locate(ByteOffset(n * page), ByteLen(page), &peek))
        .collect()
}

/// What a map by rule answers, and when, is what one with every entry does, through writes, trims, collection and a cut.
#[test]
fn a_drive_filled_by_rule_behaves_as_one_filled_page_by_page() {
    by_rule_as_by_tables(Precondition::Filled);
}

#[test]
fn a_drive_aged_by_rule_behaves_as_one_aged_page_by_page() {
    by_rule_as_by_tables(Precondition::Aged);
}

fn by_rule_as_by_tables(precondition: Precondition) {
    let more = [
        tiny(),
        tiny().with("gc = { kind = \"cost-benefit\", threshold = 2 }\nwear = { static_wl_threshold = 2 }"),
        tiny().with("allocation_order = [\"plane\", \"channel\", \"chip\", \"die\"]"),
    ];
    let maps = Maps::builtin().iter().map(|map| tiny().map(map.name, ""));
    let logs = maps.filter(SsdTable::has_log_blocks);
    // A drive with such a map does not begin aged.
    let logs = logs.filter(|_| precondition == Precondition::Filled);
    for (seed, drive) in (1..).zip(more.into_iter().chain((0..MAPS.len()).map(paged)).chain(logs)) {
        let by_tables = BY_RULE_HERE.replace(1);
        let mut lazy = Bench::new(&drive, None, precondition);
        BY_RULE_HERE.set(by_tables);
        let mut full = Bench::new(&drive, None, precondition);
        let mut rng = Rng::new(seed);
        let sectors = lazy.limits().capacity.sectors();
        for turn in 0..1500 {
            let sector = rng.below(sectors);
            let count = (1 + rng.below(12)).min(sectors - sector);
            let op = *rng.pick(&[Op::Write, Op::Write, Op::Write, Op::Trim, Op::Flush]);
            let (sector, count) = if op == Op::Flush { (0, 0) } else { (sector, count) };
            let payload =
                if op == Op::Write { Payload::run(Stamp::new(turn + 1, sector)) } else { Payload::NONE };
            let later = Span(rng.below(600_000));
            let ends = [&mut lazy, &mut full].map(|bench| {
                bench.pass(later);
                bench.issue(op, sector, count, payload, Flags::NONE)
            });
            assert_eq!(ends[0], ends[1], "seed {seed}, turn {turn}");
            if turn % 100 == 0 {
                let read = [&mut lazy, &mut full].map(|bench| bench.stamps(sector, count.max(1)));
                assert_eq!(read[0], read[1], "seed {seed}, turn {turn}");
                assert_eq!(flash_map(&mut lazy), flash_map(&mut full), "seed {seed}, turn {turn}");
                lazy.check().expect("every page is where the map says");
            }
        }
        assert_eq!(counters(&mut lazy), counters(&mut full), "seed {seed}");
        assert_eq!(places(&lazy), places(&full), "seed {seed}");
        lazy.cut(&mut rng.fork(1));
        full.cut(&mut rng.fork(1));
        assert_eq!(places(&lazy), places(&full), "seed {seed}, after a cut");
    }
}

/// The state that writing the pages in that order leaves.
#[test]
fn a_fragmented_drive_is_one_that_was_written_out_of_order() {
    for percent in [0, 30, 100] {
        let share = Ratio::new(percent, 100);
        let mut computed = Bench::new(&tiny(), None, Precondition::Fragmented(share));
        let mut written = Bench::new(&tiny(), None, Precondition::Empty);
        let limits = written.limits();
        let (page, pages) = (u64::from(limits.preferred) / SECTOR, places(&computed).len() as u32);
        for lpn in fragmented(pages, share, Rng::new(1).fork(4).bits()) {
            written.pass(Span::from_ms(1));
            let sector = u64::from(lpn) * page;
            let payload = Payload::run(Stamp::new(1, sector));
            let end = written.issue(Op::Write, sector, page, payload, Flags::NONE);
            written.run_until(end);
        }
        assert_eq!(places(&computed), places(&written), "{percent} %");
        assert_eq!(flash_map(&mut computed), flash_map(&mut written), "{percent} %");
        computed.check().expect("every page is where the map says");
    }
}

/// How long it takes is to be seen from outside: `cargo test --release -p nandu-device --lib a_terabyte_ages`.
#[test]
fn a_terabyte_ages() {
    let drive = ssd("tlc-2019").channels(8).dies(4).planes(4);
    let drive = drive.with("chips_per_channel = 2\ncapacity = \"1 TB\"");
    let mut drive = try_build(&drive, &BTreeSet::new(), Precondition::Aged).expect("it can be built");
    let valid = Report::of(&mut *drive, Ask::Counters).counter("valid_pages");
    assert_eq!(valid, Some(1_000_000_000_000 / 4096));
}

/// A map on the flash says where every page of a drive is that begins written.
#[test]
fn a_map_on_the_flash_knows_the_pages_of_a_drive_that_begins_written() {
    for (map, precondition) in
        (0..MAPS.len()).flat_map(|map| [(map, Precondition::Filled), (map, Precondition::Aged)])
    {
        BY_RULE_HERE.set(1);
        let mut bench = Bench::new(&paged(map), None, precondition);
        BY_RULE_HERE.set(u32::MAX);
        bench.check().expect("the map fits the flash");
        let places = places(&bench);
        assert!(places.iter().all(Option::is_some), "{precondition:?}, {:?}", MAPS[map]);
        // What begins written holds nothing of anybody: a read takes the time of a die all the same.
        let end = bench.issue(Op::Read, 0, 1, Payload::NONE, Flags::NONE);
        assert!(end > bench.now());
        assert_eq!(bench.counter("host_pages_read"), 1);
    }
}
