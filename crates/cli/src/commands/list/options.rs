//! `nandu list NAME`: the options of a machine or of a policy as a table, read from the schema of stack files.
//!
//! A row is an option with its type or values, its default, and what it is. Options of policies stand under the
//! option that takes them, as `mapping.cmt_size`, with the policies that have them.

use crate::registry;
use crate::table::Table;
use nandu_base::units::{parse_size, parse_span};
use nandu_base::{ByteLen, Span};
use serde_json::{Value, json};

/// One option.
pub struct Described {
    /// Its path below the device or policy.
    pub(super) key: String,
    /// The policy that has it; empty when it is the machine's own.
    pub(super) of: String,
    /// Its type, or the values it takes.
    pub(super) takes: String,
    /// Its default; empty when there is none.
    pub(super) default: String,
    /// What it is.
    pub(super) text: String,
}

/// Names of all machines and of all policies.
pub fn names() -> Vec<String> {
    let schema = nandu_stack::schema(registry());
    let mut out: Vec<String> = registry().kinds().iter().map(|kind| kind.name.to_string()).collect();
    let declared = registry().all_policies().iter().map(|policy| policy.name.to_string());
    for kind in declared.chain(policies(&schema).into_iter().map(|(_, kind, _)| kind)) {
        if !out.contains(&kind) {
            out.push(kind);
        }
    }
    out
}

/// The policies: the definition they belong to, their name, and their branch of the schema.
fn policies(schema: &Value) -> Vec<(String, String, &Value)> {
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let branches = definitions.flat_map(|(name, definition)| {
        let all = definition["oneOf"].as_array().into_iter().flatten();
        all.filter_map(move |branch| {
            let kind = branch["properties"]["kind"]["const"].as_str()?;
            Some((name.clone(), kind.to_string(), branch))
        })
    });
    branches.collect()
}

/// What a name is: its heading and its options; several where machines or options share a name.
pub fn of(name: &str) -> Vec<(String, Vec<Described>)> {
    let schema = nandu_stack::schema(registry());
    let mut out = Vec::new();
    let machines = schema["properties"]["device"]["additionalProperties"]["oneOf"].as_array();
    for branch in machines.into_iter().flatten() {
        if branch["properties"]["kind"]["const"] == name {
            let text = branch["description"].as_str().unwrap_or_default();
            out.push((format!("device {name}: {text}"), options(branch, &schema)));
        }
    }
    for policy in registry().all_policies().iter().filter(|policy| policy.name == name) {
        let own = (policy.schema)().to_value();
        let from = if policy.source.is_empty() { String::new() } else { format!(" ({})", policy.source) };
        out.push((
            format!("{} {name}: {}{from}", policy.family, first(policy.summary)),
            options(&own, &with(&schema, &own)),
        ));
    }
    for (definition, kind, branch) in policies(&schema) {
        // A policy of the registry was shown as it declares itself.
        if kind == name && !registry().all_policies().iter().any(|policy| policy.name == name) {
            let text = branch["description"].as_str().unwrap_or_default();
            let place = definition.split('.').next().unwrap_or(&definition);
            out.push((format!("{name}, a policy of {place}: {}", first(text)), options(branch, &schema)));
        }
    }
    out
}

/// `schema` with the definitions of `own` beside its own.
fn with(schema: &Value, own: &Value) -> Value {
    let mut whole = schema.clone();
    for (name, definition) in own["$defs"].as_object().into_iter().flatten() {
        whole["$defs"][name] = definition.clone();
    }
    whole
}

/// The options of one object of the schema, those of policies that it takes behind each.
fn options(branch: &Value, schema: &Value) -> Vec<Described> {
    let mut out = Vec::new();
    for (key, value) in branch["properties"].as_object().into_iter().flatten() {
        if key == "kind" && value.get("const").is_some() {
            continue;
        }
        out.push(option(key, "", value, schema));
        let Some(definition) = target(value, schema) else { continue };
        let branches = definition["oneOf"].as_array().cloned().unwrap_or_else(|| vec![definition.clone()]);
        for branch in branches {
            let of = branch["properties"]["kind"]["const"].as_str().unwrap_or_default().to_string();
            for (inner, value) in branch["properties"].as_object().into_iter().flatten() {
                let path = format!("{key}.{inner}");
                if value.get("const").is_some() {
                    continue;
                }
                let known = out.iter_mut().find(|o: &&mut Described| o.key == path);
                match known {
                    Some(known) => known.of = format!("{}, {of}", known.of),
                    None => out.push(option(&path, &of, value, schema)),
                }
            }
        }
    }
    out
}

/// The definition that a value refers to, if it does.
fn target<'a>(value: &Value, schema: &'a Value) -> Option<&'a Value> {
    let direct = value["$ref"].as_str();
    let either = value["anyOf"].as_array().and_then(|all| all.iter().find_map(|v| v["$ref"].as_str()));
    schema["$defs"].get(direct.or(either)?.strip_prefix("#/$defs/")?)
}

fn option(key: &str, of: &str, value: &Value, schema: &Value) -> Described {
    let of_type = || target(value, schema).and_then(|t| t["description"].as_str()).unwrap_or_default();
    let text = value["description"].as_str().unwrap_or_else(of_type);
    Described {
        key: key.into(),
        of: of.into(),
        takes: takes(value, schema),
        default: match &value["default"] {
            Value::Null => String::new(),
            Value::String(text) => readable(text, value),
            Value::Object(map) => map.get("kind").and_then(Value::as_str).unwrap_or("table").to_string(),
            other => readable(&other.to_string(), value),
        },
        text: text.replace('\n', " "),
    }
}

/// A default as one would type it; `value` is its schema, which says whether it is a size.
pub fn readable(default: &str, value: &Value) -> String {
    let is_size = |value: &Value| value["$ref"] == "#/$defs/Size";
    let is_size = is_size(value) || value["anyOf"].as_array().is_some_and(|all| all.iter().any(is_size));
    let short = match (default.parse::<u64>(), default.strip_suffix(" ns").map(str::parse::<u64>)) {
        (Ok(bytes), _) if is_size => {
            Some(ByteLen(bytes).to_string()).filter(|s| parse_size(s) == Ok(ByteLen(bytes)))
        }
        (_, Some(Ok(ns))) => Some(Span(ns).to_string()).filter(|s| parse_span(s) == Ok(Span(ns))),
        _ => None,
    };
    short.unwrap_or_else(|| default.to_string())
}

/// The type of a value, or the values it takes.
fn takes(value: &Value, schema: &Value) -> String {
    let named = |value: &Value| {
        let reference = value["$ref"].as_str().or_else(|| {
            value["anyOf"].as_array().and_then(|all| all.iter().find_map(|v| v["$ref"].as_str()))
        });
        reference.and_then(|r| r.rsplit('/').next().map(str::to_string))
    };
    if let Some(name) = named(value) {
        let branches = schema["$defs"][&name]["oneOf"].as_array().cloned().unwrap_or_default();
        let words = branches.iter().filter_map(|branch| {
            branch["const"].as_str().or_else(|| branch["properties"]["kind"]["const"].as_str())
        });
        let mut known: Vec<&str> = Vec::new();
        for word in words {
            // A policy without options stands there as a word and as a table.
            if !known.contains(&word) {
                known.push(word);
            }
        }
        return match (known.is_empty(), name.contains('.')) {
            (false, _) => known.join(" | "),
            (true, true) => "table".into(),
            (true, false) => name.to_lowercase(),
        };
    }
    if let Some(words) = value["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ");
    }
    let plain = match &value["type"] {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let words = all.iter().filter_map(Value::as_str).filter(|t| *t != "null");
            words.collect::<Vec<_>>().join(" or ")
        }
        _ => "value".into(),
    };
    match plain.as_str() {
        "integer" => "number".into(),
        "string" => "text".into(),
        "boolean" => "true | false".into(),
        "array" => "list".into(),
        "object" => "table".into(),
        _ => plain,
    }
}

/// The first sentence of a description, on one line.
fn first(text: &str) -> String {
    let line = text.replace('\n', " ");
    let end = line.find(". ").map_or(line.len(), |at| at);
    line[..end].trim_end_matches('.').to_string()
}

/// What a description says of the default and the range: `1; 1 to 64`.
fn said_of_default(text: &str) -> Option<&str> {
    let said = text[text.rfind("Default")? + "Default".len()..].trim_start_matches([':', ' ']);
    let end = said.find(". ").unwrap_or(said.len());
    Some(said[..end].trim_end_matches('.')).filter(|said| !said.is_empty())
}

/// A description without the sentence that says of the default what `said` says.
fn without_default(text: &str, said: Option<&str>) -> String {
    let begin = said.and_then(|_| text.rfind("Default")).unwrap_or(text.len());
    let behind = text[begin..].find(". ").map_or("", |at| &text[begin + at + 2..]);
    format!("{}{behind}", &text[..begin]).trim_end().to_string()
}

/// As text; of a machine, which has many options, the first sentence of each.
pub fn as_text(name: &str) -> String {
    let shown = |(heading, options): (String, Vec<Described>)| {
        if options.is_empty() {
            return format!("{heading}\n\nno options\n");
        }
        let is_machine = heading.starts_with("device ");
        let mut table = Table::new(["<option", "<takes", "<what it is"]);
        for o in options {
            let whole = o.text;
            let said = said_of_default(&whole);
            let mut text = if is_machine { first(&whole) } else { without_default(&whole, said) };
            let mut aside = Vec::new();
            match said {
                Some(said) => aside.push(format!("default {said}")),
                None => aside.extend((!o.default.is_empty()).then(|| format!("default {}", o.default))),
            }
            aside.extend((!o.of.is_empty()).then(|| format!("with {}", o.of)));
            if !aside.is_empty() {
                text = format!("{text} ({})", aside.join("; "));
            }
            table.row([o.key, o.takes, text]);
        }
        format!("{heading}\n\n{table}")
    };
    of(name).into_iter().map(shown).collect::<Vec<_>>().join("\n")
}

/// As JSON, with whole texts.
pub fn as_json(name: &str) -> Value {
    let shown = |(heading, options): (String, Vec<Described>)| {
        let options: Vec<Value> = options
            .into_iter()
            .map(|o| json!({ "option": o.key, "takes": o.takes, "default": o.default, "of": o.of, "summary": o.text }))
            .collect();
        json!({ "heading": heading, "options": options })
    };
    of(name).into_iter().map(shown).collect()
}

/// The options of every kind of device, with the kind.
pub(super) fn of_devices() -> Vec<(&'static str, Described)> {
    let schema = nandu_stack::schema(registry());
    let machines = schema["properties"]["device"]["additionalProperties"]["oneOf"].as_array();
    let own = |kind: &'static str| {
        let branches = machines.into_iter().flatten();
        let branch = branches.clone().find(|branch| branch["properties"]["kind"]["const"] == kind);
        branch.map_or_else(Vec::new, |branch| options(branch, &schema))
    };
    let kinds = registry().kinds().iter().map(|kind| kind.name);
    kinds.flat_map(|kind| own(kind).into_iter().map(move |option| (kind, option))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_and_policy_has_its_table() {
        for name in names() {
            assert!(!of(&name).is_empty(), "{name}");
        }
        let ssd = as_text("ssd");
        for words in
            ["spare_factor", "mapping.cmt_size", "page | dftl", "number", "Channels (default 1; 1 to 64)"]
        {
            assert!(ssd.contains(words), "{words}: {ssd}");
        }
        let streams = as_text("hot-cold");
        assert!(streams.contains("a policy of ssd") && streams.contains("decay_interval"), "{streams}");
        let shared = as_text("shared-space");
        // Wherever its lines end.
        let words = shared.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with("isolation shared-space") && words.contains("(default 5 ms"), "{shared}");
        assert!(as_text("dftl").starts_with("mapping dftl: DFTL") && as_text("dftl").contains("cmt_size"));
        assert!(as_text("arc").starts_with("replacement arc: Two lists"));
        assert!(
            as_text("windowed").contains("window_blocks") && as_text("deadline").contains("write_expire")
        );
    }
}
