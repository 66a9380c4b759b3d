//! What a machine works with during one call: the [`Cx`].

use crate::charge::{ChargeTable, Resource, Work};
use crate::machine::{DeviceEvent, Effect, OpenError, Step, TimerKey};
use crate::medium::Medium;
use crate::node::Peek;
use crate::path::{CriticalPath, Phase};
use crate::payload::{Payload, PayloadPool};
use crate::request::{ErrorKind, Flags, Op, Owner, ReqId, RequestTable, State, TenantId};
use crate::units::{ByteLen, ByteOffset, Instant, Span};

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
        request.owner = Owner(self.peek.node());
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

    /// What a call answers that has put its steps into the effects. A single one is better returned: the driver follows it
    /// without its queue.
    #[inline]
    pub fn only_step(&mut self) -> Step {
        match self.effects[..] {
            [Effect::Step(step)] => {
                self.effects.clear();
                step
            }
            _ => Step::Idle,
        }
    }

    /// Tell `child` that an extent is used which was read with [`Flags::SPECULATIVE`].
    pub fn used(&mut self, child: u8, offset: ByteOffset, len: ByteLen) {
        self.effects.push(Effect::Used(child, offset, len));
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
