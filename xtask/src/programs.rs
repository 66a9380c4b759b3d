//! The test programs of the workspace, as many at a time as there are processors.
//!
//! cargo runs them one after the other. Many of them wait, for a server or for a clock of its own, and others end with one
//! slow test: a processor stands still beside them.

use crate::json::{self, Json};
use crate::steps::{End, at_once, command, processors};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// What is built and run.
const TESTS: &str = "cargo test --workspace --features nandu-live/tls --quiet";

/// The test beside which cargo builds the module for Python.
const BESIDE_MODULE: &str = "module";

/// The variable that tells property tests where to begin to draw, and where they begin here: a push fails for what it changes, and
/// not for what happened to be drawn. `cargo test` draws anew each time, and a value that is set already stays.
pub const DRAWN_FROM: (&str, &str) = ("PROPTEST_RNG_SEED", "20");

/// A test program, or cargo with the examples of the public docs.
pub struct Program {
    pub name: String,
    pub command: Command,
}

/// Builds the tests and runs them all, also after a failure. With `require_tools` a test fails that would skip for want of a
/// tool.
pub fn check(require_tools: bool) -> End {
    let mut programs = match built(TESTS) {
        Ok(programs) => programs,
        Err(why) => return End::Failed(why),
    };
    let examples = command(&format!("{TESTS} --doc"));
    programs.push(Program { name: "examples of the public docs".into(), command: examples });
    let failed = Mutex::new(Vec::new());
    at_once(programs, |Program { name, mut command }| {
        command.env("RUST_TEST_THREADS", processors().to_string()).stdin(Stdio::null());
        if std::env::var_os(DRAWN_FROM.0).is_none() {
            command.env(DRAWN_FROM.0, DRAWN_FROM.1);
        }
        if require_tools {
            // Tests that skip for want of a tool read this.
            command.env("NANDU_REQUIRE_TOOLS", "1");
        }
        let begun = Instant::now();
        let output = command.output();
        let mut failed = failed.lock().expect("nobody panics with it");
        if !told(&name, begun, output) {
            failed.push(name);
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    if failed.is_empty() { End::Passed } else { End::Failed(failed.join(", ")) }
}

/// Prints what a program said: all of it if it failed, else how its tests ended. Whether it passed.
fn told(name: &str, begun: Instant, output: std::io::Result<Output>) -> bool {
    let seconds = begun.elapsed().as_secs_f64();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("{seconds:>6.1} s  {name}: {error}");
            return false;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success();
    println!("{seconds:>6.1} s  {name}{}", if passed { "" } else { ": FAILED" });
    let ends = |line: &&str| !passed || line.starts_with("test result");
    text.lines().filter(ends).for_each(|line| println!("          {line}"));
    if !passed {
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
    passed
}

/// Builds the module for Python with the features and the profile of the tests, so that all that it is made of is there already; returns its file.
pub fn module() -> Result<PathBuf, String> {
    let messages = built_as(command(&format!("{TESTS} --test {BESIDE_MODULE}")))?;
    let of_module = messages.iter().filter(|message| message.get("target").get("name").text() == "_nandu");
    let mut files =
        of_module.flat_map(|message| message.get("filenames").list()).map(|file| PathBuf::from(file.text()));
    let is_module =
        |file: &PathBuf| file.extension().is_some_and(|ending| ending == "so" || ending == "dylib");
    let file = files.find(is_module);
    file.ok_or_else(|| "cargo built no module for Python".into())
}

/// Builds the test programs of `tests`, a command of cargo; those with the most in them come first, so that none is left alone at the end.
pub fn built(tests: &str) -> Result<Vec<Program>, String> {
    built_by(command(tests))
}

/// The same of a command that says where it runs.
pub fn built_by(build: Command) -> Result<Vec<Program>, String> {
    let mut found = Vec::new();
    for message in built_as(build)? {
        found.extend(test_program(&message).map(|(name, program, package)| {
            let size = std::fs::metadata(&program).map_or(0, |file| file.len());
            let mut command = Command::new(program);
            // As cargo runs it.
            command.arg("--quiet").current_dir(&package).env("CARGO_MANIFEST_DIR", package);
            (size, Program { name, command })
        }));
    }
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then(first.name.cmp(&second.name)));
    Ok(found.into_iter().map(|(_, program)| program).collect())
}

/// What cargo says of what it built.
fn built_as(mut build: Command) -> Result<Vec<Json>, String> {
    build.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    String::from_utf8_lossy(&output.stdout).lines().map(json::parse).collect()
}

/// Name, file and package's folder of the test program that a message of cargo names, if it names one.
fn test_program(message: &Json) -> Option<(String, PathBuf, PathBuf)> {
    if message.get("reason").text() != "compiler-artifact"
        || message.get("profile").get("test") != &Json::Bool(true)
    {
        return None;
    }
    let program = PathBuf::from(message.get("executable").text());
    let package = Path::new(message.get("manifest_path").text()).parent()?.to_path_buf();
    let target = message.get("target").get("name").text();
    let folder = package.file_name()?.to_string_lossy().into_owned();
    (!program.as_os_str().is_empty()).then(|| (format!("{folder}: {target}"), program, package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_what_cargo_says() {
        let said = |test: bool, executable: &str| {
            let line = format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/x/crates/queue/Cargo.toml\",\
                 \"target\":{{\"name\":\"model\"}},\"profile\":{{\"test\":{test}}},\"executable\":{executable}}}"
            );
            test_program(&json::parse(&line).expect("it is JSON"))
        };
        let want = ("queue: model".to_string(), "/t/model-1".into(), "/x/crates/queue".into());
        assert_eq!(said(true, "\"/t/model-1\""), Some(want));
        assert_eq!((said(false, "\"/t/model-1\""), said(true, "null")), (None, None));
    }
}
