//! The machine contract: what every layer of a stack is, from a fair queue to a drive.
//!
//! A machine is told the time and does no I/O. The driver (simulator or server) calls it with one event: a request came,
//! a child's request is done, a timer fired, a child says something about itself. The machine answers with one [`Step`]
//! by value, and puts further effects into the [`Cx`]. It has no clock, file, thread, OS randomness or hash order inside.
//!
//! **Order.** The driver takes the returned step first and follows it to its end, then the further effects in the order
//! in which they were given. Completions due at one instant come in the order in which they were scheduled, before
//! arrivals of that instant.
//!
//! **Requests.** A machine that answers a request by others makes *child requests* ([`Cx::child`], [`Cx::own`]) and hears
//! of each in [`Machine::child_done`]; the driver frees a child request when that call returns, unless it was sent again.
//! A machine that need not hear of the end passes the request itself on with [`Step::Forward`]. Every request is finished
//! exactly once, by the machine that holds it.
//!
//! **Time.** When a request is finished, its path adds up to its latency: the machine explains what it knows
//! ([`Request::absorb`](crate::request::Request::absorb)) and the driver puts the rest down to [`Phase::Hold`].
//!
//! **Bounds.** The work of one call is bounded. Spurious timers do no harm.

use crate::charge::{ChargeTable, Resource, Work};
use crate::medium::{Medium, MediumSpec};
use crate::path::{CriticalPath, Phase};
use crate::payload::{Payload, PayloadPool};
use crate::request::{ErrorKind, Flags, Op, Owner, ReqId, RequestTable, State, TenantId};
use crate::units::{ByteLen, ByteOffset, Instant, Span};

/// The main effect of one call, returned by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing now.
    Idle,
    /// Send a request of one's own making to child `.0`.
    Send(u8, ReqId),
    /// Pass the request on to child `.0` and step out of the way: its completion skips this machine.
    Forward(u8, ReqId),
    /// The request is done now.
    Finish(ReqId),
    /// The request will be done at `.1`; a leaf has computed it.
    FinishAt(ReqId, Instant),
    /// Hand the request to the block medium of this leaf, which finishes it.
    Medium(ReqId),
}

/// A further effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// What could also be returned.
    Step(Step),
    /// Call [`Machine::timer`] with `.0` at `.1`; an earlier call for the same timer is forgotten.
    Wake(TimerKey, Instant),
    /// Forget the timer.
    CancelWake(TimerKey),
    /// Tell every parent.
    Event(DeviceEvent),
    /// [`Machine::open`] is complete.
    Opened(Result<(), OpenError>),
    /// [`Machine::close`] is complete.
    Closed,
}

/// One of a machine's own timers, numbered from 0 without gaps. Setting it again replaces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerKey(pub u32);

/// What a device says of itself to its parents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// The device no longer answers; what it holds in volatile memory is gone.
    Lost,
    /// The device answers again, with what it held durably.
    Back,
    /// Garbage collection is (or is no longer) in the way of writes.
    GcPressure(bool),
    /// The device stands still to save power (true) or runs (false).
    Standby(bool),
    /// The capacity changed.
    Resized(ByteLen),
}

/// Why a machine cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// A child that is needed is not there.
    #[error("{device} is not there")]
    Gone {
        /// The missing device or leg.
        device: String,
    },
    /// As [`OpenError::Gone`], from a machine, which knows its children by number; the graph puts the name in.
    #[error("child {0} is not there")]
    Child(u8),
    /// What is found on the children does not allow a start.
    #[error("{why}; {remedy}")]
    Refused {
        /// What was found.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// Reading or writing one's own records failed.
    #[error("own records: {0}")]
    Records(#[from] crate::request::IoError),
}

/// How a stack is started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenHow {
    /// Blank members may be initialised. Without it a blank member is refused.
    pub create: bool,
    /// A redundant machine may start on the members it finds, although the others may hold newer data.
    pub alone: bool,
    /// Blank members are known to hold the same data everywhere, as fresh media of the simulator do: nothing is copied.
    pub assume_clean: bool,
}

/// What a machine can take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that can be addressed.
    pub capacity: ByteLen,
    /// Offsets and lengths are multiples of this many bytes; a power of two, at least 512.
    pub align: u32,
    /// Offsets and lengths that avoid reading before writing are multiples of this many bytes.
    pub preferred: u32,
    /// Longest read or write.
    pub max_io: ByteLen,
    /// Alignment of real buffers in bytes.
    pub dma_align: u32,
    /// Requests that may usefully be outstanding.
    pub depth: u32,
    /// Size of the unit that `reset` erases; `None` for overwritable devices.
    pub erase_unit: Option<ByteLen>,
    /// Whether writes within an erase unit must be in order.
    pub program_order: bool,
    /// Whether a completed write may be lost without a flush.
    pub volatile_cache: bool,
}

impl Limits {
    /// An overwritable device of `capacity` bytes with 512 B sectors and no further restriction.
    pub fn plain(capacity: ByteLen) -> Limits {
        Limits {
            capacity,
            align: 512,
            preferred: 4096,
            max_io: ByteLen::mib(32),
            dma_align: 512,
            depth: 256,
            erase_unit: None,
            program_order: false,
            volatile_cache: false,
        }
    }
}

/// Where data lies inside a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The lane (die, head) that serves it.
    pub lane: u32,
    /// The physical unit (flash page, track) that holds its first byte.
    pub unit: u64,
}

/// One named figure of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Name with its unit as suffix, for example `host_bytes_written`, `gc_moved_pages`.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

/// A broken invariant: a fault of Nandu, never of its input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{invariant} is broken: {what}")]
pub struct Violation {
    /// The number of the invariant, for example "I-5".
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
}

/// A layer of a stack. See the module's page for the rules.
pub trait Machine: Send {
    /// What this machine can take. Constant between [`open`](Machine::open) and a [`DeviceEvent::Resized`].
    fn limits(&self) -> &Limits;

    /// The medium a leaf needs.
    fn medium(&self) -> MediumSpec {
        MediumSpec::None
    }

    /// Whether it reads back what it wrote to its children: then they keep their content even in a run without data.
    fn keeps_records(&self) -> bool {
        false
    }

    /// Reads its own records and recovers. Children are open already, or known to be absent ([`Peek::is_open`]).
    /// Ends with [`Cx::opened`]; no request comes from above before that.
    fn open(&mut self, _how: OpenHow, cx: &mut Cx<'_>) -> Step {
        cx.opened_if_children_are();
        Step::Idle
    }

    /// Makes everything durable and marks a clean end. No request comes from above any more. Ends with [`Cx::closed`].
    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        cx.closed();
        Step::Idle
    }

    /// A request came from above. It lies within the capacity and is aligned.
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step;

    /// A request that this machine sent is done; its slot is freed when this call returns.
    fn child_done(&mut self, id: ReqId, _cx: &mut Cx<'_>) -> Step {
        unreachable!("this machine sends no requests, yet {id:?} came back")
    }

    /// A timer fired.
    fn timer(&mut self, _key: TimerKey, _cx: &mut Cx<'_>) -> Step {
        Step::Idle
    }

    /// A child says something about itself. By default [`DeviceEvent::Lost`], `Back` and `Standby` go on upwards.
    fn child_event(&mut self, _child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        if !matches!(event, DeviceEvent::Resized(_)) {
            cx.event(event);
        }
        Step::Idle
    }

    /// About how long a request would take if it came now.
    fn expected_latency(&self, _op: Op, _offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Span {
        Span::ZERO
    }

    /// Whether a request that came now would have to wait.
    fn is_busy(&self, _peek: &Peek<'_>) -> bool {
        false
    }

    /// Where data lies, if this machine knows.
    fn locate(&self, _offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        None
    }

    /// A request like this will come soon: touch what it will need. Changes nothing. The machine names the extent below
    /// that it would use, and the driver passes the hint on.
    #[inline]
    fn prepare(&self, _op: Op, _offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        None
    }

    /// Reports its figures, in a stated order.
    fn counters(&self, _out: &mut Vec<Counter>) {}

    /// Busy time of each resource since the counters were reset; the charges add up to it.
    fn busy(&self, _out: &mut Vec<(Resource, Span)>) {}

    /// Starts counting anew, as at the end of a warm-up. State stays.
    fn reset_counters(&mut self) {}

    /// Checks the machine's own invariants, however long it takes. Called by the verified simulation.
    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}

/// A read-only view of what lies below a machine.
#[derive(Clone, Copy)]
pub struct Peek<'a> {
    machines: &'a [Box<dyn Machine>],
    links: &'a [Vec<u32>],
    open: &'a [bool],
    node: usize,
    /// The time.
    pub now: Instant,
}

impl<'a> Peek<'a> {
    /// The view from machine `node`; `machines` are those with a smaller number, which hold all its children.
    #[inline]
    pub fn new(
        machines: &'a [Box<dyn Machine>],
        links: &'a [Vec<u32>],
        open: &'a [bool],
        node: usize,
        now: Instant,
    ) -> Peek<'a> {
        Peek { machines, links, open, node, now }
    }

    /// Number of children.
    pub fn children(&self) -> usize {
        self.links[self.node].len()
    }

    fn below(&self, child: u8) -> (Peek<'a>, &'a dyn Machine) {
        let node = self.links[self.node][usize::from(child)] as usize;
        (Peek { node, ..*self }, &*self.machines[node])
    }

    /// What child `child` can take.
    pub fn limits(&self, child: u8) -> &'a Limits {
        self.below(child).1.limits()
    }

    /// Whether the child is open.
    pub fn is_open(&self, child: u8) -> bool {
        self.open[self.links[self.node][usize::from(child)] as usize]
    }

    /// How long the child would take.
    pub fn expected_latency(&self, child: u8, op: Op, offset: ByteOffset, len: ByteLen) -> Span {
        let (peek, machine) = self.below(child);
        machine.expected_latency(op, offset, len, &peek)
    }

    /// Whether the child is busy.
    pub fn is_busy(&self, child: u8) -> bool {
        let (peek, machine) = self.below(child);
        machine.is_busy(&peek)
    }

    /// Where the child keeps this extent.
    pub fn locate(&self, child: u8, offset: ByteOffset, len: ByteLen) -> Option<Place> {
        let (peek, machine) = self.below(child);
        machine.locate(offset, len, &peek)
    }
}

/// What a machine works with during one call.
pub struct Cx<'a> {
    /// The time.
    pub now: Instant,
    /// Every living request.
    pub requests: &'a mut RequestTable,
    /// The driver's buffers.
    pub pool: &'a mut PayloadPool,
    /// The computed medium of a leaf, when this run stores content. Plain simulation has none.
    pub medium: Option<&'a mut (dyn Medium + 'static)>,
    /// This machine's charges.
    pub charges: &'a mut ChargeTable,
    /// The machines below.
    pub peek: Peek<'a>,
    /// Where further effects go.
    pub effects: &'a mut Vec<Effect>,
}

/// A child request in the making; see [`Cx::child`] and [`Cx::own`].
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// What to do.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where on the child.
    pub offset: ByteOffset,
    /// How much.
    pub len: ByteLen,
    /// The data; the new request becomes one more holder.
    pub payload: Payload,
    /// The maker's own note.
    pub cookie: u64,
}

impl Cx<'_> {
    /// Makes a request on behalf of `parent`: same tenant, cause and arrival.
    #[inline]
    pub fn child(&mut self, parent: ReqId, draft: Draft) -> ReqId {
        let from = &self.requests[parent];
        let (arrival, tenant, cause) = (from.arrival, from.tenant, from.cause);
        self.make(parent, arrival, tenant, cause, draft)
    }

    /// Makes a request of the machine's own, caused by `cause` ([`TenantId::SYSTEM`] when by nobody).
    pub fn own(&mut self, cause: TenantId, draft: Draft) -> ReqId {
        self.make(ReqId::NONE, self.now, TenantId::SYSTEM, cause, draft)
    }

    #[inline]
    fn make(
        &mut self,
        parent: ReqId,
        arrival: Instant,
        tenant: TenantId,
        cause: TenantId,
        draft: Draft,
    ) -> ReqId {
        self.pool.keep(draft.payload);
        let id = self.requests.allocate();
        let request = &mut self.requests[id];
        request.offset = draft.offset;
        request.len = draft.len;
        request.payload = draft.payload;
        request.arrival = arrival;
        request.submitted = self.now;
        request.entered = self.now;
        request.cookie = draft.cookie;
        request.parent = parent;
        request.owner = Owner(self.peek.node as u32);
        request.tenant = tenant;
        request.cause = cause;
        request.op = draft.op;
        request.flags = draft.flags;
        id
    }

    /// Prepares a finished child request to be sent again: error and path are forgotten.
    pub fn renew(&mut self, id: ReqId) {
        let now = self.now;
        let request = &mut self.requests[id];
        request.error = None;
        request.path = CriticalPath::EMPTY;
        request.submitted = now;
        request.state = State::Made;
    }

    /// Gives up a request of one's own that was never sent.
    pub fn discard(&mut self, id: ReqId) {
        let request = &self.requests[id];
        assert!(request.state == State::Made, "request {id:?} is {:?}, not merely made", request.state);
        let payload = request.payload;
        self.pool.release(payload);
        self.requests.free(id);
    }

    /// Further effect: send `id` to `child`.
    pub fn send(&mut self, child: u8, id: ReqId) {
        self.requests[id].state = State::Sent;
        self.effects.push(Effect::Step(Step::Send(child, id)));
    }

    /// Further effect: pass `id` on to `child`.
    pub fn forward(&mut self, child: u8, id: ReqId) {
        self.effects.push(Effect::Step(Step::Forward(child, id)));
    }

    /// Further effect: `id` is done.
    pub fn finish(&mut self, id: ReqId) {
        self.effects.push(Effect::Step(Step::Finish(id)));
    }

    /// Further effect: `id` is done at `at`.
    pub fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.effects.push(Effect::Step(Step::FinishAt(id, at)));
    }

    /// The step that ends `id` with a failure of its whole extent.
    pub fn fail(&mut self, id: ReqId, kind: ErrorKind) -> Step {
        self.requests[id].fail(kind);
        Step::Finish(id)
    }

    /// Call me at `at`. A time that has passed means: at once, after the events of this instant.
    pub fn wake_at(&mut self, key: TimerKey, at: Instant) {
        self.effects.push(Effect::Wake(key, at.later(self.now)));
    }

    /// Forget that timer.
    pub fn cancel_wake(&mut self, key: TimerKey) {
        self.effects.push(Effect::CancelWake(key));
    }

    /// Tell my parents.
    pub fn event(&mut self, event: DeviceEvent) {
        self.effects.push(Effect::Event(event));
    }

    /// The start is complete.
    pub fn opened(&mut self, result: Result<(), OpenError>) {
        self.effects.push(Effect::Opened(result));
    }

    /// The start is complete when every child is there, and has failed otherwise.
    pub fn opened_if_children_are(&mut self) {
        let missing = (0..self.peek.children()).find(|&k| !self.peek.is_open(k as u8));
        let result = match missing {
            None => Ok(()),
            Some(k) => Err(OpenError::Child(k as u8)),
        };
        self.opened(result);
    }

    /// The end is complete.
    pub fn closed(&mut self) {
        self.effects.push(Effect::Closed);
    }

    /// Charges `span` of this machine's `resource`.
    #[inline]
    pub fn charge(&mut self, cause: TenantId, resource: Resource, work: Work, span: Span) {
        self.charges.charge(cause, resource, work, span);
    }

    /// Lets `parent` take over the path of its child `done`, for which it waited until now.
    #[inline]
    pub fn absorb(&mut self, parent: ReqId, done: ReqId) {
        let (parent, child) = self.requests.pair(parent, done);
        parent.absorb(child, Phase::Hold);
    }
}
