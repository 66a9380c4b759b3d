//! What a run of a seed knows about its stack: which failures are explained, and when data may be lost.
//!
//! - *Failures.* A request of the host may fail only when a `fault` below has injected an error or lost its device. A machine that bears a loss
//!   ([`Redundancy`]) makes up for that while members that lack nothing, and have no error of their own at the same moment or before, are enough.
//! - *Losses.* A `fault` that loses its device loses what is not flushed there. The host may see that unless a machine
//!   above has the data elsewhere: on members that lack nothing, and are not lost at the same moment.
//!   A machine that keeps whatever it has acknowledged excuses no loss.
//! - *Copies* excuse nothing.

use super::judge::ASIDE;
use nandu_base::{Absence, Ask, ChildUse, Children, Counter, Machine, Redundancy, Request, State, Violation};
use nandu_stack::{Built, BuiltPart, Graph};

/// A device, as far as it matters here.
#[derive(Clone, Debug)]
struct Node {
    /// Whether it is a leaf that lies in a file.
    is_file: bool,
    children: Vec<u32>,
    /// It has failed requests or lost its device, now or before a power cut.
    struck: bool,
    losses: u64,
    /// Losses and errors.
    strikes: u64,
    /// What it said of its children when it was last looked at; before the first look no member is complete.
    redundancy: Redundancy,
    /// Whether it says anything about them.
    speaks: bool,
    /// It has ever been [`shaken`](Redundancy::shaken).
    shaken: bool,
    /// It injects faults.
    injects: bool,
}

/// What a machine with so many children says of them.
pub(super) fn redundancy(machine: &dyn Machine, children: usize) -> Redundancy {
    machine.members().and_then(|of| of.redundancy()).unwrap_or_else(|| Redundancy::none(children))
}

impl Node {
    /// Those of its children of which `is_one` says so.
    fn those(&self, is_one: impl Fn(u32) -> bool) -> Children {
        Children::of(self.children.len(), |child| is_one(self.children[child]))
    }

    /// Those without which it cannot do, but for what it bears.
    fn needs(&self) -> impl Iterator<Item = u32> + '_ {
        self.redundancy.members.iter().map(|child| self.children[child])
    }

    /// Children that hold copies only.
    fn copies(&self) -> impl Iterator<Item = u32> + '_ {
        let members = self.redundancy.members;
        Children::first(self.children.len()).without(members).iter().map(|child| self.children[child])
    }
}

/// What has happened at a device since the last look.
#[derive(Clone, Copy, Default, Debug)]
struct Fresh {
    loss: bool,
    strike: bool,
}

impl Fresh {
    fn with(self, other: Fresh) -> Fresh {
        Fresh { loss: self.loss || other.loss, strike: self.strike || other.strike }
    }
}

/// Follows the faults of a stack.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    nodes: Vec<Node>,
    has_faults: bool,
    has_missed: bool,
}

impl Watch {
    pub fn new(built: &Built) -> Watch {
        let node = |part: &BuiltPart| {
            let said = redundancy(&*part.machine, part.children.len());
            Node {
                is_file: part.kind == "file",
                children: part.children.clone(),
                struck: false,
                losses: 0,
                strikes: 0,
                speaks: part.machine.members().is_some_and(|of| of.redundancy().is_some()),
                redundancy: match said.bears_a_loss() {
                    true => Redundancy { complete: Children::NONE, absence: Absence::None, ..said },
                    false => said,
                },
                shaken: false,
                injects: part.machine.needs().injects_faults,
            }
        };
        let nodes: Vec<Node> = built.parts.iter().map(node).collect();
        Watch { has_faults: nodes.iter().any(|n| n.injects), nodes, has_missed: false }
    }

    /// Devices that bear a loss.
    fn redundant(&self) -> impl Iterator<Item = (u32, &Node)> {
        (0u32..).zip(&self.nodes).filter(|(_, n)| n.redundancy.bears_a_loss())
    }

    /// Devices whose members hold all data each, with those members: mirrors.
    pub fn mirrors(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let mirrors = self.redundant().filter(|(_, n)| n.redundancy.enough == 1);
        mirrors.map(|(at, n)| (at, &n.children[..]))
    }

    /// Devices of which all members but one hold all data, with those members: parity arrays.
    pub fn parities(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let others = self.redundant().filter(|(_, n)| n.redundancy.enough > 1);
        others.map(|(at, n)| (at, &n.children[..]))
    }

    /// Devices that are looked after while they run, with their legs: mirrors, then parity arrays.
    pub fn looked_after(&self) -> Vec<(u32, Vec<u32>)> {
        self.mirrors().chain(self.parities()).map(|(at, legs)| (at, legs.to_vec())).collect()
    }

    /// Which child may stay away at the next start, because the device above must bear that, and what that means. With several devices that bear a loss
    /// nobody can say, but for the only one of them that has a leader; a device whose copies nobody misses, or that may go on without a
    /// ring, must be the only one that says anything.
    pub fn may_be_missing(&self) -> Option<(Absence, Vec<u32>)> {
        let mut redundant = self.redundant().map(|(_, n)| n);
        let of_copies = |n: &&Node| matches!(n.redundancy.absence, Absence::Copy);
        match (redundant.next(), redundant.next()) {
            (Some(only), None) if only.redundancy.absence == Absence::Any => {
                return Some((Absence::Any, only.children.clone()));
            }
            (None, _) => {
                let mut copies = self.nodes.iter().filter(of_copies);
                if let (Some(only), None) = (copies.next(), copies.next()) {
                    return Some((Absence::Copy, only.copies().collect()));
                }
                let top = self.nodes.last().filter(|top| top.redundancy.absence == Absence::GivenUp)?;
                return match top.children[..] {
                    [ring, _] if self.nodes.len() == 3 => Some((Absence::GivenUp, vec![ring])),
                    _ => None,
                };
            }
            _ => {}
        }
        let mut mirrors = self.redundant().filter(|(_, n)| n.redundancy.enough == 1);
        let (Some((_, only)), None) = (mirrors.next(), mirrors.next()) else { return None };
        match only.redundancy.absence {
            absence @ Absence::Follower { leader } => {
                // The leader first.
                let leader = only.children[usize::from(leader)];
                let others = only.children.iter().filter(|&&leg| leg != leader);
                Some((absence, [leader].into_iter().chain(others.copied()).collect()))
            }
            _ => None,
        }
    }

    /// A device is missing from now on: that explains failures like an error of its own.
    pub fn misses(&mut self, at: u32) {
        self.nodes[at as usize].struck = true;
        self.has_missed = true;
    }

    /// Whether a mirror was told to start without a leg: it may report what only that leg had.
    pub fn has_missed(&self) -> bool {
        self.has_missed
    }

    /// Whether the stack is a device over files that settles what a read finds there after a start: so that may not come undone even when only the
    /// process had died.
    pub fn stands_on_files(&self) -> bool {
        let Some((top, below)) = self.nodes.split_last() else { return false };
        top.redundancy.settles && below.iter().all(|n| n.is_file)
    }

    /// One change of a block is under way at a leg of a device that says so: two would end in an order that nobody knows. Requests
    /// that a leg passes on as they are have gone from its queue and are not seen.
    pub fn check_order(&self, graph: &Graph) -> Result<(), Violation> {
        for &leg in self.nodes.iter().filter(|n| n.redundancy.in_order).flat_map(|n| &n.children) {
            // What waits in the mirror was not sent to anybody yet.
            let is_sent = |r: &Request| r.state == State::Sent && r.cookie & ASIDE == 0;
            let at_leg = |r: &Request| r.node == leg && r.op.changes_data() && is_sent(r);
            let changes: Vec<&Request> =
                graph.requests.iter().map(|(_, r)| r).filter(|r| at_leg(r)).collect();
            for (i, a) in changes.iter().enumerate() {
                let meets = |b: &&&Request| a.offset < b.end() && b.offset < a.end();
                if let Some(b) = changes[..i].iter().find(meets) {
                    let name = graph.name(leg);
                    let what = format!(
                        "{name} has two changes of bytes {} and {} under way",
                        a.offset.0, b.offset.0
                    );
                    return Err(Violation { invariant: "one_in_flight_per_block_and_leg", what });
                }
            }
        }
        Ok(())
    }

    /// Nothing changes by itself here: a scrub that finds a difference has found a fault of the array.
    pub fn check_scrubs(&mut self, graph: &mut Graph) -> Result<(), Violation> {
        for at in self.redundant().map(|(at, _)| at).collect::<Vec<_>>() {
            let counters = graph.report(at, Ask::Counters).counters;
            let differing = Counter::of(&counters, "scrub_differing_blocks");
            if differing > 0 {
                let what = format!("a scrub of {} finds {differing} blocks that differ", graph.name(at));
                return Err(Violation { invariant: "scrub_compares_current", what });
            }
        }
        Ok(())
    }

    /// Whether the stack has faults.
    pub fn has_faults(&self) -> bool {
        self.has_faults
    }

    /// Losses of devices since the start.
    pub fn losses(&self) -> u64 {
        self.nodes.iter().map(|n| n.losses).sum()
    }

    /// Losses and errors since the start.
    pub fn strikes(&self) -> u64 {
        self.nodes.iter().map(|n| n.strikes).sum()
    }

    /// A new session: the machines count from zero.
    pub fn restart(&mut self) {
        self.nodes.iter_mut().for_each(|n| (n.losses, n.strikes) = (0, 0));
    }

    /// Looks at the machines. True when something was lost that the host may miss at one of `roots`.
    pub fn look(&mut self, graph: &mut Graph, roots: &[u32]) -> bool {
        if !self.has_faults {
            self.listen(graph);
            return false;
        }
        // Children come before their parents, so one pass is enough.
        let mut fresh = vec![Fresh::default(); self.nodes.len()];
        let mut any = false;
        for at in 0..self.nodes.len() {
            let (node, said) = (&self.nodes[at], &self.nodes[at].redundancy);
            let lost = node.those(|child| fresh[child as usize].loss);
            let struck = node.those(|child| fresh[child as usize].strike);
            let below = Fresh { loss: !said.keeps && said.misses(lost), strike: said.misses(struck) };
            fresh[at] = if node.injects { self.look_at_fault(graph, at).with(below) } else { below };
            self.nodes[at].struck |= fresh[at].strike;
            any |= fresh[at].loss;
        }
        self.listen(graph);
        any && roots.iter().any(|&root| fresh[root as usize].loss)
    }

    fn look_at_fault(&mut self, graph: &mut Graph, at: usize) -> Fresh {
        let counters = graph.report(at as u32, Ask::Counters).counters;
        let losses = Counter::of(&counters, "losses");
        // A write that was stored wrong shows later, as an error of the checksums above, or not at all.
        let errors = Counter::of(&counters, "injected_errors") + Counter::of(&counters, "flips");
        let node = &mut self.nodes[at];
        let fresh = Fresh { loss: losses > node.losses, strike: losses + errors > node.strikes };
        (node.losses, node.strikes) = (losses, losses + errors);
        fresh
    }

    /// What the machines say of their children now.
    fn listen(&mut self, graph: &Graph) {
        for (at, node) in (0u32..).zip(&mut self.nodes).filter(|(_, node)| node.speaks) {
            node.redundancy = redundancy(graph.machine(at), node.children.len());
            node.shaken |= node.redundancy.shaken;
        }
    }

    /// Whether a request that failed at `at` had a reason to.
    pub fn explains(&self, at: u32) -> bool {
        let node = &self.nodes[at as usize];
        let said = Redundancy { shaken: node.shaken, ..node.redundancy.clone() };
        node.struck || said.may_fail(node.those(|child| self.explains(child)))
    }

    /// Whether a drive is worn out: it refuses all changes.
    pub fn is_worn_out(graph: &mut Graph) -> bool {
        let nodes = graph.len() as u32;
        (0..nodes).any(|node| graph.report(node, Ask::Counters).counter("is_worn_out") == Some(1))
    }

    /// Whether any fault has struck.
    pub fn has_struck(&self) -> bool {
        self.nodes.iter().any(|n| n.struck)
    }

    /// Whether a start of `at` that failed had a reason to: any fault below may be in its way.
    pub fn explains_start(&self, at: u32) -> bool {
        let node = &self.nodes[at as usize];
        node.struck || node.needs().any(|child| self.explains_start(child))
    }

    /// What a device that bears a loss says of its children now.
    fn said(graph: &Graph, device: u32) -> Redundancy {
        graph.members(device).and_then(|of| of.redundancy()).expect("it has said so before")
    }

    /// Whether nothing is lost, under way or left to do at a device: what its members hold agrees.
    pub fn is_at_rest(graph: &Graph, device: u32) -> bool {
        Watch::said(graph, device).at_rest
    }

    /// What a device has written so far: nothing, where two looks at one that is at rest find the same.
    pub fn changes(graph: &Graph, device: u32) -> u64 {
        Watch::said(graph, device).changes
    }

    /// How often a device has said durably that it goes on without a leg; less while that is not durable.
    pub fn departures(graph: &Graph, device: u32) -> u64 {
        Watch::said(graph, device).departures
    }

    /// Whether a device uses all its members.
    pub fn uses_all(graph: &Graph, device: u32) -> bool {
        let child_use = |child| graph.members(device).and_then(|of| of.child_use(child as u8));
        let uses = |child| child_use(child) == Some(ChildUse::Used);
        Watch::said(graph, device).members.iter().all(uses)
    }
}
