//! The program `nandu`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(nandu::run(std::env::args_os()))
}
