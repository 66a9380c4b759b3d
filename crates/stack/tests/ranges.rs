//! Every option that is a number says what it may be, and is held to it: of machines, of the tables in them, and of policies.

use nandu_base::Kind;
use nandu_base::options::Described;
use nandu_stack::builtin;
use serde_json::{Value as Json, json};
use toml::{Table, Value};

/// Numbers without a range, and what bounds them instead.
const ANY: &[(&str, &str)] = &[
    ("memory: size", "a whole number of sectors, which `build` says"),
    ("file: size", "the size of the file, which the server looks at"),
    ("slice: size", "what the device below has, which `build` says"),
    ("flash: capacity", "bounded as the blocks that it comes to"),
    ("flash: areas.capacity", "bounded as the blocks that it comes to"),
    ("ssd: blocks_per_plane", "bounded by what collection and the map need, and by page numbers"),
    ("ssd: capacity", "bounded as the blocks that it comes to"),
    ("ssd: wear.static_wl_threshold", "0 is never, and any spread may be borne"),
    ("ssd: wear.endurance", "0 is any number"),
    ("ssd: wear.serial", "a name"),
    ("ssd: write_buffer.size", "0 is none, and one page is least, which the profile has"),
    ("ssd: write_buffer.dirty_expire", "at once, or as late as may be"),
    ("ssd: slc_cache.static", "0 is none, and the most is what is spare"),
    ("ssd: mapping.cmt_size", "each map has its own least, by the drive's pages"),
    ("ssd: mapping.log_blocks", "bounded by the blocks that are spare"),
    ("ssd: mapping.replacement_blocks", "bounded by the blocks that are spare"),
    ("hdd: max_wait", "at once, or as late as may be"),
    ("fault: freeze.at", "any moment"),
    ("fault: loss.at", "any moment"),
    ("cache: write.bypass", "any length of a request"),
    ("hetero-mirror: resume_below", "any number of bytes"),
    ("parity: level", "one of the levels, which `build` names"),
    ("hybrid: read_bypass", "any length of a request"),
    ("hybrid: write_bypass", "any length of a request"),
    ("hybrid: sequential_cutoff", "any length of a stream"),
    ("queue: order.max_read_bypass", "0 is none, and the most is no bound"),
    ("queue: burst", "any time"),
    ("queue: scheduler.read_expire", "any time"),
    ("queue: scheduler.write_expire", "any time"),
    ("queue: scheduler.writes_starved", "any number"),
    ("queue: scheduler.antic_expire", "any time"),
    ("queue: scheduler.read_batch", "any time"),
    ("queue: scheduler.write_batch", "any time"),
    ("queue: scheduler.close_distance", "any distance"),
    ("queue: scheduler.slice_idle", "any time"),
    ("queue: scheduler.anticipation", "any time"),
    ("queue: scheduler.throttle", "any time"),
];

/// Options with a name each, and how a table of them becomes one of a machine.
struct Options<'a> {
    kind: &'a Kind,
    /// Where they stand in the machine's table, with a dot at its end.
    place: String,
    schema: Json,
    defs: Json,
    declared: Vec<Described>,
    within: Box<dyn Fn(Table) -> Table + 'a>,
}

/// What lies next to a range.
struct Beside {
    machine: Kind,
    table: Table,
    key: String,
    value: String,
    range: String,
}

#[derive(Default)]
struct Found {
    beside: Vec<Beside>,
    /// Numbers that say nothing of what they may be.
    boundless: Vec<String>,
}

/// The schema that this one refers to, wants one of or has a list of.
fn resolved<'a>(schema: &'a Json, defs: &'a Json) -> &'a Json {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return resolved(&defs[name], defs);
    }
    let either = schema["anyOf"].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"));
    either.map_or(schema, |one| resolved(one, defs))
}

fn is_number(schema: &Json, defs: &Json) -> bool {
    let text = schema.to_string();
    let is_quantity =
        ["Size", "Time", "Share"].iter().any(|name| text.contains(&format!("#/$defs/{name}\"")));
    let own = resolved(schema, defs);
    let own = if own["type"] == "array" { resolved(&own["items"], defs) } else { own };
    let is = |what: &str| {
        own["type"] == what || own["type"].as_array().is_some_and(|all| all.contains(&what.into()))
    };
    is_quantity || is("integer") || is("number")
}

/// A value that suits the option.
fn value(schema: &Json) -> Value {
    match (schema["$ref"].as_str(), schema["type"].as_str()) {
        (Some("#/$defs/Time"), _) => "1 ms".into(),
        (Some("#/$defs/Share"), _) => "1/2".into(),
        (Some(_), _) => "1 MiB".into(),
        (_, Some("array")) => vec!["a", "b", "c"].into(),
        (_, Some("integer")) => 4.into(),
        _ => "a".into(),
    }
}

impl Options<'_> {
    fn look(&self, found: &mut Found) {
        match self.schema["oneOf"].as_array() {
            None => self.look_at(&self.schema, found),
            Some(all) => all.iter().for_each(|one| self.look_at(one, found)),
        }
    }

    /// Looks at a table, or at one of those that `kind` tells apart.
    fn look_at(&self, schema: &Json, found: &mut Found) {
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let word = properties.get("kind").and_then(|kind| kind["const"].as_str());
        let mut least = Table::new();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            least.insert(name.into(), value(&properties[name]));
        }
        least.extend(word.map(|word| ("kind".to_string(), word.into())));
        let ours = |option: &&Described| option.kind.is_empty() || Some(option.kind) == word;
        for option in self.declared.iter().filter(ours) {
            let key = format!("{}{}", self.place, option.name);
            // What is a table of a policy is not described here.
            let Some(property) = properties.get(option.name) else { continue };
            let with = |value: Value| {
                let mut table = least.clone();
                table.insert(option.name.into(), value);
                table
            };
            let says_nothing = option.range.is_empty() && option.also.is_empty();
            if says_nothing && option.inner.is_none() && is_number(property, &self.defs) {
                found.boundless.push(format!("{}: {key}", self.kind.name));
            }
            for refused in &option.refused {
                let parsed: Table = format!("value = {refused}").parse().expect("it is TOML");
                found.beside.push(Beside {
                    machine: self.kind.clone(),
                    table: (self.within)(with(parsed["value"].clone())),
                    key: key.clone(),
                    value: refused.clone(),
                    range: option.range.clone(),
                });
            }
            let Some(inner) = option.inner else { continue };
            let own = resolved(property, &self.defs);
            let is_list = own["type"] == "array";
            let own = if is_list { resolved(&own["items"], &self.defs) } else { own };
            let table = Options {
                kind: self.kind,
                place: format!("{key}."),
                schema: own.clone(),
                defs: self.defs.clone(),
                declared: inner(),
                within: Box::new(|table| {
                    let table = Value::from(table);
                    (self.within)(with(if is_list { vec![table].into() } else { table }))
                }),
            };
            table.look(found);
        }
    }
}

/// A machine, an option of it, and how a policy becomes the value of the outermost table.
type Place = (&'static str, &'static str, fn(Value) -> Value);

/// The machine whose option chooses among the policies of a family.
fn place_of(family: &str) -> Option<Place> {
    let itself = |policy| policy;
    Some(match family {
        "replacement" => ("cache", "replacement", itself),
        "prefetcher" => ("cache", "prefetch", itself),
        "destage" => ("cache", "write.destage", |policy| {
            Table::from_iter([("kind".into(), "writeback".into()), ("destage".into(), policy)]).into()
        }),
        "mapping" => ("ssd", "mapping", itself),
        "victim" => ("ssd", "gc", itself),
        "levelling" => ("ssd", "wear", itself),
        "isolation" => ("ssd", "isolation", itself),
        "scheduler" => ("queue", "scheduler", itself),
        "promotion" => ("hybrid", "promote", itself),
        "demotion" => ("hybrid", "rewrite", itself),
        _ => return None,
    })
}

/// All that is declared of machines and policies.
fn look() -> Found {
    let registry = builtin();
    let mut found = Found::default();
    for kind in registry.kinds() {
        let schema = (kind.schema)().to_value();
        let declared = (kind.declared)();
        let defs = schema["$defs"].clone();
        let within = Box::new(|table| table);
        Options { kind, place: String::new(), schema, defs, declared, within }.look(&mut found);
    }
    for policy in registry.all_policies() {
        let declared = (policy.declared)();
        let Some((machine, option, around)) = place_of(policy.family) else {
            assert!(declared.is_empty(), "no machine has an option for {policy:?}");
            continue;
        };
        let kind = registry.get(machine).expect("it is a machine");
        let mut schema = (policy.schema)().to_value();
        schema["properties"]["kind"] = json!({ "const": policy.name });
        let defs = schema["$defs"].clone();
        let mut machines = Options {
            kind,
            place: String::new(),
            schema: (kind.schema)().to_value(),
            defs: Json::Null,
            declared: Vec::new(),
            within: Box::new(|table| table),
        };
        let required = machines.schema["required"].take();
        let least: Table = required
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .map(|name| (name.to_string(), value(&machines.schema["properties"][name])))
            .collect();
        machines.within = Box::new(move |table| {
            let mut machine = least.clone();
            let outermost = option.split('.').next().unwrap_or(option);
            machine.insert(outermost.into(), around(table.into()));
            machine
        });
        let options = Options { place: format!("{option}."), schema, defs, declared, ..machines };
        options.look(&mut found);
    }
    found
}

#[test]
fn what_lies_next_to_a_range_is_refused_with_its_place_and_the_range() {
    let registry = builtin();
    let found = look().beside;
    for Beside { machine, table, key, value, range } in &found {
        let what = format!("{}: {key} = {value}", machine.name);
        let mut config = (machine.parse)(table.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let error = config.settle(&registry).and_then(|()| config.check_ranges()).expect_err(&what);
        assert_eq!(error.key.as_deref(), Some(key.as_str()), "{what}: {error}");
        let says = error.reason.split_once(" is out of bounds: ");
        assert!(
            says.is_some_and(|(given, right)| !given.is_empty() && right.ends_with(range)),
            "{what}: {error}"
        );
    }
    assert!(found.len() > 300, "only {} values were tried", found.len());
}

#[test]
fn a_number_says_what_it_may_be_or_why_it_may_be_anything() {
    let found = look().boundless;
    let known: Vec<&str> = ANY.iter().map(|&(option, _)| option).collect();
    let more: Vec<&String> = found.iter().filter(|option| !known.contains(&option.as_str())).collect();
    assert!(more.is_empty(), "declare a range, or a reason in `ANY`: {more:#?}");
    let gone: Vec<&&str> =
        known.iter().filter(|known| !found.iter().any(|option| option == *known)).collect();
    assert!(gone.is_empty(), "these have ranges now: {gone:?}");
}
