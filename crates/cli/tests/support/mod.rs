//! Runs the built program.

#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a command did.
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error, each sentence in one line: where a line breaks depends on how long paths are.
    pub err: String,
    /// Standard error as it is written.
    pub said: String,
}

/// The root of the repository: the examples name files from there.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs `nandu` with `args` in `folder`.
pub fn nandu_in(folder: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandu"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("COLUMNS")
        .env("NANDU_CACHE", "off")
        .stdin(Stdio::null());
    done(command.output().expect("the program starts"))
}

/// Runs `nandu` with `args` at the root of the repository.
pub fn nandu(args: &[&str]) -> Ran {
    nandu_in(&root(), args)
}

fn done(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    let said = text(output.stderr);
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: joined(&said), said }
}

/// `said` with the lines joined to those before them that are indented as what goes on is.
pub fn joined(said: &str) -> String {
    let mut out = String::new();
    for line in said.split_inclusive('\n') {
        match line.strip_prefix("    ") {
            Some(more) if out.ends_with('\n') => {
                out.pop();
                out.push(' ');
                out.push_str(more.trim_start_matches(' '));
            }
            _ => out.push_str(line),
        }
    }
    out
}

/// Runs a command that must be done, and returns what it printed.
pub fn good(args: &[&str]) -> String {
    let ran = nandu(args);
    assert_eq!(ran.code, 0, "nandu {}: {}", args.join(" "), ran.err);
    ran.out
}

/// The names of the files in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A recorded trace, or `None` with a printed reason where the traces are not there.
pub fn recorded(name: &str) -> Option<PathBuf> {
    let folder =
        std::env::var_os("NANDU_TRACES").map_or_else(|| root().join("../shared/traces"), PathBuf::from);
    let path = folder.join(name);
    if !path.is_file() {
        eprintln!("skipped: there is no {} (NANDU_TRACES names the folder)", path.display());
        return None;
    }
    Some(path)
}
