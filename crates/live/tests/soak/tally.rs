//! What was done in a life, and the file in which it adds up over runs.

use std::collections::BTreeMap;
use std::path::Path;

/// What is counted of every life.
pub const RIGHT: &str = "blocks read and right";

/// How often each thing was done to one kind of stack.
pub struct Tally {
    kind: &'static str,
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn new(kind: &'static str) -> Tally {
        Tally { kind, counts: BTreeMap::new() }
    }

    pub fn count(&mut self, what: &'static str, many: u64) {
        *self.counts.entry(what).or_default() += many;
    }

    pub fn has_looked(&self) -> bool {
        self.counts.get(RIGHT).is_some_and(|&many| many > 0)
    }

    /// Adds this to a file of lines `kind TAB what TAB count`, in order, with the seed to go on with as a line of its own.
    pub fn add_to(&self, path: &Path, seed: u64) {
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = BTreeMap::new();
        for line in old.lines() {
            let (key, count) = line.rsplit_once('\t').expect("a line of ours");
            lines.insert(key.to_string(), count.parse::<u64>().expect("a count"));
        }
        for (what, many) in &self.counts {
            *lines.entry(format!("{}\t{what}", self.kind)).or_default() += many;
        }
        lines.insert("next\tseed".to_string(), seed + 1);
        let text: String = lines.iter().map(|(key, count)| format!("{key}\t{count}\n")).collect();
        let new = path.with_extension("new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, path))
            .expect("the report can be written");
    }
}
