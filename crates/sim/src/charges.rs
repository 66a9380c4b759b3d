//! Whether the accounts of a graph add up: what was charged, how long each resource was busy, what energy was drawn (I-13).

use nandu_base::{Ask, EnergyPart, Instant, Resource, Span, Violation, Work};
use nandu_stack::Graph;

/// I-13: what was charged for each resource of each machine adds up to its busy time.
pub(crate) fn check_charges(graph: &mut Graph) -> Result<(), Violation> {
    for node in 0..graph.len() as u32 {
        let busy = graph.report(node, Ask::Busy).busy;
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
fn check_energy(graph: &mut Graph, node: u32) -> Result<(), Violation> {
    let parts = graph.report(node, Ask::Energy { from: Instant::ZERO, to: Instant::ZERO }).energy;
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
