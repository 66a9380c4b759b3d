//! Pages of `docs/reference` that are made from the registry and the parser: devices with their options, policies, commands, metrics, loads, chips
//! and disks, injected bugs.
//!
//! What the registry has comes from `nandu list --json` and `nandu list NAME --json`; the texts of commands are the files that the tests of the
//! command line hold against its parser. `cargo xtask docs --update` writes the pages, every test run compares them.

use crate::files::{self, shown};
use crate::json::{Json, parse};
use crate::steps::{End, released, root};
use std::path::PathBuf;
use std::process::Command;

/// Where the pages lie.
const FOLDER: &str = "docs/reference";

/// Where the tests of the command line keep its help.
const HELP: &str = "crates/cli/tests/help";

/// Whether the pages are what they would be now.
pub fn check() -> End {
    let differs = pages().map(|pages| {
        let old = |(path, text): &(PathBuf, String)| files::read(path).is_ok_and(|old| old == *text);
        let stale: Vec<String> =
            pages.iter().filter(|page| !old(page)).map(|(path, _)| shown(path)).collect();
        stale
    });
    match differs {
        Ok(stale) if stale.is_empty() => End::Passed,
        Ok(stale) => End::Failed(format!("`cargo xtask docs --update` would change {}", stale.join(", "))),
        Err(why) => End::Failed(why),
    }
}

/// Writes the pages that differ.
pub fn update() -> End {
    let written = pages().and_then(|pages| {
        for (path, text) in pages {
            if files::read(&path).is_ok_and(|old| old == text) {
                continue;
            }
            files::write(&path, &text)?;
            println!("{}: made anew", shown(&path));
        }
        Ok(())
    });
    written.into()
}

fn pages() -> Result<Vec<(PathBuf, String)>, String> {
    let lists = list(None)?;
    let pages = [
        ("devices", devices(&lists)?),
        ("policies", policies(&lists)?),
        ("commands", commands()?),
        ("metrics", metrics(&lists)),
        ("loads", loads(&lists)),
        ("profiles", profiles(&lists)),
        ("injected-bugs", bugs(&lists)),
    ];
    let path = |name| root().join(FOLDER).join(format!("{name}.md"));
    Ok(pages.into_iter().map(|(name, text)| (path(name), text)).collect())
}

/// What `nandu list` says, of everything or of one name.
fn list(name: Option<&str>) -> Result<Json, String> {
    let mut nandu = Command::new(released().join("nandu"));
    nandu.arg("list").args(name).arg("--json").current_dir(root());
    let output = nandu.output().map_err(|e| format!("nandu: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// The head of a page: title, what it is, where it comes from.
fn head(title: &str, text: &str) -> String {
    format!("# {title}\n\n{text}\n\nMade by `cargo xtask docs --update`, not by hand.\n\n")
}

/// A row of a table.
fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let cells: Vec<String> =
        cells.into_iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn table(columns: &[&str]) -> String {
    row(columns.iter().copied()) + &row(columns.iter().map(|_| "---"))
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn devices(lists: &Json) -> Result<String, String> {
    let mut text = head(
        "Devices and their options",
        "Each table `[device.NAME]` of a stack file has a `kind` from this page, and its options. *For* names the policies that have an option; one with a dot stands in \
         the table of that name, as in `mapping = { kind = \"dftl\", cmt_size = \"64 KiB\" }`. Sizes, times and shares are written with their unit: `\"4 KiB\"`, `\"25 us\"`, `\"7 %\"`. \
         `nandu list KIND` prints a table, `nandu explain KEY` all of one option, `nandu schema` all of it for editors. Policies with options of their own are on [their page](policies.md).",
    );
    for device in lists.get("devices").list() {
        let name = device.get("name").text();
        text += &format!("## {name}\n\n{}.\n\n", upper(device.get("summary").text()));
        text += &options(&list(Some(name))?, &format!("device {name}:"))?;
        let bugs: Vec<String> = device.get("bugs").list().iter().map(|plant| code(plant.text())).collect();
        if !bugs.is_empty() {
            text += &format!("[Bugs](injected-bugs.md) that `verify` can inject: {}.\n\n", bugs.join(", "));
        }
    }
    Ok(closed(text))
}

fn policies(lists: &Json) -> Result<String, String> {
    let mut text = head(
        "Policies",
        "What options of devices choose among, with the source of each. A policy is named by its name alone, or by a table with a `kind` and its options. \
         [A policy of your own](../tutorial/own-policy.md) stands here in the same way.",
    );
    let mut family = "";
    for policy in lists.get("policies").list() {
        let (choice, name) = (policy.get("choice").text(), policy.get("name").text());
        if choice != family {
            family = choice;
            text += &format!("## {}\n\n", upper(choice));
        }
        text += &format!("### {name}\n\n{}", policy.get("summary").text());
        let source = policy.get("source").text();
        text += &if source.is_empty() { "\n\n".into() } else { format!(" Source: {source}.\n\n") };
        text += &options(&list(Some(name))?, &format!("{choice} {name}:"))?;
    }
    Ok(closed(text))
}

/// The options below the heading that begins with `heading`; nothing where there are none.
fn options(described: &Json, heading: &str) -> Result<String, String> {
    let own = described.list().iter().find(|d| d.get("heading").text().starts_with(heading));
    let options =
        own.ok_or_else(|| format!("`nandu list` has nothing for `{heading}`"))?.get("options").list();
    if options.is_empty() {
        return Ok(String::new());
    }
    let of_some = options.iter().any(|o| !o.get("of").text().is_empty());
    let columns = ["option", "takes", "default", "for", "what it is"];
    let mut text = table(&columns.iter().copied().filter(|c| of_some || *c != "for").collect::<Vec<_>>());
    for option in options {
        let key = code(option.get("option").text());
        let (default, of) = (code(&typed(option)), option.get("of").text());
        let cells = [&key, option.get("takes").text(), &default, of, option.get("summary").text()];
        text +=
            &row(cells.into_iter().enumerate().filter(|(at, _)| of_some || *at != 3).map(|(_, cell)| cell));
    }
    Ok(text + "\n")
}

/// The default of an option as one types it.
fn typed(option: &Json) -> String {
    let default = option.get("default").text();
    match default.parse() {
        Ok(bytes) if option.get("takes").text() == "size" => size(bytes),
        _ => time(default),
    }
}

/// Every command with its help, `nandu` first.
fn commands() -> Result<String, String> {
    let mut text = head(
        "Commands",
        "What `nandu COMMAND --help` prints. Data goes to standard output, everything else to standard error. [Errors](errors.md) has the exit codes.",
    );
    let mut helps = files::list(&root().join(HELP));
    helps.sort_by_key(|path| !path.ends_with("nandu.txt"));
    for path in helps {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace('-', " ");
        let name = if stem == "nandu" { stem } else { format!("nandu {stem}") };
        let help = files::read(&path)?;
        text += &format!("## {name}\n\n```text\n{}\n```\n\n", help.trim_end());
    }
    Ok(closed(text))
}

fn metrics(lists: &Json) -> String {
    let mut text = head(
        "Metrics",
        "What `--metric`, `--bound`, `--minimise` and `--maximise` of a sweep may name, and what a result has, beside the counters of each device: `DEVICE.COUNTER`, \
         as `run --json` prints them, and the latencies of each of several tenants, `tenant.NAME.p99`.",
    );
    text += &table(&["metric", "unit", "what it is"]);
    for metric in lists.get("metrics").list() {
        text += &row([
            &*code(metric.get("name").text()),
            metric.get("unit").text(),
            metric.get("summary").text(),
        ]);
    }
    text
}

fn loads(lists: &Json) -> String {
    let mut text = head(
        "Trace formats and generators",
        "What `--trace` takes. [Trace formats and stand-ins](trace-formats.md) says what reading guarantees and what the generators stand for.",
    );
    text += "## Formats\n\n";
    text += &table(&["format", "written too", "tried on", "what it is", "a line"]);
    for format in lists.get("formats").list() {
        let written = if *format.get("writable") == Json::Bool(true) { "yes" } else { "no" };
        let (name, example) = (code(format.get("name").text()), code(format.get("example").text()));
        text += &row([&name, written, format.get("tried_on").text(), format.get("summary").text(), &example]);
    }
    text += "\n## Generators\n\nParameters are set by `--gen KEY=VALUE`; here with their defaults.\n\n";
    text += &table(&["generator", "what it is", "parameters", "published, and how near"]);
    for generator in lists.get("generators").list() {
        let name = code(generator.get("name").text());
        let parameters = parameters(generator);
        text +=
            &row([&name, generator.get("summary").text(), &parameters, generator.get("published").text()]);
    }
    text
}

/// Parameters of a generator with their defaults, as one types them.
fn parameters(generator: &Json) -> String {
    let Json::Object(parameters) = generator.get("parameters") else { return String::new() };
    let shown = |key: &String, value: &Json| {
        let is_size =
            generator.get("schema").get("properties").get(key).get("$ref").text().ends_with("/Size");
        let text = match value {
            Json::Number(bytes) if is_size => size(*bytes as u64),
            Json::Number(number) => number.to_string(),
            Json::Bool(on) => on.to_string(),
            _ => time(value.text()),
        };
        text.replace(' ', "")
    };
    let pairs: Vec<String> =
        parameters.iter().map(|(key, value)| format!("`{key}={}`", shown(key, value))).collect();
    pairs.join(", ")
}

/// A size in the largest unit that it is a whole number of.
fn size(bytes: u64) -> String {
    let binary = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let decimal = [(1_000_000_000, "GB"), (1_000_000, "MB")];
    let unit = binary.iter().chain(&decimal).find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// A time in the largest unit that it reaches; any other text as it is.
fn time(text: &str) -> String {
    let Some(ns) = text.strip_suffix(" ns").and_then(|ns| ns.parse::<f64>().ok()) else { return text.into() };
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.iter().find(|(unit, _)| ns >= *unit);
    unit.map_or_else(|| text.into(), |(unit, name)| format!("{} {name}", ns / unit))
}

fn profiles(lists: &Json) -> String {
    let mut text = head(
        "Chips and disks",
        "Profiles that `profile = \"NAME\"` of a device names. Each figure has its source; the files are in `crates/device/profiles`.",
    );
    for profile in lists.get("profiles").list() {
        text += &format!("## {}\n\n", profile.get("name").text());
        text += &table(&["figure", "value", "source"]);
        let Json::Object(figures) = profile else { continue };
        for (key, value) in figures.iter().filter(|(key, _)| !["name", "source"].contains(&key.as_str())) {
            let value = match value {
                Json::Number(number) => number.to_string(),
                other => other.text().to_string(),
            };
            text += &row([&*code(key), &value, source(profile, key)]);
        }
        text += "\n";
    }
    closed(text)
}

/// Where a figure of a profile comes from. Sources stand under the key of the profile's file, which has no unit.
fn source<'a>(profile: &'a Json, key: &str) -> &'a str {
    let sources = profile.get("source");
    let plain = ["_ns", "_bytes", "_cycles"].iter().find_map(|unit| key.strip_suffix(unit));
    let own = sources.get(key).text();
    if own.is_empty() { plain.map_or("", |plain| sources.get(plain).text()) } else { own }
}

fn bugs(lists: &Json) -> String {
    let mut text = head(
        "Injected bugs",
        "Defects that `nandu verify --inject-bug NAME` puts into a device, each with the invariant that must find it. `--inject-bug all` takes each in turn.",
    );
    text += &table(&["bug", "breaks", "what is wrong"]);
    for plant in lists.get("bugs").list() {
        text +=
            &row([&*code(plant.get("name").text()), plant.get("breaks").text(), plant.get("summary").text()]);
    }
    text
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A page without empty lines at its end.
fn closed(text: String) -> String {
    text.trim_end().to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_options_has_the_column_that_it_needs() {
        let json = r#"[{"heading": "machine x: y", "options": [
            {"option": "a", "takes": "one | two", "default": "", "of": "", "summary": "An a."},
            {"option": "b.c", "takes": "number", "default": "3", "of": "two", "summary": "A c."}]}]"#;
        let described = parse(json).expect("it is JSON");
        let text = options(&described, "machine x:").expect("it is there");
        assert!(
            text.contains("| `a` | one \\| two |  |  | An a. |\n| `b.c` | number | `3` | two | A c. |"),
            "{text}"
        );
        let plain = parse(&json.replace("\"two\"", "\"\"")).expect("it is JSON");
        let text = options(&plain, "machine x:").expect("it is there");
        assert!(text.starts_with("| option | takes | default | what it is |\n"), "{text}");
        assert!(options(&described, "machine z:").is_err());
    }

    #[test]
    fn defaults_are_as_one_types_them() {
        assert_eq!(
            [size(3 << 20), size(500_000_000), size(1000), size(0)],
            ["3 MiB", "500 MB", "1000 B", "0 B"]
        );
        assert_eq!([time("8200000 ns"), time("3000000000 ns"), time("1/4")], ["8.2 ms", "3 s", "1/4"]);
    }

    #[test]
    fn a_source_is_found_under_the_key_of_the_file() {
        let profile = parse(r#"{"read_ns": 25, "rpm": 5, "source": {"read": "sheet", "rpm": "label"}}"#);
        let profile = profile.expect("it is JSON");
        assert_eq!(
            [source(&profile, "read_ns"), source(&profile, "rpm"), source(&profile, "x")],
            ["sheet", "label", ""]
        );
    }
}
