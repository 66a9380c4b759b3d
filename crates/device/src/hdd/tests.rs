use super::*;
use nandu_base::{
    Ask, ChargeTable, Content, Effect, Medium, Owner, Payload, PayloadPool, Phase, Precondition,
    RequestTable, Sector, Stamp, TenantId, Work,
};
use std::collections::BTreeSet;

/// A disk that stores stamps, and its driver.
struct Bench {
    machine: Box<dyn Machine>,
    medium: Box<dyn Medium>,
    requests: RequestTable,
    pool: PayloadPool,
    charges: ChargeTable,
    effects: Vec<Effect>,
    now: Instant,
    serial: u32,
}

/// What came of a request.
struct Ended {
    took: Span,
    phases: Vec<(Phase, Span)>,
    serials: Vec<u32>,
}

impl Bench {
    fn new(options: &str) -> Bench {
        let planted = BTreeSet::new();
        let cx = BuildContext {
            name: "disk",
            children: &[],
            seed: 1,
            tenants: 2,
            shares: &[],
            planted: &planted,
            precondition: Precondition::Empty,
        };
        let text = format!("profile = \"desktop-2010\"\n{options}");
        let config = (kind().parse)(text.parse().expect("TOML")).expect("options");
        let machine = config.build(&cx).expect("a drive");
        let MediumSpec::Platter { sectors } = machine.needs().medium else { panic!("a disk has platters") };
        Bench {
            machine,
            medium: Box::new(Platter::new(sectors)),
            requests: RequestTable::new(),
            pool: PayloadPool::new(Content::Stamps),
            charges: ChargeTable::new(2),
            effects: Vec::new(),
            now: Instant::ZERO,
            serial: 0,
        }
    }

    /// One request from start to end.
    fn ask(&mut self, op: Op, flags: Flags, first: u64, count: u64) -> Ended {
        self.serial += 1;
        let payload = match op {
            Op::Read => self.pool.allocate(ByteLen(count * SECTOR)),
            Op::Write => Payload::run(Stamp::new(self.serial, first)),
            _ => Payload::NONE,
        };
        let id = self.requests.allocate();
        let request = &mut self.requests[id];
        (request.offset, request.len) = (ByteOffset(first * SECTOR), ByteLen(count * SECTOR));
        (request.arrival, request.submitted, request.entered) = (self.now, self.now, self.now);
        (request.op, request.flags, request.payload) = (op, flags, payload);
        (request.tenant, request.cause, request.owner) = (TenantId(1), TenantId(1), Owner::HOST);
        let mut cx = Cx {
            now: self.now,
            requests: &mut self.requests,
            pool: &mut self.pool,
            medium: Some(&mut *self.medium),
            charges: &mut self.charges,
            peek: Peek::new(&[], &[], self.now),
            effects: &mut self.effects,
        };
        let Step::FinishAt(ended, at) = self.machine.request(id, &mut cx) else { panic!("an end is named") };
        assert_eq!(ended, id);
        self.machine.check().unwrap();
        let busy = Report::of(&mut *self.machine, Ask::Busy).busy;
        assert_eq!(busy, [(Resource::Head, self.charges.busy(Resource::Head), 1)]);
        let took = at.since(self.now);
        let path = self.requests[id].path;
        assert_eq!(path.total(), took, "the path explains the latency");
        let phases = Phase::ALL.into_iter().map(|p| (p, path.get(p))).filter(|p| p.1 > Span::ZERO).collect();
        let serial = |i| match self.pool.sector(payload, i) {
            Some(Sector::Stamp(stamp)) => stamp.serial(),
            _ => 0,
        };
        let serials = if op == Op::Read { (0..count).map(serial).collect() } else { Vec::new() };
        self.pool.release(payload);
        self.requests.free(id);
        self.now = at;
        Ended { took, phases, serials }
    }

    fn read(&mut self, first: u64, count: u64) -> Ended {
        self.ask(Op::Read, Flags::NONE, first, count)
    }

    fn write(&mut self, first: u64, count: u64) -> Ended {
        self.ask(Op::Write, Flags::NONE, first, count)
    }

    fn counter(&mut self, name: &str) -> u64 {
        Report::of(&mut *self.machine, Ask::Counters).counter(name).expect("there is such a counter")
    }
}

#[test]
fn a_read_after_a_read_finds_what_was_read_ahead() {
    let mut b = Bench::new("");
    let first = b.read(1_000_000, 8);
    assert!(first.phases.iter().any(|p| p.0 == Phase::Seek), "{:?}", first.phases);
    b.now += Span::from_ms(20);
    let second = b.read(1_000_008, 64);
    assert!(second.took < Span::from_us(400), "{}", second.took);
    assert_eq!(second.phases.iter().map(|p| p.0).collect::<Vec<_>>(), [Phase::Bus]);
    assert_eq!((b.counter("host_reads"), b.counter("read_hits")), (2, 1));
    // Nothing was read ahead of it.
    let far = b.read(900_000_000, 8);
    assert!(far.took > Span::from_ms(3));
}

#[test]
fn a_sequential_read_loses_no_revolution_to_the_requests_it_is_made_of() {
    let mut b = Bench::new("");
    b.read(0, 256);
    let start = b.now;
    for at in 1..400 {
        b.read(at * 256, 256);
    }
    let rate = 399 * 256 * SECTOR * 1000 / (b.now.since(start).0 / 1_000_000);
    // 125 MB/s at the outer edge, less what skew costs.
    assert!((105_000_000..125_500_000).contains(&rate), "{rate} B/s");
}

#[test]
fn a_cached_write_is_quick_and_a_flush_waits_for_it() {
    let mut b = Bench::new("");
    let write = b.write(500_000_000, 8);
    assert!(write.took < Span::from_us(400), "{}", write.took);
    let flush = b.ask(Op::Flush, Flags::NONE, 0, 0);
    assert!(flush.took > Span::from_ms(3), "{}", flush.took);
    assert!(b.ask(Op::Flush, Flags::NONE, 0, 0).took < Span::from_us(400));
    let forced = b.ask(Op::Write, Flags::FUA, 100_000, 8);
    assert!(forced.took > Span::from_ms(2), "{}", forced.took);
    assert_eq!((b.counter("writes_cached"), b.counter("destages")), (1, 1));
    let mut b = Bench::new("write_cache = false");
    assert!(b.write(500_000_000, 8).took > Span::from_ms(3));
}

#[test]
fn a_full_cache_makes_a_write_wait() {
    let mut b = Bench::new("write_cache_commands = 4");
    // The first is on its way to the disk when the others come.
    for at in 0..5 {
        assert!(b.write(at * 100_000_000, 8).took < Span::from_us(400));
    }
    let sixth = b.write(500_000_000, 8);
    assert!(sixth.took > Span::from_ms(3), "{}", sixth.took);
    assert!(sixth.phases.iter().any(|p| p.0 == Phase::Queue));
    assert_eq!(b.counter("destages"), 2);
}

#[test]
fn what_is_read_is_what_was_written_last() {
    for seed in 0..60 {
        let mut rng = nandu_base::Rng::new(seed);
        let mut b = Bench::new(
            "cache_segments = 3\ncache_segment_size = \"8 KiB\"\nwrite_cache_commands = 6\ncapacity = \"1 MiB\"",
        );
        let mut plain = vec![0u32; 2048];
        for turn in 0..300 {
            let (first, count) = (rng.below(90), rng.between(1, 24));
            let flags = if rng.below(4) == 0 { Flags::FUA } else { Flags::NONE };
            let range = first as usize..(first + count) as usize;
            match rng.below(6) {
                0 | 1 => {
                    b.ask(Op::Write, flags, first, count);
                    plain[range].fill(b.serial);
                }
                2 if turn % 3 == 0 => {
                    b.ask(Op::Trim, flags, first, count);
                    plain[range].fill(0);
                }
                3 => drop(b.ask(Op::Flush, Flags::NONE, 0, 0)),
                _ => assert_eq!(b.read(first, count).serials, plain[range], "seed {seed}, turn {turn}"),
            }
            if rng.below(3) == 0 {
                b.now += Span(rng.below(40_000_000));
            }
        }
    }
}

#[test]
fn a_disk_that_stood_still_starts_first() {
    let mut b = Bench::new("spin_down = \"5 s\"");
    b.read(1_000_000, 8);
    b.now += Span::from_secs(60);
    let read = b.read(700_000_000, 8);
    assert!(read.phases.contains(&(Phase::SpinUp, Span::from_secs(8))), "{:?}", read.phases);
    assert_eq!(b.counter("spin_ups"), 1);
    assert!(b.counter("standby_ns").abs_diff(53_000_000_000) < 20_000_000);
}

#[test]
fn a_write_is_charged_to_its_tenant_when_it_goes_to_the_disk() {
    let mut b = Bench::new("");
    b.write(500_000_000, 8);
    assert_eq!(b.charges.busy(Resource::Head), Span::ZERO);
    b.ask(Op::Flush, Flags::NONE, 0, 0);
    assert!(b.charges.get(TenantId(1), Resource::Head, Work::Write) > Span::from_ms(3));
}

#[test]
fn a_trim_of_the_whole_disk_takes_as_long_as_writing_it() {
    let mut b = Bench::new("capacity = \"1 GiB\"");
    let trim = b.ask(Op::Trim, Flags::NONE, 0, (1 << 30) / SECTOR);
    let rate = (1u64 << 30) * 1000 / (trim.took.0 / 1_000_000);
    assert!((100_000_000..125_500_000).contains(&rate), "{rate} B/s");
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let key = |options: &str| {
        let planted = BTreeSet::new();
        let cx = BuildContext {
            name: "disk",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &planted,
            precondition: Precondition::Empty,
        };
        let config = (kind().parse)(options.parse().expect("TOML")).expect("options");
        config.machine(&cx).err().expect("it is refused").key
    };
    assert_eq!(key(""), Some("profile"));
    assert_eq!(key("profile = \"desktop-2011\""), Some("profile"));
    assert_eq!(key("profile = \"desktop-2010\"\ndisksim = \"x.parv\""), Some("profile"));
    assert_eq!(key("disksim = \"no-such.parv\""), Some("disksim"));
    assert_eq!(key("profile = \"desktop-2010\"\ncapacity = \"2 TB\""), Some("capacity"));
    assert_eq!(key("profile = \"desktop-2010\"\nqueue_depth = 0"), Some("queue_depth"));
    assert_eq!(key("profile = \"desktop-2010\"\ncache_segments = 0"), Some("cache_segments"));
    assert_eq!(
        key("profile = \"desktop-2010\"\nspin_down_adaptive = { min = \"1 s\", max = \"9 s\" }"),
        Some("spin_down_adaptive")
    );
}
