//! Records of decisions: their form, their table, and what they say of each other.
//!
//! Each file of `docs/decisions` is a record: a title that says the decision, its date, its status, and four sections. Its number is in its name
//! and in its title. The table in `README.md` has each once, in the order of numbers, with the title as it stands. A record that changes an older
//! one is linked from the status of both, so that nobody reads a rule that holds no more without seeing what came after it.

use crate::steps::{End, root};
use std::fs;

/// The sections of a record, in their order.
const SECTIONS: [&str; 4] = ["Context", "Decision", "Alternatives", "Consequences"];

/// Beginnings of titles that name a subject and decide nothing.
const SUBJECTS: [&str; 5] = ["A ", "An ", "The ", "Definition", "What "];

struct Record {
    number: u32,
    file: String,
    text: String,
}

/// Looks at every record and at the table.
pub fn check() -> End {
    let folder = root().join("docs/decisions");
    let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
    let mut records: Vec<Record> = entries
        .filter_map(|entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            let number = file.split('-').next()?.parse().ok()?;
            Some(Record { number, text: fs::read_to_string(entry.path()).ok()?, file })
        })
        .collect();
    records.sort_by_key(|record| record.number);
    let table = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let wrong = faults(&records, &table);
    if wrong.is_empty() { End::Passed } else { End::Failed(wrong.join("\n")) }
}

fn faults(records: &[Record], table: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for record in records {
        wrong.extend(form(record).into_iter().map(|why| format!("{}: {why}", record.file)));
        wrong.extend(one_sided(record, records));
    }
    let twice = records.windows(2).filter(|pair| pair[0].number == pair[1].number);
    wrong.extend(twice.map(|pair| format!("{}: {} has the same number", pair[1].file, pair[0].file)));
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| [")).collect();
    let expected: Vec<String> = records
        .iter()
        .map(|r| format!("| [{}]({}) | {} |", r.number, r.file, title(r).unwrap_or("")))
        .collect();
    let differs = rows.iter().zip(&expected).find(|(row, expected)| !row.starts_with(expected.as_str()));
    if let Some((row, expected)) = differs {
        wrong.push(format!("README.md: its table has\n{row}\nwhere it should have\n{expected} ... |"));
    } else if rows.len() != records.len() {
        wrong.push(format!("README.md: its table has {} rows for {} records", rows.len(), records.len()));
    }
    wrong
}

/// What is wrong with a record by itself.
fn form(record: &Record) -> Vec<String> {
    let mut wrong = Vec::new();
    match title(record) {
        None => wrong.push(format!("its first line is not `# {}. TITLE`", record.number)),
        Some(title) if SUBJECTS.iter().any(|subject| title.starts_with(subject)) => {
            wrong.push(format!("its title, `{title}`, names a subject; it says what is decided, as an order"))
        }
        Some(_) => {}
    }
    if !record.text.lines().any(|line| line.strip_prefix("- Date: ").is_some_and(is_date)) {
        wrong.push("it has no line `- Date: YYYY-MM-DD`".into());
    }
    let status = status(record);
    if !["accepted", "superseded by ["].iter().any(|word| status.starts_with(word)) {
        wrong.push("its status is neither `accepted` nor `superseded by [N](FILE)`".into());
    }
    let sections: Vec<&str> = record.text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    if sections != SECTIONS {
        wrong.push(format!("its sections are {sections:?}, not {SECTIONS:?}"));
    }
    let bodies = record.text.split("\n## ").skip(1);
    let empty = bodies.filter(|body| body.split_once('\n').is_none_or(|(_, body)| body.trim().is_empty()));
    wrong.extend(empty.map(|body| format!("its section {} is empty", body.trim())));
    wrong
}

/// Links of a record's status to records whose status does not lead back.
fn one_sided(record: &Record, records: &[Record]) -> Vec<String> {
    let links_to = |from: &Record, to: &Record| status(from).contains(&format!("]({})", to.file));
    let others = records.iter().filter(|other| links_to(record, other) && !links_to(other, record));
    others
        .map(|other| {
            format!("{}: its status names {}, whose status does not name it", record.file, other.file)
        })
        .collect()
}

fn title(record: &Record) -> Option<&str> {
    record.text.lines().next()?.strip_prefix(&format!("# {}. ", record.number))
}

/// The status, which may go over several lines; empty where there is none.
fn status(record: &Record) -> &str {
    let from = record.text.split_once("\n- Status: ").map_or("", |(_, rest)| rest);
    from.split("\n\n").next().unwrap_or("")
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths = parts.iter().map(|part| part.len());
    lengths.eq([4, 2, 2]) && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u32, title: &str, status: &str) -> Record {
        let text = format!(
            "# {number}. {title}\n\n- Date: 2026-11-23\n- Status: {status}\n\n## Context\n\na\n\n## Decision\n\nb\n\n\
             ## Alternatives\n\nc\n\n## Consequences\n\nd\n"
        );
        Record { number, file: format!("{number:04}-x.md"), text }
    }

    fn table(records: &[Record]) -> String {
        let row = |r: &Record| {
            format!("| [{}]({}) | {} | core |\n", r.number, r.file, title(r).expect("it has one"))
        };
        records.iter().map(row).collect()
    }

    #[test]
    fn a_record_in_its_form_passes() {
        let records = [
            record(1, "Do this", "superseded by [2](0002-x.md);\n  all but its name"),
            record(2, "Do that", "accepted; supersedes\n  [1](0001-x.md)"),
        ];
        assert_eq!(faults(&records, &table(&records)), [""; 0]);
    }

    #[test]
    fn each_fault_of_form_is_named() {
        let broken = |from: &str, to: &str| {
            let mut one = record(1, "Do this", "accepted");
            one.text = one.text.replace(from, to);
            form(&one).join("\n")
        };
        assert!(broken("Do this", "A thing").contains("names a subject"));
        assert!(broken("# 1.", "# 2.").contains("first line"));
        assert!(broken("2026-11-23", "today").contains("Date"));
        assert!(broken("accepted", "maybe").contains("status"));
        assert!(broken("## Alternatives\n\nc\n\n", "").contains("sections"));
        assert!(broken("\n\nc\n\n", "\n\n").contains("Alternatives is empty"));
    }

    #[test]
    fn links_go_both_ways_and_the_table_has_each_record() {
        let records =
            [record(1, "Do this", "accepted"), record(2, "Do that", "accepted; extends [1](0001-x.md)")];
        let right = table(&records);
        assert!(faults(&records, &right).join("\n").contains("0002-x.md: its status names 0001-x.md"));
        let alone = &records[..1];
        assert!(faults(alone, &right).join("\n").contains("2 rows for 1 records"));
        assert!(faults(alone, &right.replace("Do this", "Do it")).join("\n").contains("should have"));
    }
}
