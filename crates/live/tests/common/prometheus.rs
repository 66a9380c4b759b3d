//! A reader of the text format of Prometheus (version 0.0.4) that says everything that is wrong with a page.

use std::collections::{BTreeMap, BTreeSet};

/// Labels with their values, in order.
type Labels = Vec<(String, String)>;

/// A sample.
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

fn is_name(text: &str, colons: bool) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || colons && c == ':';
    !text.is_empty() && text.chars().all(good) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Labels up to the closing brace, and what follows.
fn labels(text: &str) -> Result<(Labels, &str), String> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((out, rest));
        }
        let (key, behind) = rest.split_once("=\"").ok_or("a label without a quoted value")?;
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next().ok_or("a label without its end")? {
                (at, '"') => break at,
                (_, '\\') => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => value.push(c),
                    _ => return Err("a backslash before something else".into()),
                },
                (_, c) => value.push(c),
            }
        };
        out.push((key.to_string(), value));
        rest = &behind[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value: f64 = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().map_err(|_| format!("`{value}` is not a number"))?,
    };
    Ok(Sample { name: name.into(), labels, value })
}

/// The figure that a sample of one of these types belongs to.
fn figure<'a>(name: &'a str, kinds: &BTreeMap<String, String>) -> &'a str {
    for end in ["_bucket", "_sum", "_count"] {
        let Some(base) = name.strip_suffix(end) else { continue };
        let fits = match kinds.get(base).map(String::as_str) {
            Some("histogram") => true,
            Some("summary") => end != "_bucket",
            _ => false,
        };
        if fits {
            return base;
        }
    }
    name
}

/// Everything that is wrong.
pub fn flaws(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut helps, mut kinds) = (BTreeSet::new(), BTreeMap::new());
    let mut series = BTreeSet::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut under_way = String::new();
    // By figure and labels without `le`: the buckets in their order, and the count.
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    if !text.is_empty() && !text.ends_with('\n') {
        out.push("the last line does not end".into());
    }
    for (at, line) in (1..).zip(text.lines()) {
        let mut wrong = |what: String| out.push(format!("line {at}: {what}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            if help.is_empty() || !helps.insert(name.to_string()) {
                wrong("no help, or a second one".into());
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind) {
                wrong(format!("`{kind}` is not a type"));
            }
            if kinds.insert(name.to_string(), kind.to_string()).is_some() {
                wrong("a second type".into());
            }
            if !helps.contains(name) {
                wrong("a type without its help before it".into());
            }
            if (kind == "counter") != name.ends_with("_total") {
                wrong("a counter ends in _total, and nothing else does".into());
            }
            if ["gauge", "untyped"].contains(&kind)
                && ["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
            {
                wrong("its name is that of a part of a histogram".into());
            }
        } else if !line.starts_with('#') && !line.is_empty() {
            let found = match sample(line) {
                Ok(found) => found,
                Err(why) => {
                    wrong(why);
                    continue;
                }
            };
            let of = figure(&found.name, &kinds).to_string();
            if !is_name(&found.name, true) || found.labels.iter().any(|(key, _)| !is_name(key, false)) {
                wrong("a name with something else in it than letters, digits and _".into());
            }
            if !kinds.contains_key(&of) {
                wrong("no type stands before it".into());
            }
            if of != under_way {
                if closed.contains(&of) {
                    wrong("samples of a figure stand apart".into());
                }
                closed.insert(std::mem::replace(&mut under_way, of.clone()));
            }
            let mut keys: Vec<&String> = found.labels.iter().map(|(key, _)| key).collect();
            keys.sort();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                wrong("a label stands twice".into());
            }
            let mut sorted = found.labels.clone();
            sorted.sort();
            if !series.insert(format!("{}{sorted:?}", found.name)) {
                wrong("the same series a second time".into());
            }
            if found.value.is_nan() || found.value < 0.0 {
                wrong("nothing of ours is below zero, or no number".into());
            }
            let le = sorted.iter().position(|(key, _)| key == "le").map(|at| sorted.remove(at).1);
            let key = format!("{of}{sorted:?}");
            if kinds.get(&of).is_some_and(|kind| kind == "histogram") {
                match (found.name.ends_with("_bucket"), le.as_deref()) {
                    (true, Some("+Inf")) => {
                        buckets.entry(key).or_default().push((f64::INFINITY, found.value))
                    }
                    (true, Some(le)) => match le.parse() {
                        Ok(le) => buckets.entry(key).or_default().push((le, found.value)),
                        Err(_) => wrong("`le` is not a number".into()),
                    },
                    (true, None) => wrong("a bucket without `le`".into()),
                    (false, Some(_)) => wrong("`le` belongs to a bucket".into()),
                    (false, None) if found.name.ends_with("_count") => drop(counts.insert(key, found.value)),
                    (false, None) => {}
                }
            }
        }
    }
    for (key, buckets) in &buckets {
        if buckets.windows(2).any(|pair| pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1) {
            out.push(format!("{key}: buckets do not add up in their order"));
        }
        let last = buckets.last().copied().unwrap_or_default();
        if last.0 != f64::INFINITY || counts.get(key) != Some(&last.1) {
            out.push(format!("{key}: the last bucket is not +Inf with all that was counted"));
        }
    }
    for key in counts.keys().filter(|key| !buckets.contains_key(*key)) {
        out.push(format!("{key}: it has no buckets"));
    }
    for name in helps.iter().filter(|name| !kinds.contains_key(*name)) {
        out.push(format!("{name}: a help without a type"));
    }
    out
}
