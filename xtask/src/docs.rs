//! Documented commands, run as they stand.
//!
//! In README.md and in every Markdown file of `docs` and `experiments`, each line of a `console` block that begins with `$ ` is a
//! command, and the lines up to the next one are what it prints. A line of three dots stands for any lines. Commands run in
//! the root of the checkout, in the order of the file; `nandu` and `cargo run --release --` are the program as it is released.
//! Commands that fetch, build or test the project itself are not run again.
//!
//! A page of `docs/tutorial`, and the runbook, is followed as a newcomer follows it, in an empty folder: a block whose first line names a file after its language
//! (as `toml mine.toml`) is saved under that name before the commands run. Where a tool that it uses is not installed, the page is passed over
//! from there on, and says so.
//!
//! `--update` makes the pages of [`mod@reference`] anew, and puts what the commands print now in place of what the documents say. Lines of three dots stay: the new lines
//! are laid along the old ones at the least cost of changed, added and dropped lines, where dots take any lines for nothing.

use crate::files::{self, shown};
use crate::reference;
use crate::steps::{End, alone, has, release_build, released, root, run, target_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Beginnings of commands that are left out.
const NOT_RUN: &[&str] = &["git clone", "cd ", "cargo xtask", "cargo build", "cargo install"];

/// Programs of others that tutorials use; `cargo xtask test` installs what is not in every Linux.
const TOOLS: &[&str] = &["nbdcopy", "nbdinfo", "qemu-img", "mkfs.ext4"];

/// Pages beside tutorials whose commands follow on each other, in a folder of their own.
const FOLLOWED: &[&str] = &["docs/how-to/runbook.md"];

/// What the program says of an option that had another name.
const OLD_NAME: &str = "goes with the next version";

/// What stands for any lines.
const DOTS: &str = "...";

struct Example {
    /// Where it runs.
    folder: PathBuf,
    /// Number of its line in the file, from 0.
    at: usize,
    place: String,
    line: String,
    expected: Vec<String>,
}

impl Example {
    fn expects(&self) -> Vec<&str> {
        self.expected.iter().map(|l| l.trim_end()).collect()
    }
}

/// `cargo xtask docs [--update] [--no-build] [--reference | FILE...]`: the documented commands, of all files or of those named, and the pages of
/// [`mod@reference`]; or these alone.
pub fn only(words: &[&str]) -> Result<ExitCode, String> {
    let (options, named): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.starts_with('-'));
    if let Some(other) = options.iter().find(|o| !["--update", "--no-build", "--reference"].contains(*o)) {
        return Err((*other).into());
    }
    let mut files = markdown_files();
    if !named.is_empty() {
        let wanted: Vec<PathBuf> = named.iter().map(|name| root().join(name)).collect();
        if let Some(index) = wanted.iter().position(|path| !files.contains(path)) {
            return Err(named[index].into());
        }
        files.retain(|file| wanted.contains(file));
    }
    let built = match options.contains(&"--no-build") {
        true => End::Passed,
        false => run(release_build()),
    };
    let update_wanted = options.contains(&"--update");
    let pages = if update_wanted { reference::update } else { reference::check };
    let commands = || if update_wanted { update(&files) } else { check_files(&files) };
    let end = built.and(|| match (options.contains(&"--reference"), named.is_empty()) {
        (true, _) => pages(),
        (false, true) => commands().and(pages),
        (false, false) => commands(),
    });
    Ok(alone("docs", || end))
}

/// Runs every documented command, and compares the pages that are made from the registry and the parser.
pub fn check() -> End {
    check_files(&markdown_files()).and(reference::check)
}

fn check_files(files: &[PathBuf]) -> End {
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files {
        for example in runnable(&read(file), file) {
            count += 1;
            println!("   {}: {}", example.place, example.line);
            if let Err(why) = compare(&example) {
                println!("{why}");
                wrong.push(format!("{}: {}", example.place, example.line));
            }
        }
    }
    if count == 0 {
        End::Failed("no command is documented there".into())
    } else if wrong.is_empty() {
        End::Passed
    } else {
        End::Failed(format!(
            "{} of {count} documented commands do not do what is printed: {}",
            wrong.len(),
            wrong.join("; ")
        ))
    }
}

/// Puts what the commands print now into the documents. A command that fails is named, and its block stays.
fn update(files: &[PathBuf]) -> End {
    let (mut failed, mut changed) = (Vec::new(), 0);
    for file in files {
        let text = read(file);
        let mut renewed = Vec::new();
        for example in runnable(&text, file) {
            println!("   {}: {}", example.place, example.line);
            match printed(&example) {
                Ok(now) => renewed.push((example, now)),
                Err(why) => {
                    println!("{why}");
                    failed.push(format!("{}: {}", example.place, example.line));
                }
            }
        }
        let new = rewrite(&text, &renewed);
        if new != text {
            changed += 1;
            if let Err(why) = files::write(file, &new) {
                return End::Failed(why);
            }
            println!("{}: rewritten; read the text around the changed figures", shown(file));
        }
    }
    println!("{changed} of {} files changed", files.len());
    if failed.is_empty() { End::Passed } else { End::Failed(format!("failed: {}", failed.join("; "))) }
}

/// The text of a document with each example's output laid anew; where nothing has changed, byte for byte the same.
fn rewrite(text: &str, renewed: &[(Example, String)]) -> String {
    let mut lines: Vec<String> = text.split('\n').map(String::from).collect();
    for (example, now) in renewed.iter().rev() {
        let now: Vec<&str> = now.lines().map(str::trim_end).collect();
        let expected = example.expects();
        if expected.is_empty() || matches(&expected, &now) {
            continue;
        }
        let first = example.at + 1;
        lines.splice(first..first + expected.len(), lay(&expected, &now));
    }
    lines.join("\n")
}

fn read(file: &Path) -> String {
    files::read(file).unwrap_or_default()
}

fn markdown_files() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("experiments"), root().join("docs")];
    while let Some(folder) = folders.pop() {
        for path in files::list(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The examples of a document that are run. The folder of a tutorial is made anew, with the files that the page says to save.
fn runnable(text: &str, file: &Path) -> Vec<Example> {
    let left_out = |line: &str| NOT_RUN.iter().any(|prefix| line.starts_with(prefix));
    let mut out: Vec<Example> =
        examples(text, &shown(file)).into_iter().filter(|e| !left_out(&e.line)).collect();
    let is_followed = FOLLOWED.iter().any(|page| root().join(page) == file);
    if is_followed || file.starts_with(root().join("docs/tutorial")) {
        let folder = target_dir().join("tutorial").join(file.file_stem().unwrap_or_default());
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("target/tutorial can be written");
        for (name, content) in saved(text) {
            files::write(&folder.join(name), &content).expect("target/tutorial can be written");
        }
        out.iter_mut().for_each(|example| example.folder.clone_from(&folder));
    }
    let missing = |e: &Example| TOOLS.iter().find(|tool| e.line.contains(*tool) && !has(tool));
    if let Some((at, tool)) = out.iter().enumerate().find_map(|(at, e)| Some((at, missing(e)?))) {
        println!("   {}: skipped from here on: {tool} is not installed", out[at].place);
        // What began before must end: its last command is the one that stops it.
        let end = out.pop().filter(|last| last.line.starts_with("nandu stop"));
        out.truncate(at);
        out.extend(end);
    }
    out
}

/// The code of the tutorial on policies is that of the example, which is built and tested.
pub fn own_policy() -> End {
    let (page, file) = ("docs/tutorial/own-policy.md", "examples/own-policies/src/newest.rs");
    let code = saved(&read(&root().join(page))).into_iter().find(|(name, _)| name == "src/newest.rs");
    match code {
        Some((_, code)) if code == read(&root().join(file)) => End::Passed,
        _ => End::Failed(format!("the code of {page} is not that of {file}")),
    }
}

/// Files that a page says to save: blocks whose first line names one after the language. A second block of a name is added to the first.
fn saved(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let (mut inside, mut at) = (false, None);
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            let name = info.split_whitespace().nth(1).filter(|_| !inside);
            inside = !inside;
            at = name.map(|name| match out.iter().position(|(known, _)| known == name) {
                Some(at) => {
                    // What a page adds to a file stands apart from what is there.
                    out[at].1.push('\n');
                    at
                }
                None => {
                    out.push((name.to_string(), String::new()));
                    out.len() - 1
                }
            });
        } else if let Some(at) = at {
            out[at].1.push_str(line);
            out[at].1.push('\n');
        }
    }
    out
}

fn examples(text: &str, name: &str) -> Vec<Example> {
    let mut out: Vec<Example> = Vec::new();
    let (mut inside, mut begun) = (false, false);
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            (inside, begun) = (line.trim() == "```console", false);
        } else if inside {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    let place = format!("{name}:{}", at + 1);
                    out.push(Example {
                        folder: root(),
                        at,
                        place,
                        line: command.into(),
                        expected: Vec::new(),
                    });
                    begun = true;
                }
                None if begun => out.iter_mut().last().into_iter().for_each(|e| e.expected.push(line.into())),
                None => {}
            }
        }
    }
    out
}

/// What a command prints; the error says how it failed.
fn printed(example: &Example) -> Result<String, String> {
    let line = example.line.replace("cargo run --release --", "nandu");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(&example.folder)
        .env("PATH", format!("{}:{path}", released().display()))
        .output()
        .map_err(|e| e.to_string())?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    // How far a command is, and when it says so, depends on the machine.
    let said = String::from_utf8_lossy(&output.stderr);
    let mut is_progress = false;
    for line in said.split_inclusive('\n') {
        // A line that is too long goes on below, indented.
        is_progress = line.starts_with("progress: ") || is_progress && line.starts_with("    ");
        if !is_progress {
            text.push_str(line);
        }
    }
    match output.status.success() {
        true if text.contains(OLD_NAME) => Err(format!("uses a name of the version before:\n{text}")),
        true => Ok(text),
        false => Err(format!("ended with {}:\n{text}", output.status)),
    }
}

fn compare(example: &Example) -> Result<(), String> {
    let text = printed(example)?;
    let now: Vec<&str> = text.lines().map(str::trim_end).collect();
    let expected = example.expects();
    if expected.is_empty() || matches(&expected, &now) {
        Ok(())
    } else {
        Err(format!("prints\n{text}\nbut the document says\n{}", expected.join("\n")))
    }
}

/// Whether `printed` is what `expected` says, three dots standing for any lines.
fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&DOTS, rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((line, rest)) => printed.first() == Some(line) && matches(rest, &printed[1..]),
    }
}

/// What one added or dropped line costs; a changed line costs less the more it has in common with the old one.
const WHOLE: u32 = 1000;

/// The lines of `now` in the form of `old`: dots stay where they stand for something else than before, or for nothing.
fn lay(old: &[&str], now: &[&str]) -> Vec<String> {
    let (rows, columns) = (old.len() + 1, now.len() + 1);
    // cost[i][j]: the least cost of laying now[j..] along old[i..].
    let mut cost = vec![vec![0u32; columns]; rows];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            cost[i][j] =
                ways(old, now, i, j).map(|(way, own)| own + way.rest(&cost, i, j)).min().unwrap_or(0);
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    while let Some((way, _)) = ways(old, now, i, j).min_by_key(|(way, own)| own + way.rest(&cost, i, j)) {
        match way {
            Way::Change | Way::Add => out.push(now[j].to_string()),
            Way::Pass => out.push(DOTS.into()),
            Way::Take | Way::Drop => {}
        }
        (i, j) = way.next(i, j);
    }
    out
}

/// What becomes of the next old and the next new line.
#[derive(Clone, Copy)]
enum Way {
    /// The new line in place of the old one.
    Change,
    /// The new line is shown beside the old ones.
    Add,
    /// The old line goes.
    Drop,
    /// The dots stand for the new line too.
    Take,
    /// The dots end.
    Pass,
}

impl Way {
    fn next(self, i: usize, j: usize) -> (usize, usize) {
        match self {
            Way::Change => (i + 1, j + 1),
            Way::Add | Way::Take => (i, j + 1),
            Way::Drop | Way::Pass => (i + 1, j),
        }
    }

    fn rest(self, cost: &[Vec<u32>], i: usize, j: usize) -> u32 {
        let (i, j) = self.next(i, j);
        cost[i][j]
    }
}

/// What can be done at old line `i` and new line `j`, each with its own cost.
fn ways(old: &[&str], now: &[&str], i: usize, j: usize) -> impl Iterator<Item = (Way, u32)> {
    let dots = old.get(i) == Some(&DOTS);
    let (was, is) = (old.get(i).filter(|_| !dots), now.get(j));
    let change = was.zip(is).and_then(|(was, is)| Some((Way::Change, difference(was, is)?)));
    let drop = was.map(|_| (Way::Drop, WHOLE));
    let pass = dots.then_some((Way::Pass, 0));
    let take = is.filter(|_| dots).map(|_| (Way::Take, 0));
    let add = is.filter(|_| !dots).map(|_| (Way::Add, WHOLE));
    [change, pass, take, drop, add].into_iter().flatten()
}

/// How unlike two lines are, up to [`WHOLE`]; `None` when they have too little in common to be the same line with other figures.
/// Words count, and figures a little; the first word, the name of a row, counts most.
fn difference(was: &str, is: &str) -> Option<u32> {
    if was == is {
        return Some(0);
    }
    let (was, is): (Vec<&str>, Vec<&str>) =
        (was.split_whitespace().collect(), is.split_whitespace().collect());
    let figure = |word: &str| word.bytes().any(|b| b.is_ascii_digit());
    let weight = |word: &str| if figure(word) { 1 } else { 4 };
    let first = |line: &[&str]| line.first().map_or(0, |word| weight(word) + 4);
    let rest = |line: &[&str]| line.iter().skip(1).map(|word| weight(word)).sum::<u32>();
    let all = first(&was) + rest(&was) + first(&is) + rest(&is);
    let mut common = if was.first() == is.first() { 2 * first(&was) } else { 0 };
    let mut left: Vec<&str> = is.iter().skip(1).copied().collect();
    for word in was.iter().skip(1) {
        let same = left.iter().position(|other| other == word);
        let like = same.or_else(|| left.iter().position(|other| figure(word) && figure(other)));
        if let Some(index) = like {
            common += 2 * weight(word);
            left.remove(index);
        }
    }
    // Lines that are the same but for figures are never free: one that is equal goes first.
    (2 * common >= all).then(|| ((all - common.min(all)) * WHOLE / all.max(1)).max(1))
}

/// All pages, also those without documented commands.
pub fn documents() -> Vec<PathBuf> {
    let mut pages = markdown_files();
    pages.extend(
        ["CHANGELOG.md", "CONTRIBUTING.md", "examples/own-policies/README.md"].map(|name| root().join(name)),
    );
    pages
}

/// The text of a page with what its links lead to, outside of code, as `to` says.
pub fn relinked(text: &str, mut to: impl FnMut(&str) -> String) -> String {
    let mut inside = false;
    let mut line = |line: &str| {
        let fence = line.starts_with("```");
        inside ^= fence;
        if inside || fence {
            return line.to_string();
        }
        let mut piece = |(at, piece): (usize, &str)| {
            let mut parts = piece.split("](").filter(|_| at % 2 == 0);
            let Some(first) = parts.next() else { return piece.to_string() };
            let link = |part: &str| match part.split_once(')') {
                Some((link, rest)) => format!("]({}){rest}", to(link)),
                None => format!("]({part}"),
            };
            first.to_string() + &parts.map(link).collect::<String>()
        };
        line.split('`').enumerate().map(&mut piece).collect::<Vec<_>>().join("`")
    };
    text.split('\n').map(&mut line).collect::<Vec<_>>().join("\n")
}

/// Every link to a file of the checkout leads to that file, and to a heading of it where it names one.
pub fn links() -> End {
    let wrong: Vec<String> = documents().iter().flat_map(|file| broken(file)).collect();
    if wrong.is_empty() { End::Passed } else { End::Failed(wrong.join("; ")) }
}

fn broken(file: &Path) -> Vec<String> {
    let here = file.parent().unwrap_or(Path::new("."));
    let mut out = Vec::new();
    for target in targets(&read(file)) {
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        if path.contains("://") {
            continue;
        }
        let to = if path.is_empty() { file.to_path_buf() } else { here.join(path) };
        if !to.exists() || (!anchor.is_empty() && !anchors(&read(&to)).any(|a| a == anchor)) {
            out.push(format!("{}: {target} leads nowhere", shown(file)));
        }
    }
    out
}

/// What a page links to, outside of code.
fn targets(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    relinked(text, |to| {
        out.push(to.to_string());
        String::new()
    });
    out
}

/// Anchors of a page's headings, as renderers name them.
fn anchors(text: &str) -> impl Iterator<Item = String> + '_ {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(matches(&["a", "...", "c"], &["a", "x", "y", "c"]));
        assert!(matches(&["a", "..."], &["a"]));
        assert!(!matches(&["a", "...", "c"], &["a", "x"]));
        assert!(!matches(&["a"], &["a", "b"]));
    }

    fn laid(old: &[&str], now: &[&str]) -> Vec<String> {
        let out = lay(old, now);
        assert!(matches(&out.iter().map(String::as_str).collect::<Vec<_>>(), now), "{out:?}");
        out
    }

    #[test]
    fn new_figures_go_where_the_old_ones_were_and_dots_stay() {
        let old = ["...", "stack  mean", "ssd    3.21 ms  baseline", "...", "2 stacks", "..."];
        let now = [
            "a remark",
            "stack   mean",
            "ssd    13.21 ms  baseline",
            "hdd     9 ms  best",
            "2 stacks",
            "end",
        ];
        assert_eq!(
            laid(&old, &now),
            ["...", "stack   mean", "ssd    13.21 ms  baseline", "...", "2 stacks", "..."]
        );
    }

    #[test]
    fn the_row_that_was_shown_is_shown() {
        let old = ["...", "beta  5  7.1 reproduced", "..."];
        let now = ["alpha  5  7.1 reproduced", "beta  6  9.9 direction only", "gamma  5  7.1 reproduced"];
        assert_eq!(laid(&old, &now), ["...", "beta  6  9.9 direction only", "..."]);
    }

    #[test]
    fn lines_without_dots_beside_them_come_and_go() {
        let now = ["head", "one    1 ms", "two    2 ms", "three  3 ms"];
        assert_eq!(laid(&["head", "one    4 ms", "three  4 ms"], &now), now);
        assert_eq!(laid(&now, &["head", "three  4 ms"]), ["head", "three  4 ms"]);
        assert_eq!(laid(&["gone entirely"], &["something else"]), ["something else"]);
    }

    #[test]
    fn links_are_those_of_the_prose_and_headings_have_anchors() {
        let text = "a [b](c.md#d) and `[x](y)`\n```sh\n[e](f)\n```\n[g](#h)\n";
        assert_eq!(targets(text), ["c.md#d", "#h"]);
        let want = "a [b](C.MD#D) and `[x](y)`\n```sh\n[e](f)\n```\n[g](#H)\n";
        assert_eq!(relinked(text, str::to_uppercase), want);
        let text = "# One\n## What *comes* out, and `why` (C1-1)\n";
        assert_eq!(anchors(text).collect::<Vec<_>>(), ["one", "what-comes-out-and-why-c1-1"]);
    }

    #[test]
    fn files_that_a_page_names_are_saved() {
        let text = "```toml a.toml\nx = 1\n```\n\n```toml\ny = 2\n```\n```console\n$ one\n```\n```text b c\nz\n\n```\n";
        let kept =
            [("a.toml", "x = 1\n"), ("b", "z\n\n")].map(|(name, text)| (name.to_string(), text.to_string()));
        assert_eq!(saved(text), kept);
    }

    #[test]
    fn only_the_blocks_that_differ_are_rewritten() {
        let text =
            "# T\n\n```console\n$ one\nx 1\n...\n$ two\ny 2\n```\n\nEnd.\n\n```console\n$ three\n```\n";
        let renewed: Vec<(Example, String)> = examples(text, "t.md")
            .into_iter()
            .zip(["x 7\nmore\n", "y 2\n", "said nothing of\n"].map(String::from))
            .collect();
        assert_eq!(renewed[1].0.place, "t.md:7");
        assert_eq!(rewrite(text, &renewed), text.replace("x 1", "x 7"));
        assert_eq!(rewrite(text, &[]), text);
    }
}
