//! What there is to say about tenants beside their figures: what a stack asks of them that nothing heeds, how even their shares are, and
//! what changed meanwhile.

use crate::format::{plural, thousandths, time};
use nandu_sim::RunResult;
use nandu_stack::load::{Max, TenantTable};
use nandu_stack::{Stack, Tenant};

/// What the stack says of its tenants and no device heeds.
pub fn unheeded(stack: &Stack) -> Vec<String> {
    let mut out = Vec::new();
    // Drives with tenants or a scheduler of their own take weights, too.
    let drives_weigh =
        stack.devices.iter().any(|d| d.has_option("isolation") || d.has_option("die_scheduler"));
    for (number, tenant) in (1..).zip(&stack.tenants) {
        let mut exports = stack.exports.iter().filter(|e| e.tenant.0 == number).peekable();
        if exports.peek().is_none() {
            out.push(format!("[tenant.{}]: no export has this tenant", tenant.name));
            continue;
        }
        let queued = exports.all(|export| has_queue(stack, export.node));
        let asks = asks(tenant, !drives_weigh);
        if !queued && !asks.is_empty() {
            let (name, asks) = (&tenant.name, asks.join(", "));
            out.push(format!("[tenant.{name}]: {asks} has no effect: there is no `queue` under its export"));
        }
    }
    out
}

/// What only a queue can give.
fn asks(tenant: &Tenant, weights: bool) -> Vec<&'static str> {
    let TenantTable { weight, max, target_latency, .. } = &tenant.table;
    let asks = [
        ("weight", weights && *weight != TenantTable::default().weight),
        ("max", *max != Max::default()),
        ("target_latency", target_latency.is_some()),
    ];
    asks.into_iter().filter(|(_, asked)| *asked).map(|(key, _)| key).collect()
}

/// Whether requests at `node` come by a queue.
fn has_queue(stack: &Stack, node: u32) -> bool {
    let device = &stack.devices[node as usize];
    device.kind.name == "queue" || device.children.iter().any(|&child| has_queue(stack, child))
}

/// How even the shares of several tenants are.
pub fn evenness(result: &RunResult) -> Option<String> {
    let of = result.tenants.len();
    if of < 2 {
        return None;
    }
    let backlogged = result.tenants.iter().filter(|t| t.device.backlogged).count();
    let who = match (result.jain_thousandths, backlogged) {
        (Some(jain), n) if n == of => {
            return Some(format!("Jain's index of device time by weight: {}", thousandths(jain)));
        }
        (Some(jain), n) => format!(
            "Jain's index of device time by weight, of the {n} tenants that always had requests waiting: {}",
            thousandths(jain)
        ),
        (None, 0) => "no Jain's index: no tenant always had requests waiting".into(),
        (None, n) => {
            format!("no Jain's index: only {} always had requests waiting", plural(n as u64, "tenant"))
        }
    };
    let others = result.tenants.iter().filter(|t| !t.device.backlogged).map(|t| t.name.as_str());
    Some(format!(
        "{who}\nshares below `wanted` are what they asked for: {}",
        others.collect::<Vec<_>>().join(", ")
    ))
}

/// What came of each change.
pub fn changes(result: &RunResult) -> Vec<String> {
    let line = |change: &nandu_sim::result::ChangeResult| {
        let what = match (&change.refused, change.holds_at_ns) {
            (Some(why), _) => format!("not made: {why}"),
            (None, at) => format!("holds from {}", time(at.unwrap_or(change.at_ns))),
        };
        format!("change {} at {}: {what}", change.name, time(change.at_ns))
    };
    result.changes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(queue: bool, drive: &str) -> Stack {
        let below = if queue { "queue" } else { "ssd" };
        let queue = if queue { "[device.queue]\nkind = \"queue\"\nbelow = \"ssd\"\n" } else { "" };
        Stack::parse(&format!(
            "[export.a]\ndevice = \"{below}\"\n[tenant.a]\nweight = 300\ntarget_latency = \"1 ms\"\nmax = {{ wiops = 10 }}\n\
             [tenant.zzz]\n{queue}[device.ssd]\nkind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 40\n{drive}"
        ))
        .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_nothing_heeds_is_said() {
        let unused = "[tenant.zzz]: no export has this tenant".to_string();
        assert_eq!(unheeded(&stack(true, "")), std::slice::from_ref(&unused));
        let said = unheeded(&stack(false, ""));
        assert!(said[0].starts_with("[tenant.a]: weight, max, target_latency has no effect"), "{said:?}");
        assert_eq!(said[1], unused);
        let said = unheeded(&stack(false, "die_scheduler = { kind = \"out-of-order\" }\n"));
        assert!(said[0].starts_with("[tenant.a]: max, target_latency has"), "{said:?}");
    }
}
