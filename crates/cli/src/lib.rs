//! The command line of Nandu as a library: [`run`] takes the arguments and returns the exit code.
//!
//! [`args`] is what can be typed, [`commands`] has one file for each verb. Results come from the simulator with stable
//! field names; [`table`] and [`mod@format`] make them readable, [`report`] makes a page of them;
//! [`explain`] looks at single requests. What is computed stands below, in [`nandu_experiment`].
//!
//! Data goes to stdout, all else goes to stderr. Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 no point of a
//! sweep meets its bounds. A file is written under another name and renamed when it is complete, so nothing half-written is left.
//!
//! **What is stable.** From the first release on: the commands of the program, their options, exit codes and JSON. The items of this
//! crate are for the program and for `nandu::main`, and may change in any version.

pub mod args;
pub mod commands;
pub mod console;
pub mod explain;
pub mod files;
pub mod lifetime;
mod memory;
pub mod output;
pub mod probe;
pub mod report;
mod sweep_text;
pub mod table;

use nandu_experiment::{
    Failure, failure, format, open, parallel, plan, race, replay, reproduce, room, source, tenancy, verdict,
};

use clap::Parser;
use nandu_base::Registry;
use std::ffi::OsString;
use std::sync::OnceLock;

/// The run failed.
const FAILED: u8 = 1;
/// The input was wrong.
const INPUT: u8 = 2;
/// Everything was done, and no point of the sweep meets its bounds.
const UNMET: u8 = 3;

/// The exit code of a command that ends with `failure`.
fn code(failure: &Failure) -> u8 {
    if failure.kind.is_input() { INPUT } else { FAILED }
}

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
    let (args, notes) = args::renamed::now(args);
    let say = |quiet| notes.iter().for_each(|note| console::console(quiet).note(note));
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data; everything else is console.
            if error.use_stderr() {
                say(false);
                output::say(format_args!("{}", error.to_string().trim_end()));
                return INPUT;
            }
            let _ = error.print();
            return 0;
        }
    };
    say(cli.quiet);
    match commands::dispatch(cli) {
        Ok(code) => code,
        Err(failure) => {
            output::failure(&failure);
            code(&failure)
        }
    }
}
