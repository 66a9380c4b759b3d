//! Maps that are partly on the flash: gathered blocks, partial writes, and collection, eviction and map blocks nested.

use super::*;

/// CFTL on a drive with four planes: reads of a few blocks, far more entries than the cache has.
#[test]
fn blocks_that_are_read_are_gathered_and_then_hit() {
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(60).pages(32).page_size(512).spare(0.4);
    let run = |switching: &str, writes: bool| {
        let map = format!("cmt_size = 400, switching = {switching}");
        let drive = drive.clone().map("cftl", &map);
        let mut bench = Bench::new(&drive, None, Precondition::Filled);
        let mut rng = Rng::new(1);
        for turn in 0..6000 {
            bench.pass(Span(3_000_000));
            // Sixteen logical blocks of 32 pages are read, another sixteen are written.
            let (op, page) = match turn % 2 {
                1 if writes => (Op::Write, 1024 + rng.below(512)),
                _ => (Op::Read, rng.below(512)),
            };
            let payload =
                if op == Op::Write { Payload::run(Stamp::new(turn + 1, page)) } else { Payload::NONE };
            bench.issue(op, page, 1, payload, Flags::NONE);
        }
        bench.check().unwrap();
        assert!(bench.charges_match("ssd"), "I-13");
        move |name: &str| bench.counter(name)
    };
    for writes in [false, true] {
        let mut never = run("{ kind = \"never\" }", writes);
        let mut by_access = run("{ kind = \"by-access\", reads = 8, writes = 1 }", writes);
        assert_eq!((never("map_blocks_converted"), never("map_pages_converted")), (0, 0));
        let gathered = by_access("map_blocks_converted");
        assert!((14..=60).contains(&gathered), "{gathered} blocks were gathered, sixteen are read");
        let programmed = by_access("host_pages_written")
            + by_access("gc_pages_moved")
            + by_access("map_pages_written")
            + by_access("map_gc_pages_moved")
            + by_access("map_pages_converted");
        assert_eq!(by_access("nand_pages_programmed"), programmed, "copies are programs too");
        let (few, many) = (by_access("cmt_misses"), never("cmt_misses"));
        println!("writes {writes}: {gathered} blocks gathered, {few} misses instead of {many}");
        // Entries of pages that are written are as many with either.
        assert!(few < many - 1500, "{few} misses with gathering, {many} without");
    }
}

/// Tenants that are kept apart: what one reads is not copied while another waits, nor charged to it.
#[test]
fn a_block_is_gathered_after_requests_of_its_own_tenant() {
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(60).pages(32).page_size(512).spare(0.6);
    let drive = drive.tenants(&[512 << 10, 512 << 10]).with("isolation = { kind = \"vssd\" }");
    let switching = "switching = { kind = \"by-access\", reads = 4, writes = 1, pages = 1 }";
    let drive = drive.map("cftl", &format!("cmt_size = 400, {switching}"));
    let mut bench = Bench::new(&drive, None, Precondition::Filled);
    let mut read = |page: u64| {
        bench.pass(Span(3_000_000));
        bench.issue(Op::Read, page, 1, Payload::NONE, Flags::NONE);
        bench.counter("map_pages_converted")
    };
    // The second tenant has pages 1024 to 2047.
    let begun = (0..200).map(|turn| read(1024 + turn % 32)).find(|&gathered| gathered > 0);
    let begun = begun.expect("a block that is read is gathered");
    assert!((0..20).all(|page| read(page) == begun), "gathered after requests of another tenant");
    assert!(read(1024) > begun, "gathered on after a request of its own");
}

/// O2-10: the read before a write of part of a page is charged, or left out.
#[test]
fn a_partial_write_reads_its_page_or_does_not() {
    for map in ["", "mapping = { kind = \"dftl\", cmt_size = 64 }\n"] {
        let took = |option: &str| {
            let drive = ssd("slc-2015").blocks(60).pages(16).spare(0.5).with(map).with(option);
            let mut bench = Bench::new(&drive, None, Precondition::Filled);
            let payload = Payload::run(Stamp::new(1, 1));
            let end = bench.issue(Op::Write, 1, 2, payload, Flags::NONE);
            let span = end.since(bench.now());
            bench.run_until(end);
            let found = bench.stamps(0, 4);
            assert_eq!(found, [Stamp::ZERO, Stamp::new(1, 1), Stamp::new(1, 2), Stamp::ZERO]);
            (span, bench.counter("rmw_page_reads"))
        };
        let (whole, reads) = took("");
        let (less, none) = took("partial_write = \"uncharged\"\n");
        assert_eq!((reads, none), (1, 0));
        let timing = crate::nand::Profile::named("slc-2015").unwrap();
        assert_eq!(whole, less + timing.read + timing.transfer(), "one page read more{map}");
    }
}

/// With `data_program = "at-once"` a whole page that misses takes no longer than its program where another die has its translation page;
/// a part of one still waits for the rest of it.
#[test]
fn a_whole_page_may_be_programmed_before_its_entry_has_come() {
    let took = |when: &str, sectors: u64| {
        let drive = pages_of_512().page_size(1 << 10);
        let drive = drive.clone().map("dftl", &format!("cmt_size = 64, data_program = {when:?}"));
        let mut bench = Bench::new(&drive, None, Precondition::Filled);
        let spans = [0, 1].map(|tp: u32| {
            let came = bench.now() + Span(30_000_000);
            bench.run_until(came);
            let sector = u64::from(tp) * 512;
            let payload = Payload::run(Stamp::new(tp + 1, sector));
            let end = bench.issue(Op::Write, sector, sectors, payload, Flags::NONE);
            let span = end.since(came);
            bench.run_until(end);
            assert_eq!(bench.stamps(sector, 1), [Stamp::new(tp + 1, sector)]);
            span
        });
        assert!(bench.charges_match("ssd"), "I-13");
        bench.check().unwrap();
        spans
    };
    let profile = crate::nand::Profile::named("slc-2015").unwrap();
    let transfer = crate::nand::Profile { page: ByteLen(1024), ..profile.clone() }.transfer();
    let (lookup, program) = (profile.read + transfer, transfer + profile.program);
    let (after, once) = (took("after-lookup", 2), took("at-once", 2));
    println!("after: {after:?}, at once: {once:?}; program {program:?}, lookup {lookup:?}");
    assert_eq!(after, [lookup + program; 2], "both miss");
    assert!(once.contains(&program) && once.iter().all(|&span| span <= lookup + program), "{once:?}");
    assert_eq!(took("after-lookup", 1), took("at-once", 1), "parts of pages wait");
}

/// O2-12 and O2-17: one request makes room in the map's cache, which writes a translation page, which clears a block of the
/// map, while a block of data is cleared whose moves need the map; and collection meets slots that are not complete. The
/// caches have one slot or two entries, moves of collection wait for nothing.
#[test]
fn collection_within_eviction_within_collection_ends_and_loses_nothing() {
    let drive = ssd("slc-2015").blocks(80).pages(8).page_size(512).spare(0.35);
    let drive = drive.with("gc = { kind = \"greedy\", threshold = 2 }");
    let maps = [
        ("kind = \"dftl\", cmt_size = 16", false),
        (
            "kind = \"cftl\", cmt_size = 24, switching = { kind = \"by-access\", reads = 1, writes = 9 }",
            false,
        ),
        ("kind = \"tpftl\", cmt_size = 14", false),
        ("kind = \"sftl\", cmt_size = 520", false),
        ("kind = \"leaftl\", cmt_size = 1104", false),
        ("kind = \"tpc-ftl\", cmt_size = 524, delayed_read = false", false),
        ("kind = \"tpc-ftl\", cmt_size = 1048, clean_first_window = 1", true),
        ("kind = \"tpc-ftl\", cmt_size = 1048, invalidation = \"at-read\"", true),
    ];
    for (map, is_delayed) in maps {
        let drive = drive.clone().with(format_args!("mapping = {{ {map}, gc_batch = 1 }}"));
        let mut bench = Bench::new(&drive, None, Precondition::Filled);
        let pages = bench.limits().capacity.sectors();
        let mut rng = Rng::new(9);
        let mut newest = vec![Stamp::ZERO; pages as usize];
        let (mut nested, mut completed) = (0, 0);
        let names =
            ["gc_pages_moved", "cmt_evictions_written", "map_gc_blocks_collected", "map_reads_delayed"];
        let mut before = names.map(|name| bench.counter(name));
        for turn in 1..6000 {
            bench.pass(Span(rng.below(900_000)));
            let page = rng.below(pages);
            newest[page as usize] = Stamp::new(turn, page);
            let payload = Payload::run(newest[page as usize]);
            bench.issue(Op::Write, page, 1, payload, Flags::NONE);
            if rng.below(4) == 0 {
                let page = rng.below(pages);
                assert_eq!(bench.stamps(page, 1), [newest[page as usize]], "{map}, turn {turn}");
                before = names.map(|name| bench.counter(name));
                continue;
            }
            let now = names.map(|name| bench.counter(name));
            let [moved, evicted, cleared, filled] = [0, 1, 2, 3].map(|i| now[i] > before[i]);
            if moved && evicted && cleared {
                nested += 1;
                bench.check().unwrap();
            }
            completed += u32::from(moved && filled);
            before = now;
        }
        for (page, newest) in (0..).zip(&newest) {
            assert_eq!(bench.stamps(page, 1), [*newest], "{map}: page {page}");
        }
        bench.check().unwrap();
        println!("{map}: all three in {nested} requests, slots completed beside moves in {completed}");
        assert!(nested > 20, "{map}: only {nested} requests did all three");
        assert!(!is_delayed || completed > 20, "{map}: only {completed} requests met incomplete slots");
    }
}

/// A part that is laid over nothing but what the chip holds: its program waits for that page also when it follows the read of a map entry.
#[test]
fn an_uncharged_part_waits_for_the_page_that_it_is_laid_over() {
    let drive = ssd("slc-2015").channels(2).blocks(120).pages(16).page_size(1 << 10).spare(0.55);
    let drive = drive.map("dftl", "cmt_size = 16").with("partial_write = \"uncharged\"");
    let drive = drive.with("die_scheduler = { kind = \"out-of-order\" }");
    let step = |bench: &mut Bench| bench.pass(Span(50_000_000));
    for shift in [false, true] {
        let mut bench = Bench::new(&drive, None, Precondition::Filled);
        if shift {
            // Another turn of the dies, the map pages where they were.
            for page in [700, 701, 702] {
                step(&mut bench);
                bench.put(9, page, 2);
            }
            for page in [800, 0] {
                step(&mut bench);
                bench.stamps(page * 2, 1);
            }
        }
        step(&mut bench);
        bench.stamps(0, 1);
        step(&mut bench);
        // A die is busy; a page waits there; its entry leaves the map's cache, and is read again for a part of the page.
        for _ in 0..40 {
            bench.submit(0, Op::Read, Flags::NONE, 0, 2 * SECTOR);
        }
        let older = bench.submit(0, Op::Write, Flags::NONE, 600 * SECTOR, 2 * SECTOR);
        bench.submit(0, Op::Read, Flags::NONE, 1600 * SECTOR, 2 * SECTOR);
        bench.submit(0, Op::Read, Flags::NONE, 2600 * SECTOR, 2 * SECTOR);
        let newer = bench.submit(0, Op::Write, Flags::NONE, 600 * SECTOR, SECTOR);
        bench.pass(Span(100_000_000));
        assert_eq!(bench.stamps(600, 2), [Stamp::new(newer, 600), Stamp::new(older, 601)], "{shift}");
    }
}
