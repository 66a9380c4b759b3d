//! One file for each verb.

pub(crate) mod advise;
mod assemble;
mod check;
pub(crate) mod compare;
mod completions;
mod create;
mod ctl;
mod demo;
mod diff;
mod examine;
mod list;
mod man;
mod mrc;
mod probe;
mod reproduce;
mod run;
mod schema;
mod serve;
pub(crate) mod sweep;
mod trace;
mod verify;

use crate::args::{Cli, Command, OutArgs};
use crate::console::{Console, console};
use crate::failure::Failure;
use crate::{files, output};
use serde::Serialize;

/// Does what the command line asks. Returns the exit code: not 0 only where a command passes on that of another.
pub fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let console = console(cli.quiet);
    if !matches!(cli.command, Command::Serve(_)) {
        crate::memory::keep_freed();
    }
    match cli.command {
        Command::Demo(args) => demo::demo(&args, console),
        Command::Run(args) => run::run(&args, console),
        Command::Compare(args) => compare::compare(&args, console),
        Command::Diff(args) => diff::diff(&args, console),
        Command::Advise(args) => return advise::advise(&args, console),
        Command::Reproduce(args) => reproduce::reproduce(&args, console),
        Command::List(args) => list::list(&args),
        Command::Explain(args) => list::explain(&args),
        Command::Check(args) => check::check(&args),
        Command::Examine(args) => examine::examine(&args),
        Command::Create(args) => create::create(&args),
        Command::Assemble(args) => assemble::assemble(&args, console),
        Command::Schema => schema::schema(),
        Command::Trace(command) => trace::trace(&command, console),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man(args) => man::man(&args),
        Command::Probe(args) => probe::probe(&args, console),
        Command::Verify(args) => verify::verify(&args, console),
        Command::Ctl(args) => ctl::ctl(&args),
        Command::Stop(args) => ctl::stop(&args),
        Command::Sweep(args) => return sweep::sweep(&args, console),
        Command::Serve(args) => return serve::serve(args, cli.quiet),
    }
    .map(|()| 0)
}

/// Writes `value` as JSON to wherever the options want it: to stdout, to a file, to both.
fn give_json(out: &OutArgs, value: &impl Serialize, console: Console) -> Result<(), Failure> {
    if !out.wants_json() {
        return Ok(());
    }
    let text = output::json(value)?;
    if out.json {
        output::print_as_it_is(&text)?;
    }
    if let Some(path) = &out.export_json {
        files::write_file(path, |file| {
            file.write_all(text.as_bytes()).map_err(|e| Failure::unwritable(path, &e))
        })?;
        console.note(format!("JSON written to {}", path.display()));
    }
    Ok(())
}
