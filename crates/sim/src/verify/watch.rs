//! What a run of a seed knows about its stack: which failures are explained, and when data may be lost.
//!
//! - *Failures.* A request of the host may fail only when a `fault` below has injected an error or lost its device. A
//!   `mirror` makes up for that while the other leg is a member that lacks nothing, and has no error of its own at the same moment or before.
//!   A `parity` array makes up for one leg while all others are rebuilt.
//! - *Losses.* A `fault` that loses its device loses what is not flushed there. The host may see that unless a `mirror`
//!   above has the data on its other leg: that leg must be a member that lacks nothing, and not be lost at the same moment.
//!   A `parity` array with a journal has made durable whatever it has acknowledged, so nothing below it excuses a loss.
//! - *Rings that hold copies* only excuse nothing.

use super::judge::ASIDE;
use nandu_base::{Counter, EnergyPart, Instant, Machine, Request, Resource, Span, State, Violation, Work};
use nandu_stack::{Built, Graph};

/// A device, as far as it matters here.
#[derive(Clone, Debug)]
struct Node {
    kind: &'static str,
    children: Vec<u32>,
    /// It has failed requests or lost its device, now or before a power cut.
    struck: bool,
    losses: u64,
    /// Losses and errors.
    strikes: u64,
    /// Of a mirror: which legs are members and lack nothing.
    members: [bool; 2],
    leader: usize,
    /// It has left a leg out that only was late, or that led and was to follow. An error of another one may be on its way by then.
    degraded: bool,
    /// Of a parity array: whether all legs are rebuilt, and durably called so; whether it has a journal.
    whole: bool,
    journaled: bool,
    /// A hybrid disk whose rings hold copies only.
    copies: bool,
    /// A hybrid disk that goes on without its rings, and names what is lost.
    mapped: bool,
}

/// Whether a machine is a hybrid disk whose rings hold copies only.
pub(super) fn holds_copies(machine: &dyn Machine) -> bool {
    let mut counters = Vec::new();
    machine.counters(&mut counters);
    counters.iter().any(|counter| counter.name == "rings_in_use")
}

/// Whether a machine is a hybrid disk with a map of dirty regions.
fn has_map(machine: &dyn Machine) -> bool {
    let mut counters = Vec::new();
    machine.counters(&mut counters);
    counters.iter().any(|counter| counter.name == "rings_given_up")
}

impl Node {
    /// Those of its children without which it cannot do; of a mirror or a parity array that is another matter.
    fn needs(&self) -> &[u32] {
        let from = if self.copies { self.children.len() - 1 } else { 0 };
        &self.children[from..]
    }

    fn is_mirror(&self) -> bool {
        matches!(self.kind, "mirror" | "hetero-mirror")
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

    /// What of it shows at a mirror whose other leg is `other`, and a member or not.
    fn beside(self, other: Fresh, is_member: bool) -> Fresh {
        Fresh {
            loss: self.loss && (other.loss || !is_member),
            strike: self.strike && (other.strike || !is_member),
        }
    }
}

/// Follows the faults of a stack.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    nodes: Vec<Node>,
    has_faults: bool,
    has_missed: bool,
    counters: Vec<Counter>,
}

impl Watch {
    pub fn new(built: &Built) -> Watch {
        let nodes: Vec<Node> = built
            .parts
            .iter()
            .map(|p| Node {
                kind: p.kind,
                children: p.children.clone(),
                struck: false,
                losses: 0,
                strikes: 0,
                members: [false; 2],
                leader: 0,
                degraded: false,
                whole: false,
                journaled: false,
                copies: holds_copies(&*p.machine),
                mapped: has_map(&*p.machine),
            })
            .collect();
        Watch {
            has_faults: nodes.iter().any(|n| n.kind == "fault"),
            nodes,
            has_missed: false,
            counters: Vec::new(),
        }
    }

    /// Mirrors with their legs.
    pub fn mirrors(&self) -> impl Iterator<Item = (u32, [u32; 2])> + '_ {
        let mirrors = (0u32..).zip(&self.nodes).filter(|(_, n)| n.is_mirror());
        mirrors.map(|(at, n)| (at, [n.children[0], n.children[1]]))
    }

    /// Leader and follower of the only mirror, when both lack nothing. With several mirrors nobody can say which may start
    /// alone.
    pub fn current_legs(&self) -> Option<[u32; 2]> {
        let mut mirrors = self.nodes.iter().filter(|n| n.is_mirror());
        let only = mirrors.next().filter(|n| n.members == [true; 2])?;
        let leader = only.leader;
        mirrors.next().is_none().then_some([only.children[leader], only.children[1 - leader]])
    }

    /// Devices that are looked after while they run, with their legs: mirrors, then parity arrays.
    pub fn looked_after(&self) -> Vec<(u32, Vec<u32>)> {
        let mirrors = self.mirrors().map(|(at, legs)| (at, legs.to_vec()));
        mirrors.chain(self.parities().map(|(at, legs)| (at, legs.to_vec()))).collect()
    }

    /// Parity arrays with their legs.
    pub fn parities(&self) -> impl Iterator<Item = (u32, &[u32])> + '_ {
        (0u32..).zip(&self.nodes).filter(|(_, n)| n.kind == "parity").map(|(at, n)| (at, &n.children[..]))
    }

    /// The legs of the only redundant device when it is a parity array that lacks nothing. Without a journal it does not
    /// promise to bear the loss of a leg together with a cut.
    pub fn spare_legs(&self) -> Option<&[u32]> {
        let mut redundant = self.nodes.iter().filter(|n| matches!(n.kind, "mirror" | "parity"));
        let only = redundant.next().filter(|n| n.kind == "parity" && n.whole && n.journaled)?;
        redundant.next().is_none().then_some(&only.children[..])
    }

    /// The rings of the only device that bears a loss, when that is a hybrid disk whose rings hold copies only.
    pub fn spare_rings(&self) -> Option<&[u32]> {
        let bears = |n: &&Node| n.copies || n.is_mirror() || n.kind == "parity";
        let mut bearing = self.nodes.iter().filter(bears);
        let only = bearing.next().filter(|n| n.copies)?;
        bearing.next().is_none().then(|| &only.children[..only.children.len() - 1])
    }

    /// The ring of the stack, when that is a hybrid disk with one ring and a map of dirty regions, whose members are leaves.
    pub fn losable_ring(&self) -> Option<u32> {
        let top = self.nodes.last().filter(|top| top.mapped)?;
        match top.children[..] {
            [ring, _] if self.nodes.len() == 3 => Some(ring),
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

    /// Whether the stack is a mirror or a hybrid disk over files: what a read finds there after a start is flushed, so it may not come
    /// undone even when only the process had died.
    pub fn stands_on_files(&self) -> bool {
        let Some((top, below)) = self.nodes.split_last() else { return false };
        (top.is_mirror() || top.kind == "hybrid") && below.iter().all(|n| n.kind == "file")
    }

    /// One change of a block is under way at a leg of a mirror: two would end in an order that nobody knows. Requests
    /// that a leg passes on as they are have gone from its queue and are not seen.
    pub fn check_order(&self, graph: &Graph) -> Result<(), Violation> {
        for leg in self.mirrors().flat_map(|(_, legs)| legs) {
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
    pub fn check_scrubs(&mut self, graph: &Graph) -> Result<(), Violation> {
        for (at, _) in (0u32..).zip(&self.nodes).filter(|(_, n)| n.is_mirror() || n.kind == "parity") {
            self.counters.clear();
            graph.machine(at).counters(&mut self.counters);
            let differing = Counter::of(&self.counters, "scrub_differing_blocks");
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
    pub fn look(&mut self, graph: &Graph, roots: &[u32]) -> bool {
        if !self.has_faults {
            self.look_at_mirrors(graph);
            return false;
        }
        // Children come before their parents, so one pass is enough.
        let mut fresh = vec![Fresh::default(); self.nodes.len()];
        let mut any = false;
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let below: Fresh =
                node.needs().iter().fold(Fresh::default(), |sum, &c| sum.with(fresh[c as usize]));
            fresh[at] = match (node.kind, &node.children[..]) {
                ("fault", _) => self.look_at_fault(graph, at).with(below),
                ("mirror" | "hetero-mirror", &[a, b]) => {
                    let [a, b] = [a, b].map(|leg| fresh[leg as usize]);
                    a.beside(b, node.members[1]).with(b.beside(a, node.members[0]))
                }
                ("parity", legs) => {
                    let struck = legs.iter().filter(|&&leg| fresh[leg as usize].strike).count();
                    Fresh { loss: false, strike: struck > usize::from(node.whole) }
                }
                _ => below,
            };
            self.nodes[at].struck |= fresh[at].strike;
            any |= fresh[at].loss;
        }
        self.look_at_mirrors(graph);
        any && roots.iter().any(|&root| fresh[root as usize].loss)
    }

    fn look_at_fault(&mut self, graph: &Graph, at: usize) -> Fresh {
        self.counters.clear();
        graph.machine(at as u32).counters(&mut self.counters);
        let losses = Counter::of(&self.counters, "losses");
        // A write that was stored wrong shows later, as an error of the checksums above, or not at all.
        let errors = Counter::of(&self.counters, "injected_errors") + Counter::of(&self.counters, "flips");
        let node = &mut self.nodes[at];
        let fresh = Fresh { loss: losses > node.losses, strike: losses + errors > node.strikes };
        (node.losses, node.strikes) = (losses, losses + errors);
        fresh
    }

    fn look_at_mirrors(&mut self, graph: &Graph) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].kind == "parity" {
                self.nodes[at].whole = Watch::is_whole(graph, at as u32, self.nodes[at].children.len());
                self.counters.clear();
                graph.machine(at as u32).counters(&mut self.counters);
                self.nodes[at].journaled = Counter::of(&self.counters, "journal_slots") > 0;
                self.nodes[at].degraded |= Counter::of(&self.counters, "legs_timed_out") > 0;
            }
        }
        for (at, node) in self.nodes.iter_mut().enumerate().filter(|(_, n)| n.is_mirror()) {
            self.counters.clear();
            graph.machine(at as u32).counters(&mut self.counters);
            let is_current = Counter::of(&self.counters, "stale_regions") == 0;
            let leader = Counter::of(&self.counters, "leader_leg");
            node.leader = usize::from(leader == 1);
            let late = ["leader_changes", "leg_a_timeouts", "leg_b_timeouts"];
            let of_hetero = ["degrades"].into_iter().filter(|_| node.kind == "hetero-mirror");
            node.degraded |=
                late.into_iter().chain(of_hetero).any(|name| Counter::of(&self.counters, name) > 0);
            node.members = [("leg_a_is_member", 0), ("leg_b_is_member", 1)]
                .map(|(name, leg)| Counter::of(&self.counters, name) == 1 && (leg == leader || is_current));
        }
    }

    /// Whether a request that failed at `at` had a reason to.
    pub fn explains(&self, at: u32) -> bool {
        let node = &self.nodes[at as usize];
        let mut below = node.needs().iter().map(|&c| self.explains(c));
        match node.kind {
            "mirror" | "hetero-mirror" if node.degraded => node.struck || below.any(|struck| struck),
            "mirror" | "hetero-mirror" => node.struck || below.all(|struck| struck),
            "parity" => node.struck || below.filter(|&struck| struck).count() > usize::from(!node.degraded),
            _ => node.struck || below.any(|struck| struck),
        }
    }

    /// Whether a drive is worn out: it refuses all changes.
    pub fn is_worn_out(graph: &Graph) -> bool {
        let mut counters = Vec::new();
        (0..graph.len() as u32).any(|node| {
            counters.clear();
            graph.machine(node).counters(&mut counters);
            counters.iter().any(|counter| counter.name == "is_worn_out" && counter.value == 1)
        })
    }

    /// Whether any fault has struck.
    pub fn has_struck(&self) -> bool {
        self.nodes.iter().any(|n| n.struck)
    }

    /// Whether a start of `at` that failed had a reason to: any fault below may be in its way.
    pub fn explains_start(&self, at: u32) -> bool {
        let node = &self.nodes[at as usize];
        node.struck || node.needs().iter().any(|&c| self.explains_start(c))
    }

    /// Whether all `legs` of a parity array are rebuilt and durably called so.
    pub fn is_whole(graph: &Graph, parity: u32, legs: usize) -> bool {
        let mut counters = Vec::new();
        graph.machine(parity).counters(&mut counters);
        Counter::of(&counters, "full_legs") == legs as u64
    }

    /// Whether a parity array is at rest and nothing is lost or left to do: its legs must xor to zero. One that starts anew, for enough
    /// legs are back, finds all of them called full on the legs before it has replayed its journal.
    pub fn is_even(graph: &Graph, parity: u32, legs: usize) -> bool {
        let mut counters = Vec::new();
        graph.machine(parity).counters(&mut counters);
        let none = |name| Counter::of(&counters, name) == 0;
        Watch::is_whole(graph, parity, legs)
            && Counter::of(&counters, "is_serving") == 1
            && ["bytes_to_rebuild", "lost_sectors", "pieces_under_way"].into_iter().all(none)
    }

    /// What a parity array has written so far: nothing, where two looks find the same.
    pub fn changes(graph: &Graph, parity: u32) -> u64 {
        let mut counters = Vec::new();
        graph.machine(parity).counters(&mut counters);
        let writes = ["full_stripe_writes", "read_modify_writes", "reconstruct_writes", "parityless_writes"];
        let others = ["repairs", "rebuilt_bytes", "legs_lost", "scrub_repaired_bytes"];
        writes.iter().chain(&others).map(|name| Counter::of(&counters, name)).sum()
    }

    /// Whether both legs of a mirror are members and nothing is left to do: its legs must be equal.
    pub fn is_quiet(graph: &Graph, mirror: u32) -> bool {
        let mut counters = Vec::new();
        graph.machine(mirror).counters(&mut counters);
        let is = |name, value| Counter::of(&counters, name) == value;
        is("leg_a_is_member", 1)
            && is("leg_b_is_member", 1)
            && is("stale_regions", 0)
            && is("dirty_regions", 0)
    }
}

/// I-13: what was charged for each resource of each machine adds up to its busy time.
pub(crate) fn check_charges(graph: &Graph) -> Result<(), Violation> {
    let mut busy: Vec<(Resource, Span, u32)> = Vec::new();
    for node in 0..graph.len() as u32 {
        busy.clear();
        graph.machine(node).busy(&mut busy);
        for resource in Resource::ALL {
            let mine = busy.iter().filter(|b| b.0 == resource).fold(Span::ZERO, |sum, b| sum + b.1);
            let charged = graph.charges(node).busy(resource);
            if mine != charged {
                let what = format!(
                    "the {} of {} was busy for {mine}, charged are {charged}",
                    resource.name(),
                    graph.name(node)
                );
                return Err(Violation { invariant: "I-13", what });
            }
        }
        check_energy(graph, node)?;
    }
    Ok(())
}

/// I-13: the account of energy agrees with what was charged. That it agrees with what a machine counts is its own check.
fn check_energy(graph: &Graph, node: u32) -> Result<(), Violation> {
    let mut parts: Vec<EnergyPart> = Vec::new();
    graph.machine(node).energy(Instant::ZERO, Instant::ZERO, &mut parts);
    let broken =
        |what: String| Violation { invariant: "I-13", what: format!("{}: {what}", graph.name(node)) };
    if let Some(part) = parts.iter().find(|part| !part.is_sound()) {
        return Err(broken(format!("the energy of {} is not its time at its power", part.state)));
    }
    // Only flash says what its operations were for.
    let is_flash = |part: &EnergyPart| part.state == "wait" || part.work.is_some();
    if !parts.iter().any(is_flash) {
        return Ok(());
    }
    let table = graph.charges(node);
    for work in Work::ALL {
        let rows = parts.iter().filter(|part| part.state == "transfer" && part.work == Some(work));
        let drawn: u128 = rows.map(|part| part.time_ns).sum();
        let charged: u64 = table.tenants().map(|t| table.get(t, Resource::Channel, work).0).sum();
        if drawn != u128::from(charged) {
            let work = work.name();
            return Err(broken(format!(
                "transfers for {work} took {drawn} ns by the account of energy, charged are {charged} ns"
            )));
        }
    }
    Ok(())
}
