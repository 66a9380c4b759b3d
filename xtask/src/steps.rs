//! Steps of a long check: each is named, timed and counted, and a skip says why.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// How a step ended.
pub enum End {
    /// It holds.
    Passed,
    /// It does not; why.
    Failed(String),
    /// It could not be tried; why.
    Skipped(String),
}

impl End {
    /// This end, and where it passed that of what comes next.
    pub fn and(self, next: impl FnOnce() -> End) -> End {
        match self {
            End::Passed => next(),
            other => other,
        }
    }
}

/// Counts of steps so far.
pub struct Steps {
    passed: u32,
    failed: Vec<String>,
    skipped: Vec<String>,
    /// Whether a missing tool is a failure.
    pub require_tools: bool,
    /// Only steps whose name has this in it.
    pub only: Option<String>,
}

impl Steps {
    /// None taken yet.
    pub fn new(require_tools: bool, only: Option<String>) -> Steps {
        Steps { passed: 0, failed: Vec::new(), skipped: Vec::new(), require_tools, only }
    }

    /// Takes one step.
    pub fn step(&mut self, name: &str, check: impl FnOnce() -> End) {
        if !self.takes(name) {
            return;
        }
        println!("== {name}");
        let begun = Instant::now();
        let end = check();
        let seconds = begun.elapsed().as_secs();
        match end {
            End::Passed => {
                self.passed += 1;
                println!("== {name}: passed in {seconds} s");
            }
            End::Failed(why) => {
                println!("== {name}: FAILED after {seconds} s: {why}");
                self.failed.push(format!("{name}: {why}"));
            }
            End::Skipped(why) if self.require_tools => {
                println!("== {name}: FAILED: {why}, and --require tools was given");
                self.failed.push(format!("{name}: {why}"));
            }
            End::Skipped(why) => {
                println!("== {name}: skipped: {why}");
                self.skipped.push(format!("{name}: {why}"));
            }
        }
    }

    /// Whether the step of this name is taken.
    pub fn takes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// The closing lines and the exit code.
    pub fn close(self) -> ExitCode {
        for line in &self.skipped {
            println!("skipped: {line}");
        }
        for line in &self.failed {
            println!("FAILED: {line}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len());
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// One check by itself, as a command of its own.
pub fn alone(name: &str, check: impl FnOnce() -> End) -> ExitCode {
    match check() {
        End::Passed => ExitCode::SUCCESS,
        End::Failed(why) | End::Skipped(why) => {
            eprintln!("cargo xtask {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout").into()
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the program lies as it is released: one build for the documented commands, the seeds and the counts.
pub fn released() -> PathBuf {
    target_dir().join("dist")
}

/// Where recordings lie, which are not part of the project.
pub fn traces() -> PathBuf {
    std::env::var_os("NANDU_TRACES").map_or_else(|| root().join("../shared/traces"), PathBuf::from)
}

/// What builds the program as it is released.
pub fn release_build() -> Command {
    command("cargo build --quiet --profile dist --package nandu-cli")
}

/// A command in the root of the checkout.
pub fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a command has a name"));
    command.args(words).current_dir(root());
    command
}

/// Runs a command to its end; its output goes where ours goes.
pub fn run(mut command: Command) -> End {
    match command.status() {
        Ok(status) if status.success() => End::Passed,
        Ok(status) => End::Failed(format!("{} ended with {status}", command.get_program().to_string_lossy())),
        Err(error) => End::Failed(format!("{}: {error}", command.get_program().to_string_lossy())),
    }
}

/// Whether a program can be found.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
