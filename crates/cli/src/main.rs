//! The program `nandu`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(nandu_cli::run(std::env::args_os()))
}
