//! `link`: the way between a host and a device: commands cross it one after another.
//!
//! A command takes `overhead` on its way down, the data of a write its length over `bandwidth`; the data of a read takes that on its way
//! up, once the device has all of it. What crosses in one direction waits for what crosses before it. Down and up are lanes of their own with
//! `duplex`, as on SAS and PCIe, or one for both, as on SATA and the parallel buses before it. Own design: the least that makes a drive's
//! interface a bound (60, 300, 600 MB/s) and a command a cost, which the papers' drives had and a bare chip has not.
//!
//! Not covered: frames and their headers, queues of the host's (a `queue` above has a depth), commands that the device sends for data in pieces.
//!
//! Bounds: two steps for a request, and a child request for a read. RAM: 16 bytes for a request that crosses.

use crate::write_buffer::Link;
use nandu_base::{
    Advise, BuildContext, BuildError, ByteLen, ByteOffset, Cx, DeviceConfig, Draft, Effect, Hints, Instant,
    Kind, Limits, Machine, Op, Peek, Phase, Place, Report, ReqId, Span, Step, TimerKey, options,
};
use std::collections::VecDeque;

/// Options of `link`.
#[options]
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The device at its end.
    pub below: String,
    /// Bytes a second in each direction.
    #[option(above = ByteLen::ZERO)]
    pub bandwidth: ByteLen,
    /// What each command takes on its way down, whatever its length.
    #[option(default, range = ..=Span::from_secs(1))]
    pub overhead: Span,
    /// Whether what goes down and what comes up do not wait for each other.
    #[option(default = true)]
    pub duplex: bool,
}

/// The machine kind `link`.
pub fn kind() -> Kind {
    Kind::of::<LinkConfig>("link", "the way to a device: bandwidth, and a cost for each command")
}

impl DeviceConfig for LinkConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let lane = || Link::new(self.bandwidth.0);
        Ok(Box::new(HostLink {
            limits: cx.only_child().clone(),
            overhead: self.overhead,
            down: lane(),
            up: self.duplex.then(lane),
            crossing: VecDeque::new(),
            tally: Tally::default(),
        }))
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    commands: u64,
    down: u64,
    up: u64,
}

struct HostLink {
    limits: Limits,
    overhead: Span,
    down: Link,
    /// [`None`] where both directions share the other one.
    up: Option<Link>,
    /// Commands on their way down, and when they are there; in order.
    crossing: VecDeque<(Instant, ReqId)>,
    tally: Tally,
}

const ARRIVAL: TimerKey = TimerKey(0);

impl HostLink {
    /// The command is down: a read comes back here, all else need not.
    fn pass(id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        if request.op != Op::Read {
            return Step::Forward(0, id);
        }
        let draft = Draft {
            op: request.op,
            flags: request.flags,
            offset: request.offset,
            len: request.len,
            payload: request.payload,
            cookie: 0,
        };
        Step::Send(0, cx.child(id, draft))
    }
}

impl Machine for HostLink {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &mut cx.requests[id];
        let data = if request.op == Op::Write { request.len } else { ByteLen::ZERO };
        self.tally.commands += 1;
        self.tally.down += data.0;
        let time = self.overhead + self.down.transfer(data);
        let at = self.down.hold(cx.now, time) + time;
        if at == cx.now {
            return HostLink::pass(id, cx);
        }
        request.path.add(Phase::Bus, time);
        if self.crossing.is_empty() {
            cx.wake_at(ARRIVAL, at);
        }
        self.crossing.push_back((at, id));
        Step::Idle
    }

    fn timer(&mut self, _key: TimerKey, cx: &mut Cx<'_>) -> Step {
        while let Some(&(at, id)) = self.crossing.front() {
            if at > cx.now {
                cx.wake_at(ARRIVAL, at);
                break;
            }
            self.crossing.pop_front();
            let step = HostLink::pass(id, cx);
            cx.effects.push(Effect::Step(step));
        }
        Step::Idle
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let parent = cx.requests[id].parent;
        cx.absorb(parent, id);
        let (error, len) = (cx.requests[id].error, cx.requests[id].len);
        if error.is_some() {
            cx.requests[parent].error = error;
            return Step::Finish(parent);
        }
        self.tally.up += len.0;
        let (start, time) = self.up.as_mut().unwrap_or(&mut self.down).take(cx.now, len);
        cx.requests[parent].path.add(Phase::Bus, time);
        Step::FinishAt(parent, start + time)
    }

    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn report(&mut self, report: &mut Report) {
        let t = &mut self.tally;
        report.count("link_commands", &mut t.commands);
        report.count("link_bytes_down", &mut t.down);
        report.count("link_bytes_up", &mut t.up);
        let mut busy = self.down.busy;
        report.restart(&mut self.down.busy);
        if let Some(up) = &mut self.up {
            busy += up.busy;
            report.restart(&mut up.busy);
        }
        report.put("link_busy_ns", busy.0);
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }
}

impl Advise for HostLink {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        let data = if matches!(op, Op::Read | Op::Write) { self.down.transfer(len) } else { Span::ZERO };
        self.overhead + data + peek.expected_latency(0, op, offset, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        !self.crossing.is_empty() || peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset, len)
    }
}

impl Hints for HostLink {
    fn foresee(&mut self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }

    fn used(&mut self, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset))
    }
}
