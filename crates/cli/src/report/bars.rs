//! Plots of stacked bars: where the time of requests went, and what kept the hardware busy.

use super::chart::{WIDTH, legend, short};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use crate::format::{percent, shares, three, time, words};
use crate::verdict::Row;
use nandu_base::{Phase, Work};
use nandu_sim::result::LayerResult;
use std::collections::BTreeMap;

const BAR: f64 = 20.0;
const STEP: f64 = 30.0;
/// Names are cut to this many characters.
const NAME: usize = 36;

/// A bar: its name, its parts (class, length, title), and a text behind it.
struct Bar {
    name: String,
    parts: Vec<(String, f64, String)>,
    text: String,
}

fn draw(bars: &[Bar], scale: Scale, unit: &str, show: impl Fn(f64) -> String, label: &str) -> String {
    let longest = bars.iter().map(|b| b.name.chars().count().min(NAME)).max().unwrap_or(0);
    let (left, right) = (longest as f64 * 7.4 + 18.0, WIDTH - 120.0);
    let bottom = bars.len() as f64 * STEP + 6.0;
    let mut svg = Svg::new(WIDTH, bottom + 46.0);
    let at = |value: f64| left + scale.place(value) * (right - left);
    for tick in scale.ticks() {
        svg.line("grid", (at(tick), 0.0), (at(tick), bottom));
        svg.text("tick", (at(tick), bottom + 16.0), Anchor::Middle, &show(tick));
    }
    svg.text("label", ((left + right) / 2.0, bottom + 38.0), Anchor::Middle, unit);
    for (i, bar) in bars.iter().enumerate() {
        let y = i as f64 * STEP + 5.0;
        svg.text("name", (left - 8.0, y + 15.0), Anchor::End, &shortened(&bar.name));
        let mut from = 0.0;
        for (class, length, title) in bar.parts.iter().filter(|p| p.1 > 0.0) {
            let (x, end) = (at(from), at(from + length));
            svg.rect(class, (x, y), (end - x, BAR), &format!("{}: {title}", bar.name));
            from += length;
        }
        svg.text("tick", (at(from) + 8.0, y + 15.0), Anchor::Start, &bar.text);
    }
    svg.finish(label)
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.into();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

/// Shares of the critical path of each stack.
pub fn phases(rows: &[Row]) -> String {
    let of = |path: &BTreeMap<&'static str, u64>, p: Phase| path.get(p.name()).copied().unwrap_or(0);
    let used: Vec<Phase> = Phase::ALL
        .into_iter()
        .filter(|&p| rows.iter().any(|r| of(&r.result.total.latency_breakdown_total_ns, p) > 0))
        .collect();
    let mut bars = Vec::new();
    for row in rows {
        let l = &row.result.total;
        let totals: Vec<u64> = used.iter().map(|&p| of(&l.latency_breakdown_total_ns, p)).collect();
        let parts = used.iter().zip(shares(&totals)).zip(&totals).map(|((p, share), &total)| {
            let mean = time(total / l.requests.max(1));
            (
                format!("fill p-{}", p.name()),
                share as f64 / 10.0,
                format!("{} {} ({mean})", words(p.name()), percent(share)),
            )
        });
        bars.push(Bar {
            name: row.label.clone(),
            parts: parts.collect(),
            text: format!("mean {}", time(l.mean_ns)),
        });
    }
    let entries: Vec<_> = used.iter().map(|p| (format!("fill p-{}", p.name()), words(p.name()))).collect();
    let scale = Scale::Linear { lo: 0.0, hi: 100.0 };
    legend(&entries)
        + &draw(
            &bars,
            scale,
            "share of the mean latency",
            |v| format!("{v:.0} %"),
            "shares of latency by phase",
        )
}

/// How many dies, channels, heads were busy on average, by work, for each layer that has any.
pub fn busy(rows: &[Row]) -> String {
    let mut bars = Vec::new();
    let mut used: Vec<Work> = Vec::new();
    for row in rows {
        for layer in row.result.layers.iter().rev() {
            for (resource, by_work) in charges(layer) {
                let average = |ns: u64| ns as f64 / row.result.duration_ns.max(1) as f64;
                let mut parts = Vec::new();
                for work in Work::ALL {
                    let units = average(by_work.get(work.name()).copied().unwrap_or(0));
                    if units > 0.0 && !used.contains(&work) {
                        used.push(work);
                    }
                    let title = format!("{} keeps {} {resource}s busy", work.name(), three(units));
                    parts.push((format!("fill w-{}", work.name()), units, title));
                }
                let sum: f64 = parts.iter().map(|p| p.1).sum();
                let alone = row.result.layers.len() == 1;
                let name = if alone {
                    format!("{} {resource}s", row.label)
                } else {
                    format!("{} {} {resource}s", row.label, layer.name)
                };
                bars.push(Bar { name, parts, text: three(sum) });
            }
        }
    }
    if bars.is_empty() {
        return "<p>No layer was busy.</p>".into();
    }
    used.sort();
    let entries: Vec<_> = used.iter().map(|w| (format!("fill w-{}", w.name()), words(w.name()))).collect();
    let most = bars.iter().map(|b| b.parts.iter().map(|p| p.1).sum::<f64>()).fold(0.0, f64::max);
    let scale = Scale::from_zero(most);
    legend(&entries)
        + &draw(
            &bars,
            scale,
            "busy on average, of each kind",
            |v| short(&three(v)),
            "busy time of each layer by work",
        )
}

/// Busy time of a layer by resource and work, over all tenants.
fn charges(layer: &LayerResult) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let mut out: BTreeMap<&'static str, BTreeMap<&'static str, u64>> = BTreeMap::new();
    for charge in &layer.charges {
        *out.entry(charge.resource).or_default().entry(charge.work).or_default() += charge.busy_ns;
    }
    out
}
