//! The tests that a drawn bug is asked by: of each crate that has a machine, and of those that run all machines.
//!
//! Each test is a process of its own. A run with no bug on ([`look`]) notes how long it takes and which bugs it reaches: the switch of a bug
//! writes down that it would have changed something. A test that reaches no place of a bug cannot find it and is not run for it; the others
//! are, one program after the other and the quickest first, until one fails. Both are noted under `target/mutants`, so that a run that is
//! stopped goes on.

use super::tree::{self, Ended};
use super::{REACHED, folder};
use crate::programs::{self, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Instant, UNIX_EPOCH};

/// One test: how long it takes, and the numbers of the bugs whose places it reaches.
struct Test {
    name: String,
    /// What it is called in tables: with the moment at which its program was built.
    key: String,
    millis: u64,
    passes: bool,
    reaches: BTreeSet<u32>,
}

/// What the tests say of a bug.
pub enum Said {
    /// This one fails with it.
    Found(String),
    /// All that reach it pass; how many they are.
    Nothing(usize),
}

/// The time limit of a test in seconds, over ten times what it takes.
const PATIENCE: u64 = 20;

/// Asks the tests of `packages`, those of the first ones first, for the bugs `waiting`; `tell` hears what they say. False when there was no
/// time for all: then what is still waiting has not been told.
pub fn ask(
    packages: &[&str],
    mut waiting: BTreeSet<u32>,
    until: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(u32, Said) -> Result<(), String>,
) -> Result<bool, String> {
    let mut words = vec!["test", "--quiet", "--lib", "--tests"];
    packages.iter().for_each(|package| words.extend(["--package", package]));
    let mut programs = programs::built_by(tree::cargo_command(&words))?;
    let package = |program: &Program| {
        let name = program.name.split(':').next().unwrap_or_default().to_string();
        packages.iter().position(|package| package.trim_start_matches("nandu-") == name)
    };
    programs.sort_by_key(package);
    let text = fs::read_to_string(folder().join("asked.tsv")).unwrap_or_default();
    let pair = |line: &str| line.split_once('\t').and_then(|(key, n)| Some((key.into(), n.parse().ok()?)));
    let asked: BTreeSet<(String, u32)> = text.lines().filter_map(pair).collect();
    let mut passed: BTreeMap<u32, usize> = BTreeMap::new();
    for program in &programs {
        let Some(tests) = look(program, until)? else { return Ok(false) };
        println!("{}: {} tests for {} bugs", program.name, tests.len(), waiting.len());
        for number in waiting.clone() {
            for test in tests.iter().filter(|test| test.reaches.contains(&number)) {
                *passed.entry(number).or_default() += 1;
                if asked.contains(&(test.key.clone(), number)) {
                    continue;
                }
                if until() {
                    return Ok(false);
                }
                let patience = PATIENCE + test.millis / 100;
                let name = format!("test {} {}", program.name, test.name);
                let by = match tree::watch(one(&program.command, &test.name), number, patience)? {
                    Ended::Well(_) => {
                        append("asked.tsv", &format!("{}\t{number}", test.key))?;
                        continue;
                    }
                    Ended::Never => format!("{name}: no end"),
                    Ended::Badly(_) => name,
                };
                waiting.remove(&number);
                tell(number, Said::Found(by))?;
                break;
            }
        }
    }
    for number in waiting {
        tell(number, Said::Nothing(passed.get(&number).copied().unwrap_or(0)))?;
    }
    Ok(true)
}

/// Runs each test of a program once with no bug on; those that pass, the quickest first. Nothing when there was no time for all.
fn look(program: &Program, until: &dyn Fn() -> bool) -> Result<Option<Vec<Test>>, String> {
    let known = known();
    let built = built_at(&program.command)?;
    let mut tests = Vec::new();
    for name in names(&program.command)? {
        let key = format!("{} {name} {built}", program.name);
        let row = match known.get(&key) {
            Some(row) => row.clone(),
            None if until() => return Ok(None),
            None => {
                let row = reach(&program.command, &name)?;
                append("reached.tsv", &format!("{key}\t{row}"))?;
                row
            }
        };
        tests.extend(Test::read(name, key, &row));
    }
    for test in tests.iter().filter(|test| !test.passes) {
        println!("{} {} fails without a bug: left out", program.name, test.name);
    }
    tests.retain(|test| test.passes);
    tests.sort_by(|a, b| a.millis.cmp(&b.millis).then(a.key.cmp(&b.key)));
    Ok(Some(tests))
}

impl Test {
    fn read(name: String, key: String, row: &str) -> Option<Test> {
        let mut fields = row.split('\t');
        let (millis, passes) = (fields.next()?.parse().ok()?, fields.next()? == "passes");
        let reaches = fields.next()?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        Some(Test { name, key, millis, passes, reaches })
    }
}

/// Names of the tests in a program that are not left out as a rule.
fn names(program: &Command) -> Result<Vec<String>, String> {
    let list = |more: &[&str]| {
        let mut list = again(program);
        list.args(["--list", "--format", "terse"]).args(more);
        let output = list.output().map_err(|error| format!("{:?}: {error}", program.get_program()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = |line: &str| line.strip_suffix(": test").map(str::to_string);
        Ok::<BTreeSet<String>, String>(said.lines().filter_map(name).collect())
    };
    let ignored = list(&["--ignored"])?;
    Ok(list(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect())
}

/// The moment at which a program was built.
fn built_at(program: &Command) -> Result<u128, String> {
    let path = program.get_program();
    let modified = fs::metadata(path).and_then(|file| file.modified());
    let modified = modified.map_err(|error| format!("{}: {error}", path.to_string_lossy()))?;
    Ok(modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis()))
}

/// One test of a program; what is drawn in it is always the same.
fn one(program: &Command, name: &str) -> Command {
    let mut command = again(program);
    command.args(["--exact", name]).env(programs::DRAWN_FROM.0, programs::DRAWN_FROM.1);
    command
}

/// Runs a test with no bug on: its row of the table.
fn reach(program: &Command, name: &str) -> Result<String, String> {
    let notes = folder().join("reached");
    let _ = fs::remove_file(&notes);
    let mut command = one(program, name);
    command.env(REACHED, &notes);
    let begun = Instant::now();
    let passes = matches!(tree::watch(command, 0, 600)?, Ended::Well(said) if said.contains("1 passed"));
    let millis = begun.elapsed().as_millis();
    let numbers: BTreeSet<u32> =
        fs::read_to_string(&notes).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect();
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    Ok(format!("{millis}\t{}\t{}", if passes { "passes" } else { "fails" }, numbers.join(" ")))
}

/// What was noted of each test.
fn known() -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder().join("reached.tsv")).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('\t')).map(|(key, row)| (key.into(), row.into())).collect()
}

fn append(name: &str, line: &str) -> Result<(), String> {
    let path = folder().join(name);
    let file = fs::File::options().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The same command once more.
fn again(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        copy.current_dir(folder);
    }
    copy
}
