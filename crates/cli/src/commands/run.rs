//! `nandu run`: one stack, and where the time went.

use super::give_json;
use crate::args::RunArgs;
use crate::console::Console;
use crate::explain::{self, WithSlowest};
use crate::failure::Failure;
use crate::files;
use crate::format::{
    bandwidth, count, per_second, percent, plural, shares, short_hash, signed_percent, size, thousandths,
    three, time, words, years,
};
use crate::lifetime::lifetime;
use crate::open::open;
use crate::output;
use crate::plan::{Common, Plan, extended, plan, requests_of};
use crate::race::{race, turns, warn};
use crate::report;
use crate::table::Table;
use crate::tenancy;
use crate::verdict::{self, Row};
use nandu_base::Phase;
use nandu_sim::replay::Length;
use nandu_sim::result::{Latency, LayerResult};
use nandu_sim::verify::{VerifiedError, run_verified};
use nandu_sim::{Extension, RunOptions, RunResult, RunWorkload};
use std::fmt::Write;
use std::path::PathBuf;

/// Replays a trace on one stack.
pub fn run(args: &RunArgs, console: Console) -> Result<(), Failure> {
    let (registry, replay) = (crate::registry(), args.load.replay());
    let opened = open(&args.stack, &args.stacks.set, registry)?;
    let mut outputs = explain::outputs(&args.explain);
    outputs.extend(args.out.files());
    let inputs = opened.inputs(&replay);
    files::allow(&outputs, &inputs.iter().map(PathBuf::as_path).collect::<Vec<_>>(), args.out.force)?;
    opened.remarks().into_iter().for_each(|line| console.note(line));
    let common = Common { seed: args.stacks.seed, precondition: args.stacks.precondition, registry, console };
    let mut plans = plan(vec![opened], &replay, common)?;
    extended(&mut plans[0].options, args.load.extend);
    // Tenants over time are part of the record.
    let sampled =
        args.out.report.is_some() || args.out.wants_json() && plans[0].opened.stack.tenants.len() > 1;
    let mut slowest = Vec::new();
    let mut rows = if args.verify {
        verified(&plans[0], console)?
    } else if explain::is_wanted(&args.explain) {
        let explained = explain::explain(&mut plans[0], &args.explain, sampled, console)?;
        slowest = explained.slowest;
        explained.rows
    } else {
        race(&plans, 1, sampled, console)?
    };
    if args.slowdown {
        alone(&plans[0], &mut rows[0].result, console)?;
    }
    let row = &rows[0];
    if !args.out.json {
        let text = summary(&row.label, &row.result);
        match args.explain.slowest {
            Some(_) => output::print(&format!("{text}\n{}", explain::table(&slowest)))?,
            None => output::print(&text)?,
        }
    }
    match args.explain.slowest {
        Some(_) => give_json(&args.out, &WithSlowest::of(&row.result, &slowest), console)?,
        None => give_json(&args.out, &row.result, console)?,
    }
    warn(&rows, console);
    if let Some(path) = &args.out.report {
        report::write(path, &format!("nandu run {}", row.label), &rows)?;
        console.note(format!("report written to {}", path.display()));
    }
    Ok(())
}

/// Runs each workload alone for the slowdown of its tenant. Its own warm-up does not count, nor its part of the warm-up of all: as many of them
/// as it had of the requests that were measured.
fn alone(plan: &Plan, shared: &mut RunResult, console: Console) -> Result<(), Failure> {
    let stack = &plan.opened.stack;
    let mut seen = vec![(0u128, 0u128); shared.tenants.len()];
    let bar = console.runs(plan.options.workloads.iter().map(|w| Length::of([(requests_of(w), w.pace())])));
    for (place, workload) in plan.options.workloads.iter().enumerate() {
        let tenant = usize::from(stack.exports[workload.export].tenant.0) - 1;
        let (own, measured) = (measured(&shared.tenants[tenant].total), measured(&shared.total).max(1));
        let of_all = u128::from(plan.options.warm_up) * u128::from(own) / u128::from(measured);
        // Something is left to measure.
        let warm_up = workload.warm_up.saturating_add(of_all as u64).min(requests_of(workload) - 1);
        let workload = RunWorkload { warm_up, ..workload.clone() };
        // In the turn in which all of them were measured.
        let renew = plan.options.extension.renew.get(place).cloned().flatten();
        let turns = shared.extended;
        let extension = Extension { least: turns, most: turns, renew: vec![renew] };
        let options = RunOptions { workloads: vec![workload], warm_up: 0, extension, ..plan.options.clone() };
        let result = nandu_sim::run(stack, &options, bar.follow())?;
        seen[tenant].0 += u128::from(result.total.mean_ns) * u128::from(result.total.requests);
        seen[tenant].1 += u128::from(result.total.requests);
    }
    bar.clear();
    for (tenant, (total, requests)) in shared.tenants.iter_mut().zip(seen) {
        tenant.alone_mean_ns = total.checked_div(requests).map(|mean| mean as u64);
    }
    Ok(())
}

/// Requests that were measured, failed ones too.
fn measured(latency: &Latency) -> u64 {
    latency.requests + latency.failed
}

/// The run with every read checked.
fn verified(plan: &Plan, console: Console) -> Result<Vec<Row>, Failure> {
    let bar = console.runs([plan.length()]);
    let result = run_verified(&plan.opened.stack, &plan.options, bar.follow());
    bar.clear();
    let label = plan.opened.label.clone();
    let result = result.map_err(|error| match error {
        VerifiedError::Run(error) => Failure::from(error).at(&label),
        VerifiedError::Violation(violation) => Failure::failed(format!("{label}: {violation}")),
    })?;
    Ok(verdict::rows(vec![(label, result)]))
}

/// The whole result as text.
pub fn summary(label: &str, result: &RunResult) -> String {
    let mut out = String::new();
    head(&mut out, label, result);
    let _ = writeln!(out, "\n{}", latencies(result));
    let _ = write!(out, "{}", where_time_went(result));
    let tenants = tenants(result);
    if !tenants.is_empty() {
        let _ = write!(out, "\n{tenants}");
    }
    for line in tenancy::evenness(result).into_iter().chain(tenancy::changes(result)) {
        let _ = writeln!(out, "{line}");
    }
    let _ = write!(out, "\n{}", layers(result));
    let _ = write!(out, "{}", tenants_of_layers(result));
    let _ = write!(out, "{}", counters(result));
    let _ = write!(out, "{}", lifetime(result));
    let _ = write!(out, "\n{}", provenance(result));
    out
}

fn head(out: &mut String, label: &str, result: &RunResult) {
    let all = &result.total;
    let mut headline = vec![
        format!("mean {}", time(all.mean_ns)),
        format!("p99 {}", time(all.p99_ns)),
        format!("{} IOPS", per_second(all.requests, result.duration_ns)),
    ];
    headline.extend(result.waf_thousandths.map(|waf| format!("WAF {}", thousandths(waf))));
    let life = result.lifetime.as_ref().and_then(|l| l.first_block);
    headline.extend(life.map(|life| format!("lasts {}", years(life.years_thousandths))));
    headline.push(result.state.name().into());
    if result.saturated {
        headline.push("SATURATED".into());
    }
    if all.failed > 0 {
        headline.push(format!("{} FAILED", count(all.failed)));
    }
    let _ = writeln!(out, "{label}: {}", headline.join(", "));
    let mut facts = vec![
        plural(all.requests, "request"),
        format!("in {}", time(result.duration_ns)),
        bandwidth(all.bytes_per_second),
    ];
    if let Some(drive) =
        result.drive_waf_thousandths.filter(|_| result.drive_waf_thousandths != result.waf_thousandths)
    {
        facts.push(format!("drive WAF {}", thousandths(drive)));
    }
    if verdict::has_flash(result) {
        facts.push(plural(verdict::erases(result), "erase"));
    }
    if let Some((resource, average)) = verdict::busy(result) {
        facts.push(format!("{} {resource}s busy on average", three(average as f64 / 1000.0)));
    }
    let _ = writeln!(out, "{}", facts.join(", "));
    if result.provenance.verified {
        let reads = plural(result.provenance.reads_checked, "read");
        let _ = writeln!(out, "verified: {reads} checked, each found what was written");
    }
}

/// The classes of requests that occurred.
fn classes(result: &RunResult) -> Vec<(&'static str, &Latency)> {
    let parts = [
        ("reads", &result.read),
        ("writes", &result.write),
        ("trims", &result.trim),
        ("flushes", &result.flush),
    ];
    let used: Vec<_> = parts.into_iter().filter(|(_, l)| l.requests > 0).collect();
    match used.len() {
        0 | 1 if result.total.requests > 0 => used,
        _ => std::iter::once(("all", &result.total)).chain(used).collect(),
    }
}

fn latencies(result: &RunResult) -> Table {
    let mut table = Table::new([
        "<latency", "requests", "min", "mean", "stddev", "p50", "p90", "p99", "p99.9", "p99.99", "max",
    ]);
    for (name, l) in classes(result) {
        let times = [
            l.min_ns,
            l.mean_ns,
            l.stddev_ns,
            l.p50_ns,
            l.p90_ns,
            l.p99_ns,
            l.p99_9_ns,
            l.p99_99_ns,
            l.max_ns,
        ];
        table.row([name.to_string(), count(l.requests)].into_iter().chain(times.map(time)));
    }
    table
}

fn where_time_went(result: &RunResult) -> Table {
    let classes = classes(result);
    let total =
        |phase: Phase| result.total.latency_breakdown_total_ns.get(phase.name()).copied().unwrap_or(0);
    let phases: Vec<Phase> = Phase::ALL.into_iter().filter(|&p| total(p) > 0).collect();
    let names: Vec<String> = phases.iter().map(|p| words(p.name())).collect();
    let mut table =
        Table::new(["<where the time went", "mean"].into_iter().chain(names.iter().map(String::as_str)));
    for (name, l) in classes {
        let parts: Vec<u64> =
            phases.iter().map(|p| l.latency_breakdown_total_ns.get(p.name()).copied().unwrap_or(0)).collect();
        let cells = shares(&parts).into_iter().map(percent);
        table.row([name.to_string(), time(l.mean_ns)].into_iter().chain(cells));
    }
    table
}

/// One row for each tenant, when there are several.
fn tenants(result: &RunResult) -> Table {
    let slowed = result.tenants.iter().any(|t| t.alone_mean_ns.is_some());
    let heads = [
        "<tenant",
        "weight",
        "requests",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "device time",
        "its share",
        "wanted",
        "error",
        "gc",
    ];
    let mut table = Table::new(heads.into_iter().chain(slowed.then_some("slowdown")));
    if result.tenants.len() < 2 {
        return table;
    }
    for tenant in &result.tenants {
        let (l, device) = (&tenant.total, &tenant.device);
        let times = [l.mean_ns, l.p50_ns, l.p99_ns, l.p99_9_ns, l.max_ns];
        let name = [tenant.name.clone(), count(device.weight.into()), count(l.requests)];
        let shares = [device.share_thousandths, device.wanted_thousandths].map(percent);
        let slowdown = || tenant.slowdown_thousandths().map_or_else(|| "-".into(), thousandths);
        table.row(
            name.into_iter()
                .chain(times.map(time))
                .chain([time(device.busy_ns)])
                .chain(shares)
                .chain([signed_percent(device.error_thousandths), time(device.gc_ns)])
                .chain(slowed.then(slowdown)),
        );
    }
    table
}

/// Tenants from which on the layers are not told apart by tenant here, but in the report and the JSON.
const MANY: usize = 5;

/// What each tenant caused in each layer, the top first; empty for one tenant.
fn tenants_of_layers(result: &RunResult) -> String {
    let rows: usize = result.layers.iter().map(|layer| layer.tenants.len()).sum();
    if rows == 0 {
        return String::new();
    }
    if result.tenants.len() >= MANY {
        return format!(
            "\ntenants in each layer: {}, with --json and in a --report\n",
            plural(rows as u64, "row")
        );
    }
    let mut table =
        Table::new(["<tenant in a layer", "<", "requests", "bytes", "mean", "max", "device time", "gc"]);
    for layer in result.layers.iter().rev() {
        for (i, tenant) in layer.tenants.iter().enumerate() {
            let name = if i == 0 { layer.name.clone() } else { String::new() };
            let mut cells = vec![name, tenant.tenant.clone(), count(tenant.requests), size(tenant.bytes)];
            cells.extend(
                [tenant.latency_mean_ns, tenant.latency_max_ns, tenant.device_ns, tenant.gc_ns].map(time),
            );
            table.row(cells);
        }
    }
    format!("\n{table}")
}

/// One row for each layer, the top first.
fn layers(result: &RunResult) -> Table {
    let mut table = Table::new(["<layer", "<kind", "requests", "bytes", "mean", "max", "<busy on average"]);
    for layer in result.layers.iter().rev() {
        table.row([
            layer.name.clone(),
            layer.kind.into(),
            count(layer.requests.values().sum()),
            size(layer.bytes.values().sum()),
            time(layer.latency_mean_ns),
            time(layer.latency_max_ns),
            busy(layer, result.duration_ns),
        ]);
    }
    table
}

fn busy(layer: &LayerResult, duration_ns: u64) -> String {
    let used = layer.busy_ns.iter().filter(|&(_, &ns)| ns > 0);
    let average = |ns: u64| three(ns as f64 / duration_ns.max(1) as f64);
    used.map(|(resource, &ns)| format!("{} {resource}s", average(ns))).collect::<Vec<_>>().join(", ")
}

/// What the machines count, where it is not zero.
fn counters(result: &RunResult) -> String {
    let mut out = String::new();
    for layer in result.layers.iter().rev() {
        let used: Vec<String> = layer
            .counters
            .iter()
            .filter(|&(_, &value)| value > 0)
            .map(|(name, &value)| format!("{} {}", words(name), count(value)))
            .collect();
        if used.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}:", layer.name);
        for line in wrap(&used, output::WIDTH - 2) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// Joins `parts` by commas into lines of at most `width`.
fn wrap(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + part.len() <= width => line.extend([", ", part]),
            _ => lines.push(part.clone()),
        }
    }
    lines
}

/// Enough to get the result again.
pub fn provenance(result: &RunResult) -> String {
    let p = &result.provenance;
    let mut out = String::new();
    for w in &p.workloads {
        let passes = if w.passes > 1 { format!(", {} times", w.passes) } else { String::new() };
        let turns = match turns(result.extended) {
            said if said.is_empty() => said,
            said => format!(", {said}"),
        };
        let _ = writeln!(
            out,
            "load   {} ({}, {}), {}, fit {}{passes}, to export {}{turns}",
            w.source,
            w.origin,
            short_hash(&w.trace_hash),
            w.arrival,
            w.fit,
            w.export
        );
    }
    let _ = writeln!(
        out,
        "stack  {} ({}), precondition {}, warm-up {}, seed {}, nandu {}",
        p.stack,
        short_hash(&p.stack_hash),
        p.precondition,
        plural(p.warmup_requests, "request"),
        p.seed,
        p.version
    );
    out
}
