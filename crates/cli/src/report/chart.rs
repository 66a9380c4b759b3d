//! The frame that all plots share: axes, grid, labels, legend.

use super::scale::Scale;
use super::svg::{Anchor, Svg, escape};

/// Width of a plot in its own units; the page scales it.
pub const WIDTH: f64 = 1040.0;
/// Room for the labels of the vertical axis.
pub const LEFT: f64 = 92.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;

/// An axis: its scale, the marks on it, and what it measures.
pub struct Axis {
    /// The scale.
    pub scale: Scale,
    /// Marks with their texts.
    pub ticks: Vec<(f64, String)>,
    /// What it measures, with the unit.
    pub label: String,
}

impl Axis {
    /// An axis with round marks, whose texts `show` makes.
    pub fn new(scale: Scale, label: &str, show: impl Fn(f64) -> String) -> Axis {
        let ticks = scale.ticks().into_iter().map(|t| (t, show(t))).collect();
        Axis { scale, ticks, label: label.into() }
    }
}

/// The text of a round figure without the zeros behind its point: `2.00 ms` becomes `2 ms`.
pub fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, String::new()), |(n, u)| (n, format!(" {u}")));
    match number.contains('.') {
        true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text.into(),
    }
}

/// A plot with two axes.
pub struct Chart {
    /// What is drawn so far.
    pub svg: Svg,
    x: Scale,
    y: Scale,
    height: f64,
}

impl Chart {
    /// A plot with its grid and labels, ready for lines.
    pub fn new(height: f64, x: &Axis, y: &Axis) -> Chart {
        let mut chart = Chart { svg: Svg::new(WIDTH, height), x: x.scale, y: y.scale, height };
        let (left, right, top, bottom) = (LEFT, WIDTH - RIGHT, TOP, height - BOTTOM);
        for (value, text) in &x.ticks {
            let at = chart.at_x(*value);
            chart.svg.line("grid", (at, top), (at, bottom));
            chart.svg.text("tick", (at, bottom + 18.0), Anchor::Middle, text);
        }
        for (value, text) in &y.ticks {
            let at = chart.at_y(*value);
            chart.svg.line("grid", (left, at), (right, at));
            chart.svg.text("tick", (left - 8.0, at + 4.0), Anchor::End, text);
        }
        chart.svg.line("axis", (left, bottom), (right, bottom));
        chart.svg.line("axis", (left, top), (left, bottom));
        chart.svg.text("label", ((left + right) / 2.0, height - 10.0), Anchor::Middle, &x.label);
        chart.svg.upright("label", (14.0, (top + bottom) / 2.0), &y.label);
        chart
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - RIGHT - LEFT)
    }

    fn at_y(&self, value: f64) -> f64 {
        let bottom = self.height - BOTTOM;
        bottom - self.y.place(value) * (bottom - TOP)
    }

    /// The place of a pair of figures.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.at_x(x), self.at_y(y))
    }

    /// A line through pairs of figures.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let places: Vec<(f64, f64)> = points.iter().map(|&p| self.at(p)).collect();
        self.svg.polyline(class, &places);
    }

    /// A moment with its name, at the top.
    pub fn mark(&mut self, x: f64, name: &str) {
        let at = self.at_x(x);
        self.svg.line("moment", (at, TOP), (at, self.height - BOTTOM));
        // Near the right edge the name stands before its line.
        let is_late = at > WIDTH - RIGHT - 120.0;
        let (place, anchor) = if is_late { (at - 5.0, Anchor::End) } else { (at + 5.0, Anchor::Start) };
        self.svg.text("tick", (place, TOP + 10.0), anchor, name);
    }

    /// A point that says `title`.
    pub fn dot(&mut self, class: &str, point: (f64, f64), radius: f64, title: &str) {
        let place = self.at(point);
        self.svg.dot(class, place, radius, title);
    }
}

/// Series that differ in colour; beyond them the dashes differ.
const COLOURS: usize = 8;

/// The class of the line of series `index`. Every second line is dashed: of two that lie on each other both are seen.
pub fn series(index: usize) -> String {
    let dash = match index / COLOURS {
        0 if index.is_multiple_of(2) => "",
        0 => " dash1",
        _ => " dash2",
    };
    format!("line c{}{dash}", index % COLOURS)
}

/// The class of what is filled in the colour of series `index`.
pub fn fill(index: usize) -> String {
    format!("fill c{}", index % COLOURS)
}

/// A legend: class and name of each entry.
pub fn legend(entries: &[(String, String)]) -> String {
    let items: Vec<String> = entries
        .iter()
        .map(|(class, name)| {
            let mark = if class.starts_with("line") {
                format!(r#"<svg class="mark" viewBox="0 0 26 10"><line class="{class}" x1="1" y1="5" x2="25" y2="5"/></svg>"#)
            } else {
                format!(r#"<svg class="mark square" viewBox="0 0 12 12"><rect class="{class}" width="12" height="12"/></svg>"#)
            };
            format!("<span>{mark}{}</span>", escape(name))
        })
        .collect();
    format!("<div class=\"legend\">{}</div>\n", items.join("\n"))
}
