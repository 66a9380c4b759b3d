//! An array over test disks, driven event by event, with an oracle that knows what every sector may hold. What differs from array to
//! array is its [`Subject`].
//!
//! It drives the graph itself, not by the test kit: a session may end at any event, also within a start; legs are machines of its own whose
//! disks outlive them; a run without contents has no stamps to compare; and the oracle hears of each answer at its event.

#![allow(dead_code)] // no array uses all of it

pub mod damage;
pub mod disk;
mod events;
pub mod grow;
pub mod oracle;

use disk::{Disk, Leg, Shared, lose};
use events::{Due, Events};
use nandu_base::{
    Admin, AdminError, Ask, BuildContext, ByteLen, ByteOffset, Content, Counter, DeviceConfig, DeviceEvent,
    Flags, Instant, Notice, OpenError, OpenOptions, Payload, PayloadPool, Precondition, ReqId, SECTOR, Span,
    TenantId, TimerKey,
};
use nandu_stack::{Graph, Part};
use oracle::{Answer, Job, Possible};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A start of a set that is there.
pub const PLAIN: OpenOptions =
    OpenOptions { create: false, alone: false, assume_clean: false, salvage: false };
/// A start that makes the set.
pub const CREATE: OpenOptions = OpenOptions { create: true, ..PLAIN };
/// A start without a member that is not there.
pub const ALONE: OpenOptions = OpenOptions { alone: true, ..PLAIN };

/// Each of these planted faults is found, be it by an assertion of the machine. As many at a time as there are processors: one that is hard to
/// find takes long.
pub fn all_found(plants: Vec<&'static str>, find: impl Fn(&'static str) -> Option<String> + Sync) {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some(&name) = plants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = std::panic::catch_unwind(AssertUnwindSafe(|| find(name))).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                Some(format!("panic: {}", text.unwrap_or_default()))
            });
            results.lock().expect("nobody panics with it").push((name, found));
        }
    };
    std::thread::scope(|scope| {
        (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| {
            scope.spawn(work);
        });
    });
    let mut missed = Vec::new();
    for (name, found) in results.into_inner().expect("nobody panics with it") {
        match found {
            Some(wrong) => println!("{name}: {wrong}"),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// What is tested: the options of an array, and what is known of it.
pub trait Subject: Clone {
    /// Where things lie on a leg.
    type Layout;
    /// What a sector that nobody wrote may hold on soiled disks.
    const SOILED: &'static [u32];
    /// Whether no read overtakes a write of its sectors.
    const READS_WAIT_FOR_WRITES: bool;

    /// Where things lie, and the bytes of a leg.
    fn layout(&self) -> (Self::Layout, ByteLen);
    /// Bytes of data on each leg.
    fn data(&self) -> ByteLen;
    /// Names of the legs.
    fn legs(&self) -> Vec<String>;
    fn seed(&self) -> u64;
    /// The seed of disk `k`.
    fn disk_seed(&self, k: u64) -> u64;
    fn plants(&self) -> &BTreeSet<String>;
    /// Data sectors hold rubbish before the array is made.
    fn is_soiled(&self) -> bool;
    /// How many times slower than others leg `leg` is.
    fn slowness(&self, leg: usize) -> u64;
    /// One more leg; its name.
    fn add_leg(&mut self) -> String {
        unimplemented!("this array keeps the number of its legs")
    }
    /// Sectors of which every request is a multiple.
    fn unit(&self) -> u64 {
        1
    }
    /// Whether payloads and drives hold anything.
    fn content(&self) -> Content {
        Content::Stamps
    }
    /// Whether what is acknowledged is durable, flushed or not.
    fn acknowledges_durably(&self) -> bool {
        false
    }
    fn config(&self) -> Box<dyn DeviceConfig>;
    /// Looks at the array after each event.
    fn look(_world: &mut World<Self>) {}
    /// A leg is about to go: when it alone holds the newest data, what was not flushed is in doubt.
    fn holds_the_newest(_world: &mut World<Self>, _leg: usize) -> bool {
        false
    }
    /// Whether leg `leg` is used.
    fn is_member(world: &mut World<Self>, leg: usize) -> bool;
    /// How often the others have said durably that they go on without a leg.
    fn departures(world: &mut World<Self>) -> u64;
}

macro_rules! tell {
    ($world:expr, $($arg:tt)*) => {
        if $world.talks {
            eprintln!("{} {}", $world.now, format!($($arg)*));
        }
    };
}

pub struct World<S: Subject> {
    /// NANDU_ARRAY_TALK is set: say everything that happens.
    talks: bool,
    pub setup: S,
    pub disks: Vec<Shared>,
    pub layout: S::Layout,
    graph: Option<Graph>,
    /// The node of the array: legs that it was built with are below, added ones above.
    top: u32,
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
    /// What the array has said.
    pub notices: Vec<Notice>,
    /// The figures of earlier sessions, added up.
    pub figures: BTreeMap<&'static str, u64>,
    /// The first thing that was wrong.
    pub wrong: Option<String>,
}

impl<S: Subject> World<S> {
    pub fn new(setup: S) -> World<S> {
        let (layout, size) = setup.layout();
        let legs = setup.legs().len();
        let disk = |k: usize| {
            let mut disk = Disk::new(size, setup.data(), setup.disk_seed(k as u64));
            disk.delay *= setup.slowness(k);
            disk.forgets = setup.content() == Content::Nothing;
            if setup.is_soiled() {
                disk.soil(900 + k as u32);
            }
            Arc::new(Mutex::new(disk))
        };
        World {
            talks: std::env::var_os("NANDU_ARRAY_TALK").is_some(),
            disks: (0..legs).map(disk).collect(),
            layout,
            graph: None,
            top: legs as u32,
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

    pub fn complain(&mut self, what: String) {
        if self.is_over() {
            return;
        }
        let now = self.now;
        self.wrong.get_or_insert(format!("{now}: {what}"));
    }

    pub fn legs(&self) -> usize {
        self.disks.len()
    }

    /// The node of the array.
    pub fn top(&self) -> u32 {
        self.top
    }

    /// The node of a leg.
    fn node(&self, leg: usize) -> u32 {
        leg as u32 + u32::from(leg as u32 >= self.top)
    }

    /// Builds the machines and begins the start.
    pub fn boot(&mut self, how: OpenOptions) {
        tell!(self, "start {how:?}");
        self.top = self.disks.len() as u32;
        let limits: Vec<_> =
            self.disks.iter().map(|d| Leg::limits_of(&d.lock().expect("no panic inside"))).collect();
        let cx = BuildContext {
            name: "m",
            children: &limits,
            seed: self.setup.seed(),
            tenants: 2,
            shares: &[],
            planted: self.setup.plants(),
            precondition: Precondition::Empty,
        };
        let machine = self.setup.config().build(&cx).expect("the options are right");
        let leg = |(disk, name): (&Shared, String)| Part {
            name,
            machine: Box::new(Leg::new(Arc::clone(disk))),
            children: vec![],
            medium: None,
        };
        let mut parts: Vec<Part> = self.disks.iter().zip(self.setup.legs()).map(leg).collect();
        let children = (0..self.top()).collect();
        parts.push(Part { name: "m".into(), machine, children, medium: None });
        let mut graph = Graph::new(parts, self.setup.content(), 2);
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

    pub fn counter(&mut self, name: &str) -> u64 {
        Counter::of(&self.report(), name)
    }

    /// All counters as they stand.
    pub fn report(&mut self) -> Vec<Counter> {
        let top = self.top();
        self.graph.as_mut().expect("it runs").report(top, Ask::Counters).counters
    }

    /// Starts and waits until the start is over.
    pub fn open(&mut self, how: OpenOptions) -> Result<(), OpenError> {
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
                if leg < self.legs() {
                    self.lose(leg);
                }
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
        S::look(self);
        true
    }

    fn hear(&mut self) {
        for answer in std::mem::take(&mut self.events.answers) {
            let job = self.jobs.remove(&answer.cookie).expect("every request is answered once");
            tell!(self, "{}: answered {:?}", answer.cookie, answer.error);
            self.judge(&job, answer);
        }
        for (node, notice) in std::mem::take(&mut self.events.notices) {
            if node != self.top() {
                continue;
            }
            tell!(self, "{notice:?}");
            if matches!(notice, Notice::Differ { .. }) && !self.rotten {
                self.complain(format!(
                    "scrub_compares_current: {notice:?}, and nothing has changed by itself"
                ));
            }
            self.notices.push(notice);
        }
        if let Err(violation) = self.graph().check() {
            self.complain(violation.to_string());
        }
    }

    pub fn pool(&mut self) -> &mut PayloadPool {
        &mut self.graph.as_mut().expect("booted").pool
    }

    /// A buffer for a read of so many sectors.
    fn buffer(&mut self, sectors: u64) -> Payload {
        self.pool().allocate(ByteLen(sectors * SECTOR))
    }

    fn submit(&mut self, job: Job, payload: Payload) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let Job { op, first, count, serial, fua, .. } = job;
        tell!(self, "{cookie}: {} {first}+{count} fua {fua} serial {serial}", op.name());
        self.jobs.insert(cookie, job);
        let flags = if fua { Flags::FUA } else { Flags::NONE };
        let (at, len, tenant) = (ByteOffset(first * SECTOR), ByteLen(count * SECTOR), TenantId(1));
        let (top, now) = (self.top(), self.now);
        let graph = self.graph.as_mut().expect("booted");
        graph.submit(top, op, flags, at, len, payload, tenant, cookie, now, now, &mut self.events);
        self.hear();
        cookie
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

    /// As [`wait`](World::wait), unless the fuse has blown.
    pub fn wait_unless_over(&mut self, cookies: &[u64]) {
        if !self.is_over() {
            self.wait(cookies);
        }
    }

    pub fn is_ok(&self, cookie: u64) -> bool {
        self.answers.get(&cookie).is_some_and(|a| a.error.is_none())
    }

    /// Adds the figures of this session to those of earlier ones.
    pub fn keep_figures(&mut self) {
        let top = self.top();
        if let Some(graph) = &mut self.graph {
            let counters = graph.report(top, Ask::Counters).counters;
            counters.iter().for_each(|c| *self.figures.entry(c.name).or_default() += c.value);
        }
    }

    fn forget_session(&mut self) {
        self.keep_figures();
        self.graph = None;
        self.events = Events::default();
        self.jobs.clear();
        Self::all_in_doubt(&mut self.sectors);
    }

    /// Power is cut on all legs.
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

    /// A leg goes away.
    pub fn lose(&mut self, leg: usize) {
        tell!(self, "leg {leg} is lost");
        let is_open = self.graph.is_some() && self.opened() == Some(Ok(()));
        if is_open && S::holds_the_newest(self, leg) {
            tell!(self, "what was not flushed is in doubt");
            self.doubts += 1;
            for p in self.sectors.values_mut() {
                p.base.extend(p.live.iter().filter(|w| w.2 != oracle::Fate::Open).map(|w| w.1));
                p.live.retain(|w| w.2 == oracle::Fate::Open);
            }
        }
        lose(&self.disks[leg]);
        let node = self.node(leg);
        if let Some(graph) = self.graph.as_mut() {
            graph.device_event(node, DeviceEvent::Lost, self.now, &mut self.events);
            self.hear();
        }
    }

    /// An operator asks for something.
    pub fn admin(&mut self, admin: Admin) -> Result<(), AdminError> {
        tell!(self, "{admin:?}");
        let top = self.top();
        let graph = self.graph.as_mut().expect("booted");
        let result = graph.admin(top, admin, self.now, &mut self.events);
        self.hear();
        result
    }

    /// The medium of a leg becomes longer.
    pub fn lengthen(&mut self, leg: usize, size: ByteLen) {
        tell!(self, "leg {leg} has {size}");
        self.disk(leg).size = size;
        let node = self.node(leg);
        if let Some(graph) = self.graph.as_mut() {
            graph.lengthen(node, size);
        }
    }

    /// Adds a blank leg, which is not there yet: [`World::back`] brings it. Its number.
    pub fn extend(&mut self) -> Result<usize, AdminError> {
        let leg = self.disks.len();
        let disk = {
            let other = self.disk(0);
            let mut disk = Disk::new(other.size, self.setup.data(), self.setup.disk_seed(leg as u64));
            (disk.forgets, disk.lost) = (other.forgets, true);
            Arc::new(Mutex::new(disk))
        };
        let mut setup = self.setup.clone();
        let name = setup.add_leg();
        tell!(self, "leg {leg}, `{name}`, is added");
        let machine = Box::new(Leg::new(Arc::clone(&disk)));
        let part = Part { name, machine, children: vec![], medium: None };
        let top = self.top();
        let graph = self.graph.as_mut().expect("booted");
        let answer = graph.extend(top, part, self.now, &mut self.events);
        self.hear();
        answer.map(|_| {
            self.disks.push(disk);
            self.setup = setup;
            leg
        })
    }

    /// A leg is replaced by a blank one, when the last request to the old one has ended.
    pub fn replace(&mut self, leg: usize, with: &str) -> Result<(), AdminError> {
        tell!(self, "leg {leg} is replaced: {with}");
        let departures = S::departures(self);
        let was_member = S::is_member(self, leg);
        self.admin(Admin::Replace(leg as u8))?;
        // The old leg is pulled out when the others have said durably that they go on alone.
        for _ in 0..10_000 {
            let is_alone = !was_member || S::departures(self) > departures;
            if is_alone && self.disk(leg).pending() == 0 || !self.step() {
                break;
            }
        }
        if was_member && S::departures(self) == departures {
            self.back(leg); // a cut or a failure came first: the old leg is still the one
            return Ok(());
        }
        let disk = {
            let old = self.disk(leg);
            let mut disk = Disk::new(old.size, self.setup.data(), self.setup.disk_seed(77));
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

    /// A leg says that it collects garbage, or that it does no more.
    pub fn press(&mut self, leg: usize, on: bool) {
        tell!(self, "leg {leg} collects: {on}");
        let node = self.node(leg);
        let graph = self.graph.as_mut().expect("booted");
        graph.device_event(node, DeviceEvent::GcPressure(on), self.now, &mut self.events);
        self.hear();
    }

    /// A leg comes back with what it held durably.
    pub fn back(&mut self, leg: usize) {
        tell!(self, "leg {leg} is back");
        self.disk(leg).lost = false;
        let node = self.node(leg);
        if let Some(graph) = self.graph.as_mut() {
            if !graph.is_open(node) {
                graph.open(node, OpenOptions::default(), self.now, &mut self.events);
            }
            graph.device_event(node, DeviceEvent::Back, self.now, &mut self.events);
            self.hear();
        }
    }

    pub fn begin_close(&mut self) {
        let top = self.top();
        let graph = self.graph.as_mut().expect("booted");
        graph.close(top, self.now, &mut self.events);
    }

    pub fn close(&mut self) {
        self.begin_close();
        let top = self.top();
        while self.graph().is_open(top) && self.step() {}
        let pending = self.disks.iter().map(|d| d.lock().expect("no panic inside").pending()).sum::<usize>();
        if pending > 0 && !self.is_over() {
            self.complain(format!("{pending} requests are under way at the end"));
        }
        self.run(1_000_000);
        if self.graph().is_open(top) {
            self.complain("the array does not close".into());
        }
    }

    /// When everything is quiet nobody holds a buffer.
    pub fn check_buffers(&mut self) {
        if self.counter("scrub_is_active") == 0 {
            self.check_quiet();
        }
    }

    /// The same of an array that does not scrub.
    pub fn check_quiet(&mut self) {
        let living = self.graph().pool.living();
        if living != 0 {
            self.complain(format!("{living} payload buffers are held by nobody"));
        }
    }
}
