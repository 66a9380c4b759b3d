//! Legs that hang: `request_timeout`.
//!
//! While something is under way on the legs, the requests of the machine are looked at four times in each timeout. A leg that has
//! one under way for longer than that hangs. It is left out, when it is the only one and the others can do without it, and
//! taken back when all its old requests have ended. So a request that hangs is given up after one timeout to one and a quarter.
//!
//! When several legs are late at once none is left out: it is rather the host that stood still, and nothing is gained with the
//! others late as well. Nor is anything done when a look itself comes late.
//!
//! What a read of a leg that hangs brings later must not come into memory that the client has back: with a timeout every read of
//! a leg goes into a buffer of its own and is copied on its way up, also that of a record by a machine above.
//!
//! Cost: a copy of each read, one test for each request, and a look at all living requests of the stack four times in a
//! timeout.

use nandu_base::{ByteLen, Cx, Instant, Owner, Payload, PayloadPool, ReqId, Span, State, TimerKey};

/// Looks for legs that hang.
#[derive(Debug)]
pub struct Stalls {
    timeout: Span,
    key: TimerKey,
    /// When the next look is due.
    due: Option<Instant>,
}

impl Stalls {
    /// With `timeout`, zero for never; `key` is the machine's timer for it.
    pub fn new(timeout: Span, key: TimerKey) -> Stalls {
        Stalls { timeout, key, due: None }
    }

    /// Whether there is a timeout.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.timeout > Span::ZERO
    }

    /// Something was sent to a leg.
    #[inline]
    pub fn sent(&mut self, cx: &mut Cx<'_>) {
        if self.is_on() && self.due.is_none() {
            let at = cx.now + Span(self.timeout.0 / 4);
            self.due = Some(at);
            cx.wake_at(self.key, at);
        }
    }

    /// The timer was cancelled.
    pub fn forget(&mut self) {
        self.due = None;
    }

    /// The timer: the only leg that hangs. The caller says with [`Stalls::sent`] if something is under way still.
    pub fn look(&mut self, cx: &Cx<'_>) -> Option<usize> {
        let due = self.due.take()?;
        if cx.now.since(due) > Span(self.timeout.0 / 4) {
            return None;
        }
        let me = Owner(cx.peek.node());
        let sent = cx.requests.iter().filter(|(_, r)| r.owner == me && r.state == State::Sent);
        let mut late = sent.filter(|(_, r)| cx.now.since(r.submitted) >= self.timeout).map(|(_, r)| r.child);
        let leg = late.next()?;
        late.all(|other| other == leg).then_some(usize::from(leg))
    }
}

/// A buffer for a read that may come back late, of the kind of `to`: a machine above reads its records into bytes.
pub fn own_buffer(to: Payload, len: ByteLen, pool: &mut PayloadPool) -> Payload {
    match to.is_metadata() {
        true => pool.allocate_metadata(len),
        false => pool.allocate_unfilled(len),
    }
}

/// What this machine has under way on one of its children.
pub fn under_way(child: usize, cx: &Cx<'_>) -> Vec<ReqId> {
    let me = Owner(cx.peek.node());
    let sent = cx.requests.iter().filter(|(_, r)| r.owner == me && r.state == State::Sent);
    sent.filter(|(_, r)| usize::from(r.child) == child).map(|(id, _)| id).collect()
}
