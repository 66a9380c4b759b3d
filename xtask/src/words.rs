//! `cargo xtask words`: phrases that readers outside stumble over, in documents, help, the schema of stack files and messages.
//!
//! The list has what was found and replaced once, so that it does not come back. It is searched in README.md, CONTRIBUTING.md and `docs` but for
//! records of decisions, which keep the words of their date, and CHANGELOG.md likewise; in the help of every command; in descriptions of the
//! schema; and in the texts of the sources of `crates`, without comments and tests. Names of claims and open points (`C1-2`, `O3-4`) are those of
//! experiments: elsewhere they stand only as a link to the page that says what they mean.

use crate::docs::documents;
use crate::files::{self, shown};
use crate::purity::{sources, texts};
use crate::steps::{End, root};
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

/// Looks for every phrase.
pub fn check() -> End {
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
                let why = phrase(&text).or_else(|| private(&text).filter(|_| !names_claims));
                wrong.extend(why.map(|why| at(&path, (line, why))));
            }
        }
    }
    if wrong.is_empty() { End::Passed } else { End::Failed(wrong.join("\n")) }
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
