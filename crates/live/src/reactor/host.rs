//! The reactor as the [`Driver`] of the graph: timers, media, and the ends of client requests.

use super::legs::Leg;
use super::ops::Ops;
use crate::backend::{BlockIo, Done};
use nandu_base::{Flags, Instant, Notice, PayloadPool, ReqId, Request, RequestTable, TimerKey};
use nandu_stack::Driver;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

    /// Takes the next thing that is due at `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<Due> {
        if self.next_due()? > now {
            return None;
        }
        self.due.pop().map(|Reverse((_, _, due))| due)
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
        let leg = self.legs[node as usize].as_mut().expect("only a leaf with a medium hands requests over");
        leg.in_flight += 1;
        leg.backend.submit(io, &mut self.done);
    }

    fn notice(&mut self, node: u32, notice: Notice) {
        self.notices.push((node, notice));
    }

    fn host_done(&mut self, request: &Request, _now: Instant, _pool: &mut PayloadPool) {
        self.ops.piece_done(request.cookie, request.error);
    }
}
