//! Advice as text and as a page: the front, the best, what binds it, the next parameter, and how sure all that is.

use crate::format::{count, figure, percent, plural, thousandths, time};
use crate::report::chart::Axis;
use crate::report::scale::Scale;
use crate::report::svg::{escape, prose};
use crate::report::{front, page};
use crate::table::Table;
use nandu_experiment::advise::{Advice, Row, TenantLatency, lifetime};
use nandu_sweep::Figure;
use nandu_sweep::metric::Kind;
use std::fmt::Write;

/// Most rows of the front that are shown.
const ROWS: usize = 12;

fn table(advice: &Advice) -> Table {
    let heads = ["point", "cost", "p99", "lifetime", "<state", "<meets", "<settings"];
    let mut table = Table::new(heads);
    let mut shown: Vec<&Row> = advice.rows.iter().filter(|row| row.front).collect();
    shown.sort_by_key(|row| (row.cost_thousandths, row.p99_ns));
    let skipped = shown.len().saturating_sub(ROWS);
    let best = advice.best.as_ref().map(|b| b.point);
    let keep = |i: usize, row: &Row| i < ROWS || Some(row.point) == best;
    let rows = shown.into_iter().enumerate().filter(|(i, row)| keep(*i, row)).map(|(_, row)| row);
    // The nearest, where nothing keeps up, is on no front.
    let alone = advice.best.iter().filter(|b| !b.front);
    for row in rows.chain(alone) {
        let meets = match (row.meets, Some(row.point) == best) {
            (true, true) => "best".into(),
            (true, false) => "yes".into(),
            (false, _) if row.saturated => "saturated".into(),
            (false, here) => {
                let by = thousandths(row.missed_by_thousandths.saturating_add(1000));
                format!("{}by {by}x", if here { "nearest, misses " } else { "misses " })
            }
        };
        table.row([
            row.point.to_string(),
            thousandths(row.cost_thousandths),
            time(row.p99_ns),
            lifetime(row.lifetime_years_thousandths),
            row.state.into(),
            meets,
            row.shown.clone(),
        ]);
    }
    if skipped > 0 {
        let mut cells = vec![String::new(); heads.len()];
        cells[heads.len() - 1] = format!("and {} more with --json", count(skipped as u64));
        table.row(cells);
    }
    table
}

fn sentences(advice: &Advice) -> Vec<String> {
    let mut out = vec![
        format!("wanted: {}, for the least money", advice.wanted.join(" and ")),
        format!("on: {}", advice.traces.join("; ")),
        format!(
            "looked at {} of {}, with the work of {} runs{}",
            count(advice.looked_at as u64),
            plural(advice.variants as u64, "variant"),
            thousandths(advice.runs_thousandths),
            if advice.settled { "" } else { "; the budget ended the search, --budget gives more" }
        ),
    ];
    let Some(best) = &advice.best else {
        out.push("no variant can be built for these traces".into());
        return out;
    };
    let head = if advice.meets { "best" } else { "nothing meets the bounds; nearest" };
    out.push(format!(
        "{head}: {}: p99 {}, lifetime {}, cost {}",
        best.shown,
        time(best.p99_ns),
        lifetime(best.lifetime_years_thousandths),
        thousandths(best.cost_thousandths)
    ));
    if !advice.tenants.is_empty() {
        let one = |t: &TenantLatency| format!("{} mean {}, p99 {}", t.name, time(t.mean_ns), time(t.p99_ns));
        let all: Vec<String> = advice.tenants.iter().map(one).collect();
        out.push(format!("its tenants: {}", all.join("; ")));
    }
    let path: Vec<String> = advice
        .slowest_hundredth_thousandths
        .iter()
        .take(4)
        .map(|(n, p)| format!("{n} {}", percent(*p)))
        .collect();
    out.push(format!("what binds: {}", advice.binds));
    out.push(format!("the slowest hundredth of the requests spends its time in {}", path.join(", ")));
    if let Some(next) = &advice.next {
        let show = |v: u64| figure(next.kind.unwrap_or(Kind::Count), Some(Figure::Value(v)));
        out.push(format!(
            "next parameter: {}: {} from {} to {}, cost from {} to {} (by a quarter of the requests)",
            next.settings,
            next.figure,
            show(next.from),
            show(next.to),
            thousandths(next.cost_from_thousandths),
            thousandths(next.cost_to_thousandths)
        ));
    } else {
        let larger = advice
            .larger
            .as_ref()
            .map_or(String::new(), |size| format!("; wear spreads over a larger drive: --capacity {size}"));
        out.push(format!("next parameter: none that was tried one step away brings more{larger}"));
    }
    for check in &advice.checks {
        let show = |v: u64| figure(check.kind.unwrap_or(Kind::Count), Some(Figure::Value(v)));
        let over = "over halves of the traces and another seed";
        let seen = match (check.least, check.most, check.unworn) {
            (Some(least), Some(most), 0) => format!("{} to {} {over}", show(least), show(most)),
            (Some(least), Some(most), n) => {
                format!("{} to {} {over}, and nothing was erased in {n} of them", show(least), show(most))
            }
            _ => format!("nothing was erased {over}, so no lifetime was seen"),
        };
        out.push(format!("{}: {seen}; holds in {} of {}", check.bound, check.held, check.of));
    }
    out.push(format!("how sure: {}", advice.confidence));
    out
}

/// The advice as text.
pub fn text(advice: &Advice) -> String {
    let mut out = format!("{}\n", table(advice));
    for line in sentences(advice) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// The advice as a page.
pub fn page(advice: &Advice) -> String {
    let cautions = advice.cautions().into_iter().map(|caution| caution.text);
    let said = sentences(advice).into_iter().chain(cautions);
    let items: String = said.map(|s| format!("<li>{}</li>\n", prose(&s))).collect();
    let heads = ["point", "cost", "p99", "lifetime", "state", "meets", "front", "settings"];
    let rows = advice.rows.iter().map(|row| {
        let cells = vec![
            row.point.to_string(),
            thousandths(row.cost_thousandths),
            time(row.p99_ns),
            lifetime(row.lifetime_years_thousandths),
            row.state.into(),
            if row.meets { "yes".into() } else { "no".into() },
            if row.front { "yes".into() } else { String::new() },
            row.shown.clone(),
        ];
        (advice.best.as_ref().is_some_and(|b| b.point == row.point), cells)
    });
    let table = crate::report::tables::table(&heads, &[4, 5, 6, 7], rows);
    let pictured = match advice.rows.len() {
        0 | 1 => String::new(),
        _ => format!(
            "<section>\n<h2>Front</h2>\n<p>Each dot is a variant that ran all requests; the line joins those that no other beats in cost, p99 and lifetime. \
             Pointing at a dot names it.</p>\n{}</section>\n",
            picture(advice)
        ),
    };
    let body = format!(
        "<h1>nandu advise</h1>\n<p class=\"lead\">{}</p>\n<ul>\n{items}</ul>\n{pictured}<section>\n<h2>Variants</h2>\n\
         <p>Those that ran all requests, the best first.</p>\n{table}</section>\n",
        escape(&advice.wanted.join(" and "))
    );
    page::frame("nandu advise", &body)
}

/// Latency over cost, of what costs up to half as much again as the best: a second drive is so dear that the rest would be one dot.
fn picture(advice: &Advice) -> String {
    let dearest = advice.best.as_ref().map_or(u64::MAX, |best| best.cost_thousandths / 2 * 3);
    let rows: Vec<&Row> = advice.rows.iter().filter(|row| row.cost_thousandths <= dearest).collect();
    let costs = || rows.iter().map(|row| row.cost_thousandths as f64);
    let (least, most) = (costs().fold(f64::MAX, f64::min), costs().fold(0.0, f64::max));
    let margin = (most - least).max(10.0) / 20.0;
    let scale = Scale::Linear { lo: least - margin, hi: most + margin };
    let x = Axis::new(scale, "cost", |thousandths| format!("{:.2}", thousandths / 1000.0));
    let p99s: Vec<f64> = rows.iter().map(|row| row.p99_ns as f64).collect();
    let y = front::axis(&p99s, "p99", front::shown(Kind::Time), true);
    let best = advice.best.as_ref().map(|best| best.point);
    let dot = |row: &Row| front::Dot {
        place: (row.cost_thousandths as f64, row.p99_ns as f64),
        standing: match (best == Some(row.point), row.front, row.meets) {
            (true, _, true) => 3,
            (true, _, false) => 4,
            (_, true, true) => 2,
            (_, false, true) => 1,
            _ => 0,
        },
        on_front: row.front,
        title: format!(
            "{}: cost {}, p99 {}, lifetime {}",
            row.shown,
            thousandths(row.cost_thousandths),
            time(row.p99_ns),
            lifetime(row.lifetime_years_thousandths)
        ),
    };
    let note = match advice.rows.len() - rows.len() {
        0 => String::new(),
        n => {
            let what = plural(n as u64, "variant");
            format!("<p>{what} left out that cost more than half as much again as the best.</p>\n")
        }
    };
    front::dots(&x, &y, &rows.iter().map(|row| dot(row)).collect::<Vec<_>>(), true) + &note
}
