//! A parity array over test disks, driven event by event, with an oracle that knows what every sector may hold. With a
//! journal whatever is acknowledged is durable, and no loss of legs may take it.

use crate::disk::{lose, Cell, Disk, Leg, Shared};
use nandu_array::parity::layout::LegLayout;
use nandu_array::parity::{ParityConfig, WriteHole};
use nandu_base::{
    BuildContext, ByteLen, ByteOffset, Content, DeviceConfig, DeviceEvent, ErrorKind, Flags, Instant, Op,
    OpenError, OpenHow, Payload, PayloadPool, Precondition, ReqId, Request, RequestTable, Sector, Stamp,
    TenantId, TimerKey, SECTOR,
};
use nandu_stack::{Driver, Graph, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Serial of writes that are zeros.
const ZEROS: u32 = 0;
/// Stands for what soiled disks held.
const ANYTHING: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Finish(u32),
    Wake(u32, u32, u64),
}

/// A request that came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub cookie: u64,
    pub error: Option<nandu_base::IoError>,
    pub data: Vec<Stamp>,
}

#[derive(Default)]
struct Events {
    queue: BTreeMap<(u64, u64), Due>,
    order: u64,
    answers: Vec<Answer>,
}

impl Events {
    fn push(&mut self, at: Instant, due: Due) {
        self.order += 1;
        self.queue.insert((at.0, self.order), due);
    }
}

impl Driver for Events {
    fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.push(at, Due::Finish(id.0));
    }
    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant) {
        self.push(at, Due::Wake(node, key.0, generation));
    }
    fn medium(&mut self, _: u32, _: ReqId, _: &mut RequestTable, _: &mut PayloadPool) {
        unreachable!("test legs have no medium")
    }
    fn host_done(&mut self, r: &Request, _: Instant, pool: &mut PayloadPool) {
        let sectors = if r.op == Op::Read { r.len.0 / SECTOR } else { 0 };
        let data = (0..sectors)
            .map(|i| match pool.sector(r.payload, i) {
                Some(Sector::Stamp(stamp)) => stamp,
                _ => Stamp::METADATA,
            })
            .collect();
        self.answers.push(Answer { cookie: r.cookie, error: r.error, data });
    }
}

/// How a write of this session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Open,
    Acked,
    /// Failed before the request with this number was issued.
    Failed(u64),
}

/// What a sector may hold: `base` from before this session, `live` the writes of this session in their order.
#[derive(Clone, Debug)]
struct Possible {
    base: BTreeSet<u32>,
    live: Vec<(u64, u32, Fate)>,
}

impl Possible {
    /// Writes from the last acknowledged one on; everything when there is none.
    fn candidates(&self) -> BTreeSet<u32> {
        let acked = self.live.iter().rposition(|w| w.2 == Fate::Acked);
        let mut out: BTreeSet<u32> = self.live[acked.unwrap_or(0)..].iter().map(|w| w.1).collect();
        if acked.is_none() {
            out.extend(&self.base);
        }
        out
    }
}

#[derive(Clone, Debug)]
struct Job {
    op: Op,
    first: u64,
    count: u64,
    serial: u32,
    fua: bool,
    /// For a read: what each sector could hold when it was issued. For a flush: the last acknowledged write.
    seen: Vec<BTreeSet<u32>>,
    cover: Vec<(u64, u64)>,
}

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub config: ParityConfig,
    /// Bytes of data on each leg.
    pub data: ByteLen,
    pub seed: u64,
    pub plants: BTreeSet<String>,
    /// Data sectors hold rubbish before the array is made.
    pub soiled: bool,
    /// The last leg is that many times slower.
    pub slow: u64,
}

impl Setup {
    pub fn small(seed: u64) -> Setup {
        let mut config = ParityConfig::of(&["a", "b", "c"]);
        config.chunk = Some(ByteLen::kib(4));
        config.journal = ByteLen::kib(64);
        config.rebuild_chunk = ByteLen::kib(16);
        config.fresh = nandu_array::parity::Fresh::Zeros;
        Setup { config, data: ByteLen::kib(128), seed, plants: BTreeSet::new(), soiled: false, slow: 1 }
    }

    pub fn plant(mut self, name: &str) -> Setup {
        self.plants.insert(name.into());
        self
    }

    fn slots(&self) -> u64 {
        match self.config.write_hole {
            WriteHole::Journal => self.config.journal.0 / (4096 + self.config.chunk().0),
            WriteHole::Resync => 0,
        }
    }
}

macro_rules! tell {
    ($world:expr, $($arg:tt)*) => {
        if $world.talks {
            eprintln!("{} {}", $world.now, format!($($arg)*));
        }
    };
}

pub struct World {
    /// NANDU_PARITY_TALK is set: say everything that happens.
    talks: bool,
    pub setup: Setup,
    pub disks: Vec<Shared>,
    graph: Option<Graph>,
    events: Events,
    pub now: Instant,
    jobs: BTreeMap<u64, Job>,
    next: u64,
    serial: u32,
    sectors: BTreeMap<u64, Possible>,
    pub answers: BTreeMap<u64, Answer>,
    /// After so many events this leg is lost.
    pub ambush: Option<(u64, usize)>,
    /// After so many events nothing happens any more: a cut will follow.
    pub fuse: Option<u64>,
    /// The first thing that was wrong.
    pub wrong: Option<String>,
}

impl World {
    pub fn new(setup: Setup) -> World {
        let (slots, chunk) = (setup.slots(), setup.config.chunk().0);
        let size = ByteLen(setup.data.0 + slots * (4096 + chunk) + (64 << 10) + 4096);
        let layout = LegLayout::of(size, slots, chunk, chunk).expect("large enough");
        assert_eq!(layout.data, setup.data.0);
        let last = setup.config.legs.len() as u64 - 1;
        let disk = |k: u64| {
            let mut disk = Disk::new(size, setup.data, setup.seed * 16 + k);
            disk.delay *= if k == last { setup.slow } else { 1 };
            if setup.soiled {
                disk.soil(900 + k as u32);
            }
            Arc::new(Mutex::new(disk))
        };
        World {
            talks: std::env::var_os("NANDU_PARITY_TALK").is_some(),
            disks: (0..=last).map(disk).collect(),
            graph: None,
            events: Events::default(),
            now: Instant::ZERO,
            jobs: BTreeMap::new(),
            next: 0,
            serial: 1000,
            sectors: BTreeMap::new(),
            answers: BTreeMap::new(),
            ambush: None,
            fuse: None,
            wrong: None,
            setup,
        }
    }

    pub fn disk(&self, leg: usize) -> std::sync::MutexGuard<'_, Disk> {
        self.disks[leg].lock().expect("no panic inside")
    }

    /// Whether the fuse has blown.
    pub fn is_over(&self) -> bool {
        self.fuse == Some(0)
    }

    fn complain(&mut self, what: String) {
        if self.is_over() {
            return;
        }
        let now = self.now;
        self.wrong.get_or_insert(format!("{now}: {what}"));
    }

    pub fn legs(&self) -> usize {
        self.disks.len()
    }

    fn top(&self) -> u32 {
        self.disks.len() as u32
    }

    pub fn sectors(&self) -> u64 {
        self.setup.data.sectors() * (self.legs() as u64 - 1)
    }

    fn journaled(&self) -> bool {
        self.setup.config.write_hole == WriteHole::Journal
    }

    /// Builds the machines and begins the start.
    pub fn boot(&mut self, how: OpenHow) {
        tell!(self, "start {how:?}");
        let limits: Vec<_> =
            self.disks.iter().map(|d| Leg::limits_of(&d.lock().expect("no panic inside"))).collect();
        let cx = BuildContext {
            name: "m",
            children: &limits,
            seed: self.setup.seed,
            tenants: 2,
            shares: &[],
            planted: &self.setup.plants,
            precondition: Precondition::Empty,
        };
        let machine = self.setup.config.build(&cx).expect("the options are right");
        let mut parts: Vec<Part> = self
            .disks
            .iter()
            .zip(&self.setup.config.legs)
            .map(|(disk, name)| Part {
                name: name.clone(),
                machine: Box::new(Leg::new(Arc::clone(disk))),
                children: vec![],
                medium: None,
            })
            .collect();
        let children = (0..self.top()).collect();
        parts.push(Part { name: "m".into(), machine, children, medium: None });
        let mut graph = Graph::new(parts, Content::Stamps, 2);
        self.events = Events::default();
        for node in 0..=self.top() {
            graph.open(node, how, self.now, &mut self.events);
        }
        self.graph = Some(graph);
    }

    pub fn graph(&self) -> &Graph {
        self.graph.as_ref().expect("booted")
    }

    pub fn opened(&self) -> Option<Result<(), OpenError>> {
        self.graph.as_ref()?.open_result(self.top()).cloned()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut out = Vec::new();
        self.graph().machine(self.top()).counters(&mut out);
        out.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no counter {name}")).value
    }

    /// Starts and waits until the start is over.
    pub fn open(&mut self, how: OpenHow) -> Result<(), OpenError> {
        self.boot(how);
        for _ in 0..200_000 {
            if let Some(result) = self.opened() {
                tell!(self, "opened: {result:?}");
                return result;
            }
            if !self.step() {
                break;
            }
        }
        self.complain("the start does not end".into());
        Err(OpenError::Gone { device: "stuck".into() })
    }

    /// Takes one event; false when there is none.
    pub fn step(&mut self) -> bool {
        match &mut self.fuse {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        if let Some((left, leg)) = &mut self.ambush {
            *left -= 1;
            if *left == 0 {
                let leg = *leg;
                self.ambush = None;
                self.lose(leg);
            }
        }
        let Some(((at, _), due)) = self.events.queue.pop_first() else { return false };
        self.now = Instant(at.max(self.now.0));
        let graph = self.graph.as_mut().expect("booted");
        match due {
            Due::Finish(id) => graph.complete(ReqId(id), self.now, &mut self.events),
            Due::Wake(node, key, generation) => {
                graph.timer(node, TimerKey(key), generation, self.now, &mut self.events);
            }
        }
        self.hear();
        true
    }

    fn hear(&mut self) {
        for answer in std::mem::take(&mut self.events.answers) {
            self.judge(answer);
        }
        if let Err(violation) = self.graph.as_ref().expect("booted").check() {
            self.complain(violation.to_string());
        }
    }

    fn submit(&mut self, job: Job, payload: Payload) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let flags = if job.fua { Flags::FUA } else { Flags::NONE };
        let (op, at, len) = (job.op, ByteOffset(job.first * SECTOR), ByteLen(job.count * SECTOR));
        tell!(
            self,
            "{cookie}: {} {}+{} fua {} serial {}",
            op.name(),
            job.first,
            job.count,
            job.fua,
            job.serial
        );
        self.jobs.insert(cookie, job);
        let top = self.top();
        let graph = self.graph.as_mut().expect("booted");
        graph.submit(
            top,
            op,
            flags,
            at,
            len,
            payload,
            TenantId(1),
            cookie,
            self.now,
            self.now,
            &mut self.events,
        );
        self.hear();
        cookie
    }

    fn possible(&mut self, sector: u64) -> &mut Possible {
        // A sector never written: zeros, or on soiled disks anything.
        let base = BTreeSet::from([if self.setup.soiled { ANYTHING } else { ZEROS }]);
        self.sectors.entry(sector).or_insert_with(|| Possible { base, live: Vec::new() })
    }

    pub fn change(&mut self, op: Op, first: u64, count: u64, fua: bool) -> u64 {
        let serial = if op == Op::Write {
            self.serial += 1;
            self.serial
        } else {
            ZEROS
        };
        let cookie = self.next;
        for s in first..first + count {
            self.possible(s).live.push((cookie, serial, Fate::Open));
        }
        let payload = if op == Op::Write { Payload::run(Stamp::new(serial, first)) } else { Payload::NONE };
        self.submit(Job { op, first, count, serial, fua, seen: vec![], cover: vec![] }, payload)
    }

    pub fn write(&mut self, first: u64, count: u64) -> u64 {
        self.change(Op::Write, first, count, false)
    }

    pub fn read(&mut self, first: u64, count: u64) -> u64 {
        let seen = (first..first + count).map(|s| self.possible(s).candidates()).collect();
        let payload = self.graph.as_mut().expect("booted").pool.allocate(ByteLen(count * SECTOR));
        self.submit(Job { op: Op::Read, first, count, serial: 0, fua: false, seen, cover: vec![] }, payload)
    }

    pub fn flush(&mut self) -> u64 {
        let cover = self
            .sectors
            .iter()
            .filter_map(|(s, p)| p.live.iter().rfind(|w| w.2 == Fate::Acked).map(|w| (*s, w.0)))
            .collect();
        let job = Job { op: Op::Flush, first: 0, count: 0, serial: 0, fua: false, seen: vec![], cover };
        self.submit(job, Payload::NONE)
    }

    fn judge(&mut self, answer: Answer) {
        let job = self.jobs.remove(&answer.cookie).expect("every request is answered once");
        tell!(self, "{}: answered {:?}", answer.cookie, answer.error);
        match job.op {
            Op::Read => self.judge_read(&job, &answer),
            Op::Flush if answer.error.is_none() => {
                for (s, cookie) in &job.cover {
                    self.floor(*s, *cookie);
                }
            }
            Op::Flush => {}
            _ => {
                let fate = if answer.error.is_none() { Fate::Acked } else { Fate::Failed(self.next) };
                for s in job.first..job.first + job.count {
                    let p = self.possible(s);
                    if let Some(w) = p.live.iter_mut().find(|w| w.0 == answer.cookie) {
                        w.2 = fate;
                    }
                    if fate == Fate::Acked && (job.fua || self.journaled()) {
                        self.floor(s, answer.cookie);
                    }
                }
            }
        }
        self.answers.insert(answer.cookie, answer);
    }

    /// The write is durable: nothing older may ever be seen.
    fn floor(&mut self, sector: u64, cookie: u64) {
        let p = self.possible(sector);
        if let Some(at) = p.live.iter().position(|w| w.0 == cookie) {
            p.live.drain(..at);
            p.base.clear();
        }
    }

    fn judge_read(&mut self, job: &Job, answer: &Answer) {
        if let Some(error) = answer.error {
            let allowed = matches!(error.kind, ErrorKind::Gone | ErrorKind::Unreadable);
            if !allowed || error.at.0 + error.len.0 > job.count * SECTOR {
                self.complain(format!("a read failed oddly: {error:?}"));
            }
            return;
        }
        for (i, stamp) in answer.data.iter().enumerate() {
            let s = job.first + i as u64;
            let (serial, home) = (stamp.serial(), stamp.sector());
            let now = self.possible(s).candidates();
            let seen = &job.seen[i];
            let started: BTreeSet<u32> = self.possible(s).live.iter().map(|w| w.1).collect();
            let fits = seen.contains(&serial) || started.contains(&serial) && now.contains(&serial);
            if seen.contains(&ANYTHING) {
                continue;
            }
            if !fits || (*stamp != Stamp::ZERO && home != s as u32) || *stamp == Stamp::METADATA {
                self.complain(format!(
                    "sector {s} reads {stamp:?} (write {serial}); may hold {seen:?} or {now:?}"
                ));
            } else {
                self.fix(s, serial, answer.cookie);
            }
        }
    }

    /// Read number `read` has shown `serial`: from now on it is that or something newer. What is older than a write says
    /// that it will not show up any more only when the write had failed before the read was issued.
    fn fix(&mut self, sector: u64, serial: u32, read: u64) {
        let p = self.possible(sector);
        if p.live.iter().any(|w| w.2 == Fate::Acked) {
            return; // newer than anything in doubt, or a read that overlapped a write
        }
        if let Some(at) = p.live.iter().position(|w| w.1 == serial && matches!(w.2, Fate::Failed(_))) {
            p.live[at].2 = Fate::Acked;
        } else if p.base.contains(&serial) && !p.live.iter().any(|w| w.1 == serial) {
            p.base = BTreeSet::from([serial]);
            p.live.retain(|w| !matches!(w.2, Fate::Failed(before) if before <= read));
        }
    }

    /// Runs until nothing is under way; timers that only come again are cut off by `most` events.
    pub fn run(&mut self, most: usize) {
        for _ in 0..most {
            if !self.step() || self.wrong.is_some() {
                return;
            }
        }
    }

    /// Waits until these requests are answered.
    pub fn wait(&mut self, cookies: &[u64]) {
        for _ in 0..100_000 {
            if cookies.iter().all(|c| self.answers.contains_key(c)) {
                return;
            }
            if !self.step() {
                break;
            }
        }
        self.complain(format!("requests {cookies:?} are never answered"));
    }

    pub fn is_ok(&self, cookie: u64) -> bool {
        self.answers.get(&cookie).is_some_and(|a| a.error.is_none())
    }

    fn forget_session(&mut self) {
        self.graph = None;
        self.events = Events::default();
        self.jobs.clear();
        for p in self.sectors.values_mut() {
            let live = std::mem::take(&mut p.live);
            p.base.extend(live.into_iter().map(|w| w.1));
        }
    }

    /// Power is cut on all legs.
    pub fn cut(&mut self) {
        self.fuse = None;
        tell!(self, "cut");
        self.forget_session();
        self.disks.iter().for_each(|d| d.lock().expect("no panic inside").cut());
    }

    /// The process dies, the drives keep their caches.
    pub fn die(&mut self) {
        self.fuse = None;
        tell!(self, "death");
        self.forget_session();
        self.disks.iter().for_each(|d| d.lock().expect("no panic inside").orphan());
    }

    /// A leg goes away.
    pub fn lose(&mut self, leg: usize) {
        tell!(self, "leg {leg} is lost");
        lose(&self.disks[leg]);
        if let Some(graph) = self.graph.as_mut() {
            graph.device_event(leg as u32, DeviceEvent::Lost, self.now, &mut self.events);
            self.hear();
        }
    }

    /// A leg comes back with what it held durably.
    pub fn back(&mut self, leg: usize) {
        tell!(self, "leg {leg} is back");
        self.disk(leg).lost = false;
        if let Some(graph) = self.graph.as_mut() {
            if !graph.is_open(leg as u32) {
                graph.open(leg as u32, OpenHow::default(), self.now, &mut self.events);
            }
            graph.device_event(leg as u32, DeviceEvent::Back, self.now, &mut self.events);
            self.hear();
        }
    }

    pub fn close(&mut self) {
        let top = self.top();
        let graph = self.graph.as_mut().expect("booted");
        graph.close(top, self.now, &mut self.events);
        while self.graph().is_open(top) && self.step() {}
        let pending = self.disks.iter().map(|d| d.lock().expect("no panic inside").pending()).sum::<usize>();
        if pending > 0 && !self.is_over() {
            self.complain(format!("{pending} requests are under way at the end"));
        }
        self.run(1_000_000);
        if self.graph().is_open(self.top()) {
            self.complain("the array does not close".into());
        }
    }

    /// The first sector at which the xor of all legs is not zero, and what it is there.
    pub fn odd(&self) -> Option<(u64, u64)> {
        let disks: Vec<_> = self.disks.iter().map(|d| d.lock().expect("no panic inside")).collect();
        let xor = |s| {
            disks.iter().fold(0, |xor, d| match d.now(s) {
                Cell::Stamp(stamp) => xor ^ stamp.0,
                Cell::Bytes(_) => u64::MAX,
            })
        };
        (0..self.setup.data.sectors()).map(|s| (s, xor(s))).find(|&(_, xor)| xor != 0)
    }

    /// `parity_is_xor`: when everything is quiet and nothing is lost the xor of all legs is zero everywhere.
    pub fn check_parity(&mut self) {
        let mut wrong = None;
        if self.is_full() {
            if let Some((s, xor)) = self.odd().filter(|_| self.counter("lost_sectors") == 0) {
                wrong = Some(format!("parity_is_xor: the legs differ by {xor:#x} at sector {s}"));
            }
        } else {
            wrong = Some("parity_is_xor: not all legs are rebuilt".into());
        }
        if let Some(wrong) = wrong {
            self.complain(wrong);
        }
        let living = self.graph().pool.living();
        if living != 0 {
            self.complain(format!("{living} payload buffers are held by nobody"));
        }
    }

    /// All legs present and everything rebuilt.
    pub fn is_full(&self) -> bool {
        self.counter("full_legs") == self.legs() as u64 && self.counter("bytes_to_rebuild") == 0
    }

    /// Reads every sector in doubt twice.
    pub fn read_all(&mut self) {
        let touched: Vec<u64> = self.sectors.keys().copied().collect();
        for _ in 0..2 {
            for &s in &touched {
                let r = self.read(s, 1);
                self.wait(&[r]);
            }
        }
    }
}
