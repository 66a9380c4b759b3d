//! What is known of the bugs that were drawn: the table `mutants/drawn.tsv` of the repository.
//!
//! A line names a bug by its file, its kind, and the text of the line that it stands in (of those that read alike, which), not by the number
//! of that line: what was found out of it stays true while code above it grows. [`Entry::find`] looks for the text; a bug whose text is gone
//! is gone too, and another one is drawn in its place. The number of the line is for the reader, and is put right with each run.

use super::scan::Site;
use crate::steps::root;
use std::collections::BTreeMap;
use std::fs;

/// The table, from the root of the checkout.
pub const PATH: &str = "mutants/drawn.tsv";
const COLUMNS: &str = "number\tverdict\ttests\tpart\tchange\tplace\ttext\twhich\treason";

/// What a bug is called that no seed finds and that tests have not been asked for yet.
pub const PASSES_SEEDS: &str = "passes seeds";
/// What a bug is called that nothing finds.
pub const SURVIVES: &str = "survives";

/// A bug that was drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// What found it, [`PASSES_SEEDS`], [`SURVIVES`], or nothing where it was not run yet.
    pub verdict: String,
    /// Tests that reach its place and pass; nothing where they were not asked.
    pub tests: String,
    /// The machine that it was drawn for.
    pub part: String,
    /// The name of its kind.
    pub change: String,
    pub file: String,
    pub line: usize,
    /// Where it begins in `text`, from 1.
    pub column: usize,
    /// The line of the source that it begins in, without blanks at its ends.
    pub text: String,
    /// Which of the lines of the file with this text it is, from 1.
    pub which: usize,
    /// Why it survives, as somebody read it from the code.
    pub reason: String,
}

impl Entry {
    /// A bug that has not been run.
    pub fn new(part: &str, file: &str, source: &str, site: &Site) -> Entry {
        let Place { line, column, text, which } = place(source, site.start);
        let (part, change, file) = (part.to_string(), site.kind.name().to_string(), file.to_string());
        let (verdict, tests, reason) = Default::default();
        Entry { verdict, tests, part, change, file, line, column, text: text.to_string(), which, reason }
    }

    fn read(line: &str) -> Option<(u32, Entry)> {
        let mut fields = line.split('\t');
        let number = fields.next()?.parse().ok()?;
        let mut next = || fields.next().map(str::to_string);
        let (verdict, tests, part, change) = (next()?, next()?, next()?, next()?);
        let (place, text, which, reason) = (next()?, next()?, next()?.parse().ok()?, next()?);
        let mut place = place.rsplitn(3, ':');
        let column = place.next()?.parse().ok()?;
        let line = place.next()?.parse().ok()?;
        let file = place.next()?.to_string();
        Some((number, Entry { verdict, tests, part, change, file, line, column, text, which, reason }))
    }

    /// The place for a reader.
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }

    /// Its line of the table, without the number.
    fn row(&self) -> String {
        let Entry { verdict, tests, part, change, text, which, reason, .. } = self;
        format!("{verdict}\t{tests}\t{part}\t{change}\t{}\t{text}\t{which}\t{reason}", self.place())
    }

    /// Whether something found it.
    pub fn is_found(&self) -> bool {
        !["", PASSES_SEEDS, SURVIVES].contains(&self.verdict.as_str())
    }

    /// Which of the places of its file it is.
    pub fn find(&self, source: &str, sites: &[Site]) -> Option<usize> {
        sites.iter().position(|site| {
            let Place { column, text, which, .. } = place(source, site.start);
            site.kind.name() == self.change
                && (column, text, which) == (self.column, self.text.as_str(), self.which)
        })
    }
}

/// Where a byte of a source stands.
struct Place<'a> {
    /// From 1.
    line: usize,
    /// From 1; blanks at the beginning of the line are no columns.
    column: usize,
    /// Its line, without blanks at the ends.
    text: &'a str,
    /// Which line with this text it is, from 1.
    which: usize,
}

fn place(source: &str, at: usize) -> Place<'_> {
    let begins = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let text = source[begins..].lines().next().unwrap_or_default();
    let blanks = text.len() - text.trim_start().len();
    let text = text.trim();
    let before = source[..begins].lines();
    let line = before.clone().count() + 1;
    let which = before.filter(|line| line.trim() == text).count() + 1;
    Place { line, column: at - begins - blanks + 1, text, which }
}

/// The whole table, by number.
pub fn read() -> Result<BTreeMap<u32, Entry>, String> {
    let path = root().join(PATH);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{PATH}: {error}")),
    };
    let bad = |line: &str| format!("{PATH}: not a line of the table: {line}");
    text.lines().skip(1).map(|line| Entry::read(line).ok_or_else(|| bad(line))).collect()
}

/// Writes the whole table.
pub fn write(all: &BTreeMap<u32, Entry>) -> Result<(), String> {
    let lines = all.iter().map(|(number, entry)| format!("{number}\t{}\n", entry.row()));
    let text: String = std::iter::once(format!("{COLUMNS}\n")).chain(lines).collect();
    let new = root().join(format!("{PATH}.new"));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, root().join(PATH)));
    written.map_err(|error| format!("{PATH}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::scan::{self, Kind};
    use super::*;

    #[test]
    fn a_bug_is_found_again_where_its_line_has_moved() {
        let before = "fn f(&self) {\n    self.a = b + 1;\n    self.c();\n    self.a = b + 1;\n}\n";
        let sites = scan::sites(before);
        let kind = |site: &&Site| site.kind == Kind::OneLess;
        let second = sites.iter().filter(kind).nth(1).expect("there are two");
        let entry = Entry::new("cache", "x.rs", before, second);
        assert_eq!((entry.line, entry.column, entry.text.as_str()), (4, 14, "self.a = b + 1;"));
        let after = format!("//! More.\n\nuse x;\n{before}");
        let sites = scan::sites(&after);
        let found = entry.find(&after, &sites).expect("it is still there");
        assert_eq!(place(&after, sites[found].start).line, 7);
        let gone = before.replace("b + 1", "c + 1");
        assert_eq!(entry.find(&gone, &scan::sites(&gone)), None);
    }

    #[test]
    fn the_table_is_whole_and_each_survivor_has_its_reason() {
        let all = read().expect("each line is one of the table");
        assert!(all.len() >= 400, "{} bugs", all.len());
        for (number, entry) in &all {
            assert_eq!(Entry::read(&format!("{number}\t{}", entry.row())), Some((*number, entry.clone())));
            // Where tests have not all been asked yet there may be one already.
            let has_a_reason = entry.reason.len() > 10;
            assert!(has_a_reason || entry.verdict != SURVIVES, "{number}: {entry:?}");
            assert!(!has_a_reason || !entry.is_found(), "{number}: {entry:?}");
        }
    }
}
