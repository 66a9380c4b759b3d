use super::{FlashConfig, kind};
use crate::nand::Cells;
use nandu_base::{
    Ask, BuildContext, ByteLen, ByteOffset, ChargeTable, Content, Cx, DeviceConfig, Effect, ErrorKind, Flags,
    Instant, Machine, MediumSpec, Op, OpenOptions, Payload, PayloadPool, Peek, Precondition, Report,
    RequestTable, Rng, Sector, Span, Stamp, Step, TenantId,
};
use std::collections::BTreeSet;

/// A leaf with its cells, called by hand.
struct Bench {
    flash: Box<dyn Machine>,
    cells: Cells,
    requests: RequestTable,
    pool: PayloadPool,
    charges: ChargeTable,
    effects: Vec<Effect>,
    now: Instant,
}

fn build(options: &str) -> Result<Box<dyn Machine>, nandu_base::BuildError> {
    let planted = BTreeSet::new();
    let cx = BuildContext {
        name: "flash",
        children: &[],
        seed: 1,
        tenants: 1,
        shares: &[],
        planted: &planted,
        precondition: Precondition::Empty,
    };
    toml::from_str::<FlashConfig>(options).expect("the options parse").machine(&cx)
}

/// Two dies, 4 pages of 4 KiB in a block, 4 blocks on each: units of 8 pages.
const SMALL: &str = "profile = \"mlc-2019\"\ndies = 2\nblocks_per_die = 4\npages_per_block = 4";

impl Bench {
    fn new(options: &str) -> Bench {
        let flash = build(options).expect("the options build");
        let MediumSpec::Flash { units, unit_sectors, units_per_block } = flash.needs().medium else {
            panic!("bare flash has a flash medium")
        };
        Bench {
            flash,
            cells: Cells::new(units, unit_sectors, units_per_block),
            requests: RequestTable::new(),
            pool: PayloadPool::new(Content::Stamps),
            charges: ChargeTable::new(1),
            effects: Vec::new(),
            now: Instant::ZERO,
        }
    }

    fn call(&mut self, event: impl FnOnce(&mut dyn Machine, &mut Cx<'_>) -> Step) -> Step {
        let mut cx = Cx {
            now: self.now,
            requests: &mut self.requests,
            pool: &mut self.pool,
            medium: Some(&mut self.cells),
            charges: &mut self.charges,
            peek: Peek::new(&[], &[], self.now),
            effects: &mut self.effects,
        };
        event(&mut *self.flash, &mut cx)
    }

    fn start_again(&mut self, options: &str) {
        self.flash = build(options).expect("the options build");
        self.call(|m, cx| m.open(OpenOptions::default(), cx));
    }

    /// The end of a request, or why it failed, and what a read found: the serial of each page's first sector.
    fn go(&mut self, op: Op, page: u64, pages: u64, serial: u32) -> (Result<Instant, ErrorKind>, Vec<u32>) {
        let id = self.requests.allocate();
        let len = ByteLen(pages * 4096);
        let payload = match op {
            Op::Read => self.pool.allocate(len),
            _ => Payload::run(Stamp::new(serial, page * 8)),
        };
        let request = &mut self.requests[id];
        (request.op, request.flags, request.payload) = (op, Flags::NONE, payload);
        (request.offset, request.len) = (ByteOffset(page * 4096), len);
        (request.tenant, request.cause) = (TenantId::SYSTEM, TenantId::SYSTEM);
        let step = self.call(|m, cx| m.request(id, cx));
        let at = match step {
            Step::FinishAt(_, at) => at,
            _ => self.now,
        };
        let found = |i: u64| match self.pool.sector(payload, i * 8) {
            Some(Sector::Stamp(stamp)) => stamp.serial(),
            _ => u32::MAX,
        };
        let data = if op == Op::Read { (0..pages).map(found).collect() } else { Vec::new() };
        let result = self.requests[id].error.map_or(Ok(at), |e| Err(e.kind));
        if op == Op::Read {
            self.pool.release(payload);
        }
        self.requests.free(id);
        (result, data)
    }

    fn figure(&mut self, name: &str) -> u64 {
        Report::of(&mut *self.flash, Ask::Counters).counter(name).expect("a counter of the leaf")
    }
}

#[test]
fn pages_are_programmed_in_order_and_once() {
    let mut b = Bench::new(SMALL);
    assert_eq!(b.go(Op::Write, 1, 1, 1).0, Err(ErrorKind::OutOfOrder));
    assert!(b.go(Op::Write, 0, 3, 1).0.is_ok());
    assert_eq!(b.go(Op::Write, 2, 2, 2).0, Err(ErrorKind::NotErased));
    assert_eq!(b.go(Op::Write, 4, 1, 2).0, Err(ErrorKind::OutOfOrder));
    assert!(b.go(Op::Write, 3, 6, 2).0.is_ok(), "a write may go on into the next unit");
    assert_eq!(b.go(Op::Read, 2, 4, 0).1, [1, 2, 2, 2]);
    assert_eq!(b.go(Op::Read, 9, 1, 0).1, [0], "an erased page reads as zeros");
    assert_eq!(b.figure("refused"), 3);
    assert!(b.flash.check().is_ok());
}

#[test]
fn reset_takes_whole_units_and_wears_them() {
    let mut b = Bench::new(&format!("{SMALL}\nendurance = 2\nwears_out = true"));
    b.go(Op::Write, 0, 8, 1).0.expect("a fresh unit");
    assert_eq!(b.go(Op::Reset, 0, 4, 0).0, Err(ErrorKind::BadExtent));
    assert_eq!(b.go(Op::Trim, 0, 8, 0).0, Err(ErrorKind::Unsupported));
    for _ in 0..2 {
        b.go(Op::Reset, 0, 8, 0).0.expect("an erase within the endurance");
        b.go(Op::Write, 0, 1, 2).0.expect("it is erased");
    }
    assert_eq!(b.go(Op::Reset, 0, 8, 0).0, Err(ErrorKind::ReadOnly));
    assert_eq!((b.figure("unit_erases"), b.figure("erases_max"), b.figure("is_worn_out")), (2, 2, 1));
}

#[test]
fn times_are_those_of_dies_and_channel() {
    let mut b = Bench::new(SMALL);
    let transfer = 12_301;
    let (program, read) = (800_000, 60_000);
    // Two pages to two dies: the second waits for the channel only.
    assert_eq!(b.go(Op::Write, 0, 2, 1).0, Ok(Instant(2 * transfer + program)));
    b.now = Instant(10_000_000);
    assert_eq!(b.go(Op::Read, 0, 1, 0).0, Ok(b.now + Span(read + transfer)));
    b.now = Instant(20_000_000);
    assert_eq!(b.go(Op::Reset, 0, 8, 0).0, Ok(b.now + Span::from_us(1500)));
    let busy = Report::of(&mut *b.flash, Ask::Busy).busy;
    assert_eq!(busy[0].1, Span(2 * program + read + 2 * 1_500_000), "both dies erase");
    assert_eq!(busy[1].1, Span(3 * transfer));
    assert_eq!((busy[0].2, busy[1].2), (2, 1));
}

#[test]
fn one_bit_in_a_cell_for_two_halves_a_block() {
    let slc = build(&format!("{SMALL}\nbits_per_cell = 1")).unwrap();
    assert_eq!(slc.limits().erase_unit, Some(ByteLen(2 * 2 * 4096)));
    assert_eq!(slc.limits().capacity.0 * 2, build(SMALL).unwrap().limits().capacity.0);
    let mut b = Bench::new(&format!("{SMALL}\nbits_per_cell = 1"));
    assert_eq!(b.go(Op::Write, 0, 1, 1).0, Ok(Instant(12_301 + 200_000)));
    assert_eq!(b.figure("endurance"), 50_000);
    assert_eq!(
        build(&format!("{SMALL}\nbits_per_cell = 3")).err().expect("two at most").key,
        Some("bits_per_cell")
    );
    assert_eq!(kind().name, "flash");
}

#[test]
fn a_torn_page_is_unreadable_and_what_follows_it_is_known_after_a_start() {
    let seed = 5;
    let mut rng = Rng::new(seed);
    let mut torn = 0;
    for _ in 0..20 {
        let mut b = Bench::new(SMALL);
        let done = b.go(Op::Write, 0, 1, 1).0.expect("a fresh unit");
        b.now = done;
        b.go(Op::Write, 1, 1, 2).0.expect("the next page");
        nandu_base::Medium::crash(&mut b.cells, b.now + Span::from_us(100), &mut rng);
        b.start_again(SMALL);
        assert_eq!(b.go(Op::Read, 0, 1, 0).1, [1], "seed {seed}");
        match b.go(Op::Read, 1, 1, 0) {
            (Err(kind), _) => {
                assert_eq!(kind, ErrorKind::Unreadable);
                torn += 1;
            }
            (Ok(_), data) => assert_eq!(data, [2], "seed {seed}"),
        }
        assert_eq!(b.go(Op::Write, 1, 1, 3).0, Err(ErrorKind::NotErased), "seed {seed}");
        assert!(b.go(Op::Write, 2, 1, 3).0.is_ok(), "seed {seed}");
    }
    assert!((1..20).contains(&torn), "seed {seed}: {torn}");
}

/// Two dies; four blocks with one bit in a cell, then four with two: units of 4 and of 8 pages.
const AREAS: &str = "profile = \"mlc-2019\"\ndies = 2\npages_per_block = 4
areas = [{ name = \"slc\", blocks_per_die = 4, bits_per_cell = 1 }, { name = \"mlc\", blocks_per_die = 4 }]";

#[test]
fn areas_have_erase_units_of_their_own() {
    let limits = build(AREAS).expect("the options build").limits().clone();
    let shown: Vec<_> = limits.areas.iter().map(|a| (a.name.as_str(), a.offset.0, a.len.0)).collect();
    assert_eq!(shown, [("slc", 0, 16 * 4096), ("mlc", 16 * 4096, 32 * 4096)]);
    assert_eq!(limits.areas.iter().map(|a| a.erase_unit.0 / 4096).collect::<Vec<_>>(), [4, 8]);
    assert_eq!((limits.erase_unit, limits.capacity.0), (Some(ByteLen(4 * 4096)), 48 * 4096));
    let mut b = Bench::new(AREAS);
    // The last pages of the one area and the first of the other: two units, both in order.
    assert!(b.go(Op::Write, 12, 7, 9).0.is_ok());
    assert_eq!(b.go(Op::Write, 17, 1, 1).0, Err(ErrorKind::NotErased));
    assert_eq!(b.go(Op::Read, 15, 3, 0).1, [9, 9, 9]);
    assert_eq!(b.go(Op::Reset, 16, 4, 0).0, Err(ErrorKind::BadExtent), "half a unit");
    assert!(b.go(Op::Reset, 12, 12, 0).0.is_ok(), "one unit of each area");
    assert_eq!(b.go(Op::Read, 15, 3, 0).1, [0, 0, 0]);
    let wear = Report::of(&mut *b.flash, Ask::Wear).wear;
    assert_eq!(wear.iter().map(|w| (w.region, w.erases)).collect::<Vec<_>>(), [("slc", 2), ("mlc", 2)]);
    assert_eq!(wear[0].cells, wear[1].cells, "as many cells, of which each holds half");
    assert!(b.flash.check().is_ok());
}

#[test]
fn areas_wait_for_each_other() {
    let mut b = Bench::new(AREAS);
    b.go(Op::Write, 0, 1, 1).0.expect("a fresh unit");
    b.now = Instant(1_000_000);
    let erased = b.go(Op::Reset, 16, 8, 0).0.expect("a whole unit");
    assert_eq!(erased, b.now + Span::from_us(1500));
    assert_eq!(
        b.go(Op::Read, 0, 1, 0).0,
        Ok(erased + Span(25_000 + 12_301)),
        "behind the erase of the other area"
    );
    assert!(b.flash.check().is_ok());
}

#[test]
fn what_is_drawn_is_what_the_dies_did() {
    let mut b = Bench::new(AREAS);
    b.go(Op::Write, 0, 4, 1).0.expect("a fresh unit");
    b.go(Op::Write, 16, 3, 1).0.expect("a fresh unit");
    b.go(Op::Reset, 0, 4, 0).0.expect("a whole unit");
    let ask = Ask::Energy { from: Instant::ZERO, to: Instant(1_000_000_000) };
    let parts = Report::of(&mut *b.flash, ask).energy;
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
    let chip = build(AREAS).expect("the options build");
    let longest = |below: &nandu_base::Limits, area: &str| {
        let planted = BTreeSet::new();
        let cx = BuildContext {
            name: "area",
            children: std::slice::from_ref(below),
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &planted,
            precondition: Precondition::Empty,
        };
        let area: super::flash_area::FlashAreaConfig =
            toml::from_str(&format!("below = \"chip\"\narea = \"{area}\"")).expect("the options parse");
        area.build(&cx).expect("the area is there").limits().max_io.0 / 4096
    };
    let of = |max_io: u64| nandu_base::Limits { max_io: ByteLen(max_io), ..chip.limits().clone() };
    for (most, slc, mlc) in [(64 * 4096, 4, 8), (6 * 4096, 4, 6), (3 * 4096 + 512, 3, 3)] {
        let below = of(most);
        assert_eq!((longest(&below, "slc"), longest(&below, "mlc")), (slc, mlc), "{most}");
    }
}

#[test]
fn areas_are_said_once_and_by_name() {
    let refused = |options: &str| build(options).err().expect("refused").key;
    assert_eq!(refused(&format!("{AREAS}\nbits_per_cell = 1")), Some("bits_per_cell"));
    assert_eq!(refused(&format!("{AREAS}\nblocks_per_die = 4")), Some("blocks_per_die"));
    assert_eq!(refused(&AREAS.replace("\"mlc\", blocks", "\"slc\", blocks")), Some("areas"));
    assert_eq!(refused(&AREAS.replace("bits_per_cell = 1", "bits_per_cell = 3")), Some("bits_per_cell"));
}
