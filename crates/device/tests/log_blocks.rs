//! Drives with a log-block map, by hand: what waits for a merge and what does not, and what a write buffer acknowledges.
//! What they store is the verified simulation's business.

use nandu_base::{Flags, Instant, Op, Precondition, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

const PAGE: u64 = 2048;
/// slc-2015: tR, tPROG, tBERS; a page crosses the channel in 51.2 us.
const READ: Span = Span::from_us(25);
const PROGRAM: Span = Span::from_us(200);
const ERASE: Span = Span::from_us(1500);

/// Drives of 10 logical blocks of 8 pages in each plane.
fn table() -> SsdTable {
    ssd("slc-2015").blocks(14).pages(8).spare("4/14")
}

fn bed(options: &str) -> Testbed {
    drive(table().with(options))
}

/// It, filled.
fn drive(table: SsdTable) -> Testbed {
    let options = BuildOptions { precondition: Precondition::Filled, ..BuildOptions::default() };
    Testbed::new(&table.stack(), &builtin(), options).unwrap()
}

fn refused(options: &str) -> String {
    let text = ssd("slc-2015").blocks(14).with(options).stack();
    Testbed::new(&text, &builtin(), BuildOptions::default())
        .err()
        .expect("the options are refused")
        .to_string()
}

fn counter(bed: &mut Testbed, name: &str) -> u64 {
    bed.counter("ssd", name)
}

fn page_write(bed: &mut Testbed, page: u64) -> Span {
    bed.go(Op::Write, page * PAGE, PAGE).latency
}

#[test]
fn a_write_to_a_full_random_log_waits_for_the_merges_of_its_victim() {
    let mut bed = bed("mapping = { kind = \"fast\", log_blocks = 1 }");
    let transfer = page_write(&mut bed, 3) - PROGRAM;
    for lbn in 1..8 {
        assert_eq!(page_write(&mut bed, lbn * 8 + 3), transfer + PROGRAM);
    }
    // Eight logical blocks of eight pages each: copied, and the old block erased; then the victim is erased.
    let copy = READ + transfer * 2 + PROGRAM;
    let merges = copy * 64 + ERASE * 9;
    assert_eq!(page_write(&mut bed, 4), merges + transfer + PROGRAM);
    assert_eq!(counter(&mut bed, "merges_full"), 8);
    assert_eq!(counter(&mut bed, "gc_pages_moved"), 64);
    assert_eq!(counter(&mut bed, "erase_count"), 9);
}

#[test]
fn reads_go_on_while_a_plane_merges() {
    // Two planes on two channels, pages in turn.
    let mut bed = bed("channels = 2\nmapping = { kind = \"fast\", log_blocks = 1 }");
    let transfer = page_write(&mut bed, 6) - PROGRAM;
    for lbn in 1..8 {
        page_write(&mut bed, lbn * 16 + 6);
    }
    let start = bed.now();
    let write = bed.submit(0, Op::Write, Flags::NONE, 8 * PAGE, PAGE);
    let (mut other, mut same) = (Vec::new(), Vec::new());
    for at in 1..40 {
        bed.run_until(start + Span::from_us(500 * at));
        other.push(bed.submit(0, Op::Read, Flags::NONE, 33 * PAGE, PAGE));
        same.push(bed.submit(0, Op::Read, Flags::NONE, 32 * PAGE, PAGE));
    }
    bed.settle();
    let done = bed.take_done();
    let latency = |serial: u32| done.iter().find(|d| d.serial == serial).expect("all are done").latency;
    assert!(latency(write) > Span::from_ms(30), "{}", latency(write));
    // The other plane is idle: reads of one page take turns on nothing.
    assert!(other.iter().all(|&read| latency(read) == READ + transfer));
    // On the plane itself a read waits for a step, and for the move of its page if that is the next one; not for the merge.
    let longest = same.iter().map(|&read| latency(read)).max().unwrap();
    assert!(longest > READ + transfer && longest < ERASE * 2, "{longest}");
}

#[test]
fn a_sequential_overwrite_is_switched_by_every_map() {
    let registry = builtin();
    let maps = registry.policies("mapping").map(|map| (map.name, table().map(map.name, "")));
    let maps: Vec<(&str, SsdTable)> = maps.filter(|(_, table)| table.has_log_blocks()).collect();
    assert!(maps.len() >= 3, "{maps:?}");
    for (name, table) in maps {
        let mut bed = drive(table);
        for page in (0..80).chain([0]) {
            page_write(&mut bed, page);
        }
        let switched = counter(&mut bed, "merges_switch");
        // The block written last is switched when it is full, or when its log is needed.
        assert!((9..=10).contains(&switched), "{name}: {switched}");
        assert_eq!(counter(&mut bed, "gc_pages_moved"), 0, "{name}");
        assert_eq!(counter(&mut bed, "nand_pages_programmed"), 81, "{name}");
    }
}

const BUFFERED: &str = "write_buffer = { size = \"16 KiB\", link_bandwidth = 204_800_000 }\n\
                        mapping = { kind = \"fast\", log_blocks = 1 }";

#[test]
fn a_buffered_write_ends_at_the_speed_of_the_link_and_a_flush_when_it_is_programmed() {
    let mut bed = bed(BUFFERED);
    let link = Span::from_us(10);
    assert_eq!(page_write(&mut bed, 3), link);
    assert_eq!(bed.go(Op::Read, 3 * PAGE, PAGE).latency, link, "its program is under way");
    assert_eq!(page_write(&mut bed, 3), link);
    assert_eq!(page_write(&mut bed, 3), link);
    // The first is being programmed; the third takes the place of the second.
    let flush = bed.go(Op::Flush, 0, 0).latency;
    assert!(flush > PROGRAM && flush < PROGRAM * 3, "{flush}");
    assert_eq!(bed.go(Op::Flush, 0, 0).latency, Span::ZERO);
    assert!(counter(&mut bed, "host_pages_written") >= 2);
}

#[test]
fn a_full_buffer_lets_writes_wait_for_merges() {
    let mut bed = bed(BUFFERED);
    let start = bed.now();
    for n in 0..40 {
        bed.submit(0, Op::Write, Flags::NONE, (n % 10 * 8 + 3 + n / 20) * PAGE, PAGE);
    }
    bed.settle();
    let latencies: Vec<Span> = bed.take_done().iter().map(|d| d.latency).collect();
    assert!(latencies[0] < Span::from_us(100));
    assert!(*latencies.iter().max().unwrap() > Span::from_ms(20));
    assert!(counter(&mut bed, "write_stalls") > 10);
    assert!(bed.now() > start + Span::from_ms(20));
    bed.close();
    assert_eq!(counter(&mut bed, "buffer_pages"), 0);
}

#[test]
fn fua_waits_for_the_flash() {
    let mut bed = bed(BUFFERED);
    bed.submit(0, Op::Write, Flags::FUA, 3 * PAGE, PAGE);
    bed.settle();
    assert!(bed.take_done()[0].latency > PROGRAM);
}

#[test]
fn a_trim_costs_a_mark_for_each_logical_block() {
    let mut bed = bed("mapping = { kind = \"bast\", log_blocks = 2 }");
    bed.go(Op::Trim, 4 * PAGE, 8 * PAGE);
    assert_eq!(counter(&mut bed, "trim_mark_pages"), 2);
    assert_eq!(counter(&mut bed, "pages_trimmed"), 8);
    assert_eq!(counter(&mut bed, "valid_pages"), 72);
    assert_eq!(bed.go(Op::Trim, 4 * PAGE, 8 * PAGE).latency, Span::ZERO);
    assert_eq!(bed.go(Op::Read, 4 * PAGE, 8 * PAGE).latency, Span::ZERO);
}

#[test]
fn options_that_cannot_be_are_refused_with_what_would_be_right() {
    let why = refused("spare_factor = \"1/14\"\nmapping = { kind = \"bast\" }");
    assert!(why.contains("raise `spare_factor`"), "{why}");
    let why = refused("spare_factor = \"4/14\"\nmapping = { kind = \"bast\", log_blocks = 9 }");
    assert!(why.contains("at most 2"), "{why}");
    let fast = "spare_factor = \"5/14\"\nmapping = { kind = \"fast\" }\n";
    let why = refused(&format!("{fast}write_buffer = {{ size = \"1 KiB\" }}"));
    assert!(why.contains("too small"), "{why}");
    let why = refused(&format!("{fast}gc = {{ separate_frontier = false }}"));
    assert!(why.contains("a merge fills a block of its own"), "{why}");
    let why = refused(&format!("{fast}streams = {{ kind = \"hot-cold\" }}"));
    assert!(why.contains("says itself which pages share blocks"), "{why}");
    let why = refused(&format!("{fast}checkpoint_interval = 3"));
    assert!(why.contains("checkpoints"), "{why}");
    let why = refused("spare_factor = \"5/14\"\nmapping = { kind = \"fast\", interleave = 0 }");
    assert!(why.contains("interleave"), "{why}");
}

#[test]
fn the_same_load_gives_the_same_times() {
    let run = || {
        let mut bed = bed(BUFFERED);
        for n in 0..300u64 {
            bed.submit(0, Op::Write, Flags::NONE, n * n % 80 * PAGE, PAGE.min((80 - n * n % 80) * PAGE));
            bed.pass(Span::from_us(n % 7 * 300));
        }
        bed.settle();
        bed.take_done().iter().map(|d| (d.serial, d.at)).collect::<Vec<(u32, Instant)>>()
    };
    assert_eq!(run(), run());
}
