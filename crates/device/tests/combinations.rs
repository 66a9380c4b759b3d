//! Every option of a flash drive with every other one.
//!
//! All pairs of [`FEATURES`] that are not values of one key are built and run, small, until the drive collects. Counters tell that both
//! features acted. What is refused is what `docs/reference/combinations.md` lists, and no more than [`REFUSED`] pairs. Larger sets are drawn from
//! seeds: no three of them may be refused that go together two by two.
//!
//! What is stored is the business of the verified simulation, whose family `ssd-combined` draws the same options.

use nandu_base::{Ask, ByteLen, ByteOffset, Counter, Deal, Flags, Op, Peek, Precondition, Rng, Span};
use nandu_device::fixture::{SsdTable, ssd};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};
use std::collections::BTreeSet;

const PAGE: u64 = 1024;
/// Of each plane.
const BLOCKS: u32 = 64;
/// Of all pages.
const SPARE: f64 = 0.62;
/// Of each tenant.
const SHARE: u64 = 256 * PAGE;

/// What the counters of a drive say after a run.
struct Seen {
    counters: Vec<Counter>,
    /// Whether a tenant could be taken away.
    dealt: bool,
    /// The blocks of a plane, or units of a group, are fewer than the drive was made with.
    is_short: bool,
    /// Pages that lie on another die than their number says.
    astray: u64,
    is_volatile: bool,
}

impl Seen {
    fn of(&self, name: &str) -> u64 {
        self.counters.iter().find(|c| c.name == name).map_or(0, |c| c.value)
    }
}

/// An option, and how it shows that it acted.
struct Feature {
    name: &'static str,
    /// Of two features of one key a drive has one.
    key: &'static str,
    lines: &'static str,
    /// Another option that it needs, where the pair does not have one of that key.
    needs: Option<(&'static str, &'static str)>,
    acts: fn(&Seen) -> bool,
}

const fn feature(
    name: &'static str,
    key: &'static str,
    lines: &'static str,
    acts: fn(&Seen) -> bool,
) -> Feature {
    Feature { name, key, lines, needs: None, acts }
}

fn reads_map(seen: &Seen) -> bool {
    seen.of("cmt_misses") > 0 && seen.of("map_pages_read") > 0 && seen.of("map_pages_written") > 0
}

fn merges(seen: &Seen) -> bool {
    seen.of("merges_full") + seen.of("merges_partial") + seen.of("merges_switch") > 0
}

fn keeps_apart(seen: &Seen) -> bool {
    seen.of("tenant_1_block_erases") > 0 && seen.of("tenant_2_block_erases") > 0
}

const SCHEDULER: &str = "die_scheduler.tenant_scheduler = { kind = \"drr\", quantum = \"500 us\" }\n";
const SUSPENSION: &str = "die_scheduler.suspend = { max_per_program = 2, max_per_erase = 4, suspend_latency = \"5 us\", resume_latency = \"5 us\" }\n";
const HOT_COLD: &str =
    "streams = { kind = \"hot-cold\", counters = 256, decay_interval = 400, threshold = 2 }\n";
const SHARED: &str = "isolation = { kind = \"shared-space\", contribution = 0.4, reserve_min = 1 }\n";

const FEATURES: &[Feature] = &[
    feature("dftl", "mapping", "mapping = { kind = \"dftl\", cmt_size = 64 }\n", reads_map),
    feature("cftl", "mapping", "mapping = { kind = \"cftl\", cmt_size = 64 }\n", reads_map),
    feature("tpftl", "mapping", "mapping = { kind = \"tpftl\", cmt_size = 64 }\n", reads_map),
    feature("sftl", "mapping", "mapping = { kind = \"sftl\", cmt_size = 1100 }\n", reads_map),
    feature("leaftl", "mapping", "mapping = { kind = \"leaftl\", cmt_size = 2400 }\n", reads_map),
    feature("tpc", "mapping", "mapping = { kind = \"tpc-ftl\", cmt_size = 1100 }\n", reads_map),
    feature("block", "mapping", "mapping = { kind = \"block\", replacement_blocks = 3 }\n", merges),
    feature("bast", "mapping", "mapping = { kind = \"bast\", log_blocks = 3 }\n", merges),
    feature("fast", "mapping", "mapping = { kind = \"fast\", log_blocks = 8 }\n", merges),
    feature("queued", "die_scheduler", "", |seen| seen.of("read_bypasses") > 0),
    feature("suspension", "suspension", SUSPENSION, |seen| {
        seen.of("programs_suspended") > 0 && seen.of("reads_in_suspensions") > 0
    }),
    feature("scheduler", "scheduler", SCHEDULER, |seen| {
        seen.of("tenant_1_contended_cost_ns") > 0 && seen.of("tenant_2_contended_cost_ns") > 0
    }),
    feature("ops", "isolation", "isolation = { kind = \"ops\" }\n", keeps_apart),
    feature("vssd", "isolation", "isolation = { kind = \"vssd\" }\n", keeps_apart),
    feature("shared-space", "isolation", SHARED, |seen| keeps_apart(seen) && seen.of("units_lent") > 0),
    feature("channel", "isolation", "isolation = { kind = \"channel\" }\n", keeps_apart),
    feature("die", "isolation", "isolation = { kind = \"die\" }\n", keeps_apart),
    feature("hot-cold", "streams", HOT_COLD, |seen| seen.of("pages_written_to_other_streams") > 0),
    feature("tenant-streams", "streams", "streams = { kind = \"tenant\" }\n", |seen| {
        seen.of("pages_written_to_other_streams") > 0
    }),
    feature("slc-cache", "slc", "slc_cache = { dynamic = 1 }\n", |seen| {
        seen.of("slc_pages_written") > 0 && seen.of("slc_pages_folded") > 0
    }),
    feature("unit-die", "unit", "reclaim_unit = \"die\"\n", |seen| {
        seen.of("gc_blocks_collected") > 0 && seen.of("erase_count") >= 2 * seen.of("gc_blocks_collected")
    }),
    feature("superblock", "unit", "reclaim_unit = \"superblock\"\n", |seen| {
        seen.of("gc_blocks_collected") > 0 && seen.of("erase_count") >= 4 * seen.of("gc_blocks_collected")
    }),
    feature("static", "allocation", "allocation = \"static\"\n", |seen| seen.astray == 0),
    feature("copyback", "copyback", "gc.copyback = true\n", |seen| {
        seen.of("gc_pages_moved_in_die") > 0 || merges(seen)
    }),
    Feature {
        needs: Some(("isolation", "isolation = { kind = \"vssd\" }\n")),
        ..feature("slots", "slots", "max_tenants = 3\n", |seen| seen.dealt)
    },
    feature("endurance", "endurance", "wear.endurance = 4\nwear.endurance_variation = \"1/2\"\n", |seen| {
        seen.of("bad_blocks") > 0
    }),
    feature("not-separate", "separate", "gc.separate_frontier = false\n", |seen| {
        seen.of("gc_pages_moved") > 0
    }),
    feature(
        "levelling",
        "levelling",
        "wear.static_wl_threshold = 1\nwear.static_wl_interval = 1\n",
        |seen| seen.of("wl_blocks_relocated") > 0,
    ),
    feature("sw-leveler", "levelling", "wear.kind = \"sw-leveler\"\nwear.unevenness = 1\n", |seen| {
        seen.of("wl_blocks_relocated") > 0
    }),
    feature(
        "buffer",
        "buffer",
        "write_buffer = { size = \"16 KiB\", link_bandwidth = 300_000_000 }\n",
        |seen| seen.is_volatile && seen.of("buffer_pages_replaced") > 0,
    ),
    feature(
        "capacitors",
        "buffer",
        "write_buffer = { size = \"16 KiB\", link_bandwidth = 300_000_000, power_loss_protection = true }\n",
        |seen| !seen.is_volatile && seen.of("buffer_pages_replaced") > 0,
    ),
    Feature {
        needs: Some(("mapping", "mapping = { kind = \"dftl\", cmt_size = 64 }\n")),
        ..feature("checkpoint", "checkpoint", "checkpoint_interval = 20\n", |seen| {
            seen.of("map_checkpoints") > 0
        })
    },
    feature("background", "background", "gc.idle_free_target = 5\ngc.idle_after = \"15 ms\"\n", |seen| {
        seen.of("gc_idle_steps") > 0
    }),
    feature("factory-bad", "factory", "wear.factory_bad = \"1/10\"\n", |seen| {
        seen.of("bad_blocks") > 0 || seen.is_short
    }),
    feature("read-modify-write", "partial", "partial_write = \"read-modify-write\"\n", |seen| {
        seen.of("rmw_page_reads") > 0
    }),
];

/// Pairs that are refused. The number only falls.
const REFUSED: usize = 38;

/// The page that says which, by the names of the features here.
const DOCS: &str = include_str!("../../../docs/reference/combinations.md");

/// The pairs of a table there: those of the first column with those of the second.
fn listed() -> BTreeSet<(&'static str, &'static str)> {
    let rows = DOCS.lines().skip_while(|line| !line.starts_with("| these")).skip(2);
    let mut pairs = BTreeSet::new();
    for row in rows.take_while(|row| row.starts_with('|')) {
        let mut columns = row.trim_matches('|').split('|').map(|column| column.trim().split(", "));
        let (these, those) = (columns.next().expect("a column"), columns.next().expect("two columns"));
        for (one, other) in these.flat_map(|one| those.clone().map(move |other| (one, other))) {
            assert!(pairs.insert(in_order(one, other)), "{one} x {other} is listed twice");
        }
    }
    pairs
}

/// A pair as [`FEATURES`] has it.
fn in_order(one: &'static str, other: &'static str) -> (&'static str, &'static str) {
    let at =
        |name| FEATURES.iter().position(|f| f.name == name).unwrap_or_else(|| panic!("no feature {name}"));
    if at(one) < at(other) { (one, other) } else { (other, one) }
}

/// A drive with a set of features; `spare` is its share of spare pages.
fn drive(set: &[&Feature], spare: f64) -> SsdTable {
    let mut keys: Vec<&str> = set.iter().map(|feature| feature.key).collect();
    let mut lines: String = set.iter().map(|feature| feature.lines).collect();
    for (key, line) in set.iter().filter_map(|feature| feature.needs) {
        if !keys.contains(&key) {
            keys.push(key);
            lines += line;
        }
    }
    if keys.iter().any(|key| ["die_scheduler", "suspension", "scheduler"].contains(key)) {
        lines += "die_scheduler.kind = \"out-of-order\"\n";
    }
    let drive = ssd("mlc-2019").channels(2).planes(2).blocks(BLOCKS).page_size(PAGE as u32).pages(8);
    let drive = drive.spare(spare).with(lines);
    match keys.contains(&"isolation") || set.iter().any(|feature| feature.name == "tenant-streams") {
        true => drive.tenants(&[SHARE as u32; 2]),
        false => drive,
    }
}

/// Runs a drive until it has collected; an error when it is refused.
fn run(drive: &SsdTable, seed: u64) -> Result<Seen, String> {
    let options = BuildOptions { precondition: Precondition::Empty, ..BuildOptions::default() };
    let mut bed = Testbed::new(&drive.stack_for(&[("t1", 100), ("t2", 300)]), &builtin(), options)
        .map_err(|error| error.to_string())?;
    let mut rng = Rng::new(seed);
    let ask = |bed: &mut Testbed, tenant: u64, op: Op, page: u64, part: bool| {
        let (offset, len) = (tenant * SHARE + page * PAGE, if part { PAGE / 2 } else { PAGE });
        bed.submit(tenant as usize, op, Flags::NONE, offset, len);
    };
    let pages = SHARE / PAGE;
    for page in 0..pages {
        ask(&mut bed, 0, Op::Write, page, false);
        ask(&mut bed, 1, Op::Write, page, false);
        if page % 16 == 15 {
            bed.settle();
        }
    }
    // Each of them writes alone in turn, so that the other has something to lend.
    for round in 0..6 {
        let writer = round % 2;
        for _ in 0..24 {
            for _ in 0..32 {
                let page = if rng.below(4) > 0 { rng.below(pages / 8) } else { rng.below(pages) };
                match rng.below(16) {
                    0 => ask(&mut bed, writer, Op::Trim, page, false),
                    1..4 => ask(&mut bed, 1 - writer, Op::Read, rng.below(pages), false),
                    4 => ask(&mut bed, 1 - writer, Op::Write, page, true),
                    5..8 => ask(&mut bed, writer, Op::Read, page, false),
                    8 => ask(&mut bed, writer, Op::Write, page, true),
                    _ => ask(&mut bed, writer, Op::Write, page, false),
                }
            }
            bed.settle();
            let later = bed.now() + Span::from_ms(rng.below(2) * 20);
            bed.run_until(later);
        }
    }
    let dealt = drive.get("max_tenants").is_some() && {
        let dealt = bed.deal("ssd", Deal::Remove { number: 2 });
        ask(&mut bed, 0, Op::Write, 1, false);
        bed.settle();
        dealt.is_ok()
    };
    let node = bed.node("ssd");
    let counters = bed.report("ssd", Ask::Counters).counters;
    let is_short =
        bed.report("ssd", Ask::FlashMap).flash_map.is_some_and(|map| map.blocks_per_plane < BLOCKS);
    let lane = |page: u64| {
        let peek = Peek::new(&[], &[], &[], bed.now());
        bed.graph()
            .machine(node)
            .advise()?
            .locate(ByteOffset(page * PAGE), ByteLen(PAGE), &peek)
            .map(|place| place.lane)
    };
    // A page that has a plane of its own lies on the die of all pages of its tenant whose numbers are the same but for whole turns.
    let is_astray = |page: &u64| match (lane(*page), lane(page / pages * pages + page % 4)) {
        (Some(here), Some(like)) => here != like,
        _ => false,
    };
    let astray = (0..2 * pages).filter(is_astray).count() as u64;
    let is_volatile = bed.graph().machine(node).limits().volatile_cache;
    Ok(Seen { counters, dealt, is_short, astray, is_volatile })
}

fn pairs() -> Vec<[&'static Feature; 2]> {
    let all = |(at, one): (usize, &'static Feature)| FEATURES[at + 1..].iter().map(move |other| [one, other]);
    let implied = |pair: &[&Feature; 2]| {
        pair[0].key == "die_scheduler" && ["suspension", "scheduler"].contains(&pair[1].key)
    };
    FEATURES
        .iter()
        .enumerate()
        .flat_map(all)
        .filter(|pair| pair[0].key != pair[1].key && !implied(pair))
        .collect()
}

#[test]
fn every_feature_goes_with_every_other_or_is_listed_as_refused() {
    let (mut refused, mut wrong) = (BTreeSet::new(), Vec::new());
    let listed = listed();
    for pair in pairs() {
        let names = (pair[0].name, pair[1].name);
        match run(&drive(&pair, SPARE), 1) {
            Ok(seen) => {
                let still = pair.iter().filter(|feature| !(feature.acts)(&seen));
                wrong.extend(still.map(|feature| format!("{names:?}: {} does not act", feature.name)));
                if seen.of("gc_blocks_collected") == 0 && !merges(&seen) {
                    wrong.push(format!("{names:?}: the drive does not collect"));
                }
            }
            Err(why) => {
                refused.insert(names);
                if !listed.contains(&names) {
                    wrong.push(format!(
                        "{names:?} is refused and not listed in docs/reference/combinations.md: {why}"
                    ));
                }
            }
        }
    }
    wrong.extend(listed.difference(&refused).map(|names| format!("{names:?} is listed and not refused")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(refused.len(), REFUSED, "of {} pairs", pairs().len());
}

/// Three to six features, no two of which are values of one key or refused together.
fn larger_set(listed: &BTreeSet<(&'static str, &'static str)>, seed: u64) -> Vec<&'static Feature> {
    let mut rng = Rng::new(seed);
    let mut set: Vec<&Feature> = Vec::new();
    for _ in 0..rng.between(3, 8) {
        let feature = &FEATURES[rng.below(FEATURES.len() as u64) as usize];
        let goes = |other: &&Feature| {
            feature.key != other.key && !listed.contains(&in_order(feature.name, other.name))
        };
        if set.iter().all(goes) {
            set.push(feature);
        }
    }
    set
}

/// Sets of features are built and run like pairs. A feature may be hidden by two others (reads that a buffer answers suspend nothing), so
/// that each acts is asked of all sets together.
fn sets_go_together(seeds: std::ops::RangeInclusive<u64>) {
    let listed = listed();
    let (mut wrong, mut acted, mut drawn) = (Vec::new(), [0; FEATURES.len()], [0; FEATURES.len()]);
    for seed in seeds {
        let set = larger_set(&listed, seed);
        let names: Vec<&str> = set.iter().map(|feature| feature.name).collect();
        // A map on the flash, checkpoints and bad blocks together leave tenants no room on the smallest drive, nor do many bad blocks leave it to
        // log blocks.
        let small = run(&drive(&set, SPARE), seed);
        let has_no_room =
            |why: &String| ["needs room", "log blocks do not fit"].iter().any(|said| why.contains(said));
        let has_room = !small.as_ref().is_err_and(has_no_room);
        match if has_room { small } else { run(&drive(&set, SPARE + 0.08), seed) } {
            Ok(seen) => {
                for (at, feature) in FEATURES.iter().enumerate().filter(|(_, f)| names.contains(&f.name)) {
                    drawn[at] += 1;
                    acted[at] += u32::from((feature.acts)(&seen));
                }
                if seen.of("gc_blocks_collected") == 0 && !merges(&seen) {
                    wrong.push(format!("seed {seed}: {names:?}: the drive does not collect"));
                }
            }
            Err(why) => wrong.push(format!("seed {seed}: {names:?} is refused: {why}")),
        }
    }
    for (feature, (acted, drawn)) in FEATURES.iter().zip(acted.iter().zip(&drawn)) {
        println!("{}: acts in {acted} of {drawn} sets", feature.name);
        if acted * 2 < *drawn {
            wrong.push(format!("{} acts in {acted} of {drawn} sets only", feature.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn larger_sets_of_features_go_together() {
    sets_go_together(1..=60);
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_sets_of_features_go_together() {
    sets_go_together(1001..=2000);
}
