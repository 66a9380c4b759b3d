//! `cargo xtask memcheck`: what has `unsafe` in it runs under valgrind's memcheck, which sees each access outside of what was allocated, and each
//! decision on bytes that nobody wrote.
//!
//! The unit tests of the crates with such code, and the program itself, whose allocator is ours, replaying a trace with each read checked. The
//! Python module is left out: its host reads uninitialised memory on purpose.

use crate::programs;
use crate::steps::{End, command, has, root, run, target_dir};
use std::path::PathBuf;
use std::process::Command;

/// Packages, and which of their unit tests: those of the whole would take an hour, and touch no more of it.
const PACKAGES: &[(&str, &str)] =
    &[("nandu-base", ""), ("nandu-ftl", "blocks"), ("nandu-device", "nand"), ("nandu-live", "")];

/// What the program is asked.
const RUN: &str = "--quiet run stacks/small-ssd.toml --trace mixed-zipf --gen requests=20000 --verify";

pub fn check() -> End {
    if !has("valgrind") {
        return End::Skipped("valgrind is not installed".into());
    }
    programs_and_nandu().into()
}

fn programs_and_nandu() -> Result<(), String> {
    for (package, tests) in PACKAGES {
        for program in programs::built(&format!("cargo test --quiet --lib --package {package}"))? {
            let folder = program.command.get_current_dir().map_or_else(root, PathBuf::from);
            let mut check = watched(program.command.get_program());
            check.args(["--test-threads", "1", "--quiet", tests]).current_dir(&folder);
            check.env("CARGO_MANIFEST_DIR", &folder);
            ended(&format!("{} {tests}", program.name), check)?;
        }
    }
    run(command("cargo build --quiet --package nandu-cli")).ok()?;
    let mut check = watched(target_dir().join("debug/nandu").as_os_str());
    check.args(RUN.split(' ')).current_dir(root());
    ended(&format!("nandu {RUN}"), check)
}

fn watched(program: &std::ffi::OsStr) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--leak-check=no", "--error-exitcode=99"]).arg(program);
    valgrind
}

fn ended(name: &str, command: Command) -> Result<(), String> {
    println!("== {name}");
    run(command).ok().map_err(|why| format!("{name}: {why}"))
}
