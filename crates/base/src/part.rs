//! A part of a device: what `slice` and `region` are once they know where it lies.
//!
//! A request is shifted and passed on; nobody waits for it here. A flush is passed on as it is: it makes durable what the
//! whole device below holds. One step per request; no RAM per byte.

use crate::{
    Advise, ByteLen, ByteOffset, Cx, Hints, Limits, Machine, Needs, Op, Peek, Place, ReqId, Span, Step,
};

/// The machine.
pub struct Part {
    limits: Limits,
    base: ByteLen,
    early: bool,
}

impl Part {
    /// The part of a device that begins at `base` and has these limits. With `early`, a fault to plant, reads that do not
    /// begin at its start begin one unit of alignment early.
    pub fn new(limits: Limits, base: ByteOffset, early: bool) -> Part {
        Part { limits, base: ByteLen(base.0), early }
    }
}

impl Machine for Part {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::PASSING
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &mut cx.requests[id];
        if request.op != Op::Flush {
            let early = self.early && request.op == Op::Read && request.offset > ByteOffset::ZERO;
            let slip = if early { u64::from(self.limits.align) } else { 0 };
            request.offset = ByteOffset(request.offset.0 + self.base.0 - slip);
        }
        Step::Forward(0, id)
    }

    #[inline]
    fn prepare(&self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset + self.base))
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }

    fn hints(&mut self) -> Option<&mut dyn Hints> {
        Some(self)
    }
}

impl Advise for Part {
    fn expected_latency(&self, op: Op, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Span {
        peek.expected_latency(0, op, offset + self.base, len)
    }

    fn is_busy(&self, peek: &Peek<'_>) -> bool {
        peek.is_busy(0)
    }

    fn locate(&self, offset: ByteOffset, len: ByteLen, peek: &Peek<'_>) -> Option<Place> {
        peek.locate(0, offset + self.base, len)
    }
}

impl Hints for Part {
    fn foresee(&mut self, _op: Op, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset + self.base))
    }

    fn used(&mut self, offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        Some((0, offset + self.base))
    }
}
