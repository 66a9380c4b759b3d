//! The page of a reproduction: the claims in a table, the figures of the paper drawn again.

use crate::failure::Failure;
use crate::files;
use crate::format::{count, three};
use crate::report::chart::{Axis, Chart, legend, series, short};
use crate::report::page::frame;
use crate::report::scale::Scale;
use crate::report::svg::escape;
use crate::reproduce::expected::{ClaimKind, Verdict};
use crate::reproduce::{Figure, Outcome, Reproduction, Shape, Sheet};
use std::path::Path;

/// Writes the page of `done` to `path`.
pub fn write(path: &Path, done: &[Reproduction]) -> Result<(), Failure> {
    let body: String = done.iter().map(paper).collect();
    let page = frame("nandu reproduce", &body);
    files::write_file(path, |out| out.write_all(page.as_bytes()).map_err(|e| Failure::unwritable(path, &e)))
}

fn paper(r: &Reproduction) -> String {
    let figures: String = r.figures.iter().map(|f| section(&f.title, &plot(f))).collect();
    let tables: String = r.tables.iter().map(|t| section(&t.title, &sheet(t))).collect();
    let lead = format!(
        "{} Bounds written {}. {} requests for each load, seed {}.",
        r.expected.question,
        r.expected.written,
        count(r.requests),
        r.seed
    );
    let of = |(kind, heading): (ClaimKind, &str)| {
        let outcomes: Vec<&Outcome> = r.outcomes.iter().filter(|o| o.kind == kind).collect();
        if outcomes.is_empty() { String::new() } else { section(heading, &claims(&outcomes)) }
    };
    let both = [(ClaimKind::Paper, "Claims of the paper"), (ClaimKind::Bet, "Own bets")].map(of).concat();
    format!(
        "<h1>{}</h1>\n<p class=\"lead\">{}</p>\n{both}{tables}{figures}",
        escape(&r.expected.title),
        escape(&lead),
    )
}

/// Points of a line beyond which they are not marked.
const MANY: usize = 60;

fn section(heading: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(heading))
}

/// A table without verdicts.
fn sheet(table: &Sheet) -> String {
    let heads = table.heads.iter().map(|h| format!("<th>{}</th>", escape(h.trim_start_matches('<'))));
    let row = |row: &Vec<String>| {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(row).collect();
    let heads: String = heads.collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn claims(outcomes: &[&Outcome]) -> String {
    let heads = [
        "claim",
        "case",
        "says",
        "where",
        "claimed",
        "measured",
        "unit",
        "verdict",
        "tolerance",
        "load",
        "reason",
    ];
    let cell = |text: &str| format!("<td>{}</td>", escape(text));
    let rows = outcomes.iter().map(|o| {
        let measured = o.measured.map_or_else(|| "-".into(), |v| format!("{v:.3}"));
        let c = &o.claim;
        let cells = [&c.id, &c.case, &c.says, &c.place, &c.claimed, &measured, &c.unit];
        let cells = cells.map(|t| cell(t)).concat() + &cell(o.verdict.words());
        let class = match o.verdict {
            Verdict::Reproduced => "best",
            _ => "",
        };
        format!(
            "<tr class=\"{class}\">{cells}{}{}{}</tr>\n",
            cell(&c.tolerance),
            cell(&o.origin),
            cell(&o.reason)
        )
    });
    let head = heads.map(|h| format!("<th>{h}</th>")).concat();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        rows.collect::<String>()
    )
}

/// The axes of a figure.
fn axes(figure: &Figure) -> (Axis, Axis) {
    let all = || figure.lines.iter().flat_map(|l| &l.1);
    let (lo, hi) = all().fold((f64::MAX, 0.0f64), |(lo, hi), p| (lo.min(p.0), hi.max(p.0)));
    let (bottom, top) = all().fold((0.0f64, 0.0f64), |(b, t), p| (b.min(p.1), t.max(p.1)));
    let name = |v: f64| if v < 0.0 { format!("-{}", short(&three(-v))) } else { short(&three(v)) };
    let points = || {
        let first = figure.lines.first();
        first.map_or_else(Vec::new, |l| l.1.iter().map(|p| (p.0, short(&three(p.0)))).collect())
    };
    let x = match figure.shape {
        Shape::Log => {
            let scale = Scale::Log { lo: lo * 0.9, hi: hi * 1.1 };
            Axis { scale, ticks: points(), label: figure.x.into() }
        }
        Shape::Lines | Shape::Bars => Axis::new(Scale::from_zero(hi), figure.x, name),
    };
    let scale = match figure.shape {
        Shape::Bars => Scale::Linear { lo: bottom * 1.05, hi: top.max(1.0) * 1.05 },
        Shape::Log | Shape::Lines => Scale::from_zero(top),
    };
    (x, Axis::new(scale, figure.y, name))
}

/// The figure with its legend.
fn plot(figure: &Figure) -> String {
    let (x, y) = axes(figure);
    let mut chart = Chart::new(340.0, &x, &y);
    for (i, (name, points)) in figure.lines.iter().enumerate() {
        if figure.shape == Shape::Bars {
            for &(at, value) in points {
                let (from, to) = (chart.at((at, 0.0)), chart.at((at, value)));
                chart.svg.line(&series(i), from, to);
            }
            continue;
        }
        chart.line(&series(i), points);
        if points.len() > MANY {
            continue;
        }
        for &point in points {
            let title = format!("{name}: {} at {}", three(point.1), short(&three(point.0)));
            chart.dot(&format!("dot c{}", i % 8), point, 3.2, &title);
        }
    }
    let names: Vec<(String, String)> =
        figure.lines.iter().enumerate().map(|(i, l)| (series(i), l.0.clone())).collect();
    legend(&names) + &chart.svg.finish(&figure.title)
}
