use super::{FlashConfig, kind};
use crate::nand::Cells;
use nandu_base::{
    Ask, BuildContext, BuildError, ByteLen, DeviceConfig, ErrorKind, Flags, Instant, Limits, Machine,
    MediumSpec, Op, Payload, Precondition, Rng, Span, Stamp,
};
use nandu_graph::testkit::{Bed, Machines};
use std::collections::BTreeSet;

fn build_on<C: DeviceConfig>(below: &[Limits], config: C) -> Result<Box<dyn Machine>, BuildError> {
    config.build(&BuildContext {
        name: "flash",
        children: below,
        seed: 1,
        tenants: 1,
        shares: &[],
        planted: &BTreeSet::new(),
        precondition: Precondition::Empty,
    })
}

fn build(options: &str) -> Result<Box<dyn Machine>, BuildError> {
    build_on(&[], toml::from_str::<FlashConfig>(options).expect("the options parse"))
}

/// Two dies, 4 pages of 4 KiB in a block, 4 blocks on each: units of 8 pages.
const SMALL: &str = "profile = \"mlc-2019\"\ndies = 2\nblocks_per_die = 4\npages_per_block = 4";

/// A leaf with its cells.
fn flash(options: &str) -> Bed {
    let options = options.to_string();
    let build = move |_| {
        let machine = build(&options)?;
        let MediumSpec::Flash { units, unit_sectors, units_per_block, .. } = machine.needs().medium else {
            panic!("bare flash has a flash medium")
        };
        let cells = Cells::new(units, unit_sectors, units_per_block);
        Ok::<_, BuildError>(Machines::leaf("flash", machine, Some(Box::new(cells)), 1))
    };
    Bed::new(1, build).expect("the options build")
}

/// The end of a request, or why it failed, and what a read found: the serial of each page's first sector.
fn go(bed: &mut Bed, op: Op, page: u64, pages: u64, serial: u32) -> (Result<Instant, ErrorKind>, Vec<u32>) {
    let payload = if op == Op::Write { Payload::run(Stamp::new(serial, page * 8)) } else { Payload::NONE };
    let done = bed.foretell(0, op, Flags::NONE, page * 4096, pages * 4096, payload);
    let found = done.data.iter().step_by(8).map(|stamp| stamp.serial()).collect();
    (done.error.map_or(Ok(done.at), |error| Err(error.kind)), found)
}

#[test]
fn pages_are_programmed_in_order_and_once() {
    let mut b = flash(SMALL);
    assert_eq!(go(&mut b, Op::Write, 1, 1, 1).0, Err(ErrorKind::OutOfOrder));
    assert!(go(&mut b, Op::Write, 0, 3, 1).0.is_ok());
    assert_eq!(go(&mut b, Op::Write, 2, 2, 2).0, Err(ErrorKind::NotErased));
    assert_eq!(go(&mut b, Op::Write, 4, 1, 2).0, Err(ErrorKind::OutOfOrder));
    assert!(go(&mut b, Op::Write, 3, 6, 2).0.is_ok(), "a write may go on into the next unit");
    assert_eq!(go(&mut b, Op::Read, 2, 4, 0).1, [1, 2, 2, 2]);
    assert_eq!(go(&mut b, Op::Read, 9, 1, 0).1, [0], "an erased page reads as zeros");
    assert_eq!(b.counter("flash", "refused"), 3);
    assert!(b.check().is_ok());
}

#[test]
fn reset_takes_whole_units_and_wears_them() {
    let mut b = flash(&format!("{SMALL}\nendurance = 2\nwears_out = true"));
    go(&mut b, Op::Write, 0, 8, 1).0.expect("a fresh unit");
    assert_eq!(go(&mut b, Op::Reset, 0, 4, 0).0, Err(ErrorKind::BadExtent));
    assert_eq!(go(&mut b, Op::Trim, 0, 8, 0).0, Err(ErrorKind::Unsupported));
    for _ in 0..2 {
        go(&mut b, Op::Reset, 0, 8, 0).0.expect("an erase within the endurance");
        go(&mut b, Op::Write, 0, 1, 2).0.expect("it is erased");
    }
    assert_eq!(go(&mut b, Op::Reset, 0, 8, 0).0, Err(ErrorKind::ReadOnly));
    assert_eq!(
        (
            b.counter("flash", "unit_erases"),
            b.counter("flash", "erases_max"),
            b.counter("flash", "is_worn_out")
        ),
        (2, 2, 1)
    );
}

#[test]
fn times_are_those_of_dies_and_channel() {
    let mut b = flash(SMALL);
    let transfer = 12_301;
    let (program, read) = (800_000, 60_000);
    // Two pages to two dies: the second waits for the channel only.
    assert_eq!(go(&mut b, Op::Write, 0, 2, 1).0, Ok(Instant(2 * transfer + program)));
    b.run_until(Instant(10_000_000));
    assert_eq!(go(&mut b, Op::Read, 0, 1, 0).0, Ok(b.now() + Span(read + transfer)));
    b.run_until(Instant(20_000_000));
    assert_eq!(go(&mut b, Op::Reset, 0, 8, 0).0, Ok(b.now() + Span::from_us(1500)));
    let busy = b.report("flash", Ask::Busy).busy;
    assert_eq!(busy[0].1, Span(2 * program + read + 2 * 1_500_000), "both dies erase");
    assert_eq!(busy[1].1, Span(3 * transfer));
    assert_eq!((busy[0].2, busy[1].2), (2, 1));
}

#[test]
fn one_bit_in_a_cell_for_two_halves_a_block() {
    let slc = build(&format!("{SMALL}\nbits_per_cell = 1")).unwrap();
    assert_eq!(slc.limits().erase_unit, Some(ByteLen(2 * 2 * 4096)));
    assert_eq!(slc.limits().capacity.0 * 2, build(SMALL).unwrap().limits().capacity.0);
    let mut b = flash(&format!("{SMALL}\nbits_per_cell = 1"));
    assert_eq!(go(&mut b, Op::Write, 0, 1, 1).0, Ok(Instant(12_301 + 200_000)));
    assert_eq!(b.counter("flash", "endurance"), 50_000);
    assert_eq!(
        build(&format!("{SMALL}\nbits_per_cell = 3")).err().expect("two at most").key,
        Some("bits_per_cell".into())
    );
    assert_eq!(kind().name, "flash");
}

#[test]
fn a_torn_page_is_unreadable_and_what_follows_it_is_known_after_a_start() {
    let seed = 5;
    let mut rng = Rng::new(seed);
    let mut torn = 0;
    for _ in 0..20 {
        let mut b = flash(SMALL);
        let done = go(&mut b, Op::Write, 0, 1, 1).0.expect("a fresh unit");
        b.run_until(done);
        go(&mut b, Op::Write, 1, 1, 2).0.expect("the next page");
        b.pass(Span::from_us(100));
        b.cut(&mut rng);
        assert_eq!(go(&mut b, Op::Read, 0, 1, 0).1, [1], "seed {seed}");
        match go(&mut b, Op::Read, 1, 1, 0) {
            (Err(kind), _) => {
                assert_eq!(kind, ErrorKind::Unreadable);
                torn += 1;
            }
            (Ok(_), data) => assert_eq!(data, [2], "seed {seed}"),
        }
        assert_eq!(go(&mut b, Op::Write, 1, 1, 3).0, Err(ErrorKind::NotErased), "seed {seed}");
        assert!(go(&mut b, Op::Write, 2, 1, 3).0.is_ok(), "seed {seed}");
    }
    assert!((1..20).contains(&torn), "seed {seed}: {torn}");
}

/// Two dies; four blocks with one bit in a cell, then four with two: units of 4 and of 8 pages.
fn areas(bits: u32, second: &str) -> String {
    format!(
        "profile = \"mlc-2019\"\ndies = 2\npages_per_block = 4\n\
         areas = [{{ name = \"slc\", blocks_per_die = 4, bits_per_cell = {bits} }}, {{ name = {second:?}, blocks_per_die = 4 }}]"
    )
}

fn slc_and_mlc() -> String {
    areas(1, "mlc")
}

#[test]
fn areas_have_erase_units_of_their_own() {
    let limits = build(&slc_and_mlc()).expect("the options build").limits().clone();
    let shown: Vec<_> = limits.areas.iter().map(|a| (a.name.as_str(), a.offset.0, a.len.0)).collect();
    assert_eq!(shown, [("slc", 0, 16 * 4096), ("mlc", 16 * 4096, 32 * 4096)]);
    assert_eq!(limits.areas.iter().map(|a| a.erase_unit.0 / 4096).collect::<Vec<_>>(), [4, 8]);
    assert_eq!((limits.erase_unit, limits.capacity.0), (Some(ByteLen(4 * 4096)), 48 * 4096));
    let mut b = flash(&slc_and_mlc());
    // The last pages of the one area and the first of the other: two units, both in order.
    assert!(go(&mut b, Op::Write, 12, 7, 9).0.is_ok());
    assert_eq!(go(&mut b, Op::Write, 17, 1, 1).0, Err(ErrorKind::NotErased));
    assert_eq!(go(&mut b, Op::Read, 15, 3, 0).1, [9, 9, 9]);
    assert_eq!(go(&mut b, Op::Reset, 16, 4, 0).0, Err(ErrorKind::BadExtent), "half a unit");
    assert!(go(&mut b, Op::Reset, 12, 12, 0).0.is_ok(), "one unit of each area");
    assert_eq!(go(&mut b, Op::Read, 15, 3, 0).1, [0, 0, 0]);
    let wear = b.report("flash", Ask::Wear).wear;
    assert_eq!(wear.iter().map(|w| (w.region, w.erases)).collect::<Vec<_>>(), [("slc", 2), ("mlc", 2)]);
    assert_eq!(wear[0].cells, wear[1].cells, "as many cells, of which each holds half");
    assert!(b.check().is_ok());
}

#[test]
fn areas_wait_for_each_other() {
    let mut b = flash(&slc_and_mlc());
    go(&mut b, Op::Write, 0, 1, 1).0.expect("a fresh unit");
    b.run_until(Instant(1_000_000));
    let erased = go(&mut b, Op::Reset, 16, 8, 0).0.expect("a whole unit");
    assert_eq!(erased, b.now() + Span::from_us(1500));
    assert_eq!(
        go(&mut b, Op::Read, 0, 1, 0).0,
        Ok(erased + Span(25_000 + 12_301)),
        "behind the erase of the other area"
    );
    assert!(b.check().is_ok());
}

#[test]
fn what_is_drawn_is_what_the_dies_did() {
    let mut b = flash(&slc_and_mlc());
    go(&mut b, Op::Write, 0, 4, 1).0.expect("a fresh unit");
    go(&mut b, Op::Write, 16, 3, 1).0.expect("a fresh unit");
    go(&mut b, Op::Reset, 0, 4, 0).0.expect("a whole unit");
    let ask = Ask::Energy { from: Instant::ZERO, to: Instant(1_000_000_000) };
    let parts = b.report("flash", ask).energy;
    let time = |state: &str| parts.iter().filter(|p| p.state == state).map(|p| p.time_ns).sum::<u128>();
    assert_eq!(time("slc program"), 4 * 200_000);
    assert_eq!(time("mlc program"), 3 * 800_000);
    assert_eq!(time("slc erase"), 2 * 1_500_000, "a block of each die");
    let all: u128 = parts.iter().filter(|p| p.state != "transfer").map(|p| p.time_ns).sum();
    assert_eq!(all, 2 * 1_000_000_000, "the states of both dies add up to the time");
    assert!(parts.iter().all(nandu_base::EnergyPart::is_sound));
}

/// A request of an area is no longer than its erase unit, whole blocks of the chip, and than what the chip takes.
#[test]
fn an_area_takes_requests_of_one_of_its_units() {
    let chip = build(&slc_and_mlc()).expect("the options build");
    let longest = |below: &Limits, area: &str| {
        let area: super::flash_area::FlashAreaConfig =
            toml::from_str(&format!("below = \"chip\"\narea = \"{area}\"")).expect("the options parse");
        build_on(std::slice::from_ref(below), area).expect("the area is there").limits().max_io.0 / 4096
    };
    let of = |max_io: u64| Limits { max_io: ByteLen(max_io), ..chip.limits().clone() };
    for (most, slc, mlc) in [(64 * 4096, 4, 8), (6 * 4096, 4, 6), (3 * 4096 + 512, 3, 3)] {
        let below = of(most);
        assert_eq!((longest(&below, "slc"), longest(&below, "mlc")), (slc, mlc), "{most}");
    }
}

#[test]
fn areas_are_said_once_and_by_name() {
    let refused = |options: &str| build(options).err().expect("refused").key;
    assert_eq!(refused(&(slc_and_mlc() + "\nbits_per_cell = 1")), Some("bits_per_cell".into()));
    assert_eq!(refused(&(slc_and_mlc() + "\nblocks_per_die = 4")), Some("blocks_per_die".into()));
    assert_eq!(refused(&areas(1, "slc")), Some("areas".into()));
    assert_eq!(refused(&areas(3, "mlc")), Some("bits_per_cell".into()));
}
