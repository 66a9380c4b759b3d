//! Tenants: the model, and what isolation and lending are for.

use super::*;
use nandu_base::{Resource, TenantId};

/// Two tenants of 200 and 120 pages of 2 KiB, and as many for 80 that nobody has; superblocks of 8 pages.
pub(super) fn shared() -> SsdTable {
    ssd("slc-2015").channels(2).planes(2).blocks(100).pages(2).spare(0.5).tenants(&[400 << 10, 240 << 10])
}

pub(super) fn superblocks() -> SsdTable {
    shared().with("reclaim_unit = \"superblock\"")
}

const LENDING: &str = "isolation = { kind = \"shared-space\", contribution = \"1/4\" }\n";

const KINDS: [&str; 9] = [
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\", contribution = \"1/10\", contribution_max = \"3/4\", reserve_min = 1 }\n",
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"vssd\" }\n",
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"ops\" }\n",
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\", contribution = \"1/4\" }\n",
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\", contribution = \"1/2\", reserve_min = 1, return_policy = \"on-demand\" }\n",
    "reclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\", contribution = \"1/10\", pool = \"reserved\" }\n",
    "reclaim_unit = \"die\"\nisolation = { kind = \"shared-space\", contribution = \"1/4\" }\n",
    "reclaim_unit = \"plane\"\nisolation = { kind = \"channel\" }\n",
    "reclaim_unit = \"die\"\nisolation = { kind = \"die\" }\n",
];

const WAYS: [&str; 6] = [
    "",
    "gc = { kind = \"fifo\", mode = \"foreground\" }\n",
    "gc = { idle_free_target = 8, idle_after = \"20 us\" }\nwear = { static_wl_threshold = 1, static_wl_interval = 1 }\n",
    "gc = { kind = \"cost-benefit\", hard_threshold = 2 }\nwear = { free_block_order = \"least-worn\", factory_bad = \"1/50\" }\n",
    "wear = { endurance = 12, endurance_variation = \"1/4\", static_wl_threshold = 1, static_wl_interval = 2, across_tenants = true }\n",
    "wear = { kind = \"sw-leveler\", unevenness = 1, across_tenants = true }\n",
];

#[test]
fn every_isolation_agrees_with_the_model() {
    for policy in nandu_ftl::isolation::POLICIES.iter().filter(|policy| policy.name != "none") {
        let named = format!("kind = \"{}\"", policy.name);
        assert!(KINDS.iter().any(|kind| kind.contains(&named)), "{named}");
    }
    for kind in KINDS {
        for (place, way) in WAYS.iter().enumerate() {
            // Who has channels or dies shares no plane with another tenant.
            let way = match ["channel", "die"].iter().any(|own| kind.contains(&format!("kind = \"{own}\""))) {
                true => way.replace(", across_tenants = true", ""),
                false => way.to_string(),
            };
            // Some of them start aged.
            for seed in 3..8 {
                let drive = shared().with(kind).with(&way);
                let drive = match drive.get("reclaim_unit") != Some(&"superblock".into()) {
                    // Each plane has as many pages as a superblock has otherwise.
                    true => drive.pages(8).tenants(&[1600 << 10, 960 << 10]),
                    false => drive,
                };
                if let Err(what) = random_run(&drive, seed, None, 600) {
                    panic!("{kind}{way} ({place}): {what}");
                }
            }
        }
    }
}

pub(super) const A: (u64, u64) = (0, 200);
pub(super) const B: (u64, u64) = (200, 320);

/// Writes pages at random within a tenant's range; the drive is checked now and then.
pub(super) fn burst(
    bench: &mut Bench,
    (first, end): (u64, u64),
    pages: u64,
    rng: &mut Rng,
) -> Result<(), String> {
    for at in 0..pages {
        bench.pass(Span(2_000_000));
        let page = rng.between(first, end - 1);
        bench.issue(Op::Write, page * 4, 4, Payload::NONE, Flags::NONE);
        if at % 16 == 0 {
            bench.check().map_err(|v| v.to_string())?;
        }
    }
    Ok(())
}

/// Bursts of one tenant after the other, of random lengths over random parts of their ranges.
fn bursts(options: &str, seed: u64, plant: Option<&str>) -> Result<Bench, String> {
    let mut rng = Rng::new(seed);
    let mut bench = Bench::new(&superblocks().with(options), plant, Precondition::Filled);
    bench.forget_media();
    for _ in 0..30 {
        let (first, end) = *rng.pick(&[A, B]);
        let from = rng.between(first, end - 1);
        let to = rng.between(from, end - 1) + 1;
        let pages = rng.between(1, 300);
        burst(&mut bench, (from, to), pages, &mut rng)?;
    }
    Ok(bench)
}

#[test]
fn a_lender_has_its_units_back_after_one_collection_each() {
    let mut demands = 0;
    for seed in 0..30 {
        for return_policy in ["at-erase", "on-demand"] {
            for beta in ["1/4", "3/4"] {
                let options = format!(
                    "isolation = {{ kind = \"shared-space\", contribution = \"{beta}\", reserve_min = 1, return_policy = \"{return_policy}\" }}\n"
                );
                let mut bench = bursts(&options, seed, None)
                    .unwrap_or_else(|what| panic!("seed {seed}, {options}: {what}"));
                assert!(bench.charges_match("ssd"), "I-13");
                assert!(bench.counter("collections_forced_by_lenders") <= bench.counter("units_demanded"));
                demands += bench.counter("units_demanded");
            }
        }
    }
    assert!(demands > 100, "only {demands} units were demanded");
}

#[test]
fn a_burst_that_borrows_moves_fewer_pages_and_the_lender_none_more() {
    let moved = |options: &str| {
        let mut bench = Bench::new(&superblocks().with(options), None, Precondition::Filled);
        bench.forget_media();
        burst(&mut bench, B, 700, &mut Rng::new(5)).unwrap();
        (bench.counter("tenant_2_gc_pages_moved"), bench.counter("tenant_1_gc_pages_moved"), bench)
    };
    let (alone, other, _) = moved("isolation = { kind = \"vssd\" }\n");
    let (shared, lender, mut bench) = moved(LENDING);
    assert!(bench.counter("tenant_2_units_borrowed") > 0);
    assert!(shared < alone, "{shared} pages moved with lent units, {alone} without");
    assert_eq!((other, lender), (0, 0), "who writes nothing collects nothing");
}

#[test]
fn a_reserved_pool_is_there_while_its_owner_collects() {
    let run = |pool: &str| {
        let lending = format!(
            "isolation = {{ kind = \"shared-space\", contribution = \"1/10\", pool = \"{pool}\" }}\n"
        );
        let mut bench = Bench::new(&superblocks().with(lending), None, Precondition::Filled);
        bench.forget_media();
        let rng = &mut Rng::new(5);
        let mut both = |times: u64, of_b: u64, bench: &mut Bench| {
            for _ in 0..times {
                burst(bench, A, 1, rng).unwrap();
                burst(bench, B, of_b, rng).unwrap();
            }
            let count = |name: &str, bench: &mut Bench| {
                (1..=2).map(|tenant| bench.counter(&format!("tenant_{tenant}_{name}"))).sum::<u64>()
            };
            (count("units_borrowed", bench), count("gc_pages_moved", bench))
        };
        // Until both collect all the time.
        let before = both(600, 1, &mut bench);
        let after = both(300, 2, &mut bench);
        assert!(bench.charges_match("ssd"), "I-13");
        (after.0 - before.0, after.1 - before.1)
    };
    let (claimed, few) = run("claim");
    let (reserved, more) = run("reserved");
    assert!(claimed == 0 && reserved > 0, "units borrowed of one who collects: {claimed}, {reserved}");
    assert!(more > few, "who leaves units to others has less spare space: {more} pages moved, {few}");
}

#[test]
fn who_would_clear_full_units_to_repay_borrows_nothing() {
    let borrowed = |victim_valid_max: &str| {
        let lending = format!(
            "isolation = {{ kind = \"shared-space\", contribution = \"1/4\", victim_valid_max = \"{victim_valid_max}\" }}\n"
        );
        let mut bench = Bench::new(&superblocks().with(lending), None, Precondition::Filled);
        bench.forget_media();
        burst(&mut bench, B, 700, &mut Rng::new(5)).unwrap();
        (bench.counter("tenant_2_units_borrowed"), bench.counter("tenant_2_gc_pages_moved"))
    };
    let (anybody, half, nobody) = (borrowed("1"), borrowed("1/2"), borrowed("1/100"));
    assert!(anybody.0 > 0 && half.0 > 0, "{anybody:?} {half:?}");
    assert_eq!(nobody.0, 0, "a unit of 8 pages is never that empty: {nobody:?}");
}

/// Nothing is written to one of two tenants, so that it has units to lend.
#[test]
fn a_contribution_that_may_grow_lets_more_be_lent() {
    let lent = |most: &str| {
        let lending = format!(
            "isolation = {{ kind = \"shared-space\", contribution = \"1/10\", reserve_min = 1, return_policy = \"at-erase\"{most} }}\n"
        );
        let mut bench = Bench::new(&superblocks().with(lending), None, Precondition::Filled);
        bench.forget_media();
        burst(&mut bench, B, 1500, &mut Rng::new(5)).expect("it is served");
        ["tenant_1_units_lent_now", "tenant_1_units_contributed"].map(|name| bench.counter(name))
    };
    let (fixed, grows) = (lent(""), lent(", contribution_max = \"3/4\""));
    assert!(
        grows[0] > fixed[0] && grows[1] > fixed[1],
        "lent and contributed: {grows:?}, {fixed:?} where it stays"
    );
}

#[test]
fn who_begins_to_clear_earlier_has_more_units_erased() {
    let erased = |options: &str| {
        let options = format!("isolation = {{ kind = \"vssd\" }}\n{options}");
        let mut bench = Bench::new(&superblocks().with(options), None, Precondition::Filled);
        bench.forget_media();
        burst(&mut bench, B, 700, &mut Rng::new(5)).expect("it is served");
        (bench.counter("free_blocks"), bench.counter("tenant_2_gc_pages_moved"))
    };
    let (usual, early) = (erased(""), erased("tenant_gc_threshold = 0.2\n"));
    assert!(early.0 > usual.0 && early.1 > usual.1, "units erased and pages moved: {early:?}, {usual:?}");
}

#[test]
fn what_a_debtor_is_forced_to_do_is_charged_to_it_and_wears_for_it() {
    let mut bench = Bench::new(
        &superblocks().with(
            "isolation = { kind = \"shared-space\", contribution = \"3/4\", reserve_min = 1, return_policy = \
             \"on-demand\" }",
        ),
        None,
        Precondition::Filled,
    );
    bench.forget_media();
    let mut rng = Rng::new(2);
    burst(&mut bench, B, 900, &mut rng).unwrap();
    let (erases, lent) = (bench.counter("tenant_2_block_erases"), bench.counter("tenant_1_units_lent_now"));
    assert!(lent > 0);
    burst(&mut bench, A, 900, &mut rng).unwrap();
    assert_eq!(bench.counter("tenant_1_units_lent_now"), 0, "all of it was needed");
    assert!(bench.counter("tenant_2_block_erases") >= erases);
}

#[test]
fn an_idle_borrower_fills_the_shared_space_again() {
    let run = |options: &str| {
        let options = format!(
            "reclaim_unit = \"superblock\"\nisolation = {{ kind = \"shared-space\", contribution = \"3/4\", reserve_min = 1, return_policy = \"on-demand\"{options} }}\n"
        );
        let mut bench = Bench::new(&shared().with(options), None, Precondition::Filled);
        bench.forget_media();
        burst(&mut bench, B, 900, &mut Rng::new(2)).unwrap();
        let lent = bench.counter("tenant_1_units_lent_now");
        assert!(lent > 4, "{lent} units are lent after the burst");
        bench.rest();
        bench.check().unwrap();
        assert!(bench.charges_match("ssd"), "I-13");
        (lent, bench.counter("tenant_1_units_lent_now"), bench.counter("units_returned_while_idle"))
    };
    let (lent, left, returned) = run(", return_pool_below = 1");
    println!("of {lent} units lent after a burst {left} are after a rest, {returned} came back");
    assert!(left < lent && returned == lent - left);
    // 37 and 22 units are contributed; three quarters of them are left after a rest, and not more.
    let (lent, left, _) = run(", return_pool_below = \"3/4\"");
    assert!(left < lent && left == 59 - 45, "of {lent} units {left}");
    let (lent, left, _) = run("");
    assert_eq!(left, lent, "by default nothing comes back but what is demanded");
}

#[test]
fn who_has_lent_asks_back_before_it_begins_to_collect() {
    for return_policy in ["on-demand", "at-erase"] {
        let options = format!(
            "reclaim_unit = \"superblock\"\nisolation = {{ kind = \"shared-space\", contribution = \"9/10\", reserve_min = 1, return_policy = \"{return_policy}\" }}\n"
        );
        let mut bench = Bench::new(&shared().with(options), None, Precondition::Filled);
        bench.forget_media();
        let rng = &mut Rng::new(2);
        burst(&mut bench, B, 900, rng).unwrap();
        let mut demanded = 0;
        for _ in 0..400 {
            burst(&mut bench, A, 1, rng).unwrap();
            if bench.counter("tenant_1_units_lent_now") == 0 {
                break;
            }
            demanded = bench.counter("units_demanded");
            assert_eq!(
                bench.counter("tenant_1_gc_pages_moved"),
                0,
                "{return_policy}: it is still owed units"
            );
        }
        assert!(demanded > 0 || return_policy == "at-erase");
    }
}

#[test]
fn a_paper_that_knows_no_way_back_is_followed() {
    let mut bench = Bench::new(
        &superblocks().with("isolation = { kind = \"shared-space\", contribution = \"1/4\", reserve_min = 1, return_policy = \"never\" }"),
        None,
        Precondition::Filled,
    );
    bench.forget_media();
    let mut rng = Rng::new(3);
    burst(&mut bench, B, 900, &mut rng).unwrap();
    let lent = bench.counter("tenant_1_units_lent_now");
    burst(&mut bench, A, 400, &mut rng).unwrap();
    assert!(lent > 0);
    assert_eq!(bench.counter("tenant_1_units_lent_now"), lent, "the lender collects instead");
}

#[test]
fn faults_of_lending_are_found() {
    for (plant, options) in [
        ("ssd.tenant-page-misplaced", LENDING),
        ("ssd.tenant-collects-others", LENDING),
        ("ssd.tenant-unit-from-nowhere", LENDING),
        (
            "ssd.tenant-keeps-loan",
            "isolation = { kind = \"shared-space\", contribution = \"3/4\", reserve_min = 1, return_policy = \"on-demand\" }\n",
        ),
        (
            "ssd.tenant-room-not-kept",
            "isolation = { kind = \"shared-space\", contribution = \"3/4\", reserve_min = 1, return_policy = \"on-demand\" }\n",
        ),
    ] {
        let found = (0..40).find_map(|seed| {
            let run = std::panic::catch_unwind(|| bursts(options, seed, Some(plant)).map(|_| ()));
            run.unwrap_or(Err("I-7: a panic".into())).err()
        });
        assert!(found.is_some(), "{plant} is never found");
    }
}

#[test]
fn channels_of_its_own_keep_a_tenant_from_the_others_queue() {
    let drive = ssd("slc-2015").channels(2).blocks(64).pages(16).spare(0.25);
    let wait = |drive: &SsdTable| {
        let mut bench = Bench::new(drive, None, Precondition::Filled);
        bench.forget_media();
        bench.issue(Op::Write, 0, 4 * 64, Payload::NONE, Flags::NONE);
        let mut last = Span::ZERO;
        for page in 700..716 {
            let end = bench.issue(Op::Read, page * 4, 4, Payload::NONE, Flags::NONE);
            last = last.longer(end.since(bench.now()));
        }
        last
    };
    let together = wait(&drive);
    let drive = drive.tenants(&[1400 << 10, 1400 << 10]);
    let apart = wait(&drive.with("isolation = { kind = \"channel\" }"));
    assert!(apart * 4 < together, "{apart} with a channel of its own, {together} without");
}

#[test]
fn tenants_that_cannot_be_are_refused_with_the_key() {
    let cases = [
        ("isolation = { kind = \"vssd\" }", "tenants"),
        ("tenants = [{ name = \"a\", size = \"1 MiB\" }]", "isolation"),
        ("tenants = [{ name = \"a\", size = \"1 GiB\" }]\nisolation = { kind = \"vssd\" }", "tenants"),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }, { name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }",
            "tenants",
        ),
        ("tenants = [{ name = \"a\", size = \"100 KiB\" }]\nisolation = { kind = \"vssd\" }", "tenants"),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"shared-space\", contribution = 1 }",
            "isolation.contribution",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"shared-space\", reserve_min = 0 }",
            "isolation.reserve_min",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }\nmapping = { kind = \"dftl\" }",
            "tenants",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"die\" }\nreclaim_unit = \"superblock\"",
            "isolation",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }\ntenant_gc_threshold = 1",
            "tenant_gc_threshold",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }\ntenant_gc_threshold = 0.1\ngc = { mode = \"foreground\" }",
            "tenant_gc_threshold",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"shared-space\", return_pool_below = 2 }",
            "isolation.return_pool_below",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"shared-space\", return_idle_after = \"0 ns\" }",
            "isolation.return_idle_after",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"shared-space\", return_idle_after = \"1 ms\" }",
            "isolation.return_idle_after",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"die\" }\ntenant_gc_threshold = 0.1",
            "tenant_gc_threshold",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"die\" }\nwear = { across_tenants = true }",
            "wear.across_tenants",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }\nmapping = \"bast\"\ntenant_gc_threshold = 0.1",
            "tenant_gc_threshold",
        ),
        (
            "tenants = [{ name = \"a\", size = \"1 MiB\", weight = 2 }]\nisolation = { kind = \"vssd\" }",
            "tenants",
        ),
        ("mapping = \"bast\"\ntrim_records = 4", "trim_records"),
        ("max_tenants = 2", "max_tenants"),
        ("tenant_gc_threshold = 0.1", "tenant_gc_threshold"),
    ];
    for (text, key) in cases {
        let error = refused(&ssd("slc-2015").blocks(40).pages(32).spare(0.3).with(text));
        assert_eq!(error.key.as_deref(), Some(key), "{text}: {error}");
    }
}

#[test]
fn maps_of_tenants_agree_with_the_model() {
    for kind in &KINDS[1..] {
        for (map, options, rest) in MAPS {
            // 400 and 240 pages of 512 B, whose boundary is within a translation page of 128 entries.
            let drive = ssd("slc-2015").page_size(512).spare(0.65).tenants(&[200 << 10, 120 << 10]);
            let drive =
                drive.with(rest).channels(2).planes(2).blocks(72).pages(8).map(map, options).with(kind);
            for seed in 0..2 {
                if let Err(what) = random_run(&drive, seed, None, 300) {
                    panic!("{kind}{map} {options}: {what}");
                }
            }
        }
    }
}

/// The entries of both lie in one translation page where there are no tenants.
#[test]
fn who_changes_entries_pays_for_writing_them_whoever_sets_it_off() {
    let options = "reclaim_unit = \"superblock\"\nisolation = { kind = \"vssd\" }\nmapping = { kind = \"dftl\", cmt_size = 64 }\n";
    let mut bench = Bench::new(&shared().with(options), None, Precondition::Filled);
    let map =
        |bench: &Bench, tenant: u16| bench.graph().charges(0).get(TenantId(tenant), Resource::Die, Work::Map);
    let ask = |bench: &mut Bench, tenant: u16, op: Op, page: u64| {
        bench.pass(Span(5_000_000));
        bench.asks = usize::from(tenant) - 1;
        bench.issue(op, page * 4, 4, Payload::NONE, Flags::NONE);
    };
    (0..8).for_each(|page| ask(&mut bench, 2, Op::Write, A.0 + page));
    let written = map(&bench, 2);
    let (reads, writes) = (bench.counter("map_pages_read"), bench.counter("map_pages_written"));
    assert_eq!((reads, writes), (8, 0), "eight entries fit");
    // Each read lets one of them go; the first takes all changes of the translation page along.
    (0..8).for_each(|page| ask(&mut bench, 1, Op::Read, B.0 + page));
    assert_eq!(bench.counter("map_pages_written"), 1);
    assert_eq!(map(&bench, 1), written, "eight translation pages read, as the other has");
    assert!(map(&bench, 2) > written, "who wrote pays for the write-back");
    assert!(bench.charges_match("ssd"), "I-13");
    bench.check().unwrap();
}

const DEBT: &str = "reclaim_unit = \"superblock\"\nmax_tenants = 2\nisolation = { kind = \"shared-space\", \
                    contribution = \"3/4\", reserve_min = 1, return_policy = \"on-demand\" }\n";

#[test]
fn a_tenant_goes_or_shrinks_when_all_its_free_units_were_called_back() {
    for seed in 0..8 {
        for deal in [Deal::Remove { number: 2 }, Deal::Resize { number: 2, size: ByteLen(200 << 10) }] {
            let mut bench = Bench::new(&shared().with(DEBT), None, Precondition::Filled);
            bench.forget_media();
            let rng = &mut Rng::new(seed);
            burst(&mut bench, B, 600, rng).expect("it is served");
            for _ in 0..2000 {
                if bench.counter("tenant_1_units_lent_now") == 0 {
                    break;
                }
                burst(&mut bench, A, 1, rng).expect("it is served");
            }
            let _ = bench.deal(deal); // whether it may is told by the drive; it ends
            bench.check().expect("every invariant holds");
        }
    }
}

#[test]
fn a_debtor_pays_when_it_goes() {
    let mut bench = Bench::new(&shared().with(DEBT), None, Precondition::Filled);
    bench.forget_media();
    burst(&mut bench, B, 900, &mut Rng::new(2)).expect("it is served");
    assert!(bench.counter("tenant_1_units_lent_now") > 0);
    bench.deal(Deal::Remove { number: 2 }).expect("it pays first");
    assert_eq!(bench.counter("tenant_1_units_lent_now"), 0);
    bench.check().expect("every invariant holds");
}

#[test]
fn pages_that_move_when_a_tenant_shrinks_are_found_in_a_map_on_the_flash() {
    let drive = ssd("slc-2015").channels(2).planes(2).blocks(96).pages(8).page_size(512).spare(0.65);
    let drive = drive.tenants(&[150 << 10, 150 << 10]).map("dftl", "cmt_size = 64");
    let drive = drive.with("isolation = { kind = \"vssd\" }\nmax_tenants = 2");
    let mut bench = Bench::new(&drive, None, Precondition::Empty);
    let (mut serial, mut newest) = (0, vec![Stamp::ZERO; 300]);
    for page in 0..100 {
        for lpn in [page, 200 + 3 * page % 100, 200 + (3 * page + 1) % 100, 200 + (3 * page + 2) % 100] {
            serial += 1;
            bench.pass(Span(5_000_000));
            newest[lpn as usize] = bench.put(serial, lpn, 1);
        }
    }
    let resized = bench.deal(Deal::Resize { number: 1, size: ByteLen(200 * 512) }).expect("there is room");
    bench.run_until(resized.holds_at);
    for _ in 0..2 {
        bench.check().expect("every invariant holds");
        for lpn in 0..100 {
            assert_eq!(bench.stamps(lpn, 1), [newest[lpn as usize]], "page {lpn}");
        }
        bench.pass(Span(1_000_000_000));
        bench.cut(&mut Rng::new(1));
    }
}

#[test]
fn a_new_tenant_reads_nothing_that_waited_in_the_buffer() {
    let options = "reclaim_unit = \"superblock\"\nisolation = { kind = \"vssd\" }\nmax_tenants = 2\n\
                   write_buffer = { size = \"32 KiB\", dirty_share = 1 }\n";
    let mut bench = Bench::new(&shared().with(options), None, Precondition::Empty);
    bench.put(7, 200, 4);
    bench.deal(Deal::Remove { number: 2 }).expect("it goes");
    bench.deal(Deal::Add { size: ByteLen(240 << 10) }).expect("there is room, at the same moment");
    assert_eq!(bench.stamps(800, 1), [Stamp::ZERO]);
}
