//! Tables of the page.

use super::svg::{escape, name};
use crate::format::{
    count, per_second, percent, plural, shares, signed_percent, size, thousandths, three, time, words,
};
use crate::lifetime;
use crate::tenancy;
use crate::verdict::{self, Row};
use nandu_base::Phase;
use nandu_sim::RunResult;
use nandu_sim::result::Latency;

/// Characters from which on words of a cell are a sentence.
const SENTENCE: usize = 60;

/// A table of escaped cells; the first `words` columns hold words, the others figures.
pub(crate) fn table(
    heads: &[&str],
    words: &[usize],
    rows: impl IntoIterator<Item = (bool, Vec<String>)>,
) -> String {
    let class = |i: usize| if words.contains(&i) { " class=\"words\"" } else { "" };
    let mut out = String::from("<div class=\"wide\"><table>\n<tr>");
    for (i, head) in heads.iter().enumerate() {
        out.push_str(&format!("<th{}>{}</th>", class(i), escape(head)));
    }
    out.push_str("</tr>\n");
    for (marked, cells) in rows {
        out.push_str(if marked { "<tr class=\"best\">" } else { "<tr>" });
        for (i, cell) in cells.iter().enumerate() {
            // A sentence beside figures keeps a width on narrow screens, so that its row stays low.
            match words.contains(&i) {
                true if cell.len() > SENTENCE => {
                    out.push_str(&format!("<td class=\"words long\">{}</td>", escape(cell)))
                }
                true => out.push_str(&format!("<td class=\"words\">{}</td>", name(cell))),
                false => out.push_str(&format!("<td>{}</td>", escape(cell))),
            }
        }
        out.push_str("</tr>\n");
    }
    out + "</table></div>\n"
}

/// The race in one table; a single row has no verdict.
pub fn summary(rows: &[Row]) -> String {
    let heads = [
        "stack",
        "verdict",
        "state",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "read p99",
        "write p99",
        "IOPS",
        "WAF",
        "erases",
        "busy",
        "drives",
    ];
    let of = |l: &Latency| if l.requests > 0 { time(l.p99_ns) } else { "-".into() };
    let body = rows.iter().map(|row| {
        let (r, l) = (&row.result, &row.result.total);
        let mut cells = vec![
            row.label.clone(),
            row.verdict.clone(),
            r.state.name().into(),
            time(l.mean_ns),
            time(l.p50_ns),
            time(l.p99_ns),
            time(l.p99_9_ns),
            time(l.max_ns),
            of(&r.read),
            of(&r.write),
            per_second(r.total.requests, r.duration_ns),
            r.waf_thousandths.map_or_else(|| "-".into(), thousandths),
            if verdict::has_flash(r) { count(verdict::erases(r)) } else { "-".into() },
            verdict::busy_words(r),
            r.provenance.precondition.clone(),
        ];
        if rows.len() == 1 {
            cells.remove(1);
        }
        (row.best, cells)
    });
    match rows.len() {
        1 => {
            let heads: Vec<&str> = heads.into_iter().filter(|head| *head != "verdict").collect();
            table(&heads, &[0, 1, 13], body)
        }
        _ => table(&heads, &[0, 1, 2, 14], body),
    }
}

/// Everything about one stack, folded away.
pub fn details(row: &Row, open: bool) -> String {
    let r = &row.result;
    let open = if open { " open" } else { "" };
    format!(
        "<details{open}><summary>{} <span>{}</span></summary>\n{}{}{}{}{}{}</details>\n",
        escape(&row.label),
        escape(&format!("{}, mean {}", plural(r.total.requests, "request"), time(r.total.mean_ns))),
        classes(r),
        tenants(r),
        layers(r),
        tenants_of_layers(r),
        counters(r),
        drew_and_wore(r)
    )
}

fn latency_cells(name: &str, l: &Latency) -> Vec<String> {
    let times = [
        l.min_ns,
        l.mean_ns,
        l.stddev_ns,
        l.p50_ns,
        l.p90_ns,
        l.p95_ns,
        l.p99_ns,
        l.p99_9_ns,
        l.p99_99_ns,
        l.max_ns,
    ];
    [name.to_string(), count(l.requests), size(l.bytes)].into_iter().chain(times.map(time)).collect()
}

const LATENCY_HEADS: [&str; 13] =
    ["", "requests", "bytes", "min", "mean", "stddev", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];

fn classes(r: &RunResult) -> String {
    let all = [
        ("all", &r.total),
        ("reads", &r.read),
        ("writes", &r.write),
        ("trims", &r.trim),
        ("flushes", &r.flush),
    ];
    let used: Vec<_> = all.into_iter().filter(|(_, l)| l.requests > 0).collect();
    let phases: Vec<Phase> = Phase::ALL
        .into_iter()
        .filter(|p| r.total.latency_breakdown_total_ns.contains_key(p.name()))
        .collect();
    let names: Vec<String> = phases.iter().map(|p| words(p.name())).collect();
    let heads: Vec<&str> =
        std::iter::once("where the time went").chain(names.iter().map(String::as_str)).collect();
    let went = used.iter().map(|(name, l)| {
        let parts: Vec<u64> =
            phases.iter().map(|p| l.latency_breakdown_total_ns.get(p.name()).copied().unwrap_or(0)).collect();
        let cells = std::iter::once((*name).to_string()).chain(shares(&parts).into_iter().map(percent));
        (false, cells.collect())
    });
    let latency = table(&LATENCY_HEADS, &[0], used.iter().map(|(name, l)| (false, latency_cells(name, l))));
    latency + &table(&heads, &[0], went)
}

fn tenants(r: &RunResult) -> String {
    if r.tenants.len() < 2 {
        return tenancy::changes(r).iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    }
    let latencies =
        table(&LATENCY_HEADS, &[0], r.tenants.iter().map(|t| (false, latency_cells(&t.name, &t.total))));
    let heads =
        ["tenant", "weight", "device time", "its share", "wanted", "error", "garbage collection", "slowdown"];
    let shares = r.tenants.iter().map(|t| {
        let device = &t.device;
        let cells = vec![
            t.name.clone(),
            count(device.weight.into()),
            time(device.busy_ns),
            percent(device.share_thousandths),
            percent(device.wanted_thousandths),
            signed_percent(device.error_thousandths),
            time(device.gc_ns),
            t.slowdown_thousandths().map_or_else(|| "-".into(), thousandths),
        ];
        (false, cells)
    });
    let said = tenancy::evenness(r).into_iter().chain(tenancy::changes(r));
    let said: String = said.map(|line| format!("<p>{}</p>\n", escape(&line))).collect();
    latencies + &table(&heads, &[0], shares) + &said
}

/// What each tenant caused in each layer, the top first.
fn tenants_of_layers(r: &RunResult) -> String {
    let heads = ["layer", "tenant", "requests", "bytes", "mean", "max", "device time", "garbage collection"];
    let rows: Vec<_> = r
        .layers
        .iter()
        .rev()
        .flat_map(|layer| layer.tenants.iter().map(move |tenant| (layer, tenant)))
        .map(|(layer, tenant)| {
            let times = [tenant.latency_mean_ns, tenant.latency_max_ns, tenant.device_ns, tenant.gc_ns];
            let name =
                [layer.name.clone(), tenant.tenant.clone(), count(tenant.requests), size(tenant.bytes)];
            (false, name.into_iter().chain(times.map(time)).collect::<Vec<_>>())
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&heads, &[0, 1], rows)
}

fn layers(r: &RunResult) -> String {
    let heads =
        ["layer", "kind", "requests", "passed on", "failed", "bytes", "mean", "max", "busy on average"];
    let body = r.layers.iter().rev().map(|layer| {
        let busy: Vec<String> = layer
            .busy_ns
            .iter()
            .filter(|&(_, &ns)| ns > 0)
            .map(|(resource, &ns)| format!("{} {resource}s", three(ns as f64 / r.duration_ns.max(1) as f64)))
            .collect();
        let cells = vec![
            layer.name.clone(),
            layer.kind.into(),
            count(layer.requests.values().sum()),
            count(layer.forwarded),
            count(layer.failed),
            size(layer.bytes.values().sum()),
            time(layer.latency_mean_ns),
            time(layer.latency_max_ns),
            busy.join(", "),
        ];
        (false, cells)
    });
    table(&heads, &[0, 1, 8], body)
}

/// Energy, lifetime and steady state, as on the command line.
fn drew_and_wore(r: &RunResult) -> String {
    match lifetime::lifetime(r) {
        text if text.is_empty() => text,
        text => format!("<div class=\"wide\"><pre>{}</pre></div>\n", escape(&text)),
    }
}

/// One row for each counter, one column for each layer that has counters.
fn counters(r: &RunResult) -> String {
    let layers: Vec<_> = r.layers.iter().rev().filter(|l| !l.counters.is_empty()).collect();
    let names: std::collections::BTreeSet<&str> =
        layers.iter().flat_map(|l| l.counters.keys().copied()).collect();
    if names.is_empty() {
        return String::new();
    }
    let heads: Vec<&str> = std::iter::once("counter").chain(layers.iter().map(|l| l.name.as_str())).collect();
    let body = names.into_iter().map(|name| {
        let cell = |value: Option<&u64>| value.map_or_else(String::new, |&v| count(v));
        let cells = std::iter::once(words(name)).chain(layers.iter().map(|l| cell(l.counters.get(name))));
        (false, cells.collect())
    });
    table(&heads, &[0], body)
}

/// Where every row comes from.
pub fn provenance(rows: &[Row]) -> String {
    let heads = [
        "stack",
        "file",
        "stack hash",
        "load",
        "origin",
        "trace hash",
        "fit",
        "arrival",
        "precondition",
        "warm-up",
        "seed",
        "version",
    ];
    let mut body = Vec::new();
    for row in rows {
        let p = &row.result.provenance;
        for w in &p.workloads {
            let cells = [
                row.label.as_str(),
                &p.stack,
                crate::format::short_hash(&p.stack_hash),
                &w.source,
                &w.origin,
                crate::format::short_hash(&w.trace_hash),
                &w.fit,
                &w.arrival,
                &p.precondition,
                &count(p.warmup_requests),
                &p.seed.to_string(),
                &p.version,
            ];
            body.push((false, cells.map(str::to_string).to_vec()));
        }
    }
    table(&heads, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 11], body)
}
