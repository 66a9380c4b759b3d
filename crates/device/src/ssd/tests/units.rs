//! Units of several blocks: against the same model as units of one, and what they do on the flash.

use super::*;
use nandu_base::{Resource, Work};

const UNITS: [&str; 2] = ["reclaim_unit = \"die\"\n", "reclaim_unit = \"superblock\"\n"];

/// Ways to collect and to wear that a unit may matter to.
const WAYS: [&str; 8] = [
    "",
    "gc = { kind = \"cost-benefit\", hard_threshold = 2 }\n",
    "gc = { separate_frontier = false }\n",
    "gc = { mode = \"foreground\", threshold = 2 }\n",
    "gc = { whole_stripes = true, mode = \"foreground\", threshold = 2 }\n",
    "gc = { whole_stripes = true, idle_free_target = 6, idle_after = \"20 us\" }\nwear = { static_wl_threshold = 1, static_wl_interval = 1 }\n",
    "gc = { idle_free_target = 6, idle_after = \"20 us\" }\nwear = { static_wl_threshold = 1, static_wl_interval = 1 }\n",
    "wear = { free_block_order = \"least-worn\", static_wl_threshold = 2, static_wl_interval = 2, factory_bad = \"1/20\" }\n",
];

#[test]
fn wide_units_agree_with_the_model() {
    for unit in UNITS {
        for (place, way) in WAYS.iter().enumerate() {
            for seed in 0..16 {
                let drive = tiny().with(unit).with(way);
                if let Err(what) = random_run(&drive, seed, None, 500) {
                    panic!("{unit}{way} ({place}): {what}");
                }
            }
        }
    }
}

#[test]
fn wide_units_agree_with_the_model_whatever_the_map() {
    for unit in UNITS {
        for (map, name) in MAPS.iter().enumerate() {
            for seed in 0..8 {
                let drive = paged(map).with(unit);
                if let Err(what) = random_run(&drive, seed, None, 500) {
                    panic!("{unit}{name:?}: {what}");
                }
                let stripes = paged(map).planes(2).with(unit).with("gc = { whole_stripes = true }");
                if let Err(what) = random_run(&stripes, seed, None, 500) {
                    panic!("{unit}{name:?}, whole stripes: {what}");
                }
            }
        }
    }
}

#[test]
fn trims_in_wide_units_survive_a_cut() {
    for seed in 0..40 {
        for unit in UNITS {
            if let Err(what) = random_run(&tiny().spare(0.57).with(unit), seed, None, 400) {
                panic!("{unit}{what}");
            }
        }
    }
}

/// A bench without contents.
fn timed(options: &str, precondition: Precondition) -> Bench {
    let mut bench = Bench::new(&tiny().with(options), None, precondition);
    bench.forget_media();
    bench
}

fn write(bench: &mut Bench, page: u64, pages: u64) -> Span {
    let sectors = (1u64 << bench.page_bits()) / SECTOR;
    let end = bench.issue(Op::Write, page * sectors, pages * sectors, Payload::NONE, Flags::NONE);
    end.since(bench.now())
}

#[test]
fn a_stripe_takes_one_program_and_its_transfers() {
    // Two channels with a die of two planes each: four pages at one height are two multi-plane programs.
    let one = write(&mut timed("reclaim_unit = \"superblock\"\n", Precondition::Empty), 0, 1);
    let mut bench = timed(
        "reclaim_unit = \"superblock\"\nallocation_order = [\"plane\", \"channel\", \"chip\", \"die\"]\n",
        Precondition::Empty,
    );
    let four = write(&mut bench, 0, 4);
    let five = write(&mut timed("reclaim_unit = \"superblock\"\n", Precondition::Empty), 0, 5);
    assert!(four > one && four < one * 2, "{one} for a page, {four} for a stripe");
    assert!(five > one * 2, "{five} for a stripe and a page");
}

#[test]
fn blocks_of_a_unit_are_cleared_and_erased_together() {
    for (unit, width) in [("die", 2), ("superblock", 4)] {
        let mut bench = timed(&format!("reclaim_unit = \"{unit}\"\n"), Precondition::Filled);
        let pages = bench.limits().capacity.0 >> bench.page_bits();
        let mut rng = Rng::new(3);
        for _ in 0..6 * pages {
            bench.pass(Span(5_000_000));
            write(&mut bench, rng.below(pages), 1);
        }
        bench.check().unwrap();
        assert!(bench.charges_match("ssd"), "I-13 with {unit}");
        let (cleared, erased) = (bench.counter("gc_blocks_collected"), bench.counter("erase_count"));
        assert!(cleared > 20);
        assert_eq!(erased, cleared * width, "{unit}");
    }
}

/// What moved pages share on a drive that collects: nanoseconds of dies that a page takes, erases among them, and the reads and programs, in
/// percent of the pages, that join another one.
fn of_a_move(options: &str) -> (f64, [u64; 2]) {
    // So full that moves, and not erases, are what takes time.
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(32).pages(16).spare(0.25).with(options);
    let mut bench = Bench::new(&drive, None, Precondition::Filled);
    bench.forget_media();
    let pages = bench.limits().capacity.0 >> bench.page_bits();
    let mut rng = Rng::new(3);
    for _ in 0..8 * pages {
        bench.pass(Span(5_000_000));
        write(&mut bench, rng.below(pages), 1);
    }
    bench.check().unwrap();
    assert!(bench.charges_match("ssd"), "I-13 with {options}");
    let moved = bench.counter("gc_pages_moved");
    assert!(moved > 200, "{moved} pages moved");
    let charges = bench.graph().charges(bench.node("ssd"));
    let time: u64 = charges.tenants().map(|tenant| charges.get(tenant, Resource::Die, Work::Gc).0).sum();
    let joined = ["gc_reads_joined", "gc_programs_joined"].map(|name| 100 * bench.counter(name) / moved);
    (time as f64 / moved as f64, joined)
}

#[test]
fn pages_of_a_stripe_move_together() {
    let order = "allocation_order = [\"plane\", \"channel\", \"chip\", \"die\"]\n";
    for (unit, is_die) in [("die", true), ("superblock", false)] {
        let unit = format!("{order}reclaim_unit = \"{unit}\"\n");
        let (apart, few) = of_a_move(&unit);
        let (together, many) = of_a_move(&format!("{unit}gc = {{ whole_stripes = true }}\n"));
        // Of two pages of a die one joins the other. Page by page none does in a unit of one die; in a superblock some meet that wait for their dies.
        let is_alone = if is_die { few == [0, 0] } else { few[0] < 15 && few[1] < 15 };
        assert!(is_alone, "{few:?} percent joined page by page, {unit}");
        assert!(many[0] > 15 && many[1] > 45, "{many:?} percent joined, {unit}");
        assert!(together < 0.8 * apart, "{together} ns for a page, {apart} alone, {unit}");
    }
}

#[test]
fn whole_stripes_are_refused_where_they_could_do_nothing() {
    for options in [
        "gc = { whole_stripes = true }",
        "reclaim_unit = \"die\"\ngc = { whole_stripes = true, separate_frontier = false }",
        "reclaim_unit = \"die\"\ngc = { whole_stripes = true, copyback = true }",
        "reclaim_unit = \"die\"\ngc = { whole_stripes = true }\ndie_scheduler = { kind = \"out-of-order\" }",
    ] {
        let error = refused(&ssd("slc-2015").planes(2).blocks(40).spare(0.3).with(options));
        assert_eq!(error.key.as_deref(), Some("gc.whole_stripes"), "{options}: {error}");
    }
    let of_one = "reclaim_unit = \"superblock\"\ngc = { whole_stripes = true }";
    let error = refused(&ssd("slc-2015").channels(4).planes(1).blocks(40).spare(0.3).with(of_one));
    assert_eq!(error.key.as_deref(), Some("gc.whole_stripes"), "{error}");
}

#[test]
fn units_that_cannot_be_are_refused_with_the_key() {
    let cases = [
        (
            "reclaim_unit = \"die\"\ncheckpoint_interval = 4\nmapping = { kind = \"dftl\" }",
            "checkpoint_interval",
        ),
        ("reclaim_unit = \"superblock\"\nchips_per_channel = 64\npages_per_block = 4096", "reclaim_unit"),
        ("reclaim_unit = \"die\"\nmapping = { kind = \"bast\" }", "reclaim_unit"),
    ];
    for (text, key) in cases {
        let error = refused(&ssd("slc-2015").blocks(40).spare(0.3).with(text));
        assert_eq!(error.key.as_deref(), Some(key), "{text}: {error}");
    }
}
