//! Tenants over time: shares of device time, the collection each caused, and in drives that tell tenants apart lending, wear, and how full units
//! were that collection cleared.
//!
//! For one stack only: with several there would be too many lines. A tenant has the same colour in all of them; of more than
//! eight the smallest are one line. Changes of tenants are marked where they began to hold.

use super::chart::{Axis, Chart, legend, series, short};
use super::scale::Scale;
use crate::format::{count, three, time};
use crate::verdict::Row;
use nandu_sim::RunResult;
use nandu_sim::over_time::{Inside, OverTime, Used};
use nandu_sim::victims::{self, STEPS};

/// A line: whose it is, and its points.
type Line = (String, Vec<(f64, f64)>);

/// What grew between two samples.
fn grown(values: &[u64], i: usize) -> u64 {
    values[i].saturating_sub(values[i - 1])
}

/// Percent of the device time between two samples.
fn shares(over: &OverTime) -> Vec<Line> {
    let all = |i: usize| over.tenants.iter().map(|used| grown(&used.device_ns, i)).sum::<u64>();
    let point = |used: &Used, i: usize| {
        let all = all(i);
        (all > 0).then(|| (over.at_ns[i] as f64, grown(&used.device_ns, i) as f64 * 100.0 / all as f64))
    };
    let line = |used: &Used| (1..over.at_ns.len()).filter_map(|i| point(used, i)).collect();
    over.tenants.iter().map(|used| (used.tenant.clone(), line(used))).collect()
}

/// A figure per second between two samples.
fn rates(at: &[u64], values: &[u64], of: f64) -> Vec<(f64, f64)> {
    let point = |i: usize| {
        let ns = at[i].saturating_sub(at[i - 1]);
        (ns > 0).then(|| (at[i] as f64, grown(values, i) as f64 * of / ns as f64))
    };
    (1..at.len()).filter_map(point).collect()
}

fn moments(at: &[u64], values: &[u64]) -> Vec<(f64, f64)> {
    at.iter().zip(values).map(|(&at, &value)| (at as f64, value as f64)).collect()
}

/// Lines that can be told apart in a plot.
const LINES: usize = 8;

/// What is drawn: class and line. Of many lines the smallest are added up to one.
fn drawn(lines: &[Line]) -> Vec<(String, Line)> {
    let line = |i: usize| (series(i), lines[i].clone());
    if lines.len() <= LINES {
        return (0..lines.len()).map(line).collect();
    }
    let sum = |i: usize| lines[i].1.iter().map(|p| p.1).sum::<f64>();
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
    let (own, rest) = order.split_at_mut(LINES - 1);
    own.sort_unstable();
    let mut added: Vec<(f64, f64)> = Vec::new();
    for &i in rest.iter() {
        added.resize(added.len().max(lines[i].1.len()), (0.0, 0.0));
        added.iter_mut().zip(&lines[i].1).for_each(|(sum, p)| *sum = (p.0, sum.1 + p.1));
    }
    let name = format!("the other {} together", rest.len());
    own.iter().map(|&i| line(i)).chain([("line rest".into(), (name, added))]).collect()
}

fn plot(title: &str, label: &str, lines: &[Line], marks: &[(f64, &str)], show: fn(f64) -> String) -> String {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let (end, most) = all().fold((0.0f64, 0.0f64), |(t, v), p| (t.max(p.0), v.max(p.1)));
    if end == 0.0 || most == 0.0 {
        return String::new();
    }
    let axis_time = |ns: f64| if ns == 0.0 { "0".into() } else { short(&time(ns as u64)) };
    let x = Axis::new(Scale::Linear { lo: 0.0, hi: end }, "simulated time", axis_time);
    let y = Axis::new(Scale::from_zero(most), label, show);
    let mut chart = Chart::new(260.0, &x, &y);
    for (at, text) in marks.iter().filter(|(at, _)| *at <= end) {
        chart.mark(*at, text);
    }
    let drawn = drawn(lines);
    for (class, (_, points)) in &drawn {
        chart.line(&format!("{class} thin"), points);
    }
    let names: Vec<_> = drawn.into_iter().map(|(class, (name, _))| (class, name)).collect();
    let drawn = chart.svg.finish(&format!("{label} over time, by tenant"));
    format!("<h3>{title}</h3>\n{}{drawn}", legend(&names))
}

/// Of the units that each tenant has cleared, how many were how full.
fn cleared(drives: &[Inside], result: &RunResult) -> String {
    let line = |inside: &Inside| -> Option<Line> {
        let layer = result.layers.iter().find(|layer| layer.name == inside.device)?;
        let shares = victims::shares(&victims::of(layer, inside.number)?)?;
        let points = (1..).zip(shares).map(|(step, share)| (f64::from(step) * 100.0 / STEPS as f64, share));
        Some((name(inside), points.collect()))
    };
    let lines: Vec<Line> = drives.iter().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    let most = lines.iter().flat_map(|(_, points)| points).fold(0.0f64, |most, p| most.max(p.1));
    let x = Axis::new(Scale::Linear { lo: 0.0, hi: 100.0 }, "valid pages, percent of a unit, up to", whole);
    let y = Axis::new(Scale::from_zero(most), "percent of the units cleared", whole);
    let mut chart = Chart::new(230.0, &x, &y);
    for (i, (_, points)) in lines.iter().enumerate() {
        chart.line(&series(i), points);
    }
    let names: Vec<_> = lines.iter().enumerate().map(|(i, (name, _))| (series(i), name.clone())).collect();
    let drawn = chart.svg.finish("valid pages of the units that were cleared, by tenant");
    format!("<h3>Valid pages of cleared units</h3>\n{}{drawn}", legend(&names))
}

/// A tenant of a drive, in words.
fn name(inside: &Inside) -> String {
    format!("tenant {} of {}", inside.number, inside.device)
}

fn whole(value: f64) -> String {
    count(value.round() as u64)
}

fn some(value: f64) -> String {
    if value == 0.0 { "0".into() } else { short(&three(value)) }
}

/// The plots of the only row; empty where there are several, or nothing to tell apart.
pub fn plots(rows: &[Row]) -> String {
    let [Row { result, .. }] = rows else { return String::new() };
    let Some(over) = &result.over_time else { return String::new() };
    let at = &over.at_ns;
    let used = |of: fn(&Used) -> &Vec<u64>| -> Vec<Line> {
        // A second of collection in a second is one die.
        over.tenants.iter().map(|used| (used.tenant.clone(), rates(at, of(used), 1.0))).collect()
    };
    let inside = |points: &dyn Fn(&Inside) -> Vec<(f64, f64)>| -> Vec<Line> {
        over.drives.iter().map(|inside| (name(inside), points(inside))).collect()
    };
    let changes = result.changes.iter().filter_map(|change| Some((change.holds_at_ns? as f64, change)));
    let marks: Vec<(f64, &str)> = changes.map(|(at, change)| (at, change.name.as_str())).collect();
    let plot = |title: &str, label: &str, lines: &[Line], show: fn(f64) -> String| {
        plot(title, label, lines, &marks, show)
    };
    let mut out = String::new();
    if over.tenants.len() > 1 {
        out += &plot("Share of device time", "percent", &shares(over), whole);
        let gc = used(|used| &used.gc_ns);
        out += &plot("Collection caused", "dies at work with it", &gc, some);
    }
    let moved = inside(&|drive| rates(at, &drive.gc_pages_moved, 1e9));
    out += &plot("Pages moved by collection", "pages per second", &moved, whole);
    let lent = inside(&|drive| moments(at, &drive.units_lent));
    out += &plot("Lent to other tenants at the moment", "units", &lent, whole);
    let borrowed = inside(&|drive| moments(at, &drive.units_borrowed));
    out += &plot("Borrowed from other tenants at the moment", "units", &borrowed, whole);
    let wear = inside(&|drive| moments(at, &drive.block_erases));
    out += &plot("Wear: erases so far of what the tenant had filled", "blocks erased", &wear, whole);
    out + &cleared(&over.drives, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tenants_the_smallest_are_one_line() {
        let lines: Vec<Line> =
            (0..16).map(|i| (format!("t{i}"), vec![(1.0, f64::from(i)), (2.0, 1.0)])).collect();
        let drawn = drawn(&lines);
        let names: Vec<&str> = drawn.iter().map(|(_, (name, _))| name.as_str()).collect();
        assert_eq!(names, ["t9", "t10", "t11", "t12", "t13", "t14", "t15", "the other 9 together"]);
        // A line keeps its colour; the rest is 0 + 1 + ... + 8.
        assert_eq!(drawn[0].0, series(9));
        assert_eq!(drawn[7].1.1, [(1.0, 36.0), (2.0, 9.0)]);
        assert_eq!(super::drawn(&lines[..8]).len(), 8);
    }

    #[test]
    fn shares_add_up_between_samples() {
        let used =
            |tenant: &str, device_ns: Vec<u64>| Used { tenant: tenant.into(), gc_ns: vec![0; 3], device_ns };
        let tenants = vec![used("a", vec![0, 30, 30]), used("b", vec![0, 10, 30])];
        let over = OverTime { at_ns: vec![0, 100, 200], tenants, drives: Vec::new() };
        let lines = shares(&over);
        assert_eq!(lines[0].1, [(100.0, 75.0), (200.0, 0.0)]);
        assert_eq!(lines[1].1, [(100.0, 25.0), (200.0, 100.0)]);
        assert_eq!(rates(&over.at_ns, &[0, 50, 50], 1.0), [(100.0, 0.5), (200.0, 0.0)]);
    }
}
