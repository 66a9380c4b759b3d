//! Collection policies, their pace and place, collection while idle, and wear, against the same model.

use super::*;
use nandu_base::{Ask, ErrorKind, Ratio};

/// Every way to collect that has an option.
const WAYS: [&str; 10] = [
    "kind = \"cost-benefit\"",
    "kind = \"d-choices\", choices = 2",
    "kind = \"d-choices\", choices = 1",
    "kind = \"windowed\", window_blocks = 3",
    "kind = \"fifo\"",
    "kind = \"fifo\", mode = \"foreground\"",
    "separate_frontier = false",
    "separate_frontier = false, kind = \"fifo\", mode = \"foreground\", threshold = 2",
    "hard_threshold = 2, copyback = true",
    "kind = \"windowed\", separate_frontier = false, hard_threshold = 2",
];

/// Wear that shows within a few hundred requests.
const WEARS: [&str; 4] = [
    "free_block_order = \"least-worn\", static_wl_threshold = 2, static_wl_interval = 2",
    "static_wl_threshold = 1, static_wl_interval = 1",
    "free_block_order = \"least-worn\", factory_bad = 1/12, endurance = 0, static_wl_threshold = 3",
    "endurance_variation = 0.5, endurance = 100000, static_wl_threshold = 4, static_wl_interval = 3",
];

fn wears(place: usize) -> String {
    format!("wear = {{ {} }}\n", WEARS[place].replace("1/12", "\"1/12\""))
}

#[test]
fn every_way_to_collect_agrees_with_the_model() {
    for (place, way) in WAYS.iter().enumerate() {
        for seed in 0..24 {
            let toml = match seed % 4 {
                0 => format!("{TINY}gc = {{ {way} }}\n{}", wears(place % 4)),
                1 => format!("{}gc = {{ {way} }}\n", paged(place % 6)),
                2 => {
                    let roomy = paged(place % 6)
                        .replace("blocks_per_plane = 24", "blocks_per_plane = 28")
                        .replace("spare_factor = 0.5", "spare_factor = \"9/14\"");
                    format!("{roomy}gc = {{ {way} }}\n{}checkpoint_interval = 3\n", wears(place % 4))
                }
                _ => format!("{TINY}gc = {{ {way} }}\n"),
            };
            if let Err(what) = random_run(&toml, seed, None, 600) {
                panic!("{way}, seed {seed}: {what}");
            }
        }
    }
}

pub(super) fn counter(bench: &mut Bench, name: &str) -> u64 {
    let counters = Report::of(&mut *bench.machine, Ask::Counters).counters;
    counters.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no counter {name}")).value
}

/// Writes whole pages at random within the first `hot` pages, without storing anything.
fn churn(bench: &mut Bench, hot: u64, pages: u64, rng: &mut Rng) {
    let sectors = (1u64 << bench.page_bits()) / SECTOR;
    for _ in 0..pages {
        bench.now += Span(20_000_000);
        let at = rng.below(hot) * sectors;
        let (id, _) = bench.issue(Op::Write, at, sectors, Payload::NONE, Flags::NONE);
        bench.end(id);
    }
}

const SMALL: &str =
    "profile = \"slc-2015\"\nblocks_per_plane = 64\npages_per_block = 16\nspare_factor = 0.25\n";

fn worn(options: &str, pages: u64) -> Bench {
    let mut bench = Bench::new(&format!("{SMALL}{options}"), None, Precondition::Filled);
    bench.cells = None;
    churn(&mut bench, 64, pages, &mut Rng::new(9));
    bench.machine.check().unwrap();
    bench
}

#[test]
fn static_levelling_keeps_the_spread_where_it_is_asked_to() {
    // One page in twelve is ever written again: without levelling the others' blocks are never erased.
    let mut off = worn("wear = { static_wl_threshold = 0 }\n", 40_000);
    assert_eq!(counter(&mut off, "erase_count_min"), 0);
    assert_eq!(counter(&mut off, "wl_blocks_relocated"), 0);
    let unlevelled = counter(&mut off, "erase_count_max");
    // Cold data that moves to any block may move again soon; on a worn one it stays.
    for (order, most) in [("fifo", unlevelled / 4), ("least-worn", 12)] {
        let mut on = worn(
            &format!(
                "wear = {{ static_wl_threshold = 10, static_wl_interval = 8, free_block_order = \"{order}\" }}\n"
            ),
            40_000,
        );
        let spread = counter(&mut on, "erase_count_max") - counter(&mut on, "erase_count_min");
        assert!(spread <= most, "{order}: the spread is {spread} of {unlevelled}");
        assert!(counter(&mut on, "wl_blocks_relocated") > 0);
        let waf = |bench: &mut Bench| counter(bench, "nand_pages_programmed") * 1000 / 40_000;
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

/// Each block that is cleared for its wear gains nothing, and blocks nearly always differ by two erases: a write that waits for
/// room must not wait for all of them.
#[test]
fn a_write_does_not_wait_until_all_blocks_are_level() {
    for way in ["threshold = 3, mode = \"foreground\"", "threshold = 4, hard_threshold = 3"] {
        let options = format!(
            "{SMALL}gc = {{ {way} }}\nwear = {{ static_wl_threshold = 1, static_wl_interval = 1 }}\n"
        );
        let mut bench = Bench::new(&options, None, Precondition::Filled);
        bench.cells = None;
        let rng = &mut Rng::new(9);
        churn(&mut bench, 64, 20_000, rng);
        let (mut before, mut most) = (counter(&mut bench, "gc_pages_moved"), 0);
        for _ in 0..5000 {
            churn(&mut bench, 64, 1, rng);
            let moved = counter(&mut bench, "gc_pages_moved");
            most = (moved - before).max(most);
            before = moved;
        }
        assert!(counter(&mut bench, "wl_blocks_relocated") > 0, "{way}");
        // One block of 16 pages for its wear, one that is under way, and what collection needs.
        println!("{way}: {most} moves after one page");
        assert!(most <= 4 * 16, "{way}: {most} pages moved while one write waited");
    }
}

#[test]
fn the_lifetime_follows_from_what_was_measured() {
    let mut bench = worn("", 20_000);
    let erases = counter(&mut bench, "erase_count");
    let host = 20_000 * 2048;
    let even = counter(&mut bench, "lifetime_host_bytes");
    // 64 blocks of 100,000 erases each.
    assert_eq!(even, (u128::from(host as u64) * 100_000 * 64 / u128::from(erases)) as u64);
    let spread = counter(&mut bench, "lifetime_host_bytes_at_spread");
    let share = Ratio::new(erases, 64 * counter(&mut bench, "erase_count_max"));
    assert!(spread.abs_diff(share.of(even)) <= even / 1000, "{spread} is not {share:?} of {even}");
}

#[test]
fn a_drive_whose_blocks_wear_out_ends_read_only_and_keeps_its_data() {
    let rng = &mut Rng::new(4);
    let options =
        "wear = { endurance = 30, endurance_variation = 0.2, static_wl_threshold = 4, factory_bad = 0.02 }\n";
    let mut bench = Bench::new(&format!("{SMALL}{options}"), None, Precondition::Empty);
    let pages = bench.machine.limits().capacity.0 / 2048;
    let mut newest = vec![Stamp::ZERO; pages as usize];
    let mut serial = 0;
    let refused = loop {
        serial += 1;
        let page = rng.below(pages);
        bench.now += Span(20_000_000);
        let payload = Payload::run(Stamp::new(serial, page * 4));
        match bench.try_issue(Op::Write, page * 4, 4, payload, Flags::NONE) {
            Ok((id, _)) => {
                bench.end(id);
                newest[page as usize] = Stamp::new(serial, page * 4);
            }
            Err(error) => break error,
        }
        assert!(serial < 1_000_000, "64 blocks of 30 erases do not last so long");
    };
    assert_eq!(refused.kind, ErrorKind::ReadOnly);
    assert_eq!(counter(&mut bench, "is_worn_out"), 1);
    assert!(counter(&mut bench, "bad_blocks") > 5, "blocks were retired before");
    bench.machine.check().unwrap();
    for start in 0..2 {
        for page in 0..pages {
            assert_eq!(bench.stamps(page * 4, 1)[0], newest[page as usize], "page {page}, start {start}");
        }
        bench.now += Span(1_000_000_000);
        bench.cut(rng);
        bench.machine.check().unwrap();
    }
}

/// Runs the timers of an idle drive until it sets none.
pub(super) fn idle(bench: &mut Bench, mut timers: Vec<(TimerKey, Instant)>) -> u64 {
    let mut fired = 0;
    while let Some(next) = (0..timers.len()).min_by_key(|&i| (timers[i].1, timers[i].0.0)) {
        let (key, at) = timers.swap_remove(next);
        bench.now = bench.now.later(at);
        fired += 1;
        assert!(fired < 100_000, "an idle drive does not come to rest");
        let (_, effects) = bench.call(|m, cx| m.timer(key, cx));
        for effect in effects {
            if let Effect::Wake(key, at) = effect {
                timers.retain(|t| t.0 != key);
                timers.push((key, at));
            }
        }
    }
    fired
}

/// A drive that collects while it is idle, after random writes.
fn collects_while_idle() -> Bench {
    let toml = format!("{SMALL}gc = {{ idle_free_target = 12, idle_after = \"2 ms\" }}\n");
    let mut bench = Bench::new(&toml, None, Precondition::Filled);
    bench.cells = None;
    let pages = bench.machine.limits().capacity.0 / 2048;
    churn(&mut bench, pages, 2 * pages, &mut Rng::new(2));
    bench
}

#[test]
fn an_idle_drive_makes_blocks_free_and_comes_to_rest() {
    let mut bench = collects_while_idle();
    let before = counter(&mut bench, "free_blocks");
    assert!(before < 6, "{before} blocks are free after random writes");
    let now = bench.now;
    let fired = idle(&mut bench, vec![(TimerKey(2), now)]);
    assert!(
        counter(&mut bench, "free_blocks") >= 10,
        "an idle drive made {before} into {}",
        counter(&mut bench, "free_blocks")
    );
    assert!(fired > 10);
    assert!(bench.charges_match(), "I-13");
    bench.machine.check().unwrap();
    // At rest, a timer that fires late changes nothing.
    let now = bench.now;
    assert_eq!(idle(&mut bench, vec![(TimerKey(2), now)]), 1);
}

/// A drive that is closed does nothing more, also while others close.
#[test]
fn a_drive_that_is_closed_does_not_collect_while_idle() {
    let mut bench = collects_while_idle();
    let (_, mut effects) = bench.call(|m, cx| m.close(cx));
    assert!(effects.contains(&Effect::CancelWake(TimerKey(2))), "{effects:?}");
    // What its dies do is complete first.
    let complete = |effect: &Effect| match effect {
        Effect::Wake(TimerKey(0), at) => Some(*at),
        _ => None,
    };
    if let Some(at) = effects.iter().find_map(complete) {
        assert!(at > bench.now && !effects.contains(&Effect::Closed), "{effects:?}");
        bench.now = at;
        (_, effects) = bench.call(|m, cx| m.timer(TimerKey(0), cx));
    }
    assert!(effects.contains(&Effect::Closed), "{effects:?}");
}

#[test]
fn a_request_puts_collection_while_idle_off() {
    let mut bench = collects_while_idle();
    bench.now += Span::from_ms(1);
    let steps = counter(&mut bench, "gc_idle_steps");
    let pages = bench.machine.limits().capacity.0 / 2048;
    churn(&mut bench, pages, 1, &mut Rng::new(3));
    bench.now += Span::from_ms(1);
    let (_, effects) = bench.call(|m, cx| m.timer(TimerKey(2), cx));
    assert_eq!(counter(&mut bench, "gc_idle_steps"), steps, "one millisecond is not two");
    assert_eq!(effects, vec![Effect::Wake(TimerKey(2), bench.now + Span::from_ms(1))]);
}

#[test]
fn options_that_cannot_work_are_refused() {
    for (options, key) in [
        ("gc = { threshold = 1 }", "gc"),
        ("gc = { threshold = 3, hard_threshold = 3 }", "gc"),
        ("gc = { hard_threshold = 0 }", "gc"),
        ("gc = { idle_free_target = 3 }", "gc"),
        ("gc = { kind = \"fifo\", window_blocks = 4 }", "gc"),
        ("gc = { choices = 4 }", "gc"),
        ("gc = { kind = \"d-choices\", choices = 0 }", "gc"),
        ("gc = { kind = \"windowed\", window_blocks = 0 }", "gc"),
        ("gc = { idle_after = \"0 ns\", idle_free_target = 9 }", "gc"),
        ("wear = { static_wl_interval = 0 }", "wear"),
        ("wear = { endurance_variation = 1 }", "wear"),
        ("wear = { factory_bad = 0.2 }", "wear"),
    ] {
        let config: SsdConfig = match toml::from_str(&format!("{SMALL}{options}")) {
            Ok(config) => config,
            // An option of another policy, or one out of its range, is none already where it is read.
            Err(error) => {
                assert!(key == "gc" && error.message().contains("victim `"), "{options}: {error}");
                continue;
            }
        };
        let plants = BTreeSet::new();
        let precondition = Precondition::Empty;
        let cx = BuildContext {
            name: "ssd",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &plants,
            precondition,
        };
        let Err(error) = config.machine(&cx) else { panic!("accepted: {options}") };
        assert_eq!(error.key, Some(key), "{options}: {error}");
    }
}
