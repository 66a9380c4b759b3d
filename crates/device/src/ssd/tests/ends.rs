//! Tenants and wear: whose end it is, how alike their units wear, and drives with tenants that begin aged or fragmented.

use super::tenants::{A, B, burst, shared, superblocks};
use super::*;
use nandu_base::Ratio;

/// Writes pages of a range at random until the drive refuses one; the newest version of each page.
fn wear_out(bench: &mut Bench, (first, end): (u64, u64), newest: &mut [Stamp], rng: &mut Rng) -> u64 {
    for serial in 1..400_000 {
        let page = rng.between(first, end - 1);
        let stamp = Stamp::new(serial, page * 4);
        bench.pass(Span(20_000_000));
        match bench.try_issue(Op::Write, page * 4, 4, Payload::run(stamp), Flags::NONE) {
            Ok(_) => {
                newest[page as usize] = stamp;
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::ReadOnly);
                return u64::from(serial) - 1;
            }
        }
        if serial % 512 == 0 {
            bench.check().unwrap();
        }
    }
    panic!("it does not wear out");
}

fn writes(bench: &mut Bench, page: u64) -> bool {
    bench.pass(Span(20_000_000));
    let answer = bench.try_issue(Op::Write, page * 4, 4, Payload::run(Stamp::new(1, page * 4)), Flags::NONE);
    answer.is_ok()
}

fn keeps(bench: &mut Bench, newest: &[Stamp], rng: &mut Rng) {
    bench.check().unwrap();
    for _ in 0..2 {
        for (page, &stamp) in (0..).zip(newest) {
            assert_eq!(bench.stamps(page * 4, 1)[0], stamp, "page {page}");
        }
        bench.pass(Span(1_000_000_000));
        bench.cut(rng);
        bench.check().unwrap();
    }
}

#[test]
fn units_end_where_most_can_be_spared_and_the_end_is_everybodys() {
    for isolation in [
        "isolation = { kind = \"vssd\" }",
        "isolation = { kind = \"ops\" }",
        "isolation = { kind = \"shared-space\", contribution = \"1/2\", reserve_min = 1 }",
        "isolation = { kind = \"shared-space\", contribution = \"1/2\", reserve_min = 1, return_policy = \"on-demand\" }",
    ] {
        let drive = superblocks()
            .with(isolation)
            .with("wear = { endurance = 20, endurance_variation = 0.2, static_wl_threshold = 2 }");
        let mut bench = Bench::new(&drive, None, Precondition::Empty);
        let (rng, mut newest) = (&mut Rng::new(4), vec![Stamp::ZERO; 320]);
        let written = wear_out(&mut bench, B, &mut newest, rng);
        let bad = bench.counter("bad_blocks");
        println!("{isolation}: {bad} units of 100 end before the drive, after {written} pages");
        assert!(bad > 20, "{isolation}: {bad} units were spared");
        assert_eq!(bench.counter("is_worn_out"), 1);
        assert!(!writes(&mut bench, A.0), "all have worn the same units");
        keeps(&mut bench, &newest, rng);
    }
}

#[test]
fn with_dies_of_its_own_a_tenant_ends_alone() {
    let drive = shared().pages(8).tenants(&[1600 << 10, 960 << 10]);
    for own in ["kind = \"channel\"", "kind = \"die\""] {
        let drive = drive.clone().with(format_args!(
            "isolation = {{ {own} }}\nwear = {{ endurance = 12, endurance_variation = 0.2 }}"
        ));
        let mut bench = Bench::new(&drive, None, Precondition::Empty);
        let (rng, mut newest) = (&mut Rng::new(4), vec![Stamp::ZERO; 1280]);
        wear_out(&mut bench, (800, 1280), &mut newest, rng);
        assert!(!writes(&mut bench, 800) && writes(&mut bench, 0), "{own}: the other goes on");
        newest[0] = Stamp::new(1, 0);
        keeps(&mut bench, &newest, rng);
    }
}

/// Erases of the most and of the least worn unit after one tenant has written long and the other nothing, and pages of that one moved.
fn spread(spread: u32, across: bool) -> (u64, u64, u64) {
    let wear = format!(
        "wear = {{ static_wl_threshold = {spread}, static_wl_interval = 4, across_tenants = {across} }}\n"
    );
    let drive = superblocks().with("isolation = { kind = \"vssd\" }").with(wear);
    let mut bench = Bench::new(&drive, None, Precondition::Filled);
    bench.forget_media();
    burst(&mut bench, B, 40_000, &mut Rng::new(7)).unwrap();
    assert!(bench.charges_match("ssd"), "I-13");
    let names = ["erase_count_max", "erase_count_min", "tenant_1_gc_pages_moved"];
    let [most, least, others] = names.map(|name| bench.counter(name));
    (most, least, others)
}

#[test]
fn units_go_round_among_tenants_and_cold_data_joins_when_it_may() {
    for erases in [20, 40] {
        let [own, across] = [false, true].map(|across| spread(erases, across));
        println!("spread {erases}: own {own:?}, across {across:?} (most, least, pages of the other moved)");
        assert_eq!((own.1, own.2), (0, 0), "who writes nothing keeps its units");
        assert!(across.2 > 0 && across.0 < own.0, "{own:?} {across:?}");
        assert!(across.0 - across.1 <= u64::from(erases) * 5 / 4, "{across:?}");
    }
}

#[test]
fn tenants_begin_aged_in_units_of_their_own() {
    let drive = superblocks().with("isolation = { kind = \"vssd\" }");
    let moves = |precondition, tenant: (u64, u64), name| {
        let mut bench = Bench::new(&drive, None, precondition);
        bench.check().unwrap();
        burst(&mut bench, tenant, 64, &mut Rng::new(3)).unwrap();
        bench.counter(name)
    };
    for (tenant, name) in [(A, "tenant_1_gc_pages_moved"), (B, "tenant_2_gc_pages_moved")] {
        assert_eq!(moves(Precondition::Filled, tenant, name), 0, "a new drive has erased units");
        assert!(moves(Precondition::Aged, tenant, name) > 10, "an aged one collects at once");
    }
    let broken = Precondition::Fragmented(Ratio::new(1, 1));
    let mut bench = Bench::new(&drive, None, broken);
    bench.check().unwrap();
    let rng = &mut Rng::new(1);
    bench.cut(rng);
    bench.check().unwrap();
}

#[test]
fn bad_blocks_of_a_log_block_map_are_counted_after_a_start() {
    let mut seen = 0;
    for serial in 0..4 {
        let wear = format!("wear = {{ factory_bad = \"1/10\", serial = {serial}, endurance = 6 }}");
        let drive = ssd("slc-2015").blocks(40).pages(4).spare(0.4).map("bast", "log_blocks = 2").with(wear);
        let mut bench = Bench::new(&drive, None, Precondition::Empty);
        if bench.counter("bad_blocks") == 0 {
            continue;
        }
        seen += 1;
        let (rng, mut newest) = (&mut Rng::new(4), vec![Stamp::ZERO; 96]);
        bench.cut(rng);
        wear_out(&mut bench, (0, 96), &mut newest, rng);
        assert_eq!(bench.counter("bad_blocks"), 40 - 24 - 3, "serial {serial}");
        keeps(&mut bench, &newest, rng);
    }
    assert!(seen > 0, "some drive has bad blocks from the factory");
}
