//! The drive against an obvious model: a list of what each sector may hold.

use super::*;
use crate::nand::Cells;
use nandu_base::{
    Ask, ChargeTable, Content, Deal, DealError, Dealt, DeviceConfig, Draft, Effect, Flags, Instant, IoError,
    Medium, Owner, Payload, PayloadPool, Precondition, RequestTable, Rng, SECTOR, Sector, Stamp, State,
    TenantId,
};
use std::collections::BTreeSet;

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

/// A drive by itself, driven by hand.
struct Bench {
    machine: Box<dyn Machine>,
    cells: Option<Box<dyn Medium>>,
    requests: RequestTable,
    pool: PayloadPool,
    charges: ChargeTable,
    now: Instant,
    /// Who asks.
    asks: TenantId,
    /// When each timer of the drive fires.
    timers: std::collections::BTreeMap<u32, Instant>,
    /// Ends that the drive told by itself.
    ends: std::collections::BTreeMap<u32, Instant>,
    plants: BTreeSet<String>,
    toml: String,
}

fn build(toml: &str, plants: &BTreeSet<String>, precondition: Precondition) -> Box<dyn Machine> {
    let config: SsdConfig = toml::from_str(toml).expect("the test's options parse");
    let cx = BuildContext {
        name: "ssd",
        children: &[],
        seed: 1,
        tenants: 2,
        shares: &[],
        planted: plants,
        precondition,
    };
    config.build(&cx).expect("the test's drive can be built")
}

const TINY: &str = "profile = \"slc-2015\"\nchannels = 2\nplanes_per_die = 2\nblocks_per_plane = 12\npages_per_block = 8\n\
                    spare_factor = 0.7\n";

/// Six translation pages of 128 entries.
const PAGED: &str = "profile = \"slc-2015\"\nchannels = 2\nplanes_per_die = 2\nblocks_per_plane = 24\npages_per_block = 16\n\
                     page_size = \"512 B\"\nspare_factor = 0.5\n";

/// Each demand-paged map with a cache that is far too small.
const MAPS: [&str; 8] = [
    "mapping = { kind = \"dftl\", cmt_size = 64 }\n",
    "mapping = { kind = \"tpc-ftl\", cmt_size = 1048, delayed_read = false, clean_first_window = 1, gc_batch = 5, data_program = \"at-once\" }\n",
    "mapping = { kind = \"tpc-ftl\", cmt_size = 1048 }\n",
    "mapping = { kind = \"tpc-ftl\", cmt_size = 1600, invalidation = \"at-read\", eviction_write = \"async\" }\n",
    "mapping = { kind = \"cftl\", cmt_size = 100 }\n",
    "mapping = { kind = \"tpftl\", cmt_size = 90, data_program = \"at-once\" }\n",
    // One plane: runs and blocks occur.
    "mapping = { kind = \"cftl\", cmt_size = 100, gc_batch = 7 }\ngc = { kind = \"greedy\", threshold = 2 }\n",
    // Blocks that are read a little are gathered; parts of pages cost nothing more.
    "mapping = { kind = \"cftl\", cmt_size = 100, switching = { kind = \"by-access\", reads = 1, writes = 2, pages = 2 } }\n\
     partial_write = \"uncharged\"\n",
];

fn paged(map: usize) -> String {
    let toml = format!("{PAGED}{}", MAPS[map]);
    if map == 6 {
        return toml.replace(
            "channels = 2\nplanes_per_die = 2\nblocks_per_plane = 24",
            "channels = 1\nplanes_per_die = 1\nblocks_per_plane = 96",
        );
    }
    toml
}

impl Bench {
    fn new(toml: &str, plant: Option<&str>, precondition: Precondition) -> Bench {
        let plants: BTreeSet<String> = plant.into_iter().map(String::from).collect();
        let machine = build(toml, &plants, precondition);
        let MediumSpec::Flash { units, unit_sectors, units_per_block } = machine.needs().medium else {
            unreachable!()
        };
        let cells: Box<dyn Medium> = Box::new(Cells::new(units, unit_sectors, units_per_block));
        let mut bench = Bench {
            machine,
            cells: Some(cells),
            requests: RequestTable::new(),
            pool: PayloadPool::new(Content::Stamps),
            charges: ChargeTable::new(3),
            now: Instant::ZERO,
            asks: TenantId(1),
            timers: Default::default(),
            ends: Default::default(),
            plants,
            toml: toml.into(),
        };
        bench.open(true);
        bench
    }

    fn call<R>(&mut self, event: impl FnOnce(&mut dyn Machine, &mut Cx<'_>) -> R) -> (R, Vec<Effect>) {
        let mut effects = Vec::new();
        let mut cx = Cx {
            now: self.now,
            requests: &mut self.requests,
            pool: &mut self.pool,
            medium: self.cells.as_deref_mut(),
            charges: &mut self.charges,
            peek: Peek::new(&[], &[], self.now),
            effects: &mut effects,
        };
        let result = event(&mut *self.machine, &mut cx);
        for effect in &effects {
            match *effect {
                // The executor's, one for each die where those have turns of their own; others are fired by the tests that are about them.
                Effect::Wake(TimerKey(key), at)
                    if key == 1 || key > 1 && self.toml.contains("out-of-order") =>
                {
                    self.timers.insert(key, at);
                }
                Effect::Step(Step::FinishAt(id, at)) => drop(self.ends.insert(id.0, at)),
                _ => {}
            }
        }
        (result, effects)
    }

    /// Fires the timer of the drive that is due first, if it is by `until`; the bench goes on at that time.
    fn fire(&mut self, until: Instant) -> bool {
        let Some((&key, &at)) = self.timers.iter().min_by_key(|(key, at)| (**at, **key)) else {
            return false;
        };
        if at > until {
            return false;
        }
        self.timers.remove(&key);
        let now = std::mem::replace(&mut self.now, at);
        let (step, _) = self.call(|m, cx| m.timer(TimerKey(key), cx));
        if let Step::FinishAt(id, at) = step {
            self.ends.insert(id.0, at);
        }
        self.now = self.now.later(now);
        true
    }

    /// Lets the drive do what it has to do by now.
    fn catch_up(&mut self) {
        while self.fire(self.now) {}
    }

    /// When a request ends whose operations wait: the bench goes on at the time when that is known.
    fn end_of(&mut self, id: ReqId) -> Instant {
        loop {
            if let Some(at) = self.ends.remove(&id.0) {
                return at;
            }
            assert!(self.fire(Instant(u64::MAX)), "{id:?} never ends");
        }
    }

    fn open(&mut self, create: bool) {
        let (_, effects) = self.call(|m, cx| m.open(OpenOptions { create, ..OpenOptions::default() }, cx));
        for effect in effects {
            if let Effect::Wake(TimerKey(0), at) = effect {
                self.timers.remove(&0);
                self.now = at;
            }
        }
    }

    fn page_bits(&self) -> u32 {
        self.machine.limits().preferred.trailing_zeros()
    }

    /// Issues a request; returns it and its end.
    fn issue(
        &mut self,
        op: Op,
        sector: u64,
        sectors: u64,
        payload: Payload,
        flags: Flags,
    ) -> (ReqId, Instant) {
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
    ) -> Result<(ReqId, Instant), IoError> {
        let draft = Draft {
            op,
            flags,
            offset: ByteOffset(sector * SECTOR),
            len: ByteLen(sectors * SECTOR),
            payload,
            cookie: 0,
        };
        self.catch_up();
        let (came, asks) = (self.now, self.asks);
        let ((id, step), _) = self.call(|m, cx| {
            let id = cx.own(asks, draft);
            cx.requests[id].owner = Owner::HOST;
            cx.requests[id].state = State::Sent;
            (id, m.request(id, cx))
        });
        let step = if step == Step::Idle { Step::FinishAt(id, self.end_of(id)) } else { step };
        match step {
            Step::FinishAt(done, at) if done == id => {
                let path = self.requests[id].path.total();
                assert_eq!(path, at.since(came), "I-13: {op:?} takes {} and explains {path}", at.since(came));
                Ok((id, at))
            }
            Step::Finish(done) if done == id => {
                let error = self.requests[id].error.expect("only a request that fails ends at once");
                self.end(id);
                Err(error)
            }
            other => panic!("a drive answers with FinishAt, not {other:?}"),
        }
    }

    fn end(&mut self, id: ReqId) {
        let payload = self.requests[id].payload;
        self.pool.release(payload);
        self.requests.free(id);
    }

    /// Changes the space of tenants.
    fn deal(&mut self, deal: Deal) -> Result<Dealt, DealError> {
        self.catch_up();
        self.call(|machine, cx| machine.administer().expect("it obeys").deal(deal, cx)).0
    }

    /// Writes one page of so many sectors, and what each of them holds then.
    fn put(&mut self, serial: u32, page: u64, sectors: u64) -> Stamp {
        let stamp = Stamp::new(serial, page * sectors);
        let (id, _) = self.issue(Op::Write, page * sectors, sectors, Payload::run(stamp), Flags::NONE);
        self.end(id);
        stamp
    }

    fn stamps(&mut self, sector: u64, sectors: u64) -> Vec<Stamp> {
        let into = self.pool.allocate(ByteLen(sectors * SECTOR));
        let (id, _) = self.issue(Op::Read, sector, sectors, into, Flags::NONE);
        assert_eq!(self.requests[id].error, None, "read of {sector}+{sectors}");
        let stamps = (0..sectors)
            .map(|i| match self.pool.sector(into, i) {
                Some(Sector::Stamp(stamp)) => stamp,
                _ => unreachable!("stamps are read"),
            })
            .collect();
        self.pool.release(into);
        self.end(id);
        stamps
    }

    /// Cuts the power now and starts again.
    fn cut(&mut self, rng: &mut Rng) {
        let mut cells = self.cells.take().expect("a bench has cells");
        cells.crash(self.now, rng);
        self.cells = Some(cells);
        self.requests = RequestTable::new();
        self.pool = PayloadPool::new(Content::Stamps);
        self.charges = ChargeTable::new(3);
        self.timers.clear();
        self.ends.clear();
        self.machine = build(&self.toml, &self.plants, Precondition::Empty);
        self.open(false);
    }

    fn charges_match(&mut self) -> bool {
        let busy = Report::of(&mut *self.machine, Ask::Busy).busy;
        busy.iter().all(|&(resource, span, _)| self.charges.busy(resource) == span)
    }
}

/// One run of random requests and cuts. Each sector has the set of stamps it may hold.
fn random_run(toml: &str, seed: u64, plant: Option<&str>, turns: u32) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let precondition = if rng.below(2) == 0 { Precondition::Empty } else { Precondition::Filled };
    let precondition =
        if precondition == Precondition::Filled && seed % 8 > 4 { Precondition::Aged } else { precondition };
    let mut bench = Bench::new(toml, plant, precondition);
    let sectors = bench.machine.limits().capacity.sectors();
    let mut allowed: Vec<Vec<Stamp>> = vec![vec![Stamp::ZERO]; sectors as usize];
    // What a cut may still undo: first sector, count, end, and whether only a flush makes it durable.
    let mut under_way: Vec<(u64, u64, Instant, bool)> = Vec::new();
    let mut serial = 0;
    for turn in 0..turns {
        bench.now += Span(rng.below(400_000));
        let mut sector = rng.below(sectors);
        let mut count = (1 + rng.below(17)).min(sectors - sector);
        under_way.retain(|w| w.2 > bench.now || w.3);
        let mut what = rng.below(20);
        if toml.contains("cmt_size") && rng.below(16) == 0 {
            // All entries of one translation page, which a delayed read can save.
            sector = sector / 128 * 128;
            (count, what) = (128.min(sectors - sector), 0);
        }
        match what {
            0..=11 => {
                serial += 1;
                let stamp = Stamp::new(serial, sector);
                let answer = bench.try_issue(Op::Write, sector, count, Payload::run(stamp), Flags::NONE);
                let (id, end) = match answer {
                    Ok(answer) => answer,
                    // Worn out: what it has must still be there.
                    Err(error) if error.kind == ErrorKind::ReadOnly && toml.contains("endurance") => continue,
                    Err(error) => return Err(error.to_string()),
                };
                bench.end(id);
                for i in 0..count {
                    allowed[(sector + i) as usize].push(Stamp::new(serial, sector + i));
                }
                under_way.push((sector, count, end, false));
            }
            12..=13 => {
                let flags = if rng.below(3) == 0 { Flags::FUA } else { Flags::NONE };
                let (id, end) = match bench.try_issue(Op::Trim, sector, count, Payload::NONE, flags) {
                    Ok(answer) => answer,
                    Err(error) if error.kind == ErrorKind::ReadOnly && toml.contains("endurance") => continue,
                    Err(error) => return Err(error.to_string()),
                };
                bench.end(id);
                for set in &mut allowed[sector as usize..(sector + count) as usize] {
                    set.push(Stamp::ZERO);
                }
                // A trim without FUA may come back until the next flush.
                under_way.push((sector, count, end, !flags.has(Flags::FUA)));
            }
            14 => {
                // It covers what was acknowledged when it came.
                under_way.retain(|w| w.2 > bench.now);
                let (id, end) = bench.issue(Op::Flush, 0, 0, Payload::NONE, Flags::NONE);
                bench.end(id);
                bench.now = end;
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
            bench.machine.check().map_err(|v| format!("seed {seed}, turn {turn}: {v}"))?;
            if !bench.charges_match() {
                return Err(format!("I-13: seed {seed}, turn {turn}: charges do not add up to busy time"));
            }
        }
    }
    Ok(())
}

#[test]
fn random_requests_and_cuts_agree_with_the_model() {
    for seed in 0..150 {
        random_run(TINY, seed, None, 600).unwrap();
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
            let toml = match seed % 4 {
                0 => paged(map),
                // A start from a checkpoint is compared with a scan of everything.
                often => format!("{}checkpoint_interval = {}\n", paged(map), 2 * often - 1),
            };
            if let Err(what) = random_run(&toml, seed, None, 600) {
                panic!("{name}: {what}");
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
        let toml = match plant.name {
            "ssd.prices-at-issue" => paged(0),
            "ssd.gathered-although-written" => paged(7),
            "ssd.map-slot-persisted" => format!("{}checkpoint_interval = 2\n", paged(2)),
            name if name.starts_with("ssd.map-") => paged(2),
            "ssd.worn-block-used" => format!("{TINY}wear = {{ endurance = 3 }}\n"),
            _ => TINY.to_string(),
        };
        let found = (0..60).find_map(|seed| {
            let random = || random_run(&toml, seed, Some(plant.name), 600);
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
    let drive = "profile = \"slc-2015\"\nchannels = 2\nplanes_per_die = 2\nblocks_per_plane = 120\npages_per_block = 32\n\
                 page_size = \"512 B\"\nspare_factor = 0.2\n";
    let maps = [
        "kind = \"page\"",
        "kind = \"dftl\", cmt_size = 64, gc_batch = 1",
        "kind = \"cftl\", cmt_size = 64, gc_batch = 1",
        "kind = \"tpftl\", cmt_size = 64, gc_batch = 1",
        "kind = \"tpc-ftl\", cmt_size = 524, gc_batch = 1",
        "kind = \"tpc-ftl\", cmt_size = 524, delayed_read = false",
    ];
    for map in maps {
        let toml = format!("{drive}mapping = {{ {map} }}\n");
        let mut bench = Bench::new(&toml, None, Precondition::Filled);
        bench.cells = None;
        let pages = bench.machine.limits().capacity.sectors();
        let mut rng = Rng::new(1);
        for _ in 0..3 * pages {
            bench.now += Span(500_000);
            let (id, end) = bench.issue(Op::Write, rng.below(pages), 1, Payload::NONE, Flags::NONE);
            bench.end(id);
            bench.now = bench.now.later(end);
        }
        bench.machine.check().unwrap();
        assert!(bench.charges_match(), "I-13 with {map}");
        let counters = Report::of(&mut *bench.machine, Ask::Counters).counters;
        let get = |name| counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
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
    let cases = [
        ("profile = \"slc-2016\"\nblocks_per_plane = 20", "profile"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 5", "blocks_per_plane"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 20\nspare_factor = 0", "spare_factor"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 20\nspare_factor = 1", "spare_factor"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 20\nplanes_per_die = 3", "planes_per_die"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 20\nchannels = 0", "channels"),
        ("profile = \"slc-2015\"", "capacity"),
        (
            "profile = \"slc-2015\"\nblocks_per_plane = 400\ndie_scheduler = { kind = \"out-of-order\", max_read_bypass = 65536 }",
            "die_scheduler",
        ),
        ("profile = \"slc-2015\"\nblocks_per_plane = 400\ncheckpoint_interval = 8", "checkpoint_interval"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 400\ntrim_records = 0", "trim_records"),
        ("profile = \"slc-2015\"\nblocks_per_plane = 400\ntrim_records = 17", "trim_records"),
        (
            "profile = \"slc-2015\"\nblocks_per_plane = 400\ncheckpoint_interval = 0\nmapping = { kind = \"dftl\" }",
            "checkpoint_interval",
        ),
        ("profile = \"slc-2015\"\nblocks_per_plane = 20\npage_size = \"3 KiB\"", "page_size"),
        (
            "profile = \"slc-2015\"\nblocks_per_plane = 400\nallocation_order = [\"plane\", \"plane\", \"die\", \"chip\"]",
            "allocation_order",
        ),
    ];
    let plants = BTreeSet::new();
    for (text, key) in cases {
        let config: SsdConfig = toml::from_str(text).unwrap();
        let cx = BuildContext {
            name: "ssd",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &plants,
            precondition: Precondition::Empty,
        };
        let Err(error) = config.machine(&cx) else { panic!("accepted: {text}") };
        assert_eq!(error.key, Some(key), "{text}: {error}");
    }
}
