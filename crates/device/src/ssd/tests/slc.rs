//! The cache in SLC mode: against the model, and where the write cliff is.

use super::*;
use nandu_base::Ask;

/// Three bits per cell: a block of nine pages holds three in SLC mode.
fn cached(options: &str) -> SsdTable {
    let drive = ssd("tlc-2019").channels(2).planes(2).blocks(18).page_size(2 << 10).pages(9).spare(0.6);
    drive.with(options)
}

#[test]
fn drives_with_a_cache_agree_with_the_model() {
    let fixed = "slc_cache = { static = \"48 KiB\", dynamic = 0";
    for cache in [
        "slc_cache = {}\n".to_string(),
        "slc_cache = { dynamic = 0.5, when_full = \"fold\" }\n".into(),
        format!("{fixed} }}\n"),
        format!("{fixed}, when_full = \"fold\" }}\ngc = {{ kind = \"cost-benefit\" }}\n"),
        format!("{fixed}, when_full = \"fold\" }}\ngc = {{ kind = \"fifo\", mode = \"foreground\" }}\n"),
        "slc_cache = { static = \"24 KiB\", dynamic = 0.5 }\nwear = { static_wl_threshold = 1, static_wl_interval = 1, endurance = 90 }\n".into(),
        "slc_cache = {}\nstreams = { kind = \"hot-cold\", counters = 64, decay_interval = 100, threshold = 2 }\n".into(),
        "slc_cache = {}\nallocation = \"static\"\ngc = { kind = \"d-choices\", choices = 2, hard_threshold = 2 }\n".into(),
    ] {
        for seed in 0..25 {
            if let Err(what) = random_run(&cached(&cache), seed, None, 500) {
                panic!("{cache}: {what}");
            }
        }
    }
}

/// Two tenants of 400 pages, 27 units of each plane; of eight static ones each has three, which hold nine pages.
fn shared(options: &str) -> SsdTable {
    cached(options).tenants(&[800 << 10, 800 << 10]).blocks(60)
}

#[test]
fn caches_of_tenants_agree_with_the_model() {
    for options in [
        "isolation = { kind = \"vssd\" }\nslc_cache = { dynamic = 0.5, when_full = \"fold\" }\n",
        "isolation = { kind = \"shared-space\", contribution = \"3/4\", reserve_min = 1 }\nslc_cache = { static = \"96 KiB\", dynamic = 1 }\n",
        "isolation = { kind = \"channel\" }\nslc_cache = { static = \"48 KiB\", dynamic = 0, when_full = \"fold\" }\n",
    ] {
        for seed in 0..6 {
            if let Err(what) = random_run(&shared(options), seed, None, 500) {
                panic!("{options}: {what}");
            }
        }
    }
}

#[test]
fn a_tenant_fills_its_own_cache_and_leaves_its_neighbours_alone() {
    let options = "isolation = { kind = \"vssd\" }\nslc_cache = { static = \"192 KiB\", dynamic = 0, fold_idle = false }\n";
    let mut bench = Bench::new(&shared(options), None, Precondition::Empty);
    assert_eq!(bench.counter("slc_blocks_allowed"), 2 * 4 * 3);
    for (first, written) in [(0, 36), (400, 72)] {
        for page in first..first + 100 {
            bench.pass(Span(5_000_000));
            bench.issue(Op::Write, page * 4, 4, Payload::NONE, Flags::NONE);
        }
        assert_eq!(bench.counter("slc_pages_written"), written, "what does not fit goes through");
    }
    bench.check().unwrap();
}

/// A page takes this long over the channel.
const TRANSFER: Span = Span(12_301);

fn large(options: &str) -> SsdTable {
    ssd("tlc-2019").blocks(64).pages(12).spare(0.3).with(options)
}

/// Times of writes of one page, one after another, each of the next page.
fn sequential(options: &str, writes: u64) -> (Bench, Vec<Span>) {
    let mut bench = Bench::new(&large(options), None, Precondition::Empty);
    let mut times = Vec::new();
    for page in 0..writes {
        let end = bench.issue(Op::Write, page * 8, 8, Payload::NONE, Flags::NONE);
        times.push(end.since(bench.now()));
        bench.run_until(end);
    }
    bench.check().unwrap();
    assert!(bench.charges_match("ssd"), "I-13");
    (bench, times)
}

/// Pages that a dynamic cache of a plane with `blocks` blocks for data takes: four to a block, of which three make one of the chip's own.
fn borrowed(blocks: u64) -> u64 {
    4 * (0..).find(|n: &u64| *n >= blocks - n.div_ceil(3)).expect("the right side falls")
}

#[test]
fn the_write_cliff_is_where_the_size_of_the_cache_puts_it() {
    // Six blocks hold no data: three that are kept free, two open ones, and one.
    for (cache, size) in [
        ("dynamic = 1", Some(borrowed(58))),
        ("static = \"160 KiB\", dynamic = 0", Some(40)),
        // What is static first counts as data that others must have room for.
        ("static = \"160 KiB\"", None),
    ] {
        let (mut bench, times) = sequential(&format!("slc_cache = {{ {cache} }}\n"), 300);
        let (quick, slow) = (TRANSFER + Span::from_us(200), TRANSFER + Span::from_us(2400));
        let cliff = times.iter().position(|&time| time > quick).expect("the cache becomes full") as u64;
        println!("{cache}: {cliff} pages in SLC mode, then the cliff");
        let Some(size) = size else {
            assert!(cliff > 40 && cliff < 40 + borrowed(48), "{cache}: {cliff}");
            continue;
        };
        assert_eq!(cliff, size, "{cache}");
        assert_eq!(bench.counter("slc_pages_written"), size, "{cache}");
        let at = times[..cliff as usize].iter().fold(Span::ZERO, |sum, &time| sum + time);
        assert_eq!(at, quick * size, "{cache}: the size of the cache over the rate of writing");
        assert!(times[cliff as usize..].iter().all(|&time| time == slow), "{cache}");
    }
}

#[test]
fn a_full_cache_that_folds_gives_the_host_what_folding_leaves() {
    let (mut bench, times) =
        sequential("slc_cache = { static = \"160 KiB\", dynamic = 0, when_full = \"fold\" }\n", 300);
    let quick = TRANSFER + Span::from_us(200);
    // Ten blocks of four: folding begins when the tenth is opened.
    assert!(times[..37].iter().all(|&time| time == quick));
    let steady: u64 = times[60..300].iter().map(|time| time.0).sum();
    // Each page: its own program, and one folded (25 us, twice over the channel, 2.4 ms), and an erase for four.
    let fold = Span::from_us(2425) + TRANSFER * 2;
    let each = (quick + fold).0 + Span::from_us(700).0 / 4;
    let mean = steady / 240;
    assert!(mean.abs_diff(each) * 50 < each, "a write takes {mean} ns, {each} by what is done for it");
    let (host, folded) = (bench.counter("host_pages_written"), bench.counter("slc_pages_folded"));
    assert_eq!(host, bench.counter("slc_pages_written"));
    assert!(folded > 250 && bench.counter("nand_pages_programmed") == host + folded);
}

#[test]
fn an_idle_drive_folds_and_then_takes_as_much_again() {
    let (mut bench, times) = sequential("slc_cache = { dynamic = 0.5 }\n", 150);
    let quick = TRANSFER + Span::from_us(200);
    let cliff = times.iter().position(|&time| time > quick).expect("the cache becomes full");
    bench.rest();
    bench.check().unwrap();
    assert!(bench.charges_match("ssd"), "I-13");
    assert_eq!(bench.counter("slc_blocks"), 0);
    assert_eq!(bench.counter("slc_pages_folded"), cliff as u64);
    // The open block is of the chip's own mode: the next ones are the cache's.
    let mut again = 0;
    for page in 150..230 {
        let end = bench.issue(Op::Write, page * 8, 8, Payload::NONE, Flags::NONE);
        again += u64::from(end.since(bench.now()) == quick);
        bench.run_until(end);
    }
    assert!(again >= 50, "{again} quick writes after the drive was idle");
    let ask = Ask::Energy { from: Instant::ZERO, to: bench.now() };
    let drawn = bench.report("ssd", ask).energy;
    assert!(drawn.iter().any(|part| part.state == "slc_program"));
}

#[test]
fn a_fuller_drive_has_a_smaller_cache() {
    let mut last = u64::MAX;
    for filled in [0u64, 150, 300, 450] {
        let mut bench = Bench::new(&large("slc_cache = { fold_idle = false }"), None, Precondition::Empty);
        for page in 0..filled {
            let end = bench.issue(Op::Write, page * 8, 8, Payload::NONE, Flags::NONE);
            bench.run_until(end);
        }
        let allowed = bench.counter("slc_blocks_allowed");
        assert!(allowed < last, "{allowed} blocks with {filled} pages, {last} with fewer");
        last = allowed;
    }
}

#[test]
fn wear_and_energy_are_told_apart_by_mode() {
    let (mut bench, _) =
        sequential("slc_cache = { static = \"160 KiB\", dynamic = 0, when_full = \"fold\" }\n", 400);
    let regions = bench.report("ssd", Ask::Wear).wear;
    let names: Vec<&str> = regions.iter().map(|region| region.region).collect();
    assert_eq!(names, ["flash", "flash in SLC mode"]);
    let slc = bench.counter("slc_blocks_folded");
    assert_eq!((regions[1].erases, regions[1].erases_ever), (slc, slc));
    // A hundred cycles in SLC mode are one of the chip's own, and nothing else was erased.
    assert_eq!(bench.counter("erase_count"), slc);
    assert_eq!(regions[0].erases, slc.div_ceil(100));
}

#[test]
fn after_a_cut_blocks_are_in_the_mode_of_their_pages() {
    let (mut bench, _) = sequential("slc_cache = { static = \"160 KiB\", dynamic = 0 }\n", 38);
    bench.pass(Span::from_ms(1));
    assert_eq!(bench.counter("slc_blocks"), 10);
    bench.cut(&mut Rng::new(1));
    bench.check().unwrap();
    assert_eq!(bench.counter("slc_blocks"), 10);
    let end = bench.issue(Op::Read, 0, 8, Payload::NONE, Flags::NONE);
    assert_eq!(end.since(bench.now()), Span::from_us(25) + TRANSFER, "it is read in the time of SLC mode");
}

#[test]
fn a_cache_that_cannot_be_is_refused() {
    for text in [
        "slc_cache = { dynamic = 0 }",
        "slc_cache = { dynamic = 1.5 }",
        "slc_cache = { fold_start = 0.2, fold_stop = 0.5 }",
        "slc_cache = { fold_start = 0.5, fold_idle = false }",
        "slc_cache = { static = \"1 KiB\" }",
        "slc_cache = { endurance = 0 }",
        "slc_cache = {}\npages_per_block = 2",
        "slc_cache = {}\nmapping = { kind = \"bast\" }",
        "slc_cache = {}\ngc = { separate_frontier = false }",
        "profile = \"slc-2019\"\nslc_cache = {}",
        "profile = \"slc-2019\"\nslc_cache = { read_latency = \"20 us\", program_latency = \"200 us\", erase_latency = \"1 ms\", endurance = 9 }",
    ] {
        let error = refused(&ssd("tlc-2019").blocks(40).spare(0.4).with(text));
        let key = error.key.as_deref().unwrap_or_default();
        assert_eq!(key.split('.').next(), Some("slc_cache"), "{text}: {key}: {error}");
    }
}

/// Pages that move to other pools of their tenant come into its cache, and say so: a start finds blocks of one mode.
#[test]
fn a_tenant_with_a_cache_shrinks_and_starts_again() {
    let options = "isolation = { kind = \"vssd\" }\nmax_tenants = 2\nslc_cache = { static = \"192 KiB\", dynamic = 0 }\n";
    let mut bench = Bench::new(&shared(options), None, Precondition::Empty);
    let mut serial = 0;
    let mut newest = vec![Stamp::ZERO; 400];
    let mut put = |bench: &mut Bench, page: u64| {
        serial += 1;
        bench.pass(Span(20_000_000));
        newest[page as usize] = bench.put(serial, page, 4);
    };
    // The pages that stay lie in one pool: more of them than that pool may hold afterwards.
    for page in 0..85 {
        for lpn in [page, 250 + 3 * page % 150, 250 + (3 * page + 1) % 150, 250 + (3 * page + 2) % 150] {
            put(&mut bench, lpn);
        }
    }
    let resized = bench.deal(Deal::Resize { number: 1, size: ByteLen(500 << 10) }).expect("there is room");
    bench.run_until(resized.holds_at);
    for lpn in 200..220 {
        put(&mut bench, lpn);
    }
    bench.pass(Span(1_000_000_000));
    bench.cut(&mut Rng::new(1));
    bench.check().expect("every invariant holds");
    for page in (0..85).chain(200..220) {
        assert_eq!(bench.stamps(page * 4, 1), [newest[page as usize]], "page {page}");
    }
}

#[test]
fn a_tenant_that_folds_waits_for_room_in_its_cache() {
    let options = "isolation = { kind = \"vssd\" }\ngc = { mode = \"foreground\" }\n\
                   slc_cache = { static = \"192 KiB\", dynamic = 0, when_full = \"fold\", fold_idle = false }\n";
    let mut bench = Bench::new(&shared(options), None, Precondition::Empty);
    for page in 0..100 {
        bench.pass(Span(20_000_000));
        bench.put(1, page, 4);
    }
    assert_eq!(bench.counter("slc_pages_written"), 100);
    assert!(bench.counter("slc_folds_waited_for") > 0);
}

#[test]
fn the_static_cache_of_tenants_is_that_of_their_table_after_a_start() {
    let options = "isolation = { kind = \"vssd\" }\nmax_tenants = 3\nslc_cache = { static = \"192 KiB\", dynamic = 0 }\n";
    let mut bench = Bench::new(&shared(options), None, Precondition::Empty);
    let before = bench.counter("slc_blocks_allowed");
    let resized = bench.deal(Deal::Resize { number: 2, size: ByteLen(600 << 10) }).expect("it shrinks");
    bench.run_until(resized.holds_at);
    let allowed = bench.counter("slc_blocks_allowed");
    assert!(allowed < before, "{allowed} of {before}");
    bench.cut(&mut Rng::new(1));
    assert_eq!(bench.counter("slc_blocks_allowed"), allowed);
}
