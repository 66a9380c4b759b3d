//! Documented commands, run as they stand.
//!
//! In every Markdown file of the checkout, each line of a `console` block that begins with `$ ` is a command, and the
//! lines up to the next one are what it prints. A line of three dots stands for any lines. Commands run in the root of
//! the order of the file; `nandu` and `cargo run --release --` are the program as it is released: the release build linked
//! as one. Commands that fetch, build or test the project itself are not run again.

use crate::steps::{End, released, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beginnings of commands that are left out.
const NOT_RUN: &[&str] = &["git clone", "cd ", "cargo xtask", "cargo build", "cargo install"];

struct Example {
    place: String,
    line: String,
    expected: Vec<String>,
}

/// Runs every documented command.
pub fn check() -> End {
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in markdown_files() {
        for example in examples(&file) {
            if NOT_RUN.iter().any(|prefix| example.line.starts_with(prefix)) {
                continue;
            }
            count += 1;
            println!("   {}: {}", example.place, example.line);
            if let Err(why) = run(&example) {
                println!("{why}");
                wrong.push(format!("{}: {}", example.place, example.line));
            }
        }
    }
    if wrong.is_empty() && count > 0 {
        End::Passed
    } else {
        End::Failed(format!(
            "{} of {count} documented commands do not do what is printed: {}",
            wrong.len(),
            wrong.join("; ")
        ))
    }
}

fn markdown_files() -> Vec<PathBuf> {
    let mut files = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(&folder).into_iter().flatten().filter_map(|e| e.ok().map(|e| e.path())).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                files.push(path);
            }
        }
    }
    files
}

fn examples(file: &Path) -> Vec<Example> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
    let mut out: Vec<Example> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line.trim() == "```console";
        } else if inside {
            match line.strip_prefix("$ ") {
                Some(command) => out.push(Example {
                    place: format!("{name}:{}", number + 1),
                    line: command.into(),
                    expected: Vec::new(),
                }),
                None => out.iter_mut().last().into_iter().for_each(|e| e.expected.push(line.into())),
            }
        }
    }
    out
}

fn run(example: &Example) -> Result<(), String> {
    let line = example.line.replace("cargo run --release --", "nandu");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", released().display()))
        .output()
        .map_err(|e| e.to_string())?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("ended with {}:\n{text}", output.status));
    }
    let printed: Vec<&str> = text.lines().map(str::trim_end).collect();
    let expected: Vec<&str> = example.expected.iter().map(|l| l.trim_end()).collect();
    if expected.is_empty() || matches(&expected, &printed) {
        Ok(())
    } else {
        Err(format!("prints\n{text}\nbut the document says\n{}", expected.join("\n")))
    }
}

/// Whether `printed` is what `expected` says, three dots standing for any lines.
fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((line, rest)) => printed.first() == Some(line) && matches(rest, &printed[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(matches(&["a", "...", "c"], &["a", "x", "y", "c"]));
        assert!(matches(&["a", "..."], &["a"]));
        assert!(!matches(&["a", "...", "c"], &["a", "x"]));
        assert!(!matches(&["a"], &["a", "b"]));
    }
}
