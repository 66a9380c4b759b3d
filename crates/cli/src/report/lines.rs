//! Plots of lines: the distribution of latency, and the run over time.

use super::chart::{Axis, Chart, legend, series, short};
use super::scale::Scale;
use crate::format::{count, time};
use crate::verdict::Row;
use nandu_sim::RunResult;
use nandu_sim::result::IntervalResult;

/// Points of all lines of a plot over time together: each says its figures when pointed at, which takes room.
const POINTS: usize = 480;

fn axis_time(ns: f64) -> String {
    short(&time(ns as u64))
}

fn names(rows: &[Row]) -> String {
    legend(&rows.iter().enumerate().map(|(i, r)| (series(i), r.label.clone())).collect::<Vec<_>>())
}

/// The distribution of latency: for each latency the share of requests that took no longer, with as much room for each
/// further nine.
pub fn percentiles(rows: &[Row]) -> String {
    let measured = || rows.iter().map(|r| &r.result).filter(|r| !r.histogram.is_empty());
    let (Some(lo), Some(hi)) = (measured().map(shortest).min(), measured().map(|r| r.total.max_ns).max())
    else {
        return "<p>Nothing was read or written.</p>".into();
    };
    let most = measured().map(|r| total(r) as f64).fold(10.0, f64::max);
    let nines = most.log10().min(6.0);
    let x = Axis::new(Scale::log(lo as f64, hi as f64), "latency (log scale)", axis_time);
    let marks = [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
    ];
    let y = Axis {
        scale: Scale::Linear { lo: 0.0, hi: nines * 1.03 },
        ticks: marks
            .iter()
            .map(|&(p, text)| (height(p), text.to_string()))
            .filter(|t| t.0 <= nines)
            .collect(),
        label: "requests that took no longer".into(),
    };
    let mut chart = Chart::new(400.0, &x, &y);
    for (i, row) in rows.iter().enumerate() {
        chart.line(&series(i), &curve(&row.result, nines));
    }
    for (i, row) in rows.iter().enumerate() {
        let l = &row.result.total;
        let known = [
            (0.5, l.p50_ns, "p50"),
            (0.9, l.p90_ns, "p90"),
            (0.99, l.p99_ns, "p99"),
            (0.999, l.p99_9_ns, "p99.9"),
            (0.9999, l.p99_99_ns, "p99.99"),
        ];
        for (p, ns, name) in known.into_iter().filter(|k| height(k.0) <= nines && k.1 > 0) {
            let title = format!("{}: {name} {}", row.label, time(ns));
            chart.dot(&format!("dot c{}", i % 8), (ns as f64, height(p)), 3.2, &title);
        }
    }
    names(rows) + &chart.svg.finish("distribution of latency of each stack")
}

/// The latency that nine requests in ten exceed: where the plot begins. A few that cost nothing, such as reads of what
/// was never written, would take half of a logarithmic axis.
fn shortest(result: &RunResult) -> u64 {
    let tenth = total(result) / 10;
    let mut below = 0;
    let mut bins = result.histogram.iter();
    let bin = bins.find(|&&(_, n)| {
        below += n;
        below > tenth
    });
    bin.map_or(1, |b| b.0 * 3 / 4)
}

fn total(result: &RunResult) -> u64 {
    result.histogram.iter().map(|b| b.1).sum()
}

/// Height of a share: 0 at 0 %, 1 at 90 %, 2 at 99 %.
fn height(share: f64) -> f64 {
    -(1.0 - share).log10()
}

fn curve(result: &RunResult, nines: f64) -> Vec<(f64, f64)> {
    let total = total(result) as f64;
    let mut below = 0;
    let mut points = vec![(result.total.min_ns as f64, 0.0)];
    for &(bound, n) in &result.histogram {
        below += n;
        // The longest request stands where one in all of them stands.
        let left = (total - below as f64).max(1.0);
        points.push((bound.min(result.total.max_ns) as f64, (total / left).log10().min(nines)));
    }
    points
}

/// What a plot over time shows of a window, the text of its axis, and of its points.
struct Figure {
    of: fn(&IntervalResult, u64) -> f64,
    label: &'static str,
    log: bool,
    show: fn(f64) -> String,
}

/// One history, as a line of a plot.
struct Past<'a> {
    label: &'a str,
    windows: &'a [IntervalResult],
    window_ns: u64,
    duration_ns: u64,
}

fn over_time(pasts: &[Past<'_>], whose: &str, figure: &Figure) -> String {
    let each = (POINTS / pasts.len().max(1)).clamp(20, 120);
    let lines: Vec<Vec<(f64, f64)>> = pasts.iter().map(|past| history(past, each, figure)).collect();
    let all = || lines.iter().flatten();
    let end = all().map(|p| p.0).fold(0.0, f64::max);
    if end == 0.0 {
        return "<p>The run is too short for a history.</p>".into();
    }
    let (lo, hi) = all().fold((f64::MAX, 0.0f64), |(lo, hi), p| (lo.min(p.1), hi.max(p.1)));
    let y = if figure.log { Scale::log(lo, hi) } else { Scale::from_zero(hi) };
    let seconds = |ns: f64| if ns == 0.0 { "0".into() } else { axis_time(ns) };
    let x = Axis::new(Scale::Linear { lo: 0.0, hi: end }, "simulated time", seconds);
    let y = Axis::new(y, figure.label, figure.show);
    let mut chart = Chart::new(290.0, &x, &y);
    for (i, line) in lines.iter().enumerate() {
        chart.line(&format!("{} thin", series(i)), line);
    }
    for (line, past) in lines.iter().zip(pasts) {
        for &point in line {
            let title = format!("{} at {}: {}", past.label, axis_time(point.0), (figure.show)(point.1));
            chart.dot("hit", point, 5.0, &title);
        }
    }
    chart.svg.finish(&format!("{} of each {whose} over time", figure.label))
}

/// The windows of a run joined into at most `most`, as time and figure. Empty windows have no latency and are left out of it.
fn history(past: &Past<'_>, most: usize, figure: &Figure) -> Vec<(f64, f64)> {
    let join = past.windows.len().div_ceil(most).max(1);
    let length = past.window_ns * join as u64;
    let groups = past.windows.chunks(join);
    let joined = groups.map(|group| {
        let requests: u64 = group.iter().map(|w| w.requests).sum();
        let total: u128 = group.iter().map(|w| u128::from(w.latency_mean_ns) * u128::from(w.requests)).sum();
        IntervalResult {
            start_ns: group[0].start_ns,
            requests,
            bytes: group.iter().map(|w| w.bytes).sum(),
            latency_mean_ns: total.checked_div(u128::from(requests)).unwrap_or(0) as u64,
            latency_max_ns: group.iter().map(|w| w.latency_max_ns).max().unwrap_or(0),
        }
    });
    let covered = |w: &IntervalResult| length.min(past.duration_ns.saturating_sub(w.start_ns)).max(1);
    joined
        .filter(|w| !figure.log || w.requests > 0)
        // A last sliver would show a rate that a handful of requests make.
        .filter(|w| covered(w) * 4 >= length || w.start_ns == 0)
        .map(|w| ((w.start_ns + covered(&w) / 2) as f64, (figure.of)(&w, covered(&w))))
        .collect()
}

/// Mean and longest latency, and throughput, of each stack over time.
pub fn histories(rows: &[Row]) -> String {
    let pasts: Vec<Past<'_>> = rows
        .iter()
        .map(|row| Past {
            label: &row.label,
            windows: &row.result.intervals,
            window_ns: row.result.interval_ns,
            duration_ns: row.result.duration_ns,
        })
        .collect();
    plots(&pasts, "stack")
}

/// The same of each tenant, where one stack serves several.
pub fn tenants(rows: &[Row]) -> String {
    let [Row { result, .. }] = rows else { return String::new() };
    let pasts: Vec<Past<'_>> = result
        .tenants
        .iter()
        .filter(|tenant| !tenant.intervals.is_empty())
        .map(|tenant| Past {
            label: &tenant.name,
            windows: &tenant.intervals,
            window_ns: tenant.interval_ns,
            duration_ns: result.duration_ns,
        })
        .collect();
    if pasts.len() < 2 {
        return String::new();
    }
    plots(&pasts, "tenant")
}

fn plots(pasts: &[Past<'_>], whose: &str) -> String {
    let figures = [
        (
            "Mean latency",
            Figure {
                of: |w, _| w.latency_mean_ns as f64,
                label: "mean latency (log scale)",
                log: true,
                show: axis_time,
            },
        ),
        (
            "Longest latency",
            Figure {
                of: |w, _| w.latency_max_ns as f64,
                label: "longest latency (log scale)",
                log: true,
                show: axis_time,
            },
        ),
        (
            "Requests per second",
            Figure {
                of: |w, ns| w.requests as f64 * 1e9 / ns as f64,
                label: "requests per second",
                log: false,
                show: |v| count(v.round() as u64),
            },
        ),
        (
            "Bytes per second",
            Figure {
                of: |w, ns| w.bytes as f64 * 1e9 / ns as f64,
                label: "bytes per second",
                log: false,
                show: |v| if v == 0.0 { "0".into() } else { short(&crate::format::bandwidth(v as u64)) },
            },
        ),
    ];
    let names = pasts.iter().enumerate().map(|(i, past)| (series(i), past.label.to_string()));
    let plots = figures
        .iter()
        .map(|(title, figure)| format!("<h3>{title}</h3>\n{}", over_time(pasts, whose, figure)));
    legend(&names.collect::<Vec<_>>()) + &plots.collect::<String>()
}
