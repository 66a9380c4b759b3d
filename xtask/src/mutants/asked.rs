//! The tests that a drawn bug is asked by: of each crate that has a machine, and of those that run all machines.
//!
//! Each test is a process of its own. One pass with no bug on ([`Tests::look`]) notes how long it takes and which bugs it reaches: the switch
//! of a bug writes down that it would have changed something. A test that reaches no place of a bug cannot find it and is not run
//! for it; the others are, the quickest first, until one fails. Both are noted under `target/mutants`, so that a run that is stopped goes on.

use super::tree::{self, Ended};
use super::{REACHED, folder};
use crate::programs::{self, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Instant, UNIX_EPOCH};

/// One test: its program, how long it takes, and the numbers of the bugs whose places it reaches.
struct Test {
    program: usize,
    name: String,
    /// What it is called in tables: with the moment at which its program was built.
    key: String,
    millis: u64,
    passes: bool,
    reaches: BTreeSet<u32>,
}

/// All of them, the quickest first.
pub struct Tests {
    programs: Vec<Program>,
    tests: Vec<Test>,
    /// Pairs of test and bug that were run, and passed.
    asked: BTreeSet<(String, u32)>,
}

/// What a bug's tests say of it.
pub enum Said {
    /// This one fails with it.
    Found(String),
    /// All that reach it pass; how many they are.
    Nothing(usize),
    /// There was no time for all.
    NotYet,
}

/// Property tests draw the same each time.
const DRAWN_FROM: (&str, &str) = ("PROPTEST_RNG_SEED", "20");

/// The time limit of a test in seconds, over ten times what it takes.
const PATIENCE: u64 = 20;

impl Tests {
    /// Builds the tests of `packages` with the bugs in them, and runs each once with no bug on.
    pub fn look(packages: &BTreeSet<&str>, until: &dyn Fn() -> bool) -> Result<Tests, String> {
        let mut words = vec!["test", "--quiet", "--lib", "--tests"];
        packages.iter().for_each(|package| words.extend(["--package", package]));
        let mut all = Tests {
            programs: programs::built_by(tree::cargo_command(&words))?,
            tests: Vec::new(),
            asked: BTreeSet::new(),
        };
        let known = known();
        println!("{} test programs", all.programs.len());
        for program in 0..all.programs.len() {
            for name in names(&all.programs[program].command)? {
                let key = format!(
                    "{} {name} {}",
                    all.programs[program].name,
                    built_at(&all.programs[program].command)?
                );
                let row = match known.get(&key) {
                    Some(row) => row.clone(),
                    None if until() => continue,
                    None => {
                        let row = reach(&all.programs[program].command, &name)?;
                        append("reached.tsv", &format!("{key}\t{row}"))?;
                        row
                    }
                };
                all.tests.extend(Test::read(program, name, key, &row));
            }
        }
        for test in all.tests.iter().filter(|test| !test.passes) {
            println!("{} {} fails without a bug: left out", all.programs[test.program].name, test.name);
        }
        all.tests.retain(|test| test.passes);
        all.tests.sort_by(|a, b| a.millis.cmp(&b.millis).then(a.key.cmp(&b.key)));
        let text = fs::read_to_string(folder().join("asked.tsv")).unwrap_or_default();
        let pair =
            |line: &str| line.split_once('\t').and_then(|(key, n)| Some((key.into(), n.parse().ok()?)));
        all.asked = text.lines().filter_map(pair).collect();
        Ok(all)
    }

    /// Milliseconds that all tests take that reach bug `number`.
    pub fn cost(&self, number: u32) -> u64 {
        self.tests.iter().filter(|test| test.reaches.contains(&number)).map(|test| test.millis).sum()
    }

    /// Runs the tests that reach bug `number` until one fails.
    pub fn ask(&self, number: u32, until: &dyn Fn() -> bool) -> Result<Said, String> {
        let mut passed = 0;
        for test in self.tests.iter().filter(|test| test.reaches.contains(&number)) {
            let program = &self.programs[test.program];
            passed += 1;
            if self.asked.contains(&(test.key.clone(), number)) {
                continue;
            }
            if until() {
                return Ok(Said::NotYet);
            }
            let patience = PATIENCE + test.millis / 100;
            let name = format!("test {} {}", program.name, test.name);
            match tree::watch(one(&program.command, &test.name), number, patience)? {
                Ended::Well(_) => append("asked.tsv", &format!("{}\t{number}", test.key))?,
                Ended::Never => return Ok(Said::Found(format!("{name}: no end"))),
                Ended::Badly(_) => return Ok(Said::Found(name)),
            }
        }
        Ok(Said::Nothing(passed))
    }
}

impl Test {
    fn read(program: usize, name: String, key: String, row: &str) -> Option<Test> {
        let mut fields = row.split('\t');
        let (millis, passes) = (fields.next()?.parse().ok()?, fields.next()? == "passes");
        let reaches = fields.next()?.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        Some(Test { program, name, key, millis, passes, reaches })
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
    command.args(["--exact", name]).env(DRAWN_FROM.0, DRAWN_FROM.1);
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
