//! The drive against an obvious model: a list of what each sector may hold.

use super::mapping::Maps;
use super::*;
use crate::fixture::{SsdTable, ssd};
use crate::nand::Cells;
use nandu_base::{
    Ask, BuildError, Deal, DealError, Dealt, DeviceConfig, Family, Flags, Instant, IoError, Limits, Payload,
    Precondition, Rng, SECTOR, Stamp,
};
use nandu_graph::testkit::{Bed, Machines};
use std::collections::BTreeSet;
use std::mem;
use std::ops::{Deref, DerefMut};

mod collection;
mod ends;
mod filled;
mod maps;
mod recovery;
mod slc;
mod streams;
mod tenants;
mod theory;
mod units;

/// A drive on the test kit, asked in sectors and with stamps of the test's own, as the model of a list of sectors needs.
struct Bench {
    bed: Bed,
    /// Whose requests these are, from 0.
    asks: usize,
}

impl Deref for Bench {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Bed {
        &mut self.bed
    }
}

fn try_build(
    drive: &SsdTable,
    plants: &BTreeSet<String>,
    precondition: Precondition,
) -> Result<Box<dyn Machine>, BuildError> {
    drive.config().expect("the test's options parse").machine(&BuildContext {
        name: "ssd",
        children: &[],
        seed: 1,
        tenants: 2,
        shares: &[],
        planted: plants,
        precondition,
    })
}

/// Why a drive with these options cannot be built.
fn refused(drive: &SsdTable) -> BuildError {
    let built = try_build(drive, &BTreeSet::new(), Precondition::Empty);
    built.err().unwrap_or_else(|| panic!("accepted: {drive:?}"))
}

fn tiny() -> SsdTable {
    ssd("slc-2015").channels(2).planes(2).blocks(12).pages(8).spare(0.7)
}

/// Each demand-paged map with a cache that is far too small: the map and its options, and what else its drive has.
const MAPS: [(&str, &str, &str); 10] = [
    ("dftl", "cmt_size = 64", ""),
    (
        "tpc-ftl",
        "cmt_size = 1048, delayed_read = false, clean_first_window = 1, gc_batch = 5, data_program = \"at-once\"",
        "",
    ),
    ("tpc-ftl", "cmt_size = 1048", ""),
    ("tpc-ftl", "cmt_size = 1600, invalidation = \"at-read\", eviction_write = \"async\"", ""),
    ("cftl", "cmt_size = 100", ""),
    ("tpftl", "cmt_size = 90, data_program = \"at-once\"", ""),
    // One plane: runs and blocks occur.
    (
        "cftl",
        "cmt_size = 100, gc_batch = 7",
        "channels = 1\nplanes_per_die = 1\nblocks_per_plane = 96\ngc = { kind = \"greedy\", threshold = 2 }",
    ),
    // Blocks that are read a little are gathered; parts of pages cost nothing more.
    (
        "cftl",
        "cmt_size = 100, switching = { kind = \"by-access\", reads = 1, writes = 2, pages = 2 }",
        "partial_write = \"uncharged\"",
    ),
    ("sftl", "cmt_size = 1100", ""),
    ("leaftl", "cmt_size = 1200", ""),
];

/// Six translation pages of 128 entries.
fn pages_of_512() -> SsdTable {
    ssd("slc-2015").channels(2).planes(2).blocks(24).pages(16).page_size(512).spare(0.5)
}

fn paged(map: usize) -> SsdTable {
    let (kind, options, rest) = MAPS[map];
    pages_of_512().map(kind, options).with(rest)
}

/// Every map of this project in every form in which the verified simulation draws it, with the least cache that any of them takes.
fn drawn_maps() -> impl Iterator<Item = (&'static str, SsdTable)> {
    let forms = Maps::builtin().iter().flat_map(|map| map.draws.iter().map(move |draw| (map.name, draw)));
    forms.map(|(name, draw)| {
        let drive = pages_of_512().map(name, draw);
        (name, if drive.has_map_on_flash() { drive.cache(1104) } else { drive })
    })
}

impl Bench {
    fn new(drive: &SsdTable, plant: Option<&str>, precondition: Precondition) -> Bench {
        let plants: BTreeSet<String> = plant.into_iter().map(String::from).collect();
        let (drive, mut begins) = (drive.clone(), precondition);
        let build = move |_| {
            // After a cut it is what its flash says.
            let machine = try_build(&drive, &plants, mem::replace(&mut begins, Precondition::Empty))?;
            let MediumSpec::Flash { units, unit_sectors, units_per_block, .. } = machine.needs().medium
            else {
                unreachable!("a drive stands on flash")
            };
            let cells = Cells::new(units, unit_sectors, units_per_block);
            Ok::<_, BuildError>(Machines::leaf("ssd", machine, Some(Box::new(cells)), 2))
        };
        Bench { bed: Bed::new(1, build).expect("the test's drive can be built"), asks: 0 }
    }

    fn limits(&self) -> &Limits {
        self.graph().limits(0)
    }

    fn page_bits(&self) -> u32 {
        self.limits().preferred.trailing_zeros()
    }

    /// One of the drive's counters. Panics when it has none of this name.
    fn counter(&mut self, name: &str) -> u64 {
        self.bed.counter("ssd", name)
    }

    /// Issues a request that succeeds; its end.
    fn issue(&mut self, op: Op, sector: u64, sectors: u64, payload: Payload, flags: Flags) -> Instant {
        self.try_issue(op, sector, sectors, payload, flags).expect("the drive takes the request")
    }

    /// The same when the drive may refuse.
    fn try_issue(
        &mut self,
        op: Op,
        sector: u64,
        sectors: u64,
        payload: Payload,
        flags: Flags,
    ) -> Result<Instant, IoError> {
        let (offset, len) = (sector * SECTOR, sectors * SECTOR);
        let done = self.bed.foretell(self.asks, op, flags, offset, len, payload);
        done.error.map_or(Ok(done.at), Err)
    }

    /// Writes one page of so many sectors, and what each of them holds then.
    fn put(&mut self, serial: u32, page: u64, sectors: u64) -> Stamp {
        let stamp = Stamp::new(serial, page * sectors);
        self.issue(Op::Write, page * sectors, sectors, Payload::run(stamp), Flags::NONE);
        stamp
    }

    fn stamps(&mut self, sector: u64, sectors: u64) -> Vec<Stamp> {
        let (offset, len) = (sector * SECTOR, sectors * SECTOR);
        let done = self.bed.foretell(self.asks, Op::Read, Flags::NONE, offset, len, Payload::NONE);
        assert_eq!(done.error, None, "read of {sector}+{sectors}");
        done.data
    }

    /// Changes the space of tenants.
    fn deal(&mut self, deal: Deal) -> Result<Dealt, DealError> {
        self.bed.deal("ssd", deal)
    }
}

/// One run of random requests and cuts. Each sector has the set of stamps it may hold.
fn random_run(drive: &SsdTable, seed: u64, plant: Option<&str>, turns: u32) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let precondition = if rng.below(2) == 0 { Precondition::Empty } else { Precondition::Filled };
    // A drive with a log-block map does not begin aged.
    let ages = !drive.has_log_blocks() && seed % 8 > 4;
    let precondition =
        if precondition == Precondition::Filled && ages { Precondition::Aged } else { precondition };
    let mut bench = Bench::new(drive, plant, precondition);
    let sectors = bench.limits().capacity.sectors();
    let mut allowed: Vec<Vec<Stamp>> = vec![vec![Stamp::ZERO]; sectors as usize];
    // What a cut may still undo: first sector, count, end, and whether only a flush makes it durable.
    let mut under_way: Vec<(u64, u64, Instant, bool)> = Vec::new();
    let mut serial = 0;
    for turn in 0..turns {
        bench.pass(Span(rng.below(400_000)));
        let mut sector = rng.below(sectors);
        let mut count = (1 + rng.below(17)).min(sectors - sector);
        under_way.retain(|w| w.2 > bench.now() || w.3);
        let mut what = rng.below(20);
        if drive.get("mapping.cmt_size").is_some() && rng.below(16) == 0 {
            // All entries of one translation page, which a delayed read can save.
            sector = sector / 128 * 128;
            (count, what) = (128.min(sectors - sector), 0);
        }
        match what {
            0..=11 => {
                serial += 1;
                let stamp = Stamp::new(serial, sector);
                let answer = bench.try_issue(Op::Write, sector, count, Payload::run(stamp), Flags::NONE);
                let end = match answer {
                    Ok(answer) => answer,
                    // Worn out: what it has must still be there.
                    Err(error)
                        if error.kind == ErrorKind::ReadOnly && drive.get("wear.endurance").is_some() =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error.to_string()),
                };
                for i in 0..count {
                    allowed[(sector + i) as usize].push(Stamp::new(serial, sector + i));
                }
                under_way.push((sector, count, end, false));
            }
            12..=13 => {
                let flags = if rng.below(3) == 0 { Flags::FUA } else { Flags::NONE };
                let end = match bench.try_issue(Op::Trim, sector, count, Payload::NONE, flags) {
                    Ok(answer) => answer,
                    Err(error)
                        if error.kind == ErrorKind::ReadOnly && drive.get("wear.endurance").is_some() =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error.to_string()),
                };
                for set in &mut allowed[sector as usize..(sector + count) as usize] {
                    set.push(Stamp::ZERO);
                }
                // A trim without FUA may come back until the next flush.
                under_way.push((sector, count, end, !flags.has(Flags::FUA)));
            }
            14 => {
                // It covers what was acknowledged when it came.
                under_way.retain(|w| w.2 > bench.now());
                let end = bench.issue(Op::Flush, 0, 0, Payload::NONE, Flags::NONE);
                bench.run_until(end);
            }
            15..=18 => {
                for (at, stamp) in (sector..).zip(bench.stamps(sector, count)) {
                    let newest = allowed[at as usize].last().copied();
                    if Some(stamp) != newest {
                        return Err(format!(
                            "I-1: seed {seed}, turn {turn}: sector {at} holds {stamp:?}, not {newest:?}"
                        ));
                    }
                }
            }
            _ => {
                // What is complete cannot be lost: only the newest version, or those under way and the one before.
                bench.cut(&mut rng);
                for at in 0..sectors {
                    let set = &mut allowed[at as usize];
                    let open = under_way.iter().filter(|w| (w.0..w.0 + w.1).contains(&at)).count();
                    set.drain(..set.len() - 1 - open.min(set.len() - 1));
                    let stamp = bench.stamps(at, 1)[0];
                    if !set.contains(&stamp) {
                        return Err(format!(
                            "I-1: seed {seed}, turn {turn}: after a cut sector {at} holds {stamp:?} of {set:?}"
                        ));
                    }
                    *set = vec![stamp];
                }
                under_way.clear();
            }
        }
        if turn % 16 == 0 {
            bench.check().map_err(|v| format!("seed {seed}, turn {turn}: {v}"))?;
            if !bench.charges_match("ssd") {
                return Err(format!("I-13: seed {seed}, turn {turn}: charges do not add up to busy time"));
            }
        }
    }
    Ok(())
}

#[test]
fn random_requests_and_cuts_agree_with_the_model() {
    for seed in 0..150 {
        random_run(&tiny(), seed, None, 600).unwrap();
    }
}

#[test]
fn maps_on_the_flash_agree_with_the_model() {
    maps_agree(0..40);
}

/// `cargo test -p nandu-device many_seeds -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn maps_on_the_flash_agree_for_many_seeds() {
    maps_agree(40..5000);
}

fn maps_agree(seeds: std::ops::Range<u64>) {
    for (map, name) in MAPS.iter().enumerate() {
        for seed in seeds.clone() {
            let drive = match seed % 4 {
                0 => paged(map),
                // A start from a checkpoint is compared with a scan of everything.
                often => paged(map).with(format_args!("checkpoint_interval = {}", 2 * often - 1)),
            };
            if let Err(what) = random_run(&drive, seed, None, 600) {
                panic!("{name:?}: {what}");
            }
        }
    }
}

#[test]
fn every_map_of_the_family_agrees_with_the_model() {
    for (name, drive) in drawn_maps() {
        for seed in 0..12 {
            if let Err(what) = random_run(&drive, seed, None, 400) {
                panic!("{name}, {drive:?}: {what}");
            }
        }
    }
}

/// Each planted fault is found within a few seeds.
#[test]
fn every_planted_fault_is_found() {
    // These need the other die scheduler, another controller, a write buffer, tenants or a cache in SLC mode; the verified
    // simulation finds them.
    let elsewhere = [
        "ssd-queued",
        "ssd-log",
        "ssd-buffered",
        "ssd-protected",
        "ssd-tenants",
        "ssd-lending",
        "ssd-dealing",
        "ssd-paged-tenants",
        "ssd-slc",
        "fair-dies",
    ];
    let here = |p: &&nandu_base::Plant| {
        // More trims than these runs have are needed, or an end.
        !["ssd.trim-record-dropped", "ssd.ends-early"].contains(&p.name)
            && p.family.is_none_or(|family| !elsewhere.contains(&family))
    };
    for plant in kind().plants.iter().filter(here) {
        let drive = match plant.name {
            "ssd.prices-at-issue" => paged(0),
            "ssd.gathered-although-written" => paged(7),
            "ssd.map-slot-persisted" => paged(2).with("checkpoint_interval = 2"),
            "ssd.map-buffer-forgotten" => paged(8),
            name if name.starts_with("ssd.map-") => paged(2),
            "ssd.stripe-left-open" => tiny().with("reclaim_unit = \"die\"\ngc = { whole_stripes = true }"),
            "ssd.worn-block-used" => tiny().with("wear = { endurance = 3 }"),
            _ => tiny(),
        };
        let found = (0..60).find_map(|seed| {
            let random = || random_run(&drive, seed, Some(plant.name), 600);
            let run = std::panic::catch_unwind(|| {
                random().and_then(|()| recovery::trims_in_flight(seed, Some(plant.name)))
            });
            match run {
                Ok(Ok(())) => None,
                Ok(Err(what)) => Some(what),
                Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
            }
        });
        assert!(found.is_some(), "{} is never found", plant.name);
    }
}

/// A naive build runs out of blocks here: rewrites of translation pages eat what collection gains.
#[test]
fn a_filled_drive_with_a_cache_far_too_small_finishes() {
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(120).pages(32).page_size(512).spare(0.2);
    let maps = [
        ("page", ""),
        ("dftl", "cmt_size = 64, gc_batch = 1"),
        ("cftl", "cmt_size = 64, gc_batch = 1"),
        ("tpftl", "cmt_size = 64, gc_batch = 1"),
        ("tpc-ftl", "cmt_size = 524, gc_batch = 1"),
        ("tpc-ftl", "cmt_size = 524, delayed_read = false"),
    ];
    for (map, options) in maps {
        let mut bench = Bench::new(&drive.clone().map(map, options), None, Precondition::Filled);
        bench.forget_media();
        let pages = bench.limits().capacity.sectors();
        let mut rng = Rng::new(1);
        for _ in 0..3 * pages {
            bench.pass(Span(500_000));
            let end = bench.issue(Op::Write, rng.below(pages), 1, Payload::NONE, Flags::NONE);
            bench.run_until(end);
        }
        bench.check().unwrap();
        assert!(bench.charges_match("ssd"), "I-13 with {map}");
        // A map in RAM has no figures of pages of its own.
        let figures = bench.report("ssd", Ask::Counters);
        let get = |name| figures.counter(name).unwrap_or(0);
        let host = get("host_pages_written");
        let per_page = |name| get(name) as f64 / host as f64;
        println!(
            "{map}: write amplification {:.2}: data moved {:.2}, map written {:.2}, map moved {:.2}",
            per_page("nand_pages_programmed"),
            per_page("gc_pages_moved"),
            per_page("map_pages_written"),
            per_page("map_gc_pages_moved"),
        );
        assert_eq!(host, 3 * pages);
    }
}

#[test]
fn geometry_that_cannot_work_is_refused_with_the_key() {
    let (small, large) = (ssd("slc-2015").blocks(20), ssd("slc-2015").blocks(400));
    let cases = [
        (ssd("slc-2016").blocks(20), "profile"),
        (ssd("slc-2015").blocks(5), "blocks_per_plane"),
        (small.clone().spare(0), "spare_factor"),
        (small.clone().spare(1), "spare_factor"),
        (small.clone().planes(3), "planes_per_die"),
        (small.clone().channels(0), "channels"),
        (ssd("slc-2015"), "capacity"),
        (
            large.clone().with("die_scheduler = { kind = \"out-of-order\", max_read_bypass = 65536 }"),
            "die_scheduler.max_read_bypass",
        ),
        (large.clone().with("checkpoint_interval = 8"), "checkpoint_interval"),
        (large.clone().with("trim_records = 0"), "trim_records"),
        (large.clone().with("trim_records = 17"), "trim_records"),
        (large.clone().map("dftl", "").with("checkpoint_interval = 0"), "checkpoint_interval"),
        (
            large.clone().map("tpc-ftl", "delayed_read = false, invalidation = \"at-read\""),
            "mapping.invalidation",
        ),
        (large.clone().map("bast", "").with("gc = { idle_after = \"2 ms\" }"), "gc.idle_after"),
        (small.page_size(3 << 10), "page_size"),
        (large.with("allocation_order = [\"plane\", \"plane\", \"die\", \"chip\"]"), "allocation_order"),
    ];
    for (drive, key) in cases {
        let error = refused(&drive);
        assert_eq!(error.key.as_deref(), Some(key), "{drive:?}: {error}");
    }
}

#[test]
fn options_that_would_act_on_nothing_are_refused() {
    let drive = |text: &str| ssd("slc-2015").blocks(400).with(text);
    for (text, key) in [
        (
            "die_scheduler = { kind = \"out-of-order\", suspend = { max_per_program = 0, max_per_erase = 0 } }",
            "die_scheduler.suspend",
        ),
        ("wear = { serial = 7 }", "wear.serial"),
        ("wear = { serial = 7, endurance = 9 }", "wear.serial"),
    ] {
        let error = refused(&drive(text));
        assert_eq!(error.key.as_deref(), Some(key), "{text}: {error}");
    }
    // What acts, or is what it is by default.
    for text in [
        "write_buffer = { size = 0, link_bandwidth = 1, dirty_share = 0.5 }",
        "die_scheduler = { kind = \"out-of-order\", suspend = { max_per_program = 0 } }",
        "wear = { serial = 7, factory_bad = 0.01 }",
        "wear = { serial = 7, endurance_variation = 0.5 }",
    ] {
        try_build(&drive(text), &BTreeSet::new(), Precondition::Empty)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}
