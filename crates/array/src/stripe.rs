//! `stripe`: RAID-0.
//!
//! The address space is cut into chunks, and chunk `k` lies on leg `k mod legs` at chunk `k / legs` of that leg. A read or
//! write within one chunk is shifted and passed on. A longer one becomes a child request for each chunk it touches; its
//! payload is one region, so each child takes a slice of it, and two chunks that lie side by side on a leg never lie side
//! by side in the payload. Trims, write-zeroes and resets carry no data: the chunks of each leg lie in a row there, so
//! one child for each leg is enough. A flush goes to every leg and is done when all are.
//!
//! A failure of a child is counted from the start of the request: exactly for reads and writes, and from the first to the
//! last byte concerned for operations without data, so it may name chunks of other legs in between.
//!
//! Usable capacity: whole chunks of the smallest leg, times the legs. There is no redundancy: a lost leg is a lost stripe.
//!
//! Bounds: `max_io / chunk + 1` child requests for a read or write, one for each leg otherwise. RAM: 8 bytes for each
//! request that is split, while it lasts.

use crate::legs::{LegStates, narrowest, unit};
use nandu_base::{
    Advise, BuildContext, BuildError, ByteLen, ByteOffset, Cx, DeviceConfig, DeviceEvent, Draft, IoError,
    Joins, Kind, Limits, Machine, Members, Needs, Op, Payload, Peek, Place, Plant, ReqId, Span, Step,
    options,
};

/// Options of `stripe`.
#[options]
#[derive(Clone, Debug)]
pub struct StripeConfig {
    /// The devices it is made of, in order. From 1 to 64.
    pub legs: Vec<String>,
    /// Bytes on one leg before the next one follows.
    #[option(default = ByteLen::kib(64), range = ByteLen::kib(4)..=ByteLen::gib(1), power_of_two)]
    #[option(also = "a multiple of the alignment and the erase unit of the legs")]
    pub chunk: ByteLen,
}

const WRONG_LEG: Plant = Plant::new(
    "stripe.wrong-leg",
    "I-1",
    "reads of every second row of chunks go to the neighbour of the leg that holds the data",
);

/// The machine kind `stripe`.
pub fn kind() -> Kind {
    Kind::of::<StripeConfig>("stripe", "RAID-0: chunks in turn on several devices").with_plants(&[WRONG_LEG])
}

impl DeviceConfig for StripeConfig {
    fn children(&self) -> Vec<String> {
        self.legs.clone()
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let mut limits = narrowest("legs", cx.children)?;
        let chunk = self.chunk.0;
        if !chunk.is_multiple_of(unit(&limits)) {
            let unit = ByteLen(unit(&limits));
            return Err(BuildError::at(
                "chunk",
                format!("{} is not a multiple of {unit} of the legs", self.chunk),
            ));
        }
        let chunks = cx.children.iter().map(|leg| leg.capacity.0 / chunk).min().unwrap_or(0);
        if chunks == 0 {
            return Err(BuildError::at("chunk", format!("{} does not fit on the smallest leg", self.chunk)));
        }
        let legs = cx.children.len() as u64;
        let capacity = (chunks * chunk).checked_mul(legs).filter(|&bytes| bytes < 1 << 63);
        limits.capacity =
            capacity.map(ByteLen).ok_or_else(|| BuildError::at("legs", "more than 8 EiB together"))?;
        Ok(Box::new(Stripe {
            limits,
            map: Map { legs, chunk_bits: chunk.trailing_zeros(), wrong_leg: cx.planted(WRONG_LEG.name) },
            joins: Joins::new(),
            states: LegStates::default(),
        }))
    }
}

/// Where each byte lies.
#[derive(Clone, Copy, Debug)]
struct Map {
    legs: u64,
    chunk_bits: u32,
    /// The planted fault.
    wrong_leg: bool,
}

impl Map {
    fn chunk(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// The leg of a byte, and where it lies there.
    #[inline]
    fn place(&self, at: u64) -> (u8, u64) {
        let number = at >> self.chunk_bits;
        let (row, leg) = (number / self.legs, number % self.legs);
        (leg as u8, row << self.chunk_bits | at & (self.chunk() - 1))
    }

    /// As [`place`](Map::place), for an operation: here the planted fault strikes.
    #[inline]
    fn place_for(&self, op: Op, at: u64) -> (u8, u64) {
        let (leg, below) = self.place(at);
        if self.wrong_leg && op == Op::Read && below >> self.chunk_bits & 1 == 1 {
            return (((u64::from(leg) + 1) % self.legs) as u8, below);
        }
        (leg, below)
    }

    /// Bytes of a leg that belong to addresses below `end`.
    fn below(&self, leg: u64, end: u64) -> u64 {
        let row = self.legs << self.chunk_bits;
        let rest = (end % row).saturating_sub(leg << self.chunk_bits).min(self.chunk());
        ((end / row) << self.chunk_bits) + rest
    }

    /// The address of a byte of a leg.
    fn above(&self, leg: u64, below: u64) -> u64 {
        ((below >> self.chunk_bits) * self.legs + leg) << self.chunk_bits | below & (self.chunk() - 1)
    }

    /// Whether the extent lies in one chunk, or there is only one leg.
    #[inline]
    fn is_whole(&self, start: u64, len: u64) -> bool {
        self.legs == 1 || start >> self.chunk_bits == (start + len - 1) >> self.chunk_bits
    }
}

struct Stripe {
    limits: Limits,
    map: Map,
    joins: Joins,
    states: LegStates,
}

impl Stripe {
    /// One child for each chunk.
    fn split(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (op, flags, payload) = (request.op, request.flags, request.payload);
        let (start, end) = (request.offset.0, request.end().0);
        let chunk = self.map.chunk();
        let count = ((end - 1) >> self.map.chunk_bits) - (start >> self.map.chunk_bits) + 1;
        let join = self.joins.begin(id, count as u32);
        let mut first = Step::Idle;
        let mut at = start;
        while at < end {
            let next = end.min((at | (chunk - 1)) + 1);
            let (leg, below) = self.map.place_for(op, at);
            let from = ByteLen(at - start);
            let draft = Draft {
                op,
                flags,
                offset: ByteOffset(below),
                len: ByteLen(next - at),
                payload: payload.slice(from),
                cookie: Joins::cookie(join, from),
            };
            let child = cx.child(id, draft);
            first = self.emit(first, leg, child, cx);
            at = next;
        }
        first
    }

    /// One child for each leg that the operation concerns; a flush concerns all.
    fn spread(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (op, flags) = (request.op, request.flags);
        let (start, end) = (request.offset.0, request.end().0);
        let map = self.map;
        let run = |leg| (map.below(leg, start), map.below(leg, end));
        let concerned = |leg: &u64| op == Op::Flush || run(*leg).0 < run(*leg).1;
        let count = (0..map.legs).filter(concerned).count();
        let join = self.joins.begin(id, count as u32);
        let mut first = Step::Idle;
        for leg in (0..map.legs).filter(concerned) {
            let (from, to) = if op == Op::Flush { (0, 0) } else { run(leg) };
            let draft = Draft {
                op,
                flags,
                offset: ByteOffset(from),
                len: ByteLen(to - from),
                payload: Payload::NONE,
                cookie: Joins::cookie(join, ByteLen::ZERO),
            };
            let child = cx.child(id, draft);
            first = self.emit(first, leg as u8, child, cx);
        }
        first
    }

    /// The first child is returned as a step, the others follow as effects.
    fn emit(&self, first: Step, leg: u8, child: ReqId, cx: &mut Cx<'_>) -> Step {
        if first == Step::Idle {
            return Step::Send(leg, child);
        }
        cx.send(leg, child);
        first
    }

    /// A failure of an operation without data, counted from the start of its parent.
    fn error_above(&self, id: ReqId, error: IoError, cx: &Cx<'_>) -> IoError {
        let child = &cx.requests[id];
        let start = cx.requests[child.parent].offset.0;
        if error.len.0 == 0 {
            return error;
        }
        let leg = u64::from(child.child);
        let below = self.map.below(leg, start) + error.at.0;
        let (first, last) = (self.map.above(leg, below), self.map.above(leg, below + error.len.0 - 1));
        IoError { kind: error.kind, at: ByteLen(first - start), len: ByteLen(last + 1 - first) }
    }
}

impl Machine for Stripe {
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
            return self.spread(id, cx);
        }
        if self.map.is_whole(request.offset.0, request.len.0) {
            let (leg, below) = self.map.place_for(request.op, request.offset.0);
            request.offset = ByteOffset(below);
            return Step::Forward(leg, id);
        }
        match request.op {
            Op::Read | Op::Write => self.split(id, cx),
            _ => self.spread(id, cx),
        }
    }

    fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let child = &cx.requests[id];
        let parent = match (child.op, child.error) {
            (Op::Read | Op::Write, _) | (_, None) => self.joins.child_done(id, cx),
            (_, Some(error)) => {
                let error = self.error_above(id, error, cx);
                self.joins.child_done_with(id, Some(error), cx)
            }
        };
        parent.map_or(Step::Idle, Step::Finish)
    }

    fn child_event(&mut self, child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        if let Some(event) = self.states.heard(child, event) {
            cx.event(event);
        }
        Step::Idle
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        let (leg, below) = self.map.place(offset.0);
        Some((leg, ByteOffset(below)))
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn members(&self) -> Option<&dyn Members> {
        Some(self)
    }
}

impl Advise for Stripe {
    /// The slowest leg, each asked once for its part.
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        if len.0 > 0 && self.map.is_whole(offset.0, len.0) {
            let (leg, below) = self.map.place(offset.0);
            return peek.expected_latency(leg, op, ByteOffset(below), len);
        }
        let mut slowest = Span::ZERO;
        for leg in 0..self.map.legs {
            let (from, to) = (self.map.below(leg, offset.0), self.map.below(leg, offset.0 + len.0));
            if len.0 == 0 || from < to {
                slowest = slowest.longer(peek.expected_latency(
                    leg as u8,
                    op,
                    ByteOffset(from),
                    ByteLen(to - from),
                ));
            }
        }
        slowest
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        (0..self.map.legs).any(|leg| peek.is_busy(leg as u8))
    }

    /// The place of the first byte. Lanes of the legs are dealt in turn, so that no two legs share one.
    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        let (leg, below) = self.map.place(offset.0);
        let rest = self.map.chunk() - (below & (self.map.chunk() - 1));
        let place = peek.locate(leg, ByteOffset(below), ByteLen(len.0.min(rest)))?;
        Some(Place { lane: place.lane * self.map.legs as u32 + u32::from(leg), ..place })
    }
}

impl Members for Stripe {
    fn left_over(&self, _child: u8, below: &Limits) -> ByteLen {
        ByteLen(below.capacity.0.saturating_sub(self.limits.capacity.0 / self.map.legs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_place() {
        for legs in 1..5 {
            let map = Map { legs, chunk_bits: 3, wrong_leg: false };
            let mut seen = std::collections::BTreeSet::new();
            for at in 0..200 {
                let (leg, below) = map.place(at);
                assert!(seen.insert((leg, below)));
                assert_eq!(map.above(u64::from(leg), below), at);
                // The obvious count of what lies below an address.
                for other in 0..legs {
                    let count = (0..at).filter(|&a| u64::from(map.place(a).0) == other).count();
                    assert_eq!(map.below(other, at), count as u64, "leg {other} below {at} of {legs}");
                }
            }
        }
    }
}
