//! The smallest driver: a virtual clock, block media in memory, and computed media that tests bring along. For tests of machines.
//!
//! It stores stamps (and metadata bytes), serves every block medium at once after the modelled time, and keeps what the
//! host asked for until the test takes it. Its crash model is [`Bed::crash`] and [`Bed::cut`]: every machine is dropped, block media
//! stay as they are, computed media undo or tear what had not ended. The simulator is the place for more.

use crate::{Driver, Graph, Part};
use nandu_base::{
    Admin, AdminError, Ask, ByteLen, ByteOffset, Content, Counter, CriticalPath, Deal, DealError, Dealt,
    DeviceEvent, ErrorKind, Flags, Instant, IoError, Machine, Medium, MediumSpec, Op, OpenError, OpenOptions,
    Payload, PayloadPool, Report, ReqId, Request, RequestTable, Rng, SECTOR, Sector, Span, Stamp, TenantId,
    TimerKey, Violation,
};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What a bed runs.
pub struct Machines {
    /// Children before their parents. A computed medium is new; after a crash the machine gets the one that it had.
    pub parts: Vec<Part>,
    /// Where requests come in, and whose they are.
    pub exports: Vec<(u32, TenantId)>,
    /// Tenants, SYSTEM among them.
    pub tenants: usize,
}

impl Machines {
    /// One leaf by itself, which `tenants` use: export 0 is that of the first.
    pub fn leaf(
        name: &str,
        machine: Box<dyn Machine>,
        medium: Option<Box<dyn Medium>>,
        tenants: u16,
    ) -> Machines {
        Machines {
            parts: vec![Part { name: name.into(), machine, children: Vec::new(), medium }],
            exports: (1..=tenants).map(|tenant| (0, TenantId(tenant))).collect(),
            tenants: usize::from(tenants) + 1,
        }
    }
}

/// A request of the host that is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The number that [`Bed::submit`] returned.
    pub serial: u32,
    /// What was asked.
    pub op: Op,
    /// The failure, if there was one.
    pub error: Option<IoError>,
    /// From submission to the end.
    pub latency: Span,
    /// What explains the latency; it adds up to it.
    pub path: CriticalPath,
    /// When it ended.
    pub at: Instant,
    /// Of a read: one stamp for each sector.
    pub data: Vec<Stamp>,
}

/// One stored sector: a stamp of user data, or bytes of a record.
#[derive(Clone, Debug)]
enum Cell {
    Stamp(Stamp),
    Bytes(Box<[u8]>),
}

/// A block medium.
struct Disk {
    latency: Span,
    bytes_per_second: u64,
    free_at: Instant,
    cells: BTreeMap<u64, Cell>,
}

/// What the block media of a bed hold.
pub struct Media(Vec<(u32, BTreeMap<u64, Cell>)>);

enum Event {
    Complete(ReqId),
    Timer(u32, TimerKey, u64),
}

/// Part of a device that fails, set by a test.
struct BadExtent {
    node: u32,
    offset: u64,
    len: u64,
    kind: ErrorKind,
}

/// Time, media and finished requests.
struct Host {
    now: Instant,
    seq: u64,
    events: BTreeMap<(Instant, u64), Event>,
    disks: BTreeMap<u32, Disk>,
    bad: Vec<BadExtent>,
    missing: Vec<u32>,
    done: Vec<Done>,
    outstanding: usize,
}

impl Host {
    fn push(&mut self, at: Instant, event: Event) {
        self.seq += 1;
        self.events.insert((at, self.seq), event);
    }
}

impl Disk {
    fn serve(&mut self, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool) {
        let request = &requests[id];
        let first = if request.op == Op::Flush { 0 } else { request.offset.sector() };
        for i in 0..request.len.sectors() {
            let at = first + i;
            match request.op {
                Op::Read => match self.cells.get(&at) {
                    Some(Cell::Stamp(stamp)) => pool.put_sector(request.payload, i, Sector::Stamp(*stamp)),
                    Some(Cell::Bytes(bytes)) => pool.put_sector(request.payload, i, Sector::Bytes(bytes)),
                    None => pool.put_sector(request.payload, i, Sector::Stamp(Stamp::ZERO)),
                },
                Op::Write => {
                    let cell = match pool.sector(request.payload, i) {
                        Some(Sector::Stamp(stamp)) => Cell::Stamp(stamp),
                        Some(Sector::Bytes(bytes)) => Cell::Bytes(bytes.into()),
                        None => Cell::Stamp(Stamp::ZERO),
                    };
                    self.cells.insert(at, cell);
                }
                _ => drop(self.cells.remove(&at)),
            }
        }
    }

    fn end(&mut self, now: Instant, len: ByteLen) -> Instant {
        let transfer = u128::from(len.0) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.free_at = self.free_at.later(now) + Span(transfer as u64);
        self.free_at + self.latency
    }
}

impl Driver for Host {
    fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.push(at, Event::Complete(id));
    }

    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant) {
        self.push(at, Event::Timer(node, key, generation));
    }

    fn medium(&mut self, node: u32, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool) {
        let disk = self.disks.get_mut(&node).expect("the leaf has a block medium");
        let request = &requests[id];
        let (start, end) = (request.offset.0, request.end().0);
        let touches = |b: &&BadExtent| b.node == node && b.offset < end && start < b.offset + b.len;
        if let Some(bad) = self.bad.iter().find(touches) {
            let from = bad.offset.max(start);
            let len = (bad.offset + bad.len).min(end) - from;
            requests[id].fail_part(bad.kind, ByteLen(from - start), ByteLen(len));
        } else {
            disk.serve(id, requests, pool);
        }
        let moved =
            if matches!(requests[id].op, Op::Read | Op::Write) { requests[id].len } else { ByteLen::ZERO };
        let at = disk.end(self.now, moved);
        self.push(at, Event::Complete(id));
    }

    fn host_done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        assert_eq!(request.path.total(), now.since(request.submitted), "the path explains the latency");
        let count = if request.op == Op::Read { request.len.sectors() } else { 0 };
        let stamp = |i| match pool.sector(request.payload, i) {
            Some(Sector::Stamp(stamp)) => stamp,
            _ => Stamp::METADATA,
        };
        self.done.push(Done {
            serial: request.cookie as u32,
            op: request.op,
            error: request.error,
            latency: now.since(request.submitted),
            path: request.path,
            at: now,
            data: (0..count).map(stamp).collect(),
        });
        self.outstanding -= 1;
    }
}

/// Makes the machines with a seed.
type Build = Box<dyn FnMut(u64) -> Machines + Send>;

/// Machines in operation on a virtual clock.
pub struct Bed {
    build: Build,
    seed: u64,
    graph: Graph,
    host: Host,
    exports: Vec<(u32, TenantId)>,
    serial: u32,
}

impl Bed {
    /// Builds and opens machines with `seed`. They are built again after each crash. Panics when a machine does not open.
    ///
    /// # Errors
    /// Why they cannot be built.
    pub fn new<E: Debug>(
        seed: u64,
        mut build: impl FnMut(u64) -> Result<Machines, E> + Send + 'static,
    ) -> Result<Bed, E> {
        let machines = build(seed)?;
        let host = Host {
            now: Instant::ZERO,
            seq: 0,
            events: BTreeMap::new(),
            disks: BTreeMap::new(),
            bad: Vec::new(),
            missing: Vec::new(),
            done: Vec::new(),
            outstanding: 0,
        };
        let build: Build = Box::new(move |seed| build(seed).expect("what was built once can be built again"));
        let graph = Graph::new(Vec::new(), Content::Stamps, 1);
        let mut bed = Bed { build, seed, graph, host, exports: Vec::new(), serial: 0 };
        bed.start(machines);
        Ok(bed)
    }

    fn start(&mut self, machines: Machines) {
        let opened = self.start_as(machines, OpenOptions { create: true, ..OpenOptions::default() });
        opened.unwrap_or_else(|(device, error)| panic!("{device} does not open: {error:?}"));
    }

    /// Opens; which machine does not open, and why.
    fn start_as(&mut self, machines: Machines, how: OpenOptions) -> Result<(), (String, OpenError)> {
        self.exports = machines.exports;
        self.graph = Graph::new(machines.parts, Content::Stamps, machines.tenants);
        for node in 0..self.graph.len() as u32 {
            if let MediumSpec::Block(spec) = self.graph.machine(node).needs().medium {
                self.host.disks.entry(node).or_insert(Disk {
                    latency: spec.latency,
                    bytes_per_second: spec.bytes_per_second,
                    free_at: self.host.now,
                    cells: BTreeMap::new(),
                });
            }
        }
        for node in 0..self.graph.len() as u32 {
            if self.host.missing.contains(&node) {
                let device = self.graph.name(node).to_string();
                self.graph.open_failed(node, OpenError::Gone { device });
                continue;
            }
            self.graph.open(node, how, self.host.now, &mut self.host);
            while self.graph.open_result(node).is_none() {
                assert!(self.step(), "{} waits for nothing while it opens", self.graph.name(node));
            }
            if let Some(Err(error)) = self.graph.open_result(node) {
                return Err((self.graph.name(node).to_string(), error.clone()));
            }
        }
        Ok(())
    }

    /// Drops every machine and every request, keeps the media, and opens again with another seed.
    pub fn crash(&mut self, seed: u64) {
        let machines = self.rebuilt(seed, &mut Rng::new(seed));
        self.start(machines);
    }

    /// As [`Bed::crash`], with the same seed; `rng` says what computed media tear.
    pub fn cut(&mut self, rng: &mut Rng) {
        let machines = self.rebuilt(self.seed, rng);
        self.start(machines);
    }

    /// As [`Bed::crash`], but a machine may refuse.
    ///
    /// # Errors
    /// Why the first machine that does not open does not.
    pub fn reopen(&mut self, how: OpenOptions, seed: u64) -> Result<(), OpenError> {
        let machines = self.rebuilt(seed, &mut Rng::new(seed));
        self.start_as(machines, how).map_err(|(_, error)| error)
    }

    /// New machines on the media of the old ones.
    fn rebuilt(&mut self, seed: u64, rng: &mut Rng) -> Machines {
        self.host.events.clear();
        self.host.outstanding = 0;
        self.seed = seed;
        let mut machines = (self.build)(seed);
        for (part, medium) in machines.parts.iter_mut().zip(self.graph.take_media()) {
            part.medium = medium;
            if let Some(medium) = &mut part.medium {
                medium.crash(self.host.now, rng);
            }
        }
        machines
    }

    /// Takes the computed media away: the machines go on, and nothing is stored any more.
    pub fn forget_media(&mut self) {
        self.graph.take_media();
    }

    /// What all block media hold.
    pub fn media(&self) -> Media {
        Media(self.host.disks.iter().map(|(&node, disk)| (node, disk.cells.clone())).collect())
    }

    /// All block media hold this from now on.
    pub fn restore(&mut self, media: &Media) {
        for (node, cells) in &media.0 {
            self.host.disks.get_mut(node).expect("they are of this stack").cells.clone_from(cells);
        }
    }

    /// One leaf holds this from now on.
    pub fn restore_one(&mut self, media: &Media, device: &str) {
        let node = self.node(device);
        let (_, cells) = media.0.iter().find(|(of, _)| *of == node).expect("it is a leaf");
        self.host.disks.get_mut(&node).expect("it is of this stack").cells.clone_from(cells);
    }

    /// One leaf is blank from now on.
    pub fn wipe(&mut self, device: &str) {
        let node = self.node(device);
        self.host.disks.get_mut(&node).expect("it is a leaf of this stack").cells.clear();
    }

    /// Sectors of a leaf in which bytes of records stand, in order.
    pub fn records(&self, device: &str) -> Vec<u64> {
        let cells = &self.host.disks[&self.node(device)].cells;
        cells.iter().filter(|(_, cell)| matches!(cell, Cell::Bytes(_))).map(|(&sector, _)| sector).collect()
    }

    /// The bytes of a record in a sector of a leaf. Panics where there is none.
    pub fn record_mut(&mut self, device: &str, sector: u64) -> &mut [u8] {
        let node = self.node(device);
        match self.host.disks.get_mut(&node).and_then(|disk| disk.cells.get_mut(&sector)) {
            Some(Cell::Bytes(bytes)) => bytes,
            _ => panic!("sector {sector} of {device} holds no record"),
        }
    }

    /// Sends a request to export `export`. A write carries stamps of its serial number, which is returned.
    pub fn submit(&mut self, export: usize, op: Op, flags: Flags, offset: u64, len: u64) -> u32 {
        let payload = match op {
            Op::Read => self.graph.pool.allocate(ByteLen(len)),
            Op::Write => Payload::run(Stamp::new(self.serial + 1, offset / SECTOR)),
            _ => Payload::NONE,
        };
        self.send(export, op, flags, offset, len, payload);
        self.serial
    }

    fn send(
        &mut self,
        export: usize,
        op: Op,
        flags: Flags,
        offset: u64,
        len: u64,
        payload: Payload,
    ) -> ReqId {
        self.serial += 1;
        let (node, tenant) = self.exports[export];
        let (now, cookie) = (self.host.now, u64::from(self.serial));
        self.host.outstanding += 1;
        let (offset, len) = (ByteOffset(offset), ByteLen(len));
        self.graph.submit(node, op, flags, offset, len, payload, tenant, cookie, now, now, &mut self.host)
    }

    /// Sends a request with a payload of the test's, or a buffer where a read has none, and says how it ends as soon as that is known: the clock
    /// goes on only until a machine has named the end, which may lie ahead.
    pub fn foretell(
        &mut self,
        export: usize,
        op: Op,
        flags: Flags,
        offset: u64,
        len: u64,
        payload: Payload,
    ) -> Done {
        let payload = match op {
            Op::Read => self.graph.pool.allocate(ByteLen(len)),
            _ => payload,
        };
        let id = self.send(export, op, flags, offset, len, payload);
        let serial = self.serial;
        loop {
            if let Some(at) = self.host.done.iter().rposition(|done| done.serial == serial) {
                return self.host.done.remove(at);
            }
            let is_its_end = |event: &Event| matches!(event, Event::Complete(of) if *of == id);
            let end = self.host.events.iter().find(|(_, event)| is_its_end(event)).map(|(&when, _)| when);
            match end {
                Some(when) => {
                    self.host.events.remove(&when);
                    self.graph.complete(id, when.0, &mut self.host);
                }
                None => assert!(self.step(), "request {serial} is never finished"),
            }
        }
    }

    /// Takes the next event. False when there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.host.events.pop_first() else { return false };
        self.host.now = at;
        match event {
            Event::Complete(id) => self.graph.complete(id, at, &mut self.host),
            Event::Timer(node, key, generation) => {
                self.graph.timer(node, key, generation, at, &mut self.host);
            }
        }
        true
    }

    /// Events that are to come, timers that were set anew among them.
    pub fn to_come(&self) -> usize {
        self.host.events.len()
    }

    /// Runs until no request of the host is outstanding, and checks every machine. Panics when nothing moves any more.
    pub fn settle(&mut self) {
        while self.host.outstanding > 0 {
            assert!(self.step(), "{} requests are never finished", self.host.outstanding);
        }
        self.graph.check().expect("every invariant holds");
    }

    /// Lets `span` pass.
    pub fn pass(&mut self, span: Span) {
        self.run_until(self.host.now + span);
    }

    /// Runs until nothing is to come, and checks every machine; how many events that took. Panics when there is no end of them.
    pub fn rest(&mut self) -> usize {
        let mut taken = 0;
        while self.step() {
            taken += 1;
            assert!(taken < 1_000_000, "the machines do not come to rest");
        }
        self.graph.check().expect("every invariant holds");
        taken
    }

    /// Runs until `at`, if it is to come.
    pub fn run_until(&mut self, at: Instant) {
        while self.host.events.first_key_value().is_some_and(|((next, _), _)| *next <= at) {
            self.step();
        }
        self.host.now = self.host.now.later(at);
    }

    /// Sends one request and runs until it is done.
    pub fn go(&mut self, op: Op, offset: u64, len: u64) -> Done {
        let serial = self.submit(0, op, Flags::NONE, offset, len);
        self.settle();
        let at = self.host.done.iter().position(|d| d.serial == serial).expect("the request is done");
        self.host.done.remove(at)
    }

    /// Closes every machine, parents first.
    pub fn close(&mut self) {
        for node in self.graph.order().rev() {
            self.graph.close(node, self.host.now, &mut self.host);
            while self.graph.is_open(node) {
                assert!(self.step(), "{} waits for nothing while it closes", self.graph.name(node));
            }
        }
    }

    /// Runs until a request of the host is finished, and takes it; of several the first. Panics when nothing moves any more.
    pub fn next_done(&mut self) -> Done {
        while self.host.done.is_empty() {
            assert!(self.step(), "{} requests are never finished", self.host.outstanding);
        }
        self.host.done.remove(0)
    }

    /// Takes the finished requests, in the order of their ends.
    pub fn take_done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.host.done)
    }

    /// What a device holds at byte `offset` of its medium.
    pub fn stored(&self, device: &str, offset: u64) -> Stamp {
        let node = self.node(device);
        match self.host.disks[&node].cells.get(&(offset / SECTOR)) {
            Some(Cell::Stamp(stamp)) => *stamp,
            Some(Cell::Bytes(_)) => Stamp::METADATA,
            None => Stamp::ZERO,
        }
    }

    /// Makes part of a leaf fail.
    pub fn spoil(&mut self, device: &str, offset: u64, len: u64, kind: ErrorKind) {
        let node = self.node(device);
        self.host.bad.push(BadExtent { node, offset, len, kind });
    }

    /// Takes back what [`Bed::spoil`] did to a leaf.
    pub fn heal(&mut self, device: &str) {
        let node = self.node(device);
        self.host.bad.retain(|bad| bad.node != node);
    }

    /// These devices are not there at the starts that follow.
    pub fn miss(&mut self, devices: &[&str]) {
        self.host.missing = devices.iter().map(|device| self.node(device)).collect();
    }

    /// A device says something about itself to those that stand on it.
    pub fn device_event(&mut self, device: &str, event: DeviceEvent) {
        let node = self.node(device);
        self.graph.device_event(node, event, self.host.now, &mut self.host);
    }

    /// An operator asks a device for something.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn admin(&mut self, device: &str, admin: Admin) -> Result<(), AdminError> {
        let node = self.node(device);
        self.graph.admin(node, admin, self.host.now, &mut self.host)
    }

    /// The number of a device.
    pub fn node(&self, device: &str) -> u32 {
        let mut nodes = 0..self.graph.len() as u32;
        nodes.find(|&node| self.graph.name(node) == device).expect("the test names a device of its stack")
    }

    /// Capacity of an export in bytes.
    pub fn capacity(&self, export: usize) -> u64 {
        self.graph.machine(self.exports[export].0).limits().capacity.0
    }

    /// Tells `device` and what lies below it that a request will come.
    pub fn foresee(&mut self, device: &str, op: Op, offset: u64, len: u64) {
        let node = self.node(device);
        self.graph.foresee(node, op, ByteOffset(offset), ByteLen(len));
    }

    /// Changes the space that tenants have inside a device.
    ///
    /// # Errors
    /// When the device refuses it.
    pub fn deal(&mut self, device: &str, deal: Deal) -> Result<Dealt, DealError> {
        let node = self.node(device);
        self.graph.deal(node, deal, self.host.now, &mut self.host)
    }

    /// The figures of a device.
    pub fn report(&mut self, device: &str, ask: Ask) -> Report {
        let node = self.node(device);
        self.graph.report(node, ask)
    }

    /// One of its counters. Panics when it has none of this name.
    pub fn counter(&mut self, device: &str, name: &str) -> u64 {
        Counter::of(&self.report(device, Ask::Counters).counters, name)
    }

    /// The first violation that a machine's check or a path reports.
    ///
    /// # Errors
    /// What is violated.
    pub fn check(&self) -> Result<(), Violation> {
        self.graph.check()
    }

    /// Whether what tenants were charged adds up to the busy time of everything that a device is made of (I-13).
    pub fn charges_match(&mut self, device: &str) -> bool {
        let node = self.node(device);
        let busy = self.graph.report(node, Ask::Busy).busy;
        let charges = self.graph.charges(node);
        busy.iter().all(|&(resource, span, _)| charges.busy(resource) == span)
    }

    /// The machines.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.host.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Cx, Limits, Step};
    use std::convert::Infallible;

    /// A leaf that names the end of a read at once, and that of a write when its timer fires.
    struct Slow {
        limits: Limits,
        waits: Vec<ReqId>,
    }

    impl Machine for Slow {
        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
            if cx.requests[id].op == Op::Read {
                return Step::FinishAt(id, cx.now + Span(500));
            }
            self.waits.push(id);
            cx.wake_at(TimerKey(0), cx.now + Span(100));
            Step::Idle
        }

        fn timer(&mut self, _: TimerKey, cx: &mut Cx<'_>) -> Step {
            Step::FinishAt(self.waits.remove(0), cx.now + Span(50))
        }
    }

    fn bed() -> Bed {
        let build = |_| {
            let slow = Slow { limits: Limits::plain(ByteLen::mib(1)), waits: Vec::new() };
            Ok::<_, Infallible>(Machines::leaf("slow", Box::new(slow), None, 1))
        };
        Bed::new(1, build).expect("nothing fails")
    }

    #[test]
    fn an_end_that_is_named_costs_no_time_and_one_that_is_not_only_until_it_is() {
        let mut bed = bed();
        let read = bed.foretell(0, Op::Read, Flags::NONE, 0, 512, Payload::NONE);
        assert_eq!((read.at, bed.now()), (Instant(500), Instant::ZERO));
        let write = bed.foretell(0, Op::Write, Flags::NONE, 0, 512, Payload::NONE);
        assert_eq!((write.at, write.latency, bed.now()), (Instant(150), Span(150), Instant(100)));
        assert_eq!(bed.to_come(), 0, "nothing is finished twice");
    }

    #[test]
    fn a_cut_forgets_requests_and_timers_and_goes_on_at_its_time() {
        let mut bed = bed();
        bed.submit(0, Op::Write, Flags::NONE, 0, 512);
        bed.pass(Span(20));
        bed.cut(&mut Rng::new(1));
        assert_eq!((bed.rest(), bed.now(), bed.take_done()), (0, Instant(20), Vec::new()));
        assert_eq!(bed.go(Op::Read, 0, 512).at, Instant(520));
    }
}
