//! Arrangements side by side, without claims: what the paper did not measure (W3-7, W3-1, B3-2, B3-7, B3-8, B3-10).
//!
//! One table has host latencies of every tenant, the other what the drive did: collection, write amplification, life and lending.

use super::bursts::{Phased, per_erase};
use super::pair::{BETA, Pair, Unit, Way, counter};
use super::pools::Pool;
use super::verdicts::{PROPOSAL, tenants};
use crate::format::{count, thousandths, time};
use crate::reproduce::{Findings, Sheet};

/// The arrangements, in words.
const WAYS: [(&str, Unit, Way); 9] = [
    ("no isolation", Unit::Superblock, Way::NoIsolation),
    ("OPS", Unit::Superblock, Way::Ops),
    ("VSSD", Unit::Superblock, Way::Vssd),
    ("VSSD behind CFQ", Unit::Superblock, Way::VssdBehindCfq),
    ("lending", Unit::Superblock, PROPOSAL),
    ("VSSD", Unit::Block, Way::Vssd),
    ("lending", Unit::Block, Way::Shared(BETA)),
    ("dies of one's own", Unit::Block, Way::Dies),
    ("channels of one's own", Unit::Block, Way::Channels),
];
/// Those of loads in phases.
const PHASED: [(&str, Unit, Way); 6] = [
    ("VSSD", Unit::Superblock, Way::Vssd),
    ("VSSD behind CFQ", Unit::Superblock, Way::VssdBehindCfq),
    ("lending", Unit::Superblock, PROPOSAL),
    ("lending, adaptive", Unit::Superblock, Way::Adaptive),
    ("VSSD, idle collection", Unit::Superblock, Way::VssdIdle),
    ("lending, idle collection", Unit::Superblock, Way::SharedIdle),
];
/// Those of the adversary.
const ADVERSARY: [(&str, Unit, Way); 4] = [
    PHASED[1],
    PHASED[2],
    ("VSSD behind CFQ", Unit::Block, Way::VssdBehindCfq),
    ("lending", Unit::Block, PROPOSAL),
];

fn unit(unit: Unit) -> String {
    match unit {
        Unit::Superblock => "superblock",
        Unit::Block => "block",
    }
    .into()
}

/// Both tables of all pairs.
pub fn tables(pairs: &[Pair], phased: &Phased, found: &mut Findings) {
    let (in_phases, adversary) = (&phased.pairs[..], &phased.adversary[..]);
    for (what, pairs, ways) in [
        ("steady loads", pairs, &WAYS[..]),
        ("loads in phases", in_phases, &PHASED[..]),
        ("an adversary (uniform) and its neighbour", adversary, &ADVERSARY[..]),
    ] {
        found.tables.push(hosts(format!("Host latencies, {what}"), pairs, ways));
        found.tables.push(drives(format!("Collection, life and lending, {what}"), pairs, ways));
    }
}

/// What drives do where a part of the units is set aside, and on the same units and data where none is.
pub fn pools(pools: &[Pool], found: &mut Findings) {
    for Pool { percent, pairs } in pools {
        let ways = [
            ("VSSD", Way::Vssd),
            ("VSSD behind CFQ", Way::VssdBehindCfq),
            ("lending, a claim", Way::Shared(*percent)),
            ("lending, set aside", Way::Reserved(*percent)),
        ];
        let ways = ways.map(|(name, way)| (name, Unit::Superblock, way));
        let title = format!("Collection, life and lending, {percent} % of the units beside the data");
        found.tables.push(drives(title, pairs, &ways));
    }
}

/// Latencies of each tenant.
fn hosts(title: String, pairs: &[Pair], ways: &[(&str, Unit, Way)]) -> Sheet {
    let heads =
        vec!["<tenant", "<arrangement", "<unit", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let mut rows = Vec::new();
    for pair in pairs {
        for place in 0..2 {
            for &(name, of, way) in ways {
                let Some((load, tenant)) = tenants(std::slice::from_ref(pair), of, way).nth(place) else {
                    continue;
                };
                let l = &tenant.total;
                let times = [l.mean_ns, l.p50_ns, l.p90_ns, l.p99_ns, l.p99_9_ns, l.p99_99_ns, l.max_ns];
                let words = [load.to_string(), name.to_string(), unit(of)];
                rows.push(words.into_iter().chain(times.map(time)).collect());
            }
        }
    }
    Sheet { title, heads, rows }
}

/// What the drive of each pair did. A lender's bound is one forced collection for each unit that it demanded.
fn drives(title: String, pairs: &[Pair], ways: &[(&str, Unit, Way)]) -> Sheet {
    let heads = vec![
        "<pair",
        "<arrangement",
        "<unit",
        "WAF",
        "KiB/erase",
        "cleared",
        "valid",
        "borrowed 1st",
        "borrowed 2nd",
        "demanded",
        "forced",
        "slower 1st",
        "slower 2nd",
    ];
    let mut rows = Vec::new();
    for pair in pairs {
        let one = std::slice::from_ref(pair);
        for &(name, of, way) in ways {
            let result = pair.result(of, way);
            let none = || String::from("-");
            let of_drive = |name: &str| count(counter(result, name));
            let valid = pair.collection(of, way).map(|c| c.valid() * 100.0 / c.pages as f64);
            let mut row = vec![
                pair.name(),
                name.to_string(),
                unit(of),
                result.drive_waf_thousandths.map_or_else(none, thousandths),
                per_erase(result).map_or_else(none, |kib| format!("{kib:.0}")),
                of_drive("gc_blocks_collected"),
                valid.map_or_else(none, |percent| format!("{percent:.1} %")),
            ];
            let lends = matches!(
                way,
                Way::Shared(_) | Way::Reserved(_) | Way::Adaptive | Way::Strict | Way::SharedIdle
            );
            let base = if way == Way::SharedIdle { Way::VssdIdle } else { Way::VssdBehindCfq };
            let counters = [
                "tenant_1_units_borrowed",
                "tenant_2_units_borrowed",
                "units_demanded",
                "collections_forced_by_lenders",
            ];
            row.extend(counters.map(|name| if lends { of_drive(name) } else { none() }));
            // Beside the same scheduler without lending, where that was run.
            let ran = pair.has(of, base);
            for place in 0..2 {
                let slower = || {
                    let (_, here) = tenants(one, of, way).nth(place)?;
                    let (_, there) = tenants(one, of, base).nth(place)?;
                    Some(format!("{:.3}", here.total.mean_ns as f64 / there.total.mean_ns as f64))
                };
                row.push(if lends && ran { slower().unwrap_or_else(none) } else { none() });
            }
            rows.push(row);
        }
    }
    Sheet { title, heads, rows }
}
