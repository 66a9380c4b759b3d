//! A mirror over two test disks, driven event by event, with an oracle that knows what every sector may hold.

use crate::disk::{lose, Disk, Leg, Shared};
use nandu_array::mirror::layout::Layout;
use nandu_array::mirror::{HeteroConfig, MirrorConfig};
use nandu_base::{
    Admin, AdminError, BuildContext, ByteLen, ByteOffset, Content, DeviceConfig, DeviceEvent, ErrorKind,
    Flags, Instant, Notice, Op, OpenError, OpenHow, Payload, PayloadPool, Precondition, ReqId, Request,
    RequestTable, Sector, Span, Stamp, TenantId, TimerKey, SECTOR,
};
use nandu_stack::{Driver, Graph, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

pub const A: usize = 0;
pub const B: usize = 1;
const MIRROR: u32 = 2;
/// Serial of writes that are zeros.
const ZEROS: u32 = 0;

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
    notices: Vec<Notice>,
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
    fn notice(&mut self, node: u32, notice: Notice) {
        if node == MIRROR {
            self.notices.push(notice);
        }
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
    Failed,
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
    /// Losses of the newest data before it was issued.
    doubts: u64,
}

/// The options of a world.
#[derive(Clone)]
pub struct Setup {
    pub config: MirrorConfig,
    /// A `hetero-mirror` with these options and those of `config`.
    pub hetero: Option<HeteroConfig>,
    pub data: ByteLen,
    pub seed: u64,
    pub plants: BTreeSet<String>,
    /// Data sectors hold rubbish before the mirror is made.
    pub soiled: bool,
    /// One leg is that many times slower: leg b, or the other one.
    pub slow: u64,
    pub slow_leg: u64,
    /// Whether payloads and drives hold anything.
    pub content: Content,
}

impl Setup {
    pub fn small(seed: u64) -> Setup {
        let mut config = MirrorConfig::of("a", "b");
        config.region = ByteLen::kib(64);
        config.clear_after = Span::from_ms(1);
        config.active_regions = 32;
        config.resync_chunk = ByteLen::kib(16);
        config.fresh = nandu_array::mirror::Fresh::Equal;
        Setup {
            config,
            hetero: None,
            data: ByteLen::kib(256),
            seed,
            plants: BTreeSet::new(),
            soiled: false,
            slow: 1,
            slow_leg: 1,
            content: Content::Stamps,
        }
    }

    /// The same as a `hetero-mirror`.
    pub fn hetero(mut self, change: impl FnOnce(&mut HeteroConfig)) -> Setup {
        let mut hetero = HeteroConfig::over(self.config.clone());
        hetero.wait_floor = Span(0);
        change(&mut hetero);
        self.hetero = Some(hetero);
        self
    }

    pub fn plant(mut self, name: &str) -> Setup {
        self.plants.insert(name.into());
        self
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
    /// NANDU_MIRROR_TALK is set: say everything that happens.
    talks: bool,
    pub setup: Setup,
    pub disks: [Shared; 2],
    pub layout: Layout,
    graph: Option<Graph>,
    events: Events,
    pub now: Instant,
    jobs: BTreeMap<u64, Job>,
    next: u64,
    serial: u32,
    sectors: BTreeMap<u64, Possible>,
    pub answers: BTreeMap<u64, Answer>,
    doubts: u64,
    /// After so many events this leg is lost.
    pub ambush: Option<(u64, usize)>,
    /// After so many events nothing happens any more: a cut will follow.
    pub fuse: Option<u64>,
    /// Data may be lost: a leg was given up, or errors hit the only one.
    pub may_lose: bool,
    /// The medium that was replaced last.
    pub removed: Option<Shared>,
    /// Data of a leg have changed by themselves.
    rotten: bool,
    /// What the mirror has said.
    pub notices: Vec<Notice>,
    /// The figures of earlier sessions, added up.
    pub figures: BTreeMap<&'static str, u64>,
    /// The first thing that was wrong.
    pub wrong: Option<String>,
}

impl World {
    pub fn new(setup: Setup) -> World {
        let metadata = 4096 * 4 + (64 << 10) + 4096;
        let size = ByteLen(setup.data.0 + metadata);
        let layout = Layout::of(size, setup.config.region.0.trailing_zeros() as u8).expect("large enough");
        assert_eq!(layout.data, setup.data);
        let disk = |k: u64| {
            let mut disk = Disk::new(size, layout.data, setup.seed * 2 + k);
            if k == setup.slow_leg {
                disk.delay *= setup.slow;
            }
            disk.forgets = setup.content == Content::Nothing;
            if setup.soiled {
                disk.soil(900 + k as u32);
            }
            Arc::new(Mutex::new(disk))
        };
        World {
            talks: std::env::var_os("NANDU_MIRROR_TALK").is_some(),
            disks: [disk(0), disk(1)],
            layout,
            graph: None,
            events: Events::default(),
            now: Instant::ZERO,
            jobs: BTreeMap::new(),
            next: 0,
            serial: 1000,
            sectors: BTreeMap::new(),
            answers: BTreeMap::new(),
            doubts: 0,
            ambush: None,
            fuse: None,
            may_lose: false,
            removed: None,
            rotten: false,
            notices: Vec::new(),
            figures: BTreeMap::new(),
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

    pub fn sectors(&self) -> u64 {
        self.layout.data.sectors()
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
        let config = &self.setup.config;
        let mirror = match &self.setup.hetero {
            None => config.build(&cx),
            Some(h) => h.with_mirror(config.clone()).build(&cx),
        };
        let mirror = mirror.expect("the options are right");
        let leg = |k: usize| Part {
            name: ["a", "b"][k].into(),
            machine: Box::new(Leg::new(Arc::clone(&self.disks[k]))),
            children: vec![],
            medium: None,
        };
        let top = Part { name: "m".into(), machine: mirror, children: vec![0, 1], medium: None };
        let mut graph = Graph::new(vec![leg(A), leg(B), top], self.setup.content, 2);
        self.events = Events::default();
        for node in 0..3 {
            graph.open(node, how, self.now, &mut self.events);
        }
        self.graph = Some(graph);
    }

    pub fn graph(&self) -> &Graph {
        self.graph.as_ref().expect("booted")
    }

    pub fn opened(&self) -> Option<Result<(), OpenError>> {
        self.graph.as_ref()?.open_result(MIRROR).cloned()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let mut out = Vec::new();
        self.graph().machine(MIRROR).counters(&mut out);
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
        self.check_marks();
        true
    }

    fn hear(&mut self) {
        for answer in std::mem::take(&mut self.events.answers) {
            self.judge(answer);
        }
        for notice in std::mem::take(&mut self.events.notices) {
            tell!(self, "{notice:?}");
            if matches!(notice, Notice::Differ { .. }) && !self.rotten {
                self.complain(format!(
                    "scrub_compares_current: {notice:?}, and nothing has changed by itself"
                ));
            }
            self.notices.push(notice);
        }
        if let Err(violation) = self.graph.as_ref().expect("booted").check() {
            self.complain(violation.to_string());
        }
    }

    /// `clear_needs_both_flushed`: as long as a cut could make the legs differ, some D is set.
    fn check_marks(&mut self) {
        if !self.setup.plants.is_empty() {
            return;
        }
        if let Some(leg) = [A, B].into_iter().find(|&leg| self.disk(leg).met) {
            self.complain(format!(
                "one_in_flight_per_block_and_leg: leg {leg} has two changes of one sector"
            ));
        }
        let unflushed = [A, B].into_iter().find_map(|leg| self.disk(leg).unflushed().next());
        if let Some(sector) = unflushed {
            if self.opened() == Some(Ok(())) && self.is_pair() && self.counter("dirty_regions") == 0 {
                self.complain(format!(
                    "clear_needs_both_flushed: sector {sector} is not durable and no D is set"
                ));
            }
        }
    }

    fn submit(&mut self, mut job: Job, payload: Payload) -> u64 {
        job.doubts = self.doubts;
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
        let graph = self.graph.as_mut().expect("booted");
        graph.submit(
            MIRROR,
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
        // A sector never written: zeros, or on soiled disks what either leg had.
        let mut base = BTreeSet::from([ZEROS]);
        if self.setup.soiled {
            base = BTreeSet::from([900, 901]);
        }
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
        self.submit(Job { op, first, count, serial, fua, seen: vec![], cover: vec![], doubts: 0 }, payload)
    }

    pub fn write(&mut self, first: u64, count: u64) -> u64 {
        self.change(Op::Write, first, count, false)
    }

    pub fn read(&mut self, first: u64, count: u64) -> u64 {
        let seen = (first..first + count).map(|s| self.possible(s).candidates()).collect();
        let payload = self.graph.as_mut().expect("booted").pool.allocate(ByteLen(count * SECTOR));
        self.submit(
            Job { op: Op::Read, first, count, serial: 0, fua: false, seen, cover: vec![], doubts: 0 },
            payload,
        )
    }

    pub fn flush(&mut self) -> u64 {
        let cover = self
            .sectors
            .iter()
            .filter_map(|(s, p)| p.live.iter().rfind(|w| w.2 == Fate::Acked).map(|w| (*s, w.0)))
            .collect();
        let job =
            Job { op: Op::Flush, first: 0, count: 0, serial: 0, fua: false, seen: vec![], cover, doubts: 0 };
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
                let fate = if answer.error.is_none() { Fate::Acked } else { Fate::Failed };
                for s in job.first..job.first + job.count {
                    let p = self.possible(s);
                    if let Some(w) = p.live.iter_mut().find(|w| w.0 == answer.cookie) {
                        w.2 = fate;
                    }
                    if fate == Fate::Acked && job.fua {
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
            let allowed = matches!(error.kind, ErrorKind::Gone | ErrorKind::Unreadable)
                || self.may_lose && error.kind == ErrorKind::Lost;
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
            if !fits || (*stamp != Stamp::ZERO && home != s as u32) || *stamp == Stamp::METADATA {
                self.complain(format!(
                    "sector {s} reads {stamp:?} (write {serial}); may hold {seen:?} or {now:?}"
                ));
            } else if job.doubts == self.doubts {
                self.fix(s, serial);
            }
        }
    }

    /// A read has shown `serial`: from now on it is that or something newer.
    fn fix(&mut self, sector: u64, serial: u32) {
        let p = self.possible(sector);
        if p.live.iter().any(|w| w.2 == Fate::Acked) {
            return; // newer than anything in doubt, or a read that overlapped a write
        }
        if let Some(at) = p.live.iter().position(|w| w.1 == serial && w.2 == Fate::Failed) {
            p.live[at].2 = Fate::Acked;
        } else if p.base.contains(&serial) && !p.live.iter().any(|w| w.1 == serial) {
            p.base = BTreeSet::from([serial]);
            p.live.retain(|w| w.2 == Fate::Open);
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

    /// Lets `span` pass.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.events.queue.first_key_value().is_some_and(|((at, _), _)| *at <= end.0) && self.step() {}
        self.now = self.now.later(end);
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

    /// Adds the figures of this session to those of earlier ones.
    pub fn keep_figures(&mut self) {
        let mut out = Vec::new();
        if let Some(graph) = &self.graph {
            graph.machine(MIRROR).counters(&mut out);
        }
        out.iter().for_each(|c| *self.figures.entry(c.name).or_default() += c.value);
    }

    fn forget_session(&mut self) {
        self.keep_figures();
        self.graph = None;
        self.events = Events::default();
        self.jobs.clear();
        for p in self.sectors.values_mut() {
            let live = std::mem::take(&mut p.live);
            p.base.extend(live.into_iter().map(|w| w.1));
        }
    }

    /// Power is cut on both legs.
    pub fn cut(&mut self) {
        self.fuse = None;
        tell!(self, "cut");
        self.forget_session();
        for disk in &self.disks {
            let mut disk = disk.lock().expect("no panic inside");
            (disk.frozen_until, disk.met) = (Instant::ZERO, false);
            disk.cut();
        }
    }

    /// The process dies, the drives keep their caches.
    pub fn die(&mut self) {
        self.fuse = None;
        tell!(self, "death");
        self.forget_session();
        self.disks.iter().for_each(|d| d.lock().expect("no panic inside").orphan());
    }

    /// When a leg goes that alone holds the newest data, its cache goes with it: what was not flushed is in doubt.
    fn doubt(&mut self, leg: usize) {
        if self.graph.is_none() || self.opened() != Some(Ok(())) {
            return;
        }
        let member = |l: usize| self.counter(["leg_a_is_member", "leg_b_is_member"][l]) == 1;
        let follows = self.counter("leader_leg") != leg as u64;
        let other_has_all = member(1 - leg) && (follows || self.counter("stale_regions") == 0);
        if other_has_all || !member(leg) && member(1 - leg) {
            return;
        }
        tell!(self, "what was not flushed is in doubt");
        self.doubts += 1;
        for p in self.sectors.values_mut() {
            p.base.extend(p.live.iter().filter(|w| w.2 != Fate::Open).map(|w| w.1));
            p.live.retain(|w| w.2 == Fate::Open);
        }
    }

    /// A leg goes away.
    pub fn lose(&mut self, leg: usize) {
        tell!(self, "leg {leg} is lost");
        self.doubt(leg);
        lose(&self.disks[leg]);
        if let Some(graph) = self.graph.as_mut() {
            graph.device_event(leg as u32, DeviceEvent::Lost, self.now, &mut self.events);
            self.hear();
        }
    }

    /// An operator asks for something.
    pub fn admin(&mut self, admin: Admin) -> Result<(), AdminError> {
        tell!(self, "{admin:?}");
        let graph = self.graph.as_mut().expect("booted");
        let result = graph.admin(MIRROR, admin, self.now, &mut self.events);
        self.hear();
        result
    }

    /// A leg is replaced by a blank one, when the last request to the old one has ended.
    pub fn replace(&mut self, leg: usize, with: &str) -> Result<(), AdminError> {
        tell!(self, "leg {leg} is replaced: {with}");
        let solos = self.counter("solos");
        let was_member = self.counter(["leg_a_is_member", "leg_b_is_member"][leg]) == 1;
        self.admin(Admin::Replace(leg as u8))?;
        // The old leg is pulled out when the other one has said durably that it goes on alone.
        for _ in 0..10_000 {
            let is_alone = !was_member || self.counter("solos") > solos;
            if is_alone && self.disk(leg).pending() == 0 || !self.step() {
                break;
            }
        }
        if was_member && self.counter("solos") == solos {
            self.back(leg); // a cut or a failure came first: the old leg is still the one
            return Ok(());
        }
        let disk = {
            let old = self.disk(leg);
            let mut disk = Disk::new(old.size, self.layout.data, self.setup.seed * 2 + 77);
            (disk.delay, disk.forgets) = (old.delay, old.forgets);
            disk
        };
        // The machine of the leg goes on with another medium.
        let old = std::mem::replace(&mut *self.disk(leg), disk);
        self.removed = Some(Arc::new(Mutex::new(old)));
        self.back(leg);
        Ok(())
    }

    /// Sectors of a leg change by themselves.
    pub fn corrupt(&mut self, leg: usize, first: u64, count: u64) {
        self.rotten = true;
        let mut disk = self.disk(leg);
        (first..first + count).for_each(|s| disk.rot(s));
    }

    /// A leg answers nothing for a while.
    pub fn freeze(&mut self, leg: usize, span: Span) {
        tell!(self, "leg {leg} freezes for {span}");
        let until = self.now + span;
        self.disk(leg).frozen_until = until;
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
        let graph = self.graph.as_mut().expect("booted");
        graph.close(MIRROR, self.now, &mut self.events);
        while self.graph().is_open(MIRROR) && self.step() {}
        let pending = self.disks.iter().map(|d| d.lock().expect("no panic inside").pending()).sum::<usize>();
        if pending > 0 && !self.is_over() {
            self.complain(format!("{pending} requests are under way at the end"));
        }
        self.run(1_000_000);
        if self.graph().is_open(MIRROR) {
            self.complain("the mirror does not close".into());
        }
    }

    /// `quiet_means_equal_and_clean`: both legs hold the same data and no mark is left.
    pub fn check_equal(&mut self) {
        let differs = {
            let (a, b) = (self.disk(A), self.disk(B));
            let touched: BTreeSet<u64> = a.touched().union(&b.touched()).copied().collect();
            let end = self.layout.data.sectors();
            let data = touched.into_iter().filter(|&s| s < end);
            data.map(|s| (s, a.now(s).clone(), b.now(s).clone())).find(|(_, x, y)| x != y)
        };
        if let Some((s, x, y)) = differs {
            let stale = self.counter("stale_regions");
            self.complain(format!(
                "quiet_means_equal_and_clean: sector {s} is {x:?} on a and {y:?} on b, {stale} regions are stale"
            ));
        }
        for name in ["dirty_regions", "stale_regions", "active_regions"] {
            let n = self.counter(name);
            if n != 0 {
                self.complain(format!("quiet_means_equal_and_clean: {name} is {n}"));
            }
        }
        let living = self.graph().pool.living();
        if living != 0 && self.counter("scrub_is_active") == 0 {
            self.complain(format!("{living} payload buffers are held by nobody"));
        }
    }

    /// Both legs present and everything quiet.
    pub fn is_pair(&self) -> bool {
        self.counter("leg_a_is_member") + self.counter("leg_b_is_member") == 2
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
