//! The reactor as the [`Driver`] of the graph: timers, media, and the ends of client requests.

use super::legs::{Leg, LegState};
use super::ops::Ops;
use super::watchdog::Beat;
use crate::backend::{BlockIo, Done, Failure};
use nandu_base::{Flags, Instant, Notice, Op, PayloadPool, ReqId, Request, RequestTable, TimerKey};
use nandu_stack::Driver;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What is due at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Due {
    /// A leaf computed this end.
    Finish(u32),
    /// A machine's timer: node, key, generation.
    Timer(u32, u32, u64),
}

/// Everything the graph calls back into.
pub(crate) struct Host {
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    /// Numbers what is due, so that equal times keep the order in which they were set.
    serial: u64,
    /// The media, by the number of their leaf.
    pub legs: Vec<Option<Leg>>,
    /// Ends that were known at once.
    pub done: Vec<Done>,
    /// What machines have to say.
    pub notices: Vec<(u32, Notice)>,
    /// What clients wait for.
    pub ops: Ops,
    /// Requests of emulated drives that end when the store is durable, with their leaf.
    pub held: Vec<(u32, ReqId)>,
    /// Those for which it is, until they are finished.
    pub proven: Vec<ReqId>,
    /// Devices that were lost.
    pub lost: Vec<u32>,
    /// Marks for the watchdog.
    pub beat: Arc<Beat>,
}

impl Host {
    pub fn new(legs: Vec<Option<Leg>>) -> Host {
        Host {
            due: BinaryHeap::new(),
            serial: 0,
            legs,
            done: Vec::new(),
            notices: Vec::new(),
            ops: Ops::default(),
            held: Vec::new(),
            proven: Vec::new(),
            lost: Vec::new(),
            beat: Arc::default(),
        }
    }

    fn schedule(&mut self, at: Instant, due: Due) {
        self.serial += 1;
        self.due.push(Reverse((at, self.serial, due)));
    }

    /// When the next thing is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next thing that is due at `now`, and when it was due.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, Due)> {
        if self.next_due()? > now {
            return None;
        }
        self.due.pop().map(|Reverse((at, _, due))| (at, due))
    }

    /// Gives a request to the backend of a leaf.
    pub fn submit(&mut self, node: u32, io: BlockIo) {
        let leg = self.legs[node as usize].as_mut().expect("only a leaf with a medium hands requests over");
        leg.in_flight += 1;
        self.beat.hand_over(node);
        leg.backend.submit(io, &mut self.done);
    }

    pub fn leg(&mut self, node: u32) -> &mut Leg {
        self.legs[node as usize].as_mut().expect("only a leaf with a medium has requests for it")
    }
}

impl Driver for Host {
    fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.schedule(at, Due::Finish(id.0));
    }

    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant) {
        self.schedule(at, Due::Timer(node, key.0, generation));
    }

    fn medium(&mut self, node: u32, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool) {
        let request = &requests[id];
        let data = (!request.payload.is_none()).then(|| pool.region(request.payload, request.len));
        let io = BlockIo {
            id,
            op: request.op,
            fua: request.flags.has(Flags::FUA),
            offset: request.offset,
            len: request.len,
            data,
        };
        self.submit(node, io);
    }

    fn holds(&mut self, id: ReqId, request: &mut Request) -> bool {
        let Some(leg) = self.legs[request.node as usize].as_mut().filter(|leg| leg.is_emulated) else {
            return false;
        };
        if let Some(place) = self.proven.iter().position(|&proven| proven == id) {
            self.proven.swap_remove(place);
            return false;
        }
        if request.error.is_some() {
            return false;
        }
        if leg.state != LegState::Active || leg.backend.failure().is_some() {
            request.error = Some(Failure::gone(request.len).error);
            return false;
        }
        let is_durable =
            request.op == Op::Flush || request.op.changes_data() && request.flags.has(Flags::FUA);
        if !is_durable || leg.backend.is_durable_at_once() {
            return false;
        }
        self.held.push((request.node, id));
        true
    }

    #[inline]
    fn entering(&mut self, node: u32) {
        self.beat.enter(node);
    }

    fn notice(&mut self, node: u32, notice: Notice) {
        self.notices.push((node, notice));
    }

    fn lost(&mut self, node: u32) {
        self.lost.push(node);
    }

    fn host_done(&mut self, request: &Request, _now: Instant, _pool: &mut PayloadPool) {
        self.ops.piece_done(request.cookie, request.error);
    }
}
