//! `queue`: tenants that share the device below, and who goes next.
//!
//! A request from above is admitted by the [throttle](crate::throttle), waits among the [pending ones](crate::pending), and is sent when
//! the [scheduler](crate::schedulers) says so and fewer than `depth` are on their way. Its end comes back the same way. Time
//! spent here counts as waiting for a queue slot in the critical path.
//!
//! Nothing is ordered: whoever needs one request to come after another waits for the first one's end, as with any device. A
//! flush makes durable what had ended when it came; it may go whenever its tenant's turn is, for what has ended stays ended.
//!
//! Cost: one child request for each request, and the scheduler's. RAM: about 100 bytes for a waiting request, once.

use crate::cost::CostConfig;
use crate::pending::{Class, Entry, PendingRequests};
use crate::schedulers::{Next, Scheduler};
use crate::tally::Tally;
use crate::throttle::Throttle;
use nandu_base::{
    Administer, Advise, ByteLen, ByteOffset, Cx, Draft, Hints, Instant, Limits, Machine, Needs, Op, Peek,
    Phase, Place, Report, ReqId, Span, Step, TenantId, TenantShare, TimerKey, Violation,
};

/// Everything a queue is made of beside its scheduler.
pub struct Parts<'a> {
    pub(crate) limits: Limits,
    pub(crate) depth: u32,
    pub(crate) cost: CostConfig,
    pub(crate) tenants: &'a [TenantShare],
    pub(crate) burst: Span,
    pub(crate) window: Span,
    /// Whether the scheduler wants to know where a request will be served.
    pub(crate) lanes: bool,
    pub(crate) forgets: bool,
    pub(crate) cuts_short: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Waits {
    waited: u64,
    waiting_max: u64,
}

/// The machine `queue` with this scheduler, which tells lanes of the device apart or not.
pub fn queue<S: Scheduler>(scheduler: S, lanes: bool, parts: Parts<'_>) -> Box<dyn Machine> {
    Queue::boxed(scheduler, Parts { lanes, ..parts })
}

/// A fair queue.
struct Queue<S> {
    scheduler: S,
    pending: PendingRequests,
    throttle: Throttle,
    limits: Limits,
    depth: u32,
    cost: CostConfig,
    lanes: bool,
    /// Requests on their way, by the cookie of the child request.
    sent: Vec<Entry>,
    free: Vec<u32>,
    waits: Waits,
    tally: Tally,
    /// Since when the device stands idle although something waits, and for whose next request.
    idle: Option<(Instant, TenantId)>,
    /// What each timer is set for.
    wakes: [Instant; 2],
    forgets: bool,
    cuts_short: bool,
}

/// Of a timer that is not set.
const NEVER: Instant = Instant(u64::MAX);
const RELEASE: TimerKey = TimerKey(0);
const TURN: TimerKey = TimerKey(1);
/// Of the requests that had to wait a planted fault strikes each of this many.
const STRIKE: u64 = 40;

impl<S: Scheduler> Queue<S> {
    fn boxed(scheduler: S, parts: Parts<'_>) -> Box<dyn Machine> {
        let tenants = parts.tenants.len();
        Box::new(Queue {
            pending: PendingRequests::new(scheduler.groups(tenants), tenants, scheduler.by_address()),
            throttle: Throttle::new(parts.tenants, parts.burst, parts.window, parts.depth),
            scheduler,
            limits: parts.limits,
            depth: parts.depth,
            cost: parts.cost,
            lanes: parts.lanes,
            sent: Vec::new(),
            free: Vec::new(),
            waits: Waits::default(),
            tally: Tally::new(tenants),
            idle: None,
            wakes: [NEVER; 2],
            forgets: parts.forgets,
            cuts_short: parts.cuts_short,
        })
    }

    fn entry(&self, id: ReqId, cx: &Cx<'_>) -> Entry {
        let request = &cx.requests[id];
        let class = Class::of(request.op);
        let (offset, len) = (request.offset, request.len);
        let place = if self.lanes && request.op != Op::Flush { cx.peek.locate(0, offset, len) } else { None };
        let lane = place.map_or((offset.0 / u64::from(self.limits.preferred.max(1))) as u32, |p| p.lane);
        Entry {
            id,
            tenant: request.tenant,
            class,
            start: offset.0,
            end: (offset + len).0,
            arrived: cx.now,
            cost: self.cost.of(class, len.0),
            lane,
            number: 0,
            group: self.scheduler.group(request.tenant, lane),
        }
    }

    fn put_up(&mut self, entry: Entry, cx: &Cx<'_>) {
        let slot = self.pending.add(Entry { arrived: cx.now, ..entry });
        self.scheduler.arrived(slot, &self.pending, cx.now);
    }

    /// Sends what may go.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        if let Some((since, tenant)) = self.idle.take() {
            self.tally.idled(tenant, cx.now.since(since));
        }
        while self.pending.out() < self.depth && self.pending.waiting() > 0 {
            match self.scheduler.next(&self.pending, cx.now) {
                Next::Send(slot) => {
                    let is_contended = self.pending.is_contended();
                    let entry = self.pending.take(slot);
                    self.tally.sent(entry.tenant, entry.cost, is_contended);
                    self.send(entry, cx);
                }
                Next::Until(at, tenant) => {
                    self.wake(TURN, at, cx);
                    self.idle = (self.pending.out() == 0).then_some((cx.now, tenant));
                    break;
                }
                Next::Nothing => {
                    assert!(
                        self.pending.out() > 0,
                        "requests wait, but nothing that could end is on its way"
                    );
                    break;
                }
            }
        }
        self.waits.waiting_max = self.waits.waiting_max.max(u64::from(self.pending.waiting()));
        if let Some(at) = self.throttle.next_release(cx.now) {
            self.wake(RELEASE, at, cx);
        }
    }

    /// What limits have held goes as far as it may.
    fn release(&mut self, cx: &mut Cx<'_>) -> Step {
        while let Some(entry) = self.throttle.release(cx.now) {
            self.put_up(entry, cx);
        }
        self.dispatch(cx);
        Step::Idle
    }

    /// Sets a timer, unless it is set for that time: each setting leaves an entry with whoever keeps the time, until it is due.
    fn wake(&mut self, key: TimerKey, at: Instant, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.wakes[key.0 as usize], at) != at {
            cx.wake_at(key, at);
        }
    }

    fn send(&mut self, entry: Entry, cx: &mut Cx<'_>) {
        if entry.arrived < cx.now {
            self.waits.waited += 1;
            if self.forgets && self.waits.waited.is_multiple_of(STRIKE) {
                return;
            }
            let write = cx.requests[entry.id].op == Op::Write;
            if self.cuts_short && write && self.waits.waited.is_multiple_of(STRIKE / 8) {
                self.pending.came_back(&entry);
                self.throttle.done(&entry, entry.arrived, cx.now);
                cx.finish(entry.id);
                return;
            }
        }
        let cookie = match self.free.pop() {
            Some(slot) => {
                self.sent[slot as usize] = entry;
                slot
            }
            None => {
                self.sent.push(entry);
                (self.sent.len() - 1) as u32
            }
        };
        let request = &cx.requests[entry.id];
        let draft = Draft {
            op: request.op,
            flags: request.flags,
            offset: request.offset,
            len: request.len,
            payload: request.payload,
            cookie: u64::from(cookie),
        };
        let child = cx.child(entry.id, draft);
        cx.send(0, child);
    }
}

impl<S: Scheduler> Machine for Queue<S> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::PASSING
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let entry = self.entry(id, cx);
        if let Some(entry) = self.throttle.admit(entry, cx.now) {
            self.put_up(entry, cx);
        }
        self.dispatch(cx);
        Step::Idle
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let slot = cx.requests[id].cookie as u32;
        let entry = self.sent[slot as usize];
        self.free.push(slot);
        let error = cx.requests[id].error;
        let (parent, child) = cx.requests.pair(entry.id, id);
        parent.absorb(child, Phase::Queue);
        parent.error = error;
        self.pending.came_back(&entry);
        self.scheduler.done(&entry, &self.pending, cx.now);
        self.throttle.done(&entry, entry.arrived, cx.now);
        while let Some(entry) = self.throttle.release(cx.now) {
            self.put_up(entry, cx);
        }
        self.dispatch(cx);
        Step::Finish(entry.id)
    }

    fn timer(&mut self, key: TimerKey, cx: &mut Cx<'_>) -> Step {
        self.wakes[key.0 as usize] = NEVER;
        self.release(cx)
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn report(&mut self, report: &mut Report) {
        report.count("requests_that_waited", &mut self.waits.waited);
        report.count("waiting_max", &mut self.waits.waiting_max);
        report.count("throttled_requests", &mut self.throttle.held_total);
        report.count("target_missed_windows", &mut self.throttle.missed_windows);
        self.scheduler.report(report);
        self.tally.report(report);
    }

    fn check(&self) -> Result<(), Violation> {
        if self.pending.is_sound() {
            return Ok(());
        }
        Err(Violation {
            invariant: "conservation",
            what: "requests on the pending and their counts differ".into(),
        })
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }

    fn administer(&mut self) -> Option<&mut dyn Administer> {
        Some(self)
    }
}

impl<S: Scheduler> Advise for Queue<S> {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        peek.expected_latency(0, op, offset, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        self.pending.waiting() > 0 || peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset, len)
    }
}

impl<S: Scheduler> Hints for Queue<S> {
    fn foresee(&mut self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn used(&mut self, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }
}

impl<S: Scheduler> Administer for Queue<S> {
    fn share_changed(&mut self, tenant: TenantId, share: &TenantShare, cx: &mut Cx<'_>) -> Step {
        self.scheduler.set_weight(tenant, share.weight);
        self.throttle.set(tenant, share, cx.now);
        // What its limits held may go now.
        self.release(cx)
    }
}
