//! One file for each verb.

mod check;
mod compare;
mod completions;
mod demo;
mod list;
mod run;
mod schema;
mod trace;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::talk::Talk;

/// Does what the command line asks.
pub fn dispatch(cli: Cli) -> Result<(), Failure> {
    let talk = Talk::new(cli.quiet);
    match cli.command {
        Command::Demo(args) => demo::demo(&args, talk),
        Command::Run(args) => run::run(&args, talk),
        Command::Compare(args) => compare::compare(&args, talk),
        Command::List(args) => list::list(&args),
        Command::Check(args) => check::check(&args),
        Command::Schema => schema::schema(),
        Command::Trace(command) => trace::trace(&command, talk),
        Command::Completions { shell } => completions::completions(shell),
    }
}
