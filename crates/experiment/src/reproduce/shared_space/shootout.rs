//! Schedulers side by side, on four unlike tenants of equal weight that always have something to ask for (C3-11).
//!
//! How even they are is Jain's index of device time, collection included: with four tenants it is 0.89 when one of them has a third of what
//! each of the others has, and 0.25 when one has all. What a scheduler gets out of the drive is the bytes that it serves in a second.

use crate::failure::Failure;
use crate::format::time;
use crate::reproduce::runner::{Results, Runner, Setup};
use crate::reproduce::{Findings, Measured, Sheet};
use nandu_sim::RunResult;

const MIX: &str = include_str!("../../../experiments/03-shared-space/mix.toml");
const TENANTS: [&str; 4] = ["reader", "writer", "mixed", "heavy"];

/// Name, scheduler, and isolation where it is not that of VSSD.
const WAYS: [(&str, &str, Option<&str>); 11] = [
    ("FIFO", "{ kind = \"noop\" }", None),
    ("deadline", "{ kind = \"deadline\" }", None),
    ("CFQ", "{ kind = \"cfq\" }", None),
    ("CFQ by service level", "{ kind = \"cfq\", slices = \"slo\" }", None),
    ("CFFQ", "{ kind = \"cffq\" }", None),
    ("FIOS", "{ kind = \"fios\" }", None),
    ("FlashFQ", "{ kind = \"flashfq\" }", None),
    ("VSSD", "{ kind = \"vssd\", channels = 10 }", None),
    ("DRR", "{ kind = \"drr\" }", None),
    ("OPS", "{ kind = \"noop\" }", Some("{ kind = \"ops\" }")),
    ("no isolation", "{ kind = \"noop\" }", Some("{ kind = \"none\" }")),
];

/// Simulated time of a run: at least ten rounds of CFQ's slices of 100 ms for four tenants.
const RUNTIME: &str = "\"4 s\"";
/// Where time is short: half of it.
const RUNTIME_QUICK: &str = "\"2 s\"";
/// Requests of other loads from which on runs have their full length.
const FULL: u64 = 200_000;

fn run(runner: &Runner) -> Result<Results, Failure> {
    let runtime = match runner.requests {
        FULL.. => RUNTIME,
        10_000.. => RUNTIME_QUICK,
        _ => "\"20 ms\"",
    };
    let setups = WAYS.map(|(label, scheduler, isolation)| {
        let mut set = vec![("device.queue.scheduler".to_string(), scheduler.to_string())];
        set.extend(TENANTS.map(|name| (format!("workload.{name}.runtime"), runtime.to_string())));
        if let Some(isolation) = isolation {
            set.push(("device.ssd.isolation".into(), isolation.into()));
        }
        if label == "no isolation" {
            set.push(("device.ssd.tenants".into(), "[]".into()));
            set.push(("device.ssd.tenant_gc_threshold".into(), "0".into()));
        }
        Setup { label: label.into(), text: MIX, set }
    });
    runner.own(&setups)
}

/// Share of device time of each tenant in percent.
fn shares(result: &RunResult) -> String {
    let share = |name: &&str| {
        let tenant = result.tenants.iter().find(|t| t.name == **name)?;
        Some(format!("{name} {:.1}", tenant.device.share_thousandths as f64 / 10.0))
    };
    TENANTS.iter().filter_map(share).collect::<Vec<_>>().join(", ")
}

/// C3-11.
pub fn measure(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let results = run(runner)?;
    let mut put = |case: &str, value: Option<f64>, reason: String| {
        let (case, origin) = (case.into(), "synthetic".into());
        found.measured.push(Measured { id: "C3-11", case, value, origin, reason, ..Measured::default() });
    };
    let speed = |name: &str| results[name].total.bytes_per_second as f64;
    for (case, other) in [("CFFQ / CFQ", "CFQ"), ("CFFQ / FIFO", "FIFO")] {
        let (here, there) = (speed("CFFQ"), speed(other));
        let mb = 1e6;
        let reason = format!("CFFQ {:.1} MB/s, {other} {:.1}", here / mb, there / mb);
        put(case, (there > 0.0).then(|| here / there), reason);
    }
    for (name, _, _) in WAYS {
        let result = &results[name];
        let jain = result.jain_thousandths.map(|j| j as f64 / 1000.0);
        put(name, jain, format!("percent of device time: {}", shares(result)));
    }
    found.tables.push(sheet(&results));
    Ok(())
}

/// What each tenant has of each scheduler.
fn sheet(results: &Results) -> Sheet {
    let heads = vec![
        "<scheduler",
        "Jain",
        "MB/s",
        "<tenant",
        "share",
        "IOPS",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "p99.99",
    ];
    let mut rows = Vec::new();
    for (name, _, _) in WAYS {
        let result = &results[name];
        for tenant in &result.tenants {
            let l = &tenant.total;
            let iops = (u128::from(l.requests) * 1_000_000_000).checked_div(u128::from(result.duration_ns));
            let mut row = vec![
                name.to_string(),
                result.jain_thousandths.map_or_else(|| "-".into(), crate::format::thousandths),
                format!("{:.1}", result.total.bytes_per_second as f64 / 1e6),
                tenant.name.clone(),
                format!("{:.1} %", tenant.device.share_thousandths as f64 / 10.0),
                crate::format::count(iops.unwrap_or(0) as u64),
            ];
            row.extend([l.mean_ns, l.p50_ns, l.p99_ns, l.p99_9_ns, l.p99_99_ns].map(time));
            rows.push(row);
        }
    }
    let title = "Schedulers on four tenants of equal weight (25 % of device time each)".into();
    Sheet { title, heads, rows }
}
