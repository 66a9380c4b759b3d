//! Units of several blocks: against the same model as units of one, and what they do on the flash.

use super::*;

const UNITS: [&str; 2] = ["reclaim_unit = \"die\"\n", "reclaim_unit = \"superblock\"\n"];

/// Ways to collect and to wear that a unit may matter to.
const WAYS: [&str; 6] = [
    "",
    "gc = { kind = \"cost-benefit\", hard_threshold = 2 }\n",
    "gc = { separate_frontier = false }\n",
    "gc = { mode = \"foreground\", threshold = 2 }\n",
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
