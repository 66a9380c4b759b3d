//! `nandu diff`: two results as JSON, and what is different between them.
//!
//! Results of `run`, `compare`, `sweep` and `advise` are trees; leaves with the same path are held against each other. Members of a list are matched
//! by their name (`label`, `name`, `settings`, the steps of a sweep's point), not by their place. What a run did over time, and its
//! histogram, are left out. Figures come first that people ask for first; the others by how much they changed.

use super::give_json;
use crate::args::DiffArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::format::{bandwidth, count, energy, plural, short_hash, size, time, times, words};
use crate::output;
use crate::report::{page, svg::escape, tables};
use crate::table::Table;
use nandu_sim::result::SCHEMA;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Lists that are not compared.
const LEFT_OUT: [&str; 8] = [
    "intervals",
    "histogram",
    "over_time",
    "rounds",
    "slowest",
    "charges",
    "latency_breakdown_total_ns",
    "schema",
];
/// What members of a list are known by.
const NAMED_BY: [&str; 6] = ["label", "name", "settings", "state", "export", "bound"];
/// Ends of paths that come first, in this order.
const FIRST: [&str; 12] = [
    "state",
    "saturated",
    "total.lat_ns.mean",
    "total.lat_ns.p99",
    "total.lat_ns.p99.9",
    "read.lat_ns.p99",
    "write.lat_ns.p99",
    "total.iops",
    "total.bw_bytes",
    "waf",
    "first_block.years",
    "energy.total_nj",
];
/// Most rows that are shown without `--all`.
const ROWS: usize = 30;

/// A leaf.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
enum Leaf {
    Number(f64),
    /// A ratio, written with decimals.
    Ratio(f64),
    Word(String),
}

/// A leaf that both have, or one of them.
#[derive(Serialize)]
struct Change {
    figure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Leaf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Leaf>,
    /// After over before; absent where that says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// All that differs, as JSON.
#[derive(Serialize)]
struct Record<'a> {
    schema: u32,
    origins: &'a [Change],
    figures: &'a [Change],
    same: usize,
}

/// Compares two results.
pub fn diff(args: &DiffArgs, console: Console) -> Result<(), Failure> {
    let outputs: Vec<(&Path, Kind)> = args.out.files().collect();
    files::allow(&outputs, &[&args.before, &args.after], args.out.force)?;
    let ((before, from), (after, to)) = (leaves(&args.before)?, leaves(&args.after)?);
    if from != to {
        let message = format!(
            "{} is a result of `nandu {from}`, {} one of `nandu {to}`",
            args.before.display(),
            args.after.display()
        );
        return Err(Failure::input(message).with_help("give two results of one command"));
    }
    let (mut origins, mut figures) = (Vec::new(), Vec::new());
    let mut same = 0;
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (a, b) = (before.get(path), after.get(path));
        if a == b {
            same += 1;
            continue;
        }
        let ratio = match (a, b) {
            (Some(Leaf::Number(a) | Leaf::Ratio(a)), Some(Leaf::Number(b) | Leaf::Ratio(b))) if *a > 0.0 => {
                Some(b / a)
            }
            _ => None,
        };
        if ratio.is_some_and(|r| (r - 1.0).abs() * 100.0 < args.above) {
            same += 1;
            continue;
        }
        let change = Change { figure: path.clone(), before: a.cloned(), after: b.cloned(), ratio };
        let origin =
            ["provenance", "load", "version", "sweep"].iter().any(|at| path.split('.').any(|p| p == *at));
        if origin { origins.push(change) } else { figures.push(change) }
    }
    figures.sort_by(|a, b| rank(a).total_cmp(&rank(b)).then_with(|| a.figure.cmp(&b.figure)));
    let total = figures.len();
    let record = Record { schema: SCHEMA, origins: &origins, figures: &figures, same };
    give_json(&args.out, &record, console)?;
    if !args.all {
        let of_all: BTreeMap<String, _> =
            figures.iter().map(|c| (c.figure.clone(), (c.before.clone(), c.after.clone()))).collect();
        figures.retain(|change| {
            let all = without_tenant(&change.figure).and_then(|figure| of_all.get(&figure));
            all.is_none_or(|(before, after)| (before, after) != (&change.before, &change.after))
        });
        figures.truncate(ROWS);
    }
    if !args.out.json {
        output::print(&text(&origins, &figures, (total, same)))?;
    }
    if let Some(path) = &args.out.report {
        let page = page_of(args, &origins, &figures, (total, same));
        files::write_file(path, |out| {
            out.write_all(page.as_bytes()).map_err(|e| Failure::unwritable(path, &e))
        })?;
        console.note(format!("report written to {}", path.display()));
    }
    Ok(())
}

/// The figure of all requests that one of a tenant belongs to. Where there is one tenant, both are the same.
fn without_tenant(figure: &str) -> Option<String> {
    let (head, rest) = match figure.find(".tenants.") {
        Some(at) => (&figure[..=at], &figure[at + ".tenants.".len()..]),
        None => ("", figure.strip_prefix("tenants.")?),
    };
    rest.split_once('.').map(|(_, tail)| format!("{head}{tail}"))
}

/// Where a change stands in the table: those of [`FIRST`], then by how much it is.
fn rank(change: &Change) -> f64 {
    let ends = |end: &str| change.figure == end || change.figure.ends_with(&format!(".{end}"));
    if let Some(place) = FIRST.iter().position(|end| ends(end)) {
        return place as f64 - 1e9;
    }
    match change.ratio {
        Some(ratio) if ratio > 0.0 => -ratio.ln().abs(),
        _ => -1e6,
    }
}

/// The commands whose results are compared, by keys that only theirs have.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("run", &["provenance", "total"]),
    ("compare", &["baseline", "stacks"]),
    ("compare", &["races"]),
    ("sweep", &["sweep", "rows"]),
    ("advise", &["wanted", "rows"]),
];

/// The leaves of a result, and the command that wrote it.
fn leaves(path: &Path) -> Result<(BTreeMap<String, Leaf>, &'static str), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::unreadable(path, &e))?;
    let mut value: Value = serde_json::from_str(&text).map_err(|e| {
        Failure::input(format!("{}: not JSON: {e}", path.display())).with_help(
            "results are written by --json, for example `nandu run STACK --trace TRACE --json > a.json`",
        )
    })?;
    let schema = value.get("schema").and_then(Value::as_u64).unwrap_or(0);
    if schema != u64::from(SCHEMA) && value.get("schema").is_some() {
        let message =
            format!("{}: a result of schema {schema}; this version compares schema {SCHEMA}", path.display());
        return Err(Failure::input(message).with_help(
            "run it again with this version, or compare it with the version of Nandu that wrote it",
        ));
    }
    let is_of = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
    let Some((command, _)) = COMMANDS.iter().find(|(_, keys)| is_of(keys)) else {
        let message =
            format!("{}: JSON, but no result of `nandu run`, `compare`, `sweep` or `advise`", path.display());
        return Err(Failure::input(message).with_help(
            "results are written by --json, for example `nandu run STACK --trace TRACE --json > a.json`",
        ));
    };
    name_figures(&mut value);
    let mut out = BTreeMap::new();
    flatten(String::new(), &value, &mut out);
    Ok((out, *command))
}

/// Figures of a sweep's points stand in the order of its columns, and its best point is told by its place: another sweep has others. They get
/// their names, and the best point its steps.
fn name_figures(sweep: &mut Value) {
    let Some(columns) = sweep.get("columns").and_then(Value::as_array) else { return };
    let called = |column: &Value| {
        let of = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        let unit = match of("unit") {
            "ns" => "_ns",
            "nJ" => "_nj",
            "years" => "_years",
            "B" => "_bytes",
            _ => "",
        };
        format!("{}{unit}", of("name"))
    };
    let names: Vec<String> = columns.iter().map(called).collect();
    let best = sweep.get("best").and_then(Value::as_u64);
    let Some(rows) = sweep.get_mut("rows").and_then(Value::as_array_mut) else { return };
    let steps = best.and_then(|best| Some(Value::String(name(rows.get(best as usize)?))));
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::Array(figures)) = row.remove("figures") {
            row.extend(names.iter().cloned().zip(figures));
        }
        // What stands for the point within one sweep.
        ["point", "id"].iter().for_each(|key| drop(row.remove(*key)));
    }
    if let Some(sweep) = sweep.as_object_mut() {
        ["columns", "ties"].iter().for_each(|key| drop(sweep.remove(*key)));
        sweep.insert("best".into(), steps.unwrap_or(Value::Null));
    }
}

fn flatten(path: String, value: &Value, out: &mut BTreeMap<String, Leaf>) {
    let under = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
                match (key.as_str(), value) {
                    // As people call them: `99.900000` is p99.9.
                    ("percentile", Value::Object(percentiles)) => {
                        for (key, value) in percentiles {
                            let short = key.trim_end_matches('0').trim_end_matches('.');
                            flatten(under(&format!("p{short}")), value, out);
                        }
                    }
                    _ => flatten(under(key), value, out),
                }
            }
        }
        Value::Array(items) => {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for item in items {
                let name = name(item);
                let times = seen.entry(name.clone()).or_default();
                *times += 1;
                let name = if *times > 1 { format!("{name} #{times}") } else { name };
                flatten(under(&name), item, out);
            }
        }
        Value::Null => {}
        Value::Number(n) => {
            let figure = n.as_f64().unwrap_or(0.0);
            out.insert(path, if n.is_f64() { Leaf::Ratio(figure) } else { Leaf::Number(figure) });
        }
        Value::Bool(b) => {
            out.insert(path, Leaf::Word(if *b { "yes" } else { "no" }.into()));
        }
        Value::String(text) => {
            out.insert(path, Leaf::Word(text.clone()));
        }
    }
}

/// What a member of a list is called.
fn name(item: &Value) -> String {
    let of = |key: &str| item.get(key)?.as_str().map(str::to_string);
    let steps = || {
        let steps = item.get("steps")?.as_array()?;
        Some(steps.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
    };
    let named = steps().or_else(|| NAMED_BY.iter().find_map(|key| of(key)));
    named.map_or_else(|| "item".into(), |name| name.replace('.', "_"))
}

/// A leaf in the unit that the last word of its path names.
fn shown(path: &str, leaf: Option<&Leaf>) -> String {
    match leaf {
        None => "-".into(),
        Some(Leaf::Word(hash)) if path.ends_with("hash") => short_hash(hash).into(),
        Some(Leaf::Word(word)) => word.clone(),
        Some(Leaf::Ratio(n)) if path.ends_with("years") => format!("{n:.3} years"),
        Some(Leaf::Ratio(n)) => format!("{n:.3}"),
        Some(Leaf::Number(n)) => {
            let whole = n.round().max(0.0) as u64;
            let ends = |end: &str| path.ends_with(end);
            if n.fract() != 0.0 || *n < 0.0 {
                format!("{n}")
            } else if ends("_ns") || (path.contains("_ns.") && !ends(".N")) {
                time(whole)
            } else if ends("_nj") || path.contains("_nj.") {
                energy(whole)
            } else if ends("bw_bytes") {
                bandwidth(whole)
            } else if ends("bytes") || path.contains(".bytes.") {
                size(whole)
            } else {
                count(whole)
            }
        }
    }
}

fn factor(ratio: Option<f64>) -> String {
    match ratio {
        None => String::new(),
        Some(ratio) if (0.5..2.0).contains(&ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        Some(0.0) => "gone".into(),
        Some(ratio) if ratio < 1.0 => format!("{} less", times(1.0 / ratio)),
        Some(ratio) => format!("{} more", times(ratio)),
    }
}

fn cells(change: &Change) -> [String; 4] {
    let of = |leaf: &Option<Leaf>| shown(&change.figure, leaf.as_ref());
    let name = change.figure.trim_end_matches("_ns").trim_end_matches("_nj");
    // The figure says its unit; what is said of a latency is said of it without the word.
    let name = name.replace("lat_ns.", "").replace("_ns.", ".");
    [words(&name), of(&change.before), of(&change.after), factor(change.ratio)]
}

fn text(origins: &[Change], figures: &[Change], (total, same): (usize, usize)) -> String {
    let mut out = String::new();
    if !origins.is_empty() {
        let mut table = Table::new(["<where they come from", "<before", "<after"]);
        for change in origins {
            let [name, before, after, _] = cells(change);
            table.row([name, before, after]);
        }
        out += &format!("{table}\n");
    }
    if figures.is_empty() {
        return out + &format!("no figure differs; {} the same\n", plural(same as u64, "figure"));
    }
    let mut table = Table::new(["<figure", "before", "after", "change"]);
    figures.iter().for_each(|change| table.row(cells(change)));
    out += &table.to_string();
    let more = total - figures.len();
    if more > 0 {
        out += &format!("and {} more: --all\n", count(more as u64));
    }
    out + &format!("{} the same\n", plural(same as u64, "figure"))
}

fn page_of(args: &DiffArgs, origins: &[Change], figures: &[Change], (total, same): (usize, usize)) -> String {
    let title = format!("nandu diff {} {}", args.before.display(), args.after.display());
    let rows = |changes: &[Change], columns: usize| -> Vec<(bool, Vec<String>)> {
        changes.iter().map(|change| (false, cells(change)[..columns].to_vec())).collect()
    };
    let heads = ["figure", "before", "after", "change"];
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"lead\">{} differ, {} are the same</p>\n",
        escape(&title),
        plural(total as u64, "figure"),
        count(same as u64)
    );
    for (heading, changes, words, columns) in
        [("Where they come from", origins, &[0, 1, 2][..], 3), ("Figures", figures, &[0], 4)]
    {
        if !changes.is_empty() {
            let table = tables::table(&heads[..columns], words, rows(changes, columns));
            let more = if columns == 4 { total - figures.len() } else { 0 };
            let note = match more {
                0 => String::new(),
                more => format!("<p>{} more that differ: <code>--all</code></p>\n", count(more as u64)),
            };
            body += &format!("<section>\n<h2>{heading}</h2>\n{table}{note}</section>\n");
        }
    }
    page::frame(&title, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: Value) -> BTreeMap<String, Leaf> {
        let mut out = BTreeMap::new();
        flatten(String::new(), &value, &mut out);
        out
    }

    #[test]
    fn percentiles_are_called_as_people_call_them() {
        let keys = json!({ "percentile": { "50.000000": 1, "99.900000": 2 }, "N": 3 });
        let leaves = of(json!({ "total": { "lat_ns": keys } }));
        let names: Vec<&str> = leaves.keys().map(String::as_str).collect();
        assert_eq!(names, ["total.lat_ns.N", "total.lat_ns.p50", "total.lat_ns.p99.9"]);
    }

    #[test]
    fn members_of_lists_are_matched_by_name() {
        let a = of(
            json!({ "stacks": [{ "label": "x", "n": 1 }, { "label": "y", "n": 2 }], "intervals": [1, 2] }),
        );
        let b = of(json!({ "stacks": [{ "label": "y", "n": 2 }, { "label": "x", "n": 1 }] }));
        assert!(a == b && a.len() == 4);
    }

    #[test]
    fn points_of_sweeps_are_matched_by_steps_and_figures_by_their_columns() {
        let sweep = |columns: [(&str, &str); 2], rows: [(&str, [f64; 2]); 2]| {
            let columns = columns.map(|(name, unit)| json!({ "name": name, "unit": unit }));
            let rows = rows.map(|(step, figures)| {
                json!({ "point": 7, "id": step, "steps": ["0.1", step], "figures": figures, "state": "steady" })
            });
            let mut value = json!({ "columns": columns, "rows": rows, "best": 1, "ties": [1] });
            name_figures(&mut value);
            of(value)
        };
        let a = sweep([("p99", "ns"), ("waf", "1")], [("p", [5.0, 1.2]), ("q", [7.0, 1.3])]);
        let b = sweep([("waf", "1"), ("p99", "ns")], [("q", [1.3, 7.0]), ("r", [1.4, 9.0])]);
        assert_eq!(a.get("rows.0_1 q.p99_ns"), Some(&Leaf::Ratio(7.0)));
        assert_eq!(a.get("rows.0_1 q.p99_ns"), b.get("rows.0_1 q.p99_ns"));
        assert_eq!(a.get("rows.0_1 q.waf"), b.get("rows.0_1 q.waf"));
        assert_eq!(a.get("rows.0_1 q.waf"), Some(&Leaf::Ratio(1.3)));
        assert_eq!(
            (a.get("best"), b.get("best")),
            (Some(&Leaf::Word("0_1 q".into())), Some(&Leaf::Word("0_1 r".into())))
        );
        assert!(
            !a.contains_key("rows.0_1 r.p99_ns") && a.keys().all(|key| !key.contains("figures")),
            "{:?}",
            a.keys()
        );
    }

    #[test]
    fn figures_have_units_and_the_asked_for_ones_come_first() {
        assert_eq!(shown("total.lat_ns.p99", Some(&Leaf::Number(1_500_000.0))), "1.50 ms");
        assert_eq!(shown("waf", Some(&Leaf::Ratio(1.043))), "1.043");
        assert_eq!(shown("total.lat_ns.N", Some(&Leaf::Number(7.0))), "7");
        assert_eq!(shown("lifetime.first_block.years", Some(&Leaf::Ratio(2.5))), "2.500 years");
        assert_eq!(shown("x.bytes", Some(&Leaf::Number(4096.0))), "4 KiB");
        assert_eq!(
            [factor(Some(1.25)), factor(Some(3.0)), factor(Some(0.25)), factor(None)],
            ["+25.0 %", "3.0x more", "4.0x less", ""]
        );
        let change = |figure: &str, ratio| Change {
            figure: figure.into(),
            before: None,
            after: None,
            ratio: Some(ratio),
        };
        assert!(rank(&change("total.lat_ns.p99", 1.01)) < rank(&change("layers.ssd.counters.x", 50.0)));
        assert!(rank(&change("a", 0.1)) < rank(&change("b", 2.0)));
        let named = |figure: &str| cells(&change(figure, 2.0))[0].clone();
        assert_eq!(
            [named("total.lat_ns.p99.9"), named("read.latency_breakdown_ns.gc"), named("duration_ns")],
            ["total.p99.9", "read.latency breakdown.gc", "duration"]
        );
        assert_eq!(
            [
                without_tenant("tenants.data.total.lat_ns.mean"),
                without_tenant("stacks.x.tenants.a.iops"),
                without_tenant("iops")
            ],
            [Some("total.lat_ns.mean".into()), Some("stacks.x.iops".into()), None]
        );
    }
}
