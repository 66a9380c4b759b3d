//! One machine of a graph with what its driver keeps beside it, and the view a machine has of those below.

use crate::charge::ChargeTable;
use crate::machine::{Limits, Machine, Place};
use crate::medium::Medium;
use crate::path::CriticalPath;
use crate::request::{Op, Request};
use crate::units::{ByteLen, ByteOffset, Instant, Span};

/// Figures of one layer, kept by the driver.
#[derive(Clone, Debug)]
pub struct LayerStats {
    /// Requests that reached the layer, by operation.
    pub requests: [u64; Op::ALL.len()],
    /// Bytes of them, by operation.
    pub bytes: [u64; Op::ALL.len()],
    /// Requests that the layer passed on without hearing of their end.
    pub forwarded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that this layer finished.
    pub finished: u64,
    /// Sum of their latencies, from reaching the layer to the end.
    pub latency_total: Span,
    /// Longest latency.
    pub latency_max: Span,
    /// Sum of their critical paths.
    pub path: CriticalPath,
}

impl LayerStats {
    /// Nothing counted.
    pub const EMPTY: LayerStats = LayerStats {
        requests: [0; Op::ALL.len()],
        bytes: [0; Op::ALL.len()],
        forwarded: 0,
        failed: 0,
        finished: 0,
        latency_total: Span::ZERO,
        latency_max: Span::ZERO,
        path: CriticalPath::EMPTY,
    };

    /// Counts a request that reaches the layer.
    #[inline(always)]
    pub fn enter(&mut self, op: Op, len: ByteLen) {
        self.requests[op as usize] += 1;
        self.bytes[op as usize] += len.0;
    }

    /// Counts a request that the layer finishes.
    #[inline(always)]
    pub fn finish(&mut self, request: &Request, now: Instant) {
        let latency = now.since(request.entered);
        self.finished += 1;
        self.failed += u64::from(request.error.is_some());
        self.latency_total += latency;
        self.latency_max = self.latency_max.longer(latency);
        self.path.accumulate(&request.path);
    }
}

/// What one tenant's requests were in one layer: those that it caused, whoever sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantStats {
    /// Requests that reached the layer.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests that this layer finished.
    pub finished: u64,
    /// Sum of their latencies, from reaching the layer to the end.
    pub latency_total: Span,
    /// Longest latency.
    pub latency_max: Span,
}

/// One machine of a graph with what its driver keeps beside it.
pub struct Node {
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Numbers of its children. All are smaller than its own, but of leaves that were added while the graph ran.
    pub children: Vec<u32>,
    /// What it can take since it was made longer, in place of what the machine says.
    pub grown: Option<Box<Limits>>,
    /// Whether its start is complete and its end has not come.
    pub open: bool,
    /// Its computed medium, when the run stores content.
    pub medium: Option<Box<dyn Medium>>,
    /// What it was charged.
    pub charges: ChargeTable,
    /// Its figures.
    pub stats: LayerStats,
}

impl Node {
    /// What it can take.
    pub fn limits(&self) -> &Limits {
        self.grown.as_deref().unwrap_or_else(|| self.machine.limits())
    }
}

/// A read-only view of what lies below a machine.
#[derive(Clone, Copy)]
pub struct Peek<'a> {
    /// The machines with a smaller number.
    below: &'a [Node],
    /// Those with a larger one: children that were added while the graph ran are among them.
    above: &'a [Node],
    /// Numbers of the children.
    children: &'a [u32],
    /// The time.
    pub now: Instant,
}

impl<'a> Peek<'a> {
    /// The view from a machine whose children have the numbers `children`; `below` have smaller numbers than the machine, and `above` larger ones.
    #[inline(always)]
    pub fn new(below: &'a [Node], above: &'a [Node], children: &'a [u32], now: Instant) -> Peek<'a> {
        Peek { below, above, children, now }
    }

    /// The number of the machine that is called, also where a machine below it looks further down.
    #[inline(always)]
    pub fn node(&self) -> u32 {
        self.below.len() as u32
    }

    /// Number of children.
    pub fn children(&self) -> usize {
        self.children.len()
    }

    fn child(&self, child: u8) -> (Peek<'a>, &'a Node) {
        let number = self.children[usize::from(child)] as usize;
        let node = match self.below.get(number) {
            Some(node) => node,
            None => &self.above[number - self.below.len() - 1],
        };
        (Peek { children: &node.children, ..*self }, node)
    }

    /// What child `child` can take.
    pub fn limits(&self, child: u8) -> &'a Limits {
        self.child(child).1.limits()
    }

    /// Whether the child is open.
    pub fn is_open(&self, child: u8) -> bool {
        self.child(child).1.open
    }

    /// How long the child would take.
    pub fn expected_latency(&self, child: u8, op: Op, offset: ByteOffset, len: ByteLen) -> Span {
        let (peek, node) = self.child(child);
        node.machine.advise().map_or(Span::ZERO, |of| of.expected_latency(op, offset, len, &peek))
    }

    /// Whether the child is busy.
    pub fn is_busy(&self, child: u8) -> bool {
        let (peek, node) = self.child(child);
        node.machine.advise().is_some_and(|of| of.is_busy(&peek))
    }

    /// Where the child keeps this extent.
    pub fn locate(&self, child: u8, offset: ByteOffset, len: ByteLen) -> Option<Place> {
        let (peek, node) = self.child(child);
        node.machine.advise()?.locate(offset, len, &peek)
    }
}
