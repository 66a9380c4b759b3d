//! Steps of a long check: each is named, timed and counted, and a skip says why.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
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
    /// Whether it passed; else why not.
    pub fn ok(self) -> Result<(), String> {
        match self {
            End::Passed => Ok(()),
            End::Failed(why) | End::Skipped(why) => Err(why),
        }
    }

    /// This end, and where it passed that of what comes next.
    pub fn and(self, next: impl FnOnce() -> End) -> End {
        match self {
            End::Passed => next(),
            other => other,
        }
    }
}

impl From<Result<(), String>> for End {
    fn from(result: Result<(), String>) -> End {
        result.map_or_else(End::Failed, |()| End::Passed)
    }
}

/// A step that needs nothing of others: its name, and the check.
pub type Step = (&'static str, fn() -> End);

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
        match &end {
            End::Passed => println!("== {name}: passed in {seconds} s"),
            End::Failed(why) => println!("== {name}: FAILED after {seconds} s: {why}"),
            End::Skipped(why) if self.require_tools => {
                println!("== {name}: FAILED: {why}, and --require tools was given");
            }
            End::Skipped(why) => println!("== {name}: skipped: {why}"),
        }
        self.count(name, end);
    }

    fn count(&mut self, name: &str, end: End) {
        match end {
            End::Passed => self.passed += 1,
            End::Skipped(why) if !self.require_tools => self.skipped.push(format!("{name}: {why}")),
            End::Failed(why) | End::Skipped(why) => self.failed.push(format!("{name}: {why}")),
        }
    }

    /// Takes steps that need nothing of each other, as many at a time as there are processors: each in a process of its own, whose
    /// words are printed when it ends.
    pub fn side_by_side(&mut self, steps: &[Step]) {
        if self.only.is_some() {
            return steps.iter().for_each(|(name, check)| self.step(name, check));
        }
        let require_tools = self.require_tools;
        let ended = Mutex::new(self);
        at_once(steps, |&(name, _)| {
            let (said, end) = apart(name, require_tools);
            let mut steps = ended.lock().expect("nobody panics with it");
            println!("{said}");
            steps.count(name, end);
        });
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
    match check().ok() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cargo xtask {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What `[--no-build] [--only WORD]` says: whether to build, and the word. An unknown word is the error.
pub fn build_and_only<'a>(words: &[&'a str]) -> Result<(bool, Option<&'a str>), String> {
    let (mut builds, mut only) = (true, None);
    let mut rest = words;
    loop {
        rest = match rest {
            [] => return Ok((builds, only)),
            ["--no-build", tail @ ..] => {
                builds = false;
                tail
            }
            ["--only", word, tail @ ..] => {
                only = Some(word);
                tail
            }
            [word, ..] => return Err((*word).to_string()),
        };
    }
}

/// Processors of the machine.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for each item, for as many at a time as there are processors, begun in their order.
pub fn at_once<T: Send>(items: impl IntoIterator<Item = T, IntoIter: Send>, work: impl Fn(T) + Sync) {
    let waiting = Mutex::new(items.into_iter());
    let worker = || {
        let next = || waiting.lock().expect("nobody panics with it").next();
        while let Some(item) = next() {
            work(item);
        }
    };
    std::thread::scope(|scope| (0..processors()).for_each(|_| drop(scope.spawn(worker))));
}

/// Takes one step in a process of its own: what it says, and how it ended.
fn apart(name: &str, require_tools: bool) -> (String, End) {
    let mut xtask = match std::env::current_exe() {
        Ok(program) => Command::new(program),
        Err(error) => return (String::new(), End::Failed(error.to_string())),
    };
    xtask
        .args(["test", "--only", name])
        .args(require_tools.then_some(["--require", "tools"]).into_iter().flatten());
    let output = match xtask.current_dir(root()).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return (String::new(), End::Failed(error.to_string())),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // What it says last is how it ended, which is said again for all steps together.
    let why = |word: &str| {
        text.lines().find_map(|line| {
            Some(line.strip_prefix(word)?.strip_prefix(name)?.strip_prefix(": ")?.to_string())
        })
    };
    let end = match (why("FAILED: "), why("skipped: ")) {
        (Some(why), _) => End::Failed(why),
        (None, Some(why)) => End::Skipped(why),
        (None, None) if output.status.success() && text.lines().any(|line| line.starts_with("1 passed")) => {
            End::Passed
        }
        (None, None) => End::Failed(format!("no step of this name passed; it ended with {}", output.status)),
    };
    let counts = |line: &&str| {
        !["FAILED: ", "skipped: ", "1 passed", "0 passed"].iter().any(|word| line.starts_with(word))
    };
    (text.lines().filter(counts).collect::<Vec<_>>().join("\n"), end)
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
