//! `nandu explain KEY`: what an option of stack files is, in full: what it takes, its default, its unit and range, and which devices have it.
//!
//! KEY is the last word of an option (`spare_factor`), its path below a device (`gc.threshold`), or its path in a stack file
//! (`device.ssd.gc.threshold`). Devices that have the same option are told together. Cost: a look through the schema.

use super::options::{self, Described};
use crate::args::KeyArgs;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;
use nandu_base::registry::nearest;
use nandu_sim::result::SCHEMA;
use serde_json::{Value, json};

/// An option, and the kinds of devices that have it as it is.
struct Explained {
    option: Described,
    devices: Vec<&'static str>,
}

/// Prints what an option is.
pub fn explain(args: &KeyArgs) -> Result<(), Failure> {
    let found = find(&args.key)?;
    if args.json {
        let options: Vec<Value> = found.iter().map(as_json).collect();
        return output::print_json(&json!({ "schema": SCHEMA, "options": options }));
    }
    output::print(&found.iter().map(as_text).collect::<Vec<_>>().join("\n"))
}

/// The options that `key` names.
fn find(key: &str) -> Result<Vec<Explained>, Failure> {
    // `device.NAME.` says where in a file it stands.
    let asked = key.strip_prefix("device.").and_then(|rest| rest.split_once('.')).map_or(key, |(_, key)| key);
    let is_it =
        |path: &str| path == asked || path.strip_suffix(asked).is_some_and(|head| head.ends_with('.'));
    let mut known = Vec::new();
    let mut found: Vec<Explained> = Vec::new();
    for (device, option) in options::of_devices() {
        if !is_it(&option.key) {
            known.push(option.key);
            continue;
        }
        let same = |other: &Described| {
            (&other.key, &other.of, &other.takes) == (&option.key, &option.of, &option.takes)
                && (&other.default, &other.text) == (&option.default, &option.text)
        };
        match found.iter_mut().find(|known| same(&known.option)) {
            Some(known) => known.devices.push(device),
            None => found.push(Explained { option, devices: vec![device] }),
        }
    }
    if found.is_empty() {
        let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_string();
        let words: Vec<String> = known.iter().map(|path| last(path)).collect();
        let near = nearest(asked, known.iter().chain(&words).map(String::as_str));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(Failure::input(format!("no device has an option `{asked}`{hint}"))
            .with_help("`nandu list DEVICE` has all options of a device, `nandu list devices` the devices"));
    }
    Ok(found)
}

fn as_text(explained: &Explained) -> String {
    let Explained { option, devices } = explained;
    let mut table = Table::new(["<option", &format!("<{}", option.key)]);
    let default = if option.default.is_empty() { "none" } else { &option.default };
    let mut row = |what: &str, text: &str| table.row([what.to_string(), text.to_string()]);
    row("devices", &devices.join(", "));
    if !option.of.is_empty() {
        row("with", &option.of);
    }
    row("takes", &option.takes);
    row("default", default);
    row("what it is", &option.text);
    table.to_string()
}

fn as_json(explained: &Explained) -> Value {
    let Explained { option, devices } = explained;
    json!({
        "option": option.key, "devices": devices, "of": option.of, "takes": option.takes,
        "default": option.default, "summary": option.text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(key: &str) -> Vec<(String, Vec<&'static str>)> {
        let found = find(key).expect("an option");
        found.into_iter().map(|found| (found.option.key, found.devices)).collect()
    }

    #[test]
    fn an_option_is_found_by_its_word_and_by_its_paths() {
        let spare = [("spare_factor".to_string(), vec!["ssd"])];
        assert_eq!(devices("spare_factor"), spare);
        assert_eq!(devices("device.mine.spare_factor"), spare);
        let size = devices("cmt_size");
        assert_eq!((size.len(), &size[0].0[..]), (1, "mapping.cmt_size"));
        assert_eq!(devices("mapping.cmt_size"), size);
        let all: Vec<&str> = devices("chunk").into_iter().flat_map(|(_, devices)| devices).collect();
        assert!(all.contains(&"stripe") && all.contains(&"parity"), "{all:?}");
    }

    #[test]
    fn every_option_of_every_device_is_explained() {
        for (device, option) in options::of_devices() {
            let found = find(&option.key).expect("it is one");
            assert!(found.iter().any(|found| found.devices.contains(&device)), "{device} {}", option.key);
            assert!(found.iter().all(|found| as_text(found).contains("takes")));
        }
    }

    #[test]
    fn what_no_device_has_is_refused_with_the_nearest() {
        let refused = find("spare_faktor").err().expect("no such option").to_string();
        assert!(refused.contains("did you mean `spare_factor`?"), "{refused}");
        assert!(find("").is_err() && find(".").is_err() && find("device.ssd.").is_err());
    }
}
