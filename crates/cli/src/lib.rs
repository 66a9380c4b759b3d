//! The command line of Nandu as a library: [`run`] takes the arguments and returns the exit code.
//!
//! [`args`] is what can be typed, [`commands`] has one file for each verb. Results come from the simulator with stable
//! field names; [`table`] and [`mod@format`] make them readable, [`verdict`] says in words how two of them compare, and
//! [`report`] makes a page of them; [`explain`] looks at single requests.
//!
//! Data goes to stdout, talk goes to stderr. Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 no point of a
//! sweep meets its bounds. A file is written under another name and renamed when it is complete, so nothing half-written is left.

pub mod args;
pub mod commands;
pub mod explain;
pub mod failure;
pub mod format;
pub mod life;
pub mod open;
pub mod output;
pub mod parallel;
pub mod plan;
pub mod probe;
pub mod report;
pub mod reproduce;
pub mod source;
pub mod table;
pub mod talk;
pub mod tenancy;
pub mod verdict;

pub use failure::Failure;

use clap::Parser;
use nandu_base::Registry;
use std::ffi::OsString;
use std::sync::OnceLock;

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// The machines and policies of this program: what its arguments, lists and stack files may name. A program has one, for the
/// parser of arguments knows no other context; everything below the command line takes a registry as a value.
pub(crate) fn registry() -> &'static Registry {
    REGISTRY.get_or_init(nandu_sim::builtin)
}

/// Runs the program with the machines and policies of `registry`: `builtin().with(...)`. Returns the exit code.
///
/// # Panics
/// A process has run with another registry before.
pub fn run_with(registry: Registry, args: impl IntoIterator<Item = OsString>) -> u8 {
    assert!(REGISTRY.set(registry).is_ok(), "a program has one registry");
    run(args)
}

/// Runs the command line `args`, whose first word is the program's name. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data; everything else is talk.
            let code = if error.use_stderr() { failure::INPUT } else { 0 };
            let _ = error.print();
            return code;
        }
    };
    match commands::dispatch(cli) {
        Ok(code) => code,
        Err(failure) => {
            failure.print();
            failure.code
        }
    }
}
