//! `cargo xtask words`: phrases that readers outside stumble over, in documents, help, the schema of stack files and messages.
//!
//! The list has what was found and replaced once, so that it does not come back. It is searched in README.md, CONTRIBUTING.md and `docs` but for
//! records of decisions, which keep the words of their date, and CHANGELOG.md likewise; in the help of every command; in descriptions of the
//! schema; and in the texts of the sources of `crates`, without comments and tests, where `X is no Y` is not said either. Names of claims and open points (`C1-2`, `O3-4`) are those of
//! experiments: elsewhere they stand only as a link to the page that says what they mean.
//!
//! Names come from four tables. Options of commands and of stack files that were renamed stand in no document and no message by their old name,
//! where no command or device has it as a present one. Neither do fields of JSON and counters, in Python too; the page of the JSON has each of them with its present one. A counter that is looked up by its name is one that a device counts: a name that none
//! has would be read as absent.

use crate::docs::documents;
use crate::files::{self, shown};
use crate::purity::{sources, texts};
use crate::steps::{End, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A phrase, without its first letter where that may be a capital, and what to write instead.
const PHRASES: [(&str, &str); 9] = [
    ("eld against", "compared with, or: validation against"),
    ("omebody", "the actor: a host, an operator, a tenant"),
    ("as told", "by operator"),
    ("hung up on", "disconnected"),
    ("too dark", "too pessimistic"),
    (" a slip ", "a typo"),
    ("knows no ", "has no, or: needs"),
    ("of the spec", "the section of the paper"),
    ("(spec ", "the section of the paper"),
];

/// The crate whose texts are the names of claims.
const CLAIMS: &str = "experiment";

/// Where options that were renamed stand: of commands, and of stack files.
const RENAMED: [&str; 2] = ["crates/experiment/src/renamed.rs", "crates/stack/src/load/renamed.rs"];

/// Where names of results that were renamed stand, and the page that tells them.
const RENAMED_IN_RESULTS: [&str; 2] = ["crates/sim/src/renamed.rs", "docs/reference/json.md"];
/// Those of them that something else still has.
const STILL_NAMES: [&str; 10] = [
    "bytes_per_second",
    "host_bytes",
    "min_ns",
    "mean_ns",
    "stddev_ns",
    "max_ns",
    "p50_ns",
    "p90_ns",
    "p95_ns",
    "p99_ns",
];

/// Crates whose devices count.
const COUNTING: [&str; 6] = ["array", "cache", "device", "ftl", "hybrid", "queue"];

/// Crates that look counters up by name, and what they call to do so.
const LOOKING: [&str; 3] = ["experiment", "sim", "sweep"];
const LOOKUPS: [&str; 8] = [
    "counter(",
    "Counter::of(",
    "Counter::find(",
    "of_tenant(",
    "counters.get(",
    "sum_of(",
    "figure(",
    "ratio(",
];

/// Looks for every phrase, every old name and every counter.
pub fn check() -> End {
    let mut wrong = phrases();
    wrong.extend(old_names());
    wrong.extend(old_names_in_results());
    wrong.extend(counters());
    if wrong.is_empty() { End::Passed } else { End::Failed(wrong.join("\n")) }
}

fn phrases() -> Vec<String> {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        wrong.extend(found(&text, |line| phrase(line).or_else(|| private(line))).map(|hit| at(&page, hit)));
    }
    let mut described = vec![root().join("stacks/nandu.schema.json")];
    described.extend(files::list(&root().join("crates/cli/tests/help")));
    for path in described {
        let text = read(&path);
        wrong.extend(found(&text, |line| phrase(line).or_else(|| private(line))).map(|hit| at(&path, hit)));
    }
    for folder in files::list(&root().join("crates")) {
        let names_claims = folder.ends_with(CLAIMS);
        for path in sources(&folder.join("src")) {
            for (line, text) in texts(&read(&path)) {
                let why = phrase(&text)
                    .or_else(|| negation(&text))
                    .or_else(|| private(&text).filter(|_| !names_claims));
                wrong.extend(why.map(|why| at(&path, (line, why))));
            }
        }
    }
    wrong
}

/// The sources of the crate `name`.
fn sources_of(name: &str) -> Vec<PathBuf> {
    sources(&root().join("crates").join(name).join("src"))
}

/// Old names in documents and messages.
fn old_names() -> Vec<String> {
    let [options, keys] = RENAMED.map(|table| pairs(&read(&root().join(table))));
    let helps: Vec<String> =
        files::list(&root().join("crates/cli/tests/help")).iter().map(|path| read(path)).collect();
    let schema = read(&root().join("stacks/nandu.schema.json"));
    // What some command or device still has says something else there.
    let is_option = |old: &str| helps.iter().any(|help| help.lines().any(|line| has_word(line, old)));
    let options = options.into_iter().filter(|(old, _)| old.starts_with("--") && !is_option(old));
    // A key of one word is a word of the language too.
    let keys =
        keys.into_iter().filter(|(old, _)| old.contains('_') && !schema.contains(&format!("\"{old}\"")));
    let names: Vec<(String, String)> = options.chain(keys).collect();
    let old = |line: &str| {
        let (old, new) = names.iter().find(|(old, _)| has_word(line, old))?;
        Some(format!("`{old}` is now called `{new}`"))
    };
    let mut wrong = Vec::new();
    for page in documents() {
        // Figures of chips are called by their unit, some as an option was before; fields of results have a page that tells old names.
        if ["docs/decisions", "docs/reference/profiles.md", RENAMED_IN_RESULTS[1], "CHANGELOG.md"]
            .iter()
            .any(|place| page.starts_with(root().join(place)))
        {
            continue;
        }
        wrong.extend(found(&read(&page), old).map(|hit| at(&page, hit)));
    }
    for folder in files::list(&root().join("crates")) {
        let tables = RENAMED.map(|table| root().join(table));
        for path in sources(&folder.join("src")).into_iter().filter(|path| !tables.contains(path)) {
            let hits = texts(&read(&path)).into_iter().filter_map(|(line, text)| Some((line, old(&text)?)));
            wrong.extend(hits.filter(|(_, why)| why.starts_with("`--")).map(|hit| at(&path, hit)));
        }
    }
    wrong
}

/// Old names of fields and counters in documents, messages and Python, and those that the page does not tell.
fn old_names_in_results() -> Vec<String> {
    let [table, page] = RENAMED_IN_RESULTS.map(|place| root().join(place));
    let (pairs, told) = (pairs(&read(&table)), read(&page));
    let untold = pairs.iter().filter(|(old, new)| !told.contains(&format!("| `{old}` | `{new}` |")));
    let untold = untold.map(|(old, new)| format!("`{old}` is `{new}`: say so in the table"));
    let mut wrong: Vec<String> = untold.map(|why| at(&page, (1, why))).collect();
    // A name of one word is a word of the language too.
    let is_name = |old: &str| old.contains('_') && !STILL_NAMES.contains(&old);
    let names: Vec<(String, String)> = pairs.into_iter().filter(|(old, _)| is_name(old)).collect();
    let old = |line: &str| {
        let (old, new) = names.iter().find(|(old, _)| has_word(line, old))?;
        Some(format!("`{old}` is now called `{new}`"))
    };
    let of_their_date = ["docs/decisions", "CHANGELOG.md"].map(|place| root().join(place));
    let python = ["crates/python/nandu", "examples/notebooks", "examples/python"];
    let python = python.iter().flat_map(|folder| files::list(&root().join(folder)));
    let texts_of =
        documents().into_iter().filter(|page| !of_their_date.iter().any(|at| page.starts_with(at)));
    for path in texts_of.filter(|path| *path != page).chain(python.filter(|path| is_python(path))) {
        wrong.extend(found(&read(&path), old).map(|hit| at(&path, hit)));
    }
    let tables = RENAMED.map(|table| root().join(table));
    for folder in files::list(&root().join("crates")) {
        for path in sources(&folder.join("src")) {
            if path == table || tables.contains(&path) {
                continue;
            }
            let hits = texts(&read(&path)).into_iter().filter_map(|(line, text)| Some((line, old(&text)?)));
            wrong.extend(hits.map(|hit| at(&path, hit)));
        }
    }
    wrong
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py")
}

/// The pairs of an old and a new name in the source of a table: two texts side by side at the end of a bracket.
fn pairs(source: &str) -> Vec<(String, String)> {
    let code = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let parts: Vec<&str> = code.split('"').collect();
    let is_pair = |at: &usize| {
        let (between, after) = (parts[at + 1], parts.get(at + 3).copied().unwrap_or_default());
        between.trim() == "," && after.trim_start().trim_start_matches(',').trim_start().starts_with(')')
    };
    let texts = (1..parts.len().saturating_sub(2)).step_by(2);
    texts.filter(is_pair).map(|at| (parts[at].into(), parts[at + 2].into())).collect()
}

/// Whether `word` stands in `line` and is not a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Counters that are looked up by a name that no device counts.
fn counters() -> Vec<String> {
    let known: BTreeSet<String> = COUNTING
        .iter()
        .flat_map(|name| sources_of(name))
        .flat_map(|path| texts(&read(&path)))
        .map(|(_, text)| text)
        .collect();
    let mut wrong = Vec::new();
    for path in LOOKING.iter().flat_map(|name| sources_of(name)) {
        for (line, name) in looked_up(&read(&path)) {
            if !known.contains(of_any_tenant(&name)) {
                wrong.push(at(&path, (line, format!("no device has a counter `{name}`"))));
            }
        }
    }
    wrong
}

/// What a counter of one tenant is called behind the tenant's number: drives put the two together.
fn of_any_tenant(name: &str) -> &str {
    name.strip_prefix("tenant_").map_or(name, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Names of counters that `source` looks up, with their lines.
fn looked_up(source: &str) -> Vec<(usize, String)> {
    let code = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut out = Vec::new();
    for (number, line) in code.lines().enumerate() {
        for call in LOOKUPS {
            for (at, _) in line.match_indices(call) {
                let whole = !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let Some(args) = line[at + call.len()..].split(')').next().filter(|_| whole) else {
                    continue;
                };
                // The device that counts comes first where there are two.
                let name = args.split('"').skip(1).step_by(2).last().unwrap_or_default();
                if name.contains('_')
                    && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                {
                    out.push((number + 1, name.to_string()));
                }
            }
        }
    }
    out
}

/// Pages that are looked at.
fn pages() -> Vec<PathBuf> {
    let with_words_of_their_date =
        ["docs/decisions", "CHANGELOG.md", "experiments", "examples"].map(|place| root().join(place));
    let mut pages = documents();
    pages.retain(|page| !with_words_of_their_date.iter().any(|place| page.starts_with(place)));
    pages
}

fn read(path: &Path) -> String {
    files::read(path).unwrap_or_default()
}

fn at(path: &Path, (line, why): (usize, String)) -> String {
    format!("{}:{line}: {why}", shown(path))
}

/// Lines in which something is wrong, counted from 1.
fn found(text: &str, wrong: impl Fn(&str) -> Option<String>) -> impl Iterator<Item = (usize, String)> {
    let hits: Vec<(usize, String)> =
        text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, wrong(line)?))).collect();
    hits.into_iter()
}

/// The first phrase of the list in a line.
fn phrase(line: &str) -> Option<String> {
    let (bad, good) = PHRASES.iter().find(|(bad, _)| line.contains(bad))?;
    Some(format!("`{}`: write {good}", bad.trim()))
}

/// Words behind `is no` that compare, or name what cannot be counted.
const AFTER_NO: [&str; 7] = ["faster", "longer", "loss", "less", "more", "newer", "older"];

/// `X is no Y` and ``there is no Y `x` `` of a message.
fn negation(text: &str) -> Option<String> {
    for (at, _) in text.match_indices(" is no ") {
        let noun = text[at + 7..].split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        let named = text[at + 7 + noun.len()..].starts_with(" `");
        if text[..at].ends_with("there") {
            if named {
                return Some(format!("`there is no {noun}` before its name: write unknown {noun}"));
            }
        } else if !AFTER_NO.contains(&noun) {
            return Some(format!("`is no {noun}`: write is not a {noun}"));
        }
    }
    None
}

/// A name of a claim or of an open point that is no link.
fn private(line: &str) -> Option<String> {
    let bytes = line.as_bytes();
    let name = (0..bytes.len()).find_map(|from| {
        let before = from.checked_sub(1).map(|at| bytes[at]);
        let begins =
            b"COSWK".contains(&bytes[from]) && before.is_none_or(|b| !b.is_ascii_alphanumeric() && b != b'[');
        let rest = line.get(from + 1..).filter(|_| begins)?;
        let (paper, rest) = rest.split_once('-')?;
        let number: &str = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let ends = rest[number.len()..].bytes().next().is_none_or(|b| !b.is_ascii_alphanumeric());
        (digits(paper) && digits(number) && ends).then(|| format!("{}{paper}-{number}", bytes[from] as char))
    })?;
    Some(format!(
        "`{name}`: readers do not know it; say what it is, or link it to the page of its experiment"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_with_its_line_and_its_better_form() {
        let text = "All is well.\nThe client was hung up on.\n";
        let hits: Vec<(usize, String)> = found(text, phrase).collect();
        assert_eq!(hits, [(2, "`hung up on`: write disconnected".to_string())]);
        assert_eq!(phrase("Held against MQSim").is_some(), phrase("held against MQSim").is_some());
    }

    #[test]
    fn a_message_says_what_a_value_is_not() {
        for bad in ["`{text}` is no number", "{} is no power of two", "there is no device `{name}`"] {
            assert!(negation(bad).is_some(), "{bad}");
        }
        for good in [
            "zeroing is no faster than writing",
            "there is no `journal` in it",
            "there is no job beside [global]",
            "`{text}` is not a number",
        ] {
            assert_eq!(negation(good), None, "{good}");
        }
    }

    #[test]
    fn the_tables_of_old_names_are_read() {
        let [options, keys] = RENAMED.map(|table| pairs(&read(&root().join(table))));
        let has = |all: &[(String, String)], old: &str, new: &str| all.contains(&(old.into(), new.into()));
        assert!(
            has(&options, "--closed", "--iodepth") && has(&options, "--alone", "--slowdown"),
            "{options:?}"
        );
        assert!(
            has(&keys, "over_provisioning", "spare_factor") && has(&keys, "ack", "write_ack"),
            "{keys:?}"
        );
        let in_results = pairs(&read(&root().join(RENAMED_IN_RESULTS[0])));
        assert!(
            has(&in_results, "path_mean_ns", "latency_breakdown_ns")
                && has(&in_results, "map_hits", "cmt_hits"),
            "{in_results:?}"
        );
        let text = "const A: &[(&[&str], &str, &str)] = &[(&[\"run\", \"x\"], \"--a\", \"--b\"),\n    (\n        \"c\",\n        \"d\",\n    ),\n];";
        assert_eq!(pairs(text), [("--a".into(), "--b".into()), ("c".into(), "d".into())]);
    }

    #[test]
    fn a_word_is_found_whole() {
        assert!(has_word("with `--cap 64`", "--cap") && has_word("--cap", "--cap"));
        assert!(
            !has_word("--capacity", "--cap") && !has_word("a--cap", "--cap") && !has_word("--cap-x", "--cap")
        );
    }

    #[test]
    fn counters_that_are_looked_up_are_found() {
        let source = "fn f() { counter(r, \"mirror\", \"leg_a_delays\") + Counter::of(&c, \"x_y\") + encounter(\"no_no\") }\nlet n = counter(r, name);\n";
        assert_eq!(looked_up(source), [(1, "leg_a_delays".into()), (1, "x_y".into())]);
    }

    #[test]
    fn names_of_claims_stand_in_links_alone() {
        for bad in ["as in O1-2.", "(W3-4)", "C1-16: no", "O3-7, O3-8"] {
            assert!(private(bad).is_some(), "{bad}");
        }
        for good in
            ["[C3-11](../r.md#c3-11)", "SHA-256", "CRC-32C", "S3-FIFO", "RAID-5", "W3", "PC1-2x", "K-means"]
        {
            assert_eq!(private(good), None, "{good}");
        }
    }
}
