//! What can be seen of a graph without changing anything.

use crate::Graph;
use nandu_base::{
    Ask, ByteLen, ByteOffset, ChargeTable, ChildUse, Instant, LayerStats, Limits, Machine, Members, Op,
    OpenError, Peek, Report, Span, TenantStats, Violation,
};

impl Graph {
    /// Number of machines.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no machine; never the case for a stack that was checked.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A machine's name.
    pub fn name(&self, node: u32) -> &str {
        &self.names[node as usize]
    }

    /// A machine.
    pub fn machine(&self, node: u32) -> &dyn Machine {
        &*self.nodes[node as usize].machine
    }

    /// What a machine says of its children, if it says anything.
    pub fn members(&self, node: u32) -> Option<&dyn Members> {
        self.machine(node).members()
    }

    /// What a machine does with one of its children, if it is built to do without some.
    pub fn child_use(&self, node: u32, child: u8) -> Option<ChildUse> {
        self.members(node)?.child_use(child)
    }

    /// The figures of a machine. Nothing changes, unless the report asks for it.
    pub fn report(&mut self, node: u32, ask: Ask) -> Report {
        Report::of(&mut *self.nodes[node as usize].machine, ask)
    }

    /// What a machine can take.
    pub fn limits(&self, node: u32) -> &Limits {
        self.nodes[node as usize].limits()
    }

    /// What a machine was charged.
    pub fn charges(&self, node: u32) -> &ChargeTable {
        &self.nodes[node as usize].charges
    }

    /// A layer's figures.
    pub fn stats(&self, node: u32) -> &LayerStats {
        &self.nodes[node as usize].stats
    }

    /// A layer's figures by tenant, SYSTEM first; empty where there is one tenant.
    pub fn tenant_stats(&self, node: u32) -> &[TenantStats] {
        self.by_tenant.get(node as usize).map_or(&[], |tenants| tenants)
    }

    /// Whether the machine is open.
    pub fn is_open(&self, node: u32) -> bool {
        self.nodes[node as usize].open
    }

    /// How the machine's start ended, once it has.
    pub fn open_result(&self, node: u32) -> Option<&Result<(), OpenError>> {
        self.results[node as usize].as_ref()
    }

    /// The first violation that a machine's check or a path reports.
    pub fn check(&self) -> Result<(), Violation> {
        if let Some(violation) = &self.violation {
            return Err(violation.clone());
        }
        self.nodes.iter().try_for_each(|node| node.machine.check())
    }

    /// About how long a request to `node` would take.
    pub fn expected_latency(
        &self,
        node: u32,
        op: Op,
        offset: ByteOffset,
        len: ByteLen,
        now: Instant,
    ) -> Span {
        let index = node as usize;
        let asked = &self.nodes[index];
        let peek = Peek::new(&self.nodes[..index], &self.nodes[index + 1..], &asked.children, now);
        asked.machine.advise().map_or(Span::ZERO, |of| of.expected_latency(op, offset, len, &peek))
    }

    /// Lets the machines warm what a request that will come soon needs.
    #[inline(always)]
    pub fn prepare(&self, node: u32, op: Op, mut offset: ByteOffset, len: ByteLen) {
        let mut node = &self.nodes[node as usize];
        while let Some((child, below)) = node.machine.prepare(op, offset, len) {
            node = &self.nodes[node.children[usize::from(child)] as usize];
            offset = below;
        }
    }

    /// How many requests ahead the machines want to be told what comes.
    pub fn foresight(&self) -> u32 {
        self.nodes.iter().map(|node| node.machine.needs().foresight).max().unwrap_or(0)
    }
}
