//! `concat`: several devices in a row.
//!
//! A request that lies in one part is shifted and passed on. One that crosses a border becomes a child request for each
//! part it touches, each with its slice of the payload. A flush goes to every part and is done when all are.
//!
//! Of each part whole alignment units (or erase units) are used. A lost part is a loss of the whole: its addresses fail.
//!
//! Bounds: one child request for each part; the part is found by bisection. RAM: 8 bytes for each part, and for each
//! request that is split, while it lasts.

use crate::legs::{LegStates, narrowest, unit};
use nandu_base::{
    Advise, BuildContext, BuildError, ByteLen, ByteOffset, Cx, DeviceConfig, DeviceEvent, Draft, Joins, Kind,
    Limits, Machine, Members, Needs, Op, Payload, Peek, Place, Plant, ReqId, Span, Step, options,
};

/// Options of `concat`.
#[options]
#[derive(Clone, Debug)]
pub struct ConcatConfig {
    /// The devices in the order of their addresses. From 1 to 64.
    pub parts: Vec<String>,
}

const SAME_SLICE: Plant = Plant::new(
    "concat.same-slice",
    "I-1",
    "a write across a border stores the data of its first part in every part",
);

/// The machine kind `concat`.
pub fn kind() -> Kind {
    Kind::of::<ConcatConfig>("concat", "several devices in a row").with_plants(&[SAME_SLICE])
}

impl DeviceConfig for ConcatConfig {
    fn children(&self) -> Vec<String> {
        self.parts.clone()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let mut limits = narrowest("parts", cx.children)?;
        let unit = unit(&limits);
        let mut ends = Vec::with_capacity(cx.children.len());
        let mut end = 0u64;
        for (part, name) in cx.children.iter().zip(&self.parts) {
            let usable = part.capacity.0 - part.capacity.0 % unit;
            if usable == 0 {
                return Err(BuildError::at(
                    "parts",
                    format!("`{name}` is smaller than one unit of {}", ByteLen(unit)),
                ));
            }
            let sum = end.checked_add(usable).filter(|&bytes| bytes < 1 << 63);
            end = sum.ok_or_else(|| BuildError::at("parts", "more than 8 EiB together"))?;
            ends.push(end);
        }
        limits.capacity = ByteLen(end);
        Ok(Box::new(Concat {
            limits,
            ends,
            joins: Joins::new(),
            states: LegStates::default(),
            same_slice: cx.planted(SAME_SLICE.name),
        }))
    }
}

struct Concat {
    limits: Limits,
    /// One past the last address of each part.
    ends: Vec<u64>,
    joins: Joins,
    states: LegStates,
    /// The planted fault.
    same_slice: bool,
}

impl Concat {
    /// The part of an address, and the address at which it begins.
    #[inline]
    fn part(&self, at: u64) -> (usize, u64) {
        let part = self.ends.partition_point(|&end| end <= at);
        (part, self.start(part))
    }

    fn start(&self, part: usize) -> u64 {
        if part == 0 { 0 } else { self.ends[part - 1] }
    }

    /// The parts that an extent touches: number, address of the first byte, and one past the last.
    fn pieces(&self, start: u64, end: u64) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let first = self.part(start).0;
        let parts = (first..self.ends.len()).take_while(move |&part| self.start(part) < end);
        parts.map(move |part| (part, start.max(self.start(part)), end.min(self.ends[part])))
    }

    fn split(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (op, flags, payload) = (request.op, request.flags, request.payload);
        let (start, end) = (request.offset.0, request.end().0);
        let join = self.joins.begin(id, self.pieces(start, end).count() as u32);
        let mut first = Step::Idle;
        for (part, from, to) in self.pieces(start, end) {
            let at = ByteLen(from - start);
            let wrong = self.same_slice && op == Op::Write;
            let draft = Draft {
                op,
                flags,
                offset: ByteOffset(from - self.start(part)),
                len: ByteLen(to - from),
                payload: payload.slice(if wrong { ByteLen::ZERO } else { at }),
                cookie: Joins::cookie(join, at),
            };
            let child = cx.child(id, draft);
            first = emit(first, part as u8, child, cx);
        }
        first
    }

    fn flush(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let join = self.joins.begin(id, self.ends.len() as u32);
        let flags = cx.requests[id].flags;
        let mut first = Step::Idle;
        for part in 0..self.ends.len() {
            let draft = Draft {
                op: Op::Flush,
                flags,
                offset: ByteOffset::ZERO,
                len: ByteLen::ZERO,
                payload: Payload::NONE,
                cookie: Joins::cookie(join, ByteLen::ZERO),
            };
            let child = cx.child(id, draft);
            first = emit(first, part as u8, child, cx);
        }
        first
    }
}

/// The first child is returned as a step, the others follow as effects.
fn emit(first: Step, part: u8, child: ReqId, cx: &mut Cx<'_>) -> Step {
    if first == Step::Idle {
        return Step::Send(part, child);
    }
    cx.send(part, child);
    first
}

impl Machine for Concat {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::PASSING
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &mut cx.requests[id];
        if request.op == Op::Flush {
            return self.flush(id, cx);
        }
        let (part, start) = self.part(request.offset.0);
        if request.end().0 > self.ends[part] {
            return self.split(id, cx);
        }
        request.offset = ByteOffset(request.offset.0 - start);
        Step::Forward(part as u8, id)
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        self.joins.child_done(id, cx).map_or(Step::Idle, Step::Finish)
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        if let Some(event) = self.states.heard(child, event) {
            cx.event(event);
        }
        Step::Idle
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        let (part, start) = self.part(offset.0);
        Some((part as u8, ByteOffset(offset.0 - start)))
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }
}

impl Advise for Concat {
    /// The slowest part.
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        if op == Op::Flush {
            let parts = 0..self.ends.len();
            let spans = parts.map(|part| peek.expected_latency(part as u8, op, ByteOffset::ZERO, len));
            return spans.fold(Span::ZERO, Span::longer);
        }
        let spans = self.pieces(offset.0, offset.0 + len.0).map(|(part, from, to)| {
            peek.expected_latency(part as u8, op, ByteOffset(from - self.start(part)), ByteLen(to - from))
        });
        spans.fold(Span::ZERO, Span::longer)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        (0..self.ends.len()).any(|part| peek.is_busy(part as u8))
    }

    /// The place of the first byte. Lanes of the parts are dealt in turn, so that no two parts share one.
    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        let (part, start) = self.part(offset.0);
        let rest = self.ends[part] - offset.0;
        let place = peek.locate(part as u8, ByteOffset(offset.0 - start), ByteLen(len.0.min(rest)))?;
        Some(Place { lane: place.lane * self.ends.len() as u32 + part as u32, ..place })
    }
}

impl Members for Concat {
    fn left_over(&self, child: u8, below: &Limits) -> ByteLen {
        let part = usize::from(child);
        ByteLen(below.capacity.0.saturating_sub(self.ends[part] - self.start(part)))
    }
}
