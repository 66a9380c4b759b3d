//! A sweep in words: the table of points and what follows from it.

use crate::format::{count, figure, per_second, plural, three};
use crate::table::Table;
use nandu_sim::steady::State;
use nandu_sweep::metric::{Figure, Metric};
use nandu_sweep::outcome::Row;
use nandu_sweep::{Outcome, Sweep};

/// By how much a bound is missed.
fn factor(missed: u64) -> String {
    match missed {
        u64::MAX => String::new(),
        n => format!(" by {}x", three(n as f64 / 1000.0 + 1.0)),
    }
}

/// What keeps a row from counting; the bounds that it misses.
pub fn misses(sweep: &Sweep, row: &Row) -> Vec<String> {
    let missed = sweep.bounds.iter().zip(&row.missed_by_thousandths).filter(|(_, by)| **by > 0);
    let mut out: Vec<String> =
        missed.map(|(bound, &by)| format!("misses {}{}", bound.text, factor(by))).collect();
    if !row.whole {
        out.push("requests failed".into());
    }
    if !row.kept_up && !sweep.allow_saturated {
        out.push("saturated".into());
    }
    if row.state == State::NotSteady && !sweep.allow_unsteady {
        out.push("not steady".into());
    }
    out
}

/// Where a row stands.
pub fn verdict(sweep: &Sweep, outcome: &Outcome, row: &Row) -> String {
    if outcome.best == Some(row.point) {
        return "best".into();
    }
    if outcome.ties.contains(&row.point) {
        return "as good as the best".into();
    }
    if row.front {
        return "front".into();
    }
    let misses = misses(sweep, row).join("; ");
    match outcome.nearest == Some(row.point) {
        true => format!("nearest: {misses}"),
        false => misses,
    }
}

/// A figure of a row in its unit. Few requests a second are told with their decimals, which the figure does not have.
pub fn shown(metric: &Metric, row: &Row, of: Option<Figure>) -> String {
    match (of, row.measured) {
        (Some(Figure::Value(n)), (requests, duration_ns))
            if metric.name == "iops" && n < 100 && duration_ns > 0 =>
        {
            per_second(requests, duration_ns)
        }
        _ => figure(metric.kind, of),
    }
}

/// All points that were measured.
pub fn table(sweep: &Sweep, outcome: &Outcome) -> Table {
    let axes: Vec<String> = outcome.axes.iter().map(|a| format!("<{a}")).collect();
    let heads = std::iter::once("point").chain(axes.iter().map(String::as_str));
    let heads = heads.chain(sweep.metrics.iter().map(|m| m.name.as_str())).chain(["<state", "<verdict"]);
    let mut table = Table::new(heads);
    for row in &outcome.rows {
        let figures = sweep.metrics.iter().zip(&row.figures).map(|(m, f)| shown(m, row, *f));
        let cells = std::iter::once(row.point.to_string()).chain(row.steps.iter().cloned());
        table.row(cells.chain(figures).chain([row.state.name().into(), verdict(sweep, outcome, row)]));
    }
    table
}

/// A point with its steps.
pub fn named(sweep: &Sweep, point: usize) -> String {
    format!("point {point} ({})", sweep.space.label(point))
}

/// Some of the figures of a row.
pub fn figures<'a>(sweep: &'a Sweep, row: &'a Row, of: impl Fn(&Metric) -> bool + 'a) -> String {
    let all = sweep.metrics.iter().zip(&row.figures).filter(move |(m, _)| of(m));
    all.map(|(m, f)| format!("{} {}", m.name, shown(m, row, *f))).collect::<Vec<_>>().join(", ")
}

/// What the sweep was for, in words.
pub fn wanted(sweep: &Sweep) -> String {
    let goals: Vec<String> =
        sweep.goals.iter().map(|g| format!("{} {}", g.aim.name(), g.metric.name)).collect();
    let bounds: Vec<&str> = sweep.bounds.iter().map(|b| b.text.as_str()).collect();
    let goals = if goals.is_empty() { "no goal".into() } else { goals.join(", then ") };
    match bounds.is_empty() {
        true => goals,
        false => format!("{goals}, with {}", bounds.join(" and ")),
    }
}

/// What follows from the points: the best, the front, ties; or what is missing. One sentence each.
pub fn sentences(sweep: &Sweep, outcome: &Outcome) -> Vec<String> {
    let mut out = vec![format!("wanted: {}", wanted(sweep))];
    let counting = format!("{} of {} count", outcome.meeting(), plural(outcome.rows.len() as u64, "point"));
    if let Some(row) = outcome.best.and_then(|p| outcome.row(p)) {
        let front = outcome.rows.iter().filter(|r| r.front).count();
        out.push(format!("{counting}, {} on the front", count(front as u64)));
        out.push(format!("best: {}: {}", named(sweep, row.point), figures(sweep, row, |_| true)));
        if !outcome.ties.is_empty() {
            let names: Vec<String> = outcome.ties.iter().map(|&p| named(sweep, p)).collect();
            out.push(format!("as good in every goal: {}", names.join(", ")));
        }
        return out;
    }
    out.push(counting);
    for (bound, result) in sweep.bounds.iter().zip(&outcome.bounds) {
        let best = result.best_point.and_then(|p| outcome.row(p)).map(|row| {
            let name = &bound.metric.name;
            format!(
                ", the best of them with {} at {}",
                figures(sweep, row, |m| m.name == *name),
                named(sweep, row.point)
            )
        });
        out.push(format!(
            "{} is met by {}{}",
            bound.text,
            plural(result.met_by as u64, "point"),
            best.unwrap_or_default()
        ));
    }
    if let Some(row) = outcome.nearest.and_then(|p| outcome.row(p)) {
        out.push(format!("nearest: {}: {}", named(sweep, row.point), misses(sweep, row).join("; ")));
    }
    out
}
