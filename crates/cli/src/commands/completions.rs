//! `nandu completions`: a script that makes a shell complete commands and options.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the script of `shell`.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nandu", &mut script);
    output::print_as_it_is(&String::from_utf8_lossy(&script))
}
