//! Collection policies, their pace and place, collection while idle, and wear, against the same model.

use super::*;
use nandu_base::{ErrorKind, Policy, Ratio};
use nandu_ftl::{gc, wear};

/// Ways to collect beside the policies: pace, place and room.
const WAYS: [&str; 6] = [
    "mode = \"foreground\"",
    "separate_frontier = false",
    "separate_frontier = false, mode = \"foreground\", threshold = 2",
    "hard_threshold = 2, copyback = true",
    "separate_frontier = false, hard_threshold = 2",
    "",
];

/// Every policy that chooses what is collected, in every form in which the verified simulation draws it, each with two of the ways.
fn ways() -> impl Iterator<Item = (&'static str, [&'static str; 2])> {
    let forms =
        gc::POLICIES.iter().flat_map(|policy| policy.draws.iter().map(move |draw| (policy.name, *draw)));
    forms.enumerate().flat_map(|(number, (name, draw))| {
        [number, number + 3].map(|way| (name, [draw, WAYS[way % WAYS.len()]]))
    })
}

/// Wear that shows within a few hundred requests, beside each policy of wear levelling in every form in which the verified simulation draws it.
const WEARS: [&str; 3] = [
    "free_block_order = \"least-worn\", ",
    "free_block_order = \"least-worn\", factory_bad = \"1/12\", endurance = 0, ",
    "endurance_variation = 0.5, endurance = 100000, ",
];

fn wears(drive: SsdTable, place: usize) -> SsdTable {
    let of = |policy: &'static Policy| {
        policy.draws.iter().map(move |draw| format!("kind = \"{}\", {draw}", policy.name))
    };
    let levellings: Vec<String> = wear::POLICIES.iter().flat_map(of).collect();
    let (way, levelling) = (WEARS[place % WEARS.len()], &levellings[place % levellings.len()]);
    drive.with(format_args!("wear = {{ {way}{levelling} }}"))
}

#[test]
fn every_way_to_collect_agrees_with_the_model() {
    for (place, (name, way)) in ways().enumerate() {
        for seed in 0..16 {
            let drive = match seed % 4 {
                0 => wears(tiny().policy("gc", name, &way), place),
                1 => paged(place % 6).policy("gc", name, &way),
                2 => {
                    let roomy = paged(place % 6).blocks(28).spare("9/14").policy("gc", name, &way);
                    wears(roomy, place).with("checkpoint_interval = 3")
                }
                _ => tiny().policy("gc", name, &way),
            };
            if let Err(what) = random_run(&drive, seed, None, 600) {
                panic!("{name} {way:?}, seed {seed}: {what}");
            }
        }
    }
}

/// Time enough for a write and what it sets off.
const EASY: Span = Span::from_ms(20);

/// Writes whole pages at random within the first `hot` pages, each so long after the one before, without storing anything.
fn churn(bench: &mut Bench, gap: Span, hot: u64, pages: u64, rng: &mut Rng) {
    let sectors = (1u64 << bench.page_bits()) / SECTOR;
    for _ in 0..pages {
        bench.pass(gap);
        let at = rng.below(hot) * sectors;
        bench.issue(Op::Write, at, sectors, Payload::NONE, Flags::NONE);
    }
}

fn small() -> SsdTable {
    ssd("slc-2015").blocks(64).pages(16).spare(0.25)
}

fn worn(options: &str, pages: u64) -> Bench {
    let mut bench = Bench::new(&small().with(options), None, Precondition::Filled);
    bench.forget_media();
    churn(&mut bench, EASY, 64, pages, &mut Rng::new(9));
    bench.check().unwrap();
    bench
}

#[test]
fn static_levelling_keeps_the_spread_where_it_is_asked_to() {
    // One page in twelve is ever written again: without levelling the others' blocks are never erased.
    let mut off = worn("wear = { static_wl_threshold = 0 }\n", 40_000);
    assert_eq!(off.counter("erase_count_min"), 0);
    assert_eq!(off.counter("wl_blocks_relocated"), 0);
    let unlevelled = off.counter("erase_count_max");
    // Cold data that moves to any block may move again soon; on a worn one it stays.
    for (order, most) in [("fifo", unlevelled / 4), ("least-worn", 12)] {
        let mut on = worn(
            &format!(
                "wear = {{ static_wl_threshold = 10, static_wl_interval = 8, free_block_order = \"{order}\" }}\n"
            ),
            40_000,
        );
        let spread = on.counter("erase_count_max") - on.counter("erase_count_min");
        assert!(spread <= most, "{order}: the spread is {spread} of {unlevelled}");
        assert!(on.counter("wl_blocks_relocated") > 0);
        let waf = |bench: &mut Bench| bench.counter("nand_pages_programmed") * 1000 / 40_000;
        println!(
            "{order}: spread {spread} of {unlevelled}, write amplification {} of {}",
            waf(&mut on),
            waf(&mut off)
        );
        assert!(
            waf(&mut on) < waf(&mut off) * 3 / 2,
            "{order}: levelling costs {} over {}",
            waf(&mut on),
            waf(&mut off)
        );
    }
}

/// Where no spread is given it is the twentieth part of the endurance.
#[test]
fn the_interval_of_levelling_acts_where_no_spread_is_given() {
    let levelled = |more: &str| {
        let mut bench = worn(&format!("wear = {{ endurance = 1000{more} }}\n"), 40_000);
        bench.counter("wl_blocks_relocated")
    };
    let (usual, rare) = (levelled(""), levelled(", static_wl_interval = 400"));
    assert!(rare > 0 && rare < usual, "{rare} blocks cleared for their wear, {usual} by default");
}

/// Each block that is cleared for its wear gains nothing, and blocks nearly always differ by two erases: a write that waits for
/// room must not wait for all of them.
#[test]
fn a_write_does_not_wait_until_all_blocks_are_level() {
    for way in ["threshold = 3, mode = \"foreground\"", "threshold = 4, hard_threshold = 3"] {
        let drive = small().with(format_args!(
            "gc = {{ {way} }}\nwear = {{ static_wl_threshold = 1, static_wl_interval = 1 }}"
        ));
        let mut bench = Bench::new(&drive, None, Precondition::Filled);
        bench.forget_media();
        let rng = &mut Rng::new(9);
        churn(&mut bench, EASY, 64, 20_000, rng);
        let (mut before, mut most) = (bench.counter("gc_pages_moved"), 0);
        for _ in 0..5000 {
            churn(&mut bench, EASY, 64, 1, rng);
            let moved = bench.counter("gc_pages_moved");
            most = (moved - before).max(most);
            before = moved;
        }
        assert!(bench.counter("wl_blocks_relocated") > 0, "{way}");
        // One block of 16 pages for its wear, one that is under way, and what collection needs.
        println!("{way}: {most} moves after one page");
        assert!(most <= 4 * 16, "{way}: {most} pages moved while one write waited");
    }
}

#[test]
fn the_lifetime_follows_from_what_was_measured() {
    let mut bench = worn("", 20_000);
    let erases = bench.counter("erase_count");
    let host = 20_000 * 2048;
    let even = bench.counter("lifetime_host_bytes");
    // 64 blocks of 100,000 erases each.
    assert_eq!(even, (u128::from(host as u64) * 100_000 * 64 / u128::from(erases)) as u64);
    let spread = bench.counter("lifetime_host_bytes_at_spread");
    let share = Ratio::new(erases, 64 * bench.counter("erase_count_max"));
    assert!(spread.abs_diff(share.of(even)) <= even / 1000, "{spread} is not {share:?} of {even}");
}

#[test]
fn a_drive_whose_blocks_wear_out_ends_read_only_and_keeps_its_data() {
    let rng = &mut Rng::new(4);
    let options =
        "wear = { endurance = 30, endurance_variation = 0.2, static_wl_threshold = 4, factory_bad = 0.02 }\n";
    let mut bench = Bench::new(&small().with(options), None, Precondition::Empty);
    let pages = bench.limits().capacity.0 / 2048;
    let mut newest = vec![Stamp::ZERO; pages as usize];
    let mut serial = 0;
    let refused = loop {
        serial += 1;
        let page = rng.below(pages);
        bench.pass(Span(20_000_000));
        let payload = Payload::run(Stamp::new(serial, page * 4));
        match bench.try_issue(Op::Write, page * 4, 4, payload, Flags::NONE) {
            Ok(_) => {
                newest[page as usize] = Stamp::new(serial, page * 4);
            }
            Err(error) => break error,
        }
        assert!(serial < 1_000_000, "64 blocks of 30 erases do not last so long");
    };
    assert_eq!(refused.kind, ErrorKind::ReadOnly);
    assert_eq!(bench.counter("is_worn_out"), 1);
    assert!(bench.counter("bad_blocks") > 5, "blocks were retired before");
    bench.check().unwrap();
    for start in 0..2 {
        for page in 0..pages {
            assert_eq!(bench.stamps(page * 4, 1)[0], newest[page as usize], "page {page}, start {start}");
        }
        bench.pass(Span(1_000_000_000));
        bench.cut(rng);
        bench.check().unwrap();
    }
}

/// A drive that collects while it is idle, after random writes.
fn collects_while_idle() -> Bench {
    let drive = small().with("gc = { idle_free_target = 12, idle_after = \"2 ms\" }");
    let mut bench = Bench::new(&drive, None, Precondition::Filled);
    bench.forget_media();
    let pages = bench.limits().capacity.0 / 2048;
    churn(&mut bench, Span::from_ms(1), pages, 2 * pages, &mut Rng::new(2));
    bench
}

#[test]
fn an_idle_drive_makes_blocks_free_and_comes_to_rest() {
    let mut bench = collects_while_idle();
    let before = bench.counter("free_blocks");
    assert!(before < 6, "{before} blocks are free after random writes");
    let taken = bench.rest();
    assert!(
        bench.counter("free_blocks") >= 10,
        "an idle drive made {before} into {}",
        bench.counter("free_blocks")
    );
    assert!(taken > 10);
    assert!(bench.charges_match("ssd"), "I-13");
    bench.check().unwrap();
}

/// A drive that is closed does nothing more, also while others close.
#[test]
fn a_drive_that_is_closed_does_not_collect_while_idle() {
    let mut bench = collects_while_idle();
    bench.close();
    let (closed, steps) = (bench.now(), bench.counter("gc_idle_steps"));
    bench.rest();
    assert!(bench.now() >= closed);
    assert_eq!(bench.counter("gc_idle_steps"), steps);
}

#[test]
fn a_request_puts_collection_while_idle_off() {
    let mut bench = collects_while_idle();
    let steps = bench.counter("gc_idle_steps");
    let pages = bench.limits().capacity.0 / 2048;
    churn(&mut bench, Span::from_ms(1), pages, 1, &mut Rng::new(3));
    bench.pass(Span::from_ms(1));
    assert_eq!(bench.counter("gc_idle_steps"), steps, "one millisecond is not two");
    bench.rest();
    assert!(bench.counter("gc_idle_steps") > steps);
}

#[test]
fn options_that_cannot_work_are_refused() {
    for (options, key) in [
        ("gc = { threshold = 1 }", "gc.threshold"),
        ("gc = { threshold = 3, hard_threshold = 3 }", "gc.hard_threshold"),
        ("gc = { hard_threshold = 0 }", "gc.hard_threshold"),
        ("gc = { threshold = 4, hard_threshold = 2, mode = \"foreground\" }", "gc.hard_threshold"),
        ("gc = { idle_free_target = 3 }", "gc.idle_free_target"),
        ("gc = { kind = \"fifo\", window_blocks = 4 }", "gc"),
        ("gc = { choices = 4 }", "gc"),
        ("gc = { kind = \"d-choices\", choices = 0 }", "gc.choices"),
        ("gc = { kind = \"windowed\", window_blocks = 0 }", "gc.window_blocks"),
        ("gc = { idle_after = \"0 ns\", idle_free_target = 9 }", "gc.idle_after"),
        ("gc = { idle_after = \"2 ms\" }", "gc.idle_after"),
        ("gc = { idle_min_invalid = 0.5 }", "gc.idle_min_invalid"),
        ("wear = { static_wl_interval = 0 }", "wear.static_wl_interval"),
        ("wear = { static_wl_threshold = 0, static_wl_interval = 4 }", "wear.static_wl_interval"),
        ("wear = { endurance = 0, endurance_variation = 0.5 }", "wear.endurance_variation"),
        ("wear = { across_tenants = true }", "wear.across_tenants"),
        ("wear = { endurance_variation = 1 }", "wear.endurance_variation"),
        ("wear = { factory_bad = 0.2 }", "wear.factory_bad"),
    ] {
        // An option of another policy is none already where it is read.
        if let Err(error) = small().with(options).config() {
            assert!(key == "gc" && error.message().contains("victim `"), "{options}: {error}");
            continue;
        }
        let error = refused(&small().with(options));
        assert_eq!(error.key.as_deref(), Some(key), "{options}: {error}");
    }
}
