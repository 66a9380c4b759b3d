//! The page of a sweep: what follows, the front as pictures, all points.

use super::chart::{Axis, Chart, fill, legend, short};
use super::page::frame;
use super::scale::Scale;
use super::svg::{escape, prose};
use super::tables::table;
use crate::format::figure;
use crate::sweep_text::{self as text, named, sentences, verdict};
use crate::verdict::Caution;
use nandu_sweep::bound::Goal;
use nandu_sweep::metric::{Figure, Kind};
use nandu_sweep::outcome::Row;
use nandu_sweep::{Outcome, Sweep};

/// What a point is, from the least to the most: its colour and the word in the legend.
pub const STANDINGS: [(usize, &str, f64); 5] = [
    (5, "misses a bound", 3.0),
    (0, "counts", 3.6),
    (1, "on the front", 4.6),
    (2, "best", 6.4),
    (2, "nearest, for nothing meets the bounds", 6.4),
];

fn standing(outcome: &Outcome, row: &Row) -> usize {
    match row {
        _ if outcome.best == Some(row.point) => 3,
        _ if row.front => 2,
        _ if row.meets => 1,
        _ => 0,
    }
}

/// The page.
pub fn page(title: &str, load: &str, sweep: &Sweep, outcome: &Outcome, cautions: &[Caution]) -> String {
    let said = sentences(sweep, outcome);
    let cautions = cautions.iter().map(|caution| &caution.text);
    let items: String = said.iter().chain(cautions).map(|s| format!("<li>{}</li>\n", prose(s))).collect();
    let mut body =
        format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<ul>\n{items}</ul>\n", escape(title), escape(load));
    let pictures = pictures(sweep, outcome);
    // With one goal no line is drawn.
    let (heading, dots) = match &sweep.goals[..] {
        [goal] => (
            format!("{} of each point", goal.metric.name),
            "Each dot is a point of the sweep. Pointing at a dot names it.",
        ),
        _ => (
            "Front".into(),
            "Each dot is a point of the sweep; the line joins the points of the front. Pointing at a dot names it.",
        ),
    };
    let sections = [
        (heading.as_str(), dots, pictures),
        ("Points", "All points that were measured, in their order.", rows(sweep, outcome)),
    ];
    for (heading, text, content) in sections.into_iter().filter(|(_, _, content)| !content.is_empty()) {
        body += &format!("<section>\n<h2>{heading}</h2>\n<p>{text}</p>\n{content}</section>\n");
    }
    frame(title, &body)
}

fn rows(sweep: &Sweep, outcome: &Outcome) -> String {
    let heads = std::iter::once("point").chain(outcome.axes.iter().map(String::as_str));
    let heads: Vec<&str> =
        heads.chain(sweep.metrics.iter().map(|m| m.name.as_str())).chain(["state", "verdict"]).collect();
    let body = outcome.rows.iter().map(|row| {
        let figures = sweep.metrics.iter().zip(&row.figures).map(|(m, f)| text::shown(m, row, *f));
        let cells = std::iter::once(row.point.to_string()).chain(row.steps.iter().cloned());
        let cells = cells.chain(figures).chain([row.state.name().into(), verdict(sweep, outcome, row)]);
        (outcome.best == Some(row.point), cells.collect())
    });
    let words: Vec<usize> = (1..=outcome.axes.len()).chain([heads.len() - 2, heads.len() - 1]).collect();
    table(&heads, &words, body)
}

/// The first goal against each other; with one goal, against the points in order.
fn pictures(sweep: &Sweep, outcome: &Outcome) -> String {
    let Some((first, others)) = sweep.goals.split_first() else { return String::new() };
    if others.is_empty() {
        let across = |row: &Row| Some(row.point as f64);
        let places: Vec<f64> = outcome.rows.iter().map(|r| r.point as f64).collect();
        let axis = axis(&places, "point", |v| short(&format!("{v:.1}")), false);
        return picture(sweep, outcome, (&across, axis), first, false);
    }
    let of = |goal: &Goal| values(sweep, outcome, goal);
    let drawn = others.iter().map(|other| {
        let x = axis(&of(first), &first.metric.name, shown(first.metric.kind), true);
        let across = |row: &Row| value(sweep, row, first);
        picture(sweep, outcome, (&across, x), other, true)
    });
    drawn.collect()
}

/// The figure of a goal as a number; none where there is none or the flash was not worn.
fn value(sweep: &Sweep, row: &Row, goal: &Goal) -> Option<f64> {
    let column = sweep.metrics.iter().position(|m| *m == goal.metric)?;
    match row.figures[column]? {
        Figure::Value(v) => Some(v as f64),
        Figure::Unworn => None,
    }
}

fn values(sweep: &Sweep, outcome: &Outcome, goal: &Goal) -> Vec<f64> {
    outcome.rows.iter().filter_map(|row| value(sweep, row, goal)).collect()
}

/// A figure beside an axis.
pub fn shown(kind: Kind) -> impl Fn(f64) -> String {
    move |v| match v {
        0.0 => "0".into(),
        // The place beside an axis is narrow.
        v => short(&figure(kind, Some(Figure::Value(v as u64)))).replace(" years", " y"),
    }
}

/// From zero where all figures are of one size, by powers of ten where they are not.
pub fn axis(values: &[f64], label: &str, show: impl Fn(f64) -> String, logarithmic: bool) -> Axis {
    let (least, most) = values.iter().fold((f64::MAX, 0.0f64), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
    let scale = match logarithmic && least > 0.0 && most > 30.0 * least {
        // A dot has room around it.
        true => Scale::log(least * 0.8, most * 1.3),
        // Figures are whole: steps below 1 would all show the same.
        false => Scale::from_zero(most.max(5.0)),
    };
    Axis::new(scale, label, show)
}

/// Where a row stands on the horizontal axis.
type Across<'a> = &'a dyn Fn(&Row) -> Option<f64>;

fn picture(
    sweep: &Sweep,
    outcome: &Outcome,
    (across, x): (Across<'_>, Axis),
    up: &Goal,
    joined: bool,
) -> String {
    let y = axis(&values(sweep, outcome, up), &up.metric.name, shown(up.metric.kind), true);
    let dot = |row: &Row| {
        let figures = text::figures(sweep, row, |_| true);
        Some(Dot {
            place: (across(row)?, value(sweep, row, up)?),
            standing: standing(outcome, row),
            on_front: row.front,
            title: format!("{}: {figures}", named(sweep, row.point)),
        })
    };
    let placed: Vec<Dot> = outcome.rows.iter().filter_map(dot).collect();
    let note = match outcome.rows.len() - placed.len() {
        0 => String::new(),
        n => {
            format!("<p>{n} points have no place here: a figure is missing, or the flash was not worn.</p>\n")
        }
    };
    dots(&x, &y, &placed, joined) + &note
}

/// What stands in a picture of a front.
pub struct Dot {
    /// Across and up.
    pub place: (f64, f64),
    /// Place in [`STANDINGS`].
    pub standing: usize,
    /// Whether the line goes through it, where one is drawn.
    pub on_front: bool,
    /// What is said when it is pointed at.
    pub title: String,
}

/// A picture of `placed`, the front joined by a line where that is wanted, with its legend.
pub fn dots(x: &Axis, y: &Axis, placed: &[Dot], joined: bool) -> String {
    let mut chart = Chart::new(380.0, x, y);
    let mut front: Vec<(f64, f64)> = placed.iter().filter(|d| d.on_front).map(|d| d.place).collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    if joined {
        chart.line("line thin c1", &front);
    }
    let mut names = Vec::new();
    // What matters most is drawn last, so that nothing hides it.
    for (kind, (colour, word, radius)) in STANDINGS.iter().enumerate() {
        let of_kind = placed.iter().filter(|dot| dot.standing == kind);
        let drawn = of_kind.map(|dot| chart.dot(&format!("dot c{colour}"), dot.place, *radius, &dot.title));
        if drawn.count() > 0 {
            names.push((fill(*colour), (*word).to_string()));
        }
    }
    legend(&names) + &chart.svg.finish(&format!("{} over {}", y.label, x.label))
}
