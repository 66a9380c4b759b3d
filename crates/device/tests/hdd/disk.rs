//! A disk without a stack around it: the test is its driver.

use nandu_base::{
    BuildContext, ByteLen, ByteOffset, ChargeTable, Content, Cx, Effect, Flags, Instant, Machine, Op,
    OpenOptions, Owner, Payload, PayloadPool, Peek, Precondition, Registry, ReqId, RequestTable, Step,
    TenantId, TimerKey,
};
use nandu_device::hdd;
use std::collections::{BTreeMap, BTreeSet};

/// A disk and its driver.
pub struct Disk {
    machine: Box<dyn Machine>,
    requests: RequestTable,
    pool: PayloadPool,
    charges: ChargeTable,
    effects: Vec<Effect>,
    timers: BTreeMap<(Instant, u32), ()>,
    ends: BTreeSet<(Instant, u32)>,
    now: Instant,
}

impl Disk {
    /// A disk with these options; the error in words.
    pub fn new(options: &str) -> Result<Disk, String> {
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
        let table = options.parse().expect("the test writes TOML");
        let mut config = (hdd::kind().parse)(table).map_err(|e| e.to_string())?;
        let files =
            Registry::new().with_files(|path| std::fs::read_to_string(path).map_err(|e| e.to_string()));
        config.settle(&files).map_err(|e| e.to_string())?;
        let machine = config.machine(&cx).map_err(|e| e.to_string())?;
        let mut disk = Disk {
            machine,
            requests: RequestTable::new(),
            pool: PayloadPool::new(Content::Nothing),
            charges: ChargeTable::new(2),
            effects: Vec::new(),
            timers: BTreeMap::new(),
            ends: BTreeSet::new(),
            now: Instant::ZERO,
        };
        disk.call(|machine, cx| machine.open(OpenOptions::default(), cx));
        Ok(disk)
    }

    /// Blocks of 512 B.
    pub fn blocks(&self) -> u64 {
        self.machine.limits().capacity.sectors()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn call(&mut self, act: impl FnOnce(&mut dyn Machine, &mut Cx<'_>) -> Step) {
        let mut cx = Cx {
            now: self.now,
            requests: &mut self.requests,
            pool: &mut self.pool,
            medium: None,
            charges: &mut self.charges,
            peek: Peek::new(&[], &[], self.now),
            effects: &mut self.effects,
        };
        let step = act(&mut *self.machine, &mut cx);
        self.take(step);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Step(step) => self.take(step),
                Effect::Wake(key, at) => {
                    self.timers.retain(|&(_, k), ()| k != key.0);
                    self.timers.insert((at, key.0), ());
                }
                Effect::CancelWake(key) => self.timers.retain(|&(_, k), ()| k != key.0),
                Effect::Event(_) | Effect::Used(..) | Effect::Opened(_) | Effect::Closed => {}
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Idle => {}
            Step::FinishAt(id, at) => drop(self.ends.insert((at, id.0))),
            other => panic!("a disk that works does not answer {other:?}"),
        }
    }

    /// Sends a request in at `at`, not before now; nothing else happens until then.
    pub fn submit(&mut self, at: Instant, op: Op, first: u64, blocks: u64) -> u32 {
        assert!(at >= self.now);
        self.now = at;
        let id = self.requests.allocate();
        let request = &mut self.requests[id];
        request.offset = ByteOffset(first * 512);
        request.len = ByteLen(blocks * 512);
        request.payload = Payload::NONE;
        (request.arrival, request.submitted, request.entered) = (at, at, at);
        (request.op, request.flags) = (op, Flags::NONE);
        (request.tenant, request.cause, request.owner) = (TenantId(1), TenantId(1), Owner::HOST);
        self.call(|machine, cx| machine.request(id, cx));
        id.0
    }

    /// Lets time pass until the next request ends, and returns it with the time.
    pub fn next_end(&mut self) -> (u32, Instant) {
        loop {
            let end = self.ends.first().copied();
            let timer = self.timers.keys().next().copied();
            match (end, timer) {
                (Some((at, id)), timer) if timer.is_none_or(|(t, _)| at <= t) => {
                    self.ends.pop_first();
                    self.now = at;
                    let request = &self.requests[ReqId(id)];
                    assert_eq!(request.submitted + request.path.total(), at, "the path explains the latency");
                    self.requests.free(ReqId(id));
                    return (id, at);
                }
                (_, Some(timer)) => {
                    self.timers.remove(&timer);
                    self.now = timer.0;
                    self.call(|machine, cx| machine.timer(TimerKey(timer.1), cx));
                }
                (None, None) => panic!("no request is under way"),
                (Some(_), None) => unreachable!("an end without a timer comes first"),
            }
        }
    }

    /// One request from start to end; the time it took in ns.
    pub fn one(&mut self, at: Instant, op: Op, first: u64, blocks: u64) -> u64 {
        let id = self.submit(at, op, first, blocks);
        let (ended, end) = self.next_end();
        assert_eq!(id, ended);
        end.since(at).0
    }
}
