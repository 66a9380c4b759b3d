//! What is at or below `nandu-stack` knows no file, clock, thread, environment, randomness of the system or hash order.
//!
//! `cargo tree` names the crates that `nandu-stack` is built from. Each of ours is read as text, without comments, strings and what is
//! compiled for tests alone; a name that reaches out of the machine fails the check, by file and line. What other crates do is not read: the
//! direct dependencies of these crates are listed here, so that a new one is looked at.
//!
//! The planner of a drive knows no time: its files but the doors name neither a moment nor a span.

use crate::steps::{End, command, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of std that reach out, and what in them does not.
const MODULES: [&str; 7] = ["fs", "env", "time", "thread", "net", "process", "os"];
/// Names that reach out wherever they come from. `HashMap` and `HashSet` of std are refused by clippy too.
const NAMES: [&str; 12] = [
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "DefaultHasher",
    "OsRng",
    "getrandom",
    "thread_rng",
    "stdin",
    "stdout",
    "stderr",
    "available_parallelism",
];
/// Crates from the registry that these crates are built on: they compute, and reach for nothing.
const KNOWN: [&str; 9] =
    ["crc32c", "rand_core", "rand_xoshiro", "schemars", "serde", "serde_json", "sha2", "strsim", "thiserror"];
const KNOWN_TOO: [&str; 1] = ["toml"];
/// What the macro that runs in the compiler is made with.
const OF_MACROS: [&str; 3] = ["proc-macro2", "quote", "syn"];

/// Reads the crates.
pub fn check() -> End {
    let mut tree = command("cargo tree --package nandu-stack --edges normal --prefix none --offline");
    let tree = match tree.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => return End::Failed(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(error) => return End::Failed(error.to_string()),
    };
    let mut crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    crates.sort_unstable();
    crates.dedup();
    let misplaced = crate::unsafe_code::faults();
    if !misplaced.is_empty() {
        return End::Failed(misplaced.join("\n"));
    }
    let mut faults = Vec::new();
    for own in crates.iter().filter_map(|name| name.strip_prefix("nandu-")) {
        let folder = root().join("crates").join(own);
        faults.extend(dependencies(&folder));
        for file in sources(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
            faults
                .extend(reaches_out(&text).into_iter().map(|(line, what)| format!("{shown}:{line}: {what}")));
        }
    }
    let timed = knows_time();
    if !timed.is_empty() {
        return End::Failed(format!(
            "the planner of a drive has no clock: what goes by time is the executor's or the drive's\n{}",
            timed.join("\n")
        ));
    }
    match faults.is_empty() {
        true => End::Passed,
        false => End::Failed(format!(
            "a crate below the simulator and the server reaches out of the machine; let its caller pass it in\n{}",
            faults.join("\n")
        )),
    }
}

/// Lines of the planner that name a moment or a span.
fn knows_time() -> Vec<String> {
    let mut faults = Vec::new();
    for file in sources(&root().join("crates/ftl/src/plan")) {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The doors, and an executor for tests.
        if ["flash.rs", "tape.rs"].contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        faults.extend(times_in(&text).into_iter().map(|line| format!("{}:{line}", file.display())));
    }
    faults
}

/// The lines that do.
fn times_in(text: &str) -> Vec<usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let names_one = |line: &str| {
        line.contains("cx.now") || line.split(|c| !is_name(c)).any(|word| ["Instant", "Span"].contains(&word))
    };
    let code = without_tests(&plain(text));
    (1..).zip(code.lines()).filter(|(_, line)| names_one(line)).map(|(number, _)| number).collect()
}

/// Direct dependencies that nobody has looked at.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap_or_default();
    let normal = text.split_once("[dependencies]").map_or("", |(_, rest)| rest);
    let normal = normal.split("\n[").next().unwrap_or_default();
    let names =
        normal.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
    let unknown = names.filter(|name| {
        !name.starts_with('#')
            && !name.starts_with("nandu-")
            && !KNOWN.contains(name)
            && !KNOWN_TOO.contains(name)
            && !OF_MACROS.contains(name)
    });
    unknown
        .map(|name| {
            format!(
                "{}: `{name}` is new: see what it reaches for, then name it in xtask/src/purity.rs",
                manifest.display()
            )
        })
        .collect()
}

/// Sources that are not of tests alone.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if name != "tests" {
                found.extend(sources(&path));
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Lines of `text` that reach out, and for what.
fn reaches_out(text: &str) -> Vec<(usize, String)> {
    let code = without_tests(&plain(text));
    let mut found = Vec::new();
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let words = |code: &str| -> Vec<(usize, String)> {
        let mut words = Vec::new();
        let mut begin = None;
        for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
            match (c.is_alphanumeric() || c == '_', begin) {
                (true, None) => begin = Some(at),
                (false, Some(from)) => {
                    words.push((from, code[from..at].to_string()));
                    begin = None;
                }
                _ => {}
            }
        }
        words
    };
    for (at, word) in words(&code) {
        if NAMES.contains(&word.as_str()) {
            found.push((line_of(at), word));
        } else if word == "std" && code[at..].starts_with("std::") {
            let rest = &code[at + 5..];
            let named: Vec<String> = match rest.strip_prefix('{') {
                Some(group) => group_names(group),
                None => {
                    words(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
                        .into_iter()
                        .map(|(_, word)| word)
                        .collect()
                }
            };
            let reaching = named.into_iter().filter(|name| MODULES.contains(&name.as_str()));
            found.extend(reaching.map(|name| (line_of(at), format!("std::{name}"))));
        }
    }
    found
}

/// The first names of the members of a group of imports, which begins behind its brace.
pub fn group_names(group: &str) -> Vec<String> {
    let (mut depth, mut word, mut names, mut first) = (0, String::new(), Vec::new(), true);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut word));
                first = true;
            }
            ':' if depth == 0 => first = false,
            c if depth == 0 && first && (c.is_alphanumeric() || c == '_') => word.push(c),
            _ => {}
        }
    }
    names.push(word);
    names
}

/// `text` with comments and the inside of strings blank; lines stay.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    scan(text, |c, is_text| out.push(if is_text { blank(c) } else { c }));
    out
}

/// The strings of `text` that are not of tests alone, each with the number of its first line.
pub fn texts(text: &str) -> Vec<(usize, String)> {
    // Tests stand at the end of a file, with a line of their own.
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut out: Vec<(usize, String)> = Vec::new();
    let (mut line, mut inside) = (1, false);
    scan(text, |c, is_text| {
        if is_text && !inside {
            out.push((line, String::new()));
        }
        inside = is_text;
        if let Some((_, found)) = out.last_mut().filter(|_| is_text) {
            found.push(c);
        }
        line += usize::from(c == '\n');
    });
    out
}

/// Hands on `text` without comments, character by character, and whether each is inside a string.
fn scan(text: &str, mut each: impl FnMut(char, bool)) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|&c| c != '\n') {
                    chars.next();
                }
            }
            '\'' => {
                // A character; a lifetime has no second quote near.
                let ahead: Vec<char> = chars.clone().take(3).collect();
                let len = match ahead[..] {
                    ['\\', _, '\''] => 3,
                    [_, '\'', ..] => 2,
                    _ => 0,
                };
                (0..len).for_each(|_| _ = chars.next());
                each(' ', false);
            }
            '"' => {
                each('"', false);
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => chars.next().into_iter().for_each(|c| each(c, true)),
                        '"' => break,
                        c => each(c, true),
                    }
                }
                each('"', false);
            }
            c => each(c, false),
        }
    }
}

/// `code` with the items that are compiled for tests alone blank; lines stay.
pub fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (mut depth, mut end) = (0u32, rest.len());
        for (at, c) in rest.char_indices().skip("#[cfg(test)]".len()) {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == '}' || c == ';') {
                end = at + 1;
                break;
            }
        }
        out.extend(rest[..end].chars().filter(|&c| c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_out_is_found_by_its_line() {
        let text = "use std::{collections::BTreeMap, fs::{self, File}, io};\n\
                    fn f() { let at = std::time::Instant::now(); }\n\
                    type T = HashMap<u8, u8>;\n\
                    fn g() -> String { std::env::var(\"A\").unwrap() }\n";
        let found = reaches_out(text);
        let want = [(1, "std::fs"), (2, "std::time"), (3, "HashMap"), (4, "std::env")];
        assert_eq!(found, want.map(|(line, what)| (line, what.to_string())));
    }

    #[test]
    fn a_planner_that_looks_at_the_clock_is_found_by_its_line() {
        let text = "use nandu_base::Cx; // no Instant\nfn f(cx: &Cx<'_>) {\n    let at = cx.now;\n}\nstruct S { span: Span }\n";
        assert_eq!(times_in(text), [3, 5]);
    }

    #[test]
    fn strings_are_found_by_their_line() {
        let text = "// \"no\"\nlet a = \"one \\\"x\\\"\";\nlet c = '\"';\nf(\"two\", \"\");\n#[cfg(test)]\nmod tests {\n    \"three\"\n}\n";
        assert_eq!(texts(text), [(2, "one \"x\"".to_string()), (4, "two".to_string())]);
    }

    #[test]
    fn words_comments_and_tests_are_no_way_out() {
        let text = "// std::fs\nconst A: &str = \"std::fs HashMap\";\nuse std::fmt;\nfn f<'a>(x: &'a str) -> char { 'x' }\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() {}\n}\n#[cfg(test)]\nmod rig;\nfn last() {}\n";
        assert_eq!(reaches_out(text), []);
        assert_eq!(reaches_out(&format!("{text}use std::thread;\n")), [(13, "std::thread".to_string())]);
    }
}
