//! A stack file as text again: what stays of it with its overrides.
//!
//! Tables and keys keep their order; comments are gone, since they may speak of what was overridden.

use super::StackFile;
use super::tree::{Data, Entry, Node};
use std::fmt::Write;

impl StackFile {
    /// The file with its overrides as text, to be read by [`StackFile::parse`].
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for entry in self.root.entries().iter().filter(|e| !is_table(e)) {
            line(&mut out, entry);
        }
        for section in self.root.entries().iter().filter(|e| is_table(e)) {
            for named in section.node.entries() {
                table(&mut out, &format!("{}.{}", key(&section.key), key(&named.key)), &named.node);
            }
        }
        out
    }
}

fn is_table(entry: &Entry) -> bool {
    matches!(entry.node.data, Data::Table(_))
}

/// A key as it is written: quoted unless it is bare.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.into(),
        false => toml::Value::String(name.into()).to_string(),
    }
}

fn line(out: &mut String, entry: &Entry) {
    let _ = writeln!(out, "{} = {}", key(&entry.key), entry.node.to_value());
}

/// The table at `path`: its values, then the tables in it.
fn table(out: &mut String, path: &str, node: &Node) {
    if !out.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "[{path}]");
    node.entries().iter().filter(|e| !is_table(e)).for_each(|e| line(out, e));
    for inner in node.entries().iter().filter(|e| is_table(e)) {
        table(out, &format!("{path}.{}", key(&inner.key)), &inner.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    const STACK: &str = include_str!("../../../../stacks/hybrid.toml");

    fn hash(file: &StackFile) -> String {
        file.load(&builtin()).unwrap_or_else(|e| panic!("{e}")).hash_long().into()
    }

    #[test]
    fn every_shipped_stack_comes_back_as_it_was() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stacks");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).expect("the stacks folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|e| e == "toml") {
                let text = std::fs::read_to_string(&path).expect("a stack file");
                let file = StackFile::parse(&text, "a").expect("a good stack");
                let again = StackFile::parse(&file.to_text(), "b").expect("a good stack");
                assert_eq!(hash(&file), hash(&again), "{}", path.display());
                assert_eq!(file.to_text(), again.to_text());
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen} stacks");
    }

    #[test]
    fn overrides_are_in_the_text_and_what_was_left_out_is_not() {
        let file = StackFile::parse(STACK, "hybrid").unwrap();
        let file = file.with_set("device.disk.spin_down", "5 s").unwrap();
        let file = file.without("device.slc").unwrap().without("device.hybrid.slc").unwrap();
        let text = file.to_text();
        assert!(text.contains("spin_down = \"5 s\"\n") && !text.contains("slc"), "{text}");
        assert_eq!(hash(&StackFile::parse(&text, "again").unwrap()), hash(&file));
    }

    #[test]
    fn only_what_is_there_can_be_left_out() {
        let file = StackFile::parse(STACK, "hybrid").unwrap();
        let wrong = |path: &str| file.clone().without(path).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            wrong("device.slk"),
            "--set device.slk=: `slk` is not set in `device`, so it cannot be left out; did you mean `slc`?"
        );
        assert!(wrong("").contains("is not a valid name"));
        assert!(wrong("device.slc.bits_per_cell.deep").contains("`deep` is not set in"));
    }
}
