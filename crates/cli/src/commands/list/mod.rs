//! `nandu list`: what there is, read from the registries; [`options`] has the options of one device or policy, and any other name shows what its
//! list says of it.

mod explain;
mod options;

pub use explain::explain;

use crate::args::{ListArgs, Listed};
use crate::failure::Failure;
use crate::format::{bandwidth, count, size, time};
use crate::open::BUILTIN;
use crate::output;
use crate::registry;
use crate::source::plain;
use crate::table::Table;
use clap::ValueEnum;
use nandu_base::Policy;
use nandu_base::registry::nearest;
use nandu_device::hdd::HddProfile;
use nandu_device::nand::Profile;
use nandu_stack::Stack;
use nandu_trace::synth;
use serde_json::{Map, Value, json};

/// Every list in the order in which they are shown together. `traces` is generators and formats together.
const ALL: [Listed; 8] = [
    Listed::Devices,
    Listed::Policies,
    Listed::Profiles,
    Listed::Generators,
    Listed::Formats,
    Listed::Metrics,
    Listed::Bugs,
    Listed::Stacks,
];

/// Prints one list, or those for who describes stacks and loads: what can be injected is about the checks and not about either, and long. JSON has all.
pub fn list(args: &ListArgs) -> Result<(), Failure> {
    let wanted: Vec<Listed> = match args.what.as_deref().map(asked).transpose()? {
        None => ALL.into_iter().filter(|&list| args.json || list != Listed::Bugs).collect(),
        Some(Asked::List(Listed::Traces)) => vec![Listed::Generators, Listed::Formats],
        Some(Asked::List(one)) => vec![one],
        Some(Asked::Options(name)) => {
            return match args.json {
                true => output::print_json(&options::as_json(&name)),
                false => output::print(&options::as_text(&name)),
            };
        }
        Some(Asked::Entry(list, entry)) => {
            return match args.json {
                true => output::print_json(&entry),
                false => output::print(&one_entry(list, &entry)),
            };
        }
    };
    if args.json {
        let mut lists: Map<String, Value> = wanted.iter().map(|&w| (name(w).into(), as_json(w))).collect();
        lists.insert("schema".into(), nandu_sim::result::SCHEMA.into());
        return output::print_json(&lists);
    }
    let mut texts: Vec<String> = wanted.iter().map(|&w| as_text(w, wanted.len() > 1)).collect();
    if args.what.is_none() {
        texts.push(format!("{} bugs to inject: nandu list bugs\n", registry().plants().count()));
    }
    output::print(&texts.join("\n"))
}

/// What a name after `list` means.
enum Asked {
    List(Listed),
    /// The options of a device or policy.
    Options(String),
    /// An entry of another list.
    Entry(Listed, Value),
}

fn asked(word: &str) -> Result<Asked, Failure> {
    if let Ok(list) = Listed::from_str(word, true) {
        return Ok(Asked::List(list));
    }
    let names = options::names();
    if names.iter().any(|name| name == word) {
        return Ok(Asked::Options(word.into()));
    }
    let mut entries = Vec::new();
    for list in ALL {
        for entry in as_json(list).as_array().into_iter().flatten() {
            let own = entry["name"].as_str().unwrap_or_default();
            if own == word {
                return Ok(Asked::Entry(list, entry.clone()));
            }
            entries.push(own.to_string());
        }
    }
    let lists: Vec<String> = Listed::value_variants().iter().map(|&list| name(list).to_string()).collect();
    let near = nearest(word, names.iter().chain(&lists).chain(&entries).map(String::as_str));
    let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    Err(Failure::input(format!("nothing is called `{word}`{hint}"))
        .with_help(format!("lists: {}", lists.join(", ")))
        .with_help("any name that stands in one of them, too"))
}

/// What a list says of one of its entries.
fn one_entry(list: Listed, entry: &Value) -> String {
    let own = entry["name"].as_str().unwrap_or_default();
    let kind = name(list);
    let heads = [format!("<{}", kind.strip_suffix('s').unwrap_or(kind)), format!("<{own}")];
    let mut table = Table::new(heads.iter().map(String::as_str));
    let left_out = ["name", "schema"];
    for (key, value) in
        entry.as_object().into_iter().flatten().filter(|(key, _)| !left_out.contains(&key.as_str()))
    {
        match value.as_object() {
            Some(parts) => parts.iter().for_each(|(part, value)| {
                table.row([format!("{key}.{part}"), plain(value)]);
            }),
            None => {
                table.row([key.replace('_', " "), plain(value)]);
            }
        }
    }
    match list {
        Listed::Stacks => format!("{table}\nnandu check {own} draws it, with --print its text\n"),
        _ => table.to_string(),
    }
}

fn name(what: Listed) -> &'static str {
    match what {
        Listed::Devices => "devices",
        Listed::Policies => "policies",
        Listed::Profiles => "profiles",
        Listed::Traces => "traces",
        Listed::Generators => "generators",
        Listed::Formats => "formats",
        Listed::Bugs => "bugs",
        Listed::Metrics => "metrics",
        Listed::Stacks => "stacks",
    }
}

fn as_text(what: Listed, heading: bool) -> String {
    let table = match what {
        Listed::Devices => devices(),
        Listed::Policies => policies(),
        Listed::Profiles => {
            return with_heading(what, heading, &format!("{}\n{}", profiles(), disk_profiles()));
        }
        Listed::Generators | Listed::Traces => return with_heading(what, heading, &generators()),
        Listed::Formats => formats(),
        Listed::Bugs => bugs(),
        Listed::Metrics => return with_heading(what, heading, &metrics()),
        Listed::Stacks => stacks(),
    };
    with_heading(what, heading, &table.to_string())
}

fn with_heading(what: Listed, heading: bool, text: &str) -> String {
    if heading { format!("{}\n\n{text}", name(what).to_uppercase()) } else { text.into() }
}

fn devices() -> Table {
    let mut table = Table::new(["<device", "<what it is"]);
    for kind in registry().kinds() {
        table.row([kind.name.into(), kind.summary.into()]);
    }
    table
}

/// What the options of devices choose among.
fn listed_policies() -> impl Iterator<Item = &'static Policy> {
    let listed_apart = [nandu_trace::formats::FAMILY, synth::FAMILY];
    registry().all_policies().iter().filter(move |policy| !listed_apart.contains(&policy.family))
}

fn policies() -> Table {
    let mut table = Table::new(["<choice", "<policy", "<what it is", "<source"]);
    for policy in listed_policies() {
        table.row([policy.family, policy.name, policy.summary, policy.source].map(String::from));
    }
    table
}

fn profiles() -> Table {
    let mut table = Table::new([
        "<profile",
        "<cell",
        "page",
        "pages/block",
        "read",
        "program",
        "erase",
        "channel",
        "endurance",
    ]);
    for p in Profile::all() {
        table.row([
            p.name.clone(),
            p.cell.clone(),
            size(p.page.0),
            p.pages_per_block.to_string(),
            time(p.read.0),
            time(p.program.0),
            time(p.erase.0),
            bandwidth(p.channel_bytes_per_second),
            format!("{} P/E", count(u64::from(p.endurance))),
        ]);
    }
    table
}

fn disk_profiles() -> Table {
    let mut table =
        Table::new(["<disk", "capacity", "rpm", "heads", "outer", "inner", "write cache", "queue"]);
    for p in HddProfile::all() {
        table.row([
            p.name.clone(),
            size(p.capacity.0),
            p.rpm.to_string(),
            p.heads.to_string(),
            bandwidth(p.outer_bytes_per_second),
            bandwidth(p.inner_bytes_per_second),
            size(p.write_cache.0),
            p.queue_depth.to_string(),
        ]);
    }
    table
}

/// Each generator with its parameters and their defaults.
fn generators() -> String {
    let mut table = Table::new(["<generator", "<what it is"]);
    for synth in synth::of(registry()) {
        table.row([synth.name.into(), synth.summary.into()]);
    }
    let mut text = table.to_string();
    text.push_str("\nparameters, set by --gen KEY=VALUE:\n");
    for synth in synth::of(registry()) {
        let schema = synth.schema().to_value();
        let pairs: Vec<String> = synth
            .defaults()
            .iter()
            .map(|(key, value)| {
                let text = options::readable(&plain(value), &schema["properties"][key]);
                format!("{key}={}", text.replace(' ', ""))
            })
            .collect();
        text.push_str(&format!("  {}: {}\n", synth.name, pairs.join(", ")));
    }
    text
}

fn formats() -> Table {
    let mut table = Table::new(["<format", "<written", "<tried on", "<what it is"]);
    for format in nandu_trace::formats::of(registry()) {
        table.row([
            format.name.into(),
            if format.is_writable() { "yes".into() } else { "no".into() },
            format.tried.name().into(),
            format.summary.into(),
        ]);
    }
    table
}

fn bugs() -> Table {
    let mut table = Table::new(["<bug", "<breaks", "<what the device then does wrong"]);
    for plant in registry().plants() {
        table.row([plant.name.into(), plant.breaks.into(), plant.summary.into()]);
    }
    table
}

fn metrics() -> String {
    let mut table = Table::new(["<metric", "<unit", "<what it is"]);
    for (name, kind, summary) in nandu_sweep::metric::plain_names() {
        table.row([name, kind.unit_of_decimals().into(), summary.into()]);
    }
    format!(
        "{table}\nof one device: DEVICE.energy, DEVICE.lifetime, DEVICE.erases_per_block, DEVICE.mean, DEVICE.requests,\n\
         and whatever the device counts, for example disk.spin_ups; of one tenant among several: tenant.NAME.p99 and the other latencies\n"
    )
}

fn stacks() -> Table {
    let mut table = Table::new(["<stack", "<what it is"]);
    for (name, text) in BUILTIN {
        table.row([(*name).into(), description(text)]);
    }
    table
}

fn description(text: &str) -> String {
    Stack::parse(text).ok().and_then(|s| s.description).unwrap_or_default()
}

fn as_json(what: Listed) -> Value {
    match what {
        Listed::Devices => registry()
            .kinds()
            .iter()
            .map(|k| json!({ "name": k.name, "summary": k.summary, "bugs": k.plants.iter().map(|p| p.name).collect::<Vec<_>>() }))
            .collect(),
        Listed::Policies => listed_policies()
            .map(|p| json!({ "choice": p.family, "name": p.name, "summary": p.summary, "source": p.source }))
            .collect(),
        Listed::Profiles => Profile::all()
            .iter()
            .map(|p| {
                json!({
                    "name": p.name, "cell": p.cell, "page_bytes": p.page.0, "pages_per_block": p.pages_per_block,
                    "read_ns": p.read.0, "program_ns": p.program.0, "erase_ns": p.erase.0,
                    "channel_bytes_per_second": p.channel_bytes_per_second, "endurance_cycles": p.endurance,
                    "source": p.source,
                })
            })
            .chain(HddProfile::all().iter().map(|p| {
                json!({
                    "name": p.name, "capacity_bytes": p.capacity.0, "rpm": p.rpm, "heads": p.heads,
                    "outer_bytes_per_second": p.outer_bytes_per_second,
                    "inner_bytes_per_second": p.inner_bytes_per_second,
                    "write_cache_bytes": p.write_cache.0, "queue_depth": p.queue_depth, "source": p.source,
                })
            }))
            .collect(),
        Listed::Generators | Listed::Traces => synth::of(registry())
            .map(|s| {
                json!({
                    "name": s.name, "summary": s.summary, "published": s.published,
                    "parameters": s.defaults(), "schema": s.schema(),
                })
            })
            .collect(),
        Listed::Formats => nandu_trace::formats::of(registry())
            .iter()
            .map(|f| json!({ "name": f.name, "summary": f.summary, "example": f.example, "writable": f.is_writable(), "tried_on": f.tried.name() }))
            .collect(),
        Listed::Bugs => registry()
            .plants()
            .map(|p| json!({ "name": p.name, "breaks": p.breaks, "summary": p.summary }))
            .collect(),
        Listed::Metrics => nandu_sweep::metric::plain_names()
            .into_iter()
            .map(|(name, kind, summary)| json!({ "name": name, "unit": kind.unit_of_decimals(), "summary": summary }))
            .collect(),
        Listed::Stacks => {
            BUILTIN.iter().map(|(name, text)| json!({ "name": name, "description": description(text) })).collect()
        }
    }
}
