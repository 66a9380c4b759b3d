//! The smallest driver: a virtual clock and block media in memory. For tests of machines.
//!
//! It stores stamps (and metadata bytes), serves every block medium at once after the modelled time, and keeps what the
//! host asked for until the test takes it. It has no crash model beyond [`Testbed::crash`], which drops every machine and
//! keeps the media as they are. The simulator is the place for more.

use crate::graph::{Driver, Graph};
use crate::load::{StackError, StackFile};
use crate::stack::{BuildOptions, Export, Stack};
use nandu_base::{
    Admin, AdminError, Ask, ByteLen, ByteOffset, Content, Counter, Deal, DealError, Dealt, DeviceEvent,
    ErrorKind, Flags, Instant, IoError, MediumSpec, Op, OpenError, OpenOptions, Payload, PayloadPool,
    Registry, Report, ReqId, Request, RequestTable, SECTOR, Sector, Span, Stamp, TimerKey,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A request of the host that is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The number that [`Testbed::submit`] returned.
    pub serial: u32,
    /// What was asked.
    pub op: Op,
    /// The failure, if there was one.
    pub error: Option<IoError>,
    /// From submission to the end.
    pub latency: Span,
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

/// What the media of a testbed hold.
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
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    pending: BTreeMap<u64, Event>,
    disks: BTreeMap<u32, Disk>,
    bad: Vec<BadExtent>,
    missing: Vec<u32>,
    done: Vec<Done>,
    outstanding: usize,
}

impl Host {
    fn push(&mut self, at: Instant, event: Event) {
        self.seq += 1;
        self.pending.insert(self.seq, event);
        self.events.push(Reverse((at, self.seq)));
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
            at: now,
            data: (0..count).map(stamp).collect(),
        });
        self.outstanding -= 1;
    }
}

/// A stack in operation on a virtual clock.
pub struct Testbed {
    stack: Stack,
    options: BuildOptions,
    graph: Graph,
    host: Host,
    exports: Vec<Export>,
    serial: u32,
}

impl Testbed {
    /// Loads, builds and opens the stack of `text`. Panics when a machine does not open.
    pub fn new(text: &str, registry: &Registry, options: BuildOptions) -> Result<Testbed, StackError> {
        let stack = StackFile::parse(text, "test.toml")?.load(registry)?;
        let host = Host {
            now: Instant::ZERO,
            seq: 0,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            disks: BTreeMap::new(),
            bad: Vec::new(),
            missing: Vec::new(),
            done: Vec::new(),
            outstanding: 0,
        };
        let graph = Graph::new(Vec::new(), Content::Stamps, 1);
        let mut bed = Testbed { stack, options, graph, host, exports: Vec::new(), serial: 0 };
        bed.start()?;
        Ok(bed)
    }

    fn start(&mut self) -> Result<(), StackError> {
        let opened = self.start_as(OpenOptions { create: true, ..OpenOptions::default() })?;
        opened.unwrap_or_else(|(device, error)| panic!("{device} does not open: {error:?}"));
        Ok(())
    }

    /// Builds and opens; which machine does not open, and why.
    fn start_as(&mut self, how: OpenOptions) -> Result<Result<(), (String, OpenError)>, StackError> {
        let built = self.stack.build(&self.options)?;
        self.exports = built.exports.clone();
        for (node, part) in built.parts.iter().enumerate() {
            if let MediumSpec::Block(spec) = &part.medium {
                self.host.disks.entry(node as u32).or_insert(Disk {
                    latency: spec.latency,
                    bytes_per_second: spec.bytes_per_second,
                    free_at: self.host.now,
                    cells: BTreeMap::new(),
                });
            }
        }
        let tenants = built.tenants.len() + 1;
        self.graph = Graph::new(built.into_parts(|_, _| None), Content::Stamps, tenants);
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
                return Ok(Err((self.graph.name(node).to_string(), error.clone())));
            }
        }
        Ok(Ok(()))
    }

    /// Drops every machine and every request, keeps the media, and opens again with another seed.
    pub fn crash(&mut self, seed: u64) {
        self.drop_all(seed);
        self.start().expect("what was built once can be built again");
    }

    /// As [`Testbed::crash`], but a machine may refuse.
    ///
    /// # Errors
    /// Why the first machine that does not open does not.
    pub fn reopen(&mut self, how: OpenOptions, seed: u64) -> Result<(), OpenError> {
        self.drop_all(seed);
        let opened = self.start_as(how).expect("what was built once can be built again");
        opened.map_err(|(_, error)| error)
    }

    fn drop_all(&mut self, seed: u64) {
        self.host.events.clear();
        self.host.pending.clear();
        self.host.outstanding = 0;
        self.options.seed = seed;
    }

    /// What all media hold.
    pub fn media(&self) -> Media {
        Media(self.host.disks.iter().map(|(&node, disk)| (node, disk.cells.clone())).collect())
    }

    /// All media hold this from now on.
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
        self.serial += 1;
        let payload = match op {
            Op::Read => self.graph.pool.allocate(ByteLen(len)),
            Op::Write => Payload::run(Stamp::new(self.serial, offset / SECTOR)),
            _ => Payload::NONE,
        };
        let (node, tenant) = (self.exports[export].node, self.exports[export].tenant);
        let (now, cookie) = (self.host.now, u64::from(self.serial));
        self.host.outstanding += 1;
        let (offset, len) = (ByteOffset(offset), ByteLen(len));
        self.graph.submit(node, op, flags, offset, len, payload, tenant, cookie, now, now, &mut self.host);
        self.serial
    }

    /// Takes the next event. False when there is none.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, seq))) = self.host.events.pop() else { return false };
        self.host.now = at;
        match self.host.pending.remove(&seq) {
            Some(Event::Complete(id)) => self.graph.complete(id, at, &mut self.host),
            Some(Event::Timer(node, key, generation)) => {
                self.graph.timer(node, key, generation, at, &mut self.host);
            }
            None => unreachable!("every event is pending once"),
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

    /// Runs until `at`.
    pub fn run_until(&mut self, at: Instant) {
        while self.host.events.peek().is_some_and(|Reverse((next, _))| *next <= at) {
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

    /// Takes back what [`Testbed::spoil`] did to a leaf.
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
        self.stack.device(device).expect("the test names a device of its stack")
    }

    /// Capacity of an export in bytes.
    pub fn capacity(&self, export: usize) -> u64 {
        self.graph.machine(self.exports[export].node).limits().capacity.0
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

    /// The machines.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.host.now
    }
}
